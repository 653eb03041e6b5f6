//! `duration_seconds` ends whatever a thread or a run of a graph waits for.

use crate::testing::prelude::*;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

const SERVER: &str = include_str!("../../toolbox/mcp/tests/server.py");
const SLOW: &str = "tool_type: command\ncommand: [sleep, \"60\"]\nenv: [PATH]\n";
const QUICK: &str = "tool_type: command\ncommand: [\"true\"]\nenv: [PATH]\n";
const PERMISSIONS: &str =
    "<permissions><execute><tool>demo.*</tool><tool>rye.agent.*</tool></execute></permissions>";
/// How long a thread of one second may take: the machine may be busy.
const AT_MOST: Duration = Duration::from_secs(20);

/// A web server that ends with the test.
struct Web(Child);

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A project whose directive `demo/slow` has this in its metadata, and the tools of the tests.
fn scene(metadata: &str) -> Scene {
    let scene = Scene::new();
    let outputs = "<outputs><output name=\"answer\" required=\"false\">a</output></outputs>";
    let metadata = format!("{PERMISSIONS}\n{metadata}");
    scene.directive("demo/slow", &metadata, outputs, "Wait.");
    scene.directive("demo/child", PERMISSIONS, "", "I am a child.");
    scene.file(".ai/tools/demo/slow.yaml", SLOW);
    scene.file(".ai/tools/demo/quick.yaml", QUICK);
    scene
}

/// A hook at this event that calls the slow tool, and decides where it may.
fn hook(event: &str) -> String {
    format!(
        "<hooks><hook id=\"h\" event=\"{event}\">\
         <action primary=\"execute\" item_type=\"tool\" item_id=\"demo/slow\" /></hook></hooks>"
    )
}

/// The thread is at its limit within a few seconds, and its record verifies; its events.
#[track_caller]
fn is_late(scene: &Scene, script: &str) -> Events {
    let mut wanted = order("demo/slow");
    wanted.limits.duration_seconds = Some(1);
    let engine = scene.engine(script);
    let began = SystemClock.elapsed();
    let ran = engine.run(&wanted).unwrap().ended(Status::LimitReached);
    assert!(SystemClock.elapsed() - began < AT_MOST, "{script}");
    let why = ran.error.unwrap();
    why.has("duration_seconds_exceeded");
    scene.verified(&ran.thread)
}

/// The result of the only call: it was stopped, and its effect is unknown.
#[track_caller]
fn is_unknown(result: &Value) {
    assert_eq!(result["unknown"], true, "{result}");
    result["error"].text().has("the time of the thread is over");
}

// T-TOL-40
#[test]
fn a_command_ends_with_the_time_of_its_thread() {
    let calls = "answers: [{calls: [{tool: demo_slow}, {tool: demo_quick}]}]";
    let events = is_late(&scene(""), calls);
    let results = events.of("tool_call_result");
    is_unknown(results[0]);
    // The other one did not run.
    results[1]["error"]
        .text()
        .has("the time of the thread is over");
    assert_eq!(results[1]["unknown"], Value::Null);
}

// T-TOL-40
#[test]
fn servers_end_with_the_time_of_their_thread() {
    let at_once = |scene: &Scene| {
        let script = "answers: [{calls: [{tool: demo_server, input: {text: x}}]}]";
        is_unknown(is_late(scene, script).one("tool_call_result"));
    };
    let declared = "tool_type: mcp\ntool: echo\nenv: [PATH]\n";
    let stdio = scene("");
    stdio.file("server.py", SERVER);
    let command = format!("{declared}command: [python3, server.py, stdio, hang, x]\n");
    stdio.file(".ai/tools/demo/server.yaml", command);
    at_once(&stdio);
    let http = scene("");
    http.file("server.py", SERVER);
    let mut served = Command::new("python3");
    served
        .arg(http.path("server.py"))
        .args(["http", "hang", "x"]);
    let mut web = Web(served.stdout(Stdio::piped()).spawn().unwrap());
    let mut port = String::new();
    let mut output = BufReader::new(web.0.stdout.take().unwrap());
    output.read_line(&mut port).unwrap();
    let url = format!("url: http://127.0.0.1:{}/mcp\n", port.trim());
    let text = format!("tool_type: mcp\ntool: echo\n{url}");
    http.seal(".ai/tools/demo/server.yaml", &text);
    at_once(&http);
}

