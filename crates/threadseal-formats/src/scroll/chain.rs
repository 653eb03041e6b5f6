//! Joins the facts of turns, in order, to the facts about the whole chain.
//!
//! ```text
//! TurnRead, Place ─► Verifier ─► seen: evidence against the chain, how far it holds,
//!                                the signers, which heads were met, v0.1's own answer
//! ```
//! Memory does not grow with the chain: findings, signers and failures are bounded. `conclude`
//! gives the verdict.

use super::facts::{AsV01, Facts, RoundedTimestamp, SigFacts, TurnRead, except};
use super::schema::{Encoding, SchemaViolation};
use super::signatures::Signatures;
use super::split::Place;
use super::verify::{Rules, VerifyResult, Walk};
use std::collections::BTreeMap;
use threadseal_core::digest::Digest;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::{MAX_FINDINGS, MAX_RECORD_KEYS};
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::heads::{HeadMatch, Seal};
use threadseal_core::report::{Expectation, Finding, FindingCode, TrustedUntil, Verdict};
use threadseal_core::time::Timestamp;

/// Expectations that verification of a chain checks while it reads.
#[derive(Debug, Clone, Default)]
pub struct ChainOptions {
    /// Heads that the chain must contain.
    pub expect: Vec<Expectation>,
    /// The one acceptable key.
    pub pinned: Vec<PublicKey>,
    /// Signed turns older than this moment, in nanoseconds since 1970, are not accepted.
    pub not_before_ns: Option<u64>,
    /// Treat the last digits of a timestamp as those of any other number (`--strict-digits`).
    pub strict_digits: bool,
}

/// The most timestamps with uncovered digits that a report lists.
pub(super) const MAX_LISTED_TIMESTAMPS: usize = 16;

/// The end of a chain that holds so far: the next turn builds on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tip {
    /// The last turn as a head.
    pub head: Head,
    /// Its member `turn`.
    pub turn: u64,
    /// The encoding under which the chain is hashed.
    pub encoding: Encoding,
    /// The signatures up to it.
    pub signatures: Signatures,
}

/// Takes the turns of a chain in order.
#[derive(Debug, Clone)]
pub struct Verifier {
    pub(super) options: ChainOptions,
    pub(super) seen: Seen,
    v01: Walk,
    prev: Option<Digest>,
    /// The number that the next turn should have, unless the turn before it could not be read.
    number: Option<u64>,
    /// The encoding of the last turn that could be read.
    encoding: Option<Encoding>,
}

/// The evidence so far.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    /// Turns, good or not.
    pub(super) turns: u64,
    /// Turns whose stored hash holds.
    pub(super) good: u64,
    pub(super) signed: u64,
    /// Evidence against the chain, by verdict; of each code one more than a report takes.
    pub(super) faults: Vec<(Verdict, Finding)>,
    counts: BTreeMap<FindingCode, usize>,
    /// Turns that could not be read: tampered or malformed, depending on the other turns.
    pub(super) unreadable: Vec<Finding>,
    /// Content that no hash covers.
    pub(super) uncovered: Vec<Finding>,
    /// Turns whose timestamps have digits that no hash covers: how many, the place of the first,
    /// and the first [`MAX_LISTED_TIMESTAMPS`] with their numbers.
    pub(super) rounded_count: u64,
    pub(super) first_rounded: Option<Mark>,
    pub(super) rounded: Vec<(u64, RoundedTimestamp)>,
    /// Readable turns without a signature, and those of them before a signed one.
    unsigned: u64,
    pub(super) unsigned_inside: u64,
    /// The first of the unsigned turns, and the first after the last signed one.
    pub(super) first_unsigned: Option<Mark>,
    pub(super) unsigned_tail: Option<Mark>,
    /// The first turn behind the last one that a head from a source that vouches names.
    pub(super) unheld_tail: Option<Mark>,
    /// The turns up to the last signed one, while there is no evidence against the chain.
    pub(super) signed_until: Option<TrustedUntil>,
    /// When the last of these was made, by its signer's claim.
    pub(super) last_signed_at: Option<Timestamp>,
    /// The turns up to the last one that such a head names, while there is no such evidence.
    pub(super) held_until: Option<TrustedUntil>,
    /// Keys whose signatures hold, in order of their first turn.
    pub(super) signers: Vec<PublicKey>,
    /// Of each of these its last turn, with the signatures up to it.
    pub(super) last_signed: Vec<Option<(Head, Signatures)>>,
    /// A last piece without an end, and whether it is a whole turn all the same.
    pub(super) unended: Option<(Place, bool)>,
    pub(super) tip: Option<Tip>,
    pub(super) record: Option<RecordId>,
    pub(super) met: Vec<HeadMatch>,
    pub(super) head_cut: bool,
    pub(super) v01: VerifyResult,
    /// Why v0.1 has no answer.
    pub(super) v01_nothing: Option<&'static str>,
    /// Whether there is evidence against a turn so far.
    broken: bool,
}

