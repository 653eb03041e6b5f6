//! A store's knowledge of its runs: to append without a read first, and to notice a storage that
//! lost data.

use super::format::RunHead;
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
    heads: Mutex<NewestHeads>,
    gates: [Mutex<()>; GATES],
}

#[derive(Debug, Default)]
struct NewestHeads {
    heads: BTreeMap<RunId, (Arc<RunHead>, Version)>,
    counts: BTreeMap<RunId, u64>,
}

impl Known {
    /// The newest head that was seen, if it is still kept.
    pub(super) fn head(&self, run: &RunId) -> Option<(Arc<RunHead>, Version)> {
        self.newest().heads.get(run).cloned()
    }

    /// How many records the run had when it was seen last; 0 if that is not known.
    pub(super) fn count(&self, run: &RunId) -> u64 {
        self.newest().counts.get(run).copied().unwrap_or(0)
    }

    /// Remembers a head, unless a newer one is known.
    pub(super) fn put(&self, run: &RunId, head: Arc<RunHead>, version: Version) {
        let newest = &mut *self.newest();
        let count = head.facts.tip.count;
        if newest.counts.get(run).is_some_and(|known| *known > count) {
            return;
        }
        make_room(&mut newest.counts, run, MAX_COUNTS);
        make_room(&mut newest.heads, run, MAX_HEADS);
        newest.counts.insert(run.clone(), count);
        newest.heads.insert(run.clone(), (head, version));
    }

    /// Lets in one writer of a run at a time.
    pub(super) fn enter(&self, run: &RunId) -> MutexGuard<'_, ()> {
        let sum = run.as_str().bytes().fold(0, |sum: usize, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        let gate = &self.gates[sum % GATES];
        gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn newest(&self) -> MutexGuard<'_, NewestHeads> {
        // Each change of the maps is whole.
        self.heads.lock().unwrap_or_else(PoisonError::into_inner)
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
