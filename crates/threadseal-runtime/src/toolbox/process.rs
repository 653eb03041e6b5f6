//! Runs a command that a tool declares, within its bounds.
//!
//! ```text
//! argv, no shell ─► under a supervisor ─► stdin, then closed
//!                        │ stdout, stderr: kept up to a bound, read to their end
//!                        ├─ exits            Ended { code or signal, output }
//!                        ├─ timeout          TimedOut
//!                        └─ thread stops     Stopped
//! ```
//! The environment contains only the variables that the caller lists. Processes that a command
//! leaves running end with it: all of them under a supervisor ([`super::supervisor`]), those of its
//! group without one.

use super::script::ScriptFile;
use super::supervisor::{Launch, Launched, Supervisor};
use super::{Cancel, Stopped};
use crate::bounds::{KILL_GRACE, POLL_INTERVAL};
use std::io::{PipeWriter, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) argv: Vec<String>,
    /// What ends all that it starts.
    pub(crate) supervisor: Option<Supervisor>,
    /// Where it runs.
    pub(crate) directory: PathBuf,
    /// The complete environment.
    pub(crate) environment: Vec<(String, String)>,
    /// The script that its arguments name, until it ends.
    pub(crate) script: Option<ScriptFile>,
    /// Its standard input.
    pub(crate) stdin: Vec<u8>,
    /// How long it may take.
    pub(crate) timeout: Duration,
    /// Most bytes that are kept of each output.
    pub(crate) max_output_bytes: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Output {
    /// Its bytes, as far as they are kept.
    pub(crate) bytes: Vec<u8>,
    /// The number of bytes that the command wrote.
    pub(crate) total: u64,
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It ended; this program did not stop it.
    Ended(ExitStatus),
    TimedOut,
    /// It was killed because the thread shall stop.
    Stopped(Stopped),
}

/// Runs `task` to its end.
///
/// # Errors
/// Kind `InvalidInput` when it names no program, `External` when it cannot be started: nothing has
/// run then.
pub(crate) fn run(task: Task, cancel: &Cancel) -> Result<(Fate, Output, Output), Error> {
    let launch = Launch {
        argv: &task.argv,
        directory: &task.directory,
        environment: &task.environment,
        stderr: Stdio::piped(),
    };
    let Launched {
        mut child,
        input,
        mut tether,
    } = launch.start(task.supervisor.as_ref())?;
    feed(input, task.stdin);
    let most = task.max_output_bytes;
    let stdout = child.stdout.take().map(|pipe| drain(pipe, most));
    let stderr = child.stderr.take().map(|pipe| drain(pipe, most));
    let ended = tether.watch(child).map_err(|error| {
        Error::new(ErrorKind::External, format!("cannot watch it: {error}")).with_source(error)
    })?;
    let fate = watch(&ended, task.timeout, cancel);
    // Also after a command has ended: processes that it left behind must not outlive the call.
    match fate {
        Fate::Ended(_) => tether.cut(),
        Fate::TimedOut | Fate::Stopped(_) => tether.cut_and_wait(&ended),
    }
    drop(task.script);
    Ok((fate, collect(stdout), collect(stderr)))
}

/// Writes its standard input on an OS thread of its own: a command that writes before it reads
/// would block us both.
fn feed(mut input: PipeWriter, bytes: Vec<u8>) {
    // A command need not read its standard input.
    thread::spawn(move || input.write_all(&bytes));
}

type Drained = (Arc<Mutex<Output>>, Receiver<()>);

fn drain(mut pipe: impl Read + Send + 'static, bound: usize) -> Drained {
    let (send, ended) = mpsc::channel();
    let output = Arc::new(Mutex::new(Output::default()));
    let kept = Arc::clone(&output);
    thread::spawn(move || {
        let mut chunk = [0; 64 << 10];
        while let Ok(count @ 1..) = pipe.read(&mut chunk) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let room = bound.saturating_sub(kept.bytes.len()).min(count);
            kept.bytes.extend_from_slice(&chunk[..room]);
            kept.total += count as u64;
        }
        let _ = send.send(());
    });
    (output, ended)
}

/// The output so far: a process that left the group may hold the pipe open for ever.
fn collect(drained: Option<Drained>) -> Output {
    let Some((output, ended)) = drained else {
        return Output::default();
    };
    let _ = ended.recv_timeout(KILL_GRACE);
    let output = output.lock().unwrap_or_else(PoisonError::into_inner);
    output.clone()
}

