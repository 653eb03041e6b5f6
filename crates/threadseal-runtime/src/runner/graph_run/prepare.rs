//! The checks of a graph before its run leaves a trace.

use super::super::helpers::Helpers;
use super::super::hooks::Hooks;
use super::super::order::GraphOrder;
use super::super::parent::{Inherited, ParentThread};
use super::super::plan::Declared;
use super::super::services::Services;
use super::run::GraphPlan;
use crate::graph::Graph;
use crate::hook_control::Scope;
use crate::item::{ItemId, ItemKind};
use crate::thread_meta::ThreadMeta;
use serde_json::{Map, Value};
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_formats::transcript::manifest::parse_line;
use threadseal_store::examine;
use threadseal_store::read::open_regular;

/// The inputs of a graph, from typed-in texts: the declared types decide their values.
///
/// # Errors
/// Kind `InvalidInput` or `Refused` when the graph may not be used.
pub(in crate::runner) fn typed_inputs(
    services: &Services,
    graph: &ItemId,
    typed: &Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    let item = services
        .finder
        .load(ItemKind::Graph, graph, &services.grounds()?)?;
    Ok(Graph::parse(item.path(), item.text())?.typed_inputs(typed))
}

/// Checks `order`.
///
/// # Errors
/// Kind `InvalidInput` or `Refused`, with what to change.
pub(super) fn prepare(
    services: &Services,
    order: &GraphOrder,
    parent: Option<&Inherited>,
    helpers: &Helpers,
) -> Result<GraphPlan, Error> {
    let item = services
        .finder
        .load(ItemKind::Graph, &order.graph, &services.grounds()?)?;
    let graph = Graph::parse(item.path(), item.text())?;
    let inputs = graph.inputs(&order.inputs)?;
    has_variables(services, &graph.env_requires)?;
    let mut used = services.config.used.clone();
    used.push(item.used());
    let declared = Declared {
        item: &item,
        inputs,
        limits: [graph.limits, order.limits],
        capabilities: graph.permissions.clone(),
        acknowledged: Vec::new(),
        refusal: ": a graph names what it needs more narrowly",
        hooks: Hooks::new(&services.config.hooks, &graph.hooks, Scope::Graph),
        used,
        subject: graph,
    };
    let more = vec![Arc::clone(&helpers.child_tool)];
    declared.admit(services, parent, more, helpers)
}

pub(super) fn has_variables(services: &Services, names: &[String]) -> Result<(), Error> {
    let there = |name: &&String| !services.environment.iter().any(|(known, _)| known == *name);
    match names.iter().find(there) {
        None => Ok(()),
        Some(name) => Err(Error::refused(format!(
            "the graph needs the variable {name} in the environment"
        ))),
    }
}

/// Does the parent's `thread.json` verify, and match the parent's own values? Rye starts a
/// graph without any limits where it does not.
pub(in crate::runner) fn trusts_parent(
    services: &Services,
    parent: &ParentThread<'_>,
    own: &Inherited,
) -> Result<(), Error> {
    let folder = services.project.thread(parent.id);
    services.project.inside(&*services.host.fs, folder.path())?;
    let refuse = |why: &str| Error::refused(format!("the parent {}: {why}", parent.id));
    let file = open_regular(&*services.host.fs, &folder.transcript())?;
    let first = examine::first_line(&file)?.and_then(|line| parse_line(&line));
    let manifest = first.ok_or_else(|| refuse("its record has no first line"))?;
    if manifest.record.to_string() != parent.ledger.run_id.as_str() {
        return Err(refuse("its file contains another record"));
    }
    let meta = ThreadMeta::read(
        &services.host,
        &folder,
        parent.id,
        Some(&manifest),
        &services.trust,
    )?;
    let (limits, capabilities) = (meta.get().limits, &meta.get().capabilities);
    if limits != own.limits || *capabilities != own.capabilities {
        return Err(refuse("its thread.json has other limits or capabilities"));
    }
    Ok(())
}
