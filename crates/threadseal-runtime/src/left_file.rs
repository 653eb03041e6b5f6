//! [`LeftFile`]: a file as this process left it, so that a change by another program is noticed.
//!
//! ```text
//! own write: lock ─► look ─► write ─► stamp            look, at any time: lock ─► another stamp?
//! ```
//! The lock keeps a look out of an own write. A stamp has the time of the last change of the inode,
//! which no program can set: bytes of the same size in the same place are noticed, too. The bytes of
//! another program are kept beside the file, before an own write replaces them.

use crate::no_links::NoLinks;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_DOCUMENT_BYTES;
use threadseal_store::atomic::{self, Mode, PRIVATE_FILE};
use threadseal_store::host::Host;
use threadseal_store::read::{Stamp, read_small};
use threadseal_store::sys::{FileKind, Fs};

/// How long a file must rest before it is read: a program may write it in several steps.
const REST: Duration = Duration::from_millis(20);
/// How often that is waited for at most.
const MAX_RESTS: usize = 10;

/// A file that this process writes. All clones are one.
#[derive(Debug, Clone)]
pub(crate) struct LeftFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    /// Are bytes of others kept? Not of a file that is only appended to.
    keeps: bool,
    /// Not under a lease: nothing else writes there.
    is_watched: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The file at the end of the last own write; None before the first, and where it is unknown.
    left: Option<Option<Stamp>>,
    /// Changes that were not reported yet.
    changes: Vec<Foreign>,
    was_changed: bool,
}

/// A change by another program.
#[derive(Debug, Clone)]
pub(crate) struct Foreign {
    /// The size as this process left it; None where it had no file.
    pub(crate) before: Option<u64>,
    /// The size now; None where the file is gone.
    pub(crate) now: Option<u64>,
    /// The file with the bytes of the other program, and their digest.
    pub(crate) kept: Option<(String, Digest)>,
}

/// An own write, by this means; the file is as it is left when this is dropped.
pub(crate) struct Writing<'a, T = ()> {
    file: &'a Inner,
    state: MutexGuard<'a, State>,
    by: &'a T,
}

impl LeftFile {
    /// A file whose bytes are replaced as a whole.
    pub(crate) fn replaced(host: &Host, path: &Path) -> Self {
        Self::of(host, path, true)
    }

    /// A file that is only appended to.
    pub(crate) fn appended(host: &Host, path: &Path) -> Self {
        Self::of(host, path, false)
    }

    fn of(host: &Host, path: &Path, keeps: bool) -> Self {
        Self(Arc::new(Inner {
            fs: Arc::clone(&host.fs),
            path: path.to_owned(),
            keeps,
            is_watched: host.heads.fence().is_none(),
            state: Mutex::default(),
        }))
    }

    /// Begins an own write.
    pub(crate) fn writing(&self) -> Writing<'_> {
        self.writing_with(&())
    }

    /// The same, by means of `by`.
    pub(crate) fn writing_with<'a, T>(&'a self, by: &'a T) -> Writing<'a, T> {
        let mut state = self.0.state();
        self.0.look(&mut state);
        Writing {
            file: &self.0,
            state,
            by,
        }
    }

    /// The changes by other programs since the last call.
    pub(crate) fn changes(&self) -> Vec<Foreign> {
        let mut state = self.0.state();
        self.0.look(&mut state);
        std::mem::take(&mut state.changes)
    }

    /// Did another program ever change it?
    pub(crate) fn was_changed(&self) -> bool {
        let mut state = self.0.state();
        self.0.look(&mut state);
        state.was_changed
    }
}

impl<T> Deref for Writing<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.by
    }
}

impl<T> Drop for Writing<'_, T> {
    fn drop(&mut self) {
        self.state.left = self.file.stamp();
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file now; None where it cannot be looked at.
    fn stamp(&self) -> Option<Option<Stamp>> {
        if !self.is_watched {
            return None;
        }
        match self.fs.symlink_metadata(&self.path) {
            Ok(found) => Some(Some(found.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(None),
            Err(_) => None,
        }
    }

    fn look(&self, state: &mut State) {
        let (Some(left), Some(mut now)) = (state.left, self.stamp()) else {
            return;
        };
        if now == left {
            return;
        }
        for _ in 0..MAX_RESTS {
            std::thread::sleep(REST);
            let before = now;
            now = self.stamp().unwrap_or(now);
            if before == now {
                break;
            }
        }
        state.left = Some(now);
        state.was_changed = true;
        state.changes.push(Foreign {
            before: left.map(|left| left.size),
            now: now.map(|now| now.size),
            // Bytes that cannot be kept are gone with the next write; the change is reported.
            kept: now.and_then(|_| self.keep().ok().flatten()),
        });
    }

    fn keep(&self) -> Result<Option<(String, Digest)>, Error> {
        let is_file = self.fs.symlink_metadata(&self.path);
        let is_file = is_file.is_ok_and(|found| found.kind == FileKind::Regular);
        let name = self.path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.filter(|_| self.keeps && is_file) else {
            return Ok(None);
        };
        let fs = NoLinks::over(&self.fs);
        let bytes = read_small(&fs, &self.path, MAX_DOCUMENT_BYTES)?;
        let sha256 = Digest::of(&bytes);
        let name = format!("{name}.changed-{}", sha256.to_hex());
        let copy = self.path.with_file_name(&name);
        atomic::replace(&fs, &copy, &bytes, Mode::Set(PRIVATE_FILE))?;
        Ok(Some((name, sha256)))
    }
}
