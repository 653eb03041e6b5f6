//! Sessions of Cline, hand-made.

use super::*;
use crate::testing::*;

const SESSION: &str = r#"{"version":1,"updated_at":"t","agent":"lead","sessionId":"s","system_prompt":"Be good.","messages":[
    {"id":"m1","role":"user","content":[{"type":"text","text":"fix"},{"type":"file","path":"a.rs","content":"fn a(){}"}],"ts":1767225600000},
    {"id":"m2","role":"assistant","content":[{"type":"text","text":"ok"},{"type":"tool_use","id":"c1","name":"editor","input":{"path":"a.rs"}}],"ts":1767225601000,"modelInfo":{"id":"x/y","provider":"cline","family":"y"},"metrics":{"inputTokens":30,"outputTokens":4,"cacheReadTokens":20,"cacheWriteTokens":0,"cost":0.5}},
    {"id":"m3","role":"user","content":[{"type":"tool_result","tool_use_id":"c1","name":"editor","content":"done"}],"ts":1767225602000},
    {"role":"user","content":[{"type":"text","text":"Context summary:\n\nall is well"}],"metadata":{"kind":"compaction_summary","summary":"all is well"},"id":"m4"},
    7]}"#;

#[test]
fn messages_have_their_calls_tokens_and_model() {
    let mapped = detected(NAME, SESSION);
    assert_eq!(roles(&mapped), "system user assistant tool user");
    assert_eq!(calls(&mapped), (1, 1));
    let tokens = mapped.account.tokens;
    assert_eq!((tokens.input, tokens.output, tokens.cached), (30, 4, 20));
    let turns = mapped.turns();
    assert_eq!(kinds(&turns[1]), ["text", "file"]);
    assert_eq!(turns[2].model.id.as_deref(), Some("x/y"));
    assert_eq!(turns[2].timestamp_ns, Some(1_767_225_601_000_000_000));
    assert_eq!(dropped_at(&mapped, "/metadata/summary"), ["duplicate 4"]);
    assert_eq!(mapped.account.unmapped_lines(), 1);
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
}

#[test]
fn hostile_sessions_are_accounted_for() {
    hostile(NAME, &[SESSION]);
}
