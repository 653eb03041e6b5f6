//! The project that `init` makes, and `seal --project`.

use crate::prelude::*;

/// The commands for a run of the tour, with these variables.
fn tour(sandbox: &Sandbox, more: &str, key: Option<&str>) -> Ran {
    let mut command = sandbox.command();
    command.args(words(&format!("run tour/report --project p {more}")));
    if let Some(name) = key {
        command.env(name, "not-a-real-key");
    }
    command.env("PATH", "/usr/bin:/bin");
    Ran::of(command.output().unwrap())
}

/// A member of each element, as text.
fn each(list: &Value, name: &str) -> Vec<String> {
    let list = list.list().iter();
    list.map(|element| element[name].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn a_new_project_runs_without_a_key_and_all_of_it_verifies() {
    let sandbox = Sandbox::new();
    let made = sandbox.json("init --project p");
    assert_eq!(made["files"].list().len(), 8, "{made}");
    let ran = tour(&sandbox, "--json", None).exits(0).json();
    ran.is(json!({"status": "completed", "outputs/words": 12, "outputs/report": "tour/report.md"}));
    sandbox
        .read("p/tour/report.md")
        .has("12 words")
        .has("A script");
    sandbox
        .ok("graph run tour/measure --project p")
        .prints("verdict: No, twelve words are a sentence.");
    sandbox.ok("verify p").prints("verified");
    // Again it changes nothing, and writes no file over one of its user.
    let again = sandbox.json("init --project p");
    again.is(json!({"changed": false, "files": []}));
}

#[test]
fn one_variable_lets_a_model_answer() {
    let sandbox = Sandbox::new();
    sandbox.ok("init --project p");
    for (key, model) in [
        ("ANTHROPIC_API_KEY", "claude-haiku-4-5"),
        ("OPENAI_API_KEY", "gpt-5-mini"),
        ("GEMINI_API_KEY", "gemini-2.5-flash"),
    ] {
        // Nothing listens there: the thread ends, and its first line names the model.
        let more = "--base-url http://127.0.0.1:9/ --limit duration_seconds=1";
        tour(&sandbox, more, Some(key)).exits(3);
        let threads = sandbox.json("thread list --project p");
        let models = each(&threads["threads"], "model");
        assert!(models.iter().any(|name| name == model), "{threads}");
    }
}

#[test]
fn a_project_with_items_of_its_own_gets_no_tour() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "p/.ai/tools/mine.yaml",
        "tool_type: command\ncommand: [ls]\n",
    );
    let made = sandbox.json("init --project p");
    made.is(json!({"files": []}));
    let made = sandbox.json("init --project q --empty");
    made.is(json!({"files": []}));
    assert!(sandbox.path("q/.ai/directives").is_dir());
    assert!(!sandbox.path("p/tour").exists());
    sandbox.exits(2, "init --empty");
}

// T-DEC-21
#[test]
fn items_are_sealed_at_once_and_changed_ones_are_left() {
    let sandbox = project();
    let (mine, script) = ("p/.ai/directives/demo/mine.md", "p/.ai/tools/demo/say.sh");
    sandbox.write(mine, "# Mine\n");
    sandbox.write(script, "echo hello\n");
    let changed = sandbox.path("p/.ai/tools/demo/count.yaml");
    let own = read(&changed);
    fs::write(&changed, own.replace("wc", "rm")).unwrap();
    let ran = sandbox.sh("seal --project p --json");
    let sealed = ran.exits(1).json();
    let ends = |path: &str, end: &str| path.ends_with(end.trim_start_matches("p/"));
    let paths = each(&sealed["results"], "path");
    assert_eq!(paths.len(), 2, "{sealed}");
    assert!(ends(&paths[0], mine) && ends(&paths[1], script), "{sealed}");
    let left = each(&sealed["errors"], "path");
    assert!(
        left.len() == 1 && ends(&left[0], "demo/count.yaml"),
        "{sealed}"
    );
    assert!(read(&changed).contains("rm"));
    greet(&sandbox, "").fails_with("tampered");
    sandbox.ok(format!("seal {changed:?}"));
    sandbox
        .ok("seal --project p")
        .prints("all items are sealed");
    // From a folder below, as the other commands find their project.
    fs::create_dir_all(sandbox.path("p/src")).unwrap();
    sandbox.write("p/.ai/knowledge/demo/fact.md", "A fact.\n");
    let mut command = sandbox.command();
    command
        .current_dir(sandbox.path("p/src"))
        .args(["seal", "--project"]);
    let ran = Ran::of(command.output().unwrap()).exits(0);
    ran.prints("fact.md");
    sandbox.exits(2, format!("seal --project p {changed:?}"));
}

#[test]
fn the_refusal_of_an_unsigned_item_names_the_others() {
    let sandbox = project();
    for name in ["a", "b", "c"] {
        sandbox.write(format!("p/.ai/directives/demo/{name}.md"), "# Mine\n");
    }
    let refused = sandbox.sh("run demo/b --project p --script answers.yaml");
    let refused = refused.fails_with("directives/demo/a.md, directives/demo/c.md");
    refused.stderr.has("seal --project").lacks("greet.md");
}

#[test]
fn options_of_models_are_no_options_of_commands_that_ask_none() {
    let sandbox = project();
    let thread = greeted(&sandbox, "");
    for command in [
        "thread cancel",
        "thread kill",
        "thread recover",
        "graph cancel",
        "graph show",
    ] {
        for option in [
            "--model x",
            "--script answers.yaml",
            "--limit turns=1",
            "--bodies inline",
        ] {
            let ran = sandbox.sh(format!("{command} {thread} --project p {option}"));
            ran.exits(2).warns("unexpected argument");
        }
    }
    let expires = "run demo/greet --project p -i name=Ada --expires 5";
    sandbox.sh(expires).exits(2).warns("--database");
}

#[test]
fn a_graph_that_completed_with_errors_has_done_its_work() {
    let sandbox = project();
    let graph = sandbox.write(
        "p/.ai/graphs/demo/half.yaml",
        "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: one\n  on_error: continue\n  nodes:\n\
         \x20   one: {action: {primary: execute, item_type: tool, item_id: demo/count, params: {file: none.txt}}, next: end}\n\
         \x20   end: {type: return}\n",
    );
    seal_all(&sandbox, &[graph]);
    let ran = sandbox.json("graph run demo/half --project p");
    ran.is(json!({"status": "completed_with_errors"}));
}
