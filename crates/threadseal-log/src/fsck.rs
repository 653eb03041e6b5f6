//! The check of all files of a log against its checkpoint.

use crate::commit::log_access::LogAccess;
use crate::index::head_index::{HeadIndex, head_of};
use crate::index::non_head_index::NonHeadKind;
use crate::layout::description::Description;
use crate::layout::log_dir::LogDir;
use crate::tree::checked::Checked;
use crate::tree::view::LogView;
use std::collections::{BTreeMap, HashMap};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::merkle::{self, Frontier};
use threadseal_core::note::SignedNote;
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::LogEntry;
use threadseal_core::tlog::tile::{TILE_WIDTH, Tile, TileKind};

/// The result of reading all entries of a log.
pub(crate) struct Walked {
    pub(crate) checked: Checked,
    /// Entries that are no heads.
    pub(crate) non_heads: Vec<(u64, NonHeadKind)>,
}

/// Reads every entry and tile of the log and computes every hash again.
///
/// # Errors
/// Kind `External` when a file cannot be read at all, or is so damaged that the rest cannot be checked.
pub(crate) fn walk(access: &LogAccess, view: &LogView) -> Result<Walked, Error> {
    let base = view.contents().base();
    let mut walk = Walk {
        dir: &access.dir,
        description: &access.description,
        checked: Checked::default(),
        frontier: Frontier::new(),
        levels: BTreeMap::new(),
        heads: 0,
        non_heads: Vec::new(),
        last: HashMap::new(),
    };
    {
        let mut index = access.index.lock();
        // If the entries are not those of the tree, the walk reports it.
        let index = index.catch_up(view.contents()).is_ok().then_some(&*index);
        view.contents()
            .each_in_tiles(0, base, &mut |at, entry| walk.tiled(at, entry, index))?;
        if index.is_some_and(|index| index.count() != walk.heads) {
            walk.checked
                .fault("the index holds other entries than the log");
        }
    }
    walk.parts()?;
    for (at, entry) in (base..).zip(view.contents().fresh()) {
        walk.entry(at, entry, merkle::leaf_hash(entry));
    }
    walk.checkpoint()?;
    if walk.frontier.head() != view.tree() {
        walk.checked
            .fault("the entries do not give the root of the checkpoint");
    }
    Ok(Walked {
        checked: walk.checked,
        non_heads: walk.non_heads,
    })
}

/// Reading a log from its first entry.
struct Walk<'l> {
    dir: &'l LogDir,
    description: &'l Description,
    checked: Checked,
    frontier: Frontier,
    /// Hashes of the tile that is not full yet, and its number, on each level.
    levels: BTreeMap<u32, (u64, Vec<Digest>)>,
    /// Heads in the tiles.
    heads: u64,
    /// Entries that are no heads.
    non_heads: Vec<(u64, NonHeadKind)>,
    /// The number of the newest seal of each record.
    last: HashMap<RecordId, u64>,
}

impl Walk<'_> {
    /// An entry in a tile.
    fn tiled(&mut self, at: u64, entry: &[u8], index: Option<&HeadIndex>) -> Result<(), Error> {
        let leaf = merkle::leaf_hash(entry);
        self.hash(0, leaf)?;
        if let Some((record, seq)) = head_of(entry) {
            self.heads += 1;
            // `entry` reports a head that is committed again; of two with one number the index has the first.
            let is_first = self.last.get(&record).is_none_or(|last| *last < seq);
            let found = index
                .filter(|_| is_first)
                .map(|index| index.at(&record, seq));
            if found.transpose()?.is_some_and(|found| found != Some(at)) {
                self.checked
                    .fault(format!("the index does not know entry {at}"));
            }
        }
        self.entry(at, entry, leaf);
        Ok(())
    }

    fn entry(&mut self, at: u64, entry: &[u8], leaf: Digest) {
        self.frontier.push_leaf(leaf);
        self.checked.entries += 1;
        match LogEntry::read(entry) {
            Err(_) => self
                .checked
                .fault(format!("entry {at} is not valid for its type")),
            Ok(LogEntry::Restart(_)) if at != 0 => {
                self.checked.fault(format!("entry {at} restarts the log"));
            }
            Ok(LogEntry::Head(logged)) => {
                let (record, seq) = (logged.head.record, logged.head.seq);
                let before = self.last.get(&record);
                if before.is_some_and(|before| *before >= seq) {
                    let text = format!(
                        "entry {at}: seal {seq} of {record} is not newer than the one before it"
                    );
                    self.checked.fault(text);
                } else {
                    self.last.insert(record, seq);
                }
            }
            Ok(_) => {}
        }
        self.non_heads
            .extend(NonHeadKind::of(entry).map(|kind| (at, kind)));
    }

    /// Takes a hash of a level; a tile that is full is compared with its file.
    fn hash(&mut self, level: u32, hash: Digest) -> Result<(), Error> {
        let (number, hashes) = self.levels.entry(level).or_default();
        hashes.push(hash);
        if (hashes.len() as u64) < TILE_WIDTH {
            return Ok(());
        }
        let (index, full) = (*number, std::mem::take(hashes));
        *number += 1;
        self.compare(level, index, &full)?;
        self.hash(level + 1, merkle::root(&full))
    }

    /// Compares the parts of tiles at the end.
    fn parts(&mut self) -> Result<(), Error> {
        for (level, (index, hashes)) in std::mem::take(&mut self.levels) {
            if !hashes.is_empty() {
                self.compare(level, index, &hashes)?;
            }
        }
        Ok(())
    }

    fn compare(&mut self, level: u32, index: u64, hashes: &[Digest]) -> Result<(), Error> {
        let tile = Tile::new(TileKind::Hashes(level), index, hashes.len() as u64);
        let Some(tile) = tile else {
            return Ok(());
        };
        match self.dir.hashes(&tile) {
            Ok(found) if found == hashes => {}
            Ok(_) => self.checked.fault(format!("{tile} holds other hashes")),
            Err(error) => self.checked.fault(error.to_string()),
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), Error> {
        let dir = self.dir;
        let path = dir.checkpoint();
        let bytes = dir.read(&path, threadseal_core::limits::MAX_NOTE_BYTES)?;
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let note = text.and_then(|text| SignedNote::parse(&text).ok());
        let known = note.and_then(|note| self.description.checkpoint(&note));
        if known.is_none_or(|known| known.tree().size > self.frontier.size()) {
            let text = format!("{} is not a checkpoint of this log", path.display());
            self.checked.fault(text);
        }
        Ok(())
    }
}
