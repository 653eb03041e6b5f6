//! Text of records and file names, made safe to print on a terminal.

use std::fmt::Write as _;

pub(crate) use threadseal_verify::clean::{Clean, is_unsafe};

/// A text of several lines, each cleaned and set behind `margin`, so that no line of a record can
/// pass for one of ours.
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
