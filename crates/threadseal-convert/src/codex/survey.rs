//! First pass over a rollout: the content of its items.

use super::super::repeats::RepeatedTexts;
use super::split_value;
use std::collections::HashSet;
use threadseal_core::canon::json::Value;

/// The content of a rollout's items, to recognize events that repeat it.
#[derive(Default)]
pub(super) struct Survey {
    /// Texts of messages and reasoning, one count for each of the two sorts of events.
    pub(super) events: RepeatedTexts,
    pub(super) completions: RepeatedTexts,
    /// Calls by their id, and those that have an output.
    calls: HashSet<String>,
}

impl Survey {
    /// Notes one line.
    pub(super) fn record(&mut self, record: &Value) {
        let Some(("response_item", item)) = split_value(record) else {
            return;
        };
        let mut said = String::new();
        let mut parts = 0;
        for list in ["content", "summary"] {
            let texts = item
                .get(list)
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            for part in texts {
                for name in ["text", "image_url"] {
                    if let Some(text) = part.get(name).and_then(Value::as_str) {
                        self.note(text);
                        said.push_str(text);
                        parts += 1;
                    }
                }
            }
        }
        if parts > 1 {
            // Events have the text of a message as one string.
            self.note(&said);
        }
        if let Some(call) = item.get("call_id").and_then(Value::as_str) {
            self.calls.insert(call.to_owned());
        }
    }

    /// Whether an item is, or answers, the call named `id`.
    pub(super) fn knows_call(&self, id: &str) -> bool {
        self.calls.contains(id)
    }

    /// Whether the items contain all content of `item` in a replaced history.
    pub(super) fn says(&self, item: &Value) -> bool {
        if let Some(call) = item.get("call_id").and_then(Value::as_str) {
            return self.knows_call(call);
        }
        let parts = item
            .get("content")
            .and_then(Value::as_array)
            .unwrap_or_default();
        let said = |part: &Value| {
            let text = part.get("text").and_then(Value::as_str);
            text.is_some_and(|text| self.events.has(text))
        };
        !parts.is_empty() && parts.iter().all(said)
    }

    fn note(&mut self, text: &str) {
        self.events.note(text);
        self.completions.note(text);
    }
}
