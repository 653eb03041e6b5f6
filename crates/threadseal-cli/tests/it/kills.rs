//! Agents, hooks and watchers are killed at random moments: no seal is lost, nothing honest is
//! accused, and all is sealed within seconds of the next start.
//!
//! ```text
//! two agents write (half a line, its rest; a document anew) and call hooks ─┐
//!   ─► kill -9 of an agent, a hook or the watcher ─► start what was killed ─┴─► all sealed? verified?
//! ```
//! `THREADSEAL_KILLS=N` plays N rounds.

use crate::archive::turns;
use crate::histories::Random;
use crate::hook::Watcher;
use crate::prelude::*;
use crate::sandbox::{PROGRAM, option_env};
use std::os::unix::process::CommandExt as _;
use threadseal_store::clock::{Clock as _, SystemClock};

/// Rounds, if no number is asked for.
const KILLS: usize = 20;
/// In which time after a start all must be sealed.
const SEALED_WITHIN: Duration = Duration::from_secs(5);
/// The longest time, in milliseconds, until something is killed.
const MOMENTS: usize = 120;

const LINES: &str = "user/.claude/projects/-w/3f9c1a2e-0b1c-4d5e-8f60-718293a4b5c6.jsonl";
const SESSION: &str = "3f9c1a2e-0b1c-4d5e-8f60-718293a4b5c6";
const DOCUMENT: &str = "user/.continue/sessions/5b2d7e90-1f3a-4c6b-9d8e-0a1b2c3d4e5f.json";

/// Appends a line in two parts, then calls the hook; for ever.
const APPENDS: &str = r#"n=$1
while :; do
  printf '{"parentUuid":null,"isSidechain":false,"uuid":"u%s",' "$n" >> "$LOG"
  printf '"timestamp":"2026-11-21T20:41:00.000Z","cwd":"/w","sessionId":"%s","version":"2.1.197","type":"user","message":{"role":"user","content":"text %s"}}\n' "$SESSION" "$n" >> "$LOG"
  printf '{"session_id":"%s","transcript_path":"%s","cwd":"/w","hook_event_name":"PostToolUse"}' "$SESSION" "$LOG" | "$PROGRAM" --home "$HOMES" hook claude-code
  n=$((n+1))
done"#;

/// Writes a document anew under its name, as often as it can.
const REWRITES: &str = r#"n=$1
while :; do
  printf '{"sessionId":"5b2d7e90-1f3a-4c6b-9d8e-0a1b2c3d4e5f","title":"t","workspaceDirectory":"/w","history":[{"message":{"role":"user","content":"text %s"},"contextItems":[]}]}' "$n" > "$DOCUMENT.new"
  mv "$DOCUMENT.new" "$DOCUMENT"
  n=$((n+1))
  sleep 0.05
done"#;

/// A shell that plays an agent, with all that it starts.
struct Agent(Child);

impl Agent {
    fn start(sandbox: &Sandbox, script: &str, number: usize) -> Self {
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "agent", &number.to_string()])
            .env("LOG", sandbox.path(LINES))
            .env("DOCUMENT", sandbox.path(DOCUMENT))
            .env("SESSION", SESSION)
            .env("PROGRAM", PROGRAM)
            .env("HOMES", sandbox.home())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Ends the agent at once. A hook that it started continues.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is sealed of the log: its lines, and the seal's number.
fn sealed_lines(sandbox: &Sandbox) -> (u64, u64) {
    let seals = fs::read_to_string(format!("{}.seal", sandbox.path(LINES).display()));
    let seals = seals.unwrap_or_default();
    let mut seals = seals
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = seals.rfind(|line| line["seal"].is_object());
    last.map_or((0, 0), |line| {
        let number = |name: &str| line["seal"][name].as_u64().unwrap();
        (number("lines"), number("seq"))
    })
}

