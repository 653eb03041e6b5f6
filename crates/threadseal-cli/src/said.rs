//! Whether a text stands in what was recorded, however often that was put into strings of JSON.
//!
//! What a tool or a child gave back is JSON within a string, and so may be what it read itself: each time quotes,
//! backslashes and line ends are escaped once more. Such a string may also be cut, or stand within other text, so
//! escapes are undone without asking whether JSON surrounds them. Rather found too much than left.

use std::collections::BTreeSet;

/// How often escapes are undone. Each time that an honest writer puts a text into a string doubles its backslashes.
const MAX_UNESCAPED: usize = 24;

/// Says which `lines` stay, `whose` lines, although they say what was to go.
pub(crate) fn staying(whose: &str, lines: &BTreeSet<u64>) -> String {
    let numbers: Vec<_> = lines.iter().map(u64::to_string).collect();
    let numbers = numbers.join(", ");
    format!("what was to be left out also stands in {whose}, which stay: {numbers}")
}

/// Does `text` stand in this JSON text, or in it with its escapes undone once or several times?
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

/// Every escape of JSON undone; each is longer than what it stands for. What is none stays.
fn unescaped(said: &[u8]) -> Vec<u8> {
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

/// What the escape means that `text` begins with, and its length.
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

/// `\uXXXX`, or two of them that are one character; half of a pair is none.
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
                // What was cut is no JSON any more.
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
