//! Threads of a database without a worker, and what a person or a program asks of the others.

use super::*;
use threadseal_store::clock::{Clock as _, SystemClock};

impl Ended {
    /// The leases of all orders end.
    fn expire(&self) {
        self.sql("UPDATE threadseal_orders SET expires_at = now() - interval '1 hour' WHERE state = 'taken'");
    }

    fn exec(&self, operation: &Value) -> Ran {
        self.run(["thread", "exec", &operation.to_string()])
    }

    fn status_of(&self, thread: &str) -> String {
        self.sql(&format!(
            "SELECT status FROM threadseal_threads WHERE thread_id = '{thread}'"
        ))
    }
}

// T-FLT-33
#[test]
fn threads_of_a_database_without_a_worker_are_ended_and_no_others() {
    let Some(ended) = Ended::new() else { return };
    ended.slow(60);
    let recover = "thread recover --all --json";
    let none = ended.ok(recover).json();
    none.is(json!({"schema": "threadseal.thread.recover_all/1", "threads": []}));
    // A worker that holds its order keeps it.
    ended.ok("run demo/slow --detach");
    let mut worker = ended.worker("--script nap.yaml");
    while ended.naps() < 1 {
        std::thread::sleep(Duration::from_millis(20));
    }
    ended.ok(recover).json().is(json!({"threads": []}));
    worker.kill().unwrap();
    worker.wait().unwrap();
    ended.expire();
    let thread = ended.root().unwrap();
    // A record that was changed gets no end; its row does.
    ended.edit("tool.demo.nap", "tool.demo.nax");
    let refused = ended.exits(1, recover).json();
    refused.is(json!({"threads/0/thread_id": thread.as_str(), "threads/0/status": null}));
    assert_eq!(ended.status_of(&thread), "error\n");
    ended.edit("tool.demo.nax", "tool.demo.nap");
    ended.sql("UPDATE threadseal_threads SET status = 'running' WHERE status = 'error'");
    // Its order is done: no worker continues it, and each one ends it when it begins.
    let mut command = ended.sandbox.command();
    command
        .args(["status", "--json"])
        .env("HOME", ended.sandbox.path("user"))
        .env("THREADSEAL_DATABASE", &ended.url);
    let told = Ran::of(command.output().unwrap()).json();
    let problems = told["problems"].list().iter();
    let of_threads: Vec<&str> = problems
        .filter(|problem| problem["of"] == "threads")
        .map(|problem| problem["message"].text())
        .collect();
    assert_eq!(
        of_threads,
        [
            "marked as running: 1 thread in the database that no worker continues; hint: threadseal thread recover --all --database URL"
        ]
    );
    let worker = ended.sh("worker --until-idle");
    worker
        .exits(0)
        .warns(&format!("{thread} had no worker: error"));
    assert_eq!(ended.status_of(&thread), "error\n");
    ended.verify("").exits(0);
    // By hand, with the call whose outcome is unknown.
    ended.ok("run demo/slow --detach");
    ended.lose_worker(2);
    ended.expire();
    let thread = ended.root().unwrap();
    let healed = ended.ok(recover).json();
    let call = format!("{thread}/1/n1#1");
    healed.is(
        json!({"threads/0/thread_id": thread.as_str(), "threads/0/status": "error",
                     "threads/0/unresolved/0/idempotency_key": call}),
    );
    ended.ok(recover).json().is(json!({"threads": []}));
    let open = "SELECT count(*) FROM threadseal_orders WHERE state <> 'done'";
    assert_eq!(ended.sql(open), "0\n");
    ended.verify("").exits(0);
    ended.ok("thread inspect");
}

