//! A disk that fails on command: every call is counted, and each of them can fail in every way.
//!
//! The method: run a workload once and count its calls. Run it again for each call and each
//! [`FaultKind`], with the fault injected there. Then call [`FaultFs::kill_process`] or
//! [`FaultFs::cut_power`], check what is left, and continue to work. [`Keep`] selects which
//! unsynced changes survive a power cut.
//!
//! A fault is not only "nothing happened". [`FaultKind::DoneButFailed`] does its work and reports
//! failure (a timeout after the commit). [`FaultKind::SyncLost`] reports failure and lets every
//! later fsync claim success about the same bytes.
//!
//! Processes are handles: a killed process loses its handles and its locks, and the bytes it wrote
//! stay. Only for tests: the model knows no links, no permissions and one user.

mod disk;
#[cfg(windows)]
mod errno;
#[cfg(test)]
mod tests;

pub use disk::Keep;

use crate::sys::{Access, FileHandle, FileIdentity, FileKind, Fs, Metadata};
use disk::{Content, Disk, Inode};
#[cfg(windows)]
use errno::Errno;
#[cfg(unix)]
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The one user of the disk.
const USER: u32 = 1000;

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// EIO; nothing is done.
    Io,
    /// ENOSPC, once; nothing is done.
    NoSpace,
    /// The disk is full from here on: every call that needs space fails with ENOSPC.
    Full,
    /// The disk is read-only from here on: every call that changes it fails with EROFS.
    ReadOnly,
    /// A write takes half of its bytes; the next one finds no space. Other calls: EIO.
    ShortThenNoSpace,
    /// It is done, and reported as EIO.
    DoneButFailed,
    /// An fsync of a file fails and its bytes will never be written, though a later fsync
    /// succeeds. Other calls: EIO.
    SyncLost,
    /// Reading or writing is interrupted by a signal (EINTR), once; other calls work.
    Interrupted,
    /// Everything stops: this call and all later ones fail until [`FaultFs::heal`] (only the
    /// process had died) or [`FaultFs::cut_power`].
    PowerOff,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Io,
        Self::NoSpace,
        Self::Full,
        Self::ReadOnly,
        Self::ShortThenNoSpace,
        Self::DoneButFailed,
        Self::SyncLost,
        Self::Interrupted,
        Self::PowerOff,
    ];
}

/// The ends of a process: a kill, and power cuts that keep nothing, everything, or a part by this
/// lot.
pub fn ends(lot: usize) -> [Option<Keep>; 4] {
    let lot = Some(Keep::ByLot(lot as u64));
    [None, Some(Keep::Nothing), Some(Keep::Everything), lot]
}

/// Of so many calls a sweep takes one, if the build does not ask for all.
const ONE_OF: usize = 3;

/// Did the build ask for whole sweeps, rather than for a share of each?
pub const fn sweeps_are_whole() -> bool {
    option_env!("THREADSEAL_WHOLE_SWEEPS").is_some()
}

/// Fails calls in each way, with each of its `ends`. `survives` answers whether there was such a
/// call. Without [`sweeps_are_whole`] each way fails another third of the calls.
///
/// # Panics
/// When the workload has no more than `least` calls.
pub fn fail_each_call<E: IntoIterator<Item = Option<Keep>>>(
    least: usize,
    ends: impl Fn(usize, FaultKind) -> E,
    mut survives: impl FnMut(usize, FaultKind, Option<Keep>) -> bool,
) {
    let step = if sweeps_are_whole() { 1 } else { ONE_OF };
    for (way, kind) in FaultKind::ALL.into_iter().enumerate() {
        let mut was_struck = |call| {
            let mut ends = ends(call, kind).into_iter();
            ends.all(|end| survives(call, kind, end))
        };
        let mut call = way % step;
        while was_struck(call) {
            call += step;
        }
        assert!(call > least, "the workload makes {call} calls only");
    }
}

/// The effect of a call on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Changes,
    TakesSpace,
    Syncs,
}

/// The disk. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct FaultFs(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    disk: Disk,
    /// Their names, since the last plan.
    calls: Vec<&'static str>,
    planned: Option<(usize, FaultKind)>,
    between: Option<(usize, Work)>,
    struck: Option<&'static str>,
    full: bool,
    read_only: bool,
    power_off: bool,
    /// Other machines may also write below this folder.
    network: Option<PathBuf>,
    /// Handles opened under an earlier generation belong to a dead process.
    generation: u64,
    handles: u64,
    locks: BTreeMap<Inode, u64>,
}

