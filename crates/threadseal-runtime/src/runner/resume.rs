//! Resuming a thread: a successor goes on with the conversation of records that verify, and with nothing else.
//!
//! ```text
//! end of the chain ─► ended or suspended? ─► lock, verify transcript and thread.json ─► conversation
//!   ─► directive, inputs, model, limits under the parent's as for any thread ─► continuation prompt
//!   ─► link event names the successor's record, sealed ─► successor's line 1 names that seal ─► registry
//! ```
//! Until the link event nothing is written: what is refused changes nothing. The lock of the old record is held
//! from before it is verified until the link is durable. A successor's record holds what was said in it; what it
//! inherited is read from its predecessors' records again, each verified, each the one that the next names.
//!
//! Seed 001, "User-Driven Resumption"; seed 000 §4, "Integration with resume/handoff".

use super::engine::{Engine, Order, Ran};
use super::prepare::{Inherited, Plan};
use super::thread::Start;
use crate::bounds::{MAX_CHAIN_THREADS, MAX_CONVERSATION_BYTES, MAX_PREVIEW_CHARS};
use crate::directive::Directive;
use crate::item::{ItemId, ItemKind};
use crate::limit::Limits;
use crate::model::{ChatMessage, ToolCall, conversation, dynamic};
use crate::project::ThreadFolder;
use crate::registry::Thread;
use crate::signed_file::{SignedFile, refusal};
use crate::status::Status;
use crate::thread_meta::{ThreadMeta, TrustedMeta};
use crate::toolbox::Cancel;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use threadseal::document::DocumentKind;
use threadseal::error::Error;
use threadseal::record::{ExpectedHead, Head, RecordId, ThreadId};
use threadseal::transcript::event::{Payload, is_link, is_terminal};
use threadseal::transcript::ext::Ext;
use threadseal::transcript::lines::VerifiedLines;
use threadseal::transcript::manifest::{Manifest, parse_line};
use threadseal::transcript::messages::reconstruct;
use threadseal::transcript::{Link, ScanOptions, VerifyOptions};
use threadseal_store::examine;
use threadseal_store::read::open_regular;
use threadseal_store::recorder::{Recorder, TailPolicy};

/// The directive that words the first message where none is named.
const CONTINUATION: &str = "rye/agent/continuation";

/// A thread to resume.
#[derive(Debug, Clone)]
pub struct Resumption {
    /// Any thread of its chain.
    pub thread: ThreadId,
    /// What to do next.
    pub message: String,
    /// Limits that count before the directive's own.
    pub limits: Limits,
    /// Stops it.
    pub cancel: Cancel,
}

/// What a verified record says of its thread.
struct History {
    manifest: Manifest,
    messages: Vec<ChatMessage>,
    /// The threads that it comes from, by what their records say; its own last.
    threads: Vec<ThreadId>,
}

/// What one verified record says.
struct Said {
    manifest: Manifest,
    messages: Vec<ChatMessage>,
    /// Does it end its thread?
    ended: bool,
    /// The threads that it says go on from it.
    successors: Vec<String>,
}

/// The record that goes on as another one: held until the link is written.
pub(super) struct Predecessor {
    id: ThreadId,
    recorder: Recorder,
    message: String,
    meta: TrustedMeta,
    path: PathBuf,
    parent: Option<Head>,
}

