//! [`ViewedRegistry`]: a registry that is only looked at, and of which nothing is changed.

use super::{Filter, Listing, NewThread, Process, Registry, SqliteRegistry, Thread};
use crate::limit::Cost;
use crate::status::Status;
use serde_json::Value;
use std::path::PathBuf;
use threadseal::error::Error;
use threadseal::record::{RecordId, ThreadId};
use threadseal::time::Timestamp;

/// A registry in an SQLite file, as it is at each look. What would change it is refused.
#[derive(Debug)]
pub struct ViewedRegistry(PathBuf);

impl ViewedRegistry {
    /// The registry at `path`, which need not be there yet.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }
}

fn only_looked_at<T>() -> Result<T, Error> {
    Err(Error::refused("this registry is only looked at"))
}

impl Registry for ViewedRegistry {
    fn get(&self, id: &ThreadId) -> Result<Option<Thread>, Error> {
        SqliteRegistry::view(&self.0, |view| view.get(id))
    }

    fn list(&self, filter: &Filter) -> Result<Listing, Error> {
        SqliteRegistry::view(&self.0, |view| view.list(filter))
    }

    fn place(&self) -> String {
        self.0.display().to_string()
    }

    fn create(&self, _: &NewThread<'_>, _: Timestamp) -> Result<(), Error> {
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
