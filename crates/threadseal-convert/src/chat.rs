//! One message of a conversation, in any of the shapes in which programs store it.
//!
//! The shapes are those of OpenAI Chat Completions, Anthropic Messages, `OpenTelemetry GenAI`,
//! Google, the Vercel AI SDK, Inspect and `LangChain`. `spec/scroll-mappings.md` C10 has the table.
//!
//! Arguments that are a string of JSON are carried as that JSON; any other string stays a string.
//! Other members of a block stay with its item. Other members of a message are left to the caller,
//! which takes them with [`rest`].

use super::draft::{
    Draft, Message, ToolCall, ToolResult, call_item, redacted_thinking_item, result_item,
    text_item, thinking_item,
};
use super::source::Node;
use super::thread::{block_item, extend, part_item, says_nothing, take_rest};
use threadseal_core::canon::json::{Value, parse};
use threadseal_formats::scroll::Role;

/// Members of a message that [`Chat::read`] reads.
const TOLD: [&str; 10] = [
    "role",
    "content",
    "parts",
    "tool_calls",
    "toolCalls",
    "tool_call_id",
    "reasoning_content",
    "reasoning",
    "thinking",
    "refusal",
];

/// The content of one message.
#[derive(Debug, Default)]
pub(super) struct Chat {
    /// The role, in the source's word.
    pub(super) role: String,
    /// Items of content, in order.
    pub(super) items: Vec<Value>,
    /// Calls of tools.
    pub(super) calls: Vec<ToolCall>,
    /// Results of tools.
    pub(super) results: Vec<ToolResult>,
    /// The prefix of generated call ids.
    prefix: String,
}

impl Chat {
    /// Reads one message. A call without an id of its own is called `PREFIX-N`.
    pub(super) fn read(message: Node<'_, '_>, prefix: &str) -> Self {
        let mut chat = Self {
            role: role_word(message),
            prefix: prefix.to_owned(),
            ..Self::default()
        };
        for name in ["reasoning_content", "reasoning", "thinking"] {
            chat.thought(message, name);
        }
        if chat.answers(message) {
            return chat;
        }
        for name in ["content", "parts"] {
            if let Some(content) = message.get(name) {
                chat.content(content);
            }
        }
        for name in ["tool_calls", "toolCalls"] {
            for call in message
                .get(name)
                .and_then(Node::items)
                .into_iter()
                .flatten()
            {
                chat.call(call);
            }
        }
        if let Some(refusal) = message.text_of("refusal").filter(|text| !text.is_empty()) {
            let mut item = Value::Object(vec![("type".into(), "refusal".into())]);
            extend(&mut item, "refusal", Some(refusal.into()));
            chat.items.push(item);
        }
        chat
    }

    /// The role of the turn: that of the message, and `tool` where it only answers calls.
    pub(super) fn turn_role(&self) -> Role {
        match self.role.as_str() {
            _ if !self.results.is_empty() && self.items.len() == self.results.len() => Role::Tool,
            "user" | "human" => Role::User,
            "assistant" | "ai" | "model" | "agent" | "AIMessage" => Role::Assistant,
            "tool" | "function" => Role::Tool,
            _ => Role::System,
        }
    }

    /// Moves all content into a turn, as one more message.
    pub(super) fn say(self, draft: &mut Draft) {
        let role = self.turn_role();
        draft.tool_calls.extend(self.calls);
        draft.tool_results.extend(self.results);
        draft.messages.push(Message::items(role, self.items));
    }

    fn thought(&mut self, message: Node<'_, '_>, name: &str) {
        if let Some(text) = message.text_of(name).filter(|text| !text.is_empty()) {
            self.items.push(thinking_item(text));
        }
    }

