//! Hooks: declared reactions to events, and their decisions.
//!
//! ```text
//! event, context ─► hooks of that event, lower layers first ─► condition ─► actions, in order
//!     tool, directive     intent durable ─► run ─► result    hook_call_start, hook_call_result
//!     knowledge           verified, bounded, returned as     for the conversation
//!                         blocks
//!     …/internal/control  a decision, as the table permits   hook_decided; later hooks not asked
//!     …/internal/emitter  an event of the hook's own         hook_event
//! ```
//! Hooks of the infrastructure always run, and decide nothing. A hook that fails leaves
//! `hook_failed` in the record and has no other effect, unless it was to decide. Then the table of
//! decisions on failure applies. Which decision is permitted where: [`crate::hook_control`].
//!
//! Seed 001, "Example: Hook-Driven Summary on Handoff"; seed 000 §9.

mod callees;

pub(crate) use callees::Callees;
pub(super) use callees::ThreadCallees;

use super::block::Block;
use super::record_writer::{RecordWriter, WriteHandle};
use crate::bounds::MAX_RECORDED_TEXT_BYTES;
use crate::config::hooks::{
    self as config, BUILTIN_LAYER, DIRECTIVE_LAYER, INFRA_LAYER, PROJECT_LAYER,
};
use crate::hook_control::{CONTROL, Control, EMITTER, Scope, decided};
use crate::hook_declaration::{Action, HookDeclaration, Primary};
use crate::item::{ItemId, ItemKind};
use crate::journal::{HookCall, Journal};
use crate::secrets::{self, Secrets};
use crate::toolbox::{Cancel, Invocation, Outcome, Tool};
use serde_json::{Value, json};
use threadseal_core::error::Error;
use threadseal_store::clock::Clock;
use threadseal_store::ledger::OpenStep;

/// The events at which a thread or a graph run is about to end.
const END_EVENTS: [&str; 5] = [
    "limit",
    "after_complete",
    "graph_completed",
    "graph_error",
    "graph_cancelled",
];

/// The hooks of one thread or graph, in the order in which they are asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hooks(Vec<Bound>);

#[derive(Debug, Clone)]
struct Bound {
    hook: HookDeclaration,
    layer: u64,
    scope: Scope,
}

/// The result of the hooks of one event.
#[derive(Debug, Default)]
pub(crate) struct Fired {
    pub(crate) decision: Option<Decision>,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Decision {
    pub(crate) control: Control,
    pub(crate) hook: String,
    /// Its further parameters.
    pub(crate) params: Value,
}

impl Decision {
    /// Its reason in words, else `otherwise`.
    pub(crate) fn said(&self, otherwise: &str) -> String {
        let word = |name: &str| self.params[name].as_str().filter(|text| !text.is_empty());
        let word = word("error")
            .or_else(|| word("message"))
            .or_else(|| word("reason"));
        word.unwrap_or(otherwise).to_owned()
    }
}

/// A record in which hooks leave their events.
pub(crate) trait HookRecord {
    /// The number of the next call, from 1; each is given once.
    fn next_hook_call(&mut self) -> u64;

    /// The turn of the record.
    fn turn(&mut self) -> u64;

    /// Appends an event.
    ///
    /// # Errors
    /// When it cannot be recorded.
    fn note(&mut self, event_type: &str, payload: &Value) -> Result<(), Error>;

    /// Records the intent of a call, durably.
    ///
    /// # Errors
    /// When it cannot be recorded: the call must not start then.
    fn hook_begins(&mut self, call: &HookCall) -> Result<OpenStep, Error>;

    /// Records its result.
    ///
    /// # Errors
    /// When it cannot be recorded.
    fn hook_ended(
        &mut self,
        step: OpenStep,
        call: &HookCall,
        outcome: &Outcome,
        millis: u64,
    ) -> Result<(), Error>;

    /// Runs a tool whose call is recorded, and writes the events that it requests meanwhile.
    fn run(&mut self, tool: &dyn Tool, key: &str, input: &Value, cancel: &Cancel) -> Outcome;
}

/// The record of a thread, for its hooks.
pub(crate) struct ThreadHookRecord<'a> {
    pub(crate) journal: &'a mut Journal,
    pub(crate) writer: &'a RecordWriter,
}

