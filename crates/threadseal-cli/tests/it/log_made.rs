//! The log that `init` makes: when, with which entries, and when not.

use crate::prelude::*;

fn marks(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().with_file_name("home.marks")
}

fn seal(sandbox: &Sandbox, name: &str) {
    sandbox.write(name, format!("{{\"name\":\"{name}\"}}\n"));
    sandbox.ok(format!("seal {name}"));
}

fn size(sandbox: &Sandbox) -> u64 {
    let status = sandbox.json("log status");
    status.is(json!({
        "marks/0/size": status["size"], "marks/0/place": marks(sandbox).to_str().unwrap(),
    }));
    status["size"].number()
}

#[test]
fn init_makes_a_log_with_a_second_place_and_names_it() {
    let sandbox = Sandbox::new();
    let made = sandbox.json("init");
    let origin = made["log"]["origin"].text();
    assert!(origin.starts_with("threadseal.log/"), "{made}");
    let status = sandbox.json("log status");
    status.is(json!({"origin": made["log"]["origin"], "vkey": made["log"]["vkey"]}));
    assert_eq!(made["log"]["marks"], json!([marks(&sandbox)]));
    assert!(marks(&sandbox).is_dir());
    // A second run makes no second log, and restores a second place that is gone.
    let again = sandbox.json("init");
    again.is(json!({"log": made["log"], "changed": false}));
    seal(&sandbox, "a.json");
    fs::remove_dir_all(marks(&sandbox)).unwrap();
    let mended = sandbox.json("init");
    mended.is(json!({"log": made["log"], "changed": true}));
    assert_eq!(size(&sandbox), 2);
    // The log does not accept a different second place in place of its own.
    sandbox
        .exits(2, "init --mark elsewhere")
        .warns("log mark add");
    assert!(!sandbox.path("elsewhere").exists());
}

/// Homes from before there were logs: the new log must contain all that they know.
// T-LOG-11
#[test]
fn init_takes_every_known_head_into_a_log_that_comes_later() {
    let sandbox = Sandbox::new();
    let made = sandbox.json("init --no-log");
    assert_eq!(made["log"], Value::Null);
    assert!(!sandbox.home().join("log").exists() && !marks(&sandbox).exists());
    sandbox.write("a.log", "one\n");
    sandbox.ok("seal --detached a.log");
    let older = sandbox.path("older");
    copy(&sandbox.home().join("heads"), &older);
    let seals = fs::read(sandbox.path("a.log.seal")).unwrap();
    sandbox.write("a.log", "one\ntwo\n");
    sandbox.ok("seal --detached a.log");
    seal(&sandbox, "b.json");
    // No command makes a log unasked, and `init` without one still makes none.
    sandbox.exits(2, "log status").warns("no log");
    sandbox.ok("init --no-log");
    assert!(!sandbox.home().join("log").exists());

    sandbox.ok("init");
    assert_eq!(size(&sandbox), 2);
    sandbox.ok("log fsck");
    sandbox.ok("verify a.log b.json");
    fs::remove_dir_all(sandbox.home().join("heads")).unwrap();
    fs::rename(older, sandbox.home().join("heads")).unwrap();
    sandbox.write("a.log", "one\n");
    sandbox.write("a.log.seal", seals);
    let verified = sandbox.exits(1, "verify a.log --json").json();
    let verdict = verified["results"][0]["verdict"].text();
    assert!(["rolled_back", "truncated"].contains(&verdict), "{verdict}");
    // `init --no-log` does not remove an existing log.
    sandbox.ok("init --no-log");
    assert_eq!(size(&sandbox), 2);
}

/// `log init` is for homes that were made without a log.
#[test]
fn a_home_that_was_made_without_a_log_gets_one_when_it_is_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.ok("init --no-log");
    seal(&sandbox, "a.json");
    let made = sandbox.json("log init --mark second");
    assert_eq!(made["marks"].list().len(), 2);
    // The head, and the list of second places.
    assert_eq!(size(&sandbox), 2);
    sandbox.ok("init");
    sandbox.ok("init --mark second");
    for conflict in ["--single-host", "--mark=x"] {
        sandbox.exits(2, format!("init --no-log {conflict}"));
    }
}

/// A home that is gone completely is not made anew as if it had never existed.
// T-LOG-45
#[test]
fn init_makes_no_log_where_one_is_missing_and_gives_a_hint() {
    for part in ["home", "home/log", "home/log/current"] {
        let sandbox = Sandbox::new();
        sandbox.ok("init");
        seal(&sandbox, "a.json");
        let part = sandbox.home().with_file_name(part);
        match part.is_dir() {
            true => fs::remove_dir_all(&part).unwrap(),
            false => fs::remove_file(&part).unwrap(),
        }
        sandbox
            .exits(2, "init")
            .warns("log_missing")
            .warns("threadseal log restart");
        let status = sandbox.exits(2, "log status --json").warns("log_missing");
        assert_eq!(status.json()["state"], "log_missing");
        sandbox.ok("log restart");
        sandbox.ok("init");
        let first = sandbox.sh("log entries --json --from 0 --limit 1");
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
    sandbox.ok("init");
    seal(&sandbox, "a.json");
    fs::remove_dir_all(sandbox.home().join("log")).unwrap();
    fs::remove_dir_all(marks(&sandbox)).unwrap();
    sandbox.exits(2, "init").warns("log_missing");
    sandbox.ok("verify a.json").warns("log_missing");
    sandbox
        .ok("log restart")
        .warns("only the key of the previous log");
    // The heads that the home knows are in it.
    assert_eq!(size(&sandbox), 1);
    seal(&sandbox, "b.json");

    let sandbox = Sandbox::new();
    fs::write(marks(&sandbox), "a file where the second place would be").unwrap();
    sandbox.exits(2, "init");
    fs::remove_file(marks(&sandbox)).unwrap();
    sandbox.ok("init");
    assert_eq!(size(&sandbox), 1);
}

/// The file that names the log is gone, or the file that names the places is damaged.
#[test]
fn a_restart_keeps_the_other_second_places_or_warns_that_none_is_named() {
    let sandbox = Sandbox::new();
    sandbox.ok("init -q --mark disk2");
    seal(&sandbox, "a.json");
    fs::remove_file(sandbox.home().join("log/current")).unwrap();
    sandbox.ok("log restart");
    let status = sandbox.json("log status");
    let disk2 = sandbox.path("disk2");
    assert_eq!(status["marks"][1]["place"], disk2.to_str().unwrap());
    let id = read(sandbox.home().join("log/current"));
    let named = sandbox.home().join("log").join(id.trim()).join("log.json");
    fs::write(named, "damaged").unwrap();
    sandbox.ok("log restart --anyway").warns("log mark add");
}

/// `log.json` is text.
// T-LOG-19
#[cfg(unix)]
#[test]
fn a_home_whose_name_is_not_text_gets_no_log_and_the_reason() {
    use std::os::unix::ffi::OsStrExt as _;
    let sandbox = Sandbox::new();
    let home = sandbox.path(OsStr::from_bytes(b"h\xff"));
    let init = |more: &str| {
        let mut command = sandbox.command();
        command
            .env("THREADSEAL_HOME", &home)
            .arg("init")
            .args(words(more));
        Ran::of(command.output().unwrap())
    };
    init("").exits(2).warns("is not UTF-8");
    init("--no-log").exits(0);
}
