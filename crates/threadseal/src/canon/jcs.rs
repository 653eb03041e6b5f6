//! RFC 8785, the JSON Canonicalization Scheme.
//!
//! ```text
//! no blanks · names sorted by UTF-16 code unit · numbers as ECMAScript prints the nearest
//! double · strings with the fewest escapes · UTF-8
//! ```
//!
//! [`canonicalize`] goes from text to text in one pass. Members are written where they stand;
//! only an object whose names are out of order is rearranged, by moving the spans just written.
//! Strict reading (see [`super::json`]) is what RFC 8785 §3.1 asks for, I-JSON (RFC 7493).
//!
//! RFC 8785 puts every number through a double. An integer beyond 2^53 therefore loses digits
//! here; a signature over the result does not cover them.

use super::Unrepresentable;
use super::json::{
    JsonError, JsonErrorKind, Key, Lexer, Number, Rules, Start, StringToken, Text, Value,
    decode_escape, push_code_point, write_escape, write_minimal_string,
};
use std::cmp::Ordering;

/// Integers of up to this many digits are printed by ECMAScript as they were written: all are
/// below 2^53 and below the 21 digits at which it turns to exponents (RFC 8785 §3.2.2.3).
const VERBATIM_DIGITS: usize = 15;

/// The canonical form of one JSON text.
///
/// # Errors
/// As [`super::json::parse`], and [`JsonErrorKind::NonFiniteNumber`] for an integer beyond the
/// range of doubles.
pub fn canonicalize(text: &[u8]) -> Result<Vec<u8>, JsonError> {
    let mut lexer = Lexer::new(text, Rules::Strict)?;
    let mut writer = Writer {
        out: Vec::with_capacity(text.len()),
        members: Vec::new(),
        moved: Vec::new(),
    };
    writer.value(&mut lexer)?;
    lexer.finish()?;
    Ok(writer.out)
}

/// The canonical form of a value.
///
/// # Errors
/// Any [`Unrepresentable`]: RFC 8785 has no text for lone surrogates, numbers beyond the range
/// of doubles, and two members of one name.
pub fn to_vec(value: &Value) -> Result<Vec<u8>, Unrepresentable> {
    let mut out = Vec::new();
    write_value(&mut out, value)?;
    Ok(out)
}

struct Writer<'a> {
    out: Vec<u8>,
    /// Members of the objects that are open, innermost last.
    members: Vec<Member<'a>>,
    /// Where the members of one object are rearranged.
    moved: Vec<u8>,
}

/// One member that was written to `out[from..to]`.
#[derive(Clone, Copy)]
struct Member<'a> {
    name: StringToken<'a>,
    from: usize,
    to: usize,
}

impl<'a> Writer<'a> {
    fn value(&mut self, lexer: &mut Lexer<'a>) -> Result<(), JsonError> {
        match lexer.start()? {
            Start::String => self.string(lexer.string()?),
            Start::Number => {
                let token = lexer.number()?;
                if !write_number(&mut self.out, token.literal, token.integer) {
                    return Err(JsonError::new(token.offset, JsonErrorKind::NonFiniteNumber));
                }
            }
            Start::Object => self.object(lexer)?,
            Start::Array => {
                self.out.push(b'[');
                let first = self.out.len();
                lexer.elements(|lexer| {
                    if self.out.len() > first {
                        self.out.push(b',');
                    }
                    self.value(lexer)
                })?;
                self.out.push(b']');
            }
            word => self.out.extend_from_slice(lexer.word(&word)?.as_bytes()),
        }
        Ok(())
    }

    fn object(&mut self, lexer: &mut Lexer<'a>) -> Result<(), JsonError> {
        let base = self.members.len();
        let mut ascending = true;
        self.out.push(b'{');
        let first = self.out.len();
        lexer.members(|lexer, name| {
            if let Some(last) = self.members.get(base..).and_then(<[_]>::last) {
                ascending = ascending && compare_names(&last.name, &name) == Ordering::Less;
                self.out.push(b',');
            }
            let from = self.out.len();
            self.string(name);
            self.out.push(b':');
            self.value(lexer)?;
            let to = self.out.len();
            self.members.push(Member { name, from, to });
            Ok(())
        })?;
        if !ascending {
            self.rearrange(base, first)?;
        }
        self.members.truncate(base);
        self.out.push(b'}');
        Ok(())
    }

