//! Items that are found, and items that are refused, with real files and real signatures.

use super::file::*;
use super::*;
use crate::testing::prelude::*;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, LocalSigner, PrivateKey};
use threadseal_core::record::RecordId;
use threadseal_core::time::Timestamp;
use threadseal_formats::document::{
    NativeSealing, Options, RyeSigning, sign_native, sign_rye, verify,
};
use threadseal_store::heads::{RecordKind, StoredHead};

const TEXT: &str =
    "# T\n\n```xml\n<directive name=\"t\" version=\"1\"><metadata/></directive>\n```\n\nDo it.\n";

const FILE: &str = "p/.ai/directives/a/t.md";

/// Writes a file below a project `p` or a user's space `u`.
fn put(scene: &Scene, path: &str, bytes: impl AsRef<[u8]>) {
    let path = scene.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn find(
    scene: &Scene,
    kind: ItemKind,
    id: &str,
    policy: ItemPolicy,
) -> Result<Option<Item>, Error> {
    let spaces = vec![scene.path("p"), scene.path("u")];
    let mut grounds = scene.grounds();
    (grounds.now, grounds.policy) = (now(), policy);
    Finder::new(RealFs::shared(), spaces).find(kind, &ItemId::parse(id).unwrap(), &grounds)
}

/// The item in [`FILE`].
fn directive(scene: &Scene, policy: ItemPolicy) -> Result<Item, Error> {
    find(scene, ItemKind::Directive, "a/t", policy).map(Option::unwrap)
}

#[test]
fn an_item_that_is_missing_is_refused_with_the_nearest_one() {
    let scene = Scene::new();
    put(&scene, FILE, sealed());
    let load = |id: &str| {
        let spaces = vec![scene.path("p")];
        let found = Finder::new(RealFs::shared(), spaces).load(
            ItemKind::Directive,
            &ItemId::parse(id).unwrap(),
            &scene.grounds(),
        );
        found.err().unwrap().to_string()
    };
    for near in ["a/tt", "t", "b/t"] {
        load(near).has("; hint: the nearest is a/t");
    }
    assert!(!load("demo/publish").contains("hint"));
}

#[track_caller]
fn refuses<T>(found: Result<T, Error>, why: &str) {
    let error = found.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    error.to_string().has(why);
}

fn now() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000).unwrap()
}

fn seal(text: &str, kind: DocumentKind, record: u8, seed: u8) -> Vec<u8> {
    let sealing = NativeSealing {
        record: RecordId::from_bytes([record; 32]),
        seq: 0,
        time: now(),
        signer: &LocalSigner::new(PrivateKey::from_seed([seed; 32]), KeyUsage::Native),
    };
    sign_native(text.as_bytes(), kind, &sealing).unwrap()
}

/// [`TEXT`] as the owner seals it.
fn sealed() -> Vec<u8> {
    seal(TEXT, DocumentKind::Markdown, 7, 1)
}

fn for_rye(scene: &Scene, text: &str, kind: DocumentKind, item_type: ItemType) -> Vec<u8> {
    let signing = RyeSigning {
        item_type: Some(item_type),
        time: now(),
        signer: &*scene.keys.rye,
    };
    sign_rye(text.as_bytes(), kind, &signing).unwrap()
}

/// Makes the host know the seal of `bytes`, in this place, with this number more.
fn know(scene: &Scene, path: &str, kind: DocumentKind, bytes: &[u8], more: u64, when: Timestamp) {
    let options = Options::new(kind, &scene.trust, now());
    let mut head = verify(bytes, &options).unwrap().report.head.unwrap();
    head.seq += more;
    let real = fs::canonicalize(scene.path(path)).unwrap();
    let stored = StoredHead {
        head,
        root: None,
        salts: None,
        key: None,
        kind: RecordKind::Document,
        is_final: false,
        thread: None,
        first_seen: when,
        updated: when,
        path_hint: Some(real.to_str().unwrap().to_owned()),
        aliases: Vec::new(),
        logged: None,
        vouches: true,
    };
    let _ = scene.host.heads.create(&stored).unwrap();
}

#[test]
fn a_sealed_item_is_used_and_recorded() {
    let scene = Scene::new();
    put(&scene, FILE, sealed());
    let item = directive(&scene, ItemPolicy::Signed).unwrap();
    // Callers read the text without its seal.
    assert_eq!(item.text(), TEXT);
    let key = scene.keys.native.public_key().key_id().to_hex();
    let digest = Digest::of(&sealed()).to_hex();
    assert_eq!(
        serde_json::to_value(item.used()).unwrap(),
        json!({"kind": "directive", "id": "a/t", "sha256": digest, "standing": "signed", "key": key,
               "coverage": "native"})
    );
}

