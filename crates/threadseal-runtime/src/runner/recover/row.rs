//! The row of a thread, corrected to match its record, and entered anew where it is gone.
//!
//! ```text
//! record verifies, as far as its seals reach
//!   ─► line 1: directive, model, parent, predecessor; links; children
//!   ─► row made or corrected ─► status, cost and result, as for any recovered thread
//! ```
//! A registry proves nothing, and everything important in it is also in a record. So an attacker
//! who deletes or edits a row hides no thread.

use super::super::engine::Engine;
use super::super::orchestrator::Records;
use crate::history::ThreadLinks;
use crate::registry::Thread;
use crate::status::Status;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;

impl Engine {
    /// Corrects the row of a thread to match its record, where it has one of ThreadSeal's.
    pub(super) fn enter(&self, id: &ThreadId) -> Result<(), Error> {
        let transcript = self.project.thread(id).transcript();
        let there = self.host.fs.symlink_metadata(&transcript).is_ok();
        if !there || self.archive().is_original(id)? {
            return Ok(());
        }
        let row = self.registry.get(id)?;
        let said = ThreadLinks::new(self.archive()).recorded(id, row.as_ref())?;
        match row.is_some_and(|row| said.contradictions(&row).is_empty()) {
            true => Ok(()),
            false => self.registry.enter(&said, self.host.clock.now()?),
        }
    }

    /// Does a row match the record, and its result `thread.json`? Not where the record does not
    /// verify: a recovery reports that.
    pub(super) fn says_the_same(&self, id: &ThreadId, row: &Thread) -> bool {
        let said = ThreadLinks::new(self.archive()).recorded(id, Some(row));
        said.is_ok_and(|said| said.contradictions(row).is_empty())
            && !Records::from(self).denies_result(row)
    }

    /// Corrects the rows of a thread and of its successor to match both records; in one step, where
    /// neither row has the link yet.
    pub(super) fn tell_link(&self, id: &ThreadId, successor: &ThreadId) -> Result<(), Error> {
        let now = self.host.clock.now()?;
        let (row, after) = (self.registry.get(id)?, self.registry.get(successor)?);
        let is_linked = |row: &Thread| row.continuation.is_some() || row.continuation_of.is_some();
        if let (Some(row), Some(after)) = (&row, &after)
            && row.continuation.is_none()
            && !is_linked(after)
        {
            if !matches!(row.status, Ok(status) if status.may_become(Status::Continued)) {
                self.registry.correct(id, Status::Running, now)?;
            }
            self.registry.link(id, successor, now)?;
        }
        self.enter(id)?;
        let row = self.registry.get(id)?;
        if row.is_some_and(|row| row.status != Ok(Status::Continued)) {
            self.registry.correct(id, Status::Continued, now)?;
        }
        match after {
            Some(_) => self.enter(successor),
            // Recovering that one enters it.
            None => Ok(()),
        }
    }
}
