//! Attacks on records and on the home that remembers them, in the order of `threats/log.md`, each
//! with its verdict and exit code. After them, actions in good faith that raise no alarm.
//!
//! ```text
//! home, home.marks, work/{p: two threads, d: a log that was sealed twice}
//! work/before                  home and d as they were between the two seals
//! ```

use crate::prelude::*;
use crate::witness::check_with;

fn world() -> Sandbox {
    let sandbox = project();
    greeted(&sandbox, "");
    seal(&sandbox, "one\n");
    sandbox.keep(&["home", "d"]);
    seal(&sandbox, "one\ntwo\n");
    sandbox.is_good("p d");
    sandbox
}

fn seal(sandbox: &Sandbox, text: &str) {
    sandbox.write("d/a.log", text);
    sandbox.ok("seal --detached d/a.log");
}

// T-LOG-01 T-TRA-27
#[test]
fn the_log_alone_finds_a_cut_and_an_older_copy() {
    let sandbox = world();
    sandbox.forget_heads();
    sandbox.is_good("p d");
    let path = transcript(&sandbox, "child");
    cut_to_seal(&path);
    assert_eq!(sandbox.verdict_of(&path, 1), "rolled_back");
    sandbox.restore("d");
    assert_eq!(sandbox.verdict_of("d/a.log", 1), "rolled_back");
}

// T-MARK-01
#[test]
fn the_mark_shows_a_rollback_of_home_and_records_and_accuses_no_record() {
    let sandbox = world();
    sandbox.restore("home");
    sandbox.restore("d");
    let status = sandbox.exits(1, "log status --json").json();
    assert_eq!(status["state"], "log_rolled_back");
    assert_eq!(sandbox.verdict_of("d/a.log", 3), "open");
    let ended = transcript(&sandbox, "child");
    assert_eq!(sandbox.verdict_of(&ended, 0), "verified");
}

// T-MARK-13
#[test]
fn a_second_place_that_is_damaged_hides_nothing_that_another_one_shows_and_a_restart_keeps_both() {
    let sandbox = Sandbox::new();
    sandbox.ok("init -q --mark disk2");
    seal(&sandbox, "one\n");
    let (between, marks) = (
        sandbox.path("before"),
        sandbox.home().with_file_name("home.marks"),
    );
    copy(&sandbox.home(), &between.join("home"));
    copy(&sandbox.path("d"), &between.join("d"));
    seal(&sandbox, "one\ntwo\n");
    sandbox.restore("home");
    sandbox.restore("d");
    for entry in fs::read_dir(&marks).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "mark") {
            fs::write(path, "damaged").unwrap();
        }
    }
    let told = sandbox.exits(3, "verify d/a.log --json").json();
    let told = told["results"][0]["findings"].to_string();
    told.has("log_rolled_back");
    // After a rollback the home cannot list all records.
    sandbox
        .exits(2, "verify --all")
        .warns("not all records are known");
    fs::remove_dir_all(&marks).unwrap();
    sandbox.ok("log restart");
    let status = sandbox.json("log status");
    let places: Vec<&str> = status["marks"].texts("place");
    assert_eq!(places.len(), 2);
    assert!(
        places.iter().any(|place| place.ends_with("disk2")),
        "{places:?}"
    );
}

// T-LOG-04
#[test]
fn of_two_continuations_of_one_record_the_second_is_a_fork() {
    let sandbox = world();
    // A copy of the home reports that it is outdated, and commits nothing. Its log is taken away,
    // so that it continues.
    let copied = sandbox.path("copied");
    copy(&sandbox.path("before/home"), &copied);
    let kept = sandbox.path("kept");
    copy(&sandbox.path("d"), &kept);
    sandbox.restore("d");
    sandbox.write("d/a.log", "one\nthree\n");
    let there = |more: &str| sandbox.sh(format!("--home {copied:?} {more}"));
    there("seal --detached d/a.log")
        .exits(2)
        .warns("log_rolled_back");
    there("log status").exits(1);
    take_log_away(&copied);
    there("seal --detached d/a.log").exits(0);
    assert_eq!(sandbox.verdict_of("d/a.log", 1), "forked");
    sandbox.forget_heads();
    assert_eq!(sandbox.verdict_of("d/a.log", 1), "forked");
    put_back(&kept, &sandbox.path("d"));
    sandbox.is_good("p d");
}

