//! [`KeyEventEntry`]: a key that begins, is replaced, ends or delegates, as that key signed it.

use crate::entries::EntryView;
use crate::index::non_head_index::NonHeadKind;
use threadseal_core::error::Error;
use threadseal_core::tlog::entry::LogEntry;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent};

/// A key event.
#[derive(Debug, Clone)]
pub(crate) struct KeyEventEntry {
    pub(crate) number: u64,
    pub(crate) event: KeyEvent,
}

/// What the log must hold before it takes an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoredHeadsFirst {
    /// Nothing: the key does not end.
    No,
    /// All heads that the home has stored: a head behind the end of its key would not count.
    Required,
    /// The same, as far as they can be read: a thief who damages a head must not keep the key alive.
    IfReadable,
}

impl KeyEventEntry {
    /// Is this how the index lists key events?
    pub(crate) fn is_listed(kind: &NonHeadKind) -> bool {
        *kind == NonHeadKind::Key
    }

    /// The bytes of the entry for an event.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is too long.
    pub(crate) fn bytes(event: &KeyEvent) -> Result<Vec<u8>, Error> {
        let bytes = LogEntry::Key(Box::new(event.clone())).to_bytes();
        bytes.ok_or_else(|| Error::invalid("the event is too long for a log"))
    }

    /// What has to be committed before an event.
    pub(crate) fn needs(event: &KeyEvent) -> StoredHeadsFirst {
        match event.change() {
            KeyChange::Create | KeyChange::Delegate { .. } => StoredHeadsFirst::No,
            KeyChange::Rotate(_) => StoredHeadsFirst::Required,
            KeyChange::Revoke => StoredHeadsFirst::IfReadable,
        }
    }

    /// Does the key end with this event?
    pub(crate) fn ends_key(&self) -> bool {
        self.event.change().ends()
    }

    /// The number of the entry, and the event.
    pub(crate) fn into_pair(self) -> (u64, KeyEvent) {
        (self.number, self.event)
    }
}

impl EntryView for KeyEventEntry {
    fn from_entry(number: u64, entry: LogEntry) -> Option<Self> {
        match entry {
            LogEntry::Key(event) => Some(Self {
                number,
                event: *event,
            }),
            _ => None,
        }
    }
}
