//! [`PostgresLedgerStore`]: ledgers in PostgreSQL, for many writers on many machines.
//!
//! Invariants:
//! * an append compares the head and writes the records in one statement (`append`); of several
//!   writers one wins and the others change nothing;
//! * a session commits durably or is not used (`postgres::connect`);
//! * after a lost answer the store reads the result, and never guesses it (`append`);
//! * after a conflict or deadlock a call begins again with new reads, a bounded number of times;
//! * a server that lost acknowledged records is `rolled_back` and gets nothing more (`read`);
//! * NOTIFY is a hint; the sequence decides (`postgres::hint`).

mod absent;
mod append;
mod fsck;
mod read;
#[cfg(test)]
mod tests;

use super::database::PostgresDatabase;
use super::hint::Channel;
use super::tables::PostgresTables;
use crate::ledger::{
    Append, Entry, FsckReport, LedgerStore, Make, StoredRecord, Tip, Tombstone, check_entries,
};
use crate::runtime::wait_for;
use absent::NoLedgers;
use deadpool_postgres::Object;
use read::LedgerTables;
use std::fmt;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// Ledgers in one PostgreSQL database.
pub struct PostgresLedgerStore {
    tables: LedgerTables,
}

impl PostgresLedgerStore {
    /// Connects to the server of this address and makes its missing tables. A standby is opened to
    /// be read.
    ///
    /// # Errors
    /// As [`PostgresTables::make`] and [`PostgresDatabase::open`].
    pub fn open(url: &str) -> Result<Self, Error> {
        Self::over(&PostgresDatabase::open(url)?)
    }

    /// The ledgers at this address only to be read: no table is made, and where there is none there
    /// are no ledgers.
    ///
    /// # Errors
    /// As [`PostgresDatabase::open`].
    pub fn open_read_only(url: &str) -> Result<Box<dyn LedgerStore>, Error> {
        let database = PostgresDatabase::open(url)?;
        Ok(match PostgresTables::find(&database)?.ledgers {
            true => Box::new(Self {
                tables: LedgerTables::new(database),
            }),
            false => Box::new(NoLedgers { database }),
        })
    }

    /// The same over the connections of a database that is open already.
    ///
    /// # Errors
    /// As [`PostgresTables::make`].
    pub fn over(database: &PostgresDatabase) -> Result<Self, Error> {
        let database = PostgresTables::make(database)?.database;
        Ok(Self {
            tables: LedgerTables::new(database),
        })
    }

    /// The address of the server, without secrets.
    pub fn place(&self) -> &str {
        self.tables.database.place()
    }
}

impl LedgerStore for PostgresLedgerStore {
    fn tip(&self, run: &RunId) -> Result<Option<Tip>, Error> {
        let tip = self
            .tables
            .database
            .ask(&async |client: &Object| self.tables.tip(client, run, false).await)?;
        Ok(tip.filter(|tip| tip.count > 0))
    }

    fn append_if(&self, run: &RunId, expected: &Tip, entries: &[Entry]) -> Result<Append, Error> {
        check_entries(entries)?;
        self.tables.database.refuse_standby()?;
        if entries.is_empty() {
            let tip = self.tip(run)?.unwrap_or_default();
            return Ok(if tip == *expected {
                Append::Stored(tip)
            } else {
                Append::Differs(tip)
            });
        }
        let batch = append::Batch::new(run, *expected, entries)?;
        let answer = wait_for(append::append_if(&self.tables, &batch))?;
        if let Append::Stored(tip) = answer {
            self.tables.acknowledged(run, tip)?;
        }
        Ok(answer)
    }

    fn append_with(&self, run: &RunId, make: &mut Make<'_>) -> Result<Tip, Error> {
        self.tables.database.refuse_standby()?;
        let tip = wait_for(append::append_with(&self.tables, run, make))?;
        self.tables.acknowledged(run, tip)?;
        Ok(tip)
    }

    fn list_after(
        &self,
        run: &RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, Error> {
        self.tables.database.ask(&async |client: &Object| {
            read::refuse_deleted(client, run).await?;
            read::page(client, run, after, limit).await
        })
    }

    fn find_completed(
        &self,
        run: &RunId,
        idempotency_key: &str,
    ) -> Result<Option<StoredRecord>, Error> {
        self.tables.database.ask(&async |client: &Object| {
            read::refuse_deleted(client, run).await?;
            read::completed(client, run, idempotency_key).await
        })
    }

    fn runs(&self, after: Option<&RunId>, limit: usize) -> Result<Vec<RunId>, Error> {
        self.tables
            .database
            .ask(&async |client: &Object| read::runs(client, after, limit).await)
    }

    fn strays(&self, limit: usize) -> Result<Vec<String>, Error> {
        self.tables
            .database
            .ask(&async |client: &Object| read::strays(client, limit).await)
    }

    fn delete(&self, run: &RunId, expected: Option<&Tip>, at: Timestamp) -> Result<bool, Error> {
        self.tables.database.refuse_standby()?;
        wait_for(append::delete(&self.tables, run, expected, at.as_micros()))
    }

    fn tombstone(&self, run: &RunId) -> Result<Option<Tombstone>, Error> {
        self.tables
            .database
            .ask(&async |client: &Object| read::tombstone(client, run).await)
    }

    fn wait(&self, run: &RunId, after: u64, timeout: Duration) -> Result<Tip, Error> {
        let database = &self.tables.database;
        let mut left = timeout;
        loop {
            let marks = database.marks()?;
            let tip = self.tip(run)?.unwrap_or_default();
            if tip.count > after || left.is_zero() {
                return Ok(tip);
            }
            let waited = database.wait(&[Channel::Ledger], &marks, left, &|| false);
            left = left.saturating_sub(waited);
        }
    }

    fn fsck(&self, run: &RunId, _: bool) -> Result<FsckReport, Error> {
        wait_for(fsck::fsck(self.tables.database.server(), run))
    }

    fn place(&self) -> Option<String> {
        Some(format!("postgres:{}", self.tables.database.place()))
    }

    fn warnings(&self) -> Vec<String> {
        self.tables.database.warnings()
    }
}

impl fmt::Debug for PostgresLedgerStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLedgerStore")
            .field("place", &self.place())
            .finish_non_exhaustive()
    }
}
