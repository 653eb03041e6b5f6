//! The objects of a ledger: heads, segments of rows, indexes.
//!
//! ```text
//! head      threadseal.object-head/1 <64 hex: SHA-256 of everything after this line> LF
//!           {"run":…,"count":…,"hash":…,"append":…,"deleted":…,"levels":[[{"first":…,…},…],…]} LF
//!           row …
//! segment   threadseal.object-segment/1 LF
//!           {"run":…,"first":…,"count":…} LF
//!           row …
//! index     threadseal.object-index/1 LF
//!           {"run":…,"level":…,"refs":[{"first":…,"count":…,"sha256":…,"keys":…},…]} LF
//! row       <32 hex: append> SP <64 hex: record hash | -> SP <64 hex: key | -> SP <record> LF
//! ```
//! *append* is drawn anew for each append, so that no two heads ever have the same bytes, and a
//! writer whose answer was lost finds its own records. *key* is the tagged digest of the
//! idempotency key, on completed records only. A deleted run has `deleted` (microseconds since
//! 1970), its last count and hash, and nothing else.
//!
//! *Why an orphan stays one for ever*: a head begins to name a sealed object only on one condition.
//! The sealed part of the head before it must end where the object begins. Sealed parts never
//! shrink. Where this head's sealed part is longer, and another object holds those records, such a
//! write can only fail. An object that begins at the end of the sealed part may soon be named, so
//! it stays.

use crate::ledger::{COMPLETED, Entry, MAX_BATCH_BYTES, Tip, Tombstone};
use crate::object_log::{
    FANOUT, Facts, Folders, Format, Head, MAX_LEVELS, Reference, SealedName, Span,
};
use crate::objects::Sealed;
use crate::objects::spell::{json, line};
use serde::{Deserialize, Serialize};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::limits::MAX_LINE_BYTES;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// Bytes of records in a head at which they are sealed. Each append writes them again.
const OPEN_BYTES: usize = 128 << 10;
/// Most records of one segment.
pub(super) const SEGMENT_RECORDS: usize = 256;
/// Bytes of records from which on a segment takes no more.
const SEGMENT_BYTES: usize = 1 << 20;
/// Most bytes of a sealed object: a full segment and one more record of the largest size. The fixed
/// parts of their rows and the head line are included.
const MAX_SEALED_BYTES: usize = SEGMENT_BYTES + MAX_LINE_BYTES + (64 << 10);
const _: () = assert!(MAX_SEALED_BYTES < MAX_BATCH_BYTES);
/// Bytes of a filter of keys: four bits of 2048 for each of at most 256 keys. So one of forty
/// segments is read in vain.
const FILTER_BYTES: usize = 256;
const SEGMENT: &str = "threadseal.object-segment/1\n";

/// Drawn anew for each append.
pub(super) type Nonce = [u8; 16];

/// The format of ledgers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ledgers;

/// The head of a run.
pub(super) type RunHead = Head<Ledgers>;

/// What a head of a run holds beside its records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RunFacts {
    pub(super) tip: Tip,
    append: Nonce,
    deleted: Option<Timestamp>,
}

impl Facts for RunFacts {
    fn end(&self) -> u64 {
        self.tip.count
    }

    fn is_deleted(&self) -> bool {
        self.deleted.is_some()
    }
}

impl RunFacts {
    pub(super) fn tombstone(&self) -> Option<Tombstone> {
        let tip = self.tip;
        self.deleted.map(|at| Tombstone { tip, at })
    }

    /// The facts of the run after its deletion.
    pub(super) fn buried(&self, at: Timestamp, append: Nonce) -> Self {
        Self {
            tip: self.tip,
            append,
            deleted: Some(at),
        }
    }
}

