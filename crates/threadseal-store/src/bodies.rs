//! Files of detached bodies, beside native records (`spec/transcript.md` §10).
//!
//! ```text
//! append ─► sync ─► the record's own sync          a sealed line never lacks its body
//! redaction sealed ─► drop_bodies: copy without them ─► fsync ─► rename ─► fsync(directory)
//! open, redaction  ─► clear: removes temporary files that a killed process left
//! ```
//! The file is made with its first body and is written only under the lock of its record. A copy
//! without the dropped bodies also leaves out bodies that no line commits to. Afterwards, no file
//! of ours beside the record holds a dropped body. A disk may keep the blocks of a deleted file;
//! this module gives no promise about them.

use crate::append::Log;
use crate::atomic::{self, NewFile, PRIVATE_FILE};
use crate::examine;
use crate::lock::WriterLock;
use crate::read::{RegularFile, Source as _, open_regular};
use crate::sys::{self, FileKind, Fs, directory_of};
use memchr::memmem;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;
use threadseal_formats::transcript::bodies::{
    Bodies, BodiesReader, Entry, Restorer, bodies_name, commitments, header,
};
use threadseal_formats::transcript::manifest::{self, Bodies as Where, Manifest};

/// The first bytes of a line of a file of bodies.
const ENTRY: &[u8] = b"{\"commitment\":\"";

/// The path of the file of bodies of the record at `path`.
pub fn place_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(bodies_name(&name))
}

/// The contents of the file of bodies beside `file`, if `first`, its line 1, names one.
///
/// # Errors
/// Kind `External` when reading fails.
pub fn beside(fs: &dyn Fs, file: &RegularFile, first: &[u8]) -> Result<Option<Arc<Bodies>>, Error> {
    if !is_detached(first) {
        return Ok(None);
    }
    let Some(bodies) = open_beside(fs, file.path())? else {
        return Ok(Some(Arc::new(Bodies::absent())));
    };
    let (mut reader, mut chunks, mut chunk) = (BodiesReader::new(), bodies.chunks(), Vec::new());
    loop {
        chunks.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            return Ok(Some(Arc::new(reader.finish())));
        }
        reader.push(&chunk);
    }
}

/// The bytes of the file of bodies beside `path`, if `first`, line 1 of the record, names one; else
/// none.
///
/// # Errors
/// Kind `Limit` above `limit_bytes`, `External` when reading fails.
pub fn text_beside(
    fs: &dyn Fs,
    path: &Path,
    first: &[u8],
    limit_bytes: usize,
) -> Result<Vec<u8>, Error> {
    match is_detached(first) {
        true => open_beside(fs, path)?.map_or(Ok(Vec::new()), |file| file.read_whole(limit_bytes)),
        false => Ok(Vec::new()),
    }
}

/// The file of bodies beside `record`, for a copy of that record.
///
/// Bodies that no line commits to are left out, and so are redacted bodies that are still there.
/// The result is empty where there is no such file.
///
/// # Errors
/// As [`text_beside`].
pub fn text_for_copy(
    fs: &dyn Fs,
    record: &RegularFile,
    limit_bytes: usize,
) -> Result<Vec<u8>, Error> {
    let first = examine::first_line(record)?.unwrap_or_default();
    let text = text_beside(fs, record.path(), &first, limit_bytes)?;
    let Some(manifest) = manifest::parse_line(&first).filter(|_| !text.is_empty()) else {
        return Ok(text);
    };
    let (mut stays, mut restorer) = (BTreeSet::new(), Restorer::new(&manifest.record, &text));
    each_line(record, |line| {
        stays.extend(commitments_in(line));
        restorer.note(line.strip_suffix(b"\n").unwrap_or(line));
        Ok(())
    })?;
    stays.retain(|commitment| restorer.text_of(commitment).is_some());
    let lines = text.split_inclusive(|byte| *byte == b'\n').zip(0_u64..);
    let kept = lines.filter(|(line, at)| *at == 0 || is_of(line, &stays));
    Ok(kept.flat_map(|(line, _)| line).copied().collect())
}

/// The number of bodies beside `record` that no line of it commits to.
///
/// # Errors
/// As [`text_beside`].
pub fn count_unbound(fs: &dyn Fs, record: &RegularFile, limit_bytes: usize) -> Result<u64, Error> {
    let first = examine::first_line(record)?.unwrap_or_default();
    let text = text_beside(fs, record.path(), &first, limit_bytes)?;
    let mut stays = BTreeSet::new();
    each_line(record, |line| {
        stays.extend(commitments_in(line));
        Ok(())
    })?;
    let lines = text.split_inclusive(|byte| *byte == b'\n').skip(1);
    Ok(lines.filter(|line| !is_of(line, &stays)).count() as u64)
}

