//! The work of one node, and the node after it.

use super::walk::{End, GraphRun};
use crate::bounds::MAX_STATE_ERROR_BYTES;
use crate::graph::{GraphNode, NodeKind, OnError};
use crate::toolbox::{Cancel, Outcome};
use serde_json::{Map, Value, json};
use threadseal_core::error::Error;

/// The outcome of a node.
pub(super) enum Did {
    /// It succeeded; its result, where it has one.
    Well { result: Value },
    /// It failed.
    Failed { error: String, result: Value },
    /// It called for each item.
    Each {
        set: Map<String, Value>,
        error: Option<String>,
        /// `items` and `failed`.
        told: Value,
    },
    /// It ends the graph.
    Returned { output: Value },
}

impl Did {
    pub(super) fn failed(error: impl Into<String>) -> Self {
        Self::Failed {
            error: error.into(),
            result: Value::Null,
        }
    }
}

/// Where a run continues after a node.
pub(super) enum Way {
    /// To this node, or to the end of the graph.
    Next(Option<String>),
    /// The graph is complete.
    Returned(Value),
    /// The run ends here.
    Ended(End),
}

/// The handling of a node that failed.
pub(super) enum Failing {
    /// As the graph declares.
    AsDeclared,
    /// It is tried again.
    Again,
    /// The graph continues, and is complete with errors.
    PassOver,
    /// The graph continues as if the node did not exist.
    LeaveOut,
    End(End),
}

/// The facts of a step for its event.
struct Account<'a> {
    node: &'a GraphNode,
    began: std::time::Duration,
    action: Option<String>,
    thread: Option<String>,
    told: Option<Value>,
}

