//! One call of a node: permission, intent, result.
//!
//! ```text
//! item and parameters rendered ─► permitted? ─► intent durable ─► runs ─► result recorded
//! ```
//! A call that an earlier run completed is not repeated: its result is taken. A call that may have
//! run follows a person's decision. Where the node is declared idempotent, it is repeated under the
//! same key. The new run records all of this before its first step, so that its own successor knows
//! it, too.

use super::super::services::{Notice, Services};
use super::run::GraphRun;
use crate::bounds::MAX_RECORDED_TEXT_BYTES;
use crate::capability::Call;
use crate::graph_journal::{GraphJournal, result};
use crate::hook_declaration::{Action, Primary};
use crate::item::{ItemId, ItemKind};
use crate::knowledge;
use crate::model::ToolCall;
use crate::secrets;
use crate::toolbox::{Cancel, Invocation, Outcome, Parentage, Tool};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::fold::folded;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::ledger::Parent;

/// The settlements for calls of the step that the earlier run left, by the calls' ids.
pub(super) type Settled = BTreeMap<String, Settlement>;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Settlement {
    /// It was made, with this result, in that run.
    Known {
        item: String,
        outcome: Outcome,
        from: String,
    },
    /// It may have been made: it counts as made, without a result.
    Skip { item: String, key: String },
    /// It may have been made: it counts as failed.
    Fail { item: String, key: String },
    /// It may have been made: it is made again under this key.
    Repeat { item: String, key: String },
}

impl Settlement {
    /// The event that a successor records about it, before its first step.
    pub(super) fn event(&self, id: &str) -> (&'static str, Value) {
        let (item, key, how) = match self {
            Self::Known {
                item,
                outcome,
                from,
            } => {
                let mut payload = result(id, outcome);
                payload["item_id"] = item.as_str().into();
                payload["from"] = from.as_str().into();
                return ("tool_call_reused", payload);
            }
            Self::Skip { item, key } => (item, key, "skipped"),
            Self::Fail { item, key } => (item, key, "failed"),
            Self::Repeat { item, key } => (item, key, "repeated"),
        };
        let payload = json!({"call_id": id, "item_id": item, "idempotency_key": key, "as": how});
        ("tool_call_settled", payload)
    }
}

/// The resolved target of a call.
struct Meant {
    id: ItemId,
    input: Value,
    primary: Primary,
    kind: ItemKind,
}

impl Meant {
    /// The call without its place. Members in another order make another call.
    fn name(&self) -> String {
        let (primary, kind) = (self.primary.as_str(), self.kind.as_str());
        json!([primary, kind, self.id.as_str(), self.input]).to_string()
    }
}

/// The record of a run, for children that calls on several threads start.
struct Shared<'a>(&'a GraphRun);

/// Where a call belongs.
pub(super) struct Site<'a> {
    /// `<step>.<place>`.
    pub(super) id: &'a str,
    pub(super) action: &'a Action,
    /// Whether the result of an earlier call of this run with the same item and input is enough.
    pub(super) cache: bool,
}

/// Makes a call of a node.
///
/// # Errors
/// When it cannot be recorded: the run must not continue.
pub(super) fn call(
    run: &GraphRun,
    site: &Site<'_>,
    context: &Value,
    cancel: &Cancel,
) -> Result<Outcome, Error> {
    let id = site.id;
    if let Some(made) = made(run, id) {
        return Ok(made);
    }
    let before = run.keys.get(id).cloned();
    let key = before.unwrap_or_else(|| format!("{}/{id}", run.id));
    let meant = match meant(run, site.action, context) {
        Ok(meant) => meant,
        Err(why) => return Ok(Outcome::failed(why.to_string())),
    };
    let kept = site.cache.then(|| meant.name());
    if let Some(known) = kept.as_ref().and_then(|call| run.kept().get(call).cloned()) {
        return reused(run, id, &meant, known);
    }
    let call = ToolCall {
        id: id.to_owned(),
        name: meant.id.as_str().to_owned(),
        input: meant.input.clone(),
        signatures: Vec::new(),
    };
    let step = run.record().intend(&call, meant.id.as_str(), &key)?;
    let clock = &run.services.host.clock;
    let began = clock.elapsed();
    let mut outcome = perform(run, &meant, &key, cancel);
    let replaced = outcome.mask(&run.services.secrets);
    let outcome = said(outcome).bounded(MAX_RECORDED_TEXT_BYTES);
    let millis = clock.elapsed().saturating_sub(began).as_millis();
    let millis = u64::try_from(millis).unwrap_or(u64::MAX);
    let mut record = run.record();
    record.done(step, &call, &outcome, millis)?;
    if replaced > 0 {
        let (kind, payload) = secrets::event(replaced, "tool", record.journal().turn());
        record.tell(kind, &payload)?;
    }
    let outcome = known(&record, id);
    drop(record);
    if let Some(call) = kept {
        run.kept().keep(call, &outcome);
    }
    Ok(outcome)
}

