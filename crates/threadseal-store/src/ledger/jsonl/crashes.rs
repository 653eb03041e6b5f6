//! Ledger files under failing disks, power cuts, SIGKILL and many processes.
//!
//! Each call of the workload fails in turn, in each way; then the process dies or the power is cut.
//! Checked at every stop:
//!
//! 1. no false alarm: the store opens and continues, without help;
//! 2. every acknowledged record is there, the durable ones after a power cut too;
//! 3. the records are one unbroken chain, each there once;
//! 4. `fsck` finds nothing after the next writer's turn.

use super::JsonlLedgerStore;
use crate::fault::{FaultFs, FaultKind, Keep};
use crate::heads::Durability;
use crate::ledger::conformance::{append_next, entry, run_id, whole_chain};
use crate::ledger::{Append, LedgerStore, Tip};
use crate::random::SeededRandom;
use crate::sys::RealFs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

const RECORDS: u64 = 9;
const KILLS: usize = 200;
const FOLDER: &str = "/ledgers";
/// Names the folder to work in, and so makes a process a child.
const ROLE: &str = "THREADSEAL_LEDGER_TEST_CHILD";

fn open(fs: &FaultFs, durability: Durability) -> Result<JsonlLedgerStore, Error> {
    let open = match durability {
        Durability::Durable => JsonlLedgerStore::open,
        Durability::Written => JsonlLedgerStore::open_without_fsync,
    };
    open(fs.shared(), Path::new(FOLDER))
}

/// Appends up to [`RECORDS`], one and two at a time, by a store that is opened anew half way.
/// `acknowledged` counts the acknowledged records.
fn work(fs: &FaultFs, durability: Durability, acknowledged: &mut u64) -> Result<(), Error> {
    let run = run_id("r");
    let mut store = open(fs, durability)?;
    let mut tip = store.tip(&run)?.unwrap_or_default();
    while tip.count < RECORDS {
        if tip.count == RECORDS / 2 {
            store = open(fs, durability)?;
        }
        let mut entries = vec![entry(&run, tip.hash, &tip.count.to_string(), None)];
        if tip.count % 3 == 1 {
            let text = (tip.count + 1).to_string();
            entries.push(entry(&run, entries[0].record_hash, &text, None));
        }
        match store.append_if(&run, &tip, &entries)? {
            Append::Stored(now) => {
                tip = now;
                *acknowledged = now.count;
            }
            // This append settled the records whose end an earlier process did not report.
            Append::Differs(now) => tip = now,
        }
    }
    Ok(())
}

/// How many records are there; each of them once and in order.
fn records(store: &JsonlLedgerStore) -> u64 {
    let found = whole_chain(store, &run_id("r"));
    for record in &found {
        let number = format!("\"step_id\":\"{}\"", record.seq);
        let line = String::from_utf8(record.line.clone()).unwrap();
        assert!(line.contains(&number), "{line} is not {number}");
    }
    found.len() as u64
}

fn assert_clean(store: &JsonlLedgerStore) {
    let report = store.fsck(&run_id("r"), false).unwrap();
    assert!(report.is_clean() && report.faults.is_empty(), "{report:?}");
}

fn ends(lot: usize) -> [Option<Keep>; 4] {
    let lot = Some(Keep::ByLot(lot as u64));
    [None, Some(Keep::Nothing), Some(Keep::Everything), lot]
}

fn stop(fs: &FaultFs, end: Option<Keep>) {
    match end {
        Some(keep) => fs.cut_power(keep),
        None => {
            fs.kill_process();
            fs.heal();
        }
    }
}

/// The number of acknowledged records that must be there after `end`.
fn promised(acknowledged: u64, durability: Durability, end: Option<Keep>) -> u64 {
    match (durability, end) {
        (Durability::Durable, _) | (_, None) => acknowledged,
        // The first append makes the file, durably.
        (Durability::Written, Some(_)) => acknowledged.min(1),
    }
}

fn go_on(fs: &FaultFs, durability: Durability, promised: u64) {
    let store = open(fs, durability).unwrap();
    let found = records(&store);
    assert!(found >= promised, "{found} of {promised} records");
    drop(store);
    let mut acknowledged = 0;
    work(fs, durability, &mut acknowledged).unwrap();
    let store = open(fs, durability).unwrap();
    assert!(records(&store) >= RECORDS);
    // If all records were there, only this settles the end.
    let tip = store.tip(&run_id("r")).unwrap().unwrap();
    let settled = store.append_if(&run_id("r"), &tip, &[]).unwrap();
    assert_eq!(settled, Append::Stored(tip));
    assert_clean(&store);
}

