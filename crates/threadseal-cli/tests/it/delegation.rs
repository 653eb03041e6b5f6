//! `key delegate`: another key seals one record alongside its own keys, in another home too, until
//! the record or the key ends.

use crate::prelude::*;
use threadseal_core::key::PublicKey;

/// The raw public half of the home's own key.
fn public(sandbox: &Sandbox) -> String {
    let own = sandbox.key("self");
    own["public"].text().to_owned()
}

/// A home with an open record, and another home that trusts it and has its Rye key.
fn two_homes() -> (Sandbox, Sandbox) {
    let (authority, worker) = (ready(), ready());
    open_record(&authority, "r.jsonl", 2);
    let rye = worker.path("rye.pem");
    authority.ok(format!("key export self-rye --private -o {rye:?}"));
    worker.ok("key import rye.pem --name boss-rye --usage rye");
    let boss = public(&authority);
    worker.ok(format!("trust add {boss} --name boss"));
    (authority, worker)
}

fn delegate(sandbox: &Sandbox, to: &str) -> Ran {
    sandbox.sh(format!("key delegate r.jsonl --to {to:?}"))
}

/// Carries the record from one home's folder to the other's.
fn carry(from: &Sandbox, to: &Sandbox) -> PathBuf {
    let there = to.path("r.jsonl");
    fs::copy(from.path("r.jsonl"), &there).unwrap();
    there
}

fn delegations(sandbox: &Sandbox) -> usize {
    let text = sandbox.read("r.jsonl");
    text.matches("\"event_type\":\"delegation\"").count()
}

/// The delegations in the log.
fn history(sandbox: &Sandbox) -> Vec<Value> {
    let told = sandbox.json("key history");
    let events = told["events"].list().iter();
    let said = events.filter(|event| event["change"] == "delegate");
    said.cloned().collect()
}

