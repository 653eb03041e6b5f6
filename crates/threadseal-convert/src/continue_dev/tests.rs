//! Sessions of Continue, hand-made.

use super::*;
use crate::testing::*;

const SESSION: &str = r#"{"sessionId":"s","title":"T","workspaceDirectory":"/p","history":[
    {"message":{"role":"user","content":"list"},"contextItems":[{"content":"fn a(){}","name":"a.rs","description":"file"}],"editorState":"list","promptLogs":[{"prompt":"list","completion":"x"}]},
    {"message":{"role":"assistant","content":"","toolCalls":[{"id":"c1","type":"function","function":{"name":"Bash","arguments":"{\"command\":\"ls\"}"}},{"id":"c2","type":"function","function":{"name":"Bash","arguments":"{}"}}],"usage":{"prompt_tokens":10,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}},"contextItems":[],"reasoning":{"active":false,"text":"hm","startAt":1},
     "toolCallStates":[{"toolCallId":"c1","toolCall":{"id":"c1"},"status":"done","parsedArgs":{},"output":[{"content":"a.txt","name":"Tool Result"}]},{"toolCallId":"c2","status":"errored","output":[{"content":"no"}]}]},
    {"message":{"role":"thinking","content":"again"},"contextItems":[]},
    {"message":{"role":"assistant","content":"One file."},"conversationSummary":"listed"},
    {"message":{"role":"tool","content":"late","toolCallId":"c9"}}
  ],"usage":{"totalCost":0.1,"promptTokens":25,"completionTokens":6}}"#;

#[test]
fn results_are_in_the_states_of_calls_or_in_messages() {
    let mapped = detected(NAME, SESSION);
    assert_eq!(roles(&mapped), "user assistant assistant assistant tool");
    assert_eq!(calls(&mapped), (2, 3));
    let tokens = mapped.account.tokens;
    assert_eq!(
        (tokens.input, tokens.output, tokens.cached),
        (25, 6, 4),
        "the session's sum"
    );
    let turns = mapped.turns();
    assert_eq!(kinds(&turns[0]), ["text", "part"]);
    let kinds_of_calls = [
        "thinking",
        "tool_call",
        "tool_call",
        "tool_result",
        "tool_result",
    ];
    assert_eq!(kinds(&turns[1]), kinds_of_calls);
    let ok: Vec<bool> = turns[1]
        .tool_results
        .iter()
        .map(|result| result.ok)
        .collect();
    assert_eq!(ok, [true, false]);
    assert_eq!(kinds(&turns[2]), ["thinking"]);
    assert_eq!(dropped_at(&mapped, "/editorState"), ["view 1"]);
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
}

#[test]
fn a_result_that_a_message_has_is_not_counted_again() {
    let source = SESSION.replace("\"toolCallId\":\"c9\"", "\"toolCallId\":\"c1\"");
    assert_eq!(calls(&detected(NAME, source)), (2, 2));
}

#[test]
fn hostile_sessions_are_accounted_for() {
    hostile(NAME, &[SESSION]);
}
