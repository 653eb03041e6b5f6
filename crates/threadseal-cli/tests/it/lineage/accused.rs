//! Forks of lineages in the log of a home: no state after a fork passes there, and no other lineage
//! is affected.

use super::moves::{Machines, copy};
use crate::prelude::*;
use crate::sandbox::PROGRAM;

/// Runs in another home, which has no log.
fn elsewhere(machines: &Machines, line: &str) -> Ran {
    let mut command = Command::new(PROGRAM);
    command.env_clear().current_dir(machines.sandbox.work());
    command.env("THREADSEAL_HOME", machines.path("elsewhere"));
    Ran::of(command.args(words(line)).output().unwrap())
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
    elsewhere(&machines, &format!("{words} {code}")).exits(0);
    machines.json("lineage fork-proof here other -o proof");
    machines
}

/// The agents' key is trusted by the home that made it, until this.
fn distrust(machines: &Machines) {
    machines.sandbox.ok("trust remove counter");
}

fn accuse(machines: &Machines) -> Value {
    machines.json("log accuse proof")
}

fn is_accused(machines: &Machines, place: &str) -> bool {
    let seen = machines.sandbox.report(format!("lineage verify {place}"));
    let is_accused = seen.codes().contains(&"fork_known");
    assert!(!is_accused || seen["verdict"] == "forked", "{seen}");
    is_accused
}

#[test]
fn a_fork_proof_of_a_lineage_states_what_it_proves_and_its_signer() {
    let machines = forked();
    let judged = |words: &str, code| machines.sandbox.exits(code, words);
    judged("check-proof proof", 0);
    distrust(&machines);
    let told = judged("check-proof proof --json", 3).json();
    assert_eq!(told["result"]["verdict"], "unknown_signer");
    assert_eq!(told["result"].codes(), ["links_conflict", "key_unknown"]);
    judged(&format!("check-proof proof --key {}", machines.root), 0);
    judged(&format!("check-proof proof --key {}", machines.session), 3);
    judged("lineage check-proof proof", 0);
    // Neither command needs a home, and both report the same on a changed file.
    let bare = Sandbox::new();
    let proof = fs::read(machines.path("proof")).unwrap();
    bare.write("proof", &proof);
    bare.ok(format!("check-proof proof --key {}", machines.root));
    for at in (0..proof.len()).step_by(97) {
        let mut changed = proof.clone();
        changed[at] ^= 1;
        bare.write("changed", changed);
        bare.exits(1, "lineage check-proof changed");
        let ran = bare.sh(format!("check-proof changed --key {}", machines.root));
        // Without its first line the file is no proof at all.
        assert!(ran.code == 1 || at < 8, "{at}: {ran:?}");
    }
}

// T-FRK-08
#[test]
fn only_states_after_a_logged_fork_are_forked() {
    let machines = forked();
    // Another person's agent of the same name, and the copies as they were.
    let mine = machines.path("mine");
    fs::create_dir(&mine).unwrap();
    machines.json("lineage identity new counter --dir mine");
    machines.append("mine", "1", "");
    for folder in ["here", "other", "at_parent", "before", "mine"] {
        assert!(!is_accused(&machines, folder), "{folder}");
    }
    // Without trust in the key the proof accuses no one.
    distrust(&machines);
    machines.exits(3, "log accuse proof --json");
    assert!(!is_accused(&machines, "here"));
    machines
        .sandbox
        .ok(format!("trust add {} --name counter", machines.root));
    let told = accuse(&machines);
    told.is(json!({"state": "written", "seq": 2}));
    let kept = told["evidence"].text();
    assert_eq!(
        fs::read(kept).unwrap(),
        fs::read(machines.path("proof")).unwrap()
    );
    assert!(kept.ends_with(".fork"), "{kept}");
    assert_eq!(machines.json("log accuse proof")["state"], "known");
    for folder in ["here", "other", "at_parent", "here/counter.checkpoint"] {
        assert!(is_accused(&machines, folder), "{folder}");
    }
    for folder in ["before", "mine"] {
        assert!(!is_accused(&machines, folder), "{folder}");
    }
    let entries = machines.sandbox.sh("log entries --limit 1");
    entries.exits(0).prints("two links in one place");
    // The log gives the same answer from its tiles as from its journal.
    machines.sandbox.ok("log head --write");
    machines.sandbox.ok("log fsck");
    assert!(is_accused(&machines, "other"));
    // Another host raises no alarm.
    elsewhere(&machines, "verify here").omits("fork_known");
}

// T-FRK-08
#[test]
fn nothing_continues_from_a_lineage_that_the_log_calls_forked() {
    let machines = forked();
    let offer = format!("lineage release other --to {}", machines.session);
    elsewhere(&machines, &offer).exits(0);
    let export = "lineage export other -o package --for-target delegation";
    elsewhere(&machines, export).exits(0);
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
        let ran = machines.sh(format!("{line} {more}"));
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
    machines.json("lineage identity new another --dir here");
    let words = append.replace("counter", "another");
    machines.json(format!("{words} {code}"));
    machines.json(format!("{} {code}", words.replace("--tick 4", "--tick 5")));
}

// T-FRK-08
#[test]
fn a_state_before_the_fork_can_be_looked_at_and_a_restarted_log_still_knows_it() {
    let machines = forked();
    let seen = elsewhere(&machines, "verify at_parent --json").json();
    let head = seen["results"][0]["head"].text().to_owned();
    accuse(&machines);
    assert!(is_accused(&machines, "at_parent"));
    let before = machines
        .sandbox
        .sh(format!(
            "verify at_parent/counter.checkpoint --as-of {head}"
        ))
        .omits("fork_known");
    assert_eq!(before.code, 0, "{}", before.stdout);
    let after = machines
        .sandbox
        .sh(format!("verify here/counter.checkpoint --as-of {head}"));
    assert!(after.code != 0, "{}", after.stdout);
    // The log rolls back, and another one takes its place.
    let home = machines.sandbox.home();
    let saved = home.with_file_name("saved");
    copy(&home, &saved);
    machines.sandbox.ok("key new --name later");
    fs::remove_dir_all(&home).unwrap();
    fs::rename(&saved, &home).unwrap();
    machines.sandbox.ok("log restart");
    assert!(is_accused(&machines, "here"));
}