#[test]
fn a_delegate_continues_a_record_in_its_own_home_and_both_homes_verify_it() {
    let (authority, worker) = two_homes();
    let key = public(&worker);
    // The other key seals nothing before it is delegated.
    carry(&authority, &worker);
    worker
        .sh("seal r.jsonl --final")
        .fails_with("not in this home");
    let told = authority.json(format!("key delegate r.jsonl --to {key}"));
    assert_eq!((&told["new"], &told["exit"]), (&true.into(), &0.into()));
    let said = history(&authority);
    assert_eq!(said.len(), 1);
    for member in ["record", "to", "entry"] {
        assert_eq!(said[0][member], told[member], "{said:?}");
    }
    assert_eq!(said[0]["vouched_for"], json!(["mark"]));
    let clean = |sandbox: &Sandbox, code| {
        sandbox
            .exits(code, "verify r.jsonl --json")
            .omits("delegation_unlogged");
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
    let path = authority.path("r.jsonl");
    let mut recorder = reopened(&authority, &path, "self-rye.rye");
    say(&mut recorder, "cognition_out", "by the authority again");
    recorder.seal(4, Ext::default()).unwrap();
    drop(recorder);
    carry(&authority, &worker);
    worker.ok("seal r.jsonl --final");
    clean(&worker, 0);
    carry(&worker, &authority);
    clean(&authority, 0);
    authority.ok("log fsck");
}

// T-KLOG-33
#[test]
fn a_delegation_is_written_once_in_the_record_and_in_the_log() {
    let (authority, worker) = two_homes();
    worker.ok("key export self -o self.pub");
    let pem = worker.path("self.pub");
    delegate(&authority, pem.to_str().unwrap()).exits(0);
    let before = fs::read(authority.path("r.jsonl")).unwrap();
    delegate(&authority, &public(&worker))
        .exits(0)
        .prints("already delegated");
    assert_eq!(fs::read(authority.path("r.jsonl")).unwrap(), before);
    assert_eq!((delegations(&authority), history(&authority).len()), (1, 1));
}

/// A process was killed between the two writes, or a thief used a copy of the authority's key
/// elsewhere.
// T-KLOG-30 T-KLOG-33
#[test]
fn a_delegation_missing_from_the_log_is_reported_until_it_is_logged() {
    let (authority, worker) = two_homes();
    let path = authority.path("r.jsonl");
    delegate(&authority, &public(&ready())).exits(0);
    let key = PublicKey::from_hex(&public(&worker)).unwrap();
    let mut recorder = reopened(&authority, &path, "self-rye.rye");
    recorder.delegate(&key).unwrap().unwrap();
    drop(recorder);
    authority.ok("verify r.jsonl").prints("delegation_unlogged");
    // Another home, whose log knows the record, does not report a delegation that only the
    // authority's log could know.
    carry(&authority, &worker);
    worker.ok("seal r.jsonl --final");
    worker.ok("verify r.jsonl").omits("unlogged");
    delegate(&authority, &public(&worker)).exits(0);
    assert_eq!((delegations(&authority), history(&authority).len()), (2, 2));
    authority.ok("verify r.jsonl").omits("unlogged");
}

// T-KLOG-33
#[test]
fn a_delegation_not_logged_before_the_end_of_its_record_is_logged_after_it() {
    let (authority, worker) = two_homes();
    let path = authority.path("r.jsonl");
    let key = PublicKey::from_hex(&public(&worker)).unwrap();
    let mut recorder = reopened(&authority, &path, "self-rye.rye");
    recorder.delegate(&key).unwrap().unwrap();
    drop(recorder);
    authority.ok("seal r.jsonl --final");
    let unlogged = |is_told| {
        let told = authority.ok("verify r.jsonl");
        assert_eq!(told.stdout.contains("delegation_unlogged"), is_told);
    };
    unlogged(true);
    let before = fs::read(&path).unwrap();
    delegate(&authority, &public(&worker))
        .exits(0)
        .prints("already delegated");
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
fn seals_of_a_delegate_after_its_end_are_forged_and_earlier_ones_verify() {
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
    worker.ok("seal r.jsonl");
    let before = fs::read(&path).unwrap();
    let mut recorder = reopened(&worker, &path, "boss-rye.rye");
    worker.ok("key revoke self --reason done");
    worker.ok("verify r.jsonl");
    worker.exits(2, "seal r.jsonl --final");
    // A process that still has the key continues.
    say(&mut recorder, "cognition_out", "behind its end");
    recorder.seal(5, Ext::default()).unwrap();
    drop(recorder);
    worker.exits(1, "verify r.jsonl").prints("key_revoked");
    // The home of the authority learns of it from a person: it held nothing of that key before.
    authority.write("r.jsonl", &before);
    authority.ok("verify r.jsonl");
    authority.ok(format!("trust add {} --name worker", public(&worker)));
    authority.ok("trust revoke worker --reason stolen");
    carry(&worker, &authority);
    authority.exits(1, "verify r.jsonl").prints("key_revoked");
}

// T-KLOG-32
#[test]
fn only_the_authority_of_an_open_record_delegates_and_refusals_write_nothing() {
    let (authority, worker) = two_homes();
    let key = public(&worker);
    let path = authority.path("r.jsonl");
    let before = fs::read(&path).unwrap();
    // Refused: a key of another home, the authority itself, and a name that is no key.
    carry(&authority, &worker);
    delegate(&worker, &key).fails_with("is the authority of this record");
    delegate(&authority, "self").fails_with("no delegation to seal");
    delegate(&authority, "self-rye").fails_with("rye records");
    delegate(&authority, "nobody").fails_with("is not a key");
    // Refused while the log accepts no entry because it was rolled back.
    let (home, older) = (authority.home(), authority.path("older"));
    copy(&home, &older);
    authority.ok("key new --name later");
    let newer = authority.path("newer");
    fs::rename(&home, &newer).unwrap();
    fs::rename(&older, &home).unwrap();
    let refused = delegate(&authority, &key).exits(2);
    let why = &refused.stderr;
    why.has("cannot record key events");
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
    let ended = fs::read(authority.path("ended.jsonl")).unwrap();
    authority
        .sh(format!("key delegate ended.jsonl --to {key}"))
        .fails_with("has ended");
    assert_eq!(fs::read(authority.path("ended.jsonl")).unwrap(), ended);
    // Refused with a key that was rotated.
    authority.ok("key rotate self --anyway");
    let keys = authority.json("key list");
    let mut keys = keys["keys"].list().iter();
    let old = keys.find(|key| key["name"].text().starts_with("self-") && key["usage"] == "native");
    let old = old.unwrap()["name"].text();
    delegate(&authority, &key).fails_with("is the authority of this record");
    authority
        .sh(format!("key delegate r.jsonl --to {key} --key {old}"))
        .fails_with("cannot seal any more");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_home_without_a_log_delegates_with_a_warning() {
    let authority = Sandbox::new();
    authority.ok("init --no-log");
    open_record(&authority, "r.jsonl", 1);
    let worker = ready();
    delegate(&authority, &public(&worker))
        .exits(0)
        .warns("has no log");
    authority.ok("verify r.jsonl").omits("unlogged");
}

#[test]
fn a_thread_of_a_project_is_delegated_by_its_folder_only_while_it_is_open() {
    let sandbox = project();
    greeted(&sandbox, "");
    let thread = thread(&sandbox, "greet");
    let key = public(&ready());
    sandbox
        .sh(format!("key delegate {thread:?} --to {key}"))
        .fails_with("has ended");
}
