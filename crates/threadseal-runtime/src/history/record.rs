//! [`VerifiedRecord`]: one transcript, verified and held in memory; ThreadSeal's own or Rye's.

use super::Archive;
use super::conversation::{answer_open_calls, marked};
use crate::bounds::MAX_CONVERSATION_BYTES;
use crate::config::coordination::Integrity;
use crate::config::missing::SignedSettings;
use crate::judge;
use crate::model::{ChatMessage, conversation, dynamic};
use crate::project::ThreadFolder;
use crate::signed_file::{refusal, refused};
use crate::status::Status;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use threadseal_core::canon::json::{self, Value as Sealed};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_core::report::{Report, Verdict};
use threadseal_formats::transcript::bodies::Restorer;
use threadseal_formats::transcript::event::{is_link, is_terminal};
use threadseal_formats::transcript::manifest::Manifest;
use threadseal_formats::transcript::messages::{Conversation, Message};
use threadseal_formats::transcript::rye::looks_native;
use threadseal_formats::transcript::{Coverage, lies_within};
use threadseal_formats::verified::Verified;
use threadseal_store::examine;
use threadseal_store::read::open_regular;
use threadseal_verify as verify;

/// The member of `meta` in line 1 that counts how often in a row no person asked for a successor.
pub(crate) const TIMES_UNASKED: &str = "orphan_resumed";

/// One verified transcript.
#[derive(Debug)]
pub struct VerifiedRecord {
    id: ThreadId,
    path: PathBuf,
    manifest: Option<Manifest>,
    verified: Verified<Coverage>,
    report: Report,
    bytes: Vec<u8>,
    /// Puts detached bodies in their places.
    restorer: Option<Restorer<'static>>,
    /// The ranges without any seal that were taken; empty in a strict archive.
    unverified: Vec<[u64; 2]>,
    /// The end of the part that counts as sealed: the last seal, or the one that its successor
    /// names.
    sealed: u64,
    events: Events,
}

/// One line of it, without its LF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number, from 1.
    pub number: u64,
    /// Its bytes, detached bodies in their places.
    pub bytes: Cow<'a, [u8]>,
    /// Does no seal vouch for it?
    pub unverified: bool,
}

/// Bytes after a seal that were taken although nothing covered them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    bytes: u64,
    sha256: Digest,
}

/// The successor of this thread in a sealed link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Successor {
    /// Which thread.
    pub thread: String,
    /// Its record, by the seal of the link.
    pub record: Option<RecordId>,
}

/// The facts in its events about the thread.
#[derive(Debug, Default)]
struct Events {
    ended: Option<Status>,
    /// The end of the step ledger, by the terminal event.
    ledger: Option<Value>,
    successors: Vec<Successor>,
    /// Children whose end is sealed: thread, and its last seal then.
    children: Vec<(String, Head)>,
}

/// How much of a transcript must be covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// All of it.
    Whole,
    /// All of it up to its last seal, which covers the link to its successor: that one received
    /// nothing after it.
    Linked,
    /// The part that the caller relies on is under a seal that it names; the record may still grow.
    Sealed,
}

