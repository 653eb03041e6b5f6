//! From step to step, to an end: a graph run as a [`Runnable`].

use super::super::children::ParentEnd;
use super::super::derived_files::{DerivedFiles, new_knowledge};
use super::super::helpers::Helpers;
use super::super::lifecycle::{BegunRecord, Runnable};
use super::super::lifecycle_hooks::limit_members;
use super::super::order::{GraphOrder, Ran};
use super::super::parent::Inherited;
use super::super::record_writer::{RecordWriter, WriteHandle};
use super::super::services::{Progress, Services};
use super::files::Files;
use super::graph_hooks::{at_limit, ended_by, fire};
use super::node;
use super::outcome::AfterNode;
use super::prepare;
use super::run::{End, GraphPlan, GraphRun};
use crate::bounds::POLL_INTERVAL;
use crate::graph::Graph;
use crate::graph_journal::GraphJournal;
use crate::graph_state::{Course, Position, Standing};
use crate::left_file::LeftFile;
use crate::limit::{Cost, LimitHit, Limits, When};
use crate::status::Status;
use crate::toolbox::{Cancel, Stopped};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;
use threadseal_formats::transcript::Ending;

/// The word in line 1 that marks the thread as a graph run.
pub(in crate::runner) const KIND: &str = "graph";

#[derive(Default)]
pub(in crate::runner) struct GraphStart {
    /// The course of the run that it continues.
    pub(super) before: Option<Course>,
    /// Keys under which calls are made again, by the calls' ids.
    pub(super) keys: BTreeMap<String, String>,
}

impl Runnable for GraphRun {
    type Order = GraphOrder;
    type Subject = Graph;
    type Start = GraphStart;
    type End = End;

    const NO_ID: &'static str = "too many runs of this graph begin at this moment";

    fn cancel(order: &GraphOrder) -> &Cancel {
        &order.cancel
    }

    fn prepare(
        services: &Services,
        order: &GraphOrder,
        parent: Option<&Inherited>,
        helpers: &Helpers,
    ) -> Result<GraphPlan, Error> {
        prepare::prepare(services, order, parent, helpers)
    }

    fn name(plan: &GraphPlan) -> String {
        plan.item.as_str().replace('/', "-")
    }

    fn model(_: &GraphPlan) -> Option<&str> {
        None
    }

    fn line_1(plan: &GraphPlan, _: &GraphStart) -> Map<String, Value> {
        Map::from_iter([
            ("graph_sha256".to_owned(), plan.sha256.to_hex().into()),
            ("kind".to_owned(), KIND.into()),
        ])
    }

    fn open(
        begun: BegunRecord,
        plan: GraphPlan,
        start: GraphStart,
        notes: &[(&'static str, Value)],
        helpers: &Helpers,
    ) -> Result<Self, Error> {
        let services = begun.services;
        let directive = ThreadId::parse(plan.item.as_str())?;
        let state = services.project.graph_state(&directive, &begun.id);
        let files = Files {
            derived: begun.files,
            state: new_knowledge(&services, &state)?,
            parent: begun.parent.map(|parent| parent.as_str().to_owned()),
        };
        let started = started(&plan, &begun.id, start.before.as_ref())?;
        let mut journal = GraphJournal::begin(begun.journal, &started)?;
        // Under the same seal as the begin: even if this run dies early, its successor learns it.
        for (kind, payload) in notes.iter().chain(&plan.uses()?) {
            journal.tell(kind, payload)?;
        }
        journal.seal()?;
        Ok(Self {
            plan,
            id: begun.id,
            record: Arc::new(Mutex::new(journal)),
            files,
            child_tool: Arc::clone(&helpers.child_tool),
            children: Arc::clone(&helpers.children),
            places: Arc::clone(&helpers.places),
            end: helpers.end.clone(),
            keys: start.keys,
            kept: Mutex::default(),
            began: services.host.clock.elapsed(),
            own_steps: 0,
            services,
        })
    }

    fn id(&self) -> &ThreadId {
        &self.id
    }

    fn files(&mut self) -> &mut DerivedFiles {
        &mut self.files.derived
    }

    fn ledger(&self) -> LeftFile {
        self.record().journal().ledger_file()
    }

    fn serve(&mut self, writer: &RecordWriter) {
        writer.serve(self.record().journal());
    }

    fn own(&self, helpers: &Helpers) {
        let inheritance = self.plan.inheritance();
        helpers.belongs_to(&self.id, inheritance.clone(), inheritance);
    }

    /// Children send their requests to write to the helpers' writer.
    fn work(&mut self, helpers: &mut Helpers) -> Result<End, Error> {
        let most = self.plan.limits.duration_seconds.map(Duration::from_secs);
        let left = most.map(|most| most.saturating_sub(self.cost().elapsed));
        helpers.may_take(left, &self.services.host.clock);
        let Helpers { cancel, writer, .. } = helpers;
        let (handle, record) = (writer.handle(), Arc::clone(&self.record));
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let (record, over) = (&record, &over);
            let serve = move || serve(writer, record, over);
            thread::Builder::new()
                .spawn_scoped(scope, serve)
                .map_err(|error| {
                    Error::new(
                        ErrorKind::External,
                        format!("the run cannot begin: {error}"),
                    )
                })?;
            let _stop = Stop(over, &handle);
            let walked = self.follow().and_then(|()| walk(self, cancel));
            let walked = walked.and_then(|end| at_end(self, end, cancel));
            children_end(self, &walked);
            // Children that ran beside it were waited for, and count.
            Ok(match (walked?, exceeded(self, When::AfterTurn)) {
                (End::Completed(output), Some(hit)) => End::LimitReached {
                    hit: Box::new(hit),
                    output,
                },
                (end, _) => end,
            })
        })
    }

