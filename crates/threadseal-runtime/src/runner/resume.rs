//! Continues a thread that ended, on request: by resuming it, or by handing it over.
//!
//! ```text
//! end of the chain ─► ended or suspended? ─► lock
//!   ─► the whole chain, its files and its parent verified
//!   ─► directive, inputs, model, limits under the parent's as for any thread
//!   ─► conversation, continuation prompt
//!   ─► successor exists ─► link sealed in the old record ─► registry, budget, thread.json
//! ```
//! A successor of a resumed thread gets the whole conversation; one of a handed-over thread gets
//! the part that fits (`context::trim`). Until the successor is made nothing is written: a refusal
//! changes nothing. Limits begin anew.
//!
//! Seed 001, "User-Driven Resumption", "Automatic Handoff"; seed 000 §4, "Integration with
//! resume/handoff".

use super::engine::{Engine, Order, Ran};
use super::prepare::{Inherited, Plan};
use super::recap::Recap;
use super::succession::{Ended, Predecessor, preview, resumable};
use super::thread::Start;
use crate::bounds::MAX_UNRESOLVED_CALLS;
use crate::config::coordination::Integrity;
use crate::context::{Counter, trim};
use crate::directive::Directive;
use crate::history::{Archive, VerifiedChain, VerifiedThread};
use crate::item::{ItemId, ItemKind};
use crate::limit::Limits;
use crate::model::ChatMessage;
use crate::no_links::NoLinks;
use crate::project_id;
use crate::toolbox::Cancel;
use serde_json::{Map, Value, json};
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_formats::transcript::{Link, VerifyOptions};
use threadseal_store::examine;
use threadseal_store::read::open_regular;
use threadseal_store::recorder::{Recorder, TailPolicy};
use threadseal_store::sys::text_path;

/// The member of inputs that names the summary of the earlier conversation.
pub(super) const PREVIOUS_SUMMARY: &str = "previous_summary_id";

/// A thread to resume.
#[derive(Debug, Clone)]
pub struct Resumption {
    /// Any thread of its chain.
    pub thread: ThreadId,
    /// The next instruction.
    pub message: String,
    /// Limits that count before the directive's own.
    pub limits: Limits,
    /// Stops it.
    pub cancel: Cancel,
}

/// How a thread is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By a successor with the whole conversation.
    Resume,
    /// By a successor with the part that fits, and a summary where one is configured.
    HandOver,
}

impl Way {
    /// Its word in an order.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::HandOver => "handoff",
        }
    }

    /// The way of a word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Resume, Self::HandOver]
            .into_iter()
            .find(|way| way.as_str() == word)
    }
}

/// The thread at which the chain of `thread` ends, if records and registry permit
/// [`Engine::resume`] to continue it. Takes no lock and writes nothing.
///
/// # Errors
/// As [`Engine::resume`].
pub fn may_go_on_from(archive: &Archive<'_>, thread: &ThreadId) -> Result<ThreadId, Error> {
    let last = resumable(archive.registry, thread)?.id;
    if archive.is_original(&last)? {
        let text =
            format!("{last} is a thread of the original: it is gone on with where its files lie");
        return Err(Error::refused(text));
    }
    leads_on(&archive.chain(&last)?, thread)?;
    Ok(last)
}

/// May the last of these threads be continued, and does `thread` lead to it?
fn leads_on(chain: &VerifiedChain, thread: &ThreadId) -> Result<(), Error> {
    may_go_on(chain.last())?;
    match chain.has(thread) {
        true => Ok(()),
        false => Err(Error::refused(format!(
            "the records of {} do not lead to {thread}",
            chain.last().record().id()
        ))),
    }
}

impl Engine {
    /// Continues a thread that ended or was suspended, in a new one with the whole conversation.
    ///
    /// # Errors
    /// Kind `Refused` when the thread has not ended, or when its record, a predecessor's, or its
    /// parent's is not verified: nothing is changed then. Otherwise as [`Engine::run`].
    pub fn resume(&self, wanted: &Resumption) -> Result<Ran, Error> {
        self.go_on(wanted, Way::Resume)
    }

    /// As [`Engine::resume`], in a thread that gets only the end of the conversation, within
    /// `resume_ceiling_tokens`. It also gets a summary where one is configured.
    ///
    /// # Errors
    /// As [`Engine::resume`].
    pub fn handoff(&self, wanted: &Resumption) -> Result<Ran, Error> {
        self.go_on(wanted, Way::HandOver)
    }

