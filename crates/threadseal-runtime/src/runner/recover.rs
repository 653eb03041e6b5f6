//! Recovering a thread whose process is gone: its record gets an honest end.
//!
//! ```text
//! lock (no process writes it) ─► verify
//!   ─► tail set aside, `tail_dropped`; with `transcript_integrity: lenient` `tail_adopted`
//!   ─► `child_thread_ended` for each child that ended, sealed
//!   ─► `tool_call_unresolved` for each call that began and has no sealed result (`open`)
//!   ─► `thread_error`, or `thread_continued` where its link names an existing successor;
//!      final seal
//!   ─► thread.json (from line 1 where the thread died before its first one), budget,
//!      registry (its row, too)
//! ```
//! Events that no seal covers never count again. Only the names of calls are taken from them, and
//! from the step ledger: a call's start is durable there beforehand. It is unknown whether such a
//! call was carried out, and nothing repeats it. A thread that had ended is recovered too, if its
//! record has a tail (a cut-off link). So is one whose record names a successor that the registry
//! lacks. The same holds if its row is gone or contradicts the record.
//!
//! Normative: `spec/runtime.md`, "Recovering".

mod first;
mod follow;
mod open;
mod row;

pub(super) use follow::close;
pub(super) use open::steps_of;

use super::accounts::charge_unknown;
use super::held_record;
use super::orchestrator::Records;
use super::order::Ran;
use super::services::Services;
use crate::config::coordination::Integrity;
use crate::limit::Cost;
use crate::no_links::refuse_links;
use crate::project::ThreadFolder;
use crate::project_id;
use crate::registry::{Thread, suits};
use crate::signed_file::refusal;
use crate::status::Status;
use open::Left;
use serde_json::{Value, json};
use std::path::PathBuf;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::report::Verdict;
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::parse_line;
use threadseal_store::examine;
use threadseal_store::read::open_regular;
use threadseal_store::recorder::{Recorder, TailPolicy};

/// Why a recovered thread ended.
pub(super) const CAUSE: &str = "its process is gone";

/// A thread that was recovered.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovered {
    /// Its status now: the one in its record, where that had ended already, else `error`.
    pub status: Status,
    /// Its final seal; None where its record had not begun.
    pub head: Option<Head>,
    /// Calls that began and have no result in the record: `call_id`, `tool`, `item_id`,
    /// `idempotency_key`; `child_thread_id` where the call began that thread.
    pub unresolved: Vec<Value>,
    /// Where the bytes are that no seal covered.
    pub tail: Option<PathBuf>,
    /// Had its record no end of its own?
    pub was_cut_off: bool,
}

/// Ends a thread that is marked as running without a process; repairs the end of one that has
/// ended. A thread without an end of its own gets the status `failed`, for this cause.
///
/// # Errors
/// As `Engine::recover`.
pub(in crate::runner) fn recover(
    services: &Services,
    id: &ThreadId,
    failed: Status,
    cause: &str,
) -> Result<Recovered, Error> {
    let folder = services.project.thread(id);
    let there = ailing(services, id, &folder)?;
    if !there {
        close(services, id, &folder.metadata(), failed)?;
        return Ok(Recovered {
            status: failed,
            head: None,
            unresolved: Vec::new(),
            tail: None,
            was_cut_off: false,
        });
    }
    let steps = steps_of(services, &folder)?;
    let policy = match services.config.coordination.transcript_integrity {
        Integrity::Strict => TailPolicy::SetAside,
        Integrity::Lenient => TailPolicy::Adopt,
    };
    let mut opened = held_record::open(services, id, policy)?;
    let tail = opened.moved.take().map(|moved| moved.path);
    let left = open::left_open(services, id, &folder, &steps)?;
    let successor = standing_successor(
        services,
        &folder,
        &left,
        opened.recorder.state().manifest().record,
    )?;
    let mut recorder = opened.recorder;
    let was_cut_off = !recorder.state().is_ended() && successor.is_none();
    let ended = match (recorder.state().is_ended(), &successor) {
        (true, _) => left.ended,
        (false, Some(successor)) => {
            end_as(&mut recorder, &left.unresolved, cause, Some(successor))?;
            Status::Continued
        }
        (false, None) => {
            charge_unknown(services, id, &mut recorder)?;
            note_children(services, &mut recorder, &left.children)?;
            end(&mut recorder, &left.unresolved, cause)?;
            failed
        }
    };
    open::remember_steps(services, &folder)?;
    let now_at = follow::follow_record(services, id, &folder, ended, successor.as_ref())?;
    Ok(Recovered {
        status: now_at,
        head: recorder.state().head().copied(),
        unresolved: left.unresolved,
        tail,
        was_cut_off,
    })
}

