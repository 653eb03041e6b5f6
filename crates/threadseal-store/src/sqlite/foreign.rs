//! Databases that other programs write: read as one state, without a trace and without making them wait.
//!
//! A reader without locks gets no signal of a change. So what a commit changes is compared before and
//! after: sizes and times, the change counter of the file, the header of its write-ahead log.

use super::connect::{Reading, beginning, begins_as_journal, beside};
use super::failure::failed;
use crate::sys::{FileKind, Fs as _, RealFs, failure};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};

/// What an SQLite file begins with (sqlite.org/fileformat2.html, §1.3).
const MAGIC: [u8; 16] = *b"SQLite format 3\0";
/// Longest wait for a lock of another process.
const BUSY_WAIT: Duration = Duration::from_millis(250);
/// Readings that are tried while the database changes.
const MAX_READINGS: u32 = 6;
/// The pause before the second one; each further pause is longer.
const PAUSE: Duration = Duration::from_millis(15);
/// Longest time of one reading.
const MAX_READ_TIME: Duration = Duration::from_secs(30);

/// Is there an SQLite file with content at `path`?
///
/// # Errors
/// When the system fails.
pub fn is_database(path: &Path) -> io::Result<bool> {
    Ok(beginning::<16>(path)? == Some(MAGIC))
}

/// Calls `read` with a connection inside of one transaction that only reads. It is called again if
/// the database changed meanwhile in a way that SQLite cannot hide from it.
///
/// # Errors
/// Kind `InvalidInput` when `path` is no regular file; `Limit` when a reading takes too long; `Refused` or
/// `External` when the database is damaged, locked, or changes all the time; the errors of `read`.
pub fn read<T>(
    path: &Path,
    mut read: impl FnMut(&Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    let real = RealFs.canonicalize(path);
    let real = real.map_err(|error| failure("read", path, &error))?;
    let found = RealFs.metadata(&real);
    let found = found.map_err(|error| failure("read", path, &error))?;
    if found.kind != FileKind::Regular {
        let text = format!("{} is no regular file", path.display());
        return Err(Error::invalid(text));
    }
    let mut last = None;
    for number in 0..MAX_READINGS {
        thread::sleep(PAUSE * number);
        match once(&real, &mut read) {
            Ok(Some(value)) => return Ok(value),
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Limit) => {
                return Err(error);
            }
            // A writer may hold a lock, or have its journal there, for the time of a commit.
            Err(error) => last = Some(error),
            Ok(None) => {}
        }
    }
    Err(last.unwrap_or_else(|| {
        Error::refused(format!(
            "{} changes all the time, so that no state of it can be read",
            path.display()
        ))
    }))
}

/// `None` if the database changed meanwhile.
fn once<T>(
    path: &Path,
    read: &mut impl FnMut(&Connection) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    let before = Marks::of(path);
    let reading = Reading::bare(path)?;
    let fail = |error| failed("it cannot be read", path, &error);
    let connection = &reading.connection;
    connection.busy_timeout(BUSY_WAIT).map_err(fail)?;
    for (config, is_on) in [
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
    ] {
        connection.set_db_config(config, is_on).map_err(fail)?;
    }
    connection
        .pragma_update(None, "query_only", true)
        .map_err(fail)?;
    connection.execute_batch("BEGIN").map_err(fail)?;
    let value = within_time(connection, || read(connection)).unwrap_or_else(|| {
        let text = format!(
            "{} was not read in {} s",
            path.display(),
            MAX_READ_TIME.as_secs()
        );
        Err(Error::new(ErrorKind::Limit, text))
    });
    let is_one_state = match reading.is_locked() {
        // SQLite keeps writers and this reader apart.
        true => true,
        false => reading.is_unchanged() && before == Marks::of(path),
    };
    match is_one_state {
        true => value.map(Some),
        // What was read may be of two states, and so may be an error about it.
        false => Ok(None),
    }
}

/// Ends the work of a connection that takes too long, and gives `None` then: pages of a hostile file may
/// lead in circles.
fn within_time<T>(connection: &Connection, work: impl FnOnce() -> T) -> Option<T> {
    let handle = connection.get_interrupt_handle();
    let (done, waits) = channel::<()>();
    let timer = thread::spawn(move || {
        let is_late = waits.recv_timeout(MAX_READ_TIME) == Err(RecvTimeoutError::Timeout);
        if is_late {
            handle.interrupt();
        }
        is_late
    });
    let value = work();
    drop(done);
    let was_late = timer.join().unwrap_or(true);
    (!was_late).then_some(value)
}

/// An error of SQLite about the database at `path`.
pub fn error(path: &Path, error: &rusqlite::Error) -> Error {
    failed("it cannot be read", path, error)
}

/// What a commit changes: the beginning of the file with its change counter, that of the write-ahead
/// log with its salts, and whether a rollback journal is there.
#[derive(PartialEq, Eq)]
struct Marks(Option<[u8; 100]>, Option<[u8; 32]>, bool);

impl Marks {
    fn of(path: &Path) -> Self {
        Self(
            beginning(path).unwrap_or_default(),
            beginning(&beside(path, "-wal")).unwrap_or_default(),
            begins_as_journal(&beside(path, "-journal")),
        )
    }
}
