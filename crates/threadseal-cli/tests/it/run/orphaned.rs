//! Threads whose process was killed: they are seen, and end as whole trees.

use super::accept;
use crate::hook::wait_until;
use crate::prelude::*;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

const CHILD: &str = "- {calls: [{tool: rye_agent_threads_thread_directive, \
     input: {directive_id: demo/child, inputs: {name: Bob}}}]}\n";
const SETTINGS: &str = "p/.ai/config/agent/coordination.yaml";

/// A parent and its child, whose process was killed in the middle of a call of the child.
struct Killed {
    sandbox: Sandbox,
    parent: String,
    child: String,
}

impl Killed {
    fn new() -> Self {
        let sandbox = project();
        let running = running(&sandbox, CHILD, 1);
        // The call of the parent is the first one; wait for that of the child.
        let calls = || {
            let threads = fs::read_dir(sandbox.path("p/.ai/agent/threads/demo")).unwrap();
            let paths = threads.map(|entry| entry.unwrap().path().join("transcript.jsonl"));
            let texts = paths.filter_map(|path| fs::read_to_string(path).ok());
            texts
                .filter(|text| text.contains("tool_call_start"))
                .count()
        };
        wait_until("both are in a call", || calls() == 2);
        drop(running);
        let [parent, child] =
            ["greet", "child"].map(|directive| thread_id(&thread(&sandbox, directive)));
        Self {
            sandbox,
            parent,
            child,
        }
    }

    fn recover(&self, which: &str) -> Ran {
        self.sandbox
            .sh(format!("thread recover {which} --project p --json"))
    }

    fn orphaned(&self) -> Value {
        self.sandbox.json("thread list --project p")["orphaned"].clone()
    }

    fn statuses(&self) -> Vec<String> {
        let listed = self.sandbox.json("thread list --project p");
        let threads = listed["threads"].list().iter();
        threads
            .map(|thread| thread["status"].text().to_owned())
            .collect()
    }
}

// T-RUN-34
#[test]
fn a_killed_tree_is_seen_and_ends_children_first_with_one_question() {
    let killed = Killed::new();
    let (sandbox, parent, child) = (&killed.sandbox, &killed.parent, &killed.child);
    let orphaned = killed.orphaned();
    assert_eq!(orphaned.list().len(), 2, "{orphaned}");
    sandbox
        .ok("thread list --project p")
        .prints("its process is gone")
        .prints("threadseal thread recover --all");
    let status = sandbox.json(format!("thread status {parent} --project p"));
    status.is(json!({"status": "running", "orphaned": true}));

    let ended = killed.recover("--all").exits(0).json();
    let threads = ended["threads"].list();
    threads[0].is(
        json!({"thread_id": child, "parent_id": parent, "status": "error",
                         "unresolved/0/item_id": "demo/count"}),
    );
    threads[1].is(
        json!({"thread_id": parent, "parent_id": null, "status": "error",
                         "unresolved/0/child_thread_id": child}),
    );
    assert_eq!(threads.len(), 2, "{ended}");

    assert_eq!(killed.orphaned(), json!([]));
    assert_eq!(killed.statuses(), ["error", "error"]);
    // The parent seals the end of its child, and everything holds.
    let events = read(transcript(sandbox, "greet"));
    let named = events
        .lines()
        .find(|line| line.contains("child_thread_ended"));
    named.unwrap().has(child).has("\"status\":\"error\"");
    sandbox.ok("verify p");
    sandbox.ok("thread inspect --project p");
    let again = killed.recover("--all").exits(0).json();
    assert_eq!(again["threads"], json!([]));
}

/// The tool of the project sleeps no more, and `short.yaml` is a script that returns at once.
fn end_quickly(sandbox: &Sandbox) {
    sandbox.sealed(
        "p/.ai/tools/demo/count.yaml",
        "tool_type: command\ncommand: [/bin/true]\n",
    );
    sandbox.write(
        "short.yaml",
        "answers: [{calls: [{tool: directive_return, input: {path: x}}]}]",
    );
}

// T-RUN-34
#[test]
fn a_run_ends_orphaned_threads_first_unless_the_settings_keep_it_from_that() {
    let killed = Killed::new();
    let sandbox = &killed.sandbox;
    end_quickly(sandbox);
    let run = || greet(sandbox, "--script short.yaml").exits(0);
    for (settings, note) in [
        ("{enabled: false}", None),
        ("{scan_on_startup: false}", None),
        (
            "{action: report}",
            Some("hint: threadseal thread recover demo/"),
        ),
    ] {
        sandbox.sealed(SETTINGS, format!("orphan_detection: {settings}\n"));
        let ran = run();
        match note {
            Some(note) => drop(ran.warns(note)),
            None => drop(ran.does_not_warn("is gone")),
        }
        assert_eq!(killed.orphaned().list().len(), 2);
    }
    sandbox.sealed(SETTINGS, "orphan_detection: {action: end}\n");
    run()
        .warns(&format!("the process of {} is gone", killed.parent))
        .warns("with 1 calls of unknown outcome");
    assert_eq!(killed.orphaned(), json!([]));
}

