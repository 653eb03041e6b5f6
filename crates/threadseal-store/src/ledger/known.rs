//! This host's knowledge of a ledger, and the facts that verification needs before it begins.
//!
//! ```text
//! file ─► run of the first record ─► record id ─┬─► HeadStore ─► heads to expect, signers to miss
//!                                    and place ─┘                 heads in other places, to note
//! ```

use crate::heads::{Durability, RecordKind, StoredHead};
use crate::host::{Host, Published};
use crate::read::{RegularFile, Source};
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::error::Error;
use threadseal_core::key::KeyId;
use threadseal_core::record::{ExpectedHead, Head, RecordId};
use threadseal_core::report::Expectation;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::{
    FileDigest, LineReader, LineSplitter, Place, RunId, line_of_unsigned, record_in_place,
};

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

/// Most heads of unsigned ledgers of one run in other places that a ledger is compared with.
const MAX_KNOWN_ELSEWHERE: usize = 64;

/// The place of every bundle: no head is bound to it.
pub const BUNDLE: &str = "bundle:";

/// This host's knowledge of one ledger.
///
/// A signed ledger is bound to its run, wherever it is. What is known of an unsigned one is bound to
/// its run and its place together: two programs may use one run id, and no signature distinguishes
/// their ledgers. All heads here name the record of the run, whatever record the store names.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The heads that the ledger must contain.
    bound: Vec<KnownHead>,
    /// Heads of unsigned ledgers of the run in other places.
    elsewhere: Vec<KnownHead>,
    /// The record under which the head of an unsigned ledger in this place is stored.
    pub own: Option<RecordId>,
}

/// A head, and what is stored with it.
#[derive(Debug, Clone)]
struct KnownHead {
    stored: StoredHead,
    /// The record under which it is stored.
    record: RecordId,
    /// Where its ledger is, if that is another place.
    place: String,
}

impl Known {
    /// The newest head that the ledger must contain.
    pub fn head(&self) -> Option<Head> {
        self.newest().map(|known| known.stored.head)
    }

    /// When that head was stored.
    pub fn updated(&self) -> Option<Timestamp> {
        self.newest().and_then(|known| known.stored.held_since())
    }

    /// The record under which that head is stored.
    pub fn stored_as(&self) -> Option<RecordId> {
        self.newest().map(|known| known.record)
    }

    /// The records under which the heads that the ledger must contain are stored, the newest first.
    pub fn records(&self) -> Vec<RecordId> {
        let mut bound: Vec<&KnownHead> = self.bound.iter().collect();
        bound.sort_by_key(|known| std::cmp::Reverse(known.stored.head.size));
        bound.iter().map(|known| known.record).collect()
    }

    fn newest(&self) -> Option<&KnownHead> {
        self.bound.iter().max_by_key(|known| known.stored.head.size)
    }

    /// The heads that the ledger must contain, and what is stored with them.
    pub fn bound(&self) -> impl Iterator<Item = &StoredHead> {
        self.bound.iter().map(|known| &known.stored)
    }

    /// The expectations that follow.
    pub fn expectations(&self) -> Vec<Expectation> {
        let bound = self.bound().flat_map(StoredHead::expectations);
        let elsewhere = self.elsewhere.iter().map(|other| Expectation {
            vouches: other.stored.vouches,
            ..Expectation::elsewhere(ExpectedHead::Head(other.stored.head), &other.place)
        });
        bound.chain(elsewhere).collect()
    }

    /// The records under which heads of unsigned ledgers in other places are stored.
    pub fn stored_elsewhere(&self) -> impl Iterator<Item = (&RecordId, &Head)> {
        let elsewhere = self.elsewhere.iter();
        elsewhere.map(|other| (&other.record, &other.stored.head))
    }

    /// The digests of all signatures of records up to known heads. Heads of earlier versions have
    /// none.
    pub fn signatures(&self) -> Vec<(Head, Digest)> {
        let logged = self.bound().filter_map(|stored| stored.logged.as_ref());
        let logged = logged.filter_map(|at| Some((at.logged.head, at.logged.root?)));
        let own = self
            .bound()
            .filter_map(|stored| Some((stored.head, stored.root?)));
        own.chain(logged).collect()
    }

