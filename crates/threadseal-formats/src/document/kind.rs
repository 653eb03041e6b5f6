//! The kind of a document: its language, and Rye's item type for it.
//!
//! | kind | names | comment | Rye's item types |
//! |---|---|---|---|
//! | json | `.json` | none: a member | (member `_signature`) |
//! | markdown | `.md` | `<!-- … -->` | directive, knowledge |
//! | yaml, toml | `.yaml .yml .toml` | `# …` | tool, config |
//! | python, shell | `.py .sh` | `# …` | tool |
//! | javascript | `.js .ts .mjs .cjs` | `// …` | tool |
//!
//! The extensions and prefixes are those of Rye's extractor files (`tool_extractor.yaml`,
//! `config_extractor.yaml`, `directive_extractor.yaml`, `knowledge_extractor.yaml`).

use super::seal;
use std::fmt;

/// The language of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DocumentKind {
    /// One JSON object.
    Json,
    /// Markdown: a Rye directive, a knowledge entry, or any other.
    Markdown,
    /// YAML.
    Yaml,
    /// TOML.
    Toml,
    /// Python.
    Python,
    /// A shell script, or any other script with `#` comments.
    Shell,
    /// JavaScript or TypeScript.
    JavaScript,
}

/// How a language writes a one-line comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comment {
    /// `<!-- … -->`
    Html,
    /// `# …`
    Hash,
    /// `// …`
    Slashes,
}

impl Comment {
    pub(super) const ALL: [Self; 3] = [Self::Html, Self::Hash, Self::Slashes];

    /// The text before the comment's own text, the blank included.
    pub(super) fn open(self) -> &'static str {
        match self {
            Self::Html => "<!-- ",
            Self::Hash => "# ",
            Self::Slashes => "// ",
        }
    }

    /// The kind of a file of which nothing but its comments is known.
    pub(super) fn usual_kind(self) -> DocumentKind {
        match self {
            Self::Html => DocumentKind::Markdown,
            Self::Hash => DocumentKind::Shell,
            Self::Slashes => DocumentKind::JavaScript,
        }
    }

    /// The text between the comment's own text and the LF.
    pub(super) fn close(self) -> &'static str {
        match self {
            Self::Html => " -->",
            Self::Hash | Self::Slashes => "",
        }
    }
}

