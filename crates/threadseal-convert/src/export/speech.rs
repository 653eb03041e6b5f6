//! The content of a turn, in one form for all targets.
//!
//! ```text
//! turn ─► Speech { role, model, moment, messages: [Spoken { word, [PART, …] }], … }
//! PART     a text, reasoning, a call, a result, a block of the vendor's
//! ```
//! Calls and results are at their places among the items; those without a place come last. A block
//! that repeats a call or a result (scrolls of `anthropic` hold them twice) counts as that call or
//! result.
//!
//! [`Holds`] lists the parts that the target has a place for. Other parts stay untouched, so that
//! the reader of the turn reports them.

use super::super::account::{Reason, Tokens};
use super::super::source::Node;
use threadseal_core::canon::json::{Number, Value};
use threadseal_formats::scroll::{Role, conversion_of};

/// The parts that a target has a place for.
#[derive(Debug)]
pub(super) struct Holds {
    /// Reasoning that can be read.
    pub(super) thinking: bool,
    /// Members of an item beside its text (signatures, citations).
    pub(super) members: bool,
    /// The model of every turn.
    pub(super) models: bool,
    /// One model and one sampling for all turns.
    pub(super) one_model: bool,
    /// Moments, tokens, why the model stopped.
    pub(super) figures: bool,
    /// Whether a tool failed.
    pub(super) status: bool,
    /// Names of speakers.
    pub(super) names: bool,
    /// The claim of the converter that made the scroll; the writer gets it with the turns.
    pub(super) claims: bool,
    /// A vendor's block, as the target writes it.
    pub(super) block: fn(&Value) -> Option<Value>,
}

/// One turn.
#[derive(Debug, Clone)]
pub(super) struct Speech {
    pub(super) number: u64,
    pub(super) role: Role,
    pub(super) model: String,
    pub(super) params: Params,
    pub(super) messages: Vec<Spoken>,
    /// Definitions of tools that are in force from here.
    pub(super) tools: Vec<Value>,
    /// Nanoseconds since 1970; 0 if unknown.
    pub(super) moment: u64,
    pub(super) tokens: Tokens,
    pub(super) format: Option<String>,
    pub(super) session: Option<String>,
    pub(super) stop_reason: Option<String>,
    pub(super) name: Option<String>,
}

/// Sampling.
#[derive(Debug, Clone, Default)]
pub(super) struct Params {
    pub(super) temperature: Option<Number>,
    pub(super) top_p: Option<Number>,
    pub(super) seed: Option<i64>,
    pub(super) max_tokens: Option<i64>,
}

/// One message of a turn.
#[derive(Debug, Clone)]
pub(super) struct Spoken {
    pub(super) word: String,
    /// Whether the content is a text and no array.
    pub(super) plain: bool,
    pub(super) said: Vec<MessagePart>,
}

/// A part of a message.
#[derive(Debug, Clone)]
pub(super) enum MessagePart {
    /// A text, and its item.
    Text(String, Value),
    /// Reasoning, and its item.
    Thinking(String, Value),
    /// A call of a tool.
    Call(Call),
    /// The answer of a tool.
    Result(Answer),
    /// Something else, as the target writes it.
    Block(Value),
}

/// A call; without arguments only their hash is known.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) args: Option<Value>,
    /// The block with the same content.
    pub(super) block: Option<Value>,
}

/// A result; without a response only its hash is known.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) id: String,
    pub(super) ok: bool,
    pub(super) response: Option<Value>,
    /// The block with the same content.
    pub(super) block: Option<Value>,
}

