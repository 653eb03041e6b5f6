//! Assembles a streamed answer: every event is a response with the new parts.
//!
//! Parts are appended. A text after a text of the same kind (thought or not) is appended to it. Of
//! all other members the last counts.

use super::super::stream::{Object, StreamAccount, into_elements, into_members};
use std::collections::BTreeMap;
use threadseal_core::canon::json::{Text, Value};

pub(super) fn assemble(chunks: Vec<Value>, told: &mut StreamAccount<'_>) -> Value {
    let mut body = Object::default();
    let mut candidates: BTreeMap<u64, Candidate> = BTreeMap::new();
    for chunk in chunks {
        let mut chunk = Object::of(chunk);
        for candidate in into_elements(chunk.take("candidates")) {
            let mut candidate = Object::of(candidate);
            let index = candidate
                .get("index")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            let whole = candidates.entry(index).or_default();
            let mut content = Object::of(candidate.take("content"));
            for part in into_elements(content.take("parts")) {
                whole.add(part);
            }
            whole.content.update(without(content, "parts"), told);
            whole.rest.update(without(candidate, "content"), told);
        }
        for (name, value) in without(chunk, "candidates") {
            // Counts grow; the last counts are those of the whole.
            if name == *"usageMetadata" {
                body.set("usageMetadata", value);
            } else {
                body.update(vec![(name, value)], told);
            }
        }
    }
    let candidates = candidates.into_values().map(Candidate::finish).collect();
    body.set("candidates", Value::Array(candidates));
    body.into_value()
}

#[derive(Default)]
struct Candidate {
    content: Object,
    parts: Vec<Object>,
    rest: Object,
}

impl Candidate {
    fn add(&mut self, part: Value) {
        let part = Object::of(part);
        let plain = 1 + usize::from(part.get("thought").is_some());
        let text = part
            .get("text")
            .filter(|text| part.len() == plain && text.as_str().is_some());
        match (self.parts.last_mut(), text) {
            (Some(last), Some(text)) if last.len() == plain && last.has("text") => {
                if last.get("thought") == part.get("thought") {
                    last.append("text", text);
                } else {
                    self.parts.push(part);
                }
            }
            _ => self.parts.push(part),
        }
    }

    fn finish(mut self) -> Value {
        let parts = self.parts.into_iter().map(Object::into_value).collect();
        self.content.set("parts", Value::Array(parts));
        self.rest.set("content", self.content.into_value());
        self.rest.into_value()
    }
}

fn without(object: Object, name: &str) -> Vec<(Text, Value)> {
    let mut members = into_members(object.into_value());
    members.retain(|(known, _)| *known != *name);
    members
}
