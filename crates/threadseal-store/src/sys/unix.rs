//! The calls of [`super::real`] on Linux, macOS and other Unix.

use super::{Access, FileIdentity, FileKind, Metadata};
use rustix::fs::{OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
    PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) fn open(path: &Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Opening a FIFO must not wait for its writer, opening a terminal must not adopt it.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.read(true).custom_flags(flags.bits().cast_signed());
    match access {
        Access::Read => &mut options,
        Access::Append => options.append(true),
        Access::Rewrite => options.write(true),
        Access::CreateNew(mode) => options.append(true).create_new(true).mode(mode),
        Access::OpenOrCreate(mode) => options.append(true).create(true).mode(mode),
    };
    options.open(path)
}

pub(super) fn metadata(path: &Path) -> io::Result<Metadata> {
    fs::metadata(path).map(|found| convert(&found))
}

pub(super) fn symlink_metadata(path: &Path) -> io::Result<Metadata> {
    fs::symlink_metadata(path).map(|found| convert(&found))
}

pub(super) fn metadata_of(file: &File) -> io::Result<Metadata> {
    file.metadata().map(|found| convert(&found))
}

pub(super) fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

pub(super) fn is_on_network(path: &Path) -> io::Result<bool> {
    // From linux/magic.h and the source of each file system; FUSE may be anything.
    const ON_NETWORK: [u32; 12] = [
        0x6969,      // NFS
        0x517b,      // SMB
        0xff53_4d42, // CIFS
        0xfe53_4d42, // SMB2
        0x0102_1997, // 9P
        0x00c3_6400, // Ceph
        0x5346_414f, // AFS
        0x7375_7245, // Coda
        0x0116_1970, // GFS2
        0x7461_636f, // OCFS2
        0x0bd0_0bd0, // Lustre
        0x6573_5546, // FUSE
    ];
    let found = rustix::fs::statfs(path)?;
    // The type has another width and sign on each platform; these are 32 bits.
    let low = u32::try_from(i128::from(found.f_type) & 0xffff_ffff).unwrap_or(u32::MAX);
    Ok(ON_NETWORK.contains(&low))
}

pub(super) fn create_dir(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().mode(mode).create(path)
}

pub(super) fn rename_no_replace(from: &Path, to: &Path) -> io::Result<()> {
    match exclusive_rename(from, to) {
        // The file system or the kernel does not know the flag (NFS, some FUSE); a hard
        // link is exclusive as well, only in two steps.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            fs::hard_link(from, to)?;
            // The new name exists; a left-over temporary name does no harm.
            let _ = fs::remove_file(from);
            Ok(())
        }
        result => Ok(result?),
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn exclusive_rename(from: &Path, to: &Path) -> Result<(), Errno> {
    rustix::fs::renameat_with(
        rustix::fs::CWD,
        from,
        rustix::fs::CWD,
        to,
        RenameFlags::NOREPLACE,
    )
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn exclusive_rename(_: &Path, _: &Path) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        // Some network file systems cannot sync a directory, and make names durable on their
        // own. Refusing to work there would protect no one.
        Err(error) if is_unsupported(&error) => Ok(()),
        result => result,
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::INVAL | Errno::NOTSUP)
    )
}

pub(super) fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

pub(super) fn lock_holder(identity: FileIdentity) -> Option<u32> {
    let find = |text: &str| holder_in_proc_locks(text, identity);
    in_lock_table(&mut lock_table, &find).ok().flatten()
}

/// Does Linux's `/proc/locks` (`proc_locks(5)`) name any lock on this file? Also true where it
/// cannot be read.
///
/// A line is `1: FLOCK  ADVISORY  WRITE 4242 08:01:131 0 EOF`, with device numbers in hex and the
/// inode in decimal.
#[cfg(feature = "sqlite")]
pub(crate) fn is_locked(identity: FileIdentity) -> bool {
    let place = place_in_proc_locks(identity);
    let find = |text: &str| {
        text.split_whitespace()
            .any(|word| word == place)
            .then_some(())
    };
    in_lock_table(&mut lock_table, &find).map_or(true, |found| found.is_some())
}

/// Readings of the table of locks before a lock that none of them contains counts as absent.
const MAX_LOCK_READINGS: usize = 16;

fn lock_table() -> io::Result<String> {
    fs::read_to_string("/proc/locks")
}

/// What `find` finds in the table of locks.
///
/// The kernel gives the table a page at a time and counts its lines anew for each page. So a
/// reading leaves a line out when an earlier lock is released meanwhile. A lock is absent only
/// where two readings in a row are equal.
fn in_lock_table<T>(
    read: &mut dyn FnMut() -> io::Result<String>,
    find: &dyn Fn(&str) -> Option<T>,
) -> io::Result<Option<T>> {
    let mut before = None;
    for _ in 0..MAX_LOCK_READINGS {
        let text = read()?;
        if let Some(found) = find(&text) {
            return Ok(Some(found));
        }
        if before.as_ref() == Some(&text) {
            break;
        }
        before = Some(text);
    }
    Ok(None)
}

