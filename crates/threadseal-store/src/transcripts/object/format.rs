//! The objects of a record: heads, segments, indexes, and tails that were set aside.
//!
//! ```text
//! head      threadseal.transcript-head/1 <64 hex: SHA-256 of everything after this line> LF
//!           {"name":…,"size":…,"writer":…,"write":…,"levels":[[{…},…],…]} LF
//!           <the newest bytes of the record>
//!           of a deleted record, without bytes:
//!           {"name":…,"size":0,"writer":…,"write":…,"levels":[],"deleted":…} LF
//! segment   <bytes of the record>
//! index     threadseal.transcript-index/1 LF
//!           {"name":…,"level":…,"refs":[{"first":…,"count":…,"sha256":…,"writer":…},…]} LF
//! ```
//! Each writer that claims the record draws a `writer`, and `write` counts the heads of that writer.
//! So no two heads have the same bytes.
//!
//! The bytes of a segment are not compared with its digest where they are read. The seals of the
//! record prove more, and name the line. The objects that decide the place of bytes (the head,
//! indexes, lengths) are checked.
//!
//! *Why an orphan stays one for ever*: the name of an object contains the number of a writer. That
//! writer is the first that names it in a head. It seals objects only after its claim. The object
//! was listed before the head was read. If that head has another number, its writer was superseded
//! before. No later writer names an object that the head does not lead to. An object with the
//! number of the head's writer may soon be named, so it stays.

use crate::object_log::{
    FANOUT, Facts, Folders, Format, Head, MAX_LEVELS, Reference, SealedName, Span,
};
use crate::objects::Sealed;
use crate::objects::spell::json;
use crate::transcripts::RecordName;
use serde::{Deserialize, Serialize};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::record::RecordId;

/// Most bytes of a record in its head. Each append writes them again.
pub(super) const OPEN_BYTES: usize = 128 << 10;
/// Most bytes of a segment.
pub(super) const SEGMENT_BYTES: usize = 1 << 20;
/// Most bytes that a reference takes.
const REF_BYTES: usize = 256;

/// Drawn anew by each writer.
pub(super) type Nonce = [u8; 16];

/// The format of native records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transcripts;

/// The head of a record.
pub(super) type RecordHead = Head<Transcripts>;

/// What a head of a record holds beside its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordFacts {
    pub(super) size: u64,
    pub(super) writer: Nonce,
    write: u64,
    /// The record that was here and was deleted: no writer continues from such a head.
    pub(super) deleted: Option<RecordId>,
}

impl Facts for RecordFacts {
    fn end(&self) -> u64 {
        self.size
    }

    fn is_deleted(&self) -> bool {
        self.deleted.is_some()
    }
}

impl RecordFacts {
    /// Of a record of no bytes.
    pub(super) fn new(writer: Nonce) -> Self {
        Self {
            size: 0,
            writer,
            write: 0,
            deleted: None,
        }
    }

    /// Of the next head of the same writer, with this size.
    pub(super) fn next(&self, size: u64) -> Self {
        Self {
            size,
            write: self.write + 1,
            ..self.clone()
        }
    }
}

/// The head that replaces `head` for ever: `record` was deleted.
pub(super) fn buried(head: &RecordHead, record: RecordId) -> RecordHead {
    Head::bare(RecordFacts {
        deleted: Some(record),
        ..head.facts.next(0)
    })
}

/// The same record with another writer.
pub(super) fn claimed(head: &RecordHead, writer: Nonce) -> RecordHead {
    let facts = RecordFacts {
        writer,
        write: 0,
        ..head.facts.clone()
    };
    Head {
        facts,
        ..head.clone()
    }
}

/// The next head of the same writer, with `bytes` after the others. Also returns the objects that
/// must be written before it.
pub(super) fn after(
    head: &RecordHead,
    name: &RecordName,
    bytes: &[u8],
) -> (RecordHead, Vec<Sealed>) {
    let mut next = head.clone();
    next.facts = next.facts.next(next.facts.size + bytes.len() as u64);
    let sealed = next.push(name, bytes.iter().copied());
    (next, sealed)
}

/// The folder of the parts of a tail that was set aside.
pub(super) fn tail_folder(name: &RecordName) -> String {
    let hex = encoding::hex(name.as_str().as_bytes());
    format!("transcript-tails/{hex}")
}

/// How the names of the parts of a tail begin.
pub(super) fn tail_prefix(offset: u64, sha256: &Digest) -> String {
    format!("{offset:020}-{sha256}-")
}

