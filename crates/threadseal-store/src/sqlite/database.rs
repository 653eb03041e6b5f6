//! [`Database`]: an SQLite file of another layer, opened as the stores open theirs.
//!
//! ```text
//! open     made where there is none (0600), WAL, synchronous = FULL:
//!          a commit that returned has reached the disk, unless it was made loosely
//! view     read-only, no lock and no second file where no process has it open: a copy, evidence
//! ```
//! Of several writers, of this process or others, one is in a transaction at a time; the others
//! wait. The schema of a found file is not trusted, long values are not loaded, and damaged pages
//! are noticed. Triggers that a file declares do not run, and a view does not count as a table.
//! None of these files has either. What a viewed file makes SQLite compute has a bound of steps.

use super::connect;
use super::failure::failed;
use super::turn::Turnstile;
use crate::sys::{Fs as _, RealFs};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use threadseal_core::error::{Error, ErrorKind};

/// Steps of SQLite's machine after which a look at a file ends: so many, and more for a longer file.
const MAX_VIEW_STEPS: u64 = 50_000_000;
/// A table that is read as a whole takes one step for a few bytes at most.
const MAX_STEPS_PER_BYTE: u64 = 16;
/// Steps between two looks at the bound.
const STEPS: u16 = 1_000;

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

    /// As [`Database::write`], but the commit survives only the end of this process. It survives
    /// power loss from the next commit on that `write` makes, in any process.
    ///
    /// # Errors
    /// As [`Database::write`].
    pub fn write_loosely<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let fail = |error| failed("it cannot be written", &self.path, &error);
        let mut connection = self.held();
        connect::sync_commits(&connection, false).map_err(fail)?;
        let done = (|| {
            let transaction = self.turnstile.begin(&mut connection).map_err(fail)?;
            let done = work(&transaction)?;
            transaction.commit().map_err(fail)?;
            Ok(done)
        })();
        // Whatever happened, the next commit promises more.
        connect::sync_commits(&connection, true).map_err(fail)?;
        done
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
        let mut reading = connect::Reading::bare(path)?;
        let fail = |error| error_of(path, &error);
        connect::without_triggers(&reading.connection).map_err(fail)?;
        let bound = bound_steps(&mut reading.connection, path).map_err(fail)?;
        let seen = work(&reading.connection);
        if bound.is_passed() {
            return Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "SQLite file {}: what it declares makes a query without an end; it was stopped \
                     after {} steps",
                    path.display(),
                    bound.most
                ),
            ));
        }
        if reading.is_unchanged() {
            return seen;
        }
    }
    Err(Error::new(
        ErrorKind::External,
        format!("{} keeps changing; try again", path.display()),
    ))
}

/// A bound of the steps of one connection.
struct StepBound {
    most: u64,
    left: Arc<AtomicU64>,
}

