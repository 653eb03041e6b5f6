//! [`LateRegistry`]: a registry that is read without opening it, and opened only for the first
//! write.
//!
//! A refused action leaves no trace: no new file, and no new columns in a registry of Rye.

use super::{
    Chain, Filter, Listing, NewThread, Process, Recorded, Registry, SqliteRegistry, Thread,
    ViewedRegistry,
};
use crate::limit::Cost;
use crate::status::Status;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_store::atomic;
use threadseal_store::sys::Fs;

/// Permission bits of the folder of all threads, before the umask.
const FOLDER_MODE: u32 = 0o777;

/// A registry in an SQLite file; the first write creates it or brings it up to date.
#[derive(Debug)]
pub struct LateRegistry {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    viewed: ViewedRegistry,
    opened: OnceLock<SqliteRegistry>,
    opening: Mutex<()>,
}

impl LateRegistry {
    /// The registry at `path`; neither it nor its folder need be there.
    pub fn new(fs: Arc<dyn Fs>, path: PathBuf) -> Self {
        Self {
            fs,
            viewed: ViewedRegistry::new(path.clone()),
            path,
            opened: OnceLock::new(),
            opening: Mutex::default(),
        }
    }

    fn open(&self) -> Result<&SqliteRegistry, Error> {
        let (fs, path) = (&*self.fs, &self.path);
        once(&self.opened, &self.opening, || {
            make_folder(fs, path)?;
            SqliteRegistry::open(path)
        })
    }
}

/// The result of `make`, made the first time that it succeeds.
pub(crate) fn once<'c, T>(
    cell: &'c OnceLock<T>,
    making: &Mutex<()>,
    make: impl FnOnce() -> Result<T, Error>,
) -> Result<&'c T, Error> {
    let _alone = making.lock().unwrap_or_else(PoisonError::into_inner);
    let made = match cell.get() {
        Some(made) => return Ok(made),
        None => make()?,
    };
    Ok(cell.get_or_init(|| made))
}

pub(crate) fn make_folder(fs: &dyn Fs, path: &Path) -> Result<(), Error> {
    match path.parent() {
        Some(folder) => atomic::create_directories(fs, folder, FOLDER_MODE),
        None => Ok(()),
    }
}

impl Registry for LateRegistry {
    fn get(&self, id: &ThreadId) -> Result<Option<Thread>, Error> {
        match self.opened.get() {
            Some(opened) => opened.get(id),
            None => self.viewed.get(id),
        }
    }

    fn list(&self, filter: &Filter) -> Result<Listing, Error> {
        match self.opened.get() {
            Some(opened) => opened.list(filter),
            None => self.viewed.list(filter),
        }
    }

    fn chain(&self, id: &ThreadId) -> Result<Chain, Error> {
        match self.opened.get() {
            Some(opened) => opened.chain(id),
            None => self.viewed.chain(id),
        }
    }

    fn resolve(&self, id: &ThreadId) -> Result<Thread, Error> {
        match self.opened.get() {
            Some(opened) => opened.resolve(id),
            None => self.viewed.resolve(id),
        }
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn create(&self, new: &NewThread<'_>, at: Timestamp) -> Result<(), Error> {
        self.open()?.create(new, at)
    }

    fn enter(&self, said: &Recorded, at: Timestamp) -> Result<(), Error> {
        self.open()?.enter(said, at)
    }

    fn set_status(
        &self,
        id: &ThreadId,
        expected: Option<Status>,
        to: Status,
        at: Timestamp,
    ) -> Result<Status, Error> {
        self.open()?.set_status(id, expected, to, at)
    }

    fn correct(&self, id: &ThreadId, to: Status, at: Timestamp) -> Result<(), Error> {
        self.open()?.correct(id, to, at)
    }

    fn link(&self, old: &ThreadId, new: &ThreadId, at: Timestamp) -> Result<(), Error> {
        self.open()?.link(old, new, at)
    }

    fn set_cost(&self, id: &ThreadId, cost: &Cost, at: Timestamp) -> Result<(), Error> {
        self.open()?.set_cost(id, cost, at)
    }

    fn set_result(&self, id: &ThreadId, result: &Value, at: Timestamp) -> Result<(), Error> {
        self.open()?.set_result(id, result, at)
    }

    fn set_process(&self, id: &ThreadId, process: &Process, at: Timestamp) -> Result<(), Error> {
        self.open()?.set_process(id, process, at)
    }

    fn set_model(&self, id: &ThreadId, model: &str, at: Timestamp) -> Result<(), Error> {
        self.open()?.set_model(id, model, at)
    }

    fn set_record(&self, id: &ThreadId, record: &RecordId, at: Timestamp) -> Result<(), Error> {
        self.open()?.set_record(id, record, at)
    }
}
