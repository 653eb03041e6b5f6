//! The fast way through a text, for validating and for canonical forms.
//!
//! [`walk`] accepts a text only if the strict rules accept it. It gives up (`None`) on every
//! invalid text and does not name the fault. It checks names only as far as its [`Visitor`] does.
//! After `None` the caller uses the careful reader ([`super::parse`]), whose answer and error
//! count. Property tests compare the two readers.

use super::blocks::Blocks;
use super::keys::Key;
use super::lex::{Rules, StringToken, number_end};
use crate::limits::{MAX_JSON_DEPTH, MAX_JSON_VALUES};
use std::ops::Range;

/// Members of one object that [`Scan`] compares.
const MAX_NAMES: usize = 16;

/// Receives the parts of a text. `None` ends the walk.
pub(in crate::canon) trait Visitor<'a> {
    /// The state of an object while it is open.
    type Object;
    /// An object opens.
    fn open(&mut self) -> Self::Object;
    /// A name; it must be checked to be new, here or in [`Self::close`].
    fn name(&mut self, object: &mut Self::Object, name: Str<'a>) -> Option<()>;
    /// The value of that name.
    fn member(&mut self, object: &mut Self::Object, name: Str<'a>, value: Range<usize>);
    /// The object closes with the brace at `at`.
    fn close(&mut self, object: Self::Object, at: usize) -> Option<()>;
    /// An array opens.
    fn open_array(&mut self) {}
    /// One of its elements.
    fn element(&mut self, _: Range<usize>) {}
    /// The array closes.
    fn close_array(&mut self) {}
    /// Blanks, at least one.
    fn blanks(&mut self, _: Range<usize>) {}
    /// A string value.
    fn string(&mut self, _: Str<'a>) {}
    /// A number.
    fn number(&mut self, _: Range<usize>, _integer: bool) -> Option<()> {
        Some(())
    }
}

/// A string in the text.
#[derive(Clone, Copy)]
pub(in crate::canon) struct Str<'a> {
    pub(in crate::canon) token: StringToken<'a>,
    /// Whether it may have escapes other than `\" \\ \b \f \n \r \t`.
    pub(in crate::canon) respell: bool,
}

/// Walks one JSON text.
pub(in crate::canon) fn walk<'a>(text: &'a [u8], visitor: &mut impl Visitor<'a>) -> Option<()> {
    // The walk refuses a byte order mark, because no value starts with it. Most texts are ASCII,
    // and that check is faster than the check for UTF-8.
    if !text.is_ascii() {
        std::str::from_utf8(text).ok()?;
    }
    walk_utf8(text, visitor)
}

/// As [`walk`], for bytes that are known to be UTF-8.
pub(super) fn walk_utf8<'a>(text: &'a [u8], visitor: &mut impl Visitor<'a>) -> Option<()> {
    let mut walker = Walker {
        text,
        blocks: Blocks::new(text),
        values: 0,
        visitor,
    };
    let start = walker.blanks(0);
    let end = walker.value(start, MAX_JSON_DEPTH)?;
    (walker.blanks(end) == text.len()).then_some(())
}

struct Walker<'a, 'v, V> {
    text: &'a [u8],
    blocks: Blocks<'a>,
    values: usize,
    visitor: &'v mut V,
}

impl<'a, V: Visitor<'a>> Walker<'a, '_, V> {
    /// Offset after the value at `at`.
    #[inline]
    fn value(&mut self, at: usize, depth: usize) -> Option<usize> {
        self.values += 1;
        if self.values > MAX_JSON_VALUES {
            return None;
        }
        match self.byte(at)? {
            b'"' => {
                let string = self.string(at)?;
                self.visitor.string(string);
                Some(at + string.token.raw.len() + 2)
            }
            b'{' => self.object(at, depth),
            b'[' => self.array(at, depth),
            b'-' | b'0'..=b'9' => {
                let (end, integer) = number_end(self.text, at, Rules::Strict).ok()?;
                self.visitor.number(at..end, integer)?;
                Some(end)
            }
            b't' => self.word(at, b"true"),
            b'f' => self.word(at, b"false"),
            b'n' => self.word(at, b"null"),
            _ => None,
        }
    }

