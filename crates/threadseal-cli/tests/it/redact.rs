//! `redact`: the dropped text is gone, every command shows the hole, and all seals remain valid.

use crate::prelude::*;
use threadseal_core::record::RecordId;
use threadseal_formats::transcript::bodies::{BodySalt, detach};

const ANSWER: &str = "I am the child.";

fn redact(sandbox: &Sandbox, path: &Path, more: &str) -> Ran {
    let own = format!("redact {path:?}");
    sandbox.sh(format!("{own} {more}"))
}

fn holds(path: &Path, text: &str) -> bool {
    let bytes = fs::read(path).unwrap();
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

// T-RED-08
#[test]
fn a_thread_with_detached_bodies_is_run_shown_and_redacted() {
    let (sandbox, transcript) = detached();
    let bodies = transcript.with_file_name("transcript.bodies");
    assert!(!holds(&transcript, ANSWER) && holds(&bodies, ANSWER));
    sandbox.ok("verify p");
    let before = fs::read(&transcript).unwrap();
    let proof = sandbox.ok(format!("prove {transcript:?}#1")).stdout;
    sandbox.write("one.turn-proof", &proof);
    for command in ["show", "messages", "render"] {
        let shown = sandbox.ok(format!("{command} {transcript:?}")).stdout;
        assert!(shown.contains(ANSWER), "{command}: {shown}");
    }
    let asked = "--match 'the child' --why 'a name' --by Ada";
    redact(&sandbox, &transcript, &format!("{asked} --dry-run"))
        .exits(0)
        .prints("1 body would be deleted");
    assert!(holds(&bodies, ANSWER));
    redact(&sandbox, &transcript, asked)
        .exits(0)
        .prints("cognition_out")
        .prints("redacted")
        .warns("only this record was redacted");
    for file in walk(transcript.parent().unwrap()) {
        let of_record = file
            .extension()
            .is_some_and(|e| e == "jsonl" || e == "bodies");
        let is_ledger = file.to_string_lossy().contains("ledger_");
        assert!(
            !(of_record && !is_ledger && holds(&file, ANSWER)),
            "{}",
            file.display()
        );
    }
    // Everything made before remains valid: the bytes, the seals, the proof.
    assert!(fs::read(&transcript).unwrap().starts_with(&before));
    sandbox.ok("check-proof one.turn-proof");
    sandbox
        .ok(format!("verify {transcript:?}"))
        .prints("verified")
        .prints("redacted by \"Ada\"");
    for command in ["show", "messages", "render"] {
        let shown = sandbox.ok(format!("{command} {transcript:?}")).stdout;
        assert!(!shown.contains(ANSWER), "{command}: {shown}");
        assert!(
            shown.contains("[redacted by Ada at 20"),
            "{command}: {shown}"
        );
    }
    redact(&sandbox, &transcript, asked).fails_with("no remaining body matches");
    redact(&sandbox, &transcript, "--finish").exits(0);
    // A store would take the transcript without its bodies.
    let import = sandbox.sh(format!("transcript import {transcript:?} file:store"));
    import.exits(2).fails_with("the bodies are detached");
    // A copy gets its bodies too, or it is not made.
    let export = |more: &str| sandbox.sh(format!("transcript export {transcript:?} {more}"));
    export("").fails_with("add --out");
    export("--out copy.jsonl").exits(0);
    sandbox.ok("verify copy.jsonl");
    let copied = fs::read(sandbox.path("copy.bodies")).unwrap();
    let own = fs::read(transcript.with_file_name("transcript.bodies")).unwrap();
    assert_eq!(copied, own);
    export("--out copy.jsonl").fails_with("exists already");
}

// T-RED-01
#[test]
fn a_body_that_is_gone_or_changed_without_a_redaction_is_tampered() {
    let (sandbox, transcript) = detached();
    let bodies = transcript.with_file_name("transcript.bodies");
    let whole = read(&bodies);
    fs::write(&bodies, whole.replace(ANSWER, "I am a parent!!")).unwrap();
    sandbox
        .exits(1, format!("verify {transcript:?}"))
        .prints("tampered")
        .prints("body_changed");
    fs::remove_file(&bodies).unwrap();
    sandbox
        .exits(1, format!("verify {transcript:?}"))
        .prints("body_missing");
    let refused = redact(&sandbox, &transcript, "--line 4 --why 'hide it'");
    refused.fails_with("the record is tampered");
    sandbox.exits(1, format!("messages {transcript:?}"));
}

// T-RED-12
#[test]
fn a_thread_continues_from_a_redacted_record_and_gets_the_hole() {
    let sandbox = project();
    let id = &greeted(&sandbox, "--bodies detached");
    let place = "--project p";
    let asked = format!("redact {id} --turn 1 --why 'a greeting'");
    sandbox.ok(format!("{asked} {place}"));
    sandbox.ok("verify p");
    sandbox.ok(once_more(id));
    sandbox.ok("verify p");
    let found = format!("thread search {id} 'redacted by'");
    sandbox.ok(format!("{found} {place}")).prints("a greeting");
}

/// Appends the body of a process that died after writing a body and before its line. It belongs to
/// another line of the same record; gives its text.
fn with_a_body_of_no_line(bodies: &Path) -> String {
    let text = read(bodies);
    let record = text.split_once("\"record\":\"").unwrap().1[..64].to_owned();
    let record = RecordId::parse_hex(&record).unwrap();
    let payload = Payload::parse(br#"{"text":"said to nobody"}"#).unwrap();
    let mut salt = || Ok(BodySalt::from_bytes([3; 32]));
    let unsaid = detach(&record, &payload, &mut salt).unwrap().entries;
    fs::write(bodies, text + std::str::from_utf8(&unsaid).unwrap()).unwrap();
    "said to nobody".to_owned()
}

// T-RED-19
#[test]
fn bodies_without_a_commitment_are_reported_not_copied_and_dropped() {
    let (sandbox, transcript) = detached();
    let path = transcript.to_str().unwrap();
    let bodies = transcript.with_file_name("transcript.bodies");
    let unsaid = with_a_body_of_no_line(&bodies);
    sandbox.ok(format!("verify {path}")).prints("body_unknown");
    sandbox.ok(format!("transcript export {path} --out copy.jsonl"));
    let copy = sandbox.path("copy.bodies");
    assert!(holds(&copy, ANSWER) && !holds(&copy, &unsaid));
    sandbox.ok("verify copy.jsonl");
    let dry = "--match 'the child' --dry-run";
    redact(&sandbox, &transcript, dry)
        .exits(0)
        .warns("1 body that no line");
    assert!(holds(&bodies, &unsaid));
    // A process that was killed during an earlier redaction left a copy. No other program's file is
    // deleted.
    let left = transcript.with_file_name(".threadseal-1-0.tmp");
    fs::copy(&bodies, &left).unwrap();
    let other = transcript.with_file_name(".threadseal-1-1.tmp");
    fs::write(&other, "another").unwrap();
    let finished = redact(&sandbox, &transcript, "--finish --json").exits(0);
    assert_eq!(finished.json()["unbound"], 1);
    assert!(!left.exists() && other.exists());
    assert!(holds(&bodies, ANSWER) && !holds(&bodies, &unsaid));
    sandbox.ok(format!("verify {path}")).omits("body_unknown");
    // A tail that was set aside is named, and left for people to delete.
    sandbox.write(
        transcript
            .with_file_name("transcript.jsonl.tail-9-x")
            .to_str()
            .unwrap(),
        "x",
    );
    let asked = "--match 'the child' --why 'a name'";
    redact(&sandbox, &transcript, asked)
        .exits(0)
        .warns("transcript.jsonl.tail-9-x contains");
}

// T-RED-21
#[test]
fn a_copy_of_a_redacted_record_lists_earlier_redactions_and_lines_to_keep() {
    let (sandbox, transcript) = detached();
    let path = transcript.to_str().unwrap();
    let asked = "--match 'the child' --why 'a name' --json";
    let ran = redact(&sandbox, &transcript, asked).exits(0).json();
    let line = ran["redacted"][0]["line"].to_string();
    let export = format!("transcript export {path} --redact");
    let more = format!("--line {line} --match 'a name' --out copy");
    sandbox
        .ok(format!("{export} {more}"))
        .warns("the recorder's own lines, which stay");
    sandbox.exits(3, "check-proof copy").prints("partial");
}

/// A text in an answer, written and read by tools, and returned by a child: JSON within a string
/// within JSON.
const QUOTED: &str = "\"password\": \"hunter2\"";
const QUOTED_SCRIPT: &str = r#"answers:
- {text: 'Here is "password": "hunter2".', calls: [{tool: rye_file-system_write, input: {path: out.txt, content: '{"password": "hunter2"}'}}]}
- {calls: [{tool: rye_file-system_read, input: {path: out.txt}}]}
- {calls: [{tool: rye_agent_threads_thread_directive, input: {directive_id: demo/child, inputs: {name: Bob}}}]}
- {text: 'It was "password": "hunter2".'}
- {calls: [{tool: directive_return, input: {path: out.txt}}]}
"#;

// T-RED-20
#[test]
fn a_text_with_quotes_is_dropped_wherever_results_hold_it() {
    let sandbox = project();
    sandbox.write("answers.yaml", QUOTED_SCRIPT);
    greeted(&sandbox, "--bodies detached");
    let transcript = transcript(&sandbox, "greet");
    let bodies = transcript.with_file_name("transcript.bodies");
    assert!(holds(&bodies, "hunter2"));
    let asked = format!("--match {QUOTED:?} --why 'a password'");
    redact(&sandbox, &transcript, &asked)
        .exits(0)
        .does_not_warn("which stay");
    assert!(!holds(&bodies, "hunter2") && holds(&bodies, "out.txt"));
    sandbox.ok("verify p");
    // The name of a tool is in the sealed line and stays, which the error states.
    let asked = "--match directive_return --why 'a name'";
    let refused = redact(&sandbox, &transcript, asked);
    refused.fails_with("also occurs in the sealed lines themselves, which stay unchanged: ");
}

// T-RED-20
#[test]
fn a_copy_leaves_out_each_line_that_has_a_text_with_quotes() {
    let sandbox = project();
    sandbox.write("answers.yaml", QUOTED_SCRIPT);
    greeted(&sandbox, "");
    let transcript = transcript(&sandbox, "greet");
    assert!(holds(&transcript, "hunter2"));
    let export = format!("transcript export {transcript:?}");
    let more = format!("--redact --match {QUOTED:?} --out copy");
    sandbox.ok(format!("{export} {more}"));
    assert!(!holds(&sandbox.path("copy"), "hunter2"));
}

#[test]
fn records_without_detached_bodies_are_not_redacted() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 1);
    let inline = redact(&sandbox, &path, "--line 3 --why x");
    inline.fails_with("its bodies are inline");
    redact(&sandbox, &path, "--why x").fails_with("select what to redact");
    let log = sandbox.write("log.jsonl", "{\"a\":1}\n");
    redact(&sandbox, &log, "--line 1 --why x").fails_with("not a native record");
}

