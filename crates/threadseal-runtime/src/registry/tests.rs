//! The registry in SQLite: conformance, Rye's files, files that others edited.

use super::conformance::{at, id, new};
use super::*;
use crate::limit::Cost;
use crate::money::Nanos;
use crate::shared::shared;
use crate::status::Status;
use rusqlite::Connection;
use std::path::Path;
use threadseal_core::error::Error;
use threadseal_core::error::ErrorKind;

/// The codes that an inspection of `path` finds.
fn codes(path: &Path) -> Vec<&'static str> {
    let inspection = inspect(path).unwrap();
    let mut codes: Vec<_> = inspection.faults.iter().map(|fault| fault.code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

fn all(path: &Path) -> Result<Listing, Error> {
    SqliteRegistry::view(path, |view| view.list(&Filter::default()))
}

#[test]
fn the_registry_in_sqlite_does_what_every_registry_must_do() {
    let folder = tempfile::tempdir().unwrap();
    let next = std::cell::Cell::new(0);
    conformance::all(|| {
        next.set(next.get() + 1);
        let path = folder.path().join(format!("{}.db", next.get()));
        SqliteRegistry::open(&path).unwrap()
    });
    assert_eq!(codes(&folder.path().join("5.db")), [""; 0]);
}

#[test]
fn an_early_registry_of_eight_columns_is_completed_as_the_original_completes_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let early = Connection::open(&path).unwrap();
    early
        .execute_batch(
            "CREATE TABLE threads (thread_id TEXT PRIMARY KEY, directive TEXT NOT NULL,
               parent_id TEXT, status TEXT DEFAULT 'created', created_at TEXT, updated_at TEXT,
               completed_at TEXT, result TEXT);
             INSERT INTO threads (thread_id, directive, status) VALUES ('old-1', 'old', 'completed')",
        )
        .unwrap();
    drop(early);
    let viewed = all(&path).unwrap();
    assert_eq!(viewed.threads[0].turns, 0);
    assert_eq!(codes(&path), [""; 0]);
    let registry = SqliteRegistry::open(&path).unwrap();
    let (old, next) = (id("old-1"), id("old-2"));
    let successor = Origin::Successor { of: &old };
    registry.create(&new(&next, successor), at(0)).unwrap();
    registry.link(&old, &next, at(1)).unwrap();
    assert_eq!(registry.resolve(&old).unwrap().id, next);
    // A second opening finds all that it needs.
    SqliteRegistry::open(&path).unwrap();
}

#[test]
fn rows_that_the_original_wrote_are_found_faulty_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let registry = SqliteRegistry::open(&path).unwrap();
    for name in ["a", "b", "c"] {
        registry
            .create(&new(&id(name), Origin::Root), at(0))
            .unwrap();
    }
    let raw = Connection::open(&path).unwrap();
    let change = |sql: &str| raw.execute_batch(sql).unwrap();
    change(
        "UPDATE threads SET continuation_thread_id = 'b', status = 'continued' WHERE thread_id = 'a'",
    );
    assert_eq!(codes(&path), ["one_sided"]);
    change("UPDATE threads SET continuation_of = 'a' WHERE thread_id IN ('b', 'c')");
    assert_eq!(codes(&path), ["fork"]);
    let chain = registry.chain(&id("c")).unwrap();
    assert_eq!(chain.fault, Some(ChainFault::Forked(id("c"))));
    change(
        "UPDATE threads SET continuation_thread_id = 'a', status = 'continued' WHERE thread_id = 'b'",
    );
    assert_eq!(codes(&path), ["cycle", "fork", "one_sided"]);
    let refused = registry.resolve(&id("a")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    change("UPDATE threads SET continuation_thread_id = '../x' WHERE thread_id = 'b'");
    let chain = registry.chain(&id("a")).unwrap();
    assert_eq!(chain.fault, Some(ChainFault::NoId("../x".to_owned())));
    change("UPDATE threads SET turns = -1, spend = 'x', status = 'released' WHERE thread_id = 'c'");
    assert!(codes(&path).contains(&"ill_typed"));
    assert!(codes(&path).contains(&"unknown_status"));
    let thread = registry.get(&id("c")).unwrap().unwrap();
    assert_eq!((thread.turns, thread.spend), (0, Nanos::ZERO));
    assert_eq!(thread.standing().unwrap_err().kind(), ErrorKind::Refused);
    change("INSERT INTO threads (thread_id, directive) VALUES ('../../etc/x', 'd')");
    let listing = registry.list(&Filter::default()).unwrap();
    assert_eq!((listing.threads.len(), listing.unusable), (3, 1));
    change("UPDATE threads SET parent_id = thread_id WHERE thread_id = 'a'");
    assert!(codes(&path).contains(&"cycle"));
}

