//! Continues threads that were ended because their process was gone, where the settings ask for that.
//!
//! ```text
//! ended under the lock of its record (`orphans`) ─► no parent? ─► attempts, by its record
//!   ─► what its limits have left ─► `thread resume`, or `graph resume` without a decision
//! ```
//! No person asked: so the limits do not begin anew, and line 1 counts the attempts. A child is
//! not continued, since its parent's conversation shows the call that began it as unresolved.
//!
//! Normative: `spec/runtime.md`, "Orphaned threads".

use super::accounts::left_of;
use super::graph_run;
use super::order::{Ran, ResumeMode, Resumption};
use super::resume;
use super::services::Services;
use super::starter::Starter;
use crate::bounds::MAX_ORPHAN_RESUMPTIONS;
use crate::cancel::Cancel;
use crate::config::coordination::OrphanAction;
use crate::history::VerifiedRecord;
use crate::limit::{Cost, Limits};
use serde_json::Value;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;

/// The first message of a successor that no person asked for.
const MESSAGE: &str =
    "The process of this thread was gone before its end. Continue where the conversation ends.";

/// A thread that was ended, and was to be continued.
#[derive(Debug)]
pub struct ResumedOrphan {
    /// The thread.
    pub before: ThreadId,
    /// Its successor at its end; the error where it is not continued.
    pub ran: Result<Ran, Error>,
}

/// Continues those of `ended` that no other thread began, one after the other.
pub(super) fn resume_all<'a>(
    services: &Services,
    starter: Starter,
    ended: impl IntoIterator<Item = &'a ThreadId>,
    cancel: &Cancel,
) -> Vec<ResumedOrphan> {
    if services.config.coordination.orphans.action != OrphanAction::Resume {
        return Vec::new();
    }
    let one = |id: &ThreadId| {
        let ran = resume_one(services, starter, id, cancel).transpose()?;
        Some(ResumedOrphan {
            before: id.clone(),
            ran,
        })
    };
    ended.into_iter().filter_map(one).collect()
}

/// None for a thread that another one began, and for one without a record.
fn resume_one(
    services: &Services,
    starter: Starter,
    id: &ThreadId,
    cancel: &Cancel,
) -> Result<Option<Ran>, Error> {
    let transcript = services.project.thread(id).transcript();
    if services.host.fs.symlink_metadata(&transcript).is_err() {
        return Ok(None);
    }
    let record = services.archive().record(id, None)?;
    if record
        .manifest()
        .is_some_and(|line_1| line_1.parent.is_some())
    {
        return Ok(None);
    }
    let line_1 = record.meta_of_line_1()?;
    let times = record.times_unasked()? + 1;
    if times > MAX_ORPHAN_RESUMPTIONS {
        return Err(Error::refused(format!(
            "it was resumed {MAX_ORPHAN_RESUMPTIONS} times in a row, and its process was gone each time; hint: threadseal \
             thread resume {id}"
        )));
    }
    if line_1["kind"] == graph_run::KIND {
        return graph_run::resume::go_on(services, starter, id, cancel, times).map(Some);
    }
    let wanted = Resumption {
        thread: id.clone(),
        message: MESSAGE.to_owned(),
        limits: left(services, &record, &line_1)?,
        cancel: cancel.clone(),
    };
    let way = ResumeMode::Resume;
    resume::resume(services, starter, &wanted, way, None, times).map(Some)
}

/// What is left of its limits: its own use, and that of the threads that handed themselves over to it.
fn left(services: &Services, record: &VerifiedRecord, line_1: &Value) -> Result<Limits, Error> {
    let limits = left_of(services, record.id(), record.manifest())?;
    let carried = match &line_1["carried"] {
        Value::Null => Cost::default(),
        carried => Cost {
            spawns: carried["spawns"].as_u64().unwrap_or_default(),
            ..Cost::from_json(carried)?
        },
    };
    let children = record
        .events()
        .filter(|event| event["event_type"] == "child_thread_started");
    let spawned = Cost {
        spawns: children.count() as u64,
        ..Cost::default()
    };
    Ok(limits.less(&carried).less(&spawned))
}
