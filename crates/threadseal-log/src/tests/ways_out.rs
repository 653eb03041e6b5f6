//! What a log that commits nothing can do, and what `fsck` finds.

use super::*;

fn published(places: &LogRegistry, key: &Arc<Remembering>, seqs: std::ops::Range<u64>) {
    let log = open(places, key);
    seqs.for_each(|seq| log.publish(&head(1, seq)));
    flushed(&log);
}

fn folder_of(places: &LogRegistry) -> PathBuf {
    places.home.logs().join("ab".repeat(16))
}

// T-RST-02
#[test]
fn a_log_catches_up_with_a_copy_that_continues_it_and_with_no_other() {
    let (folder, places, key) = on_disk();
    published(&places, &key, 0..300);
    let older = folder.path().join("older");
    copy(&places.home.logs(), &older);
    published(&places, &key, 300..700);
    let newer = folder.path().join("newer");
    copy(&places.home.logs(), &newer);
    let tree = open(&places, &key).view().unwrap().tree();
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    copy(&older, &places.home.logs());
    let log = open(&places, &key);
    assert!(log.fault().unwrap().is_some());
    // A copy that ends before the mark mends nothing.
    let error = log.catch_up(&older.join("ab".repeat(16))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(log.catch_up(&newer.join("ab".repeat(16))).unwrap(), 400);
    assert_eq!(log.view().unwrap().tree(), tree);
    assert_eq!(log.fault().unwrap(), None);
    assert_eq!(log.fsck().unwrap().faults, Vec::<String>::new());
    log.publish(&head(1, 700));
    flushed(&log);
    assert_eq!(log.view().unwrap().tree().size, 701);
}

#[test]
fn a_restarted_log_says_which_log_it_follows_and_what_was_known_of_it() {
    let (folder, places, key) = on_disk();
    published(&places, &key, 0..3);
    let older = folder.path().join("older");
    copy(&places.home.logs(), &older);
    published(&places, &key, 3..5);
    let newest = open(&places, &key).view().unwrap().checkpoint().to_string();
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    copy(&older, &places.home.logs());
    let known = open(&places, &key).view().unwrap().checkpoint().to_string();
    let past = places.past(&[], None).unwrap().unwrap();
    assert_eq!(past.tree.size, 5);
    let next = Description {
        id: LogId::from_bytes([0xcd; 16]),
        ..description(&key)
    };
    let log_key = LogKey(Arc::clone(&key) as _);
    places.restart(past, &next, &log_key, &[], false).unwrap();
    let log = open(&places, &key);
    assert_eq!(log.fault().unwrap(), None);
    let LogEntry::Restart(restart) =
        LogEntry::read(&log.view().unwrap().entry(0).unwrap()).unwrap()
    else {
        panic!("the first entry is no restart");
    };
    assert_eq!(
        restart.origin.as_str(),
        format!("threadseal.log/{}", "ab".repeat(16))
    );
    assert_eq!(restart.checkpoint, known.into_bytes());
    assert_eq!(restart.mark, Some(newest.into_bytes()));
    assert_eq!(log.fsck().unwrap().faults, Vec::<String>::new());
}

#[test]
fn a_lost_log_is_followed_by_what_its_second_place_knows() {
    let (_folder, places, key) = on_disk();
    published(&places, &key, 0..3);
    let newest = open(&places, &key).view().unwrap().checkpoint().to_string();
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    let past = places.past(&[], None).unwrap().unwrap();
    let next = Description {
        id: LogId::from_bytes([0xcd; 16]),
        ..description(&key)
    };
    places
        .restart(past, &next, &LogKey(Arc::clone(&key) as _), &[], false)
        .unwrap();
    let first = open(&places, &key).view().unwrap().entry(0).unwrap();
    let LogEntry::Restart(restart) = LogEntry::read(&first).unwrap() else {
        panic!("the first entry is no restart");
    };
    assert_eq!(
        (restart.checkpoint, restart.mark),
        (newest.into_bytes(), None)
    );
}

// T-LOG-23
#[test]
fn every_changed_file_is_found() {
    let (_folder, places, key) = on_disk();
    published(&places, &key, 0..600);
    open(&places, &key).fold().unwrap();
    published(&places, &key, 600..602);
    let root = folder_of(&places);
    let checked = open(&places, &key).fsck().unwrap();
    assert_eq!((checked.entries, checked.faults.len()), (602, 0));
    for file in [
        "tile/entries/000",
        "tile/entries/002.p/88",
        "tile/0/000",
        "tile/0/002.p/88",
        "tile/1/000.p/2",
        "checkpoint",
        "journal",
    ] {
        let path = root.join(file);
        let bytes = std::fs::read(&path).unwrap();
        // The last line of the journal is the last signature, which the second place has as well.
        let last = if file == "journal" {
            bytes.len() / 2
        } else {
            bytes.len() - 1
        };
        for at in [0, bytes.len() / 2, last] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            std::fs::write(&path, &changed).unwrap();
            let found = open(&places, &key).fsck();
            assert!(
                found
                    .as_ref()
                    .map_or(true, |found| !found.faults.is_empty()),
                "{file} at {at}: {found:?}"
            );
        }
        std::fs::write(&path, &bytes).unwrap();
    }
    assert_eq!(
        open(&places, &key).fsck().unwrap().faults,
        Vec::<String>::new()
    );
}

