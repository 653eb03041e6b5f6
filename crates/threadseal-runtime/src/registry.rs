//! [`Registry`]: the threads of a project, their states, costs and successors.
//!
//! ```text
//! threads              Rye's table, its columns and its words        (`thread_registry.py`)
//! threadseal_threads   values without a column there: money in billionths, the process's start,
//!                      the record, the fence; beside Rye's table, never in it
//! ```
//! A status changes only along the table of [`crate::status`], by compare-and-swap. The link of a
//! chain is written completely, in both directions and with the new status, or not at all. A
//! child's creation counts against its parent's limit in the same transaction.
//!
//! Registries are not signed. An attacker who can write the file controls all its contents. So
//! facts that matter (permissions, whether a thread ended) are read from signed files, and
//! [`inspect`] reports contradictions in a registry. Ids are checked before they may become paths:
//! a row with an invalid id is never returned.

mod chain;
mod free;
mod inspect;
mod late;
#[cfg(feature = "postgres")]
mod postgres;
mod recorded;
mod row;
mod rules;
mod schema;
mod sqlite;
mod viewed;

pub use chain::{Chain, ChainFault};
pub use inspect::{Fault, Inspection, contradictions, inspect};
pub use late::LateRegistry;
#[cfg(feature = "postgres")]
pub use postgres::PostgresRegistry;
pub use recorded::Recorded;
pub use sqlite::{RegistryView, SqliteRegistry};
pub use viewed::ViewedRegistry;

pub(crate) use free::create_free;
pub(crate) use inspect::{check_rows, looked_at};
pub(crate) use late::{make_folder, once};
pub(crate) use recorded::suits;
pub(crate) use row::{count_of, real_of, text_of};

use crate::limit::Cost;
use crate::money::Nanos;
use crate::status::Status;
use serde_json::Value;
use std::fmt;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};
use threadseal_core::time::Timestamp;

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

    /// The number of its change notices; None where it sends none.
    ///
    /// # Errors
    /// Kind `External` when it cannot begin to listen.
    fn hints(&self) -> Result<Option<u64>, Error> {
        Ok(None)
    }

    /// Waits for a change notice after the first `hints`, at most `longest`. Notices may be lost:
    /// read the rows in any case.
    fn wait_for_hint(&self, hints: u64, longest: Duration) {
        let _ = (hints, longest);
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

/// A thread to be.
#[derive(Debug, Clone)]
pub struct NewThread<'a> {
    /// Its id.
    pub id: &'a ThreadId,
    /// The directive or graph that it runs.
    pub directive: &'a str,
    /// Where it comes from.
    pub origin: Origin<'a>,
    /// The model it asks, where that is known.
    pub model: Option<&'a str>,
    /// The record of its transcript, where that is drawn already.
    pub record: Option<RecordId>,
    /// The process that runs it.
    pub process: Option<Process>,
}

/// Where a thread comes from.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// It has no parent.
    Root,
    /// Another thread started it.
    Child {
        /// Which one.
        parent: &'a ThreadId,
        /// How many children that one may start.
        max_spawns: Option<u64>,
    },
    /// It will continue `of`, and has the same parent; [`Registry::link`] follows once it is
    /// recorded.
    Successor {
        /// The thread before.
        of: &'a ThreadId,
    },
}

/// A process, distinguished from a later one of the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it began, in the system's own notation; compared as text.
    pub started: String,
}

/// A thread, as a registry has it. Times are the stored text.
#[derive(Debug, Clone, PartialEq)]
pub struct Thread {
    /// Its id.
    pub id: ThreadId,
    /// The directive or graph that it runs.
    pub directive: String,
    /// The thread that started it.
    pub parent: Option<String>,
    /// Its status, or the word that is no status.
    pub status: Result<Status, String>,
    /// When it was created, changed, and ended.
    pub created_at: Option<String>,
    /// See [`Thread::created_at`].
    pub updated_at: Option<String>,
    /// See [`Thread::created_at`].
    pub completed_at: Option<String>,
    /// Its result, as JSON text; None in listings.
    pub result: Option<String>,
    /// Turns of the model.
    pub turns: u64,
    /// Tokens that the model read.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// Money.
    pub spend: Nanos,
    /// Children that it started.
    pub spawns: u64,
    /// Number of the process that runs it.
    pub pid: Option<u32>,
    /// When that process began ([`Process::started`]); None in rows of Rye.
    pub process_started: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The thread before it in its chain.
    pub continuation_of: Option<String>,
    /// The thread after it.
    pub continuation: Option<String>,
    /// The first of its chain; None in that one itself.
    pub chain_root: Option<String>,
    /// The record of its transcript; None in rows of Rye.
    pub record: Option<RecordId>,
    /// The number of its takeovers: never falls.
    pub fence: u64,
}

impl Thread {
    /// Does the row match this cost? Its time is inexact, and it does not show how children were
    /// counted.
    pub fn cost_is(&self, cost: &Cost) -> bool {
        (
            self.turns,
            self.input_tokens,
            self.output_tokens,
            self.spend,
        ) == (
            cost.turns,
            cost.input_tokens,
            cost.output_tokens,
            cost.spend,
        )
    }

    /// Its status.
    ///
    /// # Errors
    /// Kind `Refused` when the registry has a word that is none.
    pub fn standing(&self) -> Result<Status, Error> {
        self.status.as_ref().copied().map_err(|word| {
            Error::refused(format!(
                "the registry gives {} the status {word:?}, which is not valid",
                self.id
            ))
        })
    }

    /// The process that runs it, where it can be distinguished from a later one.
    pub fn process(&self) -> Option<Process> {
        Some(Process {
            pid: self.pid?,
            started: self.process_started.clone()?,
        })
    }
}

/// Which threads to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// With one of these; all when empty.
    pub statuses: Vec<Status>,
    /// Of this directive.
    pub directive: Option<String>,
    /// Started by this thread.
    pub parent: Option<ThreadId>,
    /// At most so many; all when None.
    pub limit: Option<usize>,
}

impl Filter {
    /// The children of `parent`.
    pub fn children_of(parent: &ThreadId) -> Self {
        Self {
            parent: Some(parent.clone()),
            ..Self::default()
        }
    }

    /// The threads that have not ended.
    pub fn active() -> Self {
        let active = Status::ALL.into_iter().filter(|s| !s.is_terminal());
        Self {
            statuses: active.collect(),
            ..Self::default()
        }
    }
}

/// The result of a listing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The threads, newest first.
    pub threads: Vec<Thread>,
    /// Rows whose id must not become a path, and that are left out.
    pub unusable: u64,
}

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
