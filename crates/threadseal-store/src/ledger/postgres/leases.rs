//! [`Orders`]: work for many processes, each piece of it held by one of them under a [`Lease`].
//!
//! ```text
//! threadseal_orders   id, state ready | taken | done, task, result, token, holder, worker, expires_at
//!
//! put ─► ready ── take: token + 1, holder, expiry ─► taken ── finish ─► done
//!          ▲                                          │ │
//!          ├──────────── give up ─────────────────────┘ └─ expired: taken by the next, token + 1
//!          └──────────── reopen, with another task ───────────────────────────────── done
//!
//! withdraw   ready, or expired ─► done, where nothing of it began
//! wrest      whoever holds it ─► taken by somebody else, token + 1
//! ```
//! Everything that is written under a lease checks, in the same statement or transaction, that token and holder
//! are those of the row and that the lease has not expired by the clock of the database; it holds the row in share
//! mode until it commits. Taking an order over needs the row for itself, so nothing of an earlier holder is
//! committed after a takeover. A worker's own clock decides nothing.
//!
//! A token never falls: it stands in each seal of the records that are written under it, and a record refuses a
//! lower one (`fence_backwards`), whatever somebody makes of the row.

use super::database::{PostgresDatabase, Session, Value, cell};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use tokio_postgres::Row;

const VERSIONS: [&str; 1] = ["
CREATE TABLE threadseal_orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  state text NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'taken', 'done')),
  task text NOT NULL,
  result text,
  token bigint NOT NULL DEFAULT 0 CHECK (token >= 0),
  holder bytea,
  worker text,
  expires_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz
) WITH (fillfactor = 50);
CREATE INDEX threadseal_orders_open ON threadseal_orders (id) WHERE state <> 'done';
"];

const TAKE: &str = "
UPDATE threadseal_orders
SET state = 'taken', token = token + 1, holder = $1, worker = $2,
    expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
WHERE id = (
  SELECT id FROM threadseal_orders
  WHERE state = 'ready' OR (state = 'taken' AND expires_at <= clock_timestamp())
  ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, token, task";

const SEIZE: &str = "
WITH before AS (
  SELECT id, state, result FROM threadseal_orders
  WHERE id = $4 AND ($5 OR state <> 'taken' OR expires_at <= clock_timestamp()) FOR UPDATE)
UPDATE threadseal_orders o
SET state = 'taken', token = o.token + 1, holder = $1, worker = $2,
    expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
FROM before b WHERE o.id = b.id
RETURNING o.id, o.token, o.task, CASE b.state WHEN 'done' THEN coalesce(b.result, '') END";

const REOPEN: &str = "
UPDATE threadseal_orders SET state = 'ready', task = $3, result = NULL, expires_at = NULL, ended_at = NULL
WHERE id = $1 AND token = $2 AND state = 'done' RETURNING 1";

const WITHDRAW: &str = "
UPDATE threadseal_orders SET state = 'done', result = $3, expires_at = NULL, ended_at = clock_timestamp()
WHERE id = $1 AND token = $2 AND (state = 'ready' OR (state = 'taken' AND expires_at <= clock_timestamp()))
RETURNING 1";

/// The row of a lease that still holds, kept from whoever would take it over until the end of the transaction.
const HELD: &str = "
SELECT 1 FROM threadseal_orders
WHERE id = $1 AND token = $2 AND holder = $3 AND state = 'taken' AND expires_at > clock_timestamp()
FOR SHARE";

/// Work for many processes.
#[derive(Debug, Clone)]
pub struct Orders {
    database: PostgresDatabase,
}

/// One piece of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub id: i64,
    /// `ready`, `taken` or `done`.
    pub state: String,
    /// How often somebody took it.
    pub token: u64,
    /// Who holds it, or held it last.
    pub worker: Option<String>,
    /// What came of it.
    pub result: Option<String>,
}

/// An order that this process holds.
#[derive(Debug)]
pub struct Taken {
    /// The right to write.
    pub lease: Lease,
    /// What to do.
    pub task: String,
    /// What had come of it, where it was done already and was taken all the same.
    pub result: Option<String>,
}

