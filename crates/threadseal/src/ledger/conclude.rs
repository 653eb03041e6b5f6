//! The verdict on a ledger (`spec/ledger.md` §5).
//!
//! ```text
//! bytes ─► LineSplitter ─► LineReader (any order, any core) ─► Verifier ─► conclude
//! Verifier + bytes + trust + now ─► Outcome { report, Verified<LedgerCoverage>?, tip? }
//! ```
//! A chain that holds is `consistent`: whoever can write the file can write another chain. Only a
//! head that the verifier holds makes it `verified`, up to that head and beyond it.

use super::chain::{ChainOptions, ChainTip, Met, Seen, Verifier, View};
use super::load::{LineReader, LineSplitter};
use super::record::RunId;
use crate::record::ExpectedHead;
use crate::report::{
    CheckResult, Completeness, Finding, Grounds, Report, Stats, Verdict, Verified,
};
use crate::time::Timestamp;
use crate::transcript::Expectation;
use crate::trust::Trust;

/// What the verdict needs beside the ledger.
#[derive(Clone, Copy)]
pub struct Judging<'a> {
    /// Whose signature counts.
    pub trust: &'a Trust,
    /// The moment by which validity windows are judged.
    pub now: Timestamp,
    /// The number of records that the caller expects.
    pub length: Option<u64>,
}

impl<'a> Judging<'a> {
    /// Judging by `trust` at `now`, with nothing else known.
    pub fn new(trust: &'a Trust, now: Timestamp) -> Self {
        Self {
            trust,
            now,
            length: None,
        }
    }
}

/// What a verified ledger vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerCoverage {
    /// Run, number of records, last hash.
    pub tip: ChainTip,
}

/// The end of a verification.
pub struct Outcome {
    /// What to tell.
    pub report: Report,
    /// Present exactly when the verdict is `verified`.
    pub verified: Option<Verified<LedgerCoverage>>,
    /// What the next record builds on, when nothing speaks against the chain and its last record
    /// is chained.
    pub tip: Option<ChainTip>,
    /// Does the original say that the chain holds?
    pub compat_ok: bool,
}

/// Verifies a whole file in memory, on the caller's thread.
pub fn judge(bytes: &[u8], options: ChainOptions, judging: &Judging<'_>) -> Outcome {
    let mut verifier = Verifier::new(options);
    let mut reader = LineReader::new();
    let mut splitter = LineSplitter::new();
    let mut each = |line: &[u8], place| verifier.take(&reader.read_line(line), line, place);
    splitter.push(bytes, &mut each);
    let bytes = splitter.finish(&mut each);
    conclude(verifier, bytes, judging)
}

/// Says what a ledger proves, once all its lines were taken; `bytes` is how many it has.
pub fn conclude(verifier: Verifier, bytes: u64, judging: &Judging<'_>) -> Outcome {
    let (options, seen) = verifier.end();
    let mut report = Report::begin("ledger", "abstractruntime");
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
    let sound = report.verdict > Verdict::Malformed;
    let held = check_heads(&mut report, &seen, &options.expect);
    let counted = check_length(&mut report, seen.records, judging.length);
    if sound && (held || counted) {
        report.completeness = Completeness::Head;
    }
    check_steps(&mut report, &seen);
    check_protection(&mut report, &seen, held);
    claims(&mut report, &seen, held);
    let tip = seen.tip.filter(|tip| sound && tip.count == seen.records);
    report.head = tip.as_ref().map(ChainTip::head);
    report.trusted_until = if held { seen.held_until } else { None };
    Outcome {
        verified: mint(&report, tip.as_ref(), judging),
        compat_ok: seen.compat.ok(),
        tip,
        report,
    }
}

fn result_of(good: bool) -> CheckResult {
    if good {
        CheckResult::Pass
    } else {
        CheckResult::Fail
    }
}

/// Records, hashes, links, and what stands between them.
fn check_chain(report: &mut Report, seen: &Seen, view: View) {
    for (verdict, finding) in &seen.faults {
        report.hold_because(*verdict, finding.clone());
    }
    for (finding, ended) in &seen.trailing {
        let mut finding = finding.clone();
        let verdict = match (seen.records, *ended) {
            (0, _) => Verdict::Malformed,
            (_, true) => Verdict::UnsignedTail,
            (_, false) => {
                finding = Finding {
                    code: "torn_tail",
                    ..finding
                };
                Verdict::UnsignedTail
            }
        };
        report.hold_because(verdict, finding);
    }
    for finding in &seen.remarks {
        report.find(finding.clone());
    }
    let why = match view {
        View::Whole => None,
        View::Window => {
            let text = "only some records of the run are here: what stands before and behind them is not proved";
            report.hold_because(Verdict::Partial, Finding::warning("ledger_window", text));
            Some("a window of the ledger".to_owned())
        }
        View::Replay => {
            let text = format!(
                "this is a copy for replay: {} records lack content that was hashed, so their hashes prove nothing here",
                seen.omitted
            );
            report.hold_because(Verdict::Partial, Finding::warning("ledger_replay", text));
            Some("a copy for replay".to_owned())
        }
    };
    let sound = report.verdict > Verdict::Malformed;
    if seen.chained == 0 {
        let why = Some("no record has a hash".to_owned());
        report.check("chain", CheckResult::Skipped, why);
    } else {
        report.check("chain", result_of(sound), why);
    }
}

/// Heads that must be there; true when one was met.
fn check_heads(report: &mut Report, seen: &Seen, expect: &[Expectation]) -> bool {
    if expect.is_empty() {
        let why = "no head of this ledger is known here".to_owned();
        report.check("head", CheckResult::Skipped, Some(why));
        return false;
    }
    let mut good = true;
    for (expected, met) in expect.iter().zip(&seen.met) {
        let Some((verdict, code, text)) = head_fault(expected, *met, seen) else {
            continue;
        };
        good = false;
        report.hold_because(verdict, Finding::error(code, text));
    }
    report.check("head", result_of(good), None);
    good
}

