//! Which calls of a thread stay open, given its record, other lines and the ledger.

use super::*;

const THREAD: &str = "demo/say-1";

fn event(kind: &str, call: &str, key: &str) -> Value {
    let key = format!("{THREAD}/{key}");
    json!({"event_type": kind, "payload": {"call_id": call, "tool": "demo_mail", "item_id": "demo/mail",
                                           "idempotency_key": key}})
}

fn began(call: &str, key: &str) -> Value {
    event("tool_call_start", call, key)
}

fn ended(call: &str, unknown: bool) -> Value {
    json!({"event_type": "tool_call_result", "payload": {"call_id": call, "unknown": unknown}})
}

/// The ledger's steps of these keys.
fn steps(keys: &[&str]) -> Vec<(String, Value)> {
    let step = |key: &&str| {
        let key = format!("{THREAD}/{key}");
        (
            key.clone(),
            json!({"item_id": "by the ledger", "idempotency_key": key}),
        )
    };
    keys.iter().map(step).collect()
}

fn left(sealed: &[Value], unsealed: &[Value], ledger: &[&str]) -> Vec<Value> {
    let id = ThreadId::parse(THREAD).unwrap();
    let mut calls = Calls::default();
    sealed.iter().for_each(|event| calls.sealed(event));
    unsealed.iter().for_each(|event| calls.unsealed(&id, event));
    calls.open(&steps(ledger))
}

/// Keys of the calls that stay open, without the thread's name.
fn keys(open: &[Value]) -> Vec<&str> {
    let keys = open
        .iter()
        .filter_map(|call| call["idempotency_key"].as_str());
    keys.map(|key| &key[THREAD.len() + 1..]).collect()
}

#[test]
fn a_result_that_only_the_ledger_has_is_lost_and_its_call_open() {
    let open = left(&[], &[], &["1/a"]);
    assert_eq!(keys(&open), ["1/a"]);
    assert_eq!(open[0]["in_ledger"], true);
    // With its result under a seal it is not.
    assert!(left(&[began("a", "1/a"), ended("a", false)], &[], &["1/a"]).is_empty());
}

// T-RUN-17
#[test]
fn an_id_that_comes_again_ends_the_newest_call_of_that_name() {
    let lines = [
        began("a", "1/a"),
        ended("a", true),
        began("a", "2/a"),
        ended("a", false),
    ];
    assert_eq!(keys(&left(&lines, &[], &["1/a", "2/a"])), ["1/a"]);
    // A hook's call of the same name is another one.
    let hook = event("hook_call_start", "a", "hook/1");
    let lines = [hook, began("a", "1/a"), ended("a", false)];
    assert_eq!(keys(&left(&lines, &[], &[])), ["hook/1"]);
}

#[test]
fn a_call_that_is_made_again_under_its_key_is_open_until_each_has_a_result() {
    let once = [began("a", "1/a"), ended("a", false)];
    assert!(left(&once, &[], &["1/a"]).is_empty());
    assert_eq!(keys(&left(&once, &[], &["1/a", "1/a"])), ["1/a"]);
    assert_eq!(keys(&left(&once, &[began("a", "1/a")], &[])), ["1/a"]);
    let twice = [&once[..], &once[..]].concat();
    assert!(left(&twice, &[], &["1/a", "1/a"]).is_empty());
}

#[test]
fn what_is_named_already_is_not_named_again() {
    let named = event("tool_call_unresolved", "a", "1/a");
    assert!(
        left(
            &[began("a", "1/a"), named.clone()],
            &[began("a", "1/a")],
            &["1/a"]
        )
        .is_empty()
    );
    assert!(left(&[named], &[], &["1/a"]).is_empty());
}

// T-RUN-19
#[test]
fn of_lines_that_no_seal_covers_only_calls_of_the_thread_count() {
    let sealed = [began("a", "1/a")];
    // A result, or an event that marks a call as unresolved, which an attacker may have written.
    let forged = [ended("a", false), event("tool_call_unresolved", "a", "1/a")];
    let open = left(&sealed, &forged, &[]);
    assert_eq!(keys(&open), ["1/a"]);
    assert_eq!(open[0]["in_ledger"], false);
    let foreign = json!({"event_type": "tool_call_start", "payload": {"call_id": "b",
                         "idempotency_key": "demo/say-12/1/b"}});
    let nameless = json!({"event_type": "tool_call_start", "payload": {"call_id": "b"}});
    assert!(left(&[], &[foreign, nameless], &[]).is_empty());
    // Unsealed words are shortened or left out; where the ledger has the call, its words count.
    let mut long = began("c", "1/c");
    long["payload"]["item_id"] = "x".repeat(MAX_UNSEALED_NAME_CHARS + 1).into();
    long["payload"]["tool"] = "a\nb".into();
    let open = left(&[], &[long.clone()], &[]);
    assert_eq!(
        (&open[0]["item_id"], &open[0]["tool"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(left(&[], &[long], &["1/c"])[0]["item_id"], "by the ledger");
}

// T-RUN-19
#[test]
fn nobody_floods_a_record_with_calls_that_never_were() {
    let many: Vec<Value> = (0..MAX_UNRESOLVED_CALLS + 7)
        .map(|number| began("a", &format!("{number}/a")))
        .collect();
    assert_eq!(left(&[], &many, &[]).len(), MAX_UNRESOLVED_CALLS);
    // Those of the ledger are all named.
    let last = format!("{}/a", MAX_UNRESOLVED_CALLS + 6);
    let open = left(&[], &many, &[&last]);
    assert_eq!(keys(&open).last(), Some(&last.as_str()));
}
