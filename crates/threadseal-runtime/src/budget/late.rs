//! [`LateBudgets`]: a ledger that is read without opening it, and opened only for the first write.

use super::{Budget, BudgetLedger, Hold, SqliteBudgets};
use crate::money::{Nanos, Share};
use crate::registry::{make_folder, once};
use crate::status::Status;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;
use threadseal_store::sys::Fs;

/// Budgets in an SQLite file, which is made, or brought up to date, by the first that writes to it.
#[derive(Debug)]
pub struct LateBudgets {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    opened: OnceLock<SqliteBudgets>,
    opening: Mutex<()>,
}

impl LateBudgets {
    /// The ledger at `path`; neither it nor its folder need be there.
    pub fn new(fs: Arc<dyn Fs>, path: PathBuf) -> Self {
        Self {
            fs,
            path,
            opened: OnceLock::new(),
            opening: Mutex::default(),
        }
    }

    fn open(&self) -> Result<&SqliteBudgets, Error> {
        let (fs, path) = (&*self.fs, &self.path);
        once(&self.opened, &self.opening, || {
            make_folder(fs, path)?;
            SqliteBudgets::open(path)
        })
    }
}

impl BudgetLedger for LateBudgets {
    fn register(&self, root: &ThreadId, max: Nanos, at: Timestamp) -> Result<(), Error> {
        self.open()?.register(root, max, at)
    }

    fn reserve(
        &self,
        child: &ThreadId,
        parent: &ThreadId,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.open()?.reserve(child, parent, amount, at)
    }

    fn reserve_share(
        &self,
        child: &ThreadId,
        parent: &ThreadId,
        most: Nanos,
        share: Share,
        at: Timestamp,
    ) -> Result<Nanos, Error> {
        self.open()?.reserve_share(child, parent, most, share, at)
    }

    fn hold(
        &self,
        thread: &ThreadId,
        key: &str,
        least: Nanos,
        most: Nanos,
        at: Timestamp,
    ) -> Result<Option<Nanos>, Error> {
        self.open()?.hold(thread, key, least, most, at)
    }

    fn charge_holds(&self, thread: &ThreadId, at: Timestamp) -> Result<Vec<Hold>, Error> {
        self.open()?.charge_holds(thread, at)
    }

    fn commit(
        &self,
        thread: &ThreadId,
        key: &str,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<Budget, Error> {
        self.open()?.commit(thread, key, amount, at)
    }

    fn settle(
        &self,
        thread: &ThreadId,
        key: &str,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.open()?.settle(thread, key, amount, at)
    }

    fn release(&self, thread: &ThreadId, end: Status, at: Timestamp) -> Result<Nanos, Error> {
        self.open()?.release(thread, end, at)
    }

    fn transfer(&self, old: &ThreadId, new: &ThreadId, at: Timestamp) -> Result<Nanos, Error> {
        self.open()?.transfer(old, new, at)
    }

    fn put_back(&self, thread: &ThreadId, right: &Budget, at: Timestamp) -> Result<(), Error> {
        self.open()?.put_back(thread, right, at)
    }

    fn get(&self, thread: &ThreadId) -> Result<Option<Budget>, Error> {
        match self.opened.get() {
            Some(opened) => opened.get(thread),
            None => SqliteBudgets::view(&self.path, thread),
        }
    }
}
