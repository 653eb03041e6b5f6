//! The registry in SQLite: conformance, Rye's files, files that others edited.

use super::conformance::{at, id, new};
use super::*;
use crate::testing::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

/// The codes that an inspection of `path` finds.
#[track_caller]
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

/// A folder, and the path of a registry in it.
fn place() -> (TempDir, PathBuf) {
    let folder = folder();
    let path = folder.path().join("registry.db");
    (folder, path)
}

/// A registry with these threads, each the first of its chain.
fn registry(names: &[&str]) -> (TempDir, PathBuf, SqliteRegistry) {
    let (folder, path) = place();
    let registry = SqliteRegistry::open(&path).unwrap();
    for name in names {
        begin(&registry, name).unwrap();
    }
    (folder, path, registry)
}

fn begin(registry: &dyn Registry, name: &str) -> Result<(), Error> {
    registry.create(&new(&id(name), Origin::Root), at(0))
}

#[track_caller]
fn sql(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[test]
fn the_registry_in_sqlite_does_what_every_registry_must_do() {
    let folder = folder();
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
    let (_folder, path) = place();
    sql(
        &path,
        "CREATE TABLE threads (thread_id TEXT PRIMARY KEY, directive TEXT NOT NULL,
           parent_id TEXT, status TEXT DEFAULT 'created', created_at TEXT, updated_at TEXT,
           completed_at TEXT, result TEXT);
         INSERT INTO threads (thread_id, directive, status) VALUES ('old-1', 'old', 'completed')",
    );
    assert_eq!(all(&path).unwrap().threads[0].turns, 0);
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
fn the_cost_is_json_of_the_numbers_that_anyone_wrote() {
    let (_folder, path) = place();
    // A file of a registry that had no such column.
    sql(
        &path,
        "CREATE TABLE threads (thread_id TEXT PRIMARY KEY, directive TEXT NOT NULL,
           parent_id TEXT, status TEXT DEFAULT 'created', created_at TEXT, updated_at TEXT,
           completed_at TEXT, result TEXT)",
    );
    let registry = SqliteRegistry::open(&path).unwrap();
    begin(&registry, "a").unwrap();
    let cost = |turns| {
        let query = "SELECT cost FROM threads WHERE thread_id = 'a'";
        let connection = Connection::open(&path).unwrap();
        let text: String = connection.query_row(query, [], |row| row.get(0)).unwrap();
        let text: Value = serde_json::from_str(&text).unwrap();
        let all = json!({"turns": turns, "input_tokens": 7, "output_tokens": 5, "spend": 0.25, "spawns": 0});
        assert_eq!(text, all);
    };
    let spent = Cost {
        turns: 3,
        input_tokens: 7,
        output_tokens: 5,
        spend: Nanos::parse("0.25").unwrap(),
        ..Cost::default()
    };
    registry.set_cost(&id("a"), &spent, at(1)).unwrap();
    cost(3);
    // Rye writes the numbers alone.
    sql(&path, "UPDATE threads SET turns = 4 WHERE thread_id = 'a'");
    cost(4);
    sql(
        &path,
        "INSERT INTO threads (thread_id, directive) VALUES ('theirs', 'd')",
    );
    assert_eq!(codes(&path), [""; 0]);
}

