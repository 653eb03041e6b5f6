//! [`Worker`]: takes orders and runs them, one after the other.
//!
//! ```text
//! row ─► taken ─► line read, its signature, key, database, row and token checked ─► worked on
//!          │        └─ no: set aside, named, the next one
//!          └─ a row that cannot be taken: set aside, named
//! ```
//! No row ends a worker: only the server, the disk or its own key does.

use super::Fleet;
use super::database::is_final;
use super::meters::Meters;
use super::work::{Held, while_held};
use crate::bounds::MIN_LEASE_TIME;
use crate::limit::Limits;
use crate::project::ProjectId;
use crate::runner::Engine;
use crate::signed_order::{OrderGrounds, SignedOrder, VerifiedOrder};
use crate::toolbox::Cancel;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::KeyId;
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::postgres::leases::{Lease, Taken};
use threadseal_store::postgres::{Channel, Marks};
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

/// After so many failures a worker leaves an order to others for a while: what fails may be this machine.
const MAX_FAILURES: u32 = 3;
/// For so long: no other worker may be there.
const MAX_ABSENCE: Duration = Duration::from_secs(300);
/// After so many failures under all workers an order is set aside.
const MAX_ORDER_FAILURES: i32 = 6;
/// How often an idle worker looks for rows that cannot be taken, and names its session.
const CARE: Duration = Duration::from_secs(30);
/// So many errors in a row, while the server is there, end a worker.
const MAX_ERRORS: u32 = 3;
/// How long a server may be away, and how often it is looked for.
const MAX_AWAY: Duration = Duration::from_secs(300);
const AWAY_PAUSE: Duration = Duration::from_secs(1);
/// As [`MAX_FAILURES`], where its lease was lost: the next holder may be this worker once more.
const MAX_LOSSES: u32 = 8;

/// How an order left a worker.
enum Ended {
    Done,
    SetAside(Error),
    /// It failed too often under all workers, and its row is set aside already.
    Failed(String),
    Left(Error),
}

/// What a worker knows of its orders.
struct Rounds {
    holder: [u8; 16],
    database: ProjectId,
    tally: Tally,
    /// Rows that cannot even be set aside.
    except: Vec<i64>,
    /// When it last looked for rows that cannot be taken.
    cared: Option<Duration>,
    /// Rounds in a row that the database, or another part of the surroundings, failed.
    errors: u32,
    /// How often each failed, and since when it is left out for that.
    failed: BTreeMap<i64, (u32, Option<Duration>)>,
}

impl Rounds {
    /// The rows that are left out now.
    fn except(&self) -> Vec<i64> {
        let now = SystemClock.elapsed();
        let is_out = |since: Option<Duration>| {
            since.is_some_and(|since| now.saturating_sub(since) < MAX_ABSENCE)
        };
        let failed = self.failed.iter();
        let failed = failed.filter_map(|(row, (_, since))| is_out(*since).then_some(*row));
        self.except.iter().copied().chain(failed).collect()
    }

