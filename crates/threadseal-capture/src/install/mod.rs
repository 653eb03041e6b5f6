//! Hooks and services are put into a user's files, and taken out again.
//!
//! ```text
//! install    plan: read each file, compute its new text ─► journal, durable ─► each file, whole
//! uninstall  plan: compare each file with the journal   ─► each file, whole  ─► journal
//!
//! the file now              uninstall
//! a text that we wrote      the text before, byte for byte; no file if there was none
//! the text before           nothing
//! anything else             without our hooks; comments, order and all else stay
//! ```
//! A plan changes nothing. A file that changed after its plan is not written. A symbolic link stays,
//! and the file that it leads to is written.
//!
//! | module | owns |
//! |---|---|
//! | [`journal`] | [`Journal`]: what was written, and what was there before |
//! | [`undo`] | the way back |

pub mod journal;
pub mod undo;

pub use journal::{Journal, Record, RecordKind, WATCHER};

use crate::agent::Agent;
use crate::agent::machine::Machine;
use crate::agent::places::SettingsKind;
use crate::settings::{HookCommand, MAX_SETTINGS_BYTES, Shape, hooks, json, plugin};
use std::io;
use std::path::{Path, PathBuf};
use threadseal_core::error::Error;
use threadseal_store::atomic::{self, Mode, PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::lock::Exclusive;
use threadseal_store::read;
use threadseal_store::sys::{self, FileKind, Fs, directory_of};

/// The lock in the folder of capture.
const LOCK: &str = "install.lock";

/// Whose hooks are installed, and how.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'w> {
    /// The machine.
    pub machine: &'w Machine,
    /// This program.
    pub program: &'w Path,
    /// The home, unless it is the default one.
    pub home: Option<&'w Path>,
    /// Does the agent wait for the seal before each tool?
    pub strict: bool,
}

impl Wish<'_> {
    /// The command of an agent's hooks.
    pub fn command(&self, agent: Agent) -> HookCommand {
        HookCommand {
            program: self.program.to_owned(),
            agent,
            home: self.home.map(Path::to_owned),
            strict: self.strict,
        }
    }
}

/// One file, and its text to come.
#[derive(Debug, Clone)]
pub struct FilePlan {
    /// The name of the agent, or [`WATCHER`].
    pub owner: String,
    /// Its path.
    pub path: PathBuf,
    /// How it is restored later.
    pub kind: RecordKind,
    /// Its text now; `None` if there is no file.
    pub current: Option<String>,
    /// Its text to come.
    pub wanted: String,
    /// Its text now without our parts; `None` if nothing of it is left.
    pub stripped: Option<String>,
    /// How many hooks of the user it has.
    pub kept: usize,
    /// How many of our hooks it has now.
    pub replaced: usize,
}

impl FilePlan {
    /// What is done with the file.
    pub fn action(&self) -> Action {
        match &self.current {
            None => Action::Create,
            Some(text) if *text == self.wanted => Action::Keep,
            Some(_) => Action::Edit,
        }
    }
}

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is made.
    Create,
    /// It is changed.
    Edit,
    /// It is right already.
    Keep,
}

impl Action {
    /// The word for it in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Edit => "edit",
            Self::Keep => "keep",
        }
    }
}