#[test]
fn operations_on_threads_of_a_database_run_as_json() {
    let Some(ended) = Ended::new() else { return };
    let thread = ended.thread.as_str();
    let looked = |operation: Value| ended.exec(&operation).exits(0).json();
    looked(json!({"operation": "get_status", "thread_id": thread}))
        .is(json!({"schema": "threadseal.thread.exec/1", "status": "completed", "verified": true}));
    looked(json!({"operation": "get_chain", "thread_id": thread})).is(json!({"chain_length": 1}));
    let run = json!({"operation": "run", "directive_id": "demo/greet", "inputs": {"name": "Eve"}});
    let mut spawn = run.clone();
    spawn["operation"] = "spawn".into();
    looked(spawn).is(json!({"status": "queued", "order": 2}));
    ended.work("answers.yaml");
    let mut worker = ended.worker("--script answers.yaml");
    let ran = looked(run);
    ran.is(json!({"success": true, "status": "completed", "outputs/path": "out.txt"}));
    worker.kill().unwrap();
    worker.wait().unwrap();
    let mut worker = ended.worker("--script more.yaml");
    let resumed =
        looked(json!({"operation": "resume_thread", "thread_id": thread, "message": "Once more."}));
    resumed.is(
        json!({"resumed": true, "old_thread_id": thread, "new_thread_result/result": "Gladly."}),
    );
    worker.kill().unwrap();
    worker.wait().unwrap();
    let waited = looked(json!({"operation": "wait_threads", "thread_ids": [thread]}));
    assert_eq!(waited["results"][thread]["result"], "Gladly.", "{waited}");
    // What runs is cancelled and killed.
    ended.slow(60);
    for (word, naps, status) in [
        ("cancel_thread", 1, "cancelled"),
        ("kill_thread", 2, "killed"),
    ] {
        ended.ok("run demo/slow --detach");
        let mut worker = ended.worker("--script nap.yaml --until-idle");
        while ended.naps() < naps {
            std::thread::sleep(Duration::from_millis(20));
        }
        let slow = ended.root().unwrap();
        looked(json!({"operation": word, "thread_id": slow}))
            .is(json!({"thread_id": slow.as_str()}));
        // Its tool would sleep for a minute: a notice ends it at once.
        let began = SystemClock.elapsed();
        worker.wait().unwrap();
        assert!(
            SystemClock.elapsed() - began < Duration::from_secs(20),
            "{word}"
        );
        assert_eq!(ended.status_of(&slow), format!("{status}\n"));
    }
    let again = json!({"operation": "cancel_thread", "thread_id": thread});
    ended.exec(&again).fails();
    let with_model = ended.run(["thread", "exec", "{}", "--script", "more.yaml"]);
    with_model.fails();
    ended.verify("").exits(0);
}

// T-FLT-34
#[test]
fn a_run_of_a_database_that_waits_for_a_person_is_cancelled() {
    let Some(ended) = Ended::new() else { return };
    let graph = "tool_type: graph\npermissions: [rye.execute.tool.*]\nconfig:\n  start: one\n  hooks:\n\
        \x20   - {id: d, event: after_step, action: {primary: execute, item_type: tool, item_id: rye/agent/threads/internal/control, params: {action: suspend}}}\n\
        \x20 nodes:\n\
        \x20   one: {action: {primary: execute, item_type: tool, item_id: demo/count, params: {file: out.txt}}, next: two}\n\
        \x20   two: {action: {primary: execute, item_type: tool, item_id: demo/count, params: {file: out.txt}}, next: end}\n\
        \x20   end: {type: return}\n";
    ended.sandbox.sealed("p/.ai/graphs/demo/stops.yaml", graph);
    ended.ok("graph run demo/stops --detach");
    ended.work("answers.yaml");
    let run = ended.root().unwrap();
    assert_eq!(ended.status_of(&run), "suspended\n");
    let cancel = format!("graph cancel {run}");
    // A paper that was changed decides nothing.
    let papers = format!(
        "FROM threadseal_files f WHERE f.inode = c.inode AND f.path LIKE '%{run}/thread.json'"
    );
    let edit = |from: &str, to: &str| {
        ended.sql(&format!(
            "UPDATE threadseal_chunks c SET bytes = convert_to(replace(convert_from(c.bytes, 'UTF8'), '{from}', '{to}'), 'UTF8') {papers}"
        ))
    };
    let result = "SELECT result FROM threadseal_orders ORDER BY id DESC LIMIT 1";
    let before = ended.sql(result);
    edit("suspended", "suspendee");
    ended.refuses(&cancel, "");
    edit("suspendee", "suspended");
    assert_eq!(ended.status_of(&run), "suspended\n");
    assert_eq!(ended.sql(result), before);
    ended
        .json(&cancel)
        .is(json!({"graph_run_id": run.as_str()}));
    assert_eq!(ended.status_of(&run), "cancelled\n");
    let done = "SELECT state FROM threadseal_orders ORDER BY id DESC LIMIT 1";
    assert_eq!(ended.sql(done), "done\n");
    ended.refuses(&cancel, "has ended");
    ended.verify("").exits(0);
}

