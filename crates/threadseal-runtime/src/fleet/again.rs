//! Continues threads of a database that ended, and ends those whose worker is gone.
//!
//! ```text
//! resume    verify the chain here, write nothing ─► its order ready again, with a new task
//!             ─► any worker
//! recover   no live lease? something to recover, in a record that holds?
//!             ─► order taken here, token + 1 ─► children ended, the thread ended
//!             ─► order done, or, where others of it continue, ready again
//! ```
//! A successor belongs to the order of its predecessor. One lease covers the writes of the link in
//! the old record, the old `thread.json` and the registry. Their seals contain its token, which
//! rises.

use super::Fleet;
use super::database::is_final;
use super::task::{GoOn, Task};
use super::work::{is_live, while_held};
use crate::history::Archive;
use crate::registry::Thread;
use crate::runner::{Engine, GraphResumption, Recovered, ResumeMode, Resumption, may_go_on_from};
use crate::toolbox::Cancel;
use serde_json::json;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_store::postgres::leases::Taken;
use threadseal_store::random;

impl Fleet {
    /// Gives the order to continue a thread that ended or was suspended; returns its number.
    /// `archive` reads this database. A worker verifies all of it again, under the lock of the
    /// record.
    ///
    /// # Errors
    /// Kind `Refused` as [`Engine::resume`], and when the order is not done; nothing is changed
    /// then.
    pub fn resume(
        &self,
        wanted: &Resumption,
        way: ResumeMode,
        archive: &Archive<'_>,
    ) -> Result<i64, Error> {
        let last = may_go_on_from(archive, &wanted.thread)?;
        self.give_anew(&last.clone(), |after| {
            Task::GoOn(Box::new(GoOn {
                wanted: wanted.clone(),
                way,
                last,
                after,
            }))
        })
    }

    /// Gives the order to continue a run of a graph; returns its number.
    ///
    /// # Errors
    /// Kind `Refused` as [`Engine::resume_graph`], and when the order is not done; nothing is
    /// changed then.
    pub fn resume_graph(&self, base: &Engine, wanted: &GraphResumption) -> Result<i64, Error> {
        self.looking(base)?.check_resumable_graph(wanted)?;
        self.give_anew(&wanted.run, |after| Task::WalkOn(wanted.clone(), after))
    }

    /// Makes the order of a thread ready again, with another task.
    fn give_anew(&self, thread: &ThreadId, task: impl FnOnce(u64) -> Task) -> Result<i64, Error> {
        let order = self.order_of(thread)?;
        let standing = self.orders.get(order)?;
        let standing =
            standing.ok_or_else(|| Error::refused(format!("its order {order} does not exist")))?;
        match self
            .orders
            .reopen(order, standing.token, &task(standing.token).to_text())?
        {
            true => Ok(order),
            false => Err(Error::refused(format!(
                "its order {order} is not done: a worker may still continue it"
            ))),
        }
    }

    /// Ends a thread whose worker is gone, with its children, as the next worker does when it
    /// cannot continue the thread. Meanwhile its order is held as `worker`.
    ///
    /// # Errors
    /// Kind `Refused` when a worker holds its order, or as [`Engine::recover`]; nothing is changed
    /// then.
    pub fn recover(
        &self,
        base: &Engine,
        id: &ThreadId,
        worker: &str,
        lasts: Duration,
    ) -> Result<Recovered, Error> {
        let order = self.order_of(id)?;
        self.looking(base)?.check_recoverable(id)?;
        let holder = random::array(&*base.services.host.random)?;
        let taken = self.orders.seize(order, worker, holder, lasts)?;
        let taken = taken.ok_or_else(|| {
            let text = format!("order {order} of {id} is held by a worker that is alive");
            Error::refused(text)
        })?;
        let (asked, cancel) = (Cancel::default(), Cancel::default());
        let recovered = while_held(&taken.lease, lasts, &asked, &cancel, || {
            self.end(base, id, &taken)
        });
        self.give_back(
            id,
            &taken,
            recovered,
            "its worker was lost, and it was recovered by hand",
        )
    }

    fn end(&self, base: &Engine, id: &ThreadId, taken: &Taken) -> Result<Recovered, Error> {
        let engine = self.engine(base, &taken.lease)?;
        let threads = self.registry.of_order(taken.lease.order())?;
        let is_root = |thread: &Thread| thread.id == *id && thread.parent.is_none();
        if threads.iter().any(is_root) {
            let children = |thread: &&Thread| thread.parent.is_some();
            for child in threads.iter().rev().filter(children).filter(is_live) {
                match engine.recover(&child.id) {
                    // Its record contradicts itself: recovering it by name reports the error.
                    Err(error) if is_final(&error) => taken.lease.check()?,
                    Err(error) => return Err(error),
                    Ok(_) => {}
                }
            }
        }
        engine.recover(id)
    }

    pub(super) fn give_back(
        &self,
        id: &ThreadId,
        taken: &Taken,
        recovered: Result<Recovered, Error>,
        why: &str,
    ) -> Result<Recovered, Error> {
        let threads = self.registry.of_order(taken.lease.order())?;
        let others = threads
            .iter()
            .filter(is_live)
            .any(|thread| thread.parent.is_none());
        match (&taken.result, &recovered) {
            (Some(result), _) => taken.lease.finish(result)?,
            (None, Ok(recovered)) if !others => {
                let result = json!({"success": false, "thread_id": id.as_str(),
                                    "status": recovered.status.as_str(),
                                    "error": why});
                taken.lease.finish(&result.to_string())?;
            }
            (None, _) => taken.lease.give_up()?,
        }
        recovered
    }
}
