//! Codex's trust in hooks: it runs no hook whose hash a person has not confirmed.
//!
//! ```text
//! codex app-server ◄─ {"id":1,"method":"initialize","params":{"clientInfo":…}}
//!                  ◄─ {"method":"initialized"}
//!                  ◄─ {"id":2,"method":"hooks/list","params":{"cwds":[…]}}
//!                  ─► {"id":2,"result":{"data":[{"hooks":[{"key":…,"currentHash":…,…}]}]}}
//!                  ◄─ {"id":3,"method":"config/batchWrite","params":{"edits":[…]}}
//! ```
//! One JSON object a line, over standard input and output. Only hooks of ours are trusted: they are in
//! the file that we wrote, and have our command. Any other hook waits for its user.

use crate::agent::Agent;
use crate::agent::machine::Machine;
use crate::install::undo::RemovalAction;
use crate::install::{self, Journal, Record, RecordKind};
use crate::process::Dialogue;
use crate::settings::HookCommand;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::sys::Fs;

/// How long Codex may take for one answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// How many lines are read for one answer: it also sends notices.
const MAX_LINES: usize = 1000;

/// A hook as Codex lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedHook {
    /// Its key in `hooks.state`: file, event and position.
    pub key: String,
    /// The hash that a person confirms.
    pub hash: String,
    /// The event, in Codex's spelling.
    pub event: String,
    /// Does Codex run it?
    pub is_trusted: bool,
    /// Has its user switched it off?
    pub is_enabled: bool,
}

/// A running `codex app-server`.
#[derive(Debug)]
pub struct AppServer {
    dialogue: Dialogue,
    next: u64,
}

