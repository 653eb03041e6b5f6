//! The way back: each file as it was before, or without our parts where its user edited it.

use super::{Journal, Record, RecordKind, WATCHER, about, enter, read_settings, refuse_changed};
use crate::agent::Agent;
use crate::agent::machine::Machine;
use crate::agent::places::SettingsKind;
use crate::settings::{HookCommand, Shape, json, plugin};
use std::io;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::sys::{self, Fs, directory_of};

/// What is done with one file.
#[derive(Debug, Clone)]
pub struct Removal {
    /// The name of the agent, or [`WATCHER`].
    pub owner: String,
    /// Its path.
    pub path: PathBuf,
    /// What is done.
    pub action: RemovalAction,
    /// The text that the plan saw.
    pub current: Option<String>,
    /// The folders that we made, outermost first.
    folders: Vec<PathBuf>,
}

/// What is done with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalAction {
    /// It is as it was before.
    Nothing,
    /// No one edited it: it gets back the bytes from before, or is removed.
    Restore(Option<String>),
    /// It was edited: our parts are removed from it, or it is removed if no other part is left.
    Strip {
        /// The text to come.
        text: Option<String>,
        /// How many of our hooks it has.
        removed: usize,
        /// How many hooks of the user get another position.
        moved: usize,
    },
}

impl RemovalAction {
    /// The word for it in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Nothing => "keep",
            Self::Restore(Some(_)) => "restore",
            Self::Strip { text: Some(_), .. } => "strip",
            Self::Restore(None) | Self::Strip { text: None, .. } => "remove",
        }
    }

    /// The text to come, and whether the file changes.
    fn outcome<'a>(&'a self, current: Option<&'a str>) -> Option<&'a str> {
        match self {
            Self::Nothing => current,
            Self::Restore(text) | Self::Strip { text, .. } => text.as_deref(),
        }
    }
}

/// The plan for all files of `owner`, or of everything. A file that cannot be restored is refused
/// alone.
pub fn plan(
    owner: Option<Agent>,
    machine: &Machine,
    journal: &Journal,
    fs: &dyn Fs,
) -> Vec<(PathBuf, Result<Removal, Error>)> {
    let name = owner.map(Agent::name);
    let records = journal.files().iter();
    let records = records.filter(|record| name.is_none_or(|name| name == record.owner));
    let mut plans: Vec<_> = records
        .map(|record| (record.path.clone(), recorded(record, journal, fs)))
        .collect();
    // Hooks of ours may be there without a journal: of a home that is gone.
    for agent in Agent::ALL {
        let settings = agent.settings(machine).map(|settings| settings.path);
        let Some(path) = settings.filter(|_| owner.is_none_or(|owner| owner == agent)) else {
            continue;
        };
        if journal.file(&path).is_none() {
            let found = unrecorded(agent, &path, machine, journal, fs);
            plans.extend(found.transpose().map(|found| (path, found)));
        }
    }
    plans
}

fn recorded(record: &Record, journal: &Journal, fs: &dyn Fs) -> Result<Removal, Error> {
    let current = read_settings(fs, &record.path)?;
    let action = match &current {
        // The user removed the file.
        None => RemovalAction::Nothing,
        text if *text == record.before => RemovalAction::Nothing,
        Some(text) if record.wrote(text) => RemovalAction::Restore(record.before.clone()),
        Some(text) => edited(record, text, journal)?,
    };
    Ok(Removal {
        owner: record.owner.clone(),
        path: record.path.clone(),
        action,
        current,
        folders: record.folders.clone(),
    })
}

fn edited(record: &Record, text: &str, journal: &Journal) -> Result<RemovalAction, Error> {
    match record.kind {
        RecordKind::Own => own(&record.path, text),
        RecordKind::Trust => Ok(crate::codex::without_trust(text, record)),
        RecordKind::Hooks => {
            let shape = shape_of(&record.owner);
            let before = record.before.as_deref();
            strip(text, before, shape, journal).map_err(|error| about(&record.path, &error))
        }
    }
}

