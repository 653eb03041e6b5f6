//! `run`: directives with a scripted model, and with one that answers over HTTP.

mod changed;
mod companions;
mod greedy;
mod orchestrate;
mod orphaned;
mod providers;
mod quoted;
mod refusals;
mod resume;
mod strayed;
mod tour;
pub(crate) mod trees;
mod watched;

use crate::prelude::*;
use std::net::{TcpListener, TcpStream};

#[test]
fn a_directive_runs_with_tools_and_a_child_and_all_that_it_leaves_verifies() {
    let sandbox = project();
    let ran = greet(&sandbox, "--json").exits(0).json();
    ran.is(json!({"status": "completed", "outputs/path": "out.txt"}));
    assert_eq!(sandbox.read("p/out.txt"), "Hello");
    let verified = sandbox.json("verify p");
    // Two directives, a tool and project.json. Of each thread: transcript, ledger, thread.json,
    // capabilities.md and knowledge entry.
    assert_eq!(verified["summary"]["verified"], 14, "{verified}");
    let transcript = read(transcript(&sandbox, "greet"));
    transcript.has("5 out.txt").lacks("threadseal:signed");
    assert_eq!(greet(&sandbox, "-q").exits(0).stdout, "path: out.txt\n");
}

#[test]
fn parent_and_child_name_each_other() {
    let sandbox = project();
    greeted(&sandbox, "");
    let lines = |directive: &str| {
        let text = read(transcript(&sandbox, directive));
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect::<Vec<Value>>()
    };
    let (parent, child) = (lines("greet"), lines("child"));
    let of = |events: &[Value], kind: &str| {
        events
            .iter()
            .position(|event| event["event_type"] == kind)
            .unwrap()
    };
    let started = of(&parent, "child_thread_started");
    assert_eq!(
        parent[started]["payload"]["child_record"],
        child[0]["payload"]["record"]
    );
    // The child's first line names the seal that follows the event.
    assert_eq!(parent[started + 1]["event_type"], "checkpoint");
    let head = child[0]["payload"]["parent"].text();
    assert!(head.starts_with(parent[0]["payload"]["record"].text()));
    let ended = &parent[of(&parent, "child_thread_ended")]["payload"]["head"];
    let sealed = parent
        .iter()
        .find_map(|event| event["payload"]["seal"]["ext"]["children"][0].as_str());
    assert_eq!(ended.as_str(), sealed);
}

// T-STO-34
#[test]
fn a_pipe_beside_a_database_of_the_project_holds_up_no_run() {
    let sandbox = project();
    fs::create_dir_all(sandbox.path("p/.ai/agent/threads")).unwrap();
    for name in ["registry.db", "registry.db-journal", "budget_ledger.db-wal"] {
        let pipe = sandbox.path(format!("p/.ai/agent/threads/{name}"));
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        greet(&sandbox, "").exits(2).warns("it is a pipe");
        fs::remove_file(pipe).unwrap();
    }
}

// T-RUN-05
#[test]
fn nothing_runs_from_a_changed_or_unsigned_item() {
    let sandbox = project();
    let path = sandbox.path("p/.ai/directives/demo/greet.md");
    let signed = read(&path);
    fs::write(&path, signed.replace("Greet {", "Rob {")).unwrap();
    for more in ["", "--allow-unsigned"] {
        greet(&sandbox, more).fails_with("tampered");
    }
    fs::write(&path, directive("greet", TOOLS, OUTPUTS)).unwrap();
    greet(&sandbox, "").exits(2);
    fs::write(&path, signed).unwrap();
    let tool = sandbox.path("p/.ai/tools/demo/count.yaml");
    let text = read(&tool);
    fs::write(&tool, text.replace("wc", "id")).unwrap();
    greet(&sandbox, "").fails_with("tampered");
    assert!(
        !sandbox.path("p/.ai/agent/threads/demo").exists(),
        "a refused thread left something"
    );
}

