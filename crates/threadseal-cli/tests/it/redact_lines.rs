//! `redact` of sessions and logs of other programs: the lines are gone, and all others verify.

use crate::archive::turns;
use crate::prelude::*;

const SESSION: &str = "3f9c1a2e-0b1c-4d5e-8f60-718293a4b5c6";
const WORD: &str = "xylophonist";
const LOG: &str = "claude/3f9c1a2e-0b1c-4d5e-8f60-718293a4b5c6.jsonl";

/// A home with one archived session; the second prompt and answer have the word.
fn archived() -> Sandbox {
    let sandbox = ready();
    sandbox.write(
        LOG,
        turns(SESSION, 0, "list the files") + &turns(SESSION, 1, WORD) + &turns(SESSION, 2, "end"),
    );
    sandbox.ok("archive add claude");
    sandbox
}

/// The files of the home in which the word is readable.
fn files_with(sandbox: &Sandbox, word: &str) -> Vec<PathBuf> {
    let mut found = walk(&sandbox.home());
    found.retain(|file| {
        let bytes = fs::read(file).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(word)
    });
    found
}

// T-CAP-80 T-CAP-81
#[test]
fn lines_of_a_session_are_redacted_and_stay_so_when_the_agent_writes_on() {
    let sandbox = archived();
    sandbox.ok(format!("search {WORD}")).prints(WORD);
    let whole = sandbox.read(LOG);
    sandbox
        .ok(format!("redact 3f9c --match {WORD} --dry-run"))
        .prints("2 lines would be redacted: 4-5");
    assert_eq!(
        sandbox.json(format!("search {WORD}"))["hits"].list().len(),
        2
    );
    let told = sandbox
        .ok(format!(
            "redact 3f9c --match {WORD} --why 'a name' --by Ada"
        ))
        .prints("2 lines: 4-5")
        .warns("are left in");
    assert!(told.stderr.contains(SESSION), "{told:?}");
    assert_eq!(sandbox.read(LOG), whole, "the agent's log is as it was");
    sandbox.ok(format!("verify {LOG}"));
    assert_eq!(files_with(&sandbox, WORD), [] as [PathBuf; 0]);
    sandbox.exits(3, format!("search {WORD}"));
    let shown = sandbox.ok("show 3f9c").stdout;
    assert!(
        shown.contains("list the files") && !shown.contains(WORD),
        "{shown}"
    );
    sandbox.ok("archive fsck");
    sandbox
        .ok("redact 3f9c --line 4 --why again")
        .prints("redacted before");
    // The agent writes on, and deletes its log.
    let mut grown = whole;
    grown.push_str(&turns(SESSION, 3, "and more"));
    fs::write(sandbox.path(LOG), grown).unwrap();
    sandbox.ok("archive add claude");
    sandbox.ok("show 3f9c").prints("and more");
    sandbox.exits(3, format!("search {WORD}"));
    fs::remove_dir_all(sandbox.path("claude")).unwrap();
    sandbox.ok("archive verify");
    sandbox.ok("archive fsck");
    sandbox
        .ok("verify 3f9c")
        .prints("redacted by \"Ada\"")
        .prints("a name");
    sandbox.ok("prove 3f9c#0 --out turn.proof");
    let key = sandbox.key("self-observed")["public"].text().to_owned();
    sandbox.ok(format!("check-proof turn.proof --key {key}"));
    sandbox.ok("export 3f9c out");
    assert!(!sandbox.read(format!("out/{SESSION}.jsonl")).contains(WORD));
    assert_eq!(
        sandbox.verdict(format!("verify out/{SESSION}.jsonl")),
        "verified"
    );
}

/// Built from parts, so that no scanner of this repository takes it for a secret.
fn token() -> String {
    format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6")
}

/// A sandbox with a log of three turns, of which the second has a token.
fn with_token() -> Sandbox {
    let sandbox = ready();
    let second = turns(SESSION, 1, &format!("export TOKEN={}", token()));
    let log = turns(SESSION, 0, "list the files") + &second + &turns(SESSION, 2, "end");
    sandbox.write(LOG, log);
    sandbox
}

// T-CAP-84
#[test]
fn lines_with_secrets_are_marked_until_they_are_redacted() {
    let sandbox = with_token();
    sandbox.ok("archive add claude");
    let shown = sandbox.ok("show 3f9c").stdout;
    assert!(shown.contains("what looks like a secret"), "{shown}");
    let marked = sandbox.json("show 3f9c")["secrets"].clone();
    let lines: Vec<u64> = marked
        .list()
        .iter()
        .map(|mark| mark["line"].number())
        .collect();
    assert_eq!(lines, [4, 5]);
    let status = sandbox.json("archive status");
    status.is(json!({"secrets": "mark"}));
    assert_eq!(status["marked"].list().len(), 1);
    sandbox.ok("archive status").prints("2 lines in 1 log");
    for file in walk(&sandbox.home()) {
        let is_journal = file.ends_with("main.jsonl");
        assert!(!is_journal || !sandbox.read(&file).contains(&token()));
    }
    sandbox.ok("redact 3f9c --secrets --why 'a token'");
    assert_eq!(files_with(&sandbox, &token()), [] as [PathBuf; 0]);
    assert_eq!(sandbox.json("show 3f9c")["secrets"].list().len(), 0);
    sandbox.ok("archive status").prints("marked; none found");
    sandbox.ok("archive verify");
}

