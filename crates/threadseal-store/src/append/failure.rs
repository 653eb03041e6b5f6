//! [`FirstFailure`]: the first error of an appender, which writes nothing more afterwards.

use threadseal_core::error::Error;

/// The first failure of an appender, if there was one.
#[derive(Debug, Default)]
pub(crate) struct FirstFailure(Option<Error>);

impl FirstFailure {
    /// Refuses everything after a failure.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Some(first) = &self.0 else {
            return Ok(());
        };
        let text = format!("nothing more is written after an earlier failure: {first}");
        Err(Error::new(first.kind(), text))
    }

    /// Returns `result`. An error is also kept, and the bytes in `buffer` are discarded.
    pub(crate) fn keep<T>(
        &mut self,
        buffer: &mut Vec<u8>,
        result: Result<T, Error>,
    ) -> Result<T, Error> {
        if let Err(error) = &result {
            buffer.clear();
            self.0 = Some(error.clone());
        }
        result
    }
}
