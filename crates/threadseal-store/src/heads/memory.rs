//! [`MemoryHeadStore`]: heads that live as long as the process.

use super::{Durability, HeadStore, StoredHead, Swap, checked, succeed};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use threadseal::digest::Digest;
use threadseal::error::Error;
use threadseal::record::{Head, RecordId};

/// Heads in memory, for tests and for callers that anchor elsewhere.
#[derive(Debug, Default)]
pub struct MemoryHeadStore {
    heads: Mutex<BTreeMap<RecordId, StoredHead>>,
}

impl MemoryHeadStore {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<RecordId, StoredHead>) -> T) -> T {
        // Every change below is one insertion: a panic elsewhere leaves the map whole.
        work(&mut self.heads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HeadStore for MemoryHeadStore {
    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        Ok(self.with(|heads| heads.get(record).cloned()))
    }

    fn create(&self, new: &StoredHead) -> Result<Swap, Error> {
        let new = checked(new.clone())?;
        Ok(self.with(|heads| match heads.get(&new.head.record) {
            Some(old) => Swap::Differs(Some(Box::new(old.clone()))),
            None => {
                heads.insert(new.head.record, new);
                Swap::Stored
            }
        }))
    }

    fn replace_if(&self, expected: &Head, new: &StoredHead, _: Durability) -> Result<Swap, Error> {
        self.with(|heads| {
            let old = heads.get(&new.head.record);
            match old {
                Some(old) if old.head == *expected => {
                    let next = succeed(old, new)?;
                    heads.insert(next.head.record, next);
                    Ok(Swap::Stored)
                }
                other => Ok(Swap::Differs(other.cloned().map(Box::new))),
            }
        })
    }

    fn find_by_line(&self, line: &Digest) -> Result<Vec<RecordId>, Error> {
        Ok(self.with(|heads| {
            heads
                .values()
                .filter(|stored| stored.aliases.contains(line))
                .map(|stored| stored.head.record)
                .collect()
        }))
    }
}
