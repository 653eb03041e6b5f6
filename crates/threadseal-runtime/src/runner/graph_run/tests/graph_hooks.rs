//! Hooks of graphs: when they are asked, and their decisions.

use super::resumption::resume;
use super::scene::{Field, ok, order, tool};
use crate::runner::Unresolved;
use crate::status::Status;
use crate::toolbox::Outcome;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Two calls, with these hooks.
pub(super) fn graph(hooks: &str) -> String {
    format!(
        "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: a\n  hooks:\n{hooks}  nodes:\n    \
         a: {{action: {{primary: execute, item_type: tool, item_id: demo/a}}, next: b}}\n    \
         b: {{action: {{primary: execute, item_type: tool, item_id: demo/b}}, assign: {{got: \"${{result.n}}\"}}, next: c}}\n    \
         c: {{type: return, output: {{got: \"${{state.got}}\"}}}}\n"
    )
}

fn decides(id: &str, event: &str, action: &str) -> String {
    format!(
        "    - {{id: {id}, event: {event}, action: {{primary: execute, item_type: tool, item_id: rye/agent/threads/internal/control, params: {{action: {action}}}}}}}\n"
    )
}

pub(super) fn calls(id: &str, event: &str) -> String {
    format!(
        "    - {{id: {id}, event: {event}, action: {{primary: execute, item_type: tool, item_id: demo/note, params: {{event: {event}, step: \"${{step}}\", run: \"${{graph_run_id}}\"}}}}}}\n"
    )
}

#[test]
fn hooks_are_asked_at_each_event_of_a_graph_and_their_calls_are_recorded() {
    let field = Field::new();
    let events = [
        "graph_started",
        "after_step",
        "graph_completed",
        "graph_error",
    ];
    let hooks: String = events.iter().map(|event| calls(event, event)).collect();
    field.graph("g/h", &graph(&hooks));
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let note = tool("demo/note", move |input| {
        log.lock().unwrap().push(format!(
            "{} {}",
            input["event"].as_str().unwrap(),
            input["step"]
        ));
        Outcome::ok("noted")
    });
    let engine = field.engine(vec![ok("demo/a"), ok("demo/b"), note]);
    let ran = engine.run_graph(&order("g/h", json!({}))).unwrap();
    assert_eq!(ran.status, Status::Completed, "{ran:?}");
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "graph_started 0",
            "after_step 1",
            "after_step 2",
            "graph_completed 3"
        ]
    );
    let recorded = field.events(&ran.thread);
    let count = |kind: &str| recorded.iter().filter(|(found, _)| found == kind).count();
    assert_eq!(
        (count("hook_call_start"), count("hook_call_result")),
        (4, 4)
    );
    field.all_verify();
}

#[test]
fn a_node_is_tried_again_as_often_as_a_hook_may_ask_and_no_more() {
    let field = Field::new();
    field.graph("g/again", &graph(&decides("again", "error", "retry")));
    for (failures, status, tries) in [(2, Status::Completed, 3), (99, Status::Error, 4)] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let b = tool("demo/b", move |_| {
            match counted.fetch_add(1, Ordering::SeqCst) < failures {
                true => Outcome::failed("not yet"),
                false => Outcome::ok(json!({"n": 7})),
            }
        });
        let ran = field
            .engine(vec![ok("demo/a"), b])
            .run_graph(&order("g/again", json!({})))
            .unwrap();
        assert_eq!(
            (ran.status, calls.load(Ordering::SeqCst)),
            (status, tries),
            "{ran:?}"
        );
    }
    field.all_verify();
}

#[test]
fn what_a_hook_decides_about_a_failed_node_happens() {
    for (action, status, got) in [
        ("continue", Status::CompletedWithErrors, true),
        ("skip", Status::Completed, true),
        ("fail", Status::Error, false),
        ("abort", Status::Cancelled, false),
        ("suspend", Status::Suspended, false),
        ("escalate", Status::Suspended, false),
    ] {
        let field = Field::new();
        field.graph("g/d", &graph(&decides("d", "error", action)));
        let bad = tool("demo/b", |_| Outcome::failed("no"));
        let ran = field
            .engine(vec![ok("demo/a"), bad])
            .run_graph(&order("g/d", json!({})))
            .unwrap();
        assert_eq!(
            (ran.status, ran.outputs.is_some()),
            (status, got),
            "{action}: {ran:?}"
        );
        if status == Status::Suspended {
            let engine = field.engine(vec![
                ok("demo/a"),
                tool("demo/b", |_| Outcome::ok(json!({"n": 1}))),
            ]);
            let went_on = resume(&engine, &ran.thread, Unresolved::Refuse).unwrap();
            assert_eq!(went_on.outputs.unwrap()["got"], Value::from(1));
        }
        field.all_verify();
    }
}

#[test]
fn a_hook_may_stop_a_graph_before_its_first_step_and_after_any() {
    for (event, action, status, called) in [
        ("graph_started", "fail", Status::Error, 0),
        ("graph_started", "abort", Status::Cancelled, 0),
        ("after_step", "suspend", Status::Suspended, 1),
    ] {
        let field = Field::new();
        field.graph("g/s", &graph(&decides("s", event, action)));
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let a = tool("demo/a", move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Outcome::ok("a")
        });
        let ran = field
            .engine(vec![a, ok("demo/b")])
            .run_graph(&order("g/s", json!({})))
            .unwrap();
        assert_eq!(
            (ran.status, calls.load(Ordering::SeqCst)),
            (status, called),
            "{event}: {ran:?}"
        );
        field.all_verify();
    }
}
