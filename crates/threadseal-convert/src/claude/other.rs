//! Records other than messages: text of the program, progress, copies of prompts.

use super::super::account::Reason;
use super::super::draft::text_item;
use super::super::repeats::RepeatedTexts;
use super::super::source::Node;
use super::super::thread::{part_item, unknown_kind};
use super::pending::Pending;
use super::{Session, kind_of};
use std::collections::{HashMap, HashSet};
use threadseal_core::canon::json::Value;
use threadseal_formats::scroll::Role;

/// Kinds of progress without content of the conversation.
const PROGRESS_METADATA: [&str; 5] = [
    "hook_progress",
    "mcp_progress",
    "query_update",
    "search_results_received",
    "waiting_for_task",
];

/// Members that every record may have; [`Pending::envelope`] takes them.
const COMMON: [&str; 6] = [
    "type",
    "subtype",
    "uuid",
    "parentUuid",
    "timestamp",
    "isSidechain",
];

/// The results of the first pass.
#[derive(Default)]
pub(super) struct Survey {
    said: RepeatedTexts,
    /// Calls, and those that have a result.
    calls: HashSet<String>,
    answered: HashSet<String>,
    /// The last line with a call's progress.
    progress: HashMap<String, u64>,
    /// The last line with the usage of a message, and the last that extends it.
    usage: HashMap<String, u64>,
    last: HashMap<String, u64>,
    uuids: HashSet<String>,
}

impl Survey {
    /// First pass over one record. A record with a known `uuid` may be a copy.
    pub(super) fn record(&mut self, line: u64, record: &Value) {
        self.adds(line, record);
        let id = record.get("uuid").and_then(Value::as_str);
        if id.is_some_and(|id| !self.uuids.insert(id.to_owned())) {
            return;
        }
        match kind_of(record) {
            Some("user" | "assistant") => self.message(line, record),
            Some("progress") => {
                if let Some(inner) = record.get("data").and_then(|data| data.get("message")) {
                    self.message(line, inner);
                }
                if let Some(call) = record.get("parentToolUseID").and_then(Value::as_str) {
                    self.progress.insert(call.to_owned(), line);
                }
            }
            Some("attachment") => {
                let shown = record.get("rendered").and_then(Value::as_array);
                for text in shown
                    .into_iter()
                    .flatten()
                    .filter_map(|part| part.get("content"))
                {
                    if let Some(text) = text.as_str() {
                        self.said.note(text);
                    }
                }
            }
            _ => {}
        }
    }

    /// Notes that a line, copy or not, may extend a message of the model.
    fn adds(&mut self, line: u64, record: &Value) {
        let inner = record.get("data").and_then(|data| data.get("message"));
        let messages = [Some(record), inner].into_iter().flatten();
        for message in messages.filter_map(|holder| holder.get("message")) {
            if let Some(id) = message.get("id").and_then(Value::as_str) {
                self.last.insert(id.to_owned(), line);
            }
        }
    }

    /// Whether no line after `line` extends message `id`.
    pub(super) fn ends(&self, id: &str, line: u64) -> bool {
        self.last.get(id).is_none_or(|last| *last <= line)
    }

    fn message(&mut self, line: u64, record: &Value) {
        let Some(message) = record.get("message") else {
            return;
        };
        let id = message.get("id").and_then(Value::as_str);
        let usage = message.get("usage").and_then(Value::as_object);
        if let (Some(id), Some(_)) = (id, usage) {
            self.usage.insert(id.to_owned(), line);
        }
        let content = message.get("content");
        if let Some(text) = content.and_then(Value::as_str) {
            self.said.note(text);
        }
        for block in content.and_then(Value::as_array).into_iter().flatten() {
            if let Some(text) = block.get("text").and_then(Value::as_str) {
                self.said.note(text);
            }
            if let Some(text) = block.get("thinking").and_then(Value::as_str) {
                self.said.note(text);
            }
            if let Some(call) = block.get("tool_use_id").and_then(Value::as_str) {
                self.answered.insert(call.to_owned());
            }
            if block.get("type").and_then(Value::as_str) == Some("tool_use") {
                let id = block.get("id").and_then(Value::as_str);
                self.calls.extend(id.map(str::to_owned));
            }
        }
    }

    /// Whether the conversation has a text, a call, a result.
    pub(super) fn says(&self, text: &str) -> bool {
        self.said.has(text)
    }

    pub(super) fn called(&self, id: &str) -> bool {
        self.calls.contains(id)
    }

    pub(super) fn answers(&self, id: &str) -> bool {
        self.answered.contains(id)
    }

    /// Whether `line` is the last one with the usage of message `id`.
    pub(super) fn tells_usage(&self, id: &str, line: u64) -> bool {
        self.usage.get(id) == Some(&line)
    }

