//! The four protocols against a provider on loopback: requests, answers, refusals, and streams that
//! must never count as an answer.

mod provider;

use super::*;
use crate::bounds::MAX_RECORDED_TEXT_BYTES;
use crate::directive::ModelChoice;
use crate::model::{Stop, ToolSchema};
use crate::testing::prelude::*;
use provider::{Provider, Response, events, provider, sse};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

fn model(shape: Shape, url: &str) -> HttpModel {
    let endpoint = Endpoint {
        shape,
        base_url: Some(url.to_owned()),
        provider: "the provider".to_owned(),
        key_env: Some("PROVIDER_KEY".to_owned()),
        api_key: Some("not-a-real-key".to_owned()),
    };
    HttpModel::new(&endpoint, "some-model").unwrap()
}

/// The conversation after the first calls were answered.
fn asked() -> Vec<ChatMessage> {
    let call = |id: &str| tool_call(id, "read_file", json!({ "path": id }));
    let result = |id: &str| tool_result(id, "read_file", format!("content of {id}"));
    vec![
        user("Compare a and b."),
        assistant("Reading.", vec![call("a"), call("b")]),
        result("a"),
        result("b"),
    ]
}

fn ask(model: &HttpModel) -> Result<Answer, ModelError> {
    ask_watched(model, &Cancel::default(), &mut |_| {})
}