impl HookRecord for ThreadHookRecord<'_> {
    fn next_hook_call(&mut self) -> u64 {
        self.journal.next_hook_call()
    }

    fn turn(&mut self) -> u64 {
        self.journal.turn()
    }

    fn note(&mut self, event_type: &str, payload: &Value) -> Result<(), Error> {
        self.journal.event(event_type, payload)
    }

    fn hook_begins(&mut self, call: &HookCall) -> Result<OpenStep, Error> {
        self.journal.hook_begins(call)
    }

    fn hook_ended(
        &mut self,
        step: OpenStep,
        call: &HookCall,
        outcome: &Outcome,
        millis: u64,
    ) -> Result<(), Error> {
        self.journal.hook_ended(step, call, outcome, millis)
    }

    fn run(&mut self, tool: &dyn Tool, key: &str, input: &Value, cancel: &Cancel) -> Outcome {
        let run = |_, handle: &mut WriteHandle| {
            let outcome = tool.run(&mut Invocation {
                idempotency_key: key,
                input,
                cancel,
                record: handle,
            });
            (outcome, 0)
        };
        let ran = self.writer.run(self.journal, 1, &run).pop();
        ran.map_or_else(|| Outcome::failed("it did not end"), |(outcome, _)| outcome)
    }
}

/// The hooks of a thread or graph that runs, and the parts that they need.
pub(crate) struct HookRunner<'a> {
    pub(crate) hooks: &'a Hooks,
    pub(crate) callees: &'a dyn Callees,
    pub(crate) scope: Scope,
    /// Names the thread: part of each call's idempotency key.
    pub(crate) thread: &'a str,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) cancel: &'a Cancel,
    /// Stops the calls of hooks of its end.
    pub(crate) end: &'a Cancel,
    /// The values that its record does not repeat.
    pub(crate) secrets: &'a Secrets,
    /// The members of every context: `thread_id`, `directive`, `inputs`, …
    pub(crate) facts: Value,
}

impl Hooks {
    /// Those of a directive or graph, and of the configuration.
    pub(crate) fn new(config: &config::Hooks, own: &[HookDeclaration], scope: Scope) -> Self {
        let lists = [
            (&config.own[..], PROJECT_LAYER, Scope::Shared),
            (own, DIRECTIVE_LAYER, scope),
            (&config.builtin[..], BUILTIN_LAYER, Scope::Shared),
            (&config.context[..], BUILTIN_LAYER, Scope::Shared),
            (&config.infra[..], INFRA_LAYER, Scope::Infra),
        ];
        let mut bound: Vec<Bound> = Vec::new();
        for (hooks, layer, scope) in lists {
            bound.extend(hooks.iter().map(|hook| Bound {
                hook: hook.clone(),
                layer: hook.layer.unwrap_or(layer),
                scope,
            }));
        }
        // Within a layer in the order of declaration; the infrastructure's last, regardless of
        // their own layers.
        bound.sort_by_key(|bound| (bound.scope == Scope::Infra, bound.layer));
        Self(bound)
    }

    pub(crate) fn at(&self, event: &str) -> impl Iterator<Item = &HookDeclaration> {
        let hooks = self.0.iter().map(|bound| &bound.hook);
        hooks.filter(move |hook| hook.event == event)
    }
}

