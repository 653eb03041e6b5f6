//! Gemini CLI sessions: JSON Lines with patches (2026), one JSON object before.
//!
//! ```text
//! {"sessionId":S,"projectHash":H,"startTime":T,"lastUpdated":T,"kind":"main"}       first line
//! {"id":I,"timestamp":T,"type":"user","content":[PART,…]}
//! {"id":I,"timestamp":T,"type":"gemini","content":C,"thoughts":[…],"tokens":{…},"model":M}
//! {"id":I, … the same again …,"toolCalls":[{"id","name","args","result","status",…}]}
//! {"$set":{"messages":[MESSAGE,…],"lastUpdated":T}}      {"$rewindTo":I}
//!
//! {"sessionId":S,…,"messages":[MESSAGE,…]}                                       before 2026
//! ```
//!
//! Of messages with one `type` and `id` the last copy counts, in the place of the first; earlier
//! copies are `superseded`. After a resume `$set` repeats the whole conversation, in the words of
//! the model's API: calls are parts, too, and answers of tools are messages of the user. After a
//! compaction it does so with new ids. A message with nothing but calls and answers that the scroll
//! has makes no turn. In the object form a "line" is the number of the message, and 0 the object.
//!
//! `spec/scroll-mappings.md` §4 has the table of members.

use super::account::{Account, Reason, Tokens};
use super::build::{Build, rfc3339_ns};
use super::draft::{
    Draft, Message, Source, ToolCall, ToolResult, call_item, result_item, text_item, thinking_item,
};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, Reading, json_lines};
use super::thread::says_nothing;
use std::collections::{HashMap, HashSet};
use threadseal_core::canon::json::{Text, Value, parse};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "gemini-cli";
const VENDOR: &str = "google";
const HEADER: [&str; 6] = [
    "projectHash",
    "startTime",
    "lastUpdated",
    "kind",
    "directories",
    "memoryScratchpad",
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Gemini CLI session (chats/session-*.jsonl, .json)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let why = "a head with `sessionId` and `projectHash`";
    Mark::when(is_ours(head), Confidence::Certain, why)
}

fn is_ours(head: &Head<'_>) -> bool {
    let header =
        |value: &Value| value.get("sessionId").is_some() && value.get("projectHash").is_some();
    head.document.iter().chain(head.lines.first()).any(header)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut session = Session::default();
    let mut account = Account::default();
    let holds_messages = |document: &Value| document.get("messages").is_some_and(is_array);
    let document = parse(source).ok().filter(holds_messages);
    match document {
        Some(document) => whole(&document, &mut session, &mut account),
        None => {
            json_lines(source, &mut Account::default(), |_, line, value| {
                for (index, message) in messages_of(value) {
                    session.survey((line, index), message);
                }
            });
            session.surveyed();
            json_lines(source, &mut account, |account, line, value| {
                let reading = Reading::new(line, value);
                session.line(reading.root(), line);
                reading.finish(account);
            });
        }
    }
    account.tokens = session.tokens;
    Ok(session.build.finish(account))
}

/// The object form: every message is a record.
fn whole(document: &Value, session: &mut Session, account: &mut Account) {
    let messages = document
        .get("messages")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let numbered = || (1..).zip(messages);
    for (number, message) in numbered() {
        session.survey((number, 0), message);
    }
    session.surveyed();
    let reading = Reading::new(0, document);
    if let Some(messages) = reading.root().get("messages") {
        let _ = messages.read();
    }
    session.header(reading.root());
    reading.finish(account);
    for (number, message) in numbered() {
        account.records += 1;
        if message.as_object().is_none() {
            account.unmapped(number, "not a JSON object");
            continue;
        }
        let reading = Reading::new(number, message);
        session.message(reading.root(), number, 0);
        reading.finish(account);
    }
}

/// The `type` and the `id` of a message: an answer of a tool may have the id of its call's message.
type Key = (Text, Text);

/// The place of the last copy of a message, and the calls and results in it.
struct Copy {
    place: (u64, usize),
    known: Vec<Digest>,
}

/// The state while a session is read.
#[derive(Default)]
struct Session {
    id: Option<String>,
    /// The last copy of each message.
    last: HashMap<Key, Copy>,
    /// The turn of each message whose first copy was read.
    places: HashMap<Key, usize>,
    /// Calls and results in messages without id.
    loose: HashSet<Digest>,
    /// Calls and results that the carried messages have as `toolCalls`, and those that they have as
    /// parts and were read.
    known: HashSet<Digest>,
    rewound_to: Option<String>,
    tokens: Tokens,
    build: Build,
}

impl Session {
    /// First pass: finds the last copy of each message, and all calls and results.
    fn survey(&mut self, place: (u64, usize), message: &Value) {
        let known = tools_of(message);
        match key_of(message) {
            Some(key) => {
                self.last.insert(key, Copy { place, known });
            }
            None => self.loose.extend(known),
        }
    }