/// The records that `verify --all` calls missing.
fn missing(sandbox: &Sandbox, more: &str) -> Vec<String> {
    let ran = sandbox.sh(format!("verify --all --json {more}"));
    let output = ran.exits(1).json();
    let results = output["results"].list().iter();
    let gone = results.filter(|report| report["verdict"] == "missing");
    gone.map(|report| report["record"].text().to_owned())
        .collect()
}

// T-LOG-15 T-TRA-27
#[test]
fn threads_that_are_deleted_as_a_whole_are_missing_with_and_without_the_heads() {
    let sandbox = world();
    let threads = [thread(&sandbox, "greet"), thread(&sandbox, "child")];
    let records = threads.clone().map(|thread| {
        let first = json_lines(thread.join("transcript.jsonl")).remove(0);
        first["payload"]["record"].text().to_owned()
    });
    for thread in &threads {
        fs::remove_dir_all(thread).unwrap();
    }
    let gone = missing(&sandbox, "");
    assert!(
        records.iter().all(|record| gone.contains(record)),
        "{gone:?}"
    );
    sandbox.forget_heads();
    let gone = missing(&sandbox, "p d");
    assert!(
        records.iter().all(|record| gone.contains(record)),
        "{gone:?}"
    );
}

/// A thief has the key of the epoch, and a copy of the home without its log.
// T-LOG-05
#[test]
fn another_end_that_a_stolen_key_of_the_epoch_seals_is_a_fork() {
    let sandbox = world();
    let record = open_record(&sandbox, "r.jsonl", 2);
    sandbox.ok("seal r.jsonl");
    let thief = sandbox.stolen();
    let older = sandbox.write("stolen/r.jsonl", fs::read(&record).unwrap());
    sandbox.ok("seal r.jsonl --final");
    sandbox.ok("verify r.jsonl");
    let home = format!("--home {thief:?}");
    sandbox.ok(format!("{home} seal stolen/r.jsonl --final"));
    fs::copy(&older, &record).unwrap();
    assert_eq!(sandbox.verdict_of("r.jsonl", 1), "forked");
    sandbox.forget_heads();
    assert_eq!(sandbox.verdict_of("r.jsonl", 1), "forked");
}

// T-LOG-06
#[test]
fn threads_that_a_stolen_key_seals_after_it_was_revoked_are_forged_and_older_ones_are_not() {
    let sandbox = world();
    let child = transcript(&sandbox, "child");
    let thief = sandbox.stolen();
    sandbox.ok("key revoke self --reason stolen");
    assert_eq!(sandbox.verdict_of(&child, 0), "verified");
    let threads = child.parent().unwrap().parent().unwrap();
    let count = || fs::read_dir(threads).unwrap().count();
    let before: Vec<PathBuf> = fs::read_dir(threads)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let run = "run demo/greet --project p -i name=Eve --script answers.yaml";
    sandbox.in_home(&thief, run).exits(0);
    assert_eq!(count(), before.len() + 2);
    for entry in fs::read_dir(threads).unwrap() {
        let path = entry.unwrap().path();
        let is_forged = !before.contains(&path);
        let path = path.join("transcript.jsonl");
        let (exit, expected) = if is_forged {
            (1, "forged")
        } else {
            (0, "verified")
        };
        assert_eq!(sandbox.verdict_of(&path, exit), expected);
    }
}

// T-LOG-07
#[test]
fn a_record_in_the_place_of_another_and_lines_of_another_thread_are_found() {
    let sandbox = world();
    let (parent, child) = (transcript(&sandbox, "greet"), transcript(&sandbox, "child"));
    let before = fs::read(&child).unwrap();
    fs::copy(&parent, &child).unwrap();
    assert_eq!(sandbox.verdict_of(&child, 1), "foreign");
    // Whole lines with a valid seal at their source: first events alone, then a seal with the
    // events under it.
    for replayed in [2..4, 1..4] {
        fs::write(&child, &before).unwrap();
        let mut own = lines(&child);
        let last = own.pop().unwrap();
        own.extend_from_slice(&lines(&parent)[replayed]);
        own.push(last);
        fs::write(&child, own.concat()).unwrap();
        assert_eq!(sandbox.verdict_of(&child, 1), "tampered");
    }
    fs::write(&child, before).unwrap();
    sandbox.is_good("p d");
}