#[test]
fn rows_that_the_original_wrote_are_found_faulty_where_they_are() {
    let (_folder, path, registry) = registry(&["a", "b", "c"]);
    let set = |thread: &str, change: &str| {
        let sql_text = format!("UPDATE threads SET {change} WHERE thread_id = '{thread}'");
        sql(&path, &sql_text);
    };
    let fault = |thread: &str| registry.chain(&id(thread)).unwrap().fault;
    set("a", "continuation_thread_id = 'b', status = 'continued'");
    assert_eq!(codes(&path), ["one_sided"]);
    set("b", "continuation_of = 'a'");
    set("c", "continuation_of = 'a'");
    assert_eq!(codes(&path), ["fork"]);
    assert_eq!(fault("c"), Some(ChainFault::Forked(id("c"))));
    set("b", "continuation_thread_id = 'a', status = 'continued'");
    assert_eq!(codes(&path), ["cycle", "fork", "one_sided"]);
    let refused = registry.resolve(&id("a")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    set("b", "continuation_thread_id = '../x'");
    assert_eq!(fault("a"), Some(ChainFault::NoId("../x".to_owned())));
    set("c", "turns = -1, spend = 'x', status = 'released'");
    for code in ["ill_typed", "unknown_status"] {
        assert!(codes(&path).contains(&code), "{code}");
    }
    let thread = registry.get(&id("c")).unwrap().unwrap();
    assert_eq!((thread.turns, thread.spend), (0, Nanos::ZERO));
    assert_eq!(thread.standing().unwrap_err().kind(), ErrorKind::Refused);
    sql(
        &path,
        "INSERT INTO threads (thread_id, directive) VALUES ('../../etc/x', 'd')",
    );
    let listing = registry.list(&Filter::default()).unwrap();
    assert_eq!((listing.threads.len(), listing.unusable), (3, 1));
    set("a", "parent_id = thread_id");
    assert!(codes(&path).contains(&"cycle"));
}

#[test]
fn money_that_another_program_changed_is_found() {
    let (_folder, path, registry) = registry(&["a"]);
    let cost = Cost {
        spend: Nanos::parse("0.1").unwrap(),
        ..Cost::default()
    };
    registry.set_cost(&id("a"), &cost, at(1)).unwrap();
    assert_eq!(codes(&path), [""; 0]);
    sql(&path, "UPDATE threads SET spend = 0.2");
    assert_eq!(codes(&path), ["ill_typed"]);
}

#[test]
fn files_that_are_no_registry_are_refused_and_stay_as_they_are() {
    let (folder, path) = place();
    let text = "no database, though long enough to have a header of one";
    fs::write(&path, text).unwrap();
    assert_eq!(codes(&path), ["damaged"]);
    assert!(SqliteRegistry::open(&path).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let later = folder.path().join("later.db");
    drop(SqliteRegistry::open(&later).unwrap());
    sql(&later, "UPDATE threadseal_schema SET version = 2");
    let refused = SqliteRegistry::open(&later).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused);
    assert!(inspect(&folder.path().join("none.db")).is_err());
}

#[test]
fn of_many_who_end_a_thread_one_does() {
    let (_folder, path, registry) = registry(&["a"]);
    registry
        .set_status(&id("a"), None, Status::Running, at(1))
        .unwrap();
    let end = |status| {
        let registry = SqliteRegistry::open(&path).unwrap();
        registry
            .set_status(&id("a"), Some(Status::Running), status, at(2))
            .is_ok()
    };
    let ends = [
        Status::Completed,
        Status::Error,
        Status::Cancelled,
        Status::Killed,
    ];
    let won = std::thread::scope(|scope| {
        let racers = ends.map(|status| scope.spawn(move || end(status)));
        racers.map(|racer| racer.join().unwrap())
    });
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
}

/// The shared vectors, each with the code of its fault. A status that signed metadata contradicts is
/// none: nothing in that registry alone is wrong.
const VECTORS: &str = "
    vectors/rye/valid/proj/.ai/agent/threads/registry.db =>
    corpus/rye-real/repo_real/6ba41d22d__.ai__threads__registry.db =>
    corpus/rye-real/repo_real/676f18168__.ai__threads__registry.db =>
    corpus/rye-real/repo_real/1697409f0__.ai__threads__registry.db =>
    corpus/rye-real/repo_real/0212e6d83__.ai__threads__registry.db =>
    corpus/rye-real/repo_real/8a9ca4998__.ai__threads__registry.db =>
    corpus/rye-real/repo_real/8c466009c__.ai__threads__registry.db =>
    vectors/rye/tampered/db/registry_genuine.db =>
    vectors/rye/tampered/db/registry_cycle.db => cycle
    vectors/rye/tampered/db/registry_self_loop.db => cycle
    vectors/rye/tampered/db/registry_dangling.db => dangling
    vectors/rye/tampered/db/registry_fork.db => fork
    vectors/rye/tampered/db/registry_status_flip.db =>
    vectors/rye/tampered/db/registry_path_id.db => path_id
    vectors/rye/tampered/db/registry_corrupt.db => damaged";

#[test]
fn the_originals_registries_are_read_and_their_faults_and_chains_found() {
    let folder = folder();
    for [name, expected] in rows(VECTORS) {
        let Some(path) = beside_repository(&name) else {
            continue;
        };
        let found = codes(&path);
        let is_expected = match &*expected {
            "" => found.is_empty(),
            code => found.contains(&code),
        };
        assert!(is_expected, "{name}: {:?}", inspect(&path));
        if expected == "damaged" {
            assert_eq!(all(&path).unwrap_err().kind(), ErrorKind::Refused);
            continue;
        }
        // Every thread is listed, and its chain followed.
        let copy = folder.path().join(name.replace('/', "_"));
        fs::copy(&path, &copy).unwrap();
        let viewed = all(&copy).unwrap();
        let registry = SqliteRegistry::open(&copy).unwrap();
        assert_eq!(registry.list(&Filter::default()).unwrap(), viewed);
        let rows = viewed.threads.len() as u64 + viewed.unusable;
        assert_eq!(inspect(&copy).unwrap().rows, rows, "{name}");
        for thread in &viewed.threads {
            let fault = registry.chain(&thread.id).unwrap().fault;
            let tampered = ["cycle", "dangling", "fork"].contains(&&*expected);
            assert!(fault.is_none() || tampered, "{name}: {fault:?}");
        }
    }
}

#[test]
fn a_status_that_signed_metadata_contradicts_is_named() {
    let root = id("live-root-1");
    for (name, expected) in [("genuine", None), ("status_flip", Some("status_mismatch"))] {
        let vector = format!("vectors/rye/tampered/db/registry_{name}.db");
        let Some(path) = beside_repository(&vector) else {
            continue;
        };
        let row = SqliteRegistry::view(&path, |view| view.get(&root)).unwrap();
        let faults = contradictions(&row.unwrap(), Status::Running, "test/live", None);
        let codes: Vec<&str> = faults.iter().map(|fault| fault.code).collect();
        assert_eq!(codes, Vec::from_iter(expected), "{name}");
    }
}

#[test]
fn a_registry_ahead_of_signed_metadata_does_not_contradict_it() {
    let (_folder, _path, registry) = registry(&["a"]);
    let mut row = registry.get(&id("a")).unwrap().unwrap();
    for (registered, signed, directive, faults) in [
        (Ok(Status::Created), Status::Running, "test/task", 0),
        (Ok(Status::Suspended), Status::Running, "test/task", 0),
        (Ok(Status::Continued), Status::Completed, "test/task", 0),
        (Ok(Status::Running), Status::Completed, "test/task", 1),
        (Ok(Status::Error), Status::Completed, "test/task", 1),
        (
            Err("released".to_owned()),
            Status::Completed,
            "test/task",
            1,
        ),
        (Err("released".to_owned()), Status::Completed, "other", 2),
    ] {
        row.status = registered;
        let found = contradictions(&row, signed, directive, None);
        assert_eq!(found.len(), faults, "{row:?}");
    }
}

// T-REG-07
#[test]
fn a_registry_that_nobody_came_to_make_has_no_threads_and_is_completed_by_the_next() {
    let (folder, path) = place();
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
    fs::write(&path, b"").unwrap();
    nothing("empty");
    SqliteRegistry::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
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
    fs::write(&journal, header).unwrap();
    nothing("a hot journal");
    SqliteRegistry::open(&path).unwrap();
    assert!(!journal.exists());
}

// T-REG-07
#[test]
fn what_a_dead_process_left_of_its_shared_memory_keeps_nobody_waiting() {
    let (folder, path, registry) = registry(&["a"]);
    // The disk when the process dies: the log has content that the file lacks, the memory contains
    // anything.
    for (memory, left) in [
        (vec![0; 32 << 10], 1),
        (b"x".repeat(32 << 10), 1),
        (vec![0; 100], 0),
    ] {
        let (copy, copied) = place();
        fs::copy(&path, &copied).unwrap();
        let log = fs::read(folder.path().join("registry.db-wal")).unwrap();
        // Without a whole transaction there is nothing.
        let log = &log[..if left == 0 { 4000 } else { log.len() }];
        fs::write(copy.path().join("registry.db-wal"), log).unwrap();
        let shared = copy.path().join("registry.db-shm");
        fs::write(&shared, memory).unwrap();
        assert_eq!(all(&copied).unwrap().threads.len(), left);
        // SQLite waits ten seconds for the writer that left it, and gives up then.
        assert!(shared.exists());
    }
    // A reader waits for a process that has it open, and sees its writes.
    assert_eq!(all(&path).unwrap().threads.len(), 1);
    begin(&registry, "b").unwrap();
    assert_eq!(all(&path).unwrap().threads.len(), 2);
}

// T-FIL-15
#[test]
fn no_registry_and_no_budget_is_written_through_a_link() {
    let ((_folder, path), outside) = (place(), folder());
    let away = outside.path().join("away.db");
    for there in [false, true] {
        if there {
            fs::write(&away, b"").unwrap();
        }
        let _ = fs::remove_file(&path);
        symlink(&away, &path).unwrap();
        let late = LateRegistry::new(RealFs::shared(), path.clone());
        begin(&late, "a").fails_with("remove the link");
        assert!(SqliteRegistry::open(&path).is_err());
        assert!(crate::budget::SqliteBudgets::open(&path).is_err());
        assert_eq!(away.exists(), there);
        assert_eq!(fs::read(&away).unwrap_or_default(), b"");
    }
    fs::remove_file(&path).unwrap();
    // The small file beside it is not made elsewhere, either.
    let turn = outside.path().join("turn");
    symlink(&turn, path.with_file_name("registry.db-turn")).unwrap();
    begin(&SqliteRegistry::open(&path).unwrap(), "a").unwrap();
    assert!(!turn.exists());
}