    /// A message that is one answer: it names the call.
    fn answers(&mut self, message: Node<'_, '_>) -> bool {
        let named = message.peek_str("tool_call_id").is_some();
        if !named && !matches!(self.role.as_str(), "tool" | "function") {
            return false;
        }
        let content = message
            .get("content")
            .filter(|content| !content.peek().is_null());
        let Some(content) = content.filter(|content| named || content.peek().as_str().is_some())
        else {
            return false;
        };
        let id = message.text_of("tool_call_id");
        let error = message
            .get("error")
            .filter(|error| !says_nothing(error.peek()));
        let mut item = self.result(id, error.is_none(), content.take());
        extend(&mut item, "error", error.map(Node::take));
        self.items.push(item);
        true
    }

    /// Everything in free-form content.
    pub(super) fn content(&mut self, content: Node<'_, '_>) {
        match content.peek() {
            Value::Array(_) => {
                for block in content.items().into_iter().flatten() {
                    self.block(block);
                }
            }
            Value::Object(_) => self.block(content),
            _ => self.items.extend(block_item(content)),
        }
    }

    fn block(&mut self, block: Node<'_, '_>) {
        let kind = block.peek_str("type");
        let has = |name: &str| block.peek().get(name).is_some();
        match kind {
            Some("text" | "input_text" | "output_text") if block.peek_str("text").is_some() => {
                self.said(block, "text", text_item);
            }
            Some("text") if block.peek_str("content").is_some() => {
                self.said(block, "content", text_item);
            }
            Some("reasoning") if block.peek().get("summary").is_some_and(is_list) => {
                self.reasoning(block);
            }
            Some("thinking" | "reasoning") => {
                let names = ["thinking", "reasoning", "text", "content"];
                match names.iter().find(|name| block.peek_str(name).is_some()) {
                    Some(name) => self.said(block, name, thinking_item),
                    None => self.items.push(part_item(block)),
                }
            }
            Some("tool_use" | "tool_call" | "tool-call" | "toolCall" | "function_call") => {
                self.call(block);
            }
            Some("tool_result" | "tool_call_response" | "tool-result" | "function_call_output") => {
                self.answer(block, block);
            }
            None if block.peek_str("text").is_some() => {
                let thought = block.peek().get("thought").and_then(Value::as_bool);
                let thought = thought == Some(true);
                self.said(
                    block,
                    "text",
                    if thought { thinking_item } else { text_item },
                );
            }
            None if has("functionCall") || has("function_call") => self.inner(block, Self::call),
            None if has("functionResponse") || has("function_response") => {
                self.inner(block, |chat, response| chat.answer(response, response));
            }
            _ => self.items.extend(block_item(block)),
        }
    }

    /// An item of reasoning, as the Responses API has it.
    fn reasoning(&mut self, block: Node<'_, '_>) {
        let _ = block.told_by("type");
        let before = self.items.len();
        for name in ["summary", "content"] {
            let parts = block.get(name).and_then(Node::items);
            for part in parts.into_iter().flatten() {
                let _ = part.told_by("type");
                let text = part.text_of("text").filter(|text| !text.is_empty());
                self.items.extend(text.map(thinking_item));
            }
        }
        let hidden = block.text_of("encrypted_content");
        self.items.extend(hidden.map(redacted_thinking_item));
        if let Some(first) = self.items.get_mut(before) {
            let told = ["type", "summary", "content", "encrypted_content"];
            take_rest(block, first, &told);
        }
    }

    /// Reads a text block with its other members.
    fn said(&mut self, block: Node<'_, '_>, name: &str, item: fn(String) -> Value) {
        let _ = block.told_by("type");
        let mut item = item(block.text_of(name).unwrap_or_default());
        take_rest(block, &mut item, &["type", name]);
        self.items.push(item);
    }

    /// A block that wraps a call or an answer in a member of its name.
    fn inner(&mut self, block: Node<'_, '_>, read: fn(&mut Self, Node<'_, '_>)) {
        const NAMES: [&str; 4] = [
            "functionCall",
            "function_call",
            "functionResponse",
            "function_response",
        ];
        for inner in NAMES.iter().filter_map(|name| block.get(name)) {
            read(self, inner);
        }
        if let Some(item) = self.items.last_mut() {
            take_rest(block, item, &NAMES);
        }
    }

