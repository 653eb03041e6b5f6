//! Transcripts in stores, by their addresses.

use crate::prelude::*;

const STORE: &str = "object+file:objects";
const RECORD: &str = "object+file:objects#run 7";

/// Exit code and verdicts of `verify`.
fn verify(sandbox: &Sandbox, what: &str) -> (i32, Vec<String>) {
    let ran = sandbox.sh(format!("verify {what:?} --json"));
    let output = ran.json();
    let reports = output["results"].list();
    let verdicts = reports.iter().map(|report| report["verdict"].clone());
    let text = |verdict: Value| verdict.text().to_owned();
    (ran.code, verdicts.map(text).collect())
}

/// The only object in a folder of the store.
fn object(sandbox: &Sandbox, folder: &str) -> PathBuf {
    object_in(&sandbox.path("objects").join(folder))
}

fn object_in(folder: &Path) -> PathBuf {
    let mut path = folder.to_owned();
    while path.is_dir() {
        path = fs::read_dir(&path).unwrap().next().unwrap().unwrap().path();
    }
    path
}

fn import(sandbox: &Sandbox, path: &Path, to: &str) -> String {
    let ran = sandbox.ok(format!("transcript import {path:?} {to:?}"));
    ran.stdout.trim().to_owned()
}

#[test]
fn a_record_goes_into_a_store_and_out_again_and_is_verified_there() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "transcript.jsonl", 2);
    let head = import(&sandbox, &path, RECORD);
    import(&sandbox, &path, STORE);
    let bytes = fs::read(&path).unwrap();
    let listed = sandbox.ok(format!("transcript list {STORE}")).stdout;
    let expected = ["run 7", "transcript"].map(|name| format!("{name}  {} bytes\n", bytes.len()));
    assert_eq!(listed, expected.concat());
    let verified = || "verified".to_owned();
    assert_eq!(verify(&sandbox, RECORD), (0, vec![verified()]));
    assert_eq!(verify(&sandbox, STORE), (0, vec![verified(), verified()]));
    let printed = sandbox.ok(format!("transcript head {RECORD:?}")).stdout;
    assert_eq!(printed.trim(), head);
    sandbox.ok(format!("transcript export {RECORD:?} --out copy.jsonl"));
    assert_eq!(fs::read(sandbox.path("copy.jsonl")).unwrap(), bytes);
    let exported = sandbox.ok(format!("transcript export {RECORD:?}"));
    assert_eq!(exported.stdout.as_bytes(), bytes);
    sandbox
        .ok(format!("messages {RECORD:?}"))
        .prints("question 2");
    sandbox.ok(format!("diff {RECORD:?} transcript.jsonl"));
    sandbox
        .sh(format!("transcript import transcript.jsonl {RECORD:?}"))
        .fails_with("record run 7 already exists");
    let files = "file:files#a";
    import(&sandbox, Path::new(RECORD), files);
    assert!(sandbox.path("files/a.jsonl").is_file());
    assert_eq!(verify(&sandbox, files), (0, vec![verified()]));
}

#[test]
fn of_a_store_the_ledgers_are_verified_with_the_transcripts() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "transcript.jsonl", 1);
    import(&sandbox, &path, RECORD);
    for (store, run) in [(STORE, "r1"), ("sqlite:runs.db", "r2"), ("file:runs", "r3")] {
        let append = format!("ledger append {store} --run {run} --sign");
        piped(&sandbox, &append, "{\"node\":\"plan\"}\n").exits(0);
    }
    let verified = || "verified".to_owned();
    assert_eq!(verify(&sandbox, STORE), (0, vec![verified(), verified()]));
    assert_eq!(verify(&sandbox, "sqlite:runs.db").0, 0);
    assert_eq!(verify(&sandbox, "file:runs").0, 0);
    sandbox
        .ok(format!("fsck {STORE}"))
        .prints("r1  ")
        .prints("run 7  ");
}

