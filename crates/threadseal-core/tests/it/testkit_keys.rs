//! Runs `testkit/keys`: every file is listed, and every answer is the expected one.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use threadseal_core::digest::Digest;
use threadseal_core::key::{PrivateKey, PublicKey, RyeFingerprint, Signature};
use threadseal_core::merkle;
use threadseal_core::note::{NoteError, SignedNote, parse_vkey};
use threadseal_core::trust::TrustStore;
use threadseal_core::trust::rye::TrustSet;
use threadseal_testkit::{beside_repository, in_repository};

const KIT: &str = "testkit/keys";

fn read(file: &str) -> Vec<u8> {
    std::fs::read(in_repository(KIT).join(file)).unwrap()
}

fn index() -> Vec<Value> {
    serde_json::from_slice(&read("index.json")).unwrap()
}

fn text<'a>(entry: &'a Value, member: &str) -> &'a str {
    entry[member].as_str().unwrap_or_default()
}

fn texts<'a>(entry: &'a Value, member: &str) -> Vec<&'a str> {
    let items = entry[member].as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

/// `accept <key>` or `reject`.
fn key_answer(key: Option<&PublicKey>) -> String {
    key.map_or_else(|| "reject".into(), |key| format!("accept {}", key.to_hex()))
}

fn key_expected(entry: &Value) -> String {
    match text(entry, "expect") {
        "accept" => format!("accept {}", text(entry, "key")),
        other => other.to_owned(),
    }
}

fn private_answer(entry: &Value, bytes: &[u8]) -> String {
    let pem = std::str::from_utf8(bytes).unwrap_or_default();
    let passphrase = text(entry, "passphrase").as_bytes();
    let key = match text(entry, "kind") {
        "private_key" => PrivateKey::from_pem(pem),
        "encrypted_private_key" => PrivateKey::from_encrypted_pem(pem, passphrase),
        _ => PrivateKey::from_igor_identity(bytes),
    };
    if entry["written"] == true {
        assert_eq!(key.as_ref().unwrap().to_pem().as_bytes(), bytes);
    }
    key_answer(key.ok().as_ref().map(PrivateKey::public_key))
}

fn note_answer(entry: &Value, bytes: &[u8]) -> (String, Vec<String>) {
    let known: Vec<_> = texts(entry, "known")
        .into_iter()
        .map(|vkey| parse_vkey(vkey).unwrap())
        .collect();
    let note = std::str::from_utf8(bytes)
        .map_err(|_| NoteError::Malformed("not UTF-8"))
        .and_then(SignedNote::parse);
    if let Ok(note) = &note {
        assert_eq!(note.to_string().as_bytes(), bytes);
    }
    let signers = match note.as_ref().map(|note| note.verify(&known)) {
        Ok(Ok(signers)) => signers,
        Err(NoteError::Malformed(_)) => return ("malformed".into(), Vec::new()),
        Ok(Err(NoteError::BadSignature(_))) => return ("bad_signature".into(), Vec::new()),
        Ok(Err(NoteError::NoKnownSigner)) => return ("no_known_signer".into(), Vec::new()),
        other => panic!("{other:?}"),
    };
    let names = signers.iter().map(|(name, _)| name.to_string()).collect();
    ("verified".into(), names)
}

fn check_trust_store(entry: &Value, bytes: &[u8]) {
    let store = std::str::from_utf8(bytes).ok().map(TrustStore::parse);
    match (text(entry, "expect"), store) {
        ("accept", Some(Ok(store))) => {
            let names: Vec<_> = store.iter().map(|entry| entry.name.as_str()).collect();
            assert_eq!(names, texts(entry, "keys"), "{entry}");
            let written = store.to_toml();
            assert_eq!(TrustStore::parse(&written).as_ref(), Ok(&store), "{entry}");
            if entry["canonical"] == true {
                assert_eq!(written.as_bytes(), bytes, "{entry}");
            }
        }
        ("reject", Some(Err(error))) => {
            if let Some(line) = entry["line"].as_u64() {
                let place = format!("line {line}:");
                assert!(error.to_string().contains(&place), "{entry}: {error}");
            }
        }
        ("reject", None) => {}
        (_, other) => panic!("{entry}: {other:?}"),
    }
}

fn rye_answer(entry: &Value, bytes: &[u8]) -> &'static str {
    let own = String::from_utf8(read("rye_own.pem")).unwrap();
    let set = TrustSet::load(Some(&own), &[(text(entry, "file_name"), bytes)]).unwrap();
    assert_eq!(set.keys().len() + set.refused().len(), 1);
    if set.keys().is_empty() {
        "reject"
    } else {
        "accept"
    }
}

