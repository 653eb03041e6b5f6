//! The archive of sessions and its commands: add, list, search, show, export, forget.

use crate::prelude::*;

const SESSION: &str = "3f9c1a2e-0b1c-4d5e-8f60-718293a4b5c6";
const OTHER: &str = "3fa7b2c0-0b1c-4d5e-8f60-718293a4b5c6";

/// One prompt and one answer with a call, as Claude Code writes them.
pub(crate) fn turns(session: &str, number: usize, words: &str) -> String {
    let at = |second: usize| format!("2026-11-21T20:41:{:02}.000Z", (number * 3 + second) % 60);
    let line = |value: Value| format!("{value}\n");
    let head = |uuid: &str, second| {
        json!({"parentUuid": null, "isSidechain": false, "uuid": format!("{uuid}{number}"), "timestamp": at(second),
            "cwd": "/home/ann/src/api", "sessionId": session, "version": "2.1.197"})
    };
    let with = |head: Value, rest: Value| {
        let mut all = head.as_object().unwrap().clone();
        all.extend(rest.as_object().unwrap().clone());
        Value::Object(all)
    };
    let call = format!("toolu_{number}");
    [
        with(head("p", 0), json!({"type": "user", "message": {"role": "user", "content": words}})),
        with(
            head("a", 1),
            json!({"type": "assistant", "message": {"id": format!("msg_{number}"), "type": "message", "role": "assistant",
                "model": "claude-sonnet-4-5", "content": [{"type": "text", "text": format!("I run it: {words}")},
                {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": format!("echo {number}")}}],
                "stop_reason": "tool_use", "usage": {"input_tokens": 100, "output_tokens": 20}}}),
        ),
        with(
            head("r", 2),
            json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call,
                "content": format!("output {number}")}]}}),
        ),
    ]
    .map(line)
    .concat()
}

fn log(session: &str) -> String {
    format!("claude/{session}.jsonl")
}

/// A home with one archived session.
fn archived() -> Sandbox {
    let sandbox = ready();
    sandbox.write(
        log(SESSION),
        turns(SESSION, 0, "list the frobnicators") + &turns(SESSION, 1, "and again"),
    );
    let added = sandbox.json("archive add claude");
    added["logs"][0].is(json!({"log": format!("claude-code:{SESSION}"), "result": "added"}));
    sandbox
}

fn state(sandbox: &Sandbox) -> String {
    let listed = sandbox.json("list");
    listed["sessions"][0]["state_text"].text().to_owned()
}

fn append(sandbox: &Sandbox, name: &str, text: &str) {
    let mut whole = fs::read_to_string(sandbox.path(name)).unwrap();
    whole.push_str(text);
    fs::write(sandbox.path(name), whole).unwrap();
}

// T-ARC-25
#[test]
fn what_an_agent_deleted_verifies_from_the_archive_in_its_folder_too() {
    let sandbox = archived();
    fs::remove_file(sandbox.path(log(SESSION))).unwrap();
    assert!(sandbox.path(format!("{}.seal", log(SESSION))).exists());
    for line in ["verify claude", "verify .", "verify --all", "verify 3f9c"] {
        let report = sandbox.report(line);
        assert_eq!(report["verdict"], "verified", "{line}: {report:#}");
        assert_eq!(
            report["path"],
            format!("claude-code:{SESSION} in the archive"),
            "{line}"
        );
    }
    // Later seals are known, or the archive does not verify: it is missing as before.
    let sealed = fs::read(sandbox.path(format!("{}.seal", log(SESSION)))).unwrap();
    sandbox.write(
        log(SESSION),
        turns(SESSION, 0, "list the frobnicators") + &turns(SESSION, 1, "and again"),
    );
    append(&sandbox, &log(SESSION), &turns(SESSION, 2, "more"));
    sandbox.ok(format!("seal --detached {}", log(SESSION)));
    fs::remove_file(sandbox.path(log(SESSION))).unwrap();
    assert_eq!(sandbox.sh("verify claude").code, 1);
    sandbox.write(format!("{}.seal", log(SESSION)), sealed);
    fs::remove_dir_all(sandbox.home().join("archive")).unwrap();
    let gone = sandbox.report("verify claude");
    assert_eq!(gone["verdict"], "missing", "{gone:#}");
}

