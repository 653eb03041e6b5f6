//! [`Offloading`]: keeps long texts beside the ledger, and their digests in it.
//!
//! ```text
//! "…longer than the bound…"  ─►  {"$artifact":"<id>"}
//! id = SHA-256(run id NUL content), 32 hex digits
//! ```
//! As in `AbstractRuntime` (`storage/offloading.py`, `storage/artifacts.py`), this happens before
//! the record is hashed. So the hash covers the id and the id the content. Only texts inside
//! `effect.payload` and `result` are moved.

use super::{Appended, ChainedLedger, LedgerStore};
use crate::atomic::{self, PRIVATE_DIRECTORY, PRIVATE_FILE};
use crate::read;
use crate::sys::{self, Fs};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_formats::ledger::{RunId, StepRecord};

/// Texts with more bytes are moved, unless another bound is set (AbstractRuntime's default).
pub const MAX_INLINE_BYTES: usize = 256 << 10;
const MARKER: &str = "$artifact";
const ID_DIGITS: usize = 32;

/// The store of long texts.
pub trait ArtifactStore: fmt::Debug + Send + Sync {
    /// Keeps `content` of `run`, durably, and names it.
    ///
    /// # Errors
    /// Kind `External` when it cannot be kept.
    fn put(&self, run: &RunId, content: &[u8]) -> Result<String, Error>;

    /// The content under this name; its digest is compared with the name.
    ///
    /// # Errors
    /// Kind `InvalidInput` when there is nothing, kind `Refused` when it has another digest, kind
    /// `External` when it cannot be read.
    fn get(&self, run: &RunId, id: &str) -> Result<Vec<u8>, Error>;
}

/// The name of a content.
pub fn artifact_id(run: &RunId, content: &[u8]) -> String {
    let whole = [run.as_str().as_bytes(), b"\0", content].concat();
    let mut id = Digest::of(&whole).to_hex();
    id.truncate(ID_DIGITS);
    id
}

fn check(run: &RunId, id: &str, content: Vec<u8>) -> Result<Vec<u8>, Error> {
    if artifact_id(run, &content) == id {
        return Ok(content);
    }
    Err(Error::refused(format!(
        "artifact {id} does not match its name"
    )))
}

/// Artifacts in memory.
#[derive(Debug, Default)]
pub struct MemoryArtifacts(Mutex<BTreeMap<String, Vec<u8>>>);

impl ArtifactStore for MemoryArtifacts {
    fn put(&self, run: &RunId, content: &[u8]) -> Result<String, Error> {
        let id = artifact_id(run, content);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(id.clone(), content.to_vec());
        Ok(id)
    }

    fn get(&self, run: &RunId, id: &str) -> Result<Vec<u8>, Error> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.get(id).cloned();
        check(run, id, found.ok_or_else(|| absent(id))?)
    }
}

fn absent(id: &str) -> Error {
    Error::invalid(format!("there is no artifact {id}"))
}

/// Artifacts as files of one directory, `<id>.bin`.
#[derive(Debug)]
pub struct FileArtifacts {
    fs: Arc<dyn Fs>,
    directory: PathBuf,
}

impl FileArtifacts {
    /// The artifacts in `directory`, which is made if need be.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is none or cannot be made.
    pub fn open(fs: Arc<dyn Fs>, directory: &Path) -> Result<Self, Error> {
        atomic::create_directories(&*fs, directory, PRIVATE_DIRECTORY)?;
        let directory = directory.to_owned();
        Ok(Self { fs, directory })
    }

    fn path_of(&self, id: &str) -> Result<PathBuf, Error> {
        let is_id = id.len() == ID_DIGITS && id.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_id {
            return Err(absent(id));
        }
        Ok(self.directory.join(format!("{id}.bin")))
    }
}

impl ArtifactStore for FileArtifacts {
    fn put(&self, run: &RunId, content: &[u8]) -> Result<String, Error> {
        let id = artifact_id(run, content);
        // An existing file is written once more: it may not be durable, or not have the right
        // bytes.
        let path = self.path_of(&id)?;
        atomic::replace(&*self.fs, &path, content, atomic::Mode::Set(PRIVATE_FILE))?;
        Ok(id)
    }

    fn get(&self, run: &RunId, id: &str) -> Result<Vec<u8>, Error> {
        let path = self.path_of(id)?;
        match self.fs.symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(absent(id)),
            Err(error) => return Err(sys::failure("read", &path, &error)),
            Ok(_) => {}
        }
        check(
            run,
            id,
            read::read_small(&*self.fs, &path, MAX_DOCUMENT_BYTES)?,
        )
    }
}

/// A chained ledger whose long texts are stored beside it.
#[derive(Debug)]
pub struct Offloading<C, A> {
    ledger: C,
    artifacts: A,
    max_inline: usize,
}

impl<C: ChainedLedger, A: ArtifactStore> Offloading<C, A> {
    /// Moves texts of more than [`MAX_INLINE_BYTES`] into `artifacts`.
    pub fn new(ledger: C, artifacts: A) -> Self {
        Self {
            ledger,
            artifacts,
            max_inline: MAX_INLINE_BYTES,
        }
    }

    /// With another bound.
    #[must_use]
    pub fn with_max_inline(mut self, bytes: usize) -> Self {
        self.max_inline = bytes;
        self
    }

    /// The store of the texts.
    pub fn artifacts(&self) -> &A {
        &self.artifacts
    }

    fn all_slimmed(&self, run: &RunId, records: &[StepRecord]) -> Result<Vec<StepRecord>, Error> {
        let slimmed = records.iter().map(|record| self.slimmed(run, record));
        slimmed.collect()
    }

    fn slimmed(&self, run: &RunId, record: &StepRecord) -> Result<StepRecord, Error> {
        let mut record = record.clone();
        if let Some(effect) = &mut record.effect {
            self.slim(run, &mut effect.payload)?;
        }
        if let Some(result) = &mut record.result {
            self.slim(run, result)?;
        }
        Ok(record)
    }

    fn slim(&self, run: &RunId, value: &mut Value) -> Result<(), Error> {
        match value {
            Value::String(text) => {
                // A lone surrogate has no bytes that others could read; it stays.
                let long = text.as_str().filter(|text| text.len() > self.max_inline);
                if let Some(text) = long {
                    let id = self.artifacts.put(run, text.as_bytes())?;
                    *value = Value::Object(vec![(Text::from(MARKER), Value::from(id))]);
                }
                Ok(())
            }
            Value::Array(elements) => elements.iter_mut().try_for_each(|e| self.slim(run, e)),
            Value::Object(members) => members.iter_mut().try_for_each(|(_, v)| self.slim(run, v)),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }
}

impl<C: ChainedLedger, A: ArtifactStore> ChainedLedger for Offloading<C, A> {
    fn append_batch(&self, run: &RunId, records: &[StepRecord]) -> Result<Appended, Error> {
        self.ledger
            .append_batch(run, &self.all_slimmed(run, records)?)
    }

    fn begin_batch(&self, run: &RunId, records: &[StepRecord]) -> Result<Option<Appended>, Error> {
        self.ledger
            .begin_batch(run, &self.all_slimmed(run, records)?)
    }

    fn records(&self) -> &dyn LedgerStore {
        self.ledger.records()
    }
}
