//! Continue sessions: one JSON object, from the command line and the editors.
//!
//! ```text
//! {"sessionId":S,"title":T,"workspaceDirectory":D,"history":[ITEM,…],"usage":{…}}
//! ITEM: {"message":{"role":"user|assistant|thinking|system|tool","content":C,"toolCalls":[…],
//!                   "toolCallId":I,"usage":{…}},
//!        "contextItems":[…],"editorState":…,"promptLogs":[…],"reasoning":{"text",…},
//!        "toolCallStates":[{"toolCallId","toolCall":CALL,"status","parsedArgs","output":[…]},…]}
//! ```
//!
//! A "line" is the number of the item. Line 0 is the part that contains the items.
//!
//! `spec/scroll-mappings.md` C15 has the table of members.

use super::account::{Account, Reason, Tokens};
use super::chat::{Chat, rest};
use super::draft::{Draft, Message, ToolResult, result_item, text_item, thinking_item};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, Reading};
use super::thread::{
    Thread, count_of, document, each_element, extend, part_item, set_values, sum_of, take_rest,
};
use std::collections::HashSet;
use threadseal_core::canon::json::Value;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "continue";

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Continue session (~/.continue/sessions/*.json)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let ours = head.document.as_ref().is_some_and(|document| {
        let history = document.get("history").and_then(Value::as_array);
        let item = |item: &Value| item.get("message").is_some();
        document.get("sessionId").is_some()
            && (document.get("workspaceDirectory").is_some() || document.get("title").is_some())
            && history.is_some_and(|history| history.iter().all(item))
    });
    let why = "an object with `sessionId` and a `history` of items with `message`";
    Mark::when(ours, Confidence::Certain, why)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let document = document(source)?;
    let mut account = Account::default();
    let mut thread = Thread::new(NAME);
    let reading = Reading::new(0, &document);
    let root = reading.root();
    let id = root.text_of("sessionId");
    let history = root.get("history").map(Node::read);
    let usage = root.peek().get("usage").map(tokens).unwrap_or_default();
    let mut info = Value::Object(Vec::new());
    take_rest(root, &mut info, &["history", "sessionId"]);
    thread.head().set("session_info", info);
    reading.finish(&mut account);
    let history = history.and_then(Value::as_array).unwrap_or_default();
    thread.count(spent(usage, history));
    let mut session = Session {
        thread,
        id,
        answered: history.iter().filter_map(answered).collect(),
    };
    each_element(history, &mut account, |root, number| {
        session.item(root, number)
    });
    Ok(session.thread.finish(account))
}

/// The call that a message of a tool answers.
fn answered(item: &Value) -> Option<String> {
    let message = item.get("message")?;
    Some(message.get("toolCallId")?.as_str()?.to_owned())
}

struct Session {
    thread: Thread,
    id: Option<String>,
    /// Calls that a message answers.
    answered: HashSet<String>,
}

impl Session {
    fn item(&mut self, root: Node<'_, '_>, number: u64) -> Result<(), String> {
        let message = root
            .get("message")
            .filter(|message| message.peek().as_object().is_some());
        let message = message.ok_or("no message")?;
        let mut source = self.thread.source(&[number]);
        source.set_some("session", self.id.as_deref());
        let mut draft = match message.peek_str("role") {
            Some("tool") => answer(message, number),
            Some("thinking") => thought(message),
            _ => said(root, message, number),
        };
        self.states(root, &mut draft);
        if let Some(usage) = message
            .get("usage")
            .filter(|usage| usage.peek().as_object().is_some())
        {
            source.set_tokens(tokens(usage.peek()));
            source.set("usage", usage.take());
        }
        let told = [
            "role",
            "toolCallId",
            "usage",
            "signature",
            "redactedThinking",
        ];
        source.set_some("message_rest", rest(message, &told));
        let names = [("rules", "appliedRules"), ("modifiers", "modifiers")];
        set_values(&mut source, root, &names);
        root.discard_all(
            &["editorState", "promptLogs", "isGatheringContext"],
            Reason::View,
        );
        self.thread.push(draft, source);
        Ok(())
    }

    /// The states of calls: results that no message has.
    fn states(&self, root: Node<'_, '_>, draft: &mut Draft) {
        let states = root.get("toolCallStates").and_then(Node::items);
        let mut items = Vec::new();
        for state in states.into_iter().flatten() {
            let Some(id) = state.text_of("toolCallId") else {
                continue;
            };
            let view = [
                "toolCall",
                "parsedArgs",
                "processedArgs",
                "tool",
                "mcpUiState",
            ];
            state.discard_all(&view, Reason::View);
            let status = state.told_by("status").unwrap_or_default();
            let Some(output) = state
                .get("output")
                .filter(|output| !output.peek().is_null())
            else {
                continue;
            };
            if self.answered.contains(&id) {
                output.discard(Reason::View);
                continue;
            }
            let ok = !matches!(status, "errored" | "canceled");
            let mut item = result_item(&id);
            if !matches!(status, "done" | "errored") {
                extend(&mut item, "status", Some(status.into()));
            }
            items.push(item);
            draft
                .tool_results
                .push(ToolResult::new(id, ok, output.take()));
        }
        if let Some(Value::Array(all)) = draft.messages.last_mut().map(|last| &mut last.content) {
            all.extend(items);
        }
    }
}

/// A message of a human, a model or the program, with what was given to it.
fn said(root: Node<'_, '_>, message: Node<'_, '_>, number: u64) -> Draft {
    let mut chat = Chat::read(message, &format!("call-{number}"));
    if let Some(reasoning) = root.get("reasoning") {
        let text = reasoning.text_of("text").filter(|text| !text.is_empty());
        let said = |item: &Value| item.get("thinking").and_then(Value::as_str) == text.as_deref();
        if text.is_some() && !chat.items.iter().any(said) {
            chat.items.splice(0..0, text.map(thinking_item));
        }
        reasoning.discard_all(&["active", "startAt", "endAt"], Reason::Metadata);
    }
    let context = root.get("contextItems").and_then(Node::items);
    chat.items
        .extend(context.into_iter().flatten().map(part_item));
    let summary = root.text_of("conversationSummary");
    let mut draft = Draft::new(chat.turn_role(), "");
    chat.say(&mut draft);
    if let Some(summary) = summary.filter(|summary| !summary.is_empty()) {
        let items = vec![text_item(summary)];
        draft.messages.push(Message::items(Role::System, items));
    }
    draft
}

fn thought(message: Node<'_, '_>) -> Draft {
    let _ = message.told_by("role");
    let mut draft = Draft::new(Role::Assistant, "");
    let mut items = Vec::new();
    if let Some(text) = message.text_of("content").filter(|text| !text.is_empty()) {
        let mut item = thinking_item(text);
        extend(&mut item, "signature", message.take_of("signature"));
        items.push(item);
    }
    if let Some(data) = message.text_of("redactedThinking") {
        items.push(super::draft::redacted_thinking_item(data));
    }
    draft.messages.push(Message::items(Role::Assistant, items));
    draft
}

fn answer(message: Node<'_, '_>, number: u64) -> Draft {
    let _ = message.told_by("role");
    let id = message.text_of("toolCallId");
    let id = id.unwrap_or_else(|| format!("result-{number}"));
    let response = message.get("content").map_or(Value::Null, Node::take);
    let mut draft = Draft::new(Role::Tool, "");
    let items = vec![result_item(&id)];
    draft.messages.push(Message::items(Role::Tool, items));
    draft.tool_results.push(ToolResult::new(id, true, response));
    draft
}

/// The tokens of a session: its own sum where it has one, which also counts messages that were
/// compacted; else the sum of its messages.
fn spent(own: Tokens, history: &[Value]) -> Tokens {
    let mut sum = Tokens::default();
    for item in history {
        let usage = item.get("message").and_then(|message| message.get("usage"));
        sum.add(usage.map(tokens).unwrap_or_default());
    }
    Tokens {
        input: if own.input > 0 { own.input } else { sum.input },
        output: if own.output > 0 {
            own.output
        } else {
            sum.output
        },
        cached: own.cached.max(sum.cached),
        reasoning: own.reasoning.max(sum.reasoning),
    }
}

/// Counts tokens, in the words of the program or of `OpenAI`'s API.
fn tokens(usage: &Value) -> Tokens {
    let of = |names: [&str; 2]| sum_of(usage, &names);
    let details = |names: [&str; 2], counts: [&str; 2]| {
        let details = names.iter().find_map(|name| usage.get(name));
        let count = |details| counts.iter().map(|name| count_of(details, name)).max();
        details.and_then(count).unwrap_or_default()
    };
    Tokens {
        input: of(["promptTokens", "prompt_tokens"]),
        output: of(["completionTokens", "completion_tokens"]),
        cached: details(
            ["promptTokensDetails", "prompt_tokens_details"],
            ["cachedTokens", "cached_tokens"],
        ),
        reasoning: details(
            ["completionTokensDetails", "completion_tokens_details"],
            ["reasoningTokens", "reasoning_tokens"],
        ),
    }
}

#[cfg(test)]
mod tests;
