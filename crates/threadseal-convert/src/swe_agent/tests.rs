//! Hand-made sources of this format, well-formed and hostile.

use super::*;
use crate::testing::*;

fn mapped(source: &str) -> Mapped {
    mapped_as(NAME, source)
}

#[test]
fn an_action_is_a_call_and_the_next_entry_answers_it() {
    let source = r#"{"environment":"main","history":[
        {"role":"system","content":"be good","agent":"main"},
        {"role":"user","content":"fix it","is_demo":true},
        {"role":"assistant","content":"I list\n```\nls -F\n```","thought":"I list","action":"ls -F"},
        {"role":"user","content":"a.py\n(Open file: n/a)"},
        {"role":"assistant","content":"done\n```\nsubmit\n```","thought":"done","action":"submit"}],
      "trajectory":[
        {"response":"I list\n```\nls -F\n```","thought":"I list","action":"ls -F","observation":"a.py\n",
         "state":"{\"open\":1}"},
        {"response":"done\n```\nsubmit\n```","thought":"done","action":"submit","observation":"the patch"}],
      "info":{"model_stats":{"tokens_sent":10,"tokens_received":3}},
      "replay_config":"{\"agent\":{\"model\":{\"name\":\"acme/m\",\"temperature\":0.5,\"top_p\":1.0}}}"}"#;
    let mapped = detected(NAME, source);
    assert_eq!(roles(&mapped), "system user assistant tool assistant tool");
    assert_eq!(calls(&mapped), (2, 2));
    assert_eq!(
        (mapped.account.tokens.input, mapped.account.tokens.output),
        (10, 3)
    );
    let call = &mapped.turns()[2].tool_calls[0];
    let result = &mapped.turns()[3].tool_results[0];
    assert_eq!((call.id.as_str(), result.id.as_str()), ("step-3", "step-3"));
    assert_eq!(
        call.args.as_ref().unwrap().get("action").unwrap().as_str(),
        Some("ls -F")
    );
    let last = &mapped.turns()[5].tool_results[0];
    assert_eq!(last.response.as_ref().unwrap().as_str(), Some("the patch"));
    assert_eq!(last.id, "step-5");
    assert_eq!(mapped.turns()[0].model.id.as_deref(), Some("acme/m"));
    assert_eq!(
        mapped.turns()[0]
            .params
            .temperature
            .as_ref()
            .unwrap()
            .literal(),
        "0.5"
    );
    assert_eq!(
        dropped(&mapped),
        [
            "6-7 /action duplicate",
            "6 /observation duplicate",
            "6-7 /response duplicate",
            "3, 5-7 /thought duplicate",
        ]
    );
}

#[test]
fn what_the_model_was_given_in_other_words_is_carried_once() {
    let source = r#"{"history":[{"role":"user","content":"q"},
        {"role":"assistant","content":"a","tool_calls":[{"id":"c","type":"function",
          "function":{"name":"f","arguments":"{\"x\":1}"}}],"action":"f 1"},
        {"role":"tool","content":"r","tool_call_ids":["c"]}],
      "trajectory":[{"response":"a","action":"f 1","observation":"r",
        "messages":[{"role":"user","content":"q"},{"role":"user","content":"elided"}]},
        {"response":"lost","action":"g","thought":"lost","observation":"o",
         "messages":[{"role":"user","content":"elided"}]}]}"#;
    let mapped = mapped(source);
    assert_eq!(mapped.turns().len(), 5);
    assert_eq!(mapped.turns()[2].tool_results[0].id, "c");
    let turns = mapped.turns();
    let args = turns[1].tool_calls[0].args.as_ref().unwrap();
    assert_eq!(args.get("x").unwrap().as_u64(), Some(1));
    assert_eq!(mapped.turns()[3].tool_calls[0].name, "action");
    assert_eq!(
        dropped(&mapped),
        [
            "4 /action duplicate",
            "2 /action view",
            "4-5 /messages/0 duplicate",
            "4 /observation duplicate",
            "4 /response duplicate",
            "5 /thought duplicate",
        ]
    );
}

#[test]
fn entries_and_steps_of_other_types_are_told() {
    let source = r#"{"history":[{"role":"user","content":1},null,{"content":[],"role":"assistant",
        "action":{"a":1},"tool_calls":"x"}],"trajectory":[3,{"action":null,"observation":{"o":[]}}],
        "replay_config":"{broken"}"#;
    let mapped = mapped(source);
    assert_eq!(mapped.account.unmapped_lines(), 2);
    assert!(mapped.into_turns().is_ok());
}
