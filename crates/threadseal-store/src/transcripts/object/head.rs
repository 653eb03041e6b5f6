//! The head of a record: the one object that is written again, by compare-and-swap.
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
//! The head contains the newest bytes, so that a promise costs one write. No two heads have the
//! same bytes. Each writer that claims the record draws a `writer`, and `write` counts the heads of
//! that writer.

use super::RecordName;
use crate::objects::Sealed;
use crate::objects::levels::{self, FANOUT, MAX_LEVELS, Span};
use crate::objects::spell::{self, json, line};
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
pub(super) const MAX_INDEX_BYTES: usize = FANOUT * REF_BYTES + 1024;
pub(super) const MAX_HEAD_BYTES: usize = OPEN_BYTES + MAX_LEVELS * FANOUT * REF_BYTES + 1024;

const HEAD: &str = "threadseal.transcript-head/1";
const INDEX: &str = "threadseal.transcript-index/1\n";
/// The folder of heads.
pub(super) const HEADS: &str = "transcripts";
/// The folder of empty objects that mark deleted records.
pub(super) const GONE: &str = "transcripts-gone";

/// Drawn anew by each writer.
pub(super) type Nonce = [u8; 16];

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

impl Ref {
    fn new(first: u64, count: u64, bytes: &[u8], writer: &Nonce) -> Self {
        Self {
            first,
            count,
            sha256: Digest::of(bytes).to_hex(),
            writer: encoding::hex(writer),
        }
    }

    /// Does it make a name that a sealed object can have?
    fn is_spelled(&self) -> bool {
        let writer: Option<Nonce> = encoding::parse_hex_array(&self.writer);
        Digest::parse_hex(&self.sha256).is_some() && writer.is_some()
    }
}

/// The end of a record, and its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) size: u64,
    pub(super) writer: Nonce,
    pub(super) write: u64,
    /// Level 0 names segments, each other one indexes of the level below; the newest last.
    pub(super) levels: Vec<Vec<Ref>>,
    /// The bytes that are not sealed.
    pub(super) open: Vec<u8>,
    /// The record that was here and was deleted: no writer continues from such a head.
    pub(super) deleted: Option<RecordId>,
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

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexForm {
    name: String,
    level: usize,
    refs: Vec<Ref>,
}

impl Head {
    /// The head of a record of no bytes.
    pub(super) fn new(writer: Nonce) -> Self {
        Self {
            size: 0,
            writer,
            write: 0,
            levels: Vec::new(),
            open: Vec::new(),
            deleted: None,
        }
    }

    /// The head that replaces it for ever: `record` was deleted.
    pub(super) fn buried(&self, record: RecordId) -> Self {
        Self {
            write: self.write + 1,
            deleted: Some(record),
            ..Self::new(self.writer)
        }
    }

    /// The same record with another writer.
    pub(super) fn claimed(&self, writer: Nonce) -> Self {
        Self {
            writer,
            write: 0,
            ..self.clone()
        }
    }

    /// The offset of the unsealed bytes.
    pub(super) fn sealed(&self) -> u64 {
        self.size.saturating_sub(self.open.len() as u64)
    }

    /// The next head of the same writer, with `bytes` after the others. Also returns the objects
    /// that must be written before it.
    pub(super) fn after(&self, name: &RecordName, bytes: &[u8]) -> (Self, Vec<Sealed>) {
        let mut next = self.clone();
        next.write += 1;
        next.size += bytes.len() as u64;
        next.open.extend_from_slice(bytes);
        let mut sealed = Vec::new();
        if next.open.len() > OPEN_BYTES {
            next.seal_open(name, &mut sealed);
        }
        (next, sealed)
    }

    /// Seals all bytes that are not sealed yet.
    pub(super) fn seal_open(&mut self, name: &RecordName, sealed: &mut Vec<Sealed>) {
        let mut first = self.sealed();
        let (open, writer) = (std::mem::take(&mut self.open), self.writer);
        for piece in open.chunks(SEGMENT_BYTES) {
            let found = Ref::new(first, piece.len() as u64, piece, &writer);
            first = found.end();
            sealed.push(Sealed {
                name: segment_name(name, &found),
                bytes: piece.to_vec(),
            });
            levels::push(&mut self.levels, 0, found, &mut |level, full| {
                let (index, object) = seal_index(name, level, full, &writer);
                sealed.push(object);
                index
            });
        }
    }

