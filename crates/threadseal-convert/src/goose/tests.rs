//! Sessions of Goose, hand-made.

use super::*;
use crate::testing::*;

const MESSAGES: [&str; 3] = [
    r#"{"id":"m1","role":"user","created":1767225600,"content":[{"type":"text","text":"list"}],"metadata":{"userVisible":true}}"#,
    r#"{"id":"m2","role":"assistant","created":1767225601,"content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"toolRequest","id":"c1","toolCall":{"status":"success","value":{"name":"shell","arguments":{"command":"ls"}}}},{"type":"toolRequest","id":"c2","toolCall":{"status":"error","error":"no such tool"}}]}"#,
    r#"{"id":"m3","role":"user","created":1767225602,"content":[{"type":"toolResponse","id":"c1","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"a"}],"isError":true}}},{"type":"toolResponse","id":"c2","toolResult":{"status":"error","error":"no"}}]}"#,
];

#[test]
fn the_export_and_the_lines_are_one_conversation() {
    let export = format!(
        r#"{{"id":"s","working_dir":"/p","name":"n","total_tokens":9,"accumulated_input_tokens":40,"accumulated_output_tokens":6,"conversation":[{}]}}"#,
        MESSAGES.join(",")
    );
    let lines = format!(
        "{}\n{}\n",
        r#"{"working_dir":"/p","description":"d","message_count":3,"input_tokens":40,"output_tokens":6}"#,
        MESSAGES.join("\n")
    );
    for source in [export, lines] {
        let mapped = detected(NAME, source);
        assert_eq!(roles(&mapped), "user assistant tool");
        assert_eq!(calls(&mapped), (2, 2));
        let tokens = mapped.account.tokens;
        assert_eq!((tokens.input, tokens.output), (40, 6));
        let turns = mapped.turns();
        assert_eq!(kinds(&turns[1]), ["thinking", "tool_call", "tool_call"]);
        assert!(turns[2].tool_results.iter().all(|result| !result.ok));
        assert_eq!(turns[0].timestamp_ns, Some(1_767_225_600_000_000_000));
        assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
    }
}

#[test]
fn hostile_sessions_are_accounted_for() {
    hostile(NAME, &MESSAGES);
}
