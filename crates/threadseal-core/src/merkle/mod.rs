//! RFC 6962 Merkle trees over SHA-256: the root of a growing list, and proofs from it.
//!
//! ```text
//! MTH({})            = SHA-256("")                                          RFC 6962 §2.1
//! MTH({d})           = SHA-256(0x00 ‖ d)                                    leaf
//! MTH(D[0:n]), n > 1 = SHA-256(0x01 ‖ MTH(D[0:k]) ‖ MTH(D[k:n]))            node
//!                      k = the largest power of two below n
//! ```
//! A [`Frontier`] holds the roots of the complete subtrees of the list, largest first. There is one
//! for each set bit of the size. The frontier of a record is never stored: a writer that continues
//! the record computes it again from the bytes. The frontier of a log is read from the tiles, and
//! compared with the log's root.

mod proof;
mod range;

pub use proof::{ConsistencyProof, InclusionProof, Node, ProofError};
pub use range::RangeProof;

use crate::digest::{Digest, Hasher};

const LEAF: u8 = 0;
const NODE: u8 = 1;

/// The hash of a leaf with this content.
pub fn leaf_hash(content: &[u8]) -> Digest {
    let mut hasher = leaf_hasher();
    hasher.update(content);
    hasher.finish()
}

/// A hasher that yields the [`leaf_hash`] of its input.
pub fn leaf_hasher() -> Hasher {
    let mut hasher = Hasher::new();
    hasher.update(&[LEAF]);
    hasher
}

/// The hash of an inner node.
pub fn node_hash(left: &Digest, right: &Digest) -> Digest {
    let mut bytes = [NODE; 65];
    bytes[1..33].copy_from_slice(left.as_bytes());
    bytes[33..].copy_from_slice(right.as_bytes());
    Digest::of(&bytes)
}

/// The root over these leaf hashes.
pub fn root(leaves: &[Digest]) -> Digest {
    let mut frontier = Frontier::new();
    for leaf in leaves {
        frontier.push_leaf(*leaf);
    }
    frontier.root()
}

/// The commitment to a tree: how many leaves, and their root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeHead {
    /// The number of leaves.
    pub size: u64,
    /// The root over them.
    pub root: Digest,
}

impl TreeHead {
    /// The tree without leaves.
    pub fn empty() -> Self {
        Frontier::new().head()
    }
}

/// A tree that only grows: O(1) amortised per leaf, O(log n) per root, at most 64 digests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    /// Roots of complete subtrees, largest first; `size.count_ones()` of them.
    complete: Vec<Digest>,
}

