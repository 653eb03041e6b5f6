//! The work of one node, and the node after it.

use super::call::{Site, call};
use super::foreach::foreach;
use super::graph_hooks::at_error;
use super::outcome::{AfterNode, Did, Failing, cut, thread_of};
use super::run::{End, GraphRun, bounded};
use crate::graph::{GraphNode, NodeKind, OnError};
use crate::runner::graph_run::prepare;
use crate::toolbox::Cancel;
use serde_json::{Map, Value, json};
use threadseal_core::error::Error;

/// The facts of a step for its event.
struct Account<'a> {
    node: &'a GraphNode,
    began: std::time::Duration,
    action: Option<String>,
    thread: Option<String>,
    told: Option<Value>,
}

/// One step: the node's work, its assignments to the state, the next node.
///
/// # Errors
/// When it cannot be recorded.
pub(super) fn step(
    run: &mut GraphRun,
    node: &GraphNode,
    cancel: &Cancel,
) -> Result<AfterNode, Error> {
    let mut account = Account {
        node,
        began: run.services.host.clock.elapsed(),
        action: action_of(run, node),
        thread: None,
        told: None,
    };
    step_started(run, &account)?;
    run.show()?;
    for number in 1.. {
        let (error, result) = match attempt(run, &mut account, cancel)? {
            Ok(way) => return Ok(way),
            Err(failed) => failed,
        };
        if cancel.is_set() {
            break;
        }
        match at_error(run, &node.name, &error, number, cancel)? {
            Failing::Again => {}
            Failing::End(end) => {
                keep_error(run, &node.name, &error)?;
                return Ok(AfterNode::Ended(end));
            }
            failing => return lead_off(run, &account, &error, &result, &failing),
        }
    }
    Ok(AfterNode::Stopped)
}

/// One attempt at a node: the next node, or why it failed, and the result of its call.
fn attempt(
    run: &GraphRun,
    account: &mut Account<'_>,
    cancel: &Cancel,
) -> Result<Result<AfterNode, (String, Value)>, Error> {
    let node = account.node;
    let did = match prepare::has_variables(&run.services, &node.env_requires) {
        Ok(()) => does(run, node, cancel)?,
        Err(why) => Did::failed(why.to_string()),
    };
    let (put, result) = match did {
        Did::Returned { output } => {
            step_completed(run, account, None, None)?;
            return Ok(Ok(AfterNode::Returned(output)));
        }
        Did::Failed { error, result } => (Err(error), result),
        Did::Well { result } => {
            let set = assigned(run, node, &result);
            let put = set.and_then(|set| put(run, node, &set));
            (put.map_err(|why| why.to_string()), result)
        }
        Did::Each { set, error, told } => {
            account.told = Some(told);
            let put = put(run, node, &set).map_err(|why| why.to_string());
            (error.map_or(put, Err), Value::Null)
        }
    };
    account.thread = thread_of(&result);
    match put {
        Ok(()) => lead_on(run, account, &result).map(Ok),
        Err(error) => Ok(Err((error, result))),
    }
}

