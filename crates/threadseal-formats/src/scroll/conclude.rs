//! The verdict on a chain (`spec/scroll.md` §8).
//!
//! ```text
//! bytes ─► Splitter ─► read_turn (any order, any core) ─► Verifier ─► conclude
//! Verifier + End + trust + now ─► Outcome { report, Verified<ChainCoverage>?, tip? }
//! ```
//! An unsigned chain is `consistent`, and `verified` only by a head of its last turn that the verifier
//! holds: anyone can append turns. A signed one is `verified` when each turn is signed by a key that
//! the trust vouches for. v0.1 has no end mark, so its completeness stays `unproved` without a head
//! or a length.

use super::chain::{ChainOptions, Seen, Tip, Verifier, put};
use super::facts::TurnReader;
use super::signatures::Signatures;
use super::split::{Container, ContainerFault, End, Splitter};
use crate::verified::{Grounds, Verified};
use serde_json::json;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, PublicKey};
use threadseal_core::record::Head;
use threadseal_core::report::heads;
use threadseal_core::report::{
    CheckName, CheckResult, Compat, Completeness, Finding, FindingCode, Format, Profile, Report,
    Stats, TrustedUntil, Verdict,
};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Purpose, ScopeFormat, Trust};

/// The inputs of the verdict besides the chain.
#[derive(Clone, Copy)]
pub struct Judging<'a> {
    /// Whose signature counts.
    pub trust: &'a Trust,
    /// The moment by which validity windows are judged.
    pub now: Timestamp,
    /// When this verifier held a head of the chain before: evidence against later revocations.
    pub held_since: Option<Timestamp>,
    /// The number of turns that the caller expects.
    pub length: Option<u64>,
    /// Names ([`signer_name`]) of keys that signed this chain when this host last held it.
    pub signers: &'a [Digest],
    /// Take the coverage of v0.1 as enough (`--profile scroll-v0.1`).
    pub as_v01: bool,
}

impl<'a> Judging<'a> {
    /// Judging by `trust` at `now`, with nothing else known.
    pub fn new(trust: &'a Trust, now: Timestamp) -> Self {
        Self {
            trust,
            now,
            held_since: None,
            length: None,
            signers: &[],
            as_v01: false,
        }
    }
}

/// The facts that a verified chain proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainCoverage {
    /// Its last turn.
    pub head: Head,
    /// How many turns.
    pub turns: u64,
    /// The keys that signed them; none, where a head alone vouches for the chain.
    pub signers: Vec<PublicKey>,
}

/// The end of a verification.
pub struct Outcome {
    /// The report to show.
    pub report: Report,
    /// Present exactly when the verdict is `verified`.
    pub verified: Option<Verified<ChainCoverage>>,
    /// The end on which the next turn builds. Present when there is no evidence against the chain
    /// and it has a turn.
    pub tip: Option<Tip>,
    /// The keys whose signatures hold.
    pub signers: Vec<PublicKey>,
    /// Where the torn turn at the end of the file begins.
    pub torn_from: Option<u64>,
    /// Does the last turn lack its line feed?
    pub unended: bool,
}

/// The name under which a head store remembers that a key signed a chain.
pub fn signer_name(key: &PublicKey) -> Digest {
    Digest::tagged("threadseal/1 scroll signer", &[key.as_bytes()])
}

/// Verifies a whole file in memory, on the caller's thread.
pub fn judge(
    bytes: &[u8],
    container: Container,
    options: ChainOptions,
    judging: &Judging<'_>,
) -> Outcome {
    let mut verifier = Verifier::new(options);
    let mut reader = TurnReader::new(container.form(), verifier.pinned());
    let mut each = |piece: &[u8], place| verifier.take(&reader.read(piece), place);
    let mut splitter = Splitter::new(container);
    splitter.push(bytes, &mut each);
    let end = splitter.finish(&mut each);
    conclude(verifier, &end, judging)
}