/// The text that the settings of an agent are to have. `None` for an agent without hooks.
///
/// # Errors
/// When the file is not the user's, is no settings file, or a file of ours was edited.
pub fn plan_agent(
    agent: Agent,
    wish: &Wish,
    journal: &Journal,
    fs: &dyn Fs,
) -> Result<Option<FilePlan>, Error> {
    let Some(settings) = agent.settings(wish.machine) else {
        return Ok(None);
    };
    let command = wish.command(agent);
    if command.program.to_str().is_none()
        || command
            .home
            .as_ref()
            .is_some_and(|home| home.to_str().is_none())
    {
        let shown = command.program.display();
        return Err(Error::invalid(format!(
            "the path of {shown} or of the home is not UTF-8, so no settings file can name it"
        )));
    }
    let owner = agent.name();
    match settings.kind {
        SettingsKind::Plugin => {
            let wanted = plugin::opencode(&command);
            plan_own(owner, settings.path, wanted, journal, fs).map(Some)
        }
        SettingsKind::Json(shape) => {
            let entries = hooks::entries(&command, wish.machine.system());
            let current = read_settings(fs, &settings.path)?;
            let is_ours = |text: &str| HookCommand::is_ours(text, journal.programs());
            let text = current.as_deref().unwrap_or_default();
            let about = |error: Error| about(&settings.path, &error);
            let with = json::with_hooks(text, shape, &entries, &is_ours).map_err(about)?;
            let before = journal.file(&settings.path);
            let before = before.and_then(|record| record.before.as_deref());
            let stripped = match &current {
                None => None,
                Some(_) => stripped(text, before, shape, &is_ours).map_err(about)?,
            };
            Ok(Some(FilePlan {
                owner: owner.to_owned(),
                path: settings.path,
                kind: RecordKind::Hooks,
                current,
                wanted: with.text,
                stripped,
                kept: with.kept,
                replaced: with.replaced,
            }))
        }
    }
}

/// The plan for a whole file of ours.
///
/// # Errors
/// When a file is there that is not ours, or was edited.
pub fn plan_own(
    owner: &str,
    path: PathBuf,
    wanted: String,
    journal: &Journal,
    fs: &dyn Fs,
) -> Result<FilePlan, Error> {
    let current = read_settings(fs, &path)?;
    if let Some(text) = &current {
        let wrote = journal.file(&path).is_some_and(|record| record.wrote(text));
        if !wrote && !plugin::is_unedited(text) {
            let state = match plugin::has_mark(text) {
                true => "was edited after threadseal wrote it",
                false => "is no file of threadseal",
            };
            let shown = path.display();
            return Err(Error::invalid(format!(
                "{shown} {state}; hint: mv {shown} {shown}.old"
            )));
        }
    }
    Ok(FilePlan {
        owner: owner.to_owned(),
        path,
        kind: RecordKind::Own,
        replaced: usize::from(current.is_some()),
        current,
        wanted,
        stripped: None,
        kept: 0,
    })
}

/// Writes the journal, then each file.
///
/// # Errors
/// When a file changed after its plan, or cannot be written. A second call then does the rest.
pub fn apply(plans: &[FilePlan], program: &Path, folder: &Path, fs: &dyn Fs) -> Result<(), Error> {
    let _lock = enter(folder, fs)?;
    let mut journal = Journal::read(fs, folder)?;
    journal.note_program(program);
    for plan in plans {
        let record = record(plan, &journal, fs)?;
        journal.put(record);
    }
    journal.write(fs, folder)?;
    for plan in plans.iter().filter(|plan| plan.action() != Action::Keep) {
        refuse_changed(plan.current.as_deref(), &plan.path, fs)?;
        atomic::create_directories(fs, directory_of(&plan.path), PRIVATE_DIRECTORY)?;
        let mode = Mode::KeepOr(PRIVATE_FILE);
        atomic::replace(fs, &plan.path, plan.wanted.as_bytes(), mode)?;
    }
    Ok(())
}

/// Lets one process at a time change settings.
pub(crate) fn enter(folder: &Path, fs: &dyn Fs) -> Result<Exclusive, Error> {
    atomic::create_directories(fs, folder, PRIVATE_DIRECTORY)?;
    Exclusive::enter(fs, &folder.join(LOCK))
}

