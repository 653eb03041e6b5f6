//! Evidence of a fork in the log of a home: every copy of that record fails there, and no other
//! record is affected.

use crate::evidence::{COPIES, forked};
use crate::prelude::*;

/// Two copies of a record, and the evidence of their fork as `fork`.
fn with_evidence() -> Sandbox {
    let sandbox = forked();
    sandbox
        .exits(
            1,
            format!("verify {} {} --evidence fork", COPIES[0], COPIES[1]),
        )
        .warns("log accuse");
    sandbox
}

fn size(sandbox: &Sandbox) -> u64 {
    let status = sandbox.json("log status");
    status["size"].number()
}

// T-FRK-07
#[test]
fn each_copy_of_a_record_is_forked_once_the_evidence_is_in_the_log() {
    let sandbox = with_evidence();
    sandbox.ok(format!("verify {}", COPIES[0]));
    let before = size(&sandbox);
    let told = sandbox.ok("log accuse fork --json");
    let told = told.json();
    assert_eq!(told["state"], "written");
    let kept = fs::read(told["evidence"].text()).unwrap();
    assert_eq!(kept, fs::read(sandbox.path("fork")).unwrap());
    for copy in COPIES {
        let seen = sandbox.exits(1, format!("verify {copy:?} --json")).json();
        seen.is(json!({"results/0/verdict": "forked"}));
        assert!(seen.codes().contains(&"fork_known"), "{seen}");
    }
    // The log takes the evidence once, whatever the name of its file.
    fs::copy(sandbox.path("fork"), sandbox.path("another name")).unwrap();
    let place = told["evidence"].text();
    fs::remove_file(place).unwrap();
    let again = sandbox.sh("log accuse 'another name' --json");
    assert_eq!(again.exits(0).json()["state"], "known");
    assert_eq!(fs::read(place).unwrap(), kept);
    assert_eq!(size(&sandbox), before + 1);
    sandbox
        .ok("log entries --limit 1")
        .prints("fork")
        .prints("evidence");
    // The log gives the same answer from its tiles as from its journal.
    sandbox.ok("log head --write");
    sandbox.ok("log fsck");
    sandbox.exits(1, format!("verify {}", COPIES[1]));
}

// T-FRK-07
#[test]
fn a_record_that_the_log_calls_forked_is_not_continued() {
    let sandbox = ready();
    let path = open_record(&sandbox, "one.jsonl", 2);
    let older = fs::read(&path).unwrap();
    let other = sandbox.stolen();
    sandbox.write("there.jsonl", &older);
    sandbox.ok("seal one.jsonl --take-over");
    sandbox.in_home(&other, "seal there.jsonl --final").exits(0);
    sandbox.exits(1, "verify one.jsonl there.jsonl --evidence fork");
    sandbox.ok("seal one.jsonl --take-over");
    sandbox.ok("log accuse fork");
    let refused = sandbox.sh("seal one.jsonl --final");
    refused.refuses_with("the record is forked");
    // `--expect-head` selects the history before the fork on purpose.
    sandbox.write("before.jsonl", &older);
    let head = {
        let trusted = sandbox.home().join("keys/self.native.pub");
        let nowhere = sandbox.home().with_file_name("nowhere");
        let seen = sandbox.in_home(
            &nowhere,
            &format!("verify before.jsonl --trust {trusted:?} --json"),
        );
        seen.json()["results"][0]["head"].text().to_owned()
    };
    sandbox
        .sh(format!("verify before.jsonl --as-of {head}"))
        .omits("fork_known");
    sandbox.exits(1, "verify before.jsonl");
}

