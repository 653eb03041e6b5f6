//! Records that are named through symbolic links: the files that belong to them are beside the
//! target of the link.

use crate::fixtures::ready;
use crate::prune::text;
use crate::run::{greet, project, thread};
use std::fs;
use std::os::unix::fs::symlink;

// T-FIL-13
#[test]
fn a_log_that_is_named_through_a_link_has_the_seals_beside_the_log() {
    let sandbox = ready();
    let log = sandbox.write("d/s.jsonl", "{\"n\":1}\n");
    sandbox.run(["seal", "d/s.jsonl"]).exits(0);
    symlink("d/s.jsonl", sandbox.work().join("latest.jsonl")).unwrap();
    symlink("d/s.jsonl.seal", sandbox.work().join("latest.seal")).unwrap();
    for name in ["d/s.jsonl", "latest.jsonl", "latest.seal"] {
        sandbox.run(["verify", name]).exits(0);
    }
    // Sealed under either name, it is one record.
    for (text, name) in [
        ("{\"n\":2}\n", "latest.jsonl"),
        ("{\"n\":3}\n", "d/s.jsonl"),
    ] {
        let more = [fs::read(&log).unwrap(), text.as_bytes().to_vec()].concat();
        fs::write(&log, more).unwrap();
        sandbox.run(["verify", "latest.jsonl"]).exits(3);
        sandbox.run(["seal", name]).exits(0);
    }
    assert!(!sandbox.work().join("latest.jsonl.seal").exists());
    let ran = sandbox.run(["verify", "--all", "--json"]).exits(0).json();
    assert_eq!(ran["results"].as_array().unwrap().len(), 1, "{ran}");
    // A change of the log is reported under either name.
    fs::write(&log, "{\"n\":9}\n").unwrap();
    for name in ["d/s.jsonl", "latest.jsonl"] {
        sandbox.run(["verify", name]).exits(1);
    }
}

// T-FIL-13
#[test]
fn a_record_that_is_named_through_a_link_has_its_bodies_and_is_pruned_where_it_lies() {
    let sandbox = project();
    let more = ["--script", "answers.yaml", "--bodies", "detached", "-q"];
    greet(&sandbox, &more).exits(0);
    let record = thread(&sandbox, "child").join("transcript.jsonl");
    let link = sandbox.work().join("latest.jsonl");
    symlink(&record, &link).unwrap();
    sandbox.run(["verify", text(&record)]).exits(0);
    sandbox.run(["verify", text(&link)]).exits(0);
    let said = sandbox.run(["messages", text(&record)]).exits(0).stdout;
    let linked = sandbox.run(["messages", text(&link)]).exits(0).stdout;
    assert_eq!(said, linked);
    let ran = sandbox.run(["prune", text(&link)]).exits(0);
    assert!(ran.stdout.contains(text(&record)), "{}", ran.stdout);
    assert!(!record.exists() && !record.with_file_name("transcript.bodies").exists());
    assert!(record.with_file_name("transcript.jsonl.tombstone").exists());
    sandbox.run(["verify", "--all", "p"]).exits(0);
}