// T-CAP-85
#[test]
fn lines_with_secrets_are_left_out_before_a_file_of_the_home_has_them() {
    let sandbox = with_token();
    sandbox
        .json("archive secrets omit")
        .is(json!({"schema": "threadseal.archive.settings/1", "secrets": "omit"}));
    sandbox.ok("archive secrets").prints("left out");
    let whole = sandbox.read(LOG);
    sandbox.ok("archive add claude");
    assert_eq!(sandbox.read(LOG), whole, "the agent's log is as it was");
    assert_eq!(sandbox.verdict(format!("verify {LOG}")), "verified");
    assert_eq!(files_with(&sandbox, &token()), [] as [PathBuf; 0]);
    // The agent writes on, with another one.
    let more = turns(SESSION, 3, &format!("password = {}", &token()[4..]));
    fs::write(sandbox.path(LOG), whole + &more).unwrap();
    sandbox.ok("archive add claude");
    assert_eq!(files_with(&sandbox, &token()[4..]), [] as [PathBuf; 0]);
    let shown = sandbox.ok("show 3f9c").stdout;
    assert!(shown.contains("list the files") && !shown.contains(&token()));
    sandbox.ok("archive fsck");
    fs::remove_dir_all(sandbox.path("claude")).unwrap();
    sandbox.ok("archive verify");
    sandbox
        .ok("verify 3f9c")
        .prints("redacted by \"self-observed\"")
        .prints("secrets found at capture");
    sandbox.exits(2, "archive secrets hide");
}

// T-CAP-86
#[test]
fn a_document_with_a_secret_is_not_archived_if_secrets_are_to_be_left_out() {
    let sandbox = ready();
    let id = "11111111-2222-4333-8444-555555555555";
    let document = json!({"sessionId": id, "projectHash": "0a", "startTime": "2026-11-20T10:00:00.000Z",
        "lastUpdated": "2026-11-20T10:00:01.000Z", "messages": [{"id": "a", "type": "user",
        "timestamp": "2026-11-20T10:00:00.000Z", "content": format!("use {} here", token())}]});
    sandbox.write(
        "gemini/session-2026-11-20T10-00-11111111.json",
        document.to_string(),
    );
    sandbox.ok("archive secrets omit");
    sandbox
        .exits(3, "archive add gemini")
        .warns("it holds what looks like a secret");
    assert_eq!(files_with(&sandbox, &token()), [] as [PathBuf; 0]);
    sandbox.ok("archive secrets keep");
    sandbox.ok("archive add gemini");
    assert_eq!(sandbox.json("archive status")["marked"].list().len(), 0);
}

#[test]
fn a_redacted_copy_of_a_log_is_verified_elsewhere_and_the_log_stays() {
    let sandbox = archived();
    let whole = sandbox.read(LOG);
    sandbox.exits(2, format!("redact {LOG} --line 4 --why x"));
    sandbox.exits(2, format!("redact {LOG} --line 99 --why x --output out"));
    sandbox.exits(2, format!("redact {LOG} --why x --output out"));
    let done = sandbox.json(format!(
        "redact {LOG} --line 1 --match {WORD} --why 'a name' --output out"
    ));
    done.is(json!({"schema": "threadseal.redact.lines/1", "lines": [1, 4, 5]}));
    assert_eq!(sandbox.read(LOG), whole);
    let name = format!("{SESSION}.jsonl");
    let (log, seals) = (
        sandbox.read(format!("out/{name}")),
        sandbox.read(format!("out/{name}.seal")),
    );
    assert!(!log.contains(WORD) && !seals.contains(WORD));
    let key = sandbox.key("self-observed")["public"].text().to_owned();
    let elsewhere = Sandbox::new();
    elsewhere.write(&name, &log);
    elsewhere.write(format!("{name}.seal"), &seals);
    let report = elsewhere.report(format!("verify {name} --key {key}"));
    report.is(json!({"verdict": "open"}));
    assert!(
        report.to_string().contains("lines 1, 4-5 redacted by"),
        "{report}"
    );
    let edited = log.replace("list the files", "list the fires");
    assert_ne!(edited, log, "its answer is still there");
    elsewhere.write(&name, edited);
    elsewhere.exits(1, format!("verify {name} --key {key}"));
    elsewhere.write(&name, &whole);
    elsewhere.exits(1, format!("verify {name} --key {key}"));
    // A copy of a copy.
    sandbox.ok(format!(
        "redact out/{name} --line 2 --why 'more' --output out2"
    ));
    sandbox.ok(format!("verify out2/{name}")).prints("more");
    sandbox.exits(2, format!("redact {LOG} --line 1 --why x --output out"));
}

#[test]
fn lines_with_secrets_are_found_and_redacted() {
    let sandbox = ready();
    // Built from parts, so that no scanner of this repository takes it for a secret.
    let token = format!("ghp_{}", "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6");
    let words = format!("use the token \"{token}\" now");
    sandbox.write(
        LOG,
        turns(SESSION, 0, "no secret") + &turns(SESSION, 1, &words),
    );
    sandbox.ok("archive add claude");
    sandbox
        .ok("redact 3f9c --secrets --why 'a token'")
        .prints("2 lines: 4-5");
    assert_eq!(files_with(&sandbox, &token), [] as [PathBuf; 0]);
    sandbox.exits(2, "redact 3f9c --secrets --why 'a token' --finish");
    ended_record(&sandbox, "native", 1);
    sandbox.exits(2, "redact native --secrets --why x");
}
