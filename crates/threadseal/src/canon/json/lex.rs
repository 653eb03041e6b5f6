//! The grammar of RFC 8259: tokens, members, elements.
//!
//! The whole text is checked as UTF-8 once, up front; afterwards only ASCII bytes are looked at,
//! because no byte of a multi-byte character is below 0x80. Strings are crossed eight bytes at a
//! time.
//!
//! Nesting is bounded by a counter, so recursion over members and elements is bounded too.

use super::error::{JsonError, JsonErrorKind};
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
    /// What stands between the quotes.
    pub(in crate::canon) raw: &'a str,
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
        let offset = self.at;
        let mut escaped = false;
        let mut lone_surrogate = false;
        self.at += 1;
        loop {
            self.at = plain_end(self.text.as_bytes(), self.at);
            match self.byte(0) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    lone_surrogate |= self.escape()?;
                }
                Some(_) => return Err(self.error(JsonErrorKind::ControlCharacter)),
                None => return Err(self.error(JsonErrorKind::UnexpectedEnd)),
            }
        }
        let raw = self.since(offset + 1);
        self.at += 1;
        Ok(StringToken {
            raw,
            offset,
            escaped,
            lone_surrogate,
        })
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

    /// Crosses one escape, the cursor on its backslash; true if it is a lone surrogate.
    fn escape(&mut self) -> Result<bool> {
        let escape =
            decode_escape(self.text.as_bytes(), self.at).map_err(|kind| self.error(kind))?;
        let lone = matches!(escape.code_point, 0xd800..=0xdfff);
        if lone && self.rules == Rules::Strict {
            return Err(self.error(JsonErrorKind::LoneSurrogate));
        }
        self.at += escape.length;
        Ok(lone)
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

/// One escape sequence, or two that make one character.
#[derive(Debug, Clone, Copy)]
pub(in crate::canon) struct Escape {
    /// A surrogate where the other half is missing.
    pub(in crate::canon) code_point: u32,
    /// Bytes crossed: 2, 6 or 12.
    pub(in crate::canon) length: usize,
}

/// Reads the escape whose backslash is at `at`.
#[inline]
pub(in crate::canon) fn decode_escape(
    bytes: &[u8],
    at: usize,
) -> std::result::Result<Escape, JsonErrorKind> {
    let short = match bytes.get(at + 1) {
        Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'r') => b'\r',
        Some(b'b') => 0x08,
        Some(b'f') => 0x0c,
        Some(b'u') => return decode_unicode_escape(bytes, at),
        Some(_) => return Err(JsonErrorKind::InvalidEscape),
        None => return Err(JsonErrorKind::UnexpectedEnd),
    };
    Ok(Escape {
        code_point: u32::from(short),
        length: 2,
    })
}

fn decode_unicode_escape(bytes: &[u8], at: usize) -> std::result::Result<Escape, JsonErrorKind> {
    let Some(digits) = bytes.get(at + 2..at + 6) else {
        return Err(JsonErrorKind::UnexpectedEnd);
    };
    let unit = hex_unit(digits).ok_or(JsonErrorKind::InvalidEscape)?;
    let low = match bytes.get(at + 6..at + 12) {
        Some([b'\\', b'u', digits @ ..]) if (0xd800..0xdc00).contains(&unit) => hex_unit(digits),
        _ => None,
    };
    Ok(match low {
        Some(low @ 0xdc00..=0xdfff) => Escape {
            code_point: 0x1_0000 + ((unit - 0xd800) << 10 | (low - 0xdc00)),
            length: 12,
        },
        _ => Escape {
            code_point: unit,
            length: 6,
        },
    })
}

fn hex_unit(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |unit, digit| {
        Some(unit << 4 | char::from(*digit).to_digit(16)?)
    })
}

/// Offset of the first quote, backslash or control character at or after `at`, else the length.
#[inline]
pub(in crate::canon) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    let mut rest = bytes.get(at..).unwrap_or_default();
    while let Some((chunk, tail)) = rest.split_first_chunk() {
        let hits = special_bytes(u64::from_le_bytes(*chunk));
        if hits != 0 {
            return at + (hits.trailing_zeros() >> 3) as usize;
        }
        at += 8;
        rest = tail;
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    at + rest.iter().position(special).unwrap_or(rest.len())
}

/// The high bit of each byte of `word` that is a quote, a backslash or below 0x20.
///
/// `x - 0x01` borrows out of a byte exactly when the byte is 0, and `x - 0x20` when it is below
/// 0x20; the high bit of the byte then tells. A borrow can reach the next higher byte and mark
/// it wrongly, never a lower one, so the lowest mark is always right.
#[inline]
pub(super) fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let quote = (word ^ (ONES * b'"' as u64)).wrapping_sub(ONES);
    let backslash = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    let control = word.wrapping_sub(ONES * 0x20);
    (quote | backslash | control) & !word & HIGH
}
