//! Detection of APIs, and the shapes of a capture.

use super::super::{detect, find};
use super::testing::map;

#[test]
fn the_api_of_a_source_is_told_by_what_it_holds() {
    for (name, source) in [
        (
            "anthropic",
            r#"{"model":"claude","system":"s","messages":[{"role":"user","content":"q"}]}"#,
        ),
        (
            "anthropic",
            r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a"}]}]}"#,
        ),
        (
            "anthropic",
            r#"[{"role":"user","content":[{"type":"tool_result"}]}]"#,
        ),
        (
            "anthropic",
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n",
        ),
        (
            "openai-chat",
            r#"{"model":"m","messages":[{"role":"user","content":"q"}]}"#,
        ),
        (
            "openai-chat",
            r#"[{"method":"GET"},{"method":"POST","response":"data: {\"choices\":[{\"delta\":{}}]}\n\n"}]"#,
        ),
        (
            "openai-chat",
            r#"{"choices":[{"message":{"role":"assistant","content":"a"}}]}"#,
        ),
        ("openai-responses", r#"{"model":"m","input":"q"}"#),
        ("openai-responses", r#"{"object":"response","output":[]}"#),
        ("google", r#"{"contents":[{"parts":[{"text":"q"}]}]}"#),
        (
            "google",
            r#"{"log":{"entries":[{"request":{"postData":{"text":"{\"contents\":[{\"parts\":[]}]}"}}}]}}"#,
        ),
    ] {
        assert_eq!(
            detect(source.as_bytes()).map(|format| format.name),
            Some(name),
            "{source}"
        );
    }
    for source in [
        "",
        "{}",
        "[]",
        "data: x\n\n",
        r#"{"messages":[]}"#,
        r#"{"input":5}"#,
        "[[]]",
    ] {
        assert_eq!(
            detect(source.as_bytes()).map(|format| format.name),
            None,
            "{source}"
        );
    }
}

#[test]
fn a_har_file_is_a_capture_and_its_headers_are_not_carried() {
    let source = r#"{"log":{"version":"1.2","entries":[{"startedDateTime":"2026-11-21T20:38:42Z",
      "request":{"method":"POST","headers":[{"name":"authorization","value":"secret"}],
       "postData":{"mimeType":"application/json","text":"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]}"}},
      "response":{"status":200,"content":{"text":"{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"a\"}}]}"}}}]}}"#;
    let format = *find("openai-chat").unwrap();
    let made = map(format, source);
    assert_eq!(made.roles(), ["user", "assistant"]);
    assert_eq!(made.text(0, "/timestamp_ns"), "1795293522000000000");
    assert_eq!(
        made.dropped(),
        [
            "/request/headers: metadata",
            "/request/method: metadata",
            "/request/postData/mimeType: metadata",
            "/response/status: metadata"
        ]
    );
}

#[test]
fn a_source_of_nothing_is_an_error() {
    for name in ["anthropic", "openai-chat", "openai-responses", "google"] {
        let format = find(name).unwrap();
        for source in ["", "{}", "[]", "7\n", "data: [DONE]\n\n", "\u{0}"] {
            assert!(format.map(source.as_bytes()).is_err(), "{name} {source:?}");
        }
    }
}
