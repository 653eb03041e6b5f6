//! `show`, `messages`, `render` and `diff`: the content of a record.

use crate::fixtures::{ended_record, ready, recorder, rye_events, say};
use crate::sandbox::{Ran, Sandbox, shared, tree_digest};
use std::fs;
use std::path::Path;

fn run(sandbox: &Sandbox, command: &str, path: &Path) -> Ran {
    sandbox.run([command.as_ref(), path.as_os_str()])
}

// T-TRA-20
#[test]
fn messages_are_those_of_the_sealed_part() {
    let sandbox = ready();
    let mut recorder = recorder(&sandbox, "t.jsonl", 2);
    let path = recorder.path().to_owned();
    let whole = run(&sandbox, "messages", &path).exits(0);
    assert_eq!(whole.stderr, "");
    assert_eq!(whole.json().as_array().unwrap().len(), 6);
    assert_eq!(
        whole.json()[1],
        serde_json::json!({"role": "assistant", "content": "answer 1"})
    );
    say(&mut recorder, "cognition_in", "smuggled");
    drop(recorder);
    let part = run(&sandbox, "messages", &path).exits(3);
    assert_eq!(part.stdout, whole.stdout);
    assert!(part.stderr.contains("unsigned_tail"), "{}", part.stderr);
    let json = sandbox
        .run(["messages", "t.jsonl", "--json", "-q"])
        .exits(3);
    assert_eq!(json.stderr, "");
    assert_eq!(json.json()["verdict"], "unsigned_tail");
    assert_eq!(json.json()["messages"].as_array().unwrap().len(), 6);
}

// T-OBS-06
#[test]
fn nothing_of_a_record_that_nobody_vouches_for_is_taken_up() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 2);
    let stranger = ready();
    for command in ["messages", "render"] {
        let ran = run(&stranger, command, &path).exits(3);
        assert!(!ran.stdout.contains("question"), "{}", ran.stdout);
        assert!(ran.stderr.contains("unknown_signer"), "{}", ran.stderr);
    }
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("answer 1", "answer X")).unwrap();
    for command in ["messages", "render"] {
        let ran = run(&sandbox, command, &path).exits(1);
        assert!(!ran.stdout.contains("question"), "{}", ran.stdout);
        assert!(ran.stderr.contains("tampered"), "{}", ran.stderr);
    }
    let unsigned = rye_events(&sandbox, "r.jsonl", 1);
    assert_eq!(run(&sandbox, "messages", &unsigned).exits(3).stdout, "[]\n");
}

#[test]
fn messages_of_ryes_own_transcripts_are_ryes() {
    let Some(vectors) = shared("vectors/rye/valid") else {
        return;
    };
    let sandbox = ready();
    let key = vectors.join("user/.ai/config/keys/signing/public_key.pem");
    sandbox
        .run([
            "trust".as_ref(),
            "add".as_ref(),
            key.as_os_str(),
            "--name=rye".as_ref(),
            "--usage=rye".as_ref(),
        ])
        .exits(0);
    for thread in ["one-1", "three-1", "ten-1"] {
        let folder = vectors
            .join("proj_clean/.ai/agent/threads/clean")
            .join(thread);
        let ran = run(&sandbox, "messages", &folder.join("transcript.jsonl"));
        assert!(matches!(ran.code, 0 | 3), "{}", ran.stderr);
        let expected = fs::read(folder.join("EXPECTED_messages.json")).unwrap();
        let expected: serde_json::Value = serde_json::from_slice(&expected).unwrap();
        assert_eq!(ran.json(), expected, "{thread}");
    }
}

#[test]
fn rendering_says_who_vouches_for_it() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 1);
    let ran = run(&sandbox, "render", &path).exits(0);
    for part in [
        "# demo/thread-1\n",
        "*verified: the bytes 0-",
        "signed by self",
        "## Input — Turn 1\n\nquestion 1\n",
    ] {
        assert!(
            ran.stdout.contains(part),
            "{part} is not in\n{}",
            ran.stdout
        );
    }
    sandbox
        .run(["render", "t.jsonl", "--json"])
        .fails_with("no JSON");
}

