//! Detached bodies in proofs and copies, and in the records of successors.

use crate::prelude::*;

const ANSWER: &str = "I am the child.";

/// A thread with detached bodies whose child returned a text; the child's transcript.
fn detached() -> (Sandbox, PathBuf) {
    let sandbox = project();
    greeted(&sandbox, "--bodies detached");
    let transcript = transcript(&sandbox, "child");
    (sandbox, transcript)
}

// T-PRF-15
#[test]
fn a_turn_with_detached_bodies_is_shown_whole_or_said_not_to_be() {
    let (sandbox, transcript) = detached();
    let path = transcript.to_str().unwrap();
    let turn = format!("{path}#1");
    sandbox.ok(format!("prove {turn} --out whole"));
    sandbox
        .ok("check-proof whole")
        .prints(&format!("| {ANSWER}"));
    let json = sandbox.json("check-proof whole");
    let lines = json["lines"].list();
    let line = lines
        .iter()
        .find(|line| line["event_type"] == "cognition_out")
        .unwrap();
    assert!(line["restored"].text().contains(ANSWER), "{line}");
    assert!(line["text"].text().contains("commitment"), "{line}");
    sandbox.ok(format!("prove {turn} --without-bodies --out bare"));
    sandbox
        .exits(3, "check-proof bare")
        .prints("bodies_unread")
        .omits(ANSWER);
    let text = sandbox.read("whole");
    sandbox.write("changed", text.replace(ANSWER, "I am a parent!!"));
    sandbox
        .exits(1, "check-proof changed")
        .begins_with("tampered")
        .prints("body_changed");
    // After a redaction a proof names its author.
    sandbox.ok(format!(
        "redact {path} --match {ANSWER:?} --why 'a name' --by Ada"
    ));
    sandbox
        .ok(format!("prove {turn} --out redacted"))
        .warns("[redacted by Ada at ");
    sandbox
        .ok("check-proof redacted")
        .prints("[redacted by Ada at ")
        .omits(ANSWER);
}

// T-RED-11
#[test]
fn what_goes_on_from_detached_bodies_detaches_its_own() {
    let (sandbox, _) = detached();
    let first = thread(&sandbox, "greet");
    let mut id = thread_id(&first);
    for (more, is_detached) in [
        ("", true),
        ("--bodies inline", false),
        ("--bodies detached", true),
    ] {
        let ran = sandbox.sh(format!("{} {more} --json", once_more(&id)));
        let ran = ran.exits(0).json();
        id = ran["thread_id"].text().to_owned();
        let transcript = sandbox.path("p/.ai/agent/threads").join(&id);
        let record = read(transcript.join("transcript.jsonl"));
        let kept = record.contains("Gladly.");
        assert_eq!(kept, !is_detached, "{more:?}");
        assert_eq!(transcript.join("transcript.bodies").exists(), is_detached);
    }
}

#[test]
fn a_copy_says_what_it_lacks_and_shows_the_rest() {
    let sandbox = ready();
    ended_record(&sandbox, "t.jsonl", 2);
    let export = "transcript export t.jsonl --redact --match 'question 2'";
    let told = sandbox
        .ok(format!("{export} --out copy"))
        .begins_with("copy: 1 line left out\n")
        .prints("prefix_hash")
        .stdout;
    assert!(
        told.ends_with("check: threadseal check-proof copy\n"),
        "{told}"
    );
    sandbox
        .exits(3, "check-proof copy")
        .prints("[left out, ")
        .prints("| answer 2")
        .omits("question 2");
    let json = sandbox.exits(3, "check-proof copy --json").json();
    let lines = json["lines"].list();
    let holes = lines.iter().filter(|line| line["left_out_bytes"].is_u64());
    assert_eq!(holes.count(), 1);
    let told = sandbox.sh(format!("{export} --out again --json"));
    let told = told.exits(0).json();
    assert_eq!((&told["left_out"], &told["exit"]), (&1.into(), &0.into()));
    sandbox
        .sh(format!("{export} --json"))
        .fails_with("a copy is not JSON");
    // A record that does not verify is not copied, and the JSON report gives the reason.
    let record = sandbox.read("t.jsonl");
    sandbox.write("t.jsonl", record.replace("answer 1", "answer X"));
    for to in ["--redact --turn 2 --out none", "--as-log none"] {
        let told = sandbox.sh(format!("transcript export t.jsonl --json {to}"));
        assert_eq!(told.exits(1).json()["result"]["verdict"], "tampered");
    }
    assert!(!sandbox.path("none").exists());
}