/// A turn in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) turn: u64,
    pub(super) place: Place,
}

impl Mark {
    pub(super) fn put(&self, finding: Finding) -> Finding {
        put(finding, &self.place).in_turn(Some(self.turn))
    }
}

pub(super) fn put(finding: Finding, place: &Place) -> Finding {
    let finding = finding.at_bytes(place.from, place.to);
    match place.line {
        Some(line) => finding.at_line(line),
        None => finding,
    }
}

impl Verifier {
    /// A verifier before the first turn.
    pub fn new(options: ChainOptions) -> Self {
        let met = vec![HeadMatch::NotYet; options.expect.len()];
        Self {
            v01: Walk::new(Rules::V01, !options.pinned.is_empty()),
            options,
            seen: Seen {
                met,
                ..Seen::default()
            },
            prev: None,
            number: Some(0),
            encoding: None,
        }
    }

    /// The keys of which one must sign each turn, if there are any: [`super::read_turn`] needs
    /// them.
    pub fn pinned(&self) -> &[PublicKey] {
        &self.options.pinned
    }

    /// Takes the next turn.
    pub fn take(&mut self, read: &TurnRead, place: Place) {
        if !place.ended {
            let torn = read.facts.is_err() && read.cut_off;
            self.seen.unended = Some((place, !torn));
            if torn {
                return;
            }
        }
        match &read.as_v01 {
            AsV01::Same => self.v01.step(&read.facts),
            AsV01::Facts(facts) => self.v01.step(facts),
            AsV01::Nothing(why) => {
                let why = if place.too_long { "too long" } else { why };
                self.seen.v01_nothing.get_or_insert(why);
            }
        }
        match &read.facts {
            Ok(facts) => self.turn(facts, read, place),
            Err(violation) => self.unreadable(violation, place),
        }
        self.seen.turns += 1;
    }

    pub(super) fn end(self) -> (ChainOptions, Seen) {
        let mut seen = self.seen;
        seen.v01 = self.v01.result;
        (self.options, seen)
    }

    fn unreadable(&mut self, violation: &SchemaViolation, place: Place) {
        let code = match place.too_long {
            true => FindingCode::TurnTooLong,
            false => FindingCode::SchemaViolation,
        };
        if self.seen.may_note(code) {
            let text = match place.too_long {
                true => "the turn is too long".to_owned(),
                false => violation.to_string(),
            };
            let finding = put(Finding::error(code, text), &place);
            let finding = finding.in_turn(Some(self.seen.turns));
            self.seen.unreadable.push(finding);
        }
        self.seen.broken = true;
        self.prev = None;
        self.number = None;
    }

    fn turn(&mut self, facts: &Facts, read: &TurnRead, place: Place) {
        let mark = Mark {
            turn: facts.turn,
            place,
        };
        if facts.hash_holds {
            self.seen.good += 1;
            self.link(facts, &mark);
            self.number(facts, &mark);
            self.encoding(facts, &mark);
        } else {
            let text = "the turn does not match its hash";
            self.seen
                .fault(&mark, Verdict::Tampered, FindingCode::HashWrong, text);
            self.number = None;
        }
        if let Some(fault) = &facts.body {
            let text = fault.to_string();
            self.seen
                .fault(&mark, Verdict::Tampered, FindingCode::BodyHashWrong, text);
        }
        self.signature(facts, &mark);
        self.uncovered(facts, read, &mark);
        self.head(facts);
        self.seen.note_last(facts);
        let signed = facts.sig.is_some().then_some(facts.timestamp_ns);
        self.until(&mark, signed);
        self.prev = Some(facts.hash);
        self.encoding = Some(facts.encoding);
    }

