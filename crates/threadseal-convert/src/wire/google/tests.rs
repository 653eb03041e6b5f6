//! Parts, calls matched to results without ids, responses whole and streamed, wrong types.

use super::super::testing::{map, spoilt};
use super::FORMAT;

const ITEMS: &str = "/messages/0/content";
const SOURCE: &str = "/messages/1/content/0";

#[test]
fn calls_without_ids_are_matched_to_results_by_name_and_order() {
    let one = r#"{"contents":[{"role":"user","parts":[{"text":"go"}]},
        {"role":"model","parts":[{"functionCall":{"name":"f","args":{"n":1}}},{"functionCall":{"name":"g"}},{"functionCall":{"name":"f","args":{"n":2}}}]}]}"#;
    let two = r#"{"contents":[{"role":"user","parts":[{"text":"go"}]},
        {"role":"model","parts":[{"functionCall":{"name":"f","args":{"n":1}}},{"functionCall":{"name":"g"}},{"functionCall":{"name":"f","args":{"n":2}}}]},
        {"role":"user","parts":[{"functionResponse":{"name":"g","response":{"output":"G"}}},{"functionResponse":{"name":"f","response":{"error":"bad"}}},
          {"functionResponse":{"name":"f","response":{"output":"F2"}}},{"functionResponse":{"name":"f","response":{}}}]}]}"#;
    let made = map(
        FORMAT,
        format!("{}\n{}", one.replace('\n', ""), two.replace('\n', "")),
    );
    assert_eq!(made.roles(), ["user", "assistant", "tool"]);
    let ids = [0, 1, 2].map(|index| made.text(1, &format!("/tool_calls/{index}/id")));
    assert_eq!(ids, [r#""unnamed-1""#, r#""unnamed-2""#, r#""unnamed-3""#]);
    let ids = [0, 1, 2, 3].map(|index| made.text(2, &format!("/tool_results/{index}/id")));
    assert_eq!(
        ids,
        [
            r#""unnamed-2""#,
            r#""unnamed-1""#,
            r#""unnamed-3""#,
            r#""unnamed-4""#
        ]
    );
    assert_eq!(made.text(2, "/tool_results/1/status"), r#""error""#);
    assert_eq!(made.text(1, "/tool_calls/1/args"), "{}");
}

#[test]
fn every_kind_of_part_is_carried() {
    let made = map(
        FORMAT,
        r#"{"POST":"/v1beta/models/gemini-9:streamGenerateContent?alt=sse","body":{"systemInstruction":{"parts":[{"text":"rules"}]},
         "generationConfig":{"temperature":1,"topP":0.95,"topK":64,"maxOutputTokens":5},"tools":[{"functionDeclarations":[]}],
         "contents":[{"parts":[{"text":"see"},{"inlineData":{"mimeType":"image/png","data":"AA"}}]},
          {"role":"model","parts":[{"text":"hm","thought":true,"thoughtSignature":"s"},{"functionCall":{"id":"c","name":"f","args":{}},"thoughtSignature":"t"},
            {"executableCode":{"language":"PYTHON","code":"1"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}},{"text":"a","functionCall":{}}]},
          {"role":"function","parts":[{"functionResponse":{"id":"c","name":"f","response":{"output":"r"},"willContinue":false}}]}]}}"#,
    );
    assert_eq!(
        made.roles(),
        ["system", "system", "user", "assistant", "tool"]
    );
    assert_eq!(
        made.text(1, "/messages/0/content/0/params"),
        r#"{"topK":64}"#
    );
    assert_eq!(
        made.text(2, "/model"),
        r#"{"id":"gemini-9","vendor":"google"}"#
    );
    assert_eq!(
        made.text(2, "/params"),
        r#"{"max_tokens":5,"temperature":1,"top_p":0.95}"#
    );
    assert_eq!(
        made.text(2, ITEMS),
        concat!(
            r#"[{"text":"see","type":"text"},"#,
            r#"{"part":{"inlineData":{"data":"AA","mimeType":"image/png"}},"type":"part"}]"#
        )
    );
    assert_eq!(
        made.text(3, ITEMS),
        concat!(
            r#"[{"thinking":"hm","thoughtSignature":"s","type":"thinking"},{"id":"c","thoughtSignature":"t","type":"tool_call"},"#,
            r#"{"id":"unnamed-1","type":"tool_call"},{"id":"unnamed-1","type":"tool_result"},"#,
            r#"{"part":{"functionCall":{},"text":"a"},"type":"part"}]"#
        )
    );
    assert_eq!(
        made.text(3, "/tool_calls/1/args"),
        r#"{"code":"1","language":"PYTHON"}"#
    );
    assert_eq!(made.text(4, "/tool_results/0/id"), r#""c""#);
    assert_eq!(
        made.dropped(),
        [
            "/POST: metadata",
            "/body/contents/2/parts/0/functionResponse/willContinue: unknown member"
        ]
    );
}

#[test]
fn a_stream_is_the_response_that_it_makes() {
    let events = [
        r#"{"candidates":[{"content":{"parts":[{"text":"th","thought":true}],"role":"model"}}],"usageMetadata":{"promptTokenCount":4},"modelVersion":"g","responseId":"r"}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"ink","thought":true},{"text":"he"}],"role":"model"}}],"modelVersion":"g"}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"y"},{"functionCall":{"name":"f","args":{"a":1}}},{"text":"","thoughtSignature":"s"}]},"finishReason":"STOP"}],
            "usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":3,"thoughtsTokenCount":2,"cachedContentTokenCount":1,"toolUsePromptTokenCount":6},"createTime":"2026-11-21T20:38:42Z"}"#,
    ];
    let stream: String = events
        .iter()
        .map(|event| format!("data: {}\r\n\r\n", event.replace('\n', "")))
        .collect();
    let made = map(FORMAT, &stream);
    let array = map(FORMAT, format!("[{}]", events.join(",")));
    for made in [made, array] {
        assert_eq!(
            made.text(0, ITEMS),
            concat!(
                r#"[{"thinking":"think","type":"thinking"},{"text":"hey","type":"text"},"#,
                r#"{"id":"unnamed-1","type":"tool_call"},{"text":"","thoughtSignature":"s","type":"text"}]"#
            )
        );
        assert_eq!(made.text(0, &format!("{SOURCE}/stop_reason")), r#""STOP""#);
        assert_eq!(
            made.text(0, &format!("{SOURCE}/tokens")),
            r#"{"cached":1,"input":10,"output":5,"reasoning":2}"#
        );
        assert_eq!(made.text(0, "/timestamp_ns"), "1795293522000000000");
        assert_eq!(made.dropped(), [""; 0]);
    }
}

