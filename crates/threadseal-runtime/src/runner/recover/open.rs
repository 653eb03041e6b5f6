//! The open calls of a record: calls that began, and whose result is in no sealed line.
//!
//! ```text
//! began   sealed lines, lines that no seal covers (adopted, after the last seal, set aside),
//!         the signed step ledger
//! ended   sealed lines alone: a result, or the name of the call as unresolved
//! open    began more often than it ended, and not named yet
//! ```
//! A result that only the ledger has is lost: no model receives it, so the call is open like any
//! other. Unsealed lines prove only that a call of this thread began; where the ledger has it, the
//! ledger's words count.
//!
//! Normative: `spec/runtime.md`, "Recovering".

use super::super::orchestrator::Records;
use super::super::services::Services;
use crate::bounds::{MAX_CONVERSATION_BYTES, MAX_UNRESOLVED_CALLS};
use crate::judge;
use crate::project::ThreadFolder;
use crate::signed_file::refusal;
use crate::status::Status;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;
use threadseal_formats::ledger::{ChainTip, RunId, signer_name};
use threadseal_formats::transcript::event::is_terminal;
use threadseal_formats::transcript::manifest::parse_line;
use threadseal_formats::transcript::{Coverage, lies_within};
use threadseal_store::examine;
use threadseal_store::ledger::known;
use threadseal_store::read::{RegularFile, Source as _, open_regular, read_small};

/// The beginning of the names of files that hold bytes moved from after a last seal.
const TAIL_PREFIX: &str = "transcript.jsonl.tail-";
/// Longest name of a call, or of the called item, that is taken from a line that no seal covers.
const MAX_UNSEALED_NAME_CHARS: usize = 200;

/// The open calls of a record, and the facts about its end.
pub(super) struct Left {
    /// Calls: `call_id`, `tool`, `item_id`, `idempotency_key`, `in_ledger`.
    pub(super) unresolved: Vec<Value>,
    pub(super) ended: Status,
    pub(super) is_ended: bool,
    pub(super) successors: Vec<String>,
    /// Children that began, and whose end no seal covers.
    pub(super) children: Vec<ThreadId>,
}

/// The lines of a record, apart.
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// The end of the sealed part, and the adopted ranges in it.
    covered: Option<(u64, Vec<[u64; 2]>)>,
}

/// A step ledger whose chain and signatures hold.
struct Steps {
    bytes: Vec<u8>,
    tip: Option<ChainTip>,
    /// Names of the keys that signed it.
    signers: Vec<Digest>,
    /// The digest of all signatures of its records.
    signatures: Digest,
    /// Does this host know where it ended?
    is_known: bool,
}

/// A call that began.
struct Call {
    /// As it is named where it stays open.
    named: Value,
    began: u64,
    ended: u64,
    /// Does a sealed line name it as unresolved already?
    listed: bool,
    /// Does only an unsealed line name it?
    unsealed: bool,
    /// The thread that it began.
    child: Option<String>,
}

/// The calls of a thread, by their keys.
#[derive(Default)]
struct Calls {
    known: BTreeMap<String, Call>,
    /// Keys in the order in which they began.
    order: Vec<String>,
    /// Calls that wait for a result: id, whether a hook made it, key. Ids come again in other
    /// turns, and a model may name its call as a hook's is named.
    waiting: Vec<(String, bool, String)>,
}

/// The lines of the record in `folder`, and which of them seals cover.
pub(in crate::runner) fn lines_of(
    services: &Services,
    id: &ThreadId,
    folder: &ThreadFolder,
) -> Result<Lines, Error> {
    let verifier = Records::from(services).verifier(id)?;
    let opened = verifier.open_transcript(&folder.transcript())?;
    let file = &opened.file;
    let covered = opened.result.verified_part.as_ref().map(|verified| {
        let Coverage { head, adopted, .. } = verified.get();
        (head.size, adopted.clone())
    });
    // Bytes after the last seal must not block reading the bytes before it.
    let sealed = covered.as_ref().map_or(0, |(end, _)| *end);
    let bytes = match file.size() <= MAX_CONVERSATION_BYTES as u64 {
        true => file.read_whole(MAX_CONVERSATION_BYTES)?,
        false => beginning(file, sealed)?,
    };
    Ok(Lines { bytes, covered })
}

