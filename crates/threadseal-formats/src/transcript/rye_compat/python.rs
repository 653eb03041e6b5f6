//! The details of Python on which Rye's verifier depends.
//!
//! | Python | here |
//! |---|---|
//! | `str.splitlines()`, `str.strip()` | [`split_lines`], [`strip`] |
//! | `f"{value}"` of a result of `json.loads` | [`Formatted`] |
//! | `content[:n]`, `bytes.find(b"\n", n)` | [`slice_bound`] |
//! | `base64.urlsafe_b64decode` | [`urlsafe_b64decode`] |
//! | `UnicodeDecodeError` | [`decode_error`] |
//!
//! Rules as in Python 3.11; each was compared with the interpreter.

use std::str::Utf8Error;
use threadseal_core::canon::json::{Text, Value};
use threadseal_core::canon::python::repr_float;

/// Characters at which `str.splitlines` ends a line; `\r\n` is one end.
fn is_line_end(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Whether [`split_lines`] might cut `bytes` before their last byte. May err towards yes.
pub(crate) fn may_split(bytes: &[u8]) -> bool {
    let inner = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    inner
        .iter()
        .any(|b| matches!(b, b'\n' | b'\r' | 0x0b | 0x0c | 0x1c..=0x1e | 0xc2 | 0xe2))
}

/// `str.splitlines()`, except that the two halves of `\r\n` are two ends. Every caller skips the
/// empty line between them.
pub(crate) fn split_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_line_end)
}

/// `str.strip()`.
pub(crate) fn strip(text: &str) -> &str {
    // Python counts the four separators of ASCII as blanks, Unicode does not.
    text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}'))
}

/// The name of the type that `json.loads` gives a value.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_integer() => "int",
        Value::Number(_) => "float",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// A Python string under construction: WTF-8, because Python's strings hold lone surrogates.
#[derive(Default)]
pub(crate) struct Formatted(Vec<u8>);

impl Formatted {
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// Appends `f"{value}"`: strings as they are, everything else as `repr` shows it.
    pub(crate) fn value(mut self, value: &Value) -> Self {
        match value {
            Value::String(text) => self.0.extend_from_slice(text.as_bytes()),
            other => self.repr(other),
        }
        self
    }

    pub(crate) fn finish(self) -> Text {
        Text::from_wtf8(self.0)
    }

    fn repr(&mut self, value: &Value) {
        match value {
            Value::Null => self.push("None"),
            Value::Bool(true) => self.push("True"),
            Value::Bool(false) => self.push("False"),
            Value::Number(number) if number.is_integer() => self.push(match number.literal() {
                "-0" => "0",
                literal => literal,
            }),
            Value::Number(number) => self.repr_float(number.as_f64()),
            Value::String(text) => self.repr_text(text),
            Value::Array(elements) => {
                self.push("[");
                for (at, element) in elements.iter().enumerate() {
                    self.push(if at == 0 { "" } else { ", " });
                    self.repr(element);
                }
                self.push("]");
            }
            Value::Object(members) => {
                self.push("{");
                for (at, (name, member)) in members.iter().enumerate() {
                    self.push(if at == 0 { "" } else { ", " });
                    self.repr_text(name);
                    self.push(": ");
                    self.repr(member);
                }
                self.push("}");
            }
        }
    }

    fn push(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    fn repr_float(&mut self, value: f64) {
        match value {
            v if v.is_nan() => self.push("nan"),
            f64::INFINITY => self.push("inf"),
            f64::NEG_INFINITY => self.push("-inf"),
            finite => self.push(&repr_float(finite)),
        }
    }

    /// `repr` of a string: double quotes only where that spares escapes.
    fn repr_text(&mut self, text: &Text) {
        let bytes = text.as_bytes();
        let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') {
            '"'
        } else {
            '\''
        };
        self.0.push(quote as u8);
        let mut rest = bytes;
        loop {
            let valid = match std::str::from_utf8(rest) {
                Ok(all) => all,
                Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
            };
            valid.chars().for_each(|c| self.repr_char(c, quote));
            rest = &rest[valid.len()..];
            // Only a surrogate in WTF-8 can follow: 0xed and two continuation bytes.
            let [_, middle, last, after @ ..] = rest else {
                break;
            };
            let unit = 0xd000 | u16::from(middle & 0x3f) << 6 | u16::from(last & 0x3f);
            self.push(&format!("\\u{unit:04x}"));
            rest = after;
        }
        self.0.push(quote as u8);
    }

