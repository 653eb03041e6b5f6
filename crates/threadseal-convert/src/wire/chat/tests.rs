//! Every kind of message, responses whole and streamed, repeated conversations, wrong types.

use super::super::testing::{map, spoilt};
use super::FORMAT;

const ITEMS: &str = "/messages/0/content";
const SOURCE: &str = "/messages/1/content/0";

#[test]
fn every_kind_of_message_is_a_turn_and_bodies_are_where_redaction_looks() {
    let made = map(
        FORMAT,
        r#"{"model":"gpt","temperature":0.5,"max_completion_tokens":9,"seed":3,"tools":[{"type":"function","function":{"name":"f"}}],
         "messages":[
          {"role":"developer","content":"be brief"},
          {"role":"user","name":"ann","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"u"}},"odd"]},
          {"role":"assistant","content":null,"refusal":null,"tool_calls":[
            {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},
            {"id":"c2","type":"custom","custom":{"name":"g","input":"raw"}},
            {"id":"c3","type":"function","function":{"name":"f","arguments":"{\"n\":12345678901234567890}"}},
            {"id":"c4","type":"function","function":{"name":"f","arguments":"{oops"}}]},
          {"role":"tool","tool_call_id":"c1","content":"done"},
          {"role":"assistant","content":"","refusal":"no","reasoning_content":"because","audio":{"id":"au"}},
          {"role":"alien","content":"?"}]}"#,
    );
    assert_eq!(
        made.roles(),
        [
            "system",
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
            "user"
        ]
    );
    assert_eq!(
        made.text(1, "/messages/0"),
        r#"{"content":"be brief","role":"developer"}"#
    );
    assert_eq!(
        made.text(1, "/params"),
        r#"{"max_tokens":9,"seed":3,"temperature":0.5,"top_p":1}"#
    );
    assert_eq!(
        made.text(2, ITEMS),
        concat!(
            r#"[{"text":"see","type":"text"},{"image_url":{"url":"u"},"type":"image_url"},"#,
            r#"{"part":"odd","type":"part"}]"#
        )
    );
    assert_eq!(made.text(2, "/messages/1/content/0/name"), r#""ann""#);
    assert_eq!(made.text(3, "/tool_calls/0/args"), r#"{"a":1}"#);
    assert_eq!(made.text(3, "/tool_calls/1/args"), r#""raw""#);
    assert_eq!(
        made.text(3, "/tool_calls/2/args"),
        r#""{\"n\":12345678901234567890}""#
    );
    assert_eq!(made.text(3, "/tool_calls/3/args"), r#""{oops""#);
    assert_eq!(
        made.text(3, "/messages/0/content/3"),
        r#"{"id":"c4","type":"tool_call"}"#
    );
    assert_eq!(made.text(4, "/tool_results/0/response"), r#""done""#);
    assert_eq!(made.text(4, ITEMS), r#"[{"id":"c1","type":"tool_result"}]"#);
    assert_eq!(
        made.text(5, ITEMS),
        concat!(
            r#"[{"thinking":"because","type":"thinking"},{"refusal":"no","type":"refusal"},"#,
            r#"{"audio":{"id":"au"},"type":"audio"}]"#
        )
    );
    assert_eq!(
        made.text(6, "/messages/0"),
        r#"{"content":"?","role":"alien"}"#
    );
    assert_eq!(
        made.dropped(),
        ["/messages/2/content: empty", "/messages/2/refusal: empty"]
    );
}

#[test]
fn legacy_function_calls_get_an_id_that_their_result_finds() {
    let one = r#"{"model":"gpt","messages":[{"role":"user","content":"q"},
      {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}]}"#;
    let two = r#"{"model":"gpt","messages":[{"role":"user","content":"q"},
      {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},
      {"role":"function","name":"f","content":"r"},{"role":"function","name":"f","content":"s"}]}"#;
    let made = map(
        FORMAT,
        format!("{}\n{}", one.replace('\n', ""), two.replace('\n', "")),
    );
    assert_eq!(made.text(1, "/tool_calls/0/id"), r#""unnamed-1""#);
    assert_eq!(made.text(2, "/tool_results/0/id"), r#""unnamed-1""#);
    assert_eq!(made.text(3, "/tool_results/0/id"), r#""unnamed-2""#);
}

#[test]
fn a_response_is_a_turn_for_each_choice() {
    let made = map(
        FORMAT,
        r#"{"request":{"model":"gpt","messages":[{"role":"user","content":"q"}]},
         "response":{"id":"r1","object":"chat.completion","created":1700000000,"model":"gpt-9","system_fingerprint":"fp",
          "choices":[{"index":0,"message":{"role":"assistant","content":"a","annotations":[]},"finish_reason":"stop","logprobs":null},
                     {"index":1,"message":{"role":"assistant","content":"b"},"finish_reason":"length"}],
          "usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14,
           "prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":1}}}}"#,
    );
    assert_eq!(made.roles(), ["user", "assistant", "assistant"]);
    assert_eq!(
        made.text(1, "/model"),
        r#"{"fingerprint":"fp","id":"gpt-9","vendor":"openai"}"#
    );
    assert_eq!(made.text(1, "/timestamp_ns"), "1700000000000000000");
    assert_eq!(
        made.text(1, &format!("{SOURCE}/tokens")),
        r#"{"cached":8,"input":10,"output":4,"reasoning":1}"#
    );
    assert_eq!(made.text(2, &format!("{SOURCE}/choice")), "1");
    assert_eq!(made.text(2, &format!("{SOURCE}/follows")), "0");
    assert_eq!(
        made.text(2, &format!("{SOURCE}/stop_reason")),
        r#""length""#
    );
    assert_eq!(made.mapped.account.tokens.output, 4);
}

#[test]
fn a_stream_is_the_response_that_it_makes_and_the_next_request_repeats_it() {
    let chunks = [
        r#"{"id":"g","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}"#,
        r#"{"id":"g","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":"he"}}]}"#,
        r#"{"id":"g","created":1700000001,"model":"m","choices":[{"index":0,"delta":{"content":"y","reasoning":"r1"}}]}"#,
        r#"{"id":"g","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}}]}"#,
        r#"{"id":"g","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}}]}"#,
        r#"{"id":"g","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"[]}"}}],"x":1},"finish_reason":"tool_calls"}]}"#,
        r#"{"id":"g","model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
    ];
    let mut stream: String = chunks
        .iter()
        .map(|chunk| format!("data: {chunk}\n\n"))
        .collect();
    stream.push_str("data: [DONE]\n\n");
    let made = map(FORMAT, &stream);
    assert_eq!(
        made.text(0, ITEMS),
        r#"[{"thinking":"r1","type":"thinking"},{"text":"hey","type":"text"},{"id":"c","type":"tool_call"}]"#
    );
    assert_eq!(made.text(0, "/tool_calls/0/args"), r#"{"a":[]}"#);
    assert_eq!(
        made.dropped(),
        [
            "/choices/0/message/x: unknown member",
            "/created: superseded"
        ]
    );

    let quoted = threadseal_core::canon::jcs::to_vec(&stream.as_str().into()).unwrap();
    let quoted = String::from_utf8(quoted).unwrap();
    let first = format!(
        r#"{{"method":"POST","body":{{"model":"m","messages":[{{"role":"user","content":"q"}}]}},"response":{quoted}}}"#
    );
    let second = concat!(
        r#"{"method":"POST","body":"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"#,
        r#"{\"role\":\"assistant\",\"content\":\"hey\",\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\","#,
        r#"\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[]}\"}}]},"#,
        r#"{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":[{\"type\":\"text\",\"text\":\"t\"}]}]}"}"#
    );
    let other = r#"{"method":"GET","path":"/flags","response":{"ok":true}}"#;
    let made = map(FORMAT, format!("[{first},{other},{second}]"));
    assert_eq!(made.roles(), ["user", "assistant", "tool"]);
    assert_eq!(made.mapped.account.unmapped_lines(), 1);
    assert_eq!(made.text(2, "/messages/1/content/0/lines"), "[3]");
}

#[test]
fn responses_that_say_the_same_are_two_unless_they_have_one_id() {
    let response = |id: &str| {
        format!(
            r#"{{"id":"{id}","created":1700000000,"choices":[{{"message":{{"role":"assistant","content":"a"}}}}],"usage":{{"completion_tokens":1}}}}"#
        )
    };
    let lines = [response("a"), response("b"), response("a")].join("\n");
    let made = map(FORMAT, lines);
    assert_eq!(made.len(), 2);
    assert_eq!(made.mapped.account.tokens.output, 2);
    assert_eq!(made.text(1, &format!("{SOURCE}/time")), "1700000000");
    assert_eq!(made.dropped(), [": duplicate"]);
}

#[test]
fn reasoning_that_is_said_twice_is_carried_once() {
    let made = map(
        FORMAT,
        r#"{"model":"m","messages":[{"role":"assistant","content":"x","reasoning":"ab","reasoning_content":"ab","reasoning_details":[
          {"type":"reasoning.text","text":"a","signature":"s","index":0},{"type":"reasoning.summary","summary":"b"},
          {"type":"reasoning.encrypted","data":"e"},{"type":"new","z":1}]}]}"#,
    );
    assert_eq!(
        made.text(0, ITEMS),
        concat!(
            r#"[{"index":0,"signature":"s","thinking":"a","type":"thinking"},{"thinking":"b","type":"thinking"},"#,
            r#"{"data":"e","type":"redacted_thinking"},{"type":"reasoning_details","z":1},"#,
            r#"{"text":"x","type":"text"}]"#
        )
    );
    assert_eq!(
        made.dropped(),
        [
            "/messages/0/reasoning: duplicate",
            "/messages/0/reasoning_content: duplicate"
        ]
    );
}

