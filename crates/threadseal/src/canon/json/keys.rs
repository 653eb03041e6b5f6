//! Names of members: how they compare, and that each occurs once.

use super::error::{JsonError, JsonErrorKind};
use super::lex::StringToken;
use super::text::unescape;
use std::borrow::Cow;

/// Objects of up to this many members are checked without allocation.
const INLINE_KEYS: usize = 16;

/// The name of a member, as it stands in the text.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a>(StringToken<'a>);

impl<'a> Key<'a> {
    pub(in crate::canon) fn new(token: StringToken<'a>) -> Self {
        Self(token)
    }

    /// Whether the name, escapes replaced, is `name`.
    pub fn is(&self, name: &str) -> bool {
        if self.0.escaped {
            unescape(self.0.raw) == name.as_bytes()
        } else {
            self.0.raw == name.as_bytes()
        }
    }

    /// The name, escapes replaced.
    pub fn name(&self) -> Cow<'a, str> {
        match self.bytes() {
            Cow::Borrowed(raw) => String::from_utf8_lossy(raw),
            Cow::Owned(name) => Cow::Owned(String::from_utf8_lossy(&name).into_owned()),
        }
    }

    /// The name as spelled between its quotes.
    pub fn raw(&self) -> &'a str {
        // The lexer checked the whole text.
        std::str::from_utf8(self.0.raw).unwrap_or_default()
    }

    /// Offset of the opening quote.
    pub fn offset(&self) -> usize {
        self.0.offset
    }

    /// The bytes of the name, escapes replaced.
    pub(in crate::canon) fn bytes(&self) -> Cow<'a, [u8]> {
        if self.0.escaped {
            Cow::Owned(unescape(self.0.raw))
        } else {
            Cow::Borrowed(self.0.raw)
        }
    }
}

/// Finds a name that occurs twice in one object.
///
/// The first [`INLINE_KEYS`] names are compared as they come. Beyond that all are collected and
/// sorted once, so that a hostile object costs n log n.
pub(super) struct UniqueKeys<'a> {
    len: usize,
    marks: [u32; INLINE_KEYS],
    names: [&'a [u8]; INLINE_KEYS],
    many: Vec<(Cow<'a, [u8]>, usize)>,
}

impl<'a> UniqueKeys<'a> {
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            len: 0,
            marks: [0; INLINE_KEYS],
            names: [&[]; INLINE_KEYS],
            many: Vec::new(),
        }
    }

    /// Takes the next name.
    #[inline]
    pub(super) fn insert(&mut self, token: StringToken<'a>) -> Result<(), JsonError> {
        if self.len >= INLINE_KEYS || token.escaped || !self.many.is_empty() {
            self.insert_many(token);
            return Ok(());
        }
        let mark = mark(token.raw);
        let (marks, names) = (&self.marks[..self.len], &self.names[..self.len]);
        if marks.contains(&mark) && names.contains(&token.raw) {
            return Err(duplicate(token.offset));
        }
        self.marks[self.len] = mark;
        self.names[self.len] = token.raw;
        self.len += 1;
        Ok(())
    }

    /// To be called behind the last name.
    #[inline]
    pub(super) fn finish(self) -> Result<(), JsonError> {
        if self.many.is_empty() {
            return Ok(());
        }
        self.finish_many()
    }

    #[cold]
    fn insert_many(&mut self, token: StringToken<'a>) {
        self.many.push((Key(token).bytes(), token.offset));
    }

    /// Sorts everything; of several duplicates the first in the text is reported.
    #[cold]
    fn finish_many(mut self) -> Result<(), JsonError> {
        // An inline name stands before every collected one, so offset 0 sorts it rightly.
        let inline = self.names[..self.len].iter();
        self.many
            .extend(inline.map(|name| (Cow::Borrowed(*name), 0)));
        self.many.sort_unstable();
        let second =
            |pair: &[(Cow<'_, [u8]>, usize)]| (pair[0].0 == pair[1].0).then_some(pair[1].1);
        match self.many.windows(2).filter_map(second).min() {
            Some(offset) => Err(duplicate(offset)),
            None => Ok(()),
        }
    }
}

fn duplicate(offset: usize) -> JsonError {
    JsonError::new(offset, JsonErrorKind::DuplicateKey)
}

/// Length and three bytes of a name: equal names have equal marks, and the names of one object
/// seldom do otherwise.
#[inline]
fn mark(name: &[u8]) -> u32 {
    let byte = |at: usize| u32::from(name.get(at).copied().unwrap_or_default());
    let length = u32::from(name.len().to_le_bytes()[0]);
    length << 24 | byte(0) << 16 | byte(name.len() / 2) << 8 | byte(name.len().wrapping_sub(1))
}
