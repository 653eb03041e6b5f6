//! [`Log`]: the file of one writer.

use super::failure::FirstFailure;
use super::tail::{MovedTail, aside};
use crate::atomic::NewFile;
use crate::lock::WriterLock;
use crate::read::{Source as _, open_regular};
use crate::sys::{self, Access, FileHandle, Fs, directory_of};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::error::{Error, ErrorKind};

/// Bytes that [`Log::append_buffered`] keeps before it writes them.
pub const MAX_BUFFERED_BYTES: usize = 256 << 10;
/// Bytes rewritten at once when a log is opened.
const REWRITE_BYTES: usize = 256 << 10;

/// An append-only file, open for its one writer.
#[derive(Debug)]
pub struct Log {
    fs: Arc<dyn Fs>,
    file: Arc<dyn FileHandle>,
    path: PathBuf,
    buffer: Vec<u8>,
    written: u64,
    durable: u64,
    failed: FirstFailure,
}

impl Log {
    /// Makes a log that appears under its name with `first` already in it, durable and locked. No
    /// crash leaves a record without its first bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when `path` exists or cannot be made, [`ErrorKind::External`]
    /// when the system fails.
    pub fn create(fs: Arc<dyn Fs>, path: &Path, mode: u32, first: &[u8]) -> Result<Self, Error> {
        let mut new = NewFile::begin(&*fs, path, mode)?;
        if !new
            .handle()
            .try_lock()
            .map_err(|error| sys::failure("lock", path, &error))?
        {
            return Err(Error::new(
                ErrorKind::External,
                format!(
                    "another process locked {} while it was made",
                    path.display()
                ),
            ));
        }
        new.write(first)?;
        let file = new.commit_new()?;
        Ok(Self {
            file,
            path: path.to_owned(),
            buffer: Vec::new(),
            written: first.len() as u64,
            durable: first.len() as u64,
            failed: FirstFailure::default(),
            fs,
        })
    }

    /// Opens a locked record.
    ///
    /// `durable_floor` is the size up to which its bytes are known to have reached the disk. This
    /// is the size in its last known head, 0 when there is none. Bytes above it are written again
    /// in place and synced; after that all of the file is durable.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the system fails, [`ErrorKind::InvalidInput`] when the file
    /// cannot be written.
    pub fn open(lock: WriterLock, durable_floor: u64) -> Result<Self, Error> {
        let log = Self::resume(lock)?;
        rewrite_in_place(&*log.fs, &*log.file, &log.path, durable_floor, log.written)
            .and_then(|()| log.fs.sync_dir(directory_of(&log.path)))
            .map_err(|error| sys::failure("open for writing", &log.path, &error))?;
        Ok(log)
    }

