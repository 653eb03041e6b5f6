//! The archive of sealed sessions (`spec/archive.md`): they verify after their agent deleted them.
//!
//! ```text
//! sealed log ─► Archive::keep ─► new chunks, durable ─► line of the journal, durable ─► earlier tail removed
//!               Archive::mount ─► ArchiveFs: log and seals as files ─► the one verifier
//! ```
//! | module | owns |
//! |---|---|
//! | `chunk` | boundaries, ids and files of chunks; encryption |
//! | `journal` | the states of one log |
//! | `keep` | what a new state adds |
//! | `mount` | archived logs as files that a verifier reads |
//! | `forget` | removal, tombstones, the quota |
//! | `redact` | lines that are removed for good |
//! | `secrets` | secrets in new lines: marked, or left out |
//! | `fsck` | damage, by name |
//!
//! Invariants: a durable line of a journal names only what is durable; one writer at a time, under
//! the lock; an archived log is the one that was sealed.

mod chunk;
mod forget;
mod fsck;
mod journal;
mod keep;
mod mount;
mod redact;
mod secrets;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use chunk::Secret;
pub use forget::{Forgotten, QuotaResult, Why};
pub use fsck::{Damage, FsckResult};
pub use journal::{Facts, State, Version};
pub use keep::{Kept, SealedLog};
pub use mount::{ArchiveFs, Mounted};
pub use redact::{Redacted, RedactedLines, Statement};
pub use secrets::{Finder, Mark, Search, Secrets};

use crate::Agent;
use crate::session::{MARK_DIGITS, Part, SessionFile, SessionId};
use journal::{Journal, MAX_JOURNAL_BYTES, Piece, Stream};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::atomic::{self, Mode, PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::clock::Clock;
use threadseal_store::lock::Exclusive;
use threadseal_store::random::Random;
use threadseal_store::read::read_small;
use threadseal_store::sys::{self, Fs};

/// Most bytes of the settings.
const MAX_SETTINGS_BYTES: usize = 64 << 10;
const FORMAT: &str = "threadseal-archive/1";
const JOURNAL_ENDING: &str = ".jsonl";
const SUB_AGENT_START: &str = "sub-";
const MAIN: &str = "main";

/// The effects that an archive needs.
#[derive(Debug, Clone)]
pub struct Effects {
    /// Files.
    pub fs: Arc<dyn Fs>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Nonces.
    pub random: Arc<dyn Random>,
}

/// What the user decided about the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Are new states archived?
    pub on: bool,
    /// Are chunks encrypted?
    pub encrypted: bool,
    /// Most bytes of files; 0 for no limit.
    pub quota: u64,
    /// What is done with secrets in new lines.
    pub secrets: Secrets,
}

/// The settings as their file has them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsFile {
    format: String,
    on: bool,
    encrypted: bool,
    quota: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secrets: Option<String>,
}

/// The archive of a home.
#[derive(Debug, Clone)]
pub struct Archive {
    effects: Effects,
    root: PathBuf,
    settings: Settings,
    secret: Option<Secret>,
}

/// The name of one log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogName {
    /// Its session.
    pub session: SessionId,
    /// The subagent whose log it is; `None` for the session's own.
    pub sub_agent: Option<String>,
}

/// One archived log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedLog {
    /// Its name.
    pub name: LogName,
    /// Where it came from, and what it belongs to.
    pub facts: Facts,
    /// Its versions, oldest first; a log that only grew has one.
    pub versions: Vec<Version>,
    /// Why a part of its journal does not count.
    pub damage: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            on: true,
            encrypted: false,
            quota: 0,
            secrets: Secrets::default(),
        }
    }
}

