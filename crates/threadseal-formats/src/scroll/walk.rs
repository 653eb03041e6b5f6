//! Crosses text that is RFC 8785 canonical already: no blanks, one spelling of each string.
//!
//! ```text
//! {"a":1,"b":[2,{"c":"\n"}]}    members: ("a", 1) ("b", [2,{"c":"\n"}])
//! ```
//! The input is always output of [`threadseal_core::canon::jcs`], so nothing is checked again. On
//! other text the iterators end early and never leave its bounds.

use std::ops::Range;

/// One member of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    /// The text between the quotes.
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
    /// Offset of the name's opening quote.
    pub(super) from: usize,
    /// Offset after the value.
    pub(super) to: usize,
}

/// The members of the object that is `text`; `None` when it is no object.
pub(super) fn members(text: &[u8]) -> Option<impl Iterator<Item = Member<'_>>> {
    let mut at = 1;
    (text.first() == Some(&b'{')).then_some(std::iter::from_fn(move || {
        let from = at;
        let name_end = string_end(text, from)?;
        let name = text.get(from + 1..name_end - 1)?;
        let value = value_at(text, name_end + 1)?;
        at = value.end + 1;
        Some(Member {
            name,
            value: text.get(value.clone())?,
            from,
            to: value.end,
        })
    }))
}

/// The elements of the array that is `text`; `None` when it is no array.
pub(super) fn elements(text: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let mut at = 1;
    (text.first() == Some(&b'[')).then_some(std::iter::from_fn(move || {
        let value = value_at(text, at)?;
        at = value.end + 1;
        text.get(value)
    }))
}

/// The range of the value that begins at `at`.
fn value_at(text: &[u8], at: usize) -> Option<Range<usize>> {
    let end = match text.get(at)? {
        b'"' => string_end(text, at)?,
        b'{' | b'[' => nested_end(text, at)?,
        b'}' | b']' => return None,
        _ => scalar_end(text, at),
    };
    Some(at..end)
}

fn nested_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match text.get(at)? {
            b'"' => {
                at = string_end(text, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

fn scalar_end(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']');
    at + rest.iter().position(ends).unwrap_or(rest.len())
}

/// Offset after the string whose opening quote is at `open`; `None` when there is no quote.
fn string_end(text: &[u8], open: usize) -> Option<usize> {
    if text.get(open) != Some(&b'"') {
        return None;
    }
    let mut at = open + 1;
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text.get(found) == Some(&b'"') {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_elements_are_found_through_strings_and_nesting() {
        let text = br#"{"a":1,"b\"":[2,{"c":"}]\\"},[]],"d":"x"}"#;
        let found: Vec<_> = members(text).unwrap().map(|m| (m.name, m.value)).collect();
        let expected: [(&[u8], &[u8]); 3] = [
            (b"a", b"1"),
            (br#"b\""#, br#"[2,{"c":"}]\\"},[]]"#),
            (b"d", br#""x""#),
        ];
        assert_eq!(found, expected);
        let inner: Vec<_> = elements(found[1].1).unwrap().collect();
        assert_eq!(inner, [&b"2"[..], br#"{"c":"}]\\"}"#, b"[]"]);
        assert_eq!(elements(b"[]").unwrap().count(), 0);
        assert_eq!(members(b"{}").unwrap().count(), 0);
        assert!(members(b"[]").is_none() && elements(b"{}").is_none());
    }

    #[test]
    fn the_span_of_a_member_leaves_out_its_commas() {
        let text = br#"{"a":1,"b":2}"#;
        let spans: Vec<_> = members(text).unwrap().map(|m| (m.from, m.to)).collect();
        assert_eq!(spans, [(1, 6), (7, 12)]);
    }
}
