//! Which calls of a thread that is taken over have an unknown end.

use super::*;

const THREAD: &str = "demo/say-1";

fn line(kind: &str, payload: &Value) -> String {
    format!("{}\n", json!({"event_type": kind, "payload": payload}))
}

fn began(kind: &str, call: &str, key: &str) -> String {
    let key = format!("{THREAD}/{key}");
    line(
        kind,
        &json!({"call_id": call, "item_id": "demo/mail", "idempotency_key": key}),
    )
}

fn ended(kind: &str, call: &str, unknown: bool) -> String {
    line(
        kind,
        &json!({"call_id": call, "output": "o", "unknown": unknown}),
    )
}

/// Keys of the open calls, without the thread's name, and whether a hook would be asked again.
fn open(sealed: &str, tail: &str) -> (Vec<String>, bool) {
    let id = ThreadId::parse(THREAD).unwrap();
    let mut calls = Calls::default();
    calls.read(sealed.as_bytes(), &id, true);
    calls.read(tail.as_bytes(), &id, false);
    let keys = calls.open.values().map(|call| call.key.clone());
    let keys = keys
        .map(|key| key.replace(&format!("{THREAD}/"), ""))
        .collect();
    (keys, calls.asks_again())
}

// T-TOL-33
#[test]
fn calls_of_hooks_are_unresolved_as_other_calls_are() {
    let tool = began("tool_call_start", "a", "1/a#7");
    let hook = began("hook_call_start", "hook_1", "hook/1");
    let both = format!("{tool}{hook}");
    let key = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    // Open, in sealed lines or in a tail.
    assert_eq!(open(&both, ""), (key(&["1/a#7", "hook/1"]), true));
    assert_eq!(open("", &both), (key(&["1/a#7", "hook/1"]), true));
    // Answered under a seal; a tail answers nothing.
    let answers = |unknown: bool| {
        let tool = ended("tool_call_result", "a", unknown);
        format!("{tool}{}", ended("hook_call_result", "hook_1", unknown))
    };
    assert_eq!(
        open(&format!("{both}{}", answers(false)), ""),
        (key(&[]), false)
    );
    assert_eq!(
        open(&both, &answers(false)),
        (key(&["1/a#7", "hook/1"]), true)
    );
    // Answered as unknown: they stay unresolved, and the hook is not asked again.
    let unknown = format!("{both}{}", answers(true));
    assert_eq!(open(&unknown, ""), (key(&["1/a#7", "hook/1"]), false));
}

// T-TOL-33
#[test]
fn a_call_of_the_model_that_is_named_as_a_hooks_answers_none() {
    let hook = began("hook_call_start", "hook_1", "hook/1");
    let same = began("tool_call_start", "hook_1", "1/hook_1");
    let answered = ended("tool_call_result", "hook_1", false);
    let lines = format!("{hook}{same}{answered}");
    assert_eq!(open(&lines, ""), (vec!["hook/1".to_owned()], true));
    // No other key counts as a hook's.
    for key in ["hook/x", "hook/", "hooks/1", "hook/1/2"] {
        assert_eq!(
            open(&began("hook_call_start", "hook_9", key), ""),
            (Vec::new(), false)
        );
    }
}

// T-RUN-17
#[test]
fn a_result_ends_the_newest_call_of_its_id_in_whatever_turn() {
    let call = |turn: u64| began("tool_call_start", "a", &format!("{turn}/a"));
    // The ninth turn is unknown; in alphabetical order, the tenth comes before it.
    let lines = format!(
        "{}{}{}",
        call(9),
        call(10),
        ended("tool_call_result", "a", false)
    );
    assert_eq!(open(&lines, ""), (vec!["9/a".to_owned()], false));
}
