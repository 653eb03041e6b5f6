//! Builds a canonical form and shows its parts to a watcher on the way.
//!
//! ```text
//! text ─► walk ─┬─► Writer ─► the members of the outermost object, canonical, in order
//!               └─► Watch     containers, names, and values: as spelled, and canonical
//! ```
//! After `None` the caller takes the careful way. The text is invalid or unusual (a name with
//! escapes, no object), or the watcher refused.

use super::super::json::{Str, Visitor, walk};
use super::{Dialect, LostDetails, Member, Open, Rewriter};
use std::ops::Range;

/// Receives the parts of a text. `None` ends the walk, at once or a little later.
pub trait Watch {
    /// An object or an array opens.
    fn open(&mut self, array: bool);
    /// The name of a member, without escapes.
    fn name(&mut self, name: &[u8]);
    /// The value of that name.
    fn member(&mut self, name: &[u8], value: Part<'_, '_>) -> Option<()>;
    /// An element of the innermost array, as spelled in the text.
    fn element(&mut self, value: &[u8]) -> Option<()>;
    /// The innermost object or array closes.
    fn close(&mut self) -> Option<()>;
}

/// The value of the current member.
pub struct Part<'w, 'a> {
    text: &'a [u8],
    copied: &'w mut usize,
    out: &'w mut Vec<u8>,
    /// Where it begins in `out`, once all of it is copied.
    from: usize,
    value: Range<usize>,
}

impl<'a> Part<'_, 'a> {
    /// The value as spelled in the text.
    pub fn raw(&self) -> &'a [u8] {
        self.text.get(self.value.clone()).unwrap_or_default()
    }

    /// Where it begins in the text.
    pub fn offset(&self) -> usize {
        self.value.start
    }

    /// In canonical form.
    pub fn canonical(&mut self) -> Option<&[u8]> {
        let rest = self.text.get(*self.copied..self.value.end)?;
        self.out.extend_from_slice(rest);
        *self.copied = self.value.end;
        self.out.get(self.from..)
    }
}

/// The canonical form of an object, member by member.
pub struct Form<'a> {
    out: Vec<u8>,
    members: Vec<Member<'a>>,
    lost: LostDetails,
}

impl Form<'_> {
    /// The details of the text that the form loses.
    pub fn lost(&self) -> LostDetails {
        self.lost
    }

    /// The form without the members of these names.
    pub fn without(&self, names: &[&[u8]]) -> Vec<u8> {
        let mut kept = Vec::with_capacity(self.out.len());
        kept.push(b'{');
        let mut run = 0..0;
        for member in &self.members {
            if names.contains(&member.name.raw) {
                continue;
            }
            // Members already in order are copied at once, with the commas between them.
            if run.end + 1 == member.from && !run.is_empty() {
                run.end = member.to;
                continue;
            }
            self.keep(&mut kept, run);
            run = member.from..member.to;
        }
        self.keep(&mut kept, run);
        if kept.len() > 1 {
            kept.pop();
        }
        kept.push(b'}');
        kept
    }

    fn keep(&self, kept: &mut Vec<u8>, run: Range<usize>) {
        if !run.is_empty() {
            kept.extend_from_slice(self.out.get(run).unwrap_or_default());
            kept.push(b',');
        }
    }
}

/// Rewrites the members of an object and shows `watch` its parts.
pub(in crate::canon) fn watch<'a, D: Dialect>(
    text: &'a [u8],
    watch: &mut impl Watch,
) -> Option<Form<'a>> {
    let mut writer = Rewriter::<D>::new(text, true);
    writer.keep_outermost = true;
    let mut watcher = Watcher {
        writer,
        watch,
        refused: false,
    };
    walk(text, &mut watcher)?;
    if watcher.refused {
        return None;
    }
    let mut writer = watcher.writer;
    writer.copy(text.len());
    Some(Form {
        out: writer.out,
        members: writer.members,
        lost: writer.lost?,
    })
}

struct Watcher<'a, 'w, D, W> {
    writer: Rewriter<'a, D>,
    watch: &'w mut W,
    refused: bool,
}

impl<'a, D: Dialect, W: Watch> Visitor<'a> for Watcher<'a, '_, D, W> {
    type Object = Open;

    #[inline]
    fn open(&mut self) -> Open {
        self.watch.open(false);
        self.writer.open()
    }

    #[inline]
    fn name(&mut self, object: &mut Open, name: Str<'a>) -> Option<()> {
        if name.token.escaped || self.refused {
            return None;
        }
        self.watch.name(name.token.raw);
        self.writer.name(object, name)
    }

