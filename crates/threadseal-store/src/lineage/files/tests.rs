//! The suite, failing disks and power cuts, igor's layout, and keys.

use super::*;
use crate::fault::{FaultFs, FaultKind, Keep, ends, fail_each_call};
use crate::lineage::conformance::{self, agent, begin, state_of, tick, whole_history};
use crate::lineage::{Standings, StateBytes};
use crate::sys::RealFs;
use crate::testing::signer;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use threadseal_core::digest::Digest;
use threadseal_core::key::{KeyUsage, PrivateKey, Signer as _};
use threadseal_formats::lineage::{Epoch, IdentityForm, Standing, seal_original};

const LINKS: usize = 3;

fn at(folder: &Path) -> FileCheckpointStore {
    FileCheckpointStore::new(RealFs::shared(), folder)
}

fn in_memory(fs: &FaultFs) -> FileCheckpointStore {
    FileCheckpointStore::new(fs.shared(), "/agents")
}

fn identity(seed: u8) -> AgentIdentity {
    AgentIdentity::new(PrivateKey::from_seed([seed; 32]), IdentityForm::Igor)
}

#[test]
fn the_store_in_files_passes_the_suite() {
    conformance::run(&|| {
        let folder = tempfile::tempdir().unwrap();
        Box::new(move || Box::new(at(&folder.path().join("deep/agents"))))
    });
}

/// Begins an agent and writes checkpoints until there are [`LINKS`] links.
fn work(fs: &FaultFs, acknowledged: &mut Option<ContentHash>) -> Result<(), Error> {
    let store = in_memory(fs);
    if store.newest(&agent())? == Newest::Nothing {
        *acknowledged = Some(begin(&store, b"0")?);
    }
    for length in store.history(&agent())?.len()..LINKS {
        let state = format!("{length}");
        *acknowledged = Some(tick(&store, state.as_bytes())?);
    }
    Ok(())
}

fn history(fs: &FaultFs) -> Vec<ContentHash> {
    let store = in_memory(fs);
    match store.newest(&agent()).unwrap() {
        Newest::Nothing => Vec::new(),
        _ => whole_history(&store),
    }
}

#[test]
fn every_fault_at_every_call_leaves_the_newest_acknowledged_link_or_its_child() {
    // All ends where the process stops at this call; else one after the other.
    let few = |call: usize, kind| match kind {
        FaultKind::PowerOff => ends(call).to_vec(),
        _ => vec![ends(call)[call % 4]],
    };
    fail_each_call(40, few, |call, kind, end| {
        let fs = FaultFs::new();
        fs.plan(call, kind);
        let mut acknowledged = None;
        let done = work(&fs, &mut acknowledged);
        let Some(struck) = fs.struck() else {
            done.unwrap();
            return false;
        };
        fs.end(end);
        let found = history(&fs);
        let context = format!("{kind:?} in {struck}, call {call}, {end:?}");
        let at = acknowledged.map_or(0, |link| {
            let at = found.iter().position(|found| *found == link);
            1 + at.unwrap_or_else(|| panic!("{context}: {link} is gone"))
        });
        assert!(found.len() <= at + 1, "{context}");
        // A link that was seen once stays, whatever happens to the power.
        fs.cut_power(Keep::Nothing);
        assert_eq!(history(&fs), found, "{context}");
        work(&fs, &mut None).unwrap();
        assert_eq!(history(&fs)[..found.len()], found, "{context}");
        assert_eq!(history(&fs).len(), LINKS);
        true
    });
}

#[test]
fn a_crash_while_a_link_is_saved_leaves_no_second_child_under_any_name() {
    for call in 0.. {
        let fs = FaultFs::new();
        work(&fs, &mut None).unwrap();
        let before = history(&fs);
        fs.plan(call, FaultKind::PowerOff);
        let store = in_memory(&fs);
        let done = tick(&store, b"lost");
        if fs.struck().is_none() {
            done.unwrap();
            break;
        }
        fs.end(None);
        let store = in_memory(&fs);
        let now = history(&fs);
        if now == before {
            tick(&store, b"other").unwrap();
        }
        let names = store.names(&store.archive(&agent())).unwrap();
        let archived = names.iter().filter(|name| name.ends_with(".ckpt")).count();
        // The newest link may be in both places; nothing else is there.
        let history = history(&fs);
        assert!(archived <= history.len(), "call {call}");
        for name in names.iter().filter(|name| !name.starts_with('.')) {
            let hash = name.strip_suffix(".ckpt").and_then(ContentHash::parse_hex);
            let is_known = history.contains(&hash.unwrap());
            assert!(is_known, "call {call}: {name}");
        }
    }
}

