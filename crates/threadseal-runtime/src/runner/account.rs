//! The surroundings of a thread's loop: its money, the files derived from its record, observers.

use super::children::Children;
use super::cycle::Surroundings;
use super::derived_files::DerivedFiles;
use super::services::{Progress, Services};
use crate::config::models::Prices;
use crate::context::{Fill, Meter};
use crate::journal::Journal;
use crate::limit::Cost;
use crate::model::{ChatMessage, Usage};
use crate::money::Nanos;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;

pub(super) struct Account<'a> {
    pub(super) services: &'a Services,
    pub(super) id: &'a ThreadId,
    pub(super) prices: Prices,
    pub(super) children: &'a Children,
    pub(super) files: &'a mut DerivedFiles,
    pub(super) meter: Meter,
}

impl Surroundings for Account<'_> {
    fn charge(&mut self, turn: u64, usage: &Usage) -> Result<Nanos, Error> {
        let amount = self.prices.cost(&usage.tokens());
        let now = self.services.host.clock.now()?;
        let budgets = &self.services.budgets;
        // A worker that takes a thread over repeats its turn, which is paid again.
        let key = match self.services.host.heads.fence() {
            Some(token) => format!("turn {turn} under {token}"),
            None => format!("turn {turn}"),
        };
        budgets.commit(self.id, &key, amount, now)?;
        Ok(amount)
    }

    fn children(&self) -> (Nanos, u64) {
        self.children.spent()
    }

    fn turn_over(&mut self, journal: &mut Journal, cost: &Cost) -> Result<(), Error> {
        self.files.meta.cost = Some(*cost);
        self.files.write(self.services)?;
        self.files.write_entry(self.services, journal)?;
        let now = self.services.host.clock.now()?;
        self.services.registry.set_cost(self.id, cost, now)
    }

    fn full(&mut self, messages: &[ChatMessage], last: &Usage) -> Option<Fill> {
        self.meter.full(messages, last)
    }

    fn progress(&mut self, progress: Progress<'_>) {
        self.services.watch.progress(self.id, progress);
    }
}
