//! [`LedgerStore`]: the calls of a store of ledgers, and the values that cross them.

use crate::fsck::Fault;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use threadseal_core::digest::Digest;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::limits::MAX_LINE_BYTES;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// Most records that one call appends.
pub const MAX_BATCH_RECORDS: usize = 16 << 10;
/// Most bytes of lines that one call appends or returns, unless one line alone has more.
pub const MAX_BATCH_BYTES: usize = 32 << 20;
/// Pause of [`LedgerStore::wait`] between two looks, where a store has nothing better.
const POLL: Duration = Duration::from_millis(10);
/// How often [`LedgerStore::append_with`] starts again before it gives up, where a store cannot
/// exclude other writers. Each time another writer won, so this is no standstill.
pub(crate) const MAX_TRIES: usize = 10_000;
/// The status of a record whose effect is done, by which [`LedgerStore::find_completed`] finds it.
pub const COMPLETED: &str = "completed";

/// The end of a run's ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tip {
    /// Number of records.
    pub count: u64,
    /// Record hash of the last one; `None` when there is none or it is not chained.
    pub hash: Option<Digest>,
}

impl Tip {
    /// Before the first record.
    pub const EMPTY: Self = Self {
        count: 0,
        hash: None,
    };
}

impl fmt::Display for Tip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records", self.count)?;
        self.hash.map_or(Ok(()), |hash| write!(f, ", last {hash}"))
    }
}

/// A record on its way into a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// One compact JSON object, without line feed.
    pub line: Vec<u8>,
    /// Its record hash, if it is chained.
    pub record_hash: Option<Digest>,
    /// Its idempotency key, by which [`LedgerStore::find_completed`] finds it.
    pub idempotency_key: Option<String>,
    /// Its status.
    pub status: String,
}

/// A record from a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its number, from 0.
    pub seq: u64,
    /// Its bytes, without line feed.
    pub line: Vec<u8>,
}

/// The rest of a run that was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tombstone {
    /// The end of its ledger.
    pub tip: Tip,
    /// When it was deleted.
    pub at: Timestamp,
}

/// The result of a compare-and-swap.
#[must_use = "the records may not have been stored"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Append {
    /// All records are stored; the ledger ends here.
    Stored(Tip),
    /// The ledger ends elsewhere; nothing changed.
    Differs(Tip),
}

/// Makes the records that follow a tip.
pub type Make<'m> = dyn FnMut(&Tip) -> Result<Vec<Entry>, Error> + 'm;

/// The ledgers of many runs.
pub trait LedgerStore: fmt::Debug + Send + Sync {
    /// The end of the ledger of `run`; `None` for a run without a record.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] when the run was deleted or its ledger is damaged,
    /// [`ErrorKind::InvalidInput`] when this store cannot hold a run of that name,
    /// [`ErrorKind::External`] when the store cannot be read.
    fn tip(&self, run: &RunId) -> Result<Option<Tip>, Error>;

    /// Appends all `entries` if the ledger ends at `expected` ([`Tip::EMPTY`] for a new run). They
    /// are durable when this returns, unless the store was opened with a weaker policy.
    ///
    /// # Errors
    /// As [`LedgerStore::tip`]; [`ErrorKind::Limit`] for entries that are too large;
    /// [`ErrorKind::External`] when writing fails: the records, or the first of them, may be there
    /// all the same.
    fn append_if(&self, run: &RunId, expected: &Tip, entries: &[Entry]) -> Result<Append, Error>;

    /// Appends the entries that `make` returns for the run's tip, and returns the new end.
    ///
    /// Some stores exclude other writers from the read of the tip until the records are durable. So
    /// no writer works in vain. Other stores call `make` again with each tip that another writer
    /// made first.
    ///
    /// # Errors
    /// As [`LedgerStore::append_if`], and those of `make`; then nothing was appended.
    fn append_with(&self, run: &RunId, make: &mut Make<'_>) -> Result<Tip, Error> {
        let mut tip = self.tip(run)?.unwrap_or_default();
        for _ in 0..MAX_TRIES {
            match self.append_if(run, &tip, &make(&tip)?)? {
                Append::Stored(now) => return Ok(now),
                Append::Differs(now) => tip = now,
            }
        }
        Err(Error::new(
            ErrorKind::External,
            format!("others appended to run {run} {MAX_TRIES} times meanwhile; try again"),
        ))
    }

