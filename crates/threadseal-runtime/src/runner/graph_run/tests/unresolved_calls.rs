//! Calls that began and whose end is unknown: they are never made again without a decision.

use super::graph_hooks::{calls, hooked};
use super::scene::{THREE, engine, fails_at, good, graph, refuses, resume, run, three};
use crate::testing::prelude::*;

const ASKS: &str = "--skip-unresolved";

fn lost(id: &str) -> Arc<dyn Tool> {
    tool(id, |_| Outcome::unknown("no answer"))
}

// T-GRA-04
#[test]
fn a_call_whose_end_is_not_known_stops_the_run_until_somebody_decides() {
    let scene = three();
    for (decision, status) in [
        (Unresolved::Skip, Status::Completed),
        (Unresolved::Fail, Status::Error),
    ] {
        let run = fails_at(&scene, lost("demo/b"));
        let events = scene.verified(&run);
        let results = events.of("tool_call_result").into_iter();
        let unknown: Vec<bool> = results.map(|result| result["unknown"] == true).collect();
        assert_eq!(unknown, [false, true]);
        let (b, calls) = counted("demo/b");
        let engine = engine(&scene, vec![ok("demo/a"), b]);
        refuses(&scene, &engine, &run, ASKS);
        resume_graph(&engine, &run, decision).unwrap().ended(status);
        assert_eq!(calls.get(), 0, "{decision:?}");
    }
    scene.all_verify();
}

// T-GRA-04
#[test]
fn an_idempotent_call_whose_end_is_not_known_has_the_same_key_again() {
    let scene = Scene::new();
    scene.graph(
        "g/three",
        &THREE.replace("assign: {b:", "idempotent: true, assign: {b:"),
    );
    let first = fails_at(&scene, lost("demo/b"));
    let ran = resume(&good(&scene), &first).unwrap().completed();
    let key = |run: &ThreadId| {
        let events = scene.verified(run);
        let mut starts = events.of("tool_call_start").into_iter();
        let of_b = starts.find(|start| start["item_id"] == "demo/b").unwrap();
        of_b["idempotency_key"].clone()
    };
    assert_eq!(key(&first), key(&ran.thread));
}

// T-GRA-04
#[test]
fn a_child_that_left_a_call_of_unknown_end_is_not_run_again_unasked() {
    let scene = three();
    let outer = "
    a: {action: {primary: execute, item_type: tool, item_id: g/three}, next: b}
    b: {type: return}";
    scene.graph("g/outer", &graph("rye.execute.tool.*", "", outer));
    for (b, decision) in [
        (lost("demo/b"), Unresolved::Skip),
        (failing("demo/b"), Unresolved::Refuse),
    ] {
        let engine = engine(&scene, vec![ok("demo/a"), b]);
        let run = run(&engine, "g/outer").ended(Status::Error).thread;
        let engine = good(&scene);
        if decision == Unresolved::Skip {
            refuses(&scene, &engine, &run, ASKS);
        }
        resume_graph(&engine, &run, decision).unwrap().completed();
    }
    scene.all_verify();
}

#[test]
fn a_hooks_call_of_unknown_end_is_settled_when_the_run_went_past_it() {
    let event = |kind: &str, payload: Value| (kind.to_owned(), payload);
    let known = event("hook_call_result", json!({"call_id": "hook_1"}));
    let unknown = json!({"call_id": "hook_2", "unknown": true});
    let unknown = event("hook_call_result", unknown);
    let over = event("step_completed", json!({"step": 1}));
    let settled = |events: &[(String, Value)]| {
        let found = super::super::stopped_run::settled_hooks(events);
        let mut found: Vec<String> = found.into_iter().map(str::to_owned).collect();
        found.sort();
        found
    };
    let stopped = [known.clone(), over.clone(), unknown.clone()];
    assert_eq!(settled(&stopped), ["hook_1"]);
    assert_eq!(settled(&[known, unknown, over]), ["hook_1", "hook_2"]);
}

// T-TOL-33
#[test]
fn a_hooks_call_of_unknown_end_stops_the_run_until_somebody_decides() {
    let scene = Scene::new();
    scene.graph("g/hooked", &hooked(&calls("tell", "error")));
    let tools = |b: Arc<dyn Tool>| engine(&scene, vec![ok("demo/a"), b, lost("demo/note")]);
    let run = run(&tools(failing("demo/b")), "g/hooked")
        .ended(Status::Error)
        .thread;
    assert_eq!(
        scene.verified(&run).of("hook_call_result")[0]["unknown"],
        true
    );
    let engine = tools(ok("demo/b"));
    refuses(&scene, &engine, &run, ASKS);
    resume_graph(&engine, &run, Unresolved::Skip)
        .unwrap()
        .completed();
    scene.all_verify();
}
