//! What `prune` refuses without an end, and the question before it deletes.

use crate::prelude::*;
use crate::prune_kinds::{checkpoint, step};
use std::time::SystemTime;

fn log(sandbox: &Sandbox) -> PathBuf {
    let path = sandbox.write("a.log", "one\ntwo\n");
    sandbox.ok("seal --detached a.log");
    path
}

/// Runs a command line on a terminal of its own, where `answer` is typed. What the terminal shows
/// is the output.
fn on_a_terminal(sandbox: &Sandbox, line: &str, answer: &str) -> Ran {
    let program = format!("{} {line}", env!("CARGO_BIN_EXE_threadseal"));
    let mut command = Command::new("script");
    command
        .args(["-qec", &program, "/dev/null"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("THREADSEAL_HOME", sandbox.home())
        .current_dir(sandbox.work())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(answer.as_bytes()).unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    drop(input);
    ran
}

// T-PRU-31
#[test]
fn a_record_without_an_end_is_pruned_only_by_its_age() {
    let sandbox = ready();
    let path = log(&sandbox);
    let refused = sandbox.exits(2, "prune --yes a.log");
    refused.warns("it has no end").warns("--older-than");
    let refused = sandbox.exits(2, "prune --yes a.log --older-than 1h");
    refused.warns("sealed too recently");
    // The program still writes.
    let soon = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let file = fs::File::options().append(true).open(&path).unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    file.set_modified(soon).unwrap();
    let refused = sandbox.exits(2, "prune --yes a.log --older-than 0h");
    refused.warns("written to too recently");
    file.set_modified(written).unwrap();
    assert!(path.exists());
    sandbox.ok("prune --yes a.log --older-than 0h");
    assert!(!path.exists());

    sandbox.write("b.log", "one\n");
    sandbox.ok("seal --detached --final b.log");
    sandbox.ok("prune --yes b.log");
    assert!(!sandbox.path("b.log").exists());

    step(&sandbox, "file:runs").exits(0);
    checkpoint(&sandbox, "file:agents", "1").exits(0);
    for record in ["file:runs --run r1", "file:agents --agent counter"] {
        let refused = sandbox.exits(2, format!("prune --yes {record}"));
        refused.warns("it has no end");
        sandbox.ok(format!("prune --yes {record} --older-than 0h"));
    }
}

// T-PRU-32
#[test]
fn nothing_is_deleted_before_a_yes() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "a.jsonl", 1);
    let listed = sandbox.exits(2, "prune a.jsonl");
    listed.prints("would prune").warns("hint: add --yes");
    let json = sandbox.exits(2, "prune a.jsonl --json").json();
    json.is(json!({"dry_run": true, "pruned/0/path": "a.jsonl", "exit": 2}));
    for answer in ["n\n", "\n", "\u{4}", "yesterday\n"] {
        let asked = on_a_terminal(&sandbox, "prune a.jsonl", answer).exits(2);
        asked
            .prints("would prune  a.jsonl")
            .prints("delete 1 record? [y/N]");
        assert!(path.exists(), "{answer:?}");
    }
    let asked = on_a_terminal(&sandbox, "prune a.jsonl", "y\n").exits(0);
    asked.prints("delete 1 record?").prints("pruned  a.jsonl");
    assert!(!path.exists());
    // No record to prune, no question.
    let refused = on_a_terminal(&sandbox, "prune b.jsonl", "y\n").exits(2);
    assert!(!refused.stdout.contains("[y/N]"), "{}", refused.stdout);
}
