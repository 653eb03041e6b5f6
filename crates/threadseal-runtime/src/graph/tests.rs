//! Graphs as they may be declared, and every fault with its line.

use super::*;
use crate::testing::prelude::*;

const SMALL: &str = r#"# signature
version: "1.0.0"
tool_type: graph
description: Counts
permissions:
  - rye.execute.tool.team.*
  - rye.execute.directive.*
env_requires: [HOME]
config_schema:
  type: object
  properties: {dir: {type: string, default: out}}
config:
  start: setup
  max_steps: 20
  on_error: continue
  state: {count: 0}
  hooks:
    - {id: h, event: after_step, action: {primary: execute, item_type: tool, item_id: x}}
  nodes:
    setup:
      cache: true
      action: {primary: execute, item_type: tool, item_id: team/list, params: {dir: "${inputs.dir}"}}
      assign: {files: "${result.files}", at: "${_now}"}
      next:
        - to: each
          when: {path: state.files.0, op: exists}
        - to: done
    each:
      type: foreach
      over: "${state.files}"
      as: file
      parallel: true
      max_concurrency: 4
      action: {primary: execute, item_type: directive, item_id: "read/${file.kind}", params: {name: "${file.name}"}}
      collect: results
      on_error: failed
      next: route
    route:
      type: gate
      assign: {count: "${state.results | length}"}
      next: done
    failed:
      action: {primary: execute, item_type: tool, item_id: team.report, params: {why: "${state._last_error}"}}
      next: done
    done:
      type: return
      output: {count: "${state.count}", results: "${state.results}"}
"#;

/// With this change the graph has a fault that begins so.
fn assert_fault(from: &str, to: &str, fault: &str) {
    SMALL.has(from);
    let found = faults(&SMALL.replacen(from, to, 1));
    let is_found = found.iter().any(|line| line.starts_with(fault));
    assert!(is_found, "{from} as {to} gave {found:#?}");
}

fn faults(text: &str) -> Vec<String> {
    let inspection = inspect("g.yaml", text).unwrap();
    let mut faults = inspection.faults.iter();
    let broken = faults.any(|fault| fault.severity == Severity::Error);
    assert_eq!(inspection.graph.is_none(), broken);
    inspection.faults.iter().map(ToString::to_string).collect()
}

#[test]
fn everything_that_a_graph_may_say_is_read() {
    assert_eq!(faults(SMALL), Vec::<String>::new());
    let graph = Graph::parse("g.yaml", SMALL).unwrap();
    assert_eq!(graph.start().unwrap().name, "setup");
    assert_eq!((graph.max_steps, graph.on_error), (20, OnError::Continue));
    assert_eq!(graph.state["count"], json!(0));
    assert_eq!(graph.hooks.len(), 1);
    let nodes = graph.nodes().iter();
    let nodes: Vec<String> = nodes
        .map(|node| format!("{} {}", node.name, node.type_name()))
        .collect();
    assert_eq!(
        nodes.join(", "),
        "setup action, each foreach, route gate, failed action, done return"
    );
    let setup = graph.node("setup").unwrap();
    assert!(setup.cache);
    let holds = |context| setup.next[0].when.as_ref().unwrap().eval(&context).unwrap();
    assert!(holds(json!({"state": {"files": ["a"]}})));
    assert!(!holds(json!({"state": {"files": []}})));
    let NodeKind::Foreach(each) = &graph.node("each").unwrap().kind else {
        panic!("not a foreach");
    };
    assert_eq!((&*each.item, each.max_concurrency), ("file", Some(4)));
    let on_error = graph.node("each").unwrap().on_error.as_ref();
    assert_eq!(on_error.unwrap().place.line(), 36);
}

