//! What a session holds about requests to the model: their shape, their messages, their parameters.
//!
//! ```text
//! {"type":"api-request-shape","shapeHash":H,"shape":{"system":[BLOCK,…],"tools":[…],…},…}
//! {"type":"api-request-blob","hash":H,"message":{"role","content":[BLOCK,…]}}
//! {"type":"api-request","id":I,"shapeHash":H,"params":{…},"base":I,"keep":N,"tail":[H,…],…}
//! ```
//!
//! A blob is a message as it was sent. Most of it is in the conversation in another form, and is
//! dropped. A text that the conversation lacks, as a reminder of the program, is carried.

use super::super::account::Reason;
use super::super::draft::text_item;
use super::super::source::Node;
use super::super::thread::part_item;
use super::Session;
use super::pending::Pending;
use threadseal_core::canon::json::Value;
use threadseal_formats::scroll::Role;

impl Session {
    /// The instructions and tools of requests.
    pub(super) fn shape(&mut self, root: Node<'_, '_>, line: u64) {
        let hash = root.peek_str("shapeHash");
        if hash.is_some_and(|hash| !self.shapes.insert(hash.to_owned())) {
            return root.discard(Reason::Duplicate);
        }
        let mut turn = self.turn(Role::System, "api-request-shape", root, line);
        turn.turn
            .source
            .set_some("shape", root.text_of("shapeHash"));
        let Some(shape) = root.get("shape") else {
            return self.add(turn);
        };
        let system = shape.get("system");
        for block in system.and_then(Node::items).into_iter().flatten() {
            say(block, &mut turn);
        }
        if let Some(system) = system.filter(|system| !system.is_marked()) {
            say(system, &mut turn);
        }
        for (name, member) in shape.members().into_iter().flatten() {
            if name != "system" {
                turn.turn.items.push(part_item(member));
            }
        }
        self.add(turn);
    }

    /// One message as it was sent.
    pub(super) fn blob(&mut self, root: Node<'_, '_>, line: u64) {
        let message = root.get("message");
        let content = message.and_then(|message| message.get("content"));
        let mut items = Vec::new();
        if let Some(content) = content {
            items.extend(self.survey.prompt(content, false));
            for block in content.items().into_iter().flatten() {
                items.extend(self.sent(block));
            }
        }
        if let Some(message) = message {
            let _ = message.told_by("role");
        }
        if items.is_empty() {
            root.discard_all(
                &["type", "hash", "sessionId", "timestamp"],
                Reason::Metadata,
            );
            return;
        }
        let mut turn = self.turn(Role::System, "api-request-blob", root, line);
        turn.turn.source.set_some("hash", root.text_of("hash"));
        turn.turn.items = items;
        self.add(turn);
    }

    /// The item of a block of a sent message, unless the conversation has it in some form.
    fn sent(&mut self, block: Node<'_, '_>) -> Option<Value> {
        let named = |name: &str| block.peek_str(name).map(str::to_owned);
        let reason = match block.peek_str("type") {
            Some("text") => {
                let _ = block.told_by("type");
                block.discard_all(&["cache_control"], Reason::Metadata);
                return self.survey.prompt(block.get("text")?, false);
            }
            Some("tool_use") if named("id").is_some_and(|id| self.survey.called(&id)) => {
                Reason::Duplicate
            }
            Some("tool_result")
                if named("tool_use_id").is_some_and(|id| self.survey.answers(&id)) =>
            {
                Reason::View
            }
            Some("thinking") if named("thinking").is_some_and(|text| self.survey.says(&text)) => {
                Reason::Duplicate
            }
            Some("thinking") if named("thinking").is_some_and(|text| text.is_empty()) => {
                Reason::Duplicate
            }
            _ => return Some(part_item(block)),
        };
        block.discard(reason);
        None
    }

    /// The parameters of one request, and the hashes of what was sent.
    pub(super) fn request(&mut self, root: Node<'_, '_>, line: u64) {
        let mut turn = self.turn(Role::System, "api-request", root, line);
        turn.turn.items.extend(root.get("params").map(part_item));
        for (ours, theirs) in [
            ("id", "id"),
            ("shape", "shapeHash"),
            ("base", "base"),
            ("keep", "keep"),
            ("tail", "tail"),
            ("query_source", "querySource"),
            ("digest", "requestDigest"),
        ] {
            turn.turn.source.set_some(ours, root.take_of(theirs));
        }
        root.discard_all(&["cacheControl"], Reason::Metadata);
        self.add(turn);
    }
}

fn say(block: Node<'_, '_>, turn: &mut Pending) {
    let item = if block.peek_str("text").is_some() {
        let _ = block.told_by("type");
        block.discard_all(&["cache_control"], Reason::Metadata);
        block.text_of("text").map(text_item)
    } else if block.peek().as_str().is_some() {
        block.text().map(text_item)
    } else {
        Some(part_item(block))
    };
    turn.turn.items.extend(item);
}
