//! The grammar of RFC 8259: tokens, members, elements.
//!
//! The whole text is checked as UTF-8 once, up front; afterwards only ASCII bytes are looked at,
//! because no byte of a multi-byte character is below 0x80. Strings are crossed eight bytes at a
//! time.
//!
//! Nesting is bounded by a counter, so recursion over members and elements is bounded too.

use super::error::{JsonError, JsonErrorKind};
use super::escape::{Escape, decode_escape, plain_end, short_escape};
use crate::limits::{
    MAX_JSON_DEPTH, MAX_JSON_VALUES, MAX_NUMBER_BYTES, MAX_PYTHON_INTEGER_DIGITS,
    MAX_PYTHON_JSON_DEPTH,
};

/// Which texts are accepted; the heading of [`super`] lists the differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::canon) enum Rules {
    Strict,
    Python,
}

/// A string whose escapes were checked but not replaced.
#[derive(Debug, Clone, Copy)]
pub(in crate::canon) struct StringToken<'a> {
    /// What stands between the quotes: UTF-8, as the whole text is.
    pub(in crate::canon) raw: &'a [u8],
    /// Offset of the opening quote.
    pub(in crate::canon) offset: usize,
    /// Whether `raw` has a backslash.
    pub(in crate::canon) escaped: bool,
    /// Whether an escape is a lone surrogate (Python's rules only).
    pub(in crate::canon) lone_surrogate: bool,
}

/// A number as written.
#[derive(Debug, Clone, Copy)]
pub(in crate::canon) struct NumberToken<'a> {
    pub(in crate::canon) literal: &'a str,
    pub(in crate::canon) offset: usize,
    /// Without fraction and exponent.
    pub(in crate::canon) integer: bool,
}

/// What the next value is, by its first byte.
pub(in crate::canon) enum Start {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

/// A cursor over one text.
pub(in crate::canon) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    values: usize,
    rules: Rules,
}

type Result<T> = std::result::Result<T, JsonError>;

impl<'a> Lexer<'a> {
    /// Checks that `input` is UTF-8 without a byte order mark and stands before its first byte.
    pub(in crate::canon) fn new(input: &'a [u8], rules: Rules) -> Result<Self> {
        let text = std::str::from_utf8(input)
            .map_err(|e| JsonError::new(e.valid_up_to(), JsonErrorKind::InvalidUtf8))?;
        if text.starts_with('\u{feff}') {
            return Err(JsonError::new(0, JsonErrorKind::ByteOrderMark));
        }
        Ok(Self {
            text,
            at: 0,
            depth: 0,
            values: 0,
            rules,
        })
    }

    pub(in crate::canon) fn offset(&self) -> usize {
        self.at
    }

    /// The text from `start` up to the cursor; both stand beside ASCII bytes.
    pub(in crate::canon) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    /// Skips blanks and says what the next value is; the cursor stays on its first byte.
    #[inline]
    pub(in crate::canon) fn start(&mut self) -> Result<Start> {
        self.values += 1;
        if self.values > MAX_JSON_VALUES {
            return Err(self.error(JsonErrorKind::TooManyValues));
        }
        match self.peek() {
            Some(b'"') => Ok(Start::String),
            Some(b'{') => Ok(Start::Object),
            Some(b'[') => Ok(Start::Array),
            Some(b'-' | b'0'..=b'9') => Ok(Start::Number),
            Some(b't') => Ok(Start::True),
            Some(b'f') => Ok(Start::False),
            Some(b'n') => Ok(Start::Null),
            Some(b'N' | b'I') if self.rules == Rules::Python => Ok(Start::Number),
            _ => Err(self.unexpected()),
        }
    }

