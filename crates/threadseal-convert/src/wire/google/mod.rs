//! Google `generateContent` and `streamGenerateContent` (Gemini API, Vertex AI).
//!
//! ```text
//! request   {"contents":[CONTENT,…],"systemInstruction":CONTENT,"tools":[…],
//!            "generationConfig":{"temperature","topP","seed","maxOutputTokens",…},…}
//! CONTENT   {"role":"user"|"model"|"function","parts":[PART,…]}
//! PART      {"text":T[,"thought":true][,"thoughtSignature":S]}
//!           {"functionCall":{"id"?,"name","args"}}  {"functionResponse":{"id"?,"name","response"}}
//!           {"executableCode":{…}}  {"codeExecutionResult":{…}}  {"inlineData":{…}}  …
//! response  {"candidates":[{"content":CONTENT,"finishReason":R,"index":I,…}],
//!            "usageMetadata":{…},"modelVersion":M,"responseId":I,"createTime":T}
//! ```
//! Members may be spelled `with_underscores`, as protobuf's JSON allows.
//!
//! `spec/scroll-mappings.md` W5 has the table of members.
//!
//! Two contents are the same if their roles and parts are.

mod stream;
#[cfg(test)]
mod tests;

use super::super::account::{Account, Reason, Tokens, object};
use super::super::build::rfc3339_ns;
use super::super::draft::{
    Draft, Message, Source, ToolCall, ToolResult, call_item, result_item, text_item, thinking_item,
};
use super::super::format::{Confidence, Format, Head, Mark};
use super::super::mapped::Mapped;
use super::super::source::Node;
use super::history::Place;
use super::stream::into_members;
use super::talk::{Names, Setting, Talk, figure, integer_of, number_of, says_nothing, take_some};
use super::{Api, exchanges};
use std::collections::HashMap;
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "google";
const CODE: &str = "code_execution";

pub(crate) const FORMAT: Format = Format {
    name: NAME,
    about: "Google generateContent: requests, responses, event streams, captures",
    detect,
    map,
};

pub(super) const API: Api = Api {
    is_request,
    is_response,
    is_chunk: is_response,
    is_message,
    messages: "contents",
    assemble: stream::assemble,
};

const REQUEST: Names = Names {
    system: &["systemInstruction", "system_instruction"],
    tools: &["tools"],
    known: &["contents", "model", "generationConfig", "generation_config"],
};
const CONFIG: Names = Names {
    system: &[],
    tools: &[],
    known: &[
        "temperature",
        "topP",
        "top_p",
        "seed",
        "maxOutputTokens",
        "max_output_tokens",
    ],
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let why = "bodies of requests or responses of this API";
    Mark::when(is_ours(head), Confidence::Guess, why)
}

fn is_ours(head: &Head<'_>) -> bool {
    super::detect(head, &API)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut talk = Talk::new(NAME, NAME);
    let mut calls = HashMap::new();
    exchanges(source, &API, &mut account, |account, exchange| {
        let mut setting = Setting::of(exchange);
        setting.model = exchange.path.as_deref().and_then(model_in);
        let mut mapping = Mapping {
            talk: &mut talk,
            account,
            calls: &mut calls,
            waiting: Vec::new(),
            setting,
        };
        let place = exchange.request.map(|request| mapping.request(request));
        if let Some(response) = exchange.response {
            mapping.response(response, place);
        }
    });
    talk.finish(account)
}

fn is_request(body: &Value) -> bool {
    let contents = body.get("contents").and_then(Value::as_array);
    contents.is_some_and(|contents| contents.iter().all(is_message))
}

fn is_response(body: &Value) -> bool {
    let candidates = body
        .get("candidates")
        .and_then(Value::as_array)
        .unwrap_or_default();
    candidates
        .iter()
        .any(|candidate| candidate.as_object().is_some())
        || body
            .get("usageMetadata")
            .is_some_and(|usage| usage.as_object().is_some())
}

fn is_message(value: &Value) -> bool {
    value
        .get("parts")
        .is_some_and(|parts| parts.as_array().is_some())
}

