//! MCP servers over both transports, honest ones and others.

use super::*;
use crate::testing::{Bench, NoChildren};
use crate::toolbox::Cancel;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use threadseal_store::clock::{Clock as _, SystemClock};

const SERVER: &str = include_str!("tests/server.py");

/// A web server that ends with the test.
struct Web(Child, u16);

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn web(bench: &Bench, mode: &str, more: &str) -> Web {
    bench.file("server.py", SERVER);
    let mut child = Command::new("python3")
        .arg(bench.folder.path().join("server.py"))
        .args(["http", mode, more])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    Web(child, line.trim().parse().unwrap())
}

fn declared(bench: &Bench, yaml: &str, environment: &[(&str, &str)]) -> Result<DeclaredMcp, Error> {
    let mut environment: Vec<(String, String)> = environment
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    environment.push(("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()));
    let around = Surroundings {
        project: &bench.project,
        fs: &*bench.host.fs,
        environment: &environment,
    };
    let tool = tool::Tool::parse("t.yaml", yaml).unwrap();
    let id = ItemId::parse("team/echo").unwrap();
    let made = DeclaredMcp::new(&id, tool, &around, &Arc::new(Hub::default()))?;
    Ok(made.unwrap())
}

fn stdio(bench: &Bench, mode: &str, more: &str) -> Result<DeclaredMcp, Error> {
    bench.file("server.py", SERVER);
    let yaml = format!(
        "tool_type: mcp\ntool: echo\ncommand: [python3, server.py, stdio, {mode}, \"{more}\"]\nenv: [PATH]\n\
         set_env: {{MODE: x}}\ntimeout_seconds: 20\nmax_output_bytes: 1000\n"
    );
    declared(bench, &yaml, &[("SECRET", "not listed")])
}

fn say(tool: &DeclaredMcp, input: &Value, cancel: &Cancel) -> Outcome {
    tool.run(&mut Invocation {
        idempotency_key: "t/1/c",
        input,
        cancel,
        record: &mut NoChildren,
    })
}

fn echo(tool: &DeclaredMcp, text: &str) -> Outcome {
    say(tool, &json!({ "text": text }), &Cancel::default())
}

/// Waits until a file contains this text.
fn holds(path: &Path, part: &str) -> bool {
    (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        std::fs::read_to_string(path).is_ok_and(|text| text.contains(part))
    })
}

#[test]
fn a_tool_of_a_server_runs_over_standard_input_and_over_http() {
    let bench = Bench::new();
    let tool = stdio(&bench, "plain", "").unwrap();
    assert_eq!(tool.schema().name, "team_echo");
    assert_eq!(tool.schema().description, "Says it back.");
    assert_eq!(tool.schema().parameters["required"], json!(["text"]));
    assert!(tool.parallel(&Value::Null));
    assert_eq!(echo(&tool, "gr\u{fc}n"), Outcome::ok("gr\u{fc}n"));
    for mode in ["plain", "events"] {
        let server = web(&bench, mode, "");
        let yaml = format!(
            "tool_type: mcp\ntool: echo\nurl: http://127.0.0.1:{}/mcp\n",
            server.1
        );
        let tool = declared(&bench, &yaml, &[]).unwrap();
        assert_eq!(echo(&tool, "there"), Outcome::ok("there"));
    }
}

// T-TOL-23
#[test]
fn a_server_sees_the_listed_environment_its_folder_and_the_name_of_the_call() {
    let bench = Bench::new();
    let said = echo(&stdio(&bench, "environment", "").unwrap(), "").text();
    let said: Value = serde_json::from_str(&said).unwrap();
    let names: Vec<&String> = said["env"].as_object().unwrap().keys().collect();
    assert!(
        said["env"]["PATH"].is_string() && said["env"]["MODE"] == "x",
        "{names:?}"
    );
    assert!(said["env"]["SECRET"].is_null(), "{names:?}");
    assert_eq!(said["cwd"], bench.project.root().to_str().unwrap());
    assert_eq!(
        echo(&stdio(&bench, "named", "").unwrap(), "").text(),
        "t/1/c"
    );
}

// T-TOL-23
#[test]
fn headers_come_from_the_environment_and_go_to_their_address_alone() {
    let bench = Bench::new();
    let server = web(&bench, "secret", "");
    let yaml = |port: u16| {
        format!(
            "tool_type: mcp\ntool: echo\nurl: http://127.0.0.1:{port}/mcp\nheader_env: {{Authorization: TOKEN}}\n"
        )
    };
    let token = [("TOKEN", "Bearer s3cret")];
    let tool = declared(&bench, &yaml(server.1), &token).unwrap();
    assert_eq!(echo(&tool, "in"), Outcome::ok("in"));
    assert!(declared(&bench, &yaml(server.1), &[]).is_err());
    assert!(declared(&bench, &yaml(server.1), &[("TOKEN", "wrong")]).is_err());
    let elsewhere = web(
        &bench,
        "moved",
        &format!("http://127.0.0.1:{}/mcp", server.1),
    );
    assert!(declared(&bench, &yaml(elsewhere.1), &token).is_err());
}

// T-TOL-22
#[test]
fn what_a_server_says_of_a_tool_is_bounded_and_what_is_beyond_is_refused() {
    let bench = Bench::new();
    let long = stdio(&bench, "long", "").unwrap();
    assert!(long.schema().description.len() <= MAX_MCP_DESCRIPTION_BYTES);
    for mode in ["wide", "list", "twice", "many", "endless"] {
        assert!(stdio(&bench, mode, "").is_err(), "{mode}");
    }
}

// T-TOL-22
#[test]
fn a_result_is_bounded_and_an_error_is_one() {
    let bench = Bench::new();
    let giant = echo(&stdio(&bench, "giant", "").unwrap(), "").text();
    assert!(giant.len() < 1100 && giant.ends_with("[cut: 3000000 bytes in all]"));
    let flood = echo(&stdio(&bench, "flood", "").unwrap(), "");
    assert!(
        flood.error.is_some(),
        "a message beyond the bound is no result"
    );
    let error = echo(&stdio(&bench, "error", "").unwrap(), "")
        .error
        .unwrap();
    assert!(error.contains("no such file"), "{error}");
    let image = echo(&stdio(&bench, "image", "").unwrap(), "").output;
    assert_eq!(image[1]["mime_type"], "image/png");
    assert!(image[1]["data"].is_null(), "{image}");
    let noise = echo(&stdio(&bench, "noise", "").unwrap(), "still");
    assert_eq!(noise, Outcome::ok("still"));
}

// T-TOL-22
#[test]
fn a_server_that_offers_another_tool_than_was_shown_is_not_called_again() {
    let bench = Bench::new();
    let tool = stdio(&bench, "changes", "").unwrap();
    assert_eq!(echo(&tool, "one"), Outcome::ok("one"));
    std::thread::sleep(Duration::from_millis(300));
    let refused = echo(&tool, "two").error.unwrap();
    assert!(refused.contains("another \"echo\""), "{refused}");
}

// T-TOL-21
#[test]
fn a_call_that_a_server_does_not_end_may_have_been_carried_out() {
    let bench = Bench::new();
    for mode in ["task", "input"] {
        let outcome = echo(&stdio(&bench, mode, "").unwrap(), "x");
        assert!(outcome.unknown, "{mode}: {outcome:?}");
        let why = outcome.error.unwrap();
        assert!(why.contains("did not end the call"), "{mode}: {why}");
    }
}

// T-TOL-22
#[test]
fn a_server_may_ask_for_nothing() {
    let bench = Bench::new();
    let answers = bench.folder.path().join("answers");
    let tool = stdio(&bench, "asks", answers.to_str().unwrap()).unwrap();
    assert_eq!(echo(&tool, "x"), Outcome::ok("x"));
    assert!(holds(&answers, "s2"));
    let answers: Value = serde_json::from_str(&std::fs::read_to_string(&answers).unwrap()).unwrap();
    for answer in answers.as_array().unwrap() {
        let nothing = answer["error"].is_object() || answer["result"]["roots"] == json!([]);
        assert!(nothing, "{answer}");
    }
}

// T-TOL-22
#[test]
fn a_server_that_hangs_is_given_up_and_one_that_dies_is_told() {
    let bench = Bench::new();
    let told = bench.folder.path().join("told");
    let slow = stdio(&bench, "slow", told.to_str().unwrap()).unwrap();
    let cancel = Cancel::default();
    let setter = cancel.clone();
    let began = SystemClock.elapsed();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        setter.set();
    });
    let stopped = say(&slow, &json!({"text": "x"}), &cancel).error.unwrap();
    assert!(
        stopped.contains("cancelled") && SystemClock.elapsed() - began < Duration::from_secs(5)
    );
    assert!(
        holds(&told, "notifications/cancelled"),
        "the server was not told"
    );
    bench.file("server.py", SERVER);
    let yaml = "tool_type: mcp\ntool: echo\ncommand: [python3, server.py, stdio, hang, told]\nenv: [PATH]\n\
                timeout_seconds: 2\n";
    let hung = declared(&bench, yaml, &[]).unwrap();
    assert!(echo(&hung, "x").error.unwrap().contains("too long"));
    let dead = echo(&stdio(&bench, "die", "").unwrap(), "x").error.unwrap();
    assert!(dead.contains("not known"), "{dead}");
}

// T-TOL-23
#[test]
fn a_server_and_what_it_started_end_with_its_thread() {
    let bench = Bench::new();
    let mark = bench.folder.path().join("mark");
    let tool = stdio(&bench, "leaves", mark.to_str().unwrap()).unwrap();
    assert_eq!(echo(&tool, "x"), Outcome::ok("x"));
    let began = SystemClock.elapsed();
    drop(tool);
    assert!(SystemClock.elapsed() - began < Duration::from_secs(6));
    std::thread::sleep(Duration::from_secs(4));
    assert!(!mark.exists(), "a process of its group outlived it");
    drop(stdio(&bench, "stays", "").unwrap());
}
