//! The order of the shown lines, and the payloads of the recorder's events among them
//! (`spec/proofs.md`, "Order" and "Reserved events").
//!
//! ```text
//! opening seal ─ open or ended ─► events and seals of the turn ─► closing seal, where it is of the turn
//! ```
//! The closing seal vouches for all of these lines. The rules are those of a whole record
//! (`spec/transcript.md` §4), so that a proof never shows what `verify` refuses.

use super::read::{ReadSeal, Record, failure, forged, tampered_at};
use super::turn::end_of;
use super::{Chain, TurnProof};
use crate::transcript::bodies::Redaction;
use crate::transcript::event::Frame;
use crate::transcript::order::Order;
use crate::transcript::payloads::{
    Delegation, NextKey, Succession, TailAdopted, TailDigest, TailDropped,
};
use crate::transcript::scan::Failure;
use crate::transcript::seal::Seal;
use threadseal_core::key::KeyId;
use threadseal_core::report::{FindingCode, Verdict};

/// A shown line that was read.
pub(super) struct ReadLine<'a> {
    pub(super) text: &'a str,
    pub(super) number: u64,
    pub(super) frame: Frame<'a>,
    /// Its values, where it is a checkpoint.
    pub(super) seal: Option<Seal>,
}

impl TurnProof {
    /// Do the lines follow each other as a record allows it?
    pub(super) fn check_order(
        &self,
        record: &Record<'_>,
        lines: &[ReadLine<'_>],
        closing: &ReadSeal,
    ) -> Result<(), Failure> {
        let mut walk = Walk::of(record, lines);
        for line in lines.iter().skip(1) {
            match &line.seal {
                Some(seal) => walk.seal(seal, Some(line.number))?,
                None => walk.event(line),
            }
        }
        let closing = &closing.seal;
        let (is_of_turn, has_ended) = (closing.turn == self.turn, walk.order.has_ended());
        if !is_of_turn {
            walk.order = walk.order.behind_unknown_lines();
        }
        match has_ended {
            false if !is_of_turn => Ok(()),
            true if matches!(self.chain, Chain::Delegation(_)) => Err(not_allowed(&closing.key)),
            _ => walk.seal(closing, None),
        }
    }

    /// Do the recorder's events state what they must?
    pub(super) fn check_reserved(
        &self,
        record: &Record<'_>,
        lines: &[ReadLine<'_>],
        closing: &ReadSeal,
    ) -> Result<(), Failure> {
        let mut payloads = Payloads {
            record,
            redactor: None,
            fault: None,
            from: 0,
            at: 0,
            count: 0,
            tail: TailDigest::default(),
        };
        for line in lines {
            match &line.seal {
                Some(seal) => payloads.seal(seal, line.text)?,
                None => payloads.event(line),
            }
        }
        match closing.seal.turn == self.turn {
            true => payloads.covered(&closing.seal),
            false => Ok(()),
        }
    }
}

/// The state after the lines that were read.
struct Walk {
    order: Order,
    /// The key that alone may seal behind an end, where that is known.
    closer: Option<KeyId>,
    /// The first fault since the last seal.
    fault: Option<Failure>,
}

impl Walk {
    fn of(record: &Record<'_>, lines: &[ReadLine<'_>]) -> Self {
        let opening = lines.first().and_then(|line| line.seal.as_ref());
        let authority = record.manifest.authority;
        Self {
            order: Order::after_seal(opening.is_some_and(|seal| seal.is_final)),
            closer: (record.manifest.key != authority).then(|| authority.key_id()),
            fault: None,
        }
    }

    fn event(&mut self, line: &ReadLine<'_>) {
        let kind = line.frame.event_type;
        let is_early = kind == "authority" && !self.order.has_ended();
        if !self.order.event(kind) {
            let text = "an event follows the end of the thread";
            self.fault(FindingCode::EventAfterEnd, text, line.number);
        } else if is_early || kind == "thread_started" {
            let text = "the event may not be in this place of a record";
            self.fault(FindingCode::EventMalformed, text, line.number);
        }
        if kind == "tail_adopted" {
            self.fault = None;
        }
        if let (true, Some(word)) = (kind == "authority", Succession::parse(line.frame.payload)) {
            self.closer = Some(word.next.key_id());
        }
    }

    fn fault(&mut self, code: FindingCode, text: &str, number: u64) {
        let fault = || tampered_at(code, text, Some(number));
        self.fault.get_or_insert_with(fault);
    }

    fn seal(&mut self, seal: &Seal, number: Option<u64>) -> Result<(), Failure> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if !self.order.allows_seal(seal.is_final) {
            let text = "the order of a record does not allow this seal here";
            let code = FindingCode::EndMisplaced;
            return Err(failure(Verdict::Malformed, code, text, number));
        }
        let is_other = self.closer.is_some_and(|closer| closer != seal.key);
        if self.order.has_ended() && is_other {
            return Err(not_allowed(&seal.key));
        }
        self.order = Order::after_seal(seal.is_final);
        Ok(())
    }
}

