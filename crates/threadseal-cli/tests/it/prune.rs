//! `prune`: whole records go, tombstones stay, and only a tombstone that the log knows excuses a
//! missing record.

use crate::prelude::*;
use threadseal_store::recorder::Recorder;
use threadseal_store::tombstones::place_of;

/// An ended thread with detached bodies that began a child, which also ended; the folders of both.
fn ended() -> (Sandbox, PathBuf, PathBuf) {
    let sandbox = project();
    greeted(&sandbox, "--bodies detached -q");
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

/// The codes of all findings of one `verify`.
pub(crate) fn codes(output: &Value) -> Vec<String> {
    let results = output["results"].list();
    let findings = results.iter().flat_map(|report| report["findings"].list());
    findings
        .map(|found| found["code"].text().to_owned())
        .collect()
}

pub(crate) fn verify(sandbox: &Sandbox, arguments: &str, exit: i32) -> Vec<String> {
    let ran = sandbox.sh(format!("verify --json {arguments}"));
    codes(&ran.exits(exit).json())
}

// T-PRU-04
#[test]
fn a_tombstone_is_judged_elsewhere_by_its_key_alone() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "r.jsonl", 1);
    sandbox.ok(format!("prune --yes {path:?} --reason 'time is up'"));
    let place = place_of(&path);
    sandbox
        .sh(format!("verify {place:?}"))
        .fails_with("a tombstone is not a record; hint: threadseal check-proof");
    sandbox
        .ok(format!("check-proof {place:?}"))
        .prints("time is up");
    let stranger = Sandbox::new();
    let own = sandbox.home().join("keys/self.native.pub");
    let other = sandbox.home().join("keys/self-rye.rye.pub");
    let judge = format!("check-proof {place:?}");
    stranger.exits(3, &judge);
    stranger.ok(format!("{judge} --key {own:?}"));
    stranger.exits(3, format!("{judge} --key {other:?}"));
    // The key that signed the tombstone has ended since: nothing is forged, and nothing is
    // verified.
    sandbox.ok("key revoke self --reason x");
    sandbox.exits(3, &judge).prints("key_ended");
    let changed = read(&place).replace("is up", "is mine");
    sandbox.write("changed.tombstone", changed);
    sandbox.exits(1, "check-proof changed.tombstone");
    // A record is no proof.
    let record = ended_record(&sandbox, "other.jsonl", 1);
    sandbox
        .sh(format!("check-proof {record:?}"))
        .fails_with("threadseal verify");
}

#[test]
fn a_thread_is_pruned_whole_and_nothing_misses_it() {
    let (sandbox, parent, child) = ended();
    read(parent.join("transcript.bodies")).has("I write it.");
    sandbox
        .ok(format!("prune --yes {parent:?} --dry-run"))
        .begins_with("would prune ");
    assert!(parent.join("transcript.jsonl").exists() && !tombstone_in(&parent).exists());
    let pruned = sandbox.sh(format!(
        "prune --yes {parent:?} --reason 'ninety days are over' --json"
    ));
    let output = pruned.exits(0).json();
    output.is(json!({"schema": "threadseal.prune/1", "pruned/0/left": json!([])}));
    assert_eq!(names_in(&parent), ["transcript.jsonl.tombstone"]);
    read(tombstone_in(&parent)).has("ninety days are over");
    // The child names the pruned record, which is missing neither in the folder nor for `verify
    // --all`.
    verify(&sandbox, "p", 0).has("pruned");
    let all = sandbox.json("verify --all p");
    let reports = all["results"].list();
    let notes = reports.iter().flat_map(|report| report["findings"].list());
    let mut notes = notes.filter(|note| note["code"] == "pruned");
    let says = |note: &Value| note["message"].text().contains("ninety days are over");
    assert!(notes.any(|note| says(note) && note["severity"] == "note"));
    codes(&all).lacks("record_missing");
    // Its thread.json and ledger, which were pruned with it, are not missing either.
    let of_thread = |report: &&Value| report["checks"][0]["name"] == "tombstone";
    assert!(reports.iter().filter(of_thread).count() >= 3, "{all}");
    sandbox.ok("log fsck");
    sandbox
        .ok("log entries --from 0 --limit 1000")
        .prints(" tombstone ");
    // The log after a restart knows it, too.
    sandbox.ok("log restart --anyway");
    verify(&sandbox, "--all p", 0).has("pruned");
    sandbox.ok(format!("prune --yes {child:?}"));
    verify(&sandbox, "--all p", 0).lacks("record_missing");
}

