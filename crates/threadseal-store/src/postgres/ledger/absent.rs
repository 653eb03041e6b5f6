//! [`NoLedgers`]: a database without the tables of ledgers, which is only read.

use crate::ledger::{Append, Entry, FsckReport, LedgerStore, StoredRecord, Tip, Tombstone};
use crate::postgres::database::PostgresDatabase;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// The ledgers of a database that has no table of them.
#[derive(Debug)]
pub(super) struct NoLedgers {
    pub(super) database: PostgresDatabase,
}

impl NoLedgers {
    fn refused(&self) -> Error {
        Error::refused(format!("{} is opened read-only", self.database.place()))
    }
}

impl LedgerStore for NoLedgers {
    fn tip(&self, _: &RunId) -> Result<Option<Tip>, Error> {
        Ok(None)
    }

    fn append_if(&self, _: &RunId, _: &Tip, _: &[Entry]) -> Result<Append, Error> {
        Err(self.refused())
    }

    fn list_after(&self, _: &RunId, _: u64, _: usize) -> Result<Vec<StoredRecord>, Error> {
        Ok(Vec::new())
    }

    fn find_completed(&self, _: &RunId, _: &str) -> Result<Option<StoredRecord>, Error> {
        Ok(None)
    }

    fn runs(&self, _: Option<&RunId>, _: usize) -> Result<Vec<RunId>, Error> {
        Ok(Vec::new())
    }

    fn delete(&self, _: &RunId, _: Option<&Tip>, _: Timestamp) -> Result<bool, Error> {
        Err(self.refused())
    }

    fn tombstone(&self, _: &RunId) -> Result<Option<Tombstone>, Error> {
        Ok(None)
    }

    fn fsck(&self, run: &RunId, _: bool) -> Result<FsckReport, Error> {
        Ok(FsckReport::of(run))
    }

    fn place(&self) -> Option<String> {
        Some(format!("postgres:{}", self.database.place()))
    }

    fn place_of(&self, _: &RunId) -> Option<String> {
        self.place()
    }

    fn warnings(&self) -> Vec<String> {
        self.database.warnings()
    }
}
