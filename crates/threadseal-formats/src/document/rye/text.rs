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

/// Whether a second header is outside the hashed bytes. A program that shows the first line that
/// looks like a header may show the wrong one.
pub(in crate::document) fn has_second_header(
    text: &str,
    kind: DocumentKind,
    header: &Header<'_>,
    hashed: &Range<usize>,
) -> bool {
    let before = header.line_end.min(hashed.start)..hashed.start;
    let mut lines = [before, hashed.end..text.len()]
        .into_iter()
        .flat_map(|gap| text[gap].split('\n'));
    let open = kind.comment().map_or("", Comment::open);
    lines.any(|line| {
        let fields = line.strip_prefix(open).and_then(Fields::read);
        fields.is_some()
    })
}

/// The first line that looks like a header: the bytes it takes, and why it is none.
pub(in crate::document) fn near_miss(text: &str) -> Option<(Range<usize>, &'static str)> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start_matches(['\u{feff}', ' ', '\t']);
        let fields = Comment::ALL.iter().find_map(|comment| {
            let fields = bare.strip_prefix(comment.open().trim_end())?.trim_start();
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
        let tool = |text: &str| hashed(text, DocumentKind::Python, ItemType::Tool).to_owned();
        assert_eq!(tool(&format!("# {header}\nx\n")), "x\n");
        assert_eq!(tool(&format!("#!/a\n# {header}\nx\n")), "x\n");
        assert_eq!(tool(&format!("# {header}\n#!/a\nx\n")), "x\n");
        assert_eq!(tool(&format!("#!/a\n# {header}\n#!/b\nx\n")), "#!/b\nx\n");
        // Without a final newline the header is not removed.
        assert_eq!(tool(&format!("# {header}")), format!("# {header}"));
        assert_eq!(tool("# kiwi-mcp:validated:junk\nx"), "x");
        assert_eq!(tool("#! /a\nx"), "#! /a\nx");
    }

    // T-RYE-13
    #[test]
    fn front_matter_ends_at_the_next_three_dashes_wherever_they_are() {
        let header = fields();
        let knowledge =
            |text: &str| hashed(text, DocumentKind::Markdown, ItemType::Knowledge).to_owned();
        let top = format!("<!-- {header} -->\n");
        assert_eq!(knowledge(&format!("{top}x\n")), "x\n");
        assert_eq!(knowledge(&format!("{top}---\na\n---\n\n x \u{1c}\n")), "x");
        assert_eq!(knowledge(&format!("{top}--- a---b\n")), "b");
        assert_eq!(knowledge(&format!("{top}------")), "");
        assert_eq!(knowledge(&format!("{top}-----")), "-----");
        assert_eq!(knowledge(&format!("{top}---\nno end\n")), "---\nno end\n");
        // "[^>]+" crosses newlines but not ">".
        assert_eq!(knowledge("<!-- rye:signed:a\nb -->\nx"), "x");
        let junk = "<!-- rye:signed:a --> junk\nx";
        assert_eq!(knowledge(junk), junk);
    }

    // T-RYE-13
    #[test]
    fn a_directive_is_its_block_wherever_it_stands() {
        let directive =
            |text: &str| extract(text, DocumentKind::Markdown, ItemType::Directive).is_some();
        let text = "prose <directive a=\"\n\">x</directive> y </directive>\n";
        assert_eq!(
            hashed(text, DocumentKind::Markdown, ItemType::Directive),
            "<directive a=\"\n\">x</directive> y </directive>"
        );
        assert!(directive("<directives></directive>"));
        assert!(!directive("</directive><directive>"));
        assert!(!directive("<directive </directive"));
        assert!(!directive("no block"));
    }

    #[test]
    fn headers_are_found_only_where_rye_looks() {
        let header = fields();
        let find = |text: &str, kind, item| find_header(text, kind, item).is_some();
        let (py, js, yaml) = (
            DocumentKind::Python,
            DocumentKind::JavaScript,
            DocumentKind::Yaml,
        );
        let after_shebang = format!("#!/a\n# {header}\nx");
        assert!(find(&after_shebang, py, ItemType::Tool));
        assert!(find(&after_shebang, yaml, ItemType::Tool));
        assert!(!find(&after_shebang, yaml, ItemType::Config));
        let slashes = format!("#!/a\n// {header}\nx");
        assert!(!find(&slashes, js, ItemType::Tool));
        assert!(find(&slashes[5..], js, ItemType::Tool));
        assert!(!find(&format!("\n# {header}\n"), py, ItemType::Tool));
    }

    #[test]
    fn near_misses_are_named() {
        let header = fields();
        let why = |text: &str| near_miss(text).map(|(_, why)| why);
        assert!(
            why(&format!("\u{feff}# {header}\n"))
                .unwrap()
                .contains("order mark")
        );
        assert!(
            why(&format!("\n# {header}\n"))
                .unwrap()
                .contains("is not where")
        );
        assert!(
            why(&format!("# {}\n", header.replace("ab", "AB")))
                .unwrap()
                .contains("grammar")
        );
        assert!(why("# rye:signed:\n").unwrap().contains("grammar"));
        assert_eq!(why(&format!("text about {header}")), None);
        assert_eq!(why("nothing"), None);
    }

    #[test]
    fn every_newline_of_python_is_lf() {
        assert_eq!(universal_newlines("a\r\nb\rc\n\r"), "a\nb\nc\n\n");
        assert!(matches!(universal_newlines("a\n"), Cow::Borrowed(_)));
    }
}
