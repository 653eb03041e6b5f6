//! A turn of a Claude Code session while lines are added to it.

use super::super::account::{Reason, Tokens};
use super::super::draft::{Draft, ToolResult, result_item, text_item};
use super::super::growing::Growing;
use super::super::source::Node;
use super::{NAME, VENDOR};
use std::collections::HashMap;
use threadseal_core::canon::json::Value;
use threadseal_core::digest::Digest;
use threadseal_formats::scroll::Role;

/// Most strings of a `toolUseResult` that are searched for in the result beside it.
const MAX_COMPARED: usize = 32;

/// Members of a line without content of the conversation.
const METADATA: [&str; 23] = [
    "cwd",
    "version",
    "gitBranch",
    "slug",
    "userType",
    "entrypoint",
    "promptSource",
    "thinkingMetadata",
    "isVisibleInTranscriptOnly",
    "isSnapshotUpdate",
    "teamName",
    "origin",
    "rowSource",
    "turnOrigin",
    "turnPosition",
    "requestedModel",
    "promptCacheRequested",
    "apiBlockIndex",
    "thinkingDurationMs",
    "thinkingDisplay",
    "toolInputStreamMs",
    "perTurnEffort",
    "madeBy",
];

/// Members of a line that are carried unchanged in the source item: name there, name here.
const KEPT: [(&str, &str); 16] = [
    ("sessionId", "session"),
    ("agentId", "agent"),
    ("requestId", "request"),
    ("promptId", "turn"),
    ("logicalParentUuid", "logical_parent"),
    ("sourceToolAssistantUUID", "answers"),
    ("leafUuid", "leaf"),
    ("isMeta", "meta"),
    ("isCompactSummary", "compact_summary"),
    ("isApiErrorMessage", "api_error"),
    ("error", "error"),
    ("permissionMode", "permission_mode"),
    ("costUSD", "cost_usd"),
    ("requestRef", "request_ref"),
    ("permissionDecision", "permission_decision"),
    ("sandboxed", "sandboxed"),
];

/// A turn that may still grow.
pub(super) struct Pending {
    pub(super) turn: Growing,
    /// Blocks by fingerprint, and the line that holds each.
    pub(super) blocks: HashMap<Digest, u64>,
    parents: Vec<Value>,
}

impl Pending {
    /// An empty turn that begins at `line`.
    pub(super) fn new(role: Role, line: u64) -> Self {
        Self {
            turn: Growing::new(role, VENDOR, NAME, line),
            blocks: HashMap::new(),
            parents: Vec::new(),
        }
    }

    /// Reads the members of a line other than its message.
    pub(super) fn envelope(&mut self, record: Node<'_, '_>, line: u64, parent: Option<String>) {
        self.turn.on(line, record.peek());
        self.turn.time(record.text_of("timestamp"));
        self.place_in_tree(record, parent);
        for (theirs, ours) in KEPT {
            if record.peek().get(theirs) == Some(&Value::Bool(false)) {
                record.discard_all(&[theirs], Reason::Empty);
            } else {
                self.turn.keep(ours, record.get(theirs));
            }
        }
        if record.bool_of("isSidechain") == Some(true) {
            self.turn.source.set("sidechain", true.into());
        }
        record.discard_all(&METADATA, Reason::Metadata);
        record.discard_all(&["todos"], Reason::View);
    }

    /// Sets the names of the record and its parent. Within one message each line follows the one
    /// before.
    fn place_in_tree(&mut self, record: Node<'_, '_>, parent: Option<String>) {
        let parent = parent.map(Value::from);
        match self.turn.last_id() {
            None => self.turn.source.set_some("parent", parent),
            Some(last) if parent.as_ref() == Some(last) => {}
            Some(_) => self.parents.extend(parent),
        }
        self.turn.id(record.text_of("uuid"));
    }

