//! The entries of a thread in budgets and registry: the money set aside for it, and its end.

use super::order::Ran;
use super::services::Services;
use crate::limit::{Cost, Limits};
use crate::model::dynamic;
use crate::money::{Nanos, Share};
use crate::status::Status;
use crate::thread_meta::ThreadMeta;
use serde_json::json;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_store::recorder::Recorder;

/// Gives a thread its budget: its own limit, at most what remains of its parent's; a child that
/// declares none gets a share of that.
pub(super) fn set_aside(
    services: &Services,
    id: &ThreadId,
    parent: Option<&ThreadId>,
    (limit, declared): (Option<Nanos>, bool),
    now: Timestamp,
) -> Result<Nanos, Error> {
    let budgets = &services.budgets;
    let limit = limit.unwrap_or(Nanos::MAX);
    let Some(parent) = parent else {
        budgets.register(id, limit, now)?;
        return Ok(limit);
    };
    let share = match declared {
        true => Share::ALL,
        false => services.config.resilience.child_share,
    };
    budgets.reserve_share(id, parent, limit, share, now)
}

/// What the use of a thread or a run left of the limits of its line 1; of its money by the budget,
/// where that shows more use.
pub(super) fn left_of(
    services: &Services,
    id: &ThreadId,
    line_1: Option<&Manifest>,
) -> Result<Limits, Error> {
    let line_1 = line_1.ok_or_else(|| Error::refused("the record has no manifest"))?;
    let folder = services.project.thread(id);
    let meta = ThreadMeta::read(&services.host, &folder, id, Some(line_1), &services.trust)?;
    let cost = meta.get().cost.unwrap_or_default();
    let budget = services.budgets.get(id)?;
    let spend = budget.map_or(cost.spend, |budget| budget.actual.max(cost.spend));
    Ok(Limits::from_json(&dynamic(&line_1.limits)?)?.less(&Cost { spend, ..cost }))
}

/// Counts the requests of a dead process as paid in full, and names them in its record.
pub(super) fn charge_unknown(
    services: &Services,
    id: &ThreadId,
    recorder: &mut Recorder,
) -> Result<(), Error> {
    if services.budgets.get(id)?.is_none() {
        return Ok(());
    }
    let now = services.host.clock.now()?;
    for hold in services.budgets.charge_holds(id, now)? {
        let event = json!({"key": hold.key, "spend": hold.nanos.to_real()});
        recorder.append_buffered(
            &EventType::parse("charged_unknown")?,
            &Payload::parse(event.to_string().as_bytes())?,
        )?;
    }
    Ok(())
}

/// What a thread and its children spent, also where no record shows its end.
pub(super) fn spent(services: &Services, id: &ThreadId, ran: &Result<Ran, Error>) -> Nanos {
    let noted = || services.budgets.get(id).ok().flatten();
    match ran {
        Ok(ran) => ran.total().spend,
        Err(_) => noted().map(|budget| budget.actual).unwrap_or_default(),
    }
}

/// Notes the end of a thread in budgets and registry.
pub(super) fn note_end(services: &Services, ran: &Ran) -> Result<(), Error> {
    let (id, now) = (&ran.thread, services.host.clock.now()?);
    services.registry.set_cost(id, &ran.cost, now)?;
    services.registry.set_result(id, &ran.to_json(), now)?;
    let is_over = ran.status.is_terminal() || ran.status == Status::Suspended;
    if is_over && services.budgets.get(id)?.is_some() {
        services.budgets.release(id, ran.status, now)?;
    }
    services
        .registry
        .set_status(id, Some(Status::Running), ran.status, now)
        .map(drop)
}
