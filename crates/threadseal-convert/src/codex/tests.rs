//! Rollouts of Codex, hand-made: each rule of the table, and hostile files.

use super::*;
use crate::testing::*;

fn mapped(lines: &[&str]) -> Mapped {
    mapped_as(NAME, lines.join("\n"))
}

fn item(payload: &str) -> String {
    format!(
        r#"{{"timestamp":"2026-01-01T00:00:01.5Z","type":"response_item","payload":{payload}}}"#
    )
}

fn event(payload: &str) -> String {
    format!(r#"{{"timestamp":"2026-01-01T00:00:02Z","type":"event_msg","payload":{payload}}}"#)
}

const META: &str = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/w","originator":"o","git":{"commit_hash":"c"},"base_instructions":{"text":"Be terse."},"model_provider":"azure"}}"#;
const ASK: &str = r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"List it"},{"type":"input_image","image_url":"data:x"}]}"#;
const THINK: &str = r#"{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"ls"}],"content":null,"encrypted_content":"gAAA"}"#;
const CALL: &str = r#"{"type":"function_call","name":"shell","arguments":"{\"command\": [\"ls\"], \"id\": 12345678901234567890}","call_id":"c1"}"#;
const RESULT: &str = r#"{"type":"function_call_output","call_id":"c1","output":"{\"output\":\"a.txt\",\"metadata\":{\"exit_code\":2}}"}"#;
const SAY: &str = r#"{"type":"message","role":"assistant","id":"m","phase":"final","content":[{"type":"output_text","text":"a.txt","annotations":[]}]}"#;

#[test]
fn items_that_the_model_wrote_in_a_row_are_one_turn() {
    let lines = [ASK, THINK, CALL, RESULT, SAY].map(item);
    let mut lines: Vec<_> = lines.iter().map(String::as_str).collect();
    lines.insert(0, META);
    assert_eq!(crate::detect(META.as_bytes()).unwrap().name, NAME);
    let mapped = mapped(&lines);
    assert_eq!(roles(&mapped), "system user assistant tool assistant");
    assert_eq!(kinds(&mapped.turns()[1]), ["text", "input_image"]);
    let answer = &mapped.turns()[2];
    assert_eq!(
        kinds(answer),
        ["thinking", "redacted_thinking", "tool_call"]
    );
    assert_eq!(answer.model.vendor, "azure");
    assert_eq!(word(answer, "session"), Some("s"));
    let args = answer.tool_calls[0].args.as_ref().unwrap();
    assert_eq!(
        args.get("id").unwrap().as_str(),
        Some("12345678901234567890")
    );
    assert_eq!(altered(&mapped), ["/payload/arguments/id"]);
    let result = &mapped.turns()[3].tool_results[0];
    assert_eq!((result.id.as_str(), result.ok), ("c1", false));
    assert_eq!(word(&mapped.turns()[4], "phase"), Some("final"));
    assert_eq!(dropped_at(&mapped, "/payload/cwd"), ["metadata 1"]);
    assert_eq!(
        dropped_at(&mapped, "/payload/content/0/annotations"),
        ["empty 6"]
    );
}