/// Work that another process does between the calls.
struct Work(Box<dyn FnOnce() + Send>);

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

impl Default for FaultFs {
    fn default() -> Self {
        Self::new()
    }
}

impl FaultFs {
    /// An empty disk without faults.
    pub fn new() -> Self {
        Self::of(Disk::new())
    }

    /// Another disk with the same contents, without faults, handles or locks.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self::of(self.state().disk.clone())
    }

    fn of(disk: Disk) -> Self {
        Self(Arc::new(Mutex::new(State {
            disk,
            calls: Vec::new(),
            planned: None,
            between: None,
            struck: None,
            full: false,
            read_only: false,
            power_off: false,
            network: None,
            generation: 0,
            handles: 0,
            locks: BTreeMap::new(),
        })))
    }

    /// The disk as the crate's functions take it.
    pub fn shared(&self) -> Arc<dyn Fs> {
        Arc::new(self.clone())
    }

    /// Lets the `call`-th call from now on (from 0) fail.
    pub fn plan(&self, call: usize, kind: FaultKind) {
        let mut state = self.state();
        state.calls.clear();
        state.planned = Some((call, kind));
        state.struck = None;
    }

    /// Lets another process work just before the `call`-th call from now on (from 0). The calls of
    /// that work are counted, too.
    pub fn between(&self, call: usize, work: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        state.calls.clear();
        state.between = Some((call, Work(Box::new(work))));
    }

    /// Calls since the disk was made, or since the last plan.
    pub fn calls(&self) -> usize {
        self.state().calls.len()
    }

    /// Their names.
    pub fn called(&self) -> Vec<&'static str> {
        self.state().calls.clone()
    }

    /// The name of the call that the planned fault struck, if it did.
    pub fn struck(&self) -> Option<&'static str> {
        self.state().struck
    }

    /// Cancels the plan and gives power, space and write access again.
    pub fn heal(&self) {
        let mut state = self.state();
        state.planned = None;
        state.power_off = false;
        state.full = false;
        state.read_only = false;
    }

    /// Ends every process: handles and locks go, all bytes and names stay.
    pub fn kill_process(&self) {
        let mut state = self.state();
        state.generation += 1;
        state.locks.clear();
    }

    /// Ends every process; `keep` decides which unsynced changes survive. The power is back
    /// afterwards and the disk is healed.
    pub fn cut_power(&self, keep: Keep) {
        self.kill_process();
        self.heal();
        let mut state = self.state();
        state.disk.cut_power(keep);
    }

    /// Ends every process by a kill, or by a power cut that keeps so much; the disk is healed.
    pub fn end(&self, end: Option<Keep>) {
        match end {
            Some(keep) => self.cut_power(keep),
            None => {
                self.kill_process();
                self.heal();
            }
        }
    }

    /// Counts the calls of `work`, none of which fails.
    pub fn calls_of(&self, work: impl FnOnce()) -> usize {
        self.plan(usize::MAX, FaultKind::Io);
        work();
        self.calls()
    }

    /// Puts `folder` and all below it on a network file system.
    pub fn put_on_network(&self, folder: &Path) {
        self.state().network = Some(folder.to_owned());
    }

    /// The present contents of a file, without counting a call; `None` when there is none.
    pub fn bytes_of(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        let inode = state.disk.find(path).ok()?;
        Some(state.disk.file(inode).ok()?.bytes.clone())
    }

    /// Replaces the contents of a file durably, as another program would, without counting a call.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn set_bytes(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.disk.find(path)?;
        let file = state.disk.file_mut(inode)?;
        file.set_len(0);
        file.write(bytes, 0);
        file.sync();
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned lock must not hide the message of a panicking test.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, then does it, or fails as the plan requires.
    fn call<T>(
        &self,
        name: &'static str,
        effect: Effect,
        work: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        let now = |state: &State| {
            state
                .between
                .as_ref()
                .is_some_and(|(call, _)| *call == state.calls.len())
        };
        let between = {
            let mut state = self.state();
            now(&state).then(|| state.between.take()).flatten()
        };
        if let Some((_, work)) = between {
            (work.0)();
        }
        let mut state = self.state();
        match state.strike(name, effect) {
            Some(FaultKind::Interrupted) if name != "read" => work(&mut state.disk),
            None => work(&mut state.disk),
            Some(FaultKind::DoneButFailed) => {
                work(&mut state.disk)?;
                Err(Errno::IO.into())
            }
            Some(kind) => Err(kind.reason(effect)),
        }
    }
}

