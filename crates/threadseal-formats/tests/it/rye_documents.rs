//! Documents that the real Rye signed, and attackers' changes to them.

use crate::scene::*;
use std::collections::BTreeMap;
use std::path::Path;
use threadseal_core::trust::rye::TrustSet;
use threadseal_formats::document::{
    DocumentKind, ItemType, Options, Outcome, ProfileChoice, verify,
};

fn later() -> Timestamp {
    Timestamp::parse_iso_seconds("2026-12-01T00:00:00Z").unwrap()
}

/// The trust from a Rye user's folder.
fn user_trust(user: &Path) -> Trust {
    let keys = user.join(".ai/config/keys");
    let own = std::fs::read_to_string(keys.join("signing/public_key.pem")).unwrap();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(keys.join("trusted")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        files.push((name, std::fs::read(entry.path()).unwrap()));
    }
    let files = files.iter().map(|(name, bytes)| (&**name, &**bytes));
    let files: Vec<(&str, &[u8])> = files.collect();
    let set = TrustSet::load(Some(&own), &files).unwrap();
    Trust::new(set.to_store().unwrap())
}

struct Entry {
    value: Value,
    bytes: Vec<u8>,
    trust: Trust,
    path: String,
}

impl Entry {
    fn str(&self, name: &str) -> Option<&str> {
        self.value.get(name).and_then(Value::as_str)
    }

    fn expect(&self) -> &str {
        self.str("expect").unwrap()
    }

    fn why(&self) -> &str {
        self.str("why").unwrap_or_default()
    }

    fn kind(&self) -> DocumentKind {
        DocumentKind::detect(&self.path, &self.bytes).unwrap()
    }

    fn report(&self, profile: ProfileChoice, trust: &Trust) -> Report {
        let item = self.str("item_type").and_then(ItemType::parse);
        self.outcome(profile, trust, item.filter(|item| self.kind().fits(*item)))
    }

    fn outcome(&self, profile: ProfileChoice, trust: &Trust, item: Option<ItemType>) -> Report {
        let mut options = Options::new(self.kind(), trust, later());
        options.path = &self.path;
        options.profile = profile;
        options.item_type = item;
        let Outcome { report, verified } = verify(&self.bytes, &options).unwrap();
        assert_eq!(verified.is_some(), report.verdict == Verdict::Verified);
        report
    }
}

fn entries(root: &Path, index: &str, prefix: &str) -> Vec<Entry> {
    let folder = root.join("vectors/rye").join(index);
    let valid = root.join("vectors/rye/valid");
    let index = json_file(folder.join("index.json"));
    let kinds = ["signed_json", "signed_text", "trusted_key"];
    let rows = index.as_array().unwrap().iter();
    let rows = rows.filter(|row| kinds.contains(&row["kind"].as_str().unwrap()));
    let mut trusts: BTreeMap<String, Trust> = BTreeMap::new();
    rows.map(|value| {
        let file = value["file"].as_str().unwrap().to_owned();
        let real = file.starts_with("pypi_real/") || file.starts_with("repo_real/");
        let bytes = std::fs::read(match real {
            true => root.join("corpus/rye-real").join(&file),
            false => folder.join(&file),
        })
        .unwrap();
        let trust = if let Some(pem) = value["trust_key_pem"].as_str() {
            Trust::key(pem_file(root.join("corpus/rye-real").join(pem)))
        } else {
            let user = value["trust_user_space"].as_str().unwrap_or("user");
            trusts
                .entry(user.to_owned())
                .or_insert_with(|| user_trust(&valid.join(user)))
                .clone()
        };
        Entry {
            value: value.clone(),
            bytes,
            trust,
            path: format!("{prefix}{file}"),
        }
    })
    .collect()
}

/// The changes that no verifier can detect, because Rye covers neither the bytes nor their
/// presence. The verdict is never `verified`, and the uncovered bytes are named.
const BEYOND_EVIDENCE: [&str; 4] = [
    "--- frontmatter edited: NOT covered by Rye's hash",
    "shebang added: NOT covered",
    "shebang changed: NOT covered by Rye's hash",
    "shebang removed",
];

fn has(report: &Report, code: &str) -> bool {
    codes(report).contains(&code)
}

