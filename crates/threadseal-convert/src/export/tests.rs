//! Round trips, parts without a place in the target, and content that imitates layout.

use super::{Chain, Exported, TARGETS, find_target};
use crate::find;
use proptest::prelude::*;
use threadseal_core::canon::jcs;
use threadseal_core::canon::json::{Value, parse};
use threadseal_core::error::ErrorKind;
use threadseal_core::record::ExpectedHead;
use threadseal_core::report::{Expectation, Verdict};
use threadseal_core::time::Timestamp;
use threadseal_core::trust::{Trust, TrustStore};
use threadseal_formats::scroll::{ChainOptions, Container, Judging, SealedTurn, judge, seal_chain};

fn sealed(format: &str, source: &str) -> Vec<u8> {
    let mapped = find(format).unwrap().map(source.as_bytes()).unwrap();
    let turns = mapped.into_turns().unwrap();
    let sealed = seal_chain(turns, None).unwrap();
    let values = sealed.into_iter().map(SealedTurn::into_value).collect();
    jcs::to_vec(&Value::Array(values)).unwrap()
}

fn export(target: &str, scroll: &[u8]) -> Exported {
    let chain = Chain::danger_unverified(scroll, Container::Array, Verdict::Consistent).unwrap();
    find_target(target).unwrap().export(&chain)
}

fn member(bytes: &[u8], name: &str) -> String {
    let value = parse(bytes).unwrap();
    let member = value.get(name).cloned().unwrap_or(Value::Null);
    String::from_utf8(jcs::to_vec(&member).unwrap()).unwrap()
}

fn lost(exported: &Exported) -> Vec<String> {
    let all = exported
        .lost
        .iter()
        .filter(|lost| lost.reason == "no place");
    all.map(|lost| format!("{} {}", lost.pointer, lost.turns))
        .collect()
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,6}",
        Just("```\n# not a heading".to_owned()),
        Just("say \"hi\"\u{1f600}\\".to_owned())
    ]
}

fn quoted(text: &str) -> String {
    String::from_utf8(jcs::to_vec(&text.into()).unwrap()).unwrap()
}

fn json_object() -> impl Strategy<Value = String> {
    let member = prop_oneof![
        Just("1".to_owned()),
        Just("[null,true,{\"x\":0.5}]".to_owned()),
        word().prop_map(|word| quoted(&word))
    ];
    prop::collection::vec(member, 0..3).prop_map(|members| {
        let named = members.iter().enumerate();
        let members: Vec<_> = named
            .map(|(index, value)| format!("\"k{index}\":{value}"))
            .collect();
        format!("{{{}}}", members.join(","))
    })
}

