//! [`Task`]: what an order says is to be done.
//!
//! ```text
//! {directive, inputs, limits}                                       a new thread
//! {resume: {thread, last, way, message, limits}, after}             a thread that goes on from the one at which the
//!                                                                   chain of `thread` ended then, `last`
//! ```
//! An order that is given anew covers the same threads under the same token, which never falls: `after` is the token
//! that it had, and only what is above it are workers of this task.

use crate::bounds::MAX_TAKEOVERS;
use crate::item::ItemId;
use crate::limit::Limits;
use crate::runner::{Order, Resumption, Way};
use crate::toolbox::Cancel;
use serde_json::{Map, Value, json};
use threadseal::error::Error;
use threadseal::record::ThreadId;
use threadseal_store::ledger::postgres::leases::Lease;

/// What is to be done.
#[derive(Debug)]
pub(super) enum Task {
    /// A new thread.
    Run(Order),
    /// A thread that goes on from another.
    GoOn(Box<GoOn>),
}

/// A thread to go on with.
#[derive(Debug)]
pub(super) struct GoOn {
    pub(super) wanted: Resumption,
    pub(super) way: Way,
    /// Where the chain ended when the order was given.
    pub(super) last: ThreadId,
    /// The order's token then.
    pub(super) after: u64,
}

impl Task {
    /// As it stands in an order.
    pub(super) fn to_text(&self) -> String {
        let task = match self {
            Self::Run(order) => {
                json!({"directive": order.directive.as_str(), "inputs": order.inputs,
                                       "limits": order.limits.to_json()})
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
        match &task["resume"] {
            Value::Null => new_thread(&task, cancel).map(Self::Run),
            resume => {
                let after = task["after"].as_u64();
                let after = after.ok_or_else(|| wrong("it does not say which order it follows"))?;
                Ok(Self::GoOn(Box::new(go_on(resume, after, cancel)?)))
            }
        }
    }

    /// Were too many workers lost over it?
    pub(super) fn is_spent(text: &str, lease: &Lease) -> bool {
        let task: Option<Value> = serde_json::from_str(text).ok();
        let after = task.and_then(|task| task["after"].as_u64());
        lease.token().saturating_sub(after.unwrap_or(0)) > MAX_TAKEOVERS
    }
}

fn wrong(what: &str) -> Error {
    Error::invalid(format!("the order is none: {what}"))
}

fn new_thread(task: &Value, cancel: &Cancel) -> Result<Order, Error> {
    let directive = task["directive"].as_str();
    Ok(Order {
        directive: ItemId::parse(directive.ok_or_else(|| wrong("it names no directive"))?)?,
        inputs: match &task["inputs"] {
            Value::Object(inputs) => inputs.clone(),
            _ => Map::new(),
        },
        limits: Limits::from_json(&task["limits"])?,
        cancel: cancel.clone(),
    })
}

fn go_on(resume: &Value, after: u64, cancel: &Cancel) -> Result<GoOn, Error> {
    let text = |name: &str| {
        let text = resume[name].as_str();
        text.ok_or_else(|| wrong(&format!("it has no {name}")))
    };
    Ok(GoOn {
        way: Way::parse(text("way")?).ok_or_else(|| wrong("its way is none"))?,
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
