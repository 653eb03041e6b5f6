//! Reading files as a stream, from one open file, and noticing when they change meanwhile.
//!
//! A [`RegularFile`] is one open file: verifying it and reading it afterwards see the same inode
//! whatever happens to the name. Its size is fixed when it is opened, so a record that grows is
//! read as it was then. [`RegularFile::stability`] reports afterwards whether the file changed.
//!
//! Not here: two stages on two cores ([`crate::pipeline`]).

use crate::atomic::PRIVATE_FILE;
use crate::sys::{self, Access, FileHandle, FileIdentity, FileKind, Fs, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::error::{Error, ErrorKind};

/// Bytes read at once.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Times that [`read_small`] tries to read a file that changes meanwhile.
const MAX_READ_ATTEMPTS: usize = 8;

/// Opens a regular file to read. A directory, pipe or device is refused without waiting for it. A
/// link is followed, and the file's path is the target of the link.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] when `path` is no regular file or cannot be opened.
pub fn open_regular(fs: &dyn Fs, path: &Path) -> Result<RegularFile, Error> {
    let path = &*sys::led_to(fs, path);
    // The first check keeps devices unopened (opening a tape rewinds it). The second check, of the
    // open file, closes the gap between the two.
    let found = fs
        .metadata(path)
        .map_err(|error| sys::failure("open", path, &error))?;
    refuse_irregular(path, &found)?;
    let file = fs
        .open(path, Access::Read)
        .map_err(|error| sys::failure("open", path, &error))?;
    RegularFile::new(file, path)
}

/// The whole of a small regular file, such as a key or a trust store.
///
/// # Errors
/// [`ErrorKind::Limit`] above `limit_bytes`, [`ErrorKind::External`] when the file changes while
/// it is read, or as [`open_regular`].
pub fn read_small(fs: &dyn Fs, path: &Path, limit_bytes: usize) -> Result<Vec<u8>, Error> {
    for _ in 1..MAX_READ_ATTEMPTS {
        // A file that is replaced by rename in this moment reads well at the next attempt.
        match open_regular(fs, path)?.read_whole(limit_bytes) {
            Err(error) if error.kind() == ErrorKind::External => {}
            result => return result,
        }
    }
    open_regular(fs, path)?.read_whole(limit_bytes)
}

/// The state of a file, as far as `stat` reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Which file.
    pub identity: FileIdentity,
    /// Size in bytes.
    pub size: u64,
    /// Nanoseconds since 1970 of the last change of the bytes.
    pub modified_ns: i128,
    /// Nanoseconds since 1970 of the last change of bytes or metadata.
    pub changed_ns: i128,
}

impl From<Metadata> for Stamp {
    fn from(found: Metadata) -> Self {
        Self {
            identity: found.identity,
            size: found.size,
            modified_ns: found.modified_ns,
            changed_ns: found.changed_ns,
        }
    }
}

/// Did the file change since it was opened?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// Neither bytes nor metadata changed.
    Same,
    /// It is longer now. `stat` cannot show whether earlier bytes changed as well.
    Grown,
    /// It was written to in place, or cut.
    Changed,
}

/// An open regular file and its state at that moment.
#[derive(Debug, Clone)]
pub struct RegularFile {
    file: Arc<dyn FileHandle>,
    path: PathBuf,
    opened: Stamp,
    /// All its bytes, when they were read ahead.
    held: Option<Arc<Vec<u8>>>,
}