    /// The names of the keys that signed the ledger when it was known last.
    pub fn signers(&self) -> Vec<Digest> {
        let signed = self.bound().filter(|stored| is_signed(stored));
        signed.flat_map(|stored| stored.aliases.clone()).collect()
    }
}

/// Did a key sign the ledger of this head, or the head itself? The aliases of a signed ledger are
/// the names of its signers.
pub fn is_signed(stored: &StoredHead) -> bool {
    let unsigned = line_of_unsigned(&stored.head.record);
    stored.key.is_some() || stored.aliases.iter().any(|alias| *alias != unsigned)
}

/// This host's knowledge of a ledger in `place`; `run` is the record of its run
/// ([`RunId::record_id`]). Without a place, every head of the run must be in it.
///
/// # Errors
/// Kind `External` when the store of heads is damaged.
pub fn known(host: &Host, run: &RecordId, place: Option<&str>) -> Result<Known, Error> {
    let mut known = Known {
        own: place.map(|place| record_in_place(run, place)),
        ..Known::default()
    };
    if let Some(mut head) = fetch(host, run, run)? {
        // Earlier builds kept the head of an unsigned ledger under its run, and noted its places.
        let places = host.heads.noted_places(run);
        match is_signed(&head.stored) || may_be_one_of(&places, place) {
            true => known.bound.push(head),
            false => {
                head.place = named(&places);
                known.elsewhere.push(head);
            }
        }
    }
    if let Some(own) = &known.own {
        known.bound.extend(fetch(host, own, run)?);
    }
    let others = match place {
        Some(_) => host.heads.find_by_line(&line_of_unsigned(run))?,
        None => Vec::new(),
    };
    let others = others.into_iter().filter(|other| known.own != Some(*other));
    for other in others.take(MAX_KNOWN_ELSEWHERE) {
        if let Some(mut head) = fetch(host, &other, run)? {
            head.place = named(&host.heads.noted_places(&other));
            known.elsewhere.push(head);
        }
    }
    Ok(known)
}

/// The stored head of `record`, as one of the ledger of `run`.
fn fetch(host: &Host, record: &RecordId, run: &RecordId) -> Result<Option<KnownHead>, Error> {
    let stored = host.heads.fetch(record)?;
    let stored = stored.filter(|stored| stored.kind == RecordKind::Ledger);
    Ok(stored.map(|mut stored| {
        stored.head.record = *run;
        if let Some(at) = &mut stored.logged {
            at.logged.head.record = *run;
        }
        KnownHead {
            stored,
            record: *record,
            place: String::new(),
        }
    }))
}

fn named(places: &[String]) -> String {
    let place = places.first().cloned();
    place.unwrap_or_else(|| "another place".to_owned())
}

/// May a ledger in `place` be the one that lay in one of `places`? Addresses of servers have many
/// spellings, so each may be any other.
fn may_be_one_of(places: &[String], place: Option<&str>) -> bool {
    let Some(place) = place else { return true };
    let is_local =
        |place: &str| place == BUNDLE || place.starts_with('/') || place.starts_with("sqlite:");
    let is_it = |noted: &String| noted == place || !(is_local(noted) || is_local(place));
    places.is_empty() || places.iter().any(is_it)
}

/// Stores the head of a ledger whose records up to it are durable, and that a key signed.
///
/// `signatures` is the digest of all signatures of records up to it. `key` is the key that signed
/// the head, if one did; `signers` are names of the keys that signed the records ([`threadseal_formats::ledger::signer_name`]).
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
        salts: None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_compared_where_it_has_one_spelling() {
        let places =
            |all: &[&str]| -> Vec<String> { all.iter().map(|p| (*p).to_owned()).collect() };
        let local = places(&["/a/ledger_r.jsonl", "sqlite:/a/runs.db"]);
        assert!(may_be_one_of(&local, Some("sqlite:/a/runs.db")));
        assert!(!may_be_one_of(&local, Some("/b/ledger_r.jsonl")));
        assert!(!may_be_one_of(&local, Some("postgres:db:5432/x")));
        assert!(!may_be_one_of(&local, Some(BUNDLE)));
        assert!(may_be_one_of(
            &places(&["postgres://me@db/x"]),
            Some("postgres:db:5432/x")
        ));
        assert!(may_be_one_of(&[], Some("/b/ledger_r.jsonl")));
        assert!(may_be_one_of(&local, None));
    }
}
