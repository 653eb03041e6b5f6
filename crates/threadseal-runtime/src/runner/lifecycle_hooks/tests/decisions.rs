//! Decisions of hooks, over whole threads: each way out, and the decisions that are not permitted.

use super::*;

fn decide(event: &str, condition: &str, params: &str) -> String {
    format!(
        "- id: own_{event}\n  event: {event}\n  layer: 0\n  condition: {condition}\n  action: {{primary: execute, item_type: tool, \
         item_id: rye/agent/threads/internal/control, params: {params}}}\n"
    )
}

/// Runs `demo/say`, which may read files and returns `path`, with these hooks of the project.
fn decided(hooks: &str, script: &str, limits: &Value) -> (Ran, Vec<Value>) {
    let bench = Bench::new();
    bench.file(".ai/config/agent/hooks.yaml", &format!("hooks:\n{hooks}"));
    let fast = "retry:\n  max_retries: 2\n  policies: {exponential: {type: exponential, base: 0.001, max: 0.01}}\n";
    bench.file(".ai/config/agent/resilience.yaml", fast);
    let rights = "<permissions><execute><tool>rye.file-system.read</tool></execute></permissions>";
    let outputs = "<outputs><output name=\"path\" required=\"true\">p</output></outputs>";
    directive(&bench, "say", "", rights, outputs);
    let engine = bench.engine(script);
    let mut order = order("say");
    order.limits = crate::limit::Limits::from_json(limits).unwrap();
    let ran = engine.run(&order).unwrap();
    let lines = bench.lines(&ran.thread);
    (ran, lines)
}

#[test]
fn decisions_of_hooks_end_suspend_and_repeat_as_the_table_says() {
    let script = format!("answers: [{READ}, {READ}, {{text: Done.}}]");
    let run = |event: &str, condition: &str, params: &str| {
        let hooks = decide(event, condition, params);
        decided(&hooks, &script, &json!({}))
    };
    let late = "{path: cost.turns, op: gte, value: 2}";
    let (ran, lines) = run("after_step", late, "{action: suspend, reason: look}");
    assert_eq!((ran.status, ran.cost.turns), (Status::Suspended, 2));
    assert_eq!(ran.error.as_deref(), Some("look"));
    assert_eq!(
        payloads(&lines, "thread_suspended")[0]["suspend_reason"],
        "approval"
    );
    let (ran, lines) = run("after_step", late, "{action: escalate}");
    assert_eq!(ran.status, Status::Suspended);
    assert_eq!(payloads(&lines, "escalation_requested").len(), 1);
    let (ran, _) = run("after_step", late, "{action: fail, error: no more}");
    assert_eq!(
        (ran.status, ran.error.as_deref()),
        (Status::Error, Some("no more"))
    );
    let (ran, _) = run("after_step", late, "{action: abort}");
    assert_eq!(ran.status, Status::Cancelled);
    let (ran, lines) = run("thread_started", "{}", "{action: fail, error: not today}");
    assert_eq!((ran.status, ran.cost.turns), (Status::Error, 0));
    assert!(payloads(&lines, "cognition_in").is_empty());
    // A limit: it may fail instead of waiting, and never continues.
    let hooks = decide("limit", "{}", "{action: fail, error: too much}");
    let (ran, lines) = decided(&hooks, &script, &json!({"turns": 1}));
    assert_eq!(
        (ran.status, ran.error.as_deref()),
        (Status::Error, Some("too much"))
    );
    assert!(payloads(&lines, "limit_escalation_requested").is_empty());
    let hooks = decide("limit", "{}", "{action: suspend}");
    let (ran, lines) = decided(&hooks, &script, &json!({"turns": 1}));
    assert_eq!(ran.status, Status::Suspended);
    assert!(payloads(&lines, "limit_escalation_requested").is_empty());
    // Without a hook of its own the program's escalates.
    let (ran, lines) = decided(
        &decide("error", "{}", "{action: fail}"),
        &script,
        &json!({"turns": 1}),
    );
    assert_eq!(ran.status, Status::Suspended);
    assert_eq!(payloads(&lines, "limit_escalation_requested").len(), 1);
}

// T-TOL-30
#[test]
fn an_error_is_tried_again_because_a_hook_says_so_but_never_without_end() {
    let error = "{error: {status: 400, message: odd}}";
    let retry = decide("error", "{}", "{action: retry}");
    let script = format!(
        "answers: [{error}, {error}, {{calls: [{{tool: directive_return, input: {{path: p}}}}]}}]"
    );
    let (ran, lines) = decided(&retry, &script, &json!({}));
    assert_eq!(ran.status, Status::Completed, "{:?}", ran.error);
    assert_eq!(payloads(&lines, "error_classified").len(), 2);
    let script = format!("answers: [{error}, {error}, {error}, {error}, {error}]");
    let (ran, lines) = decided(&retry, &script, &json!({}));
    assert_eq!(ran.status, Status::Error);
    assert_eq!(payloads(&lines, "error_classified").len(), 3);
    // An error that would pass without help can be held, too.
    let suspend = decide(
        "error",
        "{path: classification.retryable, value: true}",
        "{action: suspend}",
    );
    let (ran, lines) = decided(
        &suspend,
        "answers: [{error: {status: 529, message: busy}}]",
        &json!({}),
    );
    assert_eq!(ran.status, Status::Suspended);
    assert_eq!(
        payloads(&lines, "thread_suspended")[0]["suspend_reason"],
        "error"
    );
}

#[test]
fn a_return_that_a_hook_refuses_is_answered_and_may_come_again() {
    let hooks = decide(
        "directive_return",
        "{path: outputs.path, op: ne, value: good}",
        "{action: retry, message: another path}",
    );
    let back =
        |path: &str| format!("{{calls: [{{tool: directive_return, input: {{path: {path}}}}}]}}");
    let script = format!("answers: [{}, {}]", back("bad"), back("good"));
    let (ran, lines) = decided(&hooks, &script, &json!({}));
    assert_eq!(ran.outputs.unwrap()["path"], "good");
    let results = payloads(&lines, "tool_call_result");
    assert_eq!(results[0]["error"], "another path");
    assert_eq!(payloads(&lines, "directive_return").len(), 1);
}

// T-TOL-28
#[test]
fn hooks_call_only_what_their_thread_may() {
    let call = |kind: &str, id: &str| {
        format!(
            "- {{id: c, event: after_complete, action: {{primary: execute, item_type: {kind}, item_id: {id}, params: {{command: 'touch danger'}}}}}}\n"
        )
    };
    let script = "answers: [{text: Done.}]";
    for (kind, id) in [
        ("tool", "rye/bash"),
        ("tool", "rye/file-system/write"),
        ("tool", "rye/agent/threads/thread_directive"),
        ("directive", "demo/say"),
        ("knowledge", "'${thread_id}'"),
    ] {
        let (ran, lines) = decided(&call(kind, id), script, &json!({}));
        assert_eq!(ran.status, Status::Completed);
        let failed = payloads(&lines, "hook_failed");
        assert!(
            failed[0]["error"].as_str().unwrap().contains("no leave"),
            "{kind} {id} {failed:?}"
        );
    }
}
