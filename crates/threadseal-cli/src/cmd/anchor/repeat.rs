//! `anchor check --every`: repeats the check while other processes seal.
//!
//! ```text
//! look at the log ─► it has grown, or an answer is missing ─► ask ─► wait ─┐
//!        ▲                                                                 │
//!        └──── after the interval, or twice as long after each failure ◄───┘
//! ```
//! Like a single check it only reads the log: no seal waits for it.

use super::check::{self, CheckArgs};
use crate::context::{self, Context};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Out;
use crate::render::clean::Clean;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use threadseal_core::merkle::TreeHead;
use threadseal_store::clock::{Clock as _, SystemClock};
use threadseal_store::home::Home;

/// The shortest interval.
const LEAST: Duration = Duration::from_millis(100);
/// After failures, the wait doubles up to this bound, or up to the interval if that is longer.
const MAX_BACK_OFF: Duration = Duration::from_secs(15 * 60);
/// The time between two checks of the end flag.
const PAUSE: Duration = Duration::from_millis(50);

/// Asks whenever the log has grown. Ends when it is interrupted, standard output is closed, or an
/// answer shows that the log was rolled back or forked.
pub(super) fn run(seconds: f64, args: &CheckArgs, context: &Context, out: &mut Out) -> Outcome {
    let every = Duration::try_from_secs_f64(seconds).ok();
    let every = every.filter(|every| *every >= LEAST).ok_or_else(|| {
        Failure::new(format!(
            "--every must be a number of seconds, {} or more",
            LEAST.as_secs_f64()
        ))
    })?;
    let end = Arc::<AtomicBool>::default();
    context::cancel_on_interrupt(&end)?;
    let home = context.existing_home()?;
    // The tree for which every answer was complete.
    let mut done = None;
    let mut failures = 0;
    let mut is_first = true;
    while !end.load(Ordering::SeqCst) {
        let here = tree(&home, context);
        let round = match &here {
            Ok(here) if done == Some(*here) => None,
            Ok(_) => Some(check::once(args, context)),
            Err(failure) => Some(Err(failure.clone())),
        };
        match round {
            None => {}
            Some(Ok((output, exit))) => {
                match context.json {
                    true => out.json_round(&output, exit),
                    false => out.line(Clean(&output.to_string())),
                }
                if exit == Exit::Evidence {
                    return Ok(exit);
                }
                let is_done = exit == Exit::Done;
                // The tree from before the round: entries that were added meanwhile need another
                // round.
                done = here.ok().filter(|_| is_done);
                failures = if is_done { 0 } else { failures + 1 };
            }
            // A first failure is likely a wrong argument, so it ends the command; a later one may
            // pass.
            Some(Err(failure)) if is_first => return Err(failure),
            Some(Err(failure)) => {
                failure.print();
                failures += 1;
            }
        }
        is_first = false;
        if !out.flush() {
            return Ok(Exit::NoVerdict);
        }
        wait(backed_off(every, failures), &end);
    }
    Ok(Exit::Done)
}

/// The present tree of the log.
fn tree(home: &Home, context: &Context) -> Result<TreeHead, Failure> {
    Ok(check::log_of(home, context)?.view()?.tree())
}

/// Twice as long after each failure in a row, up to a bound.
fn backed_off(every: Duration, failures: u32) -> Duration {
    let factor = 2_u32.saturating_pow(failures);
    every.saturating_mul(factor).min(MAX_BACK_OFF.max(every))
}

/// Waits for this time, or until `end` is set.
fn wait(time: Duration, end: &AtomicBool) {
    let began = SystemClock.elapsed();
    let left = || time.checked_sub(SystemClock.elapsed().saturating_sub(began));
    while !end.load(Ordering::SeqCst)
        && let Some(left) = left().filter(|left| !left.is_zero())
    {
        thread::sleep(left.min(PAUSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_is_asked_less_and_less_often_up_to_a_bound() {
        let after =
            |every: u64, failures| backed_off(Duration::from_secs(every), failures).as_secs();
        assert_eq!(
            [0, 1, 2, 3].map(|failures| after(10, failures)),
            [10, 20, 40, 80]
        );
        assert_eq!(after(10, 7), MAX_BACK_OFF.as_secs());
        assert_eq!(after(10, u32::MAX), MAX_BACK_OFF.as_secs());
        assert_eq!(after(3600, 5), 3600);
    }
}
