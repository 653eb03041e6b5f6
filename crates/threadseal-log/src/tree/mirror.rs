//! A log in object storage, for readers who cannot reach its host (`spec/host-log.md`, "Mirrors").
//!
//! ```text
//! <place>/tile/…        C2SP tlog-tiles, each made once
//!         checkpoint    replaced if no other process replaced it meanwhile
//! ```
//! Tiles are stored before the checkpoint that covers them: whatever fails, a reader finds every tile that it needs. The
//! checkpoint there never goes back, and is of one log: so a mirror also remembers how far the log was.
//!
//! Objects get lost. So each update compares some tiles with those of the log, or all of them, and repairs them.

use crate::layout::description::Description;
use crate::layout::log_dir::{LogDir, damaged};
use crate::tree::checked::Checked;
use crate::tree::view::LogView;
use std::collections::BTreeMap;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::{MAX_LOG_ENTRY_BYTES, MAX_NOTE_BYTES};
use threadseal_core::merkle::{self, Frontier, InclusionProof, Node, TreeHead};
use threadseal_core::note::SignedNote;
use threadseal_core::tlog::conflict::{Conflict, ShownEntry};
use threadseal_core::tlog::tile::{TILE_WIDTH, Tile, TileKind, read_entries, write_hashes};
use threadseal_store::objects::{self, Object, Objects, Put};
use threadseal_store::random::{self, Random};

const CHECKPOINT: &str = "checkpoint";
/// Tiles beside the right edge that an update compares with those of the log.
const SAMPLES: usize = 8;
/// How often the checkpoint is tried again when another process brings up the same mirror.
const MAX_TRIES: usize = 8;
const MAX_TILE_BYTES: usize = 256 * (MAX_LOG_ENTRY_BYTES + 2);

/// What became of a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mirrored {
    /// It has as many entries as the log.
    Brought {
        /// How many it had.
        from: u64,
        /// How many it has.
        to: u64,
        /// Tiles that were lost or changed there, and were written again.
        repaired: u64,
    },
    /// It has a tree that this log signed and does not continue: the log was rolled back, or was forked. Nothing was written.
    Contradicts(TreeHead),
    /// A tile there is not that of the log and could not be written again, for this reason.
    Unrepaired(String),
}

/// Which tiles of a mirror an update compares with those of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// Those at the right edge of the tree, and a few others at random.
    Some,
    /// Every tile.
    All,
}

/// Reads the log as it is at the call.
type ReadView<'v> = dyn Fn() -> Result<Arc<LogView>, Error> + 'v;

/// A mirror of one log.
pub(crate) struct Mirror<'m> {
    pub(crate) objects: &'m dyn Objects,
    pub(crate) description: &'m Description,
}

/// How an update compares, and what it needs for it.
pub(crate) struct Comparison<'c> {
    pub(crate) compared: Compared,
    pub(crate) random: &'c dyn Random,
    /// Checks the log itself as a whole, before it replaces anything.
    pub(crate) fsck: &'c dyn Fn() -> Result<Checked, Error>,
}

