//! `prune` of files that other programs wrote and this home sealed: logs with detached seals, and
//! documents.

use crate::prelude::*;
use crate::prune::{codes, verify};
use crate::prune_kinds::{is_excused, prune};
use std::time::SystemTime;
use threadseal_store::observer::seal_path;
use threadseal_store::tombstones::place_of;

const LINES: &str = "{\"type\":\"user\",\"text\":\"a secret\"}\n{\"type\":\"agent\"}\n";

fn sealed(sandbox: &Sandbox, name: &str, text: &str) -> PathBuf {
    let path = sandbox.write(name, text);
    let flag = if name.ends_with(".log") {
        "--detached"
    } else {
        ""
    };
    sandbox.ok(format!("seal {flag} {name}"));
    path
}

/// The content of a file and of the files beside it.
fn files_of(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let all = [path.to_owned(), seal_path(path)];
    let there = all.into_iter().filter(|path| path.exists());
    there
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

fn put(files: &[(PathBuf, Vec<u8>)]) {
    for (path, bytes) in files {
        fs::write(path, bytes).unwrap();
    }
}

/// Nothing is pruned, and nothing changes; gives the refusal.
fn stays(sandbox: &Sandbox, path: &Path) -> String {
    let before = files_of(path);
    let told = prune(sandbox, &format!("{path:?}"), 2);
    assert_eq!(files_of(path), before, "{told}");
    told
}

fn stranger(sandbox: &Sandbox, arguments: &str) -> Ran {
    let mut command = sandbox.command();
    let home = sandbox.home().with_file_name("stranger");
    command.args(words(arguments)).env("THREADSEAL_HOME", home);
    Ran::of(command.output().unwrap())
}

// T-PRU-18
#[test]
fn a_log_is_pruned_with_its_seals_and_takes_no_seal_any_more() {
    for name in ["a.jsonl", "a.log"] {
        let sandbox = ready();
        let path = sealed(&sandbox, name, LINES);
        let kept = files_of(&path);
        assert_eq!(kept.len(), 2);
        let would = prune(&sandbox, &format!("{name} --dry-run"), 0);
        assert!(would.contains("2 files") && !place_of(&path).exists());
        prune(&sandbox, name, 0);
        assert!(files_of(&path).is_empty() && place_of(&path).exists());
        is_excused(&sandbox);
        prune(&sandbox, name, 0);
        // A restored log is reported, takes no seal, and goes with the next prune; a log without a
        // seal does not.
        put(&kept);
        verify(&sandbox, name, 0).has("pruned_but_present");
        fs::write(&path, format!("{LINES}{{\"type\":\"new\"}}\n")).unwrap();
        sandbox
            .sh(format!("seal --detached {name}"))
            .fails_with("was pruned");
        assert!(stays(&sandbox, &path).contains("unsigned_tail"));
        put(&kept);
        prune(&sandbox, name, 0);
        assert!(files_of(&path).is_empty());
        is_excused(&sandbox);
    }
}

// T-PRU-09
#[test]
fn a_prune_of_a_log_that_was_cut_short_is_finished_and_takes_no_other_log_with_it() {
    let sandbox = ready();
    let path = sealed(&sandbox, "a.jsonl", LINES);
    let kept = files_of(&path);
    prune(&sandbox, "a.jsonl", 0);
    // Stopped before the seals were deleted.
    put(&kept[1..]);
    verify(&sandbox, "--all .", 0)
        .has("pruned_but_present")
        .lacks("log_missing");
    // The program begins another log under the same name.
    fs::write(&path, "{\"type\":\"another\"}\n").unwrap();
    stays(&sandbox, &path);
    fs::remove_file(&path).unwrap();
    prune(&sandbox, "a.jsonl", 0);
    assert!(files_of(&path).is_empty());
    is_excused(&sandbox);
    fs::write(&path, "{\"type\":\"another\"}\n").unwrap();
    assert!(stays(&sandbox, &path).contains("not the one that was pruned"));
    let all = sandbox.sh("verify --all . --json").json();
    codes(&all).has("pruned").lacks("record_missing");
    // The other log is sealed as a record of its own.
    sandbox.ok("seal a.jsonl");
    assert!(stays(&sandbox, &path).contains("another record"));
    is_excused(&sandbox);
}

// T-PRU-09
#[test]
fn a_log_that_was_changed_cut_written_on_or_is_anothers_is_not_pruned() {
    let sandbox = ready();
    let path = sealed(&sandbox, "a.jsonl", LINES);
    let older = files_of(&path);
    fs::write(&path, format!("{LINES}{{\"type\":\"more\"}}\n")).unwrap();
    sandbox.ok("seal a.jsonl");
    let whole = files_of(&path);
    let lines = read(&path);
    for other in [
        lines.replace("a secret", "a sacred"),
        LINES.to_owned(),
        format!("{lines}{{\"type\":\"unsealed\"}}\n"),
        format!("{lines}half a line"),
    ] {
        fs::write(&path, other).unwrap();
        stays(&sandbox, &path);
    }
    put(&older);
    stays(&sandbox, &path);
    put(&whole);
    for seals in [None, Some(&b"{}\n"[..])] {
        match seals {
            None => fs::remove_file(seal_path(&path)).unwrap(),
            Some(bytes) => fs::write(seal_path(&path), bytes).unwrap(),
        }
        stays(&sandbox, &path);
    }
    // This home does not prune a log that another home sealed, and the other does not prune its
    // logs.
    put(&whole);
    let theirs = sandbox.write("theirs.jsonl", LINES);
    stranger(&sandbox, "init -q").exits(0);
    stranger(&sandbox, "seal theirs.jsonl").exits(0);
    stays(&sandbox, &theirs);
    stranger(&sandbox, "prune a.jsonl").exits(2);
    let unsealed = sandbox.write("b.jsonl", LINES);
    stays(&sandbox, &unsealed);
    stays(&sandbox, &seal_path(&path));
    assert!(!place_of(&path).exists());
    sandbox.ok("verify --all");
    assert_eq!(files_of(&path), whole);
}

// T-PRU-06
#[test]
fn a_tombstone_of_a_log_or_a_document_that_was_changed_or_removed_excuses_nothing() {
    for name in ["a.jsonl", "a.json"] {
        let sandbox = ready();
        let path = sealed(&sandbox, name, "{\"text\": \"a secret\"}\n");
        prune(&sandbox, name, 0);
        let place = place_of(&path);
        let good = read(&place);
        let forged = good.replace("time is up", "time is mine");
        fs::write(&place, &forged).unwrap();
        verify(&sandbox, "--all", 1).has("record_missing");
        prune(&sandbox, name, 2);
        fs::remove_file(&place).unwrap();
        verify(&sandbox, "--all", 1).has("record_missing");
        fs::write(&place, good).unwrap();
        is_excused(&sandbox);
    }
}

// T-PRU-10
#[test]
fn logs_are_pruned_by_their_age_and_documents_are_not() {
    let sandbox = ready();
    let log = sealed(&sandbox, "d/a.jsonl", LINES);
    let written = sealed(&sandbox, "d/b.log", LINES);
    let beside = sandbox.path("d/c.md");
    sandbox.sealed("d/c.md", "# Directive\n");
    sandbox.ok("seal --detached d/c.md");
    let document = sealed(&sandbox, "d/tool.json", "{\"tool\": 1}\n");
    let transcript = ended_record(&sandbox, "d/t.jsonl", 1);
    // The program still writes.
    let soon = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    let file = fs::File::options().append(true).open(&written).unwrap();
    file.set_modified(soon).unwrap();
    let none = prune(&sandbox, "d --older-than 90d", 0);
    none.has("nothing to prune");
    let told = prune(&sandbox, "d --older-than 0h", 0);
    assert_eq!(told.matches("pruned  ").count(), 2, "{told}");
    for gone in [&log, &transcript] {
        assert!(files_of(gone).is_empty(), "{told}");
    }
    for left in [&written, &beside, &document] {
        assert!(left.exists() && !place_of(left).exists(), "{told}");
    }
    is_excused(&sandbox);
    // `prune` with a name deletes a document and the seals beside it, under one tombstone.
    prune(&sandbox, "d/c.md d/tool.json", 0);
    assert!(files_of(&beside).is_empty() && files_of(&document).is_empty());
    is_excused(&sandbox);
}

// T-PRU-09 T-PRU-18
#[test]
fn a_document_is_pruned_by_its_name_and_takes_no_seal_any_more() {
    for (name, content, edit) in [
        ("a.json", "{\"limits\": 3}\n", ("limits", "bounds")),
        ("a.md", "# Title\n\ntext\n", ("text", "test")),
    ] {
        let sandbox = ready();
        let path = sealed(&sandbox, name, content);
        let older = files_of(&path);
        let edited = |from: &Path| {
            let text = read(from);
            fs::write(from, text.replace(edit.0, edit.1)).unwrap();
        };
        edited(&path);
        stays(&sandbox, &path);
        sandbox.ok(format!("seal {name}"));
        let kept = files_of(&path);
        put(&older);
        stays(&sandbox, &path);
        fs::write(&path, content).unwrap();
        stays(&sandbox, &path);
        put(&kept);
        prune(&sandbox, name, 0);
        assert!(files_of(&path).is_empty() && place_of(&path).exists());
        is_excused(&sandbox);
        put(&kept);
        verify(&sandbox, name, 0).has("pruned_but_present");
        fs::write(&path, read(&path).replace(edit.1, "word")).unwrap();
        sandbox.sh(format!("seal {name}")).fails_with("was pruned");
        stays(&sandbox, &path);
        put(&kept);
        prune(&sandbox, name, 0);
        assert!(files_of(&path).is_empty());
        is_excused(&sandbox);
        // A new file under that name is another record.
        fs::write(&path, content).unwrap();
        sandbox.ok(format!("seal {name}"));
        assert!(stays(&sandbox, &path).contains("another record"));
    }
}

// T-PRU-10
#[test]
fn files_that_a_thread_or_project_needs_are_not_pruned_alone() {
    let sandbox = project();
    greeted(&sandbox, "-q");
    let folder = thread(&sandbox, "greet");
    let told = stays(&sandbox, &folder.join("thread.json"));
    told.has("prune the thread");
    let identity = sandbox.path("p/.ai/agent/threads/project.json");
    let told = stays(&sandbox, &identity);
    told.has("it identifies the project");
    sandbox.ok("verify p");
}
