//! Compares an observed log with its seals (`spec/transcript.md` §9), and finds its new lines.
//!
//! ```text
//! log ─► LogReader ─ leaf of each line ─► equal to the sealed leaf?  first difference named
//!                                   └──► beyond the seals: new leaves, for the next seal
//! ```
//! Invariants: lines are cut at LF only. Only an unended last line is parsed, to see whether it is
//! whole. Memory is one line's digest state and the leaves.

use super::observed::SealFile;
use threadseal_core::canon::json;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::limits::MAX_LINE_BYTES;
use threadseal_core::merkle::{leaf_hash, leaf_hasher};
use threadseal_core::report::FindingCode;

/// Leaves kept after the first difference, to distinguish a change from an insertion.
const LOOK_AHEAD: usize = 256;

/// How a log differs from its seals at one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The line has other bytes.
    Changed,
    /// The line is new.
    Inserted,
    /// The sealed line is gone.
    Deleted,
    /// The line was moved from another place.
    Moved,
}

impl Difference {
    pub(super) fn code(self) -> FindingCode {
        match self {
            Self::Changed => FindingCode::LineChanged,
            Self::Inserted => FindingCode::LineInserted,
            Self::Deleted => FindingCode::LineDeleted,
            Self::Moved => FindingCode::LineMoved,
        }
    }
}

/// The result of comparing a log with its seals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogScan {
    /// Bytes of the file.
    pub bytes: u64,
    /// Lines that count as whole.
    pub lines: u64,
    /// Bytes of those lines.
    pub whole_bytes: u64,
    /// Bytes up to the end of the last sealed line, when all sealed lines are present.
    pub sealed_end: Option<u64>,
    /// The first line, from 1, that differs, where it begins and ends, and how.
    pub difference: Option<(u64, [u64; 2], Difference)>,
    /// Leaves of whole lines beyond the seals.
    pub new_leaves: Vec<Digest>,
    /// Leaves of the first lines: they identify the log when its seals are gone.
    pub first_leaves: Vec<Digest>,
}

/// Reads a log. Push the file in order, then call [`LogReader::finish`].
pub struct LogReader<'a> {
    sealed: &'a [Digest],
    /// Is an unended last line taken as whole, whatever its content?
    is_final: bool,
    leaf: Hasher,
    line_bytes: u64,
    /// The line so far, while it may turn out to be an unended last one.
    carry: Vec<u8>,
    offset: u64,
    /// The range of each of the lines in `ahead`.
    ahead: Vec<(Digest, [u64; 2])>,
    first_difference: Option<u64>,
    out: LogScan,
}

/// First lines whose leaves are kept.
pub const FIRST_LINES: usize = 3;

