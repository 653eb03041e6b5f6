//! Every kind of item, responses whole and streamed, conversations by id, wrong types.

use super::super::testing::{map, spoilt};
use super::FORMAT;

const ITEMS: &str = "/messages/0/content";
const SOURCE: &str = "/messages/1/content/0";

#[test]
fn items_become_turns_and_runs_of_the_model_one_turn() {
    let made = map(
        FORMAT,
        r#"{"model":"gpt","instructions":"be brief","tools":[{"type":"function","name":"f"}],"store":false,"top_p":0.5,
         "input":[
          {"type":"message","id":"m1","role":"developer","content":[{"type":"input_text","text":"rules"}]},
          {"role":"user","content":"go"},
          {"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"plan"}],
           "content":[{"type":"reasoning_text","text":"deep"}],"encrypted_content":"gAAA"},
          {"type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"ok","annotations":[]},
           {"type":"refusal","refusal":"no"}]},
          {"type":"function_call","id":"fc","call_id":"c1","name":"f","arguments":"{\"a\": 1}","status":"completed"},
          {"type":"custom_tool_call","call_id":"c2","name":"g","input":"raw"},
          {"type":"local_shell_call","call_id":"c3","action":{"type":"exec","command":["ls"]},"status":"completed"},
          {"type":"function_call_output","call_id":"c1","output":"r1"},
          {"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"r2"}]},
          {"type":"local_shell_call_output","call_id":"c3","output":"r3","status":"failed"},
          {"type":"brand_new","x":1}]}"#,
    );
    assert_eq!(
        made.roles(),
        ["system", "system", "user", "assistant", "tool", "assistant"]
    );
    assert_eq!(
        made.text(1, ITEMS),
        r#"[{"item":"m1","text":"rules","type":"text"}]"#
    );
    assert_eq!(
        made.text(3, ITEMS),
        concat!(
            r#"[{"item":"rs","summary":true,"thinking":"plan","type":"thinking"},{"thinking":"deep","type":"thinking"},"#,
            r#"{"data":"gAAA","type":"redacted_thinking"},{"status":"completed","text":"ok","type":"text"},"#,
            r#"{"refusal":"no","type":"refusal"},{"id":"c1","item":"fc","status":"completed","type":"tool_call"},"#,
            r#"{"id":"c2","type":"tool_call"},{"id":"c3","status":"completed","type":"tool_call"}]"#
        )
    );
    assert_eq!(made.text(3, "/tool_calls/0/args"), r#"{"a":1}"#);
    assert_eq!(made.text(3, "/tool_calls/1/args"), r#""raw""#);
    assert_eq!(made.text(3, "/tool_calls/2/name"), r#""local_shell""#);
    assert_eq!(made.text(4, "/tool_results/2/status"), r#""error""#);
    assert_eq!(
        made.text(4, "/tool_results/1/response"),
        r#"[{"text":"r2","type":"input_text"}]"#
    );
    assert_eq!(made.text(5, ITEMS), r#"[{"type":"brand_new","x":1}]"#);
    assert_eq!(made.dropped(), ["/input/3/content/0/annotations: empty"]);
}

#[test]
fn tools_that_the_vendor_runs_are_calls_with_their_results() {
    let made = map(
        FORMAT,
        r#"{"id":"resp","object":"response","model":"gpt","status":"completed","created_at":1700000000,"output":[
          {"type":"web_search_call","id":"ws","status":"completed","action":{"type":"search","query":"q"}},
          {"type":"code_interpreter_call","id":"ci","status":"completed","code":"1+1","container_id":"k","outputs":[{"type":"logs","logs":"2"}]},
          {"type":"mcp_call","id":"mc","name":"look","server_label":"s","arguments":"{\"k\":1}","output":null,"error":"down"},
          {"type":"image_generation_call","id":"ig","status":"completed","result":"b64"}]}"#,
    );
    assert_eq!(made.roles(), ["assistant"]);
    assert_eq!(made.text(0, "/tool_calls/0/name"), r#""web_search""#);
    assert_eq!(
        made.text(0, "/tool_calls/1/args"),
        r#"{"code":"1+1","container_id":"k"}"#
    );
    assert_eq!(made.text(0, "/tool_calls/2/name"), r#""look""#);
    assert_eq!(
        made.text(0, "/tool_calls/2/args"),
        r#"{"arguments":{"k":1},"server_label":"s"}"#
    );
    assert_eq!(
        made.mapped.account.tool_results, 3,
        "a search that tells no result has none"
    );
    assert_eq!(made.text(0, "/tool_results/1/status"), r#""error""#);
    assert_eq!(
        made.text(0, "/tool_results/2/response"),
        r#"{"result":"b64"}"#
    );
    assert_eq!(made.text(0, "/timestamp_ns"), "1700000000000000000");
}

#[test]
fn a_conversation_goes_on_by_id_or_by_repetition() {
    let first = r#"{"request":{"model":"gpt","input":"q1","instructions":"i"},"response":{"id":"r1","object":"response","model":"gpt","status":"completed","instructions":"i","temperature":0.25,
        "output":[{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"a1"}]}],
        "usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":2},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":1}}}}"#;
    let by_id = r#"{"request":{"model":"gpt","previous_response_id":"r1","input":[{"role":"user","content":"q2"}]}}"#;
    let repeated = r#"{"request":{"model":"gpt","input":[{"role":"user","content":[{"type":"input_text","text":"q1"}]},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"a1","annotations":[]}]},{"role":"user","content":"q2"},{"role":"user","content":"q3"}]}}"#;
    let lines = [first, by_id, repeated]
        .map(|line| line.replace('\n', ""))
        .join("\n");
    let made = map(FORMAT, lines);
    assert_eq!(
        made.roles(),
        ["system", "user", "assistant", "user", "user"]
    );
    assert_eq!(made.text(2, "/params/temperature"), "0.25");
    assert_eq!(made.text(2, &format!("{SOURCE}/message")), r#""r1""#);
    assert_eq!(
        made.text(2, &format!("{SOURCE}/stop_reason")),
        r#""completed""#
    );
    assert_eq!(
        made.text(2, &format!("{SOURCE}/tokens")),
        r#"{"cached":2,"input":5,"output":3,"reasoning":1}"#
    );
    assert_eq!(
        made.text(3, &format!("{SOURCE}/previous_response_id")),
        r#""r1""#
    );
    assert_eq!(made.text(3, &format!("{SOURCE}/follows")), "null");
    assert_eq!(made.text(4, ITEMS), r#"[{"text":"q3","type":"text"}]"#);
    assert!(
        made.dropped()
            .contains(&"/response/instructions: duplicate".to_owned())
    );
}

#[test]
fn a_stream_is_the_response_that_it_makes_also_when_it_was_cut() {
    let begun = [
        r#"{"type":"response.created","response":{"id":"r","object":"response","status":"in_progress","model":"gpt","output":[]}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"m","role":"assistant","content":[]}}"#,
        r#"{"type":"response.content_part.added","output_index":0,"content_index":0,"part":{}}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"delta":"he"}"#,
        r#"{"type":"response.output_text.delta","output_index":0,"delta":"y"}"#,
        r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c","name":"f","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}"#,
    ];
    let cut: String = begun
        .iter()
        .map(|event| format!("event: e\ndata: {event}\n\n"))
        .collect();
    let made = map(FORMAT, &cut);
    assert_eq!(made.text(0, "/messages/0/content/0/text"), r#""hey""#);
    assert_eq!(made.text(0, "/tool_calls/0/args"), "{}");
    let done = concat!(
        r#"data: {"type":"response.completed","response":{"id":"r","object":"response","status":"completed","#,
        r#""model":"gpt","output":[{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"hey!"}]}]}}"#,
        "\n\n"
    );
    let made = map(FORMAT, format!("{cut}{done}"));
    assert_eq!(
        made.text(0, ITEMS),
        r#"[{"item":"m","text":"hey!","type":"text"}]"#
    );
}

#[test]
fn whatever_is_wrong_in_a_source_is_told_and_nothing_panics() {
    let whole = r#"{"request":{"model":"m","instructions":"i","previous_response_id":"p","input":[
        {"role":"user","content":[{"type":"input_text","text":"s"}]},
        {"type":"reasoning","summary":[{"type":"summary_text","text":"a"}],"encrypted_content":"e"},
        {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
        {"type":"function_call_output","call_id":"c","output":"r"},{"type":"mcp_call","id":"i","arguments":"{}","output":"o"}]},
       "response":{"id":"r","object":"response","created_at":1,"error":{"code":"x"},"output":[],"usage":{"input_tokens":1}}}"#;
    let stream = r#"{"response":[{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}},
        {"type":"response.output_text.delta","output_index":0,"delta":"x"},{"type":"response.output_item.done","output_index":1,"item":{"type":"x"}}]}"#;
    for source in [whole, stream].into_iter().flat_map(spoilt) {
        if FORMAT.map(source.as_bytes()).is_ok() {
            map(FORMAT, &source);
        }
    }
}
