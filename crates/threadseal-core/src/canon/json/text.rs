//! Strings: the content of a JSON string, and its spelling in native lines.
//!
//! A Python string may contain a lone surrogate, which UTF-8 cannot encode. Such a text is kept in
//! WTF-8: UTF-8 that also encodes U+D800..U+DFFF, as three bytes. Its bytes sort as code points do.

use super::escape::{decode_escape, plain_end, special_bytes};
use std::cmp::Ordering;
use std::fmt;

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// A string that may contain lone surrogates (only [`super::parse_python`] makes such).
///
/// Texts are ordered by code point, as Python orders them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Text(Form);

/// `Wtf8` only where `Utf8` cannot be, so that equal texts have equal forms.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Utf8(String),
    Wtf8(Vec<u8>),
}

impl Text {
    /// The text, unless it holds a lone surrogate.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Form::Utf8(text) => Some(text),
            Form::Wtf8(_) => None,
        }
    }

    /// WTF-8 bytes: UTF-8 unless [`Self::as_str`] is `None`.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Form::Utf8(text) => text.as_bytes(),
            Form::Wtf8(bytes) => bytes,
        }
    }

    /// Takes UTF-8, in which each lone surrogate is spelled in three bytes (WTF-8).
    pub fn from_wtf8(bytes: Vec<u8>) -> Self {
        Self(match String::from_utf8(bytes) {
            Ok(text) => Form::Utf8(text),
            Err(not_utf8) => Form::Wtf8(not_utf8.into_bytes()),
        })
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Form::Utf8(text.to_owned()))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Form::Utf8(text))
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut spelled = Vec::new();
        write_ascii_text(&mut spelled, self);
        f.write_str(&String::from_utf8_lossy(&spelled))
    }
}

/// Appends `text` as a JSON string in ASCII.
///
/// It writes `\" \\ \b \f \n \r \t`. Every other character outside 0x20..=0x7e becomes `\uxxxx`
/// with lower-case digits (two of them above U+FFFF).
///
/// Native lines and Python's `ensure_ascii` spell strings alike, U+007F included.
pub fn write_ascii_string(out: &mut Vec<u8>, text: &str) {
    write_ascii(out, text.as_bytes());
}

/// [`write_ascii_string`] for a text that may hold lone surrogates, each written `\udxxx`.
pub(in crate::canon) fn write_ascii_text(out: &mut Vec<u8>, text: &Text) {
    write_ascii(out, text.as_bytes());
}

fn write_ascii(out: &mut Vec<u8>, wtf8: &[u8]) {
    out.reserve(wtf8.len() + 2);
    out.push(b'"');
    let mut rest = wtf8;
    loop {
        let (plain, special) = rest.split_at(printable_end(rest));
        out.extend_from_slice(plain);
        let Some((code_point, after)) = first_code_point(special) else {
            break;
        };
        write_escape(out, code_point);
        rest = after;
    }
    out.push(b'"');
}

/// Appends `text` as a JSON string with the fewest escapes.
///
/// It writes `\" \\ \b \f \n \r \t`, and `\u00xx` for other characters below 0x20. RFC 8785 and
/// Python without `ensure_ascii` agree.
pub(in crate::canon) fn write_minimal_string(out: &mut Vec<u8>, text: &str) {
    write_minimal_wtf8(out, text.as_bytes());
}

/// [`write_minimal_string`] for a text that may hold lone surrogates, which stay unchanged.
pub(in crate::canon) fn write_minimal_wtf8(out: &mut Vec<u8>, wtf8: &[u8]) {
    let mut rest = wtf8;
    out.reserve(rest.len() + 2);
    out.push(b'"');
    loop {
        let (plain, special) = rest.split_at(plain_end(rest, 0));
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else {
            break;
        };
        write_escape(out, u32::from(*byte));
        rest = after;
    }
    out.push(b'"');
}

/// Appends the shortest escape of one code point.
pub(in crate::canon) fn write_escape(out: &mut Vec<u8>, code_point: u32) {
    let short = match code_point {
        0x22 => b'"',
        0x5c => b'\\',
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        0x1_0000.. => {
            let above = code_point - 0x1_0000;
            write_unit(out, 0xd800 | above >> 10);
            return write_unit(out, 0xdc00 | above & 0x3ff);
        }
        unit => return write_unit(out, unit),
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Appends `\uxxxx` for the low 16 bits of `unit`.
pub(in crate::canon) fn write_unit(out: &mut Vec<u8>, unit: u32) {
    let digit = |shift: u32| HEX_DIGITS[(unit >> shift & 15) as usize];
    out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}

/// Splits the first code point off a WTF-8 text.
fn first_code_point(wtf8: &[u8]) -> Option<(u32, &[u8])> {
    let low = |byte: u8| u32::from(byte & 0x3f);
    Some(match *wtf8 {
        [] => return None,
        [a @ 0xc0..=0xdf, b, ref rest @ ..] => (u32::from(a & 0x1f) << 6 | low(b), rest),
        [a @ 0xe0..=0xef, b, c, ref rest @ ..] => {
            (u32::from(a & 0x0f) << 12 | low(b) << 6 | low(c), rest)
        }
        [a @ 0xf0..=0xf7, b, c, d, ref rest @ ..] => (
            u32::from(a & 0x07) << 18 | low(b) << 12 | low(c) << 6 | low(d),
            rest,
        ),
        [a, ref rest @ ..] => (u32::from(a), rest),
    })
}

/// Replaces the escapes of a string token; the result is WTF-8.
pub(in crate::canon) fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(plain) = memchr::memchr(b'\\', &bytes[at..]) {
        out.extend_from_slice(&bytes[at..at + plain]);
        at += plain;
        // The lexer refused every escape that this function would.
        let Ok(escape) = decode_escape(bytes, at) else {
            break;
        };
        push_code_point(&mut out, escape.code_point);
        at += escape.length;
    }
    out.extend_from_slice(&bytes[at..]);
    out
}

/// Appends one code point, surrogates included, as WTF-8.
pub(in crate::canon) fn push_code_point(out: &mut Vec<u8>, code_point: u32) {
    let continuation = |shift: u32| 0x80 | (code_point >> shift & 0x3f) as u8;
    match char::from_u32(code_point) {
        Some(character) => {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        None => out.extend_from_slice(&[0xed, continuation(6), continuation(0)]),
    }
}

/// Length of the run of bytes at the start that need no escape in ASCII.
fn printable_end(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_le_bytes([0x80; 8]);
    let mut at = 0;
    let mut rest = bytes;
    while let Some((chunk, tail)) = rest.split_first_chunk() {
        let word = u64::from_le_bytes(*chunk);
        let above = word | word.wrapping_add(ONES);
        let hits = special_bytes(word) | above & HIGH;
        if hits != 0 {
            return at + (hits.trailing_zeros() >> 3) as usize;
        }
        at += 8;
        rest = tail;
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20 | 0x7f..);
    at + rest.iter().position(special).unwrap_or(rest.len())
}
