//! Evidence of a fork: made from copies of a record, checked without a home by anyone who knows the
//! key.

use crate::prelude::*;
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
    fs::create_dir(sandbox.path("there")).unwrap();
    fs::copy(&path, sandbox.path("there/one.jsonl")).unwrap();
    sandbox.ok("seal one.jsonl --final");
    sandbox
        .in_home(&other, "seal there/one.jsonl --final")
        .exits(0);
    sandbox
}

pub(crate) const COPIES: [&str; 2] = ["one.jsonl", "there/one.jsonl"];

// T-FRK-02
#[test]
fn two_continued_copies_convict_their_key() {
    let sandbox = forked();
    let make = format!("verify {} {} --evidence fork", COPIES[0], COPIES[1]);
    let unasked = sandbox.exits(1, format!("verify {} {} --json", COPIES[0], COPIES[1]));
    assert!(unasked.json().get("evidence").is_none());
    assert_eq!(
        sandbox
            .exits(
                1,
                format!("verify {} {} --evidence told --json", COPIES[0], COPIES[1])
            )
            .json()["evidence"],
        "told"
    );
    assert!(
        sandbox
            .sh(format!("verify {} --evidence none --json", COPIES[0]))
            .json()["evidence"]
            .is_null()
    );
    assert!(!sandbox.path("none").exists());
    sandbox
        .exits(1, &make)
        .prints("forked")
        .warns("one key sealed");
    sandbox.ok("check-proof fork").prints("seals_conflict");
    // Without a home: once with the owner's key and once without it.
    let nowhere = sandbox.home().with_file_name("nowhere");
    let own = sandbox.home().join("keys/self.native.pub");
    let by = |more: &str| sandbox.in_home(&nowhere, &format!("check-proof fork {more}"));
    by(&format!("--key {own:?}")).exits(0);
    by("").exits(3);
    let other = PrivateKey::from_seed([5; 32]).public_key().to_hex();
    by(&format!("--key {other}")).exits(3);
    by(&format!("--key {other} --key {own:?}")).exits(0);
    assert!(!nowhere.exists());
    let json = by(&format!("--key {own:?} --json")).exits(0).json();
    json.is(json!({"result/verdict": "verified", "turn": Value::Null}));
    // The evidence contains no content of the record, and no command overwrites it.
    let text = sandbox.read("fork");
    assert!(!text.contains("question") && !text.contains("answer"));
    sandbox.sh(&make).warns("fork");
    assert_eq!(sandbox.read("fork"), text);
    sandbox.write("changed", text.replacen("\"turn\":2", "\"turn\":3", 1));
    sandbox.exits(1, "check-proof changed");
}

/// A key that ended belonged to its owner when it sealed, but nothing proves who used it. The
/// evidence is not called forged, and convicts no record.
// T-FRK-09
#[test]
fn evidence_against_a_key_that_ended_states_its_worth() {
    let sandbox = forked();
    sandbox.exits(
        1,
        format!("verify {} {} --evidence fork", COPIES[0], COPIES[1]),
    );
    sandbox.ok("check-proof fork");
    sandbox.ok("key revoke self --reason stolen");
    let judged = sandbox.exits(3, "check-proof fork");
    for said in ["seals_conflict", "key_ended"] {
        judged.stdout.has(said);
    }
    sandbox.exits(3, "log accuse fork");
}

// T-FRK-02
#[test]
fn a_short_copy_beside_two_histories_hides_neither() {
    let sandbox = ready();
    let path = open_record(&sandbox, "b.jsonl", 2);
    fs::copy(&path, sandbox.path("a.jsonl")).unwrap();
    let other = sandbox.stolen();
    fs::copy(&path, sandbox.path("c.jsonl")).unwrap();
    sandbox.ok("seal b.jsonl --final");
    sandbox.in_home(&other, "seal c.jsonl --final").exits(0);
    sandbox.exits(1, "verify a.jsonl b.jsonl c.jsonl --evidence fork");
    sandbox.ok("check-proof fork");
}

// T-FRK-12
#[test]
fn copies_of_an_honest_record_make_no_evidence() {
    let sandbox = ready();
    let path = open_record(&sandbox, "one.jsonl", 2);
    fs::copy(&path, sandbox.path("older.jsonl")).unwrap();
    sandbox.ok("seal one.jsonl --final");
    sandbox
        .exits(1, "verify one.jsonl older.jsonl --evidence fork")
        .prints("rolled_back")
        .warns("no evidence was written");
    sandbox
        .ok("verify one.jsonl --evidence fork")
        .warns("no evidence was written");
    // Changed content is no second history, because no seal covers it.
    let text = read(&path);
    sandbox.write(
        "changed.jsonl",
        text.replacen("question 1", "question 9", 1),
    );
    sandbox.exits(1, "verify one.jsonl changed.jsonl --evidence fork");
    assert!(!sandbox.path("fork").exists());
}

// T-FRK-16
#[test]
fn a_conflict_of_checkpoints_is_judged_by_the_key_that_is_named() {
    let sandbox = ready();
    let text = include_str!("../../../../testkit/tlog/forked.tlog-conflict");
    sandbox.write("log", text);
    sandbox
        .exits(3, "check-proof log")
        .prints("checkpoints_conflict");
    let vkey = text.lines().nth(1).unwrap();
    let bytes = threadseal_core::encoding::parse_base64(vkey.rsplit_once('+').unwrap().1).unwrap();
    let key = PublicKey::from_bytes(bytes[1..].try_into().unwrap()).unwrap();
    sandbox.ok(format!("check-proof log --key {}", key.to_hex()));
    sandbox
        .ok(format!("check-proof log --key {}", &vkey["key ".len()..]))
        .prints("signatures, conflict");
    sandbox
        .sh("verify log")
        .fails_with("a conflict of checkpoints is not a record; hint: threadseal check-proof");
    let own = sandbox.home().join("keys/self.native.pub");
    let other = format!("check-proof log --key {own:?}");
    sandbox.exits(3, &other).prints("other_signer");
    sandbox.ok(format!("{other} --key {}", &vkey["key ".len()..]));
    sandbox.write("changed", text.replacen("note ", "note 0", 1));
    sandbox.exits(1, "check-proof changed");
}
