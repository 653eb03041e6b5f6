//! The position of Rye's header in a text, and the part of the text that Rye hashes.
//!
//! ```text
//! directive   <!-- FIELDS -->\n …   hashed: first "<directive…>" to last "</directive>"
//! knowledge   <!-- FIELDS -->\n …   hashed: the rest; if that begins with "---", only the part
//!                                   after the next "---", without blanks around it
//! tool        [#!/…\n] # FIELDS\n … hashed: the rest, less one "#!/…\n" at the very start of the
//!                                   file or else directly after the header
//! config      # FIELDS\n …          as tool, but the header must be on the first line
//! ```
//! (`// FIELDS` on the first line for JavaScript and TypeScript.) Rye reads files with universal
//! newlines: it replaces CR LF and CR by LF before it matches or hashes.
//!
//! Source: the three strategies of `rye/utils/metadata_manager.py`, with their regular expressions
//! taken literally. So `<directive[^>]*>` also matches `<directives>`. The expression that removes
//! a header line is laxer than the one that reads it. A header line without a final newline is not
//! removed, and Rye hashes it too.

use crate::document::kind::{Comment, DocumentKind, ItemType};
use std::borrow::Cow;
use std::ops::Range;
use threadseal_core::trust::rye::fields::{Fields, PREFIX};

/// A header as Rye finds it.
#[derive(Debug, Clone, Copy)]
pub(in crate::document) struct Header<'a> {
    pub(in crate::document) fields: Fields<'a>,
    /// Where the header's line begins: 0, or after a shebang.
    pub(in crate::document) line_start: usize,
    pub(in crate::document) fields_start: usize,
    /// The end of the header's line, its LF included.
    pub(in crate::document) line_end: usize,
    /// Whether the line ends as Rye itself writes it.
    pub(in crate::document) well_ended: bool,
}

/// The text as Rye's reader sees it.
pub(in crate::document) fn universal_newlines(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Finds the header as Rye does for `item`.
pub(in crate::document) fn find_header(
    text: &str,
    kind: DocumentKind,
    item: ItemType,
) -> Option<Header<'_>> {
    let comment = kind.comment()?;
    let after_shebang = comment == Comment::Hash && item == ItemType::Tool;
    let line_start = if after_shebang { shebang_len(text) } else { 0 };
    let fields_start = line_start + comment.open().len();
    if !text[line_start..].starts_with(comment.open()) {
        return None;
    }
    let fields = Fields::read(&text[fields_start..])?;
    let rest = &text[fields_start + fields.len..];
    let line_len = rest.find('\n').map_or(rest.len(), |lf| lf + 1);
    Some(Header {
        fields,
        line_start,
        fields_start,
        line_end: fields_start + fields.len + line_len,
        well_ended: rest[..line_len].strip_suffix('\n') == Some(comment.close()),
    })
}

/// Whether Rye's own expression takes the header: in Markdown ` -->` must follow the fields.
pub(in crate::document) fn rye_sees(text: &str, kind: DocumentKind, header: &Header<'_>) -> bool {
    let close = kind.comment().map_or("", Comment::close);
    text[header.fields_start + header.fields.len..].starts_with(close)
}

/// The bytes of `text` that Rye hashes for `item`. None where Rye raises: no `<directive>` block.
pub(in crate::document) fn extract(
    text: &str,
    kind: DocumentKind,
    item: ItemType,
) -> Option<Range<usize>> {
    let hashed = match item {
        ItemType::Directive => directive_block(text)?,
        ItemType::Knowledge => knowledge_body(text, markdown_header_len(text)),
        ItemType::Tool | ItemType::Config => script_body(text, kind.comment()?),
    };
    Some(hashed)
}

/// Length of the header that signing again takes away, shebang not counted; where it begins.
pub(in crate::document) fn removable_header(text: &str, kind: DocumentKind) -> Range<usize> {
    match kind.comment() {
        Some(Comment::Html) => 0..markdown_header_len(text),
        Some(comment) => {
            let start = shebang_len(text);
            start..start + line_header_len(&text[start..], comment)
        }
        None => 0..0,
    }
}

/// Whether the line of a second header begins outside the hashed bytes. A program that shows the first line that
/// looks like a header may show the wrong one.
pub(in crate::document) fn has_second_header(
    text: &str,
    kind: DocumentKind,
    header: &Header<'_>,
    hashed: &Range<usize>,
) -> bool {
    let open = kind.comment().map_or("", Comment::open);
    let mut end = 0;
    text.split_inclusive('\n').any(|line| {
        let start = end;
        end += line.len();
        let is_outside = start != header.line_start && !hashed.contains(&start);
        is_outside && line.strip_prefix(open).and_then(Fields::read).is_some()
    })
}

