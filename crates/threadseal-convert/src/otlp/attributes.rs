//! Attributes of a span: messages, the model, and bookkeeping.
//!
//! `spec/scroll-mappings.md` C7.1 has the table of attributes by convention.

use super::super::account::Tokens;
use super::super::chat::held_json;
use super::super::draft::{Model, Params, Source};
use super::super::source::{Node, weight};
use super::super::thread::{says_nothing, unique};
use super::super::trace::{Kind, Part, Report, Span};
use super::events::{body, events, is_message_event};
use super::indexed::Tree;
use std::collections::{BTreeMap, HashMap};
use threadseal_core::canon::json::{Number, Text, Value};

/// The meaning of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Slot {
    System,
    Input,
    Output,
    Args,
    Answer,
    ToolName,
    ToolId,
}

const SLOTS: &[(&str, Slot)] = &[
    ("gen_ai.system_instructions", Slot::System),
    ("gen_ai.input.messages", Slot::Input),
    ("gen_ai.output.messages", Slot::Output),
    ("gen_ai.prompt", Slot::Input),
    ("gen_ai.completion", Slot::Output),
    ("traceloop.entity.input", Slot::Input),
    ("traceloop.entity.output", Slot::Output),
    ("input.value", Slot::Input),
    ("output.value", Slot::Output),
    ("ai.prompt.messages", Slot::Input),
    ("ai.prompt", Slot::Input),
    ("ai.response.reasoning", Slot::Output),
    ("ai.response.text", Slot::Output),
    ("ai.response.toolCalls", Slot::Output),
    ("ai.response.object", Slot::Output),
    ("langfuse.observation.input", Slot::Input),
    ("langfuse.observation.output", Slot::Output),
    ("langfuse.trace.input", Slot::Input),
    ("langfuse.trace.output", Slot::Output),
    ("gcp.vertex.agent.llm_request", Slot::Input),
    ("gcp.vertex.agent.llm_response", Slot::Output),
    ("pydantic_ai.all_messages", Slot::Output),
    ("all_messages_events", Slot::Output),
    ("events", Slot::Output),
    ("final_result", Slot::Output),
    ("prompt", Slot::Input),
    ("gen_ai.tool.call.arguments", Slot::Args),
    ("gen_ai.tool.call.result", Slot::Answer),
    ("ai.toolCall.args", Slot::Args),
    ("ai.toolCall.result", Slot::Answer),
    ("gcp.vertex.agent.tool_call_args", Slot::Args),
    ("gcp.vertex.agent.tool_response", Slot::Answer),
    ("tool_arguments", Slot::Args),
    ("tool_response", Slot::Answer),
    ("arguments", Slot::Args),
    ("output", Slot::Answer),
    ("gen_ai.tool.name", Slot::ToolName),
    ("tool.name", Slot::ToolName),
    ("ai.toolCall.name", Slot::ToolName),
    ("tool_name", Slot::ToolName),
    ("gen_ai.tool.call.id", Slot::ToolId),
    ("ai.toolCall.id", Slot::ToolId),
    ("call_id", Slot::ToolId),
];
/// Attributes whose names are common words: only Codex uses them in this sense.
const CODEX_ONLY: [&str; 5] = ["prompt", "arguments", "output", "tool_name", "call_id"];
/// Attributes of Claude Code, likewise.
const CLAUDE: &[(&str, Slot)] = &[
    ("user_prompt", Slot::Input),
    ("prompt", Slot::Input),
    ("response", Slot::Output),
    ("tool_input", Slot::Args),
    ("full_command", Slot::Args),
    ("tool_name", Slot::ToolName),
    ("tool_use_id", Slot::ToolId),
];
/// Names of counts that only these programs use: input (all are added), output, cached, reasoning.
const CODEX_COUNTS: [&[&str]; 4] = [
    &["input_token_count"],
    &["output_token_count"],
    &["cached_token_count"],
    &["reasoning_token_count"],
];
const CLAUDE_COUNTS: [&[&str]; 4] = [
    &["input_tokens", "cache_read_tokens", "cache_creation_tokens"],
    &["output_tokens"],
    &["cache_read_tokens"],
    &[],
];
const INDEXED: [(&str, Slot); 4] = [
    ("gen_ai.prompt.", Slot::Input),
    ("gen_ai.completion.", Slot::Output),
    ("llm.input_messages.", Slot::Input),
    ("llm.output_messages.", Slot::Output),
];
const MODELS: [&str; 5] = [
    "gen_ai.response.model",
    "ai.response.model",
    "gen_ai.request.model",
    "llm.model_name",
    "ai.model.id",
];
const VENDORS: [&str; 5] = [
    "gen_ai.provider.name",
    "gen_ai.system",
    "llm.provider",
    "llm.system",
    "ai.model.provider",
];

