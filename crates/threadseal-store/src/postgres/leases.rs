//! [`Orders`]: work for many processes, each piece of it held by one of them under a [`Lease`].
//!
//! ```text
//! threadseal_orders   id, state ready | taken | done, task, result, token, holder, worker,
//!                     expires_at, aside, ready_at, failures
//!
//! put ─► ready ── take: token + 1, holder, expiry ─► taken ── finish ─► done
//!          ▲                                          │ │
//!          ├──────────── give up ─────────────────────┘ └─ expired: taken by the next, token + 1
//!          └──────────── reopen, with another task ───────────────────────────────── done
//!
//! reserve ─► taken, without a task, which is written under the lease
//! withdraw   ready, or expired ─► done, where nothing of it began
//! wrest      held by any worker ─► taken by another one, token + 1
//! set aside  a row that makes no sense ─► done, `aside` gives the reason
//! ```
//! Each write under a lease checks it in the same statement or transaction. Token and holder must
//! be those of the row. The lease must not have expired by the clock of the database. The check
//! holds the row in share mode until the commit. A takeover of an order needs the row exclusively.
//! So no write of an earlier holder is committed after it. A worker's own clock decides nothing.
//!
//! An attacker who can write the table can write any row. So no text of a row is read before its size is
//! known, and a row that cannot be taken stops no worker: it is listed as unusable and set aside.
//!
//! A token never falls: each seal of the records written under it contains it. A record refuses a
//! lower token (`fence_backwards`), whatever is written into the row.

use super::database::{PostgresDatabase, Session, Value, cell};
use super::hint::Channel;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use tokio_postgres::Row;

/// Longest task in bytes: a longer one is not read.
pub const MAX_TASK_BYTES: usize = 1 << 20;
/// Longest result of an order that is read, in bytes.
const MAX_RESULT_BYTES: i32 = 64 << 10;
/// From this token on an order is not taken: the next one would not fit.
const MAX_TOKEN: i64 = i64::MAX - 1;
/// [`MAX_TASK_BYTES`] as the server counts.
const MAX_TASK: i32 = 1 << 20;
/// Most unusable rows that are listed at once.
const MAX_UNUSABLE: i64 = 100;

const VERSIONS: [&str; 3] = [
    "
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
",
    "
ALTER TABLE threadseal_orders ADD COLUMN aside text;
",
    "
ALTER TABLE threadseal_orders ADD COLUMN ready_at timestamptz NOT NULL DEFAULT now();
ALTER TABLE threadseal_orders ADD COLUMN failures integer NOT NULL DEFAULT 0;
CREATE INDEX threadseal_orders_aside ON threadseal_orders (id) WHERE aside IS NOT NULL;
",
];

const TAKE: &str = "
UPDATE threadseal_orders
SET state = 'taken', token = token + 1, holder = $1, worker = $2,
    expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
