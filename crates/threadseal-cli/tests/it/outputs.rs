//! Outputs for programs that no other test asks for: each is made once, so that its schema is held
//! against it.

use crate::anchor::{add, logged, policy};
use crate::archive::turns;
use crate::prelude::*;
use crate::scroll::signed;
use threadseal_testkit::in_repository;

/// Prints an object of this name, which its schema allows.
#[track_caller]
fn prints(sandbox: &Sandbox, name: &str, line: &str) -> Value {
    let object = sandbox.json(line);
    assert_eq!(object["schema"], format!("threadseal.{name}/1"), "{line}");
    object
}

#[test]
fn keys_and_trust() {
    let sandbox = ready();
    prints(&sandbox, "key.list", "key show self");
    for format in ["pem", "hex", "did", "rye"] {
        let line = format!("key show self --format {format}");
        prints(&sandbox, "key.show", &line);
    }
    let exported = prints(&sandbox, "key.export", "key export self --out self.pem");
    exported.is(json!({"path": "self.pem"}));
    let other = Sandbox::new();
    other.ok("init -q --no-log");
    fs::copy(sandbox.path("self.pem"), other.path("ann.pem")).unwrap();
    let until = "trust add ann.pem --name ann --not-after 2030-01-31";
    prints(&other, "trust.entry", until).is(json!({"key/revoked": null}));
    let revoked = prints(&other, "trust.entry", "trust revoke ann --reason lost");
    revoked.is(json!({"key/revoked/reason": "lost"}));
    prints(&other, "trust.list", "trust list");
    prints(&other, "trust.entry", "trust remove ann --anyway");
    fs::create_dir_all(other.path("p/.ai")).unwrap();
    let project = prints(&other, "trust.project", "trust project p");
    project.is(json!({"trusted": true}));
    let listed = prints(&other, "trust.list", "trust list");
    assert_eq!(listed["projects"][0]["path"], project["path"]);
    prints(&other, "trust.project", "trust project p --remove").is(json!({"trusted": false}));
}

#[test]
fn logs_and_witnesses() {
    let (sandbox, log) = logged();
    let watching = witness(&[]);
    let added = prints(&watching, "witness.add", &format!("witness add {log}"));
    added.is(json!({"added": true}));
    let serving = Serving::start(&watching);
    add(&sandbox, "one", &policy(&log, &[&serving], 1));
    let checked = prints(&sandbox, "anchor.check", "anchor check");
    prints(&watching, "witness.list", "witness list")
        .is(json!({"logs/0/size": checked["size"], "exit": 0}));
    let text = policy(&log, &[&serving], 1);
    sandbox.write("two.txt", text);
    prints(&sandbox, "anchor.add", "anchor add two.txt");
    let listed = prints(&sandbox, "anchor.list", "anchor list");
    assert_eq!(listed["policies"].list().len(), 2, "{listed}");
    prints(&sandbox, "anchor.remove", "anchor remove two");
    let marks = prints(&sandbox, "log.mark", "log mark add second");
    assert_eq!(marks["marks"].list().len(), 2, "{marks}");
    let place = sandbox.path("second");
    prints(&sandbox, "log.mark", &format!("log mark remove {place:?}"));
}

