//! Moments, as the formats write them. Nothing here reads a clock.
//!
//! ```text
//! checkpoint line "timestamp"   1739820405.123456          seconds, six decimals
//! payload.ts, header lines      2026-02-18T10:30:00Z       seconds, UTC (Rye's text)
//! ledger records                2026-02-18T10:30:00.123456+00:00   Python's isoformat: a
//!                               fraction of 0 is left out; read: any offset from UTC (RFC 3339)
//! ```

use crate::error::Error;
use jiff::SignedDuration;
use jiff::civil::{DateTime, datetime};

/// A moment: microseconds since 1970-01-01T00:00:00Z, never negative, up to the year 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

/// 9999-12-31T23:59:59.999999Z.
const MAX_MICROS: u64 = 253_402_300_799_999_999;

impl Timestamp {
    /// The first moment of 1970.
    pub const UNIX_EPOCH: Self = Self(0);

    /// `micros` microseconds since 1970.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::InvalidInput`] beyond the year 9999.
    pub fn from_micros(micros: u64) -> Result<Self, Error> {
        if micros > MAX_MICROS {
            return Err(Error::invalid("time is after the year 9999"));
        }
        Ok(Self(micros))
    }

    /// Microseconds since 1970.
    pub fn as_micros(self) -> u64 {
        self.0
    }

    /// The moment, rounded down to its second.
    #[must_use]
    pub fn floor_to_second(self) -> Self {
        Self(self.0 - self.0 % 1_000_000)
    }

    /// `1739820405.123456`: the one spelling used on native lines.
    pub fn to_epoch_text(self) -> String {
        format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }

    /// Reads [`Timestamp::to_epoch_text`]'s spelling and no other.
    pub fn parse_epoch_text(text: &str) -> Option<Self> {
        let (rest, micros) = text.as_bytes().split_last_chunk::<6>()?;
        let seconds = rest.strip_suffix(b".")?;
        let canonical = seconds == b"0" || !seconds.starts_with(b"0");
        // 9999-12-31 is written with twelve digits.
        if !canonical || !(1..=12).contains(&seconds.len()) {
            return None;
        }
        let micros = seconds.iter().chain(micros).try_fold(0, |micros, byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit < 10).then(|| micros * 10 + u64::from(digit))
        })?;
        Self::from_micros(micros).ok()
    }

    /// `2026-02-18T10:30:00Z`, the fraction dropped.
    pub fn to_iso_seconds(self) -> String {
        let seconds = i64::try_from(self.0 / 1_000_000).unwrap_or(i64::MAX);
        // Reaches the end of 9999, as `jiff::Timestamp` does not.
        let Ok(at) = EPOCH.checked_add(SignedDuration::from_secs(seconds)) else {
            return String::new();
        };
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            at.year(),
            at.month(),
            at.day(),
            at.hour(),
            at.minute(),
            at.second()
        )
    }

    /// The text of Python's `datetime.now(timezone.utc).isoformat()` for this moment.
    pub fn to_python_text(self) -> String {
        let mut text = self.to_iso_seconds();
        text.pop();
        let micros = self.0 % 1_000_000;
        if micros > 0 {
            text.push_str(&format!(".{micros:06}"));
        }
        text.push_str("+00:00");
        text
    }

    /// Reads RFC 3339, including Python's form, from 1970 on.
    ///
    /// It accepts any offset and up to nine digits of fraction. Digits below a microsecond are
    /// dropped.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let (civil, rest) = text.split_at_checked(19)?;
        let shape = civil.bytes().enumerate().all(|(i, b)| match i {
            4 | 7 => b == b'-',
            10 => matches!(b, b'T' | b't' | b' '),
            13 | 16 => b == b':',
            _ => b.is_ascii_digit(),
        });
        if !shape {
            return None;
        }
        let number = |from: usize, to: usize| civil.get(from..to)?.parse::<i8>().ok();
        let year = civil.get(..4)?.parse().ok()?;
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let at =
            DateTime::new(year, number(5, 7)?, number(8, 10)?, hour, minute, second, 0).ok()?;
        let (micros, offset) = fraction(rest)?;
        let seconds = at.duration_since(EPOCH).as_secs() - offset_seconds(offset)?;
        let seconds = u64::try_from(seconds).ok()?;
        Self::from_micros(seconds.checked_mul(1_000_000)? + micros).ok()
    }

    /// Reads exactly `YYYY-MM-DDTHH:MM:SSZ` with a date that exists, from 1970 on.
    pub fn parse_iso_seconds(text: &str) -> Option<Self> {
        let shape = text.len() == 20
            && text.bytes().enumerate().all(|(i, b)| match i {
                4 | 7 => b == b'-',
                10 => b == b'T',
                13 | 16 => b == b':',
                19 => b == b'Z',
                _ => b.is_ascii_digit(),
            });
        if !shape {
            return None;
        }
        let parsed: DateTime = text.strip_suffix('Z')?.parse().ok()?;
        let seconds = u64::try_from(parsed.duration_since(EPOCH).as_secs()).ok()?;
        let back = Self::from_micros(seconds.checked_mul(1_000_000)?).ok()?;
        // A leap second or "24:00:00" would be written back differently.
        (back.to_iso_seconds() == text).then_some(back)
    }
}

