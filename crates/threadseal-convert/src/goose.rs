//! Goose sessions: an exported session (`goose session export --format json`), or the JSON Lines of
//! older versions.
//!
//! ```text
//! {"id":S,"working_dir":D,"name":N,"accumulated_input_tokens":N,…,"conversation":[MESSAGE,…]}
//! {"working_dir":D,"description":T,"message_count":N,…}      MESSAGE, one on each line
//! MESSAGE: {"id":I,"role":"user|assistant","created":SECONDS,"content":[PART,…],"metadata":{…}}
//! PART: {"type":"text","text"} | {"type":"thinking","thinking","signature"}
//!       {"type":"toolRequest","id":I,"toolCall":{"status":"success","value":{"name","arguments"}}}
//!       {"type":"toolResponse","id":I,"toolResult":{"status":"success","value":V}|{…,"error":E}}
//! ```
//!
//! A "line" is the number of the message; in JSON Lines it is the line. Line 0 is the part that
//! contains the messages.
//!
//! `spec/scroll-mappings.md` C20 has the table of members.

use super::account::{Account, Tokens};
use super::draft::{
    Draft, Message, ToolCall, ToolResult, call_item, redacted_thinking_item, result_item,
};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, Reading};
use super::thread::{
    Thread, block_item, content_items, count_of, document, each_element, each_line, extend,
    ms_to_ns, part_item, set_texts, set_values, take_rest,
};
use threadseal_core::canon::json::Value;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "goose";
const NS_IN_S: u64 = 1_000_000_000;
/// Later times are in milliseconds, as Goose reads them.
const MAX_SECONDS: u64 = 10_000_000_000;
/// Members of a message, and those that only its row has, with their names in the scroll.
const BESIDE: [(&str, &str); 5] = [
    ("metadata", "metadata"),
    ("session", "session_id"),
    ("row", "row"),
    ("time", "timestamp"),
    ("counted", "tokens"),
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Goose session (goose session export --format json, or .jsonl)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let exported = |document: &Value| {
        let conversation = document.get("conversation").and_then(Value::as_array);
        conversation.is_some() && document.get("working_dir").is_some()
    };
    let message = |line: &Value| {
        line.get("role").is_some() && line.get("created").and_then(Value::as_u64).is_some()
    };
    let headed =
        |line: &Value| line.get("working_dir").is_some() && line.get("message_count").is_some();
    let lines = head.lines.first().is_some_and(headed) || {
        let mut lines = head.lines.iter();
        !head.lines.is_empty() && lines.all(message)
    };
    let why = "an object with `working_dir` and `conversation`";
    let found = head.document.as_ref().is_some_and(exported);
    Mark::when(found, Confidence::Certain, why).or_else(|| {
        let why = "lines with `role` and `created`";
        Mark::when(lines, Confidence::Likely, why)
    })
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut thread = Thread::new(NAME);
    let whole = document(source).ok();
    match whole
        .as_ref()
        .filter(|whole| whole.get("conversation").is_some())
    {
        Some(whole) => {
            let reading = Reading::new(0, whole);
            let list = reading.root().get("conversation").map(Node::read);
            head(reading.root(), &mut thread);
            reading.finish(&mut account);
            let list = list.and_then(Value::as_array).unwrap_or_default();
            each_element(list, &mut account, |root, number| {
                message(root, number, &mut thread)
            });
        }
        None => each_line(source, &mut account, |root, line| {
            if root.peek().get("role").is_none() && root.peek().get("working_dir").is_some() {
                head(root, &mut thread);
                return Ok(());
            }
            message(root, line, &mut thread)
        }),
    }
    Ok(thread.finish(account))
}

/// The same of a session and its messages that were made from rows, each with its line. `spent` are the
/// tokens of its requests, for a session that has no sums.
pub(super) fn map_rows(
    session: Option<&(u64, Value)>,
    messages: &[(u64, Value)],
    spent: Tokens,
    mut account: Account,
) -> Mapped {
    let mut thread = Thread::new(NAME);
    let has_sums = session.is_some_and(|(_, row)| sums(row) != Tokens::default());
    if !has_sums {
        thread.count(spent);
    }
    if let Some((line, row)) = session {
        let reading = Reading::new(*line, row);
        head(reading.root(), &mut thread);
        reading.finish(&mut account);
    }
    for (line, value) in messages {
        let reading = Reading::new(*line, value);
        match message(reading.root(), *line, &mut thread) {
            Ok(()) => reading.finish(&mut account),
            Err(reason) => reading.refuse(&reason, &mut account),
        }
    }
    thread.finish(account)
}

