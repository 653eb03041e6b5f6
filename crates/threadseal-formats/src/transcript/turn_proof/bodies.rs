//! Detached bodies in the proof of a turn: the lines of the turn only commit to them.
//!
//! ```text
//! body {"commitment":HEX,"salt":HEX,"body":BODY} LF      a line of the file of bodies,
//!                                                        in the order of the commitments
//! ```
//! A body counts under the one commitment of a shown line that it matches. A body that matches none
//! is evidence. A missing body is reported, and stays open unless a redaction among the shown lines
//! gives the reason.

use super::read::{Record, tampered_at};
use super::{ShownLine, TurnProof, make};
use crate::transcript::bodies::{Commitment, Entry, Restorer, commitments, may_hold};
use crate::transcript::event;
use crate::transcript::manifest::{self, Bodies as Where};
use crate::transcript::scan::Failure;
use std::collections::{BTreeMap, BTreeSet};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_RECORD_BODIES;
use threadseal_core::record::RecordId;
use threadseal_core::report::{CheckName, CheckResult, Finding, FindingCode, Report, Verdict};

/// A proof that carries the bodies of its turn.
#[derive(Debug)]
pub struct WithBodies {
    /// The proof.
    pub proof: TurnProof,
    /// The reasons in the redactions of bodies that are therefore missing, as readers of the record
    /// see them; each once.
    pub redacted: BTreeSet<String>,
}

impl TurnProof {
    /// The proof with the bodies of its turn. `bodies` is the content of the file of bodies, and
    /// `record` that of the record. Bodies that a redaction in the record names are left out.
    ///
    /// # Errors
    /// Kind `Limit` when the proof is too large with them.
    pub fn with_bodies(self, record: &[u8], bodies: &[u8]) -> Result<WithBodies, Error> {
        let nothing = BTreeSet::new();
        let Some(manifest) = manifest::parse_line(self.manifest.as_bytes())
            .filter(|manifest| manifest.bodies == Where::Detached)
        else {
            let (proof, redacted) = (self, nothing);
            return Ok(WithBodies { proof, redacted });
        };
        let mut restorer = Restorer::new(&manifest.record, bodies);
        let lines = record.split(|byte| *byte == b'\n');
        lines.for_each(|line| restorer.note(line));
        let texts: BTreeMap<Digest, &[u8]> = entries(bodies)
            .filter(|(entry, _)| entry.holds(&manifest.record))
            .map(|(entry, line)| (entry.commitment, line))
            .collect();
        let (mut carried, mut redacted) = (Vec::new(), nothing);
        for line in self.turn_lines() {
            for found in commitments_of(line).unwrap_or_default() {
                redacted.extend(restorer.hole_of(&found.digest).map(str::to_owned));
                let stays = restorer.text_of(&found.digest).is_some();
                if let Some(text) = texts.get(&found.digest).filter(|_| stays) {
                    carried.push(make::text(text)?);
                }
            }
        }
        let proof = Self {
            bodies: carried,
            ..self
        };
        let proof = proof.within_bounds()?;
        Ok(WithBodies { proof, redacted })
    }

