//! Makes the proof of a turn from a record that was verified.
//!
//! The walk through the record follows the rule of `sealing_keys`, and stores for each key how it
//! came to seal. So a proof shows the same facts about keys that verification used.

use super::{Chain, Step, TurnProof};
use crate::transcript::Coverage;
use crate::transcript::event::{self, Frame};
use crate::transcript::lines::VerifiedLines;
use crate::transcript::manifest::Manifest;
use crate::transcript::payloads::{Delegation, NextKey};
use crate::transcript::seal::{self, Seal};
use crate::verified::Verified;
use std::borrow::Cow;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::{KeyId, PublicKey, Signature};
use threadseal_core::limits::{MAX_TURN_PROOF_BYTES, MAX_TURN_PROOF_LINES};
use threadseal_core::merkle::{InclusionProof, ProofError, RangeProof, leaf_hash, root};

impl TurnProof {
    /// Proves the turn with this number, from 1, of the verified record; `file` contains its bytes.
    ///
    /// # Errors
    /// Kind `Refused` when `file` has other bytes than the verified ones, or bytes that a recorder
    /// adopted unsealed. Also for a key that a proof could not show without other turns.
    /// `InvalidInput` when no seal closes such a turn; `Limit` when it is too large.
    pub fn make(verified: &Verified<Coverage>, file: &[u8], turn: u64) -> Result<Self, Error> {
        if !verified.get().adopted.is_empty() {
            let text =
                "the record has adopted bytes that no seal covered: no turn of it can be proved";
            return Err(Error::refused(text));
        }
        let lines = VerifiedLines::open(verified, file)?;
        let lines: Vec<Cow<'_, [u8]>> = lines.iter().map(|line| line.bytes).collect();
        let lines: Vec<&[u8]> = lines.iter().map(|line| &**line).collect();
        let place = Place::find(&lines, turn)?;
        let mut walk = Walk::begin(&lines)?;
        walk.go_to(place.closing)?;
        let range = RangeProof::make(&walk.leaves, place.opening, place.end)
            .map_err(|error| Error::invalid(error.to_string()))?;
        let shown = &lines[place.opening..place.end];
        let bytes: usize = shown.iter().map(|line| line.len()).sum();
        // The rest of the file is a manifest, seals and hashes: checked after it is written.
        if shown.len() > MAX_TURN_PROOF_LINES || bytes > MAX_TURN_PROOF_BYTES {
            return Err(too_large());
        }
        let proof = Self {
            turn,
            first: place.opening as u64 + 1,
            manifest: text(lines[0])?,
            chain: walk.chain(place.key)?,
            lines: shown
                .iter()
                .map(|line| text(line))
                .collect::<Result<_, _>>()?,
            range,
            closing: text(lines[place.closing])?,
            bodies: Vec::new(),
            anchor: None,
        };
        proof.within_bounds()
    }
}

pub(super) fn too_large() -> Error {
    let text = "the turn is too large for a proof";
    Error::new(ErrorKind::Limit, text)
}

fn not_native() -> Error {
    Error::refused("not a native transcript: only a native transcript can prove one turn")
}

pub(super) fn text(line: &[u8]) -> Result<String, Error> {
    let text = std::str::from_utf8(line).map_err(|_| not_native())?;
    Ok(text.to_owned())
}

/// The position of a turn; numbers of lines from 0.
struct Place {
    /// The last seal that counts fewer turns.
    opening: usize,
    /// After the last line that is shown.
    end: usize,
    /// The first seal that counts more turns, else the record's last.
    closing: usize,
    /// The key of the closing seal; where keys replaced the authority, that of the seal before the
    /// first of them.
    key: KeyId,
}

impl Place {
    fn find(lines: &[&[u8]], turn: u64) -> Result<Self, Error> {
        let mut seals = Vec::new();
        let mut before_succession = None;
        for (number, line) in lines.iter().enumerate() {
            let frame = event::parse_frame(line).ok_or_else(not_native)?;
            match frame.event_type {
                "checkpoint" => {
                    let seal = seal_of(line, &frame)?;
                    let key = before_succession.unwrap_or(seal.key);
                    seals.push((number, seal.turn, key));
                }
                "authority" => before_succession = seals.last().map(|(_, _, key)| *key),
                _ => {}
            }
        }
        // In a verified record, turn numbers never fall.
        let fewer = seals.partition_point(|(_, counted, _)| *counted < turn);
        let not_more = seals.partition_point(|(_, counted, _)| *counted <= turn);
        match (
            &seals[..fewer],
            &seals[fewer..not_more],
            seals.get(not_more),
        ) {
            ([.., (opening, before, _)], [.., (last, _, own)], next) if before + 1 == turn => {
                let (end, closing, key) = match next {
                    Some((number, _, key)) => (last + 1, *number, *key),
                    None => (*last, *last, *own),
                };
                Ok(Self {
                    opening: *opening,
                    end,
                    closing,
                    key,
                })
            }
            _ => Err(Error::invalid(format!(
                "no seal of the record closes turn {turn}"
            ))),
        }
    }
}

/// How a key came to seal; numbers of lines from 0.
#[derive(Debug, Clone, Copy)]
enum Origin {
    Named { seal: usize },
    Announced { event: usize, seal: usize },
}

