//! Redactions in the log of a host: the seals that are the first to cover one (`spec/anchors.md`, "Entries of a seal log").
//!
//! What a record says of its redactions is sealed in it, and its heads are in the log. The entry says that this host knew of the
//! redaction: one that was sealed where this log was not, with a copied key or a copied home, has none.

use super::SealLog;
use super::rare::RareKind;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, RecordKind};
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_formats::transcript::bodies::SealedRedaction;

impl SealLog {
    /// Commits that these seals cover redactions, behind all that waits in this process: those that the log does not know yet.
    /// Answers with how many that were.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when the system fails.
    pub fn commit_redactions(&self, seals: &[SealedRedaction]) -> Result<usize, Error> {
        let Some(record) = seals.first().map(|seal| seal.head.record) else {
            return Ok(0);
        };
        if let Some(error) = self.flush().error {
            return Err(error);
        }
        let known = self.redactions_of(&record)?;
        let new = seals.iter().filter(|seal| !known.contains(&seal.head));
        let entries: Vec<_> = new.filter_map(|seal| entry(seal).to_bytes()).collect();
        if entries.is_empty() {
            return Ok(0);
        }
        let written = self
            .shared
            .write(&|| false, |writer, _| writer.commit(&entries))?;
        written.1.map_or(Ok(entries.len()), Err)
    }

    /// The seals of a record of which the log says that they cover redactions, each proved to be in it, and none left out.
    ///
    /// # Errors
    /// As [`SealLog::key_events`].
    pub fn redactions_of(&self, record: &RecordId) -> Result<Vec<Head>, Error> {
        let wanted = RareKind::Redaction(*record);
        let heads = self.rare_entries(
            |kind| *kind == wanted,
            |entry| match entry {
                LogEntry::Redaction(logged) => Some(logged.head),
                _ => None,
            },
        )?;
        Ok(heads.into_iter().map(|(_, head)| head).collect())
    }
}

fn entry(seal: &SealedRedaction) -> LogEntry {
    LogEntry::Redaction(LoggedHead {
        kind: RecordKind::Transcript,
        head: seal.head,
        root: Some(seal.root),
        key: Some(seal.key),
    })
}
