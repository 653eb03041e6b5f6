//! Sessions of Qwen Code, hand-made.

use super::*;
use crate::testing::*;

const USER: &str = r#"{"uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-01-01T00:00:00.000Z","type":"user","cwd":"/p","version":"1","message":{"role":"user","parts":[{"text":"list"}]}}"#;
const CALL: &str = r#"{"uuid":"a1","parentUuid":"u1","sessionId":"s","timestamp":"2026-01-01T00:00:01.000Z","type":"assistant","cwd":"/p","version":"1","model":"q","message":{"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"id":"c1","name":"ls","args":{"d":"."}}}]},"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":2,"totalTokenCount":15,"cachedContentTokenCount":4}}"#;
const RESULT: &str = r#"{"uuid":"r1","parentUuid":"a1","sessionId":"s","timestamp":"2026-01-01T00:00:02.000Z","type":"tool_result","cwd":"/p","version":"1","message":{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"a"}}}]},"toolCallResult":{"callId":"c1","status":"error","resultDisplay":"a"}}"#;

fn system(subtype: &str, payload: &str) -> String {
    format!(
        r#"{{"uuid":"{subtype}","parentUuid":"r1","sessionId":"s","timestamp":"2026-01-01T00:00:03.000Z","type":"system","cwd":"/p","version":"1","subtype":"{subtype}","systemPayload":{payload}}}"#
    )
}

#[test]
fn a_turn_with_a_call_is_not_taken_for_one_of_claude_code() {
    let mapped = detected(NAME, format!("{USER}\n{CALL}\n{RESULT}\n{RESULT}\n"));
    assert_eq!(roles(&mapped), "user assistant tool");
    assert_eq!(calls(&mapped), (1, 1));
    let tokens = mapped.account.tokens;
    assert_eq!(
        (tokens.input, tokens.output),
        (10, 5),
        "thoughts are a part"
    );
    let turns = mapped.turns();
    assert_eq!(kinds(&turns[1]), ["thinking", "tool_call"]);
    assert_eq!(turns[1].model.id.as_deref(), Some("q"));
    assert!(!turns[2].tool_results[0].ok, "the status of the program");
    assert_eq!(word(&turns[2], "parent"), Some("a1"));
    assert_eq!(
        dropped_at(&mapped, "/toolCallResult/resultDisplay"),
        ["view 3"]
    );
    assert_eq!(dropped_at(&mapped, ""), ["duplicate 4"]);
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
}

#[test]
fn thoughts_beside_the_output_are_output() {
    let apart = CALL.replace("\"totalTokenCount\":15", "\"totalTokenCount\":17");
    let mapped = detected(NAME, format!("{USER}\n{apart}\n"));
    assert_eq!(mapped.account.tokens.output, 7);
}

#[test]
fn records_of_the_program_are_bookkeeping_or_turns() {
    let lines = [
        USER.to_owned(),
        system("ui_telemetry", r#"{"uiEvent":{"response_text":"x"}}"#),
        system(
            "custom_title",
            r#"{"customTitle":"Lists","titleSource":"auto"}"#,
        ),
        system(
            "slash_command",
            r#"{"phase":"result","rawCommand":"/about","outputHistoryItems":[{"type":"about"}]}"#,
        ),
        system(
            "chat_compression",
            r#"{"info":{"originalTokenCount":9},"compressedHistory":[{"role":"user","parts":[{"text":"list"}]},{"role":"model","parts":[{"text":"summary"}]}]}"#,
        ),
        r#"{"uuid":"x","sessionId":"s","type":"hologram","message":{"parts":[]}}"#.to_owned(),
    ];
    let mapped = detected(NAME, lines.join("\n"));
    assert_eq!(roles(&mapped), "user system system system");
    assert_eq!(dropped_at(&mapped, ""), ["metadata 2"]);
    let compressed = "/systemPayload/compressedHistory/0";
    assert_eq!(dropped_at(&mapped, compressed), ["duplicate 5"]);
    assert_eq!(kinds(&mapped.turns()[3]), ["part", "part"]);
    assert_eq!(mapped.account.unmapped_lines(), 1);
}

#[test]
fn hostile_sessions_are_accounted_for() {
    let compressed = system("chat_compression", r#"{"compressedHistory":7}"#);
    hostile(NAME, &[USER, CALL, RESULT, &compressed]);
}
