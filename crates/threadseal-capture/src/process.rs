//! Programs that run with a time limit: an agent for its version, a service manager, a hook.
//!
//! The limit also ends what the program started: its process group, and on Windows its descendants.
//! Its output is read to a bound, and the rest is dropped.

use std::io::{Read, Write as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_store::sys;

/// The most bytes that are kept of each stream.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;
/// How long the ends of a program's streams are awaited after its end: a process that it left
/// running may hold them open.
const AFTER_THE_END: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The end of a program.
#[derive(Debug)]
pub struct Ended {
    /// How it ended; `None` if the limit ended it.
    pub status: Option<ExitStatus>,
    /// The start of its standard output.
    pub stdout: Vec<u8>,
    /// The start of its standard error.
    pub stderr: Vec<u8>,
}

impl Ended {
    /// Did it end within the limit, with 0?
    pub fn succeeded(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Standard output as text, without blanks at its ends.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }

    /// Why it did not succeed, in a few words.
    pub fn reason(&self) -> String {
        let stderr = String::from_utf8_lossy(&self.stderr);
        let first = stderr.lines().find(|line| !line.trim().is_empty());
        match (self.status, first) {
            (None, _) => "it did not end in time".to_owned(),
            (Some(_), Some(line)) => line.trim().to_owned(),
            (Some(status), None) => match status.code() {
                Some(code) => format!("it ended with {code}"),
                None => "a signal ended it".to_owned(),
            },
        }
    }
}

/// Runs a program with `input` on its standard input, for at most `limit`.
///
/// # Errors
/// When it cannot be started.
pub fn run(command: &mut Command, input: &[u8], limit: Duration) -> Result<Ended, Error> {
    let mut running = Running::start(command)?;
    running.write_all(input.to_vec());
    Ok(running.finish(limit))
}

/// A program that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
}

impl Running {
    /// Starts a program with pipes.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Result<Self, Error> {
        let (mut child, input) = spawn(command)?;
        let stdout = drained(child.stdout.take());
        let stderr = drained(child.stderr.take());
        Ok(Self {
            child,
            input: Some(input),
            stdout,
            stderr,
        })
    }

    /// Writes all of its input in another thread, and closes it.
    fn write_all(&mut self, bytes: Vec<u8>) {
        if let Some(mut input) = self.input.take() {
            thread::spawn(move || {
                // A program that reads nothing closes the pipe; its exit status counts.
                let _ = input.write_all(&bytes);
            });
        }
    }

    /// Waits for its end, or ends it after `limit`.
    fn finish(mut self, limit: Duration) -> Ended {
        drop(self.input.take());
        let status = wait(&mut self.child, limit);
        let read = |stream: &Receiver<Vec<u8>>| stream.recv_timeout(AFTER_THE_END);
        Ended {
            status,
            stdout: read(&self.stdout).unwrap_or_default(),
            stderr: read(&self.stderr).unwrap_or_default(),
        }
    }
}

/// A program that answers lines with lines.
#[derive(Debug)]
pub struct Dialogue {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Dialogue {
    /// Starts it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> Result<Self, Error> {
        let (mut child, input) = spawn(command)?;
        drop(drained(child.stderr.take()));
        let lines = lines_of(child.stdout.take());
        Ok(Self {
            child,
            input,
            lines,
        })
    }

    /// Writes one line.
    ///
    /// # Errors
    /// When the program has closed its input.
    pub fn send(&mut self, line: &str) -> Result<(), Error> {
        let written = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        written.map_err(|error| failed("it takes no input", &sys::reason(&error)))
    }

    /// Reads one line, for at most `limit`.
    ///
    /// # Errors
    /// When none arrives.
    pub fn receive(&mut self, limit: Duration) -> Result<String, Error> {
        self.lines.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => failed("no answer", "it took too long"),
            RecvTimeoutError::Disconnected => failed("no answer", "the program ended"),
        })
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn failed(what: &str, why: &str) -> Error {
    Error::new(ErrorKind::External, format!("{what}: {why}"))
}

fn spawn(command: &mut Command) -> Result<(Child, ChildStdin), Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let pipes = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let cannot = |why: &str| failed(&format!("cannot run {name}"), why);
    let mut child = tree::separate(pipes)
        .spawn()
        .map_err(|error| cannot(&sys::reason(&error)))?;
    match child.stdin.take() {
        Some(input) => Ok((child, input)),
        None => Err(cannot("it has no input")),
    }
}

