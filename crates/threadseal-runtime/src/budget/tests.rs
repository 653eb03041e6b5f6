//! Budgets in SQLite: conformance, races, Rye's files.

use super::conformance::{at, id, usd};
use super::*;
use crate::shared::shared;
use rusqlite::Connection;
use std::path::Path;

fn codes(path: &Path) -> Vec<&'static str> {
    let inspection = inspect(path).unwrap();
    let mut codes: Vec<_> = inspection.faults.iter().map(|fault| fault.code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

#[test]
fn budgets_in_sqlite_do_what_all_must_do_and_nothing_in_them_is_false() {
    let folder = tempfile::tempdir().unwrap();
    let next = std::cell::Cell::new(0);
    let path = |number: u32| folder.path().join(format!("{number}.db"));
    conformance::all(|| {
        next.set(next.get() + 1);
        SqliteBudgets::open(&path(next.get())).unwrap()
    });
    for number in 2..=next.get() {
        assert_eq!(codes(&path(number)), [""; 0], "{number}");
    }
    assert_eq!(next.get(), 7);
}

#[test]
fn many_who_reserve_and_spend_at_once_never_get_more_than_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("budget_ledger.db");
    let ledger = SqliteBudgets::open(&path).unwrap();
    ledger.register(&id("root"), usd("1"), at(0)).unwrap();
    let won: u64 = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..4)
            .map(|racer| {
                let path = &path;
                scope.spawn(move || {
                    let ledger = SqliteBudgets::open(path).unwrap();
                    let mut won = 0;
                    for turn in 0..10 {
                        let child = id(&format!("child-{racer}-{turn}"));
                        if ledger
                            .reserve(&child, &id("root"), usd("0.07"), at(1))
                            .is_ok()
                        {
                            won += 1;
                            ledger.commit(&child, "1", usd("0.03"), at(2)).unwrap();
                            ledger.commit(&child, "1", usd("0.03"), at(2)).unwrap();
                            if turn % 2 == 0 {
                                ledger.release(&child, Status::Completed, at(3)).unwrap();
                            }
                        }
                    }
                    won
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).sum()
    });
    let root = ledger.get(&id("root")).unwrap().unwrap();
    assert_eq!(root.actual.get(), won * 30_000_000);
    assert!(!root.is_overspent());
    assert!(root.remaining < usd("0.07"), "{root:?}");
    assert_eq!(codes(&path), [""; 0]);
}

/// A ledger as Rye leaves it: a root that runs, a child that ended, a child that runs.
fn theirs(path: &Path) -> Connection {
    let raw = Connection::open(path).unwrap();
    raw.execute_batch(
        "CREATE TABLE budget_ledger (thread_id TEXT PRIMARY KEY, parent_thread_id TEXT,
           reserved_spend REAL DEFAULT 0.0, actual_spend REAL DEFAULT 0.0, max_spend REAL,
           status TEXT DEFAULT 'active', created_at TEXT, updated_at TEXT);
         INSERT INTO budget_ledger VALUES
           ('root', NULL, 0.0, 0.01, 1.0, 'active', 't', 't'),
           ('done', 'root', 0.01, 0.01, 1.0, 'completed', 't', 't'),
           ('runs', 'root', 0.25, 0.1, 0.25, 'active', 't', 't');",
    )
    .unwrap();
    raw
}

#[test]
fn the_originals_rows_are_counted_as_the_original_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("budget_ledger.db");
    drop(theirs(&path));
    assert_eq!(codes(&path), [""; 0]);
    let ledger = SqliteBudgets::open(&path).unwrap();
    let root = || ledger.get(&id("root")).unwrap().unwrap();
    assert_eq!(root().remaining, usd("0.74"));
    ledger
        .reserve(&id("ours"), &id("root"), usd("0.74"), at(1))
        .unwrap();
    ledger.commit(&id("ours"), "1", usd("0.04"), at(2)).unwrap();
    ledger
        .release(&id("ours"), Status::Completed, at(3))
        .unwrap();
    assert_eq!((root().remaining, root().actual), (usd("0.7"), usd("0.05")));
    let raw = Connection::open(&path).unwrap();
    let shown = "SELECT actual_spend FROM budget_ledger WHERE thread_id = 'root'";
    let shown: f64 = raw.query_row(shown, [], |row| row.get(0)).unwrap();
    assert!((shown - 0.05).abs() < 1e-12);
    assert_eq!(codes(&path), [""; 0]);
}

