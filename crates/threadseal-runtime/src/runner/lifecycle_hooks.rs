//! The hooks around a thread's loop: those before its first turn and after its last.
//!
//! ```text
//! item_used, risks ─► thread_started | thread_continued
//!     ─► layers and blocks around the first message ─► system_prompt, context_injected
//!     ─► loop ─► after_complete ─► terminal event
//! ```
//! A cancelled thread asks no hooks at its end: the cancelling person wants it to stop.

use super::block::{inject, refuse_too_long};
use super::cycle::{End, Pause, ended_by};
use super::hooks::{HookRunner, ThreadHookRecord};
use super::thread_plan::ThreadPlan;
use crate::journal::Journal;
use crate::limit::{Cost, LimitHit};
use crate::model::ChatMessage;
use crate::status::Status;
use serde_json::{Value, json};
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;

/// The facts that every hook of a thread sees.
pub(super) fn facts(plan: &ThreadPlan, id: &ThreadId, continues: Option<&ThreadId>) -> Value {
    json!({
        "thread_id": id.as_str(),
        "directive": plan.item.as_str(),
        "category": plan.subject.directive.category,
        "inputs": plan.inputs,
        "model": plan.subject.chosen.model.name(),
        "limits": plan.limits.to_json(),
        "previous_thread_id": continues.map(ThreadId::as_str),
    })
}

/// Records the items that the thread uses, asks the hooks of its begin, and completes its first
/// message.
///
/// # Errors
/// When nothing can be recorded any more.
pub(super) fn open(
    plan: &ThreadPlan,
    continues: bool,
    hook_runner: &HookRunner<'_>,
    record: &mut ThreadHookRecord<'_>,
    messages: &mut [ChatMessage],
) -> Result<Option<End>, Error> {
    for (kind, payload) in plan.uses()? {
        record.journal.event(kind, &payload)?;
    }
    let event = match continues {
        true => "thread_continued",
        false => "thread_started",
    };
    let more = json!({"cost": Cost::default().to_json()});
    let fired = hook_runner.fire(event, &more, record)?;
    if let Some(end) = fired.decision.as_ref().and_then(ended_by) {
        return Ok(Some(end));
    }
    if let Some(system) = plan.subject.layers.system_note() {
        record.journal.event("system_prompt", &system)?;
    }
    // A successor has its directive's own layers from its predecessors, unless they were trimmed
    // away.
    let said = |text: &str| messages.iter().any(|message| message.text().contains(text));
    let own = plan.subject.layers.around.iter();
    let own = own
        .filter(|block| !continues || !said(&block.text()))
        .cloned();
    let added = fired.blocks.into_iter();
    let mut blocks: Vec<_> = own.collect();
    for block in added.filter(|block| plan.subject.layers.wants(block)) {
        if let Some(used) = &block.used {
            let used =
                serde_json::to_value(used).map_err(|error| Error::invalid(error.to_string()))?;
            record.journal.event("item_used", &used)?;
        }
        blocks.push(block);
    }
    let Some(first) = messages.last_mut() else {
        return Ok(None);
    };
    let bytes: usize = blocks.iter().map(|block| block.text().len() + 2).sum();
    if let Err(error) = refuse_too_long("the first message", first.text().len() + bytes) {
        return Ok(Some(End::Failed(error.to_string())));
    }
    for note in inject(first, &blocks) {
        record.journal.event("context_injected", &note)?;
    }
    Ok(None)
}

/// Asks the hooks of the end.
///
/// # Errors
/// As [`open`].
pub(super) fn close(
    end: &End,
    cost: &Cost,
    hook_runner: &HookRunner<'_>,
    record: &mut ThreadHookRecord<'_>,
) -> Result<(), Error> {
    let (status, text, outputs, error) = match end {
        End::Cancelled => return Ok(()),
        End::Completed { text, outputs } => ("completed", text.as_str(), outputs.as_ref(), None),
        End::Full(_) => ("continued", "", None, None),
        End::Failed(why) => ("error", "", None, Some(why.clone())),
        End::Suspended(pause) => ("suspended", "", None, Some(pause.why.clone())),
        End::LimitReached(reached) => {
            let (text, outputs) = (reached.text.as_str(), reached.outputs.as_ref());
            (
                "limit_reached",
                text,
                outputs,
                Some(reached.hit.to_string()),
            )
        }
    };
    let more = json!({"status": status, "result": text, "outputs": outputs, "error": error,
                      "cost": cost.to_json()});
    hook_runner.fire("after_complete", &more, record).map(drop)
}

/// Records that a thread waits, and for whom; returns the members for its terminal event.
///
/// # Errors
/// As [`open`].
pub(super) fn suspended(pause: &Pause, journal: &mut Journal) -> Result<Value, Error> {
    let mut more = json!({"suspend_reason": pause.reason});
    match &pause.hit {
        Some(hit) => more["limit"] = hit.to_json(),
        None => more["why"] = pause.why.as_str().into(),
    }
    if pause.escalates {
        match &pause.hit {
            Some(hit) => journal.event("limit_escalation_requested", &hit.to_json())?,
            None => journal.event("escalation_requested", &more)?,
        }
    }
    Ok(more)
}

/// Records the limit that ends a thread; returns the members for its terminal event.
///
/// # Errors
/// As [`open`].
pub(super) fn limit_reached(hit: &LimitHit, journal: &mut Journal) -> Result<Value, Error> {
    journal.event("limit_escalation_requested", &hit.to_json())?;
    Ok(limit_members(hit))
}

/// The members of the terminal event of a thread or a run that a limit ended.
pub(super) fn limit_members(hit: &LimitHit) -> Value {
    json!({"status": Status::LimitReached.as_str(), "suspend_reason": "limit",
           "limit": hit.to_json()})
}

#[cfg(test)]
mod tests;
