//! Reading a record through its head: one segment, and one index of each level, at a time.
//!
//! Sealed objects are never written again, so the objects that a head leads to stay the same while
//! they exist. The bytes of a segment are not compared with its digest here. The seals of the
//! record prove more, and name the line. The objects that decide the place of bytes (the head,
//! indexes, lengths) are checked.

use super::RecordName;
use super::head::{self, Head, MAX_INDEX_BYTES, Ref, SEGMENT_BYTES};
use crate::objects::levels::Span as _;
use crate::objects::retry::Failures;
use crate::objects::{self, Objects};
use crate::sys::{FileHandle, FileIdentity, FileKind, Metadata};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::error::Error;

/// The place of one record in object storage.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) objects: Arc<dyn Objects>,
    pub(super) name: RecordName,
}

impl Place {
    pub(super) fn damaged(&self, name: &str, how: &str) -> Error {
        objects::damaged(&*self.objects, name, how)
    }

    fn sealed(&self, name: &str, limit: usize) -> Result<Vec<u8>, Error> {
        let found = Failures::default().until(|| self.objects.read(name, limit))?;
        let found = found.ok_or_else(|| self.damaged(name, "is missing"))?;
        Ok(found.bytes)
    }

    /// The references in the index of `level` at `found`.
    pub(super) fn index(&self, level: usize, found: &Ref) -> Result<Vec<Ref>, Error> {
        let name = head::index_name(&self.name, level, found);
        let bytes = self.sealed(&name, MAX_INDEX_BYTES)?;
        let refs = head::parse_index(&self.name, level, found, &bytes);
        refs.ok_or_else(|| self.damaged(&name, "does not match its name"))
    }

    /// The bytes of a segment; there are as many as it must have.
    pub(super) fn segment(&self, found: &Ref) -> Result<Vec<u8>, Error> {
        let name = head::segment_name(&self.name, found);
        let bytes = self.sealed(&name, SEGMENT_BYTES)?;
        match bytes.len() as u64 == found.count {
            true => Ok(bytes),
            false => Err(self.damaged(&name, "does not have the length that it must have")),
        }
    }
}

/// The index that was read last of each level.
#[derive(Debug, Default)]
pub(super) struct Indexes(Vec<Option<(Ref, Arc<Vec<Ref>>)>>);

impl Indexes {
    /// The object of `level` that holds the byte at `offset`. Of level 0 it is a segment, of level
    /// `n` an index of level `n - 1`. `None` when there is none.
    pub(super) fn find(
        &mut self,
        place: &Place,
        head: &Head,
        level: usize,
        offset: u64,
    ) -> Result<Option<Ref>, Error> {
        let direct = head.levels.iter().enumerate().rev();
        let mut direct = direct.filter_map(|(at, refs)| Some((at, holding(refs, offset)?)));
        let Some((top, found)) = direct.next().filter(|(top, _)| *top >= level) else {
            return Ok(None);
        };
        let mut found = found.clone();
        for below in (level..top).rev() {
            let refs = self.index(place, below, &found)?;
            found = holding(&refs, offset)
                .ok_or_else(|| place.damaged("an index", "has a gap"))?
                .clone();
        }
        Ok(Some(found))
    }

    fn index(&mut self, place: &Place, level: usize, found: &Ref) -> Result<Arc<Vec<Ref>>, Error> {
        if self.0.len() <= level {
            self.0.resize(level + 1, None);
        }
        if let Some((known, refs)) = &self.0[level]
            && known == found
        {
            return Ok(Arc::clone(refs));
        }
        let refs = Arc::new(place.index(level, found)?);
        self.0[level] = Some((found.clone(), Arc::clone(&refs)));
        Ok(refs)
    }
}

/// The one of `refs` that holds the byte at `offset`.
pub(super) fn holding(refs: &[Ref], offset: u64) -> Option<&Ref> {
    let mut all = refs.iter();
    all.find(|found| found.first <= offset && offset < found.end())
}

/// A record as of one head, read like a file.
#[derive(Debug)]
pub(super) struct Snapshot {
    place: Place,
    head: Head,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    indexes: Indexes,
    segment: Option<(Ref, Vec<u8>)>,
}

impl Snapshot {
    pub(super) fn new(place: Place, head: Head) -> Self {
        Self {
            place,
            head,
            seen: Mutex::default(),
        }
    }

    fn read_sealed(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        // Each change of the remembered objects is whole.
        let seen = &mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.segment.take();
        let (found, bytes) = match known.filter(|(found, _)| holds(found, offset)) {
            Some(known) => known,
            None => {
                let found = seen.indexes.find(&self.place, &self.head, 0, offset)?;
                let gap = || self.place.damaged("the head", "has a gap");
                let found = found.ok_or_else(gap)?;
                let bytes = self.place.segment(&found)?;
                (found, bytes)
            }
        };
        let count = copy(buffer, &bytes, offset - found.first);
        seen.segment = Some((found, bytes));
        Ok(count)
    }
}

fn holds(found: &Ref, offset: u64) -> bool {
    holding(std::slice::from_ref(found), offset).is_some()
}

/// Copies from `bytes` as many as fit, from `start` on.
fn copy(buffer: &mut [u8], bytes: &[u8], start: u64) -> usize {
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let rest = bytes.get(start..).unwrap_or_default();
    let count = rest.len().min(buffer.len());
    buffer[..count].copy_from_slice(&rest[..count]);
    count
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl FileHandle for Snapshot {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let sealed = self.head.sealed();
        if offset >= sealed {
            return Ok(copy(buffer, &self.head.open, offset - sealed));
        }
        self.read_sealed(buffer, offset).map_err(io::Error::other)
    }

    fn append(&self, _: &[u8]) -> io::Result<usize> {
        unsupported()
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        unsupported()
    }

    fn sync_data(&self) -> io::Result<()> {
        unsupported()
    }

    fn sync_all(&self) -> io::Result<()> {
        unsupported()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        unsupported()
    }

    fn set_mode(&self, _: u32) -> io::Result<()> {
        unsupported()
    }

    /// The same at any time: a snapshot does not change.
    fn metadata(&self) -> io::Result<Metadata> {
        Ok(Metadata {
            kind: FileKind::Regular,
            size: self.head.size,
            mode: crate::atomic::PRIVATE_FILE,
            uid: 0,
            identity: FileIdentity {
                device: 0,
                inode: 0,
            },
            links: 1,
            modified_ns: 0,
            changed_ns: 0,
        })
    }

    fn try_lock(&self) -> io::Result<bool> {
        unsupported()
    }

    fn unlock(&self) -> io::Result<()> {
        unsupported()
    }
}
