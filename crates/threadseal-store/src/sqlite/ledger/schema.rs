//! The tables of a ledger in SQLite: AbstractRuntime's own, and beside them ours.
//!
//! ```text
//! ledger               run_id, seq from 1, record_json, idempotency_key, step_status   theirs
//! ledger_heads         run_id, last_seq                                                theirs
//! threadseal_schema    version
//! threadseal_heads     run_id, count, hash, writer     where our last append left a run
//! threadseal_foreign   run_id, first_seq, last_seq     rows that others put between our appends
//! threadseal_deleted   run_id, count, hash, at         the tombstone of a deleted run
//! ```
//! The first two are made exactly as AbstractRuntime 0.13.0 makes them (`storage/sqlite.py`,
//! `SqliteDatabase._ensure_schema`). So its package opens our files and we open its own. Its
//! writers know nothing of our tables, so three triggers enforce our rules. Records are not
//! rewritten, a run that it deletes leaves a tombstone, and a deleted run takes no record. Triggers
//! stop mistakes. An attacker who can write the file can drop them; hashes and heads protect
//! against that.
//!
//! A file that is only read gets its missing tables as temporary tables and views in memory. So
//! every query is written once.

use crate::sqlite::failure::failed;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use std::path::Path;
use threadseal_core::error::{Error, ErrorKind};

/// Version of our tables; a file of a later one is not touched.
const VERSION: i64 = 1;

/// As AbstractRuntime makes them, with the same names and columns.
const THEIR_TABLES: &str = "
CREATE TABLE IF NOT EXISTS ledger (
  run_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  record_json TEXT NOT NULL,
  idempotency_key TEXT,
  step_status TEXT,
  PRIMARY KEY (run_id, seq)
);
CREATE TABLE IF NOT EXISTS ledger_heads (
  run_id TEXT PRIMARY KEY,
  last_seq INTEGER NOT NULL
);";

/// The same; one of them, `idx_ledger_run_seq`, repeats the primary key and is theirs to make.
const THEIR_INDEXES: &str = "
CREATE INDEX IF NOT EXISTS idx_ledger_unbackfilled ON ledger(run_id) WHERE step_status IS NULL;
CREATE INDEX IF NOT EXISTS idx_ledger_idem
  ON ledger(run_id, idempotency_key, seq) WHERE idempotency_key IS NOT NULL;";

const OUR_TABLES: &str = "
CREATE TABLE threadseal_schema (version INTEGER NOT NULL);
CREATE TABLE threadseal_heads (
  run_id TEXT PRIMARY KEY,
  count INTEGER NOT NULL,
  hash TEXT,
  writer BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE threadseal_foreign (
  run_id TEXT NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  PRIMARY KEY (run_id, first_seq)
) WITHOUT ROWID;
CREATE TABLE threadseal_deleted (
  run_id TEXT PRIMARY KEY,
  count INTEGER NOT NULL,
  hash TEXT,
  at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER threadseal_no_rewriting
BEFORE UPDATE OF run_id, seq, record_json ON ledger
BEGIN
  SELECT RAISE(ABORT, 'ledger records are not rewritten');
END;
CREATE TRIGGER threadseal_no_revival
BEFORE INSERT ON ledger
WHEN EXISTS (SELECT 1 FROM threadseal_deleted WHERE run_id = NEW.run_id)
BEGIN
  SELECT RAISE(ABORT, 'the ledger of this run was deleted');
END;
CREATE TRIGGER threadseal_deletion
AFTER DELETE ON ledger_heads
BEGIN
  INSERT OR IGNORE INTO threadseal_deleted (run_id, count, hash, at)
    SELECT OLD.run_id, OLD.last_seq,
           (SELECT hash FROM threadseal_heads WHERE run_id = OLD.run_id AND count = OLD.last_seq),
           CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER);
  DELETE FROM threadseal_heads WHERE run_id = OLD.run_id;
  DELETE FROM threadseal_foreign WHERE run_id = OLD.run_id;
END;
INSERT INTO threadseal_schema (version) VALUES (1);";

/// The tables that a file which is only read may lack, in memory.
const STAND_INS: [(&str, &str); 4] = [
    (
        "ledger_heads",
        "CREATE TEMP VIEW ledger_heads AS
           SELECT run_id, MAX(seq) AS last_seq FROM main.ledger GROUP BY run_id",
    ),
    (
        "threadseal_heads",
        "CREATE TEMP TABLE threadseal_heads (run_id TEXT, count INTEGER, hash TEXT, writer BLOB)",
    ),
    (
        "threadseal_foreign",
        "CREATE TEMP TABLE threadseal_foreign
           (run_id TEXT, first_seq INTEGER, last_seq INTEGER)",
    ),
    (
        "threadseal_deleted",
        "CREATE TEMP TABLE threadseal_deleted
           (run_id TEXT, count INTEGER, hash TEXT, at INTEGER)",
    ),
];

/// Columns that AbstractRuntime added to `ledger` after its first versions.
const LATER_COLUMNS: [&str; 2] = ["idempotency_key", "step_status"];

/// Makes missing tables and columns, in one transaction; an existing file of another program stays
/// as it is.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), Error> {
    if version(connection, path)? == VERSION {
        return Ok(());
    }
    let fail = |error| failed("the tables cannot be made", path, &error);
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(fail)?;
    let version = version(&transaction, path)?;
    if version < VERSION {
        match ledger_columns(&transaction, path)? {
            None if is_empty(&transaction).map_err(fail)? => {}
            None => return Err(no_ledger(path)),
            Some(columns) => add_later_columns(&transaction, &columns).map_err(fail)?,
        }
        for sql in [THEIR_TABLES, THEIR_INDEXES, OUR_TABLES] {
            transaction.execute_batch(sql).map_err(fail)?;
        }
    }
    transaction.commit().map_err(fail)
}

