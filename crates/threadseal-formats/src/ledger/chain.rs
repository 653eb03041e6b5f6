//! Joins the facts of records, in order, to the facts about the whole ledger.
//!
//! ```text
//! LineRead, text, Place ─► Verifier ─► seen: evidence against the chain, how far it holds,
//!                                      which heads were met, AbstractRuntime's answer
//! ```
//! Memory does not grow with the ledger. The findings, the open steps, and the hashes for the
//! search for forks are bounded. `conclude` gives the verdict.

use super::beginnings::LaterBeginning;
use super::compat::ChainReport;
use super::facts::{Facts, OddityKind};
use super::link::Link;
use super::load::{Found, LineRead, Place, SkipReason, Skipped};
use super::marker::Marker;
use super::record::RunId;
use super::sign::{KnownKeys, SignatureRead, Signatures};
use super::signers::Signers;
use super::steps::{StepFault, Steps, StepsEnd};
use std::collections::{BTreeMap, VecDeque};
use threadseal_core::digest::Digest;
use threadseal_core::limits::{MAX_FINDINGS, MAX_FORK_RECORDS, MAX_RUN_ID_BYTES, MAX_SHOWN_ACTORS};
use threadseal_core::record::{ExpectedHead, Head};
use threadseal_core::report::heads::{HeadMatch, Seal};
use threadseal_core::report::{Expectation, Finding, FindingCode, TrustedUntil, Verdict};
use threadseal_core::time::Timestamp;

/// How much of a run's ledger is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// All of it.
    #[default]
    Whole,
    /// Some records in a row.
    Window,
    /// All records, some of whose members are left out.
    Replay,
}

/// Expectations that verification of a ledger checks while it reads.
#[derive(Debug, Clone, Default)]
pub struct ChainOptions {
    /// Heads that the ledger must contain.
    pub expect: Vec<Expectation>,
    /// The run whose ledger it must be.
    pub run: Option<RunId>,
    /// How much of it is here.
    pub view: View,
    /// The number of the first record that is here.
    pub first: u64,
    /// Must every record be signed, whatever the ledger declares? True where the caller pinned one
    /// key.
    pub all_signed: bool,
    /// The head in a signed head of this ledger.
    pub signed_head: Option<Head>,
    /// Digests of all signatures up to heads of it, as the holders of these heads know them.
    pub signatures: Vec<(Head, Digest)>,
    /// Later beginnings that the ledger admits ([`super::Outcome::later_beginnings`]).
    pub later_beginnings: Vec<LaterBeginning>,
}

/// The end of a chain that holds so far: the next record builds on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainTip {
    /// The run.
    pub run: RunId,
    /// Number of records.
    pub count: u64,
    /// The hash of the last one.
    pub hash: Digest,
}

impl ChainTip {
    /// As a head: `seq` is the number of the last record from 0, `size` the number of records.
    pub fn head(&self) -> Head {
        Head {
            record: self.run.record_id(),
            seq: self.count.saturating_sub(1),
            size: self.count,
            line: self.hash,
        }
    }
}

/// Takes the lines of a ledger in order.
#[derive(Debug)]
pub struct Verifier {
    pub(super) options: ChainOptions,
    pub(super) seen: Seen,
    steps: Steps,
    signers: Signers,
    signatures: Signatures,
    /// The stored hash of the previous record, if it had one.
    prev: Option<Digest>,
    /// The `prev_hash` and the hash of each of the last records.
    recent: VecDeque<(Option<Digest>, Digest)>,
}

