//! agent-scroll's own mapping, byte for byte, and cases that it does not define.

use super::super::testing::{map, spoilt};
use super::FORMAT;
use threadseal_core::canon::json::parse;
use threadseal_formats::scroll::{body_hash, hash_text};

fn hash(json: &str) -> String {
    hash_text(&body_hash(&parse(json.as_bytes()).unwrap()).unwrap())
}

#[test]
fn the_authors_form_gives_the_authors_turns() {
    let source = r#"{"messages":[
        {"role":"user","content":"hi"},
        {"role":"assistant","content":[{"type":"text","text":"ok"},
            {"type":"tool_use","id":"t1","name":"run","input":{"b":1,"a":[2.50]}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"no","is_error":true}]}],
        "model":{"vendor":"anthropic","id":"claude","fingerprint":"f"},
        "params":{"temperature":0.70,"top_p":1,"seed":7,"max_tokens":64},
        "timestamp_ns_base":1700000000000000001}"#;
    let made = map(FORMAT, source);
    let head = concat!(
        r#"{"messages":[MESSAGE],"model":{"fingerprint":"f","id":"claude","vendor":"anthropic"},"#,
        r#""params":{"max_tokens":64,"seed":7,"temperature":0.7,"top_p":1},"role":"ROLE","#,
        r#""timestamp_ns":1700000000000000000,REST"turn":TURN,"version":"scroll/0.1"}"#,
    );
    let turn = |index: &str, role: &str, message: &str, rest: &str| {
        head.replace("MESSAGE", message)
            .replace("ROLE", role)
            .replace("REST", rest)
            .replace("TURN", index)
    };
    assert_eq!(made.len(), 3);
    assert_eq!(
        made.turn(0),
        turn("0", "user", r#"{"content":"hi","role":"user"}"#, "")
    );
    let message = concat!(
        r#"{"content":[{"text":"ok","type":"text"},{"id":"t1","input":{"a":[2.5],"b":1},"#,
        r#""name":"run","type":"tool_use"}],"role":"assistant"}"#,
    );
    let call = format!(
        r#""tool_calls":[{{"args":{{"a":[2.5],"b":1}},"args_hash":"{}","id":"t1","name":"run"}}],"#,
        hash(r#"{"a":[2.5],"b":1}"#)
    );
    assert_eq!(made.turn(1), turn("1", "assistant", message, &call));
    let message = concat!(
        r#"{"content":[{"content":"no","is_error":true,"tool_use_id":"t1","#,
        r#""type":"tool_result"}],"role":"user"}"#,
    );
    let result = format!(
        r#""tool_results":[{{"id":"t1","response":"no","response_hash":"{}","status":"error"}}],"#,
        hash(r#""no""#)
    );
    assert_eq!(made.turn(2), turn("2", "user", message, &result));
    assert_eq!(made.dropped(), [""; 0]);
}

#[test]
fn a_plain_request_says_the_same_with_the_defaults_of_a_scroll() {
    let made = map(
        FORMAT,
        r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#,
    );
    let expected = concat!(
        r#"{"messages":[{"content":"hi","role":"user"}],"model":{"id":"m","vendor":"anthropic"},"#,
        r#""params":{"max_tokens":9,"temperature":1,"top_p":1},"role":"user","timestamp_ns":0,"#,
        r#""turn":0,"version":"scroll/0.1"}"#,
    );
    assert_eq!(made.turn(0), expected);
    let told: Vec<_> = made
        .mapped
        .account
        .defaulted()
        .map(|(field, ..)| field)
        .collect();
    assert_eq!(told, ["params.temperature", "params.top_p", "timestamp_ns"]);
}

#[test]
fn what_the_authors_mapping_throws_at_is_mapped_and_told() {
    let made = map(
        FORMAT,
        r#"{"model":"claude","messages":[
          {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n"},{"type":"tool_use","name":"n","input":1}]},
          {"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","content":[]}]},
          {"role":"critic","content":null},{"role":"user"},{"content":{"x":1}}]}"#,
    );
    assert_eq!(made.roles(), ["assistant", "user", "user", "user", "user"]);
    assert_eq!(made.text(0, "/tool_calls/0/args"), "{}");
    assert_eq!(made.text(0, "/tool_calls/1/id"), r#""unnamed-1""#);
    assert_eq!(made.text(1, "/tool_results/0/response"), r#""""#);
    assert_eq!(
        made.text(1, "/tool_results/0/response_hash"),
        format!("\"{}\"", hash("\"\""))
    );
    assert_eq!(made.text(1, "/tool_results/1/id"), r#""unnamed-2""#);
    assert_eq!(
        made.text(2, "/messages"),
        r#"[{"content":[],"role":"critic"}]"#
    );
    assert_eq!(
        made.text(4, "/messages"),
        r#"[{"content":[{"x":1}],"role":""}]"#
    );
    assert_eq!(
        made.defaulted(),
        [
            ("role", 2),
            ("tool_calls.args", 1),
            ("tool_calls.id", 1),
            ("tool_results.id", 1),
            ("tool_results.response", 1)
        ]
    );
}

#[test]
fn system_tools_and_other_settings_are_a_turn_that_later_turns_name() {
    let request = r#"{"model":"claude","system":"be brief","tools":[{"name":"t","input_schema":{}}],
        "thinking":{"type":"adaptive"},"stream":true,"metadata":null,
        "messages":[{"role":"user","content":"hi"}]}"#;
    let made = map(FORMAT, request);
    assert_eq!(made.roles(), ["system", "user"]);
    assert_eq!(
        made.text(0, "/messages"),
        concat!(
            r#"[{"content":"be brief","role":"system"},{"content":[{"input_schema":{},"name":"t"}],"#,
            r#""role":"tools"},{"content":[{"format":"anthropic","lines":[1],"params":"#,
            r#"{"stream":true,"thinking":{"type":"adaptive"}},"settings":[0],"type":"source"}],"#,
            r#""role":"source"}]"#
        )
    );
    assert_eq!(made.text(1, "/messages/1/content/0/settings"), "[0]");
    assert_eq!(made.dropped(), ["/metadata: empty"]);
}

#[test]
fn a_response_carries_its_usage_and_why_it_stopped() {
    let source = r#"{"request":{"model":"claude","messages":[{"role":"user","content":"hi"}]},
      "timestamp":"2026-11-21T20:38:42Z","headers":{"x-api-key":"secret"},
      "response":{"status":200,"body":{"id":"msg_1","type":"message","role":"assistant","model":"claude-2",
       "content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"yo"}],
       "stop_reason":"end_turn","stop_sequence":null,"new":1,
       "usage":{"input_tokens":10,"cache_creation_input_tokens":3,"cache_read_input_tokens":5,"output_tokens":7}}}}"#;
    let made = map(FORMAT, source);
    assert_eq!(made.roles(), ["user", "assistant"]);
    assert_eq!(made.text(1, "/model/id"), r#""claude-2""#);
    assert_eq!(made.text(0, "/timestamp_ns"), "1795293522000000000");
    let source = "/messages/1/content/0";
    assert_eq!(made.text(1, &format!("{source}/message")), r#""msg_1""#);
    assert_eq!(
        made.text(1, &format!("{source}/stop_reason")),
        r#""end_turn""#
    );
    assert_eq!(made.text(1, &format!("{source}/usage/output_tokens")), "7");
    let tokens = made.mapped.account.tokens;
    assert_eq!((tokens.input, tokens.output, tokens.cached), (18, 7, 5));
    assert_eq!(
        made.dropped(),
        [
            "/headers: metadata",
            "/response/body/new: unknown member",
            "/response/body/stop_sequence: empty",
            "/response/status: metadata"
        ]
    );
    assert!(!made.turn(1).contains("secret"));
}

#[test]
fn tools_that_the_vendor_runs_are_calls_and_results() {
    let made = map(
        FORMAT,
        r#"{"type":"message","role":"assistant","stop_reason":null,"content":[
          {"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}},
          {"type":"web_search_tool_result","tool_use_id":"s","content":{"type":"web_search_tool_result_error","error_code":"x"}},
          {"type":"mcp_tool_use","id":"m","name":"f","server_name":"srv","input":{}},
          {"type":"mcp_tool_result","tool_use_id":"m","is_error":false,"content":[{"type":"text","text":"r"}]}]}"#,
    );
    assert_eq!(made.mapped.account.tool_calls, 2);
    assert_eq!(made.text(0, "/tool_results/0/status"), r#""error""#);
    assert_eq!(made.text(0, "/tool_results/1/status"), r#""ok""#);
    assert_eq!(
        made.text(0, "/messages/0/content/2/server_name"),
        r#""srv""#
    );
}

#[test]
fn a_repeated_conversation_is_carried_once_and_a_fork_names_what_it_leaves() {
    let one = r#"{"model":"claude","messages":[{"role":"user","content":"a"}]}"#;
    let two = concat!(
        r#"{"model":"claude","messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}]},"#,
        r#"{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#
    );
    let fork = concat!(
        r#"{"model":"claude","messages":[{"role":"user","content":"a"},"#,
        r#"{"role":"user","content":"d"}]}"#
    );
    let made = map(
        FORMAT,
        format!("{one}\n{two}\n\n{two}\n{fork}\nnot json\n[7]\n"),
    );
    assert_eq!(made.roles(), ["user", "assistant", "user", "user"]);
    assert_eq!(made.text(2, "/messages/1/content/0/lines"), "[2]");
    assert_eq!(made.text(2, "/messages/1/content/0/follows"), "null");
    assert_eq!(made.text(3, "/messages/1/content/0/follows"), "0");
    let account = &made.mapped.account;
    assert_eq!((account.records, account.unmapped_lines()), (6, 2));
    assert!(
        made.dropped()
            .contains(&"/messages/0: duplicate".to_owned())
    );
}

#[test]
fn a_stream_is_the_message_that_it_makes() {
    let events = [
        r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"he"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"llo"}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"n","input":{}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":":1}"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let stream: String = events
        .iter()
        .map(|event| format!("event: x\ndata: {event}\n\n"))
        .collect();
    let made = map(FORMAT, &stream);
    assert_eq!(
        made.text(0, "/messages/0"),
        concat!(
            r#"{"content":[{"text":"hello","type":"text"},{"id":"t","input":{"a":1},"name":"n","#,
            r#""type":"tool_use"}],"role":"assistant"}"#
        )
    );
    assert_eq!(made.mapped.account.tokens.output, 9);
    assert_eq!(made.dropped(), [""; 0]);
    let pair = format!(
        r#"{{"request":{{"model":"claude","messages":[{{"role":"user","content":"q"}}]}},"response":{}}}"#,
        threadseal_core::canon::jcs::to_vec(&stream.as_str().into())
            .map(|text| String::from_utf8(text).unwrap())
            .unwrap()
    );
    assert_eq!(map(FORMAT, pair).roles(), ["user", "assistant"]);
}

#[test]
fn whatever_is_wrong_in_a_source_is_told_and_nothing_panics() {
    let sample = r#"{"request":{"model":{"vendor":"v","id":"m"},"params":{"temperature":1,"seed":2},
       "timestamp_ns_base":5,"system":[{"type":"text","text":"s"}],
       "messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text"}]}]}]},
       "response":{"type":"message","role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{"x":1}}],
       "usage":{"input_tokens":1}}}"#;
    for source in spoilt(sample) {
        if FORMAT.map(source.as_bytes()).is_ok() {
            map(FORMAT, &source);
        }
    }
}