// T-PRU-01 T-PRU-05
#[test]
fn a_tombstone_that_was_changed_moved_to_another_record_or_removed_excuses_nothing() {
    let (sandbox, parent, child) = ended();
    sandbox.ok(format!("prune --yes {child:?}"));
    let place = tombstone_in(&child);
    let good = read(&place);
    verify(&sandbox, "p", 0).has("pruned");
    // No key signed these.
    let others = [
        good.replace("\"why\":\"\"", "\"why\":\"x\""),
        good.replace("\"seq\":", "\"seq\":1"),
        "{}\n".to_owned(),
    ];
    for other in others {
        assert_ne!(other, good);
        fs::write(&place, other).unwrap();
        verify(&sandbox, "p", 1)
            .has("record_missing")
            .lacks("pruned");
        verify(&sandbox, "--all p", 1)
            .has("record_missing")
            .lacks("pruned");
        // A false tombstone permits no deletion either.
        sandbox.exits(2, format!("prune --yes {child:?}"));
    }
    fs::remove_file(&place).unwrap();
    verify(&sandbox, "--all p", 1).has("record_missing");
    // The tombstone of the child does not prune the parent.
    fs::write(&place, &good).unwrap();
    fs::write(tombstone_in(&parent), &good).unwrap();
    let kept = names_in(&parent).len();
    sandbox
        .exits(2, format!("prune --yes {parent:?}"))
        .warns("another record");
    assert_eq!(names_in(&parent).len(), kept);
    // It does not excuse the parent where the record itself was taken away, either.
    fs::remove_file(parent.join("transcript.jsonl")).unwrap();
    sandbox.sh(format!("prune --yes {parent:?}"));
    assert_eq!(names_in(&parent).len(), kept - 1);
    verify(&sandbox, "--all p", 1).has("record_missing");
}

// T-PRU-03
#[test]
fn a_prune_that_a_rolled_back_log_lost_is_open_and_logged_again_after_a_restart() {
    let (sandbox, parent, child) = ended();
    let (home, kept) = (sandbox.home(), sandbox.home().with_extension("kept"));
    copy(&home, &kept);
    sandbox.ok(format!("prune --yes {child:?} --reason old"));
    // Restored from before the prune, except for the second place.
    put_back(&kept, &home);
    verify(&sandbox, "p", 3)
        .has("pruned_unproved")
        .lacks("record_missing");
    // A tombstone with a bad signature, or none, excuses nothing there, either.
    let place = tombstone_in(&child);
    let good = read(&place);
    fs::write(&place, good.replace("old", "new")).unwrap();
    verify(&sandbox, "p", 1).has("record_missing");
    fs::write(&place, &good).unwrap();
    sandbox.exits(2, format!("prune --yes {child:?}"));
    sandbox.ok("log restart");
    verify(&sandbox, "p", 1).has("record_missing");
    sandbox.ok(format!("prune --yes {child:?}"));
    assert_eq!(read(&place), good);
    verify(&sandbox, "--all p", 0).has("pruned");
    // A tombstone that the log does not know permits no deletion.
    fs::write(tombstone_in(&parent), &good).unwrap();
    sandbox.exits(2, format!("prune --yes {parent:?}"));
    assert!(parent.join("transcript.jsonl").exists());
}

