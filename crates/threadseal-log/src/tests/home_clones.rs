//! Homes of which there are several: which of them the log belongs to, and whom a restart in one of them ends.

use super::prelude::*;

#[track_caller]
fn goes_on(scene: &OnDisk, record: u8) {
    assert_eq!(scene.fault(), None);
    scene.commit([head(record, 0)]);
}

fn restart(scene: &OnDisk, next: LogId) {
    scene.restart(next, &[], &[]);
}

/// The state of a home before a restart is put back.
#[track_caller]
fn old_one_has_ended(scene: &OnDisk) {
    let current = scene.home().logs().join("current");
    let now = scene.get(&current);
    scene.put(&current, format!("{OWN}\n"));
    let log = scene.open();
    assert_eq!(log.fault().unwrap(), Some(Fault::Ended));
    log.publish(&head(99, 0));
    assert!(log.flush().error.is_some());
    drop(log);
    scene.put(&current, now);
}

/// A home whose log has one entry.
fn one_entry() -> OnDisk {
    let scene = on_disk();
    scene.commit([head(1, 0)]);
    scene
}

/// The same second place, and a home by this name.
fn named(scene: &OnDisk, name: &str) -> OnDisk {
    scene.with(|home| home.path = scene.path(name))
}

// T-RST-07
#[test]
fn a_copy_that_begins_a_log_of_its_own_leaves_that_of_the_home_it_was_made_from() {
    for behind in [false, true] {
        let scene = one_entry();
        let twin = scene.copied("twin");
        if behind {
            goes_on(&scene, 2);
        }
        restart(&twin, NEXT);
        goes_on(&twin, 3);
        goes_on(&scene, 4);
        old_one_has_ended(&twin);
        goes_on(&scene, 5);
    }
}

// T-RST-07
#[test]
fn the_home_that_came_first_ends_the_log_that_its_clone_went_on_with() {
    let scene = one_entry();
    let clone = scene.copied("clone");
    goes_on(&clone, 2);
    goes_on(&clone, 3);
    assert!(scene.fault().is_some());
    restart(&scene, NEXT);
    assert_eq!(clone.fault(), Some(Fault::Ended));
    goes_on(&scene, 4);
}

/// The home moved, or is gone: no other home continues its log, and an older state of it must not.
// T-RST-07
#[test]
fn a_home_that_moved_or_was_restored_ends_its_log_for_all() {
    let scene = one_entry();
    let archive = scene.copied("archive");
    goes_on(&scene, 2);
    // Restored where it was.
    put_back(&archive.home().path, &scene.home().path);
    restart(&scene, NEXT);
    old_one_has_ended(&scene);
    assert_eq!(archive.fault(), Some(Fault::Ended));

    let scene = one_entry();
    let moved = named(&scene, "moved");
    fs::rename(&scene.home().path, &moved.home().path).unwrap();
    let copy_of_it = moved.copied("copy");
    goes_on(&moved, 2);
    // It is known where the log is now.
    restart(&copy_of_it, NEXT);
    goes_on(&moved, 3);
    restart(&moved, id(0xef));
    old_one_has_ended(&moved);
}

/// A home that is named by a link is itself.
// T-RST-07
#[test]
fn a_home_by_another_name_is_no_other_home() {
    let scene = one_entry();
    let link = named(&scene, "link");
    std::os::unix::fs::symlink(&scene.home().path, &link.home().path).unwrap();
    restart(&link, NEXT);
    old_one_has_ended(&link);
    old_one_has_ended(&scene);
}

/// Two machines may have a second place in common: what is on the other one cannot be seen from here.
// T-RST-07
#[test]
fn a_home_on_another_machine_ends_the_log_for_itself_alone() {
    let scene = bare();
    let scene = scene.with(|home| home.host = Some(Digest::of(b"one")));
    let scene = scene.begun();
    scene.commit([head(1, 0)]);
    let laptop = scene.copied("laptop");
    let laptop = laptop.with(|home| home.host = Some(Digest::of(b"other")));
    assert_eq!(laptop.fault(), Some(Fault::OtherHost));
    restart(&laptop, NEXT);
    goes_on(&laptop, 2);
    goes_on(&scene, 3);
}

/// The files of another log in the place of those of this one, as who may write to the home and not to its second place puts them.
fn swapped(scene: &OnDisk) -> OnDisk {
    let stranger = Scene {
        key: RecordingKey::of(10),
        ..scene.beside("stranger")
    };
    let log = stranger.describe(id(0xef));
    stranger.create(&log, &[]).unwrap();
    stranger.commit([head(7, 0)]);
    scene.put_logs_back(&stranger.home().logs());
    stranger
}

// T-MARK-05
#[test]
fn a_log_in_the_place_of_one_that_never_ended_vouches_for_nothing() {
    let scene = on_disk();
    scene.commit(heads(1, 0..2));
    let kept = scene.keep_logs("kept");
    let stranger = swapped(&scene);
    let here = Scene {
        key: Arc::clone(&stranger.key),
        ..scene.clone()
    };
    let displaced = Fault::Displaced { other: OWN };
    let log = here.open();
    assert_eq!(log.fault().unwrap(), Some(displaced.clone()));
    assert_eq!(log.standing(), Standing::Faulty(displaced));
    log.publish(&head(1, 0));
    assert!(log.flush().error.is_some());
    drop(log);
    // No restart continues it, nor ends the true one.
    let refused = scene.replace(scene.past(&[])).unwrap_err();
    assert!(refused.to_string().contains(&OWN.to_string()), "{refused}");
    scene.put_logs_back(&kept);
    goes_on(&scene, 2);
    assert_eq!(scene.open().newest_of(1), Some(head(1, 1)));
}

// T-MARK-05
#[test]
fn who_goes_on_from_a_log_in_the_place_of_another_ends_both() {
    let scene = one_entry();
    let stranger = swapped(&scene);
    restart(&scene, NEXT);
    goes_on(&scene, 2);
    // The home that owned that log continues it.
    goes_on(&stranger, 3);
    // Also after it moved, with its second place.
    let moved = named(&scene, "moved");
    let moved = moved.with(|home| home.mark = scene.path("moved.marks"));
    fs::rename(&scene.home().path, &moved.home().path).unwrap();
    fs::rename(&scene.home().mark, &moved.home().mark).unwrap();
    goes_on(&moved, 4);
}
