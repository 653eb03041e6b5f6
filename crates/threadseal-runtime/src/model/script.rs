//! A model whose answers are in a file, one after the other: for tests and demonstrations, without
//! a network.
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
//! Several conversations, by any number of threads and processes at once:
//!
//! ```text
//! conversations:
//!   - when: "Count the words"  # a part of the first message
//!     answers: […]             # the n-th of them follows n-1 answers of any source
//! ```
//! An answer is cut off at the longest that the request permits, unless it has `obeys: false`. An
//! `error` with `began: true` comes in the middle of an answer.
//! An answer without `usage` counts a token for each four characters. A request after the last
//! answer is an error that gives the number of answers.

use super::{Answer, ChatMessage, Model, ModelError, Request, Stop, ToolCall, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use threadseal_core::error::Error;

/// Answers from a file.
#[derive(Debug)]
pub struct ScriptModel {
    name: String,
    count: usize,
    left: Mutex<VecDeque<Line>>,
    conversations: Vec<Conversation>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    answers: Option<Vec<Line>>,
    #[serde(default)]
    conversations: Vec<Conversation>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Conversation {
    when: String,
    answers: Vec<Line>,
}

#[derive(Debug, Clone, Deserialize)]
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
    #[serde(default = "obeys")]
    obeys: bool,
    when: Option<String>,
    #[serde(default)]
    delay_ms: u64,
    error: Option<Failure>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    #[serde(default)]
    input: Value,
    id: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tokens {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    #[serde(default)]
    status: u16,
    #[serde(rename = "type", default)]
    kind: String,
    code: Option<String>,
    message: String,
    retry_after: Option<f64>,
    #[serde(default)]
    began: bool,
}

fn obeys() -> bool {
    true
}

impl ScriptModel {
    /// Reads a script (YAML, which includes JSON). `name` is the model's name in records.
    ///
    /// # Errors
    /// Kind `InvalidInput` with the place when it is none.
    pub fn parse(name: &str, script: &str) -> Result<Self, Error> {
        let script: Script = serde_saphyr::from_str(script)
            .map_err(|error| Error::invalid(format!("{name}: not a valid script: {error}")))?;
        let one = script.answers.is_some();
        if one != script.conversations.is_empty() {
            let text = format!("{name}: a script must have either `answers` or `conversations`");
            return Err(Error::invalid(text));
        }
        let answers = script.answers.unwrap_or_default();
        Ok(Self {
            name: name.to_owned(),
            count: answers.len(),
            left: Mutex::new(answers.into()),
            conversations: script.conversations,
        })
    }

    fn next(&self, request: &Request<'_>) -> Result<(Line, usize), ModelError> {
        if self.conversations.is_empty() {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            let number = self.count - left.len() + 1;
            let line = left.pop_front().ok_or_else(|| silent(number))?;
            return Ok((line, number));
        }
        let answered = |message: &&ChatMessage| matches!(message, ChatMessage::Assistant { .. });
        let number = request.messages.iter().filter(answered).count() + 1;
        let first = request.messages.first().map_or("", ChatMessage::text);
        let conversation = self
            .conversations
            .iter()
            .find(|conversation| first.contains(&conversation.when));
        let line = conversation.and_then(|found| found.answers.get(number - 1));
        Ok((line.cloned().ok_or_else(|| silent(number))?, number))
    }
}

fn silent(number: usize) -> ModelError {
    failed(format!("the script has no answer {number}"))
}

fn failed(message: String) -> ModelError {
    ModelError {
        kind: "ScriptError".to_owned(),
        message,
        is_final: true,
        ..ModelError::default()
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
        let (line, number) = self.next(request)?;
        if let Some(expected) = &line.when
            && !request
                .messages
                .last()
                .is_some_and(|last| last.text().contains(expected.as_str()))
        {
            let message = format!(
                "answer {number} is for {expected:?}, which the last message does not contain"
            );
            return Err(failed(message));
        }
        if request.cancel.within(Duration::from_millis(line.delay_ms)) {
            return Err(failed("cancelled".to_owned()));
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
                began: error.began,
                ..ModelError::default()
            });
        }
        let mut answer = self.answer(&line, number, request);
        if line.obeys {
            cut(&mut answer, request.max_output_tokens);
        }
        if !answer.text.is_empty() {
            on_text(&answer.text);
        }
        Ok(answer)
    }
}

