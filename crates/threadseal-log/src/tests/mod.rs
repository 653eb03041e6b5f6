//! The log of a host: what it promises, and what it does when something fails, goes back or is in two places.

mod cosigned_notes;
mod crashes;
mod forked;
mod forks;
mod head_index;
mod home_clones;
mod key_events;
#[cfg(feature = "keyring")]
mod keyring;
mod mirrors;
mod non_head_index;
mod order;
#[cfg(all(feature = "object", feature = "postgres"))]
mod remote_marks;
mod restarts;
mod spools;
#[cfg(feature = "timestamp")]
mod stamps;
mod standing;
mod taking_over;
mod unsigned;
mod ways_out;

use crate::commit::batch::HeadBatch;
use crate::index::head_index::HeadIndex;
use crate::layout::home_secret::HomeSecret;
use crate::layout::log_home::LogHome;
use crate::marks::folder_mark::FolderMark;
use crate::recovery::creation::{self, NewLog};
use crate::recovery::key_ends::KeyEnds;
use crate::tree::writer::{Writer, sign};
use crate::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::key::Signer;
use threadseal_core::key::{KeyUsage, LocalSigner, Message, PrivateKey, PublicKey, Signature};
use threadseal_core::merkle::TreeHead;
use threadseal_core::note::SignedNote;
use threadseal_core::record::Head;
use threadseal_core::record::RecordId;
use threadseal_core::tlog::checkpoint::Checkpoint;
use threadseal_core::tlog::entry::LogEntry;
use threadseal_core::tlog::entry::LoggedHead;
use threadseal_store::atomic;
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::fault::FaultFs;
use threadseal_store::heads::{
    FileHeadStore, HeadStore as _, LoggedAt, RecordKind, StoredHead, Swap,
};
use threadseal_store::random::SeededRandom;
use threadseal_store::read;
use threadseal_store::sys::{Fs, RealFs};

/// A key that remembers what it signed.
#[derive(Debug)]
struct Remembering {
    signer: LocalSigner,
    signed: Mutex<Vec<TreeHead>>,
}

impl Remembering {
    fn new() -> Arc<Self> {
        Self::of(9)
    }

    fn of(seed: u8) -> Arc<Self> {
        Arc::new(Self {
            signer: LocalSigner::new(PrivateKey::from_seed([seed; 32]), KeyUsage::Log),
            signed: Mutex::default(),
        })
    }
}

impl Signer for Remembering {
    fn public_key(&self) -> &PublicKey {
        self.signer.public_key()
    }

    fn usage(&self) -> KeyUsage {
        self.signer.usage()
    }

    fn sign(&self, message: &Message) -> Result<Signature, Error> {
        let text = std::str::from_utf8(message.as_bytes()).unwrap();
        let text = threadseal_core::note::NoteText::parse(text).unwrap();
        let tree = *Checkpoint::parse(&text).unwrap().tree();
        self.signed.lock().unwrap().push(tree);
        self.signer.sign(message)
    }
}

fn places(fs: Arc<dyn Fs>, home: &Path) -> LogRegistry {
    LogRegistry::new(LogHome {
        fs,
        path: home.to_owned(),
        mark: home.with_extension("mark"),
        elsewhere: Vec::new(),
        host: None,
        settings: Vec::new(),
    })
}

fn description(key: &Remembering) -> Description {
    Description {
        id: LogId::from_bytes([0xab; 16]),
        key: *key.public_key(),
        host: None,
        marks: Vec::new(),
        single_host: false,
    }
}

fn made(places: &LogRegistry, key: &Arc<Remembering>) {
    let log_key = LogKey(Arc::clone(key) as _);
    places
        .create(&description(key), &log_key, &[], &|| Ok(()))
        .unwrap();
}

fn open(places: &LogRegistry, key: &Arc<Remembering>) -> SealLog {
    let description = places.current().unwrap().unwrap();
    SealLog::open(
        places.clone(),
        description,
        Some(LogKey(Arc::clone(key) as _)),
        Arc::new(SeededRandom::new(5)),
    )
}

