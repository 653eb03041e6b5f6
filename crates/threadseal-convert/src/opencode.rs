//! `OpenCode` sessions, as `opencode export` writes them: one JSON object.
//!
//! ```text
//! {"info":{"id":S,"title","version","model",…},
//!  "messages":[{"info":{"id":I,"role":"user|assistant","time":{"created":MS},"modelID",
//!                       "providerID","tokens":{…},"cost","finish","parentID"},
//!               "parts":[{"type":"text|reasoning|tool|step-start|step-finish|file|patch|…"}]}]}
//! ```
//!
//! A "line" is the number of the message. Line 0 is the part that contains the messages.
//!
//! `spec/scroll-mappings.md` C1 has the table of members.

use super::account::{Account, Reason, Tokens, object};
use super::draft::{
    Draft, Message, Source, ToolCall, ToolResult, call_item, result_item, text_item, thinking_item,
};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, Reading};
use super::thread::{Thread, block_item, document, extend, says_nothing, take_rest};
use threadseal_core::canon::json::Value;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "opencode";
const PART_PLACE: [&str; 3] = ["id", "sessionID", "messageID"];
/// Members of a message's `info` that a rule of its own reads.
const TOLD: [&str; 11] = [
    "role",
    "error",
    "system",
    "tokens",
    "model",
    "providerID",
    "modelID",
    "sessionID",
    "id",
    "parentID",
    "finish",
];
const NS_IN_MS: u64 = 1_000_000;

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "OpenCode session (opencode export)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let why = "an object with `info.id` and messages of `info` and `parts`";
    Mark::when(is_ours(head), Confidence::Certain, why)
}

fn is_ours(head: &Head<'_>) -> bool {
    head.document.as_ref().is_some_and(|document| {
        let session = document.get("info").and_then(|info| info.get("id"));
        let messages = document.get("messages").and_then(Value::as_array);
        let parts =
            |message: &Value| message.get("info").is_some() && message.get("parts").is_some();
        session.is_some() && messages.is_some_and(|messages| messages.iter().all(parts))
    })
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let document = document(source)?;
    let mut account = Account::default();
    let mut thread = Thread::new(NAME);
    let reading = Reading::new(0, &document);
    if let Some(info) = reading.root().take_of("info") {
        thread.head().set("session_info", info);
    }
    let messages = reading.root().get("messages").map(Node::read);
    reading.finish(&mut account);
    let messages = messages.and_then(Value::as_array).unwrap_or_default();
    for (number, message) in (1..).zip(messages) {
        account.records += 1;
        if message.get("info").and_then(Value::as_object).is_none() {
            account.unmapped(number, "not a message");
            continue;
        }
        let reading = Reading::new(number, message);
        turn(reading.root(), &[number], &mut thread);
        reading.finish(&mut account);
    }
    Ok(thread.finish(account))
}

/// The same of a session and its messages that were made from rows, each with the lines of its rows.
pub(super) fn map_rows(
    session: Option<&(u64, Value)>,
    messages: &[(Vec<u64>, Value)],
    mut account: Account,
) -> Mapped {
    let mut thread = Thread::new(NAME);
    if let Some((line, session)) = session {
        let reading = Reading::new(*line, session);
        let info = reading.root().take();
        thread.head().set("session_info", info);
        reading.finish(&mut account);
    }
    for (lines, message) in messages {
        let reading = Reading::new(lines.first().copied().unwrap_or_default(), message);
        turn(reading.root(), lines, &mut thread);
        reading.finish(&mut account);
    }
    thread.finish(account)
}

