//! The work of an order's holder.

use super::Fleet;
use super::database::is_final;
use super::folders::thread_of;
use super::giving::OrderEnd;
use super::meters::Meters;
use crate::bounds::CANCEL_POLL;
use crate::limit::Limits;
use crate::project::TRANSCRIPT_FILE;
use crate::registry::{Registry as _, Thread};
use crate::runner::orchestrator::Records;
use crate::runner::{Adoption, Engine, Fixed, GraphOrder, GraphResumption, Order, Resumption};
use crate::signed_order::{Task, VerifiedOrder};
use crate::status::Status;
use crate::toolbox::Cancel;
use serde_json::{Value, json};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::postgres::leases::Lease;
use threadseal_store::postgres::{Channel, Marks, files};

/// Does `work` while another thread renews the lease. Sets `cancel` when the lease is lost or cannot
/// be renewed in its time, or where `asked` is set.
pub(super) fn while_held<T>(
    meters: &Meters,
    lease: &Lease,
    lasts: Duration,
    [asked, cancel]: [&Cancel; 2],
    work: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        let (stop, stopped) = channel::<()>();
        scope.spawn(move || {
            let mut keeper = Keeper::of(meters, lease, lasts);
            while stopped.recv_timeout(keeper.pause()) == Err(RecvTimeoutError::Timeout) {
                // A worker that lost it stops, with its tools.
                if asked.is_set() || !keeper.keeps() {
                    cancel.set();
                }
            }
        });
        let done = work();
        drop(stop);
        done
    })
}

/// Renews a lease at each third of its time, and looks when a notice of a request arrives: another
/// process may have taken it.
struct Keeper<'a> {
    meters: &'a Meters,
    lease: &'a Lease,
    lasts: Duration,
    /// When it was renewed, and when that was tried.
    renewed: Duration,
    tried: Duration,
    marks: Option<Marks>,
}

impl<'a> Keeper<'a> {
    fn of(meters: &'a Meters, lease: &'a Lease, lasts: Duration) -> Self {
        let now = SystemClock.elapsed();
        Self {
            meters,
            lease,
            lasts,
            renewed: now,
            tried: now,
            marks: lease.database().marks().ok(),
        }
    }

    /// Until it looks again.
    fn pause(&self) -> Duration {
        CANCEL_POLL.min(self.lasts / 6)
    }

    /// Does it still hold, as far as is known? A server that is away for a moment takes no lease.
    fn keeps(&mut self) -> bool {
        let asked = self.is_asked();
        let now = SystemClock.elapsed();
        if now.saturating_sub(self.tried) < self.lasts / 3 {
            return !asked || !is_lost(&self.lease.check());
        }
        self.tried = now;
        let renewed = self.lease.renew(self.lasts);
        match renewed {
            Ok(()) => {
                self.renewed = now;
                self.meters.answered();
            }
            Err(_) => Meters::count(&self.meters.errors),
        }
        !is_lost(&renewed) && now.saturating_sub(self.renewed) < self.lasts
    }

    /// Did a request come since the last look?
    fn is_asked(&mut self) -> bool {
        let Ok(now) = self.lease.database().marks() else {
            return false;
        };
        let before = self.marks.replace(now);
        before.is_some_and(|before| now.differ(&before, &[Channel::Requests]))
    }
}

fn is_lost(checked: &Result<(), Error>) -> bool {
    let kind = checked.as_ref().err().map(Error::kind);
    kind == Some(ErrorKind::Superseded)
}

/// Does its row claim that it runs, although its worker holds no lease any more?
pub(super) fn is_live(thread: &&Thread) -> bool {
    matches!(thread.status, Ok(Status::Created | Status::Running))
}

/// An order in the hands of its worker.
pub(super) struct Held<'a> {
    pub(super) order: &'a VerifiedOrder,
    pub(super) lease: &'a Lease,
    /// The worker's own limits.
    pub(super) limits: &'a Limits,
    pub(super) cancel: &'a Cancel,
}

impl Fleet {
    /// Works on an order that is held, from its current state to its end; gives its result. `tell`
    /// receives a message about each thread that is left as it is.
    pub(super) fn work_on(
        &self,
        base: &Engine,
        held: &Held<'_>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Value, Error> {
        let engine = self.engine(base, held.lease)?;
        let records = Records::from(&engine.services);
        if let Some(result) = self.settle(&engine, &records, held, tell)? {
            return Ok(result);
        }
        let (number, record) = (held.lease.order(), held.order.record());
        match self.result_of(&records, number, &record)? {
            Some(OrderEnd::Ended(result)) => Ok(result),
            Some(OrderEnd::Refused(_, why)) => Err(Error::refused(why)),
            _ if held.order.is_spent(held.lease.token()) => Err(spent()),
            _ => held.begin(&engine),
        }
    }

