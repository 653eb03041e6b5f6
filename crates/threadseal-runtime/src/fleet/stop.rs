//! Stops the work of workers on other machines: requests its end, or takes the lease away.
//!
//! ```text
//! cancel   nothing of it began ─► the order is done at once, under its token
//!          it runs ─► <thread>/cancel.json, signed, among the files of its order
//!            ─► its worker looks for it ─► Cancel
//! kill     no process of another machine can be signalled: the killer takes the lease, token + 1
//!            ─► the worker's later writes are refused
//!            ─► its threads are recovered, as `killed` ─► order done
//! ```
//! A row alone decides nothing. A thread has ended only if its record states so, and a worker obeys
//! a request only if it verifies for this thread.

use super::database::is_final;
use super::work::{is_live, while_held};
use super::{Fleet, THREADS};
use crate::bounds::LEASE_TIME;
use crate::registry::Thread;
use crate::runner::{Engine, KILLED, Recovered};
use crate::status::Status;
use crate::toolbox::Cancel;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_store::postgres::files;
use threadseal_store::postgres::leases::{Standing, Taken};
use threadseal_store::random;

/// The effect of a request to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    /// The order waited, and is done; nothing of it began.
    Order(i64),
    /// The worker of this thread was asked.
    Asked(ThreadId),
}

impl Fleet {
    /// Cancels an order by its number: at once where no worker took it, else by asking the worker
    /// of its thread.
    ///
    /// # Errors
    /// Kind `Refused` when it is done, or was taken at this moment; nothing is changed then.
    pub fn cancel_order(&self, base: &Engine, order: i64) -> Result<Cancelled, Error> {
        let standing = self.standing(order)?;
        if standing.state == "done" {
            return Err(Error::refused(format!("order {order} is done")));
        }
        let threads = self.registry.of_order(order)?;
        let mut roots = threads.iter().rev().filter(|root| root.parent.is_none());
        match roots.find(is_live) {
            Some(root) => self.cancel(base, &root.id),
            None => self.withdraw(&standing),
        }
    }

    /// Asks the worker of a thread, or of a run of a graph, to end it. An order to continue it that
    /// no worker took is ended at once.
    ///
    /// # Errors
    /// Kind `Refused` when it has ended, or its record contradicts itself; nothing is changed then.
    pub fn cancel(&self, base: &Engine, id: &ThreadId) -> Result<Cancelled, Error> {
        let order = self.order_of(id)?;
        let standing = self.standing(order)?;
        let looking = self.looking(base)?;
        let ended = looking.ended(id);
        if standing.state == "done" && ended == Some(Status::Suspended) {
            return self.cancel_suspended(base, id, order);
        }
        if standing.state == "done" {
            let status = ended.map_or(
                "not run by any process (hint: threadseal thread recover)",
                |it| it.as_str(),
            );
            let text = format!("{id} is {status}: its order {order} is done");
            return Err(Error::refused(text));
        }
        let threads = self.registry.of_order(order)?;
        match (ended, threads.iter().any(|thread| is_live(&thread))) {
            (Some(_), false) => self.withdraw(&standing),
            (Some(status), true) => Err(Error::refused(format!("{id} is {status}: it has ended"))),
            (None, _) => self.ask(&looking, id, order),
        }
    }

    /// Ends a thread that waits for a person's decision, as `cancelled`. Meanwhile its order is held here;
    /// afterwards it is done, as before.
    fn cancel_suspended(
        &self,
        base: &Engine,
        id: &ThreadId,
        order: i64,
    ) -> Result<Cancelled, Error> {
        self.looking(base)?.check_suspended(id)?;
        let holder = random::array(&*base.services.host.random)?;
        let worker = format!("cancel {}", std::process::id());
        let taken = self.orders.seize(order, &worker, holder, LEASE_TIME)?;
        let taken = taken.ok_or_else(|| {
            Error::refused(format!(
                "order {order} of {id} was taken by a worker at this moment"
            ))
        })?;
        let (asked, cancel) = (Cancel::default(), Cancel::default());
        let held = [&asked, &cancel];
        let ended = while_held(&self.meters, &taken.lease, LEASE_TIME, held, || {
            self.engine(base, &taken.lease)?.cancel_suspended(id)
        });
        let result = json!({"success": false, "thread_id": id.as_str(), "status": Status::Cancelled.as_str(),
                            "error": "it was cancelled while it waited"});
        let result = match (&ended, taken.result) {
            (Err(_), Some(before)) => before,
            _ => result.to_string(),
        };
        taken.lease.finish(&result)?;
        ended.map(|()| Cancelled::Asked(id.clone()))
    }

