//! [`Registry`]: the threads of a project, their states, costs and successors.
//!
//! ```text
//! threads              Rye's table, its columns and its words        (`thread_registry.py`)
//! threadseal_threads   values without a column there: money in billionths, the process's start,
//!                      the record, the fence; beside Rye's table, never in it
//! ```
//! A status changes only along the table of [`crate::status`], by compare-and-swap. The link of a
//! chain is written completely, in both directions and with the new status, or not at all. A
//! child's creation counts against its parent's limit in the same transaction.
//!
//! Registries are not signed. An attacker who can write the file controls all its contents. So
//! facts that matter (permissions, whether a thread ended) are read from signed files, and
//! [`inspect`] reports contradictions in a registry. Ids are checked before they may become paths:
//! a row with an invalid id is never returned.

#[cfg(feature = "postgres")]
mod activity;
mod chain;
mod free;
mod inspect;
mod late;
#[cfg(feature = "postgres")]
mod postgres;
mod recorded;
mod row;
mod rules;
mod schema;
mod sqlite;
mod store;
mod thread;
mod viewed;
#[cfg(feature = "postgres")]
pub use activity::{Activity, TURN_SECONDS};
pub use chain::{Chain, ChainFault};
pub(crate) use free::create_free;
pub(crate) use inspect::contradictions;
pub use inspect::{Fault, Inspection, inspect};
pub(crate) use inspect::{check_rows, looked_at};
pub use late::LateRegistry;
pub(crate) use late::{make_folder, once};
#[cfg(feature = "postgres")]
pub use postgres::PostgresRegistry;
pub use recorded::Recorded;
pub(crate) use recorded::suits;
pub(crate) use row::{count_of, real_of, text_of};
pub use sqlite::{RegistryView, SqliteRegistry};
pub use store::{Registry, Subject};
pub use thread::{Filter, Listing, NewThread, Origin, Process, Thread};
pub use viewed::ViewedRegistry;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod tests;
