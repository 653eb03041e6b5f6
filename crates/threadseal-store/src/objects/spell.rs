//! How objects and their names are spelled.
//!
//! ```text
//! head     <label> <64 hex: SHA-256 of everything after this line> LF  line of JSON LF  …
//! name     hex of a text, numbers of a fixed width: listings are in the order of these values
//! ```

#[cfg(feature = "object")]
use serde::Serialize;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;

/// `body` after a line with its label and its digest.
pub(crate) fn summed(label: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{label} {}\n", Digest::of(body)).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// The body in the bytes that [`summed`] wrote; `None` for anything else.
pub(crate) fn body<'b>(label: &str, bytes: &'b [u8]) -> Option<&'b [u8]> {
    let rest = bytes.strip_prefix(label.as_bytes())?.strip_prefix(b" ")?;
    let (sum, body) = line(rest)?;
    let sum = Digest::parse_hex(std::str::from_utf8(sum).ok()?)?;
    (sum == Digest::of(body)).then_some(body)
}

/// The first line without its LF, and the bytes after it.
pub(crate) fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// One line of JSON.
#[cfg(feature = "object")]
pub(crate) fn json(value: &impl Serialize) -> String {
    // Texts and numbers under names: JSON can express all of them.
    let text = serde_json::to_string(value).unwrap_or_default();
    format!("{text}\n")
}

/// The text whose bytes `hex` spells.
pub(crate) fn text_of_hex(hex: &str) -> Option<String> {
    let bytes: Option<Vec<u8>> = (0..hex.len())
        .step_by(2)
        .map(|at| encoding::parse_hex_array::<1>(hex.get(at..at + 2)?).map(|[byte]| byte))
        .collect();
    String::from_utf8(bytes?).ok()
}