/// Records that the result of an earlier call of this run is taken.
fn reused(run: &GraphRun, id: &str, meant: &Meant, outcome: Outcome) -> Result<Outcome, Error> {
    let known = Settlement::Known {
        item: meant.id.as_str().to_owned(),
        outcome: outcome.clone(),
        from: run.id.as_str().to_owned(),
    };
    let (kind, payload) = known.event(id);
    run.record().tell(kind, &payload)?;
    Ok(outcome)
}

/// The result of a call that an earlier attempt or run made, or that was given up: it is not
/// made again.
pub(super) fn made(run: &GraphRun, id: &str) -> Option<Outcome> {
    let record = run.record();
    let course = record.course();
    let known = course.known(id)?;
    let stays = known.outcome.error.is_none() || course.given_up(id).is_some();
    stays.then(|| known.outcome.clone())
}

/// The current target of the action, if the run may call it.
fn meant(run: &GraphRun, action: &Action, context: &Value) -> Result<Meant, Error> {
    let id = ItemId::parse(&action.item_id.render_text(context)?)?;
    let (primary, kind) = (action.primary, action.item_type);
    let named = Some(id.as_str()).filter(|_| primary != Primary::Search);
    let call = Call::new(primary.as_str(), kind.as_str(), named)?;
    if !run.plan.tools.capabilities().permits(&call) {
        return Err(Error::refused(format!(
            "no leave: the run's capabilities do not hold {call}"
        )));
    }
    let input = action.params.render(context)?;
    Ok(Meant {
        id,
        input,
        primary,
        kind,
    })
}

fn perform(run: &GraphRun, meant: &Meant, key: &str, cancel: &Cancel) -> Outcome {
    let done = match (meant.primary, meant.kind) {
        (Primary::Execute, ItemKind::Tool) => {
            tool(run, &meant.id).map(|tool| run_tool(run, &*tool, &meant.input, key, cancel))
        }
        (Primary::Execute, ItemKind::Directive) => {
            let input = json!({"directive_id": meant.id.as_str(), "inputs": meant.input});
            Ok(run_tool(run, &*run.child_tool, &input, key, cancel))
        }
        (Primary::Execute | Primary::Load, kind) => load(run, kind, &meant.id),
        (Primary::Search, kind) => search(&run.services, kind, &meant.input),
        (Primary::Sign, kind) => sign(run, kind, meant, key, cancel),
    };
    done.unwrap_or_else(|error| Outcome::failed(error.to_string()))
}

/// The tool with this id.
fn tool(run: &GraphRun, id: &ItemId) -> Result<Arc<dyn Tool>, Error> {
    let call = ToolCall {
        id: String::new(),
        name: id.as_str().to_owned(),
        input: Value::Null,
        signatures: Vec::new(),
    };
    let found = run.plan.tools.find(&call).ok().map(|found| found.tool);
    let found = found.filter(|tool| tool.id() == id.as_str());
    found.ok_or_else(|| Error::refused(format!("no tool {id}, or no leave to use it")))
}

pub(super) fn run_tool(
    run: &GraphRun,
    tool: &dyn Tool,
    input: &Value,
    key: &str,
    cancel: &Cancel,
) -> Outcome {
    tool.run(&mut Invocation {
        idempotency_key: key,
        input,
        cancel,
        record: &mut Shared(run),
    })
}

