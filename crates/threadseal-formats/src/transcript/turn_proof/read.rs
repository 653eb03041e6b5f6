//! Lines of one record in a proof: each fits the manifest, or is refused.
//!
//! A seal that fits states the manifest's digest as its origin. Its signature is checked where it
//! matters: for the closing seal, and for each seal that names a key.

use super::Step;
use crate::transcript::event::{self, Frame, LineFault, Salt};
use crate::transcript::manifest::{self, Manifest};
use crate::transcript::payloads::NextKey;
use crate::transcript::scan::Failure;
use crate::transcript::seal::{self, Seal, SealFault};
use crate::transcript::statement::LineNote;
use std::collections::BTreeMap;
use threadseal_core::canon::json;
use threadseal_core::key::{PublicKey, Signature};
use threadseal_core::limits::MAX_LINE_BYTES;
use threadseal_core::merkle::{TreeHead, leaf_hash};
use threadseal_core::note::KeyName;
use threadseal_core::record::ThreadId;
use threadseal_core::report::{Finding, FindingCode, Verdict};

/// A seal in its one spelling, of this record.
pub(super) struct ReadSeal {
    pub(super) seal: Seal,
    pub(super) note: LineNote,
}

/// The record that the manifest names.
pub(super) struct Record<'a> {
    pub(super) manifest: Manifest,
    /// Have two lines that were read one salt?
    pub(super) salts_repeat: bool,
    /// The origin under which each seal is signed.
    origin: KeyName,
    /// The thread id as each line spells it, quotes included.
    thread: &'a [u8],
    salts: BTreeMap<Salt, &'a str>,
}

impl<'a> Record<'a> {
    /// The record whose line 1 this is.
    pub(super) fn of(line: &'a str) -> Result<Self, Failure> {
        let missing = || {
            let text = "line 1 is not the manifest that a native transcript begins with";
            tampered_at(FindingCode::ManifestMissing, text, Some(1))
        };
        let frame = check(line, Some(1))?;
        if !event::is_native_id(frame.thread_id) {
            let text = LineFault::Frame.message();
            return Err(tampered_at(FindingCode::LineMalformed, text, Some(1)));
        }
        let manifest = Some(frame.payload).filter(|_| frame.event_type == "thread_started");
        let manifest = manifest.and_then(Manifest::parse).ok_or_else(missing)?;
        let origin = manifest::origin(line.as_bytes());
        let record = Self {
            manifest,
            salts_repeat: false,
            origin: KeyName::parse(&origin).map_err(|_| missing())?,
            thread: frame.thread_id,
            salts: BTreeMap::from([(frame.salt, line)]),
        };
        if !record.manifest.lets_first_key_in(record.thread) {
            let text = "the authority did not delegate to the first signing key";
            return Err(forged(FindingCode::DelegationBad, text));
        }
        record.thread_id()?;
        Ok(record)
    }

    pub(super) fn thread_id(&self) -> Result<ThreadId, Failure> {
        let text = json::parse(self.thread).ok();
        let id = text.and_then(|text| ThreadId::parse(text.as_str()?).ok());
        id.ok_or_else(|| {
            let text = "the thread id cannot be a path";
            failure(Verdict::Malformed, FindingCode::ThreadIdBad, text, Some(1))
        })
    }

    /// Did the authority allow this key to seal?
    pub(super) fn check_delegation(
        &self,
        key: &PublicKey,
        signature: &Signature,
    ) -> Result<(), Failure> {
        let message = manifest::delegation_message(&self.origin, key);
        let signed = self.manifest.authority.verify(&message, signature);
        signed.map_err(|_| {
            let text = format!("the authority did not delegate to key {}", key.key_id());
            forged(FindingCode::DelegationBad, text)
        })
    }

