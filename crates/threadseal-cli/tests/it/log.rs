//! `log`.

use crate::prelude::*;
use threadseal_store::clock::{Clock as _, SystemClock};

fn size(sandbox: &Sandbox) -> u64 {
    let status = sandbox.json("log status");
    status["size"].number()
}

// T-LOG-31
#[test]
fn what_is_sealed_is_written_down_and_can_be_listed_and_proved() {
    let sandbox = ready();
    // The log starts with one entry: the home's key states that the log exists.
    assert_eq!(size(&sandbox), 1);
    sandbox.sealed("a.json", "{\"a\":1}\n");
    sandbox.write("b.log", "one\ntwo\n");
    sandbox.ok("seal --detached b.log");
    assert_eq!(size(&sandbox), 3);
    sandbox
        .ok("log entries")
        .prints("document")
        .prints("observed");
    let json = sandbox.sh("log entries --json --from 1 --limit 1");
    let listed = json.exits(0).json();
    assert_eq!((&listed["size"], &listed["exit"]), (&3.into(), &0.into()));
    let entry = &listed["entries"][0];
    entry.is(json!({"index": 1, "entry/type": "head/document"}));
    let record = entry["entry"]["record"].text().to_owned();
    let of = sandbox.ok(format!("log entries --record {record}"));
    assert_eq!(of.stdout.lines().count(), 1);
    let unknown = "0".repeat(64);
    sandbox
        .ok(format!("log entries --record {unknown}"))
        .warns("no such entry");
    // No entry contains the name of a sealed file.
    sandbox
        .ok("log entries --json")
        .omits("a.json")
        .omits("b.log");
    let note = sandbox
        .ok("log head --write")
        .begins_with("threadseal.log/")
        .stdout;
    let head = sandbox.json("log head");
    assert_eq!(
        (head["checkpoint"].as_str(), &head["size"]),
        (Some(&*note), &3.into())
    );
    let folder = sandbox.home().join("log").join(&note[15..47]);
    assert_eq!(read(folder.join("checkpoint")), note);
    assert!(folder.join("tile/entries/000.p/3").is_file());
    sandbox.ok("log fsck");
    sandbox.exits(2, "log init").warns("already");
}

/// An older record together with the older store of heads: without a log, this host would know no
/// better.
// T-LOG-02
#[test]
fn an_older_copy_of_a_record_and_of_the_heads_is_noticed_by_the_log() {
    let sandbox = ready();
    sandbox.write("a.log", "one\n");
    sandbox.ok("seal --detached a.log");
    let older = sandbox.path("older");
    copy(&sandbox.home().join("heads"), &older);
    let seals = fs::read(sandbox.path("a.log.seal")).unwrap();
    sandbox.write("a.log", "one\ntwo\n");
    sandbox.ok("seal --detached a.log");
    sandbox.write("a.log", "one\n");
    sandbox.write("a.log.seal", seals);
    fs::remove_dir_all(sandbox.home().join("heads")).unwrap();
    fs::rename(&older, sandbox.home().join("heads")).unwrap();
    let verified = sandbox.exits(1, "verify a.log --json").json();
    let verdict = verified["results"][0]["verdict"].text();
    assert!(["rolled_back", "truncated"].contains(&verdict), "{verdict}");
}

