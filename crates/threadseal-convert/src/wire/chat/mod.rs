//! OpenAI Chat Completions (`POST /v1/chat/completions`), and compatible APIs.
//!
//! ```text
//! request   {"model":M,"messages":[MESSAGE,…],"tools":[…],"temperature":T,…}
//! MESSAGE   {"role":"system"|"developer"|"user","content":TEXT|[PART,…],"name":N}
//!           {"role":"assistant","content":C|null,"refusal":R,"tool_calls":[CALL,…],"audio":{…}}
//!           {"role":"tool","tool_call_id":I,"content":C}
//!           {"role":"function","name":N,"content":C}
//! CALL      {"id":I,"type":"function","function":{"name":N,"arguments":"JSON"}}
//!           {"id":I,"type":"custom","custom":{"name":N,"input":TEXT}}
//! response  {"id":I,"object":"chat.completion","created":S,"model":M,"system_fingerprint":F,
//!            "choices":[{"index":0,"message":MESSAGE,"finish_reason":R,"logprobs":L}],"usage":{…}}
//! ```
//!
//! `spec/scroll-mappings.md` W3 has the table of members.
//!
//! Two messages are the same if they have the same role, text, refusal, calls and result. Clients
//! do not repeat other members of a response.

mod stream;
#[cfg(test)]
mod tests;

use super::super::account::{Account, Reason, Tokens, object};
use super::super::draft::{
    Draft, Message, Source, ToolCall, ToolResult, call_item, redacted_thinking_item, result_item,
    text_item,
};
use super::super::format::{Confidence, Format, Head, Mark};
use super::super::mapped::Mapped;
use super::super::source::Node;
use super::history::Place;
use super::talk::{
    Names, Setting, Talk, arguments, figure, integer_of, number_of, part_item, says_nothing,
    seconds, take_some,
};
use super::{Api, exchanges};
use std::collections::HashMap;
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "openai-chat";
const VENDOR: &str = "openai";

pub(crate) const FORMAT: Format = Format {
    name: NAME,
    about: "OpenAI Chat Completions: requests, responses, event streams, captures",
    detect,
    map,
};

pub(super) const API: Api = Api {
    is_request,
    is_response,
    is_chunk: stream::is_chunk,
    is_message,
    messages: "messages",
    assemble: stream::assemble,
};

const REQUEST: Names = Names {
    system: &[],
    tools: &["tools", "functions"],
    known: &[
        "messages",
        "model",
        "temperature",
        "top_p",
        "seed",
        "max_tokens",
        "max_completion_tokens",
    ],
};

/// Members that only a request of this API has.
const OWN_MEMBERS: [&str; 12] = [
    "stream_options",
    "max_completion_tokens",
    "response_format",
    "parallel_tool_calls",
    "frequency_penalty",
    "presence_penalty",
    "functions",
    "logit_bias",
    "logprobs",
    "reasoning_effort",
    "n",
    "seed",
];

fn detect(head: &Head<'_>) -> Option<Mark> {
    let why = "bodies of requests or responses of this API";
    Mark::when(is_ours(head), Confidence::Guess, why)
}

fn is_ours(head: &Head<'_>) -> bool {
    super::detect(head, &API)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut talk = Talk::new(NAME, VENDOR);
    let mut open = HashMap::new();
    exchanges(source, &API, &mut account, |account, exchange| {
        let mut mapping = Mapping {
            talk: &mut talk,
            account,
            open: &mut open,
            setting: Setting::of(exchange),
        };
        let place = exchange.request.map(|request| mapping.request(request));
        if let Some(response) = exchange.response {
            mapping.response(response, place);
        }
    });
    talk.finish(account)
}

fn is_request(body: &Value) -> bool {
    let messages = body.get("messages").and_then(Value::as_array);
    let has_role = |message: &Value| message.get("role").is_some();
    messages.is_some_and(|all| all.iter().any(has_role))
        && (!super::anthropic::speaks_anthropic(body) || speaks_chat(body))
}

fn is_response(body: &Value) -> bool {
    let choices = body
        .get("choices")
        .and_then(Value::as_array)
        .unwrap_or_default();
    choices.iter().any(|choice| choice.get("message").is_some())
}

