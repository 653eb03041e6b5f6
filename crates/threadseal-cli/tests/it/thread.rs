//! `thread …` and `init --project`.

use crate::prelude::*;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;
use threadseal_runtime::registry::{NewThread, Origin, Registry as _, SqliteRegistry};
use threadseal_runtime::status::Status;

const REGISTRY: &str = ".ai/agent/threads/registry.db";

fn id(text: &str) -> ThreadId {
    ThreadId::parse(text).unwrap()
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros((1_700_000_000 + seconds) * 1_000_000).unwrap()
}

/// A project in which `a/a-1` is continued by `a/a-2`, which runs and has a child.
fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("init --project").prints("project: ");
    let registry = SqliteRegistry::open(&sandbox.path(REGISTRY)).unwrap();
    let (first, next, child) = (id("a/a-1"), id("a/a-2"), id("b/b-1"));
    let create = |id: &ThreadId, origin, seconds| {
        let new = NewThread {
            id,
            directive: "a",
            origin,
            model: None,
            record: None,
            process: None,
            most_running: None,
        };
        registry.create(&new, at(seconds)).unwrap();
        registry
            .set_status(id, None, Status::Running, at(seconds))
            .unwrap();
    };
    create(&first, Origin::Root, 0);
    create(&next, Origin::Successor { of: &first }, 1);
    registry.link(&first, &next, at(2)).unwrap();
    let origin = Origin::Child {
        parent: &next,
        max_spawns: None,
    };
    create(&child, origin, 3);
    // Rye leaves such threads with unsealed transcripts.
    for id in [&first, &next, &child] {
        let folder = sandbox.path(".ai/agent/threads").join(id.as_str());
        fs::create_dir_all(folder).unwrap();
    }
    sandbox
}

#[test]
fn threads_are_listed_shown_and_followed_and_nothing_is_changed() {
    let sandbox = project();
    let registry = sandbox.path(REGISTRY);
    let before = fs::read(&registry).unwrap();
    let listed = sandbox.json("thread list");
    let ids: Vec<&str> = listed["threads"].texts("thread_id");
    assert_eq!(ids, ["b/b-1", "a/a-2", "a/a-1"]);
    let active = sandbox.ok("thread list --active").stdout;
    assert_eq!(active.lines().count(), 2, "{active}");
    let children = sandbox.ok("thread list --parent a/a-2");
    assert!(children.stdout.ends_with("b/b-1\n"), "{}", children.stdout);
    let shown = sandbox.json("thread show a/a-2");
    shown.is(json!({"thread/continuation_of": "a/a-1", "children/0": "b/b-1"}));
    sandbox.ok("thread show a/a-2").prints("chain_root_id");
    let status = |arguments: &str| sandbox.ok(arguments).stdout;
    assert_eq!(status("thread status a/a-1"), "running  a/a-2\n");
    let itself = "thread status --itself a/a-1";
    assert_eq!(status(itself), "continued\n");
    let chain = status("thread chain a/a-2");
    chain.has("a/a-1\nrunning");
    sandbox.ok("thread inspect");
    assert_eq!(fs::read(&registry).unwrap(), before);
}

#[test]
fn a_contradictory_registry_is_reported_and_its_chain_has_no_end() {
    let sandbox = project();
    let raw = rusqlite::Connection::open(sandbox.path(REGISTRY)).unwrap();
    raw.execute_batch(
        "UPDATE threads SET continuation_thread_id = 'a/a-1', status = 'continued'
           WHERE thread_id = 'a/a-2';
         INSERT INTO threads (thread_id, directive, status) VALUES ('../x', 'd', 'running')",
    )
    .unwrap();
    drop(raw);
    sandbox
        .exits(1, "thread inspect")
        .prints("cycle")
        .prints("path_id");
    sandbox
        .exits(1, "thread chain a/a-1")
        .prints("leads back to");
    sandbox.sh("thread status a/a-1").fails_with("leads back");
    sandbox.ok("thread list").prints("1 left out");
}

/// Each column asks twice for the one before it, and the pages are checked against the last one.
// T-REG-16
#[test]
fn a_registry_whose_queries_never_end_is_inspected_to_an_end() {
    let sandbox = project();
    let path = sandbox.path(REGISTRY);
    fs::remove_file(&path).unwrap();
    let columns: Vec<String> = (1..=18)
        .map(|at| format!("g{at} INTEGER AS (g{0} + g{0})", at - 1))
        .collect();
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch(&format!(
        "CREATE TABLE threads (thread_id TEXT PRIMARY KEY, directive TEXT, status TEXT,
           g0 INTEGER DEFAULT 0, {}, CHECK (g18 = 0));
         PRAGMA ignore_check_constraints = ON;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300)
           INSERT INTO threads (thread_id, directive, status) SELECT 'a/a-' || i, 'a', 'running' FROM n",
        columns.join(", ")
    ))
    .unwrap();
    drop(raw);
    sandbox.exits(1, "thread inspect").prints("endless");
    let told = sandbox.exits(1, "thread inspect --json").json();
    assert_eq!(told["databases"][0]["faults"][0]["code"], "endless");
}

/// A view in the place of a table, of which no row ever comes.
// T-REG-15
#[test]
fn a_registry_with_a_view_that_never_ends_is_named() {
    let sandbox = project();
    let raw = rusqlite::Connection::open(sandbox.path(REGISTRY)).unwrap();
    raw.execute_batch(
        "PRAGMA legacy_alter_table = ON; ALTER TABLE threads RENAME TO real;
         CREATE VIEW threads AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
           SELECT real.* FROM real, n WHERE i < 0",
    )
    .unwrap();
    drop(raw);
    sandbox
        .exits(1, "thread inspect")
        .prints("foreign_schema")
        .prints("damaged");
    sandbox.exits(2, "thread list");
}

#[test]
fn a_registry_that_is_no_file_is_named() {
    let sandbox = Sandbox::new();
    sandbox.ok("init --project");
    let path = sandbox.path(REGISTRY);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    sandbox.exits(2, "thread list").warns("no regular file");
    sandbox.exits(1, "thread inspect").prints("no regular file");
}

#[test]
fn missing_projects_and_threads_are_reported() {
    let sandbox = Sandbox::new();
    sandbox.sh("thread list").fails_with("init --project");
    sandbox.ok("init --project");
    assert_eq!(sandbox.ok("thread list").stdout, "");
    sandbox.sh("thread show none").fails_with("no thread none");
    sandbox
        .sh("thread show ../x")
        .fails_with("cannot be a path");
    sandbox.exits(2, "thread list --status rich");
}
