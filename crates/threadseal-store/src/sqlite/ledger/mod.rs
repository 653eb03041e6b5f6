//! [`SqliteLedgerStore`]: ledgers in an SQLite file, the embedded default.
//!
//! The tables are AbstractRuntime's own, so that its package reads and continues our rows and we
//! its rows; our tables are beside them (`schema`). Invariants:
//! * an append reads the end, compares and writes within one `BEGIN IMMEDIATE` transaction; no
//!   other writer, of this process or another, can be in it;
//! * a commit that returned has reached the disk (`synchronous = FULL`);
//! * rows that others put after ours are noticed and remembered as theirs; after a loss or change
//!   of our rows no append works (`end`);
//! * [`SqliteLedgerStore::open_read_only`] changes nothing on the disk (`sqlite::connect`).
//!
//! Numbers: rows count from 1, records from 0.

mod append;
mod end;
mod file;
mod fsck;
mod names;
mod schema;
mod settle;
#[cfg(test)]
mod tests;

pub(super) use schema::is_ledger;

use crate::ledger::{
    Append, COMPLETED, Entry, FsckReport, LedgerStore, MAX_BATCH_BYTES, Make, StoredRecord, Tip,
    Tombstone, check_entries, deleted,
};
use crate::sys::{Fs as _, RealFs, path_text};
use file::{LedgerFile, UNREADABLE};
use names::check_name;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};
use std::path::PathBuf;
use threadseal_core::canon::json;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// Ledgers in one SQLite file.
#[derive(Debug)]
pub struct SqliteLedgerStore {
    file: LedgerFile,
}

impl SqliteLedgerStore {
    /// Opens the file at `path` to read and append; makes it, and its missing tables.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] for an SQLite file of another program or of a later version;
    /// [`threadseal_core::error::ErrorKind::Refused`] for a damaged one; [`threadseal_core::error::ErrorKind::External`] when it cannot be opened.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let file = LedgerFile::open(path.into())?;
        Ok(Self { file })
    }

    /// Opens an existing file only to read it: no byte of it, and no file beside it, is written. A
    /// write-ahead log beside it is read with it.
    ///
    /// # Errors
    /// As [`SqliteLedgerStore::open`]; [`threadseal_core::error::ErrorKind::Refused`] also when an unfinished transaction
    /// must be rolled back first.
    pub fn open_read_only(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let file = LedgerFile::open_read_only(path.into())?;
        Ok(Self { file })
    }

    fn misnumbered(&self, run: &RunId) -> Error {
        Error::refused(format!(
            "{}: rows of run {run} are not numbered from 1, each once: readers differ on which rows exist",
            self.file.path.display()
        ))
    }

    fn refuse_deleted(&self, connection: &Connection, run: &RunId) -> Result<(), Error> {
        match end::tombstone(connection, &self.file.path, run)? {
            Some(stone) => Err(deleted(run, &stone)),
            None => Ok(()),
        }
    }
}

impl LedgerStore for SqliteLedgerStore {
    fn tip(&self, run: &RunId) -> Result<Option<Tip>, Error> {
        check_name(run)?;
        let tip = self
            .file
            .look(|connection| Ok(end::read(connection, &self.file.path, run)?.tip))?;
        Ok((tip.count > 0).then_some(tip))
    }

    fn append_if(&self, run: &RunId, expected: &Tip, entries: &[Entry]) -> Result<Append, Error> {
        check_entries(entries)?;
        append::append(&self.file, run, &mut |tip| {
            Ok((tip == expected).then_some(entries.into()))
        })
    }

    fn append_with(&self, run: &RunId, make: &mut Make<'_>) -> Result<Tip, Error> {
        match append::append(&self.file, run, &mut |tip| Ok(Some(make(tip)?.into())))? {
            Append::Stored(tip) | Append::Differs(tip) => Ok(tip),
        }
    }

