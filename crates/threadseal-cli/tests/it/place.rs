//! Records in the places of other records, as `verify`, `messages` and `seal` report them.

use crate::prelude::*;

fn ask(sandbox: &Sandbox, command: &str, path: &str) -> Ran {
    sandbox.sh(format!("{command} {path}"))
}

fn says(ran: &Ran, verdict: &str, path: &str) -> bool {
    let begin = format!("{verdict}  {path}  ");
    ran.stdout.lines().any(|line| line.starts_with(&begin))
}

// T-TRA-12
#[test]
fn a_known_record_over_another_known_one_is_foreign_and_the_other_is_missing() {
    let sandbox = ready();
    for end in [ended_record, open_record] {
        let (a, b) = (
            end(&sandbox, "d/a.jsonl", 1),
            ended_record(&sandbox, "d/b.jsonl", 2),
        );
        ask(&sandbox, "verify", "d").exits(0);
        let before = fs::read(&a).unwrap();
        fs::copy(&b, &a).unwrap();
        let file = ask(&sandbox, "verify", "d/a.jsonl").exits(1);
        assert!(says(&file, "foreign", "d/a.jsonl"), "{}", file.stdout);
        let folder = ask(&sandbox, "verify", "d").exits(1);
        assert!(says(&folder, "foreign", "d/a.jsonl"), "{}", folder.stdout);
        assert!(says(&folder, "missing", "d/a.jsonl"), "{}", folder.stdout);
        folder.stdout.has(": 1 verified, ");
        ask(&sandbox, "messages", "d/a.jsonl")
            .exits(1)
            .omits("question");
        ask(&sandbox, "seal", "d/a.jsonl").fails_with("is the place of record");
        // The other record is still in the tree: displaced, not missing.
        sandbox.write("d/moved.jsonl", before);
        ask(&sandbox, "verify", "d").exits(1).omits("missing");
        fs::remove_dir_all(sandbox.path("d")).unwrap();
    }
}

// T-TRA-12
#[test]
fn a_log_with_its_seals_over_another_log_is_foreign() {
    let sandbox = ready();
    for name in ["a", "b"] {
        let log = format!("d/{name}.jsonl");
        sandbox.write(&log, format!("{{\"type\":\"{name}\"}}\n{{\"n\":1}}\n"));
        ask(&sandbox, "seal", &log).exits(0);
    }
    ask(&sandbox, "verify", "d").exits(0);
    for ending in ["jsonl", "jsonl.seal"] {
        let of = |name: &str| sandbox.path("d").join(name).with_extension(ending);
        fs::copy(of("b"), of("a")).unwrap();
    }
    let ran = ask(&sandbox, "verify", "d").exits(1);
    assert!(says(&ran, "foreign", "d/a.jsonl"), "{}", ran.stdout);
    assert!(says(&ran, "missing", "d/a.jsonl"), "{}", ran.stdout);
    ask(&sandbox, "seal", "d/a.jsonl").fails_with("is the place of record");
}

// T-TRA-12
#[test]
fn a_record_over_one_of_another_kind_is_foreign() {
    let sandbox = ready();
    ended_record(&sandbox, "d/t.jsonl", 1);
    sandbox.write("d/s.jsonl", "{\"type\":\"user\"}\n{\"n\":1}\n");
    ask(&sandbox, "seal", "d/s.jsonl").exits(0);
    for ending in ["jsonl", "jsonl.seal"] {
        let of = |name: &str| sandbox.path("d").join(name).with_extension(ending);
        fs::copy(of("s"), of("t")).unwrap();
    }
    let ran = ask(&sandbox, "verify", "d").exits(1);
    assert!(says(&ran, "foreign", "d/t.jsonl"), "{}", ran.stdout);
    assert!(says(&ran, "missing", "d/t.jsonl"), "{}", ran.stdout);
}

