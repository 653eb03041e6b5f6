//! Forks of lineages in the log of a home: no state after a fork passes there, and no other lineage
//! is affected.

use super::moves::{Machines, copy};
use super::{codes, report};
use crate::sandbox::{PROGRAM, Ran, Sandbox};
use std::fs;
use std::process::Command;

/// Runs in another home, which has no log.
fn elsewhere(machines: &Machines, words: &[&str]) -> Ran {
    let mut command = Command::new(PROGRAM);
    command.env_clear().current_dir(machines.sandbox.work());
    command.env("THREADSEAL_HOME", machines.path("elsewhere"));
    Ran::of(command.args(words).output().unwrap())
}

/// An agent of three links in `here`. Its copy in `other` has another third link, `at_parent` has
/// none, and `before` has the first alone. The evidence is `proof`.
fn forked() -> Machines {
    let machines = Machines::new();
    let folder = |name: &str| machines.path(name);
    copy(&folder("here"), &folder("before"));
    machines.append("here", "2", "");
    copy(&folder("here"), &folder("at_parent"));
    copy(&folder("here"), &folder("other"));
    machines.append("here", "3", "");
    let words =
        "lineage append other --agent counter --state state --budget 800 --price 1 --tick 3 --code";
    let code = "00".repeat(32);
    let words: Vec<&str> = words.split(' ').chain([&*code]).collect();
    elsewhere(&machines, &words).exits(0);
    machines.run("lineage fork-proof here other -o proof", &[], 0);
    machines
}

fn accuse(machines: &Machines) -> serde_json::Value {
    let trust = ["trust", "add", &machines.root, "--name", "counter"];
    machines.sandbox.run(trust).exits(0);
    machines.run("log accuse proof", &[], 0)
}

fn is_accused(machines: &Machines, place: &str) -> bool {
    let seen = report(&machines.sandbox, &["lineage", "verify", place]);
    let is_accused = codes(&seen).contains(&"fork_known");
    assert!(!is_accused || seen["verdict"] == "forked", "{seen}");
    is_accused
}

#[test]
fn whoever_has_a_fork_of_a_lineage_is_told_what_it_proves_and_who_vouches_for_it() {
    let machines = forked();
    let judged = |words: &[&str], code| machines.sandbox.run(words).exits(code);
    let told = judged(&["check-proof", "proof", "--json"], 3).json();
    assert_eq!(told["result"]["verdict"], "unknown_signer");
    assert_eq!(codes(&told["result"]), ["links_conflict", "key_unknown"]);
    judged(&["check-proof", "proof", "--key", &machines.root], 0);
    judged(&["check-proof", "proof", "--key", &machines.session], 1);
    judged(&["lineage", "check-proof", "proof"], 0);
    // Neither command needs a home, and both report the same on a changed file.
    let bare = Sandbox::new();
    let proof = fs::read(machines.path("proof")).unwrap();
    bare.write("proof", &proof);
    bare.run(["check-proof", "proof", "--key", &machines.root])
        .exits(0);
    for at in (0..proof.len()).step_by(97) {
        let mut changed = proof.clone();
        changed[at] ^= 1;
        bare.write("changed", changed);
        bare.run(["lineage", "check-proof", "changed"]).exits(1);
        let ran = bare.run(["check-proof", "changed", "--key", &machines.root]);
        // Without its first line the file is no proof at all.
        assert!(ran.code == 1 || at < 8, "{at}: {ran:?}");
    }
}

