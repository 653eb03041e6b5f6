//! Proofs about runs of leaves: that consecutive leaves are in a tree from a given place on.
//!
//! ```text
//! RANGE(a, b, D[x:y]) with y <= a or b <= x     = { MTH(D[x:y]) }        hidden
//! RANGE(a, b, D[x:y]) with y - x = 1            = {}                     shown
//! RANGE(a, b, D[x:y])                           = RANGE(a, b, D[x:x+k]) ‖ RANGE(a, b, D[x+k:y])
//! ```
//! `k` is the largest power of two below `y - x`, as in RFC 6962 §2.1. For a single leaf these are
//! the hashes of its inclusion proof in another order. A run needs as few hashes, and no proof for
//! each leaf.

use super::proof::split;
use super::{ProofError, node_hash, root};
use crate::digest::Digest;
use crate::limits::MAX_RANGE_PROOF_HASHES;

/// Hashes of the leaves before and after a run, from left to right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeProof(Vec<Digest>);

impl RangeProof {
    /// Takes hashes as a file or a peer gives them.
    ///
    /// # Errors
    /// [`ProofError::Length`] when there are more than [`MAX_RANGE_PROOF_HASHES`].
    pub fn from_hashes(hashes: Vec<Digest>) -> Result<Self, ProofError> {
        match hashes.len() > MAX_RANGE_PROOF_HASHES {
            true => Err(ProofError::Length),
            false => Ok(Self(hashes)),
        }
    }

    /// Proves that the leaves `from` to `to`, without `to`, are in the tree over all of `leaves`.
    ///
    /// # Errors
    /// [`ProofError::NotInTree`] when there are no such leaves, or none are asked for.
    pub fn make(leaves: &[Digest], from: usize, to: usize) -> Result<Self, ProofError> {
        if from >= to || to > leaves.len() {
            return Err(ProofError::NotInTree);
        }
        let mut hashes = Vec::new();
        let mut rest = vec![(0, leaves.len())];
        while let Some((begin, end)) = rest.pop() {
            if end <= from || to <= begin {
                hashes.push(root(&leaves[begin..end]));
            } else if end - begin > 1 {
                let middle = begin + (end - begin).next_power_of_two() / 2;
                rest.push((middle, end));
                rest.push((begin, middle));
            }
        }
        Ok(Self(hashes))
    }

    /// Its hashes.
    pub fn hashes(&self) -> &[Digest] {
        &self.0
    }

    /// The root of the tree of `size` leaves in which `leaves` start at number `from`.
    ///
    /// # Errors
    /// [`ProofError::NotInTree`] when they do not fit or are none, [`ProofError::Length`].
    pub fn root(&self, leaves: &[Digest], from: u64, size: u64) -> Result<Digest, ProofError> {
        let to = from.checked_add(leaves.len() as u64);
        let to = to.filter(|to| !leaves.is_empty() && *to <= size);
        let mut fold = Fold {
            from,
            to: to.ok_or(ProofError::NotInTree)?,
            shown: leaves.iter(),
            hidden: self.0.iter(),
        };
        let root = fold.over(0, size).ok_or(ProofError::Length)?;
        match fold.hidden.next() {
            None => Ok(root),
            Some(_) => Err(ProofError::Length),
        }
    }
}

/// A walk through the tree from left to right.
struct Fold<'a> {
    from: u64,
    to: u64,
    shown: std::slice::Iter<'a, Digest>,
    hidden: std::slice::Iter<'a, Digest>,
}

impl Fold<'_> {
    /// The root over the leaves `begin` to `end`.
    ///
    /// At most 64 calls deep, because each call halves a tree below 2^64.
    fn over(&mut self, begin: u64, end: u64) -> Option<Digest> {
        if end <= self.from || self.to <= begin {
            return self.hidden.next().copied();
        }
        if end - begin == 1 {
            return self.shown.next().copied();
        }
        let middle = begin + split(end - begin);
        let left = self.over(begin, middle)?;
        let right = self.over(middle, end)?;
        Some(node_hash(&left, &right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merkle::{InclusionProof, leaf_hash};

    fn leaves(count: u32) -> Vec<Digest> {
        (0..count).map(|i| leaf_hash(&i.to_be_bytes())).collect()
    }

    #[test]
    fn every_run_of_every_tree_to_33_leaves_is_proved_and_at_no_other_place() {
        for size in 1..=33 {
            let all = leaves(size);
            let (size, whole) = (u64::from(size), root(&all));
            for from in 0..all.len() {
                for to in from + 1..=all.len() {
                    let proof = RangeProof::make(&all, from, to).unwrap();
                    let shown = &all[from..to];
                    assert_eq!(proof.root(shown, from as u64, size), Ok(whole));
                    for other in 0..size + 2 {
                        let believed = proof.root(shown, other, size) == Ok(whole);
                        assert_eq!(believed, other == from as u64, "{from}..{to} of {size}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_run_of_one_has_the_hashes_of_its_inclusion_proof() {
        let all = leaves(21);
        for (number, _) in all.iter().enumerate() {
            let range = RangeProof::make(&all, number, number + 1).unwrap();
            let single = InclusionProof::make::<ProofError>(number as u64, 21, &mut |node| {
                let from = usize::try_from(node.index << node.level).unwrap();
                Ok(root(&all[from..from + (1 << node.level)]))
            });
            let sorted = |hashes: &[Digest]| {
                let mut hashes = hashes.to_vec();
                hashes.sort();
                hashes
            };
            assert_eq!(sorted(range.hashes()), sorted(single.unwrap().hashes()));
        }
    }

    #[test]
    fn leaves_or_hashes_too_many_or_too_few_prove_nothing() {
        let all = leaves(13);
        let proof = RangeProof::make(&all, 4, 9).unwrap();
        let hashes = proof.hashes().to_vec();
        assert_eq!(proof.root(&[], 4, 13), Err(ProofError::NotInTree));
        assert_eq!(proof.root(&all, 4, 13), Err(ProofError::NotInTree));
        assert_eq!(
            proof.root(&all[4..9], u64::MAX, 13),
            Err(ProofError::NotInTree)
        );
        assert_ne!(proof.root(&all[4..8], 4, 13), Ok(root(&all)));
        let short = RangeProof::from_hashes(hashes[1..].to_vec()).unwrap();
        assert_eq!(short.root(&all[4..9], 4, 13), Err(ProofError::Length));
        let long = [&hashes[..], &hashes[..1]].concat();
        let long = RangeProof::from_hashes(long).unwrap();
        assert_eq!(long.root(&all[4..9], 4, 13), Err(ProofError::Length));
        let huge = vec![all[0]; MAX_RANGE_PROOF_HASHES + 1];
        assert_eq!(RangeProof::from_hashes(huge), Err(ProofError::Length));
        assert_eq!(RangeProof::make(&all, 4, 4), Err(ProofError::NotInTree));
        assert_eq!(RangeProof::make(&all, 4, 14), Err(ProofError::NotInTree));
        assert!(proof.root(&all[..1], 0, u64::MAX).is_err());
    }
}
