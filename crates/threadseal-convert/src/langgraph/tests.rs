//! Rows of checkpoints, hand-made.

use crate::testing::*;
use threadseal_core::encoding::base64;

const FIRST: &str =
    r#"{"format":"threadseal-rows/1","kind":"langgraph","session":"t","database":"/d"}"#;
const HUMAN: &str = r#"{"type":"human","id":"h","content":"list","name":null}"#;
const CALL: &str = r#"{"type":"ai","id":"a","content":[{"type":"text","text":"I look"},{"type":"tool_use","id":"c","name":"ls","input":{}}],"tool_calls":[{"name":"ls","args":{"path":"/"},"id":"c","type":"tool_call"}],"additional_kwargs":{"tool_calls":[{"id":"c"}]},"response_metadata":{"model_name":"m","finish_reason":"tool_calls"},"usage_metadata":{"input_tokens":10,"output_tokens":3,"total_tokens":13,"input_token_details":{"cache_read":4}}}"#;
const RESULT: &str = r#"{"type":"tool","id":"r","content":"no such file","tool_call_id":"c","status":"error","name":"ls"}"#;

/// The line of a row whose `column` has `bytes`.
fn row(table: &str, space: &str, id: &str, kind: &str, bytes: &[u8], more: &str) -> String {
    let column = match table {
        "writes" => "value",
        _ => "checkpoint",
    };
    let key = base64(format!("{space} {id} {more}").as_bytes());
    let bytes = base64(bytes);
    format!(
        r#"{{"table":"{table}","key":["{key}"],"row":{{{more}"{column}":{{"blob":"{bytes}"}},"checkpoint_id":"{id}","checkpoint_ns":"{space}","thread_id":"t","type":"{kind}"}}}}"#
    )
}

fn checkpoint(space: &str, id: &str, channels: &str) -> String {
    let text = format!(
        r#"{{"v":4,"id":"{id}","ts":"2026-11-01T10:00:0{id}+00:00","channel_values":{{{channels}}},"channel_versions":{{"messages":"1"}}}}"#
    );
    row("checkpoints", space, id, "json", text.as_bytes(), "")
}