impl Engine {
    /// Goes on with a thread that ended or was suspended, in a new one.
    ///
    /// # Errors
    /// Kind `Refused` when the thread has not ended, or its record, or one that it inherits from, is anything but
    /// verified: nothing is changed then. Otherwise as [`Engine::run`].
    pub fn resume(&self, wanted: &Resumption) -> Result<Ran, Error> {
        let last = self.registry.resolve(&wanted.thread)?;
        let status = last.standing()?;
        if !status.is_resumable() {
            return Err(Error::refused(format!(
                "{} is {status}: it cannot be resumed",
                last.id
            )));
        }
        let folder = self.project.thread(&last.id);
        self.project.inside(&*self.host.fs, folder.path())?;
        let recorder = self.hold(&folder, &last.id)?;
        let said = self.said_in(&last.id, None)?;
        self.may_go_on(&last.id, &said)?;
        let history = self.history(&last, said, MAX_CHAIN_THREADS)?;
        if !history.threads.contains(&wanted.thread) {
            return Err(broken(&last.id));
        }
        let manifest = Some(&history.manifest);
        let meta = ThreadMeta::read(&self.host, &folder, &last.id, manifest, &self.trust)?;
        let order = Order {
            directive: ItemId::parse(&meta.get().directive)?,
            inputs: inputs_of(&history.manifest)?,
            limits: wanted.limits,
            cancel: wanted.cancel.clone(),
        };
        let parent = self.parent_of(&last, history.manifest.parent)?;
        let head_of_parent = history.manifest.parent;
        let message = wanted.message.clone();
        self.run_with(&order, parent.as_ref(), |plan| {
            let mut messages = history.messages;
            let inherited = messages.len();
            messages.push(ChatMessage::User(
                self.continuation(plan, &last.id, &message)?,
            ));
            Ok(Start {
                messages,
                inherited,
                parent: None,
                predecessor: Some(Predecessor {
                    id: last.id.clone(),
                    recorder,
                    message,
                    meta,
                    path: folder.metadata(),
                    parent: head_of_parent,
                }),
            })
        })
    }

    /// Takes the writer's lock and verifies under it.
    fn hold(&self, folder: &ThreadFolder, id: &ThreadId) -> Result<Recorder, Error> {
        let options = VerifyOptions {
            trust: &self.trust,
            now: self.host.clock.now()?,
            held_since: None,
            thread: Some(id),
        };
        let keys = self.keys.clone();
        let opened = Recorder::open(
            self.host.clone(),
            &folder.transcript(),
            keys,
            &options,
            TailPolicy::Refuse,
        )?;
        Ok(opened.recorder)
    }

    /// Has the record ended its thread, and does nobody go on from it already? The registry is no proof of either.
    fn may_go_on(&self, id: &ThreadId, said: &Said) -> Result<(), Error> {
        if !said.ended {
            let text = format!(
                "the record of {id} does not end its thread; see: threadseal thread recover"
            );
            return Err(Error::refused(text));
        }
        for successor in &said.successors {
            // One that died before its first line leaves nothing to go on from.
            let folder = self.project.thread(&ThreadId::parse(successor)?);
            if self.host.fs.metadata(&folder.transcript()).is_ok() {
                let text = format!("{id} goes on as {successor}, which the registry does not say");
                return Err(Error::refused(text));
            }
        }
        Ok(())
    }

    /// The conversation of a thread, what it inherited included.
    fn history(&self, thread: &Thread, said: Said, left: usize) -> Result<History, Error> {
        let left = left
            .checked_sub(1)
            .ok_or_else(|| Error::refused("the chain of threads is too long"))?;
        let Some(head) = said.manifest.predecessor else {
            return Ok(History {
                manifest: said.manifest,
                messages: said.messages,
                threads: vec![thread.id.clone()],
            });
        };
        let broken = || broken(&thread.id);
        let id = thread.continuation_of.as_deref().ok_or_else(broken)?;
        let before = self
            .registry
            .get(&ThreadId::parse(id)?)?
            .ok_or_else(broken)?;
        let said_before = self.said_in(&before.id, Some(head))?;
        if said_before.manifest.record != head.record {
            return Err(broken());
        }
        let mut history = self.history(&before, said_before, left)?;
        let count = meta_of(&said.manifest)?["inherited_messages"].as_u64();
        let count = count
            .and_then(|count| usize::try_from(count).ok())
            .ok_or_else(broken)?;
        let dropped = history
            .messages
            .len()
            .checked_sub(count)
            .ok_or_else(broken)?;
        history.messages.drain(..dropped);
        history.messages.extend(said.messages);
        history.threads.push(thread.id.clone());
        history.manifest = said.manifest;
        Ok(history)
    }

