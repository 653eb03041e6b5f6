//! Trying again where storage fails for a moment.

use std::thread;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};

/// Failures of the storage before the caller gets the error. The library has repeated the request
/// by then, with longer and longer pauses.
const MAX_FAILURES: u32 = 3;
/// Pause after the first of them; it doubles.
const PAUSE: Duration = Duration::from_millis(2);

/// The failures of one task.
#[derive(Debug, Default)]
pub(super) struct Failures(u32);

impl Failures {
    /// Counts one failure and pauses; returns the error when another attempt is no use any more.
    pub(super) fn again(&mut self, error: Error) -> Result<(), Error> {
        self.0 += 1;
        if error.kind() != ErrorKind::External || self.0 > MAX_FAILURES {
            return Err(error);
        }
        thread::sleep(PAUSE * (1 << self.0.min(8)));
        Ok(())
    }

    /// Does `task` until it does not fail any more.
    pub(super) fn until<T>(
        &mut self,
        mut task: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            match task() {
                Err(error) => self.again(error)?,
                done => return done,
            }
        }
    }
}
