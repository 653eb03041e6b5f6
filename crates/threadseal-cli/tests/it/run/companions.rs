//! `verify DIR` reports each file that a thread's record names and that is missing or differs.

use crate::prelude::*;

fn ran() -> (Sandbox, PathBuf) {
    let sandbox = project();
    greeted(&sandbox, "");
    let folder = thread(&sandbox, "child");
    sandbox.ok("verify p");
    (sandbox, folder)
}

fn ledger(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let is_ledger = |path: &PathBuf| path.to_string_lossy().contains("/ledger_");
    paths
        .find(|path| is_ledger(path) && path.extension().is_some_and(|ending| ending == "jsonl"))
        .unwrap()
}

/// `verify` fails, with this finding on this file.
#[track_caller]
fn tells(ran: &Ran, code: &str, name: &str) {
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let results = &ran.json()["results"];
    let told = results.list().iter().any(|report| {
        let findings = report["findings"].list();
        report["path"].text().ends_with(name) && findings.iter().any(|found| found["code"] == code)
    });
    assert!(told, "{code} of {name}: {results:#}");
}

// T-FIL-01 T-FIL-11
#[test]
fn a_file_of_a_thread_that_is_gone_replaced_or_cut_is_found() {
    let (sandbox, folder) = ran();
    let other = thread(&sandbox, "greet");
    let ledger = ledger(&folder);
    let [record, papers, rights] =
        ["transcript.jsonl", "thread.json", "capabilities.md"].map(|name| folder.join(name));
    let find = |path: &Path, code: &str| {
        tells(&sandbox.sh("verify p --json"), code, name_of(path));
    };
    for path in [&papers, &rights, &ledger] {
        let bytes = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        find(path, "companion_missing");
        fs::write(path, bytes).unwrap();
    }
    for path in [&papers, &rights] {
        let theirs = read(other.join(name_of(path)));
        while_it_holds(path, theirs, || find(path, "companion_differs"));
    }
    // The record states how its ledger ends.
    let lines = lines(&ledger);
    let cut = lines[..lines.len() - 1].concat();
    while_it_holds(&ledger, cut, || find(&ledger, "companion_differs"));
    for (path, code) in [(&record, "record_missing"), (&ledger, "companion_differs")] {
        for nothing in [&b"nothing\n"[..], b"", b"\x89PNG", b"{}\n"] {
            while_it_holds(path, nothing, || find(path, code));
        }
    }
    // A copy of one file outside of the project misses no other.
    for path in [&record, &ledger] {
        sandbox.write(format!("copies/{}", name_of(path)), read(path));
        sandbox.ok(format!("verify copies/{}", name_of(path)));
    }
    sandbox.ok("verify p");
}

// T-FIL-03
#[test]
fn a_deleted_transcript_is_missed_by_each_neighbour_that_is_left() {
    let (sandbox, folder) = ran();
    let (record, papers) = (folder.join("transcript.jsonl"), folder.join("thread.json"));
    let ledger = ledger(&folder);
    let bytes = fs::read(&record).unwrap();
    fs::remove_file(&record).unwrap();
    let verify = || sandbox.sh("verify p --json");
    tells(&verify(), "record_missing", "transcript.jsonl");
    // A link in its place does not count, wherever it leads.
    let copy = sandbox.write("copies/one.jsonl", "");
    fs::write(&copy, &bytes).unwrap();
    symlink(&copy, &record).unwrap();
    tells(&verify(), "record_missing", "transcript.jsonl");
    fs::remove_file(&record).unwrap();
    for (gone, code) in [(&papers, "record_missing"), (&ledger, "companion_missing")] {
        let kept = fs::read(gone).unwrap();
        fs::remove_file(gone).unwrap();
        tells(&verify(), code, "transcript.jsonl");
        fs::write(gone, kept).unwrap();
    }
    fs::write(&record, bytes).unwrap();
    sandbox.ok("verify p");
}

