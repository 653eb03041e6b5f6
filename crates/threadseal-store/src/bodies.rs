//! Files of detached bodies, beside native records (`spec/transcript.md` §10).
//!
//! ```text
//! append ─► sync ─► the record's own sync          a sealed line never lacks its body
//! redaction sealed ─► drop_bodies: copy without them ─► fsync ─► rename ─► fsync(directory)
//! ```
//! The file is made with its first body and is written only under the lock of its record. What is
//! dropped is in no file any more; that a disk forgets the blocks of a deleted file nobody promises.

use crate::append::Log;
use crate::atomic::{NewFile, PRIVATE_FILE};
use crate::lock::WriterLock;
use crate::read::{RegularFile, Source as _, open_regular};
use crate::sys::{self, FileKind, Fs};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal::digest::Digest;
use threadseal::error::Error;
use threadseal::record::RecordId;
use threadseal::transcript::bodies::{Bodies, BodiesReader, Entry, bodies_name, header};
use threadseal::transcript::manifest::{self, Bodies as Where, Manifest};

/// Where the bodies of the record at `path` lie.
pub fn place_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(bodies_name(&name))
}

/// What the file of bodies beside `file` holds, if `first`, its line 1, says that it has one.
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

/// The bytes of the file of bodies beside `path`, if `first`, line 1 of the record, says that it has one; else none.
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

/// Does line 1 say that bodies are detached?
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
    let path = place_of(path);
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
            record: manifest.record,
            log: None,
        })
    }

    /// Goes on with what is there: without bodies that were redacted, without a torn line.
    pub(crate) fn take_up(
        &mut self,
        unfinished: &[Digest],
        found: Option<&Bodies>,
    ) -> Result<(), Error> {
        if !unfinished.is_empty() || found.is_some_and(Bodies::is_torn) {
            self.drop_bodies(unfinished)?;
        }
        Ok(())
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
            // No head says how much of it reached the disk: all of it is made to.
            return Log::open(WriterLock::acquire(fs, &self.path)?, 0);
        }
        Log::create(fs, &self.path, PRIVATE_FILE, &header(&self.record))
    }

    /// Writes what waits.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.log
            .as_mut()
            .map_or(Ok(()), |log| log.flush().map(drop))
    }

    /// Writes what waits and makes all of it durable.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.log.as_mut().map_or(Ok(()), |log| log.sync().map(drop))
    }

    /// Writes the file anew without the bodies of these commitments, and puts it in the place of the old one.
    pub(crate) fn drop_bodies(&mut self, commitments: &[Digest]) -> Result<(), Error> {
        self.sync()?;
        // Another file will have the name.
        self.log = None;
        let Some(old) = (match self.exists()? {
            true => Some(open_regular(&*self.fs, &self.path)?),
            false => None,
        }) else {
            return Ok(());
        };
        let dropped: BTreeSet<Digest> = commitments.iter().copied().collect();
        let keeps = |line: &[u8]| {
            let entry = Entry::parse(line.strip_suffix(b"\n").unwrap_or(line));
            entry.is_none_or(|entry| !dropped.contains(&entry.commitment))
        };
        let mut new = NewFile::begin(&*self.fs, &self.path, PRIVATE_FILE)?;
        let (mut chunks, mut chunk, mut line) = (old.chunks(), Vec::new(), Vec::new());
        loop {
            chunks.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                // A torn line is left out: nothing that was sealed waits for it.
                return new.commit_replace();
            }
            for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                if line.ends_with(b"\n") {
                    if keeps(&line) {
                        new.write(&line)?;
                    }
                    line.clear();
                }
            }
        }
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
