//! Transcripts of threads, hand-made: each rule of the table, and hostile files.

use super::*;
use crate::testing::*;

const LINES: [&str; 10] = [
    r#"{"timestamp":1771356405.001000,"thread_id":"demo/1","event_type":"thread_started","salt":"01","payload":{"format":"threadseal/1","directive":"demo/say"}}"#,
    r#"{"timestamp":1771356405.002000,"thread_id":"demo/1","event_type":"cognition_in","payload":{"text":"list","role":"user"}}"#,
    r#"{"timestamp":1771356406.0,"thread_id":"demo/1","event_type":"cognition_reasoning","payload":{"text":"hm"}}"#,
    r#"{"timestamp":1771356406.5,"thread_id":"demo/1","event_type":"cognition_out","payload":{"text":"I look.","model":"vendor/big","usage":{"input_tokens":15,"cached_tokens":5,"cache_write_tokens":2,"output_tokens":7,"reasoning_tokens":3}}}"#,
    r#"{"timestamp":1771356407.0,"thread_id":"demo/1","event_type":"tool_call_start","payload":{"tool":"rye_bash","call_id":"c1","input":{"command":"ls"},"item_id":"rye/bash","idempotency_key":"demo/1/1/c1"}}"#,
    r#"{"timestamp":1771356408.0,"thread_id":"demo/1","event_type":"tool_call_result","payload":{"call_id":"c1","output":"no","error":"exit code 1","duration_ms":9}}"#,
    r#"{"timestamp":1771356409.0,"thread_id":"demo/1","event_type":"hook_call_start","payload":{"hook":"h","event":"after_step","call_id":"h1","primary":"execute","item_type":"tool","item_id":"demo/t","input":{"n":1},"idempotency_key":"k"}}"#,
    r#"{"timestamp":1771356409.5,"thread_id":"demo/1","event_type":"hook_call_result","payload":{"hook":"h","call_id":"h1","output":"fine"}}"#,
    r#"{"timestamp":1771356410.0,"thread_id":"demo/1","event_type":"checkpoint","payload":{"turn":1,"byte_offset":9}}"#,
    r#"{"timestamp":1771356411.0,"thread_id":"demo/1","event_type":"thread_completed","payload":{"cost":{"turns":1}}}"#,
];

#[test]
fn answers_calls_and_results_are_turns_with_the_same_figures() {
    let mapped = detected(NAME, LINES.join("\n"));
    assert_eq!(
        roles(&mapped),
        "system user assistant tool tool tool system"
    );
    assert_eq!(calls(&mapped), (2, 2));
    let tokens = mapped.account.tokens;
    assert_eq!(
        [tokens.input, tokens.output, tokens.cached, tokens.reasoning],
        [15, 7, 5, 3]
    );
    let turns = mapped.turns();
    let answer = &turns[2];
    assert_eq!(kinds(answer), ["thinking", "text", "tool_call"]);
    assert_eq!(answer.model.id.as_deref(), Some("vendor/big"));
    assert_eq!(answer.timestamp_ns, Some(1_771_356_406_000_000_000));
    assert_eq!(word(answer, "session"), Some("demo/1"));
    assert_eq!(answer.tool_calls[0].name, "rye_bash");
    assert!(!turns[3].tool_results[0].ok);
    assert_eq!(turns[4].tool_calls[0].name, "demo/t");
    assert_eq!(word(&turns[6], "kind"), Some("thread_completed"));
    // Nothing but seals, salts and names of rules is left out.
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
}

#[test]
fn a_result_that_is_asked_again_is_there_once_and_other_members_are_kept() {
    let asked = r#"{"timestamp":1,"thread_id":"t","event_type":"cognition_in","payload":{"text":"no","role":"tool"}}"#;
    let odd = r#"{"timestamp":2,"thread_id":"t","event_type":"cognition_out","payload":{"text":"Done.","truncated":true,"mood":"calm"}}"#;
    let late =
        r#"{"timestamp":3,"thread_id":"t","event_type":"tool_call_start","payload":{"tool":"x"}}"#;
    let mapped = detected(NAME, [asked, odd, late].join("\n"));
    assert_eq!(roles(&mapped), "assistant");
    let turns = mapped.turns();
    assert_eq!(word(&turns[0], "stop_reason"), Some("truncated"));
    assert_eq!(
        source(&turns[0], "payload"),
        Some(&json(r#"{"mood":"calm"}"#))
    );
    assert_eq!(turns[0].tool_calls[0].id, "call-3");
}

#[test]
fn no_source_makes_the_mapping_panic() {
    hostile(NAME, &LINES);
}
