//! Deterministic CBOR (RFC 8949 §4.2.1) of JSON values: one encoding for each value.
//!
//! ```text
//! 00..1b uint   20..3b negative   60..7b text   80..9b array   a0..bb map (text keys, sorted)
//! f4 f5 f6      f9 fa fb float
//! ```
//! The data model is JSON's, so a number is a double. An integral double from -2^64 to 2^64 - 1 is
//! encoded as an integer. Every other double takes the shortest of the three floats that holds it.
//! -0 is encoded as 0. Texts and heads take the fewest bytes. Keys ascend by their encoded bytes.
//!
//! [`parse`] accepts the output of [`to_vec`] and nothing else. It refuses any other length, order,
//! integer or float. It refuses byte strings, tags, indefinite lengths, `undefined`, `NaN` and
//! infinities. Memory is bounded by the input, never by a length that the input claims.
//!
//! Elsewhere: [`Skipper`] finds the end of an item in a stream (`skip`). `float` converts exactly
//! between the widths of floats.

mod float;
mod skip;
#[cfg(test)]
mod tests;

pub use skip::{Skipped, Skipper};

use super::Unrepresentable;
use super::json::{Number, Text, Value};
use crate::limits::{MAX_CBOR_VALUES, MAX_JSON_DEPTH};
use std::fmt;
use std::str::Utf8Error;

const UINT: u8 = 0;
const NEGATIVE: u8 = 1;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;
const NULL: u8 = 0xf6;

/// The encoding of a value.
///
/// # Errors
/// Any [`Unrepresentable`]: JSON text has values that no double, no UTF-8 or no map is.
pub fn to_vec(value: &Value) -> Result<Vec<u8>, Unrepresentable> {
    let mut out = Vec::new();
    write(&mut out, value)?;
    Ok(out)
}

fn write(out: &mut Vec<u8>, value: &Value) -> Result<(), Unrepresentable> {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(false) => out.push(FALSE),
        Value::Bool(true) => out.push(TRUE),
        Value::Number(number) => write_number(out, number.as_f64())?,
        Value::String(text) => write_text(out, text)?,
        Value::Array(elements) => {
            write_head(out, ARRAY, elements.len() as u64);
            for element in elements {
                write(out, element)?;
            }
        }
        Value::Object(members) => {
            // Keys are texts, and heads ascend with lengths: bytewise order is this one.
            let order = |text: &Text| (text.as_bytes().len(), text.as_bytes().to_vec());
            let mut sorted: Vec<&(Text, Value)> = members.iter().collect();
            sorted.sort_by_cached_key(|(name, _)| order(name));
            if sorted.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return Err(Unrepresentable::DuplicateKey);
            }
            write_head(out, MAP, sorted.len() as u64);
            for (name, value) in sorted {
                write_text(out, name)?;
                write(out, value)?;
            }
        }
    }
    Ok(())
}

fn write_text(out: &mut Vec<u8>, text: &Text) -> Result<(), Unrepresentable> {
    let text = text.as_str().ok_or(Unrepresentable::LoneSurrogate)?;
    write_head(out, TEXT, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn write_number(out: &mut Vec<u8>, value: f64) -> Result<(), Unrepresentable> {
    if !value.is_finite() {
        return Err(Unrepresentable::NonFinite);
    }
    match integer(value) {
        Some(Integer::Positive(number)) => write_head(out, UINT, number),
        Some(Integer::Negative(below)) => write_head(out, NEGATIVE, below),
        None => float::write(out, value),
    }
    Ok(())
}

/// An integer as CBOR counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Integer {
    Positive(u64),
    /// -1 - n.
    Negative(u64),
}

/// The CBOR integer that equals a double, if there is one.
///
/// The value is exact. The digits that ECMAScript prints of a large double can differ from it.
fn integer(value: f64) -> Option<Integer> {
    // 2^64 and its negative; both are doubles.
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    if value.fract() != 0.0 || !(-LIMIT..LIMIT).contains(&value) {
        return None;
    }
    let bits = value.to_bits();
    let exponent = bits >> 52 & 0x7ff;
    let significand = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
    // An integral double below one is zero, and none here is 2^65.
    let magnitude = match exponent.checked_sub(1023) {
        None => 0,
        Some(above @ 0..=52) => significand >> (52 - above),
        Some(above) => significand << (above - 52),
    };
    if value.is_sign_negative() && magnitude > 0 {
        u64::try_from(magnitude - 1).ok().map(Integer::Negative)
    } else {
        u64::try_from(magnitude).ok().map(Integer::Positive)
    }
}

/// Writes a head in the fewest bytes.
fn write_head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let major = major << 5;
    let bytes = argument.to_be_bytes();
    match argument {
        0..24 => out.push(major | bytes[7]),
        24..0x100 => out.extend_from_slice(&[major | 24, bytes[7]]),
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend_from_slice(&bytes[6..]);
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 26);
            out.extend_from_slice(&bytes[4..]);
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Why bytes are not deterministic CBOR of a JSON value, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CborError {
    /// Byte offset of the item's head, or of the end.
    pub offset: usize,
    /// The rule that the bytes break there.
    pub kind: CborErrorKind,
}

/// The rules of deterministic CBOR that bytes can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CborErrorKind {
    /// The bytes end inside an item, and no other rule is broken before that.
    UnexpectedEnd,
    /// A length or integer in more bytes than it needs, or a reserved head.
    NotShortest,
    /// A float that a shorter float or an integer holds as well.
    FloatNotShortest,
    /// An integer that no double holds.
    NotADouble,
    /// `NaN` or an infinity.
    NonFiniteNumber,
    /// An indefinite length, or its end.
    IndefiniteLength,
    /// A byte string, a tag, `undefined` or another simple value: JSON has no such values.
    NotJson,
    /// A key that is not a text.
    KeyNotText,
    /// A key that does not sort after the key before it.
    KeyOrder,
    /// A text that is not UTF-8.
    InvalidUtf8,
    /// Nested deeper than [`MAX_JSON_DEPTH`].
    TooDeep,
    /// More than [`MAX_CBOR_VALUES`] values.
    TooManyValues,
    /// Bytes after the item.
    TrailingData,
}

