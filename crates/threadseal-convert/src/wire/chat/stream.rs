//! Assembles a streamed completion.
//!
//! ```text
//! {"id","object":"chat.completion.chunk","created","model","choices":[{"index":I,"delta":DELTA,
//!  "finish_reason":R}]} …   a last chunk may hold `usage` and no choice
//! DELTA   {"role","content","refusal","reasoning_content","reasoning","reasoning_details",
//!          "tool_calls":[{"index":J,"id","type","function":{"name","arguments"}}],"function_call"}
//! ```
//! Texts and arguments are appended. `reasoning_details` are appended too, with text going to the
//! last one of the same `index`. Of every other member the last counts.

use super::super::super::account::Reason;
use super::super::stream::{Object, StreamAccount, into_elements, into_members};
use std::collections::BTreeMap;
use threadseal_core::canon::json::{Text, Value};

const TEXTS: [&str; 4] = ["content", "refusal", "reasoning_content", "reasoning"];

pub(super) fn is_chunk(value: &Value) -> bool {
    let choices = value.get("choices").and_then(Value::as_array);
    let has_delta = |choice: &Value| choice.get("delta").is_some();
    choices.is_some_and(|choices| {
        choices.iter().any(has_delta) || (choices.is_empty() && value.get("usage").is_some())
    })
}

pub(super) fn assemble(chunks: Vec<Value>, told: &mut StreamAccount<'_>) -> Value {
    let mut body = Object::default();
    let mut choices: BTreeMap<u64, Choice> = BTreeMap::new();
    for chunk in chunks {
        let mut chunk = Object::of(chunk);
        for choice in into_elements(chunk.take("choices")) {
            let mut choice = Object::of(choice);
            let index = choice
                .get("index")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            let whole = choices.entry(index).or_default();
            whole.add(into_members(choice.take("delta")), told);
            let rest = without(choice, &["delta"]);
            whole.rest.update(rest, told);
        }
        body.update(without(chunk, &["choices", "object"]), told);
    }
    let choices = choices.into_values().map(Choice::finish);
    body.set("choices", Value::Array(choices.collect()));
    body.into_value()
}

fn without(object: Object, names: &[&str]) -> Vec<(Text, Value)> {
    let mut members = into_members(object.into_value());
    members.retain(|(name, _)| names.iter().all(|known| *name != **known));
    members
}

#[derive(Default)]
struct Choice {
    message: Object,
    calls: BTreeMap<u64, Call>,
    function_call: Option<Object>,
    /// Reasoning details by their `index`.
    details: BTreeMap<u64, Object>,
    rest: Object,
}

#[derive(Default)]
struct Call {
    body: Object,
    function: Object,
}

impl Choice {
    fn add(&mut self, delta: Vec<(Text, Value)>, told: &mut StreamAccount<'_>) {
        let mut others = Vec::new();
        for (name, value) in delta {
            match name.as_str() {
                Some(text) if TEXTS.contains(&text) && value.as_str().is_some() => {
                    self.message.append(text, &value);
                }
                Some("tool_calls") => {
                    for call in into_elements(value) {
                        self.call(Object::of(call), told);
                    }
                }
                Some("function_call") => {
                    let whole = self.function_call.get_or_insert_default();
                    append_function(whole, Object::of(value), told);
                }
                Some("reasoning_details") => {
                    for detail in into_elements(value) {
                        self.detail(Object::of(detail), told);
                    }
                }
                _ => others.push((name, value)),
            }
        }
        self.message.update(others, told);
    }

    fn call(&mut self, mut call: Object, told: &mut StreamAccount<'_>) {
        let next = u64::try_from(self.calls.len()).unwrap_or(u64::MAX);
        let index = call.get("index").and_then(Value::as_u64).unwrap_or(next);
        let whole = self.calls.entry(index).or_default();
        append_function(&mut whole.function, Object::of(call.take("function")), told);
        whole
            .body
            .update(without(call, &["index", "function"]), told);
    }

    fn detail(&mut self, mut detail: Object, told: &mut StreamAccount<'_>) {
        let next = u64::try_from(self.details.len()).unwrap_or(u64::MAX);
        let index = detail.get("index").and_then(Value::as_u64).unwrap_or(next);
        let whole = self.details.entry(index).or_default();
        for name in ["text", "summary", "data"] {
            let piece = detail.take(name);
            if piece.as_str().is_some() {
                whole.append(name, &piece);
            }
        }
        whole.update(without(detail, &["text", "summary", "data"]), told);
    }

    fn finish(mut self) -> Value {
        if !self.calls.is_empty() {
            let calls = self.calls.into_values().map(|mut call| {
                let function = call.function.into_value();
                if function
                    .as_object()
                    .is_some_and(|members| !members.is_empty())
                {
                    call.body.set("function", function);
                }
                call.body.into_value()
            });
            self.message
                .set("tool_calls", Value::Array(calls.collect()));
        }
        if let Some(call) = self.function_call {
            self.message.set("function_call", call.into_value());
        }
        if !self.details.is_empty() {
            let details = self.details.into_values().map(Object::into_value);
            self.message
                .set("reasoning_details", Value::Array(details.collect()));
        }
        self.rest.set("message", self.message.into_value());
        self.rest.into_value()
    }
}

/// Appends arguments and a name. Later pieces of a name are usually empty.
fn append_function(whole: &mut Object, mut piece: Object, told: &mut StreamAccount<'_>) {
    for name in ["name", "arguments"] {
        let text = piece.take(name);
        if text.as_str().is_some() {
            whole.append(name, &text);
        } else if !text.is_null() {
            told.drop_member(name, Reason::Unknown);
        }
    }
    whole.update(without(piece, &["name", "arguments"]), told);
}
