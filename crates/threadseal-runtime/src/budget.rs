//! [`BudgetLedger`]: how much threads may spend, have set aside for their children, and have spent.
//!
//! ```text
//! register   a root and its ceiling
//! reserve    parent → child: set aside in the parent, the child's ceiling
//! hold       set aside for a request that begins, until its commit
//! commit     spent: once in the thread, once in each thread above it
//! release    the thread ended: the unspent rest goes back
//! transfer   the same, to the successor that continues it
//!
//! outstanding  reserved − spent, of a thread; an ended one still owes it to its running children
//! remaining    ceiling − spent − held − the outstanding of all children
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
mod ledger;
#[cfg(feature = "postgres")]
mod postgres;
mod schema;
mod sqlite;
pub use inspect::{contradiction, inspect};
pub use late::LateBudgets;
pub use ledger::{Budget, BudgetLedger, Hold};
#[cfg(feature = "postgres")]
pub use postgres::PostgresBudgets;
pub use sqlite::SqliteBudgets;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
