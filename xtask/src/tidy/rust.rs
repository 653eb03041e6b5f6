//! Splits Rust source into code and comments, removes tests, and lists its items and the paths that it uses.
//!
//! A scanner of tokens, not a parser. It blanks comments and literals, so that every byte keeps its
//! place, and searches the rest. In doubt it reports a fault.

use std::ops::Range;

/// A source file in three layers of equal length. Each layer is blank where another has text.
#[derive(Debug)]
pub(crate) struct Layers {
    /// Code without comments and without the insides of string and character literals.
    pub(crate) code: String,
    /// The comments alone.
    pub(crate) comments: String,
    /// The insides of string and character literals alone.
    pub(crate) literals: String,
}

/// The kind of a run of bytes.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Splits `source` into its layers.
pub(crate) fn layers(source: &str) -> Layers {
    let bytes = source.as_bytes();
    let mut code = blank(bytes);
    let (mut comments, mut literals) = (code.clone(), code.clone());
    let mut at = 0;
    while at < bytes.len() {
        let (kind, length) = token(bytes, at);
        let end = (at + length).min(bytes.len());
        match kind {
            Kind::Code => code[at..end].copy_from_slice(&bytes[at..end]),
            Kind::Comment => comments[at..end].copy_from_slice(&bytes[at..end]),
            Kind::Literal => literals[at..end].copy_from_slice(&bytes[at..end]),
        }
        at = end;
    }
    Layers {
        code: String::from_utf8_lossy(&code).into_owned(),
        comments: String::from_utf8_lossy(&comments).into_owned(),
        literals: String::from_utf8_lossy(&literals).into_owned(),
    }
}

/// The code of `source` without its tests: the part that ships.
pub(crate) fn shipped(source: &str) -> String {
    let code = layers(source).code;
    if code.contains("#![cfg(test)]") {
        return String::new();
    }
    let mut out = code.clone().into_bytes();
    for range in test_ranges(&code) {
        let blanks = blank(&out[range.clone()]);
        out[range].copy_from_slice(&blanks);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Where in `code` the items are that are compiled for tests only.
pub(crate) fn test_ranges(code: &str) -> Vec<Range<usize>> {
    if code.contains("#![cfg(test)]") {
        return std::iter::once(0..code.len()).collect();
    }
    let marks = ["#[cfg(test)]", "#[cfg(all(test,"].into_iter();
    marks
        .flat_map(|mark| code.match_indices(mark))
        .map(|(at, _)| at..item_end(code.as_bytes(), at))
        .collect()
}

/// An item of a file, or of an inline module, an `impl` or a `trait` in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// `fn`, `struct`, `impl` and the like.
    pub(crate) keyword: String,
    /// The name; of an `impl`, the text before its body.
    pub(crate) name: String,
    /// Is it `pub` without a restriction?
    pub(crate) public: bool,
    /// Is it inside an `impl` or a `trait`?
    pub(crate) member: bool,
}

/// The items of `code`; bodies of functions are not searched.
pub(crate) fn items(code: &str) -> Vec<Item> {
    let mut out = Vec::new();
    scan_items(code, 0..code.len(), false, &mut out);
    out
}

fn scan_items(code: &str, range: Range<usize>, member: bool, out: &mut Vec<Item>) {
    let bytes = code.as_bytes();
    let mut at = range.start;
    let mut public = false;
    while at < range.end {
        let word = &code[at..word_end(bytes, at)];
        let after = at + word.len().max(1);
        let next = first_word(&code[after..]);
        match word {
            "pub" => public = !code[after..].trim_start().starts_with('('),
            "async" | "unsafe" | "extern" | "default" => {}
            "const" if matches!(next, "fn" | "unsafe" | "async" | "extern") => {}
            "" => match bytes[at] {
                b'(' | b'[' | b'{' => {
                    at = close(bytes, at);
                    continue;
                }
                b';' => public = false,
                _ => {}
            },
            keyword => {
                let has_value = matches!(keyword, "const" | "static" | "type" | "use");
                let body = header_end(bytes, after, has_value);
                let name = match keyword {
                    "impl" => code[after..body].trim(),
                    "macro_rules" => first_word(&code[after + 1..]),
                    _ => next,
                };
                out.push(Item {
                    keyword: keyword.to_owned(),
                    name: name.to_owned(),
                    public,
                    member,
                });
                public = false;
                at = body + 1;
                if bytes.get(body) == Some(&b'{') {
                    at = close(bytes, body);
                    if matches!(keyword, "mod" | "impl" | "trait") {
                        scan_items(code, body + 1..at - 1, keyword != "mod", out);
                    }
                }
                continue;
            }
        }
        at = after;
    }
}

/// Where the head of an item ends: at its body, or at the `;`, before which a value may have braces.
fn header_end(code: &[u8], mut at: usize, has_value: bool) -> usize {
    while at < code.len() {
        match code[at] {
            b';' => break,
            b'{' if !has_value => break,
            b'(' | b'[' | b'{' => at = close(code, at),
            _ => at += 1,
        }
    }
    at.min(code.len())
}

/// The first word of `text`, after blanks; empty when something else is first.
fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..word_end(text.as_bytes(), 0)]
}

