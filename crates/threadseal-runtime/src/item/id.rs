//! The names and kinds of items.
//!
//! ```text
//! rye/agent/continuation      parts joined by '/', each safe as a file name
//! rye.agent.continuation      the same: without any '/', the dots join
//! ```

use crate::bounds::MAX_ITEM_ID_BYTES;
use serde::Serialize;
use std::fmt;
use threadseal_core::error::Error;
use threadseal_formats::document::ItemType;

/// The name of an item among those of its kind. Joined to a folder, it stays inside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ItemId(String);

impl ItemId {
    /// Reads either spelling.
    ///
    /// # Errors
    /// Kind `InvalidInput` when a part is empty, begins with `.` or contains any character other
    /// than letters, digits and `_ - . @ +`; also when the whole is longer than
    /// [`MAX_ITEM_ID_BYTES`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let slashed = match text.contains('/') {
            true => text.to_owned(),
            false => text.replace('.', "/"),
        };
        let safe = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && !part.ends_with('.')
                && part
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '+'))
        };
        if slashed.len() > MAX_ITEM_ID_BYTES || !slashed.split('/').all(safe) {
            return Err(Error::invalid(format!(
                "{text:?} is not an item id: use parts of letters, digits and _ - . @ +, joined by '/'"
            )));
        }
        Ok(Self(slashed))
    }

    /// With `/` between the parts.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// With `.` between the parts, as capabilities spell it.
    pub fn dotted(&self) -> String {
        self.0.replace('/', ".")
    }

    /// The last part.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// Everything before the last part, without the `/` between.
    pub fn category(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(category, _)| category)
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// A prompt and its permissions.
    Directive,
    /// Something that a model can call.
    Tool,
    /// Text for prompts.
    Knowledge,
    /// A state graph.
    Graph,
    /// Settings.
    Config,
    /// A file that a command tool runs.
    Script,
}

impl ItemKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 6] = [
        Self::Directive,
        Self::Tool,
        Self::Knowledge,
        Self::Graph,
        Self::Config,
        Self::Script,
    ];

    /// The word in files and capabilities.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Directive => "directive",
            Self::Tool => "tool",
            Self::Knowledge => "knowledge",
            Self::Graph => "graph",
            Self::Config => "config",
            Self::Script => "script",
        }
    }

    /// The kinds that a call or a hook may name.
    pub(crate) const CALLABLE: [Self; 3] = [Self::Directive, Self::Tool, Self::Knowledge];

    /// One of [`ItemKind::CALLABLE`] by its word.
    pub(crate) fn parse_callable(word: &str) -> Option<Self> {
        Self::CALLABLE
            .into_iter()
            .find(|kind| kind.as_str() == word)
    }

    /// The folders below `.ai/` of such items, and the endings of their names, in the order of the
    /// search. Rye keeps graphs among its tools.
    pub fn places(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Directive => (&["directives"], &["md"]),
            Self::Tool => (&["tools"], &["yaml", "yml"]),
            Self::Knowledge => (&["knowledge"], &["md"]),
            Self::Graph => (&["graphs", "tools"], &["yaml", "yml"]),
            Self::Config => (&["config"], &["yaml", "yml"]),
            Self::Script => (&["tools"], &["py", "sh", "js", "mjs", "cjs", "ts"]),
        }
    }

    /// The type under which Rye signs it.
    pub(crate) fn rye_type(self) -> ItemType {
        match self {
            Self::Directive => ItemType::Directive,
            Self::Knowledge => ItemType::Knowledge,
            Self::Config => ItemType::Config,
            Self::Tool | Self::Graph | Self::Script => ItemType::Tool,
        }
    }
}

impl fmt::Display for ItemKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_name_the_same_item() {
        let id = ItemId::parse("rye.agent.threads.thread_summary").unwrap();
        assert_eq!(
            id,
            ItemId::parse("rye/agent/threads/thread_summary").unwrap()
        );
        assert_eq!(id.dotted(), "rye.agent.threads.thread_summary");
        assert_eq!(
            (id.name(), id.category()),
            ("thread_summary", "rye/agent/threads")
        );
        let dotted_file = ItemId::parse("a/v1.2").unwrap();
        assert_eq!(dotted_file.as_str(), "a/v1.2");
    }

    // T-DEC-13
    #[test]
    fn names_that_could_leave_their_folder_are_refused() {
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "a/../b",
            "..",
            "a//b",
            "a/",
            "a\\b",
            "C:x",
            "a b",
            "a\0",
            "a/.x",
            "~",
            "a/b.",
            "a\n",
            "*",
            "${x}",
        ] {
            assert!(ItemId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(ItemId::parse(&"a".repeat(MAX_ITEM_ID_BYTES + 1)).is_err());
    }
}
