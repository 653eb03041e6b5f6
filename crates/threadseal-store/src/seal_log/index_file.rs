//! [`IndexFile`]: the index of a log in SQLite.
//!
//! ```text
//! heads  record BLOB, seq INTEGER, at INTEGER     one row for each head in the tiles
//! state  indexed INTEGER                          entries that were taken in
//! ```
//! Another layout has another name: what a program of one version leaves out, one of another does not believe to be absent.

use super::contents::Contents;
use super::index::head_of;
use crate::database::Database;
use rusqlite::{Connection, OptionalExtension as _, Transaction};
use std::path::Path;
use threadseal::error::Error;
use threadseal::record::RecordId;

/// The name of the file.
pub(super) const FILE: &str = "heads-1.db";
/// The file of the layout before this one.
const EARLIER: &str = "index.db";
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS heads (
  record BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (record, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (indexed INTEGER NOT NULL);
INSERT INTO state (indexed) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM state);";
const IS_MADE: &str = "SELECT COUNT(*) = 2 FROM sqlite_master WHERE name IN ('heads', 'state')";
/// Entries that one transaction takes in.
const BATCH: u64 = 65_536;

/// An index in a file.
#[derive(Debug)]
pub(super) struct IndexFile {
    database: Database,
}

impl IndexFile {
    /// Opens the index at `path`, and makes an empty one where there is none.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let database = Database::open(path)?;
        let is_made = |connection: &Connection| {
            let made = connection.query_row(IS_MADE, [], |row| row.get::<_, bool>(0));
            made.map_err(|error| database.failed(&error))
        };
        if !database.read(is_made)? {
            database.write(|transaction| {
                let made = transaction.execute_batch(TABLES);
                made.map_err(|error| database.failed(&error))
            })?;
            forget_earlier(path);
        }
        Ok(Self { database })
    }

    fn indexed(&self) -> Result<u64, Error> {
        self.number("SELECT indexed FROM state", [])
            .map(Option::unwrap_or_default)
    }

    fn number(&self, sql: &str, values: impl rusqlite::Params) -> Result<Option<u64>, Error> {
        self.database.read(|connection| {
            let found = connection
                .prepare_cached(sql)
                .and_then(|mut statement| statement.query_row(values, |row| row.get(0)).optional());
            let found: Option<i64> = found.map_err(|error| self.database.failed(&error))?;
            Ok(found.and_then(|number| u64::try_from(number).ok()))
        })
    }

    fn numbers(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<u64>, Error> {
        self.database.read(|connection| {
            let all = connection.prepare_cached(sql).and_then(|mut statement| {
                let rows = statement.query_map(values, |row| row.get::<_, i64>(0))?;
                rows.collect::<Result<Vec<i64>, _>>()
            });
            let all = all.map_err(|error| self.database.failed(&error))?;
            let numbers = all.into_iter().filter_map(|at| u64::try_from(at).ok());
            Ok(numbers.collect())
        })
    }

    pub(super) fn catch_up(&mut self, contents: &Contents) -> Result<(), Error> {
        let mut indexed = self.indexed()?;
        if indexed > contents.base() {
            // Of another log, or of one that was put back: not to be mended, only to be made anew.
            return Err(Error::refused("the index is ahead of its log"));
        }
        while indexed < contents.base() {
            let until = contents.base().min(indexed + BATCH);
            self.database
                .write(|transaction| self.take(transaction, contents, indexed, until))?;
            indexed = until;
        }
        Ok(())
    }

    fn take(
        &self,
        transaction: &Transaction<'_>,
        contents: &Contents,
        from: u64,
        until: u64,
    ) -> Result<(), Error> {
        let fail = |error| self.database.failed(&error);
        // The first one of a number stands.
        let head_sql = "INSERT OR IGNORE INTO heads (record, seq, at) VALUES (?1, ?2, ?3)";
        contents.each_in_tiles(from, until, &mut |at, entry| {
            let Some((record, seq)) = head_of(entry) else {
                return Ok(());
            };
            let row = (record.as_bytes(), column(seq), column(at));
            let put = transaction.prepare_cached(head_sql);
            put.and_then(|mut put| put.execute(row))
                .map(drop)
                .map_err(fail)
        })?;
        let done = transaction.execute("UPDATE state SET indexed = ?1", [column(until)]);
        done.map(drop).map_err(fail)
    }

    pub(super) fn newest(&self, record: &RecordId, size: u64) -> Result<Option<u64>, Error> {
        let sql = "SELECT at FROM heads WHERE record = ?1 AND at < ?2 ORDER BY seq DESC LIMIT 1";
        self.number(sql, (record.as_bytes(), column(size)))
    }

    /// How many heads it holds.
    pub(super) fn count(&self) -> Result<u64, Error> {
        let count = self.number("SELECT COUNT(*) FROM heads", [])?;
        Ok(count.unwrap_or_default())
    }

    pub(super) fn all(&self, record: &RecordId) -> Result<Vec<u64>, Error> {
        let sql = "SELECT at FROM heads WHERE record = ?1 ORDER BY seq";
        self.numbers(sql, [record.as_bytes()])
    }

    pub(super) fn at(&self, record: &RecordId, seq: u64) -> Result<Option<u64>, Error> {
        let sql = "SELECT at FROM heads WHERE record = ?1 AND seq = ?2";
        self.number(sql, (record.as_bytes(), column(seq)))
    }
}

/// Removes what nobody reads any more; a program of that version makes it again.
fn forget_earlier(path: &Path) {
    for ending in ["", "-wal", "-shm"] {
        // What stays is in nobody's way.
        let _ = std::fs::remove_file(path.with_file_name(format!("{EARLIER}{ending}")));
    }
}

/// Numbers of entries and seals stay below 2^53.
fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