    pub(super) fn encode(&self, name: &RecordName) -> Vec<u8> {
        let form = HeadForm {
            name: name.as_str().to_owned(),
            size: self.size,
            writer: encoding::hex(&self.writer),
            write: self.write,
            levels: self.levels.clone(),
            deleted: self.deleted.map(|record| record.to_string()),
        };
        let mut body = json(&form).into_bytes();
        body.extend_from_slice(&self.open);
        spell::summed(HEAD, &body)
    }

    /// Reads the bytes that [`Head::encode`] wrote for this record; `None` for anything else.
    pub(super) fn decode(name: &RecordName, bytes: &[u8]) -> Option<Self> {
        let (form, open) = line(spell::body(HEAD, bytes)?)?;
        let form: HeadForm = serde_json::from_slice(form).ok()?;
        let deleted = match form.deleted {
            Some(record) => Some(RecordId::parse_hex(&record)?),
            None => None,
        };
        let head = Self {
            size: form.size,
            writer: encoding::parse_hex_array(&form.writer)?,
            write: form.write,
            levels: form.levels,
            open: open.to_vec(),
            deleted,
        };
        let sealed = levels::end(&head.levels)?;
        let fits = sealed.checked_add(open.len() as u64) == Some(head.size)
            && head.levels.iter().flatten().all(Ref::is_spelled)
            && (head.deleted.is_none() || (head.size == 0 && head.levels.is_empty()));
        // One spelling: a writer compares the bytes that it reads with those that it wrote.
        (fits && head.encode(name) == bytes).then_some(head)
    }
}

/// Seals the references to the objects of one level, at least one.
fn seal_index(name: &RecordName, level: usize, refs: Vec<Ref>, writer: &Nonce) -> (Ref, Sealed) {
    let first = refs.first().map_or(0, |first| first.first);
    let end = refs.last().map_or(0, Span::end);
    let form = IndexForm {
        name: name.as_str().to_owned(),
        level,
        refs,
    };
    let bytes = format!("{INDEX}{}", json(&form)).into_bytes();
    let found = Ref::new(first, end.saturating_sub(first), &bytes, writer);
    let name = index_name(name, level, &found);
    (found, Sealed { name, bytes })
}

/// The references in an index; `None` unless it is the index of `wanted`, without gaps.
pub(super) fn parse_index(
    name: &RecordName,
    level: usize,
    wanted: &Ref,
    bytes: &[u8],
) -> Option<Vec<Ref>> {
    if Digest::of(bytes).to_hex() != wanted.sha256 {
        return None;
    }
    let form: IndexForm = serde_json::from_slice(bytes.strip_prefix(INDEX.as_bytes())?).ok()?;
    let fits = form.name == name.as_str()
        && form.level == level
        && form.refs.iter().all(Ref::is_spelled)
        && levels::joins(&form.refs, wanted.first) == Some(wanted.end());
    fits.then_some(form.refs)
}

pub(super) fn head_name(name: &RecordName) -> String {
    format!("{HEADS}/{}", hex(name))
}

/// The empty object that marks this record as deleted in listings.
pub(super) fn gone_name(name: &RecordName) -> String {
    format!("{GONE}/{}", hex(name))
}

pub(super) fn segment_folder(name: &RecordName) -> String {
    format!("transcript-segments/{}", hex(name))
}

pub(super) fn index_folder(name: &RecordName) -> String {
    format!("transcript-indexes/{}", hex(name))
}

/// The folder of the parts of a tail that was set aside.
pub(super) fn tail_folder(name: &RecordName) -> String {
    format!("transcript-tails/{}", hex(name))
}

/// The folders of all objects of a record but its head.
pub(super) fn folders(name: &RecordName) -> [String; 3] {
    [segment_folder(name), index_folder(name), tail_folder(name)]
}

pub(super) fn segment_name(name: &RecordName, found: &Ref) -> String {
    let Ref { sha256, writer, .. } = found;
    format!(
        "{}/{:020}-{sha256}-{writer}",
        segment_folder(name),
        found.first
    )
}

pub(super) fn index_name(name: &RecordName, level: usize, found: &Ref) -> String {
    let Ref { sha256, writer, .. } = found;
    format!(
        "{}/{level:02}-{:020}-{sha256}-{writer}",
        index_folder(name),
        found.first
    )
}

/// How the names of the parts of a tail begin.
pub(super) fn tail_prefix(offset: u64, sha256: &Digest) -> String {
    format!("{offset:020}-{sha256}-")
}

fn hex(name: &RecordName) -> String {
    encoding::hex(name.as_str().as_bytes())
}
