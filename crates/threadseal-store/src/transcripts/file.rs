//! [`FileTranscriptStore`]: the records of a folder, one file each.
//!
//! ```text
//! NAME.jsonl                             the record
//! NAME.jsonl.tail-<offset>-<sha256>      a tail that was set aside   (crate::append)
//! ```
//! A file is exactly what [`crate::recorder::Recorder`] writes at a path: the store only names it.

use super::transcript_store::{checked_aside, no_record};
use super::{Appender, Claim, FsckReport, RecordName, TranscriptStore};
use crate::append::{Log, MovedTail};
use crate::atomic::{self, NewFile, PRIVATE_DIRECTORY, PRIVATE_FILE};
use crate::examine;
use crate::fsck::Fault;
use crate::lock::WriterLock;
use crate::read::{self, RegularFile, Source};
use crate::sys::{self, Fs};
use crate::tombstones;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;

const ENDING: &str = ".jsonl";

/// Records in the files of a folder, which is made with the first one.
#[derive(Debug)]
pub struct FileTranscriptStore {
    fs: Arc<dyn Fs>,
    folder: PathBuf,
}

impl FileTranscriptStore {
    /// The records in `folder`.
    pub fn new(fs: Arc<dyn Fs>, folder: impl Into<PathBuf>) -> Self {
        Self {
            fs,
            folder: folder.into(),
        }
    }

    fn path_of(&self, name: &RecordName) -> PathBuf {
        self.folder.join(format!("{name}{ENDING}"))
    }

    fn make_folder(&self) -> Result<(), Error> {
        atomic::create_directories(&*self.fs, &self.folder, PRIVATE_DIRECTORY)
    }

    fn is_there(&self, path: &Path) -> Result<bool, Error> {
        match self.fs.symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(sys::failure("read", path, &error)),
        }
    }
}

impl TranscriptStore for FileTranscriptStore {
    fn create(&self, name: &RecordName, first: &[u8]) -> Result<Box<dyn Appender>, Error> {
        self.make_folder()?;
        let (fs, path) = (Arc::clone(&self.fs), self.path_of(name));
        Ok(Box::new(Log::create(fs, &path, PRIVATE_FILE, first)?))
    }

    fn import(&self, name: &RecordName, source: &mut dyn Source) -> Result<(), Error> {
        self.make_folder()?;
        let mut file = NewFile::begin(&*self.fs, &self.path_of(name), PRIVATE_FILE)?;
        let mut chunk = Vec::new();
        loop {
            source.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                return file.commit_new().map(drop);
            }
            file.write(&chunk)?;
        }
    }

    fn claim(&self, name: &RecordName) -> Result<Box<dyn Claim>, Error> {
        let lock = WriterLock::acquire(Arc::clone(&self.fs), &self.path_of(name))?;
        Ok(Box::new(lock))
    }

    fn read(&self, name: &RecordName) -> Result<Option<RegularFile>, Error> {
        let path = self.path_of(name);
        match self.is_there(&path)? {
            true => read::open_regular(&*self.fs, &path).map(Some),
            false => Ok(None),
        }
    }

    fn names(&self, after: Option<&RecordName>, limit: usize) -> Result<Vec<RecordName>, Error> {
        let found = match self.fs.read_dir(&self.folder) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(sys::failure("read", &self.folder, &error)),
        };
        // A file with another name is no record of this store.
        let named = found.iter().filter_map(|file| {
            let name = file.to_str()?.strip_suffix(ENDING)?;
            RecordName::parse(name).ok()
        });
        let mut names: Vec<RecordName> = named
            .filter(|name| after.is_none_or(|after| name > after))
            .collect();
        names.sort_unstable();
        names.truncate(limit);
        Ok(names)
    }

    fn read_aside(
        &self,
        _: &RecordName,
        moved: &MovedTail,
        limit_bytes: usize,
    ) -> Result<Vec<u8>, Error> {
        let bytes = read::read_small(&*self.fs, &moved.path, limit_bytes)?;
        checked_aside(bytes, moved)
    }

    fn delete(&self, name: &RecordName, record: &RecordId, size: u64) -> Result<bool, Error> {
        let path = self.path_of(name);
        if !self.is_there(&path)? {
            return Ok(false);
        }
        let lock = WriterLock::acquire(Arc::clone(&self.fs), &path)?;
        let file = lock.reader()?;
        let first = examine::first_line(&file)?;
        let is_it = first.as_deref().and_then(examine::native_record) == Some(*record);
        if !is_it || file.size() != size {
            return Ok(false);
        }
        let beside = tombstones::beside(&*self.fs, &path)?;
        tombstones::drop_all(&*self.fs, &path, &beside)?;
        drop(lock);
        Ok(true)
    }

    fn fsck(&self, name: &RecordName, _: bool) -> Result<FsckReport, Error> {
        let file = self.read(name)?.ok_or_else(|| no_record(name))?;
        let (mut faults, mut size, mut line) = (Vec::new(), 0, 0);
        let mut fault = |code, at, message: &str| {
            faults.push(Fault {
                code,
                at: Some(at),
                message: message.to_owned(),
                repaired: false,
            });
        };
        let first = examine::first_line(&file)?;
        if first.as_deref().and_then(examine::native_record).is_none() {
            let text = "the file does not begin with a native manifest";
            fault("not_a_record", 0, text);
        }
        let (mut chunks, mut chunk) = (file.chunks(), Vec::new());
        loop {
            chunks.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                break;
            }
            if let Some(end) = chunk.iter().rposition(|byte| *byte == b'\n') {
                line = size + end as u64 + 1;
            }
            size += chunk.len() as u64;
        }
        if line < size {
            let text = "the file ends in a torn line; hint: threadseal seal sets it aside and records that";
            fault("torn_tail", line, text);
        }
        Ok(FsckReport {
            name: name.clone(),
            bytes: size,
            faults,
            more: 0,
        })
    }

    fn holds_bodies(&self) -> bool {
        true
    }

    fn place(&self, name: &RecordName) -> PathBuf {
        self.path_of(name)
    }
}

impl Claim for WriterLock {
    fn reader(&self) -> Result<RegularFile, Error> {
        WriterLock::reader(self)
    }

    fn appender(self: Box<Self>, durable_floor: u64) -> Result<Box<dyn Appender>, Error> {
        Ok(Box::new(Log::open(*self, durable_floor)?))
    }

    fn holds_bodies(&self) -> bool {
        true
    }
}

impl Appender for Log {
    fn append_buffered(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Log::append_buffered(self, bytes)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Log::flush(self).map(drop)
    }

    fn sync(&mut self) -> Result<(), Error> {
        Log::sync(self).map(drop)
    }

    fn move_tail_aside(&mut self, offset: u64) -> Result<Option<MovedTail>, Error> {
        Log::move_tail_aside(self, offset)
    }

    fn path(&self) -> &Path {
        Log::path(self)
    }
}
