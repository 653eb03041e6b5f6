//! A turn of a session of another program, in the words of `show --json` and of pages.

use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeSet;
use threadseal_convert::{self as convert, Draft};
use threadseal_core::canon::json::Value;
use threadseal_core::canon::python::rye_line;
use threadseal_core::time::Timestamp;

/// A turn, as `show` and pages print it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// Its number, from 0.
    pub turn: u64,
    /// Who speaks.
    pub role: Cow<'static, str>,
    /// When, to the second.
    pub time: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The readable items.
    pub texts: Vec<TextItem>,
    /// The calls that it makes.
    pub calls: Vec<Call>,
    /// The answers that it has.
    pub results: Vec<Answer>,
}

/// A readable item of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextItem {
    /// The word for the item, `text` for plain text.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text.
    pub text: String,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments' JSON text.
    pub args: String,
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The id of the call.
    pub id: String,
    /// Did the tool succeed?
    pub ok: bool,
    /// The text.
    pub text: String,
}

impl Turn {
    /// Turn `turn` of a session.
    pub fn of(turn: u64, draft: &Draft) -> Self {
        let call = |call: &threadseal_convert::ToolCall| Call {
            id: call.id.clone(),
            name: call.name.clone(),
            args: call.args.as_ref().map_or_else(String::new, text_of),
        };
        let answer = |result: &threadseal_convert::ToolResult| Answer {
            id: result.id.clone(),
            ok: result.ok,
            text: result.response.as_ref().map_or_else(String::new, text_of),
        };
        Self {
            turn,
            role: draft.role.as_str().into(),
            time: time_of(draft),
            model: draft.model.id.clone(),
            texts: texts(draft),
            calls: draft.tool_calls.iter().map(call).collect(),
            results: draft.tool_results.iter().map(answer).collect(),
        }
    }
}

/// The readable items of the messages of a turn.
pub fn texts(draft: &Draft) -> Vec<TextItem> {
    let mut texts = Vec::new();
    let messages = draft.messages.iter();
    for message in messages.filter(|message| message.role != "source") {
        add_texts(&mut texts, &message.content);
    }
    texts
}

/// Adds the readable items of one message.
pub(crate) fn add_texts(texts: &mut Vec<TextItem>, content: &Value) {
    let Some(items) = content.as_array() else {
        texts.push(TextItem {
            kind: "text".to_owned(),
            text: text_of(content),
        });
        return;
    };
    for item in items {
        let member = |name: &str| item.get(name).and_then(Value::as_str);
        let kind = member("type").unwrap_or("text");
        let text = match kind {
            "tool_call" | "tool_result" => continue,
            "text" => member("text").unwrap_or_default().to_owned(),
            "thinking" => member("thinking").unwrap_or_default().to_owned(),
            _ => text_of(item),
        };
        texts.push(TextItem {
            kind: kind.to_owned(),
            text,
        });
    }
}

/// A value as text: a string as it is, anything else as JSON.
pub fn text_of(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(&rye_line(value)).into_owned(),
    }
}

/// The moment of a turn, to the second.
pub fn time_of(draft: &Draft) -> Option<String> {
    let time = Timestamp::from_micros(draft.timestamp_ns? / 1000).ok()?;
    Some(time.to_iso_seconds())
}

/// The facts of a turn that are no content: the item of its `source` message.
pub fn source_of(draft: &Draft) -> Option<&Value> {
    let mut messages = draft.messages.iter();
    let source = messages.find(|message| message.role == "source")?;
    source.content.as_array()?.first()
}

/// The numbers of the lines, from 1, that a turn was made of.
pub fn lines_of(draft: &Draft) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    let messages = draft.messages.iter();
    for message in messages.filter(|message| message.role == "source") {
        for item in message.content.as_array().unwrap_or_default() {
            let lines = item.get("lines").and_then(Value::as_array);
            let lines = lines.unwrap_or_default().iter();
            numbers.extend(lines.filter_map(Value::as_u64));
        }
    }
    numbers.remove(&0);
    numbers
}

/// In [`turns_of_lines`]: a line that is in no turn.
pub const NO_TURN: u32 = u32::MAX;

/// The turn of each line, from line 1: one numbering for `show`, proofs, plain text and pages. Empty where no mapping
/// reads the log; then a line is the place.
pub fn turns_of_lines(bytes: &[u8]) -> Vec<u32> {
    let mapped = convert::detect(bytes).and_then(|format| format.map(bytes).ok());
    let mut turns = Vec::new();
    let Some(mapped) = mapped else {
        return turns;
    };
    // A line has one byte at least: a number beyond that names no line.
    let most = bytes.len() as u64;
    for (turn, draft) in (0..NO_TURN).zip(mapped.drafts.iter()) {
        for line in lines_of(&draft) {
            let index = usize::try_from(line - 1).unwrap_or(usize::MAX);
            if line > most {
                continue;
            }
            if turns.len() <= index {
                turns.resize(index + 1, NO_TURN);
            }
            // A line that began a turn keeps it.
            if let Some(place) = turns.get_mut(index).filter(|place| **place == NO_TURN) {
                *place = turn;
            }
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_message_are_one_turn_and_a_result_is_the_next() {
        let line = |kind: &str, role: &str, content: &str| {
            format!(
                r#"{{"type":"{kind}","uuid":"{role}","sessionId":"s","version":"2.0.0","message":{{"role":"{kind}","id":"m","content":{content}}}}}"#
            )
        };
        let log = [
            r#"{"type":"queue-operation","operation":"enqueue","sessionId":"s"}"#.to_owned(),
            line("user", "a", r#""List the files""#),
            line("assistant", "b", r#"[{"type":"text","text":"I list"}]"#),
            line(
                "assistant",
                "c",
                r#"[{"type":"tool_use","id":"t","name":"Bash","input":{}}]"#,
            ),
            line(
                "user",
                "d",
                r#"[{"type":"tool_result","tool_use_id":"t","content":"a"}]"#,
            ),
        ]
        .join("\n");
        assert_eq!(turns_of_lines(log.as_bytes()), [NO_TURN, 0, 1, 1, 2]);
        assert!(turns_of_lines(b"plain\n").is_empty());
    }
}
