//! [`PostgresRegistry`]: the threads of many machines, in one PostgreSQL database.
//!
//! ```text
//! threadseal_threads   the seed's columns; beside them spend_nanos, elapsed_micros,
//!                      process_started, record, order_id, fence;
//!                      spend is made of spend_nanos, cost (JSON) of the numbers
//! ```
//! For a writer under a lease, the same transaction checks the lease, and it may write only threads
//! of its own order. `fence` is the token of the last such writer, and does not fall.

use super::chain::unknown;
use super::inspect::{self, Typed};
use super::rules;
use super::{
    Activity, Filter, Inspection, Listing, NewThread, Origin, Process, Recorded, Registry, Subject,
    Thread,
};
use crate::bounds::MAX_INSPECTED_ROWS;
use crate::limit::Cost;
use crate::money::Nanos;
use crate::status::Status;
use serde_json::Value as Json;
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;
use threadseal_store::postgres::leases::Lease;
use threadseal_store::postgres::{Channel, Marks, PostgresDatabase, Session, Value, cell};
use tokio_postgres::Row;

const VERSIONS: [&str; 3] = [
    "
CREATE TABLE threadseal_threads (
  thread_id text COLLATE \"C\" PRIMARY KEY,
  directive text NOT NULL,
  parent_id text COLLATE \"C\",
  status text NOT NULL,
  created_at text COLLATE \"C\" NOT NULL,
  updated_at text NOT NULL,
  completed_at text,
  result text,
  turns bigint NOT NULL DEFAULT 0,
  input_tokens bigint NOT NULL DEFAULT 0,
  output_tokens bigint NOT NULL DEFAULT 0,
  spend double precision GENERATED ALWAYS AS (spend_nanos / 1e9::double precision) STORED,
  spawn_count bigint NOT NULL DEFAULT 0,
  pid bigint,
  model text,
  continuation_of text COLLATE \"C\",
  continuation_thread_id text COLLATE \"C\",
  chain_root_id text COLLATE \"C\",
  spend_nanos bigint NOT NULL DEFAULT 0 CHECK (spend_nanos >= 0),
  elapsed_micros bigint NOT NULL DEFAULT 0,
  process_started text,
  record text,
  order_id bigint,
  fence bigint NOT NULL DEFAULT 0 CHECK (fence >= 0)
) WITH (fillfactor = 50);
CREATE INDEX threadseal_threads_listed ON threadseal_threads (created_at DESC, thread_id DESC);
CREATE INDEX threadseal_threads_parent ON threadseal_threads (parent_id);
CREATE INDEX threadseal_threads_order ON threadseal_threads (order_id);
",
    "
ALTER TABLE threadseal_threads ADD COLUMN cost text GENERATED ALWAYS AS (
  '{\"turns\":' || turns::text || ',\"input_tokens\":' || input_tokens::text ||
  ',\"output_tokens\":' || output_tokens::text ||
  ',\"spend\":' || (spend_nanos / 1000000000)::text || '.' || lpad((spend_nanos % 1000000000)::text, 9, '0') ||
  ',\"spawns\":' || spawn_count::text || '}') STORED;
",
    "
CREATE INDEX threadseal_threads_live ON threadseal_threads (order_id) WHERE status IN ('created', 'running');
",
];

const COLUMNS: &str = "thread_id, directive, parent_id, status, created_at, updated_at, completed_at,
  turns, input_tokens, output_tokens, spend_nanos, spawn_count, pid, process_started, model, continuation_of,
  continuation_thread_id, chain_root_id, record, fence";

const INSPECTED: &str = "
SELECT thread_id, status, parent_id, continuation_of, continuation_thread_id, turns, input_tokens, output_tokens,
  spawn_count, spend_nanos, elapsed_micros, fence
FROM threadseal_threads ORDER BY thread_id LIMIT $1";

/// Its columns that count something, from the sixth on.
const COUNTED: [&str; 7] = [
    "turns",
    "input_tokens",
    "output_tokens",
    "spawn_count",
    "spend_nanos",
    "elapsed_micros",
    "fence",
];

