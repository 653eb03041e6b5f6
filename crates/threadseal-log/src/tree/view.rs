//! [`LogView`]: one state of a log, read without its lock.
//!
//! The journal is read first, from one open file; the tiles under it were written before it. So what is seen is one state, however
//! the log grows meanwhile.

use crate::layout::description::Description;
use crate::layout::journal::{Journal, MAX_JOURNAL_BYTES};
use crate::layout::log_dir::{LogDir, damaged};
use crate::tree::contents::Contents;
use crate::tree::writer::{Loaded, load};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::merkle::{self, ConsistencyProof, InclusionProof, TreeHead, leaf_hash};
use threadseal_core::note::SignedNote;
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_core::tlog::tile::TILE_WIDTH;

/// Levels of the tree within a tile.
const TILE_HEIGHT: usize = 8;
/// Tiles that are kept in memory once they were proved.
const MAX_PROVED_TILES: usize = 128;

/// One state of a log: its last signed checkpoint, and everything under it.
#[derive(Debug)]
pub struct LogView {
    contents: Contents,
    head: SignedNote,
    tree: TreeHead,
    /// The newest heads beyond the tiles: their numbers, and where they are.
    newest: HashMap<RecordId, (u64, u64)>,
    /// Full tiles of entries that were proved as a whole: of many records each is asked for many times.
    proved: Mutex<HashMap<u64, Arc<[Vec<u8>]>>>,
    /// Are the entries beyond the tiles those of the tree? Proved once, all together.
    fresh_proved: OnceLock<bool>,
}

impl LogView {
    /// Reads the log in `place`.
    ///
    /// # Errors
    /// Kind `External` when a file is lacking or damaged, or cannot be read.
    pub(crate) fn read(dir: &LogDir, description: &Description) -> Result<Self, Error> {
        Self::read_beside(dir, description, Vec::new)
    }

