//! Message histories of Pydantic AI: a list of requests and responses (`all_messages_json`).
//!
//! ```text
//! [{"kind":"request","parts":[PART,…],"instructions":S,"timestamp":T,"run_id":R},
//!  {"kind":"response","parts":[PART,…],"usage":{…},"model_name":M,"provider_name":P,
//!   "timestamp":T,"provider_response_id":I,"finish_reason":W},…]
//! PART: {"part_kind":"system-prompt|user-prompt|tool-return|retry-prompt|text|thinking|
//!        tool-call|builtin-tool-call|builtin-tool-return|file","content",…}
//! ```
//!
//! Also one message on each line. A "line" is the number of the message. Parts of a request of one
//! role are one turn.
//!
//! `spec/scroll-mappings.md` C18 has the table of members.

use super::account::{Account, Tokens};
use super::chat::arguments;
use super::draft::{
    Draft, Message, Source, ToolCall, ToolResult, call_item, result_item, text_item, thinking_item,
};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::Node;
use super::thread::{
    Thread, content_items, count_of, document, each_element, each_line, extend, part_item,
    set_texts, set_time, set_values, sum_of, take_rest, unknown_kind,
};
use std::collections::HashSet;
use threadseal_core::canon::json::Value;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "pydantic-ai";

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Pydantic AI message history (all_messages_json)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let list = head.document.as_ref().and_then(Value::as_array);
    let messages = list.unwrap_or(&head.lines);
    let ours = |message: &Value| {
        let kind = message.get("kind").and_then(Value::as_str);
        matches!(kind, Some("request" | "response")) && message.get("parts").is_some()
    };
    let part = |message: &Value| {
        let parts = message.get("parts").and_then(Value::as_array);
        parts.is_some_and(|parts| parts.iter().any(|part| part.get("part_kind").is_some()))
    };
    let found = !messages.is_empty() && messages.iter().all(ours) && messages.iter().any(part);
    let why = "messages of `kind` request or response, parts with `part_kind`";
    Mark::when(found, Confidence::Certain, why)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut history = History {
        thread: Thread::new(NAME),
        instructions: HashSet::new(),
    };
    let document = document(source).ok();
    match document.as_ref().and_then(Value::as_array) {
        Some(list) => each_element(list, &mut account, |root, number| {
            history.message(root, number)
        }),
        None => each_line(source, &mut account, |root, line| {
            history.message(root, line)
        }),
    }
    Ok(history.thread.finish(account))
}

struct History {
    thread: Thread,
    /// Instructions that a turn has.
    instructions: HashSet<String>,
}

impl History {
    fn message(&mut self, root: Node<'_, '_>, number: u64) -> Result<(), String> {
        let is_request = match root.peek_str("kind") {
            Some("request") => true,
            Some("response") => false,
            _ => return Err(unknown_kind("message", root.peek().get("kind"))),
        };
        let _ = root.told_by("kind");
        let mut source = self.source(root, number);
        let mut first = Draft::new(Role::System, "");
        set_time(&mut first, &mut source, root, "timestamp");
        let moment = first.timestamp_ns;
        let mut turns: Vec<Draft> = Vec::new();
        if let Some(text) = root.text_of("instructions")
            && self.instructions.insert(text.clone())
        {
            say(&mut turns, Role::System, text_item(text));
        }
        let parts = root.get("parts").and_then(Node::items);
        for (index, part) in parts.into_iter().flatten().enumerate() {
            let made_up = format!("call-{number}-{index}");
            read(part, &mut turns, is_request, made_up);
        }
        if turns.is_empty() {
            let role = if is_request {
                Role::System
            } else {
                Role::Assistant
            };
            turns.push(empty(role));
        }
        for mut draft in turns {
            draft.timestamp_ns = moment;
            if !is_request {
                draft.model.id = root.text_of("model_name");
                draft.model.vendor = root.text_of("provider_name").unwrap_or_default();
            }
            let own = std::mem::replace(&mut source, self.thread.source(&[number]));
            self.thread.push(draft, own);
        }
        Ok(())
    }

    /// What a message has beside its parts; the first of its turns has it.
    fn source(&mut self, root: Node<'_, '_>, number: u64) -> Source {
        let mut source = self.thread.source(&[number]);
        let names = [
            ("message", "provider_response_id"),
            ("vendor_id", "vendor_id"),
            ("stop_reason", "finish_reason"),
            ("turn", "run_id"),
            ("session", "conversation_id"),
            ("state", "state"),
            ("provider_url", "provider_url"),
        ];
        set_texts(&mut source, root, &names);
        let names = [
            ("metadata", "metadata"),
            ("details", "provider_details"),
            ("vendor_details", "vendor_details"),
        ];
        set_values(&mut source, root, &names);
        if let Some(usage) = root
            .get("usage")
            .filter(|usage| usage.peek().as_object().is_some())
        {
            self.thread.spend(&mut source, tokens(usage.peek()));
            source.set("usage", usage.take());
        }
        source
    }
}