    fn repr_char(&mut self, c: char, quote: char) {
        match c {
            '\\' => self.push("\\\\"),
            '\n' => self.push("\\n"),
            '\r' => self.push("\\r"),
            '\t' => self.push("\\t"),
            c if c == quote => self.0.extend_from_slice(&[b'\\', quote as u8]),
            c if is_printable(c) => self.push(c.encode_utf8(&mut [0; 4])),
            c => match u32::from(c) {
                code @ ..=0xff => self.push(&format!("\\x{code:02x}")),
                code @ ..=0xffff => self.push(&format!("\\u{code:04x}")),
                code => self.push(&format!("\\U{code:08x}")),
            },
        }
    }
}

/// `str.isprintable`. Rust's own table leaves out the same categories (Cc, Cf, Cs, Co, Cn, Zl, Zp,
/// Zs but the blank). After another character, `escape_debug` consults nothing else.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    let mut text = String::from("a");
    text.push(c);
    text.escape_debug().count() == 2
}

/// The results of Python for `content[:value]` and `content.find(…, value)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SliceBound {
    /// `None`: no bound.
    Open,
    /// From the start; beyond the end is the end.
    FromStart(u64),
    /// From the end, as the distance; before the start is the start.
    FromEnd(u64),
}

/// Reads a slice bound; `None` where Python raises `TypeError`.
pub(super) fn slice_bound(value: &Value) -> Option<SliceBound> {
    match value {
        Value::Null => Some(SliceBound::Open),
        Value::Bool(flag) => Some(SliceBound::FromStart(u64::from(*flag))),
        Value::Number(number) if number.is_integer() => {
            // Integers of any size are clamped, never refused.
            let magnitude = |digits: &str| digits.parse().unwrap_or(u64::MAX);
            Some(match number.literal().strip_prefix('-') {
                Some(digits) if magnitude(digits) > 0 => SliceBound::FromEnd(magnitude(digits)),
                Some(_) => SliceBound::FromStart(0),
                None => SliceBound::FromStart(magnitude(number.literal())),
            })
        }
        _ => None,
    }
}

impl SliceBound {
    /// Where `content[:n]` ends, for content of `length` bytes.
    pub(super) fn end(self, length: u64) -> u64 {
        match self {
            Self::Open => length,
            Self::FromStart(at) => at.min(length),
            Self::FromEnd(back) => length.saturating_sub(back),
        }
    }

    /// Where `content.find(…, n)` begins; it may be beyond the end.
    pub(super) fn start(self, length: u64) -> u64 {
        match self {
            Self::Open => 0,
            Self::FromStart(at) => at,
            Self::FromEnd(back) => length.saturating_sub(back),
        }
    }
}

/// `base64.urlsafe_b64decode` of a string. Characters outside the alphabet, trailing bits, and
/// everything after sufficient padding are ignored. `+` and `/` count as well. `None` where Python
/// raises.
pub(super) fn urlsafe_b64decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.is_ascii() {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut position, mut left, mut pads) = (0_u8, 0_u8, 0_u8);
    for byte in text {
        let sextet = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            b'=' => {
                if position >= 2 {
                    pads += 1;
                    if position + pads >= 4 {
                        return Some(out);
                    }
                }
                continue;
            }
            _ => continue,
        };
        pads = 0;
        match position {
            0 => {}
            1 => out.push(left << 2 | sextet >> 4),
            2 => out.push(left << 4 | sextet >> 2),
            _ => out.push(left << 6 | sextet),
        }
        left = sextet;
        position = (position + 1) & 3;
    }
    (position == 0).then_some(out)
}

/// The text of the `UnicodeDecodeError` for a piece of a file that starts at `start`.
pub(super) fn decode_error(error: Utf8Error, bytes: &[u8], start: u64) -> String {
    let from = error.valid_up_to();
    let to = error
        .error_len()
        .map_or(bytes.len(), |length| from + length);
    let first = bytes.get(from).copied().unwrap_or_default();
    let why = match error.error_len() {
        None => "unexpected end of data",
        Some(_) if matches!(first, 0x80..=0xc1 | 0xf5..) => "invalid start byte",
        Some(_) => "invalid continuation byte",
    };
    let place = start + from as u64;
    if to - from == 1 {
        format!("'utf-8' codec can't decode byte 0x{first:02x} in position {place}: {why}")
    } else {
        let last = start + to as u64 - 1;
        format!("'utf-8' codec can't decode bytes in position {place}-{last}: {why}")
    }
}
