//! [`IndexFile`]: the index of a log in SQLite.
//!
//! ```text
//! heads  record BLOB, seq INTEGER, at INTEGER     one row for each head in the tiles
//! forks  record BLOB, at INTEGER                  one row for each entry in the tiles that calls a record forked
//! state  indexed INTEGER                          entries that were taken in
//! ```

use super::contents::Contents;
use super::forks::fork_of;
use super::index::Indexed;
use crate::database::Database;
use rusqlite::{OptionalExtension as _, Transaction};
use std::path::Path;
use threadseal::error::Error;
use threadseal::record::RecordId;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS heads (
  record BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (record, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS forks (
  record BLOB NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (record, at)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (indexed INTEGER NOT NULL);
INSERT INTO state (indexed) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM state);";
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
        let there = database.read(|connection| {
            let sql =
                "SELECT COUNT(*) = 3 FROM sqlite_master WHERE name IN ('heads', 'forks', 'state')";
            let there = connection.query_row(sql, [], |row| row.get::<_, bool>(0));
            there.map_err(|error| database.failed(&error))
        })?;
        if !there {
            database.write(|transaction| {
                let made = transaction.execute_batch(TABLES);
                made.map_err(|error| database.failed(&error))
            })?;
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
        let sql = "INSERT OR IGNORE INTO heads (record, seq, at) VALUES (?1, ?2, ?3)";
        contents.each_in_tiles(from, until, &mut |at, entry| {
            if let Some(head) = Indexed::of(at, entry) {
                let row = (head.record.as_bytes(), column(head.seq), column(at));
                let put = transaction
                    .prepare_cached(sql)
                    .and_then(|mut put| put.execute(row));
                put.map_err(fail)?;
            } else if let Some(record) = fork_of(entry) {
                let sql = "INSERT OR IGNORE INTO forks (record, at) VALUES (?1, ?2)";
                let put = transaction.execute(sql, (record.as_bytes(), column(at)));
                put.map_err(fail)?;
            }
            Ok(())
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
        self.numbers(
            "SELECT at FROM heads WHERE record = ?1 ORDER BY seq",
            record,
        )
    }

    pub(super) fn forks(&self, record: &RecordId) -> Result<Vec<u64>, Error> {
        self.numbers("SELECT at FROM forks WHERE record = ?1 ORDER BY at", record)
    }

    fn numbers(&self, sql: &str, record: &RecordId) -> Result<Vec<u64>, Error> {
        self.database.read(|connection| {
            let all = connection.prepare_cached(sql).and_then(|mut statement| {
                let rows = statement.query_map([record.as_bytes()], |row| row.get::<_, i64>(0))?;
                rows.collect::<Result<Vec<i64>, _>>()
            });
            let all = all.map_err(|error| self.database.failed(&error))?;
            Ok(all
                .into_iter()
                .filter_map(|at| u64::try_from(at).ok())
                .collect())
        })
    }

    pub(super) fn at(&self, record: &RecordId, seq: u64) -> Result<Option<u64>, Error> {
        let sql = "SELECT at FROM heads WHERE record = ?1 AND seq = ?2";
        self.number(sql, (record.as_bytes(), column(seq)))
    }
}

/// Numbers of entries and seals stay below 2^53.
fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