// T-FLT-35
#[test]
fn a_run_whose_worker_was_lost_is_continued_within_its_limits() {
    let Some(ended) = Ended::new() else { return };
    ended.slow(2);
    let graph = "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nlimits: {turns: 10, duration_seconds: 600}\nconfig:\n  start: one\n  nodes:\n\
        \x20   one: {action: {primary: execute, item_type: tool, item_id: demo/count, params: {file: out.txt}}, next: two}\n\
        \x20   two: {action: {primary: execute, item_type: tool, item_id: demo/nap}, idempotent: true, next: end}\n\
        \x20   end: {type: return}\n";
    ended.sandbox.sealed("p/.ai/graphs/demo/walk.yaml", graph);
    ended.ok("graph run demo/walk --detach");
    ended.lose_worker(1);
    ended.expire();
    let run = ended.root().unwrap();
    ended.work("answers.yaml");
    let waited = ended.json(format!("thread wait {run}"));
    assert_eq!(waited["results"][&run]["status"], "completed", "{waited}");
    assert_eq!(ended.naps(), 2);
    let chain = ended.json(format!("thread chain {run}"));
    let statuses: Vec<&str> = chain["chain"].texts("status");
    assert_eq!(statuses, ["continued", "completed"]);
    // The step that was done counts, and the time.
    let last = chain["chain"][1]["thread_id"].text();
    let lines = ended.sql(&format!(
        "SELECT convert_from(string_agg(c.bytes, '' ORDER BY c.at), 'UTF8') FROM threadseal_chunks c
         JOIN threadseal_files f USING (inode) WHERE f.path LIKE '%{last}/transcript.jsonl'"
    ));
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let limits = &first["payload"]["limits"];
    assert_eq!(limits["turns"], 9, "{first}");
    assert!(limits["duration_seconds"].as_u64() < Some(600), "{first}");
    // Both are under one order, which is done.
    let orders =
        "SELECT count(DISTINCT order_id) FROM threadseal_threads WHERE directive = 'demo/walk'";
    assert_eq!(ended.sql(orders), "1\n");
    ended.verify("").exits(0);
    ended.ok("thread inspect");
}

// T-DEC-07
#[test]
fn a_worker_whose_settings_are_gone_is_refused_or_names_them_in_the_record_that_it_takes_over() {
    let Some(ended) = Ended::new() else { return };
    ended.slow(2);
    let path = "p/.ai/config/agent/resilience.yaml";
    let limits = "limits: {defaults: {spawns: 1}}\n";
    ended.sandbox.sealed(path, limits);
    // The seal of the first turn covers what the thread used.
    let call = |id: &str| format!("{{calls: [{{tool: demo_nap, input: {{}}, id: {id}}}]}}");
    let answers = format!("answers: [{}, {}]", call("n1"), call("n2"));
    ended.sandbox.write("nap.yaml", answers);
    ended.ok("run demo/slow --detach");
    ended.lose_worker(2);
    ended.expire();
    fs::remove_file(ended.sandbox.path(path)).unwrap();
    let refused = ended.sh("worker --until-idle --script answers.yaml");
    refused.fails().warns("agent/resilience.yaml: missing");
    // Another machine knows no seal of the file.
    fs::remove_dir_all(ended.sandbox.home().join("heads/places")).unwrap();
    ended.work("answers.yaml");
    let thread = ended.root().unwrap();
    assert_eq!(ended.status_of(&thread), "completed\n");
    let told = format!(
        "SELECT count(*) FROM threadseal_chunks c JOIN threadseal_files f USING (inode) WHERE f.path LIKE
         '%{thread}/transcript.jsonl' AND position('settings_missing' IN convert_from(c.bytes, 'UTF8')) > 0"
    );
    assert_eq!(ended.sql(&told), "1\n");
    ended.verify("").exits(0);
}
