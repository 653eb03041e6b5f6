//! A log in object storage: readers find all that its checkpoint speaks of, and it never goes back.

use super::prelude::*;
use threadseal_core::tlog::conflict::Conflict;
use threadseal_store::objects::fault::{FaultObjects, ObjectFault};
use threadseal_store::objects::memory::MemoryObjects;
use threadseal_store::objects::{Folder, Objects, Put};

/// Commits these heads of record 1; a fault of the mirror is no fault of the log.
fn commit(log: &SealLog, seqs: Range<u64>) {
    heads(1, seqs).for_each(|head| log.publish(&head));
    assert!(log.flush().error.is_none());
}

/// Asserts that a mirror holds so many entries, all of them proved.
#[track_caller]
fn assert_holds(log: &SealLog, mirror: &dyn Objects, entries: u64) {
    let checked = log.check_mirror(mirror).unwrap();
    assert_eq!((checked.entries, checked.faults), (entries, Vec::new()));
}

/// Changes the last byte of an object.
fn damage(objects: &MemoryObjects, name: &str) {
    let object = objects.read(name, 4 << 20).unwrap().unwrap();
    let mut bytes = object.bytes;
    *bytes.last_mut().unwrap() ^= 1;
    let _stored = objects.replace_if(name, &object.version, &bytes).unwrap();
}

// T-LOG-44
#[test]
fn a_mirror_grows_with_the_log_and_holds_all_of_it() {
    let scene = on_disk();
    let log = scene.open();
    let there = scene.path("mirror");
    let mirror = Folder::new(RealFs::shared(), &there);
    let mut from = 0;
    for to in [0, 1, 200, 256, 700, 700] {
        commit(&log, from..to);
        let brought = log.mirror(&mirror, Compared::Some).unwrap();
        assert_eq!(
            brought,
            Mirrored::Brought {
                from,
                to,
                repaired: 0
            }
        );
        assert_holds(&log, &mirror, to);
        from = to;
    }
    // Under the names that C2SP tlog-tiles gives them, byte for byte.
    for name in [
        "checkpoint",
        "tile/0/001",
        "tile/entries/002.p/188",
        "tile/1/000.p/2",
    ] {
        assert_eq!(scene.get(name), scene.get(there.join(name)), "{name}");
    }
}

#[cfg(feature = "object")]
#[test]
fn a_mirror_is_kept_where_s3_is_spoken() {
    let Some(moto) = threadseal_store::objects::moto::Moto::shared() else {
        return;
    };
    let mirror = threadseal_store::objects::open(&moto.fresh(), &moto.settings()).unwrap();
    let log = in_memory().open();
    commit(&log, 0..3);
    log.mirror(&*mirror, Compared::Some).unwrap();
    commit(&log, 3..300);
    let brought = log.mirror(&*mirror, Compared::Some).unwrap();
    assert_eq!(
        brought,
        Mirrored::Brought {
            from: 3,
            to: 300,
            repaired: 0
        }
    );
    assert_holds(&log, &*mirror, 300);
}

// T-LOG-43
#[test]
fn a_mirror_shows_a_log_that_went_back_and_takes_no_other_log() {
    let scene = in_memory();
    let log = scene.open();
    let mirror = MemoryObjects::new();
    commit(&log, 0..3);
    log.mirror(&mirror, Compared::Some).unwrap();
    let newest = mirror.read("checkpoint", 4096).unwrap();
    // The same log, as it was before, with another future.
    let back = scene.beside("again").begun().open();
    for seq in 0..5 {
        back.publish(&head(7, seq));
        assert!(back.flush().error.is_none());
        assert!(
            matches!(back.mirror(&mirror, Compared::Some), Ok(Mirrored::Contradicts(tree)) if tree.size == 3)
        );
    }
    assert!(!back.check_mirror(&mirror).unwrap().faults.is_empty());
    assert_eq!(mirror.read("checkpoint", 4096).unwrap(), newest);
    // Another log.
    let other = MemoryObjects::new();
    let Put::Stored(_) = other.create("checkpoint", b"another").unwrap() else {
        panic!("nothing was there");
    };
    assert_eq!(
        log.mirror(&other, Compared::Some).unwrap_err().kind(),
        ErrorKind::Refused
    );
    assert!(log.check_mirror(&MemoryObjects::new()).is_err());
}

// T-FRK-04
#[test]
fn a_mirror_of_another_size_makes_evidence_of_a_fork() {
    let scene = in_memory();
    let log = scene.open();
    let mirror = MemoryObjects::new();
    commit(&log, 0..300);
    log.mirror(&mirror, Compared::Some).unwrap();
    assert_eq!(log.conflict_with(&mirror).unwrap(), None);
    // The log continues: an older mirror is no conflict. Nor is one that is only ahead.
    let older = mirror.copy();
    commit(&log, 300..400);
    assert_eq!(log.conflict_with(&older).unwrap(), None);
    log.mirror(&mirror, Compared::Some).unwrap();
    let back = scene.beside("again").begun().open();
    commit(&back, 0..290);
    assert_eq!(back.conflict_with(&mirror).unwrap(), None);
    // And then otherwise, with fewer, as many and more entries than the mirror.
    for size in [295, 400, 600] {
        heads(9, 290..size).for_each(|head| back.publish(&head));
        assert!(back.flush().error.is_none());
        let found = back.conflict_with(&mirror).unwrap().unwrap();
        assert_eq!(found.parted(), (size != 400).then_some(290), "{size}");
        assert_eq!(found.key().name().as_str(), OWN.origin());
        let text = found.to_string();
        assert_eq!(Conflict::parse(&text), Ok(found));
    }
    // A mirror whose tiles do not fit its checkpoint proves nothing.
    let copy = mirror.copy();
    damage(&copy, "tile/entries/001.p/144");
    assert_eq!(back.conflict_with(&copy).unwrap(), None);
}

