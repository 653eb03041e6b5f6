//! Homes that their own user moved, copied, archived, restored or carried to another machine: none
//! is accused of anything, and none loses its protection.

use crate::prelude::*;

/// A home with three sealed records.
fn ready() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    for name in ["a", "b", "c"] {
        seal(&sandbox, name);
    }
    sandbox
}

fn seal(sandbox: &Sandbox, name: &str) -> Ran {
    seal_in(sandbox, &sandbox.home(), name)
}

fn seal_in(sandbox: &Sandbox, home: &Path, name: &str) -> Ran {
    let (file, line) = (format!("{name}.log"), format!("{name} and more\n"));
    let path = sandbox.path(&file);
    let so_far = fs::read_to_string(&path).unwrap_or_default();
    sandbox.write(&file, so_far + &line);
    sandbox
        .in_home(home, &format!("seal --detached {file}"))
        .exits(0)
}

/// Everything verifies in this home, without any warning.
#[track_caller]
fn at_ease(sandbox: &Sandbox, home: &Path, size: u64) {
    sandbox.in_home(home, "verify .").exits(0).warns_nothing();
    let status = status(sandbox, home);
    assert_eq!(
        (&status["state"], status["size"].as_u64()),
        (&"good".into(), Some(size))
    );
}

/// The log commits nothing, no record is accused, and no open record passes for the latest.
#[track_caller]
fn uneasy(sandbox: &Sandbox, home: &Path) {
    let verified = sandbox.in_home(home, "verify . --json").exits(3);
    for report in verified.json()["results"].list() {
        assert_eq!(report["verdict"], "open", "{report}");
    }
    assert_eq!(status(sandbox, home)["state"], "log_rolled_back");
}

fn status(sandbox: &Sandbox, home: &Path) -> Value {
    sandbox.in_home(home, "log status --json").json()
}

fn marks(home: &Path) -> PathBuf {
    let mut name = home.file_name().unwrap().to_owned();
    name.push(".marks");
    home.with_file_name(name)
}

/// The home notices the older bytes of a record, put back together with the older store of heads.
#[track_caller]
fn notices_an_older_copy(sandbox: &Sandbox, home: &Path, name: &str) {
    let (log, seals) = (format!("{name}.log"), format!("{name}.log.seal"));
    let files = [&log, &seals].map(|file| sandbox.path(file));
    let heads = home.join("heads");
    let older = home.with_file_name("older");
    copy(&heads, &older);
    let before = files.clone().map(|file| fs::read(file).unwrap());
    seal_in(sandbox, home, name);
    for (file, bytes) in files.iter().zip(&before) {
        fs::write(file, bytes).unwrap();
    }
    fs::remove_dir_all(&heads).unwrap();
    fs::rename(&older, &heads).unwrap();
    let verified = sandbox
        .in_home(home, &format!("verify {log} --json"))
        .exits(1)
        .json();
    let verdict = verified["results"][0]["verdict"].text();
    assert!(["rolled_back", "truncated"].contains(&verdict), "{verdict}");
}

// T-MARK-29
#[test]
fn a_moved_home_continues_with_and_without_its_second_place() {
    let sandbox = ready();
    let moved = sandbox.home().with_file_name("moved");
    fs::rename(sandbox.home(), &moved).unwrap();
    at_ease(&sandbox, &moved, 4);
    seal_in(&sandbox, &moved, "a").warns_nothing();
    at_ease(&sandbox, &moved, 5);
    // All parts move along, and nothing is made at the old place.
    let away = sandbox.work().with_file_name("away");
    fs::create_dir(&away).unwrap();
    fs::rename(&moved, away.join("home")).unwrap();
    fs::rename(marks(&moved), away.join("home.marks")).unwrap();
    fs::remove_dir_all(marks(&sandbox.home())).unwrap();
    seal_in(&sandbox, &away.join("home"), "b").warns_nothing();
    at_ease(&sandbox, &away.join("home"), 6);
    assert!(!marks(&sandbox.home()).exists() && !marks(&moved).exists());
    notices_an_older_copy(&sandbox, &away.join("home"), "c");
}

// T-MARK-27
#[test]
fn a_copy_of_a_home_reads_without_warnings_and_one_of_both_continues() {
    let sandbox = ready();
    let twin = set_aside(&sandbox.home());
    at_ease(&sandbox, &twin, 4);
    at_ease(&sandbox, &sandbox.home(), 4);
    seal(&sandbox, "a").warns_nothing();
    at_ease(&sandbox, &sandbox.home(), 5);
    // The copy knows that it is the one left in the old place, and accuses no record.
    uneasy(&sandbox, &twin);
    // After an explicit restart it continues under a log of its own, and takes nothing from the log
    // of its source.
    sandbox.in_home(&twin, "log restart").exits(0);
    seal_in(&sandbox, &twin, "d");
    at_ease(&sandbox, &twin, 6);
    fs::remove_file(sandbox.path("d.log")).unwrap();
    fs::remove_file(sandbox.path("d.log.seal")).unwrap();
    at_ease(&sandbox, &sandbox.home(), 5);
    seal(&sandbox, "b").warns_nothing();
    at_ease(&sandbox, &sandbox.home(), 6);
}

