//! Sessions of Claude Code, hand-made: each rule of the table, and hostile files.

use super::*;
use crate::testing::*;

fn mapped(lines: &[&str]) -> Mapped {
    mapped_as(NAME, lines.join("\n"))
}

const ASK: &str = r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-01-01T00:00:00.5Z","isSidechain":false,"cwd":"/w","message":{"role":"user","content":"List it"}}"#;
const THINK: &str = r#"{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"s","timestamp":"2026-01-01T00:00:01Z","requestId":"r1","message":{"id":"m1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"thinking","thinking":"ls will do","signature":"c2ln"}],"stop_reason":null,"usage":{"input_tokens":1,"cache_creation_input_tokens":2,"cache_read_input_tokens":4,"output_tokens":8}}}"#;
const CALL: &str = r#"{"type":"assistant","uuid":"a2","parentUuid":"a1","sessionId":"s","timestamp":"2026-01-01T00:00:02Z","requestId":"r1","message":{"id":"m1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"},"caller":{"type":"direct"}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"cache_creation_input_tokens":2,"cache_read_input_tokens":4,"output_tokens":16}}}"#;
const RESULT: &str = r#"{"type":"user","uuid":"u2","parentUuid":"a2","sessionId":"s","timestamp":"2026-01-01T00:00:03Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"a.txt\nb.txt","is_error":false}]},"toolUseResult":{"stdout":"a.txt\nb.txt","stderr":"","interrupted":false},"sourceToolAssistantUUID":"a2"}"#;

#[test]
fn lines_of_one_message_are_one_turn_whose_usage_counts_once() {
    let mapped = mapped(&[ASK, THINK, CALL, RESULT]);
    assert_eq!(crate::detect(ASK.as_bytes()).unwrap().name, NAME);
    assert_eq!(roles(&mapped), "user assistant tool");
    let answer = &mapped.turns()[1];
    assert_eq!(kinds(answer), ["thinking", "tool_call"]);
    assert_eq!(
        items(answer)[0].get("signature").unwrap().as_str(),
        Some("c2ln")
    );
    assert!(items(answer)[1].get("caller").is_some());
    assert_eq!(answer.timestamp_ns, Some(1_767_225_601_000_000_000));
    assert_eq!(
        answer.tool_calls[0]
            .args
            .as_ref()
            .unwrap()
            .get("command")
            .unwrap()
            .as_str(),
        Some("ls")
    );
    for (name, value) in [
        ("id", "a1"),
        ("parent", "u1"),
        ("session", "s"),
        ("request", "r1"),
        ("message", "m1"),
        ("stop_reason", "tool_use"),
    ] {
        assert_eq!(word(answer, name), Some(value), "{name}");
    }
    assert_eq!(source(answer, "ids").unwrap().as_array().unwrap().len(), 2);
    let tokens = mapped.account.tokens;
    assert_eq!((tokens.input, tokens.cached, tokens.output), (7, 4, 16));
    assert_eq!(dropped_at(&mapped, "/message/usage"), ["superseded 2"]);
    assert_eq!(dropped_at(&mapped, "/toolUseResult"), ["duplicate 4"]);
    assert_eq!(dropped_at(&mapped, "/cwd"), ["metadata 1"]);
    let result = &mapped.turns()[2];
    assert!(result.tool_results[0].ok);
    assert_eq!(result.tool_results[0].response, Some("a.txt\nb.txt".into()));
    assert_eq!(result.model.id.as_deref(), Some("claude-x"));
}

#[test]
fn forks_share_a_parent_and_records_without_turn_are_passed_over() {
    let mapped = mapped(&[
        ASK,
        r#"{"type":"progress","uuid":"p1","parentUuid":"u1","data":{"type":"hook_progress","hookEvent":"x"}}"#,
        r#"{"type":"system","subtype":"turn_duration","uuid":"p2","parentUuid":"p1","durationMs":7}"#,
        r#"{"type":"user","uuid":"x1","parentUuid":"p2","isSidechain":true,"agentId":"ag","message":{"content":"one way"}}"#,
        r#"{"type":"user","uuid":"x2","parentUuid":"u1","message":{"content":[{"type":"text","text":"other way"}]}}"#,
    ]);
    let turns = mapped.turns();
    let parents: Vec<_> = turns.iter().map(|turn| word(turn, "parent")).collect();
    assert_eq!(parents, [None, Some("u1"), Some("u1")]);
    assert_eq!(word(&mapped.turns()[1], "agent"), Some("ag"));
    assert_eq!(
        source(&mapped.turns()[1], "sidechain"),
        Some(&Value::Bool(true))
    );
    assert_eq!(source(&mapped.turns()[2], "sidechain"), None);
    assert_eq!(dropped_at(&mapped, ""), ["metadata 2-3"]);
    assert_eq!(
        dropped_at(&mapped, "/parentUuid"),
        ["empty 1", "metadata 4"]
    );
}

