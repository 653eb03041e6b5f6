//! The system calls of this crate, as two traits: [`Fs`] for names, [`FileHandle`] for bytes.
//!
//! Everything durable goes through them, so that a test can fail each call in turn, tear it, or
//! cut the power after it (the `fault` feature). The traits are as small as the crate's needs.
//!
//! ```text
//! promise                    call that gives it
//! bytes survive the process  append returned
//! bytes survive power loss   sync_data / sync_all returned, once and for these bytes
//! a name survives power loss sync_dir of its directory returned
//! ```
//! An fsync that failed once says nothing when it succeeds later: Linux marks the pages clean
//! and may keep showing bytes that never reached the disk (Rebello et al., "Can Applications
//! Recover from fsync Failures?", USENIX ATC 2020). [`crate::append`] is built on that.

mod real;

pub use real::RealFs;
#[cfg(feature = "sqlite")]
pub(crate) use real::{is_locked, is_open_here};

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};

/// How a file is opened. None of these waits for a FIFO's other end or takes a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read; directories and devices open too, so look at the metadata.
    Read,
    /// An existing file, to read and to append.
    Append,
    /// An existing file, to read and to write at offsets.
    Rewrite,
    /// A file that must not exist, with these permission bits (the umask applies), to read and
    /// to append.
    CreateNew(u32),
    /// A file that may exist, with these permission bits if not; never shortened.
    OpenOrCreate(u32),
}

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link (only from [`Fs::symlink_metadata`]).
    Symlink,
    /// A FIFO.
    Fifo,
    /// A socket, a terminal or another device.
    Device,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regular => "a regular file",
            Self::Directory => "a directory",
            Self::Symlink => "a symbolic link",
            Self::Fifo => "a pipe",
            Self::Device => "a device",
        })
    }
}

/// What `stat` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// File, directory or other.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits (`0o7777`).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Which file: device and inode number.
    pub identity: FileIdentity,
    /// How many names lead here; 0 for a file that was deleted while open.
    pub links: u64,
    /// Nanoseconds since 1970 of the last change of the bytes.
    pub modified_ns: i128,
    /// Nanoseconds since 1970 of the last change of bytes or metadata.
    pub changed_ns: i128,
}

/// Names a file whatever its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// Calls that take a name.
pub trait Fs: fmt::Debug + Send + Sync {
    /// Opens `path`.
    ///
    /// # Errors
    /// What the system says.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn FileHandle>>;

    /// What `path` leads to, symbolic links followed.
    ///
    /// # Errors
    /// What the system says.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// What `path` is, a final symbolic link not followed.
    ///
    /// # Errors
    /// What the system says.
    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// The absolute path without symbolic links; all of it must exist.
    ///
    /// # Errors
    /// What the system says.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;

    /// Where the symbolic link `path` leads.
    ///
    /// # Errors
    /// What the system says.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;

    /// The names in a directory, in no order.
    ///
    /// # Errors
    /// What the system says.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<OsString>>;

    /// Makes one directory with these permission bits.
    ///
    /// # Errors
    /// What the system says.
    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()>;

    /// Renames within a directory; what `to` named before is replaced in the same instant.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames within a directory unless `to` exists.
    ///
    /// # Errors
    /// `AlreadyExists`, or what the system says.
    fn rename_no_replace(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file one more name, in any directory of the same file system.
    ///
    /// # Errors
    /// `AlreadyExists`, or what the system says; not every file system can do it.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name.
    ///
    /// # Errors
    /// What the system says.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// What the system says.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Does `path` lie on a file system that other machines may write to as well?
    ///
    /// # Errors
    /// What the system says.
    fn is_on_network(&self, path: &Path) -> io::Result<bool> {
        self.metadata(path).map(|_| false)
    }

    /// Whom this process acts as.
    fn effective_uid(&self) -> u32;

    /// The process that holds the lock of this file, where the system tells.
    fn lock_holder(&self, identity: FileIdentity) -> Option<u32>;
}

/// Calls on an open file. Offsets and sizes are bytes. Only reading and writing may fail with
/// `Interrupted`, and then did nothing.
pub trait FileHandle: fmt::Debug + Send + Sync {
    /// Reads at `offset`; may be short, 0 at the end.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at the end of the file; may be short.
    ///
    /// # Errors
    /// What the system says.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes at `offset` (only [`Access::Rewrite`]); may be short.
    ///
    /// # Errors
    /// What the system says.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes bytes and size durable.
    ///
    /// # Errors
    /// What the system says; see the module's heading for what is true afterwards.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes bytes, size and other metadata durable.
    ///
    /// # Errors
    /// What the system says; see the module's heading for what is true afterwards.
    fn sync_all(&self) -> io::Result<()>;

