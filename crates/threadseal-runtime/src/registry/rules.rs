//! The permitted changes to a registry's rows, independent of the store. Each check runs within the
//! transaction that then writes.

use super::{NewThread, Origin, Thread};
use crate::status::Status;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;

/// How many children `parent` has with one more.
pub(super) fn spawn(parent: &Thread, max_spawns: Option<u64>) -> Result<u64, Error> {
    let before = parent.spawns;
    match max_spawns.is_some_and(|max| before >= max) {
        false => Ok(before.saturating_add(1)),
        true => Err(Error::refused(format!(
            "spawns_exceeded: {} has started {before} threads",
            parent.id
        ))),
    }
}

/// May `new` run where `running` threads do?
pub(super) fn room(new: &NewThread<'_>, most: u64, running: u64) -> Result<(), Error> {
    let replaces = matches!(new.origin, Origin::Successor { .. });
    match replaces || running < most {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "threads_exceeded: {running} of {most} threads of this project run (concurrency.max_total_threads); \
             hint: threadseal thread list --active"
        ))),
    }
}

/// The status of `thread`, if it may change to `to`.
pub(super) fn step(thread: &Thread, expected: Option<Status>, to: Status) -> Result<Status, Error> {
    let (id, before) = (&thread.id, thread.standing()?);
    if let Some(expected) = expected.filter(|expected| *expected != before) {
        return Err(Error::refused(format!("{id} is {before}, not {expected}")));
    }
    if to == Status::Continued {
        return Err(Error::refused(format!(
            "{id} becomes continued by a link to its successor"
        )));
    }
    before.step(to)?;
    Ok(before)
}

/// When a chain's older thread ended, and with which thread the chain begins.
pub(super) struct Linked {
    pub(super) ended: String,
    pub(super) root: String,
}

/// May `after` continue `before`?
pub(super) fn link(before: Thread, after: &Thread, at: Timestamp) -> Result<Linked, Error> {
    let (old, new) = (&before.id, &after.id);
    if old == new {
        return Err(Error::refused(format!("{old} cannot continue itself")));
    }
    // Errors become part of records: none repeats what anyone may have written into a row.
    if before.continuation.is_some() {
        return Err(Error::refused(format!(
            "the registry names a thread that continues {old} already; hint: threadseal thread inspect"
        )));
    }
    // A thread with a successor could precede `old`: the chain would be a circle.
    if after.continuation_of.is_some() || after.continuation.is_some() {
        return Err(Error::refused(format!("{new} is part of a chain already")));
    }
    before.standing()?.step(Status::Continued)?;
    let root = before.chain_root.clone();
    Ok(Linked {
        root: root.unwrap_or_else(|| old.as_str().to_owned()),
        ended: before.completed_at.unwrap_or_else(|| at.to_python_text()),
    })
}

/// May `record` be that of `thread`?
pub(super) fn record(thread: &Thread, record: &RecordId) -> Result<(), Error> {
    match thread.record.is_none_or(|known| known == *record) {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "{} has another record already",
            thread.id
        ))),
    }
}

/// The error for an id that is taken.
pub(super) fn taken(id: &ThreadId) -> Error {
    Error::refused(format!("a thread {id} is registered already"))
}