impl Settings {
    /// The settings of the archive at `root`.
    fn of(fs: &dyn Fs, root: &Path) -> Result<Self, Error> {
        let place = root.join("archive.json");
        match read_if_there(fs, &place, MAX_SETTINGS_BYTES)? {
            None => Ok(Self::default()),
            Some(bytes) => Self::read(&bytes).ok_or_else(|| {
                let place = place.display();
                Error::invalid(format!(
                    "{place} holds no settings of an archive that is known"
                ))
            }),
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let file: SettingsFile = serde_json::from_slice(bytes).ok()?;
        let secrets = file.secrets.as_deref().map(Secrets::parse);
        let secrets = secrets.unwrap_or(Some(Secrets::default()))?;
        (file.format == FORMAT).then_some(Self {
            on: file.on,
            encrypted: file.encrypted,
            quota: file.quota,
            secrets,
        })
    }

    fn bytes(self) -> Vec<u8> {
        let file = SettingsFile {
            format: FORMAT.to_owned(),
            on: self.on,
            encrypted: self.encrypted,
            quota: self.quota,
            secrets: (self.secrets != Secrets::default()).then(|| self.secrets.name().to_owned()),
        };
        // Serialising strings, numbers and truth values does not fail.
        let mut bytes = serde_json::to_vec(&file).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

impl LogName {
    /// The name of the log in `file`.
    pub fn of(file: &SessionFile) -> Self {
        Self {
            session: file.session.clone(),
            sub_agent: match &file.part {
                Part::Main => None,
                Part::SubAgent { name, .. } => Some(name.clone()),
            },
        }
    }

    /// The name of another log that claims this one.
    fn beside(&self, path: &Path) -> Self {
        let place = Digest::of(path.as_os_str().as_encoded_bytes()).to_hex();
        let mark = &place[..MARK_DIGITS];
        match &self.sub_agent {
            None => Self {
                session: SessionId::new(
                    self.session.agent(),
                    &format!("{}-{mark}", self.session.own()),
                ),
                sub_agent: None,
            },
            Some(name) => Self {
                session: self.session.clone(),
                sub_agent: Some(format!("{name}-{mark}")),
            },
        }
    }

    fn part(&self) -> String {
        match &self.sub_agent {
            None => MAIN.to_owned(),
            Some(name) => format!("{SUB_AGENT_START}{name}"),
        }
    }
}

impl std::fmt::Display for LogName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.sub_agent {
            None => write!(out, "{}", self.session),
            Some(name) => write!(out, "{}/{name}", self.session),
        }
    }
}

impl ArchivedLog {
    /// The newest version.
    pub fn newest(&self) -> Option<&Version> {
        self.versions.last()
    }

    /// The path of the log that was archived.
    pub fn source(&self) -> Option<PathBuf> {
        sys::text_path(self.facts.source.as_deref()?)
    }
}

impl Archive {
    /// The archive of the home at `home`; `secret` is needed to read or add content if it is
    /// encrypted. Nothing is made before the first state.
    ///
    /// # Errors
    /// Kind `InvalidInput` when its settings cannot be read.
    pub fn open(effects: Effects, home: &Path, secret: Option<Secret>) -> Result<Self, Error> {
        let root = home.join("archive");
        let settings = Settings::of(&*effects.fs, &root)?;
        Ok(Self {
            secret: secret.filter(|_| settings.encrypted),
            effects,
            root,
            settings,
        })
    }

    /// The same archive with its settings of now: another process may have changed them.
    fn renewed(&self) -> Result<Self, Error> {
        Ok(Self {
            settings: Settings::of(self.fs(), &self.root)?,
            ..self.clone()
        })
    }

    /// The settings, as they were when the archive was opened or changed.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Changes the settings, durably. Encryption is decided before the first chunk: `secret` is that
    /// of an archive which is to be encrypted.
    ///
    /// # Errors
    /// Kind `Refused` when encryption would change for chunks that exist; `External` when the
    /// system fails.
    pub fn set(&mut self, settings: Settings, secret: Option<Secret>) -> Result<(), Error> {
        let lock = self.enter()?;
        if settings.encrypted != self.settings.encrypted && self.has_chunks()? {
            let text = "the archive has chunks already: whether it is encrypted cannot change; hint: archive forget all sessions, or move the archive away";
            return Err(Error::refused(text));
        }
        let place = self.root.join("archive.json");
        atomic::replace(
            self.fs(),
            &place,
            &settings.bytes(),
            Mode::Set(PRIVATE_FILE),
        )?;
        drop(lock);
        if settings.encrypted && secret.is_some() {
            self.secret = secret;
        }
        self.settings = settings;
        Ok(())
    }

    /// All archived logs, by name.
    ///
    /// # Errors
    /// Kind `External` or `InvalidInput` when the system cannot read the archive.
    pub fn logs(&self) -> Result<Vec<ArchivedLog>, Error> {
        let forgotten = self.forgotten()?;
        let is_forgotten = |id: &SessionId| forgotten.iter().any(|gone| gone.session == *id);
        let mut logs = Vec::new();
        for name in self.names()? {
            if !is_forgotten(&name.session) {
                logs.push(self.read_log(name)?);
            }
        }
        Ok(logs)
    }

