//! The row of a thread, corrected to match its record, and entered anew where it is gone.
//!
//! ```text
//! record verifies, as far as its seals reach
//!   ─► line 1: directive, model, parent, predecessor; links; children
//!   ─► row made or corrected ─► status, cost and result, as for any recovered thread
//! ```
//! A registry proves nothing, and everything important in it is also in a record. So an attacker
//! who deletes or edits a row hides no thread.

use super::super::orchestrator::Records;
use super::super::services::Services;
use crate::history::ThreadLinks;
use crate::registry::Thread;
use crate::status::Status;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;

/// Corrects the row of a thread to match its record, where it has one of ThreadSeal's.
pub(in crate::runner) fn enter(services: &Services, id: &ThreadId) -> Result<(), Error> {
    let transcript = services.project.thread(id).transcript();
    let there = services.host.fs.symlink_metadata(&transcript).is_ok();
    if !there || services.archive().is_original(id)? {
        return Ok(());
    }
    let row = services.registry.get(id)?;
    let said = ThreadLinks::new(services.archive()).recorded(id, row.as_ref())?;
    match row.is_some_and(|row| said.contradictions(&row).is_empty()) {
        true => Ok(()),
        false => services.registry.enter(&said, services.host.clock.now()?),
    }
}

/// Does a row match the record, and its result `thread.json`? Not where the record does not
/// verify: a recovery reports that.
pub(in crate::runner) fn says_the_same(services: &Services, id: &ThreadId, row: &Thread) -> bool {
    let said = ThreadLinks::new(services.archive()).recorded(id, Some(row));
    said.is_ok_and(|said| said.contradictions(row).is_empty())
        && !Records::from(services).denies_result(row)
}

/// Corrects the rows of a thread and of its successor to match both records; in one step, where
/// neither row has the link yet.
pub(in crate::runner) fn tell_link(
    services: &Services,
    id: &ThreadId,
    successor: &ThreadId,
) -> Result<(), Error> {
    let now = services.host.clock.now()?;
    let (row, after) = (
        services.registry.get(id)?,
        services.registry.get(successor)?,
    );
    let is_linked = |row: &Thread| row.continuation.is_some() || row.continuation_of.is_some();
    if let (Some(row), Some(after)) = (&row, &after)
        && row.continuation.is_none()
        && !is_linked(after)
    {
        if !matches!(row.status, Ok(status) if status.may_become(Status::Continued)) {
            services.registry.correct(id, Status::Running, now)?;
        }
        services.registry.link(id, successor, now)?;
    }
    enter(services, id)?;
    let row = services.registry.get(id)?;
    if row.is_some_and(|row| row.status != Ok(Status::Continued)) {
        services.registry.correct(id, Status::Continued, now)?;
    }
    match after {
        Some(_) => enter(services, successor),
        // Recovering that one enters it.
        None => Ok(()),
    }
}