impl CborErrorKind {
    fn words(self) -> &'static str {
        match self {
            Self::UnexpectedEnd => "ends inside an item",
            Self::NotShortest => "a head that is not the shortest",
            Self::FloatNotShortest => "a float that is not the shortest number",
            Self::NotADouble => "an integer that no double holds",
            Self::NonFiniteNumber => "a number that is not finite",
            Self::IndefiniteLength => "an indefinite length",
            Self::NotJson => "an item that JSON does not have",
            Self::KeyNotText => "a key that is not text",
            Self::KeyOrder => "a key that is out of order or occurs twice",
            Self::InvalidUtf8 => "text that is not UTF-8",
            Self::TooDeep => "nested too deep",
            Self::TooManyValues => "too many values",
            Self::TrailingData => "data after the item",
        }
    }
}

impl fmt::Display for CborError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind.words(), self.offset)
    }
}

impl std::error::Error for CborError {}

/// Reads `bytes` as exactly one item.
///
/// # Errors
/// The first place that differs from the output of [`to_vec`].
pub fn parse(bytes: &[u8]) -> Result<Value, CborError> {
    let mut reader = Reader {
        bytes,
        at: 0,
        values: 0,
    };
    let value = reader.value(MAX_JSON_DEPTH)?;
    if reader.at < bytes.len() {
        return Err(fault(reader.at, CborErrorKind::TrailingData));
    }
    Ok(value)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    values: usize,
}

fn fault(offset: usize, kind: CborErrorKind) -> CborError {
    CborError { offset, kind }
}

