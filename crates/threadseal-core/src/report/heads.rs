//! Compares the heads that a record must contain with the seals found in it.
//!
//! | found | verdict |
//! |---|---|
//! | the head, but not as the last where it must be | `open` |
//! | another seal in its place | `forked` |
//! | a record of another name | `foreign` |
//! | its place, but without a seal there any more | `tampered` |
//! | an earlier end | `truncated` |
//! | an earlier end without unsealed rest, and this host knows a newer head | `rolled_back` |
//!
//! A head of another unsigned record of the same name is no expectation: nothing but a name binds the
//! two ([`KnownBy::Elsewhere`]).
//!
//! Formats differ in their definition of a seal, not in these rules.

use super::{CheckName, CheckResult, Finding, FindingCode, Report, Verdict};
use crate::digest::Digest;
use crate::record::{ExpectedHead, Head, RecordId};
use crate::tlog::entry::fork::{ForkPlace, LoggedFork};
use std::sync::Arc;

/// A head that a record must contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The head.
    pub head: ExpectedHead,
    /// Whether it must be the last seal.
    pub exact: bool,
    /// The source of the head.
    pub by: KnownBy,
    /// Whether the source vouches that it is the newest.
    ///
    /// A source that may itself be rolled back can contradict a record, but it cannot prove it
    /// complete.
    pub vouches: bool,
}

/// The source of a known head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownBy {
    /// The caller named it.
    Caller,
    /// This host remembered it.
    Host,
    /// It is in the log of this host, in the entry of this name.
    Log(Arc<str>),
    /// This host remembered it of an unsigned record of the same name in this other place. It can
    /// confirm a record that contains it, and never speaks against one.
    Elsewhere(Arc<str>),
    /// Not a head: the log of this host records two sealed histories of the record.
    Fork(Arc<KnownFork>),
    /// Not a head: the log of this host cannot be read, so a fork may be unknown. The text gives
    /// the reason.
    ForksUnknown(Arc<str>),
}

/// A fork in the log of this host: two sealed histories of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownFork {
    /// The fork.
    pub fork: LoggedFork,
    /// The name of the log entry.
    pub entry: Arc<str>,
}

impl Expectation {
    /// A head that the caller gives.
    pub fn given(head: ExpectedHead, exact: bool) -> Self {
        Self {
            head,
            exact,
            by: KnownBy::Caller,
            vouches: true,
        }
    }

    /// A head that this host remembered.
    pub fn remembered(head: ExpectedHead) -> Self {
        Self {
            by: KnownBy::Host,
            ..Self::given(head, false)
        }
    }

    /// A head that is in the log of this host, as the entry of this name.
    pub fn logged(head: ExpectedHead, entry: Arc<str>) -> Self {
        Self {
            by: KnownBy::Log(entry),
            ..Self::given(head, false)
        }
    }

    /// A head that this host remembered of an unsigned record of the same name in `place`.
    pub fn elsewhere(head: ExpectedHead, place: &str) -> Self {
        Self {
            by: KnownBy::Elsewhere(Arc::from(place)),
            ..Self::given(head, false)
        }
    }

    /// Not a head: the record has two sealed histories, so no copy of it is complete.
    pub fn forked(known: KnownFork) -> Self {
        let fork = known.fork;
        // No seal has a line of this digest. So the seal of this number differs, or is absent.
        let head = Head {
            record: fork.record,
            seq: match fork.place {
                ForkPlace::Transcript { seq, .. } => seq,
                ForkPlace::Lineage(found) => found.seq.unwrap_or(0),
            },
            size: 0,
            line: fork.evidence,
        };
        Self {
            by: KnownBy::Fork(Arc::new(known)),
            vouches: false,
            ..Self::given(ExpectedHead::Head(head), false)
        }
    }