    fn object(&mut self, at: usize, depth: usize) -> Option<usize> {
        let depth = depth.checked_sub(1)?;
        let mut object = self.visitor.open();
        let mut at = self.blanks(at + 1);
        if self.byte(at)? == b'}' {
            self.visitor.close(object, at)?;
            return Some(at + 1);
        }
        loop {
            if self.byte(at)? != b'"' {
                return None;
            }
            let name = self.string(at)?;
            self.visitor.name(&mut object, name)?;
            at = self.blanks(at + name.token.raw.len() + 2);
            if self.byte(at)? != b':' {
                return None;
            }
            let start = self.blanks(at + 1);
            let end = self.value(start, depth)?;
            self.visitor.member(&mut object, name, start..end);
            at = self.blanks(end);
            match self.byte(at)? {
                b',' => at = self.blanks(at + 1),
                b'}' => {
                    self.visitor.close(object, at)?;
                    return Some(at + 1);
                }
                _ => return None,
            }
        }
    }

    fn array(&mut self, at: usize, depth: usize) -> Option<usize> {
        let depth = depth.checked_sub(1)?;
        self.visitor.open_array();
        let mut at = self.blanks(at + 1);
        if self.byte(at)? == b']' {
            self.visitor.close_array();
            return Some(at + 1);
        }
        loop {
            let end = self.value(at, depth)?;
            self.visitor.element(at..end);
            at = self.blanks(end);
            match self.byte(at)? {
                b',' => at = self.blanks(at + 1),
                b']' => {
                    self.visitor.close_array();
                    return Some(at + 1);
                }
                _ => return None,
            }
        }
    }

    #[inline(always)]
    fn string(&mut self, at: usize) -> Option<Str<'a>> {
        let close = self.blocks.string_end(at)?;
        Some(Str {
            token: StringToken {
                raw: &self.text[at + 1..close.at],
                offset: at,
                escaped: close.escaped,
                lone_surrogate: false,
            },
            respell: close.respell,
        })
    }

    #[inline]
    fn word(&self, at: usize, word: &[u8]) -> Option<usize> {
        let end = at + word.len();
        (self.text.get(at..end)? == word).then_some(end)
    }

    #[inline]
    fn byte(&self, at: usize) -> Option<u8> {
        self.text.get(at).copied()
    }

    #[inline]
    fn blanks(&mut self, start: usize) -> usize {
        let mut at = start;
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.get(at) {
            at += 1;
        }
        if at > start {
            self.visitor.blanks(start..at);
        }
        at
    }
}

/// Validates a text, and hands over the members of the outermost object.
///
/// It also gives up on more than 16 members in one object and on names with escapes. So it never
/// allocates.
pub(super) struct Scan<F> {
    depth: usize,
    member: F,
}

impl<F> Scan<F> {
    pub(super) fn new(member: F) -> Self {
        Self { depth: 0, member }
    }
}

impl<'a, F: FnMut(Key<'a>, Range<usize>)> Visitor<'a> for Scan<F> {
    type Object = Names<'a>;

    #[inline]
    fn open(&mut self) -> Names<'a> {
        self.depth += 1;
        Names::new()
    }

    #[inline(always)]
    fn name(&mut self, names: &mut Names<'a>, name: Str<'a>) -> Option<()> {
        names.insert(name.token)
    }

    #[inline]
    fn member(&mut self, _: &mut Names<'a>, name: Str<'a>, value: Range<usize>) {
        if self.depth == 1 {
            (self.member)(Key::new(name.token), value);
        }
    }

    #[inline]
    fn close(&mut self, _: Names<'a>, _: usize) -> Option<()> {
        self.depth -= 1;
        Some(())
    }
}

/// The names of one object so far.
pub(super) struct Names<'a> {
    /// A bit for each name. A name whose bit is not yet set is new.
    seen: u64,
    len: usize,
    names: [&'a [u8]; MAX_NAMES],
}

impl<'a> Names<'a> {
    #[inline]
    fn new() -> Self {
        Self {
            seen: 0,
            len: 0,
            names: [&[]; MAX_NAMES],
        }
    }

    /// `None` if the name occurred before, is escaped, or is one too many.
    #[inline(always)]
    fn insert(&mut self, name: StringToken<'a>) -> Option<()> {
        let bit = 1_u64 << (spread(name.raw) % 64);
        let before = self.names.get(..self.len)?;
        if name.escaped || self.seen & bit != 0 && before.contains(&name.raw) {
            return None;
        }
        self.seen |= bit;
        *self.names.get_mut(self.len)? = name.raw;
        self.len += 1;
        Some(())
    }
}

/// A number that differs for most names of one object.
#[inline]
fn spread(name: &[u8]) -> usize {
    let (Some(first), Some(last)) = (name.first(), name.last()) else {
        return 0;
    };
    name.len() * 5 + usize::from(*first) * 3 + usize::from(*last)
}
