//! Errors: what the caller should do next.
//!
//! An error means that there is no verdict (bad arguments, an unreadable key, a caller that asks
//! for something forbidden). What is wrong with a *record* is never an error: it is a
//! [`crate::report::Finding`].

use std::fmt;

/// What the caller should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Mend the arguments or the input and call again.
    InvalidInput,
    /// The key, passphrase or key file does not serve; use another.
    Key,
    /// The record does not allow this; do not retry. Verify it and read the report.
    Refused,
    /// Another writer has taken the record over; stop writing, it is his now.
    Superseded,
    /// Beyond a named bound of [`crate::limits`].
    Limit,
    /// A signer, store or other outside part failed; trying again may help.
    External,
}

/// A failure without a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// An error of `kind`; `message` is lower-case and says what to do where that is known.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// Shorthand for [`ErrorKind::InvalidInput`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// Shorthand for [`ErrorKind::Key`].
    pub fn key(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Key, message)
    }

    /// Shorthand for [`ErrorKind::Refused`].
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
