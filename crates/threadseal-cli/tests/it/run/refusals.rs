//! A refused command changes nothing: no name and no byte, neither of the project nor of the home.

use super::{directive, greet, project};
use crate::sandbox::{Ran, Sandbox, copy, walk};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

const PROJECT: [&str; 4] = ["--project", "p", "--script", "answers.yaml"];

/// Names and bytes of everything below the working folder and the home.
pub(super) fn everything(sandbox: &Sandbox) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = walk(&sandbox.work()).into_iter();
    let paths = paths.chain(walk(&sandbox.home()));
    paths
        .map(|path| (path.clone(), fs::read(path).unwrap_or_default()))
        .collect()
}

/// Runs a command that must be refused, and compares.
#[track_caller]
pub(super) fn refused(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let before = everything(sandbox);
    let ran = sandbox
        .run(arguments.iter().copied().chain(PROJECT))
        .exits(2);
    let after = everything(sandbox);
    let names = before.keys().chain(after.keys());
    let changed: Vec<_> = names
        .filter(|path| before.get(*path) != after.get(*path))
        .collect();
    assert!(changed.is_empty(), "{arguments:?} changed {changed:?}");
    ran
}

/// Every command that resumes or stops the thread `id` is refused.
#[track_caller]
pub(super) fn all_refused(sandbox: &Sandbox, id: &str, but: &[&str]) {
    let resume = ["thread", "resume", id, "-m", "Go on."];
    let all: [&[&str]; 9] = [
        &resume,
        &["thread", "handoff", id],
        &["thread", "adopt", id],
        &["thread", "adopt", id, "--directive", "demo/greet"],
        &["thread", "cancel", id],
        &["thread", "kill", id],
        &["thread", "recover", id],
        &["graph", "resume", id],
        &["graph", "cancel", id],
    ];
    for arguments in all {
        if !but.contains(&arguments[1]) {
            refused(sandbox, arguments);
        }
    }
}

// T-RUN-15
#[test]
fn a_project_in_which_nothing_ran_stays_without_a_registry() {
    let sandbox = project();
    all_refused(&sandbox, "demo/greet-1", &[]);
    refused(&sandbox, &["run", "demo/nothing"]);
    refused(&sandbox, &["run", "demo/greet"]);
    refused(
        &sandbox,
        &["run", "demo/greet", "-i", "name=Ada", "--limit", "turns=x"],
    );
    refused(&sandbox, &["graph", "run", "demo/nothing"]);
    // Reading makes no registry either.
    for arguments in [
        &["thread", "list"][..],
        &["thread", "inspect"],
        &["thread", "show", "demo/greet-1"],
        &["thread", "status", "demo/greet-1"],
        &["thread", "chain", "demo/greet-1"],
        &["thread", "wait", "demo/greet-1"],
    ] {
        let before = everything(&sandbox);
        sandbox.run(arguments.iter().copied().chain(["--project", "p"]));
        assert_eq!(everything(&sandbox), before, "{arguments:?}");
    }
}

