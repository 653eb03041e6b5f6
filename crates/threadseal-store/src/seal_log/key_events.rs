//! Key events in the log of a host, and which of its entries nobody can put others in the place of.

use super::SealLog;
use threadseal::error::Error;
use threadseal::tlog::entry::LogEntry;
use threadseal::tlog::entry::key_event::KeyEvent;

/// What stands in the text of each key event, and in that of no head.
const MARK: &[u8] = b"\"type\":\"key/";

impl SealLog {
    /// Commits what a key says of itself, behind all that waits in this process; answers with the number of its entry. What stands in
    /// the log already is not written twice.
    ///
    /// # Errors
    /// Kind `Refused` when the log commits nothing, `External` when the system fails.
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
        let written = self.shared.write(&|| false, |writer, _| {
            let at = writer.tree().size;
            writer.commit(&[entry]).map(|()| at)
        });
        let (at, unmarked) = written?;
        unmarked.map_or(Ok(at), Err)
    }

    /// All key events with the numbers of their entries, each proved to be in the log. Every entry is read.
    ///
    /// # Errors
    /// As [`SealLog::view`].
    pub fn key_events(&self) -> Result<Vec<(u64, KeyEvent)>, Error> {
        let view = self.view()?;
        let contents = view.contents();
        let mut events = Vec::new();
        let mut take = |at: u64, entry: &[u8]| {
            if memchr::memmem::find(entry, MARK).is_some()
                && let Ok(LogEntry::Key(event)) = LogEntry::read(entry)
            {
                view.inclusion(at, entry)?;
                events.push((at, *event));
            }
            Ok(())
        };
        contents.each_in_tiles(0, contents.base(), &mut take)?;
        for (at, entry) in (contents.base()..).zip(contents.fresh()) {
            take(at, entry)?;
        }
        Ok(events)
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
        let largest = marks.trees.iter().map(|tree| tree.size).max();
        let view = self.view()?;
        let fault = self.shared.fault(marks, view.contents(), view.tree())?;
        Ok(largest.filter(|_| fault.is_none()).unwrap_or(0))
    }
}
