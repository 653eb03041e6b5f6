//! The rules that every ledger of budgets must obey, independent of the store.

use super::*;
use crate::money::Share;
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
    what_is_held_does_not_remain_and_is_never_lost(&tree(&empty()));
    a_settled_request_ends_its_hold_and_counts_once(&tree(&empty()));
    a_share_of_what_remains_leaves_something_for_the_next_child(&Book(&empty()));
    a_suspended_thread_gives_back_what_it_does_not_use(&tree(&empty()));
    a_row_that_was_changed_or_removed_is_put_back(&tree(&empty()));
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

    fn hold(&self, thread: &str, key: &str, least: &str, most: &str) -> Option<Nanos> {
        let (least, most) = (usd(least), usd(most));
        self.0.hold(&id(thread), key, least, most, at(2)).unwrap()
    }

    fn share(&self, thread: &str, of: &str, most: &str) -> Result<Nanos, Error> {
        let share = Share::new(0.2).unwrap();
        self.0
            .reserve_share(&id(thread), &id(of), usd(most), share, at(1))
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

fn a_settled_request_ends_its_hold_and_counts_once(book: &Book<'_>) {
    let settle = |key: &str, amount| book.0.settle(&id("leaf"), key, usd(amount), at(2));
    book.hold("leaf", "1", "0", "0.1").unwrap();
    for _ in 0..2 {
        settle("1", "0.04").unwrap();
        book.is("leaf", "0.21", "0.04");
        book.is("root", "0.4", "0.04");
    }
    refused(settle("1", "0.05"));
    // More than its hold, and without one.
    book.hold("leaf", "2", "0", "0.01").unwrap();
    settle("2", "0.02").unwrap();
    settle("3", "0.01").unwrap();
    book.is("leaf", "0.18", "0.07");
    assert_eq!(book.0.charge_holds(&id("leaf"), at(3)).unwrap(), []);
}

fn what_is_held_does_not_remain_and_is_never_lost(book: &Book<'_>) {
    assert_eq!(book.hold("leaf", "1", "0.1", "0.2"), Some(usd("0.2")));
    book.is("leaf", "0.05", "0");
    // Of the rest as much as there is, unless that is too little.
    assert_eq!(book.hold("leaf", "2", "0.06", "0.2"), None);
    assert_eq!(book.hold("leaf", "2", "0.05", "0.2"), Some(usd("0.05")));
    assert_eq!(book.hold("leaf", "2", "0.05", "0.2"), Some(usd("0.05")));
    refused(book.reserve("below", "leaf", "0.01"));
    // A parent's own requests leave what its children may spend.
    assert_eq!(book.hold("child", "1", "0", "1"), Some(usd("0.35")));
    book.commit("child", "1", "0").unwrap();
    book.commit("leaf", "1", "0.01").unwrap();
    book.is("leaf", "0.19", "0.01");
    let again = book.0.hold(&id("leaf"), "1", usd("0"), usd("1"), at(3));
    refused(again);
    let charged = book.0.charge_holds(&id("leaf"), at(3)).unwrap();
    let hold = |key: &str, nanos| Hold {
        key: key.to_owned(),
        nanos,
    };
    assert_eq!(charged, [hold("2", usd("0.05"))]);
    book.is("leaf", "0.19", "0.06");
    book.is("root", "0.4", "0.06");
    // An end charges what is still held.
    book.hold("leaf", "3", "0", "0.1").unwrap();
    assert_eq!(book.release("leaf", Status::Error).unwrap(), usd("0.09"));
    book.is("root", "0.4", "0.16");
    refused(book.0.hold(&id("leaf"), "4", usd("0"), usd("0"), at(3)));
    book.hold("child", "2", "0", "0.1").unwrap();
    assert_eq!(book.transfer("child", "next").unwrap(), usd("0.34"));
    book.is("root", "0.4", "0.26");
}

fn a_share_of_what_remains_leaves_something_for_the_next_child(book: &Book<'_>) {
    book.register("root", "1").unwrap();
    assert_eq!(book.share("a", "root", "1").unwrap(), usd("0.2"));
    assert_eq!(book.share("b", "root", "1").unwrap(), usd("0.16"));
    assert_eq!(book.share("c", "root", "0.1").unwrap(), usd("0.1"));
    book.is("root", "0.54", "0");
    refused(book.share("a", "root", "1"));
    book.commit("root", "1", "0.54").unwrap();
    refused(book.share("d", "root", "1"));
    assert_eq!(book.share("free", "root", "0").unwrap(), Nanos::ZERO);
    for part in [0.0, -0.1, 1.1, f64::NAN, 0.000_000_1] {
        assert_eq!(Share::new(part), None, "{part}");
    }
    assert_eq!(Share::new(1.0).unwrap().of(Nanos::MAX), Nanos::MAX);
}

fn a_suspended_thread_gives_back_what_it_does_not_use(book: &Book<'_>) {
    book.commit("leaf", "1", "0.05").unwrap();
    let freed = book.release("leaf", Status::Suspended).unwrap();
    assert_eq!(freed, usd("0.2"));
    book.is("child", "0.55", "0.05");
    let again = book.release("leaf", Status::Cancelled).unwrap();
    assert_eq!(again, Nanos::ZERO);
    refused(book.release("leaf", Status::Error));
}

fn a_row_that_was_changed_or_removed_is_put_back(book: &Book<'_>) {
    book.commit("leaf", "1", "0.05").unwrap();
    book.commit("child", "1", "0.1").unwrap();
    let right = book.get("child").unwrap();
    book.release("child", Status::Error).unwrap();
    for _ in 0..2 {
        book.0.put_back(&id("child"), &right, at(5)).unwrap();
        assert_eq!(book.get("child").as_ref(), Some(&right));
    }
    // Its own spending is what its children did not spend, and counts once.
    book.commit("child", "1", "0.1").unwrap();
    assert_eq!(
        book.commit("child", "2", "0.01").unwrap().actual,
        usd("0.16")
    );
}
