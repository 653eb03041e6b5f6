//! `scroll from`: sources become sealed scrolls, with an account; folders become a table.

use crate::prelude::*;
use std::io::Cursor;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const SESSION: &str = concat!(
    r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/w","message":{"role":"user","content":"List it"}}"#,
    "\n{not json\n",
    r#"{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"s","timestamp":"2026-01-01T00:00:01Z","novel":1,"message":{"id":"m1","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"n":12345678901234567890}}],"usage":{"input_tokens":5,"output_tokens":7}}}"#,
    "\n"
);

#[test]
fn a_session_becomes_a_scroll_that_verifies_and_an_account_of_the_rest() {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    let source = sandbox.write("session.jsonl", SESSION);
    let (scroll, account) = (sandbox.path("s.scroll"), sandbox.path("s.account"));
    let (source, path) = (source.to_str().unwrap(), scroll.to_str().unwrap());
    let from = format!("scroll from auto {source} --key self-scroll --to lines");
    let files = format!("--out {path} --account {account:?}");
    let ran = sandbox.ok(format!("{from} {files}"));
    assert_eq!(ran.stdout, "");
    for told in [
        "claude-code: 3 records, 2 turns, 1 tool call, 0 results, 5 tokens in, 7 out",
        "not mapped: line 2: not JSON",
        "carried as text: line 3 /message/content/0/input/n: inexact number",
        "not carried: line 3 /novel: unknown member",
        "default value: params.temperature in 2 turns",
    ] {
        ran.stderr.has(told);
    }
    let report = sandbox.sh(format!("verify --json {path}")).json();
    let signer = &report["results"][0]["signers"][0];
    assert_eq!(signer["status"], "trusted", "{report}");
    let account = json_file(&account);
    account.is(json!({"schema": "threadseal.scroll.from/1", "unmapped/0/lines/0/0": 2}));
    sandbox.exits(2, format!("{from} {files}")).warns("exists");
    fs::remove_file(&scroll).unwrap();
    sandbox.exits(2, format!("{from} {files}")).warns("exists");
    assert!(!scroll.exists(), "a scroll without its account");
}

/// A log of another program, sealed, with as many questions.
fn sealed_log(sandbox: &Sandbox, name: &str, questions: usize) -> String {
    let path = sandbox.write(name, questions_of(0..questions));
    sandbox.ok(format!("seal {path:?}"));
    path.to_str().unwrap().to_owned()
}

fn questions_of(numbers: std::ops::Range<usize>) -> String {
    let line = |number: usize| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"u{number}\",\"parentUuid\":null,\"sessionId\":\"s\",\"timestamp\":\"2026-01-01T00:00:{number:02}Z\",\"message\":{{\"role\":\"user\",\"content\":\"question {number}\"}}}}\n"
        )
    };
    numbers.map(line).collect()
}

/// The claim in the report of a scroll.
fn claim_of(sandbox: &Sandbox, scroll: &str) -> Value {
    let ran = sandbox.sh(format!("scroll verify --json {scroll}"));
    ran.json()["results"][0]["conversion"].clone()
}

// T-SCR-36
#[test]
fn no_scroll_is_made_of_a_tampered_log() {
    let sandbox = ready();
    let log = sealed_log(&sandbox, "log.jsonl", 3);
    let text = read(&log);
    let out = sandbox.path("out.scroll");
    let account = sandbox.path("account.json");
    let from = format!("scroll from auto {log} --key self-scroll");
    let files = format!("--out {out:?} --account {account:?}");
    let all = questions_of(0..3);
    let lines: Vec<&str> = all.split_inclusive('\n').collect();
    for (changed, verdict) in [
        (text.replace("question 1", "question X"), "tampered"),
        ([lines[0], lines[1]].concat(), "truncated"),
        ([lines[0], lines[2], lines[1]].concat(), "tampered"),
    ] {
        fs::write(&log, changed).unwrap();
        let ran = sandbox.exits(1, format!("{from} {files}"));
        ran.stderr.has(&format!("is {verdict}: "));
        ran.stderr
            .has("nothing was written; hint: threadseal verify");
        assert!(!out.exists() && !account.exists());
        assert_eq!(sandbox.exits(1, &from).stdout, "");
        let report = sandbox.exits(1, format!("{from} {files} --json")).json();
        assert_eq!(report["results"][0]["verdict"], verdict);
        let table = sandbox.exits(1, format!("scroll from auto {log} --table --json"));
        assert_eq!(table.json()["files"], json!([]));
        table.json()["errors"][0]["message"].text().has(verdict);
    }
    fs::write(&log, text).unwrap();
    sandbox.ok(format!("{from} {files}"));
    // A log whose seals are gone is known here.
    fs::remove_file(format!("{log}.seal")).unwrap();
    sandbox.exits(1, &from).warns("tampered");
}