    /// The lines of the turn, without the seal before it.
    fn turn_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().skip(1).map(String::as_str)
    }

    /// Compares the bodies with the commitments of the turn, and puts them into its lines.
    pub(super) fn check_bodies(
        &self,
        record: &Record<'_>,
        lines: &mut [ShownLine],
    ) -> Result<Option<Carried>, Failure> {
        let is_detached = record.manifest.bodies == Where::Detached;
        let id = &record.manifest.record;
        let mut claims = self.claims(id).peekable();
        let mut seen = BTreeSet::new();
        for line in lines.iter().filter(|_| is_detached) {
            let malformed =
                |text| tampered_at(FindingCode::EventMalformed, text, Some(line.number));
            let found = commitments_of(&line.text);
            let found =
                found.ok_or_else(|| malformed("a commitment is not in its canonical form"))?;
            for commitment in found {
                if !seen.insert(commitment.digest) {
                    return Err(malformed("a commitment occurs twice"));
                }
                claims.next_if_eq(&Some((commitment.digest, commitment.bytes)));
            }
        }
        if claims.peek().is_some() {
            let text = "the proof has a body to which no line of the turn commits";
            return Err(tampered_at(FindingCode::BodyChanged, text, None));
        }
        if seen.is_empty() {
            return Ok(None);
        }
        let entries = self.bodies.iter();
        let entries = entries.filter_map(|line| Entry::parse(line.as_bytes()));
        let mut restorer = Restorer::of(id, entries, "[the body is not in the proof]");
        let closing = std::iter::once(self.closing.as_str());
        for line in self.turn_lines().chain(closing) {
            restorer.note(line.as_bytes());
        }
        let (mut carried, mut open) = (Carried::default(), seen);
        open.retain(|digest| {
            let is_redacted = restorer.hole_of(digest).is_some();
            carried.redacted += u64::from(is_redacted);
            restorer.text_of(digest).is_none() && !is_redacted
        });
        carried.unread = open.len() as u64;
        for line in lines {
            let whole = restorer.restore(line.text.as_bytes());
            if whole != line.text.as_bytes() {
                line.restored = Some(String::from_utf8_lossy(&whole).into_owned());
            }
        }
        Ok(Some(carried))
    }

    /// The commitments that the bodies match, and their lengths; None for a body that does not
    /// match.
    fn claims(&self, record: &RecordId) -> impl Iterator<Item = Option<(Digest, u64)>> {
        self.bodies.iter().map(|line| {
            let entry = Entry::parse(line.as_bytes()).filter(|entry| entry.holds(record))?;
            Some((entry.commitment, entry.body.len() as u64))
        })
    }
}

/// The state of the bodies of a turn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Carried {
    /// Neither included nor redacted by the shown lines.
    unread: u64,
    /// Redacted by a seal that is shown.
    redacted: u64,
}

impl Carried {
    pub(super) fn tell(self, report: &mut Report) {
        let Self { unread, redacted } = self;
        if redacted > 0 {
            let were = if redacted == 1 { "was" } else { "were" };
            let text = format!("{} of the turn {were} redacted", bodies(redacted));
            report.find(Finding::note(FindingCode::Redacted, text));
        }
        if unread == 0 {
            report.check(CheckName::Bodies, CheckResult::Pass, None);
            return;
        }
        let why = "bodies are not in the proof";
        report.check(
            CheckName::Bodies,
            CheckResult::Skipped,
            Some(why.to_owned()),
        );
        let text = format!(
            "not in the proof: {} of the turn, left out or redacted later; the lines only commit to their content",
            bodies(unread)
        );
        report.downgrade(
            Verdict::Partial,
            Finding::warning(FindingCode::BodiesUnread, text),
        );
    }
}

/// `1 body`, `2 bodies`
fn bodies(count: u64) -> String {
    match count {
        1 => "1 body".to_owned(),
        _ => format!("{count} bodies"),
    }
}

/// Lines of a file of bodies.
fn entries(file: &[u8]) -> impl Iterator<Item = (Entry<'_>, &[u8])> {
    let lines = file.split_inclusive(|byte| *byte == b'\n').skip(1);
    lines.filter_map(|line| {
        let line = line.strip_suffix(b"\n")?;
        Some((Entry::parse(line)?, line))
    })
}

/// The commitments of a line that may have some; none where one is misspelled.
fn commitments_of(line: &str) -> Option<Vec<Commitment>> {
    let frame = event::parse_frame(line.as_bytes());
    match frame.is_some_and(|frame| may_hold(frame.event_type)) {
        true => commitments(line.as_bytes()).ok(),
        false => Some(Vec::new()),
    }
}

impl super::Reader<'_> {
    /// Bodies, each in its one spelling.
    pub(super) fn bodies(&mut self) -> Result<Vec<String>, super::NotAProof> {
        let mut bodies = Vec::new();
        while self.next.is_some_and(|line| line.starts_with("body ")) {
            if bodies.len() >= MAX_RECORD_BODIES {
                return Err(super::NotAProof("it has too many bodies"));
            }
            let line = self.line("body ", "it has no body")?;
            if Entry::parse(line.as_bytes()).is_none() {
                return Err(super::NotAProof("a body is not in its canonical form"));
            }
            bodies.push(line);
        }
        Ok(bodies)
    }
}
