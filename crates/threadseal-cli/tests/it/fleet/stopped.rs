//! Threads and graph runs of workers, cancelled and killed from another process.

use super::*;

// T-FLT-14
#[test]
fn what_other_machines_run_is_cancelled_and_killed_and_what_has_ended_is_not() {
    let Some(ended) = Ended::new() else { return };
    ended.slow(60);
    let graph = ended.sandbox.write(
        "p/.ai/graphs/demo/naps.yaml",
        "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: one\n  nodes:\n\
         \x20   one: {action: {primary: execute, item_type: tool, item_id: demo/nap}, next: end}\n\
         \x20   end: {type: return}\n",
    );
    ended.sandbox.ok(format!("seal {graph:?}"));
    let naps = |count: usize| {
        while ended.naps() < count {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let order = || {
        let ran = ended.ok("run demo/slow --detach");
        ran.stdout.trim().to_owned()
    };
    let status = |thread: &str| {
        let waited = ended.exits(2, format!("thread wait {thread} --json"));
        waited.json()["results"][thread]["status"].clone()
    };
    // A thread that has ended.
    ended.refuses(&format!("thread cancel {}", ended.thread), "is done");
    ended.refuses(&format!("thread kill {}", ended.thread), "has ended");
    // An order that no worker took.
    let waiting = order();
    ended.ok(format!("thread cancel {waiting}"));
    let result = format!(
        "SELECT state, result::json->>'status' FROM threadseal_orders WHERE id = {waiting}"
    );
    assert_eq!(ended.sql(&result), "done|cancelled\n");
    ended.refuses(&format!("thread cancel {waiting}"), "is done");
    // An order that resumes a thread; the thread stays as it is.
    ended.ok(format!(
        "thread resume {} -m 'Once more.' --detach",
        ended.thread
    ));
    ended.ok(format!("thread cancel {}", ended.thread));
    // A thread in the middle of a call: its worker ends it as it would end a thread of files.
    order();
    let mut worker = ended.worker("--script nap.yaml --until-idle");
    naps(1);
    let thread = ended.root().unwrap();
    assert_ne!(thread, ended.thread);
    let cancel = format!("thread cancel {thread} --json");
    let asked = ended.ok(&cancel).json();
    asked.is(json!({"thread_id": thread.as_str(), "cancelled": true}));
    assert!(worker.wait().unwrap().success());
    assert_eq!(status(&thread), "cancelled");
    ended
        .ok(format!("thread transcript {thread} --json"))
        .prints("**Cancelled**");
    ended.refuses(&cancel, "is done");
    ended.verify("").exits(0);
    ended.ok("graph run demo/naps --detach");
    let mut worker = ended.worker("--until-idle");
    naps(2);
    let run = ended.root().unwrap();
    ended.json(format!("graph cancel {run}"));
    assert!(worker.wait().unwrap().success());
    assert_eq!(status(&run), "cancelled");
    // Another thread loses its worker: later output of that worker is not stored.
    order();
    let mut worker = ended.worker("--script nap.yaml --until-idle --lease 2");
    naps(3);
    let thread = ended.root().unwrap();
    let kill = format!("thread kill {thread} --json");
    let killed = ended.ok(&kill).json();
    assert_eq!(killed["status"], "killed");
    let before = ended.everything();
    assert!(worker.wait().unwrap().success());
    assert_eq!(ended.everything(), before);
    assert_eq!(status(&thread), "killed");
    ended.refuses(&kill, "has ended");
    ended.refuses(&format!("thread cancel {thread}"), "is done");
    assert_eq!(
        ended.sql("SELECT DISTINCT state FROM threadseal_orders"),
        "done\n"
    );
    let budgets = "SELECT count(*) FROM threadseal_budgets WHERE status = 'active'";
    assert_eq!(ended.sql(budgets), "0\n");
    ended.verify("").exits(0);
    ended.ok("thread inspect");
}

// T-TOL-42
#[test]
fn what_a_tool_started_dies_when_its_worker_is_killed() {
    use crate::run::trees::{are_gone, mark, marked};
    let Some(ended) = Ended::new() else { return };
    ended.slow(60);
    let sandbox = &ended.sandbox;
    let script = "setsid sleep 600 & echo >>began; sleep 600";
    let tool = format!(
        "tool_type: command\ncommand: [/bin/sh, -c, '{script}']\nconfig_schema:\n  type: object\n{}",
        mark(sandbox)
    );
    sandbox.sealed("p/.ai/tools/demo/nap.yaml", tool);
    ended.ok("run demo/slow --detach");
    let mut worker = ended.worker("--script nap.yaml");
    while ended.naps() < 1 || marked(sandbox).len() < 4 {
        std::thread::sleep(Duration::from_millis(20));
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
    are_gone(sandbox);
}
