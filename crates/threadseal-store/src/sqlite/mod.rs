//! SQLite files: one database on this machine, for many processes.
//!
//! | file | owns |
//! |---|---|
//! | `connect` | connections: to write durably, to read without leaving a trace |
//! | `turn` | the queue of the writers of one file |
//! | `failure` | errors |
//! | `contents` | the stores in a file |
//! | [`database`] | files of other layers |
//! | [`foreign`] | files of other programs |
//! | `ledger`, `objects` | the stores |

mod connect;
mod contents;
pub mod database;
mod failure;
pub mod foreign;
mod ledger;
mod objects;
mod turn;

pub use contents::Contents;
pub use ledger::SqliteLedgerStore;
pub use objects::SqliteObjects;