// T-SCR-36
#[test]
fn a_scroll_names_the_verdict_on_its_source_wherever_it_is_shown() {
    let sandbox = ready();
    let log = sealed_log(&sandbox, "log.jsonl", 2);
    let head = sandbox.json(format!("verify {log}"))["results"][0]["head"].clone();
    let did = sandbox.key("self-scroll")["did"].clone();
    let out = sandbox.path("out.scroll");
    let out = out.to_str().unwrap();
    sandbox
        .ok(format!(
            "scroll from auto {log} --key self-scroll --out {out}"
        ))
        .warns(&format!(
            "source: claude-code (log): verified, head {}",
            head.text()
        ));
    let claim = claim_of(&sandbox, out);
    claim.is(json!({
        "program": "claude-code", "format": "log", "verdict": "verified", "head": head.clone(),
        "turns": 2, "bytes": fs::metadata(&log).unwrap().len(), "by": did,
        "sha256": Digest::of(read(&log).as_bytes()).to_string(),
    }));
    let shown = format!("claude-code (log): verified, head {}", head.text());
    sandbox.ok(format!("verify {out}")).prints(&format!(
        "converted from   {shown}; the converter claims this"
    ));
    for format in ["markdown", "atif"] {
        sandbox
            .ok(format!("scroll to {format} {out}"))
            .prints(&format!("converted from {shown}, as the converter claims"));
    }
    for format in ["openai", "anthropic"] {
        let account = sandbox.path(format);
        sandbox
            .ok(format!("scroll to {format} {out} --account {account:?}"))
            .omits("conversion");
        assert_eq!(json_file(&account)["source"]["verdict"], "verified");
    }

    // Other verdicts are claimed, too, and raise none: the scroll is judged by its own seals.
    let tail = format!("{}{}", read(&log), questions_of(2..3));
    fs::write(&log, tail).unwrap();
    let unsealed = sandbox.write("unsealed.jsonl", SESSION);
    for (source, verdict, format) in [
        (log.as_str(), "unsigned_tail", json!("log")),
        (unsealed.to_str().unwrap(), "unsigned", Value::Null),
    ] {
        for (key, scroll_verdict) in [("--key self-scroll", "verified"), ("", "consistent")] {
            let path = sandbox.path("made.scroll");
            let made = sandbox
                .ok(format!("scroll from auto {source} {key}"))
                .stdout;
            fs::write(&path, made).unwrap();
            let path = path.to_str().unwrap();
            let report = sandbox.sh(format!("verify --json {path}")).json();
            assert_eq!(report["results"][0]["verdict"], scroll_verdict);
            claim_of(&sandbox, path).is(json!({"verdict": verdict, "format": format.clone()}));
        }
    }
    let stranger = ready();
    fs::write(&log, questions_of(0..2)).unwrap();
    stranger
        .ok(format!(
            "scroll from auto {log} --key self-scroll --out {log}.scroll"
        ))
        .warns("source: claude-code (log): unknown_signer, head");
    for among in ["", &format!("{log}.scroll")] {
        stranger
            .ok(format!("verify {log}.scroll {among}"))
            .prints("claude-code (log): unknown_signer");
    }
}

