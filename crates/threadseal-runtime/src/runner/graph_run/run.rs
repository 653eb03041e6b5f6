//! [`GraphRun`]: the state of a run while it is walked.

use super::super::children::Children;
use super::super::places::Places;
use super::super::plan::Plan;
use super::super::services::Services;
use super::files::{Files, Nodes};
use crate::bounds::MAX_STATE_BYTES;
use crate::graph::Graph;
use crate::graph_journal::GraphJournal;
use crate::limit::{Cost, LimitHit};
use crate::toolbox::{Cancel, Outcome, Tool};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;

pub(in crate::runner) type GraphPlan = Plan<Graph>;

pub(in crate::runner) struct GraphRun {
    pub(super) services: Services,
    pub(super) plan: GraphPlan,
    pub(super) id: ThreadId,
    /// Written by the walk, by its calls, and by children that end.
    pub(super) record: Arc<Mutex<GraphJournal>>,
    pub(super) files: Files,
    pub(super) child_tool: Arc<dyn Tool>,
    pub(super) children: Arc<Children>,
    pub(super) places: Arc<Places>,
    /// Stops the calls of hooks of its end.
    pub(super) end: Cancel,
    /// Keys under which calls of the step that was left are made again, by the calls' ids.
    pub(super) keys: BTreeMap<String, String>,
    /// Results that nodes with `cache` take a second time.
    pub(super) kept: Mutex<KeptResults>,
    /// When it began, by the clock's steady time.
    pub(super) began: Duration,
    /// Steps of this run; an earlier one that it continues had its own.
    pub(super) own_steps: u64,
}

/// Results of calls, by their item and input.
#[derive(Default)]
pub(super) struct KeptResults {
    results: BTreeMap<String, Outcome>,
    bytes: usize,
}

impl KeptResults {
    /// Keeps a result without an error, as long as all have at most [`MAX_STATE_BYTES`].
    pub(super) fn keep(&mut self, call: String, outcome: &Outcome) {
        let bytes = call.len() + outcome.text().len();
        if outcome.error.is_none() && self.bytes + bytes <= MAX_STATE_BYTES {
            self.bytes += bytes;
            self.results.insert(call, outcome.clone());
        }
    }

    pub(super) fn get(&self, call: &str) -> Option<&Outcome> {
        self.results.get(call)
    }
}

pub(in crate::runner) enum End {
    /// It is complete, with this output.
    Completed(Value),
    /// It cannot continue.
    Failed(String),
    /// It was stopped on request.
    Cancelled,
    /// It must not continue until a person decides.
    Suspended {
        reason: &'static str,
        why: String,
        hit: Option<Box<LimitHit>>,
        /// Is a person asked for that decision?
        escalates: bool,
    },
    /// It is at a limit, or over it; with its output where it came to its end.
    LimitReached { hit: Box<LimitHit>, output: Value },
}

impl GraphRun {
    /// The record; one writes it at a time.
    pub(super) fn record(&self) -> MutexGuard<'_, GraphJournal> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The results that nodes with `cache` take a second time.
    pub(super) fn kept(&self) -> MutexGuard<'_, KeptResults> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn step_number(&self) -> u64 {
        self.record().course().step
    }

    /// The values that templates and conditions see; `result` is that of the node's call.
    ///
    /// # Errors
    /// When the clock shows no time.
    pub(super) fn context(&self, result: Option<&Value>) -> Result<Value, Error> {
        let now = self.services.host.clock.now()?;
        let record = self.record();
        let course = record.course();
        let mut state = course.state.clone();
        state.insert("inputs".to_owned(), Value::Object(course.inputs.clone()));
        Ok(json!({
            "state": state,
            "inputs": course.inputs,
            "result": result,
            "_now": now.to_iso_seconds(),
            "_timestamp": now.as_micros() / 1_000_000,
        }))
    }

    /// Steps are the turns of a run, as people see it.
    pub(super) fn cost(&self) -> Cost {
        let (spend, spawns) = self.children.spent();
        Cost {
            turns: self.own_steps,
            spend,
            spawns,
            elapsed: self
                .services
                .host
                .clock
                .elapsed()
                .saturating_sub(self.began),
            ..Cost::default()
        }
    }

    /// Writes the files derived from the record, and the registry's view of it.
    pub(super) fn follow(&mut self) -> Result<(), Error> {
        let cost = self.cost();
        let record = Arc::clone(&self.record);
        let record = record.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = nodes_of(&self.plan.subject);
        self.files.write(&self.services, &record, &nodes, &cost)?;
        let now = self.services.host.clock.now()?;
        self.places.set_cost(&self.id, &cost, now)
    }

    /// Shows readers of the entry the step that begins.
    pub(super) fn show(&mut self) -> Result<(), Error> {
        let cost = self.cost();
        let record = Arc::clone(&self.record);
        let record = record.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = nodes_of(&self.plan.subject);
        let course = record.course();
        self.files.show(&self.services, course, &nodes, &cost)
    }
}

fn nodes_of(graph: &Graph) -> Nodes<'_> {
    let names = graph.nodes().iter().map(|node| node.name.as_str());
    Nodes {
        all: names.collect(),
        start: graph.start().map_or("", |node| node.name.as_str()),
    }
}

/// A value that fits into the state.
///
/// # Errors
/// Kind `Limit` above [`MAX_STATE_BYTES`].
pub(super) fn bounded(value: Value) -> Result<Value, Error> {
    let bytes = value.to_string().len();
    match bytes <= MAX_STATE_BYTES {
        true => Ok(value),
        false => Err(Error::new(
            ErrorKind::Limit,
            format!("the state would have {bytes} bytes; at most {MAX_STATE_BYTES}"),
        )),
    }
}
