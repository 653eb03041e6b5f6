//! [`NoLinks`]: files that are written under their own names, and never through a symbolic link.
//!
//! ```text
//! Append, Rewrite, OpenOrCreate   refused where the name is a link, before and after it is opened
//! canonicalize                    refused for a link: replacing through a link resolves it first
//! all else                        as in the file system below: it creates names, and follows none
//! ```
//! An attacker who puts a link in the place of `transcript.jsonl` would choose the file that is
//! appended to, even outside the project. [`crate::project::Project::inside`] refuses a folder that
//! leads out.

use crate::project::ThreadFolder;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_store::host::Host;
use threadseal_store::sys::{Access, FileHandle, FileIdentity, FileKind, Fs, Metadata};

/// The error for a link in the place of a file.
pub(crate) const LINK: &str = "it is a symbolic link, and nothing is written through one; remove the link, or put the \
                               file itself in its place";

/// A file system whose files are not written through links.
#[derive(Debug)]
pub(crate) struct NoLinks(Arc<dyn Fs>);

impl NoLinks {
    /// Over `fs`.
    pub(crate) fn over(fs: &Arc<dyn Fs>) -> Self {
        Self(Arc::clone(fs))
    }

    /// `host`, whose files are not written through links.
    pub(crate) fn host(host: &Host) -> Host {
        Host {
            fs: Arc::new(Self::over(&host.fs)),
            ..host.clone()
        }
    }

    fn refuse_link(&self, path: &Path) -> io::Result<()> {
        match self.0.symlink_metadata(path) {
            Ok(found) if found.kind == FileKind::Symlink => Err(link()),
            _ => Ok(()),
        }
    }
}

/// Refuses a thread with a link among these files. A successor writes them only once it is too late
/// to refuse. So this check runs before any write.
///
/// # Errors
/// Kind `Refused`; the message names the remedy.
pub(crate) fn refuse_links(fs: &dyn Fs, folder: &ThreadFolder) -> Result<(), Error> {
    for path in [
        folder.transcript(),
        folder.metadata(),
        folder.capabilities(),
    ] {
        let found = fs.symlink_metadata(&path);
        if found.is_ok_and(|found| found.kind == FileKind::Symlink) {
            return Err(Error::refused(format!("{}: {LINK}", path.display())));
        }
    }
    Ok(())
}

fn link() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, LINK)
}

impl Fs for NoLinks {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn FileHandle>> {
        if matches!(access, Access::Read | Access::CreateNew(_)) {
            return self.0.open(path, access);
        }
        self.refuse_link(path)?;
        let file = self.0.open(path, access)?;
        // A link may have replaced the file during the open, and the file may be back now. So the
        // opened file must be the one that has the name.
        let named = self.0.symlink_metadata(path)?;
        match named.kind != FileKind::Symlink && named.identity == file.metadata()?.identity {
            true => Ok(file),
            false => Err(link()),
        }
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.refuse_link(path)?;
        self.0.canonicalize(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.0.metadata(path)
    }

    fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.0.symlink_metadata(path)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.read_link(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.0.read_dir(path)
    }

    fn create_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.0.create_dir(path, mode)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn rename_no_replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename_no_replace(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.hard_link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.0.unlink(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path)
    }

    fn sync_name_of_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_name_of_dir(path)
    }

    fn effective_uid(&self) -> u32 {
        self.0.effective_uid()
    }

    fn lock_holder(&self, identity: FileIdentity) -> Option<u32> {
        self.0.lock_holder(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use threadseal_store::atomic::{self, Mode};
    use threadseal_store::lock::WriterLock;
    use threadseal_store::sys::RealFs;

    // T-FIL-15
    #[test]
    fn nothing_is_opened_to_write_or_replaced_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, dangling, fresh] =
            ["file", "link", "dangling", "fresh"].map(|name| folder.path().join(name));
        fs::write(&file, "bytes").unwrap();
        symlink(&file, &link).unwrap();
        symlink(folder.path().join("nowhere"), &dangling).unwrap();
        let plain: Arc<dyn Fs> = Arc::new(NoLinks::over(&RealFs::shared()));
        for name in [&link, &dangling] {
            for access in [Access::Append, Access::Rewrite, Access::OpenOrCreate(0o600)] {
                let refused = plain.open(name, access).unwrap_err().to_string();
                assert!(refused.contains("symbolic link"), "{refused}");
            }
            let refused = atomic::replace(&*plain, name, b"new", Mode::KeepOr(0o600));
            assert!(refused.unwrap_err().to_string().contains("remove the link"));
            assert!(atomic::create_new(&*plain, name, b"new", 0o600).is_err());
        }
        let locked = WriterLock::acquire(Arc::clone(&plain), &link).unwrap_err();
        assert!(locked.to_string().contains("remove the link"), "{locked}");
        assert!(!folder.path().join("nowhere").exists());
        assert_eq!(fs::read(&file).unwrap(), b"bytes");
        WriterLock::acquire(Arc::clone(&plain), &file).unwrap();
        atomic::replace(&*plain, &file, b"new", Mode::KeepOr(0o600)).unwrap();
        plain.open(&fresh, Access::OpenOrCreate(0o600)).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(plain.open(&link, Access::Read).is_ok());
    }
}
