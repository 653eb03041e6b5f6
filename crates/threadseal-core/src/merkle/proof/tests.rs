//! Proofs at every small size, against the definition; and everything that is refused.
#![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]

use super::super::{leaf_hash, root};
use super::*;
use proptest::prelude::*;

/// The tests cover all trees up to this size.
const SIZES: u64 = 68;

fn leaves(count: u64) -> Vec<Digest> {
    (0..count)
        .map(|number| leaf_hash(&number.to_be_bytes()))
        .collect()
}

fn head(leaves: &[Digest]) -> TreeHead {
    TreeHead {
        size: leaves.len() as u64,
        root: root(leaves),
    }
}

/// Reads the subtrees of these leaves, and only complete ones.
fn reader(leaves: &[Digest]) -> impl FnMut(Node) -> Result<Digest, ProofError> {
    |node| {
        let (from, to) = (node.index << node.level, (node.index + 1) << node.level);
        let part = leaves.get(from as usize..to as usize);
        part.map(root).ok_or(ProofError::NotInTree)
    }
}

/// RFC 6962 §2.1.1, word for word.
fn path(m: usize, d: &[Digest]) -> Vec<Digest> {
    if d.len() == 1 {
        return Vec::new();
    }
    let k = d.len().next_power_of_two() / 2;
    let (mut proof, beside) = if m < k {
        (path(m, &d[..k]), root(&d[k..]))
    } else {
        (path(m - k, &d[k..]), root(&d[..k]))
    };
    proof.push(beside);
    proof
}

/// RFC 6962 §2.1.2, word for word.
fn subproof(m: usize, d: &[Digest], whole: bool) -> Vec<Digest> {
    if m == d.len() {
        return if whole { Vec::new() } else { vec![root(d)] };
    }
    let k = d.len().next_power_of_two() / 2;
    let (mut proof, beside) = if m <= k {
        (subproof(m, &d[..k], whole), root(&d[k..]))
    } else {
        (subproof(m - k, &d[k..], false), root(&d[..k]))
    };
    proof.push(beside);
    proof
}

#[test]
fn every_leaf_of_every_small_tree_is_proved_by_the_hashes_of_the_definition() {
    for size in 1..=SIZES {
        let leaves = leaves(size);
        let tree = head(&leaves);
        for index in 0..size {
            let proof = InclusionProof::make(index, size, &mut reader(&leaves)).unwrap();
            let path = path(index as usize, &leaves);
            assert_eq!(proof.hashes(), path, "{index} of {size}");
            let checked = proof.check(&leaves[index as usize], index, &tree);
            assert_eq!(checked, Ok(()), "{index} of {size}");
        }
    }
}

#[test]
fn a_leaf_is_proved_nowhere_else() {
    for size in 1..=20 {
        let leaves = leaves(size);
        for index in 0..size {
            let proof = InclusionProof::make(index, size, &mut reader(&leaves)).unwrap();
            for (other, leaf) in (0..).zip(&leaves) {
                for size_said in 0..=SIZES {
                    let tree = TreeHead {
                        size: size_said,
                        ..head(&leaves)
                    };
                    let at = (index, size, other, size_said);
                    let right = (other, size_said) == (index, size);
                    let itself = proof.check(leaf, other, &tree).is_ok();
                    assert_eq!(itself && size_said == size, right, "{at:?}");
                    // A wrong size can at best claim this very leaf under the same root.
                    assert!(!itself || other == index, "{at:?}");
                }
            }
        }
    }
}