/// Cuts an answer off at its longest, as providers do.
fn cut(answer: &mut Answer, most: u32) {
    if answer.usage.output_tokens <= u64::from(most) {
        return;
    }
    answer.usage.output_tokens = most.into();
    answer.text = answer.text.chars().take(most as usize * 4).collect();
    answer.calls.clear();
    answer.stop = Stop::Truncated;
}

impl ScriptModel {
    fn answer(&self, line: &Line, number: usize, request: &Request<'_>) -> Answer {
        let usage = match &line.usage {
            Some(tokens) => Usage {
                input_tokens: tokens.input_tokens,
                output_tokens: tokens.output_tokens,
                ..Usage::default()
            },
            // A count that the file omits is zero, not unknown.
            None => Usage {
                estimated: false,
                ..Usage::estimated(request, &line.text)
            },
        };
        let calls: Vec<ToolCall> = (1..)
            .zip(line.calls.clone())
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
            text: line.text.clone(),
            reasoning: line.reasoning.clone(),
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
    use crate::testing::prelude::{Text as _, ask, assistant, user};
    use serde_json::json;

    #[test]
    fn answers_come_in_order_and_then_the_script_is_silent() {
        let script = "answers:\n- text: Looking.\n  calls: [{tool: read, input: {path: a}}]\n  \
                      usage: {input_tokens: 7, output_tokens: 2}\n- error: {status: 529, message: busy}\n\
                      - {when: key, text: Done.}\n";
        let model = ScriptModel::parse("script", script).unwrap();
        let ask = |text: &str| ask(&model, &[user(text)]);
        let first = ask("go").unwrap();
        assert_eq!((first.stop, first.usage.input_tokens), (Stop::ToolCalls, 7));
        let call = &first.calls[0];
        assert_eq!(
            (&*call.id, &call.input),
            ("call_1_1", &json!({"path": "a"}))
        );
        assert_eq!(ask("go").unwrap_err().status, 529);
        let last = ask("the key is fixed").unwrap();
        assert_eq!((last.stop, &*last.text), (Stop::Complete, "Done."));
        let over = ask("go").unwrap_err();
        assert_eq!(over.message, "the script has no answer 4");
    }

    #[test]
    fn conversations_are_answered_by_how_far_they_have_come_whoever_asks() {
        let script = "conversations:\n- {when: cats, answers: [{text: one}, {text: two}]}\n\
                      - {when: dogs, answers: [{text: woof}]}\n";
        for _ in 0..2 {
            let model = ScriptModel::parse("s", script).unwrap();
            let answer = |first: &str, again: bool| {
                let messages = [user(first), assistant("one", Vec::new()), user("on")];
                let messages = &messages[..if again { 3 } else { 1 }];
                ask(&model, messages).ok().map(|answer| answer.text)
            };
            assert_eq!(answer("of cats", false).as_deref(), Some("one"));
            assert_eq!(answer("of cats", true).as_deref(), Some("two"));
            assert_eq!(answer("of dogs", false).as_deref(), Some("woof"));
            assert_eq!(answer("of dogs", true), None);
            assert_eq!(answer("of birds", false), None);
        }
    }

    #[test]
    fn an_answer_for_something_else_is_an_error() {
        let model = ScriptModel::parse("s", "answers: [{when: key, text: Done.}]").unwrap();
        ask(&model, &[user("go")])
            .unwrap_err()
            .message
            .has("\"key\"");
    }

    #[test]
    fn a_script_with_a_word_that_means_nothing_is_refused() {
        for script in [
            "answers: [{txt: a}]",
            "[]",
            "answers: 3",
            "",
            "{answers: [], conversations: [{when: a, answers: []}]}",
        ] {
            assert!(ScriptModel::parse("s", script).is_err(), "{script:?}");
        }
    }
}