fn ask_watched(
    model: &HttpModel,
    cancel: &Cancel,
    on_text: &mut dyn FnMut(&str),
) -> Result<Answer, ModelError> {
    let tools = [ToolSchema {
        name: "read_file".to_owned(),
        description: "Reads a file.".to_owned(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }];
    let messages = asked();
    let request = Request {
        system: Some("Be brief."),
        messages: &messages,
        tools: &tools,
        max_output_tokens: 64,
        cancel,
    };
    model.ask(&request, on_text)
}

/// Asks a provider that sends this response once.
fn answered(shape: Shape, response: Response) -> Result<Answer, ModelError> {
    let Provider { url, requests } = provider(vec![response]);
    let answer = ask(&model(shape, &url));
    requests.join().unwrap();
    answer
}

/// The body of a whole answer.
fn whole(shape: Shape) -> String {
    sse(shape, &events(shape, "Once more."))
}

/// An answer that a thread would act on or take for an end.
fn counts(answer: &Result<Answer, ModelError>) -> bool {
    answer
        .as_ref()
        .is_ok_and(|answer| matches!(answer.stop, Stop::Complete | Stop::ToolCalls))
}

#[test]
fn each_protocol_asks_and_answers_the_same() {
    for shape in Shape::ALL {
        let body = whole(shape);
        let provider = provider(vec![Response::whole(&body)]);
        let mut pieces = Vec::new();
        let mut keep = |text: &str| pieces.push(text.to_owned());
        let model = model(shape, &provider.url);
        let answer = ask_watched(&model, &Cancel::default(), &mut keep).unwrap();
        assert_eq!(answer.text, "Once more.", "{shape:?}");
        assert_eq!(pieces, ["Once ", "more."], "{shape:?}");
        let calls = answer
            .calls
            .iter()
            .map(|call| format!("{} {}", call.name, call.input));
        let expected = [r#"read_file {"path":"c"}"#];
        assert_eq!(calls.collect::<Vec<_>>(), expected, "{shape:?}");
        let usage = &answer.usage;
        let tokens = [usage.input_tokens, usage.cached_tokens, usage.output_tokens];
        assert_eq!((tokens, usage.estimated), ([15, 5, 7], false), "{shape:?}");
        let reasoning = if shape == Shape::Anthropic { 0 } else { 3 };
        assert_eq!(usage.reasoning_tokens, reasoning, "{shape:?}");
        assert_eq!(answer.stop, Stop::ToolCalls, "{shape:?}");
        assert_eq!(answer.model, "some-model-1", "{shape:?}");
        let [(path, request)] = provider.requests.join().unwrap().try_into().unwrap();
        let text = request.to_string();
        text.has("Be brief.")
            .has("Compare a and b.")
            .has("Reads a file.");
        text.has("content of a").has("content of b");
        let system = match shape {
            Shape::Anthropic => &request["system"],
            Shape::OpenAiResponses => &request["instructions"],
            Shape::OpenAi => &request["messages"][0]["content"],
            Shape::Gemini => &request["systemInstruction"]["parts"][0]["text"],
        };
        assert_eq!(system, "Be brief.", "{shape:?} {request}");
        let expected = match shape {
            Shape::Anthropic => "/v1/messages",
            Shape::OpenAiResponses => "/v1/responses",
            Shape::OpenAi => "/v1/chat/completions",
            Shape::Gemini => "/v1/models/some-model:streamGenerateContent?alt=sse",
        };
        assert_eq!(path, expected);
    }
}

#[test]
fn pieces_may_be_cut_in_the_middle_of_a_character_and_of_an_event() {
    let text = "Größe – 漢字 🦀.";
    for shape in Shape::ALL {
        for line_end in ["\n", "\r\n"] {
            let body = sse(shape, &events(shape, text)).replace('\n', line_end);
            for size in [1, 7] {
                let pieces = pieces_that_keep_line_ends(body.as_bytes(), size);
                let answer = answered(shape, Response::pieces(pieces)).unwrap();
                assert_eq!(answer.text, text, "{shape:?} {size} {line_end:?}");
                assert_eq!(answer.calls.len(), 1, "{shape:?} {size}");
                assert_eq!(answer.usage.input_tokens, 15, "{shape:?} {size}");
            }
        }
    }
}

/// Pieces of about this size; none ends between CR and LF.
fn pieces_that_keep_line_ends(bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    for piece in bytes.chunks(size) {
        match pieces.last_mut() {
            Some(last) if last.ends_with(b"\r") => last.extend_from_slice(piece),
            _ => pieces.push(piece.to_vec()),
        }
    }
    pieces
}

/// The library loses an event there; the answer without it counts as cut off, and is requested
/// again.
#[test]
fn a_line_end_that_is_cut_in_two_makes_no_other_answer() {
    for shape in Shape::ALL {
        let body = whole(shape).replace('\n', "\r\n");
        for (at, _) in body.match_indices("\r\n") {
            let (before, after) = body.as_bytes().split_at(at + 1);
            let mut response = Response::pieces(vec![before.to_vec(), after.to_vec()]);
            response.pause = Duration::from_millis(15);
            match answered(shape, response) {
                Ok(answer) => {
                    assert_eq!(answer.text, "Once more.", "{shape:?} {at}");
                    assert_eq!(answer.calls.len(), 1, "{shape:?} {at}");
                    assert_eq!(answer.stop, Stop::ToolCalls, "{shape:?} {at}");
                }
                Err(error) => {
                    assert_eq!(error.kind, "ConnectionError", "{shape:?} {at}: {error:?}");
                }
            }
        }
    }
}

// T-TOL-24
#[test]
fn an_answer_that_was_cut_off_is_never_whole() {
    for shape in Shape::ALL {
        let body = whole(shape);
        let ends: Vec<usize> = body.match_indices("\n\n").map(|(at, _)| at + 2).collect();
        let (whole, cut) = ends.split_last().unwrap();
        assert_eq!(*whole, body.len());
        let middles = ends.iter().map(|end| end.saturating_sub(9));
        for at in cut.iter().copied().chain(middles).chain([0]) {
            // Without the last line ends the last event is all there.
            let answer = answered(shape, Response::whole(&body[..at]));
            assert!(!counts(&answer), "{shape:?} {at}: {answer:?}");
        }
    }
}

// T-TOL-24
#[test]
fn a_reason_to_stop_that_is_missing_or_unknown_makes_no_whole_answer() {
    for [shape, from, to, expected] in rows(
        r#"anthropic => "tool_use"},"usage" => "max_tokens"},"usage" => Truncated
           anthropic => "tool_use"},"usage" => "pause_turn"},"usage" => Truncated
           anthropic => "tool_use"},"usage" => "refusal"},"usage" => Filtered
           openai => "finish_reason":"tool_calls" => "finish_reason":"length" => Truncated
           openai => "finish_reason":"tool_calls" => "finish_reason":"abort" => Truncated
           openai_responses => response.completed => response.incomplete => Truncated
           gemini => "STOP" => "MAX_TOKENS" => Truncated
           gemini => "STOP" => "SAFETY" => Filtered
           gemini => "STOP" => "MALFORMED_FUNCTION_CALL" => Truncated"#,
    ) {
        let shape = Shape::parse(&shape).unwrap();
        let body = whole(shape).replace(&from, &to);
        let body = body.replace(
            "\"status\":\"completed\",\"model\"",
            "\"status\":\"incomplete\",\"model\"",
        );
        body.has(&to);
        let stop = answered(shape, Response::whole(&body)).unwrap().stop;
        assert_eq!(format!("{stop:?}"), expected, "{shape:?} {to}");
    }
    for (shape, reason) in [
        (Shape::Anthropic, ",\"stop_reason\":null"),
        (Shape::OpenAi, ",\"finish_reason\":\"tool_calls\""),
    ] {
        let mut body = whole(shape).replace(reason, "");
        body = body.replace("{\"stop_reason\":\"tool_use\"}", "{}");
        let error = answered(shape, Response::whole(&body)).unwrap_err();
        assert_eq!(error.kind, "ConnectionError", "{shape:?} {error:?}");
    }
}

