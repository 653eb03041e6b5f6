//! Hand-made spans and log records of every convention.

use super::*;
use crate::testing::*;

fn mapped(source: &str) -> Mapped {
    mapped_as(NAME, source)
}

fn span(id: &str, parent: &str, start: u64, attributes: &[(&str, &str)]) -> String {
    let attribute = |(key, value): &(&str, &str)| {
        format!(
            r#"{{"key":"{key}","value":{{"stringValue":{}}}}}"#,
            Value::from(*value).quoted()
        )
    };
    let attributes: Vec<String> = attributes.iter().map(attribute).collect();
    format!(
        r#"{{"traceId":"t","spanId":"{id}","parentSpanId":"{parent}","name":"n","startTimeUnixNano":"{start}",
        "endTimeUnixNano":"{}","attributes":[{}]}}"#,
        start + 5,
        attributes.join(",")
    )
}

fn trace(spans: &[String]) -> String {
    format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[]}},"scopeSpans":[{{"scope":{{"name":"s"}},"spans":[{}]}}]}}]}}"#,
        spans.join(",")
    )
}

trait Quoted {
    fn quoted(&self) -> String;
}

impl Quoted for Value {
    fn quoted(&self) -> String {
        String::from_utf8(threadseal_core::canon::jcs::to_vec(self).unwrap()).unwrap()
    }
}

#[test]
fn every_generation_of_the_conventions_says_the_same_conversation() {
    let since_2025 = [
        ("gen_ai.operation.name", "chat"),
        (
            "gen_ai.system_instructions",
            r#"[{"type":"text","content":"be good"}]"#,
        ),
        (
            "gen_ai.input.messages",
            r#"[{"role":"user","parts":[{"type":"text","content":"what?"}]}]"#,
        ),
        (
            "gen_ai.output.messages",
            r#"[{"role":"assistant","parts":[{"type":"tool_call","id":"c","name":"add","arguments":{"x":2}}]}]"#,
        ),
    ];
    let open_llmetry = [
        ("gen_ai.prompt.0.role", "system"),
        ("gen_ai.prompt.0.content", "be good"),
        ("gen_ai.prompt.1.role", "user"),
        ("gen_ai.prompt.1.content", "what?"),
        ("gen_ai.completion.0.role", "assistant"),
        ("gen_ai.completion.0.tool_calls.0.id", "c"),
        ("gen_ai.completion.0.tool_calls.0.name", "add"),
        ("gen_ai.completion.0.tool_calls.0.arguments", "{\"x\":2}"),
    ];
    let open_inference = [
        ("openinference.span.kind", "LLM"),
        ("llm.input_messages.0.message.role", "system"),
        ("llm.input_messages.0.message.content", "be good"),
        ("llm.input_messages.1.message.role", "user"),
        (
            "llm.input_messages.1.message.contents.0.message_content.type",
            "text",
        ),
        (
            "llm.input_messages.1.message.contents.0.message_content.text",
            "what?",
        ),
        ("llm.output_messages.0.message.role", "assistant"),
        (
            "llm.output_messages.0.message.tool_calls.0.tool_call.id",
            "c",
        ),
        (
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name",
            "add",
        ),
        (
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments",
            "{\"x\":2}",
        ),
    ];
    let vercel = [
        (
            "ai.prompt.messages",
            r#"[{"role":"system","content":"be good"},{"role":"user","content":[{"type":"text","text":"what?"}]}]"#,
        ),
        (
            "ai.response.toolCalls",
            r#"[{"toolCallId":"c","toolName":"add","input":"{\"x\":2}"}]"#,
        ),
    ];
    for attributes in [&since_2025[..], &open_llmetry, &open_inference, &vercel] {
        let source = trace(&[span("a", "", 10, attributes)]);
        assert_eq!(crate::detect(source.as_bytes()).unwrap().name, NAME);
        let mapped = mapped(&source);
        assert_eq!(roles(&mapped), "system user assistant", "{source}");
        let call = &mapped.turns()[2].tool_calls[0];
        assert_eq!((call.id.as_str(), call.name.as_str()), ("c", "add"));
        assert_eq!(
            call.args.as_ref().unwrap().get("x").unwrap().as_u64(),
            Some(2)
        );
        assert_eq!(mapped.turns()[0].timestamp_ns, Some(10));
        assert_eq!(mapped.turns()[2].timestamp_ns, Some(15));
    }
}

