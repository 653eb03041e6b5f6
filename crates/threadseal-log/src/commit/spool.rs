//! [`Spool`]: heads that wait to be committed, on the disk, so that they survive their process.
//!
//! ```text
//! log/spool/<16 hex>   lines (`layout::home_secret`), each with LF; locked by the process that writes it
//! ```
//! Nothing here is synced: a record may be ahead of the log, and its next seal is logged again. A file without a lock was
//! left by a process that ended: the next process that commits takes its lines. A line counts if the home's own secret shows
//! that a process of this home wrote it; else `spool_quarantine` decides.

use crate::layout::description::LogId;
use crate::layout::home_secret::{HomeSecret, unproved_entry};
use crate::layout::log_dir::LogDir;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::tlog::entry::{LogEntry, LoggedHead};
use threadseal_store::atomic::PRIVATE_DIRECTORY;
use threadseal_store::atomic::{self, PRIVATE_FILE};
use threadseal_store::random::{self, Random};
use threadseal_store::sys::{self, Access, FileHandle};

/// Largest file that is taken over, in bytes.
pub(crate) const MAX_SPOOL_BYTES: usize = 64 << 20;
/// Files that are taken over at once.
const MAX_TAKEN: usize = 32;
/// Names tried for a file.
const MAX_NAMES: usize = 16;

/// The file of this process.
#[derive(Debug)]
pub(crate) struct Spool {
    dir: LogDir,
    path: PathBuf,
    file: Arc<dyn FileHandle>,
    log: LogId,
    /// None where it can be neither read nor made: then a line counts as far as the store of heads agrees.
    key: Option<HomeSecret>,
    used: bool,
    /// May the last line lack its end?
    torn: bool,
}

impl Spool {
    pub(crate) fn create(dir: &LogDir, log: LogId, random: &dyn Random) -> Result<Self, Error> {
        let folder = dir.spool();
        let key = HomeSecret::make(dir, random).ok();
        atomic::create_directories(&*dir.fs, &folder, PRIVATE_DIRECTORY)?;
        for _ in 0..MAX_NAMES {
            let name = encoding::hex(&random::array::<8>(random)?);
            let path = folder.join(name);
            let fail = |error| sys::failure("make", &path, &error);
            let file = dir.fs.open(&path, Access::CreateNew(PRIVATE_FILE));
            let file = file.map_err(fail)?;
            // Between these two calls another process may take the file for one that was left.
            let ours = file.try_lock().map_err(fail)?;
            if ours && file.metadata().map_err(fail)?.links > 0 {
                return Ok(Self {
                    dir: dir.clone(),
                    path,
                    file,
                    log,
                    key,
                    used: false,
                    torn: false,
                });
            }
        }
        let text = format!("cannot create a new file in {}", folder.display());
        Err(Error::new(ErrorKind::External, text))
    }

    pub(crate) fn append(&mut self, entry: &[u8]) -> Result<(), Error> {
        self.used = true;
        let mut line = match &self.key {
            Some(key) => key.line(self.log, entry),
            None => entry.to_vec(),
        };
        line.push(b'\n');
        if self.torn {
            line.insert(0, b'\n');
        }
        let done = sys::append_all(&*self.file, &line);
        self.torn = done.is_err();
        done.map_err(|error| sys::failure("write", &self.path, &error))
    }

    /// May something wait in it?
    pub(crate) fn is_used(&self) -> bool {
        self.used
    }

    /// Everything in it was committed.
    pub(crate) fn clear(&mut self) {
        // What stays is committed already, and is noticed to be.
        if std::mem::take(&mut self.used) {
            let _ = self.file.set_len(0);
        }
    }

    /// Removes it, when nothing waits in it.
    pub(crate) fn close(self) {
        if !self.used {
            let _ = self.dir.fs.unlink(&self.path);
        }
    }
}

/// What a process that ended has left.
#[derive(Debug)]
pub(crate) struct LeftSpool {
    path: PathBuf,
    pub(crate) lines: Vec<SpoolLine>,
    // Locked until it is gone.
    _file: Arc<dyn FileHandle>,
}

/// A line that was left.
#[derive(Debug)]
pub(crate) struct SpoolLine {
    pub(crate) bytes: Vec<u8>,
    /// The log for which a process of this home wrote it; None where nothing shows that.
    pub(crate) log: Option<LogId>,
    /// The head in it, if there is one.
    pub(crate) head: Option<LoggedHead>,
}

impl LeftSpool {
    /// Some of the files that no process holds: each is open until its heads are committed.
    pub(crate) fn all(dir: &LogDir) -> Vec<Self> {
        Self::each(dir, &dir.spool()).take(MAX_TAKEN).collect()
    }

    /// The files in this folder that no process holds, one after the other.
    pub(crate) fn each(dir: &LogDir, folder: &Path) -> impl Iterator<Item = Self> {
        let mut names = dir.fs.read_dir(folder).unwrap_or_default();
        let mut key = None;
        if !names.is_empty() {
            match HomeSecret::find(dir) {
                Ok(found) => key = found,
                // The lines are judged when the secret can be read.
                Err(_) => names.clear(),
            }
        }
        let paths = names.into_iter().map(move |name| folder.join(name));
        paths.filter_map(move |path| Self::take(dir, path, key.as_ref()))
    }

    /// What waits in all files, also in those of processes that still run: to be read, not taken.
    pub(crate) fn peek(dir: &LogDir) -> Vec<SpoolLine> {
        let folder = dir.spool();
        let names = dir.fs.read_dir(&folder).unwrap_or_default();
        let Ok(key) = HomeSecret::find(dir) else {
            return Vec::new();
        };
        let files = names.into_iter().map(|name| folder.join(name));
        let files = files.filter_map(|path| dir.read(&path, MAX_SPOOL_BYTES).ok()?);
        let lines = files.flat_map(|bytes| {
            let lines = bytes.split(|byte| *byte == b'\n');
            let lines = lines.filter(|line| !line.is_empty());
            lines
                .map(|line| SpoolLine::of(line, key.as_ref()))
                .collect::<Vec<_>>()
        });
        lines.collect()
    }

    fn take(dir: &LogDir, path: PathBuf, key: Option<&HomeSecret>) -> Option<Self> {
        let file = dir.fs.open(&path, Access::Append).ok()?;
        if !file.try_lock().ok()? {
            return None;
        }
        let bytes = dir.read(&path, MAX_SPOOL_BYTES).ok()??;
        let lines = bytes.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.is_empty());
        Some(Self {
            path,
            lines: lines.map(|line| SpoolLine::of(line, key)).collect(),
            _file: file,
        })
    }

    /// Removes it, when its heads were committed.
    pub(crate) fn done(self, dir: &LogDir) {
        let _ = dir.fs.unlink(&self.path);
    }
}

impl SpoolLine {
    fn of(line: &[u8], key: Option<&HomeSecret>) -> Self {
        let own = key.and_then(|key| key.open(line));
        let entry = own.map_or_else(|| unproved_entry(line), |(_, entry)| entry);
        let head = match LogEntry::read(entry) {
            Ok(LogEntry::Head(logged)) => Some(logged),
            _ => None,
        };
        Self {
            bytes: line.to_vec(),
            log: own.map(|(log, _)| log),
            head,
        }
    }
}
