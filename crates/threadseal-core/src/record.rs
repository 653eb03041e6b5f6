//! The names of a record: record ids, thread ids, heads.
//!
//! ```text
//! head text   <record>:<seq>:<size>:<sha256>
//!             64 hex   dec   dec    64 hex of the last sealed line without its LF
//! ```
//! `seq` counts seals from 0. `size` is the number of bytes up to and including the LF of the
//! sealed line (`spec/transcript.md` §6). A bare 64-digit hex digest is also accepted as a head,
//! and then names only that line.

use crate::digest::Digest;
use crate::encoding;
use crate::error::Error;
use crate::limits::MAX_THREAD_ID_BYTES;
use std::fmt;

/// The identity of one record: 32 random bytes drawn when it was created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId([u8; 32]);

impl RecordId {
    /// The id with these bytes; new ids must come from a cryptographic source.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads 64 lower-case hex digits.
    pub fn parse_hex(text: &str) -> Option<Self> {
        encoding::parse_hex_array(text).map(Self)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        encoding::hex(&self.0)
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

/// The kinds of record that have heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// A transcript that seals itself; it only grows.
    Transcript,
    /// A foreign log with detached seals; it only grows.
    Observed,
    /// A signed document; a new version may be smaller.
    Document,
    /// A chain of sealed turns; it only grows.
    Scroll,
    /// The ledger of a run; it only grows.
    Ledger,
    /// The checkpoints of an agent; `size` is the tick, which never falls.
    Lineage,
}

impl RecordKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Transcript,
        Self::Observed,
        Self::Document,
        Self::Scroll,
        Self::Ledger,
        Self::Lineage,
    ];

    /// Reads [`RecordKind::as_str`]'s words.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// The word in files and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transcript => "transcript",
            Self::Observed => "observed",
            Self::Document => "document",
            Self::Scroll => "scroll",
            Self::Ledger => "ledger",
            Self::Lineage => "lineage",
        }
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The newest known seal of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The record.
    pub record: RecordId,
    /// Number of the seal, from 0.
    pub seq: u64,
    /// Bytes of the record up to and including the sealed line's LF.
    pub size: u64,
    /// SHA-256 of the sealed line without its LF.
    pub line: Digest,
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}:{}",
            self.record, self.seq, self.size, self.line
        )
    }
}

impl Head {
    /// Reads the text of the module's heading.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let record = RecordId::parse_hex(parts.next()?)?;
        let seq = parse_decimal(parts.next()?)?;
        let size = parse_decimal(parts.next()?)?;
        let line = Digest::parse_hex(parts.next()?)?;
        parts.next().is_none().then_some(Self {
            record,
            seq,
            size,
            line,
        })
    }
}

/// The values that `--expect-head` accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedHead {
    /// A full head.
    Head(Head),
    /// Only the digest of the sealed line.
    Line(Digest),
}

impl ExpectedHead {
    /// Reads a head or bare hex.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::InvalidInput`] when the text is neither.
    pub fn parse(text: &str) -> Result<Self, Error> {
        // A scroll writes the algorithm before its digests.
        let digest = text.strip_prefix("sha256:").unwrap_or(text);
        Head::parse(text)
            .map(Self::Head)
            .or_else(|| Digest::parse_hex(digest).map(Self::Line))
            .ok_or_else(|| {
                Error::invalid("a head is <record>:<seq>:<size>:<sha256>, or the 64 hex digits of the digest alone")
            })
    }
}

/// A thread's name. It becomes a path (`<threads>/<id>/transcript.jsonl`), so it is checked first.
///
/// It is relative and separated by `/`. It contains no empty, `.` or `..` part, no control
/// character, backslash or NUL. It has at most [`MAX_THREAD_ID_BYTES`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(String);

impl ThreadId {
    /// Checks and takes `text`.
    ///
    /// # Errors
    /// [`crate::error::ErrorKind::InvalidInput`] when `text` must not become a path.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let safe_part = |part: &str| !part.is_empty() && part != "." && part != "..";
        let ok = text.len() <= MAX_THREAD_ID_BYTES
            && !text.chars().any(|c| c.is_control() || c == '\\')
            && text.split('/').all(safe_part);
        if ok {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid(format!(
                "thread id {text:?} cannot be a path: use parts joined by '/', none empty, '.' or '..'"
            )))
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a decimal number without sign, blanks or leading zeros.
pub fn parse_decimal(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with('0');
    (canonical && text.bytes().all(|b| b.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_text_round_trips_and_has_one_spelling() {
        let head = Head {
            record: RecordId::from_bytes([7; 32]),
            seq: 12,
            size: 3400,
            line: Digest::of(b"x"),
        };
        assert_eq!(Head::parse(&head.to_string()), Some(head));
        assert_eq!(
            Head::parse(&head.to_string().replace(":12:", ":012:")),
            None
        );
        assert_eq!(Head::parse(&format!("{head}:")), None);
        assert_eq!(
            ExpectedHead::parse(&head.line.to_hex()),
            Ok(ExpectedHead::Line(head.line))
        );
        assert!(ExpectedHead::parse("abc").is_err());
    }

    // T-RYE-19
    #[test]
    fn thread_ids_that_would_leave_their_folder_are_refused() {
        for good in [
            "clean/ten-1",
            "agency-kiwi/discover_leads-1739820456",
            "日本/1",
        ] {
            assert!(ThreadId::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "", "/etc", "a/../b", "..", "a//b", "a\\b", "a\nb", "a\0b", "./a", "a/",
        ] {
            assert!(ThreadId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
