//! [`JsonlLedgerStore`]: one file of lines for each run, as `AbstractRuntime` writes it.
//!
//! ```text
//! DIRECTORY/ledger_<run id>.jsonl                      the records, compact JSON and LF each
//! DIRECTORY/ledger_<run id>.index                      their places (index.rs); made again if lost
//! DIRECTORY/ledger_<run id>.deleted                    the tombstone (run_files.rs)
//! DIRECTORY/ledger_<run id>.jsonl.tail-<offset>-<sha>  a torn end that was moved aside
//! ```
//! The ledger is plain: AbstractRuntime reads our files, and this store continues its files as they
//! are. Only whole records are ever written into it. A run id becomes a part of these names only on
//! one condition: no file system could read it as another id or a path.
//!
//! | file | owns |
//! |---|---|
//! | `line` | which line is a record, which is torn |
//! | `index` | the side index, byte for byte |
//! | `end` | the end of the records, by both |
//! | `writer` | appending in turns, settling the end after a crash |
//! | `reader` | reading without a lock |
//! | `run_files` | the names of these files, tombstones |
//! | `delete` | deleting a ledger |
//! | `check` | the index as a witness, for a reader |
//! | `fsck` | checking all of it with code of its own |

mod check;
#[cfg(test)]
mod crashes;
mod delete;
mod end;
mod fsck;
mod index;
mod line;
mod reader;
mod run_files;
#[cfg(test)]
mod tests;
mod writer;

pub use check::IndexState;

use crate::atomic::{self, PRIVATE_DIRECTORY};
use crate::heads::Durability;
use crate::ledger::{
    Append, Entry, FsckReport, LedgerStore, StoredRecord, Tip, Tombstone, check_entries,
};
use crate::sys::{self, Fs};
use reader::Reader;
use run_files::{LEDGER, PREFIX, RunFiles, strip};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;
use writer::{Outcome, Writer};

/// Most ledgers that stay open between appends.
const MAX_OPEN_LEDGERS: usize = 128;
/// Times that a file may be made or replaced under us before we give up.
const MAX_ATTEMPTS: usize = 64;

/// Ledgers as files in one directory.
#[derive(Debug)]
pub struct JsonlLedgerStore {
    fs: Arc<dyn Fs>,
    directory: PathBuf,
    durability: Durability,
    open: Mutex<BTreeMap<RunId, Slot>>,
}

/// The writer of one run, shared by the threads of this process.
type Slot = Arc<Mutex<Option<Writer>>>;

impl JsonlLedgerStore {
    /// The store in `directory`, which is made if need be. Each append is durable when it returns.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when `directory` is none or cannot be made.
    pub fn open(fs: Arc<dyn Fs>, directory: &Path) -> Result<Self, Error> {
        Self::with_durability(fs, directory, Durability::Durable)
    }

    /// As [`JsonlLedgerStore::open`], but an append survives only this process when it returns. A
    /// power cut may remove the last appends, never one before them.
    ///
    /// # Errors
    /// As [`JsonlLedgerStore::open`].
    pub fn open_without_fsync(fs: Arc<dyn Fs>, directory: &Path) -> Result<Self, Error> {
        Self::with_durability(fs, directory, Durability::Written)
    }

    fn with_durability(
        fs: Arc<dyn Fs>,
        directory: &Path,
        durability: Durability,
    ) -> Result<Self, Error> {
        atomic::create_directories(&*fs, directory, PRIVATE_DIRECTORY)?;
        Ok(Self {
            fs,
            directory: directory.to_owned(),
            durability,
            open: Mutex::default(),
        })
    }

    /// The path of the ledger of `run`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when the id cannot be a part of a file name.
    pub fn path_of(&self, run: &RunId) -> Result<PathBuf, Error> {
        Ok(self.context(run)?.paths.ledger)
    }

    /// What the side index of the ledger of `run` in `directory` shows about the ledger, which must be
    /// there. Nothing is made or changed.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when a file cannot be read.
    pub fn check_index(
        fs: &Arc<dyn Fs>,
        directory: &Path,
        run: &RunId,
    ) -> Result<IndexState, Error> {
        check::check(&RunFiles::of(fs, directory, run, Durability::Durable)?)
    }

    /// How many records of `run` the side index in `directory` shows to be lost, where the ledger is
    /// gone and was not deleted by this store.
    ///
    /// # Errors
    /// As [`JsonlLedgerStore::check_index`].
    pub fn lost_with_ledger(fs: &Arc<dyn Fs>, directory: &Path, run: &RunId) -> Result<u64, Error> {
        let context = RunFiles::of(fs, directory, run, Durability::Durable)?;
        let acknowledged = check::acknowledged(&context)?;
        // A deletion writes its tombstone first, so a look in this order overlooks none.
        if context.exists(&context.paths.ledger)? || context.tombstone()?.is_some() {
            return Ok(0);
        }
        Ok(acknowledged)
    }

    fn context<'c>(&'c self, run: &'c RunId) -> Result<RunFiles<'c>, Error> {
        RunFiles::of(&self.fs, &self.directory, run, self.durability)
    }

    fn slot(&self, run: &RunId) -> Slot {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = open.get(run) {
            return Arc::clone(slot);
        }
        if open.len() >= MAX_OPEN_LEDGERS {
            // A thread that works on one holds a clone of it.
            let idle = open.iter().find(|(_, slot)| Arc::strong_count(slot) == 1);
            if let Some(run) = idle.map(|(run, _)| run.clone()) {
                open.remove(&run);
            }
        }
        Arc::clone(open.entry(run.clone()).or_default())
    }

