//! What a log that commits nothing can do, and what `fsck` finds.

use super::prelude::*;

/// Puts an older state of the logs back, behind which the mark knows `seqs` of record 1.
fn roll_back(scene: &OnDisk, seqs: Range<u64>) {
    let older = scene.keep_logs("older");
    scene.commit(heads(1, seqs));
    scene.put_logs_back(&older);
}

fn first_entry(log: &SealLog) -> Restart {
    match log.entry(0) {
        LogEntry::Restart(restart) => restart,
        other => panic!("the first entry is no restart: {other:?}"),
    }
}

// T-RST-02
#[test]
fn a_log_catches_up_with_a_copy_that_continues_it_and_with_no_other() {
    let scene = on_disk();
    scene.commit(heads(1, 0..300));
    let older = scene.keep_logs("older");
    scene.commit(heads(1, 300..700));
    let newer = scene.keep_logs("newer");
    let tree = scene.open().tree();
    scene.put_logs_back(&older);
    let log = scene.open();
    assert!(log.fault().unwrap().is_some());
    // A copy that ends before the mark mends nothing.
    let error = log.catch_up(&older.join(OWN.to_string())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(log.catch_up(&newer.join(OWN.to_string())).unwrap(), 400);
    assert_eq!(log.tree(), tree);
    assert_eq!(log.fault().unwrap(), None);
    log.assert_whole();
    log.commit_heads([head(1, 700)]);
    assert_eq!(log.size(), 701);
}

#[test]
fn a_restarted_log_says_which_log_it_follows_and_what_was_known_of_it() {
    let scene = on_disk();
    let checkpoint = || scene.open().view().unwrap().checkpoint().to_string();
    scene.commit(heads(1, 0..3));
    let older = scene.keep_logs("older");
    scene.commit(heads(1, 3..5));
    let newest = checkpoint();
    scene.put_logs_back(&older);
    let known = checkpoint();
    let past = scene.past(&[]);
    assert_eq!(past.tree.size, 5);
    scene.replace(past).unwrap();
    let log = scene.open();
    assert_eq!(log.fault().unwrap(), None);
    let restart = first_entry(&log);
    assert_eq!(restart.origin.as_str(), format!("threadseal.log/{OWN}"));
    assert_eq!(restart.checkpoint, known.into_bytes());
    assert_eq!(restart.mark, Some(newest.into_bytes()));
    log.assert_whole();
}

#[test]
fn a_lost_log_is_followed_by_what_its_second_place_knows() {
    let scene = on_disk();
    scene.commit(heads(1, 0..3));
    let newest = scene.open().view().unwrap().checkpoint().to_string();
    scene.remove_logs();
    scene.replace(scene.past(&[])).unwrap();
    let restart = first_entry(&scene.open());
    let expected = (newest.into_bytes(), None);
    assert_eq!((restart.checkpoint, restart.mark), expected);
}

// T-LOG-23
#[test]
fn every_changed_file_is_found() {
    let scene = on_disk();
    scene.commit(heads(1, 0..600));
    scene.open().fold().unwrap();
    scene.commit(heads(1, 600..602));
    let checked = scene.open().fsck().unwrap();
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
        let bytes = scene.get(file);
        // The last line of the journal is the last signature, which the second place has as well.
        let last = match file {
            "journal" => bytes.len() / 2,
            _ => bytes.len() - 1,
        };
        for at in [0, bytes.len() / 2, last] {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            scene.put(file, changed);
            let found = scene.open().fsck();
            let is_whole = found.as_ref().is_ok_and(|found| found.faults.is_empty());
            assert!(!is_whole, "{file} at {at}: {found:?}");
        }
        scene.put(file, bytes);
    }
    scene.open().assert_whole();
}