/// Gives the verdict on a chain, once all its turns were taken.
pub fn conclude(verifier: Verifier, end: &End, judging: &Judging<'_>) -> Outcome {
    let (options, seen) = verifier.end();
    let mut report = Report::begin(Format::Scroll, Profile::ScrollV01);
    report.stats = Stats {
        bytes: end.bytes,
        events: seen.turns,
        checkpoints: seen.signed,
    };
    report.trust = Some(judging.trust.digest());
    report.record = seen.record.filter(|_| !seen.head_cut);
    report.compat.insert("agent_scroll", answer(&seen, end));
    check_chain(&mut report, &seen, end);
    let sound = !report.verdict.is_evidence();
    let vouched = check_signers(&mut report, &seen, judging, !options.pinned.is_empty());
    let met = seen.met.iter().copied();
    let held = heads::check(&mut report, &options.expect, met, &end_of(&seen));
    let counted = heads::check_length(&mut report, &end_of(&seen), judging.length);
    check_coverage(&mut report, &seen, judging.as_v01);
    list_timestamps(&mut report, &seen);
    check_signed(&mut report, &seen, held, !options.pinned.is_empty());
    report.head = seen.tip.map(|tip| tip.head).filter(|_| sound);
    report.root = report.head.and(seen.tip).map(|tip| tip.signatures.digest());
    report.dates.sealed = seen.last_signed_at.filter(|_| vouched && sound);
    report.trusted_until = trusted_until(&seen, vouched, held);
    if !report.verdict.is_evidence() && (held || counted) {
        report.completeness = Completeness::Head;
    }
    Outcome {
        verified: mint(&report, &seen, judging),
        tip: seen.tip.filter(|_| sound),
        torn_from: match seen.unended {
            Some((place, false)) => Some(place.from),
            _ => None,
        },
        unended: matches!(seen.unended, Some((_, true))),
        signers: seen.signers,
        report,
    }
}

/// The later of the ends to which signatures and heads vouch for the turns.
fn trusted_until(seen: &Seen, vouched: bool, held: bool) -> Option<TrustedUntil> {
    let by_signature = seen.signed_until.filter(|_| vouched);
    let by_head = seen.held_until.filter(|_| held);
    let ends = [by_signature, by_head].into_iter().flatten();
    ends.max_by_key(|until| until.byte)
}

/// The answer of v0.1, as its `verify` shows it.
fn answer(seen: &Seen, end: &End) -> Compat {
    let result = &seen.v01;
    let is_cut = end.fault.is_some() || matches!(seen.unended, Some((_, false)));
    if let Some(why) = is_cut.then_some("not JSON").or(seen.v01_nothing) {
        return json!({"ok": false, "error": why}).into();
    }
    let failures: Vec<_> = result
        .failures
        .iter()
        .map(|failure| {
            let mut shown = json!({"turn": failure.turn, "reason": failure.reason.as_str()});
            if let Some(detail) = &failure.detail {
                shown["detail"] = json!(detail);
            }
            shown
        })
        .collect();
    let mut answer = json!({"ok": result.ok(), "failures": failures});
    if result.more > 0 {
        answer["more_failures"] = json!(result.more);
    }
    answer.into()
}