WHERE id = (
  SELECT id FROM threadseal_orders
  WHERE ((state = 'ready' AND ready_at <= clock_timestamp())
      OR (state = 'taken' AND expires_at <= clock_timestamp()))
    AND aside IS NULL AND token < $4 AND octet_length(task) <= $5 AND id <> ALL($6)
  ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, token, task, coalesce(state = 'taken' AND holder = $1 AND expires_at > clock_timestamp(), false)";

/// The open rows that [`TAKE`] never takes, with what is wrong with each.
const UNUSABLE: &str = "
SELECT id, CASE
  WHEN token IS NULL OR token >= $1 THEN 'its token cannot rise'
  WHEN task IS NULL THEN 'it has no task'
  WHEN octet_length(task) > $2 THEN 'its task is longer than ' || $2::int || ' bytes'
  ELSE 'its state is none' END
FROM threadseal_orders
WHERE state <> 'done' AND aside IS NULL AND id <> ALL($3)
  AND NOT coalesce(state IN ('ready', 'taken') AND token < $1 AND octet_length(task) <= $2, false)
ORDER BY id LIMIT $4";

const SET_ASIDE: &str = "
UPDATE threadseal_orders
SET state = 'done', aside = $2, result = $3, expires_at = NULL, ended_at = clock_timestamp()
WHERE id = $1 AND state IS DISTINCT FROM 'done' RETURNING 1, pg_notify('threadseal_ends', '')";

const SEIZE: &str = "
WITH before AS (
  SELECT id, state, left(result, $6) AS result FROM threadseal_orders
  WHERE id = $4 AND token < $7 AND ($5 OR state <> 'taken' OR expires_at <= clock_timestamp())
  FOR UPDATE)
UPDATE threadseal_orders o
SET state = 'taken', token = o.token + 1, holder = $1, worker = $2,
    expires_at = clock_timestamp() + $3::bigint * interval '1 microsecond'
FROM before b WHERE o.id = b.id
RETURNING o.id, o.token, CASE b.state WHEN 'done' THEN coalesce(b.result, '') END,
  coalesce(o.state = 'taken' AND o.holder = $1 AND o.expires_at > clock_timestamp(), false),
  CASE WHEN $5 THEN pg_notify('threadseal_requests', '') END";

const REOPEN: &str = "
UPDATE threadseal_orders SET state = 'ready', task = $3, result = NULL, aside = NULL, expires_at = NULL, ended_at = NULL,
  ready_at = clock_timestamp(), failures = 0
WHERE id = $1 AND token = $2 AND state = 'done' RETURNING 1, pg_notify('threadseal_orders', '')";

const WITHDRAW: &str = "
UPDATE threadseal_orders SET state = 'done', result = $3, expires_at = NULL, ended_at = clock_timestamp()
WHERE id = $1 AND token = $2 AND (state = 'ready' OR (state = 'taken' AND expires_at <= clock_timestamp()))
RETURNING 1, pg_notify('threadseal_ends', '')";

const RESERVE: &str = "
INSERT INTO threadseal_orders (state, task, token, holder, worker, expires_at)
VALUES ('taken', '', 1, $1, $2, clock_timestamp() + $3::bigint * interval '1 microsecond')
RETURNING id, token, coalesce(state = 'taken' AND holder = $1 AND expires_at > clock_timestamp(), false)";

/// After a failure an order waits: 1, 4, 16, 64, then 256 seconds.
const GIVE_UP_FAILED: &str = "
UPDATE threadseal_orders SET failures = failures + 1, expires_at = NULL,
  ready_at = clock_timestamp() + least(power(4, failures), 256) * interval '1 second',
  state = CASE WHEN failures + 1 >= $4 THEN 'done' ELSE 'ready' END,
  aside = CASE WHEN failures + 1 >= $4 THEN $5 END,
  result = CASE WHEN failures + 1 >= $4 THEN $6 END,
  ended_at = CASE WHEN failures + 1 >= $4 THEN clock_timestamp() END
WHERE id = $1 AND token = $2 AND holder = $3 AND state = 'taken' AND expires_at > clock_timestamp()
RETURNING state, pg_notify(CASE state WHEN 'done' THEN 'threadseal_ends' ELSE 'threadseal_orders' END, '')";

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
    /// Its result, as far as it is read. The writer of the row chose it.
    pub result: Option<String>,
    /// Why it was set aside.
    pub aside: Option<String>,
}

/// An order that this process holds.
#[derive(Debug)]
pub struct Taken {
    /// The right to write.
    pub lease: Lease,
    /// The work to do; empty where only the lease was wanted, or the text cannot be read.
    pub task: String,
    /// The earlier result of a finished order that was taken again.
    pub result: Option<String>,
    /// False where the row did not take what was written: a trigger replaced it. Nothing can be done
    /// under such a lease.
    pub is_kept: bool,
}

impl Taken {
    /// The error for a row that did not take what was written.
    pub fn replaced(&self) -> Error {
        Error::refused(format!(
            "the row of order {} does not keep who holds it; hint: look for triggers on threadseal_orders",
            self.lease.order
        ))
    }
}

/// The right to write the files of one order, until it expires or is taken over.
#[derive(Debug, Clone)]
pub struct Lease {
    database: PostgresDatabase,
    order: i64,
    token: i64,
    holder: [u8; 16],
}

