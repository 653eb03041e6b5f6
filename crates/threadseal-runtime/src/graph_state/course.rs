//! Folding the events of a run.

use crate::bounds::{MAX_HISTORY_STEPS, MAX_VISITED_BYTES};
use crate::model::dynamic;
use crate::toolbox::Outcome;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use threadseal_core::canon::json::Value as Sealed;
use threadseal_core::error::Error;

/// A run of a graph, as far as its record goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The graph.
    pub graph: String,
    /// The run.
    pub run: String,
    /// The run that it continues.
    pub resumed_from: Option<String>,
    /// Its inputs.
    pub inputs: Map<String, Value>,
    /// Its state, inputs left out.
    pub state: Map<String, Value>,
    /// The number of the last step that began.
    pub step: u64,
    /// Its position.
    pub at: Position,
    /// How it goes.
    pub standing: Standing,
    /// Did a node fail that the graph passed over (`on_error: continue`)?
    pub passed_over: bool,
    /// Calls of the step that is not over: with results, and without.
    calls: BTreeMap<String, CallState>,
    /// Those of them that began once and whose execution is unknown.
    unknown: BTreeSet<String>,
    /// Those of them that a decision counts as failed, and the keys under which they began.
    given_up: BTreeMap<String, String>,
    rows: BTreeMap<String, Row>,
    history: VecDeque<Happening>,
}

/// The position of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// Before a node.
    Before(String),
    /// Within it: its step is not over.
    Within(String),
    /// After the last node, which this was.
    End(String),
}

impl Position {
    /// The node.
    pub fn node(&self) -> &str {
        match self {
            Self::Before(node) | Self::Within(node) | Self::End(node) => node,
        }
    }
}

/// How a run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has no end yet.
    Running,
    /// It came to its end.
    Completed,
    /// It came to its end, and nodes failed on the way.
    CompletedWithErrors,
    /// It failed.
    Error,
    /// It was stopped on request.
    Cancelled,
    /// A hook suspended it.
    Suspended,
    /// It ended at one of its limits.
    LimitReached,
}

impl Standing {
    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::CompletedWithErrors => "completed_with_errors",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Suspended => "suspended",
            Self::LimitReached => "limit_reached",
        }
    }
}

/// A call of an interrupted step whose result is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownCall {
    /// The called item.
    pub item: String,
    /// The result of the call.
    pub outcome: Outcome,
}

/// A call that began and has no result in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The called item.
    pub item: String,
    /// Its idempotency key.
    pub key: String,
}

#[derive(Debug, Clone, PartialEq)]
enum CallState {
    Open(OpenCall),
    Known(KnownCall),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) step: u64,
    pub(super) mark: Mark,
    pub(super) elapsed: Option<f64>,
    pub(super) action: String,
    pub(super) detail: String,
    /// The earlier run that visited it.
    pub(super) run: Option<String>,
}

/// How the last visit of a node went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Running,
    Done,
    Failed,
}

/// The last visit of a node, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Visit<'a> {
    /// The node.
    pub node: &'a str,
    /// The step.
    pub step: u64,
    /// `running`, `completed` or `error`.
    pub status: &'static str,
    /// The called item.
    pub action: &'a str,
    /// How long it took, in seconds.
    pub elapsed: Option<f64>,
    /// Why it failed.
    pub error: Option<&'a str>,
    /// The earlier run that visited it, where this one did not.
    pub run: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Happening {
    Step {
        number: u64,
        node: String,
        kind: String,
        action: String,
    },
    Iterated {
        items: u64,
        failed: u64,
        next: Option<String>,
    },
    Done {
        elapsed: f64,
        next: Option<String>,
    },
    Failed {
        error: String,
        next: Option<String>,
    },
    Unresolved {
        item: String,
        key: String,
    },
    Settled {
        item: String,
        how: String,
    },
    SetAside {
        run: String,
        bytes: u64,
    },
}

