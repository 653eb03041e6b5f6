//! Hooks: what an agent sends on standard input, what it wants as an answer, and what follows from it.
//!
//! ```text
//! payload ─► Payload { event, session, logs } ─► watcher, or a seal of our own ─► Answer
//! {"session_id":…,"transcript_path":…,"cwd":…,"hook_event_name":…}                 Claude Code, Codex, Gemini, Qwen
//! {"sessionId":…,"transcriptPath":…,"cwd":…}                                       Copilot
//! {"session_id":…,"database":…,"cwd":…,"hook_event_name":…}                        our plugin of OpenCode
//! ```
//! An event without a path, as some of Copilot, is about the log of its session in the agent's folders.
//! A hook is never in the way of its agent: each member may be missing or of another type. What a
//! payload names is only looked at; content decides whether a file is a log of a session.

pub mod link;
pub mod requests;
pub mod troubles;

use crate::Agent;
use crate::agent::machine::Machine;
use crate::agent::places::LogFolder;
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use threadseal_core::error::Error;
use threadseal_store::atomic::{PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::sys::{Access, FileHandle, Fs, directory_of};

/// The most bytes of a payload: the results of tools are in it.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 20;

/// The most bytes of a name in a payload: of the event, the session, or a path.
pub const MAX_NAME_BYTES: usize = 4096;

/// The most logs that are found for an event that names none: of a session and its subagents.
pub const MAX_LOCATED: usize = 64;

/// The facts of a payload that capture needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    /// The agent's word for the event.
    pub event: String,
    /// The agent's id of the session.
    pub session: Option<String>,
    /// The logs that the payload names: of the session, and of a subagent.
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
                .or_else(|| event_of_copilot(&value))
                .unwrap_or_default()
                .to_owned(),
            session: text(&["session_id", "sessionId"]).map(str::to_owned),
            logs: logs.into_iter().flatten().collect(),
            database: path(&["database"]),
        })
    }

    /// The same with the logs of its session in the folders of `agent`, if it names none. Where it
    /// names no session either, the log that was written last is sealed.
    #[must_use]
    pub fn located(mut self, agent: Agent, machine: &Machine) -> Self {
        if !self.logs.is_empty() || self.database.is_some() {
            return self;
        }
        let folders = agent.logs(machine);
        let logs = folders.iter().flat_map(LogFolder::logs);
        self.logs = match &self.session {
            Some(id) => logs
                .filter(|log| is_named_by(log, id))
                .take(MAX_LOCATED)
                .collect(),
            None => logs.max_by_key(|log| modified(log)).into_iter().collect(),
        };
        self
    }

    /// Does the agent ask whether a tool may run?
    pub fn is_before_tool(&self) -> bool {
        matches!(&*self.event, "PreToolUse" | "BeforeTool" | "preToolUse")
    }
}

/// The event of a payload of Copilot CLI 1.0, which names none: the first of these members shows it.
fn event_of_copilot(payload: &Value) -> Option<&'static str> {
    const EVENTS: [(&str, &str); 7] = [
        ("trigger", "preCompact"),
        ("toolResult", "postToolUse"),
        ("toolName", "preToolUse"),
        ("stopReason", "agentStop"),
        ("source", "sessionStart"),
        ("prompt", "userPromptSubmitted"),
        ("reason", "sessionEnd"),
    ];
    payload.get("sessionId")?;
    let mut events = EVENTS.into_iter();
    let found = events.find(|(member, _)| payload.get(member).is_some());
    found.map(|(_, event)| event)
}

/// Has the file, or a folder above it, the id in its name?
fn is_named_by(log: &Path, id: &str) -> bool {
    let mut parts = log.components();
    parts.any(|part| part.as_os_str().to_string_lossy().contains(id))
}

fn modified(log: &Path) -> Option<SystemTime> {
    let found = std::fs::metadata(log);
    found.and_then(|found| found.modified()).ok()
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
        for (members, event) in [
            (r#""toolName":"bash","toolArgs":{}"#, "preToolUse"),
            (
                r#""toolName":"bash","toolArgs":{},"toolResult":{}"#,
                "postToolUse",
            ),
            (r#""source":"new","initialPrompt":"x""#, "sessionStart"),
            (r#""trigger":"auto","customInstructions":"""#, "preCompact"),
            (r#""reason":"complete""#, "sessionEnd"),
        ] {
            let payload = format!(r#"{{"sessionId":"c","timestamp":1,"cwd":"/w",{members}}}"#);
            let read = Payload::read(payload.as_bytes()).unwrap();
            assert_eq!(
                (read.is_before_tool(), &*read.event),
                (event == "preToolUse", event)
            );
        }
        let opencode = Payload::read(br#"{"session_id":"ses_1","database":"/d/opencode.db","hook_event_name":"session.idle"}"#);
        assert_eq!(
            opencode.unwrap().database,
            Some(PathBuf::from("/d/opencode.db"))
        );
    }

    // T-CAP-44
    #[test]
    fn an_event_without_a_path_is_about_the_log_of_its_session() {
        let home = tempfile::tempdir().unwrap();
        let machine = crate::agent::machine::tests::machine(home.path());
        let log = |id: &str| {
            home.path()
                .join(".copilot/session-state")
                .join(id)
                .join("events.jsonl")
        };
        for (id, age) in [("a1b2c3", 0), ("d4e5f6", 60)] {
            std::fs::create_dir_all(log(id).parent().unwrap()).unwrap();
            std::fs::write(log(id), "{}\n").unwrap();
            let file = std::fs::File::options().write(true).open(log(id)).unwrap();
            let moment = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000 - age);
            file.set_modified(moment).unwrap();
        }
        let logs = |payload: &[u8]| {
            let payload = Payload::read(payload).unwrap();
            payload.located(Agent::Copilot, &machine).logs
        };
        assert_eq!(logs(br#"{"sessionId":"d4e5f6"}"#), [log("d4e5f6")]);
        assert_eq!(logs(br#"{"timestamp":1,"cwd":"/w"}"#), [log("a1b2c3")]);
        assert!(logs(br#"{"sessionId":"not-yet-there"}"#).is_empty());
        let named = br#"{"sessionId":"d4e5f6","transcriptPath":"/c/events.jsonl"}"#;
        assert_eq!(logs(named), [PathBuf::from("/c/events.jsonl")]);
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
