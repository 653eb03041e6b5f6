//! [`ViewedRegistry`]: a registry that is only read, and never changed.

use super::chain::{self, Chain};
use super::{
    Filter, Listing, NewThread, Process, Recorded, Registry, RegistryView, SqliteRegistry, Thread,
};
use crate::bounds::POLL_INTERVAL;
use crate::limit::Cost;
use crate::status::Status;
use serde_json::Value;
use std::io;
use std::path::PathBuf;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;

/// How often a file that could not be read is looked at again.
const LOOKS: usize = 10;

/// A registry in an SQLite file, read anew each time; without threads where there is no file.
/// Changes are refused.
#[derive(Debug, Clone)]
pub struct ViewedRegistry(PathBuf);

impl ViewedRegistry {
    /// The registry at `path`, which need not be there yet.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The result of `work`. Repeated while the last writer closes the file: its log vanishes then,
    /// while readers use it.
    fn look<T>(&self, work: impl Fn(&RegistryView<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let mut found = SqliteRegistry::view(&self.0, &work);
        for _ in 0..LOOKS {
            if !found
                .as_ref()
                .is_err_and(|error| error.kind() == ErrorKind::External)
            {
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
            found = SqliteRegistry::view(&self.0, &work);
        }
        found
    }

    fn is_absent(&self) -> bool {
        let found = std::fs::symlink_metadata(&self.0);
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }
}

fn only_looked_at<T>() -> Result<T, Error> {
    Err(Error::refused("this registry is open only for reading"))
}

impl Registry for ViewedRegistry {
    fn get(&self, id: &ThreadId) -> Result<Option<Thread>, Error> {
        match self.is_absent() {
            true => Ok(None),
            false => self.look(|view| view.get(id)),
        }
    }

    fn list(&self, filter: &Filter) -> Result<Listing, Error> {
        match self.is_absent() {
            true => Ok(Listing::default()),
            false => self.look(|view| view.list(filter)),
        }
    }

    // One look for a whole chain.
    fn chain(&self, id: &ThreadId) -> Result<Chain, Error> {
        match self.is_absent() {
            true => chain::whole(id, |_| Ok(None)),
            false => self.look(|view| view.chain(id)),
        }
    }

    fn resolve(&self, id: &ThreadId) -> Result<Thread, Error> {
        match self.is_absent() {
            true => chain::last(id, |_| Ok(None)),
            false => self.look(|view| view.resolve(id)),
        }
    }

    fn place(&self) -> String {
        self.0.display().to_string()
    }

    fn create(&self, _: &NewThread<'_>, _: Timestamp) -> Result<(), Error> {
        only_looked_at()
    }

    fn enter(&self, _: &Recorded, _: Timestamp) -> Result<(), Error> {
        only_looked_at()
    }

    fn set_status(
        &self,
        _: &ThreadId,
        _: Option<Status>,
        _: Status,
        _: Timestamp,
    ) -> Result<Status, Error> {
        only_looked_at()
    }

    fn correct(&self, _: &ThreadId, _: Status, _: Timestamp) -> Result<(), Error> {
        only_looked_at()
    }

    fn link(&self, _: &ThreadId, _: &ThreadId, _: Timestamp) -> Result<(), Error> {
        only_looked_at()
    }

    fn set_cost(&self, _: &ThreadId, _: &Cost, _: Timestamp) -> Result<(), Error> {
        only_looked_at()
    }

    fn set_result(&self, _: &ThreadId, _: &Value, _: Timestamp) -> Result<(), Error> {
        only_looked_at()
    }

    fn set_process(&self, _: &ThreadId, _: &Process, _: Timestamp) -> Result<(), Error> {
        only_looked_at()
    }

    fn set_model(&self, _: &ThreadId, _: &str, _: Timestamp) -> Result<(), Error> {
        only_looked_at()
    }

    fn set_record(&self, _: &ThreadId, _: &RecordId, _: Timestamp) -> Result<(), Error> {
        only_looked_at()
    }
}
