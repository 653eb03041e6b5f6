//! A model that repeats the answers of a verified transcript.
//!
//! ```text
//! cognition_out {text}  tool_call_start {tool, call_id, input} …    one answer
//! child_thread_started {child_thread_id, child_directive, child_record}
//!                                           a child, which answers from its own transcript
//! ```
//! Its tokens are those that the transcript counted (`cognition_out.usage`), else none. A request
//! beyond the last recorded answer is an error. Children may begin in another order than before:
//! directive and inputs identify a new child.

use super::{
    Answer, ChatMessage, Model, ModelError, Request, Stop, ToolCall, Usage, conversation, dynamic,
};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use threadseal_core::canon::json;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, ThreadId};
use threadseal_formats::transcript::lines::VerifiedLines;
use threadseal_formats::transcript::manifest::parse_line;
use threadseal_formats::transcript::messages;

const NAME: &str = "replay";

/// Answers from the transcript of a thread, and of its children.
#[derive(Debug, Clone)]
pub struct ReplayModel(Arc<Source>);

#[derive(Debug)]
enum Source {
    /// A thread that is replayed.
    Read {
        left: Mutex<VecDeque<Answer>>,
        children: Mutex<Vec<ReplayedChild>>,
    },
    /// One of its children: the first request determines which.
    Child {
        parent: ReplayModel,
        directive: String,
        inputs: Map<String, Value>,
        found: OnceLock<Option<ReplayModel>>,
    },
}

/// A child of a thread that is replayed.
#[derive(Debug)]
pub struct ReplayedChild {
    /// The directive that it runs.
    pub directive: String,
    /// Its inputs, by its line 1.
    pub inputs: Map<String, Value>,
    /// Its answers.
    pub model: ReplayModel,
}

/// The parts of a verified transcript for a replay.
#[derive(Debug)]
pub struct Recorded {
    answers: Vec<Answer>,
    /// The thread of the transcript.
    pub thread: String,
    /// Its inputs.
    pub inputs: Map<String, Value>,
    /// The id of the record; None for a transcript of Rye.
    pub record: Option<RecordId>,
    /// The seal of its parent that line 1 names.
    pub parent: Option<Head>,
    /// The seal that line 1 names of the thread before it.
    pub predecessor: Option<Head>,
    /// The children that it names, in order.
    pub children: Vec<NamedChild>,
    /// With which seals children ended, by the last thread of each.
    pub ended: BTreeMap<String, String>,
    /// The thread that it handed itself over to.
    pub successor: Option<ThreadId>,
}

/// A child, as the transcript of its parent names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedChild {
    /// Which thread.
    pub thread: ThreadId,
    /// Its record.
    pub record: RecordId,
    /// The directive that it runs.
    pub directive: String,
}

impl Recorded {
    /// Reads a verified transcript.
    ///
    /// # Errors
    /// Kind `Refused` when a line is no event, or contains an answer that no model can have given.
    pub fn read(lines: &VerifiedLines<'_>) -> Result<Self, Error> {
        let said = conversation(&messages::reconstruct(lines)?)?;
        let mut usages = usages(lines)?.into_iter();
        let answers = said.into_iter().filter_map(|message| match message {
            ChatMessage::Assistant { text, calls } => Some((text, calls)),
            _ => None,
        });
        let answers = answers.map(|(text, calls)| answer(NAME, text, calls, usages.next()));
        let mut read = Self {
            answers: answers.collect(),
            thread: String::new(),
            inputs: Map::new(),
            record: None,
            parent: None,
            predecessor: None,
            children: Vec::new(),
            ended: BTreeMap::new(),
            successor: None,
        };
        let first = lines
            .iter()
            .next()
            .map_or_else(Default::default, |line| line.bytes);
        let thread = json::parse_python(&first)?.value;
        if let Some(thread) = thread.get("thread_id").and_then(json::Value::as_str) {
            thread.clone_into(&mut read.thread);
        }
        if let Some(manifest) = parse_line(&first) {
            read.record = Some(manifest.record);
            (read.parent, read.predecessor) = (manifest.parent, manifest.predecessor);
            if let Value::Object(inputs) = dynamic(&manifest.meta)?["inputs"].take() {
                read.inputs = inputs;
            }
        }
        for line in lines
            .iter()
            .filter(|line| !line.bytes.trim_ascii().is_empty())
        {
            read.note(&line.bytes)?;
        }
        Ok(read)
    }

    fn note(&mut self, line: &[u8]) -> Result<(), Error> {
        let event = json::parse_python(line)?.value;
        let payload = event.get("payload");
        let text = |name: &str| {
            let member = payload.and_then(|payload| payload.get(name));
            member.and_then(json::Value::as_str).unwrap_or_default()
        };
        match event.get("event_type").and_then(json::Value::as_str) {
            Some("child_thread_started") => {
                let record = RecordId::parse_hex(text("child_record"));
                self.children.push(NamedChild {
                    thread: ThreadId::parse(text("child_thread_id"))?,
                    record: record
                        .ok_or_else(|| Error::refused("a child is named without its record"))?,
                    directive: text("child_directive").to_owned(),
                });
            }
            Some("child_thread_ended") => {
                let (thread, head) = (text("child_thread_id"), text("head"));
                self.ended.insert(thread.to_owned(), head.to_owned());
            }
            Some("thread_continued") if !text("new_thread_id").is_empty() => {
                self.successor = Some(ThreadId::parse(text("new_thread_id"))?);
            }
            _ => {}
        }
        Ok(())
    }
}

impl ReplayModel {
    /// The answers of a thread, across all its handoffs, and of its children.
    pub fn new(thread: Vec<Recorded>, children: Vec<ReplayedChild>) -> Self {
        let answers = thread.into_iter().flat_map(|part| part.answers);
        Self(Arc::new(Source::Read {
            left: Mutex::new(answers.collect()),
            children: Mutex::new(children),
        }))
    }