/// The right to write what belongs to one order, until it expires or is taken over.
#[derive(Debug, Clone)]
pub struct Lease {
    database: PostgresDatabase,
    order: i64,
    token: i64,
    holder: [u8; 16],
}

impl Orders {
    /// The orders of a database; makes the table that it lacks.
    ///
    /// # Errors
    /// As [`PostgresDatabase::migrate`].
    pub fn open(database: &PostgresDatabase) -> Result<Self, Error> {
        database.migrate("orders", &VERSIONS)?;
        Ok(Self {
            database: database.clone(),
        })
    }

    /// Adds an order, and lets workers know.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the server fails; here and below.
    pub fn put(&self, task: &str) -> Result<i64, Error> {
        let sql = "INSERT INTO threadseal_orders (task) VALUES ($1) RETURNING id";
        let rows = self.database.once(sql, &[&task])?;
        let id = rows.first().map(|row| cell(row, 0)).transpose()?;
        self.database.tell()?;
        id.ok_or_else(|| Error::new(ErrorKind::External, "PostgreSQL gave no number"))
    }

    /// Takes the oldest order that waits, or whose holder let it expire; None when there is none.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn take(
        &self,
        worker: &str,
        holder: [u8; 16],
        lasts: Duration,
    ) -> Result<Option<Taken>, Error> {
        let rows = self
            .database
            .once(TAKE, &[&&holder[..], &worker, &micros(lasts)])?;
        rows.first()
            .map(|row| self.taken(row, holder, None))
            .transpose()
    }

    /// Takes this very order, wherever it stands; None when somebody holds it, or there is none. Whoever takes one
    /// that was done finishes it again.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn seize(
        &self,
        order: i64,
        worker: &str,
        holder: [u8; 16],
        lasts: Duration,
    ) -> Result<Option<Taken>, Error> {
        self.seize_as(order, worker, holder, lasts, false)
    }

    /// Takes this very order away from whoever holds it, as if his lease had expired; None when there is none. As
    /// with [`Orders::seize`], one that was done is to be finished again.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn wrest(
        &self,
        order: i64,
        worker: &str,
        holder: [u8; 16],
        lasts: Duration,
    ) -> Result<Option<Taken>, Error> {
        self.seize_as(order, worker, holder, lasts, true)
    }

    fn seize_as(
        &self,
        order: i64,
        worker: &str,
        holder: [u8; 16],
        lasts: Duration,
        by_force: bool,
    ) -> Result<Option<Taken>, Error> {
        let lasts = micros(lasts);
        let values: [Value<'_>; 5] = [&&holder[..], &worker, &lasts, &order, &by_force];
        let rows = self.database.once(SEIZE, &values)?;
        let taken = rows
            .first()
            .map(|row| self.taken(row, holder, cell(row, 3)?));
        taken.transpose()
    }

    fn taken(&self, row: &Row, holder: [u8; 16], result: Option<String>) -> Result<Taken, Error> {
        Ok(Taken {
            lease: Lease {
                database: self.database.clone(),
                order: cell(row, 0)?,
                token: cell(row, 1)?,
                holder,
            },
            task: cell(row, 2)?,
            result,
        })
    }

    /// Makes an order that is done, and that nobody took since its token was `token`, ready again with a new task;
    /// false when it is not so.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn reopen(&self, order: i64, token: u64, task: &str) -> Result<bool, Error> {
        let token = i64::try_from(token).unwrap_or(i64::MAX);
        let rows = self.database.once(REOPEN, &[&order, &token, &task])?;
        self.database.tell()?;
        Ok(!rows.is_empty())
    }

    /// Ends an order that nobody holds, and that nobody took since its token was `token`, with this result; false when
    /// it is not so.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn withdraw(&self, order: i64, token: u64, result: &str) -> Result<bool, Error> {
        let token = i64::try_from(token).unwrap_or(i64::MAX);
        let rows = self.database.once(WITHDRAW, &[&order, &token, &result])?;
        self.database.tell()?;
        Ok(!rows.is_empty())
    }

    /// Where an order stands.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn get(&self, order: i64) -> Result<Option<Standing>, Error> {
        let sql = "SELECT id, state, token, worker, result FROM threadseal_orders WHERE id = $1";
        self.database.read(|session| {
            let row = session.opt(sql, &[&order])?;
            row.as_ref().map(standing).transpose()
        })
    }

    /// How many orders are not done.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn open_orders(&self) -> Result<u64, Error> {
        let sql = "SELECT count(*) FROM threadseal_orders WHERE state <> 'done'";
        self.database
            .read(|session| Ok(unsigned(cell(&session.one(sql, &[])?, 0)?)))
    }
}

