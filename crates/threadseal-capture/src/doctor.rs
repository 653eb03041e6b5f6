//! Installed hooks are run as their agents run them: by a shell, with a payload on standard input,
//! for a session that exists only for this purpose.
//!
//! ```text
//! folder of the check ─┬─ home/             a home of its own, so that no head of it stays
//!                      └─ claude-code/
//!                           ├─ <session>.jsonl    a small session, as the agent writes one
//!                           └─ …
//! sh -c "<program> --home <folder>/home hook …"  ◄─ {"session_id": …, "transcript_path": …}
//! ```
//! A hook arrived if its command ended with 0 in the time that the agent gives it, and printed nothing
//! or JSON. After the hooks of an agent, the log of the session must be sealed: the caller looks.

use crate::agent::Agent;
use crate::agent::machine::System;
use crate::health::InstalledHook;
use crate::process;
use crate::settings::HookCommand;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_store::atomic::{self, PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::sys::Fs;

/// The session of the check, in each log.
pub const SESSION: &str = "00000000-0000-4000-8000-000000000000";

/// The limit of a hook that gives none.
const DEFAULT_LIMIT: Duration = Duration::from_secs(20);

/// A hook that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fired {
    /// The agent.
    pub agent: Agent,
    /// The event.
    pub event: String,
    /// Why it did not arrive; `None` if it did.
    pub failure: Option<String>,
}

/// A session of the check in a folder of its own.
#[derive(Debug, Clone)]
pub struct Rehearsal {
    agent: Agent,
    folder: PathBuf,
    home: PathBuf,
    log: Option<PathBuf>,
}

impl Rehearsal {
    /// Writes the session of an agent below `folder`, for the home `home`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(agent: Agent, folder: &Path, home: &Path, fs: &dyn Fs) -> Result<Self, Error> {
        let folder = folder.join(agent.name());
        atomic::create_directories(fs, &folder, PRIVATE_DIRECTORY)?;
        let log = session(agent).map(|text| (folder.join(log_name(agent)), text));
        if let Some((path, text)) = &log {
            atomic::create_new(fs, path, text.as_bytes(), PRIVATE_FILE)?;
        }
        Ok(Self {
            agent,
            folder,
            home: home.to_owned(),
            log: log.map(|(path, _)| path),
        })
    }

    /// The log of the session; none for OpenCode, whose sessions are rows of a database.
    pub fn log(&self) -> Option<&Path> {
        self.log.as_deref()
    }

    /// Runs one hook.
    pub fn fire(&self, hook: &InstalledHook, system: System) -> Fired {
        Fired {
            agent: self.agent,
            event: hook.event.clone(),
            failure: self.failure(hook, system),
        }
    }

    fn failure(&self, hook: &InstalledHook, system: System) -> Option<String> {
        let Some(command) = HookCommand::parse(&hook.command) else {
            return Some("its command has another form".to_owned());
        };
        let command = HookCommand {
            home: Some(self.home.clone()),
            ..command
        };
        let mut shell = Command::new("/bin/sh");
        shell
            .arg("-c")
            .arg(command.spelled(system))
            .current_dir(&self.folder);
        let payload = self.payload(&hook.event).to_string();
        let limit = limit(self.agent, hook.timeout);
        let ended = match process::run(&mut shell, payload.as_bytes(), limit) {
            Ok(ended) => ended,
            Err(error) => return Some(error.to_string()),
        };
        if !ended.succeeded() {
            return Some(ended.reason());
        }
        let answer = ended.text();
        let is_fit = answer.is_empty() || serde_json::from_str::<Value>(&answer).is_ok();
        (!is_fit).then(|| "it printed a text that is not JSON".to_owned())
    }

    /// The payload of an event, with the members that hooks read.
    fn payload(&self, event: &str) -> Value {
        let folder = self.folder.to_string_lossy();
        let log = self.log.as_deref().map(Path::to_string_lossy);
        match self.agent {
            Agent::Copilot => copilot(event, &folder, log.as_deref()),
            Agent::OpenCode => json!({
                "session_id": "ses_threadsealdoctor",
                "hook_event_name": event,
                "cwd": folder,
                "database": self.folder.join("opencode.db").to_string_lossy(),
            }),
            _ => json!({
                "session_id": SESSION,
                "transcript_path": log,
                "cwd": folder,
                "hook_event_name": event,
                "permission_mode": "default",
                "source": "startup",
                "reason": "other",
                "trigger": "manual",
                "prompt": "List the files.",
                "tool_name": "Bash",
                "tool_use_id": "toolu_1",
                "tool_input": {"command": "ls"},
                "tool_response": {"stdout": "a.txt", "stderr": ""},
                "agent_id": "a0000000000000000",
                "agent_transcript_path": log,
            }),
        }
    }
}

