//! Names of members: how they compare, and that each occurs once.

use super::error::{JsonError, JsonErrorKind};
use super::lex::StringToken;
use super::text::unescape;
use std::borrow::Cow;

/// The name of a member, as spelled in the text.
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
/// Collects all names and sorts them once, so that a hostile object costs n log n.
#[derive(Default)]
pub(super) struct UniqueKeys<'a>(Vec<(Cow<'a, [u8]>, usize)>);

impl<'a> UniqueKeys<'a> {
    /// Takes the next name.
    pub(super) fn insert(&mut self, name: StringToken<'a>) {
        self.0.push((Key(name).bytes(), name.offset));
    }

    /// Ends the check after the last name. Of several duplicates the error names the first in the
    /// text.
    pub(super) fn finish(mut self) -> Result<(), JsonError> {
        self.0.sort_unstable();
        let repeated = self.0.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        match repeated.map(|pair| pair[1].1).min() {
            Some(offset) => Err(JsonError::new(offset, JsonErrorKind::DuplicateKey)),
            None => Ok(()),
        }
    }
}
