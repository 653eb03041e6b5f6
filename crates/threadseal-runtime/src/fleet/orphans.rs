//! Ends the threads of a database that run by their rows, and that no worker continues.
//!
//! ```text
//! row `created` or `running`, its order done (set aside, or by hand)   every worker, when it begins
//!                             its order's lease expired                only a person: a worker would continue it
//!   ─► order taken here, token + 1 ─► children, then their parents, ended ─► order done
//! ```
//! A row proves nothing. Files belong to orders, too: a thread that a row puts under another order is
//! refused, and left as it is.

use super::database::is_final;
use super::work::{is_live, while_held};
use super::{Fleet, THREADS};
use crate::bounds::MAX_LISTED_THREADS;
use crate::project::TRANSCRIPT_FILE;
use crate::registry::Thread;
use crate::runner::{Engine, Healed};
use crate::status::Status;
use crate::toolbox::Cancel;
use serde_json::json;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_store::postgres::leases::Taken;
use threadseal_store::postgres::{cell, files};
use threadseal_store::random;
use tokio_postgres::Row;

/// The orders of such threads; with `$1` also those whose lease expired.
const ORDERS: &str = "
SELECT DISTINCT o.id FROM threadseal_threads t JOIN threadseal_orders o ON o.id = t.order_id
WHERE t.status IN ('created', 'running')
  AND (o.state = 'done' OR ($1 AND o.state = 'taken' AND o.expires_at <= clock_timestamp()))
ORDER BY o.id LIMIT $2";

const WHY: &str = "its worker was lost, and its threads were ended";

impl Fleet {
    /// Ends all threads that no worker runs, children before their parents, also those of expired
    /// leases. Meanwhile their orders are held as `worker`; afterwards these are done.
    ///
    /// # Errors
    /// Kind `External` when the server fails.
    pub fn recover_all(
        &self,
        base: &Engine,
        worker: &str,
        lasts: Duration,
    ) -> Result<Vec<Healed>, Error> {
        self.end_orphans(base, worker, lasts, true)
    }

    /// How many threads run by their rows, and are continued by no worker.
    ///
    /// # Errors
    /// Kind `External` when the server fails.
    pub fn orphaned(&self) -> Result<u64, Error> {
        Ok(self.census()?.orphaned)
    }

    /// The same; where `expired` is not set, without the threads that the next worker continues.
    pub(super) fn end_orphans(
        &self,
        base: &Engine,
        worker: &str,
        lasts: Duration,
        expired: bool,
    ) -> Result<Vec<Healed>, Error> {
        let most = i64::try_from(MAX_LISTED_THREADS).unwrap_or(i64::MAX);
        let orders: Vec<i64> = self.database.read(|session| {
            let rows = session.query(ORDERS, &[&expired, &most])?;
            rows.iter().map(|row: &Row| cell(row, 0)).collect()
        })?;
        let mut healed = Vec::new();
        for order in orders {
            let holder = random::array(&*base.services.host.random)?;
            // A worker that took it meanwhile continues it.
            let Some(taken) = self.orders.seize(order, worker, holder, lasts)? else {
                continue;
            };
            let (asked, cancel) = (Cancel::default(), Cancel::default());
            let held = [&asked, &cancel];
            let ended = while_held(&self.meters, &taken.lease, lasts, held, || {
                self.end_all(base, &taken, &mut healed)
            });
            let result = json!({"success": false, "status": Status::Error.as_str(), "error": WHY});
            let result = taken.result.unwrap_or_else(|| result.to_string());
            ended.and_then(|()| taken.lease.finish(&result))?;
        }
        Ok(healed)
    }

    /// Ends the threads of an order that run by their rows.
    fn end_all(&self, base: &Engine, taken: &Taken, healed: &mut Vec<Healed>) -> Result<(), Error> {
        let engine = self.engine(base, &taken.lease)?;
        let threads = self.registry.of_order(taken.lease.order())?;
        for thread in threads.iter().rev().filter(is_live) {
            let end = match engine.recover(&thread.id) {
                Err(error) if is_final(&error) => {
                    taken.lease.check()?;
                    self.correct(&engine, taken, thread, &error)?;
                    Err(error)
                }
                Err(error) => return Err(error),
                Ok(recovered) => Ok(recovered),
            };
            let parent = thread.parent.as_deref();
            healed.push(Healed {
                id: thread.id.clone(),
                parent: parent.and_then(|parent| ThreadId::parse(parent).ok()),
                end,
            });
        }
        Ok(())
    }

    /// Gives row and budget of a thread an end, whose record gets none; not where its record belongs to
    /// another order.
    fn correct(
        &self,
        engine: &Engine,
        taken: &Taken,
        thread: &Thread,
        why: &Error,
    ) -> Result<(), Error> {
        let record = format!("{THREADS}/{}/{TRANSCRIPT_FILE}", thread.id);
        match files::order_of(&self.database, &record)? {
            Some(order) if order != taken.lease.order() => Ok(()),
            _ => engine.give_up(&thread.id, why),
        }
    }
}
