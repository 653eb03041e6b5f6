//! [`Children`]: the children of one thread, their cost, and which of them still run in parallel.
//!
//! A thread waits for its asynchronous children, or cancels them, by `child_policy` and its own end:
//! as shipped it waits where it completed, since their work was requested, and else cancels them.
//! When its time is over it cancels them in any case. They end before it does, and its record shows
//! how.

use super::places::Places;
use crate::bounds::POLL_INTERVAL;
use crate::cancel::Stopped;
use crate::config::resilience::{ChildPolicy, Resilience};
use crate::limit::{Cost, Limits, When};
use crate::money::Nanos;
use crate::toolbox::Cancel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use threadseal_core::error::Error;

pub(super) struct Children {
    counts: Mutex<Counts>,
    /// Notified when a child ends.
    changed: Condvar,
    /// How many run at once at most, and what happens to them when the thread ends.
    settings: Resilience,
    /// Stops the thread.
    thread: Cancel,
    /// Stops the children that run in parallel with the thread.
    cancel: Cancel,
    places: Arc<Places>,
}

/// How a thread with children ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParentEnd {
    /// It completed, or hands over.
    Complete,
    /// It failed, or is suspended or at a limit.
    Error,
    /// It was cancelled.
    Cancel,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    spend: Nanos,
    spawns: u64,
    /// Those that run, or are about to begin.
    running: u64,
    beside: usize,
}

impl Children {
    /// No children yet, of a thread that `cancel` stops.
    pub(super) fn of(cancel: &Cancel, settings: &Resilience, places: Arc<Places>) -> Self {
        Self {
            counts: Mutex::default(),
            changed: Condvar::new(),
            settings: settings.clone(),
            thread: cancel.clone(),
            cancel: match settings.on_parent_cancel {
                ChildPolicy::CascadeCancel => cancel.below(),
                // Waiting for them ends with the time of the thread.
                ChildPolicy::Allow => Cancel::default(),
            },
            places,
        }
    }

    /// Cancels those that still run, where the policy for this end of the thread asks for that, or
    /// its time is over.
    pub(super) fn thread_ends(&self, end: ParentEnd) {
        let policy = match end {
            ParentEnd::Complete => self.settings.on_parent_complete,
            ParentEnd::Error => self.settings.on_parent_error,
            ParentEnd::Cancel => self.settings.on_parent_cancel,
        };
        let stops = match self.thread.why() {
            // Those below the thread's signal are late themselves.
            Some(Stopped::Late) => self.settings.on_parent_cancel == ChildPolicy::Allow,
            _ => policy == ChildPolicy::CascadeCancel,
        };
        if stops {
            self.cancel.set();
        }
    }

    /// A place for a child that its caller waits for, once there is one. Dropping the returned value
    /// frees it.
    ///
    /// # Errors
    /// Kind `Refused` when the thread was stopped meanwhile.
    pub(super) fn place(self: &Arc<Self>, cancel: &Cancel) -> Result<Place, Error> {
        let mut counts = self.counts();
        while counts.running >= self.settings.max_concurrent_children {
            if cancel.is_set() {
                let text = "the thread was stopped while it waited for a child to end";
                return Err(Error::refused(text));
            }
            let waited = self.changed.wait_timeout(counts, POLL_INTERVAL);
            counts = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        counts.running += 1;
        Ok(Place(Arc::clone(self)))
    }

    /// A place for a child that runs in parallel with the thread.
    ///
    /// # Errors
    /// Kind `Refused` when as many run as may.
    pub(super) fn place_now(self: &Arc<Self>) -> Result<Place, Error> {
        let mut counts = self.counts();
        if counts.running >= self.settings.max_concurrent_children {
            return Err(Error::refused(format!(
                "children_exceeded: {0} of {0} children run (concurrency.max_concurrent_children); hint: wait for one",
                self.settings.max_concurrent_children
            )));
        }
        counts.running += 1;
        Ok(Place(Arc::clone(self)))
    }

    /// Their cost, and how many began.
    pub(super) fn spent(&self) -> (Nanos, u64) {
        let counts = self.counts();
        (counts.spend, counts.spawns)
    }

    /// May one more child begin under these limits of the thread? Its row of the budgets is right
    /// then.
    ///
    /// # Errors
    /// Kind `Refused` at a limit; errors of the budgets.
    pub(super) fn may_begin(&self, limits: &Limits) -> Result<(), Error> {
        self.places.left_to_spend()?;
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
    pub(super) fn beside(self: &Arc<Self>) -> Beside {
        self.counts().beside += 1;
        Beside(Arc::clone(self))
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

/// The place of a child that runs, until dropped.
pub(super) struct Place(Arc<Children>);

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        counts.running = counts.running.saturating_sub(1);
        self.0.changed.notify_all();
    }
}

/// A child that runs in parallel with its parent, until dropped.
pub(super) struct Beside(Arc<Children>);

impl Drop for Beside {
    fn drop(&mut self) {
        let mut counts = self.0.counts();
        counts.beside = counts.beside.saturating_sub(1);
    }
}
