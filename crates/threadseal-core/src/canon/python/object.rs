//! One object as [`super::ledger`] writes it, member by member. The hash of a record covers only
//! some of its members.
//!
//! ```text
//! {"b":1.50,"a":{"d":1,"c":2}}  ─►  a `"a":{"c":2,"d":1}`   b `"b":1.5`
//! ```
//! Two ways give the same result. [`LedgerObject::read`] rewrites the text in one pass, and gives
//! up on input that only Python accepts. [`LedgerObject::of`] takes a tree.

use super::{repr_float, write, write_number, write_text};
use crate::canon::json::{Number, Text, Value};
use crate::canon::rewrite::{Dialect, Member, rewrite_members, same_decimal};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

/// A float of up to this many digits is the shortest that reads back as its double.
///
/// IEEE 754 binary64 distinguishes all such decimals, so Python prints the same digits.
const EXACT_DIGITS: usize = 15;

/// The members of an object, sorted by name; no name twice.
pub struct LedgerObject<'a> {
    text: Vec<u8>,
    members: Vec<Span<'a>>,
    /// Offset of a number whose written decimal differs from its source; 0 if the place is unknown.
    pub inexact: Option<usize>,
    /// Whether any name in it may begin with `$`.
    pub dollar: bool,
}

struct Span<'a> {
    name: Cow<'a, [u8]>,
    whole: Range<usize>,
    value: usize,
}

/// One member.
#[derive(Debug, Clone, Copy)]
pub struct LedgerMember<'o> {
    /// The name, escapes replaced; WTF-8.
    pub name: &'o [u8],
    /// Name, colon and value as `ledger` writes them. A lone surrogate is in WTF-8.
    pub text: &'o [u8],
    /// The value of it.
    pub value: &'o [u8],
}

impl<'a> LedgerObject<'a> {
    /// Reads an object; `None` if the text is no object, or if only Python accepts it.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        let rewritten = rewrite_members::<Ledger>(text)?;
        let span = |member: &Member<'a>| Span {
            name: member.key().bytes(),
            whole: member.from..member.to,
            value: member.name_end + 1,
        };
        Some(Self {
            members: rewritten.members.iter().map(span).collect(),
            text: rewritten.out,
            inexact: rewritten.lost.digits,
            dollar: rewritten.dollar,
        })
    }

    /// The object with these members; no name may occur twice.
    pub fn of(members: &'a [(Text, Value)]) -> Self {
        let mut object = Self {
            text: Vec::new(),
            members: Vec::with_capacity(members.len()),
            inexact: None,
            dollar: false,
        };
        let mut sorted: Vec<&(Text, Value)> = members.iter().collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, value) in sorted {
            let from = object.text.len();
            write_text(&mut object.text, name, super::Dialect::Wtf8);
            object.text.push(b':');
            let value_from = object.text.len();
            write(&mut object.text, value, super::Dialect::Wtf8);
            object.members.push(Span {
                name: Cow::Borrowed(name.as_bytes()),
                whole: from..object.text.len(),
                value: value_from,
            });
            object.dollar |= name.as_bytes().starts_with(b"$");
            object.look_at(value);
        }
        object
    }

    /// The members in order.
    pub fn members(&self) -> impl Iterator<Item = LedgerMember<'_>> {
        let part = |range: Range<usize>| self.text.get(range).unwrap_or_default();
        self.members.iter().map(move |span| LedgerMember {
            name: &span.name,
            text: part(span.whole.clone()),
            value: part(span.value..span.whole.end),
        })
    }

    /// Notes the same details of a tree as [`Self::read`] notes of a text.
    fn look_at(&mut self, value: &Value) {
        match value {
            Value::Number(number) if !is_exact(number) => self.inexact = Some(0),
            Value::Array(elements) => elements.iter().for_each(|value| self.look_at(value)),
            Value::Object(members) => {
                for (name, value) in members {
                    self.dollar |= name.as_bytes().starts_with(b"$");
                    self.look_at(value);
                }
            }
            _ => {}
        }
    }
}

/// Whether a number is written as the same decimal. Python's own tokens always are.
fn is_exact(number: &Number) -> bool {
    let mut written = Vec::new();
    write_number(&mut written, number);
    let literal = number.literal().as_bytes();
    literal == written || same_decimal(literal, &written)
}

/// The rules that `ledger` does not share with other dialects.
struct Ledger;

impl Dialect for Ledger {
    /// UTF-8 orders by code point, as Python does.
    #[inline]
    fn compare(a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }

    #[inline]
    fn is_canonical(literal: &[u8], integer: bool) -> bool {
        if integer {
            return literal != b"-0";
        }
        let digits = literal.strip_prefix(b"-").unwrap_or(literal);
        let shortest = match digits {
            // `1.0`, but not `1.10`.
            [.., b'.', b'0'] => true,
            [.., last] => *last != b'0',
            [] => false,
        };
        shortest
            && digits.len() <= EXACT_DIGITS + 1
            && !digits.starts_with(b"0.0000")
            && !digits.iter().any(|byte| matches!(byte, b'e' | b'E'))
    }

    fn write_number(out: &mut Vec<u8>, literal: &str, integer: bool) -> bool {
        if integer {
            // The only integer with a second spelling.
            out.push(b'0');
            return true;
        }
        let Ok(value) = literal.parse() else {
            return false;
        };
        out.extend_from_slice(repr_float(value).as_bytes());
        true
    }
}
