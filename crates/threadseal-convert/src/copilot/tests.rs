//! Sessions of Copilot CLI, hand-made.

use super::*;
use crate::testing::*;

const START: &str = r#"{"type":"session.start","data":{"sessionId":"s","version":1,"selectedModel":"m","context":{"cwd":"/p"}},"id":"e1","timestamp":"2026-01-01T00:00:00.000Z","parentId":null}"#;
const USER: &str = r#"{"type":"user.message","data":{"content":"list","transformedContent":"<now/>list","attachments":[],"interactionId":"i"},"id":"e2","timestamp":"2026-01-01T00:00:01.000Z","parentId":"e1"}"#;
const USAGE: &str = r#"{"type":"session.usage_record","data":{"usage":{"model":"m","inputTokens":10,"outputTokens":4,"cacheReadTokens":3,"apiCallId":"q"}},"id":"e3","timestamp":"2026-01-01T00:00:02.000Z","parentId":"e2"}"#;
const ANSWER: &str = r#"{"type":"assistant.message","data":{"messageId":"a","content":"","reasoningText":"hm","toolRequests":[{"toolCallId":"c1","name":"bash","arguments":{"command":"ls"},"type":"function"}],"apiCallId":"q","outputTokens":4},"id":"e4","timestamp":"2026-01-01T00:00:02.000Z","parentId":"e3"}"#;
const BEGUN: &str = r#"{"type":"tool.execution_start","data":{"toolCallId":"c1","toolName":"bash","arguments":{"command":"ls"}},"id":"e5","timestamp":"2026-01-01T00:00:03.000Z","parentId":"e4"}"#;
const DONE: &str = r#"{"type":"tool.execution_complete","data":{"toolCallId":"c1","success":true,"shellExecution":{"exitCode":3},"result":{"content":"a.txt","detailedContent":"a.txt!"},"toolTelemetry":{"x":1}},"id":"e6","timestamp":"2026-01-01T00:00:04.000Z","parentId":"e5"}"#;
const END: &str = r#"{"type":"session.shutdown","data":{"accountingSnapshot":{"modelMetrics":{"m":{"usage":{"inputTokens":10,"outputTokens":4}}}}},"id":"e7","timestamp":"2026-01-01T00:00:05.000Z","parentId":"e6"}"#;

#[test]
fn a_call_of_a_message_and_its_events_are_one() {
    let lines = [START, USER, USAGE, ANSWER, BEGUN, DONE, END].join("\n");
    let mapped = detected(NAME, lines);
    assert_eq!(roles(&mapped), "system user assistant tool system");
    assert_eq!(calls(&mapped), (1, 1));
    let tokens = mapped.account.tokens;
    assert_eq!(
        (tokens.input, tokens.output, tokens.cached),
        (10, 4, 3),
        "once"
    );
    let turns = mapped.turns();
    assert_eq!(kinds(&turns[2]), ["thinking", "tool_call"]);
    assert!(
        source(&turns[2], "tokens").is_some(),
        "of the request that it names"
    );
    assert!(!turns[3].tool_results[0].ok, "the command failed");
    assert_eq!(turns[1].model.id.as_deref(), Some("m"));
    assert_eq!(dropped_at(&mapped, "/data/transformedContent"), ["view 2"]);
    assert_eq!(dropped_at(&mapped, ""), ["duplicate 5"]);
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
}

#[test]
fn tokens_come_from_the_surest_place_that_has_them() {
    let ends = detected(NAME, [START, USER, ANSWER, END, END].join("\n"));
    assert_eq!(
        ends.account.tokens.input, 10,
        "the last end includes the first"
    );
    let smaller = END.replace("\"inputTokens\":10", "\"inputTokens\":2");
    let several = detected(NAME, [START, USER, ANSWER, END, &smaller].join("\n"));
    assert_eq!(several.account.tokens.input, 12);
    let messages = detected(NAME, [START, USER, ANSWER].join("\n"));
    assert_eq!(messages.account.tokens.output, 4);
    let alone = detected(NAME, [START, USER, USAGE].join("\n"));
    assert_eq!(alone.account.tokens.input, 10);
    let last = &alone.turns()[2];
    assert!(source(last, "usage").is_some(), "kept without a message");
}

#[test]
fn an_unknown_event_is_carried_and_one_without_data_is_unmapped() {
    let lines = [
        START,
        USER,
        r#"{"type":"session.teleported","data":{"to":"moon"},"id":"e8"}"#,
        r#"{"type":"tool.execution_start","data":{"toolCallId":"z","toolName":"sub","arguments":{}},"id":"e9"}"#,
        r#"{"type":"broken"}"#,
    ];
    let mapped = detected(NAME, lines.join("\n"));
    assert_eq!(roles(&mapped), "system user system tool");
    assert_eq!(mapped.account.unmapped_lines(), 1);
    assert_eq!(word(&mapped.turns()[2], "kind"), Some("session.teleported"));
}

#[test]
fn hostile_sessions_are_accounted_for() {
    hostile(NAME, &[START, USER, USAGE, ANSWER, BEGUN, DONE, END]);
}
