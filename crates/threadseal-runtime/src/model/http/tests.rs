//! The four protocols against a provider on loopback: what is asked, what is answered, what is refused.

use super::*;
use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

/// One response after the other, on a port of its own; the requests come back.
struct Provider {
    url: String,
    requests: JoinHandle<Vec<(String, Value)>>,
}

fn provider(responses: Vec<(&'static str, Value)>) -> Provider {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let requests = std::thread::spawn(move || {
        let serve = |(head, body): (&str, Value)| {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let (mut first, mut length) = (String::new(), 0);
            reader.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let line = line.trim().to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut request = vec![0; length];
            reader.read_exact(&mut request).unwrap();
            let body = body.to_string();
            let size = body.len();
            write!(
                reader.get_mut(),
                "HTTP/1.1 {head}\r\ncontent-type: application/json\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n{body}"
            )
            .unwrap();
            let path = first.split(' ').nth(1).unwrap().to_owned();
            (path, serde_json::from_slice(&request).unwrap())
        };
        responses.into_iter().map(serve).collect()
    });
    Provider { url, requests }
}

fn model(shape: Shape, url: &str) -> HttpModel {
    let endpoint = Endpoint {
        shape,
        base_url: Some(url.to_owned()),
        api_key: Some("not-a-real-key".to_owned()),
    };
    HttpModel::new(&endpoint, "some-model").unwrap()
}

/// What a model is told after its first call was answered.
fn asked() -> Vec<ChatMessage> {
    let call = |id: &str| ToolCall {
        id: id.to_owned(),
        name: "read_file".to_owned(),
        input: json!({"path": id}),
        signatures: Vec::new(),
    };
    let result = |id: &str| ChatMessage::ToolResult {
        call_id: id.to_owned(),
        tool: "read_file".to_owned(),
        content: format!("content of {id}"),
    };
    vec![
        ChatMessage::User("Compare a and b.".to_owned()),
        ChatMessage::Assistant {
            text: "Reading.".to_owned(),
            calls: vec![call("a"), call("b")],
        },
        result("a"),
        result("b"),
    ]
}

fn ask(model: &HttpModel) -> Result<Answer, ModelError> {
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
    };
    model.ask(&request, &mut |_| {})
}

/// What each protocol answers: a text and a call.
fn answer_of(shape: Shape) -> Value {
    match shape {
        Shape::Anthropic => json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "some-model-1",
            "content": [{"type": "text", "text": "Once more."},
                        {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "c"}}],
            "stop_reason": "tool_use", "usage": {"input_tokens": 8, "cache_read_input_tokens": 5,
            "cache_creation_input_tokens": 2, "output_tokens": 7}}),
        Shape::OpenAiResponses => json!({
            "id": "resp_1", "object": "response", "status": "completed", "model": "some-model-1",
            "output": [{"type": "message", "id": "m", "role": "assistant", "status": "completed",
                        "content": [{"type": "output_text", "text": "Once more.", "annotations": []}]},
                       {"type": "function_call", "id": "fc", "call_id": "t1", "name": "read_file",
                        "arguments": "{\"path\":\"c\"}", "status": "completed"}],
            "usage": {"input_tokens": 15, "input_tokens_details": {"cached_tokens": 5},
                      "output_tokens": 7, "total_tokens": 22}}),
        Shape::OpenAi => json!({
            "id": "c", "object": "chat.completion", "model": "some-model-1",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant",
                "content": "Once more.", "tool_calls": [{"id": "t1", "type": "function",
                "function": {"name": "read_file", "arguments": "{\"path\":\"c\"}"}}]}}],
            "usage": {"prompt_tokens": 15, "completion_tokens": 7, "total_tokens": 22,
                      "prompt_tokens_details": {"cached_tokens": 5}}}),
        Shape::Gemini => json!({
            "candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
                {"text": "Once more."}, {"functionCall": {"name": "read_file", "args": {"path": "c"}}}]}}],
            "usageMetadata": {"promptTokenCount": 15, "candidatesTokenCount": 7, "totalTokenCount": 22,
                              "cachedContentTokenCount": 5}, "modelVersion": "some-model-1"}),
    }
}

#[test]
fn each_protocol_asks_and_answers_the_same() {
    for shape in Shape::ALL {
        let provider = provider(vec![("200 OK", answer_of(shape))]);
        let answer = ask(&model(shape, &provider.url)).unwrap();
        assert_eq!(answer.text, "Once more.", "{shape:?}");
        let [call] = answer.calls.as_slice() else {
            panic!("{shape:?}: {answer:?}");
        };
        assert_eq!(
            (call.name.as_str(), &call.input),
            ("read_file", &json!({"path": "c"})),
            "{shape:?}"
        );
        assert_eq!(
            (
                answer.usage.input_tokens,
                answer.usage.cached_tokens,
                answer.usage.output_tokens
            ),
            (15, 5, 7),
            "{shape:?}"
        );
        assert_eq!(answer.stop, Stop::ToolCalls, "{shape:?}");
        let [(path, request)] = provider.requests.join().unwrap().try_into().unwrap();
        let text = request.to_string();
        for said in [
            "Be brief.",
            "Compare a and b.",
            "content of a",
            "content of b",
            "Reads a file.",
        ] {
            assert!(
                text.contains(said),
                "{shape:?} {path}: {said:?} is not in {text}"
            );
        }
        let expected = match shape {
            Shape::Anthropic => "/v1/messages",
            Shape::OpenAiResponses => "/v1/responses",
            Shape::OpenAi => "/v1/chat/completions",
            Shape::Gemini => "/v1/models/some-model:generateContent",
        };
        assert_eq!(path, expected);
    }
}

#[test]
fn a_refusal_keeps_status_kind_and_the_wish_to_wait() {
    let head = "429 Too Many Requests\r\nretry-after: 3";
    let body =
        json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}});
    let provider = provider(vec![(head, body)]);
    let error = ask(&model(Shape::Anthropic, &provider.url)).unwrap_err();
    assert_eq!(
        (error.status, error.kind.as_str()),
        (429, "rate_limit_error")
    );
    assert_eq!(error.message, "slow down");
    assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
}

#[test]
fn a_provider_that_is_not_there_or_speaks_nonsense_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    drop(listener);
    let error = ask(&model(Shape::OpenAi, &url)).unwrap_err();
    assert_eq!(
        (error.status, error.kind.as_str()),
        (0, "ConnectionError"),
        "{error:?}"
    );
    let provider = provider(vec![("200 OK", json!({"surprise": true}))]);
    let error = ask(&model(Shape::Anthropic, &provider.url)).unwrap_err();
    assert_eq!(error.kind, "ProtocolError", "{error:?}");
}

#[test]
fn a_redirect_is_not_followed_and_a_key_not_shown() {
    let endpoint = Endpoint {
        shape: Shape::OpenAiResponses,
        base_url: None,
        api_key: Some("very-secret".to_owned()),
    };
    assert!(!format!("{endpoint:?}").contains("very-secret"));
    let head = "307 Temporary Redirect\r\nlocation: http://127.0.0.1:9/";
    let provider = provider(vec![(head, json!({}))]);
    assert_eq!(
        ask(&model(Shape::OpenAi, &provider.url))
            .unwrap_err()
            .status,
        307
    );
}
