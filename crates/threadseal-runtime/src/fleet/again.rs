//! Ends threads of a database whose worker is gone.
//!
//! ```text
//! recover   no live lease? something to recover, in a record that holds?
//!             ─► order taken here, token + 1 ─► children ended, the thread ended
//!             ─► order done, or, where others of it continue, ready again
//! ```
//! A successor belongs to the order of its predecessor. One lease covers the writes of the link in
//! the old record, the old `thread.json` and the registry. Their seals contain its token, which
//! rises.

use super::Fleet;
use super::database::is_final;
use super::work::{is_live, while_held};
use crate::registry::Thread;
use crate::runner::{Engine, Recovered};
use crate::toolbox::Cancel;
use serde_json::json;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_store::postgres::leases::Taken;
use threadseal_store::random;

impl Fleet {
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
        let recovered = while_held(&self.meters, &taken.lease, lasts, [&asked, &cancel], || {
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
