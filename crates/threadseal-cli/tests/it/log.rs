//! `log`.

use crate::sandbox::{Sandbox, copy};
use std::fs;
use std::time::Duration;
use threadseal_store::clock::{Clock as _, SystemClock};

fn ready() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.run(["init"]).exits(0);
    sandbox
}

fn size(sandbox: &Sandbox) -> u64 {
    let status = sandbox.run(["log", "status", "--json"]).exits(0).json();
    status["size"].as_u64().unwrap()
}

// T-LOG-31
#[test]
fn what_is_sealed_is_written_down_and_can_be_listed_and_proved() {
    let sandbox = ready();
    // The log starts with one entry: the home's key states that the log exists.
    assert_eq!(size(&sandbox), 1);
    sandbox.write("a.json", "{\"a\":1}\n");
    sandbox.run(["seal", "a.json"]).exits(0);
    sandbox.write("b.log", "one\ntwo\n");
    sandbox.run(["seal", "--detached", "b.log"]).exits(0);
    assert_eq!(size(&sandbox), 3);
    let listed = sandbox.run(["log", "entries"]).exits(0).stdout;
    assert!(
        listed.contains("document") && listed.contains("observed"),
        "{listed}"
    );
    let json = sandbox.run(["log", "entries", "--json", "--from", "1", "--limit", "1"]);
    let listed = json.exits(0).json();
    assert_eq!((&listed["size"], &listed["exit"]), (&3.into(), &0.into()));
    let entry = &listed["entries"][0];
    assert_eq!(entry["index"], 1);
    assert_eq!(entry["entry"]["type"], "head/document");
    let record = entry["entry"]["record"].as_str().unwrap().to_owned();
    let of = sandbox
        .run(["log", "entries", "--record", &record])
        .exits(0);
    assert_eq!(of.stdout.lines().count(), 1);
    let unknown = "0".repeat(64);
    let of = ["log", "entries", "--record", &unknown];
    let of = sandbox.run(of).exits(0);
    assert!(of.stderr.contains("no such entry"), "{}", of.stderr);
    // No entry contains the name of a sealed file.
    let all = sandbox.run(["log", "entries", "--json"]).exits(0).stdout;
    assert!(!all.contains("a.json") && !all.contains("b.log"), "{all}");
    let note = sandbox.run(["log", "head", "--write"]).exits(0).stdout;
    assert!(note.starts_with("threadseal.log/"), "{note}");
    let head = sandbox.run(["log", "head", "--json"]).exits(0).json();
    assert_eq!(
        (head["checkpoint"].as_str(), &head["size"]),
        (Some(&*note), &3.into())
    );
    let folder = sandbox.home().join("log").join(&note[15..47]);
    assert_eq!(fs::read_to_string(folder.join("checkpoint")).unwrap(), note);
    assert!(folder.join("tile/entries/000.p/3").is_file());
    sandbox.run(["log", "fsck"]).exits(0);
    let again = sandbox.run(["log", "init"]).exits(2);
    assert!(again.stderr.contains("already"), "{}", again.stderr);
}

/// An older record together with the older store of heads: without a log, this host would know no
/// better.
// T-LOG-02
#[test]
fn an_older_copy_of_a_record_and_of_the_heads_is_noticed_by_the_log() {
    let sandbox = ready();
    sandbox.write("a.log", "one\n");
    sandbox.run(["seal", "--detached", "a.log"]).exits(0);
    let older = sandbox.work().join("older");
    copy(&sandbox.home().join("heads"), &older);
    let seals = fs::read(sandbox.work().join("a.log.seal")).unwrap();
    sandbox.write("a.log", "one\ntwo\n");
    sandbox.run(["seal", "--detached", "a.log"]).exits(0);
    sandbox.write("a.log", "one\n");
    sandbox.write("a.log.seal", seals);
    fs::remove_dir_all(sandbox.home().join("heads")).unwrap();
    fs::rename(&older, sandbox.home().join("heads")).unwrap();
    let verified = sandbox.run(["verify", "a.log", "--json"]).exits(1).json();
    let verdict = verified["results"][0]["verdict"].as_str().unwrap();
    assert!(["rolled_back", "truncated"].contains(&verdict), "{verdict}");
}

