//! [`Observable`]: reports each record to observers once it is stored.

use super::{Appended, ChainedLedger, LedgerStore};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use threadseal_core::error::Error;
use threadseal_formats::ledger::{RunId, StepRecord};

/// Called with each stored record, on the thread that stored it. The records of one call come in
/// the order of the ledger.
pub type Observer = dyn Fn(&StepRecord) + Send + Sync;

/// A chained ledger that is watched within this process; other processes subscribe to the store.
pub struct Observable<C> {
    ledger: C,
    observers: Mutex<BTreeMap<u64, Watch>>,
    next: AtomicU64,
}

/// An observer and its runs.
struct Watch {
    /// One run, or all.
    run: Option<RunId>,
    observer: Arc<Observer>,
}

/// Names an observer, to take it away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObserverId(u64);

impl<C: fmt::Debug> fmt::Debug for Observable<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observable")
            .field("ledger", &self.ledger)
            .finish_non_exhaustive()
    }
}

impl<C: ChainedLedger> Observable<C> {
    /// A ledger without an observer.
    pub fn new(ledger: C) -> Self {
        Self {
            ledger,
            observers: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// Reports the records of `run`, or of all runs, to `observer`. A panic of the observer does
    /// not affect the append: the record is stored.
    pub fn observe(
        &self,
        run: Option<RunId>,
        observer: impl Fn(&StepRecord) + Send + Sync + 'static,
    ) -> ObserverId {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let observer = Arc::new(observer);
        let watch = Watch { run, observer };
        self.observers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, watch);
        ObserverId(id)
    }

    /// Takes an observer away.
    pub fn forget(&self, id: ObserverId) {
        self.observers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&id.0);
    }

    fn tell(&self, run: &RunId, records: &[StepRecord]) {
        // Called without the lock, so that an observer may observe and forget.
        let observers: Vec<Arc<Observer>> = self
            .observers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .filter(|watch| watch.run.as_ref().is_none_or(|of| of == run))
            .map(|watch| Arc::clone(&watch.observer))
            .collect();
        for record in records {
            for observer in &observers {
                // Nothing of ours is in an observer's hands when it panics.
                let _ = catch_unwind(AssertUnwindSafe(|| observer(record)));
            }
        }
    }
}

impl<C: ChainedLedger> ChainedLedger for Observable<C> {
    fn append_batch(&self, run: &RunId, records: &[StepRecord]) -> Result<Appended, Error> {
        let appended = self.ledger.append_batch(run, records)?;
        self.tell(run, &appended.records);
        Ok(appended)
    }

    fn begin_batch(&self, run: &RunId, records: &[StepRecord]) -> Result<Option<Appended>, Error> {
        let begun = self.ledger.begin_batch(run, records)?;
        if let Some(appended) = &begun {
            self.tell(run, &appended.records);
        }
        Ok(begun)
    }

    fn records(&self) -> &dyn LedgerStore {
        self.ledger.records()
    }
}