#[test]
fn rows_that_cannot_be_true_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("budget_ledger.db");
    let raw = theirs(&path);
    for (change, code) in [
        ("actual_spend = 2 WHERE thread_id = 'done'", "overspent"),
        ("reserved_spend = -5 WHERE thread_id = 'runs'", "negative"),
        (
            "reserved_spend = 5 WHERE thread_id = 'runs'",
            "over_reserved",
        ),
        ("max_spend = 'x' WHERE thread_id = 'runs'", "ill_typed"),
        ("status = 'rich' WHERE thread_id = 'runs'", "unknown_status"),
        (
            "parent_thread_id = 'gone' WHERE thread_id = 'runs'",
            "orphan",
        ),
        (
            "parent_thread_id = 'runs' WHERE thread_id = 'root'",
            "cycle",
        ),
        ("thread_id = '../x' WHERE thread_id = 'done'", "path_id"),
    ] {
        raw.execute_batch("SAVEPOINT before").unwrap();
        raw.execute_batch(&format!("UPDATE budget_ledger SET {change}"))
            .unwrap();
        raw.execute_batch("RELEASE before").unwrap();
        assert!(codes(&path).contains(&code), "{change}: {:?}", codes(&path));
        raw.execute_batch("DROP TABLE budget_ledger").unwrap();
        drop(theirs(&path));
    }
    let ledger = SqliteBudgets::open(&path).unwrap();
    raw.execute_batch(
        "UPDATE budget_ledger SET parent_thread_id = 'runs' WHERE thread_id = 'root'",
    )
    .unwrap();
    let circle = ledger
        .commit(&id("root"), "1", usd("0.1"), at(1))
        .unwrap_err();
    assert!(circle.to_string().contains("cycle"), "{circle}");
}

// T-REG-14
#[test]
fn amounts_of_our_own_count_that_are_none_are_named() {
    for (change, code) in [
        (
            "threadseal_budgets SET max_nanos = -1 WHERE thread_id = 'root'",
            "negative",
        ),
        (
            "threadseal_budgets SET reserved_nanos = -5 WHERE thread_id = 'child'",
            "negative",
        ),
        (
            "threadseal_budgets SET actual_nanos = -1 WHERE thread_id = 'root'",
            "negative",
        ),
        (
            "threadseal_budgets SET own_nanos = -1 WHERE thread_id = 'child'",
            "negative",
        ),
        (
            "threadseal_budgets SET own_nanos = -0.5 WHERE thread_id = 'child'",
            "negative",
        ),
        (
            "threadseal_budgets SET actual_nanos = 'much' WHERE thread_id = 'child'",
            "ill_typed",
        ),
        (
            "threadseal_budgets SET max_nanos = x'00' WHERE thread_id = 'root'",
            "ill_typed",
        ),
        (
            "threadseal_budgets SET reserved_nanos = 1.5 WHERE thread_id = 'child'",
            "ill_typed",
        ),
        (
            "threadseal_budgets SET own_nanos = NULL WHERE thread_id = 'child'",
            "ill_typed",
        ),
        (
            "threadseal_budgets SET max_nanos = NULL, reserved_nanos = NULL, actual_nanos = NULL, own_nanos = NULL",
            "ill_typed",
        ),
        (
            "budget_ledger SET reserved_spend = NULL WHERE thread_id = 'child'",
            "ill_typed",
        ),
        (
            "budget_ledger SET actual_spend = x'01' WHERE thread_id = 'child'",
            "ill_typed",
        ),
        // The sum is higher than the total, and lower.
        (
            "threadseal_budgets SET own_nanos = own_nanos + 1 WHERE thread_id = 'root'",
            "sum",
        ),
        (
            "threadseal_budgets SET own_nanos = own_nanos - 1 WHERE thread_id = 'root'",
            "sum",
        ),
        (
            "threadseal_commits SET nanos = nanos + 1 WHERE thread_id = 'child'",
            "sum",
        ),
        (
            "threadseal_commits SET nanos = -1 WHERE thread_id = 'child'",
            "negative",
        ),
        (
            "threadseal_commits SET nanos = 'x' WHERE thread_id = 'child'",
            "ill_typed",
        ),
        (
            "threadseal_commits SET thread_id = 'gone' WHERE thread_id = 'child'",
            "orphan",
        ),
        (
            "threadseal_budgets SET thread_id = 'gone' WHERE thread_id = 'child'",
            "orphan",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("budget_ledger.db");
        let ledger = SqliteBudgets::open(&path).unwrap();
        ledger.register(&id("root"), usd("1"), at(0)).unwrap();
        ledger
            .reserve(&id("child"), &id("root"), usd("0.5"), at(1))
            .unwrap();
        ledger.commit(&id("child"), "1", usd("0.2"), at(2)).unwrap();
        ledger.commit(&id("root"), "1", usd("0.1"), at(3)).unwrap();
        drop(ledger);
        assert_eq!(codes(&path), [""; 0]);
        let raw = Connection::open(&path).unwrap();
        // An attacker who edits a file need not keep its constraints.
        raw.execute_batch(
            "PRAGMA writable_schema = ON;
             UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table';
             PRAGMA writable_schema = RESET;",
        )
        .unwrap();
        raw.execute_batch(&format!("UPDATE {change}")).unwrap();
        drop(raw);
        assert!(codes(&path).contains(&code), "{change}: {:?}", codes(&path));
    }
}

#[test]
fn a_ledger_that_is_only_looked_at_or_not_made_yet_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/budget_ledger.db");
    let late = LateBudgets::new(threadseal_store::sys::RealFs::shared(), path.clone());
    assert_eq!(late.get(&id("root")).unwrap(), None);
    assert!(!folder.path().join("new").exists());
    late.register(&id("root"), usd("1"), at(0)).unwrap();
    let again = LateBudgets::new(threadseal_store::sys::RealFs::shared(), path.clone());
    assert_eq!(
        again.get(&id("root")).unwrap(),
        late.get(&id("root")).unwrap()
    );
    // Reading Rye's own file adds no table of ours to it.
    let other = folder.path().join("theirs.db");
    drop(theirs(&other));
    let bytes = std::fs::read(&other).unwrap();
    let late = LateBudgets::new(threadseal_store::sys::RealFs::shared(), other.clone());
    assert!(late.get(&id("runs")).unwrap().is_some());
    assert_eq!(std::fs::read(&other).unwrap(), bytes);
}

