//! The head of a run: the one object that is written again, by compare-and-swap.
//!
//! ```text
//! threadseal.object-head/1 <64 hex: SHA-256 of everything after this line> LF
//! {"run":…,"count":…,"hash":…,"append":…,"deleted":…,"levels":[[{"first":…,…},…],…]} LF
//! row …                                                   (rows.rs)
//! ```
//! The head contains the newest records, so that an append is one write that happens or does not.
//! After [`OPEN_BYTES`] they are sealed into a segment, which the first level names. [`FANOUT`]
//! segments make an index, which the second level names, and so on. So the head stays small however
//! long the ledger is. From the last level to the first and then in the rows, the records are
//! numbered without gap.
//!
//! `append` is drawn anew for each change, so that no two heads ever have the same bytes. A deleted
//! run has `deleted` (microseconds since 1970), its last count and hash, and nothing else.

use super::rows::{self, Nonce, Ref, Row, SEGMENT_BYTES, SEGMENT_RECORDS};
use crate::ledger::{Entry, Tip, Tombstone};
use crate::objects::Sealed;
use crate::objects::levels::{self, FANOUT, MAX_LEVELS, Span as _};
use crate::objects::spell::{self, json, line};
use serde::{Deserialize, Serialize};
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// Bytes of records in a head at which they are sealed. Each append writes them again.
const OPEN_BYTES: usize = 128 << 10;
pub(super) const MAX_HEAD_BYTES: usize =
    OPEN_BYTES + SEGMENT_RECORDS * 512 + MAX_LEVELS * FANOUT * 1024;

const LABEL: &str = "threadseal.object-head/1";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Head {
    pub(super) tip: Tip,
    pub(super) append: Nonce,
    pub(super) deleted: Option<Timestamp>,
    /// Level 0 names segments, each other one indexes of the level below; the newest last.
    pub(super) levels: Vec<Vec<Ref>>,
    /// The records that are not sealed yet.
    pub(super) open: Vec<Row>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    run: String,
    count: u64,
    hash: Option<String>,
    append: String,
    deleted: Option<u64>,
    levels: Vec<Vec<Ref>>,
}

impl Head {
    /// Name of the object.
    pub(super) fn name(run: &RunId) -> String {
        format!("heads/{}", encoding::hex(run.as_str().as_bytes()))
    }

    pub(super) fn tombstone(&self) -> Option<Tombstone> {
        let tip = self.tip;
        self.deleted.map(|at| Tombstone { tip, at })
    }

    /// Number of the first record that is not sealed.
    pub(super) fn sealed(&self) -> u64 {
        self.tip.count.saturating_sub(self.open.len() as u64)
    }

    pub(super) fn encode(&self, run: &RunId) -> Vec<u8> {
        let form = Form {
            run: run.as_str().to_owned(),
            count: self.tip.count,
            hash: self.tip.hash.map(|hash| hash.to_hex()),
            append: encoding::hex(&self.append),
            deleted: self.deleted.map(Timestamp::as_micros),
            levels: self.levels.clone(),
        };
        let mut body = json(&form).into_bytes();
        self.open.iter().for_each(|row| row.write(&mut body));
        spell::summed(LABEL, &body)
    }

    /// Reads the bytes that [`Head::encode`] wrote for this run; `None` for anything else.
    pub(super) fn decode(run: &RunId, bytes: &[u8]) -> Option<Self> {
        let (form, rows) = line(spell::body(LABEL, bytes)?)?;
        let form: Form = serde_json::from_slice(form).ok()?;
        let hash = match form.hash {
            Some(hex) => Some(Digest::parse_hex(&hex)?),
            None => None,
        };
        let deleted = match form.deleted {
            Some(at) => Some(Timestamp::from_micros(at).ok()?),
            None => None,
        };
        let head = Self {
            tip: Tip {
                count: form.count,
                hash,
            },
            append: encoding::parse_hex_array(&form.append)?,
            deleted,
            levels: form.levels,
            open: rows::parse_rows(rows)?,
        };
        (form.run == run.as_str() && head.is_whole()).then_some(head)
    }

    /// Are the records numbered without gap up to the tip?
    fn is_whole(&self) -> bool {
        if self.deleted.is_some() {
            return self.levels.is_empty() && self.open.is_empty();
        }
        let sealed = levels::end(&self.levels);
        let last = self.open.last().map(|row| row.hash);
        sealed.and_then(|sealed| sealed.checked_add(self.open.len() as u64)) == Some(self.tip.count)
            && last.is_none_or(|hash| hash == self.tip.hash)
    }

    /// The head after `entries`, and the objects that must be written before it.
    pub(super) fn after(
        &self,
        run: &RunId,
        entries: &[Entry],
        append: Nonce,
    ) -> (Self, Vec<Sealed>) {
        let mut next = self.clone();
        next.append = append;
        next.open
            .extend(entries.iter().map(|entry| Row::new(entry, append)));
        next.tip = Tip {
            count: self.tip.count + entries.len() as u64,
            hash: entries
                .last()
                .map_or(self.tip.hash, |last| last.record_hash),
        };
        let mut sealed = Vec::new();
        let bytes: usize = next.open.iter().map(|row| row.line.len()).sum();
        if next.open.len() > SEGMENT_RECORDS || bytes > OPEN_BYTES {
            let mut first = next.sealed();
            let rows = std::mem::take(&mut next.open);
            for segment in segments(&rows) {
                let (found, object) = rows::seal_segment(run, first, segment);
                first = found.end();
                sealed.push(object);
                levels::push(&mut next.levels, 0, found, &mut |level, full| {
                    let (index, object) = rows::seal_index(run, level, full);
                    sealed.push(object);
                    index
                });
            }
        }
        (next, sealed)
    }

    /// The head of the run after its deletion.
    pub(super) fn buried(&self, at: Timestamp, append: Nonce) -> Self {
        Self {
            tip: self.tip,
            append,
            deleted: Some(at),
            ..Self::default()
        }
    }
}

/// Cuts rows into segments.
fn segments(rows: &[Row]) -> Vec<&[Row]> {
    let (mut segments, mut begin, mut bytes) = (Vec::new(), 0, 0);
    for (index, row) in rows.iter().enumerate() {
        let is_full = index - begin == SEGMENT_RECORDS || bytes + row.line.len() > SEGMENT_BYTES;
        if is_full && index > begin {
            segments.push(&rows[begin..index]);
            (begin, bytes) = (index, 0);
        }
        bytes += row.line.len();
    }
    segments.push(&rows[begin..]);
    segments
}