    /// Refuses anything but blanks up to the end.
    pub(in crate::canon) fn finish(&mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error(JsonErrorKind::TrailingData)),
        }
    }

    /// Crosses an object, the cursor on its `{`. `member` gets each name with the cursor behind
    /// the colon and must cross the value.
    #[inline]
    pub(in crate::canon) fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, StringToken<'a>) -> Result<()>,
    ) -> Result<()> {
        self.enter()?;
        if self.peek() == Some(b'}') {
            self.leave();
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let name = self.string()?;
            if self.peek() != Some(b':') {
                return Err(self.unexpected());
            }
            self.at += 1;
            member(self, name)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.unexpected()),
            }
        }
        self.leave();
        Ok(())
    }

    /// Crosses an array, the cursor on its `[`; `element` must cross one value.
    #[inline]
    pub(in crate::canon) fn elements(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.enter()?;
        if self.peek() == Some(b']') {
            self.leave();
            return Ok(());
        }
        loop {
            element(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.unexpected()),
            }
        }
        self.leave();
        Ok(())
    }

    /// Crosses `true`, `false` or `null`, whichever `start` saw.
    #[inline]
    pub(in crate::canon) fn word(&mut self, start: &Start) -> Result<&'static str> {
        let word = match start {
            Start::True => "true",
            Start::False => "false",
            _ => "null",
        };
        if !self.take(word) {
            return Err(self.error(JsonErrorKind::UnexpectedByte));
        }
        Ok(word)
    }

    /// Crosses a string, the cursor on its opening quote.
    #[inline]
    pub(in crate::canon) fn string(&mut self) -> Result<StringToken<'a>> {
        let bytes = self.text.as_bytes();
        let offset = self.at;
        let mut escaped = false;
        let mut lone_surrogate = false;
        let mut at = offset + 1;
        loop {
            at = plain_end(bytes, at);
            match bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    if bytes
                        .get(at + 1)
                        .is_some_and(|byte| short_escape(*byte) != 0)
                    {
                        at += 2;
                        continue;
                    }
                    let escape = self.unicode_escape(at)?;
                    lone_surrogate |= escape.is_lone_surrogate();
                    at += escape.length;
                }
                Some(_) => return Err(JsonError::new(at, JsonErrorKind::ControlCharacter)),
                None => return Err(JsonError::new(at, JsonErrorKind::UnexpectedEnd)),
            }
        }
        self.at = at + 1;
        Ok(StringToken {
            raw: &bytes[offset + 1..at],
            offset,
            escaped,
            lone_surrogate,
        })
    }

    #[inline]
    fn unicode_escape(&self, at: usize) -> Result<Escape> {
        let fail = |kind| JsonError::new(at, kind);
        let escape = decode_escape(self.text.as_bytes(), at).map_err(fail)?;
        if self.rules == Rules::Strict && escape.is_lone_surrogate() {
            return Err(fail(JsonErrorKind::LoneSurrogate));
        }
        Ok(escape)
    }

    /// Crosses a number, the cursor on its first byte.
    #[inline]
    pub(in crate::canon) fn number(&mut self) -> Result<NumberToken<'a>> {
        let offset = self.at;
        if self.rules == Rules::Python
            && (self.take("NaN") || self.take("Infinity") || self.take("-Infinity"))
        {
            let literal = self.since(offset);
            return Ok(NumberToken {
                literal,
                offset,
                integer: false,
            });
        }
        if self.byte(0) == Some(b'-') {
            self.at += 1;
        }
        if self.byte(0) == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let whole_end = self.at;
        if self.byte(0) == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        let mut exponent = false;
        if let Some(b'e' | b'E') = self.byte(0) {
            exponent = true;
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte(0) {
                self.at += 1;
            }
            self.digits()?;
        }
        let token = NumberToken {
            literal: self.since(offset),
            offset,
            integer: self.at == whole_end,
        };
        self.bound(token, exponent)?;
        Ok(token)
    }

    /// Applies the bounds on a number. A literal without exponent and of at most 300 bytes is
    /// always finite (the largest double has 309 digits), so that few are converted.
    #[inline]
    fn bound(&self, token: NumberToken<'a>, exponent: bool) -> Result<()> {
        let fail = |kind| Err(JsonError::new(token.offset, kind));
        let length = token.literal.len();
        match self.rules {
            Rules::Strict if length > MAX_NUMBER_BYTES => fail(JsonErrorKind::NumberTooLong),
            Rules::Strict if !token.integer && (exponent || length > 300) => {
                match token.literal.parse::<f64>() {
                    Ok(value) if value.is_finite() => Ok(()),
                    _ => fail(JsonErrorKind::NonFiniteNumber),
                }
            }
            Rules::Python if token.integer && length > MAX_PYTHON_INTEGER_DIGITS => {
                let digits = length - usize::from(token.literal.starts_with('-'));
                if digits > MAX_PYTHON_INTEGER_DIGITS {
                    fail(JsonErrorKind::NumberTooLong)
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.byte(0) {
            self.at += 1;
        }
        if self.at > start {
            return Ok(());
        }
        Err(self.error(match self.byte(0) {
            Some(_) => JsonErrorKind::InvalidNumber,
            None => JsonErrorKind::UnexpectedEnd,
        }))
    }

    /// Skips blanks and shows the next byte.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte(0) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other,
            }
        }
    }

    #[inline]
    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    #[inline]
    fn take(&mut self, word: &str) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        if found {
            self.at += word.len();
        }
        found
    }

    #[inline]
    fn enter(&mut self) -> Result<()> {
        let deepest = match self.rules {
            Rules::Strict => MAX_JSON_DEPTH,
            Rules::Python => MAX_PYTHON_JSON_DEPTH,
        };
        if self.depth == deepest {
            return Err(self.error(JsonErrorKind::TooDeep));
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn leave(&mut self) {
        self.depth -= 1;
        self.at += 1;
    }

    fn error(&self, kind: JsonErrorKind) -> JsonError {
        JsonError::new(self.at, kind)
    }

    fn unexpected(&self) -> JsonError {
        self.error(match self.byte(0) {
            Some(_) => JsonErrorKind::UnexpectedByte,
            None => JsonErrorKind::UnexpectedEnd,
        })
    }
}