#[test]
fn money_that_another_program_changed_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let registry = SqliteRegistry::open(&path).unwrap();
    registry
        .create(&new(&id("a"), Origin::Root), at(0))
        .unwrap();
    let cost = Cost {
        spend: Nanos::parse("0.1").unwrap(),
        ..Cost::default()
    };
    registry.set_cost(&id("a"), &cost, at(1)).unwrap();
    assert_eq!(codes(&path), [""; 0]);
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch("UPDATE threads SET spend = 0.2").unwrap();
    assert_eq!(codes(&path), ["ill_typed"]);
}

#[test]
fn files_that_are_no_registry_are_refused_and_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    std::fs::write(
        &path,
        "no database, though long enough to have a header of one",
    )
    .unwrap();
    assert_eq!(codes(&path), ["damaged"]);
    assert!(SqliteRegistry::open(&path).is_err());
    let later = folder.path().join("later.db");
    drop(SqliteRegistry::open(&later).unwrap());
    let raw = Connection::open(&later).unwrap();
    raw.execute_batch("UPDATE threadseal_schema SET version = 2")
        .unwrap();
    let refused = SqliteRegistry::open(&later).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(inspect(&folder.path().join("none.db")).is_err());
}

#[test]
fn of_many_who_end_a_thread_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let registry = SqliteRegistry::open(&path).unwrap();
    registry
        .create(&new(&id("a"), Origin::Root), at(0))
        .unwrap();
    registry
        .set_status(&id("a"), None, Status::Running, at(1))
        .unwrap();
    let ends = [
        Status::Completed,
        Status::Error,
        Status::Cancelled,
        Status::Killed,
    ];
    let won: Vec<bool> = std::thread::scope(|scope| {
        let racers = ends.map(|end| {
            let path = &path;
            scope.spawn(move || {
                let registry = SqliteRegistry::open(path).unwrap();
                registry
                    .set_status(&id("a"), Some(Status::Running), end, at(2))
                    .is_ok()
            })
        });
        racers
            .into_iter()
            .map(|racer| racer.join().unwrap())
            .collect()
    });
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
}

/// The shared vectors: a file, and the codes of its faults.
const VECTORS: [(&str, &[&str]); 15] = [
    ("vectors/rye/valid/proj/.ai/agent/threads/registry.db", &[]),
    (
        "corpus/rye-real/repo_real/6ba41d22d__.ai__threads__registry.db",
        &[],
    ),
    (
        "corpus/rye-real/repo_real/676f18168__.ai__threads__registry.db",
        &[],
    ),
    (
        "corpus/rye-real/repo_real/1697409f0__.ai__threads__registry.db",
        &[],
    ),
    (
        "corpus/rye-real/repo_real/0212e6d83__.ai__threads__registry.db",
        &[],
    ),
    (
        "corpus/rye-real/repo_real/8a9ca4998__.ai__threads__registry.db",
        &[],
    ),
    (
        "corpus/rye-real/repo_real/8c466009c__.ai__threads__registry.db",
        &[],
    ),
    ("vectors/rye/tampered/db/registry_genuine.db", &[]),
    ("vectors/rye/tampered/db/registry_cycle.db", &["cycle"]),
    ("vectors/rye/tampered/db/registry_self_loop.db", &["cycle"]),
    (
        "vectors/rye/tampered/db/registry_dangling.db",
        &["dangling"],
    ),
    ("vectors/rye/tampered/db/registry_fork.db", &["fork"]),
    // Its status is `completed`, but the signed metadata has `running`: nothing in it alone is
    // wrong.
    ("vectors/rye/tampered/db/registry_status_flip.db", &[]),
    ("vectors/rye/tampered/db/registry_path_id.db", &["path_id"]),
    ("vectors/rye/tampered/db/registry_corrupt.db", &["damaged"]),
];

