//! A database of threads as the verifier reads it.

use super::Fleet;
use crate::registry::{Filter, Registry as _};
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_store::host::Host;
use threadseal_verify::verifier::{DatabaseFiles, DatabaseThread, ThreadDatabase};

impl ThreadDatabase for Fleet {
    fn place(&self) -> &str {
        Self::place(self)
    }

    fn host(&self, local: &Host, root: &Path) -> Result<Host, Error> {
        Self::host(self, local, root, None)
    }

    fn files(&self, thread: Option<&ThreadId>) -> Result<DatabaseFiles, Error> {
        let listing = Self::files(self, thread)?;
        Ok((listing.files, listing.strays))
    }

    fn threads(&self, thread: Option<&ThreadId>) -> Result<Vec<DatabaseThread>, Error> {
        let rows = match thread {
            Some(id) => self.registry().get(id)?.into_iter().collect(),
            None => self.registry().list(&Filter::default())?.threads,
        };
        let row = |row: crate::registry::Thread| DatabaseThread {
            id: row.id,
            record: row.record,
        };
        Ok(rows.into_iter().map(row).collect())
    }
}
