//! Children that run beside their parents.

use crate::status::Status;
use crate::testing::{Bench, order};
use serde_json::{Value, json};
use std::time::Duration;
use threadseal_core::record::ThreadId;

const SPAWN: &str =
    "<execute><tool>rye.agent.threads.thread_directive</tool><tool>demo.*</tool></execute>";

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["event_type"].as_str().unwrap())
        .collect()
}

fn children(events: &[Value], kind: &str) -> Vec<ThreadId> {
    let of_kind = events.iter().filter(|event| event["event_type"] == kind);
    of_kind
        .map(|event| {
            ThreadId::parse(event["payload"]["child_thread_id"].as_str().unwrap()).unwrap()
        })
        .collect()
}

/// Each answer names its thread: children and their parent take from one script.
// T-TOL-03
#[test]
fn asynchronous_children_run_beside_their_parent_and_end_before_it() {
    let bench = Bench::new();
    bench.directive("parent", SPAWN, "Begin them.");
    bench.directive(
        "child",
        "<execute><tool>demo.slow</tool></execute>",
        "I am a child.",
    );
    bench.file(
        ".ai/tools/demo/slow.yaml",
        "tool_type: command\ncommand: [sleep, \"0.5\"]\nenv: [PATH]\n",
    );
    let script = "answers:\n\
        - {when: Begin, calls: [{tool: rye_agent_threads_thread_directive, input: {directive_id: demo/child, async: true, limit_overrides: {spend: 0.1}}},\
                   {tool: rye_agent_threads_thread_directive, input: {directive_id: demo/child, async: true, limit_overrides: {spend: 0.1}}}]}\n\
        - {calls: [{tool: demo_slow}]}\n- {calls: [{tool: demo_slow}]}\n- {calls: [{tool: demo_slow}]}\n\
        - {text: Done.}\n- {text: Done.}\n- {text: Done.}\n";
    let mut wanted = order("parent");
    wanted.limits.set("turns", &json!(3)).unwrap();
    let ran = bench.engine(script).run(&wanted).unwrap();
    assert_eq!(ran.status, Status::Completed, "{ran:?}");
    assert_eq!(ran.cost.spawns, 2);
    let events = bench.lines(&ran.thread);
    let started = children(&events, "child_thread_started");
    let mut ended = children(&events, "child_thread_ended");
    ended.sort_unstable_by_key(|id| started.iter().position(|other| other == id));
    assert_eq!((started.len(), &started), (2, &ended));
    // The answer that began them came back before they ended.
    let kinds = kinds(&events);
    let result = kinds.iter().position(|kind| *kind == "tool_call_result");
    let end = kinds.iter().position(|kind| *kind == "child_thread_ended");
    assert!(result < end, "{kinds:?}");
    let told = &events[result.unwrap()]["payload"]["output"];
    let told: Value = serde_json::from_str(told.as_str().unwrap()).unwrap();
    assert_eq!(told["status"], "running");
    // Their cost is in their parent's.
    let spent = |id: &ThreadId| {
        let meta = std::fs::read(bench.project.thread(id).metadata()).unwrap();
        serde_json::from_slice::<Value>(&meta).unwrap()["cost"]["spend"].to_string()
    };
    assert!(started.iter().all(|id| !spent(id).is_empty()));
}

// T-TOL-03
#[test]
fn asynchronous_children_of_a_thread_that_fails_are_cancelled_and_end() {
    let bench = Bench::new();
    bench.directive("parent", SPAWN, "Begin them.");
    bench.directive(
        "child",
        "<execute><tool>demo.slow</tool></execute>",
        "I am a child.",
    );
    bench.file(
        ".ai/tools/demo/slow.yaml",
        "tool_type: command\ncommand: [sleep, \"60\"]\nenv: [PATH]\n",
    );
    // The child calls, the parent fails: in any order of requests, one answer suits only one of
    // them.
    let script = "answers:\n\
        - {when: Begin, calls: [{tool: rye_agent_threads_thread_directive, input: {directive_id: demo/child, async: true, limit_overrides: {spend: 0.1}}},\
                                {tool: demo_slow, input: {}}]}\n\
        - {when: I am a child, calls: [{tool: demo_slow}]}\n";
    let engine = bench.engine(script);
    let wanted = order("parent");
    let cancel = wanted.cancel.clone();
    let stop = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1500));
        cancel.set();
    });
    let ran = engine.run(&wanted).unwrap();
    stop.join().unwrap();
    assert_eq!(ran.status, Status::Cancelled, "{ran:?}");
    let events = bench.lines(&ran.thread);
    let ended = children(&events, "child_thread_ended");
    assert_eq!(ended.len(), 1);
    let child = bench.lines(&ended[0]);
    assert!(
        kinds(&child).contains(&"thread_cancelled"),
        "{:?}",
        kinds(&child)
    );
    let row = engine.services.registry.get(&ended[0]).unwrap().unwrap();
    assert_eq!(row.status, Ok(Status::Cancelled));
}