#[test]
fn a_response_without_content_says_why() {
    let made = map(
        FORMAT,
        r#"{"candidates":[{"finishReason":"SAFETY","safetyRatings":[{"category":"X"}]},{"index":1,"content":{"parts":[{"text":"b"}]}}],"promptFeedback":{"blockReason":"OTHER"}}"#,
    );
    assert_eq!(made.roles(), ["assistant", "assistant"]);
    assert_eq!(made.text(0, ITEMS), "[]");
    assert_eq!(
        made.text(0, &format!("{SOURCE}/safetyRatings")),
        r#"[{"category":"X"}]"#
    );
    assert_eq!(
        made.text(0, &format!("{SOURCE}/promptFeedback")),
        r#"{"blockReason":"OTHER"}"#
    );
    assert_eq!(made.text(1, &format!("{SOURCE}/choice")), "1");
}

#[test]
fn whatever_is_wrong_in_a_source_is_told_and_nothing_panics() {
    let sample = r#"{"request":{"model":"models/m","generationConfig":{"topP":1},"systemInstruction":{"parts":[{"text":"s"}]},
       "contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{"x":1}}},{"executableCode":{"code":"1"}}]},
       {"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"r"}}},{"codeExecutionResult":{"outcome":"x"}}]}]},
       "response":[{"candidates":[{"content":{"parts":[{"text":"t","thought":true}]},"index":0}],"usageMetadata":{"promptTokenCount":1}}]}"#;
    for source in spoilt(sample) {
        if FORMAT.map(source.as_bytes()).is_ok() {
            map(FORMAT, &source);
        }
    }
}