impl Speech {
    /// Reads `turn` for a target with the places of `holds`. `kept` gives the model and sampling
    /// for all turns.
    pub(super) fn of(turn: Node<'_, '_>, holds: &Holds, kept: Option<&Value>) -> Self {
        turn.discard_all(&["version", "prev_hash", "hash", "sig"], Reason::Metadata);
        let role = told(turn, "role").and_then(Role::parse);
        let model = turn.get("model");
        let id = model.and_then(|model| model.peek_str("id"));
        let mut speech = Self {
            number: turn.u64_of("turn").unwrap_or_default(),
            role: role.unwrap_or(Role::User),
            model: id.unwrap_or_default().to_owned(),
            params: Params::of(turn.peek()),
            messages: Vec::new(),
            tools: Vec::new(),
            moment: turn
                .peek()
                .get("timestamp_ns")
                .and_then(Value::as_u64)
                .unwrap_or_default(),
            tokens: Tokens::default(),
            format: None,
            session: None,
            stop_reason: None,
            name: None,
        };
        if let Some(model) = model.filter(|_| holds.models) {
            let _ = model.get("id").map(Node::read);
        }
        for name in ["model", "params"] {
            let same =
                |node: &Node<'_, '_>| kept.and_then(|kept| kept.get(name)) == Some(node.peek());
            let _ = turn.get(name).filter(same).map(Node::read);
        }
        if holds.figures {
            let _ = turn.get("timestamp_ns").map(Node::read);
        }
        let mut bodies = Bodies::of(turn, holds);
        let claims = speech.number == 0 && conversion_of(turn.peek()).is_some();
        let mut messages = turn
            .get("messages")
            .and_then(Node::items)
            .into_iter()
            .flatten()
            .peekable();
        while let Some(message) = messages.next() {
            if claims && messages.peek().is_none() {
                if holds.claims {
                    message.read();
                }
                continue;
            }
            match message.peek_str("role") {
                Some("source") => speech.source(message, holds),
                Some("tools") => {
                    let _ = told(message, "role");
                    for tool in message
                        .get("content")
                        .and_then(Node::items)
                        .into_iter()
                        .flatten()
                    {
                        speech.tools.push(tool.take());
                    }
                }
                _ => speech.messages.push(spoken(message, &mut bodies, holds)),
            }
        }
        let rest = bodies.rest();
        if !rest.is_empty() {
            match speech.messages.last_mut() {
                Some(last) => last.said.extend(rest),
                None => speech.messages.push(Spoken {
                    word: speech.role.as_str().to_owned(),
                    plain: false,
                    said: rest,
                }),
            }
        }
        speech
    }

    /// The number of parts that satisfy `such`.
    pub(super) fn count(&self, such: impl Fn(&MessagePart) -> bool) -> u64 {
        let parts = self.messages.iter().flat_map(|message| &message.said);
        parts.filter(|said| such(said)).count() as u64
    }

    fn source(&mut self, message: Node<'_, '_>, holds: &Holds) {
        let _ = told(message, "role");
        for item in message
            .get("content")
            .and_then(Node::items)
            .into_iter()
            .flatten()
        {
            let _ = told(item, "type");
            if holds.names {
                self.name = told(item, "name").map(str::to_owned);
            }
            // The place of a turn in its source has no meaning outside the scroll.
            item.discard_all(&["lines", "settings"], Reason::Metadata);
            if holds.figures {
                self.format = told(item, "format").map(str::to_owned);
                self.stop_reason = told(item, "stop_reason").map(str::to_owned);
                self.session = told(item, "session").map(str::to_owned);
                let tokens = item.get("tokens");
                let figure = |name: &str| {
                    let value = tokens.map(Node::peek).and_then(|tokens| tokens.get(name));
                    value.and_then(Value::as_u64).unwrap_or_default()
                };
                self.tokens = Tokens {
                    input: figure("input"),
                    output: figure("output"),
                    cached: figure("cached"),
                    reasoning: figure("reasoning"),
                };
                let _ = tokens.map(Node::read);
            }
        }
    }
}

impl Params {
    fn of(turn: &Value) -> Self {
        let member = |name: &str| turn.get("params")?.get(name);
        Self {
            temperature: member("temperature").and_then(Value::as_number).cloned(),
            top_p: member("top_p").and_then(Value::as_number).cloned(),
            seed: member("seed").and_then(Value::as_i64),
            max_tokens: member("max_tokens").and_then(Value::as_i64),
        }
    }

    /// `temperature` and `top_p` where they are not 1, which is also the default of a scroll.
    pub(super) fn sampling(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let both = [("temperature", &self.temperature), ("top_p", &self.top_p)];
        both.into_iter().filter_map(|(name, number)| {
            let number = number.clone().filter(|number| number.as_f64() != 1.0)?;
            Some((name, Value::Number(number)))
        })
    }
}

/// Calls and results that have no place yet.
struct Bodies {
    calls: Vec<Option<Call>>,
    results: Vec<Option<Answer>>,
}

