//! [`IndexFile`]: the index of a log in SQLite.
//!
//! ```text
//! heads  record BLOB, seq INTEGER, at INTEGER     one row for each head in the tiles
//! forks  record BLOB, at INTEGER                  one row for each entry in the tiles that calls a record forked
//! keys   at INTEGER                               one row for each entry in which a key speaks
//! state  indexed INTEGER                          entries that were taken in
//! ```
//! A file that lacks one of these tables is of an earlier version, and made anew.

use super::contents::Contents;
use super::index::Indexed;
use crate::database::Database;
use rusqlite::{Connection, OptionalExtension as _, Transaction};
use std::path::Path;
use threadseal::error::Error;
use threadseal::record::RecordId;

const TABLES: &str = "
DROP TABLE IF EXISTS heads;
DROP TABLE IF EXISTS forks;
DROP TABLE IF EXISTS keys;
DROP TABLE IF EXISTS state;
CREATE TABLE heads (
  record BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (record, seq)
) WITHOUT ROWID;
CREATE TABLE forks (
  record BLOB NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (record, at)
) WITHOUT ROWID;
CREATE TABLE keys (at INTEGER PRIMARY KEY);
CREATE TABLE state (indexed INTEGER NOT NULL);
INSERT INTO state (indexed) VALUES (0);";
const IS_WHOLE: &str =
    "SELECT COUNT(*) = 4 FROM sqlite_master WHERE name IN ('heads', 'forks', 'keys', 'state')";
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
        let is_whole = |connection: &Connection| {
            let whole = connection.query_row(IS_WHOLE, [], |row| row.get::<_, bool>(0));
            whole.map_err(|error| database.failed(&error))
        };
        if !database.read(is_whole)? {
            database.write(|transaction| {
                // Another process may have made it meanwhile.
                if is_whole(transaction)? {
                    return Ok(());
                }
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
        let key_sql = "INSERT OR IGNORE INTO keys (at) VALUES (?1)";
        contents.each_in_tiles(from, until, &mut |at, entry| {
            let put = match Indexed::of(entry) {
                Some(Indexed::Head { record, seq }) => {
                    let row = (record.as_bytes(), column(seq), column(at));
                    let put = transaction.prepare_cached(head_sql);
                    put.and_then(|mut put| put.execute(row))
                }
                Some(Indexed::Fork { record }) => {
                    let sql = "INSERT OR IGNORE INTO forks (record, at) VALUES (?1, ?2)";
                    transaction.execute(sql, (record.as_bytes(), column(at)))
                }
                Some(Indexed::KeyEvent) => {
                    let put = transaction.prepare_cached(key_sql);
                    put.and_then(|mut put| put.execute([column(at)]))
                }
                None => return Ok(()),
            };
            put.map(drop).map_err(fail)
        })?;
        let done = transaction.execute("UPDATE state SET indexed = ?1", [column(until)]);
        done.map(drop).map_err(fail)
    }

    pub(super) fn newest(&self, record: &RecordId, size: u64) -> Result<Option<u64>, Error> {
        let sql = "SELECT at FROM heads WHERE record = ?1 AND at < ?2 ORDER BY seq DESC LIMIT 1";
        self.number(sql, (record.as_bytes(), column(size)))
    }

    /// How many heads, forks and words of keys it holds.
    pub(super) fn count(&self) -> Result<u64, Error> {
        let sql = "SELECT (SELECT COUNT(*) FROM heads) + (SELECT COUNT(*) FROM forks) + (SELECT COUNT(*) FROM keys)";
        Ok(self.number(sql, [])?.unwrap_or_default())
    }

    pub(super) fn key_events(&self) -> Result<Vec<u64>, Error> {
        self.numbers("SELECT at FROM keys ORDER BY at", [])
    }

    pub(super) fn all(&self, record: &RecordId) -> Result<Vec<u64>, Error> {
        let sql = "SELECT at FROM heads WHERE record = ?1 ORDER BY seq";
        self.numbers(sql, [record.as_bytes()])
    }

    pub(super) fn forks(&self, record: &RecordId) -> Result<Vec<u64>, Error> {
        let sql = "SELECT at FROM forks WHERE record = ?1 ORDER BY at";
        self.numbers(sql, [record.as_bytes()])
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
