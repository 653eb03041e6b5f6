//! `key delegate`: another key seals one record alongside its own keys, in another home too, until
//! the record or the key ends.

use crate::fixtures::{ended_record, open_record, ready, reopened, say};
use crate::sandbox::{Ran, Sandbox, copy};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use threadseal_core::key::PublicKey;
use threadseal_formats::transcript::ext::Ext;

/// The raw public half of the home's own key.
fn public(sandbox: &Sandbox) -> String {
    let keys = sandbox.run(["key", "list", "--json"]).exits(0).json();
    let mut keys = keys["keys"].as_array().unwrap().iter();
    let own = keys.find(|key| key["name"] == "self").unwrap();
    own["public"].as_str().unwrap().to_owned()
}

/// A home with an open record, and another home that trusts it and has its Rye key.
fn two_homes() -> (Sandbox, Sandbox) {
    let (authority, worker) = (ready(), ready());
    open_record(&authority, "r.jsonl", 2);
    let rye = worker.work().join("rye.pem");
    let export = ["key", "export", "self-rye", "--private", "-o"];
    let export = export.iter().map(Path::new).chain([rye.as_path()]);
    authority.run(export).exits(0);
    let import = ["key", "import", "rye.pem", "--name", "boss-rye"];
    let import = import.iter().chain(&["--usage", "rye"]);
    worker.run(import).exits(0);
    let boss = public(&authority);
    worker
        .run(["trust", "add", &boss, "--name", "boss"])
        .exits(0);
    (authority, worker)
}

fn delegate(sandbox: &Sandbox, to: &str) -> Ran {
    sandbox.run(["key", "delegate", "r.jsonl", "--to", to])
}

/// Carries the record from one home's folder to the other's.
fn carry(from: &Sandbox, to: &Sandbox) -> PathBuf {
    let there = to.work().join("r.jsonl");
    fs::copy(from.work().join("r.jsonl"), &there).unwrap();
    there
}

fn delegations(sandbox: &Sandbox) -> usize {
    let text = fs::read_to_string(sandbox.work().join("r.jsonl")).unwrap();
    text.matches("\"event_type\":\"delegation\"").count()
}

/// The delegations in the log.
fn history(sandbox: &Sandbox) -> Vec<Value> {
    let told = sandbox.run(["key", "history", "--json"]).exits(0).json();
    let events = told["events"].as_array().unwrap().iter();
    let said = events.filter(|event| event["change"] == "delegate");
    said.cloned().collect()
}

#[test]
fn a_delegate_goes_on_with_a_record_in_a_home_of_its_own_and_both_homes_find_it_whole() {
    let (authority, worker) = two_homes();
    let key = public(&worker);
    // The other key seals nothing before it is delegated.
    carry(&authority, &worker);
    worker
        .run(["seal", "r.jsonl", "--final"])
        .fails_with("not in this home");
    let told = authority
        .run(["key", "delegate", "r.jsonl", "--to", &key, "--json"])
        .exits(0)
        .json();
    assert_eq!((&told["new"], &told["exit"]), (&true.into(), &0.into()));
    let said = history(&authority);
    assert_eq!(said.len(), 1);
    for member in ["record", "to", "entry"] {
        assert_eq!(said[0][member], told[member], "{said:?}");
    }
    assert_eq!(said[0]["vouched_for"], serde_json::json!(["mark"]));
    let clean = |sandbox: &Sandbox, code| {
        let report = sandbox.run(["verify", "r.jsonl", "--json"]).exits(code);
        assert!(
            !report.stdout.contains("delegation_unlogged"),
            "{}",
            report.stdout
        );
    };
    clean(&authority, 0);
    // The record goes to the other home, which never had a key of its epochs.
    let path = carry(&authority, &worker);
    let mut recorder = reopened(&worker, &path, "boss-rye.rye");
    say(&mut recorder, "cognition_out", "by the delegate");
    recorder.seal(3, Ext::default()).unwrap();
    drop(recorder);
    clean(&worker, 0);
    // The record returns, and its own home continues and ends it.
    carry(&worker, &authority);
    clean(&authority, 0);
    let path = authority.work().join("r.jsonl");
    let mut recorder = reopened(&authority, &path, "self-rye.rye");
    say(&mut recorder, "cognition_out", "by the authority again");
    recorder.seal(4, Ext::default()).unwrap();
    drop(recorder);
    carry(&authority, &worker);
    worker.run(["seal", "r.jsonl", "--final"]).exits(0);
    clean(&worker, 0);
    carry(&worker, &authority);
    clean(&authority, 0);
    authority.run(["log", "fsck"]).exits(0);
}