// T-TOL-26
#[test]
fn tokens_that_nobody_counted_are_estimated_and_not_free() {
    for (shape, from) in [
        (Shape::OpenAi, "\"usage\":"),
        (Shape::OpenAiResponses, "\"usage\":{"),
        (Shape::Gemini, "\"usageMetadata\":"),
        (Shape::Anthropic, "\"usage\":"),
    ] {
        let to = if shape == Shape::OpenAiResponses {
            "\"usage\":null,\"other\":{"
        } else {
            "\"other\":"
        };
        let body = whole(shape).replace(from, to);
        let usage = answered(shape, Response::whole(&body)).unwrap().usage;
        assert!(usage.estimated, "{shape:?} {usage:?}");
        assert!(
            usage.input_tokens > 5 && usage.output_tokens > 1,
            "{shape:?} {usage:?}"
        );
    }
}

#[test]
fn a_text_that_no_piece_carries_is_not_lost() {
    let shape = Shape::OpenAiResponses;
    let mut said = events(shape, "Once more.");
    said.retain(|event| event["type"] != "response.output_text.delta");
    let answer = answered(shape, Response::whole(&sse(shape, &said))).unwrap();
    assert_eq!((&*answer.text, answer.calls.len()), ("Once more.", 1));
}

// T-TOL-25
#[test]
fn whoever_cancels_does_not_wait_for_the_provider() {
    for shape in Shape::ALL {
        for begun in [0, 1] {
            let body = sse(shape, &events(shape, "Once more.")[..begun * 2])
                .replace("data: [DONE]\n\n", "");
            let silent = Response {
                silent: Duration::from_secs(20),
                ..Response::whole(&body)
            };
            let Provider { url, requests } = provider(vec![silent]);
            let cancel = Cancel::default();
            let setter = {
                let cancel = cancel.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(300));
                    cancel.set();
                    SystemClock.elapsed()
                })
            };
            let answer = ask_watched(&model(shape, &url), &cancel, &mut |_| {});
            let late = SystemClock.elapsed();
            let late = late.saturating_sub(setter.join().unwrap());
            assert_eq!(answer.unwrap_err().kind, "CancelledError", "{shape:?}");
            assert!(late < Duration::from_secs(1), "{shape:?} {late:?}");
            // The provider sees at once that the line is closed.
            let before = SystemClock.elapsed();
            requests.join().unwrap();
            assert!(
                SystemClock.elapsed() - before < Duration::from_secs(5),
                "{shape:?}"
            );
        }
    }
}

// T-TOL-25
#[test]
fn an_answer_without_end_is_an_error_before_it_fills_the_memory() {
    let shape = Shape::OpenAi;
    let piece = "x".repeat(64 << 10);
    let chunk =
        json!({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": null}]});
    let chunk = format!("data: {chunk}\n\n").into_bytes();
    let pieces = vec![chunk; 2 * MAX_RECORDED_TEXT_BYTES / piece.len()];
    let error = answered(shape, Response::pieces(pieces)).unwrap_err();
    assert_eq!(error.kind, "ProtocolError", "{error:?}");
}

#[test]
fn a_failure_in_the_middle_keeps_its_kind() {
    let shape = Shape::Anthropic;
    let mut said = events(shape, "Once more.");
    said.truncate(3);
    said.push(json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}));
    let error = answered(shape, Response::whole(&sse(shape, &said))).unwrap_err();
    assert_eq!(
        (&*error.kind, &*error.message),
        ("overloaded_error", "busy")
    );
}