#[test]
fn each_error_has_its_line() {
    for [from, to, fault] in rows(
        r#"start: setup => start: set_up => g.yaml:13: `start`: unknown node `set_up`
           \s\sstart: setup\n =>  => g.yaml:13: `start` is missing
           permissions:\n  - rye.execute.tool.team.*\n  - rye.execute.directive.*\n =>  => g.yaml:2: `permissions` is missing: the graph could do nothing
           permissions:\n  - rye.execute.tool.team.*\n  - rye.execute.directive.*\n => permissions: []\n => g.yaml:5: `permissions` is empty: the graph could do nothing
           next: route => next: rout => g.yaml:37: node `each` leads to `rout`, which is not a node
           - to: each => - to: eich => g.yaml:25: node `setup` leads to `eich`, which is not a node
           on_error: failed => on_error: fail => g.yaml:36: node `each` leads to `fail`, which is not a node
           on_error: continue => on_error: go => g.yaml:15: `on_error` of a graph must be fail or continue
           max_steps: 20 => max_steps: 0 => g.yaml:14: `max_steps` is 1 to 100000
           \s\s\s\s\s\sover: "${state.files}"\n =>  => g.yaml:28: a foreach node needs `over`
           type: gate => type: gates => g.yaml:39: unknown node type `gates`; known: action, foreach, gate, return
           \s\s\s\s\s\stype: gate\n =>  => g.yaml:38: the node has no `action`
           cache: true => cache: true\n      cache_result: true => g.yaml:22: `cache` and `cache_result` are the same
           event: after_step => event: thread_started => g.yaml:18: a hook of a graph is never asked at `thread_started`
           as: file => as: state => g.yaml:31: `as` would hide the value of that name
           op: exists => op: exist => g.yaml:26: unknown operator `exist`; known: eq, ne, gt, gte, lt, lte, in, contains, regex, exists
           collect: results => colect: results => g.yaml:35: a node of type foreach has no member `colect`
           parallel: true => parallel: false => g.yaml:28: `max_concurrency` needs `parallel: true`
           item_id: team/list => item_id: other/list => g.yaml:22: `permissions` do not contain rye.execute.tool.other.list
           env_requires: [HOME] => env_require: [HOME] => g.yaml:8: a graph has no member `env_require`
           assign: {count: => assign: {inputs: => g.yaml:40: `inputs` of the state cannot be assigned
           event: after_step => event: after => g.yaml:18: unknown event `after`; known:\s
           ${inputs.dir} => ${inputs dir} => g.yaml:22: `inputs dir` is not a path"#,
    ) {
        assert_fault(&from, &to, &fault);
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let text = SMALL
        .replacen("next: route", "next: rout", 1)
        .replacen("type: gate", "type: gates", 1)
        .replacen("max_steps: 20", "max_stepz: 20", 1);
    let why = Graph::parse("g.yaml", &text).why();
    let places: Vec<&str> = why.lines().map(|line| &line[..11]).collect();
    assert_eq!(
        places,
        ["g.yaml:14: ", "g.yaml:37: ", "g.yaml:39: "],
        "{why}"
    );
}

#[test]
fn what_may_be_meant_is_a_warning() {
    for [from, to, fault] in rows(
        r"on_error: failed => on_error: done => g.yaml:42: warning: node `failed` is never reached
          \s\s\s\s\s\s\s\s- to: done\n =>  => g.yaml:20: warning: node `setup` has no edge that always holds
          collect: results\n      on_error: failed\n      next: route => collect: results\n      on_error: failed => g.yaml:28: warning: node `each` has no `next`: the graph is complete after it
          \s\s\s\s\s\s\s\s- to: done\n => \s\s\s\s\s\s\s\s- to: done\n        - to: each\n => g.yaml:28: warning: never taken
          assign: {files: => assign: {filez: => g.yaml:25: warning: `files` is never assigned in the state
          ${file.name} => ${fil.name} => g.yaml:34: warning: no value here has the name `fil`",
    ) {
        assert_fault(&from, &to, &fault);
    }
    let circle = "tool_type: graph\npermissions: [rye.*]\nconfig:\n  start: a\n  nodes:\n    a: {type: gate, next: b}\n    b: {type: gate, next: a}\n";
    assert_eq!(
        faults(circle),
        [
            "g.yaml:6: warning: node `a` does not lead to an end, only to the limit of steps",
            "g.yaml:7: warning: node `b` does not lead to an end, only to the limit of steps"
        ]
    );
}

#[test]
fn what_is_no_graph_is_an_error_and_large_ones_are_bounded() {
    for text in [
        "",
        "a: 1",
        "tool_type: command",
        "[]",
        "tool_type: graph\n\tx",
    ] {
        assert!(inspect("g", text).is_err(), "{text:?}");
    }
    assert_eq!(
        faults("tool_type: graph\npermissions: [x]\n"),
        ["g.yaml:1: `config` is missing"]
    );
    let mut large =
        "tool_type: graph\npermissions: [rye.*]\nconfig:\n  start: n0\n  nodes:\n".to_owned();
    for at in 0..=crate::bounds::MAX_GRAPH_NODES {
        large.push_str(&format!("    n{at}: {{type: return}}\n"));
    }
    assert!(faults(&large)[0].contains("at most 10000 nodes"));
}

#[test]
fn real_graphs_of_the_original_are_read() {
    let Some(folder) = beside_repository("corpus/rye-real/graphs") else {
        return;
    };
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let graph = Graph::parse(&path.to_string_lossy(), &text).unwrap();
        assert_eq!(graph.node("done").unwrap().type_name(), "return");
        count += 1;
    }
    assert_eq!(count, 6);
}
