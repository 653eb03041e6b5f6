//! The result of an append whose commit failed.
//!
//! ```text
//! threadseal_heads of the run    our count, hash and nonce    others, or none
//! then                           made durable, and stored     the failure
//! ```
//! Count and nonce are of one append only. After one failed fsync a later success proves nothing,
//! since the system may have forgotten the pages that it could not write. So the found rows are
//! copied into the file anew, where they are written and synced again. Then the log is emptied.

use super::file::{LedgerFile, to_write};
use crate::ledger::{Append, Tip};
use crate::sqlite::connect;
use crate::sqlite::failure::{failed, number};
use crate::sys::{Access, Fs as _, RealFs};
use rusqlite::{Connection, OptionalExtension};
use threadseal_core::error::Error;
use threadseal_formats::ledger::RunId;

/// The answer of an append of ours that should end in `tip` and failed with `error` at its commit.
///
/// # Errors
/// `error` where it was not stored, or is not known to be durable.
pub(super) fn settle(
    file: &LedgerFile,
    run: &RunId,
    tip: Tip,
    error: Error,
) -> Result<Append, Error> {
    // The connection that failed may see rows that no other sees.
    let Ok(connection) = to_write(&file.path) else {
        return Err(error);
    };
    match is_ours(&connection, file, run, &tip) {
        Ok(true) => make_durable(&connection, file).map(|()| Append::Stored(tip)),
        Ok(false) | Err(_) => Err(error),
    }
}

fn is_ours(
    connection: &Connection,
    file: &LedgerFile,
    run: &RunId,
    tip: &Tip,
) -> rusqlite::Result<bool> {
    let hash = tip.hash.map(|hash| hash.to_hex());
    let found: Option<(u64, Option<String>, Vec<u8>)> = connection
        .query_row(
            "SELECT count, hash, writer FROM threadseal_heads WHERE run_id = ?1",
            [run.as_str()],
            |row| Ok((number(row, 0)?, row.get(1)?, row.get(2)?)),
        )
        .optional()?;
    Ok(found.is_some_and(|(count, found, writer)| {
        count == tip.count && found == hash && writer == file.writer
    }))
}

/// Copies the log into the file, which is synced before the log is truncated, and syncs that, too.
fn make_durable(connection: &Connection, file: &LedgerFile) -> Result<(), Error> {
    let unknown = "the records are stored, but may not survive a loss of power";
    let busy: i64 = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map_err(|error| failed(unknown, &file.path, &error))?;
    let synced = RealFs
        .open(&connect::beside(&file.path, "-wal"), Access::Rewrite)
        .and_then(|log| log.sync_all());
    match (busy, synced) {
        (0, Ok(())) => Ok(()),
        _ => Err(Error::new(
            threadseal_core::error::ErrorKind::External,
            format!("SQLite file {}: {unknown}", file.path.display()),
        )),
    }
}
