//! [`Journal`]: the record that a thread writes, in its transcript and its step ledger together.
//!
//! ```text
//! begin     line 1, seal 0                                   ledger: genesis
//! ask       cognition_in                                     ledger: llm_call started
//! answered  cognition_reasoning?  cognition_out              ledger: llm_call completed | failed
//! intend    tool_call_start                                  ledger: tool_call started, durable
//! done      tool_call_result                                 ledger: tool_call completed | failed
//! hooks     hook_call_start; hook_call_result; …             ledger: hook_call started, durable; …
//! seal      checkpoint at the end of each turn
//! end       thread_completed | …{cost, ledger} and the final seal
//! ```
//! The transcript contains messages, calls and results. The ledger lists the steps, with digests in
//! place of contents. `ledger` in the terminal event is the last record's hash, so the final seal
//! covers the ledger too. Before a call starts, one sync makes its start durable in the ledger, which
//! is signed record by record; the transcript has it until power is lost. The other records
//! wait for the next start, or until their end is named. The ledger is the file `ledger_<record id>.jsonl` beside the transcript.

use crate::left_file::{LeftFile, Writing};
use crate::limit::Cost;
use crate::model::{Answer, Stop, ToolCall, Usage, sealed};
use crate::money::Nanos;
use crate::no_links::NoLinks;
use crate::project::ThreadFolder;
use crate::toolbox::{Outcome, Parentage};
use serde_json::{Value, json};
use std::cell::Cell;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::Signer;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::ledger::{ActorFingerprint, Effect, Genesis, Parent, RunId};
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::render::{Cover, Renderer};
use threadseal_formats::transcript::{Ending, Link};
use threadseal_store::host::Host;
use threadseal_store::ledger::{
    ActorSigners, HashChainedLedgerStore, JsonlLedgerStore, OpenStep, RunRecorder, Step, Tip,
};
use threadseal_store::recorder::{Keys, Recorder};

type Steps = RunRecorder<HashChainedLedgerStore<JsonlLedgerStore>>;

/// The record that a thread writes.
pub struct Journal {
    recorder: Recorder,
    steps: Steps,
    ledger: LeftFile,
    /// Where the ledger ended when it was asked last.
    tip: Cell<Tip>,
    turn: u64,
    hook_calls: u64,
    /// Heads of children that ended since the last seal.
    children: Vec<Head>,
    /// The events as readers see them: those written here, none read back.
    rendering: Renderer,
    /// When it began, in seconds since 1970.
    began: f64,
}

/// A call that is about to run.
#[derive(Debug, Clone, Copy)]
pub struct Intent<'a> {
    /// The call of the model.
    pub call: &'a ToolCall,
    /// The id of the tool.
    pub tool: &'a str,
    /// The same for all attempts at it.
    pub key: &'a str,
}

/// The facts about its thread in the ledger, before the first step.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The digest of the directive.
    pub directive_sha256: Option<Digest>,
    /// The digest of its inputs.
    pub inputs_sha256: Option<Digest>,
    /// The ledger of the thread that started this one.
    pub parent: Option<Parent>,
}

/// A call that a hook makes.
#[derive(Debug, Clone, PartialEq)]
pub struct HookCall {
    /// Names the call in its record.
    pub id: String,
    /// The same for all attempts at it.
    pub key: String,
    /// The hook.
    pub hook: String,
    /// Why it was asked.
    pub event: String,
    /// The operation: `execute`, …
    pub primary: &'static str,
    /// The kind of the item.
    pub item_type: &'static str,
    /// With which.
    pub item_id: String,
    /// Its input.
    pub input: Value,
}

/// The facts of a request that the step ledger keeps by their digest.
pub(crate) struct Requested<'a> {
    pub(crate) model: &'a str,
    /// The longest answer that was permitted, in tokens.
    pub(crate) max_output_tokens: u32,
    /// The money that was set aside for it.
    pub(crate) held: Nanos,
}

impl Requested<'_> {
    fn to_json(&self, turn: u64) -> Value {
        json!({"model": self.model, "turn": turn, "held": self.held.to_real(),
               "max_output_tokens": self.max_output_tokens})
    }
}

