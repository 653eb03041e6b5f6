//! Every call fails in every way, and afterwards nothing promised is lost.
//!
//! A sealer in miniature appends events and seals and stores heads. Each of its calls fails in
//! turn, in each way of [`FaultKind`]; then the process dies or the power is cut. [`Keep`] selects
//! the unsynced bytes and names that stay. Then a new process checks the disk and continues to the
//! end, and the power is cut again. Checked at every stop:
//!
//! 1. acknowledged bytes are there: the written ones after a kill, the durable ones after a cut;
//! 2. after a failure the log acknowledges nothing more;
//! 3. an acknowledged head is there, or a newer one, and its aliases lead to it;
//! 4. no head names bytes that the file lacks: files may be ahead of heads, never the reverse;
//! 5. a tail that was moved aside is in the record or beside it, whole;
//! 6. errors leave no temporary files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says where, also in its helpers"
)]

mod common;

use common::{HEADS, Promises, RECORD, Sealer, WORK};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use threadseal_store::atomic;
use threadseal_store::fault::{FaultFs, FaultKind, Keep, fail_each_call};
use threadseal_store::random::SeededRandom;
use threadseal_store::sys::Fs as _;

/// Power cuts by lot per injected fault.
const LOTS: u64 = 6;

fn fresh_disk() -> FaultFs {
    let fs = FaultFs::new();
    for directory in [WORK, "/home"] {
        atomic::create_directories(&fs, Path::new(directory), 0o700).unwrap();
    }
    fs
}

/// The ends of the first process: a kill, and cuts of the power.
fn all_ends(seed: u64) -> Vec<Option<Keep>> {
    let lots = (0..LOTS).map(|lot| Some(Keep::ByLot(seed * LOTS + lot)));
    let always = [None, Some(Keep::Nothing), Some(Keep::Everything)];
    always.into_iter().chain(lots).collect()
}

/// Works until the end or the fault; returns whether the end was reached.
fn work(fs: &FaultFs, promises: &mut Promises) -> bool {
    Sealer::new(fs, promises).run().is_ok()
}

fn stop(fs: &FaultFs, end: Option<Keep>, promises: &mut Promises) {
    fs.end(end);
    if end.is_some() {
        promises.forget_what_was_only_written();
    }
    promises.check(fs);
}

/// Continues without faults, loses everything that was not synced, and must have lost nothing.
fn finish(fs: &FaultFs, promises: &mut Promises, cut: Keep) {
    assert!(work(fs, promises), "recovery without a fault must succeed");
    promises.check(fs);
    stop(fs, Some(cut), promises);
    assert!(promises.is_complete());
}

fn in_context(context: &str, test: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(test)) {
        println!("failed with {context}");
        resume_unwind(panic);
    }
}

// T-TRA-30
#[test]
fn every_fault_at_every_call_loses_nothing_that_was_promised() {
    let ends = |call: usize, _| all_ends(call as u64);
    fail_each_call(100, ends, |call, kind, end| {
        let fs = fresh_disk();
        let mut promises = Promises::default();
        fs.plan(call, kind);
        let done = work(&fs, &mut promises);
        let Some(struck) = fs.struck() else {
            assert!(done);
            return false;
        };
        assert!(done || kind != FaultKind::Interrupted, "{struck} at {call}");
        let context = format!("{kind:?} in {struck}, call {call}, {end:?}");
        in_context(&context, || {
            if leaves_no_litter(kind) {
                assert_no_temporary_files(&fs);
            }
            stop(&fs, end, &mut promises);
            finish(&fs, &mut promises, Keep::Nothing);
        });
        true
    });
}

#[test]
fn a_second_fault_during_recovery_loses_nothing_either() {
    let lots = SeededRandom::new(4);
    for seed in 0..4000 {
        let kinds = [0; 2].map(|_| FaultKind::ALL[lots.below(FaultKind::ALL.len())]);
        let calls = [lots.below(170), lots.below(120)];
        let ends = all_ends(seed);
        let ends = [0; 2].map(|_| ends[lots.below(ends.len())]);
        in_context(&format!("{kinds:?} at {calls:?}, then {ends:?}"), || {
            let fs = fresh_disk();
            let mut promises = Promises::default();
            for stage in 0..2 {
                fs.plan(calls[stage], kinds[stage]);
                work(&fs, &mut promises);
                stop(&fs, ends[stage], &mut promises);
            }
            finish(&fs, &mut promises, Keep::ByLot(seed));
        });
    }
}

// T-TRA-26
#[test]
fn a_process_that_goes_on_after_a_failed_fsync_never_stores_a_head_of_lost_bytes() {
    // The dangerous order: fsync fails and loses pages. The same process opens the file again,
    // reads them from the cache, syncs "successfully", and stores a head. Then the power is cut.
    let mut syncs = 0;
    for call in 0.. {
        for keep in [Keep::Nothing, Keep::Everything, Keep::ByLot(call as u64)] {
            let fs = fresh_disk();
            let mut promises = Promises::default();
            fs.plan(call, FaultKind::SyncLost);
            work(&fs, &mut promises);
            match fs.struck() {
                None => {
                    assert!(syncs >= 30, "{syncs} fsyncs only");
                    return;
                }
                Some("fsync") => syncs += 1,
                Some(_) => break,
            }
            in_context(&format!("call {call}, {keep:?}"), || {
                finish(&fs, &mut promises, keep);
            });
        }
    }
}

/// A call that is done though it reports failure may leave a file that no program knows of. A disk
/// without power or write access cannot be tidied.
fn leaves_no_litter(kind: FaultKind) -> bool {
    !matches!(
        kind,
        FaultKind::DoneButFailed | FaultKind::PowerOff | FaultKind::ReadOnly
    )
}

fn assert_no_temporary_files(fs: &FaultFs) {
    let shard = common::shard();
    for directory in [WORK, HEADS, &shard] {
        let Ok(names) = fs.read_dir(Path::new(directory)) else {
            continue;
        };
        for name in names {
            let name = name.to_string_lossy().into_owned();
            assert!(!name.ends_with(".tmp"), "{directory}/{name} stays");
        }
    }
    assert!(RECORD.starts_with(WORK));
}
