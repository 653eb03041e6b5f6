//! Sessions of pi, hand-made: each rule of the table, and hostile files.

use super::*;
use crate::testing::*;

const HEAD: &str =
    r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/p"}"#;

fn session(lines: &[&str]) -> Mapped {
    detected(NAME, format!("{HEAD}\n{}\n", lines.join("\n")))
}

#[test]
fn messages_calls_and_results_are_turns() {
    let mapped = session(&[
        r#"{"type":"model_change","id":"m","parentId":null,"timestamp":"t","provider":"anthropic","modelId":"fast"}"#,
        r#"{"type":"message","id":"a","parentId":"m","timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"list","timestamp":1767225601000}}"#,
        r#"{"type":"message","id":"b","parentId":"a","timestamp":"2026-01-01T00:00:02.000Z","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"sig"},{"type":"text","text":"I look."},{"type":"toolCall","id":"c1","name":"bash","arguments":{"command":"ls"}}],"api":"x","provider":"anthropic","model":"big","usage":{"input":5,"output":7,"cacheRead":11,"cacheWrite":13,"totalTokens":36},"stopReason":"toolUse","timestamp":1767225602000}}"#,
        r#"{"type":"message","id":"c","parentId":"b","timestamp":"2026-01-01T00:00:03.000Z","message":{"role":"toolResult","toolCallId":"c1","toolName":"bash","content":[{"type":"text","text":"a.txt"}],"details":{"diff":"x"},"isError":true,"timestamp":1767225603000}}"#,
        r#"{"type":"message","id":"d","parentId":"c","timestamp":"2026-01-01T00:00:04.000Z","message":{"role":"bashExecution","command":"pwd","output":"/p","exitCode":0,"cancelled":false,"truncated":false,"timestamp":1767225604000}}"#,
    ]);
    assert_eq!(roles(&mapped), "user assistant tool tool");
    assert_eq!(calls(&mapped), (2, 2));
    let tokens = mapped.account.tokens;
    assert_eq!((tokens.input, tokens.output, tokens.cached), (29, 7, 11));
    let turns = mapped.turns();
    assert_eq!(turns[0].model.id.as_deref(), Some("fast"), "of the change");
    assert_eq!(turns[1].model.id.as_deref(), Some("big"));
    assert_eq!(kinds(&turns[1]), ["thinking", "text", "tool_call"]);
    assert_eq!(
        (word(&turns[1], "id"), word(&turns[1], "parent")),
        (Some("b"), Some("a"))
    );
    assert!(!turns[2].tool_results[0].ok);
    assert_eq!(turns[3].tool_calls[0].name, "bash");
    assert_eq!(dropped_at(&mapped, "/message/details"), ["view 5"]);
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
}

#[test]
fn entries_that_are_no_messages_are_turns_of_the_program() {
    let mapped = session(&[
        r#"{"type":"compaction","id":"a","parentId":null,"timestamp":"t","summary":"so far","firstKeptEntryId":"z","tokensBefore":9}"#,
        r#"{"type":"branch_summary","id":"b","parentId":"a","timestamp":"t","summary":"there","fromId":"a"}"#,
        r#"{"type":"custom_message","id":"c","parentId":"b","timestamp":"t","customType":"ext","content":"told","display":true}"#,
        r#"{"type":"custom","id":"d","parentId":"c","timestamp":"t","customType":"ext","data":{"x":1}}"#,
        r#"{"type":"session_info","id":"e","parentId":"d","timestamp":"t","name":"My work"}"#,
        r#"{"type":"message","id":"f","parentId":"e","timestamp":"t","message":{"role":"compactionSummary","summary":"again","tokensBefore":1,"timestamp":1}}"#,
        r#"{"type":"teleport","id":"g"}"#,
        r#"{"type":"message","id":"h","message":7}"#,
    ]);
    assert_eq!(roles(&mapped), "system system system system system system");
    let unmapped: Vec<_> = mapped
        .account
        .not_mapped()
        .map(|group| group.reason)
        .collect();
    assert_eq!(unmapped, ["no message", "unknown kind of entry: teleport"]);
    let turns = mapped.turns();
    assert_eq!(
        items(&turns[0])[0].get("text").unwrap().as_str(),
        Some("so far")
    );
    assert_eq!(word(&turns[0], "first_kept"), Some("z"));
    assert_eq!(
        items(&turns[4])[0].get("text").unwrap().as_str(),
        Some("My work")
    );
    assert_eq!(word(&turns[5], "kind"), Some("compactionSummary"));
}

// T-SCR-54
#[test]
fn hostile_sessions_are_accounted_for() {
    hostile(
        NAME,
        &[
            HEAD,
            r#"{"type":"message","message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"n","arguments":{}}],"usage":{"input":1}}}"#,
            r#"{"type":"message","message":{"role":"toolResult","toolCallId":"c","content":[]}}"#,
            r#"{"type":"message","message":{"role":"bashExecution","command":7,"output":{},"exitCode":"x"}}"#,
            r#"{"type":"compaction","summary":[]}"#,
        ],
    );
}
