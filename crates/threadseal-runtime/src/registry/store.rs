//! [`Registry`]: the operations of each store of threads.

use super::chain::{self, Chain};
use super::recorded::Recorded;
use super::thread::{Filter, Listing, NewThread, Process, Thread};
use crate::limit::Cost;
use crate::status::Status;
use serde_json::Value;
use std::fmt;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;

/// What a registry of many machines gives notice of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A row changed.
    Change,
    /// A thread ended, or was suspended.
    End,
    /// A thread is asked to end, or its worker lost the lease.
    Request,
}

/// A store of threads.
pub trait Registry: fmt::Debug + Send + Sync {
    /// Adds a thread, `created`.
    ///
    /// # Errors
    /// Kind `Refused` when the id is taken, the parent or predecessor is unknown, or the parent has
    /// no spawn left; `External` when the store fails.
    fn create(&self, new: &NewThread<'_>, at: Timestamp) -> Result<(), Error>;

    /// Corrects a row to match the record of its thread, and adds one, `created`, where there is
    /// none. Nothing counts against a parent, which need not exist; a count of children does not
    /// fall.
    ///
    /// # Errors
    /// Kind `External` when the store fails.
    fn enter(&self, said: &Recorded, at: Timestamp) -> Result<(), Error>;

    /// The thread `id`.
    ///
    /// # Errors
    /// Kind `External` when the store fails, `Refused` when it is damaged.
    fn get(&self, id: &ThreadId) -> Result<Option<Thread>, Error>;

    /// Moves a thread to `to` and returns its former status; with `expected`, only from there.
    ///
    /// # Errors
    /// Kind `Refused` when there is no such thread, it has another status, or the table has no such
    /// step (nothing is changed then); `External` when the store fails.
    fn set_status(
        &self,
        id: &ThreadId,
        expected: Option<Status>,
        to: Status,
        at: Timestamp,
    ) -> Result<Status, Error>;

    /// Corrects a row to match the record of its thread, from any status: rows can be edited.
    ///
    /// # Errors
    /// Kind `Refused` when there is no such thread; `External` when the store fails.
    fn correct(&self, id: &ThreadId, to: Status, at: Timestamp) -> Result<(), Error>;

    /// Links `old` to its successor `new`: `old` becomes `continued`.
    ///
    /// # Errors
    /// Kind `Refused` when either is unknown, has such a link already, or `old` may not become
    /// `continued` (nothing is changed then); `External` when the store fails.
    fn link(&self, old: &ThreadId, new: &ThreadId, at: Timestamp) -> Result<(), Error>;

    /// Notes the cost of a thread so far. [`Cost::spawns`] is not taken: creations count those.
    ///
    /// # Errors
    /// Kind `Refused` when there is no such thread, `External` when the store fails.
    fn set_cost(&self, id: &ThreadId, cost: &Cost, at: Timestamp) -> Result<(), Error>;

    /// Notes a thread's result.
    ///
    /// # Errors
    /// As [`Registry::set_cost`].
    fn set_result(&self, id: &ThreadId, result: &Value, at: Timestamp) -> Result<(), Error>;

    /// Notes which process runs a thread.
    ///
    /// # Errors
    /// As [`Registry::set_cost`].
    fn set_process(&self, id: &ThreadId, process: &Process, at: Timestamp) -> Result<(), Error>;

    /// Notes the model that a thread asks.
    ///
    /// # Errors
    /// As [`Registry::set_cost`].
    fn set_model(&self, id: &ThreadId, model: &str, at: Timestamp) -> Result<(), Error>;

    /// Notes the record of a thread's transcript.
    ///
    /// # Errors
    /// As [`Registry::set_cost`]; kind `Refused` also when another record is noted.
    fn set_record(&self, id: &ThreadId, record: &RecordId, at: Timestamp) -> Result<(), Error>;

    /// The threads that `filter` asks for, newest first, without their results.
    ///
    /// # Errors
    /// As [`Registry::get`].
    fn list(&self, filter: &Filter) -> Result<Listing, Error>;

    /// Where it is, for people.
    fn place(&self) -> String;

    /// The number of its notices of this kind; None where it sends none.
    ///
    /// # Errors
    /// Kind `External` when it cannot begin to listen.
    fn notices(&self, subject: Subject) -> Result<Option<u64>, Error> {
        let _ = subject;
        Ok(None)
    }

    /// Waits for a notice after the first `known`, at most `longest` and one poll, or until `stop`.
    /// Notices may be lost: look in any case.
    fn wait_for_notice(
        &self,
        subject: Subject,
        known: u64,
        longest: Duration,
        stop: &dyn Fn() -> bool,
    ) {
        let _ = (subject, known, longest, stop);
    }

    /// The whole chain of `id`, from its first thread on.
    ///
    /// # Errors
    /// As [`Registry::get`]; kind `Refused` when there is no such thread. Faults of the chain are
    /// part of the result.
    fn chain(&self, id: &ThreadId) -> Result<Chain, Error> {
        chain::whole(id, |id| self.get(id))
    }

    /// The last thread of the chain, which waiting for `id` or resuming it means.
    ///
    /// # Errors
    /// As [`Registry::get`]; kind `Refused` when there is no such thread or the chain leads
    /// nowhere.
    fn resolve(&self, id: &ThreadId) -> Result<Thread, Error> {
        chain::last(id, |id| self.get(id))
    }
}
