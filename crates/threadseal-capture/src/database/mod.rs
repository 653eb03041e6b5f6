//! Sessions in databases of agents (`spec/database-sources.md`): found by content, exported by one rule,
//! and compared with what was sealed.
//!
//! ```text
//! database ─► Kind by its tables ─► one transaction ─► Export: a line for each row ─► RowLog: what changed ─► seal
//!                                                        └─► Difference from the last sealed state
//! ```
//! | module | owns |
//! |---|---|
//! | `kind` | which tables, sessions and keys each agent has |
//! | `value` | the spelling of a value |
//! | `source` | reading: sessions, their stamps, the export of one |
//! | `row_log` | the log of the states of a session |
//! | `difference` | a log and its database, compared |
//!
//! Invariants: a state in a log is one state of the database; nothing of the database is written; what
//! cannot be read is an error and never an empty export.

mod difference;
mod kind;
mod row_log;
mod source;
#[cfg(test)]
mod tests;
mod value;

pub use difference::{ChangedRow, Difference, compare, database_of, database_stamp, judge};
pub use kind::Kind;
pub use row_log::{Added, RowLog, place};
pub use source::{Export, Found, SessionRows, Stamps, find, kind, looks_like, read};

/// Most rows of a session.
pub const MAX_EXPORT_ROWS: usize = 1 << 18;
/// Most bytes of an export, and of the log of its states.
pub const MAX_EXPORT_BYTES: usize = 128 << 20;
/// Most columns of a table.
pub const MAX_COLUMNS: usize = 256;
/// Most sessions of a database.
pub const MAX_SESSIONS: usize = 100_000;
