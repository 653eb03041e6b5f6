//! The surroundings of a thread's loop: its money, the files derived from its record, observers.

use super::children::Children;
use super::cycle::{Progress, Surroundings};
use super::engine::Engine;
use crate::config::models::Prices;
use crate::context::{Fill, Meter};
use crate::journal::Journal;
use crate::limit::Cost;
use crate::model::{ChatMessage, Usage};
use crate::money::Nanos;
use crate::signed_file::SignedFile;
use crate::thread_meta::ThreadMeta;
use threadseal_core::error::{Error, ErrorKind};
use threadseal_core::record::ThreadId;

/// `thread.json` and the knowledge entry, written again and again.
pub(super) struct Files {
    pub(super) meta: ThreadMeta,
    pub(super) file: SignedFile,
    pub(super) entry: SignedFile,
    /// Why the entry does not show the newest state.
    pub(super) unshown: Option<String>,
}

impl Files {
    pub(super) fn write(&mut self, engine: &Engine) -> Result<(), Error> {
        self.meta.updated_at = engine.host.clock.now()?;
        let bytes = self.meta.to_bytes();
        let thread = Some(&self.meta.thread_id);
        self.file
            .write(&engine.host, &engine.keys, thread, &bytes)
            .map(drop)
    }

    /// Rewrites the thread for readers. An entry that cannot be shown is no reason to end a thread.
    /// The record is valid, and the thread's end reports that the entry is out of date.
    pub(super) fn write_entry(&mut self, engine: &Engine, journal: &Journal) -> Result<(), Error> {
        let meta = &self.meta;
        let text = meta.covered(|cover| journal.entry(cover));
        let thread = Some(&meta.thread_id);
        let (host, keys) = (&engine.host, &engine.keys);
        let written = self.entry.write(host, keys, thread, text.as_bytes());
        self.unshown = match written {
            Ok(_) => None,
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Limit) => {
                Some(format!("the knowledge entry is not up to date: {error}"))
            }
            Err(error) => return Err(error),
        };
        Ok(())
    }
}

pub(super) struct Account<'a> {
    pub(super) engine: &'a Engine,
    pub(super) id: &'a ThreadId,
    pub(super) prices: Prices,
    pub(super) children: &'a Children,
    pub(super) files: &'a mut Files,
    pub(super) meter: Meter,
}

impl Surroundings for Account<'_> {
    fn charge(&mut self, turn: u64, usage: &Usage) -> Result<Nanos, Error> {
        let amount = self.prices.cost(&usage.tokens());
        let now = self.engine.host.clock.now()?;
        let budgets = &self.engine.budgets;
        // A worker that takes a thread over repeats its turn, which is paid again.
        let key = match self.engine.host.heads.fence() {
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
        self.files.write(self.engine)?;
        self.files.write_entry(self.engine, journal)?;
        let now = self.engine.host.clock.now()?;
        self.engine.registry.set_cost(self.id, cost, now)
    }

    fn full(&mut self, messages: &[ChatMessage], last: &Usage) -> Option<Fill> {
        self.meter.full(messages, last)
    }

    fn progress(&mut self, progress: Progress<'_>) {
        self.engine.watch.progress(self.id, progress);
    }
}