impl Course {
    /// The course that a `graph_started` begins.
    ///
    /// # Errors
    /// Kind `Refused` when its payload is none.
    pub fn begin(payload: &Value) -> Result<Self, Error> {
        let map = |name: &str| match &payload[name] {
            Value::Object(members) => Ok(members.clone()),
            _ => Err(broken(&format!("graph_started without {name}"))),
        };
        Ok(Self {
            graph: text(payload, "graph_id")?,
            run: text(payload, "graph_run_id")?,
            resumed_from: payload["resumed_from"].as_str().map(str::to_owned),
            inputs: map("inputs")?,
            state: map("state")?,
            step: payload["step"].as_u64().unwrap_or(0),
            at: Position::Before(text(payload, "start_node")?),
            standing: Standing::Running,
            passed_over: payload["passed_over"].as_bool().unwrap_or(false),
            calls: BTreeMap::new(),
            unknown: BTreeSet::new(),
            given_up: BTreeMap::new(),
            rows: visited(&payload["visited"])?,
            history: VecDeque::new(),
        })
    }

    /// Reads the events of a record, up to the end of step `until` where that is given.
    ///
    /// # Errors
    /// Kind `Refused` when they are not those of a run of a graph, or contradict each other.
    pub fn read<'a>(
        events: impl IntoIterator<Item = (&'a str, &'a Value)>,
        until: Option<u64>,
    ) -> Result<Self, Error> {
        let mut course: Option<Self> = None;
        for (kind, payload) in events {
            match &mut course {
                None if kind == "graph_started" => course = Some(Self::begin(payload)?),
                None => {}
                Some(course) => {
                    let begins = kind == "step_started" && Some(course.step) == until;
                    if begins {
                        break;
                    }
                    course.apply(kind, payload)?;
                }
            }
        }
        course.ok_or_else(|| broken("it has no graph_started"))
    }

    /// Reads the events of a record, as its verified lines have them.
    ///
    /// # Errors
    /// As [`Course::read`].
    pub fn of_record<'a>(
        events: impl IntoIterator<Item = (&'a str, &'a Sealed)>,
    ) -> Result<Self, Error> {
        let events: Vec<(&str, Value)> = events
            .into_iter()
            // Line 1 and seals do not come from the graph, and contain values that no graph has.
            .filter(|(kind, _)| !matches!(*kind, "thread_started" | "checkpoint"))
            .map(|(kind, payload)| Ok((kind, dynamic(payload)?)))
            .collect::<Result<_, Error>>()?;
        Self::read(events.iter().map(|(kind, payload)| (*kind, payload)), None)
    }

    /// Applies one event; events that do not concern graphs change nothing.
    ///
    /// # Errors
    /// Kind `Refused` when it cannot follow the events before.
    pub fn apply(&mut self, kind: &str, payload: &Value) -> Result<(), Error> {
        match kind {
            "graph_started" => return Err(broken("it starts twice")),
            "step_started" => self.step_started(payload)?,
            "tool_call_start" => {
                let call = OpenCall {
                    item: text(payload, "item_id")?,
                    key: text(payload, "idempotency_key")?,
                };
                self.calls
                    .insert(text(payload, "call_id")?, CallState::Open(call));
            }
            "tool_call_result" | "tool_call_reused" => self.result(payload)?,
            "tool_call_settled" => self.settled(payload)?,
            "tool_call_unresolved" => self.unresolved(payload),
            "tail_set_aside" => self.note(Happening::SetAside {
                run: text(payload, "thread_id")?,
                bytes: payload["bytes"].as_u64().unwrap_or(0),
            }),
            "state_changed" => self.changed(payload)?,
            "foreach_completed" => self.note(Happening::Iterated {
                items: payload["items"].as_u64().unwrap_or(0),
                failed: payload["failed"].as_u64().unwrap_or(0),
                next: payload["next_node"].as_str().map(str::to_owned),
            }),
            "step_completed" => self.step_completed(payload)?,
            "graph_completed" => {
                self.standing = match payload["status"].as_str() {
                    Some("completed") => Standing::Completed,
                    _ => Standing::CompletedWithErrors,
                };
            }
            "graph_error" => self.stopped(Standing::Error, payload["error"].as_str()),
            "graph_cancelled" => self.stopped(Standing::Cancelled, Some("cancelled")),
            "thread_suspended" => {
                self.standing = match payload["status"].as_str() {
                    Some("limit_reached") => Standing::LimitReached,
                    _ => Standing::Suspended,
                };
            }
            "thread_error" => self.standing = Standing::Error,
            _ => {}
        }
        Ok(())
    }

    /// The number of the last step that is over.
    pub(crate) fn steps_over(&self) -> u64 {
        match self.at {
            Position::Within(_) => self.step.saturating_sub(1),
            Position::Before(_) | Position::End(_) => self.step,
        }
    }

    /// The result of a call of the step that is not over.
    pub fn known(&self, call: &str) -> Option<&KnownCall> {
        match self.calls.get(call)? {
            CallState::Known(known) => Some(known),
            CallState::Open(_) => None,
        }
    }

    /// Is it unknown whether this call of the step that is not over was carried out? A failed later
    /// attempt proves nothing about the first.
    pub(crate) fn is_unknown(&self, call: &str) -> bool {
        self.unknown.contains(call)
    }

    /// The key of a call of the unfinished step, if a decision counts it as failed although its
    /// execution is unknown.
    pub fn given_up(&self, call: &str) -> Option<&str> {
        self.given_up.get(call).map(String::as_str)
    }

    /// Results of calls of the step that is not over, by the calls' ids.
    pub(crate) fn known_calls(&self) -> impl Iterator<Item = (&str, &KnownCall)> {
        self.calls.iter().filter_map(|(id, call)| match call {
            CallState::Known(known) => Some((id.as_str(), known)),
            CallState::Open(_) => None,
        })
    }

    /// Calls that began and have no result, by their ids.
    pub(crate) fn open_calls(&self) -> impl Iterator<Item = (&str, &OpenCall)> {
        self.calls.iter().filter_map(|(id, call)| match call {
            CallState::Open(open) => Some((id.as_str(), open)),
            CallState::Known(_) => None,
        })
    }

    /// The last visit of each node, in the order of their steps.
    pub fn visits(&self) -> Vec<Visit<'_>> {
        fn visit<'a>((node, row): (&'a String, &'a Row)) -> Visit<'a> {
            Visit {
                node,
                step: row.step,
                status: match row.mark {
                    Mark::Running => "running",
                    Mark::Done => "completed",
                    Mark::Failed => "error",
                },
                action: &row.action,
                elapsed: row.elapsed,
                error: Some(row.detail.as_str()).filter(|detail| !detail.is_empty()),
                run: row.run.as_deref(),
            }
        }
        let mut visits: Vec<Visit<'_>> = self.rows.iter().map(visit).collect();
        visits.sort_by_key(|visit| visit.step);
        visits
    }

    /// The nodes that are done, for the `graph_started` of a run that continues this one; of visits
    /// that take too much space, the last.
    pub(crate) fn visited(&self) -> Value {
        let (mut bytes, mut kept) = (0, Vec::new());
        for visit in self.visits().into_iter().rev() {
            if visit.status == "running" {
                continue;
            }
            let visit = json!({"node": visit.node, "step": visit.step, "status": visit.status,
                               "action": visit.action, "elapsed_s": visit.elapsed,
                               "error": visit.error, "run": visit.run.unwrap_or(&self.run)});
            bytes += visit.to_string().len();
            if bytes > MAX_VISITED_BYTES {
                break;
            }
            kept.push(visit);
        }
        kept.reverse();
        kept.into()
    }

    pub(super) fn row(&self, node: &str) -> Option<&Row> {
        self.rows.get(node)
    }

    pub(super) fn history(&self) -> impl Iterator<Item = &Happening> {
        self.history.iter()
    }

    fn step_started(&mut self, payload: &Value) -> Result<(), Error> {
        let node = text(payload, "node")?;
        let number = payload["step"].as_u64();
        if self.at != Position::Before(node.clone()) || number != Some(self.step + 1) {
            return Err(broken("a step begins out of turn"));
        }
        self.step += 1;
        let action = payload["action_id"].as_str().unwrap_or_default().to_owned();
        let row = Row {
            step: self.step,
            mark: Mark::Running,
            elapsed: None,
            action: action.clone(),
            detail: String::new(),
            run: None,
        };
        self.rows.insert(node.clone(), row);
        self.note(Happening::Step {
            number: self.step,
            node: node.clone(),
            kind: payload["node_type"].as_str().unwrap_or("action").to_owned(),
            action,
        });
        // The events about the earlier run's part of this step come before the step begins.
        let now = self.step;
        self.calls.retain(|call, _| step_of(call) == Some(now));
        self.unknown.retain(|call| step_of(call) == Some(now));
        self.given_up.retain(|call, _| step_of(call) == Some(now));
        self.at = Position::Within(node);
        Ok(())
    }

    fn result(&mut self, payload: &Value) -> Result<(), Error> {
        let output = match (&payload["output"], payload["structured"].as_bool()) {
            (Value::String(text), Some(true)) => {
                let value = threadseal_core::canon::json::parse(text.as_bytes())
                    .map_err(|error| broken(&format!("a result is not JSON: {error}")))?;
                dynamic(&value)?
            }
            (output, _) => output.clone(),
        };
        let error = payload["error"].as_str().map(str::to_owned);
        let unknown = payload["unknown"] == true;
        let call = text(payload, "call_id")?;
        match (unknown, &error) {
            (true, _) => {
                self.unknown.insert(call.clone());
            }
            (false, None) => {
                self.unknown.remove(&call);
            }
            (false, Some(_)) => {}
        }
        let outcome = Outcome {
            output,
            error,
            unknown,
        };
        self.settle(call, payload, outcome);
        Ok(())
    }

    fn settled(&mut self, payload: &Value) -> Result<(), Error> {
        let (call, how) = (text(payload, "call_id")?, text(payload, "as")?);
        let (item, key) = (text(payload, "item_id")?, text(payload, "idempotency_key")?);
        self.note(Happening::Settled {
            item: item.clone(),
            how: how.clone(),
        });
        self.unknown.remove(&call);
        self.given_up.remove(&call);
        let outcome = match how.as_str() {
            "skipped" => Outcome::ok(Value::Null),
            "failed" => {
                self.given_up.insert(call.clone(), key);
                Outcome::failed("unresolved: nobody knows whether it was carried out")
            }
            // It is made once more; until then its execution is unknown.
            "repeated" => {
                self.unknown.insert(call.clone());
                let open = CallState::Open(OpenCall { item, key });
                self.calls.insert(call, open);
                return Ok(());
            }
            _ => return Err(broken("a call is settled in an unknown way")),
        };
        self.settle(call, payload, outcome);
        Ok(())
    }

    fn settle(&mut self, call: String, payload: &Value, outcome: Outcome) {
        let named = payload["item_id"].as_str().map(str::to_owned);
        let item = named.unwrap_or_else(|| match self.calls.get(&call) {
            Some(
                CallState::Open(OpenCall { item, .. }) | CallState::Known(KnownCall { item, .. }),
            ) => item.clone(),
            None => String::new(),
        });
        self.calls
            .insert(call, CallState::Known(KnownCall { item, outcome }));
    }

    /// Such an event comes from the recovery of a run whose process is gone. It states where the
    /// call began: in the record, or only in a tail or a ledger.
    fn unresolved(&mut self, payload: &Value) {
        let text = |name: &str| payload[name].as_str().unwrap_or_default().to_owned();
        let (item, key) = (text("item_id"), text("idempotency_key"));
        let open = CallState::Open(OpenCall {
            item: item.clone(),
            key: key.clone(),
        });
        self.calls.entry(text("call_id")).or_insert(open);
        self.note(Happening::Unresolved { item, key });
    }

    fn changed(&mut self, payload: &Value) -> Result<(), Error> {
        let node = text(payload, "node")?;
        let (Value::Object(set), true) = (&payload["set"], self.at == Position::Within(node))
        else {
            return Err(broken("the state changes out of turn"));
        };
        for (name, value) in set {
            self.state.insert(name.clone(), value.clone());
        }
        Ok(())
    }

    fn step_completed(&mut self, payload: &Value) -> Result<(), Error> {
        let node = text(payload, "node")?;
        if self.at != Position::Within(node.clone()) {
            return Err(broken("a step ends that did not start"));
        }
        let next = payload["next_node"].as_str().map(str::to_owned);
        let error = payload["error"].as_str().map(str::to_owned);
        let elapsed = payload["elapsed_s"].as_f64().unwrap_or(0.0);
        self.passed_over |= payload["passed_over"].as_bool().unwrap_or(false);
        if let Some(row) = self.rows.get_mut(&node) {
            row.elapsed = Some(elapsed);
            row.mark = if error.is_some() {
                Mark::Failed
            } else {
                Mark::Done
            };
            row.detail = error.clone().unwrap_or_default();
        }
        self.at = match &next {
            Some(next) => Position::Before(next.clone()),
            None => Position::End(node),
        };
        self.calls.clear();
        self.unknown.clear();
        self.given_up.clear();
        self.note(match error {
            Some(error) => Happening::Failed { error, next },
            None => Happening::Done { elapsed, next },
        });
        Ok(())
    }

    /// It ends within a node: the finished calls of the node are kept for a successor.
    fn stopped(&mut self, standing: Standing, why: Option<&str>) {
        self.standing = standing;
        let error = why.unwrap_or_default().to_owned();
        if let Position::Within(node) = &self.at
            && let Some(row) = self.rows.get_mut(node)
        {
            row.mark = Mark::Failed;
            row.detail.clone_from(&error);
        }
        self.note(Happening::Failed { error, next: None });
    }

    fn note(&mut self, happening: Happening) {
        if self.history.len() == MAX_HISTORY_STEPS {
            self.history.pop_front();
        }
        self.history.push_back(happening);
    }
}

