//! Hooks of a run: those of its graph and of the configuration, asked at the graph's events.
//!
//! | event | when | members beside the facts |
//! |---|---|---|
//! | `graph_started` | before the first step | |
//! | `after_step` | a step is sealed, and another one follows | `node`, `next_node` |
//! | `error` | a node failed | `node`, `error.message`, `attempt` |
//! | `limit` | a limit is hit | `limit_code`, `current_value`, `current_max` |
//! | `graph_completed`, `graph_error`, `graph_cancelled` | before the event of that name | `status`, `outputs`, `error` |

use super::super::hooks::{Decision, HookRecord, HookRunner, ThreadCallees};
use super::call::run_tool;
use super::outcome::Failing;
use super::run::{End, GraphRun};
use crate::bounds::MAX_NODE_RETRIES;
use crate::hook_control::{Control, Scope};
use crate::journal::HookCall;
use crate::limit::LimitHit;
use crate::toolbox::{Cancel, Outcome, Tool};
use serde_json::{Value, json};
use threadseal_core::error::Error;
use threadseal_store::ledger::OpenStep;

/// The record of a run, for its hooks.
struct GraphHookRecord<'a>(&'a GraphRun);

/// Asks the hooks of an event.
///
/// # Errors
/// When nothing can be recorded any more.
pub(super) fn fire(
    run: &GraphRun,
    event: &str,
    mut more: Value,
    cancel: &Cancel,
) -> Result<Option<Decision>, Error> {
    if run.plan.hooks.at(event).next().is_none() {
        return Ok(None);
    }
    let mut facts = run.context(None)?;
    let (id, graph) = (run.id.as_str(), run.plan.item.as_str());
    for (name, value) in [
        ("thread_id", id),
        ("graph_run_id", id),
        ("directive", graph),
        ("graph_id", graph),
    ] {
        facts[name] = value.into();
    }
    facts["limits"] = run.plan.limits.to_json();
    more["cost"] = run.cost().to_json();
    more["step"] = run.step_number().into();
    let hook_runner = HookRunner {
        hooks: &run.plan.hooks,
        callees: &ThreadCallees {
            services: &run.services,
            tools: &run.plan.tools,
            child: &run.child_tool,
        },
        scope: Scope::Graph,
        thread: id,
        clock: &*run.services.host.clock,
        cancel,
        end: &run.end,
        secrets: &run.services.secrets,
        facts,
    };
    let fired = hook_runner.fire(event, &more, &mut GraphHookRecord(run))?;
    Ok(fired.decision)
}

/// The decision of hooks about a node that failed.
///
/// # Errors
/// As [`fire`].
pub(super) fn at_error(
    run: &GraphRun,
    node: &str,
    error: &str,
    attempt: u64,
    cancel: &Cancel,
) -> Result<Failing, Error> {
    let more = json!({"node": node, "error": {"message": error}, "attempt": attempt});
    let Some(decision) = fire(run, "error", more, cancel)? else {
        return Ok(Failing::AsDeclared);
    };
    Ok(match decision.control {
        Control::Retry if attempt <= MAX_NODE_RETRIES => Failing::Again,
        Control::Retry => Failing::AsDeclared,
        Control::Continue => Failing::PassOver,
        Control::Skip => Failing::LeaveOut,
        Control::Fail => Failing::End(End::Failed(decision.said(error))),
        Control::Abort => Failing::End(End::Cancelled),
        Control::Escalate | Control::Suspend => {
            let why = decision.said(error);
            Failing::End(End::Suspended {
                reason: "error",
                why,
                hit: None,
                escalates: decision.control == Control::Escalate,
            })
        }
    })
}

/// How a run ends at a limit.
///
/// # Errors
/// As [`fire`].
pub(super) fn at_limit(
    run: &GraphRun,
    hit: LimitHit,
    output: Value,
    cancel: &Cancel,
) -> Result<End, Error> {
    let decision = fire(run, "limit", hit.to_json(), cancel)?;
    Ok(match decision {
        Some(decision) if decision.control == Control::Fail => {
            End::Failed(decision.said(&hit.to_string()))
        }
        Some(decision) if decision.control == Control::Abort => End::Cancelled,
        Some(decision) if decision.control == Control::Suspend => End::Suspended {
            reason: "limit",
            why: hit.to_string(),
            hit: Some(Box::new(hit)),
            escalates: false,
        },
        _ => End::LimitReached {
            hit: Box::new(hit),
            output,
        },
    })
}

/// How a decision at `graph_started` or `after_step` ends a run; None where it continues.
pub(super) fn ended_by(decision: Option<Decision>, event: &'static str) -> Option<End> {
    let decision = decision?;
    let why = decision.said(&format!("hook {} at {event}", decision.hook));
    match decision.control {
        Control::Fail => Some(End::Failed(why)),
        Control::Abort => Some(End::Cancelled),
        Control::Escalate | Control::Suspend => Some(End::Suspended {
            reason: "hook",
            why,
            hit: None,
            escalates: decision.control == Control::Escalate,
        }),
        Control::Continue | Control::Retry | Control::Skip => None,
    }
}

impl HookRecord for GraphHookRecord<'_> {
    fn next_hook_call(&mut self) -> u64 {
        self.0.record().journal().next_hook_call()
    }

    fn turn(&mut self) -> u64 {
        self.0.record().journal().turn()
    }

    fn note(&mut self, event_type: &str, payload: &Value) -> Result<(), Error> {
        self.0.record().tell(event_type, payload)
    }

    fn hook_begins(&mut self, call: &HookCall) -> Result<OpenStep, Error> {
        self.0.record().journal().hook_begins(call)
    }

    fn hook_ended(
        &mut self,
        step: OpenStep,
        call: &HookCall,
        outcome: &Outcome,
        millis: u64,
    ) -> Result<(), Error> {
        self.0
            .record()
            .journal()
            .hook_ended(step, call, outcome, millis)
    }

    fn run(&mut self, tool: &dyn Tool, key: &str, input: &Value, cancel: &Cancel) -> Outcome {
        run_tool(self.0, tool, input, key, cancel)
    }
}