/// Does line 1 declare detached bodies?
pub fn is_detached(first: &[u8]) -> bool {
    manifest::parse_line(first).is_some_and(|manifest| manifest.bodies == Where::Detached)
}

/// Refuses a record with detached bodies where there is no place for them.
pub(crate) fn refuse_unless(holds: bool, manifest: &Manifest) -> Result<(), Error> {
    match manifest.bodies == Where::Detached && !holds {
        true => Err(Error::refused(
            "this store has no place for detached bodies; keep the record in a file",
        )),
        false => Ok(()),
    }
}

fn open_beside(fs: &dyn Fs, path: &Path) -> Result<Option<RegularFile>, Error> {
    let path = place_of(&sys::led_to(fs, path));
    match fs.metadata(&path) {
        Ok(_) => open_regular(fs, &path).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(sys::failure("open", &path, &error)),
    }
}

/// The file of bodies of a record, for its one writer.
#[derive(Debug)]
pub(crate) struct BodiesFile {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    record_path: PathBuf,
    record: RecordId,
    /// Open once something was written to it.
    log: Option<Log>,
}

impl BodiesFile {
    /// For a record that is about to be made; None where bodies stay in the events.
    ///
    /// # Errors
    /// Kind `InvalidInput` when there is such a file already.
    pub(crate) fn for_new(
        fs: &Arc<dyn Fs>,
        record_path: &Path,
        manifest: &Manifest,
    ) -> Result<Option<Self>, Error> {
        let file = Self::of_record(fs, record_path, manifest);
        match &file {
            Some(file) if file.exists()? => Err(Error::invalid(format!(
                "{} exists; it holds the bodies of another record",
                file.path.display()
            ))),
            _ => Ok(file),
        }
    }

    /// For a record that is there; None where bodies stay in the events.
    pub(crate) fn of_record(
        fs: &Arc<dyn Fs>,
        record_path: &Path,
        manifest: &Manifest,
    ) -> Option<Self> {
        (manifest.bodies == Where::Detached).then(|| Self {
            fs: Arc::clone(fs),
            path: place_of(record_path),
            record_path: record_path.to_owned(),
            record: manifest.record,
            log: None,
        })
    }

    /// Continues with the existing file. It drops redacted bodies, a torn line, and files that a
    /// process left when it died during a redaction.
    pub(crate) fn take_up(
        &mut self,
        unfinished: &[Digest],
        found: Option<&Bodies>,
    ) -> Result<(), Error> {
        self.clear()?;
        match !unfinished.is_empty() || found.is_some_and(Bodies::is_torn) {
            true => self.drop_bodies(unfinished).map(drop),
            false => Ok(()),
        }
    }

