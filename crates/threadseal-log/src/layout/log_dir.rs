//! Where the files of one log are, and the tiles among them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_LOG_ENTRY_BYTES;
use threadseal_core::merkle;
use threadseal_core::tlog::tile::{self, TILE_WIDTH, Tile, TileKind};
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::read;
use threadseal_store::sys::{Fs, directory_of};

/// Largest tile of entries in bytes: each entry has its length before it.
const MAX_TILE_BYTES: usize = 256 * (MAX_LOG_ENTRY_BYTES + 2);

/// The folder of one log.
#[derive(Debug, Clone)]
pub(crate) struct LogDir {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) root: PathBuf,
}

impl LogDir {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.file("journal")
    }

    /// Where heads wait for the current log, whichever it is: beside all logs.
    pub(crate) fn spool(&self) -> PathBuf {
        directory_of(&self.root).join("spool")
    }

    /// Where lines of the spool are kept of which nothing shows that they are this home's.
    pub(crate) fn set_aside(&self) -> PathBuf {
        directory_of(&self.root).join("set-aside")
    }

    /// The home that the log is of.
    pub(crate) fn home(&self) -> &Path {
        directory_of(directory_of(&self.root))
    }

    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.file("checkpoint")
    }

    /// The bytes of a file; None where there is none.
    pub(crate) fn read(&self, path: &Path, limit: usize) -> Result<Option<Vec<u8>>, Error> {
        let is_gone = || {
            let found = self.fs.symlink_metadata(path);
            found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        if is_gone() {
            return Ok(None);
        }
        match read::read_small(&*self.fs, path, limit) {
            // A process that fills a tile removes its parts, also one that was just found.
            Err(_) if is_gone() => Ok(None),
            read => read.map(Some),
        }
    }

    /// Puts a file whole in the place of what is there, durably.
    pub(crate) fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        atomic::replace(&*self.fs, path, bytes, Mode::Set(PRIVATE_FILE))
    }

    /// The hashes of a tile.
    pub(crate) fn hashes(&self, tile: &Tile) -> Result<Vec<Digest>, Error> {
        self.tile(tile, tile::read_hashes)
    }

    /// The entries of a tile.
    pub(crate) fn entries(&self, tile: &Tile) -> Result<Vec<Vec<u8>>, Error> {
        self.tile(tile, |tile, bytes| {
            let entries = tile::read_entries(tile, bytes)?;
            Some(entries.into_iter().map(<[u8]>::to_vec).collect())
        })
    }

    /// A tile, or the first part of the full one: its parts go when it is full.
    fn tile<T>(
        &self,
        tile: &Tile,
        read: impl Fn(&Tile, &[u8]) -> Option<Vec<T>>,
    ) -> Result<Vec<T>, Error> {
        let full = Tile::new(tile.kind(), tile.index(), TILE_WIDTH);
        for there in [Some(*tile), full].into_iter().flatten() {
            let path = self.file(&there.to_string());
            if let Some(bytes) = self.read(&path, MAX_TILE_BYTES)? {
                let mut all = read(&there, &bytes).ok_or_else(|| damaged(&path))?;
                all.truncate(usize::try_from(tile.width()).unwrap_or(usize::MAX));
                return Ok(all);
            }
        }
        Err(Error::new(
            ErrorKind::External,
            format!("the log lacks {}", self.file(&tile.to_string()).display()),
        ))
    }

    /// Writes the tiles by which a tree grows from `old` leaves by these entries; those that are there already are
    /// written again, with the bytes they have.
    pub(crate) fn grow(&self, old: u64, entries: &[Vec<u8>]) -> Result<(), Error> {
        let new = old + entries.len() as u64;
        let mut completed: BTreeMap<u32, Vec<Digest>> = BTreeMap::new();
        completed.insert(0, entries.iter().map(|e| merkle::leaf_hash(e)).collect());
        for tile in Tile::grown(old, new) {
            let (first, last) = bounds(&tile);
            let bytes = match tile.kind() {
                TileKind::Entries => {
                    let mut all = match old.checked_sub(first).filter(|kept| *kept > 0) {
                        Some(kept) => self.entries(&part(tile, kept)?)?,
                        None => Vec::new(),
                    };
                    all.extend_from_slice(within(entries, old, first, last));
                    tile::write_entries(all.iter().map(Vec::as_slice))
                }
                TileKind::Hashes(level) => {
                    let height = 8 * level;
                    let before = old >> height;
                    let mut all = match before.checked_sub(first).filter(|kept| *kept > 0) {
                        Some(kept) => self.hashes(&part(tile, kept)?)?,
                        None => Vec::new(),
                    };
                    let fresh = completed.get(&level).map_or(&[][..], Vec::as_slice);
                    all.extend_from_slice(within(fresh, before, first, last));
                    if tile.width() == TILE_WIDTH {
                        let above = completed.entry(level + 1).or_default();
                        above.push(merkle::root(&all));
                    }
                    Some(tile::write_hashes(&all))
                }
            };
            let bytes = bytes.ok_or_else(|| Error::invalid("an entry of a log is too long"))?;
            let path = self.file(&tile.to_string());
            atomic::create_directories(&*self.fs, directory_of(&path), PRIVATE_DIRECTORY)?;
            self.replace(&path, &bytes)?;
            if tile.width() == TILE_WIDTH {
                self.drop_parts(&path);
            }
        }
        Ok(())
    }

    /// Removes the parts of a tile that is full.
    fn drop_parts(&self, full: &Path) {
        let mut name = full.as_os_str().to_owned();
        name.push(".p");
        let folder = PathBuf::from(name);
        for part in self.fs.read_dir(&folder).unwrap_or_default() {
            // A part that stays is never read.
            let _ = self.fs.unlink(&folder.join(part));
        }
    }
}

