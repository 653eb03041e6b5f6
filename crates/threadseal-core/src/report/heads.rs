//! Heads that a record must contain, held against what was met of them.
//!
//! | met | verdict |
//! |---|---|
//! | the head, but not as the last where it must be | `open` |
//! | something else in its place | `forked` |
//! | a record of another name | `foreign` |
//! | its place, but nothing there that is sealed any more | `tampered` |
//! | an earlier end; one that leaves nothing open, and this host knows better | `truncated`; `rolled_back` |
//!
//! Formats differ in what a seal is, not in this.

use super::{CheckResult, Finding, Report, Verdict};
use crate::digest::Digest;
use crate::record::{ExpectedHead, Head, RecordId};
use crate::tlog::entry::fork::{ForkPlace, LoggedFork};
use std::sync::Arc;

/// A head that a record must contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The head.
    pub head: ExpectedHead,
    /// Must it be the last seal?
    pub exact: bool,
    /// Who says so.
    pub by: KnownBy,
    /// Does he say that it is the newest? What may itself have been put back is held against a record, and does not make one
    /// whole.
    pub vouches: bool,
}

/// Who knows a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownBy {
    /// The caller named it.
    Caller,
    /// This host remembered it.
    Host,
    /// It is in the log of this host; how the entry is called.
    Log(Arc<str>),
    /// It is no head: the log of this host says that two histories of the record were sealed.
    Fork(Arc<KnownFork>),
    /// It is no head: the log of this host may say that two histories of the record were sealed, and cannot be asked; says why.
    ForksUnknown(Arc<str>),
}

/// What the log of this host says of a record that was sealed in two ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownFork {
    /// What it says.
    pub fork: LoggedFork,
    /// How the entry is called.
    pub entry: Arc<str>,
}

impl Expectation {
    /// A head that the caller names.
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

    /// No head at all: no copy of the record is whole, for two histories of it were sealed.
    pub fn forked(known: KnownFork) -> Self {
        let fork = known.fork;
        // A line of this digest no seal has: it is met as another one, or not at all.
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

    /// No head at all: whether two histories of the record were sealed, the log of this host should tell and does not.
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

    /// Is it a head, and not something else that is known of the record?
    pub fn is_head(&self) -> bool {
        !matches!(self.by, KnownBy::Fork(_) | KnownBy::ForksUnknown(_))
    }

    /// The fork that it stands for, if it is no head.
    pub fn fork(&self) -> Option<&KnownFork> {
        match &self.by {
            KnownBy::Fork(known) => Some(known),
            _ => None,
        }
    }

    /// Did this host remember it?
    pub fn is_remembered(&self) -> bool {
        self.by != KnownBy::Caller
    }
}

/// How an expected head fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Met {
    /// No seal with its number was seen so far.
    NotYet,
    /// It is the seal of this number.
    At(u64),
    /// The seal of its number is another.
    Differs,
}

impl Met {
    /// Takes a head of the record into account. `record` is `None` while nothing names the record:
    /// then only a digest can be met.
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
    /// What the format calls a record, and what a seal.
    pub words: (&'static str, &'static str),
    /// The record's id, if that is known.
    pub record: Option<RecordId>,
    /// Number of the last good seal.
    pub last: Option<u64>,
    /// Does the record end with that seal, as an older copy of it would?
    pub whole: bool,
    /// Line and turn to name in findings.
    pub place: Option<(u64, u64)>,
    /// Is something wrong before the end? What would have followed cannot be said then.
    pub broken: bool,
}

/// Does a head that somebody vouches for stand in the record?
pub fn is_held(expect: &[Expectation], met: &[Met]) -> bool {
    let mut pairs = expect.iter().zip(met);
    pairs.any(|(expected, met)| expected.vouches && matches!(met, Met::At(_)))
}

/// Why nothing says that the last seal of a record is the newest.
pub fn end_unproved(expect: &[Expectation]) -> &'static str {
    let mut heads = expect.iter().filter(|expected| expected.is_head());
    if heads.clone().next().is_none() {
        "the last seal is not final and no head is known: later seals may have been cut off"
    } else if heads.any(|expected| !expected.vouches) {
        "the last seal is not final, and what this host knows of the record may itself be older than it was"
    } else {
        "the last seal is not final"
    }
}

/// Notes what came of a head that is in the log.
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
    report.check("log", result, Some(why));
}

