//! Compares an observed log with its seals (`spec/transcript.md` §9), and finds its new lines.
//!
//! ```text
//! log ─► LogReader ─ hash of each line ─► its leaf is the sealed one?  first difference named
//!                                   └──► beyond the seals: the hashes, for the next seal
//! ```
//! Invariants: lines are cut at LF only. Only an unended last line is parsed, to see whether it is
//! whole. Memory is one line's digest state and the leaves, of no more lines than a seal file covers:
//! lines beyond them are counted.

use super::observed::{self, LeafWalk, SealFile};
use std::borrow::Borrow;
use threadseal_core::canon::json;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::error::Error;
use threadseal_core::limits::{MAX_LINE_BYTES, MAX_OBSERVED_LINES};
use threadseal_core::merkle::{leaf_hash, leaf_hasher};
use threadseal_core::report::FindingCode;

/// Leaves kept after the first difference, to distinguish a change from an insertion.
const LOOK_AHEAD: usize = 256;

/// The log `log` under the seal file `from`, as it is under `to`, which has more redactions.
///
/// # Errors
/// Kind `Refused` when it does not hold under one of them.
pub fn redacted(log: &[u8], from: &[u8], to: &[u8]) -> Result<Vec<u8>, Error> {
    let (from, to) = (observed::sound(from)?, observed::sound(to)?);
    let holds = |log: &[u8], seals: &SealFile| {
        let mut reader = LogReader::new(Some(seals), true);
        reader.push(log);
        let found = reader.finish();
        let is_whole = found.lines == seals.leaves.len() as u64;
        (found.difference.is_none() && is_whole).then_some(found.unfinished)
    };
    let replaced = observed::replace_redacted(log, &to);
    match (holds(log, &from), holds(&replaced, &to)) {
        (Some(_), Some(0)) => Ok(replaced),
        _ => Err(Error::refused(
            "the log is not the one that was sealed; hint: threadseal verify",
        )),
    }
}

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
    /// Its salt was removed without a statement of a redaction.
    Unsalted,
}

