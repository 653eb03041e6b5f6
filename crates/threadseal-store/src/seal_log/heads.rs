//! [`LoggedHeads`]: heads that are logged when they are stored, and judged by the log when they are fetched.
//!
//! The store of heads is a folder: whoever may write there can put back an older head together with the older record. The log cannot be
//! put back in part, and not as a whole without falling behind its mark. So where the log knows a later head of a record than the
//! store, or another one of the same number, the log's counts.

use super::SealLog;
use crate::heads::{Durability, HeadStore, RecordKind, StoredHead, Swap};
use std::sync::Arc;
use threadseal::digest::Digest;
use threadseal::error::Error;
use threadseal::record::{Head, RecordId};

/// A store of heads beside a log.
#[derive(Debug)]
pub struct LoggedHeads {
    heads: Arc<dyn HeadStore>,
    log: Arc<SealLog>,
}

impl LoggedHeads {
    /// What is stored in `heads` is logged in `log`.
    pub fn new(heads: Arc<dyn HeadStore>, log: Arc<SealLog>) -> Self {
        Self { heads, log }
    }

    fn logged(&self, swap: Swap, new: &StoredHead) -> Swap {
        if swap == Swap::Stored {
            self.log.publish(&new.to_log());
        }
        swap
    }
}

impl HeadStore for LoggedHeads {
    fn fetch(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        let stored = self.heads.fetch(record)?;
        let Some((_, logged)) = self.log.newest(record)? else {
            return Ok(stored);
        };
        Ok(Some(match stored {
            Some(stored) if logged.head.seq < stored.head.seq || logged.head == stored.head => {
                stored
            }
            Some(stored) => StoredHead {
                head: logged.head,
                root: logged.root,
                key: logged.key,
                is_final: false,
                ..stored
            },
            None => StoredHead::of_log(&logged),
        }))
    }

    fn fetch_to_replace(&self, record: &RecordId) -> Result<Option<StoredHead>, Error> {
        self.heads.fetch_to_replace(record)
    }

    fn create(&self, new: &StoredHead) -> Result<Swap, Error> {
        let swap = self.heads.create(new)?;
        Ok(self.logged(swap, new))
    }

    fn replace_if(
        &self,
        expected: &Head,
        new: &StoredHead,
        durability: Durability,
    ) -> Result<Swap, Error> {
        let swap = self.heads.replace_if(expected, new, durability)?;
        Ok(self.logged(swap, new))
    }

    fn find_by_line(&self, line: &Digest) -> Result<Vec<RecordId>, Error> {
        self.heads.find_by_line(line)
    }

    fn find_by_place(&self, kind: RecordKind, place: &str) -> Result<Option<StoredHead>, Error> {
        self.heads.find_by_place(kind, place)
    }

    fn fence(&self) -> Option<u64> {
        self.heads.fence()
    }
}
