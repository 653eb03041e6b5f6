//! [`Event`]: a line of a log in the terms of people: line, byte, turn, type, payload.
//!
//! For display and comparison only: nothing here is verified.

use std::ops::Range;
use threadseal_core::canon::json::{self, Value, parse};
use threadseal_core::canon::python::rye_line;

/// One line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// Its number, from 1.
    pub line: u64,
    /// Offset of its first byte.
    pub byte: u64,
    /// The turn that it belongs to.
    pub turn: u64,
    /// `event_type`, else `type`, of an object; empty if it has neither.
    pub event_type: String,
    /// Its bytes without LF.
    pub bytes: Vec<u8>,
    payload: Option<Range<usize>>,
}

impl Event {
    /// Line `line`, whose first byte is at `byte`.
    pub fn of(line: u64, byte: u64, bytes: Vec<u8>) -> Self {
        let mut event = Self {
            line,
            byte,
            bytes,
            ..Self::default()
        };
        event.read_members();
        event
    }

    /// A single line, whose place is known.
    pub fn alone(line: u64, bytes: &[u8]) -> Self {
        Self::of(line, 0, bytes.to_vec())
    }

    /// The payload's bytes; the whole line if it has none.
    pub fn payload(&self) -> &[u8] {
        let span = self.payload.clone();
        span.and_then(|span| self.bytes.get(span))
            .unwrap_or(&self.bytes)
    }

    /// Is it a seal, rather than an event of the agent?
    pub fn is_seal(&self) -> bool {
        self.event_type == "checkpoint"
    }

    /// The readable part of an event: its text, its tool and input, its result, or else its payload.
    pub fn readable(&self) -> String {
        if self.is_seal() {
            return String::new();
        }
        let raw = || String::from_utf8_lossy(self.payload()).into_owned();
        let Ok(payload) = parse(self.payload()) else {
            return raw();
        };
        let member = |name: &str| payload.get(name);
        let part = |value: &Value| match value.as_str() {
            Some(text) => text.to_owned(),
            None => String::from_utf8_lossy(&rye_line(value)).into_owned(),
        };
        match self.event_type.as_str() {
            "tool_call_start" => {
                let parts = [member("tool"), member("input")];
                let parts: Vec<String> = parts.into_iter().flatten().map(part).collect();
                parts.join(" ")
            }
            "tool_call_result" => {
                let error = member("error").filter(|error| error.as_str() != Some(""));
                error.or(member("output")).map_or_else(raw, part)
            }
            _ => member("text").map_or_else(raw, part),
        }
    }

    fn read_members(&mut self) {
        let bytes = &self.bytes;
        let word = |span| serde_json::from_slice(bytes.get(span).unwrap_or_default()).ok();
        let (mut event_type, mut other_type, mut payload) = (None, None, None);
        let read = json::scan_object(bytes, |key, span| {
            if key.is("event_type") {
                event_type = word(span);
            } else if key.is("type") {
                other_type = word(span);
            } else if key.is("payload") {
                payload = Some(span);
            }
        });
        if read.is_ok() {
            self.payload = payload.filter(|_| event_type.is_some());
            self.event_type = event_type.or(other_type).unwrap_or_default();
        }
    }
}
