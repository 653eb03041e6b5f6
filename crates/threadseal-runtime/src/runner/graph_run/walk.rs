//! From step to step, to an end.

use super::super::children::Children;
use super::super::cycle::Progress;
use super::super::engine::{Engine, Ran};
use super::super::lifecycle_hooks::time_of_end;
use super::super::prepare::Inherited;
use super::super::record_writer::{RecordWriter, WriteHandle};
use super::files::Files;
use super::graph_hooks::ended_by;
use super::node::Way;
use super::prepare::GraphPlan;
use crate::bounds::{MAX_STATE_BYTES, POLL_INTERVAL};
use crate::graph_journal::GraphJournal;
use crate::graph_state::{Position, Standing};
use crate::limit::{Cost, LimitHit, When};
use crate::status::Status;
use crate::toolbox::{Cancel, Tool};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;
use threadseal_formats::transcript::Ending;

pub(super) struct GraphRun {
    pub(super) engine: Engine,
    pub(super) plan: GraphPlan,
    pub(super) id: ThreadId,
    /// Written by the walk, by its calls, and by children that end.
    pub(super) record: Arc<Mutex<GraphJournal>>,
    pub(super) files: Files,
    pub(super) child: Arc<dyn Tool>,
    pub(super) children: Arc<Children>,
    /// Keys under which calls of the step that was left are made again, by the calls' ids.
    pub(super) keys: BTreeMap<String, String>,
    /// When it began, by the clock's steady time.
    pub(super) began: Duration,
    /// Steps of this run; an earlier one that it continues had its own.
    pub(super) own_steps: u64,
}

pub(super) enum End {
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
        hit: Option<LimitHit>,
    },
}

impl GraphRun {
    pub(super) fn id(&self) -> &ThreadId {
        &self.id
    }

    pub(super) fn inheritance(&self) -> Inherited {
        self.plan.inheritance()
    }

