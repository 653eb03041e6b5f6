//! Calls that began and whose end is unknown: they are never made again without a decision.

use super::graph_hooks::{calls, graph};
use super::resumption::{THREE, resume};
use super::scene::{Field, ok, order, tool};
use crate::runner::Engine;
use crate::runner::Unresolved;
use crate::status::Status;
use crate::toolbox::Outcome;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use threadseal_core::record::ThreadId;

fn refused(field: &Field, engine: &Engine, run: &ThreadId) {
    let before = field.tree();
    let why = resume(engine, run, Unresolved::Refuse)
        .unwrap_err()
        .to_string();
    assert!(why.contains("--skip-unresolved"), "{why}");
    assert_eq!(before, field.tree(), "a refusal changed something");
}

// T-GRA-04
#[test]
fn a_call_whose_end_is_not_known_stops_the_run_until_somebody_decides() {
    let field = Field::new();
    field.graph("g/three", THREE);
    let lost = || tool("demo/b", |_| Outcome::unknown("no answer"));
    let calls = Arc::new(AtomicUsize::new(0));
    for (decision, status) in [
        (Unresolved::Skip, Status::Completed),
        (Unresolved::Fail, Status::Error),
    ] {
        let engine = field.engine(vec![ok("demo/a"), lost()]);
        let run = engine.run_graph(&order("g/three", json!({}))).unwrap();
        assert_eq!(run.status, Status::Error);
        let events = field.events(&run.thread);
        let results = events.iter().filter(|(kind, _)| kind == "tool_call_result");
        let unknown: Vec<bool> = results.map(|(_, said)| said["unknown"] == true).collect();
        assert_eq!(unknown, [false, true]);
        let counted = Arc::clone(&calls);
        let b = tool("demo/b", move |input| {
            counted.fetch_add(1, Ordering::SeqCst);
            Outcome::ok(input.clone())
        });
        let engine = field.engine(vec![ok("demo/a"), b]);
        refused(&field, &engine, &run.thread);
        let ran = resume(&engine, &run.thread, decision).unwrap();
        assert_eq!(
            (ran.status, calls.load(Ordering::SeqCst)),
            (status, 0),
            "{ran:?}"
        );
    }
    field.all_verify();
}

// T-GRA-04
#[test]
fn an_idempotent_call_whose_end_is_not_known_has_the_same_key_again() {
    let field = Field::new();
    field.graph(
        "g/idem",
        &THREE.replace("assign: {b:", "idempotent: true, assign: {b:"),
    );
    let engine = field.engine(vec![
        ok("demo/a"),
        tool("demo/b", |_| Outcome::unknown("no answer")),
    ]);
    let run = engine.run_graph(&order("g/idem", json!({}))).unwrap();
    let engine = field.engine(vec![ok("demo/a"), ok("demo/b")]);
    let ran = resume(&engine, &run.thread, Unresolved::Refuse).unwrap();
    assert_eq!(ran.status, Status::Completed);
    let key = |run: &ThreadId| -> Value {
        let events = field.events(run);
        let mut starts = events.iter().filter(|(kind, _)| kind == "tool_call_start");
        let of_b = starts
            .find(|(_, start)| start["item_id"] == "demo/b")
            .unwrap();
        of_b.1["idempotency_key"].clone()
    };
    assert_eq!(key(&run.thread), key(&ran.thread));
}

// T-GRA-04
#[test]
fn a_child_that_left_a_call_of_unknown_end_is_not_run_again_unasked() {
    let field = Field::new();
    field.graph("g/three", THREE);
    let outer = "tool_type: graph\npermissions: [rye.execute.tool.*]\nconfig:\n  start: a\n  nodes:\n    a: {action: {primary: execute, item_type: tool, item_id: g/three}, next: b}\n    b: {type: return}\n";
    field.graph("g/outer", outer);
    for (outcome, unknown) in [
        (Outcome::unknown("no answer"), true),
        (Outcome::failed("not now"), false),
    ] {
        let b = tool("demo/b", move |_| outcome.clone());
        let engine = field.engine(vec![ok("demo/a"), b]);
        let run = engine.run_graph(&order("g/outer", json!({}))).unwrap();
        assert_eq!(run.status, Status::Error);
        let engine = field.engine(vec![ok("demo/a"), ok("demo/b")]);
        if unknown {
            refused(&field, &engine, &run.thread);
        }
        let decision = match unknown {
            true => Unresolved::Skip,
            false => Unresolved::Refuse,
        };
        let ran = resume(&engine, &run.thread, decision).unwrap();
        assert_eq!(ran.status, Status::Completed);
    }
    field.all_verify();
}

#[test]
fn a_hooks_call_of_unknown_end_is_settled_when_the_run_went_past_it() {
    let event = |kind: &str, payload: Value| (kind.to_owned(), payload);
    let known = event("hook_call_result", json!({"call_id": "hook_1"}));
    let unknown = event(
        "hook_call_result",
        json!({"call_id": "hook_2", "unknown": true}),
    );
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
    let field = Field::new();
    field.graph("g/hooked", &graph(&calls("tell", "error")));
    let lost = || tool("demo/note", |_| Outcome::unknown("no answer"));
    let bad = tool("demo/b", |_| Outcome::failed("not now"));
    let engine = field.engine(vec![ok("demo/a"), bad, lost()]);
    let run = engine.run_graph(&order("g/hooked", json!({}))).unwrap();
    assert_eq!(run.status, Status::Error);
    let events = field.events(&run.thread);
    let mut results = events.iter().filter(|(kind, _)| kind == "hook_call_result");
    assert_eq!(results.next().unwrap().1["unknown"], true);
    let engine = field.engine(vec![ok("demo/a"), ok("demo/b"), lost()]);
    refused(&field, &engine, &run.thread);
    let ran = resume(&engine, &run.thread, Unresolved::Skip).unwrap();
    assert_eq!(ran.status, Status::Completed, "{ran:?}");
    field.all_verify();
}