    /// Continues or ends the threads that an earlier worker left. The result of the last root,
    /// where one was left with a record.
    fn settle(
        &self,
        engine: &Engine,
        records: &Records,
        held: &Held<'_>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Option<Value>, Error> {
        let lease = held.lease;
        // Under the first token nothing had begun.
        if lease.token() <= 1 {
            return Ok(None);
        }
        let first = held.order.record();
        let rows = self.registry.of_order(lease.order())?;
        let mut lost = self.lost(lease)?;
        if let Task::Adopt(from) = &held.order.line().task {
            // It is only read, and may have no row yet.
            lost.retain(|id| *id != from.last);
        }
        if lost.is_empty() && !rows.iter().any(|row| is_live(&row)) {
            return Ok(None);
        }
        let ids = rows.iter().map(|row| row.id.clone());
        let kin = records.kin(&first, ids.chain(lost.iter().cloned()).collect())?;
        for id in &lost {
            match kin.contains(id) {
                // Otherwise the order's work would begin anew.
                true => drop(engine.recover(id)?),
                false => tell(&left_alone(id)),
            }
        }
        let rows = self.registry.of_order(lease.order())?;
        let (mut roots, mut children) = (Vec::new(), Vec::new());
        for row in rows.iter().filter(is_live) {
            // A record that cannot be trusted is named by the attempt to continue it.
            let is_kin = kin.contains(&row.id) || row.record == Some(first);
            match (is_kin, row.parent.is_some()) {
                (false, _) => tell(&left_alone(&row.id)),
                (true, true) => children.push(row),
                (true, false) => roots.push(row),
            }
        }
        let ends = held.order.is_spent(lease.token());
        // Threads that others started end: the call that waited for them is gone.
        for child in children.into_iter().rev() {
            Self::go_on(engine, records, child, held, ends)?;
        }
        let mut result = None;
        for root in roots {
            let ended = match held.order.line().task {
                // A run of a graph ends with its worker, and a new one continues it.
                Task::Graph | Task::WalkOn(_) => Self::walk_on(engine, records, root, held, ends)?,
                Task::Run | Task::GoOn(_) | Task::Adopt(_) => {
                    Self::go_on(engine, records, root, held, ends)?
                }
            };
            result = ended.or(result);
        }
        Ok(result)
    }

    /// The threads with files of this order whose rows are gone.
    fn lost(&self, lease: &Lease) -> Result<Vec<ThreadId>, Error> {
        let mut lost = Vec::new();
        for path in files::of_order(&self.database, lease.order(), TRANSCRIPT_FILE)? {
            if let Some(id) = thread_of(&path)
                && self.registry.get(&id)?.is_none()
            {
                lost.push(id);
            }
        }
        Ok(lost)
    }

    /// Ends a run of a graph whose worker is gone, and continues it in a new one if no call has an unknown
    /// outcome. None where it had left no record.
    fn walk_on(
        engine: &Engine,
        records: &Records,
        run: &Thread,
        held: &Held<'_>,
        ends: bool,
    ) -> Result<Option<Value>, Error> {
        let has_record = records.has_record(&run.id);
        let had_ended = engine.ended(&run.id).is_some();
        let recovered = engine.recover(&run.id)?;
        if has_record && !had_ended && !ends {
            match engine.continue_graph(&run.id, held.cancel) {
                Ok(ran) => return Ok(Some(ran.to_json())),
                // A person decides, or it cannot continue at all.
                Err(error) if is_final(&error) => held.lease.check()?,
                Err(error) => return Err(error),
            }
        }
        Ok(has_record.then(|| {
            json!({"success": false, "thread_id": run.id.as_str(), "status": recovered.status.as_str(),
                   "error": "its worker was lost; see: threadseal graph resume",
                   "unresolved": recovered.unresolved})
        }))
    }

    /// Continues a thread, or ends it where that cannot be; None where it had left no record.
    fn go_on(
        engine: &Engine,
        records: &Records,
        root: &Thread,
        held: &Held<'_>,
        ends: bool,
    ) -> Result<Option<Value>, Error> {
        let has_record = records.has_record(&root.id);
        if has_record {
            match engine.take_over(&root.id, ends, held.cancel) {
                Ok(ran) => return Ok(Some(ran.to_json())),
                Err(error) if is_final(&error) => held.lease.check()?,
                Err(error) => return Err(error),
            }
        }
        let recovered = engine.recover(&root.id)?;
        Ok(has_record.then(|| {
            json!({"success": false, "thread_id": root.id.as_str(),
                   "status": recovered.status.as_str(), "error": "its worker was lost"})
        }))
    }
}

impl Held<'_> {
    /// Begins what is ordered: nothing of it began before.
    fn begin(&self, engine: &Engine) -> Result<Value, Error> {
        self.order.may_begin(engine.services.host.clock.now()?)?;
        let (line, fixed) = (self.order.line(), Fixed::of(self.order, self.limits));
        let (inputs, limits) = (line.inputs.clone(), Limits::default());
        let cancel = self.cancel.clone();
        let ran = match &line.task {
            Task::Run => {
                let directive = line.item.clone();
                let order = Order {
                    directive,
                    inputs,
                    limits,
                    cancel,
                };
                engine.run_fixed(&order, &fixed)
            }
            Task::Graph => {
                let graph = line.item.clone();
                let order = GraphOrder {
                    graph,
                    inputs,
                    limits,
                    cancel,
                };
                engine.run_graph_fixed(&order, &fixed)
            }
            Task::GoOn(task) => {
                let wanted = Resumption {
                    thread: task.thread.clone(),
                    message: task.message.clone(),
                    limits,
                    cancel,
                };
                engine.resume_fixed(&wanted, task.way, &fixed)
            }
            Task::WalkOn(task) => {
                let wanted = GraphResumption {
                    run: task.from.last.clone(),
                    unresolved: task.unresolved,
                    limits,
                    cancel,
                };
                engine.resume_graph_fixed(&wanted, &fixed)
            }
            Task::Adopt(from) => {
                let wanted = Adoption {
                    thread: from.last.clone(),
                    directive: Some(line.item.clone()),
                    inputs,
                    cancel,
                };
                engine.adopt_fixed(&wanted, &fixed)
            }
        };
        Ok(ran?.to_json())
    }
}

fn left_alone(id: &ThreadId) -> String {
    format!("{id} is under the order by its row, but not by its record, and is left as it is")
}

fn spent() -> Error {
    Error::refused("too many workers were lost over it")
}