/// Checks a file that is only read, and adds temporary tables for missing ones.
pub(super) fn stand_in(connection: &Connection, path: &Path) -> Result<(), Error> {
    let fail = |error| failed("it cannot be read", path, &error);
    version(connection, path)?;
    let columns = ledger_columns(connection, path)?.ok_or_else(|| no_ledger(path))?;
    for (name, sql) in STAND_INS {
        if !is_table(connection, name).map_err(fail)? {
            connection.execute_batch(sql).map_err(fail)?;
        }
    }
    let missing: String = LATER_COLUMNS
        .iter()
        .filter(|name| !columns.iter().any(|column| column == *name))
        .map(|name| format!(", NULL AS {name}"))
        .collect();
    if !missing.is_empty() {
        let sql = format!("CREATE TEMP VIEW ledger AS SELECT *{missing} FROM main.ledger");
        connection.execute_batch(&sql).map_err(fail)?;
    }
    Ok(())
}

/// Does the file have a table of ledgers? Other programs have tables of that name, too.
///
/// # Errors
/// When it cannot be read.
pub(in crate::sqlite) fn is_ledger(connection: &Connection, path: &Path) -> Result<bool, Error> {
    match ledger_columns(connection, path) {
        Ok(columns) => Ok(columns.is_some()),
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(false),
        Err(error) => Err(error),
    }
}

/// The version of our tables, 0 where there are none.
fn version(connection: &Connection, path: &Path) -> Result<i64, Error> {
    let fail = |error| failed("it cannot be read", path, &error);
    if !is_table(connection, "threadseal_schema").map_err(fail)? {
        return Ok(0);
    }
    let version = connection
        .query_row("SELECT MAX(version) FROM threadseal_schema", [], |row| {
            row.get::<_, Option<i64>>(0)
        })
        .map_err(fail)?
        .unwrap_or(0);
    if version > VERSION {
        return Err(Error::invalid(format!(
            "{} was written by a later version of this program (tables of version {version}); use \
             that",
            path.display()
        )));
    }
    Ok(version)
}

/// The columns of `ledger`; `None` when there is no such table.
fn ledger_columns(connection: &Connection, path: &Path) -> Result<Option<Vec<String>>, Error> {
    let fail = |error| failed("it cannot be read", path, &error);
    if !is_table(connection, "ledger").map_err(fail)? {
        return Ok(None);
    }
    let mut statement = connection
        .prepare("SELECT name, hidden FROM pragma_table_xinfo('ledger')")
        .map_err(fail)?;
    let columns: Vec<(String, i64)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .map_err(fail)?;
    let has = |name: &str| columns.iter().any(|(column, _)| column == name);
    // A computed column could run any expression at each look at a row.
    let computed = columns.iter().any(|(_, hidden)| *hidden != 0);
    if computed || !["run_id", "seq", "record_json"].into_iter().all(has) {
        return Err(no_ledger(path));
    }
    Ok(Some(columns.into_iter().map(|(name, _)| name).collect()))
}

fn add_later_columns(connection: &Connection, columns: &[String]) -> rusqlite::Result<()> {
    for name in LATER_COLUMNS {
        if !columns.iter().any(|column| column == name) {
            connection.execute_batch(&format!("ALTER TABLE ledger ADD COLUMN {name} TEXT"))?;
        }
    }
    Ok(())
}

/// Is `name` a table of the file itself: no view, no virtual table, nothing temporary?
fn is_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let kind: Option<String> = connection
        .query_row(
            "SELECT type FROM pragma_table_list WHERE schema = 'main' AND name = ?1",
            [name],
            |row| row.get(0),
        )
        .optional()?;
    Ok(kind.as_deref() == Some("table"))
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT COUNT(*) = 0 FROM main.sqlite_schema", [], |row| {
        row.get(0)
    })
}

fn no_ledger(path: &Path) -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        format!(
            "{} is an SQLite file without a ledger table of AbstractRuntime; name another file",
            path.display()
        ),
    )
}
