//! [`RealFs`]: the traits of [`super`] over the operating system, by the calls of its module.

use super::{Access, FileHandle, FileIdentity, Fs, Metadata, directory_of, system};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Directories whose names this process made durable. Each write into a home makes sure of the
/// directories that lead to it, and would wait for the disk once for each of them.
static DURABLE: Mutex<BTreeSet<(PathBuf, FileIdentity)>> = Mutex::new(BTreeSet::new());
/// The most of them; then all are forgotten.
const MAX_DURABLE_NAMES: usize = 4096;

/// The operating system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

impl RealFs {
    /// The file system as most callers hold it.
    pub fn shared() -> Arc<dyn Fs> {
        Arc::new(Self)
    }
}

impl Fs for RealFs {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn FileHandle>> {
        Ok(Arc::new(RealFile {
            file: system::open(path, access)?,
            locked: system::Locked::default(),
        }))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        system::metadata(path)
    }

    fn is_on_network(&self, path: &Path) -> io::Result<bool> {
        system::is_on_network(path)
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        system::symlink_metadata(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        system::canonicalize(path)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        fs::read_link(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<OsString>> {
        fs::read_dir(path)?
            .map(|entry| entry.map(|found| found.file_name()))
            .collect()
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        system::create_dir(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn rename_no_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        system::rename_no_replace(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        system::sync_dir(path)
    }

    fn sync_name_of_dir(&self, path: &Path) -> io::Result<()> {
        let name = (path.to_owned(), self.metadata(path)?.identity);
        let mut durable = DURABLE.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.contains(&name) {
            return Ok(());
        }
        self.sync_dir(directory_of(path))?;
        if durable.len() >= MAX_DURABLE_NAMES {
            durable.clear();
        }
        durable.insert(name);
        Ok(())
    }

    fn effective_uid(&self) -> u32 {
        system::effective_uid()
    }

    fn lock_holder(&self, identity: FileIdentity) -> Option<u32> {
        system::lock_holder(identity)
    }
}

/// An open file. Its lock is released explicitly.
#[derive(Debug)]
struct RealFile {
    file: File,
    locked: system::Locked,
}

impl Drop for RealFile {
    fn drop(&mut self) {
        self.locked.release(&self.file);
    }
}

impl FileHandle for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        system::read_at(&self.file, buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        system::append(&self.file, bytes)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        system::write_at(&self.file, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn set_len(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        system::set_mode(&self.file, mode)
    }

    fn metadata(&self) -> io::Result<Metadata> {
        system::metadata_of(&self.file)
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.locked.try_lock(&self.file)
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        self.locked.try_lock_shared(&self.file)
    }

    fn unlock(&self) -> io::Result<()> {
        self.locked.unlock(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // T-LOG-19
    #[cfg(unix)]
    #[test]
    fn a_path_is_written_as_text_of_one_line_and_read_again() {
        use std::os::unix::ffi::OsStrExt as _;
        for bytes in [&b"/a/b"[..], b"/\xff/\xc3\xa4", b"/a\\x41", b"/a\nb\\", b""] {
            let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
            let text = super::super::path_text(path);
            assert!(!text.contains('\n'));
            assert_eq!(
                super::super::text_path(&text).as_deref(),
                Some(path),
                "{text}"
            );
        }
        for text in [
            "/a\\x41",
            "/a\\",
            "/a\\xf",
            "/a\\xFF",
            "/a\\q",
            "/a\\x\u{e4}",
        ] {
            assert_eq!(super::super::text_path(text), None, "{text}");
        }
    }

    #[test]
    fn a_rename_that_must_not_replace_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&a, "a").unwrap();
        fs::write(&b, "b").unwrap();
        let refused = RealFs.rename_no_replace(&a, &b).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        fs::remove_file(&b).unwrap();
        RealFs.rename_no_replace(&a, &b).unwrap();
        assert_eq!(fs::read(&b).unwrap(), b"a");
        assert!(!a.exists());
    }

    /// As between the fork and the exec of a child that another thread begins.
    #[test]
    fn a_lock_is_given_back_though_another_process_shares_the_open_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        fs::write(&path, "").unwrap();
        let file = RealFile {
            file: File::open(&path).unwrap(),
            locked: system::Locked::default(),
        };
        let shared = file.file.try_clone().unwrap();
        assert!(file.try_lock().unwrap());
        let other = RealFs.open(&path, Access::Append).unwrap();
        assert!(!other.try_lock().unwrap());
        // A handle that has no lock releases none.
        drop(RealFs.open(&path, Access::Read).unwrap());
        assert!(!other.try_lock().unwrap());
        drop(file);
        assert!(other.try_lock().unwrap());
        drop(shared);
    }
}