/// The first line that looks like a header: the bytes it takes, and why it is none.
pub(in crate::document) fn near_miss(text: &str) -> Option<(Range<usize>, &'static str)> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start_matches(['\u{feff}', ' ', '\t', '\r']);
        let fields = Comment::ALL.iter().find_map(|comment| {
            let fields = bare.strip_prefix(comment.open().trim_end())?;
            let fields = fields.trim_start_matches([' ', '\t', '\r']);
            fields.starts_with(PREFIX).then_some(fields)
        });
        if let Some(fields) = fields {
            let why = if Fields::read(fields).is_none() {
                "it does not follow the grammar of Rye's headers"
            } else if line.starts_with('\u{feff}') {
                "a byte order mark is before it"
            } else {
                "it is not where Rye looks for it"
            };
            return Some((start..start + line.len(), why));
        }
        start += line.len();
    }
    None
}

/// `^#!/[^\n]*\n`
pub(in crate::document) fn shebang_len(text: &str) -> usize {
    if text.starts_with("#!/") {
        text.find('\n').map_or(0, |lf| lf + 1)
    } else {
        0
    }
}

fn removable_prefix(text: &str, comment: Comment) -> Option<&str> {
    let rest = text.strip_prefix(comment.open())?;
    // Legacy headers are removed when signing, and never verified.
    ["rye", "kiwi-mcp"].iter().find_map(|product| {
        let rest = rest.strip_prefix(product)?.strip_prefix(':')?;
        ["validated", "signed"]
            .iter()
            .find_map(|verb| rest.strip_prefix(verb)?.strip_prefix(':'))
    })
}

/// `^<!-- (?:rye|kiwi-mcp):(?:validated|signed):[^>]+-->\n`
fn markdown_header_len(text: &str) -> usize {
    let matched = || {
        let rest = removable_prefix(text, Comment::Html)?;
        let close = rest.find('>')?;
        let ends = rest[close..].starts_with(">\n");
        let inside = rest[..close].strip_suffix("--")?;
        (ends && !inside.is_empty()).then(|| text.len() - rest.len() + close + 2)
    };
    matched().unwrap_or(0)
}

/// `^# (?:rye|kiwi-mcp):(?:validated|signed):[^\n]+\n`
fn line_header_len(text: &str, comment: Comment) -> usize {
    let matched = || {
        let rest = removable_prefix(text, comment)?;
        let lf = rest.find('\n')?;
        (lf > 0).then(|| text.len() - rest.len() + lf + 1)
    };
    matched().unwrap_or(0)
}

/// From the first `<directive[^>]*>` to the last `</directive>`. Rye also strips blanks, of which
/// there can be none at either end.
fn directive_block(text: &str) -> Option<Range<usize>> {
    const OPEN: &str = "<directive";
    const CLOSE: &str = "</directive>";
    // A ">" after the first OPEN closes it; without one no later OPEN is closed either.
    let start = text.find(OPEN)?;
    text[start..].find('>')?;
    let end = text.rfind(CLOSE)?;
    (end >= start).then_some(start..end + CLOSE.len())
}

fn knowledge_body(text: &str, start: usize) -> Range<usize> {
    let body = &text[start..];
    let fence = body.strip_prefix("---").and_then(|rest| rest.find("---"));
    let Some(fence) = fence else {
        return start..text.len();
    };
    let from = start + 3 + fence + 3;
    let cut_left = text[from..].trim_start_matches(is_python_space);
    let from = text.len() - cut_left.len();
    from..from + cut_left.trim_end_matches(is_python_space).len()
}

fn script_body(text: &str, comment: Comment) -> Range<usize> {
    let shebang = shebang_len(text);
    let mut start = shebang + line_header_len(&text[shebang..], comment);
    if shebang == 0 {
        start += shebang_len(&text[start..]);
    }
    start..text.len()
}

