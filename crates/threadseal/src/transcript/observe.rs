//! The report of an observed log: its seal file, its lines, its trust, its heads.

use super::log::LogScan;
use super::observed::{ObservedSeal, SealFile};
use super::scan::Expectation;
use super::verify::VerifyOptions;
use crate::key::KeyUsage;
use crate::record::{ExpectedHead, Head};
use crate::report::{CheckResult, Completeness, Finding, Report, Stats, TrustedUntil, Verdict};
use crate::trust::{Format, Purpose};

/// Joins a checked seal file and a read log to one report.
pub fn report(
    file: &SealFile,
    log: &LogScan,
    expect: &[Expectation],
    options: &VerifyOptions<'_>,
) -> Report {
    let mut report = Report::begin("log", "observed");
    let checkpoints = file.seals.len() as u64;
    report.stats = Stats {
        bytes: log.bytes,
        events: log.lines,
        checkpoints,
    };
    report.record = Some(file.record);
    report.head = file.last().map(|last| last.head);
    report.trust = Some(options.trust.digest());
    for (verdict, finding) in &file.faults {
        // A torn seal file lost nothing that was sealed: it is said, and weighs nothing.
        if *verdict == Verdict::UnsignedTail {
            report.find(finding.clone());
        } else {
            report.hold_because(*verdict, finding.clone());
        }
    }
    let trusted = check_trust(&mut report, file, options);
    if let Some(last) = file.last() {
        check_lines(&mut report, file, last, log);
        check_heads(&mut report, file, last, expect);
        if trusted && report.verdict > Verdict::Malformed {
            let head = last.head;
            report.trusted_until = Some(TrustedUntil {
                line: last.lines,
                byte: head.size,
                turn: None,
            });
        }
    } else {
        let text = "the seal file holds no seal";
        report.hold_because(Verdict::Unsigned, Finding::warning("no_seal", text));
    }
    if let (true, Some((line, at, _))) = (trusted, log.difference) {
        report.trusted_until = Some(TrustedUntil {
            line: line - 1,
            byte: at[0],
            turn: None,
        });
    }
    report
        .unauthenticated
        .push("author: an observed seal says that bytes existed, not who wrote them".into());
    report
}

fn check_trust(report: &mut Report, file: &SealFile, options: &VerifyOptions<'_>) -> bool {
    let purpose = Purpose {
        usage: KeyUsage::Observed,
        format: Format::Log,
        thread: None,
        evidence: options.held_since,
    };
    let vouched = report.signer(
        &file.key,
        &options.trust.judge(&file.key, &purpose, options.now),
    );
    report.check(
        "trust",
        if vouched {
            CheckResult::Pass
        } else {
            CheckResult::Fail
        },
        None,
    );
    vouched
}

fn check_lines(report: &mut Report, file: &SealFile, last: &ObservedSeal, log: &LogScan) {
    if let Some((line, at, difference)) = log.difference {
        let text = match difference {
            super::log::Difference::Changed => "the line was changed after it was sealed",
            super::log::Difference::Inserted => "the line was inserted between sealed lines",
            super::log::Difference::Deleted => "the line that was sealed here is gone",
            super::log::Difference::Moved => "the line was moved here from elsewhere",
        };
        let finding = Finding::error(difference.code(), text).at_line(line);
        report.hold_because(Verdict::Tampered, finding.at_bytes(at[0], at[1]));
    } else if log.lines < last.lines {
        let text = format!(
            "{} of {} sealed lines are here, all of them unchanged",
            log.lines, last.lines
        );
        let finding = Finding::error("lines_missing", text).at_line(log.lines + 1);
        report.hold_because(Verdict::Truncated, finding.at_bytes(log.bytes, log.bytes));
    } else if let Some(end) = log.sealed_end {
        check_end(report, file, last, log, end);
    }
    let result = if log.difference.is_none() && log.lines >= last.lines {
        CheckResult::Pass
    } else {
        CheckResult::Fail
    };
    report.check("lines", result, None);
}

fn check_end(report: &mut Report, file: &SealFile, last: &ObservedSeal, log: &LogScan, end: u64) {
    // The last sealed line may have got its LF since; nothing else may differ in length.
    if end != last.head.size && (last.is_final || end != last.head.size + 1) {
        let text = "the sealed lines are not as many bytes as were sealed";
        report.hold_because(
            Verdict::Tampered,
            Finding::error("size_differs", text).at_line(last.lines),
        );
    }
    if log.bytes > end {
        let (verdict, code) = if last.is_final {
            (Verdict::Tampered, "lines_after_final")
        } else {
            (Verdict::UnsignedTail, "unsigned_tail")
        };
        let text = format!(
            "{} bytes after the last seal are not covered",
            log.bytes - end
        );
        let finding = Finding::warning(code, text).at_line(file.leaves.len() as u64 + 1);
        report.hold_because(verdict, finding.at_bytes(end, log.bytes));
    }
}

fn check_heads(report: &mut Report, file: &SealFile, last: &ObservedSeal, expect: &[Expectation]) {
    let mut held = false;
    let mut result = if expect.is_empty() {
        CheckResult::Skipped
    } else {
        CheckResult::Pass
    };
    for expected in expect {
        match head_fault(file, last, expected) {
            None => held = true,
            Some((verdict, code, text)) => {
                held |= verdict == Verdict::Open;
                result = CheckResult::Fail;
                report.hold_because(verdict, Finding::error(code, text));
            }
        }
    }
    report.check(
        "head",
        result,
        expect
            .is_empty()
            .then(|| "no head of this record is known here".into()),
    );
    report.completeness = match (last.is_final, held) {
        (true, _) => Completeness::Final,
        (false, true) => Completeness::Head,
        (false, false) => Completeness::Unproved,
    };
    if report.completeness == Completeness::Unproved {
        let text =
            "the last seal is not final and no head is known: later seals may have been cut off";
        report.hold_because(Verdict::Open, Finding::note("end_unproved", text));
    }
}

fn head_fault(
    file: &SealFile,
    last: &ObservedSeal,
    expected: &Expectation,
) -> Option<(Verdict, &'static str, String)> {
    let here: Option<&Head> = match expected.head {
        ExpectedHead::Line(line) => file
            .seals
            .iter()
            .map(|s| &s.head)
            .find(|head| head.line == line),
        ExpectedHead::Head(head) if head.record != file.record => {
            let text = format!("the expected head is of record {}", head.record);
            return Some((Verdict::Foreign, "record_differs", text));
        }
        ExpectedHead::Head(head) => file
            .seals
            .iter()
            .map(|s| &s.head)
            .find(|h| h.seq == head.seq),
    };
    match (here, expected.head) {
        (Some(here), ExpectedHead::Head(head)) if *here != head => {
            let text = format!(
                "seal {} differs from the expected head of that number",
                head.seq
            );
            Some((Verdict::Forked, "head_differs", text))
        }
        (Some(here), _) if expected.exact && *here != last.head => {
            let text = format!(
                "the expected head is seal {}, and seals follow it",
                here.seq
            );
            Some((Verdict::Open, "head_not_last", text))
        }
        (Some(_), _) => None,
        (None, ExpectedHead::Line(line)) => {
            let text = format!("no seal of this record has the expected digest {line}");
            Some((Verdict::Truncated, "head_missing", text))
        }
        (None, ExpectedHead::Head(head)) => {
            let text = format!(
                "the last seal is {}, the known head is seal {}",
                last.head.seq, head.seq
            );
            let verdict = if expected.remembered {
                Verdict::RolledBack
            } else {
                Verdict::Truncated
            };
            Some((verdict, "head_ahead", text))
        }
    }
}