/// A home with a log, in memory.
fn in_memory() -> (FaultFs, LogRegistry, Arc<Remembering>) {
    let fs = FaultFs::new();
    let places = places(fs.shared(), Path::new("/home"));
    atomic::create_directories(&fs, &places.home.path, PRIVATE_DIRECTORY).unwrap();
    let key = Remembering::new();
    made(&places, &key);
    (fs, places, key)
}

/// One on the disk.
fn on_disk() -> (tempfile::TempDir, LogRegistry, Arc<Remembering>) {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let places = places(RealFs::shared(), &home);
    let key = Remembering::new();
    made(&places, &key);
    (folder, places, key)
}

fn head(record: u8, seq: u64) -> LoggedHead {
    LoggedHead {
        kind: RecordKind::Transcript,
        head: Head {
            record: RecordId::from_bytes([record; 32]),
            seq,
            size: 100 * (seq + 1),
            line: Digest::of(format!("{record} {seq}").as_bytes()),
        },
        root: Some(Digest::of(b"root")),
        key: None,
    }
}

fn record(number: u8) -> RecordId {
    RecordId::from_bytes([number; 32])
}

fn flushed(log: &SealLog) {
    let published = log.flush();
    assert!(published.error.is_none(), "{published:?}");
    assert_eq!(published.waiting, 0);
    assert_eq!(published.forks, []);
}

#[test]
fn what_was_published_is_in_the_log_with_its_proof_also_for_who_opens_it_later() {
    let (_, places, key) = in_memory();
    let log = open(&places, &key);
    let empty = log.view().unwrap().tree();
    assert_eq!(empty, TreeHead::empty());
    for seq in 0..150 {
        for record in 0..5 {
            log.publish(&head(record, seq));
        }
        if seq % 40 == 0 {
            flushed(&log);
        }
    }
    flushed(&log);
    // 256 heads share a commit at most, and no commit is of none.
    assert!((3..=750).contains(&log.commits()), "{}", log.commits());
    for log in [log, open(&places, &key)] {
        let view = log.view().unwrap();
        assert_eq!(view.tree().size, 750);
        assert!(view.consistency(&empty).unwrap().is_some());
        for number in 0..5 {
            let (at, newest) = log.newest(&record(number)).unwrap().unwrap();
            assert_eq!(newest, head(number, 149));
            let entry = view.entry(at).unwrap();
            assert_eq!(LogEntry::read(&entry), Ok(LogEntry::Head(newest)));
            let proof = view.inclusion(at, &entry).unwrap();
            let leaf = threadseal_core::merkle::leaf_hash(&entry);
            proof.check(&leaf, at, &view.tree()).unwrap();
        }
        assert_eq!(log.newest(&record(77)).unwrap(), None);
        assert_eq!(log.fault().unwrap(), None);
        assert_eq!(log.marks().unwrap(), [Some(view.tree())]);
    }
}

#[test]
fn the_files_are_those_of_a_log_of_tiles_once_they_are_folded() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    (0..300).for_each(|seq| log.publish(&head(1, seq)));
    flushed(&log);
    log.fold().unwrap();
    let root = places.home.logs().join("ab".repeat(16));
    let note = String::from_utf8(fs.bytes_of(&root.join("checkpoint")).unwrap()).unwrap();
    let note = SignedNote::parse(&note).unwrap();
    assert_eq!(note, *log.view().unwrap().checkpoint());
    assert_eq!(log.view().unwrap().tree().size, 300);
    for (file, bytes) in [
        ("tile/0/000", 8192),
        ("tile/0/001.p/44", 44 * 32),
        ("tile/1/000.p/1", 32),
    ] {
        let found = fs.bytes_of(&root.join(file)).map(|found| found.len());
        assert_eq!(found, Some(bytes), "{file}");
    }
    assert!(fs.bytes_of(&root.join("tile/entries/001.p/44")).is_some());
}

