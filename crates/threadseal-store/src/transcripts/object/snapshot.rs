//! [`Snapshot`]: a record as of one head, read like a file.
//!
//! It keeps one segment, and one index of each level. Sealed objects are never written again, so the
//! objects that a head leads to stay the same while they exist.

use super::format::{RecordHead, Ref, Transcripts};
use crate::object_log::{Indexes, SegmentedLog, holding};
use crate::sys::{FileHandle, FileIdentity, FileKind, Metadata};
use std::io;
use std::sync::{Mutex, PoisonError};
use threadseal_core::error::Error;

/// A record as of one head, read like a file.
#[derive(Debug)]
pub(super) struct Snapshot {
    log: SegmentedLog<Transcripts>,
    head: RecordHead,
    cache: Mutex<Cache>,
}

/// The objects that were read last.
#[derive(Debug, Default)]
struct Cache {
    indexes: Indexes<Transcripts>,
    segment: Option<(Ref, Vec<u8>)>,
}

impl Snapshot {
    pub(super) fn new(log: SegmentedLog<Transcripts>, head: RecordHead) -> Self {
        Self {
            log,
            head,
            cache: Mutex::default(),
        }
    }

    fn read_sealed(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        // Each change of the remembered objects is whole.
        let cache = &mut *self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cache.segment.take();
        let (found, bytes) = match known.filter(|(found, _)| holds(found, offset)) {
            Some(known) => known,
            None => {
                let found = cache.indexes.find(&self.log, &self.head, 0, offset)?;
                let gap = || self.log.damaged("the head", "has a gap");
                let found = found.ok_or_else(gap)?;
                let bytes = self.log.segment(&found)?;
                (found, bytes)
            }
        };
        let count = copy(buffer, &bytes, offset - found.first);
        cache.segment = Some((found, bytes));
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
            size: self.head.facts.size,
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
