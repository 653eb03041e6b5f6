//! Models: requests of threads, and answers to them.
//!
//! ```text
//! Request {system, messages, tools, max_output_tokens, cancel}
//!    │
//!    ├─ http     a provider over HTTP: Anthropic, OpenAI (both APIs), Gemini, and compatible ones
//!    ├─ script   answers from a file, in order: tests, demonstrations
//!    └─ replay   the answers of a verified transcript
//!    ▼
//! Answer {text, reasoning, calls, usage, model, stop}
//!    or ModelError {status, type, code, message, retry-after}
//! ```
//! A model has no effect but its answer. Errors are distinguished by their facts
//! (`ModelError::to_value`), which the classification of the configuration judges; nothing here
//! retries.

mod catalogue;
mod http;
mod preferring;
mod replay;
mod script;

pub use catalogue::{Catalogue, Chosen, Models, Wish};
pub use http::{Endpoint, HttpModel, Shape};
pub(crate) use preferring::Preferring;
pub use replay::{NamedChild, Recorded, ReplayModel, ReplayedChild};
pub use script::ScriptModel;

use crate::cancel::Cancel;
use crate::config::models::Tokens;
use serde_json::{Value, json};
use std::time::Duration;
use threadseal_core::canon::json::{self, Text, Value as Sealed};
use threadseal_core::error::Error;
use threadseal_formats::transcript::messages;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatMessage {
    /// A message for the model.
    User(String),
    /// An answer of the model.
    Assistant {
        /// Its text.
        text: String,
        /// The tools it called.
        calls: Vec<ToolCall>,
    },
    /// The result of a tool.
    ToolResult {
        /// Which call it answers.
        call_id: String,
        /// The tool's name, which some providers want again.
        tool: String,
        /// The error if there was one, else the output.
        content: String,
    },
}

impl ChatMessage {
    /// Its text.
    pub fn text(&self) -> &str {
        match self {
            Self::User(text) | Self::Assistant { text, .. } => text,
            Self::ToolResult { content, .. } => content,
        }
    }
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Names the call.
    pub id: String,
    /// The tool, by the name the model knows it by.
    pub name: String,
    /// Its arguments.
    pub input: Value,
    /// Data of the provider that must be sent back with this call, opaque to us.
    pub signatures: Vec<String>,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSchema {
    /// Letters, digits, `_` and `-`, which every provider accepts.
    pub name: String,
    /// Its purpose.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// A request to a model.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The system's prompt.
    pub system: Option<&'a str>,
    /// The conversation; its last message is not the assistant's.
    pub messages: &'a [ChatMessage],
    /// Tools that may be called.
    pub tools: &'a [ToolSchema],
    /// Most tokens of the answer.
    pub max_output_tokens: u32,
    /// The caller stops waiting for the answer when this is set.
    pub cancel: &'a Cancel,
}

/// Tokens of one answer, as the provider counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// All tokens of the prompt, those of the provider's cache included.
    pub input_tokens: u64,
    /// Of these, tokens read from the cache.
    pub cached_tokens: u64,
    /// Of these, tokens put into the cache.
    pub cache_write_tokens: u64,
    /// Tokens of the answer, reasoning included.
    pub output_tokens: u64,
    /// The provider gave no counts: these are a guess, a token for each four characters.
    pub estimated: bool,
}

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The model finished.
    Complete,
    /// It waits for the results of its calls.
    ToolCalls,
    /// The limit on output cut it off.
    Truncated,
    /// The provider withheld it.
    Filtered,
}

impl Usage {
    /// A guess, for an answer without counted tokens.
    pub fn estimated(request: &Request<'_>, answer: &str) -> Self {
        let count = |text: &str| text.chars().count() as u64;
        let prompt: u64 = request
            .messages
            .iter()
            .map(|message| count(message.text()))
            .sum();
        Self {
            input_tokens: (prompt + request.system.map_or(0, count)).div_ceil(4),
            output_tokens: count(answer).div_ceil(4),
            estimated: true,
            ..Self::default()
        }
    }

