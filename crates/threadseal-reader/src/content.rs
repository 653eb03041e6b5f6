//! [`Content`]: the bytes of one file, wherever they are, and what is known beside them.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::Path;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_LINE_BYTES;

/// The bytes of a file, which may be read in any order and more than once.
pub trait Content {
    /// Why bytes cannot be read.
    type Error;

    /// The name of the file. Nothing is opened by it.
    fn path(&self) -> &Path;

    /// Its size.
    fn size(&self) -> u64;

    /// Hands over the bytes from `from` to `to`, in pieces and in order, until `each` breaks.
    ///
    /// # Errors
    /// When they cannot be read.
    fn read(
        &self,
        from: u64,
        to: u64,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Self::Error>;

    /// All bytes, of at most `most`.
    ///
    /// # Errors
    /// When there are more, or they cannot be read.
    fn whole(&self, most: usize) -> Result<Cow<'_, [u8]>, Self::Error>;

    /// Is there a seal file beside it?
    fn is_sealed(&self) -> bool;

    /// Does an SQLite file contain records? Where it cannot be opened, one of `marks` decides.
    ///
    /// # Errors
    /// When it cannot be read.
    fn holds_records(&self, marks: &[&[u8]]) -> Result<bool, Self::Error>;

    /// The error for a line that is too long.
    fn line_too_long(&self, line: LineTooLong) -> Self::Error;
}

/// No line feed came within [`MAX_LINE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTooLong {
    /// The number of the line, from 1.
    pub number: u64,
}

impl std::fmt::Display for LineTooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = self.number;
        write!(f, "line {number} is longer than {MAX_LINE_BYTES} bytes")
    }
}

/// A file in memory.
#[derive(Debug, Clone, Copy)]
pub struct InMemory<'b> {
    /// Its name.
    pub name: &'b str,
    /// Its bytes.
    pub bytes: &'b [u8],
    /// Is there a seal file beside it?
    pub is_sealed: bool,
}

impl InMemory<'_> {
    /// `name: why`
    pub(crate) fn error(&self, kind: ErrorKind, why: &str) -> Error {
        Error::new(kind, format!("{}: {why}", self.name))
    }
}

impl Content for InMemory<'_> {
    type Error = Error;

    fn path(&self) -> &Path {
        Path::new(self.name)
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(
        &self,
        from: u64,
        to: u64,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let place = |at: u64| {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            at.min(self.bytes.len())
        };
        let piece = self.bytes.get(place(from)..place(to)).unwrap_or_default();
        if !piece.is_empty() {
            // All of them are one piece, so a break ends nothing.
            let _ = each(piece);
        }
        Ok(())
    }

    fn whole(&self, most: usize) -> Result<Cow<'_, [u8]>, Error> {
        let size = self.bytes.len();
        if size > most {
            let name = self.name;
            let text = format!("{name} has {size} bytes, more than the {most} that are read");
            return Err(Error::new(ErrorKind::Limit, text));
        }
        Ok(Cow::Borrowed(self.bytes))
    }

    fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    fn holds_records(&self, _: &[&[u8]]) -> Result<bool, Error> {
        Ok(true)
    }

    fn line_too_long(&self, line: LineTooLong) -> Error {
        self.error(ErrorKind::Refused, &line.to_string())
    }
}
