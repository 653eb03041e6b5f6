//! Checks a proof of a turn against trust.
//!
//! ```text
//! manifest ─ its digest is the origin of every note ─► keys ─► closing seal ─ signature, root
//!          ─► lines of the turn
//! ```
//! Only the closing seal's signature counts. The seal vouches for each shown line by the range
//! proof, and for the seals among them by their links. The turn counts of these seals vouch for the
//! bounds of the turn.

use super::anchor::{Anchor, Anchored, Sealed};
use super::bodies::Carried;
use super::key_succession::Sealers;
use super::known::ClosingSeal;
use super::order::ReadLine;
use super::read::{ReadSeal, Record, bad_step, forged, tampered_at};
use super::turn::{Turn, end_of};
use super::{Chain, TurnProof};
use crate::transcript::VerifyOptions;
use crate::transcript::scan::Failure;
use crate::transcript::seal::Seal;
use crate::transcript::verify::{self, Signed};
use threadseal_core::digest::Digest;
use threadseal_core::key::{Message, PublicKey};
use threadseal_core::merkle::leaf_hash;
use threadseal_core::record::{Head, ThreadId};
use threadseal_core::report::{
    CheckName, CheckResult, Finding, FindingCode, Format, Profile, Report, Stats, Verdict,
};
use threadseal_core::time::Timestamp;
use threadseal_core::tlog::policy::Policy;

/// The result of a check.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The verdict and its evidence. `verified`: a trusted key sealed these lines as the whole of
    /// this turn. `open`: as lines of this turn, which may have more.
    pub report: Report,
    /// The number of the shown turn; none where there is evidence against the proof.
    pub turn: Option<u64>,
    /// The lines of the turn, the seals among them included; none where there is evidence against
    /// the proof.
    pub lines: Vec<ShownLine>,
    /// Where a log has the closing seal, and which witnesses saw it. None where the proof has no
    /// such part, or there is evidence against it.
    pub anchor: Option<Anchored>,
    /// The facts that a log may contradict; none where there is evidence against the proof alone.
    pub closing: Option<ClosingSeal>,
}

/// One line of the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownLine {
    /// Its number in the record, from 1.
    pub number: u64,
    /// Its type.
    pub event_type: String,
    /// The line without its LF, as in the record.
    pub text: String,
    /// The line with bodies, or the holes, in the place of its commitments; none where it has no
    /// commitment.
    pub restored: Option<String>,
}

impl ShownLine {
    /// The content of the line, as far as the proof shows it.
    pub fn said(&self) -> &str {
        self.restored.as_deref().unwrap_or(&self.text)
    }
}

/// Gives the verdict on a file that begins as a proof of a turn.
pub fn check_file(file: &[u8], options: &VerifyOptions<'_>) -> Checked {
    check_file_by(file, options, None)
}

/// As [`check_file`]; also checks whether a log has the closing seal, seen by a quorum of this
/// policy's witnesses.
pub fn check_file_by(file: &[u8], options: &VerifyOptions<'_>, policy: Option<&Policy>) -> Checked {
    let mut checked = match TurnProof::parse(file) {
        Ok(proof) => proof.check_by(options, policy),
        Err(error) => {
            let mut report = Report::begin(Format::Proof, Profile::Native);
            report.trust = Some(options.trust.digest());
            let finding = Finding::error(FindingCode::ProofMalformed, error.to_string());
            report.downgrade(Verdict::Malformed, finding);
            Checked {
                report,
                turn: None,
                lines: Vec::new(),
                anchor: None,
                closing: None,
            }
        }
    };
    checked.report.stats.bytes = file.len() as u64;
    checked
}

impl TurnProof {
    /// Gives the verdict on the proof under this trust.
    pub fn check(&self, options: &VerifyOptions<'_>) -> Checked {
        self.check_by(options, None)
    }