impl HookRunner<'_> {
    /// Asks the hooks of `event`. `more` are the members of its context beside the facts.
    ///
    /// # Errors
    /// When nothing can be recorded any more; the fault of a hook is recorded and no error.
    pub(crate) fn fire(
        &self,
        event: &str,
        more: &Value,
        record: &mut dyn HookRecord,
    ) -> Result<Fired, Error> {
        let mut fired = Fired::default();
        let asked = self
            .hooks
            .0
            .iter()
            .filter(|bound| bound.hook.event == event);
        for bound in asked {
            if fired.decision.is_some() && bound.scope != Scope::Infra {
                continue;
            }
            if let Err(why) = self.ask(bound, more, record, &mut fired)? {
                let note = json!({"hook": bound.hook.id, "event": event, "error": why});
                record.note("hook_failed", &note)?;
                if fired.decision.is_none() {
                    fired.decision = self.failed(bound, &why);
                    if let Some(decision) = &fired.decision {
                        let note = json!({"hook": decision.hook, "event": event,
                                          "action": decision.control.as_str(), "params": decision.params});
                        record.note("hook_decided", &note)?;
                    }
                }
            }
        }
        Ok(fired)
    }

    /// The signal that stops the calls of hooks of this event.
    fn signal(&self, event: &str) -> &Cancel {
        match END_EVENTS.contains(&event) {
            true => self.end,
            false => self.cancel,
        }
    }

    /// The decision that follows when a hook fails that was to decide. One that was stopped with
    /// its thread decides nothing: the thread ends as it was stopped.
    fn failed(&self, bound: &Bound, why: &str) -> Option<Decision> {
        if self.signal(&bound.hook.event).is_set() {
            return None;
        }
        let decides = |action: &Action| action.item_id.render_text(&Value::Null).ok();
        let decides = bound
            .hook
            .actions
            .iter()
            .any(|action| decides(action).as_deref() == Some(CONTROL));
        let decides = decides && bound.scope != Scope::Infra;
        let control = on_failure(&bound.hook.event).filter(|_| decides)?;
        Some(Decision {
            control,
            hook: bound.hook.id.clone(),
            params: json!({"error": format!("hook {} failed: {why}", bound.hook.id)}),
        })
    }

    /// Runs the actions of one hook whose condition holds. The inner error is the hook's.
    fn ask(
        &self,
        bound: &Bound,
        more: &Value,
        record: &mut dyn HookRecord,
        fired: &mut Fired,
    ) -> Result<Result<(), String>, Error> {
        let mut context = self.context(&bound.hook.event, more);
        if let Some(condition) = &bound.hook.condition {
            match condition.eval(&context) {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error.to_string())),
            }
        }
        for action in &bound.hook.actions {
            let rendered = match Rendered::of(action, &context) {
                Ok(rendered) => rendered,
                Err(error) => return Ok(Err(error.to_string())),
            };
            match self.act(bound, &rendered, record, fired)? {
                Ok(result) => context["result"] = result,
                Err(why) => return Ok(Err(why)),
            }
            if fired.decision.is_some() && bound.scope != Scope::Infra {
                break;
            }
        }
        Ok(Ok(()))
    }

    fn context(&self, event: &str, more: &Value) -> Value {
        let mut context = self.facts.clone();
        if let (Value::Object(context), Value::Object(more)) = (&mut context, more) {
            context.extend(more.clone());
            // Rye's own hooks read both.
            context.insert("event".to_owned(), Value::Object(more.clone()));
            context.insert("event_type".to_owned(), event.into());
        }
        context
    }

    fn act(
        &self,
        bound: &Bound,
        action: &Rendered,
        record: &mut dyn HookRecord,
        fired: &mut Fired,
    ) -> Result<Result<Value, String>, Error> {
        let hook = &bound.hook;
        match action.item_id.as_str() {
            CONTROL => {
                let control = match self.decision(bound, action) {
                    Ok(control) => control,
                    Err(why) => return Ok(Err(why)),
                };
                let note = json!({"hook": hook.id, "event": hook.event, "action": control.as_str(),
                                  "params": action.params});
                if let Err(why) = recordable(&note) {
                    return Ok(Err(why));
                }
                record.note("hook_decided", &note)?;
                fired.decision = Some(Decision {
                    control,
                    hook: hook.id.clone(),
                    params: action.params.clone(),
                });
                Ok(Ok(Value::Null))
            }
            EMITTER => {
                let note = json!({"hook": hook.id, "event": hook.event,
                                  "event_type": action.params["event_type"],
                                  "payload": action.params["payload"]});
                if let Err(why) = recordable(&note) {
                    return Ok(Err(why));
                }
                record.note("hook_event", &note)?;
                Ok(Ok(Value::Null))
            }
            _ => self.call(hook, action, record, fired),
        }
    }

    /// A decision must be permitted to the declarer of the hook, and at this event.
    fn decision(&self, bound: &Bound, action: &Rendered) -> Result<Control, String> {
        if action.primary != Primary::Execute || action.kind != ItemKind::Tool {
            return Err("a decision is {primary: execute, item_type: tool}".to_owned());
        }
        decided(&action.params, &bound.hook.event, bound.scope)?;
        decided(&action.params, &bound.hook.event, self.scope)
    }

    /// Calls an item, recorded before and after.
    fn call(
        &self,
        hook: &HookDeclaration,
        action: &Rendered,
        record: &mut dyn HookRecord,
        fired: &mut Fired,
    ) -> Result<Result<Value, String>, Error> {
        let number = record.next_hook_call();
        let call = HookCall {
            id: format!("hook_{number}"),
            key: format!("{}/hook/{number}", self.thread),
            hook: hook.id.clone(),
            event: hook.event.clone(),
            primary: action.primary.as_str(),
            item_type: action.kind.as_str(),
            item_id: action.item_id.clone(),
            input: action.params.clone(),
        };
        if let Err(why) = recordable(&call.input) {
            return Ok(Err(why));
        }
        let step = record.hook_begins(&call)?;
        let began = self.clock.elapsed();
        let mut outcome = self.outcome(hook, action, &call, record, fired);
        let replaced = outcome.mask(self.secrets);
        let outcome = outcome.bounded(MAX_RECORDED_TEXT_BYTES);
        let millis = self.clock.elapsed().saturating_sub(began).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        record.hook_ended(step, &call, &outcome, millis)?;
        if replaced > 0 {
            let (kind, payload) = secrets::event(replaced, "hook", record.turn());
            record.note(kind, &payload)?;
        }
        Ok(match outcome.error {
            None => Ok(outcome.output),
            Some(why) => Err(why),
        })
    }

    fn outcome(
        &self,
        hook: &HookDeclaration,
        action: &Rendered,
        call: &HookCall,
        record: &mut dyn HookRecord,
        fired: &mut Fired,
    ) -> Outcome {
        let id = || ItemId::parse(&action.item_id).map_err(|error| error.to_string());
        let found = match (action.primary, action.kind) {
            (Primary::Execute, ItemKind::Knowledge) => {
                return match id().and_then(|id| self.callees.knowledge(&id, action.chosen)) {
                    Ok(block) => add(fired, hook, action, block),
                    Err(why) => Outcome::failed(why),
                };
            }
            (Primary::Execute, ItemKind::Directive) => {
                id().and_then(|id| self.callees.directive(&id, &action.params))
            }
            (Primary::Execute, _) => {
                let tool = id().and_then(|id| self.callees.tool(&id));
                tool.map(|tool| (tool, action.params.clone()))
            }
            (primary, kind) => self
                .callees
                .primary(primary, kind, &action.item_id, &action.params),
        };
        match found {
            Ok((tool, input)) => record.run(&*tool, &call.key, &input, self.signal(&hook.event)),
            Err(why) => Outcome::failed(why),
        }
    }
}

