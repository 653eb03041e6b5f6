//! Hand-made sources of this format, well-formed and hostile.

use super::*;
use crate::testing::*;

fn mapped(source: &str) -> Mapped {
    mapped_as(NAME, source)
}

fn session(parts: &str) -> String {
    format!(
        r#"{{"info":{{"id":"ses_1","title":"T"}},"messages":[
        {{"info":{{"id":"m1","role":"user","sessionID":"ses_1","time":{{"created":1700000000123}},
          "model":{{"providerID":"acme","modelID":"m","variant":"v"}}}},
         "parts":[{{"type":"text","text":"go","synthetic":true,"id":"p1"}}]}},
        {{"info":{{"id":"m2","role":"assistant","parentID":"m1","providerID":"acme","modelID":"m",
          "finish":"stop","cost":0.5,"error":null,
          "tokens":{{"total":60,"input":10,"output":20,"reasoning":5,"cache":{{"read":25,"write":0}}}}}},
         "parts":[{parts}]}}]}}"#
    )
}

#[test]
fn a_tool_part_is_a_call_and_its_answer() {
    let source = session(
        r#"{"type":"step-start","snapshot":"abc","id":"p2","messageID":"m2"},
        {"type":"reasoning","text":"hm","metadata":{"sig":"x"}},
        {"type":"tool","tool":"bash","callID":"c1","state":{"status":"completed","title":"ls",
          "input":{"command":"ls"},"output":"a\n","metadata":{"output":"a\n","exit":0},"time":{"start":1}}},
        {"type":"tool","tool":"bash","callID":"c2","state":{"status":"error","input":{},"error":"no"}},
        {"type":"tool","tool":"bash","callID":"c3","state":{"status":"running","input":{"a":1}}}"#,
    );
    let mapped = detected(NAME, &source);
    let account = &mapped.account;
    assert_eq!(
        (account.turns, account.tool_calls, account.tool_results),
        (2, 3, 2)
    );
    let tokens = account.tokens;
    assert_eq!((tokens.input, tokens.output, tokens.cached), (35, 25, 25));
    let turn = &mapped.turns()[1];
    assert_eq!(
        turn.messages[0].content,
        json(
            r#"[{"type":"step-start","snapshot":"abc"},
            {"type":"thinking","thinking":"hm","metadata":{"sig":"x"}},
            {"type":"tool_call","id":"c1"},{"type":"tool_result","id":"c1","time":{"start":1}},
            {"type":"tool_call","id":"c2"},{"type":"tool_result","id":"c2"},
            {"type":"tool_call","id":"c3","status":"running"}]"#
        )
    );
    assert!(turn.tool_results[0].ok && !turn.tool_results[1].ok);
    assert_eq!(
        mapped.turns()[0].timestamp_ns,
        Some(1_700_000_000_123_000_000)
    );
    let dropped = dropped(&mapped);
    let dropped: Vec<_> = dropped
        .iter()
        .map(|line| &line[line.find('/').unwrap()..])
        .collect();
    assert_eq!(
        dropped,
        [
            "/info/error empty",
            "/parts/0/id duplicate",
            "/parts/0/messageID duplicate",
            "/parts/2/state/metadata/exit view",
            "/parts/2/state/metadata/output duplicate",
            "/parts/2/state/title view",
        ]
    );
}

#[test]
fn a_command_that_ended_with_a_code_failed() {
    for (metadata, ok) in [
        (r#"{"exit":0}"#, true),
        (r#"{"exit":3}"#, false),
        (r#"{"exit":-1}"#, false),
        (r#"{"exit":null}"#, true),
        (r#"{"exit":"3"}"#, true),
        ("3", true),
    ] {
        let part = format!(
            r#"{{"type":"tool","tool":"bash","callID":"c1","state":{{"status":"completed","input":{{}},"output":"x","metadata":{metadata}}}}}"#
        );
        let mapped = mapped(&session(&part));
        assert_eq!(mapped.turns()[1].tool_results[0].ok, ok, "{metadata}");
    }
}

#[test]
fn tokens_of_several_steps_in_one_message_are_summed() {
    let step = r#"{"type":"step-finish","reason":"stop","tokens":{"input":1,"output":2,"reasoning":0,"cache":{"read":3,"write":4}}}"#;
    let mapped = mapped(&session(&format!("{step},{step}")));
    let tokens = mapped.account.tokens;
    assert_eq!((tokens.input, tokens.output, tokens.cached), (16, 4, 6));
}

#[test]
fn odd_parts_and_messages_are_carried_or_told() {
    let parts =
        r#"{"type":"source","x":1},{"novel":true},5,{"type":"tool"},{"type":"text","text":7}"#;
    let source = session(parts).replace("\"messages\":[", "\"messages\":[3,{\"info\":1},");
    let mapped = mapped(&source);
    assert_eq!(mapped.account.unmapped_lines(), 2);
    assert_eq!(mapped.account.turns, 2);
    assert!(mapped.into_turns().is_ok());
}
