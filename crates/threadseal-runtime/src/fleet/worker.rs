//! [`Worker`]: takes orders and runs them, one after the other.
//!
//! ```text
//! row ─► taken ─► line read, its signature, key, database, row and token checked ─► worked on
//!          │        └─ no: set aside, named, the next one
//!          └─ a row that cannot be taken: set aside, named
//! ```
//! No row ends a worker: only the server, the disk or its own key does.

use super::Fleet;
use super::database::{HINT_WAIT, is_final};
use super::work::{Held, while_held};
use crate::bounds::MIN_LEASE_TIME;
use crate::limit::Limits;
use crate::project::ProjectId;
use crate::runner::Engine;
use crate::signed_order::{OrderGrounds, SignedOrder, VerifiedOrder};
use crate::toolbox::Cancel;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::KeyId;
use threadseal_store::postgres::leases::{Lease, Taken};
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
    /// The keys whose orders it carries out; each must be trusted, too.
    pub orders_from: Vec<KeyId>,
    /// No thread that it begins has a higher limit.
    pub limits: Limits,
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
    /// Rows that are no order for it, or whose order cannot be carried out.
    pub set_aside: u64,
}

/// After so many failures a worker takes an order no more: what fails may be its rows alone.
const MAX_FAILURES: u32 = 3;
/// As [`MAX_FAILURES`], where its lease was lost: the next holder may be this worker once more.
const MAX_LOSSES: u32 = 8;

/// How an order left a worker.
enum Ended {
    Done,
    SetAside(Error),
    Left(Error),
}

impl Worker<'_> {
    /// Works until it is cancelled, or until nothing is left. `tell` receives a message about each
    /// order that was left or set aside, by its number.
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
        let database = self.fleet.project_id()?;
        let mut tally = Tally::default();
        // Rows that cannot even be set aside, or failed too often.
        let mut except: Vec<i64> = Vec::new();
        let mut failed: BTreeMap<i64, u32> = BTreeMap::new();
        self.fleet.orders.announce()?;
        while !self.cancel.is_set() {
            (self.may_seal)()?;
            let hints = self.fleet.database.hints()?;
            let orders = &self.fleet.orders;
            if let Some(taken) = orders.take(&self.name, holder, self.lease, &except)? {
                tally.taken_over += u64::from(taken.lease.token() > 1);
                let number = taken.lease.order();
                let mut of_order = |what: &str| tell(&format!("order {number}: {what}"));
                if !taken.is_kept {
                    tally.left += 1;
                    of_order(&taken.replaced().to_string());
                    except.push(number);
                    continue;
                }
                match self.attend(&taken, database, &mut of_order)? {
                    Ended::Done => tally.done += 1,
                    Ended::Left(why) => {
                        tally.left += 1;
                        of_order(&why.to_string());
                        let times = failed.entry(number).or_default();
                        *times += 1;
                        let most = match why.kind() {
                            ErrorKind::Superseded => MAX_LOSSES,
                            _ => MAX_FAILURES,
                        };
                        if *times >= most {
                            of_order("it failed too often here, and is left to other workers");
                            except.push(number);
                        }
                    }
                    Ended::SetAside(why) => {
                        tally.set_aside += 1;
                        of_order(&format!("set aside: {why}"));
                        if !Self::set_aside(&taken.lease, &why)? {
                            except.push(number);
                        }
                    }
                }
                continue;
            }
            tally.set_aside += self.put_aside(&mut except, tell)?;
            orders.announce()?;
            if self.until_idle && orders.open_orders(&except)? == 0 {
                break;
            }
            self.fleet.database.wait(hints, HINT_WAIT.min(self.lease));
        }
        Ok(tally)
    }

    /// Works on one order while another thread renews its lease.
    fn attend(
        &self,
        taken: &Taken,
        database: ProjectId,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Ended, Error> {
        let (lease, cancel) = (&taken.lease, Cancel::default());
        let order = match self.verified(taken, database) {
            Ok(order) => order,
            Err(error) if is_final(&error) => return Ok(Ended::SetAside(error)),
            Err(error) => return Err(error),
        };
        let held = Held {
            order: &order,
            lease,
            limits: &self.limits,
            cancel: &cancel,
        };
        let result = while_held(lease, self.lease, &self.cancel, &cancel, || {
            self.fleet.work_on(self.engine, &held, tell)
        });
        Ok(Self::conclude(&held, result))
    }

    /// The order of a row, if it is one for this worker.
    fn verified(&self, taken: &Taken, database: ProjectId) -> Result<VerifiedOrder, Error> {
        let services = &self.engine.services;
        let line = SignedOrder::read(&taken.task);
        let line = line.ok_or_else(|| {
            Error::refused("it is not signed, or was changed; hint: give it again")
        })?;
        line.verify(&OrderGrounds {
            keys: &self.orders_from,
            trust: &services.trust,
            now: services.host.clock.now()?,
            database,
            row: taken.lease.order(),
            token: taken.lease.token(),
        })
    }

    /// Writes the result of an order, or leaves the order to the next worker.
    fn conclude(held: &Held<'_>, result: Result<Value, Error>) -> Ended {
        let lease = held.lease;
        let written = match result {
            Ok(result) => match lease.finish(&result.to_string()) {
                Ok(()) => return Ended::Done,
                Err(error) => error,
            },
            Err(error) => match lease.check() {
                Err(lost) => lost,
                Ok(()) if is_final(&error) || held.order.is_spent(lease.token()) => {
                    return Ended::SetAside(error);
                }
                Ok(()) => lease.give_up().err().unwrap_or(error),
            },
        };
        Ended::Left(written)
    }

    /// Sets a taken order aside. False where its row refuses that.
    fn set_aside(lease: &Lease, why: &Error) -> Result<bool, Error> {
        let why = why.to_string();
        match lease.set_aside(&why, &failure(&why)) {
            Ok(()) => Ok(true),
            // Another process holds it by now, and sees the same.
            Err(error) if error.kind() == ErrorKind::Superseded => Ok(true),
            // Is it the row, or the server?
            Err(_) => lease.check().map(|()| false),
        }
    }

    /// Sets the rows aside that no worker takes; those that refuse it are entered in `except`. Their
    /// number.
    fn put_aside(&self, except: &mut Vec<i64>, tell: &mut dyn FnMut(&str)) -> Result<u64, Error> {
        let orders = &self.fleet.orders;
        let unusable = orders.unusable(except)?;
        for (number, why) in &unusable {
            tell(&format!("order {number}: set aside: {why}"));
            if orders.set_aside(*number, why, &failure(why)).is_err() {
                except.push(*number);
            }
        }
        Ok(unusable.len() as u64)
    }
}

/// The result of an order that was set aside.
fn failure(why: &str) -> String {
    json!({"success": false, "error": why}).to_string()
}
