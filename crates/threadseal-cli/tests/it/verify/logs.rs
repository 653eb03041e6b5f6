//! Logs of other programs, with detached seals.

use super::{replace, stranger_who_trusts, verify};
use crate::fixtures::ready;
use crate::sandbox::tree_digest;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

// T-OBS-01
#[test]
fn a_foreign_log_is_sealed_beside_and_every_change_is_named() {
    let sandbox = ready();
    let log = sandbox.write("s.jsonl", "{\"type\":\"user\"}\n{\"type\":\"assistant\"}\n");
    verify(&sandbox, &log).exits(3);
    let sealed = sandbox.run(["seal", "s.jsonl"]).exits(0);
    assert!(sealed.stdout.contains("head "), "{}", sealed.stdout);
    verify(&sandbox, &log).exits(0);
    let again = sandbox.run(["seal", "s.jsonl"]).exits(0);
    assert!(again.stdout.starts_with("unchanged"), "{}", again.stdout);

    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, format!("{text}{{\"type\":\"user\"}}\n")).unwrap();
    let tail = verify(&sandbox, &log).exits(3);
    assert!(
        tail.stdout.starts_with("unsigned_tail  "),
        "{}",
        tail.stdout
    );
    sandbox.run(["seal", "s.jsonl", "--final"]).exits(0);
    verify(&stranger_who_trusts(&sandbox), &log).exits(0);

    replace(&log, "assistant", "assassins");
    let changed = verify(&sandbox, &log).exits(1);
    assert!(changed.stdout.contains("line 2"), "{}", changed.stdout);
    let before = tree_digest(&sandbox.work());
    sandbox.run(["seal", "s.jsonl"]).fails_with("verify it");
    assert_eq!(
        tree_digest(&sandbox.work()),
        before,
        "nothing is sealed over a change"
    );
}

// T-OBS-03
#[test]
fn a_log_whose_seals_were_deleted_is_noticed_and_not_sealed_anew() {
    let sandbox = ready();
    let log = sandbox.write("s.jsonl", "{\"type\":\"user\"}\n{\"type\":\"assistant\"}\n");
    sandbox.run(["seal", "s.jsonl"]).exits(0);
    fs::remove_file(sandbox.work().join("s.jsonl.seal")).unwrap();
    let ran = verify(&sandbox, &log).exits(1);
    assert!(ran.stdout.contains("seals are gone"), "{}", ran.stdout);
    sandbox
        .run(["seal", "s.jsonl"])
        .fails_with("seals are gone");
}

// T-OBS-04
#[test]
fn seals_put_in_the_place_of_those_that_this_host_made_are_noticed() {
    let sandbox = ready();
    let log = sandbox.write("s.jsonl", "{\"type\":\"user\"}\n{\"type\":\"assistant\"}\n");
    sandbox.run(["seal", "s.jsonl"]).exits(0);
    let attacker = ready();
    let copy = attacker.write("s.jsonl", fs::read(&log).unwrap());
    attacker.run(["seal", "s.jsonl"]).exits(0);
    let seals = |of: &Path| of.with_extension("jsonl.seal");
    fs::copy(seals(&copy), seals(&log)).unwrap();
    let ran = verify(&sandbox, &log).exits(1);
    assert!(ran.stdout.contains("seals are gone"), "{}", ran.stdout);
}

// T-OBS-05
#[test]
fn seals_without_their_log_are_a_missing_record() {
    let sandbox = ready();
    let log = sandbox.write("d/s.jsonl", "{\"type\":\"user\"}\n");
    sandbox.run(["seal", "d/s.jsonl"]).exits(0);
    fs::remove_file(&log).unwrap();
    for path in ["d", "d/s.jsonl.seal"] {
        let ran = sandbox.run(["verify", path]).exits(1);
        assert!(
            ran.stdout.starts_with("missing  d/s.jsonl  "),
            "{}",
            ran.stdout
        );
    }
}

// T-CMD-11
#[test]
fn a_sealed_log_that_grows_by_a_line_beyond_every_bound_has_a_tail() {
    let sandbox = ready();
    let log = sandbox.write("s.jsonl", "{\"type\":\"user\"}\n");
    sandbox.run(["seal", "s.jsonl"]).exits(0);
    let sealed = fs::read(&log).unwrap();
    for end in [&b""[..], b"\n", b"\n{}\n"] {
        let long = vec![b'x'; (16 << 20) + 1];
        fs::write(&log, [&sealed[..], &long, end].concat()).unwrap();
        let ran = verify(&sandbox, &log).exits(3);
        assert!(ran.stdout.starts_with("unsigned_tail  "), "{}", ran.stdout);
    }
}

// T-CMD-04
#[test]
fn a_name_that_is_not_utf_8_is_told_apart_from_every_other() {
    let sandbox = ready();
    let names: [&[u8]; 3] = [b"x\xff.json", b"x\xfe.json", b"x\\xff.json"];
    for name in names {
        fs::write(sandbox.work().join(OsStr::from_bytes(name)), "{}").unwrap();
    }
    let json = sandbox.run(["verify", ".", "--json"]).exits(3).json();
    let shown: BTreeSet<&str> = json["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|report| report["path"].as_str().unwrap())
        .collect();
    let expected = ["./x\\xff.json", "./x\\xfe.json", "./x\\\\xff.json"];
    assert_eq!(shown, BTreeSet::from(expected));
}
