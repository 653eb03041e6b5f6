//! Which bytes go when a member or an element of JSON is removed: it, one comma, and the lines that
//! it leaves blank. Each comment stays.
//!
//! ```text
//!   "a": 1,             "a": 1,                "a": 1,
//! ─ "b": 2,             ─ "b": 2 // note       // note
//!   "c": 3              ─────────┘ the comma before it goes, the comment stays
//! ```

use jsonc_parser::cst::CstNode;
use std::ops::Range;

/// The ranges of `text`, in order, that are removed with `node`; the second may be empty.
pub(super) fn ranges(text: &str, node: &CstNode) -> [Range<usize>; 2] {
    let start = offset(node);
    let end = start + node.to_string().len();
    let after = node.trailing_comma().map(|comma| offset(&comma.into()));
    if let Some(comma) = after {
        return match is_blank(&text[end..comma]) {
            true => only(with_blanks(text, start, comma + 1)),
            false => [start..end, comma..comma + 1],
        };
    }
    let comma = node.previous_siblings().find(CstNode::is_comma);
    match comma.map(|comma| offset(&comma)) {
        Some(comma) if is_blank(&text[comma + 1..start]) => only(comma..end),
        Some(comma) => [comma..comma + 1, with_blanks(text, start, end)],
        None if has_comments(node) => only(with_blanks(text, start, end)),
        None => only(alone(text, start, end)),
    }
}

fn only(range: Range<usize>) -> [Range<usize>; 2] {
    let end = range.end;
    [range, end..end]
}

/// Where a node begins: the CST has all bytes of the text.
fn offset(node: &CstNode) -> usize {
    let mut total = 0;
    let mut at = node.clone();
    loop {
        let before = at
            .previous_siblings()
            .map(|sibling| sibling.to_string().len());
        total += before.sum::<usize>();
        match at.parent() {
            Some(parent) => at = CstNode::Container(parent),
            None => return total,
        }
    }
}

fn is_blank(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_whitespace())
}

/// The range with its whole lines, if nothing else is in them; else with the blanks after it.
fn with_blanks(text: &str, start: usize, end: usize) -> Range<usize> {
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let rest = text[end..].find('\n').map(|at| end + at + 1);
    match rest {
        Some(rest) if is_blank(&text[line..start]) && is_blank(&text[end..rest]) => line..rest,
        _ => {
            let blanks = text[end..]
                .bytes()
                .take_while(|byte| matches!(byte, b' ' | b'\t'));
            start..end + blanks.count()
        }
    }
}

/// Is there a comment beside it?
fn has_comments(node: &CstNode) -> bool {
    let mut siblings = node.previous_siblings().chain(node.next_siblings());
    siblings.any(|sibling| sibling.is_comment())
}

/// The only member of an object or array: the brackets close up.
fn alone(text: &str, start: usize, end: usize) -> Range<usize> {
    let before = text[..start].trim_end_matches(|letter: char| letter.is_ascii_whitespace());
    let after = text[end..].trim_start_matches(|letter: char| letter.is_ascii_whitespace());
    match before.ends_with(['{', '[']) && after.starts_with(['}', ']']) {
        true => before.len()..text.len() - after.len(),
        false => with_blanks(text, start, end),
    }
}
