//! Cuts a stream into lines, at 0x0A only, in bounded memory.
//!
//! ```text
//! chunks  …{"a":1}⏎{"b":2}⏎{"c"…        any sizes
//! pieces  {"a":1}⏎   {"b":2}⏎   …       each passed on once, whole, with its LF
//! ```
//! A line beyond [`MAX_LINE_BYTES`] is never held. It comes in several pieces, so that a caller
//! that hashes still sees every byte.

use threadseal_core::limits::MAX_LINE_BYTES;

/// A line of [`MAX_LINE_BYTES`] and its LF.
const MAX_HELD: usize = MAX_LINE_BYTES + 1;

/// A line, or a part of one that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// Offset of the first byte.
    pub(crate) start: u64,
    /// The bytes, with the LF if there is one.
    pub(crate) bytes: &'a [u8],
    /// Which part of its line this is.
    pub(crate) part: Part,
}

/// Which part of a line a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// The beginning of a line that is too long.
    First,
    /// More of such a line; it may be empty.
    Middle,
    /// The end of such a line.
    Last,
}

impl<'a> Piece<'a> {
    pub(crate) fn is_terminated(&self) -> bool {
        self.bytes.last() == Some(&b'\n')
    }

    /// The bytes without the LF.
    pub(crate) fn content(&self) -> &'a [u8] {
        self.bytes.strip_suffix(b"\n").unwrap_or(self.bytes)
    }

    /// Offset after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// Holds at most one unfinished line.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    carry: Vec<u8>,
    /// Offset of the first byte of `carry`.
    start: u64,
    /// Inside a line whose beginning was already passed on.
    overlong: bool,
}

impl LineSplitter {
    /// Takes the next bytes and passes each piece that they complete.
    pub(crate) fn push(&mut self, mut chunk: &[u8], mut each: impl FnMut(Piece<'_>)) {
        while let Some(lf) = memchr::memchr(b'\n', chunk) {
            let (line, rest) = chunk.split_at(lf + 1);
            chunk = rest;
            if self.carry.is_empty() && !self.overlong && line.len() <= MAX_HELD {
                each(Piece {
                    start: self.start,
                    bytes: line,
                    part: Part::Whole,
                });
                self.start += line.len() as u64;
                continue;
            }
            self.hold(line, &mut each);
            let part = if self.overlong {
                Part::Last
            } else {
                Part::Whole
            };
            self.release(part, &mut each);
            self.overlong = false;
        }
        self.hold(chunk, &mut each);
    }

    /// Passes a last line without LF, if there is one.
    pub(crate) fn finish(mut self, mut each: impl FnMut(Piece<'_>)) {
        if self.overlong {
            self.release(Part::Last, &mut each);
        } else if !self.carry.is_empty() {
            self.release(Part::Whole, &mut each);
        }
    }

    fn hold(&mut self, bytes: &[u8], each: &mut impl FnMut(Piece<'_>)) {
        for part in bytes.chunks(MAX_HELD) {
            if self.carry.len() + part.len() > MAX_HELD {
                let which = if self.overlong {
                    Part::Middle
                } else {
                    Part::First
                };
                self.overlong = true;
                self.release(which, each);
            }
            self.carry.extend_from_slice(part);
        }
    }

    fn release(&mut self, part: Part, each: &mut impl FnMut(Piece<'_>)) {
        each(Piece {
            start: self.start,
            bytes: &self.carry,
            part,
        });
        self.start += self.carry.len() as u64;
        self.carry.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(chunks: &[&[u8]]) -> Vec<(u64, Vec<u8>, Part)> {
        let mut out = Vec::new();
        let mut splitter = LineSplitter::default();
        let mut each = |piece: Piece<'_>| out.push((piece.start, piece.bytes.to_vec(), piece.part));
        for chunk in chunks {
            splitter.push(chunk, &mut each);
        }
        splitter.finish(&mut each);
        out
    }

    #[test]
    fn only_lf_ends_a_line() {
        let text = "a\rb\u{2028}c\nd\n\ne".as_bytes();
        let lines: Vec<_> = split(&[text])
            .into_iter()
            .map(|(at, bytes, _)| (at, bytes))
            .collect();
        let expected: [(u64, &[u8]); 4] = [
            (0, "a\rb\u{2028}c\n".as_bytes()),
            (8, b"d\n"),
            (10, b"\n"),
            (11, b"e"),
        ];
        assert_eq!(lines, expected.map(|(at, bytes)| (at, bytes.to_vec())));
    }

    // T-CMD-11
    #[test]
    fn a_line_beyond_the_bound_comes_in_pieces_and_is_never_held() {
        let long = vec![b'x'; MAX_LINE_BYTES + 7];
        let parts = split(&[b"a\n", &long, &long, b"\nb\n"]);
        let kinds: Vec<Part> = parts.iter().map(|(_, _, part)| *part).collect();
        assert_eq!(kinds[0], Part::Whole);
        assert_eq!(kinds[1], Part::First);
        assert_eq!(kinds[kinds.len() - 2], Part::Last);
        assert_eq!(kinds[kinds.len() - 1], Part::Whole);
        assert!(parts.iter().all(|(_, bytes, _)| bytes.len() <= MAX_HELD));
        let mut at = 0;
        for (start, bytes, _) in &parts {
            assert_eq!(*start, at);
            at += bytes.len() as u64;
        }
        assert_eq!(at, 2 * long.len() as u64 + 5);
    }

    proptest! {
        #[test]
        fn chunk_borders_change_nothing(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'x')], 0..200),
            cut in 0_usize..200,
        ) {
            let cut = cut.min(text.len());
            prop_assert_eq!(split(&[&text]), split(&[&text[..cut], &text[cut..]]));
            let bytes: Vec<&[u8]> = text.chunks(1).collect();
            prop_assert_eq!(split(&[&text]), split(&bytes));
        }
    }
}
