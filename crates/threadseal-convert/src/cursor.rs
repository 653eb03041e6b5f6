//! Sessions of Cursor: transcripts of its agent, and the rows of its two kinds of databases.
//!
//! ```text
//! {"role":"user|assistant","message":{"content":[BLOCK,…]}}     {"type":"turn_ended",…}     transcripts
//! cursorDiskKV  composerData:C  {"fullConversationHeadersOnly":[{"bubbleId","type"},…],"name",…}
//!               bubbleId:C:B    {"type":1|2,"text","thinking":{"text"},"toolFormerData":{…},"createdAt",…}
//! meta          0               hex of {"agentId","latestRootBlobId","name","lastUsedModel",…}
//! blobs         SHA-256         {"role","content":[BLOCK,…]}; the root: protobuf, whose field 1 lists messages
//! ```
//!
//! A "line" is the line of the transcript, or that of the log of rows. Cursor documents none of this; what
//! does not fit is not mapped.
//!
//! `spec/scroll-mappings.md` C23 has the table.

use super::account::{Account, Reason, Tokens, object};
use super::build::rfc3339_ns;
use super::chat::{Chat, arguments, held_json, rest};
use super::database_rows::{Row, unknown};
use super::draft::{
    Draft, Message, ToolCall, ToolResult, call_item, result_item, text_item, thinking_item,
};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, Reading, read_json};
use super::thread::{
    Thread, count_of, each_line, extend, ms_to_ns, says_nothing, set_texts, take_rest,
};
use std::collections::HashMap;
use threadseal_core::canon::json::Value;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_formats::scroll::Role;

