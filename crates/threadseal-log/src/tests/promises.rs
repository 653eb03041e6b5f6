//! What a log promises: what it committed is proved, it has one history, and no older state of it passes for the newest.

use super::prelude::*;
use crate::recovery::creation::{self, NewLog};
use crate::recovery::key_ends::KeyEnds;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn what_was_published_is_in_the_log_with_its_proof_also_for_who_opens_it_later() {
    let scene = in_memory();
    let log = scene.open();
    let empty = log.tree();
    assert_eq!(empty, TreeHead::empty());
    for seq in 0..150 {
        (0..5).for_each(|record| log.publish(&head(record, seq)));
        if seq % 40 == 0 {
            log.settle();
        }
    }
    log.settle();
    // 256 heads share a commit at most, and no commit is of none.
    assert!((3..=750).contains(&log.commits()), "{}", log.commits());
    for log in [log, scene.open()] {
        let view = log.view().unwrap();
        assert_eq!(view.tree().size, 750);
        assert!(view.consistency(&empty).unwrap().is_some());
        for number in 0..5 {
            let (at, newest) = log.newest(&record(number)).unwrap().unwrap();
            assert_eq!(newest, head(number, 149));
            let entry = view.entry(at).unwrap();
            assert_eq!(LogEntry::read(&entry), Ok(LogEntry::Head(newest)));
            let proof = view.inclusion(at, &entry).unwrap();
            let leaf = threadseal_core::merkle::leaf_hash(&entry);
            proof.check(&leaf, at, &view.tree()).unwrap();
        }
        assert_eq!(log.newest_of(77), None);
        assert_eq!(log.fault().unwrap(), None);
        assert_eq!(log.marks().unwrap(), [Some(view.tree())]);
    }
}

#[test]
fn a_commit_after_another_one_syncs_the_journal_once() {
    let scene = in_memory();
    let log = scene.open();
    log.commit_heads(heads(1, 0..1));
    for seq in 1..40 {
        scene.disk.plan(usize::MAX, FaultKind::Io);
        log.commit_heads(heads(1, seq..seq + 1));
        let called = scene.disk.called();
        // The journal, and the mark.
        let syncs = called.iter().filter(|call| **call == "fsync");
        assert_eq!(syncs.count(), 2, "{seq}: {called:?}");
    }
}

#[test]
fn the_files_are_those_of_a_log_of_tiles_once_they_are_folded() {
    let scene = in_memory();
    let log = scene.open();
    log.commit_heads(heads(1, 0..300));
    log.fold().unwrap();
    let note = String::from_utf8(scene.get("checkpoint")).unwrap();
    let note = SignedNote::parse(&note).unwrap();
    assert_eq!(note, *log.view().unwrap().checkpoint());
    assert_eq!(log.size(), 300);
    for (file, bytes) in [
        ("tile/0/000", 8192),
        ("tile/0/001.p/44", 44 * 32),
        ("tile/1/000.p/1", 32),
    ] {
        assert_eq!(scene.get(file).len(), bytes, "{file}");
    }
    scene.get("tile/entries/001.p/44");
}

// T-LOG-13
#[test]
fn the_first_head_of_a_number_stands_and_another_one_is_told() {
    let log = in_memory().open();
    log.commit_heads([head(1, 3)]);
    let other = another(1, 3);
    log.publish(&other);
    // One is known already, one is older than the known head: neither adds anything.
    log.publish(&head(1, 3));
    log.publish(&head(1, 2));
    let fork = Fork {
        logged: head(1, 3),
        refused: other,
    };
    assert_eq!(log.flush().forks, [fork]);
    assert_eq!(log.size(), 1);
    // Also when it is in the tiles.
    log.fold().unwrap();
    log.publish(&other);
    assert_eq!(log.flush().forks, [fork]);
    assert_eq!(log.newest(&record(1)).unwrap(), Some((0, head(1, 3))));
}

// T-LOG-36
#[test]
fn many_processes_commit_to_one_log_and_nothing_is_lost_or_written_twice() {
    let scene = on_disk();
    thread::scope(|scope| {
        for number in 0..4 {
            let scene = &scene;
            scope.spawn(move || {
                let log = scene.open();
                for seq in 0..200 {
                    log.publish(&head(number, seq));
                    if seq % 50 == 17 {
                        log.settle();
                    }
                }
                log.settle();
            });
        }
    });
    let log = scene.open();
    assert_eq!(log.size(), 800);
    let mut seen = BTreeSet::new();
    for at in 0..800 {
        match log.entry(at) {
            LogEntry::Head(logged) => {
                assert!(seen.insert((logged.head.record, logged.head.seq)));
            }
            other => panic!("{other:?}"),
        }
    }
    drop(log);
    let spool = scene.home().dir(OWN).spool();
    assert_eq!(fs::read_dir(spool).unwrap().count(), 0);
}

// T-LOG-36
#[test]
fn what_waited_when_its_process_ended_is_taken_up_by_the_next() {
    let scene = in_memory();
    let log = scene.open();
    // Without its key nothing can be committed, and everything waits.
    let reader = scene.open_without_key();
    reader.publish(&head(1, 0));
    reader.publish(&head(2, 0));
    let published = reader.flush();
    assert_eq!(published.waiting, 2);
    let error = published.error.unwrap().to_string();
    assert!(error.contains("log-ababababababab"), "{error}");
    scene.disk.kill_process();
    drop((reader, log));
    scene.commit([head(3, 0)]);
    assert_eq!(scene.open().size(), 3);
}

