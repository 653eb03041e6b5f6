//! Tombstones in the log of a host: which records it pruned (`spec/anchors.md`, "Tombstones").
//!
//! Whoever has a key can sign a tombstone. The entry says that this host pruned the record: without it, one that is gone is missing.

use super::SealLog;
use super::rare::RareKind;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};

impl SealLog {
    /// Commits that these records are pruned, behind all that waits in this process: those that the log does not know yet, and all
    /// of them at once.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when the system fails.
    pub fn commit_tombstones(&self, pruned: &[LoggedHead]) -> Result<(), Error> {
        if let Some(error) = self.flush().error {
            return Err(error);
        }
        let known = self.tombstones()?;
        let new = pruned.iter().filter(|logged| !known.contains(logged));
        let entries: Option<Vec<_>> = new
            .map(|logged| LogEntry::Tombstone(*logged).to_bytes())
            .collect();
        let entries = entries.ok_or_else(|| Error::invalid("a head is too large for the log"))?;
        if entries.is_empty() {
            return Ok(());
        }
        let written = self
            .shared
            .write(&|| false, |writer, _| writer.commit(&entries))?;
        written.1.map_or(Ok(()), Err)
    }

    /// The last heads of all records that this host pruned, each proved to be in the log, and none left out.
    ///
    /// # Errors
    /// As [`SealLog::key_events`].
    pub fn tombstones(&self) -> Result<Vec<LoggedHead>, Error> {
        let pruned = self.rare_entries(
            |kind| matches!(kind, RareKind::Tombstone(_)),
            |entry| match entry {
                LogEntry::Tombstone(logged) => Some(logged),
                _ => None,
            },
        )?;
        Ok(pruned.into_iter().map(|(_, logged)| logged).collect())
    }

    /// Was it made in the place of a log that was lost or went back, and may it lack what that one said?
    ///
    /// # Errors
    /// Kind `External` when its first entry cannot be read or is not that of the signed tree.
    pub fn follows_another(&self) -> Result<bool, Error> {
        let view = self.view()?;
        if view.contents().size() == 0 {
            return Ok(false);
        }
        let first = view.entry(0)?;
        Ok(matches!(LogEntry::read(&first), Ok(LogEntry::Restart(_))))
    }

    /// The entry which says that this host pruned a record, proved to be in the log; None where no entry does.
    ///
    /// # Errors
    /// As [`SealLog::key_events`].
    pub fn tombstone_of(&self, record: &RecordId) -> Result<Option<Arc<str>>, Error> {
        let wanted = RareKind::Tombstone(*record);
        let pruned = self.rare_entries(
            |kind| *kind == wanted,
            |entry| match entry {
                LogEntry::Tombstone(logged) if logged.head.record == *record => Some(logged),
                _ => None,
            },
        )?;
        Ok(pruned.first().map(|(at, _)| self.entry_name(*at)))
    }
}
