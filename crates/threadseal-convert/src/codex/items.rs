//! Response items: input of the model, its output, results of tools.

use super::super::account::Reason;
use super::super::draft::{
    ToolCall, ToolResult, call_item, redacted_thinking_item, result_item, text_item, thinking_item,
};
use super::super::growing::Growing;
use super::super::source::Node;
use super::{Record, Rollout, part_item};
use threadseal_core::canon::json::{Value, parse};
use threadseal_formats::scroll::Role;

/// Members of an item that only its program needs.
const BOOKKEEPING: &str = "internal_chat_message_metadata_passthrough";

impl Rollout {
    /// One item.
    pub(super) fn item(&mut self, record: Record<'_, '_>) {
        let item = record.payload;
        let kind = item.peek_str("type");
        let kind = kind.or(item.peek_str("role").map(|_| "message"));
        match kind.unwrap_or_default() {
            "message" => self.message(record),
            "reasoning" => self.reasoning(record),
            "function_call" => self.call(record, "arguments"),
            "custom_tool_call" => self.call(record, "input"),
            "local_shell_call" | "web_search_call" => self.call(record, "action"),
            kind if kind.ends_with("_output") && item.peek_str("call_id").is_some() => {
                self.output(record);
            }
            _ => {
                let part = item.take();
                self.answer(record).items.push(part_item(part));
            }
        }
    }

    fn message(&mut self, record: Record<'_, '_>) {
        let item = record.payload;
        let said_by = item.told_by("role");
        let role = match said_by {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            _ => Role::System,
        };
        let turn = match role {
            Role::Assistant => self.answer(record),
            role => self.begin(role, record),
        };
        if role == Role::System {
            turn.source.set_some("said_by", said_by);
        }
        common(turn, item);
        let Some(content) = item.get("content") else {
            return;
        };
        if content.peek().as_str().is_some_and(|text| !text.is_empty()) {
            turn.items.extend(content.text().map(text_item));
        }
        for part in content.items().into_iter().flatten() {
            let kind = part.peek_str("type").unwrap_or_default();
            let text = matches!(kind, "input_text" | "output_text" | "text");
            if text && matches!(part.peek().get("text"), Some(Value::String(_))) {
                let _ = part.told_by("type");
                turn.items.extend(part.text_of("text").map(text_item));
                rest_onto(turn, part);
            } else if kind.is_empty() {
                turn.items.push(part_item(part.take()));
            } else {
                turn.items.push(part.take());
            }
        }
    }

    fn reasoning(&mut self, record: Record<'_, '_>) {
        let item = record.payload;
        let turn = self.answer(record);
        common(turn, item);
        for list in ["summary", "content"] {
            for part in item.get(list).and_then(Node::items).into_iter().flatten() {
                if matches!(part.peek().get("text"), Some(Value::String(_))) {
                    let _ = part.told_by("type");
                    turn.items.extend(part.text_of("text").map(thinking_item));
                    rest_onto(turn, part);
                } else {
                    turn.items.push(part_item(part.take()));
                }
            }
        }
        let encrypted = item.text_of("encrypted_content");
        turn.items.extend(encrypted.map(redacted_thinking_item));
    }

    fn call(&mut self, record: Record<'_, '_>, arguments: &str) {
        let item = record.payload;
        let turn = self.answer(record);
        let kind = item.peek_str("type").unwrap_or_default();
        let made_up = || format!("call-{}", record.line);
        let id = item.text_of("call_id").unwrap_or_else(made_up);
        let name = item
            .text_of("name")
            .unwrap_or_else(|| kind.trim_end_matches("_call").to_owned());
        let args = item.get(arguments).map_or(Value::Null, |node| {
            let spelled = (arguments == "arguments").then(|| node.take_spelled());
            spelled.flatten().unwrap_or_else(|| node.take())
        });
        turn.items.push(call_item(&id));
        turn.draft.tool_calls.push(ToolCall::new(id, name, args));
        common(turn, item);
        rest_onto(turn, item);
    }

    fn output(&mut self, record: Record<'_, '_>) {
        let item = record.payload;
        let id = item.text_of("call_id").unwrap_or_default();
        let response = item.get("output").map_or(Value::Null, Node::take);
        let turn = self.begin(Role::Tool, record);
        turn.items.push(result_item(&id));
        let result = ToolResult::new(id, did_work(&response), response);
        turn.draft.tool_results.push(result);
        common(turn, item);
        rest_onto(turn, item);
    }
}

/// Members that every item may have.
fn common(turn: &mut Growing, item: Node<'_, '_>) {
    let _ = item.told_by("type");
    turn.id(item.text_of("id"));
    turn.keep("phase", item.get("phase"));
    if item.peek_str("status") == Some("completed") {
        let _ = item.told_by("status");
    }
    turn.keep(
        "status",
        item.get("status").filter(|status| !status.is_marked()),
    );
    if let Some(bookkeeping) = item.get(BOOKKEEPING) {
        turn.source.set_some("turn", bookkeeping.text_of("turn_id"));
        super::discard_rest(bookkeeping, Reason::Metadata);
    }
}

/// Moves members that are nowhere else onto the most recent item.
fn rest_onto(turn: &mut Growing, node: Node<'_, '_>) {
    let Some(Value::Object(item)) = turn.items.last_mut() else {
        return;
    };
    let own = item.len();
    for (name, member) in node.members().into_iter().flatten() {
        let says_something = match member.peek() {
            Value::Null => false,
            Value::Array(elements) => !elements.is_empty(),
            _ => true,
        };
        let taken = item[..own].iter().any(|(known, _)| known == name);
        if says_something && !member.is_marked() && !taken {
            item.push((name.clone(), member.take()));
        }
    }
}

/// Whether a tool succeeded, by its own output.
///
/// It reads `success`, an exit code in the metadata, or the exit code in the lines before the
/// output proper.
fn did_work(output: &Value) -> bool {
    let inner = output.as_str().filter(|text| text.starts_with('{'));
    let inner = inner.and_then(|text| parse(text.as_bytes()).ok());
    let value = inner.as_ref().unwrap_or(output);
    let success = value.get("success").and_then(Value::as_bool);
    let metadata = value
        .get("metadata")
        .and_then(|metadata| metadata.get("exit_code"));
    let code = metadata.and_then(Value::as_i64);
    let header = output.as_str().and_then(exit_code);
    success != Some(false) && code.or(header).unwrap_or_default() == 0
}

fn exit_code(text: &str) -> Option<i64> {
    const HEADER_LINES: usize = 6;
    let header = text
        .lines()
        .take(HEADER_LINES)
        .take_while(|line| *line != "Output:");
    let told = header.filter_map(|line| line.strip_prefix("Process exited with code "));
    let or_short = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("Exit code: "));
    told.chain(or_short)
        .find_map(|code| code.trim().parse().ok())
}