/// Copilot's payloads have no name of their event, and only those at an end of a turn name the log.
fn copilot(event: &str, folder: &str, log: Option<&str>) -> Value {
    let mut payload = json!({
        "sessionId": SESSION,
        "timestamp": 1_767_225_600_000_u64,
        "cwd": folder,
    });
    let more = match event {
        "sessionStart" => json!({"source": "new", "initialPrompt": "List the files."}),
        "userPromptSubmitted" => json!({"prompt": "List the files."}),
        "preToolUse" | "postToolUse" => json!({
            "toolName": "bash",
            "toolArgs": {"command": "ls"},
            "toolResult": {"resultType": "success", "textResultForLlm": "a.txt"},
        }),
        "agentStop" | "subagentStop" | "preCompact" => {
            json!({"transcriptPath": log, "stopReason": "end_turn"})
        }
        _ => json!({"reason": "complete"}),
    };
    if let (Some(payload), Value::Object(more)) = (payload.as_object_mut(), more) {
        payload.extend(more);
    }
    payload
}

fn log_name(agent: Agent) -> String {
    match agent {
        Agent::Codex => format!("rollout-2026-01-01T00-00-00-{SESSION}.jsonl"),
        Agent::Gemini => "session-2026-01-01T00-00-00000000.jsonl".to_owned(),
        Agent::Copilot => "events.jsonl".to_owned(),
        _ => format!("{SESSION}.jsonl"),
    }
}

fn session(agent: Agent) -> Option<&'static str> {
    match agent {
        Agent::ClaudeCode => Some(include_str!("doctor/claude.jsonl")),
        Agent::Codex => Some(include_str!("doctor/codex.jsonl")),
        Agent::Gemini => Some(include_str!("doctor/gemini.jsonl")),
        Agent::Qwen => Some(include_str!("doctor/qwen.jsonl")),
        Agent::Copilot => Some(include_str!("doctor/copilot.jsonl")),
        _ => None,
    }
}

/// The time that the agent gives the hook.
fn limit(agent: Agent, timeout: Option<u32>) -> Duration {
    let Some(timeout) = timeout else {
        return DEFAULT_LIMIT;
    };
    match agent {
        Agent::Gemini | Agent::Qwen => Duration::from_millis(timeout.into()),
        _ => Duration::from_secs(timeout.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use threadseal_store::sys::RealFs;

    fn fire(agent: Agent, script: &str, timeout: u32) -> (Fired, String) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("thread seal");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let home = folder.path().join("home");
        let rehearsal = Rehearsal::new(agent, folder.path(), &home, &RealFs).unwrap();
        let hook = InstalledHook {
            event: match agent {
                Agent::Copilot => "agentStop".to_owned(),
                _ => "Stop".to_owned(),
            },
            command: HookCommand {
                program: program.clone(),
                agent,
                home: Some("/real/home".into()),
                strict: false,
            }
            .spelled(System::Unix),
            program,
            timeout: Some(timeout),
        };
        let fired = rehearsal.fire(&hook, System::Unix);
        let seen = folder.path().join(agent.name()).join("seen");
        (fired, fs::read_to_string(seen).unwrap_or_default())
    }

    // T-CAP-18
    #[test]
    fn a_hook_gets_the_payload_of_its_agent_and_no_real_home() {
        for agent in Agent::ALL.into_iter().filter(|agent| agent.has_hooks()) {
            let (fired, seen) = fire(agent, "echo \"$@\" > seen; /bin/cat >> seen", 20_000);
            assert_eq!(fired.failure, None, "{agent}");
            let (line, payload) = seen.split_once('\n').unwrap();
            assert!(
                line.starts_with("--home ") && line.ends_with(&format!(" hook {agent}")),
                "{line}"
            );
            assert!(!line.contains("/real/home"));
            let payload: Value = serde_json::from_str(payload).unwrap();
            let log = payload["transcript_path"]
                .as_str()
                .or(payload["transcriptPath"].as_str());
            assert_eq!(log.is_some(), agent != Agent::OpenCode, "{payload}");
        }
    }

    // T-CAP-18
    #[test]
    fn a_hook_that_fails_is_late_or_prints_no_json_did_not_arrive() {
        let failure = |script, timeout| fire(Agent::Gemini, script, timeout).0.failure;
        assert_eq!(failure("echo '{}'", 20_000), None);
        assert!(failure("echo sealed", 20_000).unwrap().contains("not JSON"));
        assert!(
            failure("echo broken >&2; exit 2", 20_000)
                .unwrap()
                .contains("broken")
        );
        assert!(failure("/bin/sleep 100", 200).unwrap().contains("in time"));
    }
}
