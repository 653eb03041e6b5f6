//! The worth of heads, by the state of their log.

use super::prelude::*;
use threadseal_core::record::ExpectedHead;
use threadseal_core::time::Timestamp;

/// A change that another process makes to an open log.
type Happens = fn(&OnDisk);

/// A home, its open log, and its heads, of which the log has the first one of record 1.
fn one_head() -> (OnDisk, Arc<SealLog>, LoggedHeads) {
    let scene = on_disk();
    let log = Arc::new(scene.open());
    let heads = scene.logged(&log);
    assert_eq!(heads.create(&known(1, 0)).unwrap(), Swap::Stored);
    log.settle();
    (scene, log, heads)
}

fn found(heads: &LoggedHeads, number: u8) -> StoredHead {
    heads.fetch(&record(number)).unwrap().unwrap()
}

/// A writer of the folder of heads puts a later head of another continuation there: the log's still
/// counts.
// T-LOG-08
#[test]
fn a_head_that_was_put_before_the_one_of_the_log_does_not_hide_it() {
    let (scene, _log, heads) = one_head();
    let later = known(1, 5);
    let files = scene.stored();
    let swap = files.replace_if(&head(1, 0).head, &later, Durability::Durable);
    assert_eq!(swap.unwrap(), Swap::Stored);
    let found = found(&heads, 1);
    assert_eq!(found.head, later.head);
    let expected: Vec<_> = found.expectations().iter().map(|one| one.head).collect();
    let both = [later.head, head(1, 0).head].map(ExpectedHead::Head);
    assert_eq!(expected, both);
    assert!(found.vouches);
}

/// The log has no times: a head that the store does not have is no evidence that it is older than a revocation.
// T-LOG-09
#[test]
fn a_head_that_only_the_log_has_was_held_since_nobody_knows() {
    let scene = on_disk();
    let log = Arc::new(scene.open());
    let heads = scene.logged(&log);
    log.commit_heads([head(1, 0), head(2, 1)]);
    let one = found(&heads, 1);
    assert_eq!((one.head, one.held_since()), (head(1, 0).head, None));
    let older = StoredHead {
        updated: Timestamp::from_micros(5).unwrap(),
        ..known(2, 0)
    };
    assert_eq!(heads.create(&older).unwrap(), Swap::Stored);
    let two = found(&heads, 2);
    assert_eq!((two.head, two.held_since()), (head(2, 1).head, None));
}

/// A log that has ended, or that is damaged, takes nothing from what the store of heads knows, and vouches for none of it.
// T-LOG-21
#[test]
fn a_log_that_cannot_vouch_leaves_heads_standing_and_calls_none_the_newest() {
    let (scene, _log, _) = one_head();
    let vouches_not = |log: Arc<SealLog>| {
        let found = found(&scene.logged(&log), 1);
        assert_eq!((found.head, found.vouches), (head(1, 0).head, false));
    };
    scene.put(scene.ended_file(), "");
    let ended = Arc::new(scene.open());
    assert_eq!(ended.standing(), Standing::Faulty(Fault::Ended));
    vouches_not(ended);
    scene.remove(scene.ended_file());
    scene.put("journal", "damaged");
    let damaged = Arc::new(scene.open());
    assert!(matches!(damaged.standing(), Standing::Damaged(_)));
    vouches_not(damaged);
}