fn is_message(value: &Value) -> bool {
    value.get("role").is_some() && value.get("type").is_none() && value.get("parts").is_none()
}

/// Whether a body has members that only a request of this API has.
pub(super) fn speaks_chat(body: &Value) -> bool {
    let is_function = |tool: &Value| tool.get("function").is_some();
    let tools = body
        .get("tools")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let messages = body
        .get("messages")
        .and_then(Value::as_array)
        .unwrap_or_default();
    OWN_MEMBERS.iter().any(|name| body.get(name).is_some())
        || tools.iter().any(is_function)
        || messages.iter().any(is_chat_message)
}

/// Whether a value has the form of a message that only this API has.
pub(super) fn is_chat_message(message: &Value) -> bool {
    let has = |name: &str| message.get(name).is_some();
    let role = message.get("role").and_then(Value::as_str);
    let parts = message
        .get("content")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let is_part = |part: &Value| {
        let kind = part.get("type").and_then(Value::as_str);
        matches!(kind, Some("image_url" | "input_audio" | "refusal"))
    };
    ["tool_calls", "tool_call_id", "function_call", "refusal"]
        .into_iter()
        .any(has)
        || matches!(role, Some("developer" | "function"))
        || parts.iter().any(is_part)
}

/// One exchange while it is read.
struct Mapping<'t, 'x> {
    talk: &'t mut Talk,
    account: &'x mut Account,
    /// Calls without id at each place: their name and their generated id.
    open: &'t mut HashMap<Place, Vec<(String, String)>>,
    setting: Setting,
}

impl Mapping<'_, '_> {
    /// Reads a request, and returns the place of its last message.
    fn request(&mut self, body: Node<'_, '_>) -> Place {
        self.setting.model = body.text_of("model").filter(|model| !model.is_empty());
        let params = &mut self.setting.params;
        params.temperature = number_of(body, "temperature");
        params.top_p = number_of(body, "top_p");
        params.seed = integer_of(body, "seed");
        params.max_tokens = integer_of(body, "max_completion_tokens");
        let older = integer_of(body, "max_tokens");
        params.max_tokens = params.max_tokens.or(older);
        self.talk.instruct(body, &REQUEST, &mut self.setting);
        let mut place = Place::default();
        let mut waiting = Vec::new();
        for message in body
            .get("messages")
            .and_then(Node::items)
            .into_iter()
            .flatten()
        {
            let before = place;
            let (next, known) = self.talk.history.step(before, &bare(message.peek()));
            place = next;
            if known {
                message.discard(Reason::Duplicate);
                if message.peek_str("role") == Some("function") {
                    answer(&mut waiting, message.peek_str("name"));
                }
            } else {
                let source = self.talk.source(&self.setting, before);
                self.message(message, source, place, &mut waiting);
            }
            waiting.extend(self.open.get(&place).into_iter().flatten().cloned());
        }
        place
    }

    fn response(&mut self, body: Node<'_, '_>, request: Option<Place>) {
        let before = request.unwrap_or_default();
        let id = body.peek_str("id");
        if id.is_some() && self.talk.repeats(id, true) {
            body.discard(Reason::Duplicate);
            return;
        }
        if let Some(model) = body.text_of("model").filter(|model| !model.is_empty()) {
            self.setting.model = Some(model);
        }
        self.setting.fingerprint = body.text_of("system_fingerprint");
        self.setting.happened(body.get("created"), seconds);
        let _ = body.told_by("object");
        let mut head = Some(body);
        for choice in body
            .get("choices")
            .and_then(Node::items)
            .into_iter()
            .flatten()
        {
            let Some(message) = choice.get("message") else {
                continue;
            };
            let (place, known) = self.talk.history.step(before, &bare(message.peek()));
            if known && id.is_none() && request.is_some() {
                choice.discard(Reason::Duplicate);
                continue;
            }
            let mut source = self.talk.source(&self.setting, before);
            if let Some(body) = head.take() {
                self.tell_response(body, &mut source);
            }
            source.set_some("stop_reason", choice.text_of("finish_reason"));
            source.set_some("logprobs", take_some(choice, "logprobs"));
            if let Some(index) = choice.u64_of("index").filter(|index| *index > 0) {
                source.set("choice", index.into());
            }
            self.message(message, source, place, &mut Vec::new());
        }
    }