impl Journal {
    /// Begins both, durably. The folder exists already, without a transcript.
    ///
    /// # Errors
    /// As [`Recorder::create`] and [`RunRecorder::create`].
    pub fn begin(
        host: &Host,
        folder: &ThreadFolder,
        thread: ThreadId,
        manifest: Manifest,
        keys: Keys,
        origin: Origin,
    ) -> Result<Self, Error> {
        let run = run_of(&manifest)?;
        let native = Arc::clone(&keys.native);
        let agent = ActorFingerprint::for_key("agent", None, Vec::new(), native.public_key())
            .map_err(|why| Error::invalid(why.to_string()))?;
        let actor_id = agent.actor_id().to_owned();
        let began = host.clock.now()?.to_epoch_text();
        let began = began
            .parse()
            .map_err(|_| Error::invalid("the clock does not give a valid time"))?;
        let mut genesis = Genesis::new(host.new_record()?, host.clock.now()?);
        genesis.workflow_id.clone_from(&manifest.directive);
        genesis.workflow_sha256 = origin.directive_sha256;
        genesis.inputs_sha256 = origin.inputs_sha256;
        genesis.parent = origin.parent;
        genesis.actors.add(agent)?;
        let recorder = Recorder::create(
            NoLinks::host(host),
            &folder.transcript(),
            thread,
            manifest,
            keys,
        )?;
        let ledger = steps_in(host, folder, &actor_id, native)?;
        let file = LeftFile::appended(host, &folder.ledger(&run));
        let steps = {
            let _writing = file.writing();
            RunRecorder::create(ledger, host.clone(), run, Some(actor_id), None, &genesis)?
                .with_held_ends()
        };
        Ok(Self {
            recorder,
            tip: Cell::new(steps.tip()?),
            steps,
            ledger: file,
            turn: 0,
            hook_calls: 0,
            children: Vec::new(),
            rendering: Renderer::danger_new(),
            began,
        })
    }

