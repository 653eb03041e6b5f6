//! The log that `init` makes: when, with which entries, and when not.

use crate::sandbox::{Sandbox, copy};
use std::fs;
use std::path::PathBuf;

fn marks(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().with_file_name("home.marks")
}

fn seal(sandbox: &Sandbox, name: &str) {
    sandbox.write(name, format!("{{\"name\":\"{name}\"}}\n"));
    sandbox.run(["seal", name]).exits(0);
}

fn size(sandbox: &Sandbox) -> u64 {
    let status = sandbox.run(["log", "status", "--json"]).exits(0).json();
    assert_eq!(status["marks"][0]["size"], status["size"]);
    assert_eq!(
        status["marks"][0]["place"],
        marks(sandbox).to_str().unwrap()
    );
    status["size"].as_u64().unwrap()
}

#[test]
fn init_makes_a_log_with_a_second_place_and_says_which() {
    let sandbox = Sandbox::new();
    let made = sandbox.run(["init", "--json"]).exits(0).json();
    let origin = made["log"]["origin"].as_str().unwrap();
    assert!(origin.starts_with("threadseal.log/"), "{made}");
    let status = sandbox.run(["log", "status", "--json"]).exits(0).json();
    assert_eq!(status["origin"], made["log"]["origin"]);
    assert_eq!(status["vkey"], made["log"]["vkey"]);
    assert_eq!(made["log"]["marks"], serde_json::json!([marks(&sandbox)]));
    assert!(marks(&sandbox).is_dir());
    // A second run makes no second log, and restores a second place that is gone.
    let again = sandbox.run(["init", "--json"]).exits(0).json();
    assert_eq!(
        (&again["log"], &again["changed"]),
        (&made["log"], &false.into())
    );
    seal(&sandbox, "a.json");
    fs::remove_dir_all(marks(&sandbox)).unwrap();
    let mended = sandbox.run(["init", "--json"]).exits(0).json();
    assert_eq!(
        (&mended["log"], &mended["changed"]),
        (&made["log"], &true.into())
    );
    assert_eq!(size(&sandbox), 2);
    // The log does not accept a different second place in place of its own.
    let other = sandbox.run(["init", "--mark", "elsewhere"]).exits(2);
    assert!(other.stderr.contains("log mark add"), "{}", other.stderr);
    assert!(!sandbox.work().join("elsewhere").exists());
}

/// Homes from before there were logs: the new log must contain all that they know.
// T-LOG-11
#[test]
fn init_takes_every_known_head_into_a_log_that_comes_later() {
    let sandbox = Sandbox::new();
    let made = sandbox.run(["init", "--no-log", "--json"]).exits(0).json();
    assert_eq!(made["log"], serde_json::Value::Null);
    assert!(!sandbox.home().join("log").exists() && !marks(&sandbox).exists());
    sandbox.write("a.log", "one\n");
    sandbox.run(["seal", "--detached", "a.log"]).exits(0);
    let older = sandbox.work().join("older");
    copy(&sandbox.home().join("heads"), &older);
    let seals = fs::read(sandbox.work().join("a.log.seal")).unwrap();
    sandbox.write("a.log", "one\ntwo\n");
    sandbox.run(["seal", "--detached", "a.log"]).exits(0);
    seal(&sandbox, "b.json");
    // No command makes a log unasked, and `init` without one still makes none.
    let without = sandbox.run(["log", "status"]).exits(2);
    assert!(without.stderr.contains("no log"), "{}", without.stderr);
    sandbox.run(["init", "--no-log"]).exits(0);
    assert!(!sandbox.home().join("log").exists());

    sandbox.run(["init"]).exits(0);
    assert_eq!(size(&sandbox), 2);
    sandbox.run(["log", "fsck"]).exits(0);
    sandbox.run(["verify", "a.log", "b.json"]).exits(0);
    fs::remove_dir_all(sandbox.home().join("heads")).unwrap();
    fs::rename(older, sandbox.home().join("heads")).unwrap();
    sandbox.write("a.log", "one\n");
    sandbox.write("a.log.seal", seals);
    let verified = sandbox.run(["verify", "a.log", "--json"]).exits(1).json();
    let verdict = verified["results"][0]["verdict"].as_str().unwrap();
    assert!(["rolled_back", "truncated"].contains(&verdict), "{verdict}");
    // `init --no-log` does not remove an existing log.
    sandbox.run(["init", "--no-log"]).exits(0);
    assert_eq!(size(&sandbox), 2);
}

/// `log init` is for homes that were made without a log.
#[test]
fn a_home_that_was_made_without_a_log_gets_one_when_it_is_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.run(["init", "--no-log"]).exits(0);
    seal(&sandbox, "a.json");
    let made = sandbox
        .run(["log", "init", "--mark", "second", "--json"])
        .exits(0)
        .json();
    assert_eq!(made["marks"].as_array().unwrap().len(), 2);
    assert_eq!(size(&sandbox), 1);
    sandbox.run(["init"]).exits(0);
    sandbox.run(["init", "--mark", "second"]).exits(0);
    for conflict in ["--single-host", "--mark=x"] {
        sandbox.run(["init", "--no-log", conflict]).exits(2);
    }
}