    /// Opens a locked record of which nothing needs to be made durable: its content shows that all
    /// of it is, or may be lost.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn resume(lock: WriterLock) -> Result<Self, Error> {
        let (fs, file, path) = lock.into_parts();
        let found = file.metadata();
        let size = found
            .map_err(|error| sys::failure("open", &path, &error))?
            .size;
        Ok(Self {
            fs,
            file,
            path,
            buffer: Vec::new(),
            written: size,
            durable: size,
            failed: FirstFailure::default(),
        })
    }

    /// The path under which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that survive this process.
    pub fn written_size(&self) -> u64 {
        self.written
    }

    /// Bytes that survive power loss.
    pub fn durable_size(&self) -> u64 {
        self.durable
    }

    /// Bytes of the log, those included for which nothing is promised yet.
    pub fn size(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Takes `bytes` and promises nothing yet. Writes when [`MAX_BUFFERED_BYTES`] are together.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_buffered(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.failed.check()?;
        if self.buffer.len() + bytes.len() > MAX_BUFFERED_BYTES {
            self.flush()?;
        }
        if bytes.len() > MAX_BUFFERED_BYTES {
            return self.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes `bytes`, after those that are buffered. On `Ok` they survive this process. Returns
    /// the written size.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the system fails, now or earlier; [`ErrorKind::Refused`] when
    /// another program wrote to the file or deleted it. The log is of no further use then.
    pub fn append(&mut self, bytes: &[u8]) -> Result<u64, Error> {
        self.append_buffered(bytes)?;
        self.flush()
    }

    /// Writes the buffered bytes. On `Ok` they survive this process. Returns the written size.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn flush(&mut self) -> Result<u64, Error> {
        self.failed.check()?;
        if !self.buffer.is_empty() {
            let waiting = std::mem::take(&mut self.buffer);
            self.write(&waiting)?;
            self.buffer = waiting;
            self.buffer.clear();
        }
        Ok(self.written)
    }

    /// Writes the buffered bytes and makes all of the log durable. On `Ok` it survives power loss.
    /// Returns the durable size.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn sync(&mut self) -> Result<u64, Error> {
        self.flush()?;
        if self.durable < self.written {
            let synced = self.file.sync_data();
            self.or_fail(synced.map_err(|error| sys::failure("sync", &self.path, &error)))?;
            self.check_alone()?;
            self.durable = self.written;
        }
        Ok(self.durable)
    }

    /// Moves all bytes from `offset` on into a file beside the log, durable there before they
    /// are cut here. `None` when there are none.
    ///
    /// # Errors
    /// As [`Log::append`]; [`ErrorKind::InvalidInput`] when the log ends before `offset`.
    pub fn move_tail_aside(&mut self, offset: u64) -> Result<Option<MovedTail>, Error> {
        let end = self.flush()?;
        self.check_alone()?;
        let Some(length) = end.checked_sub(offset) else {
            return Err(Error::invalid(format!(
                "{} ends at byte {end}, before byte {offset}",
                self.path.display()
            )));
        };
        if length == 0 {
            return Ok(None);
        }
        let sha256 = self.digest(offset)?;
        let path = aside(&self.path, offset, sha256);
        self.copy_aside(&path, offset, sha256)?;
        let cut = self.file.set_len(offset);
        let cut = cut.and_then(|()| self.file.sync_all());
        self.or_fail(cut.map_err(|error| sys::failure("cut", &self.path, &error)))?;
        self.written = offset;
        self.durable = offset;
        Ok(Some(MovedTail {
            path,
            offset,
            length,
            sha256,
        }))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.check_alone()?;
        let result = sys::append_all(&*self.file, bytes);
        self.or_fail(result.map_err(|error| sys::failure("write", &self.path, &error)))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// The file must have the size that this log gave it, and a name.
    fn check_alone(&mut self) -> Result<(), Error> {
        let found = self.file.metadata();
        let found = self.or_fail(found.map_err(|e| sys::failure("write", &self.path, &e)))?;
        let path = self.path.display();
        let complaint = if found.links == 0 {
            format!("{path} was deleted while it was written")
        } else if found.size != self.written {
            format!(
                "another program wrote to {path}: it has {} bytes where {} were written here",
                found.size, self.written
            )
        } else {
            return Ok(());
        };
        self.or_fail(Err(Error::refused(complaint)))
    }

    fn copy_aside(&mut self, path: &Path, offset: u64, sha256: Digest) -> Result<(), Error> {
        if self.fs.symlink_metadata(path).is_ok() {
            // A crash after an earlier copy and before its truncation left this file, or another
            // program made the name.
            if digest_of_file(self, path)? != sha256 {
                return Err(Error::refused(format!(
                    "{} exists and does not match its name; move it away",
                    path.display()
                )));
            }
            return self
                .fs
                .sync_dir(directory_of(path))
                .map_err(|error| sys::failure("sync the directory of", path, &error));
        }
        let mode = self
            .file
            .metadata()
            .map_err(|error| sys::failure("read", &self.path, &error))?
            .mode;
        let fs = Arc::clone(&self.fs);
        let mut copy = NewFile::begin(&*fs, path, mode)?;
        let mut copied = Hasher::new();
        self.each_block(offset, |block| {
            copied.update(block);
            copy.write(block)
        })?;
        if copied.finish() != sha256 {
            return Err(Error::new(
                ErrorKind::External,
                format!(
                    "the tail of {} changed while it was moved",
                    self.path.display()
                ),
            ));
        }
        copy.commit_new()?;
        Ok(())
    }

    fn digest(&self, offset: u64) -> Result<Digest, Error> {
        let mut hasher = Hasher::new();
        self.each_block(offset, |block| {
            hasher.update(block);
            Ok(())
        })?;
        Ok(hasher.finish())
    }

    /// Calls `visit` with the bytes from `offset` to the end, block by block.
    fn each_block(
        &self,
        offset: u64,
        mut visit: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut buffer = vec![0; REWRITE_BYTES];
        let mut position = offset;
        while position < self.written {
            let count = sys::read_full_at(&*self.file, &mut buffer, position)
                .map_err(|error| sys::failure("read", &self.path, &error))?;
            if count == 0 {
                return Err(Error::new(
                    ErrorKind::External,
                    format!("{} became shorter while it was read", self.path.display()),
                ));
            }
            visit(&buffer[..count])?;
            position += count as u64;
        }
        Ok(())
    }

    fn or_fail<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        self.failed.keep(&mut self.buffer, result)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // These bytes have no promise, but a recorder keeps what it can. They are in order, so the
        // file stays a prefix of the appended bytes.
        let _ = self.flush();
    }
}

/// Makes the pages of `floor..size` dirty again, with the bytes they have, and syncs them.
fn rewrite_in_place(
    fs: &dyn Fs,
    file: &dyn FileHandle,
    path: &Path,
    floor: u64,
    size: u64,
) -> io::Result<()> {
    // A file opened for appending cannot be written in place (pwrite(2), BUGS).
    let rewriter = fs.open(path, Access::Rewrite)?;
    if rewriter.metadata()?.identity != file.metadata()?.identity {
        return Err(io::Error::other(
            "the file was replaced while it was opened",
        ));
    }
    let mut buffer = vec![0; REWRITE_BYTES];
    let mut position = floor;
    while position < size {
        let wanted =
            usize::try_from(size - position).map_or(REWRITE_BYTES, |n| n.min(REWRITE_BYTES));
        let count = sys::read_full_at(&*rewriter, &mut buffer[..wanted], position)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        sys::write_all_at(&*rewriter, &buffer[..count], position)?;
        position += count as u64;
    }
    rewriter.sync_all()
}

fn digest_of_file(log: &Log, path: &Path) -> Result<Digest, Error> {
    let file = open_regular(&*log.fs, path)?;
    let mut hasher = Hasher::new();
    let mut chunks = file.chunks();
    let mut buffer = Vec::new();
    loop {
        chunks.next_chunk(&mut buffer)?;
        if buffer.is_empty() {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer);
    }
}

#[cfg(test)]
mod tests;