// T-RUN-15
#[test]
fn what_is_refused_of_a_thread_that_ran_changes_nothing() {
    let sandbox = project();
    let ran = greet(&sandbox, &["--script", "answers.yaml", "--json"])
        .exits(0)
        .json();
    let id = ran["thread_id"].as_str().unwrap().to_owned();
    let folder = sandbox.work().join("p/.ai/agent/threads").join(&id);
    // The thread has ended, so it cannot be stopped. It is no graph run, and Rye did not make it.
    all_refused(&sandbox, &id, &["resume", "handoff"]);
    refused(&sandbox, &["graph", "resume", &id]);
    let resume = ["thread", "resume", &id, "-m", "Go on."];
    refused(&sandbox, &[&resume[..], &["--limit", "turns=x"]].concat());
    refused(
        &sandbox,
        &["thread", "resume", "demo/greet-1", "-m", "Go on."],
    );
    // A thread whose record does not verify cannot be resumed.
    for name in ["transcript.jsonl", "thread.json", "capabilities.md"] {
        let path = folder.join(name);
        let genuine = fs::read(&path).unwrap();
        let text = String::from_utf8(genuine.clone()).unwrap();
        fs::write(&path, text.replacen("demo", "dmoe", 3)).unwrap();
        assert_ne!(fs::read(&path).unwrap(), genuine, "{name}");
        for arguments in [&resume[..], &["thread", "handoff", &id]] {
            refused(&sandbox, arguments);
        }
        fs::write(&path, &genuine).unwrap();
    }
    // Lines after the last seal, and a cut before it.
    let path = folder.join("transcript.jsonl");
    let genuine = fs::read(&path).unwrap();
    for bytes in [
        [&genuine[..], b"{}\n"].concat(),
        genuine[..genuine.len() - 9].to_vec(),
    ] {
        fs::write(&path, bytes).unwrap();
        refused(&sandbox, &resume);
        refused(&sandbox, &["thread", "handoff", &id]);
        refused(&sandbox, &["thread", "cancel", &id]);
    }
    fs::write(&path, &genuine).unwrap();
    // The directive has changed and has no valid seal.
    let own = sandbox.work().join("p/.ai/directives/demo/greet.md");
    let sealed = fs::read(&own).unwrap();
    fs::write(&own, directive("greet", "", "")).unwrap();
    refused(&sandbox, &resume);
    refused(&sandbox, &["thread", "handoff", &id]);
    // A host that knows nothing of the record does not store its head either.
    let (home, elsewhere) = (sandbox.home(), sandbox.home().with_file_name("elsewhere"));
    copy(&home, &elsewhere.join("home"));
    let marks = home.with_file_name("home.marks");
    fs::rename(&marks, elsewhere.join("marks")).unwrap();
    sandbox.forget();
    refused(&sandbox, &resume);
    refused(&sandbox, &["thread", "handoff", &id]);
    fs::remove_dir_all(&home).unwrap();
    fs::rename(elsewhere.join("home"), &home).unwrap();
    fs::rename(elsewhere.join("marks"), &marks).unwrap();
    fs::write(&own, sealed).unwrap();
    // The thread was resumable all along.
    sandbox.write("answers.yaml", "answers: [{text: Gladly.}]");
    sandbox.run(resume.into_iter().chain(PROJECT)).exits(0);
    refused(&sandbox, &["thread", "cancel", &id]);
}

// T-RUN-15
#[test]
fn what_is_refused_of_a_run_of_a_graph_changes_nothing() {
    let sandbox = project();
    let graph = "tool_type: graph\npermissions: [rye.execute.tool.demo.count]\nconfig:\n  start: count\n  nodes:\n    count:\n      \
                 action: {primary: execute, item_type: tool, item_id: demo/count, params: {file: there.txt}}\n      next: done\n    \
                 done: {type: return}\n";
    let graph = sandbox.write("p/.ai/graphs/demo/count.yaml", graph);
    sandbox.run(["seal", graph.to_str().unwrap()]).exits(0);
    let run = ["graph", "run", "demo/count", "--json"];
    let ran = sandbox.run(run.into_iter().chain(PROJECT)).exits(2).json();
    assert_eq!(ran["status"], "error");
    let id = ran["thread_id"].as_str().unwrap().to_owned();
    let threads = sandbox.work().join("p/.ai/agent/threads");
    let state = format!("p/.ai/knowledge/graphs/demo/count/{id}.md");
    let resume = ["graph", "resume", &id];
    for path in [
        threads.join(&id).join("transcript.jsonl"),
        threads.join(&id).join("thread.json"),
        threads.join(&id).join("capabilities.md"),
        sandbox.work().join(state),
        graph,
    ] {
        let genuine = fs::read(&path).unwrap();
        let text = String::from_utf8(genuine.clone()).unwrap();
        fs::write(&path, text.replacen("count", "conut", 3)).unwrap();
        assert_ne!(fs::read(&path).unwrap(), genuine, "{path:?}");
        refused(&sandbox, &resume);
        fs::write(&path, &genuine).unwrap();
        // The same through a link.
        let away = sandbox.work().join("away");
        fs::rename(&path, &away).unwrap();
        std::os::unix::fs::symlink(&away, &path).unwrap();
        refused(&sandbox, &resume);
        fs::remove_file(&path).unwrap();
        fs::rename(&away, &path).unwrap();
    }
    all_refused(&sandbox, &id, &["resume", "handoff"]);
    sandbox.write("p/there.txt", "there");
    sandbox.run(resume.into_iter().chain(PROJECT)).exits(0);
    // It was already resumed, and its successor is complete.
    refused(&sandbox, &resume);
    let list = sandbox
        .run(["thread", "list", "--project", "p", "--json"])
        .exits(0)
        .json();
    let complete = list["threads"].as_array().unwrap().iter();
    let complete = complete.map(|row| row["thread_id"].as_str().unwrap());
    for complete in complete.filter(|complete| *complete != id) {
        refused(&sandbox, &["graph", "resume", complete]);
    }
}

