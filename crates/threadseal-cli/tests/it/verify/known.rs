//! The home's knowledge of records: of missing ones, of ones that are older on purpose, and of
//! witnessed ones.

use super::seal_log::{check, seal, verified};
use crate::anchor::{add, logged, policy};
use crate::prelude::*;

fn all(sandbox: &Sandbox, more: &str, code: i32) -> Value {
    let arguments = format!("verify --all --json {more}");
    sandbox.exits(code, arguments).json()
}

fn missing(output: &Value) -> Vec<&str> {
    let results = output["results"].list();
    let gone = results
        .iter()
        .filter(|report| report["verdict"] == "missing");
    gone.map(|report| report["path"].text()).collect()
}

// T-LOG-17 T-LOG-18 T-TRA-15
#[test]
fn every_record_that_is_known_is_looked_for_and_one_that_is_gone_is_missing() {
    let sandbox = ready();
    all(&sandbox, "", 2);
    seal(&sandbox, "a.log", "one\n");
    sandbox.sealed("b.json", "{\"b\":1}\n");
    ended_record(&sandbox, "t/t.jsonl", 1);
    let output = all(&sandbox, "", 0);
    assert_eq!(output["summary"]["verified"], 3, "{output}");

    // Moved records raise an alarm only while their new place is not named.
    fs::create_dir(sandbox.path("archive")).unwrap();
    for name in ["a.log", "a.log.seal", "b.json"] {
        let to = sandbox.path("archive").join(name);
        fs::rename(sandbox.path(name), to).unwrap();
    }
    let output = all(&sandbox, "", 1);
    let gone = missing(&output);
    assert_eq!(gone.len(), 2, "{output}");
    assert!(gone.iter().any(|path| path.ends_with("/a.log")), "{output}");
    all(&sandbox, "archive", 0);
    // Another file in place of a record hides nothing.
    sandbox.write("b.json", "{\"c\":1}\n");
    assert_eq!(missing(&all(&sandbox, "", 1)).len(), 2);
    fs::remove_file(sandbox.path("b.json")).unwrap();

    fs::remove_file(sandbox.path("archive/b.json")).unwrap();
    let output = all(&sandbox, "archive", 1);
    let gone = missing(&output);
    assert!(gone.len() == 1 && gone[0].ends_with("/b.json"), "{output}");
    // The log remembers the record even after the store of heads was emptied.
    fs::remove_dir_all(sandbox.home().join("heads")).unwrap();
    fs::create_dir(sandbox.home().join("heads")).unwrap();
    let output = all(&sandbox, "archive", 1);
    assert_eq!(missing(&output).len(), 1, "{output}");
    // Without its log the home cannot list all records.
    fs::remove_dir_all(sandbox.home().join("log")).unwrap();
    all(&sandbox, "archive", 2);
}

// T-TRA-17
#[test]
fn what_cannot_be_read_just_now_is_not_called_missing() {
    let sandbox = ready();
    for name in ["p/s.jsonl", "p/d.md"] {
        sandbox.write(name, "{\"n\":1}\n");
        sandbox.ok(format!("seal {name}"));
    }
    let unknown = |more: &str| {
        let output = all(&sandbox, more, 2);
        assert_eq!(missing(&output), [""; 0], "{output}");
        assert!(!output["errors"].list().is_empty(), "{output}");
    };
    // A damaged file of the index of places.
    let places = walk(&sandbox.home().join("heads/places"));
    for place in places.iter().filter(|place| place.is_file()) {
        let good = fs::read(place).unwrap();
        fs::write(place, "").unwrap();
        unknown("p");
        unknown("");
        fs::write(place, good).unwrap();
    }
    // A folder that leads nowhere: its content is unknown.
    let (folder, moved) = (sandbox.path("p"), sandbox.path("q"));
    fs::rename(&folder, &moved).unwrap();
    symlink("p", &folder).unwrap();
    unknown("");
    all(&sandbox, "q", 0);
    fs::remove_file(&folder).unwrap();
    assert_eq!(missing(&all(&sandbox, "", 1)).len(), 2);
}

// T-LOG-18
#[test]
fn a_record_that_never_had_a_place_is_not_called_missing_before_it_was_looked_for() {
    let sandbox = ready();
    sandbox.write("turns.json", crate::scroll::turns(2));
    let seal = "scroll seal turns.json --key self-scroll";
    sandbox.ok(format!("{seal} --out s.json"));
    all(&sandbox, "", 0);
    // Without the private index the record cannot be called missing before a search.
    fs::remove_dir_all(sandbox.home().join("log/places")).unwrap();
    sandbox
        .exits(2, "verify --all")
        .warns("is known: name its folder or store");
    all(&sandbox, "s.json", 0);
    for name in ["s.json", "turns.json"] {
        fs::remove_file(sandbox.path(name)).unwrap();
    }
    let output = all(&sandbox, ".", 1);
    assert_eq!(missing(&output).len(), 1, "{output}");
}