/// One message.
fn turn(node: Node<'_, '_>, lines: &[u64], thread: &mut Thread) {
    let number = lines.first().copied().unwrap_or_default();
    let Some(info) = node.get("info") else { return };
    let kind = info.told_by("role");
    let role = match kind {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => Role::System,
    };
    let mut parts = Parts {
        draft: Draft::new(role, ""),
        items: Vec::new(),
        steps: Tokens::default(),
        number,
    };
    let all = node.get("parts").and_then(Node::items);
    for part in all.into_iter().flatten() {
        parts.part(part);
    }
    let Parts {
        mut draft,
        mut items,
        steps,
        ..
    } = parts;
    if let Some(error) = info.take_of("error") {
        items.push(object([("type", "error".into()), ("error", error)]));
    }
    if let Some(system) = info.text_of("system").filter(|text| !text.is_empty()) {
        let message = Message::items(Role::System, vec![text_item(system)]);
        draft.messages.push(message);
    }
    draft.messages.push(Message::items(role, items));
    model(info, &mut draft);
    let mut source = thread.source(lines);
    source.set_some(
        "kind",
        kind.filter(|kind| role == Role::System && *kind != "system"),
    );
    facts(info, &mut draft, &mut source);
    if let Some(usage) = info.get("tokens").filter(|node| !says_nothing(node.peek())) {
        let own = tokens(usage.peek());
        let tokens = if steps == Tokens::default() {
            own
        } else {
            steps
        };
        thread.spend(&mut source, tokens);
        source.set("usage", usage.take());
    }
    source.set_some("info", rest(info));
    thread.push(draft, source);
}

/// Sets the model. An assistant's message names its own; a user's message names the chosen one.
fn model(info: Node<'_, '_>, draft: &mut Draft) {
    let chosen = info.get("model");
    let of = |name| {
        let own = info.text_of(name);
        own.or_else(|| chosen?.text_of(name))
            .filter(|text| !text.is_empty())
    };
    draft.model.vendor = of("providerID").unwrap_or_default();
    draft.model.id = of("modelID");
}

fn facts(info: Node<'_, '_>, draft: &mut Draft, source: &mut Source) {
    for (name, member) in [
        ("session", "sessionID"),
        ("id", "id"),
        ("parent", "parentID"),
        ("stop_reason", "finish"),
    ] {
        source.set_some(name, info.text_of(member));
    }
    let created = info.peek().get("time").and_then(|time| time.get("created"));
    let created = created.and_then(Value::as_u64);
    draft.timestamp_ns = created.and_then(|ms| ms.checked_mul(NS_IN_MS));
}

/// The remaining members of a message's `info`.
fn rest(info: Node<'_, '_>) -> Option<Value> {
    let mut rest = Value::Object(Vec::new());
    take_rest(info, &mut rest, &TOLD);
    if let Some(chosen) = info.get("model") {
        let mut options = Value::Object(Vec::new());
        take_rest(chosen, &mut options, &["providerID", "modelID"]);
        extend(
            &mut rest,
            "model",
            Some(options).filter(|options| !says_nothing(options)),
        );
    }
    Some(rest).filter(|rest| !says_nothing(rest))
}

/// One turn while its parts are read.
struct Parts {
    draft: Draft,
    items: Vec<Value>,
    steps: Tokens,
    number: u64,
}

impl Parts {
    fn part(&mut self, part: Node<'_, '_>) {
        let kind = part.peek_str("type");
        part.discard_all(&PART_PLACE, Reason::Duplicate);
        let has = |name| part.peek_str(name).is_some();
        match kind {
            Some("text") if has("text") => self.said(part, text_item),
            Some("reasoning") if has("text") => self.said(part, thinking_item),
            Some("tool") => self.tool(part),
            Some(kind) => {
                if kind == "step-finish" {
                    let usage = part.peek().get("tokens");
                    self.steps.add(usage.map(tokens).unwrap_or_default());
                }
                let mut item = object([("type", kind.into())]);
                let _ = part.get("type").map(Node::read);
                take_rest(part, &mut item, &PART_PLACE);
                self.items.push(item);
            }
            None => self.items.extend(block_item(part)),
        }
    }