    fn link(&mut self, facts: &Facts, mark: &Mark) {
        let first = self.seen.turns == 0;
        if first && facts.prev_hash.is_some() {
            let text = "the first turn names a turn before it, which is not here";
            self.seen.fault(
                mark,
                Verdict::Truncated,
                FindingCode::PredecessorMissing,
                text,
            );
            self.seen.head_cut = true;
        }
        // After a turn that could not be read, there is nothing to compare with.
        if !first && self.prev.is_some() && facts.prev_hash != self.prev {
            let text = "the turn does not follow the turn before it";
            self.seen
                .fault(mark, Verdict::Tampered, FindingCode::ChainBroken, text);
        }
    }

    fn number(&mut self, facts: &Facts, mark: &Mark) {
        let found = facts.turn;
        if let Some(expected) = self.number.filter(|expected| *expected != found) {
            let (verdict, code) = if found > expected {
                (Verdict::Truncated, FindingCode::TurnGap)
            } else {
                (Verdict::Tampered, FindingCode::TurnRepeated)
            };
            let text = format!("turn {found} is in the place of turn {expected}");
            self.seen.fault(mark, verdict, code, text);
        }
        self.number = Some(found + 1);
    }

    fn encoding(&mut self, facts: &Facts, mark: &Mark) {
        let mixed = |before: Encoding| before != facts.encoding;
        if self.encoding.is_some_and(mixed) {
            let text = "the turn is hashed with another encoding than the turn before it";
            self.seen
                .fault(mark, Verdict::Malformed, FindingCode::EncodingMixed, text);
        }
    }

    fn signature(&mut self, facts: &Facts, mark: &Mark) {
        let seen = &mut self.seen;
        let Some(sig) = &facts.sig else {
            seen.unsigned += 1;
            seen.first_unsigned.get_or_insert(*mark);
            seen.unsigned_tail.get_or_insert(*mark);
            return;
        };
        seen.signed += 1;
        seen.unsigned_inside = seen.unsigned;
        seen.unsigned_tail = None;
        match (&sig.key, facts.hash_holds) {
            (None, _) => {
                let text = "sig.pubkey is not a key that can be trusted";
                seen.fault(mark, Verdict::Forged, FindingCode::KeyUnusable, text);
            }
            (Some(_), true) if !sig.holds => {
                let text = "the signature does not verify under the key that it names";
                seen.fault(mark, Verdict::Forged, FindingCode::SignatureBad, text);
            }
            (Some(key), _) => seen.signer(*key, sig, mark),
        }
        let old = |limit: &u64| facts.timestamp_ns < *limit;
        if self.options.not_before_ns.as_ref().is_some_and(old) {
            let text = "the signed turn is older than the oldest that is accepted";
            seen.fault(mark, Verdict::RolledBack, FindingCode::TurnTooOld, text);
        }
    }

    fn uncovered(&mut self, facts: &Facts, read: &TurnRead, mark: &Mark) {
        let place = |offset: usize| Place {
            from: mark.place.from + offset as u64,
            ..mark.place
        };
        let mut note = |code, text, place: Place| {
            if self.seen.may_note(code) {
                let finding = put(Finding::warning(code, text), &place);
                self.seen.uncovered.push(finding.in_turn(Some(mark.turn)));
            }
        };
        let timestamp = read.rounded.filter(|_| !self.options.strict_digits);
        if let Some(offset) = except(&read.lost, timestamp) {
            let text =
                "a number has digits that its canonical form does not keep: no hash covers them";
            note(FindingCode::NumberInexact, text, place(offset));
        }
        if let Some(offset) = read.lost.spelling {
            let text = "a number or string is spelled one byte away from its canonical form: no hash covers that byte";
            note(FindingCode::SpellingUncovered, text, place(offset));
        }
        if facts.sig.as_ref().is_some_and(|sig| sig.extra) {
            let text = "`sig` has members that no hash and no signature covers";
            note(FindingCode::SigMemberUncovered, text, mark.place);
        }
        if let Some(timestamp) = timestamp {
            self.seen.rounded_count += 1;
            let at = place(timestamp.offset);
            self.seen
                .first_rounded
                .get_or_insert(Mark { place: at, ..*mark });
            if self.seen.rounded.len() < MAX_LISTED_TIMESTAMPS {
                self.seen.rounded.push((mark.turn, timestamp));
            }
        }
    }

