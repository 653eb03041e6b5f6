//! Hand-made logs and archives of Inspect.

use super::*;
use crate::testing::*;

fn mapped(source: &str) -> Mapped {
    mapped_as(NAME, source)
}

fn log(sample: &str) -> String {
    format!(
        r#"{{"version":2,"eval":{{"task":"t","model":"acme/m","model_generate_config":{{"temperature":0.25}}}},
        "samples":[{sample}]}}"#
    )
}

const MODEL_EVENT: &str = r#"{"event":"model","timestamp":"2026-01-01T00:00:01Z","completed":"2026-01-01T00:00:02Z",
    "input":[{"role":"user","content":"attachment://aa"}],"call":{"request":1},"config":{"top_p":0.5},
    "tools":[{"name":"add"}],
    "output":{"model":"m-2","completion":"sum","choices":[{"stop_reason":"stop",
      "message":{"id":"m2","role":"assistant","content":"sum",
        "tool_calls":[{"id":"c1","function":"add","arguments":{"x":1}}]}}],
      "usage":{"input_tokens":3,"output_tokens":2,"total_tokens":9,"input_tokens_cache_read":4}}}"#;

#[test]
fn messages_are_turns_and_events_say_what_they_cost() {
    let source = log(&format!(
        r#"{{"id":1,"epoch":1,"input":"the question","target":"4","scores":{{"s":{{"value":"C"}}}},
        "messages":[{{"role":"user","content":"the question"}},
          {{"id":"m2","role":"assistant","model":"m-2","content":"sum",
            "tool_calls":[{{"id":"c1","function":"add","arguments":{{"x":1}}}}]}},
          {{"role":"tool","tool_call_id":"c1","function":"add","content":"4"}}],
        "events":[{{"event":"sample_init","timestamp":"2026-01-01T00:00:00Z"}},{MODEL_EVENT},
          {{"event":"tool","id":"c1","function":"add","arguments":{{"x":1}},"result":"4",
            "events":[{{"event":"sandbox","action":"exec","cmd":"ls","result":1,"output":"x"}}]}},
          {{"event":"info","data":"note"}}],
        "attachments":{{"aa":"the question","bb":"nobody names me"}}}}"#
    ));
    let mapped = detected(NAME, &source);
    assert_eq!(roles(&mapped), "user assistant tool tool system system");
    let tokens = mapped.account.tokens;
    assert_eq!((tokens.input, tokens.output, tokens.cached), (7, 2, 4));
    let turn = &mapped.turns()[1];
    assert_eq!(turn.timestamp_ns, Some(1_767_225_602_000_000_000));
    assert_eq!(turn.params.top_p.as_ref().unwrap().literal(), "0.5");
    assert_eq!(turn.params.temperature.as_ref().unwrap().literal(), "0.25");
    assert!(!mapped.turns()[3].tool_results[0].ok, "the command failed");
    assert_eq!(mapped.turns()[3].tool_calls[0].name, "sandbox.exec");
    let told = dropped(&mapped);
    for expected in [
        "1 /events/1/input/0 duplicate",
        "1 /events/1/output/choices/0/message duplicate",
        "1 /events/1/call view",
        "1 /events/2/result duplicate",
        "1 /input duplicate",
        "1 /attachments/aa duplicate",
    ] {
        assert!(
            told.iter().any(|line| line == expected),
            "{expected} in {told:?}"
        );
    }
    assert!(
        !told.iter().any(|line| line.ends_with("unknown member")),
        "{told:?}"
    );
}

#[test]
fn what_only_a_grader_was_asked_is_carried() {
    let source = log(r#"{"messages":[{"role":"user","content":"q"}],"events":[
        {"event":"model","input":[{"role":"user","content":"q"},{"role":"user","content":"grade it"}],
         "output":{"choices":[{"message":{"role":"assistant","content":"good"}}]}},
        {"event":"tool","id":"x","function":"f","arguments":{},"result":7,"error":{"message":"no"}}]}"#);
    let mapped = mapped(&source);
    assert_eq!(roles(&mapped), "user user assistant tool");
    assert!(!mapped.turns()[3].tool_results[0].ok);
}

#[test]
fn an_attachment_is_put_where_something_carried_names_it() {
    let source = log(r#"{"messages":[{"role":"user","content":"attachment://aa"},
          {"role":"tool","tool_call_id":"c","content":"attachment://aa"}],
        "attachments":{"aa":"long text"}}"#);
    let mapped = mapped(&source);
    assert_eq!(dropped(&mapped), Vec::<String>::new());
    let turns = mapped.turns();
    let answer = turns[1].tool_results[0].response.as_ref().unwrap();
    assert_eq!(answer.as_str(), Some("long text"));
    assert_eq!(mapped.turns().len(), 2);
}

// T-SCR-27
#[test]
fn references_that_would_fill_the_memory_stay_references() {
    let mut refs = refs::Refs::new(None);
    let text = Value::from("attachment://none");
    assert_eq!(refs.resolve(text.clone()), text);
    let table = json(r#"{"aa":"12345"}"#);
    let mut refs = refs::Refs::new(Some(&table)).with_budget(9);
    let named = Value::from("tc://aa");
    assert_eq!(refs.resolve(named.clone()).as_str(), Some("12345"));
    assert_eq!(refs.resolve(named).as_str(), Some("tc://aa"));
}

#[test]
fn an_archive_is_its_header_its_samples_and_copies_of_both() {
    let member = |name: &str, text: &str| Member {
        name: name.to_owned(),
        bytes: text.as_bytes().to_vec(),
    };
    let header = r#"{"eval":{"task":"t","model":"acme/m"},"status":"success"}"#;
    let members = [
        member("_journal/start.json", header),
        member(
            "samples/1_epoch_1.json",
            r#"{"messages":[{"role":"user","content":"q"}]}"#,
        ),
        member("samples/2_epoch_1.json", "{"),
        member("samples/3_epoch_1.json", "[]"),
        member("summaries.json", "[]"),
        member("strange.bin", "\u{0}"),
        member("header.json", header),
    ];
    let mapped = map_members(&members).unwrap();
    assert_eq!((mapped.account.records, mapped.account.turns), (3, 1));
    assert_eq!(mapped.account.unmapped_lines(), 2);
    assert_eq!(
        dropped(&mapped),
        [
            "0 /_journal/start.json duplicate",
            "0 /strange.bin unknown member",
            "0 /summaries.json duplicate",
        ]
    );
    assert!(
        map_members(&members[..6]).is_ok(),
        "a crashed run has no header.json"
    );
    assert!(map_members(&members[1..6]).is_err());
}

#[test]
fn samples_of_other_types_than_expected_are_told_and_nothing_panics() {
    for sample in [
        r#"{"messages":5,"events":{"a":1},"attachments":[1],"input":7,"output":"x"}"#,
        r#"{"messages":[1,null,"x",{"role":1,"content":{"type":5}}],"events":[1,{"event":2}]}"#,
        r#"{"events":[{"event":"model","input":4,"output":[]},{"event":"tool"},{"event":"sandbox"}]}"#,
        r#"{"transcript":{"events":[{"event":"model"}],"content":null},"events_data":3,"message_pool":{}}"#,
        "3",
    ] {
        let mapped = mapped(&log(sample));
        assert_eq!(mapped.account.records, 1, "{sample}");
        assert!(mapped.into_turns().is_ok(), "{sample}");
    }
}
