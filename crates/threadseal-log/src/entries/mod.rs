//! Typed views of the entries that are no heads: forks, redactions, tombstones, key events, second places,
//! signatures.
//!
//! Each view reads one kind of entry with its number. [`EntryView::from_entry`] is the only place that distinguishes
//! the kinds.

pub(crate) mod evidence_files;
mod fork;
mod key_event;
mod places;
mod redaction;
mod signature;
mod tombstone;

pub(crate) use fork::ForkEntry;
pub(crate) use key_event::{KeyEventEntry, StoredHeadsFirst};
pub(crate) use places::PlacesEntry;
pub(crate) use redaction::RedactionEntry;
pub(crate) use signature::SignatureEntry;
pub(crate) use tombstone::TombstoneEntry;

use crate::tree::view::{LogView, of_another_log};
use threadseal_core::error::Error;
use threadseal_core::tlog::entry::{LogEntry, Restart};

/// One kind of entry, with its number in the log.
pub(crate) trait EntryView: Sized {
    /// None for an entry of another kind.
    fn from_entry(number: u64, entry: LogEntry) -> Option<Self>;
}

/// Reads the entries with these numbers, each proved to be in the log.
///
/// # Errors
/// As [`LogView::entry`]; kind `External` also when one is of another kind, or not `wanted`: then the index is of another log.
pub(crate) fn read_all<V: EntryView>(
    view: &LogView,
    numbers: Vec<u64>,
    wanted: impl Fn(&V) -> bool,
) -> Result<Vec<V>, Error> {
    let read = |number: u64| {
        let entry = LogEntry::read(&view.entry(number)?).ok();
        let found = entry.and_then(|entry| V::from_entry(number, entry));
        found.filter(&wanted).ok_or_else(of_another_log)
    };
    numbers.into_iter().map(read).collect()
}

/// The log that this one replaced, by its first entry; None if it replaced none.
///
/// # Errors
/// As [`LogView::entry`].
pub(crate) fn replaced_log(view: &LogView) -> Result<Option<Restart>, Error> {
    if view.contents().size() == 0 {
        return Ok(None);
    }
    match LogEntry::read(&view.entry(0)?) {
        Ok(LogEntry::Restart(restart)) => Ok(Some(restart)),
        _ => Ok(None),
    }
}