    /// The records from number `after` on, at most `limit` of them and about [`MAX_BATCH_BYTES`];
    /// empty only at the end.
    ///
    /// # Errors
    /// As [`LedgerStore::tip`].
    fn list_after(&self, run: &RunId, after: u64, limit: usize)
    -> Result<Vec<StoredRecord>, Error>;

    /// The newest record with this idempotency key whose status is [`COMPLETED`].
    ///
    /// # Errors
    /// As [`LedgerStore::tip`].
    fn find_completed(
        &self,
        run: &RunId,
        idempotency_key: &str,
    ) -> Result<Option<StoredRecord>, Error>;

    /// The runs that have records and were not deleted, in order of their bytes, after `after`, at
    /// most `limit`. It skips objects under names that no run has: see [`LedgerStore::strays`].
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the store cannot be read.
    fn runs(&self, after: Option<&RunId>, limit: usize) -> Result<Vec<RunId>, Error>;

    /// Names of stored objects that no run of this store can have, at most `limit`: another program
    /// put them there. None, where only this store can write.
    ///
    /// # Errors
    /// As [`LedgerStore::runs`].
    fn strays(&self, _limit: usize) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Deletes all records of `run` and leaves a tombstone, in one step with the check of its end.
    /// Where the end is not `expected`, nothing changes.
    ///
    /// Returns whether there is a tombstone now, of a ledger that ended as expected. One of an
    /// earlier call counts as well. A run without a record stays as it is.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the store fails; the run may be half deleted then and takes no
    /// record any more; delete it again.
    fn delete(&self, run: &RunId, expected: Option<&Tip>, at: Timestamp) -> Result<bool, Error>;

    /// The tombstone of `run`, if it was deleted.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the store cannot be read.
    fn tombstone(&self, run: &RunId) -> Result<Option<Tombstone>, Error>;

    /// Waits until the ledger has more than `after` records, or `timeout` is over; returns its end.
    /// A hint: it may return early.
    ///
    /// # Errors
    /// As [`LedgerStore::tip`].
    fn wait(&self, run: &RunId, after: u64, timeout: Duration) -> Result<Tip, Error> {
        let mut left = timeout;
        loop {
            let tip = self.tip(run)?.unwrap_or_default();
            if tip.count > after || left.is_zero() {
                return Ok(tip);
            }
            let pause = left.min(POLL);
            thread::sleep(pause);
            left -= pause;
        }
    }

    /// Checks everything that is stored of `run`, with code that shares nothing with the writer.
    /// With `repair` it repairs what is provably torn; nothing else is ever changed.
    ///
    /// # Errors
    /// [`ErrorKind::External`] when the store fails, or is in use while it is to be repaired.
    fn fsck(&self, run: &RunId, repair: bool) -> Result<FsckReport, Error>;

    /// [`LedgerStore::fsck`] of several runs, in their order; the parts that they share are checked
    /// once.
    ///
    /// # Errors
    /// As [`LedgerStore::fsck`].
    fn fsck_runs(&self, runs: &[RunId], repair: bool) -> Result<Vec<FsckReport>, Error> {
        runs.iter().map(|run| self.fsck(run, repair)).collect()
    }

    /// The place of all ledgers of this store, where that is one place that no other store has.
    fn place(&self) -> Option<String> {
        None
    }

    /// The place of the ledger of `run`, which no other store has: what this host knows of an
    /// unsigned ledger holds for it there alone. `None`: the store has no place.
    fn place_of(&self, _run: &RunId) -> Option<String> {
        self.place()
    }

    /// Reasons why this store keeps less than it promises, one sentence each: its settings, or the
    /// system under it.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The result of [`LedgerStore::fsck`] for one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsckReport {
    /// The run of the ledger.
    pub run: RunId,
    /// Records that can be read.
    pub records: u64,
    /// The faults, in order of place.
    pub faults: Vec<Fault>,
    /// The number of faults beyond those that are kept.
    pub more: u64,
}

impl FsckReport {
    /// The empty report of a run.
    pub(crate) fn of(run: &RunId) -> Self {
        Self {
            run: run.clone(),
            records: 0,
            faults: Vec::new(),
            more: 0,
        }
    }

