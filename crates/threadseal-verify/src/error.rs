//! [`VerifyError`]: why there is no verdict.
//!
//! What is wrong with a record is never an error: it is a finding of its report.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::sys;

/// A failure without a verdict: one sentence in lower case, its kind, and the error that caused it.
#[derive(Debug, Clone)]
pub struct VerifyError {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl VerifyError {
    /// An error of `kind` with this sentence.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
        }
    }

    /// The caller asks for something that does not fit together.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// The bytes, or this host's knowledge of them, do not allow a verdict.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// `cannot <action> <path>: <reason>`
    pub fn io(action: &str, path: &Path, error: &io::Error) -> Self {
        let reason = sys::reason(error);
        Self {
            kind: ErrorKind::External,
            message: format!("cannot {action} {}: {reason}", path.display()),
            source: Some(Arc::new(io::Error::new(error.kind(), reason))),
        }
    }

    /// Puts the file that the error is about before the sentence.
    #[must_use]
    pub fn about(self, path: &Path) -> Self {
        Self {
            message: format!("{}: {}", path.display(), self.message),
            ..self
        }
    }

    /// The same error, with `source` as its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for VerifyError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<Error> for VerifyError {
    fn from(error: Error) -> Self {
        Self {
            kind: error.kind(),
            message: sys::message(&error),
            source: Some(Arc::new(error)),
        }
    }
}

impl From<VerifyError> for Error {
    fn from(error: VerifyError) -> Self {
        Self::new(error.kind, error.message.clone()).with_source(error)
    }
}

/// Does the system answer that no file has this path? No other error means that.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_kind_and_its_source_and_shows_no_number() {
        let cause = io::Error::from_raw_os_error(2);
        let error = VerifyError::io("read", Path::new("a"), &cause).about(Path::new("b"));
        assert_eq!(
            error.to_string(),
            "b: cannot read a: No such file or directory"
        );
        assert!(error.source().is_some());
        let system = io::Error::from_raw_os_error(5);
        let failed = Error::refused(format!("no: {system}")).with_source(system);
        let back = Error::from(VerifyError::from(failed));
        assert_eq!(
            (back.kind(), &*back.to_string()),
            (ErrorKind::Refused, "no: Input/output error")
        );
    }
}
