//! `graph validate`, run on files.

use crate::prelude::*;

const GOOD: &str = "tool_type: graph\npermissions: [rye.execute.tool.x]\nconfig:\n  start: a\n  nodes:\n    a: {action: {primary: execute, item_type: tool, item_id: x}, next: b}\n    b: {type: return}\n";

#[test]
fn faults_are_told_with_their_lines_and_decide_the_exit() {
    let sandbox = Sandbox::new();
    let put = |name: &str, text: &str| sandbox.write(name, text);
    put("good.yaml", GOOD);
    put(
        "bad.yaml",
        &GOOD
            .replace("next: b", "next: c")
            .replace("item_id: x}", "item_id: y}"),
    );
    put("warn.yaml", &GOOD.replace(", next: b", ""));
    put("other.yaml", "a: [\n");
    let ran = sandbox.ok("graph validate good.yaml");
    assert_eq!(ran.stdout, "good.yaml: 2 nodes, 0 warnings\n");
    assert_eq!(
        sandbox.ok("graph validate warn.yaml -q").stdout,
        "warn.yaml:6: warning: node `a` has no `next`: the graph is complete after it, without output\n\
         warn.yaml:7: warning: node `b` is never reached\n"
    );
    assert_eq!(
        sandbox.exits(1, "graph validate good.yaml bad.yaml").stdout,
        "good.yaml: 2 nodes, 0 warnings\n\
         bad.yaml:6: node `a` leads to `c`, which is not a node\n\
         bad.yaml:6: `permissions` do not contain rye.execute.tool.y\n"
    );
    let output = sandbox
        .exits(1, "graph validate bad.yaml other.yaml warn.yaml --json")
        .json();
    output.is(json!({
        "schema": "threadseal.graph.validate/1", "graphs/0/nodes": Value::Null,
        "graphs/0/faults/0/line": 6, "graphs/1/faults/0/severity": "error", "errors": 3,
        "warnings": 2,
    }));
    sandbox.exits(2, "graph validate none.yaml");
    sandbox.exits(1, "graph validate none.yaml bad.yaml");
    sandbox.exits(2, "graph validate");
}

#[test]
fn real_graphs_have_no_errors() {
    let Some(folder) = shared("corpus/rye-real/graphs") else {
        println!("skipped: no real graphs beside the checkout");
        return;
    };
    let files = fs::read_dir(folder).unwrap();
    let files: Vec<String> = files
        .map(|entry| entry.unwrap().path().to_string_lossy().into_owned())
        .collect();
    let ran = Sandbox::new().ok(format!("graph validate {}", files.join(" ")));
    assert_eq!(ran.stdout.matches(" nodes, ").count(), files.len());
}

const PIPELINE: &str = "tool_type: graph\npermissions: [rye.execute.tool.demo.count, rye.execute.directive.demo.judge]\n\
    config_schema:\n  type: object\n  properties: {file: {type: string}}\n  required: [file]\n\
    config:\n  start: count\n  nodes:\n    \
    count: {action: {primary: execute, item_type: tool, item_id: demo/count, params: {file: \"${inputs.file}\"}}, assign: {words: \"${result.stdout}\"}, next: judge}\n    \
    judge: {action: {primary: execute, item_type: directive, item_id: demo/judge, params: {words: \"${state.words}\"}}, assign: {said: \"${result.result}\"}, next: done}\n    \
    done: {type: return, output: {said: \"${state.said}\"}}\n";
const COUNT: &str = "tool_type: command\ncommand: [/usr/bin/wc, -w, --, \"${inputs.file}\"]\nconfig_schema:\n  type: object\n  properties: {file: {type: string}}\n  required: [file]\n";
const JUDGE: &str = "# judge\n\n```xml\n<directive name=\"judge\" version=\"1.0.0\">\n<metadata><description>d</description><category>demo</category>\
    <model tier=\"fast\" /><limits turns=\"3\" /></metadata>\n<inputs><input name=\"words\" type=\"string\" required=\"true\">w</input></inputs>\n\
    </directive>\n```\n\nIs {input:words} long?\n";
const CALLER: &str = "# caller\n\n```xml\n<directive name=\"caller\" version=\"1.0.0\">\n<metadata><description>d</description><category>demo</category>\
    <model tier=\"fast\" /><permissions><execute><tool>demo.*</tool><directive>demo.*</directive></execute></permissions></metadata>\n</directive>\n```\n\nRun it.\n";

