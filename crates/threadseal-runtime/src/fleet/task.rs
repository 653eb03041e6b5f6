//! [`Task`]: the work that an order describes.
//!
//! ```text
//! {directive, inputs, limits}                              a new thread
//! {resume: {thread, last, way, message, limits}, after}    a thread that continues `last`, where
//!                                                          the chain of `thread` ended then
//! {graph, inputs, limits}                                  a new run of a graph
//! {resume_graph: {run, unresolved, limits}, after}         a run that continues another
//! ```
//! An order that is given again covers the same threads under the same token, which never falls.
//! `after` is the token that it had: only holders of a higher token are workers of this task.

use crate::bounds::MAX_TAKEOVERS;
use crate::item::ItemId;
use crate::limit::Limits;
use crate::runner::{GraphOrder, GraphResumption, Order, ResumeMode, Resumption, Unresolved};
use crate::toolbox::Cancel;
use serde_json::{Map, Value, json};
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_store::postgres::leases::Lease;

#[derive(Debug)]
pub(super) enum Task {
    /// A new thread.
    Run(Order),
    /// A thread that continues another.
    GoOn(Box<GoOn>),
    /// A new run of a graph.
    GraphRun(GraphOrder),
    /// A run that continues another, and the order's token before.
    WalkOn(GraphResumption, u64),
}

#[derive(Debug)]
pub(super) struct GoOn {
    pub(super) wanted: Resumption,
    pub(super) way: ResumeMode,
    /// Where the chain ended when the order was given.
    pub(super) last: ThreadId,
    /// The order's token at that time.
    pub(super) after: u64,
}

impl Task {
    pub(super) fn to_text(&self) -> String {
        let task = match self {
            Self::Run(order) => {
                json!({"directive": order.directive.as_str(), "inputs": order.inputs,
                                       "limits": order.limits.to_json()})
            }
            Self::GraphRun(order) => json!({"graph": order.graph.as_str(), "inputs": order.inputs,
                                        "limits": order.limits.to_json()}),
            Self::WalkOn(wanted, after) => {
                json!({"after": after,
                       "resume_graph": {"run": wanted.run.as_str(),
                                        "unresolved": wanted.unresolved.as_str(),
                                        "limits": wanted.limits.to_json()}})
            }
            Self::GoOn(task) => {
                let wanted = &task.wanted;
                json!({"after": task.after,
                       "resume": {"thread": wanted.thread.as_str(), "last": task.last.as_str(),
                                  "way": task.way.as_str(), "message": wanted.message,
                                  "limits": wanted.limits.to_json()}})
            }
        };
        task.to_string()
    }

    /// Reads it.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is none.
    pub(super) fn parse(text: &str, cancel: &Cancel) -> Result<Self, Error> {
        let task: Value = serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
        let after = || {
            let after = task["after"].as_u64();
            after.ok_or_else(|| wrong("it does not name the order that it follows"))
        };
        if task["resume"].is_object() {
            let task = go_on(&task["resume"], after()?, cancel)?;
            return Ok(Self::GoOn(Box::new(task)));
        }
        if task["resume_graph"].is_object() {
            let wanted = walk_on(&task["resume_graph"], cancel)?;
            return Ok(Self::WalkOn(wanted, after()?));
        }
        if let Some(graph) = task["graph"].as_str() {
            return Ok(Self::GraphRun(GraphOrder {
                graph: ItemId::parse(graph)?,
                inputs: inputs(&task),
                limits: Limits::from_json(&task["limits"])?,
                cancel: cancel.clone(),
            }));
        }
        new_thread(&task, cancel).map(Self::Run)
    }

    pub(super) fn is_of_graph(&self) -> bool {
        matches!(self, Self::GraphRun(_) | Self::WalkOn(..))
    }

    /// Were too many workers lost over it?
    pub(super) fn is_spent(text: &str, lease: &Lease) -> bool {
        let task: Option<Value> = serde_json::from_str(text).ok();
        let after = task.and_then(|task| task["after"].as_u64());
        lease.token().saturating_sub(after.unwrap_or(0)) > MAX_TAKEOVERS
    }
}

fn wrong(what: &str) -> Error {
    Error::invalid(format!("the order is not valid: {what}"))
}

fn new_thread(task: &Value, cancel: &Cancel) -> Result<Order, Error> {
    let directive = task["directive"].as_str();
    Ok(Order {
        directive: ItemId::parse(directive.ok_or_else(|| wrong("it names no directive"))?)?,
        inputs: inputs(task),
        limits: Limits::from_json(&task["limits"])?,
        cancel: cancel.clone(),
    })
}

fn inputs(task: &Value) -> Map<String, Value> {
    match &task["inputs"] {
        Value::Object(inputs) => inputs.clone(),
        _ => Map::new(),
    }
}

fn walk_on(resume: &Value, cancel: &Cancel) -> Result<GraphResumption, Error> {
    let unresolved = resume["unresolved"].as_str().and_then(Unresolved::parse);
    let run = resume["run"].as_str();
    Ok(GraphResumption {
        run: ThreadId::parse(run.ok_or_else(|| wrong("it names no run"))?)?,
        unresolved: unresolved
            .ok_or_else(|| wrong("it does not contain the decision on unresolved calls"))?,
        limits: Limits::from_json(&resume["limits"])?,
        cancel: cancel.clone(),
    })
}

fn go_on(resume: &Value, after: u64, cancel: &Cancel) -> Result<GoOn, Error> {
    let text = |name: &str| {
        let text = resume[name].as_str();
        text.ok_or_else(|| wrong(&format!("it has no {name}")))
    };
    Ok(GoOn {
        way: ResumeMode::parse(text("way")?).ok_or_else(|| wrong("its way is not valid"))?,
        last: ThreadId::parse(text("last")?)?,
        after,
        wanted: Resumption {
            thread: ThreadId::parse(text("thread")?)?,
            message: text("message")?.to_owned(),
            limits: Limits::from_json(&resume["limits"])?,
            cancel: cancel.clone(),
        },
    })
}
