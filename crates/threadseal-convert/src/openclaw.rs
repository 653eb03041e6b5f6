//! Telemetry of `OpenClaw`: JSON Lines of events. Its session files are those of pi.
//!
//! ```text
//! {"type":"message.in","channel","from","content","timestamp":MS,…}
//! {"type":"agent.start","sessionKey":S,"agentId":A,"prompt":P,"messages":[MESSAGE,…]}
//! {"type":"tool.start","toolName":N,"params":{…},…}   {"type":"tool.end","toolName","success",…}
//! {"type":"message.sending"|"message.out","channel","to","content",…}   {"type":"llm.usage",…}
//! ```
//!
//! MESSAGE is a message of pi. An event repeats the conversation so far: each message is carried
//! once. A text or a call of an event is carried if no message has it.
//!
//! `spec/scroll-mappings.md` C19 has the table of members.

use super::account::{Account, Reason};
use super::draft::{Draft, Message, Source, ToolCall, call_item, text_item};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::pi::message_draft;
use super::repeats::RepeatedTexts;
use super::source::{Node, json_lines};
use super::thread::{
    Thread, each_line, fingerprint, ms_to_ns, part_item, set_texts, take_rest, unknown_kind,
};
use std::collections::{HashMap, HashSet};
use threadseal_core::canon::json::Value;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "openclaw";
/// Members of an event that the source item has by these names.
const FACTS: [(&str, &str); 4] = [
    ("session", "sessionKey"),
    ("agent", "agentId"),
    ("run", "runId"),
    ("channel", "channel"),
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "OpenClaw telemetry (JSON Lines); its sessions are read as pi",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let word = |line: &Value, name: &str| {
        let word = line.get(name).and_then(Value::as_str);
        word.map(str::to_owned)
    };
    let ours = |line: &Value| {
        let kind = word(line, "type").unwrap_or_default();
        let known = [
            "agent.start",
            "agent.end",
            "tool.start",
            "tool.end",
            "llm.usage",
        ];
        known.contains(&kind.as_str()) && word(line, "sessionKey").is_some()
    };
    let why = "events like `agent.start` with `sessionKey`";
    Mark::when(head.lines.iter().any(ours), Confidence::Certain, why)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut telemetry = Telemetry {
        thread: Thread::new(NAME),
        said: RepeatedTexts::default(),
        listed: HashSet::new(),
        carried: HashSet::new(),
        calls: HashMap::new(),
    };
    json_lines(source, &mut Account::default(), |_, _, event| {
        telemetry.survey(event);
    });
    each_line(source, &mut account, |root, line| {
        telemetry.event(root, line)
    });
    Ok(telemetry.thread.finish(account))
}

struct Telemetry {
    thread: Thread,
    /// Texts of messages.
    said: RepeatedTexts,
    /// The messages that the first pass and the second one read.
    listed: HashSet<Digest>,
    carried: HashSet<Digest>,
    /// How many calls of messages no event repeated yet.
    calls: HashMap<Digest, u64>,
}

impl Telemetry {
    /// First pass: texts and calls of the messages.
    fn survey(&mut self, event: &Value) {
        let messages = event.get("messages").and_then(Value::as_array);
        for message in messages.into_iter().flatten() {
            if !self.listed.insert(fingerprint(message)) {
                continue;
            }
            let content = message.get("content");
            if let Some(text) = content.and_then(Value::as_str) {
                self.said.note(text);
            }
            for block in content.and_then(Value::as_array).into_iter().flatten() {
                if let Some(text) = block.get("text").and_then(Value::as_str) {
                    self.said.note(text);
                }
                if block.get("type").and_then(Value::as_str) == Some("toolCall") {
                    let key = call_key(block.get("name"), block.get("arguments"));
                    *self.calls.entry(key).or_default() += 1;
                }
            }
        }
    }

    fn event(&mut self, root: Node<'_, '_>, line: u64) -> Result<(), String> {
        let kind = root.peek_str("type").unwrap_or_default();
        match kind {
            "agent.start" | "agent.end" => {
                let messages = root.get("messages").and_then(Node::items);
                for message in messages.into_iter().flatten() {
                    self.message(root, message, line);
                }
                self.text(root, "prompt", Role::User, line);
            }
            "message.in" => self.text(root, "content", Role::User, line),
            "message.out" | "message.sending" => {
                self.text(root, "content", Role::Assistant, line);
            }
            "tool.start" => self.call(root, line),
            "tool.end" | "llm.usage" => self.fact(root, line, kind),
            _ if kind.contains('.') => self.fact(root, line, kind),
            _ => return Err(unknown_kind("event", root.peek().get("type"))),
        }
        Ok(())
    }

