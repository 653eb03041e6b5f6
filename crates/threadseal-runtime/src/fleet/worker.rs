//! [`Worker`]: takes orders and runs them, one after the other.

use super::task::Task;
use super::work::while_held;
use super::{Fleet, HINT_WAIT, is_final};
use crate::bounds::MIN_LEASE_TIME;
use crate::runner::Engine;
use crate::toolbox::Cancel;
use serde_json::{Value, json};
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_store::postgres::leases::Taken;
use threadseal_store::random;

/// A process that takes orders.
pub struct Worker<'a> {
    /// Where they are.
    pub fleet: &'a Fleet,
    /// The engine of their threads; its files, registry, budgets and heads are not used.
    pub engine: &'a Engine,
    /// How it is called, for people.
    pub name: String,
    /// How long an order is held without being renewed.
    pub lease: Duration,
    /// Asked before each order: may its key still seal?
    pub may_seal: &'a dyn Fn() -> Result<(), Error>,
    /// Ends when no order is left, including those of other workers.
    pub until_idle: bool,
    /// Ends after the order it works on, which is cancelled.
    pub cancel: Cancel,
}

/// The counts of a worker's orders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Orders that it brought to an end.
    pub done: u64,
    /// Orders that it took over from a worker that was gone.
    pub taken_over: u64,
    /// Orders that it lost, or gave back.
    pub left: u64,
}

impl Worker<'_> {
    /// Works until it is cancelled, or until nothing is left. `tell` receives a message about each
    /// order that was left.
    ///
    /// # Errors
    /// Kind `InvalidInput` for a lease that is too short, `External` when the server cannot be
    /// reached any more; errors of `may_seal`.
    pub fn work(&self, tell: &mut dyn FnMut(&str)) -> Result<Tally, Error> {
        if self.lease < MIN_LEASE_TIME {
            return Err(Error::invalid(format!(
                "a lease must last at least {} ms",
                MIN_LEASE_TIME.as_millis()
            )));
        }
        let holder = random::array(&*self.engine.services.host.random)?;
        let mut tally = Tally::default();
        while !self.cancel.is_set() {
            (self.may_seal)()?;
            let hints = self.fleet.database.hints()?;
            if let Some(taken) = self.fleet.orders.take(&self.name, holder, self.lease)? {
                tally.taken_over += u64::from(taken.lease.token() > 1);
                match self.attend(&taken) {
                    Ok(()) => tally.done += 1,
                    Err(why) => {
                        tally.left += 1;
                        tell(&format!("order {}: {why}", taken.lease.order()));
                    }
                }
                continue;
            }
            if self.until_idle && self.fleet.orders.open_orders()? == 0 {
                break;
            }
            self.fleet.database.wait(hints, HINT_WAIT.min(self.lease));
        }
        Ok(tally)
    }

    /// Works on one order while another thread renews its lease.
    fn attend(&self, taken: &Taken) -> Result<(), Error> {
        let (lease, cancel) = (&taken.lease, Cancel::default());
        let result = while_held(lease, self.lease, &self.cancel, &cancel, || {
            self.fleet.work_on(self.engine, lease, &taken.task, &cancel)
        });
        Self::conclude(taken, result)
    }

    /// Writes the result of an order, or leaves the order to the next worker.
    fn conclude(taken: &Taken, result: Result<Value, Error>) -> Result<(), Error> {
        let lease = &taken.lease;
        match result {
            Ok(result) => lease.finish(&result.to_string()),
            Err(error) => {
                lease.check()?;
                if is_final(&error) || Task::is_spent(&taken.task, lease) {
                    let result = json!({"success": false, "error": error.to_string()});
                    lease.finish(&result.to_string())?;
                } else {
                    lease.give_up()?;
                }
                Err(error)
            }
        }
    }
}