impl Difference {
    pub(super) fn code(self) -> FindingCode {
        match self {
            Self::Changed => FindingCode::LineChanged,
            Self::Inserted => FindingCode::LineInserted,
            Self::Deleted => FindingCode::LineDeleted,
            Self::Moved => FindingCode::LineMoved,
            Self::Unsalted => FindingCode::SaltMissing,
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
    /// The [`leaf_hash`] of each whole line beyond the seals: its leaf, where lines have no salts. Of the
    /// first [`MAX_OBSERVED_LINES`] lines only.
    pub new_lines: Vec<Digest>,
    /// Those of the first lines: they identify the log when its seals are gone.
    pub first_lines: Vec<Digest>,
    /// Sealed lines in whose places are those of a redaction.
    pub redacted: u64,
    /// Sealed lines that were redacted, and are still there.
    pub unfinished: u64,
}

/// Reads a log. Push the file in order, then call [`LogReader::finish`].
///
/// `S` is the seal file, borrowed or shared.
pub struct LogReader<S> {
    seals: Option<S>,
    /// The leaves of the next lines.
    walk: Option<LeafWalk>,
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

impl<S: Borrow<SealFile>> LogReader<S> {
    /// A reader that compares the log with the seals of `seals`, if there are any.
    pub fn new(seals: Option<S>, is_final: bool) -> Self {
        let file = seals.as_ref().map(Borrow::borrow);
        Self {
            walk: file.map(|file| file.walk(0)),
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
                new_lines: Vec::new(),
                first_lines: Vec::new(),
                redacted: 0,
                unfinished: 0,
            },
            seals,
        }
    }

    fn seals(&self) -> Option<&SealFile> {
        self.seals.as_ref().map(Borrow::borrow)
    }

    /// The sealed leaves.
    fn sealed(&self) -> &[Digest] {
        self.seals().map_or(&[], |file| &file.leaves)
    }

    /// Takes the next bytes.
    pub fn push(&mut self, mut chunk: &[u8]) {
        while let Some(length) = memchr::memchr(b'\n', chunk) {
            let (line, rest) = (&chunk[..length], &chunk[length + 1..]);
            if !self.needs_leaf() {
                self.offset += length as u64 + 1;
                self.out.lines += 1;
                self.out.whole_bytes = self.offset;
                self.line_bytes = 0;
                self.carry.clear();
                chunk = rest;
                continue;
            }
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

    /// Does the hash of the next line matter to anything?
    fn needs_leaf(&self) -> bool {
        match self.first_difference {
            Some(_) => self.ahead.len() < LOOK_AHEAD,
            None => self.out.lines < MAX_OBSERVED_LINES as u64,
        }
    }

    /// Takes a line by its [`leaf_hash`].
    fn line(&mut self, plain: Digest, at: [u64; 2]) {
        let index = self.out.lines;
        self.out.lines += 1;
        self.out.whole_bytes = at[1];
        if self.out.first_lines.len() < FIRST_LINES {
            self.out.first_lines.push(plain);
        }
        if self.first_difference.is_some() {
            if self.ahead.len() < LOOK_AHEAD {
                self.ahead.push((plain, at));
            }
            return;
        }
        let number = usize::try_from(index).unwrap_or(usize::MAX);
        let Some(sealed) = self.sealed().get(number).copied() else {
            if number < MAX_OBSERVED_LINES {
                self.out.new_lines.push(plain);
            }
            return;
        };
        let leaf = self.walk.as_mut().and_then(|walk| walk.next_leaf(&plain));
        if leaf == Some(sealed) {
            let seals = self.seals().filter(|seals| seals.is_redacted(index + 1));
            self.out.unfinished += u64::from(seals.is_some());
        } else if self
            .seals()
            .is_some_and(|seals| seals.is_replaced(number, &plain))
        {
            self.out.redacted += 1;
        } else {
            self.first_difference = Some(index);
            self.ahead.push((plain, at));
            return;
        }
        if index + 1 == self.sealed().len() as u64 {
            self.out.sealed_end = Some(at[1]);
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
        if self.sealed().is_empty() {
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
        self.is_final || whole || index.is_some_and(|index| index < self.sealed().len())
    }

    /// Takes the edit after which most of the following lines are the sealed ones again.
    fn explain(&self, index: u64) -> Difference {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let end = self.sealed().len().min(index.saturating_add(LOOK_AHEAD));
        let found: Vec<Digest> = self.ahead.iter().map(|(plain, _)| *plain).collect();
        let (Some(seals), Some((new, found_after))) = (self.seals(), found.split_first()) else {
            return Difference::Changed;
        };
        let has_salt = seals.walk(index).next_leaf(new).is_some();
        if !has_salt && !seals.is_redacted(index as u64 + 1) {
            return Difference::Unsalted;
        }
        let is_old = |plain: &Digest| seals.is_sealed(index, plain);
        let is_new_expected = || (index + 1..end).any(|number| seals.is_sealed(number, new));
        // From this sealed line on, how many of these lines are the sealed ones?
        let explained = |from: usize, found: &[Digest]| {
            let expected = (from..end).zip(found);
            let same = expected
                .take_while(|(number, plain)| seals.is_sealed(*number, plain))
                .count();
            let cut = self.ahead.len() == LOOK_AHEAD && same == found.len();
            (same == end.saturating_sub(from) || cut).then_some(same)
        };
        let edits = [
            (explained(index + 1, &found), Difference::Deleted),
            (explained(index, found_after), Difference::Inserted),
            (explained(index + 1, found_after), Difference::Changed),
        ];
        let best = edits
            .into_iter()
            .filter_map(|(same, edit)| Some((same?, edit)));
        match best.max_by_key(|(same, _)| *same) {
            // There are as many lines as were sealed, and the missing one comes later: it was
            // moved.
            Some((_, Difference::Deleted))
                if self.out.lines >= self.sealed().len() as u64
                    && found_after.iter().any(is_old) =>
            {
                Difference::Moved
            }
            Some((_, edit)) => edit,
            None if is_new_expected() && found_after.iter().any(is_old) => Difference::Moved,
            None => Difference::Changed,
        }
    }
}