/// The home that continued asked one witness; the restored home asked the other.
// T-LOG-50
#[test]
fn two_witnesses_that_disagree_convict_the_log() {
    let sandbox = world();
    let status = sandbox.json("log status");
    let log = status["vkey"].text();
    let (first, second) = (witness(&[log]), witness(&[log]));
    let (one, two) = (Serving::start(&first), Serving::start(&second));
    let ask = |name, serving, exit| check_with(&sandbox, log, name, serving, exit);
    ask("one", &one, 0);
    sandbox.restore("home");
    fs::remove_dir_all(sandbox.home().with_file_name("home.marks")).unwrap();
    sandbox.restore("d");
    seal(&sandbox, "one\nthree\n");
    // Nothing on this host shows it, and neither does a witness that never saw the other tree.
    ask("two", &two, 0);
    let told = ask("one", &one, 1);
    let told = &told["policies"][0]["witnesses"][0];
    assert_eq!(told["state"], "contradicted");
    let kept = told["why"].text().split_once("kept: ").unwrap().1;
    assert!(Conflict::parse(&read(kept)).is_ok());
    sandbox.sh("anchor check").exits(1);
}

// T-MARK-25
#[test]
fn of_a_home_and_its_clone_one_continues_and_the_other_warns() {
    let sandbox = world();
    let clone = sandbox.path("clone");
    copy(&sandbox.home(), &clone);
    let in_clone = |command: &str| sandbox.sh(format!("--home {clone:?} {command}"));
    // Until one of the two homes continues, nothing differs.
    in_clone("log status").exits(0);
    in_clone("verify p d").exits(0);
    seal(&sandbox, "one\ntwo\nthree\n");
    in_clone("log status").exits(1);
    in_clone("verify d").exits(3);
    sandbox.write("e.json", "{\"e\":1}\n");
    in_clone("seal e.json").exits(0).warns("log_rolled_back");
    sandbox.is_good("p d");
    // The copy continues on purpose, as a log of its own.
    in_clone("log restart").exits(0);
    in_clone("verify e.json").exits(0).warns_nothing();
}

// T-MARK-28
#[test]
fn moved_copied_and_archived_records_raise_no_alarm() {
    let sandbox = world();
    let work = sandbox.work();
    copy(&work.join("d"), &work.join("copies/d"));
    copy(&work.join("p"), &work.join("copies/p"));
    sandbox.ok("verify copies");
    fs::rename(work.join("d"), work.join("moved")).unwrap();
    sandbox.ok("verify moved p");
    let tar = |arguments: &str| {
        let ran = Command::new("tar")
            .args(words(arguments))
            .current_dir(&work)
            .status();
        assert!(ran.unwrap().success());
    };
    tar("-cf all.tar moved p");
    fs::remove_dir_all(work.join("moved")).unwrap();
    fs::remove_dir_all(work.join("p")).unwrap();
    tar("-xf all.tar");
    sandbox.ok("verify moved p");
    fs::rename(work.join("moved"), work.join("d")).unwrap();
    sandbox.is_good("p d");
}

// T-MARK-28
#[test]
fn a_restored_home_continues_after_a_restart_without_an_alarm() {
    let sandbox = world();
    sandbox.restore("home");
    sandbox.restore("d");
    sandbox.ok("log restart");
    sandbox.is_good("p d");
    seal(&sandbox, "one\ntwo again\n");
    sandbox.write("e.json", "{\"e\":1}\n");
    sandbox.ok("seal e.json").warns_nothing();
    sandbox.is_good("p d e.json");
    // The knowledge of the old log still protects its records.
    sandbox.forget_heads();
    sandbox.restore("d");
    assert_eq!(sandbox.verdict_of("d/a.log", 1), "rolled_back");
}

/// The home, its second place and its records move to another disk, under other paths; the old ones
/// are gone.
// T-MARK-28
#[test]
fn a_home_moved_with_its_second_place_continues_as_the_same_home() {
    let sandbox = world();
    let laptop = Sandbox::new();
    for (from, to) in [
        (sandbox.home(), laptop.home()),
        (
            sandbox.home().with_file_name("home.marks"),
            laptop.home().with_file_name("home.marks"),
        ),
        (sandbox.path("p"), laptop.path("p")),
        (sandbox.path("d"), laptop.path("d")),
    ] {
        copy(&from, &to);
    }
    drop(sandbox);
    laptop.is_good("p d");
    seal(&laptop, "one\ntwo\nthree\n");
    laptop.is_good("p d");
}