fn word_end(code: &[u8], at: usize) -> usize {
    let length = code[at..].iter().take_while(|&&byte| is_word(byte)).count();
    at + length
}

/// The modules that `code` declares without a body: `mod name;`.
pub(crate) fn declared_modules(code: &str) -> Vec<&str> {
    let declared = |(at, _): (usize, &str)| {
        let name = code[at + 4..].split(';').next()?.trim();
        let whole = at == 0 || !is_word(code.as_bytes()[at - 1]);
        (whole && !name.is_empty() && name.bytes().all(is_word)).then_some(name)
    };
    code.match_indices("mod ").filter_map(declared).collect()
}

/// A path that code uses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UsedPath {
    /// Line, from 1.
    pub(crate) line: usize,
    /// How often its root is repeated: 1, or more for `super::super`.
    pub(crate) depth: usize,
    /// The segments after the root.
    pub(crate) segments: Vec<String>,
}

/// Every path in `code` that begins with `root` (`crate`, `super`, `std`); groups are expanded.
pub(crate) fn paths(code: &str, root: &str) -> Vec<UsedPath> {
    let bytes = code.as_bytes();
    let begin = format!("{root}::");
    let mut out = Vec::new();
    let mut after = 0;
    for (at, _) in code.match_indices(&begin) {
        let inside = at > 0 && (is_word(bytes[at - 1]) || is_member(&bytes[..at]));
        // `pub(in crate::a)` restricts an item and uses nothing.
        if inside || at < after || code[..at].ends_with("(in ") {
            continue;
        }
        let mut depth = 1;
        after = at + begin.len();
        while code[after..].starts_with(&begin) {
            depth += 1;
            after += begin.len();
        }
        let line = line_of(code, at);
        let mut cursor = after;
        for segments in spread(bytes, &mut cursor, 0) {
            out.push(UsedPath {
                line,
                depth,
                segments,
            });
        }
    }
    out
}

/// The line, from 1, that contains byte `at` of `text`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
}

/// Whether this byte may be part of an identifier.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a path continues here, as in `foo::std::`. A leading `::std::` does not.
fn is_member(before: &[u8]) -> bool {
    before
        .strip_suffix(b"::")
        .and_then(<[u8]>::last)
        .is_some_and(|&byte| is_word(byte))
}

/// The deepest nesting of a use tree; real ones are flatter.
const MAX_TREE_DEPTH: usize = 16;

/// The paths that follow a `::`, groups expanded. `cursor` ends after them.
fn spread(code: &[u8], cursor: &mut usize, depth: usize) -> Vec<Vec<String>> {
    skip_blanks(code, cursor);
    let Some(&byte) = code.get(*cursor) else {
        return Vec::new();
    };
    if byte == b'{' && depth < MAX_TREE_DEPTH {
        *cursor += 1;
        return spread_group(code, cursor, depth + 1);
    }
    if byte == b'*' {
        *cursor += 1;
        return vec![vec!["*".to_owned()]];
    }
    let start = *cursor;
    while code.get(*cursor).copied().is_some_and(is_word) {
        *cursor += 1;
    }
    if start == *cursor {
        return Vec::new();
    }
    let name = String::from_utf8_lossy(&code[start..*cursor]).into_owned();
    let goes_on = code[*cursor..].starts_with(b"::") && code.get(*cursor + 2) != Some(&b'<');
    if !goes_on || depth == MAX_TREE_DEPTH {
        return vec![vec![name]];
    }
    *cursor += 2;
    let mut rest = spread(code, cursor, depth + 1);
    for path in &mut rest {
        path.insert(0, name.clone());
    }
    rest
}