fn does(run: &GraphRun, node: &GraphNode, cancel: &Cancel) -> Result<Did, Error> {
    Ok(match &node.kind {
        NodeKind::Gate => Did::Well {
            result: Value::Null,
        },
        NodeKind::Return(output) => {
            let context = run.context(None)?;
            let output = output
                .as_ref()
                .map(|output| output.render(&context))
                .transpose();
            match output.and_then(|output| bounded(output.unwrap_or(Value::Null))) {
                Ok(output) => Did::Returned { output },
                Err(why) => Did::failed(why.to_string()),
            }
        }
        NodeKind::Action(action) => {
            let id = format!("{}.0", run.step_number());
            let site = Site {
                id: &id,
                action,
                cache: node.cache,
            };
            let outcome = call(run, &site, &run.context(None)?, cancel)?;
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
        NodeKind::Foreach(each) => foreach(run, each, node.cache, cancel)?,
    })
}

fn assigned(run: &GraphRun, node: &GraphNode, result: &Value) -> Result<Map<String, Value>, Error> {
    let context = run.context(Some(result))?;
    let assigned = node.assign.iter();
    assigned
        .map(|(name, tree)| Ok((name.clone(), tree.render(&context)?)))
        .collect()
}

/// Puts values into the state, if they fit.
fn put(run: &GraphRun, node: &GraphNode, set: &Map<String, Value>) -> Result<(), Error> {
    if set.is_empty() {
        return Ok(());
    }
    let mut record = run.record();
    let mut state = record.course().state.clone();
    state.extend(set.clone());
    bounded(Value::Object(state))?;
    let step = record.course().step;
    record.tell(
        "state_changed",
        &json!({"step": step, "node": node.name, "set": set}),
    )
}

/// Follows the first edge that holds.
fn lead_on(run: &GraphRun, account: &Account<'_>, result: &Value) -> Result<AfterNode, Error> {
    match edge(run, account.node, result) {
        Ok(next) => {
            step_completed(run, account, next.as_deref(), None)?;
            Ok(AfterNode::Next(next))
        }
        Err(why) => Ok(AfterNode::Ended(End::Failed(why.to_string()))),
    }
}

/// Puts why the node failed into the state, shortened.
fn keep_error(run: &GraphRun, node: &str, error: &str) -> Result<String, Error> {
    let kept = cut(error);
    let set = json!({"step": run.step_number(), "node": node,
                     "set": {"_last_error": {"node": node, "error": kept}}});
    run.record().tell("state_changed", &set)?;
    Ok(kept)
}

/// Where a failed node leads: as a hook decided, else along its edge for failures, or along the
/// others, or nowhere.
fn lead_off(
    run: &GraphRun,
    account: &Account<'_>,
    error: &str,
    result: &Value,
    failing: &Failing,
) -> Result<AfterNode, Error> {
    let node = account.node;
    let kept = keep_error(run, &node.name, error)?;
    let failure = |passed_over| Failure {
        error: &kept,
        passed_over,
    };
    let passed_over = !matches!(failing, Failing::LeaveOut);
    let goes_on = !matches!(failing, Failing::AsDeclared);
    if let Some(edge) = node.on_error.as_ref().filter(|_| !goes_on) {
        step_completed(run, account, Some(&edge.to), Some(failure(false)))?;
        return Ok(AfterNode::Next(Some(edge.to.clone())));
    }
    if !goes_on && run.plan.subject.on_error == OnError::Fail {
        return Ok(AfterNode::Ended(End::Failed(kept)));
    }
    match edge(run, node, result) {
        Ok(next) => {
            step_completed(run, account, next.as_deref(), Some(failure(passed_over)))?;
            Ok(AfterNode::Next(next))
        }
        Err(why) => Ok(AfterNode::Ended(End::Failed(why.to_string()))),
    }
}

/// The node that follows; None where the graph is complete.
fn edge(run: &GraphRun, node: &GraphNode, result: &Value) -> Result<Option<String>, Error> {
    let context = run.context(Some(result))?;
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

fn action_of(run: &GraphRun, node: &GraphNode) -> Option<String> {
    let item = &node.action()?.item_id;
    let context = run.context(None).ok()?;
    item.render_text(&context).ok()
}

fn step_started(run: &GraphRun, account: &Account<'_>) -> Result<(), Error> {
    let node = account.node;
    let mut record = run.record();
    let number = record.course().step + 1;
    let mut event = json!({"step": number, "node": node.name, "node_type": node.type_name()});
    if let Some(action) = &account.action {
        event["action_id"] = action.as_str().into();
    }
    record.step(&event)
}

fn step_completed(
    run: &GraphRun,
    account: &Account<'_>,
    next: Option<&str>,
    failure: Option<Failure<'_>>,
) -> Result<(), Error> {
    let elapsed = run
        .services
        .host
        .clock
        .elapsed()
        .saturating_sub(account.began);
    let (step, node) = (run.step_number(), &account.node.name);
    let mut record = run.record();
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

#[derive(Clone, Copy)]
struct Failure<'a> {
    error: &'a str,
    /// The graph continues as if it had not.
    passed_over: bool,
}
