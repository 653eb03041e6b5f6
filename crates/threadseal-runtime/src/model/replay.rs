//! A model that says again what it said in a verified transcript.
//!
//! ```text
//! cognition_out {text}  tool_call_start {tool, call_id, input} …    one answer
//! ```
//! Its tokens are those that the transcript counted (`cognition_out.usage`), else none. Asked once more than it
//! answered then, it is silent, which is an error.

use super::{
    Answer, ChatMessage, Model, ModelError, Request, Stop, ToolCall, Usage, conversation, dynamic,
};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use threadseal::canon::json;
use threadseal::error::Error;
use threadseal::transcript::lines::VerifiedLines;
use threadseal::transcript::messages;

/// Answers from a transcript.
#[derive(Debug)]
pub struct ReplayModel {
    name: String,
    left: Mutex<VecDeque<Answer>>,
}

impl ReplayModel {
    /// The answers of a verified transcript. `name` is what records call the model.
    ///
    /// # Errors
    /// Kind `Refused` when a line is no event, or holds what no model can have said.
    pub fn new(name: &str, lines: &VerifiedLines<'_>) -> Result<Self, Error> {
        let said = conversation(&messages::reconstruct(lines)?)?;
        let mut usages = usages(lines)?.into_iter();
        let answers = said.into_iter().filter_map(|message| match message {
            ChatMessage::Assistant { text, calls } => Some((text, calls)),
            _ => None,
        });
        let answers = answers.map(|(text, calls)| answer(name, text, calls, usages.next()));
        Ok(Self {
            name: name.to_owned(),
            left: Mutex::new(answers.collect()),
        })
    }
}

fn answer(name: &str, text: String, calls: Vec<ToolCall>, usage: Option<Usage>) -> Answer {
    let stop = if calls.is_empty() {
        Stop::Complete
    } else {
        Stop::ToolCalls
    };
    Answer {
        text,
        reasoning: None,
        calls,
        usage: usage.unwrap_or_default(),
        model: name.to_owned(),
        stop,
    }
}

/// What each answer cost then.
fn usages(lines: &VerifiedLines<'_>) -> Result<Vec<Usage>, Error> {
    let mut found = Vec::new();
    for line in lines
        .iter()
        .filter(|line| !line.bytes.trim_ascii().is_empty())
    {
        let event = json::parse_python(line.bytes)?.value;
        if event.get("event_type").and_then(json::Value::as_str) != Some("cognition_out") {
            continue;
        }
        let usage = event
            .get("payload")
            .and_then(|payload| payload.get("usage"));
        let usage = usage.map(dynamic).transpose()?.unwrap_or_default();
        let count = |name: &str| usage[name].as_u64().unwrap_or(0);
        found.push(Usage {
            input_tokens: count("input_tokens"),
            cached_tokens: count("cached_tokens"),
            cache_write_tokens: count("cache_write_tokens"),
            output_tokens: count("output_tokens"),
            estimated: usage["usage_unknown"].as_bool().unwrap_or(false),
        });
    }
    Ok(found)
}

impl Model for ReplayModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&self, _: &Request<'_>, on_text: &mut dyn FnMut(&str)) -> Result<Answer, ModelError> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(answer) = left.pop_front() else {
            return Err(ModelError {
                kind: "ReplayError".to_owned(),
                message: "the transcript that is replayed has no further answer".to_owned(),
                is_final: true,
                ..ModelError::default()
            });
        };
        on_text(&answer.text);
        Ok(answer)
    }
}
