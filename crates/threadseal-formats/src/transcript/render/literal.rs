//! Values as Python's `repr` writes them: `{'status': 'ok', 'n': None, 't': (1, 2)}`.
//!
//! Rye stores a tool's result as `str(dict)` and reads it back with `ast.literal_eval`. This module
//! reads the output of `repr` for JSON's types and for tuples (which become arrays). For other
//! literals (bytes, sets, sums, names other than strings as keys) it returns `None`. They are then
//! shown as plain text.

use std::collections::BTreeMap;
use threadseal_core::canon::json::{Number, Text, Value};
use threadseal_core::limits::MAX_JSON_DEPTH;

/// Reads one value and nothing after it.
pub(super) fn parse(text: &str) -> Option<Value> {
    let mut reader = Reader {
        rest: text,
        depth: 0,
    };
    let value = reader.value()?;
    reader.blanks();
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        self.rest = self
            .rest
            .trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
    }

    fn eat(&mut self, token: &str) -> bool {
        self.blanks();
        let Some(rest) = self.rest.strip_prefix(token) else {
            return false;
        };
        self.rest = rest;
        true
    }

    fn value(&mut self) -> Option<Value> {
        self.depth += 1;
        if self.depth > MAX_JSON_DEPTH {
            return None;
        }
        self.blanks();
        let value = match self.rest.bytes().next()? {
            b'{' => self.dict(),
            b'[' => self
                .sequence("[", "]")
                .map(|(elements, _)| Value::Array(elements)),
            b'(' => {
                let (mut elements, comma) = self.sequence("(", ")")?;
                match elements.len() {
                    1 if !comma => elements.pop(),
                    _ => Some(Value::Array(elements)),
                }
            }
            b'\'' | b'"' => self.string().map(Value::String),
            b'-' | b'0'..=b'9' | b'.' => self.number(),
            _ => self.word(),
        };
        self.depth -= 1;
        value
    }

    fn dict(&mut self) -> Option<Value> {
        self.eat("{");
        let mut members: Vec<(Text, Value)> = Vec::new();
        let mut places: BTreeMap<Text, usize> = BTreeMap::new();
        let mut comma = true;
        loop {
            if self.eat("}") {
                return Some(Value::Object(members));
            }
            if !comma {
                return None;
            }
            self.blanks();
            let name = self.string()?;
            if !self.eat(":") {
                return None;
            }
            let value = self.value()?;
            match places.get(&name) {
                Some(place) => members[*place].1 = value,
                None => {
                    places.insert(name.clone(), members.len());
                    members.push((name, value));
                }
            }
            comma = self.eat(",");
        }
    }

    /// The elements, and whether a comma follows the last.
    fn sequence(&mut self, open: &str, close: &str) -> Option<(Vec<Value>, bool)> {
        self.eat(open);
        let mut elements = Vec::new();
        let mut comma = false;
        loop {
            if self.eat(close) {
                return Some((elements, comma));
            }
            if !elements.is_empty() && !comma {
                return None;
            }
            elements.push(self.value()?);
            comma = self.eat(",");
        }
    }

    fn word(&mut self) -> Option<Value> {
        for (word, value) in [
            ("None", Value::Null),
            ("True", Value::Bool(true)),
            ("False", Value::Bool(false)),
        ] {
            if self.eat(word) {
                return Some(value);
            }
        }
        None
    }

    /// Decimal only: `repr` writes no other.
    fn number(&mut self) -> Option<Value> {
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
        let end = self.rest.find(|c| !part(c)).unwrap_or(self.rest.len());
        let (literal, rest) = self.rest.split_at(end);
        self.rest = rest;
        Number::parse(literal).map(Value::Number)
    }

    fn string(&mut self) -> Option<Text> {
        let quote = self
            .rest
            .chars()
            .next()
            .filter(|c| matches!(c, '\'' | '"'))?;
        let mut out = Vec::new();
        let mut letters = self.rest.char_indices().skip(1);
        while let Some((at, c)) = letters.next() {
            match c {
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Some(Text::from_wtf8(out));
                }
                '\n' => return None,
                '\\' => {
                    let (escape, length) = escape(&self.rest[at + 1..])?;
                    push(&mut out, escape);
                    // The first letter of the escape, and those after it, are ASCII.
                    for _ in 0..length {
                        letters.next();
                    }
                }
                c => push(&mut out, u32::from(c)),
            }
        }
        None
    }
}

/// The code point of an escape, and its length after the backslash.
fn escape(text: &str) -> Option<(u32, usize)> {
    let hex = |digits: usize| {
        let digits = text
            .get(1..=digits)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let code_point = u32::from_str_radix(digits, 16)
            .ok()
            .filter(|c| *c <= 0x10_ffff)?;
        Some((code_point, 1 + digits.len()))
    };
    match text.bytes().next()? {
        mark @ (b'\\' | b'\'' | b'"') => Some((u32::from(mark), 1)),
        b'n' => Some((0x0a, 1)),
        b'r' => Some((0x0d, 1)),
        b't' => Some((0x09, 1)),
        b'x' => hex(2),
        b'u' => hex(4),
        b'U' => hex(8),
        _ => None,
    }
}

/// As WTF-8: `repr` also writes lone surrogates.
fn push(out: &mut Vec<u8>, code_point: u32) {
    match char::from_u32(code_point) {
        Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        None => {
            let low =
                |shift: u32| 0x80 | u8::try_from(code_point >> shift & 0x3f).unwrap_or_default();
            out.extend_from_slice(&[0xed, low(6), low(0)]);
        }
    }
}
