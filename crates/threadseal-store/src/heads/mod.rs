//! The last known head of each record, to detect that a record was cut, rolled back or stripped.
//!
//! A [`HeadStore`] is a map from record id to [`StoredHead`] with compare-and-swap. A record that
//! is moved or copied keeps its identity. Laws, for every implementation:
//! * A head never goes back. The store refuses a lower `seq`, and a smaller `size` (of a record
//!   that only grows). It also refuses the same `seq` with another digest, another kind, and the
//!   removal of "final".
//! * Of two writers who expect the same head, one wins, and the other gets the stored head.
//! * A head that cannot be read is an error, never "unknown": absence needs proof.
//! * A head is stored after the bytes it names are durable, so a file may be ahead of its head. The
//!   reverse never happens.
//!
//! *Aliases* are digests of lines of the record (for example, its first). They find the record
//! again by content when its seals were stripped or its sidecar was deleted. A look-up finds each
//! that a record ever had, also those that its head names no more. *Places* work the
//! other way: they name the record of a kind that was sealed last in a path. So a store notices
//! another record that was put there since.

pub(crate) mod codec;
mod file;
mod head_store;
mod memory;
#[cfg(feature = "object")]
mod object;
mod recent;
#[cfg(test)]
mod tests;

pub use file::FileHeadStore;
pub use head_store::{
    Durability, HeadStore, KnownSalts, LoggedAt, MAX_ALIASES, MAX_HEAD_NUMBER, MAX_PATH_HINT_BYTES,
    MAX_RECORDS_PER_LINE, StoredHead, Swap,
};
pub(crate) use head_store::{admit, checked, succeed};
pub use memory::MemoryHeadStore;
#[cfg(feature = "object")]
pub use object::ObjectHeadStore;
pub use threadseal_core::record::RecordKind;
