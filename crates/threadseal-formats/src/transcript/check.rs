//! The checks of one checkpoint against the chain before it (`spec/transcript.md` §3 to §6).
//!
//! A seal is good when its spelling, numbers, root, link, key and note text fit. Its signature is
//! checked later, unless every signature is requested. The last seal of each key covers all before
//! it. After the first seal that is not good, the rest of the file is not trusted.

use super::event::Frame;
use super::order::Order;
use super::scan::{
    Failure, GoodSeal, PendingSignature, Place, PointKind, PrefixPoint, Scanner, Signed,
};
use super::seal::{self, Seal, SealFault};
use super::statement::LineNote;
use threadseal_core::digest::Digest;
use threadseal_core::key::{Message, PublicKey};
use threadseal_core::limits::MAX_RECORD_KEYS;
use threadseal_core::record::Head;
use threadseal_core::report::{Finding, FindingCode, Verdict};
use threadseal_core::trust::LastOf;

impl Scanner {
    pub(super) fn checkpoint(
        &mut self,
        line: &[u8],
        frame: &Frame<'_>,
        place: Place,
        points: &mut Vec<PrefixPoint>,
    ) {
        match self.judge(line, frame, place) {
            Ok(good) => self.accept(line, place, &good, points),
            Err(failure) => self.out.failure = Some(failure),
        }
    }

    fn judge(&self, line: &[u8], frame: &Frame<'_>, place: Place) -> Result<Judged, Failure> {
        let parsed = seal::parse(line, frame).map_err(|fault| match fault {
            SealFault::Spelling => {
                let text = "the checkpoint line is not in its canonical form";
                failure(
                    Verdict::Tampered,
                    place.error(FindingCode::CheckpointMalformed, text),
                )
            }
            SealFault::UnknownCritical(name) => {
                let text =
                    format!("the seal has a critical member {name:?} that is not known here");
                failure(
                    Verdict::Malformed,
                    place.error(FindingCode::ExtUnknown, text),
                )
            }
        })?;
        let Some(origin) = &self.chain.origin else {
            let text = "the record has no manifest for this seal";
            return Err(failure(
                Verdict::Tampered,
                place.error(FindingCode::ManifestMissing, text),
            ));
        };
        let note = parsed.note(origin).ok_or_else(|| {
            let text =
                "the checkpoint line was changed after it was signed, or it belongs to another record";
            failure(
                Verdict::Tampered,
                place.error(FindingCode::CheckpointAltered, text),
            )
        })?;
        let seal = parsed.seal;
        let Some(key) = self.chain.keys.find(&seal.key) else {
            let text = format!("key {} may not seal this record", seal.key);
            return Err(failure(
                Verdict::Forged,
                place.error(FindingCode::KeyNotAllowed, text),
            ));
        };
        let judged = Judged {
            key: *key,
            note,
            seal,
        };
        self.check_numbers(&judged, place)?;
        if let Some(fault) = &self.chain.fault {
            return Err(failure(Verdict::Tampered, fault.clone()));
        }
        self.check_next_key(&judged, place)?;
        self.check_ending(&judged.seal, place)?;
        if self.chain.rye_fp != Some(judged.seal.fp) {
            let text = "\"fp\" is not the fingerprint of the record's Rye key";
            return Err(failure(
                Verdict::Tampered,
                place.error(FindingCode::RyeKeyChanged, text),
            ));
        }
        if let Some(redactor) = self.out.watch.redactor()
            && redactor != judged.seal.key
        {
            let text = format!("a redaction names key {redactor}, but another key seals it");
            return Err(failure(
                Verdict::Tampered,
                place.error(FindingCode::RedactorDiffers, text),
            ));
        }
        if self.options.every_signature {
            self.check_signatures(&judged, place)?;
        }
        Ok(judged)
    }

    /// Sequence, offsets, link and root: do the bytes before this line match the seal?
    fn check_numbers(&self, judged: &Judged, place: Place) -> Result<(), Failure> {
        let seal = &judged.seal;
        let wrong = if seal.seq != self.chain.next_seq {
            Some((
                FindingCode::SealMissing,
                format!(
                    "seal {} is in the place of seal {}",
                    seal.seq, self.chain.next_seq
                ),
            ))
        } else if seal.prev != self.chain.prev {
            Some((
                FindingCode::LinkBroken,
                "the seal does not link to the seal before it".into(),
            ))
        } else if seal.lines != place.line - 1 || seal.byte_offset != place.start {
            Some((
                FindingCode::ContentChanged,
                "bytes were added or removed after the seal before".into(),
            ))
        } else if seal.root != self.chain.leaves.root() {
            Some((
                FindingCode::ContentChanged,
                "content was changed since it was sealed".into(),
            ))
        } else if self
            .out
            .last
            .as_ref()
            .is_some_and(|last| seal.turn < last.turn)
        {
            Some((
                FindingCode::TurnBackwards,
                "the seal's turn is lower than that of the seal before it".into(),
            ))
        } else if self
            .out
            .last
            .as_ref()
            .is_some_and(|last| seal.ext.fence < last.fence)
        {
            Some((
                FindingCode::FenceBackwards,
                "the seal's fencing token is lower than that of the seal before it: its writer no longer owned the record".into(),
            ))
        } else {
            None
        };
        let Some((code, text)) = wrong else {
            return Ok(());
        };
        if !judged.note.holds(&judged.key) {
            return Err(failure(Verdict::Forged, bad_signature(judged, place)));
        }
        let from = self.out.last.as_ref().map_or(0, |last| last.head.size);
        let changed = Finding::error(code, text)
            .at_bytes(from, place.start)
            .in_turn(Some(seal.turn));
        // A line that is no longer an event shows the place more exactly.
        let findings = self.chain.fault.iter().cloned().chain([changed]).collect();
        Err(Failure {
            verdict: Verdict::Tampered,
            findings,
        })
    }