// T-PRU-02
#[test]
fn a_tombstone_that_the_log_does_not_know_or_of_another_key_excuses_nothing() {
    let (sandbox, parent, child) = ended();
    let kept = sandbox.path("kept");
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
    sandbox.ok(format!("prune --yes {child:?}"));
    for (place, kept) in &places {
        put_back(kept, place);
    }
    for folder in ["p", "--all p"] {
        verify(&sandbox, folder, 1)
            .has("record_missing")
            .lacks("pruned");
    }
    // The owner cannot make it valid while the record is gone.
    sandbox.exits(2, format!("prune --yes {child:?}"));
    verify(&sandbox, "--all p", 1).has("record_missing");
    // A prune that was killed before its entry in the log leaves the same: the next one verifies
    // the record, and prunes it.
    copy(&kept, &child);
    sandbox.ok(format!("prune --yes {child:?}"));
    assert_eq!(names_in(&child), ["transcript.jsonl.tombstone"]);
    verify(&sandbox, "--all p", 0).has("pruned");
    // Another home has another key: it prunes nothing here, and its tombstone counts for nothing.
    let stranger = sandbox.home().with_file_name("stranger");
    sandbox.in_home(&stranger, "init -q").exits(0);
    sandbox
        .in_home(&stranger, &format!("prune --yes {parent:?}"))
        .exits(2);
    sandbox
        .in_home(&stranger, &format!("prune --yes {child:?}"))
        .exits(2);
    assert!(parent.join("transcript.jsonl").exists() && !tombstone_in(&parent).exists());
}

// T-PRU-17 T-PRU-19
#[test]
fn a_record_present_after_its_tombstone_is_reported_and_removed_by_the_next_prune() {
    let (sandbox, parent, child) = ended();
    let kept = sandbox.path("kept");
    copy(&parent, &kept);
    sandbox.ok(format!("prune --yes {parent:?}"));
    // Killed before the last file was deleted, or restored from a backup.
    for name in ["transcript.jsonl", "transcript.bodies"] {
        fs::copy(kept.join(name), parent.join(name)).unwrap();
    }
    let record = parent.join("transcript.jsonl");
    verify(&sandbox, &format!("{record:?}"), 0).has("pruned_but_present");
    // Every command that relies on it gets the same report.
    let first = format!("{}#1", text(&record));
    let proved = sandbox.sh(format!("--json prove --out proof {first}"));
    let proved = proved.exits(0).json();
    let findings = proved["result"]["findings"].list();
    let is_told = |found: &Value| found["code"] == "pruned_but_present";
    assert!(findings.iter().any(is_told), "{proved}");
    verify(&sandbox, "--all p", 1).has("pruned_but_present");
    sandbox.ok(format!("prune --yes {record:?}"));
    assert_eq!(names_in(&parent), ["transcript.jsonl.tombstone"]);
    verify(&sandbox, "--all p", 0).lacks("pruned_but_present");
    assert!(child.join("transcript.jsonl").exists());
}