fn spread_group(code: &[u8], cursor: &mut usize, depth: usize) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    while let Some(&byte) = code.get(*cursor) {
        if byte == b'}' {
            *cursor += 1;
            break;
        }
        if byte == b',' || byte.is_ascii_whitespace() {
            *cursor += 1;
            continue;
        }
        let before = *cursor;
        out.extend(spread(code, cursor, depth));
        // ` as name` is not part of the path.
        while code.get(*cursor).is_some_and(|byte| !b",}".contains(byte)) {
            *cursor += 1;
        }
        *cursor = (*cursor).max(before + 1);
    }
    out
}

fn skip_blanks(code: &[u8], cursor: &mut usize) {
    while code.get(*cursor).is_some_and(u8::is_ascii_whitespace) {
        *cursor += 1;
    }
}

fn blank(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .map(|&byte| if byte == b'\n' { byte } else { b' ' })
        .collect()
}

/// The kind of the token at `at`, and its length in bytes (at least 1).
fn token(source: &[u8], at: usize) -> (Kind, usize) {
    let rest = &source[at..];
    if rest.starts_with(b"//") {
        let end = rest.iter().position(|&byte| byte == b'\n');
        return (Kind::Comment, end.unwrap_or(rest.len()));
    }
    if rest.starts_with(b"/*") {
        return (Kind::Comment, block_comment(rest));
    }
    match rest[0] {
        b'"' => (Kind::Literal, quoted(rest, b'"')),
        b'\'' => match character(rest) {
            Some(length) => (Kind::Literal, length),
            None => (Kind::Code, 1),
        },
        byte if is_word(byte) => word(rest),
        _ => (Kind::Code, 1),
    }
}

/// A word, or the raw literal that it introduces (`r"…"`, `br#"…"#`).
fn word(rest: &[u8]) -> (Kind, usize) {
    let length = rest
        .iter()
        .position(|&byte| !is_word(byte))
        .unwrap_or(rest.len());
    if matches!(&rest[..length], b"r" | b"br" | b"cr") {
        let hashes = rest[length..]
            .iter()
            .take_while(|&&byte| byte == b'#')
            .count();
        let quote = length + hashes;
        if rest.get(quote) == Some(&b'"') {
            let mut close = vec![b'"'];
            close.resize(1 + hashes, b'#');
            let body = &rest[quote + 1..];
            let end = body.windows(close.len()).position(|window| window == close);
            let end = end.map_or(rest.len(), |end| quote + 1 + end + close.len());
            return (Kind::Literal, end);
        }
    }
    (Kind::Code, length)
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of the literal that opens with `quote`, both quotes included.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a character literal; none when the quote begins a lifetime.
fn character(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        return Some(quoted(rest, b'\''));
    }
    let text = std::str::from_utf8(&rest[1..rest.len().min(5)]);
    let valid = match text {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&rest[1..=error.valid_up_to()]).ok()?,
    };
    let end = 1 + valid.chars().next()?.len_utf8();
    (rest.get(end) == Some(&b'\'')).then_some(end + 1)
}

/// The end of the item whose first attribute begins at `at`.
fn item_end(code: &[u8], mut at: usize) -> usize {
    loop {
        skip_blanks(code, &mut at);
        if !code[at..].starts_with(b"#[") {
            break;
        }
        at = close(code, at + 1);
    }
    while at < code.len() {
        match code[at] {
            b'(' | b'[' => at = close(code, at),
            b'{' => return close(code, at),
            // The end of a declaration, of a field, or of the block around the last field.
            b';' | b',' => return at + 1,
            b'}' => return at,
            _ => at += 1,
        }
    }
    at
}

