//! [`HeadBatch`]: heads on their way into the log, and what the log has of their records.

use crate::index::head_index::HeadIndex;
use crate::tree::writer::Writer;
use std::collections::{BTreeMap, HashMap};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};

/// A head that was refused because the log has another one of the same record and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fork {
    /// The one in the log.
    pub logged: LoggedHead,
    /// The one that was to be committed.
    pub refused: LoggedHead,
}

/// What one who commits puts together before it commits, and of one state of the log.
#[derive(Debug)]
pub(crate) struct HeadBatch {
    /// Heads beyond the tiles, those of this batch among them.
    fresh: HashMap<RecordId, BTreeMap<u64, LoggedHead>>,
    /// Entries in the tiles.
    base: u64,
    pub(crate) entries: Vec<Vec<u8>>,
    /// Heads that were refused.
    pub(crate) forks: Vec<Fork>,
}

impl HeadBatch {
    pub(crate) fn begin(writer: &Writer<'_>) -> Self {
        let mut fresh: HashMap<RecordId, BTreeMap<u64, LoggedHead>> = HashMap::new();
        for entry in writer.contents().fresh() {
            if let Ok(LogEntry::Head(logged)) = LogEntry::read(entry) {
                let of = fresh.entry(logged.head.record).or_default();
                of.entry(logged.head.seq).or_insert(logged);
            }
        }
        Self {
            fresh,
            base: writer.contents().base(),
            entries: Vec::new(),
            forks: Vec::new(),
        }
    }

    /// Takes a head that the log does not have, unless a later one covers it or the log has another one of its number.
    pub(crate) fn add(
        &mut self,
        writer: &Writer<'_>,
        index: &HeadIndex,
        head: &LoggedHead,
    ) -> Result<(), Error> {
        let (record, seq) = (head.head.record, head.head.seq);
        match self.at(writer, index, &record, seq)? {
            Some(known) if known.head == head.head => return Ok(()),
            Some(logged) => {
                self.forks.push(Fork {
                    logged,
                    refused: *head,
                });
                return Ok(());
            }
            None => {}
        }
        if self.has_later(writer, index, &record, seq)? {
            // Heads of one record are in order; a later one covers this one.
            return Ok(());
        }
        if let Some(entry) = LogEntry::Head(*head).to_bytes() {
            self.fresh.entry(record).or_default().insert(seq, *head);
            self.entries.push(entry);
        }
        Ok(())
    }

    /// Does the log, with this batch, have this head, or one that makes it say nothing new?
    pub(crate) fn holds(
        &self,
        writer: &Writer<'_>,
        index: &HeadIndex,
        head: &LoggedHead,
    ) -> Result<bool, Error> {
        let (record, seq) = (head.head.record, head.head.seq);
        match self.at(writer, index, &record, seq)? {
            Some(known) => Ok(known.head == head.head),
            None => self.has_later(writer, index, &record, seq),
        }
    }

    fn at(
        &self,
        writer: &Writer<'_>,
        index: &HeadIndex,
        record: &RecordId,
        seq: u64,
    ) -> Result<Option<LoggedHead>, Error> {
        let fresh = self.fresh.get(record).and_then(|of| of.get(&seq));
        match fresh {
            Some(known) => Ok(Some(*known)),
            None => {
                let at = index.at(record, seq)?;
                at.map(|at| head_at(writer, at)).transpose()
            }
        }
    }

    fn has_later(
        &self,
        writer: &Writer<'_>,
        index: &HeadIndex,
        record: &RecordId,
        seq: u64,
    ) -> Result<bool, Error> {
        let of = self.fresh.get(record);
        let last = of.and_then(|of| of.last_key_value());
        if last.is_some_and(|(last, _)| *last > seq) {
            return Ok(true);
        }
        match index.newest(record, self.base)? {
            None => Ok(false),
            Some(at) => Ok(head_at(writer, at)?.head.seq > seq),
        }
    }
}

fn head_at(writer: &Writer<'_>, at: u64) -> Result<LoggedHead, Error> {
    match LogEntry::read(&writer.contents().entry(at)?) {
        Ok(LogEntry::Head(logged)) => Ok(logged),
        _ => Err(Error::new(
            ErrorKind::External,
            "the index of the log names another entry; hint: threadseal log fsck",
        )),
    }
}
