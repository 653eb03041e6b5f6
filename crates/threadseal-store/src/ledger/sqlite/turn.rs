//! [`Turnstile`]: those who want to write to one SQLite file, one behind the other.
//!
//! SQLite has no queue: whoever waits looks again and again, and whoever has just committed may begin anew
//! at once. Where the processors are busy the others run only while he syncs, and so holds the file; they
//! never find it free and give up in the end. Therefore a writer takes the lock of a small file first, then
//! waits for SQLite's, and gives the first one back as soon as he has the second:
//!
//! ```text
//! FILE-turn    flock(2)    one writer at most waits for FILE, and nobody overtakes him
//! FILE         SQLite's    one writer at most is in a transaction
//! ```
//! It is a courtesy and keeps nothing safe: programs that know nothing of it write as ever, and where the
//! small file cannot be made, or somebody keeps its lock, a writer goes on without. The database itself is
//! never opened here: closing any handle of it would take SQLite's locks from this process
//! (sqlite.org/howtocorrupt.html, §2.2).

use super::connect;
use crate::atomic::SHARED_FILE;
use crate::lock::Turn;
use crate::sys::{Access, FileHandle, FileKind, Fs, RealFs};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What the name of the small file ends in.
const SUFFIX: &str = "-turn";

/// The queue in front of one file.
#[derive(Debug)]
pub(crate) struct Turnstile {
    database: PathBuf,
    path: PathBuf,
    /// One thread of this process stands in the queue at a time: they share one handle, and so the lock.
    gate: Mutex<()>,
    /// Opened at the first transaction.
    file: OnceLock<Option<Arc<dyn FileHandle>>>,
}

impl Turnstile {
    /// Of the existing file at `database`.
    pub(crate) fn of(database: &Path) -> Self {
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
    /// What SQLite says, after the patience of the connection.
    pub(crate) fn begin<'c>(
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

    /// Whoever may write to the database may open the small file too, and whoever may only read that
    /// can lock it.
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
