//! Appending and deleting: each in one transaction that no other writer shares.

use super::file::LedgerFile;
use super::names::check_name;
use super::{end, settle};
use crate::ledger::{Append, Entry, Tip, check_entries};
use crate::sqlite::failure::number;
use rusqlite::{Connection, Transaction};
use std::borrow::Cow;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// Makes the entries to append after a tip; `None`: nothing after this one.
pub(super) type Make<'m, 'e> = dyn FnMut(&Tip) -> Result<Option<Cow<'e, [Entry]>>, Error> + 'm;

/// Appends the entries that `make` returns for the end of `run`, while no other writer can append.
pub(super) fn append(
    file: &LedgerFile,
    run: &RunId,
    make: &mut Make<'_, '_>,
) -> Result<Append, Error> {
    check_name(run)?;
    let mut wanted = None;
    let done = in_transaction(file, |transaction| {
        let end = end::read(transaction, &file.path, run)?;
        let Some(entries) = make(&end.tip)? else {
            return Ok(Step::LeaveIt(Append::Differs(end.tip)));
        };
        if entries.is_empty() {
            return Ok(Step::LeaveIt(Append::Stored(end.tip)));
        }
        check_entries(&entries)?;
        let texts = entries.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        let tip = insert(transaction, file, run, &end, &entries, &texts)
            .map_err(file.fail("the records cannot be written"))?;
        wanted = Some(tip);
        Ok(Step::Commit(Append::Stored(tip)))
    });
    match (done, wanted) {
        (Err(error), Some(tip)) => settle::settle(file, run, tip, error),
        (done, _) => done,
    }
}

/// Deletes the rows of `run`, if they end as expected, and leaves a tombstone.
pub(super) fn delete(
    file: &LedgerFile,
    run: &RunId,
    expected: Option<&Tip>,
    at: Timestamp,
) -> Result<bool, Error> {
    let is_expected = |tip: &Tip| expected.is_none_or(|expected| expected == tip);
    check_name(run)?;
    let path = &file.path;
    in_transaction(file, |transaction| {
        if let Some(stone) = end::tombstone(transaction, path, run)? {
            return Ok(Step::LeaveIt(is_expected(&stone.tip)));
        }
        // A damaged ledger can be deleted too; then its tombstone has the number of its rows.
        let tip = match end::read(transaction, path, run) {
            Ok(end) => end.tip,
            Err(error) if error.kind() == ErrorKind::Refused => Tip {
                count: count_rows(transaction, run).map_err(file.fail("it cannot be read"))?,
                hash: None,
            },
            Err(error) => return Err(error),
        };
        if tip.count == 0 || !is_expected(&tip) {
            return Ok(Step::LeaveIt(false));
        }
        bury(transaction, run, &tip, at).map_err(file.fail("the run cannot be deleted"))?;
        Ok(Step::Commit(true))
    })
}

enum Step<T> {
    Commit(T),
    LeaveIt(T),
}

fn in_transaction<T>(
    file: &LedgerFile,
    work: impl FnOnce(&Connection) -> Result<Step<T>, Error>,
) -> Result<T, Error> {
    file.write(|connection| {
        let transaction = file
            .turnstile
            .begin(connection)
            .map_err(file.fail("another process uses it, or it cannot be written"))?;
        match work(&transaction)? {
            Step::LeaveIt(answer) => Ok(answer),
            Step::Commit(answer) => commit(file, transaction).map(|()| answer),
        }
    })
}

/// A commit that fails may have left everything in the write-ahead log; `settle` finds out.
fn commit(file: &LedgerFile, transaction: Transaction<'_>) -> Result<(), Error> {
    transaction.commit().map_err(
        file.fail(
            "the transaction could not be committed; read the ledger again before you repeat it",
        ),
    )
}

fn insert(
    connection: &Connection,
    file: &LedgerFile,
    run: &RunId,
    end: &end::End,
    entries: &[Entry],
    texts: &[&str],
) -> rusqlite::Result<Tip> {
    let run = run.as_str();
    let first = end.tip.count + 1;
    if let Some(foreign) = end.first_foreign {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO threadseal_foreign (run_id, first_seq, last_seq)
                 VALUES (?1, ?2, ?3)",
            )?
            .execute((run, sql(foreign), sql(end.tip.count)))?;
    }
    let mut statement = connection.prepare_cached(
        "INSERT INTO ledger (run_id, seq, record_json, idempotency_key, step_status)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (seq, (entry, text)) in (first..).zip(entries.iter().zip(texts)) {
        let key = entry
            .idempotency_key
            .as_deref()
            .filter(|key| !key.is_empty());
        statement.execute((run, sql(seq), text, key, &entry.status))?;
    }
    let tip = Tip {
        count: end.tip.count + entries.len() as u64,
        hash: entries.last().and_then(|entry| entry.record_hash),
    };
    connection
        .prepare_cached(
            "INSERT INTO ledger_heads (run_id, last_seq) VALUES (?1, ?2)
             ON CONFLICT (run_id) DO UPDATE SET last_seq = excluded.last_seq",
        )?
        .execute((run, sql(tip.count)))?;
    connection
        .prepare_cached(
            "INSERT INTO threadseal_heads (run_id, count, hash, writer) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (run_id) DO UPDATE
             SET count = excluded.count, hash = excluded.hash, writer = excluded.writer",
        )?
        .execute((
            run,
            sql(tip.count),
            tip.hash.map(|hash| hash.to_hex()),
            file.writer,
        ))?;
    Ok(tip)
}

fn bury(connection: &Connection, run: &RunId, tip: &Tip, at: Timestamp) -> rusqlite::Result<()> {
    let run = run.as_str();
    // The deleted bytes are removed from the file too, not only from its index.
    connection.pragma_update(None, "secure_delete", true)?;
    let hash = tip.hash.map(|hash| hash.to_hex());
    connection.execute(
        "INSERT INTO threadseal_deleted (run_id, count, hash, at) VALUES (?1, ?2, ?3, ?4)",
        (run, sql(tip.count), hash, sql(at.as_micros())),
    )?;
    for table in [
        "ledger",
        "ledger_heads",
        "threadseal_heads",
        "threadseal_foreign",
    ] {
        connection.execute(&format!("DELETE FROM {table} WHERE run_id = ?1"), [run])?;
    }
    connection.pragma_update(None, "secure_delete", false)
}

fn count_rows(connection: &Connection, run: &RunId) -> rusqlite::Result<u64> {
    connection.query_row(
        "SELECT COUNT(*) FROM ledger WHERE run_id = ?1",
        [run.as_str()],
        |row| number(row, 0),
    )
}

fn text(entry: &Entry) -> Result<&str, Error> {
    std::str::from_utf8(&entry.line).map_err(|_| Error::invalid("a record is JSON text in UTF-8"))
}

/// Numbers of records and microseconds never come near the end of SQLite's.
fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