const NAME: &str = "cursor";
/// The head of an entry of the root: field 1, a text of 32 bytes.
const ENTRY: [u8; 2] = [0x0a, 32];
const DIGEST_BYTES: usize = 32;
/// Members of a bubble that a rule of its own reads.
const BUBBLE: [&str; 10] = [
    "type",
    "text",
    "richText",
    "bubbleId",
    "createdAt",
    "thinking",
    "toolFormerData",
    "tokenCount",
    "modelInfo",
    "requestId",
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Cursor agent transcript (agent-transcripts/*.jsonl)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let is_message = |line: &Value| {
        let message = line.get("message");
        let content = message.and_then(|message| message.get("content"));
        let names = line.as_object().unwrap_or_default();
        let is_bare = names.iter().all(|(name, _)| {
            let name = name.as_str();
            matches!(name, Some("role" | "message" | "timestamp"))
        });
        line.get("role").is_some() && content.is_some() && is_bare
    };
    let is_ours = head.lines.first().is_some_and(is_message);
    let why = "lines of `role` and `message` with `content`";
    Mark::when(is_ours, Confidence::Likely, why)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut thread = Thread::new(NAME);
    each_line(source, &mut account, |root, line| {
        let Some(message) = root.get("message") else {
            // The end of a turn, and the like.
            return match root.told_by("type") {
                Some(_) => {
                    root.discard(Reason::Metadata);
                    Ok(())
                }
                None => Err("neither a message nor an event".to_owned()),
            };
        };
        let role = root.peek_str("role").unwrap_or_default().to_owned();
        let _ = root.told_by("role");
        let mut chat = Chat::read(message, &format!("call-{line}"));
        chat.role = role;
        let mut draft = Draft::new(chat.turn_role(), "");
        let mut source = thread.source(&[line]);
        set_texts(&mut source, root, &[("time", "timestamp")]);
        source.set_some("message", rest(message, &[]));
        chat.say(&mut draft);
        thread.push(draft, source);
        Ok(())
    });
    Ok(thread.finish(account))
}

/// The turns of a composer.
///
/// # Errors
/// Kind `InvalidInput` if nothing of the rows is a conversation.
pub(super) fn map_composer(rows: Vec<Row>, mut account: Account) -> Result<Mapped, Error> {
    let mut composer = None;
    let mut bubbles: HashMap<String, (u64, Value)> = HashMap::new();
    for row in rows {
        let key = row.text("key").unwrap_or_default().to_owned();
        let mut words = key.splitn(3, ':');
        let (word, _, last) = (words.next(), words.next(), words.next());
        let value = json_of(&row);
        match (word, last, value) {
            (Some("composerData"), None, Some(value)) => composer = Some((row.line, value)),
            (Some("bubbleId"), Some(bubble), Some(value)) => {
                bubbles.insert(bubble.to_owned(), (row.line, value));
            }
            (Some("messageRequestContext"), ..) => {
                account.drop_part(row.line, "", Reason::Metadata);
            }
            _ if row.table == "composerHeaders" => {
                account.drop_part(row.line, "", Reason::Metadata);
            }
            _ => unknown(&row, &mut account),
        }
    }
    if composer.is_none() && bubbles.is_empty() {
        let message = "the rows have no conversation that is understood, so its turns are unknown";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    let mut thread = Thread::new(NAME);
    if let Some((line, composer)) = &composer {
        let mut facts = object([]);
        for name in [
            "name",
            "subtitle",
            "createdAt",
            "lastUpdatedAt",
            "modelConfig",
        ] {
            extend(&mut facts, name, composer.get(name).cloned());
        }
        thread.head().set("session_info", facts);
        account.drop_part(*line, "/row/value", Reason::Metadata);
    }
    for (line, bubble) in ordered(composer.as_ref(), bubbles, &mut account) {
        let reading = Reading::new(line, &bubble);
        bubble_turn(reading.root(), line, &mut thread);
        reading.finish(&mut account);
    }
    Ok(thread.finish(account))
}

/// The bubbles in the order of the composer's list, or inside of it; without a list, by time.
fn ordered(
    composer: Option<&(u64, Value)>,
    mut bubbles: HashMap<String, (u64, Value)>,
    account: &mut Account,
) -> Vec<(u64, Value)> {
    let list = |name| composer.and_then(|(_, value)| value.get(name)?.as_array());
    if let Some(inside) = list("conversation").filter(|list| !list.is_empty()) {
        let line = composer.map_or(0, |(line, _)| *line);
        return inside.iter().map(|bubble| (line, bubble.clone())).collect();
    }
    let headers = list("fullConversationHeadersOnly").filter(|list| !list.is_empty());
    let Some(headers) = headers else {
        let mut all: Vec<(u64, Value)> = bubbles.into_values().collect();
        all.sort_by_key(|(line, bubble)| (time_of(bubble), *line));
        return all;
    };
    let ids = headers
        .iter()
        .filter_map(|header| header.get("bubbleId").and_then(Value::as_str));
    let found = ids.filter_map(|id| bubbles.remove(id)).collect();
    // A list that names other bubbles is that of a conversation that went back.
    for (line, _) in bubbles.into_values() {
        account.drop_part(line, "", Reason::Superseded);
    }
    found
}

/// The JSON of a value that is stored as text or as bytes.
fn json_of(row: &Row) -> Option<Value> {
    let stored = row.columns.get("value")?;
    let text = match stored.get("blob") {
        Some(blob) => encoding::parse_base64(blob.as_str()?)?,
        None => stored.as_str()?.as_bytes().to_vec(),
    };
    let value = read_json(&text).ok()?;
    value.as_object()?;
    Some(value)
}

fn time_of(bubble: &Value) -> Option<u64> {
    let time = bubble.get("createdAt")?;
    match time.as_str() {
        Some(text) => rfc3339_ns(text),
        None => ms_to_ns(time),
    }
}

fn bubble_turn(bubble: Node<'_, '_>, line: u64, thread: &mut Thread) {
    let value = bubble.peek();
    let role = match value.get("type").and_then(Value::as_u64) {
        Some(1) => Role::User,
        Some(2) => Role::Assistant,
        _ => Role::System,
    };
    let mut draft = Draft::new(role, "");
    let mut items = Vec::new();
    if let Some(thought) = bubble.get("thinking") {
        let text = thought.text_of("text").or_else(|| thought.text());
        items.extend(text.filter(|text| !text.is_empty()).map(thinking_item));
        let mut beside = object([]);
        take_rest(thought, &mut beside, &["text"]);
        if let Some(item) = items.last_mut() {
            extend(
                item,
                "beside",
                Some(beside).filter(|rest| !says_nothing(rest)),
            );
        }
    }
    let text = bubble.text_of("text").filter(|text| !text.is_empty());
    items.extend(text.map(text_item));
    if let Some(tool) = bubble
        .get("toolFormerData")
        .filter(|tool| !says_nothing(tool.peek()))
    {
        call(tool, line, &mut draft, &mut items);
    }
    draft.messages.push(Message::items(role, items));
    let mut source = thread.source(&[line]);
    set_texts(
        &mut source,
        bubble,
        &[("id", "bubbleId"), ("request", "requestId")],
    );
    draft.timestamp_ns = time_of(value);
    if let Some(time) = bubble.get("createdAt") {
        source.set("time", time.take());
    }
    let model = bubble.get("modelInfo");
    draft.model.id = model.and_then(|model| model.text_of("modelName"));
    if let Some(usage) = bubble.get("tokenCount") {
        let tokens = Tokens {
            input: count_of(usage.peek(), "inputTokens"),
            output: count_of(usage.peek(), "outputTokens"),
            ..Tokens::default()
        };
        thread.spend(&mut source, tokens);
        source.set("usage", usage.take());
    }
    // The same text with its format.
    bubble.discard_all(&["richText"], Reason::View);
    bubble.discard_all(&["type"], Reason::Form);
    let others = bubble.members().into_iter().flatten();
    for (name, other) in others {
        if !BUBBLE.iter().any(|known| *name == **known) {
            // States of the editor and copies of files.
            other.discard(Reason::Metadata);
        }
    }
    thread.push(draft, source);
}

/// A call of a tool, and its result.
fn call(tool: Node<'_, '_>, line: u64, draft: &mut Draft, items: &mut Vec<Value>) {
    let id = tool.text_of("toolCallId").filter(|id| !id.is_empty());
    let id = id.unwrap_or_else(|| format!("call-{line}"));
    let name = tool.text_of("name").unwrap_or_default();
    let given = ["rawArgs", "params"].iter().find_map(|name| {
        let args = tool.get(name)?;
        (!says_nothing(args.peek())).then(|| arguments(args))
    });
    let status = tool.text_of("status");
    let mut item = call_item(&id);
    extend(&mut item, "status", status.clone().map(Value::from));
    items.push(item);
    draft.tool_calls.push(ToolCall::new(
        id.clone(),
        name,
        given.unwrap_or(Value::Null),
    ));
    let answers = ["result", "error"].map(|name| tool.get(name));
    let is_there = |answer: &Node<'_, '_>| !says_nothing(answer.peek());
    let answer = answers.into_iter().flatten().find(is_there);
    if let Some(answer) = answer {
        let held = answer.peek().as_str().and_then(held_json);
        let response = match held {
            Some(held) => answer.take_held(&held),
            None => answer.take(),
        };
        let ok = !matches!(status.as_deref(), Some("error" | "cancelled"));
        items.push(result_item(&id));
        draft.tool_results.push(ToolResult::new(id, ok, response));
    }
    for (_, other) in tool.members().into_iter().flatten() {
        other.discard(Reason::Metadata);
    }
}

/// The turns of a chat of `cursor-agent`.
///
/// # Errors
/// Kind `InvalidInput` if its root is not understood.
pub(super) fn map_chat(rows: Vec<Row>, mut account: Account) -> Result<Mapped, Error> {
    let mut blobs: HashMap<String, (u64, Vec<u8>)> = HashMap::new();
    let mut facts = None;
    for row in rows {
        match row.table.as_str() {
            "meta" if row.text("key") == Some("0") => {
                let bytes = row.text("value").and_then(unhex);
                facts = bytes.and_then(|bytes| read_json(&bytes).ok());
                account.drop_part(row.line, "", Reason::Metadata);
            }
            "meta" => account.drop_part(row.line, "", Reason::Metadata),
            "blobs" => match (row.text("id"), bytes_of(&row, "data")) {
                (Some(id), Some(data)) => {
                    blobs.insert(id.to_owned(), (row.line, data));
                }
                _ => unknown(&row, &mut account),
            },
            _ => unknown(&row, &mut account),
        }
    }
    let root = facts
        .as_ref()
        .and_then(|facts| facts.get("latestRootBlobId")?.as_str());
    let root = root.and_then(|root| blobs.remove(root));
    let Some((line, root)) = root else {
        let message = "the root of the chat is not there, so its turns are unknown";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    };
    account.drop_part(line, "", Reason::Metadata);
    let mut thread = Thread::new(NAME);
    let model = facts
        .as_ref()
        .and_then(|facts| facts.get("lastUsedModel").cloned());
    if let Some(facts) = &facts {
        let mut info = object([("last_model", model.unwrap_or(Value::Null))]);
        for name in ["name", "mode", "createdAt"] {
            extend(&mut info, name, facts.get(name).cloned());
        }
        thread.head().set("session_info", info);
    }
    for id in entries(&root) {
        let Some((line, data)) = blobs.remove(&id) else {
            account.unmapped(line, "a message that is not there");
            continue;
        };
        let Some(message) = read_json(&data)
            .ok()
            .filter(|value| value.get("role").is_some())
        else {
            account.lose_record(data.len());
            account.unmapped(line, "a message that is no JSON");
            continue;
        };
        let reading = Reading::new(line, &message);
        chat_turn(reading.root(), line, &mut thread);
        reading.finish(&mut account);
    }
    // Earlier roots, their messages, and files that tools read.
    for (line, _) in blobs.into_values() {
        account.drop_part(line, "", Reason::Superseded);
    }
    Ok(thread.finish(account))
}

fn chat_turn(message: Node<'_, '_>, line: u64, thread: &mut Thread) {
    let chat = Chat::read(message, &format!("call-{line}"));
    let mut draft = Draft::new(chat.turn_role(), "");
    let mut source = thread.source(&[line]);
    set_texts(&mut source, message, &[("id", "id")]);
    source.set_some("message", rest(message, &["id"]));
    chat.say(&mut draft);
    thread.push(draft, source);
}

/// The ids at the beginning of a root, in hex.
fn entries(root: &[u8]) -> Vec<String> {
    let whole = root.chunks(ENTRY.len() + DIGEST_BYTES);
    let ids = whole.map_while(|entry| {
        let id = entry.strip_prefix(&ENTRY)?;
        (id.len() == DIGEST_BYTES).then(|| encoding::hex(id))
    });
    ids.collect()
}

fn bytes_of(row: &Row, column: &str) -> Option<Vec<u8>> {
    let stored = row.columns.get(column)?;
    match stored.get("blob") {
        Some(blob) => encoding::parse_base64(blob.as_str()?),
        None => Some(stored.as_str()?.as_bytes().to_vec()),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    bytes.collect()
}

#[cfg(test)]
mod tests;