/// A worker has the log open for days, and another process puts it back, restarts it, or ends it.
// T-MARK-07
#[test]
fn a_process_that_lives_long_hears_what_became_of_the_log_before_it_says_that_anything_is_logged() {
    let becomes: [(&str, Happens); 3] = [
        ("put back", |scene| {
            let before = scene.get("journal");
            scene.commit([head(7, 0)]);
            scene.put("journal", before);
        }),
        ("restarted", |scene| {
            scene.restart(NEXT, &[], &[]);
        }),
        ("ended", |scene| scene.put(scene.ended_file(), "")),
    ];
    for (what, happens) in becomes {
        let (scene, log, heads) = one_head();
        assert_eq!(log.standing(), Standing::Good);
        // Another process commits: nothing is wrong with that.
        scene.commit([head(2, 0)]);
        assert_eq!(log.standing(), Standing::Good);
        assert!(found(&heads, 1).vouches);
        happens(&scene);
        assert!(!found(&heads, 1).vouches, "{what}");
        assert!(!heads.vouches(), "{what}");
        assert!(matches!(log.standing(), Standing::Faulty(_)), "{what}");
        let signed = scene.key.signed();
        log.refuse(head(1, 1));
        assert_eq!(scene.key.signed(), signed, "{what}");
        drop((heads, log));
        if what == "restarted" {
            // The waiting head is in the log that continues.
            let log = scene.open();
            log.settle();
            assert_eq!(log.newest_of(1), Some(head(1, 1)));
        }
    }
}

/// A second place that is taken away or damaged while the log is open, and comes back.
// T-MARK-07
#[test]
fn a_second_place_that_goes_and_comes_back_is_noticed_by_whoever_has_the_log_open() {
    let scene = on_disk();
    let log = scene.open();
    log.commit_heads([head(1, 0)]);
    assert_eq!(log.standing(), Standing::Good);
    let away = scene.path("away");
    fs::rename(&scene.home().mark, &away).unwrap();
    assert_eq!(log.standing(), Standing::MarkGone);
    fs::rename(&away, &scene.home().mark).unwrap();
    assert_eq!(log.standing(), Standing::Good);
    let mark = scene.mark_files().remove(0);
    let before = scene.get(&mark);
    scene.put(&mark, "damaged");
    assert!(matches!(log.standing(), Standing::MarkUnread(_)));
    scene.put(&mark, before);
    assert_eq!(log.standing(), Standing::Good);
}

/// A thief of the log's key puts the first seal of a record back, and appends its old head to the
/// log.
// T-LOG-12
#[test]
fn an_old_head_that_is_written_down_again_is_not_the_newest() {
    for folded in [false, true] {
        let scene = on_disk();
        let log = scene.open();
        log.commit_heads(heads(1, 0..3));
        if folded {
            log.fold().unwrap();
        }
        let again = [head(1, 0), another(1, 2)];
        let again = again.map(|head| LogEntry::Head(head).to_bytes().unwrap());
        commit_entries(&log, &again);
        for in_tiles in [false, true] {
            if in_tiles {
                log.fold().unwrap();
            }
            for log in [&log, &scene.open()] {
                assert_eq!(log.size(), 5);
                assert_eq!(log.newest(&record(1)).unwrap(), Some((2, head(1, 2))));
                let second = log.head_at(&record(1), 2).unwrap().unwrap();
                assert_eq!(second.logged, head(1, 2));
                let faults = log.fsck().unwrap().faults;
                for entry in ["entry 3: seal 0", "entry 4: seal 2"] {
                    let is_found = faults.iter().any(|fault| fault.starts_with(entry));
                    assert!(is_found, "{entry}: {faults:?}");
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
    let scene = on_disk();
    let log = scene.open();
    log.commit_heads(heads(1, 0..200));
    let marks = scene.keep(&scene.home().mark, "marks");
    log.commit_heads(heads(1, 200..600));
    log.fold().unwrap();
    drop(log);
    put_back(&marks, &scene.home().mark);
    assert_eq!(scene.open().standing(), Standing::Good);
    let whole = scene.get("tile/0/000");
    scene.remove("tile/0/000");
    let log = scene.open();
    assert!(log.view().is_ok());
    let standing = log.standing();
    assert!(matches!(standing, Standing::Damaged(_)), "{standing:?}");
    assert!(!standing.vouches());
    scene.put("tile/0/000", whole);
    for mark in scene.mark_files() {
        scene.put(mark, "damaged");
    }
    let log = scene.open();
    assert!(matches!(log.standing(), Standing::MarkUnread(_)));
    assert!(log.standing().vouches());
}
