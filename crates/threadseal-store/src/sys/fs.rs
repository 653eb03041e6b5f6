//! The traits of the system calls, and what all of their users need: names, errors, whole reads and
//! writes.

use std::error::Error as StdError;
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
    /// To read; directories and devices open too, so check the metadata.
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

/// The kind of file that a name leads to.
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

/// The metadata from `stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// File, directory or other.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits (`0o7777`).
    pub mode: u32,
    /// User id of the owner.
    pub uid: u32,
    /// Device and inode number.
    pub identity: FileIdentity,
    /// How many names lead here; 0 for a file that was deleted while open.
    pub links: u64,
    /// Nanoseconds since 1970 of the last change of the bytes.
    pub modified_ns: i128,
    /// Nanoseconds since 1970 of the last change of bytes or metadata.
    pub changed_ns: i128,
}

/// Identifies a file whatever its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// The system's error.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn FileHandle>>;

    /// The metadata of `path`, symbolic links followed.
    ///
    /// # Errors
    /// The system's error.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// The metadata of `path`, a final symbolic link not followed.
    ///
    /// # Errors
    /// The system's error.
    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// The absolute path without symbolic links; all of it must exist.
    ///
    /// # Errors
    /// The system's error.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;

    /// The target of the symbolic link `path`.
    ///
    /// # Errors
    /// The system's error.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;

    /// The names in a directory, in no order.
    ///
    /// # Errors
    /// The system's error.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<OsString>>;

    /// Makes one directory with these permission bits.
    ///
    /// # Errors
    /// The system's error.
    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()>;

    /// Renames within a directory; a file with the name `to` is replaced in the same instant.
    ///
    /// # Errors
    /// The system's error.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Renames within a directory unless `to` exists.
    ///
    /// # Errors
    /// `AlreadyExists`, or the system's error.
    fn rename_no_replace(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file one more name, in any directory of the same file system.
    ///
    /// # Errors
    /// `AlreadyExists`, or the system's error; not every file system can do it.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a name.
    ///
    /// # Errors
    /// The system's error.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `DirectoryNotEmpty`, or the system's error; `Unsupported` where directories stay.
    fn remove_dir(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// The system's error.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the name of a directory durable. One that was made durable before need not be again.
    ///
    /// # Errors
    /// The system's error.
    fn sync_name_of_dir(&self, path: &Path) -> io::Result<()> {
        self.sync_dir(directory_of(path))
    }

    /// Is `path` on a file system that other machines may write to as well?
    ///
    /// # Errors
    /// The system's error.
    fn is_on_network(&self, path: &Path) -> io::Result<bool> {
        self.metadata(path).map(|_| false)
    }

    /// The effective user id of this process.
    fn effective_uid(&self) -> u32;

    /// The process that holds the lock of this file, where the system reports it.
    fn lock_holder(&self, identity: FileIdentity) -> Option<u32>;
}

/// Calls on an open file. Offsets and sizes are bytes. Only reading and writing may fail with
/// `Interrupted`, and then did nothing.
pub trait FileHandle: fmt::Debug + Send + Sync {
    /// Reads at `offset`; may be short, 0 at the end.
    ///
    /// # Errors
    /// The system's error.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at the end of the file; may be short.
    ///
    /// # Errors
    /// The system's error.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes at `offset` (only [`Access::Rewrite`]); may be short.
    ///
    /// # Errors
    /// The system's error.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes bytes and size durable.
    ///
    /// # Errors
    /// The system's error; the module's heading states the consequences.
    fn sync_data(&self) -> io::Result<()>;

    /// Makes bytes, size and other metadata durable.
    ///
    /// # Errors
    /// The system's error; the module's heading states the consequences.
    fn sync_all(&self) -> io::Result<()>;

    /// Truncates the file (or lengthens it with zeros).
    ///
    /// # Errors
    /// The system's error.
    fn set_len(&self, size: u64) -> io::Result<()>;

    /// Sets the permission bits exactly, whatever the umask.
    ///
    /// # Errors
    /// The system's error.
    fn set_mode(&self, mode: u32) -> io::Result<()>;

    /// The metadata of the open file.
    ///
    /// # Errors
    /// The system's error.
    fn metadata(&self) -> io::Result<Metadata>;

    /// Takes the file's exclusive advisory lock; false when another handle holds it. The kernel
    /// releases it when the last copy of the handle is gone, also after SIGKILL.
    ///
    /// # Errors
    /// The system's error.
    fn try_lock(&self) -> io::Result<bool>;

    /// Takes the file's advisory lock together with others that take it so; false when another
    /// handle holds it alone. A system without such locks gives the exclusive one.
    ///
    /// # Errors
    /// The system's error.
    fn try_lock_shared(&self) -> io::Result<bool> {
        self.try_lock()
    }

    /// Releases the lock, if this handle has it.
    ///
    /// # Errors
    /// The system's error.
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
    // No file of a user is replaced.
    let hint = match (action, reason.kind()) {
        ("write", io::ErrorKind::AlreadyExists) => "; hint: choose another name",
        _ => "",
    };
    Error::new(
        kind,
        format!("cannot {action} {}: {reason}{hint}", path.display()),
    )
    .with_source(cause(reason))
}

/// The system's error once more, as the source of an [`Error`].
pub fn cause(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// The system's reason as words, without its number.
pub fn reason(error: &io::Error) -> String {
    without_number(error.to_string(), error.raw_os_error())
}

/// The message of an error, without the number of the system's error that ends it.
pub fn message(error: &Error) -> String {
    let first: &(dyn StdError + 'static) = error;
    let mut cause = Some(first);
    let mut number = None;
    while let (Some(error), None) = (cause, number) {
        number = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error);
        cause = error.source();
    }
    without_number(error.to_string(), number)
}

/// The standard library ends the text of a system's error in this way.
fn without_number(mut text: String, number: Option<i32>) -> String {
    let end = number.map(|number| format!(" (os error {number})"));
    let words = end.and_then(|end| Some(text.strip_suffix(end.as_str())?.len()));
    text.truncate(words.unwrap_or(text.len()));
    text
}

pub use threadseal_core::encoding::path_text;

/// The path that [`path_text`] wrote as this text. None for a text that it never writes, and where
/// the system has no such path.
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

/// The directory that contains `path`'s name.
pub fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        // Only a root and the empty path have no parent; they are their own directory.
        None => path,
    }
}

/// The real location of `path`, as far as the system can resolve it; a link at its end is not
/// followed.
pub fn place_itself(fs: &dyn Fs, path: &Path) -> String {
    let folder = directory_of(path);
    let real = fs.canonicalize(folder);
    let real = real.unwrap_or_else(|_| folder.to_owned());
    let name = path.file_name().unwrap_or_default();
    path_text(&real.join(name))
}

/// The path of the file that `path` names: the path itself, or the target where that is a link.
///
/// The files that belong to a file are beside it, and not beside a link to it.
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
/// The system's error; a part of `bytes` may be in the file then.
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
