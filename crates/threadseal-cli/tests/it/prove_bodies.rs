//! Detached bodies in proofs and copies, and in the records of successors.

use crate::fixtures::{ended_record, ready};
use crate::run::{greet, once_more, project, thread};
use crate::sandbox::Sandbox;
use std::fs;
use std::path::PathBuf;

const ANSWER: &str = "I am the child.";

/// A thread with detached bodies whose child returned a text; the child's transcript.
fn detached() -> (Sandbox, PathBuf) {
    let sandbox = project();
    let more = ["--script", "answers.yaml", "--bodies", "detached"];
    greet(&sandbox, &more).exits(0);
    let transcript = thread(&sandbox, "child").join("transcript.jsonl");
    (sandbox, transcript)
}

// T-PRF-15
#[test]
fn a_turn_with_detached_bodies_is_shown_whole_or_said_not_to_be() {
    let (sandbox, transcript) = detached();
    let path = transcript.to_str().unwrap();
    let turn = format!("{path}#1");
    sandbox.run(["prove", &turn, "--out", "whole"]).exits(0);
    let shown = sandbox.run(["check-proof", "whole"]).exits(0).stdout;
    assert!(shown.contains(&format!("| {ANSWER}")), "{shown}");
    let json = sandbox
        .run(["check-proof", "whole", "--json"])
        .exits(0)
        .json();
    let lines = json["lines"].as_array().unwrap();
    let line = lines
        .iter()
        .find(|line| line["event_type"] == "cognition_out")
        .unwrap();
    assert!(
        line["restored"].as_str().unwrap().contains(ANSWER),
        "{line}"
    );
    assert!(
        line["text"].as_str().unwrap().contains("commitment"),
        "{line}"
    );
    sandbox
        .run(["prove", &turn, "--without-bodies", "--out", "bare"])
        .exits(0);
    let shown = sandbox.run(["check-proof", "bare"]).exits(3).stdout;
    assert!(
        shown.contains("bodies_unread") && !shown.contains(ANSWER),
        "{shown}"
    );
    let text = fs::read_to_string(sandbox.work().join("whole")).unwrap();
    sandbox.write("changed", text.replace(ANSWER, "I am a parent!!"));
    let shown = sandbox.run(["check-proof", "changed"]).exits(1).stdout;
    assert!(
        shown.starts_with("tampered") && shown.contains("body_changed"),
        "{shown}"
    );
    // After a redaction a proof names its author.
    let redact = [
        "redact", path, "--match", ANSWER, "--why", "a name", "--by", "Ada",
    ];
    sandbox.run(redact).exits(0);
    let proved = sandbox.run(["prove", &turn, "--out", "redacted"]).exits(0);
    assert!(
        proved.stderr.contains("[redacted by Ada at "),
        "{}",
        proved.stderr
    );
    let shown = sandbox.run(["check-proof", "redacted"]).exits(0).stdout;
    assert!(
        shown.contains("[redacted by Ada at ") && !shown.contains(ANSWER),
        "{shown}"
    );
}

// T-RED-11
#[test]
fn what_goes_on_from_detached_bodies_detaches_its_own() {
    let (sandbox, _) = detached();
    let first = thread(&sandbox, "greet");
    let mut id = format!("demo/{}", first.file_name().unwrap().to_str().unwrap());
    sandbox.write("more.yaml", "answers: [{when: Once more., text: Gladly.}]");
    for (more, is_detached) in [
        (&[][..], true),
        (&["--bodies", "inline"], false),
        (&["--bodies", "detached"], true),
    ] {
        let ran = sandbox.run([&once_more(&id), more, &["--json"]].concat());
        let ran = ran.exits(0).json();
        id = ran["thread_id"].as_str().unwrap().to_owned();
        let transcript = sandbox.work().join("p/.ai/agent/threads").join(&id);
        let record = fs::read_to_string(transcript.join("transcript.jsonl")).unwrap();
        let kept = record.contains("Gladly.");
        assert_eq!(kept, !is_detached, "{more:?}");
        assert_eq!(transcript.join("transcript.bodies").exists(), is_detached);
    }
}

#[test]
fn a_copy_says_what_it_lacks_and_shows_the_rest() {
    let sandbox = ready();
    ended_record(&sandbox, "t.jsonl", 2);
    let export = [
        "transcript",
        "export",
        "t.jsonl",
        "--redact",
        "--match",
        "question 2",
    ];
    let told = sandbox
        .run([&export[..], &["--out", "copy"]].concat())
        .exits(0)
        .stdout;
    assert!(told.starts_with("copy: 1 line left out\n"), "{told}");
    assert!(told.contains("prefix_hash"), "{told}");
    assert!(
        told.ends_with("check: threadseal check-proof copy\n"),
        "{told}"
    );
    let shown = sandbox.run(["check-proof", "copy"]).exits(3).stdout;
    assert!(
        shown.contains("[left out, ") && shown.contains("| answer 2"),
        "{shown}"
    );
    assert!(!shown.contains("question 2"), "{shown}");
    let json = sandbox
        .run(["check-proof", "copy", "--json"])
        .exits(3)
        .json();
    let lines = json["lines"].as_array().unwrap();
    let holes = lines.iter().filter(|line| line["left_out_bytes"].is_u64());
    assert_eq!(holes.count(), 1);
    let told = sandbox.run([&export[..], &["--out", "again", "--json"]].concat());
    let told = told.exits(0).json();
    assert_eq!((&told["left_out"], &told["exit"]), (&1.into(), &0.into()));
    sandbox
        .run([&export[..], &["--json"]].concat())
        .fails_with("a copy is no JSON");
    // A record that does not verify is not copied, and the JSON report gives the reason.
    let record = fs::read_to_string(sandbox.work().join("t.jsonl")).unwrap();
    sandbox.write("t.jsonl", record.replace("answer 1", "answer X"));
    for to in [
        &["--redact", "--turn", "2", "--out", "none"][..],
        &["--as-log", "none"],
    ] {
        let told = sandbox.run([&["transcript", "export", "t.jsonl", "--json"], to].concat());
        assert_eq!(told.exits(1).json()["result"]["verdict"], "tampered");
    }
    assert!(!sandbox.work().join("none").exists());
}
