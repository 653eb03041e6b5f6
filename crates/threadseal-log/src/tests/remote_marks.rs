//! Second places that do not answer at once: a storage, and a database where PostgreSQL is installed.

use super::prelude::*;
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
fn kept_at(address: &str) -> OnDisk {
    let scene = bare();
    let description = Description {
        marks: vec![
            MarkLocation::Folder(scene.home().mark.clone()),
            MarkLocation::parse(address).unwrap(),
        ],
        ..scene.describe(OWN)
    };
    scene.create(&description, &[]).unwrap();
    scene
}

/// A second place in a folder that can be away.
struct Remote {
    folder: TempDir,
}

impl Remote {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn address(&self) -> String {
        format!("object+file:{}", self.store().display())
    }

    /// Puts a file where the folder of objects was.
    fn leave(&self) {
        fs::rename(self.store(), self.folder.path().join("away")).unwrap();
        fs::write(self.store(), "").unwrap();
    }

    fn come_back(&self) {
        fs::remove_file(self.store()).unwrap();
        fs::rename(self.folder.path().join("away"), self.store()).unwrap();
    }
}

/// The tree that the place that is no folder knows.
fn remote(log: &SealLog) -> Result<Option<TreeHead>, Error> {
    log.mark_states().pop().unwrap().tree
}

fn remote_size(scene: &OnDisk) -> u64 {
    remote(&scene.open()).unwrap().unwrap().size
}

/// Home and folder of marks as they were, as after a disk was put back.
fn put_disk_back(scene: &OnDisk) {
    put_back(&scene.path("older"), &scene.home().path);
    put_back(&scene.path("older.mark"), &scene.home().mark);
}

fn keep_disk(scene: &OnDisk) {
    scene.keep(&scene.home().path, "older");
    scene.keep(&scene.home().mark, "older.mark");
}

// T-MARK-14
#[test]
fn a_disk_that_was_put_back_with_its_folder_of_marks_is_noticed_by_a_place_elsewhere() {
    each_kind(|address| {
        let scene = kept_at(address);
        let log = scene.open();
        log.commit_heads(heads(1, 0..2));
        assert_eq!(remote(&log), Ok(Some(log.tree())));
        drop(log);
        keep_disk(&scene);
        scene.commit(heads(1, 2..4));
        let mark = scene.open().tree();
        put_disk_back(&scene);

        let log = scene.open();
        let here = log.tree();
        let fault = Fault::RolledBack { mark, log: here };
        assert_eq!(log.standing(), Standing::Faulty(fault));
        let error = log.refuse(head(1, 4)).to_string();
        assert!(error.contains("log_rolled_back"), "{error}");
        assert_eq!(log.tree(), here);
        assert_eq!(remote(&log), Ok(Some(mark)));
        scene.key.assert_one_tree_of_each_size(address);
    });
}

/// Both have looked before either committed: the place then takes the one that comes first, and the other one goes no further.
// T-MARK-07 T-MARK-24
#[test]
fn of_two_hosts_with_one_log_the_second_is_told_behind_its_commit_and_goes_no_further() {
    each_kind(|address| {
        let scene = kept_at(address);
        let mark = scene.keep(&scene.home().mark, "twin.home.mark");
        let twin = scene.copied("twin").with(|home| home.mark = mark.clone());
        let description = twin.current();
        let marks = vec![MarkLocation::Folder(mark), description.marks[1].clone()];
        twin.registry.keep_marks_in(&description, marks).unwrap();
        let (one, other) = (scene.open(), twin.open());
        assert_eq!(one.standing(), Standing::Good);
        assert_eq!(other.standing(), Standing::Good);
        one.commit_heads(heads(1, 0..2));
        let first = one.tree();
        other.publish(&head(2, 0));
        let published = other.flush();
        assert_eq!(published.waiting, 0);
        let error = published.error.unwrap().to_string();
        assert!(error.contains("log_rolled_back"), "{error}");
        assert!(matches!(other.standing(), Standing::Faulty(_)));
        other.refuse(head(2, 1));
        // Its first entry lists the place, too.
        assert_eq!(other.size(), 2);
        // The first one continues, and the place was never lowered.
        one.commit_heads([head(1, 2)]);
        let newest = one.view().unwrap();
        assert!(newest.consistency(&first).unwrap().is_some());
        assert_eq!(remote(&scene.open()), Ok(Some(newest.tree())));
    });
}

/// Otherwise an attacker who cuts a host off its network could make every earlier seal of a rotated
/// key count as forged.
// T-MARK-19
#[test]
fn a_place_that_cannot_be_asked_takes_nothing_from_the_entries_that_another_vouches_for() {
    let place = Remote::new();
    let scene = kept_at(&place.address());
    scene.commit(heads(1, 0..2));
    assert_eq!(scene.open().marked().unwrap(), 3);
    place.leave();
    let log = scene.open();
    assert!(matches!(log.standing(), Standing::MarkUnread(_)));
    assert_eq!(log.marked().unwrap(), 3);
    // Where the other one is gone too, nothing vouches for them.
    fs::remove_dir_all(&scene.home().mark).unwrap();
    assert_eq!(scene.open().marked().unwrap(), 0);
}