    /// The text of a copied prompt, unless the conversation contains it.
    ///
    /// The conversation contains a queued prompt once for each time it is sent. Other copies repeat
    /// one prompt over and over.
    pub(super) fn prompt(&mut self, node: Node<'_, '_>, queued: bool) -> Option<Value> {
        let text = node.peek().as_str().filter(|text| !text.is_empty())?;
        let repeats = if queued {
            self.said.repeats(text)
        } else {
            self.said.has(text)
        };
        if repeats {
            node.discard(Reason::Duplicate);
            return None;
        }
        self.said.note(text);
        node.text().map(text_item)
    }
}

impl Session {
    /// `system`, `summary`, `attachment`, `queue-operation`, `last-prompt`.
    pub(super) fn other(&mut self, kind: &str, root: Node<'_, '_>, line: u64) {
        match kind {
            "system" if root.peek_str("subtype") == Some("turn_duration") => {
                self.drop_whole(root, Reason::Metadata);
            }
            "system" => self.system(root, line),
            "attachment" => {
                let attachment = root.take_of("attachment");
                let item = [
                    ("type".into(), "attachment".into()),
                    ("attachment".into(), attachment.unwrap_or(Value::Null)),
                ];
                let mut turn = self.turn(Role::System, kind, root, line);
                turn.turn.items.push(Value::Object(item.into()));
                rendered(root, &mut turn);
                self.add(turn);
            }
            "summary" => {
                let mut turn = self.turn(Role::System, kind, root, line);
                turn.turn
                    .items
                    .extend(root.text_of("summary").map(text_item));
                self.add(turn);
            }
            "queue-operation" => self.prompt_copy(kind, "content", root, line),
            _ => self.prompt_copy(kind, "lastPrompt", root, line),
        }
    }

    fn system(&mut self, root: Node<'_, '_>, line: u64) {
        let kind = root
            .text_of("subtype")
            .unwrap_or_else(|| "system".to_owned());
        let mut turn = self.turn(Role::System, &kind, root, line);
        if root
            .peek()
            .get("content")
            .is_some_and(|content| !content.is_null())
        {
            turn.content(root, line);
            for (theirs, ours) in [
                ("level", "level"),
                ("compactMetadata", "compact"),
                ("toolUseID", "call"),
            ] {
                turn.turn.source.set_some(ours, root.take_of(theirs));
            }
            return self.add(turn);
        }
        self.rest(turn, root);
    }

    /// A record whose members are its content.
    pub(super) fn members(&mut self, kind: &str, root: Node<'_, '_>, line: u64) {
        let turn = self.turn(Role::System, kind, root, line);
        self.rest(turn, root);
    }

    /// A name of the session or of its agent. A name that the scroll has is dropped.
    pub(super) fn title(&mut self, kind: &str, root: Node<'_, '_>, line: u64) {
        let member = match kind {
            "custom-title" => "customTitle",
            "ai-title" => "aiTitle",
            "agent-name" => "agentName",
            _ => "tag",
        };
        let title = root.get(member);
        let item = title.and_then(|title| self.survey.prompt(title, false));
        if item.is_none() && title.is_some() {
            return root.discard(Reason::Duplicate);
        }
        let mut turn = self.turn(Role::System, kind, root, line);
        turn.turn.items.extend(item);
        self.add(turn);
    }

    fn rest(&mut self, mut turn: Pending, root: Node<'_, '_>) {
        let mut rest = Vec::new();
        for (name, value) in root.members().into_iter().flatten() {
            let common = COMMON.iter().any(|known| name == *known);
            if !common && !value.is_marked() {
                rest.push((name.clone(), value.take()));
            }
        }
        let part = [
            ("type".into(), "part".into()),
            ("part".into(), Value::Object(rest)),
        ];
        turn.turn.items.push(Value::Object(part.into()));
        self.add(turn);
    }

    /// Reads a record that repeats a typed prompt, or holds one that was never sent.
    fn prompt_copy(&mut self, kind: &str, member: &str, root: Node<'_, '_>, line: u64) {
        let queued = root.peek_str("operation") == Some("enqueue");
        let content = root.get(member);
        let mut items = Vec::new();
        if let Some(content) = content {
            items.extend(self.survey.prompt(content, queued));
            for block in content.items().into_iter().flatten() {
                if block.peek_str("type") == Some("text") {
                    let _ = block.told_by("type");
                    let text = block.get("text");
                    items.extend(text.and_then(|text| self.survey.prompt(text, queued)));
                } else {
                    items.push(block.take());
                }
            }
        }
        if !items.is_empty() {
            let mut turn = self.turn(Role::User, kind, root, line);
            turn.turn.items = items;
            let operation = root.text_of("operation");
            turn.turn.source.set_some("operation", operation);
            self.add(turn);
        } else if content.is_none() {
            self.drop_whole(root, Reason::Metadata);
        } else {
            let rest = ["type", "operation", "timestamp", "sessionId", "leafUuid"];
            root.discard_all(&rest, Reason::Metadata);
            self.pass_over(root);
        }
    }

