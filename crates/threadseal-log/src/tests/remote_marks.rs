//! Second places that do not answer at once: a storage, and a database where PostgreSQL is installed.

use super::*;
use threadseal_store::postgres::throwaway::Cluster;

/// Runs `test` with the address of an empty place of each kind.
fn each_kind(test: impl Fn(&str)) {
    let folder = tempfile::tempdir().unwrap();
    test(&format!("object+file:{}", folder.path().display()));
    if let Some(cluster) = Cluster::shared() {
        test(&cluster.fresh());
    }
}

/// A home with a log whose last checkpoint is also kept at `address`.
fn kept_at(address: &str) -> (tempfile::TempDir, LogRegistry, Arc<Remembering>) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let (places, key) = (places(RealFs::shared(), &home), Remembering::new());
    let description = Description {
        marks: vec![
            MarkLocation::Folder(places.home.mark.clone()),
            MarkLocation::parse(address).unwrap(),
        ],
        ..description(&key)
    };
    let log_key = LogKey(Arc::clone(&key) as _);
    places
        .create(&description, &log_key, &[], &|| Ok(()))
        .unwrap();
    (folder, places, key)
}

fn publish(log: &SealLog, record: u8, seqs: std::ops::Range<u64>) {
    seqs.for_each(|seq| log.publish(&head(record, seq)));
}

/// The mark in the place that is no folder.
fn far(log: &SealLog) -> Result<Option<TreeHead>, Error> {
    log.mark_states().pop().unwrap().tree
}

/// Home and folder of marks as they were, as after a disk was put back.
fn put_back(folder: &Path, places: &LogRegistry) {
    for (there, older) in [
        (&places.home.path, "older"),
        (&places.home.mark, "older.mark"),
    ] {
        std::fs::remove_dir_all(there).unwrap();
        copy(&folder.join(older), there);
    }
}

fn put_aside(folder: &Path, places: &LogRegistry) {
    copy(&places.home.path, &folder.join("older"));
    copy(&places.home.mark, &folder.join("older.mark"));
}

// T-MARK-14
#[test]
fn a_disk_that_was_put_back_with_its_folder_of_marks_is_noticed_by_a_place_elsewhere() {
    each_kind(|address| {
        let (folder, places, key) = kept_at(address);
        let log = open(&places, &key);
        publish(&log, 1, 0..2);
        flushed(&log);
        assert_eq!(far(&log), Ok(Some(log.view().unwrap().tree())));
        drop(log);
        put_aside(folder.path(), &places);
        let log = open(&places, &key);
        publish(&log, 1, 2..4);
        flushed(&log);
        let newest = log.view().unwrap().tree();
        drop(log);
        put_back(folder.path(), &places);

        let log = open(&places, &key);
        let here = log.view().unwrap().tree();
        let fault = Fault::RolledBack {
            mark: newest,
            log: here,
        };
        assert_eq!(log.standing(), Standing::Faulty(fault));
        publish(&log, 1, 4..5);
        let published = log.flush();
        assert_eq!(published.waiting, 1);
        let error = published.error.unwrap().to_string();
        assert!(error.contains("log_rolled_back"), "{error}");
        assert_eq!(log.view().unwrap().tree(), here);
        assert_eq!(far(&log), Ok(Some(newest)));
        // No two trees of one size were signed.
        let mut signed = key.signed.lock().unwrap().clone();
        signed.sort_by_key(|tree| tree.size);
        signed.dedup();
        assert!(signed.windows(2).all(|two| two[0].size < two[1].size));
    });
}

