//! [`HeadIndex`]: where in a log the heads of a record are.
//!
//! ```text
//! signed tree ─► entries that the files of the index lack ─► are they those of the tree? ─► in memory, by and by in files (`index_file`)
//! ```
//! That a record has no later head follows from what is *not* here. So nothing is taken in but entries of the signed tree, and nothing is
//! believed of a file but what this home wrote itself, of a tree that the signed one continues. What is found here is read and proved
//! all the same. Entries beyond the tiles are the view's (`view`); what is no head is found by `rare`.

use crate::index::index_files::{IndexFiles, Row};
use crate::layout::description::LogId;
use crate::layout::log_dir::{LogDir, damaged};
use crate::tree::contents::Contents;
use std::collections::{BTreeSet, VecDeque};
use threadseal_core::error::Error;
use threadseal_core::merkle::{TreeHead, leaf_hash};
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::LogEntry;

/// Entries that a process reads for itself before it writes them into a file.
pub(crate) const MAX_UNWRITTEN: u64 = if cfg!(test) { 600 } else { 4_096 };
/// Entries that are taken in before they are held against the tree.
const BATCH: u64 = 65_536;
/// Trees that were taken in, and may still be asked for by who looked at the log before another did.
const MAX_PASSED: usize = 64;

/// Where the heads of each record are, below some size of the log.
#[derive(Debug)]
pub(crate) struct HeadIndex {
    dir: LogDir,
    id: LogId,
    /// No head in it is left out.
    tree: TreeHead,
    /// Trees before it, the last one last.
    passed: VecDeque<TreeHead>,
    /// What this home wrote; None before it was looked for.
    files: Option<IndexFiles>,
    /// Beyond the files.
    fresh: BTreeSet<Row>,
    /// The size of the log at which the files are written next.
    write_at: u64,
}

/// The record and the number of a head; None for another entry.
pub(crate) fn head_of(entry: &[u8]) -> Option<(RecordId, u64)> {
    match LogEntry::read(entry) {
        Ok(LogEntry::Head(logged)) => Some((logged.head.record, logged.head.seq)),
        _ => None,
    }
}

impl HeadIndex {
    pub(crate) fn of(dir: &LogDir, id: LogId) -> Self {
        Self {
            dir: dir.clone(),
            id,
            tree: TreeHead::empty(),
            passed: VecDeque::new(),
            files: None,
            fresh: BTreeSet::new(),
            write_at: MAX_UNWRITTEN,
        }
    }

    /// Takes in the entries of the tiles that it lacks.
    ///
    /// # Errors
    /// Kind `External` when a tile is lacking, or is not that of the tree.
    pub(crate) fn catch_up(&mut self, contents: &Contents) -> Result<(), Error> {
        let tree = contents.frontier(contents.base())?.head();
        if self.is_damaged() {
            *self = Self {
                files: Some(IndexFiles::none(&self.dir, self.id)),
                ..Self::of(&self.dir, self.id)
            };
        }
        if self.tree == tree || self.passed.contains(&tree) {
            return Ok(());
        }
        if !contents.continues(&self.tree, &tree)? {
            // The log was put back: nothing is known to stand where it stood.
            *self = Self::of(&self.dir, self.id);
        }
        while self.tree.size < tree.size {
            self.find_files(contents, &tree)?;
            self.take_batch(contents, &tree)?;
        }
        Ok(())
    }

    /// Does a file of it hold something that this home did not write? It is done without from the next time on that it catches up.
    pub(crate) fn is_damaged(&self) -> bool {
        self.files.as_ref().is_some_and(IndexFiles::is_damaged)
    }

    /// The entry with the newest head of a record among the first `size` entries, as far as they are in tiles.
    pub(crate) fn newest(&self, record: &RecordId, size: u64) -> Result<Option<u64>, Error> {
        let mut newest: Option<Row> = None;
        let fresh = self.fresh_of(record).rfind(|row| row.at < size);
        let filed = self.files.iter().map(|files| files.newest(record, size));
        for row in filed.chain([Ok(fresh.copied())]) {
            newest = newest.max(row?);
        }
        // Of two with one number the first one stands.
        newest.map_or(Ok(None), |row| self.at(record, row.seq))
    }

    /// All entries of the tiles with heads of a record.
    pub(crate) fn all(&self, record: &RecordId) -> Result<Vec<u64>, Error> {
        let mut rows = match &self.files {
            Some(files) => files.all(record)?,
            None => Vec::new(),
        };
        rows.extend(self.fresh_of(record));
        rows.sort_unstable();
        Ok(rows.into_iter().map(|row| row.at).collect())
    }

    /// The first entry with the head of this number.
    pub(crate) fn at(&self, record: &RecordId, seq: u64) -> Result<Option<u64>, Error> {
        if let Some(files) = &self.files
            && let Some(row) = files.at(record, seq)?
        {
            return Ok(Some(row.at));
        }
        let mut fresh = self.fresh_of(record);
        Ok(fresh.find(|row| row.seq == seq).map(|row| row.at))
    }

    /// How many heads it holds.
    pub(crate) fn count(&self) -> u64 {
        self.files.as_ref().map_or(0, IndexFiles::count) + self.fresh.len() as u64
    }

    fn fresh_of(&self, record: &RecordId) -> impl DoubleEndedIterator<Item = &Row> {
        self.fresh
            .range(Row::first_of(record, 0)..=Row::last_of(record))
    }

    /// Begins with what this home wrote, where the log continues the tree that it is of.
    fn find_files(&mut self, contents: &Contents, tree: &TreeHead) -> Result<(), Error> {
        if self.files.is_some() {
            return Ok(());
        }
        let found = IndexFiles::find(&self.dir, self.id);
        let there = found.tree();
        self.files = Some(match contents.continues(&there, tree)? {
            true => found,
            false => found.emptied(),
        });
        if let Some(files) = &self.files {
            self.tree = files.tree();
            self.write_at = self.tree.size + MAX_UNWRITTEN;
        }
        Ok(())
    }

    fn take_batch(&mut self, contents: &Contents, tree: &TreeHead) -> Result<(), Error> {
        let (from, until) = (self.tree.size, tree.size.min(self.tree.size + BATCH));
        let mut frontier = contents.frontier(from)?;
        let mut rows = Vec::new();
        contents.each_in_tiles(from, until, &mut |at, entry| {
            frontier.push_leaf(leaf_hash(entry));
            rows.extend(head_of(entry).map(|(record, seq)| Row { record, seq, at }));
            Ok(())
        })?;
        let reached = frontier.head();
        if reached.size != until || !contents.continues(&reached, tree)? {
            return Err(damaged(&self.dir.file("tile")));
        }
        self.fresh.extend(rows);
        if self.passed.len() == MAX_PASSED {
            self.passed.pop_front();
        }
        self.passed
            .push_back(std::mem::replace(&mut self.tree, reached));
        if until >= self.write_at {
            self.write();
        }
        Ok(())
    }

    /// Where it cannot be written, on a disk that is full or only read, or while another process does, all stays in memory; what another
    /// process has written is read anew.
    fn write(&mut self) {
        self.write_at = self.tree.size + MAX_UNWRITTEN;
        let Some(files) = &mut self.files else {
            return;
        };
        if files.add(&self.fresh, self.tree).is_ok() {
            self.fresh.clear();
        } else if files.are_stale() {
            *self = Self::of(&self.dir, self.id);
        }
    }
}
