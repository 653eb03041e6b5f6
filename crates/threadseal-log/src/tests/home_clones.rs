//! Homes of which there are several: which of them the log belongs to, and whom a restart in one of them ends.

use super::restarts::{published, restarted};
use super::*;

/// A copy of a home in another folder; it finds the second place of the home.
fn copied(places: &LogRegistry, name: &str) -> LogRegistry {
    let twin = LogRegistry::new(LogHome {
        path: places.home.path.with_file_name(name),
        ..places.home.clone()
    });
    copy(&places.home.path, &twin.home.path);
    twin
}

#[track_caller]
fn goes_on(places: &LogRegistry, key: &Arc<Remembering>, record: u8) {
    assert_eq!(open(places, key).fault().unwrap(), None);
    published(places, key, &[head(record, 0)]);
}

/// The state of a home before a restart is put back.
#[track_caller]
fn old_one_has_ended(places: &LogRegistry, key: &Arc<Remembering>) {
    let current = places.home.logs().join("current");
    let now = std::fs::read(&current).unwrap();
    std::fs::write(&current, format!("{}\n", "ab".repeat(16))).unwrap();
    let log = open(places, key);
    assert_eq!(log.fault().unwrap(), Some(Fault::Ended));
    log.publish(&head(99, 0));
    assert!(log.flush().error.is_some());
    drop(log);
    std::fs::write(&current, now).unwrap();
}

// T-RST-07
#[test]
fn a_copy_that_begins_a_log_of_its_own_leaves_that_of_the_home_it_was_made_from() {
    for behind in [false, true] {
        let (_folder, places, key) = on_disk();
        published(&places, &key, &[head(1, 0)]);
        let twin = copied(&places, "twin");
        if behind {
            goes_on(&places, &key, 2);
        }
        restarted(&twin, &key, 0xcd, &[], &[]);
        goes_on(&twin, &key, 3);
        goes_on(&places, &key, 4);
        old_one_has_ended(&twin, &key);
        goes_on(&places, &key, 5);
    }
}

// T-RST-07
#[test]
fn the_home_that_came_first_ends_the_log_that_its_clone_went_on_with() {
    let (_folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0)]);
    let clone = copied(&places, "clone");
    goes_on(&clone, &key, 2);
    goes_on(&clone, &key, 3);
    assert!(open(&places, &key).fault().unwrap().is_some());
    restarted(&places, &key, 0xcd, &[], &[]);
    assert_eq!(open(&clone, &key).fault().unwrap(), Some(Fault::Ended));
    goes_on(&places, &key, 4);
}

/// The home moved, or is gone: no other home continues its log, and an older state of it must not.
// T-RST-07
#[test]
fn a_home_that_moved_or_was_restored_ends_its_log_for_all() {
    let (_folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0)]);
    let archive = copied(&places, "archive");
    goes_on(&places, &key, 2);
    // Restored where it was.
    std::fs::remove_dir_all(&places.home.path).unwrap();
    copy(&archive.home.path, &places.home.path);
    restarted(&places, &key, 0xcd, &[], &[]);
    old_one_has_ended(&places, &key);
    assert_eq!(open(&archive, &key).fault().unwrap(), Some(Fault::Ended));

    let (_folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0)]);
    let moved = LogRegistry::new(LogHome {
        path: places.home.path.with_file_name("moved"),
        ..places.home.clone()
    });
    std::fs::rename(&places.home.path, &moved.home.path).unwrap();
    let copy_of_it = copied(&moved, "copy");
    goes_on(&moved, &key, 2);
    // It is known where the log is now.
    restarted(&copy_of_it, &key, 0xcd, &[], &[]);
    goes_on(&moved, &key, 3);
    restarted(&moved, &key, 0xef, &[], &[]);
    old_one_has_ended(&moved, &key);
}

/// A home that is named by a link is itself.
// T-RST-07
#[test]
fn a_home_by_another_name_is_no_other_home() {
    let (_folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0)]);
    let link = LogRegistry::new(LogHome {
        path: places.home.path.with_file_name("link"),
        ..places.home.clone()
    });
    std::os::unix::fs::symlink(&places.home.path, &link.home.path).unwrap();
    restarted(&link, &key, 0xcd, &[], &[]);
    old_one_has_ended(&link, &key);
    old_one_has_ended(&places, &key);
}