/// Microseconds of a fraction, if there is one, and the text after it.
fn fraction(text: &str) -> Option<(u64, &str)> {
    let Some(digits) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=9).contains(&length) {
        return None;
    }
    let (digits, rest) = digits.split_at(length);
    let nanos = digits
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(9)
        .fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0'));
    Some((nanos / 1000, rest))
}

/// Seconds east of UTC: `Z`, `+HH:MM` or `-HH:MM`.
fn offset_seconds(text: &str) -> Option<i64> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("Z" | "z", "") => return Some(0),
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let &[h1, h2, b':', m1, m2] = rest.as_bytes() else {
        return None;
    };
    let two = |tens: u8, ones: u8| {
        let digits = tens.is_ascii_digit() && ones.is_ascii_digit();
        digits.then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
    };
    let (hours, minutes) = (two(h1, h2)?, two(m1, m2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_ledgers_are_spelled_as_python_spells_them() {
        for (micros, text) in [
            (1_795_379_401_307_360, "2026-11-22T20:30:01.307360+00:00"),
            (1_795_379_401_000_000, "2026-11-22T20:30:01+00:00"),
            (0, "1970-01-01T00:00:00+00:00"),
            (MAX_MICROS, "9999-12-31T23:59:59.999999+00:00"),
        ] {
            let at = Timestamp::from_micros(micros).unwrap();
            assert_eq!(at.to_python_text(), text);
            assert_eq!(Timestamp::parse_rfc3339(text), Some(at));
        }
        let same = Timestamp::parse_rfc3339("2026-11-22T20:30:01.3Z");
        for text in [
            "2026-11-22T22:30:01.30+02:00",
            "2026-11-22 15:00:01.300000999-05:30",
            "2026-11-22t20:30:01.3z",
        ] {
            assert_eq!(Timestamp::parse_rfc3339(text), same, "{text}");
        }
        for bad in [
            "2026-11-22T20:30:01",
            "2026-11-22T20:30:01.Z",
            "2026-11-22T20:30:01.1234567890Z",
            "2026-11-22T20:30:60Z",
            "2026-02-30T20:30:01Z",
            "2026-11-22T20:30:01+0000",
            "2026-11-22T20:30:01+24:00",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+00:01",
            "2026-11-22T20:30:0\u{661}Z",
            "",
        ] {
            assert_eq!(Timestamp::parse_rfc3339(bad), None, "{bad}");
        }
    }

    #[test]
    fn epoch_text_has_one_spelling() {
        let t = Timestamp::from_micros(1_739_820_405_123_456).unwrap();
        assert_eq!(t.to_epoch_text(), "1739820405.123456");
        assert_eq!(Timestamp::parse_epoch_text("1739820405.123456"), Some(t));
        for micros in [0, 1, 1_000_000, MAX_MICROS] {
            let t = Timestamp::from_micros(micros).unwrap();
            assert_eq!(Timestamp::parse_epoch_text(&t.to_epoch_text()), Some(t));
        }
        for other in [
            "1739820405.12345",
            "01739820405.123456",
            "1.5e9",
            "-1.000000",
            "1.0000000",
            ".000000",
            "1000000",
            "1:000000",
            "1.00000:",
            "1.0.000000",
            "+1.000000",
            "253402300800.000000",
            "99999999999999999999.000000",
        ] {
            assert_eq!(Timestamp::parse_epoch_text(other), None, "{other}");
        }
    }

    #[test]
    fn iso_text_refuses_impossible_dates() {
        let t = Timestamp::parse_iso_seconds("2026-02-18T10:30:00Z").unwrap();
        assert_eq!(t.to_iso_seconds(), "2026-02-18T10:30:00Z");
        let last = Timestamp::from_micros(MAX_MICROS).unwrap();
        assert_eq!(last.to_iso_seconds(), "9999-12-31T23:59:59Z");
        for known in [Timestamp(0), last.floor_to_second()] {
            let text = known.to_iso_seconds();
            assert_eq!(Timestamp::parse_iso_seconds(&text), Some(known));
        }
        for bad in [
            "2026-99-99T99:99:99Z",
            "2026-02-30T00:00:00Z",
            "2026-02-18T24:00:00Z",
            "2026-02-18T10:30:60Z",
            "2026-02-18 10:30:00Z",
            "2026-02-18T10:30:00+00:00",
            "1969-12-31T23:59:59Z",
        ] {
            assert_eq!(Timestamp::parse_iso_seconds(bad), None, "{bad}");
        }
    }
}
