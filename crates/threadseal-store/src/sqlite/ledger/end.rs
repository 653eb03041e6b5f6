//! The end of a run's ledger in SQLite, and whether our earlier rows are unchanged.
//!
//! ```text
//!            rows in the file                    our own note    then
//! last row   number = count                      count, hash     the hash must be the row's
//!            number > count: others appended     count, hash     row `count` must have it
//!            number < count                      count           rows are gone: refused
//! ```
//! A file of AbstractRuntime alone has no count of ours. There the last row counts, and
//! `ledger_heads.last_seq`, which its package only ever raises, must not be ahead of it.

use crate::ledger::{Tip, Tombstone, deleted};
use crate::sqlite::failure::{failed, number};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};
use std::path::Path;
use threadseal_core::canon::json;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// The end of one run.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) tip: Tip,
    /// The first row that others put there since our last append.
    pub(super) first_foreign: Option<u64>,
}

/// The end of `run`.
///
/// # Errors
/// Kind `Refused` when the run was deleted, or rows that we left are gone or changed.
pub(super) fn read(connection: &Connection, path: &Path, run: &RunId) -> Result<End, Error> {
    if let Some(stone) = tombstone(connection, path, run)? {
        return Err(deleted(run, &stone));
    }
    let fail = |error| failed("it cannot be read", path, &error);
    let last = connection
        .prepare_cached(
            "SELECT seq, record_json FROM ledger WHERE run_id = ?1 ORDER BY seq DESC LIMIT 1",
        )
        .and_then(|mut statement| statement.query_row([run.as_str()], numbered_row).optional())
        .map_err(fail)?;
    let head = head(connection, run).map_err(fail)?;
    let counted = counted(connection, run).map_err(fail)?;
    let count = last.as_ref().map_or(0, |(seq, _)| *seq);
    let least = head.map_or(0, |head| head.count).max(counted);
    if count < least {
        return Err(Error::refused(format!(
            "the ledger of run {run} in {} had {least} records and has {count}: it was cut \
             (rolled_back)",
            path.display()
        )));
    }
    let hash = match &last {
        Some((_, bytes)) => record_hash(bytes).ok_or_else(|| unreadable(path, run, count))?,
        None => None,
    };
    let tip = Tip { count, hash };
    let Some(head) = head else {
        let first_foreign = (count > 0).then_some(1);
        return Ok(End { tip, first_foreign });
    };
    let at_head = if head.count == count {
        hash
    } else {
        row(connection, run, head.count)
            .map_err(fail)?
            .and_then(|bytes| record_hash(&bytes))
            .flatten()
    };
    if at_head != head.hash {
        return Err(Error::refused(format!(
            "record {} of run {run} in {} is not the one that was written: verify the ledger",
            head.count.saturating_sub(1),
            path.display()
        )));
    }
    Ok(End {
        tip,
        first_foreign: (count > head.count).then_some(head.count + 1),
    })
}

/// The tombstone of `run`, if it was deleted.
///
/// # Errors
/// Kind `Refused` where its tombstone is not valid, or hides rows that other readers find.
pub(super) fn tombstone(
    connection: &Connection,
    path: &Path,
    run: &RunId,
) -> Result<Option<Tombstone>, Error> {
    let fail = |error| failed("it cannot be read", path, &error);
    let found = connection
        .prepare_cached("SELECT count, hash, at FROM threadseal_deleted WHERE run_id = ?1")
        .and_then(|mut statement| {
            let stone = |row: &Row<'_>| Ok((tip(row)?, number(row, 2)?));
            statement.query_row([run.as_str()], stone).optional()
        })
        .map_err(fail)?;
    let Some((tip, at)) = found else {
        return Ok(None);
    };
    if has_rows(connection, run).map_err(fail)? {
        return Err(Error::refused(format!(
            "run {run} in {} is marked as deleted and has records: verify it by another reader",
            path.display()
        )));
    }
    let at = Timestamp::from_micros(at).map_err(|why| Error::refused(why.to_string()))?;
    Ok(Some(Tombstone { tip, at }))
}

/// Is there any row of `run`?
pub(super) fn has_rows(connection: &Connection, run: &RunId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM ledger WHERE run_id = ?1 LIMIT 1")?
        .exists([run.as_str()])
}

/// The end of our own last append.
fn head(connection: &Connection, run: &RunId) -> rusqlite::Result<Option<Tip>> {
    connection
        .prepare_cached("SELECT count, hash FROM threadseal_heads WHERE run_id = ?1")?
        .query_row([run.as_str()], tip)
        .optional()
}

/// The number from which AbstractRuntime would continue to count.
fn counted(connection: &Connection, run: &RunId) -> rusqlite::Result<u64> {
    let counted = connection
        .prepare_cached("SELECT last_seq FROM ledger_heads WHERE run_id = ?1")?
        .query_row([run.as_str()], |row| number(row, 0))
        .optional()?;
    Ok(counted.unwrap_or(0))
}

fn row(connection: &Connection, run: &RunId, seq: u64) -> rusqlite::Result<Option<Vec<u8>>> {
    let seq = i64::try_from(seq).unwrap_or(i64::MAX);
    connection
        .prepare_cached("SELECT record_json FROM ledger WHERE run_id = ?1 AND seq = ?2")?
        .query_row((run.as_str(), seq), |row| Ok(bytes_of(row.get_ref(0)?)))
        .optional()
}

fn tip(row: &Row<'_>) -> rusqlite::Result<Tip> {
    let hash: Option<String> = row.get(1)?;
    let unreadable =
        || rusqlite::Error::InvalidColumnType(1, "hash".into(), rusqlite::types::Type::Text);
    Ok(Tip {
        count: number(row, 0)?,
        hash: hash
            .map(|hex| Digest::parse_hex(&hex).ok_or_else(unreadable))
            .transpose()?,
    })
}

/// A row's number and the bytes of its record.
pub(super) fn numbered_row(row: &Row<'_>) -> rusqlite::Result<(u64, Vec<u8>)> {
    Ok((number(row, 0)?, bytes_of(row.get_ref(1)?)))
}

/// The text from which AbstractRuntime's package reads a record, whatever value is in its column:
/// `str(row["record_json"] or "{}")` (`storage/sqlite.py`). A value of bytes is no record, because
/// Python writes it in its own notation.
fn bytes_of(value: ValueRef<'_>) -> Vec<u8> {
    match value {
        ValueRef::Null | ValueRef::Integer(0) | ValueRef::Text([]) | ValueRef::Blob([]) => {
            b"{}".to_vec()
        }
        ValueRef::Real(0.0) => b"{}".to_vec(),
        ValueRef::Text(bytes) => bytes.to_vec(),
        ValueRef::Integer(number) => number.to_string().into_bytes(),
        ValueRef::Real(number) => number.to_string().into_bytes(),
        ValueRef::Blob(bytes) => format!("b'{} bytes'", bytes.len()).into_bytes(),
    }
}

/// The `record_hash` of a stored record, inner `None` where it has none. Outer `None` for a text
/// that is no record, or whose hash is not valid.
fn record_hash(line: &[u8]) -> Option<Option<Digest>> {
    let record = json::parse_python(line).ok()?.value;
    record.as_object()?;
    match record.get("record_hash") {
        None => Some(None),
        Some(value) if value.is_null() => Some(None),
        Some(value) => Digest::parse_hex(value.as_str()?).map(Some),
    }
}

fn unreadable(path: &Path, run: &RunId, count: u64) -> Error {
    Error::refused(format!(
        "the last record of run {run} in {}, number {}, cannot be read; check it with fsck",
        path.display(),
        count.saturating_sub(1)
    ))
}
