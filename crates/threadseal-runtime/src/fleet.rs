//! [`Fleet`]: threads on many machines, in one PostgreSQL database.
//!
//! ```text
//! order, signed by its giver ─► taken by a worker, verified ─► else set aside, with the reason
//!     ─► its threads: records, files, registry, budgets, heads
//!        │               all in the database, all under the order's lease
//!        ├─ worker gone: lease expires ─► the next one: children end,
//!        │                                the root continues in its record
//!        └─ resume: the order is given again ─► a successor, under the same order
//! ```
//! An order covers the thread that it starts, everything that this thread starts, and every
//! successor. A worker that loses its lease stops at once: all its later writes are refused, and
//! its tools are stopped.
//!
//! Rows prove nothing: anyone who can write the database can write them. Orders count by their
//! signature, results by the record of the thread.
//!
//! Normative: `spec/runtime.md`, "Many machines".

use crate::bounds::MAX_ORDER_BYTES;
use threadseal_store::postgres::leases::MAX_TASK_BYTES;

const _: () = assert!(
    MAX_ORDER_BYTES == MAX_TASK_BYTES,
    "rows hold each order that is given"
);

mod adopting;
mod again;
mod census;
mod database;
mod exec;
mod folders;
mod giving;
mod heads;
mod held;
mod meters;
mod orphans;
mod stop;
mod verified;
mod work;
mod worker;
pub use census::{Census, HeldOrder, Totals};
pub use database::{Books, Fleet};
pub use folders::{THREADS, transcript_of};
pub use giving::{Given, OrderEnd};
pub use meters::{METRICS_TYPE, Monitor};
pub use stop::Cancelled;
pub use worker::{Tally, Worker};
#[cfg(test)]
mod tests;