#[test]
fn the_layout_is_the_originals_with_names_by_hash() {
    let folder = tempfile::tempdir().unwrap();
    let store = at(folder.path());
    let first = begin(&store, b"one").unwrap();
    let second = tick(&store, b"two").unwrap();
    let live = fs::read(folder.path().join("counter.checkpoint")).unwrap();
    assert_eq!(ContentHash::of(&live[..HEADER_LENGTH]), second);
    let archived = folder.path().join(format!("history/counter/{first}.ckpt"));
    assert!(fs::read(&archived).unwrap().ends_with(b"one"));
    let mode = fs::metadata(&archived).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

fn original(prev: Option<ContentHash>, tick: u64) -> Vec<u8> {
    let signer = signer(9, KeyUsage::Igor);
    let header = CheckpointHeader {
        version: Version::V4,
        budget: 10,
        price: 1,
        tick,
        code: Digest::of(b"code"),
        epoch: Epoch::default(),
        lease_expiry: 0,
        prev,
        signer: Some(*signer.public_key().as_bytes()),
        signature: None,
        native: None,
    };
    let sealed = seal_original(header, b"state", &signer).unwrap();
    [sealed.bytes, b"state".to_vec()].concat()
}

#[test]
fn a_folder_of_the_original_is_read_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history/counter");
    fs::create_dir_all(&history).unwrap();
    let (mut prev, mut hashes) = (None, Vec::new());
    for tick in 1..=3 {
        let file = original(prev, tick);
        prev = Some(ContentHash::of(&file));
        hashes.push(ContentHash::of(&file));
        fs::write(history.join(format!("{tick:010}.ckpt")), &file).unwrap();
        fs::write(folder.path().join("counter.checkpoint"), &file).unwrap();
    }
    fs::write(history.join("0000000099.ckpt"), b"garbage").unwrap();
    let store = at(folder.path());
    assert_eq!(whole_history(&store), hashes);
    let (_, standing) = Standings::new().of(&store, &agent()).unwrap();
    let next = original(prev, 4);
    let advance = Advance::of_bytes(&standing, &next).unwrap();
    let saved = store.save(&agent(), &advance, &mut StateBytes::new(b""));
    assert_eq!(saved.unwrap(), Saved::Stored);
    assert_eq!(whole_history(&at(folder.path())).len(), 4);
    assert_eq!(state_of(&store, &hashes[0]), b"state");
}

#[test]
fn a_newest_link_that_is_gone_or_garbage_is_an_error_and_no_new_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let store = at(folder.path());
    begin(&store, b"one").unwrap();
    tick(&store, b"two").unwrap();
    let live = folder.path().join("counter.checkpoint");
    let good = fs::read(&live).unwrap();
    for bad in [None, Some(&b""[..]), Some(b"garbage"), Some(&good[..100])] {
        fs::remove_file(&live).unwrap();
        if let Some(bytes) = bad {
            fs::write(&live, bytes).unwrap();
        }
        let error = store.newest(&agent()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(begin(&store, b"again").is_err());
        assert!(tick(&store, b"three").is_err());
        assert_eq!(fs::read(&live).ok().as_deref(), bad);
        fs::write(&live, &good).unwrap();
    }
    assert_eq!(whole_history(&store).len(), 2);
}

#[test]
fn nothing_that_is_not_a_link_of_the_agent_becomes_an_advance() {
    let standing = Standing::begin();
    let mut forged = original(None, 1);
    let last = forged.len() - 1;
    forged[last] ^= 1;
    for garbage in [&b""[..], b"garbage", &forged] {
        assert!(Advance::of_bytes(&standing, garbage).is_err());
        assert!(Advance::of_file(&standing, &mut StateBytes::new(garbage)).is_err());
    }
}

#[test]
fn an_identity_is_private_and_a_damaged_one_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = at(folder.path());
    store.save_identity(&agent(), &identity(4)).unwrap();
    let path = folder.path().join("counter.identity");
    let good = fs::read(&path).unwrap();
    assert_eq!(good.len(), 68);
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    let mut flipped = good.clone();
    flipped[50] ^= 1;
    for bad in [&flipped[..], &good[..67], b""] {
        fs::write(&path, bad).unwrap();
        let error = store.load_identity(&agent()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Key);
        assert!(store.save_identity(&agent(), &identity(5)).is_err());
        assert_eq!(fs::read(&path).unwrap(), bad);
    }
    fs::write(&path, &good).unwrap();
    // The mode with which igor leaves the file.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = store.load_identity(&agent()).unwrap_err();
    assert!(error.to_string().contains("chmod 600"), "{error}");
}

#[test]
fn a_file_system_without_hard_links_archives_by_copying() {
    // The second call of a save that links is the one that fails here: found by its name.
    let mut copied = 0;
    for call in 0..200 {
        let disk = FaultFs::new();
        work(&disk, &mut None).unwrap();
        disk.plan(call, FaultKind::Io);
        let store = in_memory(&disk);
        let done = tick(&store, b"next");
        match disk.struck() {
            Some("link") => {
                done.unwrap();
                copied += 1;
                disk.heal();
                assert_eq!(history(&disk).len(), LINKS + 1);
            }
            Some(_) => {}
            None => break,
        }
    }
    assert_eq!(copied, 1);
}
