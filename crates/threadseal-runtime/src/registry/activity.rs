//! [`Activity`]: what the threads of one process did, as counters.

use crate::limit::Cost;
use crate::money::Nanos;
use crate::status::Status;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters that only rise, from the start of the process on.
#[derive(Debug, Default)]
pub struct Activity {
    turns: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    spend_nanos: AtomicU64,
    ended: [AtomicU64; Status::ALL.len()],
    model_errors: [AtomicU64; MODEL_ERRORS.len()],
    turn_times: [AtomicU64; TURN_SECONDS.len() + 1],
    turn_micros: AtomicU64,
}

/// The kinds of errors of models; a category that settings name is `other`.
const MODEL_ERRORS: [&str; 5] = [
    "permanent",
    "transient",
    "rate_limited",
    "cancelled",
    "other",
];

/// The upper ends of the classes of turn times, in seconds; the last class has none.
pub const TURN_SECONDS: [u64; 9] = [1, 2, 5, 10, 30, 60, 120, 300, 600];

impl Activity {
    /// Counts what a thread did since the costs before.
    pub(crate) fn cost(&self, before: [u64; 3], after: &Cost) {
        let after = [after.turns, after.input_tokens, after.output_tokens];
        let counters = [&self.turns, &self.input_tokens, &self.output_tokens];
        for ((counter, before), after) in counters.into_iter().zip(before).zip(after) {
            counter.fetch_add(after.saturating_sub(before), Ordering::Relaxed);
        }
    }

    /// Counts a payment.
    pub(crate) fn paid(&self, amount: Nanos) {
        self.spend_nanos.fetch_add(amount.get(), Ordering::Relaxed);
    }

    /// Counts a thread that is over.
    pub(crate) fn ended(&self, status: Status) {
        self.ended[status as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an error of a model.
    pub(crate) fn failed(&self, category: &str) {
        let known = MODEL_ERRORS.iter().position(|kind| *kind == category);
        let kind = known.unwrap_or(MODEL_ERRORS.len() - 1);
        self.model_errors[kind].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a turn that took so long.
    pub(crate) fn turned(&self, took: Duration) {
        let within = |seconds: &&u64| took <= Duration::from_secs(**seconds);
        let class = TURN_SECONDS
            .iter()
            .filter(|seconds| !within(seconds))
            .count();
        self.turn_times[class].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.turn_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// How many errors of models there were, by kind.
    pub fn model_errors(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = self
            .model_errors
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        MODEL_ERRORS.into_iter().zip(counts)
    }

    /// How many turns took at most each of [`TURN_SECONDS`], then all; and the time of all, in
    /// microseconds.
    pub fn turn_times(&self) -> ([u64; TURN_SECONDS.len() + 1], u64) {
        let mut sum = 0;
        let counts = self.turn_times.each_ref().map(|count| {
            sum += count.load(Ordering::Relaxed);
            sum
        });
        (counts, self.turn_micros.load(Ordering::Relaxed))
    }

    /// Turns of models.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Tokens that models read, and that they wrote.
    pub fn tokens(&self) -> [u64; 2] {
        [&self.input_tokens, &self.output_tokens].map(|tokens| tokens.load(Ordering::Relaxed))
    }

    /// Money that was paid, in billionths of a dollar.
    pub fn spend_nanos(&self) -> u64 {
        self.spend_nanos.load(Ordering::Relaxed)
    }

    /// How many threads are over, by status.
    pub fn ends(&self) -> impl Iterator<Item = (Status, u64)> + '_ {
        let over = |status: &Status| status.is_terminal() || *status == Status::Suspended;
        let count = |status| self.ended[status as usize].load(Ordering::Relaxed);
        Status::ALL
            .into_iter()
            .filter(over)
            .map(move |status| (status, count(status)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_and_errors_are_counted_in_their_classes() {
        let activity = Activity::default();
        for millis in [200, 1000, 1001, 59_000, 4_000_000] {
            activity.turned(Duration::from_millis(millis));
        }
        let (times, micros) = activity.turn_times();
        assert_eq!(times, [2, 3, 3, 3, 3, 4, 4, 4, 4, 5]);
        assert_eq!(micros, 4_061_201_000);
        for category in ["transient", "rate_limited", "drinks", "transient"] {
            activity.failed(category);
        }
        let errors: Vec<u64> = activity.model_errors().map(|error| error.1).collect();
        assert_eq!(errors, [0, 2, 1, 0, 1]);
    }
}
