//! From text to canonical text in one pass, for the dialects that sort names and write UTF-8.
//!
//! Canonical parts are copied unchanged, in runs as long as possible. Blanks, escapes and numbers
//! with another spelling interrupt a run. Only an object whose names are out of order is
//! rearranged, by moving the spans just written.
//!
//! A [`Dialect`] holds the differences between dialects: how names compare, how numbers are
//! printed. Strings have the same spelling in all of them.

mod spelling;
mod watch;

pub(super) use watch::watch;
pub use watch::{Form, Part, Watch};

pub(super) use spelling::same_decimal;

use super::json::{
    Key, Str, StringToken, Visitor, decode_escape, push_code_point, walk, write_escape,
};
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ops::Range;

/// Room for the members of the objects that are open at once in a usual text.
const USUAL_MEMBERS: usize = 16;

/// The rules that differ between two dialects.
pub(super) trait Dialect {
    /// Orders two names, which are UTF-8 without escapes.
    fn compare(a: &[u8], b: &[u8]) -> Ordering;
    /// Whether a number is certainly spelled as it is printed.
    fn is_canonical(literal: &[u8], integer: bool) -> bool;
    /// Prints a number; false if there is no text for it.
    fn write_number(out: &mut Vec<u8>, literal: &str, integer: bool) -> bool;
}

/// Details of a text that its canonical form loses, though a reader sees them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostDetails {
    /// Offset of the first number whose decimal differs from the one in the canonical form.
    pub digits: Option<usize>,
    /// Offset of the second such number.
    pub more_digits: Option<usize>,
    /// Offset of the first number or string that differs from the canonical form in one byte only:
    /// `1E+21`, `"\u001F"`.
    pub spelling: Option<usize>,
}

/// Writes while a text is walked.
pub(super) struct Rewriter<'a, D> {
    text: &'a [u8],
    /// Everything before this offset of the text was written or left out.
    copied: usize,
    out: Vec<u8>,
    /// Members of the objects that are open, innermost last.
    members: Vec<Member<'a>>,
    /// Where the members of one object are rearranged.
    moved: Vec<u8>,
    /// Offset of a number that has no text in the dialect.
    not_finite: usize,
    /// The loss, if the caller asks for it.
    lost: Option<LostDetails>,
    /// Whether the caller needs the members of the outermost object, as spelled.
    keep_outermost: bool,
    /// Whether a name begins with `$`, or is escaped so that it might.
    dollar: bool,
    dialect: PhantomData<D>,
}

/// One member, written to `out[from..to]` once everything up to its end is copied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    name: StringToken<'a>,
    pub(super) from: usize,
    /// The place after the closing quote of the name.
    pub(super) name_end: usize,
    pub(super) to: usize,
}

impl<'a> Member<'a> {
    /// The name as spelled in the text.
    pub(super) fn key(&self) -> Key<'a> {
        Key::new(self.name)
    }
}

/// An object that is open.
pub(super) struct Open {
    /// Where its members start among all.
    members: usize,
    /// Whether its names came in ascending order so far. Such names differ.
    ascending: bool,
}

/// A text that could not be rewritten.
pub(super) struct NotRewritten {
    /// Offset of the number without a text, if that was the reason; else 0.
    pub(super) not_finite: usize,
}

/// Rewrites a text. With `closely` it also reports the loss.
pub(super) fn rewrite<D: Dialect>(
    text: &[u8],
    closely: bool,
) -> Result<(Vec<u8>, LostDetails), NotRewritten> {
    let mut rewriter = Rewriter::<D>::new(text, closely);
    match walk(text, &mut rewriter) {
        Some(()) => {
            rewriter.copy(text.len());
            Ok((rewriter.out, rewriter.lost.unwrap_or_default()))
        }
        None => Err(NotRewritten {
            not_finite: rewriter.not_finite,
        }),
    }
}

/// The members of one object, each rewritten; the object itself is not put together.
pub(super) struct Rewritten<'a> {
    /// The texts of the members.
    pub(super) out: Vec<u8>,
    /// Sorted by name; no name twice.
    pub(super) members: Vec<Member<'a>>,
    pub(super) lost: LostDetails,
    /// Whether any name in it begins with `$`, or is escaped so that it might.
    pub(super) dollar: bool,
}

