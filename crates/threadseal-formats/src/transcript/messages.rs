//! The conversation that a transcript recorded, in the form in which a model receives it again.
//!
//! ```text
//! cognition_in, role not "tool"    {"role": role, "content": text}
//! cognition_in, role "tool"        nothing: the results have messages of their own
//! cognition_out                    {"role": "assistant", "content": text, "tool_calls": […]?}
//! tool_call_start                  {"name": tool, "id": call_id, "input": input} of the last
//!                                  cognition_out, until the next cognition_in or cognition_out
//! tool_call_result                 {"role": "tool", "tool_call_id": call_id, "content": error
//!                                  or output}
//! anything else, checkpoints too   nothing
//! ```
//! The rules are those of Rye's `Transcript.reconstruct_messages` (`transcript.py`), for native
//! transcripts as well. Values pass through as they are, of whatever type. A resumed model acts on
//! the result, so it is made from verified lines only. The names of all other ways begin with
//! `danger_…`.
//!
//! Unlike in Rye, lines end at LF only, and lines without a seal are left out.

use crate::transcript::lines::VerifiedLines;
use threadseal_core::canon::json::{self, Value};
use threadseal_core::error::Error;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The model's input.
    Input {
        /// `user`, `system`, …
        role: Value,
        /// The text.
        content: Value,
    },
    /// The model's output.
    Assistant {
        /// The text.
        content: Value,
        /// The tools it called, in order.
        tool_calls: Vec<ToolCall>,
    },
    /// A tool's answer.
    ToolResult {
        /// The call that it answers.
        call_id: Value,
        /// The error if there was one, else the output.
        content: Value,
    },
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool.
    pub name: Value,
    /// The id of the call.
    pub id: Value,
    /// Its arguments.
    pub input: Value,
}

impl Message {
    /// The message as Rye's runner holds it, members in its order.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Input { role, content } => {
                object([("role", role.clone()), ("content", content.clone())])
            }
            Self::Assistant {
                content,
                tool_calls,
            } if tool_calls.is_empty() => {
                object([("role", "assistant".into()), ("content", content.clone())])
            }
            Self::Assistant {
                content,
                tool_calls,
            } => object([
                ("role", "assistant".into()),
                ("content", content.clone()),
                (
                    "tool_calls",
                    Value::Array(tool_calls.iter().map(ToolCall::to_value).collect()),
                ),
            ]),
            Self::ToolResult { call_id, content } => object([
                ("role", "tool".into()),
                ("tool_call_id", call_id.clone()),
                ("content", content.clone()),
            ]),
        }
    }
}

impl ToolCall {
    fn to_value(&self) -> Value {
        object([
            ("name", self.name.clone()),
            ("id", self.id.clone()),
            ("input", self.input.clone()),
        ])
    }
}

/// The conversation of a verified transcript.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::Refused`] when a line is not an event.
pub fn reconstruct(lines: &VerifiedLines<'_>) -> Result<Vec<Message>, Error> {
    let mut fold = Conversation::danger_new();
    for line in lines.iter() {
        fold.push_line(&line.bytes)?;
    }
    Ok(fold.into_messages())
}

/// The rules, line by line or event by event. The trust in the result depends on the trust in the
/// input.
pub struct Conversation {
    messages: Vec<Message>,
    /// The assistant's message that further calls belong to.
    open: Option<usize>,
    lines: u64,
}

impl Conversation {
    /// For lines that were not verified: no thread may ever be resumed from the result.
    pub fn danger_new() -> Self {
        Self {
            messages: Vec::new(),
            open: None,
            lines: 0,
        }
    }

    /// Takes the next line, without its LF. Blank lines are skipped.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] when it is not a JSON object with an object
    /// payload.
    pub fn push_line(&mut self, line: &[u8]) -> Result<(), Error> {
        self.lines += 1;
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let refuse = || {
            Error::refused(format!(
                "line {} is not an event; hint: verify the transcript",
                self.lines
            ))
        };
        let event = json::parse_python(line).map_err(|_| refuse())?.value;
        if event.as_object().is_none() {
            return Err(refuse());
        }
        let nothing = Value::Object(Vec::new());
        let payload = event.get("payload").unwrap_or(&nothing);
        if payload.as_object().is_none() {
            return Err(refuse());
        }
        if let Some(event_type) = event.get("event_type").and_then(Value::as_str) {
            self.event(event_type, payload);
        }
        Ok(())
    }

