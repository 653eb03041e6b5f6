//! From one pass to a report (`spec/transcript.md` §8).
//!
//! ```text
//! Scan + trust + now ─► Outcome { report, Verified<Coverage>?, look_closer }
//! ```
//! Invariants: nothing is `verified` unless every check that applies passed. A lenient caller gets
//! the sealed part and the tail separately, never another verdict.

use super::checkpoint::Checkpoint;
use super::lines::LineSplitter;
use super::scan::Scan;
use super::signers::{Seal, Signer, Signers};
use crate::transcript::{Coverage, Tail};
use crate::verified::{Grounds, Verified, WithTail};
use threadseal_core::record::{Head, ThreadId};
use threadseal_core::report::heads::{self, End};
use threadseal_core::report::{
    CheckName, CheckResult, Completeness, Expectation, Finding, FindingCode, Format, Profile,
    Report, SignerReport, SignerStatus, Stats, TrustedUntil, Verdict,
};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::Trust;

/// The inputs of verification besides the bytes.
#[derive(Clone)]
pub struct Options<'t> {
    /// Whose signature counts.
    pub trust: &'t Trust,
    /// The moment by which validity windows are judged.
    pub now: Timestamp,
    /// When this verifier held a head of the record before: evidence against later revocations.
    pub held_since: Option<Timestamp>,
    /// The thread that the caller expects.
    pub thread: Option<&'t ThreadId>,
    /// Heads that the record must contain.
    pub expect: Vec<Expectation>,
    /// Check every signature as it comes, not only the last of each key.
    pub every_signature: bool,
}

impl<'t> Options<'t> {
    /// No thread, no head expected.
    pub fn new(trust: &'t Trust, now: Timestamp) -> Self {
        Self {
            trust,
            now,
            held_since: None,
            thread: None,
            expect: Vec::new(),
            every_signature: false,
        }
    }
}

/// The end of a verification.
pub struct Outcome {
    /// The report to show.
    pub report: Report,
    /// Present exactly when the verdict is `verified`. Its head's size includes the last checkpoint
    /// line, whose own members no hash covers.
    pub verified: Option<Verified<Coverage>>,
    /// A failure was found without checking every signature: run again with
    /// [`Options::every_signature`] to learn how far the record can be trusted.
    pub look_closer: bool,
    lenient: Option<WithTail<Coverage, Tail>>,
}

impl Outcome {
    /// The result for a lenient policy, for a record whose seals all hold: the sealed part and the
    /// tail, separately.
    pub fn lenient(self) -> Option<WithTail<Coverage, Tail>> {
        self.lenient
    }
}

/// Verifies a transcript that is pushed in order.
pub struct Verifier<'t> {
    options: Options<'t>,
    lines: LineSplitter,
    scan: Scan<'t>,
}

impl<'t> Verifier<'t> {
    /// A verifier at the beginning of a file.
    pub fn new(options: Options<'t>) -> Self {
        let signers = Signers::new(
            options.trust,
            options.now,
            options.held_since,
            options.every_signature,
        );
        let expected = options
            .expect
            .iter()
            .map(|expected| expected.head)
            .collect();
        let scan = Scan::new(signers, expected);
        Self {
            options,
            lines: LineSplitter::default(),
            scan,
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8]) {
        let scan = &mut self.scan;
        self.lines.push(chunk, |piece| scan.piece(&piece));
    }

    /// Ends the file and gives the result.
    pub fn finish(mut self) -> Outcome {
        let scan = &mut self.scan;
        self.lines.finish(|piece| scan.piece(&piece));
        conclude(self.scan, &self.options)
    }
}

/// Verifies `bytes`, with a second look after a failure.
pub fn verify(bytes: &[u8], options: &Options<'_>) -> Outcome {
    let look = |options: Options<'_>| {
        let mut verifier = Verifier::new(options);
        verifier.push(bytes);
        verifier.finish()
    };
    let outcome = look(options.clone());
    if outcome.look_closer {
        look(Options {
            every_signature: true,
            ..options.clone()
        })
    } else {
        outcome
    }
}