/// `/v1beta/models/NAME:generateContent`
fn model_in(path: &str) -> Option<String> {
    let (_, rest) = path.rsplit_once("/models/")?;
    let name = rest.split([':', '?', '/']).next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// A call without a result yet.
#[derive(Debug, Clone)]
struct Call {
    name: String,
    id: String,
}

/// One exchange while it is read.
struct Mapping<'t, 'x> {
    talk: &'t mut Talk,
    account: &'x mut Account,
    /// The calls at each place.
    calls: &'t mut HashMap<Place, Vec<Call>>,
    waiting: Vec<Call>,
    setting: Setting,
}

impl Mapping<'_, '_> {
    /// Reads a request, and returns the place of its last content.
    fn request(&mut self, body: Node<'_, '_>) -> Place {
        if let Some(model) = body.text_of("model").filter(|model| !model.is_empty()) {
            self.setting.model = Some(model_in(&format!("/{model}")).unwrap_or(model));
        }
        let config = either(body, "generationConfig", "generation_config");
        if let Some(config) = config {
            let params = &mut self.setting.params;
            params.temperature = number_of(config, "temperature");
            params.top_p = number_of(config, "topP").or_else(|| number_of(config, "top_p"));
            params.seed = integer_of(config, "seed");
            params.max_tokens = integer_of(config, "maxOutputTokens")
                .or_else(|| integer_of(config, "max_output_tokens"));
        }
        self.talk.instruct(body, &REQUEST, &mut self.setting);
        if let Some(config) = config {
            self.talk.instruct(config, &CONFIG, &mut self.setting);
        }
        let mut place = Place::default();
        for content in body
            .get("contents")
            .and_then(Node::items)
            .into_iter()
            .flatten()
        {
            let before = place;
            let (next, known) = self.talk.history.step(before, &bare(content.peek()));
            place = next;
            if known {
                content.discard(Reason::Duplicate);
                self.pass(content.peek(), place);
            } else {
                let source = self.talk.source(&self.setting, before);
                self.content(content, source, place, None);
            }
        }
        place
    }

    /// Passes over a known content: its calls wait again, its results answer.
    fn pass(&mut self, content: &Value, place: Place) {
        for part in parts_of(content) {
            let Some(result) = member(part, "functionResponse", "function_response") else {
                continue;
            };
            let name = result
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let id = result.get("id").and_then(Value::as_str);
            let _ = self.answer(name, id);
        }
        self.waiting
            .extend(self.calls.get(&place).into_iter().flatten().cloned());
    }

    fn response(&mut self, body: Node<'_, '_>, request: Option<Place>) {
        let before = request.unwrap_or_default();
        let id = body.peek_str("responseId");
        if id.is_some() && self.talk.repeats(id, true) {
            body.discard(Reason::Duplicate);
            return;
        }
        let version = body
            .text_of("modelVersion")
            .or_else(|| body.text_of("model_version"));
        self.setting.model = version
            .filter(|model| !model.is_empty())
            .or(self.setting.model.take());
        let created = either(body, "createTime", "create_time");
        let read = |time: &Value| rfc3339_ns(time.as_str()?);
        self.setting.happened(created, read);
        let mut head = Some(body);
        let waiting = std::mem::take(&mut self.waiting);
        for candidate in body
            .get("candidates")
            .and_then(Node::items)
            .into_iter()
            .flatten()
        {
            let none = Value::Null;
            let content = candidate.get("content");
            let (place, known) = self
                .talk
                .history
                .step(before, &bare(content.map_or(&none, Node::peek)));
            if known && id.is_none() && request.is_some() {
                candidate.discard(Reason::Duplicate);
                continue;
            }
            let mut source = self.talk.source(&self.setting, before);
            if let Some(body) = head.take() {
                self.tell_response(body, &mut source);
            }
            source.set_some("stop_reason", candidate.text_of("finishReason"));
            if let Some(index) = candidate.u64_of("index").filter(|index| *index > 0) {
                source.set("choice", index.into());
            }
            for (name, node) in candidate.members().into_iter().flatten() {
                let name = name.as_str().unwrap_or_default();
                if !matches!(name, "content" | "finishReason" | "index")
                    && !says_nothing(node.peek())
                {
                    source.set(name, node.take());
                }
            }
            self.waiting.clone_from(&waiting);
            match content {
                Some(content) => self.content(content, source, place, Some(Role::Assistant)),
                None => {
                    let mut draft = self.talk.draft(Role::Assistant, &self.setting);
                    draft
                        .messages
                        .push(Message::items(Role::Assistant, Vec::new()));
                    draft.close(source);
                    self.talk.push(&draft, place);
                }
            }
        }
    }

    fn tell_response(&mut self, body: Node<'_, '_>, source: &mut Source) {
        source.set_some("message", body.text_of("responseId"));
        source.set_some("promptFeedback", take_some(body, "promptFeedback"));
        let usage = either(body, "usageMetadata", "usage_metadata");
        if let Some(usage) = usage.filter(|usage| !says_nothing(usage.peek())) {
            let tokens = tokens_of(usage.peek());
            source.set("usage", usage.take());
            source.set_tokens(tokens);
            self.talk.tokens.add(tokens);
        }
    }

    fn content(&mut self, content: Node<'_, '_>, source: Source, place: Place, role: Option<Role>) {
        let word = content.text_of("role");
        let role = role.unwrap_or_else(|| self.role(content.peek(), word.as_deref()));
        let mut draft = self.talk.draft(role, &self.setting);
        let mut items = Vec::new();
        for part in content
            .get("parts")
            .and_then(Node::items)
            .into_iter()
            .flatten()
        {
            self.part(part, place, &mut draft, &mut items);
        }
        draft.messages.push(Message {
            role: word.unwrap_or_else(|| {
                if role == Role::Assistant {
                    "model"
                } else {
                    "user"
                }
                .to_owned()
            }),
            content: Value::Array(items),
        });
        draft.close(source);
        self.talk.push(&draft, place);
    }

    fn role(&mut self, content: &Value, word: Option<&str>) -> Role {
        let is_result =
            |part: &Value| member(part, "functionResponse", "function_response").is_some();
        let mut parts = parts_of(content).iter().peekable();
        let results_only = parts.peek().is_some() && parts.all(is_result);
        match word {
            Some("model") => Role::Assistant,
            Some("function" | "tool") => Role::Tool,
            Some("user") | None if results_only => Role::Tool,
            Some("user") | None => Role::User,
            Some(_) => {
                self.account
                    .default_field("role", "unknown role in the source");
                Role::User
            }
        }
    }

    fn part(
        &mut self,
        part: Node<'_, '_>,
        place: Place,
        draft: &mut Draft,
        items: &mut Vec<Value>,
    ) {
        let call = either(part, "functionCall", "function_call");
        let result = either(part, "functionResponse", "function_response");
        let code = either(part, "executableCode", "executable_code");
        let outcome = either(part, "codeExecutionResult", "code_execution_result");
        let found = [call, result, code, outcome].into_iter().flatten().count();
        let text = part
            .get("text")
            .filter(|text| text.peek().as_str().is_some());
        if found + usize::from(text.is_some()) != 1 || part.peek().as_object().is_none() {
            items.push(object([("type", "part".into()), ("part", part.take())]));
            return;
        }
        let item = if let Some(call) = call {
            let name = call.text_of("name").unwrap_or_default();
            let args = take_object(call, "args");
            self.call(call, name, args, place, draft)
        } else if let Some(code) = code {
            let args = code.take();
            self.call(code, CODE.to_owned(), args, place, draft)
        } else if let Some(result) = result {
            let name = result.text_of("name").unwrap_or_default();
            let response = take_object(result, "response");
            let ok = !matches!(response.as_object(), Some([(only, _)]) if *only == *"error");
            self.result(result, &name, ok, response, draft)
        } else if let Some(outcome) = outcome {
            let ok = outcome.peek_str("outcome") == Some("OUTCOME_OK");
            let response = outcome.take();
            self.result(outcome, CODE, ok, response, draft)
        } else {
            let is_thought = part.bool_of("thought") == Some(true);
            let text = text.and_then(Node::text).unwrap_or_default();
            if is_thought {
                thinking_item(text)
            } else {
                text_item(text)
            }
        };
        items.push(with_rest(part, item));
    }

    fn call(
        &mut self,
        call: Node<'_, '_>,
        name: String,
        args: Value,
        place: Place,
        draft: &mut Draft,
    ) -> Value {
        let id = call
            .peek_str("id")
            .filter(|id| !id.is_empty())
            .map(str::to_owned);
        let _ = call.text_of("id");
        let id = id.unwrap_or_else(|| self.talk.unnamed("tool_calls.id", self.account));
        let waits = Call {
            name: name.clone(),
            id: id.clone(),
        };
        self.waiting.push(waits.clone());
        self.calls.entry(place).or_default().push(waits);
        let item = call_item(&id);
        draft.tool_calls.push(ToolCall::new(id, name, args));
        item
    }

    fn result(
        &mut self,
        result: Node<'_, '_>,
        name: &str,
        ok: bool,
        response: Value,
        draft: &mut Draft,
    ) -> Value {
        let own = result
            .peek_str("id")
            .filter(|id| !id.is_empty())
            .map(str::to_owned);
        let _ = result.text_of("id");
        let id = self.answer(name, own.as_deref());
        let id = own
            .or(id)
            .unwrap_or_else(|| self.talk.unnamed("tool_results.id", self.account));
        let item = result_item(&id);
        draft.tool_results.push(ToolResult::new(id, ok, response));
        item
    }

    /// The call that a result belongs to; it waits no more.
    fn answer(&mut self, name: &str, id: Option<&str>) -> Option<String> {
        let is_it = |call: &Call| id.map_or(call.name == name, |id| call.id == id);
        let place = self.waiting.iter().position(is_it)?;
        Some(self.waiting.remove(place).id)
    }
}

fn either<'r, 'a>(node: Node<'r, 'a>, name: &str, other: &str) -> Option<Node<'r, 'a>> {
    let found = node.get(name).or_else(|| node.get(other))?;
    (!found.peek().is_null()).then_some(found)
}

fn member<'a>(value: &'a Value, name: &str, other: &str) -> Option<&'a Value> {
    value.get(name).or_else(|| value.get(other))
}

