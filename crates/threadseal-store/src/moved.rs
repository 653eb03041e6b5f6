//! Finds the log that was in a place before: rotation and `mv` move a log, and leave its seals.
//!
//! ```text
//! y, sealed ── mv y y.1 ──► y.1           holds every sealed byte: the record
//!                           y, if any     begins otherwise: another log
//! ```
//! A file is the moved log if it begins with all sealed bytes, so no other log passes for it. A log
//! in the earlier place is another one unless it begins with the first sealed line, or half of its
//! lines were sealed. If so, the log was changed there, and a copy elsewhere excuses nothing.

use crate::examine;
use crate::host::Host;
use crate::read::{RegularFile, Source as _, open_regular};
use crate::sys::{FileKind, directory_of};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::merkle::{self, leaf_hash};
use threadseal_formats::transcript::log::{FIRST_LINES, LogReader};
use threadseal_formats::transcript::observed::SealFile;

/// Names that are looked at near a log: in its folder, the folders in it, and the folder above.
const MAX_NEIGHBOURS: usize = 4096;

/// Lines that occur in any log.
const BLANK_LINES: [&[u8]; 5] = [b"", b"\r", b" ", b"{}", b"[]"];

/// The lines under the newest known seal of a log.
pub struct SealedLines<'a> {
    /// Bytes of the log up to the end of the last line, without its LF if it had none.
    size: u64,
    /// RFC 6962 root over the lines.
    root: Digest,
    /// Leaves of the first lines, or of all.
    leaves: &'a [Digest],
}

impl<'a> SealedLines<'a> {
    /// As the seal file states them. `None` if it has no seal.
    pub fn of_seals(seals: &'a SealFile) -> Option<Self> {
        let last = seals.last()?;
        Some(Self {
            size: last.head.size,
            root: last.root,
            leaves: &seals.leaves,
        })
    }

    /// As this host knows them when the seals are gone. `None` if it does not know the root.
    pub fn of_known(known: &'a crate::heads::StoredHead) -> Option<Self> {
        Some(Self {
            size: known.head.size,
            root: known.root?,
            leaves: &known.aliases,
        })
    }

    /// The path of the moved log, if the file in its earlier place `log` is another log, or there
    /// is none.
    ///
    /// # Errors
    /// Kind `External` if the system fails to read `log`.
    pub fn moved_from(&self, host: &Host, log: &Path) -> Result<Option<PathBuf>, Error> {
        // Who moves a log may leave a link to it.
        let found = host.fs.symlink_metadata(log);
        let is_there = found.is_ok_and(|found| found.kind != FileKind::Symlink);
        if is_there && self.was_changed_to(&open_regular(&*host.fs, log)?)? {
            return Ok(None);
        }
        // A neighbour that cannot be read is not the moved log.
        let found = neighbours(host, log).into_iter();
        let mut held = found.filter(|path| self.are_in(host, path).unwrap_or(false));
        Ok(held.next())
    }

    /// Is the file the log after a change, rather than another log? Then it begins with the first
    /// sealed line, or at least half of its lines are sealed ones. Lines that occur in any log do
    /// not count.
    fn was_changed_to(&self, file: &RegularFile) -> Result<bool, Error> {
        if self.leaves.len() <= FIRST_LINES {
            return self.shares_first_lines(file);
        }
        let sealed: HashSet<&Digest> = self.leaves.iter().collect();
        let leaves = examine::read_log(file, None, true, &|_| {})?.new_leaves;
        let blank = BLANK_LINES.map(leaf_hash);
        let counted: Vec<&Digest> = leaves.iter().filter(|leaf| !blank.contains(leaf)).collect();
        let known = counted.iter().filter(|leaf| sealed.contains(*leaf)).count();
        let first = self.leaves.iter().find(|leaf| !blank.contains(leaf));
        let begins = counted.first().copied() == first;
        Ok(!counted.is_empty() && (begins || known * 2 >= counted.len()))
    }

    /// Is a sealed line among the first lines of the file?
    fn shares_first_lines(&self, file: &RegularFile) -> Result<bool, Error> {
        let first = examine::naming_leaves(file)?;
        Ok(first.iter().any(|leaf| self.leaves.contains(leaf)))
    }

    /// Does the file at `path` begin with all sealed lines?
    fn are_in(&self, host: &Host, path: &Path) -> Result<bool, Error> {
        let file = open_regular(&*host.fs, path)?;
        if file.size() < self.size || !self.shares_first_lines(&file)? {
            return Ok(false);
        }
        let mut reader = LogReader::new(None, true);
        let (mut chunks, mut chunk) = (file.range(0, self.size), Vec::new());
        loop {
            chunks.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                break;
            }
            reader.push(&chunk);
        }
        Ok(merkle::root(&reader.finish().new_leaves) == self.root)
    }
}

/// The files in the folder of `log`, in the folders there and in the folder above, but not `log`. At
/// most [`MAX_NEIGHBOURS`].
pub fn neighbours(host: &Host, log: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| {
        let mut names = host.fs.read_dir(folder).unwrap_or_default();
        names.sort();
        names.into_iter().map(|name| folder.join(name)).collect()
    };
    let kind = |path: &PathBuf| host.fs.symlink_metadata(path).map(|found| found.kind);
    let here: Vec<PathBuf> = list(directory_of(log));
    let folders = here
        .iter()
        .filter(|path| kind(path).is_ok_and(|kind| kind == FileKind::Directory));
    let below: Vec<PathBuf> = folders.flat_map(|folder| list(folder)).collect();
    let folder = directory_of(log);
    let above = match folder.file_name() {
        Some(_) => list(directory_of(folder)),
        None => Vec::new(),
    };
    let all = here.into_iter().chain(below).chain(above);
    let all = all.take(MAX_NEIGHBOURS);
    all.filter(|path| path != log && kind(path).is_ok_and(|kind| kind == FileKind::Regular))
        .collect()
}