// T-STO-01
#[test]
fn every_fault_at_every_call_of_the_ledger_loses_nothing_that_was_acknowledged() {
    let mut runs = 0;
    for durability in [Durability::Durable, Durability::Written] {
        for kind in FaultKind::ALL {
            let mut call = 0;
            'calls: loop {
                for end in ends(call) {
                    let fs = FaultFs::new();
                    fs.plan(call, kind);
                    let mut acknowledged = 0;
                    let done = work(&fs, durability, &mut acknowledged);
                    let Some(struck) = fs.struck() else {
                        done.unwrap();
                        break 'calls;
                    };
                    runs += 1;
                    println!(
                        "{durability:?}, {kind:?} in {struck}, call {call}, {end:?}: {acknowledged}"
                    );
                    stop(&fs, end);
                    go_on(&fs, durability, promised(acknowledged, durability, end));
                    fs.cut_power(Keep::Nothing);
                    let left = records(&open(&fs, durability).unwrap());
                    assert!(durability == Durability::Written || left >= RECORDS);
                }
                call += 1;
            }
            assert!(call > 60, "the workload makes {call} calls only");
        }
    }
    println!("{runs} runs");
}

#[test]
fn a_second_fault_while_the_end_is_settled_loses_nothing_either() {
    let lots = SeededRandom::new(5);
    for seed in 0..3000 {
        let fs = FaultFs::new();
        let mut acknowledged = 0;
        for _ in 0..3 {
            let kind = FaultKind::ALL[lots.below(FaultKind::ALL.len())];
            fs.plan(lots.below(130), kind);
            let before = acknowledged;
            let mut now = 0;
            let done = work(&fs, Durability::Durable, &mut now);
            let end = ends(seed)[lots.below(4)];
            acknowledged = before.max(now);
            println!(
                "{seed}: {kind:?} in {:?}, {end:?}: {acknowledged}, {done:?}",
                fs.struck()
            );
            stop(&fs, end);
        }
        go_on(&fs, Durability::Durable, acknowledged);
    }
}

