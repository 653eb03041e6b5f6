//! Ledgers of one run id in several places: what this host knows of an unsigned one is bound to its
//! place, and what it knows of a signed one to its run.

use super::commands::STEPS;
use crate::prelude::*;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::{RunId, record_in_place};
use threadseal_store::heads::{HeadStore as _, StoredHead, Swap};
use threadseal_store::home::Home;
use threadseal_store::sys::RealFs;

const PLACES: [&str; 4] = ["file:a", "file:b", "sqlite:c.db", "object+file:d"];
const STEP: &str = "{\"node\":\"plan\"}\n";

#[track_caller]
fn append(sandbox: &Sandbox, store: &str, more: &str, steps: &str) {
    piped(
        sandbox,
        &format!("ledger append {store} --run r1 {more}"),
        steps,
    )
    .exits(0);
}

#[track_caller]
fn report_on(sandbox: &Sandbox, store: &str) -> Value {
    sandbox.report(format!("ledger verify {store} --run r1"))
}

// T-LED-33
#[test]
fn unsigned_ledgers_of_one_run_id_in_several_places_are_several_ledgers() {
    let sandbox = ready();
    for (number, store) in PLACES.iter().enumerate() {
        // The first place has the longest chain.
        let steps = STEP.repeat(PLACES.len() - number);
        append(&sandbox, store, "", &steps);
    }
    let all_verify = || {
        for (number, store) in PLACES.iter().enumerate() {
            let report = report_on(&sandbox, store);
            assert_eq!(report["verdict"], "verified", "{report:#}");
            let is_noted = report.codes().contains(&"known_elsewhere");
            assert_eq!(is_noted, number > 0, "{report:#}");
            if is_noted {
                let text = report["findings"].item("code", "known_elsewhere")["message"].text();
                text.has("up to record 3 in");
                text.has("/a/ledger_r1.jsonl");
            }
        }
        sandbox.ok("verify --all a b c.db object+file:d");
    };
    all_verify();
    // Each takes further records, whatever the others have.
    for store in PLACES {
        append(&sandbox, store, "", STEP);
    }
    for store in PLACES {
        assert_eq!(report_on(&sandbox, store)["verdict"], "verified");
    }
}

// T-LED-34
#[test]
fn an_unsigned_ledger_is_still_rolled_back_or_forked_in_its_own_place() {
    let sandbox = ready();
    append(&sandbox, "file:b", "", &STEP.repeat(9));
    append(&sandbox, "file:a", "", STEPS);
    let path = sandbox.path("a/ledger_r1.jsonl");
    let honest = lines(&path);
    let other = ready();
    append(&other, "file:a", "", STEPS);
    let another = other.read("a/ledger_r1.jsonl");
    for (text, verdict) in [
        (honest[..1].concat(), "rolled_back"),
        (honest.concat().replace("\"ho\"", "\"he\""), "tampered"),
        (another, "forked"),
        (String::new(), "rolled_back"),
    ] {
        fs::write(&path, text).unwrap();
        let _ = fs::remove_file(sandbox.path("a/ledger_r1.index"));
        assert_eq!(report_on(&sandbox, "file:a")["verdict"], verdict);
        sandbox.exits(1, "verify a");
        if verdict != "tampered" {
            let ran = piped(&sandbox, "ledger append file:a --run r1", STEP);
            ran.exits(2);
        }
    }
    fs::write(&path, honest.concat()).unwrap();
    let _ = fs::remove_file(sandbox.path("a/ledger_r1.index"));
    assert_eq!(report_on(&sandbox, "file:a")["verdict"], "verified");
    // Only the log knows it.
    sandbox.forget_heads();
    fs::write(&path, &honest[0]).unwrap();
    assert_eq!(report_on(&sandbox, "file:a")["verdict"], "rolled_back");
    fs::remove_file(&path).unwrap();
    sandbox.exits(1, "verify --all");
}

