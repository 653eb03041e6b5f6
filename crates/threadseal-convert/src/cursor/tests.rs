//! Transcripts and rows of Cursor, hand-made after public descriptions.

use crate::testing::*;
use threadseal_core::encoding::{base64, hex};

const LINES: [&str; 3] = [
    r#"{"role":"user","message":{"content":[{"type":"text","text":"list the files"}]}}"#,
    r#"{"role":"assistant","message":{"content":[{"type":"text","text":"I look"},{"type":"tool_use","id":"t1","name":"Shell","input":{"command":"ls"}}]}}"#,
    r#"{"type":"turn_ended","status":"completed"}"#,
];

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn key_row(key: &str, value: &str) -> String {
    format!(
        r#"{{"table":"cursorDiskKV","key":["{key}"],"row":{{"key":"{key}","value":{}}}}}"#,
        quoted(value)
    )
}

fn log(kind: &str, rows: &[String]) -> String {
    format!(
        "{{\"format\":\"threadseal-rows/1\",\"kind\":\"{kind}\",\"session\":\"c\",\"database\":\"/d\"}}\n{}\n",
        rows.join("\n")
    )
}

#[test]
fn a_transcript_has_a_turn_for_each_message() {
    let mapped = detected("cursor", LINES.join("\n"));
    assert_eq!(roles(&mapped), "user assistant");
    assert_eq!(calls(&mapped), (1, 0));
    assert_eq!(kinds(&mapped.turns()[1]), ["text", "tool_call"]);
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
}

#[test]
fn hostile_transcripts_are_accounted_for() {
    hostile("cursor", &LINES);
}

#[test]
fn bubbles_are_turns_in_the_order_of_the_composer() {
    let composer = r#"{"composerId":"c","name":"files","fullConversationHeadersOnly":[{"bubbleId":"b2","type":1},{"bubbleId":"b1","type":2},{"bubbleId":"gone","type":2}]}"#;
    let call = r#"{"type":2,"bubbleId":"b1","text":"","thinking":{"text":"hm"},"createdAt":"2026-11-01T10:00:00.000Z","modelInfo":{"modelName":"m"},"tokenCount":{"inputTokens":30,"outputTokens":4},"toolFormerData":{"toolCallId":"t1","name":"read_file","status":"completed","rawArgs":"{\"path\":\"a\"}","result":"{\"contents\":\"x\"}","tool":5},"isAgentic":true}"#;
    let rows = [
        key_row("bubbleId:c:b1", call),
        key_row(
            "bubbleId:c:b2",
            r#"{"type":1,"bubbleId":"b2","text":"read a","richText":"{}"}"#,
        ),
        // A part of the conversation that a person went back from.
        key_row(
            "bubbleId:c:b0",
            r#"{"type":1,"bubbleId":"b0","text":"before"}"#,
        ),
        key_row("composerData:c", composer),
        key_row("messageRequestContext:c:b2", "{}"),
    ];
    let mapped = detected("database-rows", log("cursor", &rows));
    assert_eq!(roles(&mapped), "user assistant");
    assert_eq!(calls(&mapped), (1, 1));
    let turns = mapped.turns();
    assert_eq!(kinds(&turns[1]), ["thinking", "tool_call", "tool_result"]);
    assert!(turns[1].tool_results[0].ok);
    assert_eq!(turns[1].tool_calls[0].args, Some(json(r#"{"path":"a"}"#)));
    assert_eq!(turns[1].model.id.as_deref(), Some("m"));
    let tokens = mapped.account.tokens;
    assert_eq!((tokens.input, tokens.output), (30, 4));
    // Without a list they are in the order of time; older versions have them inside of the composer.
    let mapped = detected("database-rows", log("cursor", &rows[..2]));
    assert_eq!(roles(&mapped), "user assistant");
    let inside =
        r#"{"composerId":"c","conversation":[{"type":1,"text":"a"},{"type":2,"text":"b"}]}"#;
    let mapped = detected(
        "database-rows",
        log("cursor", &[key_row("composerData:c", inside)]),
    );
    assert_eq!(roles(&mapped), "user assistant");
    let lines: Vec<String> = log("cursor", &rows).lines().map(str::to_owned).collect();
    hostile(
        "database-rows",
        &lines.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

#[test]
fn a_chat_is_read_from_its_root() {
    let messages = [
        r#"{"role":"user","content":"list"}"#,
        r#"{"role":"assistant","content":[{"type":"tool-call","toolCallId":"t1","toolName":"Shell","args":{"command":"ls"}}]}"#,
        r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"t1","toolName":"Shell","result":"a"}]}"#,
        r#"{"role":"user","content":"of an earlier root"}"#,
    ];
    let blob = |id: &str, data: &[u8]| {
        let data = base64(data);
        format!(
            r#"{{"table":"blobs","key":["{id}"],"row":{{"data":{{"blob":"{data}"}},"id":"{id}"}}}}"#
        )
    };
    let id = |number: usize| hex(&[u8::try_from(number).unwrap(); 32]);
    let mut rows: Vec<String> = messages
        .iter()
        .enumerate()
        .map(|(number, message)| blob(&id(number), message.as_bytes()))
        .collect();
    let mut root = Vec::new();
    for number in [0, 1, 2, 9] {
        root.extend([0x0a, 32]);
        root.extend([u8::try_from(number).unwrap(); 32]);
    }
    root.extend(b"\x4a\x02/p");
    rows.push(blob("root", &root));
    let meta = |root: &str| {
        let facts = format!(r#"{{"agentId":"c","latestRootBlobId":"{root}","lastUsedModel":"m"}}"#);
        let facts = hex(facts.as_bytes());
        format!(r#"{{"table":"meta","key":["0"],"row":{{"key":"0","value":"{facts}"}}}}"#)
    };
    let with = |root: &str| log("cursor-agent", &[rows.clone(), vec![meta(root)]].concat());
    let mapped = detected("database-rows", with("root"));
    assert_eq!(roles(&mapped), "user assistant tool");
    assert_eq!(calls(&mapped), (1, 1));
    assert_eq!(
        mapped.account.unmapped_lines(),
        1,
        "the message that is not there"
    );
    // What is not understood has no count.
    let source = with("other");
    let why = find("database-rows").unwrap().map(source.as_bytes());
    assert!(why.unwrap_err().to_string().contains("turns are unknown"));
    let odd = [key_row("composerData:c", "no JSON")];
    let source = log("cursor", &odd);
    let why = find("database-rows").unwrap().map(source.as_bytes());
    assert!(why.unwrap_err().to_string().contains("turns are unknown"));
}
