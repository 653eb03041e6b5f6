//! Cline sessions: one JSON object with messages in the words of Anthropic's API.
//!
//! ```text
//! {"version":1,"updated_at":T,"agent":A,"sessionId":S,"system_prompt":P,
//!  "messages":[{"id":I,"role":"user|assistant","content":TEXT|[BLOCK,…],"ts":MS,
//!               "modelInfo":{"id","provider","family"},"metrics":{"inputTokens",…},
//!               "metadata":{"kind",…}},…]}
//! ```
//!
//! A "line" is the number of the message. Line 0 is the part that contains the messages.
//!
//! `spec/scroll-mappings.md` C14 has the table of members.

use super::account::{Account, Reason, Tokens};
use super::chat::{Chat, rest};
use super::draft::{Draft, Message, text_item};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, Reading};
use super::thread::{
    Thread, count_of, document, each_element, ms_to_ns, set_texts, set_values, sum_of, take_rest,
};
use threadseal_core::canon::json::Value;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "cline";
/// Members of a message that a rule of its own reads.
const TOLD: [&str; 5] = ["id", "ts", "modelInfo", "metrics", "metadata"];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Cline session (~/.cline/data/sessions/*/*.messages.json)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let ours = head.document.as_ref().is_some_and(|document| {
        let has = |name: &str| document.get(name).is_some();
        let messages = document.get("messages").and_then(Value::as_array).is_some();
        messages && has("agent") && has("sessionId") && has("updated_at")
    });
    let why = "an object with `agent`, `sessionId`, `updated_at` and `messages`";
    Mark::when(ours, Confidence::Certain, why)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let document = document(source)?;
    let mut account = Account::default();
    let mut thread = Thread::new(NAME);
    let reading = Reading::new(0, &document);
    let root = reading.root();
    let session = root.text_of("sessionId");
    let messages = root.get("messages").map(Node::read);
    let system = root.text_of("system_prompt");
    let mut info = Value::Object(Vec::new());
    take_rest(root, &mut info, &["messages", "sessionId", "system_prompt"]);
    thread.head().set("session_info", info);
    reading.finish(&mut account);
    if let Some(system) = system.filter(|system| !system.is_empty()) {
        let mut draft = Draft::new(Role::System, "");
        let items = vec![text_item(system)];
        draft.messages.push(Message::items(Role::System, items));
        let mut source = thread.source(&[0]);
        source.set_some("session", session.as_deref());
        thread.push(draft, source);
    }
    let messages = messages.and_then(Value::as_array).unwrap_or_default();
    each_element(messages, &mut account, |root, number| {
        message(root, number, session.as_deref(), &mut thread);
        Ok(())
    });
    Ok(thread.finish(account))
}

fn message(root: Node<'_, '_>, number: u64, session: Option<&str>, thread: &mut Thread) {
    let chat = Chat::read(root, &format!("call-{number}"));
    let mut draft = Draft::new(chat.turn_role(), "");
    chat.say(&mut draft);
    let mut source = thread.source(&[number]);
    source.set_some("session", session);
    set_texts(&mut source, root, &[("id", "id")]);
    if let Some(moment) = root.get("ts") {
        draft.timestamp_ns = ms_to_ns(moment.peek());
        source.set("moment", moment.take());
    }
    if let Some(model) = root.get("modelInfo") {
        draft.model.id = model.text_of("id").filter(|id| !id.is_empty());
        draft.model.vendor = model.text_of("provider").unwrap_or_default();
        set_texts(&mut source, model, &[("family", "family")]);
    }
    if let Some(metrics) = root
        .get("metrics")
        .filter(|metrics| metrics.peek().as_object().is_some())
    {
        thread.spend(&mut source, tokens(metrics.peek()));
        source.set("usage", metrics.take());
    }
    match root.get("metadata") {
        Some(metadata) if repeats_summary(metadata, &draft) => {
            metadata.discard_all(&["summary"], Reason::Duplicate);
            let mut kept = Value::Object(Vec::new());
            take_rest(metadata, &mut kept, &["summary"]);
            source.set("metadata", kept);
        }
        _ => set_values(&mut source, root, &[("metadata", "metadata")]),
    }
    source.set_some("message_rest", rest(root, &TOLD));
    thread.push(draft, source);
}

/// Whether a message contains the summary in its metadata.
fn repeats_summary(metadata: Node<'_, '_>, draft: &Draft) -> bool {
    let Some(summary) = metadata.peek_str("summary") else {
        return false;
    };
    let items = draft.messages.iter();
    let items = items.filter_map(|message| message.content.as_array());
    let mut texts = items
        .flatten()
        .filter_map(|item| item.get("text")?.as_str());
    texts.any(|text| summary.len() <= text.len() && text.contains(summary))
}

/// Counts tokens. The input includes the cache; where it is less than that, it is beside it.
fn tokens(metrics: &Value) -> Tokens {
    let input = count_of(metrics, "inputTokens");
    let cache = sum_of(metrics, &["cacheReadTokens", "cacheWriteTokens"]);
    Tokens {
        input: if input < cache {
            input.saturating_add(cache)
        } else {
            input
        },
        output: count_of(metrics, "outputTokens"),
        cached: count_of(metrics, "cacheReadTokens"),
        reasoning: count_of(metrics, "reasoningTokens"),
    }
}

#[cfg(test)]
mod tests;