    /// Line 1 and the messages of one record, from the very bytes that verified.
    fn said_in(&self, id: &ThreadId, named: Option<Head>) -> Result<Said, Error> {
        let path = self.project.thread(id).transcript();
        let file = open_regular(&*self.host.fs, &path)?;
        let refuse = |why: &str| Error::refused(format!("{}: {why}", path.display()));
        let first = examine::first_line(&file)?.ok_or_else(|| refuse("it is empty"))?;
        let record =
            examine::native_record(&first).ok_or_else(|| refuse("it is no native record"))?;
        let known = examine::known(
            Some(&*self.host.heads),
            Some(&record),
            named.map(ExpectedHead::Head),
            false,
        )?;
        let scan = ScanOptions {
            expect: known.expect,
            ..ScanOptions::default()
        };
        let options = VerifyOptions {
            trust: &self.trust,
            now: self.host.clock.now()?,
            held_since: None,
            thread: Some(id),
        };
        let outcome = examine::native(&file, &scan, &options, &|_| {})?;
        let Some(verified) = outcome.verified else {
            return Err(refusal(&path, &outcome.report));
        };
        examine::refuse_displacing(
            &self.host,
            &path,
            threadseal_store::heads::RecordKind::Transcript,
            &record,
        )?;
        let bytes = file.read_whole(MAX_CONVERSATION_BYTES)?;
        let lines = VerifiedLines::open(&verified, &bytes)?;
        let manifest = parse_line(&first).ok_or_else(|| refuse("its first line is no manifest"))?;
        let mut messages = conversation(&reconstruct(&lines)?)?;
        answer_open_calls(&mut messages);
        let (mut ended, mut successors) = (false, Vec::new());
        for line in lines.iter() {
            let event = threadseal::canon::json::parse_python(line.bytes).ok();
            let event = event.map(|event| event.value);
            let member = |name: &str| event.as_ref()?.get(name)?.as_str();
            let kind = member("event_type").unwrap_or_default();
            ended |= is_terminal(kind);
            if is_link(kind) {
                let payload = event.as_ref().and_then(|event| event.get("payload"));
                let successor = payload.and_then(|payload| payload.get("new_thread_id")?.as_str());
                successors.extend(successor.map(str::to_owned));
            }
        }
        Ok(Said {
            manifest,
            messages,
            ended,
            successors,
        })
    }

    /// What the parent left to the thread that is resumed, by its verified metadata. `head` is the parent's seal that
    /// line 1 names: whether there is a parent, and which, is not for the registry to say.
    pub(super) fn parent_of(
        &self,
        thread: &Thread,
        head: Option<Head>,
    ) -> Result<Option<Inherited>, Error> {
        let (Some(head), Some(parent)) = (head, &thread.parent) else {
            return match (head, &thread.parent) {
                (None, None) => Ok(None),
                _ => Err(Error::refused(format!(
                    "the registry and the record of {} disagree about its parent",
                    thread.id
                ))),
            };
        };
        let id = ThreadId::parse(parent)?;
        let said = self.said_in(&id, Some(head))?;
        if said.manifest.record != head.record {
            return Err(broken(&thread.id));
        }
        let folder = self.project.thread(&id);
        let meta = ThreadMeta::read(&self.host, &folder, &id, Some(&said.manifest), &self.trust)?;
        Ok(Some(Inherited {
            limits: meta.get().limits,
            capabilities: meta.get().capabilities.clone(),
        }))
    }

    /// The first message of the successor.
    fn continuation(
        &self,
        plan: &mut Plan,
        previous: &ThreadId,
        message: &str,
    ) -> Result<String, Error> {
        let named = plan.directive.continuation_directive.clone();
        let id = named.map_or_else(|| ItemId::parse(CONTINUATION), Ok)?;
        let item = self
            .finder
            .load(ItemKind::Directive, &id, &self.grounds()?)?;
        let directive = Directive::parse(item.path(), item.text())?;
        directive.check_id(&id)?;
        let given = json!({
            "original_directive": plan.directive_id,
            "original_directive_body": plan.prompt,
            "previous_thread_id": previous.as_str(),
            "continuation_message": message,
        });
        let given = given.as_object().cloned().unwrap_or_default();
        plan.used.push(item.used());
        directive.render_prompt(&directive.resolve_inputs(&given)?)
    }
}