// T-TRA-12
#[test]
fn a_document_over_another_is_foreign_until_it_is_sealed_there() {
    let sandbox = ready();
    for name in ["a.md", "b.md"] {
        sandbox.write(name, format!("# {name}\n"));
        ask(&sandbox, "seal --inline", name).exits(0);
    }
    let path = |name: &str| sandbox.path(name);
    fs::copy(path("b.md"), path("a.md")).unwrap();
    let ran = ask(&sandbox, "verify", "a.md").exits(1);
    assert!(says(&ran, "foreign", "a.md"), "{}", ran.stdout);
    ask(&sandbox, "seal --inline", "a.md").exits(0);
    for name in ["a.md", "b.md"] {
        ask(&sandbox, "verify", name).exits(0);
    }
}

#[test]
fn the_version_of_a_colleague_in_the_place_of_ones_own_is_no_alarm() {
    let (sandbox, colleague) = (ready(), ready());
    sandbox.write("a.md", "mine\n");
    ask(&sandbox, "seal --inline", "a.md").exits(0);
    let theirs = colleague.write("a.md", "theirs\n");
    ask(&colleague, "seal --inline", "a.md").exits(0);
    fs::copy(theirs, sandbox.path("a.md")).unwrap();
    let ran = ask(&sandbox, "verify", "a.md").exits(3);
    assert!(says(&ran, "unknown_signer", "a.md"), "{}", ran.stdout);
}

// T-TRA-13
#[test]
fn moving_copying_and_recording_anew_in_one_place_are_no_alarm() {
    let sandbox = ready();
    let path = |name: &str| sandbox.path(name);
    open_record(&sandbox, "d/a.jsonl", 1);
    fs::copy(path("d/a.jsonl"), path("d/copy.jsonl")).unwrap();
    fs::rename(path("d/a.jsonl"), path("d/moved.jsonl")).unwrap();
    ask(&sandbox, "verify", "d").exits(0);
    // A new record takes the place; the record that was there before is displaced.
    open_record(&sandbox, "d/a.jsonl", 2);
    ask(&sandbox, "verify", "d").exits(0);
    fs::rename(path("d"), path("e")).unwrap();
    ask(&sandbox, "verify", "e").exits(0);
    fs::copy(path("e/moved.jsonl"), path("e/a.jsonl")).unwrap();
    ask(&sandbox, "verify", "e").exits(0);
    fs::rename(path("e"), path("d")).unwrap();
    let ran = ask(&sandbox, "verify", "d").exits(1);
    assert!(says(&ran, "foreign", "d/a.jsonl"), "{}", ran.stdout);
}

#[test]
fn a_record_may_be_anywhere_where_nothing_was_sealed() {
    let (sandbox, other) = (ready(), ready());
    let record = ended_record(&other, "a.jsonl", 1);
    let copy = sandbox.write("a.jsonl", fs::read(record).unwrap());
    let ran = ask(&sandbox, "verify", "a.jsonl").exits(3);
    assert!(says(&ran, "unknown_signer", "a.jsonl"), "{}", ran.stdout);
    // A record of another host in place of one sealed here is as foreign as a known record.
    fs::remove_file(&copy).unwrap();
    drop(recorder(&sandbox, "a.jsonl", 1));
    let theirs = fs::read(other.path("a.jsonl")).unwrap();
    fs::write(&copy, theirs).unwrap();
    let ran = ask(&sandbox, "verify", Path::new("a.jsonl").to_str().unwrap()).exits(1);
    assert!(says(&ran, "foreign", "a.jsonl"), "{}", ran.stdout);
}

/// Ways to put something that is no record in the place of a sealed file.
const OVER: [&str; 6] = [
    "a text", "nothing", "garbage", "a folder", "a pipe", "a link",
];

fn put(what: &str, path: &Path) {
    match what {
        "a text" => fs::write(path, "be evil\n").unwrap(),
        "nothing" => fs::write(path, "").unwrap(),
        "garbage" => fs::write(path, b"\xff\x00\xfe").unwrap(),
        "a folder" => fs::create_dir(path).unwrap(),
        "a pipe" => {
            let made = Command::new("mkfifo").arg(path).status();
            assert!(made.unwrap().success());
        }
        _ => symlink("gone", path).unwrap(),
    }
}

fn take_away(path: &Path) {
    match path.symlink_metadata().unwrap().is_dir() {
        true => fs::remove_dir(path).unwrap(),
        false => fs::remove_file(path).unwrap(),
    }
}