// T-CMD-24
#[test]
fn a_session_with_evidence_against_it_is_exported_as_evidence_alone() {
    let sandbox = archived();
    sandbox.ok("trust revoke self-observed --why stolen --at 2026-01-01T00:00:00Z");
    sandbox.forget_heads();
    sandbox.sh("export 3f9c out").refuses_with("[key_revoked]");
    assert!(!sandbox.path("out").exists());
    // The verdict is named, whatever is exported.
    let exported = sandbox.ok("export 3f9c out --anyway --json");
    let verdict = exported.json()["verdict"].text().to_owned();
    assert_ne!(verdict, "verified");
    exported.warns(&format!("warning: claude-code:{SESSION} is {verdict}"));
    let page = sandbox.ok("export 3f9c --html page.html --anyway --json");
    assert_eq!(page.json()["verdict"], verdict.as_str());
    page.warns(&format!("is {verdict}"));
}

// T-CMD-24
#[test]
fn an_export_names_the_verdict_on_what_is_exported() {
    let sandbox = archived();
    let exported = sandbox.ok("export 3f9c out --json").warns_nothing();
    assert_eq!(exported.json()["verdict"], "verified");
    // A log without seals, then one that was changed.
    sandbox.write("note.jsonl", "{\"n\":1}\n{\"n\":2}\n");
    let unsigned = sandbox.ok("export note.jsonl --html a.html");
    unsigned.warns("warning: note.jsonl is unsigned");
    sandbox.ok("seal --detached note.jsonl");
    sandbox.write("note.jsonl", "{\"n\":1}\n{\"n\":3}\n");
    let refused = sandbox.exits(1, "export note.jsonl --html b.html");
    refused.warns("tampered");
    let changed = sandbox.ok("export note.jsonl --html b.html --anyway");
    changed.warns("warning: note.jsonl is tampered");
}

#[test]
fn list_and_show_have_the_same_figures_of_a_session() {
    let sandbox = archived();
    // Where no model answered, Claude Code names one that is none.
    let of_program = turns(SESSION, 7, "more").replace("claude-sonnet-4-5", "<synthetic>");
    append(&sandbox, &log(SESSION), &of_program);
    let agent = log(SESSION).replace(".jsonl", "/subagents/agent-a1b2.jsonl");
    let lines = turns(SESSION, 8, "of a subagent").replace(
        "\"isSidechain\":false",
        "\"agentId\":\"a1b2\",\"isSidechain\":true",
    );
    sandbox.write(&agent, lines);
    sandbox.ok("archive add claude");
    let row = sandbox.json("list")["sessions"][0].clone();
    row.is(json!({"model": "claude-sonnet-4-5", "sub_agents": 1}));
    let figures = format!(
        "  {} turns, {} calls, {} tokens, claude-sonnet-4-5, /home/ann/src/api",
        row["turns"], row["tools"], row["tokens"]
    );
    sandbox.ok("show 3f9c").prints(&figures);
    let own = sandbox.ok("show 3f9c/a1b2").prints("1 call, 120 tokens");
    assert!(!own.stdout.contains(&figures));
    sandbox
        .ok("archive add claude")
        .prints("2 logs of sessions, ");
}

// T-ARC-17
#[test]
fn a_session_is_listed_with_its_state_through_growth_deletion_and_change() {
    let sandbox = archived();
    let listed = sandbox.json("list");
    listed["sessions"][0].is(json!({
        "id": format!("claude-code:{SESSION}"), "agent": "claude-code", "project": "/home/ann/src/api",
        "tools": 2, "tokens": 240, "model": "claude-sonnet-4-5", "source_gone": false, "state": "verified",
    }));
    assert_eq!(state(&sandbox), "verified", "also from the index");
    append(&sandbox, &log(SESSION), &turns(SESSION, 2, "more"));
    assert_eq!(state(&sandbox), "sealed, still growing");
    sandbox.ok("archive add claude");
    assert_eq!(state(&sandbox), "verified");
    let whole = sandbox.read(log(SESSION));
    sandbox.write(log(SESSION), whole.replace("frobnicators", "frobnicat0rs"));
    assert_eq!(state(&sandbox), "TAMPERED at line 1");
    sandbox.ok("archive verify 3f9c");
    fs::remove_dir_all(sandbox.path("claude")).unwrap();
    assert_eq!(state(&sandbox), "archived (source gone), verified");
    sandbox.ok("verify --all").warns_nothing();
    assert_eq!(sandbox.verdict("verify 3f9c"), "verified");
    sandbox.ok("show 3f9c").prints("frobnicators");
    sandbox.ok("export 3f9c out");
    assert_eq!(sandbox.read(format!("out/{SESSION}.jsonl")), whole);
    assert_eq!(
        sandbox.verdict(format!("verify out/{SESSION}.jsonl")),
        "verified"
    );
    let table = sandbox.ok("list --color always").stdout;
    assert!(
        table.contains("AGE") && table.contains("3f9c1a") && table.contains("\u{1b}[32m"),
        "{table}"
    );
}

