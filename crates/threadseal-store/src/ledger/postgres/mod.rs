//! [`PostgresLedgerStore`]: ledgers in PostgreSQL, for many writers on many machines.
//!
//! Invariants:
//! * an append compares the head and writes the records in one statement (`append`); of several
//!   writers one wins and the others change nothing;
//! * a session commits durably or is not used (`connect`);
//! * after a lost answer the store reads the result, and never guesses it (`append`);
//! * after a conflict or deadlock a call begins again with new reads, a bounded number of times;
//! * a server that lost acknowledged records is `rolled_back` and gets nothing more (`read`);
//! * NOTIFY is a hint; the sequence decides (`hint`).
//!
//! Everything async stays inside: a caller waits on its own thread.

mod append;
mod connect;
mod database;
pub mod files;
mod fsck;
mod heads;
mod hint;
pub mod leases;
mod objects;
mod read;
mod schema;
#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "fault"))]
pub mod throwaway;

pub use database::{PostgresDatabase, Session, Value, cell};
pub use heads::PostgresHeadStore;
pub use objects::PostgresObjects;

use super::{Append, Entry, FsckReport, LedgerStore, Make, StoredRecord, Tip, Tombstone};
use crate::runtime::wait_for;
use connect::{Facts, Server};
use deadpool_postgres::{Object, Pool};
use hint::{Listener, Teller};
use read::Seen;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;
use tokio_postgres::error::SqlState;

/// Ledgers in one PostgreSQL database.
pub struct PostgresLedgerStore {
    server: Arc<Server>,
    pool: Pool,
    facts: Facts,
    seen: Mutex<Seen>,
    teller: Teller,
    listener: Listener,
}

/// A failure, until it is known whether to begin again.
#[derive(Debug)]
enum Failure {
    /// For the caller; beginning again is of no use.
    Told(Error),
    /// Another transaction was in the way: a conflict or a deadlock. Nothing was stored.
    Conflict(String),
    /// The connection, or its server, is gone: the last statement may have been stored.
    Lost(String),
}

impl PostgresLedgerStore {
    /// Connects to the server of this address and makes its missing tables. A standby is opened to
    /// be read.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an address that cannot be used, or tables of a later
    /// version;
    /// [`ErrorKind::External`] when the server cannot be reached, or does not commit durably. No
    /// message repeats the address.
    pub fn open(url: &str) -> Result<Self, Error> {
        Self::over(&PostgresDatabase::open(url)?)
    }

    /// The same over the connections of a database that is open already.
    ///
    /// # Errors
    /// As [`PostgresLedgerStore::open`].
    pub fn over(database: &PostgresDatabase) -> Result<Self, Error> {
        let (server, pool, facts) = database.parts();
        if !facts.is_standby {
            let told = |failure: Failure| failure.told(&server);
            wait_for(async {
                let mut client = connect::connection(&server, &pool).await?;
                schema::migrate(&mut client).await.map_err(told)
            })?;
        }
        Ok(Self {
            server,
            pool,
            facts,
            seen: Mutex::default(),
            teller: Teller::default(),
            listener: Listener::default(),
        })
    }

    /// The address of the server, without secrets.
    pub fn place(&self) -> &str {
        &self.server.place
    }

    async fn connection(&self) -> Result<Object, Failure> {
        connect::connection(&self.server, &self.pool)
            .await
            .map_err(|error| Failure::Lost(error.to_string()))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Each change of the map is whole.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers an acknowledged tip, and sends others a hint.
    fn acknowledged(&self, run: &RunId, tip: Tip) -> Result<(), Error> {
        self.seen().put(run, tip);
        self.teller.tell(&self.pool)
    }

    fn error(&self, failure: &Failure) -> Error {
        match failure {
            Failure::Told(error) => error.clone(),
            Failure::Conflict(what) | Failure::Lost(what) => self.server.external(what),
        }
    }

    /// Repeats a read until an answer comes, or another attempt is of no use.
    fn ask<T>(&self, question: &impl AsyncFn(&Object) -> Result<T, Failure>) -> Result<T, Error> {
        wait_for(async {
            let mut tries = append::Tries::default();
            loop {
                let asked = match self.connection().await {
                    Ok(client) => question(&client).await,
                    Err(failure) => Err(failure),
                };
                match asked {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => tries.again(self, failure).await?,
                }
            }
        })
    }

    fn refuse_standby(&self) -> Result<(), Error> {
        match self.facts.is_standby {
            true => Err(self
                .server
                .external("it is a standby, which can only be read")),
            false => Ok(()),
        }
    }
}

impl LedgerStore for PostgresLedgerStore {
    fn tip(&self, run: &RunId) -> Result<Option<Tip>, Error> {
        let tip = self.ask(&async |client: &Object| read::tip(self, client, run, false).await)?;
        Ok(tip.filter(|tip| tip.count > 0))
    }

