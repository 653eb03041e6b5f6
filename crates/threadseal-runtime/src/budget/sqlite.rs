//! [`SqliteBudgets`]: the budgets of a project, in one SQLite file.

use super::books::{Books, Entry, Shelf};
use super::{Budget, BudgetLedger, Hold, schema};
use crate::money::{Nanos, Share};
use crate::registry::{count_of, real_of, text_of};
use crate::status::Status;
use rusqlite::{Connection, OptionalExtension, Row};
use std::io;
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;
use threadseal_store::sqlite::database::{self, Database};

/// Budgets in an SQLite file.
#[derive(Debug)]
pub struct SqliteBudgets {
    database: Database,
}

impl SqliteBudgets {
    /// Opens the ledger at `path`, and creates it where there is none; the folder must exist.
    ///
    /// # Errors
    /// Kind `Refused` for a file that is damaged, no database, or a later version's; `External`
    /// when it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let database = Database::open(path)?;
        schema::migrate(&database)?;
        Ok(Self { database })
    }

    fn write<T>(
        &self,
        work: impl FnOnce(&Books<Rows<'_>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let path = self.database.path();
        self.database
            .write(|connection| work(&Books(Rows::of(connection, path))))
    }
}

impl BudgetLedger for SqliteBudgets {
    fn register(&self, root: &ThreadId, max: Nanos, at: Timestamp) -> Result<(), Error> {
        self.write(|books| books.register(root, max, at))
    }

    fn reserve(
        &self,
        child: &ThreadId,
        parent: &ThreadId,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.write(|books| books.reserve(child, parent, amount, at))
    }

    fn reserve_share(
        &self,
        child: &ThreadId,
        parent: &ThreadId,
        most: Nanos,
        share: Share,
        at: Timestamp,
    ) -> Result<Nanos, Error> {
        self.write(|books| books.reserve_share(child, parent, most, share, at))
    }

    fn hold(
        &self,
        thread: &ThreadId,
        key: &str,
        least: Nanos,
        most: Nanos,
        _: Timestamp,
    ) -> Result<Option<Nanos>, Error> {
        self.write(|books| books.hold(thread, key, least, most))
    }

    fn charge_holds(&self, thread: &ThreadId, at: Timestamp) -> Result<Vec<Hold>, Error> {
        self.write(|books| books.charge_holds(thread, at))
    }

    fn commit(
        &self,
        thread: &ThreadId,
        key: &str,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<Budget, Error> {
        self.write(|books| books.commit(thread, key, amount, at))
    }

    fn settle(
        &self,
        thread: &ThreadId,
        key: &str,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<(), Error> {
        let path = self.database.path();
        let holds = |connection: &_| Rows::of(connection, path).holds(thread.as_str());
        let holds = self.database.read(holds)?;
        let mut holds = holds.iter().filter(|hold| hold.key == key);
        match holds.any(|hold| hold.nanos >= amount) {
            true => self.database.write_loosely(|connection| {
                let books = Books(Rows::of(connection, path));
                books.commit(thread, key, amount, at).map(drop)
            }),
            false => self.commit(thread, key, amount, at).map(drop),
        }
    }

    fn release(&self, thread: &ThreadId, end: Status, at: Timestamp) -> Result<Nanos, Error> {
        self.write(|books| books.release(thread, end, at))
    }

    fn transfer(&self, old: &ThreadId, new: &ThreadId, at: Timestamp) -> Result<Nanos, Error> {
        self.write(|books| books.transfer(old, new, at))
    }

    fn put_back(&self, thread: &ThreadId, right: &Budget, at: Timestamp) -> Result<(), Error> {
        self.write(|books| books.put_back(thread, right, at))
    }

    fn get(&self, thread: &ThreadId) -> Result<Option<Budget>, Error> {
        let path = self.database.path();
        self.database
            .read(|connection| Books(Rows::of(connection, path)).get(thread))
    }
}

impl SqliteBudgets {
    /// As [`BudgetLedger::get`], without writing: None where the file is missing or its creation is
    /// incomplete.
    ///
    /// # Errors
    /// Kind `Refused` for a file that is damaged, `External` when it cannot be read.
    pub fn view(path: &Path, thread: &ThreadId) -> Result<Option<Budget>, Error> {
        let found = std::fs::symlink_metadata(path);
        if found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        database::view(path, |connection| {
            let fail = |error| database::error_of(path, &error);
            if !schema::has_table(connection, "budget_ledger").map_err(fail)? {
                return Ok(None);
            }
            let row = schema::row_of(connection).map_err(fail)?;
            let rows = Rows {
                row,
                ..Rows::of(connection, path)
            };
            Books(rows).get(thread)
        })
    }
}

impl Entry {
    /// The row that [`schema::ROW`] selects.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let text = |column: usize| row.get_ref(column).map(text_of);
        let real = |column: usize| row.get_ref(column).map(real_of);
        let nanos = |column: usize| {
            row.get_ref(column)
                .map(|value| count_of(value).and_then(Nanos::new))
        };
        let ours = nanos(8)?;
        let actual = ours.or(real(4)?).unwrap_or_default();
        Ok(Self {
            thread: text(0)?.unwrap_or_default(),
            parent: text(1)?,
            max: nanos(6)?.or(real(2)?),
            reserved: nanos(7)?.or(real(3)?).unwrap_or_default(),
            actual,
            own: nanos(9)?.unwrap_or(actual),
            held: nanos(11)?.unwrap_or_default(),
            status: text(5)?.unwrap_or_default(),
            ours: ours.is_some(),
        })
    }
}

/// The tables within one transaction.
struct Rows<'c> {
    connection: &'c Connection,
    path: &'c Path,
    row: &'static str,
}