/// A second place that cannot be written is reported at each query, and committed heads stay
/// committed.
#[test]
fn a_mark_that_cannot_be_written_is_told_and_takes_nothing_back() {
    let (_folder, places, key) = on_disk();
    std::fs::remove_dir_all(&places.home.mark).unwrap();
    std::fs::write(&places.home.mark, "a file").unwrap();
    let log = open(&places, &key);
    for seq in 0..2 {
        log.publish(&head(1, seq));
        // Whether the attempt came before anybody asked or not.
        if seq == 1 {
            thread::sleep(Duration::from_millis(100));
        }
        assert!(log.flush().error.is_some());
    }
    std::fs::remove_file(&places.home.mark).unwrap();
    log.publish(&head(1, 2));
    flushed(&log);
    assert_eq!(log.marks().unwrap(), [Some(log.view().unwrap().tree())]);
}

/// Both are on one machine and have one key: what they have in common besides is the mark.
// T-MARK-27
#[test]
fn of_two_copies_of_a_home_one_goes_on() {
    let (folder, places, key) = on_disk();
    published(&places, &key, 0..2);
    let twin = LogRegistry::new(LogHome {
        path: folder.path().join("twin"),
        ..places.home.clone()
    });
    copy(&places.home.path, &twin.home.path);
    published(&places, &key, 2..3);
    let log = open(&twin, &key);
    log.publish(&head(2, 0));
    let error = log.flush().error.unwrap();
    assert!(error.to_string().contains("log_rolled_back"), "{error}");
    let sizes = key.signed.lock().unwrap().clone();
    for tree in &sizes {
        assert!(
            sizes
                .iter()
                .all(|other| other.size != tree.size || other == tree)
        );
    }
}

// T-MARK-08
#[test]
fn a_log_in_whose_place_another_was_put_never_signs_again() {
    let (folder, places, key) = on_disk();
    published(&places, &key, 0..2);
    let before = folder.path().join("before");
    copy(&places.home.path, &before);
    let running = open(&places, &key);
    let past = places.past(&[], None).unwrap().unwrap();
    let next = Description {
        id: LogId::from_bytes([0xcd; 16]),
        ..description(&key)
    };
    let log_key = LogKey(Arc::clone(&key) as _);
    places.restart(past, &next, &log_key, &[], false).unwrap();
    // A process that had it open, and a copy of the home from before.
    running.publish(&head(1, 2));
    assert!(
        running
            .flush()
            .error
            .unwrap()
            .to_string()
            .contains("another log")
    );
    drop(running);
    std::fs::remove_dir_all(&places.home.path).unwrap();
    std::fs::rename(&before, &places.home.path).unwrap();
    let log = open(&places, &key);
    assert_eq!(log.fault().unwrap(), Some(Fault::Ended));
    log.publish(&head(1, 2));
    assert!(log.flush().error.is_some());
    assert_eq!(log.view().unwrap().tree().size, 2);
}