// T-PRU-08
#[test]
fn open_changed_and_unknown_records_are_not_pruned() {
    let (sandbox, parent, child) = ended();
    let record = child.join("transcript.jsonl");
    let whole = fs::read(&record).unwrap();
    let refused = |arguments: &str, why: &str| {
        let ran = sandbox.exits(2, format!("prune --yes {arguments}"));
        ran.stderr.has(why);
        assert!(!tombstone_in(&child).exists());
    };
    let mut changed = whole.clone();
    changed[100] ^= 1;
    fs::write(&record, &changed).unwrap();
    refused(&format!("{record:?}"), "");
    let last = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n');
    fs::write(&record, &whole[..=last.unwrap()]).unwrap();
    refused(&format!("{record:?}"), "");
    fs::write(&record, [&whole[..], b"{}\n"].concat()).unwrap();
    refused(&format!("{record:?}"), "");
    fs::write(&record, &whole).unwrap();
    // The files that belong to the record must verify as well.
    let metadata = child.join("thread.json");
    let kept = fs::read(&metadata).unwrap();
    let edited = String::from_utf8_lossy(&kept).replacen("completed", "cancelled", 1);
    assert_ne!(edited.as_bytes(), kept);
    fs::write(&metadata, edited).unwrap();
    refused(&format!("{child:?}"), "thread.json");
    fs::write(&metadata, kept).unwrap();
    refused("postgres://x@localhost/threads", "name what to prune");
    refused("nowhere", "neither a file nor a thread");
    let ledger = names_in(&parent)
        .into_iter()
        .find(|name| name.ends_with(".index"));
    refused(&format!("{:?}", parent.join(ledger.unwrap())), "");
    // Without a log, no one could know later that the record was pruned.
    let without = sandbox.home().with_file_name("without");
    sandbox.in_home(&without, "init -q --no-log").exits(0);
    sandbox
        .in_home(&without, &format!("prune --yes {child:?}"))
        .exits(2)
        .warns("no log");
    sandbox.ok("verify p");
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
    let nothing = payload(&json!({}));
    let parent = ended_with(&sandbox, "parent.jsonl", |parent| {
        let began = json!({"child_thread_id": "demo/thread-1", "child_record": record.to_string()});
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
        let to = json!({"new_thread_id": "demo/thread-1"});
        before.link(Link::Resumed, &payload(&to), ext).unwrap();
    });
    for open in [&parent, &before] {
        let refused = sandbox.exits(2, format!("prune --yes {open:?}"));
        let why = format!("no end of that thread is known here: demo/thread-1, record {record}");
        refused.stderr.has(&why);
        assert!(open.exists() && !place_of(open).exists());
    }
    other.end(Ending::Completed, &nothing, 1).unwrap();
    for over in [&parent, &before] {
        sandbox.ok(format!("prune --yes {over:?}"));
        assert!(!over.exists() && place_of(over).exists());
    }
}

#[test]
fn a_record_in_a_store_that_is_a_folder_is_pruned_by_its_name() {
    let sandbox = ready();
    let record = ended_record(&sandbox, "store/one.jsonl", 1);
    sandbox.exits(2, "prune --yes file:store#two");
    sandbox.ok("prune --yes file:store#one");
    assert!(!record.exists() && place_of(&record).exists());
    verify(&sandbox, "--all", 0).has("pruned");
    sandbox.ok("prune --yes file:store#one");
}

// T-PRU-18
#[test]
fn a_record_that_was_put_back_after_it_was_pruned_is_not_sealed_on() {
    let (sandbox, parent, _) = ended();
    let kept = sandbox.path("kept");
    copy(&parent, &kept);
    sandbox.ok(format!("prune --yes {parent:?}"));
    for name in names_in(&kept) {
        fs::copy(kept.join(&name), parent.join(name)).unwrap();
    }
    let record = parent.join("transcript.jsonl");
    let id = thread_id(&parent);
    for sealing in [
        format!("redact {record:?} --turn 1 --why x"),
        format!("thread resume -m On. --script answers.yaml --project p {id}"),
    ] {
        sandbox.exits(2, sealing).warns("was pruned");
        let whole = fs::read(kept.join("transcript.jsonl")).unwrap();
        assert_eq!(fs::read(&record).unwrap(), whole);
    }
    // If its tombstone is missing, a home with the log and the key signs it anew.
    fs::remove_file(tombstone_in(&parent)).unwrap();
    sandbox.ok(format!("prune --yes {record:?}"));
    assert_eq!(names_in(&parent), ["transcript.jsonl.tombstone"]);
}

#[test]
fn records_of_a_folder_are_pruned_by_their_age() {
    let (sandbox, parent, child) = ended();
    sandbox
        .ok("prune --yes p --older-than 90d")
        .prints("nothing to prune");
    sandbox.exits(2, "prune --yes p --older-than ninety");
    let file = parent.join("transcript.jsonl");
    sandbox
        .exits(2, format!("prune --yes {file:?} --older-than 90d"))
        .warns("sealed too recently");
    assert!(file.exists());
    let ran = sandbox.ok("prune --yes p --older-than 0h --reason retention");
    assert_eq!(ran.stdout.lines().count(), 2, "{}", ran.stdout);
    for folder in [&parent, &child] {
        assert_eq!(names_in(folder), ["transcript.jsonl.tombstone"]);
    }
    verify(&sandbox, "--all p", 0)
        .has("pruned")
        .lacks("record_missing");
}