type Read<T> = Result<T, CborError>;

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| fault(self.bytes.len(), CborErrorKind::UnexpectedEnd))?;
        self.at += count;
        Ok(taken)
    }

    /// A head: its major type, its low five bits, its argument.
    fn head(&mut self) -> Read<(u8, u8, u64)> {
        let start = self.at;
        let first = self.take(1)?[0];
        let (major, info) = (first >> 5, first & 31);
        let wide = match info {
            0..24 => return Ok((major, info, u64::from(info))),
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            28..31 => return Err(fault(start, CborErrorKind::NotShortest)),
            _ => return Err(fault(start, CborErrorKind::IndefiniteLength)),
        };
        let number = |bytes: &[u8]| {
            let bytes = bytes.iter();
            bytes.fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if major <= TAG && rest.len() < wide {
            // What is there already may show that the head is too long.
            let mut most = [0xff; 8];
            most[..rest.len()].copy_from_slice(rest);
            self.check_shortest(start, info, number(&most[..wide]))?;
        }
        Ok((major, info, number(self.take(wide)?)))
    }

    /// Whether the next item, of which more than its first byte may be missing, can be one of JSON.
    fn check_kind(&self) -> Read<()> {
        let Some(first) = self.bytes.get(self.at) else {
            return Ok(());
        };
        match (first >> 5, first & 31) {
            (UINT | NEGATIVE | TEXT | ARRAY | MAP, _) | (7, 20..=22 | 25..) => Ok(()),
            _ => Err(fault(self.at, CborErrorKind::NotJson)),
        }
    }

    /// Checks that a head whose argument is a number takes the fewest bytes.
    fn check_shortest(&self, start: usize, info: u8, argument: u64) -> Read<()> {
        let least = match info {
            24 => 24,
            25 => 0x100,
            26 => 0x1_0000,
            27 => 0x1_0000_0000,
            _ => 0,
        };
        if argument < least {
            return Err(fault(start, CborErrorKind::NotShortest));
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Read<Value> {
        let start = self.at;
        self.values += 1;
        if self.values > MAX_CBOR_VALUES {
            return Err(fault(start, CborErrorKind::TooManyValues));
        }
        self.check_kind()?;
        let (major, info, argument) = self.head()?;
        if major > TAG {
            return self.simple_or_float(start, info, argument);
        }
        self.check_shortest(start, info, argument)?;
        match major {
            UINT => self.integer(start, u128::from(argument), ""),
            NEGATIVE => self.integer(start, u128::from(argument) + 1, "-"),
            TEXT => Ok(Value::String(self.text(start, argument)?.into())),
            ARRAY => {
                let depth = self.deeper(start, depth)?;
                let elements = (0..argument).map(|_| self.value(depth));
                Ok(Value::Array(elements.collect::<Read<_>>()?))
            }
            MAP => {
                let depth = self.deeper(start, depth)?;
                self.map(argument, depth)
            }
            _ => Err(fault(start, CborErrorKind::NotJson)),
        }
    }

    fn deeper(&self, start: usize, depth: usize) -> Read<usize> {
        depth
            .checked_sub(1)
            .ok_or_else(|| fault(start, CborErrorKind::TooDeep))
    }

    fn integer(&self, start: usize, magnitude: u128, sign: &str) -> Read<Value> {
        let bits = 128 - magnitude.leading_zeros();
        let inexact = bits > 53 && magnitude.trailing_zeros() < bits - 53;
        let value = format!("{sign}{magnitude}").parse();
        value
            .ok()
            .filter(|_| !inexact)
            .and_then(number)
            .ok_or_else(|| fault(start, CborErrorKind::NotADouble))
    }

    fn text(&mut self, start: usize, argument: u64) -> Read<&'a str> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = usize::try_from(argument).unwrap_or(usize::MAX);
        let Some(bytes) = rest.get(..length) else {
            // The end may split a character.
            let is_cut = |error: Utf8Error| error.error_len().is_none();
            return Err(
                match std::str::from_utf8(rest).map_or_else(is_cut, |_| true) {
                    true => fault(self.bytes.len(), CborErrorKind::UnexpectedEnd),
                    false => fault(start, CborErrorKind::InvalidUtf8),
                },
            );
        };
        self.at += length;
        std::str::from_utf8(bytes).map_err(|_| fault(start, CborErrorKind::InvalidUtf8))
    }

    fn map(&mut self, argument: u64, depth: usize) -> Read<Value> {
        let mut members: Vec<(Text, Value)> = Vec::new();
        for _ in 0..argument {
            let start = self.at;
            if self
                .bytes
                .get(start)
                .is_some_and(|first| first >> 5 != TEXT)
            {
                return Err(fault(start, CborErrorKind::KeyNotText));
            }
            let (_, info, argument) = self.head()?;
            self.check_shortest(start, info, argument)?;
            let name = self.text(start, argument)?;
            let ascends = members.last().is_none_or(|(last, _)| {
                let last = last.as_bytes();
                (last.len(), last) < (name.len(), name.as_bytes())
            });
            if !ascends {
                return Err(fault(start, CborErrorKind::KeyOrder));
            }
            let value = self.value(depth)?;
            members.push((name.into(), value));
        }
        Ok(Value::Object(members))
    }

    fn simple_or_float(&self, start: usize, info: u8, argument: u64) -> Read<Value> {
        let value = match info {
            20 => return Ok(Value::Bool(false)),
            21 => return Ok(Value::Bool(true)),
            22 => return Ok(Value::Null),
            25 => float::widen(argument, &float::HALF),
            26 => float::widen(argument, &float::SINGLE),
            27 => f64::from_bits(argument),
            _ => return Err(fault(start, CborErrorKind::NotJson)),
        };
        if !value.is_finite() {
            return Err(fault(start, CborErrorKind::NonFiniteNumber));
        }
        let mut shortest = Vec::with_capacity(9);
        let written = write_number(&mut shortest, value);
        if written.is_err() || self.bytes.get(start..self.at) != Some(&shortest) {
            return Err(fault(start, CborErrorKind::FloatNotShortest));
        }
        number(value).ok_or_else(|| fault(start, CborErrorKind::NonFiniteNumber))
    }
}

/// A finite double, spelled as canonical JSON spells it.
fn number(value: f64) -> Option<Value> {
    Number::parse(ryu_js::Buffer::new().format_finite(value)).map(Value::Number)
}