fn whole_lines(sandbox: &Sandbox) -> u64 {
    let bytes = fs::read(sandbox.path(LINES)).unwrap();
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Waits until all whole lines, and the document as it is, are sealed and archived.
fn wait_until_sealed(sandbox: &Sandbox, since: Duration, round: usize) {
    let is_sealed = || {
        sealed_lines(sandbox).0 == whole_lines(sandbox)
            && sandbox.sh(format!("verify {DOCUMENT}")).code == 0
    };
    while !is_sealed() {
        let late = SystemClock.elapsed().saturating_sub(since);
        assert!(
            late < SEALED_WITHIN,
            "round {round}: {:?} of {} lines sealed after {late:?}\n{}",
            sealed_lines(sandbox),
            whole_lines(sandbox),
            sandbox.sh(format!("verify {DOCUMENT}")).stdout
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Nothing is accused, in the files or in the archive.
fn judge(sandbox: &Sandbox, round: usize) {
    for line in [
        format!("verify {LINES}"),
        format!("verify {DOCUMENT}"),
        "verify user".to_owned(),
    ] {
        let ran = sandbox.sh(&line);
        assert!(
            ran.code == 0 || ran.code == 3,
            "round {round}: {line}: {}\n{}",
            ran.code,
            ran.stdout
        );
    }
    let seals = |path: &PathBuf| path.to_string_lossy().ends_with(".seal.seal");
    assert!(!walk(&sandbox.path("user")).iter().any(seals));
    let listed = sandbox.json("list --fresh");
    for session in listed["sessions"].list() {
        let state = session["state"].text();
        assert!(
            ["verified", "growing"].contains(&state),
            "round {round}: {session:#}"
        );
    }
    assert_eq!(listed["sessions"].list().len(), 2, "{listed:#}");
    sandbox.ok("archive fsck");
    sandbox.ok("log fsck");
}

// T-CAP-43
#[test]
fn no_kill_loses_a_seal_or_accuses_a_session() {
    let rounds = option_env("THREADSEAL_KILLS");
    let rounds = rounds.map_or(KILLS, |text| text.to_str().unwrap().parse().unwrap());
    let sandbox = ready();
    let mut random = Random::new(rounds as u64);
    sandbox.write(LINES, turns(SESSION, 0, "begin"));
    fs::create_dir_all(sandbox.path(DOCUMENT).parent().unwrap()).unwrap();
    let mut writer = Agent::start(&sandbox, APPENDS, 0);
    let mut rewriter = Agent::start(&sandbox, REWRITES, 0);
    let mut watcher = Watcher::start(&sandbox);
    let mut before = (0, 0);
    for round in 1..=rounds {
        let moment = |random: &mut Random| {
            let wait = random.below(MOMENTS) as u64;
            std::thread::sleep(Duration::from_millis(wait));
        };
        moment(&mut random);
        match random.below(3) {
            0 => watcher.kill(),
            1 => {
                let payload = json!({"session_id": SESSION, "transcript_path": sandbox.path(LINES),
                    "hook_event_name": "Stop"});
                let mut hook = sandbox
                    .command()
                    .args(["hook", "claude-code"])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .spawn()
                    .unwrap();
                let _ = hook
                    .stdin
                    .take()
                    .unwrap()
                    .write_all(payload.to_string().as_bytes());
                std::thread::sleep(Duration::from_micros(random.below(20_000) as u64));
                let _ = hook.kill();
                hook.wait().unwrap();
                watcher.kill();
            }
            _ => {
                writer.kill();
                rewriter.kill();
                writer = Agent::start(&sandbox, APPENDS, round * 1000);
                rewriter = Agent::start(&sandbox, REWRITES, round * 1000);
                moment(&mut random);
                watcher.kill();
            }
        }
        // Hooks work on alone; then the agents stop in whatever they do.
        moment(&mut random);
        writer.kill();
        rewriter.kill();
        let since = SystemClock.elapsed();
        watcher = Watcher::start(&sandbox);
        wait_until_sealed(&sandbox, since, round);
        let now = sealed_lines(&sandbox);
        assert!(now.0 >= before.0 && now.1 >= before.1, "{before:?} {now:?}");
        before = now;
        judge(&sandbox, round);
        // An agent that is started again first ends its half line, as a resumed one does.
        if !fs::read(sandbox.path(LINES)).unwrap().ends_with(b"\n") {
            let mut file = fs::File::options();
            let mut file = file.append(true).open(sandbox.path(LINES)).unwrap();
            file.write_all(b"\n").unwrap();
        }
        writer = Agent::start(&sandbox, APPENDS, round * 1000);
        rewriter = Agent::start(&sandbox, REWRITES, round * 1000);
    }
}