/// The evidence so far.
#[derive(Debug)]
pub(super) struct Seen {
    /// Records, good or not.
    pub(super) records: u64,
    /// Records with a hash.
    pub(super) chained: u64,
    /// Records whose hash holds.
    pub(super) good: u64,
    /// Evidence against the ledger, by verdict; of each code one more than a report takes.
    pub(super) faults: Vec<(Verdict, Finding)>,
    /// Oddities that change no verdict.
    pub(super) remarks: Vec<Finding>,
    counts: BTreeMap<FindingCode, usize>,
    /// Bytes that are no record, after the last record, and whether a line end follows them.
    pub(super) trailing: Vec<(Finding, bool)>,
    /// The first record without a hash, after the last one with a hash.
    pub(super) unchained_tail: Option<Mark>,
    /// The records up to the last expected head that was met, while there is no evidence against
    /// them.
    pub(super) held_until: Option<TrustedUntil>,
    pub(super) until: Option<TrustedUntil>,
    pub(super) tip: Option<ChainTip>,
    pub(super) run: Option<RunId>,
    pub(super) met: Vec<HeadMatch>,
    pub(super) met_signed: HeadMatch,
    /// The records up to the last signed one, while there is no evidence against them.
    pub(super) signed_until: Option<TrustedUntil>,
    pub(super) signers: Signers,
    /// The digest of all signatures.
    pub(super) signatures: Digest,
    /// Are some signatures others than a known head covers?
    pub(super) signatures_changed: bool,
    pub(super) actors: Vec<Box<str>>,
    pub(super) more_actors: bool,
    pub(super) first_time: Option<Timestamp>,
    pub(super) last_time: Option<Timestamp>,
    pub(super) omitted: u64,
    pub(super) predecessor_missing: bool,
    pub(super) steps: StepsEnd,
    pub(super) compat: ChainReport,
    forked: bool,
    broken: bool,
}

/// A record in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) index: u64,
    pub(super) place: Place,
}

impl Mark {
    pub(super) fn put(&self, finding: Finding) -> Finding {
        put(finding, &self.place).in_turn(Some(self.index))
    }
}

pub(super) fn put(finding: Finding, place: &Place) -> Finding {
    finding.at_bytes(place.from, place.to).at_line(place.line)
}

impl Verifier {
    /// A verifier before the first line. Heads are compared with whole ledgers only.
    pub fn new(mut options: ChainOptions) -> Self {
        if options.view != View::Whole {
            options.expect.clear();
        }
        Self {
            seen: Seen {
                records: 0,
                chained: 0,
                good: 0,
                faults: Vec::new(),
                remarks: Vec::new(),
                counts: BTreeMap::new(),
                trailing: Vec::new(),
                unchained_tail: None,
                held_until: None,
                until: None,
                tip: None,
                run: None,
                met: vec![HeadMatch::NotYet; options.expect.len()],
                met_signed: HeadMatch::NotYet,
                signed_until: None,
                signers: Signers::default(),
                signatures: Signatures::default().digest(),
                signatures_changed: false,
                actors: Vec::new(),
                more_actors: false,
                first_time: None,
                last_time: None,
                omitted: 0,
                predecessor_missing: false,
                steps: StepsEnd::default(),
                compat: ChainReport::new(),
                forked: false,
                broken: false,
            },
            signers: Signers::new(options.all_signed, options.later_beginnings.clone()),
            signatures: Signatures::default(),
            options,
            steps: Steps::default(),
            prev: None,
            recent: VecDeque::with_capacity(MAX_FORK_RECORDS),
        }
    }

    /// Takes the next line or row: its reading, and its text.
    pub fn take(&mut self, read: &LineRead, text: &[u8], place: Place) {
        self.seen.compat.follow(text, &place, read.raises.as_ref());
        let mut skipped = read.skipped;
        let index = self.number();
        match &read.found {
            Found::Nothing => {}
            Found::One(facts) => self.record(facts, text, place),
            Found::Several(records) => {
                for (from, to, facts) in records {
                    if skipped.is_some_and(|skipped| skipped.from < *from) {
                        self.skip(skipped.take(), place);
                    }
                    let part = text.get(*from..*to).unwrap_or_default();
                    let place = Place {
                        from: place.from + *from as u64,
                        to: place.from + *to as u64,
                        ..place
                    };
                    self.record(facts, part, place);
                }
                if records.len() > 1 {
                    let text = "several records are on one line";
                    self.seen
                        .remark(FindingCode::LineOfMany, text, &Mark { index, place });
                }
            }
        }
        if place.too_long {
            let all = LineRead::skipped(SkipReason::Limit, 0, 0);
            self.skip(all.skipped, place);
        } else {
            self.skip(skipped, place);
        }
    }

    /// The number of the next record, from 0.
    fn number(&self) -> u64 {
        self.options.first.saturating_add(self.seen.records)
    }

    /// The keys that the records so far name.
    pub fn named_keys(&self) -> &KnownKeys {
        self.signers.named()
    }

    pub(super) fn end(self) -> (ChainOptions, Seen) {
        let mut seen = self.seen;
        seen.steps = self.steps.end();
        seen.signers = self.signers;
        seen.signatures = self.signatures.digest();
        (self.options, seen)
    }

