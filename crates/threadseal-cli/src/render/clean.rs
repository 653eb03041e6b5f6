//! Text of records and file names, made safe to print.
//!
//! A record must not be able to move the cursor, recolour, reorder or overwrite the output of this
//! command. Escaped as `\u{202e}` are:
//! * control characters (C0 with tab and newline, DEL, C1);
//! * line and paragraph separators;
//! * bidirectional marks, overrides and isolates (UAX #9);
//! * invisible operators, tags and variation selectors supplement.
//!
//! Joiners (U+200C, U+200D) stay: scripts and emoji need them, and they move nothing.

use std::fmt::Write as _;

pub(crate) use threadseal_verify::clean::{Clean, is_unsafe};

/// A text of several lines, each cleaned and prefixed by `margin`: no line of a record can pass for
/// output of this command.
pub(crate) fn quoted(text: &str, margin: &str) -> String {
    let mut out = String::with_capacity(text.len() + margin.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let _ = write!(out, "{margin}{}", Clean(line));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // T-CMD-01
    #[test]
    fn every_line_of_a_quoted_text_stands_behind_the_margin() {
        assert_eq!(quoted("a\nverified\r", "| "), "| a\n| verified\\r");
    }
}