    /// The model of a child that the thread starts now.
    #[must_use]
    pub fn child(&self, directive: &str, inputs: &Map<String, Value>) -> Self {
        Self(Arc::new(Source::Child {
            parent: self.clone(),
            directive: directive.to_owned(),
            inputs: inputs.clone(),
            found: OnceLock::new(),
        }))
    }

    /// The transcript that it answers from; each child of a thread once.
    fn found(&self) -> Option<&Self> {
        match &*self.0 {
            Source::Read { .. } => Some(self),
            Source::Child {
                parent,
                directive,
                inputs,
                found,
            } => {
                let find = || parent.found()?.take(directive, inputs);
                found.get_or_init(find).as_ref()
            }
        }
    }

    /// The child that ran this with these inputs, else the first that ran it.
    fn take(&self, directive: &str, inputs: &Map<String, Value>) -> Option<Self> {
        let Source::Read { children, .. } = &*self.0 else {
            return None;
        };
        let mut children = children.lock().unwrap_or_else(PoisonError::into_inner);
        let same =
            |child: &&ReplayedChild| inputs.iter().all(|(name, given)| child.was(name, given));
        let runs = |child: &ReplayedChild| child.directive == directive;
        let exactly = children
            .iter()
            .position(|child| runs(child) && same(&child));
        let place = exactly.or_else(|| children.iter().position(runs))?;
        Some(children.remove(place).model)
    }
}

impl ReplayedChild {
    /// Was it given this? A text that spells a value of the declared type became that value.
    fn was(&self, name: &str, given: &Value) -> bool {
        let known = self.inputs.get(name).unwrap_or(&Value::Null);
        known == given
            || given
                .as_str()
                .is_some_and(|text| serde_json::from_str(text).ok().as_ref() == Some(known))
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

/// The recorded use of each answer.
fn usages(lines: &VerifiedLines<'_>) -> Result<Vec<Usage>, Error> {
    let mut found = Vec::new();
    for line in lines
        .iter()
        .filter(|line| !line.bytes.trim_ascii().is_empty())
    {
        let event = json::parse_python(&line.bytes)?.value;
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
            reasoning_tokens: count("reasoning_tokens"),
            estimated: usage["usage_unknown"].as_bool().unwrap_or(false),
        });
    }
    Ok(found)
}

impl Model for ReplayModel {
    fn name(&self) -> &str {
        NAME
    }

    fn ask(&self, _: &Request<'_>, on_text: &mut dyn FnMut(&str)) -> Result<Answer, ModelError> {
        let Some(Source::Read { left, .. }) = self.found().map(|found| &*found.0) else {
            return Err(silent(
                "the thread that is replayed started no further child of this kind",
            ));
        };
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = left
            .pop_front()
            .ok_or_else(|| silent("the transcript that is replayed has no further answer"))?;
        on_text(&answer.text);
        Ok(answer)
    }
}

fn silent(why: &str) -> ModelError {
    ModelError {
        kind: "ReplayError".to_owned(),
        message: why.to_owned(),
        is_final: true,
        ..ModelError::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prelude::Text as _;
    use serde_json::json;

    fn part(texts: &[&str]) -> Recorded {
        let answers = texts
            .iter()
            .map(|text| answer(NAME, (*text).to_owned(), Vec::new(), None));
        Recorded {
            answers: answers.collect(),
            thread: String::new(),
            inputs: Map::new(),
            record: None,
            parent: None,
            predecessor: None,
            children: Vec::new(),
            ended: BTreeMap::new(),
            successor: None,
        }
    }

    fn members(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    fn child(
        directive: &str,
        inputs: &Value,
        texts: &[&str],
        below: Vec<ReplayedChild>,
    ) -> ReplayedChild {
        ReplayedChild {
            directive: directive.to_owned(),
            inputs: members(inputs),
            model: ReplayModel::new(vec![part(texts)], below),
        }
    }

    fn ask(model: &ReplayModel) -> Result<String, ModelError> {
        crate::testing::prelude::ask(model, &[]).map(|answer| answer.text)
    }

    // T-RUN-14
    #[test]
    fn children_answer_from_their_own_transcripts_in_whatever_order_they_begin() {
        let below = vec![child("d/leaf", &json!({}), &["leaf"], Vec::new())];
        let children = vec![
            child("d/say", &json!({"n": 1}), &["one"], Vec::new()),
            child("d/say", &json!({"n": 2}), &["two", "more"], below),
            child("d/other", &json!({}), &["other"], Vec::new()),
        ];
        let root = ReplayModel::new(vec![part(&["a"]), part(&["b"])], children);
        let [two, one] =
            [2, 1].map(|n| root.child("d/say", &members(&json!({"n": n.to_string()}))));
        assert_eq!(ask(&two).unwrap(), "two");
        assert_eq!(ask(&root).unwrap(), "a");
        assert_eq!(ask(&one).unwrap(), "one");
        assert_eq!(ask(&two.child("d/leaf", &Map::new())).unwrap(), "leaf");
        assert_eq!(ask(&two).unwrap(), "more");
        // It continues over a handoff, and to the end.
        assert_eq!(ask(&root).unwrap(), "b");
        for over in [
            &root,
            &one,
            &root.child("d/say", &Map::new()),
            &one.child("d/leaf", &Map::new()),
        ] {
            let error = ask(over).unwrap_err();
            assert!(error.is_final, "{error:?}");
            error.message.has("replayed");
        }
        let other = root.child("d/other", &members(&json!({"x": 9})));
        assert_eq!(ask(&other).unwrap(), "other");
    }
}
