//! [`ServerProcess`]: a server that was started, under its supervisor.

use super::address::Address;
use super::fault::{Fault, innermost, short};
use crate::bounds::{KILL_GRACE, MAX_MCP_STDERR_BYTES, POLL_INTERVAL};
use crate::toolbox::supervisor::{Launch, Launched, Supervisor, Tether};
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitIdStatus, waitid};
use std::collections::VecDeque;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Sender;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::task::{JoinHandle, spawn_blocking};

/// A server that was started, or its supervisor. When this is dropped, all of it is killed.
pub(super) struct ServerProcess {
    child: Option<Child>,
    tether: Tether,
    errors: Arc<Mutex<VecDeque<u8>>>,
    reading: Option<JoinHandle<()>>,
}

/// The program of an address.
#[derive(Clone)]
struct Program {
    argv: Vec<String>,
    directory: std::path::PathBuf,
    environment: Vec<(String, String)>,
    supervisor: Option<Supervisor>,
}

impl ServerProcess {
    /// Starts the server, and its two pipes.
    ///
    /// # Errors
    /// When it, or its supervisor, cannot be started.
    pub(super) async fn start(address: &Address) -> Result<(Self, ChildStdout, Sender), Fault> {
        let Address::Stdio {
            argv,
            directory,
            environment,
            supervisor,
        } = address.clone()
        else {
            return Err(Fault::CannotStart("it has no program".to_owned()));
        };
        let program = Program {
            argv,
            directory,
            environment,
            supervisor,
        };
        // A supervisor is waited for: other servers are not to wait with it.
        let started = spawn_blocking(move || program.launch()).await;
        let (mut process, input) =
            started.map_err(|error| Fault::CannotStart(error.to_string()))??;
        let (output, input) = process.pipes(input).map_err(|error| cannot(&error))?;
        Ok((process, output, input))
    }

    fn pipes(&mut self, input: io::PipeWriter) -> io::Result<(ChildStdout, Sender)> {
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let child = self.child.as_mut().ok_or_else(missing)?;
        let output = ChildStdout::from_std(child.stdout.take().ok_or_else(missing)?)?;
        let errors = ChildStderr::from_std(child.stderr.take().ok_or_else(missing)?)?;
        self.reading = Some(tokio::spawn(keep_end(errors, Arc::clone(&self.errors))));
        Ok((output, Sender::from_owned_fd(input.into())?))
    }

    /// Waits for its end, at most a moment, and kills all that it started. Returns how it ended.
    pub(super) async fn end(mut self) -> String {
        let _ = tokio::time::timeout(KILL_GRACE, self.ended()).await;
        let own = self.status();
        self.tether.cut();
        let _ = tokio::time::timeout(KILL_GRACE, self.ended()).await;
        let how = match own.map(|status| (status.code(), status.signal())) {
            Some((Some(code), _)) => format!("it ended with exit code {code}"),
            Some((None, Some(signal))) => format!("it was ended by signal {signal}"),
            _ => "it closed the connection".to_owned(),
        };
        match self.last_line() {
            Some(line) => format!("{how}; its last line on standard error: {line}"),
            None => how,
        }
    }

    /// Waits until it has ended, without taking note of it: until it is waited for, no other process
    /// gets its number.
    async fn ended(&self) {
        while !self.has_ended() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn has_ended(&self) -> bool {
        self.seen().is_none_or(|seen| seen.is_some())
    }

    /// The end of the process that was started, where there is one; None when that cannot be known.
    fn seen(&self) -> Option<Option<WaitIdStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let number = i32::try_from(self.child.as_ref()?.id()).ok()?;
        waitid(WaitId::Pid(Pid::from_raw(number)?), options).ok()
    }

    /// How the server ended, if it has: as its supervisor reports it, where it has one.
    fn status(&mut self) -> Option<ExitStatus> {
        let seen = self.seen()??;
        if self.tether.is_supervised() {
            return self.tether.reported();
        }
        let code = seen.exit_status().map(|code| code << 8);
        code.or(seen.terminating_signal()).map(ExitStatus::from_raw)
    }

    /// The last line that it wrote to standard error.
    fn last_line(&self) -> Option<String> {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = errors.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let line = text.lines().rfind(|line| !line.trim().is_empty())?;
        Some(short(line.trim()))
    }
}

impl Program {
    fn launch(self) -> Result<(ServerProcess, io::PipeWriter), Fault> {
        let launch = Launch {
            argv: &self.argv,
            directory: &self.directory,
            environment: &self.environment,
            stderr: Stdio::piped(),
        };
        let Launched {
            child,
            input,
            tether,
        } = launch
            .start(self.supervisor.as_ref())
            .map_err(|error| Fault::CannotStart(innermost(&error).to_string()))?;
        let process = ServerProcess {
            child: Some(child),
            tether,
            errors: Arc::default(),
            reading: None,
        };
        Ok((process, input))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.tether.cut();
        if let Some(reading) = self.reading.take() {
            reading.abort();
        }
        if let Some(child) = self.child.take() {
            let _ = self.tether.watch(child);
        }
    }
}

/// Reads a server's standard error to its end, and keeps the last part.
async fn keep_end(mut pipe: ChildStderr, kept: Arc<Mutex<VecDeque<u8>>>) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&chunk[..count]);
        let beyond = kept.len().saturating_sub(MAX_MCP_STDERR_BYTES);
        kept.drain(..beyond);
    }
}

fn cannot(error: &io::Error) -> Fault {
    Fault::CannotStart(error.to_string())
}
