//! [`SqliteBudgets`]: the budgets of a project, in one SQLite file.

use super::{Budget, BudgetLedger, schema};
use crate::bounds::MAX_BUDGET_DEPTH;
use crate::money::Nanos;
use crate::registry::{count_of, real_of, text_of};
use crate::status::Status;
use rusqlite::{Connection, OptionalExtension, Row};
use std::path::Path;
use threadseal::error::Error;
use threadseal::record::ThreadId;
use threadseal::time::Timestamp;
use threadseal_store::database::Database;

/// Word of a budget that has not ended.
pub(super) const ACTIVE: &str = "active";

/// Budgets in an SQLite file.
#[derive(Debug)]
pub struct SqliteBudgets {
    database: Database,
}

impl SqliteBudgets {
    /// Opens the ledger at `path`, and makes it where there is none; the folder must exist.
    ///
    /// # Errors
    /// Kind `Refused` for a file that is damaged, no database, or a later version's; `External` when it
    /// cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let database = Database::open(path)?;
        schema::migrate(&database)?;
        Ok(Self { database })
    }

    fn write<T>(&self, work: impl FnOnce(&Books<'_>) -> Result<T, Failure>) -> Result<T, Error> {
        self.database.write(|transaction| {
            work(&Books(transaction)).map_err(|failure| match failure {
                Failure::Refused(message) => Error::refused(message),
                Failure::Sqlite(error) => self.database.failed(&error),
            })
        })
    }
}

/// Why a transaction is taken back.
enum Failure {
    Refused(String),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn refused<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Refused(message.into()))
}

impl BudgetLedger for SqliteBudgets {
    fn register(&self, root: &ThreadId, max: Nanos, at: Timestamp) -> Result<(), Error> {
        self.write(|books| books.open(root.as_str(), None, max, Nanos::ZERO, at))
    }

    fn reserve(
        &self,
        child: &ThreadId,
        parent: &ThreadId,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.write(|books| {
            let giver = books.known(parent.as_str())?;
            if !giver.is_active() {
                return refused(format!(
                    "the budget of {parent} has ended: {}",
                    giver.status
                ));
            }
            let remaining = books.remaining(&giver)?;
            if remaining < amount {
                return refused(format!(
                    "insufficient budget: {amount} dollars asked of {parent}, {remaining} remain"
                ));
            }
            books.open(child.as_str(), Some(parent.as_str()), amount, amount, at)
        })
    }

    fn commit(
        &self,
        thread: &ThreadId,
        key: &str,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<Budget, Error> {
        self.write(|books| {
            let mut entry = books.known(thread.as_str())?;
            if books.note(thread.as_str(), key, amount)? {
                entry.own = entry.own.saturating_add(amount);
                let mut line = books.ancestors(&entry)?;
                line.insert(0, entry);
                for entry in &mut line {
                    entry.actual = entry.actual.saturating_add(amount);
                    books.save(entry, at)?;
                }
                books.settle(&line, at)?;
            }
            let entry = books.known(thread.as_str())?;
            books.budget(entry)
        })
    }

    fn release(&self, thread: &ThreadId, end: Status, at: Timestamp) -> Result<Nanos, Error> {
        if !end.is_terminal() {
            return Err(Error::invalid(format!("{end} is no end of a thread")));
        }
        self.write(|books| {
            let entry = books.known(thread.as_str())?;
            if entry.status == end.as_str() {
                return Ok(Nanos::ZERO);
            }
            if !entry.is_active() {
                return refused(format!("the budget of {thread} ended as {}", entry.status));
            }
            books.end(entry, end.as_str(), at)
        })
    }

    fn transfer(&self, old: &ThreadId, new: &ThreadId, at: Timestamp) -> Result<Nanos, Error> {
        self.write(|books| {
            let entry = books.known(old.as_str())?;
            if !entry.is_active() {
                return refused(format!("the budget of {old} ended as {}", entry.status));
            }
            let parent = entry.parent.clone();
            let remaining = books.remaining(&entry)?;
            let freed = books.end(entry, Status::Continued.as_str(), at)?;
            // A child's ceiling may be above what was set aside for it, in rows of the original.
            let (max, reserved) = match parent {
                Some(_) => (remaining.min(freed), remaining.min(freed)),
                None => (remaining, Nanos::ZERO),
            };
            books.open(new.as_str(), parent.as_deref(), max, reserved, at)?;
            Ok(max)
        })
    }

    fn get(&self, thread: &ThreadId) -> Result<Option<Budget>, Error> {
        self.database.read(|connection| {
            let books = Books(connection);
            let found = books.find(thread.as_str()).and_then(|entry| match entry {
                Some(entry) => books.remaining(&entry).map(|left| Some(entry.shown(left))),
                None => Ok(None),
            });
            found.map_err(|error| self.database.failed(&error))
        })
    }
}

/// One row, in billionths whoever wrote it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) thread: String,
    pub(super) parent: Option<String>,
    pub(super) max: Option<Nanos>,
    pub(super) reserved: Nanos,
    pub(super) actual: Nanos,
    /// What the thread itself spent.
    pub(super) own: Nanos,
    pub(super) status: String,
    /// Does our table have it?
    pub(super) ours: bool,
}

