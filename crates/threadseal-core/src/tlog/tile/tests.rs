//! Tiles of the specification's example sizes, and trees that are read back from their tiles.
#![expect(clippy::cast_possible_truncation, reason = "all numbers are small")]

use super::*;
use crate::merkle::{ConsistencyProof, Frontier, InclusionProof, ProofError, TreeHead, leaf_hash};
use std::collections::BTreeMap;

fn paths(size: u64) -> Vec<String> {
    Tile::grown(0, size)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn trees_have_the_tiles_that_the_specification_counts() {
    let tiles = paths(70_000);
    let of = |level: &str| {
        let begin = format!("tile/{level}/");
        let all = tiles.iter().filter(|path| path.starts_with(&begin));
        let (parts, full): (Vec<_>, Vec<_>) = all.partition(|path| path.contains(".p/"));
        (full.len(), parts)
    };
    assert_eq!(of("0"), (273, vec![&"tile/0/273.p/112".to_owned()]));
    assert_eq!(of("1"), (1, vec![&"tile/1/001.p/17".to_owned()]));
    assert_eq!(of("2"), (0, vec![&"tile/2/000.p/1".to_owned()]));
    assert_eq!(of("3"), (0, vec![]));
    assert_eq!(of("entries").0, 273);
    assert_eq!(
        paths(256),
        ["tile/entries/000", "tile/0/000", "tile/1/000.p/1"]
    );
    assert!(paths(0).is_empty());
}

#[test]
fn one_tile_has_one_path() {
    let tile = Tile::new(TileKind::Hashes(0), 1_234_067, TILE_WIDTH).unwrap();
    assert_eq!(tile.to_string(), "tile/0/x001/x234/067");
    for index in [
        0,
        7,
        999,
        1000,
        1_000_000,
        1_234_067,
        i64::MAX.unsigned_abs(),
    ] {
        for (kind, width) in [
            (TileKind::Hashes(0), 256),
            (TileKind::Hashes(63), 1),
            (TileKind::Entries, 255),
        ] {
            let tile = Tile::new(kind, index, width).unwrap();
            assert_eq!(Tile::parse(&tile.to_string()), Some(tile));
        }
    }
    for other in [
        "tile/0/67",
        "tile/0/0067",
        "tile/0/x000/067",
        "tile/0/001/067",
        "tile/0/x1/067",
        "tile/0/+67",
        "tile/00/067",
        "tile/64/067",
        "tile/0/067.p/256",
        "tile/0/067.p/0",
        "tile/0/067.p/01",
        "tile/0/067.p/",
        "tile/0/",
        "tile/0",
        "tile/data/067",
        "tile/0/067/",
        "/tile/0/067",
        "tile/0/x999/x999/x999/x999/x999/x999/x999/999",
    ] {
        assert_eq!(Tile::parse(other), None, "{other}");
    }
}

/// Tiles as a store keeps them.
#[derive(Default)]
struct Kept(BTreeMap<String, Vec<u8>>);

impl Kept {
    fn grow(&mut self, old: u64, leaves: &[Digest]) {
        let size = leaves.len() as u64;
        for tile in Tile::grown(old, size) {
            let TileKind::Hashes(level) = tile.kind() else {
                continue;
            };
            let below = 1_usize << (level * TILE_HEIGHT);
            let from = (tile.index() * TILE_WIDTH) as usize * below;
            let part = &leaves[from..from + tile.width() as usize * below];
            let hashes: Vec<_> = part.chunks(below).map(crate::merkle::root).collect();
            self.0.insert(tile.to_string(), write_hashes(&hashes));
        }
    }

    fn read(&self, node: Node, size: u64) -> Result<Digest, ProofError> {
        let tile = Tile::of_node(node, size).ok_or(ProofError::NotInTree)?;
        let hashes = read_hashes(&tile, &self.0[&tile.to_string()]).unwrap();
        Ok(tile.root(node, &hashes).unwrap())
    }
}

#[test]
fn proofs_come_out_of_tiles_alone() {
    let leaves: Vec<_> = (0..66_000_u64)
        .map(|number| leaf_hash(&number.to_be_bytes()))
        .collect();
    let (mut kept, mut frontier, mut before) =
        (Kept::default(), Frontier::new(), TreeHead::empty());
    for size in [
        1, 2, 255, 256, 257, 511, 600, 65_535, 65_536, 65_537, 66_000,
    ] {
        for leaf in &leaves[before.size as usize..size as usize] {
            frontier.push_leaf(*leaf);
        }
        kept.grow(before.size, &leaves[..size as usize]);
        let now = frontier.head();
        for index in [0, 1, 254, 255, 256, 300, 65_535, size - 1] {
            if index < size {
                let proof = InclusionProof::make(index, size, &mut |node| kept.read(node, size));
                let proof: InclusionProof = proof.unwrap();
                assert_eq!(
                    proof.check(&leaves[index as usize], index, &now),
                    Ok(()),
                    "{index} {size}"
                );
            }
        }
        let proof = ConsistencyProof::make(before.size, size, &mut |node| kept.read(node, size));
        assert_eq!(proof.unwrap().check(&before, &now), Ok(()), "{size}");
        before = now;
    }
}

#[test]
fn a_tile_answers_for_its_own_subtrees_only() {
    let hashes: Vec<_> = (0..5_u8).map(|number| leaf_hash(&[number])).collect();
    let tile = Tile::new(TileKind::Hashes(1), 2, 5).unwrap();
    let node = |level, index| Node { level, index };
    assert_eq!(tile.root(node(8, 512), &hashes), Some(hashes[0]));
    assert_eq!(
        tile.root(node(9, 257), &hashes),
        Some(crate::merkle::root(&hashes[2..4]))
    );
    for (node, hashes) in [
        (node(7, 512), &hashes[..]),
        (node(8, 511), &hashes[..]),
        (node(8, 517), &hashes[..]),
        (node(16, 2), &hashes[..]),
        (node(8, 512), &hashes[..4]),
    ] {
        assert_eq!(tile.root(node, hashes), None, "{node:?}");
    }
    assert_eq!(
        read_hashes(&tile, &write_hashes(&hashes)),
        Some(hashes.clone())
    );
    assert_eq!(read_hashes(&tile, &write_hashes(&hashes[..4])), None);
    assert_eq!(read_hashes(&tile, &[0; 159]), None);
}

#[test]
fn entries_are_read_back_and_nothing_else_is() {
    let tile = Tile::of_entry(257, 259).unwrap();
    assert_eq!(tile.to_string(), "tile/entries/001.p/3");
    let long = vec![7; 65_535];
    let entries: [&[u8]; 3] = [b"one", b"", &long];
    let bytes = write_entries(entries).unwrap();
    assert_eq!(read_entries(&tile, &bytes).unwrap(), entries);
    assert_eq!(read_entries(&tile, &bytes[..bytes.len() - 1]), None);
    assert_eq!(read_entries(&tile, &[&bytes[..], b"\0\0"].concat()), None);
    assert_eq!(read_entries(&tile, &[&bytes[..], b"\0"].concat()), None);
    assert_eq!(write_entries([[0; 65_536].as_slice()]), None);
    assert_eq!(Tile::of_entry(259, 259), None);
}
