//! How values compare: numbers by their value, text by code points, everything else only for
//! equality.

use crate::bounds::MAX_NUMERIC_TEXT_BYTES;
use serde_json::{Number, Value};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Equality: numbers by value (1 and 1.0 are one number), the rest by kind and content.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => Numeric::of(a).cmp(Numeric::of(b)).is_eq(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// Order: as numbers where both are numbers or numeric texts, else as texts where both are texts,
/// else none.
pub(crate) fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (numeric(a), numeric(b), a, b) {
        (Some(a), Some(b), ..) => Some(a.cmp(b)),
        (_, _, Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// Whether a text contains the value's text, a list the value as an item, a mapping the text as a
/// key.
pub(super) fn contains(found: &Value, value: &Value) -> bool {
    match found {
        Value::Array(items) => items.iter().any(|item| equal(item, value)),
        Value::Object(members) => value.as_str().is_some_and(|key| members.contains_key(key)),
        _ => text(found).contains(&*text(value)),
    }
}

/// Text as it is, anything else as compact JSON.
pub(super) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// The name of a value's type in errors.
pub(crate) fn name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

#[derive(Debug, Clone, Copy)]
enum Numeric {
    Whole(i128),
    Real(f64),
}

impl Numeric {
    fn of(number: &Number) -> Self {
        number
            .as_i128()
            .map_or_else(|| Self::real(number.as_f64()), Self::Whole)
    }

    /// A JSON number is finite; any other value sorts above all numbers.
    fn real(number: Option<f64>) -> Self {
        Self::Real(number.unwrap_or(f64::INFINITY))
    }

    fn cmp(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => a.cmp(&b),
            (Self::Real(a), Self::Real(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Self::Whole(a), Self::Real(b)) => whole_to_real(a, b),
            (Self::Real(a), Self::Whole(b)) => whole_to_real(b, a).reverse(),
        }
    }
}

/// Compares without rounding the whole number to a double.
fn whole_to_real(whole: i128, real: f64) -> Ordering {
    const EXACT: f64 = (1_u128 << 120) as f64;
    if real >= EXACT {
        return Ordering::Less;
    }
    if real <= -EXACT {
        return Ordering::Greater;
    }
    let floor = real.floor();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number below 2^120 fits"
    )]
    let below = floor as i128;
    whole.cmp(&below).then(if real > floor {
        Ordering::Less
    } else {
        Ordering::Equal
    })
}

/// A number, or a text that spells one between blanks: the output of a command ends in a newline.
fn numeric(value: &Value) -> Option<Numeric> {
    let text = match value {
        Value::Number(number) => return Some(Numeric::of(number)),
        Value::String(text) if text.len() <= MAX_NUMERIC_TEXT_BYTES => text.trim_ascii(),
        _ => return None,
    };
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let mut digits = unsigned.split(['.', 'e', 'E', '+', '-']);
    let plain = unsigned.starts_with(|first: char| first.is_ascii_digit())
        && digits.all(|run| run.bytes().all(|byte| byte.is_ascii_digit()));
    if !plain {
        return None;
    }
    match text.parse() {
        Ok(whole) => Some(Numeric::Whole(whole)),
        Err(_) => text
            .parse()
            .ok()
            .filter(|real: &f64| real.is_finite())
            .map(Numeric::Real),
    }
}
