//! Telemetry of `OpenClaw`, hand-made.

use super::*;
use crate::testing::*;

const LINES: [&str; 9] = [
    r#"{"type":"message.in","channel":"chat","from":"x","content":"list","contentLength":4,"timestamp":1767225600000}"#,
    r#"{"type":"agent.start","sessionKey":"k","agentId":"main","prompt":"list","promptLength":4,"messages":[]}"#,
    r#"{"type":"tool.start","toolName":"exec","params":{"command":"ls"},"sessionKey":"k","agentId":"main"}"#,
    r#"{"type":"tool.end","toolName":"exec","durationMs":3,"success":true,"sessionKey":"k","agentId":"main"}"#,
    r#"{"type":"tool.start","toolName":"exec","params":{"command":"pwd"},"sessionKey":"sub","agentId":"sub"}"#,
    r#"{"type":"agent.start","sessionKey":"k","agentId":"main","prompt":"next","messages":[{"role":"user","content":"list","timestamp":1},{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"exec","arguments":{"command":"ls"}}],"usage":{"input":2,"output":5,"cacheRead":1,"cacheWrite":4},"model":"m","provider":"p"},{"role":"toolResult","toolCallId":"c","toolName":"exec","content":[{"type":"text","text":"a"}],"isError":false}]}"#,
    r#"{"type":"agent.start","sessionKey":"k","agentId":"main","prompt":"next","messages":[{"role":"user","content":"list","timestamp":1}]}"#,
    r#"{"type":"message.out","channel":"chat","to":"x","content":"One file.","success":true}"#,
    r#"{"type":"message.sending","channel":"chat","to":"x","content":"One file."}"#,
];

#[test]
fn a_conversation_that_events_repeat_is_carried_once() {
    let mapped = detected(NAME, LINES.join("\n"));
    // The prompt of the first event is a message of a later one.
    assert_eq!(
        roles(&mapped),
        "system tool user assistant tool user assistant"
    );
    assert_eq!(
        calls(&mapped),
        (2, 1),
        "a call of another agent is in no message"
    );
    let tokens = mapped.account.tokens;
    assert_eq!((tokens.input, tokens.output), (7, 5));
    assert_eq!(dropped_at(&mapped, "/messages/0"), ["duplicate 7"]);
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
}

#[test]
fn hostile_events_are_accounted_for() {
    hostile(NAME, &LINES);
}
