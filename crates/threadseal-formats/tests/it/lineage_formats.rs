//! Checkpoints that igor wrote: igor's answer for each, and the bytes after reading and writing
//! again.

use crate::scene::*;
use std::fs;
use std::path::{Path, PathBuf};
use threadseal_formats::lineage::{
    AgentIdentity, CheckpointHeader, ContentHash, OriginalVerifier, Version, seal_original,
    seal_original_reread, verify_original,
};
use threadseal_testkit::in_repository;

/// The answer of igor's parser, and whether the signature holds, in the words of its vectors.
fn said(file: &[u8]) -> (String, &'static str) {
    match CheckpointHeader::parse(file) {
        Err(error) => (error.to_string(), "none"),
        Ok(header) if !header.version.is_signed() => ("ok".to_owned(), "absent"),
        Ok(_) => {
            let held = verify_original(file).is_ok();
            ("ok".to_owned(), if held { "valid" } else { "invalid" })
        }
    }
}

/// A valid file is written again from its header and state, byte for byte. It is signed anew if a
/// key is given.
fn written_again(file: &[u8], identities: &[&Path]) -> usize {
    let header = CheckpointHeader::parse(file).unwrap();
    let state = &file[header.version.header_length()..];
    if header.version == Version::V2 {
        assert!(header.encode().is_err(), "read, not written");
        return 0;
    }
    let again = [header.encode().unwrap().as_slice(), state].concat();
    assert_eq!(again, file);
    let mut signed = 0;
    for path in identities {
        let identity = AgentIdentity::read(&fs::read(path).unwrap()).unwrap();
        if header.signer == Some(*identity.public_key().as_bytes()) {
            let signer = identity.into_original_signer();
            let mut unsigned = header.clone();
            (unsigned.signer, unsigned.signature) = (None, None);
            let sealed = seal_original(unsigned.clone(), state, &signer).unwrap();
            let pieces = seal_original_reread(unsigned, &state, &signer).unwrap();
            assert_eq!((&sealed.header, &sealed), (&header, &pieces));
            assert_eq!(sealed.hash, ContentHash::of(file));
            signed += 1;
        }
    }
    signed
}

#[test]
fn each_header_is_what_is_written_beside_it() {
    let folder = in_repository("testkit/lineage/headers");
    let index = toml_file(folder.join("index.toml"));
    let files = index["file"].as_array().unwrap();
    let keys = ["A", "B"].map(|name| in_repository(&format!("testkit/lineage/{name}.identity")));
    let keys: Vec<&Path> = keys.iter().map(PathBuf::as_path).collect();
    for entry in files {
        let name = entry["name"].as_str().unwrap();
        let file = fs::read(folder.join(name)).unwrap();
        let (parse, signature) = said(&file);
        assert_eq!(parse, entry["parse"].as_str().unwrap(), "{name}");
        assert_eq!(signature, entry["signature"].as_str().unwrap(), "{name}");
        if signature == "valid" {
            assert_eq!(written_again(&file, &keys), 1, "{name}");
        }
    }
    let there = fs::read_dir(&folder).unwrap().count();
    assert_eq!(there, files.len() + 1, "a file without an entry");
}

#[test]
fn identities_of_the_original_are_read_and_written_as_they_were() {
    for (name, multibase) in [
        ("A", "z6MkwH8eCQy7deKGzy8EEXSkLuZjNrvHC2ZajGcKBM4cC2bF"),
        ("B", "z6MkkFtePG7pZWanjY3bQLuSFsvLY1bkHeFKsLGEDXfGxhNf"),
    ] {
        let file = in_repository(&format!("testkit/lineage/{name}.identity"));
        let file = fs::read(file).unwrap();
        let identity = AgentIdentity::read(&file).unwrap();
        let did = identity.public_key().to_did_key();
        assert_eq!(did, format!("did:key:{multibase}"));
        assert_eq!(*identity.to_file(), file);
    }
}

// T-LIN-02
#[test]
fn the_originals_parser_and_signatures_are_answered_alike() {
    let Some(folder) = beside_repository("vectors/igor") else {
        return;
    };
    let index = json_file(folder.join("index.json"));
    let entries = index["entries"].as_array().unwrap();
    let mut differ = Vec::new();
    for entry in entries.iter().filter(|entry| entry["kind"] == "file") {
        let file = fs::read(folder.join(entry["path"].as_str().unwrap())).unwrap();
        let actual = &entry["igor_actual"];
        let (parse, signature) = said(&file);
        assert_eq!(parse, actual["parse"].as_str().unwrap(), "{}", entry["id"]);
        let theirs = match actual["signature"].as_str().unwrap() {
            "n/a" => "none",
            word => word,
        };
        if signature != theirs {
            differ.push(entry["id"].as_str().unwrap());
        }
    }
    // One signature fits every message under that key, and Go's verification accepts it.
    assert_eq!(differ, ["t_small_order_pubkey_forgery"]);
}

#[test]
fn every_checkpoint_of_the_originals_histories_is_written_as_it_was() {
    let Some(folder) = beside_repository("vectors/igor") else {
        return;
    };
    let keys = ["A", "B"].map(|name| folder.join(format!("identities/{name}.identity")));
    let keys: Vec<&Path> = keys.iter().map(PathBuf::as_path).collect();
    let (mut files, mut signed) = (0, 0);
    for part in ["chains", "forks", "formats"] {
        for file in files_below(&folder.join(part)) {
            // Some members of the histories were forged.
            if let Ok(header) = CheckpointHeader::parse(&file)
                && (!header.version.is_signed() || verify_original(&file).is_ok())
            {
                files += 1;
                signed += written_again(&file, &keys);
                if header.version == Version::V4 {
                    let mut verifier = OriginalVerifier::new(&header).unwrap();
                    file[209..]
                        .chunks(7)
                        .for_each(|piece| verifier.update(piece));
                    assert_eq!(verifier.finish(), (Ok(()), ContentHash::of(&file)));
                }
            }
        }
    }
    assert!(files > 500 && signed > 400, "{files} {signed}");
}

fn files_below(folder: &Path) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(fs::read(path).unwrap());
        }
    }
    files
}
