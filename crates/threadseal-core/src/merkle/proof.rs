//! Proofs about trees: that a leaf is in one, and that one grew out of another.
//!
//! ```text
//! PATH(0, {d})                   = {}                                 RFC 6962 §2.1.1
//! PATH(m, D[0:n]) with m <  k    = PATH(m, D[0:k]) ‖ MTH(D[k:n])
//! PATH(m, D[0:n]) with m >= k    = PATH(m-k, D[k:n]) ‖ MTH(D[0:k])
//!
//! PROOF(m, D[0:n])               = SUBPROOF(m, D[0:n], true)          RFC 6962 §2.1.2
//! SUBPROOF(n, D[0:n], true)      = {}
//! SUBPROOF(n, D[0:n], false)     = { MTH(D[0:n]) }
//! SUBPROOF(m, D[0:n], b), m <= k = SUBPROOF(m, D[0:k], b)       ‖ MTH(D[k:n])
//! SUBPROOF(m, D[0:n], b), m >  k = SUBPROOF(m-k, D[k:n], false) ‖ MTH(D[0:k])
//! ```
//! A prover reads the roots of complete subtrees, a few for each level of the tree, from any
//! storage. A verifier needs only the proof and the roots (RFC 9162 §2.1.3.2 and §2.1.4.2). Every
//! tree grows out of the empty tree, and that proof is empty (C2SP `tlog-witness`).

use super::{TreeHead, node_hash, root};
use crate::digest::Digest;
use crate::limits::MAX_PROOF_HASHES;
use std::fmt;

/// The complete subtree of `2^level` leaves whose first leaf is number `index · 2^level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// 0 for a leaf.
    pub level: u32,
    /// Its number among those of its level.
    pub index: u64,
}

/// Hashes that lead from a leaf to the root of its tree, the leaf's sibling first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InclusionProof(Vec<Digest>);

/// Hashes that lead from the root of a tree to that of a larger one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsistencyProof(Vec<Digest>);

/// Why a proof proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProofError {
    /// The leaf's number is not below the size of the tree.
    NotInTree,
    /// The tree that should have grown is larger than the new one.
    Shrunk,
    /// It has too few or too many hashes for these sizes.
    Length,
    /// It leads to another root.
    OtherRoot,
}

impl fmt::Display for ProofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotInTree => "a tree of this size has no such leaf",
            Self::Shrunk => "the later tree is the smaller one",
            Self::Length => "the proof has too few or too many hashes",
            Self::OtherRoot => "the proof leads to another root",
        })
    }
}

impl std::error::Error for ProofError {}

impl InclusionProof {
    /// Takes hashes as a file or a peer gives them.
    ///
    /// # Errors
    /// [`ProofError::Length`] when there are more than [`MAX_PROOF_HASHES`].
    pub fn from_hashes(hashes: Vec<Digest>) -> Result<Self, ProofError> {
        bounded(hashes).map(Self)
    }

    /// Proves that leaf `index` is in the tree of `size` leaves, whose subtrees `read` returns.
    ///
    /// # Errors
    /// [`ProofError::NotInTree`] by way of `E`; those of `read`.
    pub fn make<E: From<ProofError>>(
        index: u64,
        size: u64,
        read: &mut dyn FnMut(Node) -> Result<Digest, E>,
    ) -> Result<Self, E> {
        if index >= size {
            return Err(ProofError::NotInTree.into());
        }
        let (mut from, mut to, mut beside) = (0, size, Vec::new());
        while to - from > 1 {
            let middle = from + split(to - from);
            if index < middle {
                beside.push((middle, to));
                to = middle;
            } else {
                beside.push((from, middle));
                from = middle;
            }
        }
        roots_between(&beside, read).map(Self)
    }

    /// Its hashes.
    pub fn hashes(&self) -> &[Digest] {
        &self.0
    }

    /// The root of the tree of `size` leaves in which `leaf` has this number.
    ///
    /// # Errors
    /// [`ProofError::NotInTree`], [`ProofError::Length`].
    pub fn root(&self, leaf: &Digest, index: u64, size: u64) -> Result<Digest, ProofError> {
        if index >= size {
            return Err(ProofError::NotInTree);
        }
        let (mut at, mut last, mut root) = (index, size - 1, *leaf);
        for beside in &self.0 {
            if last == 0 {
                return Err(ProofError::Length);
            }
            if at & 1 == 1 || at == last {
                root = node_hash(beside, &root);
                // Where there is no right sibling, the subtree moves up unchanged.
                let up = at.trailing_zeros();
                (at, last) = (at >> up, last >> up);
            } else {
                root = node_hash(&root, beside);
            }
            (at, last) = (at >> 1, last >> 1);
        }
        match last {
            0 => Ok(root),
            _ => Err(ProofError::Length),
        }
    }

    /// Checks that `leaf` has this number in `tree`.
    ///
    /// # Errors
    /// Those of [`InclusionProof::root`], and [`ProofError::OtherRoot`].
    pub fn check(&self, leaf: &Digest, index: u64, tree: &TreeHead) -> Result<(), ProofError> {
        match self.root(leaf, index, tree.size)? == tree.root {
            true => Ok(()),
            false => Err(ProofError::OtherRoot),
        }
    }
}

impl InclusionProof {
    /// Proves that the leaf `index` is in the tree of these leaves. The caller has all of them.
    ///
    /// # Errors
    /// [`ProofError::NotInTree`] when there is no such leaf.
    pub fn of_leaves(leaves: &[Digest], index: u64) -> Result<Self, ProofError> {
        Self::make(index, leaves.len() as u64, &mut |node| {
            let place = |at: u64| usize::try_from(at).map_err(|_| ProofError::NotInTree);
            let (from, width) = (node.index << node.level, 1_u64 << node.level);
            let below = leaves.get(place(from)?..place(from + width)?);
            below.map(root).ok_or(ProofError::NotInTree)
        })
    }
}

