//! Keys that end in the log: their earlier seals still count, whatever a clock shows.

use crate::fixtures::{ready, recorder, recorder_at};
use crate::sandbox::{Sandbox, copy};
use std::sync::Arc;
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_formats::transcript::Ending;
use threadseal_formats::transcript::event::Payload;
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
    sandbox.run(["seal", "before.jsonl", "--final"]).exits(0);
    sandbox.run(["verify", "before.jsonl"]).exits(0);
    sandbox
        .run(["key", "revoke", "self", "--reason", "stolen"])
        .exits(0);
    sandbox
}

/// The log grows, by another key.
fn more(sandbox: &Sandbox) {
    sandbox.run(["key", "new", "--name", "other"]);
    sandbox.write("more.json", "{}\n");
    let seal = ["seal", "more.json", "--key", "other"];
    sandbox.run(seal).exits(0);
}

// T-KLOG-02
#[test]
fn what_a_revoked_key_sealed_before_in_the_log_counts_and_nothing_that_it_seals_later() {
    let sandbox = revoked();
    sandbox.run(["verify", "before.jsonl"]).exits(0);
    let mut thief = recorder_at(&sandbox, "after.jsonl", 2, Arc::new(SetBack));
    let nothing = Payload::parse(b"{}").unwrap();
    thief.end(Ending::Completed, &nothing, 2).unwrap();
    let forged = sandbox.run(["verify", "after.jsonl", "--json"]).exits(1);
    let forged = forged.json();
    assert_eq!(forged["results"][0]["verdict"], "forged");
    let findings = forged["results"][0]["findings"].to_string();
    assert!(findings.contains("key_revoked"), "{findings}");
    // The command does not seal with the key any more.
    drop(recorder(&sandbox, "on.jsonl", 1));
    sandbox
        .run(["seal", "on.jsonl", "--final"])
        .fails_with("seals nothing more");
}

// T-KLOG-02
#[test]
fn what_a_revoked_key_sealed_before_counts_in_the_log_that_takes_the_place_of_the_old_one() {
    let sandbox = revoked();
    // Another record, sealed with the stolen key and recorded in the log after the key had ended.
    let mut thief = recorder_at(&sandbox, "after.jsonl", 2, Arc::new(SetBack));
    let nothing = Payload::parse(b"{}").unwrap();
    thief.end(Ending::Completed, &nothing, 2).unwrap();
    for _ in 0..2 {
        more(&sandbox);
        sandbox.run(["log", "restart", "--anyway"]).exits(0);
        sandbox.run(["verify", "before.jsonl"]).exits(0);
        let forged = sandbox.run(["verify", "after.jsonl"]).exits(1);
        assert!(forged.stdout.contains("key_revoked"), "{}", forged.stdout);
        sandbox.run(["log", "fsck"]).exits(0);
    }
}

/// The trust store names an entry of the previous log, because the process ended before the store
/// followed. Another restart does not change that.
// T-KLOG-14
#[test]
fn a_restart_that_was_cut_short_before_the_trust_store_followed_loses_nothing() {
    let sandbox = revoked();
    let mut thief = recorder_at(&sandbox, "after.jsonl", 2, Arc::new(SetBack));
    let nothing = Payload::parse(b"{}").unwrap();
    thief.end(Ending::Completed, &nothing, 2).unwrap();
    let trust = sandbox.home().join("trust.toml");
    let before = std::fs::read(&trust).unwrap();
    for _ in 0..2 {
        more(&sandbox);
        sandbox.run(["log", "restart", "--anyway"]).exits(0);
        std::fs::write(&trust, &before).unwrap();
        sandbox.run(["verify", "before.jsonl"]).exits(0);
        let forged = sandbox.run(["verify", "after.jsonl"]).exits(1);
        assert!(forged.stdout.contains("key_revoked"), "{}", forged.stdout);
    }
    // The next restart updates it.
    sandbox.run(["log", "restart", "--anyway"]).exits(0);
    assert_ne!(std::fs::read(&trust).unwrap(), before);
    sandbox.run(["verify", "before.jsonl"]).exits(0);
}