// T-SCR-26
#[test]
fn a_part_cannot_pass_for_the_place_of_a_call() {
    let made = map(
        FORMAT,
        r#"{"model":"m","messages":[{"role":"user","content":[{"type":"tool_call","id":"c"},{"type":"source"}]}]}"#,
    );
    assert_eq!(
        made.text(0, ITEMS),
        r#"[{"part":{"id":"c","type":"tool_call"},"type":"part"},{"part":{"type":"source"},"type":"part"}]"#
    );
}

#[test]
fn whatever_is_wrong_in_a_source_is_told_and_nothing_panics() {
    let whole = r#"{"request":{"model":"m","seed":1,"tools":[{"type":"function","function":{}}],
       "messages":[{"role":"user","content":[{"type":"text","text":"s"}]},
        {"role":"assistant","reasoning_details":[{"text":"a"}],"function_call":{"name":"f","arguments":"{}"},
         "tool_calls":[{"id":"a","function":{"name":"n","arguments":"{}"}}]},
        {"role":"function","name":"f","content":"r"},{"role":"tool","tool_call_id":"a","content":"r"}]},
       "response":{"created":1,"choices":[{"index":0,"message":{"role":"assistant","content":"x"}}],"usage":{"prompt_tokens":1}}}"#;
    let chunks = r#"{"response":[{"choices":[{"index":0,"delta":{"content":"x","tool_calls":[{"index":0,"id":"a",
       "function":{"name":"n","arguments":"{}"}}],"reasoning_details":[{"index":0,"text":"a"}],
       "function_call":{"name":"f","arguments":"{}"}}}],"usage":{"prompt_tokens":1}}]}"#;
    for source in [whole, chunks].into_iter().flat_map(spoilt) {
        if FORMAT.map(source.as_bytes()).is_ok() {
            map(FORMAT, &source);
        }
    }
}