fn conclude(mut scan: Scan<'_>, options: &Options<'_>) -> Outcome {
    let mut report = Report::begin(Format::Transcript, Profile::Rye);
    report.stats = Stats {
        bytes: scan.bytes,
        events: scan.lines,
        checkpoints: scan.checkpoints,
    };
    report.record = scan.record;
    report.trust = Some(options.trust.digest());
    let findings = std::mem::take(&mut scan.findings);
    let met = |verdict| findings.iter().any(|(met, _)| *met == verdict);
    let (tampered, forged) = (met(Verdict::Tampered), met(Verdict::Forged));
    for (verdict, finding) in findings {
        report.downgrade(verdict, finding);
    }
    report.check(CheckName::Seals, CheckResult::of(!tampered), None);
    note_broken(&mut report, &scan);
    let held = check_signatures(&mut report, &mut scan, !forged);
    let exact = options.every_signature || held;
    scan.signers.judge_by_heads(scan.record);
    check_signers(&mut report, &scan);
    check_thread(&mut report, &scan, options.thread);
    check_heads(&mut report, &scan, &options.expect);
    check_end(&mut report, &scan);
    for remark in std::mem::take(&mut scan.remarks) {
        report.find(remark);
    }
    let trusted = scan.signers.trusted().filter(|_| exact);
    report.trusted_until = trusted.map(trusted_until);
    let last = scan.last.as_ref().map(|(seal, _)| *seal);
    // With evidence against the record, only the part trusted before still holds.
    let holds = if report.verdict.is_evidence() {
        trusted
    } else {
        last
    };
    report.head = holds.and_then(|seal| head(&scan, &seal));
    Outcome {
        verified: (report.verdict == Verdict::Verified)
            .then(|| mint(&scan, options))
            .flatten(),
        lenient: lenient(&report, &scan, options),
        look_closer: !exact,
        report,
    }
}

fn note_broken(report: &mut Report, scan: &Scan<'_>) {
    if scan.also_broken > 0 {
        let text = format!(
            "{} later checkpoints do not hold either, because each covers the same bytes",
            scan.also_broken
        );
        report.find(Finding::note(FindingCode::LaterCheckpoints, text));
    }
}

/// Checks the signatures left to the end; true when all of them hold. `so_far`: all did before.
fn check_signatures(report: &mut Report, scan: &mut Scan<'_>, so_far: bool) -> bool {
    let bad = scan.signers.check_last();
    for seal in &bad {
        let text = "no trusted key with this fingerprint made the signature";
        let finding = Finding::error(FindingCode::SignatureInvalid, text).at_line(seal.line);
        report.downgrade(Verdict::Forged, finding.in_turn(Some(seal.turn)));
    }
    if so_far && scan.signers.all.iter().all(|signer| signer.known.is_none()) {
        let why = "no key of these signers is known".to_owned();
        report.check(CheckName::Signatures, CheckResult::Skipped, Some(why));
        return true;
    }
    let how = if scan.signers.every_signature {
        "every signature"
    } else {
        "the last signature of each key, which covers all before it"
    };
    report.check(
        CheckName::Signatures,
        CheckResult::of(so_far && bad.is_empty()),
        Some(how.to_owned()),
    );
    bad.is_empty()
}

/// Lists the signers; a record whose first signer does not count has no signer at all.
fn check_signers(report: &mut Report, scan: &Scan<'_>) {
    for (place, signer) in scan.signers.all.iter().enumerate() {
        match &signer.known {
            Some((key, judgement)) => {
                report.signer(key, judgement);
            }
            None => unknown_signer(report, signer, place == 0, scan.signers.is_pinned()),
        }
    }
    if !scan.signers.all.is_empty() {
        report.check(
            CheckName::Trust,
            CheckResult::of(scan.signers.all.iter().all(Signer::counts)),
            None,
        );
    }
}

/// The findings for later unknown signers are already at their seals.
fn unknown_signer(report: &mut Report, signer: &Signer<'_>, first: bool, pinned: bool) {
    let fingerprint = signer.fingerprint.to_hex();
    let status = if pinned {
        SignerStatus::Other
    } else {
        SignerStatus::Unknown
    };
    if first && pinned {
        let text = format!(
            "sealed by a key with the fingerprint {fingerprint}, which is not known to be a key that was asked for"
        );
        let finding = Finding::warning(FindingCode::OtherSigner, text).at_line(signer.first_line);
        report.downgrade(Verdict::UnknownSigner, finding);
    } else if first {
        let text = format!(
            "no trusted key has the fingerprint {fingerprint}; its signatures cannot be checked"
        );
        let finding = Finding::warning(FindingCode::KeyUnknown, text).at_line(signer.first_line);
        report.downgrade(Verdict::UnknownSigner, finding);
    }
    report.signers.push(SignerReport {
        key: fingerprint,
        did: None,
        name: None,
        status,
        sealed_by: Vec::new(),
    });
}

fn check_thread(report: &mut Report, scan: &Scan<'_>, expected: Option<&ThreadId>) {
    let Some(expected) = expected else {
        let why = "no thread was asked for".to_owned();
        return report.check(CheckName::Thread, CheckResult::Skipped, Some(why));
    };
    let Some(actual) = &scan.thread else {
        let why = "no line names a thread".to_owned();
        return report.check(CheckName::Thread, CheckResult::Skipped, Some(why));
    };
    let same = actual == expected.as_str();
    if !same {
        let text = format!("the record does not belong to thread {expected}");
        let finding = Finding::error(FindingCode::ThreadDiffers, text).at_line(1);
        report.downgrade(Verdict::Foreign, finding);
    }
    report.check(CheckName::Thread, CheckResult::of(same), None);
}

