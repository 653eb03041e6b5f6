//! [`Folder`]: objects as files of one folder.
//!
//! A file system replaces a file without a condition on its contents. So a writer that replaces one
//! holds the lock of the whole folder (`.lock`). Under it, the old bytes are compared and the new
//! ones take their name. The version of an object is the digest of its bytes. Every file is whole
//! and durable before its name is ([`crate::atomic`]).
//!
//! A write that failed may have given the name and not made it durable. Before later reads, the
//! names in its folder are made durable. Otherwise a reader could trust an object that power loss
//! removes.

use super::{Object, Objects, Put, Version, damaged};
use crate::atomic::{self, Mode, PRIVATE_DIRECTORY, PRIVATE_FILE};
use crate::lock::Exclusive;
use crate::read;
use crate::sys::{self, Fs, directory_of};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;

/// Objects in a folder, which is made when the first one is written.
#[derive(Debug)]
pub struct Folder {
    fs: Arc<dyn Fs>,
    root: PathBuf,
    /// Folders that are known to be durable.
    durable: Mutex<BTreeSet<PathBuf>>,
    /// Folders whose names may not be durable, because a write in them failed.
    doubtful: Mutex<BTreeSet<PathBuf>>,
}

impl Folder {
    /// The objects in `root`.
    pub fn new(fs: Arc<dyn Fs>, root: impl Into<PathBuf>) -> Self {
        Self {
            fs,
            root: root.into(),
            durable: Mutex::default(),
            doubtful: Mutex::default(),
        }
    }

    fn make_folder(&self, folder: &Path) -> Result<(), Error> {
        // Each change of the set is whole.
        let known = || self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if !known().contains(folder) {
            atomic::create_directories(&*self.fs, folder, PRIVATE_DIRECTORY)?;
            known().insert(folder.to_owned());
        }
        Ok(())
    }

    /// Remembers that a write may have been done by half.
    fn noted<T>(&self, path: &Path, done: Result<T, Error>) -> Result<T, Error> {
        if done.is_err() {
            let mut doubtful = self.doubtful.lock().unwrap_or_else(PoisonError::into_inner);
            doubtful.insert(directory_of(path).to_owned());
        }
        done
    }

    /// Makes the names durable that a failed write may have left.
    fn settle(&self, path: &Path) -> Result<(), Error> {
        let folder = directory_of(path);
        let mut doubtful = self.doubtful.lock().unwrap_or_else(PoisonError::into_inner);
        if doubtful.contains(folder) {
            let synced = self.fs.sync_dir(folder);
            synced.map_err(|error| sys::failure("sync", folder, &error))?;
            doubtful.remove(folder);
        }
        Ok(())
    }

    fn is_there(&self, path: &Path) -> Result<bool, Error> {
        match self.fs.symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(sys::failure("read", path, &error)),
        }
    }
}

impl Objects for Folder {
    fn read(&self, name: &str, limit: usize) -> Result<Option<Object>, Error> {
        let path = self.root.join(name);
        match self.fs.symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(sys::failure("read", &path, &error)),
            Ok(found) if found.size > limit as u64 => {
                return Err(damaged(self, name, "is larger than it can be"));
            }
            Ok(_) => {}
        }
        let bytes = read::read_small(&*self.fs, &path, limit)?;
        self.settle(&path)?;
        let version = version(&bytes);
        Ok(Some(Object { bytes, version }))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Put, Error> {
        let path = self.root.join(name);
        self.make_folder(directory_of(&path))?;
        if !self.is_there(&path)? {
            let created = atomic::create_new(&*self.fs, &path, bytes, PRIVATE_FILE);
            match self.noted(&path, created) {
                Ok(()) => return Ok(Put::Stored(version(bytes))),
                Err(error) if !self.is_there(&path)? => return Err(error),
                Err(_) => {}
            }
        }
        // The maker of the file may not have made its name durable yet.
        let synced = self.fs.sync_dir(directory_of(&path));
        synced.map_err(|error| sys::failure("write", &path, &error))?;
        Ok(Put::Differs)
    }

    fn replace_if(&self, name: &str, expected: &Version, bytes: &[u8]) -> Result<Put, Error> {
        let path = self.root.join(name);
        self.make_folder(&self.root)?;
        let _section = Exclusive::enter(&*self.fs, &self.root.join(".lock"))?;
        match self.read(name, usize::MAX)? {
            Some(found) if found.version == *expected => {}
            _ => return Ok(Put::Differs),
        }
        let replaced = atomic::replace(&*self.fs, &path, bytes, Mode::Set(PRIVATE_FILE));
        self.noted(&path, replaced)?;
        Ok(Put::Stored(version(bytes)))
    }

    fn list(&self, folder: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        let path = self.root.join(folder);
        let names = match self.fs.read_dir(&path) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(sys::failure("read", &path, &error)),
        };
        // A name that begins with a dot is a lock, or a file that has no name yet.
        let mut names: Vec<String> = names
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .filter(|name| !name.starts_with('.') && name.as_str() > after)
            .collect();
        names.sort_unstable();
        names.truncate(limit);
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.root.join(name);
        let removed = match self.fs.unlink(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.fs.sync_dir(directory_of(&path)),
        };
        removed.map_err(|error| sys::failure("remove", &path, &error))
    }

    fn place(&self) -> String {
        // Two folders with the same spelling from different places are two places.
        let real = self.fs.canonicalize(&self.root);
        real.as_deref().unwrap_or(&self.root).display().to_string()
    }
}

fn version(bytes: &[u8]) -> Version {
    Version {
        e_tag: Some(Digest::of(bytes).to_hex()),
        number: None,
    }
}
