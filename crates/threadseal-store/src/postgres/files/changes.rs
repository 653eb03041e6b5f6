//! [`LeasedDatabase`]: changes of files under a lease.

use crate::postgres::database::{PostgresDatabase, Value};
use crate::postgres::leases::Lease;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use threadseal_core::error::{Error, ErrorKind};
use tokio_postgres::Row;

/// Begins each statement that changes a row: without a row of `lease` it does nothing. `$1` to `$3`
/// are the lease's.
pub(super) const LEASE: &str = "
WITH lease AS MATERIALIZED (
  SELECT 1 FROM threadseal_orders
  WHERE id = $1 AND token = $2 AND holder = $3 AND state = 'taken' AND expires_at > clock_timestamp()
  FOR SHARE)";

/// A database, and the lease to write under, if there is one.
pub(super) struct LeasedDatabase {
    pub(super) database: PostgresDatabase,
    lease: Option<Lease>,
    /// A change was refused: this process writes nothing more.
    stopped: AtomicBool,
}

impl LeasedDatabase {
    pub(super) fn new(database: PostgresDatabase, lease: Option<Lease>) -> Self {
        Self {
            database,
            lease,
            stopped: AtomicBool::new(false),
        }
    }

    /// The lease to write under. After one refused change this process writes nothing more, also to
    /// no other file. Otherwise it would continue there after the loss of the lease.
    pub(super) fn lease(&self) -> io::Result<&Lease> {
        if self.stopped.load(Ordering::Acquire) {
            let text = "an earlier change was not accepted: this worker has stopped";
            return Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, text));
        }
        self.lease.as_ref().ok_or_else(|| {
            let text = "only workers write threads in a database";
            io::Error::new(io::ErrorKind::ReadOnlyFilesystem, text)
        })
    }

    /// The result of a change; after a failure nothing is written any more.
    pub(super) fn done<T>(&self, done: Result<T, Error>) -> io::Result<T> {
        done.map_err(|error| {
            self.stopped.store(true, Ordering::Release);
            failed(error)
        })
    }

    /// Sends a change; after a failure nothing is written any more.
    pub(super) fn once(&self, sql: &str, values: &[Value<'_>]) -> io::Result<Vec<Row>> {
        self.done(self.database.once(sql, values))
    }

    /// Does the lease still hold?
    pub(super) fn check(&self) -> io::Result<()> {
        self.done(self.lease()?.check())
    }
}

/// An error of the database as an error of a disk; its text is kept.
pub(super) fn failed(error: Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::Superseded => io::ErrorKind::StaleNetworkFileHandle,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
