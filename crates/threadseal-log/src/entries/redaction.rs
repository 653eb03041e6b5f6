//! [`RedactionEntry`]: the first seal that covers a redaction (`spec/host-log.md`, "Entries of a seal log").
//!
//! A record seals its own redactions, and its heads are in the log. The entry shows that this host knew of the redaction:
//! one that was sealed without this log, with a copied key or a copied home, has no entry.

use crate::entries::EntryView;
use crate::index::non_head_index::NonHeadKind;
use threadseal_core::record::{Head, RecordId, RecordKind};
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_formats::transcript::bodies::SealedRedaction;

/// A redaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RedactionEntry {
    logged: LoggedHead,
}

impl RedactionEntry {
    /// Redactions of one record, as the index lists them.
    pub(crate) fn of_record(record: &RecordId) -> NonHeadKind {
        NonHeadKind::Redaction(*record)
    }

    /// The bytes of the entry for a seal; None when a number in it is too large.
    pub(crate) fn bytes(seal: &SealedRedaction) -> Option<Vec<u8>> {
        let redaction = LogEntry::Redaction(LoggedHead {
            kind: RecordKind::Transcript,
            head: seal.head,
            root: Some(seal.root),
            key: Some(seal.key),
        });
        redaction.to_bytes()
    }

    /// The seal that covers the redaction.
    pub(crate) fn head(&self) -> Head {
        self.logged.head
    }
}

impl EntryView for RedactionEntry {
    fn from_entry(_: u64, entry: LogEntry) -> Option<Self> {
        match entry {
            LogEntry::Redaction(logged) => Some(Self { logged }),
            _ => None,
        }
    }
}
