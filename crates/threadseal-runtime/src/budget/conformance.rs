//! The rules that every ledger of budgets must obey, independent of the store.

use super::*;
use crate::money::Nanos;
use crate::status::Status;
use std::fmt;
use threadseal_core::error::Error;
use threadseal_core::error::ErrorKind;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;

pub(super) fn id(text: &str) -> ThreadId {
    ThreadId::parse(text).unwrap()
}

pub(super) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros((1_700_000_000 + seconds) * 1_000_000).unwrap()
}

pub(super) fn usd(text: &str) -> Nanos {
    Nanos::parse(text).unwrap()
}

/// Runs them all, each on an empty ledger.
pub(super) fn all<L: BudgetLedger>(empty: impl Fn() -> L) {
    a_root_spends_up_to_its_ceiling_and_is_told_beyond(&empty());
    what_is_set_aside_comes_out_of_what_remains(&empty());
    spending_cascades_once_to_every_thread_above(&empty());
    a_repeated_commit_counts_once(&empty());
    what_was_not_spent_goes_back(&empty());
    an_ended_thread_keeps_what_its_children_may_still_spend(&empty());
    a_successor_gets_what_remains(&empty());
}

fn refused<T: fmt::Debug>(result: Result<T, Error>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Refused);
}

fn state(ledger: &dyn BudgetLedger, thread: &str) -> (String, String) {
    let budget = ledger.get(&id(thread)).unwrap().unwrap();
    (budget.remaining.to_string(), budget.actual.to_string())
}

fn is(ledger: &dyn BudgetLedger, thread: &str, remaining: &str, actual: &str) {
    let (left, spent) = state(ledger, thread);
    assert_eq!(
        (usd(&left), usd(&spent)),
        (usd(remaining), usd(actual)),
        "{thread}"
    );
}

/// `root` with a dollar, of which `child` has 0.6, of which `leaf` has 0.25.
fn tree(ledger: &dyn BudgetLedger) {
    ledger.register(&id("root"), usd("1"), at(0)).unwrap();
    ledger
        .reserve(&id("child"), &id("root"), usd("0.6"), at(1))
        .unwrap();
    ledger
        .reserve(&id("leaf"), &id("child"), usd("0.25"), at(2))
        .unwrap();
}

fn a_root_spends_up_to_its_ceiling_and_is_told_beyond(ledger: &dyn BudgetLedger) {
    assert_eq!(ledger.get(&id("root")).unwrap(), None);
    refused(ledger.commit(&id("root"), "1", usd("0.1"), at(0)));
    ledger.register(&id("root"), usd("1"), at(0)).unwrap();
    refused(ledger.register(&id("root"), usd("2"), at(0)));
    let budget = ledger.commit(&id("root"), "1", usd("0.9"), at(1)).unwrap();
    assert!(budget.actual <= usd("1"));
    is(ledger, "root", "0.1", "0.9");
    let budget = ledger
        .commit(&id("root"), "2", usd("0.100000001"), at(2))
        .unwrap();
    assert!(budget.actual > usd("1"));
    is(ledger, "root", "0", "1.000000001");
}

fn what_is_set_aside_comes_out_of_what_remains(ledger: &dyn BudgetLedger) {
    tree(ledger);
    is(ledger, "root", "0.4", "0");
    is(ledger, "child", "0.35", "0");
    is(ledger, "leaf", "0.25", "0");
    refused(ledger.reserve(&id("other"), &id("root"), usd("0.400000001"), at(3)));
    assert_eq!(ledger.get(&id("other")).unwrap(), None);
    ledger
        .reserve(&id("other"), &id("root"), usd("0.4"), at(3))
        .unwrap();
    refused(ledger.reserve(&id("other"), &id("root"), Nanos::ZERO, at(4)));
    refused(ledger.reserve(&id("x"), &id("nobody"), Nanos::ZERO, at(4)));
}

