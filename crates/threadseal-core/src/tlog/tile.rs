//! Tiles (C2SP tlog-tiles): the hashes and entries of a tree in files. A full tile never changes.
//!
//! ```text
//! tile/<L>/<N>[.p/<W>]         W hashes of 32 bytes; hash i of tile (L, N) is the root over leaves
//!                              (N·256 + i)·256^L to (N·256 + i + 1)·256^L
//! tile/entries/<N>[.p/<W>]     W entries: length (u16, big endian) ‖ bytes
//! L   0 to 63                  N   groups of three digits, all but the last after "x": 1234067 is
//!                                  x001/x234/067
//! W   1 to 255; a full tile has 256 and no ".p/<W>"
//! ```
//! A tree of `s` leaves has `⌊s / 256^L⌋` hashes on level L. They fill full tiles, and the rest
//! fills one partial tile. Roots of subtrees between two levels are computed from a tile's hashes.

use crate::digest::Digest;
use crate::merkle::Node;
use std::fmt;

/// Hashes, or entries, of a full tile.
pub const TILE_WIDTH: u64 = 256;
/// Levels of the tree in one tile.
const TILE_HEIGHT: u32 = 8;
/// Levels of tiles: those of the specification.
const LEVELS: u32 = 64;
/// Levels of tiles that a tree below 2^63 leaves fills.
const FILLED_LEVELS: u32 = 8;

/// The content of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TileKind {
    /// Hashes of this level.
    Hashes(u32),
    /// Entries.
    Entries,
}

/// A tile of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    kind: TileKind,
    index: u64,
    width: u64,
}

impl Tile {
    /// The tile of this kind and number, `width` wide; `None` if the format has no such tile.
    pub fn new(kind: TileKind, index: u64, width: u64) -> Option<Self> {
        let known = !matches!(kind, TileKind::Hashes(level) if level >= LEVELS);
        let fits = (1..=TILE_WIDTH).contains(&width) && index <= i64::MAX.unsigned_abs();
        (known && fits).then_some(Self { kind, index, width })
    }

    /// The content of the tile.
    pub fn kind(&self) -> TileKind {
        self.kind
    }

    /// Its number among the tiles of its kind.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The number of its hashes or entries, 1 to [`TILE_WIDTH`].
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The tile with the hashes from which the root of `node` follows, in a tree of `size` leaves.
    ///
    /// `None` when the tree has no such subtree.
    pub fn of_node(node: Node, size: u64) -> Option<Self> {
        let last = node.index.checked_add(1)?;
        if node.level >= u64::BITS || last > size >> node.level {
            return None;
        }
        let level = node.level / TILE_HEIGHT;
        let index = node.index >> (TILE_HEIGHT - node.level % TILE_HEIGHT);
        let hashes = size >> (level * TILE_HEIGHT);
        let width = (hashes - index * TILE_WIDTH).min(TILE_WIDTH);
        Self::new(TileKind::Hashes(level), index, width)
    }

    /// The tile that contains the entry of this number, in a tree of `size` leaves.
    pub fn of_entry(number: u64, size: u64) -> Option<Self> {
        let index = number / TILE_WIDTH;
        let width = size.checked_sub(index * TILE_WIDTH)?.min(TILE_WIDTH);
        (number < size).then(|| Self::new(TileKind::Entries, index, width))?
    }

    /// The tiles, full and partial, that a tree of `new` leaves has and one of `old` leaves lacks.
    pub fn grown(old: u64, new: u64) -> Vec<Self> {
        let kinds = std::iter::once((TileKind::Entries, 0));
        let levels = (0..FILLED_LEVELS).map(|level| (TileKind::Hashes(level), level * TILE_HEIGHT));
        let mut tiles = Vec::new();
        for (kind, height) in kinds.chain(levels) {
            let (before, now) = (old >> height, new >> height);
            if before == now {
                continue;
            }
            for index in before / TILE_WIDTH..now.div_ceil(TILE_WIDTH) {
                let width = (now - index * TILE_WIDTH).min(TILE_WIDTH);
                tiles.extend(Self::new(kind, index, width));
            }
        }
        tiles
    }

    /// Reads [`Tile::to_string`]'s texts.
    pub fn parse(path: &str) -> Option<Self> {
        let (kind, rest) = path.strip_prefix("tile/")?.split_once('/')?;
        let kind = match kind {
            "entries" => TileKind::Entries,
            level => TileKind::Hashes(level.parse().ok()?),
        };
        let (number, width) = match rest.split_once(".p/") {
            Some((number, width)) => (
                number,
                width.parse().ok().filter(|width| *width < TILE_WIDTH)?,
            ),
            None => (rest, TILE_WIDTH),
        };
        let mut index: u64 = 0;
        for group in number.split('/') {
            let digits = group.strip_prefix('x').unwrap_or(group);
            let group: u64 = digits.parse().ok()?;
            index = index.checked_mul(1000)?.checked_add(group)?;
        }
        // Each tile has one text.
        Self::new(kind, index, width).filter(|tile| tile.to_string() == path)
    }

    /// The root of `node` from the hashes of its tile; `None` when the hashes do not fit that tile.
    pub fn root(&self, node: Node, hashes: &[Digest]) -> Option<Digest> {
        let TileKind::Hashes(level) = self.kind else {
            return None;
        };
        let above = node.level.checked_sub(level * TILE_HEIGHT)?;
        let first = (node.index << above).checked_sub(self.index * TILE_WIDTH)?;
        let first = usize::try_from(first).ok()?;
        let part = hashes.get(first..first + (1_usize << above))?;
        let known = above < TILE_HEIGHT && hashes.len() as u64 == self.width;
        known.then(|| crate::merkle::root(part))
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TileKind::Hashes(level) => write!(f, "tile/{level}/")?,
            TileKind::Entries => f.write_str("tile/entries/")?,
        }
        let mut groups = vec![self.index % 1000];
        let mut above = self.index / 1000;
        while above > 0 {
            groups.push(above % 1000);
            above /= 1000;
        }
        for group in groups.iter().skip(1).rev() {
            write!(f, "x{group:03}/")?;
        }
        write!(f, "{:03}", groups[0])?;
        match self.width {
            TILE_WIDTH => Ok(()),
            width => write!(f, ".p/{width}"),
        }
    }
}

/// The bytes of a tile of hashes.
pub fn write_hashes(hashes: &[Digest]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()
}

/// The hashes of a tile; `None` unless the bytes fit the tile.
pub fn read_hashes(tile: &Tile, bytes: &[u8]) -> Option<Vec<Digest>> {
    let (hashes, rest) = bytes.as_chunks::<32>();
    let all = rest.is_empty() && hashes.len() as u64 == tile.width;
    all.then(|| hashes.iter().copied().map(Digest::from_bytes).collect())
}

/// The bytes of a tile of entries; None when one is longer than 65,535 bytes.
pub fn write_entries<'e>(entries: impl IntoIterator<Item = &'e [u8]>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend_from_slice(&u16::try_from(entry.len()).ok()?.to_be_bytes());
        bytes.extend_from_slice(entry);
    }
    Some(bytes)
}

/// The entries of a tile; `None` unless the bytes fit the tile.
pub fn read_entries<'b>(tile: &Tile, mut bytes: &'b [u8]) -> Option<Vec<&'b [u8]>> {
    let mut entries = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let (entry, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        entries.push(entry);
        bytes = rest;
    }
    (bytes.is_empty() && entries.len() as u64 == tile.width).then_some(entries)
}

#[cfg(test)]
mod tests;
