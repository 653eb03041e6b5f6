//! The verdict on a ledger (`spec/ledger.md` §5).
//!
//! ```text
//! bytes ─► LineSplitter ─► LineReader (any order, any core) ─► Verifier ─► conclude
//! Verifier + bytes + trust + now ─► Outcome { report, Verified<LedgerCoverage>?, tip? }
//! ```
//! A chain that holds is `consistent`: an attacker who can write the file can write another chain.
//! Only a head that the verifier holds makes it `verified`, up to that head and beyond it.

use super::beginnings::LaterBeginning;
use super::chain::{ChainOptions, ChainTip, Seen, Verifier, View};
use super::head::{FileDigest, SignedHead};
use super::load::{LineReader, LineSplitter};
use super::record::RunId;
use super::sign::KnownKeys;
use crate::verified::{Grounds, Verified};
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::record::{ExpectedHead, Head};
use threadseal_core::report::heads::{self, HeadMatch};
use threadseal_core::report::{
    CheckName, CheckResult, Completeness, Expectation, Finding, FindingCode, Format, Profile,
    Report, Stats, TrustedUntil, Verdict,
};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Purpose, ScopeFormat, Trust};

/// The inputs of the verdict besides the ledger.
#[derive(Clone, Copy)]
pub struct Judging<'a> {
    /// Whose signature counts.
    pub trust: &'a Trust,
    /// The moment by which validity windows are judged.
    pub now: Timestamp,
    /// The number of records that the caller expects.
    pub length: Option<u64>,
    /// When this verifier held a head of the ledger before: evidence against later revocations.
    pub held_since: Option<Timestamp>,
    /// Names ([`super::signer_name`]) of keys that signed this ledger when this host last held it.
    pub signers: &'a [Digest],
    /// The signed head of the ledger.
    pub signed_head: Option<HeadAtHand<'a>>,
}

/// A signed head beside a ledger. Its place in the chain is [`ChainOptions::signed_head`].
#[derive(Debug, Clone, Copy)]
pub struct HeadAtHand<'a> {
    /// The head.
    pub head: &'a SignedHead,
    /// The beginning of the file, of the length in the head; `None` where the ledger is no file.
    /// For a shorter file, all of its bytes.
    pub file: Option<FileDigest>,
}

impl<'a> Judging<'a> {
    /// Judging by `trust` at `now`, with nothing else known.
    pub fn new(trust: &'a Trust, now: Timestamp) -> Self {
        Self {
            trust,
            now,
            length: None,
            held_since: None,
            signers: &[],
            signed_head: None,
        }
    }

    pub(super) fn purpose<'r>(&self, run: Option<&'r RunId>, heads: &'r [Head]) -> Purpose<'r> {
        Purpose {
            usage: KeyUsage::Native,
            format: ScopeFormat::Ledger,
            thread: run.map(RunId::as_str),
            evidence: self.held_since,
            heads,
        }
    }
}

/// The facts that a verified ledger proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerCoverage {
    /// Run, number of records, last hash.
    pub tip: ChainTip,
    /// The keys that signed records of it; none, where a head alone vouches for the chain.
    pub signers: Vec<PublicKey>,
}

/// The end of a verification.
pub struct Outcome {
    /// The report to show.
    pub report: Report,
    /// Present exactly when the verdict is `verified`.
    pub verified: Option<Verified<LedgerCoverage>>,
    /// The end on which the next record builds. Present when there is no evidence against the chain
    /// and its last record is chained.
    pub tip: Option<ChainTip>,
    /// Does `AbstractRuntime` report that the chain holds?
    pub compat_ok: bool,
    /// The keys whose signatures hold.
    pub signers: Vec<PublicKey>,
    /// The digest of all signatures, which a head covers beside the last hash.
    pub signatures: Digest,
    /// The expected heads that the ledger contains, where nothing speaks against its chain.
    pub contained: Vec<Head>,
    /// The later beginnings that records of the ledger admit. Each counts only in a second
    /// verification, which is given them ([`ChainOptions::later_beginnings`]).
    pub later_beginnings: Vec<LaterBeginning>,
    /// When the first and the last record with a time were written, by their own claims.
    pub times: (Option<Timestamp>, Option<Timestamp>),
}

