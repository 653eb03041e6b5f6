//! `prune`: whole records go, tombstones stay, and only a tombstone that the log knows excuses a
//! missing record.

use crate::fixtures::{ended_record, ready, recorder};
use crate::run::{greet, project, thread};
use crate::sandbox::{Ran, Sandbox, copy};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use threadseal_formats::transcript::event::{EventType, Payload};
use threadseal_formats::transcript::ext::Ext;
use threadseal_formats::transcript::{Ending, Link};
use threadseal_store::recorder::Recorder;
use threadseal_store::tombstones::place_of;

/// An ended thread with detached bodies that began a child, which also ended; the folders of both.
fn ended() -> (Sandbox, PathBuf, PathBuf) {
    let sandbox = project();
    let more = ["--script", "answers.yaml", "--bodies", "detached", "-q"];
    greet(&sandbox, &more).exits(0);
    let (parent, child) = (thread(&sandbox, "greet"), thread(&sandbox, "child"));
    (sandbox, parent, child)
}

fn tombstone_in(folder: &Path) -> PathBuf {
    folder.join("transcript.jsonl.tombstone")
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn run_in(sandbox: &Sandbox, home: &Path, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command();
    command.args(arguments).env("THREADSEAL_HOME", home);
    Ran::of(command.output().unwrap())
}

/// The codes of all findings of one `verify`.
pub(crate) fn codes(output: &Value) -> Vec<String> {
    let results = output["results"].as_array().unwrap();
    let findings = results
        .iter()
        .flat_map(|report| report["findings"].as_array().unwrap());
    findings
        .map(|found| found["code"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn verify(sandbox: &Sandbox, arguments: &[&str], exit: i32) -> Vec<String> {
    let ran = sandbox.run([&["verify", "--json"], arguments].concat());
    codes(&ran.exits(exit).json())
}

pub(crate) fn has(codes: &[String], code: &str) -> bool {
    codes.iter().any(|found| found == code)
}

// T-PRU-04
#[test]
fn a_tombstone_is_judged_elsewhere_by_its_key_alone() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "r.jsonl", 1);
    sandbox
        .run(["prune", text(&path), "--reason", "time is up"])
        .exits(0);
    let place = place_of(&path);
    sandbox
        .run(["verify", text(&place)])
        .fails_with("a tombstone is not a record; hint: threadseal check-proof");
    let judged = sandbox.run(["check-proof", text(&place)]).exits(0);
    assert!(judged.stdout.contains("time is up"), "{}", judged.stdout);
    let stranger = Sandbox::new();
    let own = sandbox.home().join("keys/self.native.pub");
    let other = sandbox.home().join("keys/self-rye.rye.pub");
    let judge = ["check-proof", text(&place)];
    stranger.run(judge).exits(3);
    stranger
        .run([&judge[..], &["--key", text(&own)]].concat())
        .exits(0);
    stranger
        .run([&judge[..], &["--key", text(&other)]].concat())
        .exits(1);
    // The key that signed the tombstone has ended since: nothing is forged, and nothing is
    // verified.
    sandbox
        .run(["key", "revoke", "self", "--reason", "x"])
        .exits(0);
    let ended = sandbox.run(judge).exits(3);
    assert!(ended.stdout.contains("key_ended"), "{}", ended.stdout);
    let changed = fs::read_to_string(&place)
        .unwrap()
        .replace("is up", "is mine");
    sandbox.write("changed.tombstone", changed);
    sandbox.run(["check-proof", "changed.tombstone"]).exits(1);
    // A record is no proof.
    let record = ended_record(&sandbox, "other.jsonl", 1);
    sandbox
        .run(["check-proof", text(&record)])
        .fails_with("threadseal verify");
}

#[test]
fn a_thread_is_pruned_whole_and_nothing_misses_it() {
    let (sandbox, parent, child) = ended();
    let secret = fs::read_to_string(parent.join("transcript.bodies")).unwrap();
    assert!(secret.contains("I write it."), "{secret}");
    let would = sandbox.run(["prune", text(&parent), "--dry-run"]).exits(0);
    assert!(would.stdout.starts_with("would prune "), "{}", would.stdout);
    assert!(parent.join("transcript.jsonl").exists() && !tombstone_in(&parent).exists());
    let pruned = sandbox.run([
        "prune",
        text(&parent),
        "--reason",
        "ninety days are over",
        "--json",
    ]);
    let output = pruned.exits(0).json();
    assert_eq!(output["schema"], "threadseal.prune/1");
    assert_eq!(output["pruned"][0]["left"], serde_json::json!([]));
    assert_eq!(names_in(&parent), ["transcript.jsonl.tombstone"]);
    let tombstone = fs::read_to_string(tombstone_in(&parent)).unwrap();
    assert!(tombstone.contains("ninety days are over"), "{tombstone}");
    // The child names the pruned record, which is missing neither in the folder nor for `verify
    // --all`.
    let seen = verify(&sandbox, &["p"], 0);
    assert!(has(&seen, "pruned"), "{seen:?}");
    let all = sandbox
        .run(["verify", "--all", "p", "--json"])
        .exits(0)
        .json();
    let reports = all["results"].as_array().unwrap();
    let notes = reports
        .iter()
        .flat_map(|report| report["findings"].as_array().unwrap());
    let mut notes = notes.filter(|note| note["code"] == "pruned");
    let says = |note: &Value| {
        note["message"]
            .as_str()
            .unwrap()
            .contains("ninety days are over")
    };
    assert!(notes.any(|note| says(note) && note["severity"] == "note"));
    assert!(!has(&codes(&all), "record_missing"));
    // Its thread.json and ledger, which were pruned with it, are not missing either.
    let of_thread = |report: &&Value| report["checks"][0]["name"] == "tombstone";
    assert!(reports.iter().filter(of_thread).count() >= 3, "{all}");
    sandbox.run(["log", "fsck"]).exits(0);
    let entries = ["log", "entries", "--from", "0", "--limit", "1000"];
    let listed = sandbox.run(entries).exits(0).stdout;
    assert!(listed.contains(" tombstone "), "{listed}");
    // The log after a restart knows it, too.
    sandbox.run(["log", "restart", "--anyway"]).exits(0);
    assert!(has(&verify(&sandbox, &["--all", "p"], 0), "pruned"));
    sandbox.run(["prune", text(&child)]).exits(0);
    assert!(!has(
        &verify(&sandbox, &["--all", "p"], 0),
        "record_missing"
    ));
}

// T-PRU-01 T-PRU-05
#[test]
fn a_tombstone_that_was_changed_moved_to_another_record_or_removed_excuses_nothing() {
    let (sandbox, parent, child) = ended();
    sandbox.run(["prune", text(&child)]).exits(0);
    let place = tombstone_in(&child);
    let good = fs::read_to_string(&place).unwrap();
    assert!(has(&verify(&sandbox, &["p"], 0), "pruned"));
    // No key signed these.
    let others = [
        good.replace("\"why\":\"\"", "\"why\":\"x\""),
        good.replace("\"seq\":", "\"seq\":1"),
        "{}\n".to_owned(),
    ];
    for other in others {
        assert_ne!(other, good);
        fs::write(&place, other).unwrap();
        let seen = verify(&sandbox, &["p"], 1);
        assert!(
            has(&seen, "record_missing") && !has(&seen, "pruned"),
            "{seen:?}"
        );
        let seen = verify(&sandbox, &["--all", "p"], 1);
        assert!(
            has(&seen, "record_missing") && !has(&seen, "pruned"),
            "{seen:?}"
        );
        // A false tombstone permits no deletion either.
        sandbox.run(["prune", text(&child)]).exits(2);
    }
    fs::remove_file(&place).unwrap();
    assert!(has(&verify(&sandbox, &["--all", "p"], 1), "record_missing"));
    // The tombstone of the child does not prune the parent.
    fs::write(&place, &good).unwrap();
    fs::write(tombstone_in(&parent), &good).unwrap();
    let kept = names_in(&parent).len();
    let refused = sandbox.run(["prune", text(&parent)]).exits(2);
    assert!(
        refused.stderr.contains("another record"),
        "{}",
        refused.stderr
    );
    assert_eq!(names_in(&parent).len(), kept);
    // It does not excuse the parent where the record itself was taken away, either.
    fs::remove_file(parent.join("transcript.jsonl")).unwrap();
    sandbox.run(["prune", text(&parent)]);
    assert_eq!(names_in(&parent).len(), kept - 1);
    let seen = verify(&sandbox, &["--all", "p"], 1);
    assert!(has(&seen, "record_missing"), "{seen:?}");
}

// T-PRU-03
#[test]
fn a_prune_that_a_log_which_went_back_forgot_is_open_and_said_again_once_that_is_settled() {
    let (sandbox, parent, child) = ended();
    let (home, kept) = (sandbox.home(), sandbox.home().with_extension("kept"));
    copy(&home, &kept);
    sandbox
        .run(["prune", text(&child), "--reason", "old"])
        .exits(0);
    // Restored from before the prune, except for the second place.
    fs::remove_dir_all(&home).unwrap();
    copy(&kept, &home);
    let seen = verify(&sandbox, &["p"], 3);
    assert!(
        has(&seen, "pruned_unproved") && !has(&seen, "record_missing"),
        "{seen:?}"
    );
    // A tombstone with a bad signature, or none, excuses nothing there, either.
    let place = tombstone_in(&child);
    let good = fs::read_to_string(&place).unwrap();
    fs::write(&place, good.replace("old", "new")).unwrap();
    assert!(has(&verify(&sandbox, &["p"], 1), "record_missing"));
    fs::write(&place, &good).unwrap();
    sandbox.run(["prune", text(&child)]).exits(2);
    sandbox.run(["log", "restart"]).exits(0);
    assert!(has(&verify(&sandbox, &["p"], 1), "record_missing"));
    sandbox.run(["prune", text(&child)]).exits(0);
    assert_eq!(fs::read_to_string(&place).unwrap(), good);
    assert!(has(&verify(&sandbox, &["--all", "p"], 0), "pruned"));
    // A tombstone that the log does not know permits no deletion.
    fs::write(tombstone_in(&parent), &good).unwrap();
    sandbox.run(["prune", text(&parent)]).exits(2);
    assert!(parent.join("transcript.jsonl").exists());
}

// T-PRU-02
#[test]
fn a_tombstone_that_the_log_does_not_know_or_of_another_key_excuses_nothing() {
    let (sandbox, parent, child) = ended();
    let kept = sandbox.work().join("kept");
    copy(&child, &kept);
    // A thief with a copy of the key signs any tombstone outside of the owner's log: here, in a
    // home that is put back.
    let (home, marks) = (sandbox.home(), sandbox.home().with_extension("marks"));
    let places = [
        (&home, home.with_extension("kept")),
        (&marks, home.with_extension("marks.kept")),
    ];
    for (place, kept) in &places {
        copy(place, kept);
    }
    sandbox.run(["prune", text(&child)]).exits(0);
    for (place, kept) in &places {
        fs::remove_dir_all(place).unwrap();
        copy(kept, place);
    }
    for folder in [&["p"][..], &["--all", "p"]] {
        let seen = verify(&sandbox, folder, 1);
        assert!(
            has(&seen, "record_missing") && !has(&seen, "pruned"),
            "{seen:?}"
        );
    }
    // The owner cannot make it valid while the record is gone.
    sandbox.run(["prune", text(&child)]).exits(2);
    assert!(has(&verify(&sandbox, &["--all", "p"], 1), "record_missing"));
    // A prune that was killed before its entry in the log leaves the same: the next one verifies
    // the record, and prunes it.
    copy(&kept, &child);
    sandbox.run(["prune", text(&child)]).exits(0);
    assert_eq!(names_in(&child), ["transcript.jsonl.tombstone"]);
    assert!(has(&verify(&sandbox, &["--all", "p"], 0), "pruned"));
    // Another home has another key: it prunes nothing here, and its tombstone counts for nothing.
    let stranger = sandbox.home().with_file_name("stranger");
    run_in(&sandbox, &stranger, &["init", "-q"]).exits(0);
    run_in(&sandbox, &stranger, &["prune", text(&parent)]).exits(2);
    run_in(&sandbox, &stranger, &["prune", text(&child)]).exits(2);
    assert!(parent.join("transcript.jsonl").exists() && !tombstone_in(&parent).exists());
}

// T-PRU-17 T-PRU-19
#[test]
fn a_record_that_is_there_after_its_tombstone_is_told_and_goes_with_the_next_prune() {
    let (sandbox, parent, child) = ended();
    let kept = sandbox.work().join("kept");
    copy(&parent, &kept);
    sandbox.run(["prune", text(&parent)]).exits(0);
    // Killed before the last file was deleted, or restored from a backup.
    for name in ["transcript.jsonl", "transcript.bodies"] {
        fs::copy(kept.join(name), parent.join(name)).unwrap();
    }
    let record = parent.join("transcript.jsonl");
    let seen = verify(&sandbox, &[text(&record)], 0);
    assert!(has(&seen, "pruned_but_present"), "{seen:?}");
    // Every command that relies on it gets the same report.
    let first = format!("{}#1", text(&record));
    let proved = sandbox.run(["--json", "prove", "--out", "proof", first.as_str()]);
    let proved = proved.exits(0).json();
    let findings = proved["result"]["findings"].as_array().unwrap();
    let is_told = |found: &Value| found["code"] == "pruned_but_present";
    assert!(findings.iter().any(is_told), "{proved}");
    let seen = verify(&sandbox, &["--all", "p"], 1);
    assert!(has(&seen, "pruned_but_present"), "{seen:?}");
    sandbox.run(["prune", text(&record)]).exits(0);
    assert_eq!(names_in(&parent), ["transcript.jsonl.tombstone"]);
    let seen = verify(&sandbox, &["--all", "p"], 0);
    assert!(!has(&seen, "pruned_but_present"), "{seen:?}");
    assert!(child.join("transcript.jsonl").exists());
}

// T-PRU-08
#[test]
fn what_is_open_changed_or_unknown_is_not_pruned() {
    let (sandbox, parent, child) = ended();
    let record = child.join("transcript.jsonl");
    let whole = fs::read(&record).unwrap();
    let refused = |arguments: &[&str], why: &str| {
        let ran = sandbox.run([&["prune"], arguments].concat()).exits(2);
        assert!(ran.stderr.contains(why), "{why}: {}", ran.stderr);
        assert!(!tombstone_in(&child).exists());
    };
    let mut changed = whole.clone();
    changed[100] ^= 1;
    fs::write(&record, &changed).unwrap();
    refused(&[text(&record)], "");
    let last = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n');
    fs::write(&record, &whole[..=last.unwrap()]).unwrap();
    refused(&[text(&record)], "");
    fs::write(&record, [&whole[..], b"{}\n"].concat()).unwrap();
    refused(&[text(&record)], "");
    fs::write(&record, &whole).unwrap();
    // The files that belong to the record must verify as well.
    let metadata = child.join("thread.json");
    let kept = fs::read(&metadata).unwrap();
    let edited = String::from_utf8_lossy(&kept).replacen("completed", "cancelled", 1);
    assert_ne!(edited.as_bytes(), kept);
    fs::write(&metadata, edited).unwrap();
    refused(&[text(&child)], "thread.json");
    fs::write(&metadata, kept).unwrap();
    refused(&["postgres://x@localhost/threads"], "name what is meant");
    refused(&["nowhere"], "neither a file nor a thread");
    let ledger = names_in(&parent)
        .into_iter()
        .find(|name| name.ends_with(".index"));
    refused(&[text(&parent.join(ledger.unwrap()))], "");
    // Without a log, no one could know later that the record was pruned.
    let without = sandbox.home().with_file_name("without");
    run_in(&sandbox, &without, &["init", "-q", "--no-log"]).exits(0);
    let ran = run_in(&sandbox, &without, &["prune", text(&child)]).exits(2);
    assert!(ran.stderr.contains("no log"), "{}", ran.stderr);
    sandbox.run(["verify", "p"]).exits(0);
}

/// An ended record whose last events make claims about another record.
fn ended_with(sandbox: &Sandbox, name: &str, says: impl FnOnce(&mut Recorder)) -> PathBuf {
    let mut parent = recorder(sandbox, name, 1);
    says(&mut parent);
    parent.path().to_owned()
}

fn payload(value: &Value) -> Payload {
    Payload::parse(value.to_string().as_bytes()).unwrap()
}

// T-PRU-11
#[test]
fn a_record_whose_child_or_successor_is_open_is_not_pruned() {
    let sandbox = ready();
    let mut other = recorder(&sandbox, "other.jsonl", 1);
    let record = other.state().head().unwrap().record;
    let nothing = payload(&serde_json::json!({}));
    let parent = ended_with(&sandbox, "parent.jsonl", |parent| {
        let began = serde_json::json!({"child_thread_id": "demo/thread-1", "child_record": record.to_string()});
        let event = EventType::parse("child_thread_started").unwrap();
        parent.append(&event, &payload(&began)).unwrap();
        parent.end(Ending::Completed, &nothing, 1).unwrap();
    });
    let before = ended_with(&sandbox, "before.jsonl", |before| {
        before.end(Ending::Completed, &nothing, 1).unwrap();
        let ext = Ext {
            successor: Some(record),
            ..Ext::default()
        };
        let to = serde_json::json!({"new_thread_id": "demo/thread-1"});
        before.link(Link::Resumed, &payload(&to), ext).unwrap();
    });
    for open in [&parent, &before] {
        let refused = sandbox.run(["prune", text(open)]).exits(2);
        let why = format!("no end of that thread is known here: demo/thread-1, record {record}");
        assert!(refused.stderr.contains(&why), "{}", refused.stderr);
        assert!(open.exists() && !place_of(open).exists());
    }
    other.end(Ending::Completed, &nothing, 1).unwrap();
    for over in [&parent, &before] {
        sandbox.run(["prune", text(over)]).exits(0);
        assert!(!over.exists() && place_of(over).exists());
    }
}

#[test]
fn a_record_in_a_store_that_is_a_folder_is_pruned_by_its_name() {
    let sandbox = ready();
    let record = ended_record(&sandbox, "store/one.jsonl", 1);
    sandbox.run(["prune", "file:store#two"]).exits(2);
    sandbox.run(["prune", "file:store#one"]).exits(0);
    assert!(!record.exists() && place_of(&record).exists());
    assert!(has(&verify(&sandbox, &["--all"], 0), "pruned"));
    sandbox.run(["prune", "file:store#one"]).exits(0);
}

// T-PRU-18
#[test]
fn a_record_that_was_put_back_after_it_was_pruned_is_not_sealed_on() {
    let (sandbox, parent, _) = ended();
    let kept = sandbox.work().join("kept");
    copy(&parent, &kept);
    sandbox.run(["prune", text(&parent)]).exits(0);
    for name in names_in(&kept) {
        fs::copy(kept.join(&name), parent.join(name)).unwrap();
    }
    let record = parent.join("transcript.jsonl");
    let redact = ["redact", text(&record), "--turn", "1", "--why", "x"];
    let resume = [
        "thread",
        "resume",
        "-m",
        "On.",
        "--script",
        "answers.yaml",
        "--project",
        "p",
    ];
    let id = format!("demo/{}", parent.file_name().unwrap().to_str().unwrap());
    let resume = [&resume[..], &[id.as_str()]].concat();
    for sealing in [&redact[..], &resume] {
        let refused = sandbox.run(sealing).exits(2);
        assert!(refused.stderr.contains("was pruned"), "{}", refused.stderr);
        let whole = fs::read(kept.join("transcript.jsonl")).unwrap();
        assert_eq!(fs::read(&record).unwrap(), whole);
    }
    // If its tombstone is missing, a home with the log and the key signs it anew.
    fs::remove_file(tombstone_in(&parent)).unwrap();
    sandbox.run(["prune", text(&record)]).exits(0);
    assert_eq!(names_in(&parent), ["transcript.jsonl.tombstone"]);
}

#[test]
fn records_of_a_folder_are_pruned_by_their_age() {
    let (sandbox, parent, child) = ended();
    let none = ["prune", "p", "--older-than", "90d"];
    let ran = sandbox.run(none).exits(0);
    assert!(ran.stdout.contains("nothing to prune"), "{}", ran.stdout);
    sandbox
        .run(["prune", "p", "--older-than", "ninety"])
        .exits(2);
    let file = parent.join("transcript.jsonl");
    sandbox
        .run(["prune", text(&file), "--older-than", "90d"])
        .exits(2);
    assert!(file.exists());
    let all = ["prune", "p", "--older-than", "0h", "--reason", "retention"];
    let ran = sandbox.run(all).exits(0);
    assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stdout);
    for folder in [&parent, &child] {
        assert_eq!(names_in(folder), ["transcript.jsonl.tombstone"]);
    }
    let seen = verify(&sandbox, &["--all", "p"], 0);
    assert!(
        has(&seen, "pruned") && !has(&seen, "record_missing"),
        "{seen:?}"
    );
}
