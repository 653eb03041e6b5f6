//! Finds the log that was in a place before: rotation and `mv` move a log, and leave its seals.
//!
//! ```text
//! y, sealed ── mv y y.1 ──► y.1           holds every sealed byte: the record
//!                           y, if any     begins otherwise: another log
//! ```
//! A file is the moved log if it begins with all sealed bytes, so no other log passes for it. A log
//! in the earlier place is another one unless it begins with the first sealed line, or half of its
//! lines were sealed. If so, the log was changed there, and a copy elsewhere excuses nothing. A host
//! remembers the first lines of a log only; the seals beside the moved log have all of them.

use crate::examine;
use crate::heads::{KnownSalts, RecordKind, StoredHead};
use crate::host::Host;
use crate::observer::{read_seal_file, seal_path};
use crate::read::{RegularFile, Source as _, open_regular};
use crate::sys::{FileKind, directory_of};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::merkle::{self, leaf_hash};
use threadseal_core::record::RecordId;
use threadseal_core::salts::Salts;
use threadseal_formats::transcript::log::{FIRST_LINES, LogReader};
use threadseal_formats::transcript::observed::{self, LeafWalk, SealFile};

/// Names that are looked at near a log: in its folder, the folders in it, and the folder above.
const MAX_NEIGHBOURS: usize = 4096;
/// How many folders deep they may be.
const MAX_DEPTH: usize = 4;

/// The fewest different lines that a log shares with the moved one, if it was made of it.
const SHARED_LINES: usize = 2;

/// Lines that occur in any log.
const BLANK_LINES: [&[u8]; 5] = [b"", b"\r", b" ", b"{}", b"[]"];

/// The lines under the newest known seal of a log.
pub struct SealedLines<'a> {
    /// Bytes of the log up to the end of the last line, without its LF if it had none.
    size: u64,
    /// RFC 6962 root over the lines.
    root: Digest,
    lines: Known<'a>,
}