    /// Sorts the members from `base` on, which stand in `out[first..]`. Names in ascending order
    /// differ, so only here can one occur twice.
    #[inline(never)]
    fn rearrange(&mut self, base: usize, first: usize) -> Result<(), JsonError> {
        let members = &mut self.members[base..];
        members.sort_by(|a, b| compare_names(&a.name, &b.name));
        let repeated = members.windows(2).filter_map(|pair| {
            (compare_names(&pair[0].name, &pair[1].name) == Ordering::Equal)
                .then_some(pair[1].name.offset)
        });
        if let Some(offset) = repeated.min() {
            return Err(JsonError::new(offset, JsonErrorKind::DuplicateKey));
        }
        self.moved.clear();
        for (index, member) in members.iter().enumerate() {
            if index > 0 {
                self.moved.push(b',');
            }
            self.moved
                .extend_from_slice(&self.out[member.from..member.to]);
        }
        self.out[first..].copy_from_slice(&self.moved);
        Ok(())
    }

    /// Writes a string with the fewest escapes. Its escapes were checked by the lexer.
    #[inline]
    fn string(&mut self, token: StringToken<'a>) {
        self.out.push(b'"');
        if token.escaped {
            self.escaped(token.raw);
        } else {
            self.out.extend_from_slice(token.raw);
        }
        self.out.push(b'"');
    }

    fn escaped(&mut self, raw: &[u8]) {
        let mut rest = raw;
        while let Some(plain) = memchr::memchr(b'\\', rest) {
            self.out.extend_from_slice(&rest[..plain]);
            let Ok(escape) = decode_escape(rest, plain) else {
                break;
            };
            match escape.code_point {
                0x22 | 0x5c | 0..0x20 => write_escape(&mut self.out, escape.code_point),
                other => push_code_point(&mut self.out, other),
            }
            rest = &rest[plain + escape.length..];
        }
        self.out.extend_from_slice(rest);
    }
}

/// Appends a number as ECMAScript prints its double; false if that is not finite.
fn write_number(out: &mut Vec<u8>, literal: &str, integer: bool) -> bool {
    if integer && literal.len() <= VERBATIM_DIGITS {
        let text = if literal == "-0" { "0" } else { literal };
        out.extend_from_slice(text.as_bytes());
        return true;
    }
    match literal.parse::<f64>() {
        Ok(value) if value.is_finite() => {
            out.extend_from_slice(ryu_js::Buffer::new().format_finite(value).as_bytes());
            true
        }
        _ => false,
    }
}

fn compare_names(a: &StringToken<'_>, b: &StringToken<'_>) -> Ordering {
    if a.escaped || b.escaped {
        let (a, b) = (Key::new(*a).bytes(), Key::new(*b).bytes());
        compare_utf16(&a, &b)
    } else {
        compare_utf16(a.raw, b.raw)
    }
}

/// Orders two UTF-8 texts by their UTF-16 code units (RFC 8785 §3.2.3).
///
/// UTF-8 orders by code point. UTF-16 differs in one place: characters above U+FFFF (first byte
/// 0xf0 and up) start with a surrogate and so stand before U+E000..U+FFFF (first byte 0xee and
/// 0xef). Both bytes can only differ there in a first byte, as no later one is above 0xbf.
fn compare_utf16(a: &[u8], b: &[u8]) -> Ordering {
    let Some((x, y)) = a.iter().zip(b).find(|(x, y)| x != y) else {
        return a.len().cmp(&b.len());
    };
    match (x, y) {
        (0xf0.., 0xee..=0xef) => Ordering::Less,
        (0xee..=0xef, 0xf0..) => Ordering::Greater,
        _ => x.cmp(y),
    }
}

fn write_value(out: &mut Vec<u8>, value: &Value) -> Result<(), Unrepresentable> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_value_number(out, number)?,
        Value::String(text) => write_text(out, text)?,
        Value::Array(elements) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(out, element)?;
            }
            out.push(b']');
        }
        Value::Object(members) => write_members(out, members)?,
    }
    Ok(())
}

fn write_members(out: &mut Vec<u8>, members: &[(Text, Value)]) -> Result<(), Unrepresentable> {
    let compare = |a: &Text, b: &Text| compare_utf16(a.as_bytes(), b.as_bytes());
    let mut sorted: Vec<&(Text, Value)> = members.iter().collect();
    sorted.sort_by(|a, b| compare(&a.0, &b.0));
    if sorted.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(Unrepresentable::DuplicateKey);
    }
    out.push(b'{');
    for (index, (name, value)) in sorted.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_text(out, name)?;
        out.push(b':');
        write_value(out, value)?;
    }
    out.push(b'}');
    Ok(())
}

fn write_text(out: &mut Vec<u8>, text: &Text) -> Result<(), Unrepresentable> {
    let text = text.as_str().ok_or(Unrepresentable::LoneSurrogate)?;
    write_minimal_string(out, text);
    Ok(())
}

fn write_value_number(out: &mut Vec<u8>, number: &Number) -> Result<(), Unrepresentable> {
    write_number(out, number.literal(), number.is_integer())
        .then_some(())
        .ok_or(Unrepresentable::NonFinite)
}

#[cfg(test)]
mod tests;