/// A second place that cannot be written is reported at each query, and committed heads stay
/// committed.
#[test]
fn a_mark_that_cannot_be_written_is_told_and_takes_nothing_back() {
    let scene = on_disk();
    fs::remove_dir_all(&scene.home().mark).unwrap();
    fs::write(&scene.home().mark, "a file").unwrap();
    let log = scene.open();
    for seq in 0..2 {
        log.publish(&head(1, seq));
        // Whether the attempt came before the query or not.
        if seq == 1 {
            thread::sleep(Duration::from_millis(100));
        }
        assert!(log.flush().error.is_some());
    }
    fs::remove_file(&scene.home().mark).unwrap();
    log.commit_heads([head(1, 2)]);
    assert_eq!(log.marks().unwrap(), [Some(log.tree())]);
}

/// Both are on one machine and have one key: what they have in common besides is the mark.
// T-MARK-27
#[test]
fn of_two_copies_of_a_home_one_goes_on() {
    let scene = on_disk();
    scene.commit(heads(1, 0..2));
    let twin = scene.copied("twin");
    scene.commit(heads(1, 2..3));
    let error = twin.open().refuse(head(2, 0));
    assert!(error.to_string().contains("log_rolled_back"), "{error}");
    scene.key.assert_one_tree_of_each_size("twin");
}

// T-MARK-08
#[test]
fn a_log_in_whose_place_another_was_put_never_signs_again() {
    let scene = on_disk();
    scene.commit(heads(1, 0..2));
    let before = scene.keep(&scene.home().path, "before");
    let running = scene.open();
    scene.replace(scene.past(&[])).unwrap();
    // A process that had it open, and a copy of the home from before.
    let error = running.refuse(head(1, 2)).to_string();
    assert!(error.contains("another log"), "{error}");
    drop(running);
    put_back(&before, &scene.home().path);
    let log = scene.open();
    assert_eq!(log.fault().unwrap(), Some(Fault::Ended));
    log.publish(&head(1, 2));
    assert!(log.flush().error.is_some());
    assert_eq!(log.size(), 2);
}

// T-LOG-36 T-LOG-40
#[test]
fn many_left_files_are_taken_up_by_and_by() {
    let scene = on_disk();
    let spool = scene.home().logs().join("spool");
    for number in 0..100 {
        let line = own_line(&scene, &head(number, 0));
        scene.put(spool.join(format!("{number:016x}")), line);
    }
    let log = scene.open();
    (0..4).for_each(|_| log.settle());
    assert_eq!(log.size(), 100);
    drop(log);
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 0);
}

/// What waited for a log that does not go on is written into the one in its place.
// T-LOG-39
#[test]
fn heads_that_waited_for_a_log_that_was_put_back_are_in_the_next_one() {
    let scene = on_disk();
    scene.commit(heads(1, 0..2));
    roll_back(&scene, 2..3);
    let log = scene.open();
    log.publish(&head(4, 0));
    assert!(log.flush().error.is_some());
    drop(log);
    scene.replace(scene.past(&[])).unwrap();
    let log = scene.open();
    log.settle();
    assert_eq!(log.newest_of(4), Some(head(4, 0)));
}

/// A worker whose log commits nothing for days must neither grow without bound nor forget.
// T-LOG-40
#[test]
fn what_cannot_be_committed_for_long_waits_on_the_disk_alone() {
    let scene = on_disk();
    let keyless = scene.open_without_key();
    for portion in [0..1000, 1000..2000, 2000..2500_u64] {
        let waiting = usize::try_from(portion.end).unwrap();
        portion.for_each(|seq| keyless.publish(&head(1, seq)));
        let published = keyless.flush();
        assert!(published.error.is_some());
        assert_eq!(published.waiting, waiting);
    }
    drop(keyless);
    // Two that the process has let go of, as many heads as it keeps in each; and the one that it had at its end.
    let files = fs::read_dir(scene.home().logs().join("spool")).unwrap();
    assert_eq!(files.count(), 3);
    let log = scene.open();
    log.settle();
    // Files are read in no order, and a later head covers the earlier ones.
    assert_eq!(log.newest_of(1), Some(head(1, 2499)));
}

// T-LOG-49
#[test]
fn of_two_who_make_a_log_at_once_one_is_told_that_there_is_one() {
    let scene = bare();
    let made: Vec<bool> = thread::scope(|scope| {
        let make = |number| {
            let scene = &scene;
            scope.spawn(move || scene.create(&scene.describe(id(number)), &[]).is_ok())
        };
        let making: Vec<_> = (1..=4).map(make).collect();
        making.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|made| **made).count(), 1);
    assert_eq!(scene.fault(), None);
}