    #[inline]
    fn member(&mut self, object: &mut Open, name: Str<'a>, value: Range<usize>) {
        let name_end = self.writer.members.last().map(|member| member.name_end);
        let part = Part {
            text: self.writer.text,
            copied: &mut self.writer.copied,
            out: &mut self.writer.out,
            // A colon separates name and value; blanks are not written.
            from: name_end.map_or(usize::MAX, |end| end + 1),
            value: value.clone(),
        };
        self.refused |= self.watch.member(name.token.raw, part).is_none();
        self.writer.member(object, name, value);
    }

    #[inline]
    fn close(&mut self, object: Open, at: usize) -> Option<()> {
        self.watch.close()?;
        self.writer.close(object, at)
    }

    #[inline]
    fn open_array(&mut self) {
        self.watch.open(true);
    }

    #[inline]
    fn element(&mut self, value: Range<usize>) {
        let raw = self.writer.text.get(value).unwrap_or_default();
        self.refused |= self.watch.element(raw).is_none();
    }

    #[inline]
    fn close_array(&mut self) {
        self.refused |= self.watch.close().is_none();
    }

    #[inline]
    fn blanks(&mut self, blanks: Range<usize>) {
        self.writer.blanks(blanks);
    }

    #[inline]
    fn string(&mut self, string: Str<'a>) {
        self.writer.string(string);
    }

    #[inline]
    fn number(&mut self, number: Range<usize>, integer: bool) -> Option<()> {
        self.writer.number(number, integer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::jcs::{canonicalize_closely, to_vec, watch};
    use super::super::super::json::{Value, parse};
    use super::{Part, Watch};

    /// Checks that each value has the form that it has alone, and that parts arrive in order.
    #[derive(Default)]
    struct Alone {
        open: Vec<bool>,
        told: Vec<String>,
    }

    impl Watch for Alone {
        fn open(&mut self, array: bool) {
            self.open.push(array);
        }

        fn name(&mut self, name: &[u8]) {
            self.told.push(String::from_utf8_lossy(name).into_owned());
        }

        fn member(&mut self, name: &[u8], mut value: Part<'_, '_>) -> Option<()> {
            let alone = canonicalize_closely(value.raw()).unwrap().0;
            assert_eq!(value.canonical(), Some(alone.as_slice()), "{name:?}");
            Some(())
        }

        fn element(&mut self, value: &[u8]) -> Option<()> {
            assert_eq!(self.open.last(), Some(&true));
            (value != b"\"refused\"").then_some(())
        }

        fn close(&mut self) -> Option<()> {
            self.open.pop().map(|_| ())
        }
    }

    #[test]
    fn each_part_and_the_whole_are_canonical() {
        for text in [
            r#"{}"#,
            r#" { "b" : [ 1.0 , { "z" : "\u0041" , "a" : 1E2 } ] , "a" : "\n\/" , "c" : { } } "#,
            r#"{"a":{"c":1,"b":[]},"hash":1700000000000000001,"b":"\u001F","sig":null}"#,
            r#"{"sig":{"x":1},"y":-0,"hash":true}"#,
            "{\"\u{10000}\":1,\"\u{e000}\":2,\"é\":[[],{}]}",
        ] {
            let mut seen = Alone::default();
            let form = watch(text.as_bytes(), &mut seen).unwrap();
            let (whole, lost) = canonicalize_closely(text.as_bytes()).unwrap();
            assert_eq!(form.without(&[]), whole, "{text}");
            assert_eq!(form.lost(), lost);
            assert!(seen.open.is_empty());
            let mut members = parse(text.as_bytes()).unwrap();
            if let Value::Object(members) = &mut members {
                members.retain(|(name, _)| name != "hash" && name != "sig");
            }
            let rest = to_vec(&members).unwrap();
            assert_eq!(form.without(&[b"hash", b"sig"]), rest, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_unusual_or_refused_has_no_form() {
        for text in [
            "",
            "{",
            r#"{"a":1,"a":2}"#,
            r#"{"b":1,"a":2,"b":3}"#,
            r#"{"x":{"b":1,"a":2,"b":3}}"#,
            r#"{"\u0061":1}"#,
            r#"{"a":["refused"]}"#,
            r#"{"a":1e999}"#,
        ] {
            assert!(
                watch(text.as_bytes(), &mut Alone::default()).is_none(),
                "{text}"
            );
        }
    }
}
