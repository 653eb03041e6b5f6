//! PostgreSQL, for many writers on many machines: the one database of a fleet.
//!
//! | file | owns |
//! |---|---|
//! | `connect` | the address, TLS, the pool, what each session must promise |
//! | `failure` | a failed request, and whether to send it again |
//! | `hint` | NOTIFY, which is never trusted |
//! | `database` | [`PostgresDatabase`]: reads and transactions of any layer |
//! | `tables` | the tables of ledgers, heads and objects |
//! | `ledger`, `heads`, `objects` | the stores over these tables |
//! | [`leases`] | orders for workers, each held under a lease |
//! | [`files`] | folders in the database, written under a lease |
//!
//! Everything async stays inside: a caller waits on its own thread.

mod connect;
mod database;
mod failure;
pub mod files;
mod heads;
mod hint;
pub mod leases;
mod ledger;
mod objects;
mod tables;
#[cfg(any(test, feature = "fault"))]
pub mod throwaway;

pub use database::{PostgresDatabase, Session, Value, cell};
pub use heads::PostgresHeadStore;
pub use hint::{Channel, Marks};
pub use ledger::PostgresLedgerStore;
pub use objects::PostgresObjects;
pub use tables::PostgresTables;