fn not_allowed(key: &KeyId) -> Failure {
    let text = format!("key {key} may not seal this record after its end");
    forged(FindingCode::KeyNotAllowed, text)
}

/// The payloads since the last seal.
struct Payloads<'r, 'a> {
    record: &'r Record<'a>,
    redactor: Option<(KeyId, u64)>,
    fault: Option<Failure>,
    /// Byte after the last seal, byte of the next line, and the lines between.
    from: u64,
    at: u64,
    count: u64,
    tail: TailDigest,
}

impl Payloads<'_, '_> {
    fn event(&mut self, line: &ReadLine<'_>) {
        if let Err((code, text)) = self.read(line) {
            let fault = || tampered_at(code, text, Some(line.number));
            self.fault.get_or_insert_with(fault);
        }
        self.tail.push(line.text.as_bytes());
        self.at = end_of(self.at, line.text);
        self.count += 1;
    }

    fn read(&mut self, line: &ReadLine<'_>) -> Result<(), (FindingCode, &'static str)> {
        const MALFORMED: FindingCode = FindingCode::EventMalformed;
        let form = (
            MALFORMED,
            "the payload does not have the form of this event",
        );
        let payload = line.frame.payload;
        match line.frame.event_type {
            "key" => NextKey::parse(payload).map(|_| ()).ok_or(form),
            "delegation" => {
                let word = Delegation::parse(payload).ok_or(form)?;
                let signed = self.record.check_delegation(&word.key, &word.signature);
                signed.map_err(|_| (MALFORMED, "the authority did not sign this delegation"))
            }
            "redacted" => {
                let redaction = Redaction::parse(payload).ok_or(form)?;
                let (key, _) = *self.redactor.get_or_insert((redaction.key, line.number));
                match key == redaction.key {
                    true => Ok(()),
                    false => Err((
                        MALFORMED,
                        "two redactions under one seal name different keys",
                    )),
                }
            }
            "tail_dropped" => {
                let dropped = TailDropped::parse(payload).ok_or(form)?;
                match dropped.offset == self.at {
                    true => Ok(()),
                    false => Err((MALFORMED, "the dropped tail did not begin at this line")),
                }
            }
            "tail_adopted" => {
                let adopted = TailAdopted::parse(payload).ok_or(form)?;
                let place = (adopted.from, adopted.to, adopted.lines);
                // What the adopted lines state does not count.
                (self.fault, self.redactor) = (None, None);
                match place == (self.from, self.at, self.count) && self.tail.fits(&adopted.sha256) {
                    true => Ok(()),
                    false => Err((MALFORMED, "the adopted tail is not the shown bytes")),
                }
            }
            _ => Ok(()),
        }
    }

    fn seal(&mut self, seal: &Seal, text: &str) -> Result<(), Failure> {
        self.covered(seal)?;
        self.from = end_of(seal.byte_offset, text);
        (self.at, self.count) = (self.from, 0);
        self.tail = TailDigest::default();
        Ok(())
    }

    fn covered(&mut self, seal: &Seal) -> Result<(), Failure> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        match self.redactor.take() {
            Some((key, number)) if key != seal.key => {
                let text = format!("a redaction names key {key}, but another key seals it");
                let code = FindingCode::RedactorDiffers;
                Err(tampered_at(code, text, Some(number)))
            }
            _ => Ok(()),
        }
    }
}
