//! `$THREADSEAL_HOME`: a user's trust, keys and known heads; outside every project.
//!
//! ```text
//! $THREADSEAL_HOME/   0700   default $XDG_DATA_HOME/threadseal or ~/.local/share/threadseal
//! ├── keys/           0700   NAME.key 0600 private, NAME.pub public   (keys.rs)
//! │                          spool.secret 0600                        (threadseal-log)
//! ├── epochs/         0700   keys that seal a part of one record   (crate::epochs)
//! ├── trust.toml      0600   whose signatures count
//! ├── config.toml     0600
//! ├── documents.lock  0600   held while a document is sealed
//! ├── keys.lock       0600   held while a key ends                  (crate::key_ends)
//! ├── sealing.lock    0600   held while seals are made              (crate::key_ends)
//! ├── heads/          0700   last known heads                         (crate::heads)
//! ├── capture/        0700   what was installed for agents             (threadseal-capture)
//! └── log/            0700   every head that was stored               (threadseal-log)
//! ```
//! Invariants:
//! * The directories belong to the user (or to root) and no other user may write to them; otherwise
//!   nothing is read from them.
//! * A home inside the tree that is being verified is refused. Otherwise the person who made the
//!   tree would also supply the trust (`threats/keys-and-trust.md`).

mod inside;
mod keys;
#[cfg(unix)]
#[cfg(test)]
mod tests;

pub use inside::is_inside;
pub use keys::{KeyEntry, KeyFileName, KeyFiles, MAX_KEY_FILE_NAME_BYTES};

use crate::atomic::{self, Mode, PRIVATE_DIRECTORY, PRIVATE_FILE};
use crate::epochs::EpochKeys;
use crate::heads::FileHeadStore;
use crate::lock::Exclusive;
use crate::owned_files::{check_owned, read_trusted_file};
use crate::sys::{self, FileKind, Fs};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_TRUST_FILE_BYTES;

/// Largest configuration file in bytes.
pub const MAX_CONFIG_FILE_BYTES: usize = 1 << 20;

const STICKY: u32 = 0o1000;

/// The default path of the home, from the values of `$THREADSEAL_HOME`, `$XDG_DATA_HOME` and
/// `$HOME`.
///
/// As in the XDG Base Directory Specification, an empty value counts as unset, and a relative
/// `$XDG_DATA_HOME` is ignored.
///
/// # Errors
/// [`threadseal_core::error::ErrorKind::InvalidInput`] when none of them serves, or when
/// `$THREADSEAL_HOME` is relative: it would name another place in every folder.
pub fn default_path(
    threadseal_home: Option<&OsStr>,
    xdg_data_home: Option<&OsStr>,
    home: Option<&OsStr>,
) -> Result<PathBuf, Error> {
    fn given(value: Option<&OsStr>) -> Option<&Path> {
        value.filter(|value| !value.is_empty()).map(Path::new)
    }
    if let Some(path) = given(threadseal_home) {
        return if path.is_absolute() {
            Ok(path.to_owned())
        } else {
            Err(Error::invalid(format!(
                "THREADSEAL_HOME is {}, which is relative; give the whole path",
                path.display()
            )))
        };
    }
    given(xdg_data_home)
        .filter(|path| path.is_absolute())
        .map(|path| path.join("threadseal"))
        .or_else(|| {
            given(home)
                .filter(|path| path.is_absolute())
                .map(|path| path.join(".local/share/threadseal"))
        })
        .ok_or_else(|| Error::invalid("no home directory is known; set THREADSEAL_HOME"))
}

/// A home that was checked.
#[derive(Debug, Clone)]
pub struct Home {
    fs: Arc<dyn Fs>,
    path: PathBuf,
}

impl Home {
    /// Makes the home and its parts where they are missing, and checks them.
    ///
    /// # Errors
    /// As [`Home::open`].
    pub fn create(fs: Arc<dyn Fs>, path: &Path) -> Result<Self, Error> {
        for directory in [path.to_owned(), path.join("keys"), path.join("heads")] {
            atomic::create_directories(&*fs, &directory, PRIVATE_DIRECTORY)?;
        }
        Self::open(fs, path)
    }

    /// Checks an existing home.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when it is missing, is no directory,
    /// belongs to another user, or other users may write to it or replace it.
    pub fn open(fs: Arc<dyn Fs>, path: &Path) -> Result<Self, Error> {
        let real = fs
            .canonicalize(path)
            .map_err(|error| sys::failure("open the home", path, &error))?;
        for directory in [real.clone(), real.join("keys"), real.join("heads")] {
            check_owned(&*fs, &directory, FileKind::Directory)?;
        }
        for above in real.ancestors().skip(1) {
            check_stands(&*fs, above, path)?;
        }
        Ok(Self { fs, path: real })
    }

    /// Its path, without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The key files.
    pub fn keys(&self) -> KeyFiles {
        KeyFiles::new(Arc::clone(&self.fs), self.path.join("keys"))
    }

    /// The keys of epochs.
    pub fn epochs(&self) -> EpochKeys {
        EpochKeys::new(Arc::clone(&self.fs), self.path.join("epochs"))
    }

    /// The last known heads.
    pub fn heads(&self) -> FileHeadStore {
        FileHeadStore::new(Arc::clone(&self.fs), self.path.join("heads"))
    }

    /// The folder of the tombstones of records that were pruned in stores.
    pub fn tombstones(&self) -> PathBuf {
        self.path.join("tombstones")
    }

    /// Lets one process at a time seal documents. They are replaced by rename, so a lock on a
    /// document itself would be lost with it.
    ///
    /// # Errors
    /// As [`Exclusive::enter`].
    pub fn enter_documents(&self) -> Result<Exclusive, Error> {
        Exclusive::enter(&*self.fs, &self.path.join("documents.lock"))
    }

    /// The path of the trust store.
    pub fn trust_path(&self) -> PathBuf {
        self.path.join("trust.toml")
    }

    /// The trust store's bytes; `None` when there is none yet.
    ///
    /// # Errors
    /// As [`read_trusted_file`].
    pub fn read_trust(&self) -> Result<Option<Vec<u8>>, Error> {
        read_trusted_file(&*self.fs, &self.trust_path(), MAX_TRUST_FILE_BYTES)
    }

    /// Replaces the trust store.
    ///
    /// # Errors
    /// As [`atomic::replace`].
    pub fn write_trust(&self, bytes: &[u8]) -> Result<(), Error> {
        atomic::replace(
            &*self.fs,
            &self.trust_path(),
            bytes,
            Mode::KeepOr(PRIVATE_FILE),
        )
    }

    /// The configuration's bytes; `None` when there is none.
    ///
    /// # Errors
    /// As [`read_trusted_file`].
    pub fn read_config(&self) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path.join("config.toml");
        read_trusted_file(&*self.fs, &path, MAX_CONFIG_FILE_BYTES)
    }
}

/// Refuses a directory above the home in which other users could put another home.
fn check_stands(fs: &dyn Fs, above: &Path, home: &Path) -> Result<(), Error> {
    const ANYBODY_WRITES: u32 = 0o002;
    let found = fs
        .metadata(above)
        .map_err(|error| sys::failure("read", above, &error))?;
    if found.mode & ANYBODY_WRITES == 0 || found.mode & STICKY != 0 {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "any user may write to {} (mode {:04o}) and so replace {}",
        above.display(),
        found.mode,
        home.display()
    )))
}
