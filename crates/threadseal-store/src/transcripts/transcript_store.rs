//! [`TranscriptStore`], [`Claim`] and [`Appender`]: the calls of a store of native records.

use super::RecordName;
use crate::append::MovedTail;
use crate::fsck::Fault;
use crate::read::{RegularFile, Source};
use std::fmt;
use std::path::{Path, PathBuf};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::RecordId;

/// Native records by name.
pub trait TranscriptStore: fmt::Debug + Send + Sync {
    /// Makes a record that appears with `first` in it, whole or not at all, and is durable then.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when there is one of this name,
    /// [`threadseal_core::error::ErrorKind::External`] when the store fails.
    fn create(&self, name: &RecordName, first: &[u8]) -> Result<Box<dyn Appender>, Error>;

    /// Makes a record that appears with all of `source`, and is durable then.
    ///
    /// # Errors
    /// As [`TranscriptStore::create`]; those of the source.
    fn import(&self, name: &RecordName, source: &mut dyn Source) -> Result<(), Error>;

    /// Takes an existing record, to read it and to continue it.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when there is none,
    /// [`threadseal_core::error::ErrorKind::External`] when another writer holds it or the store
    /// fails.
    fn claim(&self, name: &RecordName) -> Result<Box<dyn Claim>, Error>;

    /// The record as it is now, without later appends. `None` when there is none.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] when an object that leads to it is damaged,
    /// [`threadseal_core::error::ErrorKind::External`] when the store fails.
    fn read(&self, name: &RecordName) -> Result<Option<RegularFile>, Error>;

    /// Names of records after `after`, in order of their bytes, at most `limit`.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when the store fails.
    fn names(&self, after: Option<&RecordName>, limit: usize) -> Result<Vec<RecordName>, Error>;

    /// The bytes of a tail that was set aside from this record.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::Refused`] when they are missing or have another digest,
    /// [`threadseal_core::error::ErrorKind::Limit`] above `limit_bytes`.
    fn read_aside(
        &self,
        name: &RecordName,
        moved: &MovedTail,
        limit_bytes: usize,
    ) -> Result<Vec<u8>, Error>;

    /// Deletes all of a record for good, if it is this one and has this size. False where something
    /// else is there.
    ///
    /// The check and the deletion are one step, so that no bytes written meanwhile are lost. An
    /// earlier writer is refused or superseded. A second call finishes a deletion that was
    /// interrupted.
    ///
    /// # Errors
    /// As [`TranscriptStore::claim`]; some of it may be left then, which only another deletion can
    /// use.
    fn delete(&self, name: &RecordName, record: &RecordId, size: u64) -> Result<bool, Error>;

    /// The record that had this name, where the store remembers that it was deleted.
    ///
    /// # Errors
    /// As [`TranscriptStore::read`].
    fn deleted(&self, _name: &RecordName) -> Result<Option<RecordId>, Error> {
        Ok(None)
    }

    /// Checks everything that is stored of a record, and repairs provably useless remains.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when there is no such record,
    /// [`threadseal_core::error::ErrorKind::External`] when the store fails.
    fn fsck(&self, name: &RecordName, repair: bool) -> Result<FsckReport, Error>;

    /// Can a record in it have detached bodies, in a file beside it?
    fn holds_bodies(&self) -> bool {
        false
    }

    /// The place of the record, without secrets, for people.
    fn place(&self, name: &RecordName) -> PathBuf;
}

/// The right to continue a record, taken before it is verified.
pub trait Claim: fmt::Debug {
    /// The record as it is under the claim.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::InvalidInput`] when the store cannot report its
    /// metadata.
    fn reader(&self) -> Result<RegularFile, Error>;

    /// Continues the record. `durable_floor` is the size up to which its bytes are known to have
    /// reached the disk; all of it has when this returns.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when the store fails.
    fn appender(self: Box<Self>, durable_floor: u64) -> Result<Box<dyn Appender>, Error>;

    /// As [`TranscriptStore::holds_bodies`].
    fn holds_bodies(&self) -> bool {
        false
    }
}

/// The one writer of a record.
pub trait Appender: fmt::Debug + Send + Sync {
    /// Takes `bytes` and promises nothing yet.
    ///
    /// # Errors
    /// As [`Appender::flush`].
    fn append_buffered(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Writes the buffered bytes. On `Ok` they survive this process.
    ///
    /// # Errors
    /// [`threadseal_core::error::ErrorKind::External`] when the store fails, now or earlier;
    /// [`threadseal_core::error::ErrorKind::Superseded`] when another writer has claimed the
    /// record;
    /// [`threadseal_core::error::ErrorKind::Refused`] when another program changed it.
    fn flush(&mut self) -> Result<(), Error>;

    /// Writes the buffered bytes and makes all of the record durable. On `Ok` it survives power
    /// loss.
    ///
    /// # Errors
    /// As [`Appender::flush`].
    fn sync(&mut self) -> Result<(), Error>;

    /// Moves all bytes from `offset` on out of the record. They are durable in their new place
    /// before the record is truncated. `None` when there are none.
    ///
    /// # Errors
    /// As [`Appender::flush`]; [`threadseal_core::error::ErrorKind::InvalidInput`] when the record
    /// ends before `offset`.
    fn move_tail_aside(&mut self, offset: u64) -> Result<Option<MovedTail>, Error>;

    /// The place of the record.
    fn path(&self) -> &Path;
}

/// The result of the check of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsckReport {
    /// The name of the record.
    pub name: RecordName,
    /// Bytes that can be read.
    pub bytes: u64,
    /// The faults; `at` is a byte of the record.
    pub faults: Vec<Fault>,
    /// The number of faults beyond those that are kept.
    pub more: u64,
}

impl FsckReport {
    /// Are there no faults, or only repaired ones?
    pub fn is_clean(&self) -> bool {
        self.more == 0 && self.faults.iter().all(|fault| fault.repaired)
    }
}

/// The bytes of a tail that was set aside, if their digest is right.
pub(super) fn checked_aside(bytes: Vec<u8>, moved: &MovedTail) -> Result<Vec<u8>, Error> {
    match bytes.len() as u64 == moved.length && Digest::of(&bytes) == moved.sha256 {
        true => Ok(bytes),
        false => Err(Error::refused(format!(
            "{} differs from the tail that was set aside",
            moved.path.display()
        ))),
    }
}

/// The error for a name without a record.
pub(super) fn no_record(name: &RecordName) -> Error {
    Error::invalid(format!("there is no record {name}"))
}
