//! Files that appear whole or not at all.
//!
//! ```text
//! create_new                                  replace
//! open(.threadseal-PID-N.tmp, CREATE|EXCL)    open(.threadseal-PID-N.tmp, CREATE|EXCL)
//! write … fsync                               write … fsync
//! rename(tmp, NAME, NOREPLACE)                rename(tmp, NAME)
//! fsync(directory)                            fsync(directory)
//! ```
//! After `Ok` the whole file is under its name and survives power loss. After an error the name
//! leads to the old file or to none. If only the last step of a replacement failed, it may lead to
//! the new file already. It never leads to a part of a file.
//!
//! Every error removes the temporary file. Only a crash can leave one, and nothing reads it. The
//! next writer removes those of bodies ([`crate::bodies`]).

use crate::sys::{self, Access, FileHandle, FileKind, Fs, directory_of};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use threadseal_core::error::Error;

/// Permission bits of a directory of its user alone.
pub const PRIVATE_DIRECTORY: u32 = 0o700;
/// Permission bits of a private file.
pub const PRIVATE_FILE: u32 = 0o600;
/// Permission bits of an ordinary file, before the umask.
pub const SHARED_FILE: u32 = 0o666;
/// Names tried for a temporary file before giving up.
const MAX_TEMPORARY_NAMES: usize = 1000;

/// Writes a file that must not exist yet; `mode` holds permission bits, the umask applies.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] when `path` exists or cannot be written,
/// [`ErrorKind::External`] when the system fails (for example, a full disk).
pub fn create_new(fs: &dyn Fs, path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let mut file = NewFile::begin(fs, path, mode)?;
    file.write(bytes)?;
    file.commit_new().map(drop)
}

/// Writes a file, in place of an old one if there is one. A symbolic link stays: the file that it
/// leads to is replaced.
///
/// # Errors
/// As [`create_new`], but an existing file is no error.
pub fn replace(fs: &dyn Fs, path: &Path, bytes: &[u8], mode: Mode) -> Result<(), Error> {
    replacing(fs, path, bytes, mode)?.commit_replace()
}

/// As [`replace`], but after power loss the old file may be back, whole.
///
/// # Errors
/// As [`replace`].
pub fn replace_written(fs: &dyn Fs, path: &Path, bytes: &[u8], mode: Mode) -> Result<(), Error> {
    replacing(fs, path, bytes, mode)?.rename_over()
}

fn replacing<'f>(
    fs: &'f dyn Fs,
    path: &Path,
    bytes: &[u8],
    mode: Mode,
) -> Result<NewFile<'f>, Error> {
    let target = followed(fs, path)?;
    let (bits, kept) = match mode {
        Mode::Set(bits) => (bits, None),
        Mode::KeepOr(bits) => match fs.metadata(&target) {
            Ok(old) => (PRIVATE_FILE, Some(old.mode & 0o777)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (bits, None),
            Err(error) => return Err(sys::failure("replace", path, &error)),
        },
    };
    let mut file = NewFile::begin(fs, &target, bits)?;
    file.write(bytes)?;
    if let Some(bits) = kept {
        let set = file.handle().set_mode(bits);
        set.map_err(|error| sys::failure("replace", path, &error))?;
    }
    Ok(file)
}

/// Permission bits of a replaced file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// These bits.
    Set(u32),
    /// Those of the old file; these if there is none.
    KeepOr(u32),
}