    fn go_on(&self, wanted: &Resumption, way: Way) -> Result<Ran, Error> {
        let last = resumable(&*self.registry, &wanted.thread)?;
        if self.archive().is_original(&last.id)? {
            return self.go_on_from_original(wanted, &last.id);
        }
        let recorder = self.hold(&last.id)?;
        let chain = self.archive().chain(&last.id)?;
        if Some(&chain.last().record().head()) != recorder.state().head() {
            return Err(Error::refused(format!(
                "the record of {} changed while it was verified",
                last.id
            )));
        }
        leads_on(&chain, &wanted.thread)?;
        let engine = self.going_on_from(chain.last().record().manifest());
        let order = engine.order_of(&chain, wanted)?;
        let inherited = inherited_of(&chain);
        let summary = match way {
            Way::HandOver => engine.summarise(&chain, &wanted.cancel)?,
            Way::Resume => None,
        };
        engine.run_with(&order, inherited.as_ref(), |plan| {
            engine.successor_of(plan, chain, recorder, wanted, way, summary.as_ref())
        })
    }

    /// The order of the last thread of a chain, by its record.
    fn order_of(&self, chain: &VerifiedChain, wanted: &Resumption) -> Result<Order, Error> {
        let manifest = chain.last().record().manifest();
        let directive = manifest.and_then(|manifest| manifest.directive.clone());
        let directive = directive.ok_or_else(|| Error::refused("the record names no directive"))?;
        let directive = ItemId::parse(&directive)?;
        Ok(Order {
            inputs: self.given_inputs(&directive, chain.last().inputs()?)?,
            directive,
            limits: wanted.limits,
            cancel: wanted.cancel.clone(),
        })
    }

    /// The inputs as the directive takes them: the summary's name is the runner's own, unless the
    /// directive declares it.
    pub(super) fn given_inputs(
        &self,
        directive: &ItemId,
        mut inputs: Map<String, Value>,
    ) -> Result<Map<String, Value>, Error> {
        let item = self
            .finder
            .load(ItemKind::Directive, directive, &self.grounds()?)?;
        let declared = Directive::parse(item.path(), item.text())?.inputs;
        if !declared.iter().any(|input| input.name == PREVIOUS_SUMMARY) {
            inputs.remove(PREVIOUS_SUMMARY);
        }
        Ok(inputs)
    }

    fn successor_of(
        &self,
        plan: &mut Plan,
        chain: VerifiedChain,
        recorder: Recorder,
        wanted: &Resumption,
        way: Way,
        summary: Option<&Recap>,
    ) -> Result<Start<'static>, Error> {
        let mut given = Given::of(self, plan, &chain, way == Way::HandOver);
        let id = chain.last().record().id().clone();
        let message = match summary {
            Some(summary) => summary.before(&wanted.message),
            None => wanted.message.clone(),
        };
        let message = match way {
            // The conversation already reports the calls of earlier threads.
            Way::Resume => with_unresolved(message, &chain.last().record().unresolved()),
            Way::HandOver => with_unresolved(message, chain.unresolved()),
        };
        let continuation = self.continuation(plan, &id, &message)?;
        given.notes.extend(continuation.notes);
        if let Some(summary) = summary {
            summary.note(plan, &mut given.notes);
        }
        let said = match way {
            Way::Resume => json!({"directive": plan.directive_id,
                                  "message_preview": preview(&wanted.message)}),
            Way::HandOver => json!({"directive": plan.directive_id, "trailing_turns": given.turns}),
        };
        let parent = chain
            .parent()
            .map(|parent| (parent.id.clone(), parent.head));
        let (thread, _) = chain.into_parts();
        let path = thread.folder().metadata();
        let (_, meta) = thread.into_parts();
        let meta = meta.ok_or_else(|| Error::refused(format!("{id} has no thread.json")))?;
        given.messages.push(ChatMessage::User(continuation.text));
        Ok(Start {
            messages: given.messages,
            inherited: given.inherited,
            notes: given.notes,
            predecessor: Some(Box::new(Ended {
                id,
                recorder,
                meta,
                path,
                parent,
                link: match way {
                    Way::Resume => Link::Resumed,
                    Way::HandOver => Link::Handoff,
                },
                said,
            }) as Box<dyn Predecessor>),
            ..Start::default()
        })
    }

    /// Takes the writer's lock and verifies under it.
    pub(in crate::runner) fn hold(&self, id: &ThreadId) -> Result<Recorder, Error> {
        let folder = self.project.thread(id);
        self.project.inside(&*self.host.fs, folder.path())?;
        let options = VerifyOptions {
            trust: &self.trust,
            now: self.host.clock.now()?,
            held_since: None,
            thread: Some(id),
        };
        let tail = match self.config.coordination.transcript_integrity {
            Integrity::Strict => TailPolicy::Refuse,
            Integrity::Lenient => TailPolicy::Hold,
        };
        let (host, keys) = (NoLinks::host(&self.host), self.keys.clone());
        let path = folder.transcript();
        let opened = Recorder::open(host, &path, keys, &options, tail);
        let told = |error: Error| match self.copy_elsewhere(&path) {
            Some(copy) => Error::new(error.kind(), format!("{error}; {copy}")),
            None => error,
        };
        Ok(opened.map_err(told)?.recorder)
    }

    /// The other path of the record whose first line is that of `path`, if this host sealed it last
    /// there. Of two copies of a project, one becomes stale.
    fn copy_elsewhere(&self, path: &Path) -> Option<String> {
        let first = examine::first_line(&open_regular(&*self.host.fs, path).ok()?).ok()??;
        let record = examine::native_record(&first)?;
        let known = self.host.heads.fetch(&record).ok()??;
        let there = known.path_hint?;
        let elsewhere = there != self.host.place(path);
        let stands =
            text_path(&there).is_some_and(|path| self.host.fs.symlink_metadata(&path).is_ok());
        (elsewhere && stands).then(|| format!("this host sealed it last in {there}"))
    }
}

