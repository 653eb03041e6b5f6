//! Threads in a project to which they do not belong; and projects that were moved, copied and
//! cloned in good faith.

use super::refusals::{all_refused, everything, refused};
use crate::prelude::*;

const THREADS: &str = ".ai/agent/threads";
const IDENTITY: &str = ".ai/agent/threads/project.json";

/// Copies everything below `from` over `to`.
fn copy(sandbox: &Sandbox, from: &str, to: &str) {
    let from = sandbox.path(from).join(".");
    let to = sandbox.path(to);
    fs::create_dir_all(&to).unwrap();
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// Two projects with the same items, `p` and `q`, and a thread that ended in `q`. With `with_id`,
/// `p` has an id too.
fn two(with_id: bool) -> (Sandbox, String) {
    let sandbox = project();
    copy(&sandbox, "p", "q");
    if with_id {
        greeted(&sandbox, "");
    }
    let id = run_in(&sandbox, "q");
    (sandbox, id)
}

fn run_in(sandbox: &Sandbox, folder: &str) -> String {
    let own = format!("run demo/greet --project {folder} -i name=Ada");
    let ran = sandbox.json(format!("{own} --script answers.yaml"));
    ran["thread_id"].text().to_owned()
}

fn resume(sandbox: &Sandbox, folder: &str, id: &str) -> Ran {
    let own = format!("thread resume {id} -m 'Once more.' --json");
    let place = format!("--project {folder} --script more.yaml");
    sandbox.sh(format!("{own} {place}"))
}

/// The threads that `thread list` reports as foreign.
fn strays(sandbox: &Sandbox, folder: &str) -> Vec<String> {
    let list = sandbox.json(format!("thread list --project {folder}"));
    let strays = list["foreign"].list().iter();
    strays.map(|id| id.text().to_owned()).collect()
}

/// `p` keeps its own id, or none, and gets everything else below the threads of `q`.
fn copy_threads(sandbox: &Sandbox) {
    let own = sandbox.path("p").join(IDENTITY);
    let kept = fs::read(&own).ok();
    for entry in fs::read_dir(own.parent().unwrap()).into_iter().flatten() {
        let path = entry.unwrap().path();
        // A write-ahead log belongs to the database that wrote it.
        if !path.is_dir() {
            fs::remove_file(path).unwrap();
        }
    }
    let (from, to) = (format!("q/{THREADS}"), format!("p/{THREADS}"));
    copy(sandbox, &from, &to);
    match kept {
        Some(bytes) => fs::write(own, bytes).unwrap(),
        None => fs::remove_file(own).unwrap(),
    }
}

fn line_1(path: &Path) -> Value {
    json_lines(path.join("transcript.jsonl")).remove(0)
}

fn project_of(sandbox: &Sandbox, folder: &str, id: &str) -> String {
    let first = line_1(&sandbox.path(folder).join(THREADS).join(id));
    let named = first["payload"]["meta"]["project"].as_str();
    named.unwrap().to_owned()
}

// T-PRO-01
#[test]
fn a_thread_copied_into_another_project_is_foreign_there_and_resumes_at_home() {
    for with_id in [true, false] {
        let (sandbox, id) = two(with_id);
        copy_threads(&sandbox);
        all_refused(&sandbox, &id, &[]);
        let all = [
            &format!("thread resume {id} -m 'Go on.'"),
            &format!("thread handoff {id}"),
            &format!("thread cancel {id}"),
            &format!("graph resume {id}"),
        ];
        for arguments in all {
            refused(&sandbox, arguments).warns("is foreign");
        }
        // Neither the rest of a crash in it nor its result counts for this project.
        let transcript = sandbox.path(format!("p/{THREADS}/{id}/transcript.jsonl"));
        let torn = read(&transcript) + "{\"timest";
        while_it_holds(&transcript, torn, || {
            for verb in ["recover", "kill"] {
                refused(&sandbox, &format!("thread {verb} {id}")).warns("is foreign");
            }
        });
        sandbox
            .sh(format!("thread wait {id} --project p --json"))
            .prints("is foreign")
            .omits("out.txt\"");
        // The thread, and its child that was copied with it.
        assert_eq!(strays(&sandbox, "p").len(), 2);
        let list = sandbox.ok("thread list --project p");
        assert_eq!(list.stdout.matches("  foreign\n").count(), 2);
        let told = sandbox.exits(1, "thread inspect --project p").stdout;
        assert_eq!(told.matches(": foreign ").count(), 2, "{told}");
        // A record verifies wherever it is.
        sandbox.ok(format!("verify {transcript:?}"));
        assert_eq!(strays(&sandbox, "q"), Vec::<String>::new());
        resume(&sandbox, "q", &id).exits(0);
    }
}

// T-PRO-01
#[test]
fn a_copied_folder_without_its_row_is_not_recovered() {
    let (sandbox, id) = two(true);
    let folder = format!("{THREADS}/{id}");
    copy(&sandbox, &format!("q/{folder}"), &format!("p/{folder}"));
    let transcript = sandbox.path("p").join(&folder).join("transcript.jsonl");
    let sealed = read(&transcript);
    fs::write(&transcript, format!("{sealed}{{\"timest")).unwrap();
    all_refused(&sandbox, &id, &[]);
    refused(&sandbox, &format!("thread recover {id}")).warns("is foreign");
}

// T-PRO-01
#[test]
fn the_child_of_a_copied_parent_is_as_foreign_as_that() {
    let (sandbox, _) = two(true);
    let child = {
        let folder = sandbox.path("q").join(THREADS).join("demo");
        let names = fs::read_dir(folder).unwrap();
        let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let name = names.find(|name| name.starts_with("child")).unwrap();
        format!("demo/{name}")
    };
    copy_threads(&sandbox);
    refused(&sandbox, &format!("thread resume {child} -m 'Go on.'")).warns("is foreign");
    resume(&sandbox, "q", &child).exits(0);
}

// T-PRO-01
#[test]
fn a_graph_run_is_not_resumed_in_another_project() {
    let (sandbox, _) = two(true);
    let graph = "tool_type: graph\npermissions: [rye.execute.tool.demo.count]\nconfig:\n  start: a\n  nodes:\n    \
                 a: {action: {primary: execute, item_type: tool, item_id: demo/count, params: {file: no}}}\n";
    for folder in ["p", "q"] {
        let path = sandbox.write(format!("{folder}/.ai/graphs/demo/g.yaml"), graph);
        sandbox.ok(format!("seal {path:?}"));
    }
    let ran = sandbox
        .exits(2, "graph run demo/g --project q --script more.yaml --json")
        .json();
    let id = ran["thread_id"].text().to_owned();
    copy_threads(&sandbox);
    refused(&sandbox, &format!("graph resume {id}")).warns("is foreign");
    // In its own project it resumes, and fails as before.
    let line = format!("graph resume {id} --project q --script more.yaml --json");
    let again = sandbox.exits(2, line).json();
    assert_ne!(again["thread_id"], Value::Null, "{again}");
}

// T-PRO-05
#[test]
fn a_moved_project_and_the_copy_of_a_deleted_one_continue() {
    let (sandbox, id) = two(false);
    let work = sandbox.work();
    fs::create_dir(work.join("elsewhere")).unwrap();
    fs::rename(work.join("q"), work.join("elsewhere/moved")).unwrap();
    let second = resume(&sandbox, "elsewhere/moved", &id).exits(0).json();
    let second = second["thread_id"].text();
    copy(&sandbox, "elsewhere/moved", "copy");
    fs::remove_dir_all(work.join("elsewhere")).unwrap();
    let third = resume(&sandbox, "copy", second).exits(0).json();
    let third = third["thread_id"].text();
    let own = project_of(&sandbox, "copy", &id);
    for id in [second, third] {
        assert_eq!(project_of(&sandbox, "copy", id), own);
    }
    assert_eq!(strays(&sandbox, "copy"), Vec::<String>::new());
    sandbox.ok("thread inspect --project copy");
    sandbox.ok("verify copy");
}

// T-PRO-05
#[test]
fn a_clone_on_another_machine_is_the_same_project() {
    let (sandbox, id) = two(false);
    copy(&sandbox, "q", "clone");
    fs::remove_dir_all(sandbox.path("q")).unwrap();
    // The same keys and trust, without any knowledge of this host.
    sandbox.forget();
    copy(&sandbox, "clone", "bare");
    resume(&sandbox, "clone", &id).exits(0);
    // Copies often lack the databases: the records show which threads may resume, and none is
    // foreign.
    for name in ["registry.db", "budget_ledger.db"] {
        fs::remove_file(sandbox.path("bare").join(THREADS).join(name)).unwrap();
    }
    sandbox.forget();
    let recover = format!("thread recover {id} --project bare");
    resume(&sandbox, "bare", &id).exits(2);
    sandbox.ok(recover);
    resume(&sandbox, "bare", &id).exits(0);
    let fresh = run_in(&sandbox, "bare");
    assert_eq!(
        project_of(&sandbox, "bare", &fresh),
        project_of(&sandbox, "bare", &id)
    );
}

// T-PRO-05
#[test]
fn of_two_copies_of_a_project_the_outdated_one_is_reported() {
    let (sandbox, id) = two(false);
    copy(&sandbox, "q", "twin");
    resume(&sandbox, "twin", &id).exits(0);
    let before = everything(&sandbox);
    let said = resume(&sandbox, "q", &id).exits(2).stdout;
    let told = said.contains("rolled_back") && said.contains("sealed it last in");
    assert!(told && said.contains("/twin/.ai/"), "{said}");
    assert_eq!(everything(&sandbox), before);
    resume(&sandbox, "twin", &id).exits(0);
}

// T-PRO-05
#[test]
fn threads_of_another_project_resume_here_once_a_user_accepts_them() {
    let (sandbox, id) = two(true);
    copy_threads(&sandbox);
    let theirs = project_of(&sandbox, "q", &id);
    let accept = |id: &str| sandbox.sh(format!("init --project p --accept {id}"));
    accept("demo").fails_with("64 hex digits");
    resume(&sandbox, "p", &id).exits(2);
    accept(&theirs).exits(0).prints("ready");
    accept(&theirs).exits(0).prints("nothing to do");
    let next = resume(&sandbox, "p", &id).exits(0).json();
    let next = next["thread_id"].text();
    assert_ne!(project_of(&sandbox, "p", next), theirs);
    assert_eq!(strays(&sandbox, "p"), Vec::<String>::new());
    sandbox.ok("verify p");
    // A project that lost its file is another project, until a user declares it the same.
    let (sandbox, id) = two(false);
    fs::remove_file(sandbox.path("q").join(IDENTITY)).unwrap();
    resume(&sandbox, "q", &id)
        .exits(2)
        .prints("is foreign")
        .prints("--accept");
    let theirs = project_of(&sandbox, "q", &id);
    sandbox.ok(format!("init --project q --accept {theirs}"));
    resume(&sandbox, "q", &id).exits(0);
}

// T-PRO-02
#[test]
fn the_identity_file_of_a_project_must_verify() {
    let (sandbox, strange) = two(true);
    let own = thread_id(&thread(&sandbox, "greet"));
    let (p, q) = (sandbox.path("p"), sandbox.path("q"));
    let whole = read(p.join(IDENTITY));
    let id = project_of(&sandbox, "p", &own);
    let other = project_of(&sandbox, "q", &strange);
    let told = |words: &[&str]| {
        let resumed = format!("thread resume {own} -m 'Once more.'");
        for arguments in [&resumed, "run demo/greet -i name=Ada"] {
            let said = refused(&sandbox, arguments).stderr;
            assert!(
                words.iter().any(|word| said.contains(word)),
                "{words:?}: {said}"
            );
        }
        sandbox
            .exits(1, "thread inspect --project p")
            .prints("project_refused");
    };
    let put = |text: &str| fs::write(p.join(IDENTITY), text).unwrap();
    put(&read(q.join(IDENTITY)));
    told(&["is the place of record"]);
    put(&whole.replace(&id, &other));
    told(&["tampered", "forged"]);
    put(&whole.replace("\"also\": []", &format!("\"also\": [\"{other}\"]")));
    told(&["tampered", "forged"]);
    put(&format!("{{\"project\": \"{other}\", \"also\": []}}\n"));
    told(&["is the place of record", "unsigned"]);
    put("");
    told(&["is the place of record", "malformed", "unsigned"]);
    fs::remove_file(p.join(IDENTITY)).unwrap();
    for (outside, word) in [(true, "leads out"), (false, "symbolic link")] {
        let to = match outside {
            true => q.join(IDENTITY),
            false => p.join("whole.json"),
        };
        fs::write(p.join("whole.json"), &whole).unwrap();
        symlink(to, p.join(IDENTITY)).unwrap();
        told(&[word]);
        fs::remove_file(p.join(IDENTITY)).unwrap();
    }
    // An older file neither revokes an acceptance nor restores one.
    put(&whole);
    sandbox.ok(format!("init --project p --accept {other}"));
    let newer = read(p.join(IDENTITY));
    put(&whole);
    told(&["rolled_back"]);
    put(&newer);
    resume(&sandbox, "p", &own).exits(0);
    // If the file cannot be restored, the user deletes it and declares whose threads continue.
    put(&read(q.join(IDENTITY)));
    told(&["--accept"]);
    fs::remove_file(p.join(IDENTITY)).unwrap();
    sandbox.ok(format!("init --project p --accept {id}"));
    run_in(&sandbox, "p");
    resume(&sandbox, "p", &own).exits(0);
}

// T-PRO-05
#[test]
fn first_threads_that_begin_at_once_agree_on_the_project() {
    let sandbox = project();
    sandbox.write("more.yaml", "answers: [{text: Gladly.}]");
    let line = "run demo/child --project p -i name=Ada --script more.yaml";
    let running: Vec<_> = (0..6).map(|_| sandbox.spawn(line)).collect();
    for mut one in running {
        assert!(one.wait().unwrap().success());
    }
    let folder = sandbox.path("p").join(THREADS).join("demo");
    let threads = fs::read_dir(folder).unwrap();
    let named: Vec<Value> = threads
        .map(|entry| line_1(&entry.unwrap().path())["payload"]["meta"]["project"].clone())
        .collect();
    assert_eq!(named.len(), 6);
    assert!(
        named.iter().all(|id| id.is_string() && *id == named[0]),
        "{named:?}"
    );
    sandbox.ok("verify p");
}