/// Has this process the file open?
#[cfg(feature = "sqlite")]
pub(crate) fn is_open_here(identity: FileIdentity) -> bool {
    let Ok(open) = fs::read_dir("/proc/self/fd") else {
        return true;
    };
    open.filter_map(|entry| fs::metadata(entry.ok()?.path()).ok())
        .any(|found| convert(&found).identity == identity)
}

fn place_in_proc_locks(identity: FileIdentity) -> String {
    // Systems without this table have another type for numbers of devices.
    let device = identity.device as _;
    format!(
        "{:02x}:{:02x}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device),
        identity.inode
    )
}

fn holder_in_proc_locks(text: &str, identity: FileIdentity) -> Option<u32> {
    let place = place_in_proc_locks(identity);
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let kind = words.nth(1)?;
        let (mode, pid) = (words.nth(1)?, words.next()?);
        // Writers take an exclusive lock; the holder of a shared one only reads.
        (kind == "FLOCK" && mode == "WRITE" && words.next()? == place)
            .then(|| pid.parse().ok())
            .flatten()
            // 0 is for a process that this namespace cannot see.
            .filter(|pid| *pid != 0)
    })
}

pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

pub(super) fn append(file: &File, bytes: &[u8]) -> io::Result<usize> {
    // Opened with O_APPEND: the kernel picks the end of the file.
    io::Write::write(&mut &*file, bytes)
}

pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Has the handle `flock(2)` of its file?
#[derive(Debug, Default)]
pub(super) struct Locked(AtomicBool);

impl Locked {
    pub(super) fn try_lock(&self, file: &File) -> io::Result<bool> {
        self.taken(file.try_lock())
    }

    pub(super) fn try_lock_shared(&self, file: &File) -> io::Result<bool> {
        self.taken(file.try_lock_shared())
    }

    fn taken(&self, result: Result<(), TryLockError>) -> io::Result<bool> {
        match result {
            Ok(()) => {
                self.0.store(true, Ordering::Relaxed);
                Ok(true)
            }
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    pub(super) fn unlock(&self, file: &File) -> io::Result<()> {
        file.unlock()?;
        self.0.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// A process that another thread begins at this moment shares the open file until it becomes
    /// another program. Closing alone would leave the lock with it until then (flock(2)).
    pub(super) fn release(&mut self, file: &File) {
        if *self.0.get_mut() {
            // If this fails, closing the file does it.
            let _ = file.unlock();
        }
    }
}

fn convert(found: &fs::Metadata) -> Metadata {
    let file_type = found.file_type();
    let kind = if file_type.is_file() {
        FileKind::Regular
    } else if file_type.is_dir() {
        FileKind::Directory
    } else if file_type.is_symlink() {
        FileKind::Symlink
    } else if file_type.is_fifo() {
        FileKind::Fifo
    } else {
        FileKind::Device
    };
    let nanoseconds =
        |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    Metadata {
        kind,
        size: found.len(),
        mode: found.mode() & 0o7777,
        uid: found.uid(),
        identity: FileIdentity {
            device: found.dev(),
            inode: found.ino(),
        },
        links: found.nlink(),
        modified_ns: nanoseconds(found.mtime(), found.mtime_nsec()),
        changed_ns: nanoseconds(found.ctime(), found.ctime_nsec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // T-REG-02
    #[test]
    fn the_holder_is_found_among_the_kernels_locks() {
        let text = "1: POSIX  ADVISORY  WRITE 11 fe:00:77 0 EOF\n\
                    2: FLOCK  ADVISORY  READ 44 fe:00:77 0 EOF\n\
                    2: FLOCK  ADVISORY  WRITE 22 fe:00:77 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 33 fe:00:77 0 EOF\n\
                    3: FLOCK  ADVISORY  WRITE 0 fe:00:78 0 EOF\n";
        let at = |inode| FileIdentity {
            device: rustix::fs::makedev(0xfe, 0),
            inode,
        };
        assert_eq!(holder_in_proc_locks(text, at(77)), Some(22));
        assert_eq!(holder_in_proc_locks(text, at(78)), None);
        assert_eq!(holder_in_proc_locks(text, at(79)), None);
    }

    // T-REG-02
    #[test]
    fn a_lock_that_one_reading_leaves_out_is_found_in_the_next() {
        let absent = |texts: &[&str]| {
            let mut left = texts.iter();
            let mut read = || Ok((*left.next().expect("as many readings as texts")).to_owned());
            let find = |text: &str| text.contains("mine").then_some(());
            (
                in_lock_table(&mut read, &find).unwrap().is_none(),
                left.len(),
            )
        };
        assert_eq!(absent(&["a", "b", "a mine"]), (false, 0));
        assert_eq!(absent(&["a", "b", "b", "mine"]), (true, 1));
        let busy: Vec<String> = (0..MAX_LOCK_READINGS).map(|n| n.to_string()).collect();
        let busy: Vec<&str> = busy.iter().map(String::as_str).collect();
        assert_eq!(absent(&busy), (true, 0));
    }
}
