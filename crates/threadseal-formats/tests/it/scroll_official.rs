//! The conformance data that agent-scroll v0.1 publishes: its canonical bytes, its chains, its
//! edited chains. Its signed chains are by the key whose seed is 1 and 31 zero bytes.

use crate::scene::*;
use std::path::Path;
use threadseal_core::canon::{jcs, json};
use threadseal_core::encoding::hex;
use threadseal_core::key::PrivateKey;
use threadseal_formats::scroll::{self, ChainOptions, Container, Judging, Outcome, Reason};

fn published_key() -> PublicKey {
    let mut seed = [0; 32];
    seed[0] = 1;
    *PrivateKey::from_seed(seed).public_key()
}

/// The entries of the manifest of one kind and folder, each with its bytes.
fn entries(data: &Path, folder: &str) -> Vec<(Value, Vec<u8>)> {
    let manifest = std::fs::read_to_string(data.join("manifest.jsonl")).unwrap();
    let all = manifest.lines().map(|line| {
        let entry: Value = serde_json::from_str(line).unwrap();
        let file = entry["file"].as_str().unwrap().to_owned();
        (entry, file)
    });
    let in_folder = |file: &str| file.rsplit_once('/').map(|(parent, _)| parent) == Some(folder);
    all.filter(|(_, file)| in_folder(file))
        .map(|(entry, file)| (entry, std::fs::read(data.join(file)).unwrap()))
        .collect()
}

fn chain(bytes: &[u8]) -> Vec<json::Value> {
    match json::parse(bytes).unwrap() {
        json::Value::Array(turns) => turns,
        other => panic!("no array: {other:?}"),
    }
}

fn judge(bytes: &[u8], pinned: Option<PublicKey>) -> Outcome {
    let trust = trust_in([(published_key(), KeyUsage::Scroll)]);
    let options = ChainOptions {
        pinned: pinned.into_iter().collect(),
        ..ChainOptions::default()
    };
    let judging = Judging::new(&trust, now());
    scroll::judge(bytes, Container::Array, options, &judging)
}

#[test]
fn canonical_bytes_are_the_published_ones() {
    let Some(data) = beside_repository("corpus/agent-scroll-conformance") else {
        return;
    };
    let entries = entries(&data, "c1");
    assert_eq!(entries.len(), 20);
    for (entry, bytes) in entries {
        let canonical = jcs::canonicalize(&bytes).unwrap();
        assert_eq!(hex(&canonical), entry["expect_hex"], "{}", entry["id"]);
        let turn = scroll::deserialize(&bytes).unwrap();
        assert_eq!(scroll::serialize(&turn), canonical, "{}", entry["id"]);
    }
}

#[test]
fn published_chains_verify_and_each_edit_of_one_is_a_bad_hash() {
    let Some(data) = beside_repository("corpus/agent-scroll-conformance") else {
        return;
    };
    let base = entries(&data, "vectors");
    assert_eq!(base.len(), 20);
    for (entry, bytes) in base {
        let chain = chain(&bytes);
        let is_signed = chain.iter().any(|turn| turn.get("sig").is_some());
        let key = is_signed.then(published_key);
        assert!(scroll::verify(&chain, key.as_ref()).ok(), "{}", entry["id"]);
        assert!(scroll::verify_as_v01(&chain, key.as_ref()).ok());
        let report = judge(&bytes, key).report;
        let wanted = if is_signed {
            Verdict::Verified
        } else {
            Verdict::Consistent
        };
        assert_eq!(report.verdict, wanted, "{}", entry["id"]);
    }
    let edited = entries(&data, "vectors/mutations");
    assert_eq!(edited.len(), 20);
    for (entry, bytes) in edited {
        let chain = chain(&bytes);
        for result in [
            scroll::verify(&chain, None),
            scroll::verify_as_v01(&chain, None),
        ] {
            let reasons: Vec<_> = result.failures.iter().map(|f| (f.turn, f.reason)).collect();
            assert_eq!(reasons, [(0, Reason::BadHash)], "{}", entry["id"]);
        }
        assert_eq!(judge(&bytes, None).report.verdict, Verdict::Tampered);
    }
}