    /// Notes that an order failed; true where it is left out from now on.
    fn fails(&mut self, order: i64, why: &Error) -> bool {
        let (times, since) = self.failed.entry(order).or_default();
        *times += 1;
        let most = match why.kind() {
            ErrorKind::Superseded => MAX_LOSSES,
            _ => MAX_FAILURES,
        };
        let is_out = *times >= most;
        if is_out {
            *times = 0;
            *since = Some(SystemClock.elapsed());
        }
        is_out
    }
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
        let mut rounds = Rounds {
            holder: random::array(&*self.engine.services.host.random)?,
            database: self.fleet.project_id()?,
            tally: Tally::default(),
            except: Vec::new(),
            cared: None,
            errors: 0,
            failed: BTreeMap::new(),
        };
        self.fleet.orders.announce()?;
        self.end_orphans(tell)?;
        while !self.cancel.is_set() {
            match self.round(&mut rounds, tell) {
                Ok(true) => rounds.errors = 0,
                Ok(false) => break,
                Err(error) => {
                    rounds.errors += 1;
                    self.wait_for_server(error, rounds.errors, tell)?;
                }
            }
        }
        Ok(rounds.tally)
    }

    /// Works on the next order, or waits for one; false where none is left to wait for.
    fn round(&self, rounds: &mut Rounds, tell: &mut dyn FnMut(&str)) -> Result<bool, Error> {
        (self.may_seal)()?;
        let marks = self.fleet.database.marks()?;
        let (orders, meters) = (&self.fleet.orders, &self.fleet.meters);
        let except = rounds.except();
        Meters::count(&meters.polls);
        let taken = orders.take(&self.name, rounds.holder, self.lease, &except)?;
        meters.answered();
        if let Some(taken) = taken {
            self.take_up(rounds, &taken, tell)?;
            return Ok(true);
        }
        // A notice wakes all idle workers: what is no order can wait.
        let now = SystemClock.elapsed();
        let is_due = |at: Duration| now.saturating_sub(at) >= CARE;
        if self.until_idle || rounds.cared.is_none_or(is_due) {
            rounds.tally.set_aside += self.put_aside(&mut rounds.except, &except, tell)?;
            orders.announce()?;
            rounds.cared = Some(now);
        }
        let except = rounds.except();
        if self.until_idle && orders.open_orders(&except)? == 0 {
            return Ok(false);
        }
        self.rest(&marks, &except)?;
        Ok(true)
    }

    /// Ends threads whose order is done: an order that was set aside leaves them running by their rows.
    fn end_orphans(&self, tell: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let healed = self
            .fleet
            .end_orphans(self.engine, &self.name, self.lease, false);
        match healed {
            Ok(healed) => {
                for one in healed {
                    let end = one.end.map(|recovered| recovered.status.as_str());
                    let end = end.unwrap_or("not ended: its record does not verify");
                    tell(&format!("{} had no worker: {end}", one.id));
                }
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::External => Err(error),
            Err(error) => {
                tell(&format!("threads without a worker were left: {error}"));
                Ok(())
            }
        }
    }

    /// Waits until a server that is away is there again. Returns an error of another cause, and the last
    /// of several in a row while the server is there.
    fn wait_for_server(
        &self,
        error: Error,
        errors: u32,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let database = &self.fleet.database;
        Meters::count(&self.fleet.meters.errors);
        let is_there = || database.is_there();
        let is_lasting = || database.is_given_up() || (errors >= MAX_ERRORS && is_there());
        if error.kind() != ErrorKind::External || is_lasting() {
            return Err(error);
        }
        tell(&format!("the database failed, and is asked again: {error}"));
        let began = SystemClock.elapsed();
        while !self.cancel.within(AWAY_PAUSE) {
            if is_there() {
                return Ok(());
            }
            if SystemClock.elapsed().saturating_sub(began) >= MAX_AWAY {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Works on an order that was taken.
    fn take_up(
        &self,
        rounds: &mut Rounds,
        taken: &Taken,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let (meters, tally) = (&self.fleet.meters, &mut rounds.tally);
        if taken.lease.token() > 1 {
            tally.taken_over += 1;
            Meters::count(&meters.taken_over);
        }
        let number = taken.lease.order();
        let mut of_order = |what: &str| tell(&format!("order {number}: {what}"));
        if !taken.is_kept {
            tally.left += 1;
            Meters::count(&meters.left);
            of_order(&taken.replaced().to_string());
            rounds.except.push(number);
            return Ok(());
        }
        meters.is_busy.store(true, Ordering::Relaxed);
        let ended = self.attend(taken, rounds.database, &mut of_order);
        meters.is_busy.store(false, Ordering::Relaxed);
        match ended? {
            Ended::Done => {
                tally.done += 1;
                Meters::count(&meters.done);
            }
            Ended::Left(why) => {
                tally.left += 1;
                Meters::count(&meters.left);
                if why.kind() == ErrorKind::Superseded {
                    Meters::count(&meters.leases_lost);
                }
                of_order(&why.to_string());
                if rounds.fails(number, &why) {
                    of_order("it failed too often here, and is left to other workers");
                }
            }
            Ended::Failed(why) => {
                tally.set_aside += 1;
                Meters::count(&meters.set_aside);
                of_order(&format!("set aside: {why}"));
                self.end_orphans(tell)?;
            }
            Ended::SetAside(why) => {
                tally.set_aside += 1;
                Meters::count(&meters.set_aside);
                of_order(&format!("set aside: {why}"));
                if !Self::set_aside(&taken.lease, &why)? {
                    rounds.except.push(number);
                }
            }
        }
        Ok(())
    }

    /// Waits for an order: one that is given, or one that others leave.
    fn rest(&self, marks: &Marks, except: &[i64]) -> Result<(), Error> {
        let due = self.fleet.orders.next_due(except)?;
        let longest = due.map_or(Duration::MAX, |left| left.max(MIN_LEASE_TIME));
        // The last order that others hold may end.
        let channels: &[Channel] = match self.until_idle {
            true => &[Channel::Orders, Channel::Ends],
            false => &[Channel::Orders],
        };
        let stop = || self.cancel.is_set();
        self.fleet.database.wait(channels, marks, longest, &stop);
        Ok(())
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
        let meters = &self.fleet.meters;
        let result = while_held(meters, lease, self.lease, [&self.cancel, &cancel], || {
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
        let (error, ends) = match result {
            Ok(result) => match lease.finish(&result.to_string()) {
                Ok(()) => return Ended::Done,
                Err(error) => (error, false),
            },
            Err(error) => {
                let ends = is_final(&error) || held.order.is_spent(lease.token());
                (error, ends)
            }
        };
        match lease.check() {
            Err(lost) => Ended::Left(lost),
            Ok(()) if ends => Ended::SetAside(error),
            Ok(()) => Self::give_back(lease, error),
        }
    }

    /// Leaves an order that failed to the next worker, or ends it where it failed too often.
    fn give_back(lease: &Lease, error: Error) -> Ended {
        let why = format!("it failed {MAX_ORDER_FAILURES} times, at last: {error}");
        match lease.give_up_failed(MAX_ORDER_FAILURES, &why, &failure(&why)) {
            Ok(true) => Ended::Failed(why),
            Ok(false) => Ended::Left(error),
            Err(lost) => Ended::Left(lost),
        }
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

    /// Sets the rows aside that no worker takes; those that refuse it are entered in `refusing`. Their
    /// number.
    fn put_aside(
        &self,
        refusing: &mut Vec<i64>,
        except: &[i64],
        tell: &mut dyn FnMut(&str),
    ) -> Result<u64, Error> {
        let orders = &self.fleet.orders;
        let unusable = orders.unusable(except)?;
        for (number, why) in &unusable {
            tell(&format!("order {number}: set aside: {why}"));
            if orders.set_aside(*number, why, &failure(why)).is_err() {
                refusing.push(*number);
            }
        }
        Ok(unusable.len() as u64)
    }
}

/// The result of an order that was set aside.
fn failure(why: &str) -> String {
    json!({"success": false, "error": why}).to_string()
}
