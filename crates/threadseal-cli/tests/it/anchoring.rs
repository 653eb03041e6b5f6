//! `anchor check --every` runs while other processes seal.

use crate::anchor::{logged, seal};
use crate::prelude::*;
use crate::tsa::{Stamping, add, authority, honest};
use std::process::ChildStdout;
use std::thread;
use tempfile::TempDir;

struct Anchoring {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Anchoring {
    fn start(sandbox: &Sandbox, more: &str) -> Self {
        let mut child = sandbox
            .command()
            .args(["anchor", "check", "--every", "0.1"])
            .args(words(more))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits for the next line.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// The size of the log and the state of its one authority, from the next line.
    fn round(&mut self) -> (u64, String) {
        let told: Value = serde_json::from_str(&self.line()).unwrap();
        let state = told["authorities"][0]["state"].text();
        (told["size"].number(), state.to_owned())
    }

    fn end(&mut self, signal: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Anchoring {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stamped() -> (Sandbox, TempDir, Stamping) {
    let (sandbox, _) = logged();
    let tools = tempfile::tempdir().unwrap();
    let (stamping, root) = authority(&tools.path().join("a"));
    add(&sandbox, "tsa", &stamping.url, &root);
    (sandbox, tools, stamping)
}

// T-WIT-25
#[test]
fn a_log_is_stamped_whenever_it_has_grown_and_again_where_nobody_answered() {
    let (sandbox, _tools, stamping) = stamped();
    let mut anchoring = Anchoring::start(&sandbox, "--json");
    assert_eq!(anchoring.round(), (2, "stamped".to_owned()));
    // The authority gets no request while the log has no new entry.
    thread::sleep(Duration::from_millis(500));
    assert_eq!(stamping.asked(), 1);
    seal(&sandbox, "second");
    assert_eq!(anchoring.round(), (3, "stamped".to_owned()));
    *stamping.change.lock().unwrap() = |_| (500, Vec::new());
    seal(&sandbox, "third");
    let (size, state) = anchoring.round();
    assert_eq!((size, state.as_str()), (4, "behind"));
    *stamping.change.lock().unwrap() = honest;
    while anchoring.round() != (4, "stamped".to_owned()) {}
    assert_eq!(anchoring.end("TERM"), Some(0));
    assert_eq!(anchoring.line(), "");
    sandbox.ok("anchor check --offline");
}

#[test]
fn each_round_is_one_line_and_a_signal_ends_it() {
    let (sandbox, _tools, _stamping) = stamped();
    let mut anchoring = Anchoring::start(&sandbox, "");
    let line = anchoring.line();
    assert!(line.starts_with("2 entries"), "{line}");
    line.has("tsa  stamped: 2 entries");
    assert_eq!(anchoring.end("INT"), Some(0));
    assert_eq!(anchoring.line(), "");
}

#[test]
fn what_cannot_be_asked_for_is_said_at_once() {
    let (sandbox, _tools, _stamping) = stamped();
    let run = |more: &str| sandbox.sh(format!("anchor check --every {more}"));
    for bad in ["0", "0.05", "-1", "nan", "soon", "1e99"] {
        run(bad).exits(2);
    }
    run("1 --offline").exits(2);
    run("1 nobody").exits(2);
}
