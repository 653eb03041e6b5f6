//! `anchor`: this home's log and its witnesses, as real processes.

use crate::prelude::*;
use threadseal_core::note::SignedNote;
use threadseal_core::tlog::policy::{Judgement, Policy};

/// A home with a log of one entry, and the log's key.
pub(crate) fn logged() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    seal(&sandbox, "first");
    let status = sandbox.json("log status");
    let vkey = status["vkey"].text().to_owned();
    (sandbox, vkey)
}

pub(crate) fn seal(sandbox: &Sandbox, name: &str) {
    let file = format!("{name}.json");
    sandbox.write(&file, format!("{{\"name\":\"{name}\"}}\n"));
    sandbox.ok(format!("seal {file}"));
}

pub(crate) fn policy(log: &str, witnesses: &[&Serving], least: usize) -> String {
    let mut text = format!("log {log}\n");
    let mut names = String::new();
    for (number, serving) in witnesses.iter().enumerate() {
        let Serving { key, address, .. } = serving;
        text.push_str(&format!("witness w{number} {key} http://{address}/\n"));
        names.push_str(&format!(" w{number}"));
    }
    format!("{text}group all {least}{names}\nquorum all\n")
}

pub(crate) fn add(sandbox: &Sandbox, name: &str, text: &str) {
    let file = format!("{name}.txt");
    sandbox.write(&file, text);
    sandbox.ok(format!("anchor add {file}"));
}

fn check(sandbox: &Sandbox, names: &str) -> Ran {
    sandbox.sh(format!("anchor check --json {names}"))
}

// T-WIT-09 T-WIT-12
#[test]
fn a_quorum_is_met_or_not_by_who_answers_and_what_was_collected_can_be_judged_by_anybody() {
    let (sandbox, log) = logged();
    let (first, second) = (witness(&[&log]), witness(&[&log]));
    let (one, mut two) = (Serving::start(&first), Serving::start(&second));
    let text = policy(&log, &[&one, &two], 2);
    add(&sandbox, "both", &text);
    add(&sandbox, "either", &policy(&log, &[&one, &two], 1));
    sandbox.ok("anchor list").prints(&one.address);
    let checked = check(&sandbox, "both").exits(0).json();
    assert_eq!(checked["policies"][0]["state"], "witnessed");
    let folder = sandbox.home().join("log").join(&log[15..47]);
    let kept = |size: u32| {
        let path = folder.join(format!("{size}.cosigned"));
        SignedNote::parse(&read(path)).unwrap()
    };
    let note = kept(2);
    assert_eq!(note.signatures().len(), 3);
    let judged = Policy::parse(text.as_bytes()).unwrap().judge(&note);
    assert!(matches!(judged, Ok(Judgement::Witnessed(_))), "{judged:?}");
    // A second check gets the same cosignatures, and keeps no line twice.
    check(&sandbox, "").exits(0);
    assert_eq!(kept(2).signatures().len(), 3);
    // The log grows, and one witness is no longer reachable.
    (0..40).for_each(|number| seal(&sandbox, &format!("more{number}")));
    two.signal("KILL");
    two.ended();
    let checked = check(&sandbox, "both").exits(3).json();
    checked.is(json!({"size": 42, "policies/0/state": "no_quorum"}));
    let why = checked["policies"][0]["witnesses"][1]["why"].text();
    why.has("cannot be reached");
    check(&sandbox, "either").exits(0);
    sandbox.ok("anchor check either --offline");
    check(&sandbox, "").exits(3);
    // The cosignatures of both on the older tree remain, whatever one of them answers on the newer
    // tree.
    assert_eq!(kept(2).signatures().len(), 3);
    assert_eq!(kept(42).signatures().len(), 2);
    fs::remove_file(sandbox.home().join("anchors/either.policy")).unwrap();
    let anchored = |name: &str, code| {
        let ran = sandbox.sh(format!("verify {name} --require-anchor"));
        ran.exits(code)
    };
    anchored("first.json", 0);
    anchored("more0.json", 3);
    // A cosignature of another tree in the same file makes no quorum and removes none.
    let line = kept(2).signatures().last().unwrap().to_string();
    let path = folder.join("42.cosigned");
    let foreign = format!("{}{line}", read(&path));
    fs::write(&path, &foreign).unwrap();
    check(&sandbox, "both --offline").exits(3);
    anchored("more0.json", 3);
    add(&sandbox, "either", &policy(&log, &[&one, &two], 1));
    anchored("more0.json", 0);
    check(&sandbox, "either").exits(0);
    assert_eq!(kept(42).signatures().len(), 2);
    seal(&sandbox, "last");
    sandbox.exits(3, "anchor check either --offline");
}

