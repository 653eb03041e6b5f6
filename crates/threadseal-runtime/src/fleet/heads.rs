//! Heads of threads that all machines share, beside what this host alone knows.

use threadseal::digest::Digest;
use threadseal::error::Error;
use threadseal::record::{Head, RecordId};
use threadseal_store::heads::{Durability, HeadStore, RecordKind, StoredHead, Swap};

/// Looks first among the shared ones, then among this host's: directives and settings were sealed here. Writes the
/// shared ones.
#[derive(Debug)]
pub(super) struct Both {
    pub(super) shared: std::sync::Arc<dyn HeadStore>,
    pub(super) local: std::sync::Arc<dyn HeadStore>,
}

impl HeadStore for Both {
    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        match self.shared.fetch(record)? {
            Some(found) => Ok(Some(found)),
            None => self.local.fetch(record),
        }
    }

    fn create(&self, new: &StoredHead) -> Result<Swap, Error> {
        self.shared.create(new)
    }

    fn replace_if(
        &self,
        expected: &Head,
        new: &StoredHead,
        durability: Durability,
    ) -> Result<Swap, Error> {
        self.shared.replace_if(expected, new, durability)
    }

    fn find_by_line(&self, line: &Digest) -> Result<Vec<RecordId>, Error> {
        let mut found = self.shared.find_by_line(line)?;
        found.extend(self.local.find_by_line(line)?);
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn find_by_place(&self, kind: RecordKind, place: &str) -> Result<Option<StoredHead>, Error> {
        match self.shared.find_by_place(kind, place)? {
            Some(found) => Ok(Some(found)),
            None => self.local.find_by_place(kind, place),
        }
    }

    fn fence(&self) -> Option<u64> {
        self.shared.fence()
    }
}
