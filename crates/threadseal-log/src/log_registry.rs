//! [`LogRegistry`]: the logs of a home: which one is current, how one begins, and how another one takes its place.

use crate::layout::description::{Description, LogId};
use crate::layout::log_home::LogHome;
use crate::layout::mark_location::MarkLocation;
use crate::marks::mark_set;
use crate::recovery::creation::{self, NewLog, head_entry};
use crate::recovery::key_ends::KeyEnds;
use crate::recovery::restart::OldLog;
use crate::tree::writer::LogKey;
use std::path::PathBuf;
use threadseal_core::error::Error;
use threadseal_core::merkle::TreeHead;
use threadseal_core::tlog::entry::LoggedHead;

/// The logs of a home.
#[derive(Debug, Clone)]
pub struct LogRegistry {
    pub(crate) home: LogHome,
}

impl LogRegistry {
    /// The logs of `home`.
    pub fn new(home: LogHome) -> Self {
        Self { home }
    }

    /// The home that they are of.
    pub fn home(&self) -> &LogHome {
        &self.home
    }

    pub(crate) fn into_home(self) -> LogHome {
        self.home
    }

    /// The current log; None when this home never had one.
    ///
    /// # Errors
    /// Kind `Refused`, `log_missing`, when there is none and the second place knows one; `External` when a file is damaged
    /// or cannot be read.
    pub fn current(&self) -> Result<Option<Description>, Error> {
        creation::current(&self.home)
    }

    /// The id of the current log, whether it can be opened or not.
    ///
    /// # Errors
    /// Kind `External` when the file is damaged or cannot be read.
    pub fn current_id(&self) -> Result<Option<LogId>, Error> {
        self.home.current_id()
    }

    /// Makes the first log of this home. Heads that are known already are its first entries. `keep` puts its key among those of
    /// the home, durably, once the log is whole: a key shows that there was a log.
    ///
    /// # Errors
    /// Kind `Refused` when one was made meanwhile, `External` when the system fails; what `keep` returns. The log is current
    /// only after everything of it is durable.
    pub fn create(
        &self,
        description: &Description,
        key: &LogKey,
        known: &[LoggedHead],
        keep: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let new = NewLog {
            description,
            key,
            entries: &mut known.iter().map(head_entry),
            replaces: None,
            ends: &KeyEnds::default(),
            keep_key: keep,
        };
        creation::make(&self.home, new)
    }

    /// Makes the log current whose making was cut short after its key. It is whole, and only that key shows that there was a
    /// log; `has_key` answers whether the home has the key of this one. Answers whether there was such a log.
    ///
    /// # Errors
    /// Kind `External` when the system fails.
    pub fn finish(&self, has_key: &dyn Fn(&Description) -> bool) -> Result<bool, Error> {
        creation::finish(&self.home, has_key)
    }

    /// Has a log keep its last checkpoint in these places from now on. Marks in other places stay there, and are not read any
    /// more. The first place stays as it was. Processes that have the log open use the places that they know.
    ///
    /// # Errors
    /// Kind `InvalidInput` for too many places. If a place is added: `Refused` when one of them contradicts the log, and
    /// `External` when one does not answer. `External` also when a file cannot be read or written. Then nothing was changed.
    pub fn keep_marks_in(
        &self,
        description: &Description,
        marks: Vec<MarkLocation>,
    ) -> Result<Description, Error> {
        mark_set::change_locations(&self.home, description.id, marks)
    }

    /// The remains of the log of this home, with its copies in the folders `copies`; `witnessed` is the tree of it that a
    /// quorum of witnesses cosigned, as far as the caller knows. None when there was none, or only its key remains.
    ///
    /// # Errors
    /// Kind `External` when neither the log nor its second place can be read, or a copy cannot be; `Refused` when a copy is of
    /// another log.
    pub fn past(
        &self,
        copies: &[PathBuf],
        witnessed: Option<TreeHead>,
    ) -> Result<Option<OldLog>, Error> {
        OldLog::find(&self.home, copies, witnessed)
    }

    /// Makes another log in the place of one that does not continue. Its first entry names the old one; the newest heads that
    /// the old one or the home has follow. Answers the number of records that were carried over.
    ///
    /// # Errors
    /// As [`LogRegistry::create`]; kind `Refused` also when the log is there and cannot be read whole, unless `all_the_same`,
    /// and when it grew meanwhile.
    pub fn restart(
        &self,
        old: OldLog,
        description: &Description,
        key: &LogKey,
        stored: &[LoggedHead],
        all_the_same: bool,
    ) -> Result<usize, Error> {
        old.replace(&self.home, description, key, stored, all_the_same)
    }
}
