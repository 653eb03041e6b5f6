//! Why a text is not JSON, and where.

use crate::error::{Error, ErrorKind};
use std::fmt;

/// Where reading stopped and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonError {
    /// Byte offset from the start of the text.
    pub offset: usize,
    /// The rule that the text breaks there.
    pub kind: JsonErrorKind,
}

/// The rules that a text can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// Not UTF-8.
    InvalidUtf8,
    /// Starts with U+FEFF.
    ByteOrderMark,
    /// The text ends inside a value.
    UnexpectedEnd,
    /// A byte that the grammar does not allow at this place.
    UnexpectedByte,
    /// A backslash without one of `"\/bfnrt` or `u` and four hex digits.
    InvalidEscape,
    /// An escaped surrogate without its other half (strict rules only).
    LoneSurrogate,
    /// A raw byte below 0x20 in a string.
    ControlCharacter,
    /// A number that does not follow the grammar.
    InvalidNumber,
    /// A fraction or exponent whose value is not a finite double (strict rules only).
    NonFiniteNumber,
    /// The name occurred before in this object (strict rules only).
    DuplicateKey,
    /// The value is not an object where one is needed.
    NotAnObject,
    /// Bytes other than blanks after the value.
    TrailingData,
    /// Nested beyond [`crate::limits::MAX_JSON_DEPTH`], or
    /// [`crate::limits::MAX_PYTHON_JSON_DEPTH`] under Python's rules.
    TooDeep,
    /// A number beyond [`crate::limits::MAX_NUMBER_BYTES`], or an integer beyond
    /// [`crate::limits::MAX_PYTHON_INTEGER_DIGITS`] under Python's rules.
    NumberTooLong,
    /// More than [`crate::limits::MAX_JSON_VALUES`] values.
    TooManyValues,
}

impl JsonErrorKind {
    /// Whether the text exceeds a bound of [`crate::limits`], rather than breaks the grammar.
    pub fn is_limit(self) -> bool {
        matches!(
            self,
            Self::TooDeep | Self::NumberTooLong | Self::TooManyValues
        )
    }

    /// The fault in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::InvalidUtf8 => "not UTF-8",
            Self::ByteOrderMark => "starts with a byte order mark",
            Self::UnexpectedEnd => "ends inside a value",
            Self::UnexpectedByte => "unexpected byte",
            Self::InvalidEscape => "invalid escape",
            Self::LoneSurrogate => "lone surrogate",
            Self::ControlCharacter => "control character in a string",
            Self::InvalidNumber => "invalid number",
            Self::NonFiniteNumber => "number beyond a finite double",
            Self::DuplicateKey => "duplicate key",
            Self::NotAnObject => "not an object",
            Self::TrailingData => "data after the value",
            Self::TooDeep => "nested too deep",
            Self::NumberTooLong => "number too long",
            Self::TooManyValues => "too many values",
        }
    }
}

impl JsonError {
    pub(in crate::canon) fn new(offset: usize, kind: JsonErrorKind) -> Self {
        Self { offset, kind }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind.words(), self.offset)
    }
}

impl std::error::Error for JsonError {}

impl From<JsonError> for Error {
    fn from(error: JsonError) -> Self {
        let kind = if error.kind.is_limit() {
            ErrorKind::Limit
        } else {
            ErrorKind::InvalidInput
        };
        Self::new(kind, format!("JSON: {error}"))
    }
}
