//! Archived logs as files: what a verifier reads instead of the disk.
//!
//! ```text
//! <archive>/@/<agent>/<id>/<part>/<version>/<name of the log>        the bytes that were sealed
//!                                           <name of the log>.seal   their seals
//! all other paths ─► the disk
//! ```
//! Nothing is written: content of an encrypted archive stays off the disk. A chunk is decoded when it
//! is read, and checked then.

use super::journal::{Piece, State, Stream, Version};
use super::{Archive, ArchivedLog, LogName, StreamKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::error::Error;
use threadseal_store::atomic::{PRIVATE_DIRECTORY, PRIVATE_FILE};
use threadseal_store::sys::{Access, FileHandle, FileIdentity, FileKind, Fs, Metadata};

/// The folder of mounted logs.
const FOLDER: &str = "@";
/// No disk has this device.
const DEVICE: u64 = u64::MAX;

/// The disk with mounted logs in it.
#[derive(Debug, Clone)]
pub struct ArchiveFs {
    archive: Archive,
    files: BTreeMap<PathBuf, Content>,
    folders: BTreeSet<PathBuf>,
}

/// Where a mounted log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// The log.
    pub log: PathBuf,
    /// Its seals.
    pub seals: PathBuf,
}

/// One mounted file.
#[derive(Debug, Clone)]
struct Content {
    name: LogName,
    kind: StreamKind,
    stream: Arc<Stream>,
    /// Fewer bytes than the stream has, for an earlier state.
    size: u64,
    inode: u64,
}

/// A mounted file that is open.
#[derive(Debug)]
struct OpenContent {
    archive: Archive,
    content: Content,
    /// Where each part begins.
    starts: Vec<u64>,
    /// The part that was read last.
    last: Mutex<Option<(usize, Vec<u8>)>>,
    uid: u32,
}

impl ArchiveFs {
    /// The disk of `archive`, with nothing mounted.
    pub fn new(archive: &Archive) -> Self {
        Self {
            archive: archive.clone(),
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
        }
    }

    /// Mounts `version` of `log` as it was at `state`.
    pub fn mount(&mut self, log: &ArchivedLog, version: &Version, state: &State) -> Mounted {
        let root = self.archive.root.join(FOLDER);
        let id = &log.name.session;
        let folder = root.join(id.agent().name()).join(id.own());
        let folder = folder.join(log.name.part()).join(state.number.to_string());
        let source = log.source();
        let file = source.as_deref().and_then(Path::file_name);
        let file = file.map_or_else(|| OsString::from("log.jsonl"), OsString::from);
        let mut seals = file.clone();
        seals.push(".seal");
        let mounted = Mounted {
            log: folder.join(file),
            seals: folder.join(seals),
        };
        let sizes = [state.log_size, state.seal_size];
        let places = [&mounted.log, &mounted.seals];
        for ((kind, place), size) in StreamKind::ALL.into_iter().zip(places).zip(sizes) {
            let content = Content {
                name: log.name.clone(),
                kind,
                stream: Arc::new(kind.of(version).clone()),
                size,
                inode: self.files.len() as u64,
            };
            self.files.insert(place.clone(), content);
        }
        let above = folder
            .ancestors()
            .take_while(|above| above.starts_with(&root));
        self.folders.extend(above.map(Path::to_owned));
        mounted
    }

    /// Is this path, or a folder of it, a mounted one?
    fn is_ours(&self, path: &Path) -> bool {
        path.starts_with(self.archive.root.join(FOLDER))
    }

