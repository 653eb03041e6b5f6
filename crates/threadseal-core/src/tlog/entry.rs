//! Entries of a seal log (`spec/host-log.md`): heads of records, redactions, tombstones, forks, key
//! events, second places, and the log before.
//!
//! ```text
//! {"digest":…,"key":…,"record":…,"root":…,"seq":…,"size":…,"type":"head/transcript"}
//!                                              key, root: where there are any
//! {…,"type":"redaction/transcript"}            as a head: the seal that covers it
//! {…,"type":"tombstone/transcript"}            as a head: the last one of a record that was pruned
//! {…,"type":"fork/transcript"}, {…,"type":"fork/lineage"}  [`fork`]
//! {"checkpoint":…,"mark":…,"origin":…,"type":"restart"}    mark: if it differs
//! {…,"type":"key/create"}                      [`key_event`]
//! {"places":[…],"type":"places"}               names that only the home can make
//! {"digest":…,"type":"signature/rye"}          a signature that is in no record: SHA-256 of its bytes
//! ```
//! RFC 8785, so each entry has one text: `read(x)?.to_bytes() == x`. An entry contains no names. A
//! reader of a host's log learns that something was sealed, but not its content.

pub mod fork;
pub mod key_event;

use crate::canon::json::{self, Value};
use crate::digest::Digest;
use crate::encoding;
use crate::key::KeyId;
use crate::limits::MAX_LOG_ENTRY_BYTES;
use crate::record::{Head, RecordId, RecordKind};
use crate::tlog::checkpoint::Origin;
use fork::LoggedFork;
use key_event::KeyEvent;
use std::fmt::Write as _;

const HEAD: &str = "head/";
const REDACTION: &str = "redaction/transcript";
const TOMBSTONE: &str = "tombstone/";
const RESTART: &str = "restart";
const PLACES: &str = "places";
const SIGNATURE: &str = "signature/rye";
/// Most second places that an entry names.
pub const MAX_LISTED_PLACES: usize = 16;
/// The largest whole number that every reader of JSON keeps exactly (RFC 7493 §2.2).
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// A head as a log holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedHead {
    /// The kind of the record.
    pub kind: RecordKind,
    /// The head.
    pub head: Head,
    /// The root in the seal, if its format has one.
    pub root: Option<Digest>,
    /// The key that sealed, if the head was signed.
    pub key: Option<KeyId>,
}

/// The start of a log that replaces one that cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// The log before.
    pub origin: Origin,
    /// Its last known signed checkpoint: bytes of a note.
    pub checkpoint: Vec<u8>,
    /// The signed checkpoint in the second place, if it differs.
    pub mark: Option<Vec<u8>>,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEntry {
    /// A head of a record.
    Head(LoggedHead),
    /// A head of the first seal that covers a redaction of its record, with the key that redacted.
    Redaction(LoggedHead),
    /// The last head of a record that was pruned, with the key that signed its tombstone.
    Tombstone(LoggedHead),
    /// A record with two sealed histories.
    Fork(LoggedFork),
    /// The log before this one.
    Restart(Restart),
    /// A key event.
    Key(Box<KeyEvent>),
    /// The names of the log's second places besides the default one, in ascending order.
    Places(Vec<Digest>),
    /// A signature of Rye's on a document, by the SHA-256 of its bytes: it is in no record.
    Signature(Digest),
    /// An entry of a type that this version does not know.
    Unknown,
}

/// The bytes are not an entry of their type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadEntry;

