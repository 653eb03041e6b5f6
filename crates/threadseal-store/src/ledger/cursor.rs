//! Reading a ledger as a stream: the present records, and later ones.
//!
//! Both iterators fetch [`PAGE`] records at a time and keep the number of the next one. A reader
//! that stops can continue later from that number, in another process too.

use super::{LedgerStore, StoredRecord};
use std::time::Duration;
use threadseal_core::error::Error;
use threadseal_formats::ledger::RunId;

/// Records that are fetched at once.
const PAGE: usize = 256;

/// The records of a run up to its end; ends with the first error.
#[derive(Debug)]
pub struct List<'s, S: LedgerStore + ?Sized> {
    store: &'s S,
    run: &'s RunId,
    next: u64,
    page: std::vec::IntoIter<StoredRecord>,
    failed: bool,
}

impl<'s, S: LedgerStore + ?Sized> List<'s, S> {
    pub(super) fn new(store: &'s S, run: &'s RunId, from: u64) -> Self {
        Self {
            store,
            run,
            next: from,
            page: Vec::new().into_iter(),
            failed: false,
        }
    }

    /// The number of the record that comes next.
    pub fn position(&self) -> u64 {
        self.next
    }
}

impl<S: LedgerStore + ?Sized> Iterator for List<'_, S> {
    type Item = Result<StoredRecord, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.len() == 0 && !self.failed {
            match self.store.list_after(self.run, self.next, PAGE) {
                Ok(page) => self.page = page.into_iter(),
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        let record = self.page.next()?;
        self.next = record.seq + 1;
        Some(Ok(record))
    }
}

/// The records of a run as they are appended; never ends on its own.
#[derive(Debug)]
pub struct Subscription<'s, S: LedgerStore + ?Sized> {
    list: List<'s, S>,
    patience: Duration,
}

impl<'s, S: LedgerStore + ?Sized> Subscription<'s, S> {
    pub(super) fn new(store: &'s S, run: &'s RunId, after: u64, patience: Duration) -> Self {
        Self {
            list: List::new(store, run, after),
            patience,
        }
    }

    /// The number of the record that comes next.
    pub fn position(&self) -> u64 {
        self.list.position()
    }
}

impl<S: LedgerStore + ?Sized> Iterator for Subscription<'_, S> {
    type Item = Result<StoredRecord, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.list.failed = false;
        if let Some(record) = self.list.next() {
            return Some(record);
        }
        let (run, position) = (self.list.run, self.list.next);
        match self.list.store.wait(run, position, self.patience) {
            Ok(tip) if tip.count > position => self.list.next(),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Iterators over any store.
pub trait LedgerStoreExt: LedgerStore {
    /// All records from number `from` on, to the end, in constant memory.
    fn list<'s>(&'s self, run: &'s RunId, from: u64) -> List<'s, Self> {
        List::new(self, run, from)
    }

    /// All records from number `after` on, and those to come. Each [`Iterator::next`] waits up to
    /// `patience` for one and is `None` when none came; ask again for more.
    fn subscribe<'s>(
        &'s self,
        run: &'s RunId,
        after: u64,
        patience: Duration,
    ) -> Subscription<'s, Self> {
        Subscription::new(self, run, after, patience)
    }
}

impl<S: LedgerStore + ?Sized> LedgerStoreExt for S {}
