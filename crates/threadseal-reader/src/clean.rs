//! [`Clean`]: text of records and file names, made safe to print.
//!
//! A record must not be able to move the cursor, recolour, reorder or overwrite the output about it. These are escaped
//! as `\u{202e}`: control characters (C0 with tab and newline, DEL, C1), line and paragraph separators, bidirectional
//! marks, overrides and isolates (UAX #9), invisible operators, tags and variation selectors supplement. Joiners
//! (U+200C, U+200D) stay: scripts and emoji need them, and they move nothing.

use std::fmt;

/// Displays a text on one line, with everything that could fake output escaped.
#[derive(Debug, Clone, Copy)]
pub struct Clean<'a>(pub &'a str);

impl fmt::Display for Clean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(is_unsafe) {
            f.write_str(&rest[..at])?;
            let mut chars = rest[at..].chars();
            if let Some(c) = chars.next() {
                match c {
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    '\r' => f.write_str("\\r")?,
                    c => write!(f, "{}", c.escape_unicode())?,
                }
            }
            rest = chars.as_str();
        }
        f.write_str(rest)
    }
}

/// May `c` change how the text around it is shown?
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}'
            | '\u{061c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    // T-CMD-01
    #[test]
    fn nothing_that_moves_the_cursor_or_reorders_text_is_printed_raw() {
        let hostile = "a\u{1b}[2J\r\n\u{202e}b\u{9b}c\u{2066}\u{7f}\u{e0041}";
        assert_eq!(
            Clean(hostile).to_string(),
            "a\\u{1b}[2J\\r\\n\\u{202e}b\\u{9b}c\\u{2066}\\u{7f}\\u{e0041}"
        );
    }

    #[test]
    fn ordinary_text_of_any_script_stays() {
        for text in [
            "verified",
            "日本語 é",
            "👩\u{200d}💻",
            "می\u{200c}خواهم",
            "",
        ] {
            assert_eq!(Clean(text).to_string(), text);
        }
    }
}