// T-RUN-35
#[test]
fn a_row_that_names_a_dead_process_ends_no_thread_that_lives() {
    let sandbox = project();
    let mut running = running(&sandbox, "", 1);
    let path = sandbox.path("p/.ai/agent/threads/registry.db");
    let rows = rusqlite::Connection::open(path).unwrap();
    let forged = "UPDATE threads SET pid = 999999; \
                  UPDATE threadseal_threads SET process_started = process_started || '1'";
    rows.execute_batch(forged).unwrap();
    let listed = sandbox.json("thread list --project p");
    assert_eq!(listed["orphaned"], json!([]));
    let ended = sandbox.json("thread recover --all --project p");
    assert_eq!(ended["threads"], json!([]));
    assert!(running.process.try_wait().unwrap().is_none());
    sandbox.ok(format!("thread cancel {} --project p", running.thread));
    running.process.wait().unwrap();
    let status = sandbox.json(format!("thread status {} --project p", running.thread));
    status.is(json!({"status": "cancelled", "orphaned": false}));
}

// T-RUN-36
#[test]
fn a_changed_record_gets_no_end_but_its_row_and_its_money_do() {
    let killed = Killed::new();
    let (sandbox, child) = (&killed.sandbox, &killed.child);
    let path = transcript(sandbox, "child");
    let forged = read(&path).replace("\"name\":\"Bob\"", "\"name\":\"Eve\"");
    fs::write(&path, &forged).unwrap();
    let tree = format!("--tree {child}");
    let ended = killed.recover(&tree).exits(1).json();
    let threads = ended["threads"].list();
    threads[0].is(json!({"thread_id": child}));
    threads[0]["error"].text().has("the record is forged");
    threads[1].is(json!({"thread_id": &killed.parent, "status": "error"}));
    assert_eq!(read(&path), forged);
    assert_eq!(killed.statuses(), ["error", "error"]);
    assert_eq!(killed.orphaned(), json!([]));
    // The parent does not vouch for an end that the child's record does not have.
    read(transcript(sandbox, "greet")).lacks("child_thread_ended");
    sandbox.exits(1, "verify p");
    let budgets = sandbox.path("p/.ai/agent/threads/budget_ledger.db");
    let budgets = rusqlite::Connection::open(budgets).unwrap();
    let active = "SELECT count(*) FROM budget_ledger WHERE status = 'active'";
    let active: i64 = budgets.query_row(active, [], |row| row.get(0)).unwrap();
    assert_eq!(active, 0);
}

// T-RUN-34
#[test]
fn one_tree_is_ended_and_another_is_left() {
    let killed = Killed::new();
    let settings = "orphan_detection: {enabled: false}\n";
    killed.sandbox.sealed(SETTINGS, settings);
    let other = running(&killed.sandbox, "", 1);
    let stranger = other.thread.clone();
    drop(other);
    assert_eq!(killed.orphaned().list().len(), 3);
    let ended = killed.recover(&format!("--tree {}", killed.child));
    assert_eq!(ended.exits(0).json()["threads"].list().len(), 2);
    assert_eq!(killed.orphaned(), json!([stranger]));
    killed.recover("").exits(2);
    killed.recover("--all --tree x").exits(2);
}

/// A provider of this machine, for the model of all threads. It gives each request to the test, and
/// answers it with a text unless it is silent.
struct Provider {
    asked: mpsc::Receiver<Value>,
    silent: Arc<AtomicBool>,
}

impl Provider {
    fn of(sandbox: &Sandbox) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let models = format!(
            "providers:\n  local: {{adapter: openai, base_url: '{url}', key_env: LOCAL_KEY}}\nmodels:\n  - {{id: \
             claude-haiku-4-5, provider: local, context_window: 8000, prices: {{input: 0.01, output: 0.01}}}}\n"
        );
        sandbox.sealed("p/.ai/config/agent/models.yaml", models);
        sandbox.sealed(SETTINGS, "orphan_detection: {action: resume}\n");
        let (tell, asked) = mpsc::channel();
        let silent = Arc::<AtomicBool>::default();
        let is_silent = Arc::clone(&silent);
        std::thread::spawn(move || {
            let mut open = Vec::new();
            loop {
                let (mut stream, request) = accept(&listener);
                let is_silent = is_silent.load(Ordering::SeqCst);
                let event = |delta: Value, finish: Value| {
                    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
                    format!("data: {}\n\n", json!({"model": "m-1", "choices": [choice]}))
                };
                if !is_silent {
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
                    let text = event(json!({"content": "Gladly."}), Value::Null);
                    let end = event(json!({}), "stop".into());
                    write!(stream, "{head}{text}{end}data: [DONE]\n\n").unwrap();
                }
                if tell
                    .send(serde_json::from_slice(&request).unwrap())
                    .is_err()
                {
                    return;
                }
                // The connection of a request without an answer stays open.
                open.extend(is_silent.then_some(stream));
            }
        });
        Self { asked, silent }
    }

    /// The next request, within half a minute.
    fn next(&self) -> Value {
        self.asked.recv_timeout(Duration::from_secs(30)).unwrap()
    }
}

