//! `graph validate`, run on files.

use crate::sandbox::{Sandbox, shared};
use std::fs;

const GOOD: &str = "tool_type: graph\npermissions: [rye.execute.tool.x]\nconfig:\n  start: a\n  nodes:\n    a: {action: {primary: execute, item_type: tool, item_id: x}, next: b}\n    b: {type: return}\n";

#[test]
fn faults_are_told_with_their_lines_and_decide_the_exit() {
    let sandbox = Sandbox::new();
    let put = |name: &str, text: &str| fs::write(sandbox.work().join(name), text).unwrap();
    put("good.yaml", GOOD);
    put(
        "bad.yaml",
        &GOOD
            .replace("next: b", "next: c")
            .replace("item_id: x}", "item_id: y}"),
    );
    put("warn.yaml", &GOOD.replace(", next: b", ""));
    put("other.yaml", "a: [\n");
    let ran = sandbox.run(["graph", "validate", "good.yaml"]).exits(0);
    assert_eq!(ran.stdout, "good.yaml: 2 nodes, 0 warnings\n");
    let ran = sandbox
        .run(["graph", "validate", "warn.yaml", "-q"])
        .exits(0);
    assert_eq!(
        ran.stdout,
        "warn.yaml:6: warning: node `a` has no `next`: the graph is complete after it, without output\n\
         warn.yaml:7: warning: node `b` is never reached\n"
    );
    let ran = sandbox
        .run(["graph", "validate", "good.yaml", "bad.yaml"])
        .exits(1);
    assert_eq!(
        ran.stdout,
        "good.yaml: 2 nodes, 0 warnings\n\
         bad.yaml:6: node `a` leads to `c`, which is no node\n\
         bad.yaml:6: `permissions` do not hold rye.execute.tool.y\n"
    );
    let output = sandbox
        .run([
            "graph",
            "validate",
            "bad.yaml",
            "other.yaml",
            "warn.yaml",
            "--json",
        ])
        .exits(1)
        .json();
    assert_eq!(output["schema"], "threadseal.graph.validate/1");
    assert_eq!(output["graphs"][0]["nodes"], serde_json::Value::Null);
    assert_eq!(output["graphs"][0]["faults"][0]["line"], 6);
    assert_eq!(output["graphs"][1]["faults"][0]["severity"], "error");
    assert_eq!(
        (&output["errors"], &output["warnings"]),
        (&3.into(), &2.into())
    );
    sandbox.run(["graph", "validate", "none.yaml"]).exits(2);
    sandbox
        .run(["graph", "validate", "none.yaml", "bad.yaml"])
        .exits(1);
    sandbox.run(["graph", "validate"]).exits(2);
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
    let arguments = ["graph", "validate"].map(str::to_owned);
    let ran = Sandbox::new().run(arguments.iter().chain(&files)).exits(0);
    assert_eq!(ran.stdout.matches(" nodes, ").count(), files.len());
}
