//! Threads in a database whose bodies are detached.

use super::Ended;
use crate::prelude::*;

const ANSWER: &str = "I am the child.";

/// Threads in a project whose database declares that bodies are detached.
fn detached() -> Option<Ended> {
    let sandbox = project();
    let config = "p/.ai/config/agent/coordination.yaml";
    let file = sandbox.write(config, "coordination:\n  transcript_bodies: detached\n");
    sandbox.ok(format!("seal {file:?}"));
    Ended::of(sandbox)
}

// T-RED-13
// T-FLT-21
#[test]
fn a_thread_with_detached_bodies_is_verified_resumed_and_exported_whole() {
    let Some(ended) = detached() else { return };
    let bodies = "SELECT count(*) FROM threadseal_files WHERE path LIKE '%/transcript.bodies'";
    assert_eq!(ended.sql(bodies).trim(), "2");
    let reports = ended.verify("").exits(0).json();
    let mut reports = reports["results"].list().iter();
    let checked = |report: &Value| {
        let mut checks = report["checks"].list().iter();
        checks.any(|check| check["name"] == "bodies" && check["result"] == "pass")
    };
    assert!(reports.any(checked));
    ended.ok(format!(
        "thread resume {} -m 'Once more.' --detach",
        ended.thread
    ));
    ended.work("more.yaml");
    ended.verify("").exits(0);
    ended.json(format!("thread export {} copy", ended.thread));
    let copy = ended.sandbox.path("copy");
    let held = read(copy.join("transcript.bodies"));
    let record = read(copy.join("transcript.jsonl"));
    assert!(held.contains(ANSWER) && !record.contains(ANSWER));
    ended.sandbox.sh("verify copy/transcript.jsonl").exits(0);
    // A thread that lost a body in the database is tampered there, and is not exported.
    ended.sql(
        "UPDATE threadseal_chunks c SET bytes = convert_to(replace(convert_from(c.bytes, 'UTF8'), 'I am the child.', 'I am a parent!!'), 'UTF8')
         FROM threadseal_files f WHERE f.inode = c.inode AND f.path LIKE '%/transcript.bodies'",
    );
    ended.verify("").exits(1).prints("body_changed");
    let export = format!("thread export {} changed", ended.thread);
    ended.exits(1, export).warns("nothing was written");
    assert!(!ended.sandbox.path("changed").exists());
}

// T-RED-14
#[test]
fn a_thread_in_a_database_is_redacted_and_its_record_states_it() {
    let Some(ended) = detached() else { return };
    let address = format!("{}#{}", ended.url, ended.thread);
    let redact = |more: &str| {
        ended
            .sandbox
            .sh(format!("redact {address} --match {ANSWER:?} {more}"))
    };
    let held = "SELECT count(*) FROM threadseal_files f JOIN threadseal_chunks c USING (inode) WHERE f.path LIKE \
                '%/transcript.bodies' AND position('I am the child.' IN convert_from(c.bytes, 'UTF8')) > 0";
    let orders = "SELECT string_agg(id || state || coalesce(result, ''), ',' ORDER BY id) FROM threadseal_orders";
    let (before, stood) = (ended.sql(held), ended.sql(orders));
    redact("--dry-run").exits(0).prints("would be deleted");
    assert_eq!(ended.sql(held), before);
    // No other process writes there meanwhile.
    let hold =
        "UPDATE threadseal_orders SET state = 'taken', expires_at = now() + interval '1 hour'";
    let release = "UPDATE threadseal_orders SET state = 'done', expires_at = NULL";
    ended.sql(hold);
    redact("--why 'a name'").fails_with("held by a worker");
    ended.sql(release);
    let told = redact("--why 'a name' --json").exits(0).json();
    assert!(!told["redacted"].list().is_empty(), "{told}");
    let left = |count: &str| count.trim().parse::<u64>().unwrap();
    assert!(
        left(&ended.sql(held)) < left(&before),
        "its child has its own copy"
    );
    assert_eq!(ended.sql(orders), stood);
    ended
        .verify("")
        .exits(0)
        .prints("redacted")
        .omits("redaction_unlogged");
    redact("--why again").fails_with("no remaining body matches");
    ended.sandbox.ok(format!("redact {address} --finish"));
    // The thread resumes, and its model gets the redaction in place of the text.
    ended.ok(format!(
        "thread resume {} -m 'Once more.' --detach",
        ended.thread
    ));
    ended.work("more.yaml");
    ended.verify("").exits(0);
    let whole = format!("{}#", ended.url);
    ended
        .sandbox
        .sh(format!("redact {whole} --line 3 --why x"))
        .fails_with("name the thread");
    ended
        .sandbox
        .sh("redact object+file:here#x --line 3 --why x")
        .fails_with("bodies inline");
}
