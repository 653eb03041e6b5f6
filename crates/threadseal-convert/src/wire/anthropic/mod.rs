//! Anthropic Messages (`POST /v1/messages`).
//!
//! ```text
//! request   {"model":M,"max_tokens":N,"system":S,"tools":[…],"messages":[{"role","content"}],…}
//! response  {"id":I,"type":"message","role":"assistant","content":[BLOCK,…],"model":M,
//!            "stop_reason":R,"stop_sequence":Q,"usage":{…}}
//! ```
//!
//! The mapping of agent-scroll (`from-anthropic`) takes `{"messages", "model":
//! {"vendor","id","fingerprint"?}, "params":{"temperature","top_p","seed"?,"max_tokens"?},
//! "timestamp_ns_base"}`. That is a request here too. Each turn of it equals the turn of
//! agent-scroll, byte for byte in canonical form, under these conditions:
//!
//! * Every call has its `id`, `name` and `input`, and every result its `tool_use_id` and `content`.
//! * Ids and names are strings, roles are a turn's, and numbers are exact in a double.
//! * A JSON text nests no deeper than a scroll may.
//!
//! `spec/scroll-mappings.md` W2 has the table of all other cases.
//!
//! Two messages are the same if they differ only in `cache_control`, in a `false` `is_error`, or in
//! a string for one text block. Clients change these when they repeat a conversation. A turn has a
//! `source` message in three cases: the source has several records, the request has settings, or
//! the turn is a response.

mod stream;
#[cfg(test)]
mod tests;

use super::super::account::{Account, Reason, Tokens};
use super::super::draft::{Message, ToolCall, ToolResult};
use super::super::format::{Confidence, Format, Head, Mark};
use super::super::mapped::Mapped;
use super::super::source::Node;
use super::history::Place;
use super::talk::{Names, Setting, Talk, figure, integer_of, number_of, says_nothing, take_some};
use super::{Api, exchanges};
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "anthropic";

pub(crate) const FORMAT: Format = Format {
    name: NAME,
    about: "Anthropic Messages: requests, responses, event streams, captures",
    detect,
    map,
};

pub(super) const API: Api = Api {
    is_request,
    is_response,
    is_chunk: stream::is_event,
    is_message,
    messages: "messages",
    assemble: stream::assemble,
};

const REQUEST: Names = Names {
    system: &["system"],
    tools: &["tools"],
    known: &[
        "messages",
        "model",
        "temperature",
        "top_p",
        "max_tokens",
        "params",
        "timestamp_ns_base",
    ],
};
const AUTHORS_PARAMS: Names = Names {
    system: &[],
    tools: &[],
    known: &["temperature", "top_p", "seed", "max_tokens"],
};
const RESPONSE_TOLD: [&str; 4] = ["stop_reason", "stop_sequence", "usage", "container"];

fn detect(head: &Head<'_>) -> Option<Mark> {
    let why = "bodies of requests or responses of this API";
    Mark::when(is_ours(head), Confidence::Guess, why)
}