// T-MARK-02
#[test]
fn a_restored_home_is_detected_and_continues_only_after_a_restart() {
    let sandbox = ready();
    sandbox.sealed("a.json", "{\"a\":1}\n");
    let backup = sandbox.path("backup");
    copy(&sandbox.home(), &backup);
    sandbox.sealed("b.json", "{\"b\":1}\n");
    let newest = sandbox.path("newest");
    copy(&sandbox.home(), &newest);
    put_back(&backup, &sandbox.home());

    let status = sandbox.exits(1, "log status --json").json();
    assert_eq!(status["state"], "log_rolled_back");
    sandbox.write("c.json", "{\"c\":1}\n");
    // The record is sealed, and a warning reports that the head is not in the log yet.
    sandbox
        .ok("seal c.json")
        .warns("log_rolled_back")
        .warns("1 head waits");
    sandbox.ok("verify a.json").warns("log_rolled_back");

    // A copy that has the whole log: the log continues under its identity.
    let log = fs::read_dir(newest.join("log"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let folder = log
        .into_iter()
        .find(|path| path.join("journal").is_file())
        .unwrap();
    let other = Sandbox::new();
    other.ok("init");
    let foreign = fs::read_dir(other.home().join("log"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let foreign = foreign
        .into_iter()
        .find(|path| path.join("journal").is_file())
        .unwrap();
    sandbox.exits(2, format!("log catch-up {foreign:?}"));
    let came = sandbox.json(format!("log catch-up {folder:?}"));
    // The seal of b.json, and that of c.json, which waited.
    assert_eq!(
        (came["came"].as_u64(), came["size"].as_u64()),
        (Some(2), Some(4))
    );
    sandbox.ok("verify b.json");
    sandbox
        .exits(2, "log restart")
        .warns("this log has no fault");
    sandbox.ok("log fsck");

    // Without such a copy: another log, whose first entry names the log that it follows.
    put_back(&backup, &sandbox.home());
    sandbox.exits(1, "log status");
    sandbox.ok("log restart");
    let status = sandbox.json("log status");
    assert_eq!(
        (&status["state"], status["size"].as_u64()),
        (&"good".into(), Some(3))
    );
    let first = sandbox.sh("log entries --json --from 0 --limit 1");
    let first = &first.exits(0).json()["entries"][0]["entry"];
    assert_eq!(first["type"], "restart");
    assert!(first["mark"].is_string());
    sandbox.ok("seal b.json");
}

// T-LOG-45
#[test]
fn a_log_that_is_gone_is_missing_and_is_not_made_anew() {
    let sandbox = ready();
    sandbox.sealed("a.json", "{\"a\":1}\n");
    fs::remove_dir_all(sandbox.home().join("log")).unwrap();
    for command in ["log status", "log init", "seal a.json"] {
        sandbox.exits(2, command).warns("log_missing");
    }
    sandbox.ok("log restart");
    sandbox.ok("verify a.json");
}

/// The second place is on a missing disk, or its file is damaged: records are sealed all the same.
// T-LOG-39
#[test]
fn a_second_place_that_cannot_be_read_holds_up_no_seal() {
    let sandbox = ready();
    sandbox.sealed("a.json", "{\"a\":1}\n");
    let marks = sandbox.home().with_file_name("home.marks");
    let mark = fs::read_dir(&marks)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mark = mark
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "mark"));
    fs::write(mark.unwrap(), "damaged").unwrap();
    sandbox.write("b.json", "{\"b\":1}\n");
    sandbox.ok("seal b.json").warns("second place");
    sandbox.ok("verify a.json b.json");
    // A restart needs nothing of the second place.
    sandbox.ok("log restart");
    sandbox.ok("seal b.json").does_not_warn("warning");
    // A missing second place is reported.
    fs::remove_dir_all(&marks).unwrap();
    sandbox
        .ok("verify a.json")
        .warns("second place of the log is gone");
    let status = sandbox.exits(3, "log status");
    for said in ["mark_missing", "threadseal log mark raise"] {
        status.stdout.has(said);
    }
    sandbox.ok("log mark raise");
    sandbox.ok("log status");
}

#[test]
fn a_changed_file_of_the_log_is_found() {
    let sandbox = ready();
    let home = sandbox.home();
    for number in 0..3 {
        let name = format!("{number}.json");
        sandbox.write(&name, format!("{{\"n\":{number}}}\n"));
        sandbox.ok(format!("seal {name}"));
    }
    let note = sandbox.ok("log head --write").stdout;
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
        let checked = sandbox.sh("log fsck");
        assert!(
            checked.code == 1 || checked.code == 2,
            "{file}: {checked:?}"
        );
        assert!(!checked.stdout.contains("clean"), "{file}");
        fs::write(&path, &bytes).unwrap();
    }
    sandbox.ok("log fsck");
}

/// Threads, their seals, metadata and knowledge: all heads that a run publishes, each with its
/// root, and with its key if it has one.
#[test]
fn a_thread_is_written_down_as_it_runs_and_with_what_each_seal_states() {
    let sandbox = project();
    sandbox
        .ok("run demo/greet --project p -i name=Ada --script answers.yaml")
        .does_not_warn("warning");
    let checked = sandbox.json("log fsck");
    assert!(checked["entries"].number() > 20, "{checked}");
    let listed = sandbox.json("log entries --limit 1000");
    let seals = listed["entries"]
        .list()
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
    sandbox.ok("verify p");
}

/// A process that stopped while it held the log delays no other command for long.
// T-LOG-41
#[test]
fn a_command_does_not_wait_for_long_for_another_that_is_in_the_log() {
    let sandbox = ready();
    let note = sandbox.ok("log head").stdout;
    let lock = sandbox.home().join("log").join(&note[15..47]).join("lock");
    let lock = fs::File::open(lock).unwrap();
    lock.lock().unwrap();
    sandbox.write("a.json", "{\"a\":1}\n");
    let began = SystemClock.elapsed();
    let sealed = sandbox.ok("seal a.json");
    // A lock alone would be waited for up to ten seconds.
    assert!(SystemClock.elapsed() < began + Duration::from_secs(8));
    sealed.stderr.has("1 head waits");
    assert_eq!(sealed.stderr.lines().count(), 1, "{}", sealed.stderr);
    lock.unlock().unwrap();
    assert_eq!(size(&sandbox), 1);
    sandbox.sealed("b.json", "{\"b\":1}\n");
    assert_eq!(size(&sandbox), 3);
}

/// A forged line states that a record was sealed further than it was. In the log, it would make the
/// record `rolled_back` for ever.
// T-LOG-37
#[test]
fn a_forged_line_in_the_spool_is_reported_once_and_blocks_no_seal() {
    let sandbox = ready();
    sandbox.write("a.log", "one\n");
    sandbox.ok("seal --detached a.log");
    let listed = sandbox.sh("log entries --json --from 1");
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
    let sealed = sandbox.ok("seal --detached a.log");
    let warned = "1 line that waited for the log was set aside";
    sealed.stderr.has(warned);
    sandbox.ok("verify a.log").warns_nothing();
    assert_eq!(size(&sandbox), 3);
    let status = sandbox.json("log status");
    assert_eq!(status["set_aside"]["lines"], 1);
    let folder = log.join("set-aside");
    assert_eq!(
        status["set_aside"]["folder"].as_str(),
        Some(folder.to_str().unwrap())
    );
    for arguments in ["log status", "log fsck"] {
        sandbox.ok(arguments).prints(warned);
    }
    sandbox.write("a.log", "one\ntwo\nthree\n");
    sandbox.ok("seal --detached a.log").warns_nothing();
    sandbox.ok("verify a.log");
    let kept = fs::read_dir(&folder).unwrap().flatten();
    let kept: Vec<_> = kept.map(|kept| fs::read(kept.path()).unwrap()).collect();
    assert_eq!(kept, [format!("{forged}\n").into_bytes()]);
}
