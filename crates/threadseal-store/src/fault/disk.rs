//! A disk in memory: the state that programs see, and the state after power loss.
//!
//! ```text
//! file       bytes    the bytes that read() returns
//!            durable  the bytes on the platter
//!            dirty    changes of `bytes` since the last fsync, in order
//! directory  names    the names that open() finds
//!            durable  the names on the platter
//!            pending  changes of `names` since the last fsync of the directory, in order
//! ```
//! An fsync applies `dirty` to `durable`. A *lost* fsync forgets `dirty` without applying it, as
//! Linux does. `bytes` looks whole, and the next fsync has nothing to do for those ranges. If it
//! lengthens the file, they are zeros on the platter.

use crate::random::SeededRandom;
use crate::sys::FileKind;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::{Component, Path};

/// Which unsynced changes reach the platter when the power is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// None of it.
    Nothing,
    /// All of it.
    Everything,
    /// For each file and directory by lot: nothing, everything, or a torn part. It may also keep
    /// the new length filled with zeros, or some changes without those before them.
    ByLot(u64),
}

pub(super) type Inode = u64;

const ROOT: Inode = 1;

#[derive(Debug, Clone)]
pub(super) struct Disk {
    nodes: BTreeMap<Inode, Node>,
    ticks: i128,
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) content: Content,
    pub(super) mode: u32,
    pub(super) links: u64,
    pub(super) changed: i128,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    File(FileContent),
    Directory(DirectoryContent),
}

#[derive(Debug, Default, Clone)]
pub(super) struct FileContent {
    pub(super) bytes: Vec<u8>,
    durable: Vec<u8>,
    dirty: Vec<Dirty>,
}

#[derive(Debug, Clone)]
enum Dirty {
    Bytes(Range<usize>),
    Length,
}

#[derive(Debug, Default, Clone)]
pub(super) struct DirectoryContent {
    pub(super) names: BTreeMap<OsString, Inode>,
    durable: BTreeMap<OsString, Inode>,
    pending: Vec<NameChange>,
}

#[derive(Debug, Clone)]
enum NameChange {
    Put(OsString, Inode),
    Remove(OsString),
    Move(OsString, OsString, Inode),
}

impl Disk {
    pub(super) fn new() -> Self {
        let mut disk = Self {
            nodes: BTreeMap::new(),
            ticks: 0,
        };
        disk.nodes.insert(
            ROOT,
            Node {
                content: Content::Directory(DirectoryContent::default()),
                mode: 0o755,
                links: 1,
                changed: 0,
            },
        );
        disk
    }