/// Turns, hashes, links, and the container around them.
fn check_chain(report: &mut Report, seen: &Seen, end: &End) {
    // Some turns are sealed, so an unreadable turn was changed.
    let unreadable = if seen.good > 0 {
        Verdict::Tampered
    } else {
        Verdict::Malformed
    };
    for finding in &seen.unreadable {
        report.downgrade(unreadable, finding.clone());
    }
    for (verdict, finding) in &seen.faults {
        report.downgrade(*verdict, finding.clone());
    }
    if let Some((fault, at)) = end.fault {
        let (verdict, code, text) = match fault {
            ContainerFault::NoArray => (
                Verdict::Malformed,
                FindingCode::NoArray,
                "no array begins here",
            ),
            ContainerFault::Unended if seen.turns > 0 => (
                Verdict::Truncated,
                FindingCode::ArrayUnended,
                "the array has no end",
            ),
            ContainerFault::Unended => (
                Verdict::Malformed,
                FindingCode::ArrayUnended,
                "the array has no end",
            ),
            ContainerFault::Stray => (
                unreadable,
                FindingCode::StrayBytes,
                "a byte belongs to no turn",
            ),
            ContainerFault::NoItem => (
                unreadable,
                FindingCode::StrayBytes,
                "bytes are not a CBOR item",
            ),
        };
        report.downgrade(verdict, Finding::error(code, text).at_bytes(at, end.bytes));
    }
    match seen.unended {
        // A finding already reports the fault of the array.
        Some(_) if end.fault.is_some() => {}
        Some((place, true)) => {
            let text = "the last turn has no line feed after it";
            report.find(put(Finding::note(FindingCode::UnendedTurn, text), &place));
        }
        Some((place, false)) => {
            let text = "the file ends inside a turn: a write was interrupted";
            let finding = put(Finding::warning(FindingCode::TornTail, text), &place);
            report.downgrade(Verdict::UnsignedTail, finding);
        }
        None => {}
    }
    let sound = !report.verdict.is_evidence();
    report.check(CheckName::Chain, CheckResult::of(sound), None);
}

/// Judges the keys whose signatures hold; true when the trust vouches for each of them.
fn check_signers(report: &mut Report, seen: &Seen, judging: &Judging<'_>, pinned: bool) -> bool {
    if seen.signed == 0 {
        let why = "no turn is signed".to_owned();
        report.check(CheckName::Signatures, CheckResult::Skipped, Some(why));
    } else {
        let bad = |finding: &Finding| {
            matches!(
                finding.code,
                FindingCode::SignatureBad | FindingCode::KeyUnusable
            )
        };
        let good = !seen.faults.iter().any(|(_, finding)| bad(finding));
        let how = format!("{} of {} turns are signed", seen.signed, seen.turns);
        report.check(CheckName::Signatures, CheckResult::of(good), Some(how));
    }
    let sound = !report.verdict.is_evidence();
    let mut all = !seen.signers.is_empty();
    for (at, key) in seen.signers.iter().enumerate() {
        let heads = match sound {
            true => covering(seen, at, judging.trust),
            false => Vec::new(),
        };
        let purpose = Purpose {
            usage: KeyUsage::Scroll,
            format: ScopeFormat::Scroll,
            thread: None,
            evidence: judging.held_since,
            heads: &heads,
        };
        let judgement = judging.trust.judge(key, &purpose, judging.now);
        all &= report.signer(key, &judgement);
    }
    if pinned || seen.signed > 0 {
        report.check(CheckName::Trust, CheckResult::of(all), None);
    } else {
        let why = "no turn is signed".to_owned();
        report.check(CheckName::Trust, CheckResult::Skipped, Some(why));
    }
    for known in judging.signers {
        if !seen.signers.iter().any(|key| signer_name(key) == *known) {
            let text = "a key that signed this chain when it was last known here signs none of its turns now";
            report.downgrade(
                Verdict::Tampered,
                Finding::error(FindingCode::SignaturesGone, text),
            );
        }
    }
    all
}

/// The heads that cover the signatures of the signer in place `at`: of its last turn, and of later
/// ones that are the last of their signer or of the chain. One that the log of this host has with
/// other signatures covers none.
fn covering(seen: &Seen, at: usize, trust: &Trust) -> Vec<Head> {
    let last = |at: usize| seen.last_signed.get(at).copied().flatten();
    let Some((own, _)) = last(at) else {
        return Vec::new();
    };
    let tip = seen.tip.map(|tip| (tip.head, tip.signatures));
    let all = (0..seen.signers.len()).filter_map(last).chain(tip);
    let is_logged_so = |(head, signatures): &(Head, Signatures)| {
        let logged = trust.places.as_ref().and_then(|places| places.root(head));
        logged.is_none_or(|root| root == signatures.digest())
    };
    let covers = all.filter(|(head, _)| head.seq >= own.seq);
    covers.filter(is_logged_so).map(|(head, _)| head).collect()
}

