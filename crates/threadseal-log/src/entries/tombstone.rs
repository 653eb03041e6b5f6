//! [`TombstoneEntry`]: a record that this host pruned (`spec/host-log.md`, "Tombstones").
//!
//! The owner of any key can sign a tombstone. The entry shows that this host pruned the record: without it, a record that is
//! gone is missing.

use crate::entries::EntryView;
use crate::index::non_head_index::NonHeadKind;
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};

/// A tombstone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TombstoneEntry {
    pub(crate) number: u64,
    /// The last head of the record.
    pub(crate) last: LoggedHead,
}

impl TombstoneEntry {
    /// Is this how the index lists tombstones?
    pub(crate) fn is_listed(kind: &NonHeadKind) -> bool {
        matches!(kind, NonHeadKind::Tombstone(_))
    }

    /// The tombstone of one record, as the index lists it.
    pub(crate) fn of_record(record: &RecordId) -> NonHeadKind {
        NonHeadKind::Tombstone(*record)
    }

    /// The bytes of the entry for the last head of a record.
    ///
    /// # Errors
    /// Kind `InvalidInput` when a number in it is too large.
    pub(crate) fn bytes(last: &LoggedHead) -> Result<Vec<u8>, Error> {
        let bytes = LogEntry::Tombstone(*last).to_bytes();
        bytes.ok_or_else(|| Error::invalid("a head is too large for the log"))
    }
}

impl EntryView for TombstoneEntry {
    fn from_entry(number: u64, entry: LogEntry) -> Option<Self> {
        match entry {
            LogEntry::Tombstone(last) => Some(Self { number, last }),
            _ => None,
        }
    }
}