#[test]
fn wrong_inputs_and_limits_are_refused_before_anything_runs() {
    let sandbox = project();
    let run = |more: &str| {
        sandbox.sh(format!(
            "run demo/greet --project p --script answers.yaml {more}"
        ))
    };
    run("").fails_with("name");
    run("-i name").fails_with("NAME=VALUE");
    run("-i name=a -i name=b").fails_with("twice");
    run("-i name=a -i nme=b").fails_with("nme");
    run("-i name=a --limit turn=1").fails_with("turn");
    sandbox
        .sh("run demo/none --project p --script answers.yaml")
        .fails_with("demo/none");
}

#[test]
fn a_limit_ends_and_a_dead_model_fails_the_thread_and_both_are_sealed() {
    let sandbox = project();
    let ran = greet(&sandbox, "--limit turns=1 --json").exits(3).json();
    assert_eq!(ran["status"], "limit_reached");
    // An answer over the limit is not a thread that completed, with any text.
    let ran = greet(&sandbox, "--limit tokens=5 --json").exits(3).json();
    assert_eq!(ran["status"], "limit_reached");
    ran["error"].text().has("tokens_exceeded");
    sandbox.write(
        "dead.yaml",
        "answers: [{error: {status: 401, type: authentication_error, message: no}}]",
    );
    let ran = greet(&sandbox, "--script dead.yaml --json").exits(2).json();
    assert_eq!(
        (
            &ran["status"],
            ran["error"].text().contains("permanent_auth")
        ),
        (&"error".into(), true)
    );
    sandbox.ok("verify p");
}

/// The next connection, and the body of its request.
fn accept(listener: &TcpListener) -> (TcpStream, Vec<u8>) {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(&stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut request = vec![0; length];
    reader.read_exact(&mut request).unwrap();
    (stream, request)
}

/// Answers one request of Anthropic's protocol and gives the request.
fn provider() -> (String, std::thread::JoinHandle<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, request) = accept(&listener);
        let events = [
            r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],
            "model":"claude-haiku-4-5-20251001","stop_reason":null,"usage":{"input_tokens":1000,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":
            {"type":"tool_use","id":"t1","name":"directive_return","input":{}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":
            {"type":"input_json_delta","partial_json":"{\"path\":\"here\"}"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":100}}"#,
            r#"{"type":"message_stop"}"#,
        ];
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close";
        write!(stream, "{head}\r\n\r\n").unwrap();
        for event in events {
            let name = event.split('"').nth(3).unwrap();
            let data = event.replace('\n', "");
            write!(stream, "event: {name}\ndata: {data}\n\n").unwrap();
        }
        serde_json::from_slice(&request).unwrap()
    });
    (url, served)
}

#[test]
fn a_model_over_http_is_asked_and_paid() {
    let sandbox = project();
    let (url, served) = provider();
    let mut command = sandbox.command();
    command.env("ANTHROPIC_API_KEY", "not-a-real-key");
    let line = format!("run demo/greet --project p -i name=Ada --json --base-url {url}");
    command.args(words(&line));
    let ran = Ran::of(command.output().unwrap()).exits(0).json();
    ran.is(json!({"outputs/path": "here", "cost/spend": 0.0015}));
    let budgets =
        rusqlite::Connection::open(sandbox.path("p/.ai/agent/threads/budget_ledger.db")).unwrap();
    let kept = |row: &rusqlite::Row<'_>| {
        Ok((
            row.get::<_, f64>(0)?,
            row.get::<_, f64>(1)?,
            row.get::<_, String>(2)?,
        ))
    };
    let sql = "SELECT max_spend, actual_spend, status FROM budget_ledger";
    assert_eq!(
        budgets.query_row(sql, [], kept).unwrap(),
        (0.05, 0.0015, "completed".to_owned())
    );
    let asked = served.join().unwrap();
    assert_eq!(asked["messages"][0]["content"], "Greet Ada.");
    let transcript = read(transcript(&sandbox, "greet"));
    assert!(
        transcript.contains("claude-haiku-4-5-20251001") && !transcript.contains("not-a-real-key")
    );
    sandbox
        .sh("run demo/greet --project p -i name=Ada")
        .fails_with("ANTHROPIC_API_KEY");
}

