//! A pruned record is reported as pruned, and not counted as verified.

use crate::fixtures::{ended_record, ready};

#[test]
fn what_was_pruned_is_counted_and_named_by_itself() {
    let sandbox = ready();
    ended_record(&sandbox, "t.jsonl", 1);
    ended_record(&sandbox, "u.jsonl", 1);
    sandbox
        .run(["prune", "t.jsonl", "--reason", "it is old"])
        .exits(0);
    let all = sandbox.run(["verify", "--all"]).exits(0).stdout;
    assert!(all.contains("verified, 1 pruned"), "{all}");
    assert!(
        all.contains("was pruned by ") && all.contains("it is old"),
        "{all}"
    );
    let quiet = sandbox.run(["verify", "--all", "-q"]).exits(0).stdout;
    assert_eq!(quiet, "");
    let json = sandbox.run(["verify", "--all", "--json"]).exits(0).json();
    assert_eq!(json["summary"]["pruned"], 1);
    // The same holds if it is named; a missing file that was not pruned cannot be read.
    let named = sandbox.run(["verify", "t.jsonl"]).exits(0).stdout;
    assert!(
        named.contains("was pruned by ") && named.contains("it is old"),
        "{named}"
    );
    sandbox.run(["verify", "v.jsonl"]).fails_with("cannot read");
}