impl VerifiedRecord {
    /// Its thread.
    pub fn id(&self) -> &ThreadId {
        &self.id
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its manifest, from line 1; None for a transcript of Rye.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Its last seal.
    pub fn head(&self) -> Head {
        self.verified.get().head
    }

    /// The proof of the verification.
    pub fn verified(&self) -> &Verified<Coverage> {
        &self.verified
    }

    /// The report of the verification.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The sealed end of its thread.
    pub fn ended(&self) -> Option<Status> {
        self.events.ended
    }

    /// The sealed end of its step ledger: `count`, and `head`, the hash of the last record.
    pub fn ledger(&self) -> Option<&Value> {
        self.events.ledger.as_ref()
    }

    /// The children whose end it seals, with their last seals.
    pub(super) fn children(&self) -> &[(String, Head)] {
        &self.events.children
    }

    /// The same, each with this thread before it.
    pub(super) fn children_of_it(&self) -> impl Iterator<Item = (ThreadId, String, Head)> {
        let named = |(child, head): &(String, Head)| (self.id.clone(), child.clone(), *head);
        self.events.children.iter().map(named)
    }

    /// The successors in its sealed links.
    pub(crate) fn successors(&self) -> &[Successor] {
        &self.events.successors
    }

    /// How many bytes are taken that no seal covers.
    pub(crate) fn unverified_bytes(&self) -> u64 {
        self.unverified.iter().map(|[from, to]| to - from).sum()
    }

    /// Bytes of the file that no seal covers.
    pub fn tail(&self) -> &[u8] {
        let from = usize::try_from(self.head().size).unwrap_or(usize::MAX);
        self.bytes.get(from..).unwrap_or_default()
    }

    /// Its lines in order; those that no seal covers only in a lenient archive.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let sealed = self.sealed;
        let adopted = &self.verified.get().adopted;
        let mut offset = 0;
        let lines = self.bytes.split_inclusive(|byte| *byte == b'\n').zip(1..);
        lines.filter_map(move |(line, number)| {
            let at = offset;
            offset += line.len() as u64;
            let unverified = at >= sealed || lies_within(adopted, at);
            let taken = !unverified || lies_within(&self.unverified, at);
            let bytes = line.strip_suffix(b"\n").unwrap_or(line);
            let bytes = match &self.restorer {
                Some(restorer) => restorer.restore(bytes),
                None => Cow::Borrowed(bytes),
            };
            // A torn last line is no event.
            (taken && (!unverified || line.ends_with(b"\n"))).then_some(Line {
                number,
                bytes,
                unverified,
            })
        })
    }

    /// Its messages as Rye's reader gives them, without unsealed events.
    ///
    /// # Errors
    /// Kind `Refused` when a line is no event.
    pub fn messages(&self) -> Result<Vec<Message>, Error> {
        let mut fold = Conversation::danger_new();
        for line in self.lines().filter(|line| !line.unverified) {
            fold.push_line(&line.bytes)?;
        }
        Ok(fold.into_messages())
    }

    /// Its conversation, each call with one result; messages that no seal covers are marked.
    ///
    /// # Errors
    /// Kind `Refused` when a line is no event, or contains a message that no model accepts.
    pub fn conversation(&self) -> Result<Vec<ChatMessage>, Error> {
        let mut said = conversation(&self.messages()?)?;
        if !self.unverified.is_empty() {
            let mut whole = Conversation::danger_new();
            for line in self.lines() {
                whole.push_line(&line.bytes)?;
            }
            let whole = conversation(&whole.into_messages())?;
            said = marked(&said, whole);
        }
        answer_open_calls(&mut said);
        Ok(said)
    }

    /// Leaves out the part after the seal `head`: its successor received only the part before. Of
    /// the tail that no seal covered then, it received the part that `taken` names, whichever seals
    /// cover it now.
    ///
    /// # Errors
    /// Kind `Refused` when that part is missing or changed.
    pub(super) fn up_to(&mut self, head: Head, taken: Option<&Taken>) -> Result<(), Error> {
        self.sealed = head.size;
        self.unverified.retain(|[from, _]| *from < head.size);
        let Some(taken) = taken else {
            return Ok(());
        };
        let to = head.size.saturating_add(taken.bytes);
        let range = usize::try_from(head.size)
            .ok()
            .zip(usize::try_from(to).ok());
        let bytes = range.and_then(|(from, to)| self.bytes.get(from..to));
        if bytes.is_none_or(|bytes| Digest::of(bytes) != taken.sha256) {
            let path = self.path.display();
            let text = format!(
                "{path} is tampered: the bytes after its last seal that its successor used are missing or changed"
            );
            return Err(Error::refused(text));
        }
        self.unverified.push([head.size, to]);
        Ok(())
    }

    /// The unsealed tail that a thread took when it adopted one of Rye's.
    pub(super) fn took(&self) -> Option<Taken> {
        let told = self
            .events()
            .find(|event| event["event_type"] == "thread_adopted")?;
        let told = &told["payload"]["unverified"];
        let taken = Taken {
            bytes: told["bytes"].as_u64()?,
            sha256: Digest::parse_hex(told["sha256"].as_str()?)?,
        };
        (told["taken"] == true).then_some(taken)
    }

