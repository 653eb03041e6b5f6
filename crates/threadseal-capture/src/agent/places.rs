//! Where each agent is on a machine: its program, its folders, the logs of its sessions, the file
//! that takes our hooks.

use super::Agent;
use super::machine::Machine;
use crate::settings::Shape;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// How many entries of a folder are looked at to find its logs.
const MAX_LOOKED_AT: usize = 1_000_000;

/// A folder with logs of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFolder {
    /// The folder, which need not exist.
    pub path: PathBuf,
    /// How many folders deep its logs are; 1 means: in the folder.
    pub depth: usize,
    /// How the names of its logs end.
    pub endings: &'static [&'static str],
}

impl LogFolder {
    /// Is a file at `path` named like a log, and as deep as its agent writes them?
    pub fn names(&self, path: &Path) -> bool {
        let Ok(inside) = path.strip_prefix(&self.path) else {
            return false;
        };
        let depth = inside.components().count();
        (1..=self.depth).contains(&depth) && self.is_named(path)
    }

    /// Has the file a name of its logs?
    pub fn is_named(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.endings.iter().any(|ending| name.ends_with(ending))
    }

    /// The files in it that are named like logs, as deep as its agent writes them.
    pub fn logs(&self) -> impl Iterator<Item = PathBuf> {
        let walk = WalkDir::new(&self.path).max_depth(self.depth).into_iter();
        let files = walk.take(MAX_LOOKED_AT).filter_map(Result::ok);
        let files = files.filter(|entry| entry.file_type().is_file());
        files
            .map(walkdir::DirEntry::into_path)
            .filter(|path| self.is_named(path))
    }
}

/// The file of a user that takes our hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    /// Its path, which need not exist.
    pub path: PathBuf,
    /// How its hooks are written.
    pub kind: SettingsKind,
}

/// How an agent takes hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsKind {
    /// A JSON file with a member `hooks`.
    Json(Shape),
    /// A program of ours that OpenCode loads.
    Plugin,
}

impl Agent {
    /// The names of its program; a library has none.
    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &["claude"],
            Self::Codex => &["codex"],
            Self::Gemini => &["gemini"],
            Self::OpenCode => &["opencode"],
            Self::Copilot => &["copilot"],
            Self::Qwen => &["qwen"],
            Self::Pi => &["pi"],
            Self::Cline => &["cline"],
            Self::Continue => &["cn"],
            Self::Aider => &["aider"],
            Self::Goose => &["goose"],
            Self::Cursor => &["cursor-agent", "cursor"],
            Self::MiniSweAgent => &["mini", "mini-swe-agent"],
            Self::LangGraph | Self::OpenAiAgents => &[],
        }
    }

    /// Folders with its program that a shell need not search: the agent's own installer uses them.
    pub fn own_program_folders(self, machine: &Machine) -> Vec<PathBuf> {
        let home = machine.home();
        match self {
            Self::ClaudeCode => vec![home.join(".local/bin"), home.join(".claude/local")],
            Self::OpenCode => vec![home.join(".opencode/bin")],
            Self::Codex | Self::Copilot | Self::Cursor | Self::Goose => {
                vec![home.join(".local/bin")]
            }
            _ => Vec::new(),
        }
    }

    /// Its own folder, with settings.
    pub fn folder(self, machine: &Machine) -> PathBuf {
        let home = machine.home();
        match self {
            Self::ClaudeCode => machine.folder("CLAUDE_CONFIG_DIR", ".claude"),
            Self::Codex => machine.folder("CODEX_HOME", ".codex"),
            Self::Gemini => machine.folder("GEMINI_CLI_HOME", "").join(".gemini"),
            Self::OpenCode => machine.config().join("opencode"),
            Self::Copilot => machine.folder("COPILOT_HOME", ".copilot"),
            Self::Qwen => machine.folder("QWEN_HOME", ".qwen"),
            Self::Pi => machine.folder("PI_CODING_AGENT_DIR", ".pi/agent"),
            Self::Cline => home.join(".cline"),
            Self::Continue => machine.folder("CONTINUE_GLOBAL_DIR", ".continue"),
            Self::Aider => home.join(".aider"),
            Self::Goose => match machine.variable("GOOSE_PATH_ROOT") {
                Some(root) => root.join("config"),
                None => machine.config().join("goose"),
            },
            Self::Cursor => home.join(".cursor"),
            Self::MiniSweAgent => match machine.variable("MSWEA_GLOBAL_CONFIG_DIR") {
                Some(folder) => folder.to_owned(),
                None => machine.application_support().join("mini-swe-agent"),
            },
            // A library has no folder of its own.
            Self::LangGraph | Self::OpenAiAgents => home.to_owned(),
        }
    }

    /// The folders with logs of its sessions. Aider writes into each project, and a library where its
    /// program wants, so they have none.
    pub fn logs(self, machine: &Machine) -> Vec<LogFolder> {
        let own = self.folder(machine);
        let folder = |path, depth, endings| LogFolder {
            path,
            depth,
            endings,
        };
        match self {
            Self::ClaudeCode => vec![folder(own.join("projects"), 6, &[".jsonl"])],
            Self::Codex => vec![
                folder(own.join("sessions"), 4, &[".jsonl", ".jsonl.zst"]),
                folder(own.join("archived_sessions"), 1, &[".jsonl", ".jsonl.zst"]),
            ],
            Self::Gemini => vec![folder(own.join("tmp"), 4, &[".jsonl", ".json"])],
            Self::OpenCode => vec![folder(machine.data().join("opencode"), 1, &[".db"])],
            Self::Copilot => vec![folder(own.join("session-state"), 2, &[".jsonl"])],
            Self::Qwen => {
                let moved = machine.variable("QWEN_RUNTIME_DIR");
                let runtime = moved.map_or(own, Path::to_owned);
                vec![folder(runtime.join("projects"), 4, &[".jsonl"])]
            }
            Self::Pi => vec![folder(own.join("sessions"), 2, &[".jsonl"])],
            Self::Cline => vec![
                folder(own.join("data/sessions"), 2, &[".messages.json"]),
                folder(cline_in_editor(machine), 2, &[".json"]),
            ],
            Self::Continue => vec![folder(own.join("sessions"), 1, &[".json"])],
            Self::Aider | Self::LangGraph | Self::OpenAiAgents => Vec::new(),
            Self::Goose => vec![folder(goose_sessions(machine), 1, &[".db", ".jsonl"])],
            Self::Cursor => vec![
                folder(own.join("projects"), 5, &[".jsonl"]),
                folder(own.join("chats"), 3, &[".db"]),
                folder(cursor_state(machine), 1, &[".vscdb"]),
            ],
            Self::MiniSweAgent => vec![folder(own, 1, &[".traj.json"])],
        }
    }

    /// The file that takes our hooks, if the agent has hooks.
    pub fn settings(self, machine: &Machine) -> Option<SettingsFile> {
        let own = self.folder(machine);
        let (path, kind) = match self {
            Self::ClaudeCode | Self::Gemini | Self::Qwen => {
                let path = own.join("settings.json");
                (path, SettingsKind::Json(Shape::Grouped))
            }
            Self::Codex => (own.join("hooks.json"), SettingsKind::Json(Shape::Grouped)),
            Self::Copilot => {
                let path = own.join("hooks/threadseal.json");
                (path, SettingsKind::Json(Shape::Flat))
            }
            Self::OpenCode => (own.join("plugin/threadseal.js"), SettingsKind::Plugin),
            _ => return None,
        };
        Some(SettingsFile { path, kind })
    }

    /// Has it hooks?
    pub fn has_hooks(self) -> bool {
        matches!(
            self,
            Self::ClaudeCode
                | Self::Codex
                | Self::Gemini
                | Self::OpenCode
                | Self::Copilot
                | Self::Qwen
        )
    }
}

