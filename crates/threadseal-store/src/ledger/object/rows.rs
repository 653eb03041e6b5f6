//! Rows, and the sealed objects that hold them.
//!
//! ```text
//! row       <32 hex: append> SP <64 hex: record hash | -> SP <64 hex: key | -> SP <record> LF
//! segment   threadseal.object-segment/1 LF
//!           {"run":…,"first":…,"count":…} LF
//!           row …
//! index     threadseal.object-index/1 LF
//!           {"run":…,"level":…,"refs":[{"first":…,"count":…,"sha256":…,"keys":…},…]} LF
//! ```
//! A sealed object is never written again. Its name ends in the SHA-256 of all of its bytes, and no
//! reader uses it without computing that. *append* is drawn anew for each append, so that a writer
//! whose answer was lost finds its own records. *key* is the tagged digest of the idempotency key,
//! on completed records only.

use crate::ledger::{COMPLETED, Entry, MAX_BATCH_BYTES};
use crate::objects::Sealed;
use crate::objects::levels::{Span, joins};
use crate::objects::spell::json;
use serde::{Deserialize, Serialize};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::limits::MAX_LINE_BYTES;
use threadseal_formats::ledger::RunId;

/// Most records of one segment.
pub(super) const SEGMENT_RECORDS: usize = 256;
/// Bytes of records from which on a segment takes no more.
pub(super) const SEGMENT_BYTES: usize = 1 << 20;
/// Most bytes of a sealed object: a full segment and one more record of the largest size. The fixed
/// parts of their rows and the head line are included.
pub(super) const MAX_SEALED_BYTES: usize = SEGMENT_BYTES + MAX_LINE_BYTES + (64 << 10);
const _: () = assert!(MAX_SEALED_BYTES < MAX_BATCH_BYTES);
/// Bytes of a filter of keys: four bits of 2048 for each of at most 256 keys. So one of forty
/// segments is read in vain.
const FILTER_BYTES: usize = 256;

const SEGMENT: &str = "threadseal.object-segment/1\n";
const INDEX: &str = "threadseal.object-index/1\n";

/// Drawn anew for each append.
pub(super) type Nonce = [u8; 16];

/// A record and the facts that are kept with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) append: Nonce,
    pub(super) hash: Option<Digest>,
    pub(super) key: Option<Digest>,
    pub(super) line: Vec<u8>,
}

impl Row {
    pub(super) fn new(entry: &Entry, append: Nonce) -> Self {
        let key = entry.idempotency_key.as_deref();
        let key = key.filter(|key| !key.is_empty() && entry.status == COMPLETED);
        Self {
            append,
            hash: entry.record_hash,
            key: key.map(key_digest),
            line: entry.line.clone(),
        }
    }

    pub(super) fn write(&self, text: &mut Vec<u8>) {
        let hex = |digest: &Option<Digest>| digest.map_or("-".to_owned(), |digest| digest.to_hex());
        let begin = [
            encoding::hex(&self.append),
            hex(&self.hash),
            hex(&self.key),
            String::new(),
        ];
        text.extend_from_slice(begin.join(" ").as_bytes());
        text.extend_from_slice(&self.line);
        text.push(b'\n');
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = text.splitn(4, |byte| *byte == b' ');
        let mut word = || std::str::from_utf8(parts.next()?).ok();
        let (append, hash, key) = (word()?, word()?, word()?);
        let digest = |text: &str| match text {
            "-" => Some(None),
            hex => Digest::parse_hex(hex).map(Some),
        };
        Some(Self {
            append: encoding::parse_hex_array(append)?,
            hash: digest(hash)?,
            key: digest(key)?,
            line: parts.next()?.to_vec(),
        })
    }
}

/// Rows from bytes that hold nothing else.
pub(super) fn parse_rows(text: &[u8]) -> Option<Vec<Row>> {
    let Some(whole) = text.strip_suffix(b"\n") else {
        return text.is_empty().then(Vec::new);
    };
    whole.split(|byte| *byte == b'\n').map(Row::parse).collect()
}

/// The digest by which a segment is found.
pub(super) fn key_digest(key: &str) -> Digest {
    Digest::tagged("ledger idempotency key", &[key.as_bytes()])
}

/// A sealed object, by its records and its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ref {
    /// Number of its first record.
    pub(super) first: u64,
    pub(super) count: u64,
    /// SHA-256 of the object's bytes, in hex.
    pub(super) sha256: String,
    /// Of a segment: the filter of its keys; `None` if there is none.
    pub(super) keys: Option<String>,
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
    /// May a segment hold a record with this key?
    pub(super) fn may_hold(&self, key: &Digest) -> bool {
        let filter = self.keys.as_deref().map(encoding::parse_base64);
        match filter {
            None => false,
            Some(Some(filter)) if filter.len() == FILTER_BYTES => {
                bits(key).all(|(byte, bit)| filter[byte] & bit != 0)
            }
            // One that cannot be read excludes nothing.
            Some(_) => true,
        }
    }
}

