//! Editing one member of a JSON object without touching any other byte.
//!
//! Signing must not reformat the file that it signs. A new member gets the layout of the object's
//! last one; an existing member is replaced in place.

use std::ops::Range;
use threadseal_core::canon::json::{JsonError, scan_object};

/// The members of a strict JSON object, and their positions.
#[derive(Debug)]
pub(super) struct Members<'a> {
    text: &'a str,
    members: Vec<Member<'a>>,
}

#[derive(Debug)]
struct Member<'a> {
    /// The name as spelled between its quotes.
    raw: &'a str,
    name: std::borrow::Cow<'a, str>,
    /// From the name's opening quote to the value's end.
    at: Range<usize>,
    value: Range<usize>,
}

/// A document around a value that is to come.
#[derive(Debug)]
pub(super) struct Around {
    /// Up to and including the value's opening quote.
    pub(super) before: Vec<u8>,
    /// From the value's closing quote.
    pub(super) after: Vec<u8>,
}

impl<'a> Members<'a> {
    pub(super) fn scan(bytes: &'a [u8]) -> Result<Self, JsonError> {
        let mut members = Vec::new();
        scan_object(bytes, |key, value| {
            members.push(Member {
                raw: key.raw(),
                name: key.name(),
                at: key.offset()..value.end,
                value,
            });
        })?;
        // The scanner checked the bytes. Bytes that are not UTF-8 would have no members.
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        Ok(Self { text, members })
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    fn find(&self, name: &str) -> Option<(usize, &Member<'a>)> {
        self.members
            .iter()
            .enumerate()
            .find(|(_, member)| member.name == name)
    }

    /// Where the value of `name` is.
    pub(super) fn value(&self, name: &str) -> Option<Range<usize>> {
        self.find(name).map(|(_, member)| member.value.clone())
    }

    /// The text between the quotes of the value, if name and value are spelled without escapes.
    pub(super) fn plain_string(&self, name: &str) -> Option<Range<usize>> {
        let (_, member) = self.find(name)?;
        let value = &self.text[member.value.clone()];
        let inside = value.strip_prefix('"')?.strip_suffix('"')?;
        (member.raw == name && !inside.contains('\\'))
            .then(|| member.value.start + 1..member.value.end - 1)
    }

    /// The document with a string to come as the value of `name`.
    pub(super) fn with_string(&self, name: &str) -> Around {
        let bytes = self.text.as_bytes();
        match self.find(name) {
            Some((_, member)) => Around {
                before: [&bytes[..member.value.start], b"\""].concat(),
                after: [b"\"", &bytes[member.value.end..]].concat(),
            },
            None => self.appended(name),
        }
    }

    /// Appends after the last member, in the layout of that member.
    fn appended(&self, name: &str) -> Around {
        let text = self.text;
        let (at, lead, gap) = match self.members.last() {
            Some(last) => {
                let blanks = blanks_before(text, last.at.start);
                let name_end = last.at.start + last.raw.len() + 2;
                let gap = &text[name_end..last.value.start];
                (last.value.end, format!(",{blanks}"), gap)
            }
            None => (text.find('{').map_or(0, |at| at + 1), String::new(), ": "),
        };
        let before = format!("{}{lead}\"{name}\"{gap}\"", &text[..at]);
        Around {
            before: before.into_bytes(),
            after: ["\"", &text[at..]].concat().into_bytes(),
        }
    }

    pub(super) fn without(&self, name: &str) -> Vec<u8> {
        let bytes = self.text.as_bytes();
        let Some((index, member)) = self.find(name) else {
            return bytes.to_vec();
        };
        let before = index.checked_sub(1).and_then(|i| self.members.get(i));
        let cut = match (before, self.members.get(index + 1)) {
            // The comma before the member goes too; for the first member, the comma after it.
            (Some(before), _) => before.at.end..member.at.end,
            (None, Some(next)) => member.at.start..next.at.start,
            (None, None) => member.at.clone(),
        };
        [&bytes[..cut.start], &bytes[cut.end..]].concat()
    }
}

fn blanks_before(text: &str, at: usize) -> &str {
    let lead = &text[..at];
    let kept = lead.trim_end_matches([' ', '\t', '\r', '\n']);
    &lead[kept.len()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str, name: &str) -> String {
        let around = Members::scan(text.as_bytes()).unwrap().with_string(name);
        String::from_utf8([around.before, b"V".to_vec(), around.after].concat()).unwrap()
    }

    fn cut(text: &str, name: &str) -> String {
        String::from_utf8(Members::scan(text.as_bytes()).unwrap().without(name)).unwrap()
    }

    #[test]
    fn a_new_member_is_laid_out_as_the_last_one() {
        assert_eq!(set(r#"{"a":1}"#, "s"), r#"{"a":1,"s":"V"}"#);
        assert_eq!(
            set("{\n  \"a\": [1,\n 2]\n}\n", "s"),
            "{\n  \"a\": [1,\n 2],\n  \"s\": \"V\"\n}\n"
        );
        assert_eq!(set(" {} ", "s"), " {\"s\": \"V\"} ");
        assert_eq!(
            set(r#"{"a": 1, "b" :2}"#, "s"),
            r#"{"a": 1, "b" :2, "s" :"V"}"#
        );
    }

    #[test]
    fn an_existing_member_is_replaced_where_it_stands() {
        assert_eq!(set(r#"{"s": {"x":1}, "a":1}"#, "s"), r#"{"s": "V", "a":1}"#);
    }

    #[test]
    fn removing_undoes_adding() {
        for text in [r#"{"a":1}"#, "{\n \"a\": 1\n}", "{}"] {
            assert_eq!(cut(&set(text, "s"), "s"), text);
        }
        assert_eq!(cut(r#"{"s":1, "a":2}"#, "s"), r#"{"a":2}"#);
        assert_eq!(cut(r#"{"a":2}"#, "s"), r#"{"a":2}"#);
    }

    #[test]
    fn escaped_names_and_values_are_not_plain() {
        let plain = |text: &str| {
            Members::scan(text.as_bytes())
                .unwrap()
                .plain_string("s")
                .is_some()
        };
        assert!(plain(r#"{"s":"v"}"#));
        assert!(!plain(r#"{"\u0073":"v"}"#));
        assert!(!plain(r#"{"s":"\u0076"}"#));
        assert!(!plain(r#"{"s":1}"#));
    }
}
