//! The supervisor: a small process between the runtime and one tool, which ends all that the tool
//! started.
//!
//! ```text
//! runtime ─► supervisor, which adopts orphans below it ─► tool ─► what it starts
//!    │ lifeline: a socket; the tool's standard input ─►│
//!    │ ◄─ started <pid> | failed <errno>, ended <status>┤
//!    └─ cut, or the runtime is gone ─► end of file ─────┴─► all below it is killed
//! ```
//! A process that leaves its group, or whose parent ends, stays below the supervisor
//! (`PR_SET_CHILD_SUBREAPER`), so that it is found. It also stays in a control group, where we may
//! make one ([`cgroup`]): so it is found although the tool killed the supervisor. The lifeline is a socket and not a pipe: no tool
//! can open it by its path under `/proc` and hold it open.

mod cgroup;
mod launch;
mod stat;
mod tree;

pub use cgroup::end_left_over;
pub use launch::Supervisor;
pub(in crate::toolbox) use launch::{Launch, Launched, Tether};

use crate::bounds::REAP_INTERVAL;
use cgroup::Cgroup;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open, set_child_subreaper};
use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use tree::Tree;

/// Reports of a supervisor, each on a line, with a number.
const STARTED: &str = "started";
const FAILED: &str = "failed";
const ENDED: &str = "ended";

/// Is the supervisor of this command, whose lifeline is the standard input, until nothing that the
/// command started runs any more.
///
/// # Errors
/// When it cannot be one: the command has not begun then.
pub fn supervise(argv: &[OsString]) -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    let mut line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let input = receive(&line)?;
    let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(input).process_group(0);
    // The tool begins where this process is at that moment.
    let cgroup = Cgroup::enter();
    let started = command.spawn();
    let cgroup = cgroup.and_then(Cgroup::leave);
    let number = |id| i32::try_from(id).ok().and_then(Pid::from_raw);
    let tool = match started.map(|child| number(child.id())) {
        Ok(Some(tool)) => tool,
        Ok(None) => return Err(io::ErrorKind::InvalidData.into()),
        Err(error) => {
            let code = error.raw_os_error().unwrap_or_default();
            if let Some(cgroup) = cgroup {
                cgroup.end();
            }
            return tell(&mut line, FAILED, code);
        }
    };
    let mut tree = Tree::of(tool, cgroup);
    if tell(&mut line, STARTED, tool.as_raw_nonzero().get()).is_ok() {
        attend(&line, tool, &mut tree);
    }
    let status = tree.end();
    // The runtime may be gone.
    let _ = tell(&mut line, ENDED, status);
    Ok(())
}

/// Writes a report whole or not at all: the tool may kill this process at any time.
fn tell(line: &mut UnixStream, word: &str, number: i32) -> io::Result<()> {
    line.write_all(format!("{word} {number}\n").as_bytes())
}

/// Waits until the tool has ended or the lifeline is cut.
fn attend(line: &UnixStream, tool: Pid, tree: &mut Tree) {
    let Ok(held) = pidfd_open(tool, PidfdFlags::empty()) else {
        return;
    };
    let most = Timespec::try_from(REAP_INTERVAL).ok();
    loop {
        let mut ready =
            [line.as_fd(), held.as_fd()].map(|of| PollFd::from_borrowed_fd(of, PollFlags::IN));
        match poll(&mut ready, most.as_ref()) {
            // Daemons of the tool that have ended.
            Ok(0) => drop(tree.reap()),
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
        if tree.status().is_some() {
            return;
        }
    }
}

/// Sends a descriptor over a lifeline.
fn send(line: &UnixStream, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let sent = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&sent));
    sendmsg(
        line,
        &[IoSlice::new(b"i")],
        &mut control,
        SendFlags::empty(),
    )?;
    Ok(())
}

fn receive(line: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let buffers = &mut [IoSliceMut::new(&mut byte)];
    recvmsg(line, buffers, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let sent = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    sent.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