fn end_of(seen: &Seen) -> heads::End {
    heads::End {
        words: ("scroll", "turn"),
        record: seen.record,
        last: seen.turns.checked_sub(1),
        whole: true,
        place: None,
        broken: false,
    }
}

/// Content that a person would read and no hash covers.
fn check_coverage(report: &mut Report, seen: &Seen, as_v01: bool) {
    for finding in &seen.uncovered {
        if as_v01 {
            report.find(finding.clone());
        } else {
            report.downgrade(Verdict::Partial, finding.clone());
        }
    }
    if let (Some(mark), true) = (&seen.first_unsigned, seen.unsigned_inside > 0) {
        let text = format!(
            "{} turns have no signature of their own; the signature of a later turn covers their content, not their authors",
            seen.unsigned_inside
        );
        let finding = mark.put(Finding::warning(FindingCode::TurnUnsigned, text));
        if as_v01 {
            report.find(finding);
        } else {
            report.downgrade(Verdict::Partial, finding);
        }
    }
}

/// The digits of timestamps that no hash covers. They count for nothing: not for the verdict, not
/// for the order of turns, not for their age.
fn list_timestamps(report: &mut Report, seen: &Seen) {
    let Some(mark) = &seen.first_rounded else {
        return;
    };
    let text = format!(
        "{} of {} timestamps have digits below the resolution of a double, from here on: no hash covers these digits",
        seen.rounded_count, seen.turns
    );
    report.find(mark.put(Finding::note(FindingCode::TimestampInexact, text)));
    for (turn, timestamp) in &seen.rounded {
        let (written, covered) = (timestamp.written, timestamp.covered);
        let item = format!("timestamp_ns={written} (turn {turn}; covered: {covered})");
        report.unauthenticated.push(item);
    }
    let more = seen.rounded_count - seen.rounded.len() as u64;
    if more > 0 {
        let item = format!("timestamp_ns=… ({more} more turns)");
        report.unauthenticated.push(item);
    }
}

/// How much of the chain is signed at all.
fn check_signed(report: &mut Report, seen: &Seen, held: bool, pinned: bool) {
    if seen.turns == 0 {
        let finding = Finding::note(
            FindingCode::ScrollEmpty,
            "the scroll has no turn, and proves nothing",
        );
        return report.downgrade(Verdict::Unsigned, finding);
    }
    if let (true, Some(mark)) = (pinned, &seen.first_unsigned) {
        let text = "the turn is not signed, and every turn must be by a key that was asked for";
        let finding = mark.put(Finding::error(FindingCode::SignatureMissing, text));
        return report.downgrade(Verdict::Tampered, finding);
    }
    if seen.signed == 0 {
        let text = "this chain is not signed: any writer of the file can write another one";
        report.find(Finding::note(FindingCode::Unsigned, text));
        if !held {
            report.hold(Verdict::Consistent);
        } else if let Some(mark) = &seen.unheld_tail {
            let text = "no known head covers this turn and those after it";
            let finding = mark.put(Finding::warning(FindingCode::UnsignedTail, text));
            report.downgrade(Verdict::UnsignedTail, finding);
        }
    } else if let Some(mark) = &seen.unsigned_tail {
        let text = "this turn and those after it are not signed";
        let finding = mark.put(Finding::warning(FindingCode::UnsignedTail, text));
        report.downgrade(Verdict::UnsignedTail, finding);
    }
}

fn mint(report: &Report, seen: &Seen, judging: &Judging<'_>) -> Option<Verified<ChainCoverage>> {
    if report.verdict != Verdict::Verified {
        return None;
    }
    let head = seen.tip?.head;
    let coverage = ChainCoverage {
        head,
        turns: seen.turns,
        signers: seen.signers.clone(),
    };
    let grounds = Grounds {
        record: Some(head.record),
        head: Some(head),
        trusted_until: report.trusted_until?,
        trust: judging.trust.digest(),
        now: judging.now,
    };
    Some(Verified::mint(coverage, grounds))
}
