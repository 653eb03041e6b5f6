//! [`Brood`]: the children of one thread, what they have cost, and which still run beside it.
//!
//! A thread that ends as it should waits for its asynchronous children: what they do was asked for. One that fails, is
//! suspended or cancelled cancels them. Either way they end before it does, and its record says how.

use crate::money::Nanos;
use crate::toolbox::Cancel;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The children of one thread.
pub(super) struct Brood {
    counts: Mutex<Counts>,
    /// Stops those that run beside it.
    cancel: Cancel,
}

/// What they came to so far.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    spend: Nanos,
    spawns: u64,
    beside: usize,
}

impl Brood {
    /// No children yet, of a thread that `cancel` stops.
    pub(super) fn of(cancel: &Cancel) -> Self {
        Self {
            counts: Mutex::default(),
            cancel: cancel.below(),
        }
    }

    /// What they have cost, and how many began.
    pub(super) fn spent(&self) -> (Nanos, u64) {
        let counts = self.counts();
        (counts.spend, counts.spawns)
    }

    /// One began.
    pub(super) fn begun(&self) {
        self.counts().spawns += 1;
    }

    /// One ended that had cost so much.
    pub(super) fn ended(&self, spend: Nanos) {
        let mut counts = self.counts();
        counts.spend = counts.spend.saturating_add(spend);
    }

    /// One goes on beside its parent. What comes back says that it ended, when it is dropped.
    pub(super) fn beside(self: &std::sync::Arc<Self>) -> Beside {
        self.counts().beside += 1;
        Beside(std::sync::Arc::clone(self))
    }

    /// Do some still run beside the thread?
    pub(super) fn is_busy(&self) -> bool {
        self.counts().beside > 0
    }

    /// What stops those that run beside the thread: also that the thread is stopped.
    pub(super) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A child runs beside its parent.
pub(super) struct Beside(std::sync::Arc<Brood>);

impl Drop for Beside {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        counts.beside = counts.beside.saturating_sub(1);
    }
}
