//! A scroll as a request of `OpenAI` Chat Completions.
//!
//! ```text
//! {"model":M,"temperature":T,"top_p":P,"seed":S,"max_completion_tokens":N,"tools":[…],
//!  "messages":[MESSAGE,…]}
//! ```
//!
//! `spec/scroll-mappings.md` W6, "To OpenAI Chat Completions", has the table.
//!
//! A request becomes a scroll and then the same request again if these conditions hold:
//!
//! * Contents of one text are strings, and assistant contents without text are `null`.
//! * All calls have ids, and arguments are compact JSON of an object.
//! * `tools` occur once.

use super::super::account::object;
use super::convert::{Picture, json_file, json_text, tools_to_openai};
use super::speech::{Answer, Call, Holds, MessagePart, Speech};
use super::{Provenance, Target};
use threadseal_core::canon::json::{Text, Value};
use threadseal_formats::scroll::Role;

pub(super) const TARGET: Target = Target {
    name: "openai",
    about: "OpenAI Chat Completions: one request that holds the conversation",
    holds: &HOLDS,
    write,
};

const HOLDS: Holds = Holds {
    thinking: false,
    members: false,
    models: false,
    one_model: true,
    figures: false,
    status: false,
    names: true,
    claims: false,
    block,
};

/// Parts of the API's own.
const OWN: [&str; 5] = ["image_url", "input_audio", "file", "refusal", "audio"];

fn block(block: &Value) -> Option<Value> {
    let kind = block
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if OWN.contains(&kind) {
        return Some(block.clone());
    }
    Some(Picture::of(block)?.to_openai())
}

/// No API accepts a member with the verification status.
fn write(speeches: &[Speech], _: &Provenance) -> Vec<u8> {
    let mut members: Vec<(Text, Value)> = Vec::new();
    let mut set = |name: &str, value: Value| members.push((name.into(), value));
    let spoken = speeches
        .iter()
        .rfind(|speech| speech.role == Role::Assistant);
    if let Some(speech) = spoken.or(speeches.last()) {
        let params = &speech.params;
        set("model", speech.model.as_str().into());
        for (name, number) in params.sampling() {
            set(name, number);
        }
        for (name, number) in [
            ("seed", params.seed),
            ("max_completion_tokens", params.max_tokens),
        ] {
            if let Some(number) = number {
                set(name, number.into());
            }
        }
    }
    let tools: Vec<Value> = speeches
        .iter()
        .flat_map(|speech| tools_to_openai(&speech.tools))
        .collect();
    if !tools.is_empty() {
        set("tools", Value::Array(tools));
    }
    set(
        "messages",
        Value::Array(speeches.iter().flat_map(messages).collect()),
    );
    json_file(&Value::Object(members))
}

fn messages(speech: &Speech) -> Vec<Value> {
    let mut all = Vec::new();
    for spoken in &speech.messages {
        let mut made = MessageDraft::default();
        for said in &spoken.said {
            made.add(said);
        }
        let role = match speech.role {
            Role::System if spoken.word == "developer" => "developer",
            Role::Tool => "user",
            role => role.as_str(),
        };
        let is_model = speech.role == Role::Assistant;
        let results = std::mem::take(&mut made.results);
        let message = (is_model || results.is_empty() || !made.is_empty())
            .then(|| made.into_message(role, speech.name.as_deref()));
        if is_model {
            all.extend(message);
            all.extend(results);
        } else {
            all.extend(results);
            all.extend(message);
        }
    }
    all
}

/// A message in the making.
#[derive(Default)]
struct MessageDraft {
    parts: Vec<Value>,
    calls: Vec<Value>,
    results: Vec<Value>,
    /// `refusal` and `audio`.
    own: Vec<(&'static str, Value)>,
}

impl MessageDraft {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.calls.is_empty() && self.own.is_empty()
    }

    fn add(&mut self, said: &MessagePart) {
        match said {
            MessagePart::Text(text, _) => {
                self.parts
                    .push(super::super::draft::text_item(text.as_str()));
            }
            MessagePart::Call(call) => self.calls.push(call_of(call)),
            MessagePart::Result(answer) => self.results.push(result_of(answer)),
            MessagePart::Block(block) => {
                let member = ["refusal", "audio"].into_iter().find_map(|name| {
                    let kind = block.get("type").and_then(Value::as_str)?;
                    Some((name, block.get(name).filter(|_| kind == name)?.clone()))
                });
                match member {
                    Some(member) => self.own.push(member),
                    None => self.parts.push(block.clone()),
                }
            }
            MessagePart::Thinking(..) => {}
        }
    }

    fn into_message(self, role: &str, name: Option<&str>) -> Value {
        let content = match self.parts.as_slice() {
            [] if role == "assistant" => Value::Null,
            [] => "".into(),
            [only] if only.get("type").and_then(Value::as_str) == Some("text") => {
                only.get("text").cloned().unwrap_or(Value::Null)
            }
            _ => Value::Array(self.parts),
        };
        let mut members = vec![("role", role.into()), ("content", content)];
        members.extend(name.map(|name| ("name", name.into())));
        members.extend(self.own);
        if !self.calls.is_empty() {
            members.push(("tool_calls", Value::Array(self.calls)));
        }
        object(members)
    }
}

fn call_of(call: &Call) -> Value {
    let name = ("name", call.name.as_str().into());
    let (kind, body) = match &call.args {
        Some(text @ Value::String(_)) => ("custom", [name, ("input", text.clone())]),
        Some(args) => ("function", [name, ("arguments", json_text(args).into())]),
        None => ("function", [name, ("arguments", "{}".into())]),
    };
    object([
        ("id", call.id.as_str().into()),
        ("type", kind.into()),
        (kind, object(body)),
    ])
}

fn result_of(answer: &Answer) -> Value {
    let is_text = |part: &Value| part.get("type").and_then(Value::as_str) == Some("text");
    let content = match &answer.response {
        None => "".into(),
        Some(text @ Value::String(_)) => text.clone(),
        Some(Value::Array(parts)) if !parts.is_empty() && parts.iter().all(is_text) => {
            Value::Array(parts.clone())
        }
        Some(other) => json_text(other).into(),
    };
    object([
        ("role", "tool".into()),
        ("tool_call_id", answer.id.as_str().into()),
        ("content", content),
    ])
}