impl Entry {
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
            status: text(5)?.unwrap_or_default(),
            ours: ours.is_some(),
        })
    }

    pub(super) fn is_active(&self) -> bool {
        self.status == ACTIVE
    }

    /// What is set aside and not spent. A child of the original tells its parent what it spent only when
    /// it ends, and is forgotten then.
    pub(super) fn outstanding(&self) -> Nanos {
        match (self.ours, self.is_active()) {
            (true, _) => self.reserved.saturating_sub(self.actual),
            (false, true) => self.reserved,
            (false, false) => Nanos::ZERO,
        }
    }

    fn shown(self, remaining: Nanos) -> Budget {
        Budget {
            parent: self.parent,
            max: self.max,
            reserved: self.reserved,
            actual: self.actual,
            remaining,
            status: self.status,
        }
    }
}

/// The ledger within one transaction.
struct Books<'c>(&'c Connection);

impl Books<'_> {
    fn find(&self, thread: &str) -> rusqlite::Result<Option<Entry>> {
        let sql = format!("{} WHERE b.thread_id = ?1", schema::ROW);
        let mut statement = self.0.prepare_cached(&sql)?;
        statement.query_row([thread], Entry::read).optional()
    }

    fn known(&self, thread: &str) -> Result<Entry, Failure> {
        match self.find(thread)? {
            Some(entry) => Ok(entry),
            None => refused(format!("{thread} has no budget")),
        }
    }

    fn budget(&self, entry: Entry) -> Result<Budget, Failure> {
        let remaining = self.remaining(&entry)?;
        Ok(entry.shown(remaining))
    }

    /// The outstanding of all children.
    fn promised(&self, entry: &Entry) -> rusqlite::Result<Nanos> {
        let sql = format!("{} WHERE b.parent_thread_id = ?1", schema::ROW);
        let mut statement = self.0.prepare_cached(&sql)?;
        let mut rows = statement.query([&entry.thread])?;
        let mut promised = Nanos::ZERO;
        while let Some(row) = rows.next()? {
            promised = promised.saturating_add(Entry::read(row)?.outstanding());
        }
        Ok(promised)
    }

    fn remaining(&self, entry: &Entry) -> rusqlite::Result<Nanos> {
        let spent = entry.actual.saturating_add(self.promised(entry)?);
        Ok(entry.max.unwrap_or_default().saturating_sub(spent))
    }

    /// All threads above `entry`, the nearest first.
    fn ancestors(&self, entry: &Entry) -> Result<Vec<Entry>, Failure> {
        let mut line: Vec<Entry> = Vec::new();
        let mut next = entry.parent.clone();
        while let Some(parent) = next {
            let passed = line.iter().any(|above| above.thread == parent);
            if passed || parent == entry.thread || line.len() >= MAX_BUDGET_DEPTH {
                return refused(format!(
                    "the budgets above {} lead in a circle",
                    entry.thread
                ));
            }
            // A parent that the original has removed takes no part any more.
            let Some(above) = self.find(&parent)? else {
                break;
            };
            next = above.parent.clone();
            line.push(above);
        }
        Ok(line)
    }

    /// Adds a row.
    fn open(
        &self,
        thread: &str,
        parent: Option<&str>,
        max: Nanos,
        reserved: Nanos,
        at: Timestamp,
    ) -> Result<(), Failure> {
        if self.find(thread)?.is_some() {
            return refused(format!("{thread} has a budget already"));
        }
        let at = at.to_python_text();
        self.0
            .prepare_cached(
                "INSERT INTO budget_ledger (thread_id, parent_thread_id, reserved_spend,
                   actual_spend, max_spend, status, created_at, updated_at)
                 VALUES (?1, ?2, ?3, 0.0, ?4, 'active', ?5, ?5)",
            )?
            .execute((thread, parent, reserved.to_real(), max.to_real(), at))?;
        self.0
            .prepare_cached("INSERT OR REPLACE INTO threadseal_budgets VALUES (?1, ?2, ?3, 0, 0)")?
            .execute((thread, max.to_i64(), reserved.to_i64()))?;
        Ok(())
    }

    /// Writes a row, and makes it ours.
    fn save(&self, entry: &Entry, at: Timestamp) -> rusqlite::Result<()> {
        let (reserved, actual) = (entry.reserved, entry.actual);
        self.0
            .prepare_cached(
                "UPDATE budget_ledger SET reserved_spend = ?2, actual_spend = ?3, status = ?4,
                   updated_at = ?5 WHERE thread_id = ?1",
            )?
            .execute((
                &entry.thread,
                reserved.to_real(),
                actual.to_real(),
                &entry.status,
                at.to_python_text(),
            ))?;
        self.0
            .prepare_cached(
                "INSERT OR REPLACE INTO threadseal_budgets VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((
                &entry.thread,
                entry.max.unwrap_or_default().to_i64(),
                reserved.to_i64(),
                actual.to_i64(),
                entry.own.to_i64(),
            ))?;
        Ok(())
    }

    /// Notes a spending; false when it was noted before.
    fn note(&self, thread: &str, key: &str, amount: Nanos) -> Result<bool, Failure> {
        let sql = "SELECT nanos FROM threadseal_commits WHERE thread_id = ?1 AND key = ?2";
        let mut statement = self.0.prepare_cached(sql)?;
        let known: Option<i64> = statement
            .query_row((thread, key), |row| row.get(0))
            .optional()?;
        match known {
            Some(known) if known == amount.to_i64() => Ok(false),
            Some(known) => refused(format!(
                "{thread} has spent {known} billionths under {key:?} already, not {}",
                amount.get()
            )),
            None => {
                self.0
                    .prepare_cached("INSERT INTO threadseal_commits VALUES (?1, ?2, ?3)")?
                    .execute((thread, key, amount.to_i64()))?;
                Ok(true)
            }
        }
    }

    /// Ends a budget and returns what goes back.
    fn end(&self, mut entry: Entry, status: &str, at: Timestamp) -> Result<Nanos, Failure> {
        let before = entry.outstanding();
        status.clone_into(&mut entry.status);
        entry.reserved = entry.actual.saturating_add(self.promised(&entry)?);
        entry.ours = true;
        let freed = before.saturating_sub(entry.outstanding());
        self.save(&entry, at)?;
        let line = self.ancestors(&entry)?;
        self.settle(&line, at)?;
        Ok(freed)
    }

    /// What ended threads of a line keep set aside: no more than their children still may spend.
    fn settle(&self, line: &[Entry], at: Timestamp) -> Result<(), Failure> {
        for entry in line.iter().filter(|entry| !entry.is_active()) {
            let mut entry = entry.clone();
            entry.reserved = entry.actual.saturating_add(self.promised(&entry)?);
            self.save(&entry, at)?;
        }
        Ok(())
    }
}