#[test]
fn old_prices_are_named_and_prices_of_the_caller_take_their_place() {
    let sandbox = project();
    let run = |more: &str| {
        let (url, served) = provider();
        let mut command = sandbox.command();
        command.env("ANTHROPIC_API_KEY", "not-a-real-key");
        let line = format!("run demo/greet --project p -i name=Ada --json --base-url {url} {more}");
        let ran = Ran::of(command.args(words(&line)).output().unwrap()).exits(0);
        served.join().unwrap();
        ran.json()
    };
    let ran = run("");
    ran["warnings"][0]
        .text()
        .has("the prices of claude-haiku-4-5 are of 2025-10-15");
    let record = read(transcript(&sandbox, "greet"));
    record
        .has("\"prices_old\"")
        .has("https://claude.com/pricing");
    let dearer = run("--price input=5,output=25");
    assert_eq!(dearer["cost"]["spend"], 0.0075, "{dearer}");
    assert_eq!(dearer["warnings"], Value::Null, "{dearer}");
    for wrong in ["input=1", "input=1,output=x", "input=1,output=1,more=1"] {
        let line = format!("run demo/greet --project p -i name=Ada --price {wrong}");
        sandbox.sh(line).exits(2).warns("--price");
    }
}

// T-RUN-29
#[test]
fn a_provider_is_asked_for_no_more_than_the_money_pays_and_below_that_not_at_all() {
    let sandbox = project();
    let (url, served) = provider();
    let run = |url: &str, limit: &str| {
        let mut command = sandbox.command();
        command.env("ANTHROPIC_API_KEY", "not-a-real-key");
        command.args(words(&format!(
            "run demo/greet --project p -i name=Ada --json --base-url {url} --limit {limit}"
        )));
        Ran::of(command.output().unwrap())
    };
    run(&url, "spend=0.03").exits(0);
    let asked = served.join().unwrap();
    let longest = asked["max_tokens"].as_u64().unwrap();
    assert!((256..16_384).contains(&longest), "{asked}");
    // Nothing listens there: a request would be an error.
    for limit in ["spend=0.001", "tokens=50"] {
        let ran = run("http://127.0.0.1:9/", limit).exits(3).json();
        ran.is(json!({"status": "limit_reached", "cost/spend": 0.0, "cost/turns": 0}));
        ran["error"].text().has("the next answer needs");
    }
}

// T-RUN-13
#[test]
fn a_verified_transcript_answers_again_and_no_other_does() {
    let sandbox = project();
    greeted(&sandbox, "");
    let child = transcript(&sandbox, "child");
    let again = "run demo/child --project p -i name=Eve --json --replay";
    let replay = |path: &Path| sandbox.sh(format!("{again} {path:?}"));
    let ran = replay(&child).exits(0).json();
    assert_eq!(ran["result"], "I am the child.");
    let text = read(&child);
    let before = fs::read_dir(sandbox.path("p/.ai/agent/threads/demo"))
        .unwrap()
        .count();
    for (name, changed) in [
        (
            "changed",
            text.replace("I am the child.", "I am the boss.!"),
        ),
        (
            "cut",
            text.lines()
                .take(4)
                .map(|line| format!("{line}\n"))
                .collect(),
        ),
        ("tail", format!("{text}{{}}\n")),
    ] {
        let path = sandbox.write(format!("{name}.jsonl"), changed);
        replay(&path).fails_with("only a verified transcript can be replayed");
    }
    let after = fs::read_dir(sandbox.path("p/.ai/agent/threads/demo"))
        .unwrap()
        .count();
    assert_eq!(before, after, "a refused replay left a thread");
}