    /// Ends the first pass.
    fn surveyed(&mut self) {
        let carried = self
            .last
            .values()
            .flat_map(|copy| copy.known.iter().copied());
        self.known = carried.chain(self.loose.drain()).collect();
    }

    fn line(&mut self, node: Node<'_, '_>, line: u64) {
        if let Some(set) = node.get("$set") {
            self.patch(set, line);
        } else if node.peek().get("type").is_some() {
            self.message(node, line, 0);
        } else if let Some(id) = node.text_of("$rewindTo") {
            self.rewound_to = Some(id);
        } else {
            self.header(node);
        }
    }

    fn patch(&mut self, set: Node<'_, '_>, line: u64) {
        let messages = set.get("messages").and_then(Node::items);
        for (index, message) in (1..).zip(messages.into_iter().flatten()) {
            if message.peek().as_object().is_some() {
                self.message(message, line, index);
            }
        }
        self.header(set);
    }

    fn header(&mut self, node: Node<'_, '_>) {
        if let Some(id) = node.text_of("sessionId") {
            self.id = Some(id);
        }
        if let Some(summary) = node.text_of("summary") {
            let mut draft = Draft::new(Role::System, VENDOR);
            draft
                .messages
                .push(Message::items(Role::System, vec![text_item(summary)]));
            let mut source = Source::new(NAME);
            source.set("kind", "summary".into());
            source.set_some("session", self.id.as_deref());
            draft.close(source);
            self.build.push(&draft);
        }
        node.discard_all(&HEADER, Reason::Metadata);
    }

    fn message(&mut self, node: Node<'_, '_>, line: u64, index: usize) {
        let key = key_of(node.peek());
        let of_key = |key| Some((self.last.get(key), self.places.get(key).copied()));
        let (last, place) = key.as_ref().and_then(of_key).unwrap_or_default();
        if place.is_none() && self.only_repeats(node.peek()) {
            node.discard(Reason::Duplicate);
        } else if last.is_none_or(|copy| copy.place == (line, index)) {
            let draft = self.draft(node, line);
            match place {
                Some(place) => self.build.set(place, &draft),
                None => {
                    self.build.push(&draft);
                }
            }
        } else {
            node.discard(Reason::Superseded);
            if let (Some(key), None) = (key, place) {
                self.places.insert(key, self.build.reserve());
            }
        }
    }

    /// Whether a message has calls and answers of tools and nothing else, all of which the scroll has.
    fn only_repeats(&self, message: &Value) -> bool {
        let parts = message.get("content").and_then(Value::as_array);
        let parts = parts.unwrap_or_default();
        let repeats = |part: &Value| {
            let answer = part.get("functionResponse").map(fingerprint);
            let call = part.get("functionCall").and_then(call_print);
            let print = answer.or(call);
            print.is_some_and(|print| self.known.contains(&print))
                && part.as_object().is_some_and(|members| members.len() == 1)
        };
        let apart = ["thoughts", "toolCalls", "tokens"];
        let more = apart
            .iter()
            .filter_map(|name| message.get(name))
            .any(|member| !says_nothing(member));
        !parts.is_empty() && parts.iter().all(repeats) && !more
    }

    fn draft(&mut self, node: Node<'_, '_>, line: u64) -> Draft {
        let kind = node.told_by("type");
        let role = match kind {
            Some("user") => Role::User,
            Some("gemini") => Role::Assistant,
            _ => Role::System,
        };
        let mut parts = Parts {
            draft: Draft::new(role, VENDOR),
            items: Vec::new(),
            line,
        };
        parts.thoughts(node);
        parts.content(node, &mut self.known);
        parts.calls(node);
        let Parts {
            mut draft, items, ..
        } = parts;
        let only_results =
            !draft.tool_results.is_empty() && items.len() == draft.tool_results.len();
        if role == Role::User && only_results {
            draft.role = Role::Tool;
        }
        draft.messages.push(Message::items(draft.role, items));
        draft.model.id = node.text_of("model").filter(|model| !model.is_empty());
        let source = self.source(
            node,
            line,
            &mut draft,
            kind.filter(|_| role == Role::System),
        );
        draft.close(source);
        node.discard_all(&["displayContent"], Reason::View);
        draft
    }

