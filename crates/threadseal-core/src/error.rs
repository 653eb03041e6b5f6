//! Errors, by the action that the caller should take.
//!
//! An error means that there is no verdict. Examples are bad arguments, an unreadable key, or a
//! forbidden request. A fault in a *record* is never an error: it is a [`crate::report::Finding`].

use std::fmt;

/// The action that the caller should take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Correct the arguments or the input and call again.
    InvalidInput,
    /// The key, passphrase or key file does not fit; use another.
    Key,
    /// The record does not allow this; do not retry. Verify it and read the report.
    Refused,
    /// Another writer owns the record; stop writing.
    Superseded,
    /// The input exceeds a named bound of [`crate::limits`].
    Limit,
    /// A signer, store or other outside part failed; a retry may help.
    External,
}

/// A failure without a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// An error of `kind`. `message` is lower-case and names a remedy where one is known.
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

    /// The action that the caller should take.
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
