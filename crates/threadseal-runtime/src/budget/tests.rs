//! Budgets in SQLite: conformance, races, Rye's files.

use super::conformance::{at, id, usd};
use super::*;
use crate::testing::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

#[track_caller]
fn codes(path: &Path) -> Vec<&'static str> {
    let inspection = inspect(path).unwrap();
    let mut codes: Vec<_> = inspection.faults.iter().map(|fault| fault.code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// A folder, and the path of a ledger in it.
fn place() -> (TempDir, PathBuf) {
    let folder = folder();
    let path = folder.path().join("budget_ledger.db");
    (folder, path)
}

#[track_caller]
fn sql(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn budgets_in_sqlite_do_what_all_must_do_and_nothing_in_them_is_false() {
    let folder = folder();
    let next = std::cell::Cell::new(0);
    let path = |number: u32| folder.path().join(format!("{number}.db"));
    conformance::all(|| {
        next.set(next.get() + 1);
        SqliteBudgets::open(&path(next.get())).unwrap()
    });
    for number in 2..=next.get() {
        assert_eq!(codes(&path(number)), [""; 0], "{number}");
    }
    assert_eq!(next.get(), 12);
}

#[test]
fn many_who_reserve_and_spend_at_once_never_get_more_than_there_is() {
    let (_folder, path) = place();
    let ledger = SqliteBudgets::open(&path).unwrap();
    let root = id("root");
    ledger.register(&root, usd("1"), at(0)).unwrap();
    let race = |racer: u32| {
        let ledger = SqliteBudgets::open(&path).unwrap();
        let mut won = 0;
        for turn in 0..10 {
            let child = id(&format!("child-{racer}-{turn}"));
            if ledger.reserve(&child, &root, usd("0.07"), at(1)).is_ok() {
                won += 1;
                for _ in 0..2 {
                    ledger.commit(&child, "1", usd("0.03"), at(2)).unwrap();
                }
                if turn % 2 == 0 {
                    ledger.release(&child, Status::Completed, at(3)).unwrap();
                }
            }
        }
        won
    };
    let won: u64 = std::thread::scope(|scope| {
        let racers = [0, 1, 2, 3].map(|racer| scope.spawn(move || race(racer)));
        racers.into_iter().map(|racer| racer.join().unwrap()).sum()
    });
    let root = ledger.get(&root).unwrap().unwrap();
    assert_eq!(root.actual.get(), won * 30_000_000);
    assert!(root.actual <= root.max.unwrap());
    assert!(root.remaining < usd("0.07"), "{root:?}");
    assert_eq!(codes(&path), [""; 0]);
}

/// A ledger as Rye leaves it: a root that runs, a child that ended, a child that runs.
const THEIRS: &str =
    "CREATE TABLE budget_ledger (thread_id TEXT PRIMARY KEY, parent_thread_id TEXT,
       reserved_spend REAL DEFAULT 0.0, actual_spend REAL DEFAULT 0.0, max_spend REAL,
       status TEXT DEFAULT 'active', created_at TEXT, updated_at TEXT);
     INSERT INTO budget_ledger VALUES
       ('root', NULL, 0.0, 0.01, 1.0, 'active', 't', 't'),
       ('done', 'root', 0.01, 0.01, 1.0, 'completed', 't', 't'),
       ('runs', 'root', 0.25, 0.1, 0.25, 'active', 't', 't');";

#[test]
fn the_parent_has_the_seeds_name_too() {
    let (_folder, path) = place();
    sql(&path, THEIRS);
    SqliteBudgets::open(&path).unwrap();
    let later = "INSERT INTO budget_ledger VALUES ('late', 'runs', 0, 0, 1, 'active', 't', 't')";
    sql(&path, later);
    let connection = Connection::open(&path).unwrap();
    let query = "SELECT count(*) FROM budget_ledger WHERE parent_id IS parent_thread_id";
    let same: i64 = connection.query_row(query, [], |row| row.get(0)).unwrap();
    assert_eq!(same, 4);
    let query = "SELECT parent_id FROM budget_ledger WHERE thread_id = 'late'";
    let parent: String = connection.query_row(query, [], |row| row.get(0)).unwrap();
    assert_eq!(parent, "runs");
    assert_eq!(codes(&path), [""; 0]);
}

#[test]
fn the_originals_rows_are_counted_as_the_original_counts_them() {
    let (_folder, path) = place();
    sql(&path, THEIRS);
    assert_eq!(codes(&path), [""; 0]);
    let ledger = SqliteBudgets::open(&path).unwrap();
    let (own, root) = (id("ours"), id("root"));
    let budget = || ledger.get(&root).unwrap().unwrap();
    assert_eq!(budget().remaining, usd("0.74"));
    ledger.reserve(&own, &root, usd("0.74"), at(1)).unwrap();
    ledger.commit(&own, "1", usd("0.04"), at(2)).unwrap();
    ledger.release(&own, Status::Completed, at(3)).unwrap();
    assert_eq!(
        (budget().remaining, budget().actual),
        (usd("0.7"), usd("0.05"))
    );
    let raw = Connection::open(&path).unwrap();
    let shown = "SELECT actual_spend FROM budget_ledger WHERE thread_id = 'root'";
    let shown: f64 = raw.query_row(shown, [], |row| row.get(0)).unwrap();
    assert!((shown - 0.05).abs() < 1e-12);
    assert_eq!(codes(&path), [""; 0]);
}

#[test]
fn rows_that_cannot_be_true_are_named() {
    let (_folder, path) = place();
    for [change, code] in rows(
        r"actual_spend = 2 WHERE thread_id = 'done' => overspent
          reserved_spend = -5 WHERE thread_id = 'runs' => negative
          reserved_spend = 5 WHERE thread_id = 'runs' => over_reserved
          max_spend = 'x' WHERE thread_id = 'runs' => ill_typed
          status = 'rich' WHERE thread_id = 'runs' => unknown_status
          parent_thread_id = 'gone' WHERE thread_id = 'runs' => orphan
          thread_id = '../x' WHERE thread_id = 'done' => path_id
          parent_thread_id = 'runs' WHERE thread_id = 'root' => cycle",
    ) {
        let again = format!("DROP TABLE IF EXISTS budget_ledger; {THEIRS}");
        sql(&path, &format!("{again} UPDATE budget_ledger SET {change}"));
        let found = codes(&path);
        assert!(found.contains(&&*code), "{change}: {found:?}");
    }
    // The circle stays.
    let ledger = SqliteBudgets::open(&path).unwrap();
    ledger
        .commit(&id("root"), "1", usd("0.1"), at(1))
        .fails_with("cycle");
}

// T-REG-14
#[test]
fn amounts_of_our_own_count_that_are_none_are_named() {
    let (folder, path) = place();
    let ledger = SqliteBudgets::open(&path).unwrap();
    let (root, child) = (id("root"), id("child"));
    ledger.register(&root, usd("1"), at(0)).unwrap();
    ledger.reserve(&child, &root, usd("0.5"), at(1)).unwrap();
    ledger.commit(&child, "1", usd("0.2"), at(2)).unwrap();
    ledger.commit(&root, "1", usd("0.1"), at(3)).unwrap();
    drop(ledger);
    assert_eq!(codes(&path), [""; 0]);
    // An attacker who edits a file need not keep its constraints.
    sql(
        &path,
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table';
         PRAGMA writable_schema = RESET; PRAGMA wal_checkpoint(TRUNCATE);",
    );
    // The sum may be higher than the total, and lower.
    for [table, change, of, code] in rows(
        r"threadseal_budgets => max_nanos = -1 => root => negative
          threadseal_budgets => reserved_nanos = -5 => child => negative
          threadseal_budgets => actual_nanos = -1 => root => negative
          threadseal_budgets => own_nanos = -1 => child => negative
          threadseal_budgets => own_nanos = -0.5 => child => negative
          threadseal_budgets => actual_nanos = 'much' => child => ill_typed
          threadseal_budgets => max_nanos = x'00' => root => ill_typed
          threadseal_budgets => reserved_nanos = 1.5 => child => ill_typed
          threadseal_budgets => own_nanos = NULL => child => ill_typed
          threadseal_budgets => max_nanos = NULL, reserved_nanos = NULL, actual_nanos = NULL, own_nanos = NULL => % => ill_typed
          budget_ledger => reserved_spend = NULL => child => ill_typed
          budget_ledger => actual_spend = x'01' => child => ill_typed
          threadseal_budgets => own_nanos = own_nanos + 1 => root => sum
          threadseal_budgets => own_nanos = own_nanos - 1 => root => sum
          threadseal_commits => nanos = nanos + 1 => child => sum
          threadseal_commits => nanos = -1 => child => negative
          threadseal_commits => nanos = 'x' => child => ill_typed
          threadseal_commits => thread_id = 'gone' => child => orphan
          threadseal_budgets => thread_id = 'gone' => child => orphan",
    ) {
        let copy = folder.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        sql(
            &copy,
            &format!("UPDATE {table} SET {change} WHERE thread_id LIKE '{of}'"),
        );
        let found = codes(&copy);
        assert!(found.contains(&&*code), "{table} {change}: {found:?}");
    }
}

#[test]
fn a_ledger_that_is_only_looked_at_or_not_made_yet_stays_as_it_is() {
    let folder = folder();
    let late = |path: &Path| LateBudgets::new(RealFs::shared(), path.to_owned());
    let (path, root) = (folder.path().join("new/budget_ledger.db"), id("root"));
    let first = late(&path);
    assert_eq!(first.get(&root).unwrap(), None);
    assert!(!folder.path().join("new").exists());
    first.register(&root, usd("1"), at(0)).unwrap();
    assert_eq!(late(&path).get(&root).unwrap(), first.get(&root).unwrap());
    // Reading Rye's own file adds no table of ours to it.
    let other = folder.path().join("theirs.db");
    sql(&other, THEIRS);
    let bytes = fs::read(&other).unwrap();
    assert!(late(&other).get(&id("runs")).unwrap().is_some());
    assert_eq!(fs::read(&other).unwrap(), bytes);
}

#[test]
fn the_originals_ledgers_are_read_and_their_faults_named() {
    let folder = folder();
    // A ceiling that is not the signed one: nothing in that ledger alone is wrong.
    for [name, expected] in rows(
        "vectors/rye/valid/proj/.ai/agent/threads/budget_ledger.db =>
         corpus/rye-real/repo_real/6ba41d22d__.ai__threads__budget_ledger.db =>
         corpus/rye-real/repo_real/676f18168__.ai__threads__budget_ledger.db =>
         corpus/rye-real/repo_real/1697409f0__.ai__threads__budget_ledger.db =>
         corpus/rye-real/repo_real/0212e6d83__.ai__threads__budget_ledger.db =>
         corpus/rye-real/repo_real/8c466009c__.ai__threads__budget_ledger.db =>
         vectors/rye/tampered/db/ledger_genuine.db =>
         vectors/rye/tampered/db/ledger_max_raised.db =>
         vectors/rye/tampered/db/ledger_overspend.db => overspent
         vectors/rye/tampered/db/ledger_negative.db => negative
         vectors/rye/tampered/db/ledger_orphan.db => orphan",
    ) {
        let Some(path) = beside_repository(&name) else {
            continue;
        };
        let found = codes(&path);
        let is_expected = match &*expected {
            "" => found.is_empty(),
            code => found.contains(&code),
        };
        assert!(is_expected, "{name}: {:?}", inspect(&path));
        let copy = folder.path().join(name.replace('/', "_"));
        fs::copy(&path, &copy).unwrap();
        SqliteBudgets::open(&copy).unwrap();
        assert_eq!(codes(&copy), found, "{name}");
    }
}

#[test]
fn a_ceiling_above_the_signed_limit_is_named() {
    let (folder, root) = (folder(), id("live-root-1"));
    for (name, raised) in [("ledger_genuine", false), ("ledger_max_raised", true)] {
        let vector = format!("vectors/rye/tampered/db/{name}.db");
        let Some(path) = beside_repository(&vector) else {
            continue;
        };
        let copy = folder.path().join(name);
        fs::copy(path, &copy).unwrap();
        let ledger = SqliteBudgets::open(&copy).unwrap();
        let budget = ledger.get(&root).unwrap().unwrap();
        let code = contradiction(&root, &budget, usd("1")).map(|fault| fault.code);
        assert_eq!(code, raised.then_some("budget_mismatch"), "{budget:?}");
    }
}

#[test]
fn a_file_of_version_1_is_read_as_it_is_and_gets_holds_when_it_is_opened() {
    let (_folder, path) = place();
    let root = id("root");
    let ledger = SqliteBudgets::open(&path).unwrap();
    ledger.register(&root, usd("1"), at(0)).unwrap();
    ledger.commit(&root, "1", usd("0.1"), at(1)).unwrap();
    drop(ledger);
    sql(
        &path,
        "DROP TABLE threadseal_holds; UPDATE threadseal_schema SET version = 1",
    );
    let viewed = SqliteBudgets::view(&path, &root).unwrap().unwrap();
    assert_eq!(viewed.remaining, usd("0.9"));
    assert_eq!(codes(&path), [""; 0]);
    let ledger = SqliteBudgets::open(&path).unwrap();
    let held = ledger.hold(&root, "2", usd("0.1"), usd("0.3"), at(2));
    assert_eq!(held.unwrap(), Some(usd("0.3")));
    let viewed = SqliteBudgets::view(&path, &root).unwrap().unwrap();
    assert_eq!((viewed.remaining, viewed.actual), (usd("0.6"), usd("0.1")));
    assert_eq!(codes(&path), [""; 0]);
    for [change, code] in rows(
        "nanos = 950000000 => over_reserved
         nanos = -1 => negative
         nanos = 'x' => ill_typed
         thread_id = 'gone' => orphan",
    ) {
        sql(&path, &format!("UPDATE threadseal_holds SET {change}"));
        let found = codes(&path);
        assert!(found.contains(&&*code), "{change}: {found:?}");
    }
}

// T-RUN-29
#[test]
fn many_requests_at_once_never_hold_more_than_there_is() {
    let (_folder, path) = place();
    let root = id("root");
    let ledger = SqliteBudgets::open(&path).unwrap();
    ledger.register(&root, usd("1"), at(0)).unwrap();
    std::thread::scope(|scope| {
        for racer in 0..4 {
            let (ledger, root) = (&ledger, &root);
            scope.spawn(move || {
                for turn in 0..20 {
                    let key = format!("{racer}/{turn}");
                    let held = ledger.hold(root, &key, usd("0.01"), usd("0.07"), at(1));
                    if let Some(held) = held.unwrap() {
                        let spent = Nanos::new(held.get() / (1 + turn % 3)).unwrap();
                        ledger.commit(root, &key, spent, at(2)).unwrap();
                    }
                }
            });
        }
    });
    let budget = ledger.get(&root).unwrap().unwrap();
    assert!(budget.actual <= usd("1"), "{budget:?}");
    assert!(budget.remaining < usd("0.01"), "{budget:?}");
    assert_eq!(codes(&path), [""; 0]);
}