// T-MARK-02
#[test]
fn a_home_that_was_restored_says_so_and_goes_on_by_a_restart_alone() {
    let sandbox = ready();
    sandbox.write("a.json", "{\"a\":1}\n");
    sandbox.run(["seal", "a.json"]).exits(0);
    let backup = sandbox.work().join("backup");
    copy(&sandbox.home(), &backup);
    sandbox.write("b.json", "{\"b\":1}\n");
    sandbox.run(["seal", "b.json"]).exits(0);
    let newest = sandbox.work().join("newest");
    copy(&sandbox.home(), &newest);
    fs::remove_dir_all(sandbox.home()).unwrap();
    copy(&backup, &sandbox.home());

    let status = sandbox.run(["log", "status", "--json"]).exits(1).json();
    assert_eq!(status["state"], "log_rolled_back");
    sandbox.write("c.json", "{\"c\":1}\n");
    // The record is sealed, and a warning reports that the head is not in the log yet.
    let sealed = sandbox.run(["seal", "c.json"]).exits(0);
    assert!(
        sealed.stderr.contains("log_rolled_back"),
        "{}",
        sealed.stderr
    );
    assert!(sealed.stderr.contains("1 head waits"), "{}", sealed.stderr);
    let verified = sandbox.run(["verify", "a.json"]).exits(0);
    assert!(
        verified.stderr.contains("log_rolled_back"),
        "{}",
        verified.stderr
    );

    // A copy that has the whole log: the log continues under its identity.
    let log = fs::read_dir(newest.join("log"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let folder = log
        .into_iter()
        .find(|path| path.join("journal").is_file())
        .unwrap();
    let other = Sandbox::new();
    other.run(["init"]).exits(0);
    let foreign = fs::read_dir(other.home().join("log"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let foreign = foreign
        .into_iter()
        .find(|path| path.join("journal").is_file())
        .unwrap();
    sandbox
        .run(["log", "catch-up", foreign.to_str().unwrap()])
        .exits(2);
    let came = sandbox
        .run(["log", "catch-up", folder.to_str().unwrap(), "--json"])
        .exits(0)
        .json();
    // The seal of b.json, and that of c.json, which waited.
    assert_eq!(
        (came["came"].as_u64(), came["size"].as_u64()),
        (Some(2), Some(4))
    );
    sandbox.run(["verify", "b.json"]).exits(0);
    let again = sandbox.run(["log", "restart"]).exits(2);
    assert!(
        again.stderr.contains("nothing is wrong"),
        "{}",
        again.stderr
    );
    sandbox.run(["log", "fsck"]).exits(0);

    // Without such a copy: another log, whose first entry names the log that it follows.
    fs::remove_dir_all(sandbox.home()).unwrap();
    copy(&backup, &sandbox.home());
    sandbox.run(["log", "status"]).exits(1);
    sandbox.run(["log", "restart"]).exits(0);
    let status = sandbox.run(["log", "status", "--json"]).exits(0).json();
    assert_eq!(
        (&status["state"], status["size"].as_u64()),
        (&"good".into(), Some(3))
    );
    let first = sandbox.run(["log", "entries", "--json", "--from", "0", "--limit", "1"]);
    let first = &first.exits(0).json()["entries"][0]["entry"];
    assert_eq!(first["type"], "restart");
    assert!(first["mark"].is_string());
    sandbox.run(["seal", "b.json"]).exits(0);
}

// T-LOG-45
#[test]
fn a_log_that_is_gone_is_missing_and_is_not_made_anew() {
    let sandbox = ready();
    sandbox.write("a.json", "{\"a\":1}\n");
    sandbox.run(["seal", "a.json"]).exits(0);
    fs::remove_dir_all(sandbox.home().join("log")).unwrap();
    for command in [
        &["log", "status"][..],
        &["log", "init"],
        &["seal", "a.json"],
    ] {
        let refused = sandbox.run(command).exits(2);
        assert!(refused.stderr.contains("log_missing"), "{}", refused.stderr);
    }
    sandbox.run(["log", "restart"]).exits(0);
    sandbox.run(["verify", "a.json"]).exits(0);
}

/// The second place is on a missing disk, or its file is damaged: records are sealed all the same.
// T-LOG-39
#[test]
fn a_second_place_that_cannot_be_read_holds_up_no_seal() {
    let sandbox = ready();
    sandbox.write("a.json", "{\"a\":1}\n");
    sandbox.run(["seal", "a.json"]).exits(0);
    let marks = sandbox.home().with_file_name("home.marks");
    let mark = fs::read_dir(&marks)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mark = mark
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "mark"));
    fs::write(mark.unwrap(), "damaged").unwrap();
    sandbox.write("b.json", "{\"b\":1}\n");
    let sealed = sandbox.run(["seal", "b.json"]).exits(0);
    assert!(sealed.stderr.contains("second place"), "{}", sealed.stderr);
    sandbox.run(["verify", "a.json", "b.json"]).exits(0);
    // A restart needs nothing of the second place.
    sandbox.run(["log", "restart"]).exits(0);
    let sealed = sandbox.run(["seal", "b.json"]).exits(0);
    assert!(!sealed.stderr.contains("warning"), "{}", sealed.stderr);
    // A missing second place is reported.
    fs::remove_dir_all(&marks).unwrap();
    let verified = sandbox.run(["verify", "a.json"]).exits(0);
    assert!(
        verified.stderr.contains("second place of the log is gone"),
        "{}",
        verified.stderr
    );
    let status = sandbox.run(["log", "status"]).exits(3);
    for said in ["mark_missing", "threadseal log mark raise"] {
        assert!(status.stdout.contains(said), "{}", status.stdout);
    }
    sandbox.run(["log", "mark", "raise"]).exits(0);
    sandbox.run(["log", "status"]).exits(0);
}

#[test]
fn a_changed_file_of_the_log_is_found() {
    let sandbox = ready();
    let home = sandbox.home();
    for number in 0..3 {
        let name = format!("{number}.json");
        sandbox.write(&name, format!("{{\"n\":{number}}}\n"));
        sandbox.run(["seal", &name]).exits(0);
    }
    let note = sandbox.run(["log", "head", "--write"]).exits(0).stdout;
    let folder = home.join("log").join(&note[15..47]);
    for file in [
        "tile/entries/000.p/4",
        "tile/0/000.p/4",
        "checkpoint",
        "journal",
    ] {
        let path = folder.join(file);
        let bytes = fs::read(&path).unwrap();
        let mut changed = bytes.clone();
        changed[30] ^= 1;
        fs::write(&path, &changed).unwrap();
        let checked = sandbox.run(["log", "fsck"]);
        assert!(
            checked.code == 1 || checked.code == 2,
            "{file}: {checked:?}"
        );
        assert!(!checked.stdout.contains("clean"), "{file}");
        fs::write(&path, &bytes).unwrap();
    }
    sandbox.run(["log", "fsck"]).exits(0);
}

/// Threads, their seals, metadata and knowledge: all heads that a run publishes, each with its
/// root, and with its key if it has one.
#[test]
fn a_thread_is_written_down_as_it_runs_and_with_what_each_seal_states() {
    let sandbox = crate::run::project();
    let run = [
        "run",
        "demo/greet",
        "--project",
        "p",
        "-i",
        "name=Ada",
        "--script",
        "answers.yaml",
    ];
    let ran = sandbox.run(run).exits(0);
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
    let checked = sandbox.run(["log", "fsck", "--json"]).exits(0).json();
    assert!(checked["entries"].as_u64().unwrap() > 20, "{checked}");
    let listed = sandbox
        .run(["log", "entries", "--json", "--limit", "1000"])
        .exits(0)
        .json();
    let seals = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["entry"]["type"] == "head/transcript");
    let seals: Vec<_> = seals.collect();
    assert!(seals.len() >= 8, "{listed}");
    for seal in seals {
        assert!(
            seal["entry"]["root"].is_string() && seal["entry"]["key"].is_string(),
            "{seal}"
        );
    }
    sandbox.run(["verify", "p"]).exits(0);
}

/// A process that stopped while it held the log delays no other command for long.
// T-LOG-41
#[test]
fn a_command_does_not_wait_for_long_for_another_that_is_in_the_log() {
    let sandbox = ready();
    let note = sandbox.run(["log", "head"]).exits(0).stdout;
    let lock = sandbox.home().join("log").join(&note[15..47]).join("lock");
    let lock = fs::File::open(lock).unwrap();
    lock.lock().unwrap();
    sandbox.write("a.json", "{\"a\":1}\n");
    let began = SystemClock.elapsed();
    let sealed = sandbox.run(["seal", "a.json"]).exits(0);
    // A lock alone would be waited for up to ten seconds.
    assert!(SystemClock.elapsed() < began + Duration::from_secs(8));
    assert!(sealed.stderr.contains("1 head waits"), "{}", sealed.stderr);
    assert_eq!(sealed.stderr.lines().count(), 1, "{}", sealed.stderr);
    lock.unlock().unwrap();
    assert_eq!(size(&sandbox), 1);
    sandbox.write("b.json", "{\"b\":1}\n");
    sandbox.run(["seal", "b.json"]).exits(0);
    assert_eq!(size(&sandbox), 3);
}

/// A forged line states that a record was sealed further than it was. In the log, it would make the
/// record `rolled_back` for ever.
// T-LOG-37
#[test]
fn a_forged_line_in_the_spool_is_told_once_and_keeps_no_record_from_being_sealed() {
    let sandbox = ready();
    sandbox.write("a.log", "one\n");
    sandbox.run(["seal", "--detached", "a.log"]).exits(0);
    let listed = sandbox.run(["log", "entries", "--json", "--from", "1"]);
    let listed = listed.exits(0).json();
    let mut forged = listed["entries"][0]["entry"].clone();
    forged["digest"] = "ab".repeat(32).into();
    forged["seq"] = 7.into();
    forged["size"] = 5000.into();
    let log = sandbox.home().join("log");
    fs::write(
        log.join("spool").join("0123456789abcdef"),
        format!("{forged}\n"),
    )
    .unwrap();
    sandbox.write("a.log", "one\ntwo\n");
    let sealed = sandbox.run(["seal", "--detached", "a.log"]).exits(0);
    let warned = "1 line that waited for the log was set aside";
    assert!(sealed.stderr.contains(warned), "{}", sealed.stderr);
    let verified = sandbox.run(["verify", "a.log"]).exits(0);
    assert_eq!(verified.stderr, "");
    assert_eq!(size(&sandbox), 3);
    let status = sandbox.run(["log", "status", "--json"]).exits(0).json();
    assert_eq!(status["set_aside"]["lines"], 1);
    let folder = log.join("set-aside");
    assert_eq!(
        status["set_aside"]["folder"].as_str(),
        Some(folder.to_str().unwrap())
    );
    for arguments in [["log", "status"], ["log", "fsck"]] {
        let shown = sandbox.run(arguments).exits(0).stdout;
        assert!(shown.contains(warned), "{shown}");
    }
    sandbox.write("a.log", "one\ntwo\nthree\n");
    let again = sandbox.run(["seal", "--detached", "a.log"]).exits(0);
    assert_eq!(again.stderr, "");
    sandbox.run(["verify", "a.log"]).exits(0);
    let kept = fs::read_dir(&folder).unwrap().flatten();
    let kept: Vec<_> = kept.map(|kept| fs::read(kept.path()).unwrap()).collect();
    assert_eq!(kept, [format!("{forged}\n").into_bytes()]);
}