// T-KLOG-03
#[test]
fn without_the_log_nothing_that_a_revoked_key_sealed_counts() {
    let sandbox = revoked();
    let log = sandbox.home().join("log");
    std::fs::remove_dir_all(&log).unwrap();
    let forged = sandbox.run(["verify", "before.jsonl"]).exits(1);
    assert!(forged.stdout.contains("key_revoked"), "{}", forged.stdout);
    assert!(forged.stderr.contains("log_missing"), "{}", forged.stderr);
    let mut marks = sandbox.home().into_os_string();
    marks.push(".marks");
    std::fs::remove_dir_all(marks).unwrap();
    let forged = sandbox.run(["verify", "before.jsonl"]).exits(1);
    assert!(forged.stdout.contains("key_revoked"), "{}", forged.stdout);
}

#[test]
fn a_new_home_says_in_its_log_that_its_key_is_there() {
    let sandbox = ready();
    let history = sandbox.run(["key", "history", "--json"]).exits(0).json();
    let events = history["events"].as_array().unwrap();
    assert_eq!(events.len(), 1, "{history}");
    assert_eq!(
        (&events[0]["change"], &events[0]["name"]),
        (&"create".into(), &"self".into())
    );
    sandbox.run(["init"]).exits(0);
    let again = sandbox.run(["key", "history", "--json"]).exits(0).json();
    assert_eq!(again, history);
}

#[test]
fn a_new_key_in_a_home_that_went_back_is_made_and_what_its_log_lacks_is_said() {
    let sandbox = ready();
    let older = sandbox.work().join("older");
    copy(&sandbox.home(), &older);
    drop(recorder(&sandbox, "before.jsonl", 1));
    sandbox.run(["seal", "before.jsonl", "--final"]).exits(0);
    std::fs::remove_dir_all(sandbox.home()).unwrap();
    copy(&older, &sandbox.home());
    for lost in ["keys/self.native.key", "keys/self.native.pub", "trust.toml"] {
        std::fs::remove_file(sandbox.home().join(lost)).unwrap();
    }
    let made = sandbox.run(["init"]).exits(0);
    assert!(
        made.stderr.contains("does not say that the new key")
            && made.stderr.contains("log_rolled_back"),
        "{}",
        made.stderr
    );
    assert_eq!(native_keys(&sandbox).len(), 1);
    let history = sandbox.run(["key", "history", "--json"]).exits(0).json();
    assert_eq!(history["events"].as_array().unwrap().len(), 1, "{history}");
}

#[test]
fn the_history_of_keys_is_that_of_the_log() {
    let sandbox = revoked();
    sandbox.run(["key", "new", "--name", "second"]).exits(0);
    let history = sandbox.run(["key", "history", "--json"]).exits(0).json();
    let said: Vec<_> = history["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let text = |name: &str| event[name].as_str().unwrap().to_owned();
            (text("change"), text("name"))
        })
        .collect();
    let expected = [("create", "self"), ("revoke", "self"), ("create", "second")];
    assert_eq!(
        said,
        expected.map(|(change, name)| (change.to_owned(), name.to_owned()))
    );
    let entry = history["events"][1]["entry"].to_string();
    let shown = sandbox.run(["log", "entries", "--from", &entry]).exits(0);
    assert!(shown.stdout.contains("key/revoke"), "{}", shown.stdout);
    sandbox.run(["log", "fsck"]).exits(0);
    let one = sandbox.run(["key", "history", "second"]).exits(0);
    assert_eq!(one.stdout.lines().count(), 1, "{}", one.stdout);
    // The log states it once; the trust store keeps the entry.
    sandbox
        .run(["key", "revoke", "self", "--reason", "again"])
        .exits(0);
    let again = sandbox.run(["key", "history", "--json"]).exits(0).json();
    assert_eq!(again["events"], history["events"]);
    let trust = std::fs::read_to_string(sandbox.home().join("trust.toml")).unwrap();
    assert!(
        trust.contains(&format!("reason = \"stolen\", entry = {entry} }}")),
        "{trust}"
    );
}

#[test]
fn a_key_that_is_not_native_and_a_home_without_a_log_are_told_so() {
    let sandbox = Sandbox::new();
    sandbox.run(["init", "-q", "--no-log"]).exits(0);
    sandbox
        .run(["key", "revoke", "self-rye", "--reason", "x"])
        .fails_with("trust revoke");
    sandbox.run(["key", "history"]).fails_with("log init");
    let ran = sandbox
        .run(["key", "revoke", "self", "--reason", "x"])
        .exits(0);
    assert!(ran.stderr.contains("no log"), "{}", ran.stderr);
    let trust = std::fs::read_to_string(sandbox.home().join("trust.toml")).unwrap();
    assert!(trust.contains("reason = \"x\" }"), "{trust}");
}

