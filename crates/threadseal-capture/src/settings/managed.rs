//! The files of an organisation: an administrator puts them where users cannot change them.
//!
//! | agent | file below the folder | its place on Linux | its place on macOS |
//! |---|---|---|---|
//! | Claude Code | `claude-code/managed-settings.json` | `/etc/claude-code` | `/Library/Application Support/ClaudeCode` |
//! | Codex | `codex/requirements.toml` | `/etc/codex` | `/etc/codex` |
//! | Gemini | `gemini-cli/settings.json` | `/etc/gemini-cli` | `/Library/Application Support/GeminiCli` |
//! | Qwen | `qwen-code/settings.json` | `/etc/qwen-code` | `/Library/Application Support/QwenCode` |
//!
//! Codex runs hooks of `requirements.toml` without a user's trust, from programs below `managed_dir`.

use super::{HookCommand, HookEntry, Shape, hooks, json};
use crate::agent::Agent;
use crate::agent::machine::System;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;

/// The agents whose hooks an organisation can set.
pub const AGENTS: [Agent; 4] = [Agent::ClaudeCode, Agent::Codex, Agent::Gemini, Agent::Qwen];

/// The file of an agent below the administrator's folder.
pub fn file(agent: Agent) -> Option<&'static str> {
    match agent {
        Agent::ClaudeCode => Some("claude-code/managed-settings.json"),
        Agent::Codex => Some("codex/requirements.toml"),
        Agent::Gemini => Some("gemini-cli/settings.json"),
        Agent::Qwen => Some("qwen-code/settings.json"),
        _ => None,
    }
}

/// The folder where the agent reads that file.
pub fn place(agent: Agent, system: System) -> Option<PathBuf> {
    let name = match agent {
        Agent::ClaudeCode => ["claude-code", "ClaudeCode"],
        Agent::Codex => return Some("/etc/codex".into()),
        Agent::Gemini => ["gemini-cli", "GeminiCli"],
        Agent::Qwen => ["qwen-code", "QwenCode"],
        _ => return None,
    };
    Some(match system {
        System::MacOs => Path::new("/Library/Application Support").join(name[1]),
        System::Windows => Path::new("C:\\ProgramData").join(name[0]),
        System::Unix => Path::new("/etc").join(name[0]),
    })
}

/// The text of that file; `current` is what the folder has already.
///
/// # Errors
/// When `current` cannot be edited.
pub fn text(command: &HookCommand, current: Option<&str>, system: System) -> Result<String, Error> {
    let entries = hooks::entries(command, system);
    if command.agent == Agent::Codex {
        let text = requirements(command, &entries);
        return match current {
            None => Ok(text),
            Some(current) if current == text => Ok(text),
            Some(_) => Err(Error::invalid(
                "it has another content; hint: write into an empty folder, and join both files",
            )),
        };
    }
    let programs = [command.program.clone()];
    let is_ours = |text: &str| HookCommand::is_ours(text, &programs);
    let current = current.unwrap_or_default();
    Ok(json::with_hooks(current, Shape::Grouped, &entries, &is_ours)?.text)
}

fn requirements(command: &HookCommand, entries: &[HookEntry]) -> String {
    let folder = command.program.parent().unwrap_or(Path::new("/"));
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = format!(
        "[hooks]\nmanaged_dir = {}\n",
        quoted(&folder.to_string_lossy())
    );
    for entry in entries {
        let event = entry.event;
        let _ = write!(text, "\n[[hooks.{event}]]\n");
        if let Some(matcher) = entry.matcher {
            let _ = writeln!(text, "matcher = {}", quoted(matcher));
        }
        let _ = write!(
            text,
            "[[hooks.{event}.hooks]]\ntype = \"command\"\ncommand = {}\ntimeout = {}\n",
            quoted(&entry.command),
            entry.timeout
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(agent: Agent) -> HookCommand {
        HookCommand {
            program: "/opt/thread seal/threadseal".into(),
            agent,
            home: None,
            strict: false,
        }
    }

    #[test]
    fn each_file_has_hooks_and_a_second_time_changes_nothing() {
        for agent in AGENTS {
            assert!(file(agent).is_some() && place(agent, System::Unix).is_some());
            let first = text(&command(agent), None, System::Unix).unwrap();
            assert!(first.contains(&format!("hook {agent}")), "{first}");
            let again = text(&command(agent), Some(&first), System::Unix).unwrap();
            assert_eq!(first, again);
        }
        let kept = "{\n  // rules\n  \"permissions\": {}\n}\n";
        let merged = text(&command(Agent::ClaudeCode), Some(kept), System::Unix).unwrap();
        assert!(merged.contains("// rules"), "{merged}");
        assert!(text(&command(Agent::Codex), Some("x = 1\n"), System::Unix).is_err());
    }

    #[test]
    fn requirements_are_tables_of_hooks_with_the_folder_of_the_program() {
        let text = text(&command(Agent::Codex), None, System::Unix).unwrap();
        assert!(
            text.starts_with("[hooks]\nmanaged_dir = \"/opt/thread seal\"\n"),
            "{text}"
        );
        let tool = "\n[[hooks.PostToolUse]]\nmatcher = \"*\"\n[[hooks.PostToolUse.hooks]]\n\
                    type = \"command\"\ncommand = \"'/opt/thread seal/threadseal' hook codex\"\n\
                    timeout = 20\n";
        assert!(text.contains(tool), "{text}");
    }
}
