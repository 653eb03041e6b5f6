//! Claude Code sessions: JSON Lines that form a tree.
//!
//! ```text
//! {"type":"user","uuid":U,"parentUuid":P|null,"sessionId":S,"timestamp":T,"isSidechain":false,
//!  "message":{"role":"user","content":TEXT | [BLOCK,…]},"toolUseResult":{…}?, …}
//! {"type":"assistant", … "requestId":R,"message":{"id":M,"model":N,"content":[BLOCK,…],
//!  "stop_reason":W,"usage":{…}}}                    one message may span several lines
//! {"type":"system"|"summary"|"attachment"|"progress"|"queue-operation"|"last-prompt"|…}
//! ```
//!
//! Turns are in the order of the file; `parent` keeps the tree. Lines of one `message.id` are one
//! turn, in the place of the first. Its usage is that of the last line and is counted once. A
//! subagent's messages are turns with `sidechain`. They have lines of their own (also in a file of
//! their own), or are inside `progress` lines.
//!
//! `spec/scroll-mappings.md` §2 has the table of members.

mod blocks;
mod other;
mod pending;
mod requests;
#[cfg(test)]
mod tests;

use super::account::{Account, Reason, Tokens};
use super::build::Build;
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, Reading, json_lines};
use super::thread::unknown_kind;
use other::Survey;
use pending::Pending;
use std::collections::{HashMap, HashSet};
use threadseal_core::canon::json::{Value, parse};
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "claude-code";
const VENDOR: &str = "anthropic";
/// Kinds of records that the table names.
const KINDS: [&str; 38] = [
    "user",
    "assistant",
    "system",
    "summary",
    "attachment",
    "progress",
    "queue-operation",
    "last-prompt",
    "file-history-snapshot",
    "api-request-shape",
    "api-request-blob",
    "api-request",
    "custom-title",
    "ai-title",
    "agent-name",
    "tag",
    "pr-link",
    "derived-from",
    "continued-in",
    "ended-by-model",
    "mode",
    "permission-mode",
    "tools-used",
    "cost-state",
    "atis-latch",
    "isolation-latch",
    "agent-setting",
    "agent-color",
    "worktree-state",
    "relocated",
    "hybrid-organization",
    "frame-link",
    "dev-mods",
    "data-flow-records",
    "data-flow-incomplete",
    "artifact-comment-monitor",
    "artifact-autoreact-ledger",
    "attribution-snapshot",
];
/// Of these, the ones that only keep the state of the program: from here on in [`KINDS`].
const FIRST_STATE: &str = "mode";

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Claude Code session (~/.claude/projects/*/*.jsonl)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let has = |line: &Value, name: &str| line.get(name).is_some();
    let speaks = |line: &Value| {
        let message = line.get("message");
        let theirs = message.is_some_and(|message| message.get("parts").is_some());
        matches!(kind_of(line), Some("user" | "assistant")) && message.is_some() && !theirs
    };
    let whole = |line: &Value| {
        speaks(line)
            && ["sessionId", "uuid", "parentUuid", "timestamp"]
                .iter()
                .all(|name| has(line, name))
    };
    let ours = |line: &Value| {
        let kind = kind_of(line);
        let place = has(line, "sessionId")
            || has(line, "parentUuid")
            || (has(line, "timestamp") && has(line, "type"));
        let marked =
            has(line, "leafUuid") || (has(line, "sessionId") && kind == Some("queue-operation"));
        (speaks(line) && place && !has(line, "session_id"))
            || marked
            || kind == Some("file-history-snapshot")
            || (has(line, "parentUuid") && has(line, "uuid"))
    };
    let loglines = |document: &Value| document.get("loglines").is_some_and(is_array);
    let why = "messages with `sessionId`, `uuid`, `parentUuid` and `timestamp`";
    Mark::when(head.lines.iter().any(whole), Confidence::Certain, why).or_else(|| {
        let some = head.lines.iter().any(ours) || head.document.as_ref().is_some_and(loglines);
        let why = "messages with some members of a Claude Code session";
        Mark::when(some, Confidence::Likely, why)
    })
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut session = Session::default();
    let holds_lines = |document: &Value| document.get("loglines").is_some_and(is_array);
    match parse(source).ok().filter(holds_lines) {
        Some(document) => whole(&document, &mut session, &mut account),
        None => {
            json_lines(source, &mut Account::default(), |_, line, value| {
                session.survey.record(line, value);
            });
            json_lines(source, &mut account, |account, line, value| {
                session.record(account, line, value);
            });
        }
    }
    Ok(session.finish(account))
}

/// The exported form of some tools: one object whose `loglines` are the lines.
fn whole(document: &Value, session: &mut Session, account: &mut Account) {
    let lines = document.get("loglines").and_then(Value::as_array);
    let numbered = || (1..).zip(lines.unwrap_or_default());
    for (line, value) in numbered() {
        session.survey.record(line, value);
    }
    let reading = Reading::new(0, document);
    if let Some(lines) = reading.root().get("loglines") {
        let _ = lines.read();
    }
    reading.finish(account);
    for (line, value) in numbered() {
        account.records += 1;
        if value.as_object().is_some() {
            session.record(account, line, value);
        } else {
            account.unmapped(line, "not a JSON object");
        }
    }
}

/// The state while a session is read.
#[derive(Default)]
struct Session {
    survey: Survey,
    build: Build,
    tokens: Tokens,
    /// Messages of the model that a later line extends, by their id: place and turn.
    open: HashMap<String, (usize, Pending)>,
    /// Records by `uuid`: their fingerprint.
    seen: HashMap<String, Digest>,
    /// The parent of each record that made no turn.
    passed_over: HashMap<String, Option<String>>,
    /// The hashes of the shapes of requests that were read.
    shapes: HashSet<String>,
}

/// A turn to which a line was added.
struct Written {
    place: usize,
    pending: Pending,
    /// The id of its message.
    id: Option<String>,
    /// Whether the line is its first.
    is_new: bool,
}

impl Session {
    fn record(&mut self, account: &mut Account, line: u64, value: &Value) {
        let reading = Reading::new(line, value);
        let root = reading.root();
        if self.repeats(value) {
            root.discard(Reason::Duplicate);
        } else if let Err(reason) = self.map_record(root, line) {
            self.pass_over(root);
            return reading.refuse(&reason, account);
        }
        reading.finish(account);
    }

    /// Maps a record; an error is why it cannot be mapped.
    fn map_record(&mut self, root: Node<'_, '_>, line: u64) -> Result<(), String> {
        let Some(kind) = kind_of(root.peek()).filter(|kind| KINDS.contains(kind)) else {
            return Err(unknown_kind("record", root.peek().get("type")));
        };
        match kind {
            "user" | "assistant" => {
                let message = root.peek().get("message");
                if message.is_none_or(|message| message.as_object().is_none()) {
                    return Err("no message".to_owned());
                }
                if let Some(written) = self.message(root, root, line, None) {
                    self.leave(written, line);
                }
            }
            "file-history-snapshot" => self.drop_whole(root, Reason::Metadata),
            "progress" => self.progress(root, line)?,
            "api-request-shape" => self.shape(root, line),
            "api-request-blob" => self.blob(root, line),
            "api-request" => self.request(root, line),
            "custom-title" | "ai-title" | "agent-name" | "tag" => self.title(kind, root, line),
            "pr-link" | "derived-from" | "continued-in" | "ended-by-model" => {
                self.members(kind, root, line);
            }
            state if is_state(state) => self.drop_whole(root, Reason::Metadata),
            other => self.other(other, root, line),
        }
        Ok(())
    }

    /// Reads a line of a message. `record` has the message, `outer` is the line that contains it.
    ///
    /// The caller must then call [`Self::leave`].
    fn message(
        &mut self,
        outer: Node<'_, '_>,
        record: Node<'_, '_>,
        line: u64,
        call: Option<String>,
    ) -> Option<Written> {
        let message = record.get("message")?;
        let role = match kind_of(record.peek()) {
            Some("assistant") => Role::Assistant,
            _ => Role::User,
        };
        let _ = record.told_by("type");
        let _ = (message.told_by("role"), message.told_by("type"));
        let is_answer = role == Role::Assistant;
        let id = is_answer.then(|| message.text_of("id")).flatten();
        let known = id.as_ref().and_then(|id| self.open.remove(id));
        let is_new = known.as_ref().is_none_or(|(_, turn)| !turn.turn.has_room());
        let (place, mut pending) = match known {
            Some(known) if !is_new => known,
            full => {
                if let Some((place, mut full)) = full {
                    full.turn.tokens = Tokens::default();
                    self.close(place, full);
                }
                (self.build.reserve(), Pending::new(role, line))
            }
        };
        pending.envelope(record, line, self.parent_of(outer));
        let told_here = |id| self.survey.tells_usage(id, line);
        let counts = id.as_deref().is_none_or(told_here);
        pending.message(message, line, counts);
        pending.beside(record, line);
        let source = &mut pending.turn.source;
        if let Some(call) = call {
            source.set("sidechain", true.into());
            source.set("call", call.into());
        }
        source.set_some("message", id.as_deref());
        Some(Written {
            place,
            pending,
            id,
            is_new,
        })
    }

    /// Keeps a turn open while later lines may extend it.
    fn leave(&mut self, written: Written, line: u64) {
        let Written {
            place, pending, id, ..
        } = written;
        match id.filter(|id| !self.survey.ends(id, line)) {
            Some(id) => {
                self.open.insert(id, (place, pending));
            }
            None => self.close(place, pending),
        }
    }

    /// Adds a turn that no other line extends.
    fn add(&mut self, turn: Pending) {
        let place = self.build.reserve();
        self.close(place, turn);
    }

    fn close(&mut self, place: usize, turn: Pending) {
        self.tokens.add(turn.turn.tokens);
        self.build.set(place, &turn.into_draft());
    }

    /// The nearest ancestor of a record that made a turn.
    fn parent_of(&self, record: Node<'_, '_>) -> Option<String> {
        let parent = record.get("parentUuid")?;
        match self.passed_over.get(parent.peek().as_str()?) {
            Some(ancestor) => {
                parent.discard(Reason::Metadata);
                ancestor.clone()
            }
            None => parent.text(),
        }
    }

    /// Remembers the parent for the children of a record that makes no turn.
    fn pass_over(&mut self, record: Node<'_, '_>) {
        if let Some(id) = record.peek_str("uuid") {
            let parent = self.parent_of(record);
            self.passed_over.insert(id.to_owned(), parent);
        }
    }

    fn drop_whole(&mut self, record: Node<'_, '_>, reason: Reason) {
        self.pass_over(record);
        record.discard(reason);
    }

    /// Whether this very record was read before.
    fn repeats(&mut self, record: &Value) -> bool {
        let Some(id) = record.get("uuid").and_then(Value::as_str) else {
            return false;
        };
        let fingerprint = Digest::of(&python::rye(record));
        match self.seen.get(id) {
            Some(first) => *first == fingerprint,
            None => {
                self.seen.insert(id.to_owned(), fingerprint);
                false
            }
        }
    }

    fn finish(mut self, mut account: Account) -> Mapped {
        for (place, turn) in std::mem::take(&mut self.open).into_values() {
            self.close(place, turn);
        }
        account.tokens.add(self.tokens);
        self.build.finish(account)
    }
}

/// The kind of a record: `type`, or without it the role of its message.
fn kind_of(record: &Value) -> Option<&str> {
    match record.get("type") {
        Some(kind) => kind.as_str(),
        None => record.get("message")?.get("role")?.as_str(),
    }
}

/// Whether records of this kind only keep the state of the program.
fn is_state(kind: &str) -> bool {
    let place = |kind: &str| KINDS.iter().position(|known| *known == kind);
    place(kind).is_some_and(|found| Some(found) >= place(FIRST_STATE))
}

fn is_array(value: &Value) -> bool {
    value.as_array().is_some()
}