    /// The record; one writes it at a time.
    pub(super) fn record(&self) -> MutexGuard<'_, GraphJournal> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn step_number(&self) -> u64 {
        self.record().course().step
    }

    /// The values that templates and conditions see; `result` is that of the node's call.
    ///
    /// # Errors
    /// When the clock shows no time.
    pub(super) fn context(&self, result: Option<&Value>) -> Result<Value, Error> {
        let now = self.engine.host.clock.now()?;
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

    /// A value that fits into the state.
    ///
    /// # Errors
    /// Kind `Limit` above [`MAX_STATE_BYTES`].
    pub(super) fn bounded(&self, value: Value) -> Result<Value, Error> {
        let bytes = value.to_string().len();
        match bytes <= MAX_STATE_BYTES {
            true => Ok(value),
            false => Err(Error::new(
                ErrorKind::Limit,
                format!("the state would have {bytes} bytes; at most {MAX_STATE_BYTES}"),
            )),
        }
    }

    /// Walks to an end. Children send their requests to write to `writer`.
    ///
    /// # Errors
    /// When the record could not be written to its end.
    pub(super) fn run(&mut self, cancel: &Cancel, writer: RecordWriter) -> Result<Ran, Error> {
        let (handle, record) = (writer.handle(), Arc::clone(&self.record));
        let over = AtomicBool::new(false);
        let walked = thread::scope(|scope| {
            let (record, over) = (&record, &over);
            let serve = move || serve(&writer, record, over);
            thread::Builder::new()
                .spawn_scoped(scope, serve)
                .map_err(|error| {
                    Error::new(
                        ErrorKind::External,
                        format!("the run cannot begin: {error}"),
                    )
                })?;
            let _stop = Stop(over, &handle);
            let walked = self.follow().and_then(|()| self.walk(cancel));
            let walked = walked.and_then(|end| self.at_end(end, cancel));
            self.children_end(matches!(walked, Ok(End::Completed(_))));
            walked
        });
        match walked {
            Ok(end) => self.finish(&end),
            Err(error) => {
                // The record may still take an end; if not, the run is to be recovered.
                let _ = self.finish(&End::Failed(error.to_string()));
                Err(error)
            }
        }
    }

    /// The record of a run ends after those of its children. Their work was requested, unless the
    /// run failed.
    fn children_end(&self, completed: bool) {
        let limit = self.plan.limits.duration_seconds.map(Duration::from_secs);
        while self.children.is_busy() {
            if !completed || limit.is_some_and(|limit| self.cost().elapsed > limit) {
                self.children.cancel().set();
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Asks the hooks of how the run ends; they decide nothing.
    fn at_end(&self, end: End, cancel: &Cancel) -> Result<End, Error> {
        let passed_over = self.record().course().passed_over;
        let (event, more) = match &end {
            End::Completed(output) => {
                let status = if passed_over {
                    "completed_with_errors"
                } else {
                    "completed"
                };
                (
                    "graph_completed",
                    json!({"status": status, "outputs": output}),
                )
            }
            End::Failed(why) => (
                "graph_error",
                json!({"status": "error", "error": {"message": why}}),
            ),
            End::Cancelled => ("graph_cancelled", json!({"status": "cancelled"})),
            End::Suspended { .. } => return Ok(end),
        };
        let most = time_of_end(self.plan.limits.duration_seconds, self.cost().elapsed);
        cancel.for_at_most(most, |cancel| self.fire(event, more, cancel))?;
        Ok(end)
    }

    fn walk(&mut self, cancel: &Cancel) -> Result<End, Error> {
        let started = self.fire("graph_started", json!({}), cancel)?;
        if let Some(end) = ended_by(started, "graph_started") {
            return Ok(end);
        }
        loop {
            let node = match self.record().course().at.clone() {
                Position::Before(node) | Position::Within(node) => node,
                Position::End(_) => return Ok(End::Completed(Value::Null)),
            };
            if let Some(end) = self.stopped(cancel, When::BeforeTurn)? {
                return Ok(end);
            }
            let most = self.plan.graph.max_steps;
            if self.own_steps >= most {
                return Ok(End::Failed(format!("max steps exceeded ({most})")));
            }
            let found = self.plan.graph.node(&node).cloned();
            let found =
                found.ok_or_else(|| Error::refused(format!("the graph has no node {node}")))?;
            self.own_steps += 1;
            let number = self.step_number() + 1;
            self.engine
                .watch
                .progress(&self.id, Progress::Step(number, &node));
            let way = self.step(&found, cancel)?;
            // These keys are only for calls that the interrupted step repeats.
            self.keys.clear();
            match way {
                Way::Next(Some(next)) => {
                    self.record().seal()?;
                    self.follow()?;
                    let more = json!({"node": node, "next_node": next});
                    let decision = self.fire("after_step", more, cancel)?;
                    if let Some(end) = ended_by(decision, "after_step") {
                        return Ok(end);
                    }
                }
                Way::Next(None) => return Ok(End::Completed(Value::Null)),
                Way::Returned(output) => return Ok(End::Completed(output)),
                Way::Ended(end) => return Ok(end),
            }
            if let Some(end) = self.stopped(cancel, When::AfterTurn)? {
                return Ok(end);
            }
        }
    }

    /// Steps are the turns of a run, as people see it.
    pub(super) fn cost(&self) -> Cost {
        let (spend, spawns) = self.children.spent();
        Cost {
            turns: self.own_steps,
            spend,
            spawns,
            elapsed: self.engine.host.clock.elapsed().saturating_sub(self.began),
            ..Cost::default()
        }
    }

    fn stopped(&self, cancel: &Cancel, when: When) -> Result<Option<End>, Error> {
        if cancel.is_set() {
            return Ok(Some(End::Cancelled));
        }
        // A limit on turns bounds requests to models; the graph's own number bounds steps.
        let cost = Cost {
            turns: 0,
            ..self.cost()
        };
        let mut limits = self.plan.limits;
        limits.turns = None;
        let hit = limits.check(when, &cost);
        hit.map(|hit| self.at_limit(hit, cancel)).transpose()
    }

    /// Ends a run that must not be walked. The first error is the one to report, even if this
    /// fails.
    pub(super) fn fail(&mut self, error: &Error) {
        let _ = self.finish(&End::Failed(error.to_string()));
    }

    /// Writes its end: record first, then the files and rows derived from it.
    fn finish(&mut self, end: &End) -> Result<Ran, Error> {
        let cost = self.cost();
        let elapsed = cost.elapsed.as_secs_f64();
        let (at, steps, passed_over) = {
            let record = self.record();
            let course = record.course();
            (course.at.node().to_owned(), course.step, course.passed_over)
        };
        let (kind, event, ending, status) = match end {
            End::Completed(output) => {
                let status = match passed_over {
                    true => Status::CompletedWithErrors,
                    false => Status::Completed,
                };
                let mut event =
                    json!({"status": status.as_str(), "steps": steps, "elapsed_s": elapsed});
                if !output.is_null() {
                    event["outputs"] = output.clone();
                }
                ("graph_completed", event, Ending::Completed, status)
            }
            End::Failed(error) => {
                let event =
                    json!({"error": error, "node": at, "steps": steps, "elapsed_s": elapsed});
                ("graph_error", event, Ending::Error, Status::Error)
            }
            End::Cancelled => {
                let event = json!({"steps": steps, "elapsed_s": elapsed});
                (
                    "graph_cancelled",
                    event,
                    Ending::Cancelled,
                    Status::Cancelled,
                )
            }
            End::Suspended { hit: Some(hit), .. } => {
                let (kind, event) = ("limit_escalation_requested", hit.to_json());
                (kind, event, Ending::Suspended, Status::Suspended)
            }
            End::Suspended { reason, why, .. } => {
                let event = json!({"reason": reason, "why": why, "node": at, "steps": steps});
                (
                    "graph_suspended",
                    event,
                    Ending::Suspended,
                    Status::Suspended,
                )
            }
        };
        let mut record = self.record();
        record.tell(kind, &event)?;
        let head = record.end(ending, &cost, ended(end, status))?;
        drop(record);
        let ran = Ran {
            thread: self.id.clone(),
            status,
            text: String::new(),
            outputs: outputs(end),
            error: why(end, self),
            cost,
            carried: Cost::default(),
            warnings: Vec::new(),
            head,
        };
        self.settle(&ran)?;
        Ok(ran)
    }

    fn settle(&mut self, ran: &Ran) -> Result<(), Error> {
        self.files.meta.status = ran.status;
        self.files.meta.outputs.clone_from(&ran.outputs);
        self.follow()?;
        let engine = &self.engine;
        let now = engine.host.clock.now()?;
        engine.registry.set_result(&self.id, &ran.to_json(), now)?;
        if ran.status.is_terminal() {
            engine.budgets.release(&self.id, ran.status, now)?;
        }
        let running = Some(Status::Running);
        let set = engine
            .registry
            .set_status(&self.id, running, ran.status, now);
        set.map(drop)
    }

    /// Writes the files derived from the record, and the registry's view of it.
    fn follow(&mut self) -> Result<(), Error> {
        let cost = self.cost();
        let nodes: Vec<&str> = self
            .plan
            .graph
            .nodes()
            .iter()
            .map(|node| node.name.as_str())
            .collect();
        let start = self
            .plan
            .graph
            .start()
            .map_or("", |node| node.name.as_str());
        let record = Arc::clone(&self.record);
        let record = record.lock().unwrap_or_else(PoisonError::into_inner);
        self.files
            .write(&self.engine, &record, &nodes, start, &cost)?;
        let now = self.engine.host.clock.now()?;
        self.engine.registry.set_cost(&self.id, &cost, now)
    }
}

/// Writes requested events until the walk is over, and all that were requested by then.
fn serve(writer: &RecordWriter, record: &Mutex<GraphJournal>, over: &AtomicBool) {
    loop {
        let last = over.load(Ordering::Acquire);
        let wait = if last { Duration::ZERO } else { POLL_INTERVAL };
        match writer.next(wait) {
            Some(job) => job(record
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .journal()),
            None if last => return,
            None => {}
        }
    }
}

/// Signals that the walk is over, however it ends.
struct Stop<'a>(&'a AtomicBool, &'a WriteHandle);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.leave(|_| ());
    }
}

/// The members of the terminal event beside cost and ledger.
fn ended(end: &End, status: Status) -> Value {
    match end {
        End::Completed(_) => json!({"status": status.as_str()}),
        End::Failed(why) => json!({"error": why}),
        End::Cancelled => json!({"reason": "cancelled"}),
        End::Suspended { reason, why, hit } => match hit {
            Some(hit) => json!({"suspend_reason": reason, "limit": hit.to_json()}),
            None => json!({"suspend_reason": reason, "why": why}),
        },
    }
}

fn outputs(end: &End) -> Option<Map<String, Value>> {
    match end {
        End::Completed(Value::Object(outputs)) => Some(outputs.clone()),
        End::Completed(Value::Null) => None,
        End::Completed(other) => Some(Map::from_iter([("result".to_owned(), other.clone())])),
        _ => None,
    }
}

fn why(end: &End, walk: &GraphRun) -> Option<String> {
    match end {
        End::Completed(_) => {
            let record = walk.record();
            let course = record.course();
            let last = &course.state.get("_last_error")?["error"];
            let failed = course.standing == Standing::CompletedWithErrors;
            last.as_str().filter(|_| failed).map(str::to_owned)
        }
        End::Failed(why) => Some(why.clone()),
        End::Cancelled => Some("cancelled".to_owned()),
        End::Suspended { why, .. } => Some(why.clone()),
    }
}