    /// Takes lines of the file and promises nothing yet.
    pub(crate) fn append(&mut self, entries: &[u8]) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        if self.log.is_none() {
            self.log = Some(self.open()?);
        }
        match &mut self.log {
            Some(log) => log.append_buffered(entries),
            None => Ok(()),
        }
    }

    fn open(&self) -> Result<Log, Error> {
        let fs = Arc::clone(&self.fs);
        if self.exists()? {
            // No head states how much of it reached the disk, so all of it is written again and
            // synced.
            return Log::open(WriterLock::acquire(fs, &self.path)?, 0);
        }
        Log::create(fs, &self.path, PRIVATE_FILE, &header(&self.record))
    }

    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.log
            .as_mut()
            .map_or(Ok(()), |log| log.flush().map(drop))
    }

    /// Writes the buffered bytes and makes all of the file durable.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.log.as_mut().map_or(Ok(()), |log| log.sync().map(drop))
    }

    /// Replaces the file by a copy without the bodies of these commitments and without those that
    /// no line commits to.
    ///
    /// Nothing is written where all bodies stay. Returns the number of dropped bodies.
    pub(crate) fn drop_bodies(&mut self, commitments: &[Digest]) -> Result<u64, Error> {
        self.sync()?;
        // The name will lead to another file.
        self.log = None;
        self.clear()?;
        if !self.exists()? {
            return Ok(0);
        }
        let old = open_regular(&*self.fs, &self.path)?;
        let mut stays = BTreeSet::new();
        each_line(&open_regular(&*self.fs, &self.record_path)?, |line| {
            stays.extend(commitments_in(line));
            Ok(())
        })?;
        for dropped in commitments {
            stays.remove(dropped);
        }
        let (mut number, mut dropped, mut goes) = (0_u64, 0, Vec::new());
        let ended = each_line(&old, |line| {
            if number > 0 && !is_of(line, &stays) {
                dropped += 1;
                goes.push(number);
            }
            number += 1;
            Ok(())
        })?;
        if goes.is_empty() && ended {
            return Ok(0);
        }
        let mut new = NewFile::begin(&*self.fs, &self.path, PRIVATE_FILE)?;
        number = 0;
        let mut goes = goes.into_iter().peekable();
        // A torn line is left out: nothing that was sealed waits for it.
        each_line(&old, |line| {
            let is_dropped = goes.next_if_eq(&number).is_some();
            number += 1;
            match is_dropped || !line.ends_with(b"\n") {
                true => Ok(()),
                false => new.write(line),
            }
        })?;
        new.commit_replace()?;
        Ok(dropped)
    }

    /// Removes temporary files beside the record that hold bodies of it.
    ///
    /// A process that writes such a file without the lock of the record makes a copy of it. That
    /// copy must not get a body that is dropped now.
    fn clear(&self) -> Result<(), Error> {
        let folder = directory_of(&self.path);
        let fail = |error: io::Error| sys::failure("clear", folder, &error);
        let mut is_cleared = false;
        for name in self.fs.read_dir(folder).map_err(fail)? {
            let path = folder.join(&name);
            if !atomic::is_temporary(&name.to_string_lossy()) || !self.is_left_of(&path)? {
                continue;
            }
            match self.fs.unlink(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(sys::failure("remove", &path, &error));
                }
                _ => is_cleared = true,
            }
        }
        match is_cleared {
            true => self.fs.sync_dir(folder).map_err(fail),
            false => Ok(()),
        }
    }

    /// Does the file begin as a file of bodies of this record, or hold one of them?
    fn is_left_of(&self, path: &Path) -> Result<bool, Error> {
        match self.fs.symlink_metadata(path) {
            Ok(found) if found.kind == FileKind::Regular => {}
            _ => return Ok(false),
        }
        // A redaction by this user left no file that this user cannot read or that is gone.
        let Ok(file) = open_regular(&*self.fs, path) else {
            return Ok(false);
        };
        let (header, mut is_ours) = (header(&self.record), false);
        each_line(&file, |line| {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            // A power cut may leave any bytes in the place of earlier ones.
            let mut entries = memmem::find_iter(text, ENTRY).map(|at| Entry::parse(&text[at..]));
            is_ours |= line.ends_with(&header)
                || entries.any(|entry| entry.is_some_and(|entry| entry.holds(&self.record)));
            Ok(())
        })?;
        Ok(is_ours)
    }

    fn exists(&self) -> Result<bool, Error> {
        match self.fs.symlink_metadata(&self.path) {
            Ok(found) if found.kind == FileKind::Regular => Ok(true),
            Ok(_) => Err(Error::invalid(format!(
                "{} is not a regular file",
                self.path.display()
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(sys::failure("read", &self.path, &error)),
        }
    }
}

/// The commitments in a line of any kind. A body stays if its commitment may be in a line.
fn commitments_in(line: &[u8]) -> impl Iterator<Item = Digest> {
    let found = commitments(line).unwrap_or_default();
    found.into_iter().map(|commitment| commitment.digest)
}

/// Is this line of a file of bodies the body of one of these?
fn is_of(line: &[u8], commitments: &BTreeSet<Digest>) -> bool {
    let entry = line.strip_suffix(b"\n").and_then(Entry::parse);
    entry.is_some_and(|entry| commitments.contains(&entry.commitment))
}

/// Passes each line of `file` with its LF to `each`, also a last line without one. Returns false in
/// that case.
fn each_line(
    file: &RegularFile,
    mut each: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<bool, Error> {
    let (mut chunks, mut chunk, mut line) = (file.chunks(), Vec::new(), Vec::new());
    loop {
        chunks.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            let is_ended = line.is_empty();
            return match is_ended {
                true => Ok(true),
                false => each(&line).map(|()| false),
            };
        }
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            if line.is_empty() && piece.ends_with(b"\n") {
                each(piece)?;
                continue;
            }
            line.extend_from_slice(piece);
            if line.ends_with(b"\n") {
                each(&line)?;
                line.clear();
            }
        }
    }
}
