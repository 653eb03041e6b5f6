//! The tables of a registry in SQLite: Rye's, and beside it ours.
//!
//! ```text
//! threads             thread_id directive parent_id status created_at updated_at completed_at
//!                     result turns input_tokens output_tokens spend spawn_count pid model
//!                     continuation_of continuation_thread_id chain_root_id                Rye's
//!                     cost                                                 made of its numbers
//! threadseal_schema   version
//! threadseal_threads  thread_id spend_nanos elapsed_micros process_started record fence
//! ```
//! Rye's table is created, and an early one of eight columns is completed, exactly as Rye's code
//! does (`thread_registry.py:30-68`). So each program opens the other's files. A file that is only
//! read stays unchanged: missing columns are read as NULL.

use rusqlite::Connection;
use std::collections::HashSet;
use threadseal_core::error::Error;
use threadseal_store::sqlite::database::Database;

/// Version of our table; a file of a later one is not touched.
const VERSION: i64 = 1;

const THEIR_TABLE: &str = "
CREATE TABLE IF NOT EXISTS threads (
  thread_id TEXT PRIMARY KEY,
  directive TEXT NOT NULL,
  parent_id TEXT,
  status TEXT DEFAULT 'created',
  created_at TEXT,
  updated_at TEXT,
  completed_at TEXT,
  result TEXT
);
CREATE INDEX IF NOT EXISTS idx_threads_parent ON threads(parent_id);
CREATE INDEX IF NOT EXISTS idx_threads_status ON threads(status);";

/// Columns that Rye added later, spelled as Rye adds them to files that lack them.
const LATER_COLUMNS: [(&str, &str); 10] = [
    ("turns", "INTEGER DEFAULT 0"),
    ("input_tokens", "INTEGER DEFAULT 0"),
    ("output_tokens", "INTEGER DEFAULT 0"),
    ("spend", "REAL DEFAULT 0.0"),
    ("spawn_count", "INTEGER DEFAULT 0"),
    ("pid", "INTEGER"),
    ("model", "TEXT"),
    ("continuation_of", "TEXT"),
    ("continuation_thread_id", "TEXT"),
    ("chain_root_id", "TEXT"),
];

/// Seed 001's snapshot of the cost as JSON. The file makes it of the numbers in the row, so that it
/// never differs from them, also where Rye writes these.
const COST_COLUMN: &str = "
ALTER TABLE threads ADD COLUMN cost TEXT GENERATED ALWAYS AS (json_object(
  'turns', turns, 'input_tokens', input_tokens, 'output_tokens', output_tokens,
  'spend', spend, 'spawns', spawn_count)) VIRTUAL;";

const OUR_TABLES: &str = "
CREATE TABLE IF NOT EXISTS threadseal_schema (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS threadseal_threads (
  thread_id TEXT PRIMARY KEY,
  spend_nanos INTEGER NOT NULL DEFAULT 0,
  elapsed_micros INTEGER NOT NULL DEFAULT 0,
  process_started TEXT,
  record TEXT,
  fence INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS idx_threadseal_listed ON threads(created_at, thread_id);";

/// Columns in the order in which [`super::row`] takes them: Rye's, then ours.
const THEIR_COLUMNS: [&str; 18] = [
    "thread_id",
    "directive",
    "parent_id",
    "status",
    "created_at",
    "updated_at",
    "completed_at",
    "result",
    "turns",
    "input_tokens",
    "output_tokens",
    "spend",
    "spawn_count",
    "pid",
    "model",
    "continuation_of",
    "continuation_thread_id",
    "chain_root_id",
];
const OUR_COLUMNS: [&str; 4] = ["spend_nanos", "process_started", "record", "fence"];

/// Creates the missing tables in one transaction.
pub(super) fn migrate(database: &Database) -> Result<(), Error> {
    let fail = |error| database.failed(&error);
    if database.read(|connection| is_current(connection).map_err(fail))? {
        return Ok(());
    }
    database.write(|transaction| {
        let ours = columns(transaction, "threadseal_schema").map_err(fail)?;
        if !ours.is_empty() {
            refuse_later(transaction)
                .map_err(fail)?
                .map_or(Ok(()), Err)?;
        }
        transaction.execute_batch(THEIR_TABLE).map_err(fail)?;
        let theirs = columns(transaction, "threads").map_err(fail)?;
        for (name, kind) in LATER_COLUMNS {
            if !theirs.contains(name) {
                let sql = format!("ALTER TABLE threads ADD COLUMN {name} {kind}");
                transaction.execute_batch(&sql).map_err(fail)?;
            }
        }
        if !theirs.contains("cost") {
            transaction.execute_batch(COST_COLUMN).map_err(fail)?;
        }
        transaction.execute_batch(OUR_TABLES).map_err(fail)?;
        let noted = "INSERT INTO threadseal_schema (version)
             SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM threadseal_schema)";
        transaction.execute(noted, [VERSION]).map_err(fail)?;
        Ok(())
    })
}

fn is_current(connection: &Connection) -> rusqlite::Result<bool> {
    let theirs = columns(connection, "threads")?;
    let complete = THEIR_COLUMNS.iter().all(|name| theirs.contains(*name));
    let complete = complete && theirs.contains("cost");
    let ours = columns(connection, "threadseal_threads")?;
    if !complete || ours.is_empty() {
        return Ok(false);
    }
    let version = "SELECT MAX(version) FROM threadseal_schema";
    let version = connection.query_row(version, [], |row| row.get::<_, Option<i64>>(0))?;
    Ok(version == Some(VERSION))
}

fn refuse_later(connection: &Connection) -> rusqlite::Result<Option<Error>> {
    let version = "SELECT MAX(version) FROM threadseal_schema";
    let version = connection.query_row(version, [], |row| row.get::<_, Option<i64>>(0))?;
    let later = version.filter(|version| *version > VERSION);
    Ok(later.map(|version| {
        Error::refused(format!(
            "a later ThreadSeal (tables of version {version}) wrote this file; hint: use that version"
        ))
    }))
}

/// `SELECT` of all columns from `threads t` that the file has; None when it is no registry.
pub(super) fn select(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let theirs = columns(connection, "threads")?;
    if !theirs.contains("thread_id") {
        return Ok(None);
    }
    let ours = columns(connection, "threadseal_threads")?;
    let of = |table: &str, there: &HashSet<String>, name: &str| match there.contains(name) {
        true => format!("{table}.{name}"),
        false => "NULL".to_owned(),
    };
    let listed = THEIR_COLUMNS.iter().map(|name| of("t", &theirs, name));
    let listed = listed.chain(OUR_COLUMNS.iter().map(|name| of("s", &ours, name)));
    let listed: Vec<String> = listed.collect();
    let joined = match ours.is_empty() {
        true => "",
        false => " LEFT JOIN threadseal_threads s ON s.thread_id = t.thread_id",
    };
    Ok(Some(format!(
        "SELECT {} FROM threads t{joined}",
        listed.join(", ")
    )))
}

/// Names of a table's columns, generated ones too; none when there is no such table.
pub(super) fn columns(connection: &Connection, table: &str) -> rusqlite::Result<HashSet<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_xinfo(?1)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}