    /// Not a head: the log of this host should show whether the record was forked, and cannot be
    /// read.
    pub fn forks_unknown(record: RecordId, why: &str) -> Self {
        let head = Head {
            record,
            seq: 0,
            size: 0,
            line: Digest::of(b""),
        };
        Self {
            by: KnownBy::ForksUnknown(Arc::from(why)),
            vouches: false,
            ..Self::given(ExpectedHead::Head(head), false)
        }
    }

    /// Whether it is a head, and not another fact about the record.
    pub fn is_head(&self) -> bool {
        !matches!(self.by, KnownBy::Fork(_) | KnownBy::ForksUnknown(_))
    }

    /// Whether it is the head of a record of the same name in another place.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.by, KnownBy::Elsewhere(_))
    }

    /// The fork, if this is not a head but a fork.
    pub fn fork(&self) -> Option<&KnownFork> {
        match &self.by {
            KnownBy::Fork(known) => Some(known),
            _ => None,
        }
    }

    /// Whether this host remembered it.
    pub fn is_remembered(&self) -> bool {
        self.by != KnownBy::Caller
    }
}

/// The result for one expected head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadMatch {
    /// No seal with its number was seen so far.
    NotYet,
    /// It is the seal of this number.
    At(u64),
    /// The seal of its number differs.
    Differs,
}

impl HeadMatch {
    /// Compares a seal of the record with the expected head.
    ///
    /// `record` is `None` while the record is not yet named. Then only a digest can match.
    pub fn meet(&mut self, expected: ExpectedHead, record: Option<RecordId>, seal: Seal) {
        match expected {
            ExpectedHead::Line(line) if line == seal.line => *self = Self::At(seal.seq),
            ExpectedHead::Head(Head {
                record: wanted,
                seq,
                size,
                line,
            }) if Some(wanted) == record && seq == seal.seq => {
                *self = match (size, line) == (seal.size, seal.line) {
                    true => Self::At(seq),
                    false => Self::Differs,
                };
            }
            _ => {}
        }
    }
}

/// A head without the name of its record.
#[derive(Debug, Clone, Copy)]
pub struct Seal {
    /// Its number, from 0.
    pub seq: u64,
    /// Bytes of the record up to it.
    pub size: u64,
    /// Digest of its line.
    pub line: Digest,
}

impl From<&Head> for Seal {
    fn from(head: &Head) -> Self {
        Self {
            seq: head.seq,
            size: head.size,
            line: head.line,
        }
    }
}

/// How a record ends.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// The format's words for a record and for a seal.
    pub words: (&'static str, &'static str),
    /// The record's id, if that is known.
    pub record: Option<RecordId>,
    /// Number of the last good seal.
    pub last: Option<u64>,
    /// Whether the record ends with that seal, as an older copy of it would.
    pub whole: bool,
    /// Line and turn to name in findings.
    pub place: Option<(u64, u64)>,
    /// Whether a fault precedes the end. Then nothing is known about the rest.
    pub broken: bool,
}

/// Whether the record contains a head from a source that vouches for it.
pub fn is_held(expect: &[Expectation], met: &[HeadMatch]) -> bool {
    let mut pairs = expect.iter().zip(met);
    pairs.any(|(expected, met)| expected.vouches && matches!(met, HeadMatch::At(_)))
}

/// Why the last seal of a record is not known to be the newest.
pub fn end_unproved(expect: &[Expectation]) -> &'static str {
    let mut heads = expect.iter().filter(|expected| expected.is_head());
    if heads.clone().next().is_none() {
        "the last seal is not final and no head is known: later seals may have been cut off"
    } else if heads.any(|expected| !expected.vouches) {
        "the last seal is not final, and this host's own knowledge of the record may be out of date"
    } else {
        "the last seal is not final"
    }
}

/// Adds the check for a head that is in the log.
pub fn check_logged(
    report: &mut Report,
    expected: &Expectation,
    result: CheckResult,
    why: Option<&str>,
) {
    let KnownBy::Log(entry) = &expected.by else {
        return;
    };
    let why = why.map_or_else(|| entry.to_string(), |why| format!("{entry}: {why}"));
    report.check(CheckName::Log, result, Some(why));
}

