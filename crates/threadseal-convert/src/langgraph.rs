//! Threads of `LangGraph`, from the rows of its SQLite checkpointer.
//!
//! ```text
//! checkpoints: checkpoint_ns, checkpoint_id, type "msgpack"|"json", checkpoint
//!              {"id","ts","channel_values":{"messages":[MESSAGE,…],…},"channel_versions":{…}}
//! writes:      checkpoint_ns, checkpoint_id, task_path, task_id, idx, channel, type, value
//! MESSAGE: {"type":"human|ai|tool|system|…","content","id","tool_calls","usage_metadata",…}
//!          {"lc":N,"type":"constructor","id":[…,CLASS],"kwargs":{…}}   {"role","content"}   [ROLE,TEXT]   TEXT
//! ```
//!
//! Each checkpoint has all messages again. A message is one turn, in its newest form. A namespace that
//! is not empty is that of a subgraph. A "line" is the line of the log of rows.
//!
//! `spec/scroll-mappings.md` C22 has the table.

use super::account::{Account, Reason, Tokens, object};
use super::build::rfc3339_ns;
use super::chat::{Chat, rest};
use super::database_rows::Row;
use super::draft::Draft;
use super::mapped::Mapped;
use super::msgpack::unpack;
use super::source::{Node, Reading, read_json, weight};
use super::thread::{
    Thread, count_of, extend, fingerprint, says_nothing, set_texts, set_values, take_rest,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};

const NAME: &str = "langgraph";
/// The channel with the conversation.
const CHANNEL: &str = "messages";
/// Members of `response_metadata` that a rule of its own reads, and of `additional_kwargs`.
const TOLD_OF_ANSWER: [&str; 7] = [
    "model_provider",
    "model_name",
    "model",
    "finish_reason",
    "stop_reason",
    "tool_calls",
    "function_call",
];
/// Members of a message that a rule of its own reads.
const KNOWN: [&str; 10] = [
    "type",
    "id",
    "name",
    "status",
    "usage_metadata",
    "response_metadata",
    "additional_kwargs",
    "invalid_tool_calls",
    "artifact",
    "example",
];

/// The turns of a thread.
///
/// # Errors
/// Kind `InvalidInput` if no checkpoint has messages that can be read: nothing is known of its turns.
pub(super) fn map_rows(rows: Vec<Row>, mut account: Account) -> Result<Mapped, Error> {
    let mut spaces: BTreeMap<String, Space> = BTreeMap::new();
    for row in rows {
        let space = row.text("checkpoint_ns").unwrap_or_default().to_owned();
        let space = spaces.entry(space).or_default();
        match row.table.as_str() {
            "checkpoints" => space.checkpoints.push(row),
            "writes" => space.writes.push(row),
            _ => super::database_rows::unknown(&row, &mut account),
        }
    }
    let mut history = History::default();
    // The empty name of the main graph is the first.
    for (name, space) in spaces {
        history.space(&name, space, &mut account);
    }
    if !history.has_channel {
        let message = match history.unread {
            None => "the graph has no channel `messages`, so its turns are unknown".to_owned(),
            Some(why) => format!("no checkpoint can be read, so the turns are unknown: {why}"),
        };
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(history.turns(account))
}

/// The rows of one graph or subgraph.
#[derive(Default)]
struct Space {
    checkpoints: Vec<Row>,
    writes: Vec<Row>,
}

/// One message in its newest form.
struct Found {
    message: Value,
    /// The lines of its first and of its newest form.
    lines: Vec<u64>,
    print: Digest,
    /// The namespace of a subgraph.
    space: String,
    /// The moment of the first checkpoint that has it.
    time: Option<String>,
}

/// What distinguishes messages: the id, or the content and how many equal ones are before it.
#[derive(PartialEq, Eq, Hash)]
enum Name {
    Id(String),
    Content(Digest, u64),
}

/// All messages of a thread, each once, in the order in which they appear.
#[derive(Default)]
struct History {
    found: Vec<Found>,
    places: HashMap<Name, usize>,
    has_channel: bool,
    /// Why a checkpoint could not be read.
    unread: Option<String>,
}

/// Where a list of messages is.
struct Place<'a> {
    line: u64,
    space: &'a str,
    time: Option<&'a str>,
}

