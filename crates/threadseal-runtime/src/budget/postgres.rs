//! [`PostgresBudgets`]: the budgets of many machines, in one PostgreSQL database.
//!
//! ```text
//! threadseal_budgets   thread_id, parent_thread_id, max_nanos, reserved_nanos, actual_nanos,
//!                      own_nanos, status, created_at, updated_at
//! threadseal_commits   thread_id, key, nanos
//! threadseal_holds     thread_id, key, nanos
//! ```
//! Each step locks the root of its tree first. So no two steps of one tree run at once, and no two
//! steps deadlock. For a writer under a lease, the same transaction checks the lease.

use super::books::{Books, Entry, Shelf};
use super::inspect;
use super::{Budget, BudgetLedger, Hold};
use crate::bounds::{MAX_BUDGET_DEPTH, MAX_INSPECTED_ROWS};
use crate::money::{Nanos, Share};
use crate::registry::{Activity, Inspection};
use crate::status::Status;
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;
use threadseal_store::postgres::leases::Lease;
use threadseal_store::postgres::{PostgresDatabase, Session, cell};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

const VERSIONS: [&str; 3] = [
    "
CREATE TABLE threadseal_budgets (
  thread_id text COLLATE \"C\" PRIMARY KEY,
  parent_thread_id text COLLATE \"C\",
  max_nanos bigint NOT NULL CHECK (max_nanos >= 0),
  reserved_nanos bigint NOT NULL CHECK (reserved_nanos >= 0),
  actual_nanos bigint NOT NULL CHECK (actual_nanos >= 0),
  own_nanos bigint NOT NULL CHECK (own_nanos >= 0),
  status text NOT NULL,
  created_at text NOT NULL,
  updated_at text NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX threadseal_budgets_parent ON threadseal_budgets (parent_thread_id);
CREATE TABLE threadseal_commits (
  thread_id text COLLATE \"C\" NOT NULL,
  key text COLLATE \"C\" NOT NULL,
  nanos bigint NOT NULL CHECK (nanos >= 0),
  PRIMARY KEY (thread_id, key)
);
",
    "
CREATE TABLE threadseal_holds (
  thread_id text COLLATE \"C\" NOT NULL,
  key text COLLATE \"C\" NOT NULL,
  nanos bigint NOT NULL CHECK (nanos >= 0),
  PRIMARY KEY (thread_id, key)
);
",
    "
ALTER TABLE threadseal_budgets ADD COLUMN parent_id text COLLATE \"C\"
  GENERATED ALWAYS AS (parent_thread_id) STORED;
",
];

const ROW: &str = "
SELECT thread_id, parent_thread_id, max_nanos, reserved_nanos, actual_nanos, own_nanos, status,
  (SELECT coalesce(sum(h.nanos), 0)::bigint FROM threadseal_holds h
   WHERE h.thread_id = threadseal_budgets.thread_id)
FROM threadseal_budgets";

/// Locks the uppermost thread above `$1`; `$2` bounds the way.
const LOCK_ROOT: &str = "
WITH RECURSIVE line (thread_id, parent_thread_id, height) AS (
  SELECT thread_id, parent_thread_id, 0 FROM threadseal_budgets WHERE thread_id = $1
  UNION ALL
  SELECT b.thread_id, b.parent_thread_id, line.height + 1
  FROM threadseal_budgets b JOIN line ON b.thread_id = line.parent_thread_id
  WHERE line.height < $2)
SELECT 1 FROM threadseal_budgets
WHERE thread_id = (SELECT thread_id FROM line ORDER BY height DESC LIMIT 1) FOR UPDATE";

/// Budgets in a PostgreSQL database.
#[derive(Debug, Clone)]
pub struct PostgresBudgets {
    database: PostgresDatabase,
    lease: Option<Lease>,
    activity: Arc<Activity>,
}

impl PostgresBudgets {
    /// Opens the budgets of a database, creating missing tables; with a lease, each step checks it.
    ///
    /// # Errors
    /// As [`PostgresDatabase::migrate`].
    pub fn open(database: &PostgresDatabase, lease: Option<Lease>) -> Result<Self, Error> {
        database.migrate("budgets", &VERSIONS)?;
        Ok(Self {
            database: database.clone(),
            lease,
            activity: Arc::default(),
        })
    }

    /// The same, which counts in `activity` what is paid through it.
    #[must_use]
    pub fn counting(self, activity: &Arc<Activity>) -> Self {
        Self {
            activity: Arc::clone(activity),
            ..self
        }
    }

    /// Finds contradictions in them, as [`super::inspect`] does for a file.
    ///
    /// # Errors
    /// Kind `Limit` above [`MAX_INSPECTED_ROWS`], `External` when the server fails.
    pub fn inspect(&self) -> Result<Inspection, Error> {
        let most = i64::try_from(MAX_INSPECTED_ROWS).unwrap_or(i64::MAX);
        let sql = format!("{ROW} ORDER BY thread_id LIMIT $1");
        let rows = self.database.read(|session| {
            let rows = session.query(&sql, &[&most.saturating_add(1)])?;
            rows.iter().map(inspected).collect::<Result<Vec<_>, _>>()
        })?;
        inspect::inspect_rows(rows, self.database.place())
    }

    fn write<T>(
        &self,
        thread: &ThreadId,
        work: impl Fn(&Books<Rows<'_>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let height = i32::try_from(MAX_BUDGET_DEPTH).unwrap_or(i32::MAX);
        self.database.write(|session| {
            if let Some(lease) = &self.lease {
                lease.guard(session)?;
            }
            session.query(LOCK_ROOT, &[&thread.as_str(), &height])?;
            work(&Books(Rows(session)))
        })
    }
}

impl BudgetLedger for PostgresBudgets {
    fn register(&self, root: &ThreadId, max: Nanos, at: Timestamp) -> Result<(), Error> {
        self.write(root, |books| books.register(root, max, at))
    }

    fn reserve(
        &self,
        child: &ThreadId,
        parent: &ThreadId,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.write(parent, |books| books.reserve(child, parent, amount, at))
    }

    fn reserve_share(
        &self,
        child: &ThreadId,
        parent: &ThreadId,
        most: Nanos,
        share: Share,
        at: Timestamp,
    ) -> Result<Nanos, Error> {
        self.write(parent, |books| {
            books.reserve_share(child, parent, most, share, at)
        })
    }

    fn hold(
        &self,
        thread: &ThreadId,
        key: &str,
        least: Nanos,
        most: Nanos,
        _: Timestamp,
    ) -> Result<Option<Nanos>, Error> {
        self.write(thread, |books| books.hold(thread, key, least, most))
    }

    fn charge_holds(&self, thread: &ThreadId, at: Timestamp) -> Result<Vec<Hold>, Error> {
        self.write(thread, |books| books.charge_holds(thread, at))
    }

    fn commit(
        &self,
        thread: &ThreadId,
        key: &str,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<Budget, Error> {
        let budget = self.write(thread, |books| books.commit(thread, key, amount, at))?;
        self.activity.paid(amount);
        Ok(budget)
    }

    fn release(&self, thread: &ThreadId, end: Status, at: Timestamp) -> Result<Nanos, Error> {
        self.write(thread, |books| books.release(thread, end, at))
    }

    fn transfer(&self, old: &ThreadId, new: &ThreadId, at: Timestamp) -> Result<Nanos, Error> {
        self.write(old, |books| books.transfer(old, new, at))
    }

    fn put_back(&self, thread: &ThreadId, right: &Budget, at: Timestamp) -> Result<(), Error> {
        self.write(thread, |books| books.put_back(thread, right, at))
    }

    fn get(&self, thread: &ThreadId) -> Result<Option<Budget>, Error> {
        self.database
            .read(|session| Books(Rows(session)).get(thread))
    }
}

/// The tables within one transaction.
struct Rows<'s>(&'s Session<'s>);

impl Shelf for Rows<'_> {
    fn find(&self, thread: &str) -> Result<Option<Entry>, Error> {
        let row = self
            .0
            .opt(&format!("{ROW} WHERE thread_id = $1"), &[&thread])?;
        row.as_ref().map(entry).transpose()
    }

    fn children(&self, thread: &str) -> Result<Vec<Entry>, Error> {
        let sql = format!("{ROW} WHERE parent_thread_id = $1");
        self.0.query(&sql, &[&thread])?.iter().map(entry).collect()
    }

    fn add(&self, entry: &Entry, at: Timestamp) -> Result<(), Error> {
        self.0
            .execute(
                "INSERT INTO threadseal_budgets VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8)",
                &[
                    &entry.thread,
                    &entry.parent,
                    &entry.max.unwrap_or_default().to_i64(),
                    &entry.reserved.to_i64(),
                    &entry.actual.to_i64(),
                    &entry.own.to_i64(),
                    &entry.status,
                    &at.to_python_text(),
                ],
            )
            .map(drop)
    }

    fn reframe(&self, entry: &Entry) -> Result<(), Error> {
        let sql = "UPDATE threadseal_budgets SET parent_thread_id = $2 WHERE thread_id = $1";
        let row: [&(dyn ToSql + Sync); 2] = [&entry.thread, &entry.parent];
        self.0.execute(sql, &row).map(drop)
    }

    fn save(&self, entry: &Entry, at: Timestamp) -> Result<(), Error> {
        self.0
            .execute(
                "UPDATE threadseal_budgets SET max_nanos = $2, reserved_nanos = $3, actual_nanos = $4,
                   own_nanos = $5, status = $6, updated_at = $7 WHERE thread_id = $1",
                &[
                    &entry.thread,
                    &entry.max.unwrap_or_default().to_i64(),
                    &entry.reserved.to_i64(),
                    &entry.actual.to_i64(),
                    &entry.own.to_i64(),
                    &entry.status,
                    &at.to_python_text(),
                ],
            )
            .map(drop)
    }

    fn noted(&self, thread: &str, key: &str) -> Result<Option<Nanos>, Error> {
        let sql = "SELECT nanos FROM threadseal_commits WHERE thread_id = $1 AND key = $2";
        let row = self.0.opt(sql, &[&thread, &key])?;
        row.map(|row| Nanos::from_i64(cell(&row, 0)?)).transpose()
    }

    fn note(&self, thread: &str, key: &str, amount: Nanos) -> Result<(), Error> {
        let sql = "INSERT INTO threadseal_commits VALUES ($1, $2, $3)";
        self.0
            .execute(sql, &[&thread, &key, &amount.to_i64()])
            .map(drop)
    }

    fn holds(&self, thread: &str) -> Result<Vec<Hold>, Error> {
        let sql = "SELECT key, nanos FROM threadseal_holds WHERE thread_id = $1 ORDER BY key";
        let rows = self.0.query(sql, &[&thread])?;
        let hold = |row| {
            Ok(Hold {
                key: cell(row, 0)?,
                nanos: Nanos::from_i64(cell(row, 1)?)?,
            })
        };
        rows.iter().map(hold).collect()
    }

    fn put_hold(&self, thread: &str, hold: &Hold) -> Result<(), Error> {
        let sql = "INSERT INTO threadseal_holds VALUES ($1, $2, $3)";
        let row: [&(dyn ToSql + Sync); 3] = [&thread, &hold.key, &hold.nanos.to_i64()];
        self.0.execute(sql, &row).map(drop)
    }

    fn drop_hold(&self, thread: &str, key: &str) -> Result<(), Error> {
        let sql = "DELETE FROM threadseal_holds WHERE thread_id = $1 AND key = $2";
        self.0.execute(sql, &[&thread, &key]).map(drop)
    }
}

/// Reads a row as stored; a negative amount counts as zero, and its name is returned.
fn inspected(row: &Row) -> Result<(Entry, Vec<&'static str>), Error> {
    let amount = |column: usize| -> Result<i64, Error> { cell(row, column) };
    let nanos = |column: usize| Nanos::from_i64(amount(column)?.max(0));
    let named = [
        (2, "max_nanos"),
        (3, "reserved_nanos"),
        (4, "actual_nanos"),
        (5, "own_nanos"),
    ];
    let mut below = Vec::new();
    for (column, name) in named {
        if amount(column)? < 0 {
            below.push(name);
        }
    }
    let entry = Entry {
        thread: cell(row, 0)?,
        parent: cell(row, 1)?,
        max: Some(nanos(2)?),
        reserved: nanos(3)?,
        actual: nanos(4)?,
        own: nanos(5)?,
        held: nanos(7)?,
        status: cell(row, 6)?,
        ours: true,
    };
    Ok((entry, below))
}

fn entry(row: &Row) -> Result<Entry, Error> {
    let nanos = |column: usize| Nanos::from_i64(cell(row, column)?);
    Ok(Entry {
        thread: cell(row, 0)?,
        parent: cell(row, 1)?,
        max: Some(nanos(2)?),
        reserved: nanos(3)?,
        actual: nanos(4)?,
        own: nanos(5)?,
        held: nanos(7)?,
        status: cell(row, 6)?,
        ours: true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{self, at, id, usd};
    use super::*;
    use threadseal_store::postgres::throwaway::Cluster;

    #[test]
    fn budgets_in_postgres_do_what_all_must_do() {
        let Some(cluster) = Cluster::shared() else {
            return;
        };
        conformance::all(|| {
            let database = PostgresDatabase::open(&cluster.fresh()).unwrap();
            PostgresBudgets::open(&database, None).unwrap()
        });
    }

    // T-FLT-18
    #[test]
    fn many_machines_never_reserve_or_spend_more_than_there_is() {
        let Some(cluster) = Cluster::shared() else {
            return;
        };
        let url = cluster.fresh();
        let open = || PostgresBudgets::open(&PostgresDatabase::open(&url).unwrap(), None).unwrap();
        let ledger = open();
        ledger.register(&id("root"), usd("1"), at(0)).unwrap();
        let won: u64 = std::thread::scope(|scope| {
            let racer = |racer: u32| {
                let open = &open;
                scope.spawn(move || {
                    let ledger = open();
                    let mut won = 0;
                    for turn in 0..10 {
                        let child = id(&format!("child-{racer}-{turn}"));
                        if ledger
                            .reserve(&child, &id("root"), usd("0.07"), at(1))
                            .is_ok()
                        {
                            won += 1;
                            ledger.commit(&child, "1", usd("0.03"), at(2)).unwrap();
                            ledger.commit(&child, "1", usd("0.03"), at(2)).unwrap();
                            if turn % 2 == 0 {
                                ledger.release(&child, Status::Completed, at(3)).unwrap();
                            }
                        }
                    }
                    won
                })
            };
            let racers: Vec<_> = (0..4).map(racer).collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).sum()
        });
        let root = ledger.get(&id("root")).unwrap().unwrap();
        assert_eq!(root.actual.get(), won * 30_000_000);
        assert!(root.actual <= root.max.unwrap());
        assert!(root.remaining < usd("0.07"), "{root:?}");
    }
}
