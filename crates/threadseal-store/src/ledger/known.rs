//! This host's knowledge of a ledger, and the facts that verification needs before it begins.
//!
//! ```text
//! file ─► run of the first record ─► record id ─► HeadStore ─► head to expect, signers to miss
//! ```

use crate::heads::{Durability, RecordKind, StoredHead};
use crate::host::{Host, Published};
use crate::read::{RegularFile, Source};
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::error::Error;
use threadseal_core::key::KeyId;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::Expectation;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::{FileDigest, LineReader, LineSplitter, Place, RunId};

/// Lines that are searched for the first record.
const MAX_LINES_BEFORE_RUN: u64 = 1024;

/// The run whose ledger a file of lines is: that of its first record.
///
/// # Errors
/// Kind `External` when reading fails.
pub fn run_of(mut source: impl Source) -> Result<Option<RunId>, Error> {
    let (mut splitter, mut chunk) = (LineSplitter::new(), Vec::new());
    let (mut found, mut lines, mut reader) = (None, 0, LineReader::new());
    loop {
        source.next_chunk(&mut chunk)?;
        let mut look = |line: &[u8], _: Place| {
            lines += 1;
            if found.is_none() && lines <= MAX_LINES_BEFORE_RUN {
                found = reader.read_line(line).run_id();
            }
        };
        if chunk.is_empty() {
            splitter.finish(&mut look);
            return Ok(found);
        }
        splitter.push(&chunk, &mut look);
        if found.is_some() || lines > MAX_LINES_BEFORE_RUN {
            return Ok(found);
        }
    }
}

/// The digest of the first bytes of a file, `bytes` of them or all that it has.
///
/// # Errors
/// Kind `External` when reading fails.
pub fn digest_of_beginning(file: &RegularFile, bytes: u64) -> Result<FileDigest, Error> {
    let bytes = bytes.min(file.size());
    let (mut chunks, mut chunk) = (file.range(0, bytes), Vec::new());
    let mut hasher = Hasher::new();
    loop {
        chunks.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            let sha256 = hasher.finish();
            return Ok(FileDigest { sha256, bytes });
        }
        hasher.update(&chunk);
    }
}

/// The expectations for a verification.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The head in this host's store.
    pub head: Option<Head>,
    /// The expectations that follow from the head.
    pub expect: Vec<Expectation>,
    /// When it was stored.
    pub updated: Option<Timestamp>,
    /// The names of the keys that signed the ledger then.
    pub signers: Vec<Digest>,
    /// The digests of all signatures up to known heads.
    pub signatures: Vec<(Head, Digest)>,
}

/// This host's knowledge of the ledger with this record id.
///
/// # Errors
/// Kind `External` when the store of heads is damaged.
pub fn known(host: &Host, record: &RecordId) -> Result<Known, Error> {
    let stored = host.heads.fetch(record)?;
    let stored = stored.filter(|stored| stored.kind == RecordKind::Ledger);
    Ok(stored.map_or_else(Known::default, |stored| Known {
        expect: stored.expectations(),
        head: Some(stored.head),
        updated: stored.held_since(),
        signatures: signatures(&stored),
        signers: stored.aliases,
    }))
}

/// The signatures of records that the known heads cover. Heads of earlier versions cover none.
fn signatures(stored: &StoredHead) -> Vec<(Head, Digest)> {
    let logged = stored.logged.as_ref().map(|at| &at.logged);
    let logged = logged.and_then(|logged| Some((logged.head, logged.root?)));
    let own = stored.root.map(|root| (stored.head, root));
    own.into_iter().chain(logged).collect()
}

/// Stores the head of a ledger whose records up to it are durable.
///
/// `signatures` is the digest of all signatures of records up to it, and `key` is the key that signed the head, if one did; `signers` are names of the keys that signed
/// the records ([`threadseal_formats::ledger::signer_name`]).
///
/// # Errors
/// Kind `Refused` when this host knows another continuation, or a later head.
pub fn publish(
    host: &Host,
    head: Head,
    signatures: Option<Digest>,
    key: Option<KeyId>,
    signers: &[Digest],
) -> Result<(), Error> {
    host.publish(&Published {
        head,
        root: signatures,
        key,
        kind: RecordKind::Ledger,
        is_final: false,
        thread: None,
        // Users copy and export ledgers in good faith: no place belongs to one ledger.
        path: None,
        aliases: signers,
        durability: Durability::Durable,
    })
}
