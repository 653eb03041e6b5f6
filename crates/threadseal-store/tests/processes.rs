//! Real processes: killed while they write, and contending for a lock and a head.
//!
//! A test starts this test program again with [`ROLE`] set; the same test function then plays the
//! child. Children answer on standard output, one word and a number per line.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, also in its helpers"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;
use threadseal_core::digest::Digest;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::time::Timestamp;
use threadseal_store::append::Log;
use threadseal_store::heads::{Durability, FileHeadStore, HeadStore, RecordKind, StoredHead, Swap};
use threadseal_store::lock::WriterLock;
use threadseal_store::random::SeededRandom;
use threadseal_store::sys::RealFs;

/// Names the folder to work in, and so makes a process a child.
const ROLE: &str = "THREADSEAL_STORE_TEST_CHILD";
const KILLS: usize = 200;
const CONTENDERS: usize = 4;
/// Heads that each contender stores.
const WINS: u64 = 25;

#[expect(
    clippy::disallowed_methods,
    reason = "how a test program learns that it is the child"
)]
fn folder_if_child() -> Option<std::ffi::OsString> {
    std::env::var_os(ROLE)
}

fn start(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn say(word: &str, number: u64) {
    let mut out = std::io::stdout().lock();
    // The test program leaves "test NAME ... " on the line before.
    let line = format!("\n{word} {number}\n");
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
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

/// The last whole acknowledgement of a child that is killed some time; signals the first on
/// `first`.
fn last_answer(out: ChildStdout, first: &std::sync::mpsc::Sender<()>) -> Option<u64> {
    let mut last = None;
    let mut line = Vec::new();
    let mut out = BufReader::new(out);
    while out.read_until(b'\n', &mut line).unwrap() > 0 {
        let text = std::str::from_utf8(&line).unwrap().strip_suffix('\n');
        let answer =
            text.and_then(|text| heard("written", text).or_else(|| heard("durable", text)));
        if answer.is_some() {
            if last.is_none() {
                // The parent need not wait for it.
                let _ = first.send(());
            }
            last = answer;
        }
        line.clear();
    }
    last
}

#[test]
fn a_killed_writer_has_left_every_byte_it_acknowledged_and_no_lock() {
    if let Some(folder) = folder_if_child() {
        write_until_killed(&Path::new(&folder).join("log"));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let lots = SeededRandom::new(7);
    let (mut busy, mut torn_between_acknowledgements) = (0, 0);
    for kill in 0..KILLS {
        let mut child = start(
            "a_killed_writer_has_left_every_byte_it_acknowledged_and_no_lock",
            folder.path(),
        );
        let out = child.stdout.take().unwrap();
        let (to_parent, first_answer) = std::sync::mpsc::channel();
        let reader = thread::spawn(move || last_answer(out, &to_parent));
        // One in four is killed at any moment of its life, the others while they write.
        if kill % 4 != 0 {
            first_answer.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        thread::sleep(Duration::from_micros(lots.below(12_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = reader.join().unwrap();

        let Ok(file) = std::fs::read(&path) else {
            assert_eq!(acknowledged, None);
            continue;
        };
        let size = file.len() as u64;
        busy += usize::from(acknowledged.is_some());
        let acknowledged = acknowledged.unwrap_or(0);
        assert!(size >= acknowledged, "{size} of {acknowledged} bytes");
        torn_between_acknowledgements += u64::from(size > acknowledged);
        assert!(file == bytes_at(0, file.len()), "bytes differ");
        WriterLock::acquire(RealFs::shared(), &path).expect("the lock died with its holder");
        if size > 1 << 20 {
            std::fs::remove_file(&path).unwrap();
        }
    }
    println!(
        "{busy} of {KILLS} writers were busy, {torn_between_acknowledgements} between write and answer"
    );
    assert!(
        busy > KILLS / 4,
        "only {busy} writers had acknowledged anything"
    );
}

/// Waits until the parent ends its input or sends a line.
fn wait_for_line() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn release(inputs: &mut [ChildStdin]) {
    for input in inputs {
        input.write_all(b"\n").unwrap();
    }
}

// T-TRA-31
#[test]
fn of_several_processes_one_gets_the_lock_and_the_others_hear_who_has_it() {
    const TEST: &str = "of_several_processes_one_gets_the_lock_and_the_others_hear_who_has_it";
    if let Some(folder) = folder_if_child() {
        say("ready", 0);
        wait_for_line();
        let lock = WriterLock::acquire(RealFs::shared(), &Path::new(&folder).join("log"));
        match &lock {
            Ok(_) => say("won", std::process::id().into()),
            Err(error) => {
                let text = error.to_string();
                let pid = text
                    .split_once("by process ")
                    .and_then(|(_, rest)| rest.split_once(';'))
                    .and_then(|(pid, _)| pid.parse().ok());
                say("lost", pid.unwrap_or(0));
            }
        }
        wait_for_line();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("log"), "x").unwrap();
    let mut children: Vec<Child> = (0..CONTENDERS)
        .map(|_| start(TEST, folder.path()))
        .collect();
    let mut inputs: Vec<_> = children
        .iter_mut()
        .map(|c| c.stdin.take().unwrap())
        .collect();
    let mut outputs: Vec<_> = children
        .iter_mut()
        .map(|child| BufReader::new(child.stdout.take().unwrap()).lines())
        .collect();
    let mut answers = |words: &[&str]| -> Vec<(String, u64)> {
        let next = |lines: &mut std::io::Lines<_>| {
            lines.find_map(|line| {
                let line: String = line.unwrap();
                let found = words
                    .iter()
                    .find_map(|word| Some((*word, heard(word, &line)?)));
                found.map(|(word, number)| (word.to_owned(), number))
            })
        };
        outputs
            .iter_mut()
            .map(|lines| next(lines).unwrap())
            .collect()
    };
    answers(&["ready"]);
    release(&mut inputs);
    let answers = answers(&["won", "lost"]);
    release(&mut inputs);
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let winners: Vec<u64> = answers
        .iter()
        .filter_map(|(word, pid)| (word == "won").then_some(*pid))
        .collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    if cfg!(target_os = "linux") {
        assert!(
            answers.iter().all(|(_, pid)| *pid == winners[0]),
            "{answers:?}"
        );
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
        if heads
            .replace_if(&old.head, &head_of(seq), durability)
            .unwrap()
            == Swap::Stored
        {
            stored.push(seq);
        }
    }
    stored
}

// T-TRA-26
#[test]
fn of_several_processes_one_stores_each_head() {
    const TEST: &str = "of_several_processes_one_stores_each_head";
    if let Some(folder) = folder_if_child() {
        let heads = FileHeadStore::new(RealFs::shared(), &folder);
        for seq in store_heads(&heads) {
            say("stored", seq);
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let children: Vec<Child> = (0..CONTENDERS)
        .map(|_| start(TEST, folder.path()))
        .collect();
    let mut stored: Vec<u64> = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        stored.extend(text.lines().filter_map(|line| heard("stored", line)));
    }
    stored.sort_unstable();
    let all: Vec<u64> = (1..=WINS * CONTENDERS as u64).collect();
    assert_eq!(stored, all, "each seal was stored exactly once");
    let heads = FileHeadStore::new(RealFs::shared(), folder.path());
    let last = heads.fetch(&head_of(0).head.record).unwrap().unwrap();
    assert_eq!(last.head.seq, WINS * CONTENDERS as u64);
}
