//! mini-swe-agent trajectories: a list of messages, or an object that holds one.
//!
//! ```text
//! [{"role":"system|user|assistant","content":C},…]                                   first version
//! {"messages":[{"role","content","tool_calls","extra":{…}},…],"info":{…},
//!  "trajectory_format":"mini-swe-agent-1.1"}
//! ```
//!
//! A bare list of messages counts as such a file under two conditions. Each message has only `role`
//! and `content`, and the assistant writes commands between fences. A "line" is the number of the
//! message. Line 0 is the part that contains the messages.
//!
//! `spec/scroll-mappings.md` C4 has the table of members; `chat` reads the messages.

use super::account::{Account, Reason, Tokens};
use super::chat::{Chat, rest};
use super::draft::Draft;
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::{Node, Reading};
use super::thread::{Thread, document, says_nothing, seconds_ns, take_rest, vendor_of};
use threadseal_core::canon::json::Value;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "mini-swe-agent";
/// The fence of a command in the first version.
const FENCE: &str = "```";

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "mini-swe-agent trajectory (*.traj.json)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let why = "`trajectory_format`, or messages with commands between fences";
    Mark::when(is_ours(head), Confidence::Likely, why)
}

fn is_ours(head: &Head<'_>) -> bool {
    let Some(document) = &head.document else {
        return false;
    };
    let named = document.get("trajectory_format").and_then(Value::as_str);
    if named.is_some_and(|format| format.starts_with("mini-swe-agent")) {
        return true;
    }
    let bare = document.as_array().unwrap_or_default();
    let plain = |message: &Value| {
        let members = message.as_object().map_or(0, <[_]>::len);
        members == 2 && message.get("role").is_some() && content(message).is_some()
    };
    let acts = |message: &Value| {
        let assistant = message.get("role").and_then(Value::as_str) == Some("assistant");
        assistant && content(message).is_some_and(|text| text.contains(FENCE))
    };
    bare.iter().all(plain) && bare.iter().any(acts)
}

fn content(message: &Value) -> Option<&str> {
    message.get("content")?.as_str()
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let document = document(source)?;
    let mut account = Account::default();
    let mut thread = Thread::new(NAME);
    let reading = Reading::new(0, &document);
    let root = reading.root();
    let list = root.get("messages").unwrap_or(root);
    let mut run = Value::Object(Vec::new());
    take_rest(root, &mut run, &["messages"]);
    if !says_nothing(&run) {
        thread.head().set("run", run);
    }
    let config = document
        .get("info")
        .and_then(|info| info.get("config")?.get("model"));
    let model = config.and_then(|model| model.get("model_name")?.as_str());
    let messages = list.peek().as_array().map(|_| list.read());
    reading.finish(&mut account);
    let messages = messages.and_then(Value::as_array).unwrap_or_default();
    for (number, message) in (1..).zip(messages) {
        account.records += 1;
        if message.as_object().is_none() {
            account.unmapped(number, "not a JSON object");
            continue;
        }
        let reading = Reading::new(number, message);
        turn(reading.root(), number, model, &mut thread);
        reading.finish(&mut account);
    }
    Ok(thread.finish(account))
}

fn turn(node: Node<'_, '_>, number: u64, model: Option<&str>, thread: &mut Thread) {
    let chat = Chat::read(node, &format!("call-{number}"));
    let mut draft = Draft::new(chat.turn_role(), "");
    let known = matches!(chat.role.as_str(), "user" | "assistant" | "system" | "tool");
    let kind = (draft.role == Role::System && !known).then(|| chat.role.clone());
    chat.say(&mut draft);
    let mut source = thread.source(&[number]);
    source.set_some("kind", kind);
    let mut answered_by = None;
    if let Some(extra) = node.get("extra") {
        if let Some(response) = extra
            .get("response")
            .filter(|node| !says_nothing(node.peek()))
        {
            answered_by = response.text_of("model");
            if let Some(usage) = response
                .get("usage")
                .filter(|node| !says_nothing(node.peek()))
            {
                thread.spend(&mut source, tokens(usage.peek()));
                source.set("usage", usage.take());
            }
            for (name, part) in response.members().into_iter().flatten() {
                if name != "usage" && name != "model" {
                    part.discard(Reason::View);
                }
            }
        }
        let content = node.peek_str("content").unwrap_or_default();
        let raw = extra.peek_str("raw_output").unwrap_or_default();
        if !raw.is_empty() && content.contains(raw.trim()) {
            extra.discard_all(&["raw_output"], Reason::Duplicate);
        } else {
            source.set_some("raw_output", extra.take_of("raw_output"));
        }
        let time = extra.peek().get("timestamp").and_then(Value::as_f64);
        draft.timestamp_ns = time.and_then(seconds_ns);
        let mut facts = Value::Object(Vec::new());
        take_rest(extra, &mut facts, &["response", "raw_output"]);
        source.set_some("extra", Some(facts).filter(|facts| !says_nothing(facts)));
    }
    let model = answered_by.or_else(|| model.map(str::to_owned));
    draft.model.vendor = model.as_deref().map_or("", vendor_of).to_owned();
    draft.model.id = model.filter(|model| !model.is_empty());
    source.set_some("message_rest", rest(node, &["extra"]));
    thread.push(draft, source);
}

fn tokens(usage: &Value) -> Tokens {
    let of = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or_default();
    let detail = |group: &str, name: &str| of(usage.get(group).and_then(|group| group.get(name)));
    Tokens {
        input: of(usage.get("prompt_tokens")),
        output: of(usage.get("completion_tokens")),
        cached: detail("prompt_tokens_details", "cached_tokens"),
        reasoning: detail("completion_tokens_details", "reasoning_tokens"),
    }
}

#[cfg(test)]
mod tests;
