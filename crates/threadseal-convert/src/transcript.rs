//! Transcripts of threads, of `ThreadSeal` and of Rye: one event in each line.
//!
//! ```text
//! {"timestamp":SECONDS,"thread_id":T,"event_type":E,"payload":P}
//! cognition_in {text,role}   cognition_reasoning {text}   cognition_out {text,model,usage}
//! tool_call_start {tool,call_id,input,…}   tool_call_result {call_id,output,error?,…}
//! hook_call_start {item_id,call_id,input,…}   hook_call_result {call_id,output,error?,…}
//! ```
//! An answer, the reasoning before it and the calls after it are one turn; so is each result. Seals
//! are metadata, as they are of the source and of no turn. Any other event is a turn of role
//! `system`.
//!
//! `spec/scroll-mappings.md` C24 has the table of members.

use super::account::{Account, Reason, Tokens};
use super::draft::{
    Draft, Message, Source, ToolCall, ToolResult, call_item, result_item, text_item, thinking_item,
};
use super::fit::fit_text;
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::Node;
use super::thread::{
    Thread, count_of, each_line, extend, part_item, says_nothing, seconds_ns, set_texts, vendor_of,
};
use threadseal_core::canon::json::Value;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "threadseal";

/// Events about the record itself.
const OF_THE_RECORD: [&str; 4] = ["checkpoint", "key", "delegation", "authority"];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "transcript of a thread of ThreadSeal or Rye (transcript.jsonl)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let is_event = |line: &Value| {
        let text = |name: &str| {
            line.get(name)
                .is_some_and(|member| member.as_str().is_some())
        };
        text("event_type") && text("thread_id") && line.get("payload").is_some()
    };
    let why = "lines with `thread_id`, `event_type` and `payload`";
    Mark::when(head.lines.iter().any(is_event), Confidence::Certain, why)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut record = Record {
        thread: Thread::new(NAME),
        answer: None,
    };
    each_line(source, &mut account, |root, line| record.event(root, line));
    record.close();
    Ok(record.thread.finish(account))
}

struct Record {
    thread: Thread,
    /// The turn of the model that later events extend.
    answer: Option<Answer>,
}

struct Answer {
    draft: Draft,
    source: Source,
    items: Vec<Value>,
    lines: Vec<u64>,
    /// Is the text there? Reasoning comes before it.
    is_said: bool,
}

impl Record {
    fn event(&mut self, root: Node<'_, '_>, line: u64) -> Result<(), String> {
        let kind = root.peek_str("event_type").ok_or("no event type")?;
        if OF_THE_RECORD.contains(&kind) {
            root.discard(Reason::Metadata);
            return Ok(());
        }
        let payload = root
            .get("payload")
            .filter(|payload| payload.peek().as_object().is_some());
        let payload = payload.ok_or("no payload")?;
        root.discard_all(&["salt"], Reason::Metadata);
        match kind {
            "cognition_reasoning" => self.reasons(root, payload, line),
            "cognition_out" => self.answers(root, payload, line),
            "tool_call_start" => self.calls(root, payload, line),
            "tool_call_result" | "hook_call_result" => self.results(root, payload, line),
            "hook_call_start" => self.hook(root, payload, line),
            "cognition_in" => self.asks(root, payload, line),
            _ => self.other(root, payload, line),
        }
        Ok(())
    }

    /// A text for the model. One of the role `tool` is a result that the record has already.
    fn asks(&mut self, root: Node<'_, '_>, payload: Node<'_, '_>, line: u64) {
        if payload.peek_str("role") == Some("tool") {
            root.discard(Reason::Duplicate);
            return;
        }
        self.close();
        let role = match payload.told_by("role") {
            Some("system") => Role::System,
            _ => Role::User,
        };
        let items = payload.text_of("text").map(text_item);
        let mut draft = Draft::new(role, "");
        draft
            .messages
            .push(Message::items(role, items.into_iter().collect()));
        self.push(root, payload, draft, line);
    }

    fn reasons(&mut self, root: Node<'_, '_>, payload: Node<'_, '_>, line: u64) {
        self.close();
        let thought = payload.text_of("text").map(thinking_item);
        let answer = self.open(root, line);
        answer.items.extend(thought);
        answer.keep_rest(root, payload);
    }

    fn answers(&mut self, root: Node<'_, '_>, payload: Node<'_, '_>, line: u64) {
        if self.answer.as_ref().is_some_and(|answer| answer.is_said) {
            self.close();
        }
        let text = payload.text_of("text").filter(|text| !text.is_empty());
        let model = payload.text_of("model").filter(|model| !model.is_empty());
        let truncated = payload.bool_of("truncated") == Some(true);
        let usage = payload
            .get("usage")
            .filter(|usage| usage.peek().as_object().is_some());
        let usage = usage.map(|usage| (tokens(usage.peek()), usage.take()));
        let answer = self.open(root, line);
        answer.is_said = true;
        answer.items.extend(text.map(text_item));
        answer.draft.model.vendor = model.as_deref().map_or("", vendor_of).to_owned();
        answer.draft.model.id = model;
        if truncated {
            answer.source.set("stop_reason", "truncated".into());
        }
        answer.keep_rest(root, payload);
        if let Some((tokens, usage)) = usage {
            answer.source.set("usage", usage);
            answer.source.set_tokens(tokens);
            self.thread.count(tokens);
        }
    }

