//! The checks before a run leaves a trace.

use super::super::engine::Engine;
use super::super::hooks::Hooks;
use super::super::prepare::Inherited;
use super::super::thread::ParentThread;
use super::{GraphOrder, GraphTools};
use crate::capability::{Risk, RiskPolicy};
use crate::graph::Graph;
use crate::hook_control::Scope;
use crate::item::{ItemId, ItemKind, Used};
use crate::limit::Limits;
use crate::thread_meta::ThreadMeta;
use crate::toolbox::{ItemPrimary, Tool, Toolbox};
use serde_json::{Map, Value};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_formats::transcript::manifest::parse_line;
use threadseal_store::examine;
use threadseal_store::read::open_regular;

pub(super) struct GraphPlan {
    pub(super) graph: Graph,
    pub(super) id: ItemId,
    pub(super) sha256: Digest,
    pub(super) inputs: Map<String, Value>,
    pub(super) limits: Limits,
    pub(super) tools: Toolbox,
    pub(super) used: Vec<Used>,
    pub(super) risks: Vec<Risk>,
    pub(super) hooks: Hooks,
}

impl GraphPlan {
    pub(super) fn inheritance(&self) -> Inherited {
        Inherited {
            limits: self.limits,
            capabilities: self.tools.capabilities().clone(),
        }
    }
}

impl Engine {
    /// The inputs of a graph, from typed-in texts: the declared types decide their values.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused` when the graph may not be used.
    pub fn graph_inputs(
        &self,
        graph: &ItemId,
        typed: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Error> {
        let item = self.finder.load(ItemKind::Graph, graph, &self.grounds()?)?;
        Ok(Graph::parse(item.path(), item.text())?.typed_inputs(typed))
    }

    /// Checks `order`.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused`, with what to change.
    pub(super) fn prepare_graph(
        &self,
        order: &GraphOrder,
        parent: Option<&Inherited>,
        child: Arc<dyn Tool>,
        graphs: &Arc<GraphTools>,
    ) -> Result<GraphPlan, Error> {
        let item = self
            .finder
            .load(ItemKind::Graph, &order.graph, &self.grounds()?)?;
        let graph = Graph::parse(item.path(), item.text())?;
        let inputs = graph.inputs(&order.inputs)?;
        self.has_variables(&graph.env_requires)?;
        let layers = [&self.config.resilience.limits, &graph.limits, &order.limits];
        let limits = Limits::resolve(&layers, parent.map(|parent| &parent.limits))?;
        let capabilities = match parent {
            Some(parent) => parent.capabilities.attenuate(&graph.permissions)?,
            None => graph.permissions.clone(),
        };
        let risks = self.config.risks.unacknowledged::<&str>(&capabilities, &[]);
        if let Some(risk) = risks.iter().find(|risk| risk.policy == RiskPolicy::Block) {
            let (capability, name) = (&risk.capability, &risk.risk);
            let text = format!(
                "capability {capability} is {name}: a graph names what it needs more narrowly"
            );
            return Err(Error::refused(text));
        }
        let mut used = self.config.used.clone();
        used.push(item.used());
        let mut tools: Vec<Arc<dyn Tool>> = self.tools.iter().cloned().chain([child]).collect();
        self.declared(&capabilities, &mut tools, &mut used, graphs)?;
        let primaries = ItemPrimary::all(&self.workshop(), &self.keys, &capabilities);
        Ok(GraphPlan {
            hooks: Hooks::new(&self.config.hooks, &graph.hooks, Scope::Graph),
            tools: Toolbox::new(capabilities, tools)?.with_primaries(primaries),
            id: order.graph.clone(),
            sha256: item.sha256(),
            graph,
            inputs,
            limits,
            used,
            risks,
        })
    }

    pub(super) fn has_variables(&self, names: &[String]) -> Result<(), Error> {
        let there = |name: &&String| !self.environment.iter().any(|(known, _)| known == *name);
        match names.iter().find(there) {
            None => Ok(()),
            Some(name) => Err(Error::refused(format!(
                "the graph needs the variable {name} in the environment"
            ))),
        }
    }

    /// Does the parent's `thread.json` verify, and match the parent's own values? Rye starts a
    /// graph without any limits where it does not.
    pub(super) fn trusts_parent(
        &self,
        parent: &ParentThread<'_>,
        own: &Inherited,
    ) -> Result<(), Error> {
        let folder = self.project.thread(parent.id);
        self.project.inside(&*self.host.fs, folder.path())?;
        let refuse = |why: &str| Error::refused(format!("the parent {}: {why}", parent.id));
        let file = open_regular(&*self.host.fs, &folder.transcript())?;
        let first = examine::first_line(&file)?.and_then(|line| parse_line(&line));
        let manifest = first.ok_or_else(|| refuse("its record has no first line"))?;
        if manifest.record.to_string() != parent.ledger.run_id.as_str() {
            return Err(refuse("another record lies in its place"));
        }
        let meta = ThreadMeta::read(&self.host, &folder, parent.id, Some(&manifest), &self.trust)?;
        let (limits, capabilities) = (meta.get().limits, &meta.get().capabilities);
        if limits != own.limits || *capabilities != own.capabilities {
            return Err(refuse("its thread.json gives other limits or capabilities"));
        }
        Ok(())
    }
}
