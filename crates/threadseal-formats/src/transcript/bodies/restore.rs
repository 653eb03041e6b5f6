//! Puts bodies in the place of their commitments, and shows the holes.

use super::{Commitment, Entry, Kind, Redaction, commitments};
use crate::transcript::event::{self, Frame};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use threadseal_core::canon::json;
use threadseal_core::digest::Digest;
use threadseal_core::record::RecordId;

/// The available bodies of one record, and the reasons why others are missing.
#[derive(Debug, Clone)]
pub struct Restorer<'a> {
    texts: BTreeMap<Digest, Cow<'a, [u8]>>,
    holes: BTreeMap<Digest, Arc<str>>,
    /// Redactions that no seal covers yet.
    pending: Vec<(Digest, Arc<str>)>,
    /// The text for a body that is missing and not redacted.
    absent: &'static str,
}

impl<'a> Restorer<'a> {
    /// The bodies of `record` in `file`, the bytes of its file of bodies. A body that does not
    /// match its commitment is left out.
    pub fn new(record: &RecordId, file: &'a [u8]) -> Self {
        let lines = file.split_inclusive(|byte| *byte == b'\n').skip(1);
        let entries = lines.filter_map(|line| Entry::parse(line.strip_suffix(b"\n")?));
        Self::of(record, entries, "[the body is missing]")
    }

    /// The bodies of `record` among these; `absent` is the text for a missing one.
    pub(in crate::transcript) fn of(
        record: &RecordId,
        entries: impl Iterator<Item = Entry<'a>>,
        absent: &'static str,
    ) -> Self {
        let fitting = entries.filter(|entry| entry.holds(record));
        Self {
            absent,
            texts: fitting
                .map(|entry| (entry.commitment, Cow::Borrowed(entry.body)))
                .collect(),
            holes: BTreeMap::new(),
            pending: Vec::new(),
        }
    }

    /// Notes `line`, the next one of the record. The bodies of a redaction that a seal covers
    /// become holes, even if they are still present. A redaction in a tail that a recorder adopted
    /// has no effect.
    pub fn note(&mut self, line: &[u8]) {
        let Some(frame) = event::parse_frame(line) else {
            return;
        };
        match frame.event_type {
            "redacted" => self.redacted(&frame),
            "tail_adopted" => self.pending.clear(),
            "checkpoint" => {
                for (digest, text) in self.pending.drain(..) {
                    self.texts.remove(&digest);
                    self.holes.insert(digest, text);
                }
            }
            _ => {}
        }
    }

    fn redacted(&mut self, frame: &Frame<'_>) {
        if let Some(redaction) = Redaction::parse(frame.payload) {
            let (by, why) = (&redaction.by, &redaction.why);
            let at = frame.timestamp.to_iso_seconds();
            let text: Arc<str> = format!("[redacted by {by} at {at}: {why}]").into();
            let digests = redaction.commitments.into_iter();
            self.pending
                .extend(digests.map(|digest| (digest, Arc::clone(&text))));
        }
    }

    /// Is each body of `line` present, or redacted?
    pub fn knows(&self, line: &[u8]) -> bool {
        found(line).iter().all(|found| {
            let body = self.texts.get(&found.digest);
            body.is_some_and(|body| body.len() as u64 == found.bytes)
                || self.holes.contains_key(&found.digest)
        })
    }

    /// The body of a commitment, if it is present and not redacted.
    pub fn text_of(&self, commitment: &Digest) -> Option<&[u8]> {
        self.texts.get(commitment).map(|text| &**text)
    }

    /// The reason why a body is missing, if a redaction gives one.
    pub fn hole_of(&self, commitment: &Digest) -> Option<&str> {
        self.holes.get(commitment).map(|text| &**text)
    }

    /// The same, independent of the bytes of the file.
    pub fn into_owned(self) -> Restorer<'static> {
        let texts = self.texts.into_iter();
        Restorer {
            texts: texts
                .map(|(digest, text)| (digest, Cow::Owned(text.into_owned())))
                .collect(),
            holes: self.holes,
            pending: self.pending,
            absent: self.absent,
        }
    }

    /// `line` with each body in its place; a hole shows the reason, or that the body is missing.
    pub fn restore<'l>(&self, line: &'l [u8]) -> Cow<'l, [u8]> {
        let found = found(line);
        if found.is_empty() {
            return Cow::Borrowed(line);
        }
        let (mut out, mut copied) = (Vec::with_capacity(line.len()), 0);
        for commitment in found {
            out.extend_from_slice(&line[copied..commitment.place.start]);
            copied = commitment.place.end;
            match self.texts.get(&commitment.digest) {
                Some(body) => out.extend_from_slice(body),
                None => {
                    let hole = self.holes.get(&commitment.digest);
                    let text = hole.map_or(self.absent, |text| text);
                    write_hole(&mut out, commitment.kind, text);
                }
            }
        }
        out.extend_from_slice(&line[copied..]);
        Cow::Owned(out)
    }
}

/// The commitments of a line that may hold some.
fn found(line: &[u8]) -> Vec<Commitment> {
    let may_hold =
        || event::parse_frame(line).is_some_and(|frame| super::may_hold(frame.event_type));
    match commitments(line) {
        Ok(found) if !found.is_empty() && may_hold() => found,
        _ => Vec::new(),
    }
}

fn write_hole(out: &mut Vec<u8>, kind: Kind, text: &str) {
    let (begin, end) = match kind {
        Kind::String => ("", ""),
        Kind::Object => ("{\"redacted\":", "}"),
        Kind::Array => ("[", "]"),
    };
    out.extend_from_slice(begin.as_bytes());
    json::write_ascii_string(out, text);
    out.extend_from_slice(end.as_bytes());
}
