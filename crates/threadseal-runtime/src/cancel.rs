//! [`Cancel`]: the word that a thread shall stop, for whatever it is waiting for.

use crate::bounds::POLL_INTERVAL;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Says that a thread shall stop; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    own: Arc<AtomicBool>,
    /// What stops it, too.
    above: Option<Arc<Cancel>>,
}

impl Cancel {
    /// Stop.
    pub fn set(&self) {
        self.own.store(true, Ordering::Release);
    }

    /// What a handler of signals sets.
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

    /// Waits that long, or until it shall stop. Shall it?
    pub fn within(&self, mut wait: Duration) -> bool {
        while !wait.is_zero() && !self.is_set() {
            let slice = wait.min(POLL_INTERVAL);
            std::thread::sleep(slice);
            wait -= slice;
        }
        self.is_set()
    }
}
