//! Real processes for the tests of stores: this test program, started again as a child.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says how fast it was, also in its helpers"
)]

use super::conformance::{entry, run_id};
use super::{LedgerStore, LedgerStoreExt as _};
use crate::clock::{Clock, SystemClock};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

/// Names the store to work on, and so makes a process a child.
const ROLE: &str = "THREADSEAL_LEDGER_TEST_CHILD";
const WRITERS: usize = 8;
const APPENDS: usize = 2000;

/// What the parent said, if this is a child.
#[expect(
    clippy::disallowed_methods,
    reason = "how a test program learns that it is the child"
)]
pub(crate) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Starts the test of this name as a child.
pub(crate) fn start(test: &str, role: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn append(store: &dyn LedgerStore, text: &str) -> u64 {
    let run = run_id("race");
    let mut make = |tip: &super::Tip| Ok(vec![entry(&run, tip.hash, text, None)]);
    store.append_with(&run, &mut make).unwrap().count
}

/// The child: appends until it is killed and says each number that was acknowledged.
pub(crate) fn append_until_killed(store: &dyn LedgerStore) -> ! {
    let mut out = std::io::stdout().lock();
    for number in 0_u64.. {
        let text = format!("{}.{number}", std::process::id());
        let count = append(store, &text);
        out.write_all(format!("\nstored {count} {text}\n").as_bytes())
            .unwrap();
        out.flush().unwrap();
    }
    unreachable!("the parent kills this process first")
}

/// What a child says of one append.
fn stored(line: &str) -> Option<(u64, String)> {
    let (count, text) = line.strip_prefix("stored ")?.split_once(' ')?;
    Some((count.parse().ok()?, text.to_owned()))
}

/// The parent: lets three children append, kills each at some moment, and returns every text that was
/// acknowledged, with its place.
pub(crate) fn kill_writers(
    test: &str,
    role: &str,
    meanwhile: &mut dyn FnMut(),
) -> Vec<(u64, String)> {
    let mut acknowledged = Vec::new();
    let mut children: Vec<Child> = (0..3).map(|_| start(test, role)).collect();
    for (index, child) in children.iter_mut().enumerate() {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        while let Some(Ok(line)) = lines.next() {
            acknowledged.extend(stored(&line).inspect(|_| seen += 1));
            if seen == 40 + 30 * index {
                meanwhile();
                child.kill().unwrap();
                seen += 1;
            }
        }
        child.wait().unwrap();
    }
    acknowledged
}

/// Every acknowledged text is where it was said to be.
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
    println!("\nready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
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
            super::conformance::append_next(store, &run_id(&format!("shared {run}")), &text)
                .unwrap();
        }
    }
}

/// The parent: several processes append to several runs at once.
pub(crate) fn share(test: &str, role: &str, store: &dyn LedgerStore) {
    let children: Vec<Child> = (0..WRITERS).map(|_| start(test, role)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    for run in 0..RUNS {
        let run = run_id(&format!("shared {run}"));
        let records = super::conformance::whole_chain(store, &run);
        assert_eq!(records.len(), WRITERS * APPENDS_TO_EACH);
        assert!(store.fsck(&run, false).unwrap().is_clean());
    }
}

/// The parent: several processes append to one run at once; prints how fast in which store.
pub(crate) fn race(test: &str, role: &str, place: &str, store: &dyn LedgerStore) {
    let mut children: Vec<Child> = (0..WRITERS).map(|_| start(test, role)).collect();
    for child in &mut children {
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        assert!(lines.map(Result::unwrap).any(|line| line == "ready"));
    }
    let begin = SystemClock.elapsed();
    for child in &mut children {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let took = SystemClock.elapsed().saturating_sub(begin);
    let all = WRITERS * APPENDS;
    println!(
        "{WRITERS} processes, {all} durable appends to one run in {place}: {:.0} a second",
        all as f64 / took.as_secs_f64()
    );
    let records = super::conformance::whole_chain(store, &run_id("race"));
    assert_eq!(records.len(), all);
    let report = store.fsck(&run_id("race"), false).unwrap();
    assert!(report.is_clean(), "{report:?}");
}