    /// Cuts the file (or lengthens it with zeros).
    ///
    /// # Errors
    /// What the system says.
    fn set_len(&self, size: u64) -> io::Result<()>;

    /// Sets the permission bits exactly, whatever the umask.
    ///
    /// # Errors
    /// What the system says.
    fn set_mode(&self, mode: u32) -> io::Result<()>;

    /// What the open file is.
    ///
    /// # Errors
    /// What the system says.
    fn metadata(&self) -> io::Result<Metadata>;

    /// Takes the file's exclusive advisory lock; false when another handle holds it. The kernel
    /// gives it back when the last copy of the handle is gone, also after SIGKILL.
    ///
    /// # Errors
    /// What the system says.
    fn try_lock(&self) -> io::Result<bool>;

    /// Gives the lock back, if this handle has it.
    ///
    /// # Errors
    /// What the system says.
    fn unlock(&self) -> io::Result<()>;
}

/// The system's reason in an [`Error`]: `cannot <action> <path>: <reason>`.
pub fn failure(action: &str, path: &Path, reason: &io::Error) -> Error {
    let kind = match reason.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::AlreadyExists
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::InvalidFilename => ErrorKind::InvalidInput,
        _ => ErrorKind::External,
    };
    Error::new(
        kind,
        format!("cannot {action} {}: {reason}", path.display()),
    )
}

/// The path as text of one line that names it and no other: a byte that is not UTF-8, and a line feed, is `\xNN`, a backslash is
/// doubled. Read again by [`text_path`].
pub fn path_text(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        let valid = chunk.valid().replace('\\', "\\\\");
        text.push_str(&valid.replace('\n', "\\x0a"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// The path that [`path_text`] wrote as this text; None for what it never writes, and where the system has no such path.
pub fn text_path(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        rest = if let Some(rest) = escaped.strip_prefix('\\') {
            bytes.push(b'\\');
            rest
        } else {
            let digits = escaped.strip_prefix('x')?.get(..2)?;
            bytes.extend(encoding::parse_hex_array::<1>(digits)?);
            &escaped[3..]
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    let path = path_of(bytes)?;
    (path_text(&path) == text).then_some(path)
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    Some(OsString::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// The directory in which `path`'s name stands.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        // Only a root and the empty path have no parent, and stand in themselves.
        None => path,
    }
}

/// Where the file that `path` names lies: the path itself, or, where that is a link, what it leads to. What belongs to a
/// file lies beside it, and not beside a link to it.
pub fn led_to(fs: &dyn Fs, path: &Path) -> PathBuf {
    let is_link = |found: Metadata| found.kind == FileKind::Symlink;
    if !fs.symlink_metadata(path).is_ok_and(is_link) {
        return path.to_owned();
    }
    // A link of the system's own, to a file that lost its name, leads to nothing that has one.
    let real = fs.canonicalize(path).ok();
    let real = real.filter(|real| fs.metadata(real).is_ok());
    real.unwrap_or_else(|| path.to_owned())
}

/// Repeats `call` while a signal interrupts it.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Appends all of `bytes`, through short writes and interruptions.
///
/// # Errors
/// What the system answers; a part of `bytes` may be in the file then.
pub fn append_all(file: &dyn FileHandle, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = uninterrupted(|| file.append(bytes))?;
        bytes = rest_after_write(bytes, count)?;
    }
    Ok(())
}

/// Writes all of `bytes` at `offset`, through short writes and interruptions.
pub(crate) fn write_all_at(
    file: &dyn FileHandle,
    mut bytes: &[u8],
    mut offset: u64,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = uninterrupted(|| file.write_at(bytes, offset))?;
        bytes = rest_after_write(bytes, count)?;
        offset += count as u64;
    }
    Ok(())
}

/// Fills `buffer` from `offset`; the count is short only at the end of the file.
pub(crate) fn read_full_at(
    file: &dyn FileHandle,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        let position = offset + filled as u64;
        match uninterrupted(|| file.read_at(&mut buffer[filled..], position))? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

fn rest_after_write(bytes: &[u8], count: usize) -> io::Result<&[u8]> {
    match bytes.get(count..) {
        Some(rest) if count > 0 => Ok(rest),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