    fn list_after(
        &self,
        run: &RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, Error> {
        check_name(run)?;
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.file.look(|connection| {
            self.refuse_deleted(connection, run)?;
            if after == 0
                && is_numbered_oddly(connection, run).map_err(self.file.fail(UNREADABLE))?
            {
                return Err(self.misnumbered(run));
            }
            let rows = rows(connection, run, after, limit).map_err(self.file.fail(UNREADABLE))?;
            rows.ok_or_else(|| self.misnumbered(run))
        })
    }

    fn find_completed(
        &self,
        run: &RunId,
        idempotency_key: &str,
    ) -> Result<Option<StoredRecord>, Error> {
        check_name(run)?;
        self.file.look(|connection| {
            self.refuse_deleted(connection, run)?;
            completed(connection, run, idempotency_key).map_err(self.file.fail(UNREADABLE))
        })
    }

    fn runs(&self, after: Option<&RunId>, limit: usize) -> Result<Vec<RunId>, Error> {
        self.file.look(|connection| {
            names::runs(connection, after, limit).map_err(self.file.fail(UNREADABLE))
        })
    }

    fn strays(&self, limit: usize) -> Result<Vec<String>, Error> {
        self.file
            .look(|connection| names::strays(connection, limit).map_err(self.file.fail(UNREADABLE)))
    }

    fn delete(&self, run: &RunId, expected: Option<&Tip>, at: Timestamp) -> Result<bool, Error> {
        append::delete(&self.file, run, expected, at)
    }

    fn tombstone(&self, run: &RunId) -> Result<Option<Tombstone>, Error> {
        check_name(run)?;
        self.file
            .look(|connection| end::tombstone(connection, &self.file.path, run))
    }

    fn place(&self) -> Option<String> {
        let path = &self.file.path;
        let real = RealFs.canonicalize(path);
        let real = real.unwrap_or_else(|_| path.clone());
        Some(format!("sqlite:{}", path_text(&real)))
    }

    fn fsck(&self, run: &RunId, repair: bool) -> Result<FsckReport, Error> {
        let reports = fsck::fsck(&self.file, std::slice::from_ref(run), repair)?;
        reports
            .into_iter()
            .next()
            .ok_or_else(|| Error::refused("nothing was examined"))
    }

    fn fsck_runs(&self, runs: &[RunId], repair: bool) -> Result<Vec<FsckReport>, Error> {
        fsck::fsck(&self.file, runs, repair)
    }
}

/// Has the run a row before the first, or with a number that is none? Another reader finds it.
fn is_numbered_oddly(connection: &Connection, run: &RunId) -> rusqlite::Result<bool> {
    // Numbers sort before texts and bytes.
    let mut odd = connection.prepare_cached(
        "SELECT 1 FROM ledger WHERE run_id = ?1 AND seq < 1
         UNION ALL
         SELECT 1 FROM ledger WHERE run_id = ?1 AND seq > 9223372036854775807",
    )?;
    odd.exists([run.as_str()])
}

/// The rows after number `after`; `None` when two have one number, or one has a fraction.
fn rows(
    connection: &Connection,
    run: &RunId,
    after: i64,
    limit: i64,
) -> rusqlite::Result<Option<Vec<StoredRecord>>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, record_json FROM ledger WHERE run_id = ?1 AND seq > ?2
         ORDER BY seq LIMIT ?3",
    )?;
    // One more than was requested: a second row of one number would be lost between two reads.
    let mut rows = statement.query((run.as_str(), after, limit.saturating_add(1)))?;
    let (mut records, mut bytes, mut last) = (Vec::new(), 0, None);
    while let Some(row) = rows.next()? {
        let ValueRef::Integer(number) = row.get_ref(0)? else {
            return Ok(None);
        };
        if last == Some(number) {
            return Ok(None);
        }
        if bytes >= MAX_BATCH_BYTES || records.len() as u64 >= limit.unsigned_abs() {
            break;
        }
        last = Some(number);
        let (number, line) = end::numbered_row(row)?;
        bytes += line.len();
        records.push(record(number, line));
    }
    Ok(Some(records))
}

/// The newest completed record of a key. AbstractRuntime left its later columns empty in older
/// rows; where such a row is, all rows are read.
fn completed(
    connection: &Connection,
    run: &RunId,
    key: &str,
) -> rusqlite::Result<Option<StoredRecord>> {
    if key.is_empty() {
        return Ok(None);
    }
    let unfilled = connection
        .prepare_cached("SELECT 1 FROM ledger WHERE run_id = ?1 AND step_status IS NULL LIMIT 1")?
        .exists([run.as_str()])?;
    if !unfilled {
        return connection
            .prepare_cached(
                "SELECT seq, record_json FROM ledger
                 WHERE run_id = ?1 AND idempotency_key = ?2 AND step_status = ?3
                 ORDER BY seq DESC LIMIT 1",
            )?
            .query_row((run.as_str(), key, COMPLETED), |row| {
                end::numbered_row(row).map(|(number, line)| record(number, line))
            })
            .optional();
    }
    let mut statement = connection.prepare_cached(
        "SELECT seq, record_json FROM ledger WHERE run_id = ?1 ORDER BY seq DESC",
    )?;
    let mut rows = statement.query([run.as_str()])?;
    while let Some(row) = rows.next()? {
        let (number, line) = end::numbered_row(row)?;
        let found = json::parse_python(&line).is_ok_and(|read| {
            let is = |name: &str, text: &str| {
                read.value.get(name).and_then(|v| v.as_str()) == Some(text)
            };
            is("idempotency_key", key) && is("status", COMPLETED)
        });
        if found {
            return Ok(Some(record(number, line)));
        }
    }
    Ok(None)
}

fn record(number: u64, line: Vec<u8>) -> StoredRecord {
    StoredRecord {
        seq: number.saturating_sub(1),
        line,
    }
}