fn spending_cascades_once_to_every_thread_above(ledger: &dyn BudgetLedger) {
    tree(ledger);
    ledger.commit(&id("leaf"), "1", usd("0.2"), at(3)).unwrap();
    is(ledger, "leaf", "0.05", "0.2");
    is(ledger, "child", "0.35", "0.2");
    is(ledger, "root", "0.4", "0.2");
    ledger.commit(&id("root"), "1", usd("0.1"), at(4)).unwrap();
    is(ledger, "root", "0.3", "0.3");
    ledger
        .commit(&id("child"), "1", usd("0.05"), at(4))
        .unwrap();
    is(ledger, "child", "0.3", "0.25");
    is(ledger, "root", "0.3", "0.35");
}

fn a_repeated_commit_counts_once(ledger: &dyn BudgetLedger) {
    tree(ledger);
    for _ in 0..3 {
        ledger
            .commit(&id("leaf"), "turn 1", usd("0.01"), at(3))
            .unwrap();
    }
    refused(ledger.commit(&id("leaf"), "turn 1", usd("0.02"), at(3)));
    ledger
        .commit(&id("child"), "turn 1", usd("0.02"), at(3))
        .unwrap();
    is(ledger, "root", "0.4", "0.03");
}

fn what_was_not_spent_goes_back(ledger: &dyn BudgetLedger) {
    tree(ledger);
    ledger.commit(&id("leaf"), "1", usd("0.2"), at(3)).unwrap();
    let back = ledger
        .release(&id("leaf"), Status::Completed, at(4))
        .unwrap();
    assert_eq!(back, usd("0.05"));
    is(ledger, "child", "0.4", "0.2");
    let again = ledger
        .release(&id("leaf"), Status::Completed, at(5))
        .unwrap();
    assert_eq!(again, Nanos::ZERO);
    refused(ledger.release(&id("leaf"), Status::Error, at(5)));
    refused(ledger.release(&id("nobody"), Status::Error, at(5)));
    assert!(
        ledger
            .release(&id("child"), Status::Running, at(5))
            .is_err()
    );
    ledger.release(&id("child"), Status::Error, at(6)).unwrap();
    is(ledger, "root", "0.8", "0.2");
    refused(ledger.reserve(&id("late"), &id("child"), Nanos::ZERO, at(7)));
    let child = ledger.get(&id("child")).unwrap().unwrap();
    assert_eq!(
        (child.reserved, child.status.as_str()),
        (usd("0.2"), "error")
    );
}

fn an_ended_thread_keeps_what_its_children_may_still_spend(ledger: &dyn BudgetLedger) {
    tree(ledger);
    let back = ledger
        .release(&id("child"), Status::Completed, at(3))
        .unwrap();
    assert_eq!(back, usd("0.35"));
    is(ledger, "root", "0.75", "0");
    ledger.commit(&id("leaf"), "1", usd("0.1"), at(4)).unwrap();
    is(ledger, "root", "0.75", "0.1");
    ledger
        .release(&id("leaf"), Status::Completed, at(5))
        .unwrap();
    is(ledger, "root", "0.9", "0.1");
    // A late bill is recorded all the same.
    ledger.commit(&id("leaf"), "2", usd("0.01"), at(6)).unwrap();
    is(ledger, "root", "0.89", "0.11");
}

fn a_successor_gets_what_remains(ledger: &dyn BudgetLedger) {
    tree(ledger);
    ledger.commit(&id("child"), "1", usd("0.1"), at(3)).unwrap();
    let given = ledger.transfer(&id("child"), &id("next"), at(4)).unwrap();
    assert_eq!(given, usd("0.25"));
    is(ledger, "next", "0.25", "0");
    // 0.1 spent, 0.25 for the successor, 0.25 for the leaf that still runs.
    is(ledger, "root", "0.4", "0.1");
    refused(ledger.transfer(&id("child"), &id("again"), at(5)));
    let root = ledger.transfer(&id("root"), &id("root-2"), at(6)).unwrap();
    assert_eq!(root, usd("0.4"));
    is(ledger, "root-2", "0.4", "0");
    assert_eq!(ledger.get(&id("root-2")).unwrap().unwrap().parent, None);
}
