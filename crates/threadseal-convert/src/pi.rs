//! pi sessions (also of `OpenClaw`, which embeds pi): JSON Lines that form a tree.
//!
//! ```text
//! {"type":"session","version":3,"id":S,"timestamp":T,"cwd":D,"parentSession":F}      first line
//! {"type":"message","id":I,"parentId":P,"timestamp":T,"message":MESSAGE}
//! {"type":"model_change"|"thinking_level_change"|"compaction"|"branch_summary"|"custom"|
//!         "custom_message"|"label"|"session_info",…}
//! MESSAGE: {"role":"user","content":C,"timestamp":MS}
//!          {"role":"assistant","content":[text|thinking|toolCall,…],"provider","model","usage",…}
//!          {"role":"toolResult","toolCallId","toolName","content":[…],"isError","details"}
//!          {"role":"bashExecution","command","output","exitCode",…}
//! ```
//!
//! `spec/scroll-mappings.md` C12 has the table of members.

use super::account::{Account, Reason, Tokens, object};
use super::chat::Chat;
use super::draft::{
    Draft, Message, Model, Source, ToolCall, ToolResult, call_item, result_item, text_item,
};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::Node;
use super::thread::{
    Thread, content_items, count_of, each_line, extend, ms_to_ns, part_item, set_texts, set_time,
    set_values, sum_of, take_rest, unknown_kind,
};
use threadseal_core::canon::json::Value;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "pi";
/// Members of an entry around its content.
const ENTRY: [&str; 4] = ["type", "id", "parentId", "timestamp"];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "pi session (~/.pi/agent/sessions/*/*.jsonl), also of OpenClaw",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let header = head.lines.first().is_some_and(|line| {
        let has = |name: &str| line.get(name).is_some();
        line.get("type").and_then(Value::as_str) == Some("session") && has("id") && has("cwd")
    });
    let entry = |line: &Value| {
        let message = line.get("message").and_then(|message| message.get("role"));
        line.get("type").and_then(Value::as_str) == Some("message")
            && message.is_some()
            && line.get("sessionId").is_none()
    };
    let why = "a line `session` with `cwd`";
    Mark::when(header, Confidence::Certain, why).or_else(|| {
        let why = "lines of type `message` with a role";
        Mark::when(head.lines.iter().any(entry), Confidence::Likely, why)
    })
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut session = Session {
        thread: Thread::new(NAME),
        id: None,
        model: Model::default(),
    };
    each_line(source, &mut account, |root, line| session.entry(root, line));
    Ok(session.thread.finish(account))
}

struct Session {
    thread: Thread,
    id: Option<String>,
    model: Model,
}

impl Session {
    fn entry(&mut self, root: Node<'_, '_>, line: u64) -> Result<(), String> {
        let kind = root.peek_str("type").unwrap_or_default();
        match kind {
            "session" => self.header(root),
            "message" => {
                let message = root
                    .get("message")
                    .filter(|message| message.peek().as_object().is_some());
                let message = message.ok_or("no message")?;
                let _ = root.told_by("type");
                let mut source = self.source(root, line);
                let mut draft = message_draft(message, line, &mut source, &mut self.thread);
                self.place(root, &mut draft, &mut source);
                self.thread.push(draft, source);
            }
            "model_change" => {
                self.model = Model {
                    vendor: root.text_of("provider").unwrap_or_default(),
                    id: root.text_of("modelId"),
                    fingerprint: None,
                };
                root.discard_all(&ENTRY, Reason::Metadata);
            }
            "thinking_level_change" => root.discard(Reason::Metadata),
            "compaction" | "branch_summary" => self.summary(root, line, kind),
            "custom_message" => {
                let items = root.get("content").map(content_items);
                self.system(root, line, kind, items.unwrap_or_default());
            }
            "session_info" | "label" => {
                let name = if kind == "label" { "label" } else { "name" };
                let items = root.text_of(name).map(text_item);
                self.system(root, line, kind, items.into_iter().collect());
            }
            "custom" | "context_transform" | "ephemeral" => {
                let items = vec![part_item(root)];
                self.system(root, line, kind, items);
            }
            _ => return Err(unknown_kind("entry", root.peek().get("type"))),
        }
        Ok(())
    }

    /// The first line: facts of the session.
    fn header(&mut self, root: Node<'_, '_>) {
        self.id = root.peek_str("id").map(str::to_owned);
        if root.peek_str("modelId").is_some() {
            self.model.vendor = root.peek_str("provider").unwrap_or_default().to_owned();
            self.model.id = root.peek_str("modelId").map(str::to_owned);
        }
        let _ = root.told_by("type");
        let mut info = Value::Object(Vec::new());
        take_rest(root, &mut info, &["type"]);
        self.thread.head().set("session_info", info);
    }

    fn summary(&mut self, root: Node<'_, '_>, line: u64, kind: &str) {
        let items = root.text_of("summary").map(text_item);
        root.discard_all(&["details"], Reason::View);
        self.system(root, line, kind, items.into_iter().collect());
    }

    /// An entry that is no message: a turn of role `system`, the other members in its source item.
    fn system(&mut self, root: Node<'_, '_>, line: u64, kind: &str, items: Vec<Value>) {
        let mut draft = Draft::new(Role::System, "");
        draft.messages.push(Message::items(Role::System, items));
        let mut source = self.source(root, line);
        source.set("kind", kind.into());
        let _ = root.told_by("type");
        let names = [
            ("custom_kind", "customType"),
            ("first_kept", "firstKeptEntryId"),
            ("tokens_before", "tokensBefore"),
            ("from", "fromId"),
            ("target", "targetId"),
            ("from_hook", "fromHook"),
            ("display", "display"),
            ("details", "details"),
        ];
        set_values(&mut source, root, &names);
        spend(root, &mut source, &mut self.thread);
        self.place(root, &mut draft, &mut source);
        self.thread.push(draft, source);
    }

