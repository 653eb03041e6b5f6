//! OpenAI Responses (`POST /v1/responses`).
//!
//! ```text
//! request   {"model":M,"instructions":S,"input":TEXT|[ITEM,…],"tools":[…],
//!            "previous_response_id":I,…}
//! response  {"id":I,"object":"response","created_at":S,"model":M,"status":W,"output":[ITEM,…],
//!            "usage":{…}, … the settings of the request again}
//! ITEM      {"type":"message","role":R,"content":TEXT|[PART,…]}   (`type` may be absent)
//!           {"type":"reasoning",…}  {"type":"function_call",…}  … see `items`
//! ```
//!
//! `spec/scroll-mappings.md` W4 has the table of members.
//!
//! Two items are the same if they differ only in `id`, `status`, and members without content.

mod items;
mod stream;
#[cfg(test)]
mod tests;

use super::super::account::{Account, Reason, Tokens, object};
use super::super::draft::{Draft, Message, Source};
use super::super::format::{Confidence, Format, Head, Mark};
use super::super::mapped::Mapped;
use super::super::source::Node;
use super::history::Place;
use super::talk::{
    Names, Setting, Talk, figure, integer_of, number_of, says_nothing, seconds, take_some,
};
use super::{Api, exchanges};
use items::Kind;
use std::collections::HashMap;
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "openai-responses";
const VENDOR: &str = "openai";

pub(crate) const FORMAT: Format = Format {
    name: NAME,
    about: "OpenAI Responses: requests, responses, event streams, captures",
    detect,
    map,
};

pub(super) const API: Api = Api {
    is_request,
    is_response,
    is_chunk: stream::is_event,
    is_message: items::is_item,
    messages: "input",
    assemble: stream::assemble,
};

