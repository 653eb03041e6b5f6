//! Blocks of a message: items, calls, results.

use super::super::account::Reason;
use super::super::draft::{ToolCall, ToolResult, call_item, result_item, text_item};
use super::super::source::Node;
use super::pending::Pending;
use threadseal_core::canon::json::Value;
use threadseal_core::canon::python;
use threadseal_core::digest::Digest;

/// Types of items that mean something else in a scroll.
const RESERVED: [&str; 4] = ["tool_call", "tool_result", "source", "part"];

impl Pending {
    /// The member `content` of a message, or of a record that has such a member.
    pub(super) fn content(&mut self, holder: Node<'_, '_>, line: u64) {
        let Some(content) = holder.get("content") else {
            return;
        };
        if content.peek().as_str() == Some("") {
            return;
        }
        if let Some(text) = content.text() {
            self.turn.items.push(text_item(text));
        }
        for block in content.items().into_iter().flatten() {
            self.block(block, line);
        }
        if content.peek().as_object().is_some() {
            self.block(content, line);
        }
    }

    fn block(&mut self, block: Node<'_, '_>, line: u64) {
        let spelled = python::rye(block.peek());
        let first = *self.blocks.entry(Digest::of(&spelled)).or_insert(line);
        if first != line {
            return block.discard(Reason::Duplicate);
        }
        let kind = block.peek_str("type").unwrap_or_default();
        if matches!(kind, "tool_use" | "server_tool_use" | "mcp_tool_use") {
            self.call(block, kind, line);
        } else if kind == "tool_result" || kind.ends_with("_tool_result") {
            self.result(block, kind, line);
        } else if let Some(text) = block.text() {
            self.turn.items.push(text_item(text));
        } else if kind.is_empty() || RESERVED.contains(&kind) {
            let part = [
                ("type".into(), "part".into()),
                ("part".into(), block.take()),
            ];
            self.turn.items.push(Value::Object(part.into()));
        } else {
            self.turn.items.push(block.take());
        }
    }

    fn call(&mut self, block: Node<'_, '_>, kind: &str, line: u64) {
        let made_up = || format!("call-{line}-{}", self.turn.draft.tool_calls.len());
        let id = block.text_of("id").unwrap_or_else(made_up);
        let name = block.text_of("name").unwrap_or_default();
        let args = block.get("input").map_or(Value::Null, Node::take);
        let usual = kind == "tool_use";
        self.turn
            .items
            .push(with_rest(call_item(&id), block, usual.then_some("type")));
        self.turn
            .draft
            .tool_calls
            .push(ToolCall::new(id, name, args));
    }

    fn result(&mut self, block: Node<'_, '_>, kind: &str, line: u64) {
        let made_up = || format!("result-{line}-{}", self.turn.draft.tool_results.len());
        let id = block.text_of("tool_use_id").unwrap_or_else(made_up);
        let response = block.get("content").map_or(Value::Null, Node::take);
        let ok = block.bool_of("is_error") != Some(true);
        let usual = kind == "tool_result";
        self.turn
            .items
            .push(with_rest(result_item(&id), block, usual.then_some("type")));
        self.turn
            .draft
            .tool_results
            .push(ToolResult::new(id, ok, response));
    }
}

/// `item` with the members of `block` that are nowhere else.
///
/// The `type` of the block becomes `kind`, unless the last argument names a member that implies it.
fn with_rest(item: Value, block: Node<'_, '_>, told: Option<&str>) -> Value {
    const ELSEWHERE: [&str; 7] = [
        "id",
        "name",
        "input",
        "tool_use_id",
        "content",
        "is_error",
        "type",
    ];
    let Value::Object(mut members) = item else {
        return item;
    };
    if let Some(name) = told {
        let _ = block.told_by(name);
    } else {
        let kind = block.text_of("type").map(Value::from);
        members.extend(kind.map(|kind| ("kind".into(), kind)));
    }
    for (name, value) in block.members().into_iter().flatten() {
        let elsewhere = ELSEWHERE.iter().any(|known| name == *known);
        if !elsewhere && !value.peek().is_null() {
            members.push((name.clone(), value.take()));
        }
    }
    Value::Object(members)
}