    /// Notes a fault at this place.
    pub(crate) fn fault(
        &mut self,
        code: &'static str,
        at: Option<u64>,
        message: impl Into<String>,
    ) {
        Fault::new(code, at, message).note(&mut self.faults, &mut self.more);
    }

    /// Are there no faults, or only repaired ones?
    pub fn is_clean(&self) -> bool {
        self.more == 0 && self.faults.iter().all(|fault| fault.repaired)
    }
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<S: LedgerStore + ?Sized> LedgerStore for $pointer {
            fn tip(&self, run: &RunId) -> Result<Option<Tip>, Error> {
                (**self).tip(run)
            }

            fn append_if(
                &self,
                run: &RunId,
                expected: &Tip,
                entries: &[Entry],
            ) -> Result<Append, Error> {
                (**self).append_if(run, expected, entries)
            }

            fn append_with(&self, run: &RunId, make: &mut Make<'_>) -> Result<Tip, Error> {
                (**self).append_with(run, make)
            }

            fn list_after(
                &self,
                run: &RunId,
                after: u64,
                limit: usize,
            ) -> Result<Vec<StoredRecord>, Error> {
                (**self).list_after(run, after, limit)
            }

            fn find_completed(
                &self,
                run: &RunId,
                idempotency_key: &str,
            ) -> Result<Option<StoredRecord>, Error> {
                (**self).find_completed(run, idempotency_key)
            }

            fn runs(&self, after: Option<&RunId>, limit: usize) -> Result<Vec<RunId>, Error> {
                (**self).runs(after, limit)
            }

            fn strays(&self, limit: usize) -> Result<Vec<String>, Error> {
                (**self).strays(limit)
            }

            fn delete(
                &self,
                run: &RunId,
                expected: Option<&Tip>,
                at: Timestamp,
            ) -> Result<bool, Error> {
                (**self).delete(run, expected, at)
            }

            fn tombstone(&self, run: &RunId) -> Result<Option<Tombstone>, Error> {
                (**self).tombstone(run)
            }

            fn wait(&self, run: &RunId, after: u64, timeout: Duration) -> Result<Tip, Error> {
                (**self).wait(run, after, timeout)
            }

            fn fsck(&self, run: &RunId, repair: bool) -> Result<FsckReport, Error> {
                (**self).fsck(run, repair)
            }

            fn fsck_runs(&self, runs: &[RunId], repair: bool) -> Result<Vec<FsckReport>, Error> {
                (**self).fsck_runs(runs, repair)
            }

            fn place(&self) -> Option<String> {
                (**self).place()
            }

            fn place_of(&self, run: &RunId) -> Option<String> {
                (**self).place_of(run)
            }

            fn warnings(&self) -> Vec<String> {
                (**self).warnings()
            }
        }
    )*};
}

forward!(Box<S>, Arc<S>);

/// Refuses entries that no store takes.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] for a line that is not one object in one line, [`ErrorKind::Limit`]
/// for entries that are too large.
pub(crate) fn check_entries(entries: &[Entry]) -> Result<(), Error> {
    let bytes: usize = entries.iter().map(|entry| entry.line.len()).sum();
    let too_long = entries.iter().any(|e| e.line.len() > MAX_LINE_BYTES);
    if entries.len() > MAX_BATCH_RECORDS || bytes > MAX_BATCH_BYTES || too_long {
        let text = format!(
            "one call appends at most {MAX_BATCH_RECORDS} records and {MAX_BATCH_BYTES} bytes, each \
             record at most {MAX_LINE_BYTES}"
        );
        return Err(Error::new(ErrorKind::Limit, text));
    }
    let is_object_line = |line: &[u8]| {
        let in_one_line = !line.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0));
        line.first() == Some(&b'{') && line.last() == Some(&b'}') && in_one_line
    };
    match entries.iter().find(|entry| !is_object_line(&entry.line)) {
        Some(_) => Err(Error::invalid("a record is one JSON object in one line")),
        None => Ok(()),
    }
}

/// The refusal of a run that was deleted.
pub(crate) fn deleted(run: &RunId, tombstone: &Tombstone) -> Error {
    Error::refused(format!(
        "the ledger of run {run} was deleted at {} with {}; it accepts no more records",
        tombstone.at.to_iso_seconds(),
        tombstone.tip
    ))
}
