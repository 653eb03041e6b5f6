//! [`ObjectLedgerStore`]: ledgers in object storage (S3, GCS, Azure, a folder).
//!
//! ```text
//! heads/<hex of the run id>                            the head: where the ledger ends  (head.rs)
//! segments/<hex>/<20 digits: first>-<64 hex>           sealed records                   (rows.rs)
//! indexes/<hex>/<level>-<20 digits: first>-<64 hex>    names of sealed objects          (rows.rs)
//! gone/<hex>                                           empty: the run was deleted
//! ```
//! Invariants:
//! * only heads are written again, and only in place of the version that was read, so of several
//!   writers one wins;
//! * a sealed object is durable before a head names it;
//! * an append is one write of a head, rarely with a sealed object before it, however long the
//!   ledger is;
//! * after a lost answer the number drawn for the append shows the result; it is never guessed
//!   (`append`);
//! * no object is used before its digest is verified;
//! * a storage that lost data which this store has seen is refused (`known`).
//!
//! Hex keeps the order of names, so that runs are listed in it. After a lost race or a crash, a
//! sealed object that no head names is harmless; `fsck` reports those that can never be named any
//! more.

mod append;
mod fsck;
mod head;
mod known;
mod rows;
#[cfg(test)]
mod tests;
mod walk;

use super::{Append, Entry, FsckReport, LedgerStore, MAX_BATCH_BYTES, Make, StoredRecord};
use super::{Tip, Tombstone};
use crate::clock::{Clock, SystemClock};
use crate::objects::{self, Objects, PAGE, Version, spell};
use head::{Head, MAX_HEAD_BYTES};
use known::Known;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// Longest run id in bytes: its hex is one part of a name, of which file systems take 255 bytes.
const MAX_NAME_BYTES: usize = 120;
/// The folder of empty objects that mark deleted runs.
const GONE: &str = "gone";
/// Pauses of [`LedgerStore::wait`]: each poll is a request that costs money.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Ledgers in object storage.
#[derive(Debug)]
pub struct ObjectLedgerStore {
    objects: Arc<dyn Objects>,
    known: Known,
}

impl ObjectLedgerStore {
    /// The ledgers in `objects`.
    pub fn new(objects: Arc<dyn Objects>) -> Self {
        Self {
            objects,
            known: Known::default(),
        }
    }

    /// The ledgers in the storage at `url`, with the settings of [`objects::open`].
    ///
    /// # Errors
    /// As [`objects::open`].
    pub fn open(url: &str, settings: &[(String, String)]) -> Result<Self, Error> {
        objects::open(url, settings).map(Self::new)
    }

    /// The head as it is now, deleted runs included.
    fn fetch(&self, run: &RunId) -> Result<Option<(Arc<Head>, Version)>, Error> {
        check_name(run)?;
        let floor = self.known.count(run);
        let name = Head::name(run);
        let found = match self.objects.read(&name, MAX_HEAD_BYTES)? {
            None => None,
            Some(found) => {
                let head = Head::decode(run, &found.bytes);
                let head = head.ok_or_else(|| {
                    objects::damaged(&*self.objects, &name, "is damaged; check it with fsck")
                })?;
                Some((Arc::new(head), found.version))
            }
        };
        let count = found.as_ref().map_or(0, |(head, _)| head.tip.count);
        if count < floor {
            return Err(Error::refused(format!(
                "the ledger of run {run} in {} was rolled back: it has {count} records where {floor} \
                 were seen before",
                self.objects.place()
            )));
        }
        if let Some((head, version)) = &found {
            self.known.put(run, Arc::clone(head), version.clone());
        }
        Ok(found)
    }

    /// The head of a run that has records.
    fn living(&self, run: &RunId) -> Result<Option<Arc<Head>>, Error> {
        let found = self.fetch(run)?.map(|(head, _)| head);
        match found.as_ref().and_then(|head| head.tombstone()) {
            Some(tombstone) => Err(super::deleted(run, &tombstone)),
            None => Ok(found),
        }
    }

    /// Calls `look` with every name in `folder`, in order.
    fn each_name(
        &self,
        folder: &str,
        mut look: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        objects::each_name(&*self.objects, folder, &mut |names| {
            names.iter().try_for_each(|name| look(name))
        })
    }
}

impl LedgerStore for ObjectLedgerStore {
    fn tip(&self, run: &RunId) -> Result<Option<Tip>, Error> {
        Ok(self.living(run)?.map(|head| head.tip))
    }

