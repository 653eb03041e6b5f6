//! Events: messages of the program to its user interface.

use super::super::account::Reason;
use super::super::draft::{text_item, thinking_item};
use super::super::source::Node;
use super::{Record, Rollout, discard_rest, part_item};
use threadseal_core::canon::json::Value;
use threadseal_formats::scroll::Role;

/// Events without content of the conversation.
const METADATA: [&str; 3] = [
    "agent_reasoning_section_break",
    "item_started",
    "agent_message_delta",
];

impl Rollout {
    /// One event.
    pub(super) fn event(&mut self, record: Record<'_, '_>) {
        let payload = record.payload;
        let kind = payload.peek_str("type").unwrap_or_default();
        match kind {
            "user_message" => self.echo(record, "message", Role::User),
            "agent_message" => self.echo(record, "message", Role::Assistant),
            "agent_reasoning" | "agent_reasoning_raw_content" => {
                self.echo(record, "text", Role::Assistant);
            }
            "task_complete" | "turn_complete" => self.complete(record),
            "turn_aborted" => self.aborted(record),
            "token_count" => self.token_count(record),
            "item_completed" => self.completed(record),
            "task_started" | "turn_started" => {
                let turn = payload.peek_str("turn_id");
                self.turn = turn.map(str::to_owned).or(self.turn.take());
                self.open = false;
                record.outer.discard(Reason::Metadata);
            }
            kind if METADATA.contains(&kind) => record.outer.discard(Reason::Metadata),
            kind => {
                let call = payload.peek_str("call_id");
                if call.is_some_and(|call| self.survey.knows_call(call)) {
                    record.outer.discard(Reason::View);
                } else {
                    self.part(record, kind);
                }
            }
        }
    }

    /// Reads a text that an item usually repeats.
    fn echo(&mut self, record: Record<'_, '_>, member: &str, role: Role) {
        let payload = record.payload;
        let text = payload.get(member);
        let mut items = Vec::new();
        if let (Some(node), Some(said)) = (text, text.and_then(|text| text.peek().as_str())) {
            if self.survey.events.repeats(said) {
                node.discard(Reason::Duplicate);
            } else if !said.is_empty() {
                let is_message = member != "text";
                items.extend(node.text().map(|text| shown_item(text, is_message)));
            }
        }
        for image in payload
            .get("images")
            .and_then(Node::items)
            .into_iter()
            .flatten()
        {
            if image
                .peek()
                .as_str()
                .is_some_and(|image| self.survey.events.has(image))
            {
                image.discard(Reason::Duplicate);
            } else {
                items.push(part_item(image.take()));
            }
        }
        self.carry(record, role, items);
        payload.discard_all(&["kind", "phase"], Reason::Metadata);
    }

    /// Adds a turn with these items, if there are any; else it records only the frame of the
    /// record.
    fn carry(&mut self, record: Record<'_, '_>, role: Role, items: Vec<Value>) {
        if items.is_empty() {
            let _ = record.outer.told_by("type");
            record.outer.discard_all(&["timestamp"], Reason::Metadata);
        } else {
            let kind = record.payload.peek_str("type").unwrap_or_default();
            let turn = self.begin(role, record);
            turn.source.set("kind", kind.into());
            turn.items = items;
        }
        let _ = record.payload.told_by("type");
    }

    fn complete(&mut self, record: Record<'_, '_>) {
        let message = record.payload.get("last_agent_message");
        let mut items = Vec::new();
        if let (Some(node), Some(text)) = (message, message.and_then(|node| node.peek().as_str())) {
            if self.survey.events.has(text) {
                node.discard(Reason::Duplicate);
            } else if !text.is_empty() {
                items.extend(node.text().map(text_item));
            }
        }
        self.carry(record, Role::Assistant, items);
        discard_rest(record.payload, Reason::Metadata);
        self.open = false;
    }

    fn aborted(&mut self, record: Record<'_, '_>) {
        let payload = record.payload;
        let turn = self.begin(Role::System, record);
        turn.source.set("kind", "turn_aborted".into());
        turn.keep("stop_reason", payload.get("reason"));
        turn.source.set_some("turn", payload.text_of("turn_id"));
        let _ = payload.told_by("type");
    }

    fn token_count(&mut self, record: Record<'_, '_>) {
        let info = record
            .payload
            .get("info")
            .filter(|info| info.peek().as_object().is_some());
        let Some(info) = info else {
            return record.outer.discard(Reason::Metadata);
        };
        let total = info.peek().get("total_token_usage").cloned();
        let usage = info.get("last_token_usage");
        if total.is_some() && total == self.total {
            usage
                .into_iter()
                .for_each(|usage| usage.discard(Reason::Duplicate));
        } else {
            self.usage(record, usage, None);
        }
        self.total = total;
        let _ = record.outer.told_by("type");
        record.outer.discard_all(&["timestamp"], Reason::Metadata);
        let _ = record.payload.told_by("type");
        discard_rest(info, Reason::Metadata);
        discard_rest(record.payload, Reason::Metadata);
    }

    /// Reads an item as the user interface shows it.
    fn completed(&mut self, record: Record<'_, '_>) {
        let Some(item) = record.payload.get("item") else {
            return record.outer.discard(Reason::Metadata);
        };
        let call = item
            .peek_str("id")
            .or(item.peek_str("call_id"))
            .unwrap_or_default();
        let (role, lists): (_, &[&str]) = match item.peek_str("type").unwrap_or_default() {
            "UserMessage" => (Role::User, &["content"]),
            "AgentMessage" => (Role::Assistant, &["content"]),
            "Reasoning" => (Role::Assistant, &["summary_text", "raw_content"]),
            _ if self.survey.knows_call(call) => return record.outer.discard(Reason::View),
            _ => {
                self.part(record, "item_completed");
                return;
            }
        };
        let mut items = Vec::new();
        for list in lists {
            for part in item.get(list).and_then(Node::items).into_iter().flatten() {
                items.extend(self.shown(part, *list == "content"));
            }
        }
        let turn = item.get("turn_id");
        self.carry(record, role, items);
        turn.into_iter()
            .for_each(|turn| turn.discard(Reason::Metadata));
        discard_rest(item, Reason::Metadata);
        discard_rest(record.payload, Reason::Metadata);
    }

    /// A part of the display, unless an item contains it.
    fn shown(&mut self, part: Node<'_, '_>, is_message: bool) -> Option<Value> {
        let inner = part.get("text").unwrap_or(part);
        let Some(text) = inner.peek().as_str() else {
            return Some(part_item(part.take()));
        };
        if self.survey.completions.repeats(text) || text.is_empty() {
            inner.discard(Reason::Duplicate);
            let _ = part.told_by("type");
            return None;
        }
        let _ = part.told_by("type");
        inner.text().map(|text| shown_item(text, is_message))
    }
}

fn shown_item(text: String, is_message: bool) -> Value {
    if is_message {
        text_item(text)
    } else {
        thinking_item(text)
    }
}
