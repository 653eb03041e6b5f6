//! The front of the seal file of an observed log (`spec/transcript.md` §9).
//!
//! ```text
//! {"format":"threadseal-observed/2","kind":"observed","record":HEX,"key":HEX,"salted":HEX}
//! {"salts":[[LEVEL,NUMBER,HEX],…]}
//! {"redacted":{"head":HEAD,"lines":[[FIRST,COUNT],…],"time":T,"by":TEXT,"why":TEXT,"signature":BASE64}} …
//! ```
//! No seal covers the lines after the header: a redaction replaces the salts and adds a statement,
//! and every seal remains valid. The header commits to the salts while they are whole. A statement
//! has a signature of its own. Format 1 has a header without `salted`, and no such lines.

use super::event::Cursor;
use std::ops::Range;
use threadseal_core::canon::json;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::key::{Message, OBSERVED_DOMAIN, PublicKey, Signature, Signer};
use threadseal_core::limits::{
    MAX_REDACTED_AT_ONCE, MAX_REDACTION_REASON_BYTES, MAX_REDACTOR_BYTES,
};
use threadseal_core::note::KeyName;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::salts::{Node, Salts, Secret};
use threadseal_core::time::Timestamp;

/// Tag of the line digest of a seal line, by format.
const LINE_TAGS: [&str; 2] = ["threadseal/1 observed line", "threadseal/2 observed line"];
const SALTS_TAG: &str = "threadseal/2 observed salts";
/// Only an observed key signs under it.
const REDACTION_TAG: &str = "threadseal/observed/2 redaction";

const KIND: &[u8] = b"\",\"kind\":\"observed\",\"record\":\"";
const SALTS_START: &[u8] = b"{\"salts\":[";
pub(super) const REDACTED_START: &[u8] = b"{\"redacted\":{\"head\":\"";

/// Longest number of a run in a statement: lines are counted far below it.
const MAX_RUN: u64 = 1 << 32;

/// Line 1 of a seal file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The record.
    pub record: RecordId,
    /// The key of its first seal.
    pub key: PublicKey,
    /// The commitment to the salts; none in format 1.
    salted: Option<Digest>,
}

impl Header {
    /// The header of a new record; without `root` in format 1.
    pub(super) fn new(record: RecordId, key: PublicKey, root: Option<&Secret>) -> Self {
        Self {
            record,
            key,
            salted: root.map(|root| commitment(&record, root)),
        }
    }

    /// Reads the line without its LF.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(line);
        cursor.expect(b"{\"format\":\"threadseal-observed/")?;
        let is_salted = match cursor.text(1)? {
            "1" => false,
            "2" => true,
            _ => return None,
        };
        cursor.expect(KIND)?;
        let record = RecordId::parse_hex(cursor.text(64)?)?;
        cursor.expect(b"\",\"key\":\"")?;
        let key = PublicKey::from_hex(cursor.text(64)?).ok()?;
        let mut salted = None;
        if is_salted {
            cursor.expect(b"\",\"salted\":\"")?;
            salted = Some(Digest::parse_hex(cursor.text(64)?)?);
        }
        cursor.expect(b"\"}")?;
        let is_whole = cursor.rest().is_empty();
        is_whole.then_some(Self {
            record,
            key,
            salted,
        })
    }

    /// The line without its LF.
    pub(super) fn to_line(self) -> String {
        let (format, kind) = (self.format(), String::from_utf8_lossy(KIND));
        let (record, key) = (self.record, self.key.to_hex());
        let salted = self
            .salted
            .map(|salted| format!(",\"salted\":\"{salted}\""));
        let salted = salted.unwrap_or_default();
        format!(
            "{{\"format\":\"threadseal-observed/{format}{kind}{record}\",\"key\":\"{key}\"{salted}}}"
        )
    }

    /// Do the lines have salts?
    pub fn is_salted(&self) -> bool {
        self.salted.is_some()
    }

    fn format(&self) -> usize {
        1 + usize::from(self.is_salted())
    }

    /// The origin of the notes in its seals.
    pub(super) fn origin(&self) -> Option<KeyName> {
        let (format, record) = (self.format(), self.record);
        KeyName::parse(&format!("{OBSERVED_DOMAIN}{format}/{record}")).ok()
    }

    /// The digest of a seal's line, from its bytes up to the opening quote of the note.
    pub(super) fn line_digest(&self, start: &[u8]) -> Digest {
        let tag = LINE_TAGS[self.format() - 1];
        match self.is_salted() {
            false => Digest::tagged(tag, &[start]),
            // A proof has the header, and nothing else binds it there.
            true => Digest::tagged(tag, &[self.to_line().as_bytes(), start]),
        }
    }

    /// Are these the salts that it commits to, as far as that can be seen?
    fn holds(&self, salts: &Salts) -> bool {
        let known = salts.root().map(|root| commitment(&self.record, root));
        known.is_none() || known == self.salted
    }
}