/// How a worker calls its session on the server, so that others find it there.
const WORKER_SESSION: &str = "threadseal worker";

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

    /// Adds an order, and hints workers at it.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the server fails; here and below.
    pub fn put(&self, task: &str) -> Result<i64, Error> {
        let sql = "INSERT INTO threadseal_orders (task) VALUES ($1)
                   RETURNING id, pg_notify('threadseal_orders', '')";
        let rows = self.database.once(sql, &[&task])?;
        let id = rows.first().map(|row| cell(row, 0)).transpose()?;
        id.ok_or_else(|| Error::new(ErrorKind::External, "PostgreSQL returned no number"))
    }

    /// Adds an order without a task, held by this process from the beginning: what it orders is written
    /// under the lease ([`Lease::write_task`]). Lost before that, it is set aside by the next worker.
    ///
    /// # Errors
    /// As [`Orders::put`]; [`ErrorKind::Refused`] when the row does not keep its holder.
    pub fn reserve(&self, worker: &str, holder: [u8; 16], lasts: Duration) -> Result<Taken, Error> {
        let values: [Value<'_>; 3] = [&&holder[..], &worker, &micros(lasts)];
        let rows = self.database.once(RESERVE, &values)?;
        let none = || Error::new(ErrorKind::External, "PostgreSQL returned no number");
        let row = rows.first().ok_or_else(none)?;
        let taken = Taken {
            lease: self.lease(row, holder)?,
            task: String::new(),
            result: None,
            is_kept: cell(row, 2)?,
        };
        match taken.is_kept {
            true => Ok(taken),
            false => Err(taken.replaced()),
        }
    }

    /// Takes the oldest order that waits, or whose holder let it expire, and that is none of
    /// `except`; None when there is none.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn take(
        &self,
        worker: &str,
        holder: [u8; 16],
        lasts: Duration,
        except: &[i64],
    ) -> Result<Option<Taken>, Error> {
        let lasts = micros(lasts);
        let values: [Value<'_>; 6] = [
            &&holder[..],
            &worker,
            &lasts,
            &MAX_TOKEN,
            &MAX_TASK,
            &except,
        ];
        let rows = self.database.once(TAKE, &values)?;
        let taken = rows.first().map(|row| {
            let lease = self.lease(row, holder)?;
            // A text in another encoding than the database claims is no order.
            let task = cell(row, 2).unwrap_or_default();
            Ok(Taken {
                lease,
                task,
                result: None,
                is_kept: cell(row, 3)?,
            })
        });
        taken.transpose()
    }

    /// The open orders that are never taken, except `except`: the number of each, and why.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn unusable(&self, except: &[i64]) -> Result<Vec<(i64, String)>, Error> {
        let values: [Value<'_>; 4] = [&MAX_TOKEN, &MAX_TASK, &except, &MAX_UNUSABLE];
        self.database.read(|session| {
            let rows = session.query(UNUSABLE, &values)?;
            let row = |row: &Row| Ok((cell(row, 0)?, cell(row, 1)?));
            rows.iter().map(row).collect()
        })
    }

    /// Sets an open order aside, in any state: it is done, with this reason and result.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn set_aside(&self, order: i64, why: &str, result: &str) -> Result<(), Error> {
        self.database
            .once(SET_ASIDE, &[&order, &why, &result])
            .map(drop)
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
        let values: [Value<'_>; 7] = [
            &&holder[..],
            &worker,
            &lasts,
            &order,
            &by_force,
            &MAX_RESULT_BYTES,
            &MAX_TOKEN,
        ];
        let rows = self.database.once(SEIZE, &values)?;
        let Some(row) = rows.first() else {
            return match self.get(order)?.is_some_and(|row| row.is_spent()) {
                true => Err(Error::refused(format!(
                    "the row of order {order} in threadseal_orders holds a token that cannot rise"
                ))),
                false => Ok(None),
            };
        };
        let taken = Taken {
            lease: self.lease(row, holder)?,
            task: String::new(),
            result: cell(row, 2)?,
            is_kept: cell(row, 3)?,
        };
        match taken.is_kept {
            true => Ok(Some(taken)),
            false => Err(taken.replaced()),
        }
    }

    fn lease(&self, row: &Row, holder: [u8; 16]) -> Result<Lease, Error> {
        Ok(Lease {
            database: self.database.clone(),
            order: cell(row, 0)?,
            token: cell(row, 1)?,
            holder,
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
        Ok(!rows.is_empty())
    }

    /// The state of an order.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn get(&self, order: i64) -> Result<Option<Standing>, Error> {
        let sql = "SELECT id, state, token, worker, left(result, $2), left(aside, $2)
                   FROM threadseal_orders WHERE id = $1";
        self.database.read(|session| {
            let row = session.opt(sql, &[&order, &MAX_RESULT_BYTES])?;
            row.as_ref().map(standing).transpose()
        })
    }

    /// Names a session of this process on the server as that of a worker. The name lasts as long as
    /// the session, so that no name of a killed worker is left.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn announce(&self) -> Result<(), Error> {
        let sql = "SELECT set_config('application_name', $1, false)";
        self.database.once(sql, &[&WORKER_SESSION]).map(drop)
    }

    /// Is a session of a worker there? Anyone can name a session so: it is a hint for people.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn has_worker(&self) -> Result<bool, Error> {
        let sql = "SELECT count(*) > 0 FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name = $1";
        self.database
            .read(|session| cell(&session.one(sql, &[&WORKER_SESSION])?, 0))
    }

    /// How long it takes until an order can be taken that is none of `except`: its lease expires, or its
    /// pause ends. None where there is none.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn next_due(&self, except: &[i64]) -> Result<Option<Duration>, Error> {
        let sql = "SELECT (extract(epoch FROM min(CASE state WHEN 'taken' THEN expires_at ELSE ready_at END)
                     - clock_timestamp()) * 1000000)::bigint
                   FROM threadseal_orders WHERE state IN ('taken', 'ready') AND aside IS NULL AND id <> ALL($1)";
        self.database.read(|session| {
            let left: Option<i64> = cell(&session.one(sql, &[&except])?, 0)?;
            Ok(left.map(|left| Duration::from_micros(unsigned(left))))
        })
    }

    /// The number of unfinished orders, except `except`.
    ///
    /// # Errors
    /// As [`Orders::put`].
    pub fn open_orders(&self, except: &[i64]) -> Result<u64, Error> {
        let sql = "SELECT count(*) FROM threadseal_orders
                   WHERE state <> 'done' AND aside IS NULL AND id <> ALL($1)";
        self.database
            .read(|session| Ok(unsigned(cell(&session.one(sql, &[&except])?, 0)?)))
    }
}

