//! The claim of a converter about the source of a record (`spec/scroll-mappings.md` §1).
//!
//! ```text
//! {"type":"conversion","schema":"threadseal.conversion/1","program":P,"format":F?,"verdict":V,
//!  "head":HEAD?,"bytes":N,"sha256":HEX?,"turns":N,"content":HEX,"by":DID?}
//! ```
//! It is shown wherever the record is, and no verdict depends on it.

use super::{Format, Verdict};
use crate::canon::json::Value;
use crate::digest::Digest;
use crate::key::PublicKey;
use crate::limits::MAX_SAFE_INTEGER;
use crate::record::Head;
use serde::{Serialize, Serializer};
use std::fmt;

const SCHEMA: &str = "threadseal.conversion/1";
const TYPE: &str = "conversion";
/// The most bytes of the name of a program.
const MAX_PROGRAM_BYTES: usize = 64;

/// The claim of a converter about the source of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conversion {
    /// The name of the mapping: the program that wrote the source.
    pub program: String,
    /// The format of the source as a record; absent where nothing sealed it.
    pub format: Option<Format>,
    /// The verdict on the source when it was converted.
    pub verdict: Verdict,
    /// The last seal of the source that held.
    #[serde(serialize_with = "as_text")]
    pub head: Option<Head>,
    /// The size of the source.
    pub bytes: u64,
    /// The digest of its bytes; absent where texts were removed.
    #[serde(serialize_with = "as_text")]
    pub sha256: Option<Digest>,
    /// The number of turns that were made of it.
    pub turns: u64,
    /// The digest of these turns without links, seals and this claim.
    #[serde(serialize_with = "digest_text")]
    pub content: Digest,
    /// The key of the converter; absent where it did not sign.
    #[serde(serialize_with = "did_text")]
    pub by: Option<PublicKey>,
}

fn as_text<T: fmt::Display, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

fn digest_text<S: Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(digest)
}

fn did_text<S: Serializer>(key: &Option<PublicKey>, serializer: S) -> Result<S::Ok, S::Error> {
    key.as_ref()
        .map(PublicKey::to_did_key)
        .serialize(serializer)
}

impl Conversion {
    /// The claim as an item of a message.
    pub fn to_value(&self) -> Value {
        let text = |value: String| Value::from(value);
        let mut members = vec![
            ("type", TYPE.into()),
            ("schema", SCHEMA.into()),
            ("program", text(self.program.clone())),
        ];
        let format = self.format.map(Format::as_str);
        members.extend(format.map(|format| ("format", format.into())));
        members.push(("verdict", self.verdict.as_str().into()));
        members.extend(self.head.map(|head| ("head", text(head.to_string()))));
        members.push(("bytes", self.bytes.into()));
        members.extend(self.sha256.map(|digest| ("sha256", text(digest.to_hex()))));
        members.push(("turns", self.turns.into()));
        members.push(("content", text(self.content.to_hex())));
        let by = self.by.as_ref().map(PublicKey::to_did_key);
        members.extend(by.map(|did| ("by", text(did))));
        let members = members.into_iter();
        Value::Object(members.map(|(name, value)| (name.into(), value)).collect())
    }

    /// Reads the claim in an item; `None` where the item is none, or is not of its form.
    pub fn of(item: &Value) -> Option<Self> {
        let text = |name: &str| item.get(name)?.as_str();
        let number = |name: &str| {
            let number = item.get(name)?.as_u64()?;
            (number <= MAX_SAFE_INTEGER).then_some(number)
        };
        if (text("type"), text("schema")) != (Some(TYPE), Some(SCHEMA)) {
            return None;
        }
        let program = text("program").filter(|program| is_program(program))?;
        let verdict = text("verdict")?;
        let mut verdicts = Verdict::ALL.into_iter();
        Some(Self {
            program: program.to_owned(),
            format: optional(item, "format", |text| {
                let mut formats = Format::ALL.iter();
                formats.find(|format| format.as_str() == text).copied()
            })?,
            verdict: verdicts.find(|known| known.as_str() == verdict)?,
            head: optional(item, "head", Head::parse)?,
            bytes: number("bytes")?,
            sha256: optional(item, "sha256", Digest::parse_hex)?,
            turns: number("turns")?,
            content: Digest::parse_hex(text("content")?)?,
            by: optional(item, "by", |did| PublicKey::from_did_key(did).ok())?,
        })
    }
}

/// A member that may be absent; `None` where it is there and cannot be read.
fn optional<T>(
    item: &Value,
    name: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Option<Option<T>> {
    match item.get(name) {
        None => Some(None),
        Some(value) => Some(Some(read(value.as_str()?)?)),
    }
}

/// No text of a record may pass for ours: the name is one of simple words.
fn is_program(text: &str) -> bool {
    let simple = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_PROGRAM_BYTES).contains(&text.len()) && text.bytes().all(simple)
}

/// `claude-code (log): verified, head HEAD`
impl fmt::Display for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        if let Some(format) = self.format {
            write!(f, " ({format})")?;
        }
        write!(f, ": {}", self.verdict)?;
        match self.head {
            Some(head) => write!(f, ", head {head}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canon::json::parse;
    use crate::canon::python::rye_line;
    use crate::testing::key;

    fn claim() -> Conversion {
        let digest = Digest::of(b"x");
        Conversion {
            program: "claude-code".to_owned(),
            format: Some(Format::Log),
            verdict: Verdict::UnsignedTail,
            head: Head::parse(&format!("{digest}:3:45:{digest}")),
            bytes: 50,
            sha256: Some(digest),
            turns: 2,
            content: digest,
            by: Some(key(1)),
        }
    }

    #[test]
    fn a_claim_is_read_as_it_was_written() {
        let bare = Conversion {
            format: None,
            head: None,
            sha256: None,
            by: None,
            ..claim()
        };
        assert!(claim().head.is_some());
        for claim in [claim(), bare] {
            assert_eq!(Conversion::of(&claim.to_value()), Some(claim));
        }
        let shown = claim().to_string();
        assert!(shown.starts_with("claude-code (log): unsigned_tail, head "));
    }

    // T-SCR-37
    #[test]
    fn an_item_of_another_form_is_no_claim() {
        let text = String::from_utf8(rye_line(&claim().to_value())).unwrap();
        let of = |text: &str| Conversion::of(&parse(text.as_bytes()).unwrap());
        assert!(of(&text).is_some());
        for (from, to) in [
            ("threadseal.conversion/1", "threadseal.conversion/2"),
            ("claude-code", "Verified by me"),
            ("claude-code", ""),
            ("\"log\"", "\"book\""),
            ("unsigned_tail", "excellent"),
            (":3:45:", ":3:"),
            ("did:key:", "did:web:"),
            ("\"bytes\": 50", "\"bytes\": \"50\""),
            ("\"turns\": 2", "\"turns\": -2"),
            ("\"content\"", "\"contents\""),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            assert!(of(&changed).is_none(), "{changed}");
        }
    }
}