/// Threads in a PostgreSQL database.
#[derive(Debug, Clone)]
pub struct PostgresRegistry {
    database: PostgresDatabase,
    lease: Option<Lease>,
    activity: Arc<Activity>,
}

impl PostgresRegistry {
    /// Opens the registry of a database, creating missing tables; with a lease, each change checks
    /// it.
    ///
    /// # Errors
    /// As [`PostgresDatabase::migrate`].
    pub fn open(database: &PostgresDatabase, lease: Option<Lease>) -> Result<Self, Error> {
        database.migrate("registry", &VERSIONS)?;
        Ok(Self {
            database: database.clone(),
            lease,
            activity: Arc::default(),
        })
    }

    /// The same, which counts in `activity` what threads do through it.
    #[must_use]
    pub fn counting(self, activity: &Arc<Activity>) -> Self {
        Self {
            activity: Arc::clone(activity),
            ..self
        }
    }

    /// The order to which a thread belongs.
    ///
    /// # Errors
    /// Kind `Refused` when there is no such thread, or it belongs to none; errors of the server.
    pub fn order_of(&self, id: &ThreadId) -> Result<i64, Error> {
        let sql = "SELECT order_id FROM threadseal_threads WHERE thread_id = $1";
        let row = self
            .database
            .read(|session| session.opt(sql, &[&id.as_str()]))?;
        let order: Option<i64> = cell(&row.ok_or_else(|| unknown(id))?, 0)?;
        order.ok_or_else(|| Error::refused(format!("{id} does not belong to an order")))
    }

    /// The threads of an order, the oldest first.
    ///
    /// # Errors
    /// As [`Registry::get`].
    pub fn of_order(&self, order: i64) -> Result<Vec<Thread>, Error> {
        let sql = format!(
            "SELECT {COLUMNS}, result FROM threadseal_threads WHERE order_id = $1
             ORDER BY created_at, thread_id"
        );
        let found = self
            .database
            .read(|session| listing(&session.query(&sql, &[&order])?))?;
        Ok(found.threads)
    }

    /// Finds contradictions in it, as [`super::inspect`] does for a file.
    ///
    /// # Errors
    /// Kind `Limit` above [`MAX_INSPECTED_ROWS`], `External` when the server fails.
    pub fn inspect(&self) -> Result<Inspection, Error> {
        let most = i64::try_from(MAX_INSPECTED_ROWS).unwrap_or(i64::MAX);
        let limit = most.saturating_add(1);
        let rows = self.database.read(|session| {
            let rows = session.query(INSPECTED, &[&limit])?;
            rows.iter().map(typed).collect::<Result<Vec<_>, _>>()
        })?;
        inspect::inspect_rows(rows, self.database.place())
    }