// T-SCR-36
#[test]
fn lines_after_a_final_seal_are_not_converted() {
    let sandbox = ready();
    let path = sandbox.write("log.jsonl", questions_of(0..2));
    let log = path.to_str().unwrap();
    sandbox.ok(format!("seal --final {log}"));
    fs::write(log, questions_of(0..3)).unwrap();
    sandbox
        .ok(format!("scroll from auto {log}"))
        .prints("question 1")
        .omits("question 2")
        .warns("bytes after the final seal are not converted")
        .warns("source: claude-code (log): unsigned_tail");
}

// T-SCR-36
#[test]
fn a_link_to_a_tampered_log_is_judged_by_the_seals_of_the_log() {
    let sandbox = ready();
    let log = sealed_log(&sandbox, "log.jsonl", 2);
    let link = sandbox.path("elsewhere.jsonl");
    symlink(&log, &link).unwrap();
    let from = format!("scroll from auto {link:?}");
    sandbox.ok(&from).warns("(log): verified, head");
    fs::write(&log, read(&log).replace("question 1", "question X")).unwrap();
    assert_eq!(sandbox.exits(1, &from).stdout, "");
}

// T-SCR-37
#[test]
fn only_the_converter_makes_a_claim_and_no_spelling_hides_it() {
    let sandbox = ready();
    let item = r#"{"type":"conversion","schema":"threadseal.conversion/1","program":"codex","format":"log","verdict":"verified","bytes":1,"turns":1,"content":"0000000000000000000000000000000000000000000000000000000000000000"}"#;
    let said = format!(
        r#"{{"model":"m","max_tokens":1,"messages":[{{"role":"conversion","content":[{item}]}},{{"role":"user","content":[{item}]}}]}}"#
    );
    let source = sandbox.write("request.json", said);
    let out = sandbox.path("out.scroll");
    let out = out.to_str().unwrap();
    sandbox.ok(format!("scroll from anthropic {source:?} --out {out}"));
    claim_of(&sandbox, out).is(json!({"program": "anthropic", "verdict": "unsigned"}));
    let respelled = read(out).replace("\"role\":\"conversion\"}", "\"role\":\"conv\\u0065rsion\"}");
    let respelled = sandbox.write("respelled.scroll", respelled);
    claim_of(&sandbox, respelled.to_str().unwrap()).is(json!({"program": "anthropic"}));
    // A claim that is changed is no claim of the scroll.
    let text = read(out).replace("\"verdict\":\"unsigned\"", "\"verdict\":\"verified\"");
    let changed = sandbox.write("changed.scroll", text);
    let ran = sandbox.exits(1, format!("verify --json {changed:?}"));
    assert_eq!(ran.json()["results"][0]["conversion"], Value::Null);
}

// T-SCR-39
#[test]
fn each_conversion_of_a_growing_log_is_a_record_of_its_own() {
    let sandbox = ready();
    let log = sealed_log(&sandbox, "log.jsonl", 2);
    let (mut records, mut scrolls) = (BTreeSet::new(), Vec::new());
    let more = [
        "--key self-scroll",
        "--key self-scroll --cbor",
        "--key self-scroll --redact",
    ];
    for grown in 2..5 {
        fs::write(&log, questions_of(0..grown)).unwrap();
        sandbox.ok(format!("seal {log}"));
        for (number, options) in more.iter().enumerate() {
            let out = sandbox.path(format!("{grown}-{number}.scroll"));
            let out = out.to_str().unwrap().to_owned();
            sandbox
                .ok(format!("scroll from auto {log} {options} --out {out}"))
                .does_not_warn("is not remembered");
            scrolls.push(out);
        }
        // Each earlier one stays what it was.
        for scroll in &scrolls {
            let report = sandbox.json(format!("verify {scroll}"));
            let report = &report["results"][0];
            assert_eq!(report["verdict"], "verified", "{scroll}");
            assert_eq!(report["completeness"], "head", "{scroll}");
            records.insert(report["record"].text().to_owned());
        }
    }
    assert_eq!(records.len(), scrolls.len());
    // The same conversion again makes the same scroll.
    let again = sandbox
        .ok(format!("scroll from auto {log} {}", more[0]))
        .stdout;
    assert_eq!(again, read(&scrolls[6]));
    sandbox.ok("verify --all");
}