/// A project with a graph, the items that it uses, and a directive that calls it.
fn project() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("init -q");
    let files = [
        sandbox.write("p/.ai/graphs/demo/pipeline.yaml", PIPELINE),
        sandbox.write("p/.ai/tools/demo/count.yaml", COUNT),
        sandbox.write("p/.ai/directives/demo/judge.md", JUDGE),
        sandbox.write("p/.ai/directives/demo/caller.md", CALLER),
    ];
    sandbox
        .run(std::iter::once("seal").chain(files.iter().map(|path| path.to_str().unwrap())))
        .exits(0);
    sandbox.write("p/text.txt", "one two three\n");
    sandbox.write("answers.yaml", "answers:\n  - text: No.\n");
    sandbox
}

const RUN: &str = "graph run demo/pipeline --project p -i file=text.txt --script";

#[test]
fn a_graph_runs_shows_itself_and_all_that_it_leaves_verifies() {
    let sandbox = project();
    let ran = sandbox.json(format!("{RUN} answers.yaml"));
    ran.is(json!({"status": "completed", "outputs/said": "No."}));
    let id = ran["thread_id"].text().to_owned();
    let verified = sandbox.json("verify p");
    // Four items and project.json. Of the run and of the thread below it: transcript, ledger,
    // thread.json, capabilities.md and entry. Of the run also the state file.
    assert_eq!(verified["summary"]["verified"], 16, "{verified}");
    let shown = sandbox.json(format!("graph show {id} --project p"));
    shown.is(json!({"status": "completed", "step_count": 3, "nodes/1/node": "judge"}));
    sandbox
        .ok(format!("graph show {id} --project p"))
        .prints("completed, step 3 at done");
    let list = sandbox.json("thread list --project p");
    let rows = list["threads"].list();
    let row = rows
        .iter()
        .find(|row| row["thread_id"] == id.as_str())
        .unwrap();
    row.is(json!({"directive": "demo/pipeline", "status": "completed"}));
    sandbox.ok(format!("thread status {id} --project p"));
    let plain = sandbox.ok(format!("{RUN} answers.yaml"));
    assert_eq!(plain.stdout, "said: No.\n");
    plain.stderr.has("step 2, judge");
    // A complete run can be neither resumed nor cancelled.
    sandbox
        .sh(format!("graph resume {id} --project p"))
        .fails_with("complete");
    sandbox
        .sh(format!("graph cancel {id} --project p"))
        .fails_with("has ended");
}

#[test]
fn a_run_that_failed_is_resumed_and_one_that_was_changed_is_not() {
    let sandbox = project();
    sandbox.write("silent.yaml", "answers: []\n");
    let ran = sandbox.exits(2, format!("{RUN} silent.yaml --json")).json();
    let id = ran["thread_id"].text().to_owned();
    assert_eq!(ran["status"], "error", "{ran}");
    let state = sandbox.path(format!("p/.ai/knowledge/graphs/demo/pipeline/{id}.md"));
    let text = read(&state);
    fs::write(&state, text.replace("3 text.txt", "9 text.txt")).unwrap();
    let resume = format!("graph resume {id} --project p --script answers.yaml --json");
    sandbox.sh(&resume).fails_with("tampered");
    fs::write(&state, text).unwrap();
    let ran = sandbox.ok(&resume).json();
    assert_eq!(ran["outputs"]["said"], "No.");
    let status = sandbox.ok(format!("thread status {id} --itself --project p"));
    assert_eq!(status.stdout, "continued\n");
    sandbox.ok("verify p");
}

#[test]
fn a_model_calls_a_graph_as_a_tool() {
    let sandbox = project();
    sandbox.write(
        "calls.yaml",
        "answers:\n  - calls: [{tool: rye_execute, input: {item_type: tool, item_id: demo/pipeline, parameters: {file: text.txt}}}]\n  \
         - text: No.\n  - text: It said no.\n",
    );
    let ran = sandbox.json("run demo/caller --project p --script calls.yaml");
    assert_eq!(ran["result"], "It said no.");
    let list = sandbox.json("thread list --project p");
    let rows = list["threads"].list();
    let of = |directive: &str| {
        rows.iter()
            .find(|row| row["directive"] == directive)
            .unwrap()
    };
    assert_eq!(
        of("demo/pipeline")["parent_id"],
        of("demo/caller")["thread_id"]
    );
    assert_eq!(
        of("demo/judge")["parent_id"],
        of("demo/pipeline")["thread_id"]
    );
    sandbox.ok("verify p");
}
