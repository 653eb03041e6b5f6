//! `cargo xtask migrate-sim [SCHEDULES]`: agents that move between machines, in many schedules, on
//! all cores.

use std::error::Error;
use std::thread;
use threadseal_store::lineage::sim::{self, Plant, Tally};

/// The default number of schedules.
const SCHEDULES: u64 = 100_000;
/// The number of schedules within which a planted bug must be detected.
const PLANTED: u64 = 3000;

/// Runs the schedules, then each planted bug until it is detected; true when every law held.
pub(crate) fn run(arguments: &[&str]) -> Result<bool, Box<dyn Error>> {
    let schedules = match arguments {
        [] => SCHEDULES,
        [number] => number.parse()?,
        _ => return Err(crate::USAGE.into()),
    };
    let cores = thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = schedules.div_ceil(cores);
    let parts = thread::scope(|scope| {
        let parts: Vec<_> = (0..cores)
            .map(|core| {
                let (from, to) = (core * share, ((core + 1) * share).min(schedules));
                scope.spawn(move || sim::run_many(from, to))
            })
            .collect();
        parts
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect::<Vec<_>>()
    });
    let mut tally = Tally::default();
    for part in parts {
        match part.map_err(|_| "a schedule panicked")? {
            Ok(sum) => tally = tally.plus(sum),
            Err(broken) => {
                crate::console::say(&broken.to_string());
                return Ok(false);
            }
        }
    }
    crate::console::say(&format!("{schedules} schedules: {tally:?}"));
    for plant in Plant::ALL {
        match (0..PLANTED).find_map(|seed| sim::run(seed, Some(plant)).err()) {
            Some(caught) => crate::console::say(&format!("{plant:?} is noticed: {caught}")),
            None => {
                crate::console::say(&format!("{plant:?} is not noticed in {PLANTED} schedules"));
                return Ok(false);
            }
        }
    }
    Ok(true)
}
