//! Orphaned threads: those that a registry has as running, and whose process is gone.
//!
//! ```text
//! row `created` or `running`
//!   ─► a process holds the lock of its record?            it lives
//!   ─► the row's process is one of this host?             gone, or it lives
//!   ─► no such process is known here                      gone after `stale_threshold_minutes`
//! healed: children before their parents; each is recovered under the lock of its record
//! ```
//! A row is not signed. One that names a dead process ends no living thread, since its record's lock
//! is held. Which thread is whose child is read from line 1, where that verifies.
//!
//! Normative: `spec/runtime.md`, "Orphaned threads".

use super::orchestrator::{Need, Records};
use super::recover::{self, Recovered};
use super::services::Services;
use super::stop::writer;
use crate::config::coordination::{Coordination, OrphanAction};
use crate::process_id::{Held, ProcessId};
use crate::project_id;
use crate::registry::{Filter, Thread};
use crate::status::Status;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;

/// Which orphaned threads are ended.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// All of the project.
    All,
    /// Those of the tree that this thread belongs to.
    Tree(&'a ThreadId),
}

/// What became of an orphaned thread.
#[derive(Debug)]
pub struct Healed {
    /// The thread.
    pub id: ThreadId,
    /// Its parent, by line 1, or by the row where that cannot be read.
    pub parent: Option<ThreadId>,
    /// Its end; the error where its record does not verify. Its row has the status `error` then.
    pub end: Result<Recovered, Error>,
}

/// What a command found before it began.
#[derive(Debug)]
pub enum Found {
    /// Nothing was looked for.
    Off,
    /// These were ended.
    Ended(Vec<Healed>),
    /// These were left as they are.
    Left(Vec<ThreadId>),
}

/// Looks for orphaned threads as the settings ask, before a command begins its own work.
///
/// # Errors
/// When registry or budgets cannot be read or written.
pub(super) fn scan(services: &Services) -> Result<Found, Error> {
    let settings = &services.config.coordination.orphans;
    if !settings.enabled || !settings.scan_on_startup {
        return Ok(Found::Off);
    }
    match settings.action {
        OrphanAction::End | OrphanAction::Resume => heal(services, Scope::All).map(Found::Ended),
        OrphanAction::Report => {
            let found = find(&Records::from(services), settings.stale)?;
            Ok(Found::Left(
                found.into_iter().map(|thread| thread.id).collect(),
            ))
        }
    }
}

/// Ends the orphaned threads, children before their parents.
///
/// # Errors
/// When the registry cannot be read or written.
pub(super) fn heal(services: &Services, scope: Scope<'_>) -> Result<Vec<Healed>, Error> {
    let records = Records::from(services);
    let orphans = find(&records, services.config.coordination.orphans.stale)?;
    let parents: BTreeMap<ThreadId, Option<ThreadId>> = orphans
        .iter()
        .map(|thread| (thread.id.clone(), parent_of(&records, thread)))
        .collect();
    let mut order = Vec::new();
    for id in parents.keys() {
        children_first(&parents, id, &mut BTreeSet::new(), &mut order);
    }
    if let Scope::Tree(id) = scope {
        let top = root(&records, &parents, id)?;
        order.retain(|id| root(&records, &parents, id).is_ok_and(|of| of == top));
    }
    let mut healed = Vec::new();
    for id in order {
        let end = match recover::recover(services, &id, Status::Error, recover::CAUSE) {
            Err(error) => match still(services, &records, &id)? {
                // It lives after all, or another process ended it meanwhile.
                false => continue,
                true => {
                    if error.kind() == ErrorKind::Refused {
                        give_up(services, &id, &error)?;
                    }
                    Err(error)
                }
            },
            Ok(recovered) => Ok(recovered),
        };
        let parent = parents.get(&id).cloned().flatten();
        healed.push(Healed { id, parent, end });
    }
    Ok(healed)
}

/// The threads of a registry whose process is gone; one without a sign of life counts after `stale`.
///
/// # Errors
/// When the registry cannot be read.
fn find(records: &Records, stale: Duration) -> Result<Vec<Thread>, Error> {
    let filter = Filter {
        statuses: vec![Status::Created, Status::Running],
        ..Filter::default()
    };
    let listed = records.registry.list(&filter)?.threads;
    let now = records.host.clock.now()?;
    let mut orphans = Vec::new();
    for thread in listed {
        if is_orphan(records, &thread, now, stale)? {
            orphans.push(thread);
        }
    }
    Ok(orphans)
}

