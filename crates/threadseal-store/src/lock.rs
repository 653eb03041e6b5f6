//! One writer per record, and short exclusive sections.
//!
//! The lock of a record is the kernel's advisory lock (flock(2)). It is **on the record's own
//! file**, not on a file beside it:
//!
//! * it stays with the file when that is renamed or moved. So two writers never append to one file
//!   through two names;
//! * the kernel releases it when the process ends, also by SIGKILL. There is no stale lock to
//!   remove, and no litter in a user's folders;
//! * it does not stop programs that do not ask for it, such as another tool that appends to the
//!   file; [`crate::append::Log`] notices those by the file's size.
//!
//! The kernel names the holder (Linux only). A new record is locked before it has its name, see
//! [`crate::append::Log::create`].
//!
//! [`Exclusive`] locks a small file of its own, for directories whose files are replaced by rename.
//! (A replaced file would take its lock away with it.)

use crate::read::RegularFile;
use crate::sys::{self, Access, FileHandle, FileKind, Fs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use threadseal_core::error::{Error, ErrorKind};

/// Tries to find name and file in agreement while others rename under us.
const MAX_OPEN_ATTEMPTS: usize = 16;
/// Longest wait for an [`Exclusive`] section; its holders work for milliseconds.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Longest wait for a [`Turn`]. On a disk with other writers one fsync may take long, and several
/// writers may wait before this one.
pub(crate) const MAX_TURN_WAIT: Duration = Duration::from_secs(60);
/// Longest pause between two attempts at an [`Exclusive`] section.
const MAX_PAUSE: Duration = Duration::from_millis(20);
/// Longest pause between two attempts at a [`Turn`]; its holders work for one fsync.
const MAX_TURN_PAUSE: Duration = Duration::from_millis(2);

/// The right to append to one record. It is held from before the verification, so that the writer
/// continues exactly the verified bytes. Dropping it releases the lock.
#[derive(Debug)]
pub struct WriterLock {
    fs: Arc<dyn Fs>,
    file: Arc<dyn FileHandle>,
    path: PathBuf,
}

impl WriterLock {
    /// Locks an existing record in its place. Does not wait: a record has one writer, not a queue
    /// of them.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when another process writes the record (the message names it, where
    /// the system does). [`ErrorKind::InvalidInput`] when `path` is no regular file or cannot be
    /// written.
    pub fn acquire(fs: Arc<dyn Fs>, path: &Path) -> Result<Self, Error> {
        Self::acquire_within(fs, path, Duration::ZERO)
    }

    /// As [`WriterLock::acquire`], but waits up to `wait` for a writer to finish: for programs that
    /// write once and end.
    ///
    /// # Errors
    /// As [`WriterLock::acquire`].
    pub fn acquire_within(fs: Arc<dyn Fs>, path: &Path, wait: Duration) -> Result<Self, Error> {
        let path = &*sys::led_to(&*fs, path);
        let fail = |error: &std::io::Error| sys::failure("open for writing", path, error);
        for _ in 0..MAX_OPEN_ATTEMPTS {
            let named = fs.metadata(path).map_err(|error| fail(&error))?;
            if named.kind != FileKind::Regular {
                return Err(Error::invalid(format!(
                    "{} is {}, not a regular file",
                    path.display(),
                    named.kind
                )));
            }
            let file = fs
                .open(path, Access::Append)
                .map_err(|error| fail(&error))?;
            wait_for_lock(&*fs, &*file, path, (wait, MAX_PAUSE), &|| true)?;
            let opened = file.metadata().map_err(|error| fail(&error))?;
            // Between opening and locking the name may have been given to another file.
            let named = fs.metadata(path).map_err(|error| fail(&error))?;
            if named.identity == opened.identity {
                return Ok(Self::of_locked(fs, file, path));
            }
        }
        Err(Error::new(
            ErrorKind::External,
            format!("{} is being replaced again and again", path.display()),
        ))
    }

    /// Takes a file that is locked already.
    pub(crate) fn of_locked(fs: Arc<dyn Fs>, file: Arc<dyn FileHandle>, path: &Path) -> Self {
        Self {
            fs,
            file,
            path: path.to_owned(),
        }
    }

    /// The locked file as it is now, to verify and read it under the lock.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] when the system cannot report its metadata or it is no regular
    /// file.
    pub fn reader(&self) -> Result<RegularFile, Error> {
        RegularFile::new(Arc::clone(&self.file), &self.path)
    }

    /// Its path, links followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn into_parts(self) -> (Arc<dyn Fs>, Arc<dyn FileHandle>, PathBuf) {
        (self.fs, self.file, self.path)
    }
}

