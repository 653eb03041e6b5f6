//! Transcripts in stores, by their addresses.

use crate::fixtures::{ended_record, ready, recorder, say};
use crate::sandbox::Sandbox;
use crate::scroll::piped;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const STORE: &str = "object+file:objects";
const RECORD: &str = "object+file:objects#run 7";

/// Exit code and verdicts of `verify`.
fn verify(sandbox: &Sandbox, what: &str) -> (i32, Vec<String>) {
    let ran = sandbox.run(["verify", what, "--json"]);
    let output = ran.json();
    let reports = output["results"].as_array().unwrap();
    let verdicts = reports.iter().map(|report| report["verdict"].clone());
    let text = |verdict: Value| verdict.as_str().unwrap().to_owned();
    (ran.code, verdicts.map(text).collect())
}

/// The only object in a folder of the store.
fn object(sandbox: &Sandbox, folder: &str) -> PathBuf {
    let mut path = sandbox.work().join("objects").join(folder);
    while path.is_dir() {
        path = fs::read_dir(&path).unwrap().next().unwrap().unwrap().path();
    }
    path
}

fn import(sandbox: &Sandbox, path: &Path, to: &str) -> String {
    let path = path.to_str().unwrap();
    let ran = sandbox.run(["transcript", "import", path, to]).exits(0);
    ran.stdout.trim().to_owned()
}

#[test]
fn a_record_goes_into_a_store_and_out_again_and_is_verified_there() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "transcript.jsonl", 2);
    let head = import(&sandbox, &path, RECORD);
    import(&sandbox, &path, STORE);
    let bytes = fs::read(&path).unwrap();
    let listed = sandbox.run(["transcript", "list", STORE]).exits(0).stdout;
    let expected = ["run 7", "transcript"].map(|name| format!("{name}  {} bytes\n", bytes.len()));
    assert_eq!(listed, expected.concat());
    let verified = || "verified".to_owned();
    assert_eq!(verify(&sandbox, RECORD), (0, vec![verified()]));
    assert_eq!(verify(&sandbox, STORE), (0, vec![verified(), verified()]));
    let printed = sandbox.run(["transcript", "head", RECORD]).exits(0).stdout;
    assert_eq!(printed.trim(), head);
    let out = ["transcript", "export", RECORD, "--out", "copy.jsonl"];
    sandbox.run(out).exits(0);
    assert_eq!(fs::read(sandbox.work().join("copy.jsonl")).unwrap(), bytes);
    let exported = sandbox.run(["transcript", "export", RECORD]).exits(0);
    assert_eq!(exported.stdout.as_bytes(), bytes);
    let messages = sandbox.run(["messages", RECORD]).exits(0);
    assert!(messages.stdout.contains("question 2"));
    sandbox.run(["diff", RECORD, "transcript.jsonl"]).exits(0);
    let again = ["transcript", "import", "transcript.jsonl", RECORD];
    sandbox.run(again).fails_with("record run 7 already exists");
    let files = "file:files#a";
    import(&sandbox, Path::new(RECORD), files);
    assert!(sandbox.work().join("files/a.jsonl").is_file());
    assert_eq!(verify(&sandbox, files), (0, vec![verified()]));
}

#[test]
fn of_a_store_the_ledgers_are_verified_with_the_transcripts() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "transcript.jsonl", 1);
    import(&sandbox, &path, RECORD);
    for (store, run) in [(STORE, "r1"), ("sqlite:runs.db", "r2"), ("file:runs", "r3")] {
        let append = ["ledger", "append", store, "--run", run, "--sign"];
        piped(&sandbox, &append, "{\"node\":\"plan\"}\n").exits(0);
    }
    let verified = || "verified".to_owned();
    assert_eq!(verify(&sandbox, STORE), (0, vec![verified(), verified()]));
    assert_eq!(verify(&sandbox, "sqlite:runs.db").0, 0);
    assert_eq!(verify(&sandbox, "file:runs").0, 0);
    let told = sandbox.run(["fsck", STORE]).exits(0).stdout;
    assert!(told.contains("r1  ") && told.contains("run 7  "), "{told}");
}