    fn append_if(&self, run: &RunId, expected: &Tip, entries: &[Entry]) -> Result<Append, Error> {
        super::check_entries(entries)?;
        self.refuse_standby()?;
        if entries.is_empty() {
            let tip = self.tip(run)?.unwrap_or_default();
            return Ok(if tip == *expected {
                Append::Stored(tip)
            } else {
                Append::Differs(tip)
            });
        }
        let batch = append::Batch::new(run, *expected, entries)?;
        let answer = wait_for(append::append_if(self, &batch))?;
        if let Append::Stored(tip) = answer {
            self.acknowledged(run, tip)?;
        }
        Ok(answer)
    }

    fn append_with(&self, run: &RunId, make: &mut Make<'_>) -> Result<Tip, Error> {
        self.refuse_standby()?;
        let tip = wait_for(append::append_with(self, run, make))?;
        self.acknowledged(run, tip)?;
        Ok(tip)
    }

    fn list_after(
        &self,
        run: &RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, Error> {
        self.ask(&async |client: &Object| {
            read::refuse_deleted(client, run).await?;
            read::page(client, run, after, limit).await
        })
    }

    fn find_completed(
        &self,
        run: &RunId,
        idempotency_key: &str,
    ) -> Result<Option<StoredRecord>, Error> {
        self.ask(&async |client: &Object| {
            read::refuse_deleted(client, run).await?;
            read::completed(client, run, idempotency_key).await
        })
    }

    fn runs(&self, after: Option<&RunId>, limit: usize) -> Result<Vec<RunId>, Error> {
        self.ask(&async |client: &Object| read::runs(client, after, limit).await)
    }

    fn strays(&self, limit: usize) -> Result<Vec<String>, Error> {
        self.ask(&async |client: &Object| read::strays(client, limit).await)
    }

    fn delete(&self, run: &RunId, expected: Option<&Tip>, at: Timestamp) -> Result<bool, Error> {
        self.refuse_standby()?;
        wait_for(append::delete(self, run, expected, at.as_micros()))
    }

    fn tombstone(&self, run: &RunId) -> Result<Option<Tombstone>, Error> {
        self.ask(&async |client: &Object| read::tombstone(client, run).await)
    }

    fn wait(&self, run: &RunId, after: u64, timeout: Duration) -> Result<Tip, Error> {
        self.listener.start(&self.server)?;
        let mut left = timeout;
        loop {
            let hints = self.listener.hints();
            let tip = self.tip(run)?.unwrap_or_default();
            if tip.count > after || left.is_zero() {
                return Ok(tip);
            }
            left = left.saturating_sub(self.listener.wait(hints, left));
        }
    }

    fn fsck(&self, run: &RunId, _: bool) -> Result<FsckReport, Error> {
        wait_for(fsck::fsck(&self.server, run))
    }

    fn warnings(&self) -> Vec<String> {
        self.server.warnings(&self.facts)
    }
}

impl fmt::Debug for PostgresLedgerStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLedgerStore")
            .field("place", &self.server.place)
            .finish_non_exhaustive()
    }
}

impl Failure {
    /// May the last statement have been stored?
    fn is_in_doubt(&self) -> bool {
        matches!(self, Self::Lost(_))
    }

    fn told(self, server: &Server) -> Error {
        match self {
            Self::Told(error) => error,
            Self::Conflict(what) | Self::Lost(what) => server.external(&what),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = connect::text_of(&error);
        let Some(code) = error.code() else {
            // Not a report of the server: the connection broke, before or after the server acted.
            return Self::Lost(text);
        };
        // Class 08: connection; class 57P: the server is shutting down, crashed or starting.
        let is_gone = code.code().starts_with("08") || code.code().starts_with("57P");
        if is_gone {
            return Self::Lost(text);
        }
        if [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
        ]
        .contains(code)
        {
            return Self::Conflict(text);
        }
        let kind = match *code {
            SqlState::UNIQUE_VIOLATION | SqlState::CHECK_VIOLATION => ErrorKind::Refused,
            _ => ErrorKind::External,
        };
        Self::Told(Error::new(kind, format!("PostgreSQL: {text}")))
    }
}