#[test]
fn a_source_without_turns_makes_no_scroll_and_its_account_gives_the_reason() {
    let sandbox = Sandbox::new();
    let source = sandbox.write(
        "session.jsonl",
        r#"{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/w","message":7}"#,
    );
    let account = sandbox.path("account.json");
    let ran = sandbox.exits(
        2,
        format!("scroll from claude-code {source:?} --account {account:?}"),
    );
    assert_eq!(ran.stdout, "");
    ran.stderr.has("the source contains no turns");
    let account = json_file(&account);
    assert_eq!(account["turns"], 0, "{account}");
}

#[test]
fn the_account_is_the_output_where_json_is_asked_for() {
    let sandbox = Sandbox::new();
    let source = sandbox.write("session.jsonl", SESSION);
    let source = source.to_str().unwrap();
    let out = sandbox.path("out.json");
    let from = format!("scroll from claude-code {source}");
    sandbox.sh(format!("{from} --json")).fails_with("--out");
    let named = format!("--out {out:?}");
    let account = sandbox.json(format!("{from} {named}"));
    account.is(json!({"format": "claude-code", "turns": 2}));
    assert_eq!(sandbox.ok(&from).stdout.as_bytes(), fs::read(&out).unwrap());
}

#[test]
fn an_unknown_source_is_no_scroll() {
    let sandbox = Sandbox::new();
    let source = sandbox.write("notes.txt", "hello\n");
    sandbox
        .exits(2, format!("scroll from auto {source:?}"))
        .fails_with("unknown source format");
    sandbox.exits(2, format!("scroll from nobody {source:?}"));
    sandbox
        .exits(2, format!("scroll from auto {source:?} {source:?}"))
        .fails_with("--table");
}

/// A session with one token in its tool call and one in its text. They are made from parts, so that
/// no scanner of this repository takes them for secrets.
fn session_with_tokens() -> (String, [String; 2]) {
    let token = |end: &str| format!("ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0e{end}");
    let (called, said) = (token("F3hJ6"), token("F3hJ7"));
    let line = |rest: String| {
        format!("{{\"sessionId\":\"s\",\"timestamp\":\"2026-01-01T00:00:00Z\",{rest}}}\n")
    };
    let call = |id: &str, input: &str| {
        format!(
            r#"{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"command":"{input}"}}}}"#
        )
    };
    let blocks = [
        call("t1", &format!("export TOKEN={called}")),
        call("t2", "ls -la"),
    ]
    .join(",");
    let session = [
        line(format!(
            r#""type":"user","uuid":"u1","parentUuid":null,"message":{{"role":"user","content":"use {said} please"}}"#
        )),
        line(format!(
            r#""type":"assistant","uuid":"a1","parentUuid":"u1","message":{{"id":"m1","role":"assistant","model":"x","content":[{blocks}]}}"#
        )),
    ];
    (session.concat(), [called, said])
}

