//! A refused command changes nothing: no name and no byte, neither of the project nor of the home.

use crate::prelude::*;

const PROJECT: &str = "--project p --script answers.yaml";

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
pub(super) fn refused(sandbox: &Sandbox, arguments: &str) -> Ran {
    let before = everything(sandbox);
    // Those that ask no model take no script.
    let asks = !["cancel", "kill", "recover"]
        .iter()
        .any(|verb| arguments.starts_with(&format!("thread {verb} ")));
    let place = if asks { PROJECT } else { "--project p" };
    let ran = sandbox.sh(format!("{arguments} {place}")).fails();
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
    let all = [
        &format!("thread resume {id} -m 'Go on.'"),
        &format!("thread handoff {id}"),
        &format!("thread adopt {id}"),
        &format!("thread adopt {id} --directive demo/greet"),
        &format!("thread cancel {id}"),
        &format!("thread kill {id}"),
        &format!("thread recover {id}"),
        &format!("graph resume {id}"),
        &format!("graph cancel {id}"),
    ];
    for arguments in all {
        let verb = arguments.split(' ').nth(1).unwrap();
        if !but.contains(&verb) {
            refused(sandbox, arguments);
        }
    }
}

// T-RUN-15
#[test]
fn a_project_in_which_nothing_ran_stays_without_a_registry() {
    let sandbox = project();
    all_refused(&sandbox, "demo/greet-1", &[]);
    refused(&sandbox, "run demo/nothing");
    refused(&sandbox, "run demo/greet");
    refused(&sandbox, "run demo/greet -i name=Ada --limit turns=x");
    refused(&sandbox, "graph run demo/nothing");
    // Reading makes no registry either.
    for arguments in [
        "thread list",
        "thread inspect",
        "thread show demo/greet-1",
        "thread status demo/greet-1",
        "thread chain demo/greet-1",
        "thread wait demo/greet-1",
    ] {
        let before = everything(&sandbox);
        sandbox.sh(format!("{arguments} --project p"));
        assert_eq!(everything(&sandbox), before, "{arguments:?}");
    }
}

// T-RUN-15
#[test]
fn what_is_refused_of_a_thread_that_ran_changes_nothing() {
    let sandbox = project();
    let id = greeted(&sandbox, "");
    let folder = sandbox.path("p/.ai/agent/threads").join(&id);
    // The thread has ended, so it cannot be stopped. It is no graph run, and Rye did not make it.
    all_refused(&sandbox, &id, &["resume", "handoff"]);
    refused(&sandbox, &format!("graph resume {id}"));
    let resume = &format!("thread resume {id} -m 'Go on.'");
    refused(&sandbox, &format!("{resume} --limit turns=x"));
    refused(&sandbox, "thread resume demo/greet-1 -m 'Go on.'");
    // A thread whose record does not verify cannot be resumed.
    for name in ["transcript.jsonl", "thread.json", "capabilities.md"] {
        let path = folder.join(name);
        while_it_holds(&path, read(&path).replacen("demo", "dmoe", 3), || {
            for line in [resume, &format!("thread handoff {id}")] {
                refused(&sandbox, line);
            }
        });
    }
    // Lines after the last seal, and a cut before it.
    let path = folder.join("transcript.jsonl");
    let genuine = fs::read(&path).unwrap();
    for bytes in [
        [&genuine[..], b"{}\n"].concat(),
        genuine[..genuine.len() - 9].to_vec(),
    ] {
        while_it_holds(&path, bytes, || {
            refused(&sandbox, resume);
            refused(&sandbox, &format!("thread handoff {id}"));
            refused(&sandbox, &format!("thread cancel {id}"));
        });
    }
    // The directive has changed and has no valid seal.
    let own = sandbox.path("p/.ai/directives/demo/greet.md");
    let sealed = fs::read(&own).unwrap();
    fs::write(&own, directive("greet", "", "")).unwrap();
    refused(&sandbox, resume);
    refused(&sandbox, &format!("thread handoff {id}"));
    // A host that knows nothing of the record does not store its head either.
    let (home, elsewhere) = (sandbox.home(), sandbox.home().with_file_name("elsewhere"));
    copy(&home, &elsewhere.join("home"));
    let marks = home.with_file_name("home.marks");
    fs::rename(&marks, elsewhere.join("marks")).unwrap();
    sandbox.forget();
    refused(&sandbox, resume);
    refused(&sandbox, &format!("thread handoff {id}"));
    fs::remove_dir_all(&home).unwrap();
    fs::rename(elsewhere.join("home"), &home).unwrap();
    fs::rename(elsewhere.join("marks"), &marks).unwrap();
    fs::write(&own, sealed).unwrap();
    // The thread was resumable all along.
    sandbox.write("answers.yaml", "answers: [{text: Gladly.}]");
    sandbox.ok(format!("{resume} {PROJECT}"));
    refused(&sandbox, &format!("thread cancel {id}"));
}