// T-FRK-14
#[test]
fn what_proves_nothing_is_not_taken_into_the_log() {
    let sandbox = with_evidence();
    let (before, text) = (size(&sandbox), sandbox.read("fork"));
    let seals: Vec<&str> = text.lines().filter(|l| l.starts_with("seal ")).collect();
    let twice = text.replacen(seals[1], seals[0], 1);
    let changed = text.replacen("\"turn\":2", "\"turn\":3", 1);
    for (name, bad) in [
        ("twice", twice.as_str()),
        ("changed", &changed),
        ("cut", &text[..text.len() - 9]),
    ] {
        sandbox.write(name, bad);
        sandbox.exits(1, format!("log accuse {name}"));
    }
    sandbox.write("other", "a text\n");
    sandbox.exits(2, "log accuse other");
    // Another home, which trusts only its own keys.
    let stranger = ready();
    stranger.write("fork", &text);
    let refused = stranger.exits(3, "log accuse fork --json");
    assert_eq!(refused.json()["state"], "refused");
    assert!(!stranger.home().join("evidence").exists());
    assert_eq!(size(&sandbox), before);
    assert!(!sandbox.home().join("evidence").exists());
    sandbox.ok(format!("verify {}", COPIES[0]));
}

// T-FRK-14
#[test]
fn other_records_and_homes_hear_no_alarm() {
    let sandbox = with_evidence();
    let honest = ended_record(&sandbox, "honest.jsonl", 2);
    sandbox.ok("log accuse fork");
    fs::copy(&honest, sandbox.path("copied.jsonl")).unwrap();
    sandbox.ok("verify copied.jsonl");
    fs::rename(&honest, sandbox.path("moved.jsonl")).unwrap();
    sandbox.ok("verify moved.jsonl");
}

/// A restart carries the known forks over; the evidence stays in the home.
// T-FRK-07
#[test]
fn a_restarted_log_still_knows_the_fork() {
    let sandbox = with_evidence();
    let saved = sandbox.home().with_file_name("saved");
    sandbox.ok("log accuse fork");
    copy(&sandbox.home(), &saved);
    ended_record(&sandbox, "later.jsonl", 1);
    sandbox.sh("seal later.jsonl");
    sandbox.sealed("later.json", "{\"a\":1}\n");
    fs::remove_dir_all(sandbox.home()).unwrap();
    fs::rename(&saved, sandbox.home()).unwrap();
    sandbox.ok("log restart");
    sandbox
        .exits(1, format!("verify {}", COPIES[1]))
        .prints("in two ways");
}

/// The finding codes and the result of the check `log` for a proof.
fn proof_told(ran: &Ran) -> (Vec<String>, Option<String>) {
    let report = &ran.json()["result"];
    let of = |list: &str, name: &str, keep: &dyn Fn(&Value) -> bool| -> Vec<String> {
        let list = report[list].list().iter();
        let kept = list.filter(|one| keep(one));
        kept.map(|one| one[name].text().to_owned()).collect()
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
        sandbox.ok(format!("prove {turn} --out {proof}"));
    }
    let theirs = "prove there/one.jsonl#2 --out theirs";
    sandbox.in_home(&other, theirs).exits(0);
    let check = |proof: &str, code| {
        let ran = sandbox.sh(format!("check-proof {proof} --json"));
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
    let by = format!("check-proof theirs --json --key {own:?}");
    assert_eq!(
        proof_told(&sandbox.in_home(&nowhere, &by).exits(0)),
        (vec![], None)
    );
    let stranger = ready();
    let home = stranger.home();
    assert_eq!(
        proof_told(&sandbox.in_home(&home, &by).exits(0)),
        (vec![], None)
    );
    sandbox.ok("log accuse fork");
    assert_eq!(
        check("last", 1),
        (vec!["fork_known".to_owned()], pass.clone())
    );
    let shown = sandbox.sh("check-proof last --json").json();
    assert_eq!((&shown["turn"], &shown["lines"]), (&().into(), &json!([])));
    assert_eq!(check("theirs", 1).0, ["head_differs", "fork_known"]);
    // Before the fork there was one history.
    assert_eq!(check("first", 0), unsaid);
}

// T-PRF-24
#[test]
fn a_log_that_cannot_be_read_passes_no_check_of_a_turn() {
    let sandbox = ready();
    open_record(&sandbox, "t.jsonl", 2);
    sandbox.ok("seal t.jsonl --final");
    sandbox.ok("prove t.jsonl#2 --out proof");
    let check = || proof_told(&sandbox.ok("check-proof proof --json"));
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