    /// A call of the model: of the answer before, where nothing came between.
    fn calls(&mut self, root: Node<'_, '_>, payload: Node<'_, '_>, line: u64) {
        let id = payload.text_of("call_id");
        let id = id.unwrap_or_else(|| format!("call-{line}"));
        let name = payload.text_of("tool").unwrap_or_default();
        let input = payload.get("input").map_or(Value::Null, Node::take);
        let mut item = call_item(&id);
        for member in ["item_id", "idempotency_key", "signatures"] {
            extend(&mut item, member, payload.take_of(member));
        }
        let answer = self.open(root, line);
        answer.is_said = true;
        answer.items.push(item);
        answer.draft.tool_calls.push(ToolCall::new(id, name, input));
        answer.keep_rest(root, payload);
    }

    fn results(&mut self, root: Node<'_, '_>, payload: Node<'_, '_>, line: u64) {
        self.close();
        let id = payload.text_of("call_id");
        let id = id.unwrap_or_else(|| format!("call-{line}"));
        let output = payload.get("output").map_or(Value::Null, Node::take);
        let mut item = result_item(&id);
        let failed = payload.peek_str("error").is_some();
        for member in ["error", "unknown", "structured", "duration_ms", "hook"] {
            extend(&mut item, member, payload.take_of(member));
        }
        let mut draft = Draft::new(Role::Tool, "");
        draft
            .tool_results
            .push(ToolResult::new(id, !failed, output));
        draft.messages.push(Message::items(Role::Tool, vec![item]));
        self.push(root, payload, draft, line);
    }

    /// A call by a hook: its author is no model.
    fn hook(&mut self, root: Node<'_, '_>, payload: Node<'_, '_>, line: u64) {
        self.close();
        let id = payload.text_of("call_id");
        let id = id.unwrap_or_else(|| format!("call-{line}"));
        let name = payload.text_of("item_id").unwrap_or_default();
        let input = payload.get("input").map_or(Value::Null, Node::take);
        let mut item = call_item(&id);
        for member in ["hook", "event", "primary", "item_type", "idempotency_key"] {
            extend(&mut item, member, payload.take_of(member));
        }
        let mut draft = Draft::new(Role::Tool, "");
        draft.tool_calls.push(ToolCall::new(id, name, input));
        draft.messages.push(Message::items(Role::Tool, vec![item]));
        self.push(root, payload, draft, line);
    }

    /// Any other event, as it is.
    fn other(&mut self, root: Node<'_, '_>, payload: Node<'_, '_>, line: u64) {
        self.close();
        let mut draft = Draft::new(Role::System, "");
        let items = vec![part_item(payload)];
        draft.messages.push(Message::items(Role::System, items));
        let mut source = self.place(root, &mut draft, &[line]);
        source.set_some("kind", root.told_by("event_type"));
        self.thread.push(draft, source);
    }

    /// The open turn of the model, with another line.
    fn open(&mut self, root: Node<'_, '_>, line: u64) -> &mut Answer {
        let mut answer = match self.answer.take() {
            Some(answer) => answer,
            None => {
                let mut draft = Draft::new(Role::Assistant, "");
                let source = self.place(root, &mut draft, &[]);
                Answer {
                    draft,
                    source,
                    items: Vec::new(),
                    lines: Vec::new(),
                    is_said: false,
                }
            }
        };
        answer.lines.push(line);
        self.answer.insert(answer)
    }

    /// Ends the open turn.
    fn close(&mut self) {
        let Some(mut answer) = self.answer.take() else {
            return;
        };
        let lines = answer.lines.into_iter().map(Value::from).collect();
        answer.source.set("lines", Value::Array(lines));
        let message = Message::items(Role::Assistant, answer.items);
        answer.draft.messages.push(message);
        self.thread.push(answer.draft, answer.source);
    }

    fn push(&mut self, root: Node<'_, '_>, payload: Node<'_, '_>, mut draft: Draft, line: u64) {
        let mut source = self.place(root, &mut draft, &[line]);
        source.set_some("payload", rest(root, payload));
        self.thread.push(draft, source);
    }

    /// The moment of an event, and the thread that it belongs to.
    fn place(&self, root: Node<'_, '_>, draft: &mut Draft, lines: &[u64]) -> Source {
        let mut source = self.thread.source(lines);
        set_texts(&mut source, root, &[("session", "thread_id")]);
        if let Some(time) = root.get("timestamp") {
            draft.timestamp_ns = time.peek().as_f64().and_then(seconds_ns);
            source.set("time", time.take());
        }
        source
    }
}

impl Answer {
    /// Keeps the members of an event that have no place of their own.
    fn keep_rest(&mut self, root: Node<'_, '_>, payload: Node<'_, '_>) {
        if let Some(rest) = rest(root, payload) {
            self.source.set("payload", rest);
        }
    }
}

/// The members of an event's payload that were not taken, as an object.
fn rest(root: Node<'_, '_>, payload: Node<'_, '_>) -> Option<Value> {
    let _ = root.told_by("event_type");
    root.discard_all(&["timestamp", "thread_id"], Reason::Duplicate);
    let members = payload.members().into_iter().flatten();
    let members = members.filter(|(_, part)| !part.is_marked() && !says_nothing(part.peek()));
    let members: Vec<_> = members
        .map(|(name, part)| (fit_text(name).0.into(), part.take()))
        .collect();
    (!members.is_empty()).then_some(Value::Object(members))
}

fn tokens(usage: &Value) -> Tokens {
    Tokens {
        input: count_of(usage, "input_tokens"),
        output: count_of(usage, "output_tokens"),
        cached: count_of(usage, "cached_tokens"),
        reasoning: count_of(usage, "reasoning_tokens"),
    }
}

#[cfg(test)]
mod tests;