fn check_signatures(bytes: &[u8]) {
    for entry in serde_json::from_slice::<Vec<Value>>(bytes).unwrap() {
        let signature = Signature::from_slice(&unhex(text(&entry, "signature"))).unwrap();
        let key = PublicKey::from_hex(text(&entry, "key")).unwrap();
        let holds = key
            .verify(&unhex(text(&entry, "message")), &signature)
            .is_ok();
        assert_eq!(holds, entry["expect"] == "accept", "{entry}");
    }
}

fn check_merkle(bytes: &[u8]) {
    for entry in serde_json::from_slice::<Vec<Value>>(bytes).unwrap() {
        let leaves: Vec<Vec<u8>> = match entry["count"].as_u64() {
            Some(count) => (0..count).map(|i| i.to_string().into_bytes()).collect(),
            None => texts(&entry, "leaves").into_iter().map(unhex).collect(),
        };
        let hashes: Vec<Digest> = leaves.iter().map(|leaf| merkle::leaf_hash(leaf)).collect();
        assert_eq!(
            merkle::root(&hashes).to_hex(),
            text(&entry, "root"),
            "{entry}"
        );
    }
}

fn check(entry: &Value) {
    let bytes = read(text(entry, "file"));
    let expect = text(entry, "expect");
    match text(entry, "kind") {
        "public_key" => {
            let key = PublicKey::parse_any(&bytes).ok();
            assert_eq!(key_answer(key.as_ref()), key_expected(entry), "{entry}");
            if let Some(fingerprint) = RyeFingerprint::parse_hex(text(entry, "rye_fingerprint")) {
                assert_eq!(key.map(|key| key.rye_fingerprint()), Some(fingerprint));
            }
        }
        "private_key" | "encrypted_private_key" | "igor_identity" => {
            assert_eq!(
                private_answer(entry, &bytes),
                key_expected(entry),
                "{entry}"
            );
        }
        "signatures" => check_signatures(&bytes),
        "merkle" => check_merkle(&bytes),
        "note" => {
            let (answer, signers) = note_answer(entry, &bytes);
            assert_eq!(answer, expect, "{entry}");
            assert_eq!(signers, texts(entry, "signers"), "{entry}");
        }
        "trust_store" => check_trust_store(entry, &bytes),
        "rye_trusted_key" => assert_eq!(rye_answer(entry, &bytes), expect, "{entry}"),
        other => panic!("unknown kind {other}"),
    }
}

#[test]
fn every_vector_gets_its_expected_answer() {
    let index = index();
    assert!(index.len() > 150);
    index.iter().for_each(check);
}

fn files_below(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        let name = format!("{prefix}{name}");
        if path.is_dir() {
            files_below(&path, &format!("{name}/"), found);
        } else {
            found.insert(name);
        }
    }
}

#[test]
fn no_vector_is_forgotten() {
    let mut found = BTreeSet::new();
    files_below(&in_repository(KIT), "", &mut found);
    let mut listed: BTreeSet<_> = index().iter().map(|e| text(e, "file").to_owned()).collect();
    listed.extend(["README.md".to_owned(), "index.json".to_owned()]);
    assert_eq!(found, listed);
}

#[test]
fn the_key_file_that_rye_publishes_vouches_for_itself_only() {
    let Some(folder) = beside_repository("corpus/rye-real/pypi_real") else {
        return;
    };
    let name = "6ea18199041a1ea8.toml";
    for bundle in ["ryeos_core", "ryeos_std"] {
        let path = folder.join(format!("{bundle}__.ai__config__keys__trusted__{name}"));
        let bytes = std::fs::read(path).unwrap();
        let pem = std::fs::read_to_string(folder.join("ci_public_key.pem")).unwrap();
        let of_bundle = TrustSet::load(None, &[(name, bytes.as_slice())]).unwrap();
        assert_eq!(of_bundle.keys()[0].owner, "github-ci");
        assert_eq!(of_bundle.keys()[0].key, PublicKey::from_pem(&pem).unwrap());
        let own = String::from_utf8(read("rye_own.pem")).unwrap();
        let of_user = TrustSet::load(Some(&own), &[(name, bytes.as_slice())]).unwrap();
        assert!(of_user.keys().is_empty());
    }
}