#[test]
fn tool_bodies_and_secrets_are_left_out_where_that_is_asked_for() {
    let sandbox = Sandbox::new();
    let (session, tokens) = session_with_tokens();
    let source = sandbox.write("session.jsonl", session);
    let from = |options: &str| {
        let ran = sandbox.sh(format!("scroll from auto {source:?} {options}"));
        let ran = ran.exits(0);
        let verified = sandbox.write("s.scroll", &ran.stdout);
        let report = sandbox.exits(3, format!("verify --json {verified:?}"));
        assert_eq!(report.json()["results"][0]["verdict"], "consistent");
        ran
    };
    let whole = from("").stdout;
    assert!(tokens.iter().all(|token| whole.contains(token)) && whole.contains("ls -la"));

    let secrets = from("--redact=secrets");
    assert!(tokens.iter().all(|token| !secrets.stdout.contains(token)));
    assert!(tokens.iter().all(|token| !secrets.stderr.contains(token)));
    secrets.stdout.has("ls -la");
    secrets.stderr.has("left out: turn");

    let all = from("--redact").omits("ls -la").prints("args_hash").stdout;
    let hashes = |text: &str| {
        let turns: Value = serde_json::from_str(text).unwrap();
        let calls = turns[1]["tool_calls"].list().clone();
        calls
            .iter()
            .map(|call| call["args_hash"].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(hashes(&all), hashes(&whole));

    let rules = "[[rules]]\nid = \"listing\"\nregex = \"ls -la\"\n";
    let rules = sandbox.write("rules.toml", rules);
    from(&format!("--redact=secrets --secret-rules {rules:?}"))
        .omits("ls -la")
        .prints(&tokens[0]);
    let bad = sandbox.write("bad.toml", "[[rules]]\nid = \"x\"\nregex = \"(\"\n");
    sandbox
        .sh(format!(
            "scroll from auto {source:?} --redact --secret-rules {bad:?}"
        ))
        .fails_with("rule x");
}

/// Checks that `--redact=secrets` removes each of `secrets` from the result for `source`: the
/// scroll, the account and standard error.
fn assert_hidden(sandbox: &Sandbox, format: &str, source: &str, secrets: &[String]) {
    let path = sandbox.write("source.json", source);
    let path = path.to_str().unwrap();
    let from = format!("scroll from {format} {path}");
    let whole = sandbox.ok(&from).stdout;
    let account = sandbox.path("source.account");
    let _ = fs::remove_file(&account);
    let redact = format!("--redact=secrets --account {account:?}");
    let ran = sandbox.ok(format!("{from} {redact}"));
    let account = read(account);
    for secret in secrets {
        assert!(whole.contains(secret.as_str()), "{secret} is in no turn");
        for text in [&ran.stdout, &ran.stderr, &account] {
            assert!(!text.contains(secret.as_str()), "{secret} in {text}");
        }
    }
}

// T-SCR-31
#[test]
fn secrets_are_left_out_wherever_a_request_holds_them() {
    let sandbox = Sandbox::new();
    let token = |number: usize| format!("ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3h{number:02}");
    let [
        system,
        thought,
        said,
        described,
        standard,
        named,
        called,
        input,
    ] = std::array::from_fn(token);
    let request = json!({
        "model": "m", "max_tokens": 10,
        "system": [{"type": "text", "text": format!("use {system}")}],
        "tools": [{"name": "t", "description": format!("as {described}"), "input_schema": {
            "type": "object", "properties": {"x": {"default": standard}, (named.as_str()): {}}}}],
        "messages": [
            {"role": "user", "content": format!("and {said}")},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": format!("hm {thought}"), "signature": "s"},
                {"type": "tool_use", "id": "c", "name": "t", "input": {"x": input, (called.as_str()): 1}}]}],
    });
    let all = [
        system, thought, said, described, standard, named, called, input,
    ];
    assert_hidden(&sandbox, "anthropic", &request.to_string(), &all);
}

