//! Hand-made sources of this format, well-formed and hostile.

use super::*;
use crate::testing::*;

fn mapped(source: &str) -> Mapped {
    mapped_as(NAME, source)
}

const SOURCE: &str = r#"{
  "schema_version": "ATIF-v1.7", "session_id": "s1", "trajectory_id": "t1",
  "agent": {"name": "a", "version": "1", "model_name": "acme/m-1"}, "final_metrics": {"total_steps": 3},
  "steps": [
    {"step_id": 1, "timestamp": "2026-01-01T00:00:00Z", "source": "user", "message": [
      {"type": "text", "text": "look"},
      {"type": "image", "source": {"media_type": "image/png", "path": "i.png"}}
    ]},
    {"step_id": 2, "source": "agent", "reasoning_content": "hm", "message": "I look",
     "tool_calls": [{"tool_call_id": "c1", "function_name": "see", "arguments": {"n": 12345678901234567890}}],
     "observation": {"results": [{"source_call_id": "c1", "content": "a cat"},
        {"content": "loose", "subagent_trajectory_ref": [{"session_id": "s2"}]}]},
     "metrics": {"prompt_tokens": 9, "completion_tokens": 4, "cached_tokens": 2}, "novelty": {"x": 1}},
    {"step_id": 3, "source": "agent", "message": "old", "is_copied_context": true,
     "metrics": {"prompt_tokens": 100}},
    7
  ]
}"#;

#[test]
fn a_step_becomes_a_turn_with_its_calls_and_what_they_answered() {
    let mapped = detected(NAME, SOURCE);
    let account = &mapped.account;
    assert_eq!((account.records, account.turns), (4, 3));
    assert_eq!((account.tool_calls, account.tool_results), (1, 2));
    assert_eq!(
        (account.tokens.input, account.tokens.cached),
        (9, 2),
        "copied context is free"
    );
    assert_eq!(account.unmapped_lines(), 1);
    assert!(dropped(&mapped).is_empty());
    let turn = mapped.turns()[1].clone();
    let rest = source(&turn, "step").unwrap();
    assert!(rest.get("novelty").is_some(), "of a later version");
    assert_eq!(
        (turn.model.vendor.as_str(), turn.model.id.as_deref()),
        ("acme", Some("acme/m-1"))
    );
    let ids: Vec<_> = turn
        .tool_results
        .iter()
        .map(|result| result.id.as_str())
        .collect();
    assert_eq!(ids, ["c1", "step-2-1"]);
    assert_eq!(
        turn.messages[0].content,
        json(
            r#"[{"type":"thinking","thinking":"hm"},{"type":"text","text":"I look"},
            {"type":"tool_call","id":"c1"},{"type":"tool_result","id":"c1"},
            {"type":"tool_result","id":"step-2-1","subagent_trajectory_ref":[{"session_id":"s2"}]}]"#
        )
    );
    assert_eq!(altered(&mapped), ["/tool_calls/0/arguments/n"]);
}

#[test]
fn several_trajectories_in_one_file_are_read_one_after_the_other() {
    let one = r#"{"schema_version":"ATIF-v1.6","session_id":"S","agent":{"name":"a","version":"1"},
        "steps":[{"step_id":1,"source":"user","message":"hi"}]}"#;
    let other = one.replace("\"S\"", "\"T\"");
    let nested = one.replace(
        "\"steps\"",
        &format!("\"subagent_trajectories\":[{other}],\"steps\""),
    );
    for source in [
        format!("[{one},{other}]"),
        format!("{{\"p\":{one},\"c\":{other}}}"),
        nested,
    ] {
        let mapped = mapped(&source);
        assert_eq!(mapped.account.turns, 2, "{source}");
        assert_eq!(dropped(&mapped), [""; 0], "{source}");
        let second = mapped.into_turns().unwrap().remove(1);
        let text = String::from_utf8(threadseal_formats::scroll::serialize(&second)).unwrap();
        assert!(
            text.contains(r#""lines":[2]"#) && text.contains(r#""session":"T""#),
            "{text}"
        );
    }
}

#[test]
fn members_of_other_types_than_expected_are_told_and_nothing_panics() {
    let source = r#"{"schema_version":"ATIF-v1.7","session_id":1,"agent":"x","steps":[
        {"source":5,"message":{"type":"source"},"tool_calls":{"a":1},"observation":[1],
         "metrics":"many","timestamp":[],"reasoning_content":{"t":1}}]}"#;
    let mapped = mapped(source);
    assert_eq!(mapped.account.turns, 1);
    let pointers: Vec<_> = mapped
        .account
        .dropped()
        .filter(|group| group.reason != "form")
        .map(|group| group.pointer)
        .collect();
    assert_eq!(
        pointers,
        [
            "/observation",
            "/reasoning_content",
            "/session_id",
            "/source",
            "/timestamp",
            "/tool_calls"
        ]
    );
}

#[test]
fn a_trajectory_without_steps_is_one_turn_that_says_what_it_was() {
    let mapped = mapped(r#"{"schema_version":"ATIF-v1.7","agent":{"name":"a"},"steps":[]}"#);
    assert_eq!(mapped.account.turns, 1);
    assert_eq!(mapped.turns()[0].model.vendor, "unknown");
    assert!(mapped.into_turns().is_ok());
}

#[test]
fn lines_are_trajectories_or_the_steps_of_one() {
    let step = r#"{"step_id":1,"source":"user","message":[{"type":"text","text":"hear"},{"type":"audio","source":{"media_type":"audio/wav","path":"a.wav"}}],"novel":1}"#;
    let agent = r#"{"step_id":2,"source":"agent","message":"","tool_calls":[{"tool_call_id":"c","function_name":"f","arguments":{}}],"observation":{"results":[{"source_call_id":"c","content":"no","extra":{"status":"error"}}]},"metrics":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let whole = format!(
        r#"{{"schema_version":"ATIF-v1.8","session_id":"s","agent":{{"name":"a"}},"steps":[{step},{agent}],"newer":{{"x":1}}}}"#
    );
    let grown = format!(
        "{}\n{step}\n{{\"type\":\"step\",\"step\":{agent}}}\n{}\n{}\n",
        r#"{"schema_version":"ATIF-v1.8","session_id":"s","agent":{"name":"a"},"newer":{"x":1}}"#,
        r#"{"final_metrics":{"total_steps":2}}"#,
        r#"{"else":true}"#
    );
    for (source, unmapped) in [
        (whole.clone(), 0),
        (format!("{whole}\n{whole}\n"), 0),
        (grown, 1),
    ] {
        let mapped = detected(NAME, &source);
        assert!(roles(&mapped).starts_with("user assistant"), "{source}");
        let tokens = mapped.account.tokens;
        assert_eq!((tokens.input % 3, tokens.output % 2), (0, 0));
        let turns = mapped.turns();
        assert_eq!(kinds(&turns[0]), ["text", "audio"]);
        assert!(!turns[1].tool_results[0].ok);
        assert_eq!(mapped.account.unmapped_lines(), unmapped);
        assert_eq!(word(&turns[0], "session"), Some("s"));
    }
    hostile(NAME, &[&whole]);
}