#[test]
fn events_and_log_records_are_messages_too() {
    let source = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"t","spanId":"a","startTimeUnixNano":"1",
        "events":[
          {"name":"gen_ai.user.message","attributes":[{"key":"content","value":{"stringValue":"hi"}}]},
          {"name":"gen_ai.choice","attributes":[{"key":"index","value":{"intValue":"0"}},
            {"key":"message","value":{"stringValue":"{\"role\":\"assistant\",\"content\":\"hello\"}"}}]},
          {"name":"exception","attributes":[]}]}]}]}],
      "resourceLogs":[{"scopeLogs":[{"logRecords":[
        {"timeUnixNano":"9","eventName":"gen_ai.tool.message","body":{"kvlistValue":{"values":[
          {"key":"id","value":{"stringValue":"c1"}},{"key":"content","value":{"stringValue":"done"}}]}}},
        {"timeUnixNano":"7","attributes":[{"key":"event.name","value":{"stringValue":"codex.user_prompt"}},
          {"key":"prompt","value":{"stringValue":"run"}}]},
        {"timeUnixNano":"8","attributes":[{"key":"event.name","value":{"stringValue":"other"}},
          {"key":"prompt","value":{"stringValue":"a word"}}]}]}]}]}"#;
    let mapped = mapped(source);
    assert_eq!(roles(&mapped), "user assistant user tool");
    assert_eq!(mapped.turns()[3].tool_results[0].id, "c1");
    assert_eq!(mapped.account.unmapped_lines(), 1, "it may be a prompt");
}

#[test]
fn spans_come_in_any_order_and_twice() {
    let chat = |text: &str| {
        [
            ("gen_ai.operation.name", "chat".to_owned()),
            ("gen_ai.completion", text.to_owned()),
        ]
    };
    let make = |id: &str, start, text: &str| {
        let attributes = chat(text);
        let pairs: Vec<(&str, &str)> = attributes
            .iter()
            .map(|(key, value)| (*key, value.as_str()))
            .collect();
        span(id, "root", start, &pairs)
    };
    let source = [
        trace(&[make("b", 200, "second"), make("a", 100, "partial")]),
        trace(&[make("a", 100, "first"), make("b", 200, "second")]),
    ]
    .join("\n")
    .replace(",\n        ", ",");
    let mapped = detected(NAME, &source);
    assert_eq!(mapped.account.records, 4);
    let moments: Vec<_> = mapped
        .turns()
        .iter()
        .filter_map(|turn| turn.timestamp_ns)
        .collect();
    assert_eq!(moments, [105, 205]);
    assert_eq!(dropped(&mapped), ["1  duplicate", "2  superseded"]);
}

#[test]
fn tokens_are_counted_where_they_are_spent_even_if_parents_go_in_a_circle() {
    let usage = |tokens: &'static str| {
        [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.usage.input_tokens", tokens),
            ("gen_ai.completion", tokens),
        ]
    };
    let source = trace(&[
        span("a", "", 1, &usage("30")),
        span("b", "a", 2, &usage("10")),
        span("c", "a", 3, &usage("20")),
    ]);
    assert_eq!(mapped(&source).account.tokens.input, 30);
    let circle = trace(&[
        span("a", "b", 1, &usage("1")),
        span("b", "a", 2, &usage("2")),
        span("c", "c", 3, &usage("4")),
    ]);
    assert!(mapped(&circle).into_turns().is_ok());
}

#[test]
fn a_file_without_any_conversation_is_carried_span_by_span() {
    let source = trace(&[span("a", "", 1, &[("custom", "value")])]);
    let mapped = mapped(&source);
    assert_eq!(roles(&mapped), "system");
    assert_eq!(dropped(&mapped), Vec::<String>::new());
}

#[test]
fn values_of_every_kind_are_read_and_odd_ones_do_no_harm() {
    let source = r#"{"resourceSpans":[7,{"scopeSpans":{"a":1}},{"scopeSpans":[{"spans":[5,null,
        {"attributes":[1,{"key":2},{"key":"gen_ai.prompt","value":{"arrayValue":{"values":[{"stringValue":"x"}]}}},
          {"key":"gen_ai.prompt","value":{"kvlistValue":{}}},
          {"key":"gen_ai.prompt.0.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t","value":{"intValue":"no"}},
          {"key":"gen_ai.prompt.99999999999","value":{"doubleValue":1.5}},
          {"key":"k","value":{"bytesValue":"AA=="}},{"key":"k","value":{"boolValue":true}}],
         "events":[{"name":"gen_ai.choice"},{"name":"gen_ai.choice","attributes":5}],
         "startTimeUnixNano":"x","status":{"code":2}}]}]}]}"#;
    let mapped = mapped(source);
    assert_eq!(mapped.account.records, 3);
    assert!(mapped.into_turns().is_ok());
}

