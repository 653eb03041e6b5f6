//! Rye transcripts that the original package made, and thousands of changes to them.
//!
//! The data lies beside the checkout or where `THREADSEAL_SHARED` says; without it the tests say
//! that they are skipped.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "all of this file is test code, and it asks the environment where its data lies"
)]

use std::path::PathBuf;
use threadseal::canon::json::{Value, parse_python};
use threadseal::key::PublicKey;
use threadseal::transcript::rye_compat::{self, Answers};

fn shared() -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let folder = std::env::var_os("THREADSEAL_SHARED").map_or(beside.into(), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no shared data at {}", folder.display());
    None
}

/// One transcript of the indexes.
struct Entry {
    name: String,
    bytes: Vec<u8>,
    about: Value,
    keys: Vec<PublicKey>,
}

fn entries() -> Vec<Entry> {
    let Some(shared) = shared() else {
        return Vec::new();
    };
    let rye = shared.join("vectors/rye");
    let mut out = Vec::new();
    for half in ["valid", "tampered"] {
        let index = std::fs::read(rye.join(half).join("index.json")).unwrap();
        for about in parse_python(&index).unwrap().value.as_array().unwrap() {
            if about.get("kind").and_then(Value::as_str) != Some("transcript") {
                continue;
            }
            let name = about.get("file").and_then(Value::as_str).unwrap();
            let here = rye.join(half).join(name);
            let moved = shared.join("corpus/rye-real").join(name);
            let bytes = std::fs::read(if here.exists() { here } else { moved }).unwrap();
            let user = about
                .get("trust_user_space")
                .and_then(Value::as_str)
                .unwrap_or("user");
            out.push(Entry {
                name: format!("{half}/{name}"),
                bytes,
                about: about.clone(),
                keys: trusted_keys(&rye.join("valid").join(user)),
            });
        }
    }
    assert!(out.len() > 250, "{}", out.len());
    out
}

/// The keys in a user's trust folder.
fn trusted_keys(user: &std::path::Path) -> Vec<PublicKey> {
    let folder = std::fs::read_dir(user.join(".ai/config/keys/trusted")).unwrap();
    let key = |text: &str| {
        let pem = text.find("-----BEGIN").map(|at| &text[at..])?;
        PublicKey::from_pem(pem.split("\"\"\"").next()?).ok()
    };
    folder
        .map(|file| key(&std::fs::read_to_string(file.unwrap().path()).unwrap()).unwrap())
        .collect()
}

#[test]
fn the_original_answers_are_given_for_every_transcript() {
    let mut compared = 0;
    for entry in entries() {
        let Some(recorded) = entry.about.get("rye_strict") else {
            continue;
        };
        let look_up = |fingerprint: &str| {
            entry
                .keys
                .iter()
                .find(|key| key.rye_fingerprint().to_hex() == fingerprint)
                .copied()
        };
        let Answers::Given { strict, lenient } = rye_compat::verify(&entry.bytes, &look_up) else {
            panic!("{}", entry.name);
        };
        assert_eq!(strict.value(), recorded, "{}", entry.name);
        assert_eq!(
            Some(lenient.value()),
            entry.about.get("rye_lenient"),
            "{}",
            entry.name
        );
        compared += 1;
    }
    println!("{compared} recorded answers");
}
