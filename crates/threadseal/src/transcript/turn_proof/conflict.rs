//! Two seals of one record and one number, by one key: evidence that its holder sealed two histories
//! (`spec/anchors.md`, "Conflicts of seals").
//!
//! ```text
//! threadseal/1 conflict of seals LF
//! manifest <line 1 of the record> LF
//! <keys>                                how the key came to seal this record, as in a proof of a turn
//! seal <line of a seal> LF              the lesser line first
//! seal <line of a seal> LF
//! ```
//! Copies of a record that was rolled back and gone on with part at such a pair. A copy that was only cut convicts nobody: anybody can
//! cut one. Seals of two keys convict neither: which of them had given up by then is not shown. Seals of a key that ended convict whoever
//! had it, and nobody vouches for who that was. One conflict has one text.

use super::check::check_signatures;
use super::make::{Walk, seal_of, text};
use super::read::{Record, failure, forged};
use super::{Chain, NotAProof, Reader};
use crate::digest::Digest;
use crate::error::Error;
use crate::key::PublicKey;
use crate::record::{Head, ThreadId};
use crate::report::{
    CheckResult, Finding, Grounds, Report, SignerStatus, TrustedUntil, Verdict, Verified,
};
use crate::tlog::entry::fork::LoggedFork;
use crate::transcript::VerifyOptions;
use crate::transcript::event;
use crate::transcript::scan::Failure;
use crate::transcript::turn_proof::turn::end_of;
use crate::transcript::verify::{self, Signed};
use crate::trust::LastOf;
use std::fmt;

/// What a file begins with.
pub const FIRST_LINE: &str = "threadseal/1 conflict of seals";

/// Two seals as they are written down. To hold one says nothing: ask [`SealConflict::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealConflict {
    manifest: String,
    chain: Chain,
    seals: [String; 2],
}

impl SealConflict {
    /// The first seals at which two copies of one record part; None where they do not, or one is only shorter. Neither copy needs to be
    /// whole, or good: what comes out is for [`SealConflict::check`].
    ///
    /// # Errors
    /// Kind `Refused` when one is no native record, they are two records, or the keys that sealed them there are two.
    pub fn find(one: &[u8], other: &[u8]) -> Result<Option<Self>, Error> {
        let (one, other) = (whole_lines(one), whole_lines(other));
        if one.first() != other.first() || one.is_empty() {
            return Err(Error::refused("these are not copies of one record"));
        }
        let mut pairs = seals(&one).zip(seals(&other));
        let parted = pairs.find(|(here, there)| one[*here] != other[*there]);
        let Some((here, there)) = parted else {
            return Ok(None);
        };
        let mut walk = Walk::begin(&one)?;
        walk.go_to(here)?;
        let key = |line: &[u8]| -> Result<_, Error> {
            let frame = event::parse_frame(line);
            let frame = frame.ok_or_else(|| Error::refused("a seal of a copy is none"))?;
            Ok(seal_of(line, &frame)?.key)
        };
        let sealer = key(one[here])?;
        if key(other[there])? != sealer {
            return Err(Error::refused(
                "two keys sealed the record where its copies part: which of them could is not shown by the seals alone",
            ));
        }
        let mut seals = [text(one[here])?, text(other[there])?];
        seals.sort();
        Ok(Some(Self {
            manifest: text(one[0])?,
            chain: walk.chain(sealer)?,
            seals,
        }))
    }

    /// Reads a file, of at most [`crate::limits::MAX_TURN_PROOF_BYTES`].
    ///
    /// # Errors
    /// When it has another form.
    pub fn parse(file: &[u8]) -> Result<Self, NotAProof> {
        let mut reader = Reader::of_file(file, FIRST_LINE)?;
        let manifest = reader.line("manifest ", "it has no manifest")?;
        let chain = reader.chain()?;
        let mut seal = || reader.line("seal ", "it does not have two seals");
        let seals = [seal()?, seal()?];
        if reader.next.is_some() {
            return Err(NotAProof("something stands where nothing belongs"));
        }
        match seals[0] < seals[1] {
            true => Ok(Self {
                manifest,
                chain,
                seals,
            }),
            false => Err(NotAProof("its seals are one, or stand in another order")),
        }
    }

    /// Says what it proves to somebody with this trust. `verified`: a key that the trust vouches for sealed two histories of one record.
    pub fn check(&self, options: &VerifyOptions<'_>) -> CheckedConflict {
        let mut report = Report::begin("proof", "native");
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
        let text = format!("seal {seq} of record {record} was made twice: {one} and {other}");
        report.find(Finding::warning("seals_conflict", text));
        let mut report = found.judged(report, options);
        verify::expect_thread(&mut report, Some(&found.thread), options.thread);
        let proved = found.minted(&report, self, options);
        CheckedConflict { report, proved }
    }