    /// Reads a line of the record; `number` where it is known.
    pub(super) fn line(
        &mut self,
        line: &'a str,
        number: Option<u64>,
    ) -> Result<Frame<'a>, Failure> {
        let frame = check(line, number)?;
        if frame.thread_id != self.thread {
            if !event::is_native_id(frame.thread_id) {
                let text = LineFault::Frame.message();
                return Err(tampered_at(FindingCode::LineMalformed, text, number));
            }
            let text = "the line names another thread than line 1";
            return Err(tampered_at(FindingCode::ThreadIdChanged, text, number));
        }
        let with_it = self.salts.entry(frame.salt).or_insert(line);
        self.salts_repeat |= *with_it != line;
        Ok(frame)
    }

    /// Reads a checkpoint; `number` where it is known.
    pub(super) fn seal(&mut self, line: &'a str, number: Option<u64>) -> Result<ReadSeal, Failure> {
        let spelling = || {
            let text = "the checkpoint line is not in its canonical form";
            tampered_at(FindingCode::CheckpointMalformed, text, number)
        };
        let frame = self.line(line, number)?;
        if frame.event_type != "checkpoint" {
            return Err(spelling());
        }
        let parsed = seal::parse(line.as_bytes(), &frame).map_err(|fault| match fault {
            SealFault::Spelling => spelling(),
            SealFault::UnknownCritical(name) => {
                let text =
                    format!("the seal has a critical member {name:?} that is not known here");
                failure(Verdict::Malformed, FindingCode::ExtUnknown, text, number)
            }
        })?;
        let note = parsed.note(&self.origin).ok_or_else(|| {
            let text =
                "the checkpoint line was changed after it was signed, or it belongs to another record";
            tampered_at(FindingCode::CheckpointAltered, text, number)
        })?;
        Ok(ReadSeal {
            note,
            seal: parsed.seal,
        })
    }

    /// The key that made a seal, where the current one is `key`: the authority seals beside it.
    pub(super) fn sealer(&self, by: &Seal, key: &PublicKey) -> PublicKey {
        let authority = &self.manifest.authority;
        match by.key == authority.key_id() && self.manifest.key != *authority {
            true => *authority,
            false => *key,
        }
    }

    /// A seal that admits the next key: its number, its signer, and that key. `key` is the current
    /// one.
    pub(super) fn step(
        &mut self,
        step: &'a Step,
        key: &PublicKey,
    ) -> Result<(u64, PublicKey, PublicKey), Failure> {
        let (Step::Named { seal } | Step::Announced { seal, .. }) = step;
        let by = self.seal(seal, None)?;
        let key = &match step {
            Step::Named { .. } => self.sealer(&by.seal, key),
            Step::Announced { .. } => *key,
        };
        if by.seal.key != key.key_id() || !by.note.holds(key) {
            let id = key.key_id();
            let text = format!("key {id} did not sign the seal that should name the next key");
            return Err(forged(FindingCode::SignatureBad, text));
        }
        let next = match (step, by.seal.ext.next_key) {
            (Step::Named { .. }, Some(next)) => next,
            (Step::Announced { event, proof, .. }, None) => {
                // The event is directly before the seal, so no line between the two can have
                // revoked it.
                let index = by.seal.lines.saturating_sub(1);
                let tree = TreeHead {
                    size: by.seal.lines,
                    root: by.seal.root,
                };
                let leaf = leaf_hash(event.as_bytes());
                if proof.check(&leaf, index, &tree).is_err() {
                    return Err(bad_step("the event is not the line before the seal"));
                }
                let frame = self.line(event, Some(by.seal.lines))?;
                let named = Some(frame.payload).filter(|_| frame.event_type == "key");
                let named = named.and_then(NextKey::parse).map(|next| next.0);
                named.ok_or_else(|| bad_step("the event names no key"))?
            }
            (Step::Named { .. }, None) => return Err(bad_step("the seal names no key")),
            (Step::Announced { .. }, Some(_)) => {
                return Err(bad_step("the seal names another key than the event"));
            }
        };
        Ok((by.seal.seq, *key, next))
    }
}

fn check(line: &str, number: Option<u64>) -> Result<Frame<'_>, Failure> {
    let frame = match line.len() >= MAX_LINE_BYTES {
        true => Err(LineFault::TooLong),
        false => event::check_line(line.as_bytes()),
    };
    frame.map_err(|fault| tampered_at(FindingCode::LineMalformed, fault.message(), number))
}

pub(super) fn failure(
    verdict: Verdict,
    code: FindingCode,
    text: impl Into<String>,
    line: Option<u64>,
) -> Failure {
    let finding = Finding::error(code, text);
    let finding = match line {
        Some(line) => finding.at_line(line),
        None => finding,
    };
    Failure {
        verdict,
        findings: vec![finding],
    }
}

/// A line that differs from the sealed one.
pub(super) fn tampered_at(
    code: FindingCode,
    text: impl Into<String>,
    line: Option<u64>,
) -> Failure {
    failure(Verdict::Tampered, code, text, line)
}

/// A signature or a key that does not fit.
pub(super) fn forged(code: FindingCode, text: impl Into<String>) -> Failure {
    failure(Verdict::Forged, code, text, None)
}

/// An invalid change from key to key.
pub(super) fn bad_step(text: &'static str) -> Failure {
    forged(FindingCode::KeyStepBad, text)
}
