//! [`ObjectLedgerStore`]: ledgers in object storage (S3, GCS, Azure, a folder).
//!
//! Each ledger is a segmented log ([`crate::object_log`]) whose items are records:
//!
//! ```text
//! heads/<hex of the run id>                            the head: where the ledger ends
//! segments/<hex>/<20 digits: first>-<64 hex>           sealed records
//! indexes/<hex>/<level>-<20 digits: first>-<64 hex>    names of sealed objects
//! gone/<hex>                                           empty: the run was deleted
//! ```
//! Invariants:
//! * after a lost answer the number drawn for the append shows the result; it is never guessed
//!   (`append`);
//! * no object is used before its digest is verified (`format`);
//! * a storage that lost data which this store has seen is refused (`known`).
//!
//! Hex keeps the order of names, so that runs are listed in it. After a lost race or a crash, a
//! sealed object that no head names is harmless; `fsck` reports those that can never be named any
//! more.

mod append;
mod format;
mod fsck;
mod known;
mod runs;
#[cfg(test)]
mod tests;

use crate::clock::{Clock, SystemClock};
use crate::ledger::{
    Append, Entry, FsckReport, LedgerStore, MAX_BATCH_BYTES, Make, StoredRecord, Tip, Tombstone,
    check_entries,
};
use crate::object_log::Format as _;
use crate::objects::{self, Objects, PAGE, spell};
use format::Ledgers;
use runs::{Runs, check_name};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use threadseal_core::encoding;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// Pauses of [`LedgerStore::wait`]: each poll is a request that costs money.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Ledgers in object storage.
#[derive(Debug)]
pub struct ObjectLedgerStore {
    runs: Runs,
}

impl ObjectLedgerStore {
    /// The ledgers in `objects`.
    pub fn new(objects: Arc<dyn Objects>) -> Self {
        Self {
            runs: Runs::new(objects),
        }
    }
}

impl LedgerStore for ObjectLedgerStore {
    fn tip(&self, run: &RunId) -> Result<Option<Tip>, Error> {
        Ok(self.runs.living(run)?.map(|head| head.facts.tip))
    }

    fn append_if(&self, run: &RunId, expected: &Tip, entries: &[Entry]) -> Result<Append, Error> {
        check_entries(entries)?;
        check_name(run)?;
        append::append_if(&self.runs, run, expected, entries)
    }

    fn append_with(&self, run: &RunId, make: &mut Make<'_>) -> Result<Tip, Error> {
        check_name(run)?;
        append::append_with(&self.runs, run, make)
    }

    fn list_after(
        &self,
        run: &RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, Error> {
        let (mut records, mut bytes) = (Vec::new(), 0);
        let Some(head) = self.runs.living(run)? else {
            return Ok(records);
        };
        if after >= head.facts.tip.count || limit == 0 {
            return Ok(records);
        }
        self.runs.forward(run, &head, after, &mut |first, rows| {
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
        match self.runs.living(run)? {
            Some(head) if !idempotency_key.is_empty() => {
                self.runs.newest_with(run, &head, idempotency_key)
            }
            _ => Ok(None),
        }
    }

    fn runs(&self, after: Option<&RunId>, limit: usize) -> Result<Vec<RunId>, Error> {
        let objects = &self.runs.objects;
        let hex = |run: &RunId| encoding::hex(run.as_str().as_bytes());
        let (mut last, mut runs) = (after.map(hex).unwrap_or_default(), Vec::new());
        while runs.len() < limit {
            let page = limit.saturating_sub(runs.len()).min(PAGE);
            let heads = objects.list(Ledgers::FOLDERS.heads, &last, page)?;
            let Some(end) = heads.last().cloned() else {
                break;
            };
            let gone = objects::names_between(&**objects, Ledgers::FOLDERS.gone, &last, &end)?;
            let living = heads.iter().filter(|name| !gone.contains(name));
            runs.extend(living.filter_map(|name| run_of(name)));
            last = end;
        }
        Ok(runs)
    }

    fn strays(&self, limit: usize) -> Result<Vec<String>, Error> {
        let objects = &self.runs.objects;
        let (mut last, mut strays) = (String::new(), Vec::new());
        while strays.len() < limit {
            let heads = objects.list(Ledgers::FOLDERS.heads, &last, PAGE)?;
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
        append::delete(&self.runs, run, expected, at)
    }

    fn tombstone(&self, run: &RunId) -> Result<Option<Tombstone>, Error> {
        let found = self.runs.fetch(run)?;
        Ok(found.and_then(|(head, _)| head.facts.tombstone()))
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

    fn place(&self) -> Option<String> {
        Some(format!("object:{}", self.runs.objects.place()))
    }

    fn fsck(&self, run: &RunId, repair: bool) -> Result<FsckReport, Error> {
        check_name(run)?;
        fsck::fsck(&self.runs, run, repair)
    }
}

/// The run whose head has this name.
fn run_of(name: &str) -> Option<RunId> {
    let run = RunId::parse(&spell::text_of_hex(name)?).ok()?;
    let is_spelled_so = encoding::hex(run.as_str().as_bytes()) == name;
    (is_spelled_so && check_name(&run).is_ok()).then_some(run)
}
