//! Walking graphs: from a graph's id to a sealed record and a result.
//!
//! ```text
//! checked: graph, inputs, permissions within the parent's, limits, tools
//!   ─► record, thread.json, state file
//!   ─► limits ─► step: call(s) ─► assign ─► edge ─► seal ─► state file, entry, thread.json ─► …
//!   ─► graph_completed | graph_error | graph_cancelled, final seal ─► the files, registry, budget
//! ```
//! A run is a thread in every respect except that it asks no model. Its children are threads and
//! runs of graphs.
//!
//! | module | owns |
//! |---|---|
//! | `prepare` | the checks before anything is written |
//! | `start` | the files of a run |
//! | `walk` | from step to step |
//! | `node` | the work of a node |
//! | `call` | one call: permission, intent, result |
//! | `foreach` | a call for each item |
//! | `files` | thread.json, state file and entry, derived from the record |
//! | `graph_hooks` | hooks, and their decisions |
//! | `resume` | continuing a run that stopped |
//! | `stopped_run` | reading the records of a run that stopped, before any change |
//! | `begun_calls` | calls that began: in a tail, in a step ledger |
//! | `tool` | graphs as tools of models and of graphs |

mod begun_calls;
mod call;
mod files;
mod foreach;
mod graph_hooks;
mod node;
mod prepare;
mod resume;
mod start;
mod stopped_run;
mod tool;
mod walk;

pub use resume::{GraphResumption, Unresolved};
pub use stopped_run::ShownGraph;
pub(super) use tool::GraphTools;

use super::child_spawner::{ChildSpawner, ChildTool};
use super::children::Children;
use super::engine::{Engine, Ran};
use super::prepare::Inherited;
use super::record_writer::RecordWriter;
use super::thread::ParentThread;
use crate::item::ItemId;
use crate::limit::Limits;
use crate::toolbox::{Cancel, Tool};
use prepare::GraphPlan;
use serde_json::{Map, Value};
use start::Origin;
use std::sync::Arc;
use threadseal_core::error::Error;

/// A graph to run.
#[derive(Debug, Clone)]
pub struct GraphOrder {
    /// The graph.
    pub graph: ItemId,
    /// Its inputs.
    pub inputs: Map<String, Value>,
    /// Limits that count before the graph's own.
    pub limits: Limits,
    /// Stops it.
    pub cancel: Cancel,
}

impl Engine {
    /// Runs a graph that only the caller started.
    ///
    /// # Errors
    /// Kind `InvalidInput` or `Refused` before anything was written; `External` when the record
    /// could not be written to its end.
    pub fn run_graph(&self, order: &GraphOrder) -> Result<Ran, Error> {
        self.walk_with(order, None, &|| (), |_| Ok(Origin::default()))
    }

    /// Runs the graph as a child of `parent`, whose `thread.json` must match the parent's own
    /// values, `own`; `family` counts it.
    pub(super) fn run_graph_under(
        &self,
        order: &GraphOrder,
        parent: ParentThread<'_>,
        own: &Inherited,
        family: &Children,
    ) -> Result<Ran, Error> {
        self.trusts_parent(&parent, own)?;
        let inherited = parent.inherited;
        let own = self.for_child(order.graph.as_str(), &order.inputs);
        own.walk_with(order, Some(inherited), &|| family.begun(), |_| {
            Ok(Origin {
                parent: Some(parent),
                ..Origin::default()
            })
        })
    }

    /// Checks `order` under a parent's inheritance, lets `origin` choose where the run comes from,
    /// and walks it. Calls `begun` once its files exist.
    fn walk_with<'p>(
        &self,
        order: &GraphOrder,
        inherited: Option<&Inherited>,
        begun: &dyn Fn(),
        origin: impl FnOnce(&GraphPlan) -> Result<Origin<'p>, Error>,
    ) -> Result<Ran, Error> {
        let ground = Ground::of(self, &order.cancel);
        let plan = ground.plan(self, order, inherited)?;
        let origin = origin(&plan)?;
        let mut walk = self.begin_graph(plan, origin, ground.child, ground.children)?;
        begun();
        ground.spawner.belongs_to(walk.id(), walk.inheritance());
        ground
            .graphs
            .belongs_to(walk.id(), walk.inheritance(), walk.inheritance());
        let attendant = self.attend(walk.id(), &ground.cancel, ground.writer.handle());
        let ran = walk.run(&ground.cancel, ground.writer);
        drop(attendant);
        ran
    }

    /// Would [`Engine::resume_graph`] continue? Takes no lock and writes nothing.
    ///
    /// # Errors
    /// As [`Engine::resume_graph`].
    pub(crate) fn check_resumable_graph(&self, wanted: &GraphResumption) -> Result<(), Error> {
        let past = self.past_of(&wanted.run)?;
        let order = past.order(wanted)?;
        let plan = Ground::of(self, &order.cancel).plan(self, &order, past.inherited.as_ref())?;
        past.may_go_on(&plan, wanted.unresolved)
    }
}

/// The basis of a run before it begins: the tools that its nodes may start.
struct Ground {
    cancel: Cancel,
    writer: RecordWriter,
    children: Arc<Children>,
    spawner: Arc<ChildSpawner>,
    child: Arc<dyn Tool>,
    graphs: Arc<GraphTools>,
}

impl Ground {
    fn of(engine: &Engine, cancel: &Cancel) -> Self {
        let cancel = cancel.below();
        let (writer, children) = (RecordWriter::new(), Arc::new(Children::of(&cancel)));
        let spawner = ChildSpawner::new(engine.clone(), Arc::clone(&children), writer.handle());
        let spawner = Arc::new(spawner);
        Self {
            child: Arc::new(ChildTool::new(Arc::clone(&spawner))),
            graphs: Arc::new(GraphTools::new(engine.clone(), Arc::clone(&children))),
            cancel,
            writer,
            children,
            spawner,
        }
    }

    fn plan(
        &self,
        engine: &Engine,
        order: &GraphOrder,
        inherited: Option<&Inherited>,
    ) -> Result<GraphPlan, Error> {
        engine.prepare_graph(order, inherited, Arc::clone(&self.child), &self.graphs)
    }
}

#[cfg(test)]
mod tests;
