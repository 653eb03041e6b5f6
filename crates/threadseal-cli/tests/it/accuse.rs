//! Evidence of a fork in the log of a home: every copy of that record fails there, and no other
//! record is affected.

use crate::evidence::{COPIES, forked, in_home};
use crate::fixtures::{ended_record, ready};
use crate::sandbox::Sandbox;
use std::fs;

/// Two copies of a record, and the evidence of their fork as `fork`.
fn with_evidence() -> Sandbox {
    let sandbox = forked();
    let make = ["verify", COPIES[0], COPIES[1], "--evidence", "fork"];
    let made = sandbox.run(make).exits(1);
    assert!(made.stderr.contains("log accuse"), "{}", made.stderr);
    sandbox
}

fn size(sandbox: &Sandbox) -> u64 {
    let status = sandbox.run(["log", "status", "--json"]).exits(0).json();
    status["size"].as_u64().unwrap()
}

// T-FRK-07
#[test]
fn each_copy_of_a_record_is_forked_once_the_evidence_is_in_the_log() {
    let sandbox = with_evidence();
    sandbox.run(["verify", COPIES[0]]).exits(0);
    let before = size(&sandbox);
    let told = sandbox.run(["log", "accuse", "fork", "--json"]).exits(0);
    let told = told.json();
    assert_eq!(told["state"], "written");
    let kept = fs::read(told["evidence"].as_str().unwrap()).unwrap();
    assert_eq!(kept, fs::read(sandbox.work().join("fork")).unwrap());
    for copy in COPIES {
        let seen = sandbox.run(["verify", copy, "--json"]).exits(1).json();
        assert_eq!(seen["results"][0]["verdict"], "forked", "{seen}");
        let findings = seen["results"][0]["findings"].as_array().unwrap();
        assert!(
            findings.iter().any(|found| found["code"] == "fork_known"),
            "{seen}"
        );
    }
    // The log takes the evidence once, whatever the name of its file.
    fs::copy(
        sandbox.work().join("fork"),
        sandbox.work().join("another name"),
    )
    .unwrap();
    let place = told["evidence"].as_str().unwrap();
    fs::remove_file(place).unwrap();
    let again = sandbox.run(["log", "accuse", "another name", "--json"]);
    assert_eq!(again.exits(0).json()["state"], "known");
    assert_eq!(fs::read(place).unwrap(), kept);
    assert_eq!(size(&sandbox), before + 1);
    let entries = sandbox.run(["log", "entries", "--limit", "1"]).exits(0);
    assert!(
        entries.stdout.contains("fork") && entries.stdout.contains("evidence"),
        "{}",
        entries.stdout
    );
    // The log gives the same answer from its tiles as from its journal.
    sandbox.run(["log", "head", "--write"]).exits(0);
    sandbox.run(["log", "fsck"]).exits(0);
    sandbox.run(["verify", COPIES[1]]).exits(1);
}

