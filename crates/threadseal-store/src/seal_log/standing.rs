//! [`Standing`]: what a log is worth to who judges records by it.
//!
//! A log that went back, or that cannot be read, accuses no record. But nothing shows then that the heads which this host knows are
//! the newest: they may have been put back together with it.

use super::{Fault, SealLog};
use crate::heads::LoggedAt;
use std::sync::Arc;
use threadseal::error::Error;
use threadseal::record::RecordId;

/// How a log stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It continues all that its second places know.
    Good,
    /// It went back, is on another machine, or has ended.
    Faulty(Fault),
    /// It cannot be read; says why.
    Damaged(String),
    /// A second place cannot be read; says why. It would not show that the log went back.
    MarkUnread(String),
    /// No second place knows anything of it.
    MarkGone,
}

impl Standing {
    /// Is what it holds of a record the newest that this host ever knew, as far as can be told?
    pub fn vouches(&self) -> bool {
        !matches!(self, Self::Faulty(_) | Self::Damaged(_))
    }
}

impl SealLog {
    /// How it stands; looked at once, by whoever asks first.
    pub fn standing(&self) -> &Standing {
        self.standing.get_or_init(|| self.look())
    }

    fn look(&self) -> Standing {
        // The marks before the log, as in `fault`.
        let mut marks = self.shared.known_marks(&self.shared.far.said(false));
        let (unread, know_nothing) = (marks.unread.take(), marks.trees.is_empty());
        let looked = self.view().and_then(|view| {
            let fault = self.shared.fault(marks, view.contents(), view.tree())?;
            Ok((fault, view.tree().size))
        });
        match (looked, unread) {
            // Also where a tile keeps it from being held against the marks: it may be any history.
            (Err(error), _) => Standing::Damaged(error.to_string()),
            (Ok((Some(fault), _)), _) => Standing::Faulty(fault),
            (Ok((None, _)), Some(error)) => Standing::MarkUnread(error.to_string()),
            (Ok((None, size)), None) if size > 0 && know_nothing => Standing::MarkGone,
            (Ok((None, _)), None) => Standing::Good,
        }
    }

    /// Where the newest head of a record is in the log.
    ///
    /// # Errors
    /// As [`SealLog::newest`].
    pub fn newest_at(&self, record: &RecordId) -> Result<Option<LoggedAt>, Error> {
        let newest = self.newest(record)?;
        Ok(newest.map(|(number, logged)| LoggedAt {
            logged,
            number,
            entry: self.entry_name(number),
        }))
    }

    /// How people call one of its entries.
    pub fn entry_name(&self, number: u64) -> Arc<str> {
        let origin = self.description().id.origin();
        Arc::from(format!("entry {number} of {origin}"))
    }
}
