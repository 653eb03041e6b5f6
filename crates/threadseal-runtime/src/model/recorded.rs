//! Values of a model as records contain them, and back.

use super::message::{ChatMessage, ToolCall};

use crate::dynamic::dynamic;
use serde_json::Value;
use threadseal_core::canon::json::{self, Value as Sealed};
use threadseal_core::error::Error;
use threadseal_formats::transcript::messages;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelError;
    use crate::testing::prelude::{assistant, tool_call, tool_result, user};
    use serde_json::json;
    use std::time::Duration;
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
        let call = tool_call("c1", "t", json!({"n": 1.5}));
        let expected = [
            user("do"),
            assistant("yes", vec![call]),
            tool_result("c1", "t", "ok"),
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
            ..ModelError::default()
        };
        let expected = json!({
            "status_code": 429,
            "error": {"type": "rate_limit_error", "message": "too many requests", "code": "slow"},
            "headers": {"retry-after": 1.5},
            "cancelled": false,
        });
        assert_eq!(error.to_value(), expected);
    }
}