fn check_heads(report: &mut Report, scan: &Scan<'_>, expect: &[Expectation]) {
    let end = End {
        words: ("record", "seal"),
        record: scan.record,
        last: scan.last.as_ref().map(|(seal, _)| seal.seq),
        whole: scan
            .last
            .as_ref()
            .is_some_and(|(seal, _)| seal.end == scan.bytes),
        place: None,
        broken: scan.signers.broken,
    };
    let met = scan.expected.iter().map(|(_, met)| *met);
    if heads::check(report, expect, met, &end) && !report.verdict.is_evidence() {
        report.completeness = Completeness::Head;
    }
}

/// The tail, the end, and content that no signature covers.
fn check_end(report: &mut Report, scan: &Scan<'_>) {
    for fault in &scan.waiting {
        report.find(fault.clone());
    }
    if scan.torn {
        let text = "the last line is incomplete: a write was interrupted";
        report.find(Finding::warning(FindingCode::TornTail, text).at_line(scan.lines + 1));
    }
    let Some((last, checkpoint)) = &scan.last else {
        return unsealed(report, scan);
    };
    report.unauthenticated = uncovered(last, checkpoint);
    if report.verdict.is_evidence() {
        return;
    }
    if let Some(at) = scan.odd {
        let text = "no hash and no signature covers this byte of the last checkpoint's line, which is not as Rye writes it";
        let finding = Finding::warning(FindingCode::SpellingUncovered, text).at_line(last.line);
        report.downgrade(Verdict::Partial, finding.at_bytes(at, at + 1));
    }
    if last.end < scan.bytes {
        let text = format!(
            "{} bytes after the last seal are not covered",
            scan.bytes - last.end
        );
        let finding =
            Finding::warning(FindingCode::UnsignedTail, text).at_bytes(last.end, scan.bytes);
        report.downgrade(Verdict::UnsignedTail, finding.in_turn(Some(last.turn)));
    }
    if report.completeness == Completeness::Unproved {
        let text =
            "the format has no end mark and no head is known: later seals may have been cut off";
        report.find(Finding::note(FindingCode::EndUnproved, text));
    }
}

fn unsealed(report: &mut Report, scan: &Scan<'_>) {
    if scan.checkpoints > 0 || report.verdict.is_evidence() {
        return;
    }
    if !scan.waiting.is_empty() {
        report.hold(Verdict::Malformed);
    } else if scan.torn_checkpoint {
        let text = "the only checkpoint is incomplete";
        let finding = Finding::warning(FindingCode::TornCheckpoint, text).at_line(scan.lines + 1);
        report.downgrade(Verdict::UnsignedTail, finding);
    } else {
        let text = "no checkpoint: nothing protects this record";
        report.downgrade(
            Verdict::Unsigned,
            Finding::warning(FindingCode::NoCheckpoint, text),
        );
    }
}

fn uncovered(seal: &Seal, checkpoint: &Checkpoint) -> Vec<String> {
    let line = seal.line;
    let mut out = vec![
        format!("line {line} turn={}", checkpoint.turn),
        format!("line {line} timestamp={}", checkpoint.timestamp),
    ];
    out.extend(
        checkpoint
            .ts
            .map(|ts| format!("line {line} ts={}", ts.to_iso_seconds())),
    );
    out
}

fn head(scan: &Scan<'_>, seal: &Seal) -> Option<Head> {
    let record = scan.record?;
    Some(Head {
        record,
        seq: seal.seq,
        size: seal.end,
        line: seal.digest,
    })
}

fn trusted_until(seal: Seal) -> TrustedUntil {
    TrustedUntil {
        line: seal.line - 1,
        byte: seal.start,
        turn: Some(seal.turn),
    }
}

fn mint(scan: &Scan<'_>, options: &Options<'_>) -> Option<Verified<Coverage>> {
    let (seal, _) = scan.last.as_ref()?;
    let coverage = Coverage {
        record: scan.record?,
        head: head(scan, seal)?,
        digest: scan.sealed?,
        adopted: Vec::new(),
    };
    let grounds = Grounds {
        record: scan.record,
        head: Some(coverage.head),
        trusted_until: trusted_until(scan.signers.trusted()?),
        trust: options.trust.digest(),
        now: options.now,
    };
    Some(Verified::mint(coverage, grounds))
}

fn lenient(
    report: &Report,
    scan: &Scan<'_>,
    options: &Options<'_>,
) -> Option<WithTail<Coverage, Tail>> {
    if !matches!(
        report.verdict,
        Verdict::Verified | Verdict::Open | Verdict::UnsignedTail
    ) {
        return None;
    }
    let verified = mint(scan, options)?;
    let from = verified.get().head.size;
    Some(WithTail {
        verified,
        unverified: Tail {
            from,
            to: scan.bytes,
        },
    })
}
