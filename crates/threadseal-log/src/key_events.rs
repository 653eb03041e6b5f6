//! Key events in the log of a host, and which of its entries nobody can put others in the place of.

use super::SealLog;
use super::rare::RareKind;
use threadseal_core::error::Error;
use threadseal_core::tlog::entry::LogEntry;
use threadseal_core::tlog::entry::key_event::{KeyChange, KeyEvent};

impl SealLog {
    /// Commits what a key says of itself, behind all that waits in this process, and where it ends behind all that the home's store of
    /// heads has: a head that was stored and did not come to be published would stand behind the end of its key. Answers with the number
    /// of its entry. What stands in the log already is not written twice.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when the system fails; a stored head that cannot be read keeps no key from
    /// being revoked.
    pub fn commit_key_event(&self, event: &KeyEvent) -> Result<u64, Error> {
        if let Some(error) = self.flush().error {
            return Err(error);
        }
        let events = self.key_events()?;
        if let Some((at, _)) = events.iter().find(|(_, known)| known == event) {
            return Ok(*at);
        }
        let entry = LogEntry::Key(Box::new(event.clone())).to_bytes();
        let entry = entry.ok_or_else(|| Error::invalid("the event is too long for a log"))?;
        let written = self.shared.write(&|| false, |writer, index| {
            match event.change() {
                KeyChange::Create | KeyChange::Delegate { .. } => {}
                KeyChange::Rotate(_) => drop(self.shared.commit_stored(writer, index)?),
                // It may be stolen: whoever damages a head must not have it live on.
                KeyChange::Revoke => drop(self.shared.commit_stored(writer, index)),
            }
            let at = writer.tree().size;
            writer.commit(&[entry]).map(|()| at)
        });
        let (at, unmarked) = written?;
        unmarked.map_or(Ok(at), Err)
    }

    /// All key events with the numbers of their entries, each proved to be in the log, and none left out.
    ///
    /// # Errors
    /// As [`SealLog::view`]; kind `External` also when the entries do not fit the checkpoint.
    pub fn key_events(&self) -> Result<Vec<(u64, KeyEvent)>, Error> {
        let is_key = |kind: &RareKind| *kind == RareKind::Key;
        self.rare_entries(is_key, |entry| match entry {
            LogEntry::Key(event) => Some(*event),
            _ => None,
        })
    }

    /// How many entries a second place vouches for: nobody who may write to this home alone can put others in their place. One that
    /// cannot be read vouches for nothing, and takes nothing from what others show. None in a log that is behind a mark or was made
    /// elsewhere.
    ///
    /// # Errors
    /// Kind `External` when the log cannot be read.
    pub fn marked(&self) -> Result<u64, Error> {
        // The marks before the log, as in `fault`.
        let mut marks = self.shared.known_marks(&self.shared.far.said(false));
        marks.unread = None;
        let largest = marks.trees.iter().max_by_key(|tree| tree.size).copied();
        let view = self.view()?;
        let fault = self.shared.fault(marks, view.contents(), view.tree())?;
        // No fault: the log was proved to continue each of them.
        let largest = largest.filter(|_| fault.is_none());
        Ok(largest.map_or(0, |largest| largest.size))
    }
}