/// All bytes of a stream. They can be read, and nothing else.
#[derive(Debug)]
struct Arrived(Vec<u8>);

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl FileHandle for Arrived {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.0.get(start..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn append(&self, _: &[u8]) -> io::Result<usize> {
        unsupported()
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        unsupported()
    }

    fn sync_data(&self) -> io::Result<()> {
        unsupported()
    }

    fn sync_all(&self) -> io::Result<()> {
        unsupported()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        unsupported()
    }

    fn set_mode(&self, _: u32) -> io::Result<()> {
        unsupported()
    }

    fn metadata(&self) -> io::Result<Metadata> {
        Ok(Metadata {
            kind: FileKind::Regular,
            size: self.0.len() as u64,
            mode: PRIVATE_FILE,
            uid: 0,
            identity: FileIdentity {
                device: 0,
                inode: 0,
            },
            links: 0,
            modified_ns: 0,
            changed_ns: 0,
        })
    }

    fn try_lock(&self) -> io::Result<bool> {
        unsupported()
    }

    fn unlock(&self) -> io::Result<()> {
        unsupported()
    }
}

impl RegularFile {
    /// Takes an open file.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when it is no regular file.
    pub(crate) fn new(file: Arc<dyn FileHandle>, path: &Path) -> Result<Self, Error> {
        let found = file
            .metadata()
            .map_err(|error| sys::failure("read", path, &error))?;
        refuse_irregular(path, &found)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            opened: found.into(),
            held: None,
        })
    }

    /// Bytes that came over a stream, as a file named `path` that nothing changes any more.
    ///
    /// # Errors
    /// As for an open file; these bytes give none.
    pub fn of_stream(bytes: Vec<u8>, path: &Path) -> Result<Self, Error> {
        Self::new(Arc::new(Arrived(bytes)), path)
    }

    /// Reads the file now, if one chunk holds it. A caller that checks it several times then reads
    /// it once and sees the same bytes each time. A larger file stays as it is.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when reading fails, or the file was cut meanwhile.
    pub fn hold_if_small(mut self) -> Result<Self, Error> {
        if self.held.is_none() && self.opened.size <= CHUNK_BYTES as u64 {
            let mut bytes = Vec::new();
            self.chunks().next_chunk(&mut bytes)?;
            self.held = Some(Arc::new(bytes));
        }
        Ok(self)
    }

    /// Reads the whole file now, of at most `limit_bytes`. Each reader sees the same bytes from
    /// then on, also where a program changes the file.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] when it has more; [`ErrorKind::External`] when reading fails, or the
    /// file was cut meanwhile.
    pub fn hold(mut self, limit_bytes: usize) -> Result<Self, Error> {
        if self.held.is_none() {
            let bytes = self.read_now(limit_bytes)?;
            self.held = Some(Arc::new(bytes));
        }
        Ok(self)
    }

    /// All its bytes, if they were read ahead.
    pub fn held_bytes(&self) -> Option<&[u8]> {
        self.held(self.opened.size)
    }

    /// The first `size` bytes, if they were read ahead.
    pub(crate) fn held(&self, size: u64) -> Option<&[u8]> {
        let size = usize::try_from(size).ok()?;
        self.held.as_ref()?.get(..size)
    }

    /// Its path, links followed: the files that belong to it are beside it there.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its state when it was opened.
    pub fn stamp(&self) -> Stamp {
        self.opened
    }

    /// Size in bytes when it was opened: the number that [`RegularFile::chunks`] yields.
    pub fn size(&self) -> u64 {
        self.opened.size
    }

    /// All its bytes from the first on; may be called again for another pass over the same file.
    pub fn chunks(&self) -> Chunks<'_> {
        self.range(0, self.opened.size)
    }

    /// The bytes from `start` to `end`, both bounded by the size.
    pub fn range(&self, start: u64, end: u64) -> Chunks<'_> {
        let end = end.min(self.opened.size);
        Chunks {
            source: self,
            position: start.min(end),
            end,
        }
    }

    /// The whole file in memory.
    ///
    /// # Errors
    /// As [`read_small`].
    pub fn read_whole(&self, limit_bytes: usize) -> Result<Vec<u8>, Error> {
        let bytes = match self.held(self.opened.size) {
            Some(held) if held.len() <= limit_bytes => held.to_vec(),
            _ => self.read_now(limit_bytes)?,
        };
        if self.stability()? != Stability::Same {
            return Err(self.moved_under_us());
        }
        Ok(bytes)
    }

    /// The bytes that the file had when it was opened; more may follow them now.
    fn read_now(&self, limit_bytes: usize) -> Result<Vec<u8>, Error> {
        let size = usize::try_from(self.opened.size).unwrap_or(usize::MAX);
        if size > limit_bytes {
            return Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "{} has {size} bytes, more than the {limit_bytes} that are read",
                    self.path.display()
                ),
            ));
        }
        let mut bytes = vec![0; size];
        let count = sys::read_full_at(&*self.file, &mut bytes, 0)
            .map_err(|error| sys::failure("read", &self.path, &error))?;
        if count < size {
            return Err(self.moved_under_us());
        }
        Ok(bytes)
    }

    /// The present metadata of the open file.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the system cannot report it.
    pub fn metadata(&self) -> Result<Metadata, Error> {
        self.file
            .metadata()
            .map_err(|error| sys::failure("read", &self.path, &error))
    }

    /// Whether the file changed since it was opened. Call it after the last byte was read.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the system cannot report it.
    pub fn stability(&self) -> Result<Stability, Error> {
        let now: Stamp = self.metadata()?.into();
        Ok(if now == self.opened {
            Stability::Same
        } else if now.size > self.opened.size {
            Stability::Grown
        } else {
            Stability::Changed
        })
    }

    fn moved_under_us(&self) -> Error {
        Error::new(
            ErrorKind::External,
            format!(
                "{} changed while it was read; try again when nothing writes to it",
                self.path.display()
            ),
        )
    }
}

/// The source of bytes for [`crate::pipeline`] and streaming readers.
pub trait Source {
    /// Replaces `buffer` by the next bytes, at most [`CHUNK_BYTES`]; empty at the end.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when reading fails.
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error>;
}

/// A pass over a file or a part of it.
#[derive(Debug)]
pub struct Chunks<'f> {
    source: &'f RegularFile,
    position: u64,
    end: u64,
}

impl Source for Chunks<'_> {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        if let Some(held) = self.source.held(self.end) {
            let start = usize::try_from(self.position).unwrap_or(usize::MAX);
            buffer.clear();
            buffer.extend_from_slice(held.get(start..).unwrap_or_default());
            self.position = self.end;
            return Ok(());
        }
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        buffer.resize(left.min(CHUNK_BYTES), 0);
        let count = sys::read_full_at(&*self.source.file, buffer, self.position)
            .map_err(|error| sys::failure("read", &self.source.path, &error))?;
        if count < buffer.len() {
            return Err(self.source.moved_under_us());
        }
        self.position += count as u64;
        Ok(())
    }
}