/// Reports each head of `expect` that the record does not contain; `met` holds the results.
///
/// Returns whether all heads were found and at least one comes from a source that vouches. Forks
/// are no heads: [`check_forks`]. A head of another place is only noted where it is later.
pub fn check(
    report: &mut Report,
    expect: &[Expectation],
    met: impl IntoIterator<Item = HeadMatch>,
    end: &End,
) -> bool {
    let met: Vec<HeadMatch> = met.into_iter().collect();
    let confirmed = note_elsewhere(report, expect, &met, end);
    let is_own = |expected: &&Expectation| expected.is_head() && !expected.is_elsewhere();
    if !expect.iter().any(|expected| is_own(&expected)) {
        if confirmed {
            report.check(CheckName::Head, CheckResult::Pass, None);
            return true;
        }
        let why = format!("no head of this {} is known here", end.words.0);
        report.check(CheckName::Head, CheckResult::Skipped, Some(why));
        return false;
    }
    let (mut good, mut looked) = (true, true);
    let pairs = expect.iter().zip(met);
    for (expected, met) in pairs.filter(|(expected, _)| is_own(expected)) {
        let Some((verdict, code, text)) = fault(expected, met, end) else {
            match met {
                HeadMatch::At(_) => check_logged(report, expected, CheckResult::Pass, None),
                _ => {
                    looked = false;
                    check_logged(report, expected, CheckResult::Skipped, Some(BROKEN));
                }
            }
            continue;
        };
        good = false;
        check_logged(report, expected, CheckResult::Fail, Some(&text));
        let finding = Finding::error(code, text);
        report.downgrade(
            verdict,
            match end.place {
                Some((line, turn)) => finding.at_line(line).in_turn(Some(turn)),
                None => finding,
            },
        );
    }
    match (good, looked) {
        (true, false) => report.check(
            CheckName::Head,
            CheckResult::Skipped,
            Some(BROKEN.to_owned()),
        ),
        _ => report.check(CheckName::Head, CheckResult::of(good), None),
    }
    let mut own = expect.iter().filter(is_own);
    good && looked && (confirmed || own.any(|expected| expected.vouches))
}

/// Notes the longest later head that is known of another place. Returns whether the record contains
/// every head of another place, and at least one that a source vouches for.
fn note_elsewhere(
    report: &mut Report,
    expect: &[Expectation],
    met: &[HeadMatch],
    end: &End,
) -> bool {
    let (mut all, mut vouched, mut longest) = (true, false, None);
    for (expected, met) in expect.iter().zip(met) {
        let (KnownBy::Elsewhere(place), ExpectedHead::Head(head)) = (&expected.by, expected.head)
        else {
            continue;
        };
        if matches!(met, HeadMatch::At(_)) {
            vouched |= expected.vouches;
            continue;
        }
        all = false;
        let is_later = end.last.is_none_or(|last| head.seq > last);
        if is_later && longest.is_none_or(|(_, seq)| head.seq > seq) {
            longest = Some((place, head.seq));
        }
    }
    if let Some((place, seq)) = longest {
        let (record, seal) = end.words;
        let text = format!(
            "this host knows another {record} of this name up to {seal} {seq} in {place}; no signature binds the two"
        );
        report.find(Finding::note(FindingCode::KnownElsewhere, text));
    }
    all && vouched
}

/// The relation of a known fork to one copy of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bearing {
    /// The copy is not part of the forked histories.
    Clear,
    /// The available part of the copy does not decide it.
    Unknown,
    /// The copy is one of the forked histories, or leads to one.
    Forked,
}