#[test]
fn a_refusal_keeps_status_kind_and_the_wish_to_wait() {
    for shape in Shape::ALL {
        let head = "429 Too Many Requests\r\nretry-after: 3";
        let body =
            json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}});
        let error = answered(shape, Response::refusal(head, &body)).unwrap_err();
        assert_eq!(
            (error.status, &*error.kind),
            (429, "rate_limit_error"),
            "{shape:?}"
        );
        assert_eq!(error.message, "slow down");
        assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
        // A date counts from that of the answer; a policy may name any header.
        let head = "429 Too Many Requests\r\ndate: Sun, 06 Nov 1994 08:49:30 GMT\r\n\
                    retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\nx-wait: 8";
        let error = answered(shape, Response::refusal(head, &body)).unwrap_err();
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(error.header("x-wait"), Some("8"));
        assert_eq!(error.to_value()["headers"]["x-wait"], "8");
    }
}

#[test]
fn a_provider_that_is_not_there_or_speaks_nonsense_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    drop(listener);
    let error = ask(&model(Shape::OpenAi, &url)).unwrap_err();
    assert_eq!(
        (error.status, &*error.kind),
        (0, "ConnectionError"),
        "{error:?}"
    );
    for shape in Shape::ALL {
        for nonsense in [
            "{\"surprise\":true}",
            "data: {\"surprise\"\n\n",
            "data: \u{0}\n\n",
        ] {
            let answer = answered(shape, Response::whole(nonsense));
            assert!(answer.is_err(), "{shape:?} {nonsense:?} {answer:?}");
        }
        let broken = Response::pieces(vec![b"data: {\"a\": \"\xff\xfe\"}\n\n".to_vec()]);
        let answer = answered(shape, broken);
        assert!(answer.is_err(), "{shape:?} {answer:?}");
    }
}

#[test]
fn each_failure_names_the_provider_the_cause_and_the_next_step() {
    let texts = |error: ModelError| error.for_people();
    for (status, hint) in [
        (
            "401 Unauthorized",
            "set PROVIDER_KEY to a key of the provider",
        ),
        ("403 Forbidden", "set PROVIDER_KEY to a key of the provider"),
        ("404 Not Found", "name a model of the provider with --model"),
        ("429 Too Many Requests", "a higher quota from the provider"),
        (
            "400 Bad Request",
            "models.yaml with what the provider takes",
        ),
        (
            "503 Service Unavailable",
            "wait, then threadseal thread resume",
        ),
        (
            "307 Temporary Redirect\r\nlocation: http://127.0.0.1:9/",
            "redirects are not followed",
        ),
    ] {
        let body = json!({"error": {"type": "some_error", "message": "not today"}});
        let Provider { url, requests } = provider(vec![Response::refusal(status, &body)]);
        let error = texts(ask(&model(Shape::Anthropic, &url)).unwrap_err());
        requests.join().unwrap();
        error.has(&format!("model some-model of the provider at {url}"));
        error
            .has(&format!("status {}: not today; hint: ", &status[..3]))
            .has(hint);
    }
    // No one listens; one that speaks no TLS; one that speaks no protocol of models.
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let refused = ask(&model(Shape::Gemini, &format!("http://{free}/v1"))).unwrap_err();
    texts(refused).has("refused").has("can be reached");
    // Nothing was sent, so that nothing is paid.
    for shape in Shape::ALL {
        let refused = ask(&model(shape, &format!("http://{free}/v1"))).unwrap_err();
        assert!(
            refused.unreached && !refused.began,
            "{shape:?}: {refused:?}"
        );
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
    });
    let plain = texts(ask(&model(Shape::OpenAi, &url)).unwrap_err());
    served.join().unwrap();
    plain
        .has("https://127.0.0.1")
        .has("; hint: ")
        .has("`base_url`");
    let nonsense = texts(answered(Shape::Anthropic, Response::whole("nonsense")).unwrap_err());
    nonsense.has("the answer was cut off").has("; hint: ");
}

#[test]
fn a_redirect_is_not_followed_and_a_key_not_shown() {
    let endpoint = Endpoint {
        shape: Shape::OpenAiResponses,
        base_url: None,
        provider: "openai".to_owned(),
        key_env: None,
        api_key: Some("very-secret".to_owned()),
    };
    assert!(!format!("{endpoint:?}").contains("very-secret"));
    let head = "307 Temporary Redirect\r\nlocation: http://127.0.0.1:9/";
    let error = answered(Shape::OpenAi, Response::refusal(head, &Value::Null)).unwrap_err();
    assert_eq!(error.status, 307);
}

