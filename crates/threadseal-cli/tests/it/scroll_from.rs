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
        "claude-code: 3 records, 2 turns, 1 tool calls, 0 results, 5 tokens in, 7 out",
        "not mapped: line 2: not JSON",
        "carried as text: line 3 /message/content/0/input/n: inexact number",
        "not carried: line 3 /novel: unknown member",
        "default value: params.temperature in 2 turns",
    ] {
        assert!(ran.stderr.contains(told), "{told}\n{}", ran.stderr);
    }
    let report = sandbox.sh(format!("verify --json {path}")).json();
    let signer = &report["results"][0]["signers"][0];
    assert_eq!(signer["status"], "trusted", "{report}");
    let account = json_file(&account);
    account.is(json!({"schema": "threadseal.scroll-from/1", "unmapped/0/lines/0/0": 2}));
    sandbox.exits(2, format!("{from} {files}")).warns("exists");
    fs::remove_file(&scroll).unwrap();
    sandbox.exits(2, format!("{from} {files}")).warns("exists");
    assert!(!scroll.exists(), "a scroll without its account");
}

#[test]
fn a_source_of_which_no_turn_comes_makes_no_scroll_and_its_account_says_why() {
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
fn what_nobody_knows_is_no_scroll() {
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
        .warns("inspect: 1 records");
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
    assert_eq!(json["schema"], "threadseal.scroll-table/1");
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
