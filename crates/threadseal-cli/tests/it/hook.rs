//! `hook`: payloads of agents have their sessions sealed, and never disturb an agent.

use crate::prelude::*;
use std::io::{BufRead as _, BufReader};
use threadseal_store::clock::{Clock as _, SystemClock};

/// A session as Claude Code writes it, with `turns` lines.
fn session(turns: usize) -> String {
    let line = |number: usize| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"u{number}\",\"parentUuid\":null,\"isSidechain\":false,\
             \"sessionId\":\"b1085f2c-3167-4291-929f-ca838d6cc147\",\"cwd\":\"/w\",\"version\":\"2.1.197\",\
             \"timestamp\":\"2026-01-01T00:00:00Z\",\"message\":{{\"role\":\"user\",\"content\":\"text {number}\"}}}}\n"
        )
    };
    (0..turns).map(line).collect()
}

const NAME: &str = "p/b1085f2c-3167-4291-929f-ca838d6cc147.jsonl";

fn payload(sandbox: &Sandbox, event: &str) -> String {
    let path = sandbox.path(NAME);
    json!({
        "session_id": "b1085f2c-3167-4291-929f-ca838d6cc147",
        "transcript_path": path,
        "cwd": "/w",
        "hook_event_name": event,
    })
    .to_string()
}

/// Runs the hook with a payload: its exit is 0, and it prints no errors.
pub(crate) fn hook(sandbox: &Sandbox, words: &str, payload: &str) -> String {
    let mut child = sandbox
        .command()
        .arg("hook")
        .args(words.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A hook that fails early need not read all of it.
    let _ = child.stdin.take().unwrap().write_all(payload.as_bytes());
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, &*ran.stderr), (0, ""), "{words}\n{payload}");
    ran.stdout
}

