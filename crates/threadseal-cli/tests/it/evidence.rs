//! Evidence of a fork: made from copies of a record, checked without a home by anyone who knows the
//! key.

use crate::fixtures::{open_record, ready};
use crate::sandbox::{Ran, Sandbox, copy, take_log_away};
use std::fs;
use std::path::Path;
use threadseal_core::key::{PrivateKey, PublicKey};

/// Two copies of a record that diverged: one was continued in a copy of the home, with a copy of
/// its keys.
pub(crate) fn forked() -> Sandbox {
    let sandbox = ready();
    let path = open_record(&sandbox, "one.jsonl", 2);
    let other = sandbox.home().with_file_name("elsewhere");
    copy(&sandbox.home(), &other);
    // Without its log, which would notice the copy.
    take_log_away(&other);
    fs::create_dir(sandbox.work().join("there")).unwrap();
    fs::copy(&path, sandbox.work().join("there/one.jsonl")).unwrap();
    sandbox.run(["seal", "one.jsonl", "--final"]).exits(0);
    in_home(&sandbox, &other, &["seal", "there/one.jsonl", "--final"]).exits(0);
    sandbox
}

pub(crate) fn in_home(sandbox: &Sandbox, home: &Path, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command();
    command.args(arguments).env("THREADSEAL_HOME", home);
    Ran::of(command.output().unwrap())
}

pub(crate) const COPIES: [&str; 2] = ["one.jsonl", "there/one.jsonl"];

// T-FRK-02
#[test]
fn two_copies_that_were_gone_on_with_convict_the_key_to_whoever_knows_it() {
    let sandbox = forked();
    let make = ["verify", COPIES[0], COPIES[1], "--evidence", "fork"];
    let unasked = sandbox
        .run(["verify", COPIES[0], COPIES[1], "--json"])
        .exits(1);
    assert!(unasked.json().get("evidence").is_none());
    let told = [
        "verify",
        COPIES[0],
        COPIES[1],
        "--evidence",
        "told",
        "--json",
    ];
    assert_eq!(sandbox.run(told).exits(1).json()["evidence"], "told");
    let none = ["verify", COPIES[0], "--evidence", "none", "--json"];
    assert!(sandbox.run(none).json()["evidence"].is_null());
    assert!(!sandbox.work().join("none").exists());
    let made = sandbox.run(make).exits(1);
    assert!(made.stdout.contains("forked"), "{}", made.stdout);
    assert!(made.stderr.contains("one key sealed"), "{}", made.stderr);
    let judged = sandbox.run(["check-proof", "fork"]).exits(0);
    assert!(
        judged.stdout.contains("seals_conflict"),
        "{}",
        judged.stdout
    );
    // Without a home: once with the owner's key and once without it.
    let nowhere = sandbox.home().with_file_name("nowhere");
    let own = sandbox.home().join("keys/self.native.pub");
    let by = |more: &[&str]| {
        in_home(
            &sandbox,
            &nowhere,
            &[&["check-proof", "fork"], more].concat(),
        )
    };
    by(&["--key", own.to_str().unwrap()]).exits(0);
    by(&[]).exits(3);
    let other = PrivateKey::from_seed([5; 32]).public_key().to_hex();
    by(&["--key", &other]).exits(1);
    assert!(!nowhere.exists());
    let json = by(&["--key", own.to_str().unwrap(), "--json"])
        .exits(0)
        .json();
    assert_eq!(json["result"]["verdict"], "verified");
    assert_eq!(json["turn"], serde_json::Value::Null);
    // The evidence contains no content of the record, and no command overwrites it.
    let text = fs::read_to_string(sandbox.work().join("fork")).unwrap();
    assert!(!text.contains("question") && !text.contains("answer"));
    let again = sandbox.run(make);
    assert!(again.stderr.contains("fork"), "{}", again.stderr);
    assert_eq!(
        fs::read_to_string(sandbox.work().join("fork")).unwrap(),
        text
    );
    sandbox.write("changed", text.replacen("\"turn\":2", "\"turn\":3", 1));
    sandbox.run(["check-proof", "changed"]).exits(1);
}