    /// Notes the bytes of a line that are no record. The lines after it decide whether they are
    /// more than a torn end.
    fn skip(&mut self, skipped: Option<Skipped>, place: Place) {
        let Some(skipped) = skipped else { return };
        let text = match skipped.why {
            SkipReason::NotJson => "this is not a record: AbstractRuntime skips it silently",
            SkipReason::NoObject => "this JSON is not a record: AbstractRuntime skips it silently",
            SkipReason::NotUtf8 => "this is not UTF-8: AbstractRuntime cannot read the ledger",
            SkipReason::Limit => "this line exceeds a limit of this verifier",
        };
        let place = Place {
            from: place.from + skipped.from as u64,
            to: if place.too_long {
                place.to
            } else {
                place.from + skipped.to as u64
            },
            ..place
        };
        if self.seen.may_note(FindingCode::LineSkipped) {
            let finding = put(Finding::error(FindingCode::LineSkipped, text), &place);
            self.seen.trailing.push((finding, place.ended));
        }
    }

    fn record(&mut self, facts: &Facts, text: &[u8], place: Place) {
        let mark = Mark {
            index: self.number(),
            place,
        };
        for (finding, _) in std::mem::take(&mut self.seen.trailing) {
            self.seen.broken = true;
            self.seen.faults.push((Verdict::Tampered, finding));
        }
        self.seen.compat.take(facts);
        self.run(facts, &mark);
        self.oddities(facts, &mark);
        let seen = &mut self.seen;
        self.steps
            .take(facts, text, (mark.index, place), &mut |fault| {
                seen.step(fault, &mark);
            });
        self.claims(facts);
        match &facts.stored {
            Link::Hash(stored) => self.chained(facts, *stored, &mark),
            _ => self.unchained(facts, &mark),
        }
        self.signers
            .take(facts, text, &mark, &mut |(verdict, code, text)| {
                self.seen.fault(&mark, verdict, code, text);
            });
        self.signatures(facts, &mark);
        self.until(facts, &mark);
        self.seen.records += 1;
    }

    fn run(&mut self, facts: &Facts, mark: &Mark) {
        let run = facts.run_id.as_deref().and_then(|id| RunId::parse(id).ok());
        let wanted = self.options.run.as_ref().or(self.seen.run.as_ref());
        let named = facts.run_id.as_deref();
        if named.is_some_and(|id| wanted.is_some_and(|wanted| id != wanted.as_str())) {
            let text = "the record is of another run";
            self.seen
                .fault(mark, Verdict::Foreign, FindingCode::RecordForeign, text);
        } else if named.is_some() && run.is_none() {
            let text = "`run_id` is not a valid run id";
            self.seen.remark(FindingCode::RecordOdd, text, mark);
        }
        if self.seen.run.is_none() {
            self.seen.run = run;
        }
    }

    fn oddities(&mut self, facts: &Facts, mark: &Mark) {
        let seen = &mut self.seen;
        for odd in &facts.oddities {
            let from = mark.place.from + odd.offset.unwrap_or(0) as u64;
            let at = Mark {
                place: Place { from, ..mark.place },
                ..*mark
            };
            match odd.kind {
                OddityKind::NameRepeated => {
                    let text = "a member occurs twice: no hash covers the first, and readers differ on which counts";
                    seen.fault(&at, Verdict::Tampered, FindingCode::NameRepeated, text);
                }
                OddityKind::Inexact => {
                    let text = "a number has digits that its canonical form does not keep: no hash covers them";
                    seen.fault(&at, Verdict::Partial, FindingCode::NumberInexact, text);
                }
                OddityKind::NotFinite => {
                    let text = "a number is not finite: the line is JSON for Python only";
                    seen.remark(FindingCode::NumberNotFinite, text, &at);
                }
                OddityKind::LoneSurrogate => {
                    let text = "a string has a lone surrogate, which cannot be hashed";
                    seen.remark(FindingCode::LoneSurrogate, text, &at);
                }
                OddityKind::Member(name) => {
                    let text = format!("`{name}` is missing or of another type");
                    seen.remark(FindingCode::RecordOdd, text, &at);
                }
                OddityKind::Time => {
                    seen.remark(
                        FindingCode::TimeUnreadable,
                        "a time of the record is not valid",
                        &at,
                    );
                }
                OddityKind::MarkersUnread => {
                    let text = "the record is too large to search it for markers";
                    seen.remark(FindingCode::MarkersUnread, text, &at);
                }
            }
        }
        if facts.numeric_names {
            let text = "the hash matches with numeric names in numeric order, as AbstractRuntime writes them but does not verify them: its alarm is false";
            seen.remark(FindingCode::NumericNames, text, mark);
        }
    }

