//! [`Database`]: an SQLite file of another layer, opened as the stores open theirs.
//!
//! ```text
//! open     made where there is none (0600), WAL, synchronous = FULL:
//!          a commit that returned has reached the disk
//! view     read-only, no lock and no second file where no process has it open: a copy, evidence
//! ```
//! Of several writers, of this process or others, one is in a transaction at a time; the others
//! wait. The schema of a found file is not trusted, long values are not loaded, and damaged pages
//! are noticed. Triggers that a file declares do not run, and a view does not count as a table.
//! None of these files has either.

use super::connect;
use super::failure::failed;
use super::turn::Turnstile;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use threadseal_core::error::{Error, ErrorKind};

/// An SQLite file.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    connection: Mutex<Connection>,
    turnstile: Turnstile,
}

impl Database {
    /// Opens the file at `path` to write, and makes it where there is none.
    ///
    /// # Errors
    /// Kind `Refused` for a symbolic link, for a file that is damaged or no SQLite file. Kind
    /// `External` when it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let connection = connect::durable_itself(path)?;
        connect::without_triggers(&connection).map_err(|error| error_of(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            connection: Mutex::new(connection),
            turnstile: Turnstile::of(path),
        })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does `work` in a transaction that no other writer is in, and commits it unless `work` fails.
    ///
    /// # Errors
    /// Those of `work`; kind `External` when SQLite fails or other writers never release the file.
    pub fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let fail = |error| failed("it cannot be written", &self.path, &error);
        let mut connection = self.held();
        let transaction = self.turnstile.begin(&mut connection).map_err(fail)?;
        let done = work(&transaction)?;
        transaction.commit().map_err(fail)?;
        Ok(done)
    }

    /// Does `work` on one state of the file, whatever others write meanwhile.
    ///
    /// # Errors
    /// As [`Database::write`].
    pub fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let fail = |error| failed("it cannot be read", &self.path, &error);
        let mut connection = self.held();
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Deferred)
            .map_err(fail)?;
        work(&transaction)
    }

    /// Converts an error of SQLite for the caller: kind `Refused` for a damaged file.
    pub fn failed(&self, error: &rusqlite::Error) -> Error {
        failed("it cannot be used", &self.path, error)
    }

    fn held(&self) -> MutexGuard<'_, Connection> {
        // A transaction that was not committed is rolled back, so the connection is good.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the file at `path` without leaving a trace, and reads again while another process changes
/// it.
///
/// A file is empty if its maker stopped before it wrote anything.
///
/// # Errors
/// Those of `work`; kind `External` when there is no such file or it always changes. Kind `Refused`
/// when it is damaged or a transaction on it was never finished.
pub fn view<T>(
    path: &Path,
    mut work: impl FnMut(&Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    /// Attempts to read a file without locks.
    const LOOKS: usize = 10;
    for _ in 0..LOOKS {
        if connect::is_unmade(path) {
            let nothing = Connection::open_in_memory();
            return work(&nothing.map_err(|error| error_of(path, &error))?);
        }
        let reading = connect::Reading::bare(path)?;
        let seen = work(&reading.connection);
        if reading.is_unchanged() {
            return seen;
        }
    }
    Err(Error::new(
        ErrorKind::External,
        format!("{} keeps changing; try again", path.display()),
    ))
}

/// Does it hold nothing, not even a table?
///
/// # Errors
/// Those of SQLite.
pub fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let tables = "SELECT NOT EXISTS (SELECT 1 FROM sqlite_master)";
    connection.query_row(tables, [], |row| row.get(0))
}

/// [`Database::failed`] for the file at `path`.
pub fn error_of(path: &Path, error: &rusqlite::Error) -> Error {
    failed("it cannot be used", path, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "CREATE TABLE IF NOT EXISTS t (n INTEGER)";

    fn count(connection: &Connection) -> Result<i64, Error> {
        let count = connection.query_row("SELECT COUNT(*) FROM t", [], |row| row.get(0));
        count.map_err(|error| error_of(Path::new("t"), &error))
    }

    #[test]
    fn what_fails_is_taken_back_and_what_returned_is_seen_by_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.db");
        let database = Database::open(&path).unwrap();
        let insert = |transaction: &Transaction<'_>| {
            let sql = format!("{TABLE}; INSERT INTO t VALUES (1)");
            transaction
                .execute_batch(&sql)
                .map_err(|error| error_of(&path, &error))
        };
        database.write(insert).unwrap();
        let refused = database.write(|transaction| {
            insert(transaction)?;
            Err::<(), _>(Error::refused("no"))
        });
        assert_eq!(refused.unwrap_err().to_string(), "no");
        assert_eq!(database.read(count).unwrap(), 1);
        assert_eq!(view(&path, count).unwrap(), 1);
        assert_eq!(Database::open(&path).unwrap().read(count).unwrap(), 1);
    }

    // T-REG-13
    #[test]
    fn a_trigger_of_a_found_file_does_nothing_and_a_view_is_no_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.db");
        let raw = Connection::open(&path).unwrap();
        raw.execute_batch(
            "CREATE TABLE t (n INTEGER); CREATE VIEW v AS SELECT 1 AS n;
             CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END",
        )
        .unwrap();
        let insert = |connection: &Connection| connection.execute("INSERT INTO t VALUES (1)", []);
        insert(&raw).unwrap();
        let left = |connection: &Connection| count(connection).unwrap();
        assert_eq!(left(&raw), 0);
        drop(raw);
        let database = Database::open(&path).unwrap();
        let done = database.write(|transaction| {
            insert(transaction).map_err(|error| error_of(&path, &error))?;
            transaction
                .query_row("SELECT n FROM v", [], |row| row.get::<_, i64>(0))
                .unwrap_err();
            count(transaction)
        });
        assert_eq!(done.unwrap(), 1);
        assert_eq!(database.read(count).unwrap(), 1);
    }

    #[test]
    fn a_file_that_is_none_of_sqlite_is_refused_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.db");
        std::fs::write(
            &path,
            b"this is text, and long enough to be looked at as a header",
        )
        .unwrap();
        let refused = view(&path, count).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
        assert!(Database::open(&path).is_err());
        assert!(view(&folder.path().join("none.db"), count).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
