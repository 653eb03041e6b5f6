//! [`Cancel`]: the signal that a thread shall stop, for everything that it waits for.

use crate::bounds::POLL_INTERVAL;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The signal that a thread shall stop; all clones share it.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    own: Arc<AtomicBool>,
    /// A signal that also stops this one.
    above: Option<Arc<Cancel>>,
}

impl Cancel {
    /// Stop.
    pub fn set(&self) {
        self.own.store(true, Ordering::Release);
    }

    /// The flag that a handler of signals sets.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.own)
    }

    /// Shall it stop?
    pub fn is_set(&self) -> bool {
        self.own.load(Ordering::Acquire) || self.above.as_ref().is_some_and(|above| above.is_set())
    }

    /// One of its own for something that stops when this one is set, and may be stopped alone.
    #[must_use]
    pub fn below(&self) -> Self {
        Self {
            own: Arc::default(),
            above: Some(Arc::new(self.clone())),
        }
    }

    /// Runs `work`, which shall stop when this signal is set, or after `most` where there is a
    /// bound.
    pub fn for_at_most<T>(&self, most: Option<Duration>, work: impl FnOnce(&Self) -> T) -> T {
        let own = self.below();
        let Some(most) = most else {
            return work(&own);
        };
        thread::scope(|scope| {
            let (working, over) = mpsc::channel::<()>();
            let late = own.clone();
            let watch = move || {
                if over.recv_timeout(most) == Err(RecvTimeoutError::Timeout) {
                    late.set();
                }
            };
            if thread::Builder::new().spawn_scoped(scope, watch).is_err() {
                // No one would stop it later.
                own.set();
            }
            let done = work(&own);
            drop(working);
            done
        })
    }

    /// Waits that long, or until it shall stop. Shall it?
    pub fn within(&self, mut wait: Duration) -> bool {
        while !wait.is_zero() && !self.is_set() {
            let slice = wait.min(POLL_INTERVAL);
            thread::sleep(slice);
            wait -= slice;
        }
        self.is_set()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // T-TOL-34
    #[test]
    fn work_stops_when_its_time_is_over_and_no_sooner() {
        let above = Cancel::default();
        let hour = Duration::from_secs(3600);
        assert!(!above.for_at_most(Some(hour), Cancel::is_set));
        assert!(!above.for_at_most(None, Cancel::is_set));
        assert!(above.for_at_most(Some(Duration::ZERO), |own| own.within(hour)));
        // Only it was stopped.
        assert!(!above.is_set());
        above.set();
        assert!(above.for_at_most(Some(hour), Cancel::is_set));
    }
}