#[test]
fn a_line_written_twice_counts_once() {
    let mapped = mapped(&[ASK, CALL, CALL, ASK]);
    assert_eq!(mapped.turns().len(), 2);
    assert_eq!(mapped.account.tokens.output, 16);
    assert_eq!(dropped_at(&mapped, ""), ["duplicate 3-4"]);
}

#[test]
fn a_block_that_another_line_of_the_message_repeats_counts_once() {
    let again = CALL.replace("\"a2\"", "\"a3\"");
    let mapped = mapped(&[CALL, &again]);
    assert_eq!(mapped.account.tool_calls, 1);
    assert_eq!(dropped_at(&mapped, "/message/content/0"), ["duplicate 2"]);
}

#[test]
fn a_view_that_says_more_than_the_result_is_told_as_such() {
    let more = RESULT.replace("\"stderr\":\"\"", "\"stderr\":\"other\"");
    let mapped_more = mapped(&[&more]);
    assert_eq!(dropped_at(&mapped_more, "/toolUseResult"), ["view 1"]);
    let alone = mapped(&[
        r#"{"type":"user","uuid":"u","timestamp":"t","message":{"contenst":[]},"toolUseResult":"done"}"#,
    ]);
    assert_eq!(
        alone.turns()[0].tool_results[0].response,
        Some("done".into())
    );
    assert_eq!(alone.turns()[0].tool_results[0].id, "result-1");
    assert_eq!(dropped_at(&alone, "/message/contenst"), ["empty 1"]);
}

#[test]
fn copies_of_prompts_are_dropped_only_if_the_conversation_says_them() {
    let mapped = mapped(&[
        r#"{"type":"queue-operation","operation":"enqueue","content":"List it","sessionId":"s"}"#,
        r#"{"type":"queue-operation","operation":"enqueue","content":[{"type":"text","text":"never sent"}],"sessionId":"s"}"#,
        r#"{"type":"queue-operation","operation":"dequeue","sessionId":"s"}"#,
        ASK,
        r#"{"type":"last-prompt","lastPrompt":"List it","sessionId":"s"}"#,
        r#"{"type":"last-prompt","lastPrompt":"gone","sessionId":"s"}"#,
        r#"{"type":"last-prompt","lastPrompt":"gone","sessionId":"s"}"#,
    ]);
    let turns = mapped.turns();
    let said: Vec<_> = turns
        .iter()
        .map(|turn| items(turn)[0].get("text").unwrap().as_str().unwrap())
        .collect();
    assert_eq!(said, ["never sent", "List it", "gone"]);
    assert_eq!(dropped_at(&mapped, "/content"), ["duplicate 1"]);
    assert_eq!(dropped_at(&mapped, "/lastPrompt"), ["duplicate 5, 7"]);
}

#[test]
fn what_the_program_says_is_a_turn_of_the_system() {
    let mapped = mapped(&[
        r#"{"type":"summary","summary":"A list","leafUuid":"u1"}"#,
        r#"{"type":"system","subtype":"compact_boundary","uuid":"c","parentUuid":null,"logicalParentUuid":"u1","content":"Conversation compacted","level":"info","compactMetadata":{"trigger":"auto","preTokens":5}}"#,
        r#"{"type":"attachment","uuid":"at","parentUuid":"c","attachment":{"type":"skill_listing","content":"- x"}}"#,
        r#"{"type":"system","subtype":"api_error","uuid":"e","parentUuid":"at","error":{"status":529},"retryInMs":10}"#,
    ]);
    assert!(mapped.turns().iter().all(|turn| turn.role == Role::System));
    assert_eq!(word(&mapped.turns()[0], "leaf"), Some("u1"));
    assert_eq!(word(&mapped.turns()[1], "kind"), Some("compact_boundary"));
    assert_eq!(word(&mapped.turns()[1], "logical_parent"), Some("u1"));
    assert!(source(&mapped.turns()[1], "compact").is_some());
    assert_eq!(kinds(&mapped.turns()[2]), ["attachment"]);
    assert_eq!(kinds(&mapped.turns()[3]), ["part"]);
    assert!(
        items(&mapped.turns()[3])[0]
            .get("part")
            .unwrap()
            .get("retryInMs")
            .is_some()
    );
}