    /// The same, each token counted once.
    pub fn tokens(&self) -> Tokens {
        let cache_read = self.cached_tokens.min(self.input_tokens);
        let cache_write = self.cache_write_tokens.min(self.input_tokens - cache_read);
        Tokens {
            input: self.input_tokens - cache_read - cache_write,
            output: self.output_tokens,
            cache_read,
            cache_write,
        }
    }
}

/// An answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Its text.
    pub text: String,
    /// Its reasoning, where the provider shows it.
    pub reasoning: Option<String>,
    /// The calls that the model asks for.
    pub calls: Vec<ToolCall>,
    /// Its use of tokens.
    pub usage: Usage,
    /// Which model answered, as the provider names it.
    pub model: String,
    /// Why it ends.
    pub stop: Stop,
}

/// Something that answers.
pub trait Model: Send + Sync {
    /// Its name, as records give it.
    fn name(&self) -> &str;

    /// Asks for one answer. `on_text` receives pieces of it as they arrive, for people to watch;
    /// only the answer counts.
    ///
    /// # Errors
    /// The facts of the failure; there is no answer then.
    fn ask(
        &self,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, ModelError>;
}

/// Why there is no answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelError {
    /// The HTTP status; 0 when no response came.
    pub status: u16,
    /// The provider's word for the kind of error, else ours: `TimeoutError`, `ConnectionError`,
    /// `ProtocolError`.
    pub kind: String,
    /// The provider's code.
    pub code: Option<String>,
    /// Its text.
    pub message: String,
    /// How long to wait before another attempt, where the provider gave a time.
    pub retry_after: Option<Duration>,
    /// Is it certain that no other attempt will be answered? A script or a transcript that has no
    /// further answer.
    pub is_final: bool,
}

impl ModelError {
    /// The facts in the shape that patterns of `error_classification.yaml` look at.
    pub fn to_value(&self) -> Value {
        let mut error = json!({"type": self.kind, "message": self.message});
        if let Some(code) = &self.code {
            error["code"] = code.as_str().into();
        }
        let headers = match self.retry_after {
            Some(wait) => json!({"retry-after": wait.as_secs_f64()}),
            None => json!({}),
        };
        json!({"status_code": self.status, "error": error, "headers": headers})
    }
}

/// The conversation of a verified transcript, in the shape that models are asked.
///
/// # Errors
/// Kind `Refused` when a message has a role or a shape that no model takes.
pub fn conversation(messages: &[messages::Message]) -> Result<Vec<ChatMessage>, Error> {
    let mut tools = std::collections::HashMap::new();
    let mut out = Vec::with_capacity(messages.len());
    for message in messages {
        out.push(match message {
            messages::Message::Input { role, content } => match role.as_str() {
                Some("user" | "developer" | "system") => ChatMessage::User(text(content)?),
                _ => {
                    return Err(Error::refused(
                        "the transcript has a message of an unknown role",
                    ));
                }
            },
            messages::Message::Assistant {
                content,
                tool_calls,
            } => {
                let calls: Vec<ToolCall> = tool_calls.iter().map(call).collect::<Result<_, _>>()?;
                tools.extend(
                    calls
                        .iter()
                        .map(|call| (call.id.clone(), call.name.clone())),
                );
                ChatMessage::Assistant {
                    text: text(content)?,
                    calls,
                }
            }
            messages::Message::ToolResult { call_id, content } => {
                let call_id = text(call_id)?;
                ChatMessage::ToolResult {
                    tool: tools.get(&call_id).cloned().unwrap_or_default(),
                    content: text(content)?,
                    call_id,
                }
            }
        });
    }
    Ok(out)
}

fn call(call: &messages::ToolCall) -> Result<ToolCall, Error> {
    Ok(ToolCall {
        id: text(&call.id)?,
        name: text(&call.name)?,
        input: dynamic(&call.input)?,
        signatures: Vec::new(),
    })
}

/// A text unchanged, anything else as JSON.
fn text(value: &Sealed) -> Result<String, Error> {
    Ok(match dynamic(value)? {
        Value::String(text) => text,
        other => other.to_string(),
    })
}

