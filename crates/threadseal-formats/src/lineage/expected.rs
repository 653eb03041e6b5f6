//! Heads that a lineage must contain, compared with the available links (`spec/lineage.md` §8).
//!
//! Unlike records of one file, a lineage may be available in parts. A head before the first
//! available link was passed; one after the last is missing.

use super::chain::{Index, Lineage};
use super::seen::{Seen, View};
use threadseal_core::record::{ExpectedHead, Head};
use threadseal_core::report::heads;
use threadseal_core::report::{
    CheckName, CheckResult, Expectation, Finding, FindingCode, Report, Verdict,
};

/// Expected heads; true when one was met and none was missed. Unlike records of one file, a lineage
/// may be available in parts. A content hash that no link has shows a rollback, not a truncation.
pub(super) fn check_heads(
    report: &mut Report,
    lineage: &Lineage<'_>,
    seen: &Seen,
    expect: &[Expectation],
    view: View,
) -> bool {
    let expect = expect.iter().filter(|expected| expected.is_head());
    let mut expect = expect.peekable();
    if expect.peek().is_none() {
        let why = "no head of this lineage is known here".to_owned();
        report.check(CheckName::Head, CheckResult::Skipped, Some(why));
        return false;
    }
    let (mut good, mut met, mut vouched) = (true, false, false);
    for expected in expect {
        match look_for(expected, lineage, seen, view) {
            Lookup::Yes => {
                met = true;
                vouched |= expected.vouches;
                heads::check_logged(report, expected, CheckResult::Pass, None);
            }
            Lookup::Beyond => {
                heads::check_logged(report, expected, CheckResult::Skipped, Some(BEYOND));
            }
            Lookup::No(verdict, code, text) => {
                good = false;
                heads::check_logged(report, expected, CheckResult::Fail, Some(&text));
                report.downgrade(verdict, Finding::error(code, text));
            }
        }
    }
    if good && !met {
        report.check(
            CheckName::Head,
            CheckResult::Skipped,
            Some(BEYOND.to_owned()),
        );
    } else {
        report.check(CheckName::Head, CheckResult::of(good), None);
    }
    good && vouched
}

/// Why a head is not searched for.
const BEYOND: &str = "the links between the known head and this one are not here";

/// The result for an expected head.
enum Lookup {
    Yes,
    /// The files begin after it.
    Beyond,
    No(Verdict, FindingCode, String),
}

fn look_for(expected: &Expectation, lineage: &Lineage<'_>, seen: &Seen, view: View) -> Lookup {
    let wanted = match expected.head {
        ExpectedHead::Head(head) => head.line,
        ExpectedHead::Line(line) => line,
    };
    let counts = |index: &Index| seen.line.contains_key(index) || seen.voided.contains(index);
    let found = lineage
        .own()
        .find(|(index, link)| counts(index) && link.hash.digest() == wanted);
    if let Some((index, _)) = found {
        if expected.exact && !seen.tips.contains(&index) {
            let text = "the expected head is here, but the lineage continues after it".to_owned();
            return Lookup::No(Verdict::Open, FindingCode::HeadNotLast, text);
        }
        return Lookup::Yes;
    }
    // A link names the previous one, so files that begin directly after the head are ahead of it.
    let follows = |index: &Index| {
        let prev = lineage.all.link(*index).and_then(|link| link.header.prev);
        prev.is_some_and(|prev| prev.digest() == wanted)
    };
    if !expected.exact && seen.orphans.iter().any(follows) {
        return Lookup::Yes;
    }
    match expected.head {
        ExpectedHead::Line(line) => {
            let text = format!(
                "no link here is the expected head {line}: this lineage is older, or another one"
            );
            Lookup::No(Verdict::RolledBack, FindingCode::HeadMissing, text)
        }
        ExpectedHead::Head(head) => missed(&head, expected.is_remembered(), lineage, seen, view),
    }
}

fn missed(head: &Head, remembered: bool, lineage: &Lineage<'_>, seen: &Seen, view: View) -> Lookup {
    if !lineage.records().contains(&head.record) {
        let text = "the expected head belongs to another agent".to_owned();
        return Lookup::No(Verdict::Foreign, FindingCode::RecordDiffers, text);
    }
    let places = seen.line.values().flatten();
    if places.clone().any(|place| *place == head.seq) {
        let text = format!("link {} differs from the known head", head.seq);
        return Lookup::No(Verdict::Forked, FindingCode::HeadDiffers, text);
    }
    let last = places.max().copied();
    let tick = seen.tips.iter().filter_map(|tip| lineage.all.link(*tip));
    let tick = tick.map(|link| link.header.tick).max();
    let is_window = view == View::Single || seen.beginnings.is_empty();
    let behind = match last {
        Some(last) => last < head.seq,
        None => tick.is_none_or(|tick| tick <= head.size),
    };
    if is_window && !behind {
        return Lookup::Beyond;
    }
    let verdict = if remembered {
        Verdict::RolledBack
    } else {
        Verdict::Truncated
    };
    let text = format!(
        "the known head is link {} of tick {}, and the newest here is of tick {}",
        head.seq,
        head.size,
        tick.unwrap_or(0)
    );
    Lookup::No(verdict, FindingCode::HeadAhead, text)
}