    fn said(&mut self, part: Node<'_, '_>, item: fn(String) -> Value) {
        let _ = part.told_by("type");
        let mut item = item(part.text_of("text").unwrap_or_default());
        take_rest(part, &mut item, &[&PART_PLACE[..], &["text"]].concat());
        self.items.push(item);
    }

    fn tool(&mut self, part: Node<'_, '_>) {
        let _ = part.told_by("type");
        let made_up = || format!("call-{}-{}", self.number, self.items.len());
        let id = part.text_of("callID").unwrap_or_else(made_up);
        let name = part.text_of("tool").unwrap_or_default();
        let state = part.get("state");
        let args = state.and_then(|state| state.take_of("input"));
        let call = ToolCall::new(id.clone(), name, args.unwrap_or(Value::Null));
        self.draft.tool_calls.push(call);
        let mut item = call_item(&id);
        let known = [&PART_PLACE[..], &["callID", "tool", "state"]].concat();
        take_rest(part, &mut item, &known);
        self.items.push(item);
        let Some(state) = state else { return };
        let status = state.told_by("status").unwrap_or_default();
        let answer = answer(state);
        if let Some((ok, response)) = answer {
            self.items.push(result_item(&id));
            self.draft
                .tool_results
                .push(ToolResult::new(id, ok, response));
        }
        if let Some(item) = self.items.last_mut() {
            extend(item, "time", state.take_of("time"));
            if !matches!(status, "completed" | "error") {
                extend(item, "status", Some(status.into()));
            }
        }
        view(state);
    }
}

/// The answer of a tool, and whether the tool succeeded. A command that failed is `completed`: its exit
/// code is in the metadata.
fn answer(state: Node<'_, '_>) -> Option<(bool, Value)> {
    let code = state.peek().get("metadata");
    let code = code.and_then(|metadata| metadata.get("exit")?.as_i64());
    let is_zero = code.is_none_or(|code| code == 0);
    let output = state.take_of("output");
    let error = state.take_of("error");
    let attachments = state
        .get("attachments")
        .filter(|node| !says_nothing(node.peek()));
    match (output, error, attachments) {
        (None, None, None) => None,
        (Some(output), None, None) => Some((is_zero, output)),
        (None, Some(error), None) => Some((false, error)),
        (output, error, attachments) => {
            let ok = error.is_none() && is_zero;
            let parts = [
                ("output", output),
                ("error", error),
                ("attachments", attachments.map(Node::take)),
            ];
            let given = parts.into_iter();
            Some((
                ok,
                object(given.filter_map(|(name, part)| Some((name, part?)))),
            ))
        }
    }
}

/// Drops the members that `OpenCode` displays beside the model's view of a call.
fn view(state: Node<'_, '_>) {
    state.discard_all(&["title", "raw"], Reason::View);
    let Some(metadata) = state.get("metadata") else {
        return;
    };
    let output = state.peek().get("output");
    for (name, member) in metadata.members().into_iter().flatten() {
        let same = name == "output" && Some(member.peek()) == output;
        member.discard(if same {
            Reason::Duplicate
        } else {
            Reason::View
        });
    }
}

/// Counts tokens. Versions differ on whether `output` includes the reasoning; `total` distinguishes
/// them.
fn tokens(usage: &Value) -> Tokens {
    let of = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or_default();
    let cache = |name| of(usage.get("cache").and_then(|cache| cache.get(name)));
    let cached = cache("read");
    let input = of(usage.get("input"))
        .saturating_add(cached)
        .saturating_add(cache("write"));
    let (output, reasoning) = (of(usage.get("output")), of(usage.get("reasoning")));
    let apart = output.saturating_add(reasoning);
    let total = of(usage.get("total"));
    Tokens {
        input,
        output: if total == input.saturating_add(apart) {
            apart
        } else {
            output
        },
        cached,
        reasoning,
    }
}

#[cfg(test)]
mod tests;
