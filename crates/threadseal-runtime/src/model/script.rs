//! A model whose answers are in a file, one after the other: for tests and demonstrations, without a network.
//!
//! ```text
//! # answers.yaml
//! answers:
//!   - text: Let me look.
//!     calls: [{tool: read_file, input: {path: notes.md}}]
//!     usage: {input_tokens: 120, output_tokens: 15}
//!   - error: {status: 529, type: overloaded_error, message: try later}
//!   - when: "API key"          # only if the last message holds this text; else the thread fails
//!     text: Done.
//! ```
//! An answer without `usage` counts a token for each four characters. After the last answer the script is
//! silent, which is an error: it says how many there were.

use super::{Answer, Model, ModelError, Request, Stop, ToolCall, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use threadseal::error::Error;

/// Answers from a file.
#[derive(Debug)]
pub struct ScriptModel {
    name: String,
    count: usize,
    left: Mutex<VecDeque<Line>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    answers: Vec<Line>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    text: String,
    reasoning: Option<String>,
    #[serde(default)]
    calls: Vec<Call>,
    usage: Option<Tokens>,
    #[serde(default)]
    truncated: bool,
    when: Option<String>,
    #[serde(default)]
    delay_ms: u64,
    error: Option<Failure>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    #[serde(default)]
    input: Value,
    id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tokens {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    #[serde(default)]
    status: u16,
    #[serde(rename = "type", default)]
    kind: String,
    code: Option<String>,
    message: String,
    retry_after: Option<f64>,
}

impl ScriptModel {
    /// Reads a script (YAML, of which JSON is a part). `name` is what records call the model.
    ///
    /// # Errors
    /// Kind `InvalidInput` with the place when it is none.
    pub fn parse(name: &str, script: &str) -> Result<Self, Error> {
        let script: Script = serde_saphyr::from_str(script)
            .map_err(|error| Error::invalid(format!("{name}: this is no script: {error}")))?;
        Ok(Self {
            name: name.to_owned(),
            count: script.answers.len(),
            left: Mutex::new(script.answers.into()),
        })
    }
}

impl Model for ScriptModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(
        &self,
        request: &Request<'_>,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<Answer, ModelError> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.count - left.len() + 1;
        let fail = |message: String| ModelError {
            kind: "ScriptError".to_owned(),
            message,
            ..ModelError::default()
        };
        let Some(line) = left.pop_front() else {
            return Err(fail(format!("the script has no answer {number}")));
        };
        drop(left);
        if let Some(expected) = &line.when
            && !request
                .messages
                .last()
                .is_some_and(|last| last.text().contains(expected.as_str()))
        {
            let message = format!("answer {number} is for {expected:?}, which was not said");
            return Err(fail(message));
        }
        if request.cancel.within(Duration::from_millis(line.delay_ms)) {
            return Err(fail("cancelled".to_owned()));
        }
        if let Some(error) = line.error {
            return Err(ModelError {
                status: error.status,
                kind: error.kind,
                code: error.code,
                message: error.message,
                retry_after: error
                    .retry_after
                    .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            });
        }
        if !line.text.is_empty() {
            on_text(&line.text);
        }
        Ok(self.answer(line, number, request))
    }
}

impl ScriptModel {
    fn answer(&self, line: Line, number: usize, request: &Request<'_>) -> Answer {
        let usage = match line.usage {
            Some(tokens) => Usage {
                input_tokens: tokens.input_tokens,
                cached_tokens: 0,
                cache_write_tokens: 0,
                output_tokens: tokens.output_tokens,
                estimated: false,
            },
            // What the file leaves out is so, not unknown.
            None => Usage {
                estimated: false,
                ..Usage::estimated(request, &line.text)
            },
        };
        let calls: Vec<ToolCall> = (1..)
            .zip(line.calls)
            .map(|(place, call)| ToolCall {
                id: call.id.unwrap_or_else(|| format!("call_{number}_{place}")),
                name: call.tool,
                input: if call.input.is_null() {
                    Value::Object(serde_json::Map::new())
                } else {
                    call.input
                },
                signatures: Vec::new(),
            })
            .collect();
        let stop = match (line.truncated, calls.is_empty()) {
            (true, _) => Stop::Truncated,
            (false, true) => Stop::Complete,
            (false, false) => Stop::ToolCalls,
        };
        Answer {
            text: line.text,
            reasoning: line.reasoning,
            calls,
            usage,
            model: self.name.clone(),
            stop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::Cancel;
    use crate::model::ChatMessage;
    use serde_json::json;

    fn ask(model: &ScriptModel, said: &str) -> Result<Answer, ModelError> {
        let messages = [ChatMessage::User(said.to_owned())];
        let request = Request {
            system: None,
            messages: &messages,
            tools: &[],
            max_output_tokens: 100,
            cancel: &Cancel::default(),
        };
        model.ask(&request, &mut |_| {})
    }

    #[test]
    fn answers_come_in_order_and_then_the_script_is_silent() {
        let script = "answers:\n- text: Looking.\n  calls: [{tool: read, input: {path: a}}]\n  \
                      usage: {input_tokens: 7, output_tokens: 2}\n- error: {status: 529, message: busy}\n\
                      - {when: key, text: Done.}\n";
        let model = ScriptModel::parse("script", script).unwrap();
        let first = ask(&model, "go").unwrap();
        assert_eq!((first.stop, first.usage.input_tokens), (Stop::ToolCalls, 7));
        assert_eq!(
            (first.calls[0].id.as_str(), &first.calls[0].input),
            ("call_1_1", &json!({"path": "a"}))
        );
        assert_eq!(ask(&model, "go").unwrap_err().status, 529);
        let last = ask(&model, "the key is fixed").unwrap();
        assert_eq!((last.stop, last.text.as_str()), (Stop::Complete, "Done."));
        assert_eq!(
            ask(&model, "go").unwrap_err().message,
            "the script has no answer 4"
        );
    }

    #[test]
    fn an_answer_for_something_else_is_an_error() {
        let model = ScriptModel::parse("s", "answers: [{when: key, text: Done.}]").unwrap();
        assert!(ask(&model, "go").unwrap_err().message.contains("\"key\""));
    }

    #[test]
    fn a_script_with_a_word_that_means_nothing_is_refused() {
        for script in ["answers: [{txt: a}]", "[]", "answers: 3", ""] {
            assert!(ScriptModel::parse("s", script).is_err(), "{script:?}");
        }
    }
}