#[test]
fn a_session_is_found_by_a_unique_beginning_of_its_id() {
    let sandbox = archived();
    sandbox.write(log(OTHER), turns(OTHER, 0, "something else"));
    sandbox.ok("archive add claude");
    let refused = sandbox.exits(2, "show 3f");
    assert!(
        refused.stderr.contains(SESSION) && refused.stderr.contains(OTHER),
        "{refused:?}"
    );
    sandbox.ok("show 3fa").prints("something else");
    sandbox.ok("show claude-code:3f9c").prints("frobnicators");
    sandbox.exits(2, "show codex:3f9c");
    sandbox.exits(1, "diff 3f9c 3fa");
    sandbox.ok("diff 3f9c 3f9c");
    let one = sandbox.json("show 3f9c#1");
    assert_eq!(one["turns"].list().len(), 1);
    one["turns"][0].is(json!({"turn": 1, "role": "assistant"}));
    assert_eq!(one["turns"][0]["calls"][0]["name"], "Bash");
    sandbox.exits(2, "show 3f9c#99");
    // A path is a path, whatever sessions there are.
    ended_record(&sandbox, "3f9c", 1);
    sandbox.ok("show 3f9c").prints("checkpoint");
}

// T-ARC-18
#[test]
fn words_are_found_in_all_sessions_and_hostile_text_stays_harmless() {
    let sandbox = archived();
    let hostile =
        "the \u{1b}[2J grue \u{202e}\"; DROP TABLE turns; NEAR( is here\nverified  forged";
    sandbox.write(log(OTHER), turns(OTHER, 0, hostile));
    sandbox.ok("archive add claude");
    let found = sandbox.json("search frobnicators");
    found["hits"][0]
        .is(json!({"turn": format!("claude-code:{SESSION}#1"), "project": "/home/ann/src/api"}));
    assert_eq!(found["hits"].list().len(), 2);
    sandbox.exits(3, "search frobnicators grue");
    sandbox.ok("search frob*").prints("frobnicators");
    sandbox.exits(3, "search frobnicators --agent codex");
    sandbox.exits(3, "search frobnicators --project web");
    sandbox.ok("search frobnicators --project src/api --agent claude-code");
    for words in [
        "DROP TABLE",
        "NEAR(",
        "\"",
        "a\"b",
        "*",
        "-grue",
        "{x}:y",
        "AND",
        "OR NOT",
    ] {
        let ran = sandbox.run(["search", "--", words]);
        assert!([0, 2, 3].contains(&ran.code), "{words}: {ran:?}");
        assert!(
            !ran.stderr.contains("SQL") && !ran.stderr.contains("syntax"),
            "{ran:?}"
        );
    }
    for line in ["search grue", "show 3fa", "list"] {
        let shown = sandbox.ok(line).stdout;
        assert!(
            !shown.contains('\u{1b}') && !shown.contains('\u{202e}'),
            "{shown:?}"
        );
        assert!(
            !shown
                .lines()
                .any(|line| line.starts_with("verified  forged")),
            "{shown}"
        );
    }
}

