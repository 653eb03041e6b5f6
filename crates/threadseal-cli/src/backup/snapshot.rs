//! Which files of a home are backed up, and in which order, while other processes seal.
//!
//! ```text
//! sealing.lock, together with writers ─► keys, trust, identities ─► log/lock, log/<id>/lock ─► log
//! no lock                             ─► heads, then all else
//! archive/lock                        ─► archive
//! ```
//! * Under `sealing.lock` no key ends. So keys, trust store and log agree about ends.
//! * Under the log's lock no entry is committed. So checkpoint, journal and tiles agree.
//! * A head is stored before it is logged. So heads that are read after the log contain all that the
//!   log names; those that the log lacks, it takes at the next commit.
//! * Any other file is replaced as a whole, or only grows. Of one that grows, the bytes are taken
//!   that it had when it was opened; a line that was cut is dropped as after a crash.

use super::{MAX_BACKUP_BYTES, MAX_BACKUP_FILES, MAX_BACKUP_PATH_BYTES};
use crate::context::Context;
use crate::exit::{Failure, complain};
use crate::render::clean::Clean;
use std::path::Path;
use threadseal_store::atomic;
use threadseal_store::home::Home;
use threadseal_store::key_ends::KeyEnds as _;
use threadseal_store::lock::Exclusive;
use threadseal_store::read::{RegularFile, open_regular};
use threadseal_store::sys::FileKind;

/// Files and folders in which keys, trust and log state the ends of keys.
const OF_KEYS: [&str; 7] = [
    "keys",
    "recovery.pub",
    "identity.id",
    "identities",
    "trust.toml",
    "projects.json",
    "config.toml",
];
const LOG: &str = "log";
const HEADS: &str = "heads";
const ARCHIVE: &str = "archive";
/// How often the names of keys are read again where a rotation changes them meanwhile.
const MAX_ATTEMPTS: usize = 16;

/// Takes the files of a home, each once.
pub(super) trait Taker {
    /// Takes a file, by its path in the home.
    ///
    /// # Errors
    /// When it cannot be read or written.
    fn take(&mut self, path: &str, file: &RegularFile) -> Result<(), Failure>;
}

/// Gives all files of the home to `taker`.
///
/// # Errors
/// When a lock is held too long, or a file cannot be read.
pub(super) fn of(home: &Home, context: &Context, taker: &mut dyn Taker) -> Result<(), Failure> {
    let mut walk = Walk {
        home: home.path(),
        context,
        taker,
        files: 0,
        bytes: 0,
    };
    {
        let _no_end = context.key_ends(home)?.enter(&[])?;
        walk.keys()?;
        walk.log()?;
    }
    walk.folder(HEADS)?;
    for name in walk.names("")? {
        let is_done = OF_KEYS.contains(&&*name) || [LOG, HEADS, ARCHIVE].contains(&&*name);
        if !is_done {
            walk.entry(&name)?;
        }
    }
    if walk.exists(ARCHIVE) {
        let _alone = Exclusive::enter(&*context.fs, &walk.home.join(ARCHIVE).join("lock"))?;
        walk.folder(ARCHIVE)?;
    }
    Ok(())
}

struct Walk<'w> {
    home: &'w Path,
    context: &'w Context,
    taker: &'w mut dyn Taker,
    files: u64,
    bytes: u64,
}

