//! Graphs as tools: a model, or another graph, runs one by its id, as in Rye.
//!
//! ```text
//! execute tool <graph's id> {inputs…}
//!   ─► {success, thread_id, status, outputs?, cost, head, error?}
//! ```
//! The run has at most its caller's limits and capabilities, and is one generation below. So graphs
//! that run each other end at the limit `depth`.

use super::accounts::spent;
use super::child_spawner::{lost, told};
use super::children::Children;
use super::order::GraphOrder;
use super::parent::{Inherited, ParentThread};
use super::services::Services;
use super::starter::Starter;
use crate::capability::{Call, Capabilities};
use crate::graph::Graph;
use crate::item::{ItemId, ItemKind, Used};
use crate::limit::Limits;
use crate::model::ToolSchema;
use crate::toolbox::{Invocation, Outcome, Parentage, Tool, model_name};
use crate::yaml;
use serde_json::{Map, Value, json};
use std::sync::{Arc, OnceLock};
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::ledger::Parent;

/// The graphs that one thread may run.
pub(super) struct GraphTools {
    services: Services,
    starter: Starter,
    children: Arc<Children>,
    owner: OnceLock<Owner>,
}

/// The thread that owns the graphs.
struct Owner {
    id: ThreadId,
    /// Its limits and capabilities, as in its `thread.json`.
    own: Inherited,
    /// The part of them that its children inherit.
    left: Inherited,
}

/// One of these graphs as a tool.
struct GraphTool {
    tools: Arc<GraphTools>,
    graph: ItemId,
    schema: ToolSchema,
}

impl GraphTools {
    pub(super) fn new(services: Services, starter: Starter, children: Arc<Children>) -> Self {
        Self {
            services,
            starter,
            children,
            owner: OnceLock::new(),
        }
    }

    /// Sets the thread that owns them, before the first call.
    pub(super) fn belongs_to(&self, thread: &ThreadId, own: Inherited, left: Inherited) {
        let id = thread.clone();
        let _ = self.owner.set(Owner { id, own, left });
    }

    /// Adds the graphs that the project declares and `capabilities` permit. One that does not
    /// verify, or is none, stops the thread before it begins.
    pub(super) fn declared(
        self: &Arc<Self>,
        capabilities: &Capabilities,
        tools: &mut Vec<Arc<dyn Tool>>,
        used: &mut Vec<Used>,
    ) -> Result<(), Error> {
        let services = &self.services;
        for id in services.finder.ids(ItemKind::Graph)? {
            let call = Call::new("execute", "tool", Some(id.as_str()))?;
            if !capabilities.permits(&call) || tools.iter().any(|tool| tool.id() == id.as_str()) {
                continue;
            }
            let Some(item) = services
                .finder
                .find(ItemKind::Graph, &id, &services.grounds()?)?
            else {
                continue;
            };
            // The folder of tools contains other files, too.
            let node = yaml::parse(item.path(), item.text())?;
            let kind = node.fields()?.take("tool_type").map(yaml::Node::text);
            if !matches!(kind, Some(Ok("graph"))) {
                continue;
            }
            let graph = Graph::parse(item.path(), item.text())?;
            let nothing = || json!({"type": "object", "properties": {}});
            let schema = ToolSchema {
                name: model_name(id.as_str()),
                description: graph.description.clone(),
                parameters: graph
                    .schema
                    .as_ref()
                    .map_or_else(nothing, |schema| schema.to_json().clone()),
            };
            used.push(item.used());
            tools.push(Arc::new(GraphTool {
                tools: Arc::clone(self),
                graph: id,
                schema,
            }));
        }
        Ok(())
    }

    fn start(&self, graph: &ItemId, call: &mut Invocation<'_>) -> Result<Value, Error> {
        let owner = self.owner.get();
        let owner = owner.ok_or_else(|| Error::refused("the thread has not begun"))?;
        let inputs = match call.input {
            Value::Null => Map::new(),
            Value::Object(inputs) => inputs.clone(),
            _ => return Err(Error::invalid("inputs have names: they are an object")),
        };
        let _place = self.children.place(call.cancel)?;
        self.children.may_begin(&owner.left.limits)?;
        let order = GraphOrder {
            graph: graph.clone(),
            inputs,
            limits: Limits::default(),
            cancel: call.cancel.clone(),
        };
        let ledger = call.record.ledger()?;
        let mut begins = Begins {
            record: &mut *call.record,
            child: None,
        };
        let parent = ParentThread {
            id: &owner.id,
            inherited: &owner.left,
            record: &mut begins,
            ledger,
        };
        let ran = self.starter.run_child_graph(
            &self.services,
            &order,
            parent,
            &owner.own,
            &self.children,
        );
        let child = begins.child.take();
        let spend = match (&ran, &child) {
            (Err(_), Some(child)) => spent(&self.services, child, &ran),
            (ran, _) => ran.as_ref().map(|ran| ran.cost.spend).unwrap_or_default(),
        };
        self.children.ended(spend);
        let told = ran.and_then(|ran| {
            begins.child_ended(&ran.thread, ran.status.as_str(), &ran.head)?;
            Ok(told(&self.services, &ran))
        });
        match (told, child) {
            // It began: an error of ours does not undo its effects.
            (Err(why), Some(child)) => Ok(lost(Some(&child), &why)),
            (told, _) => told,
        }
    }
}

/// A parent's record that knows whether the child began.
struct Begins<'r> {
    record: &'r mut dyn Parentage,
    child: Option<ThreadId>,
}

impl Parentage for Begins<'_> {
    fn child_begins(
        &mut self,
        child: &ThreadId,
        record: &RecordId,
        directive: &str,
    ) -> Result<Head, Error> {
        let head = self.record.child_begins(child, record, directive)?;
        self.child = Some(child.clone());
        Ok(head)
    }

    fn child_ended(&mut self, child: &ThreadId, status: &str, head: &Head) -> Result<(), Error> {
        self.record.child_ended(child, status, head)
    }

    fn seal(&mut self) -> Result<Head, Error> {
        self.record.seal()
    }

    fn server_restarted(&mut self, server: &str, failures: usize, why: &str) -> Result<(), Error> {
        self.record.server_restarted(server, failures, why)
    }

    fn ledger(&self) -> Result<Parent, Error> {
        self.record.ledger()
    }
}

impl Tool for GraphTool {
    fn id(&self) -> &str {
        self.graph.as_str()
    }

    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn run(&self, call: &mut Invocation<'_>) -> Outcome {
        match self.tools.start(&self.graph, call) {
            Ok(result) => Outcome::of_child(result),
            Err(error) => Outcome::failed(error.to_string()),
        }
    }
}
