//! Claiming, appending, truncating, deleting: each is one write of the head in place of the one
//! that was read ([`SegmentedLog::write`]). Another writer's head supersedes this one.

use super::format::{
    OPEN_BYTES, RecordFacts, RecordHead, SEGMENT_BYTES, Transcripts, after, buried, claimed,
    tail_folder, tail_prefix,
};
use super::snapshot::Snapshot;
use crate::append::{FirstFailure, MAX_BUFFERED_BYTES, MovedTail};
use crate::examine;
use crate::object_log::{Facts as _, FoundHead, Head, SegmentedLog, Written, holding};
use crate::objects::{Sealed, Version};
use crate::random::{self, SystemRandom};
use crate::read::{RegularFile, Source};
use crate::transcripts::transcript_store::no_record;
use crate::transcripts::{Appender, Claim};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use threadseal_core::digest::Hasher;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::RecordId;

/// Limit of attempts at a claim while others write or claim at the same time.
const MAX_CLAIMS: usize = 100;

/// A record and its head, held by its writer.
#[derive(Debug)]
pub(super) struct Held {
    log: SegmentedLog<Transcripts>,
    path: PathBuf,
    head: RecordHead,
    version: Version,
}

impl Held {
    /// Makes a record of the bytes of `source`. A name that is taken is noticed before anything is
    /// written.
    pub(super) fn create(
        log: SegmentedLog<Transcripts>,
        path: PathBuf,
        source: &mut dyn Source,
    ) -> Result<Self, Error> {
        let taken = || Error::invalid(format!("record {} already exists", log.name));
        if log.fetch()?.is_some() {
            return Err(taken());
        }
        let mut head = Head::bare(RecordFacts::new(random::array(&SystemRandom)?));
        let mut chunk = Vec::new();
        loop {
            source.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                break;
            }
            let (next, sealed) = after(&head, &log.name, &chunk);
            log.seal_all(&sealed)?;
            head = next;
        }
        match log.write(None, &head, &[])? {
            Written::Stored(version) => Ok(Self {
                log,
                path,
                head,
                version,
            }),
            Written::Overtaken(_) => Err(taken()),
        }
    }

    /// Takes a record over from its last writer.
    pub(super) fn claim(log: SegmentedLog<Transcripts>, path: PathBuf) -> Result<Self, Error> {
        let writer = random::array(&SystemRandom)?;
        for _ in 0..MAX_CLAIMS {
            let found = log.fetch()?;
            let found = found.filter(|(head, _)| !head.facts.is_deleted());
            let (before, version) = found.ok_or_else(|| no_record(&log.name))?;
            let head = claimed(&before, writer);
            match log.write(Some((&before, &version)), &head, &[])? {
                Written::Stored(version) => {
                    return Ok(Self {
                        log,
                        path,
                        head,
                        version,
                    });
                }
                Written::Overtaken(found) => match overtaken(&log, &found, &head) {
                    error if error.kind() == ErrorKind::Superseded => {}
                    error => return Err(error),
                },
            }
        }
        let text = format!(
            "others wrote {} {MAX_CLAIMS} times meanwhile; try again",
            path.display()
        );
        Err(Error::new(ErrorKind::External, text))
    }

    /// Deletes the record if it is this one and has this size.
    ///
    /// After one write of the head no process reads the record or continues it. Then all of its
    /// objects are removed.
    pub(super) fn delete(
        log: SegmentedLog<Transcripts>,
        path: PathBuf,
        record: &RecordId,
        size: u64,
    ) -> Result<bool, Error> {
        let Some((head, _)) = log.fetch()? else {
            return Ok(false);
        };
        if let Some(deleted) = head.facts.deleted {
            return match deleted == *record {
                true => remove_all(&log).map(|()| true),
                false => Ok(false),
            };
        }
        let mut held = Self::claim(log, path)?;
        let first = examine::first_line(&held.snapshot()?)?;
        let is_it = first.as_deref().and_then(examine::native_record) == Some(*record);
        if !is_it || held.head.facts.size != size {
            return Ok(false);
        }
        let buried = buried(&held.head, *record);
        held.put(buried, &[])?;
        remove_all(&held.log).map(|()| true)
    }

    fn put(&mut self, next: RecordHead, sealed: &[Sealed]) -> Result<(), Error> {
        let before = Some((&self.head, &self.version));
        match self.log.write(before, &next, sealed)? {
            Written::Stored(version) => {
                (self.head, self.version) = (next, version);
                Ok(())
            }
            Written::Overtaken(found) => Err(overtaken(&self.log, &found, &next)),
        }
    }

    /// The head without the bytes from `offset` on, and the objects that must be written before it.
    fn cut(&self, offset: u64) -> Result<(RecordHead, Vec<Sealed>), Error> {
        let mut next = self.head.clone();
        next.facts = next.facts.next(offset);
        if let Some(kept) = offset.checked_sub(self.head.sealed()) {
            next.open
                .truncate(usize::try_from(kept).unwrap_or(usize::MAX));
            return Ok((next, Vec::new()));
        }
        next.open.clear();
        let top = next
            .levels
            .iter()
            .rposition(|refs| holding(refs, offset).is_some());
        let gap = || self.log.damaged("the head", "has a gap");
        let mut level = top.ok_or_else(gap)?;
        next.levels.iter_mut().take(level).for_each(Vec::clear);
        loop {
            let refs = &mut next.levels[level];
            let found = holding(refs, offset).cloned().ok_or_else(gap)?;
            refs.retain(|kept| kept.first < found.first);
            if level == 0 {
                let kept = usize::try_from(offset - found.first).unwrap_or(usize::MAX);
                next.open = self.log.segment(&found)?;
                next.open.truncate(kept);
                break;
            }
            level -= 1;
            next.levels[level] = self.log.index(level, &found)?;
        }
        while next.levels.pop_if(|refs| refs.is_empty()).is_some() {}
        let sealed = match next.open.len() > OPEN_BYTES {
            true => next.seal_open(&self.log.name),
            false => Vec::new(),
        };
        Ok((next, sealed))
    }

    fn snapshot(&self) -> Result<RegularFile, Error> {
        let snapshot = Snapshot::new(self.log.clone(), self.head.clone());
        RegularFile::new(Arc::new(snapshot), &self.path)
    }

    /// Copies the bytes from `offset` on into objects beside the record.
    fn copy_aside(&self, offset: u64) -> Result<MovedTail, Error> {
        let file = self.snapshot()?;
        let mut hasher = Hasher::new();
        each_chunk(&file, offset, |chunk| {
            hasher.update(chunk);
            Ok(())
        })?;
        let sha256 = hasher.finish();
        let folder = tail_folder(&self.log.name);
        let prefix = tail_prefix(offset, &sha256);
        let (mut first, mut copied) = (offset, Hasher::new());
        each_chunk(&file, offset, |chunk| {
            copied.update(chunk);
            let part = Sealed {
                name: format!("{folder}/{prefix}{first:020}"),
                bytes: chunk.to_vec(),
            };
            first += chunk.len() as u64;
            self.log.seal_all(std::slice::from_ref(&part))
        })?;
        if copied.finish() != sha256 {
            let text = "the tail changed while it was moved";
            return Err(Error::new(ErrorKind::External, text));
        }
        let place = self.log.objects.place();
        Ok(MovedTail {
            path: PathBuf::from(format!("{place}/{folder}/{prefix}")),
            offset,
            length: self.head.facts.size - offset,
            sha256,
        })
    }
}