// T-TOL-40
#[test]
fn hooks_end_with_the_time_of_their_thread() {
    for (event, script) in [
        ("thread_started", "answers: [{text: Done.}]"),
        (
            "after_step",
            "answers: [{calls: [{tool: demo_quick}]}, {text: Done.}]",
        ),
        ("error", "answers: [{error: {status: 529, message: busy}}]"),
        (
            "directive_return",
            "answers: [{calls: [{tool: directive_return, input: {answer: a}}]}, {text: Done.}]",
        ),
    ] {
        let events = is_late(&scene(&hook(event)), script);
        is_unknown(events.one("hook_call_result"));
        // What a guard did not let pass is not there.
        assert_eq!(events.count("directive_return"), 0, "{event}");
    }
}

// T-TOL-40
#[test]
fn children_end_with_the_time_of_their_parent() {
    // One that is asynchronous is waited for by a parent that has completed.
    for how in ["", ", async: true"] {
        let scene = scene("");
        let hook = hook("thread_started");
        scene.directive(
            "demo/child",
            &format!("{PERMISSIONS}{hook}"),
            "",
            "I am a child.",
        );
        let call = format!(
            "{{tool: rye_agent_threads_thread_directive, input: {{directive_id: demo/child{how}}}}}"
        );
        let events = is_late(
            &scene,
            &format!("answers: [{{calls: [{call}]}}, {{text: Done.}}]"),
        );
        let id = ThreadId::parse(events.one("child_thread_ended")["child_thread_id"].text());
        is_unknown(scene.verified(&id.unwrap()).one("hook_call_result"));
    }
}

// T-TOL-40
#[test]
fn a_wait_for_threads_ends_with_the_time_of_the_waiting_one() {
    let other = scene("");
    let slow = "answers: [{when: I am a child, calls: [{tool: demo_slow}]}]";
    let engine = other.engine(slow);
    let wanted = order("demo/child");
    let cancel = wanted.cancel.clone();
    let own = engine.clone();
    let running = thread::spawn(move || own.run(&wanted).unwrap());
    let id = (0..400).find_map(|_| {
        thread::sleep(Duration::from_millis(50));
        listed(&engine).first().map(|row| row.id.clone())
    });
    let id = id.unwrap();
    let all = "<permissions><execute><tool>rye.agent.*</tool></execute></permissions>";
    other.directive("demo/slow", all, "", "Wait.");
    let wait = format!("{{operation: wait_threads, thread_id: {id}, timeout: 60}}");
    let script =
        format!("answers: [{{calls: [{{tool: rye_agent_threads_orchestrator, input: {wait}}}]}}]");
    let events = is_late(&other, &script);
    events.one("tool_call_result")["output"]
        .text()
        .has("waiting_stopped");
    cancel.set();
    running.join().unwrap().ended(Status::Cancelled);
}

// T-TOL-40
#[test]
fn runs_of_graphs_end_with_their_time() {
    let call = "action: {primary: execute, item_type: tool, item_id: demo/slow}";
    let scene = scene("");
    for (name, nodes) in [
        ("action", format!("a: {{{call}}}")),
        (
            "foreach",
            format!("a: {{type: foreach, over: \"${{state.list}}\", as: it, {call}}}"),
        ),
        (
            "parallel",
            format!(
                "a: {{type: foreach, parallel: true, over: \"${{state.list}}\", as: it, {call}}}"
            ),
        ),
    ] {
        let text = format!(
            "tool_type: graph\npermissions: [rye.execute.tool.demo.*]\nconfig:\n  start: a\n  state: {{list: [1, 2]}}\n  nodes:\n    {nodes}\n"
        );
        scene.graph(&format!("g/{name}"), &text);
        let mut wanted = graph_order(&format!("g/{name}"), json!({}));
        wanted.limits.duration_seconds = Some(1);
        let began = SystemClock.elapsed();
        let engine = scene.engine(GLADLY);
        let ran = engine
            .run_graph(&wanted)
            .unwrap()
            .ended(Status::LimitReached);
        assert!(SystemClock.elapsed() - began < AT_MOST, "{name}");
        ran.error.unwrap().has("duration_seconds_exceeded");
        let events = scene.verified(&ran.thread);
        is_unknown(events.of("tool_call_result")[0]);
    }
}