    fn append_if(&self, run: &RunId, expected: &Tip, entries: &[Entry]) -> Result<Append, Error> {
        super::check_entries(entries)?;
        check_name(run)?;
        append::append_if(self, run, expected, entries)
    }

    fn append_with(&self, run: &RunId, make: &mut Make<'_>) -> Result<Tip, Error> {
        check_name(run)?;
        append::append_with(self, run, make)
    }

    fn list_after(
        &self,
        run: &RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, Error> {
        let (mut records, mut bytes) = (Vec::new(), 0);
        let Some(head) = self.living(run)? else {
            return Ok(records);
        };
        if after >= head.tip.count || limit == 0 {
            return Ok(records);
        }
        walk::forward(self, run, &head, after, &mut |first, rows| {
            let skipped = usize::try_from(after.saturating_sub(first)).unwrap_or(usize::MAX);
            for (seq, row) in (first..).zip(rows).skip(skipped) {
                bytes += row.line.len();
                if records.len() == limit || (bytes > MAX_BATCH_BYTES && !records.is_empty()) {
                    return Ok(ControlFlow::Break(()));
                }
                let line = row.line.clone();
                records.push(StoredRecord { seq, line });
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(records)
    }

    fn find_completed(
        &self,
        run: &RunId,
        idempotency_key: &str,
    ) -> Result<Option<StoredRecord>, Error> {
        match self.living(run)? {
            Some(head) if !idempotency_key.is_empty() => {
                walk::newest_with(self, run, &head, &rows::key_digest(idempotency_key))
            }
            _ => Ok(None),
        }
    }

    fn runs(&self, after: Option<&RunId>, limit: usize) -> Result<Vec<RunId>, Error> {
        let hex = |run: &RunId| encoding::hex(run.as_str().as_bytes());
        let (mut last, mut runs) = (after.map(hex).unwrap_or_default(), Vec::new());
        while runs.len() < limit {
            let page = limit.saturating_sub(runs.len()).min(PAGE);
            let heads = self.objects.list("heads", &last, page)?;
            let Some(end) = heads.last().cloned() else {
                break;
            };
            let gone = objects::names_between(&*self.objects, GONE, &last, &end)?;
            let living = heads.iter().filter(|name| !gone.contains(name));
            runs.extend(living.filter_map(|name| run_of(name)));
            last = end;
        }
        Ok(runs)
    }

    fn strays(&self, limit: usize) -> Result<Vec<String>, Error> {
        let (mut last, mut strays) = (String::new(), Vec::new());
        while strays.len() < limit {
            let heads = self.objects.list("heads", &last, PAGE)?;
            let Some(end) = heads.last().cloned() else {
                break;
            };
            let odd = heads.iter().filter(|name| run_of(name).is_none());
            strays.extend(odd.map(|name| format!("heads/{name}")));
            last = end;
        }
        strays.truncate(limit);
        Ok(strays)
    }

    fn delete(&self, run: &RunId, expected: Option<&Tip>, at: Timestamp) -> Result<bool, Error> {
        check_name(run)?;
        append::delete(self, run, expected, at)
    }

    fn tombstone(&self, run: &RunId) -> Result<Option<Tombstone>, Error> {
        let found = self.fetch(run)?;
        Ok(found.and_then(|(head, _)| head.tombstone()))
    }

    fn wait(&self, run: &RunId, after: u64, timeout: Duration) -> Result<Tip, Error> {
        let (start, mut pause) = (SystemClock.elapsed(), FIRST_PAUSE);
        loop {
            let tip = self.tip(run)?.unwrap_or_default();
            let passed = SystemClock.elapsed().saturating_sub(start);
            let left = timeout.saturating_sub(passed);
            if tip.count > after || left.is_zero() {
                return Ok(tip);
            }
            thread::sleep(pause.min(left));
            pause = MAX_PAUSE.min(pause * 2);
        }
    }

    fn fsck(&self, run: &RunId, repair: bool) -> Result<FsckReport, Error> {
        check_name(run)?;
        fsck::fsck(self, run, repair)
    }
}

/// The run whose head has this name.
fn run_of(name: &str) -> Option<RunId> {
    let run = RunId::parse(&spell::text_of_hex(name)?).ok()?;
    let is_spelled_so = encoding::hex(run.as_str().as_bytes()) == name;
    (is_spelled_so && check_name(&run).is_ok()).then_some(run)
}

fn check_name(run: &RunId) -> Result<(), Error> {
    match run.as_str().len() <= MAX_NAME_BYTES {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "object storage holds runs with names of at most {MAX_NAME_BYTES} bytes"
        ))),
    }
}
