//! Tombstones: the remains of records that were pruned (`spec/host-log.md`, "Tombstones").
//!
//! ```text
//! {"at":TIME,"by":TEXT,"public":HEX,"records":[ENTRY,…],
//!  "signature":BASE64,"type":"threadseal/1 tombstone","why":TEXT} LF      one line, without blanks
//! ENTRY       as in the seal log: {"digest":…,"key":…,"record":…,…,"type":"tombstone/transcript"}
//! signature   by `public`, over tagged("threadseal/1 tombstone", [the object without `signature`])
//! ```
//! RFC 8785, so each tombstone has one text. A [`Tombstone`] value was signed by its key. It does
//! not prove that the key was allowed to prune these records. The program that prunes checks that,
//! and writes the same entries into the log of the host.

use crate::canon::jcs;
use crate::canon::json::{self, Value};
use crate::encoding;
use crate::error::Error;
use crate::key::{Message, PublicKey, Signature, Signer};
use crate::limits::{
    MAX_REDACTION_REASON_BYTES, MAX_REDACTOR_BYTES, MAX_TOMBSTONE_BYTES, MAX_TOMBSTONE_RECORDS,
};
use crate::record::RecordId;
use crate::time::Timestamp;
use crate::tlog::entry::{LogEntry, LoggedHead};

const TAG: &str = "threadseal/1 tombstone";

/// The signed remains of records that were pruned together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstone {
    statement: Statement,
    public: PublicKey,
    signature: Signature,
}

/// The content of a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// When they were pruned, to the second.
    pub at: Timestamp,
    /// Who pruned them, for people.
    pub by: String,
    /// Why, for people; may be empty.
    pub why: String,
    /// Their last heads, each with the key that signs the tombstone. The first is the transcript.
    pub records: Vec<LoggedHead>,
}

impl Tombstone {
    /// Signs that these records were pruned, with the key of `signer`. It replaces the keys and
    /// drops the fractions of seconds in `statement`.
    ///
    /// # Errors
    /// Kind `InvalidInput` for no records, too many records, two heads of one record, or a text
    /// that is too long. Kind `Refused` when the key is not native; those of the signer.
    pub fn sign(statement: Statement, signer: &dyn Signer) -> Result<Self, Error> {
        let public = *signer.public_key();
        let statement = Statement {
            at: statement.at.floor_to_second(),
            records: statement
                .records
                .into_iter()
                .map(|logged| LoggedHead {
                    key: Some(public.key_id()),
                    ..logged
                })
                .collect(),
            ..statement
        };
        let none = || {
            Error::invalid(
                "a tombstone names each record once, and not too many; its texts are short",
            )
        };
        let text = statement
            .text(&public, None)
            .filter(|_| statement.is_sound());
        let signature = signer.sign(&Message::tagged(TAG, &[&text.ok_or_else(none)?]))?;
        Ok(Self {
            statement,
            public,
            signature,
        })
    }

    /// Reads a tombstone, and verifies it. `None` for anything else.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_TOMBSTONE_BYTES {
            return None;
        }
        let value = json::parse(bytes.strip_suffix(b"\n")?).ok()?;
        let text = |name| value.get(name).and_then(Value::as_str);
        let records = value.get("records").and_then(Value::as_array)?;
        let statement = Statement {
            at: Timestamp::parse_iso_seconds(text("at")?)?,
            by: text("by")?.to_owned(),
            why: text("why")?.to_owned(),
            records: records.iter().map(entry).collect::<Option<_>>()?,
        };
        let public = PublicKey::from_hex(text("public")?).ok()?;
        let signature = Signature::from_slice(&encoding::parse_base64(text("signature")?)?)?;
        let key = Some(public.key_id());
        let is_own = statement.records.iter().all(|logged| logged.key == key);
        let signed = Message::tagged(TAG, &[&statement.text(&public, None)?]);
        let tombstone = Self {
            statement,
            public,
            signature,
        };
        let holds = is_own
            && tombstone.statement.is_sound()
            && tombstone.to_bytes()? == bytes
            && public.verify(&signed, &tombstone.signature).is_ok();
        holds.then_some(tombstone)
    }

    /// Its only text; `None` where a number is too large.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut text = self.statement.text(&self.public, Some(&self.signature))?;
        text.push(b'\n');
        Some(text)
    }

    /// The content that was signed.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// The key that signed it.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The last head of this record, as the log must contain it too.
    pub fn of(&self, record: &RecordId) -> Option<&LoggedHead> {
        let mut records = self.statement.records.iter();
        records.find(|logged| logged.head.record == *record)
    }
}

impl Statement {
    fn is_sound(&self) -> bool {
        let mut ids: Vec<_> = self
            .records
            .iter()
            .map(|logged| logged.head.record)
            .collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        (1..=MAX_TOMBSTONE_RECORDS).contains(&count)
            && ids.len() == count
            && self.by.len() <= MAX_REDACTOR_BYTES
            && self.why.len() <= MAX_REDACTION_REASON_BYTES
    }