impl History {
    fn space(&mut self, name: &str, space: Space, account: &mut Account) {
        let Space {
            mut checkpoints,
            mut writes,
        } = space;
        checkpoints.sort_by(|a, b| a.text("checkpoint_id").cmp(&b.text("checkpoint_id")));
        let newest = checkpoints.last();
        let newest = newest.and_then(|row| row.text("checkpoint_id").map(str::to_owned));
        let mut listed = HashMap::new();
        let mut keeps_writes = false;
        for row in checkpoints {
            account.drop_part(row.line, "/row/metadata", Reason::Metadata);
            let checkpoint = match value_of(&row, "checkpoint") {
                Ok(checkpoint) => checkpoint,
                Err(why) => {
                    account.lose_record(weight(&row.columns));
                    account.unmapped(row.line, &format!("a checkpoint: {why}"));
                    self.unread = Some(why);
                    continue;
                }
            };
            listed.clear();
            keeps_writes |= self.checkpoint(name, &row, &checkpoint, &mut listed, account);
        }
        writes.sort_by(|a, b| order(a).cmp(&order(b)));
        for row in writes {
            // Writes to an earlier checkpoint are in the values of the next one, if values are kept.
            let counts = keeps_writes || row.text("checkpoint_id") == newest.as_deref();
            match row.text("channel") == Some(CHANNEL) {
                true if counts => self.write(name, &row, &mut listed, account),
                true => account.drop_part(row.line, "", Reason::Duplicate),
                false => account.drop_part(row.line, "", Reason::Metadata),
            }
        }
    }

    /// Reads one checkpoint. Does its channel keep only writes, and no value?
    fn checkpoint(
        &mut self,
        space: &str,
        row: &Row,
        checkpoint: &Value,
        listed: &mut HashMap<Digest, u64>,
        account: &mut Account,
    ) -> bool {
        let channels = checkpoint.get("channel_values");
        for (name, _) in channels.and_then(Value::as_object).unwrap_or_default() {
            if name != CHANNEL {
                let name = name.as_str().unwrap_or_default();
                let pointer = format!("/row/checkpoint/channel_values/{name}");
                account.drop_part(row.line, &pointer, Reason::Metadata);
            }
        }
        let place = Place {
            line: row.line,
            space,
            time: checkpoint.get("ts").and_then(Value::as_str),
        };
        if let Some(messages) = channels.and_then(|channels| channels.get(CHANNEL)) {
            self.has_channel = true;
            self.list(messages, &place, listed, account);
            return false;
        }
        let versions = checkpoint.get("channel_versions");
        let is_kept = versions.is_some_and(|versions| versions.get(CHANNEL).is_some());
        self.has_channel |= is_kept;
        is_kept
    }

    fn write(
        &mut self,
        space: &str,
        row: &Row,
        listed: &mut HashMap<Digest, u64>,
        account: &mut Account,
    ) {
        self.has_channel = true;
        match value_of(row, "value") {
            Ok(messages) => {
                let place = Place {
                    line: row.line,
                    space,
                    time: None,
                };
                self.list(&messages, &place, listed, account);
            }
            Err(why) => {
                account.lose_record(weight(&row.columns));
                account.unmapped(row.line, &format!("a write: {why}"));
            }
        }
    }

    /// Notes the messages of a list, or a message alone.
    fn list(
        &mut self,
        messages: &Value,
        place: &Place<'_>,
        listed: &mut HashMap<Digest, u64>,
        account: &mut Account,
    ) {
        let alone = std::slice::from_ref(messages);
        let mut is_new = false;
        for message in messages.as_array().unwrap_or(alone) {
            let Some(message) = plain(message) else {
                let what = "a message of an unknown shape";
                account.lose(weight(message));
                account.unmapped(place.line, what);
                continue;
            };
            let kind = message.get("type").and_then(Value::as_str);
            if kind != Some("remove") {
                is_new |= self.note(message, place, listed, account);
            }
        }
        if !is_new {
            account.drop_part(place.line, "/row/messages", Reason::Duplicate);
        }
    }