fn cline_in_editor(machine: &Machine) -> PathBuf {
    let editor = machine
        .application_support()
        .join("Code/User/globalStorage");
    editor.join("saoudrizwan.claude-dev/tasks")
}

fn goose_sessions(machine: &Machine) -> PathBuf {
    match machine.variable("GOOSE_PATH_ROOT") {
        Some(root) => root.join("data/sessions"),
        None => machine.data().join("goose/sessions"),
    }
}

fn cursor_state(machine: &Machine) -> PathBuf {
    let support = machine.application_support();
    support.join("Cursor/User/globalStorage")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::machine::System;

    #[test]
    fn an_agent_has_a_settings_file_exactly_if_it_has_hooks() {
        let machine = crate::agent::machine::tests::machine(Path::new("/u"));
        for agent in Agent::ALL {
            let settings = agent.settings(&machine);
            assert_eq!(settings.is_some(), agent.has_hooks(), "{agent}");
            let is_library = matches!(agent, Agent::LangGraph | Agent::OpenAiAgents);
            assert_eq!(agent.programs().is_empty(), is_library, "{agent}");
            let has_logs = !agent.logs(&machine).is_empty();
            assert_eq!(has_logs, agent != Agent::Aider && !is_library, "{agent}");
        }
    }

    #[test]
    fn variables_move_the_folders_of_agents() {
        let set = |name: &str| {
            let moved = ["CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "XDG_DATA_HOME"];
            moved
                .contains(&name)
                .then(|| format!("/moved/{name}").into())
        };
        let machine = Machine::new("/u".into(), None, set, System::Unix).unwrap();
        let settings = |agent: Agent| agent.settings(&machine).unwrap().path;
        let log = |agent: Agent| agent.logs(&machine)[0].path.clone();
        assert_eq!(
            settings(Agent::ClaudeCode),
            Path::new("/moved/CLAUDE_CONFIG_DIR/settings.json")
        );
        assert_eq!(
            settings(Agent::Gemini),
            Path::new("/moved/GEMINI_CLI_HOME/.gemini/settings.json")
        );
        assert_eq!(
            log(Agent::OpenCode),
            Path::new("/moved/XDG_DATA_HOME/opencode")
        );
        assert_eq!(settings(Agent::Codex), Path::new("/u/.codex/hooks.json"));
        let plain = Machine::new("/u".into(), None, |_| None, System::Unix).unwrap();
        let gemini = Agent::Gemini.settings(&plain).unwrap().path;
        assert_eq!(gemini, Path::new("/u/.gemini/settings.json"));
    }
}