/// Rewrites the members of an object; `None` if the text is no object, or is invalid.
pub(super) fn rewrite_members<D: Dialect>(text: &[u8]) -> Option<Rewritten<'_>> {
    let mut rewriter = Rewriter::<D>::new(text, true);
    rewriter.keep_outermost = true;
    walk(text, &mut rewriter)?;
    let object = text.iter().find(|byte| !byte.is_ascii_whitespace());
    if object != Some(&b'{') {
        return None;
    }
    rewriter.copy(text.len());
    Some(Rewritten {
        out: rewriter.out,
        members: rewriter.members,
        lost: rewriter.lost.unwrap_or_default(),
        dollar: rewriter.dollar,
    })
}

impl<'a, D: Dialect> Rewriter<'a, D> {
    fn new(text: &'a [u8], closely: bool) -> Self {
        Self {
            text,
            copied: 0,
            out: Vec::with_capacity(text.len()),
            members: Vec::with_capacity(USUAL_MEMBERS),
            moved: Vec::new(),
            not_finite: 0,
            lost: closely.then(LostDetails::default),
            keep_outermost: false,
            dollar: false,
            dialect: PhantomData,
        }
    }

    /// Copies the text up to `at` unchanged.
    fn copy(&mut self, at: usize) {
        if let Some(run) = self.text.get(self.copied..at) {
            self.out.extend_from_slice(run);
        }
        self.copied = at;
    }

    /// The output place of the text byte at `at`, if all bytes from [`Self::copied`] on are copied.
    fn place(&self, at: usize) -> usize {
        self.out.len() + at - self.copied
    }

    /// Writes a string in its canonical spelling. Its escapes were checked.
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

    /// Sorts the members from `base` on; `None` when two have one name.
    fn sort(&mut self, base: usize) -> Option<&[Member<'a>]> {
        let members = self.members.get_mut(base..)?;
        members.sort_by(|a, b| compare::<D>(&a.name, &b.name));
        let same = |pair: &[Member<'_>]| compare::<D>(&pair[0].name, &pair[1].name).is_eq();
        (!members.windows(2).any(same)).then_some(members)
    }

    /// Sorts the members from `base` on, the last of which ends before `at`, in the text.
    fn rearrange(&mut self, base: usize, at: usize) -> Option<()> {
        self.copy(at);
        let first = self.members.get(base)?.from;
        let mut moved = std::mem::take(&mut self.moved);
        moved.clear();
        moved.reserve(self.out.len() - first);
        self.sort(base)?;
        for (index, member) in self.members.get(base..)?.iter().enumerate() {
            if index > 0 {
                moved.push(b',');
            }
            moved.extend_from_slice(self.out.get(member.from..member.to)?);
        }
        self.out.get_mut(first..)?.copy_from_slice(&moved);
        self.moved = moved;
        Some(())
    }
}

impl<'a, D: Dialect> Visitor<'a> for Rewriter<'a, D> {
    type Object = Open;

    fn open(&mut self) -> Open {
        Open {
            members: self.members.len(),
            ascending: true,
        }
    }

    #[inline]
    fn name(&mut self, object: &mut Open, name: Str<'a>) -> Option<()> {
        let last = self.members.get(object.members..)?.last();
        if let (true, Some(last)) = (object.ascending, last) {
            object.ascending = compare::<D>(&last.name, &name.token).is_lt();
        }
        self.dollar |= name.token.escaped || name.token.raw.first() == Some(&b'$');
        let at = self.members.len();
        let from = self.place(name.token.offset);
        self.members.push(Member {
            name: name.token,
            from,
            name_end: from,
            to: from,
        });
        self.string(name);
        let end = self.place(name.token.offset + name.token.raw.len() + 2);
        self.members.get_mut(at)?.name_end = end;
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
        // Only the outermost object opens before any member and closes after all of them. An object
        // in an outermost array does so too, but no caller asks for it.
        if self.keep_outermost && object.members == 0 {
            if !object.ascending {
                self.sort(0)?;
            }
            return Some(());
        }
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
        if D::is_canonical(literal, integer) {
            return Some(());
        }
        self.copy(number.start);
        self.copied = number.end;
        let text = std::str::from_utf8(literal).ok()?;
        let from = self.out.len();
        if D::write_number(&mut self.out, text, integer) {
            if let (Some(lost), Some(written)) = (&mut self.lost, self.out.get(from..)) {
                lost.note_number(number.start, literal, written);
            }
            return Some(());
        }
        self.not_finite = number.start;
        None
    }
}

#[inline]
fn compare<D: Dialect>(a: &StringToken<'_>, b: &StringToken<'_>) -> Ordering {
    if a.escaped || b.escaped {
        let (a, b) = (Key::new(*a).bytes(), Key::new(*b).bytes());
        D::compare(&a, &b)
    } else {
        D::compare(a.raw, b.raw)
    }
}
