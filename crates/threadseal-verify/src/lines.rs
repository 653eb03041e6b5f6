//! Reading a log line by line in bounded memory.

use crate::error::VerifyError;
use memchr::memchr;
use threadseal_core::limits::MAX_LINE_BYTES;
use threadseal_store::read::{Chunks, RegularFile, Source as _};

/// The lines of a file; LF ends a line and nothing else does.
pub struct Lines<'f> {
    file: &'f RegularFile,
    chunks: Chunks<'f>,
    chunk: Vec<u8>,
    used: usize,
    line: Vec<u8>,
    number: u64,
    start: u64,
    next: u64,
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'l> {
    /// Its number, from 1.
    pub number: u64,
    /// Offset of its first byte.
    pub start: u64,
    /// Its bytes without LF.
    pub bytes: &'l [u8],
}

impl<'f> Lines<'f> {
    /// The lines of `file`, from the first.
    pub fn of(file: &'f RegularFile) -> Self {
        Self {
            file,
            chunks: file.chunks(),
            chunk: Vec::new(),
            used: 0,
            line: Vec::new(),
            number: 0,
            start: 0,
            next: 0,
        }
    }

    /// The next line; `None` at the end of the file. A last line without LF is a line.
    ///
    /// # Errors
    /// When reading fails, or no LF comes within [`MAX_LINE_BYTES`].
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, VerifyError> {
        self.step(false)
    }

    /// As [`Lines::next`], with an empty line in place of one that is too long.
    ///
    /// # Errors
    /// When reading fails.
    pub fn next_or_empty(&mut self) -> Result<Option<Line<'_>>, VerifyError> {
        self.step(true)
    }

    fn step(&mut self, skips: bool) -> Result<Option<Line<'_>>, VerifyError> {
        self.line.clear();
        let mut is_skipped = false;
        self.start = self.next;
        loop {
            if self.used == self.chunk.len() {
                self.chunks.next_chunk(&mut self.chunk)?;
                self.used = 0;
                if self.chunk.is_empty() {
                    let is_line = is_skipped || !self.line.is_empty();
                    return Ok(is_line.then(|| self.finished()));
                }
            }
            let rest = self.chunk.get(self.used..).unwrap_or_default();
            let end = memchr(b'\n', rest);
            let taken = &rest[..end.unwrap_or(rest.len())];
            is_skipped |= self.line.len() + taken.len() > MAX_LINE_BYTES;
            if is_skipped && !skips {
                return Err(VerifyError::refused(format!(
                    "line {} is longer than {MAX_LINE_BYTES} bytes",
                    self.number + 1
                ))
                .about(self.file.path()));
            }
            if is_skipped {
                self.line.clear();
            } else {
                self.line.extend_from_slice(taken);
            }
            let used = taken.len() + usize::from(end.is_some());
            self.used += used;
            self.next += used as u64;
            if end.is_some() {
                return Ok(Some(self.finished()));
            }
        }
    }

    fn finished(&mut self) -> Line<'_> {
        self.number += 1;
        Line {
            number: self.number,
            start: self.start,
            bytes: &self.line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::path::Path;
    use threadseal_store::read::open_regular;
    use threadseal_store::sys::RealFs;

    fn opened(path: &Path) -> RegularFile {
        open_regular(&RealFs, path).unwrap()
    }

    #[test]
    fn lines_end_at_lf_only_and_know_where_they_begin() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "a\r\x0bb\u{2028}\n\nlast").unwrap();
        let file = opened(&path);
        let mut lines = Lines::of(&file);
        let mut seen = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            seen.push((line.number, line.start, line.bytes.to_vec()));
        }
        let first = "a\r\x0bb\u{2028}".as_bytes().to_vec();
        let expected = [(1, 0, first), (2, 8, vec![]), (3, 9, b"last".to_vec())];
        assert_eq!(seen, expected);
    }

    // T-CMD-11
    #[test]
    fn a_line_beyond_the_bound_is_empty_where_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let long = vec![b'x'; MAX_LINE_BYTES + 1];
        for end in [&b""[..], b"\n", b"\nlast"] {
            std::fs::write(&path, [b"first\n", &long[..], end].concat()).unwrap();
            let file = opened(&path);
            let mut lines = Lines::of(&file);
            let mut seen = Vec::new();
            while let Some(line) = lines.next_or_empty().unwrap() {
                seen.push((line.number, line.bytes.to_vec()));
            }
            let mut expected = vec![(1, b"first".to_vec()), (2, Vec::new())];
            expected.extend((end.len() > 1).then(|| (3, b"last".to_vec())));
            assert_eq!(seen, expected);
        }
    }

    // T-CMD-11
    #[test]
    fn a_line_without_end_is_given_up_in_bounded_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let sparse = File::create(&path).unwrap();
        sparse.set_len(10_000_000_000).unwrap();
        let file = opened(&path);
        let mut lines = Lines::of(&file);
        let failure = lines.next_line().unwrap_err().to_string();
        assert!(failure.contains("line 1 is longer"), "{failure}");
        assert!(lines.line.capacity() <= 2 * MAX_LINE_BYTES);
    }
}
