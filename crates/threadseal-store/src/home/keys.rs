//! Key files: the private half 0600, the public half beside it; neither is ever replaced.
//!
//! ```text
//! keys/NAME.key   private key, PEM       keys/NAME.pub   public key, PEM
//! ```
//! Not here: the meaning of the bytes (`threadseal_core::key`).

use crate::atomic::{self, PRIVATE_FILE};
use crate::owned_files::{check_owned, read_private_key_file};
use crate::read;
use crate::sys::{self, FileKind, Fs};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::error::Error;
use threadseal_core::limits::MAX_KEY_FILE_BYTES;

/// Longest name of a key file in bytes, without its ending.
pub const MAX_KEY_FILE_NAME_BYTES: usize = 64;

const PUBLIC_FILE: u32 = 0o644;

/// A name that is safe as a file name everywhere.
///
/// It has `a-z`, `0-9`, `-`, `_` and `.`. It begins with a letter or digit, and has no ending of
/// key files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyFileName(String);

impl KeyFileName {
    /// Checks and takes `text`.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when `text` is no such name.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let ok = text.len() <= MAX_KEY_FILE_NAME_BYTES
            && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && text
                .bytes()
                .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'))
            && !text.ends_with('.')
            && Path::new(text)
                .extension()
                .is_none_or(|ending| ending != "key" && ending != "pub");
        if ok {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::invalid(format!(
                "key name {text:?} is not valid: use up to {MAX_KEY_FILE_NAME_BYTES} of a-z, \
                 0-9, '-', '_' and '.', beginning with a letter or digit"
            )))
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which halves of a key there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    /// Its name.
    pub name: KeyFileName,
    /// Is the private half here?
    pub has_private: bool,
    /// Is the public half here?
    pub has_public: bool,
}

/// The keys of one home.
#[derive(Debug, Clone)]
pub struct KeyFiles {
    fs: Arc<dyn Fs>,
    directory: PathBuf,
}

impl KeyFiles {
    pub(super) fn new(fs: Arc<dyn Fs>, directory: PathBuf) -> Self {
        Self { fs, directory }
    }

    /// The path of the private half.
    pub fn private_path(&self, name: &KeyFileName) -> PathBuf {
        self.directory.join(format!("{name}.key"))
    }

    /// The path of the public half.
    pub fn public_path(&self, name: &KeyFileName) -> PathBuf {
        self.directory.join(format!("{name}.pub"))
    }

    /// Writes both halves of a new key. After an error neither exists. Only a crash between the two
    /// leaves the private half alone. The public one can be made again from that.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when either half exists,
    /// [`threadseal_core::error::ErrorKind::External`] when the system fails.
    pub fn create(&self, name: &KeyFileName, private: &[u8], public: &[u8]) -> Result<(), Error> {
        let private_path = self.private_path(name);
        refuse_existing(&*self.fs, &private_path)?;
        refuse_existing(&*self.fs, &self.public_path(name))?;
        atomic::create_new(&*self.fs, &private_path, private, PRIVATE_FILE)?;
        let result = self.create_public(name, public);
        if result.is_err() {
            // No program can have used the key yet: its maker gets an error.
            let _ = self.fs.unlink(&private_path);
        }
        result
    }

    /// Writes the public half alone: another person's key, or the user's own after a crash.
    ///
    /// # Errors
    /// As [`KeyFiles::create`].
    pub fn create_public(&self, name: &KeyFileName, public: &[u8]) -> Result<(), Error> {
        atomic::create_new(&*self.fs, &self.public_path(name), public, PUBLIC_FILE)
    }

    /// Gives a key another name, durably: each half that exists. After an interruption, a second
    /// call finishes the work.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when the other name is taken,
    /// [`threadseal_core::error::ErrorKind::External`] when the system fails.
    pub fn rename(&self, from: &KeyFileName, to: &KeyFileName) -> Result<(), Error> {
        let halves = [
            (self.private_path(from), self.private_path(to)),
            (self.public_path(from), self.public_path(to)),
        ];
        for (old, new) in halves {
            match self.fs.rename_no_replace(&old, &new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(sys::failure("rename the key", &old, &error));
                }
                _ => {}
            }
        }
        let synced = self.fs.sync_dir(&self.directory);
        synced.map_err(|error| sys::failure("rename a key in", &self.directory, &error))
    }

    /// The private half. The caller wipes the bytes after use.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Key`] when others may read it,
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when it is not there.
    pub fn read_private(&self, name: &KeyFileName) -> Result<Vec<u8>, Error> {
        read_private_key_file(&*self.fs, &self.private_path(name))
    }

    /// The public half.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when it is not there or others may write
    /// to it.
    pub fn read_public(&self, name: &KeyFileName) -> Result<Vec<u8>, Error> {
        let path = self.public_path(name);
        check_owned(&*self.fs, &path, FileKind::Regular)?;
        read::read_small(&*self.fs, &path, MAX_KEY_FILE_BYTES)
    }

    /// All keys, by name. Files with other endings are none.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when the directory cannot be read.
    pub fn list(&self) -> Result<Vec<KeyEntry>, Error> {
        let names = self
            .fs
            .read_dir(&self.directory)
            .map_err(|error| sys::failure("read", &self.directory, &error))?;
        let mut entries = std::collections::BTreeMap::<KeyFileName, KeyEntry>::new();
        for file in names.iter().filter_map(|name| name.to_str()) {
            let (stem, is_private) = match file.rsplit_once('.') {
                Some((stem, "key")) => (stem, true),
                Some((stem, "pub")) => (stem, false),
                _ => continue,
            };
            let Ok(name) = KeyFileName::parse(stem) else {
                continue;
            };
            let entry = entries.entry(name.clone()).or_insert(KeyEntry {
                name,
                has_private: false,
                has_public: false,
            });
            entry.has_private |= is_private;
            entry.has_public |= !is_private;
        }
        Ok(entries.into_values().collect())
    }
}

fn refuse_existing(fs: &dyn Fs, path: &Path) -> Result<(), Error> {
    match fs.symlink_metadata(path) {
        Ok(_) => Err(Error::invalid(format!(
            "{} exists, and a key is never replaced; choose another name or move it away",
            path.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(sys::failure("write", path, &error)),
    }
}
