//! A store's knowledge of its runs: to append without a read first, and to notice a storage that
//! lost data.

use super::head::Head;
use crate::objects::Version;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use threadseal_formats::ledger::RunId;

/// Heads that are kept to append to.
const MAX_HEADS: usize = 64;
/// Runs whose number of records is remembered.
const MAX_COUNTS: usize = 16_384;
/// Gates: writers of this process that wait for each other do not take each other's turns.
const GATES: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Known {
    seen: Mutex<Seen>,
    gates: [Mutex<()>; GATES],
}

#[derive(Debug, Default)]
struct Seen {
    heads: BTreeMap<RunId, (Arc<Head>, Version)>,
    counts: BTreeMap<RunId, u64>,
}

impl Known {
    /// The newest head that was seen, if it is still kept.
    pub(super) fn head(&self, run: &RunId) -> Option<(Arc<Head>, Version)> {
        self.seen().heads.get(run).cloned()
    }

    /// How many records the run had when it was seen last; 0 if that is not known.
    pub(super) fn count(&self, run: &RunId) -> u64 {
        self.seen().counts.get(run).copied().unwrap_or(0)
    }

    /// Remembers a head, unless a newer one is known.
    pub(super) fn put(&self, run: &RunId, head: Arc<Head>, version: Version) {
        let seen = &mut *self.seen();
        let count = head.tip.count;
        if seen.counts.get(run).is_some_and(|known| *known > count) {
            return;
        }
        make_room(&mut seen.counts, run, MAX_COUNTS);
        make_room(&mut seen.heads, run, MAX_HEADS);
        seen.counts.insert(run.clone(), count);
        seen.heads.insert(run.clone(), (head, version));
    }

    /// Lets in one writer of a run at a time.
    pub(super) fn enter(&self, run: &RunId) -> MutexGuard<'_, ()> {
        let sum = run.as_str().bytes().fold(0, |sum: usize, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        let gate = &self.gates[sum % GATES];
        gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Each change of the maps is whole.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the run whose name is next when there is no room for another one.
fn make_room<T>(map: &mut BTreeMap<RunId, T>, run: &RunId, most: usize) {
    if map.len() < most || map.contains_key(run) {
        return;
    }
    let next = map.range(run..).next().or_else(|| map.iter().next());
    if let Some(victim) = next.map(|(name, _)| name.clone()) {
        map.remove(&victim);
    }
}