impl Walk<'_> {
    /// The keys are renamed outside of the lock, so their folder must have the same names after all
    /// its files were opened.
    fn keys(&mut self) -> Result<(), Failure> {
        for part in &OF_KEYS[1..] {
            if self.exists(part) {
                self.entry(part)?;
            }
        }
        for _ in 0..MAX_ATTEMPTS {
            let names = self.names(OF_KEYS[0])?;
            let opened: Option<Vec<(String, RegularFile)>> = names
                .iter()
                .map(|name| format!("{}/{name}", OF_KEYS[0]))
                .filter(|path| !is_left_out(path))
                .map(|path| Some((path.clone(), self.open(&path)?)))
                .collect();
            let Some(opened) =
                opened.filter(|_| self.names(OF_KEYS[0]).is_ok_and(|now| now == names))
            else {
                continue;
            };
            for (path, file) in &opened {
                self.take(path, file)?;
            }
            return Ok(());
        }
        Err(Failure::new(
            "the keys of the home change all the time; hint: run it again",
        ))
    }

    /// The logs, none of which commits meanwhile.
    fn log(&mut self) -> Result<(), Failure> {
        if !self.exists(LOG) {
            return Ok(());
        }
        let fs = &*self.context.fs;
        let folder = self.home.join(LOG);
        let mut alone = vec![Exclusive::enter(fs, &folder.join("lock"))?];
        for name in self.names(LOG)? {
            let lock = folder.join(&name).join("lock");
            if fs.symlink_metadata(&lock).is_ok() {
                alone.push(Exclusive::enter(fs, &lock)?);
            }
        }
        self.folder(LOG)
    }

    fn exists(&self, path: &str) -> bool {
        self.context
            .fs
            .symlink_metadata(&self.home.join(path))
            .is_ok()
    }

    /// The names in a folder of the home, in order.
    fn names(&self, folder: &str) -> Result<Vec<String>, Failure> {
        let path = self.home.join(folder);
        let names = self.context.fs.read_dir(&path);
        let names = names.map_err(|error| Failure::io("read", &path, &error))?;
        let mut texts = Vec::new();
        for name in names {
            match name.into_string() {
                Ok(name) => texts.push(name),
                Err(name) => {
                    return Err(Failure::new("its name is not UTF-8").about(&path.join(name)));
                }
            }
        }
        texts.sort();
        Ok(texts)
    }

    fn folder(&mut self, folder: &str) -> Result<(), Failure> {
        for name in self.names(folder)? {
            self.entry(&format!("{folder}/{name}"))?;
        }
        Ok(())
    }

    /// A file, or all below a folder. What was removed meanwhile is passed over.
    fn entry(&mut self, path: &str) -> Result<(), Failure> {
        if is_left_out(path) {
            return Ok(());
        }
        let Ok(found) = self.context.fs.symlink_metadata(&self.home.join(path)) else {
            return Ok(());
        };
        match found.kind {
            FileKind::Directory => self.folder(path),
            FileKind::Regular => match self.open(path) {
                Some(file) => self.take(path, &file),
                None => Ok(()),
            },
            // Sockets of the watcher; a home has no links.
            kind => {
                if kind == FileKind::Symlink {
                    complain(&format!(
                        "warning: not backed up: {} is a {kind}",
                        Clean(path)
                    ));
                }
                Ok(())
            }
        }
    }

    fn open(&self, path: &str) -> Option<RegularFile> {
        open_regular(&*self.context.fs, &self.home.join(path)).ok()
    }

    fn take(&mut self, path: &str, file: &RegularFile) -> Result<(), Failure> {
        if path.len() > MAX_BACKUP_PATH_BYTES {
            return Err(
                Failure::new("its path is too long for a backup").about(&self.home.join(path))
            );
        }
        self.files += 1;
        self.bytes = self.bytes.saturating_add(file.size());
        if self.files > MAX_BACKUP_FILES || self.bytes > MAX_BACKUP_BYTES {
            return Err(Failure::new(format!(
                "a backup has at most {MAX_BACKUP_FILES} files and {MAX_BACKUP_BYTES} bytes"
            )));
        }
        self.taker.take(path, file)
    }
}

/// Locks, temporary files, what is made again from other files, and keys of epochs: a copy of those
/// would outlive their deletion, which is what they are for.
fn is_left_out(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let name = parts.last().copied().unwrap_or_default();
    let is_lock = name == "lock" || name.ends_with(".lock");
    let is_of_log = parts.first() == Some(&LOG)
        && parts
            .get(2)
            .is_some_and(|part| *part == "index-1" || *part == "rare-1");
    let is_index = parts.len() == 1 && name.starts_with("index.sqlite");
    is_lock || is_of_log || is_index || parts[0] == "epochs" || atomic::is_temporary(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_indexes_and_keys_of_epochs_are_left_out() {
        for path in [
            "keys.lock",
            "log/lock",
            "log/0a/lock",
            "log/0a/index-1/x",
            "log/0a/rare-1",
            "index.sqlite",
            "index.sqlite-wal",
            "epochs/a/b",
            "heads/.threadseal-1-2.tmp",
        ] {
            assert!(is_left_out(path), "{path}");
        }
        for path in [
            "keys/self.native.key",
            "log/0a/journal",
            "trust.toml",
            "heads/index.sqlite",
        ] {
            assert!(!is_left_out(path), "{path}");
        }
    }
}
