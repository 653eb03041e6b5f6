//! Runs of graphs: their ways, and the files that they leave.

mod attacks;
mod disk_faults;
mod graph_hooks;
mod resumption;
mod scene;
mod unresolved_calls;

use crate::runner::GraphOrder;
use crate::status::Status;
use scene::{Field, ok, order};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One node of each type, an edge with a condition, an assignment.
const ALL: &str = r#"tool_type: graph
permissions: [rye.execute.tool.demo.*]
config_schema:
  type: object
  properties: {list: {type: array}}
  required: [list]
config:
  start: first
  state: {count: 0}
  nodes:
    first: {action: {primary: execute, item_type: tool, item_id: demo/echo, params: {n: "${inputs.list | length}"}}, assign: {count: "${result.n}"}, next: gate}
    gate:
      type: gate
      assign: {seen: "${state.count}"}
      next: [{to: none, when: {path: state.seen, op: eq, value: 0}}, {to: each}]
    each: {type: foreach, over: "${state.inputs.list}", as: it, action: {primary: execute, item_type: tool, item_id: demo/echo, params: {n: "${it}"}}, collect: all, next: done}
    none: {type: return, output: {was: empty}}
    done: {type: return, output: {all: "${state.all}", seen: "${state.seen}"}}
"#;

#[test]
fn a_graph_runs_to_its_end_and_all_that_it_leaves_verifies() {
    let field = Field::new();
    field.graph("demo/all", ALL);
    let engine = field.engine(vec![ok("demo/echo")]);
    let ran = engine
        .run_graph(&order("demo/all", json!({"list": [1, 2]})))
        .unwrap();
    assert_eq!(ran.status, Status::Completed, "{ran:?}");
    let outputs = Value::Object(ran.outputs.clone().unwrap());
    assert_eq!(outputs, json!({"all": [{"n": 1}, {"n": 2}], "seen": 2}));
    let events = field.events(&ran.thread);
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    for kind in [
        "graph_started",
        "step_started",
        "step_completed",
        "foreach_completed",
        "graph_completed",
    ] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    let steps = kinds
        .iter()
        .filter(|kind| **kind == "step_completed")
        .count();
    assert_eq!(steps, 4);
    assert!(
        ran.thread.as_str().starts_with("demo-all-"),
        "{}",
        ran.thread
    );
    let entry = field.entry("demo/all", &ran.thread);
    assert!(
        entry.contains("| 1 | first | ✅ |") && entry.contains("| — | none | ⏳ |"),
        "{entry}"
    );
    field.all_verify();
    let empty = engine
        .run_graph(&order("demo/all", json!({"list": []})))
        .unwrap();
    assert_eq!(
        Value::Object(empty.outputs.unwrap()),
        json!({"was": "empty"})
    );
}

