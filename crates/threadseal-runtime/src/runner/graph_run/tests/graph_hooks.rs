//! Hooks of graphs: when they are asked, and their decisions.

use super::scene::{demo_graph, engine, good, outputs, resume, run};
use crate::testing::prelude::*;

/// Two calls, with these hooks.
pub(super) fn hooked(hooks: &str) -> String {
    let nodes = "
    a: {action: {primary: execute, item_type: tool, item_id: demo/a, params: {n: 1}}, next: b}
    b: {action: {primary: execute, item_type: tool, item_id: demo/b, params: {n: 1}}, assign: {got: \"${result.n}\"}, next: c}
    c: {type: return, output: {got: \"${state.got}\"}}";
    demo_graph(&format!("hooks:\n{hooks}"), nodes)
}

fn hook(id: &str, event: &str, item: &str, params: &str) -> String {
    format!(
        "    - {{id: {id}, event: {event}, action: {{primary: execute, item_type: tool, item_id: {item}, params: {{{params}}}}}}}\n"
    )
}

fn decides(event: &str, action: &str) -> String {
    let action = format!("action: {action}");
    hook("d", event, "rye/agent/threads/internal/control", &action)
}

pub(super) fn calls(id: &str, event: &str) -> String {
    let params = format!("event: {event}, step: \"${{step}}\", run: \"${{graph_run_id}}\"");
    hook(id, event, "demo/note", &params)
}

#[test]
fn hooks_are_asked_at_each_event_of_a_graph_and_their_calls_are_recorded() {
    let scene = Scene::new();
    let events = [
        "graph_started",
        "after_step",
        "graph_completed",
        "graph_error",
    ];
    scene.graph(
        "g/h",
        &hooked(&events.map(|event| calls(event, event)).concat()),
    );
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let note = tool("demo/note", move |input| {
        let line = format!("{} {}", input["event"].text(), input["step"]);
        log.lock().unwrap().push(line);
        Outcome::ok("noted")
    });
    let engine = engine(&scene, vec![ok("demo/a"), ok("demo/b"), note]);
    let ran = run(&engine, "g/h").completed();
    let expected = [
        "graph_started 0",
        "after_step 1",
        "after_step 2",
        "graph_completed 3",
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
    let events = scene.verified(&ran.thread);
    let counts = ["hook_call_start", "hook_call_result"].map(|kind| events.count(kind));
    assert_eq!(counts, [4, 4]);
    scene.all_verify();
}

#[test]
fn a_node_is_tried_again_as_often_as_a_hook_may_ask_and_no_more() {
    let scene = Scene::new();
    scene.graph("g/again", &hooked(&decides("error", "retry")));
    for (failures, status, tries) in [(2, Status::Completed, 3), (99, Status::Error, 4)] {
        let calls = Count::default();
        let counted = calls.clone();
        let b = tool("demo/b", move |_| match counted.add() < failures {
            true => Outcome::failed("not yet"),
            false => Outcome::ok(json!({"n": 7})),
        });
        run(&engine(&scene, vec![ok("demo/a"), b]), "g/again").ended(status);
        assert_eq!(calls.get(), tries, "{failures}");
    }
    scene.all_verify();
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
        let scene = Scene::new();
        scene.graph("g/d", &hooked(&decides("error", action)));
        let ran = run(
            &engine(&scene, vec![ok("demo/a"), failing("demo/b")]),
            "g/d",
        );
        assert_eq!(
            (ran.status, ran.outputs.is_some()),
            (status, got),
            "{action}: {ran:?}"
        );
        if status == Status::Suspended {
            let ran = resume(&good(&scene), &ran.thread).unwrap();
            assert_eq!(outputs(ran)["got"], 1);
        }
        scene.all_verify();
    }
}

#[test]
fn a_hook_may_stop_a_graph_before_its_first_step_and_after_any() {
    for (event, action, status, called) in [
        ("graph_started", "fail", Status::Error, 0),
        ("graph_started", "abort", Status::Cancelled, 0),
        ("after_step", "suspend", Status::Suspended, 1),
    ] {
        let scene = Scene::new();
        scene.graph("g/s", &hooked(&decides(event, action)));
        let (a, calls) = counted("demo/a");
        let ran = run(&engine(&scene, vec![a, ok("demo/b")]), "g/s");
        assert_eq!(
            (ran.status, calls.get()),
            (status, called),
            "{event}: {ran:?}"
        );
        scene.all_verify();
    }
}