/// Reads a stream to its end in another thread.
fn drained(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut stream) = stream {
            // After an error the bytes so far count.
            let _ = stream
                .by_ref()
                .take(MAX_OUTPUT_BYTES)
                .read_to_end(&mut kept);
            let _ = send.send(kept);
            // A program whose pipe is full would stop.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    receive
}

fn lines_of(stream: Option<impl Read + Send + 'static>) -> Receiver<String> {
    use std::io::{BufRead as _, BufReader};
    let (send, receive) = channel();
    thread::spawn(move || {
        let Some(stream) = stream else { return };
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            let limited = reader
                .by_ref()
                .take(MAX_OUTPUT_BYTES)
                .read_until(b'\n', &mut line);
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if limited.unwrap_or(0) == 0 || send.send(text).is_err() {
                return;
            }
        }
    });
    receive
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let mut waited = Duration::ZERO;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if waited < limit => {
                thread::sleep(LOOK_AGAIN);
                waited += LOOK_AGAIN;
            }
            _ => {
                end(child);
                return None;
            }
        }
    }
}

/// Ends the process and what it started.
fn end(child: &mut Child) {
    tree::kill(child.id());
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(unix)]
mod tree {
    use rustix::process::{Pid, Signal, kill_process_group};
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    pub(super) fn separate(command: &mut Command) -> &mut Command {
        command.process_group(0)
    }

    pub(super) fn kill(root: u32) {
        if let Some(group) = i32::try_from(root).ok().and_then(Pid::from_raw) {
            // It may have ended already; the wait reports nothing more.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(windows)]
mod tree {
    use std::process::{Command, Stdio};

    /// A process knows its parent there, and Ctrl+C reaches all of the console in any case.
    pub(super) fn separate(command: &mut Command) -> &mut Command {
        command
    }

    /// What a process started that has ended already is not found.
    pub(super) fn kill(root: u32) {
        let mut command = Command::new("taskkill");
        command.args(["/F", "/T", "/PID", &root.to_string()]);
        command.stdin(Stdio::null());
        // It may have ended already; the wait reports nothing more.
        let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_program_gets_its_input_and_its_output_is_kept_to_a_bound() {
        let ended = run(&mut sh("cat; echo no >&2; exit 3"), b"text", LONG).unwrap();
        assert_eq!(ended.text(), "text");
        assert_eq!(ended.status.unwrap().code(), Some(3));
        assert_eq!(ended.reason(), "no");
        let much = run(&mut sh("yes | head -c 9000000"), b"", LONG).unwrap();
        assert!(much.succeeded());
        assert_eq!(much.stdout.len() as u64, MAX_OUTPUT_BYTES);
    }

    // T-CAP-07
    #[test]
    fn a_program_that_does_not_end_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! > '{}'; wait", file.display());
        let ended = run(&mut sh(&script), b"", Duration::from_millis(300)).unwrap();
        assert!(ended.status.is_none());
        assert!(ended.reason().contains("in time"));
        let pid: i32 = std::fs::read_to_string(&file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        // Its parent is gone, so init reaps it soon.
        let mut alive = true;
        for _ in 0..400 {
            alive = rustix::process::test_kill_process(pid).is_ok() && !is_zombie(pid);
            if !alive {
                break;
            }
            thread::sleep(LOOK_AGAIN);
        }
        assert!(!alive);
    }

    fn is_zombie(pid: rustix::process::Pid) -> bool {
        let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
        std::fs::read_to_string(path).is_ok_and(|stat| stat.contains(") Z "))
    }

    #[test]
    fn a_program_that_cannot_start_is_named() {
        let refused = run(&mut Command::new("/no/such/program"), b"", LONG).unwrap_err();
        assert!(
            refused.to_string().contains("/no/such/program"),
            "{refused}"
        );
    }

    #[test]
    fn lines_are_answered_with_lines() {
        let script = "read a; echo \"got $a\"; read b; exit";
        let mut dialogue = Dialogue::start(&mut sh(script)).unwrap();
        dialogue.send("one").unwrap();
        assert_eq!(dialogue.receive(LONG).unwrap(), "got one");
        dialogue.send("two").unwrap();
        assert!(
            dialogue
                .receive(LONG)
                .unwrap_err()
                .to_string()
                .contains("ended")
        );
        let mut silent = Dialogue::start(&mut sh("sleep 1000")).unwrap();
        let late = silent.receive(Duration::from_millis(50)).unwrap_err();
        assert!(late.to_string().contains("too long"));
    }
}
