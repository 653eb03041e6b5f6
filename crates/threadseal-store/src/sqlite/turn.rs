//! [`Turnstile`]: a queue of the writers of one SQLite file.
//!
//! SQLite has no queue: a waiting writer polls, and a writer that has just committed may begin anew
//! at once. Where the processors are busy, the others run only while that writer syncs, and so
//! holds the file. They never find it free and give up in the end. Therefore a writer takes the
//! lock of a small file first. Then it waits for SQLite's lock, and releases the first one as soon
//! as it has the second:
//!
//! ```text
//! FILE-turn    flock(2)    one writer at most waits for FILE, and no other overtakes it
//! FILE         SQLite's    one writer at most is in a transaction
//! ```
//! It is a courtesy and no protection: programs that know nothing of it write as ever. Where the
//! small file cannot be made, or another process keeps its lock, a writer continues without it. The
//! database itself is never opened here: closing any handle of it would release SQLite's locks of
//! this process (sqlite.org/howtocorrupt.html, §2.2).

use super::connect;
use crate::atomic::SHARED_FILE;
use crate::lock::Turn;
use crate::sys::{Access, FileHandle, FileKind, Fs, RealFs};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The end of the small file's name.
const SUFFIX: &str = "-turn";

/// The queue of one file.
#[derive(Debug)]
pub(super) struct Turnstile {
    database: PathBuf,
    path: PathBuf,
    /// One thread of this process is in the queue at a time: they share one handle, and so the
    /// lock.
    gate: Mutex<()>,
    /// Opened at the first transaction.
    file: OnceLock<Option<Arc<dyn FileHandle>>>,
}

impl Turnstile {
    /// Of the existing file at `database`.
    pub(super) fn of(database: &Path) -> Self {
        Self {
            database: database.to_owned(),
            path: connect::beside(database, SUFFIX),
            gate: Mutex::new(()),
            file: OnceLock::new(),
        }
    }

    /// Begins a transaction that no other writer is in.
    ///
    /// # Errors
    /// Those of SQLite, after the patience of the connection.
    pub(super) fn begin<'c>(
        &self,
        connection: &'c mut Connection,
    ) -> rusqlite::Result<Transaction<'c>> {
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self.file.get_or_init(|| self.open());
        let _turn = file
            .as_deref()
            .map(|file| Turn::wait(&RealFs, file, &self.path));
        connection.transaction_with_behavior(TransactionBehavior::Immediate)
    }

    /// A user who may write to the database may open the small file too. A user who may only read
    /// it can lock it.
    fn open(&self) -> Option<Arc<dyn FileHandle>> {
        let mode = RealFs.metadata(&self.database).ok()?.mode & SHARED_FILE;
        let found = RealFs.symlink_metadata(&self.path);
        if found.is_ok_and(|found| found.kind == FileKind::Symlink) {
            // It would be made, or locked, wherever the link leads.
            return None;
        }
        let made = RealFs.open(&self.path, Access::OpenOrCreate(mode));
        made.or_else(|_| RealFs.open(&self.path, Access::Read)).ok()
    }
}