// T-DEC-01
#[test]
fn a_tampered_or_forged_item_is_refused_under_every_policy() {
    let scene = Scene::new();
    let rye = for_rye(&scene, TEXT, DocumentKind::Markdown, ItemType::Directive);
    for (bytes, from, to) in [
        (sealed(), "Do it.", "Do worse."),
        (rye, "version=\"1\"", "version=\"2\""),
    ] {
        let text = String::from_utf8(bytes).unwrap();
        put(&scene, FILE, text.replace(from, to));
        for policy in [ItemPolicy::Signed, ItemPolicy::AllowUnsigned] {
            refuses(directive(&scene, policy), "tampered");
        }
    }
}

// T-DEC-02
#[test]
fn what_nobody_vouches_for_needs_the_policy_that_allows_it() {
    let scene = Scene::new();
    let prompt_outside = Standing::Signed {
        key: scene.keys.rye.public_key().key_id().to_hex(),
        coverage: Coverage::RyePart,
    };
    let kind = DocumentKind::Markdown;
    let rye = for_rye(&scene, TEXT, kind, ItemType::Directive);
    for (bytes, standing) in [
        (TEXT.as_bytes().to_vec(), Standing::Unsigned),
        (seal(TEXT, kind, 7, 9), Standing::UnknownSigner),
        (rye, prompt_outside),
    ] {
        put(&scene, FILE, bytes);
        refuses(directive(&scene, ItemPolicy::Signed), "");
        let item = directive(&scene, ItemPolicy::AllowUnsigned).unwrap();
        assert_eq!(*item.standing(), standing);
        assert!(!item.standing().vouches());
    }
}

#[test]
fn what_rye_signs_whole_is_whole() {
    let scene = Scene::new();
    let tool = for_rye(&scene, "a: 1\n", DocumentKind::Yaml, ItemType::Tool);
    put(&scene, "p/.ai/tools/x/y.yaml", tool);
    let item = find(&scene, ItemKind::Tool, "x.y", ItemPolicy::Signed);
    let item = item.unwrap().unwrap();
    let whole = |standing: &Standing| matches!(standing, Standing::Signed { coverage, .. } if *coverage == Coverage::Rye);
    assert!(whole(item.standing()), "{:?}", item.standing());
    // Rye keeps graphs among its tools.
    let graph = find(&scene, ItemKind::Graph, "x/y", ItemPolicy::Signed);
    assert!(graph.unwrap().is_some());
}

// T-DEC-03
#[test]
fn a_version_that_is_older_than_a_known_head_is_refused() {
    let scene = Scene::new();
    put(&scene, FILE, sealed());
    know(&scene, FILE, DocumentKind::Markdown, &sealed(), 1, now());
    for bytes in [sealed(), TEXT.as_bytes().to_vec()] {
        put(&scene, FILE, bytes);
        refuses(directive(&scene, ItemPolicy::AllowUnsigned), "");
    }
}

// T-TOL-06
#[test]
fn a_copy_of_a_sealed_item_is_refused_and_a_moved_one_or_a_copied_project_is_not() {
    let scene = Scene::new();
    put(&scene, FILE, sealed());
    know(&scene, FILE, DocumentKind::Markdown, &sealed(), 0, now());
    assert!(directive(&scene, ItemPolicy::Signed).is_ok());
    put(&scene, "p/.ai/directives/b/t.md", sealed());
    let copy = || {
        find(
            &scene,
            ItemKind::Directive,
            "b/t",
            ItemPolicy::AllowUnsigned,
        )
    };
    refuses(copy(), "a copy of");
    put(&scene, "u/.ai/directives/c/t.md", sealed());
    let other = find(&scene, ItemKind::Directive, "c/t", ItemPolicy::Signed);
    assert!(other.is_ok());
    for other in [None, Some("another")] {
        fs::remove_file(scene.path(FILE)).unwrap();
        if let Some(other) = other {
            put(&scene, FILE, other);
        }
        assert!(copy().is_ok());
        put(&scene, FILE, sealed());
    }
}