fn commitment(record: &RecordId, root: &Secret) -> Digest {
    Digest::tagged(SALTS_TAG, &[record.as_bytes(), root.as_bytes()])
}

/// Reads the line of salts; `None` unless it is spelled so and fits the header.
pub(super) fn parse_salts(line: &[u8], header: &Header) -> Option<Salts> {
    let mut cursor = Cursor::new(line);
    cursor.expect(SALTS_START)?;
    let mut nodes = Vec::new();
    while cursor.rest() != b"]}" {
        if !nodes.is_empty() {
            cursor.expect(b",")?;
        }
        cursor.expect(b"[")?;
        let level = u8::try_from(cursor.number()?).ok()?;
        cursor.expect(b",")?;
        let index = cursor.number()?;
        cursor.expect(b",\"")?;
        let secret = Secret::parse_hex(cursor.text(32)?)?;
        cursor.expect(b"\"]")?;
        nodes.push(Node {
            level,
            index,
            secret,
        });
    }
    Salts::from_nodes(nodes).filter(|salts| header.holds(salts))
}

/// The line of salts without its LF.
pub(super) fn salts_line(salts: &Salts) -> String {
    let nodes: Vec<String> = salts
        .nodes()
        .iter()
        .map(|node| {
            format!(
                "[{},{},\"{}\"]",
                node.level,
                node.index,
                node.secret.to_hex()
            )
        })
        .collect();
    format!("{{\"salts\":[{}]}}", nodes.join(","))
}

/// The statement that lines of a log were replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redaction {
    /// The head of a seal that covers the lines.
    pub head: Head,
    /// Number of the first line, from 1, and how many, of each run of lines.
    pub runs: Vec<(u64, u64)>,
    /// When, by its maker's claim.
    pub time: Timestamp,
    /// The name that its maker gave for itself.
    pub by: String,
    /// Why.
    pub why: String,
}

/// A statement with its signature, which is not checked yet.
pub(super) struct SignedRedaction {
    pub(super) redaction: Redaction,
    /// The key that signed, where that is not the one of the header.
    pub(super) key: Option<PublicKey>,
    message: Message,
    signature: Signature,
}

impl Redaction {
    /// Is this line, from 1, among the replaced ones?
    pub fn names(&self, number: u64) -> bool {
        let before = self.runs.partition_point(|(first, _)| *first <= number);
        let run = before.checked_sub(1).and_then(|at| self.runs.get(at));
        run.is_some_and(|(first, count)| number - first < *count)
    }

    /// The lines, from 0.
    pub(super) fn lines(&self) -> Vec<Range<u64>> {
        let runs = self.runs.iter();
        runs.map(|(first, count)| first.saturating_sub(1)..first.saturating_sub(1) + count)
            .collect()
    }

    /// The number after the last line.
    pub fn end(&self) -> u64 {
        self.runs.last().map_or(0, |(first, count)| first + count)
    }

    /// The line up to the signature, by `key` where that is not the one of the header.
    fn unsigned(&self, key: Option<&PublicKey>) -> String {
        let runs: Vec<String> = self
            .runs
            .iter()
            .map(|(first, count)| format!("[{first},{count}]"))
            .collect();
        let (mut by, mut why) = (Vec::new(), Vec::new());
        json::write_ascii_string(&mut by, &self.by);
        json::write_ascii_string(&mut why, &self.why);
        let key = key.map_or(String::new(), |key| {
            format!(",\"key\":\"{}\"", key.to_hex())
        });
        format!(
            "{}{}\",\"lines\":[{}],\"time\":{},\"by\":{},\"why\":{}{key},\"signature\":\"",
            String::from_utf8_lossy(REDACTED_START),
            self.head,
            runs.join(","),
            self.time.to_epoch_text(),
            String::from_utf8_lossy(&by),
            String::from_utf8_lossy(&why),
        )
    }

