//! Real processes: killed while they write, and contending for a lock and a head.
//!
//! Children answer one word and a number per line.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, also in its helpers"
)]

use std::path::Path;
use threadseal_core::digest::Digest;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::time::Timestamp;
use threadseal_store::append::Log;
use threadseal_store::heads::{Durability, FileHeadStore, HeadStore, RecordKind, StoredHead, Swap};
use threadseal_store::lock::WriterLock;
use threadseal_store::random::SeededRandom;
use threadseal_store::sys::RealFs;
use threadseal_store::testing::child;

const KILLS: usize = 200;
const CONTENDERS: usize = 4;
/// Heads that each contender stores.
const WINS: u64 = 25;

fn say(word: &str, number: u64) {
    child::answer(&format!("{word} {number}"));
}

/// The number on a whole line `word number`; the test program's own lines are none.
fn heard(word: &str, line: &str) -> Option<u64> {
    line.strip_prefix(word)?.strip_prefix(' ')?.parse().ok()
}

/// The byte of the file at `offset`, so that any prefix can be checked alone.
fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0]
}

fn bytes_at(offset: u64, count: usize) -> Vec<u8> {
    (offset..).take(count).map(byte_at).collect()
}

fn write_until_killed(path: &Path) -> ! {
    let fs = RealFs::shared();
    let mut log = if path.exists() {
        Log::open(WriterLock::acquire(fs, path).unwrap(), 0).unwrap()
    } else {
        Log::create(fs, path, 0o600, &bytes_at(0, 100)).unwrap()
    };
    let sizes = SeededRandom::new(log.size());
    for round in 1_u64.. {
        let bytes = bytes_at(log.size(), 1 + sizes.below(3000));
        if round % 3 == 0 {
            log.append_buffered(&bytes).unwrap();
            continue;
        }
        say("written", log.append(&bytes).unwrap());
        if round % 7 == 0 {
            say("durable", log.sync().unwrap());
        }
    }
    unreachable!("the parent kills this process first")
}

#[test]
fn a_killed_writer_has_left_every_byte_it_acknowledged_and_no_lock() {
    const TEST: &str = "a_killed_writer_has_left_every_byte_it_acknowledged_and_no_lock";
    if let Some(path) = child::role() {
        write_until_killed(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let parse = |line: &str| heard("written", line).or_else(|| heard("durable", line));
    let check = |acknowledged: Option<u64>| {
        let Ok(file) = std::fs::read(&path) else {
            assert_eq!(acknowledged, None);
            return;
        };
        let (size, acknowledged) = (file.len() as u64, acknowledged.unwrap_or(0));
        assert!(size >= acknowledged, "{size} of {acknowledged} bytes");
        assert!(file == bytes_at(0, file.len()), "bytes differ");
        WriterLock::acquire(RealFs::shared(), &path).expect("the lock died with its holder");
        if size > 1 << 20 {
            std::fs::remove_file(&path).unwrap();
        }
    };
    let busy = child::kill_many(TEST, path.to_str().unwrap(), KILLS, 12_000, parse, check);
    assert!(busy > KILLS / 2, "{busy} of {KILLS} writers were busy");
}

// T-TRA-31
#[test]
fn of_several_processes_one_gets_the_lock_and_the_others_hear_who_has_it() {
    const TEST: &str = "of_several_processes_one_gets_the_lock_and_the_others_hear_who_has_it";
    if let Some(path) = child::role() {
        say("ready", 0);
        child::wait_for_release();
        let lock = WriterLock::acquire(RealFs::shared(), Path::new(&path));
        match &lock {
            Ok(_) => say("won", std::process::id().into()),
            Err(error) => {
                let text = error.to_string();
                let rest = text.split_once("by process ").map(|(_, rest)| rest);
                let pid = rest.and_then(|rest| rest.split_once(';'));
                say(
                    "lost",
                    pid.and_then(|(pid, _)| pid.parse().ok()).unwrap_or(0),
                );
            }
        }
        child::wait_for_release();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, "x").unwrap();
    let mut children = child::start_many(TEST, path.to_str().unwrap(), CONTENDERS);
    let mut outputs: Vec<_> = children.iter_mut().map(child::Child::lines).collect();
    let mut answers = |words: &[&str]| -> Vec<(String, u64)> {
        let parse = |line: String| {
            let mut found = words
                .iter()
                .filter_map(|word| Some((*word, heard(word, &line)?)));
            found.next().map(|(word, number)| (word.to_owned(), number))
        };
        let next = outputs
            .iter_mut()
            .map(|lines| lines.find_map(|line| parse(line.unwrap())));
        next.map(Option::unwrap).collect()
    };
    answers(&["ready"]);
    children.iter_mut().for_each(child::Child::release);
    let answers = answers(&["won", "lost"]);
    children.iter_mut().for_each(child::Child::release);
    for child in children {
        child.succeed();
    }
    let winners = answers.iter().filter(|(word, _)| word == "won");
    let winners: Vec<u64> = winners.map(|(_, pid)| *pid).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    if cfg!(target_os = "linux") {
        let name_it = answers.iter().all(|(_, pid)| *pid == winners[0]);
        assert!(name_it, "{answers:?}");
    }
}

fn head_of(seq: u64) -> StoredHead {
    let record = RecordId::from_bytes([3; 32]);
    StoredHead {
        head: Head {
            record,
            seq,
            size: seq * 10,
            // Each process seals in its own way: two winners of one round would be a fork.
            line: Digest::of(format!("{seq} by {}", std::process::id()).as_bytes()),
        },
        root: None,
        salts: None,
        key: None,
        kind: RecordKind::Transcript,
        is_final: false,
        thread: None,
        first_seen: Timestamp::from_micros(0).unwrap(),
        updated: Timestamp::from_micros(0).unwrap(),
        path_hint: None,
        aliases: Vec::new(),
        logged: None,
        vouches: true,
    }
}

/// Stores [`WINS`] heads, each after the present head; returns the seals it stored.
fn store_heads(heads: &dyn HeadStore) -> Vec<u64> {
    let record = head_of(0).head.record;
    let mut stored = Vec::new();
    while (stored.len() as u64) < WINS {
        let Some(old) = heads.fetch(&record).unwrap() else {
            let _ = heads.create(&head_of(0)).unwrap();
            continue;
        };
        let seq = old.head.seq + 1;
        let durability = [Durability::Written, Durability::Durable][usize::from(seq % 3 == 0)];
        let swap = heads.replace_if(&old.head, &head_of(seq), durability);
        if swap.unwrap() == Swap::Stored {
            stored.push(seq);
        }
    }
    stored
}

// T-TRA-26
#[test]
fn of_several_processes_one_stores_each_head() {
    const TEST: &str = "of_several_processes_one_stores_each_head";
    if let Some(folder) = child::role() {
        let heads = FileHeadStore::new(RealFs::shared(), &folder);
        for seq in store_heads(&heads) {
            say("stored", seq);
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let children = child::start_many(TEST, folder.path().to_str().unwrap(), CONTENDERS);
    let lines = children.into_iter().flat_map(child::Child::succeed);
    let mut stored: Vec<u64> = lines.filter_map(|line| heard("stored", &line)).collect();
    stored.sort_unstable();
    let all: Vec<u64> = (1..=WINS * CONTENDERS as u64).collect();
    assert_eq!(stored, all, "each seal was stored exactly once");
    let heads = FileHeadStore::new(RealFs::shared(), folder.path());
    let last = heads.fetch(&head_of(0).head.record).unwrap().unwrap();
    assert_eq!(last.head.seq, WINS * CONTENDERS as u64);
}