/// Reports a known fork of the record, where one of `expect` names it and `bears` relates it to
/// this copy.
///
/// It reports an unknown fork where the log cannot be read, or `bears` cannot decide.
pub fn check_forks(
    report: &mut Report,
    expect: &[Expectation],
    bears: impl Fn(&LoggedFork) -> Bearing,
) {
    let known = expect.iter().filter_map(Expectation::fork);
    let known: Vec<_> = known.map(|known| (bears(&known.fork), known)).collect();
    let with = |wanted| known.iter().find(|(bearing, _)| *bearing == wanted);
    if let Some((_, KnownFork { fork, entry })) = with(Bearing::Forked) {
        let text = format!("{entry}: {fork}; the evidence is {}", fork.evidence);
        report.downgrade(
            Verdict::Forked,
            Finding::error(FindingCode::ForkKnown, text),
        );
        return;
    }
    let untold = with(Bearing::Unknown).map(|(_, KnownFork { fork, entry })| {
        format!("{entry}: {fork}; the part of this copy that is here does not show whether it continues from there")
    });
    let silent = expect.iter().filter_map(|expected| match &expected.by {
        KnownBy::ForksUnknown(why) => Some(format!(
            "the log of this host does not show whether this record was sealed in two ways: {why}"
        )),
        _ => None,
    });
    for text in untold.into_iter().chain(silent) {
        report.downgrade(
            Verdict::Open,
            Finding::warning(FindingCode::ForksUnknown, text),
        );
    }
}

/// Why a head was not compared.
const BROKEN: &str = "the part after the first bad place cannot be checked";

/// Compares the number of seals, for formats in which each unit is a seal. Returns true if the
/// number is the expected one.
pub fn check_length(report: &mut Report, end: &End, length: Option<u64>) -> bool {
    let Some(length) = length else {
        return false;
    };
    let (record, seal) = end.words;
    let here = end.last.map_or(0, |last| last.saturating_add(1));
    let good = here == length;
    if !good {
        let verdict = match here < length {
            true => Verdict::Truncated,
            false => Verdict::Open,
        };
        let text = format!("the {record} has {here} {seal}s, not {length}");
        report.downgrade(verdict, Finding::error(FindingCode::LengthDiffers, text));
    }
    report.check(CheckName::Length, CheckResult::of(good), None);
    good
}

fn fault(
    expected: &Expectation,
    met: HeadMatch,
    end: &End,
) -> Option<(Verdict, FindingCode, String)> {
    let (record, seal) = end.words;
    match (met, expected.head) {
        (HeadMatch::At(seq), _) if expected.exact && end.last != Some(seq) => {
            let text =
                format!("the expected head is {seal} {seq}, but the {record} continues after it");
            Some((Verdict::Open, FindingCode::HeadNotLast, text))
        }
        (HeadMatch::At(_), _) => None,
        (HeadMatch::Differs, _) => {
            let text = format!("another {seal} is in the place of the expected head");
            Some((Verdict::Forked, FindingCode::HeadDiffers, text))
        }
        _ if end.broken => None,
        (_, ExpectedHead::Head(head)) if end.record.is_some_and(|here| here != head.record) => {
            let text = format!("the expected head is of another {record}, {}", head.record);
            Some((Verdict::Foreign, FindingCode::RecordDiffers, text))
        }
        (_, ExpectedHead::Head(head)) => {
            let last = end.last.map_or(format!("without a {seal}"), |seq| {
                format!("at {seal} {seq}")
            });
            let text = format!(
                "the {record} ends {last}, but the known head is {seal} {}",
                head.seq
            );
            let verdict = if end.last >= Some(head.seq) {
                Verdict::Tampered
            } else if expected.is_remembered() && end.whole {
                Verdict::RolledBack
            } else {
                Verdict::Truncated
            };
            Some((verdict, FindingCode::HeadAhead, text))
        }
        (_, ExpectedHead::Line(line)) => {
            let text = format!("no {seal} of this {record} has the expected digest {line}");
            Some((Verdict::Truncated, FindingCode::HeadMissing, text))
        }
    }
}
