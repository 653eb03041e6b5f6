//! Searches recorded JSON for a text, at any depth of nested JSON strings.
//!
//! The result of a tool or a child is JSON within a string, and can contain such strings again:
//! each level escapes quotes, backslashes and line ends once more. Such a string can also be cut,
//! or be a part of another text, so escapes are undone without parsing JSON. A false hit is better
//! than a missed one.

use std::collections::BTreeSet;

/// The most times that escapes are undone. Each level of strings from an honest writer doubles the
/// backslashes.
const MAX_UNESCAPED: usize = 24;

/// The message that `lines` of `whose` stay although they contain a text that was to be dropped.
pub(crate) fn staying(whose: &str, lines: &BTreeSet<u64>) -> String {
    let numbers: Vec<_> = lines.iter().map(u64::to_string).collect();
    let numbers = numbers.join(", ");
    format!("the selected text also occurs in {whose}, which stay unchanged: {numbers}")
}

/// Does this JSON text contain `text`, at any number of undone escapes?
pub(crate) fn says(json: &[u8], text: &str) -> bool {
    let mut said = json.to_vec();
    for _ in 0..MAX_UNESCAPED {
        if contains(&said, text.as_bytes()) {
            return true;
        }
        let undone = unescaped(&said);
        if undone.len() == said.len() {
            return false;
        }
        said = undone;
    }
    contains(&said, text.as_bytes())
}

fn contains(said: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(said, text).is_some()
}

/// Undoes every escape of JSON; each is longer than its character. Other bytes stay.
pub(crate) fn unescaped(said: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(said.len());
    let mut rest = said;
    while let Some(place) = memchr::memchr(b'\\', rest) {
        let (before, escape) = rest.split_at(place);
        out.extend_from_slice(before);
        let (meant, length) = escaped(escape).unwrap_or(('\\', 1));
        out.extend_from_slice(meant.encode_utf8(&mut [0; 4]).as_bytes());
        rest = escape.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// The character of the escape at the beginning of `text`, and the escape's length.
fn escaped(text: &[u8]) -> Option<(char, usize)> {
    let meant = match text.get(1)? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        byte @ (b'"' | b'\\' | b'/') => char::from(*byte),
        b'u' => return escaped_unit(text),
        _ => return None,
    };
    Some((meant, 2))
}

/// `\uXXXX`, or a surrogate pair of two; half of a pair is no character.
fn escaped_unit(text: &[u8]) -> Option<(char, usize)> {
    let unit = |text: &[u8]| {
        let digits = text.strip_prefix(b"\\u")?.get(..4)?;
        let digits = std::str::from_utf8(digits).ok()?;
        u16::from_str_radix(digits, 16).ok()
    };
    let first = unit(text)?;
    if let Some(meant) = char::from_u32(first.into()) {
        return Some((meant, 6));
    }
    let pair = [first, unit(text.get(6..)?)?];
    let meant = char::decode_utf16(pair).next()?.ok()?;
    Some((meant, 12))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    // T-RED-20
    #[test]
    fn a_text_is_found_however_often_it_was_put_into_a_string() {
        for text in [
            "\"password\": \"hunter2\"",
            "C:\\new\\table",
            "one\ntwo",
            "é😀/\u{8}",
        ] {
            let mut json = Value::from(format!("before {text} behind")).to_string();
            for depth in 0..6 {
                assert!(says(json.as_bytes(), text), "{depth}: {json}");
                // A cut text is no valid JSON.
                assert!(says(&json.as_bytes()[..json.len() - 1], text), "{json}");
                json = serde_json::json!({"name": [json]}).to_string();
            }
            assert!(!says(json.as_bytes(), "hunter3"));
        }
        let ascii = br#"{"a":"{\"b\":\"caf\\u00e9 \\ud83d\\ude00\"}"}"#;
        assert!(says(ascii, "café 😀") && says(br"\ud83d\u", "d83d"));
        assert!(says(br#"{"name":1.50}"#, "name") && says(br#"{"name":1.50}"#, "1.50"));
    }

    #[test]
    fn escapes_of_escapes_cost_no_more_than_their_bound() {
        let hostile = format!("{}z", "\\u005cu005c".repeat(100_000));
        assert!(says(hostile.as_bytes(), "z") && !says(hostile.as_bytes(), "y"));
    }
}