impl Lease {
    /// The number of its order.
    pub fn order(&self) -> i64 {
        self.order
    }

    /// The fencing token: how often the order was taken, this time included.
    pub fn token(&self) -> u64 {
        unsigned(self.token)
    }

    pub(super) fn holder(&self) -> &[u8] {
        &self.holder
    }

    /// The same lease in the hands of somebody else.
    #[cfg(test)]
    pub(super) fn held_by(&self, holder: [u8; 16]) -> Self {
        Self {
            holder,
            ..self.clone()
        }
    }

    /// Values of a statement that checks the lease: order, token, holder.
    pub(super) fn values(&self) -> (i64, i64, &[u8]) {
        (self.order, self.token, self.holder())
    }

    /// Checks it within a transaction, and keeps it from being taken over until that ends.
    ///
    /// # Errors
    /// [`ErrorKind::Superseded`] when it expired or another holds the order: whoever wrote under it must stop.
    pub fn guard(&self, session: &Session<'_>) -> Result<(), Error> {
        let (order, token, holder) = self.values();
        let held = session.opt(HELD, &[&order, &token, &holder])?;
        held.map(drop).ok_or_else(|| self.lost())
    }

    /// Does it hold?
    ///
    /// # Errors
    /// As [`Lease::guard`].
    pub fn check(&self) -> Result<(), Error> {
        let (order, token, holder) = self.values();
        let rows = self.database.once(HELD, &[&order, &token, &holder])?;
        match rows.is_empty() {
            false => Ok(()),
            true => Err(self.lost()),
        }
    }

    /// Holds it for `lasts` from now on.
    ///
    /// # Errors
    /// As [`Lease::guard`]: one that has expired is not renewed.
    pub fn renew(&self, lasts: Duration) -> Result<(), Error> {
        let set = "expires_at = clock_timestamp() + $4::bigint * interval '1 microsecond'";
        self.set(set, &[&micros(lasts)])
    }

    /// The work is done, with this result.
    ///
    /// # Errors
    /// As [`Lease::guard`].
    pub fn finish(&self, result: &str) -> Result<(), Error> {
        self.set(
            "state = 'done', result = $4, ended_at = clock_timestamp()",
            &[&result],
        )?;
        self.database.tell()
    }

    /// Somebody else may take it at once.
    ///
    /// # Errors
    /// As [`Lease::guard`].
    pub fn give_up(&self) -> Result<(), Error> {
        self.set("state = 'ready', expires_at = NULL", &[])?;
        self.database.tell()
    }

    fn set(&self, columns: &str, more: &[Value<'_>]) -> Result<(), Error> {
        let sql = format!(
            "UPDATE threadseal_orders SET {columns}
             WHERE id = $1 AND token = $2 AND holder = $3 AND state = 'taken'
               AND expires_at > clock_timestamp() RETURNING 1"
        );
        let (order, token, holder) = self.values();
        let mut values: Vec<Value<'_>> = vec![&order, &token, &holder];
        values.extend(more);
        match self.database.once(&sql, &values)?.is_empty() {
            false => Ok(()),
            true => Err(self.lost()),
        }
    }

    /// What whoever writes under it is told when it holds no more.
    pub(super) fn lost(&self) -> Error {
        Error::new(
            ErrorKind::Superseded,
            format!(
                "the lease of order {} (token {}) has expired or was taken over: nothing was written",
                self.order, self.token
            ),
        )
    }
}

fn standing(row: &Row) -> Result<Standing, Error> {
    Ok(Standing {
        id: cell(row, 0)?,
        state: cell(row, 1)?,
        token: unsigned(cell(row, 2)?),
        worker: cell(row, 3)?,
        result: cell(row, 4)?,
    })
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