    /// Notes one message; true if it or its form is new.
    fn note(
        &mut self,
        message: Value,
        place: &Place<'_>,
        listed: &mut HashMap<Digest, u64>,
        account: &mut Account,
    ) -> bool {
        let print = fingerprint(&message);
        let id = message.get("id").and_then(Value::as_str);
        let name = match id {
            Some(id) => Name::Id(id.to_owned()),
            None => {
                let before = listed.entry(print).or_default();
                *before += 1;
                Name::Content(print, *before)
            }
        };
        let next = self.found.len();
        let at = *self.places.entry(name).or_insert(next);
        let Some(known) = self.found.get_mut(at) else {
            self.found.push(Found {
                message,
                lines: vec![place.line],
                print,
                space: place.space.to_owned(),
                time: place.time.map(str::to_owned),
            });
            return true;
        };
        // A subgraph has messages of the graph that started it, as they were then.
        if known.print == print || known.space != place.space {
            return false;
        }
        let before = known.lines.last().copied().unwrap_or_default();
        account.drop_part(before, "/row/messages", Reason::Superseded);
        known.lines.truncate(1);
        if known.lines.last() != Some(&place.line) {
            known.lines.push(place.line);
        }
        (known.message, known.print) = (message, print);
        true
    }

    fn turns(self, mut account: Account) -> Mapped {
        let mut thread = Thread::new(NAME);
        for found in self.found {
            let line = found.lines.last().copied().unwrap_or_default();
            let (message, has_repeated) = content_once(found.message.clone());
            if has_repeated {
                account.drop_part(line, "/content", Reason::Duplicate);
            }
            let reading = Reading::new(line, &message);
            turn(reading.root(), &found, &mut thread);
            reading.finish(&mut account);
        }
        thread.finish(account)
    }
}

/// The order of writes.
fn order(row: &Row) -> (Option<&str>, Option<&str>, Option<&str>, i64) {
    (
        row.text("checkpoint_id"),
        row.text("task_path"),
        row.text("task_id"),
        row.number("idx"),
    )
}

/// The value in a column whose serialisation `type` names.
fn value_of(row: &Row, column: &str) -> Result<Value, String> {
    let stored = row.columns.get(column);
    let bytes = match stored.and_then(|stored| stored.get("blob")) {
        Some(blob) => encoding::parse_base64(blob.as_str().unwrap_or_default()),
        None => stored
            .and_then(Value::as_str)
            .map(|text| text.as_bytes().to_vec()),
    };
    let bytes = bytes.ok_or("it has no value")?;
    match row.text("type") {
        Some("msgpack") => unpack(&bytes).map_err(|why| format!("no MessagePack: {why}")),
        Some("json") => {
            read_json(&bytes).map_err(|error| format!("no JSON: {}", error.kind.words()))
        }
        Some("null") => Ok(Value::Null),
        other => {
            let shown: String = other.unwrap_or_default().chars().take(48).collect();
            Err(format!("its serialisation is `{shown}`"))
        }
    }
}

/// A message as the members of its class, with its type.
fn plain(message: &Value) -> Option<Value> {
    if let Some(text) = message.as_str() {
        return Some(object([("type", "human".into()), ("content", text.into())]));
    }
    if let Some([role, content]) = message.as_array() {
        role.as_str()?;
        return Some(object([
            ("role", role.clone()),
            ("content", content.clone()),
        ]));
    }
    let members = message.as_object()?;
    let of = |name: &str| message.get(name);
    if of("lc").is_some() {
        let class = of("id").and_then(Value::as_array).and_then(<[_]>::last);
        let kind = kind_of(class.and_then(Value::as_str)?)?;
        let mut built = of("kwargs")
            .filter(|kwargs| kwargs.as_object().is_some())?
            .clone();
        extend(&mut built, "type", Some(kind.into()));
        return Some(built);
    }
    let kind = of("type").and_then(Value::as_str);
    let is_message = kind.is_some() || of("role").is_some();
    if !is_message || of("content").is_none() {
        return None;
    }
    let kind = kind.and_then(kind_of);
    let members = members
        .iter()
        .map(|(name, value)| match (&kind, name.as_str()) {
            (Some(kind), Some("type")) => (Text::from("type"), Value::from(*kind)),
            _ => (name.clone(), value.clone()),
        });
    Some(Value::Object(members.collect()))
}

/// The type of a message, from its class, or from the type that a part of a stream has.
fn kind_of(class: &str) -> Option<&'static str> {
    let class = class.trim_end_matches("Chunk");
    Some(match class {
        "HumanMessage" | "human" => "human",
        "AIMessage" | "ai" => "ai",
        "ToolMessage" | "tool" => "tool",
        "FunctionMessage" | "function" => "tool",
        "SystemMessage" | "system" => "system",
        "RemoveMessage" | "remove" => "remove",
        "ChatMessage" | "chat" => "chat",
        _ => return None,
    })
}

