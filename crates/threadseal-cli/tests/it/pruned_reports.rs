//! A pruned record is reported as pruned, and not counted as verified.

use crate::prelude::*;

// T-PRU-30
#[test]
fn pruned_records_are_counted_and_named_apart() {
    let sandbox = ready();
    ended_record(&sandbox, "t.jsonl", 1);
    ended_record(&sandbox, "u.jsonl", 1);
    sandbox.ok("prune --yes t.jsonl --reason 'it is old'");
    sandbox
        .ok("verify --all")
        .prints("verified, 1 pruned")
        .prints("was pruned by ")
        .prints("it is old");
    let quiet = sandbox.ok("verify --all -q").stdout;
    assert_eq!(quiet, "");
    let json = sandbox.json("verify --all");
    assert_eq!(json["summary"]["pruned"], 1);
    // The same holds if it is named; a missing file that was not pruned cannot be read.
    sandbox
        .ok("verify t.jsonl")
        .begins_with("pruned  ")
        .prints("was pruned by ")
        .prints("it is old");
    sandbox.sh("verify v.jsonl").fails_with("cannot read");
}
