//! [`Part`]: the part of a log that a request names (RFC 9110 §14). A page takes the end of a log that grows.

use axum::http::HeaderValue;

/// What a request asks for, of a log of some size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The bytes from the first to before the second number.
    Bytes(u64, u64),
    /// Nothing of it: the part begins behind the end.
    Beyond,
}

impl Part {
    /// Reads the field `Range`. One that is none, has several ranges or another unit asks for the whole, as the RFC
    /// has it.
    pub fn of(field: Option<&HeaderValue>, size: u64) -> Self {
        let Some(asked) = field.and_then(|field| field.to_str().ok()?.strip_prefix("bytes="))
        else {
            return Self::Whole;
        };
        let Some((first, last)) = asked.split_once('-').filter(|_| !asked.contains(',')) else {
            return Self::Whole;
        };
        match (number(first), number(last)) {
            (Some(first), _) if first >= size => Self::Beyond,
            (Some(first), Some(last)) if last >= first => {
                Self::Bytes(first, size.min(last.saturating_add(1)))
            }
            (Some(first), None) if last.is_empty() => Self::Bytes(first, size),
            (None, Some(0)) if first.is_empty() => Self::Beyond,
            (None, Some(end)) if first.is_empty() => Self::Bytes(size.saturating_sub(end), size),
            _ => Self::Whole,
        }
    }
}

/// Digits alone: `parse` would take a sign, too.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_as_the_rfc_has_it() {
        for (field, part) in [
            ("bytes=0-0", Part::Bytes(0, 1)),
            ("bytes=2-", Part::Bytes(2, 10)),
            ("bytes=2-99", Part::Bytes(2, 10)),
            ("bytes=-3", Part::Bytes(7, 10)),
            ("bytes=-99", Part::Bytes(0, 10)),
            ("bytes=0-18446744073709551615", Part::Bytes(0, 10)),
            ("bytes=10-", Part::Beyond),
            ("bytes=-0", Part::Beyond),
            ("bytes=3-2", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("bytes=+1-2", Part::Whole),
            ("bytes=a-2", Part::Whole),
            ("bytes=-", Part::Whole),
            ("lines=0-1", Part::Whole),
        ] {
            assert_eq!(
                Part::of(Some(&HeaderValue::from_static(field)), 10),
                part,
                "{field}"
            );
        }
        assert_eq!(Part::of(None, 10), Part::Whole);
        assert_eq!(
            Part::of(Some(&HeaderValue::from_static("bytes=0-")), 0),
            Part::Beyond
        );
    }
}
