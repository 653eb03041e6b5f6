//! `watch`: logs are sealed while they grow.

use crate::prelude::*;
use std::fs::File;
use std::process::ChildStdout;

struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watching {
    fn start(sandbox: &Sandbox) -> Self {
        let mut child = sandbox
            .command()
            .args(["watch", "logs", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits for the next seal; passes over the report of its start.
    fn sealed(&mut self) -> Value {
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).unwrap();
            schemas::check(&line);
            let value: Value = serde_json::from_str(&line).unwrap();
            if value["schema"] != "threadseal.watch.folders/1" {
                return value;
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn append(sandbox: &Sandbox, name: &str, text: &str) {
    let path = sandbox.path(name);
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// How often a process has read so far.
#[cfg(target_os = "linux")]
fn reads(process: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{process}/io")).unwrap();
    let reads = io.lines().find_map(|line| line.strip_prefix("syscr: "));
    reads.unwrap().parse().unwrap()
}

// T-CMD-22
#[cfg(target_os = "linux")]
#[test]
fn a_watcher_does_not_wake_itself_by_reading() {
    let sandbox = ready();
    for number in 0..10 {
        let folder = sandbox.path(format!("logs/{number}"));
        fs::create_dir_all(&folder).unwrap();
        append(&sandbox, &format!("logs/{number}/a.jsonl"), "{\"n\":1}\n");
    }
    let mut watching = Watching::start(&sandbox);
    (0..10).for_each(|_| drop(watching.sealed()));
    // A new file below a folder, so that the system reports something.
    append(&sandbox, "logs/3/b.jsonl", "{\"n\":2}\n");
    watching.sealed();
    std::thread::sleep(Duration::from_millis(500));
    let before = reads(watching.child.id());
    std::thread::sleep(Duration::from_secs(1));
    let more = reads(watching.child.id()) - before;
    assert!(more < 100, "{more} reads while nothing changed");
}

// T-CMD-04
#[test]
fn logs_are_sealed_as_they_grow_and_refusals_are_reported() {
    let sandbox = ready();
    fs::create_dir_all(sandbox.path("logs/deep")).unwrap();
    append(&sandbox, "logs/a.jsonl", "{\"n\":1}\n");
    ended_record(&sandbox, "logs/own.jsonl", 1);
    let mut watching = Watching::start(&sandbox);
    let first = watching.sealed();
    first.is(json!({"path": "logs/a.jsonl", "lines": 1}));
    append(&sandbox, "logs/a.jsonl", "{\"n\":2}\n{\"n\":3}\n");
    assert_eq!(watching.sealed()["lines"], 3);
    append(&sandbox, "logs/deep/b.JSONL", "{\"n\":1}\n");
    let third = watching.sealed();
    assert!(
        third["path"].text().ends_with("logs/deep/b.JSONL"),
        "{third}"
    );
    sandbox.ok("verify logs");
    assert!(!sandbox.path("logs/own.jsonl.seal").exists());

    let log = sandbox.path("logs/a.jsonl");
    let changed = read(&log).replace('2', "7");
    fs::write(&log, changed).unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(watching.child.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    said.has("differs from its seals at line 2");
    sandbox.exits(1, "verify logs");
}

// T-KLOG-13
#[test]
fn watching_continues_after_a_restart_of_the_log() {
    let sandbox = ready();
    fs::create_dir(sandbox.path("logs")).unwrap();
    append(&sandbox, "logs/a.jsonl", "{\"n\":1}\n");
    let mut watching = Watching::start(&sandbox);
    assert_eq!(watching.sealed()["lines"], 1);
    // The restart is refused while the first seal is being added to the log.
    let restart = || {
        let mut command = sandbox.command();
        let ran = command.args(["log", "restart", "--anyway"]).output();
        ran.unwrap().status.success()
    };
    assert!((0..100).any(|_| restart()));
    append(&sandbox, "logs/a.jsonl", "{\"n\":2}\n");
    assert_eq!(watching.sealed()["lines"], 2);
    append(&sandbox, "logs/b.jsonl", "{\"n\":1}\n");
    assert_eq!(watching.sealed()["lines"], 1);
    drop(watching);
    sandbox.ok("verify --all logs");
}

// T-KLOG-66
#[test]
fn watching_continues_under_the_next_key() {
    let sandbox = ready();
    fs::create_dir(sandbox.path("logs")).unwrap();
    append(&sandbox, "logs/a.jsonl", "{\"n\":1}\n");
    let mut watching = Watching::start(&sandbox);
    assert_eq!(watching.sealed()["lines"], 1);
    for lines in [2, 3] {
        sandbox.ok("key rotate self-observed");
        append(&sandbox, "logs/a.jsonl", "{\"n\":2}\n");
        assert_eq!(watching.sealed()["lines"], lines);
        assert_eq!(named_keys(&sandbox), lines - 1);
    }
    drop(watching);
    let report = sandbox.json("verify logs/a.jsonl");
    assert_eq!(report["results"][0]["signers"].list().len(), 3, "{report}");
}

/// How many next keys the seal file names.
fn named_keys(sandbox: &Sandbox) -> u64 {
    let seals = sandbox.read("logs/a.jsonl.seal");
    seals.matches("\"next\":{").count() as u64
}

// T-KLOG-67
#[test]
fn watching_seals_nothing_with_a_revoked_key_until_there_is_a_next_one() {
    let sandbox = ready();
    fs::create_dir(sandbox.path("logs")).unwrap();
    append(&sandbox, "logs/a.jsonl", "{\"n\":1}\n");
    let mut watching = Watching::start(&sandbox);
    assert_eq!(watching.sealed()["lines"], 1);
    let mut stderr = BufReader::new(watching.child.stderr.take().unwrap());
    let mut reported = || {
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        line
    };
    sandbox.ok("key revoke self-observed --why stolen");
    append(&sandbox, "logs/a.jsonl", "{\"n\":2}\n");
    let refused = reported();
    refused.has("self-observed has ended");
    refused.has("hint: threadseal key rotate self-observed");
    append(&sandbox, "logs/b.jsonl", "{\"n\":1}\n");
    // The next key seals what was refused, but continues no seals of the revoked one.
    sandbox.ok("key rotate self-observed");
    append(&sandbox, "logs/c.jsonl", "{\"n\":1}\n");
    reported().has("self-observed is another key now");
    reported().has("another key made the seals of this log; hint: ");
    let mut sealed = [watching.sealed(), watching.sealed()].map(|seal| seal["path"].clone());
    sealed.sort_by_key(ToString::to_string);
    assert_eq!(sealed, ["logs/b.jsonl", "logs/c.jsonl"]);
    sandbox.ok("seal --restart --why stolen logs/a.jsonl");
    append(&sandbox, "logs/a.jsonl", "{\"n\":3}\n");
    assert_eq!(watching.sealed()["lines"], 3);
    drop(watching);
    sandbox.ok("verify logs");
}

#[test]
fn watching_ends_with_2_without_a_reader_and_needs_a_folder() {
    let sandbox = ready();
    sandbox.sh("watch absent").fails_with("absent");
    sandbox.write("file", "");
    sandbox.sh("watch file").fails_with("file");
    append_after_close(&sandbox);
}

fn append_after_close(sandbox: &Sandbox) {
    fs::create_dir(sandbox.path("logs")).unwrap();
    append(sandbox, "logs/a.jsonl", "{\"n\":1}\n");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = sandbox
        .command()
        .args(["watch", "logs"])
        .stdout(writer)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
}
