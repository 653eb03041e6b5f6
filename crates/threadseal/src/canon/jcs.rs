//! RFC 8785, the JSON Canonicalization Scheme.
//!
//! ```text
//! no blanks · names sorted by UTF-16 code unit · numbers as ECMAScript prints the nearest
//! double · strings with the fewest escapes · UTF-8
//! ```
//!
//! [`canonicalize`] goes from text to text in one pass. What is canonical already is copied as it
//! stands, in runs as long as possible; blanks, escapes and numbers that are spelled otherwise
//! interrupt a run. Only an object whose names are out of order is rearranged, by moving the
//! spans just written.
//!
//! Strict reading (see [`super::json`]) is what RFC 8785 §3.1 asks for, I-JSON (RFC 7493).
//!
//! RFC 8785 puts every number through a double. An integer beyond 2^53 therefore loses digits
//! here; a signature over the result does not cover them.

mod spelling;

use super::Unrepresentable;
use super::json::{
    JsonError, JsonErrorKind, Key, Number, Str, StringToken, Text, Value, Visitor, decode_escape,
    parse, push_code_point, validate, walk, write_escape, write_minimal_string,
};
use std::cmp::Ordering;
use std::ops::Range;

/// A decimal of up to this many digits is the shortest that reads back as its double, so
/// ECMAScript prints the same digits (IEEE 754 binary64 tells all such decimals apart).
const EXACT_DIGITS: usize = 15;

/// Room for the members of the objects that are open at once in a usual text.
const USUAL_MEMBERS: usize = 16;

/// The canonical form of one JSON text.
///
/// # Errors
/// As [`super::json::parse`], and [`JsonErrorKind::NonFiniteNumber`] for an integer beyond the
/// range of doubles.
pub fn canonicalize(text: &[u8]) -> Result<Vec<u8>, JsonError> {
    let mut writer = Writer::new(text);
    if walk(text, &mut writer).is_some() {
        writer.copy(text.len());
        return Ok(writer.out);
    }
    // Something is wrong, and if it is not with the text, then a number is too large.
    let not_finite = JsonError::new(writer.not_finite, JsonErrorKind::NonFiniteNumber);
    to_vec(&parse(text)?).map_err(|_| not_finite)
}

/// What of a text its canonical form does not keep, though one would read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Offset of the first number that is another decimal than the one in the canonical form.
    pub digits: Option<usize>,
    /// Offset of the first number or string with one byte changed against the canonical form and
    /// nothing else: `1E+21`, `"\u001F"`.
    pub spelling: Option<usize>,
}

/// As [`canonicalize`], with what the canonical form does not keep. Makes no tree, also of a text
/// that is wrong.
///
/// # Errors
/// As [`canonicalize`].
pub fn canonicalize_closely(text: &[u8]) -> Result<(Vec<u8>, Lost), JsonError> {
    let mut writer = Writer::new(text);
    writer.lost = Some(Lost::default());
    if walk(text, &mut writer).is_some() {
        writer.copy(text.len());
        return Ok((writer.out, writer.lost.unwrap_or_default()));
    }
    validate(text)?;
    Err(JsonError::new(
        writer.not_finite,
        JsonErrorKind::NonFiniteNumber,
    ))
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

/// Writes while the text is walked.
struct Writer<'a> {
    text: &'a [u8],
    /// Everything before this offset of the text was written or left out.
    copied: usize,
    out: Vec<u8>,
    /// Members of the objects that are open, innermost last.
    members: Vec<Member<'a>>,
    /// Where the members of one object are rearranged.
    moved: Vec<u8>,
    /// Offset of a number that is no finite double.
    not_finite: usize,
    /// What is lost, if that is wanted.
    lost: Option<Lost>,
}

/// One member, written to `out[from..to]` once everything up to its end is copied.
#[derive(Clone, Copy)]
struct Member<'a> {
    name: StringToken<'a>,
    from: usize,
    to: usize,
}

/// An object that is open.
struct Open {
    /// Where its members start among all.
    members: usize,
    /// Whether its names came in ascending order so far. Such names differ.
    ascending: bool,
}

