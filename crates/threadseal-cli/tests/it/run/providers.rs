//! `run` over real HTTP, for each protocol: a call in the first answer, a text in the second.

use super::accept;
use crate::prelude::*;
use std::net::TcpListener;
use threadseal_store::clock::{Clock as _, SystemClock};

const WRITE: &str = "rye_file-system_write";

/// The stream of a provider: a call that writes a file, or a text.
fn events(shape: &str, calls: bool) -> Vec<Value> {
    let input = json!({"path": "out.txt", "content": "Größe"});
    let spelled = input.to_string();
    match shape {
        "anthropic" => {
            let (block, delta, stop) = match calls {
                true => (
                    json!({"type": "tool_use", "id": "t1", "name": WRITE, "input": {}}),
                    json!({"type": "input_json_delta", "partial_json": spelled}),
                    "tool_use",
                ),
                false => (
                    json!({"type": "text", "text": ""}),
                    json!({"type": "text_delta", "text": "Written."}),
                    "end_turn",
                ),
            };
            vec![
                json!({"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant",
                    "model": "m-1", "content": [], "usage": {"input_tokens": 70,
                    "cache_read_input_tokens": 30, "output_tokens": 1}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": block}),
                json!({"type": "content_block_delta", "index": 0, "delta": delta}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 10}}),
                json!({"type": "message_stop"}),
            ]
        }
        "openai_responses" => {
            let item = match calls {
                true => {
                    json!({"type": "function_call", "id": "f", "call_id": "t1", "name": WRITE,
                           "arguments": spelled, "status": "completed"})
                }
                false => {
                    json!({"type": "message", "id": "m", "role": "assistant", "status": "completed",
                                "content": [{"type": "output_text", "text": "Written.", "annotations": []}]})
                }
            };
            let usage = json!({"input_tokens": 100, "output_tokens": 10, "total_tokens": 110,
                "input_tokens_details": {"cached_tokens": 30}, "output_tokens_details": {"reasoning_tokens": 4}});
            vec![
                json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
                json!({"type": "response.completed", "response": {"id": "r", "object": "response", "created_at": 1,
                    "status": "completed", "model": "m-1", "output": [item], "usage": usage}}),
            ]
        }
        "openai" => {
            let (delta, finish) = match calls {
                true => (
                    json!({"tool_calls": [{"index": 0, "id": "t1", "type": "function",
                           "function": {"name": WRITE, "arguments": spelled}}]}),
                    "tool_calls",
                ),
                false => (json!({"content": "Written."}), "stop"),
            };
            vec![
                json!({"model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}),
                json!({"model": "m-1", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}),
                json!({"model": "m-1", "choices": [],
                       "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110,
                       "prompt_tokens_details": {"cached_tokens": 30},
                       "completion_tokens_details": {"reasoning_tokens": 4}}}),
            ]
        }
        _ => {
            let part = match calls {
                true => json!({"functionCall": {"name": WRITE, "args": input}}),
                false => json!({"text": "Written."}),
            };
            vec![json!({"candidates": [{"index": 0, "finishReason": "STOP",
                        "content": {"role": "model", "parts": [part]}}], "modelVersion": "m-1",
                        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 6, "thoughtsTokenCount": 4,
                        "cachedContentTokenCount": 30, "totalTokenCount": 110}})]
        }
    }
}

/// Answers two requests and gives them to the test.
fn provider(shape: &'static str) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let serve = |calls| {
            let (mut stream, request) = accept(&listener);
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let mut body = head.to_owned();
            for event in events(shape, calls) {
                if let Some(name) = event["type"].as_str() {
                    body.push_str(&format!("event: {name}\n"));
                }
                body.push_str(&format!("data: {event}\n\n"));
            }
            if shape == "openai" {
                body.push_str("data: [DONE]\n\n");
            }
            stream.write_all(body.as_bytes()).unwrap();
            String::from_utf8(request).unwrap()
        };
        [true, false].map(serve).into()
    });
    (url, served)
}

fn seal(sandbox: &Sandbox, path: &str, text: &str) {
    let path = sandbox.write(path, text);
    sandbox.ok(format!("seal -q {path:?}"));
}