/// A file of ours that was edited stays: the edits are its user's.
fn own(path: &Path, text: &str) -> Result<RemovalAction, Error> {
    if plugin::is_unedited(text) {
        return Ok(RemovalAction::Restore(None));
    }
    let shown = path.display();
    Err(Error::invalid(format!(
        "{shown} was edited after threadseal wrote it, so it stays; hint: rm {shown}"
    )))
}

fn strip(
    text: &str,
    before: Option<&str>,
    shape: Shape,
    journal: &Journal,
) -> Result<RemovalAction, Error> {
    let is_ours = |text: &str| HookCommand::is_ours(text, journal.programs());
    let without = json::without_hooks(text, before, shape, &is_ours)?;
    if without.removed == 0 {
        return Ok(RemovalAction::Nothing);
    }
    let is_gone = without.is_empty && before.is_none();
    Ok(RemovalAction::Strip {
        text: (!is_gone).then_some(without.text),
        removed: without.removed,
        moved: without.moved,
    })
}

/// A settings file that no journal names, if it has hooks of ours.
fn unrecorded(
    agent: Agent,
    path: &Path,
    machine: &Machine,
    journal: &Journal,
    fs: &dyn Fs,
) -> Result<Option<Removal>, Error> {
    let Some(current) = read_settings(fs, path)? else {
        return Ok(None);
    };
    let kind = agent.settings(machine).map(|settings| settings.kind);
    let action = match kind {
        Some(SettingsKind::Plugin) if plugin::has_mark(&current) => own(path, &current)?,
        Some(SettingsKind::Json(shape)) => {
            // An empty file may have been the user's, except one with our name.
            let before = (shape == Shape::Grouped).then_some("");
            match strip(&current, before, shape, journal) {
                Ok(action) => action,
                // A file that is no JSON has no hooks that would run.
                Err(_) => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    let removal = Removal {
        owner: agent.name().to_owned(),
        path: path.to_owned(),
        action,
        current: Some(current),
        folders: Vec::new(),
    };
    Ok((removal.action != RemovalAction::Nothing).then_some(removal))
}

fn shape_of(owner: &str) -> Shape {
    match owner.parse() {
        Ok(Agent::Copilot) => Shape::Flat,
        _ => Shape::Grouped,
    }
}

/// Writes each file, removes empty folders of ours, and takes the files out of the journal.
///
/// # Errors
/// When a file changed after its plan, or cannot be written. A second call then does the rest.
pub fn apply(removals: &[Removal], folder: &Path, fs: &dyn Fs) -> Result<(), Error> {
    // Hooks may outlive their home, and no new one is begun to remove them.
    let has_home = fs.metadata(directory_of(folder)).is_ok();
    let _lock = has_home.then(|| enter(folder, fs)).transpose()?;
    let mut journal = Journal::read(fs, folder)?;
    for removal in removals {
        refuse_changed(removal.current.as_deref(), &removal.path, fs)?;
        let current = removal.current.as_deref();
        match removal.action.outcome(current) {
            text if text == current => {}
            Some(text) => {
                let mode = Mode::KeepOr(PRIVATE_FILE);
                atomic::replace(fs, &removal.path, text.as_bytes(), mode)?;
            }
            None => super::journal::remove(fs, &removal.path)?,
        }
        for folder in removal.folders.iter().rev() {
            remove_empty(folder, fs)?;
        }
        journal.forget(&removal.path);
    }
    match has_home {
        true => journal.write(fs, folder),
        false => Ok(()),
    }
}

fn remove_empty(folder: &Path, fs: &dyn Fs) -> Result<(), Error> {
    let removed = fs.remove_dir(folder);
    match removed.and_then(|()| fs.sync_dir(directory_of(folder))) {
        Ok(()) => Ok(()),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::DirectoryNotEmpty
                    | io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(sys::failure("remove the folder", folder, &error)),
    }
}

/// Does the journal name files of the service?
pub fn has_service(journal: &Journal) -> bool {
    journal.files().iter().any(|record| record.owner == WATCHER)
}