// T-LOG-36 T-LOG-40
#[test]
fn many_left_files_are_taken_up_by_and_by() {
    let (_folder, places, key) = on_disk();
    let spool = places.home.logs().join("spool");
    std::fs::create_dir_all(&spool).unwrap();
    for number in 0..100 {
        let line = own_line(&places, &head(number, 0));
        std::fs::write(spool.join(format!("{number:016x}")), line).unwrap();
    }
    let log = open(&places, &key);
    for _ in 0..4 {
        flushed(&log);
    }
    assert_eq!(log.view().unwrap().tree().size, 100);
    drop(log);
    assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0);
}

/// What waited for a log that does not go on is written into the one in its place.
// T-LOG-39
#[test]
fn heads_that_waited_for_a_log_that_was_put_back_are_in_the_next_one() {
    let (folder, places, key) = on_disk();
    published(&places, &key, 0..2);
    let older = folder.path().join("older");
    copy(&places.home.logs(), &older);
    published(&places, &key, 2..3);
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    copy(&older, &places.home.logs());
    let log = open(&places, &key);
    log.publish(&head(4, 0));
    assert!(log.flush().error.is_some());
    drop(log);
    let next = Description {
        id: LogId::from_bytes([0xcd; 16]),
        ..description(&key)
    };
    let past = places.past(&[], None).unwrap().unwrap();
    places
        .restart(past, &next, &LogKey(Arc::clone(&key) as _), &[], false)
        .unwrap();
    let log = open(&places, &key);
    flushed(&log);
    assert_eq!(log.newest(&record(4)).unwrap().unwrap().1, head(4, 0));
}

/// A worker whose log commits nothing for days must neither grow without bound nor forget.
// T-LOG-40
#[test]
fn what_cannot_be_committed_for_long_waits_on_the_disk_alone() {
    let (_folder, places, key) = on_disk();
    let description = places.current().unwrap().unwrap();
    let random = Arc::new(SeededRandom::new(8));
    let keyless = SealLog::open(places.clone(), description, None, random);
    for portion in [0..1000, 1000..2000, 2000..2500_u64] {
        let waiting = usize::try_from(portion.end).unwrap();
        portion.for_each(|seq| keyless.publish(&head(1, seq)));
        let published = keyless.flush();
        assert!(published.error.is_some());
        assert_eq!(published.waiting, waiting);
    }
    drop(keyless);
    // Two that the process has let go of, as many heads as it keeps in each; and the one that it had at its end.
    let files = std::fs::read_dir(places.home.logs().join("spool")).unwrap();
    assert_eq!(files.count(), 3);
    let log = open(&places, &key);
    flushed(&log);
    // Files are read in no order, and a later head covers the earlier ones.
    assert_eq!(log.newest(&record(1)).unwrap().unwrap().1, head(1, 2499));
}