// T-DEC-04
#[test]
fn an_older_item_under_another_spelling_of_its_id_is_refused() {
    let scene = Scene::new();
    let tool =
        |record: u8, says: &str| seal(&format!("says: {says}\n"), DocumentKind::Yaml, record, 1);
    let (older, newer) = (tool(1, "older"), tool(2, "newer"));
    let later = Timestamp::from_micros(now().as_micros() + 5_000_000).unwrap();
    let (yaml, yml) = ("p/.ai/tools/a/t.yaml", "p/.ai/tools/a/t.yml");
    for (bytes, when) in [(&older, now()), (&newer, later)] {
        // Both were sealed in one place, the later one over the other.
        put(&scene, yaml, bytes);
        know(&scene, yaml, DocumentKind::Yaml, bytes, 0, when);
    }
    let find = || find(&scene, ItemKind::Tool, "a/t", ItemPolicy::AllowUnsigned);
    find().unwrap().unwrap().text().has("newer");
    // Beside the newer one it would be taken, or not, by its ending.
    put(&scene, yml, &older);
    find().fails_with("are both tool a/t");
    fs::remove_file(scene.path(yaml)).unwrap();
    refuses(find(), "rolled_back");
    // The newest one may have been moved, and one that this host never saw may be newer still.
    for moved in [newer, tool(3, "unknown")] {
        put(&scene, yml, &moved);
        assert!(find().is_ok());
    }
}

// T-DEC-01
#[test]
fn the_project_comes_before_the_user_and_both_before_what_is_built_in() {
    let scene = Scene::new();
    let policy = ItemPolicy::AllowUnsigned;
    let path = ".ai/directives/rye/agent/continuation.md";
    let find_by = |policy| {
        find(
            &scene,
            ItemKind::Directive,
            "rye/agent/continuation",
            policy,
        )
    };
    let found = || find_by(policy).unwrap().unwrap();
    assert_eq!(*found().standing(), Standing::Builtin);
    for (space, text) in [("u", "user"), ("p", "project")] {
        put(&scene, &format!("{space}/{path}"), text);
        assert_eq!(found().text(), text);
    }
    assert!(
        find(&scene, ItemKind::Tool, "none", policy)
            .unwrap()
            .is_none()
    );
    // A file that is refused hides the later ones; else removing a seal would choose another.
    assert!(find_by(ItemPolicy::Signed).is_err());
}

// T-DEC-13
#[cfg(unix)]
#[test]
fn a_link_out_of_the_space_is_refused() {
    let scene = Scene::new();
    put(&scene, "outside.md", TEXT);
    put(&scene, "p/.ai/directives/a/inside.md", TEXT);
    let link = |target: &Path| {
        let _ = fs::remove_file(scene.path(FILE));
        symlink(target, scene.path(FILE)).unwrap();
        directive(&scene, ItemPolicy::AllowUnsigned)
    };
    link(&scene.path("outside.md")).fails_with("leads out of");
    assert!(link(Path::new("inside.md")).is_ok());
}

// T-DEC-07
#[cfg(unix)]
#[test]
fn a_setting_that_is_gone_is_refused_on_the_host_that_sealed_it() {
    let scene = Scene::new();
    let (folder, file) = (
        scene.path("p/.ai/config/agent"),
        "p/.ai/config/agent/hooks.yaml",
    );
    let bytes = seal("hooks: []\n", DocumentKind::Yaml, 7, 1);
    put(&scene, file, &bytes);
    put(&scene, "u/.ai/config/agent/hooks.yaml", "hooks: []\n");
    let settings = |policy| {
        let mut grounds = scene.grounds();
        (grounds.now, grounds.policy) = (now(), policy);
        let spaces = vec![scene.path("p"), scene.path("u")];
        Finder::new(RealFs::shared(), spaces)
            .settings(&ItemId::parse("agent/hooks").unwrap(), &grounds)
    };
    let count = || settings(ItemPolicy::AllowUnsigned).map(|found| found.len());
    // Where no seal of it is known, that of the user counts alone.
    fs::remove_file(scene.path(file)).unwrap();
    assert_eq!(count().unwrap(), 1);
    put(&scene, file, &bytes);
    know(&scene, file, DocumentKind::Yaml, &bytes, 0, now());
    assert_eq!(count().unwrap(), 2);
    let gone = || {
        for policy in [ItemPolicy::Signed, ItemPolicy::AllowUnsigned] {
            refuses(settings(policy), "hooks.yaml: missing: this host sealed");
        }
    };
    let away = scene.path("p/.ai/away");
    fs::rename(scene.path(file), folder.join("hooks-old.yaml")).unwrap();
    gone();
    fs::rename(&folder, &away).unwrap();
    gone();
    // A link to a folder without it does not hide its place.
    fs::create_dir(scene.path("p/.ai/empty")).unwrap();
    symlink(scene.path("p/.ai/empty"), &folder).unwrap();
    gone();
    fs::remove_file(&folder).unwrap();
    fs::rename(&away, &folder).unwrap();
    // Another ending of its name is no loss.
    fs::rename(folder.join("hooks-old.yaml"), folder.join("hooks.yml")).unwrap();
    assert_eq!(count().unwrap(), 2);
}
