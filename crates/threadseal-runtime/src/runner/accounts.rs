//! The entries of a thread in budgets and registry: the money set aside for it, and its end.

use super::order::Ran;
use super::services::Services;
use crate::money::Nanos;
use crate::status::Status;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;

/// Gives a thread its budget: its own limit, for a child at most the rest of its parent's.
pub(super) fn set_aside(
    services: &Services,
    id: &ThreadId,
    parent: Option<&ThreadId>,
    limit: Option<Nanos>,
    now: Timestamp,
) -> Result<Nanos, Error> {
    let budgets = &services.budgets;
    let limit = limit.unwrap_or(Nanos::MAX);
    let Some(parent) = parent else {
        budgets.register(id, limit, now)?;
        return Ok(limit);
    };
    let left = budgets.get(parent)?.map(|budget| budget.remaining);
    let amount = limit.min(left.unwrap_or_default());
    if amount == Nanos::ZERO && limit != Nanos::ZERO {
        return Err(Error::refused(
            "spend_exceeded: the parent has no money left",
        ));
    }
    budgets.reserve(id, parent, amount, now)?;
    Ok(amount)
}

/// Notes the end of a thread in budgets and registry.
pub(super) fn note_end(services: &Services, ran: &Ran) -> Result<(), Error> {
    let (id, now) = (&ran.thread, services.host.clock.now()?);
    services.registry.set_cost(id, &ran.cost, now)?;
    services.registry.set_result(id, &ran.to_json(), now)?;
    if ran.status.is_terminal() && services.budgets.get(id)?.is_some() {
        services.budgets.release(id, ran.status, now)?;
    }
    services
        .registry
        .set_status(id, Some(Status::Running), ran.status, now)
        .map(drop)
}
