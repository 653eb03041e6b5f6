//! Appending, syncing, opening again: does each promise hold on a real disk?

use super::*;
use crate::sys::RealFs;
use std::fs;
use threadseal_core::digest::Digest;

fn create(path: &Path) -> Log {
    Log::create(RealFs::shared(), path, 0o600, b"first\n").unwrap()
}

fn reopen(path: &Path) -> Log {
    Log::open(WriterLock::acquire(RealFs::shared(), path).unwrap(), 0).unwrap()
}

#[test]
fn a_new_log_appears_with_its_first_bytes_durable_and_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = create(&path);
    assert_eq!((log.written_size(), log.durable_size()), (6, 6));
    assert_eq!(fs::read(&path).unwrap(), b"first\n");
    let held = WriterLock::acquire(RealFs::shared(), &path).unwrap_err();
    assert_eq!(held.kind(), ErrorKind::External);
    assert!(held.to_string().contains("one writer at a time"), "{held}");
    let exists = Log::create(RealFs::shared(), &path, 0o600, b"other\n").unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::InvalidInput);
    assert_eq!(fs::read(&path).unwrap(), b"first\n");
    drop(log);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    reopen(&path);
}

#[test]
fn buffered_bytes_are_written_by_flush_append_sync_and_drop_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut log = create(&path);
    log.append_buffered(b"a").unwrap();
    assert_eq!((log.size(), log.written_size()), (7, 6));
    assert_eq!(log.append(b"b").unwrap(), 8);
    assert_eq!(log.durable_size(), 6);
    log.append_buffered(b"c").unwrap();
    assert_eq!(log.flush().unwrap(), 9);
    log.append_buffered(b"d").unwrap();
    assert_eq!(log.sync().unwrap(), 10);
    assert_eq!(log.durable_size(), 10);
    log.append_buffered(b"e").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first\nabcd");
    drop(log);
    assert_eq!(fs::read(&path).unwrap(), b"first\nabcde");
}

#[test]
fn large_appends_pass_the_buffer_and_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut log = create(&path);
    let mut expected = b"first\n".to_vec();
    for count in [10, MAX_BUFFERED_BYTES, 10, 3 * MAX_BUFFERED_BYTES, 7] {
        let bytes = vec![b'x'; count];
        log.append_buffered(&bytes).unwrap();
        expected.extend_from_slice(&bytes);
        assert!(log.size() - log.written_size() <= MAX_BUFFERED_BYTES as u64);
    }
    log.sync().unwrap();
    assert!(fs::read(&path).unwrap() == expected);
}

#[test]
fn another_programs_bytes_are_noticed_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut log = create(&path);
    let mut other = fs::OpenOptions::new().append(true).open(&path).unwrap();
    io::Write::write_all(&mut other, b"intruder\n").unwrap();
    let noticed = log.append(b"mine\n").unwrap_err();
    assert_eq!(noticed.kind(), ErrorKind::Refused);
    assert!(noticed.to_string().contains("another program"), "{noticed}");
    let later = log.sync().unwrap_err();
    assert!(later.to_string().contains("earlier failure"), "{later}");
    drop(log);
    assert_eq!(fs::read(&path).unwrap(), b"first\nintruder\n");
}

#[test]
fn a_log_that_was_deleted_gives_no_promise_and_a_renamed_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let renamed = folder.path().join("renamed");
    let mut log = create(&path);
    fs::rename(&path, &renamed).unwrap();
    log.append(b"more\n").unwrap();
    log.sync().unwrap();
    let second = WriterLock::acquire(RealFs::shared(), &renamed).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::External);
    fs::remove_file(&renamed).unwrap();
    assert_eq!(
        log.append(b"lost\n").unwrap_err().kind(),
        ErrorKind::Refused
    );
}

#[test]
fn a_tail_is_moved_beside_the_log_and_the_log_goes_on_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut log = create(&path);
    let tail = vec![b't'; REWRITE_BYTES + 9];
    log.append(&tail).unwrap();
    drop(log);
    let mut log = reopen(&path);
    let moved = log.move_tail_aside(6).unwrap().unwrap();
    assert_eq!((moved.offset, moved.length), (6, tail.len() as u64));
    assert_eq!(moved.sha256, Digest::of(&tail));
    assert!(fs::read(&moved.path).unwrap() == tail);
    assert_eq!(log.move_tail_aside(6).unwrap(), None);
    log.append(b"next\n").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first\nnext\n");
    let beyond = log.move_tail_aside(99).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::InvalidInput);
    log.append(b"after a usage error\n").unwrap();
}

#[test]
fn a_file_in_the_way_of_a_tail_stops_the_cut_unless_it_is_that_tail() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut log = create(&path);
    log.append(b"tail").unwrap();
    let aside = folder
        .path()
        .join(format!("log.tail-6-{}", Digest::of(b"tail")));
    fs::write(&aside, "other").unwrap();
    let refused = log.move_tail_aside(6).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert_eq!(fs::read(&path).unwrap(), b"first\ntail");
    fs::write(&aside, "tail").unwrap();
    assert_eq!(log.move_tail_aside(6).unwrap().unwrap().path, aside);
    assert_eq!(fs::read(&path).unwrap(), b"first\n");
}

#[test]
fn opening_rewrites_only_what_lies_above_the_floor() {
    let disk = crate::fault::FaultFs::new();
    let path = Path::new("/log");
    drop(Log::create(disk.shared(), path, 0o600, &[b'x'; 100]).unwrap());
    let calls_with_floor = |floor| {
        let lock = WriterLock::acquire(disk.shared(), path).unwrap();
        let before = disk.calls();
        drop(Log::open(lock, floor).unwrap());
        disk.calls() - before
    };
    assert_eq!(calls_with_floor(100) + 2, calls_with_floor(99));
    assert_eq!(calls_with_floor(0), calls_with_floor(99));
}