/// The folders of all objects of a record but its head.
pub(super) fn all_folders(log: &SegmentedLog<Transcripts>) -> [String; 3] {
    let [segments, indexes] = log.folders();
    [segments, indexes, tail_folder(&log.name)]
}

/// Removes the objects of a record whose head marks it as deleted.
///
/// That head stays, so that no writer continues from it, whichever earlier write arrives late.
pub(super) fn remove_all(log: &SegmentedLog<Transcripts>) -> Result<(), Error> {
    let mut folders = all_folders(log).into_iter();
    folders.try_for_each(|folder| log.remove_folder(&folder))?;
    // Last: until then the record is listed, so that a listing finds the rest of it.
    log.mark_gone()
}

fn each_chunk(
    file: &RegularFile,
    from: u64,
    mut take: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut chunks, mut chunk) = (file.range(from, file.size()), Vec::new());
    loop {
        chunks.next_chunk(&mut chunk)?;
        if chunk.is_empty() {
            return Ok(());
        }
        chunk.chunks(SEGMENT_BYTES).try_for_each(&mut take)?;
    }
}

/// The reason for another head in the place of this writer's.
fn overtaken(
    log: &SegmentedLog<Transcripts>,
    found: &FoundHead<Transcripts>,
    next: &RecordHead,
) -> Error {
    match found.0.facts.writer == next.facts.writer {
        false => Error::new(
            ErrorKind::Superseded,
            format!(
                "another writer has taken over record {}; nothing more is written here",
                log.name
            ),
        ),
        true => log.damaged(
            &log.head_name(),
            "was put back, or another program replaced it",
        ),
    }
}

