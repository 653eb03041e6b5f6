//! The work of an order's holder.

use super::Fleet;
use super::database::is_final;
use super::folders::thread_of;
use super::task::Task;
use crate::project::TRANSCRIPT_FILE;
use crate::registry::{Registry as _, Thread};
use crate::runner::{Engine, Ran, ResumeMode};
use crate::status::Status;
use crate::toolbox::Cancel;
use serde_json::{Value, json};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_store::postgres::files;
use threadseal_store::postgres::leases::Lease;

/// Does `work` while another thread renews the lease. Sets `cancel` when the lease is lost, or
/// where `asked` is set.
pub(super) fn while_held<T>(
    lease: &Lease,
    lasts: Duration,
    asked: &Cancel,
    cancel: &Cancel,
    work: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        let (stop, stopped) = channel::<()>();
        scope.spawn(move || {
            loop {
                match stopped.recv_timeout(lasts / 3) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
                // A worker that lost it stops, with its tools.
                if asked.is_set() || lease.renew(lasts).is_err() {
                    cancel.set();
                }
            }
        });
        let done = work();
        drop(stop);
        done
    })
}

/// Does its row claim that it runs, although its worker holds no lease any more?
pub(super) fn is_live(thread: &&Thread) -> bool {
    matches!(thread.status, Ok(Status::Created | Status::Running))
}

impl Fleet {
    /// Works on an order that is held, from its current state to its end; gives its result.
    pub(super) fn work_on(
        &self,
        base: &Engine,
        lease: &Lease,
        task: &str,
        cancel: &Cancel,
    ) -> Result<Value, Error> {
        let engine = self.engine(base, lease)?;
        self.enter_lost(&engine, lease)?;
        let threads = self.registry.of_order(lease.order())?;
        let ends = Task::is_spent(task, lease);
        let task = Task::parse(task, cancel);
        // A run of a graph ends with its worker: its successor decides about its calls, and about
        // limits.
        let walks = task.as_ref().is_ok_and(Task::is_of_graph);
        let of_others = |thread: &&Thread| thread.parent.is_some();
        // Threads that others started end: the call that waited for them is gone.
        for child in threads.iter().rev().filter(of_others).filter(is_live) {
            self.go_on(&engine, child, lease, ends, cancel)?;
        }
        let roots: Vec<&Thread> = threads
            .iter()
            .filter(|thread| thread.parent.is_none())
            .collect();
        let mut result = None;
        for root in roots.iter().copied().filter(is_live) {
            let ended = match walks {
                true => Self::end_run(&engine, root)?,
                false => self.go_on(&engine, root, lease, ends, cancel)?,
            };
            result = ended.or(result);
        }
        if let Some(result) = result {
            return Ok(result);
        }
        match &task {
            Ok(Task::GoOn(task)) => {
                let go_on = || match task.way {
                    ResumeMode::Resume => engine.resume(&task.wanted),
                    ResumeMode::HandOver => engine.handoff(&task.wanted),
                };
                return self.take_up(&task.wanted.thread, &task.last, ends, &go_on);
            }
            Ok(Task::WalkOn(wanted, _)) => {
                let walk_on = || engine.resume_graph(wanted);
                return self.take_up(&wanted.run, &wanted.run, ends, &walk_on);
            }
            _ => {}
        }
        let ended = roots.iter().rev().find_map(|root| root.result.as_deref());
        match (ended.and_then(|text| serde_json::from_str(text).ok()), ends) {
            (Some(ended), _) => Ok(ended),
            (None, true) => Err(spent()),
            // Nothing had begun, or it left no record.
            (None, false) => match task? {
                Task::GraphRun(order) => Ok(engine.run_graph(&order)?.to_json()),
                Task::Run(order) => Ok(engine.run(&order)?.to_json()),
                Task::GoOn(_) | Task::WalkOn(..) => Err(spent()),
            },
        }
    }

    /// Ends the threads of an order whose rows are gone, and enters them again; otherwise the
    /// order's work would begin anew.
    fn enter_lost(&self, engine: &Engine, lease: &Lease) -> Result<(), Error> {
        // Under the first token nothing had begun.
        if lease.token() <= 1 {
            return Ok(());
        }
        for path in files::of_order(&self.database, lease.order(), TRANSCRIPT_FILE)? {
            if let Some(id) = thread_of(&path)
                && self.registry.get(&id)?.is_none()
            {
                engine.recover(&id)?;
            }
        }
        Ok(())
    }

    /// Continues `last`, at which the chain of `thread` ended, unless an earlier worker already
    /// did.
    fn take_up(
        &self,
        thread: &ThreadId,
        last: &ThreadId,
        ends: bool,
        go_on: &dyn Fn() -> Result<Ran, Error>,
    ) -> Result<Value, Error> {
        let now = self.registry.resolve(thread)?;
        if now.id != *last {
            let result = now.result.as_deref();
            let result = result.and_then(|text| serde_json::from_str(text).ok());
            let lost = || {
                json!({"success": false, "thread_id": now.id.as_str(),
                       "error": "its worker was lost"})
            };
            return Ok(result.unwrap_or_else(lost));
        }
        if ends {
            return Err(spent());
        }
        Ok(go_on()?.to_json())
    }

    /// Ends a run of a graph whose worker is gone; None where it had left no record.
    fn end_run(engine: &Engine, run: &Thread) -> Result<Option<Value>, Error> {
        let transcript = engine.services.project.thread(&run.id).transcript();
        let has_record = engine.services.host.fs.metadata(&transcript).is_ok();
        let recovered = engine.recover(&run.id)?;
        Ok(has_record.then(|| {
            json!({"success": false, "thread_id": run.id.as_str(), "status": recovered.status.as_str(),
                   "error": "its worker was lost; see: threadseal graph resume",
                   "unresolved": recovered.unresolved})
        }))
    }

    /// Continues a thread, or ends it where that cannot be; None where it had left no record.
    fn go_on(
        &self,
        engine: &Engine,
        root: &Thread,
        lease: &Lease,
        ends: bool,
        cancel: &Cancel,
    ) -> Result<Option<Value>, Error> {
        let transcript = engine.services.project.thread(&root.id).transcript();
        let has_record = engine.services.host.fs.metadata(&transcript).is_ok();
        if has_record {
            match engine.take_over(&root.id, ends, cancel) {
                Ok(ran) => return Ok(Some(ran.to_json())),
                Err(error) if is_final(&error) => lease.check()?,
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

fn spent() -> Error {
    Error::refused("too many workers were lost over it")
}
