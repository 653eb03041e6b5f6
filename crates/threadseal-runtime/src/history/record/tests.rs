//! The facts in a record about calls, and about events that no seal covers.

use super::*;
use serde_json::json;

// T-TOL-33
#[test]
fn calls_of_the_model_and_of_hooks_are_unresolved_alike_and_named_once() {
    let event = |kind: &str, call: &str, key: &str, more: Value| {
        let mut payload = json!({"call_id": call, "idempotency_key": key});
        if let (Value::Object(payload), Value::Object(more)) = (&mut payload, more) {
            payload.extend(more);
        }
        json!({"event_type": kind, "payload": payload})
    };
    let keys = |events: &[Value]| {
        let found = unresolved_of(events.iter().cloned());
        let keys = found.iter().map(|call| call["idempotency_key"].clone());
        keys.collect::<Vec<_>>()
    };
    let (none, unknown) = (json!({}), json!({"unknown": true}));
    for (start, result, key) in [
        ("tool_call_start", "tool_call_result", "t/1/a"),
        ("hook_call_start", "hook_call_result", "t/hook/1"),
    ] {
        let start = event(start, "a", key, none.clone());
        let named = event("tool_call_unresolved", "a", key, none.clone());
        let ended = |more: &Value| event(result, "a", "", more.clone());
        assert_eq!(keys(&[start.clone(), ended(&none)]), [""; 0]);
        assert_eq!(keys(&[start.clone(), ended(&unknown)]), [key]);
        assert_eq!(
            keys(&[start.clone(), ended(&unknown), named.clone()]),
            [key]
        );
        let in_ledger = event("tool_call_unresolved", "a", key, json!({"in_ledger": true}));
        assert_eq!(keys(&[start.clone(), in_ledger.clone()]), [key]);
        assert_eq!(keys(&[in_ledger]), [key]);
        // The model's own call is in the conversation; a hook's is nowhere else.
        let open = keys(&[start, named]);
        assert_eq!(open.len(), usize::from(key == "t/hook/1"));
    }
    let hook = event("hook_call_start", "hook_1", "t/hook/1", none.clone());
    let same = event("tool_call_start", "hook_1", "t/1/hook_1", none.clone());
    let results = [
        event("tool_call_result", "hook_1", "", none),
        event("hook_call_result", "hook_1", "", unknown),
    ];
    assert_eq!(keys(&[&[hook, same], &results[..]].concat()), ["t/hook/1"]);
}
