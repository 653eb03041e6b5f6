//! [`Census`]: what waits in a database, what is held, and what threads cost.
//!
//! Rows prove nothing: the figures are for people and alarms, and decide nothing.

use super::Fleet;
use crate::bounds::MAX_LISTED_THREADS;
use crate::money::Nanos;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_store::postgres::{Session, cell};
use tokio_postgres::Row;

const ORDERS: &str = "
SELECT count(*) FILTER (WHERE state = 'ready'),
  count(*) FILTER (WHERE state = 'taken' AND expires_at > clock_timestamp()),
  count(*) FILTER (WHERE state = 'taken' AND expires_at > clock_timestamp() IS NOT TRUE),
  (SELECT count(*) FROM threadseal_orders WHERE aside IS NOT NULL),
  coalesce((extract(epoch FROM clock_timestamp() - min(ready_at) FILTER (WHERE state = 'ready'))
    * 1000000)::bigint, 0),
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM threadseal_orders WHERE state <> 'done' AND aside IS NULL";

/// Threads that run by their rows; of these, the ones that no worker will continue.
pub(super) const LIVE: &str = "
SELECT count(*), count(*) FILTER (WHERE NOT EXISTS (
  SELECT 1 FROM threadseal_orders o WHERE o.id = t.order_id AND o.state <> 'done'))
FROM threadseal_threads t WHERE t.status IN ('created', 'running')";

const CONNECTIONS: &str = "
SELECT count(*), current_setting('max_connections')::bigint FROM pg_stat_activity
WHERE backend_type = 'client backend'";

const HELD: &str = "
SELECT o.id, left(coalesce(o.worker, ''), 256), o.token,
  coalesce((extract(epoch FROM o.expires_at - clock_timestamp()) * 1000000)::bigint, 0),
  t.thread_id, coalesce(t.turns, 0), coalesce(t.spend_nanos, 0)
FROM threadseal_orders o
LEFT JOIN LATERAL (
  SELECT thread_id, turns, spend_nanos FROM threadseal_threads
  WHERE order_id = o.id AND parent_id IS NULL ORDER BY created_at DESC, thread_id DESC LIMIT 1) t ON true
WHERE o.state = 'taken' AND o.aside IS NULL ORDER BY o.id LIMIT $1";

const STATUSES: &str =
    "SELECT left(status, 64), count(*) FROM threadseal_threads GROUP BY 1 ORDER BY 1 LIMIT $1";

const TOTALS: &str = "
SELECT coalesce(sum(turns), 0)::bigint, coalesce(sum(input_tokens), 0)::bigint,
  coalesce(sum(output_tokens), 0)::bigint,
  (SELECT coalesce(sum(own_nanos), 0)::bigint FROM threadseal_budgets)
FROM threadseal_threads";

/// The counts of a database, which cost few reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Census {
    /// Orders that wait for a worker.
    pub ready: u64,
    /// Orders that a worker holds.
    pub taken: u64,
    /// Orders whose worker let the lease expire.
    pub expired: u64,
    /// Orders that were set aside.
    pub set_aside: u64,
    /// How long the first of those that wait has waited.
    pub oldest_ready: Duration,
    /// The server's clock.
    pub server_micros: i64,
    /// Threads that run by their rows.
    pub live: u64,
    /// Of these, the ones whose order is done or gone.
    pub orphaned: u64,
    /// Connections to the server, and how many it allows.
    pub connections: [u64; 2],
}

/// An order in the hands of a worker, by its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldOrder {
    /// Its number.
    pub order: i64,
    /// The worker's name.
    pub worker: String,
    /// How often the order was taken.
    pub token: u64,
    /// What the lease has left; zero where it has expired.
    pub left: Duration,
    /// The newest thread of it that no thread started.
    pub thread: Option<String>,
    /// The turns of that thread.
    pub turns: u64,
    /// The money of that thread and its children.
    pub spend: Nanos,
}

/// What all threads of a database did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// How many have each status.
    pub statuses: Vec<(String, u64)>,
    /// Turns of models.
    pub turns: u64,
    /// Tokens that models read, and that they wrote.
    pub tokens: [u64; 2],
    /// Money.
    pub spend: Nanos,
}

impl Fleet {
    /// Counts what waits and what is held.
    ///
    /// # Errors
    /// Kind `External` when the server fails.
    pub fn census(&self) -> Result<Census, Error> {
        self.database.read(|session| {
            let orders = session.one(ORDERS, &[])?;
            let live = session.one(LIVE, &[])?;
            let connections = session.one(CONNECTIONS, &[])?;
            Ok(Census {
                ready: count(&orders, 0)?,
                taken: count(&orders, 1)?,
                expired: count(&orders, 2)?,
                set_aside: count(&orders, 3)?,
                oldest_ready: Duration::from_micros(count(&orders, 4)?),
                server_micros: cell(&orders, 5)?,
                live: count(&live, 0)?,
                orphaned: count(&live, 1)?,
                connections: [count(&connections, 0)?, count(&connections, 1)?],
            })
        })
    }

    /// The orders that workers hold, the first [`MAX_LISTED_THREADS`], and the totals of all threads.
    ///
    /// # Errors
    /// As [`Fleet::census`].
    pub fn held_and_totals(&self) -> Result<(Vec<HeldOrder>, Totals), Error> {
        let most = i64::try_from(MAX_LISTED_THREADS).unwrap_or(i64::MAX);
        self.books()?;
        self.database.read(|session| {
            let rows = session.query(HELD, &[&most])?;
            let held = rows.iter().map(held).collect::<Result<_, _>>()?;
            Ok((held, totals(session, most)?))
        })
    }
}

fn held(row: &Row) -> Result<HeldOrder, Error> {
    Ok(HeldOrder {
        order: cell(row, 0)?,
        worker: cell(row, 1)?,
        token: count(row, 2)?,
        left: Duration::from_micros(count(row, 3)?),
        thread: cell(row, 4)?,
        turns: count(row, 5)?,
        spend: Nanos::from_i64(cell(row, 6)?)?,
    })
}

fn totals(session: &Session<'_>, most: i64) -> Result<Totals, Error> {
    let rows = session.query(STATUSES, &[&most])?;
    let status = |row: &Row| Ok((cell(row, 0)?, count(row, 1)?));
    let sums = session.one(TOTALS, &[])?;
    Ok(Totals {
        statuses: rows.iter().map(status).collect::<Result<_, Error>>()?,
        turns: count(&sums, 0)?,
        tokens: [count(&sums, 1)?, count(&sums, 2)?],
        spend: Nanos::from_i64(cell(&sums, 3)?)?,
    })
}

/// A count of a row; zero where it is below.
fn count(row: &Row, column: usize) -> Result<u64, Error> {
    Ok(u64::try_from(cell::<i64>(row, column)?).unwrap_or(0))
}
