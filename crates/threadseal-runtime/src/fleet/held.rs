//! Writes files of a thread whose work is done, for callers that are no workers.

use super::Fleet;
use super::work::while_held;
use crate::toolbox::Cancel;
use std::path::Path;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_store::host::Host;
use threadseal_store::random;

impl Fleet {
    /// Does `work` on the files of a thread, which are below `/` in the host that it receives.
    /// Meanwhile the thread's order is held as `worker`; afterwards its state is as before.
    ///
    /// # Errors
    /// Kind `Refused` when a worker holds the order, or there is none; `External` when the server
    /// or the disk fails.
    pub fn with_files<T>(
        &self,
        local: &Host,
        id: &ThreadId,
        worker: &str,
        lasts: Duration,
        work: impl FnOnce(&Host) -> T,
    ) -> Result<T, Error> {
        let order = self.order_of(id)?;
        let holder = random::array(&*local.random)?;
        let taken = self.orders.seize(order, worker, holder, lasts)?;
        let taken = taken.ok_or_else(|| {
            let text = format!("order {order} of {id} is held by a worker that is alive");
            Error::refused(text)
        })?;
        let (asked, cancel) = (Cancel::default(), Cancel::default());
        let done = while_held(&self.meters, &taken.lease, lasts, [&asked, &cancel], || {
            let host = self.host(local, Path::new("/"), Some(&taken.lease))?;
            Ok(work(&host))
        });
        match &taken.result {
            Some(result) => taken.lease.finish(result)?,
            None => taken.lease.give_up()?,
        }
        done
    }
}