impl Records {
    /// Is the process of this thread of files gone? One that names no process of this host counts
    /// after an hour without a change. Takes no lock and writes nothing.
    ///
    /// # Errors
    /// When the clock or the thread's folder cannot be read.
    pub fn is_orphaned(&self, thread: &Thread) -> Result<bool, Error> {
        let stale = Coordination::default().orphans.stale;
        is_orphan(self, thread, self.host.clock.now()?, stale)
    }
}

/// Is the process of a thread gone?
fn is_orphan(
    records: &Records,
    thread: &Thread,
    now: Timestamp,
    stale: Duration,
) -> Result<bool, Error> {
    let is_active = matches!(thread.status, Ok(Status::Created | Status::Running));
    // Rye's rows name no record, and Rye ends its threads.
    if !is_active || thread.record.is_none() {
        return Ok(false);
    }
    if writer(&records.host, &records.project, &thread.id)?.is_some() {
        return Ok(false);
    }
    let here = ProcessId::own();
    let named = thread.process().filter(|named| {
        let same = |own: &ProcessId| own.is_beside(named);
        here.as_ref().is_some_and(same)
    });
    Ok(match named {
        Some(named) => Held::of(named.pid)?.is_none_or(|held| !held.id().is(&named)),
        None => is_stale(thread, now, stale),
    })
}

fn still(services: &Services, records: &Records, id: &ThreadId) -> Result<bool, Error> {
    let Some(row) = records.registry.get(id)? else {
        return Ok(false);
    };
    let stale = services.config.coordination.orphans.stale;
    is_orphan(records, &row, records.host.clock.now()?, stale)
}

/// Was the row last changed longer ago than that? Not where its time is none.
fn is_stale(thread: &Thread, now: Timestamp, stale: Duration) -> bool {
    let stamp = thread
        .updated_at
        .as_deref()
        .and_then(Timestamp::parse_rfc3339);
    let age = stamp.map(|stamp| now.as_micros().saturating_sub(stamp.as_micros()));
    age.is_some_and(|age| Duration::from_micros(age) > stale)
}

/// The thread that began this one.
fn parent_of(records: &Records, thread: &Thread) -> Option<ThreadId> {
    let by_row = thread
        .parent
        .as_deref()
        .and_then(|parent| ThreadId::parse(parent).ok())?;
    // Line 1 has the parent's seal: a row that names another thread is not followed.
    let Ok(past) = records.past(&thread.id, Need::Sealed) else {
        return Some(by_row);
    };
    let head = past.manifest.parent?;
    let of_row = records.past(&by_row, Need::Sealed).ok();
    of_row
        .is_none_or(|row| row.manifest.record == head.record)
        .then_some(by_row)
}

/// Pushes the children of a thread, then itself.
fn children_first(
    parents: &BTreeMap<ThreadId, Option<ThreadId>>,
    id: &ThreadId,
    above: &mut BTreeSet<ThreadId>,
    order: &mut Vec<ThreadId>,
) {
    if order.contains(id) || !above.insert(id.clone()) {
        return;
    }
    for (child, parent) in parents {
        if parent.as_ref() == Some(id) {
            children_first(parents, child, above, order);
        }
    }
    order.push(id.clone());
}

/// The first thread above one: by the lines 1, then by rows.
fn root(
    records: &Records,
    parents: &BTreeMap<ThreadId, Option<ThreadId>>,
    id: &ThreadId,
) -> Result<ThreadId, Error> {
    let (mut at, mut passed) = (id.clone(), BTreeSet::new());
    while passed.insert(at.clone()) {
        let above = match parents.get(&at) {
            Some(parent) => parent.clone(),
            None => match records.registry.get(&at)? {
                Some(row) => parent_of(records, &row),
                None => None,
            },
        };
        match above {
            Some(parent) => at = parent,
            None => break,
        }
    }
    Ok(at)
}

/// A record that does not verify gets no end: only its row and its budget do. A thread of another
/// project is left as it is.
pub(super) fn give_up(services: &Services, id: &ThreadId, why: &Error) -> Result<(), Error> {
    if project_id::check_thread(&services.host, &services.project, &services.trust, id).is_err() {
        return Ok(());
    }
    let now = services.host.clock.now()?;
    if services.budgets.get(id)?.is_some() {
        services.budgets.release(id, Status::Error, now)?;
    }
    let result = json!({"success": false, "status": "refused", "error": why.to_string()});
    services.registry.set_result(id, &result, now)?;
    services.registry.correct(id, Status::Error, now)
}