impl Predecessor {
    /// The parent's seal that its line 1 names: its successor's parent, too.
    pub(super) fn parent(&self) -> Option<Head> {
        self.parent
    }

    /// Which thread it is.
    pub(super) fn id(&self) -> &ThreadId {
        &self.id
    }

    /// Seals that `successor` goes on, and gives the head that its first line names.
    pub(super) fn hand_on(
        &mut self,
        successor: &ThreadId,
        record: RecordId,
    ) -> Result<Head, Error> {
        let preview: String = self.message.chars().take(MAX_PREVIEW_CHARS).collect();
        let event = json!({"new_thread_id": successor.as_str(), "directive": self.meta.get().directive,
                           "message_preview": preview});
        let ext = Ext {
            successor: Some(record),
            ..Ext::default()
        };
        self.recorder.link(
            Link::Resumed,
            &Payload::parse(event.to_string().as_bytes())?,
            ext,
        )
    }
}

impl Predecessor {
    /// Says in its thread.json that another one goes on.
    pub(super) fn settle(self, engine: &Engine) -> Result<(), Error> {
        let Some(head) = self.meta.head() else {
            return Ok(());
        };
        let mut file = SignedFile::after(&self.path, DocumentKind::Json, None, head);
        let mut meta = self.meta.get().clone();
        meta.status = Status::Continued;
        meta.updated_at = engine.host.clock.now()?;
        let thread = Some(&self.id);
        file.write(&engine.host, &engine.keys, thread, &meta.to_bytes())
            .map(drop)
    }
}

/// Gives each call without a result one that says so: models refuse a conversation with open calls, and nobody
/// knows whether such a call was carried out.
fn answer_open_calls(messages: &mut Vec<ChatMessage>) {
    let mut answered = Vec::with_capacity(messages.len());
    let mut open: Vec<ToolCall> = Vec::new();
    for message in messages.drain(..) {
        match &message {
            ChatMessage::ToolResult { call_id, .. } => open.retain(|call| call.id != *call_id),
            _ => answered.extend(open.drain(..).map(unresolved)),
        }
        if let ChatMessage::Assistant { calls, .. } = &message {
            open.clone_from(calls);
        }
        answered.push(message);
    }
    answered.extend(open.into_iter().map(unresolved));
    *messages = answered;
}

fn unresolved(call: ToolCall) -> ChatMessage {
    ChatMessage::ToolResult {
        call_id: call.id,
        tool: call.name,
        content:
            "unresolved: nobody knows whether this call was carried out; do not repeat it unseen"
                .to_owned(),
    }
}

/// What the thread was given, as line 1 has it.
fn inputs_of(manifest: &Manifest) -> Result<Map<String, Value>, Error> {
    match &meta_of(manifest)?["inputs"] {
        Value::Object(inputs) => Ok(inputs.clone()),
        _ => Err(Error::refused(
            "the record does not say what its thread was given",
        )),
    }
}

fn meta_of(manifest: &Manifest) -> Result<Value, Error> {
    dynamic(&manifest.meta)
}

fn broken(id: &ThreadId) -> Error {
    Error::refused(format!(
        "{id} goes on from a thread that is not where its record says"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            name: "t".to_owned(),
            input: Value::Null,
            signatures: Vec::new(),
        }
    }

    fn result(id: &str) -> ChatMessage {
        ChatMessage::ToolResult {
            call_id: id.to_owned(),
            tool: "t".to_owned(),
            content: "done".to_owned(),
        }
    }

    #[test]
    fn every_call_of_a_conversation_has_one_result_behind_it() {
        let said = |calls| ChatMessage::Assistant {
            text: String::new(),
            calls,
        };
        let user = ChatMessage::User("u".to_owned());
        let mut messages = vec![
            said(vec![call("a"), call("b")]),
            result("a"),
            user.clone(),
            said(vec![call("c")]),
        ];
        answer_open_calls(&mut messages);
        let expected = [
            said(vec![call("a"), call("b")]),
            result("a"),
            unresolved(call("b")),
            user,
            said(vec![call("c")]),
            unresolved(call("c")),
        ];
        assert_eq!(messages, expected);
    }
}
