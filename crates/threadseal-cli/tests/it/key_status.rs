//! Keys that ended: every command that would seal with one is refused, and writes nothing.

use crate::fixtures::{ready, recorder};
use crate::run::{greet, once_more, project};
use crate::sandbox::{Sandbox, tree_digest};

/// Each of these commands is refused, and leaves the working folder as it is.
fn refused(sandbox: &Sandbox, commands: &[&[&str]], why: &[&str]) {
    let before = tree_digest(&sandbox.work());
    for command in commands {
        let ran = sandbox.run(*command).exits(2);
        for part in why.iter().chain(&["seals nothing more"]) {
            assert!(ran.stderr.contains(part), "{command:?}: {}", ran.stderr);
        }
        assert_eq!(tree_digest(&sandbox.work()), before, "{command:?}");
    }
}

/// The commands that need a native key, in a project with a thread, an open record and a ledger.
fn native<'a>(thread: &'a [&'a str]) -> Vec<&'a [&'a str]> {
    vec![
        &["seal", "new.json"],
        &["seal", "old.json", "new.json"],
        &["seal", "open.jsonl", "--final"],
        &[
            "run",
            "demo/greet",
            "--project",
            "p",
            "-i",
            "name=Ada",
            "--script",
            "answers.yaml",
        ],
        thread,
        &["ledger", "append", "file:new", "--run", "r1", "--sign"],
        &["ledger", "sign", "open.jsonl"],
        &["key", "delegate", "open.jsonl", "--to", "self"],
        &["prune", "ended.jsonl", "--reason", "x"],
    ]
}

// T-KLOG-01
#[test]
fn a_key_that_ended_seals_nothing_more_whoever_asks() {
    for end in [
        &["key", "revoke", "self", "--reason", "stolen"][..],
        &["trust", "revoke", "self", "--reason", "stolen"],
    ] {
        let sandbox = project();
        let told = greet(&sandbox, &["--script", "answers.yaml", "--json"]).exits(0);
        let thread = told.json()["thread_id"].as_str().unwrap().to_owned();
        drop(recorder(&sandbox, "open.jsonl", 1));
        drop(recorder(&sandbox, "ended.jsonl", 1));
        sandbox.run(["seal", "ended.jsonl", "--final"]).exits(0);
        for name in ["old.json", "new.json"] {
            sandbox.write(name, "{}\n");
        }
        sandbox.write("more.yaml", "answers: [{when: Once more., text: Gladly.}]");
        sandbox.run(["seal", "old.json"]).exits(0);
        let ended = sandbox.run(end).exits(0);
        let next = "next: threadseal key rotate self";
        assert!(
            end[0] == "trust" || ended.stderr.contains(next),
            "{}",
            ended.stderr
        );
        let how = if end[0] == "key" {
            ": revoked)"
        } else {
            ": stolen)"
        };
        refused(
            &sandbox,
            &native(&once_more(&thread)),
            &["the key self ended", how, next],
        );
        // Existing records verify, and `key rotate` is a way out.
        sandbox.run(["key", "rotate", "self"]).exits(0);
        sandbox.run(["seal", "new.json"]).exits(0);
        sandbox.run(["verify", "new.json"]).exits(0);
        if end[0] == "key" {
            // After an end by the clock, nothing proves that the project was sealed before that
            // end.
            greet(&sandbox, &["--script", "answers.yaml"]).exits(0);
        }
    }
}

// T-KLOG-01
#[test]
fn a_key_whose_place_another_took_says_which() {
    let sandbox = ready();
    let keys = sandbox.run(["key", "list", "--json"]).exits(0).json();
    let mut keys = keys["keys"].as_array().unwrap().iter();
    let own = keys.find(|key| key["name"] == "self").unwrap();
    let old = format!("self-{}", &own["key_id"].as_str().unwrap()[..8]);
    sandbox.run(["key", "rotate", "self"]).exits(0);
    sandbox.write("new.json", "{}\n");
    let seal = ["seal", "new.json", "--key", &old];
    refused(
        &sandbox,
        &[&seal],
        &[&old, ": rotated)", "took its place, self"],
    );
    // Removing the key from the trust store changes nothing.
    sandbox.run(["trust", "remove", &old]).exits(0);
    refused(&sandbox, &[&seal], &[": rotated)"]);
}

// T-KLOG-01
#[test]
fn keys_of_other_usages_end_in_the_trust_store() {
    let sandbox = ready();
    sandbox.write("some.jsonl", "{\"a\":1}\n");
    sandbox.write("turns.json", "[]");
    for (name, command) in [
        ("self-observed", &["seal", "--detached", "some.jsonl"][..]),
        ("self-observed", &["watch", "."]),
        ("self-rye", &["seal", "--profile", "rye", "some.jsonl"]),
        (
            "self-scroll",
            &["scroll", "seal", "turns.json", "--key", "self-scroll"],
        ),
    ] {
        sandbox.run(["trust", "revoke", name]).exits(0);
        let next = format!("next: threadseal key new --usage {}", &name[5..]);
        refused(&sandbox, &[command], &[name, &next]);
    }
    // Only native seals make a native record count, so its Rye key cannot replace the native one.
    drop(recorder(&sandbox, "open.jsonl", 1));
    sandbox.run(["seal", "open.jsonl", "--final"]).exits(0);
    sandbox.run(["verify", "open.jsonl"]).exits(0);
}