// T-STO-37
#[test]
fn a_folder_with_a_store_in_it_is_verified_as_that_store() {
    let sandbox = ready();
    let mut growing = recorder(&sandbox, "transcript.jsonl", 1);
    say(&mut growing, "tool_call_result", &"x".repeat(200_000));
    growing.seal(2, Default::default()).unwrap();
    import(&sandbox, growing.path(), "object+file:in/objects#run 7");
    drop(growing);
    let append = "ledger append object+file:in/objects --run r1 --sign";
    piped(&sandbox, append, "{\"node\":\"plan\"}\n").exits(0);
    let verified = || "verified".to_owned();
    for folder in ["in", "in/objects"] {
        let both = (0, vec![verified(), verified()]);
        assert_eq!(verify(&sandbox, folder), both, "{folder}");
    }
    // Also where no home knows the store, and beside other files of the folder.
    sandbox.ok("key export self --out key.pem");
    fs::write(sandbox.path("in/note.md"), "a note\n").unwrap();
    let elsewhere = sandbox.path("no-home");
    let ran = sandbox.sh(format!(
        "verify in --key key.pem --json --home {elsewhere:?}"
    ));
    let verdicts = ran.json()["results"].list().len();
    // No head is known there.
    assert_eq!((ran.code, verdicts), (3, 2), "{}", ran.stdout);
    // A file among the objects that is none of them is looked at.
    let record = ended_record(&sandbox, "in/objects/transcripts/own.jsonl", 1);
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replacen("question 1", "question 2", 1)).unwrap();
    assert_eq!(verify(&sandbox, "in").0, 1);
    fs::remove_file(&record).unwrap();
    // A part of a store is no record.
    let hex = sandbox.path("in/objects/transcripts/72756e2037");
    sandbox
        .exits(2, format!("verify {hex:?}"))
        .fails_with("threadseal verify object+file:");
    // A changed part is named in its record.
    let segment = object_in(&sandbox.path("in/objects/transcript-segments"));
    let mut changed = fs::read(&segment).unwrap();
    changed[100_000] = b'y';
    fs::write(&segment, changed).unwrap();
    let (code, verdicts) = verify(&sandbox, "in");
    assert_eq!((code, verdicts.contains(&"tampered".into())), (1, true));
}

#[test]
fn changes_and_rollbacks_in_a_store_are_found() {
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
    let fsck = sandbox.exits(1, format!("fsck {later} --json")).json();
    assert_eq!(fsck["transcripts"][0]["faults"][0]["code"], "changed");
    fs::remove_file(&segment).unwrap();
    sandbox
        .sh(format!("verify {later:?}"))
        .fails_with("is missing");
    sandbox
        .sh(format!("transcript head {RECORD:?}"))
        .fails_with("rolled_back");
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
    sandbox
        .ok(format!("seal {RECORD:?} --final"))
        .prints("which no seal covered");
    assert_eq!(verify(&sandbox, RECORD), (0, vec!["verified".into()]));
    read(object(&sandbox, "transcript-tails")).has("not sealed");
    sandbox
        .ok(format!("fsck {STORE}"))
        .prints("run 7")
        .prints("nothing wrong");
}

#[test]
fn addresses_that_name_no_record_are_refused() {
    let sandbox = ready();
    ended_record(&sandbox, "transcript.jsonl", 1);
    for (arguments, part) in [
        ("verify object+file:none", "there is no folder"),
        ("verify sqlite:none.db", "none.db"),
        (
            "verify postgres:x#y",
            "the address of the PostgreSQL server",
        ),
        ("verify sqlite:x#y", "a store of transcripts"),
        ("messages file:.#none", "there is no record none"),
        ("messages file:.", "STORE#NAME"),
        ("fsck file:.#none", "there is no record none"),
        ("transcript list file:none", "there is no folder"),
        (
            "transcript import transcript.jsonl file:x#.y",
            "the name of a record",
        ),
        ("seal object+file:.#none", "there is no record none"),
    ] {
        sandbox.sh(arguments).fails_with(part);
    }
    sandbox.write("empty/x", "");
    sandbox
        .sh("verify object+file:empty")
        .fails_with("nothing to verify");
}
