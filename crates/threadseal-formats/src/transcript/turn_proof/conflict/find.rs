//! Looks for the two seals of one key in copies of one record that prove two histories.
//!
//! ```text
//! copy   ═══ lines of both ═══╪═ x ── seal 6 by K ── seal 7 by P
//! copy   ═══ lines of both ═══╪═ y ── seal 6 by P ── seal 7 by K
//!                          parted
//! one number, one key: those two
//! else: K's first seal in each copy, with each copy's line at the place where they parted
//! ```

use super::super::make::{Walk, seal_of, text};
use super::{Parted, SealConflict};
use crate::transcript::event;
use std::collections::BTreeMap;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::key::KeyId;
use threadseal_core::merkle::{InclusionProof, leaf_hash};

impl SealConflict {
    /// The seals that prove that one key sealed both of these copies. None where the copies do not
    /// part, or one of them has no seal after that. Neither copy needs to be whole, or good:
    /// [`SealConflict::check`] judges the result.
    ///
    /// # Errors
    /// Kind `Refused` when one is no native record, they are two records, or no key sealed both.
    pub fn find(one: &[u8], other: &[u8]) -> Result<Option<Self>, Error> {
        let (one, other) = (whole_lines(one), whole_lines(other));
        if one.first() != other.first() || one.is_empty() {
            return Err(Error::refused("these are not copies of one record"));
        }
        let mut both = one.iter().zip(&other);
        let Some(parted) = both.position(|(here, there)| here != there) else {
            return Ok(None);
        };
        let (here, there) = (seals_from(&one, parted), seals_from(&other, parted));
        if here.is_empty() || there.is_empty() {
            return Ok(None);
        }
        if let Some((first, second)) = of_one_number(&here, &there, (&one, &other)) {
            let pair = [(&one, first), (&other, second)];
            return Self::of(pair, None).map(Some);
        }
        let pair = of_one_key(&here, &there, parted).ok_or_else(|| {
            Error::refused(
                "no key sealed both copies after the place where they differ: the seals alone do not show which of two keys could seal",
            )
        })?;
        let pair = [(&one, pair.0), (&other, pair.1)];
        Self::of(pair, Some(parted)).map(Some)
    }

    /// Of these two seals of one key, `parted` where they have two numbers.
    fn of(pair: [(&Vec<&[u8]>, &SealAt); 2], parted: Option<usize>) -> Result<Self, Error> {
        let [(lines, first), _] = pair;
        let mut walk = Walk::begin(lines)?;
        walk.go_to(first.at)?;
        let mut seals = Vec::new();
        for (lines, seal) in pair {
            let shown = parted.map(|parted| shown(&lines[..seal.at], parted));
            seals.push((text(lines[seal.at])?, shown.transpose()?));
        }
        // The lesser line first, each with its own proof.
        seals.sort_by(|(one, _), (other, _)| one.cmp(other));
        let (seals, shown): (Vec<_>, Vec<_>) = seals.into_iter().unzip();
        let shown: Option<Vec<_>> = shown.into_iter().collect();
        let line = |parted: usize| parted as u64 + 1;
        let both = "a conflict has two seals";
        Ok(Self {
            manifest: text(lines[0])?,
            chain: walk.chain(first.key)?,
            seals: seals.try_into().map_err(|_| Error::invalid(both))?,
            parted: match (parted, shown) {
                (Some(parted), Some(shown)) => Some(Parted {
                    line: line(parted),
                    shown: shown.try_into().map_err(|_| Error::invalid(both))?,
                }),
                _ => None,
            },
        })
    }
}

/// A seal of a copy.
#[derive(Debug)]
struct SealAt {
    /// The number of its line, from 0.
    at: usize,
    seq: u64,
    key: KeyId,
}

/// The first seals of one number and one key that are not the same.
fn of_one_number<'s>(
    here: &'s [SealAt],
    there: &'s [SealAt],
    (one, other): (&[&[u8]], &[&[u8]]),
) -> Option<(&'s SealAt, &'s SealAt)> {
    let by_number: BTreeMap<u64, &SealAt> = there.iter().map(|seal| (seal.seq, seal)).collect();
    here.iter().find_map(|seal| {
        let same = by_number.get(&seal.seq)?;
        let fits = same.key == seal.key && one[seal.at] != other[same.at];
        fits.then_some((seal, *same))
    })
}

/// The first seals of one key that cover the line at which the copies part.
fn of_one_key<'s>(
    here: &'s [SealAt],
    there: &'s [SealAt],
    parted: usize,
) -> Option<(&'s SealAt, &'s SealAt)> {
    let covers = |seal: &&SealAt| seal.at > parted;
    let mut by_key: BTreeMap<KeyId, &SealAt> = BTreeMap::new();
    for seal in there.iter().filter(covers) {
        by_key.entry(seal.key).or_insert(seal);
    }
    let mut ours = here.iter().filter(covers);
    ours.find_map(|seal| Some((seal, *by_key.get(&seal.key)?)))
}

/// The leaf of the line `at`, and its inclusion in the tree of `lines`.
fn shown(lines: &[&[u8]], at: usize) -> Result<(Digest, InclusionProof), Error> {
    let leaves: Vec<Digest> = lines.iter().map(|line| leaf_hash(line)).collect();
    let leaf = leaves.get(at).copied();
    let leaf = leaf.ok_or_else(|| Error::invalid("the seal does not cover that line"))?;
    let proof = InclusionProof::of_leaves(&leaves, at as u64);
    let proof = proof.map_err(|error| Error::invalid(error.to_string()))?;
    Ok((leaf, proof))
}

/// The lines that have an end, without it.
fn whole_lines(record: &[u8]) -> Vec<&[u8]> {
    let lines = record.split_inclusive(|byte| *byte == b'\n');
    lines.filter_map(|line| line.strip_suffix(b"\n")).collect()
}

/// The seals from this line on; a line that is no readable seal is ignored.
fn seals_from(lines: &[&[u8]], from: usize) -> Vec<SealAt> {
    let numbered = lines.iter().enumerate().skip(from);
    let seals = numbered.filter_map(|(at, line)| {
        let frame = event::parse_frame(line)?;
        if frame.event_type != "checkpoint" {
            return None;
        }
        let seal = seal_of(line, &frame).ok()?;
        let (seq, key) = (seal.seq, seal.key);
        Some(SealAt { at, seq, key })
    });
    seals.collect()
}
