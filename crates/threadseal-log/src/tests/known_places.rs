//! The log lists its second places: none is removed from `log.json` unseen (`spec/host-log.md`, "Known places").

use super::prelude::*;
use crate::commit::log_access::last_list;
use crate::entries::PlacesEntry;

/// A home whose log has a second place on another disk, besides the default one.
struct Host {
    scene: OnDisk,
    place: MarkLocation,
}

impl Host {
    fn new() -> Self {
        let scene = bare();
        let folder = scene.path("other-disk");
        let place = MarkLocation::Folder(folder);
        let description = Description {
            marks: vec![default_place(&scene), place.clone()],
            ..scene.describe(OWN)
        };
        scene.create(&description, &[]).unwrap();
        Self { scene, place }
    }

    /// Home and default folder as they are now, to be put back later.
    fn keep_disk(&self) {
        self.scene.keep(&self.scene.home().path, "older");
        self.scene.keep(&self.scene.home().mark, "older.mark");
    }

    fn put_disk_back(&self) {
        put_back(&self.scene.path("older"), &self.scene.home().path);
        put_back(&self.scene.path("older.mark"), &self.scene.home().mark);
    }

    /// As an attacker does it, with an editor.
    fn name(&self, marks: Vec<MarkLocation>) {
        let description = Description {
            marks,
            ..self.scene.current()
        };
        let dir = self.scene.home().dir(OWN);
        description.rewrite(&dir).unwrap();
    }

    fn unname(&self) {
        self.name(vec![default_place(&self.scene)]);
    }

    fn forget_address(&self) {
        let file = self.scene.home().mark.join(format!("{OWN}.places"));
        fs::remove_file(file).unwrap();
    }

    fn named(&self) -> Vec<MarkLocation> {
        self.scene.current().marks
    }

    /// As `threadseal log mark remove` does it.
    fn remove(&self, place: &MarkLocation) -> Result<Description, Error> {
        let kept = self.named().into_iter().filter(|other| other != place);
        self.scene.open().remove_place(Some(place), kept.collect())
    }

    fn add(&self, place: &MarkLocation) -> Result<Description, Error> {
        let there = self.named().into_iter().chain([place.clone()]);
        let current = self.scene.current();
        self.scene.registry.keep_marks_in(&current, there.collect())
    }

    fn list(&self) -> Option<PlacesEntry> {
        let log = self.scene.open();
        let view = log.view().unwrap();
        last_list(&log.access.non_heads, OWN, view.contents(), view.tree()).unwrap()
    }

    #[track_caller]
    fn assert_forgotten(&self, places: &[&MarkLocation], nameless: usize) {
        let log = self.scene.open();
        let standing = log.standing();
        let Standing::Faulty(Fault::PlaceForgotten(forgotten)) = &standing else {
            panic!("{standing:?}");
        };
        let known: Vec<&MarkLocation> = forgotten.places.iter().collect();
        assert_eq!(known, places);
        assert_eq!(forgotten.nameless, nameless);
        assert!(!standing.vouches());
        let size = log.size();
        let error = log.refuse(head(9, 0)).to_string();
        assert!(error.contains("place_forgotten"), "{error}");
        assert_eq!(log.size(), size);
    }
}

fn default_place(scene: &OnDisk) -> MarkLocation {
    MarkLocation::Folder(scene.home().mark.clone())
}

// T-MARK-23
#[test]
fn a_home_that_was_put_back_without_the_line_of_its_place_is_noticed() {
    let host = Host::new();
    host.scene.commit(heads(1, 0..2));
    host.keep_disk();
    host.scene.commit(heads(1, 2..4));
    let mark = host.scene.open().tree();
    host.put_disk_back();
    host.unname();
    // The default folder has the address, and the place shows the rollback.
    let log = host.scene.open();
    let fault = Fault::RolledBack {
        mark,
        log: log.tree(),
    };
    assert_eq!(log.standing(), Standing::Faulty(fault));
    log.refuse(head(1, 2));
    drop(log);
    // Without the address the log still knows that there is such a place.
    host.forget_address();
    host.assert_forgotten(&[], 1);
    // Without the secret of the home, too.
    fs::remove_file(host.scene.home().path.join("keys/spool.secret")).unwrap();
    host.assert_forgotten(&[], 1);
    host.scene.key.assert_one_tree_of_each_size("put back");
}

/// A process that has the log open notices it with its next commit.
// T-MARK-23
#[test]
fn a_place_that_is_removed_under_a_running_process_stops_its_commits() {
    let host = Host::new();
    let log = host.scene.open();
    log.commit_heads(heads(1, 0..1));
    assert_eq!(log.standing(), Standing::Good);
    host.unname();
    let standing = log.standing();
    assert!(
        matches!(standing, Standing::Faulty(Fault::PlaceForgotten(_))),
        "{standing:?}"
    );
    log.refuse(head(1, 1));
    // The entries that other places know still count for keys that ended.
    assert_eq!(log.marked().unwrap(), log.size());
    // It is named again: what waits is committed.
    host.name(vec![default_place(&host.scene), host.place.clone()]);
    log.settle();
    assert_eq!(log.standing(), Standing::Good);
}