#[test]
fn every_small_tree_grows_out_of_every_smaller_one_by_the_hashes_of_the_definition() {
    for new in 0..=SIZES {
        let leaves = leaves(new);
        let tree = head(&leaves);
        for old in 0..=new {
            let before = head(&leaves[..old as usize]);
            let proof = ConsistencyProof::make(old, new, &mut reader(&leaves)).unwrap();
            let at = (old, new);
            if old > 0 {
                let defined = subproof(old as usize, &leaves, true);
                assert_eq!(proof.hashes(), defined, "{at:?}");
            }
            assert_eq!(proof.check(&before, &tree), Ok(()), "{at:?}");
            let with = |tree: TreeHead| TreeHead {
                root: leaf_hash(b"other"),
                ..tree
            };
            assert!(proof.check(&with(before), &tree).is_err(), "{at:?}");
            let grown = proof.check(&before, &with(tree)).is_ok();
            assert_eq!(grown, old == 0 && new > 0, "{at:?}");
            let wrong = TreeHead {
                size: old + 1,
                ..before
            };
            assert!(proof.check(&wrong, &tree).is_err(), "{at:?}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let leaves = leaves(5);
    let mut read = reader(&leaves);
    let made = InclusionProof::make(5, 5, &mut read);
    assert_eq!(made, Err(ProofError::NotInTree));
    let made = ConsistencyProof::make(5, 4, &mut read);
    assert_eq!(made, Err(ProofError::Shrunk));
    let many = || vec![leaf_hash(b""); MAX_PROOF_HASHES + 1];
    let long = InclusionProof::from_hashes(many());
    assert_eq!(long, Err(ProofError::Length));
    let long = ConsistencyProof::from_hashes(many());
    assert_eq!(long, Err(ProofError::Length));
    let proof = InclusionProof::make(2, 5, &mut read).unwrap();
    for hashes in [
        &proof.hashes()[1..],
        &[proof.hashes(), &[leaves[0]]].concat(),
    ] {
        let proof = InclusionProof::from_hashes(hashes.to_vec()).unwrap();
        assert!(proof.check(&leaves[2], 2, &head(&leaves)).is_err());
    }
    let huge = InclusionProof::from_hashes(vec![leaves[0]; MAX_PROOF_HASHES]).unwrap();
    assert!(huge.root(&leaves[0], 0, u64::MAX).is_err());
}

proptest! {
    #[test]
    fn a_changed_hash_proves_nothing(
        size in 2u64..3000,
        index in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        flip in any::<(prop::sample::Index, u8)>(),
    ) {
        let leaves = leaves(size);
        let tree = head(&leaves);
        let index = index.index(size as usize);
        let change = |hashes: &[Digest]| {
            let mut hashes = hashes.to_vec();
            let at = place.index(hashes.len());
            let hash = &mut hashes[at];
            let mut bytes = *hash.as_bytes();
            bytes[flip.0.index(32)] ^= flip.1 | 1;
            *hash = Digest::from_bytes(bytes);
            hashes
        };
        let leaf = leaves[index];
        let proof = InclusionProof::make(index as u64, size, &mut reader(&leaves)).unwrap();
        let changed = InclusionProof::from_hashes(change(proof.hashes())).unwrap();
        prop_assert_eq!(proof.check(&leaf, index as u64, &tree), Ok(()));
        prop_assert_eq!(changed.check(&leaf, index as u64, &tree), Err(ProofError::OtherRoot));
        // A smaller tree whose proof is not empty.
        let old = head(&leaves[..index.max(1)]);
        let proof = ConsistencyProof::make(old.size, size, &mut reader(&leaves)).unwrap();
        let changed = ConsistencyProof::from_hashes(change(proof.hashes())).unwrap();
        prop_assert_eq!(proof.check(&old, &tree), Ok(()));
        prop_assert_eq!(changed.check(&old, &tree), Err(ProofError::OtherRoot));
    }

    #[test]
    fn no_numbers_make_a_check_panic_or_go_on_for_long(
        hashes in 0..=MAX_PROOF_HASHES,
        a in any::<u64>(),
        b in any::<u64>(),
    ) {
        let hash = leaf_hash(b"");
        let hashes = vec![hash; hashes];
        let _ = InclusionProof::from_hashes(hashes.clone()).unwrap().root(&hash, a, b);
        let (old, new) = (TreeHead { size: a, root: hash }, TreeHead { size: b, root: hash });
        let _ = ConsistencyProof::from_hashes(hashes).unwrap().check(&old, &new);
        let mut read = |_: Node| Ok::<_, ProofError>(hash);
        let _ = InclusionProof::make(a, b, &mut read);
        let _ = ConsistencyProof::make(a, b, &mut read);
    }
}