/// A program that reports its own conversations, with attributes of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Program {
    Codex,
    Claude,
    Other,
}

/// Whether a span or record has an attribute or event that belongs to a conversation.
pub(super) fn speaks(record: &Value) -> bool {
    let keys = keys(record);
    let program = program(record);
    let counts = program.counts();
    let spends = |key: &&str| {
        counts
            .iter()
            .take(2)
            .flatten()
            .flat_map(|names| names.iter())
            .any(|name| name == key)
    };
    keys.iter().any(|key| {
        slot(key, program).is_some_and(|slot| slot < Slot::ToolName) || indexed(key).is_some()
    }) || names(record).any(is_message_event)
        || keys.iter().any(spends)
        || (program == Program::Claude && span_type(record) == Some("tool"))
}

/// Whether a record without a conversation is the bookkeeping of a program: one that reports its
/// conversations elsewhere, or one whose attributes hold no long text and are not called content.
pub(super) fn is_bookkeeping(record: &Value) -> bool {
    const LONG: usize = 256;
    const CONTENT: [&str; 14] = [
        "prompt",
        "input",
        "output",
        "message",
        "messages",
        "content",
        "text",
        "response",
        "completion",
        "arguments",
        "result",
        "query",
        "question",
        "answer",
    ];
    let content = |attribute: &Value| {
        let key = attribute.get("key").and_then(Value::as_str);
        let last = key.and_then(|key| key.rsplit(['.', '_']).next());
        last.is_some_and(|last| CONTENT.contains(&last))
    };
    let long = |attribute: &Value| {
        let value = attribute.get("value").map(plain).unwrap_or(Value::Null);
        match &value {
            Value::String(text) => text.as_bytes().len() > LONG,
            Value::Array(_) | Value::Object(_) => weight(&value) > LONG,
            _ => false,
        }
    };
    let list = record.get("attributes").and_then(Value::as_array);
    let body = record.get("body").map(plain).unwrap_or(Value::Null);
    program(record) != Program::Other
        || (!list
            .unwrap_or_default()
            .iter()
            .any(|part| long(part) || content(part))
            && weight(&body) <= LONG)
}

impl Program {
    /// The names of counts: input, output, cached, reasoning.
    fn counts(self) -> Option<[&'static [&'static str]; 4]> {
        match self {
            Self::Codex => Some(CODEX_COUNTS),
            Self::Claude => Some(CLAUDE_COUNTS),
            Self::Other => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Claude => "claude-code",
            Self::Other => "",
        }
    }
}

