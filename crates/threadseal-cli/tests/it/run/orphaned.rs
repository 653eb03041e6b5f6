//! Threads whose process was killed: they are seen, and end as whole trees.

use crate::hook::wait_until;
use crate::prelude::*;

const CHILD: &str = "- {calls: [{tool: rye_agent_threads_thread_directive, \
     input: {directive_id: demo/child, inputs: {name: Bob}}}]}\n";
const SETTINGS: &str = "p/.ai/config/agent/coordination.yaml";

/// A parent and its child, whose process was killed in the middle of a call of the child.
struct Killed {
    sandbox: Sandbox,
    parent: String,
    child: String,
}

impl Killed {
    fn new() -> Self {
        let sandbox = project();
        let running = running(&sandbox, CHILD, 1);
        // The call of the parent is the first one; wait for that of the child.
        let calls = || {
            let threads = fs::read_dir(sandbox.path("p/.ai/agent/threads/demo")).unwrap();
            let paths = threads.map(|entry| entry.unwrap().path().join("transcript.jsonl"));
            let texts = paths.filter_map(|path| fs::read_to_string(path).ok());
            texts
                .filter(|text| text.contains("tool_call_start"))
                .count()
        };
        wait_until("both are in a call", || calls() == 2);
        drop(running);
        let [parent, child] =
            ["greet", "child"].map(|directive| thread_id(&thread(&sandbox, directive)));
        Self {
            sandbox,
            parent,
            child,
        }
    }

    fn recover(&self, which: &str) -> Ran {
        self.sandbox
            .sh(format!("thread recover {which} --project p --json"))
    }

    fn orphaned(&self) -> Value {
        self.sandbox.json("thread list --project p")["orphaned"].clone()
    }

    fn statuses(&self) -> Vec<String> {
        let listed = self.sandbox.json("thread list --project p");
        let threads = listed["threads"].list().iter();
        threads
            .map(|thread| thread["status"].text().to_owned())
            .collect()
    }
}

// T-RUN-34
#[test]
fn a_killed_tree_is_seen_and_ends_children_first_with_one_question() {
    let killed = Killed::new();
    let (sandbox, parent, child) = (&killed.sandbox, &killed.parent, &killed.child);
    let orphaned = killed.orphaned();
    assert_eq!(orphaned.list().len(), 2, "{orphaned}");
    sandbox
        .ok("thread list --project p")
        .prints("its process is gone")
        .prints("threadseal thread recover --all");
    let status = sandbox.json(format!("thread status {parent} --project p"));
    status.is(json!({"status": "running", "orphaned": true}));

    let ended = killed.recover("--all").exits(0).json();
    let threads = ended["threads"].list();
    threads[0].is(
        json!({"thread_id": child, "parent_id": parent, "status": "error",
                         "unresolved/0/item_id": "demo/count"}),
    );
    threads[1].is(
        json!({"thread_id": parent, "parent_id": null, "status": "error",
                         "unresolved/0/child_thread_id": child}),
    );
    assert_eq!(threads.len(), 2, "{ended}");

    assert_eq!(killed.orphaned(), json!([]));
    assert_eq!(killed.statuses(), ["error", "error"]);
    // The parent seals the end of its child, and everything holds.
    let events = read(transcript(sandbox, "greet"));
    let named = events
        .lines()
        .find(|line| line.contains("child_thread_ended"));
    named.unwrap().has(child).has("\"status\":\"error\"");
    sandbox.ok("verify p");
    sandbox.ok("thread inspect --project p");
    let again = killed.recover("--all").exits(0).json();
    assert_eq!(again["threads"], json!([]));
}

