//! Children that run beside their parents.

use crate::testing::prelude::*;

/// A project with `demo/parent`, which starts children and calls `demo.slow`, and `demo/child`, which
/// calls it; a call sleeps so long.
fn scene(seconds: &str) -> Scene {
    let scene = Scene::new();
    let spawns = "<permissions><execute><tool>rye.agent.threads.thread_directive</tool><tool>demo.*</tool></execute></permissions>";
    scene.directive("demo/parent", spawns, "", "Begin them.");
    let calls = "<permissions><execute><tool>demo.slow</tool></execute></permissions>";
    scene.directive("demo/child", calls, "", "I am a child.");
    let slow = format!("tool_type: command\ncommand: [sleep, \"{seconds}\"]\nenv: [PATH]\n");
    scene.file(".ai/tools/demo/slow.yaml", slow);
    scene
}

const SPAWN: &str = "{tool: rye_agent_threads_thread_directive, \
    input: {directive_id: demo/child, async: true, limit_overrides: {spend: 0.1}}}";

fn children(events: &Events, kind: &str) -> Vec<ThreadId> {
    let events = events.of(kind).into_iter();
    let ids = events.map(|event| ThreadId::parse(event["child_thread_id"].text()));
    ids.map(Result::unwrap).collect()
}

/// Each answer names its thread: children and their parent take from one script.
// T-TOL-03
#[test]
fn asynchronous_children_run_beside_their_parent_and_end_before_it() {
    let scene = scene("0.5");
    let slow = "- {calls: [{tool: demo_slow}]}\n".repeat(3);
    let ends = "- {text: Done.}\n".repeat(3);
    let script = format!("answers:\n- {{when: Begin, calls: [{SPAWN}, {SPAWN}]}}\n{slow}{ends}");
    let mut wanted = order("demo/parent");
    wanted.limits.turns = Some(3);
    let ran = scene.engine(&script).run(&wanted).unwrap().completed();
    assert_eq!(ran.cost.spawns, 2);
    let events = scene.events(&ran.thread);
    let mut started = children(&events, "child_thread_started");
    let mut ended = children(&events, "child_thread_ended");
    started.sort();
    ended.sort();
    assert_eq!((started.len(), &started), (2, &ended));
    // The answer that began them came back before they ended.
    let kinds = events.kinds();
    let first = |kind: &str| kinds.iter().position(|found| *found == kind);
    assert!(
        first("tool_call_result") < first("child_thread_ended"),
        "{kinds:?}"
    );
    let told = events.of("tool_call_result")[0]["output"].text();
    let told: Value = serde_json::from_str(told).unwrap();
    assert_eq!(told["status"], "running");
    // Their cost is in their parent's.
    for id in &started {
        let papers = scene.json(scene.project.thread(id).metadata());
        assert!(papers["cost"]["spend"].is_number(), "{papers}");
    }
}

// T-TOL-03
#[test]
fn asynchronous_children_of_a_thread_that_fails_are_cancelled_and_end() {
    let scene = scene("60");
    // The child calls, the parent fails: in any order of requests, one answer suits only one of
    // them.
    let script = format!(
        "answers:\n- {{when: Begin, calls: [{SPAWN}, {{tool: demo_slow, input: {{}}}}]}}\n\
         - {{when: I am a child, calls: [{{tool: demo_slow}}]}}\n"
    );
    let engine = scene.engine(&script);
    let wanted = order("demo/parent");
    let cancel = wanted.cancel.clone();
    let other = engine.clone();
    let child_calls = move || {
        let rows = listed(&other).into_iter();
        let children = rows.filter(|row| row.parent.is_some());
        let mut paths = children.map(|row| other.services.project.thread(&row.id).transcript());
        paths
            .any(|path| fs::read_to_string(path).is_ok_and(|text| text.contains("tool_call_start")))
    };
    let stop = std::thread::spawn(move || {
        while !child_calls() {
            std::thread::sleep(Duration::from_millis(20));
        }
        cancel.set();
    });
    let ran = engine.run(&wanted).unwrap().ended(Status::Cancelled);
    stop.join().unwrap();
    let ended = children(&scene.events(&ran.thread), "child_thread_ended");
    let [child] = ended.as_slice() else {
        panic!("{ended:?}");
    };
    assert_ne!(scene.events(child).count("thread_cancelled"), 0);
    assert_eq!(row(&engine, child).status, Ok(Status::Cancelled));
}

#[test]
fn no_more_children_run_at_once_than_the_settings_permit() {
    let scene = scene("0.3");
    let one = "concurrency: {max_concurrent_children: 1}\n";
    scene.file(".ai/config/agent/resilience.yaml", one);
    let waits = "{tool: rye_agent_threads_thread_directive, input: {directive_id: demo/child}}";
    let child = "- {calls: [{tool: demo_slow}]}\n- {text: Done.}\n".repeat(2);
    let script = format!(
        "answers:\n- {{when: Begin, calls: [{SPAWN}, {SPAWN}, {waits}]}}\n{child}- {{text: All.}}\n"
    );
    let ran = scene.engine(&script).run(&order("demo/parent")).unwrap();
    let events = scene.events(&ran.completed().thread);
    // One beside the parent, one refused, one that waited for its place.
    let results = events.of("tool_call_result");
    let refused = |result: &&&Value| {
        result["error"]
            .as_str()
            .is_some_and(|why| why.contains("children_exceeded: 1 of 1"))
    };
    assert_eq!(results.iter().filter(refused).count(), 1, "{results:?}");
    let kinds = events.kinds().into_iter();
    let of_children: Vec<_> = kinds
        .filter(|kind| kind.starts_with("child_thread"))
        .collect();
    let pair = ["child_thread_started", "child_thread_ended"];
    assert_eq!(of_children, [pair, pair].concat());
}

#[test]
fn no_more_threads_of_a_project_run_than_the_settings_permit() {
    let scene = scene("0");
    let one = "concurrency: {max_total_threads: 1}\n";
    scene.file(".ai/config/agent/resilience.yaml", one);
    let waits = "{tool: rye_agent_threads_thread_directive, input: {directive_id: demo/child}}";
    let script = format!("answers:\n- {{when: Begin, calls: [{waits}]}}\n- {{text: All.}}\n");
    let engine = scene.engine(&script);
    let ran = engine.run(&order("demo/parent")).unwrap().completed();
    let results = scene.events(&ran.thread);
    let refused = results.of("tool_call_result")[0]["error"].text();
    assert!(refused.contains("threads_exceeded: 1 of 1"), "{refused}");
    assert_eq!(listed(&engine).len(), 1);
}
