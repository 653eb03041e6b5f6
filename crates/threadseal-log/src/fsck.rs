//! Is everything in the files of a log as its checkpoint says?

use super::index::{Index, head_of};
use super::rare::{self, RareKind};
use super::{SealLog, Shared};
use std::collections::{BTreeMap, HashMap};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_FINDINGS;
use threadseal_core::merkle::{self, Frontier};
use threadseal_core::note::SignedNote;
use threadseal_core::record::RecordId;
use threadseal_core::tlog::entry::LogEntry;
use threadseal_core::tlog::tile::{TILE_WIDTH, Tile, TileKind};

/// What is wrong with a log.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Entries that were read.
    pub entries: u64,
    /// What is wrong, in sentences; none when nothing is.
    pub faults: Vec<String>,
    /// Faults beyond those.
    pub more: u64,
}

impl Checked {
    pub(super) fn fault(&mut self, text: impl Into<String>) {
        match self.faults.len() < MAX_FINDINGS {
            true => self.faults.push(text.into()),
            false => self.more += 1,
        }
    }
}

impl SealLog {
    /// Reads every file of the log and computes every hash again.
    ///
    /// # Errors
    /// Kind `External` when a file cannot be read at all, or is damaged such that nothing can be said of the rest.
    pub fn fsck(&self) -> Result<Checked, Error> {
        let view = self.view()?;
        let mut walk = Walk {
            shared: &self.shared,
            size: view.contents().base(),
            checked: Checked::default(),
            frontier: Frontier::new(),
            levels: BTreeMap::new(),
            heads: 0,
            rare: Vec::new(),
            last: HashMap::new(),
        };
        let base = walk.size;
        {
            let mut index = self.shared.index();
            // Where the entries are not those of the tree, the walk tells.
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
        let is_wrong = self.is_rare_wrong(&walk.rare, view.tree().size);
        let mut checked = walk.checked;
        if walk.frontier.head() != view.tree() {
            checked.fault("the entries do not give the root of the checkpoint");
        }
        match is_wrong {
            Ok(false) => {}
            Ok(true) => {
                let path = self.shared.place.file(rare::FILE);
                let text = format!(
                    "{} does not hold the entries that are no heads; it is made again where it is removed",
                    path.display()
                );
                checked.fault(text);
            }
            Err(error) => checked.fault(error.to_string()),
        }
        if let Some(fault) = self.fault()? {
            checked.fault(format!("log_rolled_back: {fault}"));
        }
        Ok(checked)
    }
}

/// Reading a log from its first entry.
struct Walk<'l> {
    shared: &'l Shared,
    /// Entries in the tiles.
    size: u64,
    checked: Checked,
    frontier: Frontier,
    /// Hashes of the tile that is not full yet, and its number, on each level.
    levels: BTreeMap<u32, (u64, Vec<Digest>)>,
    /// Heads in the tiles.
    heads: u64,
    /// Entries that are no heads.
    rare: Vec<(u64, RareKind)>,
    /// The number of the newest seal of each record.
    last: HashMap<RecordId, u64>,
}

impl Walk<'_> {
    /// An entry that lies in a tile.
    fn tiled(&mut self, at: u64, entry: &[u8], index: Option<&Index>) -> Result<(), Error> {
        let leaf = merkle::leaf_hash(entry);
        self.hash(0, leaf)?;
        if let Some((record, seq)) = head_of(entry) {
            self.heads += 1;
            // A head that is written down again is told as such; of two with one number the index has the first.
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
                .fault(format!("entry {at} is none of its type")),
            Ok(LogEntry::Restart(_)) if at != 0 => {
                self.checked
                    .fault(format!("entry {at} begins the log again"));
            }
            Ok(LogEntry::Head(logged)) => {
                let (record, seq) = (logged.head.record, logged.head.seq);
                let before = self.last.get(&record);
                if before.is_some_and(|before| *before >= seq) {
                    let text =
                        format!("entry {at}: seal {seq} of {record} is not after the one before");
                    self.checked.fault(text);
                } else {
                    self.last.insert(record, seq);
                }
            }
            Ok(_) => {}
        }
        self.rare.extend(RareKind::of(entry).map(|kind| (at, kind)));
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
        match self.shared.place.hashes(&tile) {
            Ok(found) if found == hashes => {}
            Ok(_) => self.checked.fault(format!("{tile} holds other hashes")),
            Err(error) => self.checked.fault(error.to_string()),
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), Error> {
        let place = &self.shared.place;
        let path = place.checkpoint();
        let bytes = place.read(&path, threadseal_core::limits::MAX_NOTE_BYTES)?;
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        let note = text.and_then(|text| SignedNote::parse(&text).ok());
        let known = note.and_then(|note| self.shared.description.checkpoint(&note));
        if known.is_none_or(|known| known.tree().size > self.frontier.size()) {
            let text = format!("{} is not a checkpoint of this log", path.display());
            self.checked.fault(text);
        }
        Ok(())
    }
}
