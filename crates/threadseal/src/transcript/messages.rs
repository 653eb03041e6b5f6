//! The conversation in a transcript's events, as a resumed thread takes it up (seed 001,
//! `reconstruct_messages`).
//!
//! | event | message |
//! |---|---|
//! | `cognition_in`, role not `tool` | `{"role", "content"}` |
//! | `cognition_out` | `{"role":"assistant", "content"[, "tool_calls"]}` |
//! | `tool_call_start` | `{"name", "id", "input"}` in the `tool_calls` of the answer before it |
//! | `tool_call_result` | `{"role":"tool", "tool_call_id", "content"}`: the error, else the output |
//!
//! A `cognition_in` of role `tool` says again what the results said, and is left out; a tool call
//! that no answer precedes belongs to nobody, and is left out; every other event is no message.
//!
//! Not here: which bytes may be taken up (`verify`, `rye`); feed only what they vouch for.

use crate::canon::json::Value;

/// Gathers messages from events in their order.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    messages: Vec<Value>,
    /// The answer that tool calls belong to, and the calls so far.
    answer: Option<(usize, Vec<Value>)>,
}

impl Conversation {
    /// No messages yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event.
    pub fn event(&mut self, event_type: &str, payload: &Value) {
        let member = |name: &str| payload.get(name).cloned().unwrap_or_else(|| "".into());
        match event_type {
            "cognition_in" => {
                self.close_answer();
                let role = payload
                    .get("role")
                    .cloned()
                    .unwrap_or_else(|| "user".into());
                if role.as_str() != Some("tool") {
                    self.push([("role", role), ("content", member("text"))]);
                }
            }
            "cognition_out" => {
                self.close_answer();
                self.answer = Some((self.messages.len(), Vec::new()));
                self.push([("role", "assistant".into()), ("content", member("text"))]);
            }
            "tool_call_start" => {
                if let Some((_, calls)) = &mut self.answer {
                    let empty = || Value::Object(Vec::new());
                    let input = payload.get("input").cloned().unwrap_or_else(empty);
                    calls.push(object([
                        ("name", member("tool")),
                        ("id", member("call_id")),
                        ("input", input),
                    ]));
                }
            }
            "tool_call_result" => {
                let error = payload.get("error").filter(|error| says_something(error));
                let content = error.cloned().unwrap_or_else(|| member("output"));
                self.push([
                    ("role", "tool".into()),
                    ("tool_call_id", member("call_id")),
                    ("content", content),
                ]);
            }
            _ => {}
        }
    }

    /// All messages.
    pub fn into_messages(mut self) -> Vec<Value> {
        self.close_answer();
        self.messages
    }

    fn push<const N: usize>(&mut self, members: [(&str, Value); N]) {
        self.messages.push(object(members));
    }

    /// Calls may come after results; only now is known which ones the answer made.
    fn close_answer(&mut self) {
        let Some((at, calls)) = self.answer.take() else {
            return;
        };
        if let (Some(Value::Object(members)), false) = (self.messages.get_mut(at), calls.is_empty())
        {
            members.push(("tool_calls".into(), Value::Array(calls)));
        }
    }
}

/// What Python takes for true: Rye writes an empty error beside a result that succeeded.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != 0.0,
        Value::String(_) => value.as_str() != Some(""),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.map(|(name, value)| (name.into(), value)).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canon::json::parse;
    use crate::canon::python::rye;

    fn messages(events: &[(&str, &str)]) -> Vec<String> {
        let mut conversation = Conversation::new();
        for (event_type, payload) in events {
            conversation.event(event_type, &parse(payload.as_bytes()).unwrap());
        }
        let text = |message: &Value| String::from_utf8(rye(message)).unwrap();
        conversation.into_messages().iter().map(text).collect()
    }

    #[test]
    fn tool_calls_belong_to_the_answer_before_them_until_somebody_speaks_again() {
        let seen = messages(&[
            ("tool_call_start", r#"{"tool":"nobody","call_id":"0"}"#),
            ("cognition_in", r#"{"text":"q","role":"user"}"#),
            ("cognition_out", r#"{"text":"a"}"#),
            (
                "tool_call_start",
                r#"{"tool":"t","call_id":"1","input":{"p":1.50}}"#,
            ),
            (
                "tool_call_result",
                r#"{"call_id":"1","output":"r","error":""}"#,
            ),
            ("tool_call_start", r#"{"tool":"u","call_id":"2"}"#),
            (
                "tool_call_result",
                r#"{"call_id":"2","output":"","error":"no"}"#,
            ),
            ("cognition_in", r#"{"text":"r","role":"tool"}"#),
            ("tool_call_start", r#"{"tool":"late","call_id":"3"}"#),
            ("checkpoint", "{}"),
        ]);
        let expected = [
            r#"{"content":"q","role":"user"}"#,
            r#"{"content":"a","role":"assistant","tool_calls":[{"id":"1","input":{"p":1.5},"name":"t"},{"id":"2","input":{},"name":"u"}]}"#,
            r#"{"content":"r","role":"tool","tool_call_id":"1"}"#,
            r#"{"content":"no","role":"tool","tool_call_id":"2"}"#,
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn an_answer_without_calls_has_no_list_of_them() {
        let seen = messages(&[("cognition_out", r#"{"text":"a"}"#)]);
        assert_eq!(seen, [r#"{"content":"a","role":"assistant"}"#]);
    }
}
