//! The items of a Responses conversation, and their form in a scroll.
//!
//! `spec/scroll-mappings.md` W4 has the table of items. An item may become a call, a result or
//! reasoning. Its `id` and `status` are then members of the item that holds its place.

use super::super::super::account::{Account, object};
use super::super::super::draft::{
    Draft, ToolCall, ToolResult, call_item, redacted_thinking_item, result_item, thinking_item,
};
use super::super::super::source::Node;
use super::super::stream::into_members;
use super::super::talk::{Talk, arguments, part_item, take_some};
use threadseal_core::canon::json::{Text, Value};

/// The author of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The one that `role` names.
    Message,
    /// The model.
    Model,
    /// A tool that the program ran.
    Result,
}

/// Calls that the program carries out: type, and the members that are its arguments.
const CALLS: [(&str, &[&str]); 4] = [
    ("local_shell_call", &["action"]),
    ("shell_call", &["action", "environment"]),
    ("apply_patch_call", &["operation"]),
    (
        "computer_call",
        &["action", "actions", "pending_safety_checks"],
    ),
];

/// Calls that the vendor carries out: type, arguments, response.
const BUILT_IN: [(&str, &[&str], &[&str]); 6] = [
    ("web_search_call", &["action"], &["results"]),
    ("file_search_call", &["queries"], &["results"]),
    (
        "code_interpreter_call",
        &["code", "container_id"],
        &["outputs"],
    ),
    (
        "image_generation_call",
        &["action", "background", "output_format", "quality", "size"],
        &["result", "revised_prompt"],
    ),
    (
        "mcp_call",
        &["arguments", "server_label"],
        &["output", "error"],
    ),
    ("mcp_list_tools", &["server_label"], &["tools", "error"]),
];

const RESULTS: [&str; 6] = [
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
    "computer_call_output",
];

pub(super) fn is_item(value: &Value) -> bool {
    value
        .get("type")
        .is_some_and(|kind| kind.as_str().is_some())
        || (value.get("role").is_some() && value.get("content").is_some())
}

pub(super) fn kind(item: &Value) -> Kind {
    match type_of(item) {
        "message" => Kind::Message,
        "" if item.get("role").is_some() => Kind::Message,
        word if RESULTS.contains(&word) => Kind::Result,
        // The program's answer to a request of the model.
        "mcp_approval_response" => Kind::Result,
        _ => Kind::Model,
    }
}

fn type_of(item: &Value) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// The turn that items are added to.
pub(super) struct Turn<'t> {
    pub(super) talk: &'t mut Talk,
    pub(super) account: &'t mut Account,
    pub(super) draft: &'t mut Draft,
    pub(super) items: &'t mut Vec<Value>,
}

