//! `show`, `messages`, `render` and `diff`: the content of a record.

use crate::prelude::*;

fn run(sandbox: &Sandbox, command: &str, path: &Path) -> Ran {
    sandbox.sh(format!("{command:?} {path:?}"))
}

// T-TRA-20
#[test]
fn messages_are_those_of_the_sealed_part() {
    let sandbox = ready();
    let mut recorder = recorder(&sandbox, "t.jsonl", 2);
    let path = recorder.path().to_owned();
    let whole = run(&sandbox, "messages", &path).exits(0).warns_nothing();
    assert_eq!(whole.json().list().len(), 6);
    assert_eq!(
        whole.json()[1],
        json!({"role": "assistant", "content": "answer 1"})
    );
    say(&mut recorder, "cognition_in", "smuggled");
    drop(recorder);
    let part = run(&sandbox, "messages", &path).exits(3);
    assert_eq!(part.stdout, whole.stdout);
    part.stderr.has("unsigned_tail");
    let json = sandbox
        .exits(3, "messages t.jsonl --json -q")
        .warns_nothing();
    assert_eq!(json.json()["verdict"], "unsigned_tail");
    assert_eq!(json.json()["messages"].list().len(), 6);
}

// T-OBS-06
#[test]
fn nothing_of_a_record_with_an_unknown_signer_is_used() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 2);
    let stranger = ready();
    for command in ["messages", "render"] {
        run(&stranger, command, &path)
            .exits(3)
            .omits("question")
            .warns("unknown_signer");
    }
    let text = read(&path);
    fs::write(&path, text.replace("answer 1", "answer X")).unwrap();
    for command in ["messages", "render"] {
        run(&sandbox, command, &path)
            .exits(1)
            .omits("question")
            .warns("tampered");
    }
    let unsigned = rye_events(&sandbox, "r.jsonl", 1);
    assert_eq!(run(&sandbox, "messages", &unsigned).exits(3).stdout, "[]\n");
}

// T-TRA-37
#[test]
fn nothing_of_a_record_with_evidence_against_it_is_shown_or_exported() {
    let sandbox = ready();
    let mut recorder = recorder(&sandbox, "t.jsonl", 1);
    let path = recorder.path().to_owned();
    let older = read(&path);
    say(&mut recorder, "cognition_in", "question 2");
    recorder.seal(2, Ext::default()).unwrap();
    drop(recorder);
    let newer = read(&path);
    let forked = newer.replace("question 2", "question X");
    for (text, verdict) in [(&older, "rolled_back"), (&forked, "tampered")] {
        fs::write(&path, text).unwrap();
        let found = sandbox.verdict_of(&path, 1);
        for command in ["messages", "render", "transcript export"] {
            let ran = sandbox.exits(1, format!("{command} {path:?}"));
            assert_eq!(ran.stdout, "", "{command}: {verdict}");
            ran.stderr.has(&found);
        }
        let told = sandbox.exits(1, format!("messages --json {path:?}")).json();
        told.is(json!({"verdict": found.as_str(), "messages": []}));
        let out = sandbox.path("out.jsonl");
        let export = format!("transcript export {path:?} --out {out:?} --json");
        let report = sandbox.exits(1, export).json();
        assert_eq!(report["results"][0]["verdict"], found.as_str());
        assert!(!out.exists());
    }
    fs::write(&path, newer).unwrap();
    run(&sandbox, "render", &path)
        .exits(0)
        .prints("*verified: the bytes 0-");
    sandbox
        .ok(format!("transcript export {path:?}"))
        .prints("question 2");
}

#[test]
fn messages_of_ryes_own_transcripts_are_ryes() {
    let Some(vectors) = shared("vectors/rye/valid") else {
        return;
    };
    let sandbox = ready();
    let key = vectors.join("user/.ai/config/keys/signing/public_key.pem");
    sandbox.ok(format!("trust add {key:?} --name=rye --usage=rye"));
    for thread in ["one-1", "three-1", "ten-1"] {
        let folder = vectors
            .join("proj_clean/.ai/agent/threads/clean")
            .join(thread);
        let ran = run(&sandbox, "messages", &folder.join("transcript.jsonl"));
        assert!(matches!(ran.code, 0 | 3), "{}", ran.stderr);
        let expected = fs::read(folder.join("EXPECTED_messages.json")).unwrap();
        let expected: Value = serde_json::from_slice(&expected).unwrap();
        assert_eq!(ran.json(), expected, "{thread}");
    }
}

#[test]
fn rendering_names_the_signer() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 1);
    let ran = run(&sandbox, "render", &path).exits(0);
    for part in [
        "# demo/thread-1\n",
        "*verified: the bytes 0-",
        "signed by self",
        "## Input — Turn 1\n\nquestion 1\n",
    ] {
        ran.stdout.has(part);
    }
    sandbox.sh("render t.jsonl --json").fails_with("not JSON");
}

#[test]
fn show_lists_the_events_by_turn_without_a_verdict() {
    let sandbox = ready();
    let path = ended_record(&sandbox, "t.jsonl", 2);
    run(&sandbox, "show", &path)
        .exits(0)
        .prints("turn 1\n")
        .prints("    | question 2\n")
        .warns("the output is not verified");
    sandbox
        .ok("show t.jsonl --turn 2 -q")
        .prints("question 2")
        .omits("question 1")
        .warns_nothing();
    sandbox.sh("show t.jsonl --turn 9").fails_with("no turn 9");
    let json = sandbox.json("show t.jsonl -q");
    json.is(json!({"events/2/event_type": "cognition_in", "events/2/turn": 1}));
}

// T-CMD-01
#[test]
fn texts_of_a_record_have_a_margin_and_are_harmless() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "x.jsonl",
        "{\"event_type\":\"cognition_in\",\"payload\":{\"text\":\"a\\nturn 9\\u001b[2J\\u202e\"}}\n{\"type\":\"x\u{202e}\\u001b[1m\"}\n",
    );
    let ran = sandbox
        .ok("show x.jsonl")
        .prints("\n    | turn 9\\u{1b}[2J\\u{202e}\n");
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
    let same = sandbox.ok("diff a.jsonl a.jsonl");
    assert_eq!(same.stdout, "no byte differs\n");
    sandbox
        .exits(3, "diff a.jsonl b.jsonl")
        .prints("the events are the same");
    let text = read(&a);
    sandbox.write("c.jsonl", text.replace("answer 2", "answer X"));
    sandbox
        .exits(1, "diff b.jsonl c.jsonl")
        .prints("first difference in turn 2:")
        .prints("answer X");
    let json = sandbox.exits(1, "diff a.jsonl c.jsonl --json").json();
    json.is(json!({
        "first_difference/turn": 2,
        "same_until/line": json["first_difference"]["a"]["line"].number() - 1,
    }));
    let short: String = text.split_inclusive('\n').take(8).collect();
    sandbox.write("d.jsonl", short);
    sandbox.exits(1, "diff a.jsonl d.jsonl").prints("has ended");
    sandbox.sh("diff a.jsonl absent").fails_with("absent");
}

// T-CMD-15
#[test]
fn reading_commands_write_nothing() {
    let sandbox = ready();
    ended_record(&sandbox, "t.jsonl", 1);
    let before = (tree_digest(&sandbox.home()), tree_digest(&sandbox.work()));
    for arguments in [
        "show t.jsonl",
        "messages t.jsonl",
        "render t.jsonl",
        "diff t.jsonl t.jsonl",
    ] {
        sandbox.ok(arguments);
    }
    let after = (tree_digest(&sandbox.home()), tree_digest(&sandbox.work()));
    assert_eq!(before, after);
}
