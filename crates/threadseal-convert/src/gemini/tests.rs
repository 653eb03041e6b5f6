//! Sessions of Gemini CLI, hand-made: each rule of the table, and hostile files.

use super::*;
use crate::testing::*;

fn mapped(source: &str) -> Mapped {
    mapped_as(NAME, source)
}

fn turn(mapped: &Mapped, index: usize) -> Value {
    let turn = mapped.turns()[index].clone().into_turn(index as u64);
    turn.unwrap().into_value()
}

const HEAD: &str = r#"{"sessionId":"s1","projectHash":"p","startTime":"2026-01-01T00:00:00Z","lastUpdated":"2026-01-01T00:00:00Z","kind":"main"}"#;

#[test]
fn the_last_copy_of_a_message_counts_in_the_place_of_the_first() {
    let source = format!(
        "{HEAD}\n{}\n{}\n{}\n{}\n",
        r#"{"$set":{"messages":[{"id":"u0","type":"user","content":[{"text":"context"}]}],"lastUpdated":"x"}}"#,
        r#"{"id":"g1","timestamp":"2026-01-01T00:00:01.250Z","type":"gemini","content":"","thoughts":[],"tokens":{"input":9,"output":3,"cached":1,"thoughts":2,"tool":4,"total":18},"model":"gemini-x"}"#,
        r#"{"id":"u2","type":"user","content":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"a.txt"}}}]}"#,
        r#"{"id":"g1","timestamp":"2026-01-01T00:00:01.250Z","type":"gemini","content":"","thoughts":[{"subject":"Plan","description":"look first","timestamp":"t"}],"tokens":{"input":9,"output":3,"cached":1,"thoughts":2,"tool":4,"total":18},"model":"gemini-x","toolCalls":[{"id":"c1","name":"ls","args":{"dir":"."},"result":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"a.txt"}}}],"status":"success","timestamp":"t2","resultDisplay":"one file","displayName":"List"}]}"#,
    );
    let mapped = detected(NAME, &source);
    assert_eq!(roles(&mapped), "user assistant", "an answer alone repeats");
    assert_eq!(calls(&mapped), (1, 1));
    let tokens = mapped.account.tokens;
    assert_eq!(
        (tokens.input, tokens.output),
        (13, 5),
        "the first copy is not counted"
    );
    let expected = json(
        r#"{"version":"scroll/0.1","turn":1,"role":"assistant",
        "model":{"vendor":"google","id":"gemini-x"},"params":{"temperature":1,"top_p":1},
        "messages":[{"role":"assistant","content":[
            {"type":"thinking","thinking":"look first","subject":"Plan","time":"t"},
            {"type":"tool_call","id":"c1"},{"type":"tool_result","id":"c1","time":"t2"}]},
          {"role":"source","content":[{"type":"source","format":"gemini-cli","lines":[5],
            "time":"2026-01-01T00:00:01.250Z","session":"s1","id":"g1",
            "tokens":{"input":13,"output":5,"cached":1,"reasoning":2},
            "usage":{"input":9,"output":3,"cached":1,"thoughts":2,"tool":4,"total":18}}]}],
        "tool_calls":[{"id":"c1","name":"ls","args_hash":"sha256:A","args":{"dir":"."}}],
        "tool_results":[{"id":"c1","status":"ok","response_hash":"sha256:B",
            "response":{"output":"a.txt"}}],
        "timestamp_ns":1767225601250000000}"#
            .replace(
                "sha256:A",
                &format!("sha256:{}", Digest::of(br#"{"dir":"."}"#)),
            )
            .replace(
                "sha256:B",
                &format!("sha256:{}", Digest::of(br#"{"output":"a.txt"}"#)),
            )
            .as_str(),
    );
    assert_eq!(turn(&mapped, 1), expected);
    let dropped = dropped(&mapped);
    for expected in [
        "3  superseded",
        "4  duplicate",
        "5 /toolCalls/0/resultDisplay view",
        "1 /projectHash metadata",
        "2 /$set/lastUpdated metadata",
    ] {
        assert!(
            dropped.iter().any(|line| line == expected),
            "{expected}: {dropped:#?}"
        );
    }
}

// T-SCR-50
#[test]
fn an_answer_with_the_id_of_its_call_does_not_replace_the_call() {
    let call = r#"{"id":"g1","type":"gemini","content":"","thoughts":[{"subject":"Plan","description":"look"}],"tokens":{"input":9,"output":3},"toolCalls":[{"id":"c1","name":"ls","args":{"d":"."},"result":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"a"}}}],"status":"success"}]}"#;
    let answer = r#"{"id":"g1","type":"user","content":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"a"}}}]}"#;
    let repeated = call.replace(
        r#""content":"""#,
        r#""content":[{"text":"**Plan** look","thought":true},{"functionCall":{"id":"c1","name":"ls","args":{"d":"."}}}]"#,
    );
    let source = format!(
        "{HEAD}\n{}\n{call}\n{}\n{{\"$set\":{{\"messages\":[{repeated},{answer},{answer}]}}}}\n",
        r#"{"id":"u","type":"user","content":"list"}"#,
        answer.replace("g1", "u2"),
    );
    let mapped = detected(NAME, &source);
    assert_eq!(roles(&mapped), "user assistant");
    assert_eq!(calls(&mapped), (1, 1));
    assert_eq!(mapped.account.tokens.input, 9);
    assert_eq!(
        kinds(&mapped.turns()[1]),
        ["thinking", "tool_call", "tool_result"]
    );
    assert_eq!(mapped.account.unmapped_lines(), 0);
}

#[test]
fn a_call_that_a_compaction_repeats_with_a_new_id_is_carried_once() {
    let call = r#"{"id":"g1","type":"gemini","content":"","tokens":{"input":9,"output":3},"toolCalls":[{"id":"c1","name":"ls","args":{"d":"."},"result":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"a"}}}],"status":"success"}]}"#;
    let part = r#"{"functionCall":{"name":"ls","args":{"d":"."},"id":"c1"}}"#;
    let answer = r#"{"functionResponse":{"id":"c1","name":"ls","response":{"output":"a"}}}"#;
    let repeated = |part: &str| {
        format!(
            r#"{{"$set":{{"messages":[{{"id":"u8","type":"user","content":[{{"text":"so far: one file"}}]}},
            {{"id":"g9","type":"gemini","content":[{part}]}},{{"id":"u9","type":"user","content":[{answer}]}}]}}}}"#
        )
        .replace('\n', "")
    };
    let of = |lines: &[&str]| {
        let mapped = mapped(&format!("{HEAD}\n{}\n", lines.join("\n")));
        (roles(&mapped), calls(&mapped))
    };
    let set = repeated(part);
    let once = ("assistant user".to_owned(), (1, 1));
    assert_eq!(of(&[call, &set]), once);
    assert_eq!(of(&[call, &set, &set]), once);
    // Where only the parts remain, the first one counts.
    assert_eq!(
        of(&[&set, &set.replace("g9", "g10")]),
        ("user assistant tool".to_owned(), (1, 1))
    );
    // Another call, or one without id, is no repetition.
    for other in [
        part.replace("\".\"", "\"..\""),
        part.replace(",\"id\":\"c1\"", ""),
    ] {
        assert_eq!(of(&[call, &repeated(&other)]).1, (2, 1), "{other}");
    }
}