// T-FIL-07
#[test]
fn a_child_that_is_gone_as_a_whole_is_missed_by_its_parents_record() {
    let (sandbox, folder) = ran();
    let kept = sandbox.path("kept");
    fs::rename(&folder, &kept).unwrap();
    let child = name_of(&folder);
    let name = format!("{child}/transcript.jsonl");
    let verify = |what: &str| sandbox.sh(format!("verify {what:?} --json"));
    tells(&verify("p"), "record_missing", &name);
    tells(&verify("p/.ai/agent/threads"), "record_missing", &name);
    let from_inside = sandbox.path("p/.ai/agent/threads/demo");
    let inside = verify(from_inside.to_str().unwrap());
    tells(&inside, "record_missing", &name);
    // A copy outside of the project misses no other thread.
    let parent = thread(&sandbox, "greet");
    copy(&parent, &sandbox.path("copies/demo").join(name_of(&parent)));
    sandbox.ok("verify copies");
    // A thread in another of the verified folders is not missing.
    let moved = sandbox.path("p/moved/demo");
    fs::create_dir_all(&moved).unwrap();
    fs::rename(&kept, moved.join(child)).unwrap();
    sandbox.ok("verify p");
    fs::rename(moved.join(child), &folder).unwrap();
    sandbox.ok(format!("verify {parent:?}"));
    // Older than its end, on a host without a head of it.
    sandbox.forget();
    let path = folder.join("transcript.jsonl");
    fs::write(&path, lines(&path)[..2].concat()).unwrap();
    tells(&verify("p"), "head_ahead", &name);
}

// T-FIL-10
#[test]
fn a_parent_a_predecessor_and_a_successor_that_are_gone_as_a_whole_are_missed_once() {
    let (sandbox, child) = ran();
    let first = thread(&sandbox, "greet");
    let id = thread_id(&first);
    let resumed = sandbox.sh(once_more(&id) + " --json");
    let resumed = resumed.exits(0).json();
    let second = resumed["thread_id"].text();
    let second = sandbox.path("p/.ai/agent/threads").join(second);
    sandbox.ok("verify p");
    let verify = || sandbox.sh("verify p --json");
    let kept = sandbox.path("kept");
    // The first is the parent of the child and the predecessor of the second; the second is the
    // successor of the first.
    for folder in [&first, &second] {
        fs::rename(folder, &kept).unwrap();
        let name = format!("{}/transcript.jsonl", name_of(folder));
        let told = verify();
        tells(&told, "record_missing", &name);
        let results = told.json()["results"].clone();
        let of_it = |report: &&Value| report["path"].text().ends_with(&name);
        assert_eq!(results.list().iter().filter(of_it).count(), 1);
        fs::rename(&kept, folder).unwrap();
        sandbox.ok("verify p");
    }
    // Older than the state from which the second continued, on a host without a head of it: the end
    // of no child shows it.
    empty(&sandbox.home().join("heads"));
    fs::remove_dir_all(child).unwrap();
    let path = first.join("transcript.jsonl");
    fs::write(&path, lines(&path)[..2].concat()).unwrap();
    tells(&verify(), "head_ahead", "/transcript.jsonl");
}

// T-FIL-06
#[test]
fn what_threadseal_leaves_behind_is_no_record() {
    let (sandbox, folder) = ran();
    let tail =
        b"{\"timestamp\":1,\"thread_id\":\"x\",\"event_type\":\"cognition_in\",\"payload\":{}}\n";
    let digest = Digest::of(tail);
    let name = format!("transcript.jsonl.tail-999-{digest}");
    fs::write(folder.join(&name), tail).unwrap();
    let left = folder.join(".threadseal-1-0.tmp");
    fs::copy(folder.join("thread.json"), left).unwrap();
    sandbox.ok("verify p");
    // A sealed record is not skipped for such a name.
    let text = read(folder.join("transcript.jsonl"));
    let changed = text.replace("I am the child", "I am no child");
    let digest = Digest::of(changed.as_bytes());
    let name = format!("transcript.jsonl.tail-0-{digest}");
    fs::write(folder.join(name), changed).unwrap();
    sandbox.exits(1, "verify p");
}

/// A thread that began this child, and died before the child ended.
fn began(sandbox: &Sandbox, thread: &str, record: &str) -> PathBuf {
    let name = "p/.ai/agent/threads/demo/thread-1/transcript.jsonl";
    let mut parent = recorder(sandbox, name, 1);
    let payload = json!({
        "child_thread_id": thread, "child_directive": "demo/child", "child_record": record,
    });
    let payload = Payload::parse(payload.to_string().as_bytes()).unwrap();
    let started = EventType::parse("child_thread_started").unwrap();
    parent.append(&started, &payload).unwrap();
    parent.seal(2, Ext::default()).unwrap();
    sandbox.path(name)
}

fn findings(ran: &Ran, name: &str) -> String {
    let results = ran.json()["results"].clone();
    let of_it = |report: &&Value| report["path"].text().ends_with(name);
    let reports = results.list();
    reports.iter().find(of_it).unwrap()["findings"].to_string()
}

