//! Lineages in stores: the links of each agent, saved by compare-and-swap on the newest one.
//!
//! ```text
//! a sealed link ─► Advance (verified, allowed) ─► CheckpointStore::save ─► Saved::Stored | Differs
//! newest ─► load ─ prev ─► load ─ prev ─► …       Standings: all of them verified, and remembered
//! ```
//! Laws, for every implementation, tested by one suite (`conformance`):
//! * a store takes a link only as an [`Advance`], which nothing but verification makes; it hashes
//!   the state of the link while it writes, and never publishes other bytes;
//! * the older link is archived before the newer one is published, and publishing is one step.
//!   After a crash the newest link is the last acknowledged one, or one that was being saved. It is
//!   always whole;
//! * of several writers that build on one link one wins; the others get the newest link;
//! * the result of [`CheckpointStore::newest`] survives power loss, so it may be sent to others;
//! * a link that cannot be read is an error, never "no checkpoint". A key that cannot be read is
//!   never replaced.
//!
//! States are streamed: no store holds one in memory. `spec/lineage.md` §14 is normative.

mod advance;
mod checkpoint_store;
#[cfg(any(test, feature = "fault"))]
pub mod conformance;
mod files;
mod keyed;
pub mod migrate;
mod newest;
mod remembered;
#[cfg(any(test, feature = "fault"))]
pub mod sim;
mod standings;
mod state;

pub use advance::Advance;
pub use checkpoint_store::{CheckpointStore, MAX_HISTORY_LINKS, Survey, Surveyed};
pub use files::FileCheckpointStore;
pub use keyed::{KeyedCheckpointStore, MemoryCheckpointStore};
pub use newest::{Newest, Saved, overtaken};
pub use remembered::RememberedStore;
pub use standings::Standings;
pub use state::{NO_STATE, StateBytes, StoredLink};
