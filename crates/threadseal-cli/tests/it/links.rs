//! Records that are named through symbolic links: the files that belong to them are beside the
//! target of the link.

use crate::prelude::*;
use crate::prune::text;

// T-FIL-13
#[test]
fn a_log_that_is_named_through_a_link_has_the_seals_beside_the_log() {
    let sandbox = ready();
    let log = sandbox.write("d/s.jsonl", "{\"n\":1}\n");
    sandbox.ok("seal d/s.jsonl");
    symlink("d/s.jsonl", sandbox.path("latest.jsonl")).unwrap();
    symlink("d/s.jsonl.seal", sandbox.path("latest.seal")).unwrap();
    for name in ["d/s.jsonl", "latest.jsonl", "latest.seal"] {
        sandbox.ok(format!("verify {name}"));
    }
    // Sealed under either name, it is one record.
    for (text, name) in [
        ("{\"n\":2}\n", "latest.jsonl"),
        ("{\"n\":3}\n", "d/s.jsonl"),
    ] {
        let more = [fs::read(&log).unwrap(), text.as_bytes().to_vec()].concat();
        fs::write(&log, more).unwrap();
        sandbox.exits(3, "verify latest.jsonl");
        sandbox.ok(format!("seal {name}"));
    }
    assert!(!sandbox.path("latest.jsonl.seal").exists());
    let ran = sandbox.json("verify --all");
    assert_eq!(ran["results"].list().len(), 1, "{ran}");
    // A change of the log is reported under either name.
    fs::write(&log, "{\"n\":9}\n").unwrap();
    for name in ["d/s.jsonl", "latest.jsonl"] {
        sandbox.exits(1, format!("verify {name}"));
    }
}

// T-FIL-13
#[test]
fn a_record_named_through_a_link_has_its_bodies_and_is_pruned_at_its_place() {
    let sandbox = project();
    greeted(&sandbox, "--bodies detached -q");
    let record = transcript(&sandbox, "child");
    let link = sandbox.path("latest.jsonl");
    symlink(&record, &link).unwrap();
    sandbox.ok(format!("verify {record:?}"));
    sandbox.ok(format!("verify {link:?}"));
    let said = sandbox.ok(format!("messages {record:?}")).stdout;
    let linked = sandbox.ok(format!("messages {link:?}")).stdout;
    assert_eq!(said, linked);
    sandbox
        .ok(format!("prune --yes {link:?}"))
        .prints(text(&record));
    assert!(!record.exists() && !record.with_file_name("transcript.bodies").exists());
    assert!(record.with_file_name("transcript.jsonl.tombstone").exists());
    sandbox.ok("verify --all p");
}