impl AppServer {
    /// Starts it in `folder`.
    ///
    /// # Errors
    /// When it cannot be started, or is too old.
    pub fn start(program: &Path, codex_home: &Path, folder: &Path) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.arg("app-server").current_dir(folder);
        command.env("CODEX_HOME", codex_home);
        let mut server = Self {
            dialogue: Dialogue::start(&mut command)?,
            next: 1,
        };
        let client = json!({"name": "threadseal", "version": env!("CARGO_PKG_VERSION")});
        server.call("initialize", &json!({"clientInfo": client}))?;
        let initialized = json!({"method": "initialized"});
        server.dialogue.send(&initialized.to_string())?;
        Ok(server)
    }

    /// The hooks of ours in `hooks_file`.
    ///
    /// # Errors
    /// When it gives no list.
    pub fn hooks(
        &mut self,
        folder: &Path,
        hooks_file: &Path,
        is_ours: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<ListedHook>, Error> {
        let folder = folder.to_string_lossy();
        let result = self.call("hooks/list", &json!({"cwds": [folder]}))?;
        let folders = result["data"].as_array().ok_or_else(unknown)?.iter();
        let hooks = folders.filter_map(|folder| folder["hooks"].as_array());
        let own = hooks.flatten().filter(|hook| {
            let command = hook["command"].as_str();
            let source = hook["sourcePath"].as_str();
            command.is_some_and(is_ours) && source.is_some_and(|path| Path::new(path) == hooks_file)
        });
        own.map(|hook| listed(hook).ok_or_else(unknown)).collect()
    }

    /// Trusts these hooks.
    ///
    /// # Errors
    /// When Codex refuses.
    pub fn trust(&mut self, hooks: &[ListedHook]) -> Result<(), Error> {
        let state = hooks
            .iter()
            .map(|hook| (hook.key.clone(), json!({"trusted_hash": hook.hash})));
        let state: serde_json::Map<String, Value> = state.collect();
        let edit = json!({"keyPath": "hooks.state", "value": state, "mergeStrategy": "upsert"});
        self.call("config/batchWrite", &json!({"edits": [edit]}))
            .map(drop)
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value, Error> {
        let id = self.next;
        self.next += 1;
        let request = json!({"id": id, "method": method, "params": params});
        self.dialogue.send(&request.to_string())?;
        for _ in 0..MAX_LINES {
            let line = self.dialogue.receive(ANSWER_LIMIT)?;
            let Ok(answer) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            if answer["id"] != id || answer.get("method").is_some() {
                continue;
            }
            if let Some(refused) = answer.get("error") {
                let why = refused["message"].as_str().unwrap_or("no reason");
                return Err(failed(&format!("codex refuses {method}: {why}")));
            }
            return Ok(answer["result"].clone());
        }
        Err(failed(&format!("codex does not answer {method}")))
    }
}

fn listed(hook: &Value) -> Option<ListedHook> {
    Some(ListedHook {
        key: hook["key"].as_str()?.to_owned(),
        hash: hook["currentHash"].as_str()?.to_owned(),
        event: hook["eventName"].as_str()?.to_owned(),
        is_trusted: matches!(hook["trustStatus"].as_str(), Some("trusted" | "managed")),
        is_enabled: hook["enabled"].as_bool().unwrap_or(true),
    })
}

fn unknown() -> Error {
    failed("codex lists its hooks in an unknown form")
}

fn failed(text: &str) -> Error {
    Error::new(ErrorKind::External, text)
}

/// Lets Codex trust our hooks, and notes in the journal what its `config.toml` was before. Returns how
/// many hooks of ours Codex runs.
///
/// # Errors
/// When Codex does not answer, or still does not trust one of them.
pub fn trust_hooks(
    program: &Path,
    machine: &Machine,
    folder: &Path,
    fs: &dyn Fs,
) -> Result<usize, Error> {
    let codex_home = Agent::Codex.folder(machine);
    let config = codex_home.join("config.toml");
    let _lock = install::enter(folder, fs)?;
    let mut journal = Journal::read(fs, folder)?;
    let mut server = AppServer::start(program, &codex_home, machine.home())?;
    let hooks = own_hooks(&mut server, machine, &journal)?;
    let waiting: Vec<ListedHook> = hooks
        .iter()
        .filter(|hook| !hook.is_trusted)
        .cloned()
        .collect();
    if waiting.is_empty() {
        return Ok(hooks.len());
    }
    let current = install::read_settings(fs, &config)?;
    let mut record = record(&config, current.as_deref(), &journal);
    record
        .entries
        .extend(waiting.iter().map(|hook| hook.key.clone()));
    record.entries.sort();
    record.entries.dedup();
    journal.put(record.clone());
    journal.write(fs, folder)?;
    server.trust(&waiting)?;
    if let Some(text) = install::read_settings(fs, &config)? {
        record.will_write(&text);
        journal.put(record);
        journal.write(fs, folder)?;
    }
    let hooks = own_hooks(&mut server, machine, &journal)?;
    match hooks.iter().find(|hook| !hook.is_trusted) {
        Some(hook) => Err(failed(&format!(
            "codex does not trust the hook {}",
            hook.event
        ))),
        None => Ok(hooks.len()),
    }
}

/// The hooks of ours that Codex lists.
///
/// # Errors
/// When it gives no list.
pub fn own_hooks(
    server: &mut AppServer,
    machine: &Machine,
    journal: &Journal,
) -> Result<Vec<ListedHook>, Error> {
    let is_ours = |text: &str| HookCommand::is_ours(text, journal.programs());
    let settings = Agent::Codex.settings(machine).map(|settings| settings.path);
    server.hooks(machine.home(), &settings.unwrap_or_default(), &is_ours)
}

fn record(config: &Path, current: Option<&str>, journal: &Journal) -> Record {
    let known = journal.file(config);
    let before = match (current, known) {
        (Some(text), Some(known)) if known.wrote(text) => known.before.clone(),
        (Some(text), Some(known)) => Some(without_entries(text, known)),
        (current, _) => current.map(str::to_owned),
    };
    Record {
        owner: Agent::Codex.name().to_owned(),
        path: config.to_owned(),
        kind: RecordKind::Trust,
        before,
        written: known.map(|known| known.written.clone()).unwrap_or_default(),
        folders: Vec::new(),
        entries: known.map(|known| known.entries.clone()).unwrap_or_default(),
    }
}

/// What is done with a `config.toml` that was edited since our hooks were trusted.
pub(crate) fn without_trust(text: &str, record: &Record) -> RemovalAction {
    let left = without_entries(text, record);
    if left == text {
        return RemovalAction::Nothing;
    }
    let is_gone = left.trim().is_empty() && record.before.is_none();
    RemovalAction::Strip {
        text: (!is_gone).then_some(left),
        removed: record.entries.len(),
        moved: 0,
    }
}

/// A `config.toml` without the entries that trust our hooks.
///
/// Codex writes each as a table of one line. One that its user wrote in another way stays: it trusts a
/// hook that is not there any more.
fn without_entries(text: &str, record: &Record) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut out: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let is_ours = trusted_key(lines[at]).is_some_and(|key| record.entries.contains(&key));
        let is_hash = |line: &&str| line.trim_start().starts_with("trusted_hash = ");
        if !is_ours || !lines.get(at + 1).is_some_and(is_hash) {
            out.push(lines[at]);
            at += 1;
            continue;
        }
        at += 2;
        // One empty line separates tables: that before it, or the one after.
        let follows = lines.get(at).is_none_or(|line| line.trim().is_empty());
        if follows && out.last().is_some_and(|line| line.trim().is_empty()) {
            out.pop();
        } else if follows {
            at += 1;
        }
    }
    let before = record.before.as_deref().unwrap_or_default();
    for header in ["[hooks.state]", "[hooks]"] {
        if !before.contains(header) {
            remove_empty_table(&mut out, header);
        }
    }
    out.concat()
}

/// The key in a line `[hooks.state."KEY"]`.
fn trusted_key(line: &str) -> Option<String> {
    let inner = line
        .trim()
        .strip_prefix("[hooks.state.")?
        .strip_suffix(']')?;
    match inner
        .strip_prefix('\'')
        .and_then(|inner| inner.strip_suffix('\''))
    {
        Some(literal) => Some(literal.to_owned()),
        None => serde_json::from_str(inner).ok(),
    }
}

fn remove_empty_table(lines: &mut Vec<&str>, header: &str) {
    let Some(at) = lines.iter().position(|line| line.trim() == header) else {
        return;
    };
    let blank = |line: &&&str| line.trim().is_empty();
    let blanks = lines[at + 1..].iter().take_while(blank).count();
    let next = lines.get(at + 1 + blanks);
    let parent = format!("{}.", header.trim_end_matches(']'));
    if next.is_some_and(|line| !line.trim_start().starts_with('[') || line.starts_with(&parent)) {
        return;
    }
    let above = lines[..at].iter().rev().take_while(blank).count();
    match next {
        Some(_) => lines.drain(at..=at + blanks),
        None => lines.drain(at - above..),
    };
}

#[cfg(test)]
mod tests;
