//! Items that are found, and items that are refused, with real files and real signatures.

use super::file::*;
use super::*;
use std::fs;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::error::ErrorKind;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey, Signer};
use threadseal_core::record::RecordId;
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustName, TrustStore, TrustedKey};
use threadseal_formats::document;
use threadseal_formats::document::DocumentKind;
use threadseal_formats::document::Options;
use threadseal_formats::document::{NativeSealing, RyeSigning, sign_native, sign_rye};
use threadseal_store::heads::RecordKind;
use threadseal_store::heads::{HeadStore, MemoryHeadStore};
use threadseal_store::sys::RealFs;

const TEXT: &str =
    "# T\n\n```xml\n<directive name=\"t\" version=\"1\"><metadata/></directive>\n```\n\nDo it.\n";

struct Bench {
    folder: tempfile::TempDir,
    trust: Trust,
    heads: MemoryHeadStore,
}

impl Bench {
    fn new() -> Self {
        let mut store = TrustStore::new();
        for (name, signer) in [("native", native()), ("rye", rye())] {
            let name = TrustName::parse(name).unwrap();
            let key = TrustedKey::new(name, *signer.public_key(), [signer.usage()]);
            store.add(key).unwrap();
        }
        Self {
            folder: tempfile::tempdir().unwrap(),
            trust: Trust::new(store),
            heads: MemoryHeadStore::default(),
        }
    }

    fn space(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn find(&self, kind: ItemKind, id: &str, policy: ItemPolicy) -> Result<Option<Item>, Error> {
        let finder = Finder::new(RealFs::shared(), vec![self.space("p"), self.space("u")]);
        let grounds = Grounds {
            trust: &self.trust,
            now: now(),
            heads: &self.heads,
            policy,
        };
        finder.find(kind, &ItemId::parse(id).unwrap(), &grounds)
    }

    fn directive(&self, policy: ItemPolicy) -> Result<Item, Error> {
        self.find(ItemKind::Directive, "a/t", policy)
            .map(|item| item.unwrap())
    }
}

fn now() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000).unwrap()
}

fn native() -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([1; 32]), KeyUsage::Native)
}

fn rye() -> LocalSigner {
    LocalSigner::new(PrivateKey::from_seed([2; 32]), KeyUsage::Rye)
}

fn natively(text: &str, signer: &LocalSigner) -> Vec<u8> {
    let sealing = NativeSealing {
        record: RecordId::from_bytes([7; 32]),
        seq: 0,
        time: now(),
        signer,
    };
    sign_native(text.as_bytes(), DocumentKind::Markdown, &sealing).unwrap()
}

fn for_rye(text: &str, kind: DocumentKind, item_type: document::ItemType) -> Vec<u8> {
    let signing = RyeSigning {
        item_type: Some(item_type),
        time: now(),
        signer: &rye(),
    };
    sign_rye(text.as_bytes(), kind, &signing).unwrap()
}

const FILE: &str = "p/.ai/directives/a/t.md";

#[test]
fn a_sealed_item_is_used_and_recorded() {
    let bench = Bench::new();
    let bytes = natively(TEXT, &native());
    bench.put(FILE, &bytes);
    let item = bench.directive(ItemPolicy::Signed).unwrap();
    // Callers read the text without its seal.
    assert_eq!(item.text(), TEXT);
    let key = native().public_key().key_id().to_hex();
    let used = serde_json::to_value(item.used()).unwrap();
    assert_eq!(
        used,
        serde_json::json!({"kind": "directive", "id": "a/t", "sha256": Digest::of(&bytes).to_hex(),
            "standing": "signed", "key": key, "coverage": "native"})
    );
}

// T-DEC-01
#[test]
fn a_tampered_or_forged_item_is_refused_under_every_policy() {
    let bench = Bench::new();
    let sealed = String::from_utf8(natively(TEXT, &native())).unwrap();
    let changed = sealed.replace("Do it.", "Do worse.");
    let signed = for_rye(TEXT, DocumentKind::Markdown, document::ItemType::Directive);
    let signed = String::from_utf8(signed).unwrap();
    let changed_rye = signed.replace("version=\"1\"", "version=\"2\"");
    for text in [changed, changed_rye] {
        bench.put(FILE, text.as_bytes());
        for policy in [ItemPolicy::Signed, ItemPolicy::AllowUnsigned] {
            let error = bench.directive(policy).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            assert!(error.to_string().contains("tampered"), "{error}");
        }
    }
}