#[test]
fn wrong_inputs_unknown_graphs_and_missing_variables_leave_nothing() {
    let field = Field::new();
    field.graph("demo/all", ALL);
    field.graph(
        "demo/env",
        &ALL.replace("config_schema", "env_requires: [NO_SUCH]\nconfig_schema"),
    );
    let engine = field.engine(vec![ok("demo/echo")]);
    let before = field.tree();
    for (graph, inputs, why) in [
        ("demo/all", json!({}), "list"),
        ("demo/all", json!({"list": 1}), "list"),
        ("demo/none", json!({}), "demo/none"),
        ("demo/env", json!({"list": []}), "NO_SUCH"),
    ] {
        let error = engine
            .run_graph(&order(graph, inputs))
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(before, field.tree());
}

fn one_call(more: &str, rest: &str) -> String {
    format!(
        "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: a\n{more}  nodes:\n    \
         a: {{action: {{primary: execute, item_type: tool, item_id: demo/t}}, assign: {{got: \"${{result.x}}\"}}{rest}\n"
    )
}

#[test]
fn a_failed_node_leads_along_its_edge_or_the_graphs_way_or_ends_the_run() {
    let field = Field::new();
    let tail = "    b: {type: return, output: {e: \"${state._last_error.error}\", got: \"${state.got}\"}}\n    c: {type: return}\n";
    field.graph(
        "g/edge",
        &format!("{}{tail}", one_call("", ", on_error: b, next: c}")),
    );
    field.graph(
        "g/go",
        &format!("{}{tail}", one_call("  on_error: continue\n", ", next: b}")),
    );
    field.graph("g/fail", &format!("{}{tail}", one_call("", ", next: b}")));
    let engine = field.engine(vec![scene::tool("demo/t", |_| {
        crate::toolbox::Outcome::failed("no `luck` |")
    })]);
    let edge = engine.run_graph(&order("g/edge", json!({}))).unwrap();
    assert_eq!(
        (edge.status, &edge.outputs.unwrap()["e"]),
        (Status::Completed, &json!("no `luck` |"))
    );
    let go = engine.run_graph(&order("g/go", json!({}))).unwrap();
    assert_eq!(
        (go.status, &go.outputs.unwrap()["got"]),
        (Status::CompletedWithErrors, &Value::Null)
    );
    let fail = engine.run_graph(&order("g/fail", json!({}))).unwrap();
    assert_eq!(
        (fail.status, fail.error.as_deref()),
        (Status::Error, Some("no `luck` |"))
    );
    let entry = field.entry("g/fail", &fail.thread);
    assert!(
        entry.contains("| 1 | a | ❌ |") && entry.contains("no &#96;luck&#96; &#124;"),
        "{entry}"
    );
    let kinds: Vec<String> = field
        .events(&fail.thread)
        .into_iter()
        .map(|event| event.0)
        .collect();
    assert!(kinds.contains(&"graph_error".to_owned()));
    field.all_verify();
}

// T-GRA-11
#[test]
fn a_circle_ends_at_the_limit_of_steps_and_a_limit_suspends() {
    let field = Field::new();
    field.graph("g/circle", "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: a\n  max_steps: 7\n  nodes:\n    a: {type: gate, next: b}\n    b: {type: gate, next: a}\n");
    field.graph(
        "g/one",
        &format!("{}    b: {{type: return}}\n", one_call("", ", next: b}")),
    );
    let engine = field.engine(vec![ok("demo/t")]);
    let ran = engine.run_graph(&order("g/circle", json!({}))).unwrap();
    assert_eq!((ran.status, ran.cost.turns), (Status::Error, 7));
    assert!(ran.error.unwrap().contains("max steps exceeded (7)"));
    let mut limited = order("g/one", json!({}));
    limited.limits.duration_seconds = Some(0);
    let ran = engine.run_graph(&limited).unwrap();
    assert_eq!(ran.status, Status::Suspended, "{ran:?}");
    field.all_verify();
}

#[test]
fn a_parallel_foreach_calls_as_many_at_once_as_it_says_and_keeps_the_order() {
    let field = Field::new();
    field.graph("g/fan", "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: a\n  nodes:\n    a: {type: foreach, over: \"${state.l}\", parallel: true, max_concurrency: 3, action: {primary: execute, item_type: tool, item_id: demo/slow, params: {n: \"${item}\"}}, collect: all, next: b}\n    b: {type: return, output: {all: \"${state.all}\"}}\n  state: {l: [5, 4, 3, 2, 1, 0]}\n");
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (running, seen) = (Arc::clone(&now), Arc::clone(&most));
    let slow = scene::tool("demo/slow", move |input| {
        seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(30));
        running.fetch_sub(1, Ordering::SeqCst);
        crate::toolbox::Outcome::ok(input["n"].clone())
    });
    let ran = field
        .engine(vec![slow])
        .run_graph(&order("g/fan", json!({})))
        .unwrap();
    assert_eq!(ran.outputs.unwrap()["all"], json!([5, 4, 3, 2, 1, 0]));
    let most = most.load(Ordering::SeqCst);
    assert!((2..=3).contains(&most), "{most} at once");
    field.all_verify();
}

