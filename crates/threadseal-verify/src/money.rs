//! Money as whole billionths of a US dollar: sums must not round.
//!
//! ```text
//! text    "0.10"  "3"  "1e-7"   digits, at most 9 after the point once the exponent is applied
//! JSON    0.1                   a number: the fewest digits that mean it, not its binary fraction
//! REAL    0.1                   a database's double: the nearest billionth
//! shown   0.1                   no more digits than needed, at least one after the point
//! ```
//! The seed's files and databases contain dollars (`spend`, `max_spend`); sums are made here.

use serde_json::Value;
use std::fmt;
use std::iter::Sum;
use threadseal_core::error::Error;

/// Billionths in a dollar.
pub const NANOS_PER_DOLLAR: u64 = 1_000_000_000;

/// An amount of money that is not negative, in billionths of a US dollar. It is at most some nine
/// billion dollars (`i64::MAX` billionths), the maximum of a database column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Nanos {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// The largest amount.
    pub const MAX: Self = Self(i64::MAX.unsigned_abs());

    /// `count` billionths; None beyond [`Nanos::MAX`].
    pub fn new(count: u64) -> Option<Self> {
        (count <= Self::MAX.0).then_some(Self(count))
    }

    /// How many billionths.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The amount as a database column holds it.
    pub fn to_i64(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// The amount of a database column.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is negative.
    pub fn from_i64(count: i64) -> Result<Self, Error> {
        u64::try_from(count).map(Self).map_err(|_| {
            Error::invalid(format!("{count} billionths: an amount cannot be negative"))
        })
    }

    /// Reads dollars in digits.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is no number, negative, finer than a billionth or beyond
    /// [`Nanos::MAX`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let refuse =
            |why: &str| Error::invalid(format!("{text:?} is not an amount of dollars: {why}"));
        let (digits, exponent) = match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => {
                let exponent: i32 = exponent.parse().map_err(|_| refuse("bad exponent"))?;
                (digits, exponent)
            }
            None => (text, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        if all.is_empty() || !all.iter().all(u8::is_ascii_digit) {
            return Err(refuse("not a plain number that is zero or more"));
        }
        let behind = i32::try_from(fraction.len()).map_err(|_| refuse("too long"))?;
        let shift = exponent
            .checked_sub(behind)
            .and_then(|places| places.checked_add(9))
            .ok_or_else(|| refuse("exponent out of range"))?;
        shifted(&all, shift)
            .and_then(Self::new)
            .ok_or_else(|| refuse("finer than a billionth, or too large"))
    }

    /// Reads dollars from a JSON number (by the fewest digits that mean it) or a string of digits.
    ///
    /// # Errors
    /// As [`Nanos::parse`].
    pub fn from_json(value: &Value) -> Result<Self, Error> {
        match value {
            Value::Number(number) => Self::parse(&number.to_string()),
            Value::String(text) => Self::parse(text),
            other => Err(Error::invalid(format!(
                "{other} is not an amount of dollars"
            ))),
        }
    }

    /// The nearest billionth to a database's REAL, in which Rye keeps dollars.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it is negative, not finite or beyond [`Nanos::MAX`].
    pub fn from_real(dollars: f64) -> Result<Self, Error> {
        let refuse = || Error::invalid(format!("{dollars} is not an amount of dollars"));
        if !dollars.is_finite() || dollars < 0.0 {
            return Err(refuse());
        }
        Self::parse(&format!("{dollars:.9}")).map_err(|_| refuse())
    }

    /// The amount in dollars, as the seed's REAL columns and JSON numbers hold it.
    #[expect(
        clippy::cast_precision_loss,
        reason = "the nearest double is what such a column means"
    )]
    pub fn to_real(self) -> f64 {
        self.0 as f64 / NANOS_PER_DOLLAR as f64
    }

    /// The sum; None beyond [`Nanos::MAX`].
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).and_then(Self::new)
    }

    /// The difference; None when `other` is more.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// The difference, zero when `other` is more.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The sum, at most [`Nanos::MAX`].
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        self.checked_add(other).unwrap_or(Self::MAX)
    }
}

