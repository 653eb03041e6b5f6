//! Strict text encodings: every value has one spelling, any other is refused.
//!
//! * hex: lower case only;
//! * base32 (RFC 4648 §6): lower case, no padding, zero trailing bits;
//! * base64 (RFC 4648 §4) and base64url (§5): canonical padding, zero trailing bits, no blanks.
//!
//! Rye writes signatures as base64url with padding (Python) or without (Rust);
//! [`parse_base64url_either`] takes both, still with zero trailing bits.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use std::path::{MAIN_SEPARATOR, Path};

const BASE32_DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(HEX_DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(HEX_DIGITS[usize::from(byte & 15)]));
    }
    out
}

/// Reads lower-case hex of exactly `N` bytes.
pub fn parse_hex_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let pairs: &[[u8; 2]; N] = pairs.try_into().ok()?;
    // Digits are looked up without a branch for each; one check at the end covers all of them.
    let mut seen = 0;
    let bytes = pairs.map(|[high, low]| {
        let (high, low) = (NIBBLES[usize::from(high)], NIBBLES[usize::from(low)]);
        seen |= high | low;
        high << 4 | low
    });
    (seen != NO_DIGIT).then_some(bytes)
}

/// The entry of [`NIBBLES`] for a byte that is no hex digit. No combination of digits gives it.
const NO_DIGIT: u8 = 0xff;

/// The value of each byte as a lower-case hex digit.
const NIBBLES: [u8; 256] = {
    let mut nibbles = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        nibbles[HEX_DIGITS[value as usize] as usize] = value;
        value += 1;
    }
    nibbles
};

/// Standard base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads standard base64 with canonical padding and zero trailing bits.
pub fn parse_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// URL-safe base64 with padding. Rye's Python writes this form and accepts no other.
pub fn base64url(bytes: &[u8]) -> String {
    URL_SAFE.encode(bytes)
}

/// Reads URL-safe base64, padded or not, with zero trailing bits.
pub fn parse_base64url_either(text: &str) -> Option<Vec<u8>> {
    if text.ends_with('=') {
        URL_SAFE.decode(text).ok()
    } else {
        URL_SAFE_NO_PAD.decode(text).ok()
    }
}

/// Base32 (RFC 4648 §6) in lower case without padding.
pub fn base32(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for group in bytes.chunks(5) {
        let mut bits = [0; 8];
        bits[3..3 + group.len()].copy_from_slice(group);
        let bits = u64::from_be_bytes(bits);
        for digit in 0..(group.len() * 8).div_ceil(5) {
            let value = bits >> (35 - 5 * digit) & 31;
            out.push(char::from(
                BASE32_DIGITS[usize::try_from(value).unwrap_or_default()],
            ));
        }
    }
    out
}

/// Reads the output of [`base32`]; trailing bits must be zero.
pub fn parse_base32(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 5 / 8);
    let (mut bits, mut count) = (0_u16, 0);
    for letter in text.bytes() {
        let value = BASE32_DIGITS.iter().position(|digit| *digit == letter)?;
        bits = bits << 5 | u16::try_from(value).ok()?;
        count += 5;
        if count >= 8 {
            count -= 8;
            let [_, byte] = (bits >> count).to_be_bytes();
            out.push(byte);
            bits &= (1 << count) - 1;
        }
    }
    (count < 5 && bits == 0).then_some(out)
}

/// The path as text of one line that names it and no other path.
///
/// A byte that is not UTF-8, and a line feed, is `\xNN`; a backslash is doubled. Where a backslash
/// separates names, it is `/`, as on other systems.
pub fn path_text(path: &Path) -> String {
    let backslash = match MAIN_SEPARATOR {
        '\\' => "/",
        _ => "\\\\",
    };
    let mut text = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        let valid = chunk.valid().replace('\\', backslash);
        text.push_str(&valid.replace('\n', "\\x0a"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_refuses_every_second_spelling() {
        assert_eq!(parse_base64("aGk="), Some(b"hi".to_vec()));
        for bad in ["aGk", "aGl=", "aGk==", " aGk=", "aGk=\n", "a-k="] {
            assert_eq!(parse_base64(bad), None, "{bad:?}");
        }
        assert_eq!(parse_base64url_either("aGk"), Some(b"hi".to_vec()));
        assert_eq!(parse_base64url_either("aGk="), Some(b"hi".to_vec()));
        assert_eq!(parse_base64url_either("aGl="), None);
        assert_eq!(parse_base64url_either("aGl"), None);
    }

    #[test]
    fn base32_is_that_of_rfc_4648_in_lower_case() {
        for (bytes, text) in [
            ("", ""),
            ("f", "my"),
            ("fo", "mzxq"),
            ("foo", "mzxw6"),
            ("foob", "mzxw6yq"),
            ("fooba", "mzxw6ytb"),
            ("foobar", "mzxw6ytboi"),
        ] {
            assert_eq!(base32(bytes.as_bytes()), text);
            assert_eq!(parse_base32(text), Some(bytes.into()));
        }
        for bad in ["m", "mz", "MY", "my======", "mzx", "mzxw6y", "m1", "my "] {
            assert_eq!(parse_base32(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn hex_round_trips_and_refuses_upper_case() {
        assert_eq!(hex(&[0, 0xab, 0xff]), "00abff");
        assert_eq!(parse_hex_array::<3>("00abff"), Some([0, 0xab, 0xff]));
        assert_eq!(parse_hex_array::<3>("00ABff"), None);
        assert_eq!(parse_hex_array::<2>("00abff"), None);
        for byte in 0..128_u8 {
            let digit = byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            for text in [[byte, b'0'], [b'f', byte]] {
                let text = std::str::from_utf8(&text).unwrap();
                let read = parse_hex_array::<1>(text);
                assert_eq!(read.is_some(), digit, "{text:?}");
                assert!(read.is_none_or(|bytes| hex(&bytes) == text));
            }
        }
    }
}