    /// Calls that began, and for which it is unknown whether they were carried out. Either its
    /// recovery found them in the signed ledger without a result, or their result marks them as
    /// unknown.
    pub fn unresolved(&self) -> Vec<Value> {
        unresolved_of(self.events())
    }

    /// The events that its seals cover.
    pub(crate) fn events(&self) -> impl Iterator<Item = Value> {
        let sealed = self.lines().filter(|line| !line.unverified);
        sealed.filter_map(|line| serde_json::from_slice(&line.bytes).ok())
    }

    /// The settings that it names as signed.
    pub(crate) fn signed_settings(&self) -> SignedSettings {
        let used = self
            .events()
            .filter(|event| event["event_type"] == "item_used");
        SignedSettings::of(used.map(|mut event| event["payload"].take()))
    }

    /// The member `meta` of line 1; null for a transcript of Rye.
    ///
    /// # Errors
    /// Kind `Refused` when it contains a value that no text or double can represent.
    pub(crate) fn meta_of_line_1(&self) -> Result<Value, Error> {
        self.manifest
            .as_ref()
            .map_or(Ok(Value::Null), |manifest| dynamic(&manifest.meta))
    }

    /// How often in a row it was resumed unasked, up to this thread.
    ///
    /// # Errors
    /// As [`Self::meta_of_line_1`].
    pub(crate) fn times_unasked(&self) -> Result<u64, Error> {
        Ok(self.meta_of_line_1()?[TIMES_UNASKED]
            .as_u64()
            .unwrap_or_default())
    }

    pub(super) fn text_of_line_1(&self, name: &str) -> Result<Option<String>, Error> {
        Ok(self.meta_of_line_1()?[name].as_str().map(str::to_owned))
    }
}

/// As [`VerifiedRecord::unresolved`]. An open call of the model has its place in the conversation,
/// and is reported there.
fn unresolved_of(events: impl Iterator<Item = Value>) -> Vec<Value> {
    // A model may name its call as a hook's is named.
    let mut begun: BTreeMap<(bool, String), Value> = BTreeMap::new();
    let mut unresolved: Vec<Value> = Vec::new();
    for mut event in events {
        let payload = event["payload"].take();
        let kind = event["event_type"].as_str();
        let by_hook = kind.is_some_and(|kind| kind.starts_with("hook_"));
        let id = payload["call_id"].as_str().unwrap_or_default();
        let id = (by_hook, id.to_owned());
        match kind {
            Some("tool_call_start" | "hook_call_start") => {
                begun.insert(id, payload);
            }
            Some("tool_call_result" | "hook_call_result") => {
                let call = begun.remove(&id).filter(|_| payload["unknown"] == true);
                unresolved.extend(call);
            }
            Some("tool_call_unresolved") => {
                let key = &payload["idempotency_key"];
                let open = |((of_hook, _), call): (&(bool, String), &Value)| {
                    *of_hook && call["idempotency_key"] == *key
                };
                let counts = payload["in_ledger"] == true || begun.iter().any(open);
                // Calls whose result reported this are named again.
                if counts
                    && !unresolved
                        .iter()
                        .any(|call| call["idempotency_key"] == *key)
                {
                    unresolved.push(payload);
                }
            }
            _ => {}
        }
    }
    unresolved
}

/// Is the transcript in `folder` one of Rye's?
pub(super) fn is_original(archive: &Archive<'_>, folder: &ThreadFolder) -> Result<bool, Error> {
    let path = folder.transcript();
    archive.project.inside(&*archive.host.fs, &path)?;
    let first = examine::first_line(&open_regular(&*archive.host.fs, &path)?)?;
    Ok(first.is_some_and(|first| !looks_native(&first)))
}