impl Bodies {
    fn of(turn: Node<'_, '_>, holds: &Holds) -> Self {
        let list = |name: &str| turn.get(name).and_then(Node::items).into_iter().flatten();
        let call = |call: Node<'_, '_>| {
            Some(Call {
                id: call.text_of("id").unwrap_or_default(),
                name: call.text_of("name").unwrap_or_default(),
                args: body(call, "args", "args_hash"),
                block: None,
            })
        };
        let calls = list("tool_calls").map(call).collect();
        let result = |result: Node<'_, '_>| {
            let ok = result.peek_str("status") != Some("error");
            if ok || holds.status {
                let _ = told(result, "status");
            }
            Some(Answer {
                id: result.text_of("id").unwrap_or_default(),
                ok,
                response: body(result, "response", "response_hash"),
                block: None,
            })
        };
        let results = list("tool_results").map(result).collect();
        Self { calls, results }
    }

    /// The first call of this id that has no place yet.
    fn call(&mut self, id: &str) -> Option<Call> {
        let is_it = |call: &&mut Option<Call>| call.as_ref().is_some_and(|call| call.id == id);
        self.calls.iter_mut().find(is_it)?.take()
    }

    fn result(&mut self, id: &str) -> Option<Answer> {
        let is_it =
            |result: &&mut Option<Answer>| result.as_ref().is_some_and(|result| result.id == id);
        self.results.iter_mut().find(is_it)?.take()
    }

    fn rest(self) -> Vec<MessagePart> {
        let calls = self.calls.into_iter().flatten().map(MessagePart::Call);
        calls
            .chain(self.results.into_iter().flatten().map(MessagePart::Result))
            .collect()
    }
}

/// A body. Its hash is a duplicate of it, unless the body is missing.
fn body(node: Node<'_, '_>, name: &str, hash: &str) -> Option<Value> {
    let body = node.get(name)?.take();
    if let Some(hash) = node.get(hash) {
        hash.discard(Reason::Duplicate);
    }
    Some(body)
}

fn spoken(message: Node<'_, '_>, bodies: &mut Bodies, holds: &Holds) -> Spoken {
    let word = message.text_of("role").unwrap_or_default();
    let Some(content) = message.get("content") else {
        return Spoken {
            word,
            plain: true,
            said: Vec::new(),
        };
    };
    if let Some(text) = content.text() {
        let item = super::super::draft::text_item(text.as_str());
        let said = vec![MessagePart::Text(text, item)];
        return Spoken {
            word,
            plain: true,
            said,
        };
    }
    let items = content.items().into_iter().flatten();
    let said = items.filter_map(|item| said(item, bodies, holds)).collect();
    Spoken {
        word,
        plain: false,
        said,
    }
}

fn said(item: Node<'_, '_>, bodies: &mut Bodies, holds: &Holds) -> Option<MessagePart> {
    let kind = item.peek_str("type").unwrap_or_default();
    let named = |name: &str| item.peek_str(name).unwrap_or_default();
    let whole = || match holds.members {
        true => item.take(),
        false => item.peek().clone(),
    };
    match kind {
        "text" => {
            let text = item.text_of("text")?;
            let _ = told(item, "type");
            Some(MessagePart::Text(text, whole()))
        }
        "thinking" if holds.thinking => {
            let text = item.text_of("thinking")?;
            let _ = told(item, "type");
            Some(MessagePart::Thinking(text, whole()))
        }
        "tool_call" => {
            let call = bodies.call(named("id"))?;
            place(item);
            Some(MessagePart::Call(call))
        }
        "tool_result" if item.peek().get("tool_use_id").is_none() => {
            let result = bodies.result(named("id"))?;
            place(item);
            Some(MessagePart::Result(result))
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let mut call = bodies.call(named("id"))?;
            call.block = Some(item.peek().clone());
            item.discard(Reason::Duplicate);
            Some(MessagePart::Call(call))
        }
        _ if kind.ends_with("tool_result") => {
            let mut result = bodies.result(named("tool_use_id"))?;
            result.block = Some(item.peek().clone());
            item.discard(Reason::Duplicate);
            Some(MessagePart::Result(result))
        }
        _ => {
            let part = item.get("part").filter(|_| kind == "part");
            let block = (holds.block)(part.map_or(item.peek(), Node::peek))?;
            let _ = item.read();
            Some(MessagePart::Block(block))
        }
    }
}

/// The string member `name`, which the target's form expresses.
fn told<'a>(node: Node<'_, 'a>, name: &str) -> Option<&'a str> {
    let member = node.get(name)?;
    let text = member.peek().as_str()?;
    let _ = member.read();
    Some(text)
}

/// Reads the members that only mark a place. Other members stay, and are reported.
fn place(item: Node<'_, '_>) {
    let _ = told(item, "type");
    let _ = told(item, "id");
}
