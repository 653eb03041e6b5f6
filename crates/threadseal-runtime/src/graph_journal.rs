//! [`GraphJournal`]: the record that a run of a graph writes, and the course that follows from it.
//!
//! ```text
//! graph_started        {graph_id, graph_run_id, start_node, inputs, state, step, resumed_from?,
//!                       passed_over?, visited?}
//! step_started         {step, node, node_type, action_id?}
//! tool_call_start      {tool, call_id, input, item_id, idempotency_key}
//!                                           durable before the call runs
//! tool_call_result     {call_id, output, structured?, duration_ms, error?, unknown?}
//! tool_call_reused     {call_id, item_id, output, structured?, error?, from}
//!                                           of the run before: not called again
//! tool_call_settled    {call_id, item_id, idempotency_key, as: skipped | failed | repeated}
//!                                           it was unresolved
//! state_changed        {step, node, set}
//! foreach_completed    {step, node, items, failed, next_node}
//! step_completed       {step, node, action_id?, status, elapsed_s, next_node, thread_id?, error?,
//!                       passed_over?, ledger}
//! graph_completed      {status, steps, elapsed_s, outputs?}
//! graph_error          {error, node, steps, elapsed_s}
//! graph_cancelled      {steps, elapsed_s}
//! graph_suspended      {reason, why, node, steps}
//! ```
//! A course changes only through an event, by the same code that reads a record. So the walked
//! course and the course of a verified record cannot differ.
//!
//! Seed 001, "Graph event types".

use crate::graph_state::Course;
use crate::journal::Journal;
use crate::limit::Cost;
use crate::model::ToolCall;
use crate::toolbox::{Outcome, Parentage};
use serde_json::{Value, json};
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::ledger::Parent;
use threadseal_formats::transcript::Ending;
use threadseal_store::ledger::OpenStep;

/// The record that a run of a graph writes.
pub(crate) struct GraphJournal {
    journal: Journal,
    course: Course,
}

impl GraphJournal {
    /// Records that the run starts. `journal` has begun and has no events of a graph.
    ///
    /// # Errors
    /// As [`Journal::event`], here and below.
    pub(crate) fn begin(mut journal: Journal, started: &Value) -> Result<Self, Error> {
        let course = Course::begin(started)?;
        journal.event("graph_started", started)?;
        Ok(Self { journal, course })
    }

    /// Records an event, and applies it to the course.
    ///
    /// # Errors
    /// Also when it cannot follow the events before.
    pub(crate) fn tell(&mut self, kind: &str, payload: &Value) -> Result<(), Error> {
        self.journal.event(kind, payload)?;
        self.course.apply(kind, payload)
    }

    /// Records that a step begins; seals of it have the next turn.
    ///
    /// # Errors
    /// As [`GraphJournal::tell`].
    pub(crate) fn step(&mut self, payload: &Value) -> Result<(), Error> {
        self.journal.next_turn();
        self.tell("step_started", payload)
    }

    /// Records the intent of a call, durably.
    ///
    /// # Errors
    /// As [`Journal::intend`].
    pub(crate) fn intend(
        &mut self,
        call: &ToolCall,
        item: &str,
        key: &str,
    ) -> Result<OpenStep, Error> {
        let step = self.journal.intend(call, item, key)?;
        let start = json!({"call_id": call.id, "item_id": item, "idempotency_key": key});
        self.course.apply("tool_call_start", &start)?;
        Ok(step)
    }

    /// Records the result of a call.
    ///
    /// # Errors
    /// As [`Journal::done`].
    pub(crate) fn done(
        &mut self,
        step: OpenStep,
        call: &ToolCall,
        outcome: &Outcome,
        millis: u64,
    ) -> Result<(), Error> {
        let more = structured(outcome);
        self.journal.done_as(step, call, outcome, millis, more)?;
        self.course
            .apply("tool_call_result", &result(&call.id, outcome))
    }

    /// Seals everything so far.
    ///
    /// # Errors
    /// As [`Journal::seal`].
    pub(crate) fn seal(&mut self) -> Result<Head, Error> {
        self.journal.seal()
    }

    /// Ends the run.
    ///
    /// # Errors
    /// As [`Journal::end`].
    pub(crate) fn end(&mut self, ending: Ending, cost: &Cost, more: &Value) -> Result<Head, Error> {
        let head = self.journal.end(ending, cost, more.clone())?;
        if ending == Ending::Suspended {
            self.course.apply("thread_suspended", more)?;
        }
        Ok(head)
    }

    /// The journal for events outside the course: those of children and of a process that stops the
    /// run.
    pub(crate) fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// The newest seal.
    pub(crate) fn head(&self) -> Option<&Head> {
        self.journal.head()
    }

    /// The run so far.
    pub(crate) fn course(&self) -> &Course {
        &self.course
    }

    /// Where the step ledger ends: `count`, and the hash of its last record.
    ///
    /// # Errors
    /// As [`Journal::ledger_tip`].
    pub(crate) fn ledger_tip(&self) -> Result<Value, Error> {
        self.journal.ledger_tip()
    }
}

/// The payload of a result; texts stay texts, anything else is JSON text that is marked as such.
pub(crate) fn result(call: &str, outcome: &Outcome) -> Value {
    let mut result = json!({"call_id": call, "output": outcome.text()});
    if let (Value::Object(result), Value::Object(more)) = (&mut result, structured(outcome)) {
        result.extend(more);
    }
    if let Some(error) = &outcome.error {
        result["error"] = error.as_str().into();
    }
    if outcome.unknown {
        result["unknown"] = true.into();
    }
    result
}

fn structured(outcome: &Outcome) -> Value {
    match outcome.output {
        Value::Null | Value::String(_) => json!({}),
        _ => json!({"structured": true}),
    }
}

impl Parentage for GraphJournal {
    fn child_begins(
        &mut self,
        child: &ThreadId,
        record: &RecordId,
        directive: &str,
    ) -> Result<Head, Error> {
        self.journal.child_begins(child, record, directive)
    }

    fn child_ended(&mut self, child: &ThreadId, status: &str, head: &Head) -> Result<(), Error> {
        self.journal.child_ended(child, status, head)
    }

    fn server_restarted(&mut self, server: &str, failures: usize, why: &str) -> Result<(), Error> {
        self.journal.server_restarted(server, failures, why)
    }

    fn ledger(&self) -> Result<Parent, Error> {
        self.journal.ledger()
    }
}
