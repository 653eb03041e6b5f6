//! [`Contents`]: the tree of a log, of its tiles and of what the journal holds beyond them.
//!
//! Nothing here is believed: whoever takes a proof from it checks the proof against a signed checkpoint.

use crate::layout::log_dir::{LogDir, damaged};
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::merkle::{
    self, ConsistencyProof, Frontier, InclusionProof, Node, ProofError, TreeHead,
};
use threadseal_core::tlog::tile::Tile;

/// What is done with an entry and its number.
pub(crate) type EachEntry<'w> = dyn FnMut(u64, &[u8]) -> Result<(), Error> + 'w;

/// The leaves of a log.
#[derive(Debug)]
pub(crate) struct Contents {
    dir: LogDir,
    /// Leaves in the tiles.
    base: u64,
    /// Entries beyond them, and their leaf hashes.
    entries: Vec<Vec<u8>>,
    leaves: Vec<Digest>,
    /// The tile that was read last: the next question is mostly about it.
    last: Mutex<Option<(Tile, Arc<[Digest]>)>>,
}

impl Contents {
    pub(crate) fn new(dir: LogDir, base: u64) -> Self {
        Self {
            dir,
            base,
            entries: Vec::new(),
            leaves: Vec::new(),
            last: Mutex::default(),
        }
    }

    pub(crate) fn push(&mut self, entry: Vec<u8>) {
        self.leaves.push(merkle::leaf_hash(&entry));
        self.entries.push(entry);
    }

    /// Where the tiles are.
    pub(crate) fn dir(&self) -> &LogDir {
        &self.dir
    }

    /// Leaves in the tiles.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Leaves.
    pub(crate) fn size(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// Entries beyond the tiles.
    pub(crate) fn fresh(&self) -> &[Vec<u8>] {
        &self.entries
    }

    /// Forgets all entries from number `size` on.
    pub(crate) fn truncate(&mut self, size: u64) {
        let kept = usize::try_from(size.saturating_sub(self.base)).unwrap_or(usize::MAX);
        self.entries.truncate(kept);
        self.leaves.truncate(kept);
    }

    /// The bytes of an entry.
    pub(crate) fn entry(&self, number: u64) -> Result<Vec<u8>, Error> {
        let there = match number.checked_sub(self.base) {
            Some(beyond) => {
                let beyond = usize::try_from(beyond).ok();
                beyond.and_then(|at| self.entries.get(at).cloned())
            }
            None => {
                let tile = Tile::of_entry(number, self.base);
                let mut entries = match tile {
                    Some(tile) => self.dir.entries(&tile)?,
                    None => Vec::new(),
                };
                let at = usize::try_from(number % 256).unwrap_or(usize::MAX);
                (at < entries.len()).then(|| entries.swap_remove(at))
            }
        };
        there.ok_or_else(|| Error::invalid(format!("the log has no entry {number}")))
    }

    /// The entries of the tiles numbered `from` to `until`, tile by tile.
    pub(crate) fn each_in_tiles(
        &self,
        from: u64,
        until: u64,
        work: &mut EachEntry<'_>,
    ) -> Result<(), Error> {
        let mut at = from;
        while at < self.base.min(until) {
            let Some(tile) = Tile::of_entry(at, self.base) else {
                break;
            };
            let first = tile.index() * 256;
            for (number, entry) in (first..).zip(self.dir.entries(&tile)?) {
                if (at..until).contains(&number) {
                    work(number, &entry)?;
                }
            }
            at = first + tile.width();
        }
        Ok(())
    }

    /// The first `size` entries.
    pub(crate) fn each(&self, size: u64, work: &mut EachEntry<'_>) -> Result<(), Error> {
        self.each_from(0, size, work)
    }

    /// The entries numbered `from` to `until`.
    pub(crate) fn each_from(
        &self,
        from: u64,
        until: u64,
        work: &mut EachEntry<'_>,
    ) -> Result<(), Error> {
        self.each_in_tiles(from, until, work)?;
        let fresh = (self.base..until).zip(&self.entries);
        let mut fresh = fresh.filter(|(number, _)| *number >= from);
        fresh.try_for_each(|(number, entry)| work(number, entry))
    }

    /// The root of a complete subtree.
    pub(crate) fn node(&self, node: Node) -> Result<Digest, Error> {
        let last = (node.index + 1) << node.level;
        if last <= self.base {
            return self.in_tiles(node);
        }
        if node.level == 0 {
            let at = usize::try_from(node.index - self.base).ok();
            let leaf = at.and_then(|at| self.leaves.get(at));
            return leaf.copied().ok_or_else(|| failed(ProofError::NotInTree));
        }
        let child = |index| Node {
            level: node.level - 1,
            index,
        };
        let left = self.node(child(2 * node.index))?;
        let right = self.node(child(2 * node.index + 1))?;
        Ok(merkle::node_hash(&left, &right))
    }

    fn in_tiles(&self, node: Node) -> Result<Digest, Error> {
        let tile = Tile::of_node(node, self.base).ok_or_else(|| failed(ProofError::NotInTree))?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let hashes = match &*last {
            Some((known, hashes)) if *known == tile => Arc::clone(hashes),
            _ => {
                let hashes: Arc<[Digest]> = self.dir.hashes(&tile)?.into();
                *last = Some((tile, Arc::clone(&hashes)));
                hashes
            }
        };
        let root = tile.root(node, &hashes);
        root.ok_or_else(|| damaged(&self.dir.file(&tile.to_string())))
    }

    /// The subtrees of the first `size` leaves.
    pub(crate) fn frontier(&self, size: u64) -> Result<Frontier, Error> {
        Frontier::of_tree(size, &mut |node| self.node(node))
    }

    /// Did `new`, which is the tree of these leaves or of the first of them, grow out of `old`? Proved either way: hashes of tiles are
    /// whoever's who may write there, and need not fit each other.
    ///
    /// # Errors
    /// Kind `External` when a tile cannot be read, or what they hold is not the tree.
    pub(crate) fn continues(&self, old: &TreeHead, new: &TreeHead) -> Result<bool, Error> {
        if old.size > new.size {
            return Ok(false);
        }
        let here = self.frontier(old.size)?.head();
        let proof = self.consistency(old.size, new.size)?;
        let held = proof.check(&here, new);
        held.map_err(|_| damaged(&self.dir.file("tile")))?;
        Ok(here == *old)
    }

    /// Proof that an entry is in the tree of the first `size` leaves.
    pub(crate) fn inclusion(&self, number: u64, size: u64) -> Result<InclusionProof, Error> {
        let made = InclusionProof::make(number, size, &mut |node| {
            self.node(node).map_err(Unmade::Read)
        });
        made.map_err(Unmade::into_error)
    }

    /// Proof that the tree of the first `new` leaves grew out of that of the first `old`.
    pub(crate) fn consistency(&self, old: u64, new: u64) -> Result<ConsistencyProof, Error> {
        let made =
            ConsistencyProof::make(old, new, &mut |node| self.node(node).map_err(Unmade::Read));
        made.map_err(Unmade::into_error)
    }
}

/// Why there is no proof.
enum Unmade {
    Proof(ProofError),
    Read(Error),
}

impl Unmade {
    fn into_error(self) -> Error {
        match self {
            Self::Proof(error) => failed(error),
            Self::Read(error) => error,
        }
    }
}

impl From<ProofError> for Unmade {
    fn from(error: ProofError) -> Self {
        Self::Proof(error)
    }
}

fn failed(error: ProofError) -> Error {
    Error::new(ErrorKind::InvalidInput, error.to_string())
}
