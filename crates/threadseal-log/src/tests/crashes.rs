//! Every call fails in every way: no two trees of one size are ever signed, and nothing that was signed is ever taken back.

use super::*;
use std::collections::BTreeMap;
use threadseal_store::fault::{FaultKind, Keep};

/// Commits a few batches and folds: what a process does with its log. Stops at the first failure.
fn work(places: &LogRegistry, key: &Arc<Remembering>, rounds: &[u64]) -> Result<u64, Error> {
    let log = open_or(places, key)?;
    let mut committed = 0;
    for (round, count) in rounds.iter().copied().enumerate() {
        let first = 1000 * round as u64;
        let heads: Vec<LoggedHead> = (first..first + count).map(|seq| head(1, seq)).collect();
        commit(&log, &heads)?;
        committed += count;
        if round % 2 == 1 {
            log.fold()?;
        }
    }
    Ok(committed)
}

pub(crate) fn commit(log: &SealLog, heads: &[LoggedHead]) -> Result<(), Error> {
    let work = |writer: &mut Writer<'_>, index: &HeadIndex| {
        let mut batch = HeadBatch::begin(writer);
        for head in heads {
            batch.add(writer, index, head)?;
        }
        writer.commit(&batch.entries)
    };
    log.access.write(&|| false, work).map(drop)
}

pub(crate) fn open_or(places: &LogRegistry, key: &Arc<Remembering>) -> Result<SealLog, Error> {
    let description = places.current()?.ok_or_else(|| Error::invalid("no log"))?;
    let log_key = LogKey(Arc::clone(key) as _);
    let random = Arc::new(SeededRandom::new(5));
    Ok(SealLog::open(
        places.clone(),
        description,
        Some(log_key),
        random,
    ))
}

/// All trees that were ever signed are one history, and the log as it is now continues all of them.
pub(crate) fn one_history(log: &SealLog, key: &Remembering, what: &str) {
    let mut by_size: BTreeMap<u64, Digest> = BTreeMap::new();
    let view = log.view().unwrap();
    for tree in key.signed.lock().unwrap().iter() {
        let known = by_size.insert(tree.size, tree.root);
        assert!(
            known.is_none_or(|known| known == tree.root),
            "{what}: {}",
            tree.size
        );
    }
    for (size, root) in by_size {
        let tree = TreeHead { size, root };
        assert!(
            view.continues(&tree).unwrap(),
            "{what}: {size} of {}",
            view.tree().size
        );
    }
}

/// Lets each `step`-th call fail in every way.
fn fail_each(rounds: &[u64], step: usize) {
    let total: u64 = rounds.iter().sum();
    let calls = {
        let (fs, places, key) = in_memory();
        fs.plan(usize::MAX, FaultKind::Io);
        work(&places, &key, rounds).unwrap();
        fs.calls()
    };
    let keeps = [
        Keep::Nothing,
        Keep::Everything,
        Keep::ByLot(7),
        Keep::ByLot(8),
    ];
    let (mut struck, mut failed) = (0, 0);
    for call in (0..calls).step_by(step) {
        for (number, kind) in FaultKind::ALL.into_iter().enumerate() {
            let (fs, places, key) = in_memory();
            fs.plan(call, kind);
            let done = work(&places, &key, rounds);
            struck += usize::from(fs.struck().is_some());
            failed += usize::from(done.is_err());
            let turn = call / step + number;
            let keep = keeps[turn % keeps.len()];
            let what = format!("{kind:?} at {call} ({:?}), {keep:?}, {done:?}", fs.struck());
            if turn.is_multiple_of(3) {
                // The process lives on and tries again.
                fs.heal();
                let again = work(&places, &key, rounds);
                assert!(again.is_ok(), "{what}: {again:?}");
            }
            fs.cut_power(keep);
            let log = open_or(&places, &key).unwrap();
            let later = commit(&log, &[head(2, 0)]);
            assert!(later.is_ok(), "{what}: {later:?}");
            one_history(&log, &key, &what);
            if done.is_ok() {
                assert!(log.view().unwrap().tree().size > total, "{what}");
            }
        }
    }
    let tried = calls.div_ceil(step) * FaultKind::ALL.len();
    assert_eq!(struck, tried);
    assert!(failed > tried / 2, "{failed} of {tried}");
}

// T-LOG-27
#[test]
fn whatever_fails_no_two_trees_of_one_size_are_signed_and_none_is_taken_back() {
    fail_each(&[2, 1, 2], 1);
}

// T-LOG-27
#[test]
fn nor_when_it_fails_while_tiles_are_filled() {
    fail_each(&[2, 1, 260], 31);
}