/// A command seals while another process stays in the log, or a process that was stopped holds its
/// lock.
// T-LOG-41
#[test]
fn whoever_ends_waits_a_moment_for_who_is_in_the_log_and_leaves_its_heads_to_the_next() {
    let scene = on_disk();
    let own = scene.folder().join("lock");
    let common = scene.home().mark.join(format!("{OWN}.lock"));
    for (seq, lock) in (0..).zip([own, common]) {
        let held = threadseal_store::lock::Exclusive::enter(&RealFs, &lock).unwrap();
        let log = scene.open();
        log.publish(&head(1, seq));
        let published = log.flush_within(Duration::from_millis(100));
        assert_eq!(published.waiting, 1);
        let error = published.error.unwrap().to_string();
        assert!(error.contains("is locked by"), "{error}");
        // Nor does its end wait, or take anything along.
        drop(log);
        drop(held);
        let log = scene.open();
        log.settle();
        assert_eq!(log.newest_of(1), Some(head(1, seq)));
        drop(log);
        let spool = fs::read_dir(scene.home().logs().join("spool")).unwrap();
        assert_eq!(spool.count(), 0);
    }
}

/// `HOME=/dev/null`, a folder of another user.
// T-MARK-20
#[test]
fn where_the_home_would_have_its_marks_by_another_name_need_not_be_readable() {
    let scene = on_disk();
    let file = scene.path("file");
    fs::write(&file, "").unwrap();
    let other = scene.with(|home| {
        home.elsewhere = vec![file.join("marks"), home.mark.clone()];
        home.path = scene.path("another");
        home.mark = scene.path("another.marks");
    });
    assert!(other.registry.current().unwrap().is_none());
    let gone = other.with(|home| home.path = scene.path("home"));
    gone.remove_logs();
    // Nor does it hide what the other one shows.
    gone.assert_missing("elsewhere");
}

/// Two places are gone for good: each has to be removed while the other one cannot be asked.
// T-MARK-20
#[test]
fn a_second_place_is_removed_whatever_the_others_say_and_none_is_added_then() {
    let scene = on_disk();
    scene.commit([head(1, 0)]);
    let mark = |name: &str| MarkLocation::Folder(scene.path(name));
    let own = MarkLocation::Folder(scene.home().mark.clone());
    let description = scene.current();
    let keep_in = |marks| scene.registry.keep_marks_in(&description, marks);
    keep_in(vec![own.clone(), mark("one"), mark("two")]).unwrap();
    roll_back(&scene, 1..3);
    for name in ["one", "two"] {
        fs::remove_dir_all(scene.path(name)).unwrap();
        fs::write(scene.path(name), "a file").unwrap();
    }
    assert!(scene.fault().is_some());
    let two = vec![own.clone(), mark("two")];
    assert_eq!(keep_in(two.clone()).unwrap().marks, two);
    let error = keep_in(vec![own.clone(), mark("three")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    keep_in(vec![own.clone()]).unwrap();
    assert_eq!(scene.current().marks, [own]);
    // The marks that remain still show that the log was rolled back.
    assert!(scene.fault().is_some());
}

/// The new log is to have a second place that cannot be written.
// T-MARK-20
#[test]
fn a_restart_that_cannot_be_done_ends_nothing() {
    let scene = on_disk();
    scene.commit(heads(1, 0..2));
    let file = scene.path("file");
    fs::write(&file, "").unwrap();
    let marks = [scene.home().mark.clone(), file.join("marks")];
    let next = Description {
        marks: marks.map(MarkLocation::Folder).to_vec(),
        ..scene.describe(NEXT)
    };
    let past = scene.past(&[]);
    assert!(scene.replace_by(past, &next, &[], true).is_err());
    assert_eq!(scene.fault(), None);
    scene.commit(heads(1, 2..3));
    assert_eq!(scene.open().size(), 3);
}