/// The tokens that a session or a request has; `input_tokens` includes those of a cache.
pub(super) fn sums(value: &Value) -> Tokens {
    let part = |name| value.get(name).unwrap_or(&Value::Null);
    let (all, last) = (part("accumulated_usage"), part("usage"));
    let of = |name: &str| {
        let counts = [
            count_of(value, &format!("accumulated_{name}")),
            count_of(all, name),
            count_of(value, name),
            count_of(last, name),
        ];
        counts.into_iter().find(|count| *count > 0)
    };
    let cached = of("cache_read_tokens").or_else(|| of("cache_read_input_tokens"));
    Tokens {
        input: of("input_tokens").unwrap_or_default(),
        output: of("output_tokens").unwrap_or_default(),
        cached: cached.unwrap_or_default(),
        reasoning: 0,
    }
}

/// Facts of the session; its sums of tokens are the only ones.
fn head(root: Node<'_, '_>, thread: &mut Thread) {
    thread.count(sums(root.peek()));
    let mut info = Value::Object(Vec::new());
    take_rest(root, &mut info, &["conversation"]);
    thread.head().set("session_info", info);
}

fn message(root: Node<'_, '_>, number: u64, thread: &mut Thread) -> Result<(), String> {
    let role = match root.told_by("role") {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some(_) => Role::System,
        None => return Err("a message without role".to_owned()),
    };
    let mut draft = Draft::new(role, "");
    let mut items = Vec::new();
    if let Some(content) = root.get("content") {
        match content.items() {
            Some(parts) => {
                for (index, part) in parts.enumerate() {
                    let made_up = format!("call-{number}-{index}");
                    items.extend(read(part, &mut draft, made_up));
                }
            }
            None => items = content_items(content),
        }
    }
    let only_results = !items.is_empty() && items.len() == draft.tool_results.len();
    if role == Role::User && only_results {
        draft.role = Role::Tool;
    }
    draft.messages.push(Message::items(draft.role, items));
    let mut source = thread.source(&[number]);
    set_texts(&mut source, root, &[("id", "id")]);
    set_values(&mut source, root, &BESIDE);
    if let Some(moment) = root.get("created") {
        let time = moment.peek().as_u64();
        draft.timestamp_ns = match time {
            Some(0..=MAX_SECONDS) => time.and_then(|seconds| seconds.checked_mul(NS_IN_S)),
            _ => ms_to_ns(moment.peek()),
        };
        source.set("moment", moment.take());
    }
    thread.push(draft, source);
    Ok(())
}

/// The item of one part; a call or a result is also in the turn's lists.
fn read(part: Node<'_, '_>, draft: &mut Draft, made_up: String) -> Option<Value> {
    match part.peek_str("type").unwrap_or_default() {
        "toolRequest" | "frontendToolRequest" => {
            let id = part.text_of("id").unwrap_or(made_up);
            let call = part.get("toolCall");
            let value = call.and_then(|call| call.get("value"));
            let name = value.and_then(|value| value.text_of("name"));
            let args = value
                .and_then(|value| value.get("arguments"))
                .map(Node::take);
            let mut item = call_item(&id);
            let _ = part.told_by("type");
            if let Some(call) = call {
                extend(&mut item, "error", call.take_of("error"));
                let _ = call.told_by("status");
            }
            if let Some(value) = value {
                take_rest(value, &mut item, &["name", "arguments"]);
            }
            take_rest(part, &mut item, &["type", "id", "toolCall"]);
            draft.tool_calls.push(ToolCall::new(
                id,
                name.unwrap_or_default(),
                args.unwrap_or(Value::Null),
            ));
            Some(item)
        }
        "toolResponse" => {
            let id = part.text_of("id").unwrap_or(made_up);
            let result = part.get("toolResult");
            let failed = result.and_then(|result| result.told_by("status")) == Some("error");
            let body =
                result.and_then(|result| result.get("value").or_else(|| result.get("error")));
            let flagged = body.is_some_and(|body| {
                body.peek().get("isError").and_then(Value::as_bool) == Some(true)
            });
            let mut item = result_item(&id);
            let _ = part.told_by("type");
            take_rest(part, &mut item, &["type", "id", "toolResult"]);
            let response = body.map_or(Value::Null, Node::take);
            draft
                .tool_results
                .push(ToolResult::new(id, !failed && !flagged, response));
            Some(item)
        }
        "redactedThinking" => {
            let _ = part.told_by("type");
            part.text_of("data").map(redacted_thinking_item)
        }
        "thinking" if part.peek_str("thinking").is_some() => {
            let _ = part.told_by("type");
            let text = part.text_of("thinking").unwrap_or_default();
            let mut item = super::draft::thinking_item(text);
            take_rest(part, &mut item, &["type", "thinking"]);
            Some(item)
        }
        "" => Some(part_item(part)),
        _ => block_item(part),
    }
}

#[cfg(test)]
mod tests;