/// The right to continue: every earlier writer is superseded already.
#[derive(Debug)]
pub(super) struct ObjectClaim(pub(super) Held);

impl Claim for ObjectClaim {
    fn reader(&self) -> Result<RegularFile, Error> {
        self.0.snapshot()
    }

    fn appender(self: Box<Self>, _: u64) -> Result<Box<dyn Appender>, Error> {
        Ok(Box::new(ObjectLog::new(self.0)))
    }
}

/// An append-only record, held by its one writer.
#[derive(Debug)]
pub(super) struct ObjectLog {
    held: Held,
    buffer: Vec<u8>,
    failed: FirstFailure,
}

impl ObjectLog {
    pub(super) fn new(held: Held) -> Self {
        Self {
            held,
            buffer: Vec::new(),
            failed: FirstFailure::default(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let (next, sealed) = after(&self.held.head, &self.held.log.name, bytes);
        let done = self.held.put(next, &sealed);
        self.or_fail(done)
    }

    fn or_fail<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        self.failed.keep(&mut self.buffer, result)
    }
}

impl Appender for ObjectLog {
    fn append_buffered(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.failed.check()?;
        if self.buffer.len() + bytes.len() > MAX_BUFFERED_BYTES {
            self.flush()?;
        }
        if bytes.len() > MAX_BUFFERED_BYTES {
            return self.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.failed.check()?;
        if !self.buffer.is_empty() {
            let waiting = std::mem::take(&mut self.buffer);
            self.write(&waiting)?;
        }
        Ok(())
    }

    /// The acknowledged bytes are durable.
    fn sync(&mut self) -> Result<(), Error> {
        self.flush()
    }

    fn move_tail_aside(&mut self, offset: u64) -> Result<Option<MovedTail>, Error> {
        self.flush()?;
        let size = self.held.head.facts.size;
        if size < offset {
            let path = self.held.path.display();
            let text = format!("{path} ends at byte {size}, before byte {offset}");
            return Err(Error::invalid(text));
        }
        if size == offset {
            return Ok(None);
        }
        let moved = self.held.copy_aside(offset);
        let moved = self.or_fail(moved)?;
        let cut = self.held.cut(offset);
        let (next, sealed) = self.or_fail(cut)?;
        let done = self.held.put(next, &sealed);
        self.or_fail(done)?;
        Ok(Some(moved))
    }

    fn path(&self) -> &Path {
        &self.held.path
    }
}

impl Drop for ObjectLog {
    fn drop(&mut self) {
        // These bytes have no promise, but a recorder keeps what it can.
        let _ = self.flush();
    }
}