#[test]
fn what_is_changed_or_put_back_in_a_store_is_told() {
    let sandbox = ready();
    let mut growing = recorder(&sandbox, "transcript.jsonl", 1);
    let path = growing.path().to_owned();
    say(&mut growing, "tool_call_result", &"x".repeat(200_000));
    growing.seal(2, Default::default()).unwrap();
    import(&sandbox, &path, RECORD);
    growing.seal(3, Default::default()).unwrap();
    assert_eq!(verify(&sandbox, RECORD), (1, vec!["rolled_back".into()]));
    let later = "object+file:objects#later";
    import(&sandbox, &path, later);
    assert_eq!(verify(&sandbox, later), (0, vec!["verified".into()]));
    let segment = object(&sandbox, "transcript-segments/6c61746572");
    let mut changed = fs::read(&segment).unwrap();
    changed[100_000] = b'y';
    fs::write(&segment, changed).unwrap();
    assert_eq!(verify(&sandbox, later), (1, vec!["tampered".into()]));
    let fsck = sandbox.run(["fsck", later, "--json"]).exits(1).json();
    assert_eq!(fsck["transcripts"][0]["faults"][0]["code"], "changed");
    fs::remove_file(&segment).unwrap();
    sandbox.run(["verify", later]).fails_with("is missing");
    let head = ["transcript", "head", RECORD];
    sandbox.run(head).fails_with("rolled_back");
}

#[test]
fn a_record_in_a_store_is_sealed_after_a_crash_and_its_tail_set_aside() {
    let sandbox = ready();
    let mut growing = recorder(&sandbox, "transcript.jsonl", 1);
    say(&mut growing, "cognition_in", "not sealed");
    let path = growing.path().to_owned();
    drop(growing);
    // The record is also at its first place, with another end: a copy, not a rollback.
    import(&sandbox, &path, RECORD);
    fs::remove_file(&path).unwrap();
    assert_eq!(verify(&sandbox, RECORD).1, ["unsigned_tail"]);
    let sealed = sandbox.run(["seal", RECORD, "--final"]).exits(0).stdout;
    assert!(sealed.contains("which no seal covered"), "{sealed}");
    assert_eq!(verify(&sandbox, RECORD), (0, vec!["verified".into()]));
    let tail = fs::read_to_string(object(&sandbox, "transcript-tails")).unwrap();
    assert!(tail.contains("not sealed"), "{tail}");
    let fsck = sandbox.run(["fsck", STORE]).exits(0).stdout;
    assert!(
        fsck.contains("run 7") && fsck.contains("nothing wrong"),
        "{fsck}"
    );
}

#[test]
fn addresses_that_name_no_record_are_refused() {
    let sandbox = ready();
    ended_record(&sandbox, "transcript.jsonl", 1);
    for (arguments, part) in [
        (
            ["verify", "object+file:none"].as_slice(),
            "there is no folder",
        ),
        (&["verify", "sqlite:none.db"], "none.db"),
        (
            &["verify", "postgres:x#y"],
            "the address of the PostgreSQL server",
        ),
        (&["verify", "sqlite:x#y"], "a store of transcripts"),
        (&["messages", "file:.#none"], "there is no record none"),
        (&["messages", "file:."], "STORE#NAME"),
        (&["fsck", "file:.#none"], "there is no record none"),
        (&["transcript", "list", "file:none"], "there is no folder"),
        (
            &["transcript", "import", "transcript.jsonl", "file:x#.y"],
            "the name of a record",
        ),
        (&["seal", "object+file:.#none"], "there is no record none"),
    ] {
        sandbox.run(arguments).fails_with(part);
    }
    sandbox.write("empty/x", "");
    sandbox
        .run(["verify", "object+file:empty"])
        .fails_with("nothing to verify");
}