    fn message(&mut self, root: Node<'_, '_>, message: Node<'_, '_>, line: u64) {
        if message.peek().as_object().is_none() {
            return;
        }
        if !self.carried.insert(fingerprint(message.peek())) {
            return message.discard(Reason::Duplicate);
        }
        let mut source = self.source(root, line);
        let draft = message_draft(message, line, &mut source, &mut self.thread);
        self.thread.push(draft, source);
    }

    /// A text of an event, unless a message or an earlier event has it.
    fn text(&mut self, root: Node<'_, '_>, member: &str, role: Role, line: u64) {
        let text = root.get(member);
        let said = text
            .and_then(|text| text.peek().as_str())
            .unwrap_or_default();
        let repeats = said.is_empty() || self.said.has(said);
        let told = ["contentLength", "promptLength", "durationMs", "success"];
        root.discard_all(&told, Reason::Metadata);
        if repeats {
            if let Some(text) = text {
                text.discard(Reason::Duplicate);
            }
            for (_, member) in root.members().into_iter().flatten() {
                if !member.is_marked() {
                    member.discard(Reason::Metadata);
                }
            }
            return;
        }
        self.said.note(said);
        let mut draft = Draft::new(role, "");
        let items = text.and_then(Node::text).map(text_item);
        draft
            .messages
            .push(Message::items(role, items.into_iter().collect()));
        let mut source = self.source(root, line);
        if let Some(moment) = root.get("timestamp") {
            draft.timestamp_ns = ms_to_ns(moment.peek());
            source.set("moment", moment.take());
        }
        let mut rest = Value::Object(Vec::new());
        take_rest(root, &mut rest, &[&told[..], &except(member)].concat());
        source.set("event", rest);
        self.thread.push(draft, source);
    }

    /// A call, unless a message makes it.
    fn call(&mut self, root: Node<'_, '_>, line: u64) {
        let key = call_key(root.peek().get("toolName"), root.peek().get("params"));
        if let Some(left) = self.calls.get_mut(&key).filter(|left| **left > 0) {
            *left -= 1;
            return root.discard(Reason::Duplicate);
        }
        let id = root.text_of("toolCallId");
        let id = id.unwrap_or_else(|| format!("call-{line}"));
        let name = root.text_of("toolName").unwrap_or_default();
        let args = root.get("params").map_or(Value::Null, Node::take);
        let mut draft = Draft::new(Role::Tool, "");
        let items = vec![call_item(&id)];
        draft.messages.push(Message::items(Role::Tool, items));
        draft.tool_calls.push(ToolCall::new(id, name, args));
        let source = self.source(root, line);
        let _ = root.told_by("type");
        self.thread.push(draft, source);
    }

    /// Any other event: a turn of role `system`.
    fn fact(&mut self, root: Node<'_, '_>, line: u64, kind: &str) {
        let mut draft = Draft::new(Role::System, "");
        let items = vec![part_item(root)];
        draft.messages.push(Message::items(Role::System, items));
        let mut source = self.thread.source(&[line]);
        source.set("kind", kind.into());
        self.thread.push(draft, source);
    }

    fn source(&self, root: Node<'_, '_>, line: u64) -> Source {
        let mut source = self.thread.source(&[line]);
        set_texts(&mut source, root, &FACTS);
        let _ = root.told_by("type");
        source
    }
}

fn except(member: &str) -> Vec<&str> {
    let mut names: Vec<&str> = FACTS.iter().map(|(_, theirs)| *theirs).collect();
    names.extend(["type", "timestamp", "messages", member]);
    names
}

fn call_key(name: Option<&Value>, args: Option<&Value>) -> Digest {
    let parts = [name, args].map(|part| part.cloned().unwrap_or(Value::Null));
    fingerprint(&Value::Array(parts.into()))
}

#[cfg(test)]
mod tests;
