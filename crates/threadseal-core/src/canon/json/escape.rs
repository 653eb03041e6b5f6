//! Decodes escapes in strings, and finds the next byte that is not plain text.

use super::error::JsonErrorKind;

/// One escape sequence, or two that make one character.
#[derive(Debug, Clone, Copy)]
pub(in crate::canon) struct Escape {
    /// A surrogate where the other half is missing.
    pub(in crate::canon) code_point: u32,
    /// Bytes crossed: 2, 6 or 12.
    pub(in crate::canon) length: usize,
}

impl Escape {
    pub(in crate::canon) fn is_lone_surrogate(self) -> bool {
        matches!(self.code_point, 0xd800..=0xdfff)
    }

    /// Is it the first half of a pair?
    pub(in crate::canon) fn is_high_surrogate(self) -> bool {
        matches!(self.code_point, 0xd800..=0xdbff)
    }
}

/// Is it the beginning of `\uXXXX`, and no more?
pub(in crate::canon) fn begins_escape(rest: &[u8]) -> bool {
    match rest {
        [b'\\'] => true,
        [b'\\', b'u', digits @ ..] => digits.len() < 4 && digits.iter().all(u8::is_ascii_hexdigit),
        _ => false,
    }
}

/// Reads the escape whose backslash is at `at`.
#[inline]
pub(in crate::canon) fn decode_escape(bytes: &[u8], at: usize) -> Result<Escape, JsonErrorKind> {
    match bytes.get(at + 1) {
        Some(b'u') => decode_unicode_escape(bytes, at),
        Some(byte) if short_escape(*byte) != 0 => Ok(Escape {
            code_point: u32::from(short_escape(*byte)),
            length: 2,
        }),
        Some(_) => Err(JsonErrorKind::InvalidEscape),
        None => Err(JsonErrorKind::UnexpectedEnd),
    }
}

/// The byte that a backslash and this byte represent; 0 if they are no escape.
///
/// A table, because processors predict a jump by this byte badly.
#[inline]
pub(super) fn short_escape(byte: u8) -> u8 {
    const MEANINGS: [u8; 256] = {
        let mut meanings = [0; 256];
        meanings[b'"' as usize] = b'"';
        meanings[b'\\' as usize] = b'\\';
        meanings[b'/' as usize] = b'/';
        meanings[b'b' as usize] = 0x08;
        meanings[b'f' as usize] = 0x0c;
        meanings[b'n' as usize] = b'\n';
        meanings[b'r' as usize] = b'\r';
        meanings[b't' as usize] = b'\t';
        meanings
    };
    MEANINGS[usize::from(byte)]
}

fn decode_unicode_escape(bytes: &[u8], at: usize) -> Result<Escape, JsonErrorKind> {
    let Some(digits) = bytes.get(at + 2..at + 6) else {
        return Err(JsonErrorKind::UnexpectedEnd);
    };
    let unit = hex_unit(digits).ok_or(JsonErrorKind::InvalidEscape)?;
    let low = match bytes.get(at + 6..at + 12) {
        Some([b'\\', b'u', digits @ ..]) if (0xd800..0xdc00).contains(&unit) => hex_unit(digits),
        _ => None,
    };
    Ok(match low {
        Some(low @ 0xdc00..=0xdfff) => Escape {
            code_point: 0x1_0000 + ((unit - 0xd800) << 10 | (low - 0xdc00)),
            length: 12,
        },
        _ => Escape {
            code_point: unit,
            length: 6,
        },
    })
}

/// Reads four hex digits. A digit is below 16 in the table, anything else has the high bit.
#[inline]
pub(super) fn hex_unit(digits: &[u8]) -> Option<u32> {
    let &[a, b, c, d] = digits else {
        return None;
    };
    let [a, b, c, d] = [a, b, c, d].map(|digit| HEX_VALUES[usize::from(digit)]);
    let [a, b, c, d] = [a, b, c, d].map(u32::from);
    (a | b | c | d < 0x80).then_some(a << 12 | b << 8 | c << 4 | d)
}

const HEX_VALUES: [u8; 256] = {
    let mut values = [0x80; 256];
    let mut digit = 0;
    while digit < 10 {
        values[b'0' as usize + digit as usize] = digit;
        digit += 1;
    }
    while digit < 16 {
        values[b'a' as usize + digit as usize - 10] = digit;
        values[b'A' as usize + digit as usize - 10] = digit;
        digit += 1;
    }
    values
};

/// Offset of the first quote, backslash or control character at or after `at`, else the length.
#[inline]
pub(in crate::canon) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    let mut rest = bytes.get(at..).unwrap_or_default();
    while let Some((chunk, tail)) = rest.split_first_chunk() {
        let hits = special_bytes(u64::from_le_bytes(*chunk));
        if hits != 0 {
            return at + (hits.trailing_zeros() >> 3) as usize;
        }
        at += 8;
        rest = tail;
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    at + rest.iter().position(special).unwrap_or(rest.len())
}

/// The high bit of each byte of `word` that is a quote, a backslash or below 0x20.
///
/// `x - 0x01` borrows out of a byte exactly when the byte is 0. `x - 0x20` borrows exactly when the
/// byte is below 0x20. The high bit of the byte records the borrow. A borrow can reach the next
/// higher byte and mark it wrongly, but never a lower one. The lowest mark is therefore always
/// right.
#[inline]
pub(super) fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let quote = (word ^ (ONES * b'"' as u64)).wrapping_sub(ONES);
    let backslash = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    let control = word.wrapping_sub(ONES * 0x20);
    (quote | backslash | control) & !word & HIGH
}