/// The head after `entries`, and the objects that must be written before it.
pub(super) fn after(
    head: Option<&RunHead>,
    run: &RunId,
    entries: &[Entry],
    append: Nonce,
) -> (RunHead, Vec<Sealed>) {
    let mut next = head.map_or_else(|| Head::bare(RunFacts::default()), RunHead::clone);
    let tip = &mut next.facts.tip;
    tip.count += entries.len() as u64;
    if let Some(last) = entries.last() {
        tip.hash = last.record_hash;
    }
    next.facts.append = append;
    let sealed = next.push(run, entries.iter().map(|entry| Row::new(entry, append)));
    (next, sealed)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadForm {
    run: String,
    count: u64,
    hash: Option<String>,
    append: String,
    deleted: Option<u64>,
    levels: Vec<Vec<Ref>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SegmentForm {
    run: String,
    first: u64,
    count: u64,
}

impl Format for Ledgers {
    type Name = RunId;
    type Facts = RunFacts;
    type Ref = Ref;
    type Item = Row;

    const FOLDERS: Folders = Folders {
        heads: "heads",
        gone: "gone",
        segments: "segments",
        indexes: "indexes",
    };
    const HEAD: &'static str = "threadseal.object-head/1";
    const INDEX: &'static str = "threadseal.object-index/1\n";
    const NAME_MEMBER: &'static str = "run";
    const MAX_HEAD_BYTES: usize = OPEN_BYTES + SEGMENT_RECORDS * 512 + MAX_LEVELS * FANOUT * 1024;
    const MAX_INDEX_BYTES: usize = MAX_SEALED_BYTES;
    const MAX_SEGMENT_BYTES: usize = MAX_SEALED_BYTES;
    const ONE_SPELLING: bool = false;
    const ORPHANS_ARE_NUMBERED: bool = false;

    fn text(run: &RunId) -> &str {
        run.as_str()
    }

    fn form(run: &RunId, facts: &RunFacts, levels: &[Vec<Ref>]) -> String {
        json(&HeadForm {
            run: run.as_str().to_owned(),
            count: facts.tip.count,
            hash: facts.tip.hash.map(|hash| hash.to_hex()),
            append: encoding::hex(&facts.append),
            deleted: facts.deleted.map(Timestamp::as_micros),
            levels: levels.to_vec(),
        })
    }

    fn parse_form(run: &RunId, line: &[u8]) -> Option<(RunFacts, Vec<Vec<Ref>>)> {
        let form: HeadForm = serde_json::from_slice(line).ok()?;
        let hash = match form.hash {
            Some(hex) => Some(Digest::parse_hex(&hex)?),
            None => None,
        };
        let deleted = match form.deleted {
            Some(at) => Some(Timestamp::from_micros(at).ok()?),
            None => None,
        };
        let count = form.count;
        let facts = RunFacts {
            tip: Tip { count, hash },
            append: encoding::parse_hex_array(&form.append)?,
            deleted,
        };
        (form.run == run.as_str()).then_some((facts, form.levels))
    }

    fn agrees(facts: &RunFacts, open: &[Row]) -> bool {
        let last = open.last().map(|row| row.hash);
        last.is_none_or(|hash| hash == facts.tip.hash)
    }

    fn write_items(rows: &[Row], out: &mut Vec<u8>) {
        rows.iter().for_each(|row| row.write(out));
    }

    fn parse_items(bytes: &[u8]) -> Option<Vec<Row>> {
        parse_rows(bytes)
    }

    fn is_full(open: &[Row]) -> bool {
        let bytes: usize = open.iter().map(|row| row.line.len()).sum();
        open.len() > SEGMENT_RECORDS || bytes > OPEN_BYTES
    }

    fn segments(rows: &[Row]) -> Vec<&[Row]> {
        let (mut segments, mut begin, mut bytes) = (Vec::new(), 0, 0);
        for (index, row) in rows.iter().enumerate() {
            let is_full =
                index - begin == SEGMENT_RECORDS || bytes + row.line.len() > SEGMENT_BYTES;
            if is_full && index > begin {
                segments.push(&rows[begin..index]);
                (begin, bytes) = (index, 0);
            }
            bytes += row.line.len();
        }
        segments.push(&rows[begin..]);
        segments
    }

    fn encode_segment(run: &RunId, first: u64, rows: &[Row]) -> Vec<u8> {
        let form = SegmentForm {
            run: run.as_str().to_owned(),
            first,
            count: rows.len() as u64,
        };
        let mut bytes = SEGMENT.as_bytes().to_vec();
        bytes.extend_from_slice(json(&form).as_bytes());
        Self::write_items(rows, &mut bytes);
        bytes
    }

    fn parse_segment(run: &RunId, found: &Ref, bytes: Vec<u8>) -> Option<Vec<Row>> {
        if Digest::of(&bytes).to_hex() != found.sha256 {
            return None;
        }
        let (form, rows) = line(bytes.strip_prefix(SEGMENT.as_bytes())?)?;
        let form: SegmentForm = serde_json::from_slice(form).ok()?;
        let rows = parse_rows(rows)?;
        let fits = form.run == run.as_str()
            && (form.first, form.count) == (found.first, found.count)
            && rows.len() as u64 == form.count;
        fits.then_some(rows)
    }

    fn reference(_: &RunFacts, first: u64, count: u64, bytes: &[u8], rows: Option<&[Row]>) -> Ref {
        Ref {
            first,
            count,
            sha256: Digest::of(bytes).to_hex(),
            keys: rows.and_then(filter),
        }
    }

    fn may_come_to_name(
        _: &RunFacts,
        levels: &[Vec<Ref>],
        sealed: u64,
        object: &SealedName<'_>,
    ) -> bool {
        let Some(level) = object.level else {
            return object.first >= sealed;
        };
        // The level above names the indexes of a level; indexes after those are not folded yet.
        let mut above = levels.iter().skip(level + 1);
        let folded = above.find_map(|refs| refs.last()).map_or(0, Ref::end);
        object.first >= folded
    }
}

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

    fn write(&self, text: &mut Vec<u8>) {
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
fn parse_rows(text: &[u8]) -> Option<Vec<Row>> {
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
    first: u64,
    count: u64,
    /// SHA-256 of the object's bytes, in hex.
    sha256: String,
    /// Of a segment: the filter of its keys; `None` if there is none.
    keys: Option<String>,
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