    /// Its canonical text, with the signature, or without it as the signed message.
    fn text(&self, public: &PublicKey, signature: Option<&Signature>) -> Option<Vec<u8>> {
        let string = |text: &str| {
            let mut out = Vec::new();
            json::write_ascii_string(&mut out, text);
            String::from_utf8(out).ok()
        };
        let mut records = Vec::new();
        for logged in &self.records {
            let entry = LogEntry::Tombstone(*logged).to_bytes()?;
            records.push(String::from_utf8(entry).ok()?);
        }
        let signature = signature.map_or(String::new(), |signature| {
            let text = encoding::base64(signature.as_bytes());
            format!("\"signature\":\"{text}\",")
        });
        let text = format!(
            "{{\"at\":\"{}\",\"by\":{},\"public\":\"{}\",\"records\":[{}],{signature}\"type\":\"{TAG}\",\"why\":{}}}",
            self.at.to_iso_seconds(),
            string(&self.by)?,
            public.to_hex(),
            records.join(","),
            string(&self.why)?
        );
        jcs::canonicalize(text.as_bytes()).ok()
    }
}

fn entry(value: &Value) -> Option<LoggedHead> {
    match LogEntry::read(&jcs::to_vec(value).ok()?) {
        Ok(LogEntry::Tombstone(logged)) => Some(logged),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::key::KeyUsage;
    use crate::record::{Head, RecordKind};
    use crate::testing::{micros, signer};

    fn logged(kind: RecordKind, id: u8) -> LoggedHead {
        LoggedHead {
            kind,
            head: Head {
                record: RecordId::from_bytes([id; 32]),
                seq: 3,
                size: 1234,
                line: Digest::of(&[id]),
            },
            root: None,
            key: None,
        }
    }

    fn statement() -> Statement {
        Statement {
            at: micros(1_800_000_000_123_456),
            by: "Ada \u{e9}\u{1f600}".to_owned(),
            why: "ninety days\nare over \"here\"".to_owned(),
            records: vec![
                logged(RecordKind::Transcript, 1),
                logged(RecordKind::Document, 2),
            ],
        }
    }

    fn tombstone() -> Tombstone {
        Tombstone::sign(statement(), &signer(7, KeyUsage::Native)).unwrap()
    }

    #[test]
    fn a_tombstone_is_read_as_it_was_signed() {
        let made = tombstone();
        let bytes = made.to_bytes().unwrap();
        let text = &bytes[..bytes.len() - 1];
        assert_eq!(jcs::canonicalize(text).unwrap(), text);
        assert_eq!(Tombstone::read(&bytes), Some(made.clone()));
        let first = made.of(&RecordId::from_bytes([1; 32])).unwrap();
        assert_eq!(first.key, Some(made.public().key_id()));
        assert_eq!(made.of(&RecordId::from_bytes([9; 32])), None);
    }

    // T-PRU-01
    #[test]
    fn every_bit_of_a_tombstone_counts() {
        let bytes = tombstone().to_bytes().unwrap();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                assert_eq!(Tombstone::read(&other), None, "byte {at}, bit {bit}");
            }
            assert_eq!(Tombstone::read(&bytes[..at]), None);
        }
    }

    // T-PRU-02
    #[test]
    fn nobody_signs_for_another_key_and_nothing_unsigned_is_one() {
        let bytes = tombstone().to_bytes().unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let other = Tombstone::sign(statement(), &signer(8, KeyUsage::Native)).unwrap();
        let (mine, others) = (tombstone().public, other.public);
        let from = text.find("\"signature\"").unwrap();
        let to = text.find("\"type\":\"threadseal/1").unwrap();
        for bad in [
            text.replace(&mine.to_hex(), &others.to_hex()),
            // The key in the entries is the key that signs.
            text.replace(&mine.key_id().to_hex(), &others.key_id().to_hex()),
            [&text[..from], &text[to..]].concat(),
        ] {
            assert_ne!(bad, text);
            assert_eq!(Tombstone::read(bad.as_bytes()), None, "{bad}");
        }
        let observed = signer(7, KeyUsage::Observed);
        assert!(Tombstone::sign(statement(), &observed).is_err());
    }

    #[test]
    fn a_tombstone_of_nothing_of_too_much_or_of_one_record_twice_is_not_made() {
        let native = signer(7, KeyUsage::Native);
        let of = |records: Vec<LoggedHead>, why: String| {
            let statement = Statement {
                records,
                why,
                ..statement()
            };
            Tombstone::sign(statement, &native)
        };
        let one = logged(RecordKind::Transcript, 1);
        assert!(of(Vec::new(), String::new()).is_err());
        assert!(of(vec![one, one], String::new()).is_err());
        let long = "y".repeat(MAX_REDACTION_REASON_BYTES + 1);
        assert!(of(vec![one], long).is_err());
        let ids = 0..=u8::try_from(MAX_TOMBSTONE_RECORDS).unwrap();
        let many = ids.map(|id| logged(RecordKind::Document, id)).collect();
        assert!(of(many, String::new()).is_err());
        let longest = of(vec![one], "\u{1}".repeat(MAX_REDACTION_REASON_BYTES)).unwrap();
        let bytes = longest.to_bytes().unwrap();
        assert_eq!(Tombstone::read(&bytes), Some(longest));
    }
}