// T-LED-33
#[test]
fn a_copy_of_an_unsigned_ledger_verifies_by_what_it_contains_and_a_cut_one_is_no_rollback() {
    let sandbox = ready();
    append(&sandbox, "file:a", "", STEPS);
    let honest = lines(sandbox.path("a/ledger_r1.jsonl"));
    sandbox.write("e/ledger_r1.jsonl", honest.concat());
    assert_eq!(report_on(&sandbox, "file:e")["verdict"], "verified");
    sandbox.write("e/ledger_r1.jsonl", &honest[0]);
    let report = report_on(&sandbox, "file:e");
    report.is(json!({"verdict": "consistent", "completeness": "unproved"}));
    assert!(report.codes().contains(&"known_elsewhere"), "{report:#}");
    fs::remove_dir_all(sandbox.path("e")).unwrap();
    // One that moved is found by its content, and its former place misses nothing.
    fs::rename(sandbox.path("a"), sandbox.path("f")).unwrap();
    sandbox.exits(1, "verify --all");
    sandbox.ok("verify --all f");
    sandbox.write("f/ledger_r1.jsonl", &honest[0]);
    sandbox.exits(1, "verify --all f");
}

// T-LED-35
#[test]
fn a_signed_ledger_is_bound_to_its_run_everywhere() {
    let sandbox = ready();
    append(&sandbox, "file:a", "--sign", STEPS);
    let honest = lines(sandbox.path("a/ledger_r1.jsonl"));
    let other = ready();
    append(&other, "file:a", "", &STEP.repeat(9));
    for (text, verdict) in [
        (other.read("a/ledger_r1.jsonl"), "forked"),
        (honest[..2].concat(), "rolled_back"),
    ] {
        sandbox.write("e/ledger_r1.jsonl", text);
        assert_eq!(report_on(&sandbox, "file:e")["verdict"], verdict);
        piped(&sandbox, "ledger append file:e --run r1 --sign", STEP).exits(1);
    }
    sandbox.write("e/ledger_r1.jsonl", honest.concat());
    assert_eq!(report_on(&sandbox, "file:e")["verdict"], "verified");
    // A place without the run misses it.
    fs::create_dir(sandbox.path("g")).unwrap();
    let report = report_on(&sandbox, "file:g");
    assert_eq!(report["verdict"], "rolled_back", "{report:#}");
    assert!(report.codes().contains(&"ledger_missing"), "{report:#}");
}

/// Puts the known head of the ledger in `a` back as earlier builds kept it: under its run alone.
fn as_earlier_builds_kept_it(sandbox: &Sandbox) {
    let heads = Home::open(RealFs::shared(), &sandbox.home())
        .unwrap()
        .heads();
    let place = sandbox.path("a/ledger_r1.jsonl");
    let place = fs::canonicalize(place).unwrap();
    let run = RunId::parse("r1").unwrap().record_id();
    let own = record_in_place(&run, place.to_str().unwrap());
    let stored = heads.fetch(&own).unwrap().unwrap();
    let mut head = stored.head;
    head.record = run;
    sandbox.forget();
    let first_seen: Timestamp = stored.first_seen;
    let swap = heads.create(&StoredHead {
        head,
        first_seen,
        aliases: Vec::new(),
        ..stored
    });
    assert_eq!(swap.unwrap(), Swap::Stored);
    sandbox.ok("log init");
    let places = sandbox.home().join("log/places");
    fs::create_dir_all(&places).unwrap();
    fs::write(
        places.join(run.to_string()),
        format!("{}\n", place.display()),
    )
    .unwrap();
}

// T-LED-34
#[test]
fn heads_of_earlier_builds_hold_in_the_place_that_was_noted_of_them() {
    let sandbox = ready();
    append(&sandbox, "file:a", "", STEPS);
    as_earlier_builds_kept_it(&sandbox);
    let path = sandbox.path("a/ledger_r1.jsonl");
    let honest = lines(&path);
    assert_eq!(report_on(&sandbox, "file:a")["verdict"], "verified");
    // Another ledger of that run id elsewhere is not accused.
    append(&sandbox, "file:b", "", STEP);
    let report = report_on(&sandbox, "file:b");
    assert_eq!(report["verdict"], "verified", "{report:#}");
    assert!(report.codes().contains(&"known_elsewhere"), "{report:#}");
    fs::write(&path, &honest[0]).unwrap();
    assert_eq!(report_on(&sandbox, "file:a")["verdict"], "rolled_back");
    piped(&sandbox, "ledger append file:a --run r1", STEP).exits(2);
    fs::write(&path, honest.concat()).unwrap();
    append(&sandbox, "file:a", "", STEP);
    assert_eq!(report_on(&sandbox, "file:a")["verdict"], "verified");
    fs::write(&path, honest.concat()).unwrap();
    assert_eq!(report_on(&sandbox, "file:a")["verdict"], "rolled_back");
}