    /// The logs of one session: its own, then those of subagents.
    ///
    /// # Errors
    /// As [`Archive::logs`].
    pub fn session(&self, id: &SessionId) -> Result<Vec<ArchivedLog>, Error> {
        if self.forgotten()?.iter().any(|gone| gone.session == *id) {
            return Ok(Vec::new());
        }
        let names = self.names_in(id)?;
        names.into_iter().map(|name| self.read_log(name)).collect()
    }

    /// One log.
    ///
    /// # Errors
    /// As [`Archive::logs`].
    pub fn log(&self, name: &LogName) -> Result<ArchivedLog, Error> {
        self.read_log(name.clone())
    }

    /// The names of all logs, each with a text that changes when its journal does.
    ///
    /// # Errors
    /// As [`Archive::logs`].
    pub fn stamps(&self) -> Result<Vec<(LogName, String)>, Error> {
        let forgotten = self.forgotten()?;
        let is_forgotten = |id: &SessionId| forgotten.iter().any(|gone| gone.session == *id);
        let mut stamps = Vec::new();
        for name in self.names()? {
            let found = self.fs().metadata(&self.journal_place(&name));
            if let Ok(found) = found
                && !is_forgotten(&name.session)
            {
                stamps.push((name, format!("{}-{}", found.size, found.modified_ns)));
            }
        }
        Ok(stamps)
    }

    /// The names of all sessions that have logs.
    ///
    /// # Errors
    /// As [`Archive::logs`].
    pub fn sessions(&self) -> Result<Vec<SessionId>, Error> {
        let mut sessions: Vec<SessionId> =
            self.names()?.into_iter().map(|name| name.session).collect();
        sessions.dedup();
        Ok(sessions)
    }

    /// Bytes of the log in this version, from `start` on; the reason if they are damaged.
    ///
    /// # Errors
    /// Kind `InvalidInput` when a chunk is missing or damaged, `Key` without the archive's key.
    pub fn read(&self, log: &ArchivedLog, version: &Version, start: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let mut offset = 0;
        for piece in version.log.pieces() {
            let end = offset + u64::from(piece.size);
            if end > start {
                let part = self.piece(&log.name, StreamKind::Log, piece, &version.log)?;
                let skip = usize::try_from(start.saturating_sub(offset)).unwrap_or(usize::MAX);
                bytes.extend_from_slice(part.get(skip..).unwrap_or_default());
            }
            offset = end;
        }
        Ok(bytes)
    }

    fn fs(&self) -> &dyn Fs {
        &*self.effects.fs
    }

    /// Makes the folders and takes the lock.
    fn enter(&self) -> Result<Exclusive, Error> {
        for folder in [
            self.root.clone(),
            self.root.join("chunks"),
            self.root.join("sessions"),
        ] {
            atomic::create_directories(self.fs(), &folder, PRIVATE_DIRECTORY)?;
        }
        Exclusive::enter(self.fs(), &self.root.join("lock"))
    }

    fn has_chunks(&self) -> Result<bool, Error> {
        let folders = list(self.fs(), &self.root.join("chunks"))?;
        let sessions = list(self.fs(), &self.root.join("sessions"))?;
        Ok(!folders.is_empty() || !sessions.is_empty())
    }

    /// The key, if the archive is encrypted.
    fn secret(&self) -> Result<Option<&Secret>, Error> {
        match (self.settings.encrypted, &self.secret) {
            (true, None) => Err(Error::key(
                "the archive is encrypted, and its key was not opened; hint: --passphrase-file",
            )),
            (_, secret) => Ok(secret.as_ref()),
        }
    }

    fn names(&self) -> Result<Vec<LogName>, Error> {
        let folder = self.root.join("sessions");
        let mut names = Vec::new();
        for agent in list(self.fs(), &folder)? {
            let Ok(agent) = agent.parse::<Agent>() else {
                continue;
            };
            for own in list(self.fs(), &folder.join(agent.name()))? {
                let id = SessionId::new(agent, &own);
                if id.own() == own {
                    names.extend(self.names_in(&id)?);
                }
            }
        }
        Ok(names)
    }

    fn names_in(&self, id: &SessionId) -> Result<Vec<LogName>, Error> {
        let files = list(self.fs(), &self.session_folder(id))?;
        let parts = files
            .iter()
            .filter_map(|file| file.strip_suffix(JOURNAL_ENDING));
        let names = parts.filter_map(|part| match part.strip_prefix(SUB_AGENT_START) {
            Some(name) => Some(Some(name.to_owned())),
            None => (part == MAIN).then_some(None),
        });
        let mut names: Vec<LogName> = names
            .map(|sub_agent| LogName {
                session: id.clone(),
                sub_agent,
            })
            .collect();
        names.sort();
        Ok(names)
    }