/// Verifies the transcript of `folder` and holds it.
pub(super) fn open(
    archive: &Archive<'_>,
    folder: &ThreadFolder,
    id: &ThreadId,
    named: Option<Head>,
    need: Need,
) -> Result<VerifiedRecord, Error> {
    let path = folder.transcript();
    archive.project.inside(&*archive.host.fs, &path)?;
    let opened = judge::of_transcripts(archive.grounds(), id, named)?.open_verified_within(
        &path,
        verify::Need::Vouched,
        MAX_CONVERSATION_BYTES,
    );
    let record = opened.map_err(|error| refused(error, &path, archive.host))?;
    let unverified = accept(&record, archive.integrity, need, &path)?;
    let head = record.head();
    if named.is_some_and(|named| named.record != head.record) {
        let path = path.display();
        let text = format!("{path}: it is foreign: the file contains another record");
        return Err(Error::refused(text));
    }
    // The very bytes that were verified: everything below reads these.
    let restorer = record.lines()?.restorer().cloned();
    let restorer = restorer.map(Restorer::into_owned);
    let parts = record.into_parts();
    let mut found = VerifiedRecord {
        id: id.clone(),
        path,
        manifest: parts.manifest,
        sealed: head.size,
        report: parts.report,
        verified: parts.verified,
        bytes: parts.bytes,
        restorer,
        unverified,
        events: Events::default(),
    };
    found.events = Events::of(&found);
    Ok(found)
}

/// Where the bytes are that are taken although no seal covers them.
fn accept(
    record: &verify::VerifiedRecord,
    integrity: Integrity,
    need: Need,
    path: &Path,
) -> Result<Vec<[u64; 2]>, Error> {
    let verdict = record.report().verdict;
    if verdict == Verdict::Verified {
        return Ok(Vec::new());
    }
    let still_growing =
        need == Need::Sealed && matches!(verdict, Verdict::Open | Verdict::UnsignedTail);
    if integrity == Integrity::Lenient
        && matches!(verdict, Verdict::Partial | Verdict::UnsignedTail)
    {
        let mut unverified = record.verified().get().adopted.clone();
        if need == Need::Whole {
            unverified.push(record.tail());
        }
        unverified.retain(|[from, to]| from < to);
        return Ok(unverified);
    }
    match still_growing {
        true => Ok(Vec::new()),
        false => Err(refusal(path, record.report())),
    }
}

impl Events {
    fn of(record: &VerifiedRecord) -> Self {
        let mut events = Self::default();
        for line in record.lines().filter(|line| !line.unverified) {
            let Ok(event) = json::parse_python(&line.bytes) else {
                continue;
            };
            let event = event.value;
            let member = |name: &str| event.get(name).and_then(Sealed::as_str);
            let kind = member("event_type").unwrap_or_default();
            let payload = event.get("payload");
            if is_terminal(kind) {
                let stated = payload.and_then(|payload| payload.get("status")?.as_str());
                events.ended = Some(Status::of_end(kind, stated).unwrap_or(Status::Error));
                let event = serde_json::from_slice::<Value>(&line.bytes).unwrap_or_default();
                let ledger = event["payload"]["ledger"].clone();
                events.ledger = Some(ledger).filter(|ledger| !ledger.is_null());
            }
            if kind == "child_thread_ended" {
                let text = |name: &str| payload.and_then(|payload| payload.get(name)?.as_str());
                let child = text("child_thread_id").map(str::to_owned);
                events
                    .children
                    .extend(child.zip(text("head").and_then(Head::parse)));
            }
            if is_link(kind) {
                let thread = payload.and_then(|payload| payload.get("new_thread_id")?.as_str());
                events.successors.extend(thread.map(|thread| Successor {
                    thread: thread.to_owned(),
                    record: None,
                }));
            }
            if kind == "checkpoint" {
                // The seal of a link names the record.
                let ext = payload.and_then(|payload| payload.get("seal")?.get("ext"));
                let named = ext.and_then(|ext| ext.get("successor")?.as_str());
                let named = named.and_then(RecordId::parse_hex);
                if let (Some(last), Some(record)) = (events.successors.last_mut(), named) {
                    last.record.get_or_insert(record);
                }
            }
        }
        events
    }
}

#[cfg(test)]
mod tests;