impl Frontier {
    /// The empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// The frontier of a tree of `size` leaves, from the subtrees that `read` returns.
    ///
    /// Only [`Frontier::root`] shows whether the subtrees belong to that tree.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn of_tree<E>(
        size: u64,
        read: &mut dyn FnMut(Node) -> Result<Digest, E>,
    ) -> Result<Self, E> {
        let levels = (0..u64::BITS).rev().filter(|level| size >> level & 1 == 1);
        let complete = levels.map(|level| {
            let index = (size >> level) - 1;
            read(Node { level, index })
        });
        let complete = complete.collect::<Result<_, E>>()?;
        Ok(Self { size, complete })
    }

    /// Appends a leaf by its [`leaf_hash`].
    pub fn push_leaf(&mut self, leaf: Digest) {
        let mut subtree = leaf;
        // Each trailing one of the size is a complete subtree. This leaf joins it to a larger one,
        // as a carry does in binary addition.
        for _ in 0..self.size.trailing_ones() {
            if let Some(left) = self.complete.pop() {
                subtree = node_hash(&left, &subtree);
            }
        }
        self.complete.push(subtree);
        self.size += 1;
    }

    /// The number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Size and root.
    pub fn head(&self) -> TreeHead {
        TreeHead {
            size: self.size,
            root: self.root(),
        }
    }

    /// The root over all leaves so far.
    pub fn root(&self) -> Digest {
        let mut from_smallest = self.complete.iter().rev().copied();
        match from_smallest.next() {
            None => Digest::of(b""),
            Some(smallest) => from_smallest.fold(smallest, |right, left| node_hash(&left, &right)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::parse_hex_array;
    use proptest::prelude::*;

    /// RFC 6962's definition, word for word.
    fn defined_root(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Digest::of(b""),
            [leaf] => *leaf,
            _ => {
                let k = leaves.len().next_power_of_two() / 2;
                node_hash(&defined_root(&leaves[..k]), &defined_root(&leaves[k..]))
            }
        }
    }

    /// The leaves of the reference tree of Certificate Transparency's own tests, and its roots for
    /// 0 to 8 leaves.
    #[test]
    fn the_roots_of_the_certificate_transparency_reference_tree_come_out() {
        let leaves = [
            vec![],
            vec![0x00],
            vec![0x10],
            vec![0x20, 0x21],
            vec![0x30, 0x31],
            vec![0x40, 0x41, 0x42, 0x43],
            (0x50..=0x57).collect(),
            (0x60..=0x6f).collect(),
        ];
        let roots = [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        let mut frontier = Frontier::new();
        for (size, expected) in roots.iter().enumerate() {
            let expected = Digest::from_bytes(parse_hex_array(expected).unwrap());
            assert_eq!(frontier.root(), expected, "{size} leaves");
            assert_eq!(frontier.size(), size as u64);
            if let Some(leaf) = leaves.get(size) {
                frontier.push_leaf(leaf_hash(leaf));
            }
        }
    }

    #[test]
    fn the_frontier_agrees_with_the_definition_at_every_size_to_300() {
        let leaves: Vec<Digest> = (0..300u32).map(|i| leaf_hash(&i.to_be_bytes())).collect();
        let mut frontier = Frontier::new();
        for size in 0..=leaves.len() {
            assert_eq!(
                frontier.root(),
                defined_root(&leaves[..size]),
                "{size} leaves"
            );
            assert_eq!(frontier.complete.len(), size.count_ones() as usize);
            if let Some(leaf) = leaves.get(size) {
                frontier.push_leaf(*leaf);
            }
        }
    }

    #[test]
    fn a_frontier_is_read_back_from_the_subtrees_of_its_tree() {
        let leaves: Vec<Digest> = (0..300u32).map(|i| leaf_hash(&i.to_be_bytes())).collect();
        let mut frontier = Frontier::new();
        for size in 0..=leaves.len() {
            let mut read = |node: Node| {
                let width = 1_usize << node.level;
                let first = usize::try_from(node.index).unwrap() * width;
                Ok::<_, ()>(root(&leaves[first..first + width]))
            };
            assert_eq!(Frontier::of_tree(size as u64, &mut read).unwrap(), frontier);
            if let Some(leaf) = leaves.get(size) {
                frontier.push_leaf(*leaf);
            }
        }
    }

    proptest! {
        #[test]
        fn any_leaves_in_any_pieces_give_the_defined_root(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..301),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut leaves = Vec::new();
            for content in &contents {
                let (head, tail) = content.split_at(cut.index(content.len() + 1));
                let mut hasher = leaf_hasher();
                hasher.update(head);
                hasher.update(tail);
                leaves.push(hasher.finish());
                prop_assert_eq!(leaves[leaves.len() - 1], leaf_hash(content));
            }
            prop_assert_eq!(root(&leaves), defined_root(&leaves));
        }
    }

    // T-KEY-11
    #[test]
    fn a_leaf_is_never_a_node() {
        let (left, right) = (leaf_hash(b"l"), leaf_hash(b"r"));
        let children = [left.as_bytes().as_slice(), right.as_bytes()].concat();
        assert_ne!(leaf_hash(&children), node_hash(&left, &right));
    }
}
