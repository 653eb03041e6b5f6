//! Message histories of Pydantic AI, hand-made.

use super::*;
use crate::testing::*;

const HISTORY: &str = r#"[
  {"kind":"request","instructions":"Be short.","timestamp":"2026-01-01T00:00:00Z","run_id":"r","parts":[
    {"part_kind":"system-prompt","content":"You list.","timestamp":"t"},
    {"part_kind":"user-prompt","content":["see",{"kind":"image-url","url":"http://x/y.png"}],"timestamp":"t"}]},
  {"kind":"response","model_name":"m","provider_name":"p","timestamp":"2026-01-01T00:00:01Z","provider_response_id":"id","finish_reason":"tool_call","usage":{"input_tokens":10,"output_tokens":4,"cache_read_tokens":3,"details":{"reasoning_tokens":2}},"parts":[
    {"part_kind":"thinking","content":"hm","id":"t1","signature":"s"},
    {"part_kind":"tool-call","tool_name":"ls","args":"{\"d\":\".\"}","tool_call_id":"c1"},
    {"part_kind":"tool-call","tool_name":"cat","args":{"f":"a"},"tool_call_id":"c2"}]},
  {"kind":"request","instructions":"Be short.","timestamp":"2026-01-01T00:00:02Z","parts":[
    {"part_kind":"tool-return","tool_name":"ls","content":["a"],"tool_call_id":"c1","timestamp":"t"},
    {"part_kind":"retry-prompt","tool_name":"cat","content":"bad","tool_call_id":"c2","timestamp":"t"},
    {"part_kind":"user-prompt","content":"go on","timestamp":"t"}]},
  {"kind":"response","model_name":"m","parts":[{"part_kind":"text","content":"One file."},{"part_kind":"novel","x":1}],"usage":{"request_tokens":1,"response_tokens":2}}]"#;

#[test]
fn parts_of_one_role_are_one_turn() {
    let mapped = detected(NAME, HISTORY);
    assert_eq!(
        roles(&mapped),
        "system user assistant tool user assistant",
        "instructions are told once"
    );
    assert_eq!(calls(&mapped), (2, 2));
    let tokens = mapped.account.tokens;
    assert_eq!((tokens.input, tokens.output), (11, 6));
    let turns = mapped.turns();
    assert_eq!(kinds(&turns[0]), ["text", "text"]);
    assert_eq!(turns[2].model.id.as_deref(), Some("m"));
    assert_eq!(turns[2].tool_calls[0].args, Some(json(r#"{"d":"."}"#)));
    let ok: Vec<bool> = turns[3]
        .tool_results
        .iter()
        .map(|result| result.ok)
        .collect();
    assert_eq!(ok, [true, false]);
    assert_eq!(kinds(&turns[5]), ["text", "part"]);
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
}

#[test]
fn a_message_on_each_line_is_the_same() {
    let list = json(HISTORY);
    let lines: Vec<String> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|line| String::from_utf8(threadseal_core::canon::python::rye_line(line)).unwrap())
        .collect();
    let mapped = detected(NAME, lines.join("\n"));
    assert_eq!(roles(&mapped), "system user assistant tool user assistant");
}

#[test]
fn hostile_histories_are_accounted_for() {
    hostile(NAME, &[HISTORY]);
}