// T-LOG-43
#[test]
fn whatever_is_changed_in_a_mirror_is_found() {
    let log = in_memory().open();
    let mirror = MemoryObjects::new();
    commit(&log, 0..300);
    log.mirror(&mirror, Compared::Some).unwrap();
    for name in [
        "tile/0/000",
        "tile/0/001.p/44",
        "tile/1/000.p/1",
        "tile/entries/000",
    ] {
        let copy = mirror.copy();
        damage(&copy, name);
        let faults = log.check_mirror(&copy).unwrap().faults;
        assert!(!faults.is_empty(), "{name}");
        copy.remove(name).unwrap();
        let faults = log.check_mirror(&copy).unwrap().faults;
        assert!(faults[0].contains(name), "{faults:?}");
    }
    assert_holds(&log, &mirror, 300);
}

// T-LOG-51
#[test]
fn a_lost_or_changed_tile_of_a_mirror_is_written_again() {
    let scene = on_disk();
    let log = scene.open();
    let mirror = MemoryObjects::new();
    commit(&log, 0..300);
    log.mirror(&mirror, Compared::Some).unwrap();
    let cut = |copy: &MemoryObjects, name: &str| {
        let object = copy.read(name, 4 << 20).unwrap().unwrap();
        let _stored = copy.replace_if(name, &object.version, &[]).unwrap();
    };
    let remove = |copy: &MemoryObjects, name: &str| copy.remove(name).unwrap();
    let ways: [&dyn Fn(&MemoryObjects, &str); 3] = [&damage, &cut, &remove];
    // There are no more tiles than are compared at each update.
    let names = [
        "tile/0/000",
        "tile/0/001.p/44",
        "tile/1/000.p/1",
        "tile/entries/000",
        "tile/entries/001.p/44",
    ];
    for (name, way) in names.iter().flat_map(|name| ways.map(|way| (name, way))) {
        let copy = mirror.copy();
        way(&copy, name);
        let brought = log.mirror(&copy, Compared::Some).unwrap();
        assert!(
            matches!(brought, Mirrored::Brought { repaired: 1, .. }),
            "{name} {brought:?}"
        );
        assert_holds(&log, &copy, 300);
    }
    commit(&log, 300..6000);
    log.mirror(&mirror, Compared::Some).unwrap();
    for index in 0..20 {
        damage(&mirror, &format!("tile/entries/{index:03}"));
    }
    let brought = log.mirror(&mirror, Compared::All).unwrap();
    assert!(
        matches!(brought, Mirrored::Brought { repaired: 20, .. }),
        "{brought:?}"
    );
    assert_holds(&log, &mirror, 6000);
    // A log that is damaged itself repairs nothing.
    let own = scene.get("tile/entries/003");
    let changed = [&own[..own.len() - 1], &[own[own.len() - 1] ^ 1]].concat();
    scene.put("tile/entries/003", &changed);
    let brought = log.mirror(&mirror, Compared::All).unwrap();
    let Mirrored::Unrepaired(why) = &brought else {
        panic!("{brought:?}");
    };
    assert!(why.contains("damaged itself"), "{why}");
}

/// Someone else wrote there before the log.
// T-LOG-51
#[test]
fn a_wrong_tile_beyond_the_checkpoint_of_a_mirror_is_replaced() {
    let log = in_memory().open();
    let mirror = MemoryObjects::new();
    commit(&log, 0..10);
    log.mirror(&mirror, Compared::Some).unwrap();
    commit(&log, 10..300);
    for name in ["tile/0/000", "tile/entries/001.p/44"] {
        let _stored = mirror.create(name, b"wrong").unwrap();
    }
    let brought = log.mirror(&mirror, Compared::Some).unwrap();
    assert!(
        matches!(brought, Mirrored::Brought { repaired: 2, .. }),
        "{brought:?}"
    );
    assert_holds(&log, &mirror, 300);
}

/// Each call fails in each way: what a reader then sees is whole, and the next attempt brings the mirror up.
// T-LOG-44
#[test]
fn whatever_fails_a_mirror_is_whole_and_never_goes_back() {
    let log = in_memory().open();
    commit(&log, 0..10);
    let before = MemoryObjects::new();
    log.mirror(&before, Compared::Some).unwrap();
    commit(&log, 10..300);
    for fault in ObjectFault::ALL {
        for call in 0.. {
            let behind = Arc::new(before.copy());
            let failing = FaultObjects::new(Arc::clone(&behind) as _);
            failing.plan(call, fault);
            let _failed = log.mirror(&failing, Compared::Some);
            let done = failing.calls() <= call;
            let checked = log.check_mirror(&*behind).unwrap();
            assert_eq!(checked.faults, Vec::<String>::new(), "{fault:?} {call}");
            assert!(matches!(checked.entries, 10 | 300), "{fault:?} {call}");
            let brought = log.mirror(&*behind, Compared::Some).unwrap();
            assert!(matches!(brought, Mirrored::Brought { to: 300, .. }));
            if done {
                break;
            }
        }
    }
}