    fn source(
        &mut self,
        node: Node<'_, '_>,
        line: u64,
        draft: &mut Draft,
        kind: Option<&str>,
    ) -> Source {
        let mut source = Source::new(NAME);
        source.set("lines", Value::Array(vec![line.into()]));
        if let Some(time) = node.text_of("timestamp") {
            draft.timestamp_ns = rfc3339_ns(&time);
            source.set("time", time.into());
        }
        source.set_some("session", self.id.as_deref());
        source.set_some("id", node.text_of("id"));
        source.set_some("parent", self.rewound_to.take());
        source.set_some("kind", kind);
        if let Some(usage) = node
            .get("tokens")
            .filter(|usage| usage.peek().as_object().is_some())
        {
            let tokens = tokens(usage.peek());
            self.tokens.add(tokens);
            source.set_tokens(tokens);
            source.set("usage", usage.take());
        }
        source
    }
}

/// One turn while its parts are read.
struct Parts {
    draft: Draft,
    items: Vec<Value>,
    line: u64,
}

impl Parts {
    fn thoughts(&mut self, node: Node<'_, '_>) {
        for thought in node
            .get("thoughts")
            .and_then(Node::items)
            .into_iter()
            .flatten()
        {
            let Some(text) = thought.text_of("description") else {
                continue;
            };
            let mut item = thinking_item(text);
            extend(&mut item, "subject", thought.take_of("subject"));
            extend(&mut item, "time", thought.take_of("timestamp"));
            self.items.push(item);
        }
    }

    fn content(&mut self, node: Node<'_, '_>, known: &mut HashSet<Digest>) {
        let Some(content) = node.get("content") else {
            return;
        };
        if content.peek().as_str().is_some_and(|text| !text.is_empty()) {
            self.items.extend(content.text().map(text_item));
        }
        for part in content.items().into_iter().flatten() {
            if repeats_beside(part.peek(), node.peek()) {
                part.discard(Reason::Duplicate);
            } else {
                self.part(part, known);
            }
        }
    }

    fn part(&mut self, part: Node<'_, '_>, known: &mut HashSet<Digest>) {
        let value = part.peek();
        let members = value.as_object().map_or(0, <[_]>::len);
        let thought = value.get("thought").and_then(Value::as_bool) == Some(true);
        if let (Some(Value::String(_)), 1) = (value.get("text"), members) {
            self.items.extend(part.text_of("text").map(text_item));
        } else if let (Some(Value::String(_)), true) = (value.get("text"), thought) {
            let _ = part.bool_of("thought");
            self.items.extend(part.text_of("text").map(thinking_item));
        } else if let Some(response) = part.get("functionResponse") {
            let print = fingerprint(response.peek());
            if known.contains(&print) {
                return part.discard(Reason::Duplicate);
            }
            let id = response.text_of("id").unwrap_or_default();
            if !id.is_empty() {
                known.insert(print);
            }
            self.result(
                id,
                response.get("response").unwrap_or(response),
                "success",
                None,
            );
        } else if let Some(call) = part.get("functionCall") {
            if call_print(call.peek()).is_some_and(|print| !known.insert(print)) {
                return part.discard(Reason::Duplicate);
            }
            let id = call.text_of("id").unwrap_or_default();
            self.call(id, call);
        } else if let Some(text) = value.as_str() {
            let _ = part.read();
            self.items.push(text_item(text));
        } else {
            let mut item = Value::Object(vec![("type".into(), "part".into())]);
            extend(&mut item, "part", Some(part.take()));
            self.items.push(item);
        }
    }

    fn calls(&mut self, node: Node<'_, '_>) {
        let calls = node.get("toolCalls").and_then(Node::items);
        for (index, call) in calls.into_iter().flatten().enumerate() {
            let made_up = || format!("call-{}-{index}", self.line);
            let id = call.text_of("id").unwrap_or_else(made_up);
            self.call(id.clone(), call);
            let status = call.told_by("status").unwrap_or("success");
            let time = call.take_of("timestamp");
            let display = call
                .get("resultDisplay")
                .filter(|display| !display.peek().is_null());
            match (call.get("result"), display) {
                (Some(result), display) if !result.peek().is_null() => {
                    self.result(id, response_of(result), status, time);
                    if let Some(display) = display {
                        display.discard(Reason::View);
                    }
                }
                (_, Some(display)) => self.result(id, display, status, time),
                _ => {
                    let item = self.items.last_mut();
                    if let Some(item) = item {
                        extend(item, "status", Some(status.into()));
                        extend(item, "time", time);
                    }
                }
            }
            call.discard_all(
                &["displayName", "description", "renderOutputAsMarkdown"],
                Reason::View,
            );
        }
    }

    fn call(&mut self, id: String, call: Node<'_, '_>) {
        let name = call.text_of("name").unwrap_or_default();
        let args = call.get("args").map_or(Value::Null, Node::take);
        self.items.push(call_item(&id));
        self.draft.tool_calls.push(ToolCall::new(id, name, args));
    }

