//! Sessions and states of the `OpenAI` Agents SDK, hand-made.

use super::*;
use crate::testing::*;

const ITEMS: &str = r#"[{"role":"user","content":"run"},
    {"type":"reasoning","id":"r1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"X"},
    {"type":"function_call","id":"f1","call_id":"c1","name":"bash","arguments":"{\"command\":\"ls\"}","status":"completed"},
    {"type":"function_call_output","call_id":"c1","output":"a.txt"},
    {"type":"message","id":"m1","role":"assistant","content":[{"type":"output_text","text":"One file.","annotations":[]}],"status":"completed"},
    {"type":"web_search_call","id":"w1","status":"completed","action":{"query":"x"}}]"#;

#[test]
fn items_of_the_model_that_follow_one_another_are_one_turn() {
    let mapped = detected(NAME, ITEMS);
    assert_eq!(roles(&mapped), "user assistant tool assistant");
    assert_eq!(calls(&mapped), (2, 1));
    let turns = mapped.turns();
    assert_eq!(
        kinds(&turns[1]),
        ["thinking", "redacted_thinking", "tool_call"]
    );
    assert_eq!(
        turns[1].tool_calls[0].args,
        Some(json(r#"{"command":"ls"}"#))
    );
    assert_eq!(kinds(&turns[3]), ["text", "tool_call"]);
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
}

#[test]
fn rows_of_a_session_s_table_contain_items() {
    let list = json(ITEMS);
    let rows: Vec<String> = (1..)
        .zip(list.as_array().unwrap())
        .map(|(id, item)| {
            let text = threadseal_core::canon::python::rye_line(item);
            let text = Value::from(String::from_utf8(text).unwrap());
            let quoted = threadseal_core::canon::python::rye_line(&text);
            let quoted = String::from_utf8(quoted).unwrap();
            format!(r#"{{"id":{id},"session_id":"s","message_data":{quoted},"created_at":"t"}}"#)
        })
        .collect();
    let mapped = detected(NAME, rows.join("\n"));
    assert_eq!(roles(&mapped), "user assistant tool assistant");
    assert_eq!(calls(&mapped), (2, 1));
    assert_eq!(word(&mapped.turns()[0], "session"), Some("s"));
}

const STATE: &str = r#"{"$schemaVersion":"1.9","current_turn":1,"current_agent":{"name":"a"},"original_input":"run",
  "context":{"usage":{"requests":2,"input_tokens":30,"output_tokens":5,"input_tokens_details":[{"cached_tokens":3}]}},
  "generated_items":[
    {"type":"tool_call_item","agent":{"name":"a"},"raw_item":{"type":"function_call","id":"f","call_id":"c","name":"n","arguments":"{}"},"tool_name":"n"},
    {"type":"tool_call_output_item","agent":{"name":"a"},"output":"same","raw_item":{"type":"function_call_output","call_id":"c","output":"same"}},
    {"type":"tool_call_output_item","agent":{"name":"a"},"output":"same","raw_item":{"type":"function_call_output","call_id":"c","output":"same"}}],
  "session_items":[{"type":"tool_call_item","agent":{"name":"a"},"raw_item":{"type":"function_call","id":"f","call_id":"c","name":"n","arguments":"{}"}}],
  "model_responses":[{"usage":{"input_tokens":30},"response_id":"r","output":[
    {"type":"function_call","id":"f","call_id":"c","name":"n","arguments":"{}"},
    {"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"done"}]}]}],
  "last_model_response":{"output":[]},"max_turns":10}"#;

#[test]
fn an_item_in_several_lists_of_a_state_is_carried_once() {
    let mapped = detected(NAME, STATE);
    assert_eq!(roles(&mapped), "user assistant tool assistant");
    assert_eq!(
        calls(&mapped),
        (1, 2),
        "two equal results in one list are two"
    );
    let tokens = mapped.account.tokens;
    assert_eq!((tokens.input, tokens.output, tokens.cached), (30, 5, 3));
    assert_eq!(word(&mapped.turns()[1], "agent"), Some("a"));
    assert!(source(&mapped.turns()[0], "run").is_some());
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
}

#[test]
fn hostile_sources_are_accounted_for() {
    hostile(NAME, &[ITEMS]);
    hostile(NAME, &[STATE]);
    hostile(
        NAME,
        &[
            r#"{"message_data":"{\"role\":\"user\"}"}"#,
            r#"{"message_data":"x"}"#,
        ],
    );
}
