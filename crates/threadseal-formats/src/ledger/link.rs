//! The links in a record, to the previous record and of itself: `prev_hash` and `record_hash`.
//!
//! `AbstractRuntime` compares and tests these as Python values of any type; so does [`Link`].

use threadseal_core::canon::json::{self, Number, Text, Value};
use threadseal_core::digest::Digest;
use threadseal_core::limits::MAX_LINK_BYTES;

/// `prev_hash` or `record_hash` as a record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Link {
    /// `null`, or no such member: `AbstractRuntime` treats them alike.
    None,
    /// 64 lower-case hex digits.
    Hash(Digest),
    /// Anything else.
    Other(Box<Value>),
    /// Any other value of more than [`MAX_LINK_BYTES`]: neither it nor its equality is examined.
    TooLong,
}

impl Link {
    /// Reads a member's value: its text as `ledger` writes it. The value itself counts where that
    /// text is in WTF-8.
    pub(super) fn read(text: &[u8], value: Option<&Value>) -> Self {
        if text == b"null" {
            return Self::None;
        }
        let hex = text
            .strip_prefix(b"\"")
            .and_then(|text| text.strip_suffix(b"\""))
            .and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(digest) = hex.and_then(Digest::parse_hex) {
            return Self::Hash(digest);
        }
        if text.len() > MAX_LINK_BYTES {
            return Self::TooLong;
        }
        let parsed = || Some(json::parse_python(text).ok()?.value);
        let value = parsed().or_else(|| value.cloned());
        Self::Other(Box::new(value.unwrap_or(Value::Null)))
    }

    pub(super) fn digest(&self) -> Option<Digest> {
        match self {
            Self::Hash(digest) => Some(*digest),
            _ => None,
        }
    }

    /// Whether it may have members, whose order is that of the names so far.
    pub(super) fn has_members(&self) -> bool {
        let Self::Other(value) = self else {
            return false;
        };
        matches!(**value, Value::Array(_) | Value::Object(_))
    }

    /// Puts members in the order that they have in `value`, the same value as read from the record.
    pub(super) fn put_in_order(&mut self, value: Option<&Value>) {
        if let (Self::Other(own), Some(value)) = (self, value) {
            (**own).clone_from(value);
        }
    }

    /// As it is shown.
    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::None | Self::TooLong => Value::Null,
            Self::Hash(digest) => digest.to_hex().into(),
            Self::Other(value) => (**value).clone(),
        }
    }

    /// Python's `a == b`.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            // `NaN` differs from itself, unless it is inside a list or dict that is compared.
            (Self::Other(a), Self::Other(b)) => !is_nan(a) && equal(a, b),
            (a, b) => a == b,
        }
    }

    /// Python's `bool(a)`.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::None => false,
            Self::Hash(_) | Self::TooLong => true,
            Self::Other(value) => match &**value {
                Value::Null => false,
                Value::Bool(value) => *value,
                Value::Number(number) => number.as_f64() != 0.0,
                Value::String(text) => !text.as_bytes().is_empty(),
                Value::Array(elements) => !elements.is_empty(),
                Value::Object(members) => !members.is_empty(),
            },
        }
    }
}

fn is_nan(value: &Value) -> bool {
    value
        .as_number()
        .is_some_and(|number| number.literal() == "NaN")
}

/// Python's `==` of two values inside lists and dicts. There one `NaN` equals another, since its
/// JSON reader returns the same object each time.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => a.len() == b.len() && equal_members(a, b),
        _ => match (as_number(a), as_number(b)) {
            (Some(a), Some(b)) => equal_numbers(&a, &b),
            (None, None) => a == b,
            _ => false,
        },
    }
}

fn equal_members(a: &[(Text, Value)], b: &[(Text, Value)]) -> bool {
    let (a, b) = (sorted(a), sorted(b));
    a.iter()
        .zip(&b)
        .all(|(a, b)| a.0 == b.0 && equal(&a.1, &b.1))
}

fn sorted(members: &[(Text, Value)]) -> Vec<&(Text, Value)> {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    sorted
}

/// A truth value is a number for Python.
fn as_number(value: &Value) -> Option<Number> {
    match value {
        Value::Bool(value) => Some(u64::from(*value).into()),
        Value::Number(number) => Some(number.clone()),
        _ => None,
    }
}

/// Exactly: an integer of any size equals a float that is that integer.
fn equal_numbers(a: &Number, b: &Number) -> bool {
    match (a.is_integer(), b.is_integer()) {
        (true, true) => integer(a) == integer(b),
        (true, false) => integral(b).is_some_and(|b| b == integer(a)),
        (false, true) => integral(a).is_some_and(|a| a == integer(b)),
        (false, false) => a.as_f64() == b.as_f64() || a.literal() == b.literal(),
    }
}

fn integer(number: &Number) -> &str {
    match number.literal() {
        "-0" => "0",
        literal => literal,
    }
}

/// All digits of a float without a fraction.
fn integral(number: &Number) -> Option<String> {
    let value = number.as_f64();
    if !value.is_finite() || value.fract() != 0.0 {
        return None;
    }
    // The sum drops the sign of a negative zero.
    Some(format!("{:.0}", value + 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(text: &str) -> Link {
        let value = json::parse_python(text.as_bytes()).unwrap().value;
        Link::read(text.as_bytes(), Some(&value))
    }

    #[test]
    fn links_are_compared_as_python_compares() {
        let big = "1180591620717411303424";
        for (a, b, equal) in [
            ("null", "null", true),
            ("null", "\"\"", false),
            ("1", "1.0", true),
            ("true", "1", true),
            ("false", "-0.0", true),
            ("0", "-0", true),
            (big, "1180591620717411303424.0", true),
            ("1180591620717411303425", "1180591620717411303424.0", false),
            ("1e400", "Infinity", true),
            ("NaN", "NaN", false),
            ("[NaN]", "[NaN]", true),
            ("[1,{\"a\":true}]", "[1.0,{\"a\":1}]", true),
            ("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true),
            ("{\"a\":1}", "{\"b\":1}", false),
            ("\"x\"", "\"\\u0078\"", true),
            ("\"1\"", "1", false),
        ] {
            assert_eq!(link(a).equals(&link(b)), equal, "{a} == {b}");
        }
        let digest = format!("\"{}\"", Digest::of(b"").to_hex());
        assert!(link(&digest).equals(&link(&digest)));
        assert!(!link(&digest).equals(&link(&digest.to_uppercase())));
    }

    #[test]
    fn links_are_tested_as_python_tests() {
        for (text, is_true) in [
            ("null", false),
            ("\"\"", false),
            ("0", false),
            ("-0.0", false),
            ("1e-400", false),
            ("[]", false),
            ("{}", false),
            ("false", false),
            ("NaN", true),
            ("\" \"", true),
            ("[0]", true),
            ("{\"a\":0}", true),
        ] {
            assert_eq!(link(text).is_true(), is_true, "{text}");
        }
    }
}
