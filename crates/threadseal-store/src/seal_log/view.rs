//! [`LogView`]: a log as it stands, read without its lock.
//!
//! The journal is read first, from one open file; the tiles under it were written before it. So what is seen is one state, however
//! the log grows meanwhile.

use super::contents::Contents;
use super::description::Description;
use super::index::Index;
use super::journal::{Journal, MAX_JOURNAL_BYTES};
use super::place::{Place, damaged};
use super::writer::load;
use std::collections::HashMap;
use threadseal::error::{Error, ErrorKind};
use threadseal::merkle::{ConsistencyProof, InclusionProof, TreeHead, leaf_hash};
use threadseal::note::SignedNote;
use threadseal::record::RecordId;
use threadseal::tlog::entry::{LogEntry, LoggedHead};

/// One state of a log: its last signed checkpoint, and everything under it.
#[derive(Debug)]
pub struct LogView {
    contents: Contents,
    head: SignedNote,
    tree: TreeHead,
    /// The newest heads beyond the tiles, and where they are.
    newest: HashMap<RecordId, u64>,
}

impl LogView {
    /// Reads the log in `place`.
    ///
    /// # Errors
    /// Kind `External` when a file is lacking or damaged, or cannot be read.
    pub(super) fn read(place: &Place, description: &Description) -> Result<Self, Error> {
        let path = place.journal();
        let bytes = place.read(&path, MAX_JOURNAL_BYTES)?;
        let bytes = bytes.ok_or_else(|| {
            let text = format!("the log {} has no {}", description.id, path.display());
            Error::new(ErrorKind::External, text)
        })?;
        let journal = Journal::read(&bytes).ok_or_else(|| damaged(&path))?;
        let mut loaded = load(place, description, journal)?;
        loaded.contents.truncate(loaded.signed_tree.size);
        let mut newest: HashMap<RecordId, u64> = HashMap::new();
        for (at, entry) in (loaded.contents.base()..).zip(loaded.contents.fresh()) {
            if let Ok(LogEntry::Head(logged)) = LogEntry::read(entry) {
                newest.insert(logged.head.record, at);
            }
        }
        Ok(Self {
            contents: loaded.contents,
            head: loaded.signed,
            tree: loaded.signed_tree,
            newest,
        })
    }

    /// The last signed checkpoint.
    pub fn checkpoint(&self) -> &SignedNote {
        &self.head
    }

    /// Its tree.
    pub fn tree(&self) -> TreeHead {
        self.tree
    }

    /// The bytes of an entry, after they were proved to be in the tree.
    ///
    /// # Errors
    /// Kind `InvalidInput` when there is no such entry, `External` when the files do not fit the checkpoint.
    pub fn entry(&self, number: u64) -> Result<Vec<u8>, Error> {
        let entry = self.contents.entry(number)?;
        self.inclusion(number, &entry)?;
        Ok(entry)
    }

    /// The proof that `entry` has this number in the tree.
    ///
    /// # Errors
    /// As [`LogView::entry`].
    pub fn inclusion(&self, number: u64, entry: &[u8]) -> Result<InclusionProof, Error> {
        let proof = self.contents.inclusion(number, self.tree.size)?;
        let held = proof.check(&leaf_hash(entry), number, &self.tree);
        held.map_err(|_| unproved(number))?;
        Ok(proof)
    }

    /// The proof that the tree grew out of `old`; None when it did not.
    ///
    /// # Errors
    /// Kind `External` when the files cannot be read.
    pub fn consistency(&self, old: &TreeHead) -> Result<Option<ConsistencyProof>, Error> {
        if old.size > self.tree.size {
            return Ok(None);
        }
        let proof = self.contents.consistency(old.size, self.tree.size)?;
        Ok(proof.check(old, &self.tree).is_ok().then_some(proof))
    }

    /// The newest head of a record and the number of its entry, proved to be in the tree.
    ///
    /// # Errors
    /// As [`LogView::entry`]; kind `External` also when the index names another entry.
    pub(super) fn newest(
        &self,
        index: &Index,
        record: &RecordId,
    ) -> Result<Option<(u64, LoggedHead)>, Error> {
        let at = match self.newest.get(record) {
            Some(at) => Some(*at),
            None => index.newest(record, self.tree.size)?,
        };
        let Some(at) = at else {
            return Ok(None);
        };
        match LogEntry::read(&self.entry(at)?) {
            Ok(LogEntry::Head(logged)) if logged.head.record == *record => Ok(Some((at, logged))),
            _ => Err(Error::new(
                ErrorKind::External,
                "the index of the log names another entry; run: threadseal log fsck",
            )),
        }
    }

    /// The entries beyond the tiles that are heads of a record.
    pub(super) fn fresh_of(&self, record: &RecordId) -> Vec<u64> {
        let fresh = (self.contents.base()..).zip(self.contents.fresh());
        let ours = fresh.filter(|(_, entry)| {
            matches!(LogEntry::read(entry), Ok(LogEntry::Head(logged)) if logged.head.record == *record)
        });
        ours.map(|(at, _)| at).collect()
    }

    pub(super) fn contents(&self) -> &Contents {
        &self.contents
    }
}

fn unproved(number: u64) -> Error {
    let text =
        format!("entry {number} of the log does not fit its checkpoint; run: threadseal log fsck");
    Error::new(ErrorKind::External, text)
}
