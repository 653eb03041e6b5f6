//! Cutting pushed bytes into lines, in bounded memory. LF ends a line and nothing else does.

use crate::content::LineTooLong;
use memchr::memchr;
use threadseal_core::limits::MAX_LINE_BYTES;

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'l> {
    /// Its number, from 1.
    pub number: u64,
    /// Offset of its first byte.
    pub start: u64,
    /// Its bytes without LF; none of a line that is too long.
    pub bytes: &'l [u8],
    /// Is it longer than [`MAX_LINE_BYTES`]?
    pub is_long: bool,
}

/// Cuts bytes that are pushed in order.
#[derive(Debug, Clone, Default)]
pub struct LineCutter {
    /// The beginning of a line whose end did not come yet.
    carry: Vec<u8>,
    is_long: bool,
    number: u64,
    start: u64,
    offset: u64,
}

impl LineCutter {
    /// A cutter before the first byte.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes, and hands over each line that ends in them.
    pub fn push(&mut self, mut chunk: &[u8], each: &mut dyn FnMut(Line<'_>)) {
        while let Some(end) = memchr(b'\n', chunk) {
            let (piece, rest) = (&chunk[..end], &chunk[end + 1..]);
            if self.carry.is_empty() && !self.is_long && end <= MAX_LINE_BYTES {
                self.number += 1;
                let (number, start) = (self.number, self.start);
                each(Line {
                    number,
                    start,
                    bytes: piece,
                    is_long: false,
                });
            } else {
                self.keep(piece);
                self.hand_over(each);
            }
            self.offset += end as u64 + 1;
            self.start = self.offset;
            chunk = rest;
        }
        self.keep(chunk);
        self.offset += chunk.len() as u64;
    }

    /// Ends the file: a last line without LF is a line.
    pub fn finish(mut self, each: &mut dyn FnMut(Line<'_>)) {
        if self.offset > self.start {
            self.hand_over(each);
        }
    }

    /// The line that is too long so far, if the present one is.
    pub fn too_long(&self) -> Option<LineTooLong> {
        let number = self.number + 1;
        self.is_long.then_some(LineTooLong { number })
    }

    fn keep(&mut self, piece: &[u8]) {
        self.is_long |= self.carry.len() + piece.len() > MAX_LINE_BYTES;
        match self.is_long {
            true => self.carry.clear(),
            false => self.carry.extend_from_slice(piece),
        }
    }

    fn hand_over(&mut self, each: &mut dyn FnMut(Line<'_>)) {
        self.number += 1;
        each(Line {
            number: self.number,
            start: self.start,
            bytes: &self.carry,
            is_long: self.is_long,
        });
        self.carry.clear();
        self.is_long = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(file: &[u8], size: usize) -> Vec<(u64, u64, Vec<u8>)> {
        let (mut cutter, mut seen) = (LineCutter::new(), Vec::new());
        let mut each = |line: Line<'_>| seen.push((line.number, line.start, line.bytes.to_vec()));
        for chunk in file.chunks(size) {
            cutter.push(chunk, &mut each);
        }
        cutter.finish(&mut each);
        seen
    }

    #[test]
    fn lines_are_the_same_whatever_the_chunks() {
        let file = b"a\r\n\nsecond line\n\xff\nlast";
        let whole = cut(file, file.len());
        let starts: Vec<u64> = whole.iter().map(|line| line.1).collect();
        assert_eq!(starts, [0, 3, 4, 16, 18]);
        assert_eq!(whole[4].2, b"last");
        for size in 1..file.len() {
            assert_eq!(cut(file, size), whole, "{size}");
        }
    }

    // T-CMD-11
    #[test]
    fn a_line_beyond_the_bound_is_empty() {
        let long = vec![b'x'; MAX_LINE_BYTES + 1];
        let file = [b"a\n", &long[..], b"\nb"].concat();
        for size in [1 << 20, file.len()] {
            let seen = cut(&file, size);
            let lengths: Vec<usize> = seen.iter().map(|line| line.2.len()).collect();
            assert_eq!(lengths, [1, 0, 1], "{size}");
        }
        let mut cutter = LineCutter::new();
        cutter.push(&file[..file.len() - 2], &mut |_| {});
        assert_eq!(cutter.too_long(), Some(LineTooLong { number: 2 }));
    }
}
