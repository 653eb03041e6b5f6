//! [`Tree`]: all processes below this one, and their end.

use super::cgroup::Cgroup;
use super::stat::{Stat, all, stat};
use crate::bounds::MAX_KILL_ROUNDS;
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, pidfd_open,
    pidfd_send_signal, wait,
};
use std::collections::BTreeSet;
use std::time::Duration;

pub(super) struct Tree {
    /// The control group of all of it, where there is one.
    cgroup: Option<Cgroup>,
    /// The process of the tool, which leads a group.
    tool: Pid,
    /// How it ended, once it was waited for.
    status: Option<WaitStatus>,
}

impl Tree {
    pub(super) fn of(tool: Pid, cgroup: Option<Cgroup>) -> Self {
        Self {
            cgroup,
            tool,
            status: None,
        }
    }

    pub(super) fn status(&self) -> Option<WaitStatus> {
        self.status
    }

    /// Waits for all children that have ended. Are there others?
    pub(super) fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((child, status))) if child == self.tool => self.status = Some(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Kills all of it; how the tool ended, as `waitpid(2)` has it. A process that ends leaves its children to this one, so
    /// nothing is left once this one has no child.
    pub(super) fn end(mut self) -> i32 {
        // Only before the tool was waited for: until then no other group gets its number.
        if self.status.is_none() {
            let _ = kill_process_group(self.tool, Signal::KILL);
        }
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        for _ in 0..MAX_KILL_ROUNDS {
            if !self.reap() {
                break;
            }
            kill_below(getpid());
            std::thread::sleep(Duration::from_millis(2));
        }
        if let Some(cgroup) = self.cgroup.take() {
            cgroup.end();
        }
        let killed = Signal::KILL.as_raw();
        self.status.map_or(killed, WaitStatus::as_raw)
    }
}

/// Kills all processes below `top`, as they are now. A killed process starts no other one, so each
/// round leaves fewer.
fn kill_below(top: Pid) {
    let all = all();
    let mut below = BTreeSet::from([top.as_raw_nonzero().get()]);
    loop {
        let before = below.len();
        let more = all.iter().filter(|(_, stat)| below.contains(&stat.parent));
        let more: Vec<i32> = more.map(|(pid, _)| *pid).collect();
        below.extend(more);
        if below.len() == before {
            break;
        }
    }
    below.remove(&top.as_raw_nonzero().get());
    for number in below {
        let Some(pid) = Pid::from_raw(number) else {
            continue;
        };
        let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        // Its number may have come to mean another process since: compared while it is held.
        let began = |stat: &Stat| stat.began;
        if stat(number).as_ref().map(began) == all.get(&number).map(began) {
            let _ = pidfd_send_signal(&held, Signal::KILL);
        }
    }
}