impl Turn<'_> {
    pub(super) fn item(&mut self, item: Node<'_, '_>) {
        let word = type_of(item.peek()).to_owned();
        let call = CALLS.into_iter().find(|(known, _)| *known == word);
        let built_in = BUILT_IN.into_iter().find(|(known, ..)| *known == word);
        match (kind(item.peek()), call, built_in) {
            (Kind::Message, ..) => self.message(item),
            (Kind::Result, ..) if RESULTS.contains(&word.as_str()) => self.result(item),
            (_, Some((_, names)), _) => {
                let args = pick(item, names);
                self.call(item, word.trim_end_matches("_call"), args);
            }
            (.., Some((_, args, response))) => self.built_in(item, &word, args, response),
            _ if word == "function_call" => {
                let name = item.text_of("name").unwrap_or_default();
                let args = item.get("arguments").map(arguments);
                let args = args.unwrap_or_else(|| Value::Object(Vec::new()));
                self.call(item, &name, args);
            }
            _ if word == "custom_tool_call" => {
                let name = item.text_of("name").unwrap_or_default();
                let input = take_some(item, "input").unwrap_or_else(|| "".into());
                self.call(item, &name, input);
            }
            _ if word == "reasoning" => self.reasoning(item),
            _ => self.items.push(part_item(item.take())),
        }
    }

    fn message(&mut self, item: Node<'_, '_>) {
        let _ = item.told_by("type");
        let first = self.items.len();
        if let Some(content) = item.get("content") {
            match content.items() {
                Some(parts) => self.items.extend(parts.map(part)),
                None => match content.take() {
                    text @ Value::String(_) => {
                        self.items
                            .push(object([("type", "text".into()), ("text", text)]));
                    }
                    Value::Null => {}
                    other => self.items.push(part_item(other)),
                },
            }
        }
        if self.items.len() == first && item.peek().get("id").is_some() {
            self.items
                .push(object([("type", "text".into()), ("text", "".into())]));
        }
        if let Some(last) = self.items.get_mut(first) {
            name_item(item, last);
        }
    }

    fn reasoning(&mut self, item: Node<'_, '_>) {
        let _ = item.told_by("type");
        let mut made = Vec::new();
        for (name, is_summary) in [("summary", true), ("content", false)] {
            for part in item.get(name).and_then(Node::items).into_iter().flatten() {
                let Some(text) = part.text_of("text") else {
                    made.push(part_item(part.take()));
                    continue;
                };
                let _ = part.told_by("type");
                let mut members = into_members(thinking_item(text));
                if is_summary {
                    members.push(("summary".into(), true.into()));
                }
                made.push(Value::Object(members));
            }
        }
        if let Some(data) = take_some(item, "encrypted_content") {
            made.push(redacted_thinking_item(data));
        }
        if made.is_empty() {
            made.push(object([("type", "reasoning".into())]));
        }
        if let Some(first) = made.first_mut() {
            name_item(item, first);
        }
        self.items.extend(made);
    }

    fn call(&mut self, item: Node<'_, '_>, name: &str, args: Value) {
        let _ = item.told_by("type");
        let id = item.text_of("call_id").or_else(|| item.text_of("id"));
        let id = id.unwrap_or_else(|| self.talk.unnamed("tool_calls.id", self.account));
        let mut place = call_item(&id);
        name_item(item, &mut place);
        self.items.push(place);
        self.draft
            .tool_calls
            .push(ToolCall::new(id, name.to_owned(), args));
    }

    fn result(&mut self, item: Node<'_, '_>) {
        let _ = item.told_by("type");
        let id = item.text_of("call_id").or_else(|| item.text_of("id"));
        let id = id.unwrap_or_else(|| self.talk.unnamed("tool_results.id", self.account));
        let response = item.get("output").map_or_else(|| "".into(), Node::take);
        let ok = item.peek_str("status") != Some("failed");
        let mut place = result_item(&id);
        name_item(item, &mut place);
        self.items.push(place);
        self.draft
            .tool_results
            .push(ToolResult::new(id, ok, response));
    }

    fn built_in(&mut self, item: Node<'_, '_>, word: &str, args: &[&str], response: &[&str]) {
        let name = item.text_of("name");
        let name = name.unwrap_or_else(|| word.trim_end_matches("_call").to_owned());
        let failed = item
            .peek()
            .get("error")
            .is_some_and(|error| !error.is_null())
            || matches!(item.peek_str("status"), Some("failed" | "incomplete"));
        let args = pick(item, args);
        let answered = response.iter().any(|name| item.peek().get(name).is_some());
        let response = pick(item, response);
        let called = self.draft.tool_calls.len();
        self.call(item, &name, args);
        let id = self
            .draft
            .tool_calls
            .get(called)
            .map(|call| call.id.clone());
        if let Some(id) = id.filter(|_| answered || failed) {
            self.items.push(result_item(&id));
            self.draft
                .tool_results
                .push(ToolResult::new(id, !failed, response));
        }
    }
}

/// The members of `item` called `names`, as an object; `arguments` may be JSON in a string.
fn pick(item: Node<'_, '_>, names: &[&str]) -> Value {
    let member = |name: &&str| {
        let node = item.get(name)?;
        let value = match *name {
            "arguments" => arguments(node),
            _ if node.peek().is_null() => return None,
            _ => node.take(),
        };
        Some((Text::from(*name), value))
    };
    Value::Object(names.iter().filter_map(member).collect())
}

/// Adds `id`, `status` and `phase` of `item` to `made`.
fn name_item(item: Node<'_, '_>, made: &mut Value) {
    let Value::Object(members) = made else { return };
    for (name, member) in [("id", "item"), ("status", "status"), ("phase", "phase")] {
        let Some(node) = item.get(name) else { continue };
        let used = name == "id" && node.peek().as_str().is_some_and(|id| has_id(members, id));
        if !used && !super::super::talk::says_nothing(node.peek()) {
            members.push((member.into(), node.take()));
        }
    }
}

fn has_id(members: &[(Text, Value)], id: &str) -> bool {
    members
        .iter()
        .any(|(name, value)| *name == *"id" && value.as_str() == Some(id))
}

fn part(part: Node<'_, '_>) -> Value {
    let word = type_of(part.peek());
    if !matches!(word, "input_text" | "output_text" | "text") {
        return part_item(part.take());
    }
    let _ = part.told_by("type");
    let text = take_text(part);
    let mut members = into_members(object([("type", "text".into()), ("text", text)]));
    for name in ["annotations", "logprobs"] {
        if let Some(value) = take_some(part, name) {
            members.push((name.into(), value));
        }
    }
    Value::Object(members)
}

fn take_text(part: Node<'_, '_>) -> Value {
    part.get("text").map_or_else(|| "".into(), Node::take)
}
