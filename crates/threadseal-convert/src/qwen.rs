//! Qwen Code sessions: JSON Lines that form a tree, messages in Google's words.
//!
//! ```text
//! {"uuid":U,"parentUuid":P|null,"sessionId":S,"timestamp":T,"type":"user","cwd","version",
//!  "message":{"role":"user","parts":[{"text"},…]}}
//! {…,"type":"assistant","model":M,"message":{"role":"model","parts":[{"text","thought"?},
//!  {"functionCall":{"id","name","args"}},…]},"usageMetadata":{…}}
//! {…,"type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{…}}]},
//!  "toolCallResult":{"callId","status","resultDisplay",…}}
//! {…,"type":"system","subtype":W,"systemPayload":{…}}
//! ```
//!
//! `spec/scroll-mappings.md` C13 has the table of members.

use super::account::{Account, Reason, Tokens};
use super::chat::Chat;
use super::draft::{Draft, Message, text_item};
use super::format::{Confidence, Format, Head, Mark};
use super::mapped::Mapped;
use super::source::Node;
use super::thread::{
    Thread, count_of, each_line, fingerprint, part_item, set_texts, set_time, set_values, sum_of,
    unknown_kind,
};
use std::collections::HashSet;
use threadseal_core::canon::json::Value;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_formats::scroll::Role;

const NAME: &str = "qwen-code";
/// System records without content of the conversation, by their subtype.
const BOOKKEEPING: [&str; 15] = [
    "ui_telemetry",
    "attribution_snapshot",
    "file_history_snapshot",
    "session_model",
    "session_approval_mode",
    "session_execution_engine",
    "session_source",
    "parent_session",
    "session_artifact_event",
    "session_artifact_snapshot",
    "session_sources_snapshot",
    "branch_checkpoint",
    "agent_session_ready",
    "agent_retry",
    "turn_result",
];
const METADATA: [&str; 8] = [
    "cwd",
    "version",
    "gitBranch",
    "provenance",
    "contextWindowSize",
    "agentColor",
    "daemonPromptId",
    "deliveredTurn",
];

pub(super) const FORMAT: Format = Format {
    name: NAME,
    about: "Qwen Code session (~/.qwen/projects/*/chats/*.jsonl)",
    detect,
    map,
};

fn detect(head: &Head<'_>) -> Option<Mark> {
    let ours = |line: &Value| {
        let parts = line.get("message").and_then(|message| message.get("parts"));
        let named = line.get("uuid").is_some() && line.get("sessionId").is_some();
        named && (parts.is_some() || line.get("systemPayload").is_some())
    };
    let why = "lines with `uuid`, `sessionId` and a message of `parts`";
    Mark::when(head.lines.iter().any(ours), Confidence::Certain, why)
}

fn map(source: &[u8]) -> Result<Mapped, Error> {
    let mut account = Account::default();
    let mut session = Session {
        thread: Thread::new(NAME),
        said: HashSet::new(),
        seen: HashSet::new(),
    };
    each_line(source, &mut account, |root, line| {
        session.record(root, line)
    });
    Ok(session.thread.finish(account))
}

struct Session {
    thread: Thread,
    /// The parts of the messages so far.
    said: HashSet<Digest>,
    /// The records with a `uuid` so far.
    seen: HashSet<Digest>,
}

impl Session {
    fn record(&mut self, root: Node<'_, '_>, line: u64) -> Result<(), String> {
        if root.peek_str("uuid").is_some() && !self.seen.insert(fingerprint(root.peek())) {
            root.discard(Reason::Duplicate);
            return Ok(());
        }
        let kind = root.peek_str("type").unwrap_or_default();
        let subtype = root.peek_str("subtype").unwrap_or_default();
        match kind {
            "user" | "assistant" | "tool_result" => self.message(root, line)?,
            "system" if BOOKKEEPING.contains(&subtype) => root.discard(Reason::Metadata),
            "system" if root.peek().get("message").is_some() => self.message(root, line)?,
            "system" => self.system(root, line),
            _ => return Err(unknown_kind("record", root.peek().get("type"))),
        }
        Ok(())
    }

    fn message(&mut self, root: Node<'_, '_>, line: u64) -> Result<(), String> {
        let message = root
            .get("message")
            .filter(|message| message.peek().as_object().is_some());
        let message = message.ok_or("no message")?;
        let _ = root.told_by("type");
        if let Some(parts) = message.peek().get("parts") {
            self.said.insert(fingerprint(parts));
        }
        let mut chat = Chat::read(message, &format!("call-{line}"));
        self.status(root, &mut chat);
        let mut draft = Draft::new(chat.turn_role(), "");
        chat.say(&mut draft);
        draft.model.id = root.text_of("model").filter(|model| !model.is_empty());
        self.push(root, line, draft);
        Ok(())
    }

