//! [`ObjectTranscriptStore`]: records in object storage (S3, GCS, Azure, a folder).
//!
//! ```text
//! transcripts/<hex>                                            its end, or its deletion (format.rs)
//! transcripts-gone/<hex>                                       empty: it was deleted
//! transcript-segments/<hex>/<first>-<sha256>-<writer>          its bytes
//! transcript-indexes/<hex>/<level>-<first>-<sha256>-<writer>   names of sealed objects
//! transcript-tails/<hex>/<offset>-<sha256>-<first>             a tail that was set aside
//! ```
//! Each record is a segmented log ([`crate::object_log`]) whose items are bytes. Invariants:
//! * a claim supersedes the earlier writer. From then on the storage refuses every write of that
//!   writer. So no record forks and no dead writer holds one;
//! * *written* and *durable* are the same: the storage has acknowledged the head.
//!
//! A record from here is verified like a file, and must be. A store holds bytes, and any writer of
//! the bucket can change them.

mod format;
mod fsck;
mod snapshot;
#[cfg(test)]
mod tests;
mod write;

use super::transcript_store::checked_aside;
use super::{Appender, Claim, FsckReport, RecordName, TranscriptStore};
use crate::append::MovedTail;
use crate::object_log::{Facts as _, Format as _, SegmentedLog};
use crate::objects::{self, Objects, PAGE, spell};
use crate::read::{RegularFile, Source, Stream};
use format::{SEGMENT_BYTES, Transcripts, tail_folder, tail_prefix};
use snapshot::Snapshot;
use std::path::PathBuf;
use std::sync::Arc;
use threadseal_core::encoding;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::RecordId;
use write::{Held, ObjectClaim, ObjectLog};

/// Records in object storage.
#[derive(Debug)]
pub struct ObjectTranscriptStore {
    objects: Arc<dyn Objects>,
}

impl ObjectTranscriptStore {
    /// The records in `objects`.
    pub fn new(objects: Arc<dyn Objects>) -> Self {
        Self { objects }
    }

    fn log(&self, name: &RecordName) -> SegmentedLog<Transcripts> {
        SegmentedLog::new(&self.objects, name)
    }
}

impl TranscriptStore for ObjectTranscriptStore {
    fn create(&self, name: &RecordName, first: &[u8]) -> Result<Box<dyn Appender>, Error> {
        let mut source = Stream::new(first, "the first lines");
        let held = Held::create(self.log(name), self.place(name), &mut source)?;
        Ok(Box::new(ObjectLog::new(held)))
    }

    fn import(&self, name: &RecordName, source: &mut dyn Source) -> Result<(), Error> {
        Held::create(self.log(name), self.place(name), source).map(drop)
    }

    fn claim(&self, name: &RecordName) -> Result<Box<dyn Claim>, Error> {
        let held = Held::claim(self.log(name), self.place(name))?;
        Ok(Box::new(ObjectClaim(held)))
    }

    fn read(&self, name: &RecordName) -> Result<Option<RegularFile>, Error> {
        let found = self.log(name).fetch()?;
        let Some((head, _)) = found.filter(|(head, _)| !head.facts.is_deleted()) else {
            return Ok(None);
        };
        let snapshot = Snapshot::new(self.log(name), head);
        RegularFile::new(Arc::new(snapshot), &self.place(name)).map(Some)
    }

    fn names(&self, after: Option<&RecordName>, limit: usize) -> Result<Vec<RecordName>, Error> {
        let after = after.map(|name| encoding::hex(name.as_str().as_bytes()));
        let (mut last, mut names) = (after.unwrap_or_default(), Vec::new());
        while names.len() < limit {
            let page = limit.saturating_sub(names.len()).min(PAGE);
            let listed = self.objects.list(Transcripts::FOLDERS.heads, &last, page)?;
            let Some(end) = listed.last().cloned() else {
                break;
            };
            let gone =
                objects::names_between(&*self.objects, Transcripts::FOLDERS.gone, &last, &end)?;
            for hex in &listed {
                let name = name_of(hex)?;
                // Its head decides this, not an empty object that any writer can put there.
                if !gone.contains(hex) || self.deleted(&name)?.is_none() {
                    names.push(name);
                }
            }
            last = end;
        }
        Ok(names)
    }

    fn read_aside(
        &self,
        name: &RecordName,
        moved: &MovedTail,
        limit_bytes: usize,
    ) -> Result<Vec<u8>, Error> {
        if moved.length > limit_bytes as u64 {
            let text = format!("the tail has {} bytes", moved.length);
            return Err(Error::new(ErrorKind::Limit, text));
        }
        let folder = tail_folder(name);
        let (mut bytes, prefix) = (Vec::new(), tail_prefix(moved.offset, &moved.sha256));
        let end = moved.offset.saturating_add(moved.length);
        let mut next = moved.offset;
        while next < end {
            let part = format!("{folder}/{prefix}{next:020}");
            match self.objects.read(&part, SEGMENT_BYTES)? {
                Some(part) if !part.bytes.is_empty() => bytes.extend_from_slice(&part.bytes),
                _ => break,
            }
            next = moved.offset + bytes.len() as u64;
        }
        checked_aside(bytes, moved)
    }

    fn delete(&self, name: &RecordName, record: &RecordId, size: u64) -> Result<bool, Error> {
        Held::delete(self.log(name), self.place(name), record, size)
    }

    fn deleted(&self, name: &RecordName) -> Result<Option<RecordId>, Error> {
        let found = self.log(name).fetch()?;
        Ok(found.and_then(|(head, _)| head.facts.deleted))
    }

    fn fsck(&self, name: &RecordName, repair: bool) -> Result<FsckReport, Error> {
        fsck::fsck(&self.log(name), repair)
    }

    fn place(&self, name: &RecordName) -> PathBuf {
        PathBuf::from(format!("{}#{name}", self.objects.place()))
    }
}

/// The record whose head has this name.
fn name_of(hex: &str) -> Result<RecordName, Error> {
    let name = spell::text_of_hex(hex).and_then(|text| RecordName::parse(&text).ok());
    name.ok_or_else(|| {
        let text = format!(
            "{}/{hex} is not the name of a record",
            Transcripts::FOLDERS.heads
        );
        Error::new(ErrorKind::External, text)
    })
}
