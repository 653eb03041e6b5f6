//! The only place that reads a clock.
//!
//! The core takes "now" as an argument; a caller gets it from a [`Clock`]. Wall time may jump,
//! because a person can set it. [`Clock::elapsed`] never goes back and serves for intervals only.

use std::fmt;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::time::Timestamp;

/// A source of time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The present wall time.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the clock is before 1970 or beyond 9999.
    fn now(&self) -> Result<Timestamp, Error>;

    /// Time since some fixed moment of this process.
    fn elapsed(&self) -> Duration;
}

/// The computer's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the place that reads the clock"
    )]
    fn now(&self) -> Result<Timestamp, Error> {
        let unusable = || {
            Error::new(
                ErrorKind::External,
                "the computer's clock is before 1970 or beyond 9999; set it and try again",
            )
        };
        let since_1970 = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_err(|_| unusable())?;
        let micros = u64::try_from(since_1970.as_micros()).map_err(|_| unusable())?;
        Timestamp::from_micros(micros).map_err(|_| unusable())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the place that reads the clock"
    )]
    fn elapsed(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
}

/// A clock that changes only when a test advances it.
#[cfg(any(test, feature = "fault"))]
#[derive(Debug, Default)]
pub struct ManualClock(std::sync::atomic::AtomicU64);

#[cfg(any(test, feature = "fault"))]
impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> Self {
        Self(start.as_micros().into())
    }

    /// Moves the clock on.
    pub fn advance_micros(&self, micros: u64) {
        self.0
            .fetch_add(micros, std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(any(test, feature = "fault"))]
impl Clock for ManualClock {
    fn now(&self) -> Result<Timestamp, Error> {
        Timestamp::from_micros(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_time_is_after_this_was_written_and_intervals_do_not_go_back() {
        let written = Timestamp::parse_iso_seconds("2026-02-18T10:30:00Z").unwrap();
        assert!(SystemClock.now().unwrap() > written);
        let first = SystemClock.elapsed();
        assert!(SystemClock.elapsed() >= first);
    }

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(Timestamp::from_micros(5).unwrap());
        assert_eq!(clock.now().unwrap().as_micros(), 5);
        clock.advance_micros(7);
        assert_eq!(clock.now().unwrap().as_micros(), 12);
        assert_eq!(clock.elapsed(), Duration::from_micros(12));
    }
}