    fn write<T>(&self, work: impl Fn(&Session<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let done = self.database.write(|session| {
            if let Some(lease) = &self.lease {
                lease.guard(session)?;
            }
            work(session)
        })?;
        // A view of this thread reads its row again.
        self.database.tell()?;
        Ok(done)
    }

    /// The thread, kept from other writers until the transaction ends.
    fn known(&self, session: &Session<'_>, id: &ThreadId) -> Result<Thread, Error> {
        let sql = format!(
            "SELECT {COLUMNS}, NULL::text, order_id FROM threadseal_threads WHERE thread_id = $1 FOR UPDATE"
        );
        let row = session.opt(&sql, &[&id.as_str()])?;
        let row = row.ok_or_else(|| unknown(id))?;
        let order: Option<i64> = cell(&row, 21)?;
        if let Some(lease) = &self.lease
            && order != Some(lease.order())
        {
            return Err(Error::refused(format!(
                "{id} belongs to another order than the one that is held"
            )));
        }
        thread(&row)?.ok_or_else(|| unknown(id))
    }

    /// Sets columns of one thread, whose names are this module's own words, and when.
    fn set(
        &self,
        session: &Session<'_>,
        id: &ThreadId,
        at: Timestamp,
        columns: &[(&str, Value<'_>)],
    ) -> Result<(), Error> {
        let (name, updated) = (id.as_str(), at.to_python_text());
        let fence = self.lease.as_ref().map_or(0, |lease| signed(lease.token()));
        let mut values: Vec<Value<'_>> = vec![&name, &updated, &fence];
        let mut sql =
            "UPDATE threadseal_threads SET updated_at = $2, fence = greatest(fence, $3)".to_owned();
        for (column, value) in columns {
            values.push(*value);
            sql.push_str(&format!(", {column} = ${}", values.len()));
        }
        sql.push_str(" WHERE thread_id = $1");
        session.execute(&sql, &values).map(drop)
    }

    fn change(
        &self,
        id: &ThreadId,
        at: Timestamp,
        columns: &[(&str, Value<'_>)],
    ) -> Result<(), Error> {
        self.write(|session| {
            self.known(session, id)?;
            self.set(session, id, at, columns)
        })
    }
}

impl Registry for PostgresRegistry {
    fn create(&self, new: &NewThread<'_>, at: Timestamp) -> Result<(), Error> {
        self.write(|session| {
            let parent = match new.origin {
                Origin::Root => None,
                Origin::Child { parent, max_spawns } => {
                    let known = self.known(session, parent)?;
                    let spawns = signed(rules::spawn(&known, max_spawns)?);
                    self.set(session, parent, at, &[("spawn_count", &spawns)])?;
                    Some(parent.as_str().to_owned())
                }
                Origin::Successor { of } => self.known(session, of)?.parent,
            };
            let (created, record) = (at.to_python_text(), new.record.map(|id| id.to_hex()));
            let process = new.process.as_ref();
            let pid = process.map(|process| i64::from(process.pid));
            let started = process.map(|process| process.started.as_str());
            let order = self.lease.as_ref().map(Lease::order);
            let fence = self.lease.as_ref().map_or(0, |lease| signed(lease.token()));
            let made = session.execute(
                "INSERT INTO threadseal_threads (thread_id, directive, parent_id, status, created_at, updated_at,
                   pid, process_started, model, record, order_id, fence)
                 VALUES ($1, $2, $3, 'created', $4, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING",
                &[
                    &new.id.as_str(),
                    &new.directive,
                    &parent,
                    &created,
                    &pid,
                    &started,
                    &new.model,
                    &record,
                    &order,
                    &fence,
                ],
            )?;
            match made {
                0 => Err(rules::taken(new.id)),
                _ => Ok(()),
            }
        })
    }

    fn enter(&self, said: &Recorded, at: Timestamp) -> Result<(), Error> {
        let (began, record) = (said.began.to_python_text(), said.record.to_hex());
        let order = self.lease.as_ref().map(Lease::order);
        let id = |id: &Option<ThreadId>| id.as_ref().map(|id| id.as_str().to_owned());
        let (parent, root) = (id(&said.parent), id(&said.root));
        let (before, after) = (id(&said.before), id(&said.after));
        self.write(|session| {
            session.execute(
                "INSERT INTO threadseal_threads (thread_id, directive, status, created_at, updated_at, order_id)
                 VALUES ($1, $2, 'created', $3, $3, $4) ON CONFLICT DO NOTHING",
                &[&said.id.as_str(), &said.directive, &began, &order],
            )?;
            let spawns = signed(self.known(session, &said.id)?.spawns.max(said.spawns));
            self.set(
                session,
                &said.id,
                at,
                &[
                    ("directive", &said.directive),
                    ("model", &said.model),
                    ("record", &record),
                    ("parent_id", &parent),
                    ("spawn_count", &spawns),
                    ("continuation_of", &before),
                    ("continuation_thread_id", &after),
                    ("chain_root_id", &root),
                ],
            )
        })
    }

    fn get(&self, id: &ThreadId) -> Result<Option<Thread>, Error> {
        let sql = format!("SELECT {COLUMNS}, result FROM threadseal_threads WHERE thread_id = $1");
        self.database.read(|session| {
            let row = session.opt(&sql, &[&id.as_str()])?;
            Ok(row.as_ref().map(thread).transpose()?.flatten())
        })
    }

    fn set_status(
        &self,
        id: &ThreadId,
        expected: Option<Status>,
        to: Status,
        at: Timestamp,
    ) -> Result<Status, Error> {
        let before = self.write(|session| {
            let before = rules::step(&self.known(session, id)?, expected, to)?;
            let ended = to.is_terminal().then(|| at.to_python_text());
            let columns: [(&str, Value<'_>); 2] =
                [("status", &to.as_str()), ("completed_at", &ended)];
            self.set(session, id, at, &columns)?;
            over(session, to)?;
            Ok(before)
        })?;
        self.activity.ended(to);
        Ok(before)
    }

    fn correct(&self, id: &ThreadId, to: Status, at: Timestamp) -> Result<(), Error> {
        self.write(|session| {
            self.known(session, id)?;
            let ended = to.is_terminal().then(|| at.to_python_text());
            let columns: [(&str, Value<'_>); 2] =
                [("status", &to.as_str()), ("completed_at", &ended)];
            self.set(session, id, at, &columns)?;
            over(session, to)
        })?;
        self.activity.ended(to);
        Ok(())
    }

    fn link(&self, old: &ThreadId, new: &ThreadId, at: Timestamp) -> Result<(), Error> {
        self.write(|session| {
            let before = self.known(session, old)?;
            let after = self.known(session, new)?;
            let linked = rules::link(before, &after, at)?;
            let columns: [(&str, Value<'_>); 3] = [
                ("status", &Status::Continued.as_str()),
                ("completed_at", &linked.ended),
                ("continuation_thread_id", &new.as_str()),
            ];
            self.set(session, old, at, &columns)?;
            let columns: [(&str, Value<'_>); 2] = [
                ("continuation_of", &old.as_str()),
                ("chain_root_id", &linked.root),
            ];
            self.set(session, new, at, &columns)
        })
    }

    fn set_cost(&self, id: &ThreadId, cost: &Cost, at: Timestamp) -> Result<(), Error> {
        let elapsed = u64::try_from(cost.elapsed.as_micros()).unwrap_or(u64::MAX);
        let columns: [(&str, Value<'_>); 5] = [
            ("turns", &signed(cost.turns)),
            ("input_tokens", &signed(cost.input_tokens)),
            ("output_tokens", &signed(cost.output_tokens)),
            ("spend_nanos", &cost.spend.to_i64()),
            ("elapsed_micros", &signed(elapsed)),
        ];
        let before = self.write(|session| {
            let known = self.known(session, id)?;
            self.set(session, id, at, &columns)?;
            Ok([known.turns, known.input_tokens, known.output_tokens])
        })?;
        self.activity.cost(before, cost);
        Ok(())
    }

    fn set_result(&self, id: &ThreadId, result: &Json, at: Timestamp) -> Result<(), Error> {
        // A text of PostgreSQL contains no NUL; JSON spells it `\u0000`.
        self.change(id, at, &[("result", &result.to_string())])
    }

    fn set_process(&self, id: &ThreadId, process: &Process, at: Timestamp) -> Result<(), Error> {
        let pid = i64::from(process.pid);
        self.change(
            id,
            at,
            &[("pid", &pid), ("process_started", &process.started)],
        )
    }

    fn set_model(&self, id: &ThreadId, model: &str, at: Timestamp) -> Result<(), Error> {
        self.change(id, at, &[("model", &model)])
    }

    fn set_record(&self, id: &ThreadId, record: &RecordId, at: Timestamp) -> Result<(), Error> {
        self.write(|session| {
            rules::record(&self.known(session, id)?, record)?;
            self.set(session, id, at, &[("record", &record.to_hex())])
        })
    }

    fn list(&self, filter: &Filter) -> Result<Listing, Error> {
        let statuses: Vec<&str> = filter
            .statuses
            .iter()
            .map(|status| status.as_str())
            .collect();
        let parent = filter.parent.as_ref().map(ThreadId::as_str);
        let limit = filter
            .limit
            .map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let sql = format!(
            "SELECT {COLUMNS}, NULL::text FROM threadseal_threads
             WHERE (cardinality($1::text[]) = 0 OR status = ANY ($1))
               AND ($2::text IS NULL OR directive = $2) AND ($3::text IS NULL OR parent_id = $3)
             ORDER BY created_at DESC, thread_id DESC LIMIT $4"
        );
        self.database.read(|session| {
            let rows = session.query(&sql, &[&statuses, &filter.directive, &parent, &limit])?;
            listing(&rows)
        })
    }

    fn place(&self) -> String {
        self.database.place().to_owned()
    }

    fn notices(&self, subject: Subject) -> Result<Option<u64>, Error> {
        let marks = self.database.marks()?;
        Ok(Some(marks.of(channel_of(subject))))
    }

    fn wait_for_notice(
        &self,
        subject: Subject,
        known: u64,
        longest: Duration,
        stop: &dyn Fn() -> bool,
    ) {
        let channel = channel_of(subject);
        let marks = Marks::known(channel, known);
        self.database.wait(&[channel], &marks, longest, stop);
    }
}

fn channel_of(subject: Subject) -> Channel {
    match subject {
        Subject::Change => Channel::Ledger,
        Subject::End => Channel::Ends,
        Subject::Request => Channel::Requests,
    }
}

/// Gives notice of a thread that is over for its time.
fn over(session: &Session<'_>, status: Status) -> Result<(), Error> {
    match status.is_terminal() || status == Status::Suspended {
        true => session.notify(Channel::Ends),
        false => Ok(()),
    }
}

fn typed(row: &Row) -> Result<Typed, Error> {
    let counts = COUNTED.iter().enumerate();
    let counts = counts.map(|(at, name)| Ok((*name, cell(row, 5 + at)?)));
    Ok(Typed {
        id: cell(row, 0)?,
        status: cell(row, 1)?,
        parent: cell(row, 2)?,
        before: cell(row, 3)?,
        after: cell(row, 4)?,
        counts: counts.collect::<Result<_, Error>>()?,
    })
}

fn listing(rows: &[Row]) -> Result<Listing, Error> {
    let mut listing = Listing::default();
    for row in rows {
        match thread(row)? {
            Some(thread) => listing.threads.push(thread),
            None => listing.unusable += 1,
        }
    }
    Ok(listing)
}

/// The thread of a row; None when its id must not become a path.
fn thread(row: &Row) -> Result<Option<Thread>, Error> {
    let count = |column: usize| -> Result<u64, Error> {
        Ok(u64::try_from(cell::<i64>(row, column)?).unwrap_or(0))
    };
    let Ok(id) = ThreadId::parse(cell(row, 0)?) else {
        return Ok(None);
    };
    let word: String = cell(row, 3)?;
    let pid: Option<i64> = cell(row, 12)?;
    let record: Option<&str> = cell(row, 18)?;
    Ok(Some(Thread {
        id,
        directive: cell(row, 1)?,
        parent: cell(row, 2)?,
        status: Status::parse(&word).ok_or(word),
        created_at: cell(row, 4)?,
        updated_at: cell(row, 5)?,
        completed_at: cell(row, 6)?,
        turns: count(7)?,
        input_tokens: count(8)?,
        output_tokens: count(9)?,
        spend: Nanos::from_i64(cell(row, 10)?)?,
        spawns: count(11)?,
        pid: pid.and_then(|pid| u32::try_from(pid).ok()),
        process_started: cell(row, 13)?,
        model: cell(row, 14)?,
        continuation_of: cell(row, 15)?,
        continuation: cell(row, 16)?,
        chain_root: cell(row, 17)?,
        record: record.and_then(RecordId::parse_hex),
        fence: count(19)?,
        result: cell(row, 20)?,
    }))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{self, at, id, new};
    use super::*;
    use threadseal_core::error::ErrorKind;
    use threadseal_store::postgres::leases::Orders;
    use threadseal_store::postgres::throwaway::{Cluster, database_of};

    #[test]
    fn the_registry_in_postgres_does_what_every_registry_must_do() {
        let Some(cluster) = Cluster::shared() else {
            return;
        };
        conformance::all(|| {
            let database = PostgresDatabase::open(&cluster.fresh()).unwrap();
            PostgresRegistry::open(&database, None).unwrap()
        });
    }

    #[test]
    fn whoever_waits_hears_of_a_change_by_another_machine() {
        let Some(cluster) = Cluster::shared() else {
            return;
        };
        let url = cluster.fresh();
        let open = || PostgresRegistry::open(&PostgresDatabase::open(&url).unwrap(), None).unwrap();
        let (here, there) = (open(), open());
        // A change by a writer that sends no notice.
        cluster.sql(
            database_of(&url),
            "INSERT INTO threadseal_threads (thread_id, directive, status, created_at, updated_at)
             VALUES ('a', 'd', 'running', '', '')",
        );
        let notices = || there.notices(Subject::End).unwrap().unwrap();
        let hears_after = |mark: u64| {
            (0..40).any(|_| {
                there.wait_for_notice(Subject::End, mark, Duration::from_secs(1), &|| false);
                notices() != mark
            })
        };
        // That it listens is the first notice.
        assert!(hears_after(0));
        // A change that is no end wakes no waiting process.
        let mark = notices();
        here.set_model(&id("a"), "m", at(1)).unwrap();
        here.set_status(&id("a"), None, Status::Completed, at(2))
            .unwrap();
        assert!(hears_after(mark));
        assert_eq!(notices(), mark + 1);
        // Its connection ends: it looks again, and hears again.
        let mark = notices();
        cluster.sql(
            database_of(&url),
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND query LIKE 'LISTEN%'",
        );
        assert!(hears_after(mark));
        let lost = notices();
        assert!(hears_after(lost));
        let mark = notices();
        here.correct(&id("a"), Status::Error, at(3)).unwrap();
        assert!(hears_after(mark));
    }

    // T-FLT-17
    #[test]
    fn only_the_holder_of_the_lease_changes_a_thread_of_its_order() {
        let Some(cluster) = Cluster::shared() else {
            return;
        };
        let url = cluster.fresh();
        let database = PostgresDatabase::open(&url).unwrap();
        let orders = Orders::open(&database).unwrap();
        orders.put("{}").unwrap();
        orders.put("{}").unwrap();
        let take = || {
            orders
                .take("w", [1; 16], Duration::from_secs(60), &[])
                .unwrap()
                .unwrap()
        };
        let (mine, other) = (take().lease, take().lease);
        let registry =
            |lease: &Lease| PostgresRegistry::open(&database, Some(lease.clone())).unwrap();
        let (first, stranger) = (registry(&mine), registry(&other));
        first.create(&new(&id("a"), Origin::Root), at(0)).unwrap();
        let refused = stranger.set_status(&id("a"), None, Status::Running, at(1));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Refused);
        mine.give_up().unwrap();
        let again = take().lease;
        let late = first.set_status(&id("a"), None, Status::Running, at(1));
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Superseded);
        let second = registry(&again);
        second
            .set_status(&id("a"), None, Status::Running, at(1))
            .unwrap();
        let thread = second.get(&id("a")).unwrap().unwrap();
        assert_eq!(
            (thread.fence, thread.standing().unwrap()),
            (2, Status::Running)
        );
        assert_eq!(second.of_order(again.order()).unwrap().len(), 1);
        // Words and ids that an attacker wrote into rows.
        cluster.sql(
            database_of(&url),
            "INSERT INTO threadseal_threads (thread_id, directive, status, created_at, updated_at)
             VALUES ('../x', 'd', 'released', '', ''), ('b', 'd', 'released', '', '')",
        );
        let listing = second.list(&Filter::default()).unwrap();
        assert_eq!((listing.threads.len(), listing.unusable), (2, 1));
        assert!(second.get(&id("b")).unwrap().unwrap().standing().is_err());
    }
}