/// Reports each head of `expect` that the record does not contain; `met` has how each fared. Did
/// all hold, and was there one that somebody vouches for? Forks are no heads: [`check_forks`].
pub fn check(
    report: &mut Report,
    expect: &[Expectation],
    met: impl IntoIterator<Item = Met>,
    end: &End,
) -> bool {
    if !expect.iter().any(Expectation::is_head) {
        let why = format!("no head of this {} is known here", end.words.0);
        report.check("head", CheckResult::Skipped, Some(why));
        return false;
    }
    let (mut good, mut looked) = (true, true);
    let pairs = expect.iter().zip(met);
    for (expected, met) in pairs.filter(|(expected, _)| expected.is_head()) {
        let Some((verdict, code, text)) = fault(expected, met, end) else {
            match met {
                Met::At(_) => check_logged(report, expected, CheckResult::Pass, None),
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
        report.hold_because(
            verdict,
            match end.place {
                Some((line, turn)) => finding.at_line(line).in_turn(Some(turn)),
                None => finding,
            },
        );
    }
    match (good, looked) {
        (true, false) => report.check("head", CheckResult::Skipped, Some(BROKEN.to_owned())),
        _ => report.check("head", CheckResult::of(good), None),
    }
    good && looked && expect.iter().any(|expected| expected.vouches)
}

/// What a known fork says of one copy of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bearing {
    /// It is none of the histories that were forked.
    Clear,
    /// What is here of it does not tell.
    Unknown,
    /// It is one of them, or goes on to be one.
    Forked,
}

/// Reports that two histories of a record were sealed, where one of `expect` says so and `bears` finds that it speaks against this copy,
/// and that nobody can tell, where one says that or `bears` cannot.
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
        report.hold_because(Verdict::Forked, Finding::error("fork_known", text));
        return;
    }
    let untold = with(Bearing::Unknown).map(|(_, KnownFork { fork, entry })| {
        format!("{entry}: {fork}; whether this copy goes on from there, what is here of it does not tell")
    });
    let silent = expect.iter().filter_map(|expected| match &expected.by {
        KnownBy::ForksUnknown(why) => Some(format!(
            "whether this record was sealed in two ways, the log of this host does not tell: {why}"
        )),
        _ => None,
    });
    for text in untold.into_iter().chain(silent) {
        report.hold_because(Verdict::Open, Finding::warning("forks_unknown", text));
    }
}

/// Why a head is not looked for.
const BROKEN: &str = "what follows the first bad place cannot be said";

/// The number of seals, of formats where each unit is one; true when it is the expected one.
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
        report.hold_because(verdict, Finding::error("length_differs", text));
    }
    report.check("length", CheckResult::of(good), None);
    good
}

fn fault(expected: &Expectation, met: Met, end: &End) -> Option<(Verdict, &'static str, String)> {
    let (record, seal) = end.words;
    match (met, expected.head) {
        (Met::At(seq), _) if expected.exact && end.last != Some(seq) => {
            let text =
                format!("the expected head is {seal} {seq}, and the {record} goes on after it");
            Some((Verdict::Open, "head_not_last", text))
        }
        (Met::At(_), _) => None,
        (Met::Differs, _) => {
            let text = format!("another {seal} stands in the place of the expected head");
            Some((Verdict::Forked, "head_differs", text))
        }
        _ if end.broken => None,
        (_, ExpectedHead::Head(head)) if end.record.is_some_and(|here| here != head.record) => {
            let text = format!("the expected head is of another {record}, {}", head.record);
            Some((Verdict::Foreign, "record_differs", text))
        }
        (_, ExpectedHead::Head(head)) => {
            let last = end.last.map_or(format!("without a {seal}"), |seq| {
                format!("at {seal} {seq}")
            });
            let text = format!(
                "the {record} ends {last}, the known head is {seal} {}",
                head.seq
            );
            let verdict = if end.last >= Some(head.seq) {
                Verdict::Tampered
            } else if expected.is_remembered() && end.whole {
                Verdict::RolledBack
            } else {
                Verdict::Truncated
            };
            Some((verdict, "head_ahead", text))
        }
        (_, ExpectedHead::Line(line)) => {
            let text = format!("no {seal} of this {record} has the expected digest {line}");
            Some((Verdict::Truncated, "head_missing", text))
        }
    }
}