#[test]
fn a_record_in_a_place_whose_name_is_written_in_another_way_is_not_gone() {
    for folder in ["with\\backslash", "with space "] {
        let sandbox = ready();
        let folder = sandbox.path(folder);
        fs::create_dir(&folder).unwrap();
        let path = folder.join("s.json");
        let path = path.to_str().unwrap();
        crate::scroll::signed(&sandbox, path, 2);
        all(&sandbox, "", 0);
        all(&sandbox, &format!("{path:?}"), 0);
    }
}

/// A scroll, ledgers in a folder and in SQLite, and an agent that went from v0x04 to v0x05.
fn without_places(sandbox: &Sandbox) {
    crate::scroll::signed(sandbox, "s.json", 2);
    let step = "{\"node\":\"plan\",\"result\":{\"text\":\"ho\"}}\n";
    for (store, run) in [("file:runs", "r1"), ("sqlite:runs.db", "r2")] {
        let append = format!("ledger append {store} --run {run} --sign");
        piped(sandbox, &append, step).exits(0);
    }
    sandbox.write("state", "what the agent is");
    for (tick, version) in [("1", "4"), ("2", "5")] {
        let code = "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab";
        let own = "--agent counter --state state --budget 9 --price 1";
        let version = format!("--tick {tick} --version {version} --code {code}");
        sandbox.ok(format!("lineage append here {own} {version}"));
    }
}

// T-LED-14 T-LOG-16 T-STO-11
#[test]
fn what_has_no_place_of_its_own_is_found_where_it_was_sealed_and_missing_where_it_is_gone() {
    let sandbox = ready();
    without_places(&sandbox);
    let output = all(&sandbox, "", 0);
    assert_eq!(output["summary"]["verified"], 4, "{output}");
    // Only the log knows them, and the index leads to them.
    sandbox.forget_heads();
    let output = all(&sandbox, "", 0);
    assert_eq!(output["summary"]["verified"], 4, "{output}");
    for (gone, kind) in [
        ("s.json", "scroll"),
        ("runs.db", "ledger"),
        ("runs", "ledger"),
        ("here", "lineage"),
    ] {
        let (path, kept) = (sandbox.path(gone), sandbox.work().with_file_name("kept"));
        fs::rename(&path, &kept).unwrap();
        let output = all(&sandbox, "", 1);
        let results = output["results"].list();
        let missing = results
            .iter()
            .filter(|report| report["verdict"] == "missing");
        let formats: Vec<&str> = missing.map(|report| report["format"].text()).collect();
        assert!(
            !formats.is_empty() && formats.iter().all(|format| *format == kind),
            "{output}"
        );
        fs::rename(&kept, &path).unwrap();
    }
    all(&sandbox, "", 0);
}

/// Stores on a network are read only if the command names them.
// T-LOG-16
#[test]
fn a_record_in_a_store_elsewhere_is_asked_for_and_not_called_missing() {
    let sandbox = ready();
    crate::scroll::signed(&sandbox, "s.json", 1);
    let place = walk(&sandbox.home().join("log/places")).remove(0);
    fs::write(&place, "s3://bucket/scrolls\n").unwrap();
    sandbox
        .exits(2, "verify --all")
        .warns("was sealed in s3://bucket/scrolls");
    let output = all(&sandbox, "s.json", 0);
    assert_eq!(output["summary"]["verified"], 1, "{output}");
}

fn as_of(sandbox: &Sandbox, name: &str, head: &str, code: i32) -> Value {
    let ran = sandbox.sh(format!("verify {name} --as-of {head} --json"));
    ran.exits(code).json()["results"][0].clone()
}