impl StepBound {
    fn is_passed(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

/// Ends the statements of a connection after so many steps. A clock would make it a matter of luck.
fn bound_steps(connection: &mut Connection, path: &Path) -> rusqlite::Result<StepBound> {
    let size = |suffix| RealFs.metadata(&connect::beside(path, suffix));
    let bytes: u64 = ["", "-wal"]
        .into_iter()
        .map(|suffix| size(suffix).map_or(0, |found| found.size))
        .sum();
    let most = MAX_VIEW_STEPS.saturating_add(bytes.saturating_mul(MAX_STEPS_PER_BYTE));
    let left = Arc::new(AtomicU64::new(most));
    let counter = Arc::clone(&left);
    let count = move || {
        let left = counter.load(Ordering::Relaxed);
        let left = left.saturating_sub(u64::from(STEPS));
        counter.store(left, Ordering::Relaxed);
        left == 0
    };
    connection.progress_handler(i32::from(STEPS), Some(count))?;
    Ok(StepBound { most, left })
}

/// Looks at each file that SQLite would open for the database at `path`, to write to it.
///
/// # Errors
/// Kind `Refused` when one of them is no regular file, or a journal that this program did not write.
pub fn check_files(path: &Path) -> Result<(), Error> {
    connect::check_to_write(path)
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

    #[test]
    fn a_loose_commit_is_seen_by_others_and_the_next_one_waits_for_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.db");
        let database = Database::open(&path).unwrap();
        let make = |transaction: &Transaction<'_>| {
            let sql = format!("{TABLE}; INSERT INTO t VALUES (1)");
            transaction
                .execute_batch(&sql)
                .map_err(|error| error_of(&path, &error))
        };
        let level = |connection: &Connection| {
            let level = connection.query_row("PRAGMA synchronous", [], |row| row.get::<_, i64>(0));
            level.map_err(|error| error_of(&path, &error))
        };
        let (normal, full) = (1, 2);
        let within = database.write_loosely(|transaction| {
            make(transaction)?;
            level(transaction)
        });
        assert_eq!(
            (within.unwrap(), database.read(level).unwrap()),
            (normal, full)
        );
        let refused = database.write_loosely(|transaction| {
            make(transaction)?;
            Err::<(), _>(Error::refused("no"))
        });
        assert_eq!(refused.unwrap_err().to_string(), "no");
        assert_eq!(database.read(level).unwrap(), full);
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

    // T-REG-15
    #[test]
    fn a_query_without_an_end_stops_at_a_bound_of_steps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.db");
        let raw = Connection::open(&path).unwrap();
        raw.execute_batch(
            "CREATE VIEW t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
             SELECT i AS n FROM n",
        )
        .unwrap();
        drop(raw);
        // Whether a view of the file is not asked, or ends at the bound: it gives no rows.
        view(&path, count).unwrap_err();
        let endless = |connection: &Connection| {
            let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                       SELECT COUNT(*) FROM n";
            let seen = connection.query_row(sql, [], |row| row.get::<_, i64>(0));
            seen.map_err(|error| error_of(&path, &error))
        };
        let stopped = view(&path, endless).unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Limit, "{stopped}");
    }

    #[cfg(unix)]
    fn fifo(path: &Path) {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.unwrap().success());
    }

    // T-STO-34
    #[cfg(unix)]
    #[test]
    fn a_pipe_beside_a_file_is_named_and_holds_up_no_one() {
        let folder = tempfile::tempdir().unwrap();
        for suffix in ["-journal", "-wal", "-shm"] {
            let path = folder.path().join(format!("d{suffix}.db"));
            Database::open(&path)
                .unwrap()
                .write(|t| {
                    let made = t.execute_batch(TABLE);
                    made.map_err(|error| error_of(&path, &error))
                })
                .unwrap();
            let pipe = connect::beside(&path, suffix);
            fifo(&pipe);
            for refused in [
                view(&path, count).map(drop),
                Database::open(&path).map(drop),
            ] {
                let refused = refused.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
                let named = format!("d{suffix}.db{suffix}: it is a pipe");
                assert!(refused.to_string().contains(&named), "{refused}");
            }
            std::fs::remove_file(pipe).unwrap();
            assert_eq!(view(&path, count).unwrap(), 0);
        }
        let path = folder.path().join("pipe.db");
        fifo(&path);
        for refused in [
            view(&path, count).map(drop),
            Database::open(&path).map(drop),
        ] {
            let refused = refused.unwrap_err();
            assert!(refused.to_string().contains("it is a pipe"), "{refused}");
        }
    }

    /// A hot journal of a database with pages, which restores no page.
    #[cfg(unix)]
    fn hot_journal(super_journal: &Path) -> Vec<u8> {
        const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
        let page: u32 = 4096;
        let mut bytes = MAGIC.to_vec();
        for word in [0, 0, 2, 512, page] {
            bytes.extend(u32::to_be_bytes(word));
        }
        bytes.resize(512, 0);
        let name = super_journal.as_os_str().as_encoded_bytes();
        bytes.extend((0x4000_0000 / page + 1).to_be_bytes());
        bytes.extend(name);
        bytes.extend(u32::try_from(name.len()).unwrap().to_be_bytes());
        let sum: u32 = name.iter().map(|byte| u32::from(*byte)).sum();
        bytes.extend(sum.to_be_bytes());
        bytes.extend(MAGIC);
        bytes
    }

    // T-STO-35
    #[cfg(unix)]
    #[test]
    fn a_journal_that_this_program_did_not_write_is_not_played_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d.db");
        let database = Database::open(&path).unwrap();
        let made = database.write(|transaction| {
            let made = transaction.execute_batch(TABLE);
            made.map_err(|error| error_of(&path, &error))
        });
        made.unwrap();
        drop(database);
        let journal = connect::beside(&path, "-journal");
        let other = folder.path().join("d.db-mj0ABCDE901");
        fifo(&other);
        let whole = hot_journal(&other);
        let of_nothing = [&whole[..16], &[0; 4], &whole[20..]].concat();
        let without_magic = [&[1; 8], &whole[8..]].concat();
        for planted in [&whole[..512], &whole, &of_nothing, &without_magic] {
            std::fs::write(&journal, planted).unwrap();
            let refused = Database::open(&path).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
            assert_eq!(std::fs::read(&journal).unwrap(), *planted);
        }
        std::fs::remove_file(&journal).unwrap();
        assert_eq!(Database::open(&path).unwrap().read(count).unwrap(), 0);
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