/// Signs an item, as a model of a thread does it.
fn sign(
    run: &GraphRun,
    kind: ItemKind,
    meant: &Meant,
    key: &str,
    cancel: &Cancel,
) -> Result<Outcome, Error> {
    let tool = run.plan.tools.primary(Primary::Sign);
    let tool = tool.ok_or_else(|| Error::refused("no leave to sign"))?;
    let mut input = meant.input.clone();
    input["item_type"] = kind.as_str().into();
    input["item_id"] = meant.id.as_str().into();
    Ok(run_tool(run, &*tool, &input, key, cancel))
}

/// The text of an item that verifies.
fn load(run: &GraphRun, kind: ItemKind, id: &ItemId) -> Result<Outcome, Error> {
    let item = run
        .services
        .finder
        .load(kind, id, &run.services.grounds()?)?;
    let used = serde_json::to_value(item.used());
    let used = used.map_err(|error| Error::invalid(error.to_string()))?;
    run.record().tell("item_used", &used)?;
    let sha256 = item.sha256().to_hex();
    Ok(Outcome::ok(
        json!({"success": true, "item_id": id.as_str(), "content": item.text(), "sha256": sha256}),
    ))
}

/// Items that have all words of `query`: knowledge by its text, others by their ids.
fn search(services: &Services, kind: ItemKind, input: &Value) -> Result<Outcome, Error> {
    let query = input["query"].as_str();
    let query = query.ok_or_else(|| Error::invalid("query must be a text"))?;
    if kind == ItemKind::Knowledge {
        let found = knowledge::search(&services.host, &services.project, &services.trust, query)?;
        let hits = found.hits.iter();
        let hits = hits.map(|hit| {
            json!({"item_id": hit.id, "verdict": hit.verdict.as_str(), "line": hit.line, "snippet": hit.snippet})
        });
        return Ok(Outcome::ok(
            json!({"success": true, "results": hits.collect::<Vec<_>>()}),
        ));
    }
    let words: Vec<String> = query.split_whitespace().map(folded).collect();
    let ids = services.finder.ids(kind)?;
    let has = |id: &&ItemId| {
        let id = folded(id.as_str());
        words.iter().all(|word| id.contains(word.as_str()))
    };
    let found: Vec<Value> = ids
        .iter()
        .filter(has)
        .map(|id| json!({"item_id": id.as_str()}))
        .collect();
    Ok(Outcome::ok(json!({"success": true, "results": found})))
}

/// A result that reports its own failure is an error, as in Rye.
fn said(mut outcome: Outcome) -> Outcome {
    let output = &outcome.output;
    let failed = match &output["success"] {
        Value::Bool(success) => !success,
        _ => output["status"] == "error",
    };
    if outcome.error.is_none() && failed {
        let why = output["error"].as_str();
        let why = why.map_or_else(|| format!("it failed: {output}"), str::to_owned);
        outcome.error = Some(why);
    }
    outcome
}

/// The result of the call in the record.
fn known(record: &GraphJournal, id: &str) -> Outcome {
    let known = record.course().known(id).map(|known| known.outcome.clone());
    known.unwrap_or_else(|| Outcome::failed("the call has no result"))
}

impl Shared<'_> {
    fn with<T>(&self, work: impl FnOnce(&mut GraphJournal) -> T) -> T {
        work(&mut self.0.record())
    }
}

impl Parentage for Shared<'_> {
    fn child_begins(
        &mut self,
        child: &ThreadId,
        record: &RecordId,
        directive: &str,
    ) -> Result<Head, Error> {
        self.with(|journal| journal.child_begins(child, record, directive))
    }

    fn child_ended(&mut self, child: &ThreadId, status: &str, head: &Head) -> Result<(), Error> {
        self.with(|journal| journal.child_ended(child, status, head))
    }

    fn server_restarted(&mut self, server: &str, failures: usize, why: &str) -> Result<(), Error> {
        self.with(|journal| journal.server_restarted(server, failures, why))?;
        let notice = Notice::ServerRestarted(server, failures, why);
        self.0.services.announce(&self.0.id, notice);
        Ok(())
    }

    fn ledger(&self) -> Result<Parent, Error> {
        self.with(|journal| journal.ledger())
    }
}
