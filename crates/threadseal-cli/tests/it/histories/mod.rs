//! Random histories of records, played with the command: honest ones are never accused, and after
//! a dishonest act no record passes.
//!
//! ```text
//! seed ─► honest steps ─► each record is judged after each step       never exit 1
//!                     └─► one act of an attacker ─► judged again      never exit 0
//! ```
//! [`world`] holds the records of a history and judges them, [`honest`] changes them as their owner
//! does, [`attack`] as only an attacker does. A failure names the seed and all steps:
//! `THREADSEAL_HISTORY=SEED` plays that history alone, `THREADSEAL_HISTORIES=N` plays N of each kind.

mod attack;
mod honest;
mod world;

use crate::sandbox::option_env;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use world::Random;
use world::World;

/// Histories of each kind, if no number is asked for.
const HISTORIES: u64 = 100;

/// Plays a history for each seed, and fails with all that failed.
fn play(history: fn(&mut World)) {
    let seeds = seeds("THREADSEAL_HISTORY", "THREADSEAL_HISTORIES", HISTORIES);
    play_all(&seeds, |seed| {
        let mut world = World::new(seed);
        let played = catch_unwind(AssertUnwindSafe(|| history(&mut world)));
        let steps = world.steps.join("\n  ");
        played
            .is_err()
            .then(|| format!("history {seed}:\n  {steps}"))
    });
}

/// The seed that the variable `one` names, or as many as `many` has, or `count`.
pub(crate) fn seeds(one: &str, many: &str, count: u64) -> Vec<u64> {
    let number = |name| option_env(name).map(|text| text.to_str().unwrap().parse().unwrap());
    match number(one) {
        Some(seed) => vec![seed],
        None => (0..number(many).unwrap_or(count)).collect(),
    }
}

/// Plays each seed, on all cores, and fails with what `case` returns of those that failed.
#[track_caller]
pub(crate) fn play_all(seeds: &[u64], case: impl Fn(u64) -> Option<String> + Sync) {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(steps) = case(*seed) {
                failed.lock().unwrap().push(steps);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "{} of {} failed\n{}",
        failed.len(),
        seeds.len(),
        failed.join("\n")
    );
}

// T-HIS-01
#[test]
fn an_honest_history_is_never_accused() {
    play(|world| {
        for _ in 0..world.random.below(8) + 4 {
            honest::step(world);
            world.judge_one();
        }
        world.judge();
    });
}

// T-HIS-02
#[test]
fn after_a_dishonest_act_no_record_passes() {
    play(|world| {
        for _ in 0..world.random.below(4) + 2 {
            honest::step(world);
        }
        world.judge();
        attack::strike(world);
    });
}