impl ConsistencyProof {
    /// Takes hashes as a file or a peer gives them.
    ///
    /// # Errors
    /// [`ProofError::Length`] when there are more than [`MAX_PROOF_HASHES`].
    pub fn from_hashes(hashes: Vec<Digest>) -> Result<Self, ProofError> {
        bounded(hashes).map(Self)
    }

    /// Proves that the tree of `new` leaves begins with the `old` leaves of the other tree. `read`
    /// returns its subtrees.
    ///
    /// # Errors
    /// [`ProofError::Shrunk`] by way of `E`; those of `read`.
    pub fn make<E: From<ProofError>>(
        old: u64,
        new: u64,
        read: &mut dyn FnMut(Node) -> Result<Digest, E>,
    ) -> Result<Self, E> {
        if old > new {
            return Err(ProofError::Shrunk.into());
        }
        if old == 0 || old == new {
            return Ok(Self(Vec::new()));
        }
        let (mut from, mut to, mut parts) = (0, new, Vec::new());
        while to > old {
            let middle = from + split(to - from);
            if old <= middle {
                parts.push((middle, to));
                to = middle;
            } else {
                parts.push((from, middle));
                from = middle;
            }
        }
        // The checker has the root of the old tree already.
        if from > 0 {
            parts.push((from, to));
        }
        roots_between(&parts, read).map(Self)
    }

    /// Its hashes.
    pub fn hashes(&self) -> &[Digest] {
        &self.0
    }

    /// Checks that `new` grew out of `old`.
    ///
    /// # Errors
    /// [`ProofError::Shrunk`], [`ProofError::Length`], [`ProofError::OtherRoot`].
    pub fn check(&self, old: &TreeHead, new: &TreeHead) -> Result<(), ProofError> {
        if old.size > new.size {
            return Err(ProofError::Shrunk);
        }
        let empty = TreeHead::empty();
        if new.size == 0 && *new != empty {
            return Err(ProofError::OtherRoot);
        }
        if old.size == 0 || old.size == new.size {
            let expected = match old.size {
                0 => empty.root,
                _ => new.root,
            };
            return match (self.0.is_empty(), old.root == expected) {
                (false, _) => Err(ProofError::Length),
                (true, false) => Err(ProofError::OtherRoot),
                (true, true) => Ok(()),
            };
        }
        let (then, now) = self.roots(old, new.size)?;
        match then == old.root && now == new.root {
            true => Ok(()),
            false => Err(ProofError::OtherRoot),
        }
    }

    /// The roots of both trees, as the hashes give them; `0 < old.size < new`.
    fn roots(&self, old: &TreeHead, new: u64) -> Result<(Digest, Digest), ProofError> {
        let (mut at, mut last) = (old.size - 1, new - 1);
        let up = at.trailing_ones();
        (at, last) = (at >> up, last >> up);
        // A complete old tree is a subtree of the new one, so the path begins at its root.
        let whole = old.size.is_power_of_two().then_some(old.root);
        let mut path = whole.iter().chain(&self.0);
        let first = path.next().ok_or(ProofError::Length)?;
        let (mut then, mut now) = (*first, *first);
        for beside in path {
            if last == 0 {
                return Err(ProofError::Length);
            }
            if at & 1 == 1 || at == last {
                then = node_hash(beside, &then);
                now = node_hash(beside, &now);
                let up = at.trailing_zeros();
                (at, last) = (at >> up, last >> up);
            } else {
                now = node_hash(&now, beside);
            }
            (at, last) = (at >> 1, last >> 1);
        }
        match last {
            0 => Ok((then, now)),
            _ => Err(ProofError::Length),
        }
    }
}

fn bounded(hashes: Vec<Digest>) -> Result<Vec<Digest>, ProofError> {
    match hashes.len() > MAX_PROOF_HASHES {
        true => Err(ProofError::Length),
        false => Ok(hashes),
    }
}

/// The largest power of two below `leaves`, which are at least 2.
pub(super) fn split(leaves: u64) -> u64 {
    1 << (u64::BITS - 1 - (leaves - 1).leading_zeros())
}

/// The roots over these parts of a tree, in the order of a verifier: the last split comes first.
fn roots_between<E>(
    parts: &[(u64, u64)],
    read: &mut dyn FnMut(Node) -> Result<Digest, E>,
) -> Result<Vec<Digest>, E> {
    let upwards = parts.iter().rev();
    upwards
        .map(|(from, to)| root_between(*from, *to, read))
        .collect()
}

/// The root over leaves `from` to `to`, at least one.
///
/// `from` is a multiple of the largest power of two in their number. Each part of a split tree is
/// such a run.
fn root_between<E>(
    mut from: u64,
    to: u64,
    read: &mut dyn FnMut(Node) -> Result<Digest, E>,
) -> Result<Digest, E> {
    let mut complete = Vec::new();
    while from < to {
        let level = (to - from).ilog2();
        complete.push(read(Node {
            level,
            index: from >> level,
        })?);
        from += 1 << level;
    }
    let mut from_smallest = complete.into_iter().rev();
    let smallest = from_smallest.next().unwrap_or_else(|| Digest::of(b""));
    Ok(from_smallest.fold(smallest, |right, left| node_hash(&left, &right)))
}

#[cfg(test)]
mod tests;