fn state(space: &str, id: &str, messages: &[&str]) -> String {
    let channels = format!(r#""messages":[{}],"note":"x""#, messages.join(","));
    checkpoint(space, id, &channels)
}

fn write(space: &str, id: &str, channel: &str, task: &str, value: &str) -> String {
    let more = format!(r#""channel":"{channel}","task_id":"{task}","idx":0,"#);
    row("writes", space, id, "json", value.as_bytes(), &more)
}

fn log(lines: &[String]) -> String {
    let mut log = format!("{FIRST}\n");
    for line in lines {
        log.push_str(line);
        log.push('\n');
    }
    log
}

fn mapped(lines: &[String]) -> Mapped {
    let log = log(lines);
    let format = detect(log.as_bytes()).unwrap();
    assert_eq!(format.name, "database-rows");
    format.map(log.as_bytes()).unwrap()
}

fn refused(lines: &[String]) -> String {
    let log = log(lines);
    let format = detect(log.as_bytes()).unwrap();
    format.map(log.as_bytes()).unwrap_err().to_string()
}

fn said(mapped: &Mapped, turn: usize) -> String {
    let turns = mapped.turns();
    let content = turns[turn].messages[0].content.as_array().unwrap();
    let text = content[0].get("text").and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

#[test]
fn each_message_is_one_turn_in_its_newest_form_however_many_checkpoints_have_it() {
    let longer = HUMAN.replace("list", "list all");
    let answer = r#"{"type":"AIMessageChunk","id":"b","content":"none","usage_metadata":{"input_tokens":20,"output_tokens":2}}"#;
    let lines = [
        state("", "3", &[&longer, CALL, RESULT]),
        state("", "1", &[HUMAN]),
        state("", "2", &[HUMAN, CALL]),
        // The first message was removed since.
        state("", "4", &[CALL, RESULT, answer]),
        write("", "3", "messages", "t1", &format!("[{RESULT}]")),
        write("", "4", "branch:to:x", "t1", "null"),
    ];
    let mapped = mapped(&lines);
    assert_eq!(roles(&mapped), "user assistant tool assistant");
    assert_eq!(calls(&mapped), (1, 1));
    assert_eq!(said(&mapped, 0), "list all");
    let turns = mapped.turns();
    assert_eq!(kinds(&turns[1]), ["text", "tool_call"]);
    assert!(!turns[2].tool_results[0].ok);
    assert_eq!(turns[1].model.id.as_deref(), Some("m"));
    assert_eq!(turns[1].timestamp_ns, Some(1_793_527_202_000_000_000));
    let tokens = mapped.account.tokens;
    assert_eq!((tokens.input, tokens.output, tokens.cached), (30, 5, 4));
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
    assert_eq!(source(&turns[0], "lines"), Some(&json("[3,2]")));
}

#[test]
fn messages_without_ids_are_counted_by_content_and_place() {
    let yes = r#"{"role":"user","content":"yes"}"#;
    let lines = [
        state("", "1", &[yes]),
        state("", "2", &[yes, yes]),
        state("", "3", &[yes, yes, r#"["assistant","done"]"#, "\"bye\""]),
        // The last checkpoint's writes are in no checkpoint yet.
        write("", "3", "messages", "t", yes),
        write("", "2", "messages", "t", yes),
    ];
    let mapped = mapped(&lines);
    assert_eq!(roles(&mapped), "user user assistant user user");
    assert_eq!(said(&mapped, 3), "bye");
}

#[test]
fn messages_of_subgraphs_are_beside_the_main_line() {
    let inner = r#"{"type":"ai","id":"i","content":"inside"}"#;
    let lines = [
        state("sub:1", "2", &[HUMAN, inner]),
        state("", "1", &[HUMAN]),
        state("", "3", &[HUMAN]),
    ];
    let mapped = mapped(&lines);
    assert_eq!(roles(&mapped), "user assistant");
    let turns = mapped.turns();
    assert_eq!(source(&turns[0], "sidechain"), None);
    assert_eq!(source(&turns[1], "sidechain"), Some(&true.into()));
    assert_eq!(word(&turns[1], "agent"), Some("sub:1"));
}

#[test]
fn a_channel_that_keeps_only_writes_is_read_from_them() {
    let lines = [
        checkpoint("", "1", ""),
        checkpoint("", "2", ""),
        write("", "2", "messages", "t", &format!("[{CALL}]")),
        write("", "1", "messages", "t", &format!("[{HUMAN}]")),
    ];
    assert_eq!(roles(&mapped(&lines)), "user assistant");
}

#[test]
fn constructed_and_packed_messages_are_read() {
    let constructed = r#"{"lc":1,"type":"constructor","id":["langchain","schema","messages","AIMessage"],"kwargs":{"content":"hello","id":"a"}}"#;
    let mapped = mapped(&[state("", "1", &[constructed])]);
    assert_eq!(
        (roles(&mapped).as_str(), said(&mapped, 0).as_str()),
        ("assistant", "hello")
    );
    // {"channel_values": {"messages": [ext 5 [module, "HumanMessage", {"type": "human", "content": "hi"}, method]]}}
    let message = b"\x94\xa1m\xacHumanMessage\x82\xa4type\xa5human\xa7content\xa2hi\xa1v";
    let length = u8::try_from(message.len()).unwrap();
    let packed = [
        b"\x81\xaechannel_values\x81\xa8messages\x91\xc7".as_slice(),
        &[length, 5],
        message,
    ]
    .concat();
    let lines = [row("checkpoints", "", "1", "msgpack", &packed, "")];
    let log = log(&lines);
    let mapped = detect(log.as_bytes()).unwrap().map(log.as_bytes()).unwrap();
    assert_eq!(
        (roles(&mapped).as_str(), said(&mapped, 0).as_str()),
        ("user", "hi")
    );
}

// T-CAP-91
#[test]
fn where_nothing_is_known_of_turns_the_mapping_gives_the_reason_and_no_count() {
    let none = r#"{"v":4,"channel_values":{"words":[]},"channel_versions":{"words":"1"}}"#;
    let none = row("checkpoints", "", "1", "json", none.as_bytes(), "");
    let why = refused(&[none]);
    assert!(why.contains("no channel `messages`"), "{why}");
    for (kind, bytes, expected) in [
        ("pickle", b"x".as_slice(), "its serialisation is `pickle`"),
        ("msgpack+aes", b"x", "`msgpack+aes`"),
        ("msgpack", &[0x91; 4096], "nested too deep"),
        ("msgpack", b"\xdd\xff\xff\xff\xff", "ends inside a value"),
        ("json", b"{", "no JSON"),
    ] {
        let why = refused(&[row("checkpoints", "", "1", kind, bytes, "")]);
        assert!(why.contains(expected), "{why}");
    }
    // No shape of a value stops the others.
    for odd in [
        "7",
        "null",
        "[7]",
        r#"[{"type":"ai"}]"#,
        r#"[{"lc":1,"id":[]}]"#,
        r#"[{"lc":1,"id":["X"],"kwargs":7}]"#,
        r#"[[1,2]]"#,
        r#"[{"type":7,"content":8}]"#,
    ] {
        let channels = format!(r#""messages":{odd}"#);
        let lines = [checkpoint("", "1", &channels), state("", "2", &[HUMAN])];
        assert_eq!(roles(&mapped(&lines)), "user", "{odd}");
    }
}