    fn tell_response(&mut self, body: Node<'_, '_>, source: &mut Source) {
        source.set_some("message", body.text_of("id"));
        source.set_some("service_tier", take_some(body, "service_tier"));
        if let Some(usage) = body
            .get("usage")
            .filter(|usage| !says_nothing(usage.peek()))
        {
            let tokens = tokens_of(usage.peek());
            source.set("usage", usage.take());
            source.set_tokens(tokens);
            self.talk.tokens.add(tokens);
        }
    }

    fn message(
        &mut self,
        message: Node<'_, '_>,
        mut source: Source,
        place: Place,
        waiting: &mut Vec<(String, String)>,
    ) {
        let word = message
            .text_of("role")
            .unwrap_or_else(|| "assistant".to_owned());
        let role = match word.as_str() {
            "system" | "developer" => Role::System,
            "assistant" => Role::Assistant,
            "tool" | "function" => Role::Tool,
            "user" => Role::User,
            _ => {
                self.account
                    .default_field("role", "unknown role in the source");
                Role::User
            }
        };
        let mut draft = self.talk.draft(role, &self.setting);
        let content = match role {
            Role::Tool => self.result(message, &word, waiting, &mut draft),
            Role::Assistant => Value::Array(self.assistant(message, place, &mut draft)),
            Role::System | Role::User => {
                let mut items = Vec::new();
                let own = content_of(message);
                if let Some(text @ Value::String(_)) = own {
                    text
                } else {
                    items.extend(own.map(into_items).into_iter().flatten());
                    Value::Array(items)
                }
            }
        };
        draft.messages.push(Message {
            role: word,
            content,
        });
        source.set_some("name", message.text_of("name"));
        draft.close(source);
        self.talk.push(&draft, place);
    }

    fn assistant(&mut self, message: Node<'_, '_>, place: Place, draft: &mut Draft) -> Vec<Value> {
        let mut items = reasoning(message);
        items.extend(content_of(message).map(into_items).into_iter().flatten());
        for name in ["refusal", "audio", "annotations"] {
            if let Some(value) = take_some(message, name) {
                items.push(object([("type", name.into()), (name, value)]));
            }
        }
        for call in message
            .get("tool_calls")
            .and_then(Node::items)
            .into_iter()
            .flatten()
        {
            let call = self.call(call);
            items.push(call_item(&call.id));
            draft.tool_calls.push(call);
        }
        if let Some(call) = message
            .get("function_call")
            .filter(|call| !call.peek().is_null())
        {
            let name = call.text_of("name").unwrap_or_default();
            let args = call.get("arguments").map_or_else(no_args, arguments);
            let id = self.talk.unnamed("tool_calls.id", self.account);
            self.open
                .entry(place)
                .or_default()
                .push((name.clone(), id.clone()));
            items.push(call_item(&id));
            draft.tool_calls.push(ToolCall::new(id, name, args));
        }
        items
    }

    fn call(&mut self, call: Node<'_, '_>) -> ToolCall {
        let id = call.text_of("id");
        let id = id.unwrap_or_else(|| self.talk.unnamed("tool_calls.id", self.account));
        let _ = call.told_by("type");
        let function = call.get("function");
        let custom = call.get("custom");
        let name = function
            .or(custom)
            .and_then(|body| body.text_of("name"))
            .unwrap_or_default();
        let args = match (function, custom) {
            (Some(function), _) => function.get("arguments").map_or_else(no_args, arguments),
            (None, Some(custom)) => take_some(custom, "input").unwrap_or_else(|| "".into()),
            (None, None) => no_args(),
        };
        ToolCall::new(id, name, args)
    }

    fn result(
        &mut self,
        message: Node<'_, '_>,
        word: &str,
        waiting: &mut Vec<(String, String)>,
        draft: &mut Draft,
    ) -> Value {
        let id = match word {
            "function" => answer(waiting, message.peek_str("name")),
            _ => message.text_of("tool_call_id"),
        };
        let id = id.unwrap_or_else(|| self.talk.unnamed("tool_results.id", self.account));
        let response = content_of(message).unwrap_or_else(|| {
            self.account
                .default_field("tool_results.response", "not in the source");
            "".into()
        });
        draft
            .tool_results
            .push(ToolResult::new(id.clone(), true, response));
        Value::Array(vec![result_item(&id)])
    }
}