    /// One call.
    pub(super) fn call(&mut self, call: Node<'_, '_>) {
        const IDS: [&str; 4] = ["call_id", "toolCallId", "tool_call_id", "id"];
        const NAMES: [&str; 4] = ["name", "toolName", "tool_name", "function"];
        const ARGS: [&str; 4] = ["arguments", "args", "input", "parameters"];
        let function = call.get("function");
        let inner = function.filter(|function| function.peek().as_object().is_some());
        let place = inner.unwrap_or(call);
        let id = first_text(call, &IDS).unwrap_or_else(|| self.made_up());
        let name = first_text(place, &NAMES).unwrap_or_default();
        let args = ARGS.iter().find_map(|name| place.get(name)).map(arguments);
        let mut item = call_item(&id);
        let _ = call.told_by("type");
        let known = [&IDS[..], &NAMES, &ARGS, &["type"]].concat();
        take_rest(call, &mut item, &known);
        if inner.is_some() {
            take_rest(place, &mut item, &known);
        }
        // The name of the item, where the call has one of its own.
        let own = call.get("id").filter(|own| !own.is_marked());
        extend(&mut item, "item", own.and_then(Node::text).map(Value::from));
        self.items.push(item);
        let call = ToolCall::new(id, name, args.unwrap_or(Value::Null));
        self.calls.push(call);
    }

    /// One answer; the response is a member of `place`.
    fn answer(&mut self, block: Node<'_, '_>, place: Node<'_, '_>) {
        const IDS: [&str; 5] = ["tool_use_id", "tool_call_id", "toolCallId", "call_id", "id"];
        const BODIES: [&str; 5] = ["response", "result", "output", "content", "value"];
        let id = first_text(block, &IDS);
        let failed = ["is_error", "isError"];
        let failed = failed.iter().any(|name| block.bool_of(name) == Some(true));
        let body = BODIES
            .iter()
            .find_map(|name| place.get(name))
            .map(Node::take);
        let mut item = self.result(id, !failed, body.unwrap_or(Value::Null));
        let _ = block.told_by("type");
        let known = [&IDS[..], &BODIES, &["type", "is_error", "isError"]].concat();
        take_rest(block, &mut item, &known);
        self.items.push(item);
    }

    fn result(&mut self, id: Option<String>, ok: bool, response: Value) -> Value {
        let id = id.unwrap_or_else(|| self.made_up());
        let item = result_item(&id);
        self.results.push(ToolResult::new(id, ok, response));
        item
    }

    fn made_up(&self) -> String {
        format!("{}-{}", self.prefix, self.items.len())
    }
}

/// The members of a message that neither [`Chat::read`] takes nor `except` names.
pub(super) fn rest(message: Node<'_, '_>, except: &[&str]) -> Option<Value> {
    let mut rest = Value::Object(Vec::new());
    take_rest(message, &mut rest, &[&TOLD[..], except].concat());
    Some(rest).filter(|rest| !says_nothing(rest))
}

/// The arguments of a call: the value itself, or the JSON in a string.
pub(super) fn arguments(node: Node<'_, '_>) -> Value {
    let held = node.peek().as_str().and_then(held_json);
    match held {
        Some(held) => node.take_held(&held),
        None => node.take(),
    }
}

/// The object or array that a string holds as JSON.
pub(super) fn held_json(text: &str) -> Option<Value> {
    let trimmed = text.trim_start();
    if !trimmed.starts_with(['{', '[']) {
        return None;
    }
    parse(text.as_bytes()).ok()
}

fn is_list(value: &Value) -> bool {
    value.as_array().is_some()
}

fn role_word(message: Node<'_, '_>) -> String {
    let word = message.told_by("role").map(str::to_owned);
    let kind = || {
        message
            .peek_str("type")
            .filter(|kind| matches!(*kind, "human" | "ai" | "tool" | "system"))
    };
    word.or_else(|| {
        let kind = kind()?;
        let _ = message.told_by("type");
        Some(kind.to_owned())
    })
    .unwrap_or_default()
}

fn first_text(node: Node<'_, '_>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| node.text_of(name))
}