/// Names and ids of the home's native keys.
fn native_keys(sandbox: &Sandbox) -> Vec<(String, String)> {
    let keys = sandbox.run(["key", "list", "--json"]).exits(0).json();
    let keys = keys["keys"].as_array().unwrap().clone();
    let native = keys.iter().filter(|key| key["usage"] == "native");
    let text = |key: &serde_json::Value, name: &str| key[name].as_str().unwrap().to_owned();
    native
        .map(|key| (text(key, "name"), text(key, "key_id")))
        .collect()
}

// T-KLOG-02
#[test]
fn a_key_is_rotated_under_its_name_and_what_the_old_one_sealed_before_counts() {
    let sandbox = ready();
    drop(recorder(&sandbox, "before.jsonl", 2));
    sandbox.run(["seal", "before.jsonl", "--final"]).exits(0);
    let old = native_keys(&sandbox)[0].1.clone();
    sandbox.run(["key", "rotate", "self"]).exits(0);
    let keys = native_keys(&sandbox);
    let kept = format!("self-{}", &old[..8]);
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert!(keys.contains(&(kept.clone(), old.clone())), "{keys:?}");
    let (_, new) = keys.iter().find(|(name, _)| name == "self").unwrap();
    assert_ne!(*new, old);
    let history = sandbox.run(["key", "history", "--json"]).exits(0).json();
    assert_eq!(history["events"][1]["next"].as_str(), Some(new.as_str()));
    // The records from before and after the rotation both verify.
    drop(recorder(&sandbox, "after.jsonl", 1));
    sandbox.run(["seal", "after.jsonl", "--final"]).exits(0);
    sandbox
        .run(["verify", "before.jsonl", "after.jsonl"])
        .exits(0);
    // A thief with the old key makes seals that do not verify.
    for half in ["key", "pub"] {
        let path = |name: &str| sandbox.home().join(format!("keys/{name}.native.{half}"));
        std::fs::copy(path("self"), path("aside")).unwrap();
        std::fs::copy(path(&kept), path("self")).unwrap();
    }
    let mut thief = recorder_at(&sandbox, "thief.jsonl", 2, Arc::new(SetBack));
    let nothing = Payload::parse(b"{}").unwrap();
    thief.end(Ending::Completed, &nothing, 2).unwrap();
    let forged = sandbox.run(["verify", "thief.jsonl"]).exits(1);
    assert!(forged.stdout.contains("key_revoked"), "{}", forged.stdout);
}

#[test]
fn a_rotation_that_was_cut_short_goes_on_where_it_is_run_again() {
    let rotated = |prepare: &dyn Fn(&Sandbox, &str)| {
        let sandbox = ready();
        let old = native_keys(&sandbox)[0].1.clone();
        sandbox.run(["key", "new", "--name", "self-next"]).exits(0);
        let next = native_keys(&sandbox)
            .into_iter()
            .find(|(name, _)| name == "self-next");
        prepare(&sandbox, &old[..8]);
        sandbox.run(["key", "rotate", "self"]).exits(0);
        let keys = native_keys(&sandbox);
        assert_eq!(keys.len(), 2, "{keys:?}");
        assert!(
            keys.contains(&("self".to_owned(), next.unwrap().1)),
            "{keys:?}"
        );
    };
    let moved = |sandbox: &Sandbox, from: String, to: String| {
        let keys = sandbox.home().join("keys");
        if from == "self.native.key" {
            // No half moves before the trust of the home in the key has ended.
            sandbox.run(["trust", "revoke", "self"]).exits(0);
        }
        std::fs::rename(keys.join(from), keys.join(to)).unwrap();
    };
    rotated(&|_, _| {});
    rotated(&|sandbox, id| {
        moved(
            sandbox,
            "self.native.key".into(),
            format!("self-{id}.native.key"),
        );
    });
    rotated(&|sandbox, id| {
        moved(
            sandbox,
            "self.native.key".into(),
            format!("self-{id}.native.key"),
        );
        moved(
            sandbox,
            "self.native.pub".into(),
            format!("self-{id}.native.pub"),
        );
    });
    rotated(&|sandbox, id| {
        moved(
            sandbox,
            "self.native.key".into(),
            format!("self-{id}.native.key"),
        );
        moved(
            sandbox,
            "self.native.pub".into(),
            format!("self-{id}.native.pub"),
        );
        moved(
            sandbox,
            "self-next.native.key".into(),
            "self.native.key".into(),
        );
    });
}