// T-TOL-37
#[test]
fn a_refusal_without_an_end_is_given_up_before_it_fills_the_memory() {
    // Much at once, and a little at a time.
    for (size, pause) in [(1 << 20, Duration::ZERO), (1, Duration::from_millis(20))] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 1 << 16]).unwrap() > 0);
            let head = b"HTTP/1.1 529 Busy\r\nconnection: close\r\n\r\n";
            stream.write_all(head).unwrap();
            let (piece, mut sent) = (vec![b'x'; size], 0);
            while stream.write_all(&piece).is_ok() {
                sent += size;
                std::thread::sleep(pause);
            }
            sent
        });
        let error = ask(&model(Shape::OpenAi, &url)).unwrap_err();
        assert_eq!(error.status, 529, "{}", error.message);
        error.message.has("no end");
        let sent = served.join().unwrap();
        assert!(sent < 256 << 20, "{sent} bytes were taken");
    }
}

// T-RUN-29
#[test]
fn each_protocol_with_a_count_is_asked_for_it_and_one_that_refuses_is_asked_once() {
    let ask = |model: &HttpModel| {
        let messages = asked();
        let tools = [ToolSchema {
            name: "read_file".to_owned(),
            description: "Reads a file.".to_owned(),
            parameters: json!({"type": "object"}),
        }];
        model.count(&Request {
            system: Some("Be brief."),
            messages: &messages,
            tools: &tools,
            max_output_tokens: 64,
            cancel: &Cancel::default(),
        })
    };
    for (shape, at, answer) in [
        (
            Shape::Anthropic,
            "/v1/messages/count_tokens",
            json!({"input_tokens": 41}),
        ),
        (
            Shape::OpenAiResponses,
            "/v1/responses/input_tokens",
            json!({"input_tokens": 41}),
        ),
        (
            Shape::Gemini,
            "/v1/models/some-model:countTokens",
            json!({"totalTokens": 41}),
        ),
    ] {
        let mut counted = Response::whole(&answer.to_string());
        counted.head = "200 OK\r\ncontent-type: application/json";
        let Provider { url, requests } = provider(vec![counted]);
        assert_eq!(ask(&model(shape, &url)), Some(41), "{shape:?}");
        let [(path, request)] = requests.join().unwrap().try_into().unwrap();
        assert_eq!(path, at);
        let text = request.to_string();
        for part in [
            "Be brief.",
            "Compare a and b.",
            "content of b",
            "Reads a file.",
            "some-model",
        ] {
            assert!(text.contains(part), "{shape:?} {part}: {text}");
        }
        let refusal = Response::refusal("404 Not Found", &json!({}));
        let Provider { url, requests } = provider(vec![refusal]);
        let model = model(shape, &url);
        assert!(model.counts());
        assert_eq!((ask(&model), ask(&model)), (None, None));
        assert!(!model.counts());
        requests.join().unwrap();
    }
    assert!(!model(Shape::OpenAi, "http://127.0.0.1:1/").counts());
}

// T-RUN-29
#[test]
fn a_request_that_only_the_provider_knows_to_fit_is_made() {
    let run = |answers: Vec<Response>, limit: &str, value: Value| {
        let mut scene = Scene::new();
        let price = |dollars| Nanos::parse(dollars).unwrap();
        scene.prices.input = price("3");
        scene.prices.output = price("15");
        scene.directive("demo/say", "", "", &"\u{4e00}".repeat(4000));
        let Provider { url, requests } = provider(answers);
        let mut engine = scene.engine("answers: []");
        let mut chosen = engine
            .services
            .models
            .choose(&ModelChoice::default())
            .unwrap();
        chosen.model = Arc::new(model(Shape::Anthropic, &url));
        engine.services.models = Arc::new(Only(chosen));
        let mut order = order("demo/say");
        order.limits.set(limit, &value).unwrap();
        let ran = engine.run(&order).unwrap();
        (ran, requests.join().unwrap())
    };
    let mut done = events(Shape::Anthropic, "Done.");
    done.drain(6..10);
    done[6]["delta"]["stop_reason"] = "end_turn".into();
    let answer = || Response::whole(&sse(Shape::Anthropic, &done));
    let count = |tokens: u64| Response::whole(&json!({"input_tokens": tokens}).to_string());
    // The bound is above 12,000 bytes; the provider counts 4,100 tokens.
    for (limit, value) in [("tokens", json!(6000)), ("spend", json!(0.03))] {
        let (ran, requests) = run(vec![count(4100), answer()], limit, value);
        assert_eq!(ran.completed().text, "Done.");
        let bound = requests[1].1["max_tokens"].as_u64().unwrap();
        assert!(bound >= 256, "{limit} {bound}");
    }
    let (ran, _) = run(vec![count(5900)], "tokens", json!(6000));
    ran.ended(Status::LimitReached);
}