    /// Reads what the program shows of a result; its status is that of the result.
    fn status(&self, root: Node<'_, '_>, chat: &mut Chat) {
        let Some(shown) = root.get("toolCallResult") else {
            return;
        };
        let status = shown.told_by("status");
        let failed = status.is_some_and(|status| status != "success");
        for result in chat.results.iter_mut().filter(|_| failed) {
            result.ok = false;
        }
        shown.discard_all(&["callId"], Reason::Duplicate);
        for (name, member) in shown.members().into_iter().flatten() {
            if !member.is_marked() && name != "status" {
                member.discard(Reason::View);
            }
        }
    }

    /// A record of the program: its payload is the content.
    fn system(&mut self, root: Node<'_, '_>, line: u64) {
        let _ = root.told_by("type");
        let mut items = Vec::new();
        if let Some(payload) = root.get("systemPayload") {
            let text = ["customTitle", "rawCommand", "displayText", "content"]
                .into_iter()
                .find(|name| payload.peek_str(name).is_some());
            if let Some(list) = payload.get("compressedHistory") {
                self.compressed(list, &mut items);
                payload.discard_all(&["promptIds", "completedToolCallIds"], Reason::Metadata);
                items.extend(payload.get("info").map(part_item));
                payload.discard_all(&["notes"], Reason::Metadata);
            } else if let Some(name) = text {
                items.extend(payload.text_of(name).map(text_item));
                for (_, member) in payload.members().into_iter().flatten() {
                    if !member.is_marked() {
                        items.push(part_item(member));
                    }
                }
            } else {
                items.push(part_item(payload));
            }
        }
        let mut draft = Draft::new(Role::System, "");
        draft.messages.push(Message::items(Role::System, items));
        self.push(root, line, draft);
    }

    /// The history after a compression: what the conversation holds is dropped.
    fn compressed(&mut self, list: Node<'_, '_>, items: &mut Vec<Value>) {
        for content in list.items().into_iter().flatten() {
            let parts = content.peek().get("parts");
            if parts.is_some_and(|parts| self.said.contains(&fingerprint(parts))) {
                content.discard(Reason::Duplicate);
            } else {
                items.push(part_item(content));
            }
        }
    }

    fn push(&mut self, root: Node<'_, '_>, line: u64, mut draft: Draft) {
        let mut source = self.thread.source(&[line]);
        let names = [
            ("id", "uuid"),
            ("parent", "parentUuid"),
            ("session", "sessionId"),
            ("kind", "subtype"),
            ("turn", "promptId"),
            ("agent", "agentId"),
            ("agent_name", "agentName"),
        ];
        set_texts(&mut source, root, &names);
        let names = [
            ("sidechain", "isSidechain"),
            ("forked_from", "forkedFrom"),
            ("goal", "goalContext"),
            ("background_turn", "backgroundTurn"),
            ("agent_run", "agentRunId"),
            ("agent_round", "agentRound"),
            ("input_kind", "externalInputKind"),
        ];
        set_values(&mut source, root, &names);
        if draft.role != Role::System {
            set_values(&mut source, root, &[("payload", "systemPayload")]);
        }
        set_time(&mut draft, &mut source, root, "timestamp");
        if let Some(usage) = root
            .get("usageMetadata")
            .filter(|usage| usage.peek().as_object().is_some())
        {
            self.thread.spend(&mut source, tokens(usage.peek()));
            source.set("usage", usage.take());
        }
        root.discard_all(&METADATA, Reason::Metadata);
        self.thread.push(draft, source);
    }
}

/// Counts tokens. Of some vendors the output includes the reasoning; the total distinguishes them.
fn tokens(usage: &Value) -> Tokens {
    let (input, output) = (
        count_of(usage, "promptTokenCount"),
        count_of(usage, "candidatesTokenCount"),
    );
    let reasoning = count_of(usage, "thoughtsTokenCount");
    let tool = count_of(usage, "toolUsePromptTokenCount");
    let all = sum_of(
        usage,
        &[
            "promptTokenCount",
            "candidatesTokenCount",
            "thoughtsTokenCount",
            "toolUsePromptTokenCount",
        ],
    );
    let apart = count_of(usage, "totalTokenCount") == all;
    Tokens {
        input: input.saturating_add(tool),
        output: if apart {
            output.saturating_add(reasoning)
        } else {
            output
        },
        cached: count_of(usage, "cachedContentTokenCount"),
        reasoning,
    }
}

#[cfg(test)]
mod tests;