    fn session_folder(&self, id: &SessionId) -> PathBuf {
        let agents = self.root.join("sessions");
        agents.join(id.agent().name()).join(id.own())
    }

    fn journal_place(&self, name: &LogName) -> PathBuf {
        let file = format!("{}{JOURNAL_ENDING}", name.part());
        self.session_folder(&name.session).join(file)
    }

    fn journal(&self, name: &LogName) -> Result<Journal, Error> {
        let bytes = read_if_there(self.fs(), &self.journal_place(name), MAX_JOURNAL_BYTES)?;
        Ok(Journal::read(&bytes.unwrap_or_default()))
    }

    fn read_log(&self, name: LogName) -> Result<ArchivedLog, Error> {
        let journal = self.journal(&name)?;
        Ok(ArchivedLog {
            name,
            facts: journal.facts,
            versions: journal.versions,
            damage: journal.damage,
        })
    }

    fn chunk_place(&self, id: &Digest) -> PathBuf {
        let hex = id.to_hex();
        self.root.join("chunks").join(&hex[..2]).join(hex)
    }

    fn tail_place(&self, name: &LogName, kind: StreamKind, id: &Digest) -> PathBuf {
        let file = format!("{}.{}-{id}", name.part(), kind.name());
        self.session_folder(&name.session).join(file)
    }

    fn place_of(&self, name: &LogName, kind: StreamKind, piece: &Piece, of: &Stream) -> PathBuf {
        // A tail may have the bytes of a chunk: both files have them.
        match of
            .tail
            .as_ref()
            .is_some_and(|tail| std::ptr::eq(tail, piece))
        {
            true => self.tail_place(name, kind, &piece.id),
            false => self.chunk_place(&piece.id),
        }
    }

    /// The bytes of one part of `of`, which must be a reference into it.
    fn piece(
        &self,
        name: &LogName,
        kind: StreamKind,
        piece: &Piece,
        of: &Stream,
    ) -> Result<Vec<u8>, Error> {
        let place = self.place_of(name, kind, piece, of);
        self.read_piece(&place, piece)
    }

    fn read_piece(&self, place: &Path, piece: &Piece) -> Result<Vec<u8>, Error> {
        let damaged = |why: &str| {
            let (place, hint) = (place.display(), "hint: threadseal archive fsck");
            Error::invalid(format!("the archive is damaged: {place}: {why}; {hint}"))
        };
        let secret = self.secret()?;
        let file = read_if_there(self.fs(), place, chunk::MAX_CHUNK_FILE_BYTES)?;
        let file = file.ok_or_else(|| damaged("the file is missing"))?;
        let bytes = chunk::open(secret, &piece.id, &file).map_err(|why| damaged(&why))?;
        match u32::try_from(bytes.len()) == Ok(piece.size) {
            true => Ok(bytes),
            false => Err(damaged("its size is not the one in the journal")),
        }
    }
}

/// Which bytes of a record a stream holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamKind {
    Log,
    Seal,
}

impl StreamKind {
    const ALL: [Self; 2] = [Self::Log, Self::Seal];

    fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Seal => "seal",
        }
    }

    fn of(self, version: &Version) -> &Stream {
        match self {
            Self::Log => &version.log,
            Self::Seal => &version.seal,
        }
    }
}

/// The names in a folder, in order; none if there is no folder. Temporary files are left out.
fn list(fs: &dyn Fs, folder: &Path) -> Result<Vec<String>, Error> {
    let names = match fs.read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(sys::failure("read", folder, &error)),
        Ok(names) => names,
    };
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !atomic::is_temporary(name)).collect();
    names.sort();
    Ok(names)
}

fn read_if_there(fs: &dyn Fs, place: &Path, most: usize) -> Result<Option<Vec<u8>>, Error> {
    match fs.metadata(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(sys::failure("read", place, &error)),
        Ok(_) => match read_small(fs, place, most) {
            // Another process may have removed it in between.
            Err(error) if error.kind() == ErrorKind::InvalidInput && is_gone(fs, place) => Ok(None),
            read => read.map(Some),
        },
    }
}

fn is_gone(fs: &dyn Fs, place: &Path) -> bool {
    let found = fs.symlink_metadata(place);
    found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Removes a file that may be gone already.
fn remove(fs: &dyn Fs, place: &Path) -> Result<(), Error> {
    match fs.unlink(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(sys::failure("remove", place, &error))
        }
        _ => Ok(()),
    }
}
