//! Recovering a thread whose process is gone: its record is brought to an honest end.
//!
//! ```text
//! lock (nobody writes it) ─► verify ─► tail set aside, `tail_dropped`
//!   ─► `tool_call_unresolved` for each call that began and of which the record has no result
//!   ─► `thread_error`, final seal ─► thread.json, budget, registry
//! ```
//! What no seal covers never counts again. Only the names of calls are taken from it, since a call's start is
//! durable before the call runs: whether it was carried out nobody knows, and nothing repeats it.
//!
//! Normative: `spec/runtime.md`, "Resuming and recovering".

use super::engine::Engine;
use crate::bounds::MAX_CONVERSATION_BYTES;
use crate::limit::Cost;
use crate::signed_file::SignedFile;
use crate::status::Status;
use crate::thread_meta::ThreadMeta;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use threadseal::document::DocumentKind;
use threadseal::error::Error;
use threadseal::record::{Head, ThreadId};
use threadseal::transcript::event::{EventType, Payload};
use threadseal::transcript::{Ending, VerifyOptions};
use threadseal_store::read::read_small;
use threadseal_store::recorder::{Opened, Recorder, TailPolicy};

/// Why a recovered thread ended.
pub(super) const CAUSE: &str = "its process is gone";

/// A thread that was recovered.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovered {
    /// Where it stands now: as its record says, where that had ended already, else `error`.
    pub status: Status,
    /// Its final seal; None where its record had not begun.
    pub head: Option<Head>,
    /// Calls that began and of which the record has no result: `call_id`, `tool`, `item_id`, `idempotency_key`.
    pub unresolved: Vec<Value>,
    /// Where the bytes are that no seal covered.
    pub tail: Option<PathBuf>,
}

impl Engine {
    /// Ends a thread that is said to run, and that nobody runs any more.
    ///
    /// # Errors
    /// Kind `Refused` when it has ended, or its record speaks against itself; `External` when a process still
    /// writes it.
    pub fn recover(&self, id: &ThreadId) -> Result<Recovered, Error> {
        self.recover_as(id, Status::Error, CAUSE)
    }

    /// As [`Engine::recover`]; a thread that did not end itself gets this status, for this cause.
    pub(super) fn recover_as(
        &self,
        id: &ThreadId,
        failed: Status,
        cause: &str,
    ) -> Result<Recovered, Error> {
        let unknown = || Error::refused(format!("the registry knows no thread {id}"));
        let status = self.registry.get(id)?.ok_or_else(unknown)?.standing()?;
        if !matches!(status, Status::Created | Status::Running) {
            return Err(Error::refused(format!(
                "{id} is {status}: there is nothing to recover"
            )));
        }
        let folder = self.project.thread(id);
        self.project.inside(&*self.host.fs, folder.path())?;
        if self.host.fs.symlink_metadata(&folder.transcript()).is_err() {
            self.close(id, &folder.metadata(), failed)?;
            return Ok(Recovered {
                status: failed,
                head: None,
                unresolved: Vec::new(),
                tail: None,
            });
        }
        let options = VerifyOptions {
            trust: &self.trust,
            now: self.host.clock.now()?,
            held_since: None,
            thread: Some(id),
        };
        let (host, keys) = (self.host.clone(), self.keys.clone());
        let transcript = folder.transcript();
        let opened = Recorder::open(host, &transcript, keys, &options, TailPolicy::SetAside)?;
        let Opened {
            mut recorder,
            moved,
            ..
        } = opened;
        let tail = moved.map(|moved| moved.path);
        let (unresolved, ended) = self.left_open(&transcript, tail.as_deref())?;
        let status = if recorder.state().is_ended() {
            ended
        } else {
            end(&mut recorder, &unresolved, cause)?;
            failed
        };
        self.close(id, &folder.metadata(), status)?;
        Ok(Recovered {
            status,
            head: recorder.state().head().copied(),
            unresolved,
            tail,
        })
    }

    /// Calls that began, in the record or behind its last seal, and have no result in the record; and how that says
    /// that its thread ended. Behind a seal anybody can write that a call has a result, or that a thread completed.
    fn left_open(&self, record: &Path, tail: Option<&Path>) -> Result<(Vec<Value>, Status), Error> {
        let (mut open, mut ended): (Vec<Value>, Status) = (Vec::new(), Status::Error);
        for (path, sealed) in [(Some(record), true), (tail, false)] {
            let Some(path) = path else { continue };
            let bytes = read_small(&*self.host.fs, path, MAX_CONVERSATION_BYTES)?;
            // A torn last line is no event.
            let lines = bytes.split(|byte| *byte == b'\n');
            let events = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
            for event in events {
                let payload = &event["payload"];
                match event["event_type"].as_str() {
                    Some("tool_call_start") => open.push(json!({
                        "call_id": payload["call_id"],
                        "tool": payload["tool"],
                        "item_id": payload["item_id"],
                        "idempotency_key": payload["idempotency_key"],
                    })),
                    // What hooks called is open in the same way.
                    Some("hook_call_start") => open.push(json!({
                        "call_id": payload["call_id"],
                        "tool": payload["item_id"],
                        "item_id": payload["item_id"],
                        "idempotency_key": payload["idempotency_key"],
                    })),
                    Some("tool_call_result" | "hook_call_result") if sealed => {
                        open.retain(|call| call["call_id"] != payload["call_id"]);
                    }
                    Some("thread_completed") if sealed => ended = Status::Completed,
                    Some("thread_cancelled") if sealed => ended = Status::Cancelled,
                    Some("thread_suspended") if sealed => ended = Status::Suspended,
                    _ => {}
                }
            }
        }
        Ok((open, ended))
    }

    /// What follows the record: thread.json, the budget, the registry.
    pub(super) fn close(&self, id: &ThreadId, path: &Path, status: Status) -> Result<(), Error> {
        let now = self.host.clock.now()?;
        let folder = self.project.thread(id);
        // A thread may have died before its first thread.json.
        if self.host.fs.metadata(path).is_ok() {
            let trusted = ThreadMeta::read(&self.host, &folder, id, None, &self.trust)?;
            if let Some(head) = trusted.head() {
                let mut meta = trusted.get().clone();
                meta.status = status;
                meta.updated_at = now;
                meta.cost = meta.cost.or_else(|| Some(Cost::default()));
                let mut file = SignedFile::after(path, DocumentKind::Json, None, head);
                file.write(&self.host, &self.keys, Some(id), &meta.to_bytes())?;
            }
        }
        if status.is_terminal() && self.budgets.get(id)?.is_some() {
            self.budgets.release(id, status, now)?;
        }
        if self.registry.get(id)?.and_then(|thread| thread.status.ok()) == Some(Status::Created)
            && !Status::Created.may_become(status)
        {
            self.registry.set_status(id, None, Status::Running, now)?;
        }
        self.registry.set_status(id, None, status, now).map(drop)
    }
}

/// Names the open calls and ends the record.
pub(super) fn end(recorder: &mut Recorder, unresolved: &[Value], cause: &str) -> Result<(), Error> {
    let payload = |value: &Value| Payload::parse(value.to_string().as_bytes());
    for call in unresolved {
        recorder.append(&EventType::parse("tool_call_unresolved")?, &payload(call)?)?;
    }
    let turn = recorder.state().turn();
    let cause = json!({"error": cause, "unresolved": unresolved.len()});
    recorder
        .end(Ending::Error, &payload(&cause)?, turn)
        .map(drop)
}
