//! [`PlacesEntry`]: the second places that the log lists in one of its entries.

use crate::entries::EntryView;
use crate::index::non_head_index::NonHeadKind;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::tlog::entry::LogEntry;

/// A list of second places, by names that only the home can make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlacesEntry {
    pub(crate) number: u64,
    pub(crate) names: Vec<Digest>,
}

impl PlacesEntry {
    /// May the index list such an entry so? It has no word of its own there.
    pub(crate) fn is_listed(kind: &NonHeadKind) -> bool {
        *kind == NonHeadKind::Other
    }

    /// The bytes of the entry for these names, which are in ascending order.
    ///
    /// # Errors
    /// Kind `InvalidInput` when there are too many.
    pub(crate) fn bytes(names: Vec<Digest>) -> Result<Vec<u8>, Error> {
        let bytes = LogEntry::Places(names).to_bytes();
        bytes.ok_or_else(|| Error::invalid("the log lists too many second places"))
    }
}

impl EntryView for PlacesEntry {
    fn from_entry(number: u64, entry: LogEntry) -> Option<Self> {
        match entry {
            LogEntry::Places(names) => Some(Self { number, names }),
            _ => None,
        }
    }
}