    /// Continues both after another process, from its last seal. `recorder` was opened on the
    /// transcript of `folder`, and `lines` are its verified lines.
    ///
    /// # Errors
    /// As [`Journal::begin`].
    pub fn reopen<'l>(
        host: &Host,
        folder: &ThreadFolder,
        recorder: Recorder,
        keys: &Keys,
        lines: impl Iterator<Item = &'l [u8]>,
    ) -> Result<Self, Error> {
        let native = Arc::clone(&keys.native);
        let agent = ActorFingerprint::for_key("agent", None, Vec::new(), native.public_key())
            .map_err(|why| Error::invalid(why.to_string()))?;
        let actor_id = agent.actor_id().to_owned();
        let ledger = steps_in(host, folder, &actor_id, native)?;
        let run = run_of(recorder.state().manifest())?;
        let file = LeftFile::appended(host, &folder.ledger(&run));
        drop(file.writing());
        let mut rendering = Renderer::danger_new();
        let mut hook_calls = 0;
        for line in lines {
            rendering.push_line(line)?;
            let event: Value = serde_json::from_slice(line).unwrap_or_default();
            hook_calls += u64::from(event["event_type"] == "hook_call_start");
        }
        let began = host.clock.now()?.to_epoch_text();
        let steps = RunRecorder::resume(ledger, host.clone(), run, Some(actor_id), None);
        Ok(Self {
            turn: recorder.state().turn(),
            hook_calls,
            recorder,
            tip: Cell::new(steps.tip()?),
            steps: steps.with_held_ends(),
            ledger: file,
            children: Vec::new(),
            rendering,
            began: began
                .parse()
                .map_err(|_| Error::invalid("the clock does not give a valid time"))?,
        })
    }

    /// Appends an event of a type that is not reserved.
    ///
    /// # Errors
    /// As [`Recorder::append`].
    pub fn event(&mut self, event_type: &str, payload: &Value) -> Result<(), Error> {
        let line = Payload::parse(payload.to_string().as_bytes())?;
        self.recorder
            .append(&EventType::parse(event_type)?, &line)?;
        self.render(event_type, payload)
    }

    fn render(&mut self, event_type: &str, payload: &Value) -> Result<(), Error> {
        let line = json!({"timestamp": self.began, "event_type": event_type, "payload": payload});
        self.rendering.push_line(line.to_string().as_bytes())
    }

    /// The thread for readers, as far as it has come.
    pub fn entry(&self, cover: &Cover<'_>) -> String {
        self.rendering.finish(cover)
    }

    /// Records the next text for the model. The turn before is sealed first, so that no seal falls
    /// between a prompt and its answer.
    ///
    /// # Errors
    /// As [`Recorder::append`] and [`Recorder::seal`]; here and below.
    pub(crate) fn ask(
        &mut self,
        text: &str,
        role: &str,
        request: &Requested<'_>,
    ) -> Result<OpenStep, Error> {
        if self.turn > 0 {
            self.seal()?;
        }
        self.turn += 1;
        self.event("cognition_in", &json!({"text": text, "role": role}))?;
        let effect = effect("llm_call", &request.to_json(self.turn))?;
        self.steps
            .note_start(Step::new(format!("turn-{}", self.turn), Some(effect)))
    }

    /// Records that the same is asked again, after an error.
    ///
    /// # Errors
    /// As [`Journal::ask`].
    pub(crate) fn ask_again(
        &mut self,
        attempt: u64,
        request: &Requested<'_>,
    ) -> Result<OpenStep, Error> {
        let effect = effect("llm_call", &request.to_json(self.turn))?;
        let step = Step::new(format!("turn-{}", self.turn), Some(effect));
        self.steps().note_start(Step { attempt, ..step })
    }

    /// Records the answer.
    ///
    /// # Errors
    /// As [`Journal::ask`].
    pub fn answered(&mut self, step: OpenStep, answer: &Answer) -> Result<(), Error> {
        if let Some(reasoning) = &answer.reasoning {
            self.event("cognition_reasoning", &json!({"text": reasoning}))?;
        }
        let mut said =
            json!({"text": answer.text, "model": answer.model, "usage": tokens(&answer.usage)});
        if answer.stop == Stop::Truncated {
            said["truncated"] = true.into();
        }
        self.event("cognition_out", &said)?;
        let result = json!({"model": answer.model, "usage": tokens(&answer.usage),
                            "text_sha256": Digest::of(answer.text.as_bytes()).to_hex(),
                            "calls": answer.calls.len()});
        self.steps().succeed(step, Some(sealed(&result)?))
    }

    /// Records that there is no answer.
    ///
    /// # Errors
    /// As [`Journal::ask`].
    pub(crate) fn unanswered(&mut self, step: OpenStep, why: &str) -> Result<(), Error> {
        self.steps().fail(step, why)
    }

    /// Records the intent of a call, durably in the ledger: after a crash it is known that the call
    /// may have run. `key` is the same for all attempts at it.
    ///
    /// # Errors
    /// As [`Journal::ask`].
    pub(crate) fn intend(
        &mut self,
        call: &ToolCall,
        tool: &str,
        key: &str,
    ) -> Result<OpenStep, Error> {
        let intent = Intent { call, tool, key };
        self.intended(&intent)?;
        self.start(self.step_of(&intent)?)
    }

    /// Records the intents of calls that run at once, durable together before the first one starts.
    ///
    /// # Errors
    /// As [`Journal::ask`].
    pub(crate) fn intend_all(&mut self, intents: &[Intent<'_>]) -> Result<Vec<OpenStep>, Error> {
        for intent in intents {
            self.intended(intent)?;
        }
        let steps = intents.iter().map(|intent| self.step_of(intent));
        self.start_all(steps.collect::<Result<_, _>>()?)
    }

    /// The step ledger as this process leaves it.
    pub(crate) fn ledger_file(&self) -> LeftFile {
        self.ledger.clone()
    }

    /// The steps, while the file is known to be written by this process.
    fn steps(&self) -> Writing<'_, Steps> {
        self.ledger.writing_with(&self.steps)
    }

    fn start(&self, step: Step) -> Result<OpenStep, Error> {
        let started = self.start_all(vec![step])?.pop();
        started.ok_or_else(|| Error::refused("the ledger started no step"))
    }

    /// A start in a ledger that will not verify promises nothing.
    fn start_all(&self, started: Vec<Step>) -> Result<Vec<OpenStep>, Error> {
        if self.ledger.was_changed() {
            let text = "the step ledger was changed by another program: no call begins";
            return Err(Error::refused(text));
        }
        let steps = self.steps();
        let open = steps.start_all(started)?;
        self.tip.set(steps.tip()?);
        Ok(open)
    }

    fn intended(&mut self, intent: &Intent<'_>) -> Result<(), Error> {
        let call = intent.call;
        let mut start = json!({"tool": call.name, "call_id": call.id, "input": call.input,
                               "item_id": intent.tool, "idempotency_key": intent.key});
        if !call.signatures.is_empty() {
            start["signatures"] = call.signatures.clone().into();
        }
        self.event("tool_call_start", &start)
    }

    fn step_of(&self, intent: &Intent<'_>) -> Result<Step, Error> {
        let call = intent.call;
        let input = Digest::of(call.input.to_string().as_bytes()).to_hex();
        let payload = json!({"tool": intent.tool, "call_id": call.id, "input_sha256": input});
        Ok(Step {
            idempotency_key: Some(intent.key.to_owned()),
            ..Step::new(
                format!("turn-{}", self.turn),
                Some(effect("tool_call", &payload)?),
            )
        })
    }

    /// Records the result of a call.
    ///
    /// # Errors
    /// As [`Journal::ask`].
    pub fn done(
        &mut self,
        step: OpenStep,
        call: &ToolCall,
        outcome: &Outcome,
        millis: u64,
    ) -> Result<(), Error> {
        self.done_as(step, call, outcome, millis, json!({}))
    }

    /// As [`Journal::done`], with more members of the event.
    ///
    /// # Errors
    /// As [`Journal::ask`].
    pub(crate) fn done_as(
        &mut self,
        step: OpenStep,
        call: &ToolCall,
        outcome: &Outcome,
        millis: u64,
        more: Value,
    ) -> Result<(), Error> {
        let output = outcome.text();
        let mut result = json!({"call_id": call.id, "output": output, "duration_ms": millis});
        if let (Value::Object(result), Value::Object(more)) = (&mut result, more) {
            result.extend(more);
        }
        if let Some(error) = &outcome.error {
            result["error"] = error.as_str().into();
        }
        if outcome.unknown {
            result["unknown"] = true.into();
        }
        self.event("tool_call_result", &result)?;
        match &outcome.error {
            Some(error) => self.steps().fail(step, error),
            None => {
                let digest = Digest::of(output.as_bytes()).to_hex();
                let result = sealed(&json!({"output_sha256": digest}))?;
                self.steps().succeed(step, Some(result))
            }
        }
    }

    /// Seals everything so far.
    ///
    /// # Errors
    /// As [`Recorder::seal`].
    pub fn seal(&mut self) -> Result<Head, Error> {
        let ext = Ext {
            children: std::mem::take(&mut self.children),
            ..Ext::default()
        };
        self.recorder.seal(self.turn, ext)
    }

    /// Ends the thread: the terminal event names cost and ledger, the final seal covers both.
    ///
    /// # Errors
    /// As [`Recorder::end`].
    pub fn end(&mut self, ending: Ending, cost: &Cost, more: Value) -> Result<Head, Error> {
        if !self.children.is_empty() {
            self.seal()?;
        }
        let mut payload = json!({"cost": cost.to_json(), "ledger": self.ledger_tip()?});
        if let (Value::Object(payload), Value::Object(more)) = (&mut payload, more) {
            payload.extend(more);
        }
        if ending == Ending::Error {
            self.render("thread_error", &payload)?;
        }
        let payload = Payload::parse(payload.to_string().as_bytes())?;
        self.recorder.end(ending, &payload, self.turn)
    }

    /// Where the step ledger ends, durably: `run_id`, `count`, and `head`, the hash of its last
    /// record. Of one that another program changed, where this process left it.
    ///
    /// # Errors
    /// When the ledger cannot be read or synced.
    pub(crate) fn ledger_tip(&self) -> Result<Value, Error> {
        if !self.ledger.was_changed() {
            let steps = self.steps();
            steps.flush()?;
            self.tip.set(steps.tip()?);
        }
        let tip = self.tip.get();
        let hash = tip.hash.map(|hash| hash.to_hex());
        Ok(json!({"run_id": self.steps.run().as_str(), "count": tip.count, "head": hash}))
    }

    /// Begins the next turn: seals and steps from here on have its number. For runs that ask no
    /// model.
    pub(crate) fn next_turn(&mut self) {
        self.turn += 1;
    }

    /// Names the successor of this thread, in a sealed event.
    ///
    /// # Errors
    /// As [`Recorder::link`].
    pub fn link(&mut self, link: Link, payload: &Value, ext: Ext) -> Result<Head, Error> {
        let payload = Payload::parse(payload.to_string().as_bytes())?;
        self.recorder.link(link, &payload, ext)
    }

    /// The newest seal.
    pub fn head(&self) -> Option<&Head> {
        self.recorder.state().head()
    }

    /// The manifest of line 1.
    pub fn manifest(&self) -> &Manifest {
        self.recorder.state().manifest()
    }

    /// The thread that writes it.
    pub(crate) fn thread(&self) -> &ThreadId {
        self.recorder.state().thread()
    }

    /// Which turn it is, from 1; 0 before the first.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// The number of the next call of a hook, from 1; each is given once.
    pub(crate) fn next_hook_call(&mut self) -> u64 {
        self.hook_calls += 1;
        self.hook_calls
    }

    /// Records the intent of a hook's call, durably in the ledger.
    ///
    /// # Errors
    /// As [`Journal::ask`]: the call must not start then.
    pub(crate) fn hook_begins(&mut self, call: &HookCall) -> Result<OpenStep, Error> {
        let start = json!({"hook": call.hook, "event": call.event, "call_id": call.id,
                           "primary": call.primary, "item_type": call.item_type,
                           "item_id": call.item_id, "input": call.input,
                           "idempotency_key": call.key});
        self.event("hook_call_start", &start)?;
        let input = Digest::of(call.input.to_string().as_bytes()).to_hex();
        let payload = json!({"hook": call.hook, "primary": call.primary, "item_type": call.item_type,
                             "item_id": call.item_id, "input_sha256": input});
        let step = Step {
            idempotency_key: Some(call.key.clone()),
            ..Step::new(call.id.clone(), Some(effect("hook_call", &payload)?))
        };
        self.start(step)
    }

    /// Records the result of the call.
    ///
    /// # Errors
    /// As [`Journal::ask`].
    pub(crate) fn hook_ended(
        &mut self,
        step: OpenStep,
        call: &HookCall,
        outcome: &Outcome,
        millis: u64,
    ) -> Result<(), Error> {
        let output = outcome.text();
        let mut result = json!({"hook": call.hook, "call_id": call.id, "output": output,
                                "duration_ms": millis});
        if let Some(error) = &outcome.error {
            result["error"] = error.as_str().into();
        }
        if outcome.unknown {
            result["unknown"] = true.into();
        }
        self.event("hook_call_result", &result)?;
        match &outcome.error {
            Some(error) => self.steps().fail(step, error),
            None => {
                let digest = Digest::of(output.as_bytes()).to_hex();
                let result = sealed(&json!({"output_sha256": digest}))?;
                self.steps().succeed(step, Some(result))
            }
        }
    }
}