#[test]
fn the_messages_of_a_subagent_inside_progress_are_turns() {
    let outer = |uuid: &str, inner: &str| {
        format!(
            r#"{{"type":"progress","uuid":"{uuid}","parentUuid":"a2","sessionId":"s","parentToolUseID":"t1","toolUseID":"agent_1","data":{{"type":"agent_progress","agentId":"ag","prompt":"dig","normalizedMessages":[],"message":{inner}}}}}"#
        )
    };
    let ask = outer(
        "p1",
        r#"{"type":"user","uuid":"i1","timestamp":"2026-01-01T00:00:04Z","message":{"role":"user","content":[{"type":"text","text":"dig"}]}}"#,
    );
    let call = outer(
        "p2",
        r#"{"type":"assistant","uuid":"i2","message":{"id":"m9","role":"assistant","model":"small","content":[{"type":"tool_use","id":"t9","name":"Grep","input":{}}],"usage":{"input_tokens":3,"output_tokens":1}}}"#,
    );
    let mapped = mapped(&[CALL, &ask, &call]);
    assert_eq!(mapped.turns().len(), 3);
    let inner = &mapped.turns()[2];
    assert_eq!(inner.tool_calls[0].name, "Grep");
    assert_eq!(inner.model.id.as_deref(), Some("small"));
    assert_eq!(
        (word(inner, "call"), word(inner, "agent")),
        (Some("t1"), Some("ag"))
    );
    assert_eq!(
        (word(inner, "id"), word(inner, "parent")),
        (Some("i2"), Some("a2"))
    );
    assert_eq!(mapped.account.tokens.input, 10);
    assert_eq!(dropped_at(&mapped, "/data/prompt"), ["duplicate 2-3"]);
}

#[test]
fn what_a_command_wrote_so_far_counts_only_without_its_result() {
    let progress = |uuid: &str, written: &str| {
        format!(
            r#"{{"type":"progress","uuid":"{uuid}","parentUuid":"a2","parentToolUseID":"t1","data":{{"type":"bash_progress","output":"{written}","fullOutput":"a{written}","totalLines":1}}}}"#
        )
    };
    let (first, last) = (progress("p1", "b"), progress("p2", "bc"));
    let answered = mapped(&[CALL, &first, &last, RESULT]);
    assert_eq!(dropped_at(&answered, ""), ["superseded 2-3"]);
    let killed = mapped(&[CALL, &first, &last]);
    assert_eq!(killed.turns()[1].role, Role::Tool);
    assert_eq!(
        items(&killed.turns()[1])[0].get("text").unwrap().as_str(),
        Some("abc")
    );
    assert_eq!(dropped_at(&killed, ""), ["superseded 2"]);
}

#[test]
fn unknown_records_are_told_by_line_and_kind() {
    let long = format!(
        r#"{{"type":"{}","uuid":"z","parentUuid":"u1"}}"#,
        "k".repeat(500)
    );
    let mapped = mapped(&[
        ASK,
        r#"{"type":"novel","uuid":"n","parentUuid":"u1","text":"hi"}"#,
        r#"{"type":"user","uuid":"m"}"#,
        r#"{"type":"progress","data":{"type":"novel"}}"#,
        &long,
        r#"{"type":"user","uuid":"c","parentUuid":"n","message":{"content":"child"}}"#,
    ]);
    let told: Vec<_> = mapped
        .account
        .not_mapped()
        .map(|group| (group.reason.len(), group.lines.to_string()))
        .collect();
    assert_eq!(
        told.iter()
            .map(|(_, lines)| lines.as_str())
            .collect::<Vec<_>>(),
        ["3", "4", "5", "2"]
    );
    assert!(told.iter().all(|(length, _)| *length < 100));
    assert_eq!(
        word(&mapped.turns()[1], "parent"),
        Some("u1"),
        "the unknown record is passed over"
    );
}

