//! The records that a trusted key may vouch for.
//!
//! ```text
//! threads   patterns; "*" matches any run of characters, also "/", also none;
//!           every other character matches itself; one pattern must match the whole thread id
//! formats   transcript, log, json, text, scroll, ledger, lineage
//! ```
//! A record without a thread is in scope only of the pattern "*".

use crate::error::{Error, ErrorKind};
use crate::limits::{MAX_SCOPE_PATTERNS, MAX_THREAD_ID_BYTES};
use std::collections::BTreeSet;
use std::fmt;

/// A kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScopeFormat {
    /// An event log of an agent thread.
    Transcript,
    /// A log that another program wrote, under detached seals.
    Log,
    /// A JSON document with `_signature`.
    Json,
    /// A text file with a signature line.
    Text,
    /// A chain of sealed turns.
    Scroll,
    /// The steps of a run.
    Ledger,
    /// The checkpoints of an agent.
    Lineage,
}

impl ScopeFormat {
    /// All formats.
    pub const ALL: [Self; 7] = [
        Self::Transcript,
        Self::Log,
        Self::Json,
        Self::Text,
        Self::Scroll,
        Self::Ledger,
        Self::Lineage,
    ];

    /// `transcript`, `log`, `json`, `text`, `scroll`, `ledger` or `lineage`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transcript => "transcript",
            Self::Log => "log",
            Self::Json => "json",
            Self::Text => "text",
            Self::Scroll => "scroll",
            Self::Ledger => "ledger",
            Self::Lineage => "lineage",
        }
    }

    /// Reads [`ScopeFormat::as_str`]'s words.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == text)
    }
}

impl fmt::Display for ScopeFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A pattern of thread ids, in which only `*` is special.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadPattern(String);

impl ThreadPattern {
    /// Checks and takes `text`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it is empty, too long, or contains a special character of
    /// other pattern languages (`? [ ] { } \`). Otherwise a user could trust more than intended.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let forbidden = |c: char| "?[]{}\\".contains(c) || c.is_control();
        if text.is_empty() || text.len() > MAX_THREAD_ID_BYTES || text.contains(forbidden) {
            return Err(Error::invalid(format!(
                "the thread pattern {text:?} is empty, too long, or holds a special character other than *"
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// The pattern of every thread.
    pub fn any() -> Self {
        Self("*".to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it matches the whole of `thread`. The time is at most the product of the lengths.
    pub fn matches(&self, thread: &str) -> bool {
        let mut pieces = self.0.split('*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = thread.strip_prefix(first) else {
            return false;
        };
        let mut pieces = pieces.peekable();
        if pieces.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                return rest.ends_with(piece);
            }
            // The leftmost place leaves the most room for the pieces after it.
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        true
    }
}

/// The scope of a key; by default all records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Patterns, one of which must match; not empty.
    pub threads: BTreeSet<ThreadPattern>,
    /// Formats, not empty.
    pub formats: BTreeSet<ScopeFormat>,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            threads: [ThreadPattern::any()].into(),
            formats: ScopeFormat::ALL.into(),
        }
    }
}

impl Scope {
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.threads.is_empty() || self.formats.is_empty() {
            return Err(Error::invalid(
                "a scope names no thread or no format; hint: leave the list out for all",
            ));
        }
        if self.threads.len() > MAX_SCOPE_PATTERNS {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("a scope has at most {MAX_SCOPE_PATTERNS} patterns"),
            ));
        }
        Ok(())
    }

    /// The reason why a record is outside the scope, if it is.
    pub(super) fn excludes(&self, format: ScopeFormat, thread: Option<&str>) -> Option<String> {
        if !self.formats.contains(&format) {
            return Some(format!("the key is not trusted for the format `{format}`"));
        }
        let matched = self.threads.contains(&ThreadPattern::any())
            || thread.is_some_and(|id| self.threads.iter().any(|pattern| pattern.matches(id)));
        (!matched).then(|| match thread {
            Some(_) => "the key is not trusted for this thread".to_owned(),
            None => "the key is trusted for named threads only".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, which tries every length for each star.
    fn defined(pattern: &[u8], thread: &[u8]) -> bool {
        match pattern.split_first() {
            None => thread.is_empty(),
            Some((b'*', rest)) => (0..=thread.len()).any(|n| defined(rest, &thread[n..])),
            Some((byte, rest)) => thread
                .split_first()
                .is_some_and(|(t, after)| t == byte && defined(rest, after)),
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_the_definition(pattern in "[ab/*]{1,8}", thread in "[ab/]{0,10}") {
            let parsed = ThreadPattern::parse(&pattern).unwrap();
            prop_assert_eq!(
                parsed.matches(&thread),
                defined(pattern.as_bytes(), thread.as_bytes())
            );
        }
    }

    #[test]
    fn only_the_star_is_special() {
        let matches =
            |pattern: &str, thread: &str| ThreadPattern::parse(pattern).unwrap().matches(thread);
        assert!(matches("agency/*", "agency/a/b-1"));
        assert!(matches("*", ""));
        assert!(matches("a.c", "a.c") && !matches("a.c", "abc"));
        assert!(matches("日*", "日本"));
        assert!(!matches("agency/*", "agencyx/1"));
        assert!(!matches("aa*a", "aa"));
        for bad in ["", "a?", "[a]", "{a,b}", "a\\b", "a\nb"] {
            assert!(ThreadPattern::parse(bad).is_err(), "{bad:?}");
        }
        assert!(ThreadPattern::parse(&"a".repeat(MAX_THREAD_ID_BYTES + 1)).is_err());
    }

    // T-KEY-05
    #[test]
    fn a_pattern_made_to_be_slow_is_not() {
        let pattern = ThreadPattern::parse(&"a*".repeat(256)).unwrap();
        assert!(!pattern.matches(&"a".repeat(255)));
        assert!(pattern.matches(&"a".repeat(512)));
        let thread = "a".repeat(1 << 20);
        assert!(!ThreadPattern::parse("*ab*ab").unwrap().matches(&thread));
    }
}
