//! Converts values to forms that every scroll can hold, without losing a digit.
//!
//! | in the source | in the scroll |
//! |---|---|
//! | a number whose decimal differs from its double's text (RFC 8785) | the string of its literal |
//! | an array or object nested deeper than [`MAX_CARRIED_DEPTH`] | the string of its JSON |
//! | a string or name with a lone surrogate | the string with the surrogate as `\udxxx` |
//! | anything else | itself |
//!
//! A scroll hashes numbers as doubles (`spec/scroll.md`). The hash would not cover the last digits
//! of a wallet's balance or a snowflake id of 19 digits. It covers them in a string.

use super::account::Alteration;
use threadseal_core::canon::json::{Number, Text, Value};
use threadseal_core::canon::python;
use threadseal_core::limits::MAX_CARRIED_DEPTH;

/// `value`, fit for a scroll. Each alteration is reported with its JSON Pointer, which begins with
/// `pointer`.
pub(super) fn fit(
    value: &Value,
    pointer: &mut String,
    altered: &mut dyn FnMut(&str, Alteration),
) -> Value {
    fit_at(value, 0, pointer, altered)
}

/// `text`, with lone surrogates as escapes, and whether it had one.
pub(super) fn fit_text(text: &Text) -> (String, bool) {
    match text.as_str() {
        Some(text) => (text.to_owned(), false),
        None => (escaped(text), true),
    }
}

/// Whether the double nearest to `number` has, as RFC 8785 writes it, the same decimal value.
pub(super) fn is_exact(number: &Number) -> bool {
    let double = number.as_f64();
    if !double.is_finite() {
        return false;
    }
    let mut buffer = ryu_js::Buffer::new();
    Decimal::of(number.literal()) == Decimal::of(buffer.format_finite(double))
}

/// `value` as a hash covers it: a number with other digits becomes that of its double. No reader of
/// a scroll shows a digit that anyone could have changed.
pub(super) fn covered(value: Value) -> Value {
    match value {
        Value::Number(number) if !is_exact(&number) => {
            let mut buffer = ryu_js::Buffer::new();
            let double = number.as_f64();
            let text = double.is_finite().then(|| buffer.format_finite(double));
            Value::Number(text.and_then(Number::parse).unwrap_or(number))
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(covered).collect()),
        Value::Object(members) => {
            let members = members.into_iter();
            Value::Object(
                members
                    .map(|(name, value)| (name, covered(value)))
                    .collect(),
            )
        }
        other => other,
    }
}

/// Appends a pointer segment for `name`, escaped by RFC 6901 §3.
pub(super) fn push_segment(pointer: &mut String, name: &str) {
    pointer.push('/');
    for character in name.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

fn fit_at(
    value: &Value,
    depth: usize,
    pointer: &mut String,
    altered: &mut dyn FnMut(&str, Alteration),
) -> Value {
    let length = pointer.len();
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Number(number) if is_exact(number) => value.clone(),
        Value::Number(number) => {
            altered(pointer, Alteration::InexactNumber);
            number.literal().into()
        }
        Value::String(text) => {
            let (text, lone) = fit_text(text);
            if lone {
                altered(pointer, Alteration::LoneSurrogate);
            }
            text.into()
        }
        Value::Array(_) | Value::Object(_) if depth >= MAX_CARRIED_DEPTH => {
            altered(pointer, Alteration::TooDeep);
            String::from_utf8_lossy(&python::rye_line(value))
                .into_owned()
                .into()
        }
        Value::Array(elements) => {
            let element = |(index, element): (usize, &Value)| {
                push_segment(pointer, &index.to_string());
                let fitted = fit_at(element, depth + 1, pointer, altered);
                pointer.truncate(length);
                fitted
            };
            Value::Array(elements.iter().enumerate().map(element).collect())
        }
        Value::Object(members) => {
            let member = |(name, value): &(Text, Value)| {
                let (name, lone) = fit_text(name);
                push_segment(pointer, &name);
                if lone {
                    altered(pointer, Alteration::LoneSurrogate);
                }
                let fitted = fit_at(value, depth + 1, pointer, altered);
                pointer.truncate(length);
                (name.into(), fitted)
            };
            Value::Object(members.iter().map(member).collect())
        }
    }
}

/// The text, each lone surrogate as its escape of six characters.
fn escaped(text: &Text) -> String {
    let mut out = String::new();
    let mut rest = text.as_bytes();
    while let Some((plain, code_unit, after)) = split_surrogate(rest) {
        out.push_str(&String::from_utf8_lossy(plain));
        out.push_str(&format!("\\u{code_unit:04x}"));
        rest = after;
    }
    out.push_str(&String::from_utf8_lossy(rest));
    out
}