#[test]
fn the_originals_registries_are_read_and_their_faults_named() {
    for (name, expected) in VECTORS {
        let Some(path) = shared(name) else {
            continue;
        };
        let found = codes(&path);
        for code in expected {
            assert!(found.contains(code), "{name}: {found:?}");
        }
        assert_eq!(
            found.is_empty(),
            expected.is_empty(),
            "{name}: {:?}",
            inspect(&path)
        );
    }
}

#[test]
fn every_thread_of_the_originals_registries_is_listed_and_its_chain_followed() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (name, _)) in VECTORS.iter().enumerate() {
        let Some(path) = shared(name) else {
            continue;
        };
        if name.ends_with("corrupt.db") {
            let damaged = all(&path);
            assert_eq!(damaged.unwrap_err().kind(), ErrorKind::Refused);
            continue;
        }
        let copy = folder.path().join(format!("{number}.db"));
        std::fs::copy(&path, &copy).unwrap();
        let viewed = all(&copy).unwrap();
        let registry = SqliteRegistry::open(&copy).unwrap();
        assert_eq!(registry.list(&Filter::default()).unwrap(), viewed);
        assert_eq!(
            inspect(&copy).unwrap().rows,
            viewed.threads.len() as u64 + viewed.unusable
        );
        for thread in &viewed.threads {
            let chain = registry.chain(&thread.id).unwrap();
            let tampered = ["cycle", "loop", "dangling", "fork"]
                .iter()
                .any(|word| name.contains(word));
            assert!(
                chain.fault.is_none() || tampered,
                "{name}: {:?}",
                chain.fault
            );
        }
    }
}

/// Contradictions between a shared registry and the signed metadata of `live-root-1`, which runs.
fn contradicted(registry: &str) -> Option<Vec<&'static str>> {
    let root = id("live-root-1");
    let path = shared(registry)?;
    let row = SqliteRegistry::view(&path, |view| view.get(&root))
        .unwrap()
        .unwrap();
    let faults = contradictions(&row, Status::Running, "test/live", None);
    Some(faults.iter().map(|fault| fault.code).collect())
}

#[test]
fn a_status_that_signed_metadata_contradicts_is_named() {
    let genuine = contradicted("vectors/rye/tampered/db/registry_genuine.db");
    assert!(genuine.is_none_or(|codes| codes.is_empty()));
    let flipped = contradicted("vectors/rye/tampered/db/registry_status_flip.db");
    assert!(flipped.is_none_or(|codes| codes == ["status_mismatch"]));
}

#[test]
fn a_registry_ahead_of_signed_metadata_does_not_contradict_it() {
    let folder = tempfile::tempdir().unwrap();
    let registry = SqliteRegistry::open(&folder.path().join("r.db")).unwrap();
    registry
        .create(&new(&id("a"), Origin::Root), at(0))
        .unwrap();
    let mut row = registry.get(&id("a")).unwrap().unwrap();
    let named = |row: &Thread, signed| contradictions(row, signed, "test/task", None).len();
    for (registered, signed, faults) in [
        (Ok(Status::Created), Status::Running, 0),
        (Ok(Status::Suspended), Status::Running, 0),
        (Ok(Status::Continued), Status::Completed, 0),
        (Ok(Status::Running), Status::Completed, 1),
        (Ok(Status::Error), Status::Completed, 1),
        (Err("released".to_owned()), Status::Completed, 1),
    ] {
        row.status = registered;
        assert_eq!(named(&row, signed), faults, "{row:?}");
    }
    assert_eq!(
        contradictions(&row, Status::Completed, "other", None).len(),
        2
    );
}