#[test]
fn the_declared_type_says_what_an_input_is_and_not_how_it_reads() {
    let sandbox = project();
    sandbox.write("answers.yaml", "answers: [{text: Done.}]");
    for (given, meant) in [
        ("3", "3"),
        ("[1]", "[1]"),
        ("true", "true"),
        ("\"q\"", "\"q\""),
    ] {
        let input = format!("name={given}");
        let ran = ["run", "demo/greet", "-i", &input, "--json"];
        let ran = sandbox.run(ran.into_iter().chain(PROJECT)).exits(0).json();
        let folder = sandbox.work().join("p/.ai/agent/threads");
        let folder = folder.join(ran["thread_id"].as_str().unwrap());
        let text = fs::read_to_string(folder.join("transcript.jsonl")).unwrap();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(first["payload"]["meta"]["inputs"]["name"], meant);
    }
    // An input that is declared as a number must be one; an undeclared input is read as before.
    let graph = "tool_type: graph\npermissions: [rye.execute.tool.x]\nconfig:\n  start: done\n  nodes:\n    done:\n      type: return\n      \
                 output: {a: \"${inputs.a}\", n: \"${inputs.n}\", u: \"${inputs.u}\"}\n\
                 config_schema:\n  type: object\n  properties: {a: {type: string}, n: {type: integer}}\n";
    let graph = sandbox.write("p/.ai/graphs/demo/inputs.yaml", graph);
    sandbox.run(["seal", graph.to_str().unwrap()]).exits(0);
    let run = [
        "graph",
        "run",
        "demo/inputs",
        "--json",
        "-i",
        "a=3",
        "-i",
        "u=3",
    ];
    let number = [&run[..], &["-i", "n=4"]].concat();
    let ran = sandbox
        .run(number.into_iter().chain(PROJECT))
        .exits(0)
        .json();
    let outputs = &ran["outputs"];
    assert_eq!(
        (&outputs["a"], &outputs["n"], &outputs["u"]),
        (&"3".into(), &4.into(), &3.into())
    );
    refused(&sandbox, &[&run[..], &["-i", "n=x"]].concat());
}

#[test]
fn a_script_that_has_no_further_answer_ends_the_thread_at_once_and_says_so() {
    let sandbox = project();
    sandbox.write("answers.yaml", "answers: []");
    let ran = greet(&sandbox, &["--script", "answers.yaml", "--json"])
        .exits(2)
        .json();
    let error = ran["error"].as_str().unwrap();
    assert_eq!(error, "no_answer: the script has no answer 1");
    let folder = sandbox.work().join("p/.ai/agent/threads");
    let transcript = folder
        .join(ran["thread_id"].as_str().unwrap())
        .join("transcript.jsonl");
    let text = fs::read_to_string(transcript).unwrap();
    // There is only one request: no wait for a lost connection.
    assert_eq!(text.matches("error_classified").count(), 1);
}

// T-REG-07
#[test]
fn nobody_waits_for_a_registry_that_was_about_to_be_made() {
    let sandbox = project();
    let folder = sandbox.work().join("p/.ai/agent/threads");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("registry.db"), b"").unwrap();
    fs::write(folder.join("budget_ledger.db"), b"").unwrap();
    let shown = sandbox
        .run(["thread", "list", "--project", "p", "--json"])
        .exits(0)
        .json();
    assert_eq!(shown["threads"], serde_json::json!([]));
    for command in ["show", "status", "chain", "wait"] {
        let ran = sandbox.run(["thread", command, "demo/greet-1", "--project", "p"]);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            ran.code == 2 && said.contains("is registered here"),
            "{command}: {said}"
        );
    }
    sandbox
        .run(["thread", "inspect", "--project", "p"])
        .exits(0);
    all_refused(&sandbox, "demo/greet-1", &[]);
    // The next run completes it.
    greet(&sandbox, &["--script", "answers.yaml"]).exits(0);
}
