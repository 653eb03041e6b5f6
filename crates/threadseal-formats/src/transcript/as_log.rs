//! A record as a log of C2SP tlog-tiles (`spec/proofs.md`, "Records as logs").
//!
//! ```text
//! lines before the last seal ─► entries           the note of the last seal ─► checkpoint
//! ```
//! A native seal has the form of a checkpoint and signs the tree over all lines before it. So tools
//! for such logs can check the sealed lines without any code of ThreadSeal. They can also prove
//! that one line is in the tree, or that a later seal continues an earlier one.
//!
//! Not here: tiles, which the store writes; whether the record is trusted, which such tools cannot
//! decide.

use super::event::{self, Frame};
use super::lines::VerifiedLines;
use super::manifest::{self, Manifest};
use super::payloads::{Delegation, NextKey, Succession};
use super::seal;
use super::verify::Coverage;
use crate::verified::Verified;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{KeyId, PublicKey};
use threadseal_core::limits::MAX_TILE_ENTRY_BYTES;
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::{KeyName, SignedNote};
use threadseal_core::tlog::verifier::VerifierKey;

/// The sealed lines of a record, and the note that signs them.
#[derive(Debug)]
pub struct RecordLog<'a> {
    entries: Vec<&'a [u8]>,
    checkpoint: SignedNote,
    tree: TreeHead,
    key: VerifierKey,
}

impl<'a> RecordLog<'a> {
    /// Takes the verified record; `file` contains its bytes.
    ///
    /// # Errors
    /// Kind `Refused` when `file` has other bytes than the verified ones, or is no native record.
    /// `Limit` when a line is longer than the limit for an entry of a log.
    pub fn open(verified: &Verified<Coverage>, file: &'a [u8]) -> Result<Self, Error> {
        let lines = VerifiedLines::open(verified, file)?;
        let mut entries: Vec<&[u8]> = lines.all().collect();
        let last = entries.pop().ok_or_else(not_native)?;
        let first = entries.first().copied().ok_or_else(not_native)?;
        if let Some(long) = entries
            .iter()
            .position(|line| line.len() > MAX_TILE_ENTRY_BYTES)
        {
            return Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "line {} has {} bytes; an entry of a log has at most {MAX_TILE_ENTRY_BYTES}",
                    long + 1,
                    entries[long].len()
                ),
            ));
        }
        let manifest = manifest::parse_line(first).ok_or_else(not_native)?;
        let origin = KeyName::parse(&manifest::origin(first)).map_err(|_| not_native())?;
        let frame = event::parse_frame(last).ok_or_else(not_native)?;
        let parsed = seal::parse(last, &frame).map_err(|_| not_native())?;
        let checkpoint = SignedNote::parse(&parsed.note_text()).map_err(|_| not_native())?;
        let key = find_key(&entries, &manifest, &parsed.seal.key).ok_or_else(not_native)?;
        Ok(Self {
            entries,
            checkpoint,
            tree: TreeHead {
                size: parsed.seal.lines,
                root: parsed.seal.root,
            },
            key: VerifierKey::of_log(origin, key),
        })
    }

    /// The lines, without their LF, in order.
    pub fn entries(&self) -> &[&'a [u8]] {
        &self.entries
    }

    /// The note of the last seal: a checkpoint of the tree over the entries.
    pub fn checkpoint(&self) -> &SignedNote {
        &self.checkpoint
    }

    /// The tree that it states.
    pub fn tree(&self) -> &TreeHead {
        &self.tree
    }

    /// The key that signed it, under the name that is the record's origin.
    pub fn key(&self) -> &VerifierKey {
        &self.key
    }
}

fn not_native() -> Error {
    Error::refused("not a native transcript: only native seals are checkpoints of a tree")
}

/// The key with this id, wherever the record names it; verification already checked that it may
/// seal.
fn find_key(lines: &[&[u8]], manifest: &Manifest, id: &KeyId) -> Option<PublicKey> {
    let is_it = |key: &PublicKey| key.key_id() == *id;
    let named = |frame: &Frame<'_>, line: &[u8]| match frame.event_type {
        "key" => Some(NextKey::parse(frame.payload)?.0),
        "delegation" => Some(Delegation::parse(frame.payload)?.key),
        "authority" => Some(Succession::parse(frame.payload)?.next),
        "checkpoint" => seal::parse(line, frame).ok()?.seal.ext.next_key,
        _ => None,
    };
    let later = lines.iter().rev().filter_map(|line| {
        let frame = event::parse_frame(line)?;
        named(&frame, line)
    });
    [manifest.key, manifest.authority]
        .into_iter()
        .chain(later)
        .find(is_it)
}