    pub(super) fn turn(&self, role: Role, kind: &str, root: Node<'_, '_>, line: u64) -> Pending {
        let mut turn = Pending::new(role, line);
        let _ = root.told_by("type");
        turn.turn.source.set("kind", kind.into());
        turn.envelope(root, line, self.parent_of(root));
        turn
    }

    /// A line of progress; an error is why it cannot be mapped.
    pub(super) fn progress(&mut self, root: Node<'_, '_>, line: u64) -> Result<(), String> {
        let data = root.peek().get("data");
        let kind = data.and_then(|data| data.get("type"));
        match kind.and_then(Value::as_str) {
            Some("agent_progress") => self.agent_progress(root, line),
            Some("bash_progress" | "powershell_progress") => self.command_progress(root, line),
            Some(kind) if PROGRESS_METADATA.contains(&kind) => {
                self.drop_whole(root, Reason::Metadata);
            }
            _ => return Err(unknown_kind("progress", kind)),
        }
        Ok(())
    }

    /// A subagent's message inside the line of the agent that called it.
    fn agent_progress(&mut self, root: Node<'_, '_>, line: u64) {
        self.pass_over(root);
        let (Some(data), call) = (root.get("data"), root.text_of("parentToolUseID")) else {
            return;
        };
        let _ = data.told_by("type");
        let _ = root.told_by("type");
        if let Some(inner) = data.get("message")
            && let Some(mut written) = self.message(root, inner, line, call)
        {
            if written.is_new {
                let source = &mut written.pending.turn.source;
                source.set_some("session", root.text_of("sessionId"));
                source.set_some("agent", data.text_of("agentId"));
            }
            self.leave(written, line);
        }
        let prompt = data.get("prompt");
        if let Some(item) = prompt.and_then(|prompt| self.survey.prompt(prompt, false)) {
            let mut turn = Pending::new(Role::User, line);
            turn.turn.source.set("kind", "prompt".into());
            turn.turn.source.set("sidechain", true.into());
            turn.turn.items.push(item);
            self.add(turn);
        }
        root.discard_all(&PROGRESS_ENVELOPE, Reason::Metadata);
        data.discard_all(&["agentId"], Reason::Metadata);
    }

    /// Reads the output of a command so far.
    fn command_progress(&mut self, root: Node<'_, '_>, line: u64) {
        let call = root.peek_str("parentToolUseID").unwrap_or_default();
        let answered = self.survey.answered.contains(call);
        let last = self.survey.progress.get(call) == Some(&line);
        let data = root.get("data");
        let output = data.and_then(|data| data.get("fullOutput"));
        let written = output
            .and_then(|output| output.peek().as_str())
            .unwrap_or_default();
        if answered || !last || written.is_empty() {
            self.pass_over(root);
            return root.discard(Reason::Superseded);
        }
        let mut turn = self.turn(Role::Tool, "progress", root, line);
        turn.turn
            .items
            .extend(output.and_then(Node::text).map(text_item));
        let call = root.text_of("parentToolUseID");
        turn.turn.source.set_some("call", call);
        self.add(turn);
        root.discard_all(&PROGRESS_ENVELOPE, Reason::Metadata);
        if let Some(data) = data {
            let tail = data.peek_str("output").unwrap_or_default();
            if written.contains(tail) {
                data.discard_all(&["output"], Reason::Duplicate);
            }
            let rest = [
                "type",
                "elapsedTimeSeconds",
                "totalLines",
                "totalBytes",
                "taskId",
                "timeoutMs",
            ];
            data.discard_all(&rest, Reason::Metadata);
        }
    }
}

/// The texts that the model saw of an attachment.
fn rendered(root: Node<'_, '_>, turn: &mut Pending) {
    root.discard_all(&["renderedRole", "renderedBesideToolResult"], Reason::Form);
    let Some(shown) = root.get("rendered") else {
        return;
    };
    for part in shown.items().into_iter().flatten() {
        match part.text_of("content") {
            Some(text) => turn.turn.items.push(text_item(text)),
            None => turn.turn.items.push(part_item(part)),
        }
    }
    if !shown.is_marked() {
        turn.turn.items.push(part_item(shown));
    }
}

/// Members of a line of progress that its turn does not need.
const PROGRESS_ENVELOPE: [&str; 11] = [
    "uuid",
    "timestamp",
    "isSidechain",
    "toolUseID",
    "sessionId",
    "cwd",
    "version",
    "gitBranch",
    "slug",
    "userType",
    "agentId",
];
