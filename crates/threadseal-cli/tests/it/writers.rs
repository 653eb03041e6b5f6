//! Checks of every writer before its first byte: whether these keys may seal, and whether the
//! host's knowledge is the newest.

use crate::fixtures::{ended_record, open_record, ready, rye_events};
use crate::run::{greet, once_more, project, thread};
use crate::sandbox::{Sandbox, copy, files_digest};
use crate::scroll::piped;
use std::fs;
use std::io::Write as _;
use std::path::Path;

const CODE: &str = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";
const STEP: &str = "{\"node\":\"plan\",\"effect\":{\"type\":\"llm_call\",\"payload\":{\"p\":\"hi\"}},\"result\":{\"text\":\"ho\"}}\n";

fn add(path: &Path, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Nothing below the working folder changes, and the refusal gives the reason.
#[track_caller]
fn refused(sandbox: &Sandbox, arguments: &[&str], input: &str, why: &str) {
    let before = files_digest(&sandbox.work());
    let ran = piped(sandbox, arguments, input).exits(2);
    assert!(ran.stderr.contains(why), "{arguments:?}: {}", ran.stderr);
    assert_eq!(files_digest(&sandbox.work()), before, "{arguments:?}");
}

// T-LOG-14
#[test]
fn a_key_that_may_not_seal_a_record_writes_nothing_into_it() {
    let sandbox = project();
    let more = ["--script", "answers.yaml", "--bodies", "detached"];
    greet(&sandbox, &more).exits(0);
    sandbox.run(["key", "new", "--name", "other"]).exits(0);
    let path = thread(&sandbox, "child").join("transcript.jsonl");
    let path = path.to_str().unwrap();
    let redact = [
        "redact", path, "--match", "child", "--why", "w", "--key", "other",
    ];
    refused(&sandbox, &redact, "", "may not seal the record");
    sandbox.run(["verify", "p"]).exits(0);
    // The tail of an ended record stays in its place, too.
    add(Path::new(path), "torn");
    refused(
        &sandbox,
        &["seal", path, "--key", "other"],
        "",
        "may not seal the record",
    );
    sandbox.run(["verify", path]).exits(3);
    sandbox.run(["seal", path]).exits(0);
    sandbox.run(["verify", path]).exits(0);
}

/// Only writes into existing files are checked here, not files that another home would begin.
// T-LOG-14
#[test]
fn a_home_that_is_not_the_recorders_resumes_no_thread_and_leaves_its_record_as_it_was() {
    let sandbox = project();
    greet(&sandbox, &["--script", "answers.yaml"]).exits(0);
    let (own, other) = (thread(&sandbox, "child"), sandbox.work().join("other"));
    let id = own.strip_prefix(sandbox.work().join("p/.ai/agent/threads"));
    let id = id.unwrap().to_str().unwrap().to_owned();
    let there = |more: &[&str]| sandbox.run([&["--home", other.to_str().unwrap()], more].concat());
    there(&["init", "-q"]).exits(0);
    for (name, key) in [("first", "self"), ("first-rye", "self-rye")] {
        let file = format!("{name}.pub");
        let exported = sandbox.run(["key", "export", key]).exits(0).stdout;
        sandbox.write(&file, exported);
        there(&["trust", "add", &file, "--name", name]).exits(0);
    }
    let before = fs::read(own.join("transcript.jsonl")).unwrap();
    let resume = [
        "thread",
        "resume",
        &id,
        "--message",
        "go on",
        "--project",
        "p",
        "--script",
        "answers.yaml",
    ];
    let ran = there(&resume);
    assert!(
        ran.code == 2 && ran.stderr.contains("may not seal the record"),
        "{ran:?}"
    );
    assert_eq!(
        fs::read(own.join("transcript.jsonl")).unwrap(),
        before,
        "{ran:?}"
    );
    sandbox.run(["verify", "p"]).exits(0);
}

#[test]
fn the_tail_of_an_ended_record_is_set_aside_or_kept_and_sealed_with_that() {
    let sandbox = ready();
    for (name, more, exit) in [("a.jsonl", None, 0), ("b.jsonl", Some("--adopt-tail"), 3)] {
        let path = ended_record(&sandbox, name, 1);
        add(&path, "{\"torn\":1}\n");
        let name = ["seal", name];
        let ran = sandbox.run(name.iter().copied().chain(more)).exits(0);
        assert!(ran.stdout.contains("sealed"), "{}", ran.stdout);
        sandbox.run(["verify", path.to_str().unwrap()]).exits(exit);
        let again = sandbox.run(name).exits(0);
        assert!(again.stdout.contains("unchanged"), "{}", again.stdout);
    }
}

/// One record of each kind that a command continues.
fn all_kinds(sandbox: &Sandbox) {
    sandbox.write("a.log", "one\n");
    sandbox.run(["seal", "--detached", "a.log"]).exits(0);
    sandbox.write("b.json", "{\"b\":1}\n");
    sandbox.run(["seal", "b.json"]).exits(0);
    rye_events(sandbox, "r.jsonl", 1);
    sandbox
        .run(["seal", "--profile", "rye", "r.jsonl"])
        .exits(0);
    let turn = crate::scroll::turn(0, "hi");
    piped(sandbox, &["scroll", "seal", "--append", "s.jsonl"], &turn).exits(0);
    piped(
        sandbox,
        &["ledger", "append", "file:runs", "--run", "r1"],
        STEP,
    )
    .exits(0);
    sandbox.write("state", "what the agent is");
    sandbox.run(next_link("1")).exits(0);
    open_record(sandbox, "t.jsonl", 1);
}

fn next_link(tick: &str) -> Vec<&str> {
    let mut all = vec![
        "lineage", "append", "here", "--agent", "counter", "--state", "state",
    ];
    all.extend([
        "--tick", tick, "--budget", "9", "--price", "1", "--code", CODE,
    ]);
    all
}

// T-MARK-04
#[test]
fn nothing_is_gone_on_with_under_a_log_that_went_back_until_it_is_restarted() {
    let sandbox = ready();
    all_kinds(&sandbox);
    let older = sandbox.work().with_file_name("older");
    copy(&sandbox.home(), &older);
    sandbox.write("c.json", "{\"c\":1}\n");
    sandbox.run(["seal", "c.json"]).exits(0);
    fs::remove_dir_all(sandbox.home()).unwrap();
    copy(&older, &sandbox.home());

    add(&sandbox.work().join("a.log"), "two\n");
    sandbox.write(
        "b.json",
        fs::read_to_string(sandbox.work().join("b.json"))
            .unwrap()
            .replacen('1', "2", 1),
    );
    let events = fs::read_to_string(sandbox.work().join("r.jsonl")).unwrap();
    let event = events.lines().next().unwrap();
    add(&sandbox.work().join("r.jsonl"), &format!("{event}\n"));
    let turn = crate::scroll::turn(1, "ho");
    let link = next_link("2");
    let goes_on: [(&[&str], &str); 8] = [
        (&["seal", "--detached", "a.log"], ""),
        (&["seal", "b.json"], ""),
        (&["seal", "--profile", "rye", "r.jsonl"], ""),
        (&["seal", "--final", "t.jsonl"], ""),
        (&["scroll", "seal", "--append", "s.jsonl"], &turn),
        (&["ledger", "append", "file:runs", "--run", "r1"], STEP),
        (&["ledger", "sign", "runs/ledger_r1.jsonl"], ""),
        (&link, ""),
    ];
    for (arguments, input) in goes_on {
        refused(&sandbox, arguments, input, "hint: threadseal log status");
    }
    // A new record is still begun.
    sandbox.write("d.json", "{\"d\":1}\n");
    sandbox.run(["seal", "d.json"]).exits(0);
    let begin = ["scroll", "seal", "--append", "new.jsonl"];
    piped(&sandbox, &begin, &crate::scroll::turn(0, "new")).exits(0);
    sandbox.run(["log", "restart"]).exits(0);
    for (arguments, input) in goes_on {
        piped(&sandbox, arguments, input).exits(0);
    }
}

// T-MARK-04
#[test]
fn an_ended_thread_that_was_put_back_with_its_home_is_not_gone_on_with() {
    let sandbox = project();
    let more = ["--script", "answers.yaml", "--json"];
    let told = greet(&sandbox, &more).exits(0).json();
    let id = told["thread_id"].as_str().unwrap();
    let (home, project) = (sandbox.home(), sandbox.work().join("p"));
    let older = [&home, &project].map(|path| path.with_extension("older"));
    copy(&home, &older[0]);
    copy(&project, &older[1]);
    sandbox.write("more.yaml", "answers: [{when: Once more., text: Gladly.}]");
    let resume = once_more(id);
    sandbox.run(resume).exits(0);
    for (path, older) in [(&home, &older[0]), (&project, &older[1])] {
        fs::remove_dir_all(path).unwrap();
        copy(older, path);
    }
    refused(&sandbox, &resume, "", "hint: threadseal log status");
    sandbox.run(["log", "restart"]).exits(0);
    sandbox.run(resume).exits(0);
}