// T-LOG-13
#[test]
fn the_first_head_of_a_number_stands_and_another_one_is_told() {
    let (_, places, key) = in_memory();
    let log = open(&places, &key);
    log.publish(&head(1, 3));
    flushed(&log);
    let mut other = head(1, 3);
    other.head.line = Digest::of(b"another seal 3");
    log.publish(&other);
    // One is known already, one is older than the known head: neither adds anything.
    log.publish(&head(1, 3));
    log.publish(&head(1, 2));
    let published = log.flush();
    let fork = Fork {
        logged: head(1, 3),
        refused: other,
    };
    assert_eq!(published.forks, [fork]);
    assert_eq!(log.view().unwrap().tree().size, 1);
    // Also when it is in the tiles.
    log.fold().unwrap();
    log.publish(&other);
    assert_eq!(log.flush().forks, [fork]);
    assert_eq!(log.newest(&record(1)).unwrap(), Some((0, head(1, 3))));
}

// T-LOG-36
#[test]
fn many_processes_commit_to_one_log_and_nothing_is_lost_or_written_twice() {
    let (_folder, places, key) = on_disk();
    thread::scope(|scope| {
        for number in 0..4 {
            let (places, key) = (&places, &key);
            scope.spawn(move || {
                let log = open(places, key);
                for seq in 0..200 {
                    log.publish(&head(number, seq));
                    if seq % 50 == 17 {
                        flushed(&log);
                    }
                }
                flushed(&log);
            });
        }
    });
    let log = open(&places, &key);
    let view = log.view().unwrap();
    assert_eq!(view.tree().size, 800);
    let mut seen = std::collections::BTreeSet::new();
    for at in 0..800 {
        match LogEntry::read(&view.entry(at).unwrap()).unwrap() {
            LogEntry::Head(logged) => {
                assert!(seen.insert((logged.head.record, logged.head.seq)));
            }
            other => panic!("{other:?}"),
        }
    }
    drop(log);
    let spool = places.home.dir(LogId::from_bytes([0xab; 16])).spool();
    assert_eq!(std::fs::read_dir(spool).unwrap().count(), 0);
}

// T-LOG-36
#[test]
fn what_waited_when_its_process_ended_is_taken_up_by_the_next() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    // Without its key nothing can be committed, and everything waits.
    let reader = SealLog::open(
        places.clone(),
        places.current().unwrap().unwrap(),
        None,
        Arc::new(SeededRandom::new(6)),
    );
    reader.publish(&head(1, 0));
    reader.publish(&head(2, 0));
    let published = reader.flush();
    assert_eq!(published.waiting, 2);
    assert!(
        published
            .error
            .unwrap()
            .to_string()
            .contains("log-ababababababab")
    );
    fs.kill_process();
    drop(reader);
    drop(log);
    let log = open(&places, &key);
    log.publish(&head(3, 0));
    flushed(&log);
    assert_eq!(log.view().unwrap().tree().size, 3);
}

/// A whole older copy of the log, put back: the mark shows it, and nothing is committed onto it.
// T-MARK-02
#[test]
fn a_log_that_was_put_back_says_so_and_commits_nothing() {
    let (folder, places, key) = on_disk();
    let home = places.home.path.clone();
    let log = open(&places, &key);
    log.publish(&head(1, 0));
    flushed(&log);
    drop(log);
    let older = folder.path().join("older");
    copy(&home, &older);
    let log = open(&places, &key);
    log.publish(&head(1, 1));
    flushed(&log);
    let tree = log.view().unwrap().tree();
    drop(log);
    std::fs::remove_dir_all(&home).unwrap();
    std::fs::rename(&older, &home).unwrap();
    let log = open(&places, &key);
    let here = log.view().unwrap().tree();
    let fault = Fault::RolledBack {
        mark: tree,
        log: here,
    };
    assert_eq!(log.fault().unwrap(), Some(fault));
    log.publish(&head(1, 1));
    let published = log.flush();
    assert_eq!(published.waiting, 1);
    let error = published.error.unwrap();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("log_rolled_back"), "{error}");
    assert_eq!(log.view().unwrap().tree(), here);
    drop(log);
    // Without any log the mark still knows that there was one.
    std::fs::remove_dir_all(home.join("log")).unwrap();
    let error = places.current().unwrap_err();
    assert!(error.to_string().contains("log_missing"), "{error}");
}