#[test]
fn every_word_of_the_real_vectors_has_its_verdict() {
    let Some(root) = beside_repository("vectors/rye") else {
        return;
    };
    let root = root.join("../..");
    let mut seen = BTreeMap::new();
    for (index, prefix) in [("valid", ""), ("tampered", "tampered/")] {
        for entry in entries(&root, index, prefix) {
            check(&entry);
            *seen.entry(entry.expect().to_owned()).or_insert(0) += 1;
        }
    }
    assert!(seen["valid"] > 100 && seen["invalid"] > 200, "{seen:?}");
}

fn check(entry: &Entry) {
    let auto = entry.report(ProfileChoice::Auto, &entry.trust);
    let rye = entry.report(ProfileChoice::Rye, &entry.trust);
    let at = format!("{} ({}): {auto:#?}", entry.path, entry.why());
    let covers_all = matches!(auto.verdict, Verdict::Verified | Verdict::Partial);
    match entry.expect() {
        "valid" => {
            assert_eq!(rye.verdict, Verdict::Verified, "{at}");
            let incomplete = has(&auto, "thread_json_incomplete");
            assert!(covers_all || incomplete, "{at}");
        }
        "valid_nonstandard_json" => {
            assert_eq!(auto.verdict, Verdict::Verified, "{at}");
            assert!(has(&auto, "nonstandard_json"), "{at}");
        }
        "invalid" if BEYOND_EVIDENCE.contains(&entry.why()) => {
            assert_eq!(auto.verdict, Verdict::Partial, "{at}");
            let named = has(&auto, "uncovered") || has(&auto, "shebang_uncovered");
            assert!(named, "{at}");
        }
        "invalid" if entry.why() == "re-signed by untrusted key" => {
            assert_eq!(auto.verdict, Verdict::UnknownSigner, "{at}");
            let own = entry.trust.store.iter().next().unwrap().key;
            let pinned = entry.report(ProfileChoice::Auto, &Trust::key(own));
            assert_eq!(pinned.verdict, Verdict::UnknownSigner, "{at}");
        }
        "invalid" => assert_eq!(auto.verdict.exit_code(), 1, "{at}"),
        "unsigned" => assert_eq!(auto.verdict, Verdict::Unsigned, "{at}"),
        "untrusted_key(hash ok)" => assert_eq!(auto.verdict, Verdict::UnknownSigner, "{at}"),
        "invalid_or_untrusted_ts" => {
            assert!(covers_all, "{at}");
            assert!(auto.unauthenticated[0].starts_with("timestamp="), "{at}");
        }
        "invalid_or_untrusted_provenance" => {
            let mut claims = auto.unauthenticated.iter();
            let named = claims.any(|claim| claim.starts_with("provenance="));
            assert!(named || auto.verdict.exit_code() != 0, "{at}");
        }
        "invalid_or_normalised" => {
            assert_eq!(auto.verdict, Verdict::Tampered, "{at}");
            assert_eq!(rye.verdict, Verdict::Verified, "{at}");
            assert!(has(&rye, "newlines_changed"), "{at}");
        }
        "invalid_if_whole_file" => assert_eq!(auto.verdict, Verdict::Partial, "{at}"),
        other => panic!("no verdict for {other:?}"),
    }
    let theirs = entry.value.get("rye");
    if let Some(theirs) = theirs.filter(|_| entry.path.starts_with("tampered/")) {
        assert_eq!(rye.compat.get("rye"), Some(&theirs.clone().into()), "{at}");
    }
    let guessed = entry.outcome(ProfileChoice::Auto, &entry.trust, None);
    assert_eq!(guessed.verdict, auto.verdict, "{at}");
}

#[test]
fn the_second_seed_verifies_under_its_publishers_key() {
    let (Some(seeds), Some(keys)) = (
        beside_repository("seeds"),
        beside_repository("corpus/rye-real/pypi_real"),
    ) else {
        return;
    };
    let mut seeds = std::fs::read_dir(seeds)
        .unwrap()
        .map(|entry| entry.unwrap());
    let is_second = |name: &str| name.starts_with("001_");
    let seed = seeds.find(|entry| is_second(entry.file_name().to_str().unwrap()));
    let bytes = std::fs::read(seed.unwrap().path()).unwrap();
    let trust = Trust::key(pem_file(keys.join("ci_public_key.pem")));
    let kind = DocumentKind::detect("seed.txt", &bytes).unwrap();
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for (bytes, verdict) in [(bytes, Verdict::Verified), (flipped, Verdict::Tampered)] {
        let outcome = verify(&bytes, &Options::new(kind, &trust, later())).unwrap();
        assert_eq!(outcome.report.verdict, verdict);
    }
}