#[test]
fn a_directive_runs_over_each_protocol_and_its_record_verifies() {
    for shape in ["anthropic", "openai_responses", "openai", "gemini"] {
        let sandbox = project();
        let (url, served) = provider(shape);
        let rules = "Write in capitals.\n";
        seal(&sandbox, "p/.ai/knowledge/demo/rules.md", rules);
        let rights = "<execute><tool>rye.file-system.*</tool></execute>";
        let text = directive("write", rights, "").replace(
            "<permissions>",
            "<context><system>demo/rules</system></context><permissions>",
        );
        seal(&sandbox, "p/.ai/directives/demo/write.md", &text);
        let models = format!(
            "providers:\n  local: {{adapter: {shape}, base_url: '{url}', key_env: LOCAL_KEY}}\nmodels:\n  \
             - {{id: local-m, provider: local, context_window: 8000, prices: {{input: 1, output: 10}}}}\n"
        );
        seal(&sandbox, "p/.ai/config/agent/models.yaml", &models);
        let mut command = sandbox.command();
        command.env("LOCAL_KEY", "not-a-real-key");
        let line = "run demo/write --project p -i name=Ada --model local-m --json";
        let ran = Ran::of(command.args(words(line)).output().unwrap())
            .exits(0)
            .json();
        assert_eq!(ran["result"], "Written.", "{shape} {ran}");
        // Two answers of 100 and 10 tokens, at $1 and $10 for a million.
        assert_eq!(ran["cost"]["spend"], 0.0004, "{shape} {ran}");
        let written = sandbox.read("p/out.txt");
        assert_eq!(written, "Größe", "{shape}");
        let asked = served.join().unwrap();
        for said in ["Write in capitals.", "Greet Ada.", WRITE] {
            assert!(
                asked.iter().all(|asked| asked.contains(said)),
                "{shape}: {said:?}"
            );
        }
        assert!(
            asked[1].contains("bytes"),
            "{shape}: the result of the call"
        );
        sandbox.ok("verify p");
        let transcript = transcript(&sandbox, "write");
        let text = read(&transcript);
        assert!(
            text.contains("\"m-1\"") && !text.contains("not-a-real-key"),
            "{shape}"
        );
        // The scroll has the same figures; Anthropic does not count reasoning.
        sandbox.ok(format!(
            "scroll from auto {transcript:?} --out t.scroll --account t.json"
        ));
        let account = json_file(sandbox.path("t.json"));
        let reasoning = if shape == "anthropic" { 0 } else { 8 };
        account["tokens"]
            .is(json!({"input": 200, "output": 20, "cached": 60, "reasoning": reasoning}));
    }
}

/// A key, and how a hostile provider spells it: as it is, in base64 with its scheme, as JSON, as an
/// address.
const KEY: &str = "sk-abc/DEF+ghi=0123~xyz";
const SPELLINGS: [&str; 4] = [
    KEY,
    "QmVhcmVyIHNrLWFiYy9ERUYrZ2hpPTAxMjN+eHl6",
    "sk-abc\\/DEF+ghi=0123~xyz",
    "sk-abc%2FDEF%2bghi%3D0123~xyz",
];

/// Asks for a call with the key, repeats the key one character at a time, and refuses with it.
fn leaky() -> (String, std::thread::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let all = SPELLINGS.join(" ");
        let chunk = |delta: Value, finish: Value| {
            let event = json!({"model": KEY, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
            format!("data: {event}\n\n")
        };
        let stream = |pieces: String, finish: &str| {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let end = chunk(json!({}), finish.into());
            format!("{head}{pieces}{end}data: [DONE]\n\n")
        };
        let input = json!({"path": "out.txt", "content": all}).to_string();
        let call = json!({"tool_calls": [{"index": 0, "id": KEY, "type": "function",
                          "function": {"name": WRITE, "arguments": input}}]});
        let pieces = all
            .chars()
            .map(|c| chunk(json!({"content": c.to_string()}), Value::Null));
        let error = json!({"error": {"type": "invalid_request_error", "code": KEY,
                           "message": format!("wrong key {all}")}})
        .to_string();
        let refusal = format!(
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{error}",
            error.len()
        );
        let answers = [
            stream(chunk(call, Value::Null), "tool_calls"),
            stream(pieces.collect(), "stop"),
            refusal.clone(),
            refusal,
        ];
        let serve = |answer: String| {
            let (mut connection, _) = accept(&listener);
            connection.write_all(answer.as_bytes()).unwrap();
        };
        answers.into_iter().map(serve).count()
    });
    (url, served)
}

