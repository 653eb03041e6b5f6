//! The shapes in which programs hand conversations to tracers.
//!
//! `spec/scroll-mappings.md` C9 has the table of shapes. Other members beside the messages are the
//! rest. Any other value contains no message.

use super::super::chat::held_json;
use super::super::thread::{extend, says_nothing};
use std::collections::HashSet;
use threadseal_core::canon::json::{Text, Value};

/// Messages, and the members beside them.
pub(crate) struct Shape {
    pub(crate) messages: Vec<Placed>,
    pub(crate) rest: Option<Value>,
}

/// A message in the shape that `chat` reads.
pub(crate) struct Placed {
    pub(crate) value: Value,
    /// Its place in the value that contains it.
    pub(crate) pointer: String,
}

const LISTS: [&str; 5] = ["messages", "contents", "choices", "candidates", "output"];
const CLASSES: [(&str, &str); 6] = [
    ("HumanMessage", "user"),
    ("AIMessage", "assistant"),
    ("AIMessageChunk", "assistant"),
    ("ToolMessage", "tool"),
    ("SystemMessage", "system"),
    ("FunctionMessage", "tool"),
];

/// The messages of `value`; one without a role gets `role`.
pub(crate) fn messages(value: &Value, role: &str) -> Option<Shape> {
    let alone = |value: Value| Shape {
        messages: vec![Placed {
            value,
            pointer: String::new(),
        }],
        rest: None,
    };
    match value {
        Value::String(text) => match text.as_str().and_then(held_json) {
            Some(held) => messages(&held, role),
            None => Some(alone(said(role, "content", value.clone()))),
        },
        Value::Array(elements) => {
            let all = listed(elements, role, "");
            match all {
                Some(messages) => Some(Shape {
                    messages,
                    rest: None,
                }),
                None if elements.iter().all(is_block) && !elements.is_empty() => {
                    Some(alone(said(role, "content", value.clone())))
                }
                None if elements.iter().all(is_call) && !elements.is_empty() => {
                    Some(alone(said(role, "tool_calls", value.clone())))
                }
                None => None,
            }
        }
        Value::Object(members) => {
            if let Some(message) = message(value, role) {
                return Some(alone(message));
            }
            if let Some(shape) = prompt(value, members, role) {
                return Some(shape);
            }
            let (name, list) = LISTS
                .iter()
                .find_map(|name| Some((*name, value.get(name)?)))?;
            let messages = match list {
                Value::String(_) => vec![Placed {
                    value: said(role, "content", list.clone()),
                    pointer: format!("/{name}"),
                }],
                _ => listed(list.as_array()?, role, &format!("/{name}"))?,
            };
            let rest = without(members, &[name]);
            Some(Shape {
                messages,
                rest: Some(rest).filter(|rest| !says_nothing(rest)),
            })
        }
        _ => None,
    }
}

/// `{"prompt":P}`, with or without `system`, of the Vercel AI SDK and others.
fn prompt(value: &Value, members: &[(Text, Value)], role: &str) -> Option<Shape> {
    let text = value
        .get("prompt")
        .filter(|prompt| prompt.as_str().is_some())?;
    let system = value
        .get("system")
        .filter(|system| system.as_str().is_some());
    let mut messages = Vec::new();
    for (text, role, pointer) in [(system, "system", "/system"), (Some(text), role, "/prompt")] {
        let text = text.filter(|text| !says_nothing(text));
        messages.extend(text.map(|text| Placed {
            value: said(role, "content", text.clone()),
            pointer: pointer.to_owned(),
        }));
    }
    let rest = without(members, &["prompt", "system"]);
    Some(Shape {
        messages,
        rest: Some(rest).filter(|rest| !says_nothing(rest)),
    })
}

fn listed(elements: &[Value], role: &str, pointer: &str) -> Option<Vec<Placed>> {
    let placed = |(index, element): (usize, &Value)| {
        Some(Placed {
            value: message(element, role)?,
            pointer: format!("{pointer}/{index}"),
        })
    };
    let all: Option<Vec<Placed>> = elements.iter().enumerate().map(placed).collect();
    all.filter(|all| !all.is_empty())
}

