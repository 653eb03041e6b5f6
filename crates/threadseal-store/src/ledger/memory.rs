//! [`MemoryLedgerStore`]: ledgers that live as long as the process; for tests and short runs.

use super::{
    Append, COMPLETED, Entry, FsckReport, LedgerStore, MAX_BATCH_BYTES, StoredRecord, Tip,
    Tombstone, check_entries, deleted,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_core::time::Timestamp;
use threadseal_formats::ledger::RunId;

/// Ledgers in memory.
#[derive(Debug, Default)]
pub struct MemoryLedgerStore {
    runs: Mutex<BTreeMap<RunId, Run>>,
    grown: Condvar,
}

#[derive(Debug)]
enum Run {
    Living(Ledger),
    Deleted(Tombstone),
}

#[derive(Debug, Default)]
struct Ledger {
    tip: Tip,
    lines: Vec<Vec<u8>>,
    /// The newest completed record of each idempotency key.
    completed: BTreeMap<String, usize>,
}

impl Ledger {
    fn record(&self, index: usize) -> Option<StoredRecord> {
        let line = self.lines.get(index)?.clone();
        let seq = index as u64;
        Some(StoredRecord { seq, line })
    }

    fn push(&mut self, entry: &Entry) {
        if let Some(key) = &entry.idempotency_key
            && entry.status == COMPLETED
        {
            self.completed.insert(key.clone(), self.lines.len());
        }
        self.lines.push(entry.line.clone());
        self.tip = Tip {
            count: self.lines.len() as u64,
            hash: entry.record_hash,
        };
    }
}

type Runs = BTreeMap<RunId, Run>;

impl MemoryLedgerStore {
    /// A store without a run.
    pub fn new() -> Self {
        Self::default()
    }

    fn runs_now(&self) -> MutexGuard<'_, Runs> {
        // Every change is made in one step, so a panic elsewhere left nothing half done.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn living<'r>(runs: &'r Runs, run: &RunId) -> Result<Option<&'r Ledger>, Error> {
    match runs.get(run) {
        None => Ok(None),
        Some(Run::Living(ledger)) => Ok(Some(ledger)),
        Some(Run::Deleted(tombstone)) => Err(deleted(run, tombstone)),
    }
}

impl LedgerStore for MemoryLedgerStore {
    fn tip(&self, run: &RunId) -> Result<Option<Tip>, Error> {
        Ok(living(&self.runs_now(), run)?.map(|ledger| ledger.tip))
    }

    fn append_if(&self, run: &RunId, expected: &Tip, entries: &[Entry]) -> Result<Append, Error> {
        check_entries(entries)?;
        let mut runs = self.runs_now();
        let tip = living(&runs, run)?.map_or(Tip::EMPTY, |ledger| ledger.tip);
        if tip != *expected {
            return Ok(Append::Differs(tip));
        }
        if entries.is_empty() {
            return Ok(Append::Stored(tip));
        }
        let ledger = runs
            .entry(run.clone())
            .or_insert_with(|| Run::Living(Ledger::default()));
        let Run::Living(ledger) = ledger else {
            return Ok(Append::Differs(tip));
        };
        entries.iter().for_each(|entry| ledger.push(entry));
        self.grown.notify_all();
        Ok(Append::Stored(ledger.tip))
    }

    fn list_after(
        &self,
        run: &RunId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, Error> {
        let runs = self.runs_now();
        let Some(ledger) = living(&runs, run)? else {
            return Ok(Vec::new());
        };
        let first = usize::try_from(after).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let in_bounds = |record: &StoredRecord| {
            bytes += record.line.len();
            bytes <= MAX_BATCH_BYTES || bytes == record.line.len()
        };
        let records = (first..ledger.lines.len()).map_while(|index| ledger.record(index));
        Ok(records.take(limit).take_while(in_bounds).collect())
    }

    fn find_completed(
        &self,
        run: &RunId,
        idempotency_key: &str,
    ) -> Result<Option<StoredRecord>, Error> {
        let runs = self.runs_now();
        let found = living(&runs, run)?.and_then(|ledger| {
            let index = *ledger.completed.get(idempotency_key)?;
            ledger.record(index)
        });
        Ok(found)
    }

    fn runs(&self, after: Option<&RunId>, limit: usize) -> Result<Vec<RunId>, Error> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let runs = self.runs_now();
        let living = runs
            .range::<RunId, _>((from, Bound::Unbounded))
            .filter(|(_, run)| matches!(run, Run::Living(_)));
        Ok(living.map(|(run, _)| run.clone()).take(limit).collect())
    }

    fn delete(&self, run: &RunId, expected: Option<&Tip>, at: Timestamp) -> Result<bool, Error> {
        let mut runs = self.runs_now();
        let Some(found) = runs.get_mut(run) else {
            return Ok(false);
        };
        let tip = match found {
            Run::Living(ledger) => ledger.tip,
            Run::Deleted(tombstone) => tombstone.tip,
        };
        if expected.is_some_and(|expected| *expected != tip) {
            return Ok(false);
        }
        if let Run::Living(_) = found {
            *found = Run::Deleted(Tombstone { tip, at });
        }
        Ok(true)
    }

    fn tombstone(&self, run: &RunId) -> Result<Option<Tombstone>, Error> {
        Ok(match self.runs_now().get(run) {
            Some(Run::Deleted(tombstone)) => Some(*tombstone),
            _ => None,
        })
    }

    fn wait(&self, run: &RunId, after: u64, timeout: Duration) -> Result<Tip, Error> {
        let nothing_new = |runs: &mut Runs| match runs.get(run) {
            None => true,
            Some(Run::Living(ledger)) => ledger.tip.count <= after,
            Some(Run::Deleted(_)) => false,
        };
        let (runs, _) = self
            .grown
            .wait_timeout_while(self.runs_now(), timeout, nothing_new)
            .unwrap_or_else(PoisonError::into_inner);
        Ok(living(&runs, run)?.map_or(Tip::EMPTY, |ledger| ledger.tip))
    }

    /// Memory does not tear: there is nothing to find.
    fn fsck(&self, run: &RunId, _: bool) -> Result<FsckReport, Error> {
        let records = match self.runs_now().get(run) {
            Some(Run::Living(ledger)) => ledger.tip.count,
            _ => 0,
        };
        Ok(FsckReport {
            run: run.clone(),
            records,
            faults: Vec::new(),
            more: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::conformance;
    use std::sync::Arc;

    #[test]
    fn the_store_in_memory_passes_the_suite() {
        conformance::run(&|| {
            let store = Arc::new(MemoryLedgerStore::new());
            Box::new(move || Box::new(Arc::clone(&store)))
        });
    }
}
