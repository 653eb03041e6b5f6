//! The `thread.json` of a thread that died before it wrote one, from its record.

use super::super::orchestrator::Records;
use super::super::services::Services;
use super::open;
use crate::capability::Capabilities;
use crate::limit::{Cost, Limits};
use crate::project::ThreadFolder;
use crate::runner::sealed_cost::SealedCost;
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::ThreadMeta;
use serde_json::{Map, Value};
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_formats::document::DocumentKind;
use threadseal_formats::transcript::event::is_terminal;
use threadseal_formats::transcript::manifest::parse_line;
use threadseal_store::heads::RecordKind;

/// The cost and the outputs of a thread.
type CostAndOutputs = (Option<Cost>, Option<Map<String, Value>>);

/// The contents of thread.json, if it exists.
pub(super) fn papers(
    services: &Services,
    id: &ThreadId,
    folder: &ThreadFolder,
) -> Result<Option<ThreadMeta>, Error> {
    if services
        .host
        .fs
        .symlink_metadata(&folder.metadata())
        .is_err()
    {
        return Ok(None);
    }
    let trusted = ThreadMeta::read(&services.host, folder, id, None, &services.trust)?;
    Ok(Some(trusted.get().clone()))
}

/// Did this host never seal a document in this place, where none exists? A sealed one that is
/// gone is still missing.
pub(in crate::runner) fn never_had(services: &Services, path: &Path) -> Result<bool, Error> {
    let place = Records::from(services).place(path);
    let known = services
        .host
        .heads
        .find_by_place(RecordKind::Document, &place);
    Ok(known?.is_none())
}

/// The cost and the outputs at the end of its record. A record that was ended for its dead process
/// does not state its cost: then it is the use in sealed lines, and the money in the budget.
pub(in crate::runner) fn said_of(
    services: &Services,
    id: &ThreadId,
    folder: &ThreadFolder,
) -> Result<CostAndOutputs, Error> {
    let record = folder.transcript();
    if services.host.fs.symlink_metadata(&record).is_err() {
        return Ok((None, None));
    }
    let lines = open::lines_of(services, id, folder)?;
    let (cost, outputs) = said_at_the_end(lines.sealed());
    match cost {
        Some(cost) => Ok((Some(cost), outputs)),
        None => Ok((Some(used(services, id, lines.sealed())?), outputs)),
    }
}

/// The use of a thread without an end of its own.
fn used<'l>(
    services: &Services,
    id: &ThreadId,
    sealed: impl Iterator<Item = &'l [u8]>,
) -> Result<Cost, Error> {
    let mut cost = SealedCost::default();
    for event in sealed.filter_map(|line| serde_json::from_slice::<Value>(line).ok()) {
        cost.line(&event);
    }
    let cost = cost.total();
    let budget = services.budgets.get(id)?;
    let spawns = services.registry.get(id)?.map_or(0, |row| row.spawns);
    Ok(Cost {
        spend: budget.map(|budget| budget.actual).unwrap_or_default(),
        spawns: cost.spawns.max(spawns),
        ..cost
    })
}

/// Writes it from line 1, with the thread's end. A file that existed and was removed is still
/// missing.
pub(in crate::runner) fn write_first(
    services: &Services,
    id: &ThreadId,
    folder: &ThreadFolder,
    status: Status,
) -> Result<(), Error> {
    let (path, record) = (folder.metadata(), folder.transcript());
    if services.host.fs.symlink_metadata(&record).is_err() {
        return Ok(());
    }
    let lines = open::lines_of(services, id, folder)?;
    let manifest = lines.sealed().next();
    let manifest = manifest.map(|line| line.strip_suffix(b"\n").unwrap_or(line));
    let manifest = manifest.and_then(parse_line);
    let (true, Some(manifest)) = (never_had(services, &path)?, manifest) else {
        return Ok(());
    };
    let now = services.host.clock.now()?;
    let (cost, outputs) = said_of(services, id, folder)?;
    let meta = ThreadMeta {
        thread_id: id.clone(),
        directive: manifest.directive.clone().unwrap_or_default(),
        status,
        created_at: now,
        updated_at: now,
        model: manifest.model.clone(),
        limits: Limits::from_json(&crate::model::dynamic(&manifest.limits)?)?,
        capabilities: Capabilities::parse(&manifest.capabilities)?,
        cost: Some(cost.unwrap_or_default()),
        outputs,
    };
    let mut file = SignedFile::new(&services.host, &path, DocumentKind::Json, None)?;
    file.write(&services.host, &services.keys, Some(id), &meta.to_bytes())
        .map(drop)
}

/// The thread's cost in the terminal event, and the outputs that it returned. Both are
/// unknown for a thread that was ended for its dead process. An attacker may have written any event
/// after the end.
fn said_at_the_end<'l>(sealed: impl Iterator<Item = &'l [u8]>) -> CostAndOutputs {
    let mut outputs = None;
    for event in sealed.filter_map(|line| serde_json::from_slice::<Value>(line).ok()) {
        let payload = &event["payload"];
        let kind = event["event_type"].as_str().unwrap_or_default();
        if kind == "directive_return" {
            outputs = payload["outputs"].as_object().cloned();
        }
        if is_terminal(kind) {
            let cost = Cost::from_json(&payload["cost"]).ok();
            let status = Status::of_end(kind, payload["status"].as_str());
            let came_to_an_end = matches!(status, Some(Status::Completed | Status::LimitReached));
            return (cost, outputs.filter(|_| came_to_an_end));
        }
    }
    (None, None)
}