impl<'c> Rows<'c> {
    fn of(connection: &'c Connection, path: &'c Path) -> Self {
        Self {
            connection,
            path,
            row: schema::ROW,
        }
    }

    fn ask<T>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        question(self.connection).map_err(|error| database::error_of(self.path, &error))
    }

    fn put_ours(connection: &Connection, entry: &Entry) -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO threadseal_budgets VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((
                &entry.thread,
                entry.max.unwrap_or_default().to_i64(),
                entry.reserved.to_i64(),
                entry.actual.to_i64(),
                entry.own.to_i64(),
            ))
            .map(drop)
    }
}

impl Shelf for Rows<'_> {
    fn find(&self, thread: &str) -> Result<Option<Entry>, Error> {
        self.ask(|connection| {
            let sql = format!("{} WHERE b.thread_id = ?1", self.row);
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_row([thread], Entry::read).optional()
        })
    }

    fn children(&self, thread: &str) -> Result<Vec<Entry>, Error> {
        self.ask(|connection| {
            let sql = format!("{} WHERE b.parent_thread_id = ?1", self.row);
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_map([thread], Entry::read)?.collect()
        })
    }

    fn add(&self, entry: &Entry, at: Timestamp) -> Result<(), Error> {
        let max = entry.max.unwrap_or_default();
        self.ask(|connection| {
            connection
                .prepare_cached(
                    "INSERT INTO budget_ledger (thread_id, parent_thread_id, reserved_spend,
                       actual_spend, max_spend, status, created_at, updated_at)
                     VALUES (?1, ?2, ?3, 0.0, ?4, ?5, ?6, ?6)",
                )?
                .execute((
                    &entry.thread,
                    &entry.parent,
                    entry.reserved.to_real(),
                    max.to_real(),
                    &entry.status,
                    at.to_python_text(),
                ))?;
            Self::put_ours(connection, entry)
        })
    }

    fn reframe(&self, entry: &Entry) -> Result<(), Error> {
        self.ask(|connection| {
            let max = entry.max.unwrap_or_default().to_real();
            connection
                .prepare_cached(
                    "UPDATE budget_ledger SET parent_thread_id = ?2, max_spend = ?3
                     WHERE thread_id = ?1",
                )?
                .execute((&entry.thread, &entry.parent, max))
                .map(drop)
        })
    }

    fn save(&self, entry: &Entry, at: Timestamp) -> Result<(), Error> {
        self.ask(|connection| {
            connection
                .prepare_cached(
                    "UPDATE budget_ledger SET reserved_spend = ?2, actual_spend = ?3, status = ?4,
                       updated_at = ?5 WHERE thread_id = ?1",
                )?
                .execute((
                    &entry.thread,
                    entry.reserved.to_real(),
                    entry.actual.to_real(),
                    &entry.status,
                    at.to_python_text(),
                ))?;
            Self::put_ours(connection, entry)
        })
    }

    fn noted(&self, thread: &str, key: &str) -> Result<Option<Nanos>, Error> {
        let sql = "SELECT nanos FROM threadseal_commits WHERE thread_id = ?1 AND key = ?2";
        let known: Option<i64> = self.ask(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            statement
                .query_row((thread, key), |row| row.get(0))
                .optional()
        })?;
        known.map(Nanos::from_i64).transpose()
    }

    fn note(&self, thread: &str, key: &str, amount: Nanos) -> Result<(), Error> {
        let sql = "INSERT INTO threadseal_commits VALUES (?1, ?2, ?3)";
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            statement.execute((thread, key, amount.to_i64())).map(drop)
        })
    }

    fn holds(&self, thread: &str) -> Result<Vec<Hold>, Error> {
        let sql = "SELECT key, nanos FROM threadseal_holds WHERE thread_id = ?1 ORDER BY key";
        let found: Vec<(String, i64)> = self.ask(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map([thread], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })?;
        let hold = |(key, nanos)| Nanos::from_i64(nanos).map(|nanos| Hold { key, nanos });
        found.into_iter().map(hold).collect()
    }

    fn put_hold(&self, thread: &str, hold: &Hold) -> Result<(), Error> {
        let sql = "INSERT INTO threadseal_holds VALUES (?1, ?2, ?3)";
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let row = (thread, &hold.key, hold.nanos.to_i64());
            statement.execute(row).map(drop)
        })
    }

    fn drop_hold(&self, thread: &str, key: &str) -> Result<(), Error> {
        let sql = "DELETE FROM threadseal_holds WHERE thread_id = ?1 AND key = ?2";
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            statement.execute((thread, key)).map(drop)
        })
    }
}