// T-WIT-24
#[test]
fn a_witness_shows_a_home_that_went_back_and_that_it_forked() {
    let (sandbox, log) = logged();
    let witness = witness(&[&log]);
    let serving = Serving::start(&witness);
    add(&sandbox, "w", &policy(&log, &[&serving], 1));
    let copied = sandbox.path("copied");
    copy(&sandbox.home(), &copied);
    seal(&sandbox, "second");
    check(&sandbox, "").exits(0);
    // Home and mark roll back together: nothing on this host shows it.
    let mark = sandbox.home().with_extension("marks");
    put_back(&copied, &sandbox.home());
    fs::remove_dir_all(&mark).unwrap();
    sandbox.exits(3, "log status");
    let checked = check(&sandbox, "").exits(1).json();
    let told = &checked["policies"][0]["witnesses"][0];
    assert_eq!(told["state"], "contradicted");
    assert!(told["why"].text().contains("log_rolled_back"), "{told}");
    // The log continues on another branch, up to the size that was cosigned.
    seal(&sandbox, "another");
    let checked = check(&sandbox, "").exits(1).json();
    let why = checked["policies"][0]["witnesses"][0]["why"].text();
    why.has("forked");
    let kept = why.split_once("kept: ").unwrap().1;
    assert!(Conflict::parse(&read(kept)).is_ok());
    witness.exits(1, "witness list");
    seal(&sandbox, "beyond");
    check(&sandbox, "").exits(1);
}

// T-WIT-11
#[test]
fn a_witness_that_is_another_than_the_policy_names_counts_for_nothing() {
    let (sandbox, log) = logged();
    let (first, second) = (witness(&[&log]), witness(&[&log]));
    let (one, mut two) = (Serving::start(&first), Serving::start(&second));
    let swapped = std::mem::replace(&mut two.address, one.address.clone());
    add(&sandbox, "w", &policy(&log, &[&two], 1));
    let checked = check(&sandbox, "").exits(3).json();
    assert_eq!(
        checked["policies"][0]["witnesses"][0]["state"],
        "not_cosigned"
    );
    two.address = swapped;
    add(&sandbox, "w", &policy(&log, &[&two], 1));
    check(&sandbox, "").exits(0);
    add(&sandbox, "n", &format!("log {log}\nquorum none\n"));
    let none = check(&sandbox, "n").exits(3).json();
    assert_eq!(none["policies"][0]["state"], "log_only");
}

#[test]
fn a_policy_that_does_not_name_this_log_is_not_kept() {
    let (sandbox, log) = logged();
    sandbox.sh("anchor check").fails_with("anchor add");
    sandbox.sh("anchor check x").fails_with("anchor list");
    let (_, other) = logged();
    for (text, part) in [
        (
            format!("log {other}\nquorum none\n"),
            "add the line: log threadseal.log/",
        ),
        (format!("log {log}\n"), "quorum"),
        ("quorum none\n".to_owned(), "add the line"),
    ] {
        let path = sandbox.write("p.txt", text);
        sandbox.sh(format!("anchor add {path:?}")).fails_with(part);
    }
    let path = sandbox.write("Bad Name.txt", format!("log {log}\nquorum none\n"));
    let added = sandbox.sh(format!("anchor add {path:?}"));
    added.fails_with("--name");
    assert!(sandbox.ok("anchor list").stdout.is_empty());
}

#[test]
fn a_policy_of_the_log_before_is_told_and_keeps_no_other_from_being_asked() {
    let (sandbox, log) = logged();
    let first = witness(&[&log]);
    let one = Serving::start(&first);
    add(&sandbox, "old", &policy(&log, &[&one], 1));
    check(&sandbox, "").exits(0);
    let restarted = sandbox.ok("log restart --anyway");
    for part in [
        "the policy \"old\" names the previous key",
        "threadseal witness add",
        "log publish",
    ] {
        restarted.stderr.has(part);
    }
    let status = sandbox.json("log status");
    let log = status["vkey"].text();
    let second = witness(&[log]);
    let two = Serving::start(&second);
    add(&sandbox, "young", &policy(log, &[&two], 1));
    let checked = check(&sandbox, "").exits(3).json();
    let states = checked["policies"].list().iter();
    let states: Vec<_> = states
        .map(|policy| (&policy["name"], &policy["state"]))
        .collect();
    assert_eq!(
        states,
        [
            (&"old".into(), &"outdated".into()),
            (&"young".into(), &"witnessed".into())
        ]
    );
    assert_eq!(checked["exit"], 3);
    // The check repeats the finding for as long as the policy is kept.
    sandbox.ok("anchor remove old");
    sandbox.sh("anchor remove old").fails_with("anchor list");
    let checked = sandbox.ok("anchor check").stdout;
    let year = checked.contains("witnessed at 20");
    assert!(year && checked.contains("Z\n"), "{checked}");
}