impl LogEntry {
    /// Reads an entry.
    ///
    /// # Errors
    /// [`BadEntry`] when the bytes are not an object of RFC 8785 with a `type`, or are too long.
    /// Also when an entry of a known type differs from its one spelling, or a key event has no
    /// valid signature of its key.
    pub fn read(bytes: &[u8]) -> Result<Self, BadEntry> {
        if bytes.len() > MAX_LOG_ENTRY_BYTES {
            return Err(BadEntry);
        }
        let value = json::parse(bytes).map_err(|_| BadEntry)?;
        let kind = value.get("type").and_then(Value::as_str).ok_or(BadEntry)?;
        let entry = match (kind.strip_prefix(HEAD), kind) {
            (Some(kind), _) => match RecordKind::parse(kind) {
                Some(kind) => Self::Head(head(kind, &value).ok_or(BadEntry)?),
                None => Self::Unknown,
            },
            (None, kind) if kind.starts_with(TOMBSTONE) => {
                match RecordKind::parse(&kind[TOMBSTONE.len()..]) {
                    Some(kind) => Self::Tombstone(signed_head(kind, &value).ok_or(BadEntry)?),
                    None => Self::Unknown,
                }
            }
            (None, kind) if kind.starts_with(key_event::KEY) => {
                let kind = &kind[key_event::KEY.len()..];
                let event = KeyEvent::read(kind, &value)?;
                event.map_or(Self::Unknown, |event| Self::Key(Box::new(event)))
            }
            (None, REDACTION) => {
                Self::Redaction(signed_head(RecordKind::Transcript, &value).ok_or(BadEntry)?)
            }
            (None, kind @ (fork::TRANSCRIPT | fork::LINEAGE)) => {
                Self::Fork(fork::read(kind, &value).ok_or(BadEntry)?)
            }
            (None, PLACES) => Self::Places(places(&value).ok_or(BadEntry)?),
            (None, SIGNATURE) => {
                let digest = value.get("digest").and_then(Value::as_str);
                let digest = digest.and_then(Digest::parse_hex).ok_or(BadEntry)?;
                Self::Signature(digest)
            }
            (None, RESTART) => Self::Restart(restart(&value).ok_or(BadEntry)?),
            (None, _) => Self::Unknown,
        };
        let canonical = match &entry {
            Self::Unknown => crate::canon::jcs::to_vec(&value).map_err(|_| BadEntry)?,
            known => known.to_bytes().ok_or(BadEntry)?,
        };
        match canonical == bytes {
            true => Ok(entry),
            false => Err(BadEntry),
        }
    }

    /// Its bytes. `None` for an unknown entry, and for one that is too long or has too large
    /// numbers.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let text = match self {
            Self::Head(head) => head_text(head, &format!("{HEAD}{}", head.kind))?,
            Self::Redaction(head) => head_text(head, REDACTION)?,
            Self::Tombstone(head) => head_text(head, &format!("{TOMBSTONE}{}", head.kind))?,
            Self::Fork(found) => fork::text(found)?,
            Self::Restart(restart) => restart_text(restart),
            Self::Key(event) => event.to_text(),
            Self::Places(names) => places_text(names)?,
            Self::Signature(digest) => {
                format!("{{\"digest\":\"{digest}\",\"type\":\"{SIGNATURE}\"}}")
            }
            Self::Unknown => return None,
        };
        (text.len() <= MAX_LOG_ENTRY_BYTES).then(|| text.into_bytes())
    }
}

fn head_text(logged: &LoggedHead, kind: &str) -> Option<String> {
    let Head {
        record,
        seq,
        size,
        line,
    } = logged.head;
    if seq > MAX_NUMBER || size > MAX_NUMBER {
        return None;
    }
    let mut text = format!("{{\"digest\":\"{line}\"");
    if let Some(key) = logged.key {
        let _ = write!(text, ",\"key\":\"{}\"", key.to_hex());
    }
    let _ = write!(text, ",\"record\":\"{record}\"");
    if let Some(root) = logged.root {
        let _ = write!(text, ",\"root\":\"{root}\"");
    }
    let _ = write!(text, ",\"seq\":{seq},\"size\":{size},\"type\":\"{kind}\"}}");
    Some(text)
}

fn restart_text(restart: &Restart) -> String {
    let checkpoint = encoding::base64(&restart.checkpoint);
    let mark = restart.mark.as_ref().map_or(String::new(), |mark| {
        format!(",\"mark\":\"{}\"", encoding::base64(mark))
    });
    let mut origin = Vec::new();
    json::write_ascii_string(&mut origin, restart.origin.as_str());
    let origin = String::from_utf8_lossy(&origin);
    format!("{{\"checkpoint\":\"{checkpoint}\"{mark},\"origin\":{origin},\"type\":\"{RESTART}\"}}")
}

fn places_text(names: &[Digest]) -> Option<String> {
    let listed = names.len() <= MAX_LISTED_PLACES && names.is_sorted_by(|one, next| one < next);
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    listed.then(|| format!("{{\"places\":[{}],\"type\":\"{PLACES}\"}}", names.join(",")))
}

