//! Compares a spelling with its canonical one: whether it holds more, or looks nearly the same.
//!
//! RFC 8785 converts numbers to doubles. So `1700000000000000001` and `1700000000000000000` have
//! one canonical form, and no hash covers a digit that a reader sees. An escape or an exponent also
//! has equivalent spellings one byte away from the canonical one. Other second spellings (`1.0`,
//! `1e2`, `"\u00e9"`) mean the same and are far from the canonical one.

use super::LostDetails;

impl LostDetails {
    /// Offset of the first number with lost digits, without regard to the one at `excused`.
    pub fn digits_except(&self, excused: usize) -> Option<usize> {
        match self.digits {
            Some(at) if at == excused => self.more_digits,
            other => other,
        }
    }

    /// Notes the loss when the number `literal` at `offset` was written as `written`.
    pub(super) fn note_number(&mut self, offset: usize, literal: &[u8], written: &[u8]) {
        if literal == written {
            return;
        }
        if !same_decimal(literal, written) {
            match self.digits {
                None => self.digits = Some(offset),
                Some(_) => drop(self.more_digits.get_or_insert(offset)),
            }
        } else if one_byte_apart(literal, written) {
            self.spelling.get_or_insert(offset);
        }
    }

    /// Notes the loss when an escape in the string at `offset` was written as `written`.
    pub(super) fn note_escape(&mut self, offset: usize, escape: &[u8], written: &[u8]) {
        if one_byte_apart(escape, written) {
            self.spelling.get_or_insert(offset);
        }
    }
}

fn one_byte_apart(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).filter(|(a, b)| a != b).count() == 1
}

/// Whether two numbers of JSON's grammar are one decimal.
pub(in crate::canon) fn same_decimal(a: &[u8], b: &[u8]) -> bool {
    match (Decimal::of(a), Decimal::of(b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// A decimal without zeros at either end: 0.d₁d₂d₃… times 10^`point`.
#[derive(PartialEq, Eq)]
struct Decimal {
    negative: bool,
    point: i64,
    digits: Vec<u8>,
}

impl Decimal {
    /// `None` for an exponent beyond 64 bits.
    fn of(literal: &[u8]) -> Option<Self> {
        let (negative, rest) = match literal.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, literal),
        };
        let split = rest.iter().position(|byte| matches!(byte, b'e' | b'E'));
        let (mantissa, exponent) = match split {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, &b"0"[..]),
        };
        let whole = mantissa.iter().position(|byte| *byte == b'.');
        let whole = i64::try_from(whole.unwrap_or(mantissa.len())).ok()?;
        let all = mantissa.iter().filter(|byte| **byte != b'.');
        let leading = all.clone().take_while(|byte| **byte == b'0').count();
        let mut digits: Vec<u8> = all.skip(leading).copied().collect();
        while digits.pop_if(|digit| *digit == b'0').is_some() {}
        if digits.is_empty() {
            return Some(Self {
                negative: false,
                point: 0,
                digits,
            });
        }
        let exponent: i64 = std::str::from_utf8(exponent).ok()?.parse().ok()?;
        let point = exponent
            .checked_add(whole)?
            .checked_sub(i64::try_from(leading).ok()?)?;
        Some(Self {
            negative,
            point,
            digits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canon::jcs::canonicalize_closely;

    fn lost(text: &str) -> (bool, bool) {
        let (_, lost) = canonicalize_closely(text.as_bytes()).unwrap();
        (lost.digits.is_some(), lost.spelling.is_some())
    }

    #[test]
    fn digits_that_no_double_keeps_are_noted() {
        for text in [
            "1700000000000000001",
            "0.1000000000000000055511151231257827",
            "36383550081241584",
            "1e-400",
            "0.30000000000000003",
            "123456789012345678901234567890",
        ] {
            assert_eq!(lost(text), (true, false), "{text}");
        }
    }

    #[test]
    fn other_spellings_of_one_decimal_lose_nothing() {
        for text in [
            "1",
            "1.0",
            "1e2",
            "100e-2",
            "-0",
            "-0.0e99999999999999999999",
            "0.10",
            "1e21",
            "1E21",
            "1e-07",
            "1700000000000000000",
            "0.000001e1",
            "\"\\u00E9\"",
            "\"\\u000A\"",
            "\"\\u001f\"",
            "36383550081241580",
        ] {
            assert_eq!(lost(text), (false, false), "{text}");
        }
    }

    #[test]
    fn a_second_spelling_one_byte_away_is_noted() {
        for text in ["1E+21", "5E-324", "1e021", "\"\\u001F\"", "[\"\\u000B\"]"] {
            assert_eq!(lost(text), (false, true), "{text}");
        }
    }

    #[test]
    fn the_first_of_each_kind_is_noted_with_its_place() {
        let text = br#"["\u001F",1,1E+21,1700000000000000001]"#;
        let (_, lost) = canonicalize_closely(text).unwrap();
        assert_eq!(lost.spelling, Some(1));
        assert_eq!(lost.digits, Some(18));
    }

    #[test]
    fn one_number_can_be_excused() {
        let text = br#"{"a":1700000000000000001,"b":1,"c":0.30000000000000003,"d":1e-400}"#;
        let (_, lost) = canonicalize_closely(text).unwrap();
        assert_eq!((lost.digits, lost.more_digits), (Some(5), Some(35)));
        assert_eq!(lost.digits_except(5), Some(35));
        assert_eq!(lost.digits_except(35), Some(5));
        assert_eq!(lost.digits_except(31), Some(5));
        let (_, lost) = canonicalize_closely(b"1700000000000000001").unwrap();
        assert_eq!(lost.digits_except(0), None);
    }

    #[test]
    fn decimals_with_exponents_beyond_all_bounds_are_not_the_same() {
        assert!(!same_decimal(b"1e99999999999999999999", b"0"));
        assert!(same_decimal(b"0e99999999999999999999", b"0"));
    }
}