    /// Moves the tip, and compares it with the expected heads.
    fn head(&mut self, facts: &Facts) {
        let seen = &mut self.seen;
        let seq = seen.turns;
        if seq == 0 {
            seen.record = Some(RecordId::from_bytes(*facts.hash.as_bytes()));
        }
        // Without its first turn, the identity of the scroll is unknown.
        let Some(record) = seen.record else {
            return;
        };
        let size = seen.tip.map_or(0, |tip| tip.head.size) + facts.covered;
        let head = Head {
            record,
            seq,
            size,
            line: facts.hash,
        };
        let before = seen
            .tip
            .map_or_else(Signatures::default, |tip| tip.signatures);
        let signature = facts.sig.as_ref().map(|sig| sig.bytes.as_slice());
        seen.tip = Some(Tip {
            head,
            turn: facts.turn,
            encoding: facts.encoding,
            signatures: before.then(seq, signature),
        });
        if !facts.hash_holds {
            return;
        }
        let here = Seal {
            seq,
            size,
            line: facts.hash,
        };
        for (expected, met) in self.options.expect.iter().zip(&mut seen.met) {
            met.meet(expected.head, Some(record), here);
            seen.broken |= *met == HeadMatch::Differs;
        }
    }

    /// Notes how far heads and signatures reach; `signed` is the time of a signed turn.
    fn until(&mut self, mark: &Mark, signed: Option<u64>) {
        let seen = &mut self.seen;
        let here = HeadMatch::At(seen.turns);
        let mut heads = self.options.expect.iter().zip(&seen.met);
        let named = heads.any(|(expected, met)| expected.vouches && *met == here);
        if named {
            seen.unheld_tail = None;
        } else {
            seen.unheld_tail.get_or_insert(*mark);
        }
        if seen.broken {
            return;
        }
        let until = TrustedUntil {
            line: mark.place.line.unwrap_or(0),
            byte: mark.place.to,
            turn: Some(mark.turn),
        };
        if named {
            seen.held_until = Some(until);
        }
        if let Some(nanoseconds) = signed {
            seen.signed_until = Some(until);
            seen.last_signed_at = Timestamp::from_micros(nanoseconds / 1000).ok();
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
        self.broken = true;
        if self.may_note(code) {
            self.faults
                .push((verdict, mark.put(Finding::error(code, text))));
        }
    }

    fn signer(&mut self, key: PublicKey, sig: &SigFacts, mark: &Mark) {
        if !sig.holds || self.signers.contains(&key) {
            return;
        }
        if self.signers.len() == MAX_RECORD_KEYS {
            let text = format!("more than {MAX_RECORD_KEYS} keys signed this chain");
            return self.fault(mark, Verdict::Malformed, FindingCode::TooManyKeys, text);
        }
        self.signers.push(key);
        self.last_signed.push(None);
    }

    /// Notes the last turn of its signer.
    fn note_last(&mut self, facts: &Facts) {
        let (Some(sig), Some(tip)) = (&facts.sig, &self.tip) else {
            return;
        };
        let key = sig.key.filter(|_| sig.holds && facts.hash_holds);
        let at = self.signers.iter().position(|signer| Some(*signer) == key);
        if let Some(last) = at.and_then(|at| self.last_signed.get_mut(at)) {
            *last = Some((tip.head, tip.signatures));
        }
    }
}