fn head_fault(
    expected: &Expectation,
    met: Met,
    seen: &Seen,
) -> Option<(Verdict, &'static str, String)> {
    let last = seen.records.saturating_sub(1);
    match (met, expected.head) {
        (Met::At(seq), _) if expected.exact && seq != last => {
            let text = format!("the expected head is record {seq}, and the ledger goes on");
            Some((Verdict::Open, "head_not_last", text))
        }
        (Met::At(_), _) => None,
        (Met::Differs, _) => {
            let text = "the record of the expected head is another one".to_owned();
            Some((Verdict::Forked, "head_differs", text))
        }
        (Met::No, ExpectedHead::Head(head))
            if seen
                .run
                .as_ref()
                .is_some_and(|run| run.record_id() != head.record) =>
        {
            let text = "the expected head is of another run".to_owned();
            Some((Verdict::Foreign, "record_differs", text))
        }
        (Met::No, ExpectedHead::Head(head)) => {
            let text = format!(
                "the ledger has {} records, the known head is record {}",
                seen.records, head.seq
            );
            let verdict = match (expected.remembered, head.seq < seen.records) {
                // The record is here and has no hash any more.
                (_, true) => Verdict::Tampered,
                (true, false) => Verdict::RolledBack,
                (false, false) => Verdict::Truncated,
            };
            Some((verdict, "head_ahead", text))
        }
        (Met::No, ExpectedHead::Line(line)) => {
            let text = format!("no record of this ledger has the expected hash {line}");
            Some((Verdict::Truncated, "head_missing", text))
        }
    }
}

/// The number of records; true when it is the expected one.
fn check_length(report: &mut Report, records: u64, length: Option<u64>) -> bool {
    let Some(length) = length else {
        return false;
    };
    let good = records == length;
    if !good {
        let verdict = if records < length {
            Verdict::Truncated
        } else {
            Verdict::Open
        };
        let text = format!("the ledger has {records} records, not {length}");
        report.hold_because(verdict, Finding::error("length_differs", text));
    }
    report.check("length", result_of(good), None);
    good
}

/// Steps that are open, and content that lies elsewhere.
fn check_steps(report: &mut Report, seen: &Seen) {
    let steps = &seen.steps;
    if let Some((index, place)) = steps.first_open {
        let text = format!(
            "{} steps have begun and not ended: they still run, or a process died, or records are gone",
            steps.open
        );
        let finding = super::chain::put(Finding::warning("step_unended", text), &place);
        report.find(finding.in_turn(Some(index)));
    }
    if steps.lost_track {
        let why = "too many steps were open at once".to_owned();
        report.check("steps", CheckResult::Skipped, Some(why));
    } else {
        let odd = |finding: &Finding| finding.code.starts_with("step_");
        let good = !report.findings.iter().any(odd);
        report.check("steps", result_of(good), None);
    }
    let unresolved = |finding: &Finding| finding.code == "slim_unresolved";
    if report.findings.iter().any(unresolved) {
        report.check("slim", CheckResult::Fail, None);
    } else if steps.slim_unchecked > 0 {
        let why = format!(
            "{} markers would take too much memory",
            steps.slim_unchecked
        );
        report.check("slim", CheckResult::Skipped, Some(why));
    } else if steps.slim > 0 {
        let how = format!("{} markers stand for what the ledger has", steps.slim);
        report.check("slim", CheckResult::Pass, Some(how));
    }
    if steps.artifacts > 0 {
        let text = format!(
            "{} contents lie in an artifact store, under ids that the hashes cover; nobody looked there",
            steps.artifacts
        );
        report.find(Finding::note("artifact_elsewhere", text));
        let why = "the artifact store was not read".to_owned();
        report.check("artifacts", CheckResult::Skipped, Some(why));
    }
}

/// Does anything protect this ledger?
fn check_protection(report: &mut Report, seen: &Seen, held: bool) {
    if seen.records == 0 {
        let text = "the ledger has no record, and proves nothing";
        return report.hold_because(Verdict::Unsigned, Finding::note("ledger_empty", text));
    }
    if seen.chained == 0 {
        return report.hold(Verdict::Unsigned);
    }
    if let Some(mark) = &seen.unchained_tail {
        let text = "this record and those after it have no hash";
        let finding = mark.put(Finding::warning("unsigned_tail", text));
        report.hold_because(Verdict::UnsignedTail, finding);
    }
    let reached = seen.met.iter().filter_map(|met| match met {
        Met::At(index) => Some(index + 1),
        _ => None,
    });
    let reached = reached.max().unwrap_or(0);
    if held && reached < seen.records {
        let text = format!(
            "the known head vouches for {reached} of {} records; the rest only follows in the chain",
            seen.records
        );
        report.hold_because(
            Verdict::UnsignedTail,
            Finding::warning("unsigned_tail", text),
        );
    }
    if !held {
        let text = "nothing outside of this file vouches for the chain: whoever can write it can write another one";
        report.hold_because(Verdict::Consistent, Finding::note("unsigned", text));
    }
}

/// What one would read as fact, and what is only said.
fn claims(report: &mut Report, seen: &Seen, held: bool) {
    if held {
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
    if seen.signed > 0 {
        let text = format!("signatures={}", seen.signed);
        report.unauthenticated.push(text);
    }
}

fn mint(
    report: &Report,
    tip: Option<&ChainTip>,
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
    Some(Verified::mint(LedgerCoverage { tip }, grounds))
}
