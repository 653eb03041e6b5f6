//! The surroundings of a thread's loop: its money, the files derived from its record, observers.

use super::allowance::{Allowed, Attempt, Bill, Short, Sized};
use super::children::Children;
use super::cycle::Surroundings;
use super::derived_files::DerivedFiles;
use super::places::Places;
use super::services::{Progress, Services};
use crate::bounds::COUNT_MARGIN;
use crate::config::models::Prices;
use crate::context::{InputBound, Meter, Window};
use crate::journal::Journal;
use crate::limit::Cost;
use crate::model::{ChatMessage, Model, Request, Usage};
use crate::money::Nanos;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;

/// Turns from one version of the entry whose head is published to the next.
pub(super) const ANCHORED_TURNS: u64 = 64;

pub(super) struct Account<'a> {
    pub(super) services: &'a Services,
    pub(super) id: &'a ThreadId,
    pub(super) model: &'a dyn Model,
    pub(super) prices: Prices,
    pub(super) children: &'a Children,
    pub(super) places: &'a Places,
    pub(super) files: &'a mut DerivedFiles,
    pub(super) meter: Meter,
    pub(super) bound: InputBound,
    /// Tokens that an answer must have room for.
    pub(super) least: u32,
}

impl Account<'_> {
    /// Names the spending of an attempt. A worker that takes a thread over repeats its turn, which
    /// is paid again.
    fn key(&self, attempt: Attempt) -> String {
        let turn = match attempt.number {
            1 => format!("turn {}", attempt.turn),
            number => format!("turn {}.{number}", attempt.turn),
        };
        match self.services.host.heads.fence() {
            Some(token) => format!("{turn} under {token}"),
            None => turn,
        }
    }

    /// The most tokens that the input has. The provider is asked where our own bound would take
    /// more than half of what is left.
    fn input(&self, request: &Request<'_>, tokens_left: Option<u64>) -> Result<u64, Error> {
        let bound = self.bound.of(request);
        if !self.model.counts() || !self.is_close(bound, tokens_left)? {
            return Ok(bound);
        }
        let (hundredths, tokens) = COUNT_MARGIN;
        let counted = self.model.count(request).map(|count| {
            let margin = count.saturating_mul(hundredths).div_ceil(100);
            count.saturating_add(margin).saturating_add(tokens)
        });
        Ok(counted.map_or(bound, |counted| counted.min(bound)))
    }

    /// Does such an input take more than half of the tokens or of the money that is left?
    fn is_close(&self, input: u64, tokens_left: Option<u64>) -> Result<bool, Error> {
        if tokens_left.is_some_and(|left| input > left / 2) {
            return Ok(true);
        }
        let most = self.prices.at_most(input, 0);
        if most == Nanos::ZERO {
            return Ok(false);
        }
        let budget = self.services.budgets.get(self.id)?;
        Ok(budget.is_some_and(|budget| most.get() > budget.remaining.get() / 2))
    }
}

impl Surroundings for Account<'_> {
    fn allow(
        &mut self,
        attempt: Attempt,
        request: &Request<'_>,
        tokens_left: Option<u64>,
    ) -> Result<Result<Allowed, Short>, Error> {
        let input = self.input(request, tokens_left)?;
        let sized = match Sized::within(input, self.least..=request.max_output_tokens, tokens_left)
        {
            Ok(sized) => sized,
            Err(short) => return Ok(Err(short)),
        };
        let (least, most) = sized.costs(&self.prices);
        if most == Nanos::ZERO {
            return Ok(Ok(sized.paid_by(&self.prices, most)));
        }
        let (key, now) = (self.key(attempt), self.services.host.clock.now()?);
        let most = self
            .places
            .left_to_spend()?
            .map_or(most, |left| most.min(left));
        let budgets = &self.services.budgets;
        let held = budgets.hold(self.id, &key, least, most, now)?;
        Ok(match held {
            Some(held) => Ok(sized.paid_by(&self.prices, held)),
            None => Err(Short::Spend(least)),
        })
    }

    fn settle(
        &mut self,
        attempt: Attempt,
        messages: usize,
        allowed: &Allowed,
        bill: Bill,
    ) -> Result<Nanos, Error> {
        if let Bill::Used(usage) = &bill {
            self.bound.learn(messages, usage);
        }
        let amount = bill.amount(&self.prices, allowed.held);
        if amount > Nanos::ZERO || allowed.held > Nanos::ZERO {
            let now = self.services.host.clock.now()?;
            let key = self.key(attempt);
            self.places.settle(self.id, &key, amount, now)?;
        }
        Ok(amount)
    }

    fn children(&self) -> (Nanos, u64) {
        self.children.spent()
    }

    fn turn_over(&mut self, journal: &mut Journal, cost: &Cost) -> Result<(), Error> {
        self.files.meta.cost = Some(*cost);
        match journal.turn() % ANCHORED_TURNS {
            1 => self.files.write_entry(self.services, journal)?,
            _ => self.files.write_entry_ahead(self.services, journal)?,
        }
        let now = self.services.host.clock.now()?;
        self.places.set_cost(self.id, cost, now)
    }

    fn window(&mut self, messages: &[ChatMessage], last: &Usage) -> Option<Window> {
        Some(self.meter.window(messages, last))
    }

    fn progress(&mut self, progress: Progress<'_>) {
        self.services.watch.progress(self.id, progress);
    }
}