impl Mirror<'_> {
    /// Brings the mirror up to the log in `dir`, whose tiles are written up to its checkpoint.
    ///
    /// # Errors
    /// Kind `Refused` when another log is there; `External` when the storage or a file fails: then the mirror is as it
    /// was, with more tiles at most.
    pub(crate) fn update(
        &self,
        dir: &LogDir,
        view: &ReadView<'_>,
        comparison: &Comparison<'_>,
    ) -> Result<Mirrored, Error> {
        let to = self.objects;
        let mut compared = None;
        for _ in 0..MAX_TRIES {
            let note = dir.read(&dir.checkpoint(), MAX_NOTE_BYTES)?;
            let (note, tree) = note
                .and_then(|bytes| read_checkpoint(&bytes, self.description))
                .ok_or_else(|| damaged(&dir.checkpoint()))?;
            let there = to.read(CHECKPOINT, MAX_NOTE_BYTES)?;
            let known = there.as_ref().map(|there| self.tree_of(there));
            let known = known.transpose()?.unwrap_or_else(TreeHead::empty);
            if !view()?.continues(&known)? {
                return Ok(Mirrored::Contradicts(known));
            }
            let repairs = match &mut compared {
                Some(repairs) => repairs,
                None => {
                    let mut repairs = Repairs::new(self.objects, comparison);
                    for tile in chosen(known.size, comparison)? {
                        repairs.compare(&tile.to_string(), &bytes_of(dir, &tile)?)?;
                    }
                    compared.insert(repairs)
                }
            };
            if let Some(why) = repairs.failed.take() {
                return Ok(Mirrored::Unrepaired(why));
            }
            let repaired = repairs.done;
            if there.is_some() && known.size >= tree.size {
                let (from, to) = (known.size, known.size);
                return Ok(Mirrored::Brought { from, to, repaired });
            }
            for tile in Tile::grown(known.size, tree.size) {
                repairs.put(&tile.to_string(), &bytes_of(dir, &tile)?)?;
            }
            if let Some(why) = repairs.failed.take() {
                return Ok(Mirrored::Unrepaired(why));
            }
            let repaired = repairs.done;
            let bytes = note.to_string().into_bytes();
            let put = match &there {
                None => to.create(CHECKPOINT, &bytes)?,
                Some(there) => to.replace_if(CHECKPOINT, &there.version, &bytes)?,
            };
            if let Put::Stored(_) = put {
                let (from, to) = (known.size, tree.size);
                return Ok(Mirrored::Brought { from, to, repaired });
            }
        }
        let text = format!("{}: other processes keep changing it", to.place());
        Err(Error::new(ErrorKind::External, text))
    }

    /// Reads all of the mirror and computes every hash again; the log itself is only asked whether it continues it.
    ///
    /// # Errors
    /// Kind `Refused` when there is no mirror of this log, `External` when it cannot be read.
    pub(crate) fn check(&self, view: &ReadView<'_>) -> Result<Checked, Error> {
        let tree = self.tree_of(&self.checkpoint()?)?;
        let mut checked = read_mirror(self.objects, &tree)?;
        if !view()?.continues(&tree)? {
            checked.fault("log_rolled_back: this log does not continue it");
        }
        Ok(checked)
    }

    /// What the mirror and the log prove together against the log's key, to anybody: that it signed two histories. None if the
    /// log continues the mirror, or is only shorter.
    ///
    /// # Errors
    /// As [`Mirror::check`].
    pub(crate) fn conflict(&self, view: &ReadView<'_>) -> Result<Option<Conflict>, Error> {
        let there = self.checkpoint()?;
        let read = read_checkpoint(&there.bytes, self.description);
        let (note, tree) = read.ok_or_else(|| self.not_ours())?;
        let view = view()?;
        if view.continues(&tree)? {
            return Ok(None);
        }
        let key = self.description.verifier()?;
        let ours = view.checkpoint().clone();
        if tree.size == view.tree().size {
            return Ok(Conflict::find(key, ours, note).ok());
        }
        let leaves = leaves_of(self.objects, &tree)?;
        for (entry, leaf) in (0..view.tree().size).zip(&leaves) {
            let here = view.contents().node(Node {
                level: 0,
                index: entry,
            })?;
            if here == *leaf {
                continue;
            }
            let shown = ShownEntry {
                leaf: here,
                proof: view.contents().inclusion(entry, view.tree().size)?,
            };
            let there = ShownEntry {
                leaf: *leaf,
                proof: InclusionProof::of_leaves(&leaves, entry).map_err(|_| self.not_ours())?,
            };
            let found = Conflict::find_parted(key, entry, (ours, shown), (note, there));
            return Ok(found.ok());
        }
        Ok(None)
    }

    fn checkpoint(&self) -> Result<Object, Error> {
        let there = self.objects.read(CHECKPOINT, MAX_NOTE_BYTES)?;
        there.ok_or_else(|| objects::damaged(self.objects, CHECKPOINT, "is missing"))
    }

    /// The tree of the checkpoint in a mirror, which must be of this log.
    fn tree_of(&self, there: &Object) -> Result<TreeHead, Error> {
        let read = read_checkpoint(&there.bytes, self.description);
        read.map(|(_, tree)| tree).ok_or_else(|| self.not_ours())
    }

    fn not_ours(&self) -> Error {
        objects::damaged(self.objects, CHECKPOINT, "is not signed by this log")
    }
}

/// The tiles of a mirror that are written again, since they are not those of the log.
struct Repairs<'m> {
    objects: &'m dyn Objects,
    comparison: &'m Comparison<'m>,
    done: u64,
    /// Was the log found to be whole?
    is_whole: bool,
    /// Why a tile could not be repaired: then nothing more is.
    failed: Option<String>,
}

impl<'m> Repairs<'m> {
    fn new(objects: &'m dyn Objects, comparison: &'m Comparison<'m>) -> Self {
        Self {
            objects,
            comparison,
            done: 0,
            is_whole: false,
            failed: None,
        }
    }

    /// Makes a tile beyond the checkpoint of the mirror. Another one may be there already.
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if self.failed.is_some() {
            return Ok(());
        }
        match self.objects.create(name, bytes)? {
            Put::Stored(_) => Ok(()),
            Put::Differs => self.compare(name, bytes),
        }
    }

    /// Compares a tile, and writes it again where it differs.
    fn compare(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if self.failed.is_some() {
            return Ok(());
        }
        // A longer one is another one, too.
        let there = self.objects.read(name, MAX_TILE_BYTES)?;
        if there.as_ref().is_some_and(|there| there.bytes == bytes) {
            return Ok(());
        }
        if !self.is_whole && !(self.comparison.fsck)()?.faults.is_empty() {
            self.failed = Some(format!(
                "{name} is not that of this log, which is damaged itself; nothing more was repaired; hint: threadseal log fsck"
            ));
            return Ok(());
        }
        self.is_whole = true;
        let put = match &there {
            None => self.objects.create(name, bytes),
            Some(there) => self.objects.replace_if(name, &there.version, bytes),
        };
        match put {
            Ok(Put::Stored(_)) => self.done += 1,
            // Another process repairs the same mirror.
            Ok(Put::Differs) => objects::seal(self.objects, name, bytes)?,
            Err(error) => {
                self.failed = Some(format!(
                    "{name} is not that of this log, and cannot be replaced: {error}"
                ));
            }
        }
        Ok(())
    }
}

