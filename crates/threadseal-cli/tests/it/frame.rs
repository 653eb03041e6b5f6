//! Help, version, exit codes and output: rules for every command.

use crate::prelude::*;
use std::fs::File;
use std::io::Write as _;
use std::process::Stdio;

/// Every command, in the order of `--help`.
pub(crate) const COMMANDS: [&str; 45] = [
    "init",
    "seal",
    "verify",
    "list",
    "search",
    "show",
    "view",
    "watch",
    "record",
    "run",
    "demo",
    "install",
    "uninstall",
    "status",
    "doctor",
    "messages",
    "render",
    "prove",
    "check-proof",
    "diff",
    "redact",
    "export",
    "forget",
    "prune",
    "transcript",
    "scroll",
    "ledger",
    "lineage",
    "thread",
    "graph",
    "knowledge",
    "worker",
    "key",
    "id",
    "trust",
    "home",
    "log",
    "anchor",
    "witness",
    "archive",
    "fsck",
    "hook",
    "completions",
    "man",
    "help",
];

#[test]
fn the_root_help_states_the_exit_codes() {
    let help = Sandbox::new().ok("--help").stdout;
    for line in [
        "  0  verified",
        "  1  evidence",
        "  2  no verdict",
        "  3  not confirmed",
    ] {
        help.has(line);
    }
}

#[test]
fn wrong_usage_exits_2_and_keeps_standard_output_empty() {
    let sandbox = Sandbox::new();
    for arguments in [
        "",
        "no-such-command",
        "man --no-such-option",
        "--color pink man",
        "completions",
    ] {
        let ran = sandbox.exits(2, arguments);
        assert_eq!(ran.stdout, "", "{arguments:?}");
        assert!(!ran.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn wrong_usage_is_reported_as_json_on_request() {
    let ran = Sandbox::new().exits(2, "verify --json --format pink x");
    assert_eq!(ran.json()["schema"], "threadseal.error/1");
    let message = ran.json()["message"].text().to_owned();
    assert!(message.starts_with("invalid value 'pink'"), "{message}");
}

#[test]
fn version_is_one_line() {
    assert_eq!(
        Sandbox::new().ok("--version").stdout,
        concat!("threadseal ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

// T-CMD-02
#[test]
fn a_full_disk_and_a_broken_pipe_at_standard_output_never_exit_with_0() {
    let sandbox = Sandbox::new();
    for arguments in ["completions bash", "man", "--help"] {
        let full = sandbox
            .command()
            .args(words(arguments))
            .stdout(File::options().write(true).open("/dev/full").unwrap())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Ran::of(full.wait_with_output().unwrap()).exits(2);

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let broken = sandbox
            .command()
            .args(words(arguments))
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let broken = Ran::of(broken.wait_with_output().unwrap()).exits(2);
        assert_eq!(broken.stderr, "", "a closed pipe ends quietly");
    }
}

#[test]
fn a_minus_is_standard_input_where_a_file_is_read_once() {
    let sandbox = ready();
    ended_record(&sandbox, "good.jsonl", 1);
    let good = fs::read_to_string(sandbox.work().join("good.jsonl")).unwrap();
    sandbox
        .run(["prove", "good.jsonl#1", "--out", "p.turn-proof"])
        .exits(0);
    let proof = fs::read_to_string(sandbox.work().join("p.turn-proof")).unwrap();
    let forged = good.replace("answer 1", "answer X");
    for (arguments, input, exit) in [
        (&["verify", "-"][..], &good, 0),
        (&["verify", "--json", "-"], &forged, 1),
        (&["show", "-"], &good, 0),
        (&["messages", "-"], &good, 0),
        (&["render", "-"], &good, 0),
        (&["check-proof", "-"], &proof, 0),
        (&["verify", "-"], &String::new(), 2),
    ] {
        let mut command = sandbox.command();
        let command = command.args(arguments).stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        Ran::of(child.wait_with_output().unwrap()).exits(exit);
    }
}

// T-CMD-02
#[test]
fn lost_output_never_exits_with_0_and_quiet_exits_with_the_verdict() {
    let sandbox = ready();
    ended_record(&sandbox, "good.jsonl", 1);
    sandbox.write("unsigned.json", "{}");
    let to_full = |arguments: &str| {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = sandbox.command();
        let command = command.args(words(arguments)).stdout(full);
        let ran = command.stderr(Stdio::piped()).spawn().unwrap();
        Ran::of(ran.wait_with_output().unwrap())
    };
    to_full("verify good.jsonl").exits(2);
    to_full("verify good.jsonl -q --json").exits(2);
    // Nothing is due, and nothing is lost.
    to_full("verify good.jsonl -q").exits(0);
    to_full("verify unsigned.json -q").exits(2);
    let text = sandbox.read("good.jsonl");
    sandbox.write("good.jsonl", text.replace("answer 1", "answer X"));
    to_full("verify good.jsonl -q").exits(1);
}

#[test]
fn the_demonstration_notices_every_attack_and_leaves_its_files() {
    let sandbox = Sandbox::new();
    let ran = sandbox.ok("demo");
    for (verdict, file) in [
        ("verified", "transcript"),
        ("tampered", "changed-byte"),
        ("rolled_back", "cut-tail"),
        ("tampered", "stripped-seal"),
        ("tampered", "smuggled-event"),
        ("unsigned_tail", "appended-event"),
    ] {
        let path = format!("threadseal-demo/records/{file}.jsonl");
        ran.stdout.has(&format!("\n{verdict}  {path}"));
        assert!(sandbox.path(path).exists());
    }
    sandbox.exits(
        1,
        "--home threadseal-demo/home verify threadseal-demo/records",
    );
    let json = sandbox.json("demo");
    assert_eq!(json["folder"], "threadseal-demo-2");
    sandbox.exits(2, "demo --dir threadseal-demo");
    assert!(!sandbox.home().exists());
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Sandbox::new().ok(format!("completions {shell}")).stdout;
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn manual_pages_are_written_one_per_command() {
    let sandbox = Sandbox::new();
    sandbox
        .ok("man")
        .prints(".TH threadseal 1")
        .prints("Exit codes");
    let ran = sandbox.ok("man pages");
    for command in COMMANDS {
        let file = sandbox.path(format!("pages/threadseal-{command}.1"));
        assert!(file.is_file(), "{}", ran.stdout);
    }
    assert_eq!(sandbox.ok("-q man pages").stdout, "");
}
