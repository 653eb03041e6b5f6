//! Content that stays content: no part of it can pass for layout.
//!
//! The rules of `CommonMark` 0.31 apply. Outside code a backslash is put before
//! * `#` that begins a heading, on whatever depth, also in a list or a quote;
//! * a line of only `-`, `=`, `*` or `_`: a rule, or the underline of a heading, there too;
//! * `<` before a letter, `/`, `!` or `?`: HTML, comments included;
//! * `![`: a picture, which a reader's program would fetch from any address in the content;
//! * `[` that may begin the definition of a link: a definition is invisible, and gives other text a
//!   target;
//! * a fence that is indented: in a list it would end with the list, and that cannot be decided
//!   here.
//!
//! A fence in the first column is code until its closing fence. Without one it is closed at the end
//! of the text. In the first column it cannot be in a list or a quote. With no HTML block open, no
//! other construct can contain it. So code here is code for every reader. The content's own
//! backslashes count: after an odd number of them another one would cancel the last.
//!
//! CR and CR LF end lines as LF does. Other control characters, tab excepted, become U+FFFD. So do
//! characters that change the displayed order of text (UAX #9 §2.1 to §2.4). A line that begins
//! like a native seal gets a blank before it. So the file that contains it can be sealed, and no
//! reader takes the line for its seal.

use crate::document::begins_like_a_seal;
use std::borrow::Cow;

/// Text outside fences.
pub fn escape(text: &str) -> String {
    let text = plain(text);
    let mut out = String::with_capacity(text.len() + 16);
    let mut fence: Option<Fence> = None;
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        match fence {
            Some(open) => {
                out.push_str(line);
                if open.is_closed_by(line) {
                    fence = None;
                }
            }
            None => {
                fence = Fence::opened_by(line);
                if fence.is_some() {
                    out.push_str(line);
                } else {
                    escape_line(&mut out, line);
                }
            }
        }
    }
    if let Some(open) = fence {
        out.push('\n');
        out.extend(std::iter::repeat_n(open.mark, open.length));
    }
    out
}

/// Text in a quote, with its first line after other text. A fence there would end with the quote,
/// so fences are removed.
pub fn escape_quote(text: &str) -> String {
    let text = plain(text);
    let mut out = String::with_capacity(text.len() + 16);
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push_str("\n> ");
        }
        escape_line(&mut out, line);
    }
    out
}

/// A fenced block whose fence is longer than any run of backticks inside.
pub fn fenced(info: &str, text: &str) -> String {
    let text = plain(text);
    let runs = text.split(|c| c != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or_default().max(2) + 1);
    format!("{fence}{info}\n{text}\n{fence}")
}

/// A name in a line of layout: no line ends, no HTML, no pictures.
pub fn one_line(text: &str) -> String {
    let text = plain(text).replace('\n', " ");
    let mut out = String::with_capacity(text.len());
    push_inert(&mut out, &text);
    out
}

fn plain(text: &str) -> Cow<'_, str> {
    let reorders = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let strange = |c: char| reorders(c) || c.is_control() && !matches!(c, '\n' | '\t');
    let text = if text.contains(strange) {
        let lines = text.replace("\r\n", "\n").replace('\r', "\n");
        Cow::Owned(lines.replace(strange, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    };
    if !text.split('\n').any(begins_like_a_seal) {
        return text;
    }
    let set_off = |line| match begins_like_a_seal(line) {
        true => format!(" {line}"),
        false => line.to_owned(),
    };
    Cow::Owned(text.split('\n').map(set_off).collect::<Vec<_>>().join("\n"))
}

#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    /// Backticks may not recur in the opening line; tildes may.
    fn opened_by(line: &str) -> Option<Self> {
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let rest = line.trim_start_matches(mark);
        let length = line.len() - rest.len();
        (length >= 3 && !(mark == '`' && rest.contains('`'))).then_some(Self { mark, length })
    }

    /// Up to three blanks, at least as many marks, then only blanks.
    fn is_closed_by(self, line: &str) -> bool {
        let inner = line.trim_start_matches(' ');
        let rest = inner.trim_start_matches(self.mark);
        line.len() - inner.len() <= 3
            && inner.len() - rest.len() >= self.length
            && rest.trim_matches([' ', '\t']).is_empty()
    }
}

fn escape_line(out: &mut String, line: &str) {
    let content = line.trim_start_matches([' ', '\t']);
    let (indent, _) = line.split_at(line.len() - content.len());
    out.push_str(indent);
    let inner = inside_of_lists(content);
    let (marks, _) = content.split_at(content.len() - inner.len());
    if is_rule(content) || is_fence(content) {
        out.push('\\');
        push_inert(out, content);
        return;
    }
    out.push_str(marks);
    if is_heading(inner) || is_rule(inner) || may_define_a_link(inner) {
        out.push('\\');
    }
    push_inert(out, inner);
}

/// The text after the marks of lists and quotes at the beginning of a line.
fn inside_of_lists(line: &str) -> &str {
    let mut rest = line;
    loop {
        let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = rest.len() - number.len();
        let inner = match digits {
            0 => rest.strip_prefix('>').or_else(|| {
                let item = rest.strip_prefix(['-', '+', '*'])?;
                item.starts_with([' ', '\t']).then_some(item)
            }),
            1..=9 => number
                .strip_prefix(['.', ')'])
                .filter(|item| item.starts_with([' ', '\t'])),
            _ => None,
        };
        match inner {
            Some(inner) => rest = inner.trim_start_matches([' ', '\t']),
            None => return rest,
        }
    }
}

fn is_heading(content: &str) -> bool {
    let rest = content.trim_start_matches('#');
    let marks = content.len() - rest.len();
    (1..=6).contains(&marks) && (rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// A thematic break (`***`, `- - -`) or the underline of a heading (`===`, `-`).
fn is_rule(content: &str) -> bool {
    let mut marks = content.chars().filter(|c| !matches!(c, ' ' | '\t'));
    let first = marks.next().filter(|c| matches!(c, '-' | '=' | '*' | '_'));
    first.is_some_and(|first| marks.all(|c| c == first))
}

/// The label ends in this line with a colon after it, or continues in the next.
fn may_define_a_link(content: &str) -> bool {
    let Some(label) = content.strip_prefix('[') else {
        return false;
    };
    let mut escaped = false;
    let end = label.find(|c| {
        let ends = c == ']' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    let behind = end.and_then(|end| label.get(end + 1..));
    behind.is_none_or(|behind| behind.starts_with(':'))
}

fn is_fence(content: &str) -> bool {
    content.starts_with("```") || content.starts_with("~~~")
}

fn push_inert(out: &mut String, text: &str) {
    let mut letters = text.chars().peekable();
    let mut escaped = false;
    while let Some(c) = letters.next() {
        let active = letters.peek().is_some_and(|next| match c {
            '<' => next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'),
            '!' => *next == '[',
            _ => false,
        });
        if active && !escaped {
            out.push('\\');
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
}
