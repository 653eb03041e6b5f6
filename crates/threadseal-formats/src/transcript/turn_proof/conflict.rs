//! Evidence that the holder of a key sealed two histories: its two seals of one record are not of
//! one history (`spec/proofs.md`, "Conflicts of seals").
//!
//! ```text
//! threadseal/1 conflict of seals LF
//! manifest <line 1 of the record> LF
//! <keys>                       how the key came to seal this record, as in a proof of a turn
//! parted <number> LF           if the seals have two numbers: the line, from 1, that differs
//! leaf <base64> LF hash …      … its leaf under the next seal, and its inclusion
//! seal <line of a seal> LF     the lesser line first
//! leaf … hash …
//! seal <line of a seal> LF
//! ```
//! Two different seals of one number are not of one history. Of two numbers, the earlier seal may
//! be in the history of the later. The line proves that it is not: the two seals cover it with
//! different leaves.
//!
//! Copies of a record that was rolled back and continued part at such a pair. A copy that was only
//! truncated is evidence against no key: any process can truncate one. Seals of two keys are
//! evidence against neither. The record does not show which of them had been given up by then.
//! Seals of a key that ended are evidence only against its holder, who is unknown. One conflict has
//! one text.

mod find;

use super::check::check_signatures;
use super::read::{ReadSeal, Record, failure, forged, tampered_at};
use super::{Chain, NotAProof, Reader, write_hashes};
use crate::transcript::VerifyOptions;
use crate::transcript::scan::Failure;
use crate::transcript::turn_proof::turn::end_of;
use crate::transcript::verify::{self, Signed};
use crate::verified::{Grounds, Verified};
use std::fmt;
use threadseal_core::digest::Digest;
use threadseal_core::encoding;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::MAX_PROOF_HASHES;
use threadseal_core::merkle::{InclusionProof, TreeHead};
use threadseal_core::record::{Head, ThreadId};
use threadseal_core::report::{
    CheckName, CheckResult, Finding, FindingCode, Format, Profile, Report, TrustedUntil, Verdict,
};
use threadseal_core::tlog::entry::fork::{ForkPlace, LoggedFork};
use threadseal_core::trust::LastOf;

/// The first line of a file.
pub const FIRST_LINE: &str = "threadseal/1 conflict of seals";
const PARTED: &str = "parted ";
const LEAF: &str = "leaf ";

/// Two seals as written in a file. An instance proves nothing: call [`SealConflict::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealConflict {
    manifest: String,
    chain: Chain,
    seals: [String; 2],
    parted: Option<Parted>,
}

/// A line that is not the same under two seals.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parted {
    /// Its number, from 1.
    line: u64,
    /// Its leaf under each of the seals, and its inclusion.
    shown: [(Digest, InclusionProof); 2],
}

impl SealConflict {
    /// Reads a file, of at most [`threadseal_core::limits::MAX_TURN_PROOF_BYTES`].
    ///
    /// # Errors
    /// When it has another form.
    pub fn parse(file: &[u8]) -> Result<Self, NotAProof> {
        let mut reader = Reader::of_file(file, FIRST_LINE)?;
        let manifest = reader.line("manifest ", "it has no manifest")?;
        let chain = reader.chain()?;
        let is_parted = reader.next.is_some_and(|line| line.starts_with(PARTED));
        let line = is_parted.then(|| {
            reader.number(
                PARTED,
                "it does not name the line where the histories differ",
            )
        });
        let line = line.transpose()?;
        let mut seal = || {
            let shown = line.map(|_| shown(&mut reader)).transpose()?;
            Ok((reader.line("seal ", "it does not have two seals")?, shown))
        };
        let [(one, first), (other, second)] = [seal()?, seal()?];
        if reader.next.is_some() {
            return Err(NotAProof("it has unexpected lines"));
        }
        let parted = match (line, first, second) {
            (Some(line), Some(first), Some(second)) => Some(Parted {
                line,
                shown: [first, second],
            }),
            _ => None,
        };
        let seals = [one, other];
        match seals[0] < seals[1] {
            true => Ok(Self {
                manifest,
                chain,
                seals,
                parted,
            }),
            false => Err(NotAProof("its seals are identical, or in the wrong order")),
        }
    }

