//! Heads that a record must contain, held against what a scan met.
//!
//! | met | verdict |
//! |---|---|
//! | the head, but not as the last where it must be | `open` |
//! | another seal of that number | `forked` |
//! | a record of another name | `foreign` |
//! | an earlier end; whole lines up to it, and this host knows better | `truncated`; `rolled_back` |
//!
//! Native and Rye records differ in what a seal is, not in this.

use super::scan::Expectation;
use crate::record::{ExpectedHead, RecordId};
use crate::report::{CheckResult, Finding, Report, Verdict};

/// How an expected head fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Met {
    NotYet,
    /// It is the seal of this number.
    At(u64),
    /// The seal of its number is another.
    Differs,
}

/// How a record ends, as its scan saw it.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// The record's id, if that is known.
    pub(super) record: Option<RecordId>,
    /// Number of the last good seal, and where its line ends.
    pub(super) last: Option<(u64, u64)>,
    /// Line and turn to name in findings.
    pub(super) place: Option<(u64, u64)>,
    /// Bytes of the record, its tail included.
    pub(super) bytes: u64,
    /// Is something wrong before the end? What would have followed cannot be said then.
    pub(super) broken: bool,
}

/// Reports each head of `expect` that the record does not contain; `met` has what the scan met of
/// each. Did all hold, and was there one?
pub(super) fn check(
    report: &mut Report,
    expect: &[Expectation],
    met: impl IntoIterator<Item = Met>,
    end: &End,
) -> bool {
    if expect.is_empty() {
        let why = "no head of this record is known here".to_owned();
        report.check("head", CheckResult::Skipped, Some(why));
        return false;
    }
    let mut result = CheckResult::Pass;
    for (expected, met) in expect.iter().zip(met) {
        let Some((verdict, code, text)) = fault(expected, met, end) else {
            continue;
        };
        result = CheckResult::Fail;
        let finding = Finding::error(code, text);
        report.hold_because(
            verdict,
            match end.place {
                Some((line, turn)) => finding.at_line(line).in_turn(Some(turn)),
                None => finding,
            },
        );
    }
    report.check("head", result, None);
    result == CheckResult::Pass
}

fn fault(expected: &Expectation, met: Met, end: &End) -> Option<(Verdict, &'static str, String)> {
    let last_seq = end.last.map(|(seq, _)| seq);
    match (met, expected.head) {
        (Met::At(seq), _) if expected.exact && last_seq != Some(seq) => {
            let text = format!("the expected head is seal {seq}, and the record goes on after it");
            Some((Verdict::Open, "head_not_last", text))
        }
        (Met::At(_), _) => None,
        (Met::Differs, ExpectedHead::Head(head)) => {
            let text = format!(
                "seal {} differs from the expected head of that number",
                head.seq
            );
            Some((Verdict::Forked, "head_differs", text))
        }
        _ if end.broken => None,
        (_, ExpectedHead::Head(head)) if end.record.is_some_and(|record| record != head.record) => {
            let text = format!("the expected head is of record {}", head.record);
            Some((Verdict::Foreign, "record_differs", text))
        }
        (_, ExpectedHead::Head(head)) => {
            let seen = last_seq.map_or("no seal".to_owned(), |seq| format!("seal {seq}"));
            let text = format!(
                "the record ends at {seen}, the known head is seal {}",
                head.seq
            );
            let older = expected.remembered && end.last.is_some_and(|(_, at)| at == end.bytes);
            let verdict = if older {
                Verdict::RolledBack
            } else {
                Verdict::Truncated
            };
            Some((verdict, "head_ahead", text))
        }
        (_, ExpectedHead::Line(line)) => {
            let text = format!("no seal of this record has the expected digest {line}");
            Some((Verdict::Truncated, "head_missing", text))
        }
    }
}