#[test]
fn many_spans_cost_no_more_than_their_number() {
    let many: Vec<String> = (0..20_000)
        .map(|index| format!(r#"{{"spanId":"{index}","parentSpanId":"{}","attributes":[{{"key":"gen_ai.prompt","value":{{"stringValue":"same"}}}}]}}"#, index + 1))
        .collect();
    let mapped = mapped(&trace(&many));
    assert_eq!(mapped.account.records, 20_000);
    let mut dropped = mapped.account.dropped();
    let repeated = dropped.find(|group| group.reason == "duplicate").unwrap();
    assert_eq!(repeated.lines.count(), 19_999);
}

// T-SCR-52
#[test]
fn a_call_and_its_tokens_in_spans_and_log_records_count_once() {
    let record = |body: &str, attributes: &[(&str, &str)]| {
        let span = span("x", "", 10, attributes);
        let place = span.find("\"attributes\"").unwrap();
        let attributes = &span[place..];
        format!(
            r#"{{"timeUnixNano":"12","body":{{"stringValue":"claude_code.{body}"}},{attributes}"#
        )
    };
    let named =
        |text: String, name: &str| text.replace(r#""name":"n""#, &format!(r#""name":"{name}""#));
    let usage = [
        ("span.type", "llm_request"),
        ("request_id", "r1"),
        ("model", "m"),
        ("input_tokens", "10"),
        ("cache_read_tokens", "5"),
        ("output_tokens", "3"),
    ];
    let tool = [
        ("span.type", "tool"),
        ("tool_name", "Bash"),
        ("tool_use_id", "c1"),
        ("full_command", "ls"),
    ];
    let without = [
        ("span.type", "tool"),
        ("tool_name", "Read"),
        ("tool_use_id", "c2"),
    ];
    let traces = trace(&[
        named(span("1", "", 1, &usage), "claude_code.llm_request"),
        named(span("2", "", 2, &tool), "claude_code.tool"),
        named(span("3", "", 3, &without), "claude_code.tool"),
        named(
            span("4", "2", 2, &[("span.type", "tool.execution")]),
            "claude_code.tool.execution",
        ),
    ]);
    let traces = traces.replace('\n', "");
    let logs = format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{}]}}]}}]}}"#,
        [
            record(
                "user_prompt",
                &[("event.name", "user_prompt"), ("prompt", "list")]
            ),
            record("api_request", &usage[1..]),
            record(
                "tool_result",
                &[
                    ("tool_name", "Bash"),
                    ("tool_use_id", "c1"),
                    ("tool_input", r#"{"command":"ls"}"#),
                    ("success", "false"),
                ],
            ),
            record(
                "assistant_response",
                &[("response", "One file."), ("request_id", "r1")]
            ),
            record("hook_registered", &[("hook_event", "x")]),
        ]
        .join(",")
    );
    for source in [format!("{traces}\n{logs}\n"), format!("{logs}\n{traces}\n")] {
        let mapped = detected(NAME, &source);
        assert_eq!(calls(&mapped), (2, 0), "{source}");
        let tokens = mapped.account.tokens;
        assert_eq!((tokens.input, tokens.output, tokens.cached), (15, 3, 5));
        assert_eq!(mapped.account.unmapped_lines(), 0);
        let turns = mapped.turns();
        let bash = turns.iter().flat_map(|turn| &turn.tool_calls);
        let bash = bash.into_iter().find(|call| call.name == "Bash").unwrap();
        assert_eq!(
            bash.args,
            Some(json(r#"{"command":"ls"}"#)),
            "of the log record"
        );
    }
    assert_eq!(mapped(&logs).account.tokens.input, 15, "without spans");
    assert_eq!(calls(&mapped(&traces)), (2, 0), "without log records");
}

#[test]
fn an_item_with_a_name_beside_that_of_its_call_is_that_call() {
    let items = r#"[{"role":"user","content":"list"},{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"X"},{"type":"function_call","id":"fc","call_id":"c1","name":"ls","arguments":"{}","status":"completed"},{"type":"function_call_output","call_id":"c1","output":"a"}]"#;
    let first = [
        ("openinference.span.kind", "LLM"),
        ("llm.output_messages.0.message.role", "assistant"),
        (
            "llm.output_messages.0.message.contents.0.message_content.type",
            "reasoning",
        ),
        (
            "llm.output_messages.0.message.contents.0.message_content.text",
            "hm",
        ),
        ("llm.output_messages.1.message.role", "assistant"),
        (
            "llm.output_messages.1.message.tool_calls.0.tool_call.id",
            "c1",
        ),
        (
            "llm.output_messages.1.message.tool_calls.0.tool_call.function.name",
            "ls",
        ),
        (
            "llm.output_messages.1.message.tool_calls.0.tool_call.function.arguments",
            "{}",
        ),
    ];
    let second = [("openinference.span.kind", "LLM"), ("input.value", items)];
    let source = trace(&[span("1", "", 1, &first), span("2", "", 9, &second)]);
    let mapped = mapped(&source);
    assert_eq!(calls(&mapped), (1, 1));
    let turns = mapped.turns();
    let thoughts = turns
        .iter()
        .flat_map(items_of)
        .filter(|item| item.get("thinking").is_some());
    assert_eq!(thoughts.count(), 1);
}

fn items_of(draft: &Draft) -> Vec<Value> {
    items(draft).to_vec()
}

#[test]
fn protobuf_is_read_as_the_json_of_otlp() {
    let bytes = include_bytes!("traces.pb");
    let mapped = detected(NAME, bytes);
    assert_eq!(roles(&mapped), "user assistant");
    assert_eq!(mapped.account.tokens.input, 7);
    assert_eq!(mapped.account.lost_bytes(), 0, "{:?}", dropped(&mapped));
}