// T-MARK-32
#[test]
fn one_command_mends_a_forgotten_place_and_none_of_them_lets_a_rollback_through() {
    let host = Host::new();
    host.scene.commit(heads(1, 0..2));
    // Lost by mistake: named again.
    host.unname();
    host.assert_forgotten(&[&host.place], 0);
    host.add(&host.place).unwrap();
    host.scene.commit([head(1, 2)]);
    // Or removed: by its address, or with all that were forgotten.
    for removed in [Some(&host.place), None] {
        host.unname();
        if removed.is_none() {
            host.forget_address();
        }
        let kept = host.named();
        host.scene.open().remove_place(removed, kept).unwrap();
        assert_eq!(host.scene.open().standing(), Standing::Good);
        assert_eq!(host.list().unwrap().names, []);
        host.add(&host.place).unwrap();
        host.scene.commit([]);
        host.scene
            .open()
            .raise_marks(Duration::from_secs(5))
            .unwrap();
    }
    host.keep_disk();
    host.scene.commit([head(1, 3)]);
    host.put_disk_back();
    host.unname();
    let size = host.scene.open().size();
    for removed in [Some(&host.place), None] {
        let kept = host.named();
        let refused = host.scene.open().remove_place(removed, kept).unwrap_err();
        assert!(refused.to_string().contains("log_rolled_back"), "{refused}");
    }
    assert!(host.add(&host.place).is_err());
    assert_eq!(host.scene.open().size(), size);
}

// T-MARK-32
#[test]
fn a_place_that_is_gone_for_good_is_removed_and_is_no_alarm() {
    let host = Host::new();
    host.scene.commit(heads(1, 0..2));
    let MarkLocation::Folder(folder) = &host.place else {
        unreachable!()
    };
    // A file in its place cannot be asked.
    fs::remove_dir_all(folder).unwrap();
    fs::write(folder, "").unwrap();
    assert!(matches!(
        host.scene.open().standing(),
        Standing::MarkUnread(_)
    ));
    host.remove(&host.place).unwrap();
    assert_eq!(host.named(), [default_place(&host.scene)]);
    assert_eq!(host.scene.open().standing(), Standing::Good);
    host.scene.commit([head(1, 2)]);
    host.scene.open().assert_whole();
}

/// A removal that was committed, with `log.json` still naming the place after a crash, and an addition that was not committed yet,
/// look like no removal by another.
// T-MARK-32
#[test]
fn nothing_that_fails_in_between_looks_like_a_removal() {
    let host = Host::new();
    host.scene.commit([head(1, 0)]);
    host.remove(&host.place).unwrap();
    host.name(vec![default_place(&host.scene), host.place.clone()]);
    assert_eq!(host.scene.open().standing(), Standing::Good);
    // The next commit lists it again.
    host.scene.commit([head(1, 1)]);
    assert_eq!(host.list().unwrap().names.len(), 1);
    // Another process adds a place: one that has the log open does not take that for a removal.
    let log = host.scene.open();
    let more = MarkLocation::Folder(host.scene.path("third"));
    host.add(&more).unwrap();
    host.scene.commit([head(1, 2)]);
    assert_eq!(host.list().unwrap().names.len(), 2);
    assert_eq!(log.standing(), Standing::Good);
    log.commit_heads([head(1, 3)]);
}

/// Also a log whose places were named before logs listed any.
#[test]
fn the_next_commit_lists_the_places_and_tells_readers_of_the_log_no_address() {
    let host = Host::new();
    assert_eq!(host.list(), None);
    assert_eq!(host.scene.open().standing(), Standing::Good);
    host.scene.commit([head(1, 0)]);
    let list = host.list().unwrap();
    assert_eq!((list.number, list.names.len()), (0, 1));
    let entry = host.scene.open().view().unwrap().entry(0).unwrap();
    let entry = String::from_utf8(entry).unwrap();
    assert!(!entry.contains("other-disk"), "{entry}");
    let guess = Digest::of(host.place.to_string().as_bytes()).to_hex();
    assert!(!entry.contains(&guess), "{entry}");
    // Once is enough.
    host.scene.commit([head(1, 1)]);
    assert_eq!(host.scene.open().size(), 3);
    host.scene.open().assert_whole();
    // The default place alone needs no entry.
    let plain = on_disk();
    plain.commit([head(1, 0)]);
    assert_eq!(plain.open().size(), 1);
}

// T-MARK-32
#[test]
fn a_restart_asks_forgotten_places_keeps_them_and_is_refused_where_it_cannot() {
    let host = Host::new();
    host.scene.commit(heads(1, 0..2));
    host.keep_disk();
    host.scene.commit(heads(1, 2..4));
    let mark = host.scene.open().tree();
    host.put_disk_back();
    host.unname();
    let old = host.scene.past(&[]);
    assert_eq!(old.tree, mark);
    assert_eq!(old.lacking, 2);
    assert_eq!(old.more_marks(), Some(&[host.place.clone()][..]));
    host.forget_address();
    let refused = host.scene.replace(host.scene.past(&[])).unwrap_err();
    assert!(refused.to_string().contains("place_forgotten"), "{refused}");
    let next = Description {
        marks: host.named(),
        ..host.scene.describe(NEXT)
    };
    host.scene
        .replace_by(host.scene.past(&[]), &next, &[], true)
        .unwrap();
    assert_eq!(host.scene.open().standing(), Standing::Good);
}

/// The copy has the secret, the log and the addresses of the home.
#[test]
fn a_copy_of_a_home_and_a_moved_home_know_the_same_places() {
    let host = Host::new();
    host.scene.commit([head(1, 0)]);
    let copy = host.scene.copied("copy");
    assert_eq!(copy.open().standing(), Standing::Good);
    let moved = host.scene.path("moved");
    fs::rename(&host.scene.home().path, &moved).unwrap();
    let moved = host.scene.with(|home| home.path = moved);
    assert_eq!(moved.open().standing(), Standing::Good);
    moved.commit([head(1, 1)]);
}