/// Reads the attributes, the events and the body of a record.
pub(super) fn read<'r, 'a>(node: Node<'r, 'a>, number: u64, mut facts: Source) -> Span<'r, 'a> {
    let program = program(node.peek());
    let mut told = ReadAttributes {
        counts: program.counts(),
        ..ReadAttributes::default()
    };
    if program == Program::Claude {
        told.kind = match span_type(node.peek()) {
            Some("llm_request") => Some(Kind::Model),
            Some("tool") => Some(Kind::Tool),
            _ => None,
        };
    }
    let mut rest = Vec::new();
    let mut trees: BTreeMap<&str, Tree<'r, 'a>> = BTreeMap::new();
    let list = node.get("attributes").and_then(Node::items);
    for (index, attribute) in list.into_iter().flatten().enumerate() {
        let (Some(key), Some(value)) = (attribute.peek_str("key"), attribute.get("value")) else {
            continue;
        };
        let _ = attribute.told_by("key");
        let plain = plain(value.peek());
        told.look(key, &plain);
        if let Some((prefix, path)) = indexed(key) {
            let _ = value.take_held(&plain);
            trees.entry(prefix).or_default().insert(path, plain, value);
        } else if let Some(slot) = slot(key, program).filter(|_| !says_nothing(&plain)) {
            let held = plain.as_str().and_then(held_json);
            let value_of = value.take_held(held.as_ref().unwrap_or(&plain));
            if slot >= Slot::ToolName {
                // A call that the scroll has is dropped; what its span calls it stays a fact.
                rest.push((Text::from(key), value_of.clone()));
            }
            let string = value
                .peek()
                .get("stringValue")
                .map_or("", |_| "/stringValue");
            let pointer = format!("/attributes/{index}/value{string}");
            told.slots.push((slot, value_of, value, pointer));
        } else {
            rest.push((Text::from(key), value.take_held(&plain)));
        }
    }
    let mut span = told.span(number, trees);
    span.report.program = program.name();
    span.report.is_log = node.peek().get("startTimeUnixNano").is_none();
    events(node, &mut span, &mut facts);
    body(node, &mut span, &mut facts);
    if !rest.is_empty() {
        facts.set("attributes", unique(rest));
    }
    span.id = node
        .peek_str("spanId")
        .filter(|id| !id.is_empty())
        .map(str::to_owned);
    span.parent = node
        .peek_str("parentSpanId")
        .filter(|id| !id.is_empty())
        .map(str::to_owned);
    span.facts = facts;
    span
}

/// The facts and parts from the attributes so far.
#[derive(Default)]
struct ReadAttributes<'r, 'a> {
    slots: Vec<(Slot, Value, Node<'r, 'a>, String)>,
    words: HashMap<&'static str, String>,
    numbers: HashMap<String, u64>,
    params: Params,
    kind: Option<Kind>,
    /// Names of counts of the program's own.
    counts: Option<[&'static [&'static str]; 4]>,
    /// The name of the request to the model, and whether a tool failed.
    request: Option<String>,
    failed: bool,
}

impl<'r, 'a> ReadAttributes<'r, 'a> {
    /// Examines an attribute that is carried unchanged.
    fn look(&mut self, key: &str, value: &Value) {
        let words = MODELS.iter().chain(&VENDORS);
        if let (Some(name), Some(text)) = (words.copied().find(|name| *name == key), value.as_str())
        {
            self.words.insert(name, text.to_owned());
        }
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let counts = ["gen_ai.usage.", "llm.token_count.", "ai.usage."];
        let own = self.counts.iter().flatten().flat_map(|names| names.iter());
        let counted = counts.iter().any(|prefix| key.starts_with(prefix))
            || own.into_iter().any(|name| *name == key);
        if let (Some(number), true) = (number, counted) {
            self.numbers.insert(key.to_owned(), number);
        }
        if self.counts.is_some() {
            match (key, value.as_str()) {
                ("request_id", Some(request)) => self.request = Some(request.to_owned()),
                ("success", Some("false")) => self.failed = true,
                ("model", Some(model)) => {
                    self.words.insert("gen_ai.request.model", model.to_owned());
                }
                _ => {}
            }
        }
        let setting = ["gen_ai.request.", "ai.settings."];
        let setting = setting.iter().find_map(|prefix| key.strip_prefix(prefix));
        let number = value.as_number().cloned();
        match setting {
            Some("temperature") => self.params.temperature = number,
            Some("top_p" | "topP") => self.params.top_p = number,
            Some("seed") => self.params.seed = value.as_i64(),
            Some("max_tokens" | "maxTokens" | "maxOutputTokens") => {
                self.params.max_tokens = value.as_i64();
            }
            _ => {}
        }
        let kind = match (key, value.as_str()) {
            ("openinference.span.kind", Some("LLM")) => Some(Kind::Model),
            ("openinference.span.kind", Some("TOOL")) => Some(Kind::Tool),
            ("traceloop.span.kind", Some("tool")) => Some(Kind::Tool),
            ("gen_ai.operation.name", Some("chat" | "text_completion" | "generate_content")) => {
                Some(Kind::Model)
            }
            ("gen_ai.operation.name", Some("execute_tool")) => Some(Kind::Tool),
            ("langfuse.observation.type", Some("generation")) => Some(Kind::Model),
            ("langfuse.observation.type", Some("tool")) => Some(Kind::Tool),
            _ => None,
        };
        self.kind = self.kind.or(kind);
    }

