//! [`LoggedHeads`]: heads that are logged when they are stored, and judged by the log when they are fetched.
//!
//! The store of heads is a folder: any writer there can put back an older head together with the older record. The log cannot
//! be put back in part, and not as a whole without lagging its mark. So where the log knows a later head of a record than the
//! store, or another one of the same number, the log's counts.

use crate::seal_log::SealLog;
use std::sync::Arc;
use threadseal_core::digest::Digest;
use threadseal_core::error::Error;
use threadseal_core::record::{Head, RecordId};
use threadseal_core::report::KnownFork;
use threadseal_core::time::Timestamp;
use threadseal_store::heads::{Durability, HeadStore, RecordKind, StoredHead, Swap};

/// A store of heads beside a log.
#[derive(Debug)]
pub struct LoggedHeads {
    heads: Arc<dyn HeadStore>,
    log: Option<Arc<SealLog>>,
}

impl LoggedHeads {
    /// What is stored in `heads` is logged in `log`.
    pub fn new(heads: Arc<dyn HeadStore>, log: Arc<SealLog>) -> Self {
        let log = Some(log);
        Self { heads, log }
    }

    /// The heads of a home whose log is gone or cannot be read: each still counts, and none is known to be the newest.
    pub fn without_log(heads: Arc<dyn HeadStore>) -> Self {
        Self { heads, log: None }
    }

    fn published(&self, swap: Swap, new: &StoredHead) -> Swap {
        if let (Swap::Stored, Some(log)) = (&swap, &self.log) {
            log.publish(&new.to_log());
            if let Some(place) = self.heads.place() {
                log.note_place(&new.head.record, &place);
                // The store of this home does not have it: a search of open records needs the log.
                log.hurry();
            }
        }
        swap
    }
}

impl HeadStore for LoggedHeads {
    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        let stored = self.heads.fetch(record)?;
        let newest = match &self.log {
            Some(log) => log
                .newest_at(record)
                .map(|at| (at, log.standing().vouches())),
            None => Ok((None, false)),
        };
        // What cannot be looked up in the log takes nothing from what the store knows, but that it is the newest.
        let (at, vouches) = newest.unwrap_or((None, false));
        let Some(at) = at else {
            return Ok(stored.map(|stored| StoredHead { vouches, ..stored }));
        };
        let logged = at.logged;
        let known = match stored {
            Some(stored) if logged.head.seq < stored.head.seq || logged.head == stored.head => {
                StoredHead {
                    logged: Some(at),
                    ..stored
                }
            }
            Some(stored) => StoredHead {
                head: logged.head,
                root: logged.root,
                key: logged.key,
                is_final: false,
                // No file has the time at which the head of the log was stored.
                updated: Timestamp::UNIX_EPOCH,
                logged: Some(at),
                ..stored
            },
            None => StoredHead::of_log(at),
        };
        Ok(Some(StoredHead { vouches, ..known }))
    }

    fn fetch_to_replace(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        self.heads.fetch_to_replace(record)
    }

    fn create(&self, new: &StoredHead) -> Result<Swap, Error> {
        let swap = self.heads.create(new)?;
        Ok(self.published(swap, new))
    }

    fn replace_if(
        &self,
        expected: &Head,
        new: &StoredHead,
        durability: Durability,
    ) -> Result<Swap, Error> {
        let swap = self.heads.replace_if(expected, new, durability)?;
        Ok(self.published(swap, new))
    }

    fn find_by_line(&self, line: &Digest) -> Result<Vec<RecordId>, Error> {
        self.heads.find_by_line(line)
    }

    fn find_by_place(&self, kind: RecordKind, place: &str) -> Result<Option<StoredHead>, Error> {
        self.heads.find_by_place(kind, place)
    }

    fn forks(&self, record: &RecordId) -> Result<Vec<KnownFork>, Error> {
        let Some(log) = &self.log else {
            return Ok(Vec::new());
        };
        match log.forks_of(record) {
            // A log that cannot be read at all is reported as one that is gone.
            Err(_) if log.view().is_err() => Ok(Vec::new()),
            known => known,
        }
    }

    fn pruned(&self, record: &RecordId) -> Result<Option<Arc<str>>, Error> {
        match &self.log {
            Some(log) => log.tombstone_of(record),
            None => Ok(None),
        }
    }

    fn logged(&self, heads: Arc<dyn HeadStore>) -> Arc<dyn HeadStore> {
        let log = self.log.clone();
        Arc::new(Self { heads, log })
    }

    fn note_place(&self, record: &RecordId, place: &str) {
        if let Some(log) = &self.log {
            log.note_place(record, place);
        }
    }

    fn noted_places(&self, record: &RecordId) -> Vec<String> {
        let log = self.log.as_ref();
        log.map_or_else(Vec::new, |log| log.places_of(record))
    }

    fn records_in(&self, is_there: &dyn Fn(&[String]) -> bool) -> Result<Vec<RecordId>, Error> {
        let mut records = self.heads.records_in(is_there)?;
        if let Some(log) = &self.log {
            records.extend(log.records_in(is_there)?);
        }
        records.sort_unstable();
        records.dedup();
        Ok(records)
    }

    fn vouches(&self) -> bool {
        let log = self.log.as_ref();
        log.is_some_and(|log| log.standing().vouches())
    }

    fn fence(&self) -> Option<u64> {
        self.heads.fence()
    }
}