    fn check_by(&self, options: &VerifyOptions<'_>, policy: Option<&Policy>) -> Checked {
        let mut report = Report::begin(Format::Proof, Profile::Native);
        report.trust = Some(options.trust.digest());
        report.stats = Stats {
            events: self.lines.len() as u64,
            ..Stats::default()
        };
        let mut passed = Vec::new();
        let found = self.look(&mut passed);
        for name in passed {
            report.check(name, CheckResult::Pass, None);
        }
        let found = match found {
            Ok(found) => found,
            Err(failure) => {
                report.hold(failure.verdict);
                failure.findings.into_iter().for_each(|f| report.find(f));
                return Checked {
                    report,
                    turn: None,
                    lines: Vec::new(),
                    anchor: None,
                    closing: None,
                };
            }
        };
        report.record = Some(found.head.record);
        report.head = Some(found.head);
        report.dates.sealed = Some(found.sealed);
        report.stats.checkpoints = found.seals;
        let why = "the bytes before the shown lines are not in the proof";
        report.check(
            CheckName::Prefix,
            CheckResult::Skipped,
            Some(why.to_owned()),
        );
        let signed = Signed {
            authority: &found.authority,
            sealers: &found.sealers.all,
            last_word: found.sealers.last_word,
            heirs: &found.sealers.heirs,
            arithmetic_holds: true,
            thread: Some(found.thread.clone()),
        };
        verify::judge_signers(&mut report, &signed, options);
        verify::expect_thread(&mut report, Some(&found.thread), options.thread);
        self.conclude(&found, &mut report);
        let anchor = Anchor::judge(self.anchor.as_deref(), &found.sealed(), policy, &mut report);
        let holds = !report.verdict.is_evidence();
        // A caller who asks for a signer does not ask for the words of another one.
        let proved = holds && !report.has_other_signer();
        Checked {
            closing: holds.then(|| found.closing(&self.manifest)),
            report,
            turn: proved.then_some(self.turn),
            lines: if proved { found.lines } else { Vec::new() },
            anchor: anchor.filter(|_| proved),
        }
    }

    fn conclude(&self, found: &Found, report: &mut Report) {
        if found.guessable {
            let text = "lines of the record share a salt: a reader can test guesses about the content of its other lines";
            report.find(Finding::warning(FindingCode::SiblingsGuessable, text));
        }
        if found.adopted {
            let text = "the recorder adopted bytes of the turn that no seal covered";
            let finding = Finding::warning(FindingCode::TailAdopted, text).in_turn(Some(self.turn));
            report.downgrade(Verdict::Partial, finding);
        }
        if let Some(bodies) = found.bodies {
            bodies.tell(report);
        }
        if !found.closed {
            let text =
                "the record had not reached its next turn or its end: this turn may continue";
            let finding = Finding::note(FindingCode::TurnMayGoOn, text).in_turn(Some(self.turn));
            report.downgrade(Verdict::Open, finding);
        }
    }

    /// All checks but trust; `passed` gets the name of each check that held.
    fn look(&self, passed: &mut Vec<CheckName>) -> Result<Found, Failure> {
        let mut record = Record::of(&self.manifest)?;
        passed.push(CheckName::Manifest);
        let closing = record.seal(&self.closing, None)?;
        let sealers = self.sealers(&mut record, &closing)?;
        passed.extend([CheckName::Keys, CheckName::Signatures]);
        self.check_range(&closing.seal)?;
        passed.push(CheckName::Inclusion);
        let (mut turn, lines) = self.check_lines(&mut record, &closing.seal)?;
        self.check_order(&record, &lines, &closing)?;
        self.check_reserved(&record, &lines, &closing)?;
        passed.push(CheckName::Turn);
        let bodies = self.check_bodies(&record, &mut turn.lines)?;
        Ok(Found {
            head: Head {
                record: record.manifest.record,
                seq: closing.seal.seq,
                size: end_of(closing.seal.byte_offset, &self.closing),
                line: Digest::of(self.closing.as_bytes()),
            },
            root: closing.seal.root,
            sealed: closing.seal.time,
            thread: record.thread_id()?,
            authority: record.manifest.authority,
            sealers,
            lines: turn.lines,
            seals: turn.seals,
            adopted: turn.adopted,
            bodies,
            guessable: record.salts_repeat,
            closed: closing.seal.turn > self.turn || closing.seal.is_final,
        })
    }

    fn check_range(&self, closing: &Seal) -> Result<(), Failure> {
        let leaves: Vec<Digest> = self
            .lines
            .iter()
            .map(|line| leaf_hash(line.as_bytes()))
            .collect();
        let root = self.range.root(&leaves, self.first - 1, closing.lines);
        match root == Ok(closing.root) {
            true => Ok(()),
            false => {
                let text = "these are not the lines that were sealed in this place";
                Err(tampered_at(FindingCode::ContentChanged, text, None))
            }
        }
    }

