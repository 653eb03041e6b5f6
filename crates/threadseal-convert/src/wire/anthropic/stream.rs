//! Assembles a streamed message.
//!
//! ```text
//! message_start{message}
//! (content_block_start{index,content_block} content_block_delta{index,delta}* content_block_stop)*
//! message_delta{delta,usage} message_stop;  ping and error anywhere
//! ```
//!
//! | delta | goes to |
//! |---|---|
//! | `text_delta`, `thinking_delta` | the end of `text`, `thinking` |
//! | `input_json_delta` | the end of a text; it becomes `input` if it is JSON, else a string |
//! | `signature_delta` | `signature`, replaced |
//! | `citations_delta` | the end of `citations` |
//! | any other | members of the block, the last counts |

use super::super::super::account::Reason;
use super::super::stream::{Object, StreamAccount, into_elements, into_members};
use std::collections::BTreeMap;
use threadseal_core::canon::json::{Value, parse};

const INPUT: &str = "input";
const PIECES: &str = "\u{0}input";

pub(super) fn is_event(value: &Value) -> bool {
    let kind = value
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match kind {
        "message_start" => value.get("message").is_some(),
        "content_block_start" | "content_block_delta" => value.get("index").is_some(),
        "message_delta" => value.get("delta").is_some(),
        _ => false,
    }
}

pub(super) fn assemble(events: Vec<Value>, told: &mut StreamAccount<'_>) -> Value {
    let mut message = Object::default();
    let mut usage = Object::default();
    let mut blocks: BTreeMap<u64, Object> = BTreeMap::new();
    for event in events {
        let mut event = Object::of(event);
        let index = event
            .get("index")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        let kind = event
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        match kind.as_str() {
            "message_start" => {
                let mut start = Object::of(event.take("message"));
                usage.update(into_members(start.take("usage")), told);
                for (place, block) in (0..).zip(into_elements(start.take("content"))) {
                    blocks.insert(place, Object::of(block));
                }
                message = start;
            }
            "content_block_start" => {
                blocks.insert(index, Object::of(event.take("content_block")));
            }
            "content_block_delta" => {
                let delta = Object::of(event.take("delta"));
                add(blocks.entry(index).or_default(), delta, told);
            }
            "message_delta" => {
                message.update(into_members(event.take("delta")), told);
                // Counts of a message grow; the last counts are those of the whole.
                for (name, value) in into_members(event.take("usage")) {
                    if !value.is_null() {
                        usage.set(name.as_str().unwrap_or("\u{fffd}"), value);
                    }
                }
            }
            "content_block_stop" | "message_stop" | "ping" => {}
            other => told.drop_member(other, Reason::Unknown),
        }
    }
    message.set("type", "message".into());
    let blocks = blocks.into_values().map(finish);
    message.set("content", Value::Array(blocks.collect()));
    let usage = usage.into_value();
    if usage.as_object().is_some_and(|usage| !usage.is_empty()) {
        message.set("usage", usage);
    }
    message.into_value()
}

fn add(block: &mut Object, mut delta: Object, told: &mut StreamAccount<'_>) {
    let kind = delta
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    match kind.as_str() {
        "text_delta" => block.append("text", &delta.take("text")),
        "thinking_delta" => block.append("thinking", &delta.take("thinking")),
        "input_json_delta" => block.append(PIECES, &delta.take("partial_json")),
        "signature_delta" => block.set("signature", delta.take("signature")),
        "citations_delta" => {
            let mut citations = into_elements(block.take("citations"));
            citations.push(delta.take("citation"));
            block.set("citations", Value::Array(citations));
        }
        _ => {
            let mut members = into_members(delta.into_value());
            members.retain(|(name, _)| *name != *"type");
            block.update(members, told);
        }
    }
}

fn finish(block: Object) -> Value {
    let mut members = into_members(block.into_value());
    let Some(place) = members.iter().position(|(name, _)| *name == *PIECES) else {
        return Value::Object(members);
    };
    let (_, pieces) = members.remove(place);
    let text = pieces.as_str().unwrap_or_default();
    if !text.is_empty() {
        let input = parse(text.as_bytes()).unwrap_or_else(|_| text.into());
        match members.iter_mut().find(|(name, _)| *name == *INPUT) {
            Some((_, value)) => *value = input,
            None => members.push((INPUT.into(), input)),
        }
    }
    Value::Object(members)
}