/// The text before the first surrogate of a WTF-8 text, the surrogate, and the rest.
///
/// Only surrogates begin with 0xED and a byte from 0xA0 on.
fn split_surrogate(wtf8: &[u8]) -> Option<(&[u8], u32, &[u8])> {
    let starts = |three: &[u8]| three[0] == 0xed && three[1] >= 0xa0;
    let place = wtf8.windows(3).position(starts)?;
    let low = |byte: u8| u32::from(byte & 0x3f);
    let code_unit = 0xd000 | low(wtf8[place + 1]) << 6 | low(wtf8[place + 2]);
    Some((&wtf8[..place], code_unit, &wtf8[place + 3..]))
}

/// A decimal number in lowest terms: `digits` without zeros at either end, times ten to `exponent`.
///
/// Zero has no digits and is not negative.
#[derive(PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    fn of(literal: &str) -> Self {
        let (negative, unsigned) = match literal.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, literal),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, saturating(exponent)),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let shift = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let kept = digits.iter().rposition(|digit| *digit != b'0');
        let trailing = digits.len() - kept.map_or(0, |last| last + 1);
        digits.truncate(kept.map_or(0, |last| last + 1));
        let leading = digits.iter().position(|digit| *digit != b'0').unwrap_or(0);
        digits.drain(..leading);
        if digits.is_empty() {
            return Self {
                negative: false,
                digits,
                exponent: 0,
            };
        }
        let trailing = i64::try_from(trailing).unwrap_or(i64::MAX);
        Self {
            negative,
            digits,
            exponent: exponent.saturating_sub(shift).saturating_add(trailing),
        }
    }
}

/// Reads an exponent of any length. The exact value does not matter far beyond every double.
fn saturating(exponent: &str) -> i64 {
    let bound = if exponent.starts_with('-') {
        i64::MIN / 2
    } else {
        i64::MAX / 2
    };
    exponent.parse().unwrap_or(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_inexact_numbers_become_those_of_their_doubles() {
        let text = br#"{"a":[1700000000000000001,1.0,1e2],"b":{"c":0.30000000000000003},"d":"1"}"#;
        let value = parse(text).unwrap();
        let shown = String::from_utf8(python::rye_line(&covered(value))).unwrap();
        assert_eq!(
            shown.replace(' ', ""),
            r#"{"a":[1700000000000000000,1.0,100.0],"b":{"c":0.30000000000000004},"d":"1"}"#
        );
    }
    use threadseal_core::canon::json::{parse, parse_python};

    fn fitted(value: &Value) -> (Value, Vec<(String, Alteration)>) {
        let mut notes = Vec::new();
        let mut note = |pointer: &str, how| notes.push((pointer.to_owned(), how));
        let fitted = fit(value, &mut "/args".to_owned(), &mut note);
        (fitted, notes)
    }

    #[test]
    fn a_number_is_exact_when_its_double_has_the_same_decimal_value() {
        for exact in [
            "0",
            "-0",
            "1",
            "1.0",
            "100e-2",
            "0.1",
            "1e21",
            "5e-324",
            "9007199254740992",
            "1e22",
            "1700000000000000000",
            "-12.5e3",
            "0.000",
            "1763760000123000000",
        ] {
            assert!(is_exact(&Number::parse(exact).unwrap()), "{exact}");
        }
        for inexact in [
            "9007199254740993",
            "0.1000000000000000055511151231257827",
            "1700000000000000001",
            "-9007199254740993.0",
            "1e-400",
        ] {
            assert!(!is_exact(&Number::parse(inexact).unwrap()), "{inexact}");
        }
        let huge = "9".repeat(400);
        assert!(!is_exact(&Number::parse(&huge).unwrap()));
    }

    #[test]
    fn digits_that_a_double_loses_are_carried_as_a_string() {
        let source = parse(br#"{"a/b":[1,1234567890123456789],"c":0.5}"#).unwrap();
        let (value, notes) = fitted(&source);
        let expected = parse(br#"{"a/b":[1,"1234567890123456789"],"c":0.5}"#).unwrap();
        assert_eq!(value, expected);
        let place = "/args/a~1b/1".to_owned();
        assert_eq!(notes, [(place, Alteration::InexactNumber)]);
    }

    #[test]
    fn what_nests_too_deep_is_carried_as_its_text() {
        let depth = MAX_CARRIED_DEPTH + 1;
        let text = format!("{}7{}", "[".repeat(depth), "]".repeat(depth));
        let (value, notes) = fitted(&parse(text.as_bytes()).unwrap());
        assert_eq!(notes.len(), 1);
        let mut inner = &value;
        for _ in 0..MAX_CARRIED_DEPTH {
            inner = &inner.as_array().unwrap()[0];
        }
        assert_eq!(inner.as_str(), Some("[7]"));
    }

    #[test]
    fn a_lone_surrogate_is_spelled_out() {
        let source = parse_python(br#"{"k":"\u00e9\ud800x\udc00","n":NaN}"#).unwrap();
        let (value, notes) = fitted(&source.value);
        assert_eq!(
            value.get("k").unwrap().as_str(),
            Some("\u{e9}\\ud800x\\udc00")
        );
        assert_eq!(value.get("n").unwrap().as_str(), Some("NaN"));
        assert_eq!(notes.len(), 2);
    }
}
