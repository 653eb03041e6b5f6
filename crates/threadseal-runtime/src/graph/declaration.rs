//! [`Graph`]: a state graph as its file declares it, and the faults of one.

use crate::capability::Capabilities;
use crate::condition::Condition;
use crate::hook_declaration::{Action, HookDeclaration};
use crate::interpolate::{Template, Tree};
use crate::limit::Limits;
use crate::place::Place;
use crate::schema::Schema;
use serde_json::{Map, Value};
use std::fmt;
use threadseal_core::error::Error;

/// A graph without errors.
#[derive(Debug, Clone)]
pub struct Graph {
    /// Its version, as written; empty where it has none.
    pub version: String,
    /// Its purpose, for people and models.
    pub description: String,
    /// The only permissions of its actions.
    pub permissions: Capabilities,
    /// The limits it names.
    pub limits: Limits,
    /// The schema of its inputs.
    pub schema: Option<Schema>,
    /// Variables of the environment that must be there before it starts.
    pub env_requires: Vec<String>,
    /// The state it begins with.
    pub state: Map<String, Value>,
    /// Its hooks.
    pub hooks: Vec<HookDeclaration>,
    /// Steps at most; a loop is no error until then.
    pub max_steps: u64,
    /// The effect of a failed node that has no edge for failures.
    pub on_error: OnError,
    /// Iterations of a parallel foreach that run at once.
    pub max_concurrency: u64,
    pub(super) start: String,
    pub(super) nodes: Vec<GraphNode>,
}

/// The effect of a failed node that has no edge for failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The graph ends.
    Fail,
    /// It continues with the node's edges, without the node's assignments.
    Continue,
}

/// One node.
#[derive(Debug, Clone)]
pub struct GraphNode {
    /// Its name.
    pub name: String,
    /// Where it is declared.
    pub place: Place,
    /// The kind of the node.
    pub kind: NodeKind,
    /// Where it leads: the first edge that holds. Empty: the graph is complete after it.
    pub next: Vec<Edge>,
    /// Where it leads when it fails.
    pub on_error: Option<Edge>,
    /// Its assignments to the state afterwards.
    pub assign: Vec<(String, Tree)>,
    /// Variables of the environment that must be there before it starts.
    pub env_requires: Vec<String>,
    /// Whether its result may be taken from an earlier run with the same input.
    pub cache: bool,
    /// Whether a call of it that may have been carried out can be made again.
    pub idempotent: bool,
}

/// The kinds of nodes.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// One call.
    Action(Action),
    /// One call for each item of a list.
    Foreach(Foreach),
    /// Nothing but to assign and to lead on.
    Gate,
    /// Ends the graph with this output.
    Return(Option<Tree>),
}

/// A call for each item of a list.
#[derive(Debug, Clone)]
pub struct Foreach {
    /// The list.
    pub over: Template,
    /// Under which name the call sees an item.
    pub item: String,
    /// The call.
    pub action: Action,
    /// Under which name of the state the results are collected.
    pub collect: Option<String>,
    /// Whether calls run at once.
    pub parallel: bool,
    /// How many; None for the graph's number.
    pub max_concurrency: Option<u64>,
}

/// Where a node leads.
#[derive(Debug, Clone)]
pub struct Edge {
    /// The node it leads to.
    pub to: String,
    /// Where it is declared.
    pub place: Place,
    /// When; None for always.
    pub when: Option<Condition>,
}

/// How bad a fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The author may want it.
    Warning,
    /// The graph cannot run.
    Error,
}

/// A fault of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// How bad it is.
    pub severity: Severity,
    /// Where.
    pub place: Place,
    /// The fault in words.
    pub message: String,
}

impl Fault {
    pub(super) fn error(place: &Place, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            place: place.clone(),
            message: message.into(),
        }
    }

    pub(super) fn warning(place: &Place, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(place, message)
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Warning => "warning: ",
            Severity::Error => "",
        };
        write!(out, "{}: {word}{}", self.place, self.message)
    }
}

impl Graph {
    /// The inputs of a run: those given, checked against their types, and defaults.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it does not suit the schema, or a graph without one is given
    /// something.
    pub fn inputs(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, Error> {
        match &self.schema {
            Some(schema) => schema.apply(given.clone()),
            None if given.is_empty() => Ok(Map::new()),
            None => Err(Error::invalid("the graph takes no inputs")),
        }
    }

    /// The same for typed-in texts, each read by its declared type ([`Schema::typed`]).
    pub(crate) fn typed_inputs(&self, typed: &Map<String, Value>) -> Map<String, Value> {
        let read = |name: &String, value: &Value| match (&self.schema, value) {
            (Some(schema), Value::String(text)) => schema.typed(name, text),
            _ => value.clone(),
        };
        let read = typed
            .iter()
            .map(|(name, value)| (name.clone(), read(name, value)));
        read.collect()
    }

    /// The first node.
    pub fn start(&self) -> Option<&GraphNode> {
        self.node(&self.start)
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<&GraphNode> {
        self.nodes.iter().find(|node| node.name == name)
    }

    /// All nodes, in the order of the file.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }
}

impl GraphNode {
    /// Its call, where it has one.
    pub fn action(&self) -> Option<&Action> {
        match &self.kind {
            NodeKind::Action(action) => Some(action),
            NodeKind::Foreach(foreach) => Some(&foreach.action),
            NodeKind::Gate | NodeKind::Return(_) => None,
        }
    }

    /// Where it may lead, also when it fails.
    pub fn edges(&self) -> impl Iterator<Item = &Edge> {
        self.next.iter().chain(&self.on_error)
    }

    /// The word of its type.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            NodeKind::Action(_) => "action",
            NodeKind::Foreach(_) => "foreach",
            NodeKind::Gate => "gate",
            NodeKind::Return(_) => "return",
        }
    }
}
