//! Entries that are found, and distinguished from changed ones.

use super::*;
use std::fs;
use std::sync::Arc;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer as _};
use threadseal_core::record::RecordId;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{TrustName, TrustStore, TrustedKey};
use threadseal_formats::document::{NativeSealing, RyeSigning, sign_native, sign_rye};
use threadseal_store::clock::ManualClock;
use threadseal_store::heads::MemoryHeadStore;
use threadseal_store::random::SeededRandom;
use threadseal_store::sys::RealFs;

struct Bench {
    _folder: tempfile::TempDir,
    project: Project,
    host: Host,
    trust: Trust,
    key: LocalSigner,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Native);
        let mut store = TrustStore::new();
        let name = TrustName::parse("native").unwrap();
        store
            .add(TrustedKey::new(name, *key.public_key(), [KeyUsage::Native]))
            .unwrap();
        let start = Timestamp::from_micros(1_800_000_000_000_000).unwrap();
        Self {
            project: Project::init(&RealFs, folder.path()).unwrap(),
            host: Host {
                fs: RealFs::shared(),
                clock: Arc::new(ManualClock::new(start)),
                random: Arc::new(SeededRandom::new(7)),
                heads: Arc::new(MemoryHeadStore::default()),
            },
            trust: Trust::new(store),
            key,
            _folder: folder,
        }
    }

    /// Writes an entry, signed as the runtime signs it.
    fn write(&self, id: &str, text: &str) -> PathBuf {
        let rye = LocalSigner::new(PrivateKey::from_seed([2; 32]), KeyUsage::Rye);
        let time = self.host.clock.now().unwrap();
        let signing = RyeSigning {
            item_type: Some(ItemType::Knowledge),
            time,
            signer: &rye,
        };
        let signed = sign_rye(text.as_bytes(), DocumentKind::Markdown, &signing).unwrap();
        let sealing = NativeSealing {
            record: RecordId::from_bytes([9; 32]),
            seq: 0,
            time,
            signer: &self.key,
        };
        let sealed = sign_native(&signed, DocumentKind::Markdown, &sealing).unwrap();
        let path = self.project.ai().join("knowledge").join(format!("{id}.md"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, sealed).unwrap();
        path
    }

    fn search(&self, query: &str) -> Vec<Hit> {
        search(&self.host, &self.project, &self.trust, query)
            .unwrap()
            .hits
    }
}

#[test]
fn an_entry_is_found_by_all_of_its_words_in_any_case_and_order() {
    let bench = Bench::new();
    bench.write(
        "agent/threads/test/task/task-1",
        "# test/task\n\nThe *answer* is in the straße.\n",
    );
    let hits = bench.search("STRASSE answer");
    assert!(hits.is_empty());
    let hits = bench.search("Straße ANSWER");
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].id, "agent/threads/test/task/task-1");
    assert_eq!(hits[0].verdict, Verdict::Verified);
    assert_eq!((hits[0].count, hits[0].line), (2, 4));
    assert_eq!(hits[0].snippet, "The *answer* is in the straße.");
    // A word of the signature alone.
    assert!(bench.search("signed").is_empty());
    assert!(search(&bench.host, &bench.project, &bench.trust, "  ").is_err());
}

#[test]
fn changed_and_unsigned_entries_are_found_and_told_from_verified_ones() {
    let bench = Bench::new();
    bench.write("a/verified", "needle\n");
    let changed = bench.write("a/changed", "needle\n");
    let text = fs::read_to_string(&changed).unwrap();
    fs::write(
        &changed,
        text.replace("needle\n", "needle, needle, needle\n"),
    )
    .unwrap();
    let plain = bench.project.ai().join("knowledge/plain.md");
    fs::write(plain, "needle needle\n").unwrap();
    let told: Vec<(String, Verdict)> = bench
        .search("needle")
        .into_iter()
        .map(|hit| (hit.id, hit.verdict))
        .collect();
    let expected = [
        ("a/changed", Verdict::Tampered),
        ("plain", Verdict::Unsigned),
        ("a/verified", Verdict::Verified),
    ];
    assert_eq!(told, expected.map(|(id, verdict)| (id.to_owned(), verdict)));
}

#[test]
fn links_are_not_followed_and_large_files_are_named() {
    let bench = Bench::new();
    let knowledge = bench.project.ai().join("knowledge");
    std::os::unix::fs::symlink("/etc", knowledge.join("etc")).unwrap();
    fs::write(
        knowledge.join("large.md"),
        vec![b'x'; MAX_KNOWLEDGE_BYTES + 1],
    )
    .unwrap();
    fs::write(knowledge.join("other.txt"), "needle").unwrap();
    let found = search(&bench.host, &bench.project, &bench.trust, "needle").unwrap();
    assert!(found.hits.is_empty());
    assert_eq!(found.too_large, [knowledge.join("large.md")]);
}
