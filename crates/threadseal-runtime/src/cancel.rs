//! [`Cancel`]: the signal that a thread shall stop, for everything that it waits for.
//!
//! ```text
//! asked (a person, a parent, a signal) ─► cancel: asked, or its time is over ─► calls, hooks, models,
//!                                   │                                           waits, children
//!                                   └───► end: asked, or some time later  ───► hooks of its end
//! ```
//! A signal below another one also stops when that one does. So the time of a thread bounds all
//! that is begun in it, at any depth.

use crate::bounds::POLL_INTERVAL;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use threadseal_store::clock::Clock;

/// The signal that a thread shall stop; all clones share it.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    own: Arc<AtomicBool>,
    due: Arc<OnceLock<Deadline>>,
    /// A signal that also stops this one.
    above: Option<Arc<Cancel>>,
}

/// Why something shall stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It was asked to.
    Asked,
    /// The time of its thread, or of one above, is over.
    Late,
}

#[derive(Debug)]
struct Deadline {
    clock: Arc<dyn Clock>,
    /// By the clock's steady time.
    at: Duration,
}

impl Cancel {
    /// Stop.
    pub fn set(&self) {
        self.own.store(true, Ordering::Release);
    }

    /// Stop when `left` is over. The first such time counts.
    pub fn set_after(&self, clock: &Arc<dyn Clock>, left: Duration) {
        let _ = self.due.set(Deadline {
            clock: Arc::clone(clock),
            at: clock.elapsed().saturating_add(left),
        });
    }

    /// The flag that a handler of signals sets.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.own)
    }

    /// Shall it stop?
    pub fn is_set(&self) -> bool {
        self.why().is_some()
    }

    /// Why it shall stop, if it shall. A request counts before the time.
    pub fn why(&self) -> Option<Stopped> {
        if self.any(&|signal| signal.own.load(Ordering::Acquire)) {
            return Some(Stopped::Asked);
        }
        let late = |due: &Deadline| due.clock.elapsed() >= due.at;
        self.any(&|signal| signal.due.get().is_some_and(late))
            .then_some(Stopped::Late)
    }

    fn any(&self, holds: &dyn Fn(&Self) -> bool) -> bool {
        holds(self) || self.above.as_ref().is_some_and(|above| above.any(holds))
    }

    /// One of its own for something that stops when this one is set, and may be stopped alone.
    #[must_use]
    pub fn below(&self) -> Self {
        Self {
            above: Some(Arc::new(self.clone())),
            ..Self::default()
        }
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

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "the thread is cancelled",
            Self::Late => "the time of the thread is over",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_store::clock::ManualClock;

    // T-TOL-34
    #[test]
    fn work_stops_when_its_time_is_over_and_no_sooner() {
        let manual = Arc::new(ManualClock::default());
        let clock: Arc<dyn Clock> = manual.clone();
        let second = Duration::from_secs(1);
        let above = Cancel::default();
        let thread = above.below();
        let call = thread.below();
        // It is set before or after what is below it began.
        thread.set_after(&clock, second);
        thread.set_after(&clock, 9 * second);
        let within = call.below();
        manual.advance_micros(999_999);
        assert_eq!((call.why(), within.why()), (None, None));
        manual.advance_micros(1);
        for late in [&thread, &call, &within] {
            assert_eq!(late.why(), Some(Stopped::Late));
        }
        // Only what is below was stopped; and a request counts before the time.
        assert_eq!(above.why(), None);
        above.set();
        assert_eq!(within.why(), Some(Stopped::Asked));
        assert!(within.within(Duration::from_secs(3600)));
    }
}