impl Parentage for Journal {
    fn child_begins(
        &mut self,
        child: &ThreadId,
        record: &RecordId,
        directive: &str,
    ) -> Result<Head, Error> {
        let event = json!({"child_thread_id": child.as_str(), "child_directive": directive,
                           "child_record": record.to_string(),
                           "parent_thread_id": self.recorder.state().thread().as_str()});
        self.event("child_thread_started", &event)?;
        self.seal()
    }

    fn seal(&mut self) -> Result<Head, Error> {
        Self::seal(self)
    }

    fn child_ended(&mut self, child: &ThreadId, status: &str, head: &Head) -> Result<(), Error> {
        let event =
            json!({"child_thread_id": child.as_str(), "status": status, "head": head.to_string()});
        self.children.push(*head);
        self.event("child_thread_ended", &event)
    }

    fn server_restarted(&mut self, server: &str, failures: usize, why: &str) -> Result<(), Error> {
        let event = json!({"server": server, "failures": failures, "error": why});
        self.event("mcp_server_restarted", &event)
    }

    fn ledger(&self) -> Result<Parent, Error> {
        let steps = self.steps();
        steps.flush()?;
        Ok(Parent {
            run_id: steps.run().clone(),
            head: steps.tip()?.hash,
        })
    }
}

/// The ledger beside a transcript, signed as `actor_id`.
fn steps_in(
    host: &Host,
    folder: &ThreadFolder,
    actor_id: &str,
    native: Arc<dyn Signer + Send + Sync>,
) -> Result<HashChainedLedgerStore<JsonlLedgerStore>, Error> {
    let signers = ActorSigners::new().with(actor_id.to_owned(), native);
    let store = JsonlLedgerStore::open(NoLinks::host(host).fs, folder.path())?;
    Ok(HashChainedLedgerStore::new(store)
        .with_signer(Arc::new(signers))
        .with_host(host.clone()))
}

/// The run of a thread's ledger: the id of its record.
pub(crate) fn run_of(manifest: &Manifest) -> Result<RunId, Error> {
    RunId::parse(&manifest.record.to_string())
}

fn tokens(usage: &Usage) -> Value {
    let mut tokens = json!({"input_tokens": usage.input_tokens, "cached_tokens": usage.cached_tokens,
           "cache_write_tokens": usage.cache_write_tokens, "output_tokens": usage.output_tokens});
    if usage.reasoning_tokens > 0 {
        tokens["reasoning_tokens"] = usage.reasoning_tokens.into();
    }
    if usage.estimated {
        tokens["usage_unknown"] = true.into();
    }
    tokens
}

fn effect(kind: &str, payload: &Value) -> Result<Effect, Error> {
    Ok(Effect::new(kind, sealed(payload)?))
}