#[test]
fn items_that_fail_make_the_node_fail_and_what_is_no_list_does_too() {
    let field = Field::new();
    let graph = |over: &str| {
        format!(
            "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: a\n  state: {{l: [1, 2, 3], t: text}}\n  nodes:\n    a: {{type: foreach, over: \"{over}\", action: {{primary: execute, item_type: tool, item_id: demo/odd, params: {{n: \"${{item}}\"}}}}, collect: all, on_error: b, next: c}}\n    b: {{type: return, output: {{all: \"${{state.all}}\", why: \"${{state._last_error.error}}\"}}}}\n    c: {{type: return}}\n"
        )
    };
    field.graph("g/odd", &graph("${state.l}"));
    field.graph("g/text", &graph("${state.t}"));
    let odd = scene::tool("demo/odd", |input| match input["n"].as_u64() {
        Some(2) => crate::toolbox::Outcome::ok(json!({"success": false, "error": "two"})),
        _ => crate::toolbox::Outcome::ok(json!({"thread_id": "t", "n": input["n"]})),
    });
    let engine = field.engine(vec![odd]);
    let ran = engine.run_graph(&order("g/odd", json!({}))).unwrap();
    let outputs = ran.outputs.unwrap();
    assert_eq!(
        outputs["all"],
        json!(["t", {"success": false, "error": "two"}, "t"])
    );
    assert_eq!(outputs["why"], "1 of 3 items failed; the first: two");
    let ran = engine.run_graph(&order("g/text", json!({}))).unwrap();
    assert_eq!(ran.outputs.unwrap()["why"], "`over` is no list");
}

#[test]
fn a_graph_starts_threads_and_graphs_below_it_within_what_it_may() {
    let field = Field::new();
    field.graph("g/inner", &ALL.replace("demo/all", "g/inner"));
    field.graph("g/outer", "tool_type: graph\npermissions: [rye.execute.tool.g.*, rye.execute.tool.demo.*, rye.execute.directive.demo.say]\nconfig:\n  start: a\n  nodes:\n    a: {action: {primary: execute, item_type: tool, item_id: g/inner, params: {list: [7]}}, assign: {inner: \"${result.outputs.seen}\"}, next: b}\n    b: {action: {primary: execute, item_type: directive, item_id: demo/say, params: {name: Ada}}, assign: {said: \"${result.result}\"}, next: c}\n    c: {type: return, output: {inner: \"${state.inner}\", said: \"${state.said}\"}}\n");
    field.directive("demo/say");
    let engine = field.engine(vec![ok("demo/echo")]);
    let ran = engine.run_graph(&order("g/outer", json!({}))).unwrap();
    assert_eq!(
        Value::Object(ran.outputs.unwrap()),
        json!({"inner": 1, "said": "Hello Ada."})
    );
    assert_eq!(ran.cost.spawns, 2);
    let events = field.events(&ran.thread);
    let children: Vec<&Value> = events
        .iter()
        .filter(|(kind, _)| kind == "child_thread_ended")
        .map(|(_, payload)| &payload["status"])
        .collect();
    assert_eq!(children, ["completed", "completed"]);
    field.all_verify();
}

// T-GRA-11
#[test]
fn graphs_that_run_each_other_end_at_the_depth() {
    let field = Field::new();
    field.graph("g/self", "tool_type: graph\npermissions: [rye.execute.tool.g.*]\nlimits: {depth: 3}\nconfig:\n  start: a\n  nodes:\n    a: {action: {primary: execute, item_type: tool, item_id: g/self}, next: b}\n    b: {type: return}\n");
    let ran = field
        .engine(vec![])
        .run_graph(&order("g/self", json!({})))
        .unwrap();
    assert_eq!(ran.status, Status::Error);
    assert!(ran.error.unwrap().contains("depth_exceeded"));
    assert_eq!(field.runs("g-self").len(), 4);
    field.all_verify();
}