/// A value of the runtime as sealed records hold values.
///
/// # Errors
/// None but for a value that is nested too deeply.
pub(crate) fn sealed(value: &Value) -> Result<Sealed, Error> {
    Ok(json::parse(value.to_string().as_bytes())?)
}

/// A value of a sealed line as the runtime handles values.
///
/// # Errors
/// Kind `Refused` for a value that no text or double can represent: half of a surrogate pair, a
/// number too large.
pub(crate) fn dynamic(value: &Sealed) -> Result<Value, Error> {
    let refuse = |what: &str| {
        Error::refused(format!(
            "the transcript contains {what}, which cannot be sent to a model"
        ))
    };
    let string = |text: &Text| {
        let text = text
            .as_str()
            .ok_or_else(|| refuse("half of a surrogate pair"))?;
        Ok::<_, Error>(text.to_owned())
    };
    Ok(match value {
        Sealed::Null => Value::Null,
        Sealed::Bool(truth) => Value::Bool(*truth),
        Sealed::Number(number) => {
            let whole = number.as_i64().map(serde_json::Number::from);
            let whole = whole.or_else(|| number.as_u64().map(serde_json::Number::from));
            let any = whole.or_else(|| serde_json::Number::from_f64(number.as_f64()));
            Value::Number(any.ok_or_else(|| refuse("a number that is not finite"))?)
        }
        Sealed::String(text) => Value::String(string(text)?),
        Sealed::Array(items) => Value::Array(items.iter().map(dynamic).collect::<Result<_, _>>()?),
        Sealed::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| Ok((string(name)?, dynamic(value)?)));
            Value::Object(members.collect::<Result<_, Error>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::canon::json::parse_python;

    fn message(text: &str) -> Sealed {
        parse_python(text.as_bytes()).unwrap().value
    }

    #[test]
    fn a_conversation_keeps_calls_with_their_results() {
        let lines = [
            r#"{"event_type":"cognition_in","payload":{"text":"do","role":"user"}}"#,
            r#"{"event_type":"cognition_out","payload":{"text":"yes"}}"#,
            r#"{"event_type":"tool_call_start","payload":{"tool":"t","call_id":"c1","input":{"n":1.5}}}"#,
            r#"{"event_type":"tool_call_result","payload":{"call_id":"c1","output":"ok"}}"#,
        ];
        let mut fold = messages::Conversation::danger_new();
        for line in lines {
            fold.push_line(line.as_bytes()).unwrap();
        }
        let found = conversation(&fold.into_messages()).unwrap();
        let call = ToolCall {
            id: "c1".to_owned(),
            name: "t".to_owned(),
            input: json!({"n": 1.5}),
            signatures: Vec::new(),
        };
        let expected = [
            ChatMessage::User("do".to_owned()),
            ChatMessage::Assistant {
                text: "yes".to_owned(),
                calls: vec![call],
            },
            ChatMessage::ToolResult {
                call_id: "c1".to_owned(),
                tool: "t".to_owned(),
                content: "ok".to_owned(),
            },
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_no_model_can_be_given_is_refused() {
        for (value, fine) in [
            (r#"{"a":[1,-2,1.5,true,null,"x"]}"#, true),
            ("18446744073709551615", true),
            ("NaN", false),
            (r#""\ud800""#, false),
            (r#"{"\ud800":1}"#, false),
        ] {
            assert_eq!(dynamic(&message(value)).is_ok(), fine, "{value}");
        }
    }

    #[test]
    fn an_error_shows_its_facts_where_patterns_look() {
        let error = ModelError {
            status: 429,
            kind: "rate_limit_error".to_owned(),
            code: Some("slow".to_owned()),
            message: "too many requests".to_owned(),
            retry_after: Some(Duration::from_millis(1500)),
            is_final: false,
        };
        let expected = json!({
            "status_code": 429,
            "error": {"type": "rate_limit_error", "message": "too many requests", "code": "slow"},
            "headers": {"retry-after": 1.5},
        });
        assert_eq!(error.to_value(), expected);
    }
}