/// Would `Engine::recover` find something to do, in a record whose seals hold? Takes no lock
/// and writes nothing.
///
/// # Errors
/// As `Engine::recover`.
pub(in crate::runner) fn check(services: &Services, id: &ThreadId) -> Result<(), Error> {
    let folder = services.project.thread(id);
    let there = ailing(services, id, &folder)?;
    if !there {
        return Ok(());
    }
    let path = folder.transcript();
    let opened = Records::from(services)
        .verifier(id)?
        .open_transcript(&path)?;
    if opened.result.verified_part.is_none() {
        return Err(refusal(&path, &opened.result.report));
    }
    steps_of(services, &folder).map(drop)
}

/// Did a thread that may have to be recovered leave a record?
fn ailing(services: &Services, id: &ThreadId, folder: &ThreadFolder) -> Result<bool, Error> {
    refuse_links(&*services.host.fs, folder)?;
    let row = services.registry.get(id)?;
    services.project.inside(&*services.host.fs, folder.path())?;
    project_id::check_thread(&services.host, &services.project, &services.trust, id)?;
    let there = services
        .host
        .fs
        .symlink_metadata(&folder.transcript())
        .is_ok();
    if !there && row.is_none() {
        let text = format!("no thread {id} is registered here");
        return Err(Error::refused(text));
    }
    // Where there is a record, the row only shows where to look.
    let running = |row: &Thread| matches!(row.status, Ok(Status::Created | Status::Running));
    let running = row.as_ref().is_some_and(running);
    let nothing = match there {
        true => is_whole(services, folder, id, row.as_ref(), running)?,
        false => !running,
    };
    if nothing {
        let status = row.as_ref().and_then(|row| row.status.as_ref().ok());
        let status = status.map_or("whole", |status| status.as_str());
        return Err(Error::refused(format!(
            "{id} is {status}: there is nothing to recover"
        )));
    }
    Ok(there)
}

/// Does the record end properly, do thread.json and the registry agree, and does the registry
/// know the successor?
fn is_whole(
    services: &Services,
    folder: &ThreadFolder,
    id: &ThreadId,
    row: Option<&Thread>,
    running: bool,
) -> Result<bool, Error> {
    let first = examine::first_line(&open_regular(&*services.host.fs, &folder.transcript())?)?;
    if first.as_deref().and_then(parse_line).is_none() {
        // A record of Rye is never changed, and so not repaired.
        return Ok(!running);
    }
    let verifier = Records::from(services).verifier(id)?;
    let report = verifier
        .open_transcript(&folder.transcript())?
        .result
        .report;
    let left = open::left_open(services, id, folder, &[])?;
    let Some(row) = row.filter(|_| report.verdict != Verdict::UnsignedTail && left.is_ended) else {
        return Ok(false);
    };
    let ended = match left.successors.is_empty() {
        true => left.ended,
        false => Status::Continued,
    };
    let papers = first::papers(services, id, folder)?;
    if papers.is_none() && first::never_had(services, &folder.metadata())? {
        return Ok(false);
    }
    let cost = papers.as_ref().and_then(|papers| papers.cost);
    if cost.is_some_and(|cost| !row.cost_is(&cost)) {
        return Ok(false);
    }
    let stated = papers.map(|papers| papers.status);
    let right =
        |status: Status| suits(ended, status) && stated.is_none_or(|stated| stated == status);
    Ok(stated.is_none_or(|stated| suits(ended, stated))
        && row.standing().is_ok_and(right)
        && row::says_the_same(services, id, row))
}