// T-MARK-26
#[test]
fn a_log_that_was_made_on_another_machine_commits_nothing() {
    let (_, places, key) = in_memory();
    let description = Description {
        id: LogId::from_bytes([0xcd; 16]),
        host: Some(Digest::of(b"one")),
        ..description(&key)
    };
    let there = LogRegistry::new(LogHome {
        host: Some(Digest::of(b"one")),
        ..places.home.clone()
    });
    let log_key = LogKey(Arc::clone(&key) as _);
    for mark in FolderMark::all(&places.home, &places.current().unwrap().unwrap()) {
        mark.end(true).unwrap();
    }
    let new = NewLog {
        description: &description,
        key: &log_key,
        entries: &mut std::iter::empty(),
        replaces: Some(LogId::from_bytes([0xab; 16])),
        ends: &KeyEnds::default(),
        keep_key: &|| Ok(()),
    };
    creation::make(&there.home, new).unwrap();
    let log = open(&there, &key);
    log.publish(&head(1, 0));
    flushed(&log);
    drop(log);
    let here = LogRegistry::new(LogHome {
        host: Some(Digest::of(b"other")),
        ..places.into_home()
    });
    let log = open(&here, &key);
    assert_eq!(log.fault().unwrap(), Some(Fault::OtherHost));
    log.publish(&head(1, 1));
    assert!(
        log.flush()
            .error
            .unwrap()
            .to_string()
            .contains("another machine")
    );
    assert_eq!(log.newest(&record(1)).unwrap(), Some((0, head(1, 0))));
}

// T-LOG-02
#[test]
fn a_folder_of_heads_that_was_put_back_does_not_take_back_what_the_log_knows() {
    let (folder, places, key) = on_disk();
    let home = places.home.path.clone();
    let files = || Arc::new(FileHeadStore::new(RealFs::shared(), home.join("heads")));
    let log = Arc::new(open(&places, &key));
    let heads = LoggedHeads::new(files(), Arc::clone(&log));
    let first = known(1, 0);
    assert_eq!(heads.create(&first).unwrap(), Swap::Stored);
    flushed(&log);
    copy(&home.join("heads"), &folder.path().join("older"));
    let second = known(1, 1);
    let swap = heads.replace_if(
        &first.head,
        &second,
        threadseal_store::heads::Durability::Written,
    );
    assert_eq!(swap.unwrap(), Swap::Stored);
    flushed(&log);
    assert_eq!(heads.fetch(&record(1)).unwrap().unwrap().head, second.head);
    std::fs::remove_dir_all(home.join("heads")).unwrap();
    assert_eq!(heads.fetch(&record(1)).unwrap().unwrap().head, second.head);
    std::fs::rename(folder.path().join("older"), home.join("heads")).unwrap();
    let found = heads.fetch(&record(1)).unwrap().unwrap();
    assert_eq!((found.head, found.root), (second.head, head(1, 1).root));
    assert_eq!(files().fetch(&record(1)).unwrap().unwrap().head, first.head);
}