    /// The state of an order's row.
    pub(super) fn standing(&self, order: i64) -> Result<Standing, Error> {
        let none = || Error::refused(format!("there is no order {order}"));
        self.orders.get(order)?.ok_or_else(none)
    }

    /// Ends an order whose work has not begun.
    fn withdraw(&self, standing: &Standing) -> Result<Cancelled, Error> {
        let order = standing.id;
        let result = json!({"success": false, "status": Status::Cancelled.as_str(),
                            "error": "it was cancelled before a worker took it"});
        match self
            .orders
            .withdraw(order, standing.token, &result.to_string())?
        {
            true => Ok(Cancelled::Order(order)),
            false => Err(Error::refused(format!(
                "a worker is taking order {order}, and its thread does not exist yet; try again"
            ))),
        }
    }

    /// Leaves the request among the files of the order.
    fn ask(&self, looking: &Engine, id: &ThreadId, order: i64) -> Result<Cancelled, Error> {
        let put = |path: &Path, bytes: &[u8]| {
            let name = path.file_name().and_then(|name| name.to_str());
            let path = format!("{THREADS}/{id}/{}", name.unwrap_or_default());
            match files::leave(&self.database, order, &path, bytes)? {
                true => Ok(()),
                false => Err(Error::refused(format!(
                    "{id} ended, or was cancelled, at this moment"
                ))),
            }
        };
        looking.leave_request(id, &put)?;
        Ok(Cancelled::Asked(id.clone()))
    }

    /// Takes the lease of a thread's order from its holder, and ends all work that ran under it, as
    /// `killed`. Meanwhile the order is held as `worker`; afterwards it is done.
    ///
    /// # Errors
    /// Kind `Refused` when the thread has ended, or as [`Engine::recover`]; nothing is changed
    /// then.
    pub fn kill(
        &self,
        base: &Engine,
        id: &ThreadId,
        worker: &str,
        lasts: Duration,
    ) -> Result<Recovered, Error> {
        let order = self.order_of(id)?;
        let looking = self.looking(base)?;
        if let Some(status) = looking.ended(id) {
            let text = format!("{id} is {status}: it has ended, and no lease is revoked");
            return Err(Error::refused(text));
        }
        looking.check_recoverable(id)?;
        let holder = random::array(&*base.services.host.random)?;
        let taken = self.orders.wrest(order, worker, holder, lasts)?;
        let taken = taken.ok_or_else(|| Error::refused(format!("there is no order {order}")))?;
        let (asked, cancel) = (Cancel::default(), Cancel::default());
        let killed = while_held(&self.meters, &taken.lease, lasts, [&asked, &cancel], || {
            self.end_killed(base, id, &taken)
        });
        self.give_back(id, &taken, killed, KILLED)
    }

    /// Ends the work of a worker: children first, the named thread last.
    fn end_killed(&self, base: &Engine, id: &ThreadId, taken: &Taken) -> Result<Recovered, Error> {
        let engine = self.engine(base, &taken.lease)?;
        let threads = self.registry.of_order(taken.lease.order())?;
        let others = |thread: &&Thread| thread.id != *id;
        for thread in threads.iter().rev().filter(others).filter(is_live) {
            match engine.recover_killed(&thread.id) {
                // Its record contradicts itself: recovering it by name reports the error.
                Err(error) if is_final(&error) => taken.lease.check()?,
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        engine.recover_killed(id)
    }
}
