//! `scroll from`: sources become sealed scrolls, with an account; folders become a table.

use crate::sandbox::{Sandbox, shared};
use std::fs;
use std::io::{Cursor, Write as _};
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
    sandbox.run(["init"]).exits(0);
    let source = sandbox.write("session.jsonl", SESSION);
    let (scroll, account) = (
        sandbox.work().join("s.scroll"),
        sandbox.work().join("s.account"),
    );
    let (source, path) = (source.to_str().unwrap(), scroll.to_str().unwrap());
    let from = [
        "scroll",
        "from",
        "auto",
        source,
        "--key",
        "self-scroll",
        "--to",
        "lines",
    ];
    let files = ["--out", path, "--account", account.to_str().unwrap()];
    let ran = sandbox.run(from.iter().chain(&files)).exits(0);
    assert_eq!(ran.stdout, "");
    for told in [
        "claude-code: 3 records, 2 turns, 1 tool calls, 0 results, 5 tokens in, 7 out",
        "not mapped: line 2: not JSON",
        "carried as text: line 3 /message/content/0/input/n: inexact number",
        "not carried: line 3 /novel: unknown member",
        "made up: params.temperature in 2 turns",
    ] {
        assert!(ran.stderr.contains(told), "{told}\n{}", ran.stderr);
    }
    let report = sandbox.run(["verify", "--json", path]).json();
    let signer = &report["results"][0]["signers"][0];
    assert_eq!(signer["status"], "trusted", "{report}");
    let account: serde_json::Value = serde_json::from_slice(&fs::read(&account).unwrap()).unwrap();
    assert_eq!(account["schema"], "threadseal.scroll-from/1");
    assert_eq!(account["unmapped"][0]["lines"][0][0], 2);
    let again = sandbox.run(from.iter().chain(&files)).exits(2);
    assert!(again.stderr.contains("exists"), "{}", again.stderr);
}

#[test]
fn the_account_is_the_output_where_json_is_asked_for() {
    let sandbox = Sandbox::new();
    let source = sandbox.write("session.jsonl", SESSION);
    let source = source.to_str().unwrap();
    let out = sandbox.work().join("out.json");
    let from = ["scroll", "from", "claude-code", source, "--json"];
    sandbox.run(from).fails_with("--out");
    let named = ["--out", out.to_str().unwrap()];
    let account = sandbox.run(from.iter().chain(&named)).exits(0).json();
    assert_eq!(account["format"], "claude-code");
    assert_eq!(account["turns"], 2);
    let printed = sandbox.run(&from[..4]).exits(0);
    assert_eq!(printed.stdout.as_bytes(), fs::read(&out).unwrap());
}

#[test]
fn what_nobody_knows_is_no_scroll() {
    let sandbox = Sandbox::new();
    let source = sandbox.write("notes.txt", "hello\n");
    let source = source.to_str().unwrap();
    sandbox
        .run(["scroll", "from", "auto", source])
        .exits(2)
        .fails_with("nothing here is known");
    sandbox.run(["scroll", "from", "nobody", source]).exits(2);
    sandbox
        .run(["scroll", "from", "auto", source, source])
        .exits(2)
        .fails_with("--table");
}

/// A session whose tool call and whose text hold one token each, made from parts, so that no
/// scanner of this repository takes them for secrets.
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
    let source = source.to_str().unwrap();
    let from = |options: &[&str]| {
        let ran = sandbox.run(["scroll", "from", "auto", source].iter().chain(options));
        let ran = ran.exits(0);
        let verified = sandbox.write("s.scroll", &ran.stdout);
        let report = sandbox
            .run(["verify", "--json", verified.to_str().unwrap()])
            .exits(3);
        assert_eq!(report.json()["results"][0]["verdict"], "consistent");
        ran
    };
    let whole = from(&[]).stdout;
    assert!(tokens.iter().all(|token| whole.contains(token)) && whole.contains("ls -la"));

    let secrets = from(&["--redact=secrets"]);
    assert!(tokens.iter().all(|token| !secrets.stdout.contains(token)));
    assert!(tokens.iter().all(|token| !secrets.stderr.contains(token)));
    assert!(secrets.stdout.contains("ls -la"), "{}", secrets.stdout);
    assert!(
        secrets.stderr.contains("left out: turn"),
        "{}",
        secrets.stderr
    );

    let all = from(&["--redact"]).stdout;
    assert!(
        !all.contains("ls -la") && all.contains("args_hash"),
        "{all}"
    );
    let hashes = |text: &str| {
        let turns: serde_json::Value = serde_json::from_str(text).unwrap();
        let calls = turns[1]["tool_calls"].as_array().unwrap().clone();
        calls
            .iter()
            .map(|call| call["args_hash"].to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(hashes(&all), hashes(&whole));

    let rules = "[[rules]]\nid = \"listing\"\nregex = \"ls -la\"\n";
    let rules = sandbox.write("rules.toml", rules);
    let own = from(&[
        "--redact=secrets",
        "--secret-rules",
        rules.to_str().unwrap(),
    ])
    .stdout;
    assert!(!own.contains("ls -la") && own.contains(&tokens[0]), "{own}");
    let bad = sandbox.write("bad.toml", "[[rules]]\nid = \"x\"\nregex = \"(\"\n");
    let ask = [
        "scroll",
        "from",
        "auto",
        source,
        "--redact",
        "--secret-rules",
        bad.to_str().unwrap(),
    ];
    sandbox.run(ask).fails_with("rule x");
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
    let ran = sandbox
        .run(["scroll", "from", "auto", log.to_str().unwrap()])
        .exits(0);
    assert!(ran.stdout.contains("two and two?"), "{}", ran.stdout);
    assert!(ran.stderr.contains("inspect: 1 records"), "{}", ran.stderr);
    let other = archive("other.zip", &[("notes.txt", "hello")]);
    sandbox
        .run(["scroll", "from", "auto", other.to_str().unwrap()])
        .fails_with("not an Inspect log");
}

#[test]
fn a_table_has_a_line_for_each_source_below_a_folder() {
    let sandbox = Sandbox::new();
    let folder = sandbox.work().join("logs");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.jsonl"), SESSION).unwrap();
    fs::write(folder.join("notes.txt"), "hello\n").unwrap();
    let folder = folder.to_str().unwrap();
    let table = ["scroll", "from", "auto", folder, "--table"];
    let text = sandbox.run(table).exits(0).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    let words: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(
        words[..8],
        ["claude-code", "3", "2", "1", "0", "5", "7", "3"]
    );
    assert!(lines[2].starts_with("total") && lines[3].contains("passed over"));
    let json = sandbox.run(table.iter().chain(&["--json"])).exits(0).json();
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
    let table = ["scroll", "from", "auto", corpus, "--table", "--json"];
    let files = sandbox.run(table).exits(0).json()["files"]
        .as_array()
        .unwrap()
        .len();
    assert!(files > 100, "{files} files");
}