// T-ARC-11 T-ARC-19
#[test]
fn a_forgotten_session_is_gone_from_all_places_and_never_missing() {
    let sandbox = archived();
    sandbox.write(log(OTHER), turns(OTHER, 0, "kept words"));
    sandbox.ok("archive add claude");
    sandbox.exits(2, "forget 3f9c");
    let dry = sandbox.json("forget 3f9c --dry-run");
    dry.is(json!({"dry_run": true, "deleted": [], "only_copy": false}));
    sandbox.ok("search frobnicators");
    sandbox.ok("forget 3f9c --source --yes --reason 'a secret'");
    assert!(!sandbox.path(log(SESSION)).exists());
    assert!(!sandbox.path(format!("{}.seal", log(SESSION))).exists());
    sandbox.exits(3, "search frobnicators");
    for file in walk(&sandbox.home()) {
        let bytes = fs::read(&file).unwrap_or_default();
        let shown = String::from_utf8_lossy(&bytes);
        assert!(!shown.contains("frobnicators"), "{file:?}");
    }
    let listed = sandbox.json("list");
    assert_eq!(listed["sessions"].list().len(), 1);
    listed["forgotten"][0].is(json!({"id": format!("claude-code:{SESSION}")}));
    assert!(listed["forgotten"][0]["text"].text().contains("a secret"));
    assert!(sandbox.exits(2, "show 3f9c").stderr.contains("forgotten"));
    let all = sandbox.json("verify --all");
    assert!(!all.to_string().contains("missing"), "{all}");
    sandbox
        .json("archive verify 3fa")
        .is(json!({"logs/0/verdict": "verified", "forgotten": []}));
    sandbox.json("archive fsck").is(json!({"damage": []}));
    sandbox.exits(3, "archive verify 3f9c");
    // The agent writes on: only a person brings it back.
    sandbox.write(log(SESSION), turns(SESSION, 7, "anew"));
    sandbox.json("archive add claude")["logs"]
        .item("log", &format!("claude-code:{SESSION}"))
        .is(json!({"result": "forgotten"}));
    sandbox.ok("archive add claude --recall");
    sandbox.ok("show 3f9c").prints("anew");
}

#[test]
fn a_session_that_is_forgotten_without_its_source_ends_when_the_source_is_gone() {
    let sandbox = archived();
    let told = sandbox.ok("forget 3f9c --yes");
    assert!(told.stderr.contains("--source"), "{told:?}");
    assert_eq!(
        sandbox.verdict(format!("verify {}", log(SESSION))),
        "verified"
    );
    fs::remove_dir_all(sandbox.path("claude")).unwrap();
    assert!(
        sandbox
            .exits(1, "verify --all")
            .stderr
            .contains("threadseal forget")
    );
    sandbox.ok("forget 3f9c --yes");
    let all = sandbox.json("verify --all");
    assert!(!all.to_string().contains("missing"), "{all}");
}

// T-ARC-05
#[test]
fn an_encrypted_archive_holds_no_readable_text_and_is_searched_with_its_key() {
    let sandbox = ready();
    sandbox.write("pass", "correct horse\n");
    sandbox.ok("archive on --encrypt --passphrase-file pass");
    sandbox.write(log(SESSION), turns(SESSION, 0, "list the frobnicators"));
    sandbox.ok("archive add claude --passphrase-file pass");
    for file in walk(&sandbox.home()) {
        let bytes = fs::read(&file).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&bytes).contains("frobnicators"),
            "{file:?}"
        );
    }
    sandbox
        .ok("search frobnicators --passphrase-file pass")
        .prints("frobnicators");
    sandbox
        .ok("show 3f9c --passphrase-file pass")
        .prints("frobnicators");
    fs::remove_dir_all(sandbox.path("claude")).unwrap();
    sandbox.ok("archive verify --passphrase-file pass");
    sandbox.write("wrong", "wrong\n");
    sandbox.exits(2, "show 3f9c --passphrase-file wrong");
    let listed = sandbox.json("list");
    listed["sessions"][0].is(json!({"state": "unreadable"}));
}