    /// May this key name the next sealing key?
    fn check_next_key(&self, judged: &Judged, place: Place) -> Result<(), Failure> {
        let Some(named) = &judged.seal.ext.next_key else {
            return Ok(());
        };
        let checked = self.chain.keys.check_named(&judged.key, named);
        checked.map_err(|why| failure(Verdict::Forged, place.error(FindingCode::NextKeyBad, why)))
    }

    fn check_ending(&self, seal: &Seal, place: Place) -> Result<(), Failure> {
        let wrong = match (self.chain.order.allows_seal(seal.is_final), seal.is_final) {
            (true, _) => return Ok(()),
            (false, true) => "a final seal does not follow the end of the thread or a link",
            (false, false) => "a seal after the end of the thread is not final",
        };
        Err(failure(
            Verdict::Malformed,
            place.error(FindingCode::EndMisplaced, wrong),
        ))
    }

    fn check_signatures(&self, judged: &Judged, place: Place) -> Result<(), Failure> {
        let rye_key = self.out.manifest.as_ref().map(|manifest| &manifest.rye_key);
        if !judged.note.holds(&judged.key) {
            return Err(failure(Verdict::Forged, bad_signature(judged, place)));
        }
        if rye_key.is_none_or(|key| {
            key.verify(&Message::rye_hash(&judged.seal.hash), &judged.seal.sig)
                .is_err()
        }) {
            let text = "\"sig\" does not verify under the record's Rye key";
            return Err(failure(
                Verdict::Forged,
                place.error(FindingCode::RyeSignatureBad, text),
            ));
        }
        Ok(())
    }

    fn accept(
        &mut self,
        line: &[u8],
        place: Place,
        judged: &Judged,
        points: &mut Vec<PrefixPoint>,
    ) {
        let seal = &judged.seal;
        let Some(manifest) = &self.out.manifest else {
            return;
        };
        let digest = Digest::of(line);
        let head = Head {
            record: manifest.record,
            seq: seal.seq,
            size: place.end,
            line: digest,
        };
        let claim = PointKind::Claim {
            hash: seal.hash,
            seq: seal.seq,
        };
        points.push(PrefixPoint {
            offset: place.start,
            kind: claim,
        });
        points.push(PrefixPoint {
            offset: place.end,
            kind: PointKind::Sealed,
        });
        let (line_number, turn) = (place.line, seal.turn);
        let pending = |key, signed| PendingSignature {
            key,
            signed,
            line: line_number,
            turn,
        };
        let rye = Signed::Rye(seal.hash, seal.sig);
        for new in [
            pending(judged.key, Signed::Note(judged.note.clone())),
            pending(manifest.rye_key, rye),
        ] {
            match self
                .out
                .pending
                .iter_mut()
                .find(|old| old.key == new.key && old.code() == new.code())
            {
                Some(old) => *old = new,
                None => self.out.pending.push(new),
            }
        }
        let key = judged.key;
        match self.out.sealers.iter_mut().find(|old| old.key == key) {
            Some(old) => old.head = head,
            None => self.out.sealers.push(LastOf { key, head }),
        }
        for (expected, met) in self.options.expect.iter().zip(&mut self.out.met) {
            met.meet(expected.head, Some(head.record), (&head).into());
        }
        self.chain
            .keys
            .sealed(&judged.key, seal.ext.next_key.as_ref());
        if seal.is_final {
            self.chain.keys.ended();
        }
        self.chain.keys_at_seal.clone_from(&self.chain.keys);
        self.out.watch.sealed(head, seal.root, judged.key.key_id());
        let since = std::mem::take(&mut self.out.delegated_since);
        if !since.is_empty() {
            self.out.last_word = head.seq;
        }
        self.out.delegated.extend(since);
        self.chain.prev = Some(digest);
        self.chain.next_seq += 1;
        self.chain.order = Order::after_seal(seal.is_final);
        self.chain.tail = None;
        self.out.heirs.clear();
        self.out.heirs.extend(self.chain.keys.heirs());
        self.out.tail_lines = 0;
        self.out.sealed_recoveries = (self.out.adopted.len(), self.out.dropped.len());
        self.out.last = Some(GoodSeal {
            head,
            line: place.line,
            turn: seal.turn,
            is_final: seal.is_final,
            fence: seal.ext.fence,
            time: seal.time,
        });
        if self.out.sealers.len().max(self.chain.keys.count()) > MAX_RECORD_KEYS {
            let text = format!("this record has more than {MAX_RECORD_KEYS} keys");
            self.fail(
                Verdict::Malformed,
                place.error(FindingCode::TooManyKeys, text),
            );
        }
    }
}

/// A checkpoint that fits its place.
struct Judged {
    seal: Seal,
    key: PublicKey,
    note: LineNote,
}

fn failure(verdict: Verdict, finding: Finding) -> Failure {
    Failure {
        verdict,
        findings: vec![finding],
    }
}

fn bad_signature(judged: &Judged, place: Place) -> Finding {
    let text = format!("the signature of key {} does not verify", judged.seal.key);
    place
        .error(FindingCode::SignatureBad, text)
        .in_turn(Some(judged.seal.turn))
}
