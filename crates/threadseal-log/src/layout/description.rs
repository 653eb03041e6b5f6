//! What is fixed when a log is made: its id, its key, its host, its marks.
//!
//! ```text
//! log.json   {"schema":"threadseal.log/1","origin":…,"vkey":…,"host":…|null,"marks":[…],"single_host":…} LF
//! ```
//! `host` is a tagged digest of the system's name of this machine. It distinguishes a copy of the home on another machine
//! from a home that moved on this one. `marks` are the second places; they alone may be changed later.

use crate::layout::log_dir::{LogDir, damaged};
use crate::layout::mark_location::MarkLocation;
use serde::{Deserialize, Serialize};
use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::PublicKey;
use threadseal_core::note::{KeyName, SignedNote, parse_vkey, vkey};
use threadseal_core::tlog::checkpoint::{Checkpoint, Origin};
use threadseal_core::tlog::verifier::VerifierKey;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};

const SCHEMA: &str = "threadseal.log/1";
const ORIGIN: &str = "threadseal.log/";
const FILE: &str = "log.json";
const MAX_DESCRIPTION_BYTES: usize = 64 << 10;

/// Which log of all: 16 random bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId([u8; 16]);

impl LogId {
    /// The id with these bytes; new ids must come from a cryptographic source.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Reads 32 lower-case hex digits.
    pub fn parse_hex(text: &str) -> Option<Self> {
        encoding::parse_hex_array(text).map(Self)
    }

    /// The origin of its checkpoints, and the name of its key.
    pub fn origin(&self) -> String {
        format!("{ORIGIN}{self}")
    }

    /// The log whose checkpoints have this origin.
    pub(crate) fn of_origin(origin: &str) -> Option<Self> {
        Self::parse_hex(origin.strip_prefix(ORIGIN)?)
    }

    /// The checkpoint of a note that names this log; who signed it is not known.
    ///
    /// # Errors
    /// Kind `InvalidInput` when the note is none, or one of another log.
    pub(crate) fn unproved_checkpoint(&self, note: &SignedNote) -> Result<Checkpoint, Error> {
        let checkpoint = Checkpoint::parse(note.text());
        let checkpoint = checkpoint.map_err(|error| Error::invalid(error.to_string()))?;
        let ours = checkpoint.origin().as_str() == self.origin();
        match ours && checkpoint.extensions().is_empty() {
            true => Ok(checkpoint),
            false => Err(Error::invalid("the checkpoint belongs to another log")),
        }
    }

    /// The name of its key.
    pub fn key_name(&self) -> String {
        format!("log-{}", encoding::hex(&self.0[..8]))
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encoding::hex(&self.0))
    }
}

/// What is fixed of a log.
#[derive(Debug, Clone)]
pub struct Description {
    /// Which log.
    pub id: LogId,
    /// Whose signature its checkpoints have.
    pub key: PublicKey,
    /// The machine on which it was made, if the system has a name for it.
    pub host: Option<Digest>,
    /// Where its last checkpoint is kept a second time. The first is the default folder.
    pub marks: Vec<MarkLocation>,
    /// Did the user declare that one machine alone uses the home, on whatever file system it is?
    pub single_host: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    schema: String,
    origin: String,
    vkey: String,
    host: Option<String>,
    marks: Vec<String>,
    single_host: bool,
}

impl Description {
    /// The name under which the log signs: its origin.
    ///
    /// # Errors
    /// None that a log id can give.
    pub(crate) fn name(&self) -> Result<KeyName, Error> {
        KeyName::parse(&self.id.origin()).map_err(|error| Error::invalid(error.to_string()))
    }

    /// The key by which others know it.
    pub(crate) fn verifier(&self) -> Result<VerifierKey, Error> {
        Ok(VerifierKey::of_log(self.name()?, self.key))
    }

    pub(crate) fn origin(&self) -> Result<Origin, Error> {
        Origin::parse(&self.id.origin()).map_err(|error| Error::invalid(error.to_string()))
    }

    /// The checkpoint of a note that this log signed; None for any other.
    pub fn checkpoint(&self, note: &SignedNote) -> Option<Checkpoint> {
        let known = [(self.name().ok()?, self.key)];
        note.verify(&known).ok()?;
        let checkpoint = Checkpoint::parse(note.text()).ok()?;
        let ours =
            *checkpoint.origin() == self.origin().ok()? && checkpoint.extensions().is_empty();
        ours.then_some(checkpoint)
    }

    /// Its key as C2SP signed-note spells keys.
    pub fn vkey(&self) -> String {
        self.name()
            .map_or_else(|_| String::new(), |name| vkey(&name, &self.key))
    }

    pub(crate) fn write(&self, dir: &LogDir) -> Result<(), Error> {
        let (path, text) = (dir.file(FILE), self.to_text()?);
        atomic::create_new(&*dir.fs, &path, text.as_bytes(), PRIVATE_FILE)
    }

    /// Writes it in the place of the one that is there.
    pub(crate) fn rewrite(&self, dir: &LogDir) -> Result<(), Error> {
        let (path, text) = (dir.file(FILE), self.to_text()?);
        atomic::replace(&*dir.fs, &path, text.as_bytes(), Mode::Set(PRIVATE_FILE))
    }

    fn to_text(&self) -> Result<String, Error> {
        let nameless = |place: &&MarkLocation| {
            place
                .folder()
                .is_some_and(|folder| folder.to_str().is_none())
        };
        if let Some(place) = self.marks.iter().find(nameless) {
            return Err(Error::invalid(format!(
                "the name of the second place {place} is not UTF-8, so that {FILE} cannot name it; give the home, or that folder, \
                 another name"
            )));
        }
        let form = Form {
            schema: SCHEMA.to_owned(),
            origin: self.id.origin(),
            vkey: vkey(&self.name()?, &self.key),
            host: self.host.as_ref().map(Digest::to_hex),
            marks: self.marks.iter().map(ToString::to_string).collect(),
            single_host: self.single_host,
        };
        let text = serde_json::to_string(&form);
        let text = text.map_err(|error| Error::invalid(format!("{FILE}: {error}")))?;
        Ok(format!("{text}\n"))
    }

    /// Reads the description of the log with this id.
    pub(crate) fn read(dir: &LogDir, id: LogId) -> Result<Self, Error> {
        let path = dir.file(FILE);
        let bytes = dir.read(&path, MAX_DESCRIPTION_BYTES)?;
        let bytes = bytes.ok_or_else(|| {
            let text = format!("the log {id} has no {}", path.display());
            Error::new(ErrorKind::External, text)
        })?;
        Self::parse(&bytes, id).ok_or_else(|| damaged(&path))
    }

    fn parse(bytes: &[u8], id: LogId) -> Option<Self> {
        let form: Form = serde_json::from_slice(bytes).ok()?;
        let (name, key) = parse_vkey(&form.vkey).ok()?;
        let known = form.schema == SCHEMA && form.origin == id.origin();
        let host = match form.host {
            None => None,
            Some(hex) => Some(Digest::parse_hex(&hex)?),
        };
        let marks = form
            .marks
            .iter()
            .map(|place| MarkLocation::parse(place).ok());
        let marks = marks.collect::<Option<_>>()?;
        (known && name.as_str() == form.origin).then_some(Self {
            id,
            key,
            host,
            marks,
            single_host: form.single_host,
        })
    }
}