const REQUEST: Names = Names {
    system: &["instructions"],
    tools: &["tools"],
    known: &[
        "input",
        "model",
        "temperature",
        "top_p",
        "max_output_tokens",
        "previous_response_id",
    ],
};
const RESPONSE: Names = Names {
    system: &["instructions"],
    tools: &["tools"],
    known: &[
        "id",
        "object",
        "created_at",
        "completed_at",
        "model",
        "status",
        "output",
        "output_text",
        "usage",
        "error",
        "incomplete_details",
        "temperature",
        "top_p",
        "max_output_tokens",
        "previous_response_id",
        "background",
        "billing",
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
    let mut talk = Talk::new(NAME, VENDOR);
    let mut responses = HashMap::new();
    exchanges(source, &API, &mut account, |account, exchange| {
        let mut mapping = Mapping {
            talk: &mut talk,
            account,
            responses: &mut responses,
            setting: Setting::of(exchange),
            place: Place::default(),
            previous: None,
            open: None,
        };
        if let Some(request) = exchange.request {
            mapping.request(request);
        }
        if let Some(response) = exchange.response {
            mapping.response(response, exchange.request.is_some());
        }
    });
    talk.finish(account)
}

fn is_request(body: &Value) -> bool {
    let input = body.get("input");
    let is_list = |input: &Value| {
        input
            .as_array()
            .is_some_and(|items| items.iter().all(items::is_item))
    };
    body.get("model").is_some()
        && input.is_some_and(|input| input.as_str().is_some() || is_list(input))
        || body.as_object().is_some_and(|all| all.len() == 1) && input.is_some_and(is_list)
}

fn is_response(body: &Value) -> bool {
    body.get("object").and_then(Value::as_str) == Some("response")
        && body
            .get("output")
            .is_some_and(|output| output.as_array().is_some())
}

/// One exchange while it is read.
struct Mapping<'t, 'x> {
    talk: &'t mut Talk,
    account: &'x mut Account,
    /// The place where each response ended.
    responses: &'t mut HashMap<String, Place>,
    setting: Setting,
    place: Place,
    previous: Option<Value>,
    open: Option<Open>,
}

/// A turn in the making.
struct Open {
    draft: Draft,
    source: Source,
    items: Vec<Value>,
    word: String,
    /// Every place that the turn carries.
    places: Vec<Place>,
}

impl Mapping<'_, '_> {
    fn request(&mut self, body: Node<'_, '_>) {
        self.setting.model = body.text_of("model").filter(|model| !model.is_empty());
        self.params(body);
        self.talk.instruct(body, &REQUEST, &mut self.setting);
        if let Some(previous) = take_some(body, "previous_response_id") {
            let found = previous.as_str().and_then(|id| self.responses.get(id));
            self.place = found.copied().unwrap_or_default();
            self.previous = Some(previous);
        }
        let Some(input) = body.get("input") else {
            return;
        };
        match input.peek() {
            Value::String(text) => {
                let message = object([
                    ("role", "user".into()),
                    ("content", Value::String(text.clone())),
                ]);
                let before = self.step(&message);
                if let Some(before) = before {
                    self.begin(Role::User, "user", before);
                    if let Some(open) = &mut self.open {
                        open.items
                            .extend(input.text().map(super::super::draft::text_item));
                    }
                } else {
                    input.discard(Reason::Duplicate);
                }
            }
            _ => self.items(input, false),
        }
        self.close();
    }

    fn params(&mut self, body: Node<'_, '_>) {
        let params = &mut self.setting.params;
        let temperature = number_of(body, "temperature");
        let top_p = number_of(body, "top_p");
        let max_tokens = integer_of(body, "max_output_tokens");
        params.temperature = temperature.or(params.temperature.take());
        params.top_p = top_p.or(params.top_p.take());
        params.max_tokens = max_tokens.or(params.max_tokens);
    }

    fn response(&mut self, body: Node<'_, '_>, has_request: bool) {
        let id = body.peek_str("id");
        if id.is_some() && self.talk.repeats(id, true) {
            body.discard(Reason::Duplicate);
            return;
        }
        let own = id.is_some() || !has_request;
        if let Some(model) = body.text_of("model").filter(|model| !model.is_empty()) {
            self.setting.model = Some(model);
        }
        self.setting.happened(body.get("created_at"), seconds);
        self.params(body);
        self.talk.instruct(body, &RESPONSE, &mut self.setting);
        let _ = body.told_by("object");
        body.discard_all(&["completed_at", "background", "billing"], Reason::Metadata);
        body.discard_all(&["output_text"], Reason::View);
        if let Some(previous) = take_some(body, "previous_response_id") {
            let found = previous.as_str().and_then(|id| self.responses.get(id));
            if self.previous.is_none() {
                self.place = found.copied().unwrap_or(self.place);
                self.previous = Some(previous);
            }
        }
        if let Some(output) = body.get("output") {
            self.items(output, own);
        }
        let id = body.text_of("id");
        if let Some(id) = &id {
            self.responses.insert(id.clone(), self.place);
        }
        if self.open.is_none()
            && body
                .peek()
                .get("error")
                .is_some_and(|error| !error.is_null())
        {
            // A failed response has no item. A turn without content records the failure.
            self.begin(Role::Assistant, "assistant", self.place);
        }
        if let Some(open) = &mut self.open {
            open.source.set_some("message", id);
            open.source.set_some("stop_reason", body.text_of("status"));
            for name in ["incomplete_details", "error"] {
                open.source.set_some(name, take_some(body, name));
            }
            if let Some(usage) = body
                .get("usage")
                .filter(|usage| !says_nothing(usage.peek()))
            {
                let tokens = tokens_of(usage.peek());
                open.source.set("usage", usage.take());
                open.source.set_tokens(tokens);
                self.talk.tokens.add(tokens);
            }
        }
        self.close();
    }

    /// Reads items in order, those of one kind into one turn.
    ///
    /// Those of a response are its `own`, even if the conversation contains the same items.
    fn items(&mut self, list: Node<'_, '_>, own: bool) {
        for item in list.items().into_iter().flatten() {
            let place = self.place;
            let Some(before) = self.step(item.peek()).or(own.then_some(place)) else {
                item.discard(Reason::Duplicate);
                continue;
            };
            let kind = items::kind(item.peek());
            let word = match kind {
                Kind::Message => item
                    .text_of("role")
                    .unwrap_or_else(|| "assistant".to_owned()),
                Kind::Result => "tool".to_owned(),
                Kind::Model => "assistant".to_owned(),
            };
            let role = self.role(kind, &word);
            let joins = kind != Kind::Message || role == Role::Assistant;
            let goes_on = |open: &Open| {
                joins && open.draft.role == role && open.places.last() == Some(&before)
            };
            if !self.open.as_ref().is_some_and(goes_on) {
                self.begin(role, &word, before);
            }
            let place = self.place;
            if let Some(open) = &mut self.open {
                open.places.push(place);
                let mut to = items::Turn {
                    talk: &mut *self.talk,
                    account: &mut *self.account,
                    draft: &mut open.draft,
                    items: &mut open.items,
                };
                to.item(item);
            }
        }
    }

    fn role(&mut self, kind: Kind, word: &str) -> Role {
        match (kind, word) {
            (Kind::Result, _) => Role::Tool,
            (Kind::Model, _) | (_, "assistant") => Role::Assistant,
            (_, "system" | "developer") => Role::System,
            (_, "user") => Role::User,
            _ => {
                self.account
                    .default_field("role", "unknown role in the source");
                Role::User
            }
        }
    }

    /// Continues with `item`. Returns the place before it, if it is new.
    fn step(&mut self, item: &Value) -> Option<Place> {
        let before = self.place;
        let (place, known) = self.talk.history.step(before, &bare(item));
        self.place = place;
        (!known).then_some(before)
    }

    fn begin(&mut self, role: Role, word: &str, before: Place) {
        self.close();
        let mut source = self.talk.source(&self.setting, before);
        source.set_some("previous_response_id", self.previous.take());
        self.open = Some(Open {
            draft: self.talk.draft(role, &self.setting),
            source,
            items: Vec::new(),
            word: word.to_owned(),
            places: vec![self.place],
        });
    }

    fn close(&mut self) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        open.draft.messages.push(Message {
            role: open.word,
            content: Value::Array(open.items),
        });
        open.draft.close(open.source);
        self.talk.push_all(&open.draft, &open.places);
    }
}

