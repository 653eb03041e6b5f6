//! [`MemoryHeadStore`]: heads that live as long as the process.

use super::{Durability, HeadStore, StoredHead, Swap, checked, succeed};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId, RecordKind};

/// Heads in memory, for tests and for callers that anchor elsewhere.
#[derive(Debug, Default)]
pub struct MemoryHeadStore {
    heads: Mutex<Heads>,
}

#[derive(Debug, Default)]
struct Heads {
    by_record: BTreeMap<RecordId, StoredHead>,
    /// The records that each line is or was an alias of.
    by_line: BTreeMap<Digest, BTreeSet<RecordId>>,
    /// The last record of each kind in each place.
    by_place: BTreeMap<(RecordKind, String), RecordId>,
}

impl Heads {
    fn put(&mut self, stored: StoredHead) {
        let record = stored.head.record;
        if let Some(place) = &stored.path_hint {
            self.by_place.insert((stored.kind, place.clone()), record);
        }
        for line in &stored.aliases {
            self.by_line.entry(*line).or_default().insert(record);
        }
        self.by_record.insert(record, stored);
    }
}

impl MemoryHeadStore {
    fn with<T>(&self, work: impl FnOnce(&mut Heads) -> T) -> T {
        // Every change below is made by insertions alone: a panic elsewhere leaves the maps whole.
        work(&mut self.heads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HeadStore for MemoryHeadStore {
    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        Ok(self.with(|heads| heads.by_record.get(record).cloned()))
    }

    fn create(&self, new: &StoredHead) -> Result<Swap, Error> {
        let new = checked(new.clone())?;
        Ok(
            self.with(|heads| match heads.by_record.get(&new.head.record) {
                Some(old) => Swap::Differs(Some(Box::new(old.clone()))),
                None => {
                    heads.put(new);
                    Swap::Stored
                }
            }),
        )
    }

    fn replace_if(&self, expected: &Head, new: &StoredHead, _: Durability) -> Result<Swap, Error> {
        self.with(|heads| {
            let old = heads.by_record.get(&new.head.record);
            match old {
                Some(old) if old.head == *expected => {
                    let next = succeed(old, new)?;
                    heads.put(next);
                    Ok(Swap::Stored)
                }
                other => Ok(Swap::Differs(other.cloned().map(Box::new))),
            }
        })
    }

    fn find_by_line(&self, line: &Digest) -> Result<Vec<RecordId>, Error> {
        Ok(self.with(|heads| {
            let records = heads.by_line.get(line);
            records.into_iter().flatten().copied().collect()
        }))
    }

    fn find_by_place(&self, kind: RecordKind, place: &str) -> Result<Option<StoredHead>, Error> {
        Ok(self.with(|heads| {
            let record = heads.by_place.get(&(kind, place.to_owned()))?;
            let stored = heads.by_record.get(record)?;
            (stored.path_hint.as_deref() == Some(place)).then(|| stored.clone())
        }))
    }
}