/// The number with these digits, times ten to the power of `places`; None when it is not whole.
fn shifted(digits: &[u8], places: i32) -> Option<u64> {
    let first = digits.iter().position(|digit| *digit != b'0');
    let significant = first.map_or(&digits[digits.len()..], |first| &digits[first..]);
    if significant.is_empty() {
        return Some(0);
    }
    let kept = if places < 0 {
        let cut = significant
            .len()
            .checked_sub(usize::try_from(-places).ok()?)?;
        let (kept, dropped) = significant.split_at(cut);
        dropped.iter().all(|digit| *digit == b'0').then_some(kept)?
    } else {
        significant
    };
    let mut value = 0_u64;
    let zeros = usize::try_from(places.max(0)).ok()?;
    let padded = kept.iter().copied().chain(std::iter::repeat_n(b'0', zeros));
    for digit in padded {
        value = value
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    Some(value)
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Self::saturating_add)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dollars, rest) = (self.0 / NANOS_PER_DOLLAR, self.0 % NANOS_PER_DOLLAR);
        let fraction = format!("{rest:09}");
        let shown = fraction.trim_end_matches('0');
        write!(
            out,
            "{dollars}.{}",
            if shown.is_empty() { "0" } else { shown }
        )
    }
}

/// A share of an amount, in millionths: above zero, at most all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    const WHOLE: u32 = 1_000_000;

    /// All of it.
    pub const ALL: Self = Self(Self::WHOLE);
    /// A fifth.
    pub const SHIPPED: Self = Self(200_000);

    /// Reads a number above 0 and at most 1.
    pub fn new(part: f64) -> Option<Self> {
        let millionths = part * f64::from(Self::WHOLE);
        (0.5..=f64::from(Self::WHOLE))
            .contains(&millionths)
            .then(|| Self(whole(millionths)))
    }

    /// This share of `amount`, rounded down.
    pub fn of(self, amount: Nanos) -> Nanos {
        let part = u128::from(amount.get()) * u128::from(self.0) / u128::from(Self::WHOLE);
        u64::try_from(part)
            .ok()
            .and_then(Nanos::new)
            .unwrap_or(amount)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the caller checked the range"
)]
fn whole(millionths: f64) -> u32 {
    millionths.round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_by_their_digits_and_shown_again() {
        for (text, nanos, shown) in [
            ("0.1", 100_000_000, "0.1"),
            ("3", 3_000_000_000, "3.0"),
            ("0.000000001", 1, "0.000000001"),
            ("1e-7", 100, "0.0000001"),
            ("2.5E+2", 250_000_000_000, "250.0"),
            ("0.1000000000000", 100_000_000, "0.1"),
            ("00.50", 500_000_000, "0.5"),
            ("0", 0, "0.0"),
            ("0e999", 0, "0.0"),
        ] {
            let amount = Nanos::parse(text).unwrap();
            assert_eq!(
                (amount.get(), amount.to_string().as_str()),
                (nanos, shown),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_amount_or_would_round_is_refused() {
        for text in [
            "",
            ".",
            "-1",
            "+1",
            "1.0000000001",
            "1e-10",
            "NaN",
            "inf",
            "1_000",
            "1e",
            "0x1",
            " 1",
            "9223372036.854775808",
            "1e400",
            "1e2147483648",
            "1e2147483647",
            "1e-2147483648",
            "\u{661}",
        ] {
            assert!(Nanos::parse(text).is_err(), "{text:?}");
        }
        for real in [-0.1, f64::NAN, f64::INFINITY, 1e19] {
            assert!(Nanos::from_real(real).is_err(), "{real}");
        }
    }

    #[test]
    fn a_tenth_stays_a_tenth_through_json_and_databases() {
        let tenth = Nanos::parse("0.1").unwrap();
        assert_eq!(Nanos::from_json(&serde_json::json!(0.1)).unwrap(), tenth);
        assert_eq!(Nanos::from_real(tenth.to_real()).unwrap(), tenth);
        assert_eq!(
            (0..10).map(|_| tenth).sum::<Nanos>(),
            Nanos::parse("1").unwrap()
        );
    }

    #[test]
    fn sums_and_differences_stop_at_their_ends() {
        let one = Nanos::new(1).unwrap();
        assert_eq!(Nanos::MAX.checked_add(one), None);
        assert_eq!(Nanos::ZERO.checked_sub(one), None);
        assert_eq!(Nanos::MAX.saturating_add(one), Nanos::MAX);
        assert_eq!(Nanos::ZERO.saturating_sub(one), Nanos::ZERO);
        assert_eq!(Nanos::from_i64(Nanos::MAX.to_i64()).unwrap(), Nanos::MAX);
        assert!(Nanos::from_i64(-1).is_err());
    }
}