/// Verifies a whole file in memory, on the caller's thread.
pub fn judge(bytes: &[u8], options: ChainOptions, judging: &Judging<'_>) -> Outcome {
    let mut verifier = Verifier::new(options);
    let mut reader = LineReader::knowing(&KnownKeys::of_trust(judging.trust));
    let mut splitter = LineSplitter::new();
    let mut each = |line: &[u8], place| verifier.take(&reader.read_line(line), line, place);
    splitter.push(bytes, &mut each);
    let bytes = splitter.finish(&mut each);
    conclude(verifier, bytes, judging)
}

/// Gives the verdict on a ledger, once all its lines were taken; `bytes` is its length.
pub fn conclude(verifier: Verifier, bytes: u64, judging: &Judging<'_>) -> Outcome {
    let (options, seen) = verifier.end();
    let profile = match seen.signers.genesis {
        true => Profile::ThreadSeal,
        false => Profile::AbstractRuntime,
    };
    let mut report = Report::begin(Format::Ledger, profile);
    report.stats = Stats {
        bytes,
        events: seen.records,
        checkpoints: seen.chained,
    };
    report.trust = Some(judging.trust.digest());
    report.record = seen.run.as_ref().map(RunId::record_id);
    report
        .compat
        .insert("abstractruntime", seen.compat.to_compat());
    check_chain(&mut report, &seen, options.view);
    let sound = !report.verdict.is_evidence();
    let whole = |tip: &&ChainTip| sound && tip.count == seen.records;
    let end = seen.tip.as_ref().filter(whole).map(ChainTip::head);
    let vouched = seen
        .signers
        .judge(&mut report, seen.run.as_ref(), end, judging);
    let met = seen.met.iter().copied();
    let known = heads::check(&mut report, &options.expect, met, &end_of(&seen));
    let sealed = check_signed_head(&mut report, &seen, judging);
    let held = known || sealed;
    let length = judging.length.filter(|_| options.view == View::Whole);
    let counted = heads::check_length(&mut report, &end_of(&seen), length);
    check_steps(&mut report, &seen);
    let reached = reached(&seen, known, sealed);
    check_protection(&mut report, &seen, reached, vouched, judging.trust);
    if !report.verdict.is_evidence() && (held || counted) {
        report.completeness = Completeness::Head;
    }
    let is_signed = vouched && seen.signers.reaches_end();
    claims(&mut report, &seen, is_signed || reached == seen.records);
    report.trusted_until = trusted_until(&seen, vouched, held);
    let tip = seen.tip.filter(|tip| sound && tip.count == seen.records);
    let tip = tip.filter(|_| options.view == View::Whole);
    report.head = tip.as_ref().map(ChainTip::head);
    report.root = report.head.map(|_| seen.signatures);
    report.dates.sealed = seen
        .last_time
        .filter(|_| is_signed && report.head.is_some());
    let contained = contained(&options.expect, &seen.met, sound);
    let later_beginnings = seen.signers.admitted().to_vec();
    let signers = seen.signers.into_keys();
    Outcome {
        contained,
        later_beginnings,
        times: (seen.first_time, seen.last_time),
        signatures: seen.signatures,
        verified: mint(&report, tip.as_ref(), &signers, judging),
        signers,
        compat_ok: seen.compat.ok(),
        tip,
        report,
    }
}

/// The later of the ends to which signatures and heads vouch for the records.
fn trusted_until(seen: &Seen, vouched: bool, held: bool) -> Option<TrustedUntil> {
    let by_signature = seen.signed_until.filter(|_| vouched);
    let by_head = seen.held_until.filter(|_| held);
    let ends = [by_signature, by_head].into_iter().flatten();
    ends.max_by_key(|until| until.turn)
}

fn contained(expect: &[Expectation], met: &[HeadMatch], sound: bool) -> Vec<Head> {
    let pairs = expect.iter().zip(met).filter(|_| sound);
    let contained = pairs.filter_map(|(expected, met)| match (met, expected.head) {
        (HeadMatch::At(_), ExpectedHead::Head(head)) => Some(head),
        _ => None,
    });
    contained.collect()
}