// T-PRU-19 T-STO-06
#[test]
fn a_deletion_that_fails_anywhere_is_whole_or_not_begun_and_can_be_finished() {
    let run = run_id("r");
    let at = Timestamp::from_micros(5).unwrap();
    for kind in FaultKind::ALL {
        'calls: for call in 0.. {
            for end in ends(call) {
                let fs = FaultFs::new();
                work(&fs, Durability::Durable, &mut 0).unwrap();
                let store = open(&fs, Durability::Durable).unwrap();
                fs.plan(call, kind);
                let done = store.delete(&run, None, at);
                let Some(struck) = fs.struck() else {
                    assert!(done.unwrap());
                    break 'calls;
                };
                println!("{kind:?} in {struck}, call {call}, {end:?}");
                stop(&fs, end);
                let store = open(&fs, Durability::Durable).unwrap();
                match store.tombstone(&run).unwrap() {
                    Some(stone) => {
                        assert!(stone.tip.count >= RECORDS);
                        assert!(store.tip(&run).is_err());
                        assert!(append_next(&store, &run, "x").is_err());
                    }
                    None => {
                        assert!(done.is_err());
                        assert!(records(&store) >= RECORDS);
                    }
                }
                assert!(store.delete(&run, None, at).unwrap());
                assert_clean(&store);
                fs.cut_power(Keep::Nothing);
                let store = open(&fs, Durability::Durable).unwrap();
                assert!(store.tombstone(&run).unwrap().is_some());
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how a test program learns that it is the child"
)]
fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

fn start(test: &str, role: &str) -> Child {
    let name = format!("ledger::jsonl::crashes::{test}");
    Command::new(std::env::current_exe().unwrap())
        .args([name.as_str(), "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn append_until_killed(folder: &str) -> ! {
    let store = JsonlLedgerStore::open(RealFs::shared(), Path::new(folder)).unwrap();
    let run = run_id("r");
    let mut out = std::io::stdout().lock();
    loop {
        let tip = store.tip(&run).unwrap().unwrap_or_default();
        let (mut entries, mut prev) = (Vec::new(), tip.hash);
        for number in tip.count..=tip.count + tip.count % 3 {
            let next = entry(&run, prev, &number.to_string(), None);
            prev = next.record_hash;
            entries.push(next);
        }
        // Differs where the last process died before it reported its record.
        if let Append::Stored(now) = store.append_if(&run, &tip, &entries).unwrap() {
            writeln!(out, "\nstored {}", now.count).unwrap();
            out.flush().unwrap();
        }
    }
}

// T-STO-01
#[test]
fn a_writer_killed_at_any_point_has_left_every_record_it_acknowledged() {
    const TEST: &str = "a_writer_killed_at_any_point_has_left_every_record_it_acknowledged";
    if let Some(folder) = role() {
        append_until_killed(&folder);
    }
    let lots = SeededRandom::new(12);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger_r.jsonl");
    let (mut busy, mut torn, mut untold, mut most) = (0, 0, 0, 0);
    for kill in 0..KILLS {
        let mut child = start(TEST, folder.path().to_str().unwrap());
        let out = child.stdout.take().unwrap();
        let (to_parent, first_answer) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines
                .filter_map(|line| line.strip_prefix("stored ")?.parse::<u64>().ok())
                .inspect(|_| to_parent.send(()).unwrap_or_default())
                .last()
        });
        // One in four is killed at any moment of its life, the others while they write.
        if kill % 4 != 0 {
            first_answer.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        std::thread::sleep(Duration::from_micros(lots.below(12_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = reader.join().unwrap();
        busy += usize::from(acknowledged.is_some());
        let Ok(bytes) = std::fs::read(&path) else {
            assert_eq!(acknowledged, None);
            continue;
        };
        torn += usize::from(!bytes.ends_with(b"\n"));
        let store = JsonlLedgerStore::open(RealFs::shared(), folder.path()).unwrap();
        let found = records(&store);
        let acknowledged = acknowledged.unwrap_or(0);
        assert!(found >= acknowledged, "{found} of {acknowledged}");
        untold += usize::from(found > acknowledged && acknowledged > 0);
        // The next append settles the end; an append of nothing does as well.
        let settled = store.append_if(&run_id("r"), &Tip::EMPTY, &[]).unwrap();
        assert_eq!(
            settled,
            Append::Differs(store.tip(&run_id("r")).unwrap().unwrap())
        );
        assert!(records(&store) >= acknowledged);
        assert_clean(&store);
        most = most.max(found);
        if found > 2000 {
            std::fs::remove_file(folder.path().join("ledger_r.index")).unwrap();
            std::fs::remove_file(&path).unwrap();
        }
    }
    println!(
        "{busy} of {KILLS} writers were busy; {torn} left a torn end, {untold} a record untold; {most} records"
    );
    assert!(busy > KILLS / 2, "only {busy} of {KILLS} writers were busy");
}

/// The run's ledger, appended to by `processes` processes at once, `appends` records each.
fn contend(test: &str, policy: &str, processes: usize, appends: usize) {
    if let Some(role) = role() {
        let (policy, folder) = role.split_once(' ').unwrap();
        let open = match policy {
            "durable" => JsonlLedgerStore::open,
            _ => JsonlLedgerStore::open_without_fsync,
        };
        let store = open(RealFs::shared(), Path::new(folder)).unwrap();
        let run: RunId = run_id("shared");
        for number in 0..appends {
            let text = format!("{}.{number}", std::process::id());
            append_next(&store, &run, &text).unwrap();
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let role = format!("{policy} {}", folder.path().display());
    let begin = start_clock();
    let children: Vec<Child> = (0..processes).map(|_| start(test, &role)).collect();
    let own: Vec<String> = children.iter().map(|c| format!("\"{}.", c.id())).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let seconds = begin.elapsed().as_secs_f64();
    let store = JsonlLedgerStore::open(RealFs::shared(), folder.path()).unwrap();
    let chain = whole_chain(&store, &run_id("shared"));
    assert_eq!(chain.len(), processes * appends);
    for own in &own {
        let of_one = chain.iter().filter(|record| {
            let line = String::from_utf8_lossy(&record.line);
            line.contains(own.as_str())
        });
        assert_eq!(of_one.count(), appends);
    }
    let report = store.fsck(&run_id("shared"), false).unwrap();
    assert!(report.faults.is_empty(), "{report:?}");
    println!(
        "{policy}: {:.0} appends a second by {processes} processes",
        chain.len() as f64 / seconds
    );
}

#[expect(clippy::disallowed_methods, reason = "what a test measures")]
fn start_clock() -> Instant {
    Instant::now()
}

// T-STO-02
#[test]
fn eight_processes_with_two_thousand_appends_each_make_one_unbroken_chain() {
    contend(
        "eight_processes_with_two_thousand_appends_each_make_one_unbroken_chain",
        "written",
        8,
        2000,
    );
}

#[test]
fn processes_that_wait_for_the_disk_make_one_unbroken_chain_too() {
    contend(
        "processes_that_wait_for_the_disk_make_one_unbroken_chain_too",
        "durable",
        8,
        100,
    );
}
