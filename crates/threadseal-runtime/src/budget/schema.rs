//! The tables of budgets in SQLite: Rye's, and beside it ours.
//!
//! ```text
//! budget_ledger       thread_id parent_thread_id reserved_spend actual_spend max_spend status
//!                     created_at updated_at                                                Rye's
//!                     parent_id                                        made of parent_thread_id
//! threadseal_schema   version
//! threadseal_budgets  thread_id max_nanos reserved_nanos actual_nanos own_nanos      the truth
//! threadseal_commits  thread_id key nanos                                            each once
//! threadseal_holds    thread_id key nanos                             requests that are under way
//! ```
//! Rye's table is created exactly as Rye's code does (`budgets.py:43-62`); its REAL columns get the
//! doubles nearest to our amounts. A row that only Rye wrote is read from its REAL columns, and
//! gets one of ours when money moves through it.

use rusqlite::Connection;
use threadseal_core::error::Error;
use threadseal_store::sqlite::database::Database;

/// Version of our tables; a file of a later one is not touched. Version 1 had no holds.
const VERSION: i64 = 2;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS budget_ledger (
  thread_id TEXT PRIMARY KEY,
  parent_thread_id TEXT,
  reserved_spend REAL NOT NULL DEFAULT 0.0,
  actual_spend REAL NOT NULL DEFAULT 0.0,
  max_spend REAL,
  status TEXT NOT NULL DEFAULT 'active',
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  FOREIGN KEY (parent_thread_id) REFERENCES budget_ledger(thread_id) ON DELETE RESTRICT
);
CREATE INDEX IF NOT EXISTS idx_budget_parent ON budget_ledger(parent_thread_id);
CREATE INDEX IF NOT EXISTS idx_budget_status ON budget_ledger(status);
CREATE TABLE IF NOT EXISTS threadseal_schema (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS threadseal_budgets (
  thread_id TEXT PRIMARY KEY,
  max_nanos INTEGER NOT NULL,
  reserved_nanos INTEGER NOT NULL,
  actual_nanos INTEGER NOT NULL,
  own_nanos INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS threadseal_commits (
  thread_id TEXT NOT NULL,
  key TEXT NOT NULL,
  nanos INTEGER NOT NULL,
  PRIMARY KEY (thread_id, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS threadseal_holds (
  thread_id TEXT NOT NULL,
  key TEXT NOT NULL,
  nanos INTEGER NOT NULL,
  PRIMARY KEY (thread_id, key)
) WITHOUT ROWID;
DELETE FROM threadseal_schema;
INSERT INTO threadseal_schema (version) VALUES (2);";

/// Seed 001's name of `parent_thread_id`, by which readers find it, too.
const PARENT_COLUMN: &str = "
ALTER TABLE budget_ledger ADD COLUMN parent_id TEXT GENERATED ALWAYS AS (parent_thread_id) VIRTUAL;";

/// The columns that [`super::sqlite`] and [`super::inspect`] read: Rye's, then ours.
pub(super) const ROW: &str = "
SELECT b.thread_id, b.parent_thread_id, b.max_spend, b.reserved_spend, b.actual_spend, b.status,
       s.max_nanos, s.reserved_nanos, s.actual_nanos, s.own_nanos, s.thread_id,
       (SELECT SUM(MAX(h.nanos, 0)) FROM threadseal_holds h WHERE h.thread_id = b.thread_id)
FROM budget_ledger b LEFT JOIN threadseal_budgets s ON s.thread_id = b.thread_id";

/// The same for a file of version 1.
const ROW_WITHOUT_HOLDS: &str = "
SELECT b.thread_id, b.parent_thread_id, b.max_spend, b.reserved_spend, b.actual_spend, b.status,
       s.max_nanos, s.reserved_nanos, s.actual_nanos, s.own_nanos, s.thread_id, NULL
FROM budget_ledger b LEFT JOIN threadseal_budgets s ON s.thread_id = b.thread_id";

/// The same for a file that has only Rye's table.
const THEIR_ROW: &str = "
SELECT b.thread_id, b.parent_thread_id, b.max_spend, b.reserved_spend, b.actual_spend, b.status,
       NULL, NULL, NULL, NULL, NULL, NULL
FROM budget_ledger b";

/// The query of rows that suits the tables of a file.
pub(super) fn row_of(connection: &Connection) -> rusqlite::Result<&'static str> {
    let has = |name| has_table(connection, name);
    Ok(
        match (has("threadseal_budgets")?, has("threadseal_holds")?) {
            (true, true) => ROW,
            (true, false) => ROW_WITHOUT_HOLDS,
            (false, _) => THEIR_ROW,
        },
    )
}

/// The spent amounts that [`super::inspect`] reads, each once.
pub(super) const COMMITS: &str = "SELECT thread_id, nanos FROM threadseal_commits";

/// The amounts held for requests.
pub(super) const HOLDS: &str = "SELECT thread_id, nanos FROM threadseal_holds";

/// Our own rows of threads that Rye's table lacks.
pub(super) const STRAYS: &str = "
SELECT s.thread_id FROM threadseal_budgets s
LEFT JOIN budget_ledger b ON b.thread_id = s.thread_id WHERE b.thread_id IS NULL ORDER BY 1";

/// Creates the missing tables in one transaction.
pub(super) fn migrate(database: &Database) -> Result<(), Error> {
    let fail = |error| database.failed(&error);
    let current = |connection: &Connection| {
        Ok(version(connection)? == Some(VERSION) && has_parent_id(connection)?)
    };
    if database.read(|connection| current(connection).map_err(fail))? {
        return Ok(());
    }
    database.write(|transaction| match version(transaction).map_err(fail)? {
        Some(later) if later > VERSION => Err(Error::refused(format!(
            "a later ThreadSeal (tables of version {later}) wrote {}; hint: use that version",
            database.path().display()
        ))),
        _ => {
            transaction.execute_batch(TABLES).map_err(fail)?;
            match has_parent_id(transaction).map_err(fail)? {
                true => Ok(()),
                false => transaction.execute_batch(PARENT_COLUMN).map_err(fail),
            }
        }
    })
}

fn has_parent_id(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM pragma_table_xinfo('budget_ledger') WHERE name = 'parent_id'";
    connection.prepare(sql)?.exists([])
}

fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    if !has_table(connection, "threadseal_schema")? {
        return Ok(None);
    }
    let version = "SELECT MAX(version) FROM threadseal_schema";
    connection.query_row(version, [], |row| row.get(0))
}

pub(super) fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let mut found =
        connection.prepare("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1")?;
    found.exists([name])
}