// T-SCR-31
#[test]
fn secrets_in_several_elements_of_a_list_are_left_out() {
    let sandbox = Sandbox::new();
    let lines: Vec<String> = (0..4)
        .map(|number| {
            format!("MIIE{number}aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6kL9nM2pR5tU8wX1zA4cE7gI0jK")
        })
        .collect();
    let kind = "PRIVATE KEY-----";
    let whole: Vec<String> = std::iter::once(format!("-----BEGIN {kind}"))
        .chain(lines.iter().cloned())
        .chain([format!("-----END {kind}")])
        .collect();
    let cut = &whole[..4];
    let texts: Vec<_> = whole
        .iter()
        .map(|line| json!({"type": "text", "text": line}))
        .collect();
    let block = |name: &str, value: Value| json!([{"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "document", (name): value}]}]);
    let value = "aB3dE6gH9jK2mN5pQ8sT";
    for (content, secrets) in [
        (json!([{"role": "user", "content": texts}]), lines.clone()),
        (block("lines", json!(whole)), lines.clone()),
        (block("lines", json!(cut)), lines[..3].to_vec()),
        (
            block("env", json!([{"name": "API_TOKEN", "value": value}])),
            vec![value.to_owned()],
        ),
        (
            block("argv", json!(["tool", "--password", value])),
            vec![value.to_owned()],
        ),
        (
            block(
                "argv",
                json!(["curl", "-u", format!("bob:{value}"), "http://x"]),
            ),
            vec![value.to_owned()],
        ),
    ] {
        let request = json!({"model": "m", "max_tokens": 10, "messages": content});
        assert_hidden(&sandbox, "anthropic", &request.to_string(), &secrets);
    }
}

// T-SCR-24
#[test]
fn a_turn_that_no_scroll_may_hold_is_found_before_the_first_is_printed() {
    let sandbox = Sandbox::new();
    sandbox.ok("init");
    let long = "x".repeat(33 << 20);
    let first = "y".repeat(1 << 20);
    let request = format!(
        r#"{{"model":"m","max_tokens":1,"messages":[{{"role":"user","content":"{first}"}},{{"role":"assistant","content":"{long}"}},{{"role":"user","content":"end"}}]}}"#
    );
    let source = sandbox.write("request.json", request);
    let (out, account) = (sandbox.path("out"), sandbox.path("account"));
    let (out, account) = (out.to_str().unwrap(), account.to_str().unwrap());
    let from = format!("scroll from anthropic {source:?} --key self-scroll");
    let before = tree_digest(&sandbox.home());
    for more in [
        "--to lines",
        &format!("--out {out}"),
        &format!("--account {account:?}"),
    ] {
        let ran = sandbox.sh(format!("{from} {more}"));
        assert_eq!(ran.stdout, "");
        ran.fails_with("turn 1 is larger than 33554432 bytes");
    }
    assert!(fs::metadata(out).is_err() && fs::metadata(account).is_err());
    assert_eq!(tree_digest(&sandbox.home()), before);
}

#[test]
fn marks_line_ends_and_halves_of_characters_cost_no_line() {
    let sandbox = Sandbox::new();
    let line = |text: &str| {
        format!(
            r#"{{"type":"user","uuid":"u","sessionId":"s","message":{{"role":"user","content":"{text}"}}}}"#
        )
    };
    let source = format!(
        "\u{feff}{}\r\n\r\n{}\r\n{}",
        line("first"),
        line("cut \\ud83d off"),
        line("nul \\u0000 last")
    );
    let source = sandbox.write("source.jsonl", source);
    let ran = sandbox.sh(format!("scroll from auto {source:?}"));
    let ran = ran.exits(0);
    for part in [r#""first""#, r#""cut \\ud83d off""#, r#""nul \u0000 last""#] {
        ran.stdout.has(part);
    }
    ran.stderr.lacks("not mapped");
    let told = "carried as text: line 3 /message/content: lone surrogate";
    ran.stderr.has(told);
}

#[test]
fn records_that_follow_themselves_or_each_other_or_share_a_name_are_all_carried() {
    let sandbox = Sandbox::new();
    let line = |name: &str, parent: &str, text: &str| {
        format!(
            r#"{{"type":"user","uuid":"{name}","parentUuid":"{parent}","message":{{"role":"user","content":"{text}"}}}}"#
        )
    };
    let source = [
        line("a", "b", "one"),
        line("b", "a", "two"),
        line("c", "c", "three"),
        line("a", "c", "four"),
    ]
    .join("\n");
    let source = sandbox.write("source.jsonl", source);
    let ran = sandbox.sh(format!("scroll from auto {source:?}"));
    let turns: Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let said: Vec<String> = turns
        .list()
        .iter()
        .map(|turn| turn["messages"][0].to_string())
        .collect();
    for (said, text) in said.iter().zip(["one", "two", "three", "four"]) {
        said.has(text);
    }
    assert_eq!(said.len(), 4);
}

#[test]
fn an_archive_of_inspect_is_opened_and_another_one_refused() {
    let sandbox = Sandbox::new();
    let archive = |name: &str, members: &[(&str, &str)]| {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (member, text) in members {
            zip.start_file(*member, SimpleFileOptions::default())
                .unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        sandbox.write(name, zip.finish().unwrap().into_inner())
    };
    let log = archive(
        "log.eval",
        &[
            (
                "header.json",
                r#"{"eval":{"task":"t","model":"acme/m"},"status":"success"}"#,
            ),
            (
                "samples/1_epoch_1.json",
                r#"{"id":1,"epoch":1,"messages":[{"role":"user","content":"two and two?"}]}"#,
            ),
        ],
    );
    sandbox
        .ok(format!("scroll from auto {log:?}"))
        .prints("two and two?")
        .warns("inspect: 1 record, 1 turn");
    let other = archive("other.zip", &[("notes.txt", "hello")]);
    sandbox
        .sh(format!("scroll from auto {other:?}"))
        .fails_with("not an Inspect log");
}

#[test]
fn a_table_has_a_line_for_each_source_below_a_folder() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("logs");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.jsonl"), SESSION).unwrap();
    fs::write(folder.join("notes.txt"), "hello\n").unwrap();
    let folder = folder.to_str().unwrap();
    let table = format!("scroll from auto {folder} --table");
    let text = sandbox.ok(&table).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    let words: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(
        words[..8],
        ["claude-code", "3", "2", "1", "0", "5", "7", "3"]
    );
    assert!(lines[2].starts_with("total") && lines[3].contains("skipped"));
    let json = sandbox.json(table);
    assert_eq!(json["schema"], "threadseal.scroll.table/1");
    assert_eq!(json["files"][0]["account"]["turns"], 2);
    assert_eq!(json["passed_over"], 1);
}

#[test]
fn sources_of_real_agents_are_in_the_table() {
    let Some(corpus) = shared("corpus/real-runs") else {
        return;
    };
    let sandbox = Sandbox::new();
    let corpus = corpus.to_str().unwrap();
    let files = sandbox.json(format!("scroll from auto {corpus:?} --table"))["files"]
        .list()
        .len();
    assert!(files > 100, "{files} files");
}

#[test]
fn the_output_states_how_sure_the_detection_is_and_a_named_format_overrides_it() {
    let sandbox = Sandbox::new();
    let line = r#"{"type":"message","message":{"role":"user","content":"hello"}}"#;
    let source = sandbox.write("session.jsonl", format!("{line}\n"));
    let source = source.to_str().unwrap();
    let ran = sandbox.ok(format!("scroll from auto {source}"));
    let why = "lines of type `message` with a role";
    ran.stderr.has(&format!("format: pi (likely: {why})"));
    let out = sandbox.path("out.json");
    let account = sandbox.json(format!("scroll from auto {source} --out {out:?}"));
    account.is(json!({"format": "pi", "detected/confidence": "likely", "detected/why": why}));
    let table = sandbox.json(format!("scroll from auto --table {source}"));
    table.is(json!({"files/0/account/detected/confidence": "likely"}));

    let named = sandbox.exits(2, format!("scroll from auto --format claude-code {source}"));
    named.stderr.lacks("format: ");
    named.stderr.has("unknown kind of record: message");
    let over = sandbox.ok(format!("scroll from claude-code --format pi {source}"));
    over.stderr.lacks("format: ");
    over.stderr.has("pi: 1 record, 1 turn");
}

// T-SCR-51
#[test]
fn a_source_of_which_most_would_be_dropped_makes_no_scroll() {
    let sandbox = Sandbox::new();
    let known = r#"{"type":"message","message":{"role":"user","content":"hello"}}"#;
    let other = r#"{"type":"teleport","to":"the moon"}"#;
    let source = sandbox.write("session.jsonl", format!("{known}\n{other}\n{other}\n"));
    let out = sandbox.path("out.json");
    for from in ["scroll from auto", "scroll from auto --format pi"] {
        let ran = sandbox.exits(2, format!("{from} {source:?} --out {out:?}"));
        ran.stderr.has("does not know 2 of 3 records");
        assert!(!out.exists());
    }
}
