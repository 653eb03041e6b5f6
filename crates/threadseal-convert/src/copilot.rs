//! Copilot CLI sessions: JSON Lines of events.
//!
//! ```text
//! {"type":"session.start","data":{"sessionId":S,"context":{…},…},"id":I,"timestamp":T,"parentId":P}
//! {"type":"user.message","data":{"content":C,"transformedContent":C,"attachments":[…]},…}
//! {"type":"assistant.message","data":{"messageId":M,"content":C,"reasoningText":R,
//!  "toolRequests":[{"toolCallId","name","arguments"},…]},…}
//! {"type":"tool.execution_start","data":{"toolCallId","toolName","arguments"},…}
//! {"type":"tool.execution_complete","data":{"toolCallId","success","result":{"content",…}},…}
//! {"type":"session.usage_record","data":{"usage":{"apiCallId",…}},…}
//! {"type":"session.shutdown","data":{"accountingSnapshot":{"modelMetrics":{M:{"usage":{…}}},…}},…}
//! ```
//!
//! `spec/scroll-mappings.md` C16 has the table of members.

use super::account::{Account, Reason, Tokens};
use super::draft::{
    Draft, Message, Source, ToolCall, ToolResult, call_item, redacted_thinking_item, result_item,
    thinking_item,
};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, json_lines};
use super::thread::{
    Thread, content_items, count_of, each_line, extend, part_item, says_nothing, set_texts,
    set_time, set_values, take_rest, unknown_kind,
};
use std::collections::{BTreeMap, HashSet};
use threadseal_core::canon::json::Value;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "copilot-cli";
/// Events without content of the conversation.
const BOOKKEEPING: [&str; 30] = [
    "assistant.turn_start",
    "assistant.turn_end",
    "assistant.idle",
    "assistant.message_start",
    "assistant.message_delta",
    "assistant.reasoning_delta",
    "assistant.streaming_delta",
    "assistant.tool_call_delta",
    "session.idle",
    "session.usage_info",
    "session.usage_checkpoint",
    "session.quota_observation",
    "session.tools_updated",
    "session.background_tasks_changed",
    "session.skills_loaded",
    "session.mcp_servers_loaded",
    "session.mcp_server_status_changed",
    "session.custom_agents_updated",
    "session.extensions_loaded",
    "commands.changed",
    "capabilities.changed",
    "pending_messages.modified",
    "tool.execution_partial_result",
    "tool.execution_progress",
    "hook.start",
    "hook.end",
    "hook.progress",
    "model.call_start",
    "model.call_finished",
    "model.call_final_result",
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Copilot CLI session (~/.copilot/session-state/*/events.jsonl)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let kind = |line: &Value| line.get("type").and_then(Value::as_str).map(str::to_owned);
    let holds = |line: &Value| line.get("data").and_then(Value::as_object).is_some();
    let start = |line: &Value| {
        kind(line).as_deref() == Some("session.start") && holds(line) && line.get("id").is_some()
    };
    let event = |line: &Value| {
        let named = kind(line).is_some_and(|kind| {
            ["user.message", "assistant.message", "tool.execution_start"].contains(&kind.as_str())
        });
        named && holds(line)
    };
    let why = "an event `session.start` with `data` and `id`";
    Mark::when(head.lines.iter().any(start), Confidence::Certain, why).or_else(|| {
        let why = "events like `user.message` with `data`";
        Mark::when(head.lines.iter().any(event), Confidence::Likely, why)
    })
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut session = Session {
        thread: Thread::new(NAME),
        id: None,
        model: None,
        requested: HashSet::new(),
        reasoned: HashSet::new(),
        has_usage: false,
        sums: Vec::new(),
        usage: BTreeMap::new(),
    };
    json_lines(source, &mut Account::default(), |_, _, event| {
        session.survey(event);
    });
    each_line(source, &mut account, |root, line| session.event(root, line));
    session.leftovers();
    if !session.has_usage {
        session.thread.count(total(&session.sums));
    }
    Ok(session.thread.finish(account))
}

struct Session {
    thread: Thread,
    id: Option<String>,
    model: Option<String>,
    /// Calls that messages of the model make.
    requested: HashSet<String>,
    /// Reasoning in messages of the model.
    reasoned: HashSet<String>,
    /// Whether events have the tokens of each request.
    has_usage: bool,
    /// The sums at each end of the session.
    sums: Vec<Tokens>,
    /// The usage of requests whose message was not read yet, by the name of the request.
    usage: BTreeMap<String, (Tokens, Value)>,
}

impl Session {
    /// First pass: what messages contain, and where the tokens are.
    fn survey(&mut self, event: &Value) {
        let data = event.get("data");
        let kind = event.get("type").and_then(Value::as_str);
        match (kind, data) {
            (Some("assistant.message"), Some(data)) => {
                let requests = data.get("toolRequests").and_then(Value::as_array);
                let requests = requests.into_iter().flatten();
                let ids = requests.filter_map(|request| request.get("toolCallId")?.as_str());
                self.requested.extend(ids.map(str::to_owned));
                let thought = data.get("reasoningText").and_then(Value::as_str);
                self.reasoned.extend(thought.map(str::to_owned));
            }
            (Some("assistant.usage" | "session.usage_record"), _) => self.has_usage = true,
            (Some("session.shutdown"), Some(data)) => self.sums.push(metrics(data)),
            _ => {}
        }
    }

    fn event(&mut self, root: Node<'_, '_>, line: u64) -> Result<(), String> {
        let kind = root.peek_str("type").unwrap_or_default();
        let data = root
            .get("data")
            .filter(|data| data.peek().as_object().is_some());
        let (false, Some(data)) = (kind.is_empty(), data) else {
            return Err(unknown_kind("event", root.peek().get("type")));
        };
        match kind {
            _ if BOOKKEEPING.contains(&kind) => root.discard(Reason::Metadata),
            "session.start" | "session.resume" => self.start(root, data, line, kind),
            "session.model_change" => {
                self.model = data.peek_str("newModel").map(str::to_owned);
                root.discard(Reason::Metadata);
            }
            "user.message" => self.user(root, data, line),
            "assistant.message" => self.assistant(root, data, line),
            "assistant.reasoning" if self.has_reasoned(data) => root.discard(Reason::Duplicate),
            "assistant.usage" => self.spent(root, data, line),
            "session.usage_record" => self.spent(root, data.get("usage").unwrap_or(data), line),
            "tool.execution_start" if self.has_requested(data) => root.discard(Reason::Duplicate),
            "tool.execution_start" => self.call(root, data, line),
            "tool.execution_complete" => self.result(root, data, line),
            "system.message" | "system.notification" | "assistant.reasoning" => {
                self.text(root, data, line, kind);
            }
            _ => self.part(root, data, line, kind),
        }
        Ok(())
    }

    fn has_requested(&self, data: Node<'_, '_>) -> bool {
        let id = data.peek_str("toolCallId");
        id.is_some_and(|id| self.requested.contains(id))
    }

    fn has_reasoned(&self, data: Node<'_, '_>) -> bool {
        let text = data.peek_str("content");
        text.is_some_and(|text| self.reasoned.contains(text))
    }

    fn start(&mut self, root: Node<'_, '_>, data: Node<'_, '_>, line: u64, kind: &str) {
        let id = data.peek_str("sessionId").map(str::to_owned);
        self.id = id.or_else(|| self.id.take());
        let model = data.peek_str("selectedModel").map(str::to_owned);
        self.model = model.or_else(|| self.model.take());
        let mut info = Value::Object(Vec::new());
        take_rest(data, &mut info, &[]);
        let mut draft = Draft::new(Role::System, "");
        let mut source = self.source(root, line, &mut draft, Some(kind));
        source.set("session_info", info);
        draft
            .messages
            .push(Message::items(Role::System, Vec::new()));
        self.push(draft, source);
    }

    fn user(&mut self, root: Node<'_, '_>, data: Node<'_, '_>, line: u64) {
        let mut items = data.get("content").map(content_items).unwrap_or_default();
        let attached = data.get("attachments").and_then(Node::items);
        items.extend(attached.into_iter().flatten().map(part_item));
        data.discard_all(&["transformedContent"], Reason::View);
        let mut draft = Draft::new(Role::User, "");
        draft.messages.push(Message::items(Role::User, items));
        let mut source = self.source(root, line, &mut draft, None);
        beside(data, &mut source);
        self.push(draft, source);
    }

    fn assistant(&mut self, root: Node<'_, '_>, data: Node<'_, '_>, line: u64) {
        let mut draft = Draft::new(Role::Assistant, "");
        let mut items = Vec::new();
        let thought = data
            .text_of("reasoningText")
            .filter(|text| !text.is_empty());
        items.extend(thought.map(thinking_item));
        for name in ["reasoningOpaque", "encryptedContent"] {
            let hidden = data.text_of(name).filter(|text| !text.is_empty());
            items.extend(hidden.map(redacted_thinking_item));
        }
        items.extend(data.get("content").map(content_items).unwrap_or_default());
        let requests = data.get("toolRequests").and_then(Node::items);
        for (index, request) in requests.into_iter().flatten().enumerate() {
            let id = request.text_of("toolCallId");
            let id = id.unwrap_or_else(|| format!("call-{line}-{index}"));
            let name = request.text_of("name").unwrap_or_default();
            let args = request.get("arguments").map_or(Value::Null, Node::take);
            let mut item = call_item(&id);
            let told = ["toolCallId", "name", "arguments", "type"];
            let _ = request.told_by("type");
            take_rest(request, &mut item, &told);
            items.push(item);
            draft.tool_calls.push(ToolCall::new(id, name, args));
        }
        draft.messages.push(Message::items(Role::Assistant, items));
        let mut source = self.source(root, line, &mut draft, None);
        draft.model.id = data.text_of("model").or(draft.model.id);
        source.set_some("message", data.text_of("messageId"));
        let request = data.peek_str("apiCallId");
        if let Some((tokens, usage)) = request.and_then(|request| self.usage.remove(request)) {
            source.set_tokens(tokens);
            source.set("usage", usage);
        } else if let Some(output) = data.u64_of("outputTokens") {
            let tokens = Tokens {
                output,
                ..Tokens::default()
            };
            if self.has_usage || !self.sums.is_empty() {
                source.set_tokens(tokens);
            } else {
                self.thread.spend(&mut source, tokens);
            }
        }
        beside(data, &mut source);
        self.push(draft, source);
    }

    /// The usage of one request. The message of the model that names the request gets it.
    fn spent(&mut self, root: Node<'_, '_>, usage: Node<'_, '_>, line: u64) {
        let tokens = tokens(usage.peek());
        self.thread.count(tokens);
        let request = usage.peek_str("apiCallId").map(str::to_owned);
        let request = request.unwrap_or_else(|| format!("line-{line}"));
        self.usage.insert(request, (tokens, usage.take()));
        for name in [
            "type",
            "id",
            "timestamp",
            "parentId",
            "agentId",
            "ephemeral",
        ] {
            root.discard_all(&[name], Reason::Metadata);
        }
    }

    /// The usage of requests that no message names.
    fn leftovers(&mut self) {
        let left = std::mem::take(&mut self.usage).into_values();
        let left: Vec<Value> = left.map(|(_, usage)| usage).collect();
        if !left.is_empty() {
            self.thread.head_list("usage", left);
        }
    }

    /// A call that no message of the model makes.
    fn call(&mut self, root: Node<'_, '_>, data: Node<'_, '_>, line: u64) {
        let id = data.text_of("toolCallId");
        let id = id.unwrap_or_else(|| format!("call-{line}"));
        let name = data.text_of("toolName").unwrap_or_default();
        let args = data.get("arguments").map_or(Value::Null, Node::take);
        let mut draft = Draft::new(Role::Tool, "");
        let items = vec![call_item(&id)];
        draft.messages.push(Message::items(Role::Tool, items));
        draft.tool_calls.push(ToolCall::new(id, name, args));
        let mut source = self.source(root, line, &mut draft, None);
        beside(data, &mut source);
        self.push(draft, source);
    }

    fn result(&mut self, root: Node<'_, '_>, data: Node<'_, '_>, line: u64) {
        let id = data.text_of("toolCallId");
        let id = id.unwrap_or_else(|| format!("result-{line}"));
        let code = data.peek().get("shellExecution");
        let code = code.and_then(|shell| shell.get("exitCode")?.as_i64());
        let ok = data.bool_of("success") != Some(false) && code.is_none_or(|code| code == 0);
        let result = data.get("result").filter(|node| !node.peek().is_null());
        let error = data.get("error").filter(|node| !node.peek().is_null());
        let told = result.and_then(|result| result.get("content"));
        let response = match (told, result, error) {
            (Some(content), Some(result), _) => {
                for (name, member) in result.members().into_iter().flatten() {
                    if name != "content" {
                        member.discard(Reason::View);
                    }
                }
                content.take()
            }
            (_, Some(result), _) => result.take(),
            (_, None, Some(error)) => error.take(),
            _ => Value::Null,
        };
        let mut item = result_item(&id);
        extend(&mut item, "name", data.text_of("toolName").map(Value::from));
        if result.is_some() {
            extend(&mut item, "error", error.map(Node::take));
        }
        let mut draft = Draft::new(Role::Tool, "");
        draft.messages.push(Message::items(Role::Tool, vec![item]));
        draft.tool_results.push(ToolResult::new(id, ok, response));
        data.discard_all(&["toolTelemetry"], Reason::Metadata);
        let mut source = self.source(root, line, &mut draft, None);
        source.set_some("model", data.text_of("model"));
        beside(data, &mut source);
        self.push(draft, source);
    }

    /// An event with a text of the program.
    fn text(&mut self, root: Node<'_, '_>, data: Node<'_, '_>, line: u64, kind: &str) {
        let content = data.get("content").map(content_items).unwrap_or_default();
        let mut draft = Draft::new(Role::System, "");
        let mut source = self.source(root, line, &mut draft, Some(kind));
        let items = match kind {
            "assistant.reasoning" => {
                draft.role = Role::Assistant;
                let texts = content.iter().filter_map(|item| item.get("text").cloned());
                texts.map(thinking_item).collect()
            }
            _ => content,
        };
        draft.messages.push(Message::items(draft.role, items));
        beside(data, &mut source);
        self.push(draft, source);
    }

    /// Any other event: its data is the content.
    fn part(&mut self, root: Node<'_, '_>, data: Node<'_, '_>, line: u64, kind: &str) {
        let mut draft = Draft::new(Role::System, "");
        let items = vec![part_item(data)];
        draft.messages.push(Message::items(Role::System, items));
        let source = self.source(root, line, &mut draft, Some(kind));
        self.push(draft, source);
    }

    fn source(
        &self,
        root: Node<'_, '_>,
        line: u64,
        draft: &mut Draft,
        kind: Option<&str>,
    ) -> Source {
        let _ = root.told_by("type");
        let mut source = self.thread.source(&[line]);
        source.set_some("session", self.id.as_deref());
        let names = [("id", "id"), ("parent", "parentId"), ("agent", "agentId")];
        set_texts(&mut source, root, &names);
        source.set_some("kind", kind);
        set_time(draft, &mut source, root, "timestamp");
        root.discard_all(&["ephemeral"], Reason::Metadata);
        draft.model.id.clone_from(&self.model);
        source
    }

    fn push(&mut self, draft: Draft, source: Source) {
        self.thread.push(draft, source);
    }
}

/// Other members of an event's data, in the source item.
fn beside(data: Node<'_, '_>, source: &mut Source) {
    let names = [
        ("turn", "turnId"),
        ("interaction", "interactionId"),
        ("call", "parentToolCallId"),
    ];
    set_values(source, data, &names);
    let mut rest = Value::Object(Vec::new());
    for (name, member) in data.members().into_iter().flatten() {
        if !member.is_marked() && !says_nothing(member.peek()) {
            let name = name.as_str().unwrap_or_default().to_owned();
            extend(&mut rest, &name, Some(member.take()));
        }
    }
    source.set_some("data", Some(rest).filter(|rest| !says_nothing(rest)));
}

/// The sum of several ends of a session. Each includes those before it, unless one is smaller.
fn total(sums: &[Tokens]) -> Tokens {
    let grows = |pair: &[Tokens]| match pair {
        [first, second] => first.input <= second.input && first.output <= second.output,
        _ => true,
    };
    let mut all = Tokens::default();
    if sums.windows(2).all(grows) {
        return sums.last().copied().unwrap_or_default();
    }
    sums.iter().for_each(|sum| all.add(*sum));
    all
}

/// The sums at an end of a session.
fn metrics(data: &Value) -> Tokens {
    let data = data.get("accountingSnapshot").unwrap_or(data);
    let models = data.get("modelMetrics").and_then(Value::as_object);
    let mut sum = Tokens::default();
    for (_, model) in models.unwrap_or_default() {
        sum.add(model.get("usage").map(tokens).unwrap_or_default());
    }
    sum
}

fn tokens(usage: &Value) -> Tokens {
    Tokens {
        input: count_of(usage, "inputTokens"),
        output: count_of(usage, "outputTokens"),
        cached: count_of(usage, "cacheReadTokens"),
        reasoning: count_of(usage, "reasoningTokens"),
    }
}

#[cfg(test)]
mod tests;
