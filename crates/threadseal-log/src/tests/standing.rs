//! The worth of heads, by the state of their log.

use super::*;

/// A change that another process makes to an open log.
type Happens = dyn Fn(&LogRegistry, &Arc<Remembering>);

/// A writer of the folder of heads puts a later head of another continuation there: the log's still
/// counts.
// T-LOG-08
#[test]
fn a_head_that_was_put_before_the_one_of_the_log_does_not_hide_it() {
    let (_folder, places, key) = on_disk();
    let files = Arc::new(FileHeadStore::new(
        RealFs::shared(),
        places.home.path.join("heads"),
    ));
    let log = Arc::new(open(&places, &key));
    let heads = LoggedHeads::new(files.clone(), Arc::clone(&log));
    assert_eq!(heads.create(&known(1, 0)).unwrap(), Swap::Stored);
    flushed(&log);
    let later = known(1, 5);
    let swap = files.replace_if(
        &head(1, 0).head,
        &later,
        threadseal_store::heads::Durability::Durable,
    );
    assert_eq!(swap.unwrap(), Swap::Stored);
    let found = heads.fetch(&record(1)).unwrap().unwrap();
    assert_eq!(found.head, later.head);
    let expected: Vec<_> = found.expectations().iter().map(|one| one.head).collect();
    let both = [later.head, head(1, 0).head].map(threadseal_core::record::ExpectedHead::Head);
    assert_eq!(expected, both);
    assert!(found.vouches);
}

/// The log has no times: a head that the store does not have is no evidence that it is older than a revocation.
// T-LOG-09
#[test]
fn a_head_that_only_the_log_has_was_held_since_nobody_knows() {
    let (_folder, places, key) = on_disk();
    let files = Arc::new(FileHeadStore::new(
        RealFs::shared(),
        places.home.path.join("heads"),
    ));
    let log = Arc::new(open(&places, &key));
    let heads = LoggedHeads::new(files, Arc::clone(&log));
    log.publish(&head(1, 0));
    log.publish(&head(2, 1));
    flushed(&log);
    let found = heads.fetch(&record(1)).unwrap().unwrap();
    assert_eq!((found.head, found.held_since()), (head(1, 0).head, None));
    let older = StoredHead {
        updated: threadseal_core::time::Timestamp::from_micros(5).unwrap(),
        ..known(2, 0)
    };
    assert_eq!(heads.create(&older).unwrap(), Swap::Stored);
    let found = heads.fetch(&record(2)).unwrap().unwrap();
    assert_eq!((found.head, found.held_since()), (head(2, 1).head, None));
}

/// A log that has ended, or that is damaged, takes nothing from what the store of heads knows, and vouches for none of it.
// T-LOG-21
#[test]
fn a_log_that_cannot_vouch_leaves_heads_standing_and_calls_none_the_newest() {
    let (_folder, places, key) = on_disk();
    let files = Arc::new(FileHeadStore::new(
        RealFs::shared(),
        places.home.path.join("heads"),
    ));
    let log = Arc::new(open(&places, &key));
    let heads = LoggedHeads::new(files.clone(), Arc::clone(&log));
    assert_eq!(heads.create(&known(1, 0)).unwrap(), Swap::Stored);
    flushed(&log);
    let ended = places.home.mark.join(format!("{}.ended", "ab".repeat(16)));
    std::fs::write(&ended, "").unwrap();
    let copied = Arc::new(open(&places, &key));
    assert_eq!(copied.standing(), Standing::Faulty(Fault::Ended));
    let found = LoggedHeads::new(files.clone(), copied).fetch(&record(1));
    let found = found.unwrap().unwrap();
    assert_eq!((found.head, found.vouches), (head(1, 0).head, false));
    std::fs::remove_file(&ended).unwrap();
    std::fs::write(log.access.dir.journal(), "damaged").unwrap();
    let damaged = Arc::new(open(&places, &key));
    assert!(matches!(damaged.standing(), Standing::Damaged(_)));
    let found = LoggedHeads::new(files, damaged).fetch(&record(1));
    let found = found.unwrap().unwrap();
    assert_eq!((found.head, found.vouches), (head(1, 0).head, false));
}

/// A worker has the log open for days, and another process puts it back, restarts it, or ends it.
// T-MARK-07
#[test]
fn a_process_that_lives_long_hears_what_became_of_the_log_before_it_says_that_anything_is_logged() {
    let put_back = |places: &LogRegistry, key: &Arc<Remembering>| {
        let journal = restarts::folder_of(places, 0xab).join("journal");
        let before = std::fs::read(&journal).unwrap();
        restarts::published(places, key, &[head(7, 0)]);
        std::fs::write(journal, before).unwrap();
    };
    let restarted = |places: &LogRegistry, key: &Arc<Remembering>| {
        restarts::restarted(places, key, 0xcd, &[], &[]);
    };
    let ended = |places: &LogRegistry, _: &Arc<Remembering>| {
        let ended = places.home.mark.join(format!("{}.ended", "ab".repeat(16)));
        std::fs::write(ended, "").unwrap();
    };
    let becomes: [(&str, &Happens); 3] = [
        ("put back", &put_back),
        ("restarted", &restarted),
        ("ended", &ended),
    ];
    for (what, happens) in becomes {
        let (_folder, places, key) = on_disk();
        let log = Arc::new(open(&places, &key));
        let files = FileHeadStore::new(RealFs::shared(), places.home.path.join("heads"));
        let heads = LoggedHeads::new(Arc::new(files), Arc::clone(&log));
        assert_eq!(heads.create(&known(1, 0)).unwrap(), Swap::Stored);
        flushed(&log);
        assert_eq!(log.standing(), Standing::Good);
        // Another process commits: nothing is wrong with that.
        restarts::published(&places, &key, &[head(2, 0)]);
        assert_eq!(log.standing(), Standing::Good);
        assert!(heads.fetch(&record(1)).unwrap().unwrap().vouches);
        happens(&places, &key);
        assert!(!heads.fetch(&record(1)).unwrap().unwrap().vouches, "{what}");
        assert!(!heads.vouches(), "{what}");
        assert!(matches!(log.standing(), Standing::Faulty(_)), "{what}");
        let signed = key.signed.lock().unwrap().len();
        log.publish(&head(1, 1));
        let published = log.flush();
        assert_eq!((published.waiting, published.error.is_some()), (1, true));
        assert_eq!(key.signed.lock().unwrap().len(), signed, "{what}");
        drop((heads, log));
        if what == "restarted" {
            // The waiting head is in the log that continues.
            let log = open(&places, &key);
            flushed(&log);
            assert_eq!(restarts::newest(&log, 1), Some(head(1, 1)));
        }
    }
}