// T-FRK-08
#[test]
fn what_goes_on_from_a_fork_that_the_log_knows_is_forked_and_nothing_else_is() {
    let machines = forked();
    // Another person's agent of the same name, and the copies as they were.
    let mine = machines.path("mine");
    fs::create_dir(&mine).unwrap();
    machines.run("lineage identity new counter --dir mine", &[], 0);
    machines.append("mine", "1", "");
    for folder in ["here", "other", "at_parent", "before", "mine"] {
        assert!(!is_accused(&machines, folder), "{folder}");
    }
    // The key is not trusted yet.
    machines.run("log accuse proof", &[], 3);
    assert!(!is_accused(&machines, "here"));
    let told = accuse(&machines);
    assert_eq!(
        (&told["state"], &told["seq"]),
        (&"written".into(), &2.into())
    );
    let kept = told["evidence"].as_str().unwrap();
    assert_eq!(
        fs::read(kept).unwrap(),
        fs::read(machines.path("proof")).unwrap()
    );
    assert!(kept.ends_with(".fork"), "{kept}");
    assert_eq!(machines.run("log accuse proof", &[], 0)["state"], "known");
    for folder in ["here", "other", "at_parent", "here/counter.checkpoint"] {
        assert!(is_accused(&machines, folder), "{folder}");
    }
    for folder in ["before", "mine"] {
        assert!(!is_accused(&machines, folder), "{folder}");
    }
    let entries = machines.sandbox.run(["log", "entries", "--limit", "1"]);
    let entries = entries.exits(0).stdout;
    assert!(entries.contains("two links in one place"), "{entries}");
    // The log gives the same answer from its tiles as from its journal.
    machines.sandbox.run(["log", "head", "--write"]).exits(0);
    machines.sandbox.run(["log", "fsck"]).exits(0);
    assert!(is_accused(&machines, "other"));
    // Another host raises no alarm.
    let there = elsewhere(&machines, &["verify", "here"]);
    assert!(!there.stdout.contains("fork_known"), "{}", there.stdout);
}

// T-FRK-08
#[test]
fn nothing_goes_on_from_a_lineage_that_the_log_calls_forked() {
    let machines = forked();
    let offer = ["lineage", "release", "other", "--to", &machines.session];
    elsewhere(&machines, &offer).exits(0);
    let export = "lineage export other -o package --for-target delegation";
    elsewhere(&machines, &export.split(' ').collect::<Vec<_>>()).exits(0);
    accuse(&machines);
    let before = fs::read(machines.path("here/counter.checkpoint")).unwrap();
    let append =
        "lineage append here --agent counter --state state --budget 700 --price 1 --tick 4 --code";
    let code = "00".repeat(32);
    for (line, more) in [
        (append, &*code),
        ("lineage release here --to", &machines.session),
        ("lineage recover here --to", &machines.session),
        ("lineage recover at_parent --to", &machines.session),
        (
            "lineage import package there --key there/session.identity --root",
            &machines.root,
        ),
    ] {
        let ran = machines.sandbox.run(line.split(' ').chain([more]));
        assert!(ran.code != 0, "{line}");
        assert!(
            ran.stderr.contains("nothing continues from there"),
            "{line}: {}",
            ran.stderr
        );
    }
    assert_eq!(
        fs::read(machines.path("here/counter.checkpoint")).unwrap(),
        before
    );
    assert!(!machines.path("there/counter.checkpoint").exists());
    // Another agent of this host continues.
    machines.run("lineage identity new another --dir here", &[], 0);
    let words = append.replace("counter", "another");
    machines.run(&words, &[&code], 0);
    machines.run(&words.replace("--tick 4", "--tick 5"), &[&code], 0);
}

// T-FRK-08
#[test]
fn a_state_before_the_fork_can_be_looked_at_and_a_restarted_log_still_knows_it() {
    let machines = forked();
    let seen = elsewhere(&machines, &["verify", "at_parent", "--json"]).json();
    let head = seen["results"][0]["head"].as_str().unwrap().to_owned();
    accuse(&machines);
    assert!(is_accused(&machines, "at_parent"));
    let before = machines
        .sandbox
        .run(["verify", "at_parent/counter.checkpoint", "--as-of", &head]);
    assert!(!before.stdout.contains("fork_known"), "{}", before.stdout);
    assert_eq!(before.code, 0, "{}", before.stdout);
    let after = machines
        .sandbox
        .run(["verify", "here/counter.checkpoint", "--as-of", &head]);
    assert!(after.code != 0, "{}", after.stdout);
    // The log rolls back, and another one takes its place.
    let home = machines.sandbox.home();
    let saved = home.with_file_name("saved");
    crate::sandbox::copy(&home, &saved);
    machines
        .sandbox
        .run(["key", "new", "--name", "later"])
        .exits(0);
    fs::remove_dir_all(&home).unwrap();
    fs::rename(&saved, &home).unwrap();
    machines.sandbox.run(["log", "restart"]).exits(0);
    assert!(is_accused(&machines, "here"));
}