/// Another process fills the tiles that a reader is about to open, and removes their parts, before
/// each of the reader's calls.
// T-LOG-30
#[test]
fn whoever_reads_while_tiles_are_filled_sees_one_state_of_the_log() {
    let begun = || {
        let (fs, places, key) = in_memory();
        let log = open(&places, &key);
        (0..300).for_each(|seq| log.publish(&head(1, seq)));
        flushed(&log);
        log.fold().unwrap();
        drop(log);
        (fs, places, key)
    };
    let read = |log: &SealLog, what: &str| {
        let view = log.view().unwrap_or_else(|error| panic!("{what}: {error}"));
        for at in [0, 255, 256, 299] {
            let entry = view
                .entry(at)
                .unwrap_or_else(|error| panic!("{what}: {at}: {error}"));
            assert_eq!(
                LogEntry::read(&entry),
                Ok(LogEntry::Head(head(1, at))),
                "{what}"
            );
        }
        let newest = log.newest(&record(1));
        let newest = newest
            .unwrap_or_else(|error| panic!("{what}: {error}"))
            .unwrap()
            .1;
        assert!([299, 599].contains(&newest.head.seq), "{what}: {newest:?}");
    };
    let calls = {
        let (fs, places, key) = begun();
        let log = open(&places, &key);
        fs.between(usize::MAX, || ());
        read(&log, "undisturbed");
        fs.calls()
    };
    for call in 0..calls {
        let (fs, places, key) = begun();
        let log = open(&places, &key);
        let (other, filled) = (open(&places, &key), Arc::new(AtomicU64::default()));
        let counted = Arc::clone(&filled);
        fs.between(call, move || {
            (300..600).for_each(|seq| other.publish(&head(1, seq)));
            flushed(&other);
            counted.store(other.view().unwrap().contents().base(), Ordering::Relaxed);
        });
        read(&log, &format!("filled at {call} of {calls}"));
        assert!(filled.load(Ordering::Relaxed) >= 512, "{call}");
    }
}

// T-LOG-23
#[test]
fn a_tile_that_was_changed_proves_nothing() {
    let (fs, places, key) = in_memory();
    let log = open(&places, &key);
    (0..300).for_each(|seq| log.publish(&head(1, seq)));
    flushed(&log);
    log.fold().unwrap();
    drop(log);
    let root = places.home.logs().join("ab".repeat(16));
    let entries = root.join("tile/entries/000");
    let bytes = fs.bytes_of(&entries).unwrap();
    let mut changed = bytes.clone();
    // A digit of the digest of entry 0.
    changed[20] ^= 1;
    fs.set_bytes(&entries, &changed).unwrap();
    let log = open(&places, &key);
    let error = log.view().unwrap().entry(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::External);
    assert!(log.view().unwrap().entry(1).is_ok());
    // The first of a tile vouches for the others by their hashes: each other one that was changed is noticed, too.
    let lines: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'{').collect();
    for number in [1, 2, 3, 130, 255] {
        let mut changed = bytes.clone();
        changed[lines[number] + 20] ^= 1;
        fs.set_bytes(&entries, &changed).unwrap();
        let view = open(&places, &key).view().unwrap();
        for entry in 0..256 {
            assert_eq!(view.entry(entry).is_ok(), entry != number as u64, "{entry}");
        }
    }
    fs.set_bytes(&entries, &bytes).unwrap();
    let hashes = root.join("tile/0/001.p/44");
    let mut changed = fs.bytes_of(&hashes).unwrap();
    changed[0] ^= 1;
    fs.set_bytes(&hashes, &changed).unwrap();
    assert!(open(&places, &key).view().is_err());
}

/// A head as a host knows it.
fn known(number: u8, seq: u64) -> StoredHead {
    let logged = head(number, seq);
    StoredHead {
        logged: None,
        ..StoredHead::of_log(LoggedAt {
            logged,
            number: seq,
            entry: Arc::from("entry"),
        })
    }
}

/// The line of the spool that a process of this home writes for a head.
fn own_line(places: &LogRegistry, head: &LoggedHead) -> Vec<u8> {
    let id = LogId::from_bytes([0xab; 16]);
    let key = HomeSecret::make(&places.home.dir(id), &SeededRandom::new(77)).unwrap();
    let mut line = key.line(id, &LogEntry::Head(*head).to_bytes().unwrap());
    line.push(b'\n');
    line
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}
