//! Checks of every writer before its first byte: whether these keys may seal, and whether the
//! host's knowledge is the newest.

use crate::prelude::*;

const CODE: &str = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";
const STEP: &str = "{\"node\":\"plan\",\"effect\":{\"type\":\"llm_call\",\"payload\":{\"p\":\"hi\"}},\"result\":{\"text\":\"ho\"}}\n";

fn add(path: &Path, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Nothing below the working folder changes, and the refusal gives the reason.
#[track_caller]
fn refused(sandbox: &Sandbox, arguments: &str, input: &str, why: &str) {
    let before = files_digest(&sandbox.work());
    let ran = piped(sandbox, arguments, input).exits(2);
    assert!(ran.stderr.contains(why), "{arguments:?}: {}", ran.stderr);
    assert_eq!(files_digest(&sandbox.work()), before, "{arguments:?}");
}

// T-LOG-14
#[test]
fn a_key_that_may_not_seal_a_record_writes_nothing_into_it() {
    let sandbox = project();
    greeted(&sandbox, "--bodies detached");
    sandbox.ok("key new --name other");
    let path = transcript(&sandbox, "child");
    let path = path.to_str().unwrap();
    let redact = format!("redact {path} --match child --why w --key other");
    refused(&sandbox, &redact, "", "may not seal the record");
    sandbox.ok("verify p");
    // The tail of an ended record stays in its place, too.
    add(Path::new(path), "torn");
    refused(
        &sandbox,
        &format!("seal {path} --key other"),
        "",
        "may not seal the record",
    );
    sandbox.exits(3, format!("verify {path}"));
    sandbox.ok(format!("seal {path}"));
    sandbox.ok(format!("verify {path}"));
}

/// Only writes into existing files are checked here, not files that another home would begin.
// T-LOG-14
#[test]
fn a_home_that_is_not_the_recorders_resumes_no_thread_and_leaves_its_record_as_it_was() {
    let sandbox = project();
    greeted(&sandbox, "");
    let (own, other) = (thread(&sandbox, "child"), sandbox.path("other"));
    let id = own.strip_prefix(sandbox.path("p/.ai/agent/threads"));
    let id = id.unwrap().to_str().unwrap().to_owned();
    let there = |more: &str| sandbox.sh(format!("--home {other:?} {more}"));
    there("init -q").exits(0);
    for (name, key) in [("first", "self"), ("first-rye", "self-rye")] {
        let file = format!("{name}.pub");
        let exported = sandbox.ok(format!("key export {key}")).stdout;
        sandbox.write(&file, exported);
        there(&format!("trust add {file} --name {name}")).exits(0);
    }
    let before = fs::read(own.join("transcript.jsonl")).unwrap();
    let resume = format!("thread resume {id} --message 'go on' --project p --script answers.yaml");
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
    sandbox.ok("verify p");
}

#[test]
fn the_tail_of_an_ended_record_is_set_aside_or_kept_and_sealed_with_that() {
    let sandbox = ready();
    for (name, more, exit) in [("a.jsonl", "", 0), ("b.jsonl", "--adopt-tail", 3)] {
        let path = ended_record(&sandbox, name, 1);
        add(&path, "{\"torn\":1}\n");
        sandbox.ok(format!("seal {name} {more}")).prints("sealed");
        sandbox.exits(exit, format!("verify {path:?}"));
        sandbox.ok(format!("seal {name}")).prints("unchanged");
    }
}

/// One record of each kind that a command continues.
fn all_kinds(sandbox: &Sandbox) {
    sandbox.write("a.log", "one\n");
    sandbox.ok("seal --detached a.log");
    sandbox.sealed("b.json", "{\"b\":1}\n");
    rye_events(sandbox, "r.jsonl", 1);
    sandbox.ok("seal --profile rye r.jsonl");
    let turn = crate::scroll::turn(0, "hi");
    piped(sandbox, "scroll seal --append s.jsonl", &turn).exits(0);
    piped(sandbox, "ledger append file:runs --run r1", STEP).exits(0);
    sandbox.write("state", "what the agent is");
    sandbox.ok(next_link("1"));
    open_record(sandbox, "t.jsonl", 1);
}

fn next_link(tick: &str) -> String {
    format!(
        "lineage append here --agent counter --state state --budget 9 --price 1 --tick {tick} --code {CODE}"
    )
}

// T-MARK-04
#[test]
fn nothing_is_gone_on_with_under_a_log_that_went_back_until_it_is_restarted() {
    let sandbox = ready();
    all_kinds(&sandbox);
    let older = set_aside(&sandbox.home());
    sandbox.sealed("c.json", "{\"c\":1}\n");
    put_back(&older, &sandbox.home());

    add(&sandbox.path("a.log"), "two\n");
    sandbox.write("b.json", sandbox.read("b.json").replacen('1', "2", 1));
    let events = sandbox.read("r.jsonl");
    let event = events.lines().next().unwrap();
    add(&sandbox.path("r.jsonl"), &format!("{event}\n"));
    let turn = crate::scroll::turn(1, "ho");
    let link = next_link("2");
    let goes_on: [(&str, &str); 8] = [
        ("seal --detached a.log", ""),
        ("seal b.json", ""),
        ("seal --profile rye r.jsonl", ""),
        ("seal --final t.jsonl", ""),
        ("scroll seal --append s.jsonl", &turn),
        ("ledger append file:runs --run r1", STEP),
        ("ledger sign runs/ledger_r1.jsonl", ""),
        (&link, ""),
    ];
    for (arguments, input) in goes_on {
        refused(&sandbox, arguments, input, "hint: threadseal log status");
    }
    // A new record is still begun.
    sandbox.sealed("d.json", "{\"d\":1}\n");
    let begin = "scroll seal --append new.jsonl";
    piped(&sandbox, begin, &crate::scroll::turn(0, "new")).exits(0);
    sandbox.ok("log restart");
    for (arguments, input) in goes_on {
        piped(&sandbox, arguments, input).exits(0);
    }
}

// T-MARK-04
#[test]
fn an_ended_thread_that_was_put_back_with_its_home_is_not_gone_on_with() {
    let sandbox = project();
    let id = &greeted(&sandbox, "");
    let (home, project) = (sandbox.home(), sandbox.path("p"));
    let older = [&home, &project].map(|path| path.with_extension("older"));
    copy(&home, &older[0]);
    copy(&project, &older[1]);
    let resume = once_more(id);
    sandbox.ok(&resume);
    for (path, older) in [(&home, &older[0]), (&project, &older[1])] {
        put_back(older, path);
    }
    refused(&sandbox, &resume, "", "hint: threadseal log status");
    sandbox.ok("log restart");
    sandbox.ok(&resume);
}
