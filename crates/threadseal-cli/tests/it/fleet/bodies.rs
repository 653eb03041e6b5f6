//! Threads in a database whose bodies are detached.

use super::Ended;
use crate::run::project;
use std::fs;

const ANSWER: &str = "I am the child.";

/// Threads in the project of which the database says that their bodies are detached.
fn detached() -> Option<Ended> {
    let sandbox = project();
    let config = "p/.ai/config/agent/coordination.yaml";
    let file = sandbox.write(config, "coordination:\n  transcript_bodies: detached\n");
    sandbox.run(["seal", file.to_str().unwrap()]).exits(0);
    Ended::of(sandbox)
}

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
    // One that lost a body in the database is tampered there and in the copy.
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
    ended
        .sandbox
        .run([
            "redact",
            &format!("{}#{}", ended.url, ended.thread),
            "--line",
            "3",
            "--why",
            "x",
        ])
        .fails_with("not redacted yet");
}
