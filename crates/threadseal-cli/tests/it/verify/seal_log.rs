//! The findings that the log of the home adds to verified records.

use crate::prelude::*;

pub(super) fn verified(sandbox: &Sandbox, name: &str, code: i32) -> Value {
    let ran = sandbox.exits(code, format!("verify {name} --json"));
    ran.json()["results"][0].clone()
}

pub(super) fn check(report: &Value) -> (String, String) {
    let checks = report["checks"].list();
    let check = checks.iter().find(|check| check["name"] == "log");
    let check = check.unwrap_or_else(|| panic!("{report}"));
    let text = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
    (text("result"), text("why"))
}

pub(super) fn seal(sandbox: &Sandbox, name: &str, text: &str) -> Ran {
    sandbox.write(name, text);
    sandbox.ok(format!("seal --detached {name}"))
}

#[test]
fn a_report_names_the_log_entry_of_its_record() {
    let sandbox = ready();
    seal(&sandbox, "a.log", "one\n");
    let older = fs::read(sandbox.path("a.log.seal")).unwrap();
    seal(&sandbox, "a.log", "one\ntwo\n");
    let report = verified(&sandbox, "a.log", 0);
    let (result, why) = check(&report);
    assert_eq!(result, "pass", "{why}");
    assert!(why.starts_with("entry 2 of threadseal.log/"), "{why}");
    let copied = sandbox.write("copy/a.log", "one\n");
    fs::write(copied.with_file_name("a.log.seal"), older).unwrap();
    let report = verified(&sandbox, "copy/a.log", 1);
    assert_eq!(report["verdict"], "rolled_back");
    let (result, why) = check(&report);
    assert_eq!(result, "fail");
    why.has("entry 2 of threadseal.log/");

    sandbox.sealed("b.json", "{\"b\":1}\n");
    let first = fs::read(sandbox.path("b.json")).unwrap();
    let (result, why) = check(&verified(&sandbox, "b.json", 0));
    assert_eq!(result, "pass", "{why}");
    replace(sandbox.path("b.json"), "\"b\":1", "\"b\":2");
    sandbox.ok("seal b.json");
    sandbox.write("b.json", first);
    let report = verified(&sandbox, "b.json", 1);
    assert_eq!(check(&report).0, "fail");

    // No command sealed this one: the log does not know it.
    open_record(&sandbox, "t.jsonl", 1);
    let report = verified(&sandbox, "t.jsonl", 0);
    let (result, why) = check(&report);
    assert_eq!(
        (&*result, &*why),
        ("skipped", "the log has no head of this record")
    );
    assert_eq!(report.codes(), Vec::<&str>::new());
    let stranger = Sandbox::new();
    fs::copy(sandbox.path("t.jsonl"), stranger.path("t.jsonl")).unwrap();
    let (result, why) = check(&verified(&stranger, "t.jsonl", 3));
    assert_eq!((&*result, &*why), ("skipped", "this home has no log"));
}

/// The whole home is put back, and the records with it. Only ended records are known to be
/// complete.
// T-MARK-03
#[test]
fn a_log_that_went_back_accuses_no_record_and_makes_none_whole() {
    let sandbox = ready();
    seal(&sandbox, "a.log", "one\n");
    sandbox.write("b.log", "one\n");
    sandbox.ok("seal --detached b.log --final");
    sandbox.sealed("c.json", "{\"c\":1}\n");
    open_record(&sandbox, "t.jsonl", 2);
    ended_record(&sandbox, "u.jsonl", 2);
    for name in ["a.log", "b.log", "c.json", "t.jsonl", "u.jsonl"] {
        verified(&sandbox, name, 0);
    }
    let (home, backup) = (sandbox.home(), sandbox.path("backup"));
    copy(&home, &backup);
    let record = fs::read(sandbox.path("a.log.seal")).unwrap();
    seal(&sandbox, "a.log", "one\ntwo\n");
    fs::remove_dir_all(&home).unwrap();
    fs::rename(&backup, &home).unwrap();
    sandbox.write("a.log", "one\n");
    sandbox.write("a.log.seal", record);

    for (name, code, verdict) in [
        ("a.log", 3, "open"),
        ("b.log", 0, "verified"),
        ("c.json", 0, "verified"),
        ("t.jsonl", 3, "open"),
        ("u.jsonl", 0, "verified"),
    ] {
        let report = verified(&sandbox, name, code);
        assert_eq!(report["verdict"], verdict, "{name}");
        assert!(report.codes().contains(&"log_rolled_back"), "{report}");
        assert_ne!(report["completeness"], "head", "{name}");
    }
    // Another log in its place, made on purpose: from then on the heads of the home count again.
    sandbox.ok("log restart");
    verified(&sandbox, "t.jsonl", 0);
}