#[test]
fn events_are_carried_only_where_no_item_says_the_same() {
    let lines = [
        item(ASK),
        event(r#"{"type":"user_message","message":"List it","images":["data:x"]}"#),
        event(r#"{"type":"agent_reasoning","text":"ls"}"#),
        item(THINK),
        item(SAY),
        event(r#"{"type":"agent_message","message":"a.txt"}"#),
        event(r#"{"type":"agent_message","message":"a.txt"}"#),
        event(r#"{"type":"task_complete","last_agent_message":"a.txt"}"#),
        event(r#"{"type":"turn_aborted","reason":"interrupted"}"#),
        event(r#"{"type":"error","message":"quota"}"#),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let mapped = mapped(&lines);
    let turns = mapped.turns();
    let told: Vec<_> = turns.iter().map(|turn| word(turn, "kind")).collect();
    assert_eq!(
        told,
        [
            None,
            None,
            Some("agent_message"),
            Some("turn_aborted"),
            Some("error")
        ]
    );
    assert_eq!(word(&mapped.turns()[3], "stop_reason"), Some("interrupted"));
    assert_eq!(dropped_at(&mapped, "/payload/message"), ["duplicate 2, 6"]);
    assert_eq!(dropped_at(&mapped, "/payload/text"), ["duplicate 3"]);
    assert_eq!(dropped_at(&mapped, "/payload/images/0"), ["duplicate 2"]);
}

#[test]
fn usage_counts_once_and_belongs_to_the_answer() {
    let count = |total: u64, last: u64| {
        event(&format!(
            r#"{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{total}}},"last_token_usage":{{"input_tokens":{last},"cached_input_tokens":1,"output_tokens":2,"reasoning_output_tokens":1}}}},"rate_limits":{{"primary":null}}}}"#
        ))
    };
    let record = r#"{"timestamp":"t","ordinal":9,"type":"token_usage_record","payload":{"response_id":"r1","usage":{"input_tokens":7,"output_tokens":1},"thread_token_usage":{"input_tokens":22}}}"#;
    let (first, again, third) = (count(10, 10), count(10, 10), count(22, 7));
    let late = count(30, 8);
    let (say, think) = (item(SAY), item(THINK));
    let mapped = mapped(&[&say, &first, &again, &think, record, &third, &late]);
    assert_eq!(mapped.account.tokens.input, 10 + 7 + 8);
    assert_eq!(
        mapped.turns().len(),
        3,
        "two answers, and a use of nobody's"
    );
    assert_eq!(word(&mapped.turns()[1], "message"), Some("r1"));
    assert_eq!(word(&mapped.turns()[2], "kind"), Some("usage"));
    let pointer = "/payload/info/last_token_usage";
    assert_eq!(dropped_at(&mapped, pointer), ["duplicate 3, 6"]);
}

#[test]
fn a_context_is_carried_when_it_changes() {
    let context = |turn: &str, policy: &str| {
        format!(
            r#"{{"timestamp":"t","type":"turn_context","payload":{{"turn_id":"{turn}","model":"gpt-x","approval_policy":"{policy}"}}}}"#
        )
    };
    let (first, same, other) = (
        context("1", "never"),
        context("2", "never"),
        context("3", "ask"),
    );
    let say = item(SAY);
    let mapped = mapped(&[&first, &same, &say, &other]);
    assert_eq!(mapped.turns().len(), 3);
    assert_eq!(kinds(&mapped.turns()[0]), ["part"]);
    assert_eq!(word(&mapped.turns()[1], "turn"), Some("2"));
    assert_eq!(mapped.turns()[1].model.id.as_deref(), Some("gpt-x"));
    assert_eq!(
        dropped_at(&mapped, "/payload/approval_policy"),
        ["duplicate 2"]
    );
}

#[test]
fn the_first_generation_has_no_envelopes() {
    let mapped = mapped(&[
        r#"{"id":"s","timestamp":"2025-06-01T00:00:00Z","instructions":"Be brief.","git":{"branch":"b"}}"#,
        r#"{"record_type":"state"}"#,
        ASK,
        CALL,
        RESULT,
    ]);
    assert_eq!(roles(&mapped), "system user assistant tool");
    assert_eq!(word(&mapped.turns()[3], "session"), Some("s"));
    assert_eq!(dropped_at(&mapped, ""), ["metadata 2"]);
}

#[test]
fn the_latest_generation_shows_items_a_second_time() {
    let shown = |inner: &str| {
        event(&format!(
            r#"{{"type":"item_completed","turn_id":"t","item":{inner}}}"#
        ))
    };
    let lines = [
        item(ASK),
        shown(
            r#"{"type":"UserMessage","id":"u","content":[{"type":"text","text":"List it","text_elements":[]}]}"#,
        ),
        shown(r#"{"type":"Reasoning","id":"rs","summary_text":["ls"],"raw_content":[]}"#),
        item(THINK),
        item(CALL),
        shown(r#"{"type":"CommandExecution","id":"c1","aggregated_output":"a.txt"}"#),
        shown(r#"{"type":"CommandExecution","id":"c9","aggregated_output":"b.txt"}"#),
        shown(r#"{"type":"AgentMessage","id":"m","content":[{"type":"Text","text":"unsaid"}]}"#),
    ];
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let mapped = mapped(&lines);
    let turns = mapped.turns();
    let told: Vec<_> = turns.iter().map(kinds).collect();
    let answer = vec!["thinking", "redacted_thinking", "tool_call"];
    assert_eq!(
        told,
        [
            vec!["text", "input_image"],
            answer,
            vec!["part"],
            vec!["text"]
        ]
    );
    assert_eq!(dropped_at(&mapped, ""), ["view 6"]);
    assert_eq!(
        dropped_at(&mapped, "/payload/item/summary_text/0"),
        ["duplicate 3"]
    );
}

#[test]
fn a_compaction_keeps_what_is_new_in_it() {
    let compacted = r#"{"timestamp":"t","type":"compacted","payload":{"message":"So far: a list.","replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text","text":"List it"}]},{"type":"compaction","encrypted_content":"zz"}]}}"#;
    let ask = item(ASK);
    let mapped = mapped(&[&ask, compacted]);
    assert_eq!(kinds(&mapped.turns()[1]), ["text", "part"]);
    let pointer = "/payload/replacement_history/0";
    assert_eq!(dropped_at(&mapped, pointer), ["duplicate 2"]);
}

#[test]
fn what_an_output_says_about_itself_is_its_status() {
    for (output, ok) in [
        (r#""fine""#, true),
        (r#""Process exited with code 1\nOutput:\nx""#, false),
        (r#""Output:\nProcess exited with code 1""#, true),
        (r#""Exit code: 3\nx""#, false),
        (r#"{"content":"x","success":false}"#, false),
        (r#"{"metadata":{"exit_code":0}}"#, true),
        ("null", true),
    ] {
        let line = item(&format!(
            r#"{{"type":"custom_tool_call_output","call_id":"c","output":{output}}}"#
        ));
        assert_eq!(
            mapped(&[&line]).turns()[0].tool_results[0].ok,
            ok,
            "{output}"
        );
    }
}

#[test]
fn hostile_rollouts_are_accounted_for() {
    for line in [
        "{}",
        r#"{"type":7,"payload":{}}"#,
        r#"{"type":"novel","payload":{}}"#,
        r#"{"type":"event_msg"}"#,
        r#"{"type":"event_msg","payload":7}"#,
        r#"{"type":"event_msg","payload":{}}"#,
        r#"{"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":7}}}"#,
        r#"{"type":"event_msg","payload":{"type":"item_completed","item":7}}"#,
        r#"{"type":"event_msg","payload":{"type":"user_message","message":7,"images":[7]}}"#,
        r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[7,"x",{},{"type":"output_text"},{"type":"output_text","text":""}]}}"#,
        r#"{"type":"response_item","payload":{"type":"reasoning","summary":[7],"content":[{"type":"x"}]}}"#,
        r#"{"type":"response_item","payload":{"type":"function_call","arguments":"{\"a\":1,\"a\":2}","call_id":[]}}"#,
        r#"{"type":"response_item","payload":{"type":"novel_output","call_id":7}}"#,
        r#"{"type":"compacted","payload":{"message":7,"replacement_history":[7,{}]}}"#,
        r#"{"type":"token_usage_record","payload":{"usage":7}}"#,
        r#"{"type":"session_meta","payload":{"id":7,"git":7,"base_instructions":7}}"#,
        r#"{"type":"turn_context","payload":{"model":"","turn_id":7}}"#,
        r#"{"role":"user"}"#,
        r#"{"id":"x","role":"y","record_type":"z"}"#,
    ] {
        let mapped = mapped(&[line, line]);
        assert_eq!(mapped.account.records, 2, "{line}");
        mapped.into_turns().unwrap();
    }
}