    fn span(mut self, number: u64, trees: BTreeMap<&str, Tree<'r, 'a>>) -> Span<'r, 'a> {
        self.slots.sort_by_key(|(slot, ..)| *slot);
        let first = |names: &[&str]| names.iter().find_map(|name| self.words.get(name)).cloned();
        let (id, vendor) = (first(&MODELS), first(&VENDORS));
        let (mut inputs, mut outputs, mut tool) = (Vec::new(), Vec::new(), (None, None));
        let structured = !trees.is_empty();
        for (prefix, tree) in trees {
            let input = INDEXED
                .iter()
                .any(|(name, slot)| *name == prefix && *slot == Slot::Input);
            let role = if input { "user" } else { "assistant" };
            let part = tree.into_part(role);
            if input {
                inputs.push(part);
            } else {
                outputs.push(part);
            }
        }
        let mut called = false;
        for (slot, value, node, pointer) in self.slots {
            let part = |role| Part {
                value: value.clone(),
                nodes: vec![(0, node)],
                pointer: Some(pointer.clone()),
                role,
            };
            called |= matches!(slot, Slot::Args | Slot::Answer);
            match slot {
                Slot::System => inputs.insert(0, part("system")),
                Slot::Input => inputs.push(part("user")),
                Slot::Args => inputs.push(part("assistant")),
                Slot::Output => outputs.push(part("assistant")),
                Slot::Answer => outputs.push(part("tool")),
                Slot::ToolName => tool.0 = value.as_str().map(str::to_owned),
                Slot::ToolId => tool.1 = value.as_str().map(str::to_owned),
            }
        }
        let guess = match (structured, called) {
            (true, _) => Kind::Model,
            (_, true) => Kind::Tool,
            _ => Kind::Other,
        };
        let count = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| self.numbers.get(*name))
                .copied()
                .unwrap_or_default()
        };
        let own = |place: usize| {
            let names = self.counts.map_or(&[][..], |counts| counts[place]);
            let found = names.iter().filter_map(|name| self.numbers.get(*name));
            found.fold(0_u64, |sum, count| sum.saturating_add(*count))
        };
        Span {
            number,
            kind: self.kind.unwrap_or(guess),
            id: None,
            parent: None,
            start: None,
            end: None,
            model: Model {
                vendor: vendor.unwrap_or_default(),
                id: id.filter(|id| !id.is_empty()),
                fingerprint: None,
            },
            params: self.params,
            tokens: Tokens {
                input: own(0).max(count(&[
                    "gen_ai.usage.input_tokens",
                    "gen_ai.usage.prompt_tokens",
                    "llm.token_count.prompt",
                    "ai.usage.inputTokens",
                    "ai.usage.promptTokens",
                ])),
                output: own(1).max(count(&[
                    "gen_ai.usage.output_tokens",
                    "gen_ai.usage.completion_tokens",
                    "llm.token_count.completion",
                    "ai.usage.outputTokens",
                    "ai.usage.completionTokens",
                ])),
                cached: own(2).max(count(&[
                    "gen_ai.usage.cache_read.input_tokens",
                    "gen_ai.usage.cache_read_input_tokens",
                    "llm.token_count.prompt_details.cache_read",
                    "ai.usage.cachedInputTokens",
                ])),
                reasoning: own(3).max(count(&[
                    "gen_ai.usage.reasoning.output_tokens",
                    "gen_ai.usage.details.reasoning_tokens",
                    "codex.usage.reasoning_output_tokens",
                    "llm.token_count.completion_details.reasoning",
                    "ai.usage.reasoningTokens",
                ])),
            },
            inputs,
            outputs,
            tool,
            failed: self.failed,
            report: Report {
                request: self.request,
                ..Report::default()
            },
            facts: Source::default(),
        }
    }
}