/// Bytes from any reader, such as standard input.
#[derive(Debug)]
pub struct Stream<R> {
    reader: R,
    name: String,
}

impl<R: io::Read> Stream<R> {
    /// Reads `reader`; errors call it `name`.
    pub fn new(reader: R, name: impl Into<String>) -> Self {
        Self {
            reader,
            name: name.into(),
        }
    }
}

impl<R: io::Read> Source for Stream<R> {
    fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<(), Error> {
        buffer.resize(CHUNK_BYTES, 0);
        let mut filled = 0;
        while filled < CHUNK_BYTES {
            let count = sys::uninterrupted(|| self.reader.read(&mut buffer[filled..]))
                .map_err(|error| sys::failure("read", Path::new(&self.name), &error))?;
            if count == 0 {
                break;
            }
            filled += count;
        }
        buffer.truncate(filled);
        Ok(())
    }
}

fn refuse_irregular(path: &Path, found: &Metadata) -> Result<(), Error> {
    if found.kind == FileKind::Regular {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} is {}, not a regular file",
        path.display(),
        found.kind
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::RealFs;
    use std::fs;

    fn all(mut source: impl Source) -> Result<Vec<u8>, Error> {
        let (mut bytes, mut buffer) = (Vec::new(), Vec::new());
        loop {
            source.next_chunk(&mut buffer)?;
            if buffer.is_empty() {
                return Ok(bytes);
            }
            assert!(buffer.len() <= CHUNK_BYTES);
            bytes.extend_from_slice(&buffer);
        }
    }

    // T-CMD-09
    #[test]
    fn chunks_and_streams_yield_every_byte_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        for size in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 5] {
            let bytes: Vec<u8> = (0..size).map(|i| (i % 251).to_le_bytes()[0]).collect();
            fs::write(&path, &bytes).unwrap();
            let file = open_regular(&RealFs, &path).unwrap();
            assert_eq!(all(file.chunks()).unwrap(), bytes);
            assert_eq!(all(file.chunks()).unwrap(), bytes);
            assert_eq!(all(Stream::new(&bytes[..], "bytes")).unwrap(), bytes);
            assert_eq!(file.read_whole(size).unwrap(), bytes);
            assert_eq!(file.stability().unwrap(), Stability::Same);
            let end = size as u64;
            assert_eq!(all(file.range(3, end + 9)).unwrap(), bytes[3.min(size)..]);
        }
    }

    #[test]
    fn a_small_file_is_held_and_a_larger_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        for (size, is_held) in [(5, true), (CHUNK_BYTES, true), (CHUNK_BYTES + 1, false)] {
            fs::write(&path, vec![7; size]).unwrap();
            let file = open_regular(&RealFs, &path).unwrap();
            let file = file.hold_if_small().unwrap();
            assert_eq!(file.held(0).is_some(), is_held, "{size}");
            assert_eq!(all(file.chunks()).unwrap(), vec![7; size]);
            assert_eq!(
                all(file.range(3, 9)).unwrap(),
                vec![7; size.min(9).saturating_sub(3)]
            );
            fs::write(&path, "").unwrap();
            assert_eq!(all(file.chunks()).is_ok(), is_held, "{size}");
            assert_ne!(file.stability().unwrap(), Stability::Same);
            assert!(file.read_whole(size).is_err());
        }
    }

    // T-CMD-09 T-RYE-21
    #[test]
    fn growth_change_and_shrinking_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "12345").unwrap();
        let file = open_regular(&RealFs, &path).unwrap();
        fs::write(&path, "1234567").unwrap();
        assert_eq!(file.stability().unwrap(), Stability::Grown);
        assert_eq!(all(file.chunks()).unwrap(), b"12345");
        fs::write(&path, "12").unwrap();
        assert_eq!(file.stability().unwrap(), Stability::Changed);
        assert_eq!(all(file.chunks()).unwrap_err().kind(), ErrorKind::External);
        assert_eq!(file.read_whole(9).unwrap_err().kind(), ErrorKind::External);
    }

    // T-CMD-10
    #[cfg(unix)]
    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        for (path, what) in [
            (pipe.as_path(), "a pipe"),
            (folder.path(), "a directory"),
            (Path::new("/dev/null"), "a device"),
        ] {
            let error = open_regular(&RealFs, path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let expected = format!("{} is {what}, not a regular file", path.display());
            assert_eq!(error.to_string(), expected);
        }
        let absent = open_regular(&RealFs, &folder.path().join("absent")).unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::InvalidInput);
        assert!(absent.to_string().contains("No such file"), "{absent}");
    }

    #[test]
    fn a_file_beyond_the_limit_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_small(&RealFs, &path, 5).unwrap(), b"12345");
        let error = read_small(&RealFs, &path, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
}
