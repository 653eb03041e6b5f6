//! Hooks: what an agent sends on standard input, what it wants as an answer, and what follows from it.
//!
//! ```text
//! payload ─► Payload { event, session, logs } ─► watcher, or a seal of our own ─► Answer
//! {"session_id":…,"transcript_path":…,"cwd":…,"hook_event_name":…}                 Claude Code, Codex, Gemini, Qwen
//! {"sessionId":…,"transcriptPath":…,"cwd":…}                                       Copilot
//! {"session_id":…,"database":…,"cwd":…,"hook_event_name":…}                        our plugin of OpenCode
//! ```
//! A hook is never in the way of its agent: each member may be missing or of another type. What a
//! payload names is only looked at; content decides whether a file is a log of a session.

pub mod link;
pub mod requests;
pub mod troubles;

use crate::Agent;
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_store::atomic::{PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::sys::{Access, FileHandle, Fs, directory_of};

/// The most bytes of a payload: the results of tools are in it.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 20;

/// The most bytes of a name in a payload: of the event, the session, or a path.
pub const MAX_NAME_BYTES: usize = 4096;

/// The facts of a payload that capture needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    /// The agent's word for the event.
    pub event: String,
    /// The agent's id of the session.
    pub session: Option<String>,
    /// The logs that the payload names: of the session, and of a sub-agent.
    pub logs: Vec<PathBuf>,
    /// The database that has the session.
    pub database: Option<PathBuf>,
}

impl Payload {
    /// Reads a payload.
    ///
    /// # Errors
    /// Kind `InvalidInput` if it is no JSON object.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| Error::invalid(format!("the payload is no JSON: {error}")))?;
        if !value.is_object() {
            return Err(Error::invalid("the payload is no JSON object"));
        }
        let text = |names: &[&str]| {
            let found = names.iter().find_map(|name| value.get(name)?.as_str());
            found.filter(|text| !text.is_empty() && text.len() <= MAX_NAME_BYTES)
        };
        // Relative paths would depend on the folder of the hook.
        let path = |names: &[&str]| {
            text(names)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let logs = [
            path(&["transcript_path", "transcriptPath"]),
            path(&["agent_transcript_path", "agentTranscriptPath"]),
        ];
        Ok(Self {
            event: text(&["hook_event_name", "hookEventName", "event"])
                .unwrap_or_default()
                .to_owned(),
            session: text(&["session_id", "sessionId"]).map(str::to_owned),
            logs: logs.into_iter().flatten().collect(),
            database: path(&["database"]),
        })
    }

    /// Does the agent ask whether a tool may run?
    pub fn is_before_tool(&self) -> bool {
        matches!(&*self.event, "PreToolUse" | "BeforeTool" | "preToolUse")
    }
}

/// The text for standard output of the hook.
///
/// With `refusal`, the reason why the record cannot be sealed, a tool is refused that the agent asks
/// for. No other event is ever answered with more than what its agent needs.
pub fn answer(agent: Agent, payload: &Payload, refusal: Option<&str>) -> String {
    let refusal = refusal.filter(|_| payload.is_before_tool());
    let value = match (agent, refusal) {
        (Agent::Gemini, None) => json!({}),
        (_, None) => return String::new(),
        (Agent::Gemini, Some(why)) => json!({ "decision": "deny", "reason": why }),
        (Agent::Copilot, Some(why)) => json!({
            "permissionDecision": "deny",
            "permissionDecisionReason": why,
        }),
        (_, Some(why)) => json!({ "hookSpecificOutput": {
            "hookEventName": payload.event,
            "permissionDecision": "deny",
            "permissionDecisionReason": why,
        } }),
    };
    format!("{value}\n")
}

/// Opens a file of ours to append, and makes it and its folder if they are missing, for the user
/// alone.
fn open_to_append(fs: &dyn Fs, path: &Path) -> io::Result<Arc<dyn FileHandle>> {
    let absent = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    match fs.open(path, Access::Append) {
        Err(error) if absent(&error) => {}
        opened => return opened,
    }
    match fs.create_dir(directory_of(path), PRIVATE_DIRECTORY) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    match fs.open(path, Access::CreateNew(PRIVATE_FILE)) {
        // Another process made it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs.open(path, Access::Append),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_of_each_shape_name_their_logs() {
        let claude = br#"{"session_id":"s","transcript_path":"/p/s.jsonl","cwd":"/w","hook_event_name":"SubagentStop",
            "agent_transcript_path":"/p/s/subagents/agent-a.jsonl","tool_response":{"stdout":"x"}}"#;
        let read = Payload::read(claude).unwrap();
        assert_eq!(
            (&*read.event, read.session.as_deref()),
            ("SubagentStop", Some("s"))
        );
        let logs = ["/p/s.jsonl", "/p/s/subagents/agent-a.jsonl"].map(PathBuf::from);
        assert_eq!(read.logs, logs);
        let copilot =
            Payload::read(br#"{"sessionId":"c","transcriptPath":"/c/events.jsonl"}"#).unwrap();
        assert_eq!(copilot.logs, [PathBuf::from("/c/events.jsonl")]);
        let opencode = Payload::read(br#"{"session_id":"ses_1","database":"/d/opencode.db","hook_event_name":"session.idle"}"#);
        assert_eq!(
            opencode.unwrap().database,
            Some(PathBuf::from("/d/opencode.db"))
        );
    }

    // T-CAP-30
    #[test]
    fn a_payload_of_any_shape_is_read_or_refused_and_names_no_relative_path() {
        for text in ["", "[]", "1", "\"x\"", "{", "{}}", "\u{feff}{}"] {
            assert!(Payload::read(text.as_bytes()).is_err(), "{text}");
        }
        let long = format!("{{\"session_id\":\"{}\"}}", "x".repeat(MAX_NAME_BYTES + 1));
        for text in [
            "{}",
            "{\"transcript_path\":1,\"session_id\":[]}",
            "{\"transcript_path\":\"s.jsonl\"}",
            "{\"transcript_path\":null,\"hook_event_name\":\"\"}",
            &*long,
        ] {
            assert_eq!(
                Payload::read(text.as_bytes()).unwrap(),
                Payload::default(),
                "{text}"
            );
        }
    }

    // T-CAP-31
    #[test]
    fn only_a_tool_that_is_asked_for_is_refused() {
        let of = |event: &str| Payload {
            event: event.to_owned(),
            ..Payload::default()
        };
        for agent in Agent::ALL {
            let quiet = if agent == Agent::Gemini { "{}\n" } else { "" };
            for event in ["Stop", "SessionEnd", "PostToolUse", "AfterTool", ""] {
                assert_eq!(
                    answer(agent, &of(event), Some("no key")),
                    quiet,
                    "{agent} {event}"
                );
            }
            assert_eq!(answer(agent, &of("PreToolUse"), None), quiet, "{agent}");
            let refused = answer(agent, &of("PreToolUse"), Some("no key"));
            assert!(
                refused.contains("deny") && refused.contains("no key"),
                "{agent}"
            );
        }
    }
}