    /// Gives the verdict under this trust. `verified`: a key that the trust vouches for sealed two
    /// histories of one record.
    pub fn check(&self, options: &VerifyOptions<'_>) -> CheckedConflict {
        let mut report = Report::begin(Format::Proof, Profile::Native);
        report.trust = Some(options.trust.digest());
        report.stats.checkpoints = 2;
        let found = match self.look() {
            Ok(found) => found,
            Err(failure) => {
                report.hold(failure.verdict);
                failure.findings.into_iter().for_each(|f| report.find(f));
                return CheckedConflict::unproved(report);
            }
        };
        let [one, other] = found.heads;
        report.record = Some(one.record);
        let (seq, record) = (one.seq, one.record);
        let text = match &self.parted {
            None => format!(
                "one key sealed two histories of a record: seal {seq} of record {record} was made twice: {one} and {other}"
            ),
            Some(Parted { line, .. }) => format!(
                "one key sealed two histories of a record: record {record} has two sealed versions of line {line}: {one} covers one, {other} the other"
            ),
        };
        report.find(Finding::warning(FindingCode::SealsConflict, text));
        report.check(CheckName::Signatures, CheckResult::Pass, None);
        report.check(CheckName::Conflict, CheckResult::Pass, None);
        let mut report = found.judged(report, options);
        verify::expect_thread(&mut report, Some(&found.thread), options.thread);
        let proved = found.minted(&report, self, options);
        CheckedConflict { report, proved }
    }

    /// All checks but trust.
    fn look(&self) -> Result<Found, Failure> {
        let mut record = Record::of(&self.manifest)?;
        let [one, other] = &self.seals;
        let (first, second) = (record.seal(one, None)?, record.seal(other, None)?);
        let sealers = self.chain.follow(&mut record, &first)?;
        for seal in [&first, &second] {
            check_signatures(&record, sealers.last(), seal)?;
        }
        if second.seal.key != first.seal.key {
            let text = "the seals are by two keys, and each key may seal at its own time";
            return Err(forged(FindingCode::KeyNotAllowed, text));
        }
        if self.parted.is_some() {
            // The key must have been admitted for both.
            self.chain.follow(&mut record, &second)?;
        }
        self.check_parting([&first, &second])?;
        let head = |line: &str, read: &ReadSeal| Head {
            record: record.manifest.record,
            seq: read.seal.seq,
            size: end_of(read.seal.byte_offset, line),
            line: Digest::of(line.as_bytes()),
        };
        Ok(Found {
            manifest: Digest::of(self.manifest.as_bytes()),
            until: TrustedUntil {
                line: first.seal.lines + 1,
                byte: end_of(first.seal.byte_offset, one),
                turn: Some(first.seal.turn),
            },
            heads: [head(one, &first), head(other, &second)],
            thread: record.thread_id()?,
            authority: record.manifest.authority,
            sealers,
        })
    }
}

impl SealConflict {
    /// Can these two not be of one history?
    fn check_parting(&self, seals: [&ReadSeal; 2]) -> Result<(), Failure> {
        let no_conflict = |text| {
            Err(failure(
                Verdict::Malformed,
                FindingCode::NoConflict,
                text,
                None,
            ))
        };
        let [first, second] = seals.map(|read| read.seal.seq);
        let Some(Parted { line, shown }) = &self.parted else {
            return match first == second {
                true => Ok(()),
                false => {
                    no_conflict("the seals have different numbers: they may belong to one history")
                }
            };
        };
        if first == second {
            return no_conflict(
                "the seals have the same number: no line is needed to distinguish them",
            );
        }
        for (read, (leaf, proof)) in seals.into_iter().zip(shown) {
            let tree = TreeHead {
                size: read.seal.lines,
                root: read.seal.root,
            };
            if proof.check(leaf, line - 1, &tree).is_err() {
                let text = "this is not the line that was sealed in this place";
                return Err(tampered_at(FindingCode::ContentChanged, text, Some(*line)));
            }
        }
        match shown[0].0 == shown[1].0 {
            true => {
                no_conflict("both seals cover the same line there: they may belong to one history")
            }
            false => Ok(()),
        }
    }
}

