//! The calls of [`super::real`] on Windows.
//!
//! What differs from Unix, and why callers may rely on it all the same:
//!
//! * **Names of a directory cannot be synced.** NTFS journals them; the file itself is flushed.
//! * **There are no permission bits.** A file inherits the access control list of its directory, and a
//!   user's profile is open to that user, the system and administrators.
//! * **A lock would keep readers out.** So it is on one byte that no file is long enough to have.
//! * **Only the time of the last write is known.** A program that sets it back is not noticed by time.
//! * **A name with a colon is a stream inside another file.** It is refused.
//!
//! A file that is open is replaced as on Unix, where the file system can: NTFS since Windows 10 1607.

use super::{Access, FileIdentity, FileKind, Metadata, directory_of};
use file_guard::{FileGuard, Lock};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf, Prefix};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempPath;
use winapi_util::file::{Information, information, typ};

// From winnt.h and winbase.h.
const FILE_READ_ATTRIBUTES: u32 = 0x80;
const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
const SECURITY_IDENTIFICATION: u32 = 0x0001_0000;
const FILE_ATTRIBUTE_READONLY: u64 = 0x1;
const FILE_ATTRIBUTE_DIRECTORY: u64 = 0x10;

/// The one user that files have here: access control lists decide, not these numbers.
const USER: u32 = 0;
/// From 1601, where file times begin, to 1970, in units of 100 ns.
const UNIX_EPOCH: i128 = 116_444_736_000_000_000;
/// The offset that means the end of the file: `FILE_WRITE_TO_END_OF_FILE` of `NtWriteFile`.
const END_OF_FILE: u64 = u64::MAX;
/// The byte that locks are on.
const LOCK_OFFSET: usize = 1 << 62;

pub(super) fn open(path: &Path, access: Access) -> io::Result<File> {
    refuse_streams(path)?;
    let mut options = OpenOptions::new();
    options
        .read(true)
        // Without it no directory opens.
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS)
        // A pipe's other end must not act with the rights of this user.
        .security_qos_flags(SECURITY_IDENTIFICATION);
    // A handle that may only append cannot shorten a file. `append` finds the end.
    match access {
        Access::Read => &mut options,
        Access::Append | Access::Rewrite => options.write(true),
        Access::CreateNew(_) => options.write(true).create_new(true),
        Access::OpenOrCreate(_) => options.write(true).create(true),
    };
    options.open(path)
}

pub(super) fn metadata(path: &Path) -> io::Result<Metadata> {
    metadata_of(&look_at(path, FILE_FLAG_BACKUP_SEMANTICS)?)
}

pub(super) fn symlink_metadata(path: &Path) -> io::Result<Metadata> {
    let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    metadata_of(&look_at(path, flags)?)
}

/// `a:b` is no file but a stream of the file `a`, which no listing of a directory shows.
fn refuse_streams(path: &Path) -> io::Result<()> {
    let has_colon = |part: Component<'_>| match part {
        Component::Normal(name) => name.as_encoded_bytes().contains(&b':'),
        _ => false,
    };
    match path.components().any(has_colon) {
        true => Err(io::ErrorKind::InvalidFilename.into()),
        false => Ok(()),
    }
}

fn look_at(path: &Path, flags: u32) -> io::Result<File> {
    refuse_streams(path)?;
    OpenOptions::new()
        .access_mode(FILE_READ_ATTRIBUTES)
        .custom_flags(flags)
        .security_qos_flags(SECURITY_IDENTIFICATION)
        .open(path)
}

pub(super) fn metadata_of(file: &File) -> io::Result<Metadata> {
    let found = typ(file)?;
    if found.is_disk() {
        return Ok(convert(
            &information(file)?,
            file.metadata()?.file_type().is_symlink(),
        ));
    }
    let kind = match found.is_pipe() {
        true => FileKind::Fifo,
        false => FileKind::Device,
    };
    Ok(Metadata {
        kind,
        size: 0,
        mode: 0o700,
        uid: USER,
        identity: FileIdentity {
            device: 0,
            inode: 0,
        },
        links: 1,
        modified_ns: 0,
        changed_ns: 0,
    })
}

fn convert(found: &Information, is_link: bool) -> Metadata {
    let has = |attribute| found.file_attributes() & attribute != 0;
    let kind = if is_link {
        FileKind::Symlink
    } else if has(FILE_ATTRIBUTE_DIRECTORY) {
        FileKind::Directory
    } else {
        FileKind::Regular
    };
    let written = i128::from(found.last_write_time().unwrap_or(0));
    let written_ns = (written - UNIX_EPOCH) * 100;
    Metadata {
        kind,
        size: found.file_size(),
        mode: if has(FILE_ATTRIBUTE_READONLY) {
            0o500
        } else {
            0o700
        },
        uid: USER,
        identity: FileIdentity {
            device: found.volume_serial_number(),
            inode: found.file_index(),
        },
        links: found.number_of_links(),
        modified_ns: written_ns,
        changed_ns: written_ns,
    }
}

/// Without the prefix `\\?\` where the path means the same: after it `/` separates no names.
pub(super) fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    dunce::canonicalize(path)
}

pub(super) fn is_on_network(path: &Path) -> io::Result<bool> {
    let real = fs::canonicalize(path)?;
    let Some(Component::Prefix(prefix)) = real.components().next() else {
        return Ok(false);
    };
    Ok(matches!(
        prefix.kind(),
        Prefix::UNC(..) | Prefix::VerbatimUNC(..)
    ))
}

pub(super) fn create_dir(path: &Path, _mode: u32) -> io::Result<()> {
    fs::create_dir(path)
}