// T-RED-24
#[test]
fn a_copy_without_lines_names_what_it_does_not_prove() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 3);
    let before = fs::read(&path).unwrap();
    let export = "transcript export t.jsonl --redact";
    let more = "--turn 2 --match 'result 3' --out copy";
    sandbox.ok(format!("{export} {more}"));
    assert_eq!(fs::read(&path).unwrap(), before);
    let copy = sandbox.path("copy");
    for (text, is_there) in [
        ("question 1", true),
        ("question 2", false),
        ("answer 2", false),
        ("question 3", true),
        ("result 3", false),
    ] {
        assert_eq!(holds(&copy, text), is_there, "{text}");
    }
    let checked = sandbox.exits(3, "check-proof copy").stdout;
    for part in ["partial", "lines_left_out", "prefix_hash"] {
        checked.has(part);
    }
    let changed = read(&copy).replace("question 1", "question 9");
    sandbox.write("changed", changed);
    sandbox.exits(1, "check-proof changed").prints("tampered");
    // The copy is no record: no other command accepts it as one.
    sandbox.exits(2, "verify copy");
    sandbox.exits(2, "messages copy");
    let seal = sandbox.sh(format!("{export} --line 1"));
    seal.exits(2).fails_with("cannot be left out");
    sandbox.exits(2, export);
    fs::write(&path, before.strip_suffix(b"\n").unwrap()).unwrap();
    sandbox
        .sh(format!("{export} --turn 2"))
        .warns("only a verified record");
}