/// Both have looked before either committed: the place then takes the one that comes first, and the other one goes no further.
// T-MARK-07 T-MARK-24
#[test]
fn of_two_hosts_with_one_log_the_second_is_told_behind_its_commit_and_goes_no_further() {
    each_kind(|address| {
        let (folder, places, key) = kept_at(address);
        let twin = LogRegistry::new(LogHome {
            path: folder.path().join("twin"),
            mark: folder.path().join("twin.home.mark"),
            ..places.home.clone()
        });
        copy(&places.home.path, &twin.home.path);
        copy(&places.home.mark, &twin.home.mark);
        let description = twin.current().unwrap().unwrap();
        let own = MarkLocation::Folder(twin.home.mark.clone());
        let marks = vec![own, description.marks[1].clone()];
        twin.keep_marks_in(&description, marks).unwrap();
        let (one, other) = (open(&places, &key), open(&twin, &key));
        assert_eq!(one.standing(), Standing::Good);
        assert_eq!(other.standing(), Standing::Good);
        publish(&one, 1, 0..2);
        flushed(&one);
        let first = one.view().unwrap().tree();
        publish(&other, 2, 0..1);
        let published = other.flush();
        assert_eq!(published.waiting, 0);
        let error = published.error.unwrap().to_string();
        assert!(error.contains("log_rolled_back"), "{error}");
        assert!(matches!(other.standing(), Standing::Faulty(_)));
        publish(&other, 2, 1..2);
        let published = other.flush();
        assert_eq!(published.waiting, 1, "{published:?}");
        assert_eq!(other.view().unwrap().tree().size, 1);
        // The first one continues, and the place was never lowered.
        publish(&one, 1, 2..3);
        flushed(&one);
        let newest = one.view().unwrap();
        assert!(newest.consistency(&first).unwrap().is_some());
        assert_eq!(far(&open(&places, &key)), Ok(Some(newest.tree())));
    });
}

/// Otherwise an attacker who cuts a host off its network could make every earlier seal of a rotated
/// key count as forged.
// T-MARK-19
#[test]
fn a_place_that_cannot_be_asked_takes_nothing_from_the_entries_that_another_vouches_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let (_home, places, key) = kept_at(&format!("object+file:{}", store.display()));
    published_once(&places, &key, 0..2);
    assert_eq!(open(&places, &key).marked().unwrap(), 2);
    std::fs::rename(&store, folder.path().join("away")).unwrap();
    std::fs::write(&store, "").unwrap();
    let log = open(&places, &key);
    assert!(matches!(log.standing(), Standing::MarkUnread(_)));
    assert_eq!(log.marked().unwrap(), 2);
    // Where the other one is gone too, nothing vouches for them.
    std::fs::remove_dir_all(&places.home.mark).unwrap();
    assert_eq!(open(&places, &key).marked().unwrap(), 0);
}

// T-MARK-16
#[test]
fn while_a_place_cannot_be_asked_heads_wait_and_what_others_show_still_counts() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let address = format!("object+file:{}", store.display());
    let (home, places, key) = kept_at(&address);
    published_once(&places, &key, 0..1);
    put_aside(home.path(), &places);
    // A file where the folder of objects was.
    let away = folder.path().join("away");
    std::fs::rename(&store, &away).unwrap();
    std::fs::write(&store, "").unwrap();
    let log = open(&places, &key);
    assert!(matches!(log.standing(), Standing::MarkUnread(_)));
    publish(&log, 1, 1..2);
    let published = log.flush();
    assert_eq!(published.waiting, 1);
    let error = published.error.unwrap().to_string();
    assert!(error.contains(&address), "{error}");
    assert_eq!(log.view().unwrap().tree().size, 1);
    // It comes back while the process runs: what waited is committed, and the place follows.
    std::fs::remove_file(&store).unwrap();
    std::fs::rename(&away, &store).unwrap();
    flushed(&log);
    assert_eq!(log.view().unwrap().tree().size, 2);
    assert_eq!(far(&open(&places, &key)).unwrap().unwrap().size, 2);
    assert_eq!(log.standing(), Standing::Good);
    drop(log);
    // Unreadable again, with the home put back and not its folder of marks: that folder shows the
    // rollback.
    std::fs::remove_dir_all(&store).unwrap();
    std::fs::write(&store, "").unwrap();
    std::fs::remove_dir_all(&places.home.path).unwrap();
    copy(&home.path().join("older"), &places.home.path);
    let log = open(&places, &key);
    assert!(
        matches!(log.standing(), Standing::Faulty(Fault::RolledBack { .. })),
        "{:?}",
        log.standing()
    );
}

