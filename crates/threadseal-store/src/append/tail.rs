//! Moving a tail aside: the bytes after the last seal, found when a record is opened.
//!
//! ```text
//! NAME                          sealed bytes │ tail
//! NAME.tail-<offset>-<sha256>                  tail      written and durable first
//! NAME                          sealed bytes             then cut, and synced
//! ```
//! A crash at any point leaves the tail in the record, beside it, or in both places; doing it
//! again ends the same way. Nothing is ever deleted.

use super::{Log, REWRITE_BYTES};
use crate::atomic::NewFile;
use crate::sys::{self, Fs, directory_of};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use threadseal_core::digest::{Digest, Hasher};
use threadseal_core::error::{Error, ErrorKind};

/// The text between the name of a record and the offset in the name of its tail.
const TAIL: &str = ".tail-";

/// A tail that was moved out of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedTail {
    /// The file that holds its bytes now.
    pub path: PathBuf,
    /// Its offset in the record.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// SHA-256 of them.
    pub sha256: Digest,
}

/// The files beside the record at `path` into which bytes of it were moved, by their names.
///
/// # Errors
/// [`ErrorKind::External`] when its folder cannot be read.
pub fn tails_of(fs: &dyn Fs, path: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut begin = OsString::from(path.file_name().unwrap_or_default());
    begin.push(TAIL);
    let folder = directory_of(path);
    let names = fs.read_dir(folder);
    let names = names.map_err(|error| sys::failure("read", folder, &error))?;
    let of_it = |name: &OsString| {
        let name = name.as_encoded_bytes();
        name.starts_with(begin.as_encoded_bytes())
    };
    let names = names.into_iter().filter(of_it);
    let mut found: Vec<PathBuf> = names.map(|name| folder.join(name)).collect();
    found.sort();
    Ok(found)
}

impl Log {
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

    fn copy_aside(&mut self, path: &Path, offset: u64, sha256: Digest) -> Result<(), Error> {
        if self.fs.symlink_metadata(path).is_ok() {
            // A crash after an earlier copy and before its truncation left this file, or another
            // program made the name.
            if digest_of_file(self, path)? != sha256 {
                return Err(Error::refused(format!(
                    "{} exists and is not what its name says; move it away",
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
        let fs = std::sync::Arc::clone(&self.fs);
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
}

fn digest_of_file(log: &Log, path: &Path) -> Result<Digest, Error> {
    let file = crate::read::open_regular(&*log.fs, path)?;
    let mut hasher = Hasher::new();
    let mut chunks = file.chunks();
    let mut buffer = Vec::new();
    loop {
        crate::read::Source::next_chunk(&mut chunks, &mut buffer)?;
        if buffer.is_empty() {
            return Ok(hasher.finish());
        }
        hasher.update(&buffer);
    }
}

fn aside(path: &Path, offset: u64, sha256: Digest) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(format!("{TAIL}{offset}-{sha256}"));
    path.with_file_name(name)
}
