//! Updates the files and rows derived from a record that has its end: `thread.json`, the budget,
//! the registry's row.

use super::super::orchestrator::Records;
use super::super::services::Services;
use super::first;
use super::row;
use crate::project::ThreadFolder;
use crate::registry::suits;
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::ThreadMeta;
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_formats::document::DocumentKind;

/// Updates registry, budget and thread.json from the record; returns the thread's status.
pub(in crate::runner) fn follow_record(
    services: &Services,
    id: &ThreadId,
    folder: &ThreadFolder,
    ended: Status,
    successor: Option<&ThreadId>,
) -> Result<Status, Error> {
    let Some(successor) = successor else {
        let stated = first::papers(services, id, folder)?.map(|papers| papers.status);
        let stands = stated.filter(|stated| suits(ended, *stated));
        let stands = stands.unwrap_or(ended);
        close(services, id, &folder.metadata(), stands)?;
        return Ok(stands);
    };
    let now = services.host.clock.now()?;
    // Nothing is entered of a thread whose papers were changed.
    first::papers(services, id, folder)?;
    row::tell_link(services, id, successor)?;
    let budget = services.budgets.get(id)?;
    if budget.is_some_and(|budget| budget.status == "active") {
        match services.budgets.get(successor)? {
            None => services.budgets.transfer(id, successor, now)?,
            Some(_) => services.budgets.release(id, Status::Continued, now)?,
        };
    }
    rewrite(services, id, &folder.metadata(), Status::Continued)?;
    tell_cost(services, id, folder)?;
    Ok(Status::Continued)
}

fn rewrite(services: &Services, id: &ThreadId, path: &Path, status: Status) -> Result<(), Error> {
    let folder = services.project.thread(id);
    if services.host.fs.symlink_metadata(path).is_err() {
        return first::write_first(services, id, &folder, status);
    }
    let trusted = ThreadMeta::read(&services.host, &folder, id, None, &services.trust)?;
    let Some(head) = trusted.head() else {
        return Ok(());
    };
    let mut meta = trusted.get().clone();
    if meta.status == status {
        return Ok(());
    }
    meta.status = status;
    meta.updated_at = services.host.clock.now()?;
    let (cost, outputs) = first::said_of(services, id, &folder)?;
    meta.cost = Some(match (cost, meta.cost) {
        // Files of runs, and of earlier versions, have the cost of each turn.
        (Some(cost), Some(known)) if cost.turns < known.turns => known,
        (cost, known) => cost.or(known).unwrap_or_default(),
    });
    meta.outputs = meta.outputs.or(outputs);
    let mut file = SignedFile::after(&services.host, path, DocumentKind::Json, None, head)?;
    file.write(&services.host, &services.keys, Some(id), &meta.to_bytes())
        .map(drop)
}

/// Updates thread.json, the budget and the registry.
pub(in crate::runner) fn close(
    services: &Services,
    id: &ThreadId,
    path: &Path,
    status: Status,
) -> Result<(), Error> {
    let now = services.host.clock.now()?;
    rewrite(services, id, path, status)?;
    let is_over = status.is_terminal() || status == Status::Suspended;
    if is_over && services.budgets.get(id)?.is_some() {
        services.budgets.release(id, status, now)?;
    }
    // The row may be gone, or may have been edited.
    row::enter(services, id)?;
    tell_cost(services, id, &services.project.thread(id))?;
    let Some(row) = services.registry.get(id)? else {
        return Ok(());
    };
    let stands = row.status == Ok(status);
    let records = Records::from(services);
    if (!stands || row.result.is_none() || records.denies_result(&row))
        && let Ok(result) = records.result(id)
    {
        services.registry.set_result(id, &result, now)?;
    }
    match stands {
        true => Ok(()),
        false => services.registry.correct(id, status, now),
    }
}

/// Corrects the row's cost to match thread.json.
fn tell_cost(services: &Services, id: &ThreadId, folder: &ThreadFolder) -> Result<(), Error> {
    let cost = first::papers(services, id, folder)?.and_then(|papers| papers.cost);
    let row = services.registry.get(id)?;
    match cost.zip(row).filter(|(cost, row)| !row.cost_is(cost)) {
        Some((cost, _)) => services
            .registry
            .set_cost(id, &cost, services.host.clock.now()?),
        None => Ok(()),
    }
}