// T-RUN-15
#[test]
fn what_is_refused_of_a_run_of_a_graph_changes_nothing() {
    let sandbox = project();
    let graph = "tool_type: graph\npermissions: [rye.execute.tool.demo.count]\nconfig:\n  start: count\n  nodes:\n    count:\n      \
                 action: {primary: execute, item_type: tool, item_id: demo/count, params: {file: there.txt}}\n      next: done\n    \
                 done: {type: return}\n";
    let graph = sandbox.write("p/.ai/graphs/demo/count.yaml", graph);
    sandbox.ok(format!("seal {graph:?}"));
    let line = format!("graph run demo/count --json {PROJECT}");
    let ran = sandbox.exits(2, line).json();
    assert_eq!(ran["status"], "error");
    let id = ran["thread_id"].text().to_owned();
    let threads = sandbox.path("p/.ai/agent/threads");
    let state = format!("p/.ai/knowledge/graphs/demo/count/{id}.md");
    let resume = &format!("graph resume {id}");
    for path in [
        threads.join(&id).join("transcript.jsonl"),
        threads.join(&id).join("thread.json"),
        threads.join(&id).join("capabilities.md"),
        sandbox.path(state),
        graph,
    ] {
        let genuine = fs::read(&path).unwrap();
        let text = String::from_utf8(genuine.clone()).unwrap();
        fs::write(&path, text.replacen("count", "conut", 3)).unwrap();
        assert_ne!(fs::read(&path).unwrap(), genuine, "{path:?}");
        refused(&sandbox, resume);
        fs::write(&path, &genuine).unwrap();
        // The same through a link.
        let away = sandbox.path("away");
        fs::rename(&path, &away).unwrap();
        symlink(&away, &path).unwrap();
        refused(&sandbox, resume);
        fs::remove_file(&path).unwrap();
        fs::rename(&away, &path).unwrap();
    }
    all_refused(&sandbox, &id, &["resume", "handoff"]);
    sandbox.write("p/there.txt", "there");
    sandbox.ok(format!("{resume} {PROJECT}"));
    // It was already resumed, and its successor is complete.
    refused(&sandbox, resume);
    let list = sandbox.json("thread list --project p");
    let complete = list["threads"].list().iter();
    let complete = complete.map(|row| row["thread_id"].text());
    for complete in complete.filter(|complete| *complete != id) {
        refused(&sandbox, &format!("graph resume {complete:?}"));
    }
}

#[test]
fn the_declared_type_decides_how_an_input_is_parsed() {
    let sandbox = project();
    sandbox.write("answers.yaml", "answers: [{text: Done.}]");
    for (given, meant) in [
        ("3", "3"),
        ("[1]", "[1]"),
        ("true", "true"),
        ("\"q\"", "\"q\""),
    ] {
        let input = format!("name={given}");
        let ran = sandbox.json(format!("run demo/greet -i {input:?} {PROJECT}"));
        let folder = sandbox.path("p/.ai/agent/threads");
        let folder = folder.join(ran["thread_id"].text());
        let first = json_lines(folder.join("transcript.jsonl")).remove(0);
        assert_eq!(first["payload"]["meta"]["inputs"]["name"], meant);
    }
    // An input that is declared as a number must be one; an undeclared input is read as before.
    let graph = "tool_type: graph\npermissions: [rye.execute.tool.x]\nconfig:\n  start: done\n  nodes:\n    done:\n      type: return\n      \
                 output: {a: \"${inputs.a}\", n: \"${inputs.n}\", u: \"${inputs.u}\"}\n\
                 config_schema:\n  type: object\n  properties: {a: {type: string}, n: {type: integer}}\n";
    let graph = sandbox.write("p/.ai/graphs/demo/inputs.yaml", graph);
    sandbox.ok(format!("seal {graph:?}"));
    let run = "graph run demo/inputs --json -i a=3 -i u=3";
    let ran = sandbox.ok(format!("{run} -i n=4 {PROJECT}")).json();
    let outputs = &ran["outputs"];
    outputs.is(json!({"a": "3", "n": 4, "u": 3}));
    refused(&sandbox, &format!("{run} -i n=x"));
}