    /// The same, where second places have `marks`, each with its signature: a power cut may take the line of the last signature from the
    /// journal, which alone is not durable, and leave the mark that was updated after it. The
    /// entries are durable then.
    ///
    /// # Errors
    /// As [`LogView::read`].
    pub(crate) fn read_beside(
        dir: &LogDir,
        description: &Description,
        marks: impl FnOnce() -> Vec<(SignedNote, TreeHead)>,
    ) -> Result<Self, Error> {
        let mut loaded = read_committed(dir, description)?;
        if loaded.unsigned {
            let committed = loaded.frontier.head();
            let marked = marks().into_iter().find(|(_, tree)| *tree == committed);
            (loaded.signed, loaded.signed_tree) =
                marked.unwrap_or((loaded.signed, loaded.signed_tree));
        }
        loaded.contents.truncate(loaded.signed_tree.size);
        let mut newest: HashMap<RecordId, (u64, u64)> = HashMap::new();
        for (at, entry) in (loaded.contents.base()..).zip(loaded.contents.fresh()) {
            if let Ok(LogEntry::Head(logged)) = LogEntry::read(entry) {
                // Not the last one: a thief of the log's key can commit an old one again. The first one of a number counts.
                let seq = logged.head.seq;
                let known = newest.entry(logged.head.record).or_insert((seq, at));
                if known.0 < seq {
                    *known = (seq, at);
                }
            }
        }
        Ok(Self {
            contents: loaded.contents,
            head: loaded.signed,
            tree: loaded.signed_tree,
            newest,
            proved: Mutex::default(),
            fresh_proved: OnceLock::new(),
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
        // Where the tile as a whole does not fit, one of its entries still may.
        if let Some(entries) = self.proved_tile(number / TILE_WIDTH) {
            let at = usize::try_from(number % TILE_WIDTH).unwrap_or(usize::MAX);
            if let Some(entry) = entries.get(at) {
                return Ok(entry.clone());
            }
        }
        let entry = self.contents.entry(number)?;
        if number < self.contents.base() || !self.fresh_is_proved() {
            self.inclusion(number, &entry)?;
        }
        Ok(entry)
    }

    /// Together with the tiles the entries beyond them must give the root of the tree; else some are not its.
    fn fresh_is_proved(&self) -> bool {
        let have_root = || {
            let frontier = self.contents.frontier(self.tree.size);
            frontier.is_ok_and(|frontier| frontier.head() == self.tree)
        };
        self.contents.size() == self.tree.size && *self.fresh_proved.get_or_init(have_root)
    }

    /// The entries of a full tile, if they are those of the tree. The proof of the first of them names the roots of
    /// all the others: its siblings within the tile.
    fn proved_tile(&self, tile: u64) -> Option<Arc<[Vec<u8>]>> {
        let first = tile.checked_mul(TILE_WIDTH)?;
        if first.checked_add(TILE_WIDTH)? > self.contents.base().min(self.tree.size) {
            return None;
        }
        let known = || self.proved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entries) = known().get(&tile) {
            return Some(Arc::clone(entries));
        }
        let mut entries = Vec::new();
        let mut take = |_: u64, entry: &[u8]| {
            entries.push(entry.to_vec());
            Ok(())
        };
        let read = self
            .contents
            .each_in_tiles(first, first + TILE_WIDTH, &mut take);
        read.ok()?;
        let proof = self.inclusion(first, entries.first()?).ok()?;
        let leaves: Vec<Digest> = entries.iter().map(|entry| leaf_hash(entry)).collect();
        let fits = |level: usize| {
            let beside = leaves.get(1 << level..2 << level).map(merkle::root);
            beside.is_some() && beside.as_ref() == proof.hashes().get(level)
        };
        if !(0..TILE_HEIGHT).all(fits) {
            return None;
        }
        let entries: Arc<[Vec<u8>]> = entries.into();
        let mut known = known();
        if known.len() >= MAX_PROVED_TILES {
            known.clear();
        }
        known.insert(tile, Arc::clone(&entries));
        Some(entries)
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

    /// The proof that the tree grew out of its own first `old` leaves, for a caller who knows that tree; None when it has less.
    ///
    /// # Errors
    /// Kind `External` when the files cannot be read.
    pub fn growth(&self, old: u64) -> Result<Option<ConsistencyProof>, Error> {
        if old > self.tree.size {
            return Ok(None);
        }
        let proof = self.contents.consistency(old, self.tree.size);
        proof.map(Some)
    }

    /// Did the tree grow out of `old`? Proved either way.
    ///
    /// # Errors
    /// Kind `External` when the files cannot be read, or do not fit the checkpoint.
    pub fn continues(&self, old: &TreeHead) -> Result<bool, Error> {
        self.contents.continues(old, &self.tree)
    }

    /// The newest head of a record and the number of its entry, proved to be in the tree; `in_tiles` is where the index has the
    /// newest one in the tiles. The place of an entry does not make it newer.
    ///
    /// # Errors
    /// As [`LogView::head_in`].
    pub(crate) fn newest(
        &self,
        record: &RecordId,
        in_tiles: Option<u64>,
    ) -> Result<Option<(u64, LoggedHead)>, Error> {
        let fresh = self.newest.get(record).map(|(_, at)| *at);
        let mut newest: Option<(u64, LoggedHead)> = None;
        for at in in_tiles.into_iter().chain(fresh) {
            let logged = self.head_in(at, record)?;
            if newest.is_none_or(|(_, known)| known.head.seq < logged.head.seq) {
                newest = Some((at, logged));
            }
        }
        Ok(newest)
    }

    /// The head of a record in this entry, proved to be in the tree.
    ///
    /// # Errors
    /// As [`LogView::entry`]; kind `External` also when it is another entry.
    pub(crate) fn head_in(&self, at: u64, record: &RecordId) -> Result<LoggedHead, Error> {
        match LogEntry::read(&self.entry(at)?) {
            Ok(LogEntry::Head(logged)) if logged.head.record == *record => Ok(logged),
            _ => Err(of_another_log()),
        }
    }

    /// The entries beyond the tiles that are heads of a record.
    pub(crate) fn fresh_of(&self, record: &RecordId) -> Vec<u64> {
        let fresh = (self.contents.base()..).zip(self.contents.fresh());
        let ours = fresh.filter(|(_, entry)| {
            matches!(LogEntry::read(entry), Ok(LogEntry::Head(logged)) if logged.head.record == *record)
        });
        ours.map(|(at, _)| at).collect()
    }

    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }
}

/// Reads all that was committed, also what a crash kept from being signed.
///
/// # Errors
/// As [`LogView::read`].
pub(crate) fn read_committed(dir: &LogDir, description: &Description) -> Result<Loaded, Error> {
    let path = dir.journal();
    let bytes = dir.read(&path, MAX_JOURNAL_BYTES)?;
    let bytes = bytes.ok_or_else(|| {
        let text = format!("the log {} has no {}", description.id, path.display());
        Error::new(ErrorKind::External, text)
    })?;
    let journal = Journal::read(&bytes).ok_or_else(|| damaged(&path))?;
    load(dir, description, journal)
}

/// The index was made of other entries.
/// The bytes of an entry, after they were proved to be in `tree`.
///
/// # Errors
/// As [`LogView::entry`].
pub(crate) fn proved_entry(
    contents: &Contents,
    tree: &TreeHead,
    number: u64,
) -> Result<Vec<u8>, Error> {
    let entry = contents.entry(number)?;
    let proof = contents.inclusion(number, tree.size)?;
    let held = proof.check(&leaf_hash(&entry), number, tree);
    held.map_err(|_| unproved(number))?;
    Ok(entry)
}

pub(crate) fn of_another_log() -> Error {
    Error::new(
        ErrorKind::External,
        "the index of the log names another entry; hint: threadseal log fsck",
    )
}

fn unproved(number: u64) -> Error {
    let text =
        format!("entry {number} of the log does not fit its checkpoint; hint: threadseal log fsck");
    Error::new(ErrorKind::External, text)
}
