//! The report of an observed log: its seal file, its lines, its trust, its heads.

use super::handover::Keys;
use super::log::LogScan;
use super::observed::{ObservedSeal, SealFile};
use super::verify::VerifyOptions;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::MAX_FINDINGS;
use threadseal_core::record::Head;
use threadseal_core::report::heads::{self, End, HeadMatch};
use threadseal_core::report::{
    CheckName, CheckResult, Completeness, Expectation, Finding, FindingCode, Format, Profile,
    Report, Stats, TrustedUntil, Verdict,
};

/// Joins a checked seal file and a read log to one report.
pub fn report(
    file: &SealFile,
    log: &LogScan,
    expect: &[Expectation],
    options: &VerifyOptions<'_>,
) -> Report {
    let mut report = Report::begin(Format::Log, Profile::Observed);
    let checkpoints = file.seals.len() as u64;
    report.stats = Stats {
        bytes: log.bytes,
        events: log.lines,
        checkpoints,
    };
    report.record = Some(file.record);
    report.head = file.last().map(|last| last.head);
    report.root = file.last().map(|last| last.root);
    report.dates.sealed = file.last().map(|last| last.time);
    report.trust = Some(options.trust.digest());
    for (verdict, finding) in &file.faults {
        // A torn seal file lost no sealed line: this is reported without effect on the verdict.
        if *verdict == Verdict::UnsignedTail {
            report.find(finding.clone());
        } else {
            report.downgrade(*verdict, finding.clone());
        }
    }
    // A key that made no seal is no signer.
    let trusted = match file.last() {
        Some(_) => check_trust(&mut report, file, options),
        None => {
            let why = "no seal of the file counts".to_owned();
            report.check(CheckName::Trust, CheckResult::Skipped, Some(why));
            false
        }
    };
    note_redactions(&mut report, file, log);
    if let Some(last) = file.last() {
        check_lines(&mut report, file, last, log);
        check_heads(&mut report, file, last, expect);
        if trusted && !report.verdict.is_evidence() {
            let head = last.head;
            report.trusted_until = Some(TrustedUntil {
                line: last.lines,
                byte: head.size,
                turn: None,
            });
        }
    } else {
        let text = "the seal file has no seal";
        report.downgrade(
            Verdict::Unsigned,
            Finding::warning(FindingCode::NoSeal, text),
        );
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
        .push("author: an observed seal proves that bytes existed, not who wrote them".into());
    report
}

fn check_trust(report: &mut Report, file: &SealFile, options: &VerifyOptions<'_>) -> bool {
    let last_of = |key: &PublicKey| -> Option<Head> {
        let mut seals = file.seals.iter().rev();
        seals.find(|seal| seal.key == *key).map(|seal| seal.head)
    };
    let next = file.next_keys.iter();
    let keys = Keys {
        first: (file.key, last_of(&file.key)),
        next: next.map(|next| (next, last_of(&next.key))).collect(),
    };
    let mut all = true;
    for judged in keys.judge(options) {
        // A key that made no seal is no signer.
        if judged.seals {
            all &= report.signer(&judged.key, &judged.judgement);
        }
        if judged.is_refuted {
            let text =
                "a key that has ended names another key in its place than in the log of this host";
            let finding = Finding::error(FindingCode::KeyNotAllowed, text);
            report.downgrade(Verdict::Forged, finding);
        }
    }
    report.check(CheckName::Trust, CheckResult::of(all), None);
    all
}

/// Names the redactions that the seal file states.
fn note_redactions(report: &mut Report, file: &SealFile, log: &LogScan) {
    for redaction in &file.redactions {
        let runs: Vec<String> = redaction
            .runs
            .iter()
            .take(MAX_FINDINGS)
            .map(|(first, count)| match count {
                1 => first.to_string(),
                _ => format!("{first}-{}", first + count - 1),
            })
            .collect();
        let more = match redaction.runs.len().checked_sub(MAX_FINDINGS) {
            Some(more) if more > 0 => format!(" and {more} more runs"),
            _ => String::new(),
        };
        let (by, why, at) = (&redaction.by, &redaction.why, redaction.time);
        let (lines, at) = (runs.join(", "), at.to_iso_seconds());
        let text = format!("lines {lines}{more} redacted by {by:?} at {at}: {why:?}");
        let first = redaction.runs.first().map_or(1, |(first, _)| *first);
        report.find(Finding::note(FindingCode::Redacted, text).at_line(first));
    }
    if log.unfinished > 0 {
        let text = format!(
            "{} redacted lines are still in the log; hint: redact them again",
            log.unfinished
        );
        report.find(Finding::warning(FindingCode::RedactionUnfinished, text));
    }
}

fn check_lines(report: &mut Report, file: &SealFile, last: &ObservedSeal, log: &LogScan) {
    if let Some((line, at, difference)) = log.difference {
        let text = match difference {
            super::log::Difference::Changed => "the line was changed after it was sealed",
            super::log::Difference::Inserted => "the line was inserted between sealed lines",
            super::log::Difference::Deleted => "the line that was sealed here is gone",
            super::log::Difference::Moved => "the line was moved here from another place",
            super::log::Difference::Unsalted => {
                "the salt of the line is gone, and no statement of a redaction names the line"
            }
        };
        let finding = Finding::error(difference.code(), text).at_line(line);
        report.downgrade(Verdict::Tampered, finding.at_bytes(at[0], at[1]));
    } else if log.lines < last.lines {
        let text = format!(
            "only {} of {} sealed lines are here, all of them unchanged",
            log.lines, last.lines
        );
        let finding = Finding::error(FindingCode::LinesMissing, text).at_line(log.lines + 1);
        report.downgrade(Verdict::Truncated, finding.at_bytes(log.bytes, log.bytes));
    } else if let Some(end) = log.sealed_end {
        check_end(report, file, last, log, end);
    }
    let result = if log.difference.is_none() && log.lines >= last.lines {
        CheckResult::Pass
    } else {
        CheckResult::Fail
    };
    report.check(CheckName::Lines, result, None);
}

fn check_end(report: &mut Report, file: &SealFile, last: &ObservedSeal, log: &LogScan, end: u64) {
    // The last sealed line may have got its LF since, also after a final seal: the program that
    // writes the log knows nothing of it. Nothing else may differ in length. The lengths of
    // redacted lines are not known.
    let differs = end != last.head.size && end != last.head.size + 1;
    if differs && log.redacted == 0 {
        let text = "the sealed lines do not have the sealed length";
        report.downgrade(
            Verdict::Tampered,
            Finding::error(FindingCode::SizeDiffers, text).at_line(last.lines),
        );
    }
    if log.bytes > end {
        let length = log.bytes - end;
        // The program that writes the log knows nothing of its seals, so a resumed session
        // appends. The sealed lines are as they were.
        let finding = if last.is_final {
            let text = format!("{length} bytes were appended after the final seal");
            Finding::error(FindingCode::LinesAfterFinal, text)
        } else {
            let text = format!("{length} bytes after the last seal are not covered");
            Finding::warning(FindingCode::UnsignedTail, text)
        };
        let finding = finding.at_line(file.leaves.len() as u64 + 1);
        report.downgrade(Verdict::UnsignedTail, finding.at_bytes(end, log.bytes));
    }
}

fn check_heads(report: &mut Report, file: &SealFile, last: &ObservedSeal, expect: &[Expectation]) {
    let mut met = vec![HeadMatch::NotYet; expect.len()];
    for seal in &file.seals {
        for (expected, met) in expect.iter().zip(&mut met) {
            met.meet(expected.head, Some(file.record), (&seal.head).into());
        }
    }
    let end = End {
        words: ("record", "seal"),
        record: Some(file.record),
        last: Some(last.head.seq),
        whole: true,
        place: None,
        broken: file.fault().is_some(),
    };
    heads::check(report, expect, met.iter().copied(), &end);
    // A changed log is not whole, however many of its seals are present.
    if report.verdict.is_evidence() {
        return;
    }
    let held = heads::is_held(expect, &met);
    report.completeness = match (last.is_final, held) {
        (true, _) => Completeness::Final,
        (false, true) => Completeness::Head,
        (false, false) => Completeness::Unproved,
    };
    if report.completeness == Completeness::Unproved {
        let text = heads::end_unproved(expect);
        report.downgrade(Verdict::Open, Finding::note(FindingCode::EndUnproved, text));
    }
}