impl DocumentKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Json,
        Self::Markdown,
        Self::Yaml,
        Self::Toml,
        Self::Python,
        Self::Shell,
        Self::JavaScript,
    ];

    /// The word that native seals bind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Markdown => "markdown",
            Self::Yaml => "yaml",
            Self::Toml => "toml",
            Self::Python => "python",
            Self::Shell => "shell",
            Self::JavaScript => "javascript",
        }
    }

    /// Reads [`DocumentKind::as_str`]'s words.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// The kind of a file: by its name, else by the claims in its content. The content claims a
    /// kind by an opening `{`, a native seal anywhere, or a Rye header's comment style. None when
    /// neither shows a kind.
    ///
    /// `name` may be a path; only its last part counts.
    pub fn detect(name: &str, bytes: &[u8]) -> Option<Self> {
        Self::of_name(name).or_else(|| Self::of_content(bytes))
    }

    /// The kind that the extension of `name` means; case does not matter, as in Rye.
    pub fn of_name(name: &str) -> Option<Self> {
        let file = name.rsplit(['/', '\\']).next()?;
        let (stem, extension) = file.rsplit_once('.')?;
        if stem.is_empty() {
            return None;
        }
        match extension.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "md" => Some(Self::Markdown),
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            "py" => Some(Self::Python),
            "sh" => Some(Self::Shell),
            "js" | "ts" | "mjs" | "cjs" => Some(Self::JavaScript),
            _ => None,
        }
    }

    fn of_content(bytes: &[u8]) -> Option<Self> {
        // An attacker may add bytes that are not text to hide a signature.
        let text = &*String::from_utf8_lossy(bytes);
        if text
            .trim_start_matches([' ', '\t', '\r', '\n'])
            .starts_with('{')
        {
            return Some(Self::Json);
        }
        if let Some(kind) = seal::claimed_kind(text) {
            return Some(kind);
        }
        let first = text.strip_prefix("#!/").map_or(text, |rest| {
            let (line, rest) = rest.split_once(['\n', '\r']).unwrap_or((rest, ""));
            let crlf = text.as_bytes().get("#!/".len() + line.len()) == Some(&b'\r');
            rest.strip_prefix('\n').filter(|_| crlf).unwrap_or(rest)
        });
        let header = |comment: Comment| {
            first
                .strip_prefix(comment.open())
                .is_some_and(|rest| rest.starts_with("rye:signed:"))
        };
        Comment::ALL
            .into_iter()
            .find(|comment| header(*comment))
            .map(Comment::usual_kind)
    }

    /// How the language writes comments; JSON has none.
    pub(super) fn comment(self) -> Option<Comment> {
        match self {
            Self::Json => None,
            Self::Markdown => Some(Comment::Html),
            Self::Yaml | Self::Toml | Self::Python | Self::Shell => Some(Comment::Hash),
            Self::JavaScript => Some(Comment::Slashes),
        }
    }

    /// Whether a first line `#!/…` decides which program runs the file.
    pub(super) fn is_script(self) -> bool {
        matches!(self, Self::Python | Self::Shell | Self::JavaScript)
    }

    /// Whether Rye signs files of this kind as `item`.
    pub fn fits(self, item: ItemType) -> bool {
        match item {
            ItemType::Directive | ItemType::Knowledge => self == Self::Markdown,
            ItemType::Config => matches!(self, Self::Yaml | Self::Toml),
            ItemType::Tool => !matches!(self, Self::Json | Self::Markdown),
        }
    }
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Rye's type of a signed text; it decides which part of the file Rye hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemType {
    /// Markdown around a `<directive>` block: only the block is hashed.
    Directive,
    /// Any other Markdown: hashed but for `---` front matter.
    Knowledge,
    /// A program or its description: hashed but for a shebang.
    Tool,
    /// As a tool, but no shebang may precede the header.
    Config,
}

impl ItemType {
    /// All item types.
    pub const ALL: [Self; 4] = [Self::Directive, Self::Knowledge, Self::Tool, Self::Config];

    /// Rye's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Directive => "directive",
            Self::Knowledge => "knowledge",
            Self::Tool => "tool",
            Self::Config => "config",
        }
    }

    /// Reads [`ItemType::as_str`]'s words.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|item| item.as_str() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_decide_and_content_decides_where_they_do_not() {
        for (name, kind) in [
            ("a/b.MD", Some(DocumentKind::Markdown)),
            ("x.tar.yml", Some(DocumentKind::Yaml)),
            ("dir.py/noext", None),
            (".json", None),
            ("x.cjs", Some(DocumentKind::JavaScript)),
            ("C:\\x\\t.toml", Some(DocumentKind::Toml)),
        ] {
            assert_eq!(DocumentKind::of_name(name), kind, "{name}");
        }
        for (content, kind) in [
            (" \n{\"a\":1}", Some(DocumentKind::Json)),
            ("<!-- rye:signed:x -->\n", Some(DocumentKind::Markdown)),
            ("#!/bin/sh\n# rye:signed:x\n", Some(DocumentKind::Shell)),
            ("// rye:signed:x\n", Some(DocumentKind::JavaScript)),
            ("# a comment\n", None),
            ("", None),
        ] {
            assert_eq!(
                DocumentKind::detect("blob", content.as_bytes()),
                kind,
                "{content:?}"
            );
        }
    }

    #[test]
    fn words_round_trip() {
        for kind in DocumentKind::ALL {
            assert_eq!(DocumentKind::parse(kind.as_str()), Some(kind));
        }
        for item in ItemType::ALL {
            assert_eq!(ItemType::parse(item.as_str()), Some(item));
        }
    }
}