fn empty(role: Role) -> Draft {
    let mut draft = Draft::new(role, "");
    draft.messages.push(Message::items(role, Vec::new()));
    draft
}

/// Adds an item to the last turn if it has that role, else to a new one.
fn say(turns: &mut Vec<Draft>, role: Role, item: Value) -> &mut Draft {
    if turns.last().is_none_or(|last| last.role != role) {
        turns.push(empty(role));
    }
    let last = turns.len() - 1;
    let draft = &mut turns[last];
    if let Some(Value::Array(items)) = draft.messages.first_mut().map(|first| &mut first.content) {
        items.push(item);
    }
    draft
}

/// One part of a message.
fn read(part: Node<'_, '_>, turns: &mut Vec<Draft>, is_request: bool, made_up: String) {
    let kind = part.peek_str("part_kind").unwrap_or_default();
    let speaker = if is_request {
        Role::User
    } else {
        Role::Assistant
    };
    match kind {
        "system-prompt" => texts(part, turns, Role::System),
        "user-prompt" => texts(part, turns, Role::User),
        "text" => texts(part, turns, Role::Assistant),
        "thinking" => {
            let _ = part.told_by("part_kind");
            let mut item = thinking_item(part.text_of("content").unwrap_or_default());
            take_rest(part, &mut item, &["part_kind", "content"]);
            say(turns, Role::Assistant, item);
        }
        "tool-call" | "builtin-tool-call" => call(part, turns, made_up),
        "tool-return" | "builtin-tool-return" => answer(part, turns, is_request, made_up),
        "retry-prompt" if part.peek_str("tool_name").is_some() => {
            answer(part, turns, is_request, made_up);
        }
        "retry-prompt" => texts(part, turns, Role::User),
        _ => {
            say(turns, speaker, part_item(part));
        }
    }
}

/// A part of content: a text, or a list of texts and files.
fn texts(part: Node<'_, '_>, turns: &mut Vec<Draft>, role: Role) {
    let _ = part.told_by("part_kind");
    let mut items = part.get("content").map(content_items).unwrap_or_default();
    if items.is_empty() {
        items.push(text_item(""));
    }
    if let Some(first) = items.first_mut() {
        take_rest(part, first, &["part_kind", "content"]);
    }
    for item in items {
        say(turns, role, item);
    }
}

fn call(part: Node<'_, '_>, turns: &mut Vec<Draft>, made_up: String) {
    let _ = part.told_by("part_kind");
    let id = part.text_of("tool_call_id").unwrap_or(made_up);
    let name = part.text_of("tool_name").unwrap_or_default();
    let args = part.get("args").map_or(Value::Null, arguments);
    let mut item = call_item(&id);
    let told = ["part_kind", "tool_call_id", "tool_name", "args", "id"];
    take_rest(part, &mut item, &told);
    extend(&mut item, "item", part.take_of("id"));
    say(turns, Role::Assistant, item)
        .tool_calls
        .push(ToolCall::new(id, name, args));
}

fn answer(part: Node<'_, '_>, turns: &mut Vec<Draft>, is_request: bool, made_up: String) {
    let retry = part.peek_str("part_kind") == Some("retry-prompt");
    let _ = part.told_by("part_kind");
    let id = part.text_of("tool_call_id").unwrap_or(made_up);
    let response = part.get("content").map_or(Value::Null, Node::take);
    let failed = retry || matches!(part.peek_str("outcome"), Some("failed" | "denied"));
    let mut item = result_item(&id);
    extend(
        &mut item,
        "name",
        part.text_of("tool_name").map(Value::from),
    );
    take_rest(
        part,
        &mut item,
        &["part_kind", "tool_call_id", "tool_name", "content"],
    );
    let role = if is_request {
        Role::Tool
    } else {
        Role::Assistant
    };
    say(turns, role, item)
        .tool_results
        .push(ToolResult::new(id, !failed, response));
}

fn tokens(usage: &Value) -> Tokens {
    let details = usage.get("details");
    let detail = |name: &str| {
        details
            .map(|details| count_of(details, name))
            .unwrap_or_default()
    };
    Tokens {
        input: sum_of(usage, &["input_tokens", "request_tokens"]),
        output: sum_of(usage, &["output_tokens", "response_tokens"]),
        cached: count_of(usage, "cache_read_tokens"),
        reasoning: detail("reasoning_tokens"),
    }
}

#[cfg(test)]
mod tests;