    fn check_lines<'a>(
        &'a self,
        record: &mut Record<'a>,
        closing: &Seal,
    ) -> Result<(Turn, Vec<ReadLine<'a>>), Failure> {
        let (mut turn, mut lines) = (Turn::default(), Vec::new());
        for (line, number) in self.lines.iter().zip(self.first..) {
            let frame = record.line(line, Some(number))?;
            let seal = match frame.event_type {
                "checkpoint" => Some(record.seal(line, Some(number))?.seal),
                _ => None,
            };
            let taken = turn.take(self.turn, (line, number), &frame, seal.as_ref());
            taken.map_err(|(code, text)| tampered_at(code, text, Some(number)))?;
            lines.push(ReadLine {
                text: line,
                number,
                frame,
                seal,
            });
        }
        let closed = turn.close(self.turn, closing);
        closed.map_err(|(code, text)| tampered_at(code, text, None))?;
        Ok((turn, lines))
    }
}

impl Chain {
    /// The keys from line 1 to the one of the closing seal, that one last.
    pub(super) fn follow<'a>(
        &'a self,
        record: &mut Record<'a>,
        closing: &ReadSeal,
    ) -> Result<Vec<PublicKey>, Failure> {
        let (mut key, mut keys, mut after) = (record.manifest.key, Vec::new(), None);
        let mut named = vec![key];
        match self {
            Self::Delegation(word) => {
                let (delegate, signature) = &**word;
                record.check_delegation(delegate, signature)?;
                key = *delegate;
            }
            Self::Steps(steps) => {
                for step in steps {
                    let (seq, by, next) = record.step(step, &key)?;
                    if after.is_some_and(|after| seq <= after) {
                        return Err(bad_step("a step does not follow the step before it"));
                    }
                    // A key that was replaced never comes back, and the authority is never named.
                    if named.contains(&next) || next == record.manifest.authority {
                        return Err(bad_step("a step names a key that sealed before"));
                    }
                    named.push(next);
                    after = Some(seq);
                    keys.push(by);
                    key = next;
                }
            }
        }
        let last = &closing.seal;
        key = record.sealer(last, &key);
        if after.is_some_and(|after| last.seq <= after) || key.key_id() != last.key {
            let text = format!("key {} may not seal this record", last.key);
            return Err(forged(FindingCode::KeyNotAllowed, text));
        }
        keys.push(key);
        Ok(keys)
    }
}

/// Is the seal signed by `sealer`, and by the record's Rye key?
pub(super) fn check_signatures(
    record: &Record<'_>,
    sealer: Option<&PublicKey>,
    closing: &ReadSeal,
) -> Result<(), Failure> {
    let seal = &closing.seal;
    if !sealer.is_some_and(|key| closing.note.holds(key)) {
        let text = format!("the signature of key {} does not verify", seal.key);
        return Err(forged(FindingCode::SignatureBad, text));
    }
    let rye_key = &record.manifest.rye_key;
    if seal.fp != rye_key.rye_fingerprint() {
        let text = "\"fp\" is not the fingerprint of the record's Rye key";
        return Err(tampered_at(FindingCode::RyeKeyChanged, text, None));
    }
    let signed = rye_key.verify(&Message::rye_hash(&seal.hash), &seal.sig);
    signed.map_err(|_| {
        let text = "\"sig\" does not verify under the record's Rye key";
        forged(FindingCode::RyeSignatureBad, text)
    })
}

/// The content of a proof, if all of it fits.
struct Found {
    head: Head,
    /// The root that the closing seal states.
    root: Digest,
    /// When that seal was made, by its maker's claim.
    sealed: Timestamp,
    thread: ThreadId,
    authority: PublicKey,
    sealers: Sealers,
    lines: Vec<ShownLine>,
    seals: u64,
    adopted: bool,
    /// The state of the bodies of the turn; none where it has none.
    bodies: Option<Carried>,
    guessable: bool,
    /// Did the record end there, or continue with the next turn?
    closed: bool,
}

impl Found {
    /// The facts of the closing seal that a log may contradict.
    fn closing(&self, line_1: &str) -> ClosingSeal {
        let sealers = self.sealers.all.iter().map(|sealer| sealer.key.key_id());
        ClosingSeal {
            manifest: Digest::of(line_1.as_bytes()),
            keys: sealers.chain([self.authority.key_id()]).collect(),
        }
    }

    /// The values of the closing seal that a log must have.
    fn sealed(&self) -> Sealed<'_> {
        Sealed {
            head: &self.head,
            root: &self.root,
            sealer: self.sealers.all.last().map(|sealer| &sealer.key),
        }
    }
}