/// The tiles of a tree of this size that are compared.
fn chosen(size: u64, comparison: &Comparison<'_>) -> Result<Vec<Tile>, Error> {
    let all = Tile::grown(0, size);
    if comparison.compared == Compared::All {
        return Ok(all);
    }
    let last = |tile: &Tile| {
        all.iter()
            .all(|other| other.kind() != tile.kind() || other.index() <= tile.index())
    };
    let (mut edge, mut others): (Vec<Tile>, Vec<Tile>) = all.iter().partition(|tile| last(tile));
    for _ in 0..SAMPLES.min(others.len()) {
        let drawn = u64::from_le_bytes(random::array(comparison.random)?);
        let at = drawn % others.len() as u64;
        edge.push(others.swap_remove(usize::try_from(at).unwrap_or_default()));
    }
    Ok(edge)
}

/// The leaves of a mirror, as its entries give them.
fn leaves_of(of: &dyn Objects, tree: &TreeHead) -> Result<Vec<Digest>, Error> {
    let mut leaves = Vec::new();
    let tiles = Tile::grown(0, tree.size).into_iter();
    for tile in tiles.filter(|tile| tile.kind() == TileKind::Entries) {
        let name = tile.to_string();
        let found = of.read(&name, MAX_TILE_BYTES)?;
        let found = found.ok_or_else(|| objects::damaged(of, &name, "is missing"))?;
        let entries = read_entries(&tile, &found.bytes);
        let entries = entries.ok_or_else(|| objects::damaged(of, &name, "is damaged"))?;
        leaves.extend(entries.into_iter().map(merkle::leaf_hash));
    }
    Ok(leaves)
}

fn read_checkpoint(bytes: &[u8], description: &Description) -> Option<(SignedNote, TreeHead)> {
    let note = SignedNote::parse(std::str::from_utf8(bytes).ok()?).ok()?;
    let checkpoint = description.checkpoint(&note)?;
    Some((note, *checkpoint.tree()))
}

fn bytes_of(dir: &LogDir, tile: &Tile) -> Result<Vec<u8>, Error> {
    match tile.kind() {
        TileKind::Hashes(_) => Ok(write_hashes(&dir.hashes(tile)?)),
        TileKind::Entries => {
            let entries = dir.entries(tile)?;
            threadseal_core::tlog::tile::write_entries(entries.iter().map(Vec::as_slice))
                .ok_or_else(|| Error::invalid("an entry of a log is too long"))
        }
    }
}

/// Reads the tiles of `tree`, and compares each with what the entries give.
fn read_mirror(of: &dyn Objects, tree: &TreeHead) -> Result<Checked, Error> {
    let mut checked = Checked::default();
    let mut frontier = Frontier::new();
    let mut levels: BTreeMap<u32, Vec<Digest>> = BTreeMap::new();
    // The entries come first, and then each level above those that it is made of.
    for tile in Tile::grown(0, tree.size) {
        let name = tile.to_string();
        let Some(found) = of.read(&name, MAX_TILE_BYTES)? else {
            checked.fault(format!("{name} is missing"));
            continue;
        };
        match tile.kind() {
            TileKind::Entries => {
                let Some(entries) = read_entries(&tile, &found.bytes) else {
                    checked.fault(format!("{name} is damaged"));
                    continue;
                };
                for entry in entries {
                    let leaf = merkle::leaf_hash(entry);
                    frontier.push_leaf(leaf);
                    levels.entry(0).or_default().push(leaf);
                    checked.entries += 1;
                }
            }
            TileKind::Hashes(level) => {
                let first = usize::try_from(tile.index() * TILE_WIDTH).unwrap_or(usize::MAX);
                let width = usize::try_from(tile.width()).unwrap_or(usize::MAX);
                let own = levels
                    .get(&level)
                    .and_then(|all| all.get(first..)?.get(..width));
                let Some(own) = own.map(<[Digest]>::to_vec) else {
                    continue;
                };
                if write_hashes(&own) != found.bytes {
                    checked.fault(format!("{name} does not hold the hashes of its entries"));
                }
                if tile.width() == TILE_WIDTH {
                    levels
                        .entry(level + 1)
                        .or_default()
                        .push(merkle::root(&own));
                }
            }
        }
    }
    if frontier.head() != *tree {
        checked.fault("the entries do not give the root of the checkpoint");
    }
    Ok(checked)
}
