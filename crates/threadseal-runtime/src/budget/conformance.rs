//! The rules that every ledger of budgets must obey, independent of the store.

use super::*;
use crate::testing::prelude::*;
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
    a_root_spends_up_to_its_ceiling_and_is_told_beyond(&Book(&empty()));
    what_is_set_aside_comes_out_of_what_remains(&tree(&empty()));
    spending_cascades_once_to_every_thread_above(&tree(&empty()));
    a_repeated_commit_counts_once(&tree(&empty()));
    what_was_not_spent_goes_back(&tree(&empty()));
    an_ended_thread_keeps_what_its_children_may_still_spend(&tree(&empty()));
    a_successor_gets_what_remains(&tree(&empty()));
}

/// A ledger, whose amounts are texts.
struct Book<'l>(&'l dyn BudgetLedger);

impl Book<'_> {
    fn register(&self, thread: &str, max: &str) -> Result<(), Error> {
        self.0.register(&id(thread), usd(max), at(0))
    }

    fn reserve(&self, thread: &str, of: &str, amount: &str) -> Result<(), Error> {
        self.0.reserve(&id(thread), &id(of), usd(amount), at(1))
    }

    fn commit(&self, thread: &str, turn: &str, amount: &str) -> Result<Budget, Error> {
        self.0.commit(&id(thread), turn, usd(amount), at(2))
    }

    fn release(&self, thread: &str, status: Status) -> Result<Nanos, Error> {
        self.0.release(&id(thread), status, at(3))
    }

    fn transfer(&self, from: &str, to: &str) -> Result<Nanos, Error> {
        self.0.transfer(&id(from), &id(to), at(4))
    }

    fn get(&self, thread: &str) -> Option<Budget> {
        self.0.get(&id(thread)).unwrap()
    }

    /// Checks what remains of a budget, and what was spent.
    #[track_caller]
    fn is(&self, thread: &str, remaining: &str, actual: &str) {
        let budget = self.get(thread).unwrap();
        let found = (budget.remaining, budget.actual);
        assert_eq!(found, (usd(remaining), usd(actual)), "{thread}");
    }
}

#[track_caller]
fn refused<T>(result: Result<T, Error>) {
    assert_eq!(result.err().unwrap().kind(), ErrorKind::Refused);
}

/// `root` with a dollar, of which `child` has 0.6, of which `leaf` has 0.25.
fn tree(ledger: &dyn BudgetLedger) -> Book<'_> {
    let book = Book(ledger);
    book.register("root", "1").unwrap();
    book.reserve("child", "root", "0.6").unwrap();
    book.reserve("leaf", "child", "0.25").unwrap();
    book
}

fn a_root_spends_up_to_its_ceiling_and_is_told_beyond(book: &Book<'_>) {
    assert_eq!(book.get("root"), None);
    refused(book.commit("root", "1", "0.1"));
    book.register("root", "1").unwrap();
    refused(book.register("root", "2"));
    assert!(book.commit("root", "1", "0.9").unwrap().actual <= usd("1"));
    book.is("root", "0.1", "0.9");
    assert!(book.commit("root", "2", "0.100000001").unwrap().actual > usd("1"));
    book.is("root", "0", "1.000000001");
}

fn what_is_set_aside_comes_out_of_what_remains(book: &Book<'_>) {
    book.is("root", "0.4", "0");
    book.is("child", "0.35", "0");
    book.is("leaf", "0.25", "0");
    refused(book.reserve("other", "root", "0.400000001"));
    assert_eq!(book.get("other"), None);
    book.reserve("other", "root", "0.4").unwrap();
    refused(book.reserve("other", "root", "0"));
    refused(book.reserve("x", "nobody", "0"));
}

fn spending_cascades_once_to_every_thread_above(book: &Book<'_>) {
    book.commit("leaf", "1", "0.2").unwrap();
    book.is("leaf", "0.05", "0.2");
    book.is("child", "0.35", "0.2");
    book.is("root", "0.4", "0.2");
    book.commit("root", "1", "0.1").unwrap();
    book.is("root", "0.3", "0.3");
    book.commit("child", "1", "0.05").unwrap();
    book.is("child", "0.3", "0.25");
    book.is("root", "0.3", "0.35");
}

fn a_repeated_commit_counts_once(book: &Book<'_>) {
    for _ in 0..3 {
        book.commit("leaf", "turn 1", "0.01").unwrap();
    }
    refused(book.commit("leaf", "turn 1", "0.02"));
    book.commit("child", "turn 1", "0.02").unwrap();
    book.is("root", "0.4", "0.03");
}

fn what_was_not_spent_goes_back(book: &Book<'_>) {
    book.commit("leaf", "1", "0.2").unwrap();
    assert_eq!(
        book.release("leaf", Status::Completed).unwrap(),
        usd("0.05")
    );
    book.is("child", "0.4", "0.2");
    assert_eq!(
        book.release("leaf", Status::Completed).unwrap(),
        Nanos::ZERO
    );
    refused(book.release("leaf", Status::Error));
    refused(book.release("nobody", Status::Error));
    assert!(book.release("child", Status::Running).is_err());
    book.release("child", Status::Error).unwrap();
    book.is("root", "0.8", "0.2");
    refused(book.reserve("late", "child", "0"));
    let child = book.get("child").unwrap();
    assert_eq!((child.reserved, &*child.status), (usd("0.2"), "error"));
}

fn an_ended_thread_keeps_what_its_children_may_still_spend(book: &Book<'_>) {
    assert_eq!(
        book.release("child", Status::Completed).unwrap(),
        usd("0.35")
    );
    book.is("root", "0.75", "0");
    book.commit("leaf", "1", "0.1").unwrap();
    book.is("root", "0.75", "0.1");
    book.release("leaf", Status::Completed).unwrap();
    book.is("root", "0.9", "0.1");
    // A late bill is recorded all the same.
    book.commit("leaf", "2", "0.01").unwrap();
    book.is("root", "0.89", "0.11");
}

fn a_successor_gets_what_remains(book: &Book<'_>) {
    book.commit("child", "1", "0.1").unwrap();
    assert_eq!(book.transfer("child", "next").unwrap(), usd("0.25"));
    book.is("next", "0.25", "0");
    // 0.1 spent, 0.25 for the successor, 0.25 for the leaf that still runs.
    book.is("root", "0.4", "0.1");
    refused(book.transfer("child", "again"));
    assert_eq!(book.transfer("root", "root-2").unwrap(), usd("0.4"));
    book.is("root-2", "0.4", "0");
    assert_eq!(book.get("root-2").unwrap().parent, None);
}