#[test]
fn the_archive_can_be_off_and_its_index_is_made_anew() {
    let sandbox = archived();
    sandbox.json("archive off").is(json!({"on": false}));
    append(&sandbox, &log(SESSION), &turns(SESSION, 2, "unseen words"));
    sandbox.json("archive add claude")["logs"][0].is(json!({"result": "off"}));
    sandbox.ok("archive on");
    sandbox.ok("archive add claude");
    let before = sandbox.json("search unseen");
    fs::remove_file(sandbox.home().join("index.sqlite")).unwrap();
    assert_eq!(sandbox.json("search unseen"), before);
    fs::write(sandbox.home().join("index.sqlite"), "no database").unwrap();
    assert_eq!(sandbox.json("search unseen"), before);
    sandbox.json("archive rebuild-index").is(json!({"logs": 1}));
    assert_eq!(sandbox.json("search unseen"), before);
    sandbox
        .json("archive status")
        .is(json!({"on": true, "sessions": 1, "logs": 1, "forgotten": 0}));
    let mode = |name: &str| {
        std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(sandbox.home().join(name))
                .unwrap()
                .permissions(),
        )
    };
    assert_eq!(mode("index.sqlite") & 0o777, 0o600);
    let damaged = walk(&sandbox.home().join("archive/sessions"))
        .into_iter()
        .find(|path| path.to_str().unwrap().contains("log-"))
        .unwrap();
    fs::write(&damaged, "TSAC").unwrap();
    let told = sandbox.exits(1, "archive fsck --json");
    assert!(told.stdout.contains(SESSION), "{told:?}");
}

// T-ARC-20 T-ARC-21
#[test]
fn one_turn_of_a_session_is_proved_without_the_home_and_shows_no_other() {
    let sandbox = archived();
    let told = sandbox.ok("prove 3f9c#4 --out turn.proof");
    assert!(!told.stderr.contains("guess"), "{told:?}");
    let proof = sandbox.read("turn.proof");
    assert!(!proof.contains("frobnicators"), "{proof}");
    assert!(
        proof.contains("\nshows 1\n"),
        "no line can be guessed: {proof}"
    );
    let key = sandbox.key("self-observed")["public"].text().to_owned();
    let elsewhere = Sandbox::new();
    elsewhere.write("turn.proof", &proof);
    let checked = elsewhere.json(format!("check-proof turn.proof --key {key}"));
    checked.is(json!({"label": format!("claude-code:{SESSION}#4"), "result/verdict": "verified"}));
    assert!(
        checked["lines"].to_string().contains("and again"),
        "{checked}"
    );
    elsewhere.exits(3, "check-proof turn.proof");
    let line = proof
        .lines()
        .find(|line| line.starts_with("line "))
        .unwrap();
    let changed = proof.replace(line, &line.replacen('A', "B", 1));
    elsewhere.write("turn.proof", changed);
    elsewhere.exits(1, format!("check-proof turn.proof --key {key}"));
    sandbox.exits(2, "prove 3f9c#99");
    append(&sandbox, &log(SESSION), &turns(SESSION, 2, "more"));
    sandbox.ok("prove 3f9c#0 --out first.proof");
}

#[test]
fn sessions_of_real_agents_are_found_archived_and_verified() {
    let Some(corpus) = shared("corpus/real-runs") else {
        return;
    };
    let sandbox = ready();
    for folder in [
        "generated-here",
        "claude-code-jsonl",
        "codex-rollout-jsonl",
        "gemini-cli-json",
        "cline-session-json",
        "pi-agent-jsonl",
        "aider-chat-history-md",
    ] {
        copy(&corpus.join(folder), &sandbox.path("runs").join(folder));
    }
    let added = sandbox.json("archive add runs");
    let logs: Vec<&str> = added["logs"]
        .list()
        .iter()
        .map(|log| log["log"].text())
        .collect();
    for agent in [
        "claude-code",
        "codex",
        "gemini",
        "cline",
        "pi",
        "aider",
        "opencode",
    ] {
        assert!(
            logs.iter().any(|log| log.starts_with(&format!("{agent}:"))),
            "{agent}: {logs:?}"
        );
    }
    assert!(
        logs.contains(&"claude-code:d43e0398-fdad-4264-b345-f5681cd8d3ec/abd0d694e81ef1509"),
        "{logs:?}"
    );
    sandbox.ok("archive fsck");
    fs::remove_dir_all(sandbox.path("runs")).unwrap();
    sandbox.ok("archive verify");
    let listed = sandbox.json("list");
    for session in listed["sessions"].list() {
        assert_eq!(session["state"], "archived", "{session}");
    }
}