/// The characters that Python's `str.strip` removes: Unicode white space and the four separators
/// U+001C..U+001F.
fn is_python_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> String {
        format!(
            "rye:signed:2026-02-18T10:30:00Z:{}:{}:{}",
            "ab".repeat(32),
            "A".repeat(86),
            "01".repeat(8)
        )
    }

    fn hashed(text: &str, kind: DocumentKind, item: ItemType) -> &str {
        &text[extract(text, kind, item).unwrap()]
    }

    // T-RYE-13
    #[test]
    fn a_shebang_counts_once_before_the_header_else_behind_it() {
        let header = fields();
        for (text, hashed) in [
            (format!("# {header}\nx\n"), "x\n"),
            (format!("#!/a\n# {header}\nx\n"), "x\n"),
            (format!("# {header}\n#!/a\nx\n"), "x\n"),
            (format!("#!/a\n# {header}\n#!/b\nx\n"), "#!/b\nx\n"),
            // Without a final newline the header is not removed.
            (format!("# {header}"), &format!("# {header}")),
            ("# kiwi-mcp:validated:junk\nx".to_owned(), "x"),
            ("#! /a\nx".to_owned(), "#! /a\nx"),
        ] {
            let found = self::hashed(&text, DocumentKind::Python, ItemType::Tool);
            assert_eq!(found, hashed, "{text:?}");
        }
    }

    // T-RYE-13
    #[test]
    fn front_matter_ends_at_the_next_three_dashes_wherever_they_are() {
        let top = format!("<!-- {} -->\n", fields());
        for (top, text, hashed) in [
            (&*top, "x\n", "x\n"),
            (&top, "---\na\n---\n\n x \u{1c}\n", "x"),
            (&top, "--- a---b\n", "b"),
            (&top, "------", ""),
            (&top, "-----", "-----"),
            (&top, "---\nno end\n", "---\nno end\n"),
            // "[^>]+" crosses newlines but not ">".
            ("<!-- rye:signed:a\nb -->\n", "x", "x"),
            (
                "<!-- rye:signed:a --> ",
                "junk\nx",
                "<!-- rye:signed:a --> junk\nx",
            ),
        ] {
            let text = format!("{top}{text}");
            let found = self::hashed(&text, DocumentKind::Markdown, ItemType::Knowledge);
            assert_eq!(found, hashed, "{text:?}");
        }
    }

    // T-RYE-13
    #[test]
    fn a_directive_is_its_block_wherever_it_stands() {
        for (text, block) in [
            (
                "prose <directive a=\"\n\">x</directive> y </directive>\n",
                Some("<directive a=\"\n\">x</directive> y </directive>"),
            ),
            ("<directives></directive>", Some("<directives></directive>")),
            ("</directive><directive>", None),
            ("<directive </directive", None),
            ("no block", None),
        ] {
            let found = extract(text, DocumentKind::Markdown, ItemType::Directive);
            assert_eq!(found.map(|range| &text[range]), block, "{text:?}");
        }
    }

    #[test]
    fn headers_are_found_only_where_rye_looks() {
        use DocumentKind::{JavaScript, Python, Yaml};
        let header = fields();
        let after_shebang = format!("#!/a\n# {header}\nx");
        let slashes = format!("#!/a\n// {header}\nx");
        for (text, kind, item, found) in [
            (&*after_shebang, Python, ItemType::Tool, true),
            (&after_shebang, Yaml, ItemType::Tool, true),
            (&after_shebang, Yaml, ItemType::Config, false),
            (&slashes, JavaScript, ItemType::Tool, false),
            (&slashes[5..], JavaScript, ItemType::Tool, true),
            (&format!("\n# {header}\n"), Python, ItemType::Tool, false),
        ] {
            let there = find_header(text, kind, item).is_some();
            assert_eq!(there, found, "{text:?}");
        }
    }

    #[test]
    fn near_misses_are_named() {
        let header = fields();
        for (text, expected) in [
            (format!("\u{feff}# {header}\n"), Some("order mark")),
            (format!("\n# {header}\n"), Some("is not where")),
            (
                format!("# {}\n", header.replace("ab", "AB")),
                Some("grammar"),
            ),
            ("# rye:signed:\n".to_owned(), Some("grammar")),
            (format!("text about {header}"), None),
            ("nothing".to_owned(), None),
        ] {
            let why = near_miss(&text).map(|(_, why)| why);
            let fits = match expected {
                Some(part) => why.as_ref().is_some_and(|why| why.contains(part)),
                None => why.is_none(),
            };
            assert!(fits, "{text:?}: {why:?}");
        }
    }

    #[test]
    fn every_newline_of_python_is_lf() {
        assert_eq!(universal_newlines("a\r\nb\rc\n\r"), "a\nb\nc\n\n");
        assert!(matches!(universal_newlines("a\n"), Cow::Borrowed(_)));
    }
}
