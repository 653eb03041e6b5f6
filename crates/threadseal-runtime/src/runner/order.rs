//! Orders to run and to continue threads and graphs, and [`Ran`], the result.

use super::plan::Plan;
use crate::item::ItemId;
use crate::limit::{Cost, Limits};
use crate::signed_order::VerifiedOrder;
pub use crate::signed_order::{ResumeMode, Unresolved};
use crate::status::Status;
use crate::toolbox::Cancel;
use serde_json::{Map, Value};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};

/// A thread to run.
#[derive(Debug, Clone)]
pub struct Order {
    /// The directive.
    pub directive: ItemId,
    /// Its inputs.
    pub inputs: Map<String, Value>,
    /// Limits that count before the directive's own.
    pub limits: Limits,
    /// Stops it.
    pub cancel: Cancel,
}

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

/// A thread to resume.
#[derive(Debug, Clone)]
pub struct Resumption {
    /// Any thread of its chain.
    pub thread: ThreadId,
    /// The next instruction.
    pub message: String,
    /// Limits that count before the directive's own.
    pub limits: Limits,
    /// Stops it.
    pub cancel: Cancel,
}

/// A graph run to continue.
#[derive(Debug, Clone)]
pub struct GraphResumption {
    /// The run.
    pub run: ThreadId,
    /// The decision about calls of which it is unknown whether they were carried out.
    pub unresolved: Unresolved,
    /// Limits that count before the graph's own.
    pub limits: Limits,
    /// Stops it.
    pub cancel: Cancel,
}

/// What a verified order of a database fixes of the thread that begins under it.
#[derive(Debug, Clone)]
pub(crate) struct Fixed {
    /// The record of the thread.
    pub(crate) record: RecordId,
    /// The file of its directive or graph.
    pub(crate) item_sha256: Digest,
    /// No limit of the thread is higher; where one of these is lower, it counts.
    pub(crate) limits: Limits,
    /// The seal with which the record ends that it continues.
    pub(crate) head: Option<Head>,
}

impl Fixed {
    /// What an order fixes under a worker's own `limits`.
    pub(crate) fn of(order: &VerifiedOrder, limits: &Limits) -> Self {
        let line = order.line();
        Self {
            record: order.record(),
            item_sha256: line.item_sha256,
            limits: line.limits.at_most(limits),
            head: line.from().map(|from| from.head),
        }
    }

    /// Is `head` the seal from which the order continues?
    ///
    /// # Errors
    /// Kind `Refused` when the order names another one.
    pub(super) fn continues(&self, head: &Head) -> Result<(), Error> {
        match self.head.as_ref() == Some(head) {
            true => Ok(()),
            false => Err(Error::refused(
                "the order names another seal than the one with which the record ends; hint: give it again",
            )),
        }
    }

    /// Binds the thread to the file and the limits of the order.
    ///
    /// # Errors
    /// Kind `Refused` when the file here is another one.
    pub(super) fn bind<S>(&self, plan: &mut Plan<S>) -> Result<(), Error> {
        if plan.sha256 != self.item_sha256 {
            let text = format!(
                "the file of {} here is another one than the order names",
                plan.item
            );
            return Err(Error::refused(text));
        }
        plan.limits = plan.limits.at_most(&self.limits);
        Ok(())
    }
}

/// How a thread or a graph run went.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// Which it was.
    pub thread: ThreadId,
    /// Its status.
    pub status: Status,
    /// Its last text.
    pub text: String,
    /// Its named outputs.
    pub outputs: Option<Map<String, Value>>,
    /// The error.
    pub error: Option<String>,
    /// Its use.
    pub cost: Cost,
    /// The use of the threads that handed themselves over to it.
    pub carried: Cost,
    /// Its final seal.
    pub head: Head,
    /// Parts of its record that a person should know.
    pub warnings: Vec<String>,
}

impl Ran {
    /// Its use, together with the threads that handed themselves over to it.
    pub fn total(&self) -> Cost {
        self.carried.and(&self.cost)
    }

    /// The result as parents and `wait_threads` see it (seed 001, "thread result").
    pub fn to_json(&self) -> Value {
        let mut out = serde_json::json!({
            "success": self.status == Status::Completed,
            "thread_id": self.thread.as_str(),
            "status": self.status.as_str(),
            "result": self.text,
            "cost": self.cost.to_json(),
            "head": self.head.to_string(),
        });
        if let Some(outputs) = &self.outputs {
            out["outputs"] = Value::Object(outputs.clone());
        }
        if self.carried != Cost::default() {
            out["chain_cost"] = self.total().to_json();
        }
        if !self.warnings.is_empty() {
            out["warnings"] = self.warnings.clone().into();
        }
        if let Some(error) = &self.error {
            out["error"] = error.as_str().into();
        }
        out
    }
}
