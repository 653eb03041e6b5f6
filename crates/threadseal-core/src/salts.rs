//! Salts for the lines of an observed log, from one secret (`spec/transcript.md` §9).
//!
//! ```text
//! root                    16 random bytes, level 32, number 0
//! children of a secret    SHA-256("threadseal salts" ‖ secret): first half left, second half right
//! salt of line i          the secret of level 0 and number i, counted from 0
//! salted leaf             SHA-256(0x00 ‖ 0x0A ‖ salt ‖ leaf_hash(line))
//! ```
//! Without a secret above it, a salt cannot be computed. So a redaction removes the salts of chosen
//! lines, and keeps those of all others in a few secrets. No line holds 0x0A: a salted leaf is no
//! leaf of a line.

use crate::digest::Digest;
use crate::encoding;
use crate::limits::MAX_SALT_SECRETS;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Level of the root.
pub const ROOT_LEVEL: u8 = 32;
/// Bytes of a secret, and of a salt.
pub const SECRET_BYTES: usize = 16;

const LABEL: &[u8; 16] = b"threadseal salts";

/// A secret of the tree; one of level 0 is the salt of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// The secret with these bytes. Those of a root come from a cryptographic source.
    pub const fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    /// Reads 32 lower-case hex digits and nothing else.
    pub fn parse_hex(text: &str) -> Option<Self> {
        encoding::parse_hex_array(text).map(Self)
    }

    /// 32 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        encoding::hex(&self.0)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// The two secrets below.
    fn children(self) -> [Self; 2] {
        let mut bytes = [0; LABEL.len() + SECRET_BYTES];
        bytes[..LABEL.len()].copy_from_slice(LABEL);
        bytes[LABEL.len()..].copy_from_slice(&self.0);
        let digest = Digest::of(&bytes);
        let (mut left, mut right) = ([0; SECRET_BYTES], [0; SECRET_BYTES]);
        left.copy_from_slice(&digest.as_bytes()[..SECRET_BYTES]);
        right.copy_from_slice(&digest.as_bytes()[SECRET_BYTES..]);
        [Self(left), Self(right)]
    }

    /// The leaf of a line with this salt, whose [`crate::merkle::leaf_hash`] is `plain`.
    pub fn leaf(&self, plain: &Digest) -> Digest {
        let mut bytes = [0; 2 + SECRET_BYTES + 32];
        bytes[1] = b'\n';
        bytes[2..2 + SECRET_BYTES].copy_from_slice(&self.0);
        bytes[2 + SECRET_BYTES..].copy_from_slice(plain.as_bytes());
        Digest::of(&bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A secret and its place in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// 0 for the salt of a line, [`ROOT_LEVEL`] for the root.
    pub level: u8,
    /// How many secrets of the level are before it.
    pub index: u64,
    /// The secret.
    pub secret: Secret,
}

impl Node {
    /// The lines whose salts it gives, from 0.
    fn lines(&self) -> Option<Range<u64>> {
        if self.level > ROOT_LEVEL || self.index >> (ROOT_LEVEL - self.level) != 0 {
            return None;
        }
        let first = self.index << self.level;
        Some(first..first + (1 << self.level))
    }

    /// The two nodes below.
    fn halves(&self) -> [Self; 2] {
        let [left, right] = self.secret.children();
        [(left, 0), (right, 1)].map(|(secret, side)| Self {
            level: self.level - 1,
            index: self.index * 2 + side,
            secret,
        })
    }
}

/// The salts of a record: of all lines, or of those that were not redacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Salts(Arc<[Node]>);

impl Salts {
    /// The salts of all lines.
    pub fn whole(root: Secret) -> Self {
        Self(Arc::from([Node {
            level: ROOT_LEVEL,
            index: 0,
            secret: root,
        }]))
    }

    /// Takes secrets as a file gives them; `None` unless they are in order, in the tree, and none
    /// is below another one.
    pub fn from_nodes(nodes: Vec<Node>) -> Option<Self> {
        if nodes.len() > MAX_SALT_SECRETS {
            return None;
        }
        let mut end = 0;
        for node in &nodes {
            let lines = node.lines().filter(|lines| lines.start >= end)?;
            end = lines.end;
        }
        Some(Self(nodes.into()))
    }

    /// The secrets, by line.
    pub fn nodes(&self) -> &[Node] {
        &self.0
    }

    /// The root, if no salt was removed.
    pub fn root(&self) -> Option<&Secret> {
        match &*self.0 {
            [node] if node.level == ROOT_LEVEL => Some(&node.secret),
            _ => None,
        }
    }

    /// The salt of the line of number `index`, from 0, if it was not removed.
    pub fn salt(&self, index: u64) -> Option<Secret> {
        self.walk(index).next_salt()
    }

    /// The salts in order, from the line of number `index` on.
    pub fn walk(&self, index: u64) -> Walk {
        Walk {
            salts: self.clone(),
            node: 0,
            open: Vec::new(),
            next: index,
        }
    }

    /// The same without the salts of these lines, from 0. `None` if that takes more than
    /// [`MAX_SALT_SECRETS`] secrets.
    pub fn without(&self, lines: &[Range<u64>]) -> Option<Self> {
        let mut kept = Vec::new();
        for node in &*self.0 {
            keep(*node, lines, &mut kept);
        }
        Self::from_nodes(kept)
    }
}

/// Adds the secrets below `node` that give no salt of these lines. At most 33 calls deep.
fn keep(node: Node, lines: &[Range<u64>], kept: &mut Vec<Node>) {
    let Some(own) = node.lines() else {
        return;
    };
    let meets = |other: &&Range<u64>| other.start < own.end && own.start < other.end;
    let met: Vec<Range<u64>> = lines.iter().filter(meets).cloned().collect();
    if met.is_empty() {
        kept.push(node);
    } else if !met
        .iter()
        .any(|other| other.start <= own.start && own.end <= other.end)
    {
        node.halves()
            .into_iter()
            .for_each(|half| keep(half, &met, kept));
    }
}

/// The salts of consecutive lines: about one digest each.
#[derive(Debug, Clone)]
pub struct Walk {
    salts: Salts,
    /// The secret of the file that is looked at.
    node: usize,
    /// Level and secret of the parts that come next, the nearest last.
    open: Vec<(u8, Secret)>,
    next: u64,
}

impl Walk {
    /// The salt of the next line; `None` if it was removed.
    pub fn next_salt(&mut self) -> Option<Secret> {
        let index = self.next;
        self.next += 1;
        let (mut level, mut secret) = match self.open.pop() {
            Some(part) => part,
            None => return self.enter(index),
        };
        while level > 0 {
            let [left, right] = secret.children();
            level -= 1;
            self.open.push((level, right));
            secret = left;
        }
        Some(secret)
    }

    /// Goes down to the line `index` from the secret above it.
    fn enter(&mut self, index: u64) -> Option<Secret> {
        let lines = loop {
            let lines = self.salts.0.get(self.node)?.lines()?;
            if index < lines.end {
                break lines;
            }
            self.node += 1;
        };
        if index < lines.start {
            return None;
        }
        let node = self.salts.0.get(self.node)?;
        let mut secret = node.secret;
        for level in (0..node.level).rev() {
            let [left, right] = secret.children();
            secret = match index >> level & 1 {
                0 => {
                    self.open.push((level, right));
                    left
                }
                _ => right,
            };
        }
        Some(secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::work::hashed_by;
    use crate::merkle::leaf_hash;
    use proptest::prelude::*;

    const ROOT: Secret = Secret::from_bytes([7; 16]);

    /// The definition, word for word.
    fn defined(index: u64) -> Secret {
        (0..32).rev().fold(ROOT, |secret, level| {
            secret.children()[usize::try_from(index >> level & 1).unwrap()]
        })
    }

    #[test]
    fn a_walk_gives_the_salts_of_the_definition_from_every_line_on() {
        let salts = Salts::whole(ROOT);
        for from in [0, 1, 5, 255, 256, (1 << 32) - 3] {
            let mut walk = salts.walk(from);
            for index in from..from + 40 {
                let expected = (index < 1 << 32).then(|| defined(index));
                assert_eq!(walk.next_salt(), expected, "{index}");
            }
        }
    }

    #[test]
    fn a_walk_costs_about_one_digest_a_line() {
        let mut walk = Salts::whole(ROOT).walk(0);
        let block = 32 + 64;
        let hashed = hashed_by(|| (0..1000).for_each(|_| assert!(walk.next_salt().is_some())));
        assert!(hashed < 1040 * block, "{hashed}");
    }

    // T-OBS-40
    #[test]
    fn a_salted_leaf_is_no_leaf_of_any_line() {
        let salted = ROOT.leaf(&leaf_hash(b"{}"));
        let content = [b"\n".as_slice(), &[7; 16], leaf_hash(b"{}").as_bytes()].concat();
        assert_eq!(salted, leaf_hash(&content));
        assert!(content.contains(&b'\n'), "no line holds one");
        assert_ne!(salted, Secret::from_bytes([8; 16]).leaf(&leaf_hash(b"{}")));
        assert_ne!(salted, ROOT.leaf(&leaf_hash(b"[]")));
    }

    proptest! {
        // T-OBS-41
        #[test]
        fn salts_without_lines_give_all_others_and_none_of_these(
            gone in prop::collection::vec((0_u64..60, 1_u64..9), 1..5),
        ) {
            let ranges: Vec<Range<u64>> = gone.iter().map(|(from, count)| *from..from + count).collect();
            let salts = Salts::whole(ROOT).without(&ranges).unwrap();
            let mut walk = salts.walk(0);
            for index in 0..80 {
                let is_gone = ranges.iter().any(|range| range.contains(&index));
                let expected = (!is_gone).then(|| defined(index));
                prop_assert_eq!(walk.next_salt(), expected);
                prop_assert_eq!(salts.salt(index), expected);
            }
            prop_assert!(salts.root().is_none());
            prop_assert_eq!(salts.salt(1 << 31), Some(defined(1 << 31)));
            // No secret that is left is above a removed line.
            for node in salts.nodes() {
                let lines = node.lines().unwrap();
                prop_assert!(!ranges.iter().any(|range| range.start < lines.end && lines.start < range.end));
            }
            let again = Salts::from_nodes(salts.nodes().to_vec());
            prop_assert_eq!(again, Some(salts));
        }
    }

    #[test]
    fn secrets_out_of_order_or_out_of_the_tree_are_refused() {
        let node = |level, index| Node {
            level,
            index,
            secret: ROOT,
        };
        for bad in [
            vec![node(33, 0)],
            vec![node(32, 1)],
            vec![node(0, 1 << 32)],
            vec![node(1, 1), node(1, 0)],
            vec![node(1, 0), node(0, 1)],
            vec![node(1, 0), node(1, 0)],
            vec![node(0, 0); MAX_SALT_SECRETS + 1],
        ] {
            assert_eq!(Salts::from_nodes(bad), None);
        }
        assert!(Salts::from_nodes(vec![]).is_some(), "all lines redacted");
        assert!(Salts::from_nodes(vec![node(1, 0), node(0, 2)]).is_some());
    }
}
