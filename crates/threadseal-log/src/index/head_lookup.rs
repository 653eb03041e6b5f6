//! [`HeadLookup`]: the heads of records in one state of a log, each proved to be in it.

use crate::index::head_index::HeadIndex;
use crate::layout::log_dir::{LogDir, damaged};
use crate::tree::contents::Contents;
use crate::tree::view::{LogView, of_another_log};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use threadseal_core::error::Error;
use threadseal_core::merkle::{Frontier, leaf_hash};
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};

/// The index that the threads of a process have in common.
#[derive(Debug)]
pub(crate) struct SharedHeadIndex(Mutex<HeadIndex>);

impl SharedHeadIndex {
    pub(crate) fn new(index: HeadIndex) -> Self {
        Self(Mutex::new(index))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, HeadIndex> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer of the index for these contents; if a file of it is damaged, once more without its files.
    fn ask<T>(
        &self,
        contents: &Contents,
        ask: impl Fn(&HeadIndex) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut index = self.lock();
        index.catch_up(contents)?;
        match ask(&index) {
            Err(_) if index.is_damaged() => {
                index.catch_up(contents)?;
                ask(&index)
            }
            answer => answer,
        }
    }
}

/// One state of a log, and the index.
pub(crate) struct HeadLookup<'l> {
    pub(crate) view: &'l LogView,
    pub(crate) index: &'l SharedHeadIndex,
}

impl HeadLookup<'_> {
    /// The newest head of a record, and the number of its entry.
    pub(crate) fn newest(&self, record: &RecordId) -> Result<Option<(u64, LoggedHead)>, Error> {
        let view = self.view;
        let newest = |index: &HeadIndex| index.newest(record, view.tree().size);
        let in_tiles = self.index.ask(view.contents(), newest)?;
        // Threads that ask at the same time wait for each other's index, not for each other's proofs.
        view.newest(record, in_tiles)
    }

    /// The numbers of all entries that are heads of a record, in their order.
    pub(crate) fn all(&self, record: &RecordId) -> Result<Vec<u64>, Error> {
        let contents = self.view.contents();
        let all = |index: &HeadIndex| index.all(record);
        let mut numbers = self.index.ask(contents, all)?;
        numbers.retain(|at| *at < contents.base());
        numbers.extend(self.view.fresh_of(record));
        Ok(numbers)
    }

    /// The head of a record that has this number, and the number of its entry.
    pub(crate) fn at(
        &self,
        record: &RecordId,
        seq: u64,
    ) -> Result<Option<(u64, LoggedHead)>, Error> {
        let contents = self.view.contents();
        let at = |index: &HeadIndex| index.at(record, seq);
        let in_tiles = self.index.ask(contents, at)?;
        let base = contents.base();
        let numbers = in_tiles.into_iter().filter(|number| *number < base);
        for number in numbers.chain(self.view.fresh_of(record)) {
            let Ok(LogEntry::Head(logged)) = LogEntry::read(&self.view.entry(number)?) else {
                continue;
            };
            if (logged.head.record, logged.head.seq) == (*record, seq) {
                return Ok(Some((number, logged)));
            }
        }
        match in_tiles.is_some_and(|number| number < base) {
            true => Err(of_another_log()),
            false => Ok(None),
        }
    }
}

/// The newest head of each record. All entries are read, and have to be those of the signed checkpoint: none can be left out.
pub(crate) fn newest_of_all(dir: &LogDir, view: &LogView) -> Result<Vec<(u64, LoggedHead)>, Error> {
    let mut newest = BTreeMap::<RecordId, (u64, LoggedHead)>::new();
    let mut tree = Frontier::new();
    let contents = view.contents();
    contents.each(contents.size(), &mut |number, entry| {
        tree.push_leaf(leaf_hash(entry));
        if let Ok(LogEntry::Head(logged)) = LogEntry::read(entry) {
            let record = logged.head.record;
            let known = newest.get(&record);
            if known.is_none_or(|(_, known)| known.head.seq < logged.head.seq) {
                newest.insert(record, (number, logged));
            }
        }
        Ok(())
    })?;
    if tree.root() != view.tree().root {
        return Err(damaged(&dir.root));
    }
    Ok(newest.into_values().collect())
}