    /// Claims in the records that no key vouches for.
    fn claims(&mut self, facts: &Facts) {
        let seen = &mut self.seen;
        if let Some(at) = facts.at {
            seen.first_time.get_or_insert(at);
            seen.last_time = Some(at);
        }
        match &facts.actor_id {
            Some(actor) if !seen.actors.contains(actor) => {
                let short = actor.len() <= MAX_RUN_ID_BYTES;
                if short && seen.actors.len() < MAX_SHOWN_ACTORS {
                    seen.actors.push(actor.clone());
                } else {
                    seen.more_actors = true;
                }
            }
            _ => {}
        }
    }

    fn chained(&mut self, facts: &Facts, stored: Digest, mark: &Mark) {
        self.seen.chained += 1;
        let omitted = facts
            .markers
            .iter()
            .any(|marker| matches!(marker, Marker::Omitted));
        if facts.hash_holds {
            self.seen.good += 1;
        } else if omitted && self.options.view == View::Replay {
            self.seen.omitted += 1;
        } else {
            let text = "the record does not match its hash";
            self.seen
                .fault(mark, Verdict::Tampered, FindingCode::HashWrong, text);
        }
        self.link(facts, stored, mark);
        self.seen.unchained_tail = None;
        self.prev = Some(stored);
        if self.recent.len() == MAX_FORK_RECORDS {
            self.recent.pop_front();
        }
        self.recent.push_back((facts.prev.digest(), stored));
        self.head(stored, mark.index);
    }

    /// Does the record build on the one before it?
    fn link(&mut self, facts: &Facts, stored: Digest, mark: &Mark) {
        let seen = &mut self.seen;
        let first = seen.chained == 1;
        let named = facts.prev.digest();
        let begins = facts.prev == Link::None;
        if (begins && first) || (named.is_some() && named == self.prev) {
            return;
        }
        if first && seen.records == 0 && named.is_some() {
            seen.predecessor_missing = true;
            if self.options.view == View::Whole {
                let text = "the first record names a record before it, which is not here";
                seen.fault(
                    mark,
                    Verdict::Truncated,
                    FindingCode::PredecessorMissing,
                    text,
                );
            }
            return;
        }
        let known = |digest| self.recent.iter().any(|(_, hash)| *hash == digest);
        let sibling = self.recent.iter().find(|(prev, _)| *prev == named);
        let (verdict, code, text) = match (named, sibling) {
            _ if begins => (
                Verdict::Tampered,
                FindingCode::ChainRestarted,
                "the record begins a new chain",
            ),
            (Some(_), Some((_, hash))) if *hash == stored => (
                Verdict::Tampered,
                FindingCode::RecordRepeated,
                "the record occurs here a second time",
            ),
            (Some(_), Some(_)) => {
                seen.forked = true;
                (
                    Verdict::Forked,
                    FindingCode::ChainForked,
                    "the record and one before it build on the same record",
                )
            }
            (Some(named), None) if known(named) && seen.forked => (
                Verdict::Forked,
                FindingCode::ChainForked,
                "the record continues another branch of the chain",
            ),
            (Some(named), None) if known(named) => (
                Verdict::Tampered,
                FindingCode::ChainBroken,
                "the record builds on an earlier record, not on the one before it",
            ),
            _ => (
                Verdict::Tampered,
                FindingCode::ChainBroken,
                "the record does not follow the record before it",
            ),
        };
        seen.fault(mark, verdict, code, text);
    }

