//! A scroll as a request of Anthropic Messages.
//!
//! ```text
//! {"model":M,"max_tokens":N,"temperature":T,"top_p":P,"system":S,"tools":[…],
//!  "messages":[{"role":R,"content":C},…]}
//! ```
//!
//! `spec/scroll-mappings.md` W6, "To Anthropic Messages", has the table.
//!
//! A request becomes a scroll and then the same request again if two conditions hold. Its messages
//! have role `user` and `assistant`, and it has `system` and `tools` once.

use super::super::account::object;
use super::convert::{Picture, args_object, json_file, json_text, tools_to_anthropic};
use super::speech::{Answer, Call, Holds, MessagePart, Speech, Spoken};
use super::{Provenance, Target};
use threadseal_core::canon::json::{Text, Value};
use threadseal_formats::scroll::Role;

pub(super) const TARGET: Target = Target {
    name: "anthropic",
    about: "Anthropic Messages: one request that holds the conversation",
    holds: &HOLDS,
    write,
};

const HOLDS: Holds = Holds {
    thinking: true,
    members: true,
    models: false,
    one_model: true,
    figures: false,
    status: true,
    names: false,
    claims: false,
    block,
};

/// Blocks of the API's own, other than those of tools.
const OWN: [&str; 5] = [
    "image",
    "document",
    "search_result",
    "redacted_thinking",
    "container_upload",
];

fn block(block: &Value) -> Option<Value> {
    let kind = block
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if OWN.contains(&kind) {
        return Some(block.clone());
    }
    Some(Picture::of(block)?.to_anthropic())
}

/// No API accepts a member with the verification status.
fn write(speeches: &[Speech], _: &Provenance) -> Vec<u8> {
    let mut members: Vec<(Text, Value)> = Vec::new();
    let mut set = |name: &str, value: Value| members.push((name.into(), value));
    let spoken = speeches
        .iter()
        .rfind(|speech| speech.role == Role::Assistant);
    if let Some(speech) = spoken.or(speeches.last()) {
        set("model", speech.model.as_str().into());
        if let Some(most) = speech.params.max_tokens {
            set("max_tokens", most.into());
        }
        for (name, number) in speech.params.sampling() {
            set(name, number);
        }
    }
    let first = speeches
        .iter()
        .position(|speech| speech.role != Role::System);
    let (leading, rest) = speeches.split_at(first.unwrap_or(speeches.len()));
    if let Some(system) = system(leading) {
        set("system", system);
    }
    let tools: Vec<Value> = speeches
        .iter()
        .flat_map(|speech| tools_to_anthropic(&speech.tools))
        .collect();
    if !tools.is_empty() {
        set("tools", Value::Array(tools));
    }
    let messages = rest.iter().flat_map(|speech| {
        let role = match speech.role {
            Role::Assistant => "assistant",
            Role::System => "system",
            Role::User | Role::Tool => "user",
        };
        let message =
            move |spoken: &Spoken| object([("role", role.into()), ("content", content(spoken))]);
        speech.messages.iter().map(message)
    });
    set("messages", Value::Array(messages.collect()));
    json_file(&Value::Object(members))
}

fn system(leading: &[Speech]) -> Option<Value> {
    let spoken: Vec<_> = leading.iter().flat_map(|speech| &speech.messages).collect();
    match spoken.as_slice() {
        [] => None,
        [only] => Some(content(only)),
        several => Some(Value::Array(
            several.iter().flat_map(|spoken| blocks(spoken)).collect(),
        )),
    }
}

fn content(spoken: &Spoken) -> Value {
    match spoken.said.as_slice() {
        [MessagePart::Text(text, _)] if spoken.plain => text.as_str().into(),
        _ => Value::Array(blocks(spoken)),
    }
}

fn blocks(spoken: &Spoken) -> Vec<Value> {
    let block = |said: &MessagePart| match said {
        MessagePart::Text(_, item) | MessagePart::Thinking(_, item) | MessagePart::Block(item) => {
            item.clone()
        }
        MessagePart::Call(call) => call_block(call),
        MessagePart::Result(answer) => result_block(answer),
    };
    spoken.said.iter().map(block).collect()
}

fn call_block(call: &Call) -> Value {
    call.block.clone().unwrap_or_else(|| {
        object([
            ("type", "tool_use".into()),
            ("id", call.id.as_str().into()),
            ("name", call.name.as_str().into()),
            ("input", args_object(call.args.as_ref())),
        ])
    })
}

fn result_block(answer: &Answer) -> Value {
    if let Some(block) = &answer.block {
        return block.clone();
    }
    let is_block = |part: &Value| {
        matches!(
            part.get("type").and_then(Value::as_str),
            Some("text" | "image" | "document")
        )
    };
    let content = match &answer.response {
        None => "".into(),
        Some(text @ Value::String(_)) => text.clone(),
        Some(Value::Array(parts)) if parts.iter().all(is_block) => Value::Array(parts.clone()),
        Some(other) => json_text(other).into(),
    };
    let mut members = vec![
        ("type", "tool_result".into()),
        ("tool_use_id", answer.id.as_str().into()),
        ("content", content),
    ];
    if !answer.ok {
        members.push(("is_error", true.into()));
    }
    object(members)
}
