//! The runtime's side: a tool is started, and held by its [`Tether`].

use super::cgroup::Cgroup;
use super::{ENDED, FAILED, STARTED, send};
use crate::bounds::{KILL_GRACE, MAX_REPORT_BYTES, START_PATIENCE};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use threadseal_core::error::{Error, ErrorKind};

/// How a program is started that calls [`supervise`](super::supervise) with the words after its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Supervisor(Arc<[OsString]>);

/// A program to start.
pub(in crate::toolbox) struct Launch<'a> {
    pub(in crate::toolbox) argv: &'a [String],
    /// Where it runs.
    pub(in crate::toolbox) directory: &'a Path,
    /// The complete environment.
    pub(in crate::toolbox) environment: &'a [(String, String)],
    pub(in crate::toolbox) stderr: Stdio,
}

/// A program that runs.
pub(in crate::toolbox) struct Launched {
    /// It, or its supervisor, which has its outputs.
    pub(in crate::toolbox) child: Child,
    pub(in crate::toolbox) input: PipeWriter,
    pub(in crate::toolbox) tether: Tether,
}

/// The hold on a program that runs. All of it is killed when this is cut.
pub(in crate::toolbox) struct Tether {
    line: Option<UnixStream>,
    /// The group of the program.
    group: Option<Pid>,
}

impl Supervisor {
    /// The program and its first words.
    pub fn new(argv: impl IntoIterator<Item = OsString>) -> Self {
        Self(argv.into_iter().collect())
    }
}

impl Launch<'_> {
    /// Starts it: under the supervisor, or without one as the leader of a process group.
    ///
    /// # Errors
    /// Kind `InvalidInput` when it names no program, `External` when it cannot be started: nothing
    /// has run then.
    pub(in crate::toolbox) fn start(
        self,
        supervisor: Option<&Supervisor>,
    ) -> Result<Launched, Error> {
        let program = self.argv.first();
        let program = program.ok_or_else(|| Error::invalid("the command is empty"))?;
        let failed = |error: io::Error| {
            let text = format!("cannot start {program}: {error}");
            Error::new(ErrorKind::External, text).with_source(error)
        };
        let argv = supervisor.map_or(&[][..], |supervisor| &supervisor.0);
        let words = argv.iter().cloned();
        let mut words = words.chain(self.argv.iter().map(OsString::from));
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .current_dir(self.directory)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .stdout(Stdio::piped())
            .stderr(self.stderr)
            .process_group(0);
        let (reader, input) = io::pipe().map_err(failed)?;
        let (child, tether) = match supervisor {
            Some(_) => supervised(command, &reader),
            None => grouped(command, reader),
        }
        .map_err(failed)?;
        Ok(Launched {
            child,
            input,
            tether,
        })
    }
}

fn grouped(mut command: Command, input: PipeReader) -> io::Result<(Child, Tether)> {
    let child = command.stdin(input).spawn()?;
    let group = number(child.id());
    Ok((child, Tether { line: None, group }))
}

fn supervised(mut command: Command, input: &PipeReader) -> io::Result<(Child, Tether)> {
    let (line, theirs) = UnixStream::pair()?;
    send(&line, input.as_fd())?;
    let mut child = command.stdin(OwnedFd::from(theirs)).spawn()?;
    // It holds the other end, which the supervisor alone must have.
    drop(command);
    line.set_read_timeout(Some(START_PATIENCE))?;
    let group = match report(&line) {
        Some((word, pid)) if word == STARTED => u32::try_from(pid).ok().and_then(number),
        Some((word, code)) if word == FAILED => {
            let _ = child.wait();
            return Err(io::Error::from_raw_os_error(code));
        }
        _ => {
            let _ = child.kill();
            if child.wait()?.signal().is_none() {
                return Err(io::Error::other("its supervisor does not begin"));
            }
            // It was killed, so the program may have begun: it counts as one that runs.
            None
        }
    };
    line.set_read_timeout(None)?;
    let line = Some(line);
    Ok((child, Tether { line, group }))
}

/// The next report of a supervisor.
fn report(mut line: &UnixStream) -> Option<(String, i32)> {
    // Byte for byte: what is read ahead would be missing from the next one.
    let (mut text, mut byte) = (String::new(), [0]);
    while text.len() < MAX_REPORT_BYTES && line.read(&mut byte).ok()? == 1 && byte != *b"\n" {
        text.push(byte[0].into());
    }
    let (word, number) = text.split_once(' ')?;
    Some((word.to_owned(), number.parse().ok()?))
}

impl Tether {
    /// Kills the program and all that it started. The end of a supervisor follows.
    pub(in crate::toolbox) fn cut(&mut self) {
        match &self.line {
            Some(line) => drop(line.shutdown(Shutdown::Write)),
            None => self.kill_group(),
        }
    }

    pub(in crate::toolbox) fn is_supervised(&self) -> bool {
        self.line.is_some()
    }

    /// The end of the program, as its supervisor reports it. Only for one that has ended.
    pub(in crate::toolbox) fn reported(&mut self) -> Option<ExitStatus> {
        let (_, status) = report(self.line.as_ref()?).filter(|(word, _)| word == ENDED)?;
        // Nothing of it is left, and its number may name another group.
        self.group = None;
        Some(ExitStatus::from_raw(status))
    }

    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Waits for the end of the program on an OS thread of its own. A supervisor that was killed
    /// reports none: then the program's control group and its own group are killed.
    pub(in crate::toolbox) fn watch(&self, mut child: Child) -> io::Result<Receiver<ExitStatus>> {
        let (send, receive) = mpsc::channel();
        let line = self.line.as_ref().map(UnixStream::try_clone).transpose()?;
        let group = self.group.filter(|_| line.is_some());
        thread::spawn(move || {
            let told = line.as_ref().and_then(report);
            let told = told.filter(|(word, _)| word == ENDED);
            let status = match told {
                Some((_, status)) => {
                    let _ = child.wait();
                    Ok(ExitStatus::from_raw(status))
                }
                None => {
                    // Named by its start, which is known until it is waited for.
                    let cgroup = line.and_then(|_| Cgroup::of(child.id()));
                    let status = child.wait();
                    if let Some(cgroup) = cgroup {
                        cgroup.end();
                    }
                    if let Some(group) = group {
                        let _ = kill_process_group(group, Signal::KILL);
                    }
                    status
                }
            };
            if let Ok(status) = status {
                let _ = send.send(status);
            }
        });
        Ok(receive)
    }

    /// Cuts it, and waits a moment for the end that was not seen yet.
    pub(in crate::toolbox) fn cut_and_wait(&mut self, ended: &Receiver<ExitStatus>) {
        self.cut();
        if ended.recv_timeout(KILL_GRACE).is_err() {
            self.kill_group();
        }
    }
}

fn number(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}