// T-RUN-34
#[test]
fn a_run_ends_orphaned_threads_first_unless_the_settings_keep_it_from_that() {
    let killed = Killed::new();
    let sandbox = &killed.sandbox;
    // Its tool sleeps no more.
    sandbox.sealed(
        "p/.ai/tools/demo/count.yaml",
        "tool_type: command\ncommand: [/bin/true]\n",
    );
    sandbox.write(
        "short.yaml",
        "answers: [{calls: [{tool: directive_return, input: {path: x}}]}]",
    );
    let run = || greet(sandbox, "--script short.yaml").exits(0);
    for (settings, note) in [
        ("{enabled: false}", None),
        ("{scan_on_startup: false}", None),
        (
            "{action: report}",
            Some("hint: threadseal thread recover demo/"),
        ),
    ] {
        sandbox.sealed(SETTINGS, format!("orphan_detection: {settings}\n"));
        let ran = run();
        match note {
            Some(note) => drop(ran.warns(note)),
            None => drop(ran.does_not_warn("is gone")),
        }
        assert_eq!(killed.orphaned().list().len(), 2);
    }
    sandbox.sealed(SETTINGS, "orphan_detection: {action: end}\n");
    run()
        .warns(&format!("the process of {} is gone", killed.parent))
        .warns("with 1 calls of unknown outcome");
    assert_eq!(killed.orphaned(), json!([]));
}

// T-RUN-35
#[test]
fn a_row_that_names_a_dead_process_ends_no_thread_that_lives() {
    let sandbox = project();
    let mut running = running(&sandbox, "", 1);
    let path = sandbox.path("p/.ai/agent/threads/registry.db");
    let rows = rusqlite::Connection::open(path).unwrap();
    let forged = "UPDATE threads SET pid = 999999; \
                  UPDATE threadseal_threads SET process_started = process_started || '1'";
    rows.execute_batch(forged).unwrap();
    let listed = sandbox.json("thread list --project p");
    assert_eq!(listed["orphaned"], json!([]));
    let ended = sandbox.json("thread recover --all --project p");
    assert_eq!(ended["threads"], json!([]));
    assert!(running.process.try_wait().unwrap().is_none());
    sandbox.ok(format!("thread cancel {} --project p", running.thread));
    running.process.wait().unwrap();
    let status = sandbox.json(format!("thread status {} --project p", running.thread));
    status.is(json!({"status": "cancelled", "orphaned": false}));
}

// T-RUN-36
#[test]
fn a_changed_record_gets_no_end_but_its_row_and_its_money_do() {
    let killed = Killed::new();
    let (sandbox, child) = (&killed.sandbox, &killed.child);
    let path = transcript(sandbox, "child");
    let forged = read(&path).replace("\"name\":\"Bob\"", "\"name\":\"Eve\"");
    fs::write(&path, &forged).unwrap();
    let tree = format!("--tree {child}");
    let ended = killed.recover(&tree).exits(1).json();
    let threads = ended["threads"].list();
    threads[0].is(json!({"thread_id": child}));
    threads[0]["error"].text().has("the record is forged");
    threads[1].is(json!({"thread_id": &killed.parent, "status": "error"}));
    assert_eq!(read(&path), forged);
    assert_eq!(killed.statuses(), ["error", "error"]);
    assert_eq!(killed.orphaned(), json!([]));
    // The parent does not vouch for an end that the child's record does not have.
    read(transcript(sandbox, "greet")).lacks("child_thread_ended");
    sandbox.exits(1, "verify p");
    let budgets = sandbox.path("p/.ai/agent/threads/budget_ledger.db");
    let budgets = rusqlite::Connection::open(budgets).unwrap();
    let active = "SELECT count(*) FROM budget_ledger WHERE status = 'active'";
    let active: i64 = budgets.query_row(active, [], |row| row.get(0)).unwrap();
    assert_eq!(active, 0);
}

// T-RUN-34
#[test]
fn one_tree_is_ended_and_another_is_left() {
    let killed = Killed::new();
    let settings = "orphan_detection: {enabled: false}\n";
    killed.sandbox.sealed(SETTINGS, settings);
    let other = running(&killed.sandbox, "", 1);
    let stranger = other.thread.clone();
    drop(other);
    assert_eq!(killed.orphaned().list().len(), 3);
    let ended = killed.recover(&format!("--tree {}", killed.child));
    assert_eq!(ended.exits(0).json()["threads"].list().len(), 2);
    assert_eq!(killed.orphaned(), json!([stranger]));
    killed.recover("").exits(2);
    killed.recover("--all --tree x").exits(2);
}