    /// Are the runs in order, with a line between each two, and the texts within their bounds?
    fn is_in_bounds(&self) -> bool {
        let mut end = 0;
        let in_order = self.runs.iter().all(|(first, count)| {
            let apart = *first > end && *count > 0 && (*first).max(*count) < MAX_RUN;
            end = first.saturating_add(*count);
            apart
        });
        in_order
            && (1..=MAX_REDACTED_AT_ONCE).contains(&self.runs.len())
            && (1..=MAX_REDACTOR_BYTES).contains(&self.by.len())
            && (1..=MAX_REDACTION_REASON_BYTES).contains(&self.why.len())
    }

    /// The line of the statement, with its LF.
    ///
    /// # Errors
    /// Kind `InvalidInput` beyond a bound, those of `signer`.
    pub(super) fn sign(&self, header: &Header, signer: &dyn Signer) -> Result<Vec<u8>, Error> {
        if !self.is_in_bounds() {
            return Err(Error::invalid(format!(
                "a redaction names 1 to {MAX_REDACTED_AT_ONCE} runs of lines, its author in 1 to {MAX_REDACTOR_BYTES} bytes, \
                 and its reason in 1 to {MAX_REDACTION_REASON_BYTES} bytes"
            )));
        }
        let key = Some(signer.public_key()).filter(|key| **key != header.key);
        let start = self.unsigned(key);
        let signature = signer.sign(&message(header, start.as_bytes()))?;
        let signature = encoding::base64(signature.as_bytes());
        Ok(format!("{start}{signature}\"}}}}\n").into_bytes())
    }
}

impl SignedRedaction {
    /// Reads the line without its LF.
    pub(super) fn parse(line: &[u8], header: &Header) -> Option<Self> {
        let mut cursor = Cursor::new(line);
        cursor.expect(REDACTED_START)?;
        let head = Head::parse(std::str::from_utf8(cursor.until(b'"')?).ok()?)?;
        cursor.expect(b"\",\"lines\":[")?;
        let mut runs = Vec::new();
        while cursor.expect(b"]").is_none() {
            if !runs.is_empty() {
                cursor.expect(b",")?;
            }
            cursor.expect(b"[")?;
            let first = cursor.number()?;
            cursor.expect(b",")?;
            runs.push((first, cursor.number()?));
            cursor.expect(b"]")?;
        }
        cursor.expect(b",\"time\":")?;
        let time = std::str::from_utf8(cursor.until(b',')?).ok()?;
        let time = Timestamp::parse_epoch_text(time)?;
        cursor.expect(b",\"by\":")?;
        let by = text(cursor.string()?)?;
        cursor.expect(b",\"why\":")?;
        let why = text(cursor.string()?)?;
        let mut key = None;
        if cursor.expect(b",\"key\":\"").is_some() {
            key = Some(PublicKey::from_hex(cursor.text(64)?).ok()?);
            cursor.expect(b"\"")?;
        }
        let is_other = key.is_none_or(|key| key != header.key);
        cursor.expect(b",\"signature\":\"")?;
        let message = message(header, &line[..cursor.position()]);
        let signature = std::str::from_utf8(cursor.until(b'"')?).ok()?;
        let signature = Signature::from_slice(&encoding::parse_base64(signature)?)?;
        (cursor.rest() == b"\"}}").then_some(())?;
        let redaction = Redaction {
            head,
            runs,
            time,
            by,
            why,
        };
        let is_spelled = line.starts_with(redaction.unsigned(key.as_ref()).as_bytes());
        (is_spelled && is_other && redaction.is_in_bounds()).then_some(Self {
            redaction,
            key,
            message,
            signature,
        })
    }

    /// Does the signature hold under the key that it names, else under the key of the header?
    pub(super) fn holds(&self, header: &Header) -> bool {
        let by = self.key.unwrap_or(header.key);
        by.verify(&self.message, &self.signature).is_ok()
    }
}

fn message(header: &Header, start: &[u8]) -> Message {
    Message::tagged(REDACTION_TAG, &[header.to_line().as_bytes(), start])
}

fn text(json: &[u8]) -> Option<String> {
    let value = json::parse(json).ok()?;
    value.as_str().map(str::to_owned)
}

/// The line that takes the place of a redacted one. `number` is from 1.
pub fn replacement(number: u64, leaf: &Digest) -> Vec<u8> {
    format!("{{\"threadseal_redacted\":{{\"line\":{number},\"leaf\":\"{leaf}\"}}}}").into_bytes()
}