fn places(value: &Value) -> Option<Vec<Digest>> {
    let names = value.get("places")?.as_array()?.iter();
    names
        .map(|name| Digest::parse_hex(name.as_str()?))
        .collect()
}

fn head(kind: RecordKind, value: &Value) -> Option<LoggedHead> {
    let text = |name| value.get(name).map(Value::as_str);
    let root = match text("root") {
        None => None,
        Some(root) => Some(Digest::parse_hex(root?)?),
    };
    let key = match text("key") {
        None => None,
        Some(key) => Some(KeyId::parse_hex(key?)?),
    };
    let head = Head {
        record: RecordId::parse_hex(text("record")??)?,
        seq: value.get("seq")?.as_u64()?,
        size: value.get("size")?.as_u64()?,
        line: Digest::parse_hex(text("digest")??)?,
    };
    Some(LoggedHead {
        kind,
        head,
        root,
        key,
    })
}

/// A head, with the key that vouches for it.
fn signed_head(kind: RecordKind, value: &Value) -> Option<LoggedHead> {
    head(kind, value).filter(|logged| logged.key.is_some())
}

fn restart(value: &Value) -> Option<Restart> {
    let bytes = |value: &Value| encoding::parse_base64(value.as_str()?);
    let mark = match value.get("mark") {
        None => None,
        Some(mark) => Some(bytes(mark)?),
    };
    Some(Restart {
        origin: Origin::parse(value.get("origin")?.as_str()?).ok()?,
        checkpoint: bytes(value.get("checkpoint")?)?,
        mark,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(root: bool, key: bool) -> LoggedHead {
        LoggedHead {
            kind: RecordKind::Ledger,
            head: Head {
                record: RecordId::from_bytes([0xab; 32]),
                seq: 7,
                size: 1234,
                line: Digest::of(b"line"),
            },
            root: root.then(|| Digest::of(b"root")),
            key: key.then(|| KeyId::parse_hex(&"cd".repeat(32)).unwrap()),
        }
    }

    fn names(number: usize) -> Vec<Digest> {
        let mut names: Vec<Digest> = (0..number)
            .map(|at| Digest::of(at.to_string().as_bytes()))
            .collect();
        names.sort();
        names
    }

    fn entries() -> Vec<LogEntry> {
        let restart = |mark: Option<&[u8]>| Restart {
            origin: Origin::parse("threadseal.log/00ff").unwrap(),
            checkpoint: b"a note\n".to_vec(),
            mark: mark.map(<[u8]>::to_vec),
        };
        vec![
            LogEntry::Head(logged(true, true)),
            LogEntry::Head(logged(false, true)),
            LogEntry::Head(logged(false, false)),
            LogEntry::Redaction(LoggedHead {
                kind: RecordKind::Transcript,
                ..logged(true, true)
            }),
            LogEntry::Tombstone(logged(false, true)),
            LogEntry::Restart(restart(None)),
            LogEntry::Restart(restart(Some(b"another"))),
            LogEntry::Places(Vec::new()),
            LogEntry::Places(names(MAX_LISTED_PLACES)),
            LogEntry::Signature(Digest::of(b"a signature")),
        ]
    }

    #[test]
    fn entries_are_read_as_they_were_written_and_are_canonical() {
        for entry in entries() {
            let bytes = entry.to_bytes().unwrap();
            assert_eq!(crate::canon::jcs::canonicalize(&bytes).unwrap(), bytes);
            assert_eq!(LogEntry::read(&bytes), Ok(entry));
        }
    }

    #[test]
    fn the_text_of_a_head_is_the_documented_one() {
        let text = String::from_utf8(entries()[0].to_bytes().unwrap()).unwrap();
        let (record, key) = ("ab".repeat(32), "cd".repeat(32));
        let (line, root) = (Digest::of(b"line"), Digest::of(b"root"));
        let expected = format!(
            r#"{{"digest":"{line}","key":"{key}","record":"{record}","root":"{root}","seq":7,"size":1234,"type":"head/ledger"}}"#
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn another_spelling_of_an_entry_is_none() {
        for entry in entries() {
            let text = String::from_utf8(entry.to_bytes().unwrap()).unwrap();
            let spaced = text.replace(':', ": ");
            let more = text.replacen('{', "{\"a\":1,", 1);
            let less = text.replacen("\"type\"", "\"typ\"", 1);
            let upper = text.replace("abab", "ABAB");
            let escaped = text.replace("type", "\\u0074ype");
            for other in [spaced, more, less, escaped] {
                assert_eq!(LogEntry::read(other.as_bytes()), Err(BadEntry), "{other}");
            }
            if upper != text {
                assert_eq!(LogEntry::read(upper.as_bytes()), Err(BadEntry));
            }
        }
        for none in [&b""[..], b"[]", b"{}", b"{\"type\":1}", b"\"head\""] {
            assert_eq!(LogEntry::read(none), Err(BadEntry));
        }
    }

    #[test]
    fn places_are_listed_once_in_one_order_and_within_the_bound() {
        let good = names(3);
        for bad in [
            vec![good[1], good[0], good[2]],
            vec![good[0], good[0], good[2]],
            names(MAX_LISTED_PLACES + 1),
        ] {
            assert_eq!(LogEntry::Places(bad.clone()).to_bytes(), None);
            let bad: Vec<String> = bad.iter().map(|name| format!("\"{name}\"")).collect();
            let text = format!("{{\"places\":[{}],\"type\":\"places\"}}", bad.join(","));
            assert_eq!(LogEntry::read(text.as_bytes()), Err(BadEntry), "{text}");
        }
        let bytes = LogEntry::Places(good.clone()).to_bytes().unwrap();
        assert_eq!(LogEntry::read(&bytes), Ok(LogEntry::Places(good)));
    }

    #[test]
    fn a_type_of_later_versions_is_unknown_and_still_canonical() {
        assert_eq!(
            LogEntry::read(br#"{"a":[1],"type":"x"}"#),
            Ok(LogEntry::Unknown)
        );
        assert_eq!(
            LogEntry::read(br#"{"type":"head/other"}"#),
            Ok(LogEntry::Unknown)
        );
        assert_eq!(LogEntry::read(br#"{"type":"x","a":1}"#), Err(BadEntry));
        let long = format!(
            "{{\"type\":\"x\",\"z\":\"{}\"}}",
            "z".repeat(MAX_LOG_ENTRY_BYTES)
        );
        assert_eq!(LogEntry::read(long.as_bytes()), Err(BadEntry));
    }

    #[test]
    fn a_redaction_says_who_sealed_it() {
        let redaction = entries().remove(3).to_bytes().unwrap();
        let text = String::from_utf8(redaction).unwrap();
        assert!(
            text.ends_with(r#","type":"redaction/transcript"}"#),
            "{text}"
        );
        let key = format!("\"key\":\"{}\",", "cd".repeat(32));
        let nobody = text.replace(&key, "");
        assert_eq!(LogEntry::read(nobody.as_bytes()), Err(BadEntry));
        let other = text.replace("redaction/transcript", "redaction/ledger");
        assert_eq!(LogEntry::read(other.as_bytes()), Ok(LogEntry::Unknown));
    }

    #[test]
    fn a_tombstone_is_of_any_kind_and_says_who_pruned() {
        let text = String::from_utf8(entries().remove(4).to_bytes().unwrap()).unwrap();
        assert!(text.ends_with(r#","type":"tombstone/ledger"}"#), "{text}");
        let key = format!("\"key\":\"{}\",", "cd".repeat(32));
        let nobody = text.replace(&key, "");
        assert_eq!(LogEntry::read(nobody.as_bytes()), Err(BadEntry));
        let other = text.replace("tombstone/ledger", "tombstone/other");
        assert_eq!(LogEntry::read(other.as_bytes()), Ok(LogEntry::Unknown));
    }

    #[test]
    fn a_number_that_not_every_reader_keeps_is_not_written() {
        let mut large = logged(true, true);
        large.head.seq = MAX_NUMBER + 1;
        assert_eq!(LogEntry::Head(large).to_bytes(), None);
        large.head.seq = MAX_NUMBER;
        let bytes = LogEntry::Head(large).to_bytes().unwrap();
        assert_eq!(LogEntry::read(&bytes), Ok(LogEntry::Head(large)));
    }
}
