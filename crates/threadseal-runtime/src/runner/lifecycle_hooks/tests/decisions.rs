//! Decisions of hooks, over whole threads: each way out, and the decisions that are not permitted.

use super::*;

fn decide(event: &str, condition: &str, params: &str) -> String {
    format!(
        "- id: own_{event}\n  event: {event}\n  layer: 0\n  condition: {condition}\n  action: {{primary: execute, item_type: tool, \
         item_id: rye/agent/threads/internal/control, params: {params}}}\n"
    )
}

/// Runs `demo/say`, which may read files and returns `path`, with these hooks of the project and at
/// most so many turns.
fn decided(hooks: &str, script: &str, turns: Option<u64>) -> (Ran, Events) {
    let scene = Scene::new();
    scene.file(".ai/config/agent/hooks.yaml", format!("hooks:\n{hooks}"));
    let fast = "retry:\n  max_retries: 2\n  policies: {exponential: {type: exponential, base: 0.001, max: 0.01}}\n";
    scene.file(".ai/config/agent/resilience.yaml", fast);
    let outputs = "<outputs><output name=\"path\" required=\"true\">p</output></outputs>";
    directive(&scene, "say", "", READER, outputs);
    let mut order = order("demo/say");
    order.limits.turns = turns;
    let ran = scene.engine(script).run(&order).unwrap();
    let events = scene.events(&ran.thread);
    (ran, events)
}

#[test]
fn decisions_of_hooks_end_suspend_and_repeat_as_the_table_says() {
    let script = format!("answers: [{READ}, {READ}, {{text: Done.}}]");
    let late = "{path: cost.turns, op: gte, value: 2}";
    // The event, condition and decision of a hook, and the limit of turns; the thread's status, turns
    // and error; an event, and how often the record has it.
    for [event, condition, params, most, status, turns, error, kind, count] in rows(
        "after_step => LATE => {action: suspend, reason: look} => => suspended => 2 => look => thread_suspended => 1
         after_step => LATE => {action: escalate} => => suspended => 2 => => escalation_requested => 1
         after_step => LATE => {action: fail, error: no more} => => error => 2 => no more => => 0
         after_step => LATE => {action: abort} => => cancelled => 2 => => => 0
         thread_started => {} => {action: fail, error: not today} => => error => 0 => => cognition_in => 0
         limit => {} => {action: fail, error: too much} => 1 => error => 1 => too much => limit_escalation_requested => 0
         limit => {} => {action: suspend} => 1 => suspended => 1 => => limit_escalation_requested => 0
         limit => {} => {action: escalate} => 1 => limit_reached => 1 => => limit_escalation_requested => 1
         error => {} => {action: fail} => 1 => limit_reached => 1 => => limit_escalation_requested => 1",
    ) {
        // A hook may fail or suspend a thread at a limit, and never lets it continue; without one the
        // program's escalates.
        let hook = decide(&event, &condition.replace("LATE", late), &params);
        let (ran, events) = decided(&hook, &script, most.parse().ok());
        let what = format!("{event} {params}: {ran:?}");
        let found = (ran.status.as_str(), ran.cost.turns.to_string());
        assert_eq!(found, (status.as_str(), turns), "{what}");
        assert!(error.is_empty() || ran.error == Some(error.clone()), "{what}");
        assert_eq!(events.count(&kind).to_string(), count, "{what}");
        if error == "look" {
            assert_eq!(events.one(&kind)["suspend_reason"], "approval");
        }
    }
}

// T-TOL-30
#[test]
fn an_error_is_tried_again_because_a_hook_says_so_but_never_without_end() {
    let odd = "{error: {status: 400, message: odd}}";
    let busy = "{error: {status: 529, message: busy}}";
    let back = "{calls: [{tool: directive_return, input: {path: p}}]}";
    let retry = decide("error", "{}", "{action: retry}");
    // An error that would pass without help can be held, too.
    let passes = "{path: classification.retryable, value: true}";
    let suspend = decide("error", passes, "{action: suspend}");
    for (hook, answers, status, classified) in [
        (&retry, vec![odd, odd, back], Status::Completed, 2),
        (&retry, vec![odd; 5], Status::Error, 3),
        (&suspend, vec![busy], Status::Suspended, 1),
    ] {
        let script = format!("answers: [{}]", answers.join(", "));
        let (ran, events) = decided(hook, &script, None);
        let ran = ran.ended(status);
        assert_eq!(events.count("error_classified"), classified, "{ran:?}");
        if status == Status::Suspended {
            assert_eq!(events.one("thread_suspended")["suspend_reason"], "error");
        }
    }
}

#[test]
fn a_return_that_a_hook_refuses_is_answered_and_may_come_again() {
    let bad = "{path: outputs.path, op: ne, value: good}";
    let hooks = decide(
        "directive_return",
        bad,
        "{action: retry, message: another path}",
    );
    let (ran, events) = decided(
        &hooks,
        "answers: [{calls: [{tool: directive_return, input: {path: bad}}]}, {calls: [{tool: directive_return, input: {path: good}}]}]",
        None,
    );
    assert_eq!(ran.outputs.unwrap()["path"], "good");
    assert_eq!(events.of("tool_call_result")[0]["error"], "another path");
    events.one("directive_return");
}

// T-TOL-28
#[test]
fn hooks_call_only_what_their_thread_may() {
    for (kind, id) in [
        ("tool", "rye/bash"),
        ("tool", "rye/file-system/write"),
        ("tool", "rye/agent/threads/thread_directive"),
        ("directive", "demo/say"),
        ("knowledge", "'${thread_id}'"),
    ] {
        // Knowledge is for the first message, and takes no `params`.
        let (event, params) = match kind {
            "knowledge" => ("thread_started", ""),
            _ => ("after_complete", ", params: {command: 'touch danger'}"),
        };
        let hook = format!(
            "- {{id: c, event: {event}, action: {{primary: execute, item_type: {kind}, item_id: {id}{params}}}}}\n"
        );
        let (ran, events) = decided(&hook, "answers: [{text: Done.}]", None);
        ran.completed();
        events.of("hook_failed")[0]["error"].text().has("no leave");
    }
}
