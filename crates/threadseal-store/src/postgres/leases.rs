//! [`Orders`]: work for many processes, each piece of it held by one of them under a [`Lease`].
//!
//! ```text
//! threadseal_orders   id, state ready | taken | done, task, result, token, holder, worker,
//!                     expires_at
//!
//! put ─► ready ── take: token + 1, holder, expiry ─► taken ── finish ─► done
//!          ▲                                          │ │
//!          ├──────────── give up ─────────────────────┘ └─ expired: taken by the next, token + 1
//!          └──────────── reopen, with another task ───────────────────────────────── done
//!
//! withdraw   ready, or expired ─► done, where nothing of it began
//! wrest      held by any worker ─► taken by another one, token + 1
//! ```
//! Each write under a lease checks it in the same statement or transaction. Token and holder must
//! be those of the row. The lease must not have expired by the clock of the database. The check
//! holds the row in share mode until the commit. A takeover of an order needs the row exclusively.
//! So no write of an earlier holder is committed after it. A worker's own clock decides nothing.
//!
//! A token never falls: each seal of the records written under it contains it. A record refuses a
//! lower token (`fence_backwards`), whatever is written into the row.

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

/// The row of a lease that still holds. The share lock keeps other processes from a takeover until
/// the end of the transaction.
const HELD: &str = "
SELECT 1 FROM threadseal_orders
WHERE id = $1 AND token = $2 AND holder = $3 AND state = 'taken' AND expires_at > clock_timestamp()
FOR SHARE";

/// Work for many processes.
#[derive(Debug, Clone)]
pub struct Orders {
    database: PostgresDatabase,
}

/// The state of one piece of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub id: i64,
    /// `ready`, `taken` or `done`.
    pub state: String,
    /// How often it was taken.
    pub token: u64,
    /// The worker that holds it, or held it last.
    pub worker: Option<String>,
    /// Its result.
    pub result: Option<String>,
}

/// An order that this process holds.
#[derive(Debug)]
pub struct Taken {
    /// The right to write.
    pub lease: Lease,
    /// The work to do.
    pub task: String,
    /// The earlier result of a finished order that was taken again.
    pub result: Option<String>,
}

/// The right to write the files of one order, until it expires or is taken over.
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

    /// Adds an order, and sends workers a hint.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the server fails; here and below.
    pub fn put(&self, task: &str) -> Result<i64, Error> {
        let sql = "INSERT INTO threadseal_orders (task) VALUES ($1) RETURNING id";
        let rows = self.database.once(sql, &[&task])?;
        let id = rows.first().map(|row| cell(row, 0)).transpose()?;
        self.database.tell()?;
        id.ok_or_else(|| Error::new(ErrorKind::External, "PostgreSQL returned no number"))
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

    /// Takes this very order in any state; None when a process holds it, or there is none. The new
    /// holder of a finished order finishes it again.
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

    /// Takes this very order away from its holder, as if the lease had expired; None when there is
    /// none. As with [`Orders::seize`], the new holder finishes a finished order again.
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

    /// Makes a finished order ready again with a new task. False if it is not finished, or was
    /// taken since its token was `token`.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn reopen(&self, order: i64, token: u64, task: &str) -> Result<bool, Error> {
        let token = i64::try_from(token).unwrap_or(i64::MAX);
        let rows = self.database.once(REOPEN, &[&order, &token, &task])?;
        self.database.tell()?;
        Ok(!rows.is_empty())
    }

    /// Ends an order that no process holds, with this result. False if a process holds it, or it
    /// was taken since its token was `token`.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn withdraw(&self, order: i64, token: u64, result: &str) -> Result<bool, Error> {
        let token = i64::try_from(token).unwrap_or(i64::MAX);
        let rows = self.database.once(WITHDRAW, &[&order, &token, &result])?;
        self.database.tell()?;
        Ok(!rows.is_empty())
    }

    /// The state of an order.
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

    /// The number of unfinished orders.
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

    /// The same lease with another holder.
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

    /// Checks it within a transaction, and prevents a takeover until that ends.
    ///
    /// # Errors
    /// [`ErrorKind::Superseded`] when it expired or another holds the order: the writer under it
    /// must stop.
    pub fn guard(&self, session: &Session<'_>) -> Result<(), Error> {
        let (order, token, holder) = self.values();
        let held = session.opt(HELD, &[&order, &token, &holder])?;
        held.map(drop).ok_or_else(|| self.lost())
    }

    /// Checks that it still holds.
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

    /// Marks the work as done, with this result.
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

    /// Gives the order back: another process may take it at once.
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

    /// The error for a writer whose lease holds no more.
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
