//! A turn that several records of a source extend.
//!
//! A mapping with one turn per record uses [`Draft`] alone. This type gathers lines, moments and
//! names of several records. The source item has `lines`, and `time` and `id` of the first record.
//! If there are several, it also has `times` and `ids`.

use super::account::{Reason, Tokens};
use super::build::rfc3339_ns;
use super::draft::{Draft, Message, Source};
use super::source::{Node, weight};
use threadseal_core::canon::json::Value;
use threadseal_core::limits::MAX_LINE_BYTES;
use threadseal_formats::scroll::Role;

/// A turn that may still grow.
pub(super) struct Growing {
    pub(super) draft: Draft,
    pub(super) items: Vec<Value>,
    pub(super) source: Source,
    pub(super) tokens: Tokens,
    /// The approximate size of the turn in bytes.
    size: usize,
    lines: Vec<Value>,
    times: Vec<Value>,
    ids: Vec<Value>,
}

impl Growing {
    /// An empty turn of `role` that begins at `line`; `format` is the name of the mapping.
    pub(super) fn new(role: Role, vendor: &str, format: &str, line: u64) -> Self {
        let mut source = Source::new(format);
        source.set("lines", Value::Array(Vec::new()));
        Self {
            draft: Draft::new(role, vendor),
            items: Vec::new(),
            source,
            tokens: Tokens::default(),
            size: 0,
            lines: vec![line.into()],
            times: Vec::new(),
            ids: Vec::new(),
        }
    }

    /// Whether another record may be added: a turn stays within the bound of a scroll's turns.
    pub(super) fn has_room(&self) -> bool {
        self.size < MAX_LINE_BYTES / 2
    }

    /// Records that `record` at `line` extends the turn.
    pub(super) fn on(&mut self, line: u64, record: &Value) {
        self.size = self.size.saturating_add(weight(record));
        let line = Value::from(line);
        if self.lines.last() != Some(&line) {
            self.lines.push(line);
        }
    }

    /// The moment of a record, in its own spelling.
    pub(super) fn time(&mut self, time: Option<String>) {
        let Some(time) = time else {
            return;
        };
        if self.times.is_empty() {
            self.draft.timestamp_ns = rfc3339_ns(&time);
            self.source.set("time", time.as_str().into());
        }
        self.times.push(time.into());
    }

    /// The name of a record.
    pub(super) fn id(&mut self, id: Option<String>) {
        if let Some(id) = id {
            self.ids.push(id.into());
            self.source.set("id", self.ids[0].clone());
        }
    }

    /// The name of the most recently added record.
    pub(super) fn last_id(&self) -> Option<&Value> {
        self.ids.last()
    }

    /// A member of the source item. The first record that has it counts.
    pub(super) fn keep(&mut self, name: &str, value: Option<Node<'_, '_>>) {
        let Some(value) = value.filter(|value| !value.peek().is_null()) else {
            return;
        };
        match self.source.get(name) {
            None => self.source.set(name, value.take()),
            Some(known) if known == value.peek() => value.discard(Reason::Duplicate),
            Some(_) => value.discard(Reason::Superseded),
        }
    }

    /// The finished turn. A user's turn with nothing but results is one of role `tool`.
    pub(super) fn into_draft(mut self) -> Draft {
        let only_results = self.items.len() == self.draft.tool_results.len();
        if self.draft.role == Role::User && only_results && !self.items.is_empty() {
            self.draft.role = Role::Tool;
        }
        self.source.set("lines", Value::Array(self.lines));
        for (name, values) in [("ids", self.ids), ("times", self.times)] {
            if values.len() > 1 {
                self.source.set(name, Value::Array(values));
            }
        }
        let message = Message::items(self.draft.role, self.items);
        self.draft.messages.push(message);
        self.draft.close(self.source);
        self.draft
    }
}