// T-LOG-49
#[test]
fn of_two_who_make_a_log_at_once_one_is_told_that_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let places = places(RealFs::shared(), &folder.path().join("home"));
    std::fs::create_dir(&places.home.path).unwrap();
    let key = Remembering::new();
    let made: Vec<bool> = thread::scope(|scope| {
        let making: Vec<_> = (1..=4_u8)
            .map(|number| {
                let (places, key) = (&places, &key);
                scope.spawn(move || {
                    let description = Description {
                        id: LogId::from_bytes([number; 16]),
                        ..description(key)
                    };
                    let log_key = LogKey(Arc::clone(key) as _);
                    places
                        .create(&description, &log_key, &[], &|| Ok(()))
                        .is_ok()
                })
            })
            .collect();
        making.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
    let error = open(&places, &key).fault();
    assert_eq!(error.unwrap(), None);
}

/// A command seals while another process stays in the log, or a process that was stopped holds its
/// lock.
// T-LOG-41
#[test]
fn whoever_ends_waits_a_moment_for_who_is_in_the_log_and_leaves_its_heads_to_the_next() {
    let (_folder, places, key) = on_disk();
    let own = folder_of(&places).join("lock");
    let id = LogId::from_bytes([0xab; 16]);
    let common = places.home.mark.join(format!("{id}.lock"));
    for (seq, lock) in (0..).zip([own, common]) {
        let held = threadseal_store::lock::Exclusive::enter(&RealFs, &lock).unwrap();
        let log = open(&places, &key);
        log.publish(&head(1, seq));
        let published = log.flush_within(Duration::from_millis(100));
        assert_eq!(published.waiting, 1);
        let error = published.error.unwrap().to_string();
        assert!(error.contains("is locked by"), "{error}");
        // Nor does its end wait, or take anything along.
        drop(log);
        drop(held);
        let log = open(&places, &key);
        flushed(&log);
        assert_eq!(log.newest(&record(1)).unwrap().unwrap().1, head(1, seq));
        drop(log);
        let spool = std::fs::read_dir(places.home.logs().join("spool")).unwrap();
        assert_eq!(spool.count(), 0);
    }
}

/// `HOME=/dev/null`, a folder of another user.
// T-MARK-20
#[test]
fn where_the_home_would_have_its_marks_by_another_name_need_not_be_readable() {
    let (folder, places, _) = on_disk();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let other = LogRegistry::new(LogHome {
        path: folder.path().join("another"),
        mark: folder.path().join("another.marks"),
        elsewhere: vec![file.join("marks"), places.home.mark.clone()],
        ..places.into_home()
    });
    assert!(other.current().unwrap().is_none());
    let gone = LogRegistry::new(LogHome {
        mark: other.home.mark.clone(),
        path: folder.path().join("home"),
        ..other.into_home()
    });
    std::fs::remove_dir_all(gone.home.logs()).unwrap();
    // Nor does it hide what the other one shows.
    let error = gone.current().unwrap_err();
    assert!(error.to_string().contains("log_missing"), "{error}");
}

/// Two places are gone for good: each has to be removed while the other one cannot be asked.
// T-MARK-20
#[test]
fn a_second_place_is_removed_whatever_the_others_say_and_none_is_added_then() {
    let (folder, places, key) = on_disk();
    published(&places, &key, 0..1);
    let mark = |name: &str| MarkLocation::Folder(folder.path().join(name));
    let own = MarkLocation::Folder(places.home.mark.clone());
    let description = places.current().unwrap().unwrap();
    let three = vec![own.clone(), mark("one"), mark("two")];
    places.keep_marks_in(&description, three).unwrap();
    let older = folder.path().join("older");
    copy(&places.home.logs(), &older);
    published(&places, &key, 1..3);
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    copy(&older, &places.home.logs());
    for name in ["one", "two"] {
        std::fs::remove_dir_all(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name), "a file").unwrap();
    }
    assert!(open(&places, &key).fault().unwrap().is_some());
    let without = places.keep_marks_in(&description, vec![own.clone(), mark("two")]);
    assert_eq!(without.unwrap().marks, [own.clone(), mark("two")]);
    let error = places.keep_marks_in(&description, vec![own.clone(), mark("three")]);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Refused);
    places
        .keep_marks_in(&description, vec![own.clone()])
        .unwrap();
    assert_eq!(places.current().unwrap().unwrap().marks, [own]);
    // The marks that remain still show that the log was rolled back.
    assert!(open(&places, &key).fault().unwrap().is_some());
}

/// The new log is to have a second place that cannot be written.
// T-MARK-20
#[test]
fn a_restart_that_cannot_be_done_ends_nothing() {
    let (folder, places, key) = on_disk();
    published(&places, &key, 0..2);
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let next = Description {
        id: LogId::from_bytes([0xcd; 16]),
        marks: vec![
            MarkLocation::Folder(places.home.mark.clone()),
            MarkLocation::Folder(file.join("marks")),
        ],
        ..description(&key)
    };
    let past = places.past(&[], None).unwrap().unwrap();
    let log_key = LogKey(Arc::clone(&key) as _);
    assert!(places.restart(past, &next, &log_key, &[], true).is_err());
    assert_eq!(open(&places, &key).fault().unwrap(), None);
    published(&places, &key, 2..3);
    assert_eq!(open(&places, &key).view().unwrap().tree().size, 3);
}
