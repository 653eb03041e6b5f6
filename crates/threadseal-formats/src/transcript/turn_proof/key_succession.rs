//! The signers of a turn, where keys replaced the record's authority after its end
//! (`spec/transcript.md` §5).
//!
//! ```text
//! … events, end seal │ authority │ links, seal by that key │ authority │ … closing seal
//!   by the proof's own key         by the named key                    by the last named key
//! ```
//! Such events are after the last turn of a record, so only the proof of that turn shows them. The
//! closing seal vouches for all shown lines. The last seal of each part decides the part's signer.
//! It is the head that was published before a key ended.

use super::check::check_signatures;
use super::read::{ReadSeal, Record, forged, tampered_at};
use super::turn::end_of;
use super::{Chain, TurnProof};
use crate::transcript::event;
use crate::transcript::payloads::Succession;
use crate::transcript::scan::Failure;
use threadseal_core::digest::Digest;
use threadseal_core::key::PublicKey;
use threadseal_core::limits::MAX_RECORD_KEYS;
use threadseal_core::record::Head;
use threadseal_core::report::FindingCode;
use threadseal_core::tlog::entry::key_event::KeyChange;
use threadseal_core::trust::LastOf;

/// The keys from line 1 to the one of the closing seal, that one last. Each has the last shown seal
/// that it vouches for.
pub(super) struct Sealers {
    pub(super) all: Vec<LastOf>,
    /// Number of the first seal over all statements of the authority about others, as far as it is
    /// shown.
    pub(super) last_word: u64,
    /// Keys that replaced the authority, in their order.
    pub(super) heirs: Vec<PublicKey>,
}

impl TurnProof {
    /// Checks the signers of the turn, and their signatures.
    pub(super) fn sealers<'a>(
        &'a self,
        record: &mut Record<'a>,
        closing: &ReadSeal,
    ) -> Result<Sealers, Failure> {
        let mut way = SuccessionWalk::of(&self.chain);
        let (mut seal, mut is_fresh) = (None, false);
        for (line, number) in self.lines.iter().zip(self.first..) {
            // An invalid line is reported when all lines are read.
            let Ok(frame) = event::check_line(line.as_bytes()) else {
                continue;
            };
            match frame.event_type {
                "checkpoint" => (seal, is_fresh) = (Some((line, number)), false),
                "authority" => {
                    is_fresh = true;
                    if let Some((line, number)) = seal.take() {
                        let read = record.seal(line, Some(number))?;
                        way.sealed(record, &read, line)?;
                    }
                    way.succeed(record, frame.payload, number)?;
                }
                "tail_adopted" => way.adopted = true,
                "tail_dropped" if is_fresh => {
                    let text = "a key that replaces the authority was in a tail";
                    let code = FindingCode::EventMalformed;
                    return Err(tampered_at(code, text, Some(number)));
                }
                _ => {}
            }
        }
        way.sealed(record, closing, &self.closing)?;
        Ok(Sealers {
            all: way.sealers,
            last_word: way.end.unwrap_or(0),
            heirs: way.successors,
        })
    }
}

struct SuccessionWalk<'a> {
    chain: &'a Chain,
    /// Keys that replaced the authority, the present one last.
    successors: Vec<PublicKey>,
    sealers: Vec<LastOf>,
    /// Number of the seal that ended the record, where a key replaced its authority.
    end: Option<u64>,
    /// Was the last seal that was read a final one?
    ended: bool,
    /// Did a recorder adopt unsealed bytes? Their statements about keys do not count, and this
    /// module does not determine them.
    adopted: bool,
}

impl<'a> SuccessionWalk<'a> {
    fn of(chain: &'a Chain) -> Self {
        Self {
            chain,
            successors: Vec::new(),
            sealers: Vec::new(),
            end: None,
            ended: false,
            adopted: false,
        }
    }

    /// Takes the last seal before another key replaces the one that made it, or the closing one.
    fn sealed(
        &mut self,
        record: &mut Record<'a>,
        read: &ReadSeal,
        line: &str,
    ) -> Result<(), Failure> {
        if self.adopted && !self.successors.is_empty() {
            let text = "unsealed bytes were adopted where a key replaces the authority";
            return Err(tampered_at(FindingCode::EventMalformed, text, None));
        }
        let keys = match self.successors.last() {
            None => self.chain.follow(record, read)?,
            Some(heir) if heir.key_id() == read.seal.key => vec![*heir],
            Some(_) => {
                let text = format!("key {} may not seal this record", read.seal.key);
                return Err(forged(FindingCode::KeyNotAllowed, text));
            }
        };
        check_signatures(record, keys.last(), read)?;
        let head = Head {
            record: record.manifest.record,
            seq: read.seal.seq,
            size: end_of(read.seal.byte_offset, line),
            line: Digest::of(line.as_bytes()),
        };
        self.sealers
            .extend(keys.into_iter().map(|key| LastOf { key, head }));
        self.ended = read.seal.is_final;
        Ok(())
    }

    fn succeed(&mut self, record: &Record<'a>, payload: &[u8], number: u64) -> Result<(), Failure> {
        let bad = |text: &str| Err(tampered_at(FindingCode::EventMalformed, text, Some(number)));
        let Some(end) = self.sealers.last().filter(|_| self.ended) else {
            return bad("a key replaces the authority of a record that has not ended");
        };
        self.end.get_or_insert(end.head.seq);
        let Some(Succession { next, signature }) = Succession::parse(payload) else {
            return bad("the event does not name a key and a signature");
        };
        let before = *self.successors.last().unwrap_or(&record.manifest.authority);
        let said = before.verify(&KeyChange::Rotate(next).message(&before), &signature);
        if said.is_err() {
            return bad("the authority did not sign that this key replaces it");
        }
        let known = self.sealers.iter().map(|sealer| sealer.key);
        if known
            .chain(self.successors.iter().copied())
            .any(|key| key == next)
            || next == record.manifest.authority
        {
            return bad("a key that sealed before replaces the authority");
        }
        if self.successors.len() >= MAX_RECORD_KEYS {
            return bad("too many keys replaced the authority");
        }
        self.successors.push(next);
        Ok(())
    }
}
