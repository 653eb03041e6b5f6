//! [`Standing`]: whether a log counts in the judgement of records.
//!
//! A log that went back, or that cannot be read, is no evidence against a record. But then nothing shows that the heads which
//! this host knows are the newest: they may have been put back together with it.
//!
//! A process may have the log open for days, while another one restores, restarts or ends it. So the standing is computed
//! again when a file or folder was touched that may change it. Stamps of files and folders are cheap to read; places that do
//! not answer at once are read at the first look and with each commit.

use crate::commit::log_access::LogAccess;
use crate::marks::fault::Fault;
use std::sync::{Mutex, PoisonError};
use threadseal_store::read::Stamp;

/// Whether a log counts, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It continues all that its second places know.
    Good,
    /// It went back, is on another machine, or has ended.
    Faulty(Fault),
    /// It cannot be read, for this reason.
    Damaged(String),
    /// A second place cannot be read, for this reason. It would not show that the log was rolled back.
    MarkUnread(String),
    /// No second place knows anything of it.
    MarkGone,
}

impl Standing {
    /// Is the newest head of a record in it the newest that this host ever knew, as far as the log shows?
    pub fn vouches(&self) -> bool {
        !matches!(self, Self::Faulty(_) | Self::Damaged(_))
    }
}

/// Stamps that change when the log, the choice of the current log, or a second place is touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamps {
    files: Vec<Option<Stamp>>,
    remote_answers: u64,
}

impl Stamps {
    pub(crate) fn of(access: &LogAccess) -> Self {
        let home = access.marks.home();
        let stamp = |path: &_| home.fs.metadata(path).ok().map(Stamp::from);
        let mut files = vec![
            stamp(&access.dir.journal()),
            stamp(&home.logs().join("current")),
            // New evidence against the log changes its folder.
            stamp(&access.dir.root),
            stamp(&access.dir.file("log.json")),
        ];
        files.extend(access.marks.stamps());
        Self {
            files,
            remote_answers: access.marks.remote_answers(),
        }
    }
}

/// The last standing, as long as nothing was touched.
#[derive(Debug, Default)]
pub(crate) struct StandingCache(Mutex<Option<(Stamps, Standing)>>);

impl StandingCache {
    /// The standing of the log now; `look` is called if anything was touched since the last call.
    pub(crate) fn get(&self, access: &LogAccess, look: impl FnOnce() -> Standing) -> Standing {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the look: a change during it is seen the next time.
        let now = Stamps::of(access);
        match &*known {
            Some((then, standing)) if *then == now => standing.clone(),
            _ => {
                let standing = look();
                *known = Some((now, standing.clone()));
                standing
            }
        }
    }
}