/// The part of the earlier conversation that a successor gets.
pub(super) struct Given {
    pub(super) messages: Vec<ChatMessage>,
    /// How many of these its record need not hold.
    pub(super) inherited: usize,
    /// How many answers of the model are among them.
    pub(super) turns: u64,
    pub(super) notes: Vec<(&'static str, Value)>,
}

impl Given {
    /// All of it, or the part that fits.
    pub(super) fn of(engine: &Engine, plan: &Plan, chain: &VerifiedChain, trimmed: bool) -> Self {
        let whole = chain.messages();
        let mut notes = Vec::new();
        let last = chain.last().record();
        if last
            .manifest()
            .is_some_and(|line_1| !project_id::is_named(line_1))
        {
            notes.push(project_id::unnamed(last.id()));
        }
        if chain.unverified_bytes() > 0 {
            let taken = chain
                .threads()
                .iter()
                .filter(|thread| thread.unverified_bytes > 0);
            let taken: Vec<Value> = taken
                .map(|thread| {
                    json!({"thread_id": thread.id.as_str(), "bytes": thread.unverified_bytes})
                })
                .collect();
            notes.push(("unverified_included", json!({"threads": taken})));
        }
        if !trimmed {
            return Self {
                messages: whole.to_vec(),
                inherited: whole.len(),
                turns: answers(whole),
                notes,
            };
        }
        let coordination = &engine.config.coordination;
        // A window that is small leaves room for the successor's own work.
        let ceiling = coordination
            .resume_ceiling_tokens
            .min(plan.chosen.context_window / 2);
        let counter = Counter::of_model(plan.chosen.model.name());
        let kept = trim(whole, chain.prompt(), ceiling, &counter);
        let mut messages = Vec::with_capacity(kept.kept + 2);
        if let Some(opening) = kept.opening {
            notes.push(("conversation_opened", json!({"text": opening})));
            messages.push(ChatMessage::User(opening));
        }
        messages.extend_from_slice(&whole[whole.len() - kept.kept..]);
        Self {
            messages,
            inherited: kept.kept,
            turns: kept.turns,
            notes,
        }
    }
}

fn answers(messages: &[ChatMessage]) -> u64 {
    let answers = messages
        .iter()
        .filter(|message| matches!(message, ChatMessage::Assistant { .. }));
    answers.count() as u64
}

/// Reports calls with unknown outcomes, so that the successor does not repeat them.
pub(super) fn with_unresolved(mut message: String, calls: &[Value]) -> String {
    if calls.is_empty() {
        return message;
    }
    let left_out = calls.len().saturating_sub(MAX_UNRESOLVED_CALLS);
    message.push_str(
        "\n\nThese calls had begun when the thread before was cut off, or were given up before they ended. Nobody knows \
         whether they were carried out; do not repeat them unseen:",
    );
    if left_out > 0 {
        message.push_str(&format!("\n- {left_out} older ones"));
    }
    for call in &calls[left_out..] {
        let text = |name: &str| call[name].as_str().unwrap_or("-").to_owned();
        message.push_str(&format!(
            "\n- {} ({})",
            text("item_id"),
            text("idempotency_key")
        ));
    }
    message
}

/// The inheritance of all threads of a chain from their parent.
pub(super) fn inherited_of(chain: &VerifiedChain) -> Option<Inherited> {
    chain.parent().map(|parent| Inherited {
        limits: parent.limits,
        capabilities: parent.capabilities.clone(),
    })
}

/// Has the record ended its thread, and has the thread no successor? The registry proves neither.
fn may_go_on(thread: &VerifiedThread) -> Result<(), Error> {
    let record = thread.record();
    let id = record.id();
    if record.ended().is_none() {
        let text =
            format!("the record of {id} does not end its thread; see: threadseal thread recover");
        return Err(Error::refused(text));
    }
    match record.successors().first() {
        None => Ok(()),
        Some(successor) => Err(Error::refused(format!(
            "{id} goes on as {}, which the registry does not say",
            successor.thread
        ))),
    }
}