/// Makes a directory and its missing parents, each durable.
///
/// Names that exist already are synced again where their directories can be opened. An earlier call
/// may have made them and failed before they were durable.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] when a part of `path` is no directory or cannot be made,
/// [`ErrorKind::External`] when the system fails.
pub fn create_directories(fs: &dyn Fs, path: &Path, mode: u32) -> Result<(), Error> {
    let parent = directory_of(path);
    if parent == path {
        return Ok(());
    }
    if is_missing(fs, path)? {
        create_directories(fs, parent, mode)?;
        return create_directory(fs, path, mode);
    }
    for name in path.ancestors().filter(|name| directory_of(name) != *name) {
        match fs.sync_name_of_dir(name) {
            // This user may not open the directory, so another user made the names in it.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                return Err(sys::failure("make the directory", path, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes one directory if it is missing, durable in its parent either way.
pub(crate) fn create_directory(fs: &dyn Fs, path: &Path, mode: u32) -> Result<(), Error> {
    let fail = |error: io::Error| sys::failure("make the directory", path, &error);
    if is_missing(fs, path)? {
        match fs.create_dir(path, mode) {
            // Another process may have been faster.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(fail(error)),
            _ => {}
        }
    }
    fs.sync_dir(directory_of(path)).map_err(fail)
}

fn is_missing(fs: &dyn Fs, path: &Path) -> Result<bool, Error> {
    let fail = |error: &io::Error| sys::failure("make the directory", path, error);
    match fs.metadata(path) {
        Ok(found) if found.kind == FileKind::Directory => Ok(false),
        Ok(_) => Err(fail(&io::ErrorKind::NotADirectory.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(fail(&error)),
    }
}

/// A file under a temporary name, until it is committed; dropping it removes it.
#[derive(Debug)]
pub struct NewFile<'f> {
    fs: &'f dyn Fs,
    file: Arc<dyn FileHandle>,
    path: PathBuf,
    temporary: PathBuf,
    committed: bool,
}

impl<'f> NewFile<'f> {
    /// Opens a temporary file in the directory of `path`, the name it is to have.
    ///
    /// # Errors
    /// As [`create_new`].
    pub fn begin(fs: &'f dyn Fs, path: &Path, mode: u32) -> Result<Self, Error> {
        let (file, temporary) =
            open_temporary(fs, path, mode).map_err(|error| sys::failure("write", path, &error))?;
        Ok(Self {
            fs,
            file,
            path: path.to_owned(),
            temporary,
            committed: false,
        })
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// As [`create_new`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        sys::append_all(&*self.file, bytes)
            .map_err(|error| sys::failure("write", &self.path, &error))
    }

    /// The open file, to lock it before another process can know its name.
    pub(crate) fn handle(&self) -> &Arc<dyn FileHandle> {
        &self.file
    }

    /// Makes the bytes durable, then the name, unless that exists. Returns the open file.
    ///
    /// # Errors
    /// As [`create_new`].
    pub fn commit_new(mut self) -> Result<Arc<dyn FileHandle>, Error> {
        let result = self.commit(|fs, from, to| fs.rename_no_replace(from, to));
        if result.is_err() && self.committed {
            // Only the sync of the directory failed. The file is removed, so that a caller that got
            // "not written" does not get "exists" at its next attempt.
            let _ = self.fs.unlink(&self.path);
        }
        result.map(|()| Arc::clone(&self.file))
    }

    /// Makes the bytes durable, then the name, whatever that led to.
    ///
    /// # Errors
    /// As [`create_new`].
    pub fn commit_replace(mut self) -> Result<(), Error> {
        self.commit(|fs, from, to| fs.rename(from, to))
    }

    /// Makes the bytes durable, and gives them the name, whatever that led to.
    fn rename_over(mut self) -> Result<(), Error> {
        self.rename(|fs, from, to| fs.rename(from, to))
    }

    fn commit(
        &mut self,
        rename: impl Fn(&dyn Fs, &Path, &Path) -> io::Result<()>,
    ) -> Result<(), Error> {
        self.rename(rename)?;
        let synced = self.fs.sync_dir(directory_of(&self.path));
        synced.map_err(|error| sys::failure("write", &self.path, &error))
    }

    fn rename(
        &mut self,
        rename: impl Fn(&dyn Fs, &Path, &Path) -> io::Result<()>,
    ) -> Result<(), Error> {
        let fail = |error: io::Error| sys::failure("write", &self.path, &error);
        self.file.sync_all().map_err(fail)?;
        match rename(self.fs, &self.temporary, &self.path) {
            // A rename may be done and reported as failed (a repeated request over NFS).
            Err(error) if !self.stands_under_its_name() => return Err(fail(error)),
            _ => self.committed = true,
        }
        Ok(())
    }

    fn stands_under_its_name(&self) -> bool {
        match (self.fs.symlink_metadata(&self.path), self.file.metadata()) {
            (Ok(named), Ok(ours)) => named.identity == ours.identity,
            _ => false,
        }
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.committed {
            // There is an error on its way to the caller already, and nothing reads the file.
            let _ = self.fs.unlink(&self.temporary);
        }
    }
}

/// Is it the name of a temporary file?
pub fn is_temporary(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let inner = name.strip_prefix(".threadseal-");
    let inner = inner.and_then(|inner| inner.strip_suffix(".tmp"));
    let parts = inner.and_then(|inner| inner.split_once('-'));
    parts.is_some_and(|(pid, count)| number(pid) && number(count))
}

fn open_temporary(
    fs: &dyn Fs,
    path: &Path,
    mode: u32,
) -> io::Result<(Arc<dyn FileHandle>, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if path.file_name().is_none() {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    for _ in 0..MAX_TEMPORARY_NAMES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // The final name is not part of it, because that may have the greatest length already.
        let name = format!(".threadseal-{}-{number}.tmp", std::process::id());
        let temporary = path.with_file_name(name);
        match fs.open(&temporary, Access::CreateNew(mode)) {
            // Another host on a shared disk may have our process number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result.map(|file| (file, temporary)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn refuse_irregular(path: &Path, kind: FileKind) -> Result<(), Error> {
    match kind {
        FileKind::Regular => Ok(()),
        _ => {
            let path = path.display();
            Err(Error::invalid(format!(
                "{path} is {kind}, not a regular file"
            )))
        }
    }
}

/// The target of a final symbolic link; `path` itself when it is none or does not exist.
fn followed(fs: &dyn Fs, path: &Path) -> Result<PathBuf, Error> {
    let fail = |error: &io::Error| sys::failure("replace", path, error);
    match fs.symlink_metadata(path) {
        Ok(found) if found.kind == FileKind::Symlink => {
            let target = fs.canonicalize(path).map_err(|error| fail(&error))?;
            let led_to = fs.metadata(&target).map_err(|error| fail(&error))?;
            // A link to a device would let a writer of that device put a file in its place.
            refuse_irregular(path, led_to.kind).map(|()| target)
        }
        Ok(found) => refuse_irregular(path, found.kind).map(|()| path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        Err(error) => Err(fail(&error)),
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{FaultFs, FaultKind};
    use crate::sys::RealFs;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use threadseal_core::error::ErrorKind;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_file_has_its_bytes_and_mode_and_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        create_new(&RealFs, &path, b"one", PRIVATE_FILE).unwrap();
        let exists = create_new(&RealFs, &path, b"two", PRIVATE_FILE).unwrap_err();
        assert_eq!(exists.kind(), ErrorKind::InvalidInput);
        assert!(exists.to_string().contains("File exists"), "{exists}");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(mode_of(&path), 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    // T-CMD-08
    #[test]
    fn what_a_link_leads_to_is_replaced_only_where_it_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let [socket, link] = ["socket", "link"].map(|name| folder.path().join(name));
        let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink(&socket, &link).unwrap();
        for path in [&link, &socket] {
            let error = replace(&RealFs, path, b"new", Mode::Set(0o600)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        let found = RealFs.metadata(&link).unwrap();
        assert_eq!(found.kind, FileKind::Device);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_when_asked_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        replace(&RealFs, &path, b"one", Mode::KeepOr(PRIVATE_FILE)).unwrap();
        assert_eq!(mode_of(&path), 0o600);
        // Bits that a umask would take away must come back as they were.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        replace(&RealFs, &path, b"two", Mode::KeepOr(PRIVATE_FILE)).unwrap();
        assert_eq!(mode_of(&path), 0o666);
        replace(&RealFs, &path, b"three", Mode::Set(0o640)).unwrap();
        assert_eq!(mode_of(&path), 0o640);
        assert_eq!(fs::read(&path).unwrap(), b"three");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn replacing_through_a_symbolic_link_replaces_the_file_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "one").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        replace(&RealFs, &link, b"two", Mode::KeepOr(SHARED_FILE)).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let long = folder.path().join("n".repeat(255));
        replace(&RealFs, &long, b"x", Mode::Set(0o600)).unwrap();
        let directory = replace(&RealFs, folder.path(), b"x", Mode::Set(0o600)).unwrap_err();
        assert_eq!(directory.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn a_full_and_a_read_only_disk_are_named_with_path_and_reason() {
        for (kind, reason) in [
            (FaultKind::Full, "No space left on device"),
            (FaultKind::ReadOnly, "Read-only file system"),
        ] {
            let fs = FaultFs::new();
            replace(&fs, Path::new("/f"), b"old", Mode::Set(0o600)).unwrap();
            fs.plan(0, kind);
            for error in [
                replace(&fs, Path::new("/f"), b"new", Mode::Set(0o600)).unwrap_err(),
                create_new(&fs, Path::new("/g"), b"new", 0o600).unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::External);
                let text = error.to_string();
                assert!(text.starts_with("cannot write /"), "{text}");
                assert!(text.contains(reason) && !text.contains("tmp"), "{text}");
            }
            assert_eq!(fs.bytes_of(Path::new("/f")).unwrap(), b"old");
            assert_eq!(fs.bytes_of(Path::new("/g")), None);
        }
    }

    #[test]
    fn after_a_failed_creation_there_is_no_file_and_after_a_failed_replacement_a_whole_one() {
        for kind in FaultKind::ALL {
            for call in 0.. {
                let fs = FaultFs::new();
                let (old, new) = (Path::new("/old"), Path::new("/new"));
                replace(&fs, old, b"before", Mode::Set(0o600)).unwrap();
                fs.plan(call, kind);
                let replaced = replace(&fs, old, b"after", Mode::KeepOr(0o600)).is_ok();
                let created = create_new(&fs, new, b"created", 0o600).is_ok();
                if fs.struck().is_none() {
                    break;
                }
                let context = format!("{kind:?} at {call} in {:?}", fs.struck());
                let bytes = fs.bytes_of(old).unwrap();
                assert!(
                    bytes == b"after" || !replaced && bytes == b"before",
                    "{context}"
                );
                let bytes = fs.bytes_of(new);
                match kind {
                    // The disk takes no more changes, so the clean-up cannot work.
                    FaultKind::PowerOff | FaultKind::ReadOnly => {
                        assert!(bytes.is_none_or(|bytes| bytes == b"created"), "{context}");
                    }
                    _ => assert_eq!(bytes.is_some(), created, "{context}"),
                }
            }
        }
    }

    #[test]
    fn directories_are_made_with_their_mode_and_a_file_in_the_way_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b/c");
        create_directories(&RealFs, &deep, 0o700).unwrap();
        create_directories(&RealFs, &deep, 0o700).unwrap();
        assert_eq!(mode_of(&deep), 0o700);
        fs::write(deep.join("f"), "").unwrap();
        let error = create_directories(&RealFs, &deep.join("f/g"), 0o700).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
