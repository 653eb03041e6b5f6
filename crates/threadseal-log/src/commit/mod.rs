//! How heads come into the log: they wait on the disk, and one thread of each process commits them.
//!
//! ```text
//! head stored ─► spool ─► committer ─► batch: what does the log lack? ─► log_access ─► writer, marks
//!                  └ lines of other processes ─► spool_quarantine
//! ```
//! A head that waits, or that cannot be committed, never delays or undoes its seal.

pub(crate) mod batch;
pub(crate) mod committer;
pub(crate) mod log_access;
pub(crate) mod spool;
pub(crate) mod spool_quarantine;