/// A home that is gone completely is not made anew as if it had never existed.
// T-LOG-45
#[test]
fn init_makes_no_log_where_one_is_missing_and_says_what_does() {
    for part in ["home", "home/log", "home/log/current"] {
        let sandbox = Sandbox::new();
        sandbox.run(["init"]).exits(0);
        seal(&sandbox, "a.json");
        let part = sandbox.home().with_file_name(part);
        match part.is_dir() {
            true => fs::remove_dir_all(&part).unwrap(),
            false => fs::remove_file(&part).unwrap(),
        }
        let refused = sandbox.run(["init"]).exits(2);
        assert!(refused.stderr.contains("log_missing"), "{}", refused.stderr);
        assert!(refused.stderr.contains("threadseal log restart"));
        let status = sandbox.run(["log", "status", "--json"]).exits(2);
        assert!(status.stderr.contains("log_missing"), "{}", status.stderr);
        assert_eq!(status.json()["state"], "log_missing");
        sandbox.run(["log", "restart"]).exits(0);
        sandbox.run(["init"]).exits(0);
        let first = sandbox.run(["log", "entries", "--json", "--from", "0", "--limit", "1"]);
        assert_eq!(
            first.exits(0).json()["entries"][0]["entry"]["type"],
            "restart"
        );
        seal(&sandbox, "b.json");
    }
}

/// The key of a log shows that there was one, even if log and second place are gone. A log that
/// could not be made leaves no key that would suggest it existed.
// T-LOG-46
#[test]
fn a_log_of_which_only_the_key_is_left_is_missing_and_one_that_was_never_made_is_not() {
    let sandbox = Sandbox::new();
    sandbox.run(["init"]).exits(0);
    seal(&sandbox, "a.json");
    fs::remove_dir_all(sandbox.home().join("log")).unwrap();
    fs::remove_dir_all(marks(&sandbox)).unwrap();
    let refused = sandbox.run(["init"]).exits(2);
    assert!(refused.stderr.contains("log_missing"), "{}", refused.stderr);
    let verified = sandbox.run(["verify", "a.json"]).exits(0);
    assert!(
        verified.stderr.contains("log_missing"),
        "{}",
        verified.stderr
    );
    let restarted = sandbox.run(["log", "restart"]).exits(0);
    assert!(
        restarted.stderr.contains("nothing but its key"),
        "{}",
        restarted.stderr
    );
    // The heads that the home knows are in it.
    assert_eq!(size(&sandbox), 1);
    seal(&sandbox, "b.json");

    let sandbox = Sandbox::new();
    fs::write(marks(&sandbox), "a file where the second place would be").unwrap();
    sandbox.run(["init"]).exits(2);
    fs::remove_file(marks(&sandbox)).unwrap();
    sandbox.run(["init"]).exits(0);
    assert_eq!(size(&sandbox), 1);
}

/// The file that names the log is gone, or the file that names the places is damaged.
#[test]
fn a_restart_keeps_the_other_second_places_or_says_that_nothing_names_them() {
    let sandbox = Sandbox::new();
    sandbox.run(["init", "-q", "--mark", "disk2"]).exits(0);
    seal(&sandbox, "a.json");
    fs::remove_file(sandbox.home().join("log/current")).unwrap();
    sandbox.run(["log", "restart"]).exits(0);
    let status = sandbox.run(["log", "status", "--json"]).exits(0).json();
    let disk2 = sandbox.work().join("disk2");
    assert_eq!(status["marks"][1]["place"], disk2.to_str().unwrap());
    let id = fs::read_to_string(sandbox.home().join("log/current")).unwrap();
    let named = sandbox.home().join("log").join(id.trim()).join("log.json");
    fs::write(named, "damaged").unwrap();
    let told = sandbox.run(["log", "restart", "--anyway"]).exits(0);
    assert!(told.stderr.contains("log mark add"), "{}", told.stderr);
}

/// `log.json` is text.
// T-LOG-19
#[cfg(unix)]
#[test]
fn a_home_whose_name_is_not_text_gets_no_log_and_is_told_why() {
    use std::os::unix::ffi::OsStrExt as _;
    let sandbox = Sandbox::new();
    let home = sandbox.work().join(std::ffi::OsStr::from_bytes(b"h\xff"));
    let init = |more: &[&str]| {
        let mut command = sandbox.command();
        command.env("THREADSEAL_HOME", &home).arg("init").args(more);
        crate::sandbox::Ran::of(command.output().unwrap())
    };
    let refused = init(&[]).exits(2).stderr;
    assert!(refused.contains("is not UTF-8"), "{refused}");
    init(&["--no-log"]).exits(0);
}
