//! The model must be as harsh as it claims, otherwise the tests that use it prove nothing.

use super::*;
use crate::sys::append_all;

fn file(fs: &FaultFs, path: &str) -> Arc<dyn FileHandle> {
    fs.open(Path::new(path), Access::OpenOrCreate(0o600))
        .unwrap()
}

fn bytes(fs: &FaultFs, path: &str) -> Option<Vec<u8>> {
    fs.bytes_of(Path::new(path))
}

#[test]
fn only_what_was_synced_survives_a_power_cut_that_keeps_nothing() {
    let fs = FaultFs::new();
    let handle = file(&fs, "/a");
    append_all(&*handle, b"one").unwrap();
    handle.sync_data().unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    append_all(&*handle, b"two").unwrap();
    append_all(&*file(&fs, "/b"), b"unsynced name").unwrap();
    fs.kill_process();
    assert_eq!(bytes(&fs, "/a").unwrap(), b"onetwo");
    assert!(handle.append(b"dead").is_err());
    fs.cut_power(Keep::Nothing);
    assert_eq!(bytes(&fs, "/a").unwrap(), b"one");
    assert_eq!(bytes(&fs, "/b"), None);
}

#[test]
fn a_lost_fsync_lets_the_next_one_lie() {
    let fs = FaultFs::new();
    let handle = file(&fs, "/a");
    fs.sync_dir(Path::new("/")).unwrap();
    append_all(&*handle, b"lost").unwrap();
    fs.plan(0, FaultKind::SyncLost);
    assert!(handle.sync_data().is_err());
    handle.sync_data().unwrap();
    assert_eq!(bytes(&fs, "/a").unwrap(), b"lost");
    append_all(&*handle, b"kept").unwrap();
    handle.sync_data().unwrap();
    fs.cut_power(Keep::Everything);
    assert_eq!(bytes(&fs, "/a").unwrap(), b"\0\0\0\0kept");
}

#[test]
fn a_power_cut_by_lot_tears_zeroes_keeps_and_drops() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let fs = FaultFs::new();
        let handle = file(&fs, "/a");
        fs.sync_dir(Path::new("/")).unwrap();
        append_all(&*handle, b"ab").unwrap();
        append_all(&*handle, b"cd").unwrap();
        fs.cut_power(Keep::ByLot(seed));
        seen.insert(bytes(&fs, "/a").unwrap());
    }
    for expected in [
        &b""[..],
        b"a",
        b"ab",
        b"abc",
        b"abcd",
        b"\0\0\0\0",
        b"\0\0cd",
    ] {
        assert!(seen.contains(expected), "{expected:?} in {seen:?}");
    }
}

#[test]
fn a_rename_without_a_directory_sync_may_vanish_or_stay() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let fs = FaultFs::new();
        append_all(&*file(&fs, "/old"), b"old").unwrap();
        fs.sync_dir(Path::new("/")).unwrap();
        let new = file(&fs, "/new");
        append_all(&*new, b"new").unwrap();
        fs.rename(Path::new("/new"), Path::new("/old")).unwrap();
        fs.cut_power(Keep::ByLot(seed));
        seen.insert((bytes(&fs, "/old").is_some(), bytes(&fs, "/new").is_some()));
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[test]
fn short_writes_full_and_read_only_disks_say_so() {
    let fs = FaultFs::new();
    let handle = file(&fs, "/a");
    fs.plan(0, FaultKind::ShortThenNoSpace);
    assert_eq!(handle.append(b"abcde").unwrap(), 3);
    let reason = handle.append(b"de").unwrap_err();
    assert_eq!(reason.kind(), io::ErrorKind::StorageFull);
    assert_eq!(handle.append(b"de").unwrap(), 2);

    fs.plan(0, FaultKind::Full);
    for _ in 0..3 {
        let reason = handle.append(b"x").unwrap_err();
        assert_eq!(reason.kind(), io::ErrorKind::StorageFull);
    }
    handle.sync_all().unwrap();
    fs.heal();
    fs.plan(0, FaultKind::ReadOnly);
    let reason = handle.append(b"x").unwrap_err();
    assert_eq!(reason.kind(), io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(bytes(&fs, "/a").unwrap(), b"abcde");
    assert_eq!(fs.struck(), Some("write"));
}

#[test]
fn a_lock_has_one_holder_and_dies_with_its_process() {
    let fs = FaultFs::new();
    let (first, second) = (file(&fs, "/a"), file(&fs, "/a"));
    assert!(first.try_lock().unwrap());
    assert!(!second.try_lock().unwrap());
    drop(first);
    assert!(second.try_lock().unwrap());
    fs.kill_process();
    assert!(file(&fs, "/a").try_lock().unwrap());
}
