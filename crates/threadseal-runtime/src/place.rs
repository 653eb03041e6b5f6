//! A place in a project's files, for errors.
//!
//! ```text
//! FILE:LINE: message        the fault
//! FILE: message             when no line is known
//! ```

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};

/// A file, and a line of it from 1; 0 where no line is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    file: Arc<str>,
    line: u64,
}

impl Place {
    /// The file as a whole. `file` is shown as it is.
    pub fn new(file: &str) -> Self {
        Self {
            file: file.into(),
            line: 0,
        }
    }

    /// Line `line` of the same file.
    #[must_use]
    pub fn at(&self, line: u64) -> Self {
        Self {
            file: Arc::clone(&self.file),
            line,
        }
    }

    /// The file as it was named.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1; 0 where none is known.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// An error at this place.
    pub fn error(&self, message: impl fmt::Display) -> Error {
        self.located(ErrorKind::InvalidInput, message)
    }

    /// The place in this file that an error names, and the rest of its message.
    pub fn split(&self, error: &Error) -> (Self, String) {
        let located = error.source().and_then(|source| source.downcast_ref());
        match located {
            Some(Located { place, message }) if place.file == self.file => {
                (place.clone(), message.clone())
            }
            _ => (self.at(0), error.to_string()),
        }
    }

    /// An error about an exceeded bound at this place.
    pub fn beyond(&self, message: impl fmt::Display) -> Error {
        self.located(ErrorKind::Limit, message)
    }

    /// A refusal at this place, of a file that is well-formed.
    pub fn refused(&self, message: impl fmt::Display) -> Error {
        self.located(ErrorKind::Refused, message)
    }

    /// The refusal of a member that only a signed file may have.
    pub(crate) fn unvouched(&self, what: impl fmt::Display) -> Error {
        self.refused(format!(
            "{what} is never taken from an unsigned file, also with --allow-unsigned; hint: \
             threadseal seal {}",
            self.file
        ))
    }

    fn located(&self, kind: ErrorKind, message: impl fmt::Display) -> Error {
        let (place, message) = (self.clone(), message.to_string());
        let located = Located { place, message };
        Error::new(kind, located.to_string()).with_source(located)
    }
}

/// A message and its place: the source of each error at a place.
#[derive(Debug)]
struct Located {
    place: Place,
    message: String,
}

impl fmt::Display for Located {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.message)
    }
}

impl StdError for Located {}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.file)?;
        match self.line {
            0 => Ok(()),
            line => write!(out, ":{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_and_line_where_one_is_known() {
        let file = Place::new("a/b.yaml");
        assert_eq!(
            file.at(7).error("bad").to_string(),
            "a/b.yaml:7: bad".to_owned()
        );
        assert_eq!(file.error("bad").to_string(), "a/b.yaml: bad");
        assert_eq!(file.at(3).beyond("much").kind(), ErrorKind::Limit);
        let split = |error: &Error| file.at(1).split(error);
        assert_eq!(
            split(&file.at(7).error("a: b")),
            (file.at(7), "a: b".to_owned())
        );
        assert_eq!(split(&file.error("bad")), (file.clone(), "bad".to_owned()));
        assert_eq!(
            split(&Error::invalid("x: y")),
            (file.clone(), "x: y".to_owned())
        );
    }
}