#[test]
fn a_script_without_a_further_answer_ends_the_thread_with_an_error() {
    let sandbox = project();
    sandbox.write("answers.yaml", "answers: []");
    let ran = greet(&sandbox, "--json").exits(2).json();
    let error = ran["error"].text();
    assert_eq!(error, "no_answer: the script has no answer 1");
    let folder = sandbox.path("p/.ai/agent/threads");
    let transcript = folder
        .join(ran["thread_id"].text())
        .join("transcript.jsonl");
    let text = read(transcript);
    // There is only one request: no wait for a lost connection.
    assert_eq!(text.matches("error_classified").count(), 1);
}

// T-REG-07
#[test]
fn no_command_waits_for_an_unfinished_registry() {
    let sandbox = project();
    let folder = sandbox.path("p/.ai/agent/threads");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("registry.db"), b"").unwrap();
    fs::write(folder.join("budget_ledger.db"), b"").unwrap();
    let shown = sandbox.json("thread list --project p");
    assert_eq!(shown["threads"], json!([]));
    for command in ["show", "status", "chain", "wait"] {
        let ran = sandbox.sh(format!("thread {command} demo/greet-1 --project p"));
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            ran.code == 2 && said.contains("is registered here"),
            "{command}: {said}"
        );
    }
    sandbox.ok("thread inspect --project p");
    all_refused(&sandbox, "demo/greet-1", &[]);
    // The next run completes it.
    greeted(&sandbox, "");
}

// T-PRO-06
#[test]
fn a_project_of_another_user_runs_only_if_the_home_trusts_it() {
    let sandbox = project();
    let give = |user: u32| {
        let paths = [sandbox.path("p"), sandbox.path("p/.ai")];
        paths
            .iter()
            .try_for_each(|path| std::os::unix::fs::chown(path, Some(user), None))
    };
    if give(12345).is_err() {
        println!("skipped: no user but root gives files away");
        return;
    }
    greet(&sandbox, "")
        .fails_with("belongs to user 12345, not to you")
        .fails_with("trust project");
    sandbox
        .sh("thread list --project p")
        .fails_with("belongs to user 12345");
    let mut command = sandbox.command();
    command.env("THREADSEAL_CONTAINER", "1");
    let line = "run demo/greet --project p -i name=Ada --script answers.yaml";
    Ran::of(command.args(words(line)).output().unwrap()).exits(0);
    sandbox.ok("trust project p");
    sandbox.ok("trust list").prints("user 12345");
    greet(&sandbox, "").exits(0);
    // Another owner of the same folder is not the one that was trusted.
    give(12346).unwrap();
    greet(&sandbox, "").fails_with("belongs to user 12346");
    give(12345).unwrap();
    sandbox.ok("trust project p --remove");
    greet(&sandbox, "").fails_with("belongs to user 12345");
    sandbox
        .sh("trust project p --remove")
        .fails_with("is not trusted");
    give(0).unwrap();
    greet(&sandbox, "").exits(0);
}

// T-DEC-07
#[test]
fn a_deleted_setting_refuses_all_commands_until_it_is_back_or_an_empty_file_is_sealed_there() {
    let sandbox = project();
    let path = "p/.ai/config/agent/resilience.yaml";
    sandbox.sealed(path, "limits: {defaults: {spawns: 1}}\n");
    let id = greeted(&sandbox, "");
    let setting = sandbox.path(path);
    let sealed = fs::read(&setting).unwrap();
    fs::remove_file(&setting).unwrap();
    let hint = "agent/resilience.yaml: missing: this host sealed this setting";
    for command in [
        "run demo/greet -i name=Ada",
        &format!("thread handoff {id}"),
    ] {
        refused(&sandbox, command).warns(hint);
        refused(&sandbox, &format!("{command} --allow-unsigned")).warns(hint);
    }
    refused(&sandbox, &format!("thread recover {id}")).warns(hint);
    sandbox.write(path, sealed);
    greeted(&sandbox, "");
    sandbox.sealed(path, "");
    greeted(&sandbox, "");
}
