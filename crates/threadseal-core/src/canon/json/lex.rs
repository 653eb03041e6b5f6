//! The grammar of RFC 8259: tokens, members, elements.
//!
//! The whole text is checked as UTF-8 once, at the start. Afterwards only ASCII bytes are examined,
//! because no byte of a multi-byte character is below 0x80. Strings are crossed eight bytes at a
//! time.
//!
//! A counter bounds nesting, and thereby the recursion over members and elements.

use super::error::{JsonError, JsonErrorKind};
use super::escape::{Escape, begins_escape, decode_escape, plain_end, short_escape};
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
    /// The text between the quotes: UTF-8, as the whole text is.
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

/// The kind of the next value, by its first byte.
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

/// A literal of at most this many bytes without an exponent is finite.
///
/// The largest double has 309 digits before its point. So few literals need a conversion.
const ALWAYS_FINITE_BYTES: usize = 300;

type Result<T> = std::result::Result<T, JsonError>;

impl<'a> Lexer<'a> {
    /// Checks that `input` is UTF-8 without a byte order mark. The cursor is before its first byte.
    pub(in crate::canon) fn new(input: &'a [u8], rules: Rules) -> Result<Self> {
        let text = std::str::from_utf8(input)
            .map_err(|e| JsonError::new(e.valid_up_to(), JsonErrorKind::InvalidUtf8))?;
        if text.starts_with('\u{feff}') {
            return Err(JsonError::new(0, JsonErrorKind::ByteOrderMark));
        }
        Ok(Self::behind_mark(text, rules))
    }

    /// A cursor before the first byte of a text in which a byte order mark has no special role.
    pub(in crate::canon) fn behind_mark(text: &'a str, rules: Rules) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
            values: 0,
            rules,
        }
    }

    /// Passes over the characters that are `blank`.
    pub(in crate::canon) fn skip(&mut self, blank: impl Fn(char) -> bool) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.len() - rest.trim_start_matches(blank).len();
    }

    pub(in crate::canon) fn offset(&self) -> usize {
        self.at
    }

    /// The text from `start` up to the cursor. Both are next to ASCII bytes.
    pub(in crate::canon) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    /// Skips blanks and returns the kind of the next value. The cursor stays on its first byte.
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

    /// Crosses an object, the cursor on its `{`. `member` gets each name with the cursor after the
    /// colon and must cross the value.
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
            return Err(match self.ends_inside(word) {
                true => self.early_end(),
                false => self.error(JsonErrorKind::UnexpectedByte),
            });
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
        let bytes = self.text.as_bytes();
        let escape = decode_escape(bytes, at).map_err(fail)?;
        if self.rules == Rules::Strict && escape.is_lone_surrogate() {
            let behind = at + escape.length;
            return Err(match bytes.get(behind..) {
                Some([]) if escape.is_high_surrogate() => self.early_end(),
                Some(rest) if escape.is_high_surrogate() && begins_escape(rest) => {
                    JsonError::new(behind, JsonErrorKind::UnexpectedEnd)
                }
                _ => fail(JsonErrorKind::LoneSurrogate),
            });
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
        if self.rules == Rules::Python
            && matches!(
                self.text.as_bytes()[offset..],
                [b'N' | b'I', ..] | [b'-', b'I', ..]
            )
            && ["NaN", "Infinity", "-Infinity"]
                .iter()
                .any(|word| self.ends_inside(word))
        {
            return Err(self.early_end());
        }
        let (end, integer) = number_end(self.text.as_bytes(), offset, self.rules)?;
        self.at = end;
        Ok(NumberToken {
            literal: self.since(offset),
            offset,
            integer,
        })
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

    /// Does the text end before this word does? More bytes could complete it.
    fn ends_inside(&self, word: &str) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        word.as_bytes().starts_with(rest)
    }

    fn early_end(&self) -> JsonError {
        JsonError::new(self.text.len(), JsonErrorKind::UnexpectedEnd)
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

/// Offset after the number at `start`, and whether it has neither fraction nor exponent.
#[inline]
pub(super) fn number_end(bytes: &[u8], start: usize, rules: Rules) -> Result<(usize, bool)> {
    let whole = start + usize::from(bytes.get(start) == Some(&b'-'));
    let whole_end = match bytes.get(whole) {
        Some(b'0') => whole + 1,
        _ => digits_end(bytes, whole)?,
    };
    let mut end = whole_end;
    // If no digit follows a point or `e`, Python reads the digits before it as an integer. It
    // checks the length of that integer before it checks the rest.
    let nowhere = |error| match rules {
        Rules::Python => bound_number(&bytes[start..whole_end], true, rules)
            .map_or_else(|kind| JsonError::new(start, kind), |()| error),
        Rules::Strict => error,
    };
    if bytes.get(end) == Some(&b'.') {
        end = digits_end(bytes, end + 1).map_err(nowhere)?;
    }
    let mut exponent = false;
    if let Some(b'e' | b'E') = bytes.get(end) {
        exponent = true;
        let sign = matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        let digits = digits_end(bytes, end + 1 + usize::from(sign));
        end = digits.map_err(|error| {
            if end == whole_end {
                nowhere(error)
            } else {
                error
            }
        })?;
    }
    let integer = end == whole_end;
    if exponent || end - start > ALWAYS_FINITE_BYTES {
        bound_number(&bytes[start..end], integer, rules)
            .map_err(|kind| JsonError::new(start, kind))?;
    }
    Ok((end, integer))
}

#[inline]
fn digits_end(bytes: &[u8], start: usize) -> Result<usize> {
    let mut at = start;
    while let Some(b'0'..=b'9') = bytes.get(at) {
        at += 1;
    }
    if at > start {
        return Ok(at);
    }
    Err(JsonError::new(
        at,
        match bytes.get(at) {
            Some(_) => JsonErrorKind::InvalidNumber,
            None => JsonErrorKind::UnexpectedEnd,
        },
    ))
}

/// Applies the bounds on a number that has an exponent or is long.
#[cold]
fn bound_number(
    literal: &[u8],
    integer: bool,
    rules: Rules,
) -> std::result::Result<(), JsonErrorKind> {
    let too_long = match rules {
        Rules::Strict => literal.len() > MAX_NUMBER_BYTES,
        Rules::Python => {
            let sign = usize::from(literal.starts_with(b"-"));
            integer && literal.len() - sign > MAX_PYTHON_INTEGER_DIGITS
        }
    };
    if too_long {
        return Err(JsonErrorKind::NumberTooLong);
    }
    let value = std::str::from_utf8(literal).map(str::parse::<f64>);
    let finite = matches!(value, Ok(Ok(value)) if value.is_finite());
    if rules == Rules::Strict && !integer && !finite {
        return Err(JsonErrorKind::NonFiniteNumber);
    }
    Ok(())
}