/// Passes knowledge on to the conversation; the record gets its digest, and its text with the
/// message that contains it.
fn add(fired: &mut Fired, hook: &HookDeclaration, action: &Rendered, mut block: Block) -> Outcome {
    block.position = hook.position;
    // Knowledge that a value chose is always wrapped in an element with its name.
    block.wrap = hook.wrap || action.chosen;
    let output = json!({"id": block.id, "sha256": block.sha256, "bytes": block.content.len()});
    fired.blocks.push(block);
    Outcome::ok(output)
}

/// An action with its values inserted.
struct Rendered {
    primary: Primary,
    kind: ItemKind,
    item_id: String,
    params: Value,
    /// Is a value part of the id?
    chosen: bool,
}

impl Rendered {
    fn of(action: &Action, context: &Value) -> Result<Self, Error> {
        Ok(Self {
            primary: action.primary,
            kind: action.item_type,
            item_id: action.item_id.render_text(context)?,
            params: action.params.render(context)?,
            chosen: !action.item_id.is_plain(),
        })
    }
}

/// The decision when a hook fails that was to decide: a guard that breaks must not let everything
/// pass. Events without an entry are safe: so is their default without hooks.
fn on_failure(event: &str) -> Option<Control> {
    match event {
        "thread_started" | "thread_continued" | "directive_return" | "graph_started" => {
            Some(Control::Fail)
        }
        "after_step" => Some(Control::Suspend),
        _ => None,
    }
}

fn recordable(value: &Value) -> Result<(), String> {
    match value.to_string().len() <= MAX_RECORDED_TEXT_BYTES {
        true => Ok(()),
        false => Err(format!(
            "more than {MAX_RECORDED_TEXT_BYTES} bytes, which no record takes"
        )),
    }
}

#[cfg(test)]
mod tests;