/// A sealed object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ref {
    /// Its first byte in the record.
    pub(super) first: u64,
    /// Its number of bytes of the record.
    pub(super) count: u64,
    /// SHA-256 of the object's bytes, in hex.
    pub(super) sha256: String,
    /// The writer that sealed it, in hex.
    pub(super) writer: String,
}

impl Span for Ref {
    fn first(&self) -> u64 {
        self.first
    }

    fn count(&self) -> u64 {
        self.count
    }
}

impl Reference for Ref {
    fn sha256(&self) -> &str {
        &self.sha256
    }

    fn suffix(&self) -> String {
        format!("-{}", self.writer)
    }

    fn is_suffix(text: &str) -> bool {
        writer_of(text).is_some()
    }
}

/// The writer that the end of an object's name contains.
fn writer_of(suffix: &str) -> Option<Nonce> {
    encoding::parse_hex_array(suffix.strip_prefix('-')?)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadForm {
    name: String,
    size: u64,
    writer: String,
    write: u64,
    levels: Vec<Vec<Ref>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted: Option<String>,
}

impl Format for Transcripts {
    type Name = RecordName;
    type Facts = RecordFacts;
    type Ref = Ref;
    type Item = u8;

    const FOLDERS: Folders = Folders {
        heads: "transcripts",
        gone: "transcripts-gone",
        segments: "transcript-segments",
        indexes: "transcript-indexes",
    };
    const HEAD: &'static str = "threadseal.transcript-head/1";
    const INDEX: &'static str = "threadseal.transcript-index/1\n";
    const NAME_MEMBER: &'static str = "name";
    const MAX_HEAD_BYTES: usize = OPEN_BYTES + MAX_LEVELS * FANOUT * REF_BYTES + 1024;
    const MAX_INDEX_BYTES: usize = FANOUT * REF_BYTES + 1024;
    const MAX_SEGMENT_BYTES: usize = SEGMENT_BYTES;
    // A writer compares the bytes that it reads with those that it wrote.
    const ONE_SPELLING: bool = true;
    const ORPHANS_ARE_NUMBERED: bool = true;

    fn text(name: &RecordName) -> &str {
        name.as_str()
    }

    fn form(name: &RecordName, facts: &RecordFacts, levels: &[Vec<Ref>]) -> String {
        json(&HeadForm {
            name: name.as_str().to_owned(),
            size: facts.size,
            writer: encoding::hex(&facts.writer),
            write: facts.write,
            levels: levels.to_vec(),
            deleted: facts.deleted.map(|record| record.to_string()),
        })
    }

    fn parse_form(name: &RecordName, line: &[u8]) -> Option<(RecordFacts, Vec<Vec<Ref>>)> {
        let form: HeadForm = serde_json::from_slice(line).ok()?;
        let deleted = match form.deleted {
            Some(record) => Some(RecordId::parse_hex(&record)?),
            None => None,
        };
        let facts = RecordFacts {
            size: form.size,
            writer: encoding::parse_hex_array(&form.writer)?,
            write: form.write,
            deleted,
        };
        (form.name == name.as_str()).then_some((facts, form.levels))
    }

    fn agrees(facts: &RecordFacts, _: &[u8]) -> bool {
        facts.deleted.is_none() || facts.size == 0
    }

    fn write_items(bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
    }

    fn parse_items(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }

    fn is_full(open: &[u8]) -> bool {
        open.len() > OPEN_BYTES
    }

    fn segments(bytes: &[u8]) -> Vec<&[u8]> {
        bytes.chunks(SEGMENT_BYTES).collect()
    }

    fn encode_segment(_: &RecordName, _: u64, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    fn parse_segment(_: &RecordName, found: &Ref, bytes: Vec<u8>) -> Option<Vec<u8>> {
        (bytes.len() as u64 == found.count).then_some(bytes)
    }

    fn reference(
        facts: &RecordFacts,
        first: u64,
        count: u64,
        bytes: &[u8],
        _: Option<&[u8]>,
    ) -> Ref {
        Ref {
            first,
            count,
            sha256: Digest::of(bytes).to_hex(),
            writer: encoding::hex(&facts.writer),
        }
    }

    fn may_come_to_name(
        facts: &RecordFacts,
        _: &[Vec<Ref>],
        _: u64,
        object: &SealedName<'_>,
    ) -> bool {
        writer_of(object.suffix) == Some(facts.writer)
    }
}