/// The place after the bracket that closes the one at `open`.
fn close(code: &[u8], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        let source = "let a = \"fs // \\\" x\"; // b's fs\nlet c = '\\''; /* d /* e */ f */ g";
        let layers = layers(source);
        assert_eq!(
            layers.code.split_whitespace().collect::<String>(),
            "leta=;letc=;g"
        );
        assert!(layers.comments.contains("// b's fs") && !layers.comments.contains("let"));
        assert_eq!(layers.code.len(), source.len());
    }

    #[test]
    fn raw_strings_and_lifetimes_are_told_apart() {
        let code = layers("fn f<'a>(x: &'a str) { r#\"un\"safe\"# ; br\"x\" ; 'é' ; 'b' }").code;
        assert_eq!(
            code.split_whitespace().collect::<String>(),
            "fnf<'a>(x:&'astr){;;;}"
        );
    }

    #[test]
    fn what_is_for_tests_does_not_ship() {
        let source = "use a;\n#[cfg(test)]\nuse b::{c, d};\nstruct S {\n  #[cfg(test)]\n  e: u8,\n  f: u8,\n}\n\
                      #[cfg(test)]\n#[allow(x)]\nmod tests { fn g() { h(\"}\"); } }\nfn i() {}\n";
        let shipped = shipped(source);
        for word in ["b::", "e:", "fn g", "h("] {
            assert!(!shipped.contains(word), "{word}: {shipped}");
        }
        for word in ["use a", "f: u8", "fn i"] {
            assert!(shipped.contains(word), "{word}: {shipped}");
        }
    }

    #[test]
    fn a_file_that_is_all_test_does_not_ship() {
        assert_eq!(shipped("//! Doc.\n#![cfg(test)]\nuse a;\n"), "");
    }

    #[test]
    fn groups_of_paths_are_spread_out() {
        let code = "use crate::{a, b::{self as x, C}};\nlet y = crate::d::e::<u8>();";
        let found: Vec<_> = paths(code, "crate")
            .into_iter()
            .map(|path| (path.line, path.segments.join("::")))
            .collect();
        let expected = [(1, "a"), (1, "b::self"), (1, "b::C"), (2, "d::e")];
        assert_eq!(found, expected.map(|(line, path)| (line, path.to_owned())));
    }

    #[test]
    fn a_restricted_item_uses_no_path() {
        assert!(paths("pub(in crate::a) fn b() {}", "crate").is_empty());
    }

    #[test]
    fn items_are_found_with_their_names_and_who_may_use_them() {
        let code = "#[a(b)]\npub struct A<T>(u8);\npub(crate) const B: C = C { d: [1; 2] }.e(f);\n\
                    impl<T> A<T> { pub const fn e(&self) -> [u8; 2] { fn no() {} } const F: u8 = 1; }\n\
                    mod g { pub enum H { I { pub_j: u8 } } }\nmacro_rules! k { () => {}; }\npub fn l() {}";
        let found: Vec<_> = items(code)
            .into_iter()
            .map(|item| {
                let marks = (item.public, item.member);
                (format!("{} {}", item.keyword, item.name), marks)
            })
            .collect();
        let expected = [
            ("struct A", (true, false)),
            ("const B", (false, false)),
            ("impl <T> A<T>", (false, false)),
            ("fn e", (true, true)),
            ("const F", (false, true)),
            ("mod g", (false, false)),
            ("enum H", (true, false)),
            ("macro_rules k", (false, false)),
            ("fn l", (true, false)),
        ];
        assert_eq!(
            found,
            expected.map(|(item, marks)| (item.to_owned(), marks))
        );
    }

    #[test]
    fn super_paths_tell_how_far_up_they_lead() {
        let depths: Vec<_> = paths("super::a; super::super::b", "super")
            .iter()
            .map(|path| (path.depth, path.segments[0].clone()))
            .collect();
        assert_eq!(depths, [(1, "a".to_owned()), (2, "b".to_owned())]);
    }

    #[test]
    fn a_name_that_only_ends_like_the_root_is_no_path() {
        assert!(paths("mystd::fs; a::std::fs", "std").is_empty());
        assert_eq!(paths("::std::fs", "std").len(), 1);
    }

    #[test]
    fn modules_are_declared_without_a_body() {
        let code = "pub mod a;\nmod b { mod_c; }\npub(crate) mod d;\nfn commod () {}";
        assert_eq!(declared_modules(code), ["a", "d"]);
    }
}