fn shown(reader: &mut Reader<'_>) -> Result<(Digest, InclusionProof), NotAProof> {
    let leaf = reader.take(LEAF).and_then(encoding::parse_base64);
    let leaf = leaf.and_then(|leaf| leaf.try_into().ok());
    let leaf = leaf.ok_or(NotAProof("a leaf is not the base64 of 32 bytes"))?;
    let proof = InclusionProof::from_hashes(reader.hashes(MAX_PROOF_HASHES)?)
        .map_err(|_| NotAProof("it has too many hashes"))?;
    Ok((Digest::from_bytes(leaf), proof))
}

/// Gives the verdict on a file that begins as a conflict of seals.
pub fn check_file(file: &[u8], options: &VerifyOptions<'_>) -> CheckedConflict {
    let mut checked = match SealConflict::parse(file) {
        Ok(conflict) => conflict.check(options),
        Err(error) => {
            let mut report = Report::begin(Format::Proof, Profile::Native);
            report.trust = Some(options.trust.digest());
            let finding = Finding::error(FindingCode::ProofMalformed, error.to_string());
            report.downgrade(Verdict::Malformed, finding);
            CheckedConflict::unproved(report)
        }
    };
    checked.report.stats.bytes = file.len() as u64;
    checked
}

/// The result of a check.
#[derive(Debug, Clone)]
pub struct CheckedConflict {
    /// The verdict and its evidence.
    pub report: Report,
    /// The fork that a log may record; present exactly when the verdict is `verified`.
    pub proved: Option<Verified<LoggedFork>>,
}

impl CheckedConflict {
    fn unproved(report: Report) -> Self {
        let proved = None;
        Self { report, proved }
    }
}

/// The content of a conflict, if all of it fits.
struct Found {
    heads: [Head; 2],
    manifest: Digest,
    /// The position of the first of them.
    until: TrustedUntil,
    thread: ThreadId,
    authority: PublicKey,
    /// The keys from line 1 to the one that sealed both, that one last.
    sealers: Vec<PublicKey>,
}

impl Found {
    /// `report` with the trust's answers for the keys.
    fn judged(&self, report: Report, options: &VerifyOptions<'_>) -> Report {
        let last = |key: &PublicKey| LastOf {
            key: *key,
            head: self.heads[0],
        };
        let sealers: Vec<LastOf> = self.sealers.iter().map(last).collect();
        let signed = Signed {
            authority: &self.authority,
            sealers: &sealers,
            last_word: 0,
            heirs: &[],
            // The age of one seal proves nothing about the other.
            arithmetic_holds: false,
            thread: Some(self.thread.clone()),
        };
        let mut judged = report.clone();
        verify::judge_signers(&mut judged, &signed, options);
        let text = "a key of the record ended: a holder of the key made these two seals, before its end or later; nothing here \
                    identifies that holder";
        report.judged_unless_ended(judged, text)
    }

    fn minted(
        &self,
        report: &Report,
        conflict: &SealConflict,
        options: &VerifyOptions<'_>,
    ) -> Option<Verified<LoggedFork>> {
        if report.verdict != Verdict::Verified {
            return None;
        }
        let [one, other] = self.heads;
        let fork = LoggedFork {
            record: one.record,
            key: self.sealers.last()?.key_id(),
            evidence: Digest::of(conflict.to_string().as_bytes()),
            place: ForkPlace::Transcript {
                manifest: self.manifest,
                seq: one.seq.min(other.seq),
            },
        };
        let grounds = Grounds {
            record: Some(one.record),
            head: Some(one),
            trusted_until: self.until,
            trust: options.trust.digest(),
            now: options.now,
        };
        Some(Verified::mint(fork, grounds))
    }
}

impl fmt::Display for SealConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FIRST_LINE}")?;
        writeln!(f, "manifest {}", self.manifest)?;
        write!(f, "{}", self.chain)?;
        if let Some(Parted { line, .. }) = &self.parted {
            writeln!(f, "{PARTED}{line}")?;
        }
        for (number, seal) in self.seals.iter().enumerate() {
            if let Some(parted) = &self.parted {
                let (leaf, proof) = &parted.shown[number];
                writeln!(f, "{LEAF}{}", encoding::base64(leaf.as_bytes()))?;
                write_hashes(f, proof.hashes())?;
            }
            writeln!(f, "seal {seal}")?;
        }
        Ok(())
    }
}