// T-FIL-08
#[test]
fn a_child_whose_end_nobody_sealed_is_missed_by_the_log_alone() {
    let (sandbox, child) = ran();
    let first = json_lines(child.join("transcript.jsonl")).remove(0);
    let record = first["payload"]["record"].text();
    let id = first["thread_id"].text();
    let threads = sandbox.path("p/.ai/agent/threads");
    // Everything that knew the child is gone: its parent, its folder, the registry, every head.
    let (parent, heads) = (thread(&sandbox, "greet"), sandbox.home().join("heads"));
    for gone in [&child, &parent, &heads] {
        fs::remove_dir_all(gone).unwrap();
    }
    fs::create_dir(&heads).unwrap();
    for entry in fs::read_dir(&threads).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::remove_file(path).unwrap();
        }
    }
    began(&sandbox, id, record);
    let name = name_of(&child);
    let name = format!("{name}/transcript.jsonl");
    tells(&sandbox.sh("verify p --json"), "record_missing", &name);
    // The same without that parent.
    fs::remove_dir_all(threads.join("demo/thread-1")).unwrap();
    let all = sandbox.exits(1, "verify --all p --json").json();
    let mut missing = all["results"].list().iter();
    let is_it = |report: &Value| report["verdict"] == "missing" && report["record"] == record;
    assert!(missing.any(is_it), "{all}");
}

// T-FIL-08 T-FIL-09
#[test]
fn a_link_of_which_one_side_alone_is_there_is_open() {
    let (sandbox, child) = ran();
    let name = "demo/thread-1/transcript.jsonl";
    // A child that, as far as the home knows, never sealed anything.
    let path = began(&sandbox, "demo/child-9", &"9".repeat(64));
    let told = findings(&sandbox.sh("verify p --json"), name);
    told.has("link_open").has("no seal of that record");
    fs::remove_file(&path).unwrap();
    // A child that names another parent.
    let first = json_lines(child.join("transcript.jsonl")).remove(0);
    let id = first["thread_id"].text();
    began(&sandbox, id, first["payload"]["record"].text());
    let told = findings(&sandbox.sh("verify p --json"), name);
    told.has("link_open").has("does not name this one");
    // The real parent and its child name each other.
    let name = name_of(&child);
    let name = format!("{name}/transcript.jsonl");
    findings(&sandbox.sh("verify p --json"), &name).lacks("link_open");
}

#[test]
fn no_link_of_a_child_that_is_gone_on_with_is_open() {
    let (sandbox, child) = ran();
    let name = name_of(&child);
    let id = format!("demo/{name}");
    sandbox.write("more.yaml", "answers:\n    - {text: More.}\n");
    sandbox.ok(once_more(&id));
    sandbox.ok("verify p --json").omits("link_open");
}

/// An auditor gets the folder of a project and a public key, and knows no heads.
// T-FIL-02
#[test]
fn who_was_not_there_takes_the_end_of_a_ledger_from_the_record_that_seals_it() {
    let (sandbox, folder) = ran();
    let auditor = Sandbox::new();
    copy(&sandbox.path("p"), &auditor.path("p"));
    let key = sandbox.home().join("keys/self.native.pub");
    fs::copy(key, auditor.path("self.pem")).unwrap();
    let verify = |path: &str| auditor.sh(format!("verify {path} --key self.pem --json"));
    verify("p").exits(0);
    let within = folder.strip_prefix(sandbox.work()).unwrap();
    let ledger = ledger(&auditor.path(within));
    // Verified alone, the ledger has no proof of completeness.
    verify(ledger.to_str().unwrap()).exits(3);
    let text = read(&ledger);
    cut_line(&ledger);
    let name = name_of(&ledger);
    tells(&verify("p"), "companion_differs", name);
    tells(&verify("p"), "head_ahead", name);
    fs::write(&ledger, &text).unwrap();
    // A record that does not verify proves no end of a ledger.
    let record = auditor.path(within).join("transcript.jsonl");
    cut_line(&record);
    let report = verify("p").json();
    let results = report["results"].list();
    let of_it = |report: &&Value| report["path"].text().ends_with(name);
    let verdicts = results
        .iter()
        .filter(of_it)
        .map(|report| &report["verdict"]);
    assert_eq!(verdicts.collect::<Vec<_>>(), ["open"]);
}