fn watch(ended: &Receiver<ExitStatus>, timeout: Duration, cancel: &Cancel) -> Fate {
    let mut left = timeout;
    loop {
        let slice = left.min(POLL_INTERVAL);
        match ended.recv_timeout(slice) {
            Ok(status) => return Fate::Ended(status),
            // Waiting for a child fails only when other code has reaped it.
            Err(RecvTimeoutError::Disconnected) => return Fate::Ended(ExitStatus::from_raw(-1)),
            Err(RecvTimeoutError::Timeout) => left -= slice,
        }
        if let Some(why) = cancel.why() {
            return Fate::Stopped(why);
        }
        if left.is_zero() {
            return Fate::TimedOut;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Task {
        Task {
            argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            supervisor: None,
            directory: "/".into(),
            environment: vec![("GREETING".to_owned(), "hello".to_owned())],
            script: None,
            stdin: b"from stdin".to_vec(),
            timeout: Duration::from_secs(20),
            max_output_bytes: 1000,
        }
    }

    fn ran(task: Task) -> (Fate, Output, Output) {
        run(task, &Cancel::default()).unwrap()
    }

    #[test]
    fn a_command_gets_its_input_and_its_environment_and_nothing_else() {
        let (fate, out, err) = ran(shell(
            "cat; echo; /usr/bin/env | grep -v '^PWD\\|^_\\|^SHLVL\\|^OLDPWD'; echo no >&2; exit 3",
        ));
        let code = |status: ExitStatus| status.code() == Some(3);
        assert!(
            matches!(fate, Fate::Ended(status) if code(status)),
            "{fate:?}"
        );
        assert_eq!(out.bytes, b"from stdin\nGREETING=hello\n");
        assert_eq!(err.bytes, b"no\n");
    }

    #[test]
    fn output_beyond_its_bound_is_counted_and_not_kept() {
        let (fate, out, _) = ran(shell("head -c 300000 /dev/zero"));
        assert!(matches!(fate, Fate::Ended(status) if status.success()));
        assert_eq!((out.bytes.len(), out.total), (1000, 300_000));
    }

    // T-TOL-07
    #[test]
    fn what_takes_too_long_dies_with_all_that_it_started() {
        let mut task = shell("sleep 60 & echo $!; sleep 60");
        task.timeout = Duration::from_millis(300);
        let (fate, out, _) = ran(task);
        assert_eq!(fate, Fate::TimedOut);
        let process = String::from_utf8(out.bytes).unwrap();
        let stat = std::path::Path::new("/proc")
            .join(process.trim())
            .join("stat");
        let runs = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        let ended = (0..40).any(|_| !runs() || Cancel::default().within(Duration::from_millis(50)));
        assert!(ended, "a process of the group outlived it");
    }

    #[test]
    fn a_command_that_leaves_a_process_behind_does_not_hold_us_up() {
        let (fate, out, _) = ran(shell("sleep 60 & echo done"));
        assert!(matches!(fate, Fate::Ended(status) if status.success()));
        assert_eq!(out.bytes, b"done\n");
    }

    #[test]
    fn what_was_written_is_kept_when_a_process_leaves_the_group_with_the_pipe() {
        let (fate, out, _) = ran(shell("echo said; setsid sleep 6 & sleep 0.3"));
        assert!(matches!(fate, Fate::Ended(status) if status.success()));
        assert_eq!(out.bytes, b"said\n");
    }

    #[test]
    fn a_cancelled_thread_kills_its_command() {
        let cancel = Cancel::default();
        let setter = cancel.clone();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            setter.set();
        });
        assert_eq!(
            run(shell("sleep 60"), &cancel).unwrap().0,
            Fate::Stopped(Stopped::Asked)
        );
    }

    #[test]
    fn a_signal_is_told_from_an_exit_code_and_a_missing_program_from_both() {
        let (fate, ..) = ran(shell("kill -9 $$"));
        let signal = |status: ExitStatus| status.signal() == Some(9);
        assert!(
            matches!(fate, Fate::Ended(status) if signal(status)),
            "{fate:?}"
        );
        let mut task = shell("");
        task.argv = vec!["/no/such/program".to_owned()];
        assert!(run(task, &Cancel::default()).is_err());
    }
}
