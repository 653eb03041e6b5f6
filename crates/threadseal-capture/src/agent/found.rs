//! Which agents a machine has: their programs, versions and logs.
//!
//! The version of an agent from a package of npm is in its `package.json`, so it is read there: some
//! agents make folders in the user's home when they are asked. Any other is asked with `--version`.

use super::Agent;
use super::machine::Machine;
use super::places::LogFolder;
use crate::database::{self, Found};
use crate::process;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;
use threadseal_store::read;
use threadseal_store::sys::{Fs, path_text};

/// How long an agent may take to give its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// How many folders above a program its package may be.
const MAX_PACKAGE_DEPTH: usize = 4;
/// Largest `package.json` that is read.
const MAX_PACKAGE_BYTES: usize = 1 << 20;
/// Longest version that is believed.
const MAX_VERSION_CHARS: usize = 40;

/// An agent on a machine.
#[derive(Debug, Clone)]
pub struct FoundAgent {
    /// The agent.
    pub agent: Agent,
    /// Its program; `None` if it is not installed.
    pub program: Option<PathBuf>,
    /// Its version, if it gave one.
    pub version: Option<String>,
    /// The folders of its logs that exist, with the number of logs.
    pub logs: Vec<(LogFolder, usize)>,
}

impl FoundAgent {
    /// How many logs its folders have.
    pub fn sessions(&self) -> usize {
        self.logs.iter().map(|(_, count)| count).sum()
    }

    /// The folders of its logs, as text.
    pub fn log_folders(&self) -> Vec<String> {
        let folders = self.logs.iter();
        folders.map(|(folder, _)| path_text(&folder.path)).collect()
    }

    /// Has this machine the program, or logs that it left?
    pub fn is_there(&self) -> bool {
        self.program.is_some() || self.sessions() > 0
    }
}

/// Looks for all agents, at once.
pub fn all(machine: &Machine, fs: &dyn Fs) -> Vec<FoundAgent> {
    thread::scope(|scope| {
        let look = |agent| scope.spawn(move || one(agent, machine, fs));
        let looks = Agent::ALL.map(look);
        let found = looks.into_iter().filter_map(|look| look.join().ok());
        found.collect()
    })
}

/// Looks for one agent.
pub fn one(agent: Agent, machine: &Machine, fs: &dyn Fs) -> FoundAgent {
    let program = program(agent, machine, fs);
    let version = program.as_deref();
    let version = version.and_then(|program| version_of(program, machine, fs));
    let logs = agent.logs(machine).into_iter();
    let logs = logs.filter(|folder| folder.path.is_dir());
    FoundAgent {
        agent,
        program,
        version,
        logs: logs
            .map(|folder| {
                let count = folder.logs().map(|path| sessions_in(&path)).sum();
                (folder, count)
            })
            .collect(),
    }
}

/// The program of an agent.
pub fn program(agent: Agent, machine: &Machine, fs: &dyn Fs) -> Option<PathBuf> {
    let also = agent.own_program_folders(machine);
    let mut names = agent.programs().iter();
    names.find_map(|name| machine.program(fs, name, &also))
}

fn version_of(program: &Path, machine: &Machine, fs: &dyn Fs) -> Option<String> {
    packaged(program, fs).or_else(|| {
        let mut command = Command::new(program);
        command.arg("--version").current_dir(machine.home());
        let ended = process::run(&mut command, b"", VERSION_LIMIT).ok()?;
        ended.succeeded().then(|| number_in(&ended.text()))?
    })
}

/// The version in the package that the program is part of.
fn packaged(program: &Path, fs: &dyn Fs) -> Option<String> {
    let real = fs.canonicalize(program).ok()?;
    if !real
        .components()
        .any(|part| part.as_os_str() == "node_modules")
    {
        return None;
    }
    let above = real.ancestors().skip(1).take(MAX_PACKAGE_DEPTH);
    for folder in above {
        let path = folder.join("package.json");
        let Ok(bytes) = read::read_small(fs, &path, MAX_PACKAGE_BYTES) else {
            continue;
        };
        let value: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        return number_in(value.get("version")?.as_str()?);
    }
    None
}

/// The first word of a text that begins with a digit and has a dot: `codex-cli 0.169.0`.
fn number_in(text: &str) -> Option<String> {
    let words = text.split(|letter: char| letter.is_whitespace() || "(),".contains(letter));
    let words = words.map(|word| word.trim_start_matches('v'));
    let is_number = |word: &&str| {
        word.starts_with(|letter: char| letter.is_ascii_digit())
            && word.contains('.')
            && word.len() <= MAX_VERSION_CHARS
            && word.chars().all(|letter| letter.is_ascii_graphic())
    };
    words.into_iter().find(is_number).map(str::to_owned)
}

/// How many sessions a file has: of a database that is known, all in it.
fn sessions_in(path: &Path) -> usize {
    let ending = path.extension();
    let is_database = ending.is_some_and(|ending| ending == "db" || ending == "vscdb");
    match is_database.then(|| database::find(path)) {
        Some(Ok((Found::Kind(_), sessions))) => sessions.len(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::machine::tests::machine;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use threadseal_store::sys::RealFs;

    fn script(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn versions_are_read_from_the_package_or_asked_for() {
        let home = tempfile::tempdir().unwrap();
        let machine = machine(home.path());
        let bin = home.path().join("bin");
        script(&bin.join("codex"), "echo codex-cli 0.169.0");
        script(&bin.join("qwen"), "echo no version here");
        script(&bin.join("opencode"), "exit 1");
        let package = home.path().join("lib/node_modules/gemini");
        script(
            &package.join("bundle/gemini.js"),
            "touch \"$0.ran\"; echo 9.9",
        );
        fs::write(package.join("package.json"), r#"{"version": "0.61.0"}"#).unwrap();
        std::os::unix::fs::symlink(package.join("bundle/gemini.js"), bin.join("gemini")).unwrap();
        let found = all(&machine, &RealFs);
        let version = |agent: Agent| {
            let found = found.iter().find(|found| found.agent == agent).unwrap();
            (found.program.is_some(), found.version.clone())
        };
        assert_eq!(version(Agent::Codex), (true, Some("0.169.0".to_owned())));
        assert_eq!(version(Agent::Gemini), (true, Some("0.61.0".to_owned())));
        assert_eq!(version(Agent::Qwen), (true, None));
        assert_eq!(version(Agent::OpenCode), (true, None));
        assert_eq!(version(Agent::ClaudeCode), (false, None));
        assert!(!package.join("bundle/gemini.js.ran").exists());
    }

    #[test]
    fn logs_are_counted_as_deep_as_the_agent_writes_them() {
        let home = tempfile::tempdir().unwrap();
        let logs = home.path().join(".claude/projects/p");
        fs::create_dir_all(logs.join("s/subagents")).unwrap();
        for name in ["s.jsonl", "s/subagents/agent-a.jsonl", "notes.md"] {
            fs::write(logs.join(name), "{}\n").unwrap();
        }
        let found = one(Agent::ClaudeCode, &machine(home.path()), &RealFs);
        assert_eq!(found.sessions(), 2);
        assert!(found.is_there() && found.program.is_none());
    }
}
