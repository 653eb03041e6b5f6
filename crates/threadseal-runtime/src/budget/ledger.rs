//! [`BudgetLedger`]: the operations of each store of budgets, and [`Budget`], a row.

use crate::money::{Nanos, Share};
use crate::status::Status;
use std::fmt;
use threadseal_core::error::Error;
use threadseal_core::record::ThreadId;
use threadseal_core::time::Timestamp;

/// A ledger of budgets.
pub trait BudgetLedger: fmt::Debug + Send + Sync {
    /// Adds a root that may spend `max`, its descendants included.
    ///
    /// # Errors
    /// Kind `Refused` when the thread has a budget, `External` when the store fails.
    fn register(&self, root: &ThreadId, max: Nanos, at: Timestamp) -> Result<(), Error>;

    /// Sets `amount` aside in `parent` for its new child `child`, as the child's ceiling.
    ///
    /// # Errors
    /// Kind `Refused` when the parent has no budget, has ended, or less remains; when the child has
    /// a budget (nothing is changed then); `External` when the store fails.
    fn reserve(
        &self,
        child: &ThreadId,
        parent: &ThreadId,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<(), Error>;

    /// Sets aside in `parent`, for its new child `child`, a share of what remains, at most `most`;
    /// returns the amount, the child's ceiling.
    ///
    /// # Errors
    /// As [`BudgetLedger::reserve`]; also kind `Refused` when the share of a positive amount is
    /// nothing.
    fn reserve_share(
        &self,
        child: &ThreadId,
        parent: &ThreadId,
        most: Nanos,
        share: Share,
        at: Timestamp,
    ) -> Result<Nanos, Error>;

    /// Holds money for a request that is about to be made: of what remains of `thread` at most
    /// `most`, and at least `least`, else None. What is held does not remain. It ends with a
    /// [`BudgetLedger::commit`] under the same key. A repeated key gets the same amount.
    ///
    /// # Errors
    /// Kind `Refused` when the thread has no budget, or has ended, or the key was committed;
    /// `External` when the store fails.
    fn hold(
        &self,
        thread: &ThreadId,
        key: &str,
        least: Nanos,
        most: Nanos,
        at: Timestamp,
    ) -> Result<Option<Nanos>, Error>;

    /// Counts each hold of `thread` as spent, in full, under its key: its process is gone, so the
    /// cost is unknown. Returns them.
    ///
    /// # Errors
    /// Kind `Refused` when the thread has no budget, `External` when the store fails.
    fn charge_holds(&self, thread: &ThreadId, at: Timestamp) -> Result<Vec<Hold>, Error>;

    /// Records that `thread` spent `amount`, in it and in every thread above it, and returns the
    /// new total. `key` names the spending within its thread: a repeated key counts once. A hold
    /// under the key ends.
    ///
    /// # Errors
    /// Kind `Refused` when the thread has no budget, or the key has another amount; `External` when
    /// the store fails.
    fn commit(
        &self,
        thread: &ThreadId,
        key: &str,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<Budget, Error>;

    /// As [`BudgetLedger::commit`], for the cost of a request. Where a hold under the key has at
    /// least that amount, only the next call makes it durable: if power is lost before, the hold is
    /// back, and counts as spent ([`BudgetLedger::charge_holds`]).
    ///
    /// # Errors
    /// As [`BudgetLedger::commit`].
    fn settle(
        &self,
        thread: &ThreadId,
        key: &str,
        amount: Nanos,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.commit(thread, key, amount, at).map(drop)
    }

    /// Ends a thread's budget and returns the freed amount; its holds count as spent before. A
    /// suspended thread's budget may end again, as that thread does. Repeating the same end changes
    /// nothing.
    ///
    /// # Errors
    /// Kind `Refused` when the thread has no budget, or ended otherwise; `InvalidInput` when `end`
    /// is no end; `External` when the store fails.
    fn release(&self, thread: &ThreadId, end: Status, at: Timestamp) -> Result<Nanos, Error>;

    /// Ends the budget of `old` as continued and gives its remainder to its successor `new`, a
    /// sibling; returns the remainder.
    ///
    /// # Errors
    /// Kind `Refused` when `old` has no budget or has ended, or `new` has one; `External` when the
    /// store fails.
    fn transfer(&self, old: &ThreadId, new: &ThreadId, at: Timestamp) -> Result<Nanos, Error>;

    /// Puts the row of a thread back: it has this parent, ceiling and reservation, at least this
    /// spending, and is active. Its holds stay.
    ///
    /// # Errors
    /// Kind `External` when the store fails.
    fn put_back(&self, thread: &ThreadId, right: &Budget, at: Timestamp) -> Result<(), Error>;

    /// The budget of `thread`.
    ///
    /// # Errors
    /// Kind `External` when the store fails, `Refused` when it is damaged.
    fn get(&self, thread: &ThreadId) -> Result<Option<Budget>, Error>;
}

/// Money held for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Names the spending within its thread.
    pub key: String,
    /// The amount.
    pub nanos: Nanos,
}

/// The budget of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// The thread that gave it.
    pub parent: Option<String>,
    /// The ceiling; None, in rows of Rye, permits no spending.
    pub max: Option<Nanos>,
    /// The amount that the parent set aside for it and has not got back.
    pub reserved: Nanos,
    /// Spent, by it and everything below it.
    pub actual: Nanos,
    /// The amount that it can still spend or reserve.
    pub remaining: Nanos,
    /// `active`, or how it ended.
    pub status: String,
}