// T-FRK-07
#[test]
fn nobody_goes_on_with_a_record_that_the_log_calls_forked() {
    let sandbox = ready();
    let path = crate::fixtures::open_record(&sandbox, "one.jsonl", 2);
    let older = fs::read(&path).unwrap();
    let other = sandbox.home().with_file_name("elsewhere");
    crate::sandbox::copy(&sandbox.home(), &other);
    crate::sandbox::take_log_away(&other);
    sandbox.write("there.jsonl", &older);
    sandbox.run(["seal", "one.jsonl", "--take-over"]).exits(0);
    in_home(&sandbox, &other, &["seal", "there.jsonl", "--final"]).exits(0);
    let copies = ["verify", "one.jsonl", "there.jsonl", "--evidence", "fork"];
    sandbox.run(copies).exits(1);
    sandbox.run(["seal", "one.jsonl", "--take-over"]).exits(0);
    sandbox.run(["log", "accuse", "fork"]).exits(0);
    let refused = sandbox.run(["seal", "one.jsonl", "--final"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("forked"), "{}", refused.stderr);
    // `--expect-head` selects the history before the fork on purpose.
    sandbox.write("before.jsonl", &older);
    let head = {
        let trusted = sandbox.home().join("keys/self.native.pub");
        let nowhere = sandbox.home().with_file_name("nowhere");
        let trust = trusted.to_str().unwrap();
        let seen = in_home(
            &sandbox,
            &nowhere,
            &["verify", "before.jsonl", "--trust", trust, "--json"],
        );
        seen.json()["results"][0]["head"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let before = sandbox.run(["verify", "before.jsonl", "--as-of", &head]);
    assert!(!before.stdout.contains("fork_known"), "{}", before.stdout);
    sandbox.run(["verify", "before.jsonl"]).exits(1);
}

// T-FRK-14
#[test]
fn what_proves_nothing_is_not_taken_into_the_log() {
    let sandbox = with_evidence();
    let (before, text) = (
        size(&sandbox),
        fs::read_to_string(sandbox.work().join("fork")).unwrap(),
    );
    let seals: Vec<&str> = text.lines().filter(|l| l.starts_with("seal ")).collect();
    let twice = text.replacen(seals[1], seals[0], 1);
    let changed = text.replacen("\"turn\":2", "\"turn\":3", 1);
    for (name, bad) in [
        ("twice", twice.as_str()),
        ("changed", &changed),
        ("cut", &text[..text.len() - 9]),
    ] {
        sandbox.write(name, bad);
        sandbox.run(["log", "accuse", name]).exits(1);
    }
    sandbox.write("other", "a text\n");
    sandbox.run(["log", "accuse", "other"]).exits(2);
    // Another home, which trusts only its own keys.
    let stranger = ready();
    stranger.write("fork", &text);
    let refused = stranger.run(["log", "accuse", "fork", "--json"]).exits(3);
    assert_eq!(refused.json()["state"], "refused");
    assert!(!stranger.home().join("evidence").exists());
    assert_eq!(size(&sandbox), before);
    assert!(!sandbox.home().join("evidence").exists());
    sandbox.run(["verify", COPIES[0]]).exits(0);
}

// T-FRK-14
#[test]
fn other_records_and_homes_hear_no_alarm() {
    let sandbox = with_evidence();
    let honest = ended_record(&sandbox, "honest.jsonl", 2);
    sandbox.run(["log", "accuse", "fork"]).exits(0);
    fs::copy(&honest, sandbox.work().join("copied.jsonl")).unwrap();
    sandbox.run(["verify", "copied.jsonl"]).exits(0);
    fs::rename(&honest, sandbox.work().join("moved.jsonl")).unwrap();
    sandbox.run(["verify", "moved.jsonl"]).exits(0);
}

/// A restart carries the known forks over; the evidence stays in the home.
// T-FRK-07
#[test]
fn a_restarted_log_still_knows_the_fork() {
    let sandbox = with_evidence();
    let saved = sandbox.home().with_file_name("saved");
    sandbox.run(["log", "accuse", "fork"]).exits(0);
    crate::sandbox::copy(&sandbox.home(), &saved);
    ended_record(&sandbox, "later.jsonl", 1);
    sandbox.run(["seal", "later.jsonl"]);
    sandbox.write("later.json", "{\"a\":1}\n");
    sandbox.run(["seal", "later.json"]).exits(0);
    fs::remove_dir_all(sandbox.home()).unwrap();
    fs::rename(&saved, sandbox.home()).unwrap();
    sandbox.run(["log", "restart"]).exits(0);
    let seen = sandbox.run(["verify", COPIES[1]]).exits(1);
    assert!(seen.stdout.contains("in two ways"), "{}", seen.stdout);
}

/// The finding codes and the result of the check `log` for a proof.
fn proof_told(ran: &crate::sandbox::Ran) -> (Vec<String>, Option<String>) {
    let report = &ran.json()["result"];
    let of = |list: &str, name: &str, keep: &dyn Fn(&serde_json::Value) -> bool| -> Vec<String> {
        let list = report[list].as_array().unwrap().iter();
        let kept = list.filter(|one| keep(one));
        kept.map(|one| one[name].as_str().unwrap().to_owned())
            .collect()
    };
    let codes = of("findings", "code", &|_| true);
    let checks = of("checks", "result", &|one| one["name"] == "log");
    (codes, checks.first().cloned())
}

// T-PRF-23
#[test]
fn a_turn_that_the_log_contradicts_is_forked_and_an_older_one_is_not() {
    let sandbox = with_evidence();
    let other = sandbox.home().with_file_name("elsewhere");
    for (turn, proof) in [("one.jsonl#1", "first"), ("one.jsonl#2", "last")] {
        sandbox.run(["prove", turn, "--out", proof]).exits(0);
    }
    let theirs = ["prove", "there/one.jsonl#2", "--out", "theirs"];
    in_home(&sandbox, &other, &theirs).exits(0);
    let check = |proof: &str, code| {
        let ran = sandbox.run(["check-proof", proof, "--json"]);
        proof_told(&ran.exits(code))
    };
    let pass = Some("pass".to_owned());
    // The closing seal was made before this log knew the record.
    let unsaid = (vec![], Some("skipped".to_owned()));
    assert_eq!(check("first", 0), unsaid);
    assert_eq!(check("last", 0), (vec![], pass.clone()));
    let contradicted = (vec!["head_differs".to_owned()], Some("fail".to_owned()));
    assert_eq!(check("theirs", 1), contradicted);
    // A home that does not know the record adds no finding; neither does a check without a home.
    let nowhere = sandbox.home().with_file_name("nowhere");
    let own = sandbox.home().join("keys/self.native.pub");
    let by = [
        "check-proof",
        "theirs",
        "--json",
        "--key",
        own.to_str().unwrap(),
    ];
    assert_eq!(
        proof_told(&in_home(&sandbox, &nowhere, &by).exits(0)),
        (vec![], None)
    );
    let stranger = ready();
    let home = stranger.home();
    assert_eq!(
        proof_told(&in_home(&sandbox, &home, &by).exits(0)),
        (vec![], None)
    );
    sandbox.run(["log", "accuse", "fork"]).exits(0);
    assert_eq!(
        check("last", 1),
        (vec!["fork_known".to_owned()], pass.clone())
    );
    let shown = sandbox.run(["check-proof", "last", "--json"]).json();
    assert_eq!(
        (&shown["turn"], &shown["lines"]),
        (&().into(), &serde_json::json!([]))
    );
    assert_eq!(check("theirs", 1).0, ["head_differs", "fork_known"]);
    // Before the fork there was one history.
    assert_eq!(check("first", 0), unsaid);
}

// T-PRF-24
#[test]
fn a_log_that_cannot_be_asked_of_a_turn_is_told_and_passes_no_check() {
    let sandbox = ready();
    crate::fixtures::open_record(&sandbox, "t.jsonl", 2);
    sandbox.run(["seal", "t.jsonl", "--final"]).exits(0);
    sandbox
        .run(["prove", "t.jsonl#2", "--out", "proof"])
        .exits(0);
    let check = || proof_told(&sandbox.run(["check-proof", "proof", "--json"]).exits(0));
    assert_eq!(check(), (vec![], Some("pass".to_owned())));
    let current = sandbox.home().join("log/current");
    let saved = fs::read(&current).unwrap();
    fs::write(&current, "damaged").unwrap();
    let (codes, result) = check();
    assert_eq!(codes, ["seal_log_damaged"]);
    assert_eq!(result.as_deref(), Some("skipped"));
    fs::remove_file(&current).unwrap();
    let (codes, result) = check();
    assert_eq!(codes, ["seal_log_missing"]);
    assert_eq!(result.as_deref(), Some("skipped"));
    fs::write(&current, saved).unwrap();
    assert_eq!(check(), (vec![], Some("pass".to_owned())));
}