/// What is known of the lines.
enum Known<'a> {
    /// The seals in the place: all leaves.
    Seals(&'a SealFile),
    /// The hashes of the first lines, and the salts of all, if they have salts.
    First(&'a [Digest], Option<Salts>),
}

impl<'a> SealedLines<'a> {
    /// As the seal file states them. `None` if it has no seal.
    pub fn of_seals(seals: &'a SealFile) -> Option<Self> {
        let last = seals.last()?;
        Some(Self {
            size: last.head.size,
            root: last.root,
            lines: Known::Seals(seals),
        })
    }

    /// As this host knows them when the seals are gone. `None` if it does not know the root, or no
    /// longer the salts.
    pub fn of_known(known: &'a StoredHead) -> Option<Self> {
        let salts = match known.salts {
            Some(KnownSalts::Removed) => return None,
            Some(KnownSalts::Of(root)) => Some(Salts::whole(root)),
            None => None,
        };
        Some(Self {
            size: known.head.size,
            root: known.root?,
            lines: Known::First(&known.aliases, salts),
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
        let is_few = self.has_first_lines_only();
        if is_there && is_few && self.shares_first_lines(&open_regular(&*host.fs, log)?)? {
            return Ok(None);
        }
        // A neighbour that cannot be read is not the moved log.
        let found = neighbours(host, log).into_iter();
        let is_moved = |path: &PathBuf| {
            self.are_in(host, path).unwrap_or(false) && !self.has_own_seals(host, path)
        };
        let mut held = found.filter(is_moved);
        let Some(moved) = held.next() else {
            return Ok(None);
        };
        let was_changed = match (is_there, is_few) {
            (false, _) => false,
            (true, true) => was_changed(host, log, &moved)?,
            (true, false) => self.was_changed_to(host, &open_regular(&*host.fs, log)?, &moved)?,
        };
        Ok((!was_changed).then_some(moved))
    }

    /// Is the log that the seals cover at `known` or near it, while `file` is another log? Then the
    /// seals beside `file` are a copy, as of a folder in which a log was rotated.
    ///
    /// # Errors
    /// Kind `External` if the system fails to read `file`.
    pub fn cover_another(
        &self,
        host: &Host,
        file: &RegularFile,
        known: &Path,
    ) -> Result<bool, Error> {
        // Of so few lines a change may leave none: only a log that was rotated has left its seals.
        if self.has_first_lines_only() {
            let is_changed = self.shares_first_lines(file)?;
            return Ok(!is_changed && self.moved_from(host, known)?.is_some());
        }
        let near = std::iter::once(known.to_owned()).chain(neighbours(host, known));
        let mut others = near.filter(|path| host.place(path) != host.place(file.path()));
        match others.find(|path| self.are_in(host, path).unwrap_or(false)) {
            Some(other) => Ok(!self.was_changed_to(host, file, &other)?),
            None => Ok(false),
        }
    }

    /// Are seals of this record beside the file, too? Then the ones in the place are a copy, and no
    /// log left them.
    fn has_own_seals(&self, host: &Host, path: &Path) -> bool {
        let Known::Seals(own) = &self.lines else {
            return false;
        };
        let bytes = read_seal_file(host, &seal_path(path)).ok().flatten();
        let seals = bytes.and_then(|bytes| observed::parse(&bytes).ok());
        seals.is_some_and(|seals| seals.record == own.record)
    }

    fn has_first_lines_only(&self) -> bool {
        let known = match &self.lines {
            Known::Seals(seals) => seals.leaves.len(),
            Known::First(lines, _) => lines.len(),
        };
        known <= FIRST_LINES
    }

    /// Is the file the log after a change, rather than another log? Then it begins with the first
    /// sealed line, or at least half of its lines are sealed ones. Lines that occur in any log do
    /// not count. The sealed lines are in the file at `moved`.
    fn was_changed_to(&self, host: &Host, file: &RegularFile, moved: &Path) -> Result<bool, Error> {
        let count = match &self.lines {
            Known::Seals(seals) => seals.leaves.len(),
            Known::First(lines, _) => lines.len(),
        };
        let sealed = lines_of(&open_regular(&*host.fs, moved)?, count)?;
        let lines = lines_of(file, usize::MAX)?;
        let begins = lines.first() == sealed.first();
        let sealed: HashSet<&Digest> = sealed.iter().collect();
        let known = lines.iter().filter(|line| sealed.contains(*line)).count();
        Ok(!lines.is_empty() && (begins || known * 2 >= lines.len()))
    }

    /// Is a sealed line among the first lines of the file?
    fn shares_first_lines(&self, file: &RegularFile) -> Result<bool, Error> {
        let first = examine::naming_leaves(file)?;
        let is_sealed = |line: &Digest| match &self.lines {
            Known::Seals(seals) => (0..FIRST_LINES).any(|at| seals.is_sealed(at, line)),
            Known::First(lines, _) => lines.contains(line),
        };
        Ok(first.iter().any(is_sealed))
    }

    /// Does the file at `path` begin with all sealed lines?
    fn are_in(&self, host: &Host, path: &Path) -> Result<bool, Error> {
        let file = open_regular(&*host.fs, path)?;
        let seals = match &self.lines {
            Known::Seals(seals) => Some(*seals),
            Known::First(..) => None,
        };
        let is_redacted = seals.is_some_and(|seals| !seals.redactions.is_empty());
        if !is_redacted && file.size() < self.size || !self.shares_first_lines(&file)? {
            return Ok(false);
        }
        // Redacted lines are shorter or longer than those that were sealed.
        if is_redacted {
            let scan = examine::read_log(&file, seals, false, &|_| {})?;
            return Ok(scan.sealed_end.is_some());
        }
        let mut reader = LogReader::new(None::<&SealFile>, true);
        let (mut chunks, mut chunk) = (file.range(0, self.size), Vec::new());
        loop {
            chunks.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                break;
            }
            reader.push(&chunk);
        }
        let mut walk = match &self.lines {
            Known::Seals(seals) => seals.walk(0),
            Known::First(_, salts) => LeafWalk::new(salts.as_ref(), 0),
        };
        let lines = reader.finish().new_lines;
        let leaves = lines.iter().map(|line| walk.next_leaf(line));
        let leaves = leaves.collect::<Option<Vec<Digest>>>();
        Ok(leaves.is_some_and(|leaves| merkle::root(&leaves) == self.root))
    }
}

/// The earlier place of the log that is at `log` now, where its seals of `record` are still: where
/// this host sealed it last, else near the log, to where it was moved with them before.
///
/// # Errors
/// Kind `External` if the system fails to read the log.
pub fn left_seals(
    host: &Host,
    record: &RecordId,
    sealed_at: Option<&Path>,
    log: &Path,
) -> Result<Option<PathBuf>, Error> {
    let near = neighbours(host, log).into_iter();
    let near = near.filter(|path| path.extension().is_some_and(|ending| ending == "seal"));
    let near = near.map(|seals| seals.with_extension(""));
    let here = host.place(log);
    for earlier in sealed_at.map(Path::to_owned).into_iter().chain(near) {
        // Other seals near the log may be of any kind, and need not be readable.
        let bytes = read_seal_file(host, &seal_path(&earlier)).ok().flatten();
        let seals = bytes.and_then(|bytes| observed::parse(&bytes).ok());
        let Some(seals) = seals.filter(|seals| seals.record == *record) else {
            continue;
        };
        let Some(sealed) = SealedLines::of_seals(&seals) else {
            continue;
        };
        let moved = sealed.moved_from(host, &earlier)?;
        if moved.is_some_and(|moved| host.place(&moved) == here) {
            return Ok(Some(earlier));
        }
    }
    Ok(None)
}

/// Is the record no longer in the place where this host sealed it? Then there is no file, or another
/// log. A log that begins like the record elsewhere may be the record after a change.
///
/// # Errors
/// Kind `External` when the heads are damaged.
pub fn has_left(host: &Host, record: &RecordId, place: &Path) -> Result<bool, Error> {
    let known = host.heads.fetch(record)?;
    let is_log = |known: &StoredHead| known.kind == RecordKind::Observed;
    let known = known.filter(is_log);
    Ok(match known.as_ref().and_then(SealedLines::of_known) {
        Some(sealed) => !sealed.are_in(host, place).unwrap_or(false),
        None => host.fs.symlink_metadata(place).is_err(),
    })
}

/// Was the file at `log` made of the log `moved` by a change? The seals beside that one show its lines.
///
/// # Errors
/// Kind `External` if the system fails to read `log`.
pub fn was_changed(host: &Host, log: &Path, moved: &Path) -> Result<bool, Error> {
    let Ok(Some(bytes)) = read_seal_file(host, &seal_path(moved)) else {
        return Ok(false);
    };
    let Ok(seals) = observed::parse(&bytes) else {
        return Ok(false);
    };
    if seals.last().is_none() {
        return Ok(false);
    }
    let sealed = lines_of(&open_regular(&*host.fs, moved)?, seals.leaves.len())?;
    let lines = lines_of(&open_regular(&*host.fs, log)?, usize::MAX)?;
    Ok(shares_lines(&sealed, &lines))
}

/// Is `log` another log than the record of `place`, with which it shares a first line? At least half of the record
/// is still there under its seals, and `log` was not made of it.
///
/// # Errors
/// As [`was_changed`].
pub fn is_another(host: &Host, log: &Path, place: &Path) -> Result<bool, Error> {
    let Ok(Some(bytes)) = read_seal_file(host, &seal_path(place)) else {
        return Ok(false);
    };
    let (Ok(seals), Ok(there)) = (observed::parse(&bytes), open_regular(&*host.fs, place)) else {
        return Ok(false);
    };
    let lines = examine::read_log(&there, None, true, &|_| {})?.new_lines;
    let pairs = lines.iter().take(seals.leaves.len()).enumerate();
    let left = pairs.filter(|(index, line)| seals.is_sealed(*index, line));
    Ok(left.count() * 2 >= seals.leaves.len() && !was_changed(host, log, place)?)
}

/// Are at least half of these lines sealed ones, or half of the sealed ones among them, and at least
/// [`SHARED_LINES`]? A line that is repeated counts once: a new log may repeat one of the moved log.
fn shares_lines(sealed: &[Digest], lines: &[Digest]) -> bool {
    let sealed: HashSet<&Digest> = sealed.iter().collect();
    let lines: HashSet<&Digest> = lines.iter().collect();
    let known = lines.intersection(&sealed).count();
    known >= SHARED_LINES && (known * 2 >= lines.len() || known * 2 >= sealed.len())
}

/// The hashes of the first `count` lines of a file, without lines that occur in any log.
fn lines_of(file: &RegularFile, count: usize) -> Result<Vec<Digest>, Error> {
    let blank = BLANK_LINES.map(leaf_hash);
    let mut lines = examine::read_log(file, None, true, &|_| {})?.new_lines;
    lines.truncate(count);
    lines.retain(|line| !blank.contains(line));
    Ok(lines)
}

/// The files near `log`, but not `log`: those of its folder first, then those in the folders there,
/// and those in the folder above.
pub fn neighbours(host: &Host, log: &Path) -> Vec<PathBuf> {
    let folder = directory_of(log);
    let above = folder.file_name().map(|_| directory_of(folder).to_owned());
    let (mut found, mut folders, mut looked) = (Vec::new(), vec![folder.to_owned()], 0);
    for depth in 0..=MAX_DEPTH {
        let mut below = Vec::new();
        // The folders beside this one are not looked at.
        let is_above = |path: &PathBuf| above.as_ref() == Some(path);
        folders.extend(above.clone().filter(|_| depth == 1));
        for folder in std::mem::take(&mut folders) {
            let mut names = host.fs.read_dir(&folder).unwrap_or_default();
            names.sort();
            for path in names.into_iter().map(|name| folder.join(name)) {
                looked += 1;
                if looked > MAX_NEIGHBOURS {
                    return found;
                }
                match host.fs.symlink_metadata(&path).map(|found| found.kind) {
                    Ok(FileKind::Directory) if !is_above(&folder) => below.push(path),
                    Ok(FileKind::Regular) if path != log => found.push(path),
                    _ => {}
                }
            }
        }
        folders = below;
    }
    found
}