/// The four bits of a key in a filter.
fn bits(key: &Digest) -> impl Iterator<Item = (usize, u8)> {
    let pairs = key.as_bytes().chunks_exact(2).take(4);
    let places: Vec<(usize, u8)> = pairs
        .map(|pair| (usize::from(pair[0]) % FILTER_BYTES, 1 << (pair[1] % 8)))
        .collect();
    places.into_iter()
}

fn filter(rows: &[Row]) -> Option<String> {
    let mut filter = [0_u8; FILTER_BYTES];
    for key in rows.iter().filter_map(|row| row.key.as_ref()) {
        bits(key).for_each(|(byte, bit)| filter[byte] |= bit);
    }
    let has_keys = filter.iter().any(|byte| *byte != 0);
    has_keys.then(|| encoding::base64(&filter))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SegmentHead {
    run: String,
    first: u64,
    count: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexBody {
    run: String,
    level: usize,
    refs: Vec<Ref>,
}

/// Seals `rows`, at least one.
pub(super) fn seal_segment(run: &RunId, first: u64, rows: &[Row]) -> (Ref, Sealed) {
    let count = rows.len() as u64;
    let head = SegmentHead {
        run: run.as_str().to_owned(),
        first,
        count,
    };
    let mut bytes = SEGMENT.as_bytes().to_vec();
    bytes.extend_from_slice(json(&head).as_bytes());
    rows.iter().for_each(|row| row.write(&mut bytes));
    let found = Ref {
        first,
        count,
        sha256: Digest::of(&bytes).to_hex(),
        keys: filter(rows),
    };
    let name = segment_name(run, &found);
    (found, Sealed { name, bytes })
}

/// Seals the references to the objects of one level, at least one.
pub(super) fn seal_index(run: &RunId, level: usize, refs: Vec<Ref>) -> (Ref, Sealed) {
    let first = refs.first().map_or(0, |first| first.first);
    let end = refs.last().map_or(0, Ref::end);
    let run_text = run.as_str().to_owned();
    let body = IndexBody {
        run: run_text,
        level,
        refs,
    };
    let bytes = format!("{INDEX}{}", json(&body)).into_bytes();
    let found = Ref {
        first,
        count: end.saturating_sub(first),
        sha256: Digest::of(&bytes).to_hex(),
        keys: None,
    };
    let name = index_name(run, level, &found);
    (found, Sealed { name, bytes })
}

/// The rows of a segment; `None` unless it is the segment of `wanted`.
pub(super) fn parse_segment(run: &RunId, wanted: &Ref, bytes: &[u8]) -> Option<Vec<Row>> {
    let rest = bytes.strip_prefix(SEGMENT.as_bytes())?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let head: SegmentHead = serde_json::from_slice(&rest[..end]).ok()?;
    let rows = parse_rows(&rest[end + 1..])?;
    let fits = head.run == run.as_str()
        && (head.first, head.count) == (wanted.first, wanted.count)
        && rows.len() as u64 == head.count;
    fits.then_some(rows)
}

/// The references in an index; `None` unless it is the index of `wanted`, without gaps.
pub(super) fn parse_index(
    run: &RunId,
    level: usize,
    wanted: &Ref,
    bytes: &[u8],
) -> Option<Vec<Ref>> {
    let rest = bytes.strip_prefix(INDEX.as_bytes())?;
    let body: IndexBody = serde_json::from_slice(rest).ok()?;
    let fits = body.run == run.as_str()
        && body.level == level
        && joins(&body.refs, wanted.first) == Some(wanted.end());
    fits.then_some(body.refs)
}

/// The folder of the segments of a run.
pub(super) fn segment_folder(run: &RunId) -> String {
    format!("segments/{}", encoding::hex(run.as_str().as_bytes()))
}

/// The folder of the indexes of a run.
pub(super) fn index_folder(run: &RunId) -> String {
    format!("indexes/{}", encoding::hex(run.as_str().as_bytes()))
}

pub(super) fn segment_name(run: &RunId, found: &Ref) -> String {
    let folder = segment_folder(run);
    format!("{folder}/{:020}-{}", found.first, found.sha256)
}

pub(super) fn index_name(run: &RunId, level: usize, found: &Ref) -> String {
    let folder = index_folder(run);
    format!("{folder}/{level:02}-{:020}-{}", found.first, found.sha256)
}