/// A command that may ask the provider.
fn with_key(sandbox: &Sandbox, line: &str) -> Command {
    let mut command = sandbox.command();
    command.env("LOCAL_KEY", "not-a-real-key").args(words(line));
    command
}

const RECOVER: &str = "thread recover --all --project p --json";

// T-RUN-45
#[test]
fn a_killed_thread_is_resumed_by_the_settings_with_what_is_left_of_its_limits() {
    let sandbox = project();
    let provider = Provider::of(&sandbox);
    let write =
        "- {calls: [{tool: rye_file-system_write, input: {path: out.txt, content: Hello}}]}\n";
    let killed = running(&sandbox, write, 2);
    let first = killed.thread.clone();
    drop(killed);
    let ran = Ran::of(with_key(&sandbox, RECOVER).output().unwrap());
    let ended = ran.exits(0).warns("was resumed as").json();
    ended.is(
        json!({"threads/0/thread_id": first.as_str(), "threads/0/status": "error",
                    "threads/0/resumed/status": "completed"}),
    );
    let second = ended["threads"][0]["resumed"]["thread_id"].text();
    // The call whose end is unknown is named to the model, and one turn of six is gone.
    let asked = provider.next().to_string();
    asked.has("do not repeat them unseen").has("demo/count");
    let folder = sandbox.path("p/.ai/agent/threads").join(second);
    let lines = json_lines(folder.join("transcript.jsonl"));
    assert_eq!(lines[0]["payload"]["limits"]["turns"], 5, "{}", lines[0]);
    assert_eq!(lines[0]["payload"]["meta"]["orphan_resumed"], 1);
    sandbox.ok("verify p");
    sandbox.ok("thread inspect --project p");
    let again = Ran::of(with_key(&sandbox, RECOVER).output().unwrap());
    assert_eq!(again.exits(0).json()["threads"], json!([]));
}

// T-RUN-45
#[test]
fn a_thread_that_is_killed_again_and_again_is_resumed_a_few_times_alone() {
    let sandbox = project();
    let provider = Provider::of(&sandbox);
    provider.silent.store(true, Ordering::SeqCst);
    let mut last = running(&sandbox, "", 1).thread.clone();
    for _ in 0..3 {
        let mut recovering = with_key(&sandbox, RECOVER)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        provider.next();
        recovering.kill().unwrap();
        recovering.wait().unwrap();
        let orphaned = sandbox.json("thread list --project p")["orphaned"].take();
        let [next] = orphaned.as_array().unwrap().as_slice() else {
            panic!("{orphaned}");
        };
        assert_ne!(next, last.as_str());
        next.text().clone_into(&mut last);
    }
    let given_up = Ran::of(with_key(&sandbox, RECOVER).output().unwrap());
    given_up
        .exits(3)
        .json()
        .is(json!({"threads/0/thread_id": last.as_str(), "threads/0/status": "error"}));
    let again = Ran::of(with_key(&sandbox, RECOVER).output().unwrap());
    assert_eq!(again.exits(0).json()["threads"], json!([]));
    assert!(provider.asked.try_recv().is_err());
    // A person may still continue it.
    provider.silent.store(false, Ordering::SeqCst);
    let resume = format!("thread resume {last} -m 'Once more.' --project p");
    Ran::of(with_key(&sandbox, &resume).output().unwrap()).exits(0);
    sandbox.ok("verify p");
}

// T-RUN-45
#[test]
fn a_run_resumes_a_killed_tree_at_its_root_and_by_the_models_of_the_settings() {
    let killed = Killed::new();
    let sandbox = &killed.sandbox;
    end_quickly(sandbox);
    let provider = Provider::of(sandbox);
    let line = "run demo/greet --project p -i name=Ada --script short.yaml --json";
    let ran = Ran::of(with_key(sandbox, line).output().unwrap()).exits(0);
    let ran = ran.warns(&format!("note: {} was resumed as", killed.parent));
    ran.json()
        .is(json!({"status": "completed", "outputs/path": "x"}));
    provider.next().to_string().has("thread_directive");
    assert!(provider.asked.try_recv().is_err());
    assert_eq!(killed.orphaned(), json!([]));
    sandbox.ok("verify p");
}

// T-RUN-45
#[test]
fn an_orphan_whose_record_was_changed_is_not_resumed() {
    let sandbox = project();
    let provider = Provider::of(&sandbox);
    let killed = running(&sandbox, "", 1);
    let path = killed.folder.join("transcript.jsonl");
    drop(killed);
    let forged = read(&path).replace("Ada", "Eve");
    fs::write(&path, &forged).unwrap();
    let refused = Ran::of(with_key(&sandbox, RECOVER).output().unwrap());
    let refused = refused.exits(1).json();
    assert_eq!(refused["threads"][0]["status"], Value::Null);
    assert!(refused["threads"][0].get("resumed").is_none(), "{refused}");
    assert!(provider.asked.try_recv().is_err());
    assert_eq!(read(&path), forged);
}
