//! [`Children`]: the children of one thread, their cost, and which of them still run in parallel.
//!
//! A thread that completes waits for its asynchronous children: their work was requested. One that
//! fails, is suspended or cancelled cancels them. Either way they end before it does, and its
//! record shows how.

use crate::limit::{Cost, Limits, When};
use crate::money::Nanos;
use crate::toolbox::Cancel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use threadseal_core::error::Error;

pub(super) struct Children {
    counts: Mutex<Counts>,
    /// Stops the children that run in parallel with the thread.
    cancel: Cancel,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    spend: Nanos,
    spawns: u64,
    beside: usize,
}

impl Children {
    /// No children yet, of a thread that `cancel` stops.
    pub(super) fn of(cancel: &Cancel) -> Self {
        Self {
            counts: Mutex::default(),
            cancel: cancel.below(),
        }
    }

    /// Their cost, and how many began.
    pub(super) fn spent(&self) -> (Nanos, u64) {
        let counts = self.counts();
        (counts.spend, counts.spawns)
    }

    /// May one more child begin under these limits of the thread?
    ///
    /// # Errors
    /// Kind `Refused` at a limit.
    pub(super) fn may_begin(&self, limits: &Limits) -> Result<(), Error> {
        let (_, spawns) = self.spent();
        let cost = Cost {
            spawns,
            ..Cost::default()
        };
        match limits.check(When::BeforeChild, &cost) {
            None => Ok(()),
            Some(hit) => Err(Error::refused(hit.to_string())),
        }
    }

    pub(super) fn begun(&self) {
        self.counts().spawns += 1;
    }

    /// Counts the end of a child with its cost.
    pub(super) fn ended(&self, spend: Nanos) {
        let mut counts = self.counts();
        counts.spend = counts.spend.saturating_add(spend);
    }

    /// Counts a child that runs in parallel with its parent. Dropping the returned value counts its
    /// end.
    pub(super) fn beside(self: &std::sync::Arc<Self>) -> Beside {
        self.counts().beside += 1;
        Beside(std::sync::Arc::clone(self))
    }

    /// Do some still run in parallel with the thread?
    pub(super) fn is_busy(&self) -> bool {
        self.counts().beside > 0
    }

    /// The signal that stops the parallel children; stopping the thread sets it too.
    pub(super) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A child that runs in parallel with its parent, until dropped.
pub(super) struct Beside(std::sync::Arc<Children>);

impl Drop for Beside {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        counts.beside = counts.beside.saturating_sub(1);
    }
}
