//! [`SignatureEntry`]: a signature that is in no record, with its number.

use crate::entries::EntryView;
use crate::index::non_head_index::NonHeadKind;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::LogEntry;

/// A signature, by the SHA-256 of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignatureEntry {
    pub(crate) number: u64,
    pub(crate) digest: Digest,
}

impl SignatureEntry {
    /// This signature, as the index lists it.
    pub(crate) fn of_signature(digest: &Digest) -> NonHeadKind {
        NonHeadKind::Signature(RecordId::from_bytes(*digest.as_bytes()))
    }

    /// The bytes of the entry.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is too long.
    pub(crate) fn bytes(digest: &Digest) -> Result<Vec<u8>, Error> {
        let bytes = LogEntry::Signature(*digest).to_bytes();
        bytes.ok_or_else(|| Error::invalid("the entry of a signature is too long for a log"))
    }
}

impl EntryView for SignatureEntry {
    fn from_entry(number: u64, entry: LogEntry) -> Option<Self> {
        match entry {
            LogEntry::Signature(digest) => Some(Self { number, digest }),
            _ => None,
        }
    }
}