// T-REG-07
#[test]
fn a_registry_that_nobody_came_to_make_has_no_threads_and_is_completed_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let nothing = |what: &str| {
        let found = all(&path).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(found, Listing::default(), "{what}");
        assert_eq!(codes(&path), [""; 0], "{what}");
        let viewed = ViewedRegistry::new(path.clone());
        assert_eq!(viewed.get(&id("a")).unwrap(), None, "{what}");
    };
    let viewed = ViewedRegistry::new(path.clone());
    assert_eq!(viewed.list(&Filter::default()).unwrap(), Listing::default());
    // The file was made, and nothing more.
    std::fs::write(&path, b"").unwrap();
    nothing("empty");
    SqliteRegistry::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // Its header announces a write-ahead log; there is no table yet.
    let made = Connection::open(&path).unwrap();
    made.pragma_update(None, "journal_mode", "WAL").unwrap();
    drop(made);
    nothing("no table");
    // The first page was written, and the journal that takes it back is there.
    let journal = folder.path().join("registry.db-journal");
    let mut header = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    header.extend([0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 16, 0]);
    header.resize(512, 0);
    std::fs::write(&journal, header).unwrap();
    nothing("a hot journal");
    SqliteRegistry::open(&path).unwrap();
    assert!(!journal.exists());
}

// T-REG-07
#[test]
fn what_a_dead_process_left_of_its_shared_memory_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("registry.db");
    let registry = SqliteRegistry::open(&path).unwrap();
    registry
        .create(&new(&id("a"), Origin::Root), at(0))
        .unwrap();
    // The disk when the process dies: the log has content that the file lacks, the memory contains
    // anything.
    for (memory, left) in [
        (vec![0; 32 << 10], 1),
        (b"x".repeat(32 << 10), 1),
        (vec![0; 100], 0),
    ] {
        let copy = tempfile::tempdir().unwrap();
        let copied = copy.path().join("registry.db");
        std::fs::copy(&path, &copied).unwrap();
        let log = std::fs::read(folder.path().join("registry.db-wal")).unwrap();
        // Without a whole transaction there is nothing.
        let log = &log[..if left == 0 { 4000 } else { log.len() }];
        std::fs::write(copy.path().join("registry.db-wal"), log).unwrap();
        std::fs::write(copy.path().join("registry.db-shm"), memory).unwrap();
        assert_eq!(all(&copied).unwrap().threads.len(), left);
        // SQLite waits ten seconds for the writer that left it, and gives up then.
        assert!(copy.path().join("registry.db-shm").exists());
    }
    // A reader waits for a process that has it open, and sees its writes.
    assert_eq!(all(&path).unwrap().threads.len(), 1);
    registry
        .create(&new(&id("b"), Origin::Root), at(1))
        .unwrap();
    assert_eq!(all(&path).unwrap().threads.len(), 2);
}

// T-FIL-15
#[test]
fn no_registry_and_no_budget_is_written_through_a_link() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let away = outside.path().join("away.db");
    let path = folder.path().join("registry.db");
    for there in [false, true] {
        if there {
            std::fs::write(&away, b"").unwrap();
        }
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink(&away, &path).unwrap();
        let late = LateRegistry::new(threadseal_store::sys::RealFs::shared(), path.clone());
        let refused = late
            .create(&new(&id("a"), Origin::Root), at(0))
            .unwrap_err();
        assert!(refused.to_string().contains("remove the link"), "{refused}");
        assert!(SqliteRegistry::open(&path).is_err());
        assert!(crate::budget::SqliteBudgets::open(&path).is_err());
        assert_eq!(away.exists(), there);
        assert_eq!(std::fs::read(&away).unwrap_or_default(), b"");
    }
    std::fs::remove_file(&path).unwrap();
    // The small file beside it is not made elsewhere, either.
    let turn = outside.path().join("turn");
    std::os::unix::fs::symlink(&turn, folder.path().join("registry.db-turn")).unwrap();
    let registry = SqliteRegistry::open(&path).unwrap();
    registry
        .create(&new(&id("a"), Origin::Root), at(0))
        .unwrap();
    assert!(!turn.exists());
}
