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
use crate::fault::{FaultFs, FaultKind, Keep, ends, fail_each_call, sweeps_are_whole};
use crate::heads::Durability;
use crate::ledger::conformance::{append_next, entry, run_id, whole_chain};
use crate::ledger::{Append, LedgerStore, Tip};
use crate::random::SeededRandom;
use crate::sys::RealFs;
use crate::testing::child;
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;

const RECORDS: u64 = 9;
const KILLS: usize = 200;
const FOLDER: &str = "/ledgers";

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
    for durability in [Durability::Durable, Durability::Written] {
        fail_each_call(
            60,
            |call, _| ends(call),
            |call, kind, end| {
                let fs = FaultFs::new();
                fs.plan(call, kind);
                let mut acknowledged = 0;
                let done = work(&fs, durability, &mut acknowledged);
                let Some(struck) = fs.struck() else {
                    done.unwrap();
                    return false;
                };
                println!(
                    "{durability:?}, {kind:?} in {struck}, call {call}, {end:?}: {acknowledged}"
                );
                fs.end(end);
                go_on(&fs, durability, promised(acknowledged, durability, end));
                fs.cut_power(Keep::Nothing);
                let left = records(&open(&fs, durability).unwrap());
                assert!(durability == Durability::Written || left >= RECORDS);
                true
            },
        );
    }
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
            let struck = fs.struck();
            println!("{seed}: {kind:?} in {struck:?}, {end:?}: {acknowledged}, {done:?}");
            fs.end(end);
        }
        go_on(&fs, Durability::Durable, acknowledged);
    }
}

// T-PRU-19 T-STO-06
#[test]
fn a_deletion_that_fails_anywhere_is_whole_or_not_begun_and_can_be_finished() {
    let run = run_id("r");
    let at = Timestamp::from_micros(5).unwrap();
    let written = FaultFs::new();
    work(&written, Durability::Durable, &mut 0).unwrap();
    fail_each_call(
        0,
        |call, _| ends(call),
        |call, kind, end| {
            let fs = written.copy();
            let store = open(&fs, Durability::Durable).unwrap();
            fs.plan(call, kind);
            let done = store.delete(&run, None, at);
            let Some(struck) = fs.struck() else {
                assert!(done.unwrap());
                return false;
            };
            println!("{kind:?} in {struck}, call {call}, {end:?}");
            fs.end(end);
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
            true
        },
    );
}

/// The full name of a test of this module.
fn named(test: &str) -> String {
    format!("ledger::jsonl::crashes::{test}")
}

fn append_until_killed(folder: &str) -> ! {
    let store = JsonlLedgerStore::open(RealFs::shared(), Path::new(folder)).unwrap();
    let run = run_id("r");
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
            child::answer(&format!("stored {}", now.count));
        }
    }
}

// T-STO-01
#[test]
fn a_writer_killed_at_any_point_has_left_every_record_it_acknowledged() {
    const TEST: &str = "a_writer_killed_at_any_point_has_left_every_record_it_acknowledged";
    if let Some(folder) = child::role() {
        append_until_killed(&folder);
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = folder.join("ledger_r.jsonl");
    let parse = |line: &str| line.strip_prefix("stored ")?.parse().ok();
    let check = |acknowledged: Option<u64>| {
        if !path.exists() {
            assert_eq!(acknowledged, None);
            return;
        }
        let store = JsonlLedgerStore::open(RealFs::shared(), folder).unwrap();
        let (found, acknowledged) = (records(&store), acknowledged.unwrap_or(0));
        assert!(found >= acknowledged, "{found} of {acknowledged}");
        // The next append settles the end; an append of nothing does as well.
        let settled = store.append_if(&run_id("r"), &Tip::EMPTY, &[]).unwrap();
        let tip = store.tip(&run_id("r")).unwrap().unwrap();
        assert_eq!(settled, Append::Differs(tip));
        assert!(records(&store) >= acknowledged);
        assert_clean(&store);
        if found > 2000 {
            std::fs::remove_file(folder.join("ledger_r.index")).unwrap();
            std::fs::remove_file(&path).unwrap();
        }
    };
    let (test, role) = (named(TEST), folder.to_str().unwrap());
    let busy = child::kill_many(&test, role, KILLS, 12_000, parse, check);
    assert!(busy > KILLS / 2, "{busy} of {KILLS} writers were busy");
}

/// The run's ledger, appended to by `processes` processes at once, `appends` records each.
fn contend(test: &str, policy: &str, processes: usize, appends: usize) {
    let run = run_id("shared");
    if let Some(role) = child::role() {
        let (policy, folder) = role.split_once(' ').unwrap();
        let open = match policy {
            "durable" => JsonlLedgerStore::open,
            _ => JsonlLedgerStore::open_without_fsync,
        };
        let store = open(RealFs::shared(), Path::new(folder)).unwrap();
        for number in 0..appends {
            let text = format!("{}.{number}", std::process::id());
            append_next(&store, &run, &text).unwrap();
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let role = format!("{policy} {}", folder.path().display());
    let children = child::start_many(&named(test), &role, processes);
    let own: Vec<String> = children.iter().map(|c| format!("\"{}.", c.id())).collect();
    for child in children {
        child.succeed();
    }
    let store = JsonlLedgerStore::open(RealFs::shared(), folder.path()).unwrap();
    let chain = whole_chain(&store, &run);
    assert_eq!(chain.len(), processes * appends);
    for own in &own {
        let lines = chain
            .iter()
            .map(|record| String::from_utf8_lossy(&record.line));
        let of_one = lines.filter(|line| line.contains(own.as_str()));
        assert_eq!(of_one.count(), appends);
    }
    let report = store.fsck(&run, false).unwrap();
    assert!(report.faults.is_empty(), "{report:?}");
}

// T-STO-02
#[test]
fn eight_processes_make_one_unbroken_chain() {
    let appends = if sweeps_are_whole() { 2000 } else { 250 };
    let test = "eight_processes_make_one_unbroken_chain";
    contend(test, "written", 8, appends);
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