    /// One line of a message; `counts` if its usage does.
    pub(super) fn message(&mut self, message: Node<'_, '_>, line: u64, counts: bool) {
        if let Some(model) = message.get("model") {
            self.model(model);
        }
        for name in ["stop_reason", "stop_sequence", "stop_details"] {
            self.turn.keep(name, message.get(name));
        }
        if let Some(usage) = message
            .get("usage")
            .filter(|usage| usage.peek().as_object().is_some())
        {
            if counts {
                self.turn.tokens = tokens(usage.peek());
                self.turn.source.set_tokens(self.turn.tokens);
                self.turn.source.set("usage", usage.take());
            } else {
                usage.discard(Reason::Superseded);
            }
        }
        self.content(message, line);
    }

    fn model(&mut self, model: Node<'_, '_>) {
        let named = model.peek().as_str().filter(|name| !name.is_empty());
        match (&self.turn.draft.model.id, named) {
            (_, None) => {}
            (None, Some(_)) => self.turn.draft.model.id = model.text(),
            (Some(known), Some(name)) if known == name => model.discard(Reason::Duplicate),
            _ => model.discard(Reason::Superseded),
        }
    }

    /// Reads content that a line has beside its message.
    pub(super) fn beside(&mut self, record: Node<'_, '_>, line: u64) {
        if let Some(plan) = record.get("planContent") {
            self.plan(plan);
        }
        let Some(view) = record
            .get("toolUseResult")
            .filter(|view| !view.peek().is_null())
        else {
            return;
        };
        if self.turn.draft.tool_results.is_empty() {
            let id = format!("result-{line}");
            self.turn.items.push(result_item(&id));
            self.turn
                .draft
                .tool_results
                .push(ToolResult::new(id, true, view.take()));
        } else {
            let reason = if self.says_all_of(view.peek()) {
                Reason::Duplicate
            } else {
                Reason::View
            };
            view.discard(reason);
        }
    }

    fn plan(&mut self, plan: Node<'_, '_>) {
        let Some(text) = plan.peek().as_str().filter(|text| !text.is_empty()) else {
            return;
        };
        let said = |item: &Value| {
            let said = item.get("text").and_then(Value::as_str);
            said.is_some_and(|said| contains(said, text))
        };
        if self.turn.items.iter().any(said) {
            plan.discard(Reason::Duplicate);
        } else {
            self.turn.items.extend(plan.text().map(text_item));
        }
    }

    /// Whether a response of this turn contains every string of `view`.
    fn says_all_of(&self, view: &Value) -> bool {
        let mut wanted = Vec::new();
        strings(view, &mut wanted);
        let mut said = Vec::new();
        for result in &self.turn.draft.tool_results {
            result
                .response
                .iter()
                .for_each(|response| strings(response, &mut said));
        }
        let contained = |text: &&str| said.iter().any(|said| contains(said, text));
        wanted.len() <= MAX_COMPARED && said.len() <= MAX_COMPARED && wanted.iter().all(contained)
    }

    pub(super) fn into_draft(mut self) -> Draft {
        if !self.parents.is_empty() {
            let parents = Value::Array(self.parents);
            self.turn.source.set("parents", parents);
        }
        self.turn.into_draft()
    }
}

/// Whether `text` contains `part`. A longer part is refused without a search.
fn contains(text: &str, part: &str) -> bool {
    part.len() <= text.len() && text.contains(part)
}

/// Collects the strings in `value` without the names of members, at most one more than are
/// compared.
fn strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    if found.len() > MAX_COMPARED {
        return;
    }
    match value {
        Value::String(text) => found.extend(text.as_str().filter(|text| !text.is_empty())),
        Value::Array(elements) => elements.iter().for_each(|element| strings(element, found)),
        Value::Object(members) => members.iter().for_each(|(_, value)| strings(value, found)),
        _ => {}
    }
}

fn tokens(usage: &Value) -> Tokens {
    let of = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
    let cached = of("cache_read_input_tokens");
    let written = of("cache_creation_input_tokens");
    Tokens {
        input: of("input_tokens")
            .saturating_add(cached)
            .saturating_add(written),
        output: of("output_tokens"),
        cached,
        reasoning: 0,
    }
}