impl FaultKind {
    fn reason(self, effect: Effect) -> io::Error {
        match self {
            Self::NoSpace | Self::Full if effect == Effect::TakesSpace => Errno::NOSPC.into(),
            Self::ReadOnly if effect != Effect::Reads => Errno::ROFS.into(),
            Self::Interrupted => Errno::INTR.into(),
            Self::PowerOff => io::Error::other("the power is off"),
            _ => Errno::IO.into(),
        }
    }
}

impl State {
    /// Counts a call and returns how it fails, if it does.
    fn strike(&mut self, name: &'static str, effect: Effect) -> Option<FaultKind> {
        if self.power_off {
            return Some(FaultKind::PowerOff);
        }
        let number = self.calls.len();
        self.calls.push(name);
        let planned = self.planned.filter(|(call, _)| *call == number);
        if let Some((_, kind)) = planned {
            self.struck = Some(name);
            self.full |= kind == FaultKind::Full;
            self.read_only |= kind == FaultKind::ReadOnly;
            self.power_off |= kind == FaultKind::PowerOff;
        }
        let lasting = match effect {
            Effect::TakesSpace if self.full => Some(FaultKind::Full),
            Effect::Changes | Effect::TakesSpace if self.read_only => Some(FaultKind::ReadOnly),
            _ => None,
        };
        let momentary = planned
            .map(|(_, kind)| kind)
            .filter(|kind| !matches!(kind, FaultKind::Full | FaultKind::ReadOnly));
        momentary.or(lasting)
    }
}