/// The message that an object is or wraps.
fn message(value: &Value, role: &str) -> Option<Value> {
    let members = value.as_object()?;
    let word = |name: &str| value.get(name).and_then(Value::as_str);
    if word("type") == Some("constructor") {
        return constructed(value, members);
    }
    if word("role").is_some() && holds(value) {
        return Some(value.clone());
    }
    for name in ["message", "content", "delta"] {
        let inner = value.get(name).filter(|inner| inner.as_object().is_some());
        if let Some(inner) = inner.filter(|inner| holds(inner)) {
            return Some(merged(inner, without(members, &[name]), role));
        }
    }
    match word("type") {
        Some("human" | "ai" | "tool" | "system") if value.get("content").is_some() => {
            Some(value.clone())
        }
        Some("function_call" | "reasoning") => Some(said("assistant", "content", one(value))),
        Some("function_call_output") => Some(said("tool", "content", one(value))),
        Some(_) => None,
        None if value.get("content").is_some_and(is_content) => {
            Some(merged(value, Value::Null, role))
        }
        None => None,
    }
}

/// A message of `LangChain`, as its serialiser writes it.
fn constructed(value: &Value, members: &[(Text, Value)]) -> Option<Value> {
    let kwargs = value.get("kwargs").filter(|kwargs| holds(kwargs))?;
    let class = value.get("id")?.as_array()?.last()?.as_str()?;
    let (_, role) = CLASSES.iter().find(|(name, _)| *name == class)?;
    let mut kept = kwargs.as_object()?.to_vec();
    kept.retain(|(name, _)| name != "type");
    let mut inner = Value::Object(kept);
    extend(&mut inner, "class", value.get("id").cloned());
    Some(merged(
        &inner,
        without(members, &["lc", "type", "id", "kwargs"]),
        role,
    ))
}

/// `inner` with a role, and with the members of `around` that it does not have.
fn merged(inner: &Value, around: Value, role: &str) -> Value {
    let mut members = inner.as_object().unwrap_or_default().to_vec();
    let mut names: HashSet<Text> = members.iter().map(|(name, _)| name.clone()).collect();
    let around = match around {
        Value::Object(around) => around,
        _ => Vec::new(),
    };
    let role = [(Text::from("role"), Value::from(role))];
    let more = role.into_iter().chain(around);
    members.extend(more.filter(|(name, _)| names.insert(name.clone())));
    Value::Object(members)
}

fn said(role: &str, name: &str, content: Value) -> Value {
    let mut message = Value::Object(vec![("role".into(), role.into())]);
    extend(&mut message, name, Some(content));
    message
}

fn one(value: &Value) -> Value {
    Value::Array(vec![value.clone()])
}

fn holds(value: &Value) -> bool {
    ["content", "parts", "tool_calls", "toolCalls"]
        .iter()
        .any(|name| value.get(name).is_some())
}

fn is_content(value: &Value) -> bool {
    let blocks = value
        .as_array()
        .is_some_and(|blocks| blocks.iter().all(is_block));
    value.as_str().is_some() || blocks
}

fn is_block(value: &Value) -> bool {
    const KINDS: [&str; 7] = [
        "text",
        "thinking",
        "tool_use",
        "tool_result",
        "tool-call",
        "tool-result",
        "output_text",
    ];
    let kind = value.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| KINDS.contains(&kind))
        || kind.is_none()
            && value
                .get("text")
                .is_some_and(|text| text.as_str().is_some())
}

fn is_call(value: &Value) -> bool {
    value.get("toolCallId").is_some() && value.get("toolName").is_some()
}

fn without(members: &[(Text, Value)], names: &[&str]) -> Value {
    let kept = members
        .iter()
        .filter(|(name, _)| !names.iter().any(|other| name == *other));
    Value::Object(kept.cloned().collect())
}
