//! Children: this test program, started again in a role, which are killed or compete.
//!
//! The test that is started again asks for its [`role`] first. A child answers on standard output,
//! one line each.

use crate::random::SeededRandom;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{self, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Names the role, and so makes a process a child.
const ROLE: &str = "THREADSEAL_STORE_TEST_CHILD";

/// The role that the parent gave, if this process is a child.
#[expect(
    clippy::disallowed_methods,
    reason = "how a test program learns that it is the child"
)]
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Prints an answer of a child.
///
/// # Panics
/// When the parent is gone.
pub fn answer(text: &str) {
    let mut out = std::io::stdout().lock();
    // The test program leaves "test NAME ... " on the line before.
    let line = format!("\n{text}\n");
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Waits, in a child, for [`Child::release`].
///
/// # Panics
/// When standard input cannot be read.
pub fn wait_for_release() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// A child; it ends with the value, also in a test that fails.
#[derive(Debug)]
pub struct Child(process::Child);

/// Starts the test of this name as a child.
///
/// # Panics
/// When the system starts no process.
pub fn start(test: &str, role: &str) -> Child {
    let child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    Child(child.unwrap())
}

/// Starts several children.
pub fn start_many(test: &str, role: &str, count: usize) -> Vec<Child> {
    (0..count).map(|_| start(test, role)).collect()
}

impl Child {
    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Its output from here on; it can be taken once.
    pub fn lines(&mut self) -> Lines<BufReader<ChildStdout>> {
        BufReader::new(self.0.stdout.take().unwrap()).lines()
    }

    /// Lets it go on from [`wait_for_release`].
    pub fn release(&mut self) {
        let input = self.0.stdin.as_mut().unwrap();
        input.write_all(b"\n").unwrap();
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for its end, asserts that it succeeded, and returns the lines that were not read.
    pub fn succeed(mut self) -> Vec<String> {
        let lines = self.0.stdout.take().map(|out| BufReader::new(out).lines());
        let lines: Vec<String> = lines.into_iter().flatten().map_while(Result::ok).collect();
        assert!(self.0.wait().unwrap().success(), "{}", lines.join("\n"));
        lines
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, and is waited for all the same.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills so many children, one after the other, and returns how many had answered.
///
/// One in four is killed at any moment of its life, the others within `micros` after their first
/// answer: however slow the machine is, most kills must find a busy child. `parse` reads a number
/// from a line; `check` gets the last number of each child.
pub fn kill_many(
    test: &str,
    role: &str,
    kills: usize,
    micros: usize,
    parse: fn(&str) -> Option<u64>,
    mut check: impl FnMut(Option<u64>),
) -> usize {
    let lots = SeededRandom::new(7);
    let mut busy = 0;
    for kill in 0..kills {
        let mut child = start(test, role);
        let lines = child.lines().map_while(Result::ok);
        let (to_parent, first_answer) = mpsc::channel();
        let reader = thread::spawn(move || {
            let numbers = lines.filter_map(|line| parse(&line));
            numbers
                .inspect(|_| to_parent.send(()).unwrap_or_default())
                .last()
        });
        if !kill.is_multiple_of(4) {
            let first = first_answer.recv_timeout(Duration::from_secs(60));
            first.expect("the child answers");
        }
        thread::sleep(Duration::from_micros(lots.below(micros) as u64));
        child.kill();
        let last = reader.join().unwrap();
        busy += usize::from(last.is_some());
        check(last);
    }
    busy
}