/// A short section that one thread of one process is in at a time.
#[derive(Debug)]
pub struct Exclusive {
    file: Arc<dyn FileHandle>,
    path: PathBuf,
}

impl Exclusive {
    /// Enters the section of the lock file `path`, which is made if need be and never removed.
    /// Waits up to ten seconds.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when another process stays in the section, or as
    /// [`WriterLock::acquire`].
    pub fn enter(fs: &dyn Fs, path: &Path) -> Result<Self, Error> {
        Self::enter_while(fs, path, &|| true)
    }

    /// As [`Exclusive::enter`], but waits only while `patient` returns true.
    ///
    /// # Errors
    /// As [`Exclusive::enter`].
    pub fn enter_while(
        fs: &dyn Fs,
        path: &Path,
        patient: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        Self::enter_within(fs, path, (MAX_WAIT, MAX_PAUSE), patient)
    }

    /// As [`Exclusive::enter`], but waits up to a minute for many others that hold it together.
    pub(crate) fn enter_patiently(fs: &dyn Fs, path: &Path) -> Result<Self, Error> {
        Self::enter_within(fs, path, (MAX_TURN_WAIT, MAX_TURN_PAUSE), &|| true)
    }

    fn enter_within(
        fs: &dyn Fs,
        path: &Path,
        wait: (Duration, Duration),
        patient: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let file = lock_file(fs, path)?;
        wait_for_lock(fs, &*file, path, wait, patient)?;
        let path = path.to_owned();
        Ok(Self { file, path })
    }

    /// Waits until the section of the lock file `path` can be entered, and leaves it; makes no file.
    /// Answers whether it waited.
    pub(crate) fn wait_for_others(fs: &dyn Fs, path: &Path) -> bool {
        let Ok(file) = fs.open(path, Access::Read) else {
            return false;
        };
        if file.try_lock().unwrap_or(true) {
            return false;
        }
        let wait = (MAX_WAIT, MAX_TURN_PAUSE);
        wait_for_lock(fs, &*file, path, wait, &|| true).is_ok()
    }

    /// Adds a byte to the lock file.
    pub(crate) fn lengthen(&self) -> Result<(), Error> {
        let done = sys::append_all(&*self.file, b"\n");
        done.map_err(|error| sys::failure("write", &self.path, &error))
    }
}

/// A short section that many threads of many processes are in together, and none beside an
/// [`Exclusive`] one of the same file.
#[derive(Debug)]
pub(crate) struct Shared {
    file: Arc<dyn FileHandle>,
    path: PathBuf,
}

impl Shared {
    /// Enters the section of the lock file `path`, which is made if need be and never removed.
    /// Waits up to a minute.
    pub(crate) fn enter(fs: &dyn Fs, path: &Path) -> Result<Self, Error> {
        let file = lock_file(fs, path)?;
        let lock = || file.try_lock_shared();
        let wait = (MAX_TURN_WAIT, MAX_TURN_PAUSE);
        wait_until(fs, (&*file, path), wait, &|| true, &lock)?;
        let path = path.to_owned();
        Ok(Self { file, path })
    }

    /// The length of the lock file.
    pub(crate) fn length(&self) -> Result<u64, Error> {
        let found = self.file.metadata();
        let found = found.map_err(|error| sys::failure("read", &self.path, &error))?;
        Ok(found.size)
    }
}

fn lock_file(fs: &dyn Fs, path: &Path) -> Result<Arc<dyn FileHandle>, Error> {
    let access = Access::OpenOrCreate(crate::atomic::PRIVATE_FILE);
    let opened = fs.open(path, access);
    opened.map_err(|error| sys::failure("lock", path, &error))
}

