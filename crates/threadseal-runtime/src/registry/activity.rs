//! [`Activity`]: what the threads of one process did, as counters.

use crate::limit::Cost;
use crate::money::Nanos;
use crate::status::Status;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that only rise, from the start of the process on.
#[derive(Debug, Default)]
pub struct Activity {
    turns: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    spend_nanos: AtomicU64,
    ended: [AtomicU64; Status::ALL.len()],
}

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
