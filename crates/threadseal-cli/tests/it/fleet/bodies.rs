//! Threads in a database whose bodies are detached.

use super::Ended;
use crate::run::project;
use std::fs;

const ANSWER: &str = "I am the child.";

/// Threads in a project whose database declares that bodies are detached.
fn detached() -> Option<Ended> {
    let sandbox = project();
    let config = "p/.ai/config/agent/coordination.yaml";
    let file = sandbox.write(config, "coordination:\n  transcript_bodies: detached\n");
    sandbox.run(["seal", file.to_str().unwrap()]).exits(0);
    Ended::of(sandbox)
}

// T-RED-13
#[test]
fn a_thread_with_detached_bodies_is_verified_gone_on_with_and_exported_whole() {
    let Some(ended) = detached() else { return };
    let bodies = "SELECT count(*) FROM threadseal_files WHERE path LIKE '%/transcript.bodies'";
    assert_eq!(ended.sql(bodies).trim(), "2");
    let reports = ended.verify("").exits(0).json();
    let mut reports = reports["results"].as_array().unwrap().iter();
    let checked = |report: &serde_json::Value| {
        let mut checks = report["checks"].as_array().unwrap().iter();
        checks.any(|check| check["name"] == "bodies" && check["result"] == "pass")
    };
    assert!(reports.any(checked));
    let resume = [
        "thread",
        "resume",
        &ended.thread,
        "-m",
        "Once more.",
        "--detach",
    ];
    ended.run(&resume).exits(0);
    ended.work("more.yaml");
    ended.verify("").exits(0);
    ended
        .run(&["thread", "export", &ended.thread, "copy"])
        .exits(0);
    let copy = ended.sandbox.work().join("copy");
    let held = fs::read_to_string(copy.join("transcript.bodies")).unwrap();
    let record = fs::read_to_string(copy.join("transcript.jsonl")).unwrap();
    assert!(held.contains(ANSWER) && !record.contains(ANSWER));
    let verified = ended.sandbox.run(["verify", "copy/transcript.jsonl"]);
    verified.exits(0);
    // A thread that lost a body in the database is tampered there and in the copy.
    ended.sql(
        "UPDATE threadseal_chunks c SET bytes = convert_to(replace(convert_from(c.bytes, 'UTF8'), 'I am the child.', 'I am a parent!!'), 'UTF8')
         FROM threadseal_files f WHERE f.inode = c.inode AND f.path LIKE '%/transcript.bodies'",
    );
    let changed = ended.verify("").exits(1);
    assert!(
        changed.stdout.contains("body_changed"),
        "{}",
        changed.stdout
    );
    ended
        .run(&["thread", "export", &ended.thread, "changed"])
        .exits(0);
    let changed = ended.sandbox.run(["verify", "changed/transcript.jsonl"]);
    changed.exits(1);
}

// T-RED-14
#[test]
fn a_thread_in_a_database_is_redacted_and_the_record_says_so() {
    let Some(ended) = detached() else { return };
    let address = format!("{}#{}", ended.url, ended.thread);
    let redact = |more: &[&str]| {
        let own = ["redact", &address, "--match", ANSWER];
        ended.sandbox.run([&own[..], more].concat())
    };
    let held = "SELECT count(*) FROM threadseal_files f JOIN threadseal_chunks c USING (inode) WHERE f.path LIKE \
                '%/transcript.bodies' AND position('I am the child.' IN convert_from(c.bytes, 'UTF8')) > 0";
    let orders = "SELECT string_agg(id || state || coalesce(result, ''), ',' ORDER BY id) FROM threadseal_orders";
    let (before, stood) = (ended.sql(held), ended.sql(orders));
    let would = redact(&["--dry-run"]).exits(0);
    assert!(
        would.stdout.contains("would be dropped"),
        "{}",
        would.stdout
    );
    assert_eq!(ended.sql(held), before);
    // No other process writes there meanwhile.
    let hold =
        "UPDATE threadseal_orders SET state = 'taken', expires_at = now() + interval '1 hour'";
    let release = "UPDATE threadseal_orders SET state = 'done', expires_at = NULL";
    ended.sql(hold);
    redact(&["--why", "a name"]).fails_with("held by a worker");
    ended.sql(release);
    let told = redact(&["--why", "a name", "--json"]).exits(0).json();
    assert!(!told["redacted"].as_array().unwrap().is_empty(), "{told}");
    let left = |count: &str| count.trim().parse::<u64>().unwrap();
    assert!(
        left(&ended.sql(held)) < left(&before),
        "its child has its own copy"
    );
    assert_eq!(ended.sql(orders), stood);
    let seen = ended.verify("").exits(0);
    assert!(seen.stdout.contains("redacted"), "{}", seen.stdout);
    assert!(
        !seen.stdout.contains("redaction_unlogged"),
        "{}",
        seen.stdout
    );
    redact(&["--why", "again"]).fails_with("no body that is still there fits");
    let finish = ["redact", &address, "--finish"];
    ended.sandbox.run(finish).exits(0);
    // The thread resumes, and its model gets the redaction in place of the text.
    let resume = [
        "thread",
        "resume",
        &ended.thread,
        "-m",
        "Once more.",
        "--detach",
    ];
    ended.run(&resume).exits(0);
    ended.work("more.yaml");
    ended.verify("").exits(0);
    let whole = format!("{}#", ended.url);
    let redact = ["redact", &whole, "--line", "3", "--why", "x"];
    ended.sandbox.run(redact).fails_with("name the thread");
    let redact = ["redact", "object+file:here#x", "--line", "3", "--why", "x"];
    ended.sandbox.run(redact).fails_with("bodies inline");
}