impl Fs for FaultFs {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn FileHandle>> {
        let effect = match access {
            Access::Read => Effect::Reads,
            Access::Append | Access::Rewrite => Effect::Changes,
            Access::CreateNew(_) | Access::OpenOrCreate(_) => Effect::TakesSpace,
        };
        let inode = self.call("open", effect, |disk| match access {
            Access::CreateNew(mode) => disk.make(path, FileKind::Regular, mode),
            Access::OpenOrCreate(mode) => match disk.find(path) {
                Ok(inode) => Ok(inode),
                Err(_) => disk.make(path, FileKind::Regular, mode),
            },
            Access::Read | Access::Append | Access::Rewrite => disk.find(path),
        })?;
        let mut state = self.state();
        state.handles += 1;
        Ok(Arc::new(FaultFile {
            fs: self.clone(),
            inode,
            access,
            number: state.handles,
            generation: state.generation,
        }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.call("stat", Effect::Reads, |disk| {
            metadata(disk, disk.find(path)?)
        })
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.metadata(path)
    }

    fn is_on_network(&self, path: &Path) -> io::Result<bool> {
        self.metadata(path)?;
        let network = self.state().network.clone();
        Ok(network.is_some_and(|network| path.starts_with(network)))
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.call("realpath", Effect::Reads, |disk| {
            disk.find(path).map(|_| path.to_owned())
        })
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.call("readlink", Effect::Reads, |disk| {
            disk.find(path)?;
            Err(Errno::INVAL.into())
        })
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.call("readdir", Effect::Reads, |disk| {
            disk.directory(disk.find(path)?)
                .map(disk::DirectoryContent::listing)
        })
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.call("mkdir", Effect::TakesSpace, |disk| {
            disk.make(path, FileKind::Directory, mode).map(drop)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename", Effect::Changes, |disk| {
            disk.rename(from, to, true)
        })
    }

    fn rename_no_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename, exclusively", Effect::Changes, |disk| {
            disk.rename(from, to, false)
        })
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("link", Effect::TakesSpace, |disk| disk.link(from, to))
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.call("unlink", Effect::Changes, |disk| disk.unlink(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.call("rmdir", Effect::Changes, |disk| disk.remove_directory(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.call("fsync of a directory", Effect::Syncs, |disk| {
            disk.sync_dir(disk.find(path)?)
        })
    }

    fn effective_uid(&self) -> u32 {
        USER
    }

    fn lock_holder(&self, _: FileIdentity) -> Option<u32> {
        None
    }
}

#[derive(Debug)]
struct FaultFile {
    fs: FaultFs,
    inode: Inode,
    access: Access,
    number: u64,
    generation: u64,
}

impl FaultFile {
    fn call<T>(
        &self,
        name: &'static str,
        effect: Effect,
        work: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.fs.state().generation != self.generation {
            return Err(io::Error::other("this process is dead"));
        }
        self.fs.call(name, effect, work)
    }

    /// Writes all of `bytes`, or half of them when the plan requires it.
    fn write(&self, bytes: &[u8], offset: Option<u64>) -> io::Result<usize> {
        if self.fs.state().generation != self.generation {
            return Err(io::Error::other("this process is dead"));
        }
        let mut state = self.fs.state();
        let fault = state.strike("write", Effect::TakesSpace);
        let taken = match fault {
            None | Some(FaultKind::DoneButFailed) => bytes,
            Some(FaultKind::ShortThenNoSpace) => {
                state.planned = Some((state.calls.len(), FaultKind::NoSpace));
                &bytes[..bytes.len().div_ceil(2)]
            }
            Some(kind) => return Err(kind.reason(Effect::TakesSpace)),
        };
        let file = state.disk.file_mut(self.inode)?;
        let offset = match offset {
            None => file.bytes.len(),
            Some(offset) => usize::try_from(offset).map_err(io::Error::other)?,
        };
        file.write(taken, offset);
        match fault {
            Some(FaultKind::DoneButFailed) => Err(Errno::IO.into()),
            _ => Ok(taken.len()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        if self.fs.state().generation != self.generation {
            return Err(io::Error::other("this process is dead"));
        }
        let mut state = self.fs.state();
        let fault = state.strike("fsync", Effect::Syncs);
        let file = state.disk.file_mut(self.inode)?;
        match fault {
            None | Some(FaultKind::Interrupted) => {
                file.sync();
                Ok(())
            }
            Some(FaultKind::DoneButFailed) => {
                file.sync();
                Err(Errno::IO.into())
            }
            Some(FaultKind::SyncLost) => {
                file.lose_dirty();
                Err(Errno::IO.into())
            }
            Some(kind) => Err(kind.reason(Effect::Syncs)),
        }
    }
}

impl FileHandle for FaultFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call("read", Effect::Reads, |disk| {
            let bytes = &disk.file(self.inode)?.bytes;
            let rest = usize::try_from(offset)
                .ok()
                .and_then(|start| bytes.get(start..))
                .unwrap_or_default();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.access {
            Access::Append | Access::CreateNew(_) | Access::OpenOrCreate(_) => {
                self.write(bytes, None)
            }
            Access::Read | Access::Rewrite => Err(Errno::BADF.into()),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        match self.access {
            Access::Rewrite => self.write(bytes, Some(offset)),
            _ => Err(Errno::BADF.into()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        self.call("truncate", Effect::Changes, |disk| {
            let size = usize::try_from(size).map_err(io::Error::other)?;
            disk.file_mut(self.inode)?.set_len(size);
            Ok(())
        })
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.call("chmod", Effect::Changes, |disk| {
            disk.set_mode(self.inode, mode)
        })
    }

    fn metadata(&self) -> io::Result<Metadata> {
        self.call("fstat", Effect::Reads, |disk| metadata(disk, self.inode))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.call("flock", Effect::Reads, |_| Ok(()))?;
        let mut state = self.fs.state();
        let holder = *state.locks.entry(self.inode).or_insert(self.number);
        Ok(holder == self.number)
    }

    /// Never fails: a process that cannot release its lock dies, and the kernel releases it.
    fn unlock(&self) -> io::Result<()> {
        let mut state = self.fs.state();
        if state.locks.get(&self.inode) == Some(&self.number) {
            state.locks.remove(&self.inode);
        }
        Ok(())
    }
}

impl Drop for FaultFile {
    fn drop(&mut self) {
        // It cannot fail.
        let _ = self.unlock();
    }
}

fn metadata(disk: &Disk, inode: Inode) -> io::Result<Metadata> {
    let node = disk.node(inode)?;
    let (kind, size) = match &node.content {
        Content::File(file) => (FileKind::Regular, file.bytes.len() as u64),
        Content::Directory(_) => (FileKind::Directory, 0),
    };
    Ok(Metadata {
        kind,
        size,
        mode: node.mode,
        uid: USER,
        identity: FileIdentity { device: 1, inode },
        links: node.links,
        modified_ns: node.changed,
        changed_ns: node.changed,
    })
}