// T-LOG-21
#[test]
fn a_missing_or_unreadable_log_prevents_no_verification() {
    let sandbox = ready();
    seal(&sandbox, "a.log", "one\n");
    open_record(&sandbox, "t.jsonl", 2);
    ended_record(&sandbox, "u.jsonl", 2);
    let names = ["a.log", "t.jsonl", "u.jsonl"];
    let judged = |code: &str| {
        for (name, exit) in names.into_iter().zip([3, 3, 0]) {
            let report = verified(&sandbox, name, exit);
            assert!(report.codes().contains(&code), "{name}: {report}");
            assert_eq!(check(&report).0, "skipped", "{report}");
        }
        let all = sandbox.sh("verify a.log t.jsonl u.jsonl");
        all.exits(3).warns("warning: ");
    };
    let log = sandbox.home().join("log");
    let id = read(log.join("current"));
    let journal = log.join(id.trim()).join("journal");
    let bytes = fs::read(&journal).unwrap();
    fs::write(&journal, "damaged").unwrap();
    judged("seal_log_damaged");
    fs::write(&journal, &bytes).unwrap();
    fs::write(log.join("current"), "nothing\n").unwrap();
    judged("seal_log_damaged");
    fs::remove_dir_all(&log).unwrap();
    judged("seal_log_missing");
    // A head that would have to be logged is not sealed.
    sandbox.write("b.json", "{\"b\":1}\n");
    sandbox.exits(2, "seal b.json").warns("log_missing");
}

/// The log exists and its checkpoint is valid, but an entry was replaced: it may have stated that
/// the record was forked.
// T-KLOG-06
#[test]
fn a_log_without_its_forks_completes_no_record() {
    let sandbox = ready();
    ended_record(&sandbox, "u.jsonl", 2);
    sandbox.ok("log head --write");
    let log = sandbox.home().join("log");
    let id = read(log.join("current"));
    let tiles = log.join(id.trim()).join("tile/entries/000.p");
    let tile = fs::read_dir(tiles).unwrap().next().unwrap().unwrap().path();
    assert_eq!(verified(&sandbox, "u.jsonl", 0).codes().len(), 0);
    let whole = fs::read(&tile).unwrap();
    let mut other = whole.clone();
    let last = other.len() - 3;
    other[last] ^= 1;
    fs::write(&tile, other).unwrap();
    let report = verified(&sandbox, "u.jsonl", 3);
    for code in ["forks_unknown", "seal_log_damaged"] {
        assert!(report.codes().contains(&code), "{report}");
    }
    assert_eq!(report["verdict"], "open", "{report}");
    fs::write(&tile, whole).unwrap();
    verified(&sandbox, "u.jsonl", 0);
}

#[test]
fn each_report_names_a_missing_or_damaged_second_place() {
    let sandbox = ready();
    seal(&sandbox, "a.log", "one\n");
    let marks = sandbox.home().with_file_name("home.marks");
    for entry in fs::read_dir(&marks).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "mark") {
            fs::write(path, "damaged").unwrap();
        }
    }
    let report = verified(&sandbox, "a.log", 0);
    assert_eq!(report.codes(), ["mark_unreadable"]);
    assert_eq!(check(&report).0, "pass");
    fs::remove_dir_all(&marks).unwrap();
    let report = verified(&sandbox, "a.log", 0);
    assert_eq!(report.codes(), ["mark_missing"]);
}
