//! The commitments and redactions that a scan keeps, and its conclusions once the bodies are known.
//!
//! Memory: a digest and a few numbers for each commitment, of which a record has at most
//! [`MAX_RECORD_BODIES`].

use super::{Bodies, Redaction, commitments};
use std::collections::BTreeMap;
use threadseal_core::digest::Digest;
use threadseal_core::key::KeyId;
use threadseal_core::limits::{MAX_FINDINGS, MAX_RECORD_BODIES, MAX_REDACTING_SEALS};
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::{CheckName, CheckResult, Finding, FindingCode, Report, Verdict};
use threadseal_core::time::Timestamp;

/// The commitments of one record, as far as it was read.
#[derive(Debug, Clone, Default)]
pub(in crate::transcript) struct Watch {
    is_detached: bool,
    /// Some lines are known by their hash alone, so their commitments are unknown.
    lacks_lines: bool,
    committed: BTreeMap<Digest, Committed>,
    /// Commitments since the last seal.
    fresh: Vec<Digest>,
    redactions: Vec<RedactionNote>,
    /// The first seal that covers each redaction.
    sealed: Vec<SealedRedaction>,
    /// Redactions since the last seal, and the key that they name.
    pending: Vec<Digest>,
    redactor: Option<KeyId>,
}

#[derive(Debug, Clone, Copy)]
struct Committed {
    line: u64,
    bytes: u64,
    /// It is in bytes that no seal covered when the recorder adopted them.
    is_adopted: bool,
    /// The line of the redaction that names it.
    redacted: Option<u64>,
}

/// A seal that is the first to cover one or more redactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedRedaction {
    /// Its head.
    pub head: Head,
    /// The root that it states.
    pub root: Digest,
    /// The key that made it.
    pub key: KeyId,
}

/// A redaction, for people.
#[derive(Debug, Clone)]
struct RedactionNote {
    line: u64,
    text: String,
}

pub(in crate::transcript) struct TooMany;

impl Watch {
    /// The record's bodies are detached.
    pub(in crate::transcript) fn begin(&mut self) {
        self.is_detached = true;
    }

    /// A line is known by its hash alone.
    pub(in crate::transcript) fn line_left_out(&mut self) {
        self.lacks_lines = true;
    }

    pub(in crate::transcript) fn count(&self) -> usize {
        self.committed.len()
    }

    /// Takes the payload of an event that may hold commitments.
    pub(in crate::transcript) fn event(
        &mut self,
        payload: &[u8],
        line: u64,
    ) -> Result<Result<(), String>, TooMany> {
        if !self.is_detached {
            return Ok(Ok(()));
        }
        let Ok(found) = commitments(payload) else {
            return Ok(Err("a commitment is not in its canonical form".to_owned()));
        };
        for commitment in found {
            let committed = Committed {
                line,
                bytes: commitment.bytes,
                is_adopted: false,
                redacted: None,
            };
            if self.committed.len() >= MAX_RECORD_BODIES {
                return Err(TooMany);
            }
            if self.committed.contains_key(&commitment.digest) {
                return Ok(Err("a commitment occurs twice".to_owned()));
            }
            self.committed.insert(commitment.digest, committed);
            self.fresh.push(commitment.digest);
        }
        Ok(Ok(()))
    }

    pub(in crate::transcript) fn redacted(
        &mut self,
        payload: &[u8],
        timestamp: Timestamp,
        line: u64,
    ) -> Result<(), String> {
        let redaction = Redaction::parse(payload)
            .ok_or("the redaction lacks a member, or has a malformed one")?;
        if self.redactor.is_some_and(|key| key != redaction.key) {
            return Err("two redactions under one seal name different keys".to_owned());
        }
        for digest in &redaction.commitments {
            match self.committed.get_mut(digest) {
                Some(committed) => {
                    committed.redacted.get_or_insert(line);
                    self.pending.push(*digest);
                }
                // Its commitment may be in a line that is left out.
                None if self.lacks_lines => {}
                None => return Err("the redaction names a body that was never recorded".to_owned()),
            }
        }
        self.redactor = Some(redaction.key);
        if self.redactions.len() <= MAX_FINDINGS {
            let (count, by, why) = (redaction.commitments.len(), &redaction.by, &redaction.why);
            let at = timestamp.to_iso_seconds();
            let what = if count == 1 { "body" } else { "bodies" };
            let text = format!("{count} {what} redacted by {by:?} at {at}: {why:?}");
            self.redactions.push(RedactionNote { line, text });
        }
        Ok(())
    }

    /// Bytes since the last seal are adopted as unverified.
    pub(in crate::transcript) fn adopted(&mut self, after_line: u64) {
        for digest in self.fresh.drain(..) {
            if let Some(committed) = self.committed.get_mut(&digest) {
                committed.is_adopted = true;
            }
        }
        for digest in self.pending.drain(..) {
            if let Some(committed) = self.committed.get_mut(&digest)
                && committed.redacted.is_some_and(|line| line > after_line)
            {
                committed.redacted = None;
            }
        }
        self.redactions.retain(|told| told.line <= after_line);
        self.redactor = None;
    }

