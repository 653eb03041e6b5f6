//! Real processes for the tests of stores: this test program, started again as a child.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says how fast it was, also in its helpers"
)]

use super::conformance::{append_next, entry, run_id, whole_chain};
use super::{LedgerStore, LedgerStoreExt as _};
use crate::clock::{Clock, SystemClock};
pub(crate) use crate::testing::child::role;
use crate::testing::child::{Child, answer, start_many as start, wait_for_release};
use std::io::{BufReader, Lines};
use std::process::ChildStdout;
use std::time::Duration;
use threadseal_core::error::ErrorKind;

const WRITERS: usize = 8;
/// Acknowledgements that are awaited of one writer at once.
const AT_ONCE: usize = 40;
const APPENDS: usize = 2000;

fn append(store: &dyn LedgerStore, text: &str) -> u64 {
    let run = run_id("race");
    let mut make = |tip: &super::Tip| Ok(vec![entry(&run, tip.hash, text, None)]);
    store.append_with(&run, &mut make).unwrap().count
}

/// The child: appends until it is killed, also where appends fail meanwhile, and prints each
/// acknowledged number.
pub(crate) fn append_until_killed(store: &dyn LedgerStore) -> ! {
    let run = run_id("race");
    for number in 0_u64.. {
        let text = format!("{}.{number}", std::process::id());
        let mut make = |tip: &super::Tip| Ok(vec![entry(&run, tip.hash, &text, None)]);
        match store.append_with(&run, &mut make) {
            Ok(tip) => answer(&format!("stored {} {text}", tip.count)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::External, "{error}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    unreachable!("the parent kills this process first")
}

/// Parses a child's line about one append.
fn stored(line: &str) -> Option<(u64, String)> {
    let (count, text) = line.strip_prefix("stored ")?.split_once(' ')?;
    Some((count.parse().ok()?, text.to_owned()))
}

/// The parent: lets three children append, kills each at some moment, and returns every
/// acknowledged text with its place.
pub(crate) fn kill_writers(
    test: &str,
    role: &str,
    meanwhile: &mut dyn FnMut(),
) -> Vec<(u64, String)> {
    let mut acknowledged = Vec::new();
    for (index, mut child) in start(test, role, 3).into_iter().enumerate() {
        let mut lines = child.lines();
        let mut seen = 0;
        while let Some(Ok(line)) = lines.next() {
            acknowledged.extend(stored(&line).inspect(|_| seen += 1));
            if seen == 40 + 30 * index {
                meanwhile();
                child.kill();
                seen += 1;
            }
        }
    }
    acknowledged
}

/// The acknowledgements of three writers while their store was disturbed.
pub(crate) struct Disturbed {
    /// Every text that was acknowledged, with its place.
    pub(crate) acknowledged: Vec<(u64, String)>,
    /// How many were after the last disturbance.
    pub(crate) afterwards: usize,
}

/// The parent: lets three children append while `disturb` is done again and again, and kills them.
pub(crate) fn disturb_writers(
    test: &str,
    role: &str,
    times: usize,
    disturb: &mut dyn FnMut(),
) -> Disturbed {
    let mut children = start(test, role, 3);
    let mut outputs: Vec<_> = children.iter_mut().map(Child::lines).collect();
    let (mut acknowledged, mut before) = (Vec::new(), 0);
    for _ in 0..times {
        read_some(&mut outputs, &mut acknowledged);
        disturb();
        before = acknowledged.len();
    }
    // The pipes may still hold lines from before the last disturbance.
    for _ in 0..3 {
        read_some(&mut outputs, &mut acknowledged);
    }
    let afterwards = acknowledged.len() - before;
    for child in &mut children {
        child.kill();
    }
    for lines in outputs {
        acknowledged.extend(lines.map_while(Result::ok).filter_map(|line| stored(&line)));
    }
    Disturbed {
        acknowledged,
        afterwards,
    }
}

/// The next acknowledgements of each writer.
fn read_some(outputs: &mut [Lines<BufReader<ChildStdout>>], acknowledged: &mut Vec<(u64, String)>) {
    for lines in outputs {
        let told = lines.filter_map(|line| stored(&line.unwrap()));
        acknowledged.extend(told.take(AT_ONCE));
    }
}

/// Every acknowledged text is at its acknowledged place.
pub(crate) fn assert_all_there(store: &dyn LedgerStore, acknowledged: &[(u64, String)]) {
    let run = run_id("race");
    let lines: Vec<Vec<u8>> = store
        .list(&run, 0)
        .map(|record| record.unwrap().line)
        .collect();
    for (count, text) in acknowledged {
        let line = String::from_utf8_lossy(&lines[usize::try_from(*count).unwrap() - 1]);
        assert!(
            line.contains(&format!("\"step_id\":\"{text}\"")),
            "{count} {text}"
        );
    }
}

/// The child of [`race`].
pub(crate) fn append_many(store: &dyn LedgerStore) {
    answer("ready");
    wait_for_release();
    for number in 0..APPENDS {
        append(store, &format!("{}.{number}", std::process::id()));
    }
}

const RUNS: usize = 4;
const APPENDS_TO_EACH: usize = 60;

/// The child of [`share`]: appends to several runs in turn.
pub(crate) fn append_to_several(store: &dyn LedgerStore) {
    for number in 0..APPENDS_TO_EACH {
        for run in 0..RUNS {
            let text = format!("{}.{number}", std::process::id());
            append_next(store, &run_id(&format!("shared {run}")), &text).unwrap();
        }
    }
}

/// The parent: several processes append to several runs at once.
pub(crate) fn share(test: &str, role: &str, store: &dyn LedgerStore) {
    for child in start(test, role, WRITERS) {
        child.succeed();
    }
    for run in 0..RUNS {
        let run = run_id(&format!("shared {run}"));
        let records = whole_chain(store, &run);
        assert_eq!(records.len(), WRITERS * APPENDS_TO_EACH);
        assert!(store.fsck(&run, false).unwrap().is_clean());
    }
}

/// The parent: several processes append to one run at once; prints how fast in which store.
pub(crate) fn race(test: &str, role: &str, place: &str, store: &dyn LedgerStore) {
    let mut children = start(test, role, WRITERS);
    let mut outputs: Vec<_> = children.iter_mut().map(Child::lines).collect();
    for lines in &mut outputs {
        assert!(lines.map(Result::unwrap).any(|line| line == "ready"));
    }
    let begin = SystemClock.elapsed();
    children.iter_mut().for_each(Child::release);
    for child in children {
        child.succeed();
    }
    let took = SystemClock.elapsed().saturating_sub(begin);
    let all = WRITERS * APPENDS;
    println!(
        "{WRITERS} processes, {all} durable appends to one run in {place}: {:.0} a second",
        all as f64 / took.as_secs_f64()
    );
    let records = whole_chain(store, &run_id("race"));
    assert_eq!(records.len(), all);
    let report = store.fsck(&run_id("race"), false).unwrap();
    assert!(report.is_clean(), "{report:?}");
}