    fn unchained(&mut self, facts: &Facts, mark: &Mark) {
        let seen = &mut self.seen;
        if !matches!(facts.stored, Link::None) {
            let text = "`record_hash` is not a SHA-256 digest in lower-case hex";
            seen.fault(mark, Verdict::Tampered, FindingCode::HashWrong, text);
        } else if facts.prev != Link::None {
            let text = "the record names a record before it, but its own hash is missing";
            seen.fault(mark, Verdict::Tampered, FindingCode::HashMissing, text);
        } else {
            if seen.may_note(FindingCode::RecordUnchained) {
                let text = "the record has no hash: nothing covers it";
                let finding = mark.put(Finding::warning(FindingCode::RecordUnchained, text));
                seen.faults.push((Verdict::Unsigned, finding));
            }
            seen.unchained_tail.get_or_insert(*mark);
        }
        self.prev = None;
    }

    /// Moves the tip, and compares it with the expected heads.
    fn head(&mut self, hash: Digest, index: u64) {
        let seen = &mut self.seen;
        let Some(run) = &seen.run else { return };
        match &mut seen.tip {
            Some(tip) => {
                tip.count = index + 1;
                tip.hash = hash;
            }
            None => {
                seen.tip = Some(ChainTip {
                    run: run.clone(),
                    count: index + 1,
                    hash,
                });
            }
        }
        let here = Seal {
            seq: index,
            size: index + 1,
            line: hash,
        };
        let record = Some(run.record_id());
        for (expected, met) in self.options.expect.iter().zip(&mut seen.met) {
            met.meet(expected.head, record, here);
            seen.broken |= *met == HeadMatch::Differs;
        }
        if let Some(head) = self.options.signed_head {
            seen.met_signed.meet(ExpectedHead::Head(head), record, here);
        }
    }

    /// Compares the signatures so far with those that a known head of this record covers.
    fn signatures(&mut self, facts: &Facts, mark: &Mark) {
        let all = &mut self.signatures;
        all.take_text(mark.index, facts.signature_text.as_ref());
        let stored = facts.stored.digest();
        let is_here = |head: &Head| head.seq == mark.index && Some(head.line) == stored;
        let mut covered = self.options.signatures.iter();
        if covered.any(|(head, digest)| is_here(head) && *digest != all.digest()) {
            self.seen.signatures_changed = true;
            let text = "the signatures of the records up to this one are not those that a known head covers";
            self.seen.fault(
                mark,
                Verdict::Tampered,
                FindingCode::SignaturesChanged,
                text,
            );
        }
    }

    fn until(&mut self, facts: &Facts, mark: &Mark) {
        let seen = &mut self.seen;
        if seen.broken {
            return;
        }
        seen.until = Some(TrustedUntil {
            line: mark.place.line,
            byte: match mark.place.is_row {
                true => 0,
                false => mark.place.to,
            },
            turn: Some(mark.index),
        });
        let at = HeadMatch::At(mark.index);
        if seen.met.contains(&at) || seen.met_signed == at {
            seen.held_until = seen.until;
        }
        if facts.signature != SignatureRead::Absent {
            seen.signed_until = seen.until;
        }
    }
}

impl Seen {
    /// Whether the report may need it: from one without room it learns that there are more.
    fn may_note(&mut self, code: FindingCode) -> bool {
        let count = self.counts.entry(code).or_default();
        *count += 1;
        *count <= MAX_FINDINGS + 1
    }

    fn fault(&mut self, mark: &Mark, verdict: Verdict, code: FindingCode, text: impl Into<String>) {
        self.broken |= verdict.is_evidence();
        if self.may_note(code) {
            self.faults
                .push((verdict, mark.put(Finding::error(code, text))));
        }
    }

    fn remark(&mut self, code: FindingCode, text: impl Into<String>, mark: &Mark) {
        if self.may_note(code) {
            self.remarks.push(mark.put(Finding::warning(code, text)));
        }
    }

    fn step(&mut self, fault: StepFault, mark: &Mark) {
        let (code, text) = match fault {
            StepFault::StartedTwice => (FindingCode::StepStartedTwice, "the step has begun before"),
            StepFault::EndedTwice => (FindingCode::StepEndedTwice, "the step has ended before"),
            StepFault::Unstarted => (
                FindingCode::StepUnstarted,
                "the step ends but has not begun",
            ),
            StepFault::Backwards => (
                FindingCode::TimeBackwards,
                "the record is older than the one before it",
            ),
            StepFault::SlimDiffers => {
                let text = "a `$slim` marker replaces content that the first record of its step does not have";
                return self.fault(mark, Verdict::Partial, FindingCode::SlimUnresolved, text);
            }
        };
        self.remark(code, text, mark);
    }
}