#[test]
fn show_tells_the_events_by_turn_and_vouches_for_none() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 2);
    let all = run(&sandbox, "show", &path).exits(0);
    assert!(all.stdout.contains("turn 1\n"), "{}", all.stdout);
    assert!(all.stdout.contains("    | question 2\n"), "{}", all.stdout);
    assert!(
        all.stderr.contains("nothing shown is vouched for"),
        "{}",
        all.stderr
    );
    let one = sandbox
        .run(["show", "t.jsonl", "--turn", "2", "-q"])
        .exits(0);
    assert!(one.stdout.contains("question 2") && !one.stdout.contains("question 1"));
    assert_eq!(one.stderr, "");
    sandbox
        .run(["show", "t.jsonl", "--turn", "9"])
        .fails_with("no turn 9");
    let json = sandbox
        .run(["show", "t.jsonl", "--json", "-q"])
        .exits(0)
        .json();
    assert_eq!(json["events"][2]["event_type"], "cognition_in");
    assert_eq!(json["events"][2]["turn"], 1);
}

// T-CMD-01
#[test]
fn texts_of_a_record_stand_behind_a_margin_and_are_harmless() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "x.jsonl",
        "{\"event_type\":\"cognition_in\",\"payload\":{\"text\":\"a\\nturn 9\\u001b[2J\\u202e\"}}\n{\"type\":\"x\u{202e}\\u001b[1m\"}\n",
    );
    let ran = sandbox.run(["show", "x.jsonl"]).exits(0);
    assert!(
        ran.stdout.contains("\n    | turn 9\\u{1b}[2J\\u{202e}\n"),
        "{}",
        ran.stdout
    );
    assert!(
        !ran.stdout.contains(['\u{1b}', '\u{202e}']),
        "{}",
        ran.stdout
    );
}

#[test]
fn diff_names_the_first_thing_that_happened_differently() {
    let sandbox = ready();
    let a = ended_record(&sandbox, "a.jsonl", 3);
    ended_record(&sandbox, "b.jsonl", 3);
    let same = sandbox.run(["diff", "a.jsonl", "a.jsonl"]).exits(0);
    assert_eq!(same.stdout, "no byte differs\n");
    let seals = sandbox.run(["diff", "a.jsonl", "b.jsonl"]).exits(3);
    assert!(
        seals.stdout.contains("the same happened"),
        "{}",
        seals.stdout
    );
    let text = fs::read_to_string(&a).unwrap();
    sandbox.write("c.jsonl", text.replace("answer 2", "answer X"));
    let other = sandbox.run(["diff", "b.jsonl", "c.jsonl"]).exits(1);
    assert!(
        other.stdout.contains("first difference in turn 2:"),
        "{}",
        other.stdout
    );
    assert!(other.stdout.contains("answer X"), "{}", other.stdout);
    let json = sandbox
        .run(["diff", "a.jsonl", "c.jsonl", "--json"])
        .exits(1)
        .json();
    assert_eq!(json["first_difference"]["turn"], 2);
    assert_eq!(
        json["same_until"]["line"],
        json["first_difference"]["a"]["line"].as_u64().unwrap() - 1
    );
    let short: String = text.split_inclusive('\n').take(8).collect();
    sandbox.write("d.jsonl", short);
    let ended = sandbox.run(["diff", "a.jsonl", "d.jsonl"]).exits(1);
    assert!(ended.stdout.contains("has ended"), "{}", ended.stdout);
    sandbox
        .run(["diff", "a.jsonl", "absent"])
        .fails_with("absent");
}

// T-CMD-15
#[test]
fn reading_commands_write_nothing() {
    let sandbox = ready();
    ended_record(&sandbox, "t.jsonl", 1);
    let before = (tree_digest(&sandbox.home()), tree_digest(&sandbox.work()));
    for arguments in [
        &["show", "t.jsonl"][..],
        &["messages", "t.jsonl"],
        &["render", "t.jsonl"],
        &["diff", "t.jsonl", "t.jsonl"],
    ] {
        sandbox.run(arguments).exits(0);
    }
    let after = (tree_digest(&sandbox.home()), tree_digest(&sandbox.work()));
    assert_eq!(before, after);
}
