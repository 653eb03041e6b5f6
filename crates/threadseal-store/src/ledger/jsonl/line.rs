//! The lines of a ledger file, and the few facts that a store knows of each.
//!
//! A line is a record when it is one JSON object as Python reads it. AbstractRuntime's files may
//! contain `NaN`, duplicate names and lone surrogates, and a store keeps them as they are.
//! Verification judges them.

use crate::ledger::{COMPLETED, Entry};
use crate::sys::{self, FileHandle};
use std::path::Path;
use threadseal_core::canon::json::{Value, parse_python};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_LINE_BYTES;

/// Bytes that are read at once.
const BLOCK: usize = 256 << 10;

/// The facts that a store knows of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) hash: Option<Digest>,
    pub(super) key: Option<String>,
    pub(super) completed: bool,
}

impl Facts {
    /// Those of a record that is being written.
    pub(super) fn of_entry(entry: &Entry) -> Self {
        Self {
            hash: entry.record_hash,
            key: entry.idempotency_key.clone(),
            completed: entry.status == COMPLETED,
        }
    }

    /// Those of a line; `None` when it is no record.
    pub(super) fn of_line(line: &[u8]) -> Option<Self> {
        let value = parse_python(line).ok()?.value;
        value.as_object()?;
        let text = |name| value.get(name).and_then(Value::as_str);
        Some(Self {
            hash: text("record_hash").and_then(Digest::parse_hex),
            key: text("idempotency_key").map(str::to_owned),
            completed: text("status") == Some(COMPLETED),
        })
    }

    /// The key by which the record is found when it is completed.
    pub(super) fn completed_key(&self) -> Option<&str> {
        self.key.as_deref().filter(|_| self.completed)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'b> {
    /// Its offset in the file.
    pub(super) offset: u64,
    /// Its bytes without LF.
    pub(super) bytes: &'b [u8],
    /// Does an LF end it?
    pub(super) terminated: bool,
}

/// The kind of a line for a store.
#[derive(Debug)]
pub(super) enum Kind {
    /// A record; its LF may be missing at the end of the file.
    Record(Facts),
    /// The rest of a crash: the file ends in it, or it contains a NUL byte. No writer of JSON
    /// writes NUL, but a file system that lost a page does.
    Torn,
    Other,
}

impl Line<'_> {
    pub(super) fn kind(&self) -> Kind {
        match Facts::of_line(self.bytes) {
            Some(facts) => Kind::Record(facts),
            None if !self.terminated || memchr::memchr(0, self.bytes).is_some() => Kind::Torn,
            None => Kind::Other,
        }
    }
}

/// The lines of `start..end` of an open file, holding one line or one block of it.
#[derive(Debug)]
pub(super) struct Lines<'f> {
    file: &'f dyn FileHandle,
    path: &'f Path,
    /// The end of the buffer in the file.
    read: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were handed out.
    used: usize,
}

impl<'f> Lines<'f> {
    pub(super) fn new(file: &'f dyn FileHandle, path: &'f Path, start: u64, end: u64) -> Self {
        Self {
            file,
            path,
            read: start,
            end,
            buffer: Vec::new(),
            used: 0,
        }
    }

    /// The next line.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] for a line longer than [`MAX_LINE_BYTES`], [`ErrorKind::External`] when
    /// the file cannot be read or is shorter now.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, Error> {
        let mut looked = 0;
        loop {
            let rest = &self.buffer[self.used..];
            if let Some(length) = memchr::memchr(b'\n', &rest[looked..]).map(|at| at + looked) {
                return Ok(Some(self.hand_out(length, true)));
            }
            looked = rest.len();
            if looked > MAX_LINE_BYTES {
                let text = format!(
                    "{} has a line longer than {MAX_LINE_BYTES} bytes",
                    self.path.display()
                );
                return Err(Error::new(ErrorKind::Limit, text));
            }
            if self.read == self.end {
                return Ok((looked > 0).then(|| self.hand_out(looked, false)));
            }
            self.fill()?;
        }
    }

    fn hand_out(&mut self, length: usize, terminated: bool) -> Line<'_> {
        let begin = self.used;
        let offset = self.read - (self.buffer.len() - begin) as u64;
        self.used = begin + length + usize::from(terminated);
        Line {
            offset,
            bytes: &self.buffer[begin..begin + length],
            terminated,
        }
    }

    fn fill(&mut self) -> Result<(), Error> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let kept = self.buffer.len();
        let wanted = usize::try_from(self.end - self.read).map_or(BLOCK, |left| left.min(BLOCK));
        self.buffer.resize(kept + wanted, 0);
        let count = sys::read_full_at(self.file, &mut self.buffer[kept..], self.read)
            .map_err(|error| sys::failure("read", self.path, &error))?;
        if count < wanted {
            let text = format!("{} became shorter while it was read", self.path.display());
            return Err(Error::new(ErrorKind::External, text));
        }
        self.read += count as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{Access, Fs as _, RealFs};

    #[test]
    fn lines_are_cut_at_line_feeds_whatever_their_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let long = "x".repeat(BLOCK + 7);
        let lines = ["a", "", "b\rc\u{2028}d", &long, "", "last"];
        let text = lines.join("\n");
        std::fs::write(&path, &text).unwrap();
        let file = RealFs.open(&path, Access::Read).unwrap();
        let mut found = Lines::new(&*file, &path, 0, text.len() as u64);
        let mut offset = 0;
        for (number, line) in lines.iter().enumerate() {
            let next = found.next().unwrap().unwrap();
            assert_eq!(next.bytes, line.as_bytes());
            assert_eq!(next.offset, offset);
            assert_eq!(next.terminated, number + 1 < lines.len());
            offset += line.len() as u64 + 1;
        }
        assert!(found.next().unwrap().is_none());
        let mut beyond = Lines::new(&*file, &path, 2, text.len() as u64 + 1);
        let error = std::iter::from_fn(|| match beyond.next() {
            Ok(Some(_)) => Some(None),
            Ok(None) => None,
            Err(error) => Some(Some(error)),
        });
        let error = error.flatten().next().unwrap();
        assert_eq!(error.kind(), ErrorKind::External);
    }

    #[test]
    fn a_crash_leaves_ends_and_holes_and_nothing_else_is_torn() {
        let kind = |bytes, terminated| {
            let line = Line {
                offset: 0,
                bytes,
                terminated,
            };
            line.kind()
        };
        assert!(matches!(kind(b"{\"a\":NaN}", true), Kind::Record(_)));
        assert!(matches!(kind(b"{}", false), Kind::Record(_)));
        assert!(matches!(kind(b"{\"a\"", false), Kind::Torn));
        assert!(matches!(kind(b"\0\0{}", true), Kind::Torn));
        for other in [&b"{\"a\"{}"[..], b"", b"[]", b"{} x", b"\xff"] {
            assert!(matches!(kind(other, true), Kind::Other), "{other:?}");
        }
    }
}
