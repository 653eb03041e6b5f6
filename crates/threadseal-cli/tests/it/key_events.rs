//! Keys that end in the log: their earlier seals still count, whatever a clock shows.

use crate::prelude::*;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_store::clock::Clock;

/// A clock that was set back.
#[derive(Debug)]
struct SetBack;

impl Clock for SetBack {
    fn now(&self) -> Result<Timestamp, Error> {
        Timestamp::from_micros(1_500_000_000_000_000)
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

/// A home whose key sealed `before.jsonl` and then ended.
fn revoked() -> Sandbox {
    let sandbox = ready();
    drop(recorder(&sandbox, "before.jsonl", 2));
    sandbox.ok("seal before.jsonl --final");
    sandbox.ok("verify before.jsonl");
    sandbox.ok("key revoke self --reason stolen");
    sandbox
}

/// A thief ends a record with the key `self` of this home, whose clock they set back.
fn steal_in_the_past(sandbox: &Sandbox, name: &str) {
    let mut thief = recorder_at(sandbox, name, 2, Arc::new(SetBack));
    let nothing = Payload::parse(b"{}").unwrap();
    thief.end(Ending::Completed, &nothing, 2).unwrap();
}

/// The log grows, by another key.
fn more(sandbox: &Sandbox) {
    sandbox.sh("key new --name other");
    sandbox.write("more.json", "{}\n");
    sandbox.ok("seal more.json --key other");
}

// T-KLOG-02
#[test]
fn what_a_revoked_key_sealed_before_in_the_log_counts_and_nothing_that_it_seals_later() {
    let sandbox = revoked();
    sandbox.ok("verify before.jsonl");
    steal_in_the_past(&sandbox, "after.jsonl");
    let forged = sandbox.exits(1, "verify after.jsonl --json");
    let forged = forged.json();
    assert_eq!(forged["results"][0]["verdict"], "forged");
    let findings = forged["results"][0]["findings"].to_string();
    findings.has("key_revoked");
    // The command does not seal with the key any more.
    drop(recorder(&sandbox, "on.jsonl", 1));
    sandbox
        .sh("seal on.jsonl --final")
        .fails_with("cannot seal any more");
}

// T-KLOG-02
#[test]
fn what_a_revoked_key_sealed_before_counts_in_the_log_that_takes_the_place_of_the_old_one() {
    let sandbox = revoked();
    // Another record, sealed with the stolen key and recorded in the log after the key had ended.
    steal_in_the_past(&sandbox, "after.jsonl");
    for _ in 0..2 {
        more(&sandbox);
        sandbox.ok("log restart --anyway");
        sandbox.ok("verify before.jsonl");
        sandbox.exits(1, "verify after.jsonl").prints("key_revoked");
        sandbox.ok("log fsck");
    }
}

/// The trust store names an entry of the previous log, because the process ended before the store
/// followed. Another restart does not change that.
// T-KLOG-14
#[test]
fn a_restart_that_was_cut_short_before_the_trust_store_followed_loses_nothing() {
    let sandbox = revoked();
    steal_in_the_past(&sandbox, "after.jsonl");
    let trust = sandbox.home().join("trust.toml");
    let before = fs::read(&trust).unwrap();
    for _ in 0..2 {
        more(&sandbox);
        sandbox.ok("log restart --anyway");
        fs::write(&trust, &before).unwrap();
        sandbox.ok("verify before.jsonl");
        sandbox.exits(1, "verify after.jsonl").prints("key_revoked");
    }
    // The next restart updates it.
    sandbox.ok("log restart --anyway");
    assert_ne!(fs::read(&trust).unwrap(), before);
    sandbox.ok("verify before.jsonl");
}

// T-KLOG-03
#[test]
fn without_the_log_nothing_that_a_revoked_key_sealed_counts() {
    let sandbox = revoked();
    let log = sandbox.home().join("log");
    fs::remove_dir_all(&log).unwrap();
    sandbox
        .exits(1, "verify before.jsonl")
        .prints("key_revoked")
        .warns("log_missing");
    let mut marks = sandbox.home().into_os_string();
    marks.push(".marks");
    fs::remove_dir_all(marks).unwrap();
    sandbox
        .exits(1, "verify before.jsonl")
        .prints("key_revoked");
}

#[test]
fn a_new_home_logs_its_key() {
    let sandbox = ready();
    let history = sandbox.json("key history");
    let events = history["events"].list();
    assert_eq!(events.len(), 1, "{history}");
    assert_eq!(
        (&events[0]["change"], &events[0]["name"]),
        (&"create".into(), &"self".into())
    );
    sandbox.ok("init");
    let again = sandbox.json("key history");
    assert_eq!(again, history);
}

#[test]
fn a_new_key_in_a_rolled_back_home_is_made_with_a_warning() {
    let sandbox = ready();
    let older = sandbox.path("older");
    copy(&sandbox.home(), &older);
    drop(recorder(&sandbox, "before.jsonl", 1));
    sandbox.ok("seal before.jsonl --final");
    put_back(&older, &sandbox.home());
    for lost in ["keys/self.native.key", "keys/self.native.pub", "trust.toml"] {
        fs::remove_file(sandbox.home().join(lost)).unwrap();
    }
    sandbox
        .ok("init")
        .warns("does not contain the creation of the new key")
        .warns("log_rolled_back");
    assert_eq!(native_keys(&sandbox).len(), 1);
    let history = sandbox.json("key history");
    assert_eq!(history["events"].list().len(), 1, "{history}");
}

#[test]
fn the_history_of_keys_is_that_of_the_log() {
    let sandbox = revoked();
    sandbox.ok("key new --name second");
    let history = sandbox.json("key history");
    let said: Vec<_> = history["events"]
        .list()
        .iter()
        .map(|event| {
            let text = |name: &str| event[name].text().to_owned();
            (text("change"), text("name"))
        })
        .collect();
    let expected = [("create", "self"), ("revoke", "self"), ("create", "second")];
    assert_eq!(
        said,
        expected.map(|(change, name)| (change.to_owned(), name.to_owned()))
    );
    let entry = history["events"][1]["entry"].to_string();
    sandbox
        .ok(format!("log entries --from {entry}"))
        .prints("key/revoke");
    sandbox.ok("log fsck");
    let one = sandbox.ok("key history second");
    assert_eq!(one.stdout.lines().count(), 1, "{}", one.stdout);
    // The log states it once; the trust store keeps the entry.
    sandbox.ok("key revoke self --reason again");
    let again = sandbox.json("key history");
    assert_eq!(again["events"], history["events"]);
    let trust = read(sandbox.home().join("trust.toml"));
    trust.has(&format!("reason = \"stolen\", entry = {entry} }}"));
}

#[test]
fn a_key_that_signs_no_event_and_a_home_without_a_log_get_a_hint() {
    let sandbox = Sandbox::new();
    sandbox.ok("init -q --no-log");
    sandbox.ok("key new --usage witness --name w");
    sandbox
        .sh("key revoke w --reason x")
        .fails_with("trust revoke");
    sandbox.sh("key history").fails_with("log init");
    sandbox.ok("key revoke self --reason x").warns("no log");
    read(sandbox.home().join("trust.toml")).has("reason = \"x\" }");
}

/// Names and ids of the home's native keys.
fn native_keys(sandbox: &Sandbox) -> Vec<(String, String)> {
    let keys = sandbox.json("key list");
    let keys = keys["keys"].list().clone();
    let native = keys.iter().filter(|key| key["usage"] == "native");
    let text = |key: &Value, name: &str| key[name].text().to_owned();
    native
        .map(|key| (text(key, "name"), text(key, "key_id")))
        .collect()
}

// T-KLOG-02
#[test]
fn a_key_is_rotated_under_its_name_and_what_the_old_one_sealed_before_counts() {
    let sandbox = ready();
    drop(recorder(&sandbox, "before.jsonl", 2));
    sandbox.ok("seal before.jsonl --final");
    let old = native_keys(&sandbox)[0].1.clone();
    sandbox.ok("key rotate self");
    let keys = native_keys(&sandbox);
    let kept = format!("self-{}", &old[..8]);
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert!(keys.contains(&(kept.clone(), old.clone())), "{keys:?}");
    let (_, new) = keys.iter().find(|(name, _)| name == "self").unwrap();
    assert_ne!(*new, old);
    let history = sandbox.json("key history");
    assert_eq!(history["events"][1]["next"].as_str(), Some(new.as_str()));
    // The records from before and after the rotation both verify.
    drop(recorder(&sandbox, "after.jsonl", 1));
    sandbox.ok("seal after.jsonl --final");
    sandbox.ok("verify before.jsonl after.jsonl");
    // A thief with the old key makes seals that do not verify.
    for half in ["key", "pub"] {
        let path = |name: &str| sandbox.home().join(format!("keys/{name}.native.{half}"));
        fs::copy(path("self"), path("aside")).unwrap();
        fs::copy(path(&kept), path("self")).unwrap();
    }
    steal_in_the_past(&sandbox, "thief.jsonl");
    sandbox.exits(1, "verify thief.jsonl").prints("key_revoked");
}

#[test]
fn an_interrupted_rotation_continues_when_it_is_run_again() {
    for moved in 0..=3 {
        let sandbox = ready();
        let old = native_keys(&sandbox)[0].1.clone();
        sandbox.ok("key new --name self-next");
        let keys = native_keys(&sandbox).into_iter();
        let next = keys.rev().find(|(name, _)| name == "self-next").unwrap().1;
        if moved > 0 {
            // No half moves before the trust of the home in the key has ended.
            sandbox.ok("trust revoke self");
        }
        let kept = format!("self-{}", &old[..8]);
        let moves = [
            ("self", "key", kept.as_str()),
            ("self", "pub", &kept),
            ("self-next", "key", "self"),
        ];
        for (from, half, to) in &moves[..moved] {
            let path = |name| sandbox.home().join(format!("keys/{name}.native.{half}"));
            fs::rename(path(from), path(to)).unwrap();
        }
        sandbox.ok("key rotate self");
        let keys = native_keys(&sandbox);
        assert_eq!(keys.len(), 2, "{moved}: {keys:?}");
        assert!(
            keys.contains(&("self".to_owned(), next)),
            "{moved}: {keys:?}"
        );
    }
}
