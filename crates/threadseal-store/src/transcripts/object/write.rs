//! Claiming, appending, truncating, deleting: each is one write of the head in place of the one
//! that was read.
//!
//! ```text
//! the head that was read ─► sealed objects, if any ─► the next head ─┬─ stored
//!                                  ▲                                 └─ refused, or no answer ─► read the head
//!                                  └──────────── the one before ◄────────────────────────────────────┤
//!                                                      the next one: stored ◄────────────────────────┤
//!                            another writer's: superseded; anything else: refused ◄──────────────────┘
//! ```
//! A write may be sent again. Of two copies of one request one can win, and no two heads have the
//! same bytes. After an error nothing is promised: the bytes of the failed write may be there.

use super::head::{self, Head, MAX_HEAD_BYTES, OPEN_BYTES, SEGMENT_BYTES};
use super::tree::{Place, Snapshot, holding};
use crate::append::{FirstFailure, MAX_BUFFERED_BYTES, MovedTail};
use crate::examine;
use crate::objects::retry::Failures;
use crate::objects::{self, Put, Sealed, Version};
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

/// A head and its version in the storage.
pub(super) type Found = (Head, Version);

/// The head as it is now.
pub(super) fn fetch(place: &Place) -> Result<Option<Found>, Error> {
    let name = head::head_name(&place.name);
    let read = || place.objects.read(&name, MAX_HEAD_BYTES);
    let Some(found) = Failures::default().until(read)? else {
        return Ok(None);
    };
    match Head::decode(&place.name, &found.bytes) {
        Some(head) => Ok(Some((head, found.version))),
        None => Err(place.damaged(&name, "is damaged; check it with fsck")),
    }
}

/// A record and its head, held by its writer.
#[derive(Debug)]
pub(super) struct Held {
    place: Place,
    path: PathBuf,
    head: Head,
    version: Version,
}

impl Held {
    /// Makes a record of the bytes of `source`. A name that is taken is noticed before anything is
    /// written.
    pub(super) fn create(
        place: Place,
        path: PathBuf,
        source: &mut dyn Source,
    ) -> Result<Self, Error> {
        if fetch(&place)?.is_some() {
            return Err(taken(&place));
        }
        let mut next = Head::new(random::array(&SystemRandom)?);
        let mut chunk = Vec::new();
        loop {
            source.next_chunk(&mut chunk)?;
            if chunk.is_empty() {
                break;
            }
            let (more, sealed) = next.after(&place.name, &chunk);
            seal_all(&place, &sealed)?;
            next = more;
        }
        let version = write(&place, None, &next)?;
        Ok(Self {
            place,
            path,
            head: next,
            version,
        })
    }