fn parts_of(content: &Value) -> &[Value] {
    content
        .get("parts")
        .and_then(Value::as_array)
        .unwrap_or_default()
}

fn take_object(node: Node<'_, '_>, name: &str) -> Value {
    let member = node.get(name).filter(|member| !member.peek().is_null());
    member.map_or_else(|| Value::Object(Vec::new()), Node::take)
}

/// `item` with the other members of its part (a signature, video offsets).
///
/// Members of a call that the mapping does not know stay untouched, and are reported.
fn with_rest(part: Node<'_, '_>, item: Value) -> Value {
    const READ: [&str; 10] = [
        "text",
        "thought",
        "functionCall",
        "function_call",
        "functionResponse",
        "function_response",
        "executableCode",
        "executable_code",
        "codeExecutionResult",
        "code_execution_result",
    ];
    let mut members = into_members(item);
    for (name, node) in part.members().into_iter().flatten() {
        let taken = name.as_str().is_none_or(|name| {
            READ.contains(&name) || members.iter().any(|(known, _)| *known == *name)
        });
        if !taken && !says_nothing(node.peek()) {
            members.push((name.clone(), node.take()));
        }
    }
    Value::Object(members)
}

/// The parts of a content that a client repeats unchanged.
fn bare(content: &Value) -> Value {
    let role = content
        .get("role")
        .and_then(Value::as_str)
        .unwrap_or("model");
    let counts = |(name, value): &&(Text, Value)| {
        *name != *"thoughtSignature" && *name != *"thought_signature" && !says_nothing(value)
    };
    let bare = |part: &Value| match part {
        Value::Object(members) => Value::Object(members.iter().filter(counts).cloned().collect()),
        other => other.clone(),
    };
    let parts = parts_of(content).iter().map(bare).collect();
    Value::Array(vec![role.into(), Value::Array(parts)])
}

fn tokens_of(usage: &Value) -> Tokens {
    let figure = |name: &str| figure(Some(usage), &[name]);
    let thoughts = figure("thoughtsTokenCount");
    Tokens {
        input: figure("promptTokenCount").saturating_add(figure("toolUsePromptTokenCount")),
        output: figure("candidatesTokenCount").saturating_add(thoughts),
        cached: figure("cachedContentTokenCount"),
        reasoning: thoughts,
    }
}