/// A copy continues without the knowledge of its source.
// T-RST-07
#[test]
fn a_home_that_begins_a_log_of_its_own_ends_the_one_that_its_clone_went_on_with() {
    let sandbox = ready();
    let clone = set_aside(&sandbox.home());
    seal_in(&sandbox, &clone, "a").warns_nothing();
    uneasy(&sandbox, &sandbox.home());
    sandbox.ok("log restart");
    let status = status(&sandbox, &clone);
    assert_eq!(status["state"], "log_rolled_back");
    let why = status["why"].text();
    why.has("another log");
    seal(&sandbox, "b").warns_nothing();
}

// T-MARK-29
#[test]
fn a_home_restored_from_an_archive_accuses_nothing_and_continues_after_a_restart() {
    let sandbox = ready();
    let archive = set_aside(&sandbox.home());
    seal(&sandbox, "a");
    seal(&sandbox, "d");
    put_back(&archive, &sandbox.home());
    // Records are newer than the knowledge of the home; none of them is wrong.
    uneasy(&sandbox, &sandbox.home());
    sandbox
        .ok("log restart")
        .warns("2 of 6 entries of the previous log are")
        .prints("heads of 3 records were carried over");
    // For a record that was begun since, this home cannot know its end until it is sealed again.
    sandbox.ok("verify a.log b.log c.log");
    sandbox.exits(3, "verify d.log");
    seal(&sandbox, "d").warns_nothing();
    at_ease(&sandbox, &sandbox.home(), 6);
    notices_an_older_copy(&sandbox, &sandbox.home(), "b");
}

/// `log.json` contains the system's identity of the machine; here it differs.
// T-MARK-29
#[test]
fn a_home_on_a_new_machine_continues_after_a_restart_and_is_protected() {
    let sandbox = ready();
    let note = sandbox.ok("log head").stdout;
    let path = sandbox
        .home()
        .join("log")
        .join(&note[15..47])
        .join("log.json");
    let mut description = json_file(&path);
    description["host"] = "ab".repeat(32).into();
    fs::write(&path, format!("{description}\n")).unwrap();
    let laptop = sandbox.work().with_file_name("laptop").join("home");
    fs::create_dir(laptop.parent().unwrap()).unwrap();
    fs::rename(sandbox.home(), &laptop).unwrap();
    fs::remove_dir_all(marks(&sandbox.home())).unwrap();

    uneasy(&sandbox, &laptop);
    sandbox
        .in_home(&laptop, "log restart")
        .exits(0)
        .does_not_warn("warning");
    at_ease(&sandbox, &laptop, 5);
    seal_in(&sandbox, &laptop, "a").warns_nothing();
    at_ease(&sandbox, &laptop, 6);
    for name in ["b", "c"] {
        notices_an_older_copy(&sandbox, &laptop, name);
        fs::remove_dir_all(laptop.join("heads")).unwrap();
        fs::create_dir(laptop.join("heads")).unwrap();
    }
}

/// Older records, an older home, and in it the log of another home: each valid on its own. The
/// second place remembers which log it was.
// T-MARK-05
#[test]
fn a_log_of_another_home_in_the_place_of_this_ones_is_noticed() {
    let sandbox = ready();
    let (home, work) = (sandbox.home(), sandbox.work());
    let before = home.with_file_name("before");
    copy(&home, &before);
    let older = fs::read(work.join("a.log")).unwrap();
    let older_seals = fs::read(work.join("a.log.seal")).unwrap();
    seal(&sandbox, "a");
    let stranger = Sandbox::new();
    stranger.ok("init");
    put_back(&before, &home);
    fs::write(work.join("a.log"), older).unwrap();
    fs::write(work.join("a.log.seal"), older_seals).unwrap();
    let log_keys = |home: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(home.join("keys")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_of_log = |path: &PathBuf| path.to_string_lossy().contains("/log-");
        paths.filter(is_of_log).collect()
    };
    for path in log_keys(&home) {
        fs::remove_file(path).unwrap();
    }
    for path in log_keys(&stranger.home()) {
        let name = path.file_name().unwrap();
        fs::copy(&path, home.join("keys").join(name)).unwrap();
    }
    put_back(&stranger.home().join("log"), &home.join("log"));
    uneasy(&sandbox, &home);
    sandbox.exits(1, "log fsck");
    let refused = sandbox.sh("log restart");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    refused.stderr.has("never ended");
    sandbox.ok("log restart --anyway");
    let status = status(&sandbox, &home);
    assert_eq!(status["state"], "good", "{status}");
}