// T-FIL-11
#[test]
fn a_file_in_the_place_of_a_sealed_document_that_is_no_record_is_reported() {
    let sandbox = ready();
    let texts = [
        ("d/rules.md", "be kind\n"),
        ("d/limits.yaml", "limit: 1\n"),
        ("d/m.py", "x = 1\n"),
        ("d/project.json", "{\"a\":1}\n"),
    ];
    for (name, text) in texts {
        sandbox.write(name, text);
        ask(&sandbox, "seal --inline", name).exits(0);
    }
    sandbox.write("d/s.jsonl", "{\"n\":1}\n");
    ask(&sandbox, "seal", "d/s.jsonl").exits(0);
    ask(&sandbox, "verify", "d").exits(0);
    // A profile does not miss records that it does not examine.
    for profile in ["native", "observed", "rye"] {
        let ran = sandbox.sh(format!("verify d --profile {profile}"));
        assert!(!ran.stdout.contains("missing"), "{profile}: {}", ran.stdout);
    }
    for (name, _) in texts {
        let path = sandbox.path(name);
        let sealed = fs::read(&path).unwrap();
        for what in OVER {
            fs::remove_file(&path).unwrap();
            put(what, &path);
            let ran = ask(&sandbox, "verify", "d").exits(1);
            assert!(says(&ran, "missing", name), "{what}: {}", ran.stdout);
            take_away(&path);
            fs::write(&path, &sealed).unwrap();
        }
    }
    ask(&sandbox, "verify", "d").exits(0);
}

// T-FIL-11
#[test]
fn who_moves_a_record_and_leaves_a_link_or_writes_anew_after_a_prune_hides_nothing() {
    let sandbox = ready();
    ended_record(&sandbox, "d/a.jsonl", 1);
    ended_record(&sandbox, "d/ok.jsonl", 2);
    let path = |name: &str| sandbox.path(name);
    fs::rename(path("d/a.jsonl"), path("a.jsonl")).unwrap();
    symlink("../a.jsonl", path("d/a.jsonl")).unwrap();
    ask(&sandbox, "verify", "d").exits(0);
    // A link to any other file is no excuse.
    fs::remove_file(path("d/a.jsonl")).unwrap();
    symlink("ok.jsonl", path("d/a.jsonl")).unwrap();
    let ran = ask(&sandbox, "verify", "d").exits(1);
    assert!(says(&ran, "missing", "d/a.jsonl"), "{}", ran.stdout);
    fs::remove_file(path("d/a.jsonl")).unwrap();
    fs::rename(path("a.jsonl"), path("d/a.jsonl")).unwrap();
    ask(&sandbox, "prune --yes", "d/a.jsonl").exits(0);
    // An unsealed log is no success, and nothing is missing.
    sandbox.write("d/a.jsonl", "{\"n\":1}\n");
    ask(&sandbox, "verify", "d").exits(3).omits("missing");
}

// T-FIL-12
#[test]
fn a_path_in_which_nothing_was_found_is_no_success_whatever_else_is_named() {
    let sandbox = ready();
    for name in ["s.jsonl", "ok.jsonl"] {
        sandbox.write(name, format!("{{\"name\":\"{name}\"}}\n"));
        ask(&sandbox, "seal", name).exits(0);
    }
    sandbox.write("plain/readme.txt", "hello\n");
    fs::create_dir(sandbox.path("empty")).unwrap();
    for path in ["empty", "plain", "absent", "file:empty"] {
        sandbox
            .exits(2, format!("verify {path} ok.jsonl"))
            .warns(path.trim_start_matches("file:"));
    }
    // A host that knows the former record reports it.
    let log = sandbox.path("s.jsonl");
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    for paths in ["s.jsonl", "s.jsonl ok.jsonl"] {
        let ran = sandbox.exits(1, format!("verify {paths}"));
        assert!(says(&ran, "missing", "s.jsonl"), "{}", ran.stdout);
    }
    fs::rename(&log, sandbox.path("elsewhere.jsonl")).unwrap();
    sandbox
        .exits(2, "verify elsewhere.jsonl ok.jsonl")
        .warns("nothing to verify");
}
