//! [`BudgetLedger`]: how much threads may spend, have set aside for their children, and have spent.
//!
//! ```text
//! register   a root and its ceiling
//! reserve    parent → child: set aside in the parent, the child's ceiling
//! commit     spent: once in the thread, once in each thread above it
//! release    the thread ended: the unspent rest goes back
//! transfer   the same, to the successor that continues it
//!
//! outstanding  reserved − spent, of a thread; an ended one still owes it to its running children
//! remaining    ceiling − spent − the outstanding of all children
//! ```
//! However many reservations compete, their sum never exceeds the remainder: each step is one
//! transaction that excludes all other writers. Amounts are whole billionths. A thread's spending
//! includes its children's, so the spending of a tree is that of its root. (Rye adds both, and
//! never records a root's own.)
//!
//! Money that was spent is never refused: it is recorded even beyond the ceiling, and the caller
//! learns of it. (Rye drops it.) A commit has a key, so that a repeated commit after a crash counts
//! once.

mod books;
mod inspect;
mod late;
#[cfg(feature = "postgres")]
mod postgres;
mod schema;
mod sqlite;

pub use inspect::{contradiction, inspect};
pub use late::LateBudgets;
#[cfg(feature = "postgres")]
pub use postgres::PostgresBudgets;
pub use sqlite::SqliteBudgets;

use crate::money::Nanos;
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

    /// Records that `thread` spent `amount`, in it and in every thread above it, and returns the
    /// new total ([`Budget::is_overspent`]). `key` names the spending within its thread: a repeated
    /// key counts once.
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

    /// Ends a thread's budget and returns the freed amount. Repeating the same end changes nothing.
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

    /// The budget of `thread`.
    ///
    /// # Errors
    /// Kind `External` when the store fails, `Refused` when it is damaged.
    fn get(&self, thread: &ThreadId) -> Result<Option<Budget>, Error>;
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

impl Budget {
    /// Was more spent than it may?
    pub fn is_overspent(&self) -> bool {
        self.actual > self.max.unwrap_or_default()
    }
}

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