fn anthropic_message() -> impl Strategy<Value = String> {
    let block = prop_oneof![
        word().prop_map(|word| format!(r#"{{"text":{},"type":"text"}}"#, quoted(&word))),
        (word(), word(), json_object()).prop_map(|(id, name, input)| format!(
            r#"{{"id":{},"input":{input},"name":{},"type":"tool_use"}}"#,
            quoted(&id),
            quoted(&name)
        )),
        (word(), word(), any::<bool>()).prop_map(|(id, text, failed)| format!(
            r#"{{"content":{},"is_error":{failed},"tool_use_id":{},"type":"tool_result"}}"#,
            quoted(&text),
            quoted(&id)
        )),
        Just(
            r#"{"source":{"data":"AA","media_type":"image/png","type":"base64"},"type":"image"}"#
                .to_owned()
        ),
        Just(r#"{"cache_control":{"type":"ephemeral"},"text":"c","type":"text"}"#.to_owned()),
        word().prop_map(|word| format!(
            r#"{{"signature":"s","thinking":{},"type":"thinking"}}"#,
            quoted(&word)
        )),
    ];
    let content = prop_oneof![
        word().prop_map(|word| quoted(&word)),
        prop::collection::vec(block, 0..4).prop_map(|blocks| format!("[{}]", blocks.join(",")))
    ];
    (content, prop::bool::ANY).prop_map(|(content, model)| {
        let role = if model { "assistant" } else { "user" };
        format!(r#"{{"content":{content},"role":"{role}"}}"#)
    })
}

fn chat_message() -> impl Strategy<Value = String> {
    let call = (word(), word(), json_object()).prop_map(|(id, name, args)| {
        format!(
            r#"{{"function":{{"arguments":{},"name":{}}},"id":{},"type":"function"}}"#,
            quoted(&args),
            quoted(&name),
            quoted(&id)
        )
    });
    let calls = prop::collection::vec(call, 1..3).prop_map(|calls| calls.join(","));
    let text = || word().prop_map(|word| quoted(&format!("t{word}")));
    prop_oneof![
        (prop_oneof!["system", "user", "developer"], text())
            .prop_map(|(role, text)| format!(r#"{{"content":{text},"role":"{role}"}}"#)),
        text().prop_map(|text| format!(r#"{{"content":{text},"name":"ann","role":"user"}}"#)),
        text().prop_map(|text| format!(
            r#"{{"content":[{{"text":{text},"type":"text"}},{{"image_url":{{"url":"https://x/y"}},"type":"image_url"}}],"role":"user"}}"#
        )),
        text().prop_map(|text| format!(r#"{{"content":{text},"refusal":"no","role":"assistant"}}"#)),
        (prop_oneof![Just("null".to_owned()), text()], calls).prop_map(|(content, calls)| format!(
            r#"{{"content":{content},"role":"assistant","tool_calls":[{calls}]}}"#
        )),
        (word(), word()).prop_map(|(id, text)| format!(
            r#"{{"content":{},"role":"tool","tool_call_id":{}}}"#,
            quoted(&text),
            quoted(&id)
        )),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_request_of_anthropic_comes_back_as_it_was(
        messages in prop::collection::vec(anthropic_message(), 1..6),
        system in prop::option::of(prop_oneof![
            Just(r#""be brief""#), Just(r#"[{"text":"a","type":"text"},{"text":"b","type":"text"}]"#)
        ]),
        tools in prop::option::of(Just(r#"[{"input_schema":{},"name":"t"}]"#)),
    ) {
        let messages = format!("[{}]", messages.join(","));
        let mut source = format!(r#"{{"model":"claude","max_tokens":9,"messages":{messages}"#);
        for (name, value) in [("system", system), ("tools", tools)] {
            source.extend(value.map(|value| format!(r#","{name}":{value}"#)));
        }
        source.push('}');
        let exported = export("anthropic", &sealed("anthropic", &source));
        prop_assert_eq!(member(&exported.bytes, "messages"), messages);
        prop_assert_eq!(member(&exported.bytes, "system"), system.unwrap_or("null"));
        prop_assert_eq!(member(&exported.bytes, "tools"), tools.unwrap_or("null"));
        prop_assert_eq!(member(&exported.bytes, "model"), r#""claude""#);
        prop_assert_eq!(member(&exported.bytes, "max_tokens"), "9");
        let told = lost(&exported);
        let known = |told: &String| told.starts_with("/timestamp_ns ") || told.contains("/content/0/format ");
        prop_assert!(told.iter().all(known), "{:?}", told);
    }

    #[test]
    fn a_request_of_openai_comes_back_as_it_was(
        messages in prop::collection::vec(chat_message(), 1..6),
        tools in prop::option::of(Just(r#"[{"function":{"name":"f"},"type":"function"}]"#)),
    ) {
        let messages = format!("[{}]", messages.join(","));
        let mut source = format!(r#"{{"model":"gpt","seed":7,"temperature":0.5,"messages":{messages}"#);
        source.extend(tools.map(|tools| format!(r#","tools":{tools}"#)));
        source.push('}');
        let exported = export("openai", &sealed("openai-chat", &source));
        prop_assert_eq!(member(&exported.bytes, "messages"), messages);
        prop_assert_eq!(member(&exported.bytes, "tools"), tools.unwrap_or("null"));
        prop_assert_eq!(member(&exported.bytes, "seed"), "7");
        prop_assert_eq!(member(&exported.bytes, "temperature"), "0.5");
    }

    // T-SCR-22
    #[test]
    fn no_content_can_pass_for_layout(messages in prop::collection::vec(hostile(), 1..5)) {
        let messages: Vec<String> = messages.iter().map(|text| {
            let text = quoted(text);
            format!(concat!(
                r#"{{"role":"user","content":{0}}},{{"role":"assistant","content":[{{"type":"thinking","thinking":{0}}},"#,
                r#"{{"type":{0},"x":{0}}},{{"type":"tool_use","id":{0},"name":{0},"input":{{"k":{0}}}}}]}},"#,
                r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":{0},"content":{0}}}]}}"#
            ), text)
        }).collect();
        let source = format!(r#"{{"model":"claude","messages":[{}]}}"#, messages.join(","));
        let exported = export("markdown", &sealed("anthropic", &source));
        let text = String::from_utf8(exported.bytes).unwrap();
        let ours = ["# Scroll", "## Turn ", "### Tool call: ", "### Tool result: ", "### Other: "];
        let headings = headings(&text);
        for heading in &headings {
            prop_assert!(ours.iter().any(|known| heading.starts_with(known)), "{heading:?} in\n{text}");
        }
        // A title, three turns a message, and a call, a result and a block in them.
        prop_assert_eq!(headings.len(), 1 + messages.len() * 6, "{}", text);
    }
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n# Turn\n"),
        Just("\n```\n"),
        Just("````"),
        Just("~~~\n"),
        Just("\n## Turn 7: user\n"),
        Just("x\n===\n"),
        Just("<h1>"),
        Just("\r# r\r"),
        Just("*"),
        Just("a")
    ];
    prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

/// Headings outside of fences, as `CommonMark` finds them.
fn headings(markdown: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut fence: Option<(char, usize)> = None;
    for line in markdown.lines() {
        let inner = line.trim_start_matches(' ');
        let mark = inner.chars().next().unwrap_or(' ');
        let run = inner.len() - inner.trim_start_matches(mark).len();
        let is_fence = matches!(mark, '`' | '~') && run >= 3;
        match fence {
            Some((open, length)) => {
                let closes = is_fence && mark == open && run >= length;
                if closes && inner.trim_start_matches(mark).trim().is_empty() {
                    fence = None;
                }
            }
            None if is_fence && !(mark == '`' && inner[run..].contains('`')) => {
                fence = Some((mark, run));
            }
            None if mark == '#' && line.len() - inner.len() < 4 => found.push(line),
            None => {}
        }
    }
    assert!(fence.is_none(), "{markdown}");
    found
}

const CHAT: &str = r#"{"request":{"model":"gpt","messages":[{"role":"system","content":"rules"},{"role":"user","content":"q"}]},
  "response":{"id":"r","created":1700000000,"choices":[{"message":{"role":"assistant","reasoning":"why","content":"a",
   "tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"d","type":"custom","custom":{"name":"g","input":"raw"}}]},"finish_reason":"tool_calls"}],
   "usage":{"prompt_tokens":5,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1}}}}"#;
const NEXT: &str = r#"{"model":"gpt","messages":[{"role":"system","content":"rules"},{"role":"user","content":"q"},{"role":"assistant","content":"a",
   "tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"d","type":"custom","custom":{"name":"g","input":"raw"}}]},
   {"role":"tool","tool_call_id":"c","content":"done"},{"role":"tool","tool_call_id":"lost","content":"?"}]}"#;

fn chat() -> Vec<u8> {
    sealed("openai-chat", &format!("[{CHAT},{NEXT}]"))
}

#[test]
fn a_trajectory_has_results_with_their_calls() {
    let exported = export("atif", &chat());
    let expected = concat!(
        r#"[{"extra":{"turn":0},"message":"rules","source":"system","step_id":1},"#,
        r#"{"extra":{"turn":1},"message":"q","source":"user","step_id":2},"#,
        r#"{"extra":{"stop_reason":"tool_calls","turn":2},"message":"a","#,
        r#""metrics":{"cached_tokens":0,"completion_tokens":2,"extra":{"reasoning_tokens":1},"prompt_tokens":5},"#,
        r#""model_name":"gpt","observation":{"results":[{"content":"done","source_call_id":"c"}]},"#,
        r#""reasoning_content":"why","source":"agent","step_id":3,"timestamp":"2023-11-14T22:13:20Z","#,
        r#""tool_calls":[{"arguments":{"x":1},"function_name":"f","tool_call_id":"c"},"#,
        r#"{"arguments":{"input":"raw"},"function_name":"g","tool_call_id":"d"}]},"#,
        r#"{"extra":{"turn":4},"message":"","observation":{"results":[{"content":"?","source_call_id":"lost"}]},"#,
        r#""source":"system","step_id":4,"timestamp":"2023-11-14T22:13:20Z"}]"#
    );
    assert_eq!(member(&exported.bytes, "steps"), expected);
    assert_eq!(
        member(&exported.bytes, "agent"),
        r#"{"model_name":"gpt","name":"openai-chat","version":"unknown"}"#
    );
    assert_eq!(
        (exported.turns, exported.tool_calls, exported.tool_results),
        (5, 2, 2)
    );
}

#[test]
fn what_a_target_has_no_place_for_is_told_by_turn() {
    let exported = export("openai", &chat());
    let told = lost(&exported);
    for expected in [
        "/messages/0/content/0/thinking 2",
        "/messages/1/content/0/format 0-4",
        "/messages/1/content/0/stop_reason 2",
        "/messages/1/content/0/usage 2",
        "/timestamp_ns 0-4",
    ] {
        assert!(
            told.iter().any(|told| told == expected),
            "{expected} in {told:?}"
        );
    }
    let account = exported.account("openai");
    assert_eq!(
        account.get("schema").unwrap().as_str(),
        Some("threadseal.scroll.to/1")
    );
    assert!(!account.get("lost").unwrap().as_array().unwrap().is_empty());
}

#[test]
fn a_scroll_of_one_api_is_a_request_of_another() {
    let exported = export("anthropic", &chat());
    assert_eq!(member(&exported.bytes, "system"), r#""rules""#);
    assert_eq!(
        member(&exported.bytes, "messages"),
        concat!(
            r#"[{"content":"q","role":"user"},{"content":[{"thinking":"why","type":"thinking"},{"text":"a","type":"text"},"#,
            r#"{"id":"c","input":{"x":1},"name":"f","type":"tool_use"},"#,
            r#"{"id":"d","input":{"input":"raw"},"name":"g","type":"tool_use"}],"role":"assistant"},"#,
            r#"{"content":[{"content":"done","tool_use_id":"c","type":"tool_result"}],"role":"user"},"#,
            r#"{"content":[{"content":"?","tool_use_id":"lost","type":"tool_result"}],"role":"user"}]"#
        )
    );
    let scroll = sealed(
        "anthropic",
        r#"{"model":"claude","tools":[{"name":"t","description":"d","input_schema":{"type":"object"}}],"messages":[
        {"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"i","name":"t","input":{"b":1}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"i","is_error":true,"content":[{"type":"image","source":{}}]},
         {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}]}]}"#,
    );
    let exported = export("openai", &scroll);
    assert_eq!(
        member(&exported.bytes, "messages"),
        concat!(
            r#"[{"content":"x","role":"assistant","tool_calls":[{"function":{"arguments":"{\"b\":1}","name":"t"},"id":"i","type":"function"}]},"#,
            r#"{"content":"[{\"source\":{},\"type\":\"image\"}]","role":"tool","tool_call_id":"i"},"#,
            r#"{"content":[{"image_url":{"url":"data:image/png;base64,AA"},"type":"image_url"}],"role":"user"}]"#
        )
    );
    assert_eq!(
        member(&exported.bytes, "tools"),
        r#"[{"function":{"description":"d","name":"t","parameters":{"type":"object"}},"type":"function"}]"#
    );
    assert!(lost(&exported).contains(&"/tool_results/0/status 2".to_owned()));
}

#[test]
fn bodies_of_which_only_the_hash_is_known_stay_unknown() {
    let hash = format!("sha256:{}", "0".repeat(64));
    let source = format!(
        r#"[{{"version":"scroll/0.1","turn":0,"role":"assistant","model":{{"vendor":"v","id":"m"}},
        "params":{{"temperature":1,"top_p":1}},"messages":[],"tool_calls":[{{"id":"a","name":"f","args_hash":"{hash}"}}],
        "tool_results":[{{"id":"a","status":"ok","response_hash":"{hash}"}}],"timestamp_ns":0,"hash":"{hash}"}}]"#
    );
    for target in TARGETS {
        let exported = export(target.name, source.as_bytes());
        assert!(
            lost(&exported).contains(&"/tool_calls/0/args_hash 0".to_owned()),
            "{}",
            target.name
        );
        assert_eq!((exported.tool_calls, exported.tool_results), (1, 1));
        assert_eq!(exported.bytes.last(), Some(&b'\n'));
    }
    let text = export("markdown", source.as_bytes()).bytes;
    assert!(String::from_utf8(text).unwrap().contains("(redacted)"));
}

// T-SCR-25
#[test]
fn only_the_bytes_of_the_proof_are_exported() {
    let scroll = chat();
    let turns = Chain::danger_unverified(&scroll, Container::Array, Verdict::Consistent)
        .unwrap()
        .turns;
    let options = ChainOptions {
        expect: vec![Expectation::given(
            ExpectedHead::Line(turns.last().unwrap().hash()),
            true,
        )],
        ..ChainOptions::default()
    };
    let trust = Trust::new(TrustStore::new());
    let now = Timestamp::from_micros(1_800_000_000_000_000).unwrap();
    let outcome = judge(
        &scroll,
        Container::Array,
        options,
        &Judging::new(&trust, now),
    );
    let verified = outcome.verified.unwrap();
    let chain = Chain::open(&verified, &scroll, Container::Array).unwrap();
    assert_eq!(chain.turns.len(), 5);

    let text = String::from_utf8(scroll).unwrap();
    let changed = text.replace("done", "DONE");
    let shorter = sealed("openai-chat", CHAT);
    for other in [changed.as_bytes(), &shorter, b"[]", b"x"] {
        let refused = Chain::open(&verified, other, Container::Array).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Refused);
    }
}

#[test]
fn what_is_no_scroll_is_refused() {
    for source in ["", "{}", "[{}]", "[", "[]x"] {
        let chain =
            Chain::danger_unverified(source.as_bytes(), Container::Array, Verdict::Malformed);
        assert!(chain.is_err(), "{source}");
    }
    let scroll = chat();
    let empty = Chain::danger_unverified(b"[]", Container::Array, Verdict::Unsigned).unwrap();
    for target in TARGETS {
        assert!(!target.export(&empty).bytes.is_empty());
        let lines = Chain::danger_unverified(&scroll, Container::Lines, Verdict::Malformed);
        assert!(lines.is_err());
    }
}