/// A second place that is taken away or damaged while the log is open, and comes back.
// T-MARK-07
#[test]
fn a_second_place_that_goes_and_comes_back_is_noticed_by_whoever_has_the_log_open() {
    let (folder, places, key) = on_disk();
    let log = open(&places, &key);
    log.publish(&head(1, 0));
    flushed(&log);
    assert_eq!(log.standing(), Standing::Good);
    let away = folder.path().join("away");
    std::fs::rename(&places.home.mark, &away).unwrap();
    assert_eq!(log.standing(), Standing::MarkGone);
    std::fs::rename(&away, &places.home.mark).unwrap();
    assert_eq!(log.standing(), Standing::Good);
    let names = std::fs::read_dir(&places.home.mark).unwrap();
    let mut paths = names.map(|name| name.unwrap().path());
    let mark = paths.find(|path| path.extension().is_some_and(|ending| ending == "mark"));
    let mark = mark.unwrap();
    let before = std::fs::read(&mark).unwrap();
    std::fs::write(&mark, "damaged").unwrap();
    assert!(matches!(log.standing(), Standing::MarkUnread(_)));
    std::fs::write(&mark, before).unwrap();
    assert_eq!(log.standing(), Standing::Good);
}

/// A thief of the log's key puts the first seal of a record back, and appends its old head to the
/// log.
// T-LOG-12
#[test]
fn an_old_head_that_is_written_down_again_is_not_the_newest() {
    for folded in [false, true] {
        let (_folder, places, key) = on_disk();
        let log = open(&places, &key);
        (0..3).for_each(|seq| log.publish(&head(1, seq)));
        flushed(&log);
        if folded {
            log.fold().unwrap();
        }
        let mut other = head(1, 2);
        other.head.line = Digest::of(b"another seal 2");
        let again = [head(1, 0), other].map(|head| creation::head_entry(&head).unwrap());
        let commit = |writer: &mut Writer<'_>, _: &HeadIndex| writer.commit(&again);
        log.access.write(&|| false, commit).unwrap();
        for in_tiles in [false, true] {
            if in_tiles {
                log.fold().unwrap();
            }
            for log in [&log, &open(&places, &key)] {
                assert_eq!(log.view().unwrap().tree().size, 5);
                assert_eq!(log.newest(&record(1)).unwrap(), Some((2, head(1, 2))));
                let second = log.head_at(&record(1), 2).unwrap().unwrap();
                assert_eq!(second.logged, head(1, 2));
                let faults = log.fsck().unwrap().faults;
                for entry in ["entry 3: seal 0", "entry 4: seal 2"] {
                    let told = faults.iter().any(|fault| fault.starts_with(entry));
                    assert!(told, "{entry}: {faults:?}");
                }
            }
        }
    }
}

/// An attacker who puts a log back removes the tile that would show it. A second place that cannot
/// be read is another matter.
// T-MARK-09
#[test]
fn a_log_that_cannot_be_held_against_its_mark_vouches_for_nothing() {
    let (folder, places, key) = on_disk();
    let log = open(&places, &key);
    (0..200).for_each(|seq| log.publish(&head(1, seq)));
    flushed(&log);
    let marks = folder.path().join("marks");
    copy(&places.home.mark, &marks);
    (200..600).for_each(|seq| log.publish(&head(1, seq)));
    flushed(&log);
    log.fold().unwrap();
    drop(log);
    std::fs::remove_dir_all(&places.home.mark).unwrap();
    copy(&marks, &places.home.mark);
    assert_eq!(open(&places, &key).standing(), Standing::Good);
    let tile = restarts::folder_of(&places, 0xab).join("tile/0/000");
    let whole = std::fs::read(&tile).unwrap();
    std::fs::remove_file(&tile).unwrap();
    let log = open(&places, &key);
    assert!(log.view().is_ok());
    let standing = log.standing();
    assert!(matches!(standing, Standing::Damaged(_)), "{standing:?}");
    assert!(!standing.vouches());
    std::fs::write(&tile, whole).unwrap();
    for mark in std::fs::read_dir(&places.home.mark).unwrap() {
        let path = mark.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "mark") {
            std::fs::write(path, "damaged").unwrap();
        }
    }
    let log = open(&places, &key);
    assert!(matches!(log.standing(), Standing::MarkUnread(_)));
    assert!(log.standing().vouches());
}
