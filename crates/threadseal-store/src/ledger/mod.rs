//! Ledgers in stores: the records of each run in order, appended by compare-and-swap.
//!
//! ```text
//! StepRecord ─► ChainedLedger (hashes, signs, retries) ─► LedgerStore (bytes, order, durability)
//! ```
//! A [`LedgerStore`] keeps lines and knows the end of each run (its [`Tip`]). It appends only to
//! the end that the caller names. Of two writers that saw the same end one wins, and the other gets
//! the new end. A chain cannot fork through this interface, whatever the number of writers. Laws,
//! for every implementation, tested by one suite (`conformance`):
//! * records are numbered from 0 without gaps; bytes come back as they were given;
//! * an acknowledged record is there after a crash, unless the store was opened with a weaker
//!   policy; of an unacknowledged batch the first records may be there;
//! * a deleted run leaves a [`Tombstone`] and takes no record ever again;
//! * a ledger that cannot be read is an error, never "no records".
//!
//! `spec/ledger-store.md` is normative.

mod chained;
#[cfg(any(test, feature = "fault"))]
pub mod conformance;
mod cursor;
mod jsonl;
pub mod known;
mod ledger_store;
mod memory;
#[cfg(feature = "object")]
mod object;
mod observable;
mod offloading;
#[cfg(all(test, feature = "postgres", feature = "sqlite"))]
pub(crate) mod processes;
mod recorder;
mod verify;

pub use chained::{ActorSigners, Appended, ChainedLedger, HashChainedLedgerStore, RecordSigner};
pub use cursor::{LedgerStoreExt, List, Subscription};
pub use jsonl::{IndexState, JsonlLedgerStore};
#[cfg(feature = "object")]
pub(crate) use ledger_store::MAX_TRIES;
pub use ledger_store::{
    Append, COMPLETED, Entry, FsckReport, LedgerStore, MAX_BATCH_BYTES, MAX_BATCH_RECORDS, Make,
    StoredRecord, Tip, Tombstone,
};
pub(crate) use ledger_store::{check_entries, deleted};
pub use memory::MemoryLedgerStore;
#[cfg(feature = "object")]
pub use object::ObjectLedgerStore;
pub use observable::{Observable, Observer, ObserverId};
pub use offloading::{
    ArtifactStore, FileArtifacts, MAX_INLINE_BYTES, MemoryArtifacts, Offloading, artifact_id,
};
pub use recorder::{Answer, OpenStep, RunRecorder, Step};
pub use verify::{verify, verify_records};