#[test]
fn an_answer_without_a_record_of_its_call_is_carried_once() {
    let answer = r#"{"id":"N","type":"user","content":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"a"}}}]}"#;
    let [first, second] = ["a", "b"].map(|id| answer.replace('N', id));
    let mapped = mapped(&format!("{HEAD}\n{first}\n{second}\n"));
    assert_eq!(roles(&mapped), "tool");
    assert_eq!(calls(&mapped), (0, 1));
}

#[test]
fn the_object_form_counts_messages_from_one() {
    let source = r#"{"sessionId":"s","projectHash":"p","summary":"short","messages":[
        {"type":"user","content":"hi","novel":1},
        7,
        {"type":"error","content":"quota"},
        {"type":"gemini","content":"","toolCalls":[{"name":"write","args":{},"status":"error",
            "resultDisplay":"not found"},{"id":"c9","name":"wait","args":{},"status":"cancelled"}]}]}"#;
    let mapped = detected(NAME, source);
    assert_eq!(roles(&mapped), "system user system assistant");
    assert_eq!(mapped.account.records, 4);
    assert_eq!(mapped.account.unmapped_lines(), 1);
    let dropped = dropped(&mapped);
    assert!(
        dropped.iter().any(|line| line == "1 /novel unknown member"),
        "{dropped:?}"
    );
    let last = &mapped.turns()[3];
    assert_eq!(last.tool_calls[0].id, "call-4-0");
    assert!(!last.tool_results[0].ok);
    assert_eq!(last.tool_results[0].response, Some("not found".into()));
    assert_eq!(
        items(last)[2].get("status").and_then(Value::as_str),
        Some("cancelled")
    );
}

#[test]
fn parts_of_every_kind_are_carried_once() {
    let source = format!(
        "{HEAD}\n{}\n{}\n{}\n",
        r#"{"id":"u","type":"user","content":[{"text":"see"},{"text":"hm","thought":true},{"inlineData":{"mimeType":"image/png","data":"AAAA"}},"bare",{"functionResponse":{"id":"x","name":"f","response":{"error":"no"}}}]}"#,
        r#"{"$rewindTo":"u"}"#,
        r#"{"id":"g","type":"gemini","content":[{"functionCall":{"id":"y","name":"f","args":{"n":12345678901234567890}}}]}"#,
    );
    let mapped = mapped(&source);
    let turns = mapped.turns();
    assert_eq!(
        kinds(&turns[0]),
        ["text", "thinking", "part", "text", "tool_result"]
    );
    assert!(!mapped.turns()[0].tool_results[0].ok);
    let args = mapped.turns()[1].tool_calls[0].args.clone().unwrap();
    assert_eq!(
        args.get("n").and_then(Value::as_str),
        Some("12345678901234567890")
    );
    assert_eq!(altered(&mapped), ["/content/0/functionCall/args/n"]);
    let turns = mapped.turns();
    assert_eq!(word(&turns[1], "parent"), Some("u"));
}

#[test]
fn hostile_sessions_are_accounted_for() {
    for source in [
        "",
        "\n\n",
        "{}",
        "{\"sessionId\":1,\"projectHash\":[]}",
        "{\"sessionId\":\"s\",\"projectHash\":\"p\",\"messages\":{}}",
        "{\"$set\":7}\n{\"$set\":{\"messages\":[1,null,{\"id\":\"a\"}]}}\n{\"$set\":{\"messages\":7}}",
        "{\"id\":\"a\",\"type\":7,\"content\":{\"x\":1},\"toolCalls\":{},\"thoughts\":7,\"tokens\":[1]}",
        "{\"id\":\"a\",\"type\":\"gemini\",\"toolCalls\":[7,{\"result\":[]},{\"result\":[{\"functionResponse\":7}]}]}",
        "{\"id\":\"a\",\"type\":\"user\"}\n{\"id\":\"a\"}\n{\"$rewindTo\":7}",
    ] {
        mapped(source).into_turns().unwrap();
    }
}