// T-LOG-10
#[test]
fn an_older_copy_may_be_looked_at_on_purpose_where_the_log_shows_that_it_is_one() {
    let sandbox = ready();
    seal(&sandbox, "a.log", "one\n");
    let head = |report: &Value| report["head"].text().to_owned();
    let first = head(&verified(&sandbox, "a.log", 0));
    copy(&sandbox.work(), &sandbox.work().with_file_name("older"));
    copy(&sandbox.home(), &sandbox.path("stolen"));
    seal(&sandbox, "a.log", "one\ntwo\n");
    let second = head(&verified(&sandbox, "a.log", 0));
    seal(&sandbox, "a.log", "one\ntwo\nthree\n");
    copy(
        &sandbox.work().with_file_name("older"),
        &sandbox.path("older"),
    );
    verified(&sandbox, "older/a.log", 1);
    let report = as_of(&sandbox, "older/a.log", &first, 0);
    assert_eq!(report["verdict"], "verified");
    assert_eq!(report.codes(), ["superseded"]);
    let (result, why) = check(&report);
    assert!(
        result == "pass" && why.contains("entry 1 of"),
        "{result} {why}"
    );
    // It hides no other difference: an older state than requested, a newer one, a changed one.
    let report = as_of(&sandbox, "older/a.log", &second, 1);
    assert_eq!(report["verdict"], "truncated");
    as_of(&sandbox, "a.log", &first, 3);
    let log = sandbox.write("older/a.log", "uno\n");
    assert_eq!(
        as_of(&sandbox, "older/a.log", &first, 1)["verdict"],
        "tampered"
    );
    // It does not hide another continuation under the same key either.
    fs::write(log, "one\nforged\n").unwrap();
    take_log_away(&sandbox.path("stolen"));
    sandbox.ok("--home stolen seal --detached older/a.log");
    let forged = sandbox.sh("--home stolen verify older/a.log --json");
    let forged = head(&forged.json()["results"][0]);
    let report = as_of(&sandbox, "older/a.log", &forged, 1);
    assert_eq!(report["verdict"], "forked");
    assert_eq!(check(&report).0, "fail");
    sandbox.exits(2, "verify a.log --as-of abc");
    sandbox.exits(2, format!("verify . --as-of {first}"));
}

// T-LOG-10
#[test]
fn an_older_copy_of_which_the_log_knows_nothing_may_be_another_continuation() {
    let sandbox = ready();
    let mut recorder = recorder(&sandbox, "t.jsonl", 1);
    let first = recorder.state().head().unwrap().to_string();
    fs::copy(recorder.path(), sandbox.path("older.jsonl")).unwrap();
    say(&mut recorder, "cognition_in", "more");
    let ext = Ext::default();
    recorder.seal(2, ext).unwrap();
    drop(recorder);
    let report = as_of(&sandbox, "older.jsonl", &first, 3);
    assert_eq!(report["verdict"], "open");
    assert!(report.codes().contains(&"superseded"), "{report}");
}

// T-LOG-22
#[test]
fn with_an_anchor_required_only_what_a_quorum_saw_counts() {
    let (sandbox, log) = logged();
    let ask = |code: i32| {
        let ran = sandbox.sh("verify first.json --require-anchor --json");
        ran.exits(code).json()["results"][0].clone()
    };
    let refused = |part: &str| {
        let report = ask(3);
        assert_eq!(report["verdict"], "open");
        assert!(report.codes().contains(&"anchor_missing"), "{report}");
        assert!(report.to_string().contains(part), "{report}");
    };
    refused("no cosignature of a witness was collected");
    add(&sandbox, "none", &format!("log {log}\nquorum none\n"));
    let witness = witness(&[&log]);
    let serving = Serving::start(&witness);
    add(&sandbox, "w", &policy(&log, &[&serving], 1));
    sandbox.ok("anchor check w");
    let report = ask(0);
    assert!(report.to_string().contains("quorum of w"), "{report}");
    // A record that came later waits for the witnesses.
    sandbox.sealed("later.json", "{\"n\":1}\n");
    sandbox
        .exits(3, "verify later.json --require-anchor")
        .prints("newer than the checkpoint that witnesses cosigned");
    ask(0);
    // The log's claim alone is no evidence.
    fs::remove_file(sandbox.home().join("anchors/w.policy")).unwrap();
    refused("no quorum");
}

/// Names that are not UTF-8, and names of several lines, are stored so that they are found again.
// T-LOG-19
#[cfg(unix)]
#[test]
fn a_place_whose_name_is_no_text_of_one_line_is_found_again() {
    use std::os::unix::ffi::OsStrExt as _;
    let sandbox = ready();
    for (number, name) in [&b"a\xff"[..], b"b\nb", b"c\\x41"].into_iter().enumerate() {
        let folder = sandbox.path(OsStr::from_bytes(name));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("x.log"), format!("{number}\n")).unwrap();
        let seal = |arguments: &str, file: &str, input: Stdio| {
            let mut command = sandbox.command();
            let command = command.args(words(arguments)).arg(folder.join(file));
            Ran::of(command.stdin(input).output().unwrap()).exits(0);
        };
        seal("seal --detached", "x.log", Stdio::null());
        let turn = sandbox.write("turn", crate::scroll::turn(0, &number.to_string()));
        let turn = fs::File::open(turn).unwrap();
        seal("scroll seal --append", "s.jsonl", turn.into());
    }
    fs::remove_file(sandbox.path("turn")).unwrap();
    let all = || sandbox.sh("verify --all --json");
    let told = all().exits(0).json();
    assert_eq!(told["results"].list().len(), 6, "{told}");
    for entry in fs::read_dir(sandbox.work()).unwrap() {
        let folder = entry.unwrap().path();
        fs::rename(&folder, folder.with_extension("away")).unwrap();
    }
    let told = all().exits(1).json();
    assert_eq!(told["summary"]["missing"], 6, "{told}");
}