/// The calls that a thread left open, and the facts in its record about its own end. After a
/// seal an attacker can write that a call has a result, or that a thread completed.
pub(in crate::runner) fn left_open(
    services: &Services,
    id: &ThreadId,
    folder: &ThreadFolder,
    steps: &[(String, Value)],
) -> Result<Left, Error> {
    let lines = lines_of(services, id, folder)?;
    let mut left = Left {
        unresolved: Vec::new(),
        ended: Status::Error,
        is_ended: false,
        successors: Vec::new(),
        children: Vec::new(),
    };
    let mut calls = Calls::default();
    for event in events(lines.sealed()) {
        calls.sealed(&event);
        left.told(&event);
    }
    for event in events(lines.unsealed()) {
        calls.unsealed(id, &event);
    }
    for tail in moved_out(services, folder)? {
        for event in events(tail.split(|byte| *byte == b'\n')) {
            calls.unsealed(id, &event);
        }
    }
    left.unresolved = calls.open(steps);
    Ok(left)
}

/// The bytes moved out of the record, also by a recovery that did not finish. Bytes longer than
/// any conversation are skipped: the ledger has their calls.
fn moved_out(services: &Services, folder: &ThreadFolder) -> Result<Vec<Vec<u8>>, Error> {
    let fs = &*services.host.fs;
    let names = fs.read_dir(folder.path()).map_err(|error| {
        let text = format!("cannot list {}: {error}", folder.path().display());
        Error::new(ErrorKind::External, text).with_source(error)
    })?;
    let tails = names
        .into_iter()
        .filter(|name| name.to_string_lossy().starts_with(TAIL_PREFIX));
    let mut found = Vec::new();
    for name in tails {
        match read_small(fs, &folder.path().join(name), MAX_CONVERSATION_BYTES) {
            Ok(bytes) => found.push(bytes),
            Err(error) if error.kind() == ErrorKind::Limit => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The calls that began according to the step ledger, which is signed record by record: keys,
/// and their names.
pub(in crate::runner) fn steps_of(
    services: &Services,
    folder: &ThreadFolder,
) -> Result<Vec<(String, Value)>, Error> {
    let steps = judged_steps(services, folder)?;
    Ok(steps.map_or_else(Vec::new, |steps| begun_by(&steps.bytes)))
}

/// Remembers the end of the step ledger, if its writer died before doing so: its chain holds,
/// and it grows no more.
pub(in crate::runner) fn remember_steps(
    services: &Services,
    folder: &ThreadFolder,
) -> Result<(), Error> {
    let Some(steps) = judged_steps(services, folder)?.filter(|steps| !steps.is_known) else {
        return Ok(());
    };
    match steps.tip {
        Some(tip) => {
            let signatures = Some(steps.signatures);
            known::publish(&services.host, tip.head(), signatures, None, &steps.signers)
        }
        None => Ok(()),
    }
}

/// The step ledger of the record in `folder`, if there is one.
fn judged_steps(services: &Services, folder: &ThreadFolder) -> Result<Option<Steps>, Error> {
    let first = examine::first_line(&open_regular(&*services.host.fs, &folder.transcript())?)?;
    let Some(manifest) = first.as_deref().and_then(parse_line) else {
        return Ok(None);
    };
    let run = RunId::parse(&manifest.record.to_string())?;
    let path = folder.ledger(&run);
    let record = run.record_id();
    let expect = known::known(&services.host, &record, None)?.expectations();
    if expect.is_empty() && services.host.fs.symlink_metadata(&path).is_err() {
        return Ok(None);
    }
    let is_known = !expect.is_empty();
    let file = open_regular(&*services.host.fs, &path)?;
    let records = Records::from(services);
    let outcome = judge::of_ledgers(records.grounds(), None)?.ledger_file(&file)?;
    if outcome.report.verdict.forbids_use() {
        return Err(refusal(&path, &outcome.report));
    }
    Ok(Some(Steps {
        signers: outcome.signers.iter().map(signer_name).collect(),
        signatures: outcome.signatures,
        tip: outcome.tip,
        bytes: file.read_whole(MAX_CONVERSATION_BYTES)?,
        is_known,
    }))
}

/// May the thread whose record is in `folder` have calls with unknown ends, or no end?
pub(in crate::runner) fn may_be_open(
    services: &Services,
    id: &ThreadId,
    folder: &ThreadFolder,
) -> bool {
    let open = || {
        let left = left_open(services, id, folder, &steps_of(services, folder)?)?;
        Ok::<_, Error>(!left.is_ended || !left.unresolved.is_empty())
    };
    open().unwrap_or(true)
}

impl Left {
    fn told(&mut self, event: &Value) {
        let Some(kind) = event["event_type"].as_str() else {
            return;
        };
        if is_terminal(kind) {
            let stated = event["payload"]["status"].as_str();
            self.is_ended = true;
            self.ended = Status::of_end(kind, stated).unwrap_or(Status::Error);
        }
        let child = event["payload"]["child_thread_id"].as_str();
        let child = child.and_then(|child| ThreadId::parse(child).ok());
        match (kind, child) {
            ("child_thread_started", Some(child)) => self.children.push(child),
            ("child_thread_ended", Some(child)) => self.children.retain(|one| *one != child),
            _ => {}
        }
        match kind {
            "thread_resumed" | "thread_handoff" => {
                let id = event["payload"]["new_thread_id"].as_str();
                self.successors.extend(id.map(str::to_owned));
            }
            _ => {}
        }
    }
}

impl Lines {
    /// The lines that a seal covers and that were not adopted.
    pub(super) fn sealed(&self) -> impl Iterator<Item = &[u8]> {
        self.each()
            .filter(|(covered, _)| *covered)
            .map(|(_, line)| line)
    }

    /// The others.
    fn unsealed(&self) -> impl Iterator<Item = &[u8]> {
        self.each()
            .filter(|(covered, _)| !*covered)
            .map(|(_, line)| line)
    }

    fn each(&self) -> impl Iterator<Item = (bool, &[u8])> {
        let mut at = 0;
        let lines = self.bytes.split_inclusive(|byte| *byte == b'\n');
        lines.map(move |line| {
            let from = at;
            at += line.len() as u64;
            let covered = self
                .covered
                .as_ref()
                .is_some_and(|(end, adopted)| from < *end && !lies_within(adopted, from));
            (covered, line)
        })
    }
}

impl Calls {
    fn sealed(&mut self, event: &Value) {
        let payload = &event["payload"];
        let key = payload["idempotency_key"].as_str().unwrap_or_default();
        let id = payload["call_id"].as_str().unwrap_or_default();
        match event["event_type"].as_str() {
            Some(kind @ ("tool_call_start" | "hook_call_start")) => {
                let by_hook = kind == "hook_call_start";
                let tool = match by_hook {
                    true => &payload["item_id"],
                    false => &payload["tool"],
                };
                let named = json!({"call_id": id, "tool": tool, "item_id": payload["item_id"],
                                   "idempotency_key": key});
                self.began(key, named, false);
                self.waiting.push((id.to_owned(), by_hook, key.to_owned()));
            }
            Some(kind @ ("tool_call_result" | "hook_call_result")) => {
                let by_hook = kind == "hook_call_result";
                let of_id =
                    |(waits, hook, _): &(String, bool, String)| waits == id && *hook == by_hook;
                let Some(place) = self.waiting.iter().rposition(of_id) else {
                    return;
                };
                let (_, _, key) = self.waiting.remove(place);
                // An error may report that it is unknown whether the call was carried out.
                if payload["unknown"] != true
                    && let Some(call) = self.known.get_mut(&key)
                {
                    call.ended += 1;
                }
            }
            // Of several calls at once none is certain to have begun it.
            Some("child_thread_started") => {
                if let [(_, _, key)] = &self.waiting[..]
                    && let Some(call) = self.known.get_mut(key)
                {
                    call.child = payload["child_thread_id"].as_str().map(str::to_owned);
                }
            }
            Some("tool_call_unresolved") => {
                self.began(key, Value::Null, false);
                if let Some(call) = self.known.get_mut(key) {
                    call.listed = true;
                }
            }
            _ => {}
        }
    }

    /// An attacker may have written it: only the names of a call of this thread count.
    fn unsealed(&mut self, id: &ThreadId, event: &Value) {
        let kind = &event["event_type"];
        let payload = &event["payload"];
        let Some(key) = plain(&payload["idempotency_key"]) else {
            return;
        };
        let rest = key.strip_prefix(id.as_str());
        let is_own = rest.is_some_and(|rest| rest.starts_with('/'));
        if !is_own || !(kind == "tool_call_start" || kind == "hook_call_start") {
            return;
        }
        let tool = match kind == "hook_call_start" {
            true => &payload["item_id"],
            false => &payload["tool"],
        };
        let named = json!({"call_id": plain(&payload["call_id"]), "tool": plain(tool),
                           "item_id": plain(&payload["item_id"]), "idempotency_key": key});
        self.began(key, named, true);
    }

    fn began(&mut self, key: &str, named: Value, unsealed: bool) {
        if let Some(call) = self.known.get_mut(key) {
            call.began += 1;
            return;
        }
        self.order.push(key.to_owned());
        let call = Call {
            named,
            began: 1,
            ended: 0,
            listed: false,
            unsealed,
            child: None,
        };
        self.known.insert(key.to_owned(), call);
    }

    /// The calls that stay open, by these steps of the ledger, too.
    fn open(mut self, steps: &[(String, Value)]) -> Vec<Value> {
        let mut by_ledger: BTreeMap<&str, (u64, &Value)> = BTreeMap::new();
        for (key, named) in steps {
            by_ledger.entry(key).or_insert((0, named)).0 += 1;
            if !self.known.contains_key(key) {
                self.began(key, named.clone(), false);
            }
        }
        let mut unsealed = 0;
        let mut open = Vec::new();
        for key in self.order {
            let Some(mut call) = self.known.remove(&key) else {
                continue;
            };
            let step = by_ledger.get(key.as_str());
            let began = call.began.max(step.map_or(0, |(began, _)| *began));
            if call.listed || began <= call.ended {
                continue;
            }
            if call.unsealed && step.is_none() {
                unsealed += 1;
                if unsealed > MAX_UNRESOLVED_CALLS {
                    continue;
                }
            }
            if let Some((_, named)) = step {
                call.named = (*named).clone();
            }
            call.named["in_ledger"] = step.is_some().into();
            if let Some(child) = call.child {
                call.named["child_thread_id"] = child.into();
            }
            open.push(call.named);
        }
        open
    }
}

/// The first `size` bytes of a file.
fn beginning(file: &RegularFile, size: u64) -> Result<Vec<u8>, Error> {
    if size > MAX_CONVERSATION_BYTES as u64 {
        let text = format!(
            "{} seals more than {MAX_CONVERSATION_BYTES} bytes",
            file.path().display()
        );
        return Err(Error::new(ErrorKind::Limit, text));
    }
    let (mut chunks, mut chunk) = (file.range(0, size), Vec::new());
    let mut bytes = Vec::new();
    loop {
        chunks.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&chunk);
    }
}

/// The events of lines; a torn last line is none.
fn events<'l>(lines: impl Iterator<Item = &'l [u8]>) -> impl Iterator<Item = Value> {
    lines.filter_map(|line| serde_json::from_slice(line).ok())
}

/// A short text without control characters.
fn plain(value: &Value) -> Option<&str> {
    let text = value.as_str()?;
    let short = text.chars().take(MAX_UNSEALED_NAME_CHARS + 1).count() <= MAX_UNSEALED_NAME_CHARS;
    (short && !text.chars().any(char::is_control)).then_some(text)
}

/// The calls of a ledger that began, with or without an end.
fn begun_by(ledger: &[u8]) -> Vec<(String, Value)> {
    let records = events(ledger.split(|byte| *byte == b'\n'));
    let begun = records.filter_map(|record| {
        let effect = &record["effect"];
        let is_call = effect["type"] == "tool_call" || effect["type"] == "hook_call";
        if record["status"] != "started" || !is_call {
            return None;
        }
        let payload = &effect["payload"];
        let item = match &payload["tool"] {
            Value::Null => &payload["item_id"],
            tool => tool,
        };
        let key = record["idempotency_key"].as_str()?.to_owned();
        let named = json!({"call_id": payload["call_id"], "tool": item, "item_id": item,
                           "idempotency_key": key});
        Some((key, named))
    });
    begun.collect()
}

#[cfg(test)]
mod tests;