fn is_ours(head: &Head<'_>) -> bool {
    let strict = Api {
        is_request: |body| is_request(body) && speaks_anthropic(body),
        is_message: |message| is_message(message) && blocks(message).any(is_own_block),
        ..API
    };
    super::detect(head, &strict)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut talk = Talk::new(NAME, NAME);
    exchanges(source, &API, &mut account, |account, exchange| {
        let mut mapping = Mapping {
            talk: &mut talk,
            account,
            setting: Setting::of(exchange),
            base: None,
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
    messages.is_some_and(|all| all.is_empty() || all.iter().any(is_message))
        && !super::chat::speaks_chat(body)
}

fn is_response(body: &Value) -> bool {
    body.get("type").and_then(Value::as_str) == Some("message")
        && body
            .get("content")
            .is_some_and(|content| content.as_array().is_some())
        && (body.get("stop_reason").is_some() || body.get("usage").is_some())
}

fn is_message(value: &Value) -> bool {
    value.get("role").is_some() && !super::chat::is_chat_message(value)
}

/// Whether a body has members that only a request of this API has.
pub(super) fn speaks_anthropic(body: &Value) -> bool {
    let has = |name: &str| body.get(name).is_some();
    let of_tools = |tool: &Value| tool.get("input_schema").is_some();
    let tools = body
        .get("tools")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let messages = body
        .get("messages")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let is_claude = |model: &Value| {
        model
            .as_str()
            .is_some_and(|name| name.starts_with("claude"))
    };
    [
        "system",
        "timestamp_ns_base",
        "anthropic_version",
        "anthropic_beta",
    ]
    .into_iter()
    .any(has)
        || body.get("model").is_some_and(is_claude)
        || tools.iter().any(of_tools)
        || messages.iter().flat_map(blocks).any(is_own_block)
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    let content = message.get("content").and_then(Value::as_array);
    content.unwrap_or_default().iter()
}

fn is_own_block(block: &Value) -> bool {
    let kind = kind_of(block);
    is_call(kind) || is_result(kind) || matches!(kind, "thinking" | "redacted_thinking")
}

fn kind_of(block: &Value) -> &str {
    block
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn is_call(kind: &str) -> bool {
    matches!(kind, "tool_use" | "server_tool_use" | "mcp_tool_use")
}

fn is_result(kind: &str) -> bool {
    kind == "tool_result" || kind.ends_with("_tool_result")
}

/// One exchange while it is read.
struct Mapping<'t, 'x> {
    talk: &'t mut Talk,
    account: &'x mut Account,
    setting: Setting,
    /// `timestamp_ns_base`.
    base: Option<f64>,
}

impl Mapping<'_, '_> {
    /// Reads a request, and returns the place of its last message.
    fn request(&mut self, body: Node<'_, '_>) -> Place {
        self.model(body);
        let params = body
            .get("params")
            .filter(|params| params.peek().as_object().is_some());
        self.params(params.unwrap_or(body));
        self.base = body.get("timestamp_ns_base").and_then(|base| {
            let number = base.peek().as_f64()?;
            let _ = base.read();
            Some(number)
        });
        self.talk.instruct(body, &REQUEST, &mut self.setting);
        if let Some(params) = params {
            self.talk
                .instruct(params, &AUTHORS_PARAMS, &mut self.setting);
        }
        let mut place = Place::default();
        let messages = body.get("messages").and_then(Node::items);
        for (index, message) in (0..).zip(messages.into_iter().flatten()) {
            place = self.message(message, place, index);
        }
        place
    }

    fn model(&mut self, body: Node<'_, '_>) {
        let Some(model) = body.get("model") else {
            return;
        };
        if model.peek().as_object().is_none() {
            self.setting.model = some_text(model.text());
            return;
        }
        self.setting.vendor = some_text(model.text_of("vendor"));
        self.setting.model = some_text(model.text_of("id"));
        self.setting.fingerprint = model.text_of("fingerprint");
    }

    fn params(&mut self, body: Node<'_, '_>) {
        let params = &mut self.setting.params;
        params.temperature = number_of(body, "temperature");
        params.top_p = number_of(body, "top_p");
        params.seed = integer_of(body, "seed");
        params.max_tokens = integer_of(body, "max_tokens");
    }

    fn message(&mut self, message: Node<'_, '_>, before: Place, index: u32) -> Place {
        let (place, known) = self.talk.history.step(before, &bare(message.peek()));
        if known {
            message.discard(Reason::Duplicate);
            return place;
        }
        let word = message.text_of("role").unwrap_or_default();
        let role = match word.as_str() {
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            "system" => Role::System,
            "user" => Role::User,
            _ => {
                self.account
                    .default_field("role", "unknown role in the source");
                Role::User
            }
        };
        let moment = self.base.and_then(|base| whole(base + f64::from(index)));
        self.turn(message, role, word, moment, before, place);
        place
    }

    fn response(&mut self, body: Node<'_, '_>, request: Option<Place>) {
        let before = request.unwrap_or_default();
        let (place, known) = self.talk.history.step(before, &bare(body.peek()));
        let known = known && request.is_some();
        if self.talk.repeats(body.peek_str("id"), known) {
            body.discard(Reason::Duplicate);
            return;
        }
        if let Some(model) = some_text(body.text_of("model")) {
            self.setting.model = Some(model);
        }
        let _ = body.told_by("type");
        let word = body
            .text_of("role")
            .unwrap_or_else(|| "assistant".to_owned());
        self.turn(body, Role::Assistant, word, None, before, place);
    }

    fn turn(
        &mut self,
        body: Node<'_, '_>,
        role: Role,
        word: String,
        moment: Option<u64>,
        before: Place,
        place: Place,
    ) {
        let mut draft = self.talk.draft(role, &self.setting);
        draft.timestamp_ns = moment.or(draft.timestamp_ns);
        let content = content_of(body);
        for block in content.as_array().unwrap_or_default() {
            let kind = kind_of(block);
            if is_call(kind) {
                draft.tool_calls.push(self.call(block));
            } else if is_result(kind) {
                draft.tool_results.push(self.result(block));
            }
        }
        draft.messages.push(Message {
            role: word,
            content,
        });
        let mut source = self.talk.source(&self.setting, before);
        let is_response = body.peek().get("type").is_some();
        if is_response {
            self.tell_response(body, &mut source);
        }
        let has_settings = !self.setting.in_force.is_empty();
        if is_response || has_settings || !self.setting.alone || !self.talk.goes_on(before) {
            draft.close(source);
        }
        self.talk.push(&draft, place);
    }

    fn tell_response(&mut self, body: Node<'_, '_>, source: &mut super::super::draft::Source) {
        source.set_some("message", body.text_of("id"));
        let usage = body.get("usage").map(|usage| usage.peek().clone());
        for name in RESPONSE_TOLD {
            source.set_some(name, take_some(body, name));
        }
        if usage.is_some() {
            let tokens = tokens_of(usage.as_ref());
            source.set_tokens(tokens);
            self.talk.tokens.add(tokens);
        }
    }

    fn call(&mut self, block: &Value) -> ToolCall {
        let id = self.id(block.get("id"), "tool_calls.id");
        let name = block.get("name").and_then(word).unwrap_or_default();
        let args = block.get("input").cloned().unwrap_or_else(|| {
            self.account
                .default_field("tool_calls.args", "not in the source");
            Value::Object(Vec::new())
        });
        ToolCall::new(id, name, args)
    }

    fn result(&mut self, block: &Value) -> ToolResult {
        let named = block.get("tool_use_id").filter(|id| !id.is_null());
        let id = self.id(named.or_else(|| block.get("id")), "tool_results.id");
        let response = block.get("content").cloned().unwrap_or_else(|| {
            self.account
                .default_field("tool_results.response", "not in the source");
            "".into()
        });
        let failed = is_true(block.get("is_error")) || kind_of(&response).ends_with("_error");
        ToolResult::new(id, !failed, response)
    }

    fn id(&mut self, id: Option<&Value>, field: &'static str) -> String {
        match id.and_then(word) {
            Some(id) => id,
            None => self.talk.unnamed(field, self.account),
        }
    }
}

/// A string, or the digits of a number.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.as_str()?.to_owned()),
        Value::Number(number) => Some(number.literal().to_owned()),
        _ => None,
    }
}

fn some_text(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Whether JavaScript treats the value as true.
fn is_true(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Bool(value)) => *value,
        Some(Value::Number(number)) => number.as_f64() != 0.0,
        Some(Value::String(text)) => !text.as_bytes().is_empty(),
        Some(Value::Array(_) | Value::Object(_)) => true,
    }
}

fn content_of(body: Node<'_, '_>) -> Value {
    match body.get("content") {
        None => Value::Array(Vec::new()),
        Some(content) => match content.peek() {
            Value::Null => Value::Array(Vec::new()),
            Value::String(_) | Value::Array(_) => content.take(),
            _ => Value::Array(vec![content.take()]),
        },
    }
}

/// `value` if it is an integer that a scroll's moment can be.
fn whole(value: f64) -> Option<u64> {
    value
        .is_finite()
        .then(|| ryu_js::Buffer::new().format_finite(value).parse().ok())?
}

/// The parts of a message that a client repeats unchanged.
fn bare(message: &Value) -> Value {
    let role = message.get("role").cloned().unwrap_or(Value::Null);
    let content = match message.get("content") {
        Some(Value::Array(blocks)) => Value::Array(blocks.iter().map(bare_block).collect()),
        Some(text @ Value::String(_)) => {
            let block = [("type", "text".into()), ("text", text.clone())];
            Value::Array(vec![super::super::account::object(block)])
        }
        other => other.cloned().unwrap_or(Value::Null),
    };
    Value::Array(vec![role, content])
}

fn bare_block(block: &Value) -> Value {
    let Value::Object(members) = block else {
        return block.clone();
    };
    let counts = |(name, value): &&(Text, Value)| {
        *name != *"cache_control"
            && !(*name == *"is_error" && *value == Value::Bool(false))
            && !(*name == *"citations" && says_nothing(value))
    };
    Value::Object(members.iter().filter(counts).cloned().collect())
}

/// All kinds of input together, including input read from a cache or written to one.
fn tokens_of(usage: Option<&Value>) -> Tokens {
    let cached = figure(usage, &["cache_read_input_tokens"]);
    let input = figure(usage, &["input_tokens"]);
    Tokens {
        input: input
            .saturating_add(cached)
            .saturating_add(figure(usage, &["cache_creation_input_tokens"])),
        output: figure(usage, &["output_tokens"]),
        cached,
        reasoning: figure(usage, &["output_tokens_details", "thinking_tokens"]),
    }
}