/// Two machines may have a second place in common: what is on the other one cannot be seen from here.
// T-RST-07
#[test]
fn a_home_on_another_machine_ends_the_log_for_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let key = Remembering::new();
    let host = Some(Digest::of(b"one"));
    let places = LogRegistry::new(LogHome {
        host,
        ..places(RealFs::shared(), &home).into_home()
    });
    let description = Description {
        host,
        ..description(&key)
    };
    let log_key = LogKey(Arc::clone(&key) as _);
    places
        .create(&description, &log_key, &[], &|| Ok(()))
        .unwrap();
    published(&places, &key, &[head(1, 0)]);
    let laptop = LogRegistry::new(LogHome {
        host: Some(Digest::of(b"other")),
        ..copied(&places, "laptop").into_home()
    });
    assert_eq!(open(&laptop, &key).fault().unwrap(), Some(Fault::OtherHost));
    restarted(&laptop, &key, 0xcd, &[], &[]);
    goes_on(&laptop, &key, 2);
    goes_on(&places, &key, 3);
}

/// The files of another log in the place of those of this one, as who may write to the home and not to its second place puts them.
fn swapped(places: &LogRegistry) -> (LogRegistry, Arc<Remembering>) {
    let stranger = LogRegistry::new(LogHome {
        path: places.home.path.with_file_name("stranger"),
        mark: places.home.path.with_file_name("stranger.marks"),
        ..places.home.clone()
    });
    let key = Remembering::of(10);
    std::fs::create_dir(&stranger.home.path).unwrap();
    let next = Description {
        id: LogId::from_bytes([0xef; 16]),
        ..description(&key)
    };
    stranger
        .create(&next, &LogKey(Arc::clone(&key) as _), &[], &|| Ok(()))
        .unwrap();
    published(&stranger, &key, &[head(7, 0)]);
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    copy(&stranger.home.logs(), &places.home.logs());
    (stranger, key)
}

// T-MARK-05
#[test]
fn a_log_in_the_place_of_one_that_never_ended_vouches_for_nothing() {
    let (folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0), head(1, 1)]);
    let kept = folder.path().join("kept");
    copy(&places.home.logs(), &kept);
    let (_, other) = swapped(&places);
    let displaced = Fault::Displaced {
        other: LogId::from_bytes([0xab; 16]),
    };
    let log = open(&places, &other);
    assert_eq!(log.fault().unwrap(), Some(displaced.clone()));
    assert_eq!(log.standing(), Standing::Faulty(displaced));
    log.publish(&head(1, 0));
    assert!(log.flush().error.is_some());
    drop(log);
    // No restart continues it, nor ends the true one.
    let next = Description {
        id: LogId::from_bytes([0xcd; 16]),
        ..description(&key)
    };
    let past = places.past(&[], None).unwrap().unwrap();
    let log_key = LogKey(Arc::clone(&key) as _);
    let refused = places
        .restart(past, &next, &log_key, &[], false)
        .unwrap_err();
    assert!(refused.to_string().contains(&"ab".repeat(16)), "{refused}");
    std::fs::remove_dir_all(places.home.logs()).unwrap();
    copy(&kept, &places.home.logs());
    goes_on(&places, &key, 2);
    assert_eq!(
        open(&places, &key).newest(&record(1)).unwrap().unwrap().1,
        head(1, 1)
    );
}

// T-MARK-05
#[test]
fn who_goes_on_from_a_log_in_the_place_of_another_ends_both() {
    let (_folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0)]);
    let (stranger, other) = swapped(&places);
    restarted(&places, &key, 0xcd, &[], &[]);
    goes_on(&places, &key, 2);
    // The home that owned that log continues it.
    goes_on(&stranger, &other, 3);
    // Also after it moved, with its second place.
    let moved = LogRegistry::new(LogHome {
        path: places.home.path.with_file_name("moved"),
        mark: places.home.path.with_file_name("moved.marks"),
        ..places.home.clone()
    });
    std::fs::rename(&places.home.path, &moved.home.path).unwrap();
    std::fs::rename(&places.home.mark, &moved.home.mark).unwrap();
    goes_on(&moved, &key, 4);
}