    /// One attempt with the present files; `None` when they changed meanwhile.
    fn try_append(
        context: &RunFiles<'_>,
        slot: &mut Option<Writer>,
        expected: &Tip,
        entries: &[Entry],
    ) -> Result<Option<Append>, Error> {
        if slot.is_none() {
            *slot = Writer::open(context)?;
        }
        if let Some(writer) = slot {
            return match writer.append_if(context, expected, entries)? {
                Outcome::Done(append) => Ok(Some(append)),
                Outcome::LookAgain => Ok(None),
            };
        }
        context.refuse_if_deleted()?;
        if context.exists(&context.paths.index)? {
            if context.exists(&context.paths.ledger)? {
                return Ok(None);
            }
            return Err(Error::refused(format!(
                "{} is gone, though {} knows of its records; restore it, or remove that too",
                context.paths.ledger.display(),
                context.paths.index.display()
            )));
        }
        if *expected != Tip::EMPTY || entries.is_empty() {
            let is_there = *expected == Tip::EMPTY;
            let append = if is_there {
                Append::Stored
            } else {
                Append::Differs
            };
            return Ok(Some(append(Tip::EMPTY)));
        }
        *slot = Writer::create(context, entries)?;
        Ok(slot.as_ref().map(|writer| Append::Stored(writer.tip())))
    }

    fn read<T>(
        &self,
        run: &RunId,
        read: impl FnOnce(&Reader) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let context = self.context(run)?;
        let reader = Reader::open(&context)?;
        // A deletion writes its tombstone first, so a check in this order overlooks none.
        context.refuse_if_deleted()?;
        reader.as_ref().map(read).transpose()
    }
}

impl LedgerStore for JsonlLedgerStore {
    fn tip(&self, run: &RunId) -> Result<Option<Tip>, Error> {
        self.read(run, Reader::tip)
    }

    fn append_if(&self, run: &RunId, expected: &Tip, entries: &[Entry]) -> Result<Append, Error> {
        check_entries(entries)?;
        let context = self.context(run)?;
        let slot = self.slot(run);
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..MAX_ATTEMPTS {
            match Self::try_append(&context, &mut slot, expected, entries) {
                Ok(Some(append)) => return Ok(append),
                Ok(None) => *slot = None,
                Err(error) => {
                    // After a failure only the files are trusted.
                    *slot = None;
                    return Err(error);
                }
            }
        }
        Err(Error::new(
            ErrorKind::External,
            format!(
                "{} is being replaced again and again",
                context.paths.ledger.display()
            ),
        ))
    }

    fn list_after(
        &self,
        run: &RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, Error> {
        let found = self.read(run, |reader| reader.list_after(after, limit))?;
        Ok(found.unwrap_or_default())
    }

    fn find_completed(
        &self,
        run: &RunId,
        idempotency_key: &str,
    ) -> Result<Option<StoredRecord>, Error> {
        let found = self.read(run, |reader| reader.find_completed(idempotency_key))?;
        Ok(found.flatten())
    }

    fn runs(&self, after: Option<&RunId>, limit: usize) -> Result<Vec<RunId>, Error> {
        let names = self.fs.read_dir(&self.directory);
        let names = names.map_err(|error| sys::failure("read", &self.directory, &error))?;
        let names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
        let ids = |ending: &str| -> BTreeSet<&str> {
            let stripped = names.iter().filter_map(|name| strip(name, ending));
            stripped.collect()
        };
        let deleted = ids(".deleted");
        let living = ids(LEDGER);
        let living = living
            .difference(&deleted)
            .filter_map(|id| RunId::parse(id).ok());
        let following = living.filter(|id| after.is_none_or(|after| id > after));
        Ok(following.take(limit).collect())
    }

    fn strays(&self, limit: usize) -> Result<Vec<String>, Error> {
        let names = self.fs.read_dir(&self.directory);
        let names = names.map_err(|error| sys::failure("read", &self.directory, &error))?;
        let is_odd = |name: &&OsString| {
            let bytes = name.as_encoded_bytes();
            let is_ledger =
                bytes.starts_with(PREFIX.as_bytes()) && bytes.ends_with(LEDGER.as_bytes());
            is_ledger && name.to_str().and_then(|name| strip(name, LEDGER)).is_none()
        };
        let odd = names.iter().filter(is_odd);
        let mut odd: Vec<String> = odd.map(|name| format!("{name:?}")).collect();
        odd.sort();
        odd.truncate(limit);
        Ok(odd)
    }

    fn delete(&self, run: &RunId, expected: Option<&Tip>, at: Timestamp) -> Result<bool, Error> {
        let context = self.context(run)?;
        let slot = self.slot(run);
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = None;
        delete::delete(&context, expected, at)
    }

    fn tombstone(&self, run: &RunId) -> Result<Option<Tombstone>, Error> {
        self.context(run)?.tombstone()
    }

    fn place_of(&self, run: &RunId) -> Option<String> {
        let path = self.path_of(run).ok()?;
        Some(sys::place_itself(&*self.fs, &sys::led_to(&*self.fs, &path)))
    }

    fn fsck(&self, run: &RunId, repair: bool) -> Result<FsckReport, Error> {
        let context = self.context(run)?;
        let slot = self.slot(run);
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = None;
        fsck::fsck(&context, repair)
    }
}
