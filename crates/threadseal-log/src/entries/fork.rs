//! [`ForkEntry`]: a record of which two histories were sealed (`spec/host-log.md`, "Forks in the log").
//!
//! ```text
//! evidence, verified ─► evidence file, durable ─► entry ─► every copy of the record is `forked` here
//! ```
//! The entry alone counts against the record; the file is kept for people who want to see why.

use crate::entries::EntryView;
use crate::index::non_head_index::NonHeadKind;
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::LogEntry;
use threadseal_core::tlog::entry::fork::LoggedFork;

/// A fork.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForkEntry {
    pub(crate) number: u64,
    pub(crate) fork: LoggedFork,
}

impl ForkEntry {
    /// Forks of one record, as the index lists them.
    pub(crate) fn of_record(record: &RecordId) -> NonHeadKind {
        NonHeadKind::Fork(*record)
    }

    /// The bytes of the entry for a fork.
    ///
    /// # Errors
    /// Kind `InvalidInput` when a number in it is too large.
    pub(crate) fn bytes(fork: LoggedFork) -> Result<Vec<u8>, Error> {
        let bytes = LogEntry::Fork(fork).to_bytes();
        bytes.ok_or_else(|| Error::invalid("a number in it is too large for a log"))
    }
}

impl EntryView for ForkEntry {
    fn from_entry(number: u64, entry: LogEntry) -> Option<Self> {
        match entry {
            LogEntry::Fork(fork) => Some(Self { number, fork }),
            _ => None,
        }
    }
}
