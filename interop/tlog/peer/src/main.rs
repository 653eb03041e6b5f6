//! Reads a log on the disk with the published `signed_note` and `tlog_tiles` crates.
//!
//! ```text
//! tlog-peer FOLDER VKEY [SIZE ROOT]…     the checkpoint verifies, the tiles give its root, every
//!                                        entry is proved to be in it, and it extends each earlier
//!                                        tree (root in base64)
//! ```
//! Prints the number of valid proofs. Any fault is a panic, and so a failure.

use signed_note::{Note, StandardVerifier, VerifierList};
use std::path::{Path, PathBuf};
use tlog_tiles::checkpoint::Checkpoint;
use tlog_tiles::tile::{Tile, TileHashReader, TileReader};
use tlog_tiles::tlog::{self, Error, Hash};

/// Height of the tiles of C2SP tlog-tiles: 256 hashes.
const HEIGHT: u8 = 8;

/// Tiles under the file names of C2SP tlog-tiles. The crate uses the names of Go's checksum
/// database.
struct Folder(PathBuf);

impl Folder {
    fn file(&self, tile: &Tile) -> PathBuf {
        let path = tile.path().replacen("tile/8/", "tile/", 1);
        self.0.join(path.replacen("tile/data/", "tile/entries/", 1))
    }

    fn entries(&self, size: u64) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while (all.len() as u64) < size {
            let first = all.len() as u64;
            let width = (size - first).min(256);
            let tile = Tile::new(HEIGHT, 0, first / 256, width.try_into().unwrap(), true);
            let bytes = std::fs::read(self.file(&tile)).unwrap();
            let mut rest = bytes.as_slice();
            while let Some((length, behind)) = rest.split_first_chunk::<2>() {
                let (entry, behind) = behind.split_at(u16::from_be_bytes(*length).into());
                all.push(entry.to_vec());
                rest = behind;
            }
            assert!(rest.is_empty());
            assert_eq!(all.len() as u64, first + width);
        }
        all
    }
}

impl TileReader for Folder {
    fn height(&self) -> u8 {
        HEIGHT
    }

    fn read_tiles(&self, tiles: &[Tile]) -> Result<Vec<Vec<u8>>, Error> {
        let read = |tile| std::fs::read(self.file(tile)).map_err(|_| Error::InvalidTile);
        tiles.iter().map(read).collect()
    }

    fn save_tiles(&self, _: &[Tile], _: &[Vec<u8>]) {}
}

fn open(note: &[u8], vkey: &str) -> Option<Checkpoint> {
    let note = Note::from_bytes(note).unwrap();
    let known = VerifierList::new(vec![Box::new(StandardVerifier::new(vkey).unwrap())]);
    let (signed, _) = note.verify(&known).ok()?;
    assert_eq!(signed.len(), 1);
    Checkpoint::from_bytes(note.text()).ok()
}

/// The same note of a tree with one entry more.
fn grown_by_hand(note: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(note.to_vec()).unwrap();
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    lines[1] = (lines[1].parse::<u64>().unwrap() + 1).to_string();
    lines.join("\n").into_bytes()
}

fn prove_entries(folder: &Folder, size: u64, root: Hash) -> usize {
    let reader = TileHashReader::new(size, root, folder);
    let entries = folder.entries(size);
    for (index, entry) in (0..).zip(&entries) {
        let proof = tlog::prove_record(size, index, &reader).unwrap();
        tlog::check_record(&proof, size, root, index, tlog::record_hash(entry)).unwrap();
        // A proof of every entry would prove nothing.
        let other = [entry.as_slice(), b" "].concat();
        tlog::check_record(&proof, size, root, index, tlog::record_hash(&other)).unwrap_err();
    }
    entries.len()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, vkey, earlier @ ..] = arguments.as_slice() else {
        panic!("tlog-peer FOLDER VKEY [SIZE ROOT]…");
    };
    let note = std::fs::read(Path::new(folder).join("checkpoint")).unwrap();
    let checkpoint = open(&note, vkey).expect("the checkpoint is not signed by this key");
    assert!(open(&grown_by_hand(&note), vkey).is_none());
    let (size, root) = (checkpoint.size(), *checkpoint.hash());
    assert!(size > 0, "an empty tree has no tiles");
    let folder = Folder(PathBuf::from(folder));
    let mut held = prove_entries(&folder, size, root);
    let reader = TileHashReader::new(size, root, &folder);
    assert_eq!(tlog::tree_hash(size, &reader).unwrap(), root);
    let (earlier, rest) = earlier.as_chunks::<2>();
    assert!(rest.is_empty());
    for [before, there] in earlier {
        let (before, there) = (before.parse().unwrap(), Hash::parse_hash(there).unwrap());
        let proof = tlog::prove_tree(size, before, &reader).unwrap();
        tlog::check_tree(&proof, size, root, before, there).unwrap();
        held += 1;
    }
    println!("{held} proofs held");
}
