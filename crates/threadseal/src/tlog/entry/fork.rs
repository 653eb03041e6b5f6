//! [`LoggedFork`]: what a log says of a record of which one key sealed two histories (`spec/anchors.md`, "Forks in the log").
//!
//! ```text
//! {"digest":…,"key":…,"manifest":…,"record":…,"seq":…,"type":"fork/transcript"}
//! ```
//! The evidence itself lies beside the log under its digest, and proves the same without the log. `manifest` keeps the entry from
//! speaking against a record of the same id that somebody else began.

use super::MAX_NUMBER;
use crate::canon::json::Value;
use crate::digest::Digest;
use crate::key::KeyId;
use crate::record::RecordId;

/// The one type there is; what it begins with names no other kind of entry.
pub(super) const FORK: &str = "fork/transcript";

/// A record was sealed in two ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedFork {
    /// Which one.
    pub record: RecordId,
    /// SHA-256 of its line 1, without LF: two records may have one id.
    pub manifest: Digest,
    /// The lesser number of the two seals that show it: at that seal the histories have parted.
    pub seq: u64,
    /// The key that made both.
    pub key: KeyId,
    /// SHA-256 of the file that proves it.
    pub evidence: Digest,
}

pub(super) fn text(fork: &LoggedFork) -> Option<String> {
    let LoggedFork {
        record,
        manifest,
        seq,
        key,
        evidence,
    } = fork;
    (*seq <= MAX_NUMBER).then(|| {
        let key = key.to_hex();
        format!(
            "{{\"digest\":\"{evidence}\",\"key\":\"{key}\",\"manifest\":\"{manifest}\",\"record\":\"{record}\",\"seq\":{seq},\"type\":\"{FORK}\"}}"
        )
    })
}

pub(super) fn read(value: &Value) -> Option<LoggedFork> {
    let text = |name| value.get(name)?.as_str();
    Some(LoggedFork {
        record: RecordId::parse_hex(text("record")?)?,
        manifest: Digest::parse_hex(text("manifest")?)?,
        seq: value.get("seq")?.as_u64()?,
        key: KeyId::parse_hex(text("key")?)?,
        evidence: Digest::parse_hex(text("digest")?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlog::entry::{BadEntry, LogEntry};

    fn fork() -> LoggedFork {
        LoggedFork {
            record: RecordId::from_bytes([0xab; 32]),
            manifest: Digest::of(b"line 1"),
            seq: 7,
            key: KeyId::parse_hex(&"cd".repeat(32)).unwrap(),
            evidence: Digest::of(b"evidence"),
        }
    }

    #[test]
    fn the_text_of_a_fork_is_the_documented_one_and_canonical() {
        let bytes = LogEntry::Fork(fork()).to_bytes().unwrap();
        let (digest, manifest) = (Digest::of(b"evidence"), Digest::of(b"line 1"));
        let (record, key) = ("ab".repeat(32), "cd".repeat(32));
        let expected = format!(
            r#"{{"digest":"{digest}","key":"{key}","manifest":"{manifest}","record":"{record}","seq":7,"type":"fork/transcript"}}"#
        );
        assert_eq!(String::from_utf8(bytes.clone()).unwrap(), expected);
        assert_eq!(crate::canon::jcs::canonicalize(&bytes).unwrap(), bytes);
        assert_eq!(LogEntry::read(&bytes), Ok(LogEntry::Fork(fork())));
    }

    #[test]
    fn a_fork_that_lacks_a_member_or_has_another_one_is_none() {
        let text = String::from_utf8(LogEntry::Fork(fork()).to_bytes().unwrap()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        for name in ["digest", "key", "manifest", "record", "seq"] {
            let mut less = value.clone();
            less.as_object_mut().unwrap().remove(name);
            let less = less.to_string();
            assert_eq!(LogEntry::read(less.as_bytes()), Err(BadEntry), "{less}");
        }
        let more = text.replacen(",\"type\"", ",\"size\":1,\"type\"", 1);
        assert_eq!(LogEntry::read(more.as_bytes()), Err(BadEntry));
        let other = text.replacen("fork/transcript", "fork/ledger", 1);
        assert_eq!(LogEntry::read(other.as_bytes()), Ok(LogEntry::Unknown));
        let large = LoggedFork {
            seq: MAX_NUMBER + 1,
            ..fork()
        };
        assert_eq!(LogEntry::Fork(large).to_bytes(), None);
    }
}
