//! RFC 8785, the JSON Canonicalization Scheme.
//!
//! ```text
//! no blanks · names sorted by UTF-16 code unit · numbers as ECMAScript prints the nearest
//! double · strings with the fewest escapes · UTF-8
//! ```
//!
//! [`canonicalize`] converts text to text in one pass (`rewrite`).
//!
//! The reader is strict (see [`super::json`]), because RFC 8785 §3.1 requires I-JSON (RFC 7493).
//!
//! RFC 8785 converts every number to a double. An integer beyond 2^53 therefore loses digits here.
//! A signature over the result does not cover those digits.

use super::Unrepresentable;
use super::json::{
    JsonError, JsonErrorKind, Number, Text, Value, parse, validate, write_minimal_string,
};
use super::rewrite::{self, Dialect, Form, rewrite};
pub use super::rewrite::{Part, Watch};
use std::cmp::Ordering;

pub use super::rewrite::LostDetails;

/// A decimal of up to this many digits is the shortest that reads back as its double.
///
/// IEEE 754 binary64 distinguishes all such decimals, so ECMAScript prints the same digits.
const EXACT_DIGITS: usize = 15;

/// ECMAScript prints an integer of up to so many digits without an exponent.
const MAX_PLAIN_DIGITS: usize = 21;

/// The canonical form of one JSON text.
///
/// # Errors
/// As [`super::json::parse`], and [`JsonErrorKind::NonFiniteNumber`] for an integer beyond the
/// range of doubles.
pub fn canonicalize(text: &[u8]) -> Result<Vec<u8>, JsonError> {
    rewrite::<Jcs>(text, false).map_or_else(
        |failed| {
            // Either the text is invalid, or a number in it is too large.
            let not_finite = JsonError::new(failed.not_finite, JsonErrorKind::NonFiniteNumber);
            to_vec(&parse(text)?).map_err(|_| not_finite)
        },
        |(canonical, _)| Ok(canonical),
    )
}

/// As [`canonicalize`], and reports the details that the canonical form loses. Never builds a tree,
/// even for an invalid text.
///
/// # Errors
/// As [`canonicalize`].
pub fn canonicalize_closely(text: &[u8]) -> Result<(Vec<u8>, LostDetails), JsonError> {
    rewrite::<Jcs>(text, true).or_else(|failed| {
        validate(text)?;
        Err(JsonError::new(
            failed.not_finite,
            JsonErrorKind::NonFiniteNumber,
        ))
    })
}

/// The canonical form of a value.
///
/// # Errors
/// Any [`Unrepresentable`]. RFC 8785 has no text for lone surrogates and numbers beyond the range
/// of doubles. It allows no two members of one name.
pub fn to_vec(value: &Value) -> Result<Vec<u8>, Unrepresentable> {
    let mut out = Vec::new();
    write_value(&mut out, value)?;
    Ok(out)
}

/// Brings the text of an object into canonical form and shows `watch` its parts.
///
/// Returns `None` for a text that is invalid, unusual or refused by the watcher.
pub fn watch<'a>(text: &'a [u8], watch: &mut impl Watch) -> Option<Form<'a>> {
    rewrite::watch::<Jcs>(text, watch)
}

/// The rules that RFC 8785 does not share with other dialects.
struct Jcs;

impl Dialect for Jcs {
    #[inline]
    fn compare(a: &[u8], b: &[u8]) -> Ordering {
        compare_utf16(a, b)
    }

    #[inline]
    fn is_canonical(literal: &[u8], integer: bool) -> bool {
        is_canonical(literal, integer)
    }

    fn write_number(out: &mut Vec<u8>, literal: &str, _integer: bool) -> bool {
        write_number(out, literal)
    }
}

/// Whether a number is certainly spelled as ECMAScript prints it (RFC 8785 §3.2.2.3).
#[inline]
fn is_canonical(literal: &[u8], integer: bool) -> bool {
    let digits = literal.strip_prefix(b"-").unwrap_or(literal);
    if integer {
        return (digits.len() <= EXACT_DIGITS && literal != b"-0") || is_round(digits);
    }
    // `0.0000001` is printed with an exponent; a last digit 0 or an exponent is not printed.
    digits.len() <= EXACT_DIGITS
        && !digits.starts_with(b"0.00000")
        && matches!(digits.last(), Some(b'1'..=b'9'))
        && !digits.iter().any(|byte| matches!(byte, b'e' | b'E'))
}

/// Whether an integer below 10^21 has few digits before zeros: ECMAScript prints the zeros.
fn is_round(digits: &[u8]) -> bool {
    let zeros = digits.iter().rev().take_while(|digit| **digit == b'0');
    let exact = digits.len() - zeros.count();
    (1..=EXACT_DIGITS).contains(&exact) && digits.len() <= MAX_PLAIN_DIGITS
}

/// Appends a number as ECMAScript prints its double; false if that is not finite.
fn write_number(out: &mut Vec<u8>, literal: &str) -> bool {
    match literal.parse::<f64>() {
        Ok(value) if value.is_finite() => {
            out.extend_from_slice(ryu_js::Buffer::new().format_finite(value).as_bytes());
            true
        }
        _ => false,
    }
}

/// Orders two UTF-8 texts by their UTF-16 code units (RFC 8785 §3.2.3).
///
/// UTF-8 orders by code point. UTF-16 differs in one place. Characters above U+FFFF (first byte
/// 0xf0 and up) start with a surrogate. They sort before U+E000..U+FFFF (first byte 0xee and 0xef).
/// Two texts can differ in these bytes only at a first byte, because no later byte exceeds 0xbf.
fn compare_utf16(a: &[u8], b: &[u8]) -> Ordering {
    let Some((x, y)) = a.iter().zip(b).find(|(x, y)| x != y) else {
        return a.len().cmp(&b.len());
    };
    match (x, y) {
        (0xf0.., 0xee..=0xef) => Ordering::Less,
        (0xee..=0xef, 0xf0..) => Ordering::Greater,
        _ => x.cmp(y),
    }
}

fn write_value(out: &mut Vec<u8>, value: &Value) -> Result<(), Unrepresentable> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_value_number(out, number)?,
        Value::String(text) => write_text(out, text)?,
        Value::Array(elements) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(out, element)?;
            }
            out.push(b']');
        }
        Value::Object(members) => write_members(out, members)?,
    }
    Ok(())
}

fn write_members(out: &mut Vec<u8>, members: &[(Text, Value)]) -> Result<(), Unrepresentable> {
    let compare = |a: &Text, b: &Text| compare_utf16(a.as_bytes(), b.as_bytes());
    let mut sorted: Vec<&(Text, Value)> = members.iter().collect();
    sorted.sort_by(|a, b| compare(&a.0, &b.0));
    if sorted.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(Unrepresentable::DuplicateKey);
    }
    out.push(b'{');
    for (index, (name, value)) in sorted.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_text(out, name)?;
        out.push(b':');
        write_value(out, value)?;
    }
    out.push(b'}');
    Ok(())
}

fn write_text(out: &mut Vec<u8>, text: &Text) -> Result<(), Unrepresentable> {
    let text = text.as_str().ok_or(Unrepresentable::LoneSurrogate)?;
    write_minimal_string(out, text);
    Ok(())
}

fn write_value_number(out: &mut Vec<u8>, number: &Number) -> Result<(), Unrepresentable> {
    if is_canonical(number.literal().as_bytes(), number.is_integer()) {
        out.extend_from_slice(number.literal().as_bytes());
    } else if !write_number(out, number.literal()) {
        return Err(Unrepresentable::NonFinite);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