#[test]
fn the_exported_form_counts_its_lines() {
    let source = format!(r#"{{"loglines":[{ASK},7,{RESULT}],"title":"x"}}"#);
    assert_eq!(crate::detect(source.as_bytes()).unwrap().name, NAME);
    let mapped = find(NAME).unwrap().map(source.as_bytes()).unwrap();
    assert_eq!((mapped.turns().len(), mapped.account.records), (2, 3));
    assert_eq!(mapped.account.unmapped_lines(), 1);
    assert_eq!(dropped_at(&mapped, "/title"), ["unknown member 0"]);
}

#[test]
fn hostile_sessions_are_accounted_for() {
    let cycle = [
        r#"{"type":"system","subtype":"turn_duration","uuid":"a","parentUuid":"b"}"#,
        r#"{"type":"system","subtype":"turn_duration","uuid":"b","parentUuid":"a"}"#,
        r#"{"type":"user","uuid":"a","parentUuid":"a","message":{"content":"hi"}}"#,
    ];
    assert_eq!(mapped(&cycle).turns().len(), 1);
    for line in [
        "{}",
        r#"{"type":7}"#,
        r#"{"type":"user","message":7}"#,
        r#"{"type":"assistant","uuid":[1],"message":{"id":{},"role":1,"content":7,"usage":[],"model":3}}"#,
        r#"{"type":"assistant","message":{"content":[7,null,"x",[1],{},{"type":9},{"type":"tool_use"},{"type":"tool_result"},{"type":"tool_call","id":1},{"type":"source"}]}}"#,
        r#"{"type":"user","message":{"content":{"type":"text","text":"bare"}},"toolUseResult":[],"planContent":7,"error":{}}"#,
        r#"{"type":"system","content":[{"type":"text","text":"x"}],"parentUuid":4}"#,
        r#"{"type":"attachment"}"#,
        r#"{"type":"summary","summary":{}}"#,
        r#"{"type":"progress","data":{"type":"agent_progress","message":{"message":{}}}}"#,
        r#"{"type":"progress","data":{"type":"agent_progress","message":7,"prompt":7}}"#,
        r#"{"type":"progress","data":{"type":"bash_progress","fullOutput":7}}"#,
        r#"{"type":"queue-operation","content":[7,{"type":"text"}]}"#,
    ] {
        let mapped = mapped(&[line, line]);
        assert_eq!(mapped.account.records, 2, "{line}");
        mapped.into_turns().unwrap();
    }
}

#[test]
fn titles_and_requests_are_turns_and_the_state_of_the_program_is_not() {
    let lines = [
        r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-01-01T00:00:00Z","rowSource":"local","message":{"role":"user","content":"List it"}}"#,
        r#"{"type":"attachment","uuid":"t1","parentUuid":"u1","sessionId":"s","attachment":{"type":"model"},"rendered":[{"content":"<reminder/>"}],"renderedRole":"system"}"#,
        r#"{"type":"api-request-shape","sessionId":"s","shapeHash":"h","shape":{"system":[{"type":"text","text":"Be good."}],"tools":[{"name":"Bash"}]}}"#,
        r#"{"type":"api-request-shape","sessionId":"s","shapeHash":"h","shape":{"system":[{"type":"text","text":"Be good."}],"tools":[{"name":"Bash"}]}}"#,
        r#"{"type":"api-request-blob","sessionId":"s","hash":"b1","message":{"role":"user","content":[{"type":"text","text":"<reminder/>"},{"type":"text","text":"List it"},{"type":"text","text":"Only here."}]}}"#,
        r#"{"type":"api-request","sessionId":"s","id":"r1","shapeHash":"h","params":{"max_tokens":9},"keep":0,"tail":["b1"],"requestDigest":"d"}"#,
        r#"{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"s","timestamp":"2026-01-01T00:00:01Z","requestRef":"r1","madeBy":"model","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"c1","name":"Bash","input":{}}],"usage":{"input_tokens":1,"output_tokens":2}}}"#,
        r#"{"type":"user","uuid":"u2","parentUuid":"a1","sessionId":"s","timestamp":"2026-01-01T00:00:02Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"a"}]}}"#,
        r#"{"type":"api-request-blob","sessionId":"s","hash":"b2","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"a and a reminder"}]}}"#,
        r#"{"type":"ai-title","aiTitle":"Lists","sessionId":"s"}"#,
        r#"{"type":"custom-title","customTitle":"Lists","sessionId":"s"}"#,
        r#"{"type":"mode","mode":"normal","sessionId":"s"}"#,
        r#"{"type":"cost-state","totalCostUSD":1,"sessionId":"s"}"#,
        r#"{"type":"tools-used","tools":["Bash"],"sessionId":"s"}"#,
        r#"{"type":"pr-link","prNumber":7,"sessionId":"s"}"#,
    ];
    let mapped = detected(NAME, lines.join("\n"));
    assert_eq!(
        roles(&mapped),
        "user system system system system assistant tool system system"
    );
    assert_eq!(calls(&mapped), (1, 1), "blobs have no calls of their own");
    assert_eq!(mapped.account.unmapped_lines(), 0);
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
    let turns = mapped.turns();
    assert_eq!(kinds(&turns[1]), ["attachment", "text"]);
    assert_eq!(kinds(&turns[2]), ["text", "part"]);
    assert_eq!(
        kinds(&turns[3]),
        ["text"],
        "only what the conversation lacks"
    );
    assert_eq!(word(&turns[4], "id"), Some("r1"));
    assert_eq!(word(&turns[5], "request_ref"), Some("r1"));
    assert_eq!(dropped_at(&mapped, "/message/content/0"), ["view 9"]);
    for pointer in ["/message/content/0/text", "/message/content/1/text"] {
        assert_eq!(dropped_at(&mapped, pointer), ["duplicate 5"]);
    }
    assert_eq!(
        dropped_at(&mapped, ""),
        ["duplicate 4, 11", "metadata 12-14"]
    );
}