impl GraphRun {
    /// One step: the node's work, its assignments to the state, the next node.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub(super) fn step(&self, node: &GraphNode, cancel: &Cancel) -> Result<Way, Error> {
        let mut account = Account {
            node,
            began: self.engine.host.clock.elapsed(),
            action: self.action_of(node),
            thread: None,
            told: None,
        };
        self.step_started(&account)?;
        for attempt in 1.. {
            let (error, result) = match self.attempt(&mut account, cancel)? {
                Ok(way) => return Ok(way),
                Err(failed) => failed,
            };
            if cancel.is_set() {
                break;
            }
            match self.at_error(&node.name, &error, attempt, cancel)? {
                Failing::Again => {}
                Failing::End(end) => {
                    self.keep_error(&node.name, &error)?;
                    return Ok(Way::Ended(end));
                }
                failing => return self.lead_off(&account, &error, &result, &failing),
            }
        }
        Ok(Way::Ended(End::Cancelled))
    }

    /// One attempt at a node: the next node, or why it failed, and the result of its call.
    fn attempt(
        &self,
        account: &mut Account<'_>,
        cancel: &Cancel,
    ) -> Result<Result<Way, (String, Value)>, Error> {
        let node = account.node;
        let did = match self.engine.has_variables(&node.env_requires) {
            Ok(()) => self.does(node, cancel)?,
            Err(why) => Did::failed(why.to_string()),
        };
        let (put, result) = match did {
            Did::Returned { output } => {
                self.step_completed(account, None, None)?;
                return Ok(Ok(Way::Returned(output)));
            }
            Did::Failed { error, result } => (Err(error), result),
            Did::Well { result } => {
                let set = self.assigned(node, &result);
                let put = set.and_then(|set| self.put(node, &set));
                (put.map_err(|why| why.to_string()), result)
            }
            Did::Each { set, error, told } => {
                account.told = Some(told);
                let put = self.put(node, &set).map_err(|why| why.to_string());
                (error.map_or(put, Err), Value::Null)
            }
        };
        account.thread = thread_of(&result);
        match put {
            Ok(()) => self.lead_on(account, &result).map(Ok),
            Err(error) => Ok(Err((error, result))),
        }
    }

    fn does(&self, node: &GraphNode, cancel: &Cancel) -> Result<Did, Error> {
        Ok(match &node.kind {
            NodeKind::Gate => Did::Well {
                result: Value::Null,
            },
            NodeKind::Return(output) => {
                let context = self.context(None)?;
                let output = output
                    .as_ref()
                    .map(|output| output.render(&context))
                    .transpose();
                match output.and_then(|output| self.bounded(output.unwrap_or(Value::Null))) {
                    Ok(output) => Did::Returned { output },
                    Err(why) => Did::failed(why.to_string()),
                }
            }
            NodeKind::Action(action) => {
                let id = format!("{}.0", self.step_number());
                let outcome = self.call(&id, action, &self.context(None)?, cancel)?;
                match outcome.error {
                    None => Did::Well {
                        result: outcome.output,
                    },
                    Some(error) => Did::Failed {
                        error,
                        result: outcome.output,
                    },
                }
            }
            NodeKind::Foreach(foreach) => self.foreach(foreach, cancel)?,
        })
    }

    fn assigned(&self, node: &GraphNode, result: &Value) -> Result<Map<String, Value>, Error> {
        let context = self.context(Some(result))?;
        let assigned = node.assign.iter();
        assigned
            .map(|(name, tree)| Ok((name.clone(), tree.render(&context)?)))
            .collect()
    }

    /// Puts values into the state, if they fit.
    fn put(&self, node: &GraphNode, set: &Map<String, Value>) -> Result<(), Error> {
        if set.is_empty() {
            return Ok(());
        }
        let mut record = self.record();
        let mut state = record.course().state.clone();
        state.extend(set.clone());
        self.bounded(Value::Object(state))?;
        let step = record.course().step;
        record.tell(
            "state_changed",
            &json!({"step": step, "node": node.name, "set": set}),
        )
    }

    /// Follows the first edge that holds.
    fn lead_on(&self, account: &Account<'_>, result: &Value) -> Result<Way, Error> {
        match self.edge(account.node, result) {
            Ok(next) => {
                self.step_completed(account, next.as_deref(), None)?;
                Ok(Way::Next(next))
            }
            Err(why) => Ok(Way::Ended(End::Failed(why.to_string()))),
        }
    }

    /// Puts why the node failed into the state, shortened.
    fn keep_error(&self, node: &str, error: &str) -> Result<String, Error> {
        let kept = cut(error);
        let set = json!({"step": self.step_number(), "node": node,
                         "set": {"_last_error": {"node": node, "error": kept}}});
        self.record().tell("state_changed", &set)?;
        Ok(kept)
    }

    /// Where a failed node leads: as a hook decided, else along its edge for failures, or along the
    /// others, or nowhere.
    fn lead_off(
        &self,
        account: &Account<'_>,
        error: &str,
        result: &Value,
        failing: &Failing,
    ) -> Result<Way, Error> {
        let node = account.node;
        let kept = self.keep_error(&node.name, error)?;
        let failure = |passed_over| Failure {
            error: &kept,
            passed_over,
        };
        let passed_over = !matches!(failing, Failing::LeaveOut);
        let goes_on = !matches!(failing, Failing::AsDeclared);
        if let Some(edge) = node.on_error.as_ref().filter(|_| !goes_on) {
            self.step_completed(account, Some(&edge.to), Some(failure(false)))?;
            return Ok(Way::Next(Some(edge.to.clone())));
        }
        if !goes_on && self.plan.graph.on_error == OnError::Fail {
            return Ok(Way::Ended(End::Failed(kept)));
        }
        match self.edge(node, result) {
            Ok(next) => {
                self.step_completed(account, next.as_deref(), Some(failure(passed_over)))?;
                Ok(Way::Next(next))
            }
            Err(why) => Ok(Way::Ended(End::Failed(why.to_string()))),
        }
    }

    /// The node that follows; None where the graph is complete.
    fn edge(&self, node: &GraphNode, result: &Value) -> Result<Option<String>, Error> {
        let context = self.context(Some(result))?;
        for edge in &node.next {
            let holds = edge
                .when
                .as_ref()
                .map_or(Ok(true), |when| when.eval(&context))?;
            if holds {
                return Ok(Some(edge.to.clone()));
            }
        }
        match node.next.is_empty() {
            true => Ok(None),
            false => Err(Error::refused(format!(
                "no edge of node `{}` holds",
                node.name
            ))),
        }
    }

    fn action_of(&self, node: &GraphNode) -> Option<String> {
        let item = &node.action()?.item_id;
        let context = self.context(None).ok()?;
        item.render_text(&context).ok()
    }

    fn step_started(&self, account: &Account<'_>) -> Result<(), Error> {
        let node = account.node;
        let mut record = self.record();
        let number = record.course().step + 1;
        let mut event = json!({"step": number, "node": node.name, "node_type": node.type_name()});
        if let Some(action) = &account.action {
            event["action_id"] = action.as_str().into();
        }
        record.step(&event)
    }

    fn step_completed(
        &self,
        account: &Account<'_>,
        next: Option<&str>,
        failure: Option<Failure<'_>>,
    ) -> Result<(), Error> {
        let elapsed = self
            .engine
            .host
            .clock
            .elapsed()
            .saturating_sub(account.began);
        let (step, node) = (self.step_number(), &account.node.name);
        let mut record = self.record();
        if let Some(told) = &account.told {
            let mut event = json!({"step": step, "node": node, "next_node": next});
            if let (Value::Object(event), Value::Object(told)) = (&mut event, told) {
                event.extend(told.clone());
            }
            record.tell("foreach_completed", &event)?;
        }
        let status = failure.map_or("completed", |_| "error");
        let mut event = json!({"step": step, "node": node, "status": status,
                               "elapsed_s": elapsed.as_secs_f64(), "next_node": next});
        if let Some(action) = &account.action {
            event["action_id"] = action.as_str().into();
        }
        if let Some(thread) = &account.thread {
            event["thread_id"] = thread.as_str().into();
        }
        if let Some(failure) = failure {
            event["error"] = failure.error.into();
            event["passed_over"] = failure.passed_over.into();
        }
        event["ledger"] = record.ledger_tip()?;
        record.tell("step_completed", &event)
    }
}

#[derive(Clone, Copy)]
struct Failure<'a> {
    error: &'a str,
    /// The graph continues as if it had not.
    passed_over: bool,
}

/// The collected value of an item: the id of the thread that it started, if any, as in Rye.
pub(super) fn collected(outcome: &Outcome) -> Value {
    match (&outcome.error, thread_of(&outcome.output)) {
        (Some(error), _) => json!({"success": false, "error": cut(error)}),
        (None, Some(thread)) => thread.into(),
        (None, None) => outcome.output.clone(),
    }
}

fn thread_of(result: &Value) -> Option<String> {
    let thread = result["thread_id"].as_str().filter(|id| !id.is_empty());
    thread.map(str::to_owned)
}

/// As much of an error as stays in the state.
fn cut(error: &str) -> String {
    let mut end = error.len().min(MAX_STATE_ERROR_BYTES);
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    error[..end].to_owned()
}
