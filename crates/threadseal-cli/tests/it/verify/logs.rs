//! Logs of other programs, with detached seals.

use super::{replace, stranger_who_trusts, verify};
use crate::prelude::*;
use std::os::unix::ffi::OsStrExt as _;

// T-OBS-01
#[test]
fn a_foreign_log_is_sealed_beside_and_every_change_is_named() {
    let sandbox = ready();
    let log = sandbox.write("s.jsonl", "{\"type\":\"user\"}\n{\"type\":\"assistant\"}\n");
    verify(&sandbox, &log).exits(3);
    sandbox.ok("seal s.jsonl").prints("head ");
    verify(&sandbox, &log).exits(0);
    sandbox.ok("seal s.jsonl").begins_with("unchanged");

    let text = read(&log);
    fs::write(&log, format!("{text}{{\"type\":\"user\"}}\n")).unwrap();
    verify(&sandbox, &log)
        .exits(3)
        .begins_with("unsigned_tail  ");
    sandbox.ok("seal s.jsonl --final");
    verify(&stranger_who_trusts(&sandbox), &log).exits(0);

    replace(&log, "assistant", "assassins");
    verify(&sandbox, &log).exits(1).prints("line 2");
    let before = tree_digest(&sandbox.work());
    sandbox
        .sh("seal s.jsonl")
        .refuses_with("hint: threadseal verify s.jsonl");
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
    sandbox.ok("seal s.jsonl");
    fs::remove_file(sandbox.path("s.jsonl.seal")).unwrap();
    verify(&sandbox, &log).exits(1).prints("seals are gone");
    sandbox.sh("seal s.jsonl").refuses_with("seals are gone");
}

// T-OBS-04
#[test]
fn seals_put_in_the_place_of_those_that_this_host_made_are_noticed() {
    let sandbox = ready();
    let log = sandbox.write("s.jsonl", "{\"type\":\"user\"}\n{\"type\":\"assistant\"}\n");
    sandbox.ok("seal s.jsonl");
    let attacker = ready();
    let copy = attacker.write("s.jsonl", fs::read(&log).unwrap());
    attacker.ok("seal s.jsonl");
    let seals = |of: &Path| of.with_extension("jsonl.seal");
    fs::copy(seals(&copy), seals(&log)).unwrap();
    verify(&sandbox, &log).exits(1).prints("seals are gone");
}

// T-OBS-05
#[test]
fn seals_without_their_log_are_a_missing_record() {
    let sandbox = ready();
    let log = sandbox.write("d/s.jsonl", "{\"type\":\"user\"}\n");
    sandbox.ok("seal d/s.jsonl");
    fs::remove_file(&log).unwrap();
    for path in ["d", "d/s.jsonl.seal"] {
        sandbox
            .exits(1, format!("verify {path}"))
            .begins_with("missing  d/s.jsonl  ");
    }
}

// T-CMD-11
#[test]
fn a_sealed_log_that_grows_by_a_line_beyond_every_bound_has_a_tail() {
    let sandbox = ready();
    let log = sandbox.write("s.jsonl", "{\"type\":\"user\"}\n");
    sandbox.ok("seal s.jsonl");
    let sealed = fs::read(&log).unwrap();
    for end in [&b""[..], b"\n", b"\n{}\n"] {
        let long = vec![b'x'; (16 << 20) + 1];
        fs::write(&log, [&sealed[..], &long, end].concat()).unwrap();
        verify(&sandbox, &log)
            .exits(3)
            .begins_with("unsigned_tail  ");
    }
}

// T-CMD-04
#[test]
fn names_that_are_not_utf_8_are_distinct_in_output() {
    let sandbox = ready();
    let names: [&[u8]; 3] = [b"x\xff.json", b"x\xfe.json", b"x\\xff.json"];
    for name in names {
        sandbox.write(OsStr::from_bytes(name), "{}");
    }
    let json = sandbox.exits(3, "verify . --json").json();
    let shown = BTreeSet::from_iter(json["results"].texts("path"));
    let expected = ["./x\\xff.json", "./x\\xfe.json", "./x\\\\xff.json"];
    assert_eq!(shown, BTreeSet::from(expected));
}
