//! Heads of threads that all machines share, beside those that only this host knows.
//!
//! A head contains the place of its record. Machines have the project in different folders, so
//! shared heads spell that place from the project's root: `project:.ai/agent/threads/…`. Where this
//! host has a log, its seals in the database are entered there as well.

use super::folders::FOLDERS;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::KnownFork;
use threadseal_store::heads::{Durability, HeadStore, RecordKind, StoredHead, Swap};

/// The prefix of places that all machines share; no path of a disk begins with it.
const SHARED: &str = "project:";

/// Looks first among the shared heads, then among this host's: directives and settings were sealed
/// here. Writes the shared ones.
#[derive(Debug)]
pub(super) struct Both {
    pub(super) shared: Arc<dyn HeadStore>,
    pub(super) local: Arc<dyn HeadStore>,
    /// The project's folder on this machine, without a `/` at its end.
    pub(super) root: String,
}

impl Both {
    /// The shared spelling of a place of this machine, if the place is in the database.
    fn inward(&self, place: &str) -> Option<String> {
        let rest = place.strip_prefix(&self.root)?.strip_prefix('/')?;
        let mut folders = FOLDERS.iter();
        let lies_there = folders.any(|folder| {
            let rest = rest.strip_prefix(folder);
            rest.is_some_and(|rest| rest.starts_with('/'))
        });
        lies_there.then(|| format!("{SHARED}{rest}"))
    }

    fn shared(&self, new: &StoredHead) -> StoredHead {
        let place = new.path_hint.as_deref();
        let inward = place.and_then(|place| self.inward(place));
        StoredHead {
            path_hint: inward.or_else(|| new.path_hint.clone()),
            ..new.clone()
        }
    }

    /// The same with the place that it has on this machine.
    fn outward(&self, mut stored: StoredHead) -> StoredHead {
        let place = stored.path_hint.as_deref();
        if let Some(rest) = place.and_then(|place| place.strip_prefix(SHARED)) {
            stored.path_hint = Some(format!("{}/{rest}", self.root));
        }
        stored
    }

    fn swapped(&self, swap: Swap) -> Swap {
        match swap {
            Swap::Differs(Some(found)) => Swap::Differs(Some(Box::new(self.outward(*found)))),
            other => other,
        }
    }
}

impl HeadStore for Both {
    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        match self.shared.fetch(record)? {
            Some(found) => Ok(Some(self.outward(found))),
            None => self.local.fetch(record),
        }
    }

    fn fetch_to_replace(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        match self.shared.fetch_to_replace(record)? {
            Some(found) => Ok(Some(self.outward(found))),
            None => self.local.fetch_to_replace(record),
        }
    }

    fn create(&self, new: &StoredHead) -> Result<Swap, Error> {
        let swap = self.shared.create(&self.shared(new))?;
        Ok(self.swapped(swap))
    }

    fn replace_if(
        &self,
        expected: &Head,
        new: &StoredHead,
        durability: Durability,
    ) -> Result<Swap, Error> {
        let swap = self
            .shared
            .replace_if(expected, &self.shared(new), durability)?;
        Ok(self.swapped(swap))
    }

    fn find_by_line(&self, line: &Digest) -> Result<Vec<RecordId>, Error> {
        let mut found = self.shared.find_by_line(line)?;
        found.extend(self.local.find_by_line(line)?);
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn find_by_place(&self, kind: RecordKind, place: &str) -> Result<Option<StoredHead>, Error> {
        // Records in the database were never sealed on this machine's disk.
        let Some(inward) = self.inward(place) else {
            return self.local.find_by_place(kind, place);
        };
        let found = self.shared.find_by_place(kind, &inward)?;
        Ok(found.map(|found| self.outward(found)))
    }

    fn forks(&self, record: &RecordId) -> Result<Vec<KnownFork>, Error> {
        let mut forks = self.shared.forks(record)?;
        forks.extend(self.local.forks(record)?);
        Ok(forks)
    }

    fn place(&self) -> Option<String> {
        self.shared.place()
    }

    fn fence(&self) -> Option<u64> {
        self.shared.fence()
    }
}