/// The number of the first one that a tile holds, and the number after its last one, on its level.
fn bounds(tile: &Tile) -> (u64, u64) {
    let first = tile.index() * TILE_WIDTH;
    (first, first + tile.width())
}

fn part(tile: Tile, width: u64) -> Result<Tile, Error> {
    Tile::new(tile.kind(), tile.index(), width.min(TILE_WIDTH))
        .ok_or_else(|| Error::invalid("a log has less than 2^63 entries"))
}

/// Of `fresh`, whose first has the number `from`, those numbered `first` to `last`.
fn within<T>(fresh: &[T], from: u64, first: u64, last: u64) -> &[T] {
    let at = |number: u64| {
        let offset = usize::try_from(number.saturating_sub(from)).unwrap_or(usize::MAX);
        offset.min(fresh.len())
    };
    &fresh[at(first)..at(last)]
}

pub(crate) fn damaged(path: &Path) -> Error {
    Error::new(
        ErrorKind::External,
        format!("{} is damaged; hint: threadseal log fsck", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use threadseal_core::merkle::{Frontier, Node};
    use threadseal_store::atomic::PRIVATE_DIRECTORY;
    use threadseal_store::fault::FaultFs;

    fn entry(number: u64) -> Vec<u8> {
        format!("{{\"n\":{number}}}").into_bytes()
    }

    /// Grown in steps of every width, the tiles give the frontier and the entries of each size.
    #[test]
    fn tiles_that_grew_in_any_steps_hold_the_tree() {
        for step in [1_u64, 3, 100, 255, 256, 257, 700] {
            let fs = FaultFs::new().shared();
            atomic::create_directories(&*fs, Path::new("/log"), PRIVATE_DIRECTORY).unwrap();
            let dir = LogDir {
                fs,
                root: PathBuf::from("/log"),
            };
            let (mut size, mut frontier) = (0, Frontier::new());
            while size < 66_000 / if step < 100 { 100 } else { 1 } {
                let entries: Vec<Vec<u8>> = (size..size + step).map(entry).collect();
                dir.grow(size, &entries).unwrap();
                for entry in &entries {
                    frontier.push_leaf(merkle::leaf_hash(entry));
                }
                size += step;
                let mut read = |node: Node| {
                    let tile = Tile::of_node(node, size).unwrap();
                    let hashes = dir.hashes(&tile)?;
                    Ok::<_, Error>(tile.root(node, &hashes).unwrap())
                };
                assert_eq!(
                    Frontier::of_tree(size, &mut read).unwrap(),
                    frontier,
                    "{size}"
                );
                let last = Tile::of_entry(size - 1, size).unwrap();
                assert_eq!(
                    dir.entries(&last).unwrap().last().unwrap(),
                    &entry(size - 1)
                );
            }
        }
    }
}