// T-MARK-16
#[test]
fn a_raise_that_failed_undoes_no_commit_and_is_made_up_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let address = format!("object+file:{}", store.display());
    let (_home, places, key) = kept_at(&address);
    let log = open(&places, &key);
    publish(&log, 1, 0..1);
    flushed(&log);
    let away = folder.path().join("away");
    std::fs::rename(&store, &away).unwrap();
    std::fs::write(&store, "").unwrap();
    publish(&log, 1, 1..2);
    let published = log.flush();
    assert_eq!(published.waiting, 0);
    assert!(published.error.is_some());
    assert_eq!(log.view().unwrap().tree().size, 2);
    drop(log);
    std::fs::remove_file(&store).unwrap();
    std::fs::rename(&away, &store).unwrap();
    assert_eq!(far(&open(&places, &key)).unwrap().unwrap().size, 1);
    published_once(&places, &key, 2..3);
    assert_eq!(far(&open(&places, &key)).unwrap().unwrap().size, 3);
}

// T-MARK-06
#[test]
fn a_log_that_was_ended_elsewhere_has_ended_for_each_copy() {
    each_kind(|address| {
        let (folder, places, key) = kept_at(address);
        published_once(&places, &key, 0..2);
        put_aside(folder.path(), &places);
        let past = places.past(&[], None).unwrap().unwrap();
        let next = Description {
            id: LogId::from_bytes([0xcd; 16]),
            ..places.current().unwrap().unwrap()
        };
        let log_key = LogKey(Arc::clone(&key) as _);
        places.restart(past, &next, &log_key, &[], false).unwrap();
        let log = open(&places, &key);
        log.raise_marks(Duration::from_secs(5)).unwrap();
        assert_eq!(far(&log), Ok(Some(log.view().unwrap().tree())));
        drop(log);
        put_back(folder.path(), &places);
        let log = open(&places, &key);
        assert_eq!(log.standing(), Standing::Faulty(Fault::Ended));
    });
}

// T-MARK-16
#[test]
fn what_somebody_else_put_there_keeps_the_log_from_committing() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("object+file:{}", folder.path().display());
    let (_home, places, key) = kept_at(&address);
    published_once(&places, &key, 0..1);
    let mark = folder.path().join("threadseal-marks").join("ab".repeat(16));
    let good = std::fs::read_to_string(&mark).unwrap();
    let (first, note) = good.split_once('\n').unwrap();
    for bad in [
        String::new(),
        note.to_owned(),
        format!("{first}\n"),
        format!("{good}\n"),
        good.replacen("\n1\n", "\n2\n", 1),
        good.replace("mark", "mark of a log that ended, or not"),
    ] {
        std::fs::write(&mark, &bad).unwrap();
        let log = open(&places, &key);
        assert!(matches!(log.standing(), Standing::MarkUnread(_)), "{bad}");
        publish(&log, 1, 1..2);
        assert_eq!(log.flush().waiting, 1, "{bad}");
    }
    std::fs::write(&mark, &good).unwrap();
    published_once(&places, &key, 1..2);
}

/// A place is added to an existing log only if the mark in it does not contradict the log.
// T-MARK-17
#[test]
fn a_place_is_added_and_removed_and_none_that_contradicts_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("object+file:{}", folder.path().display());
    let (home, places, key) = kept_at(&address);
    published_once(&places, &key, 0..1);
    let description = places.current().unwrap().unwrap();
    let without = vec![description.marks[0].clone()];
    let bare = places.keep_marks_in(&description, without).unwrap();
    put_aside(home.path(), &places);
    assert_eq!(open(&places, &key).mark_states().len(), 1);
    let with = description.marks.clone();
    let again = places.keep_marks_in(&bare, with.clone()).unwrap();
    assert_eq!(again.marks, with);
    published_once(&places, &key, 1..3);
    put_back(home.path(), &places);
    // The copy does not name the place, and would go on; the place refuses to be added to it.
    let log = open(&places, &key);
    assert_eq!(log.standing(), Standing::Good);
    let refused = places.keep_marks_in(log.description(), with).unwrap_err();
    assert!(refused.to_string().contains("log_rolled_back"), "{refused}");
    assert_eq!(places.current().unwrap().unwrap().marks.len(), 1);
    let many = vec![MarkLocation::Folder(places.home.mark.clone()); 17];
    assert!(places.keep_marks_in(log.description(), many).is_err());
}

fn published_once(places: &LogRegistry, key: &Arc<Remembering>, seqs: std::ops::Range<u64>) {
    let log = open(places, key);
    publish(&log, 1, seqs);
    flushed(&log);
}