pub(super) fn rename_no_replace(from: &Path, to: &Path) -> io::Result<()> {
    // The standard library's call always replaces. This one moves folders as well as files.
    let (from, to) = (verbatim(from)?, verbatim(to)?);
    // Nothing may fail from here on: dropped, this path would remove the file.
    match TempPath::try_from_path(from)?.persist_noclobber(to) {
        Ok(()) => Ok(()),
        Err(refused) => {
            let _ = refused.path.keep();
            Err(refused.error)
        }
    }
}

/// The path in the form that has no limit of 260 characters.
fn verbatim(path: &Path) -> io::Result<PathBuf> {
    refuse_streams(path)?;
    let folder = fs::canonicalize(directory_of(path))?;
    Ok(path
        .file_name()
        .map_or(folder.clone(), |name| folder.join(name)))
}

/// A directory cannot be synced here; it must only exist.
pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    metadata(path).map(drop)
}

pub(super) fn effective_uid() -> u32 {
    USER
}

/// The system keeps no table of locks that other programs may read.
pub(super) fn lock_holder(_: FileIdentity) -> Option<u32> {
    None
}

/// No table shows that a file has no lock.
#[cfg(feature = "sqlite")]
pub(crate) fn is_locked(_: FileIdentity) -> bool {
    true
}

/// No table shows which files this process has open.
#[cfg(feature = "sqlite")]
pub(crate) fn is_open_here(_: FileIdentity) -> bool {
    true
}

pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

pub(super) fn append(file: &File, bytes: &[u8]) -> io::Result<usize> {
    file.seek_write(bytes, END_OF_FILE)
}

pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}

/// Access control lists are those of the directory.
pub(super) fn set_mode(_: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// The lock that the handle has on its file.
#[derive(Debug, Default)]
pub(super) struct Locked(Mutex<Option<FileGuard<Box<File>>>>);

impl Locked {
    pub(super) fn try_lock(&self, file: &File) -> io::Result<bool> {
        self.take(file, Lock::Exclusive)
    }

    pub(super) fn try_lock_shared(&self, file: &File) -> io::Result<bool> {
        self.take(file, Lock::Shared)
    }

    /// As on Unix, a second lock takes the place of the first.
    fn take(&self, file: &File, lock: Lock) -> io::Result<bool> {
        let mut held = self.held();
        if held.as_ref().is_some_and(|held| held.lock_type() == lock) {
            return Ok(true);
        }
        *held = None;
        match file_guard::try_lock(Box::new(file.try_clone()?), lock, LOCK_OFFSET, 1) {
            Ok(guard) => {
                *held = Some(guard);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn unlock(&self, _: &File) -> io::Result<()> {
        *self.held() = None;
        Ok(())
    }

    pub(super) fn release(&mut self, _: &File) {
        *self.held() = None;
    }

    fn held(&self) -> MutexGuard<'_, Option<FileGuard<Box<File>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Fs, RealFs, append_all};
    use std::io::ErrorKind;

    // T-WIN-01
    #[test]
    fn a_lock_excludes_writers_and_no_readers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let first = RealFs.open(&path, Access::CreateNew(0o600)).unwrap();
        append_all(&*first, b"one").unwrap();
        assert!(first.try_lock().unwrap());
        // A lock that the handle has already is no obstacle.
        assert!(first.try_lock().unwrap());
        let second = RealFs.open(&path, Access::Append).unwrap();
        assert!(!second.try_lock().unwrap());
        assert!(!second.try_lock_shared().unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        drop(first);
        assert!(second.try_lock_shared().unwrap());
        let third = RealFs.open(&path, Access::Read).unwrap();
        assert!(third.try_lock_shared().unwrap());
        assert!(!third.try_lock().unwrap());
        third.unlock().unwrap();
        second.unlock().unwrap();
        assert!(third.try_lock().unwrap());
    }

    #[test]
    fn each_handle_appends_at_the_end_and_may_shorten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let first = RealFs.open(&path, Access::CreateNew(0o600)).unwrap();
        let second = RealFs.open(&path, Access::Append).unwrap();
        for (file, bytes) in [(&first, b"aa"), (&second, b"bb"), (&first, b"cc")] {
            append_all(&**file, bytes).unwrap();
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"aabbcc");
        second.set_len(3).unwrap();
        append_all(&*first, b"d").unwrap();
        first.sync_all().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"aabd");
    }

    // T-WIN-02
    #[test]
    fn a_stream_of_a_file_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        std::fs::write(&path, "x").unwrap();
        let stream = folder.path().join("record:hidden");
        for access in [Access::Read, Access::CreateNew(0o600)] {
            let refused = RealFs.open(&stream, access).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidFilename);
        }
        let refused = RealFs.rename_no_replace(&path, &stream).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidFilename);
        assert!(RealFs.metadata(&stream).is_err());
        assert_eq!(RealFs.read_dir(folder.path()).unwrap().len(), 1);
    }

    #[test]
    fn one_file_has_one_identity_and_a_directory_opens() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        std::fs::write(&a, "x").unwrap();
        let named = RealFs.metadata(&a).unwrap();
        let opened = RealFs.open(&a, Access::Read).unwrap().metadata().unwrap();
        assert_eq!((named.identity, named.size), (opened.identity, 1));
        std::fs::write(&b, "x").unwrap();
        assert_ne!(RealFs.metadata(&b).unwrap().identity, named.identity);
        let opened = RealFs.open(folder.path(), Access::Read).unwrap();
        let found = RealFs.metadata(folder.path()).unwrap();
        assert_eq!(opened.metadata().unwrap().identity, found.identity);
    }
}
