//! Homes of which there are several: which of them the log belongs to, and whom a restart in one of them ends.

use super::restarts::{published, restarted};
use super::*;

/// A copy of a home in another folder; it finds the second place of the home.
fn copied(places: &LogPlaces, name: &str) -> LogPlaces {
    let twin = LogPlaces {
        home: places.home.with_file_name(name),
        ..places.clone()
    };
    copy(&places.home, &twin.home);
    twin
}

#[track_caller]
fn goes_on(places: &LogPlaces, key: &Arc<Remembering>, record: u8) {
    assert_eq!(open(places, key).fault().unwrap(), None);
    published(places, key, &[head(record, 0)]);
}

/// The state of a home before a restart is put back.
#[track_caller]
fn old_one_has_ended(places: &LogPlaces, key: &Arc<Remembering>) {
    let current = places.logs().join("current");
    let now = std::fs::read(&current).unwrap();
    std::fs::write(&current, format!("{}\n", "ab".repeat(16))).unwrap();
    let log = open(places, key);
    assert_eq!(log.fault().unwrap(), Some(Fault::Ended));
    log.publish(&head(99, 0));
    assert!(log.flush().error.is_some());
    drop(log);
    std::fs::write(&current, now).unwrap();
}

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

/// It moved, or it is gone: nobody else goes on with its log, and an older state of it must not.
#[test]
fn a_home_that_moved_or_was_restored_ends_its_log_for_all() {
    let (_folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0)]);
    let archive = copied(&places, "archive");
    goes_on(&places, &key, 2);
    // Restored where it was.
    std::fs::remove_dir_all(&places.home).unwrap();
    copy(&archive.home, &places.home);
    restarted(&places, &key, 0xcd, &[], &[]);
    old_one_has_ended(&places, &key);
    assert_eq!(open(&archive, &key).fault().unwrap(), Some(Fault::Ended));

    let (_folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0)]);
    let moved = LogPlaces {
        home: places.home.with_file_name("moved"),
        ..places.clone()
    };
    std::fs::rename(&places.home, &moved.home).unwrap();
    let copy_of_it = copied(&moved, "copy");
    goes_on(&moved, &key, 2);
    // It is known where the log is now.
    restarted(&copy_of_it, &key, 0xcd, &[], &[]);
    goes_on(&moved, &key, 3);
    restarted(&moved, &key, 0xef, &[], &[]);
    old_one_has_ended(&moved, &key);
}

/// A home that is named by a link is itself.
#[test]
fn a_home_by_another_name_is_no_other_home() {
    let (_folder, places, key) = on_disk();
    published(&places, &key, &[head(1, 0)]);
    let link = LogPlaces {
        home: places.home.with_file_name("link"),
        ..places.clone()
    };
    std::os::unix::fs::symlink(&places.home, &link.home).unwrap();
    restarted(&link, &key, 0xcd, &[], &[]);
    old_one_has_ended(&link, &key);
    old_one_has_ended(&places, &key);
}

/// Two machines may have a second place in common: what is on the other one cannot be seen from here.
#[test]
fn a_home_on_another_machine_ends_the_log_for_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let key = Remembering::new();
    let host = Some(Digest::of(b"one"));
    let places = LogPlaces {
        host,
        ..places(RealFs::shared(), &home)
    };
    let description = Description {
        host,
        ..description(&key)
    };
    let log_key = LogKey(Arc::clone(&key) as _);
    places.create(&description, &log_key, &[]).unwrap();
    published(&places, &key, &[head(1, 0)]);
    let laptop = LogPlaces {
        host: Some(Digest::of(b"other")),
        ..copied(&places, "laptop")
    };
    assert_eq!(open(&laptop, &key).fault().unwrap(), Some(Fault::OtherHost));
    restarted(&laptop, &key, 0xcd, &[], &[]);
    goes_on(&laptop, &key, 2);
    goes_on(&places, &key, 3);
}
