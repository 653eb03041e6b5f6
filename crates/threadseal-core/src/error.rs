//! Errors, by the action that the caller should take.
//!
//! An error means that there is no verdict. Examples are bad arguments, an unreadable key, or a
//! forbidden request. A fault in a *record* is never an error: it is a [`crate::report::Finding`].

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

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

/// A part that this program was built without: the source of the [`Error`] about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unbuilt {
    /// Ledgers in SQLite files.
    Sqlite,
    /// Stores in PostgreSQL.
    Postgres,
    /// Stores in object storage.
    Objects,
    /// Requests over HTTP.
    Http,
    /// The keyring of the user.
    Keyring,
    /// Time stamps of RFC 3161 authorities.
    TimeStamps,
    /// Threads in databases.
    ThreadDatabases,
}

impl fmt::Display for Unbuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "PostgreSQL",
            Self::Objects => "object storage",
            Self::Http => "requests over HTTP",
            Self::Keyring => "the keyring",
            Self::TimeStamps => "time stamps",
            Self::ThreadDatabases => "databases of threads",
        };
        write!(f, "this program was built without {part}")
    }
}

impl StdError for Unbuilt {}

impl Unbuilt {
    /// The part that `error` is about, if it is about one.
    pub fn cause_of(error: &(dyn StdError + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(part) = error.downcast_ref() {
                return Some(*part);
            }
            cause = error.source();
        }
        None
    }

    /// The error that `action` needs this part: `cannot <action>: <part is not built>`.
    pub fn error(self, action: impl fmt::Display) -> Error {
        Error::invalid(format!("cannot {action}: {self}")).with_source(self)
    }
}

/// A failure without a verdict.
///
/// The message is complete: it names the cause as well. The source is the cause as a value, for
/// programs that act on it. Two errors are equal if their kinds and messages are.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind`. `message` is lower-case and names a remedy where one is known.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
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

    /// The same error, with `source` as its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The action that the caller should take.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.message) == (other.kind, &other.message)
    }
}

impl Eq for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_source_is_found_again_as_the_type_that_it_was() {
        let plain = Error::new(ErrorKind::External, "cannot read a: permission denied");
        assert!(plain.source().is_none());
        let cause = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = plain.clone().with_source(cause);
        let source = error.source().and_then(|source| source.downcast_ref());
        let source: &io::Error = source.unwrap();
        assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(error, plain);
    }
}