// T-DEC-02
#[test]
fn what_nobody_vouches_for_needs_the_policy_that_allows_it() {
    let bench = Bench::new();
    let stranger = LocalSigner::new(PrivateKey::from_seed([9; 32]), KeyUsage::Native);
    let prompt_outside = for_rye(TEXT, DocumentKind::Markdown, document::ItemType::Directive);
    let key = rye().public_key().key_id().to_hex();
    for (bytes, standing) in [
        (TEXT.as_bytes().to_vec(), Standing::Unsigned),
        (natively(TEXT, &stranger), Standing::UnknownSigner),
        (
            prompt_outside,
            Standing::Signed {
                key,
                coverage: Coverage::RyePart,
            },
        ),
    ] {
        bench.put(FILE, &bytes);
        let error = bench.directive(ItemPolicy::Signed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        let item = bench.directive(ItemPolicy::AllowUnsigned).unwrap();
        assert_eq!(*item.standing(), standing);
    }
}

#[test]
fn what_rye_signs_whole_is_whole() {
    let bench = Bench::new();
    let tool = for_rye("a: 1\n", DocumentKind::Yaml, document::ItemType::Tool);
    bench.put("p/.ai/tools/x/y.yaml", &tool);
    let item = bench.find(ItemKind::Tool, "x.y", ItemPolicy::Signed);
    assert!(matches!(
        item.unwrap().unwrap().standing(),
        Standing::Signed {
            coverage: Coverage::Rye,
            ..
        }
    ));
    // Rye keeps graphs among its tools.
    let graph = bench.find(ItemKind::Graph, "x/y", ItemPolicy::Signed);
    assert!(graph.unwrap().is_some());
}

// T-DEC-03
#[test]
fn a_version_that_is_older_than_a_known_head_is_refused() {
    use threadseal_store::heads::StoredHead;
    let bench = Bench::new();
    let bytes = natively(TEXT, &native());
    bench.put(FILE, &bytes);
    let options = Options::new(DocumentKind::Markdown, &bench.trust, now());
    let mut head = document::verify(&bytes, &options)
        .unwrap()
        .report
        .head
        .unwrap();
    head.seq += 1;
    let real = fs::canonicalize(bench.folder.path().join(FILE)).unwrap();
    let stored = StoredHead {
        head,
        root: None,
        key: None,
        kind: RecordKind::Document,
        is_final: false,
        thread: None,
        first_seen: now(),
        updated: now(),
        path_hint: Some(real.to_string_lossy().into_owned()),
        aliases: Vec::new(),
        logged: None,
        vouches: true,
    };
    let _ = bench.heads.create(&stored).unwrap();
    for bytes in [bytes, TEXT.as_bytes().to_vec()] {
        bench.put(FILE, &bytes);
        let error = bench.directive(ItemPolicy::AllowUnsigned).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    }
}

// T-TOL-06
#[test]
fn a_copy_of_a_sealed_item_is_refused_and_a_moved_one_or_a_copied_project_is_not() {
    use threadseal_store::heads::StoredHead;
    let bench = Bench::new();
    let bytes = natively(TEXT, &native());
    bench.put(FILE, &bytes);
    let options = Options::new(DocumentKind::Markdown, &bench.trust, now());
    let report = document::verify(&bytes, &options).unwrap().report;
    let at = bench.folder.path().join(FILE);
    let real = fs::canonicalize(&at).unwrap();
    let stored = StoredHead {
        head: report.head.unwrap(),
        root: None,
        key: None,
        kind: RecordKind::Document,
        is_final: false,
        thread: None,
        first_seen: now(),
        updated: now(),
        path_hint: Some(real.to_string_lossy().into_owned()),
        aliases: Vec::new(),
        logged: None,
        vouches: true,
    };
    let _ = bench.heads.create(&stored).unwrap();
    assert!(bench.directive(ItemPolicy::Signed).is_ok());
    bench.put("p/.ai/directives/b/t.md", &bytes);
    let copy = || bench.find(ItemKind::Directive, "b/t", ItemPolicy::AllowUnsigned);
    let error = copy().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("a copy of"), "{error}");
    bench.put("u/.ai/directives/c/t.md", &bytes);
    assert!(
        bench
            .find(ItemKind::Directive, "c/t", ItemPolicy::Signed)
            .is_ok()
    );
    for other in [None, Some(&b"another"[..])] {
        fs::remove_file(&at).unwrap();
        if let Some(other) = other {
            fs::write(&at, other).unwrap();
        }
        assert!(copy().is_ok());
        fs::write(&at, &bytes).unwrap();
    }
}