    fn found(&self, path: &Path) -> io::Result<Metadata> {
        let (kind, size, inode, mode) = match self.files.get(path) {
            Some(file) => (FileKind::Regular, file.size, file.inode, PRIVATE_FILE),
            None if self.folders.contains(path) => {
                let inode = self.folders.iter().position(|folder| folder == path);
                let inode = inode.map_or(u64::MAX, |inode| u64::MAX - inode as u64);
                (FileKind::Directory, 0, inode, PRIVATE_DIRECTORY)
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(metadata(
            kind,
            size,
            inode,
            mode,
            self.disk().effective_uid(),
        ))
    }

    fn disk(&self) -> &dyn Fs {
        self.archive.fs()
    }
}

fn metadata(kind: FileKind, size: u64, inode: u64, mode: u32, uid: u32) -> Metadata {
    Metadata {
        kind,
        size,
        mode,
        uid,
        identity: FileIdentity {
            device: DEVICE,
            inode,
        },
        links: 1,
        modified_ns: 0,
        changed_ns: 0,
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Fs for ArchiveFs {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn FileHandle>> {
        if !self.is_ours(path) {
            return self.disk().open(path, access);
        }
        if access != Access::Read {
            return read_only();
        }
        let content = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        let mut start = 0;
        let starts = content.stream.pieces().map(|piece| {
            let begins = start;
            start += u64::from(piece.size);
            begins
        });
        Ok(Arc::new(OpenContent {
            starts: starts.collect(),
            archive: self.archive.clone(),
            content: content.clone(),
            last: Mutex::default(),
            uid: self.disk().effective_uid(),
        }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        match self.is_ours(path) {
            true => self.found(path),
            false => self.disk().metadata(path),
        }
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        match self.is_ours(path) {
            true => self.found(path),
            false => self.disk().symlink_metadata(path),
        }
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        match self.is_ours(path) {
            true => self.found(path).map(|_| path.to_owned()),
            false => self.disk().canonicalize(path),
        }
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        match self.is_ours(path) {
            true => Err(io::ErrorKind::InvalidInput.into()),
            false => self.disk().read_link(path),
        }
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<OsString>> {
        if !self.is_ours(path) {
            return self.disk().read_dir(path);
        }
        self.found(path)?;
        let all = self.files.keys().chain(&self.folders);
        let within = all.filter(|place| place.parent() == Some(path));
        Ok(within
            .filter_map(|place| Some(place.file_name()?.to_owned()))
            .collect())
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        match self.is_ours(path) {
            true => read_only(),
            false => self.disk().create_dir(path, mode),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self.is_ours(from) || self.is_ours(to) {
            true => read_only(),
            false => self.disk().rename(from, to),
        }
    }

    fn rename_no_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self.is_ours(from) || self.is_ours(to) {
            true => read_only(),
            false => self.disk().rename_no_replace(from, to),
        }
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        match self.is_ours(from) || self.is_ours(to) {
            true => read_only(),
            false => self.disk().hard_link(from, to),
        }
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        match self.is_ours(path) {
            true => read_only(),
            false => self.disk().unlink(path),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        match self.is_ours(path) {
            true => read_only(),
            false => self.disk().sync_dir(path),
        }
    }

    fn is_on_network(&self, path: &Path) -> io::Result<bool> {
        match self.is_ours(path) {
            true => Ok(false),
            false => self.disk().is_on_network(path),
        }
    }

    fn effective_uid(&self) -> u32 {
        self.disk().effective_uid()
    }

    fn lock_holder(&self, identity: FileIdentity) -> Option<u32> {
        self.disk().lock_holder(identity)
    }
}

impl OpenContent {
    fn part(&self, number: usize) -> Result<Vec<u8>, Error> {
        let (content, stream) = (&self.content, &*self.content.stream);
        let piece: Option<&Piece> = stream.pieces().nth(number);
        let piece = piece.ok_or_else(|| Error::invalid("the file has no such part"))?;
        self.archive
            .piece(&content.name, content.kind, piece, stream)
    }
}

impl FileHandle for OpenContent {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.content.size.saturating_sub(offset);
        if left == 0 || buffer.is_empty() {
            return Ok(0);
        }
        let number = self
            .starts
            .partition_point(|start| *start <= offset)
            .saturating_sub(1);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(known, _)| *known != number) {
            let bytes = self.part(number).map_err(io::Error::other)?;
            *last = Some((number, bytes));
        }
        let bytes = last.as_ref().map_or(&[][..], |(_, bytes)| bytes);
        let skip = usize::try_from(offset - self.starts[number]).unwrap_or(usize::MAX);
        let rest = bytes.get(skip..).unwrap_or_default();
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let count = rest.len().min(buffer.len()).min(left);
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn append(&self, _: &[u8]) -> io::Result<usize> {
        read_only()
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        read_only()
    }

    fn sync_data(&self) -> io::Result<()> {
        read_only()
    }

    fn sync_all(&self) -> io::Result<()> {
        read_only()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        read_only()
    }

    fn set_mode(&self, _: u32) -> io::Result<()> {
        read_only()
    }

    fn metadata(&self) -> io::Result<Metadata> {
        let (size, inode) = (self.content.size, self.content.inode);
        Ok(metadata(
            FileKind::Regular,
            size,
            inode,
            PRIVATE_FILE,
            self.uid,
        ))
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }
}