    fn failed(why: String) -> End {
        End::Failed(why)
    }

    fn end(&mut self, end: End) -> Result<Ran, Error> {
        let cost = self.cost();
        let elapsed = cost.elapsed.as_secs_f64();
        let (at, steps, passed_over) = {
            let record = self.record();
            let course = record.course();
            (course.at.node().to_owned(), course.step, course.passed_over)
        };
        let (kind, event, ending, status) = match &end {
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
            End::LimitReached { hit, .. } => {
                let (kind, event) = ("limit_escalation_requested", hit.to_json());
                (kind, event, Ending::Suspended, Status::LimitReached)
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
        if let End::Suspended {
            reason,
            why,
            escalates: true,
            ..
        } = &end
        {
            let asked = json!({"suspend_reason": reason, "why": why});
            record.tell("escalation_requested", &asked)?;
        }
        record.tell(kind, &event)?;
        let head = record.end(ending, &cost, &terminal_members(&end, status))?;
        drop(record);
        Ok(Ran {
            thread: self.id.clone(),
            status,
            text: String::new(),
            outputs: outputs(&end),
            error: why(&end, self),
            cost,
            carried: Cost::default(),
            warnings: Vec::new(),
            head,
        })
    }

    fn write_files(&mut self, _: &Ran) -> Result<(), Error> {
        self.follow()
    }
}

/// The record of a run ends after those of its children.
fn children_end(run: &GraphRun, walked: &Result<End, Error>) {
    let end = match walked {
        Ok(End::Completed(_)) => ParentEnd::Complete,
        Ok(End::Cancelled) => ParentEnd::Cancel,
        _ => ParentEnd::Error,
    };
    while run.children.is_busy() {
        run.children.thread_ends(end);
        thread::sleep(POLL_INTERVAL);
    }
}

/// Asks the hooks of how the run ends; they decide nothing.
fn at_end(run: &GraphRun, end: End, cancel: &Cancel) -> Result<End, Error> {
    let passed_over = run.record().course().passed_over;
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
        End::Suspended { .. } | End::LimitReached { .. } => return Ok(end),
    };
    fire(run, event, more, cancel)?;
    Ok(end)
}

fn walk(run: &mut GraphRun, cancel: &Cancel) -> Result<End, Error> {
    let started = fire(run, "graph_started", json!({}), cancel)?;
    if let Some(end) = ended_by(started, "graph_started") {
        return Ok(end);
    }
    loop {
        let node = match run.record().course().at.clone() {
            Position::Before(node) | Position::Within(node) => node,
            Position::End(_) => return completed(run, Value::Null, cancel),
        };
        if let Some(end) = stopped(run, cancel, When::BeforeTurn)? {
            return Ok(end);
        }
        let most = run.plan.subject.max_steps;
        if run.own_steps >= most {
            return Ok(End::Failed(format!("max steps exceeded ({most})")));
        }
        let found = run.plan.subject.node(&node).cloned();
        let found = found.ok_or_else(|| Error::refused(format!("the graph has no node {node}")))?;
        run.own_steps += 1;
        let number = run.step_number() + 1;
        run.services
            .watch
            .progress(&run.id, Progress::Step(number, &node));
        let way = node::step(run, &found, cancel)?;
        // These keys are only for calls that the interrupted step repeats.
        run.keys.clear();
        match way {
            AfterNode::Next(Some(next)) => {
                run.record().seal()?;
                run.follow()?;
                let more = json!({"node": node, "next_node": next});
                let decision = fire(run, "after_step", more, cancel)?;
                if let Some(end) = ended_by(decision, "after_step") {
                    return Ok(end);
                }
            }
            AfterNode::Next(None) => return completed(run, Value::Null, cancel),
            AfterNode::Returned(output) => return completed(run, output, cancel),
            AfterNode::Ended(end) => return Ok(end),
            AfterNode::Stopped => return given_up(run, cancel),
        }
        if let Some(end) = stopped(run, cancel, When::AfterTurn)? {
            return Ok(end);
        }
    }
}

fn stopped(run: &GraphRun, cancel: &Cancel, when: When) -> Result<Option<End>, Error> {
    if cancel.is_set() {
        return given_up(run, cancel).map(Some);
    }
    let hit = exceeded(run, when);
    hit.map(|hit| at_limit(run, hit, Value::Null, cancel))
        .transpose()
}

/// How a run ends that was stopped: at its limit where its own time is over; else it is
/// cancelled, on request or with its parent.
fn given_up(run: &GraphRun, cancel: &Cancel) -> Result<End, Error> {
    match exceeded(run, When::BeforeTurn) {
        Some(hit) if cancel.why() == Some(Stopped::Late) => at_limit(run, hit, Value::Null, cancel),
        _ => Ok(End::Cancelled),
    }
}

/// The end of a run after its last node. One that is over a limit is not completed.
fn completed(run: &GraphRun, output: Value, cancel: &Cancel) -> Result<End, Error> {
    match exceeded(run, When::AfterTurn) {
        None => Ok(End::Completed(output)),
        Some(hit) => at_limit(run, hit, output, cancel),
    }
}

fn exceeded(run: &GraphRun, when: When) -> Option<LimitHit> {
    // A limit on turns bounds requests to models; the graph's own number bounds steps.
    let cost = Cost {
        turns: 0,
        ..run.cost()
    };
    let limits = Limits {
        turns: None,
        ..run.plan.limits
    };
    limits.check(when, &cost)
}

/// The payload of `graph_started`: the run's start, and its values.
fn started(plan: &GraphPlan, id: &ThreadId, before: Option<&Course>) -> Result<Value, Error> {
    let mut started =
        json!({"graph_id": plan.item.as_str(), "graph_run_id": id.as_str(), "inputs": plan.inputs});
    let Some(before) = before else {
        let start = plan.subject.start();
        let start = start.ok_or_else(|| Error::invalid("the graph has no first node"))?;
        started["start_node"] = start.name.as_str().into();
        started["state"] = Value::Object(plan.subject.state.clone());
        started["step"] = 0.into();
        return Ok(started);
    };
    // A step that is not over begins once more, under its own number.
    let within = matches!(before.at, Position::Within(_));
    started["start_node"] = before.at.node().into();
    started["state"] = Value::Object(before.state.clone());
    started["step"] = (before.step - u64::from(within)).into();
    started["resumed_from"] = before.run.as_str().into();
    started["passed_over"] = before.passed_over.into();
    started["visited"] = before.visited();
    Ok(started)
}

/// Writes requested events until the walk is over, and all that were requested by then.
fn serve(writer: &mut RecordWriter, record: &Mutex<GraphJournal>, over: &AtomicBool) {
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
fn terminal_members(end: &End, status: Status) -> Value {
    match end {
        End::Completed(_) => json!({"status": status.as_str()}),
        End::Failed(why) => json!({"error": why}),
        End::Cancelled => json!({"reason": "cancelled"}),
        End::LimitReached { hit, .. } => limit_members(hit),
        End::Suspended {
            reason, why, hit, ..
        } => match hit {
            Some(hit) => json!({"suspend_reason": reason, "limit": hit.to_json()}),
            None => json!({"suspend_reason": reason, "why": why}),
        },
    }
}

fn outputs(end: &End) -> Option<Map<String, Value>> {
    let (End::Completed(output) | End::LimitReached { output, .. }) = end else {
        return None;
    };
    match output {
        Value::Object(outputs) => Some(outputs.clone()),
        Value::Null => None,
        other => Some(Map::from_iter([("result".to_owned(), other.clone())])),
    }
}

fn why(end: &End, run: &GraphRun) -> Option<String> {
    match end {
        End::Completed(_) => {
            let record = run.record();
            let course = record.course();
            let last = &course.state.get("_last_error")?["error"];
            let failed = course.standing == Standing::CompletedWithErrors;
            last.as_str().filter(|_| failed).map(str::to_owned)
        }
        End::Failed(why) => Some(why.clone()),
        End::Cancelled => Some("cancelled".to_owned()),
        End::Suspended { why, .. } => Some(why.clone()),
        End::LimitReached { hit, .. } => Some(hit.to_string()),
    }
}