/// The id of the last call of `name` that has no result yet.
fn answer(waiting: &mut Vec<(String, String)>, name: Option<&str>) -> Option<String> {
    let place = waiting
        .iter()
        .rposition(|(known, _)| Some(known.as_str()) == name)?;
    Some(waiting.remove(place).1)
}

fn no_args() -> Value {
    Value::Object(Vec::new())
}

fn content_of(message: Node<'_, '_>) -> Option<Value> {
    let content = message.get("content")?;
    (!content.peek().is_null()).then(|| content.take())
}

fn into_items(content: Value) -> Vec<Value> {
    match content {
        Value::String(text) if text.as_bytes().is_empty() => Vec::new(),
        Value::String(_) => vec![text_item(content)],
        Value::Array(parts) => parts.into_iter().map(part_item).collect(),
        other => vec![part_item(other)],
    }
}

/// The reasoning in a message, each text once.
fn reasoning(message: Node<'_, '_>) -> Vec<Value> {
    let mut items = Vec::new();
    let mut said = String::new();
    for detail in message
        .get("reasoning_details")
        .and_then(Node::items)
        .into_iter()
        .flatten()
    {
        let mut rest: Vec<(Text, Value)> = super::stream::into_members(detail.take());
        rest.retain(|(name, _)| *name != *"type");
        let found = ["text", "summary", "data"].into_iter().find_map(|name| {
            let known =
                |(known, value): &(Text, Value)| *known == *name && value.as_str().is_some();
            Some((name, rest.remove(rest.iter().position(known)?).1))
        });
        let item = match found {
            Some(("data", data)) => redacted_thinking_item(data),
            Some((_, text)) => {
                said.push_str(text.as_str().unwrap_or_default());
                super::super::draft::thinking_item(text)
            }
            None => object([("type", "reasoning_details".into())]),
        };
        let mut members = super::stream::into_members(item);
        members.extend(rest);
        items.push(Value::Object(members));
    }
    for name in ["reasoning_content", "reasoning"] {
        let Some(node) = message.get(name) else {
            continue;
        };
        match node.peek().as_str() {
            Some("") => {}
            Some(text) if text == said => node.discard(Reason::Duplicate),
            Some(text) => {
                text.clone_into(&mut said);
                items.extend(node.text().map(super::super::draft::thinking_item));
            }
            None if says_nothing(node.peek()) => {}
            None => items.push(object([
                ("type", "reasoning".into()),
                ("reasoning", node.take()),
            ])),
        }
    }
    items
}

/// The parts of a message that a client repeats unchanged.
fn bare(message: &Value) -> Value {
    let member = |name: &str| match message.get(name) {
        Some(value) if !says_nothing(value) => value.clone(),
        _ => Value::Null,
    };
    let text_only = |parts: &[Value]| match parts {
        [part] if part.get("type").and_then(Value::as_str) == Some("text") => {
            part.get("text").cloned()
        }
        _ => None,
    };
    let content = member("content");
    let content = content.as_array().and_then(text_only).unwrap_or(content);
    let calls = message
        .get("tool_calls")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let calls = calls.iter().map(|call| {
        let of = |name: &str| call.get(name).cloned().unwrap_or(Value::Null);
        Value::Array(vec![of("id"), of("function"), of("custom")])
    });
    Value::Array(vec![
        member("role"),
        content,
        member("refusal"),
        Value::Array(calls.collect()),
        member("function_call"),
        member("tool_call_id"),
        member("name"),
    ])
}

fn tokens_of(usage: &Value) -> Tokens {
    let usage = Some(usage);
    Tokens {
        input: figure(usage, &["prompt_tokens"]),
        output: figure(usage, &["completion_tokens"]),
        cached: figure(usage, &["prompt_tokens_details", "cached_tokens"]),
        reasoning: figure(usage, &["completion_tokens_details", "reasoning_tokens"]),
    }
}