/// May a child with this end have done more than its record shows, or have been stopped in the
/// middle?
pub(in crate::runner) fn is_unknown(services: &Services, ran: &Ran) -> bool {
    let ended_itself = match ran.status {
        Status::Completed => return false,
        Status::Error | Status::Suspended | Status::LimitReached => ran.carried == Cost::default(),
        _ => false,
    };
    let folder = services.project.thread(&ran.thread);
    !ended_itself || open::may_be_open(services, &ran.thread, &folder)
}

/// The thread that the record's link names, if it exists: its line 1 names this record.
fn standing_successor(
    services: &Services,
    folder: &ThreadFolder,
    left: &Left,
    record: RecordId,
) -> Result<Option<ThreadId>, Error> {
    let Some(id) = left.successors.last() else {
        return Ok(None);
    };
    let id = ThreadId::parse(id)?;
    let found = services.project.find_thread(&*services.host.fs, &id)?;
    let path = found.map(|found| found.transcript());
    let path = path.filter(|path| services.host.fs.symlink_metadata(path).is_ok());
    let Some(path) = path else {
        return Err(Error::refused(format!(
            "{} names {id}, whose record is missing",
            folder.transcript().display()
        )));
    };
    let first = examine::first_line(&open_regular(&*services.host.fs, &path)?)?;
    let manifest = first.as_deref().and_then(parse_line);
    let named = manifest.and_then(|manifest| manifest.predecessor);
    match named.is_some_and(|head| head.record == record) {
        true => Ok(Some(id)),
        false => Err(Error::refused(format!(
            "{} names {id}, whose record continues another one",
            folder.transcript().display()
        ))),
    }
}

/// Seals the ends of children that this record began, where theirs verify and have one.
fn note_children(
    services: &Services,
    recorder: &mut Recorder,
    children: &[ThreadId],
) -> Result<(), Error> {
    let own = recorder.state().manifest().record;
    let mut heads = Vec::new();
    for child in children {
        let Ok(record) = services.archive().record(child, None) else {
            continue;
        };
        let parent = record.manifest().and_then(|line_1| line_1.parent);
        let is_own = parent.is_some_and(|parent| parent.record == own);
        let (Some(status), true) = (record.ended(), is_own) else {
            continue;
        };
        let head = record.head();
        let ended = json!({"child_thread_id": child.as_str(), "status": status.as_str(),
                           "head": head.to_string()});
        let payload = Payload::parse(ended.to_string().as_bytes())?;
        recorder.append(&EventType::parse("child_thread_ended")?, &payload)?;
        heads.push(head);
    }
    if heads.is_empty() {
        return Ok(());
    }
    let ext = Ext {
        children: heads,
        ..Ext::default()
    };
    recorder.seal(recorder.state().turn(), ext).map(drop)
}

/// Names the open calls and ends the record.
pub(super) fn end(recorder: &mut Recorder, unresolved: &[Value], cause: &str) -> Result<(), Error> {
    end_as(recorder, unresolved, cause, None)
}

/// The same, where another thread continues.
fn end_as(
    recorder: &mut Recorder,
    unresolved: &[Value],
    cause: &str,
    successor: Option<&ThreadId>,
) -> Result<(), Error> {
    let payload = |value: &Value| Payload::parse(value.to_string().as_bytes());
    for call in unresolved {
        recorder.append(&EventType::parse("tool_call_unresolved")?, &payload(call)?)?;
    }
    let turn = recorder.state().turn();
    let (ending, said) = match successor {
        Some(successor) => (
            Ending::Continued,
            json!({"new_thread_id": successor.as_str(), "unresolved": unresolved.len()}),
        ),
        None => (
            Ending::Error,
            json!({"error": cause, "unresolved": unresolved.len()}),
        ),
    };
    recorder.end(ending, &payload(&said)?, turn).map(drop)
}