impl Standing {
    /// Can its token not rise any more?
    fn is_spent(&self) -> bool {
        i64::try_from(self.token).is_ok_and(|token| token >= MAX_TOKEN)
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

    /// Where its order is.
    pub fn database(&self) -> &PostgresDatabase {
        &self.database
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
        self.set(set, &[&micros(lasts)], None)
    }

    /// Writes what the order is for, in place of an earlier text.
    ///
    /// # Errors
    /// As [`Lease::guard`].
    pub fn write_task(&self, task: &str) -> Result<(), Error> {
        self.set("task = $4, result = NULL, aside = NULL", &[&task], None)
    }

    /// Marks the work as done, with this result.
    ///
    /// # Errors
    /// As [`Lease::guard`].
    pub fn finish(&self, result: &str) -> Result<(), Error> {
        self.set(
            "state = 'done', result = $4, ended_at = clock_timestamp()",
            &[&result],
            Some(Channel::Ends),
        )
    }

    /// Sets the order aside: it is done, with this reason and result.
    ///
    /// # Errors
    /// As [`Lease::guard`].
    pub fn set_aside(&self, why: &str, result: &str) -> Result<(), Error> {
        self.set(
            "state = 'done', aside = $4, result = $5, ended_at = clock_timestamp()",
            &[&why, &result],
            Some(Channel::Ends),
        )
    }

    /// Gives the order back: another process may take it at once.
    ///
    /// # Errors
    /// As [`Lease::guard`].
    pub fn give_up(&self) -> Result<(), Error> {
        let ready = "state = 'ready', expires_at = NULL, ready_at = clock_timestamp()";
        self.set(ready, &[], Some(Channel::Orders))
    }

    /// Gives an order back that failed; true where it had failed `most` times, and is set aside with this
    /// reason and result.
    ///
    /// # Errors
    /// As [`Lease::guard`].
    pub fn give_up_failed(&self, most: i32, why: &str, result: &str) -> Result<bool, Error> {
        let (order, token, holder) = self.values();
        let values: [Value<'_>; 6] = [&order, &token, &holder, &most, &why, &result];
        let rows = self.database.once(GIVE_UP_FAILED, &values)?;
        let state: &str = cell(rows.first().ok_or_else(|| self.lost())?, 0)?;
        Ok(state == "done")
    }

    fn set(&self, columns: &str, more: &[Value<'_>], hint: Option<Channel>) -> Result<(), Error> {
        let hint = hint.map_or(String::new(), |channel| {
            format!(", pg_notify('{}', '')", channel.name())
        });
        let sql = format!(
            "UPDATE threadseal_orders SET {columns}
             WHERE id = $1 AND token = $2 AND holder = $3 AND state = 'taken'
               AND expires_at > clock_timestamp() RETURNING 1{hint}"
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
        aside: cell(row, 5)?,
    })
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