impl<'a> Writer<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            copied: 0,
            out: Vec::with_capacity(text.len()),
            members: Vec::with_capacity(USUAL_MEMBERS),
            moved: Vec::new(),
            not_finite: 0,
            lost: None,
        }
    }

    /// Writes the text up to `at` as it stands.
    fn copy(&mut self, at: usize) {
        if let Some(run) = self.text.get(self.copied..at) {
            self.out.extend_from_slice(run);
        }
        self.copied = at;
    }

    /// Where the byte at `at` of the text goes, if all from [`Self::copied`] on is copied.
    fn place(&self, at: usize) -> usize {
        self.out.len() + at - self.copied
    }

    /// Writes a string otherwise than it stands. Its escapes were checked.
    fn respell(&mut self, token: StringToken<'a>) {
        self.copy(token.offset + 1);
        self.copied += token.raw.len();
        let mut rest = token.raw;
        while let Some(plain) = memchr::memchr(b'\\', rest) {
            if plain > 0 {
                self.out.extend_from_slice(&rest[..plain]);
            }
            let Ok(escape) = decode_escape(rest, plain) else {
                break;
            };
            match escape.code_point {
                0x22 | 0x5c | 0..0x20 => {
                    let from = self.out.len();
                    write_escape(&mut self.out, escape.code_point);
                    if let (Some(lost), Some(written)) = (&mut self.lost, self.out.get(from..)) {
                        lost.note_escape(
                            token.offset,
                            &rest[plain..plain + escape.length],
                            written,
                        );
                    }
                }
                other => push_code_point(&mut self.out, other),
            }
            rest = &rest[plain + escape.length..];
        }
        self.out.extend_from_slice(rest);
    }

    /// Sorts the members from `base` on, the last of which ends before `at`.
    fn rearrange(&mut self, base: usize, at: usize) -> Option<()> {
        self.copy(at);
        let members = self.members.get_mut(base..)?;
        let first = members.first()?.from;
        members.sort_by(|a, b| compare_names(&a.name, &b.name));
        let same = |pair: &[Member<'_>]| compare_names(&pair[0].name, &pair[1].name).is_eq();
        if members.windows(2).any(same) {
            return None;
        }
        self.moved.clear();
        self.moved.reserve(self.out.len() - first);
        for (index, member) in members.iter().enumerate() {
            if index > 0 {
                self.moved.push(b',');
            }
            self.moved
                .extend_from_slice(self.out.get(member.from..member.to)?);
        }
        self.out.get_mut(first..)?.copy_from_slice(&self.moved);
        Some(())
    }
}

impl<'a> Visitor<'a> for Writer<'a> {
    type Object = Open;

    fn open(&mut self) -> Open {
        Open {
            members: self.members.len(),
            ascending: true,
        }
    }

    #[inline]
    fn name(&mut self, object: &mut Open, name: Str<'a>) -> Option<()> {
        if let Some(last) = self.members.get(object.members..)?.last() {
            object.ascending &= compare_names(&last.name, &name.token).is_lt();
        }
        let from = self.place(name.token.offset);
        self.members.push(Member {
            name: name.token,
            from,
            to: from,
        });
        self.string(name);
        Some(())
    }

    #[inline]
    fn member(&mut self, _: &mut Open, _: Str<'a>, value: Range<usize>) {
        let to = self.place(value.end);
        if let Some(member) = self.members.last_mut() {
            member.to = to;
        }
    }

    #[inline]
    fn close(&mut self, object: Open, at: usize) -> Option<()> {
        if !object.ascending {
            self.rearrange(object.members, at)?;
        }
        self.members.truncate(object.members);
        Some(())
    }

    #[inline]
    fn blanks(&mut self, blanks: Range<usize>) {
        self.copy(blanks.start);
        self.copied = blanks.end;
    }

    #[inline]
    fn string(&mut self, string: Str<'a>) {
        if string.respell {
            self.respell(string.token);
        }
    }

    #[inline]
    fn number(&mut self, number: Range<usize>, integer: bool) -> Option<()> {
        let literal = &self.text[number.clone()];
        if is_canonical(literal, integer) {
            return Some(());
        }
        self.copy(number.start);
        self.copied = number.end;
        let text = std::str::from_utf8(literal).ok()?;
        let from = self.out.len();
        if write_number(&mut self.out, text) {
            if let (Some(lost), Some(written)) = (&mut self.lost, self.out.get(from..)) {
                lost.note_number(number.start, literal, written);
            }
            return Some(());
        }
        self.not_finite = number.start;
        None
    }
}

/// Whether a number is surely spelled as ECMAScript prints it (RFC 8785 §3.2.2.3).
#[inline]
fn is_canonical(literal: &[u8], integer: bool) -> bool {
    let digits = literal.strip_prefix(b"-").unwrap_or(literal);
    if integer {
        return digits.len() <= EXACT_DIGITS && literal != b"-0";
    }
    // `0.0000001` is printed with an exponent; a last digit 0 or an exponent is not printed.
    digits.len() <= EXACT_DIGITS
        && !digits.starts_with(b"0.00000")
        && matches!(digits.last(), Some(b'1'..=b'9'))
        && !digits.iter().any(|byte| matches!(byte, b'e' | b'E'))
}

/// Appends a number as ECMAScript prints its double; false if that is not finite.
fn write_number(out: &mut Vec<u8>, literal: &str) -> bool {
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
    if is_canonical(number.literal().as_bytes(), number.is_integer()) {
        out.extend_from_slice(number.literal().as_bytes());
    } else if !write_number(out, number.literal()) {
        return Err(Unrepresentable::NonFinite);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