impl<'a> LogReader<'a> {
    /// A reader that compares the log with the seals of `file`, if there are any.
    pub fn new(file: Option<&'a SealFile>, is_final: bool) -> Self {
        Self {
            sealed: file.map_or(&[], |file| &file.leaves),
            is_final: is_final
                || file
                    .and_then(SealFile::last)
                    .is_some_and(|last| last.is_final),
            leaf: leaf_hasher(),
            line_bytes: 0,
            carry: Vec::new(),
            offset: 0,
            ahead: Vec::new(),
            first_difference: None,
            out: LogScan {
                bytes: 0,
                lines: 0,
                whole_bytes: 0,
                sealed_end: None,
                difference: None,
                new_leaves: Vec::new(),
                first_leaves: Vec::new(),
            },
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, mut chunk: &[u8]) {
        while let Some(length) = memchr::memchr(b'\n', chunk) {
            let (line, rest) = (&chunk[..length], &chunk[length + 1..]);
            let leaf = if self.line_bytes == 0 {
                leaf_hash(line)
            } else {
                let mut leaf = std::mem::replace(&mut self.leaf, leaf_hasher());
                leaf.update(line);
                leaf.finish()
            };
            let start = self.offset - self.line_bytes;
            self.offset += length as u64 + 1;
            self.line(leaf, [start, self.offset]);
            self.line_bytes = 0;
            self.carry.clear();
            chunk = rest;
        }
        self.leaf.update(chunk);
        self.line_bytes += chunk.len() as u64;
        self.offset += chunk.len() as u64;
        if self.line_bytes <= MAX_LINE_BYTES as u64 {
            self.carry.extend_from_slice(chunk);
        }
    }

    fn line(&mut self, leaf: Digest, at: [u64; 2]) {
        let index = self.out.lines;
        self.out.lines += 1;
        self.out.whole_bytes = at[1];
        if self.out.first_leaves.len() < FIRST_LINES {
            self.out.first_leaves.push(leaf);
        }
        let sealed = usize::try_from(index)
            .ok()
            .and_then(|index| self.sealed.get(index));
        if self.first_difference.is_some() {
            if self.ahead.len() < LOOK_AHEAD {
                self.ahead.push((leaf, at));
            }
            return;
        }
        match sealed {
            Some(sealed) if *sealed == leaf => {
                if index + 1 == self.sealed.len() as u64 {
                    self.out.sealed_end = Some(at[1]);
                }
            }
            Some(_) => {
                self.first_difference = Some(index);
                self.ahead.push((leaf, at));
            }
            None => self.out.new_leaves.push(leaf),
        }
    }

    /// Ends the file.
    pub fn finish(mut self) -> LogScan {
        self.out.bytes = self.offset;
        if self.line_bytes > 0 && self.unended_line_counts() {
            let start = self.offset - self.line_bytes;
            let leaf = std::mem::replace(&mut self.leaf, leaf_hasher()).finish();
            self.line(leaf, [start, self.offset]);
        }
        if self.sealed.is_empty() {
            self.out.sealed_end = Some(0);
        }
        if let (Some(index), Some((_, at))) = (self.first_difference, self.ahead.first()) {
            self.out.difference = Some((index + 1, *at, self.explain(index)));
        }
        self.out
    }

    /// No bytes can be appended to a whole object or array, so its line may count without LF. A
    /// line that is already sealed counts unchanged.
    fn unended_line_counts(&self) -> bool {
        let whole = matches!(self.carry.first(), Some(b'{' | b'['))
            && self.carry.len() as u64 == self.line_bytes
            && json::validate(&self.carry).is_ok();
        let index = usize::try_from(self.out.lines).ok();
        self.is_final || whole || index.is_some_and(|index| index < self.sealed.len())
    }

    /// Takes the edit after which most of the following lines are the sealed ones again.
    fn explain(&self, index: u64) -> Difference {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let expected = self.sealed.get(index..).unwrap_or_default();
        let expected = &expected[..expected.len().min(LOOK_AHEAD)];
        let found: Vec<Digest> = self.ahead.iter().map(|(leaf, _)| *leaf).collect();
        let (Some((old, expected_after)), Some((new, found_after))) =
            (expected.split_first(), found.split_first())
        else {
            return Difference::Changed;
        };
        let explained = |expected: &[Digest], found: &[Digest]| {
            let same = expected
                .iter()
                .zip(found)
                .take_while(|(a, b)| a == b)
                .count();
            let cut = self.ahead.len() == LOOK_AHEAD && same == found.len();
            (same == expected.len() || cut).then_some(same)
        };
        let edits = [
            (explained(expected_after, &found), Difference::Deleted),
            (explained(expected, found_after), Difference::Inserted),
            (explained(expected_after, found_after), Difference::Changed),
        ];
        let best = edits
            .into_iter()
            .filter_map(|(same, edit)| Some((same?, edit)));
        match best.max_by_key(|(same, _)| *same) {
            // There are as many lines as were sealed, and the missing one comes later: it was
            // moved.
            Some((_, Difference::Deleted))
                if self.out.lines >= self.sealed.len() as u64 && found_after.contains(old) =>
            {
                Difference::Moved
            }
            Some((_, edit)) => edit,
            None if expected_after.contains(new) && found_after.contains(old) => Difference::Moved,
            None => Difference::Changed,
        }
    }
}