/// The shared vectors: a file, and the code of its fault.
const VECTORS: [(&str, Option<&str>); 11] = [
    (
        "vectors/rye/valid/proj/.ai/agent/threads/budget_ledger.db",
        None,
    ),
    (
        "corpus/rye-real/repo_real/6ba41d22d__.ai__threads__budget_ledger.db",
        None,
    ),
    (
        "corpus/rye-real/repo_real/676f18168__.ai__threads__budget_ledger.db",
        None,
    ),
    (
        "corpus/rye-real/repo_real/1697409f0__.ai__threads__budget_ledger.db",
        None,
    ),
    (
        "corpus/rye-real/repo_real/0212e6d83__.ai__threads__budget_ledger.db",
        None,
    ),
    (
        "corpus/rye-real/repo_real/8c466009c__.ai__threads__budget_ledger.db",
        None,
    ),
    ("vectors/rye/tampered/db/ledger_genuine.db", None),
    (
        "vectors/rye/tampered/db/ledger_overspend.db",
        Some("overspent"),
    ),
    (
        "vectors/rye/tampered/db/ledger_negative.db",
        Some("negative"),
    ),
    ("vectors/rye/tampered/db/ledger_orphan.db", Some("orphan")),
    // Its ceiling is not the signed one: nothing in it alone is wrong.
    ("vectors/rye/tampered/db/ledger_max_raised.db", None),
];

#[test]
fn the_originals_ledgers_are_read_and_their_faults_named() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (name, expected)) in VECTORS.into_iter().enumerate() {
        let Some(path) = shared(name) else {
            continue;
        };
        let found = codes(&path);
        assert_eq!(
            found.is_empty(),
            expected.is_none(),
            "{name}: {:?}",
            inspect(&path)
        );
        assert!(
            expected.is_none_or(|code| found.contains(&code)),
            "{name}: {found:?}"
        );
        let copy = folder.path().join(format!("{number}.db"));
        std::fs::copy(&path, &copy).unwrap();
        SqliteBudgets::open(&copy).unwrap();
        assert_eq!(codes(&copy), found, "{name}");
    }
}

#[test]
fn a_ceiling_above_the_signed_limit_is_named() {
    let (root, limit) = (id("live-root-1"), usd("1"));
    let folder = tempfile::tempdir().unwrap();
    for (name, raised) in [("ledger_genuine", false), ("ledger_max_raised", true)] {
        let Some(path) = shared(&format!("vectors/rye/tampered/db/{name}.db")) else {
            continue;
        };
        let copy = folder.path().join(name);
        std::fs::copy(path, &copy).unwrap();
        let budget = SqliteBudgets::open(&copy)
            .unwrap()
            .get(&root)
            .unwrap()
            .unwrap();
        let code = contradiction(&root, &budget, limit).map(|fault| fault.code);
        assert_eq!(code, raised.then_some("budget_mismatch"), "{budget:?}");
    }
}