// T-RUN-14
#[test]
fn children_are_replayed_from_their_own_transcripts_which_must_be_those_that_the_parent_names() {
    let sandbox = project();
    greeted(&sandbox, "");
    let [parent, child] = ["greet", "child"].map(|name| transcript(&sandbox, name));
    let threads = || {
        let folder = sandbox.path("p/.ai/agent/threads/demo");
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let before = threads();
    let replay = |path: &Path| {
        let path = path.to_str().unwrap();
        greet(&sandbox, &format!("--replay {path} --json"))
    };
    // A child that is changed, missing or another one replays no answer; nothing is written then.
    let genuine = read(&child);
    let foreign = read(&parent);
    for (changed, why) in [
        (
            genuine.replace("I am the child.", "I am the boss.!"),
            "only a verified transcript can be replayed",
        ),
        (foreign, "transcript.jsonl"),
    ] {
        fs::write(&child, changed).unwrap();
        replay(&parent).fails_with(why);
    }
    fs::remove_file(&child).unwrap();
    replay(&parent).fails_with("transcript.jsonl");
    fs::write(&child, &genuine).unwrap();
    let copy = sandbox.write("copy.jsonl", fs::read(&parent).unwrap());
    replay(&copy).fails_with("in the folder of its project");
    assert_eq!(threads(), before);
    let ran = replay(&parent).exits(0).json();
    assert_eq!(ran["outputs"]["path"], "out.txt");
    let new: Vec<_> = threads()
        .into_iter()
        .filter(|name| !before.contains(name))
        .collect();
    assert_eq!(new.len(), 2, "{new:?}");
    for name in new {
        let folder = sandbox.path("p/.ai/agent/threads/demo").join(&name);
        let text = read(folder.join("transcript.jsonl"));
        let of_child = name.to_str().unwrap().starts_with("child");
        assert_eq!(
            text.contains("\"text\":\"I am the child.\""),
            of_child,
            "{name:?}"
        );
    }
    sandbox.ok("verify p");
}

#[test]
fn the_users_space_counts_only_when_it_is_asked_for_and_after_the_project() {
    let sandbox = project();
    let home = sandbox.path("home");
    let write = |name: &str, text: &str| {
        let path = sandbox.write(
            format!("home/.ai/directives/demo/{name}.md"),
            directive(name, TOOLS, "").replace("Greet", text),
        );
        sandbox.ok(format!("seal -q {path:?}"));
    };
    write("mine", "Hail");
    write("child", "Rob");
    let run = |name: &str, more: &str| {
        let mut command = sandbox.command();
        command.env("HOME", &home);
        let line = format!("run {name} --project p -i name=Ada --script one.yaml {more}");
        command.args(words(&line));
        Ran::of(command.output().unwrap())
    };
    sandbox.write("one.yaml", "answers: [{when: Hail Ada, text: Hailed.}]");
    run("demo/mine", "").fails_with("demo/mine");
    run("demo/mine", "--user-space").exits(0);
    sandbox.write("one.yaml", "answers: [{when: Greet Ada, text: Greeted.}]");
    run("demo/child", "--user-space").exits(0);
    // A changed item there is refused like any other.
    let path = home.join(".ai/directives/demo/mine.md");
    let text = read(&path);
    fs::write(&path, text.replace("Hail", "Hurt")).unwrap();
    run("demo/mine", "--user-space").fails_with("tampered");
}

// T-FIL-14
#[test]
fn a_sealed_file_in_the_place_of_another_is_not_used() {
    let sandbox = project();
    let other = sandbox.write(
        "p/.ai/tools/demo/other.yaml",
        "tool_type: command\ncommand: [/bin/echo, DANGER]\n",
    );
    sandbox.ok(format!("seal -q {other:?}"));
    let place = sandbox.path("p/.ai/tools/demo/count.yaml");
    fs::copy(other, place).unwrap();
    for more in ["", "--allow-unsigned"] {
        greet(&sandbox, more).fails_with("foreign");
    }
}
