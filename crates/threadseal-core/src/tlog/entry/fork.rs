//! [`LoggedFork`]: the entry for a record with two sealed histories (`spec/host-log.md`, "Forks in
//! the log").
//!
//! ```text
//! {"digest":…,"key":…,"manifest":…,"record":…,"seq":…,"type":"fork/transcript"}
//! {"digest":…,"key":…,"links":[…,…],"parent":…,"record":…,"seq":…,"type":"fork/lineage"}
//!                                                        parent, seq: where there are any
//! ```
//! The evidence itself is a file next to the log, named by its digest. It proves the fork without
//! the log. `manifest` keeps the entry from counting against another writer's record of the same
//! id. `parent` and `links` keep it from counting against a lineage that contains none of them.

use super::MAX_NUMBER;
use crate::canon::json::Value;
use crate::digest::Digest;
use crate::key::KeyId;
use crate::record::{Head, RecordId};
use std::fmt;

/// The known types. No other kind of entry begins with this prefix.
pub(super) const TRANSCRIPT: &str = "fork/transcript";
pub(super) const LINEAGE: &str = "fork/lineage";

/// A record with two sealed histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedFork {
    /// The forked record.
    pub record: RecordId,
    /// The key that made both seals. For a lineage it is the agent's own key, which covers both
    /// links.
    pub key: KeyId,
    /// SHA-256 of the file that proves the fork.
    pub evidence: Digest,
    /// Where the histories part.
    pub place: ForkPlace,
}

/// Where two histories of a record part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkPlace {
    /// Of a transcript.
    Transcript {
        /// SHA-256 of its line 1, without LF: two records may have one id.
        manifest: Digest,
        /// The lesser number of the two seals that prove the fork. At that seal the histories have
        /// parted.
        seq: u64,
    },
    /// Of a lineage.
    Lineage(ForkedLinks),
}

/// Two links of an agent in one place, by their content hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkedLinks {
    /// The link that both follow. `None` where both are first links, or share only a number.
    pub parent: Option<Digest>,
    /// The two links, the one with the smaller hash first.
    pub links: [Digest; 2],
    /// The lesser of their numbers, if their version has numbers.
    pub seq: Option<u64>,
}

impl LoggedFork {
    /// Whether this entry implies `other`, which is of the same record.
    pub fn covers(&self, other: &Self) -> bool {
        match (self.place, other.place) {
            (
                ForkPlace::Transcript { manifest, seq },
                ForkPlace::Transcript {
                    manifest: of,
                    seq: later,
                },
            ) => (manifest, self.key) == (of, other.key) && seq <= later,
            (ForkPlace::Lineage(this), ForkPlace::Lineage(that)) => {
                this.links == that.links || (this.parent.is_some() && this.parent == that.parent)
            }
            _ => false,
        }
    }

    /// Whether this head is from before the fork.
    pub fn is_behind(&self, head: &Head) -> bool {
        let seq = match self.place {
            ForkPlace::Transcript { seq, .. } => Some(seq),
            ForkPlace::Lineage(found) if found.parent == Some(head.line) => return true,
            ForkPlace::Lineage(found) => found.seq,
        };
        self.record == head.record && seq.is_some_and(|seq| head.seq < seq)
    }
}

/// A summary for people.
impl fmt::Display for LoggedFork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, record) = (self.key, self.record);
        match self.place {
            ForkPlace::Transcript { seq, .. } => {
                write!(
                    f,
                    "key {key} sealed record {record} in two ways, from seal {seq}"
                )
            }
            ForkPlace::Lineage(ForkedLinks {
                links: [one, other],
                ..
            }) => {
                write!(
                    f,
                    "the agent of key {key}, record {record}, signed two links in one place, {one} and {other}"
                )
            }
        }
    }
}

pub(super) fn text(fork: &LoggedFork) -> Option<String> {
    let (key, record, evidence) = (fork.key.to_hex(), fork.record, fork.evidence);
    match fork.place {
        ForkPlace::Transcript { manifest, seq } => (seq <= MAX_NUMBER).then(|| {
            format!(
                "{{\"digest\":\"{evidence}\",\"key\":\"{key}\",\"manifest\":\"{manifest}\",\"record\":\"{record}\",\"seq\":{seq},\"type\":\"{TRANSCRIPT}\"}}"
            )
        }),
        ForkPlace::Lineage(ForkedLinks { parent, links: [one, other], seq }) => {
            if one >= other || seq.is_some_and(|seq| seq > MAX_NUMBER) {
                return None;
            }
            let parent = parent.map_or(String::new(), |parent| format!(",\"parent\":\"{parent}\""));
            let seq = seq.map_or(String::new(), |seq| format!(",\"seq\":{seq}"));
            Some(format!(
                "{{\"digest\":\"{evidence}\",\"key\":\"{key}\",\"links\":[\"{one}\",\"{other}\"]{parent},\"record\":\"{record}\"{seq},\"type\":\"{LINEAGE}\"}}"
            ))
        }
    }
}

/// Reads an entry of one of the two types. The caller compares its spelling with [`text`].
pub(super) fn read(kind: &str, value: &Value) -> Option<LoggedFork> {
    let text = |name| value.get(name)?.as_str();
    let digest = |name| Digest::parse_hex(text(name)?);
    Some(LoggedFork {
        record: RecordId::parse_hex(text("record")?)?,
        key: KeyId::parse_hex(text("key")?)?,
        evidence: digest("digest")?,
        place: match kind == LINEAGE {
            true => ForkPlace::Lineage(forked_links(value)?),
            false => ForkPlace::Transcript {
                manifest: digest("manifest")?,
                seq: value.get("seq")?.as_u64()?,
            },
        },
    })
}