#[test]
fn a_witness_that_serves() {
    let sandbox = witness(&[]);
    let mut command = sandbox.command();
    command.args(["witness", "serve", "--listen", "127.0.0.1:0", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    line.has("threadseal.witness.serve/1");
    schemas::check(&line);
}

#[test]
fn ledgers() {
    let sandbox = ready();
    let step =
        "{\"node\":\"plan\",\"effect\":{\"type\":\"llm_call\"},\"result\":{\"text\":\"ho\"}}\n";
    let append = "ledger append file:runs --run r1 --sign --json";
    let appended = piped(&sandbox, append, step).exits(0).json();
    appended.is(json!({"schema": "threadseal.ledger.append/1", "runs/0/records": 2}));
    prints(&sandbox, "ledger.run", "ledger list file:runs").is(json!({"run": "r1", "records": 2}));
    for line in ["ledger list file:runs --run r1", "ledger tail file:runs"] {
        let records = sandbox.ok(format!("{line} --json"));
        let records = records.stdout.lines().map(serde_json::from_str);
        let records: Vec<Value> = records.map(Result::unwrap).collect();
        assert_eq!(records.len(), 2, "{line}");
        records[1].is(json!({"schema": "threadseal.ledger.record/1", "seq": 1, "node": "plan"}));
    }
    prints(&sandbox, "ledger.sign", "ledger sign file:runs");
    prints(&sandbox, "ledger.head", "ledger head file:runs");
}

#[test]
fn transcripts_and_scrolls() {
    let sandbox = ready();
    ended_record(&sandbox, "t.jsonl", 2);
    let head = prints(&sandbox, "transcript.head", "transcript head t.jsonl");
    head.is(json!({"verdict": "verified"}));
    let import = "transcript import t.jsonl object+file:objects";
    prints(&sandbox, "transcript.import", import).is(json!({"name": "t"}));
    let list = prints(
        &sandbox,
        "transcript.list",
        "transcript list object+file:objects",
    );
    list.is(json!({"records/0/name": "t"}));
    signed(&sandbox, "s.json", 2);
    prints(&sandbox, "scroll.head", "scroll head s.json").is(json!({"turns": 2}));
}

#[test]
fn sessions_and_the_archive() {
    let sandbox = ready();
    let session = "3f9c1a2e-0b1c-4d5e-8f60-718293a4b5c6";
    let log = format!("claude/{session}.jsonl");
    sandbox.write(&log, turns(session, 0, "list the frobnicators"));
    sandbox.json("archive add claude");
    let exported = prints(&sandbox, "export", "export 3f9c out");
    assert!(!exported["files"].list().is_empty());
    prints(&sandbox, "archive.quota", "archive quota 20G").is(json!({"over": 0}));
    prints(&sandbox, "archive.settings", "archive secrets omit").is(json!({"secrets": "omit"}));
    prints(&sandbox, "forget", "forget 3f9c --source --yes").is(json!({"dry_run": false}));
    prints(&sandbox, "forget", "forget 3f9c --yes").is(json!({"deleted": []}));
    prints(&sandbox, "archive.prune", "archive prune");
    let verified = sandbox.exits(3, "archive verify --json").json();
    verified.is(json!({"forgotten/0": format!("claude-code:{session}")}));
}

#[test]
fn a_thread_of_rye_that_is_adopted() {
    let sandbox = project();
    let old = "test/plain/plain-1795293095262";
    let key = in_repository("testkit/keys/rye/3ef44d1ee334ace7.toml");
    sandbox.ok(format!("trust add {key:?} --name rye-old"));
    let record = fs::read(in_repository("testkit/transcripts/rye/finished.jsonl")).unwrap();
    let place = format!("p/.ai/agent/threads/{old}/transcript.jsonl");
    sandbox.write(&place, &record);
    let adopt = format!(
        "thread adopt {old} --project p --directive demo/greet --input name=Ada --script answers.yaml"
    );
    let adopted = prints(&sandbox, "thread.adopt", &adopt);
    adopted.is(json!({"adopted": old, "status": "completed"}));
    // Alone too: the thread before it is at its place, until it is gone or another one.
    let folder = format!("p/.ai/agent/threads/{}", adopted["thread_id"].text());
    sandbox.ok(format!("verify {folder}"));
    let text = String::from_utf8(record).unwrap();
    let first = text.find('\n').unwrap() + 1;
    let edited = text.replacen("test/plain", "test/pläin", 1);
    for (other, verdict) in [(edited.as_str(), "missing"), (&text[..first], "truncated")] {
        sandbox.write(&place, other);
        let told = sandbox.exits(1, format!("verify {folder} --json")).json();
        told.is(json!({format!("summary/{verdict}"): 1}));
    }
    sandbox.write(&place, &text);
    sandbox.ok(format!("verify {folder}"));
}