/// What the journal is to hold of a file before it is written.
fn record(plan: &FilePlan, journal: &Journal, fs: &dyn Fs) -> Result<Record, Error> {
    let known = journal.file(&plan.path);
    let mut folders = known
        .map(|record| record.folders.clone())
        .unwrap_or_default();
    for folder in missing_folders(&plan.path, fs)? {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    let mut record = Record {
        owner: plan.owner.clone(),
        path: plan.path.clone(),
        kind: plan.kind,
        before: None,
        written: known
            .map(|record| record.written.clone())
            .unwrap_or_default(),
        folders,
        entries: Vec::new(),
    };
    record.before = match (&plan.current, known) {
        (None, _) => None,
        (Some(text), Some(known)) if known.wrote(text) || known.before.as_ref() == Some(text) => {
            known.before.clone()
        }
        // It was edited since, and is right: the way back is the removal of our hooks.
        (Some(_), Some(known)) if plan.action() == Action::Keep => return Ok(known.clone()),
        (Some(_), Some(_)) => plan.stripped.clone(),
        (Some(text), None) if plan.replaced == 0 => Some(text.clone()),
        (Some(_), None) => plan.stripped.clone(),
    };
    record.will_write(&plan.wanted);
    Ok(record)
}

/// The folders that a file needs and that do not exist, outermost first.
fn missing_folders(path: &Path, fs: &dyn Fs) -> Result<Vec<PathBuf>, Error> {
    let mut missing = Vec::new();
    let mut folder = directory_of(path);
    loop {
        match fs.metadata(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                missing.push(folder.to_owned());
                folder = directory_of(folder);
            }
            Err(error) => return Err(sys::failure("read", folder, &error)),
            Ok(_) => break,
        }
    }
    missing.reverse();
    Ok(missing)
}

/// The text of a settings file of this user; `None` if there is none.
///
/// # Errors
/// When it, or the folder that it would be in, belongs to another user; when it is no regular file,
/// too large, or not UTF-8.
pub fn read_settings(fs: &dyn Fs, path: &Path) -> Result<Option<String>, Error> {
    let fail = |error: &io::Error| sys::failure("read", path, error);
    match fs.symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.ancestors().skip(1);
            let mut there =
                folder.filter_map(|folder| fs.metadata(folder).ok().map(|found| (folder, found)));
            if let Some((folder, found)) = there.next() {
                refuse_foreign(folder, found.uid, fs)?;
            }
            return Ok(None);
        }
        Err(error) => return Err(fail(&error)),
        Ok(_) => {}
    }
    // A link that leads nowhere is an error: its target is another person's plan.
    let found = fs.metadata(path).map_err(|error| fail(&error))?;
    if found.kind != FileKind::Regular {
        let shown = path.display();
        return Err(Error::invalid(format!("{shown} is {}", found.kind)));
    }
    refuse_foreign(path, found.uid, fs)?;
    let bytes = read::read_small(fs, path, MAX_SETTINGS_BYTES)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(about(path, &Error::invalid("it is not UTF-8"))),
    }
}

fn refuse_foreign(path: &Path, owner: u32, fs: &dyn Fs) -> Result<(), Error> {
    if owner == fs.effective_uid() {
        return Ok(());
    }
    let shown = path.display();
    Err(Error::invalid(format!(
        "{shown} belongs to user {owner}, not to you; hint: run this as that user, without sudo"
    )))
}

pub(crate) fn refuse_changed(planned: Option<&str>, path: &Path, fs: &dyn Fs) -> Result<(), Error> {
    if read_settings(fs, path)?.as_deref() == planned {
        return Ok(());
    }
    let shown = path.display();
    Err(Error::new(
        threadseal_core::error::ErrorKind::External,
        format!("{shown} changed meanwhile; hint: run the command again"),
    ))
}

/// A text without our hooks; `None` if nothing is left of a file that was not there before.
pub(crate) fn stripped(
    text: &str,
    before: Option<&str>,
    shape: Shape,
    is_ours: &dyn Fn(&str) -> bool,
) -> Result<Option<String>, Error> {
    let without = json::without_hooks(text, before, shape, is_ours)?;
    let is_gone = without.is_empty && before.is_none() && without.removed > 0;
    Ok((!is_gone).then_some(without.text))
}

pub(crate) fn about(path: &Path, error: &Error) -> Error {
    Error::new(
        error.kind(),
        format!("cannot use {}: {error}", path.display()),
    )
}

#[cfg(test)]
mod tests;
