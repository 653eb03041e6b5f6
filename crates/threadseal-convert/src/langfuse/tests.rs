//! Hand-made traces of Langfuse.

use super::*;
use crate::testing::*;

fn mapped(source: &str) -> Mapped {
    mapped_as(NAME, source)
}

#[test]
fn what_observations_repeat_is_carried_once() {
    let source = r#"{"trace":{"id":"t","name":"run","input":"what?","output":"4","observations":[{}]},
      "observations":[
       {"id":"o1","type":"SPAN","name":"agent","startTime":"2026-01-01T00:00:00Z",
        "endTime":"2026-01-01T00:00:09Z","input":"what?","output":{"text":"4"},"usageDetails":{"input":30}},
       {"id":"o2","parentObservationId":"o1","type":"GENERATION","model":"acme/m","modelParameters":{"temperature":0},
        "startTime":"2026-01-01T00:00:01Z","endTime":"2026-01-01T00:00:02Z",
        "input":"[{\"role\":\"user\",\"content\":\"what?\"}]",
        "output":{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"add","arguments":"{\"x\":2}"}}]},
        "usageDetails":{"input":10,"output":2,"total":12},
        "metadata":{"attributes":{"input.value":"[{\"role\":\"user\",\"content\":\"what?\"}]","k":"v"}}},
       {"id":"o3","parentObservationId":"o1","type":"TOOL","name":"add","startTime":"2026-01-01T00:00:03Z",
        "endTime":"2026-01-01T00:00:04Z","input":{"x":2},"output":"four"},
       {"id":"o4","parentObservationId":"o1","type":"GENERATION","model":"acme/m",
        "startTime":"2026-01-01T00:00:05Z","endTime":"2026-01-01T00:00:06Z",
        "input":[{"role":"user","content":"what?"},{"role":"tool","tool_call_id":"c","content":"four"}],
        "output":"4","usageDetails":{"input":20,"output":1,"total":21}}]}"#;
    let mapped = detected(NAME, source);
    assert_eq!(
        roles(&mapped),
        "system user assistant system tool assistant"
    );
    assert_eq!(calls(&mapped), (1, 1));
    let tokens = mapped.account.tokens;
    assert_eq!(
        (tokens.input, tokens.output),
        (30, 3),
        "of the spans below, not once more of the one above"
    );
    let expected = [
        "1, 3 /input duplicate",
        "4 /input/0 duplicate",
        "2 /metadata/attributes/input.value duplicate",
        "1, 3 /output duplicate",
        "0 /trace/input duplicate",
        "0 /trace/observations duplicate",
        "0 /trace/output duplicate",
    ];
    assert_eq!(dropped(&mapped), expected);
}

#[test]
fn a_user_who_says_a_thing_twice_has_said_it_twice() {
    let generation = |input: &str| {
        format!(
            r#"{{"id":"{}","type":"GENERATION","input":{input},"output":"ok"}}"#,
            input.len()
        )
    };
    let one = r#"[{"role":"user","content":"yes"}]"#;
    let two = r#"[{"role":"user","content":"yes"},{"role":"assistant","content":"ok"},{"role":"user","content":"yes"}]"#;
    let source = format!(
        r#"{{"trace":{{"id":"t"}},"observations":[{},{}]}}"#,
        generation(one),
        generation(two)
    );
    let mapped = mapped(&source);
    let said = roles(&mapped).matches("user").count();
    assert_eq!(said, 2);
}

#[test]
fn observations_of_other_types_than_expected_are_told_and_nothing_panics() {
    let source = r#"{"trace":{"id":5,"input":[],"metadata":3},"observations":[4,
        {"id":7,"type":9,"input":{"weird":[{"deep":1}]},"output":[1,"x",{"role":3}],"usage":"many",
         "startTime":1,"metadata":"text","modelParameters":"{\"temperature\":1}"},
        {"type":"TOOL","input":null,"output":{}},
        {"id":"a","parentObservationId":"b","usageDetails":{"input":1}},
        {"id":"b","parentObservationId":"a","usageDetails":{"input":1}}]}"#;
    let mapped = mapped(source);
    assert_eq!(mapped.account.unmapped_lines(), 1);
    assert!(mapped.into_turns().is_ok());
}