/// Records, hashes, links, and the bytes between them.
fn check_chain(report: &mut Report, seen: &Seen, view: View) {
    for (verdict, finding) in &seen.faults {
        report.downgrade(*verdict, finding.clone());
    }
    for (finding, ended) in &seen.trailing {
        let mut finding = finding.clone();
        if !ended {
            finding.code = FindingCode::TornTail;
        }
        let verdict = match seen.records {
            0 => Verdict::Malformed,
            _ => Verdict::UnsignedTail,
        };
        report.downgrade(verdict, finding);
    }
    for finding in &seen.remarks {
        report.find(finding.clone());
    }
    let why = match view {
        View::Whole => None,
        View::Window => {
            let text = "only some records of the run are here: the records before and after them are not proved";
            report.downgrade(
                Verdict::Partial,
                Finding::warning(FindingCode::LedgerWindow, text),
            );
            Some("a window of the ledger".to_owned())
        }
        View::Replay => {
            let text = format!(
                "this is a copy for replay: {} records lack content that was hashed, so their hashes prove nothing here",
                seen.omitted
            );
            report.downgrade(
                Verdict::Partial,
                Finding::warning(FindingCode::LedgerReplay, text),
            );
            Some("a copy for replay".to_owned())
        }
    };
    let sound = !report.verdict.is_evidence();
    if seen.chained == 0 {
        let why = Some("no record has a hash".to_owned());
        report.check(CheckName::Chain, CheckResult::Skipped, why);
    } else {
        report.check(CheckName::Chain, CheckResult::of(sound), why);
    }
}

fn end_of(seen: &Seen) -> heads::End {
    heads::End {
        words: ("ledger", "record"),
        record: seen.run.as_ref().map(RunId::record_id),
        last: seen.records.checked_sub(1),
        whole: true,
        place: None,
        broken: false,
    }
}

/// Checks the signed head; true when it is in the ledger and its signer is vouched for.
fn check_signed_head(report: &mut Report, seen: &Seen, judging: &Judging<'_>) -> bool {
    let Some(HeadAtHand { head, file }) = judging.signed_head else {
        return false;
    };
    let statement = &head.statement;
    let fault = match seen.met_signed {
        _ if !head.holds => Some((
            Verdict::Forged,
            FindingCode::HeadForged,
            "the signature of the head does not verify under the key that it names",
        )),
        _ if seen.run.as_ref().is_some_and(|run| *run != statement.run) => Some((
            Verdict::Foreign,
            FindingCode::HeadForeign,
            "the signed head is of another run",
        )),
        HeadMatch::NotYet if seen.records < statement.count => Some((
            Verdict::Truncated,
            FindingCode::HeadAhead,
            "the ledger has fewer records than its signed head states",
        )),
        HeadMatch::At(_)
            if statement.file.is_some() && file.is_some() && statement.file != file =>
        {
            Some((
                Verdict::Tampered,
                FindingCode::FileDiffers,
                "the records match the signed head, but the bytes around them differ",
            ))
        }
        HeadMatch::At(_) => None,
        HeadMatch::NotYet | HeadMatch::Differs => Some((
            Verdict::Tampered,
            FindingCode::HeadBroken,
            "the ledger has another record in the place of the signed head",
        )),
    };
    if let Some((verdict, code, text)) = fault {
        report.downgrade(verdict, Finding::error(code, text));
    }
    report.check(
        CheckName::SignedHead,
        CheckResult::of(fault.is_none() && !seen.signatures_changed),
        None,
    );
    let own = statement.head().filter(|_| fault.is_none());
    let purpose = judging.purpose(seen.run.as_ref(), own.as_slice());
    let judgement = judging.trust.judge(&head.key, &purpose, judging.now);
    let id = head.key.key_id().to_hex();
    let vouched = match report.signers.iter().any(|signer| signer.key == id) {
        true => judgement.standing.counts(),
        false => head.holds && report.signer(&head.key, &judgement),
    };
    vouched && fault.is_none() && !seen.signatures_changed
}

/// How many records, from the first, a head vouches for.
fn reached(seen: &Seen, known: bool, sealed: bool) -> u64 {
    let known = seen.met.iter().filter(|_| known);
    let sealed = Some(&seen.met_signed).filter(|_| sealed);
    let places = known.chain(sealed).filter_map(|met| match met {
        HeadMatch::At(index) => Some(index + 1),
        _ => None,
    });
    places.max().unwrap_or(0)
}