// T-KLOG-33
#[test]
fn a_delegation_is_written_once_in_the_record_and_in_the_log() {
    let (authority, worker) = two_homes();
    worker
        .run(["key", "export", "self", "-o", "self.pub"])
        .exits(0);
    let pem = worker.work().join("self.pub");
    delegate(&authority, pem.to_str().unwrap()).exits(0);
    let before = fs::read(authority.work().join("r.jsonl")).unwrap();
    let again = delegate(&authority, &public(&worker)).exits(0);
    assert!(again.stdout.contains("let already"), "{}", again.stdout);
    assert_eq!(fs::read(authority.work().join("r.jsonl")).unwrap(), before);
    assert_eq!((delegations(&authority), history(&authority).len()), (1, 1));
}

/// A process was killed between the two writes, or a thief used a copy of the authority's key
/// elsewhere.
// T-KLOG-30 T-KLOG-33
#[test]
fn a_delegation_that_the_log_of_the_authority_does_not_know_is_told_until_it_is_written_down() {
    let (authority, worker) = two_homes();
    let path = authority.work().join("r.jsonl");
    delegate(&authority, &public(&ready())).exits(0);
    let key = PublicKey::from_hex(&public(&worker)).unwrap();
    let mut recorder = reopened(&authority, &path, "self-rye.rye");
    recorder.delegate(&key).unwrap().unwrap();
    drop(recorder);
    let told = authority.run(["verify", "r.jsonl"]).exits(0);
    assert!(
        told.stdout.contains("delegation_unlogged"),
        "{}",
        told.stdout
    );
    // Another home, whose log knows the record, does not report a delegation that only the
    // authority's log could know.
    carry(&authority, &worker);
    worker.run(["seal", "r.jsonl", "--final"]).exits(0);
    let there = worker.run(["verify", "r.jsonl"]).exits(0);
    assert!(!there.stdout.contains("unlogged"), "{}", there.stdout);
    delegate(&authority, &public(&worker)).exits(0);
    assert_eq!((delegations(&authority), history(&authority).len()), (2, 2));
    let told = authority.run(["verify", "r.jsonl"]).exits(0);
    assert!(!told.stdout.contains("unlogged"), "{}", told.stdout);
}

// T-KLOG-33
#[test]
fn a_delegation_that_was_not_logged_before_the_end_of_its_record_is_logged_behind_it() {
    let (authority, worker) = two_homes();
    let path = authority.work().join("r.jsonl");
    let key = PublicKey::from_hex(&public(&worker)).unwrap();
    let mut recorder = reopened(&authority, &path, "self-rye.rye");
    recorder.delegate(&key).unwrap().unwrap();
    drop(recorder);
    authority.run(["seal", "r.jsonl", "--final"]).exits(0);
    let unlogged = |is_told| {
        let told = authority.run(["verify", "r.jsonl"]).exits(0);
        assert_eq!(told.stdout.contains("delegation_unlogged"), is_told);
    };
    unlogged(true);
    let before = fs::read(&path).unwrap();
    let again = delegate(&authority, &public(&worker)).exits(0);
    assert!(again.stdout.contains("let already"), "{}", again.stdout);
    unlogged(false);
    assert_eq!(history(&authority).len(), 1);
    delegate(&authority, &public(&worker)).exits(0);
    assert_eq!(history(&authority).len(), 1);
    // After the end no other key is let in, neither into the record nor into the log.
    delegate(&authority, &public(&ready())).fails_with("has ended");
    assert_eq!(history(&authority).len(), 1);
    assert_eq!(fs::read(&path).unwrap(), before);
}

// T-KLOG-29
#[test]
fn what_a_delegate_seals_behind_its_end_is_forged_and_what_it_sealed_before_stays_whole() {
    let (authority, worker) = two_homes();
    delegate(&authority, &public(&worker)).exits(0);
    let path = carry(&authority, &worker);
    let mut recorder = reopened(&worker, &path, "boss-rye.rye");
    say(&mut recorder, "cognition_out", "while it lived");
    recorder.seal(3, Ext::default()).unwrap();
    drop(recorder);
    // The rest of a crash is set aside under a seal of the delegate, which the log of the delegate
    // knows.
    let torn = [&fs::read(&path).unwrap()[..], b"{\"timestamp\""].concat();
    fs::write(&path, torn).unwrap();
    worker.run(["seal", "r.jsonl"]).exits(0);
    let before = fs::read(&path).unwrap();
    let mut recorder = reopened(&worker, &path, "boss-rye.rye");
    worker
        .run(["key", "revoke", "self", "--reason", "done"])
        .exits(0);
    worker.run(["verify", "r.jsonl"]).exits(0);
    worker.run(["seal", "r.jsonl", "--final"]).exits(2);
    // A process that still has the key continues.
    say(&mut recorder, "cognition_out", "behind its end");
    recorder.seal(5, Ext::default()).unwrap();
    drop(recorder);
    let forged = worker.run(["verify", "r.jsonl"]).exits(1);
    assert!(forged.stdout.contains("key_revoked"), "{}", forged.stdout);
    // The home of the authority learns of it from a person: it held nothing of that key before.
    fs::write(authority.work().join("r.jsonl"), &before).unwrap();
    authority.run(["verify", "r.jsonl"]).exits(0);
    let trust = ["trust", "add", &public(&worker), "--name", "worker"];
    authority.run(trust).exits(0);
    let revoke = ["trust", "revoke", "worker", "--reason", "stolen"];
    authority.run(revoke).exits(0);
    carry(&worker, &authority);
    let forged = authority.run(["verify", "r.jsonl"]).exits(1);
    assert!(forged.stdout.contains("key_revoked"), "{}", forged.stdout);
}