    /// Takes a record over from its last writer.
    pub(super) fn claim(place: Place, path: PathBuf) -> Result<Self, Error> {
        let writer = random::array(&SystemRandom)?;
        for _ in 0..MAX_CLAIMS {
            let found = fetch(&place)?.filter(|(head, _)| head.deleted.is_none());
            let found = found.ok_or_else(|| no_record(&place.name))?;
            let next = found.0.claimed(writer);
            match write(&place, Some(&found), &next) {
                Err(error) if error.kind() == ErrorKind::Superseded => {}
                done => {
                    return done.map(|version| Self {
                        place,
                        path,
                        head: next,
                        version,
                    });
                }
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
        place: Place,
        path: PathBuf,
        record: &RecordId,
        size: u64,
    ) -> Result<bool, Error> {
        let deleted = match fetch(&place)? {
            None => return Ok(false),
            Some((head, _)) => head.deleted,
        };
        if let Some(deleted) = deleted {
            return match deleted == *record {
                true => remove_all(&place).map(|()| true),
                false => Ok(false),
            };
        }
        let mut held = Self::claim(place, path)?;
        let first = examine::first_line(&held.snapshot()?)?;
        let is_it = first.as_deref().and_then(examine::native_record) == Some(*record);
        if !is_it || held.head.size != size {
            return Ok(false);
        }
        let buried = held.head.buried(*record);
        held.put(buried, &[])?;
        remove_all(&held.place).map(|()| true)
    }

    fn put(&mut self, next: Head, sealed: &[Sealed]) -> Result<(), Error> {
        seal_all(&self.place, sealed)?;
        let before = (self.head.clone(), self.version.clone());
        self.version = write(&self.place, Some(&before), &next)?;
        self.head = next;
        Ok(())
    }

    /// The head without the bytes from `offset` on, and the objects that must be written before it.
    fn cut(&self, offset: u64) -> Result<(Head, Vec<Sealed>), Error> {
        let (mut next, mut sealed) = (self.head.clone(), Vec::new());
        next.write += 1;
        next.size = offset;
        if let Some(kept) = offset.checked_sub(self.head.sealed()) {
            next.open
                .truncate(usize::try_from(kept).unwrap_or(usize::MAX));
            return Ok((next, sealed));
        }
        next.open.clear();
        let top = next
            .levels
            .iter()
            .rposition(|refs| holding(refs, offset).is_some());
        let gap = || self.place.damaged("the head", "has a gap");
        let mut level = top.ok_or_else(gap)?;
        next.levels.iter_mut().take(level).for_each(Vec::clear);
        loop {
            let refs = &mut next.levels[level];
            let found = holding(refs, offset).cloned().ok_or_else(gap)?;
            refs.retain(|kept| kept.first < found.first);
            if level == 0 {
                let kept = usize::try_from(offset - found.first).unwrap_or(usize::MAX);
                next.open = self.place.segment(&found)?;
                next.open.truncate(kept);
                break;
            }
            level -= 1;
            next.levels[level] = self.place.index(level, &found)?;
        }
        while next.levels.pop_if(|refs| refs.is_empty()).is_some() {}
        if next.open.len() > OPEN_BYTES {
            next.seal_open(&self.place.name, &mut sealed);
        }
        Ok((next, sealed))
    }

    fn snapshot(&self) -> Result<RegularFile, Error> {
        let snapshot = Snapshot::new(self.place.clone(), self.head.clone());
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
        let folder = head::tail_folder(&self.place.name);
        let prefix = head::tail_prefix(offset, &sha256);
        let (mut first, mut copied) = (offset, Hasher::new());
        each_chunk(&file, offset, |chunk| {
            copied.update(chunk);
            let part = Sealed {
                name: format!("{folder}/{prefix}{first:020}"),
                bytes: chunk.to_vec(),
            };
            first += chunk.len() as u64;
            seal_all(&self.place, std::slice::from_ref(&part))
        })?;
        if copied.finish() != sha256 {
            let text = "the tail changed while it was moved";
            return Err(Error::new(ErrorKind::External, text));
        }
        let place = self.place.objects.place();
        Ok(MovedTail {
            path: PathBuf::from(format!("{place}/{folder}/{prefix}")),
            offset,
            length: self.head.size - offset,
            sha256,
        })
    }
}

/// Removes the objects of a record whose head marks it as deleted.
///
/// That head stays, so that no writer continues from it, whichever earlier write arrives late.
pub(super) fn remove_all(place: &Place) -> Result<(), Error> {
    let remove = |name: &str| Failures::default().until(|| place.objects.remove(name));
    let name = &place.name;
    for folder in head::folders(name) {
        objects::each_name(&*place.objects, &folder, &mut |names| {
            let mut names = names.iter();
            names.try_for_each(|name| remove(&format!("{folder}/{name}")))
        })?;
    }
    // Last: until then the record is listed, so that a listing finds the rest of it.
    let gone = head::gone_name(name);
    Failures::default().until(|| objects::seal(&*place.objects, &gone, b""))
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

fn seal_all(place: &Place, sealed: &[Sealed]) -> Result<(), Error> {
    sealed.iter().try_for_each(|object| {
        let seal = || objects::seal(&*place.objects, &object.name, &object.bytes);
        Failures::default().until(seal)
    })
}

/// Writes `next` in place of `before`, or where there is none.
///
/// # Errors
/// [`ErrorKind::Superseded`] when another writer has the record.
fn write(place: &Place, before: Option<&Found>, next: &Head) -> Result<Version, Error> {
    let (name, bytes) = (head::head_name(&place.name), next.encode(&place.name));
    let mut version = before.map(|(_, version)| version.clone());
    let mut failures = Failures::default();
    loop {
        let put = match &version {
            None => place.objects.create(&name, &bytes),
            Some(version) => place.objects.replace_if(&name, version, &bytes),
        };
        let is_refused = match put {
            Ok(Put::Stored(version)) => return Ok(version),
            Ok(Put::Differs) => true,
            Err(error) => {
                failures.again(error)?;
                false
            }
        };
        let found = failures.until(|| place.objects.read(&name, MAX_HEAD_BYTES))?;
        match (found, before) {
            (Some(found), _) if found.bytes == bytes => return Ok(found.version),
            (Some(found), Some((before, _))) => {
                if found.bytes != before.encode(&place.name) {
                    return Err(overtaken(place, &found.bytes, next));
                }
                version = Some(found.version);
            }
            (Some(_), None) => return Err(taken(place)),
            (None, Some(_)) => return Err(place.damaged(&name, "disappeared")),
            (None, None) => {}
        }
        if is_refused {
            let text = format!("{name} is unchanged, but cannot be replaced");
            failures.again(Error::new(ErrorKind::External, text))?;
        }
    }
}

fn taken(place: &Place) -> Error {
    Error::invalid(format!("record {} already exists", place.name))
}

/// The reason for another head in the place of this writer's.
fn overtaken(place: &Place, found: &[u8], next: &Head) -> Error {
    let name = head::head_name(&place.name);
    match Head::decode(&place.name, found) {
        None => place.damaged(&name, "is damaged; check it with fsck"),
        Some(head) if head.writer != next.writer => Error::new(
            ErrorKind::Superseded,
            format!(
                "another writer has taken over record {}; nothing more is written here",
                place.name
            ),
        ),
        Some(_) => place.damaged(&name, "was put back or replaced by another program"),
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
        let (next, sealed) = self.held.head.after(&self.held.place.name, bytes);
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
        let size = self.held.head.size;
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
