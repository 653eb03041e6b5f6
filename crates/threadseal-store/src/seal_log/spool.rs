//! [`Spool`]: heads that wait to be committed, on the disk, so that they survive their process.
//!
//! ```text
//! log/spool/<16 hex>   entries, each with LF; locked by the process that writes it
//! ```
//! Nothing here is synced: a record may be ahead of the log, and is logged again when it is sealed next. A file that nobody
//! holds was left by a process that ended: whoever commits next takes what is in it.

use super::place::Place;
use crate::atomic::{self, PRIVATE_FILE};
use crate::home::PRIVATE_DIRECTORY;
use crate::random::{self, Random};
use crate::sys::{self, Access, FileHandle};
use std::path::PathBuf;
use std::sync::Arc;
use threadseal::encoding;
use threadseal::error::{Error, ErrorKind};
use threadseal::tlog::entry::{LogEntry, LoggedHead};

/// Largest file that is taken over, in bytes.
const MAX_SPOOL_BYTES: usize = 64 << 20;
/// Files that are taken over at once.
const MAX_TAKEN: usize = 32;
/// Names tried for a file.
const MAX_NAMES: usize = 16;

/// The file of this process.
#[derive(Debug)]
pub(super) struct Spool {
    place: Place,
    path: PathBuf,
    file: Arc<dyn FileHandle>,
    used: bool,
    /// May the last line lack its end?
    torn: bool,
}

impl Spool {
    pub(super) fn create(place: &Place, random: &dyn Random) -> Result<Self, Error> {
        let folder = place.spool();
        atomic::create_directories(&*place.fs, &folder, PRIVATE_DIRECTORY)?;
        for _ in 0..MAX_NAMES {
            let name = encoding::hex(&random::array::<8>(random)?);
            let path = folder.join(name);
            let fail = |error| sys::failure("make", &path, &error);
            let file = place.fs.open(&path, Access::CreateNew(PRIVATE_FILE));
            let file = file.map_err(fail)?;
            // Between these two calls somebody may take the file for one that was left.
            let ours = file.try_lock().map_err(fail)?;
            if ours && file.metadata().map_err(fail)?.links > 0 {
                return Ok(Self {
                    place: place.clone(),
                    path,
                    file,
                    used: false,
                    torn: false,
                });
            }
        }
        let text = format!("no file of our own can be made in {}", folder.display());
        Err(Error::new(ErrorKind::External, text))
    }

    pub(super) fn append(&mut self, entry: &[u8]) -> Result<(), Error> {
        self.used = true;
        let line = match self.torn {
            true => [b"\n", entry, b"\n"].concat(),
            false => [entry, b"\n"].concat(),
        };
        let done = sys::append_all(&*self.file, &line);
        self.torn = done.is_err();
        done.map_err(|error| sys::failure("write", &self.path, &error))
    }

    /// May something wait in it?
    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// Everything in it was committed.
    pub(super) fn clear(&mut self) {
        // What stays is committed already, and is noticed to be.
        if std::mem::take(&mut self.used) {
            let _ = self.file.set_len(0);
        }
    }

    /// Removes it, when nothing waits in it.
    pub(super) fn close(self) {
        if !self.used {
            let _ = self.place.fs.unlink(&self.path);
        }
    }
}

/// What a process that ended has left.
#[derive(Debug)]
pub(super) struct Left {
    path: PathBuf,
    pub(super) heads: Vec<LoggedHead>,
    // Locked until it is gone.
    _file: Arc<dyn FileHandle>,
}

impl Left {
    /// Files that nobody holds, some of them: each is open until its heads are committed.
    pub(super) fn all(place: &Place) -> Vec<Self> {
        let folder = place.spool();
        let names = place.fs.read_dir(&folder).unwrap_or_default();
        let paths = names.into_iter().map(|name| folder.join(name));
        let taken = paths.filter_map(|path| Self::take(place, path));
        taken.take(MAX_TAKEN).collect()
    }

    fn take(place: &Place, path: PathBuf) -> Option<Self> {
        let file = place.fs.open(&path, Access::Append).ok()?;
        if !file.try_lock().ok()? {
            return None;
        }
        let bytes = place.read(&path, MAX_SPOOL_BYTES).ok()??;
        // A line that was torn is of a head that nobody was told of.
        let heads = bytes.split(|byte| *byte == b'\n').filter_map(|line| {
            match LogEntry::read(line).ok()? {
                LogEntry::Head(logged) => Some(logged),
                _ => None,
            }
        });
        Some(Self {
            path,
            heads: heads.collect(),
            _file: file,
        })
    }

    /// Removes it, when its heads were committed.
    pub(super) fn done(self, place: &Place) {
        let _ = place.fs.unlink(&self.path);
    }
}