/// The lock of a file for one short turn, among writers of one file who take turns. It is released
/// when dropped, while the file stays open.
#[derive(Debug)]
pub(crate) struct Turn<'f>(&'f dyn FileHandle);

impl<'f> Turn<'f> {
    /// Waits for the lock of an open file, up to [`MAX_TURN_WAIT`].
    pub(crate) fn wait(fs: &dyn Fs, file: &'f dyn FileHandle, path: &Path) -> Result<Self, Error> {
        wait_for_lock(fs, file, path, (MAX_TURN_WAIT, MAX_TURN_PAUSE), &|| true)?;
        Ok(Self(file))
    }

    /// Takes a file that is locked already.
    pub(crate) fn of_locked(file: &'f dyn FileHandle) -> Self {
        Self(file)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // The kernel takes it back at the latest when the file is closed.
        let _ = self.0.unlock();
    }
}

fn wait_for_lock(
    fs: &dyn Fs,
    file: &dyn FileHandle,
    path: &Path,
    wait: (Duration, Duration),
    patient: &dyn Fn() -> bool,
) -> Result<(), Error> {
    wait_until(fs, (file, path), wait, patient, &|| file.try_lock())
}

fn wait_until(
    fs: &dyn Fs,
    (file, path): (&dyn FileHandle, &Path),
    (max_wait, max_pause): (Duration, Duration),
    patient: &dyn Fn() -> bool,
    lock: &dyn Fn() -> std::io::Result<bool>,
) -> Result<(), Error> {
    let fail = |error: &std::io::Error| sys::failure("lock", path, error);
    let (mut waited, mut pause) = (Duration::ZERO, Duration::from_micros(100));
    while !lock().map_err(|error| fail(&error))? {
        if waited >= max_wait || !patient() {
            let identity = file.metadata().map_err(|error| fail(&error))?.identity;
            return Err(held(path, fs.lock_holder(identity)));
        }
        thread::sleep(pause);
        waited += pause;
        pause = (pause * 2).min(max_pause);
    }
    Ok(())
}

fn held(path: &Path, holder: Option<u32>) -> Error {
    let who = match holder {
        Some(pid) if pid == std::process::id() => "this process already".to_owned(),
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    };
    Error::new(
        ErrorKind::External,
        format!(
            "{} is locked by {who}; one writer at a time",
            path.display()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::RealFs;
    use std::fs;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_held_lock_names_its_holder_and_is_free_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "x").unwrap();
        let first = WriterLock::acquire(RealFs::shared(), &path).unwrap();
        let second = WriterLock::acquire(RealFs::shared(), &path).unwrap_err();
        assert_eq!(second.kind(), ErrorKind::External);
        if cfg!(target_os = "linux") {
            assert!(
                second.to_string().contains("this process already"),
                "{second}"
            );
        }
        assert_eq!(first.reader().unwrap().read_whole(9).unwrap(), b"x");
        drop(first);
        WriterLock::acquire(RealFs::shared(), &path).unwrap();
    }

    #[test]
    fn a_copy_put_in_the_place_of_a_locked_record_does_not_share_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("log"), folder.path().join("copy"));
        fs::write(&path, "x").unwrap();
        let first = WriterLock::acquire(RealFs::shared(), &path).unwrap();
        fs::copy(&path, &copy).unwrap();
        fs::rename(&copy, &path).unwrap();
        // Two files, two locks: the head store decides which of them continues.
        let second = WriterLock::acquire(RealFs::shared(), &path).unwrap();
        let stamps = [first, second].map(|lock| lock.reader().unwrap().stamp().identity);
        assert_ne!(stamps[0], stamps[1]);
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_regular_file_cannot_be_locked() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        for path in [
            &pipe,
            &folder.path().join("absent"),
            &folder.path().to_owned(),
        ] {
            let error = WriterLock::acquire(RealFs::shared(), path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
    }

    #[test]
    fn an_exclusive_section_holds_one_thread_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (inside, entered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let _section = Exclusive::enter(&RealFs, &path).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        entered.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(entered.into_inner(), 100);
    }
}