/// A key that ended belonged to its owner when it sealed, but nothing proves who used it. The
/// evidence is not called forged, and convicts no record.
// T-FRK-09
#[test]
fn evidence_of_a_key_that_ended_says_what_it_is_worth() {
    let sandbox = forked();
    let make = ["verify", COPIES[0], COPIES[1], "--evidence", "fork"];
    sandbox.run(make).exits(1);
    sandbox.run(["check-proof", "fork"]).exits(0);
    let revoke = ["key", "revoke", "self", "--reason", "stolen"];
    sandbox.run(revoke).exits(0);
    let judged = sandbox.run(["check-proof", "fork"]).exits(3);
    for said in ["seals_conflict", "key_ended"] {
        assert!(judged.stdout.contains(said), "{}", judged.stdout);
    }
    sandbox.run(["log", "accuse", "fork"]).exits(3);
}

// T-FRK-02
#[test]
fn a_short_copy_beside_two_histories_hides_neither() {
    let sandbox = ready();
    let path = open_record(&sandbox, "b.jsonl", 2);
    fs::copy(&path, sandbox.work().join("a.jsonl")).unwrap();
    let other = sandbox.home().with_file_name("elsewhere");
    copy(&sandbox.home(), &other);
    take_log_away(&other);
    fs::copy(&path, sandbox.work().join("c.jsonl")).unwrap();
    sandbox.run(["seal", "b.jsonl", "--final"]).exits(0);
    in_home(&sandbox, &other, &["seal", "c.jsonl", "--final"]).exits(0);
    let all = [
        "verify",
        "a.jsonl",
        "b.jsonl",
        "c.jsonl",
        "--evidence",
        "fork",
    ];
    sandbox.run(all).exits(1);
    sandbox.run(["check-proof", "fork"]).exits(0);
}

// T-FRK-12
#[test]
fn copies_of_an_honest_record_make_no_evidence() {
    let sandbox = ready();
    let path = open_record(&sandbox, "one.jsonl", 2);
    fs::copy(&path, sandbox.work().join("older.jsonl")).unwrap();
    sandbox.run(["seal", "one.jsonl", "--final"]).exits(0);
    let make = ["verify", "one.jsonl", "older.jsonl", "--evidence", "fork"];
    let made = sandbox.run(make).exits(1);
    assert!(made.stdout.contains("rolled_back"), "{}", made.stdout);
    assert!(
        made.stderr.contains("no evidence was written"),
        "{}",
        made.stderr
    );
    let alone = ["verify", "one.jsonl", "--evidence", "fork"];
    let alone = sandbox.run(alone).exits(0);
    assert!(
        alone.stderr.contains("no evidence was written"),
        "{}",
        alone.stderr
    );
    // Changed content is no second history, because no seal covers it.
    let text = fs::read_to_string(&path).unwrap();
    sandbox.write(
        "changed.jsonl",
        text.replacen("question 1", "question 9", 1),
    );
    let make = ["verify", "one.jsonl", "changed.jsonl", "--evidence", "fork"];
    sandbox.run(make).exits(1);
    assert!(!sandbox.work().join("fork").exists());
}

// T-FRK-16
#[test]
fn a_conflict_of_checkpoints_is_judged_by_the_key_that_is_named() {
    let sandbox = ready();
    let text = include_str!("../../../../testkit/tlog/forked.tlog-conflict");
    sandbox.write("log", text);
    let open = sandbox.run(["check-proof", "log"]).exits(3);
    assert!(
        open.stdout.contains("checkpoints_conflict"),
        "{}",
        open.stdout
    );
    let vkey = text.lines().nth(1).unwrap();
    let bytes = threadseal_core::encoding::parse_base64(vkey.rsplit_once('+').unwrap().1).unwrap();
    let key = PublicKey::from_bytes(bytes[1..].try_into().unwrap()).unwrap();
    sandbox
        .run(["check-proof", "log", "--key", &key.to_hex()])
        .exits(0);
    let judged = sandbox
        .run(["check-proof", "log", "--key", &vkey["key ".len()..]])
        .exits(0);
    assert!(
        judged.stdout.contains("signatures, conflict"),
        "{}",
        judged.stdout
    );
    sandbox
        .run(["verify", "log"])
        .fails_with("a conflict of checkpoints is not a record; hint: threadseal check-proof");
    let own = sandbox.home().join("keys/self.native.pub");
    let other = ["check-proof", "log", "--key", own.to_str().unwrap()];
    sandbox.run(other).exits(1);
    sandbox.write("changed", text.replacen("note ", "note 0", 1));
    sandbox.run(["check-proof", "changed"]).exits(1);
}
