//! Every call fails in every way: no two trees of one size are ever signed, and nothing that was signed is ever taken back.

use super::prelude::*;

/// Commits a few batches and folds: what a process does with its log. Stops at the first failure.
fn work(scene: &InMemory, rounds: &[u64]) -> Result<(), Error> {
    let log = scene.try_open()?;
    for (round, count) in (0..).zip(rounds) {
        let first = 1000 * round;
        let heads: Vec<LoggedHead> = heads(1, first..first + count).collect();
        commit(&log, &heads)?;
        if round % 2 == 1 {
            log.fold()?;
        }
    }
    Ok(())
}

/// Lets each `step`-th call fail in every way.
fn fail_each(rounds: &[u64], step: usize) {
    let total: u64 = rounds.iter().sum();
    let prepared = in_memory();
    let scene = prepared.fork();
    let calls = scene.disk.calls_of(|| work(&scene, rounds).unwrap());
    let keeps = [
        Keep::Nothing,
        Keep::Everything,
        Keep::ByLot(7),
        Keep::ByLot(8),
    ];
    let (mut struck, mut failed) = (0, 0);
    for call in (0..calls).step_by(step) {
        for (number, kind) in FaultKind::ALL.into_iter().enumerate() {
            let scene = prepared.fork();
            let fs = &scene.disk;
            fs.plan(call, kind);
            let done = work(&scene, rounds);
            struck += usize::from(fs.struck().is_some());
            failed += usize::from(done.is_err());
            let turn = call / step + number;
            let keep = keeps[turn % keeps.len()];
            let what = format!("{kind:?} at {call} ({:?}), {keep:?}, {done:?}", fs.struck());
            if turn.is_multiple_of(3) {
                // The process lives on and tries again.
                fs.heal();
                let again = work(&scene, rounds);
                assert!(again.is_ok(), "{what}: {again:?}");
            }
            fs.cut_power(keep);
            let log = scene.open();
            let later = commit(&log, &[head(2, 0)]);
            assert!(later.is_ok(), "{what}: {later:?}");
            one_history(&log, &scene.key, &what);
            if done.is_ok() {
                assert!(log.size() > total, "{what}");
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
