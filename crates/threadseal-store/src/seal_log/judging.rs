//! A log as evidence against revocations: where seals stand in it, as far as something outside of it vouches for that.

use super::SealLog;
use std::sync::{Arc, OnceLock};
use threadseal::error::Error;
use threadseal::record::Head;
use threadseal::tlog::entry::LogEntry;
use threadseal::tlog::entry::key_event::KeyHistory;
use threadseal::trust::SealPlaces;

/// What who judges keys asks a log; what it says of keys, and how far it is vouched for, is looked up once.
#[derive(Debug)]
pub struct JudgedPlaces {
    log: Arc<SealLog>,
    keys: OnceLock<Option<KeyHistory>>,
    vouched_for: OnceLock<u64>,
}

impl JudgedPlaces {
    /// The places of `log`.
    pub fn of(log: Arc<SealLog>) -> Self {
        Self {
            log,
            keys: OnceLock::new(),
            vouched_for: OnceLock::new(),
        }
    }

    /// How many entries stand where nobody who may write to this home alone could have put them later.
    fn vouched_for(&self) -> u64 {
        *self
            .vouched_for
            .get_or_init(|| self.log.marked().unwrap_or(0))
    }
}

impl SealPlaces for JudgedPlaces {
    /// What cannot be read is nowhere: it is no evidence.
    fn place(&self, head: &Head) -> Option<u64> {
        let at = self.log.entry_of(head).ok().flatten()?;
        (at < self.vouched_for()).then_some(at)
    }

    fn keys(&self) -> Option<&KeyHistory> {
        let read = || {
            self.log
                .key_events()
                .ok()
                .map(|events| KeyHistory::of(&events))
        };
        self.keys.get_or_init(read).as_ref()
    }
}

impl SealLog {
    /// The number of the entry that is this very head.
    ///
    /// # Errors
    /// As [`SealLog::newest`].
    pub fn entry_of(&self, head: &Head) -> Result<Option<u64>, Error> {
        let (view, numbers) = (self.view()?, self.entries_of(&head.record)?);
        // Heads of one record stand in the order of their numbers.
        let (mut from, mut to) = (0, numbers.len());
        while from < to {
            let middle = from + (to - from) / 2;
            let Some(number) = numbers.get(middle) else {
                break;
            };
            let Ok(LogEntry::Head(logged)) = LogEntry::read(&view.entry(*number)?) else {
                return Ok(None);
            };
            match logged.head.seq.cmp(&head.seq) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Greater => to = middle,
                std::cmp::Ordering::Equal => {
                    return Ok((logged.head == *head).then_some(*number));
                }
            }
        }
        Ok(None)
    }
}