fn turn(message: Node<'_, '_>, found: &Found, thread: &mut Thread) {
    let prefix = format!("call-{}", found.lines.first().copied().unwrap_or_default());
    if let Some(additional) = message.get("additional_kwargs")
        && !call_ids(message.peek()).is_empty()
    {
        additional.discard_all(&["tool_calls", "function_call"], Reason::Duplicate);
    }
    let failed = message.peek_str("status") == Some("error");
    let mut chat = Chat::read(message, &prefix);
    for result in &mut chat.results {
        result.ok &= !failed;
    }
    let mut draft = Draft::new(chat.turn_role(), "");
    let mut source = thread.source(&found.lines);
    let answer = message.get("response_metadata");
    let of = |name| answer.and_then(|answer| answer.text_of(name));
    draft.model.vendor = of("model_provider").unwrap_or_default();
    let (named, model) = (of("model_name"), of("model"));
    draft.model.id = named.or(model);
    if let Some(time) = &found.time {
        draft.timestamp_ns = rfc3339_ns(time);
        source.set("time", time.as_str().into());
    }
    if !found.space.is_empty() {
        source.set("agent", found.space.as_str().into());
        source.set("sidechain", true.into());
    }
    set_texts(&mut source, message, &[("id", "id"), ("name", "name")]);
    let (finished, stopped) = (of("finish_reason"), of("stop_reason"));
    source.set_some("stop_reason", finished.or(stopped));
    if let Some(usage) = message.get("usage_metadata") {
        thread.spend(&mut source, tokens(usage.peek()));
    }
    set_values(
        &mut source,
        message,
        &[
            ("usage", "usage_metadata"),
            ("invalid_tool_calls", "invalid_tool_calls"),
            ("artifact", "artifact"),
        ],
    );
    for (name, member) in [
        ("response", "response_metadata"),
        ("additional", "additional_kwargs"),
    ] {
        let Some(node) = message.get(member) else {
            continue;
        };
        let mut others = object([]);
        take_rest(node, &mut others, &TOLD_OF_ANSWER);
        source.set_some(name, Some(others).filter(|others| !says_nothing(others)));
    }
    for name in ["type", "status", "example"] {
        let _ = message.get(name).map(|node| node.discard(Reason::Form));
    }
    source.set_some("message", rest(message, &KNOWN));
    chat.say(&mut draft);
    thread.push(draft, source);
}

/// The message without the calls among its content that its `tool_calls` have, too; whether it had some.
fn content_once(message: Value) -> (Value, bool) {
    let ids = call_ids(&message);
    let Value::Object(mut members) = message else {
        return (message, false);
    };
    let mut has_repeated = false;
    for (name, content) in &mut members {
        if let (true, Value::Array(blocks)) = (*name == *"content", content) {
            let before = blocks.len();
            blocks.retain(|block| !is_call_of(block, &ids));
            has_repeated |= blocks.len() < before;
        }
    }
    (Value::Object(members), has_repeated)
}

fn call_ids(message: &Value) -> BTreeSet<String> {
    let calls = message.get("tool_calls").and_then(Value::as_array);
    let calls = calls.unwrap_or_default().iter();
    let ids = calls.filter_map(|call| call.get("id").and_then(Value::as_str));
    ids.map(str::to_owned).collect()
}

fn is_call_of(block: &Value, ids: &BTreeSet<String>) -> bool {
    let text = |name| block.get(name).and_then(Value::as_str);
    let is_call = matches!(
        text("type"),
        Some("tool_use" | "tool_call" | "function_call")
    );
    let mut names = [text("call_id"), text("id")].into_iter().flatten();
    is_call && names.any(|name| ids.contains(name))
}

/// `input_tokens` includes those of a cache, and `output_tokens` the reasoning.
fn tokens(usage: &Value) -> Tokens {
    let detail = |list: &str, name| usage.get(list).map_or(0, |list| count_of(list, name));
    Tokens {
        input: count_of(usage, "input_tokens"),
        output: count_of(usage, "output_tokens"),
        cached: detail("input_token_details", "cache_read"),
        reasoning: detail("output_token_details", "reasoning"),
    }
}

#[cfg(test)]
mod tests;
