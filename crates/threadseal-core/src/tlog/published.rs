//! The published examples of the specifications and their first implementation
//! (`testkit/tlog/published.json`), run on this crate.

use super::checkpoint::Checkpoint;
use super::cosignature;
use super::proof_file::ProofFile;
use super::tile::{TILE_WIDTH, Tile, TileKind};
use super::verifier::VerifierKey;
use crate::encoding;
use crate::key::{KeyUsage, LocalSigner, Message, PrivateKey};
use crate::merkle::leaf_hash;
use crate::note::{self, KeyName, NoteText, SignedNote, parse_vkey};
use serde_json::Value;

/// The vectors of one kind; there is at least one.
fn vectors(kind: &str) -> Vec<Value> {
    let all: Value =
        serde_json::from_str(include_str!("../../../../testkit/tlog/published.json")).unwrap();
    let of_kind = all[kind].as_array().unwrap().clone();
    assert!(!of_kind.is_empty(), "{kind}");
    of_kind
}

fn text<'v>(vector: &'v Value, name: &str) -> &'v str {
    vector[name].as_str().unwrap()
}

fn texts(vector: &Value, name: &str) -> Option<Vec<String>> {
    let all = vector[name].as_array()?.iter();
    Some(all.map(|one| one.as_str().unwrap().to_owned()).collect())
}

#[test]
fn notes_are_signed_by_the_keys_that_are_published_for_them() {
    for vector in vectors("notes") {
        let keys = texts(&vector, "keys").unwrap();
        let keys: Vec<_> = keys.iter().map(|key| parse_vkey(key).unwrap()).collect();
        let note = SignedNote::parse(text(&vector, "note")).unwrap();
        assert_eq!(note.to_string(), text(&vector, "note"));
        let signers = note.verify(&keys).ok();
        let names = signers.unwrap_or_default().into_iter();
        let names: Vec<String> = names.map(|(name, _)| name.as_str().to_owned()).collect();
        assert_eq!(
            names,
            texts(&vector, "signed_by").unwrap_or_default(),
            "{vector}"
        );
        if vector["signed_by"].is_null() {
            assert!(note.verify(&keys).is_err(), "{vector}");
        }
    }
    for vector in vectors("no_notes") {
        assert!(
            SignedNote::parse(text(&vector, "note")).is_err(),
            "{vector}"
        );
    }
}

#[test]
fn keys_are_read_and_sign_as_published() {
    for vector in vectors("signing") {
        let seed = encoding::parse_hex_array(text(&vector, "seed")).unwrap();
        let key = PrivateKey::from_seed(seed);
        let name = KeyName::parse(text(&vector, "name")).unwrap();
        assert_eq!(note::vkey(&name, key.public_key()), text(&vector, "key"));
        let signer = LocalSigner::new(key, KeyUsage::Native);
        let said = NoteText::parse(text(&vector, "text")).unwrap();
        let signed = note::sign(said, &name, &signer).unwrap();
        assert_eq!(signed.to_string(), text(&vector, "note"));
    }
    for vector in vectors("no_keys") {
        assert!(parse_vkey(text(&vector, "key")).is_err(), "{vector}");
        assert!(
            VerifierKey::parse(text(&vector, "key")).is_err(),
            "{vector}"
        );
    }
}

#[test]
fn checkpoints_and_what_witnesses_sign_are_the_published_texts() {
    for vector in vectors("checkpoints") {
        let said = NoteText::parse(text(&vector, "text")).unwrap();
        let read = Checkpoint::parse(&said).unwrap();
        assert_eq!(read.origin().as_str(), text(&vector, "origin"));
        assert_eq!(Some(read.tree().size), vector["size"].as_u64());
        if let Some(leaf) = vector["leaf"].as_str() {
            assert_eq!(read.tree().root, leaf_hash(leaf.as_bytes()));
        }
        assert_eq!(read.to_string(), text(&vector, "text"));
    }
    for vector in vectors("no_checkpoints") {
        let said = NoteText::parse(text(&vector, "text")).unwrap();
        assert!(Checkpoint::parse(&said).is_err(), "{vector}");
    }
    for vector in vectors("cosignatures") {
        let note = SignedNote::parse(text(&vector, "note")).unwrap();
        let checkpoint = Checkpoint::parse(note.text()).unwrap();
        let mut lines = note.signatures().iter();
        let line = lines.find(|line| line.name().as_str() == text(&vector, "name"));
        let (time, _) = cosignature::split(line.unwrap().signature()).unwrap();
        assert_eq!(Some(time), vector["time"].as_u64());
        let signed = Message::of_cosignature(time, &checkpoint.to_string());
        assert_eq!(signed.as_bytes(), text(&vector, "signed").as_bytes());
    }
}

#[test]
fn tiles_have_the_published_paths_and_trees_the_published_tiles() {
    for vector in vectors("tiles") {
        let level = vector["level"].as_u64();
        let kind = level.map_or(TileKind::Entries, |level| {
            TileKind::Hashes(u32::try_from(level).unwrap())
        });
        let [index, width] = ["index", "width"].map(|name| vector[name].as_u64().unwrap());
        let tile = Tile::new(kind, index, width).unwrap();
        assert_eq!(tile.to_string(), text(&vector, "path"));
        assert_eq!(Tile::parse(text(&vector, "path")), Some(tile));
    }
    for vector in vectors("no_tiles") {
        assert_eq!(Tile::parse(text(&vector, "path")), None, "{vector}");
    }
    for vector in vectors("trees") {
        let tiles = Tile::grown(0, vector["size"].as_u64().unwrap());
        let levels = vector["levels"].as_array().unwrap();
        for (number, level) in (0..).zip(levels) {
            let of_level = || {
                let kind = TileKind::Hashes(number);
                tiles.iter().filter(move |tile| tile.kind() == kind)
            };
            let full = of_level().filter(|tile| tile.width() == TILE_WIDTH);
            assert_eq!(Some(full.count() as u64), level["full"].as_u64());
            let part = of_level().find(|tile| tile.width() < TILE_WIDTH);
            assert_eq!(Some(part.map_or(0, Tile::width)), level["part"].as_u64());
        }
        let hashes = tiles.iter().filter(|tile| tile.kind() != TileKind::Entries);
        let counted = levels.iter().map(|level| {
            level["full"].as_u64().unwrap() + u64::from(level["part"].as_u64() != Some(0))
        });
        assert_eq!(hashes.count() as u64, counted.sum::<u64>());
    }
}

#[test]
fn the_illustration_of_a_proof_is_none_and_its_form_is_read() {
    for vector in vectors("no_proofs") {
        assert!(ProofFile::parse(text(&vector, "text")).is_err(), "{vector}");
    }
    for vector in vectors("proof_bodies") {
        let read = ProofFile::parse(text(&vector, "text")).unwrap();
        assert_eq!(read.to_string(), text(&vector, "text"));
        assert!(read.check(b"an entry").is_err());
    }
}
