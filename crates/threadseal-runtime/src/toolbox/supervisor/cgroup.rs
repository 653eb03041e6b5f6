//! [`Cgroup`]: the control group of one tool, which nothing that the tool starts leaves by a fork, a
//! new session or the death of its parent (cgroups(7), version 2).
//!
//! ```text
//! our own group ─► threadseal-<pid namespace>-<supervisor>-<its start>: made, entered
//!   ─► tool started inside ─► left by the supervisor ─► … ─► cgroup.kill ─► folder removed
//! ```
//! | who is gone | who ends it |
//! |---|---|
//! | no one | the supervisor |
//! | the supervisor | the runtime, which knows the name |
//! | both | the next command that runs threads there |
//!
//! Where there is no such hierarchy, or our own group is not ours to divide, there is none.

use super::stat::began;
use crate::bounds::{MAX_CGROUP_LEVELS, MAX_KILL_ROUNDS, MAX_MOUNTS_BYTES};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PREFIX: &str = "threadseal-";
const MEMBERS: &str = "cgroup.procs";
const KILL: &str = "cgroup.kill";

pub(super) struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// Makes the group for the tool of this supervisor, and enters it.
    pub(super) fn enter() -> Option<Self> {
        let folder = folder_of(std::process::id())?;
        fs::create_dir(&folder).ok()?;
        let group = Self { folder };
        let entered =
            group.folder.join(KILL).exists() && fs::write(group.folder.join(MEMBERS), "0").is_ok();
        if !entered {
            let _ = fs::remove_dir(&group.folder);
        }
        entered.then_some(group)
    }

    /// Leaves it, and so can end it and live; None when this is not possible.
    pub(super) fn leave(self) -> Option<Self> {
        let own = self.folder.parent()?;
        fs::write(own.join(MEMBERS), "0").ok()?;
        Some(self)
    }

    /// The group for the tool of this supervisor, which was not waited for yet.
    pub(super) fn of(supervisor: u32) -> Option<Self> {
        let folder = folder_of(supervisor)?;
        folder.is_dir().then_some(Self { folder })
    }

    /// Kills all that is inside.
    pub(super) fn kill(&self) {
        let _ = fs::write(self.folder.join(KILL), "1");
    }

    /// Kills all that is inside, and removes it.
    pub(super) fn end(self) {
        self.kill();
        for _ in 0..MAX_KILL_ROUNDS {
            if remove(&self.folder, MAX_CGROUP_LEVELS) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Ends the groups of tools whose supervisors and runtimes are gone.
pub fn end_left_over() {
    let Some((own, space)) = own_folder().zip(namespace()) else {
        return;
    };
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((its_space, supervisor, start)) = name.to_str().and_then(numbers) else {
            continue;
        };
        if its_space == space && i32::try_from(supervisor).ok().and_then(began) != Some(start) {
            let folder = entry.path();
            Cgroup { folder }.end();
        }
    }
}

/// The folder of the group for the tool of a supervisor.
fn folder_of(supervisor: u32) -> Option<PathBuf> {
    let start = began(i32::try_from(supervisor).ok()?)?;
    let name = format!("{PREFIX}{}-{supervisor}-{start}", namespace()?);
    Some(own_folder()?.join(name))
}

/// The numbers in the name of a group.
fn numbers(name: &str) -> Option<(u64, u64, u64)> {
    let mut numbers = name.strip_prefix(PREFIX)?.split('-').map(str::parse);
    let mut next = || numbers.next()?.ok();
    let three = (next()?, next()?, next()?);
    numbers.next().is_none().then_some(three)
}

/// The number of our own namespace of processes.
fn namespace() -> Option<u64> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    let number = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// The folder of our own group.
fn own_folder() -> Option<PathBuf> {
    placed(&text("/proc/self/mountinfo")?, &text("/proc/self/cgroup")?)
}

/// The folder of the group in `member`, below where `mounts` has the hierarchy
/// (`proc_pid_mountinfo(5)`).
fn placed(mounts: &str, member: &str) -> Option<PathBuf> {
    let path = member.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        if after.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let below = Path::new(path).strip_prefix(root).ok()?;
        // A blank in a name would be escaped; a group above our own root cannot be reached.
        let is_plain = !at.contains('\\') && !path.contains("..");
        is_plain.then(|| Path::new(at).join(below))
    })
}

/// Removes a group and those below it, which are empty. Is it gone?
fn remove(folder: &Path, levels: u32) -> bool {
    if fs::remove_dir(folder).is_ok() || !folder.exists() {
        return true;
    }
    if levels > 0 {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(&entry.path(), levels - 1);
            }
        }
    }
    fs::remove_dir(folder).is_ok()
}

fn text(path: &str) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(MAX_MOUNTS_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_group_is_found_wherever_the_hierarchy_is() {
        let hybrid = "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let container =
            "30 23 0:26 /docker/a /sys/fs/cgroup ro,nosuid master:9 - cgroup2 cgroup rw\n";
        for (mounts, member, expected) in [
            (
                hybrid,
                "9:name=systemd:/x\n0::/\n",
                Some("/sys/fs/cgroup/unified"),
            ),
            (
                hybrid,
                "0::/user.slice/a\n",
                Some("/sys/fs/cgroup/unified/user.slice/a"),
            ),
            (container, "0::/docker/a/b\n", Some("/sys/fs/cgroup/b")),
            (container, "0::/docker/other\n", None),
            (container, "0::/../other\n", None),
            (hybrid, "9:name=systemd:/x\n", None),
            ("", "0::/\n", None),
        ] {
            let found = placed(mounts, member);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{member}");
        }
    }

    #[test]
    fn a_name_has_three_numbers_and_no_other_folder_has_it() {
        assert_eq!(numbers("threadseal-1-22-333"), Some((1, 22, 333)));
        for other in [
            "threadseal-1-22",
            "threadseal-1-22-3-4",
            "threadseal-a-b-c",
            "system.slice",
        ] {
            assert_eq!(numbers(other), None, "{other}");
        }
    }
}