    /// Everything but trust.
    fn look(&self) -> Result<Found, Failure> {
        let mut record = Record::of(&self.manifest)?;
        let [one, other] = &self.seals;
        let (first, second) = (record.seal(one, None)?, record.seal(other, None)?);
        let sealers = self.chain.follow(&mut record, &first)?;
        for seal in [&first, &second] {
            check_signatures(&record, sealers.last(), seal)?;
        }
        if second.seal.key != first.seal.key {
            let text = "the seals are of two keys, of which each may seal at its time";
            return Err(forged("key_not_allowed", text));
        }
        if second.seal.seq != first.seal.seq {
            let text = "the seals have two numbers: they may be of one history";
            return Err(failure(Verdict::Malformed, "no_conflict", text, None));
        }
        let head = |line: &str, offset| Head {
            record: record.manifest.record,
            seq: first.seal.seq,
            size: end_of(offset, line),
            line: Digest::of(line.as_bytes()),
        };
        Ok(Found {
            manifest: Digest::of(self.manifest.as_bytes()),
            until: TrustedUntil {
                line: first.seal.lines + 1,
                byte: end_of(first.seal.byte_offset, one),
                turn: Some(first.seal.turn),
            },
            heads: [
                head(one, first.seal.byte_offset),
                head(other, second.seal.byte_offset),
            ],
            thread: record.thread_id()?,
            authority: record.manifest.authority,
            sealers,
        })
    }
}

/// Says what a file proves that begins as a conflict of seals.
pub fn check_file(file: &[u8], options: &VerifyOptions<'_>) -> CheckedConflict {
    let mut checked = match SealConflict::parse(file) {
        Ok(conflict) => conflict.check(options),
        Err(error) => {
            let mut report = Report::begin("proof", "native");
            report.trust = Some(options.trust.digest());
            let finding = Finding::error("proof_malformed", error.to_string());
            report.hold_because(Verdict::Malformed, finding);
            CheckedConflict::unproved(report)
        }
    };
    checked.report.stats.bytes = file.len() as u64;
    checked
}

/// What a check came to.
#[derive(Debug, Clone)]
pub struct CheckedConflict {
    /// The verdict and what it rests on.
    pub report: Report,
    /// What a log may say of the record; present exactly when the verdict is `verified`.
    pub proved: Option<Verified<LoggedFork>>,
}

impl CheckedConflict {
    fn unproved(report: Report) -> Self {
        let proved = None;
        Self { report, proved }
    }
}

/// What a conflict shows, if all of it fits.
struct Found {
    heads: [Head; 2],
    /// Digest of the manifest.
    manifest: Digest,
    /// Where the first of them stands.
    until: TrustedUntil,
    thread: ThreadId,
    authority: PublicKey,
    /// The keys on the way to the one that sealed both, that one last.
    sealers: Vec<PublicKey>,
}

impl Found {
    /// `report` with what the trust says of the keys.
    fn judged(&self, report: Report, options: &VerifyOptions<'_>) -> Report {
        let last = |key: &PublicKey| LastOf {
            key: *key,
            head: self.heads[0],
        };
        let sealers: Vec<LastOf> = self.sealers.iter().map(last).collect();
        let signed = Signed {
            authority: &self.authority,
            sealers: &sealers,
            // That one of the two is old says nothing of the other.
            arithmetic_holds: false,
            thread: Some(self.thread.clone()),
        };
        let mut judged = report.clone();
        verify::judge_signers(&mut judged, &signed, options);
        let has = |status| judged.signers.iter().any(|signer| signer.status == status);
        if !has(SignerStatus::Revoked) || has(SignerStatus::Rejected) {
            return judged;
        }
        let mut report = Report {
            signers: judged.signers,
            ..report
        };
        let text = "a key of the record ended: these two seals are by whoever had it, before that or later, and nothing here \
                    says who that was";
        report.hold_because(Verdict::UnknownSigner, Finding::warning("key_ended", text));
        report.check("trust", CheckResult::Fail, None);
        report
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
        let [one, _] = self.heads;
        let fork = LoggedFork {
            record: one.record,
            manifest: self.manifest,
            seq: one.seq,
            key: self.sealers.last()?.key_id(),
            evidence: Digest::of(conflict.to_string().as_bytes()),
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

/// The lines that have an end, without it.
fn whole_lines(record: &[u8]) -> Vec<&[u8]> {
    let lines = record.split_inclusive(|byte| *byte == b'\n');
    lines.filter_map(|line| line.strip_suffix(b"\n")).collect()
}

/// Where the seals stand.
fn seals<'a>(lines: &'a [&'a [u8]]) -> impl Iterator<Item = usize> + 'a {
    let is_seal = |line: &[u8]| {
        event::parse_frame(line).is_some_and(|frame| frame.event_type == "checkpoint")
    };
    let numbered = lines.iter().enumerate();
    numbered.filter_map(move |(number, line)| is_seal(line).then_some(number))
}

impl fmt::Display for SealConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FIRST_LINE}")?;
        writeln!(f, "manifest {}", self.manifest)?;
        write!(f, "{}", self.chain)?;
        self.seals
            .iter()
            .try_for_each(|seal| writeln!(f, "seal {seal}"))
    }
}