    /// Takes the next event.
    pub fn event(&mut self, event_type: &str, payload: &Value) {
        let text = |name: &str| payload.get(name).cloned().unwrap_or_else(|| "".into());
        match event_type {
            "cognition_in" => {
                self.open = None;
                let role = payload
                    .get("role")
                    .cloned()
                    .unwrap_or_else(|| "user".into());
                if role.as_str() != Some("tool") {
                    self.messages.push(Message::Input {
                        role,
                        content: text("text"),
                    });
                }
            }
            "cognition_out" => {
                self.open = Some(self.messages.len());
                let content = text("text");
                self.messages.push(Message::Assistant {
                    content,
                    tool_calls: Vec::new(),
                });
            }
            "tool_call_start" => {
                let open = self.open.and_then(|at| self.messages.get_mut(at));
                if let Some(Message::Assistant { tool_calls, .. }) = open {
                    let input = payload.get("input").cloned();
                    tool_calls.push(ToolCall {
                        name: text("tool"),
                        id: text("call_id"),
                        input: input.unwrap_or_else(|| Value::Object(Vec::new())),
                    });
                }
            }
            "tool_call_result" => {
                let error = payload.get("error").filter(|error| is_truthy(error));
                self.messages.push(Message::ToolResult {
                    call_id: text("call_id"),
                    content: error.cloned().unwrap_or_else(|| text("output")),
                });
            }
            _ => {}
        }
    }

    /// All messages.
    pub fn into_messages(self) -> Vec<Message> {
        self.messages
    }
}

/// `bool(value)` in Python.
pub(crate) fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != 0.0,
        Value::String(text) => !text.as_bytes().is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.map(|(name, value)| (name.into(), value)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::canon::python::rye_line;

    fn messages(lines: &[&str]) -> Vec<String> {
        let mut fold = Conversation::danger_new();
        for line in lines {
            fold.push_line(line.as_bytes()).unwrap();
        }
        let values = fold
            .into_messages()
            .into_iter()
            .map(|message| rye_line(&message.to_value()));
        values
            .map(|line| String::from_utf8(line).unwrap())
            .collect()
    }

    fn event(event_type: &str, payload: &str) -> String {
        format!(r#"{{"event_type": "{event_type}", "payload": {payload}}}"#)
    }

    fn of(events: &[(&str, &str)]) -> Vec<String> {
        let lines: Vec<String> = events
            .iter()
            .map(|(kind, payload)| event(kind, payload))
            .collect();
        messages(&lines.iter().map(String::as_str).collect::<Vec<_>>())
    }

    #[test]
    fn calls_belong_to_the_answer_before_them_until_the_next_turn() {
        let got = of(&[
            ("tool_call_start", r#"{"tool": "early"}"#),
            ("cognition_in", r#"{"text": "hi", "role": "user"}"#),
            ("cognition_out", r#"{"text": "a"}"#),
            (
                "tool_call_start",
                r#"{"tool": "x", "call_id": "1", "input": {"p": 1e-7}}"#,
            ),
            ("tool_call_result", r#"{"call_id": "1", "output": "o"}"#),
            ("checkpoint", r#"{"turn": 1}"#),
            ("tool_call_start", r#"{"tool": "y", "call_id": "2"}"#),
            (
                "tool_call_result",
                r#"{"call_id": "2", "output": "o", "error": "no"}"#,
            ),
            ("cognition_in", r#"{"text": "results", "role": "tool"}"#),
            ("tool_call_start", r#"{"tool": "late"}"#),
        ]);
        assert_eq!(
            got,
            [
                r#"{"role": "user", "content": "hi"}"#,
                concat!(
                    r#"{"role": "assistant", "content": "a", "tool_calls": [{"name": "x", "id": "1", "#,
                    r#""input": {"p": 1e-07}}, {"name": "y", "id": "2", "input": {}}]}"#
                ),
                r#"{"role": "tool", "tool_call_id": "1", "content": "o"}"#,
                r#"{"role": "tool", "tool_call_id": "2", "content": "no"}"#,
            ]
        );
    }

    #[test]
    fn what_is_missing_or_of_another_type_passes_as_python_passes_it() {
        let got = of(&[
            ("cognition_in", "{}"),
            ("cognition_in", r#"{"role": null, "text": [1]}"#),
            ("cognition_out", r#"{"text": null}"#),
            ("tool_call_result", r#"{"error": 0.0, "output": {"a": 1}}"#),
            ("tool_call_result", r#"{"error": [], "call_id": 7}"#),
        ]);
        assert_eq!(
            got,
            [
                r#"{"role": "user", "content": ""}"#,
                r#"{"role": null, "content": [1]}"#,
                r#"{"role": "assistant", "content": null}"#,
                r#"{"role": "tool", "tool_call_id": "", "content": {"a": 1}}"#,
                r#"{"role": "tool", "tool_call_id": 7, "content": ""}"#,
            ]
        );
        assert!(messages(&["", " ", "{}", r#"{"event_type": 5}"#]).is_empty());
    }

    #[test]
    fn a_line_that_is_no_event_is_refused_by_number() {
        for bad in [
            "{",
            "[]",
            "5",
            r#"{"event_type": "x", "payload": 5}"#,
            "{}\u{2028}{}",
        ] {
            let mut fold = Conversation::danger_new();
            fold.push_line(b"{}").unwrap();
            let error = fold.push_line(bad.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("line 2 "), "{bad} {error}");
        }
    }
}