// T-KLOG-32
#[test]
fn only_the_authority_of_a_record_that_goes_on_lets_a_key_in_and_nothing_is_written_else() {
    let (authority, worker) = two_homes();
    let key = public(&worker);
    let path = authority.work().join("r.jsonl");
    let before = fs::read(&path).unwrap();
    // Refused: a key of another home, the authority itself, and a name that is no key.
    carry(&authority, &worker);
    delegate(&worker, &key).fails_with("answers for this record");
    delegate(&authority, "self").fails_with("no delegation to seal");
    delegate(&authority, "self-rye").fails_with("rye records");
    delegate(&authority, "nobody").fails_with("is not a key");
    // Refused while the log accepts no entry because it was rolled back.
    let (home, older) = (authority.home(), authority.work().join("older"));
    copy(&home, &older);
    authority.run(["key", "new", "--name", "later"]).exits(0);
    let newer = authority.work().join("newer");
    fs::rename(&home, &newer).unwrap();
    fs::rename(&older, &home).unwrap();
    let refused = delegate(&authority, &key).exits(2);
    let why = &refused.stderr;
    assert!(why.contains("takes no word"), "{why}");
    fs::remove_dir_all(&home).unwrap();
    fs::rename(&newer, &home).unwrap();
    // Refused over an unsigned tail, and while another process seals the record.
    fs::write(&path, [&before[..], b"{\"timestamp\""].concat()).unwrap();
    delegate(&authority, &key).fails_with("unsigned_tail");
    fs::write(&path, &before).unwrap();
    let held = reopened(&authority, &path, "self-rye.rye");
    delegate(&authority, &key).exits(2);
    drop(held);
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(history(&authority).is_empty());
    // Refused after the end.
    ended_record(&authority, "ended.jsonl", 1);
    let ended = fs::read(authority.work().join("ended.jsonl")).unwrap();
    authority
        .run(["key", "delegate", "ended.jsonl", "--to", &key])
        .fails_with("has ended");
    assert_eq!(
        fs::read(authority.work().join("ended.jsonl")).unwrap(),
        ended
    );
    // Refused with a key that was rotated.
    authority
        .run(["key", "rotate", "self", "--anyway"])
        .exits(0);
    let keys = authority.run(["key", "list", "--json"]).exits(0).json();
    let mut keys = keys["keys"].as_array().unwrap().iter();
    let old = keys
        .find(|key| key["name"].as_str().unwrap().starts_with("self-") && key["usage"] == "native");
    let old = old.unwrap()["name"].as_str().unwrap();
    delegate(&authority, &key).fails_with("answers for this record");
    authority
        .run(["key", "delegate", "r.jsonl", "--to", &key, "--key", old])
        .fails_with("seals nothing more");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_home_without_a_log_delegates_and_says_what_that_lacks() {
    let authority = Sandbox::new();
    authority.run(["init", "--no-log"]).exits(0);
    open_record(&authority, "r.jsonl", 1);
    let worker = ready();
    let told = delegate(&authority, &public(&worker)).exits(0);
    assert!(told.stderr.contains("has no log"), "{}", told.stderr);
    let verified = authority.run(["verify", "r.jsonl"]).exits(0);
    assert!(!verified.stdout.contains("unlogged"), "{}", verified.stdout);
}

#[test]
fn a_thread_of_a_project_is_delegated_by_its_folder_only_while_it_goes_on() {
    let sandbox = crate::run::project();
    crate::run::greet(&sandbox, &["--script", "answers.yaml"]).exits(0);
    let thread = crate::run::thread(&sandbox, "greet");
    let key = public(&ready());
    let folder = thread.to_str().unwrap();
    sandbox
        .run(["key", "delegate", folder, "--to", &key])
        .fails_with("has ended");
}