    /// The key that must make the next seal, if redactions name one.
    pub(in crate::transcript) fn redactor(&self) -> Option<KeyId> {
        self.redactor
    }

    /// A valid seal with these values covers the lines read so far.
    pub(in crate::transcript) fn sealed(&mut self, head: Head, root: Digest, key: KeyId) {
        if self.redactor.is_some() && self.sealed.len() < MAX_REDACTING_SEALS {
            self.sealed.push(SealedRedaction { head, root, key });
        }
        self.fresh.clear();
        self.pending.clear();
        self.redactor = None;
    }

    /// The seals that are the first to cover a redaction, in their order.
    pub(in crate::transcript) fn redactions(&self) -> &[SealedRedaction] {
        &self.sealed
    }

    /// Judges the bodies of all lines up to `sealed_line`; returns the redacted ones that are still
    /// present.
    pub(in crate::transcript) fn judge(
        &self,
        report: &mut Report,
        record: &RecordId,
        sealed_line: u64,
        bodies: Option<&Bodies>,
    ) -> Vec<Digest> {
        if !self.is_detached {
            return Vec::new();
        }
        for told in self.redactions.iter().filter(|t| t.line <= sealed_line) {
            report.find(Finding::note(FindingCode::Redacted, told.text.clone()).at_line(told.line));
        }
        let Some(bodies) = bodies else {
            self.unread(report, sealed_line);
            return Vec::new();
        };
        let (mut unfinished, mut holds) = (Vec::new(), true);
        for (digest, committed) in &self.committed {
            let is_sealed = committed.line <= sealed_line && !committed.is_adopted;
            let is_redacted = committed.redacted.is_some_and(|line| line <= sealed_line);
            let fits = bodies.held.get(digest) == Some(&committed.bytes);
            if is_redacted && bodies.names(digest) {
                unfinished.push(*digest);
            } else if is_sealed && !is_redacted && !fits {
                let finding = missing(bodies, digest).at_line(committed.line);
                report.downgrade(Verdict::Tampered, finding);
                holds = false;
            }
        }
        if !unfinished.is_empty() {
            let count = unfinished.len();
            let text = format!(
                "{count} redacted bodies are still stored; hint: drop them with threadseal redact --finish"
            );
            report.find(Finding::warning(FindingCode::RedactionUnfinished, text));
        }
        holds &= self.judge_file(report, record, bodies);
        report.check(CheckName::Bodies, CheckResult::of(holds), None);
        unfinished
    }

    /// Findings about the file of bodies itself; true when it is one of this record.
    fn judge_file(&self, report: &mut Report, record: &RecordId, bodies: &Bodies) -> bool {
        let mut holds = true;
        if bodies.record.is_some_and(|named| named != *record) {
            let text = "the file of bodies is of another record";
            report.downgrade(
                Verdict::Tampered,
                Finding::error(FindingCode::BodiesForeign, text),
            );
            holds = false;
        }
        if let Some(line) = bodies.malformed {
            let text = format!("line {line} of the file of bodies is not valid");
            report.downgrade(
                Verdict::Tampered,
                Finding::error(FindingCode::BodiesMalformed, text),
            );
            holds = false;
        }
        if bodies.torn {
            let text = "the last line of the file of bodies is incomplete: a write was interrupted";
            report.find(Finding::note(FindingCode::BodiesTorn, text));
        }
        let all = bodies.held.keys().chain(&bodies.changed);
        let unknown = all.filter(|digest| !self.committed.contains_key(digest));
        let unknown = unknown.count();
        if unknown > 0 {
            let text = format!(
                "no line commits to {unknown} bodies; hint: drop them with threadseal redact --finish"
            );
            report.find(Finding::note(FindingCode::BodyUnknown, text));
        }
        holds
    }

    fn unread(&self, report: &mut Report, sealed_line: u64) {
        let needed = |c: &&Committed| {
            let is_sealed = c.line <= sealed_line && !c.is_adopted;
            is_sealed && c.redacted.is_none_or(|line| line > sealed_line)
        };
        let count = self.committed.values().filter(needed).count();
        let why = "the file of bodies was not given";
        report.check(
            CheckName::Bodies,
            CheckResult::Skipped,
            Some(why.to_owned()),
        );
        if count > 0 {
            let text = format!("{count} bodies of the record were not given, and not checked");
            report.downgrade(
                Verdict::Partial,
                Finding::warning(FindingCode::BodiesUnread, text),
            );
        }
    }
}

fn missing(bodies: &Bodies, digest: &Digest) -> Finding {
    if bodies.names(digest) {
        let text = format!("the body of commitment {digest} is not the one that was recorded");
        return Finding::error(FindingCode::BodyChanged, text);
    }
    let text =
        format!("the body of commitment {digest} is missing, and no sealed redaction explains it");
    Finding::error(FindingCode::BodyMissing, text)
}
