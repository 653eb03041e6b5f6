//! Texts that nothing breaks out of.

use crate::bounds::MAX_DETAIL_CHARS;
use serde_json::Value;
use std::fmt::Write as _;

/// JSON, indented by two, ASCII, with escapes for characters that begin a fence, a tag or a link:
/// still the same value.
pub(super) fn json(value: &Value) -> String {
    let pretty = format!("{value:#}");
    let mut out = String::with_capacity(pretty.len());
    let (mut inside, mut escaped) = (false, false);
    for c in pretty.chars() {
        let quote = c == '"' && !escaped;
        escaped = inside && c == '\\' && !escaped;
        inside ^= quote;
        let plain = c.is_ascii() && c != '\u{7f}';
        if plain && !(inside && matches!(c, '`' | '<' | '>' | '&' | '[' | ']' | '!')) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// A scalar of a YAML block: as it is where every reader takes it for a text, else quoted.
pub(super) fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    if text.chars().all(plain) && text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return text.to_owned();
    }
    json(&Value::String(text.to_owned()))
}

/// One line of Markdown that shows `text` and does nothing else, shortened.
pub(super) fn line(text: &str) -> String {
    let mut out = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == MAX_DETAIL_CHARS {
            out.push('…');
            break;
        }
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '|' => out.push_str("&#124;"),
            '`' => out.push_str("&#96;"),
            '\\' | '*' | '_' | '[' | ']' | '(' | ')' | '#' | '!' | '~' | '$' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() || is_line_break(c) || is_direction(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn is_line_break(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}' | '\u{85}')
}

/// Characters that reverse the direction of the text after them.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}