    fn source(&self, root: Node<'_, '_>, line: u64) -> Source {
        let mut source = self.thread.source(&[line]);
        source.set_some("session", self.id.as_deref());
        set_texts(&mut source, root, &[("id", "id"), ("parent", "parentId")]);
        source
    }

    /// The moment of an entry, and the model where the message names none.
    fn place(&self, root: Node<'_, '_>, draft: &mut Draft, source: &mut Source) {
        set_time(draft, source, root, "timestamp");
        if draft.model.id.is_none() && draft.model.vendor.is_empty() {
            draft.model = self.model.clone();
        }
    }
}

/// The turn of one message of pi; `OpenClaw` has the same messages.
pub(super) fn message_draft(
    message: Node<'_, '_>,
    line: u64,
    source: &mut Source,
    thread: &mut Thread,
) -> Draft {
    let role = message.peek_str("role").unwrap_or_default().to_owned();
    let mut draft = match role.as_str() {
        "user" | "assistant" => {
            let chat = Chat::read(message, &format!("call-{line}"));
            let mut draft = Draft::new(chat.turn_role(), "");
            chat.say(&mut draft);
            draft
        }
        "toolResult" => answer(message, line),
        "bashExecution" => shell(message, line),
        _ => other(message, source),
    };
    draft.model.id = message.text_of("model").filter(|model| !model.is_empty());
    draft.model.vendor = message.text_of("provider").unwrap_or_default();
    if let Some(moment) = message.get("timestamp") {
        draft.timestamp_ns = ms_to_ns(moment.peek());
        source.set("moment", moment.take());
    }
    let names = [
        ("api", "api"),
        ("stop_reason", "stopReason"),
        ("error", "errorMessage"),
        ("message", "responseId"),
        ("response_model", "responseModel"),
    ];
    set_texts(source, message, &names);
    spend(message, source, thread);
    draft
}

/// The usage of a message, or of the summary of a compaction.
fn spend(node: Node<'_, '_>, source: &mut Source, thread: &mut Thread) {
    if let Some(usage) = node
        .get("usage")
        .filter(|usage| usage.peek().as_object().is_some())
    {
        thread.spend(source, tokens(usage.peek()));
        source.set("usage", usage.take());
    }
}

/// A result of a tool.
fn answer(message: Node<'_, '_>, line: u64) -> Draft {
    let _ = message.told_by("role");
    let mut draft = Draft::new(Role::Tool, "");
    let id = message.text_of("toolCallId");
    let id = id.unwrap_or_else(|| format!("result-{line}"));
    let ok = message.bool_of("isError") != Some(true);
    let response = message.get("content").map_or(Value::Null, Node::take);
    let mut item = result_item(&id);
    extend(
        &mut item,
        "name",
        message.text_of("toolName").map(Value::from),
    );
    draft.tool_results.push(ToolResult::new(id, ok, response));
    draft.messages.push(Message::items(Role::Tool, vec![item]));
    message.discard_all(&["details"], Reason::View);
    draft
}

/// A command that the user ran, with its output.
fn shell(message: Node<'_, '_>, line: u64) -> Draft {
    let _ = message.told_by("role");
    let mut draft = Draft::new(Role::Tool, "");
    let id = format!("bash-{line}");
    let command = message.get("command").map_or(Value::Null, Node::take);
    let args = object([("command", command)]);
    let code = message.peek().get("exitCode").and_then(Value::as_i64);
    let cancelled = message.peek().get("cancelled").and_then(Value::as_bool);
    let ok = code.is_none_or(|code| code == 0) && cancelled != Some(true);
    let output = message.get("output").map_or(Value::Null, Node::take);
    let mut item = result_item(&id);
    for name in [
        "exitCode",
        "cancelled",
        "truncated",
        "fullOutputPath",
        "excludeFromContext",
    ] {
        extend(&mut item, name, message.take_of(name));
    }
    draft
        .tool_calls
        .push(ToolCall::new(id.clone(), "bash".to_owned(), args));
    draft
        .tool_results
        .push(ToolResult::new(id.clone(), ok, output));
    let items = vec![call_item(&id), item];
    draft.messages.push(Message::items(Role::Tool, items));
    draft
}

/// A message of a role of pi's own, or of an extension: a turn of role `system`.
fn other(message: Node<'_, '_>, source: &mut Source) -> Draft {
    let mut draft = Draft::new(Role::System, "");
    source.set_some("kind", message.told_by("role"));
    let mut items = Vec::new();
    for name in ["content", "summary"] {
        items.extend(message.get(name).map(content_items).into_iter().flatten());
    }
    let names = [
        ("custom_kind", "customType"),
        ("from", "fromId"),
        ("tokens_before", "tokensBefore"),
        ("display", "display"),
        ("details", "details"),
    ];
    set_values(source, message, &names);
    draft.messages.push(Message::items(Role::System, items));
    draft
}

fn tokens(usage: &Value) -> Tokens {
    Tokens {
        input: sum_of(usage, &["input", "cacheRead", "cacheWrite"]),
        output: count_of(usage, "output"),
        cached: count_of(usage, "cacheRead"),
        reasoning: count_of(usage, "reasoning"),
    }
}

#[cfg(test)]
mod tests;