/// The nodes that earlier runs visited, as a `graph_started` names them.
fn visited(named: &Value) -> Result<BTreeMap<String, Row>, Error> {
    let named = match named {
        Value::Null => &Vec::new(),
        Value::Array(named) => named,
        _ => return Err(broken("visited is no list")),
    };
    let row = |visit: &Value| {
        let optional = |name: &str| visit[name].as_str().unwrap_or_default().to_owned();
        let row = Row {
            step: visit["step"].as_u64().unwrap_or(0),
            mark: match text(visit, "status")?.as_str() {
                "completed" => Mark::Done,
                "error" => Mark::Failed,
                _ => return Err(broken("a visit that did not end")),
            },
            elapsed: visit["elapsed_s"].as_f64(),
            action: optional("action"),
            detail: optional("error"),
            run: Some(text(visit, "run")?),
        };
        Ok((text(visit, "node")?, row))
    };
    named.iter().map(row).collect()
}

/// The step of a call's id, `<step>.<place>`.
pub(crate) fn step_of(call: &str) -> Option<u64> {
    let (step, place) = call.split_once('.')?;
    place.parse::<u64>().ok()?;
    step.parse().ok()
}

fn text(payload: &Value, name: &str) -> Result<String, Error> {
    let text = payload[name].as_str().map(str::to_owned);
    text.ok_or_else(|| broken(&format!("an event without {name}")))
}

fn broken(why: &str) -> Error {
    Error::refused(format!(
        "the record is not a valid course of a graph: {why}"
    ))
}
