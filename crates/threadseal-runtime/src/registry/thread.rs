//! [`Thread`]: the row of a thread, and the values that a row begins with.

use crate::limit::Cost;
use crate::money::Nanos;
use crate::status::Status;
use threadseal_core::error::Error;
use threadseal_core::record::{RecordId, ThreadId};

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
    /// How many threads of a project in files may be `created` or `running` with it; None for any
    /// number. A successor takes the place of its predecessor.
    pub most_running: Option<u64>,
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
    pub(crate) fn cost_is(&self, cost: &Cost) -> bool {
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
        // The error may become part of a record, so the word of the row is not in it.
        self.status.as_ref().copied().map_err(|_| {
            Error::refused(format!(
                "the registry gives {} a status that is not valid; hint: threadseal thread inspect",
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