/// The parts of an item that a client repeats unchanged.
fn bare(item: &Value) -> Value {
    let Value::Object(members) = item else {
        return item.clone();
    };
    let is_message = items::kind(item) == Kind::Message;
    let counts = |(name, value): &&(Text, Value)| {
        let free = *name == *"id" || *name == *"status" || (is_message && *name == *"type");
        !free && !says_nothing(value)
    };
    let bare_member = |(name, value): &(Text, Value)| {
        let value = match value {
            Value::Array(parts) if is_message && *name == *"content" => bare_parts(parts),
            other => other.clone(),
        };
        (name.clone(), value)
    };
    Value::Object(members.iter().filter(counts).map(bare_member).collect())
}

/// The text of one text part, or the parts without members that only a response has.
fn bare_parts(parts: &[Value]) -> Value {
    let kind = |part: &Value| part.get("type").and_then(Value::as_str).map(str::to_owned);
    let is_text =
        |part: &Value| matches!(kind(part).as_deref(), Some("input_text" | "output_text"));
    if let [part] = parts
        && is_text(part)
    {
        return part.get("text").cloned().unwrap_or(Value::Null);
    }
    let bare = |part: &Value| match part {
        Value::Object(members) => {
            let counts = |(name, value): &&(Text, Value)| {
                *name != *"logprobs" && *name != *"annotations" && !says_nothing(value)
            };
            Value::Object(members.iter().filter(counts).cloned().collect())
        }
        other => other.clone(),
    };
    Value::Array(parts.iter().map(bare).collect())
}

fn tokens_of(usage: &Value) -> Tokens {
    let usage = Some(usage);
    Tokens {
        input: figure(usage, &["input_tokens"]),
        output: figure(usage, &["output_tokens"]),
        cached: figure(usage, &["input_tokens_details", "cached_tokens"]),
        reasoning: figure(usage, &["output_tokens_details", "reasoning_tokens"]),
    }
}
