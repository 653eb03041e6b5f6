//! A provider on loopback: real HTTP, real server-sent events, complete or broken as a test needs.

use super::Shape;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;
use threadseal_store::clock::{Clock as _, SystemClock};

/// One response after the other, on a port of its own; the requests come back.
pub(super) struct Provider {
    pub(super) url: String,
    pub(super) requests: JoinHandle<Vec<(String, Value)>>,
}

#[derive(Clone)]
pub(super) struct Response {
    pub(super) head: &'static str,
    /// Written one after the other, each at once.
    pub(super) pieces: Vec<Vec<u8>>,
    /// Between two pieces, so that they arrive as two.
    pub(super) pause: Duration,
    /// How long the connection stays open and silent then, at most; until the other side closes it.
    pub(super) silent: Duration,
}

impl Response {
    pub(super) fn whole(body: &str) -> Self {
        Self::pieces(vec![body.as_bytes().to_vec()])
    }

    pub(super) fn pieces(pieces: Vec<Vec<u8>>) -> Self {
        Self {
            head: "200 OK\r\ncontent-type: text/event-stream",
            pieces,
            pause: Duration::ZERO,
            silent: Duration::ZERO,
        }
    }

    pub(super) fn refusal(head: &'static str, body: &Value) -> Self {
        Self {
            head,
            pieces: vec![body.to_string().into_bytes()],
            pause: Duration::ZERO,
            silent: Duration::ZERO,
        }
    }
}

pub(super) fn provider(responses: Vec<Response>) -> Provider {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let requests = std::thread::spawn(move || {
        let serve = |response| serve(&listener, response);
        responses.iter().map(serve).collect()
    });
    Provider { url, requests }
}

fn serve(listener: &TcpListener, response: &Response) -> (String, Value) {
    let (stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
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
    let path = first.split(' ').nth(1).unwrap().to_owned();
    let asked = (path, serde_json::from_slice(&request).unwrap());
    let stream = reader.get_mut();
    // Some tests are about clients that hang up in the middle.
    let _ = write!(
        stream,
        "HTTP/1.1 {}\r\nconnection: close\r\n\r\n",
        response.head
    );
    for (place, piece) in response.pieces.iter().enumerate() {
        if place > 0 {
            std::thread::sleep(response.pause);
        }
        if stream
            .write_all(piece)
            .and_then(|()| stream.flush())
            .is_err()
        {
            return asked;
        }
    }
    if !response.silent.is_zero() {
        let until = SystemClock.elapsed() + response.silent;
        stream
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let mut one = [0];
        while SystemClock.elapsed() < until && !matches!(stream.read(&mut one), Ok(0)) {}
    }
    asked
}

/// Events as a provider of this shape frames them.
pub(super) fn sse(shape: Shape, events: &[Value]) -> String {
    let mut body = String::new();
    for event in events {
        if let (Shape::Anthropic | Shape::OpenAiResponses, Some(name)) =
            (shape, event["type"].as_str())
        {
            body.push_str(&format!("event: {name}\n"));
        }
        body.push_str(&format!("data: {event}\n\n"));
    }
    if shape == Shape::OpenAi {
        body.push_str("data: [DONE]\n\n");
    }
    body
}

/// The stream of each protocol: no reasoning, a text in two pieces, a call in two.
pub(super) fn events(shape: Shape, text: &str) -> Vec<Value> {
    let middle = text.char_indices().nth(text.chars().count() / 2).unwrap().0;
    let (a, b) = text.split_at(middle);
    match shape {
        Shape::Anthropic => vec![
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
                "model": "some-model-1", "content": [], "stop_reason": null, "usage": {"input_tokens": 8,
                "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": a}}),
            json!({"type": "ping"}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": b}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "content_block_start", "index": 1, "content_block":
                {"type": "tool_use", "id": "t1", "name": "read_file", "input": {}}}),
            json!({"type": "content_block_delta", "index": 1, "delta":
                {"type": "input_json_delta", "partial_json": "{\"pat"}}),
            json!({"type": "content_block_delta", "index": 1, "delta":
                {"type": "input_json_delta", "partial_json": "h\":\"c\"}"}}),
            json!({"type": "content_block_stop", "index": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}}),
            json!({"type": "message_stop"}),
        ],
        Shape::OpenAiResponses => {
            let call = json!({"type": "function_call", "id": "fc", "call_id": "t1", "name": "read_file",
                "arguments": "{\"path\":\"c\"}", "status": "completed"});
            let opened = json!({"type": "function_call", "id": "fc", "call_id": "t1", "name": "read_file",
                "arguments": "", "status": "in_progress"});
            let message = json!({"type": "message", "id": "m", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}]});
            let response = |status: &str, output: Value, usage: Value| {
                json!({"id": "resp_1", "object": "response",
                "created_at": 1, "status": status, "model": "some-model-1", "output": output, "usage": usage})
            };
            let usage = json!({"input_tokens": 15, "input_tokens_details": {"cached_tokens": 5},
                "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 22});
            vec![
                json!({"type": "response.created", "response": response("in_progress", json!([]), Value::Null)}),
                json!({"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": a}),
                json!({"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "content_index": 0, "delta": b}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": message}),
                json!({"type": "response.output_item.added", "output_index": 1, "item": opened}),
                json!({"type": "response.function_call_arguments.delta", "item_id": "fc", "output_index": 1, "delta": "{\"path\""}),
                json!({"type": "response.function_call_arguments.delta", "item_id": "fc", "output_index": 1, "delta": ":\"c\"}"}),
                json!({"type": "response.output_item.done", "output_index": 1, "item": call}),
                json!({"type": "response.completed", "response": response("completed", json!([message, call]), usage)}),
            ]
        }
        Shape::OpenAi => {
            let chunk = |delta: Value, finish: Value| {
                json!({"id": "c", "object": "chat.completion.chunk",
                "model": "some-model-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
            };
            let call = |id: Value, name: Value, arguments: &str| {
                json!({"tool_calls": [{"index": 0, "id": id,
                "type": "function", "function": {"name": name, "arguments": arguments}}]})
            };
            vec![
                chunk(json!({"role": "assistant", "content": a}), Value::Null),
                chunk(json!({"content": b}), Value::Null),
                chunk(
                    call("t1".into(), "read_file".into(), "{\"path\""),
                    Value::Null,
                ),
                chunk(call(Value::Null, Value::Null, ":\"c\"}"), Value::Null),
                chunk(json!({}), "tool_calls".into()),
                json!({"id": "c", "object": "chat.completion.chunk", "model": "some-model-1", "choices": [],
                    "usage": {"prompt_tokens": 15, "completion_tokens": 7, "total_tokens": 22,
                              "prompt_tokens_details": {"cached_tokens": 5},
                              "completion_tokens_details": {"reasoning_tokens": 3}}}),
            ]
        }
        Shape::Gemini => {
            let usage = json!({"promptTokenCount": 15, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "totalTokenCount": 22,
                "cachedContentTokenCount": 5});
            let part = |parts: Value| {
                json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}],
                "modelVersion": "some-model-1"})
            };
            let mut last =
                part(json!([{"functionCall": {"name": "read_file", "args": {"path": "c"}}}]));
            last["candidates"][0]["finishReason"] = "STOP".into();
            last["usageMetadata"] = usage;
            vec![part(json!([{"text": a}])), part(json!([{"text": b}])), last]
        }
    }
}