pub(crate) fn troubles(sandbox: &Sandbox) -> Vec<Value> {
    let path = sandbox.home().join("capture/troubles.jsonl");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

// T-CAP-96
#[test]
fn a_payload_that_never_ends_is_waited_for_no_longer_than_its_limit() {
    let sandbox = ready();
    let mut child = sandbox
        .command()
        .args(["hook", "claude-code"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut open = child.stdin.take().unwrap();
    open.write_all(b"{").unwrap();
    assert!(child.wait().unwrap().success());
    let troubles = troubles(&sandbox);
    troubles[0]["why"].text().has("did not end");
    drop(open);
}

// T-CAP-35
#[test]
fn a_hook_seals_the_session_that_its_payload_names() {
    let sandbox = ready();
    // At the first events of a session there is no log yet.
    assert_eq!(
        hook(&sandbox, "claude-code", &payload(&sandbox, "SessionStart")),
        ""
    );
    sandbox.write(NAME, session(2));
    hook(&sandbox, "claude-code", &payload(&sandbox, "Stop"));
    assert_eq!(sandbox.verdict(format!("verify {NAME}")), "verified");
    sandbox.write(NAME, session(5));
    hook(&sandbox, "codex", &payload(&sandbox, "SessionEnd"));
    let report = sandbox.report(format!("verify {NAME}"));
    report.is(json!({"verdict": "verified", "stats/checkpoints": 2}));
    // The session continues after its end.
    sandbox.write(NAME, session(6));
    assert_eq!(
        hook(&sandbox, "gemini", &payload(&sandbox, "AfterAgent")),
        "{}\n"
    );
    assert_eq!(sandbox.verdict(format!("verify {NAME}")), "verified");
    assert!(troubles(&sandbox).is_empty());
}

// T-CAP-36
#[test]
fn a_hook_seals_no_file_but_logs_of_sessions() {
    let sandbox = ready();
    for (name, text) in [
        ("secrets.txt", "x\n"),
        ("a.jsonl", "{\"n\":1}\n"),
        ("b.json", "{}"),
    ] {
        sandbox.write(name, text);
        let payload = json!({"transcript_path": sandbox.path(name), "hook_event_name": "Stop"});
        hook(&sandbox, "claude-code", &payload.to_string());
        assert!(!sandbox.path(format!("{name}.seal")).exists(), "{name}");
    }
}

// T-CAP-37
#[test]
fn a_hook_never_fails_its_agent() {
    let sandbox = ready();
    sandbox.write(NAME, session(2));
    let stop = payload(&sandbox, "Stop");
    for (words, payload) in [
        ("", &*stop),
        ("clyde", &stop),
        ("claude-code --unknown -x", &stop),
        ("claude-code", ""),
        ("claude-code", "not JSON"),
        (
            "claude-code",
            "{\"transcript_path\":\"/dev/zero\",\"hook_event_name\":\"Stop\"}",
        ),
        (
            "claude-code",
            "{\"transcript_path\":\"/\",\"hook_event_name\":\"Stop\"}",
        ),
        ("--strict", &stop),
    ] {
        hook(&sandbox, words, payload);
    }
    assert!(!troubles(&sandbox).is_empty());
    // A record that differs from its seals is a trouble, until it fits again.
    hook(&sandbox, "claude-code", &stop);
    let changed = read(sandbox.path(NAME)).replace("text 0", "text 9");
    let whole = read(sandbox.path(NAME));
    sandbox.write(NAME, changed);
    hook(&sandbox, "claude-code", &stop);
    let last = troubles(&sandbox).pop().unwrap();
    last["why"].text().has("differs from its seals at line 1");
    sandbox.write(NAME, whole);
    hook(&sandbox, "claude-code", &stop);
    assert!(troubles(&sandbox).pop().unwrap()["why"].is_null());
    // Without a home nothing is made.
    let none = Sandbox::new();
    hook(&none, "claude-code", &payload(&none, "Stop"));
    assert!(!none.home().exists());
}

// T-CAP-38
#[test]
fn a_strict_hook_refuses_a_tool_while_the_record_cannot_be_sealed() {
    let sandbox = ready();
    sandbox.write(NAME, session(2));
    let ask = payload(&sandbox, "PreToolUse");
    assert_eq!(hook(&sandbox, "claude-code --strict", &ask), "");
    let changed = read(sandbox.path(NAME)).replace("text 0", "text 9");
    sandbox.write(NAME, changed);
    let answer: Value =
        serde_json::from_str(&hook(&sandbox, "claude-code --strict", &ask)).unwrap();
    let decision = &answer["hookSpecificOutput"];
    assert_eq!(decision["permissionDecision"], "deny");
    decision["permissionDecisionReason"]
        .text()
        .has("differs from its seals");
    assert_eq!(hook(&sandbox, "claude-code", &ask), "");
    assert_eq!(
        hook(&sandbox, "claude-code --strict", &payload(&sandbox, "Stop")),
        ""
    );
}

/// The watcher of a home.
pub(crate) struct Watcher {
    child: Child,
}

impl Watcher {
    /// Starts a watcher, and waits until it has looked at all files.
    pub(crate) fn start(sandbox: &Sandbox) -> Self {
        let mut child = sandbox
            .command()
            .arg("watch")
            .env("HOME", sandbox.path("user"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("watching") {
            line.clear();
            assert_ne!(out.read_line(&mut line).unwrap(), 0, "it ended");
        }
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Self { child }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::forget(self);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the session is sealed whole.
fn wait_for_seal(sandbox: &Sandbox) {
    wait_until("it is sealed", || {
        sandbox.sh(format!("verify {NAME}")).code == 0
    });
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = SystemClock.elapsed();
    while !is_so() {
        let waited = SystemClock.elapsed().saturating_sub(began);
        assert!(waited < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

// T-CAP-39
#[test]
fn a_watcher_seals_for_hooks_and_takes_up_what_a_killed_one_held() {
    let sandbox = ready();
    let watcher = Watcher::start(&sandbox);
    let mut second = sandbox.command();
    let second = second.arg("watch").env("HOME", sandbox.path("user"));
    let second = Ran::of(second.output().unwrap());
    assert_eq!(second.code, 2);
    second.warns("runs already");
    sandbox.write(NAME, session(2));
    hook(&sandbox, "claude-code", &payload(&sandbox, "Stop"));
    wait_for_seal(&sandbox);
    sandbox.write(NAME, session(4));
    hook(
        &sandbox,
        "claude-code --strict",
        &payload(&sandbox, "PreToolUse"),
    );
    assert_eq!(sandbox.verdict(format!("verify {NAME}")), "verified");
    watcher.kill();
    // A request that was held when the watcher was killed.
    sandbox.write(NAME, session(6));
    let held = json!({"agent": "claude-code", "event": "Stop", "session": null,
        "logs": [sandbox.path(NAME)], "database": null});
    let requests = sandbox.home().join("capture/requests.jsonl");
    fs::write(&requests, format!("{held}\n")).unwrap();
    let _watcher = Watcher::start(&sandbox);
    wait_for_seal(&sandbox);
    wait_until("no request is held", || read(&requests).is_empty());
    // Its socket is for the user alone.
    let socket = fs::metadata(sandbox.home().join("capture/watch.sock")).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&socket.permissions()) & 0o777,
        0o600
    );
}