// T-DEC-04
#[test]
fn an_older_item_under_another_spelling_of_its_id_is_refused() {
    use threadseal_store::heads::StoredHead;
    let bench = Bench::new();
    let at =
        |seconds: u64| Timestamp::from_micros(now().as_micros() + seconds * 1_000_000).unwrap();
    let tool = |record: u8, says: &str| {
        let sealing = NativeSealing {
            record: RecordId::from_bytes([record; 32]),
            seq: 0,
            time: now(),
            signer: &native(),
        };
        sign_native(says.as_bytes(), DocumentKind::Yaml, &sealing).unwrap()
    };
    let (older, newer) = (tool(1, "says: older\n"), tool(2, "says: newer\n"));
    let path = |ending: &str| format!("p/.ai/tools/a/t.{ending}");
    for (bytes, when) in [(&older, at(0)), (&newer, at(5))] {
        // Both were sealed in one place, the later one over the other.
        bench.put(&path("yaml"), bytes);
        let options = Options::new(DocumentKind::Yaml, &bench.trust, now());
        let report = document::verify(bytes, &options).unwrap().report;
        let real = fs::canonicalize(bench.folder.path().join(path("yaml"))).unwrap();
        let stored = StoredHead {
            head: report.head.unwrap(),
            kind: RecordKind::Document,
            is_final: false,
            thread: None,
            first_seen: when,
            updated: when,
            path_hint: Some(real.to_string_lossy().into_owned()),
            aliases: Vec::new(),
            logged: None,
            vouches: true,
            key: None,
            root: None,
        };
        let _ = bench.heads.create(&stored).unwrap();
    }
    let find = || bench.find(ItemKind::Tool, "a/t", ItemPolicy::AllowUnsigned);
    assert!(find().unwrap().unwrap().text().contains("newer"));
    // Beside the newer one it would be taken, or not, by its ending.
    bench.put(&path("yml"), &older);
    let error = find().unwrap_err();
    assert!(error.to_string().contains("are both tool a/t"), "{error}");
    fs::remove_file(bench.folder.path().join(path("yaml"))).unwrap();
    let error = find().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("rolled_back"), "{error}");
    // The newest one may have been moved, and one that this host never saw may be newer still.
    for moved in [newer, tool(3, "says: unknown\n")] {
        bench.put(&path("yml"), &moved);
        assert!(find().is_ok());
    }
}

// T-DEC-01
#[test]
fn the_project_comes_before_the_user_and_both_before_what_is_built_in() {
    let bench = Bench::new();
    let policy = ItemPolicy::AllowUnsigned;
    let id = "rye/agent/continuation";
    let find = || {
        bench
            .find(ItemKind::Directive, id, policy)
            .unwrap()
            .unwrap()
    };
    assert_eq!(*find().standing(), Standing::Builtin);
    bench.put("u/.ai/directives/rye/agent/continuation.md", b"user");
    assert_eq!(find().text(), "user");
    bench.put("p/.ai/directives/rye/agent/continuation.md", b"project");
    assert_eq!(find().text(), "project");
    assert!(
        bench
            .find(ItemKind::Tool, "none", policy)
            .unwrap()
            .is_none()
    );
    // A file that is refused hides the later ones; else removing a seal would choose another.
    assert!(
        bench
            .find(ItemKind::Directive, id, ItemPolicy::Signed)
            .is_err()
    );
}

// T-DEC-13
#[cfg(unix)]
#[test]
fn a_link_out_of_the_space_is_refused() {
    let bench = Bench::new();
    bench.put("outside.md", TEXT.as_bytes());
    bench.put("p/.ai/directives/a/inside.md", TEXT.as_bytes());
    let link = |target: &Path| {
        let path = bench.folder.path().join(FILE);
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(target, path).unwrap();
    };
    link(&bench.folder.path().join("outside.md"));
    let error = bench.directive(ItemPolicy::AllowUnsigned).unwrap_err();
    assert!(error.to_string().contains("leads out of"), "{error}");
    link(Path::new("inside.md"));
    assert!(bench.directive(ItemPolicy::AllowUnsigned).is_ok());
}