/// A key and the steps to it.
#[derive(Clone)]
struct Holder {
    key: PublicKey,
    steps: Vec<Origin>,
}

/// A walk through a record, which stores for each key how it came to seal.
pub(super) struct Walk<'a> {
    lines: &'a [&'a [u8]],
    leaves: Vec<Digest>,
    current: Holder,
    announced: Option<(PublicKey, usize)>,
    next: Option<Holder>,
    delegates: Vec<(PublicKey, Signature)>,
    /// Present where it let another key make the first seals.
    authority: Option<Holder>,
}

impl<'a> Walk<'a> {
    pub(super) fn begin(lines: &'a [&'a [u8]]) -> Result<Self, Error> {
        let first = lines.first().and_then(|line| event::parse_frame(line));
        let manifest = first.and_then(|frame| Manifest::parse(frame.payload));
        let manifest = manifest.ok_or_else(not_native)?;
        Ok(Self {
            lines,
            leaves: Vec::with_capacity(lines.len()),
            current: Holder {
                key: manifest.key,
                steps: Vec::new(),
            },
            announced: None,
            next: None,
            delegates: Vec::new(),
            authority: Some(manifest.authority)
                .filter(|authority| *authority != manifest.key)
                .map(|key| Holder {
                    key,
                    steps: Vec::new(),
                }),
        })
    }

    /// Walks over all lines before the closing seal.
    pub(super) fn go_to(&mut self, closing: usize) -> Result<(), Error> {
        for (number, line) in self.lines[..closing].iter().enumerate() {
            let frame = event::parse_frame(line).ok_or_else(not_native)?;
            match frame.event_type {
                "checkpoint" => self.sealed(number, &seal_of(line, &frame)?),
                _ => self.event(number, &frame)?,
            }
            self.leaves.push(leaf_hash(line));
        }
        Ok(())
    }

    fn event(&mut self, number: usize, frame: &Frame<'_>) -> Result<(), Error> {
        match frame.event_type {
            "key" => {
                let NextKey(key) = NextKey::parse(frame.payload).ok_or_else(not_native)?;
                self.announced = Some((key, number));
            }
            "delegation" => {
                let Delegation { key, signature } =
                    Delegation::parse(frame.payload).ok_or_else(not_native)?;
                self.delegates.push((key, signature));
            }
            "tail_dropped" | "tail_adopted" => self.announced = None,
            _ => {}
        }
        Ok(())
    }

    fn sealed(&mut self, number: usize, seal: &Seal) {
        if let Some(next) = self.next.take_if(|next| next.key.key_id() == seal.key) {
            self.current = next;
            self.announced = None;
        }
        if let Some(key) = seal.ext.next_key {
            let steps = match self
                .authority
                .as_ref()
                .filter(|one| one.key.key_id() == seal.key)
            {
                Some(authority) => authority.steps.clone(),
                None => self.current.steps.clone(),
            };
            self.current = Holder { key, steps };
            self.current.steps.push(Origin::Named { seal: number });
            (self.announced, self.next) = (None, None);
        } else if self.current.key.key_id() == seal.key
            && let Some((key, event)) = self.announced.take()
        {
            let mut steps = self.current.steps.clone();
            steps.push(Origin::Announced {
                event,
                seal: number,
            });
            self.next = Some(Holder { key, steps });
        }
    }

    /// How the key of the closing seal came to seal.
    pub(super) fn chain(&self, key: KeyId) -> Result<Chain, Error> {
        let holders = std::iter::once(&self.current)
            .chain(&self.next)
            .chain(&self.authority);
        let mut holders = holders.filter(|holder| holder.key.key_id() == key);
        if let Some(holder) = holders.next() {
            let steps = holder.steps.iter().map(|origin| self.step(*origin));
            return Ok(Chain::Steps(steps.collect::<Result<_, _>>()?));
        }
        let delegate = self.delegates.iter().find(|(one, _)| one.key_id() == key);
        let delegate = delegate.ok_or_else(not_native)?;
        Ok(Chain::Delegation(Box::new(*delegate)))
    }

    fn step(&self, origin: Origin) -> Result<Step, Error> {
        match origin {
            Origin::Named { seal } => Ok(Step::Named {
                seal: text(self.lines[seal])?,
            }),
            Origin::Announced { event, seal } if event + 1 == seal => {
                let proof = InclusionProof::make(event as u64, seal as u64, &mut |node| {
                    let (from, width) = (node.index << node.level, 1_u64 << node.level);
                    let place = |at: u64| usize::try_from(at).map_err(|_| ProofError::NotInTree);
                    let leaves = self.leaves.get(place(from)?..place(from + width)?);
                    leaves.map(root).ok_or(ProofError::NotInTree)
                });
                Ok(Step::Announced {
                    event: text(self.lines[event])?,
                    proof: proof.map_err(|error| Error::invalid(error.to_string()))?,
                    seal: text(self.lines[seal])?,
                })
            }
            Origin::Announced { .. } => Err(Error::refused(
                "the key that sealed this turn was announced during another turn: a proof would also show lines of that turn",
            )),
        }
    }
}

pub(super) fn seal_of(line: &[u8], frame: &Frame<'_>) -> Result<Seal, Error> {
    let parsed = seal::parse(line, frame).map_err(|_| not_native())?;
    Ok(parsed.seal)
}