// T-TOL-35
#[test]
fn a_key_that_a_provider_returns_is_in_no_file_and_no_output() {
    let sandbox = project();
    let (url, served) = leaky();
    let rights = "<execute><tool>rye.file-system.*</tool></execute>";
    seal(
        &sandbox,
        "p/.ai/directives/demo/write.md",
        &directive("write", rights, ""),
    );
    let models = format!(
        "providers:\n  local: {{adapter: openai, base_url: '{url}', key_env: LOCAL_KEY}}\nmodels:\n  \
         - {{id: local-m, provider: local, context_window: 8000, prices: {{input: 1, output: 10}}}}\n"
    );
    seal(&sandbox, "p/.ai/config/agent/models.yaml", &models);
    let run = |more: &str| {
        let mut command = sandbox.command();
        command.env("LOCAL_KEY", KEY);
        let line = format!("run demo/write --project p -i name=Ada --model local-m {more}");
        Ran::of(command.args(words(&line)).output().unwrap())
    };
    // This provider gives no counts, so each answer costs all that may be held for it.
    let texts = [
        run("--json --limit spend=1").exits(0),
        run("--json").exits(2),
        run("").exits(2),
    ];
    assert_eq!(served.join().unwrap(), 4);
    assert!(texts[0].stdout.contains("[secret]"), "{}", texts[0].stdout);
    let written = sandbox.read("p/out.txt");
    assert!(written.starts_with("[secret] "), "{written}");
    let files = super::refusals::everything(&sandbox);
    let has_event = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).contains("secrets_replaced");
    assert!(files.values().any(has_event));
    let files = files.into_iter();
    let files = files.map(|(path, bytes)| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (path.display().to_string(), text)
    });
    let outputs = texts.into_iter().flat_map(|ran| [ran.stdout, ran.stderr]);
    let outputs = outputs.map(|text| ("output".to_owned(), text));
    for (place, text) in files.chain(outputs) {
        // Of base64, the characters that the key alone decides.
        let middle = &SPELLINGS[1][12..36];
        for part in [KEY, "0123~xyz", middle] {
            assert!(!text.contains(part), "{place} has {part}");
        }
    }
    sandbox.ok("verify p");
}

// T-DEC-19
#[test]
fn no_variable_is_sent_for_an_unsigned_setting() {
    let sandbox = project();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    let models = format!(
        "providers:\n  local: {{adapter: openai, base_url: '{url}', key_env: AWS_SECRET_ACCESS_KEY}}\nmodels:\n  \
         - {{id: local-m, provider: local, context_window: 8000, prices: {{input: 1, output: 10}}}}\n"
    );
    sandbox.write("p/.ai/config/agent/models.yaml", &models);
    let mut command = sandbox.command();
    command.env("AWS_SECRET_ACCESS_KEY", KEY);
    let line = "run demo/greet --project p -i name=Ada --model local-m --allow-unsigned";
    let ran = Ran::of(command.args(words(line)).output().unwrap());
    ran.exits(2)
        .fails_with("models.yaml:2: `key_env` of a provider is never taken");
    assert!(listener.accept().is_err(), "a request was sent");
}

/// Answers a request with one piece after the other, and never to the end; without a piece, not at
/// all.
fn dripping(piece: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = accept(&listener);
        let head = match piece.is_empty() {
            true => "",
            false => "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n",
        };
        let mut sent = stream.write_all(head.as_bytes());
        while sent.is_ok() {
            std::thread::sleep(Duration::from_millis(20));
            sent = stream.write_all(piece.as_bytes());
        }
    });
    url
}

// T-TOL-38
#[test]
fn a_provider_that_drips_for_ever_ends_with_the_time_of_the_thread() {
    let delta = json!({"model": "m-1", "choices": [{"index": 0, "delta": {"content": "a"},
                       "finish_reason": null}]});
    let pieces = ["", ": comment\n\n", &format!("data: {delta}\n\n")];
    for piece in pieces.map(str::to_owned) {
        let sandbox = project();
        let url = dripping(piece);
        let text = directive("write", "", "");
        seal(&sandbox, "p/.ai/directives/demo/write.md", &text);
        let models = format!(
            "providers:\n  local: {{adapter: openai, base_url: '{url}', key_env: LOCAL_KEY}}\nmodels:\n  \
             - {{id: local-m, provider: local, context_window: 8000, prices: {{input: 1, output: 10}}}}\n"
        );
        seal(&sandbox, "p/.ai/config/agent/models.yaml", &models);
        let mut command = sandbox.command();
        command.env("LOCAL_KEY", "not-a-real-key");
        let line = "run demo/write --project p -i name=Ada --model local-m --limit duration_seconds=1 --json";
        let began = SystemClock.elapsed();
        let ran = Ran::of(command.args(words(line)).output().unwrap()).exits(3);
        assert!(SystemClock.elapsed() - began < Duration::from_secs(20));
        ran.json().is(json!({"status": "limit_reached"}));
    }
}
