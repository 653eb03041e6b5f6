//! [`Standing`]: what a log is worth to who judges records by it.
//!
//! A log that went back, or that cannot be read, accuses no record. But nothing shows then that the heads which this host knows are
//! the newest: they may have been put back together with it.
//!
//! A process may have the log open for days, while another one restores, restarts or ends it. So whoever asks looks again when anything
//! was touched that tells so. What touches it is cheap to ask for the files of the log and for folders; places that do not answer at once
//! are heard at the first look and with each commit.

use super::{Fault, SealLog, Shared};
use std::sync::{Arc, PoisonError};
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;
use threadseal_store::heads::LoggedAt;
use threadseal_store::read::Stamp;

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

/// What tells that nothing of the log, the choice of it or its second places was touched since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamps {
    files: Vec<Option<Stamp>>,
    far: u64,
}

impl SealLog {
    /// How it stands now. It may be otherwise a moment later; whoever commits looks for himself, and keeps others out meanwhile.
    pub fn standing(&self) -> Standing {
        let mut known = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the look: what is touched during it is looked at the next time.
        let now = self.shared.stamps();
        match &*known {
            Some((then, standing)) if *then == now => standing.clone(),
            _ => {
                let standing = self.look();
                *known = Some((now, standing.clone()));
                standing
            }
        }
    }

    fn look(&self) -> Standing {
        // The marks before the log, as in `fault`.
        let mut marks = self.shared.known_marks(&self.shared.far.said(false));
        let (unread, know_nothing) = (marks.unread.take(), marks.trees.is_empty());
        let looked = self.view().and_then(|view| {
            let fault = self.shared.fault(marks, view.contents(), view.tree())?;
            if fault.is_none() {
                // That no key ended and no record was forked is said by what is not there: where that cannot be told, nothing is.
                self.rare(|_| false)?;
            }
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

impl Shared {
    fn stamps(&self) -> Stamps {
        let stamp = |path: &_| self.places.fs.metadata(path).ok().map(Stamp::from);
        let mut files = vec![
            stamp(&self.place.journal()),
            stamp(&self.places.logs().join("current")),
            // Evidence against it that comes.
            stamp(&self.place.root),
        ];
        for mark in self.places.marks(&self.description) {
            // Names that come and go change the folder: those of ends and of other homes.
            files.extend([stamp(mark.folder()), stamp(mark.path())]);
        }
        let far = self.far.heard();
        Stamps { files, far }
    }
}