// T-MARK-16
#[test]
fn while_a_place_cannot_be_asked_heads_wait_and_what_others_show_still_counts() {
    let place = Remote::new();
    let scene = kept_at(&place.address());
    scene.commit([head(1, 0)]);
    keep_disk(&scene);
    place.leave();
    let log = scene.open();
    assert!(matches!(log.standing(), Standing::MarkUnread(_)));
    let error = log.refuse(head(1, 1)).to_string();
    assert!(error.contains(&place.address()), "{error}");
    assert_eq!(log.size(), 2);
    // It comes back while the process runs: what waited is committed, and the place follows.
    place.come_back();
    log.settle();
    assert_eq!(log.size(), 3);
    assert_eq!(remote_size(&scene), 3);
    assert_eq!(log.standing(), Standing::Good);
    drop(log);
    // Unreadable again, with the home put back and not its folder of marks: that folder shows the
    // rollback.
    place.leave();
    put_back(&scene.path("older"), &scene.home().path);
    let standing = scene.open().standing();
    let rolled_back = matches!(standing, Standing::Faulty(Fault::RolledBack { .. }));
    assert!(rolled_back, "{standing:?}");
}

// T-MARK-16
#[test]
fn a_raise_that_failed_undoes_no_commit_and_is_made_up_by_the_next_process() {
    let place = Remote::new();
    let scene = kept_at(&place.address());
    let log = scene.open();
    log.commit_heads([head(1, 0)]);
    place.leave();
    log.publish(&head(1, 1));
    let published = log.flush();
    assert_eq!(published.waiting, 0);
    assert!(published.error.is_some());
    assert_eq!(log.size(), 3);
    drop(log);
    place.come_back();
    assert_eq!(remote_size(&scene), 2);
    scene.commit([head(1, 2)]);
    assert_eq!(remote_size(&scene), 4);
}

// T-MARK-06
#[test]
fn a_log_that_was_ended_elsewhere_has_ended_for_each_copy() {
    each_kind(|address| {
        let scene = kept_at(address);
        scene.commit(heads(1, 0..2));
        keep_disk(&scene);
        let next = Description {
            id: NEXT,
            ..scene.current()
        };
        scene
            .replace_by(scene.past(&[]), &next, &[], false)
            .unwrap();
        let log = scene.open();
        log.raise_marks(Duration::from_secs(5)).unwrap();
        assert_eq!(remote(&log), Ok(Some(log.tree())));
        drop(log);
        put_disk_back(&scene);
        assert_eq!(scene.open().standing(), Standing::Faulty(Fault::Ended));
    });
}

// T-MARK-16
#[test]
fn what_somebody_else_put_there_keeps_the_log_from_committing() {
    let place = Remote::new();
    let scene = kept_at(&place.address());
    scene.commit([head(1, 0)]);
    let mark = place.store().join(format!("threadseal-marks/{OWN}"));
    let good = fs::read_to_string(&mark).unwrap();
    let (first, note) = good.split_once('\n').unwrap();
    for bad in [
        String::new(),
        note.to_owned(),
        format!("{first}\n"),
        format!("{good}\n"),
        good.replacen("\n2\n", "\n3\n", 1),
        good.replace("mark", "mark of a log that ended, or not"),
    ] {
        fs::write(&mark, &bad).unwrap();
        let log = scene.open();
        assert!(matches!(log.standing(), Standing::MarkUnread(_)), "{bad}");
        log.publish(&head(1, 1));
        assert_eq!(log.flush().waiting, 1, "{bad}");
    }
    fs::write(&mark, &good).unwrap();
    scene.commit([head(1, 1)]);
}

/// A place is added to an existing log only if the mark in it does not contradict the log.
// T-MARK-17
#[test]
fn a_place_is_added_and_removed_and_none_that_contradicts_is_taken() {
    let place = Remote::new();
    let scene = on_disk();
    let keep_in = |of: &Description, marks| scene.registry.keep_marks_in(of, marks);
    scene.commit([head(1, 0)]);
    let own = MarkLocation::Folder(scene.home().mark.clone());
    let with = vec![own.clone(), MarkLocation::parse(&place.address()).unwrap()];
    let bare = keep_in(&scene.current(), vec![own]).unwrap();
    keep_disk(&scene);
    assert_eq!(scene.open().mark_states().len(), 1);
    assert_eq!(keep_in(&bare, with.clone()).unwrap().marks, with);
    scene.commit(heads(1, 1..3));
    put_disk_back(&scene);
    // The copy does not name the place, and would go on; the place refuses to be added to it.
    let log = scene.open();
    assert_eq!(log.standing(), Standing::Good);
    let refused = keep_in(log.description(), with).unwrap_err();
    assert!(refused.to_string().contains("log_rolled_back"), "{refused}");
    assert_eq!(scene.current().marks.len(), 1);
    let many = vec![MarkLocation::Folder(scene.home().mark.clone()); 17];
    assert!(keep_in(log.description(), many).is_err());
}
