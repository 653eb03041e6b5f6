//! Orders to run and to continue threads and graphs, and [`Ran`], the result.

use crate::item::ItemId;
use crate::limit::{Cost, Limits};
use crate::status::Status;
use crate::toolbox::Cancel;
use serde_json::{Map, Value};
use threadseal_core::record::{Head, ThreadId};

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

/// How a thread is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeMode {
    /// By a successor with the whole conversation.
    Resume,
    /// By a successor with the part that fits, and a summary where one is configured.
    HandOver,
}

impl ResumeMode {
    /// Its word in an order.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::HandOver => "handoff",
        }
    }

    /// The way of a word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Resume, Self::HandOver]
            .into_iter()
            .find(|way| way.as_str() == word)
    }
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

/// The decision about unresolved calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unresolved {
    /// Name them, and do nothing.
    #[default]
    Refuse,
    /// They count as made, without a result.
    Skip,
    /// They count as failed.
    Fail,
}

impl Unresolved {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Skip => "skip",
            Self::Fail => "fail",
        }
    }

    /// The decision of a word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Refuse, Self::Skip, Self::Fail]
            .into_iter()
            .find(|decided| decided.as_str() == word)
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
