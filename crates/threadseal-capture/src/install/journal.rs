//! What was written, and what was there before: `$THREADSEAL_HOME/capture/installed.json`, mode 0600.
//!
//! ```text
//! {"schema": "threadseal.installed/1",
//!  "programs": ["/opt/threadseal"],              programs that our hooks have run
//!  "files": [
//!    {"owner": "claude-code",                    the agent, or "watcher"
//!     "path": "/home/u/.claude/settings.json",
//!     "kind": "hooks",                           hooks, own or trust
//!     "before": "{\"model\": …}",                null: there was no file
//!     "written": ["<sha256>"],                   each text that we wrote, newest last
//!     "folders": ["/home/u/.claude"]}]}          folders that we made, outermost first
//! ```
//! It is written before the settings are. So after a crash at any point, a file is as it was before, or
//! as one of the texts that the journal names.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_store::atomic::{self, Mode, PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::owned_files::read_trusted_file;
use threadseal_store::sys::{self, Fs};

const SCHEMA: &str = "threadseal.installed/1";
/// Its name in the folder of capture.
const NAME: &str = "installed.json";
/// Largest journal in bytes.
const MAX_JOURNAL_BYTES: usize = 64 << 20;
/// How many texts of one file are remembered.
const MAX_WRITTEN: usize = 16;
/// How many programs are remembered.
const MAX_PROGRAMS: usize = 16;

/// The owner of the files of the service.
pub const WATCHER: &str = "watcher";

/// How a file is restored after its user edited it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordKind {
    /// Our hooks are removed from it.
    Hooks,
    /// It is a file of ours: an edited one stays.
    Own,
    /// Codex's entries that trust our hooks are removed from it.
    Trust,
}

/// A file that we wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The name of the agent, or [`WATCHER`].
    pub owner: String,
    /// Its path.
    #[serde(with = "as_text")]
    pub path: PathBuf,
    /// How it is restored.
    pub kind: RecordKind,
    /// Its text before; `None` if there was no file.
    pub before: Option<String>,
    /// The digests of the texts that we wrote, newest last.
    pub written: Vec<String>,
    /// The folders that we made for it, outermost first.
    #[serde(with = "as_texts")]
    pub folders: Vec<PathBuf>,
    /// The keys of the hooks that Codex trusts because of us.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<String>,
}

impl Record {
    /// Is this text one that we wrote?
    pub fn wrote(&self, text: &str) -> bool {
        self.written.contains(&digest(text))
    }

    /// Notes a text that is written next.
    pub fn will_write(&mut self, text: &str) {
        let digest = digest(text);
        self.written.retain(|known| *known != digest);
        self.written.push(digest);
        let surplus = self.written.len().saturating_sub(MAX_WRITTEN);
        self.written.drain(..surplus);
    }
}

/// All that was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    schema: String,
    #[serde(with = "as_texts")]
    programs: Vec<PathBuf>,
    files: Vec<Record>,
}

impl Journal {
    /// Reads the journal in `folder`; an empty one if there is none.
    ///
    /// # Errors
    /// When other users may write to it, or it is no journal of this version.
    pub fn read(fs: &dyn Fs, folder: &Path) -> Result<Self, Error> {
        let path = folder.join(NAME);
        let Some(bytes) = read_trusted_file(fs, &path, MAX_JOURNAL_BYTES)? else {
            return Ok(Self {
                schema: SCHEMA.to_owned(),
                ..Self::default()
            });
        };
        let refused = |why: String| Error::invalid(format!("cannot use {}: {why}", path.display()));
        let journal: Self =
            serde_json::from_slice(&bytes).map_err(|error| refused(error.to_string()))?;
        if journal.schema != SCHEMA {
            return Err(refused(format!("its schema is {}", journal.schema)));
        }
        Ok(journal)
    }

    /// Writes it, durably; removes the file if nothing is installed.
    ///
    /// # Errors
    /// When it is too large or cannot be written.
    pub fn write(&self, fs: &dyn Fs, folder: &Path) -> Result<(), Error> {
        let path = folder.join(NAME);
        if self.files.is_empty() {
            return remove(fs, &path);
        }
        let mut bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::invalid(format!("cannot write the journal: {error}")))?;
        bytes.push(b'\n');
        if bytes.len() > MAX_JOURNAL_BYTES {
            let shown = path.display();
            return Err(Error::invalid(format!(
                "cannot write {shown}: it would be longer than {MAX_JOURNAL_BYTES} bytes"
            )));
        }
        atomic::create_directories(fs, folder, PRIVATE_DIRECTORY)?;
        atomic::replace(fs, &path, &bytes, Mode::Set(PRIVATE_FILE))
    }

    /// The programs that our hooks have run.
    pub fn programs(&self) -> &[PathBuf] {
        &self.programs
    }

    /// Notes the program of the next hooks.
    pub fn note_program(&mut self, program: &Path) {
        self.programs.retain(|known| known != program);
        self.programs.push(program.to_owned());
        let surplus = self.programs.len().saturating_sub(MAX_PROGRAMS);
        self.programs.drain(..surplus);
    }

    /// All files.
    pub fn files(&self) -> &[Record] {
        &self.files
    }

    /// The record of a file.
    pub fn file(&self, path: &Path) -> Option<&Record> {
        self.files.iter().find(|record| record.path == path)
    }

    /// Puts a record in place of that of the same file.
    pub fn put(&mut self, record: Record) {
        match self
            .files
            .iter_mut()
            .find(|known| known.path == record.path)
        {
            Some(known) => *known = record,
            None => self.files.push(record),
        }
    }

    /// Forgets a file.
    pub fn forget(&mut self, path: &Path) {
        self.files.retain(|record| record.path != path);
    }
}

/// The digest of a text, as the journal writes it.
fn digest(text: &str) -> String {
    Digest::of(text.as_bytes()).to_hex()
}

/// Removes a file, durably, if it is there.
pub(crate) fn remove(fs: &dyn Fs, path: &Path) -> Result<(), Error> {
    let removed = fs.unlink(path);
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed.and_then(|()| fs.sync_dir(sys::directory_of(path))),
    }
    .map_err(|error| sys::failure("remove", path, &error))
}

mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de};
    use std::path::{Path, PathBuf};
    use threadseal_store::sys::{path_text, text_path};

    pub(super) fn serialize<S: Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&path_text(path))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(from)?;
        text_path(&text).ok_or_else(|| de::Error::custom(format!("{text:?} is no path")))
    }
}

mod as_texts {
    use serde::{Deserialize as _, Deserializer, Serializer, de};
    use std::path::PathBuf;
    use threadseal_store::sys::{path_text, text_path};

    pub(super) fn serialize<S: Serializer>(paths: &[PathBuf], out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(paths.iter().map(|path| path_text(path)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<PathBuf>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        let path = |text: &String| {
            text_path(text).ok_or_else(|| de::Error::custom(format!("{text:?} is no path")))
        };
        texts.iter().map(path).collect()
    }
}