/// A whole older copy of the log, put back: the mark shows it, and nothing is committed onto it.
// T-MARK-02
#[test]
fn a_log_that_was_put_back_says_so_and_commits_nothing() {
    let scene = on_disk();
    scene.commit([head(1, 0)]);
    let older = scene.keep(&scene.home().path, "older");
    scene.commit([head(1, 1)]);
    let mark = scene.open().tree();
    put_back(&older, &scene.home().path);
    let log = scene.open();
    let here = log.tree();
    let fault = Fault::RolledBack { mark, log: here };
    assert_eq!(log.fault().unwrap(), Some(fault));
    let error = log.refuse(head(1, 1));
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("log_rolled_back"), "{error}");
    assert_eq!(log.tree(), here);
    drop(log);
    // Without any log the mark still knows that there was one.
    scene.remove_logs();
    scene.assert_missing("removed");
}

// T-MARK-26
#[test]
fn a_log_that_was_made_on_another_machine_commits_nothing() {
    let scene = in_memory();
    let on = |name: &[u8]| {
        let host = Some(Digest::of(name));
        scene.with(|home| home.host = host)
    };
    let there = on(b"one");
    for mark in FolderMark::all(scene.home(), &scene.current()) {
        mark.end(true).unwrap();
    }
    let new = NewLog {
        description: &there.describe(NEXT),
        key: &LogKey(Arc::clone(&scene.key) as _),
        entries: &mut std::iter::empty(),
        replaces: Some(OWN),
        ends: &KeyEnds::default(),
        keep_key: &|| Ok(()),
    };
    creation::make(there.home(), new).unwrap();
    there.commit([head(1, 0)]);
    let log = on(b"other").open();
    assert_eq!(log.fault().unwrap(), Some(Fault::OtherHost));
    let error = log.refuse(head(1, 1)).to_string();
    assert!(error.contains("another machine"), "{error}");
    assert_eq!(log.newest(&record(1)).unwrap(), Some((0, head(1, 0))));
}

// T-LOG-02
#[test]
fn a_folder_of_heads_that_was_put_back_does_not_take_back_what_the_log_knows() {
    let scene = on_disk();
    let folder = scene.home().path.join("heads");
    let log = Arc::new(scene.open());
    let heads = scene.logged(&log);
    let (first, second) = (known(1, 0), known(1, 1));
    assert_eq!(heads.create(&first).unwrap(), Swap::Stored);
    log.settle();
    let older = scene.keep(&folder, "older");
    let swap = heads.replace_if(&first.head, &second, Durability::Written);
    assert_eq!(swap.unwrap(), Swap::Stored);
    log.settle();
    let found = || heads.fetch(&record(1)).unwrap().unwrap();
    assert_eq!(found().head, second.head);
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(found().head, second.head);
    put_back(&older, &folder);
    let found = found();
    assert_eq!((found.head, found.root), (second.head, head(1, 1).root));
    let stored = scene.stored().fetch(&record(1)).unwrap().unwrap();
    assert_eq!(stored.head, first.head);
}

/// A log of 300 entries, all of which are in tiles.
fn folded() -> InMemory {
    let scene = in_memory();
    scene.commit(heads(1, 0..300));
    scene.open().fold().unwrap();
    scene
}

/// Another process fills the tiles that a reader is about to open, and removes their parts, before
/// each of the reader's calls.
// T-LOG-30
#[test]
fn whoever_reads_while_tiles_are_filled_sees_one_state_of_the_log() {
    let read = |log: &SealLog, what: &str| {
        let view = log.view().unwrap_or_else(|error| panic!("{what}: {error}"));
        for at in [0, 255, 256, 299] {
            let entry = view.entry(at);
            let entry = entry.unwrap_or_else(|error| panic!("{what}: {at}: {error}"));
            let expected = Ok(LogEntry::Head(head(1, at)));
            assert_eq!(LogEntry::read(&entry), expected, "{what}");
        }
        let newest = log.newest(&record(1));
        let newest = newest.unwrap_or_else(|error| panic!("{what}: {error}"));
        let seq = newest.unwrap().1.head.seq;
        assert!([299, 599].contains(&seq), "{what}: {seq}");
    };
    let prepared = folded();
    let calls = {
        let scene = prepared.fork();
        let log = scene.open();
        scene.disk.between(usize::MAX, || ());
        read(&log, "undisturbed");
        scene.disk.calls()
    };
    for call in 0..calls {
        let scene = prepared.fork();
        let log = scene.open();
        let (other, filled) = (scene.open(), Arc::new(AtomicU64::default()));
        let counted = Arc::clone(&filled);
        scene.disk.between(call, move || {
            other.commit_heads(heads(1, 300..600));
            counted.store(other.view().unwrap().contents().base(), Ordering::Relaxed);
        });
        read(&log, &format!("filled at {call} of {calls}"));
        assert!(filled.load(Ordering::Relaxed) >= 512, "{call}");
    }
}

// T-LOG-23
#[test]
fn a_tile_that_was_changed_proves_nothing() {
    let scene = folded();
    let entries = "tile/entries/000";
    let bytes = scene.get(entries);
    let change = |at: usize| {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        scene.put(entries, changed);
    };
    // A digit of the digest of entry 0.
    change(20);
    let log = scene.open();
    let error = log.view().unwrap().entry(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::External);
    assert!(log.view().unwrap().entry(1).is_ok());
    // The first of a tile vouches for the others by their hashes: each other one that was changed is noticed, too.
    let lines: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'{').collect();
    for number in [1, 2, 3, 130, 255] {
        change(lines[number] + 20);
        let view = scene.open().view().unwrap();
        for entry in 0..256 {
            assert_eq!(view.entry(entry).is_ok(), entry != number as u64, "{entry}");
        }
    }
    scene.put(entries, &bytes);
    let hashes = "tile/0/001.p/44";
    let mut changed = scene.get(hashes);
    changed[0] ^= 1;
    scene.put(hashes, changed);
    assert!(scene.open().view().is_err());
}