    pub(super) fn node(&self, inode: Inode) -> io::Result<&Node> {
        self.nodes
            .get(&inode)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn touch(&mut self, inode: Inode) -> io::Result<&mut Node> {
        self.ticks += 1;
        let node = self.nodes.get_mut(&inode);
        let node = node.ok_or(io::ErrorKind::NotFound)?;
        node.changed = self.ticks;
        Ok(node)
    }

    pub(super) fn file(&self, inode: Inode) -> io::Result<&FileContent> {
        match &self.node(inode)?.content {
            Content::File(file) => Ok(file),
            Content::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn file_mut(&mut self, inode: Inode) -> io::Result<&mut FileContent> {
        match &mut self.touch(inode)?.content {
            Content::File(file) => Ok(file),
            Content::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn directory(&self, inode: Inode) -> io::Result<&DirectoryContent> {
        match &self.node(inode)?.content {
            Content::Directory(directory) => Ok(directory),
            Content::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn directory_mut(&mut self, inode: Inode) -> io::Result<&mut DirectoryContent> {
        match &mut self.touch(inode)?.content {
            Content::Directory(directory) => Ok(directory),
            Content::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Follows `path` from the root.
    pub(super) fn find(&self, path: &Path) -> io::Result<Inode> {
        let mut at = ROOT;
        for part in path.components() {
            if let Component::Normal(name) = part {
                let found = self.directory(at)?.names.get(name);
                at = *found.ok_or(io::ErrorKind::NotFound)?;
            }
        }
        Ok(at)
    }

    fn place(&self, path: &Path) -> io::Result<(Inode, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let parent = path.parent().unwrap_or(Path::new("/"));
        Ok((self.find(parent)?, name.to_owned()))
    }

    /// Makes a file or directory under a new name.
    pub(super) fn make(&mut self, path: &Path, kind: FileKind, mode: u32) -> io::Result<Inode> {
        let (parent, name) = self.place(path)?;
        if self.directory(parent)?.names.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = self.nodes.keys().next_back().map_or(ROOT, |last| last + 1);
        let content = match kind {
            FileKind::Directory => Content::Directory(DirectoryContent::default()),
            _ => Content::File(FileContent::default()),
        };
        self.nodes.insert(
            inode,
            Node {
                content,
                mode,
                links: 1,
                changed: self.ticks,
            },
        );
        self.directory_mut(parent)?
            .change(NameChange::Put(name, inode));
        Ok(inode)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        let ((parent, old), (parent_too, new)) = (self.place(from)?, self.place(to)?);
        if parent != parent_too {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        let names = &self.directory(parent)?.names;
        let inode = *names.get(&old).ok_or(io::ErrorKind::NotFound)?;
        let replaced = names.get(&new).copied();
        if replaced.is_some() && !replace {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if let Some(replaced) = replaced {
            self.touch(replaced)?.links -= 1;
        }
        self.directory_mut(parent)?
            .change(NameChange::Move(old, new, inode));
        Ok(())
    }

    pub(super) fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let inode = self.find(from)?;
        self.file(inode)?;
        let (parent, name) = self.place(to)?;
        if self.directory(parent)?.names.contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.touch(inode)?.links += 1;
        self.directory_mut(parent)?
            .change(NameChange::Put(name, inode));
        Ok(())
    }

    pub(super) fn unlink(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.find(path)?;
        self.file(inode)?;
        let (parent, name) = self.place(path)?;
        self.touch(inode)?.links -= 1;
        self.directory_mut(parent)?.change(NameChange::Remove(name));
        Ok(())
    }

    pub(super) fn remove_directory(&mut self, path: &Path) -> io::Result<()> {
        if !self.directory(self.find(path)?)?.names.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let (parent, name) = self.place(path)?;
        self.directory_mut(parent)?.change(NameChange::Remove(name));
        Ok(())
    }

    pub(super) fn set_mode(&mut self, inode: Inode, mode: u32) -> io::Result<()> {
        self.touch(inode)?.mode = mode;
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, inode: Inode) -> io::Result<()> {
        let directory = self.directory_mut(inode)?;
        directory.durable = directory.names.clone();
        directory.pending.clear();
        Ok(())
    }

    /// The power goes and comes back.
    pub(super) fn cut_power(&mut self, keep: Keep) {
        let lots = SeededRandom::new(match keep {
            Keep::ByLot(seed) => seed,
            Keep::Nothing | Keep::Everything => 0,
        });
        for node in self.nodes.values_mut() {
            match &mut node.content {
                Content::File(file) => file.cut_power(keep, &lots),
                Content::Directory(directory) => directory.cut_power(keep, &lots),
            }
            node.links = 0;
        }
        self.count_links(ROOT);
    }

    fn count_links(&mut self, directory: Inode) {
        let inodes: Vec<Inode> = match self.directory(directory) {
            Ok(found) => found.names.values().copied().collect(),
            Err(_) => return,
        };
        for inode in inodes {
            if let Some(node) = self.nodes.get_mut(&inode) {
                node.links += 1;
            }
            self.count_links(inode);
        }
    }
}

impl FileContent {
    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
        self.dirty.push(Dirty::Bytes(offset..end));
    }

    pub(super) fn set_len(&mut self, size: usize) {
        self.bytes.resize(size, 0);
        self.dirty.push(Dirty::Length);
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.dirty) {
            self.apply(&change, usize::MAX);
        }
    }

    /// The fsync failed, and the kernel forgets that these pages were dirty.
    pub(super) fn lose_dirty(&mut self) {
        self.dirty.clear();
    }

    /// Puts at most `limit` bytes of a change on the platter; returns how many it had.
    fn apply(&mut self, change: &Dirty, limit: usize) -> usize {
        match change {
            Dirty::Length => {
                self.durable.resize(self.bytes.len(), 0);
                0
            }
            Dirty::Bytes(range) => {
                // A later truncation may have removed the end of the written bytes.
                let end = range.end.min(self.bytes.len());
                let start = range.start.min(end);
                let end = end.min(start.saturating_add(limit));
                if start == end {
                    return 0;
                }
                if self.durable.len() < end {
                    self.durable.resize(end, 0);
                }
                self.durable[start..end].copy_from_slice(&self.bytes[start..end]);
                end - start
            }
        }
    }

    fn cut_power(&mut self, keep: Keep, lots: &SeededRandom) {
        let changes = std::mem::take(&mut self.dirty);
        let lot = match keep {
            Keep::Nothing => 0,
            Keep::Everything => 1,
            Keep::ByLot(_) => lots.below(5),
        };
        match lot {
            0 => {}
            1 => {
                for change in &changes {
                    self.apply(change, usize::MAX);
                }
            }
            2 => {
                let total: usize = changes.iter().map(|change| self.length_of(change)).sum();
                let mut left = lots.below(total + 1);
                for change in &changes {
                    left -= self.apply(change, left);
                }
            }
            3 if !changes.is_empty() && self.bytes.len() > self.durable.len() => {
                self.durable.resize(self.bytes.len(), 0);
            }
            _ => {
                for change in &changes {
                    if lots.below(2) == 0 {
                        self.apply(change, usize::MAX);
                    }
                }
            }
        }
        self.bytes.clone_from(&self.durable);
    }

    fn length_of(&self, change: &Dirty) -> usize {
        match change {
            Dirty::Length => 0,
            Dirty::Bytes(range) => {
                range.end.min(self.bytes.len()) - range.start.min(self.bytes.len())
            }
        }
    }
}

impl DirectoryContent {
    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    fn cut_power(&mut self, keep: Keep, lots: &SeededRandom) {
        let changes = std::mem::take(&mut self.pending);
        let scattered = lots.below(2) == 0;
        let first_lost = match keep {
            Keep::Nothing => 0,
            Keep::Everything => changes.len(),
            Keep::ByLot(_) => lots.below(changes.len() + 1),
        };
        for (index, change) in changes.iter().enumerate() {
            let kept = match keep {
                Keep::ByLot(_) if scattered => lots.below(2) == 0,
                _ => index < first_lost,
            };
            if kept {
                change.apply(&mut self.durable);
            }
        }
        self.names.clone_from(&self.durable);
    }

    pub(super) fn listing(&self) -> Vec<OsString> {
        self.names.keys().cloned().collect()
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<OsString, Inode>) {
        match self {
            Self::Put(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Self::Remove(name) => {
                names.remove(name);
            }
            Self::Move(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }
}