/// Steps that are open, and content that is stored elsewhere.
fn check_steps(report: &mut Report, seen: &Seen) {
    let steps = &seen.steps;
    if let Some((index, place)) = steps.first_open {
        let text = format!(
            "{} steps have begun but not ended: they still run, or a process died, or records are missing",
            steps.open
        );
        let finding = super::chain::put(Finding::warning(FindingCode::StepUnended, text), &place);
        report.find(finding.in_turn(Some(index)));
    }
    if steps.lost_track {
        let why = "too many steps were open at once, or a record was too large".to_owned();
        report.check(CheckName::Steps, CheckResult::Skipped, Some(why));
    } else {
        // No hash and no clock proves the order of steps, so odd ones fail no check.
        let odd = report
            .findings
            .iter()
            .find(|finding| finding.code.is_about_steps());
        let why = odd.map(|odd| odd.message.clone());
        let result = match why {
            None => CheckResult::Pass,
            Some(_) => CheckResult::Skipped,
        };
        report.check(CheckName::Steps, result, why);
    }
    let unresolved = |finding: &Finding| finding.code == FindingCode::SlimUnresolved;
    if report.findings.iter().any(unresolved) {
        report.check(CheckName::Slim, CheckResult::Fail, None);
    } else if steps.slim_unchecked > 0 {
        let why = format!(
            "{} markers would take too much memory or time",
            steps.slim_unchecked
        );
        report.check(CheckName::Slim, CheckResult::Skipped, Some(why));
    } else if steps.slim > 0 {
        let how = format!("{} markers replace content that the ledger has", steps.slim);
        report.check(CheckName::Slim, CheckResult::Pass, Some(how));
    }
    if steps.artifacts > 0 {
        let text = format!(
            "{} contents are in an artifact store, under ids that the hashes cover; the store was not read",
            steps.artifacts
        );
        report.find(Finding::note(FindingCode::ArtifactElsewhere, text));
        let why = "the artifact store was not read".to_owned();
        report.check(CheckName::Artifacts, CheckResult::Skipped, Some(why));
    }
}

/// Does anything protect this ledger?
fn check_protection(report: &mut Report, seen: &Seen, reached: u64, vouched: bool, trust: &Trust) {
    if seen.records == 0 {
        let text = "the ledger has no record, and proves nothing";
        return report.downgrade(
            Verdict::Unsigned,
            Finding::note(FindingCode::LedgerEmpty, text),
        );
    }
    if seen.chained == 0 {
        return report.hold(Verdict::Unsigned);
    }
    if let Some(mark) = &seen.unchained_tail {
        let text = "this record and those after it have no hash";
        let finding = mark.put(Finding::warning(FindingCode::UnsignedTail, text));
        report.downgrade(Verdict::UnsignedTail, finding);
    }
    if reached < seen.records {
        seen.signers.coverage(report, trust);
    }
    let is_signed = vouched && seen.signers.reaches_end();
    if reached > 0 && reached < seen.records && !is_signed {
        let text = format!(
            "the known head confirms {reached} of {} records; the rest only follows in the chain",
            seen.records
        );
        report.downgrade(
            Verdict::UnsignedTail,
            Finding::warning(FindingCode::UnsignedTail, text),
        );
    }
    if reached == 0 && seen.signers.signed > 0 {
        let text = "no head proves that the last record is the newest: later ones may be missing";
        report.downgrade(Verdict::Open, Finding::note(FindingCode::HeadUnknown, text));
    } else if reached == 0 {
        let text = "nothing outside of this file confirms the chain: any writer of the file can write another one";
        report.downgrade(
            Verdict::Consistent,
            Finding::note(FindingCode::Unsigned, text),
        );
    }
}

/// Content that a reader would take as fact, and unproved claims, unless all records are covered.
fn claims(report: &mut Report, seen: &Seen, is_covered: bool) {
    if is_covered {
        return;
    }
    for actor in &seen.actors {
        report.unauthenticated.push(format!("actor_id={actor}"));
    }
    if seen.more_actors {
        report.unauthenticated.push("actor_id=…".to_owned());
    }
    for (name, time) in [
        ("first_time", seen.first_time),
        ("last_time", seen.last_time),
    ] {
        if let Some(time) = time {
            let text = time.to_python_text();
            report.unauthenticated.push(format!("{name}={text}"));
        }
    }
}

fn mint(
    report: &Report,
    tip: Option<&ChainTip>,
    signers: &[PublicKey],
    judging: &Judging<'_>,
) -> Option<Verified<LedgerCoverage>> {
    if report.verdict != Verdict::Verified {
        return None;
    }
    let tip = tip?.clone();
    let grounds = Grounds {
        record: Some(tip.run.record_id()),
        head: Some(tip.head()),
        trusted_until: report.trusted_until?,
        trust: judging.trust.digest(),
        now: judging.now,
    };
    let coverage = LedgerCoverage {
        tip,
        signers: signers.to_vec(),
    };
    Some(Verified::mint(coverage, grounds))
}
