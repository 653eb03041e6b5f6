//! Events of a span and the body of a log record: messages by their name, or facts.
//!
//! ```text
//! gen_ai.system.message, .user.message, .tool.message, gen_ai.content.prompt   input of the model
//! gen_ai.choice, gen_ai.assistant.message, gen_ai.content.completion           its output
//! any other event or body                                                      a fact of the span
//! ```

use super::super::chat::held_json;
use super::super::draft::Source;
use super::super::source::Node;
use super::super::thread::{says_nothing, unique};
use super::super::trace::{Kind, Part, Span};
use super::attributes::{names, plain, plain_list};
use threadseal_core::canon::json::{Text, Value};

/// Events of a span: messages, and others.
pub(super) fn events<'r, 'a>(node: Node<'r, 'a>, span: &mut Span<'r, 'a>, facts: &mut Source) {
    let mut others = Vec::new();
    let list = node.get("events").and_then(Node::items);
    for (index, event) in list.into_iter().flatten().enumerate() {
        let name = event.peek_str("name").unwrap_or_default();
        if !is_message_event(name) || event.peek().get("attributes").is_none() {
            others.push(event.take());
            continue;
        }
        let attributes = event
            .peek()
            .get("attributes")
            .map(|list| plain_list(list.as_array().unwrap_or_default()));
        let value = message_of(name, &attributes.unwrap_or(Value::Null));
        let value = event.take_held(&value);
        span.kind = Kind::Model;
        place(
            name,
            span,
            Part {
                value,
                nodes: vec![(0, event)],
                pointer: Some(format!("/events/{index}")),
                role: role_of(name),
            },
        );
    }
    if !others.is_empty() {
        facts.set("events", Value::Array(others));
    }
}

/// The body of a log record.
pub(super) fn body<'r, 'a>(node: Node<'r, 'a>, span: &mut Span<'r, 'a>, facts: &mut Source) {
    let Some(body) = node.get("body").filter(|body| !says_nothing(body.peek())) else {
        return;
    };
    let name = names(node.peek()).find(|name| is_message_event(name));
    let plain = plain(body.peek());
    match name {
        Some(name) => {
            let value = body.take_held(&message_of(name, &plain));
            span.kind = Kind::Model;
            place(
                name,
                span,
                Part {
                    value,
                    nodes: vec![(0, body)],
                    pointer: Some("/body".to_owned()),
                    role: role_of(name),
                },
            );
        }
        None => facts.set("body", body.take_held(&plain)),
    }
}

fn place<'r, 'a>(name: &str, span: &mut Span<'r, 'a>, part: Part<'r, 'a>) {
    if role_of(name) == "assistant" && name != "gen_ai.assistant.message" {
        span.outputs.push(part);
    } else {
        span.inputs.push(part);
    }
}

pub(super) fn is_message_event(name: &str) -> bool {
    let word = name.strip_prefix("gen_ai.");
    word.is_some_and(|word| {
        word == "choice" || word.ends_with(".message") || word.starts_with("content.")
    })
}

fn role_of(name: &str) -> &'static str {
    match name {
        "gen_ai.system.message" => "system",
        "gen_ai.tool.message" => "tool",
        "gen_ai.choice" | "gen_ai.assistant.message" | "gen_ai.content.completion" => "assistant",
        _ => "user",
    }
}

/// The message of an event: its attributes or its body, with JSON strings opened.
fn message_of(name: &str, value: &Value) -> Value {
    let Some(members) = value.as_object() else {
        return value.clone();
    };
    let content = ["gen_ai.prompt", "gen_ai.completion", "gen_ai.event.content"];
    if let [(key, inner)] = members
        && content.iter().any(|name| key == *name)
    {
        let held = inner.as_str().and_then(held_json);
        return held.unwrap_or_else(|| inner.clone());
    }
    let opened = |(key, value): &(Text, Value)| {
        let open = ["message", "tool_calls", "content"]
            .iter()
            .any(|name| key == *name);
        let held = value.as_str().filter(|_| open).and_then(held_json);
        let key = if key == "id" && name == "gen_ai.tool.message" {
            "tool_call_id".into()
        } else {
            key.clone()
        };
        (key, held.unwrap_or_else(|| value.clone()))
    };
    let mut members: Vec<_> = members.iter().map(opened).collect();
    if !members
        .iter()
        .any(|(key, _)| key == "role" || key == "message")
    {
        members.push(("role".into(), role_of(name).into()));
    }
    unique(members)
}
