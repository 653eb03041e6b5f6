//! [`ProcessId`]: a process, distinguished from all others with the same number.
//!
//! ```text
//! <boot id>/<pid namespace>/<start, in ticks since boot>   with the number: a unique process
//! ```
//! Numbers of processes are used again. A process is signalled only through a [`Held`], after its
//! identity was compared. A [`Held`] is a descriptor of the kernel that never comes to mean another
//! process (`pidfd_open(2)`).

use crate::bounds::MAX_PROC_BYTES;
use crate::registry::Process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};

/// The identity of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When and where it began.
    started: String,
}

impl ProcessId {
    /// This process; None where the system does not identify it.
    pub(crate) fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// The process that has this number now, in our own namespace.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let boot = read("/proc/sys/kernel/random/boot_id")?;
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
        let stat = read(&format!("/proc/{pid}/stat"))?;
        // `pid (name) state …`: the name may contain any characters, also blanks and parentheses
        // (`proc_pid_stat(5)`).
        let (_, fields) = stat.rsplit_once(')')?;
        let ticks: u64 = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
        Some(Self {
            pid,
            started: format!("{}/{}/{ticks}", boot.trim(), namespace.display()),
        })
    }

    /// As a registry has it.
    pub(crate) fn to_row(&self) -> Process {
        Process {
            pid: self.pid,
            started: self.started.clone(),
        }
    }

    /// Is the process of a row of the same system and boot, so that it can be looked for here?
    pub(crate) fn is_beside(&self, row: &Process) -> bool {
        let place = |started: &str| started.rsplit_once('/').map(|(place, _)| place.to_owned());
        place(&self.started) == place(&row.started)
    }

    /// Is it the process of a row?
    pub(crate) fn is(&self, row: &Process) -> bool {
        self.to_row() == *row
    }
}

/// A process that is held: its number is not given to another one while this descriptor exists.
#[derive(Debug)]
pub(crate) struct Held {
    descriptor: OwnedFd,
    id: ProcessId,
}

impl Held {
    /// Holds the process of this number; None when there is none.
    ///
    /// # Errors
    /// Kind `External` when the system does not permit it, or does not identify the process.
    pub(crate) fn of(pid: u32) -> Result<Option<Self>, Error> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(number) = number else {
            return Ok(None);
        };
        let descriptor = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(failed("hold", pid, error)),
        };
        // Read after it is held: the values belong to the held process, unless that has ended.
        let id = ProcessId::of(pid);
        let held = |id| Self { descriptor, id };
        match id.map(held) {
            Some(held) if !held.is_gone(Duration::ZERO)? => Ok(Some(held)),
            Some(_) => Ok(None),
            None => Err(Error::new(
                ErrorKind::External,
                format!("the system does not report when process {pid} started"),
            )),
        }
    }

    /// Which it is.
    pub(crate) fn id(&self) -> &ProcessId {
        &self.id
    }

    /// Asks it to end.
    ///
    /// # Errors
    /// Kind `External` when the system does not permit it.
    pub(crate) fn terminate(&self) -> Result<(), Error> {
        self.signal(Signal::TERM)
    }

    /// Ends it.
    ///
    /// # Errors
    /// As [`Held::terminate`].
    pub(crate) fn kill(&self) -> Result<(), Error> {
        self.signal(Signal::KILL)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        match pidfd_send_signal(&self.descriptor, signal) {
            // It has ended meanwhile.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(failed("signal", self.id.pid, error)),
        }
    }

    /// Has it ended, or does it within this time?
    ///
    /// # Errors
    /// Kind `External` when the system gives no answer.
    pub(crate) fn is_gone(&self, within: Duration) -> Result<bool, Error> {
        let wait =
            Timespec::try_from(within).map_err(|_| Error::invalid("the wait is too long"))?;
        let mut ended = [PollFd::new(&self.descriptor, PollFlags::IN)];
        match poll(&mut ended, Some(&wait)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(failed("wait for", self.id.pid, error)),
        }
    }
}

fn failed(what: &str, pid: u32, error: Errno) -> Error {
    Error::new(
        ErrorKind::External,
        format!("cannot {what} process {pid}: {error}"),
    )
    .with_source(io::Error::from(error))
}

fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    let file = File::open(Path::new(path)).ok()?;
    file.take(MAX_PROC_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    // T-REG-02
    #[test]
    fn a_process_is_told_from_a_later_one_of_its_number() {
        let own = ProcessId::own().unwrap();
        assert_eq!(ProcessId::own().unwrap(), own);
        let mut row = own.to_row();
        assert!(own.is(&row));
        row.started.push('0');
        assert!(!own.is(&row));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let held = Held::of(child.id()).unwrap().unwrap();
        assert!(held.id().is(&ProcessId::of(child.id()).unwrap().to_row()));
        assert!(!held.is_gone(Duration::ZERO).unwrap());
        held.kill().unwrap();
        assert!(held.is_gone(Duration::from_secs(5)).unwrap());
        child.wait().unwrap();
        held.terminate().unwrap();
        assert!(Held::of(child.id()).unwrap().is_none());
        assert!(Held::of(0).unwrap().is_none());
    }

    #[test]
    fn a_name_full_of_parentheses_does_not_move_the_start() {
        let mut child = Command::new("/bin/sleep")
            .arg0(") 1 (")
            .arg("60")
            .spawn()
            .unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        assert_eq!(ProcessId::of(child.id()).unwrap(), id);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