fn forked_links(value: &Value) -> Option<ForkedLinks> {
    let digest = |value: &Value| Digest::parse_hex(value.as_str()?);
    let [one, other] = value.get("links")?.as_array()? else {
        return None;
    };
    let parent = match value.get("parent") {
        None => None,
        Some(parent) => Some(digest(parent)?),
    };
    let seq = match value.get("seq") {
        None => None,
        Some(seq) => Some(seq.as_u64()?),
    };
    Some(ForkedLinks {
        parent,
        links: [digest(one)?, digest(other)?],
        seq,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tlog::entry::{BadEntry, LogEntry};

    fn placed(place: ForkPlace) -> LoggedFork {
        LoggedFork {
            record: RecordId::from_bytes([0xab; 32]),
            key: KeyId::parse_hex(&"cd".repeat(32)).unwrap(),
            evidence: Digest::of(b"evidence"),
            place,
        }
    }

    fn of_seals(seq: u64) -> LoggedFork {
        placed(ForkPlace::Transcript {
            manifest: Digest::of(b"line 1"),
            seq,
        })
    }

    fn fork() -> LoggedFork {
        of_seals(7)
    }

    const LINKS: [Digest; 2] = [Digest::from_bytes([1; 32]), Digest::from_bytes([2; 32])];
    const PARENT: Digest = Digest::from_bytes([3; 32]);

    fn of_links(parent: Option<Digest>, links: [Digest; 2], seq: Option<u64>) -> LoggedFork {
        placed(ForkPlace::Lineage(ForkedLinks { parent, links, seq }))
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
        assert_eq!(LogEntry::Fork(of_seals(MAX_NUMBER + 1)).to_bytes(), None);
    }

    #[test]
    fn the_text_of_a_forked_lineage_is_the_documented_one_and_the_only_one() {
        let (record, key) = ("ab".repeat(32), "cd".repeat(32));
        let (digest, one, other, parent) = (
            Digest::of(b"evidence"),
            "01".repeat(32),
            "02".repeat(32),
            "03".repeat(32),
        );
        let expected = format!(
            r#"{{"digest":"{digest}","key":"{key}","links":["{one}","{other}"],"parent":"{parent}","record":"{record}","seq":7,"type":"fork/lineage"}}"#
        );
        let whole = of_links(Some(PARENT), LINKS, Some(7));
        let bytes = LogEntry::Fork(whole).to_bytes().unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        for fork in [
            whole,
            of_links(None, LINKS, Some(7)),
            of_links(Some(PARENT), LINKS, None),
        ] {
            let bytes = LogEntry::Fork(fork).to_bytes().unwrap();
            assert_eq!(crate::canon::jcs::canonicalize(&bytes).unwrap(), bytes);
            assert_eq!(LogEntry::read(&bytes), Ok(LogEntry::Fork(fork)));
        }
        let links = format!(r#"["{one}","{other}"]"#);
        for changed in [
            format!(r#"["{other}","{one}"]"#),
            format!(r#"["{one}","{one}"]"#),
            format!(r#"["{one}"]"#),
            format!(r#"["{one}","{other}","{parent}"]"#),
            "7".to_owned(),
        ] {
            let text = expected.replacen(&links, &changed, 1);
            assert_eq!(LogEntry::read(text.as_bytes()), Err(BadEntry), "{text}");
        }
        let text = expected.replacen(r#""seq":7"#, r#""seq":"7""#, 1);
        assert_eq!(LogEntry::read(text.as_bytes()), Err(BadEntry));
        assert_eq!(
            LogEntry::Fork(of_links(None, LINKS, Some(MAX_NUMBER + 1))).to_bytes(),
            None
        );
    }

    #[test]
    fn one_entry_covers_what_speaks_against_no_more_copies() {
        assert!(of_seals(7).covers(&of_seals(7)) && of_seals(7).covers(&of_seals(8)));
        assert!(!of_seals(7).covers(&of_seals(6)));
        let others = [PARENT, LINKS[0]];
        let fork = of_links(Some(PARENT), LINKS, Some(7));
        assert!(fork.covers(&of_links(Some(PARENT), others, Some(7))));
        assert!(!fork.covers(&of_links(Some(LINKS[0]), others, Some(8))));
        assert!(!fork.covers(&of_seals(7)) && !of_seals(7).covers(&fork));
        // First links have no common link before them.
        let begun = of_links(None, LINKS, Some(0));
        assert!(begun.covers(&begun) && !begun.covers(&of_links(None, others, Some(0))));
    }

    #[test]
    fn a_head_is_from_before_the_histories_parted_or_not() {
        let head = |seq, line| Head {
            record: RecordId::from_bytes([0xab; 32]),
            seq,
            size: 0,
            line,
        };
        let line = Digest::of(b"some line");
        assert!(of_seals(7).is_behind(&head(6, line)) && !of_seals(7).is_behind(&head(7, line)));
        let fork = of_links(Some(PARENT), LINKS, None);
        assert!(fork.is_behind(&head(9, PARENT)) && !fork.is_behind(&head(0, line)));
        let numbered = of_links(None, LINKS, Some(7));
        assert!(numbered.is_behind(&head(6, line)) && !numbered.is_behind(&head(7, line)));
        let stranger = Head {
            record: RecordId::from_bytes([1; 32]),
            ..head(0, line)
        };
        assert!(!numbered.is_behind(&stranger));
    }
}