    fn result(&mut self, id: String, response: Node<'_, '_>, status: &str, time: Option<Value>) {
        let mut item = result_item(&id);
        if !matches!(status, "success" | "error") {
            extend(&mut item, "status", Some(status.into()));
        }
        extend(&mut item, "time", time);
        self.items.push(item);
        let failed = response.peek().get("error").is_some();
        let ok = status == "success" && !failed;
        self.draft
            .tool_results
            .push(ToolResult::new(id, ok, response.take()));
    }
}

/// The messages of a line, each with its place there.
fn messages_of(line: &Value) -> Vec<(usize, &Value)> {
    match line.get("$set") {
        Some(set) => {
            let messages = set.get("messages").and_then(Value::as_array);
            (1..).zip(messages.unwrap_or_default()).collect()
        }
        None if line.get("type").is_some() => vec![(0, line)],
        None => Vec::new(),
    }
}

/// The calls that a message has as `toolCalls`, and their results.
fn tools_of(message: &Value) -> Vec<Digest> {
    let calls = message.get("toolCalls").and_then(Value::as_array);
    let calls = calls.unwrap_or_default().iter();
    let results = calls.clone().filter_map(|call| call.get("result"));
    let parts = results.filter_map(Value::as_array).flatten();
    let responses = parts.filter_map(|part| part.get("functionResponse"));
    let responses = responses.map(fingerprint);
    responses.chain(calls.filter_map(call_print)).collect()
}

/// What identifies a call among its copies: one without id has none.
fn call_print(call: &Value) -> Option<Digest> {
    let id = call.get("id").filter(|id| id.as_str() != Some(""))?;
    let name = call.get("name").cloned().unwrap_or(Value::Null);
    let args = call.get("args").cloned().unwrap_or(Value::Null);
    Some(fingerprint(&Value::Array(vec![id.clone(), name, args])))
}

/// What identifies a message among its copies.
fn key_of(message: &Value) -> Option<Key> {
    match (message.get("type"), message.get("id")) {
        (Some(Value::String(kind)), Some(Value::String(id))) => Some((kind.clone(), id.clone())),
        (_, Some(Value::String(id))) => Some((Text::from(""), id.clone())),
        _ => None,
    }
}

/// Whether a part of a message repeats a call of `toolCalls` or a thought of `thoughts` beside it.
fn repeats_beside(part: &Value, message: &Value) -> bool {
    let list = |name: &str| {
        message
            .get(name)
            .and_then(Value::as_array)
            .unwrap_or_default()
    };
    let word = |value: &Value, name: &str| {
        let word = value.get(name).and_then(Value::as_str);
        word.filter(|word| !word.is_empty()).map(str::to_owned)
    };
    if let Some(call) = part.get("functionCall") {
        let same = |known: &Value| {
            let id = word(call, "id");
            id.is_some()
                && word(known, "id") == id
                && word(known, "name") == word(call, "name")
                && known.get("args") == call.get("args")
        };
        return list("toolCalls").iter().any(same);
    }
    let thought = part.get("thought").and_then(Value::as_bool) == Some(true);
    let Some(text) = word(part, "text").filter(|_| thought) else {
        return false;
    };
    list("thoughts").iter().any(|known| {
        let subject = word(known, "subject").unwrap_or_default();
        let description = word(known, "description").unwrap_or_default();
        text == format!("**{subject}** {description}") || text == description
    })
}

fn is_array(value: &Value) -> bool {
    value.as_array().is_some()
}

/// The answer of a tool: the `response` of a single `functionResponse`, else all of `result`.
fn response_of<'r, 'a>(result: Node<'r, 'a>) -> Node<'r, 'a> {
    let single = match result.peek().as_array() {
        Some([only]) => only.get("functionResponse"),
        _ => None,
    };
    let known = |name: &Text| {
        ["id", "name", "response"]
            .iter()
            .any(|known| name == *known)
    };
    let plain = single
        .and_then(Value::as_object)
        .is_some_and(|members| members.iter().all(|(name, _)| known(name)));
    if !plain {
        return result;
    }
    let first = result.items().and_then(|mut items| items.next());
    let response = first.and_then(|part| part.get("functionResponse"));
    let Some(response) = response else {
        return result;
    };
    response.discard_all(&["id", "name"], Reason::Duplicate);
    response.get("response").unwrap_or(result)
}

fn extend(item: &mut Value, name: &str, value: Option<Value>) {
    if let (Value::Object(members), Some(value)) = (item, value) {
        members.push((name.into(), value));
    }
}

fn fingerprint(value: &Value) -> Digest {
    Digest::of(&threadseal_core::canon::python::rye(value))
}

fn tokens(usage: &Value) -> Tokens {
    let of = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
    Tokens {
        input: of("input").saturating_add(of("tool")),
        output: of("output").saturating_add(of("thoughts")),
        cached: of("cached"),
        reasoning: of("thoughts"),
    }
}

#[cfg(test)]
mod tests;