/// The JSON of an `AnyValue`: its one member without the word of its type.
pub(super) fn plain(value: &Value) -> Value {
    let Some([(kind, inner)]) = value.as_object() else {
        return value.clone();
    };
    match (kind.as_str().unwrap_or_default(), inner) {
        ("intValue", Value::String(digits)) => {
            let number = digits
                .as_str()
                .and_then(Number::parse)
                .filter(Number::is_integer);
            number.map_or_else(|| inner.clone(), Value::Number)
        }
        ("stringValue" | "boolValue" | "intValue" | "doubleValue" | "bytesValue", inner) => {
            inner.clone()
        }
        ("arrayValue", inner) => {
            let values = inner
                .get("values")
                .and_then(Value::as_array)
                .unwrap_or_default();
            Value::Array(values.iter().map(plain).collect())
        }
        ("kvlistValue", inner) => plain_list(
            inner
                .get("values")
                .and_then(Value::as_array)
                .unwrap_or_default(),
        ),
        _ => value.clone(),
    }
}

pub(super) fn plain_list(list: &[Value]) -> Value {
    let member = |pair: &Value| {
        Some((
            Text::from(pair.get("key")?.as_str()?),
            plain(pair.get("value")?),
        ))
    };
    unique(list.iter().filter_map(member).collect())
}

fn keys(record: &Value) -> Vec<&str> {
    let list = record
        .get("attributes")
        .and_then(Value::as_array)
        .unwrap_or_default();
    list.iter()
        .filter_map(|attribute| attribute.get("key")?.as_str())
        .collect()
}

/// Names of the events of a span, or of a log record itself.
pub(super) fn names(record: &Value) -> impl Iterator<Item = &str> {
    let list = record
        .get("events")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let events = list.iter().filter_map(|event| event.get("name")?.as_str());
    let own = record.get("eventName").and_then(Value::as_str);
    events.chain(own).chain(event_name(record))
}

fn event_name(record: &Value) -> Option<&str> {
    word(record, "event.name")
}

/// The text of the attribute called `name`.
fn word<'a>(record: &'a Value, name: &str) -> Option<&'a str> {
    let list = record.get("attributes")?.as_array()?;
    let named = |attribute: &&Value| attribute.get("key").and_then(Value::as_str) == Some(name);
    let value = list.iter().find(named)?.get("value")?;
    value.get("stringValue")?.as_str()
}

/// The program that wrote a record, by the names that only it uses.
fn program(record: &Value) -> Program {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let name = text(record.get("name")).unwrap_or_default();
    let body = text(record.get("body").and_then(|body| body.get("stringValue")));
    let claude = |name: &str| name.starts_with("claude_code.");
    if claude(&name) || body.is_some_and(|body| claude(&body)) {
        return Program::Claude;
    }
    let module = word(record, "code.module.name").or_else(|| word(record, "target"));
    let codex = event_name(record).is_some_and(|name| name.starts_with("codex."))
        || module.is_some_and(|module| module.starts_with("codex_"));
    if codex {
        Program::Codex
    } else {
        Program::Other
    }
}

fn span_type(record: &Value) -> Option<&str> {
    word(record, "span.type")
}

fn slot(key: &str, program: Program) -> Option<Slot> {
    let find = |list: &[(&str, Slot)]| {
        let found = list.iter().find(|(name, _)| *name == key);
        found.map(|(_, slot)| *slot)
    };
    let own = (program == Program::Claude).then(|| find(CLAUDE)).flatten();
    let common = program == Program::Codex || !CODEX_ONLY.contains(&key);
    own.or_else(|| find(SLOTS).filter(|_| common))
}

fn indexed(key: &str) -> Option<(&'static str, &str)> {
    let split = |(prefix, _): &(&'static str, Slot)| Some((*prefix, key.strip_prefix(prefix)?));
    let (prefix, path) = INDEXED.iter().find_map(split)?;
    path.starts_with(|first: char| first.is_ascii_digit())
        .then_some((prefix, path))
}
