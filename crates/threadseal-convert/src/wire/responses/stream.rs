//! Assembles a streamed response.
//!
//! ```text
//! response.created{response} … response.output_item.added{output_index,item}
//! response.output_text.delta{output_index,content_index,delta} …
//! response.output_item.done{output_index,item} … response.completed{response}
//! ```
//! The last event with a `response` counts. If its `output` is empty, the items of
//! `output_item.done` are the output. An unfinished item consists of `added` and its deltas. Deltas
//! of a finished item repeat it.

use super::super::super::account::{Reason, object};
use super::super::stream::{Object, StreamAccount, into_elements, into_members};
use std::collections::BTreeMap;
use threadseal_core::canon::json::Value;

pub(super) fn is_event(value: &Value) -> bool {
    let kind = value
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    kind.starts_with("response.")
}

pub(super) fn assemble(events: Vec<Value>, told: &mut StreamAccount<'_>) -> Value {
    let mut response = Object::default();
    let mut items: BTreeMap<u64, Item> = BTreeMap::new();
    for event in events {
        let mut event = Object::of(event);
        let index = event.get("output_index").and_then(Value::as_u64);
        let item = || index.unwrap_or_default();
        let kind = event
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let body = event.take("response");
        if body.as_object().is_some() {
            response = Object::of(body);
            continue;
        }
        match kind.as_str() {
            "response.output_item.added" => {
                items.entry(item()).or_default().begun = Object::of(event.take("item"));
            }
            "response.output_item.done" => {
                items.entry(item()).or_default().done = Some(event.take("item"));
            }
            _ if kind.ends_with(".delta") => items.entry(item()).or_default().delta(&kind, event),
            _ if index.is_some() => {}
            "response.queued" | "keepalive" => {}
            other => told.drop_member(other, Reason::Unknown),
        }
    }
    let output = into_elements(response.take("output"));
    let output = match output.is_empty() {
        true => items.into_values().map(Item::finish).collect(),
        false => output,
    };
    response.set("output", Value::Array(output));
    response.set("object", "response".into());
    response.into_value()
}

#[derive(Default)]
struct Item {
    begun: Object,
    done: Option<Value>,
    /// The content of the deltas, by its member.
    said: Object,
}

impl Item {
    fn delta(&mut self, kind: &str, mut event: Object) {
        let place = match kind {
            "response.output_text.delta" => "text",
            "response.refusal.delta" => "refusal",
            "response.function_call_arguments.delta" | "response.mcp_call_arguments.delta" => {
                "arguments"
            }
            "response.custom_tool_call_input.delta" => "input",
            "response.code_interpreter_call_code.delta" => "code",
            "response.reasoning_summary_text.delta" => "summary",
            _ => "reasoning",
        };
        self.said.append(place, &event.take("delta"));
    }

    fn finish(mut self) -> Value {
        if let Some(done) = self.done {
            return done;
        }
        let part = |kind: &str, name: &str, text: Value| {
            Value::Array(vec![object([("type", kind.into()), (name, text)])])
        };
        for (name, text) in into_members(self.said.into_value()) {
            match name.as_str().unwrap_or_default() {
                "text" => self.begun.set("content", part("output_text", "text", text)),
                "refusal" => self.begun.set("content", part("refusal", "refusal", text)),
                "summary" => self
                    .begun
                    .set("summary", part("summary_text", "text", text)),
                "reasoning" => self
                    .begun
                    .set("content", part("reasoning_text", "text", text)),
                other => self.begun.set(other, text),
            }
        }
        self.begun.into_value()
    }
}
