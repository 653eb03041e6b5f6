//! Which records a log knows, and which head of a record it has under a number.

use super::SealLog;
use super::index::Index;
use super::place::damaged;
use std::collections::BTreeMap;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::merkle::{Frontier, leaf_hash};
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_store::heads::LoggedAt;

impl SealLog {
    /// The newest head of each record. All entries are read, and are those of the signed checkpoint: none can be left out.
    ///
    /// # Errors
    /// As [`SealLog::view`]; kind `External` also when the entries do not fit the checkpoint.
    pub fn records(&self) -> Result<Vec<LoggedAt>, Error> {
        let view = self.view()?;
        let contents = view.contents();
        let (mut newest, mut tree) = (
            BTreeMap::<RecordId, (u64, LoggedHead)>::new(),
            Frontier::new(),
        );
        let mut take = |number: u64, entry: &[u8]| {
            tree.push_leaf(leaf_hash(entry));
            if let Ok(LogEntry::Head(logged)) = LogEntry::read(entry) {
                let record = logged.head.record;
                let known = newest.get(&record);
                if known.is_none_or(|(_, known)| known.head.seq < logged.head.seq) {
                    newest.insert(record, (number, logged));
                }
            }
            Ok(())
        };
        contents.each_in_tiles(0, contents.base(), &mut take)?;
        for (number, entry) in (contents.base()..).zip(contents.fresh()) {
            take(number, entry)?;
        }
        if tree.root() != view.tree().root {
            return Err(damaged(&self.shared.place.root));
        }
        let at = |(number, logged)| LoggedAt {
            logged,
            number,
            entry: self.entry_name(number),
        };
        Ok(newest.into_values().map(at).collect())
    }

    /// The head of a record that has this number, proved to be in the log.
    ///
    /// # Errors
    /// As [`SealLog::newest`].
    pub fn head_at(&self, record: &RecordId, seq: u64) -> Result<Option<LoggedAt>, Error> {
        let view = self.view()?;
        let at = |index: &Index| index.at(record, seq);
        let in_tiles = self.shared.ask_index(view.contents(), at)?;
        let base = view.contents().base();
        let numbers = in_tiles.into_iter().filter(|number| *number < base);
        for number in numbers.chain(view.fresh_of(record)) {
            let Ok(LogEntry::Head(logged)) = LogEntry::read(&view.entry(number)?) else {
                continue;
            };
            if (logged.head.record, logged.head.seq) == (*record, seq) {
                let entry = self.entry_name(number);
                return Ok(Some(LoggedAt {
                    logged,
                    number,
                    entry,
                }));
            }
        }
        match in_tiles.is_some_and(|number| number < base) {
            true => Err(Error::new(
                ErrorKind::External,
                "the index of the log names another entry; run: threadseal log fsck",
            )),
            false => Ok(None),
        }
    }
}