#[test]
fn knowledge_is_loaded_and_found_only_with_leave() {
    let field = Field::new();
    field.write(
        "knowledge/notes/one.md",
        "# One\n\nThe heron stands still.\n",
    );
    let graph = |permissions: &str| {
        format!(
            "tool_type: graph\npermissions: [{permissions}]\nconfig:\n  start: a\n  on_error: continue\n  state: {{id: notes/one}}\n  nodes:\n    a: {{action: {{primary: load, item_type: knowledge, item_id: \"${{state.id}}\"}}, assign: {{text: \"${{result.content}}\"}}, next: b}}\n    b: {{action: {{primary: search, item_type: knowledge, item_id: any, params: {{query: heron}}}}, assign: {{hit: \"${{result.results | json}}\"}}, next: c}}\n    c: {{type: return, output: {{text: \"${{state.text}}\", hit: \"${{state.hit}}\"}}}}\n"
        )
    };
    field.graph(
        "g/may",
        &graph("rye.load.knowledge.notes.*, rye.search.knowledge"),
    );
    field.graph(
        "g/not",
        &graph("rye.load.knowledge.other, rye.search.knowledge"),
    );
    let engine = field.engine(vec![]);
    let ran = engine.run_graph(&order("g/may", json!({}))).unwrap();
    let outputs = ran.outputs.unwrap();
    assert!(
        outputs["text"].as_str().unwrap().contains("heron")
            && outputs["hit"].as_str().unwrap().contains("notes/one"),
        "{outputs:?}"
    );
    let ran = engine.run_graph(&order("g/not", json!({}))).unwrap();
    assert_eq!(
        (ran.status, &ran.outputs.unwrap()["text"]),
        (Status::CompletedWithErrors, &Value::Null)
    );
}

#[test]
fn a_cancelled_run_ends_sealed() {
    let field = Field::new();
    field.graph("demo/all", ALL);
    let cancel = crate::toolbox::Cancel::default();
    let stop = cancel.clone();
    let tool = scene::tool("demo/echo", move |input| {
        stop.set();
        crate::toolbox::Outcome::ok(input.clone())
    });
    let wanted = GraphOrder {
        cancel,
        ..order("demo/all", json!({"list": [1]}))
    };
    let ran = field.engine(vec![tool]).run_graph(&wanted).unwrap();
    assert_eq!(ran.status, Status::Cancelled);
    assert!(
        field
            .events(&ran.thread)
            .iter()
            .any(|(kind, _)| kind == "graph_cancelled")
    );
    field.all_verify();
}

#[test]
fn the_originals_graphs_run_to_their_ends() {
    let Some(folder) = crate::shared::shared("corpus/rye-real/graphs") else {
        return;
    };
    let field = Field::new();
    let mut graphs: Vec<String> = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        // As Rye keeps them, but signed by a key that is unknown here.
        field.write(
            &format!("tools/graphs/{name}.yaml"),
            &std::fs::read_to_string(&path).unwrap(),
        );
        graphs.push(name);
    }
    assert_eq!(graphs.len(), 6);
    let bash = scene::tool("rye/bash", |input| {
        let command = input["command"].as_str().unwrap();
        match command.contains("/nonexistent") {
            true => crate::toolbox::Outcome::failed("it ended with exit code 1"),
            false => crate::toolbox::Outcome::ok(
                json!({"success": true, "stdout": "42\n", "stderr": "", "exit_code": 0}),
            ),
        }
    });
    for name in ["analyze_code", "summarize_text", "orchestrate_review"] {
        field.directive(&format!("test/graphs/{name}"));
    }
    let engine = field.engine(vec![bash]);
    for name in graphs {
        let ran = engine
            .run_graph(&order(
                &format!("graphs/{name}"),
                json!({"file_path": "x.py"}),
            ))
            .unwrap();
        assert_eq!(ran.status, Status::Completed, "{name}: {ran:?}");
    }
    field.all_verify();
}
